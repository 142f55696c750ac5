// Weight decay: terms added to gradients before the optimizer sees them.
#pragma once

#include <memory>
#include <string>

#include "ir/backward.h"
#include "ir/program.h"

namespace trireme {

// Derive from it for a regularizer of your own.
class Regularizer {
 public:
  virtual ~Regularizer() = default;
  // Appends to `block` the ops that compute the term for one parameter. Null: no term.
  virtual Var* operator()(Var& param, Var& grad, Block& block) = 0;
  virtual std::string describe() const = 0;  // "L2Decay, regularization_coeff=0.000100"
};

// term = coeff * param
class L2Decay final : public Regularizer {
 public:
  explicit L2Decay(double coeff = 0) : coeff_(coeff) {}
  Var* operator()(Var& param, Var& grad, Block& block) override;
  std::string describe() const override;
  double coeff() const { return coeff_; }

 private:
  double coeff_;
};

// term = coeff * sign(param)
class L1Decay final : public Regularizer {
 public:
  explicit L1Decay(double coeff = 0) : coeff_(coeff) {}
  Var* operator()(Var& param, Var& grad, Block& block) override;
  std::string describe() const override;
  double coeff() const { return coeff_; }

 private:
  double coeff_;
};

inline std::shared_ptr<Regularizer> l2_decay(double coeff) {
  return std::make_shared<L2Decay>(coeff);
}
inline std::shared_ptr<Regularizer> l1_decay(double coeff) {
  return std::make_shared<L1Decay>(coeff);
}

// Each gradient plus its term: the parameter's own regularizer, else `regularizer`. The sum has the
// gradient's name; a SelectedRows gradient becomes the dense <grad>@NEWGRAD@. Pairs without a
// gradient pass through.
ParamGrads append_regularization_ops(const ParamGrads& params_grads,
                                     const std::shared_ptr<Regularizer>& regularizer);

}  // namespace trireme
