// Binding and memory of a frame together: ahead of a run, and segment by segment while it goes on.
#include <algorithm>

#include "compile/views.h"
#include "core/text.h"
#include "runtime/frame.h"
#include "runtime/region_runner.h"

namespace trireme {
namespace {

bool same_memory(const Variable& a, const Variable& b) {
  return a.kind() == Kind::dense && b.kind() == Kind::dense && a.initialized() &&
         a.tensor().address() == b.tensor().address();
}

}  // namespace

// What the run or the iteration begins with may have other facts than those it is bound to.
void Frame::bind_entries() {
  const bool contents_matter = binding_.ignored_contents() && !settings().shapes_only;
  if (binding_.take_entries() || contents_matter) binding_.unbind();
  if (!binding_.is_ahead()) look_ahead();
}

void Frame::look_ahead() {
  const bool shapes_only = settings().shapes_only;
  ran_ = false;
  say(binding_.infer_ahead(/*running=*/!shapes_only, shapes_only));
  placement_.plan_ahead();
  placement_.take_arena();
  settle_ahead(/*running=*/true);
}

// All that is known ahead takes its memory. Only what is about to run says what is wrong with it:
// that of later segments is said when the run comes to them.
void Frame::settle_ahead(bool running) {
  for (size_t s = 0; s < binding_.segments_ahead(); ++s) {
    if (const Problem problem = settle(s)) {
      if (running && s == 0) say(problem);
      binding_.set_not_all_known();
      binding_.set_ahead(running);
      return;
    }
    const int last = plan_.segments[s].end - 1;
    if (plan_.instructions[last].late) settle_late(last);
  }
  binding_.set_ahead(true);
}

// What an instruction with sub-blocks needs and leaves.
void Frame::settle_late(int index) {
  placement_.lend_arena(index);
  for (int number : plan_.instructions[index].region_plans) {
    if (!binding_.knows_late(index)) break;
    RegionRunner& region = *regions_[static_cast<size_t>(number)];
    region.body().settle_ahead(/*running=*/false);
    if (!region.body().binding_.knows_all()) binding_.set_not_all_known();
    region.body().placement_.prepare_carried(region.plan());
  }
  placement_.prepare_late(index);
}

// Facts and the layout are known: results take their memory and kernels are chosen.
Problem Frame::settle(size_t index) {
  const Segment& segment = plan_.segments[index];
  for (int i = segment.begin; i < segment.end; ++i) {
    const Node& node = plan_.graph.nodes[plan_.instructions[i].node];
    BoundInstruction& bound = binding_.instruction(i);
    Problem problem;
    try {
      problem = placement_.prepare_results(i);
      if (!problem && !binding_.has_kernels(index)) {
        problem = binding_.choose_kernel(i, settings().cut_bytes);
        if (!problem) placement_.reserve_scratch(i, bound);
      }
    } catch (Error& e) {  // there is no memory
      throw add_node_context(e, node, binding_.fact_pointers());
    }
    if (problem) return add_node_context(*problem, node, binding_.fact_pointers());
    const auto pair = renamed(node);
    bound.alias =
        pair && same_memory(slots_.of(node.ins[pair->first]), slots_.of(node.outs[pair->second]));
  }
  placement_.place_kept_scratch();
  binding_.mark_bound(index);
  return std::nullopt;
}

// Binds it where it is not bound, or where values that decide its shapes have changed.
void Frame::enter_segment(size_t index) {
  const Segment& segment = plan_.segments[index];
  if (!segment.checks.empty()) check_held(segment);
  if (!segment.reads_values.empty()) synchronize();  // they may still be on their way to the host
  if (binding_.is_bound(index)) return;
  say(binding_.settle_facts(index));
  placement_.plan_late(index);
  say(settle(index));
  binding_.unbind_after(index);
}

void Frame::leave_segment(size_t index) {
  const Instruction& last = plan_.instructions[plan_.segments[index].end - 1];
  if (last.late) binding_.take_late_facts(last, index);
}

void Frame::check_held(const Segment& segment) const {
  for (const Segment::Check& check : segment.checks) {
    if (slots_.of(check.value).initialized()) continue;
    const std::string& name = binding_.facts(check.value).name;
    Error error(ErrorKind::precondition,
                cat("it reads ", name,
                    ", which holds nothing: the block that writes it did not "
                    "run"));
    error.fix(cat("give ", name, " a value before that block"));
    const Node& node = plan_.graph.nodes[plan_.instructions[check.instruction].node];
    const auto reader = std::find_if(node.members.begin(), node.members.end(), [&](const Node& m) {
      return std::find(m.ins.begin(), m.ins.end(), check.value) != m.ins.end();
    });
    throw add_node_context(error, reader == node.members.end() ? node : *reader,
                           binding_.fact_pointers());
  }
}

}  // namespace trireme
