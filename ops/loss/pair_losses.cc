// Losses of pairs and of soft targets: rank_loss, margin_rank_loss, kldiv_loss,
// teacher_student_sigmoid_loss.
#include <cmath>

#include "ops/rules.h"

namespace trireme {
namespace {

void require_like(const OpView& op, const char* first, const char* other) {
  const Shape &a = op.in(first).shape, &b = op.in(other).shape;
  if (a.may_equal(b)) return;
  throw op.error(cat(first, " has shape ", a, " but ", other, " ", b))
      .fix(cat("give ", other, " the shape of ", first));
}

Expr loss_softplus(Expr x) { return maximum(x, 0.0) + log1p(exp(-abs(x))); }

// ---- rank_loss, margin_rank_loss

void register_pairs(Registry& ops) {
  ops.op("rank_loss")
      .doc("RankNet's loss: the cross entropy of which of two is ranked higher")
      .in("Label", "1: Left is above Right, 0: below it, 0.5: neither")
      .in("Left", "scores, Label's shape")
      .in("Right", "scores, Label's shape")
      .out("Out", "log(1 + exp(Left - Right)) - Label * (Left - Right)")
      .shape([](OpView& op) {
        require_floating(op, "Label");
        require_like(op, "Label", "Left");
        require_like(op, "Label", "Right");
        op.set_out_like("Out", op.in("Label"));
      })
      .body([](Body& b) {
        const Expr above = b.in("Left") - b.in("Right");
        b.out("Out") = loss_softplus(above) - b.in("Label") * above;
      })
      .grad({"Label", "Left", "Right"})
      .no_grad({"Label"})
      .grad_body([](Body& b) {
        const Expr slope =
            b.in("Out@GRAD") * (sigmoid(b.in("Left") - b.in("Right")) - b.in("Label"));
        if (b.wants("Left@GRAD")) b.out("Left@GRAD") = slope;
        if (b.wants("Right@GRAD")) b.out("Right@GRAD") = -slope;
      })
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"Label", {cast(d.bools({4, 1}), DType::float64)}},
                                   {"Left", {d.uniform({4, 1})}},
                                   {"Right", {d.uniform({4, 1})}}}};
      });
  ops.op("margin_rank_loss")
      .in("X1", "scores")
      .in("X2", "scores, X1's shape")
      .in("Label", "1: X1 is to be above X2, -1: below it")
      .out_intermediate("Activated", "1 where the loss is above 0")
      .out("Out", "max(0, margin - Label * (X1 - X2))")
      .attr("margin", 0.0f, "how far above")
      .shape([](OpView& op) {
        require_floating(op, "X1");
        require_like(op, "X1", "X2");
        require_like(op, "X1", "Label");
        op.set_out("Activated", op.in("X1").dtype, op.in("X1").shape);
        op.set_out_like("Out", op.in("X1"));
      })
      .body([](Body& b) {
        const Expr loss = b.attr<float>("margin") - b.in("Label") * (b.in("X1") - b.in("X2"));
        b.out("Activated") = cast(greater(loss, 0.0), loss.dtype());
        b.out("Out") = maximum(loss, 0.0);
      })
      .grad({"Label", "Activated"})
      .no_grad({"Label"})
      .grad_body([](Body& b) {
        const Expr slope = b.in("Out@GRAD") * b.in("Activated") * b.in("Label");
        if (b.wants("X1@GRAD")) b.out("X1@GRAD") = -slope;
        if (b.wants("X2@GRAD")) b.out("X2@GRAD") = slope;
      })
      .sample([](Draw& d) {
        return OpSample{
            .inputs = {{"X1", {d.uniform({4, 1}, 0.2, 1)}},
                       {"X2", {d.uniform({4, 1}, -1, 0)}},
                       {"Label", {d.coin() ? d.uniform({4, 1}, 1, 1) : d.uniform({4, 1}, -1, -1)}}},
            .attrs = {{"margin", 0.1f}}};
      });
}

// ---- kldiv_loss

Expr divergence(Expr x, Expr target) {
  const Expr counts = greater(target, 0.0);
  const Expr safe = select(counts, target, constant(target, 1.0));
  return select(counts, target * (log(safe) - x), constant(target, 0.0));
}

void kldiv_body(Body& b) {
  const Expr loss = divergence(b.in("X"), b.in("Target"));
  const auto reduction = b.attr<std::string>("reduction");
  if (reduction == "none") {
    b.out("Loss") = loss;
  } else if (reduction == "mean") {
    b.out("Loss") = reshape(reduce_mean(loss), {1});
  } else if (reduction == "sum") {
    b.out("Loss") = reshape(reduce_sum(loss), {1});
  } else {  // the sum of each sample, and their mean
    b.out("Loss") = reshape(reduce_mean(reduce_sum(flatten2d(loss, 1), {1})), {1});
  }
}

