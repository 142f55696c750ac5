// sync_batch_norm: batch_norm whose statistics are those of the whole batch, over all replicas.
#include "ops/nn/batch_norm.h"

namespace trireme {
namespace {

Expr over_replicas(Expr x) { return emit("p.sum_replicas", {x}); }

struct ChannelAxes {
  explicit ChannelAxes(const Body& b, Expr x) : rank(x.rank()) {
    channel = channel_last(b.op()) ? rank - 1 : 1;
    for (int d = 0; d < rank; ++d) {
      if (d != channel) others.push_back(d);
    }
  }
  Expr sum(Expr x) const { return reduce_sum(x, others); }
  Expr spread(Expr per_channel) const { return align(per_channel, rank, channel); }
  Expr count(Expr x) const { return over_replicas(sum(full_like(x, 1.0))); }

  int rank, channel;
  std::vector<int> others;
};

Expr momentum_of(const Body& b) {
  for (const char* slot : {"MomentumTensor", "MomemtumTensor"}) {
    if (b.has(slot)) return b.in(slot);
  }
  return constant(b.in("Mean"), b.attr<float>("momentum"));
}

Expr empty_like(Expr x) {
  return emit_op(x.emitter(), "fill_constant", {},
                 {{"shape", std::vector<int64_t>{0}}, {"dtype", static_cast<int32_t>(x.dtype())}},
                 {{"Out", 1}})["Out"][0];
}

// Two sweeps, so that a large mean does not eat the variance.
void sync_batch_norm(Body& b) {
  const Expr x = b.in("X");
  const ChannelAxes axes(b, x);
  Expr mean = b.in("Mean"), variance = b.in("Variance");
  if (!uses_kept_statistics(b.op())) {
    const Expr momentum = momentum_of(b), count = axes.count(x);
    mean = over_replicas(axes.sum(x)) / count;
    variance = over_replicas(axes.sum(square(x - axes.spread(mean)))) / count;
    b.out("MeanOut") = b.in("Mean") * momentum + mean * (1.0 - momentum);
    b.out("VarianceOut") = b.in("Variance") * momentum + variance * (1.0 - momentum);
  } else {
    b.out("MeanOut") = mean;
    b.out("VarianceOut") = variance;
  }
  if (b.wants("ReserveSpace")) b.out("ReserveSpace") = empty_like(x);
  const Expr inverse = rsqrt(variance + static_cast<double>(b.attr<float>("epsilon")));
  b.out("SavedMean") = mean;
  b.out("SavedVariance") = inverse;
  b.out("Y") =
      (x - axes.spread(mean)) * axes.spread(inverse * b.in("Scale")) + axes.spread(b.in("Bias"));
}

// As in batch_norm; the means of dy and dy * xhat are those of the whole batch, while Scale and
// Bias get this replica's part of their gradients.
void sync_batch_norm_grad(Body& b) {
  const Expr x = b.in("X"), dy = b.in("Y@GRAD");
  const ChannelAxes axes(b, x);
  const Expr inverse = b.in("SavedVariance");
  const Expr normal = (x - axes.spread(b.in("SavedMean"))) * axes.spread(inverse);
  const Expr sum = axes.sum(dy), weighted = axes.sum(dy * normal);
  b.out("Bias@GRAD") = sum;
  b.out("Scale@GRAD") = weighted;
  const Expr factor = axes.spread(inverse * b.in("Scale"));
  if (uses_kept_statistics(b.op())) {
    b.out("X@GRAD") = dy * factor;
    return;
  }
  const Expr count = axes.count(x);
  b.out("X@GRAD") = factor * (dy - axes.spread(over_replicas(sum) / count) -
                              normal * axes.spread(over_replicas(weighted) / count));
}

}  // namespace

void register_sync_batch_norm(Registry& ops) {
  batch_norm_slots(ops.op("sync_batch_norm"))
      .traits({.repeatable = true})
      .doc("batch_norm by the statistics of the whole batch, over all devices.")
      .body(sync_batch_norm)
      .grad({"X", "Scale", "Bias", "SavedMean", "SavedVariance"})
      .grad_outs({"Y"})
      .no_grad({"Mean", "Variance", "MomentumTensor", "MomemtumTensor", "MeanOut", "VarianceOut"})
      .grad_body(sync_batch_norm_grad)
      .sample([](Draw& d) {
        const int64_t c = d.size(1, 3);
        return batch_norm_sample(d, {3, c, 2, 3}, c, {});
      })
      .sample([](Draw& d) {
        return batch_norm_sample(d, {4, 2, 3}, 3, {{"data_layout", std::string("NHWC")}});
      })
      .sample([](Draw& d) {
        return batch_norm_sample(d, {3, 2, 4}, 2, {{"use_global_stats", true}});
      });
}

}  // namespace trireme
