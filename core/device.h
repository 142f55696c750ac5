// Devices: memory, queues of work, copies and events. The CPU is built in, a plugin library adds
// others (core/device_library.h).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "core/place.h"

namespace trireme {

enum class MemoryKind { device, pinned };  // pinned: the host's, where the device copies fastest
enum class QueueKind { compute, upload, download, comm };

// Work of one queue runs in the order it came; queues run side by side. These belong to the device
// that made them and mean nothing to another.
class Queue {
 public:
  virtual ~Queue() = default;
  // What comes between the first and the last call is work of members: that of one does not touch
  // what another writes, so a device may take several members' work as one.
  virtual void begin_members() {}
  virtual void next_member() {}
  virtual void end_members() {}
};

// A mark in a queue: done when everything before it is. One that was never recorded is done.
class Event {
 public:
  virtual ~Event() = default;
};

// Work that was recorded once and runs again as a whole.
class Captured {
 public:
  virtual ~Captured() = default;
  virtual void replay(Queue& queue) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual Place place() const = 0;
  virtual std::string describe() const = 0;  // for people: "NVIDIA H200"

  // Aligned to 64 bytes at least. Where there is none left: an Error resource_exhausted, with what
  // is in use.
  virtual void* allocate(size_t bytes, MemoryKind kind) = 0;
  virtual void release(void* memory, MemoryKind kind) noexcept = 0;

  virtual std::unique_ptr<Queue> make_queue(QueueKind kind) = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  // Inside the device's memory, or between it and the host's: the addresses say which. Host memory
  // that is not pinned may be copied before the call returns.
  virtual void copy(Queue& queue, void* to, const void* from, size_t bytes) = 0;
  virtual void record(Queue& queue, Event& event) = 0;
  virtual void wait(Queue& queue, Event& event) = 0;  // the queue waits; the host does not
  virtual bool done(const Event& event) = 0;
  virtual void synchronize(const Event& event) = 0;  // the host waits
  virtual void synchronize(Queue& queue) = 0;
  // What `work` puts into the queue, which does not run before a replay.
  virtual std::unique_ptr<Captured> capture(Queue& queue, const std::function<void()>& work) = 0;
};

// The device of a place; that of pinned memory is the GPU of its number. Where the GPUs' library,
// its driver or the card is missing, an Error says which. A device lives as long as the process.
Device& device_of(const Place& place);
// How many are visible; no GPU where their library or their driver is not installed.
int device_count(DeviceKind kind);

// Copies between any two places and returns when it is done. Work of queues that still writes what
// is copied is not waited for. What stands outside plans copies memory of tensors by this alone.
void copy_memory(const Place& to_place, void* to, const Place& from_place, const void* from,
                 size_t bytes);

}  // namespace trireme
