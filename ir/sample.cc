// Draws the sizes and tensors of generated tests.
#include "ir/sample.h"

#include <algorithm>

namespace trireme {

int64_t Draw::size(int64_t low, int64_t high) {
  promise(low <= high, "a range to draw from is not empty");
  const auto span = static_cast<double>(high - low + 1);
  return low + static_cast<int64_t>(stream_.uniform(next_++) * span);
}

Shape Draw::shape(int min_rank, int max_rank, int64_t max_extent) {
  Shape shape;
  const int64_t rank = size(min_rank, max_rank);
  for (int64_t i = 0; i < rank; ++i) shape.push_back(size(1, max_extent));
  return shape;
}

Tensor Draw::uniform(const Shape& shape, double low, double high) {
  Tensor tensor(DType::float64, shape);
  double* data = tensor.data<double>();
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    data[i] = low + (high - low) * stream_.uniform(next_++);
  }
  return tensor;
}

// The grid ..., -0.2, -0.1, 0.1, 0.2, ... in random order, each point moved by less than a quarter
// of the spacing.
Tensor Draw::distinct(const Shape& shape) {
  constexpr double kSpacing = 0.1;
  Tensor tensor(DType::float64, shape);
  const int64_t count = tensor.numel();
  std::vector<double> points;
  for (int64_t i = 0; i < count; ++i) {
    const double jitter = (stream_.uniform(next_++) - 0.5) * kSpacing / 2.5;
    const int64_t pair = i / 2;
    const double magnitude = kSpacing * static_cast<double>(1 + pair);
    points.push_back((i % 2 ? -magnitude : magnitude) + jitter);
  }
  for (int64_t i = count - 1; i > 0; --i) {
    std::swap(points[static_cast<size_t>(i)], points[static_cast<size_t>(size(0, i))]);
  }
  std::copy(points.begin(), points.end(), tensor.data<double>());
  return tensor;
}

Tensor Draw::ints(const Shape& shape, int64_t low, int64_t high, DType dtype) {
  Tensor tensor(DType::int64, shape);
  int64_t* data = tensor.data<int64_t>();
  for (int64_t i = 0; i < tensor.numel(); ++i) data[i] = size(low, high);
  return dtype == DType::int64 ? tensor : cast(tensor, dtype);
}

Tensor Draw::bools(const Shape& shape) { return ints(shape, 0, 1, DType::boolean); }

Lod Draw::lod(int64_t sequences, int64_t max_length, bool allow_empty) {
  std::vector<int64_t> offsets = {0};
  for (int64_t i = 0; i < sequences; ++i) {
    // The last sequence is never empty, so that there is at least one row.
    const bool may_be_empty = allow_empty && i + 1 < sequences;
    offsets.push_back(offsets.back() + size(may_be_empty ? 0 : 1, max_length));
  }
  return {offsets};
}

}  // namespace trireme
