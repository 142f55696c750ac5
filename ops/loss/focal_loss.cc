// sigmoid_focal_loss, center_loss.
#include <cmath>

#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/tensor/indices.h"

namespace trireme {
namespace {

// ---- sigmoid_focal_loss

void focal_shape(OpView& op) {
  const ValueInfo &x = op.in("X"), &label = op.in("Label");
  require_floating(op, "X");
  require_index(op, "Label");
  if (x.shape.rank() != 2 || label.shape.rank() != 2 || !label.shape[1].may_equal(1) ||
      !label.shape[0].may_equal(x.shape[0])) {
    throw op.error(cat("X has shape ", x.shape, " and Label ", label.shape))
        .fix("give [rows, classes] and [rows, 1]");
  }
  if (!op.in("FgNum").shape.numel().may_equal(1)) {
    throw op.error(cat("FgNum has shape ", op.in("FgNum").shape)).fix("give one number");
  }
  op.set_out_like("Out", x);
}

// One logit: its loss and slope, weighed by how wrong the chance is to the power of gamma.
struct FocalTerm {
  double loss, slope;
  FocalTerm(double x, bool wanted, double gamma, double alpha) {
    // The chance of what is wrong, and the logarithm of the chance of what is right.
    const double sign = wanted ? 1 : -1, logit = sign * x;
    const double right = -(std::max(-logit, 0.0) + std::log1p(std::exp(-std::abs(logit))));
    const double wrong = 1 / (1 + std::exp(logit));
    const double weight = (wanted ? alpha : 1 - alpha) * std::pow(wrong, gamma);
    loss = -weight * right;
    slope = sign * weight * (gamma * (1 - wrong) * right - wrong);
  }
};

template <class T, bool kBack>
BoundKernel focal(const KernelSite& site) {
  const int64_t count = site.in("X").shape.count(), classes = site.in("X").shape.at(1);
  const int x_at = site.position("X"), label_at = site.position("Label");
  const int number_at = site.position("FgNum");
  const int grad_at = kBack ? site.position("Out@GRAD") : -1;
  const double gamma = site.attr<float>("gamma"), alpha = site.attr<float>("alpha");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const Indices label(k.in(label_at), "Label");
        const double objects = std::max<double>(k.in<int32_t>(number_at)[0], 1);
        const auto [begin, end] = k.range(count);
        for (int64_t at = begin; at < end; ++at) {
          const int64_t wanted = label[at / classes];
          double value = 0;  // a row of label -1 is left out
          if (wanted != -1) {
            const FocalTerm term(static_cast<double>(k.in<T>(x_at)[at]), wanted == at % classes + 1,
                                 gamma, alpha);
            value = (kBack ? term.slope : term.loss) / objects;
            if (kBack) value *= static_cast<double>(k.in<T>(grad_at)[at]);
          }
          k.out<T>(0)[at] = static_cast<T>(value);
        }
      },
      parts_for(count * 32));
}

// ---- center_loss

void center_shape(OpView& op) {
  const ValueInfo &x = op.in("X"), &centers = op.in("Centers");
  require_floating(op, "X");
  require_index(op, "Label");
  if (x.shape.rank() != 2 || centers.shape.rank() != 2 || !centers.shape[1].may_equal(x.shape[1]) ||
      !op.in("Label").shape.numel().may_equal(x.shape[0])) {
    throw op
        .error(cat("X has shape ", x.shape, ", Label ", op.in("Label").shape, " and Centers ",
                   centers.shape))
        .fix("give [rows, width], [rows, 1] and [classes, width]");
  }
  op.set_out("CentersOut", centers.dtype, centers.shape);
  op.set_out("SampleCenterDiff", x.dtype, x.shape);
  op.set_out("Loss", x.dtype, {x.shape[0], 1});
}

