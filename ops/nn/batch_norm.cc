// batch_norm: each channel normalised over the batch, or by the statistics kept while training.
#include "ops/nn/batch_norm.h"

#include "ops/nn/norm_definition.h"

namespace trireme {

OpSchema& batch_norm_parameters(OpSchema& row) {
  return row.in("Scale", "[channels]: multiplies what is normalised")
      .in("Bias", "[channels]: is added to it")
      .in("Mean", "[channels]: the mean kept while training")
      .in("Variance", "[channels]: the variance kept while training");
}

OpSchema& batch_norm_attributes(OpSchema& row) {
  return row.attr("momentum", 0.9f, "what Mean and Variance keep of themselves in a step")
      .attr("epsilon", 1e-5f, "added to the variance")
      .between(0, 1e-3f);
}

OpSchema& batch_norm_results(OpSchema& row) {
  row.out("Y", "like X")
      .out("MeanOut", "the variable Mean, updated")
      .out("VarianceOut", "the variable Variance, updated")
      .out_intermediate("SavedMean", "[channels]: the mean that was used")
      .out_intermediate("SavedVariance", "[channels]: one over the deviation that was used")
      .inplace("Mean", "MeanOut")
      .inplace("Variance", "VarianceOut")
      .shape(batch_norm_shape);
  return batch_norm_attributes(row);
}

OpSchema& batch_norm_switch_attributes(OpSchema& row) {
  return row.attr("is_test", false, "normalise by Mean and Variance")
      .attr("data_layout", "NCHW", "where the channels stand")
      .one_of({"NCHW", "NHWC", "AnyLayout"})
      .attr("use_global_stats", false, "normalise by Mean and Variance while training too")
      .attr("trainable_statistics", false, "is_test has no effect");
}

OpSchema& batch_norm_switches(OpSchema& row) {
  return batch_norm_switch_attributes(
      row.out_optional("ReserveSpace", "empty: nothing needs to be kept"));
}

OpSchema& batch_norm_slots(OpSchema& row) {
  batch_norm_parameters(row.in("X", kNormalised))
      .in_optional("MomentumTensor", "[1]: used instead of the attribute momentum")
      .in_optional("MomemtumTensor", "MomentumTensor as the original's Python spells it")
      .in_optional("MeanOut", "MeanOut again, as 2.x names it among the inputs")
      .in_optional("VarianceOut", "VarianceOut again, as 2.x names it among the inputs");
  return batch_norm_switches(batch_norm_results(row));
}

namespace {

// Fixed statistics are what was kept of the forward op; the batch's own move with X.
void batch_norm_gradients(Body& b) {
  const Expr x = b.in("X"), grad = b.in("Y@GRAD");
  const int rank = x.rank();
  const int channel = channel_last(b.op()) ? rank - 1 : 1;
  const auto per_channel = [&](const char* slot) { return align(b.in(slot), rank, channel); };
  std::vector<int> others;
  for (int d = 0; d < rank; ++d) {
    if (d != channel) others.push_back(d);
  }
  NormGradients made;
  if (uses_kept_statistics(b.op())) {
    made = {.x = grad * per_channel("Scale") * per_channel("SavedVariance"),
            .scaled = grad * (x - per_channel("SavedMean")) * per_channel("SavedVariance")};
  } else {
    made = norm_gradients({.x = x,
                           .grad = grad,
                           .axes = others,
                           .scale = per_channel("Scale"),
                           .epsilon = b.attr<float>("epsilon")});
  }
  b.out("X@GRAD") = made.x;
  if (b.wants("Scale@GRAD")) b.out("Scale@GRAD") = reduce_sum(made.scaled, others);
  if (b.wants("Bias@GRAD")) b.out("Bias@GRAD") = reduce_sum(grad, others);
}

// As the row says. Fixed statistics are named where they are kept, too: 1.8.5 reads them there.
void make_batch_norm_grad(GradMaker& g) {
  OpSpec spec{.type = "batch_norm_grad", .attrs = g.op().attrs()};
  for (const char* attr : {"op_role", "op_role_var", "op_callstack"}) spec.attrs.erase(attr);
  for (const char* slot : {"X", "Scale", "Bias"}) spec.inputs[slot] = g.in(slot);
  for (const char* slot : {"SavedMean", "SavedVariance"}) spec.inputs[slot] = g.out(slot);
  if (g.op().attr_or<bool>("use_global_stats", false)) {
    for (const char* slot : {"Mean", "Variance"}) spec.inputs[slot] = g.in(slot);
  }
  spec.inputs["Y@GRAD"] = g.out_grad("Y");
  bool wanted = false;
  for (const char* slot : {"X", "Scale", "Bias"}) {
    std::vector<std::string> gradients = g.in_grad(slot);
    wanted = wanted || !gradients.empty();
    spec.outputs[grad_name(slot)] = std::move(gradients);
  }
  if (wanted) g.append(std::move(spec));
}

}  // namespace

void register_batch_norm(Registry& ops) {
  batch_norm_slots(ops.op("batch_norm"))
      .traits({.keeps_rows = true,
               .images = BlockedImages::follows,
               .layout_attr = "data_layout",
               .over_replicas = "sync_batch_norm",
               // Training reads the batch's statistics, not the running ones that it updates.
               .repeatable = true,
               .training_outputs = {"ReserveSpace"}})
      .kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return batch_norm<T>(site, {}); }))
      .grad({"X", "Scale", "Bias", "SavedMean", "SavedVariance", "Mean", "Variance"})
      .grad_maker(make_batch_norm_grad)
      .grad_outs({"Y"})
      .no_grad({"Mean", "Variance", "MomentumTensor", "MomemtumTensor", "MeanOut", "VarianceOut"})
      .grad_kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return batch_norm_grad<T>(site, {}); }))
      .grad_definition(batch_norm_gradients)
      .sample([](Draw& d) {
        const int64_t c = d.size(1, 3);
        return batch_norm_sample(d, {3, c, 2, 3}, c, {});
      })
      .sample([](Draw& d) {
        return batch_norm_sample(d, {4, 2, 3}, 3, {{"data_layout", std::string("NHWC")}});
      })
      .sample([](Draw& d) {
        return batch_norm_sample(d, {5, 3}, 3, {});
      })
      .sample([](Draw& d) {
        return batch_norm_sample(d, {3, 2, 4}, 2, {{"use_global_stats", true}});
      });
}

}  // namespace trireme
