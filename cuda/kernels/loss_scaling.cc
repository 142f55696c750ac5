// check_finite_and_unscale and update_loss_scaling: all gradients of a step at once.
#include "core/text.h"
#include "cuda/cuda_device.h"
#include "cuda/emit.h"
#include "cuda/kernels/register.h"

namespace trireme::cuda {
namespace {

// One element of a gradient after the other; those of one type have one text, so that they are
// launched together.
struct EachGradient {
  std::vector<int> ins, outs;
  std::vector<Launch> launches;

  EachGradient(const KernelSite& site, const std::string& body, int addresses) {
    for (size_t i = 0; i < site.count("X"); ++i) {
      const ValueInfo& x = site.in("X", i);
      ins.push_back(site.position("X", i));
      outs.push_back(site.out_position("Out", i));
      launches.push_back(
          pointwise(x.shape, {}, cat("typedef ", type_text(x.dtype), " T;\n", body), addresses));
    }
  }
  // p.at: X, Out, then `more`.
  void run(const KernelArgs& k, std::initializer_list<const void*> more) const {
    k.queue->begin_members();
    for (size_t i = 0; i < launches.size(); ++i) {
      AddressList at{k.in(ins[i]).address(), k.out(outs[i]).address()};
      for (const void* one : more) at.push_back(one);
      k.queue->next_member();
      launch(launches[i], at, *k.queue);
    }
    k.queue->end_members();
  }
};

BoundKernel unscale(const KernelSite& site) {
  const std::string scale = type_text(site.in("Scale").dtype);
  const EachGradient each(
      site,
      cat("const T factor = (T)(1 / (double)((const ", scale,
          "*)p.at[2])[0]), x = ((const T*)p.at[0])[at];\n"
          "if (!e_is_finite(x)) *(bool*)p.at[3] = true;\n((T*)p.at[1])[at] = x * factor;\n"),
      4);
  const Launch clear = pointwise(Shape{1}, {}, "*(bool*)p.at[0] = false;\n", 1);
  const int scale_at = site.position("Scale"), found_at = site.out_position("FoundInfinite");
  return on_queue([=](const KernelArgs& k) {
    const void* found = k.out(found_at).address();
    launch(clear, {found}, *k.queue);
    each.run(k, {k.in(scale_at).address(), found});
  });
}

// p of the last: found, scale, good, bad, then the next of the three.
BoundKernel update_scale(const KernelSite& site) {
  const EachGradient each(site,
                          "const T x = ((const T*)p.at[0])[at];\n"
                          "((T*)p.at[1])[at] = *(const bool*)p.at[2] ? (T)0 : x;\n",
                          3);
  const std::string rule = cat(
      "good = infinite ? 0 : good + 1; bad = infinite ? bad + 1 : 0;\nif (bad >= ",
      site.attr<int>("decr_every_n_nan_or_inf"), ") { const float less = (float)((double)scale * ",
      double_text(site.attr<float>("decr_ratio")),
      "); scale = less > 1 ? less : 1.0f; bad = 0; }\nif (good >= ",
      site.attr<int>("incr_every_n_steps"), ") { const float more = (float)((double)scale * ",
      double_text(site.attr<float>("incr_ratio")),
      "); if (e_is_finite(more)) scale = more; good = 0; }\n");
  const Launch next = pointwise(
      Shape{1}, {},
      cat("const bool infinite = *(const bool*)p.at[0]; float scale = *(const float*)p.at[1];\n"
          "int good = *(const int*)p.at[2], bad = *(const int*)p.at[3];\n",
          site.attr<bool>("stop_update") ? "(void)infinite;\n" : rule,
          "*(float*)p.at[4] = scale; *(int*)p.at[5] = good; *(int*)p.at[6] = bad;\n"),
      7);
  const int found = site.position("FoundInfinite"), scale = site.position("PrevLossScaling"),
            good = site.position("InGoodSteps"), bad = site.position("InBadSteps");
  const int next_scale = site.out_position("LossScaling"),
            next_good = site.out_position("OutGoodSteps"),
            next_bad = site.out_position("OutBadSteps");
  return on_queue([=](const KernelArgs& k) {
    each.run(k, {k.in(found).address()});
    launch(next,
           {k.in(found).address(), k.in(scale).address(), k.in(good).address(), k.in(bad).address(),
            k.out(next_scale).address(), k.out(next_good).address(), k.out(next_bad).address()},
           *k.queue);
  });
}

}  // namespace

void add_loss_scaling(DeviceKernels& kernels) {
  add_to(kernels, "check_finite_and_unscale", "generated", untyped(unscale));
  add_to(kernels, "update_loss_scaling", "generated", untyped(update_scale));
}

}  // namespace trireme::cuda
