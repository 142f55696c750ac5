// Shapes: building, editing, comparing and printing.
#include "core/shape.h"

#include <algorithm>
#include <ostream>

#include "core/error.h"
#include "core/text.h"

namespace trireme {
namespace {

[[noreturn]] void too_many_dims(size_t rank) {
  throw Error(cat("a shape has ", rank, " dimensions; at most ", kMaxRank, " are supported"))
      .fix("merge dimensions with reshape");
}

}  // namespace

Shape::Shape(std::initializer_list<Dim> dims) {
  if (dims.size() > kMaxRank) too_many_dims(dims.size());
  std::ranges::copy(dims, dims_.begin());
  rank_ = static_cast<int>(dims.size());
}

Shape::Shape(std::span<const int64_t> dims) {
  if (dims.size() > kMaxRank) too_many_dims(dims.size());
  std::ranges::copy(dims, dims_.begin());
  rank_ = static_cast<int>(dims.size());
}

void Shape::push_back(Dim dim) { insert(rank_, dim); }

void Shape::insert(int axis, Dim dim) {
  promise(axis >= 0 && axis <= rank_, "an inserted dimension lies inside the shape");
  if (rank_ == kMaxRank) too_many_dims(kMaxRank + 1);
  std::move_backward(dims_.begin() + axis, dims_.begin() + rank_, dims_.begin() + rank_ + 1);
  dims_[axis] = dim;
  ++rank_;
}

void Shape::erase(int axis) {
  promise(axis >= 0 && axis < rank_, "an erased dimension lies inside the shape");
  std::move(dims_.begin() + axis + 1, dims_.begin() + rank_, dims_.begin() + axis);
  --rank_;
}

bool Shape::known() const {
  return std::all_of(begin(), end(), [](Dim dim) { return dim.known(); });
}

Dim Shape::product(int from, int to) const {
  // A zero anywhere wins, also over an extent that is unknown.
  Dim result = 1;
  for (int axis = from; axis < to; ++axis) result = result * dims_[axis];
  return result;
}

bool Shape::may_equal(const Shape& other) const {
  return std::equal(begin(), end(), other.begin(), other.end(),
                    [](Dim a, Dim b) { return a.may_equal(b); });
}

bool operator==(const Shape& a, const Shape& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

std::vector<int64_t> Shape::to_vector() const {
  std::vector<int64_t> dims;
  dims.reserve(rank_);
  for (Dim dim : *this) dims.push_back(dim.value());
  return dims;
}

std::string Shape::to_string() const { return cat(*this); }

std::ostream& operator<<(std::ostream& out, Dim dim) { return out << dim.value(); }

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << "[" << join(shape) << "]";
}

}  // namespace trireme
