// What passes have decided about one node, beside the attributes that its op has in programs. Shape
// rules and kernels read it (OpView::decided).
#pragma once

#include <cstdint>
#include <memory>

#include "ir/tile.h"

namespace trireme {

// How many channels of an image, and of what is made from it, stand side by side at each pixel:
// [batch, channels / block, h, w, block]. 0: the channels are where the program has them.
struct ChannelBlocks {
  int64_t image = 0, map = 0;
  bool operator==(const ChannelBlocks&) const = default;
};

struct Decided {
  ChannelBlocks blocks;
  bool relu = false;      // conv2d takes the relu of its result
  bool stays = false;     // of a program for inference: parameters stay from run to run
  bool to_first = false;  // of what replicas sum, the first alone takes the result
  std::shared_ptr<const TileProgram> program = nullptr;  // of a p.fused
};

inline const Decided kUndecided;

}  // namespace trireme
