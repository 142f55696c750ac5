// Batch normalisation with an activation behind it: what the rows of batch_norm, inplace_abn,
// fused_batch_norm_act, fused_bn_add_activation and p.batch_norm_relu share.
#pragma once

#include <cmath>
#include <string>

#include "ir/schema.h"
#include "ops/nn/channel_blocks.h"
#include "ops/nn/moments.h"

namespace trireme {

// What follows the normalisation. The gradient reads the slope off the result, and inplace_abn
// reads the argument off it too.
struct NormActivation {
  enum class Kind { identity, relu, leaky_relu, elu };
  Kind kind = Kind::identity;
  double alpha = 0;

  template <class T>
  T apply(T x) const {
    if (kind == Kind::identity || x > 0) return x;
    if (kind == Kind::relu) return T{0};
    return static_cast<T>(alpha) * (kind == Kind::elu ? std::expm1(x) : x);
  }
  // What arrives at the argument of what arrives at the result y.
  template <class T>
  T back(T arriving, T y) const {
    if (kind == Kind::identity || y > 0) return arriving;
    if (kind == Kind::relu) return T{0};
    return arriving * (static_cast<T>(alpha) + (kind == Kind::elu ? y : T{0}));
  }
  template <class T>
  T argument(T y) const {  // not of relu
    if (kind == Kind::identity || y > 0) return y;
    const T scaled = y / static_cast<T>(alpha);
    return kind == Kind::elu ? std::log1p(scaled) : scaled;
  }
};

// A row without the attribute has its channels last.
inline bool channel_last(const OpView& op) {
  return !op.schema().find_attribute("data_layout") ||
         op.attr<std::string>("data_layout") == "NHWC";
}

inline ChannelPlanes norm_planes(const OpView& op, const Shape& shape) {
  const int64_t block = op.decided().blocks.image;
  return block ? ChannelPlanes::in_blocks(shape, block) : ChannelPlanes(shape, channel_last(op));
}

// Statistics come from the batch, unless they are to be taken as they are.
inline bool uses_kept_statistics(const OpView& op) {
  if (!op.schema().find_attribute("is_test")) return false;
  const bool test = op.attr<bool>("is_test") && !op.attr<bool>("trainable_statistics");
  return test || op.attr<bool>("use_global_stats");
}

inline void batch_norm_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  if (x.shape.rank() < 2 || x.shape.rank() > 5) {
    throw op.error(cat("X has ", x.shape.rank(), " dimensions ", x.shape, " but 2 to 5 are needed"))
        .fix("give X the shape [batch, channels] or [batch, channels, spatial...]");
  }
  const int64_t block = op.decided().blocks.image;
  const Dim channels =
      block ? x.shape[1] * Dim(block) : x.shape[channel_last(op) ? x.shape.rank() - 1 : 1];
  Dim known = channels;
  for (const char* slot : {"Scale", "Bias", "Mean", "Variance"}) {
    const Dim given = op.in(slot).shape.numel();
    if (!given.may_equal(channels)) {
      throw op.error(cat(slot, " has ", given, " numbers but X has ", channels, " channels"))
          .fix(cat("give ", slot, " the shape [", channels, "], or check data_layout"));
    }
    known = Dim::join(known, given);
  }
  if (op.schema().find_input("Z") && op.has("Z")) {
    const ValueInfo& z = op.in("Z");
    for (int i = 0; i < x.shape.rank(); ++i) {
      if (z.shape.rank() == x.shape.rank() && z.shape[i].may_equal(x.shape[i])) continue;
      throw op.error(cat("Z has shape ", z.shape, " but X has ", x.shape)).fix("add equal shapes");
    }
  }
  op.set_out_like("Y", x);
  for (const char* slot : {"MeanOut", "VarianceOut", "SavedMean", "SavedVariance"}) {
    op.set_out(slot, op.in("Scale").dtype, Shape{known});
  }
  op.set_out("ReserveSpace", x.dtype, Shape{0});
}

// Slots, attributes and shapes of batch_norm and sync_batch_norm.
OpSchema& batch_norm_slots(OpSchema& row);
// Its parts, for rows that have other slots between them: Scale to Variance; Y to SavedVariance
// with what says how they are computed; what rows with the attribute is_test have beside these.
OpSchema& batch_norm_parameters(OpSchema& row);
OpSchema& batch_norm_results(OpSchema& row);
OpSchema& batch_norm_switches(OpSchema& row);
// The attributes of the last two, for rows with other results.
OpSchema& batch_norm_attributes(OpSchema& row);
OpSchema& batch_norm_switch_attributes(OpSchema& row);
inline constexpr const char* kNormalised =
    "[batch, channels], or with spatial dimensions in data_layout";

// How one op uses statistics.
struct NormUse {
  bool kept = false;    // the kept ones, not the batch's
  bool passes = false;  // one element per channel cannot be normalised: it passes as it is, as in
                        // the original, and leaves the statistics alone
  double epsilon = 0, momentum = 0;

  NormUse(const KernelSite& site, const ChannelPlanes& planes)
      : kept(uses_kept_statistics(site)),
        passes(!kept && planes.batch * planes.pixels == 1),
        epsilon(site.attr<float>("epsilon")),
        momentum(site.attr<float>("momentum")) {}
  bool measures(int64_t count) const { return !kept && !passes && count > 0; }
};

template <class T>
void write_channel(const KernelArgs& k, int position, int64_t c, double value) {
  if (k.has_out(position)) k.out<T>(position)[c] = static_cast<T>(value);
}

// Y = act(normalised X + Z); Z where the row has it and it is there. T: float, double.
template <class T>
BoundKernel batch_norm(const KernelSite& site, const NormActivation& act);

// Its gradient. Y@GRAD may be two operands, whose sum it is. Where the row has no X, what was
// normalised is read off Y; where relu has no Y, whether it let an element pass is read off X.
template <class T>
BoundKernel batch_norm_grad(const KernelSite& site, const NormActivation& act);

// Of inplace_abn, by its attributes.
NormActivation abn_activation(const OpView& op);

// Operands of the generated tests.
inline OpSample batch_norm_sample(Draw& d, const Shape& x, int64_t channels, Attrs attrs) {
  return {.inputs = {{"X", {d.uniform(x)}},
                     {"Scale", {d.uniform({channels}, 0.5, 1.5)}},
                     {"Bias", {d.uniform({channels})}},
                     {"Mean", {d.uniform({channels})}},
                     {"Variance", {d.uniform({channels}, 0.5, 1.5)}}},
          .attrs = std::move(attrs)};
}

}  // namespace trireme
