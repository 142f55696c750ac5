// Unique names: one counter per key, shared by every program of the process until swapped. What
// another thread than the first swaps in is that thread's alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace trireme {

class UniqueNames {
 public:
  explicit UniqueNames(std::string prefix = {}) : prefix_(std::move(prefix)) {}
  // prefix + key + "_" + n, where n counts this key's names from 0.
  std::string generate(std::string_view key);
  const std::string& prefix() const { return prefix_; }

 private:
  std::mutex mutex_;
  std::string prefix_;
  std::map<std::string, int64_t, std::less<>> next_;
};

// The current generator. On this thread the reference stays good until the next call, also when
// another thread swaps.
UniqueNames& unique_names();
// Makes `names` current (null: a fresh one without prefix) and returns what was.
std::shared_ptr<UniqueNames> swap_unique_names(std::shared_ptr<UniqueNames> names);

// Fresh counters while it lives.
class UniqueNameGuard {
 public:
  explicit UniqueNameGuard(std::string prefix = {})
      : before_(swap_unique_names(std::make_shared<UniqueNames>(std::move(prefix)))) {}
  ~UniqueNameGuard() { swap_unique_names(std::move(before_)); }
  UniqueNameGuard(const UniqueNameGuard&) = delete;
  UniqueNameGuard& operator=(const UniqueNameGuard&) = delete;

 private:
  std::shared_ptr<UniqueNames> before_;
};

}  // namespace trireme