void register_kldiv(Registry& ops) {
  OpSchema& row = ops.op("kldiv_loss")
                      .doc("The Kullback-Leibler divergence of Target from exp(X)")
                      .in("X", "logarithms of probabilities")
                      .in("Target", "probabilities, X's shape")
                      .out("Loss", "Target * (log(Target) - X), 0 where Target is not above 0")
                      .attr("reduction", "mean", "what is made of the elements")
                      .one_of({"none", "mean", "batchmean", "sum"})
                      .shape([](OpView& op) {
                        require_floating(op, "X");
                        require_like(op, "X", "Target");
                        const ValueInfo& x = op.in("X");
                        if (op.attr<std::string>("reduction") == "none") {
                          return op.set_out_like("Loss", x);
                        }
                        op.set_out("Loss", x.dtype, {1});
                      })
                      .body(kldiv_body)
                      .grad({"X", "Target"})
                      .no_grad({"Target"});
  for (const char* reduction : {"none", "mean", "batchmean", "sum"}) {
    row.sample([reduction](Draw& d) {
      return OpSample{.inputs = {{"X", {d.uniform({3, 4}, -2, 0)}},
                                 {"Target", {away_from(d.uniform({3, 4}, -0.2, 1), {0})}}},
                      .attrs = {{"reduction", std::string(reduction)}}};
    });
  }
}

// ---- teacher_student_sigmoid_loss

// The label says two things: whether there was a click, and, from 0 on, what a teacher gave: -2 and
// -1 are no click and a click without a teacher, [0, 1) and [1, 2] are the teacher's probability,
// plus 1 where there was a click.
struct TwoLabels {
  Expr clicked, taught, teacher;
  explicit TwoLabels(Expr label) {
    const auto as_number = [&](Expr condition) { return cast(condition, label.dtype()); };
    taught = as_number(greater_equal(label, 0.0));
    const Expr shifted = as_number(greater_equal(label, 1.0));
    clicked =
        maximum(shifted, as_number(logical_and(greater_equal(label, -1.0), less(label, 0.0))));
    teacher = (label - shifted) * taught;
  }
};

void teacher_body(Body& b) {
  const Expr x = b.in("X");
  const TwoLabels label(b.in("Label"));
  b.out("Y") = loss_softplus(x) * (1.0 + label.taught) - x * (label.clicked + label.teacher);
}

void teacher_grad(Body& b) {
  const Expr x = b.in("X");
  const TwoLabels label(b.in("Label"));
  const Expr inside = logical_and(greater(x, b.attr<float>("soft_max_lower_bound")),
                                  less(x, b.attr<float>("soft_max_up_bound")));
  const Expr slope = sigmoid(x) * (1.0 + label.taught) - (label.clicked + label.teacher);
  b.out("X@GRAD") = select(inside, b.in("Y@GRAD") * slope, constant(x, 0.0));
}

}  // namespace

void register_pair_losses(Registry& ops) {
  register_pairs(ops);
  register_kldiv(ops);
  ops.op("teacher_student_sigmoid_loss")
      .doc("The cross entropy of a click, and of a teacher's probability where there is one")
      .in("X", "[rows, 1]: logits")
      .in("Label", "[rows, 1]: -2, -1 or from 0 to 2")
      .out("Y", "[rows, 1]")
      .attr("soft_max_up_bound", 15.0f, "a larger X has no gradient")
      .attr("soft_max_lower_bound", -15.0f, "nor has a smaller one")
      .shape([](OpView& op) {
        require_floating(op, "X");
        require_like(op, "X", "Label");
        const ValueInfo& x = op.in("X");
        if (x.shape.rank() != 2 || !x.shape[1].may_equal(1)) {
          throw op.error(cat("X has shape ", x.shape)).fix("give X and Label [rows, 1]");
        }
        op.set_out("Y", x.dtype, {x.shape[0], 1});
      })
      .body(teacher_body)
      .grad({"X", "Label"})
      .no_grad({"Label"})
      .grad_body(teacher_grad)
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({6, 1}, -2, 2)}},
                                   {"Label", {cast(d.ints({6, 1}, -2, 2), DType::float64)}}}};
      })
      .sample([](Draw& d) {
        return OpSample{
            .inputs = {{"X", {d.uniform({6, 1}, -2, 2)}}, {"Label", {d.uniform({6, 1}, 0, 2)}}}};
      });
}

}  // namespace trireme
