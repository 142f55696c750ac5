// Files of one directory that are saved together: all old or all new, whenever the writer is
// killed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/file.h"

namespace trireme {

// Files are written into a folder of their own below the directory. commit() renames that folder:
// from then on the save has happened, and readers look there first. Its files then move to their
// places; whoever saves next ends what a killed writer did not. Sizes and checksums of the files go
// into .trireme.sums beside them, which others ignore.
class DirectorySave {
 public:
  explicit DirectorySave(const std::string& directory);  // made where there is none
  ~DirectorySave();
  DirectorySave(const DirectorySave&) = delete;
  DirectorySave& operator=(const DirectorySave&) = delete;

  // The next file, by its path below the directory; the one before it is complete.
  ByteSink& file(const std::string& name);
  void commit();

 private:
  void finish_file();

  std::string directory_;
  std::string folder_;  // empty once committed
  int folder_lock_ = -1;
  std::string name_;
  std::optional<NewFile> current_;
  std::map<std::string, std::string> sums_;
};

// What is saved in a directory, as one save left it: writers wait while this lives.
class SavedDirectory {
 public:
  explicit SavedDirectory(const std::string& directory);
  ~SavedDirectory();
  SavedDirectory(const SavedDirectory&) = delete;
  SavedDirectory& operator=(const SavedDirectory&) = delete;

  bool has(const std::string& name) const;
  // An Error when the file is not what a DirectorySave wrote there.
  ByteSource open(const std::string& name) const;
  std::vector<std::string> names() const;  // of all plain files below it

 private:
  std::string path_of(const std::string& name) const;

  std::string directory_;
  int lock_ = -1;
  std::map<std::string, std::string> sums_;
};

// "a/b/c" -> "a/b" and "c": where a save of one file goes.
std::pair<std::string, std::string> split_path(const std::string& path);

}  // namespace trireme
