// What passes may know about the machine that a graph is compiled for.
#pragma once

#include <cstddef>

#include "core/place.h"

namespace trireme {

// A value: a pass that is given the same one makes the same graph on any machine.
struct Target {
  DeviceKind device = DeviceKind::cpu;
  int lanes = 1;          // float32 numbers that one instruction works on
  size_t alignment = 64;  // bytes: where values in an arena or a bucket begin
  // Convolutions work on images whose channels stand in blocks of `lanes`; others lay them out
  // anew.
  bool blocked_images = false;
  bool copy_queues = false;   // copies between host and device have queues of their own
  bool half_tiles = false;    // tile programs may have steps of float16 and bfloat16
  bool channel_last = false;  // images between convolutions stand channels last: of halves ...
  bool rounds_float = false;  // ... and of float32, whose products may round their operands
  bool shared_memory = true;  // the host and all places of the kind read the same memory

  bool operator==(const Target&) const = default;
};

// This machine's processor; it is asked once.
const Target& cpu_target();

// Of other kinds what their library says (ir/device_kernels.h); an Error where there is none.
Target target_of(const Place& place);

}  // namespace trireme
