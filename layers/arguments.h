// Argument types that layer functions share. They convert from what a caller would write.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "ir/program.h"

namespace trireme {

// One variable or several: fc(x, ...), fc({a, b}, ...), concat({a, b}).
class Vars {
 public:
  Vars() = default;
  Vars(Var& one) : list_{&one} {}  // a variable is a list of one
  Vars(std::initializer_list<std::reference_wrapper<Var>> several) {
    for (Var& var : several) list_.push_back(&var);
  }
  Vars(std::vector<Var*> several) : list_(std::move(several)) {}

  const std::vector<Var*>& list() const { return list_; }
  bool empty() const { return list_.empty(); }
  size_t size() const { return list_.size(); }
  Var& operator[](size_t i) const { return *list_.at(i); }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }
  std::vector<std::string> names() const;

 private:
  std::vector<Var*> list_;
};

// A number beside a variable. Whether it was written 2 or 2.0 matters to integer variables.
struct Scalar {
  double value = 0;
  bool integral = false;
  Scalar(int v) : value(v), integral(true) {}
  Scalar(int64_t v) : value(static_cast<double>(v)), integral(true) {}
  Scalar(bool v) : value(v), integral(true) {}
  Scalar(float v) : value(v) {}
  Scalar(double v) : value(v) {}
};

// Height and width, or one number for both: `.filter_size = 3`, `.filter_size = {3, 5}`.
struct Pair {
  int first = 0;
  int second = 0;
  Pair(int both) : first(both), second(both) {}
  Pair(int height, int width) : first(height), second(width) {}
  std::vector<int> to_vector() const { return {first, second}; }
};

// Padding of an image op: one number, {h, w}, {top, bottom, left, right}, "SAME" or "VALID", or one
// {before, after} pair per dimension of the input.
class Padding {
 public:
  Padding(int all) : ints_{all} {}
  Padding(std::initializer_list<int> ints) : ints_(ints) {}
  Padding(std::vector<int> ints) : ints_(std::move(ints)) {}
  Padding(const char* algorithm) : algorithm_(algorithm) {}
  Padding(std::string algorithm) : algorithm_(std::move(algorithm)) {}
  Padding(std::vector<std::vector<int>> pairs) : pairs_(std::move(pairs)) {}

  const std::vector<int>& ints() const { return ints_; }
  const std::string& algorithm() const { return algorithm_; }
  const std::vector<std::vector<int>>& pairs() const { return pairs_; }

 private:
  std::vector<int> ints_;
  std::string algorithm_;
  std::vector<std::vector<int>> pairs_;
};

// A number known now, or a variable of one integer element known when the program runs.
struct Extent {
  int64_t value = -1;
  Var* var = nullptr;
  Extent(int v) : value(v) {}
  Extent(int64_t v) : value(v) {}
  Extent(Var& v) : var(&v) {}
};

// A list of integers, each known or a variable; or one variable that holds the whole list.
class Extents {
 public:
  Extents() = default;
  Extents(std::initializer_list<Extent> items) : items_(items) {}
  Extents(std::vector<Extent> items) : items_(std::move(items)) {}
  Extents(const std::vector<int>& items) : items_(items.begin(), items.end()) {}
  Extents(const std::vector<int64_t>& items) : items_(items.begin(), items.end()) {}
  Extents(Var& tensor) : tensor_(&tensor) {}

  const std::vector<Extent>& items() const { return items_; }
  Var* tensor() const { return tensor_; }
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty() && !tensor_; }
  bool all_known() const;         // no variable anywhere
  std::vector<int> ints() const;  // variables as -1; an Error when a number does not fit
  std::vector<int64_t> longs() const;

 private:
  std::vector<Extent> items_;
  Var* tensor_ = nullptr;
};

}  // namespace trireme