// Half the squared distance to the class's center; the centers then go to the mean of their rows,
// as far as the rate says. One more than the rows is counted, so that few move a center less.
template <class T>
BoundKernel center_loss(const KernelSite& site) {
  const int64_t rows = site.in("X").shape.at(0), width = site.in("X").shape.at(1);
  const int64_t classes = site.in("Centers").shape.at(0);
  const int x_at = site.position("X"), label_at = site.position("Label");
  const int center_at = site.position("Centers"), rate_at = site.position("CenterUpdateRate");
  const int out_at = site.out_position("CentersOut"), loss_at = site.out_position("Loss");
  const int apart_at = site.out_position("SampleCenterDiff");
  const bool moves = site.attr<bool>("need_update");
  return [=](const KernelArgs& k) {
    const Indices label(k.in(label_at), "Label");
    const T* centers = k.in<T>(center_at);
    T* apart = k.out<T>(apart_at);
    for (int64_t row = 0; row < rows; ++row) {
      const T* center = centers + label.checked(row, classes) * width;
      T sum = 0;
      for (int64_t j = row * width; j < (row + 1) * width; ++j) {
        apart[j] = k.in<T>(x_at)[j] - center[j - row * width];
        sum += apart[j] * apart[j];
      }
      k.out<T>(loss_at)[row] = sum / 2;
    }
    if (!k.has_out(out_at)) return;
    T* out = k.out<T>(out_at);
    if (out != centers) std::copy_n(centers, classes * width, out);
    for (int64_t row = 0; moves && row < rows; ++row) {
      int64_t count = 1;
      for (int64_t other = 0; other < rows; ++other) count += label[other] == label[row];
      const T share = k.in<T>(rate_at)[0] / static_cast<T>(count);
      T* center = out + label[row] * width;
      for (int64_t j = 0; j < width; ++j) center[j] += share * apart[row * width + j];
    }
  };
}

}  // namespace

void register_focal_loss(Registry& ops) {
  ops.op("sigmoid_focal_loss")
      .doc("The cross entropy of every class, weighed by how wrong the answer is")
      .in("X", "[rows, classes]: logits")
      .in("Label", "[rows, 1]: classes from 1 up; 0: none of them, -1: left out")
      .in("FgNum", "int32 [1]: what the loss is divided by, 1 at least")
      .out("Out", "like X")
      .attr("gamma", 2.0f, "how much less right answers count")
      .attr("alpha", 0.25f, "the weight of the class; other classes have 1 - alpha")
      .shape(focal_shape)
      .kernel(typed_by<float, double>(
          "X", []<class T>(const KernelSite& site) { return focal<T, false>(site); }))
      .grad({"X", "Label", "FgNum"})
      .no_grad({"Label", "FgNum"})
      .grad_kernel(typed_by<float, double>(
          "X", []<class T>(const KernelSite& site) { return focal<T, true>(site); }))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({4, 3}, -3, 3)}},
                                   {"Label", {d.ints({4, 1}, -1, 3, DType::int32)}},
                                   {"FgNum", {d.ints({1}, 0, 3, DType::int32)}}},
                        .attrs = {{"gamma", 1.5f}}};
      });
  ops.op("center_loss")
      .doc("How far rows are from the centers of their classes, which follow them")
      .in("X", "[rows, width]")
      .in("Label", "[rows, 1]: classes")
      .in("Centers", "[classes, width]")
      .in("CenterUpdateRate", "[1]: how far centers go")
      .out("CentersOut", "the centers after this batch; may be Centers itself")
      .out_intermediate("SampleCenterDiff", "[rows, width]: X less its center")
      .out("Loss", "[rows, 1]: half the squared distances")
      .attr("cluster_num", 0, "accepted; Centers says it")
      .attr("need_update", true, "whether centers move")
      .shape(center_shape)
      .kernel(typed_by<float, double>(
          "X", []<class T>(const KernelSite& site) { return center_loss<T>(site); }))
      .grad({"X", "SampleCenterDiff"})  // X for the original, which takes its type
      .grad_outs({"Loss"})
      .no_grad({"Label", "Centers", "CenterUpdateRate"})
      .grad_shape([](OpView& op) {
        const ValueInfo& apart = op.in("SampleCenterDiff");
        op.set_out("X@GRAD", apart.dtype, apart.shape);
      })
      .grad_body([](Body& b) { b.out("X@GRAD") = b.in("SampleCenterDiff") * b.in("Loss@GRAD"); })
      .inplace("Centers", "CentersOut")
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({4, 3})}},
                                   {"Label", {d.ints({4, 1}, 0, 1)}},
                                   {"Centers", {d.uniform({2, 3})}},
                                   {"CenterUpdateRate", {d.uniform({1}, 0.1, 0.3)}}}};
      });
}

}  // namespace trireme
