// Copies of operands into layouts that loops read well, eight by eight numbers at a time.
#include "cpu/staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cpu/vectorised.h"

namespace trireme {
namespace {

constexpr int64_t kBlock = 8;
using Lanes [[gnu::vector_size(kBlock * sizeof(float))]] = float;

// Calls f with the constants 0 .. n-1: what it names by them stays in registers.
template <int n, class F>
void unrolled(const F& f) {
  [&]<int... i>(std::integer_sequence<int, i...>) { (f(std::integral_constant<int, i>{}), ...); }
  (std::make_integer_sequence<int, n>{});
}

// An 8 x 8 block turned over in three rounds: neighbours, pairs and halves change places.
void turn_block(const float* from, int64_t from_pitch, float* to, int64_t to_pitch) {
  Lanes a[kBlock], b[kBlock];
  unrolled<8>([&](auto i) { std::memcpy(&a[i], from + i * from_pitch, sizeof(Lanes)); });
  unrolled<4>([&](auto i) {
    b[2 * i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    b[2 * i + 1] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  });
  unrolled<4>([&](auto i) {
    constexpr int at = i / 2 * 4 + i % 2;
    a[at] = __builtin_shufflevector(b[at], b[at + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    a[at + 2] = __builtin_shufflevector(b[at], b[at + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  });
  unrolled<4>([&](auto i) {
    b[i] = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    b[i + 4] = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  });
  unrolled<8>([&](auto i) { std::memcpy(to + i * to_pitch, &b[i], sizeof(Lanes)); });
}

}  // namespace

void copy_rows(const StoredRows& matrix, float* to, int64_t pitch) {
  for (int64_t r = 0; r < matrix.rows; ++r) {
    std::copy_n(matrix.from + r * matrix.pitch, matrix.columns, to + r * pitch);
  }
}

void turn_rows(const StoredRows& matrix, float* to, int64_t pitch) {
  constexpr int64_t kStrip = 2 * kBlock;  // rows at a time: whole cache lines are written
  vectorised([m = matrix, to, pitch] {
    const int64_t whole_rows = m.rows / kBlock * kBlock;
    const int64_t whole_columns = m.columns / kBlock * kBlock;
    for (int64_t strip = 0; strip < whole_rows; strip += kStrip) {
      const int64_t end = std::min(strip + kStrip, whole_rows);
      for (int64_t c = 0; c < whole_columns; c += kBlock) {
        for (int64_t r = strip; r < end; r += kBlock) {
          turn_block(m.from + r * m.pitch + c, m.pitch, to + c * pitch + r, pitch);
        }
      }
    }
    for (int64_t r = 0; r < m.rows; ++r) {
      for (int64_t c = r < whole_rows ? whole_columns : 0; c < m.columns; ++c) {
        to[c * pitch + r] = m.from[r * m.pitch + c];
      }
    }
  });
}

}  // namespace trireme
