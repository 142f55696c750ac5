// Optimizers: each appends to a program the ops that update its parameters from their gradients.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/backward.h"
#include "ir/program.h"
#include "layers/clip.h"
#include "layers/layer_helper.h"
#include "layers/regularizer.h"

namespace trireme {

// A number, or the variable that holds it: learning rates, Adam's betas.
class Hyper {
 public:
  Hyper(double value) : value_(value) {}
  Hyper(Var& var) : var_(&var) {}
  double value() const { return value_; }
  Var* var() const { return var_; }

 private:
  double value_ = 0;
  Var* var_ = nullptr;
};

struct OptimizerOptions {
  std::vector<std::string> parameter_list = {};           // empty: all trainable parameters
  std::shared_ptr<Regularizer> regularization = nullptr;  // where a parameter has none of its own
  std::shared_ptr<GradientClip> grad_clip = nullptr;      // null: what set_gradient_clip wrote
  std::string name = {};                                  // becomes part of the states' names
  // 2.4's LRScheduler: the learning rate given is today's value, and whoever runs the program
  // writes the next ones into the variable that Program::scheduled_rate names.
  bool scheduled = false;
};

struct MinimizeOptions {
  std::shared_ptr<Program> startup = nullptr;    // null: the default startup program
  std::vector<std::string> parameter_list = {};  // empty: the optimizer's own
  std::set<std::string> no_grad_set = {};
  std::vector<std::function<void(Block&, Op&)>> callbacks = {};  // after each gradient op
  std::vector<std::string> checkpoints = {};                     // recompute between these
};

struct Minimized {
  std::vector<Op*> ops;     // the update ops, with what stands between them
  ParamGrads params_grads;  // before clipping and regularization
};

// Derive from it for an optimizer of your own: append_optimize_op is the one that must be given.
class Optimizer {
 public:
  explicit Optimizer(std::string type, const Hyper& learning_rate, OptimizerOptions options = {});
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // backward, then apply_optimize.
  virtual Minimized minimize(Var& loss, const MinimizeOptions& options = {},
                             SourceLine line = SourceLine::here());
  virtual ParamGrads backward(Var& loss, const MinimizeOptions& options = {},
                              SourceLine line = SourceLine::here());
  // Clip, regularize, update; into the default programs.
  virtual std::vector<Op*> apply_gradients(const ParamGrads& params_grads,
                                           SourceLine line = SourceLine::here());
  // The same into the loss's program.
  virtual std::vector<Op*> apply_optimize(Var& loss, const std::shared_ptr<Program>& startup,
                                          const ParamGrads& params_grads,
                                          SourceLine line = SourceLine::here());

  const std::string& type() const { return type_; }
  const std::string& name() const { return options_.name; }
  const OptimizerOptions& options() const { return options_; }
  // Names of the states made so far, in order.
  virtual const std::vector<std::string>& get_opti_var_name_list() const { return state_names_; }
  const Hyper& learning_rate() const { return learning_rate_; }
  // Null until minimize has made it. Null program: the default main one.
  virtual Var* learning_rate_var(const Program* program = nullptr) const;

  // Hooks of derived optimizers, in the order they are called.
  virtual void create_accumulators(Block& block, const std::vector<Var*>& params);
  virtual Op& append_optimize_op(Block& block, Var& param, Var& grad) = 0;
  virtual void finish_update(Block& block, const ParamGrads& params_grads);

  // What the hooks use.
  struct State {
    double fill = 0;
    std::vector<int64_t> shape = {};  // empty: the parameter's
    DType dtype = DType::float32;     // read when own_dtype; else the parameter's
    bool own_dtype = false;
    bool on_cpu = false;  // one number that the host reads
  };
  Var& add_accumulator(std::string_view name, Var& param, const State& state);
  Var& add_accumulator(std::string_view name, Var& param) {
    return add_accumulator(name, param, State{});
  }
  Var& accumulator(std::string_view name, const Var& param) const;
  // The learning rate, times the parameter's own where that is not 1 (a `scale` op).
  Var& create_param_lr(Var& param);

 protected:
  OptimizerOptions options_;

