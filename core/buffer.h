// Blocks of memory that tensors share, each at its place.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/place.h"

namespace trireme {

class Device;

// A block of memory with one owner count. Either a device's, 64-byte aligned, or the host's and
// adopted from somebody (a numpy array, an arena) whose `release` runs when the last tensor lets
// go.
class Buffer {
 public:
  static std::shared_ptr<Buffer> allocate(size_t bytes, const Place& place = cpu_place());
  static std::shared_ptr<Buffer> adopt(void* data, size_t bytes, std::function<void()> release);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }  // at its place: perhaps nothing the host can read
  size_t size() const { return size_; }
  const Place& place() const { return place_; }

 private:
  Buffer(std::byte* data, size_t size, const Place& place, Device* device,
         std::function<void()> release)
      : data_(data), size_(size), place_(place), device_(device), release_(std::move(release)) {}
  std::byte* data_;
  size_t size_;
  Place place_;
  Device* device_;  // that gave the memory; null: adopted
  std::function<void()> release_;
};

// Bytes of tensors' memory allocated on the host by this process and not yet freed (adopted buffers
// excluded).
size_t allocated_bytes();
// Number of Buffer::allocate calls so far: tests count that a steady step makes none.
size_t allocation_count();

// More than one machine's address space serves.
inline constexpr size_t kLargestBuffer = size_t{1} << 46;
std::string readable_size(size_t bytes);  // "70000 bytes (68.4 KiB)"
Error out_of_memory(std::string message);

}  // namespace trireme
