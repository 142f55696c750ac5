// Which instructions form stretches, and when one repeats.
#include "runtime/replays.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr int kFewest = 3;       // instructions: fewer are launched as fast
constexpr int kRunsBefore = 2;   // with the same addresses
constexpr int kMostChanges = 8;  // then their memory is taken to move at every run

bool is_random(const Node& node) {
  return node.schema->trait().random ||
         std::ranges::any_of(node.members, [](const Node& member) { return is_random(member); });
}

bool may_join(const Plan& plan, int index) {
  const Instruction& one = plan.instructions[static_cast<size_t>(index)];
  const Node& node = plan.graph.nodes[static_cast<size_t>(one.node)];
  return one.runner == Runner::compute && !one.exchange && !one.late && one.region_plans.empty() &&
         one.cleared.empty() && node.schema->trait().transfer == Transfer::none && !is_random(node);
}

bool dense(const std::vector<Variable*>& variables) {
  return std::ranges::all_of(
      variables, [](const Variable* one) { return !one || one->kind() == Kind::dense; });
}

bool on_queue(const BoundInstruction& bound) {
  return bound.alias || (!bound.keeps_scratch && dense(bound.ins) && dense(bound.outs));
}

}  // namespace

Replays::Replays(const Plan& plan) : by_begin_(plan.instructions.size()) {
  for (const Segment& segment : plan.segments) {
    for (int begin = segment.begin; begin < segment.end; ++begin) {
      int end = begin;
      while (end < segment.end && may_join(plan, end)) ++end;
      if (end - begin >= kFewest) {
        Stretch& made = *all_.emplace_back(std::make_unique<Stretch>());
        made.begin = begin;
        made.end = end;
        for (int i = begin; i < end; ++i) {
          const Instruction& one = plan.instructions[static_cast<size_t>(i)];
          for (const int waited : one.waits) {
            if (waited < begin || waited >= end) made.waits.push_back(waited);
          }
          if (one.signals) made.signals.push_back(i);
        }
        by_begin_[static_cast<size_t>(begin)] = &made;
      }
      begin = std::max(begin, end - 1);
    }
  }
}

size_t Replays::captured() const {
  return static_cast<size_t>(
      std::ranges::count_if(all_, [](const auto& one) { return one->work != nullptr; }));
}

void Replays::forget(Stretch& stretch, Binding& binding, size_t segment) {
  stretch.bound = binding.number(segment);
  stretch.work.reset();
  stretch.seen = stretch.changes = 0;
  stretch.addresses.clear();
  stretch.fits = true;
  for (int i = stretch.begin; i < stretch.end; ++i) {
    stretch.fits &= on_queue(binding.instruction(i));
  }
}

void Replays::add_addresses(std::vector<const void*>& to, const std::vector<Variable*>& variables) {
  for (const Variable* one : variables) {
    to.push_back(one && one->initialized() ? std::as_const(*one).tensor().address() : nullptr);
  }
}

bool Replays::same_again(Stretch& stretch) {
  if (stretch.now == stretch.addresses) return ++stretch.seen >= kRunsBefore;
  stretch.addresses.swap(stretch.now);
  stretch.work.reset();
  stretch.seen = 0;
  if (++stretch.changes > kMostChanges) stretch.fits = false;
  return false;
}

}  // namespace trireme
