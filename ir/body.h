// Bodies: an operator written in primitives. Gradient, fusion and every backend come from it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/op_view.h"

namespace trireme {

class OpSchema;

// Takes primitives as they are written; the graph being compiled implements it.
class Emitter {
 public:
  virtual ~Emitter() = default;
  // Appends one primitive and returns its results. The primitive's shape rule has run.
  virtual std::vector<int> emit(std::string_view primitive, const std::vector<int>& inputs,
                                Attrs attrs) = 0;
  // Appends any op of the table that has kernels: operands by slot, and how many results of which
  // slots are wanted.
  using Operands = std::map<std::string, std::vector<int>, std::less<>>;
  using Wanted = std::map<std::string, size_t, std::less<>>;
  virtual Operands emit_op(std::string_view type, const Operands& operands, Attrs attrs,
                           const Wanted& wanted) = 0;
  virtual const ValueInfo& info(int value) const = 0;
};

// A value in the making. Binary operators broadcast as numpy does, aligned at the right; a plain
// number takes the other side's element type.
class Expr {
 public:
  Expr() = default;
  Expr(Emitter* emitter, int id) : emitter_(emitter), id_(id) {}

  explicit operator bool() const { return emitter_ != nullptr; }
  Emitter& emitter() const { return *emitter_; }
  int id() const { return id_; }
  const ValueInfo& info() const { return emitter_->info(id_); }
  DType dtype() const { return info().dtype; }
  int rank() const { return info().shape.rank(); }
  const Shape& shape() const { return info().shape; }  // may hold unknown extents

 private:
  Emitter* emitter_ = nullptr;
  int id_ = -1;
};

// One primitive with one result.
Expr emit(std::string_view primitive, const std::vector<Expr>& inputs, Attrs attrs = {});

// One op of the table that has kernels.
using Exprs = std::map<std::string, std::vector<Expr>, std::less<>>;
Exprs emit_op(Emitter& emitter, std::string_view type, const Exprs& operands, Attrs attrs,
              const Emitter::Wanted& wanted);

Expr constant(const Expr& like, double value);  // rank 0, the element type of `like`
Expr constant(Emitter& emitter, DType dtype, double value);
Expr full_like(const Expr& like, double value);  // shape and type of `like`

Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);
Expr operator+(Expr a, double b);
Expr operator-(Expr a, double b);
Expr operator*(Expr a, double b);
Expr operator/(Expr a, double b);
Expr operator+(double a, Expr b);
Expr operator-(double a, Expr b);
Expr operator*(double a, Expr b);
Expr operator/(double a, Expr b);
Expr operator-(Expr a);

// Elementwise.
Expr abs(Expr x);
Expr exp(Expr x);
Expr log(Expr x);
Expr sqrt(Expr x);
Expr rsqrt(Expr x);
Expr reciprocal(Expr x);
Expr square(Expr x);
Expr tanh(Expr x);
Expr sigmoid(Expr x);
Expr sin(Expr x);
Expr cos(Expr x);
Expr erf(Expr x);
Expr floor(Expr x);
Expr ceil(Expr x);
Expr round(Expr x);
Expr sign(Expr x);
Expr log1p(Expr x);
Expr maximum(Expr a, Expr b);
Expr minimum(Expr a, Expr b);
Expr maximum(Expr a, double b);
Expr minimum(Expr a, double b);
Expr pow(Expr a, Expr b);
Expr pow(Expr a, double b);
Expr floor_divide(Expr a, Expr b);
Expr modulo(Expr a, Expr b);  // the sign of the divisor for integers as for floats, like Python
// Comparisons give bool.
Expr equal(Expr a, Expr b);
Expr not_equal(Expr a, Expr b);
Expr less(Expr a, Expr b);
Expr less_equal(Expr a, Expr b);
Expr greater(Expr a, Expr b);
Expr greater_equal(Expr a, Expr b);
Expr less(Expr a, double b);
Expr greater(Expr a, double b);
Expr less_equal(Expr a, double b);
Expr greater_equal(Expr a, double b);
Expr equal(Expr a, double b);
Expr logical_and(Expr a, Expr b);
Expr logical_or(Expr a, Expr b);
Expr logical_xor(Expr a, Expr b);
Expr logical_not(Expr a);
Expr is_finite(Expr x);
Expr select(Expr condition, Expr yes, Expr no);
Expr cast(Expr x, DType dtype);

