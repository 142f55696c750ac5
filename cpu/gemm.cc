// The reference matrix product: blocked for the caches, plain C++, the oracle of every other one.
#include "cpu/gemm.h"

#include <algorithm>
#include <vector>

namespace trireme {
namespace {

// A block of kDepth terms of the sum is packed at a time: B as panels of `width` columns, A as
// panels of kHeight rows, each panel contiguous in the order the tile reads it and filled up with
// zeros at the edges. A tile of kHeight x width sums lives in registers.
constexpr int64_t kHeight = 4;
constexpr int64_t kDepth = 256;
constexpr int64_t kColumns = 1024;  // of B packed at once: 1 MiB of floats
template <class T>
constexpr int64_t kWidth = 32 / static_cast<int64_t>(sizeof(T));

template <class T>
T element(const T* matrix, int64_t ld, bool trans, int64_t row, int64_t column) {
  return trans ? matrix[column * ld + row] : matrix[row * ld + column];
}

template <class T>
void pack_b(const Gemm<T>& g, int64_t depth0, int64_t depth, int64_t column0, int64_t columns,
            T* to) {
  for (int64_t panel = 0; panel < columns; panel += kWidth<T>) {
    const int64_t real = std::min(kWidth<T>, columns - panel);
    for (int64_t p = 0; p < depth; ++p) {
      for (int64_t j = 0; j < kWidth<T>; ++j) {
        *to++ = j < real ? element(g.b, g.ldb, g.trans_b, depth0 + p, column0 + panel + j) : T(0);
      }
    }
  }
}

template <class T>
void pack_a(const Gemm<T>& g, int64_t row0, int64_t rows, int64_t depth0, int64_t depth, T* to) {
  for (int64_t p = 0; p < depth; ++p) {
    for (int64_t i = 0; i < kHeight; ++i) {
      *to++ = i < rows ? element(g.a, g.lda, g.trans_a, row0 + i, depth0 + p) : T(0);
    }
  }
}

template <class T>
void tile(int64_t depth, const T* a, const T* b, T (&sums)[kHeight][kWidth<T>]) {
  for (auto& row : sums) std::fill(std::begin(row), std::end(row), T(0));
  for (int64_t p = 0; p < depth; ++p, a += kHeight, b += kWidth<T>) {
    for (int64_t i = 0; i < kHeight; ++i) {
      for (int64_t j = 0; j < kWidth<T>; ++j) sums[i][j] += a[i] * b[j];
    }
  }
}

template <class T>
void scale_rows(const Gemm<T>& g) {
  for (int64_t i = 0; i < g.m; ++i) {
    T* row = g.c + i * g.ldc;
    if (g.beta == T(0)) {
      std::fill(row, row + g.n, T(0));
    } else {
      for (int64_t j = 0; j < g.n; ++j) row[j] *= g.beta;
    }
  }
}

}  // namespace

template <class T>
void reference_gemm(const Gemm<T>& g) {
  if (g.beta != T(1)) scale_rows(g);
  if (g.k == 0 || g.alpha == T(0)) return;
  // Kept between calls: a steady step asks for no memory.
  thread_local std::vector<T> packed_a, packed_b;
  packed_a.resize(kDepth * kHeight);
  packed_b.resize(static_cast<size_t>(kDepth * kColumns));
  T sums[kHeight][kWidth<T>];
  for (int64_t column0 = 0; column0 < g.n; column0 += kColumns) {
    const int64_t columns = std::min(kColumns, g.n - column0);
    for (int64_t depth0 = 0; depth0 < g.k; depth0 += kDepth) {
      const int64_t depth = std::min(kDepth, g.k - depth0);
      pack_b(g, depth0, depth, column0, columns, packed_b.data());
      for (int64_t row0 = 0; row0 < g.m; row0 += kHeight) {
        const int64_t rows = std::min(kHeight, g.m - row0);
        pack_a(g, row0, rows, depth0, depth, packed_a.data());
        for (int64_t panel = 0; panel < columns; panel += kWidth<T>) {
          tile(depth, packed_a.data(), packed_b.data() + panel * depth, sums);
          const int64_t width = std::min(kWidth<T>, columns - panel);
          for (int64_t i = 0; i < rows; ++i) {
            T* c = g.c + (row0 + i) * g.ldc + column0 + panel;
            for (int64_t j = 0; j < width; ++j) c[j] += g.alpha * sums[i][j];
          }
        }
      }
    }
  }
}

template <class T>
void tiny_gemm(const Gemm<T>& g) {
  constexpr int64_t kSums = 64;  // columns at a time
  const int64_t a_row = g.trans_a ? 1 : g.lda, a_term = g.trans_a ? g.lda : 1;
  const int64_t b_term = g.trans_b ? 1 : g.ldb, b_column = g.trans_b ? g.ldb : 1;
  for (int64_t column = 0; column < g.n; column += kSums) {
    const int64_t columns = std::min(kSums, g.n - column);
    for (int64_t i = 0; i < g.m; ++i) {
      T sums[kSums];
      std::fill_n(sums, columns, T(0));
      for (int64_t p = 0; p < g.k; ++p) {
        const T a = g.a[i * a_row + p * a_term];
        const T* b = g.b + p * b_term + column * b_column;
        for (int64_t j = 0; j < columns; ++j) sums[j] += a * b[j * b_column];
      }
      T* c = g.c + i * g.ldc + column;
      for (int64_t j = 0; j < columns; ++j) {
        c[j] = g.alpha * sums[j] + (g.beta == T(0) ? T(0) : g.beta * c[j]);
      }
    }
  }
}

template void tiny_gemm(const Gemm<float>&);
template void tiny_gemm(const Gemm<double>&);
template void reference_gemm(const Gemm<float>&);
template void reference_gemm(const Gemm<double>&);

}  // namespace trireme
