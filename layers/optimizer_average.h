// Averages of parameters over the steps of a training, and the programs that put them in place.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "layers/optimizer.h"

namespace trireme::optimizer {

struct ModelAverageOptions {
  int64_t min_average_window = 10000;
  int64_t max_average_window = 10000;
  std::shared_ptr<Regularizer> regularization = nullptr;
  std::string name = {};
};

// Averages the parameters of the default main program over a window of updates. Made after
// minimize: the constructor appends one average_accumulates op per parameter.
class ModelAverage final : public Optimizer {
 public:
  explicit ModelAverage(double average_window_rate, const ModelAverageOptions& options = {},
                        SourceLine line = SourceLine::here());

  // Run it: parameters are put aside and take their averages.
  Program& apply_program() const { return *apply_; }
  // Run it after that: parameters are as they were.
  Program& restore_program() const { return *restore_; }

  Op& append_optimize_op(Block& block, Var& param, Var& grad) override;

 private:
  void append_accumulate_op(Var& param);

  double rate_;
  ModelAverageOptions average_;
  std::shared_ptr<Program> apply_, restore_;
};

struct EmaOptions {
  double decay = 0.999;
  // The steps so far: the decay is then min(decay, (1 + steps) / (10 + steps)).
  Var* thres_steps = nullptr;
  std::string name = {};
};

// ema = decay * ema + (1 - decay) * parameter; applied as ema / (1 - decay^steps), as it starts at
// 0.
class ExponentialMovingAverage {
 public:
  explicit ExponentialMovingAverage(const EmaOptions& options = {},
                                    SourceLine line = SourceLine::here());

  void update(
      SourceLine line = SourceLine::here());  // appends the ops; call it once, when training
  Program& apply_program() const { return *apply_; }
  Program& restore_program() const { return *restore_; }

 private:
  Var& make_decay();

  EmaOptions options_;
  Var* decay_ = nullptr;
  std::vector<std::pair<Var*, Var*>> params_;  // and where each is put aside
  std::map<std::string, Var*> averages_;       // by parameter
  std::shared_ptr<Program> apply_, restore_;
};

}  // namespace trireme::optimizer
