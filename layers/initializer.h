// Initializers: each writes into the startup program the op that gives a variable its first value.
#pragma once

#include <memory>
#include <optional>

#include "core/tensor.h"
#include "ir/program.h"
#include "layers/defaults.h"

namespace trireme {

// `var` lives in `startup_block`. Derive from it for an initializer of your own.
class Initializer {
 public:
  virtual ~Initializer() = default;
  virtual void operator()(Var& var, Block& startup_block) = 0;
};

namespace initializer {

// Random ones: seed 0 takes the startup program's seed at the time the op is made.
class Constant final : public Initializer {
 public:
  explicit Constant(double value = 0, bool force_cpu = false)
      : value_(value), force_cpu_(force_cpu) {}
  void operator()(Var& var, Block& startup_block) override;

 private:
  double value_;
  bool force_cpu_;
};

struct UniformOptions {
  double low = -1;
  double high = 1;
  int seed = 0;
  // Element [i * (columns + diag_step)], for i below diag_num, is diag_val.
  int diag_num = 0;
  int diag_step = 0;
  double diag_val = 1;
};
class Uniform final : public Initializer {
 public:
  explicit Uniform(const UniformOptions& options = {});
  void operator()(Var& var, Block& startup_block) override;

 private:
  UniformOptions options_;
};

class Normal final : public Initializer {
 public:
  explicit Normal(double loc = 0, double scale = 1, int seed = 0)
      : loc_(loc), scale_(scale), seed_(seed) {}
  void operator()(Var& var, Block& startup_block) override;

 private:
  double loc_, scale_;
  int seed_;
};

// Redrawn until within two standard deviations.
class TruncatedNormal final : public Initializer {
 public:
  explicit TruncatedNormal(double loc = 0, double scale = 1, int seed = 0)
      : loc_(loc), scale_(scale), seed_(seed) {}
  void operator()(Var& var, Block& startup_block) override;

 private:
  double loc_, scale_;
  int seed_;
};

// Glorot and Bengio: uniform within sqrt(6 / (fan_in + fan_out)), or normal with sqrt(2 / ...).
struct XavierOptions {
  bool uniform = true;
  std::optional<double> fan_in = std::nullopt;  // none: from the shape
  std::optional<double> fan_out = std::nullopt;
  int seed = 0;
};
class Xavier final : public Initializer {
 public:
  explicit Xavier(const XavierOptions& options = {}) : options_(options) {}
  void operator()(Var& var, Block& startup_block) override;

 private:
  XavierOptions options_;
};

// He et al.: uniform within sqrt(6 / fan_in), or normal with sqrt(2 / fan_in).
struct MsraOptions {
  bool uniform = true;
  std::optional<double> fan_in = std::nullopt;
  int seed = 0;
};
class Msra final : public Initializer {
 public:
  explicit Msra(const MsraOptions& options = {}) : options_(options) {}
  void operator()(Var& var, Block& startup_block) override;

 private:
  MsraOptions options_;
};

// The filter [n, c, k, k] of a transposed convolution that enlarges by bilinear interpolation.
class Bilinear final : public Initializer {
 public:
  void operator()(Var& var, Block& startup_block) override;
};

// These values; the variable takes the tensor's shape.
class FromTensor final : public Initializer {
 public:
  explicit FromTensor(Tensor value) : value_(std::move(value)) {}
  void operator()(Var& var, Block& startup_block) override;

 private:
  Tensor value_;
};

// Short forms: ParamAttr{.initializer = initializer::normal(0, 0.02)}.
std::shared_ptr<Initializer> constant(double value = 0, bool force_cpu = false);
std::shared_ptr<Initializer> uniform(double low = -1, double high = 1, int seed = 0);
std::shared_ptr<Initializer> uniform(const UniformOptions& options);
std::shared_ptr<Initializer> normal(double loc = 0, double scale = 1, int seed = 0);
std::shared_ptr<Initializer> truncated_normal(double loc = 0, double scale = 1, int seed = 0);
std::shared_ptr<Initializer> xavier(const XavierOptions& options = {});
std::shared_ptr<Initializer> msra(const MsraOptions& options = {});
std::shared_ptr<Initializer> bilinear();
std::shared_ptr<Initializer> from_tensor(Tensor value);

struct Fans {
  double in = 0;
  double out = 0;
};
Fans fans_of(const Shape& shape);

}  // namespace initializer
}  // namespace trireme
