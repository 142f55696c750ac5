// Sequences from LoD or from lengths.
#include "ops/sequence/sequence_spans.h"

#include <algorithm>

#include "ops/sequence/sequence_rules.h"

namespace trireme {

int64_t int_at(const Tensor& ints, int64_t i) {
  return ints.dtype() == DType::int32 ? ints.data<int32_t>()[i] : ints.data<int64_t>()[i];
}

SequenceSpans::SequenceSpans(const KernelSite& site, std::string_view slot,
                             std::string_view length_slot, Padded padded)
    : length_slot_(length_slot) {
  if (!site.has(length_slot)) {
    const std::vector<int64_t> offsets = bound_offsets(site, slot);
    for (size_t s = 0; s + 1 < offsets.size(); ++s) {
      spans_.push_back({offsets[s], offsets[s + 1] - offsets[s], 1});
    }
    return;
  }
  length_at_ = site.position(length_slot);
  const Shape& shape = site.in(slot).shape;
  const bool by_time = padded == Padded::time_first;
  const int64_t batch = shape.at(by_time ? 1 : 0), time = shape.at(by_time ? 0 : 1);
  for (int64_t s = 0; s < batch; ++s) {
    spans_.push_back(by_time ? Span{s, time, batch} : Span{s * time, time, 1});
  }
}

Span SequenceSpans::at(const KernelArgs& k, int64_t sequence) const {
  Span span = spans_[static_cast<size_t>(sequence)];
  if (length_at_ < 0) return span;
  const int64_t length = int_at(k.in(length_at_), sequence);
  if (length < 0 || length > span.length) {
    throw Error(ErrorKind::out_of_range, cat(length_slot_, "[", sequence, "] is ", length,
                                             " but the rows are padded to ", span.length))
        .fix(cat("give lengths from 0 to ", span.length));
  }
  span.length = length;
  return span;
}

int64_t SequenceSpans::longest() const {
  int64_t longest = 0;
  for (const Span& span : spans_) longest = std::max(longest, span.length);
  return longest;
}

Dim sequence_count(const OpView& op, std::string_view slot, std::string_view length_slot,
                   Dim batch) {
  if (!op.has(length_slot)) {
    const std::vector<int64_t>* offsets = sequence_offsets(op, slot);
    return offsets ? Dim(static_cast<int64_t>(offsets->size()) - 1) : Dim();
  }
  const ValueInfo& length = op.in(length_slot);
  if (length.known && length.dtype != DType::int64 && length.dtype != DType::int32) {
    throw op.error(cat(length_slot, " holds ", name_of(length.dtype), " but lengths are int64"))
        .fix("feed the lengths as int64");
  }
  if (!length.shape.numel().may_equal(batch)) {
    throw op
        .error(cat(length_slot, " has shape ", length.shape, " but ", slot, " holds ", batch,
                   " sequences"))
        .fix(cat("give one length for every sequence: [", batch, ", 1]"));
  }
  return Dim::join(batch, length.shape.numel());
}

}  // namespace trireme
