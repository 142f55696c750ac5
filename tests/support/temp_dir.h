// A directory that goes away with the test.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace trireme::testing {

class TempDir {
 public:
  TempDir() : path_(::testing::TempDir() + "trireme_XXXXXX") {
    if (!::mkdtemp(path_.data())) throw std::runtime_error("cannot make a temporary directory");
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace trireme::testing
