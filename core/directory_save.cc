// Files of one directory that are saved together, and how they are read.
#include "core/directory_save.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <span>
#include <sstream>
#include <thread>

#include "core/crc32c.h"
#include "core/tensor_stream.h"
#include "core/text.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSums = ".trireme.sums";
constexpr const char* kCommitted = ".trireme.committed";  // a save that has happened
constexpr const char* kStaged = ".trireme.save.";         // one that may
constexpr auto kMostWait = std::chrono::seconds(60);

using Sums = std::map<std::string, std::string>;

std::string below(const std::string& directory, const std::string& name) {
  return directory.empty() ? name : (fs::path(directory) / name).string();
}

int open_directory(const std::string& directory) {
  return ::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

// A lock of the directory, for as long as this lives. What holds it for longer than a save takes is
// named, not waited for.
class DirectoryLock {
 public:
  explicit DirectoryLock(const std::string& directory) : handle_(open_directory(directory)) {
    if (handle_ < 0) throw file_error("open", directory);
    wait_for(handle_, directory, Lock::alone);
  }
  ~DirectoryLock() { ::close(handle_); }
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  static void wait_for(int handle, const std::string& directory, Lock kind) {
    const auto end = std::chrono::steady_clock::now() + kMostWait;
    while (!try_lock(handle, kind)) {
      if (std::chrono::steady_clock::now() > end) {
        ::close(handle);
        throw Error(ErrorKind::timeout, cat(directory, " is being saved or loaded elsewhere for ",
                                            kMostWait.count(), " seconds"))
            .fix("wait for that process, or end it");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  int handle_;
};

void make_directory(const fs::path& directory) {
  std::error_code problem;
  if (!directory.empty()) fs::create_directories(directory, problem);
  if (problem) {
    throw IoError(cat("cannot make the directory ", directory.string(), ": ", problem.message()));
  }
}

// The plain files below a folder, by their paths relative to it.
std::vector<std::string> plain_files(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      files.push_back(fs::relative(entry.path(), folder).generic_string());
    }
  }
  std::ranges::sort(files);
  return files;
}

// Lines of "crc32c 0a1b2c3d 1024 fc_0.w_0", the sum, the size, the name, as a tensor of bytes: the
// original takes every file of a directory for a tensor when it is told to load them all.
Tensor tensor_of(const std::string& text) {
  Tensor bytes(DType::uint8, {static_cast<int64_t>(text.size())});
  std::ranges::copy(std::as_bytes(std::span(text)), bytes.bytes().begin());
  return bytes;
}

Sums read_sums(const std::string& path) {
  Sums sums;
  if (!fs::is_regular_file(path)) return sums;
  ByteSource file = ByteSource::file(path);
  const Tensor bytes = read_tensor(file);
  std::istringstream lines(
      std::string(reinterpret_cast<const char*>(bytes.bytes().data()), bytes.bytes().size()));
  for (std::string line; std::getline(lines, line);) {
    size_t name = 0;
    for (int word = 0; word < 3 && name != std::string::npos; ++word) {
      name = line.find(' ', name == 0 ? 0 : name + 1);
    }
    if (!line.starts_with("crc32c ") || name == std::string::npos) {
      throw Error(ErrorKind::unavailable, cat(path, " is damaged: it has the line '", line, "'"))
          .fix("copy the directory again; without that file, what is loaded is not checked");
    }
    sums[line.substr(name + 1)] = line.substr(0, name);
  }
  return sums;
}

std::string sum_text(uint32_t checksum, uint64_t size) {
  std::array<char, 16> digits{};
  std::snprintf(digits.data(), digits.size(), "%08x", checksum);
  return cat("crc32c ", digits.data(), " ", size);
}

std::string sum_of_file(const std::string& path) {
  ByteSource file = ByteSource::file(path);
  const uint64_t size = file.left();
  std::vector<char> chunk(size_t{1} << 20);
  uint32_t sum = 0;
  while (file.left() > 0) {
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(chunk.size(), file.left()));
    file.read(chunk.data(), bytes, "the file");
    sum = crc32c(sum, chunk.data(), bytes);
  }
  return sum_text(sum, size);
}

// Moves a committed save's files to their places. Each move may be the last thing that a process
// does: what has not moved is found in the folder.
void finish_committed(const std::string& directory) {
  const std::string folder = below(directory, kCommitted);
  if (!fs::is_directory(folder)) return;
  for (const std::string& name : plain_files(folder)) {
    const std::string to = below(directory, name);
    make_directory(fs::path(to).parent_path());
    if (::rename(below(folder, name).c_str(), to.c_str()) != 0) throw file_error("write", to);
  }
  sync_directory(directory);
  fs::remove_all(folder);
}

// Removes the folders of killed writers: those whose lock nobody holds.
void remove_dead(const std::string& directory) {
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(directory.empty() ? "." : directory, problem)) {
    if (!entry.path().filename().string().starts_with(kStaged)) continue;
    const int handle = open_directory(entry.path().string());
    if (handle < 0) continue;
    if (try_lock(handle, Lock::alone)) fs::remove_all(entry.path(), problem);
    ::close(handle);
  }
}

