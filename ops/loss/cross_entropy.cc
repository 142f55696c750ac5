// Cross entropy of probabilities: cross_entropy (hard and soft labels) and cross_entropy2.
#include <cmath>

#include "ir/schema.h"
#include "ops/loss/class_labels.h"

namespace trireme {
namespace {

// -log(p), finite: a probability of 0 costs 1e20.
template <class T>
T minus_log(T p) {
  constexpr T kMost = T(1e20);
  const T value = -std::log(p);
  return value > kMost ? kMost : value < -kMost ? -kMost : value;
}

void check_scores(const OpView& op) {
  const Shape& x = op.in("X").shape;
  if (x.rank() < 1) {
    throw op.error("X has no dimensions but its last one holds the classes")
        .fix("give X the shape [rows, classes]");
  }
}

Shape losses_of(const Shape& x) {
  Shape losses = x;
  losses[x.rank() - 1] = 1;
  return losses;
}

void cross_entropy_shape(OpView& op) {
  check_scores(op);
  const ValueInfo& x = op.in("X");
  check_labels(op, "X", x.shape.rank() - 1, op.attr<bool>("soft_label"));
  op.set_out("Y", x.dtype, losses_of(x.shape));
  op.share_lod("X", "Y");
}

// What both directions know of a site.
struct Sizes {
  int64_t rows, classes, ignored;
  explicit Sizes(const OpView& op, const Shape& x)
      : rows(x.product(0, x.rank() - 1).value()),
        classes(x.back().value()),
        ignored(op.attr<int>("ignore_index")) {}
};

template <class T>
BoundKernel cross_entropy(const KernelSite& site) {
  const Sizes sizes(site, site.in("X").shape);
  const bool soft = site.attr<bool>("soft_label");
  return [=](const KernelArgs& k) {
    const T* x = k.in<T>(0);
    T* y = k.out<T>(0);
    for (int64_t row = 0; row < sizes.rows; ++row, x += sizes.classes) {
      if (soft) {
        const T* label = k.in<T>(1) + row * sizes.classes;
        T loss = 0;
        for (int64_t j = 0; j < sizes.classes; ++j) loss += label[j] * minus_log(x[j]);
        y[row] = loss;
      } else {
        const ClassLabels labels(k.in(1));
        y[row] =
            labels[row] == sizes.ignored ? T(0) : minus_log(x[labels.checked(row, sizes.classes)]);
      }
    }
  };
}

template <class T>
BoundKernel cross_entropy_grad(const KernelSite& site) {
  const Sizes sizes(site, site.in("X").shape);
  const bool soft = site.attr<bool>("soft_label");
  const int x_at = site.position("X"), label_at = site.position("Label"),
            y_grad_at = site.position("Y@GRAD"), x_grad_at = site.out_position("X@GRAD");
  return [=](const KernelArgs& k) {
    const T* x = k.in<T>(x_at);
    const T* y_grad = k.in<T>(y_grad_at);
    T* x_grad = k.out<T>(x_grad_at);
    for (int64_t row = 0; row < sizes.rows; ++row) {
      if (soft) {
        const T* label = k.in<T>(label_at) + row * sizes.classes;
        for (int64_t j = 0; j < sizes.classes; ++j) x_grad[j] = -y_grad[row] * label[j] / x[j];
      } else {
        std::fill(x_grad, x_grad + sizes.classes, T(0));
        const ClassLabels labels(k.in(label_at));
        if (labels[row] != sizes.ignored) {
          const int64_t label = labels.checked(row, sizes.classes);
          x_grad[label] = -y_grad[row] / x[label];
        }
      }
      x += sizes.classes;
      x_grad += sizes.classes;
    }
  };
}

// cross_entropy2 keeps the chosen probabilities and X's shape, so that its gradient needs no X.
void cross_entropy2_shape(OpView& op) {
  check_scores(op);
  const ValueInfo& x = op.in("X");
  check_labels(op, "X", x.shape.rank() - 1, false);
  op.set_out("Y", x.dtype, losses_of(x.shape));
  op.share_lod("X", "Y");
  op.set_out("MatchX", x.dtype, losses_of(x.shape));
  Shape kept = x.shape;
  kept.insert(0, 0);
  op.set_out("XShape", x.dtype, kept);
  op.share_lod("X", "XShape");
}

Shape shape_from_kept(const OpView& op) {
  Shape shape = op.in("XShape").shape;
  shape.erase(0);
  return shape;
}

void cross_entropy_grad2_shape(OpView& op) {
  op.set_out("X@GRAD", op.in("MatchX").dtype, shape_from_kept(op));
  op.share_lod("XShape", "X@GRAD");
}

template <class T>
BoundKernel cross_entropy2(const KernelSite& site) {
  const Sizes sizes(site, site.in("X").shape);
  const int y_at = site.out_position("Y"), match_at = site.out_position("MatchX");
  return [=](const KernelArgs& k) {
    const T* x = k.in<T>(0);
    const ClassLabels labels(k.in(1));
    for (int64_t row = 0; row < sizes.rows; ++row) {
      const bool ignored = labels[row] == sizes.ignored;
      const T match = ignored ? T(1) : x[row * sizes.classes + labels.checked(row, sizes.classes)];
      if (k.has_out(match_at)) k.out<T>(match_at)[row] = match;
      if (k.has_out(y_at)) k.out<T>(y_at)[row] = ignored ? T(0) : minus_log(match);
    }
  };
}

template <class T>
BoundKernel cross_entropy_grad2(const KernelSite& site) {
  const Sizes sizes(site, shape_from_kept(site));
  const int label_at = site.position("Label"), match_at = site.position("MatchX"),
            y_grad_at = site.position("Y@GRAD"), x_grad_at = site.out_position("X@GRAD");
  return [=](const KernelArgs& k) {
    const ClassLabels labels(k.in(label_at));
    const T* match = k.in<T>(match_at);
    const T* y_grad = k.in<T>(y_grad_at);
    T* x_grad = k.out<T>(x_grad_at);
    std::fill(x_grad, x_grad + sizes.rows * sizes.classes, T(0));
    for (int64_t row = 0; row < sizes.rows; ++row) {
      if (labels[row] == sizes.ignored) continue;
      x_grad[row * sizes.classes + labels.checked(row, sizes.classes)] = -y_grad[row] / match[row];
    }
  };
}

OpSample hard_sample(Draw& d) {
  const int64_t rows = d.size(1, 4), classes = d.size(2, 5);
  return {.inputs = {{"X", {d.uniform({rows, classes}, 0.1, 0.9)}},
                     {"Label", {d.ints({rows, 1}, 0, classes - 1)}}},
          .attrs = {{"ignore_index", 1}}};
}

}  // namespace

void register_cross_entropy(Registry& ops) {
  ops.op("cross_entropy")
      .in("X", "[..., classes]: probabilities")
      .in("Label", "[..., 1] class numbers, or [..., classes] when soft")
      .out("Y", "[..., 1]: the loss of each row")
      .attr("soft_label", false, "labels are probabilities, not class numbers")
      .attr("ignore_index", -100, "rows with this label cost nothing")
      .shape(cross_entropy_shape)
      .traits({.can_fail = true})
      .kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return cross_entropy<T>(site); }))
      .grad({"X", "Label"})
      .no_grad({"Label"})
      .grad_kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return cross_entropy_grad<T>(site); }))
      .sample(hard_sample)
      .sample([](Draw& d) {
        const Shape shape{d.size(1, 3), d.size(1, 3), d.size(2, 4)};
        return OpSample{.inputs = {{"X", {d.uniform(shape, 0.1, 0.9)}},
                                   {"Label", {d.uniform(shape, 0.1, 0.9)}}},
                        .attrs = {{"soft_label", true}}};
      });
  ops.op("cross_entropy2")
      .in("X", "[..., classes]: probabilities")
      .in("Label", "[..., 1]: class numbers")
      .out("Y", "[..., 1]: the loss of each row")
      .out("XShape", "X's shape behind a 0, for the gradient")
      .out("MatchX", "[..., 1]: the probability of each row's label")
      .attr("ignore_index", -100, "rows with this label cost nothing")
      .shape(cross_entropy2_shape)
      .traits({.can_fail = true})
      .kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return cross_entropy2<T>(site); }))
      .grad({"Label", "MatchX", "XShape"})
      .grad_type("cross_entropy_grad2")
      .grad_outs({"Y"})
      .no_grad({"Label"})
      .grad_shape(cross_entropy_grad2_shape)
      .grad_kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return cross_entropy_grad2<T>(site); }))
      .sample(hard_sample);
}

}  // namespace trireme
