// One row times a matrix that stands in panels: as fast as memory gives the matrix.
#pragma once

#include <cstdint>

namespace trireme {

// Columns of a panel; its rows stand one behind the other.
inline constexpr int64_t kPanel = 128;

// sums[j] = sum over i of x[i] * panel[i][j], in the order of i.
void row_times_panel(const float* x, const float* panel, int64_t rows, float* sums);

}  // namespace trireme
