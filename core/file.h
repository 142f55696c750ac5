// Reading bytes with a bound and a name for errors; writing files that are whole or not there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/error.h"

namespace trireme {

// A file or a piece of memory, read front to back. How much is left is always known, so a reader
// checks a size before it allocates.
class ByteSource {
 public:
  static ByteSource file(const std::string& path);  // an IoError unless it is a readable plain file
  static ByteSource memory(std::string_view bytes, std::string name);  // looks, does not own
  ~ByteSource();
  ByteSource(ByteSource&& other) noexcept;
  ByteSource& operator=(ByteSource&&) = delete;

  const std::string& name() const { return name_; }
  uint64_t offset() const { return offset_; }
  uint64_t left() const { return size_ - offset_; }
  bool at_end() const { return offset_ == size_; }

  // All of it, or an Error that says which `what` ends too early.
  void read(void* to, size_t bytes, std::string_view what);
  void skip(uint64_t bytes, std::string_view what);
  template <class T>
  T read(std::string_view what) {
    static_assert(std::is_arithmetic_v<T>);
    T value{};
    read(&value, sizeof value, what);
    return value;
  }
  // An Error unless that many bytes are left.
  void need(uint64_t bytes, std::string_view what) const;
  // "problem, at byte 12 of model/w_0".
  Error error(std::string_view problem) const;

 private:
  ByteSource(std::string name, uint64_t size) : name_(std::move(name)), size_(size) {}
  void read_file(std::byte* to, size_t bytes);

  std::string name_;
  uint64_t size_ = 0;
  uint64_t offset_ = 0;
  int file_ = -1;
  std::string_view memory_;
  std::vector<std::byte> ahead_;  // of a file: the bytes from ahead_at_ on
  uint64_t ahead_at_ = 0;
};

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual void write(const void* data, size_t bytes) = 0;
  void write(std::string_view text) { write(text.data(), text.size()); }
  template <class T>
  void write_number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    write(&value, sizeof value);
  }
};

class StringSink final : public ByteSink {
 public:
  using ByteSink::write;
  void write(const void* data, size_t bytes) override {
    text.append(static_cast<const char*>(data), bytes);
  }
  std::string text;
};

// A file that was not there, written front to back.
class NewFile final : public ByteSink {
 public:
  // `shown`: the name that errors give. `mode`: permissions, less the process's mask.
  NewFile(const std::string& path, std::string shown, unsigned mode = 0666);
  ~NewFile() override;
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;

  using ByteSink::write;
  void write(const void* data, size_t bytes) override;
  void finish();  // on the disk, and closed
  uint64_t size() const { return size_; }
  uint32_t checksum() const { return checksum_; }  // CRC-32C
  int handle() const { return file_; }

 private:
  void flush();
  void write_through(const void* data, size_t bytes);

  std::string shown_;
  int file_ = -1;
  uint64_t size_ = 0;
  uint32_t checksum_ = 0;
  std::vector<std::byte> waiting_;
};

// Writes under another name in the same directory and takes the place of `path` at commit(). A file
// that was never committed is removed, by the next writer of that path if this one is killed, and
// what stood under `path` before is untouched. Missing directories are made.
class AtomicFile final : public ByteSink {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile() override;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  using ByteSink::write;
  void write(const void* data, size_t bytes) override;
  void commit();

 private:
  std::string path_;       // where links lead
  std::string temporary_;  // empty once committed
  std::optional<NewFile> file_;
};

// Takes the lock of an open file or directory unless another process or thread holds it. It goes
// with the handle, so that whoever is killed holds none. Where the file system has no locks: taken.
enum class Lock { shared, alone };
bool try_lock(int handle, Lock kind);
// Makes the names in a directory last through a power cut.
void sync_directory(const std::string& directory);
// The permissions of the plain file at `path`; nothing where there is none; an IoError where
// something stands that no file may replace.
std::optional<unsigned> mode_to_replace(const std::string& path);
// What errno says, as an IoError: "cannot open model/w_0: ...".
Error file_error(std::string_view action, const std::string& path);

// All that is left. An IoError when that is more than `most` bytes.
std::string read_rest(ByteSource& source, uint64_t most);
std::string read_file(const std::string& path, uint64_t most);
void write_file(const std::string& path, std::string_view bytes);  // atomically

}  // namespace trireme
