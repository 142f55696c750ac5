// Loss scaling of mixed precision: check_finite_and_unscale and update_loss_scaling.
#include <cmath>

#include "core/text.h"
#include "ops/rules.h"

namespace trireme {
namespace {

void each_like_x(OpView& op) {
  if (op.out_count("Out") != op.count("X")) {
    throw op.error(
        cat("there are ", op.count("X"), " variables in X and ", op.out_count("Out"), " in Out"));
  }
  for (size_t i = 0; i < op.count("X"); ++i) {
    const ValueInfo& x = op.in("X", i);
    if (x.known && x.type != VarType::lod_tensor) {
      throw op.error(cat("gradient ", x.name, " is ", name_of(x.type), ", not a dense tensor"))
          .fix("build the embedding with is_sparse=False, or train it in float32");
    }
    ValueInfo& out = op.out("Out", i);
    out.type = x.type;
    out.dtype = x.dtype;
    out.shape = x.shape;
    out.lod = x.lod;
    out.lod_level = x.lod_level;
  }
}

void require_one(const OpView& op, const char* slot, DType dtype) {
  require_one_number(op, slot);
  if (!op.in(slot).known || op.in(slot).dtype == dtype) return;
  throw op.error(cat(slot, " is ", name_of(op.in(slot).dtype), " but must be ", name_of(dtype)))
      .fix(cat("give ", slot, " as ", name_of(dtype), " [1]"));
}

struct Pairs {
  std::vector<int> ins, outs;
  explicit Pairs(const KernelSite& site) {
    for (size_t i = 0; i < site.count("X"); ++i) {
      ins.push_back(site.position("X", i));
      outs.push_back(site.out_position("Out", i));
    }
  }
};

template <class T>
KernelFn unscale(const KernelSite& site) {
  const Pairs at(site);
  const int scale_at = site.position("Scale"), found_at = site.out_position("FoundInfinite");
  return [=](const KernelArgs& k) {
    const T factor = static_cast<T>(1 / element_as_double(k.in(scale_at), 0));
    bool infinite = false;
    for (size_t i = 0; i < at.ins.size(); ++i) {
      const T* x = k.in<T>(at.ins[i]);
      T* out = k.out<T>(at.outs[i]);
      const int64_t n = k.in(at.ins[i]).shape().count();
      for (int64_t j = 0; j < n; ++j) {
        infinite |= !std::isfinite(x[j]);
        out[j] = x[j] * factor;
      }
    }
    *k.out<bool>(found_at) = infinite;
  };
}

struct ScaleRule {
  int grow_after, shrink_after;
  double growth, shrinkage;
  explicit ScaleRule(const KernelSite& site)
      : grow_after(site.attr<int>("incr_every_n_steps")),
        shrink_after(site.attr<int>("decr_every_n_nan_or_inf")),
        growth(site.attr<float>("incr_ratio")),
        shrinkage(site.attr<float>("decr_ratio")) {}

  // Enough good steps in a row: larger, if that is finite. Enough bad ones: smaller, but not below
  // one.
  void next(bool infinite, float& scale, int& good, int& bad) const {
    good = infinite ? 0 : good + 1;
    bad = infinite ? bad + 1 : 0;
    if (bad >= shrink_after) {
      scale = std::max(static_cast<float>(scale * shrinkage), 1.0f);
      bad = 0;
    }
    if (good >= grow_after) {
      const auto larger = static_cast<float>(scale * growth);
      if (std::isfinite(larger)) scale = larger;
      good = 0;
    }
  }
};

template <class T>
KernelFn update_scale(const KernelSite& site) {
  const Pairs at(site);
  const ScaleRule rule(site);
  const int found_at = site.position("FoundInfinite"), scale_at = site.position("PrevLossScaling"),
            good_at = site.position("InGoodSteps"), bad_at = site.position("InBadSteps"),
            new_scale_at = site.out_position("LossScaling"),
            new_good_at = site.out_position("OutGoodSteps"),
            new_bad_at = site.out_position("OutBadSteps");
  const bool frozen = site.attr<bool>("stop_update");
  return [=](const KernelArgs& k) {
    const bool infinite = *k.in<bool>(found_at);
    for (size_t i = 0; i < at.ins.size(); ++i) {
      const T* x = k.in<T>(at.ins[i]);
      T* out = k.out<T>(at.outs[i]);
      const int64_t n = k.in(at.ins[i]).shape().count();
      for (int64_t j = 0; j < n; ++j) out[j] = infinite ? T{0} : x[j];
    }
    float scale = *k.in<float>(scale_at);
    int good = *k.in<int>(good_at), bad = *k.in<int>(bad_at);
    if (!frozen) rule.next(infinite, scale, good, bad);
    *k.out<float>(new_scale_at) = scale;
    *k.out<int>(new_good_at) = good;
    *k.out<int>(new_bad_at) = bad;
  };
}

}  // namespace

void register_loss_scaling(Registry& ops) {
  ops.op("check_finite_and_unscale")
      .doc("Out = X / Scale, and whether any of X is not finite")
      .in_list("X", "gradients of a scaled loss")
      .in("Scale", "[1]: what the loss was multiplied by")
      .out_list("Out", "the gradients of the loss")
      .out("FoundInfinite", "[1]: whether an element was infinite or NaN")
      .shape([](OpView& op) {
        each_like_x(op);
        require_one_number(op, "Scale");
        op.set_out("FoundInfinite", DType::boolean, {1});
      })
      .kernel(typed<float, double>([]<class T>(const KernelSite& s) { return unscale<T>(s); }));
  ops.op("update_loss_scaling")
      .doc("The next scale of the loss; gradients that are not finite become zero")
      .in_list("X", "gradients")
      .in("FoundInfinite", "[1]: whether one is not finite")
      .in("PrevLossScaling", "[1]: the scale")
      .in("InGoodSteps", "[1] int32: steps since the last that was not finite")
      .in("InBadSteps", "[1] int32: steps in a row that were not finite")
      .out_list("Out", "X, or zeros")
      .out("LossScaling", "[1]: the scale of the next step")
      .out("OutGoodSteps", "[1]")
      .out("OutBadSteps", "[1]")
      .required_attr<int32_t>("incr_every_n_steps", "good steps after which the scale grows")
      .required_attr<int32_t>("decr_every_n_nan_or_inf", "bad steps after which it shrinks")
      .required_attr<float>("incr_ratio", "by what it grows")
      .required_attr<float>("decr_ratio", "by what it shrinks")
      .attr("stop_update", false, "the scale stays")
      .shape([](OpView& op) {
        each_like_x(op);
        require_one(op, "FoundInfinite", DType::boolean);
        require_one(op, "PrevLossScaling", DType::float32);
        require_one(op, "InGoodSteps", DType::int32);
        require_one(op, "InBadSteps", DType::int32);
        op.set_out("LossScaling", DType::float32, {1});
        op.set_out("OutGoodSteps", DType::int32, {1});
        op.set_out("OutBadSteps", DType::int32, {1});
      })
      .kernel(
          typed<float, double>([]<class T>(const KernelSite& s) { return update_scale<T>(s); }));
}

}  // namespace trireme
