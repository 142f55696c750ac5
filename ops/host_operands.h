// What host ops on arrays and sequences share: results whose shape the run decides, parts of LoD.
#pragma once

#include <string>
#include <vector>

#include "ir/schema.h"

namespace trireme {

// The op belongs to the backward part and `variable` is a gradient.
bool works_on_gradients(const KernelSite& site, const std::string& variable);

// A copy of `value`, LoD included, in the memory the result has where it fits.
void set_tensor(Variable& result, const Tensor& value);

// Gradients that reach one variable on several ways: adds `from` to `to`.
void add_tensor(const Tensor& from, const Tensor& to);

// Items of one LoD level (level = number of levels: rows), and how they group below it.
struct Piece {
  int64_t begin = 0, end = 0;  // rows
  Lod lengths;                 // of each level below, by item
};
Piece piece_of(const Lod& lod, size_t level, int64_t begin, int64_t end);

// Collects pieces of tensors and joins them: one tensor, the levels below grouped as they were.
class PieceList {
 public:
  void add(const Tensor& source, const Piece& piece);
  void add_zeros(int64_t rows);
  // `prefix`: levels above. `like`: type and row shape where no piece says it.
  Tensor join(const Lod& prefix, const Tensor* like) const;

 private:
  struct Part {
    const Tensor* source;  // null: zeros
    int64_t begin, rows;
  };
  std::vector<Part> parts_;
  Lod lengths_;
};

}  // namespace trireme
