// Matrices copied into the order and at the pitch in which a product runs best over them.
#pragma once

#include <cstdint>

namespace trireme {

// The distance between rows of a copy: an odd number of cache lines. Rows that lie a power of two
// apart share a few sets of the cache and drive each other out.
constexpr int64_t staging_pitch(int64_t columns) {
  constexpr int64_t kLine = 16;  // floats
  return ((columns + kLine - 1) / kLine | 1) * kLine;
}

// A matrix as it is stored, or rows of one.
struct StoredRows {
  const float* from = nullptr;
  int64_t rows = 0, columns = 0, pitch = 0;
};

// to[r * pitch + c] = from[r][c]
void copy_rows(const StoredRows& matrix, float* to, int64_t pitch);
// to[c * pitch + r] = from[r][c]
void turn_rows(const StoredRows& matrix, float* to, int64_t pitch);

}  // namespace trireme
