// Dimensions and shapes. A Dim may be unknown (written -1) until feeds arrive.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace trireme {

// One extent. Arithmetic with an unknown gives an unknown, so a shape rule written once works
// while a program is built (sizes partly unknown) and when a plan is bound (all sizes known).
// Sums and products that do not fit saturate: still known, and too large for any allocation.
class Dim {
 public:
  constexpr Dim() = default;
  constexpr Dim(int64_t value) : value_(value < 0 ? -1 : value) {}  // NOLINT: a number is a Dim

  constexpr bool known() const { return value_ >= 0; }
  constexpr int64_t value() const { return value_; }  // -1 when unknown
  // True unless both are known and differ.
  constexpr bool may_equal(Dim other) const {
    return !known() || !other.known() || value_ == other.value_;
  }
  friend constexpr bool operator==(Dim a, Dim b) { return a.value_ == b.value_; }

  friend constexpr Dim operator+(Dim a, Dim b) {
    if (!both(a, b)) return Dim();
    int64_t sum = 0;
    return __builtin_add_overflow(a.value_, b.value_, &sum) ? Dim(kLargest) : Dim(sum);
  }
  friend constexpr Dim operator-(Dim a, Dim b) {
    return both(a, b) ? Dim(a.value_ - b.value_) : Dim();
  }
  // Zero times an unknown is zero: an empty tensor stays empty whatever the other sizes are.
  friend constexpr Dim operator*(Dim a, Dim b) {
    if (a.value_ == 0 || b.value_ == 0) return Dim(0);
    if (!both(a, b)) return Dim();
    int64_t product = 0;
    return __builtin_mul_overflow(a.value_, b.value_, &product) ? Dim(kLargest) : Dim(product);
  }
  friend constexpr Dim operator/(Dim a, Dim b) {  // floor; division by zero is unknown
    return both(a, b) && b.value_ > 0 ? Dim(a.value_ / b.value_) : Dim();
  }
  // The more definite of two extents that are meant to be equal.
  static constexpr Dim join(Dim a, Dim b) { return a.known() ? a : b; }

 private:
  static constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  static constexpr bool both(Dim a, Dim b) { return a.known() && b.known(); }
  int64_t value_ = -1;
};

inline constexpr int kMaxRank = 9;

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<Dim> dims);
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  Dim operator[](int axis) const { return dims_[axis]; }
  Dim& operator[](int axis) { return dims_[axis]; }
  int64_t at(int axis) const { return dims_[axis].value(); }
  const Dim* begin() const { return dims_.data(); }
  const Dim* end() const { return dims_.data() + rank_; }
  Dim back() const { return dims_[rank_ - 1]; }

  void push_back(Dim dim);
  void insert(int axis, Dim dim);
  void erase(int axis);

  bool known() const;  // every extent is known
  Dim numel() const { return product(0, rank_); }
  Dim product(int from, int to) const;  // of dims [from, to); 1 when empty
  int64_t count() const { return numel().value(); }
  bool may_equal(const Shape& other) const;

  friend bool operator==(const Shape& a, const Shape& b);
  std::vector<int64_t> to_vector() const;  // unknown as -1
  std::string to_string() const;           // "[64, 784]", unknown as -1

 private:
  std::array<Dim, kMaxRank> dims_{};
  int rank_ = 0;
};

std::ostream& operator<<(std::ostream& out, Dim dim);
std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace trireme
