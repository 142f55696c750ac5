// Sums of float32 tensors along some axes, in an order that a fused chain can keep to.
//
// The tensor is read once, front to back, in lines: a few rows that go to the same results. Whoever
// computes a line may add it at once, while it is in the cache. Lines are cut into chunks by their
// number alone; each chunk has sums of its own, and the chunks are added up in order: neither
// threads nor fusion change a bit.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "core/shape.h"

namespace trireme {

class TiledSum {
 public:
  // Whether the axes can be summed so; extents may be unknown, of kept axes they may not.
  static bool fits(const Shape& shape, const std::vector<int>& axes);
  // Nothing unless it fits.
  static std::optional<TiledSum> make(const Shape& shape, const std::vector<int>& axes);

  int64_t elements() const { return outer_ * blocks_ * rows_ * columns_; }
  int64_t folded() const { return outer_ * rows_; }  // elements behind one result
  int64_t results() const { return blocks_ * columns_; }
  int64_t lines() const { return outer_ * blocks_ * lines_per_block(); }
  int64_t begin(int64_t line) const;  // its first element; of lines(): all there are
  int64_t longest_line() const;       // in elements
  int64_t chunks() const;

  struct Lines {
    int64_t first, last;
  };
  Lines lines_of(int64_t chunk) const;
  size_t scratch() const;  // bytes for the sums of all chunks

  // Sets a chunk's sums to zero and adds lines to them; x is where the first line stands.
  double* start(int64_t chunk, std::byte* scratch) const;
  void add(Lines lines, const float* x, double* sums) const;
  // The chunks together, each result divided by `divisor`.
  void finish(const std::byte* scratch, double divisor, float* results) const;

 private:
  int64_t rows_per_line() const;
  int64_t lines_per_block() const { return (rows_ + rows_per_line() - 1) / rows_per_line(); }

  // [outer, blocks, rows, columns]: blocks and columns are kept.
  int64_t outer_ = 1, blocks_ = 1, rows_ = 1, columns_ = 1;
};

// Of neighbours: sixteen sums run side by side and are added up at the end.
double sum_of(const float* x, int64_t n);

}  // namespace trireme
