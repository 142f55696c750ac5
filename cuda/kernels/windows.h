// Windows over images as CUDA text: sizes as numbers of a kernel, positions as names of the text.
#pragma once

#include <string>
#include <vector>

#include "ops/nn/window.h"

namespace trireme::cuda {

// What `window_numbers` gives, as constants of the text; `first` is where they begin in d.v.
// For each axis a of d, h, w: in_a, out_a, size_a, stride_a, dilation_a, pad_a.
std::string window_text(size_t first);
std::vector<int64_t> window_numbers(const Window& window);
inline constexpr size_t kWindowNumbers = 18;

}  // namespace trireme::cuda
