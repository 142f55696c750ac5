// Devices by place, the library that GPUs come from, and copies between places.
#include "core/device.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <vector>

#include "core/cpu_device.h"
#include "core/device_library.h"
#include "core/error.h"
#include "core/flags.h"
#include "core/text.h"

namespace trireme {
namespace {

constexpr const char* kLibraryName = "libtrireme_cuda.so";
constexpr const char* kOpen = "trireme_open_devices";

// A device, once it was asked for, and the queue that blocking copies take.
struct Card {
  std::atomic<Device*> device{nullptr};
  std::mutex mutex;
  std::unique_ptr<Queue> copies;
};

struct Opened {
  Opened(DeviceLibrary from, void* handle)
      : library(std::move(from)),
        handle(handle),
        cards(std::make_unique<Card[]>(static_cast<size_t>(library.count))) {}
  DeviceLibrary library;
  void* handle;  // null: it does not come from a file
  std::unique_ptr<Card[]> cards;
};

std::mutex opening;
std::atomic<Opened*> opened{nullptr};

// They stay to the end, as memory of their devices may.
Opened* keep(DeviceLibrary library, void* handle) {
  promise(library.count >= 0, "a library has no negative number of devices");
  static std::vector<Opened*>& all = *new std::vector<Opened*>;
  return all.emplace_back(new Opened(std::move(library), handle));
}

struct LibraryFile {
  std::string path;
  bool named = false;  // by the flag
};

LibraryFile library_file() {
  const auto named = std::get<std::string>(get_flag("gpu_library"));
  if (!named.empty()) return {std::filesystem::absolute(named), true};
  Dl_info own{};
  const bool found = dladdr(&opened, &own) != 0;
  promise(found, "our own library has a file");
  return {std::filesystem::absolute(own.dli_fname).parent_path() / kLibraryName, false};
}

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// A GPU's library brings hundreds of megabytes along: they are not loaded where nothing can run.
bool has_driver() { return dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr; }

Error cannot_open(const std::string& what) {
  Error error(ErrorKind::unavailable, what);
  error.fix("install Trireme's GPU library, name its file with FLAGS_gpu_library, or use CPUPlace");
  return error;
}

// The call holds `opening`.
Opened* open_file(const LibraryFile& file) {
  if (!is_file(file.path)) {
    throw cannot_open(cat("no GPU can be used: the GPU library ", file.path, " does not exist",
                          file.named ? ", but FLAGS_gpu_library names it" : ""));
  }
  void* handle = dlopen(file.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    throw cannot_open(
        cat("no GPU can be used: the GPU library ", file.path, " cannot be loaded: ", dlerror()));
  }
  using Open = void (*)(DeviceLibrary&);
  const auto open = reinterpret_cast<Open>(dlsym(handle, kOpen));
  if (!open) {
    dlclose(handle);
    throw cannot_open(cat("no GPU can be used: ", file.path,
                          " is no GPU library of Trireme's, as it exports no ", kOpen));
  }
  DeviceLibrary library;
  open(library);
  return keep(std::move(library), handle);
}

Opened& gpus() {
  if (Opened* present = opened.load(std::memory_order_acquire)) return *present;
  const std::lock_guard lock(opening);
  if (!opened.load()) opened.store(open_file(library_file()), std::memory_order_release);
  return *opened.load();
}

Card& card_of(const Place& place) {
  Opened& all = gpus();
  const DeviceLibrary& library = all.library;
  if (library.count == 0) {
    throw Error(ErrorKind::unavailable,
                cat(to_string(place), " cannot be used: ",
                    library.problem.empty() ? "no GPU is visible" : library.problem))
        .fix("use CPUPlace, or a machine with a GPU that CUDA_VISIBLE_DEVICES does not hide");
  }
  if (place.id < 0 || place.id >= library.count) {
    throw Error(ErrorKind::unavailable,
                cat(to_string(cuda_place(place.id)), " cannot be used: ", library.count,
                    library.count == 1 ? " GPU is visible" : " GPUs are visible"))
        .fix(library.count == 1 ? "choose number 0"
                                : cat("choose a number from 0 to ", library.count - 1));
  }
  Card& card = all.cards[static_cast<size_t>(place.id)];
  if (!card.device.load(std::memory_order_acquire)) {
    const std::lock_guard lock(card.mutex);
    if (!card.device.load()) {
      Device* made = library.device(place.id);
      promise(made != nullptr, "a library gives each of the devices that it counts");
      card.device.store(made, std::memory_order_release);
    }
  }
  return card;
}

void copy_by(const Place& place, void* to, const void* from, size_t bytes) {
  Card& card = card_of(place);
  Device& device = *card.device.load(std::memory_order_acquire);
  const std::lock_guard lock(card.mutex);
  if (!card.copies) card.copies = device.make_queue(QueueKind::compute);
  device.copy(*card.copies, to, from, bytes);
  device.synchronize(*card.copies);
}

// No device reaches the memory of another: pieces go through the host's.
void copy_between(const Place& to_place, std::byte* to, const Place& from_place,
                  const std::byte* from, size_t bytes) {
  constexpr size_t kPiece = size_t{16} << 20;
  std::vector<std::byte> piece(std::min(bytes, kPiece));
  for (size_t at = 0; at < bytes; at += piece.size()) {
    const size_t count = std::min(bytes - at, piece.size());
    copy_by(from_place, piece.data(), from + at, count);
    copy_by(to_place, to + at, piece.data(), count);
  }
}

}  // namespace

Device& device_of(const Place& place) {
  if (place.kind == DeviceKind::cpu) return cpu_device();
  return *card_of(place).device.load(std::memory_order_acquire);
}

int device_count(DeviceKind kind) {
  if (kind == DeviceKind::cpu) return 1;
  if (!opened.load(std::memory_order_acquire)) {
    const LibraryFile file = library_file();
    if (!file.named && (!is_file(file.path) || !has_driver())) return 0;
  }
  return gpus().library.count;
}

void* device_library_symbol(const char* name) {
  void* handle = gpus().handle;
  return handle ? dlsym(handle, name) : nullptr;
}

void use_device_library(std::optional<DeviceLibrary> library) {
  const std::lock_guard lock(opening);
  opened.store(library ? keep(std::move(*library), nullptr) : nullptr, std::memory_order_release);
}

void copy_memory(const Place& to_place, void* to, const Place& from_place, const void* from,
                 size_t bytes) {
  if (bytes == 0) return;  // either may be null then
  const bool to_host = in_host_memory(to_place), from_host = in_host_memory(from_place);
  if (to_host && from_host) {
    if (to != from) std::memcpy(to, from, bytes);
  } else if (to_host || from_host || to_place == from_place) {
    copy_by(to_host ? from_place : to_place, to, from, bytes);
  } else {
    copy_between(to_place, static_cast<std::byte*>(to), from_place,
                 static_cast<const std::byte*>(from), bytes);
  }
}

}  // namespace trireme
