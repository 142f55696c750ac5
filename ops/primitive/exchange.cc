// Sums over the replicas of a data-parallel run, and what the ranks of a ring exchange. The frame
// takes part in a collective (runtime/collective_step.h); the kernels here are those of a run that
// is its only replica.
#include <cstring>

#include "ir/schema.h"

namespace trireme {
namespace {

void same_each(OpView& op) {
  for (size_t i = 0; i < op.count("A"); ++i) take_facts(op.in("A", i), op.out("Out", i));
}

BoundKernel own_values(const KernelSite& site) {
  const size_t count = site.count("A");
  return [count](const KernelArgs& k) {
    for (int i = 0; i < static_cast<int>(count); ++i) {
      if (k.in(i).address() == k.out(i).address()) continue;
      std::memcpy(k.out(i).address(), k.in(i).address(), k.in(i).byte_size());
    }
  };
}

// What a gathered value's rows are: those of all ranks.
void exchanged_by_ring(OpView& op) {
  const int ranks = op.attr<int32_t>("ranks");
  for (size_t i = 0; i < op.count("A"); ++i) {
    take_facts(op.in("A", i), op.out("Out", i));
    if (op.attr<std::string>("way") != "all_gather") continue;
    Shape& shape = op.out("Out", i).shape;
    if (shape.rank() == 0) shape.push_back(1);
    if (shape[0].known()) shape[0] = shape.at(0) * ranks;
  }
}

BoundKernel never_alone(const KernelSite&) {
  return BoundKernel([](const KernelArgs&) {
    throw InternalError("ranks exchange values in the frame, not in a kernel");
  });
}

BoundKernel own_rows(const KernelSite&) {
  return BoundKernel(
      [](const KernelArgs& k) { k.outs[0]->rows() = merge_rows(std::as_const(*k.ins[0]).rows()); });
}

}  // namespace

void register_exchange(Registry& ops) {
  ops.primitive("p.sum_replicas")
      .doc("The sum over the replicas of a data-parallel run, in their order")
      .in("A", "any shape, the same on every replica")
      .out("Out", "like A, the same on every replica")
      .shape([](OpView& op) { op.set_out_like("Out", op.in("A")); })
      .traits({.exchange = Exchange::sum})
      .kernel(untyped(own_values))
      .vjp([](Vjp& v) { v.set(0, emit("p.sum_replicas", {v.grad()})); });
  // The update stands behind these, so no pass moves a node past them or drops them.
  ops.primitive("p.sum_gradients")
      .doc("The same for all gradients of one type, before the update reads them")
      .in_list("A", "tensors")
      .out_list("Out", "like A, where A is")
      .shape(same_each)
      .traits({.effect = true, .exchange = Exchange::sum})
      .kernel(untyped(own_values));
  ops.primitive("p.sum_row_gradients")
      .doc("The same for a gradient that is SelectedRows: every row once, ascending")
      .in("A", "SelectedRows")
      .out("Out", "SelectedRows of all replicas' rows")
      .shape([](OpView& op) {
        op.set_out_like("Out", op.in("A"));
        if (op.out("Out").shape.rank() > 0) op.out("Out").shape[0] = Dim();
      })
      .traits({.effect = true, .exchange = Exchange::sum_rows})
      .kernel(untyped(own_rows));
  ops.primitive("p.exchange")
      .doc("What the ranks of a ring make of their values together")
      .in_list("A", "tensors")
      .out_list("Out", "like A, where A is or elsewhere")
      .required_attr<std::string>("ring", "the variable that holds the ring")
      .required_attr<std::string>("way", "what they do")
      .one_of({"all_reduce", "broadcast", "all_gather", "barrier"})
      .attr("op", "sum", "of all_reduce")
      .one_of({"sum", "product", "max", "min"})
      .attr("root", 0, "of broadcast: whose value it is")
      .attr("ranks", 1, "of all_gather: how many there are")
      .shape(exchanged_by_ring)
      .traits({.effect = true, .exchange = Exchange::by_ring})
      .kernel(untyped(never_alone));
}

}  // namespace trireme