void check_name(const std::string& name) {
  const std::string normal = fs::path(name).lexically_normal().generic_string();
  if (normal.empty() || normal == "." || normal.starts_with("..") || normal.starts_with("/")) {
    throw Error(cat("the file name '", name, "' leads out of the directory"))
        .fix("name a file below the directory");
  }
}

}  // namespace

DirectorySave::DirectorySave(const std::string& directory) : directory_(directory) {
  static std::atomic<unsigned> count{0};
  make_directory(directory_);
  const DirectoryLock lock(directory_);
  finish_committed(directory_);
  remove_dead(directory_);
  const std::string folder = below(directory_, cat(kStaged, ::getpid(), ".", count++));
  if (::mkdir(folder.c_str(), 0777) != 0) throw file_error("write", folder);
  folder_ = folder;
  folder_lock_ = open_directory(folder_);
  if (folder_lock_ >= 0) try_lock(folder_lock_, Lock::alone);
}

DirectorySave::~DirectorySave() {
  current_.reset();
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
  if (folder_lock_ >= 0) ::close(folder_lock_);
}

ByteSink& DirectorySave::file(const std::string& name) {
  finish_file();
  check_name(name);
  const std::string target = below(directory_, name);
  const std::optional<unsigned> mode = mode_to_replace(target);
  const std::string path = below(folder_, name);
  make_directory(fs::path(path).parent_path());
  current_.emplace(path, target);
  if (mode) static_cast<void>(::fchmod(current_->handle(), *mode));
  name_ = name;
  return *current_;
}

void DirectorySave::finish_file() {
  if (!current_) return;
  current_->finish();
  if (name_.find('\n') == std::string::npos) {
    sums_[name_] = sum_text(current_->checksum(), current_->size());
  }
  current_.reset();
}

void DirectorySave::commit() {
  finish_file();
  const DirectoryLock lock(directory_);
  finish_committed(directory_);
  for (const auto& [name, sum] : read_sums(below(directory_, kSums))) {
    if (!sums_.count(name) && fs::exists(below(directory_, name))) sums_[name] = sum;
  }
  NewFile sums(below(folder_, kSums), below(directory_, kSums));
  std::string lines;
  for (const auto& [name, sum] : sums_) lines += cat(sum, " ", name, "\n");
  write_tensor(sums, tensor_of(lines));
  sums.finish();
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    if (entry.is_directory()) sync_directory(entry.path().string());
  }
  sync_directory(folder_);
  if (::rename(folder_.c_str(), below(directory_, kCommitted).c_str()) != 0) {
    throw file_error("write", directory_);
  }
  folder_.clear();
  sync_directory(directory_);
  finish_committed(directory_);
}

SavedDirectory::SavedDirectory(const std::string& directory) : directory_(directory) {
  lock_ = open_directory(directory_);
  if (lock_ < 0) return;  // there is nothing: has() and open() say so
  DirectoryLock::wait_for(lock_, directory_, Lock::shared);
  sums_ = read_sums(path_of(kSums));
}

SavedDirectory::~SavedDirectory() {
  if (lock_ >= 0) ::close(lock_);
}

std::string SavedDirectory::path_of(const std::string& name) const {
  const std::string committed = below(below(directory_, kCommitted), name);
  return fs::is_regular_file(committed) ? committed : below(directory_, name);
}

bool SavedDirectory::has(const std::string& name) const {
  return fs::is_regular_file(path_of(name));
}

ByteSource SavedDirectory::open(const std::string& name) const {
  const std::string path = path_of(name);
  ByteSource source = ByteSource::file(path);
  const auto saved = sums_.find(name);
  if (saved == sums_.end()) return source;
  const std::string found = sum_of_file(path);
  if (found == saved->second) return source;
  throw Error(ErrorKind::unavailable, cat(path, " is damaged: it is not what was saved there"))
      .note(cat("saved: ", saved->second, " bytes"))
      .note(cat("found: ", found, " bytes"))
      .fix(cat("save or copy it again. If another program put it there on purpose, remove ",
               below(directory_, kSums)));
}

std::vector<std::string> SavedDirectory::names() const {
  std::vector<std::string> names;
  for (const std::string& file : plain_files(directory_.empty() ? "." : directory_)) {
    if (file.starts_with(kStaged) || file == kSums) continue;
    const std::string committed = std::string(kCommitted) + "/";
    names.push_back(file.starts_with(committed) ? file.substr(committed.size()) : file);
  }
  std::erase(names, kSums);
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::pair<std::string, std::string> split_path(const std::string& path) {
  const fs::path whole(path);
  return {whole.parent_path().string(), whole.filename().string()};
}

}  // namespace trireme
