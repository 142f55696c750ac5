// Images whose channels stand in blocks: the layout that a pass gives them between convolutions.
//
// [batch, channels, h, w] becomes [batch, channels / b, h, w, b]: the b channels of a block stand
// side by side at each pixel. With b = channels that is channels last.
#pragma once

#include <cstdint>

#include "cpu/independent.h"
#include "cpu/vectorised.h"

namespace trireme {

// The sizes of one image.
struct BlockedImage {
  int64_t channels = 0, pixels = 0, block = 1;
  int64_t size() const { return channels * pixels; }
};

// Copies block `index` of an image between its plain place and its place in blocks.
template <class T>
void to_blocks(const BlockedImage& s, const T* plain, T* blocked, int64_t index) {
  plain += index * s.block * s.pixels;
  blocked += index * s.block * s.pixels;
  vectorised([=, block = s.block, pixels = s.pixels] {
    for (int64_t p = 0; p < pixels; ++p) {
      TRIREME_INDEPENDENT
      for (int64_t c = 0; c < block; ++c) blocked[p * block + c] = plain[c * pixels + p];
    }
  });
}
template <class T>
void from_blocks(const BlockedImage& s, const T* blocked, T* plain, int64_t index) {
  plain += index * s.block * s.pixels;
  blocked += index * s.block * s.pixels;
  vectorised([=, block = s.block, pixels = s.pixels] {
    for (int64_t c = 0; c < block; ++c) {
      TRIREME_INDEPENDENT
      for (int64_t p = 0; p < pixels; ++p) plain[c * pixels + p] = blocked[p * block + c];
    }
  });
}

}  // namespace trireme
