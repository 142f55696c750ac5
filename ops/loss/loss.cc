// Losses written in primitives, and bpr_loss.
#include <cmath>

#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

void require_same_shape(const OpView& op, std::string_view a, std::string_view b) {
  const ValueInfo &first = op.in(a), &second = op.in(b);
  if (first.shape.may_equal(second.shape)) return;
  throw op.error(cat(a, " has shape ", first.shape, " but ", b, " has ", second.shape))
      .fix(cat("give ", b, " the shape of ", a));
}

// ---- log_loss, sigmoid_cross_entropy_with_logits

void log_loss_body(Body& b) {
  const Expr p = b.in("Predicted"), label = b.in("Labels");
  const double epsilon = b.attr<float>("epsilon");
  b.out("Loss") = -label * log(p + epsilon) - (1.0 - label) * log(1.0 - p + epsilon);
}

// Where the label counts, as 1 and 0 of X's type; divided by their number when asked for.
Expr sigmoid_weights(Body& b) {
  const Expr x = b.in("X"), label = b.in("Label");
  const Expr counts =
      cast(not_equal(label, constant(label, b.attr<int32_t>("ignore_index"))), x.dtype());
  if (!b.attr<bool>("normalize")) return counts;
  return counts / maximum(reduce_sum(counts), 1e-5);
}

void sigmoid_body(Body& b) {
  const Expr x = b.in("X"), label = b.in("Label");
  const Expr loss = maximum(x, 0.0) - x * label + log1p(exp(-abs(x)));
  b.out("Out") = loss * sigmoid_weights(b);
}

// Written out: the derivatives of max(x, 0) and |x| at 0 do not add up to that of the loss.
void sigmoid_grad(Body& b) {
  b.out("X@GRAD") = b.in("Out@GRAD") * (sigmoid(b.in("X")) - b.in("Label")) * sigmoid_weights(b);
}

void register_logistic(Registry& ops) {
  ops.op("log_loss")
      .in("Predicted", "probabilities")
      .in("Labels", "0 or 1, Predicted's shape and type")
      .out("Loss", "-Labels log(Predicted + epsilon) - (1 - Labels) log(1 - Predicted + epsilon)")
      .required_attr<float>("epsilon", "keeps the logarithm finite")
      .shape([](OpView& op) {
        require_floating(op, "Predicted");
        require_same_shape(op, "Predicted", "Labels");
        op.set_out_like("Loss", op.in("Predicted"));
      })
      .body(log_loss_body)
      .grad({"Predicted", "Labels"})
      .no_grad({"Labels"})
      .sample([](Draw& d) {
        const Shape shape = {d.size(1, 5), 1};
        return OpSample{.inputs = {{"Predicted", {d.uniform(shape, 0.1, 0.9)}},
                                   {"Labels", {cast(d.bools(shape), DType::float64)}}},
                        .attrs = {{"epsilon", 1e-4f}}};
      });
  OpSchema& row =
      ops.op("sigmoid_cross_entropy_with_logits")
          .in("X", "logits")
          .in("Label", "probabilities, X's shape and type")
          .out("Out", "max(X, 0) - X * Label + log(1 + exp(-|X|)), 0 where Label is ignore_index")
          .attr("normalize", false, "divide by the number of labels that count")
          .attr("ignore_index", -100, "labels of this value do not count")
          .shape([](OpView& op) {
            require_floating(op, "X");
            require_same_shape(op, "X", "Label");
            op.set_out_like("Out", op.in("X"));
          })
          .body(sigmoid_body)
          .grad({"X", "Label"})
          .no_grad({"Label"})
          .grad_body(sigmoid_grad);
  for (const bool normalize : {false, true}) {
    row.sample([normalize](Draw& d) {
      const Shape shape = d.shape(1, 3);
      return OpSample{.inputs = {{"X", {d.uniform(shape, -2, 2)}},
                                 {"Label", {cast(d.ints(shape, -1, 1), DType::float64)}}},
                      .attrs = {{"ignore_index", int32_t{-1}}, {"normalize", normalize}}};
    });
  }
}

// ---- smooth_l1_loss, huber_loss

void smooth_l1_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  require_floating(op, "X");
  require_same_shape(op, "X", "Y");
  if (x.shape.rank() < 2) {
    throw op.error(cat("X has ", x.shape.rank(), " dimensions"))
        .fix("give X rows and at least one more dimension");
  }
  for (const char* slot : {"InsideWeight", "OutsideWeight"}) {
    if (op.has(slot)) require_same_shape(op, "X", slot);
  }
  op.set_out("Diff", x.dtype, x.shape);
  op.set_out("Out", x.dtype, {x.shape[0], 1});
}

