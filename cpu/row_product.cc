// The product of a row and a panel, with its sums in registers.
#include "cpu/row_product.h"

#include <array>
#include <cstring>

#include "cpu/vectorised.h"

namespace trireme {
namespace {

constexpr int64_t kWide = 16;
using Floats [[gnu::vector_size(kWide * sizeof(float))]] = float;

// Columns [0, N * 16) of a panel.
template <size_t N>
inline void row_times_columns(const float* x, const float* panel, int64_t rows, float* sums) {
  std::array<Floats, N> kept{};
  for (int64_t i = 0; i < rows; ++i, panel += kPanel) {
    const float factor = x[i];
    for (size_t v = 0; v < N; ++v) {
      Floats column;
      std::memcpy(&column, panel + static_cast<int64_t>(v) * kWide, sizeof column);
      kept[v] += factor * column;
    }
  }
  std::memcpy(sums, kept.data(), sizeof kept);
}

}  // namespace

void row_times_panel(const float* x, const float* panel, int64_t rows, float* sums) {
  if (vector_width() == VectorWidth::avx512) {
    vectorised([=] { row_times_columns<8>(x, panel, rows, sums); });
    return;
  }
  vectorised([=] {  // half as many numbers to a register
    for (int64_t from = 0; from < kPanel; from += 4 * kWide) {
      row_times_columns<4>(x, panel + from, rows, sums + from);
    }
  });
}

}  // namespace trireme
