// Random operands for the tests that the op table generates: values, gradients, backends.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/random.h"
#include "core/tensor.h"
#include "ir/attribute.h"

namespace trireme {

// Draws sizes and tensors from one printed seed.
class Draw {
 public:
  explicit Draw(uint64_t seed) : stream_(seed, 0) {}

  int64_t size(int64_t low, int64_t high);  // both included
  bool coin() { return size(0, 1) == 1; }
  Shape shape(int min_rank, int max_rank, int64_t max_extent = 4);
  Tensor uniform(const Shape& shape, double low = -1, double high = 1);  // float64
  // Every two elements differ by at least 0.05 and none is nearer than that to zero: away from ties
  // and kinks, so that a finite difference sees one branch.
  Tensor distinct(const Shape& shape);
  Tensor ints(const Shape& shape, int64_t low, int64_t high, DType dtype = DType::int64);
  Tensor bools(const Shape& shape);
  Lod lod(int64_t sequences, int64_t max_length, bool allow_empty = true);  // one level

 private:
  Philox stream_;
  uint64_t next_ = 0;
};

// One call of an op. Floating inputs are float64; tests cast them where another type is wanted.
struct OpSample {
  std::map<std::string, std::vector<Tensor>> inputs;
  Attrs attrs;
  std::map<std::string, int> out_counts;  // duplicable outputs: how many; others are 1
};

}  // namespace trireme
