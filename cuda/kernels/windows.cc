// The sizes of windows, as kernels get them.
#include "cuda/kernels/windows.h"

#include "core/text.h"

namespace trireme::cuda {

std::string window_text(size_t first) {
  std::string text;
  for (const char axis : {'d', 'h', 'w'}) {
    for (const char* name : {"in", "out", "size", "stride", "dilation", "pad"}) {
      text += cat("const int64 ", name, "_", axis, " = d.v[", first++, "];\n");
    }
  }
  return text;
}

std::vector<int64_t> window_numbers(const Window& window) {
  std::vector<int64_t> numbers;
  for (const WindowAxis& axis : window) {
    for (const int64_t number :
         {axis.in, axis.out, axis.size, axis.stride, axis.dilation, axis.pad_begin}) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

}  // namespace trireme::cuda