// Reductions; no axes means all of them. Negative axes count from the end.
Expr reduce_sum(Expr x, const std::vector<int>& axes = {}, bool keep = false);
Expr reduce_mean(Expr x, const std::vector<int>& axes = {}, bool keep = false);
Expr reduce_max(Expr x, const std::vector<int>& axes = {}, bool keep = false);
Expr reduce_min(Expr x, const std::vector<int>& axes = {}, bool keep = false);
Expr reduce_prod(Expr x, const std::vector<int>& axes = {}, bool keep = false);
Expr reduce_all(Expr x, const std::vector<int>& axes = {}, bool keep = false);
Expr reduce_any(Expr x, const std::vector<int>& axes = {}, bool keep = false);

// Shapes. Where sizes are not known while building, a value with the wanted shape is named instead.
Expr reshape(Expr x, const std::vector<int64_t>& shape);  // 0 copies the extent, one -1 is inferred
Expr reshape_like(Expr x, Expr like);                     // equal element count
Expr broadcast_like(Expr x, Expr like);
Expr sum_to_like(Expr x, Expr like);  // undoes a broadcast: adds up what was repeated
// Rows [0, axis) and columns [axis, rank): two dimensions.
Expr flatten2d(Expr x, int axis);
// x's dims placed at `axis` of a value of rank `rank`, the rest 1: fluid's axis broadcasting.
Expr align(Expr x, int rank, int axis);
Expr unsqueeze(Expr x, const std::vector<int>& axes);  // axes of the result
Expr squeeze(Expr x, const std::vector<int>& axes);
Expr transpose(Expr x, const std::vector<int>& perm);

// y = op(x) written as rules over slots. For a gradient op the slots are the gradient op's own:
// "X", "Out", "Out@GRAD" are inputs, "X@GRAD" an output.
class Body {
 public:
  Body(Emitter& emitter, const OpView& op, std::vector<int> inputs);

  bool has(std::string_view slot) const { return op_.has(slot); }
  bool wants(std::string_view slot) const { return op_.wants(slot); }
  size_t count(std::string_view slot) const { return op_.count(slot); }
  Expr in(std::string_view slot, size_t i = 0) const;
  const OpView& op() const { return op_; }
  Emitter& emitter() const { return emitter_; }
  template <class T>
  T attr(std::string_view name) const {
    return op_.attr<T>(name);
  }

  class Out {
   public:
    Out(Body& body, int position) : body_(body), position_(position) {}
    void operator=(Expr value) {
      if (position_ >= 0) body_.results_[static_cast<size_t>(position_)] = value;
    }

   private:
    Body& body_;
    int position_;
  };
  // Assigning to an output nobody wants does nothing.
  Out out(std::string_view slot, size_t i = 0) { return Out(*this, op_.out_position(slot, i)); }
  const std::vector<Expr>& results() const { return results_; }

 private:
  Emitter& emitter_;
  const OpView& op_;
  std::vector<int> inputs_;  // by position, -1 when absent
  std::vector<Expr> results_;
};

// The vector-Jacobian product of one primitive, or of an op that has kernels: given its operands,
// results and the gradients that arrive there, states the gradients of its operands.
class Vjp {
 public:
  Vjp(const OpView& op, std::vector<Expr> ins, std::vector<Expr> outs, std::vector<Expr> out_grads)
      : op_(op),
        ins_(std::move(ins)),
        outs_(std::move(outs)),
        out_grads_(std::move(out_grads)),
        grads_(ins_.size()) {}

  Expr in(size_t i) const { return ins_[i]; }
  size_t in_size() const { return ins_.size(); }
  Expr out(size_t i = 0) const { return outs_[i]; }
  Expr grad(size_t i = 0) const { return out_grads_[i]; }  // false when no gradient arrives there
  template <class T>
  T attr(std::string_view name) const {
    return op_.attr<T>(name);
  }
  void set(size_t i, Expr gradient) { grads_[i] = gradient; }
  const std::vector<Expr>& grads() const { return grads_; }

  // By slot; false where there is no such operand, or no gradient arrives.
  const OpView& op() const { return op_; }
  Expr in(std::string_view slot, size_t i = 0) const;
  Expr grad(std::string_view slot, size_t i = 0) const;
  void set(std::string_view slot, size_t i, Expr gradient);
  Emitter& emitter() const;

 private:
  const OpView& op_;
  std::vector<Expr> ins_, outs_, out_grads_;
  std::vector<Expr> grads_;
};

}  // namespace trireme
