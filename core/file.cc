// Reading bytes with a bound and a name for errors; writing files that are whole or not there.
#include "core/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/text.h"

namespace trireme {
namespace {

constexpr size_t kChunk = size_t{64} << 10;
constexpr mode_t kAllPermissions = 07777;

Error failed(std::string_view action, const std::string& path) {
  return IoError(cat("cannot ", action, " ", path, ": ", std::strerror(errno)));
}

// The file that `path` names, through links, whether it exists or not.
std::string resolved(const std::string& path) {
  std::error_code problem;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, problem);
  return problem ? path : real.string();
}

// Makes the new name last through a power cut. Some file systems refuse to sync a directory; the
// file itself is safe by then.
void sync_directory(const std::filesystem::path& directory) {
  const int handle = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return;
  ::fsync(handle);
  ::close(handle);
}

}  // namespace

ByteSource ByteSource::file(const std::string& path) {
  const int handle = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (handle < 0) throw failed("open", path);
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
      if (got < 0) throw failed("read", name_);
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

AtomicFile::AtomicFile(const std::string& path) : path_(resolved(path)) {
  static std::atomic<unsigned> count{0};
  const std::filesystem::path directory = std::filesystem::path(path_).parent_path();
  std::error_code problem;
  if (!directory.empty()) std::filesystem::create_directories(directory, problem);
  if (problem) {
    throw IoError(cat("cannot make the directory ", directory.string(), ": ", problem.message()));
  }
  struct stat old {};
  const bool exists = ::stat(path_.c_str(), &old) == 0;
  if (exists && !S_ISREG(old.st_mode)) {
    throw IoError(
        cat("cannot write ", path, ": it is ",
            S_ISDIR(old.st_mode) ? "a directory" : "a device or a pipe, not a plain file"));
  }
  const std::string temporary = cat(path_, ".tmp.", ::getpid(), ".", count++);
  file_ = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) throw failed("write", temporary);
  temporary_ = temporary;
  if (exists) static_cast<void>(::fchmod(file_, old.st_mode & kAllPermissions));
  waiting_.reserve(kChunk);
}

AtomicFile::~AtomicFile() { abandon(); }

void AtomicFile::abandon() noexcept {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

void AtomicFile::write(const void* data, size_t bytes) {
  promise(file_ >= 0, "nothing is written after commit");
  if (bytes == 0) return;
  if (waiting_.size() + bytes > kChunk) flush();
  if (bytes >= kChunk) return write_through(data, bytes);
  const auto* begin = static_cast<const std::byte*>(data);
  waiting_.insert(waiting_.end(), begin, begin + bytes);
}

void AtomicFile::flush() {
  write_through(waiting_.data(), waiting_.size());
  waiting_.clear();
}

void AtomicFile::write_through(const void* data, size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t done = ::write(file_, from, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw failed("write", path_).note("the file under that name is as it was before");
    from += done;
    bytes -= static_cast<size_t>(done);
  }
}

void AtomicFile::commit() {
  flush();
  if (::fsync(file_) != 0) throw failed("write", path_);
  if (::close(std::exchange(file_, -1)) != 0) throw failed("write", path_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw failed("write", path_);
  temporary_.clear();
  sync_directory(std::filesystem::path(path_).parent_path());
}

std::string read_file(const std::string& path, uint64_t most) {
  ByteSource source = ByteSource::file(path);
  if (source.left() > most) {
    throw IoError(cat(path, " has ", source.left(), " bytes, more than the ", most,
                      " that such a file may have"));
  }
  std::string bytes(static_cast<size_t>(source.left()), '\0');
  source.read(bytes.data(), bytes.size(), "the file");
  return bytes;
}

void write_file(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace trireme
