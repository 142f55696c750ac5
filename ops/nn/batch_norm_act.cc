// Batch normalisation and activation in one op: inplace_abn, whose result may take X's place,
// fused_batch_norm_act, fused_bn_add_activation, which adds something between the two, and
// p.batch_norm_relu, which the pass fuse_batch_norm writes.
#include "ops/loops.h"
#include "ops/nn/batch_norm.h"

namespace trireme {

NormActivation abn_activation(const OpView& op) {
  const auto name = op.attr<std::string>("activation");
  NormActivation act{.alpha = op.attr<float>("alpha")};
  if (name == "leaky_relu") act.kind = NormActivation::Kind::leaky_relu;
  if (name == "elu") act.kind = NormActivation::Kind::elu;
  return act;
}

namespace {

// The gradient divides by the scale and, below zero, by alpha.
void abn_shape(OpView& op) {
  const NormActivation act = abn_activation(op);
  if (act.kind != NormActivation::Kind::identity && act.alpha <= 0) {
    throw op
        .error(cat("alpha is ", act.alpha, " with activation ", op.attr<std::string>("activation")))
        .fix("give a positive alpha: X is read back from Y for the gradient");
  }
  batch_norm_shape(op);
}

const NormActivation kRelu{.kind = NormActivation::Kind::relu};

// Elements near 1 and -1 in turn, so that what is normalised stays away from the kink at 0.
OpSample away_from_kink(Draw& d, const Shape& shape, int64_t channels, Attrs attrs) {
  OpSample sample = batch_norm_sample(d, shape, channels, std::move(attrs));
  double* x = sample.inputs["X"][0].data<double>();
  const int64_t image = shape.product(1, shape.rank()).value();
  for (int64_t i = 0; i < shape.count(); ++i) {
    x[i] = (i / image % 2 == 0 ? 1 : -1) * (1 + 0.2 * x[i]);
  }
  sample.inputs["Bias"] = {d.uniform({channels}, -0.1, 0.1)};
  sample.inputs["Mean"] = {d.uniform({channels}, -0.1, 0.1)};
  return sample;
}

SampleRule abn_sample(const std::string& activation, Attrs attrs) {
  return [=](Draw& d) {
    Attrs all = attrs;
    all["activation"] = activation;
    all["alpha"] = 0.5f;
    return away_from_kink(d, {4, 2, 3}, all.contains("data_layout") ? 3 : 2, all);
  };
}

template <class T>
BoundKernel fold_batch_norm(const KernelSite& site) {
  const int64_t channels = site.in("Bias").shape.at(0);
  const int64_t row = channels == 0 ? 0 : site.in("Filter").shape.count() / channels;
  const int conv_bias = site.has("ConvBias") ? site.position("ConvBias") : -1;
  const double epsilon = site.attr<float>("epsilon");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const T *filter = k.in<T>(0), *scale = k.in<T>(1), *bias = k.in<T>(2), *mean = k.in<T>(3),
                *variance = k.in<T>(4), *before = conv_bias < 0 ? nullptr : k.in<T>(conv_bias);
        const auto [begin, end] = k.range(channels);
        for (int64_t c = begin; c < end; ++c) {
          const double factor = double(scale[c]) / std::sqrt(double(variance[c]) + epsilon);
          const double shift = (before ? double(before[c]) : 0.0) - double(mean[c]);
          k.out<T>(1)[c] = static_cast<T>(double(bias[c]) + shift * factor);
          for (int64_t i = c * row; i < (c + 1) * row; ++i) {
            k.out<T>(0)[i] = static_cast<T>(double(filter[i]) * factor);
          }
        }
      },
      parts_for(channels * row));
}

// What the rows share beside their inputs.
OpSchema& add_fused(OpSchema& row, const std::vector<std::string>& grad_reads) {
  return batch_norm_results(batch_norm_parameters(row))
      .out_intermediate("ReserveSpace", "empty: nothing needs to be kept")
      .attr("act_type", "relu", "what follows the normalisation")
      .one_of({"relu"})
      .kernel(typed<float, double>(
          []<class T>(const KernelSite& s) { return batch_norm<T>(s, kRelu); }))
      .grad(grad_reads)
      .grad_outs({"Y"})
      .no_grad({"Mean", "Variance"})
      .grad_kernel(typed<float, double>(
          []<class T>(const KernelSite& s) { return batch_norm_grad<T>(s, kRelu); }));
}

}  // namespace

