// Cuts rows so that blocks are large enough and about equal.
#include "transpiler/slice.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "core/error.h"
#include "core/text.h"

namespace trireme {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::string VarBlock::to_string() const { return cat(name, ":", block_id, ":", size); }

std::vector<VarBlock> slice_variable(const std::vector<SlicedVar>& vars, int64_t slice_count,
                                     int64_t min_block_size) {
  if (slice_count < 1) {
    throw Error(cat("slice_count is ", slice_count, " but must be at least 1"))
        .in("slice_variable");
  }
  if (min_block_size < 1) {
    throw Error(cat("min_block_size is ", min_block_size, " but must be at least 1"))
        .in("slice_variable");
  }
  std::vector<VarBlock> blocks;
  for (const SlicedVar& var : vars) {
    if (!var.shape.known()) {
      throw Error(cat("variable ", var.name, " has shape ", var.shape,
                      "; only variables of known shape are sliced"))
          .in("slice_variable");
    }
    const int64_t elements = var.shape.count();
    const int64_t most = std::max<int64_t>(1, elements / min_block_size);
    int64_t size = std::max<int64_t>(1, ceil_div(elements, std::min(slice_count, most)));
    if (var.shape.rank() >= 2) {
      const int64_t width = std::max<int64_t>(1, var.shape.product(1, var.shape.rank()).value());
      size = ceil_div(size, width) * width;
    }
    const int64_t count = std::max<int64_t>(1, ceil_div(elements, size));
    for (int64_t i = 0; i < count; ++i) {
      blocks.push_back({var.name, static_cast<int>(i), std::min(size, elements - i * size)});
    }
  }
  return blocks;
}

int64_t rows_of(int64_t elements, const Shape& whole) {
  const int64_t width = whole.rank() < 2 ? 1 : whole.product(1, whole.rank()).value();
  return width > 0 ? elements / width : whole.at(0);
}

Shape slice_shape(int64_t elements, const Shape& whole) {
  Shape shape = whole;
  if (shape.rank() > 0) shape[0] = rows_of(elements, whole);
  return shape;
}

// Fisher-Yates from the last index down; an index is drawn from the low bits of 32-bit numbers,
// again while it is too large.
std::vector<size_t> shuffled(size_t n, uint32_t seed) {
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 generator(seed);
  for (size_t i = n; i-- > 1;) {
    uint32_t mask = static_cast<uint32_t>(i);
    for (const int shift : {1, 2, 4, 8, 16}) mask |= mask >> shift;
    uint32_t j = 0;
    do {
      j = static_cast<uint32_t>(generator()) & mask;
    } while (j > i);
    std::swap(order[i], order[j]);
  }
  return order;
}

}  // namespace trireme