 private:
  void check_loss(const Var& loss) const;
  std::string state_name(std::string_view name) const;
  void create_learning_rate();
  void find_devices(const ParamGrads& params_grads, const Block& block);
  std::string device_of(const Var& param) const;
  std::vector<Op*> append_updates(const ParamGrads& params_grads);

  std::string type_;
  Hyper learning_rate_;
  DType dtype_ = DType::float32;
  // By the id of the program, as one optimizer may serve several.
  std::map<uint64_t, Var*> learning_rates_;
  std::map<std::tuple<uint64_t, std::string, std::string>, Var*> accumulators_;  // name, parameter
  std::map<std::string, std::string> devices_;
  std::vector<std::string> state_names_;
};

// An optimizer by what the user calls it, with these states and defaults.
namespace optimizer {

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const Hyper& learning_rate, OptimizerOptions options = {})
      : Optimizer("sgd", learning_rate, std::move(options)) {}
  Op& append_optimize_op(Block& block, Var& param, Var& grad) override;
};

class Momentum final : public Optimizer {
 public:
  Momentum(const Hyper& learning_rate, double momentum, bool use_nesterov = false,
           OptimizerOptions options = {})
      : Optimizer("momentum", learning_rate, std::move(options)),
        momentum_(momentum),
        use_nesterov_(use_nesterov) {}
  void create_accumulators(Block& block, const std::vector<Var*>& params) override;
  Op& append_optimize_op(Block& block, Var& param, Var& grad) override;

 private:
  double momentum_;
  bool use_nesterov_;
};

struct LarsOptions {
  double lars_coeff = 0.001;
  double lars_weight_decay = 0.0005;
};
class LarsMomentum final : public Optimizer {
 public:
  LarsMomentum(const Hyper& learning_rate, double momentum, const LarsOptions& lars = {},
               OptimizerOptions options = {})
      : Optimizer("lars_momentum", learning_rate, std::move(options)),
        momentum_(momentum),
        lars_(lars) {}
  void create_accumulators(Block& block, const std::vector<Var*>& params) override;
  Op& append_optimize_op(Block& block, Var& param, Var& grad) override;

 private:
  double momentum_;
  LarsOptions lars_;
};

class Adagrad final : public Optimizer {
 public:
  explicit Adagrad(const Hyper& learning_rate, double epsilon = 1e-6,
                   double initial_accumulator_value = 0, OptimizerOptions options = {})
      : Optimizer("adagrad", learning_rate, std::move(options)),
        epsilon_(epsilon),
        initial_(initial_accumulator_value) {}
  void create_accumulators(Block& block, const std::vector<Var*>& params) override;
  Op& append_optimize_op(Block& block, Var& param, Var& grad) override;

 private:
  double epsilon_, initial_;
};

class DecayedAdagrad final : public Optimizer {
 public:
  explicit DecayedAdagrad(const Hyper& learning_rate, double decay = 0.95, double epsilon = 1e-6,
                          OptimizerOptions options = {})
      : Optimizer("decayed_adagrad", learning_rate, std::move(options)),
        decay_(decay),
        epsilon_(epsilon) {}
  void create_accumulators(Block& block, const std::vector<Var*>& params) override;
  Op& append_optimize_op(Block& block, Var& param, Var& grad) override;

 private:
  double decay_, epsilon_;
};

// Its op reads no learning rate.
class Adadelta final : public Optimizer {
 public:
  explicit Adadelta(const Hyper& learning_rate, double epsilon = 1e-6, double rho = 0.95,
                    OptimizerOptions options = {})
      : Optimizer("adadelta", learning_rate, std::move(options)), epsilon_(epsilon), rho_(rho) {}
  void create_accumulators(Block& block, const std::vector<Var*>& params) override;
  Op& append_optimize_op(Block& block, Var& param, Var& grad) override;

 private:
  double epsilon_, rho_;
};

