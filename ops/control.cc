// Feeding, fetching, identity, and the ops that own a sub-block.
#include <cstring>

#include "core/text.h"
#include "ir/schema.h"

namespace trireme {
namespace {

void copy_part(const KernelArgs& k, int in, int out) {
  const Tensor& source = k.in(in);
  const auto [begin, end] = k.range(static_cast<int64_t>(source.byte_size()));
  if (end > begin)
    std::memcpy(k.out(out).bytes().data() + begin, source.bytes().data() + begin, end - begin);
}

// All conditions hold. A scalar condition is one bool; otherwise every operand must be non-empty.
bool condition_holds(const KernelArgs& k, int first, int count, bool scalar) {
  if (!scalar) {
    for (int i = first; i < first + count; ++i) {
      if (k.in(i).numel() == 0) return false;
    }
    return true;
  }
  return *k.in<bool>(first);
}

}  // namespace

void register_control(Registry& ops) {
  ops.primitive("p.identity")
      .in("A", "any tensor")
      .out("Out", "a copy of it")
      .shape(same_as("A"))
      .vjp([](Vjp& v) { v.set(0, v.grad()); })
      .kernel(untyped(
          [](const KernelSite&) { return [](const KernelArgs& k) { copy_part(k, 0, 0); }; }));

  // The executor feeds and fetches; these rows only say how the ops in files look.
  ops.op("feed")
      .doc("Marks a variable that the caller feeds. Programs saved for inference carry it.")
      .in("X", "the feed holder")
      .out("Out", "the fed variable")
      .attr("col", 0, "position among the feeds")
      .traits({.host = true, .effect = true, .no_inference = true});
  ops.op("fetch")
      .doc("Marks a variable that the caller fetches. Programs saved for inference carry it.")
      .in("X", "the fetched variable")
      .out("Out", "the fetch holder")
      .attr("col", 0, "position among the fetches")
      .traits({.host = true, .effect = true, .no_inference = true});

  ops.op("conditional_block")
      .doc(
          "Runs its sub-block when the condition holds. Variables of outer blocks that the "
          "sub-block "
          "writes keep their old value otherwise.")
      .in_optional_list(
          "Cond", "one bool, or with is_scalar_condition=False tensors that must not be empty")
      .in_optional_list("Input", "outer variables the sub-block reads")
      .out_list("Out", "outer variables the sub-block writes")
      .out_optional("Scope", "kept for files; not used")
      .required_attr<BlockRef>("sub_block", "the block to run")
      .attr("is_scalar_condition", false, "Cond is one bool")
      .attr("skip_eager_deletion_vars", std::vector<std::string>{}, "kept for files; not used")
      .traits({.host = true, .no_inference = true})
      .kernel(untyped([](const KernelSite& site) {
        const int first = site.position("Cond");
        const int count = static_cast<int>(site.count("Cond"));
        const bool scalar = site.attr<bool>("is_scalar_condition");
        if (count == 0) throw site.error("Cond is missing").fix("give the block a condition");
        if (scalar && site.in("Cond").dtype != DType::boolean) {
          throw site.error(cat("Cond is ", name_of(site.in("Cond").dtype), ", not bool"))
              .fix("compare two values to get a bool");
        }
        return [=](const KernelArgs& k) {
          if (condition_holds(k, first, count, scalar)) k.run->run_region(0);
        };
      }));
}

}  // namespace trireme
