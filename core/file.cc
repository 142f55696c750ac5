// Reading bytes with a bound and a name for errors; writing files that are whole or not there.
#include "core/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/crc32c.h"
#include "core/text.h"

namespace trireme {
namespace {

constexpr size_t kChunk = size_t{64} << 10;
constexpr mode_t kAllPermissions = 07777;

// The file that `path` names, through links, whether it exists or not.
std::string resolved(const std::string& path) {
  std::error_code problem;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, problem);
  return problem ? path : real.string();
}

// Removes what killed writers of `path` left: files beside it that nobody holds the lock of.
void remove_leftovers(const std::filesystem::path& path) {
  const std::string begin = path.filename().string() + ".tmp.";
  std::error_code problem;
  const std::filesystem::path directory = path.has_parent_path() ? path.parent_path() : ".";
  for (const auto& entry : std::filesystem::directory_iterator(directory, problem)) {
    if (!entry.path().filename().string().starts_with(begin)) continue;
    const int handle = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (handle < 0) continue;
    if (::flock(handle, LOCK_EX | LOCK_NB) == 0) ::unlink(entry.path().c_str());
    ::close(handle);
  }
}

bool is_linked(int handle) {
  struct stat facts {};
  return ::fstat(handle, &facts) == 0 && facts.st_nlink > 0;
}

}  // namespace

Error file_error(std::string_view action, const std::string& path) {
  return IoError(cat("cannot ", action, " ", path, ": ", std::strerror(errno)));
}