struct AdamOptions {
  Hyper beta1 = 0.9;
  Hyper beta2 = 0.999;
  double epsilon = 1e-8;
  bool lazy_mode = false;         // a sparse gradient moves only its rows
  bool corrects_epsilon = false;  // 2.x multiplies epsilon by sqrt(1 - beta2^step)
  double decoupled_decay = 0;     // AdamW: parameters shrink by this, times the rate, before a step
  std::function<bool(const Var&)> decays = {};  // which of them; empty: all
};
class Adam final : public Optimizer {
 public:
  explicit Adam(const Hyper& learning_rate = 0.001, AdamOptions adam = {},
                OptimizerOptions options = {})
      : Optimizer("adam", learning_rate, std::move(options)), adam_(std::move(adam)) {}
  void create_accumulators(Block& block, const std::vector<Var*>& params) override;
  Op& append_optimize_op(Block& block, Var& param, Var& grad) override;

 private:
  void append_decay(Block& block, Var& param);

  AdamOptions adam_;
};

struct AdamaxOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};
class Adamax final : public Optimizer {
 public:
  explicit Adamax(const Hyper& learning_rate = 0.001, const AdamaxOptions& adamax = {},
                  OptimizerOptions options = {})
      : Optimizer("adamax", learning_rate, std::move(options)), adamax_(adamax) {}
  void create_accumulators(Block& block, const std::vector<Var*>& params) override;
  Op& append_optimize_op(Block& block, Var& param, Var& grad) override;
  void finish_update(Block& block, const ParamGrads& params_grads) override;

 private:
  AdamaxOptions adamax_;
};

struct RmsPropOptions {
  double rho = 0.95;
  double epsilon = 1e-6;
  double momentum = 0;
  bool centered = false;
};
class RmsProp final : public Optimizer {
 public:
  explicit RmsProp(const Hyper& learning_rate, const RmsPropOptions& rmsprop = {},
                   OptimizerOptions options = {})
      : Optimizer("rmsprop", learning_rate, std::move(options)), rmsprop_(rmsprop) {}
  void create_accumulators(Block& block, const std::vector<Var*>& params) override;
  Op& append_optimize_op(Block& block, Var& param, Var& grad) override;

 private:
  RmsPropOptions rmsprop_;
};

struct FtrlOptions {
  double l1 = 0;
  double l2 = 0;
  double lr_power = -0.5;
};
class Ftrl final : public Optimizer {
 public:
  explicit Ftrl(const Hyper& learning_rate, const FtrlOptions& ftrl = {},
                OptimizerOptions options = {})
      : Optimizer("ftrl", learning_rate, std::move(options)), ftrl_(ftrl) {}
  void create_accumulators(Block& block, const std::vector<Var*>& params) override;
  Op& append_optimize_op(Block& block, Var& param, Var& grad) override;

 private:
  FtrlOptions ftrl_;
};

struct LambOptions {
  double lamb_weight_decay = 0.01;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  std::function<bool(const Var&)> exclude_from_weight_decay = {};  // asked for each parameter
};
// In 1.8 style the moments' bias stays; in 2.4 style it is corrected, and the op moves the powers.
class Lamb final : public Optimizer {
 public:
  explicit Lamb(const Hyper& learning_rate = 0.001, LambOptions lamb = {},
                OptimizerOptions options = {})
      : Optimizer("lamb", learning_rate, std::move(options)), lamb_(std::move(lamb)) {}
  void create_accumulators(Block& block, const std::vector<Var*>& params) override;
  Op& append_optimize_op(Block& block, Var& param, Var& grad) override;

 private:
  LambOptions lamb_;
};

struct DpsgdOptions {
  double clip = 0.9;
  double batch_size = 0.999;
  double sigma = 1e-8;
  int seed = 0;  // 0: another sequence in every process
};
class Dpsgd final : public Optimizer {
 public:
  explicit Dpsgd(const Hyper& learning_rate = 0.001, const DpsgdOptions& dpsgd = {},
                 OptimizerOptions options = {})
      : Optimizer("dpsgd", learning_rate, std::move(options)), dpsgd_(dpsgd) {}
  Op& append_optimize_op(Block& block, Var& param, Var& grad) override;

 private:
  DpsgdOptions dpsgd_;
};

}  // namespace optimizer
}  // namespace trireme
