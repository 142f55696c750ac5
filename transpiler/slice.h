// How variables are cut into blocks of rows for parameter servers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/shape.h"

namespace trireme {

struct VarBlock {
  std::string name;  // of the whole variable
  int block_id = 0;
  int64_t size = 0;               // elements
  std::string to_string() const;  // "name:block_id:size"
};

struct SlicedVar {
  std::string name;
  Shape shape;
};

// At most `slice_count` blocks each, none below `min_block_size` elements unless the variable is;
// whole rows where there are columns. Blocks of one variable are equal but for the last.
std::vector<VarBlock> slice_variable(const std::vector<SlicedVar>& vars, int64_t slice_count,
                                     int64_t min_block_size = 8192);

// Rows of a block of a variable with this shape; elements where it has one dimension.
int64_t rows_of(int64_t elements, const Shape& whole);
Shape slice_shape(int64_t elements, const Shape& whole);

// 0..n-1 in the order numpy.random.seed(seed); numpy.random.shuffle gives.
std::vector<size_t> shuffled(size_t n, uint32_t seed);

}  // namespace trireme
