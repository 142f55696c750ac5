// softmax_with_cross_entropy: the loss of logits, without ever taking the logarithm of a softmax.
#include <cmath>

#include "cpu/independent.h"
#include "ir/schema.h"
#include "ops/axis_rows.h"
#include "ops/loss/class_labels.h"
#include "ops/row_math.h"

namespace trireme {
namespace {

void loss_shape(OpView& op) {
  const ValueInfo& logits = op.in("Logits");
  const int axis = normal_axis(op, op.attr<int>("axis"), logits.shape.rank());
  check_labels(op, "Logits", axis, op.attr<bool>("soft_label"));
  op.set_out_like("Softmax", logits);
  Shape losses = logits.shape;
  losses[axis] = 1;
  op.set_out("Loss", logits.dtype, losses);
  op.share_lod("Logits", "Loss");
}

struct SoftmaxOptions {
  AxisRows rows;
  bool soft, use_softmax;
  int64_t ignored;
  SoftmaxOptions(const OpView& op, const Shape& shape)
      : rows(shape, normal_axis(op, op.attr<int>("axis"), shape.rank())),
        soft(op.attr<bool>("soft_label")),
        use_softmax(op.attr<bool>("use_softmax")),
        ignored(op.attr<int>("ignore_index")) {}
};

// One row, walked with a stride.
template <class T>
struct Row {
  T* first;
  int64_t stride;
  T& operator[](int64_t j) const { return first[j * stride]; }
};

// log(softmax)[j] = logits[j] - shift. Without softmax the row holds probabilities already.
template <class T>
T shift_of(Row<const T> logits, int64_t classes) {
  if (logits.stride == 1) {
    T shift = 0;
    vectorised([&] {
      const T* x = logits.first;
      const T top = row_max(x, classes);
      const T sum = row_sum<T>(classes, [=](int64_t j) { return exponential(x[j] - top); });
      shift = top + std::log(sum);
    });
    return shift;
  }
  T top = logits[0];
  for (int64_t j = 1; j < classes; ++j) top = std::max(top, logits[j]);
  T sum = 0;
  for (int64_t j = 0; j < classes; ++j) sum += exponential(logits[j] - top);
  return top + std::log(sum);
}

// Softmax and the cost of one class out of one round of exponentials. `softmax` may be `x`.
template <class T>
T class_cost(const T* x, int64_t classes, int64_t label, T* softmax) {
  const T chosen = x[label];
  T shift = 0;
  vectorised([&shift, x, classes, to = softmax] {
    const T top = row_max(x, classes);
    TRIREME_INDEPENDENT
    for (int64_t j = 0; j < classes; ++j) to[j] = exponential(x[j] - top);
    const T sum = row_sum<T>(classes, [=](int64_t j) { return to[j]; });
    shift = top + std::log(sum);
    const T inverse = 1 / sum;
    for (int64_t j = 0; j < classes; ++j) to[j] *= inverse;
  });
  return shift - chosen;
}

template <class T>
BoundKernel loss(const KernelSite& site) {
  const SoftmaxOptions o(site, site.in("Logits").shape);
  const int softmax_at = site.out_position("Softmax"), loss_at = site.out_position("Loss");
  const int64_t classes = o.rows.extent;
  const bool one_round = o.use_softmax && !o.soft && o.rows.inner == 1;
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(o.rows.rows());
        for (int64_t row = begin; row < end; ++row) {
          const Row<const T> logits{k.in<T>(0) + o.rows.begin(row), o.rows.inner};
          if (one_round && k.has_out(softmax_at)) {
            const ClassLabels labels(k.in(1));
            const bool counts = labels[row] != o.ignored;
            const T cost = class_cost(logits.first, classes,
                                      counts ? labels.checked(row, classes) : int64_t{0},
                                      k.out<T>(softmax_at) + o.rows.begin(row));
            if (k.has_out(loss_at)) k.out<T>(loss_at)[row] = counts ? cost : T(0);
            continue;
          }
          const T shift = o.use_softmax ? shift_of(logits, classes) : T(0);
          const auto cost = [&](int64_t j) {
            return o.use_softmax ? shift - logits[j] : -std::log(logits[j]);
          };
          T sum = 0;
          if (o.soft) {
            const Row<const T> label{k.in<T>(1) + o.rows.begin(row), o.rows.inner};
            for (int64_t j = 0; j < classes; ++j) {
              if (label[j] != T(0)) sum += label[j] * cost(j);
            }
          } else {
            const ClassLabels labels(k.in(1));
            if (labels[row] != o.ignored) sum = cost(labels.checked(row, classes));
          }
          // Written last: Softmax may lie in the memory of Logits.
          if (k.has_out(softmax_at)) {
            const Row<T> softmax{k.out<T>(softmax_at) + o.rows.begin(row), o.rows.inner};
            if (o.use_softmax && logits.stride == 1) {
              vectorised([x = logits.first, to = softmax.first, shift, classes] {
                for (int64_t j = 0; j < classes; ++j) to[j] = exponential(x[j] - shift);
              });
            } else {
              for (int64_t j = 0; j < classes; ++j) {
                softmax[j] = o.use_softmax ? exponential(logits[j] - shift) : logits[j];
              }
            }
          }
          if (k.has_out(loss_at)) k.out<T>(loss_at)[row] = sum;
        }
      },
      o.rows.parts());
}

