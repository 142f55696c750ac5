// What a frame remembers of the shapes it ran before: coming back to one of them infers nothing,
// chooses no kernel and asks for no memory.
#include <algorithm>
#include <cstring>

#include "runtime/facts.h"
#include "runtime/frame.h"

namespace trireme {
namespace {

// Short segments, as the bodies of loops are, meet many shapes: sequences end one by one. Long ones
// hold much for each.
constexpr size_t kMostBindings = 64, kFewestBindings = 4, kInstructionsRemembered = 8192;

size_t most_bindings(const Segment& segment) {
  return std::clamp(kInstructionsRemembered / static_cast<size_t>(segment.end - segment.begin),
                    kFewestBindings, kMostBindings);
}

// Whether the contents are those that `seen` is a copy of.
bool same_contents(const Tensor& seen, const Variable& variable) {
  if (variable.kind() == Kind::rows) {
    const RowNumbers& rows = variable.rows().rows;
    return seen.dtype() == DType::int64 && seen.numel() == static_cast<int64_t>(rows.size()) &&
           std::equal(rows.begin(), rows.end(), seen.data<int64_t>());
  }
  const Tensor& tensor = variable.tensor();
  return seen.dtype() == tensor.dtype() && seen.shape() == tensor.shape() && seen.initialized() &&
         tensor.initialized() && std::memcmp(seen.raw(), tensor.raw(), seen.byte_size()) == 0;
}

// What shapes may be made from: a tensor's elements, or which rows SelectedRows names.
Tensor copy_of_contents(const Variable& variable) {
  if (variable.kind() != Kind::rows) return variable.tensor().clone();
  const RowNumbers& rows = variable.rows().rows;
  return make_tensor<int64_t>({static_cast<int64_t>(rows.size())}, rows);
}

}  // namespace

bool Frame::same_values(const std::vector<int>& values, const Binding& binding) const {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!same_contents(binding.seen[i], *slots_[plan_.slot_of[values[i]]])) return false;
  }
  return true;
}

bool Frame::fits(size_t index, const Binding& binding) const {
  const Segment& segment = plan_.segments[index];
  if (binding.number == 0) return false;
  for (size_t i = 0; i < segment.entries.size(); ++i) {
    if (!same_facts(binding.entries[i], facts_[segment.entries[i]])) return false;
  }
  return same_values(segment.reads_values, binding);
}

// Makes the segment's binding the one for the present facts: remembered, or new.
void Frame::settle_facts(size_t index) {
  if (fits(index, present_[index])) return;
  auto& others = put_away_[index];
  const auto found = std::find_if(others.begin(), others.end(),
                                  [&](const Binding& other) { return fits(index, other); });
  if (found == others.end()) {
    begin_binding(index);
    infer_segment(index);
    present_[index].number = ++last_number_;
    return;
  }
  exchange_parts(index, present_[index]);
  std::swap(present_[index], *found);
  exchange_parts(index, present_[index]);
  std::rotate(others.begin(), found, found + 1);
}

// Between the frame and a binding: its parts stand in one of the two.
void Frame::exchange_parts(size_t index, Binding& binding) {
  const Segment& segment = plan_.segments[index];
  for (size_t i = 0; i < segment.inferred.size(); ++i) {
    std::swap(facts_[segment.inferred[i]], binding.inferred[i]);
  }
  for (int i = segment.begin; i < segment.end; ++i) {
    std::swap(bound_[i], binding.instructions[static_cast<size_t>(i - segment.begin)]);
  }
}

// The present binding goes behind; the parts of a new one are as the plan has them.
void Frame::begin_binding(size_t index) {
  const Segment& segment = plan_.segments[index];
  Binding& present = present_[index];
  if (present.number > 0) {
    exchange_parts(index, present);
    auto& others = put_away_[index];
    if (others.size() == most_bindings(segment)) others.pop_back();
    others.insert(others.begin(), std::move(present));
  }
  present = Binding{};
  present.inferred.resize(segment.inferred.size());
  present.instructions.resize(static_cast<size_t>(segment.end - segment.begin));
  for (int value : segment.inferred) facts_[value] = plan_.graph.values[value].info;
  for (int value : segment.reads_values) {
    present.seen.push_back(copy_of_contents(at(value)));
    facts_[value].value = &at(value);
  }
  for (int value : segment.entries) present.entries.push_back(facts_[value]);
}

// Each segment's binding, and the plan of memory, is looked for again.
void Frame::unbind() {
  segment_bound_.assign(segment_bound_.size(), false);
  looked_ahead_ = false;
}

void Frame::forget_bindings() {
  unbind();
  present_.assign(present_.size(), {});
  for (auto& others : put_away_) others.clear();
  for (auto& placements : placements_) placements.clear();
}

}  // namespace trireme