void register_batch_norm_act(Registry& ops) {
  OpSchema& abn =
      batch_norm_parameters(
          ops.op("inplace_abn")
              .doc("batch_norm and an activation that can be undone; Y may be the variable X")
              .in("X", kNormalised))
          .in_optional("MomentumTensor", "[1]: used instead of the attribute momentum");
  batch_norm_switches(batch_norm_results(abn))
      .attr("activation", "", "what follows the normalisation")
      .one_of({"", "identity", "leaky_relu", "elu"})
      .attr("alpha", 0.1f, "of leaky_relu and elu")
      .attr("use_sync_bn", false, "statistics over all devices; one device changes nothing")
      .shape(abn_shape)
      .inplace("X", "Y")
      .kernel(typed<float, double>(
          []<class T>(const KernelSite& s) { return batch_norm<T>(s, abn_activation(s)); }))
      .grad({"Y", "Scale", "Bias", "SavedMean", "SavedVariance", "Mean", "Variance"})
      .grad_outs({"Y"})
      .no_grad({"Mean", "Variance", "MomentumTensor"})
      .grad_kernel(typed<float, double>(
          []<class T>(const KernelSite& s) { return batch_norm_grad<T>(s, abn_activation(s)); }))
      .sample(abn_sample("identity", {}))
      .sample(abn_sample("elu", {{"use_global_stats", true}}))
      .sample(abn_sample("leaky_relu", {{"data_layout", std::string("NHWC")}}));

  add_fused(ops.op("fused_batch_norm_act")
                .doc("batch_norm and relu; the channels are the last dimension")
                .in("X", "[batch, ..., channels]"),
            {"X", "Y", "Scale", "Bias", "SavedMean", "SavedVariance", "ReserveSpace"})
      .sample([](Draw& d) {
        return away_from_kink(d, {4, 2, 3}, 3, {});
      });
  add_fused(ops.op("fused_bn_add_activation")
                .doc("relu(batch_norm(X) + Z); the channels are the last dimension")
                .in("X", "[batch, ..., channels]")
                .in("Z", "like X: is added to what was normalised"),
            {"X", "Z", "Y", "Scale", "Bias", "SavedMean", "SavedVariance", "ReserveSpace"})
      .sample([](Draw& d) {
        OpSample sample = away_from_kink(d, {4, 2, 3}, 3, {});
        sample.inputs["Z"] = {d.uniform({4, 2, 3}, -0.05, 0.05)};
        return sample;
      });

  batch_norm_slots(ops.primitive("p.batch_norm_relu"))
      .traits({.keeps_rows = true})
      .doc("batch_norm and relu; with Z, which is added between them")
      .in_optional("Z", "like X: is added to what was normalised")
      .kernel(typed<float, double>(
          []<class T>(const KernelSite& s) { return batch_norm<T>(s, kRelu); }));
  ops.primitive("p.fold_batch_norm")
      .doc(
          "the filter and bias of a convolution that computes batch_norm by kept statistics as "
          "well")
      .in("Filter", "[channels, ...], of the convolution before it")
      .in("Scale", "[channels]")
      .in("Bias", "[channels]")
      .in("Mean", "[channels]")
      .in("Variance", "[channels]")
      .in_optional("ConvBias", "[channels], of the convolution")
      .out("FilterOut", "like Filter")
      .out("BiasOut", "[channels]")
      .attr("epsilon", 1e-5f, "added to the variance")
      .shape([](OpView& op) {
        op.set_out_like("FilterOut", op.in("Filter"));
        op.set_out_like("BiasOut", op.in("Bias"));
      })
      .kernel(
          typed<float, double>([]<class T>(const KernelSite& s) { return fold_batch_norm<T>(s); }));
  OpSchema& grad = ops.primitive("p.batch_norm_relu_grad")
                       .doc("what comes back through relu and batch_norm")
                       .in("X", kNormalised)
                       .in("Scale", "[channels]")
                       .in("Bias", "[channels]")
                       .in("SavedMean", "[channels]")
                       .in("SavedVariance", "[channels]: one over the deviation")
                       .in_optional("Y", "what relu gave; absent: nothing was added before it")
                       .in_list("Y@GRAD", "like X: one, or two whose sum arrives")
                       .out_optional("X@GRAD", "like X")
                       .out_optional("Scale@GRAD", "[channels]")
                       .out_optional("Bias@GRAD", "[channels]")
                       .out_optional("Z@GRAD", "like X: what comes back through relu alone")
                       .shape([](OpView& op) {
                         for (const char* slot : {"X", "Scale", "Bias"}) {
                           op.set_out_like(std::string(slot) + "@GRAD", op.in(slot));
                         }
                         op.set_out_like("Z@GRAD", op.in("Y@GRAD"));
                       });
  batch_norm_switch_attributes(batch_norm_attributes(grad))
      .kernel(typed<float, double>(
          []<class T>(const KernelSite& s) { return batch_norm_grad<T>(s, kRelu); }));
}

}  // namespace trireme