// dLogits = dLoss * (Softmax * sum(Label) - Label), a hard label being one 1. Without softmax the
// logits are probabilities: dLogits = -dLoss * Label / Softmax.
template <class T>
BoundKernel loss_grad(const KernelSite& site) {
  const SoftmaxOptions o(site, site.in("Softmax").shape);
  const int label_at = site.position("Label"), softmax_at = site.position("Softmax"),
            loss_grad_at = site.position("Loss@GRAD"),
            logits_grad_at = site.out_position("Logits@GRAD");
  const int64_t classes = o.rows.extent;
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(o.rows.rows());
        for (int64_t row = begin; row < end; ++row) {
          const Row<const T> softmax{k.in<T>(softmax_at) + o.rows.begin(row), o.rows.inner};
          const Row<T> grad{k.out<T>(logits_grad_at) + o.rows.begin(row), o.rows.inner};
          const T scale = k.in<T>(loss_grad_at)[row];
          if (o.soft) {
            const Row<const T> label{k.in<T>(label_at) + o.rows.begin(row), o.rows.inner};
            T total = 0;
            for (int64_t j = 0; j < classes; ++j) total += label[j];
            for (int64_t j = 0; j < classes; ++j) {
              grad[j] =
                  scale * (o.use_softmax ? softmax[j] * total - label[j] : -label[j] / softmax[j]);
            }
            continue;
          }
          const ClassLabels labels(k.in(label_at));
          const bool counts = labels[row] != o.ignored;
          if (counts && o.use_softmax && grad.stride == 1) {
            vectorised([p = softmax.first, to = grad.first, scale, classes] {
              for (int64_t j = 0; j < classes; ++j) to[j] = scale * p[j];
            });
          } else {
            for (int64_t j = 0; j < classes; ++j) {
              grad[j] = counts && o.use_softmax ? scale * softmax[j] : T(0);
            }
          }
          if (counts) {
            const int64_t label = labels.checked(row, classes);
            grad[label] -= o.use_softmax ? scale : scale / softmax[label];
          }
        }
      },
      o.rows.parts());
}

OpSample soft_sample(Draw& d, Attrs attrs) {
  const Shape shape{d.size(1, 3), d.size(2, 4), d.size(2, 3)};
  attrs["soft_label"] = true;
  return {
      .inputs = {{"Logits", {d.uniform(shape, 0.1, 0.9)}}, {"Label", {d.uniform(shape, 0.1, 0.9)}}},
      .attrs = std::move(attrs)};
}

}  // namespace

void register_softmax_cross_entropy(Registry& ops) {
  ops.op("softmax_with_cross_entropy")
      .in("Logits", "any rank; the classes lie along `axis`")
      .in("Label", "class numbers, 1 at the axis; or probabilities like Logits when soft")
      .out_intermediate("Softmax", "softmax of Logits")
      .out("Loss", "the loss of each row, 1 at the axis")
      .attr("soft_label", false, "labels are probabilities, not class numbers")
      .attr("numeric_stable_mode", true, "has no effect: the stable form is always used")
      .attr("ignore_index", -100, "rows with this hard label cost nothing")
      .attr("axis", -1, "the dimension of the classes")
      .attr("use_softmax", true, "false: Logits holds probabilities already")
      .shape(loss_shape)
      .traits({.can_fail = true})
      .inplace("Logits", "Softmax")
      .kernel(typed<float, double>([]<class T>(const KernelSite& site) { return loss<T>(site); }))
      .grad({"Label", "Softmax"})
      .no_grad({"Label"})
      .grad_kernel(
          typed<float, double>([]<class T>(const KernelSite& site) { return loss_grad<T>(site); }))
      .grad_shape([](OpView& op) { op.set_out_like("Logits@GRAD", op.in("Softmax")); })
      .sample([](Draw& d) {
        const int64_t rows = d.size(1, 4), classes = d.size(2, 5);
        return OpSample{.inputs = {{"Logits", {d.uniform({rows, classes}, -2, 2)}},
                                   {"Label", {d.ints({rows, 1}, 0, classes - 1)}}},
                        .attrs = {{"ignore_index", 1}}};
      })
      .sample([](Draw& d) {
        const int64_t rows = d.size(1, 3), classes = d.size(2, 4), inner = d.size(1, 3);
        return OpSample{.inputs = {{"Logits", {d.uniform({rows, classes, inner}, -2, 2)}},
                                   {"Label", {d.ints({rows, 1, inner}, 0, classes - 1)}}},
                        .attrs = {{"axis", 1}}};
      })
      .sample([](Draw& d) { return soft_sample(d, {}); })
      .sample([](Draw& d) {
        return soft_sample(d, {{"axis", 1}, {"use_softmax", false}});
      })
      .sample([](Draw& d) {
        const int64_t rows = d.size(1, 4), classes = d.size(2, 5);
        return OpSample{.inputs = {{"Logits", {d.uniform({rows, classes}, 0.1, 0.9)}},
                                   {"Label", {d.ints({rows, 1}, 0, classes - 1)}}},
                        .attrs = {{"use_softmax", false}}};
      });
}

}  // namespace trireme
