// Buffers: memory asked of a device, or adopted.
#include "core/buffer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/device.h"
#include "core/flags.h"
#include "core/text.h"

namespace trireme {
namespace {

std::atomic<size_t> live_bytes{0};
std::atomic<size_t> allocations{0};

MemoryKind memory_kind(const Place& place) {
  return place.kind == DeviceKind::cuda_pinned ? MemoryKind::pinned : MemoryKind::device;
}

// Bytes of ones are NaN in every floating type: reading them before writing shows at once.
void fill_with_nan(const Buffer& buffer, size_t bytes) {
  if (in_host_memory(buffer.place())) {
    std::memset(buffer.data(), 0xff, bytes);
    return;
  }
  const std::vector<unsigned char> ones(bytes, 0xff);
  copy_memory(buffer.place(), buffer.data(), cpu_place(), ones.data(), bytes);
}

}  // namespace

std::string readable_size(size_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  auto amount = static_cast<double>(bytes);
  for (; amount >= 1024 && unit + 1 < std::size(kUnits); ++unit) amount /= 1024;
  return unit == 0 ? cat(bytes, " bytes")
                   : cat(bytes, " bytes (", std::round(amount * 10) / 10, " ", kUnits[unit], ")");
}

Error out_of_memory(std::string message) {
  Error error(ErrorKind::resource_exhausted, std::move(message));
  error.fix("use a smaller batch or smaller layers, or a machine with more memory");
  return error;
}

std::shared_ptr<Buffer> Buffer::allocate(size_t bytes, const Place& place) {
  if (bytes > kLargestBuffer) {
    throw out_of_memory(cat("a buffer of ", readable_size(bytes), " is larger than ",
                            readable_size(kLargestBuffer), ", the largest size possible"));
  }
  // Whole cache lines, at least one: kernels may read to the end of the last line.
  const size_t padded = std::max<size_t>((bytes + 63) / 64 * 64, 64);
  Device& device = device_of(place);
  auto* data = static_cast<std::byte*>(device.allocate(padded, memory_kind(place)));
  std::shared_ptr<Buffer> buffer(new Buffer(data, bytes, place, &device, nullptr));
  if (place.kind == DeviceKind::cpu) live_bytes += bytes;
  ++allocations;
  if (fills_new_memory()) fill_with_nan(*buffer, padded);
  return buffer;
}

std::shared_ptr<Buffer> Buffer::adopt(void* data, size_t bytes, std::function<void()> release) {
  return std::shared_ptr<Buffer>(
      new Buffer(static_cast<std::byte*>(data), bytes, cpu_place(), nullptr, std::move(release)));
}

Buffer::~Buffer() {
  if (device_) {
    device_->release(data_, memory_kind(place_));
    if (place_.kind == DeviceKind::cpu) live_bytes -= size_;
  } else if (release_) {
    release_();
  }
}

size_t allocated_bytes() { return live_bytes; }

size_t allocation_count() { return allocations; }

}  // namespace trireme
