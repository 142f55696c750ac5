// Where the sequences of an operand lie, for rows that take them as LoD or as padded rows with a
// length input.
#pragma once

#include <string_view>
#include <vector>

#include "ir/schema.h"

namespace trireme {

// Row t of a sequence is row begin + t * step of the operand.
struct Span {
  int64_t begin = 0, length = 0, step = 1;
  int64_t row(int64_t t) const { return begin + t * step; }
};

enum class Padded { batch_first, time_first };  // [batch, time, ...] or [time, batch, ...]

// LoD is known when the kernel is made; lengths are read, and checked, at every run.
class SequenceSpans {
 public:
  // `length_slot` may be absent from the op: then `slot` has LoD.
  SequenceSpans(const KernelSite& site, std::string_view slot, std::string_view length_slot,
                Padded padded = Padded::batch_first);

  Span at(const KernelArgs& k, int64_t sequence) const;
  int64_t sequences() const { return static_cast<int64_t>(spans_.size()); }
  int64_t longest() const;  // rows that a sequence may have
  bool padded() const { return length_at_ >= 0; }

 private:
  std::vector<Span> spans_;  // with lengths: as long as the padding allows
  int length_at_ = -1;
  std::string length_slot_;
};

// The number of sequences: from `length_slot` where the op has it, else from the LoD of `slot`.
// Refuses lengths that are not one int32 or int64 for each of `batch` sequences.
Dim sequence_count(const OpView& op, std::string_view slot, std::string_view length_slot,
                   Dim batch);

int64_t int_at(const Tensor& ints, int64_t i);  // of an int32 or int64 tensor

}  // namespace trireme
