// What host ops on arrays and sequences share: results whose shape the run decides, parts of LoD.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/schema.h"

namespace trireme {

// The op belongs to the backward part and `variable` is a gradient.
bool works_on_gradients(const KernelSite& site, const std::string& variable);

// A copy of `value`, LoD included, in the memory the result has where it fits.
void set_tensor(Variable& result, const Tensor& value);
void set_zeros(Variable& result, const Tensor& like);  // with the LoD of `like`
void set_number(Variable& result, int64_t value);      // int64 [1]
// Without LoD; to be written.
Tensor& result_of_shape(Variable& result, DType dtype, const Shape& shape);

// The object an earlier run left in the result, to be written over; a new one where there is none
// or somebody else holds it.
template <class T>
T& reused_host(Variable& result) {
  std::shared_ptr<T> object = result.host<T>();
  constexpr int kVariableAndHere = 2;
  if (!object || object.use_count() > kVariableAndHere) {
    object = std::make_shared<T>();
    result.set_host(object);
  }
  return *object;
}

// Gradients that reach one variable on several ways: adds `from` to `to`.
void add_tensor(const Tensor& from, const Tensor& to, int part = 0, int parts = 1);

// The rows of items [begin, end) of one LoD level (level = number of levels: rows).
struct RowRange {
  int64_t begin = 0, end = 0;
};
RowRange rows_of_items(const Lod& lod, size_t level, int64_t begin, int64_t end);

// Collects pieces of tensors and joins them: one tensor, the levels below grouped as they were. One
// that is kept and cleared asks for no memory when it collects as much again.
class PieceList {
 public:
  void clear();
  // Items [begin, end) of a level of the source, with the levels below it.
  void add(const Tensor& source, size_t level, int64_t begin, int64_t end);
  void add_zeros(int64_t rows);
  // `prefix`: levels above. `like`: type and row shape where no piece says it.
  void join(const Lod& prefix, const Tensor* like, Tensor& joined) const;
  void join(const Tensor* like, Variable& result) const;  // without levels above

 private:
  struct Part {
    const Tensor* source;  // null: zeros
    int64_t begin, rows;
  };
  std::vector<Part> parts_;
  Lod lengths_;  // of the levels below, by item; those from levels_ on are spare
  size_t levels_ = 0;
};

}  // namespace trireme
