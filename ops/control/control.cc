// Feeding, fetching and identity.
#include <cstring>

#include "ir/schema.h"

namespace trireme {
namespace {

void copy_part(const KernelArgs& k, int in, int out) {
  const Tensor& source = k.in(in);
  const auto [begin, end] = k.range(static_cast<int64_t>(source.byte_size()));
  if (end > begin)
    std::memcpy(k.out(out).bytes().data() + begin, source.bytes().data() + begin, end - begin);
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
      .traits({.host = true, .effect = true, .no_inference = true, .marker = Marker::feed});
  ops.op("fetch")
      .doc("Marks a variable that the caller fetches. Programs saved for inference carry it.")
      .in("X", "the fetched variable")
      .out("Out", "the fetch holder")
      .attr("col", 0, "position among the fetches")
      .traits({.host = true, .effect = true, .no_inference = true, .marker = Marker::fetch});
}

}  // namespace trireme
