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

  int64_t elements() const { return elements_; }
  int64_t folded() const { return outer_ * rows_; }  // elements behind one result
  int64_t results() const { return results_; }
  int64_t begin(int64_t line) const;  // its first element; of the last line's next: elements()
  int64_t longest_line() const;       // in elements
  int64_t chunks() const { return chunks_; }

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
  void cut();

  // [outer, blocks, rows, columns]: blocks and columns are kept.
  int64_t outer_ = 1, blocks_ = 1, rows_ = 1, columns_ = 1;
  // What follows from those.
  int64_t elements_ = 0, results_ = 0, lines_ = 0, chunks_ = 1;
  int64_t rows_per_line_ = 1, lines_per_block_ = 1;
  int64_t side_by_side_ = 1;  // rows that are added as one
};

// Of neighbours: sixteen sums run side by side and are added up at the end.
double sum_of(const float* x, int64_t n);

}  // namespace trireme