void smooth_l1_body(Body& b) {
  Expr diff = b.in("X") - b.in("Y");
  if (b.has("InsideWeight")) diff = diff * b.in("InsideWeight");
  const double sigma2 = static_cast<double>(b.attr<float>("sigma")) * b.attr<float>("sigma");
  const Expr size = abs(diff);
  Expr loss = select(less(size, 1.0 / sigma2), square(diff) * (0.5 * sigma2), size - 0.5 / sigma2);
  if (b.has("OutsideWeight")) loss = loss * b.in("OutsideWeight");
  b.out("Diff") = diff;
  b.out("Out") = reduce_sum(flatten2d(loss, 1), {1}, true);
}

void smooth_l1_grad(Body& b) {
  const Expr diff = b.in("Diff");
  const double sigma2 = static_cast<double>(b.attr<float>("sigma")) * b.attr<float>("sigma");
  std::vector<int64_t> rows(static_cast<size_t>(diff.rank()), 1);
  rows[0] = -1;
  Expr slope = select(less(abs(diff), 1.0 / sigma2), diff * sigma2, sign(diff)) *
               reshape(b.in("Out@GRAD"), rows);
  if (b.has("OutsideWeight")) slope = slope * b.in("OutsideWeight");
  if (b.has("InsideWeight")) slope = slope * b.in("InsideWeight");
  if (b.wants("X@GRAD")) b.out("X@GRAD") = slope;
  if (b.wants("Y@GRAD")) b.out("Y@GRAD") = -slope;
}

void like_diff(OpView& op, const char* slot) {
  for (const char* out : {"X@GRAD", "Y@GRAD"}) {
    if (op.wants(out)) op.set_out(out, op.in(slot).dtype, op.in(slot).shape);
  }
}

void register_smooth_losses(Registry& ops) {
  OpSchema& row = ops.op("smooth_l1_loss")
                      .in("X", "[rows, ...]")
                      .in("Y", "X's shape")
                      .in_optional("InsideWeight", "X's shape; multiplies X - Y")
                      .in_optional("OutsideWeight", "X's shape; multiplies the loss")
                      .out_intermediate("Diff", "(X - Y) * InsideWeight")
                      .out("Out", "per row: squares near 0 and absolute values elsewhere, added up")
                      .attr("sigma", 1.0f, "the bend is at 1 / sigma^2")
                      .shape(smooth_l1_shape)
                      .body(smooth_l1_body)
                      .grad({"InsideWeight", "OutsideWeight", "Diff"})
                      .no_grad({"InsideWeight", "OutsideWeight"})
                      .grad_shape([](OpView& op) { like_diff(op, "Diff"); })
                      .grad_body(smooth_l1_grad);
  for (const bool weighted : {false, true}) {
    row.sample([weighted](Draw& d) {
      const Shape shape = d.shape(2, 3);
      OpSample sample{.inputs = {{"X", {away_from(d.uniform(shape, 0, 3), {1.0})}},
                                 {"Y", {filled(DType::float64, shape, 0)}}},
                      .attrs = {{"sigma", 1.0f}}};
      if (weighted) {
        sample.inputs["InsideWeight"] = {filled(DType::float64, shape, 1)};
        sample.inputs["OutsideWeight"] = {d.uniform(shape, 0.5, 1)};
      }
      return sample;
    });
  }

  ops.op("huber_loss")
      .in("X", "predictions")
      .in("Y", "X's shape")
      .out_intermediate("Residual", "Y - X")
      .out("Out", "half the square near 0, delta * (|Residual| - delta / 2) elsewhere")
      .required_attr<float>("delta", "where the bend is")
      .shape([](OpView& op) {
        require_floating(op, "X");
        require_same_shape(op, "X", "Y");
        op.set_out("Residual", op.in("X").dtype, op.in("X").shape);
        op.set_out_like("Out", op.in("X"));
      })
      .body([](Body& b) {
        const double delta = b.attr<float>("delta");
        const Expr residual = b.in("Y") - b.in("X"), size = abs(residual);
        b.out("Residual") = residual;
        b.out("Out") =
            select(less_equal(size, delta), square(residual) * 0.5, (size - 0.5 * delta) * delta);
      })
      .grad({"Residual"})
      .grad_shape([](OpView& op) { like_diff(op, "Residual"); })
      .grad_body([](Body& b) {
        const double delta = b.attr<float>("delta");
        const Expr residual = b.in("Residual");
        const Expr slope = minimum(maximum(residual, -delta), delta) * b.in("Out@GRAD");
        if (b.wants("X@GRAD")) b.out("X@GRAD") = -slope;
        if (b.wants("Y@GRAD")) b.out("Y@GRAD") = slope;
      })
      .sample([](Draw& d) {
        const Shape shape = {d.size(1, 5), 1};
        return OpSample{.inputs = {{"X", {away_from(d.uniform(shape, -2, 2), {-0.5, 0.5})}},
                                   {"Y", {filled(DType::float64, shape, 0)}}},
                        .attrs = {{"delta", 0.5f}}};
      });
}