bool try_lock(int handle, Lock kind) {
  while (::flock(handle, (kind == Lock::alone ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) return true;
  }
  return true;
}

// Some file systems refuse to sync a directory; the files themselves are safe by then.
void sync_directory(const std::string& directory) {
  const int handle =
      ::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return;
  ::fsync(handle);
  ::close(handle);
}

std::optional<unsigned> mode_to_replace(const std::string& path) {
  struct stat old {};
  if (::stat(path.c_str(), &old) != 0) return std::nullopt;
  if (S_ISREG(old.st_mode)) return old.st_mode & kAllPermissions;
  throw IoError(cat("cannot write ", path, ": it is ",
                    S_ISDIR(old.st_mode) ? "a directory" : "a device or a pipe, not a plain file"));
}

ByteSource ByteSource::file(const std::string& path) {
  const int handle = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (handle < 0) throw file_error("open", path);
  struct stat facts {};
  if (::fstat(handle, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    ::close(handle);
    throw IoError(cat("cannot read ", path, ": it is not a plain file"));
  }
  ByteSource source(path, static_cast<uint64_t>(facts.st_size));
  source.file_ = handle;
  return source;
}

ByteSource ByteSource::memory(std::string_view bytes, std::string name) {
  ByteSource source(std::move(name), bytes.size());
  source.memory_ = bytes;
  return source;
}

ByteSource::ByteSource(ByteSource&& other) noexcept
    : name_(std::move(other.name_)),
      size_(other.size_),
      offset_(other.offset_),
      file_(std::exchange(other.file_, -1)),
      memory_(other.memory_),
      ahead_(std::move(other.ahead_)),
      ahead_at_(other.ahead_at_) {}

ByteSource::~ByteSource() {
  if (file_ >= 0) ::close(file_);
}

Error ByteSource::error(std::string_view problem) const {
  return Error(cat(problem, ", at byte ", offset_, " of ", name_));
}

void ByteSource::need(uint64_t bytes, std::string_view what) const {
  if (bytes <= left()) return;
  throw error(cat(what, " needs ", bytes, " bytes but only ", left(), " are left"))
      .fix("the file is damaged or of another kind: save or copy it again");
}

void ByteSource::read(void* to, size_t bytes, std::string_view what) {
  need(bytes, what);
  if (bytes == 0) return;
  if (file_ >= 0) {
    read_file(static_cast<std::byte*>(to), bytes);
  } else {
    std::memcpy(to, memory_.data() + offset_, bytes);
  }
  offset_ += bytes;
}

void ByteSource::skip(uint64_t bytes, std::string_view what) {
  need(bytes, what);
  offset_ += bytes;
}

void ByteSource::read_file(std::byte* to, size_t bytes) {
  const auto fill = [&](std::byte* target, size_t count, uint64_t from) {
    while (count > 0) {
      const ssize_t got = ::pread(file_, target, count, static_cast<off_t>(from));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw file_error("read", name_);
      if (got == 0) throw error("the file became shorter while it was read");
      target += got;
      from += static_cast<uint64_t>(got);
      count -= static_cast<size_t>(got);
    }
  };
  if (bytes >= kChunk) return fill(to, bytes, offset_);
  if (offset_ < ahead_at_ || offset_ + bytes > ahead_at_ + ahead_.size()) {
    ahead_.clear();  // in case filling fails
    std::vector<std::byte> fresh(static_cast<size_t>(std::min<uint64_t>(kChunk, left())));
    fill(fresh.data(), fresh.size(), offset_);
    ahead_ = std::move(fresh);
    ahead_at_ = offset_;
  }
  std::memcpy(to, ahead_.data() + (offset_ - ahead_at_), bytes);
}

NewFile::NewFile(const std::string& path, std::string shown, unsigned mode)
    : shown_(std::move(shown)) {
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (file_ < 0) throw file_error("write", path);
  waiting_.reserve(kChunk);
}

NewFile::NewFile(NewFile&& other) noexcept
    : shown_(std::move(other.shown_)),
      file_(std::exchange(other.file_, -1)),
      size_(other.size_),
      checksum_(other.checksum_),
      waiting_(std::move(other.waiting_)) {}

NewFile::~NewFile() {
  if (file_ >= 0) ::close(file_);
}

void NewFile::write(const void* data, size_t bytes) {
  promise(file_ >= 0, "nothing is written after the end");
  if (bytes == 0) return;
  if (waiting_.size() + bytes > kChunk) flush();
  if (bytes >= kChunk) return write_through(data, bytes);
  const auto* begin = static_cast<const std::byte*>(data);
  waiting_.insert(waiting_.end(), begin, begin + bytes);
}

void NewFile::flush() {
  write_through(waiting_.data(), waiting_.size());
  waiting_.clear();
}

void NewFile::write_through(const void* data, size_t bytes) {
  checksum_ = crc32c(checksum_, data, bytes);
  size_ += bytes;
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t done = ::write(file_, from, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) {
      throw file_error("write", shown_).note("the file under that name is as it was before");
    }
    from += done;
    bytes -= static_cast<size_t>(done);
  }
}

void NewFile::finish() {
  flush();
  if (::fsync(file_) != 0) throw file_error("write", shown_);
  if (::close(std::exchange(file_, -1)) != 0) throw file_error("write", shown_);
}

AtomicFile::AtomicFile(const std::string& path) : path_(resolved(path)) {
  static std::atomic<unsigned> count{0};
  const std::filesystem::path directory = std::filesystem::path(path_).parent_path();
  std::error_code problem;
  if (!directory.empty()) std::filesystem::create_directories(directory, problem);
  if (problem) {
    throw IoError(cat("cannot make the directory ", directory.string(), ": ", problem.message()));
  }
  const std::optional<unsigned> mode = mode_to_replace(path_);
  remove_leftovers(path_);
  do {  // another writer may take it for a leftover before it is locked
    temporary_ = cat(path_, ".tmp.", ::getpid(), ".", count++);
    file_.emplace(temporary_, path_);
    try_lock(file_->handle(), Lock::alone);
  } while (!is_linked(file_->handle()));
  if (mode) static_cast<void>(::fchmod(file_->handle(), *mode));
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, size_t bytes) { file_->write(data, bytes); }

void AtomicFile::commit() {
  file_->finish();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw file_error("write", path_);
  temporary_.clear();
  sync_directory(std::filesystem::path(path_).parent_path());
}

std::string read_rest(ByteSource& source, uint64_t most) {
  if (source.left() > most) {
    throw IoError(cat(source.name(), " has ", source.left(), " bytes, more than the ", most,
                      " that such a file may have"));
  }
  std::string bytes(static_cast<size_t>(source.left()), '\0');
  source.read(bytes.data(), bytes.size(), "the file");
  return bytes;
}

std::string read_file(const std::string& path, uint64_t most) {
  ByteSource source = ByteSource::file(path);
  return read_rest(source, most);
}

void write_file(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace trireme