// ---- bpr_loss: how far the labelled score stays behind the others, on average

void bpr_shape(OpView& op) {
  const ValueInfo &x = op.in("X"), &label = op.in("Label");
  require_floating(op, "X");
  if (x.shape.rank() < 2 || x.shape.rank() != label.shape.rank() ||
      !label.shape.back().may_equal(1)) {
    throw op.error(cat("X has shape ", x.shape, " and Label ", label.shape))
        .fix("give Label the shape of X with 1 in place of the classes");
  }
  Shape out = x.shape;
  out[out.rank() - 1] = 1;
  op.set_out("Y", x.dtype, out);
  carry_lod(op, "Y", {"X"});
}

int64_t checked_label(const int64_t* labels, int64_t row, int64_t classes) {
  if (labels[row] >= 0 && labels[row] < classes) return labels[row];
  throw Error(ErrorKind::out_of_range,
              cat("Label[", row, "] is ", labels[row], " but X has ", classes, " classes"))
      .fix(cat("use labels from 0 to ", classes - 1));
}

template <class T>
BoundKernel bpr_kernel(const KernelSite& site) {
  const int64_t classes = site.in("X").shape.back().value();
  const int64_t rows = site.in("Label").shape.count();
  return [=](const KernelArgs& k) {
    const T* x = k.in<T>(0);
    const auto* labels = k.in<int64_t>(1);
    for (int64_t row = 0; row < rows; ++row, x += classes) {
      const int64_t label = checked_label(labels, row, classes);
      T sum = 0;
      for (int64_t j = 0; j < classes; ++j) {
        if (j != label) sum += std::log1p(std::exp(x[j] - x[label]));
      }
      k.out<T>(0)[row] = sum / T(classes - 1);
    }
  };
}

template <class T>
BoundKernel bpr_grad_kernel(const KernelSite& site) {
  const int64_t classes = site.in("X").shape.back().value();
  const int64_t rows = site.in("Label").shape.count();
  const int x_at = site.position("X"), label_at = site.position("Label");
  const int grad_at = site.position("Y@GRAD"), out_at = site.out_position("X@GRAD");
  return [=](const KernelArgs& k) {
    const T* x = k.in<T>(x_at);
    T* dx = k.out<T>(out_at);
    const auto* labels = k.in<int64_t>(label_at);
    for (int64_t row = 0; row < rows; ++row, x += classes, dx += classes) {
      const int64_t label = checked_label(labels, row, classes);
      const T share = k.in<T>(grad_at)[row] / T(classes - 1);
      T others = 0;
      for (int64_t j = 0; j < classes; ++j) {
        if (j == label) continue;
        dx[j] = share / (1 + std::exp(x[label] - x[j]));
        others += dx[j];
      }
      dx[label] = -others;
    }
  };
}

void register_bpr(Registry& ops) {
  ops.op("bpr_loss")
      .in("X", "scores, classes in the last dimension")
      .in("Label", "int64, X's shape with 1 class")
      .out("Y", "mean of log(1 + exp(X[j] - X[label])) over the other classes")
      .shape(bpr_shape)
      .kernel(
          typed<float, double>([]<class T>(const KernelSite& site) { return bpr_kernel<T>(site); }))
      .grad({"X", "Label"})
      .no_grad({"Label"})
      .grad_kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return bpr_grad_kernel<T>(site); }))
      .traits({.can_fail = true})
      .sample([](Draw& d) {
        const int64_t rows = d.size(1, 4), classes = d.size(2, 5);
        return OpSample{.inputs = {{"X", {d.uniform({rows, classes})}},
                                   {"Label", {d.ints({rows, 1}, 0, classes - 1)}}}};
      });
}

}  // namespace

void register_loss(Registry& ops) {
  register_logistic(ops);
  register_smooth_losses(ops);
  register_bpr(ops);
}

}  // namespace trireme
