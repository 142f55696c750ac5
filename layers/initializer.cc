// Initializers: the ops they put into the startup program.
#include "layers/initializer.h"

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "ir/python_text.h"
#include "ir/unique_name.h"
#include "layers/layer_helper.h"

namespace trireme::initializer {
namespace {

// 1.8 puts the newest initializer first, 2.4 last.
void put(Block& block, OpSpec spec) {
  if (defaults().style == Style::fluid_1_8) {
    block.prepend_op(std::move(spec));
  } else {
    block.append_op(std::move(spec));
  }
}

// Half-precision variables are drawn in float32 and cast. The cast always goes to the end, behind
// the op that makes its input.
void put_in_float32(Var& var, Block& block, const char* kind, OpSpec spec) {
  const bool half = var.dtype() == DType::float16 || var.dtype() == DType::bfloat16;
  if (!half) {
    spec.outputs["Out"] = {var.name()};
    spec.attrs["dtype"] = wire_number(var.dtype());
    put(block, std::move(spec));
    return;
  }
  Var& wide = block.create_var({.name = unique_names().generate(cat(kind, ".", var.name(), ".tmp")),
                                .dtype = DType::float32,
                                .shape = var.shape()});
  spec.outputs["Out"] = {wide.name()};
  spec.attrs["dtype"] = wire_number(DType::float32);
  put(block, std::move(spec));
  block.append_op({.type = "cast",
                   .inputs = {{"X", {wide.name()}}},
                   .outputs = {{"Out", {var.name()}}},
                   .attrs = {{"in_dtype", wire_number(DType::float32)},
                             {"out_dtype", wire_number(var.dtype())}}});
}

int seed_or_programs(int seed, const Block& block) {
  return seed != 0 ? seed : block.program().seed();
}

OpSpec uniform_op(const Var& var, const Block& block, const UniformOptions& options) {
  return {.type = "uniform_random",
          .inputs = {},
          .outputs = {},
          .attrs = {{"shape", var.shape().to_vector()},
                    {"min", static_cast<float>(options.low)},
                    {"max", static_cast<float>(options.high)},
                    {"seed", seed_or_programs(options.seed, block)},
                    {"diag_num", options.diag_num},
                    {"diag_step", options.diag_step},
                    {"diag_val", static_cast<float>(options.diag_val)}}};
}

OpSpec normal_op(const char* type, const Var& var, const Block& block, double loc, double scale,
                 int seed) {
  return {.type = type,
          .inputs = {},
          .outputs = {},
          .attrs = {{"shape", var.shape().to_vector()},
                    {"mean", static_cast<float>(loc)},
                    {"std", static_cast<float>(scale)},
                    {"seed", seed_or_programs(seed, block)}}};
}

// assign_value carries its numbers as attributes, of these four types only.
template <class T, class Stored>
std::vector<Stored> stored_values(const Tensor& tensor) {
  const T* data = tensor.data<T>();
  return std::vector<Stored>(data, data + tensor.numel());
}

Error cannot_assign(const Var& var) {
  return Error(ErrorKind::unimplemented, cat("values cannot be assigned to ", var.name(),
                                             ", which is ", name_of(var.dtype())))
      .fix("use float32, float16, bfloat16, int32, int64 or bool, or cast afterwards")
      .at(user_line());
}

OpSpec assign_op(const Var& var, const Tensor& value) {
  OpSpec spec = {.type = "assign_value",
                 .inputs = {},
                 .outputs = {},
                 .attrs = {{"shape", value.shape().to_vector()}}};
  switch (var.dtype()) {
    case DType::float16:
    case DType::bfloat16:
    case DType::float32:
      spec.attrs["fp32_values"] = stored_values<float, float>(cast(value, DType::float32));
      return spec;
    case DType::int32:
      spec.attrs["int32_values"] = stored_values<int32_t, int32_t>(cast(value, DType::int32));
      return spec;
    case DType::int64:
      spec.attrs["int64_values"] = stored_values<int64_t, int64_t>(cast(value, DType::int64));
      return spec;
    case DType::boolean:
      spec.attrs["bool_values"] = stored_values<bool, int32_t>(cast(value, DType::boolean));
      return spec;
    default:
      throw cannot_assign(var);
  }
}

}  // namespace

Fans fans_of(const Shape& shape) {
  const int rank = shape.rank();
  if (rank == 0) return {1, 1};
  if (rank == 1) return {static_cast<double>(shape.at(0)), static_cast<double>(shape.at(0))};
  if (rank == 2) return {static_cast<double>(shape.at(0)), static_cast<double>(shape.at(1))};
  const auto receptive = static_cast<double>(shape.product(2, rank).value());
  return {static_cast<double>(shape.at(1)) * receptive,
          static_cast<double>(shape.at(0)) * receptive};
}

void Constant::operator()(Var& var, Block& startup_block) {
  OpSpec spec = {.type = "fill_constant",
                 .inputs = {},
                 .outputs = {},
                 .attrs = {{"shape", var.shape().to_vector()},
                           {"value", static_cast<float>(value_)},
                           {"force_cpu", force_cpu_}}};
  // The attribute is a float; the text holds what it would round. 2.4 always writes it.
  const bool wide = var.dtype() == DType::float64 || var.dtype() == DType::int64;
  const bool rounded = static_cast<double>(static_cast<float>(value_)) != value_;
  if (defaults().style == Style::static_2_4 || (wide && rounded)) {
    spec.attrs["str_value"] = python_text(value_);
  }
  put_in_float32(var, startup_block, "constant_init", std::move(spec));
}

Uniform::Uniform(const UniformOptions& options) : options_(options) {
  if (options.low > options.high) {
    throw Error(cat("Uniform initializer: low is ", options.low, " and high is ", options.high))
        .at(user_line())
        .fix("give a low that is not above high");
  }
  if (options.diag_num < 0 || options.diag_step < 0) {
    throw Error(cat("Uniform initializer: diag_num is ", options.diag_num, " and diag_step is ",
                    options.diag_step, "; neither may be negative"))
        .at(user_line());
  }
}

void Uniform::operator()(Var& var, Block& startup_block) {
  put_in_float32(var, startup_block, "uniform_random_init",
                 uniform_op(var, startup_block, options_));
}

void Normal::operator()(Var& var, Block& startup_block) {
  put_in_float32(var, startup_block, "gaussian_random_init",
                 normal_op("gaussian_random", var, startup_block, loc_, scale_, seed_));
}

void TruncatedNormal::operator()(Var& var, Block& startup_block) {
  put_in_float32(var, startup_block, "truncated_gaussian_random_init",
                 normal_op("truncated_gaussian_random", var, startup_block, loc_, scale_, seed_));
}

void Xavier::operator()(Var& var, Block& startup_block) {
  const Fans fans = fans_of(var.shape());
  const double both = options_.fan_in.value_or(fans.in) + options_.fan_out.value_or(fans.out);
  if (options_.uniform) {
    const double limit = std::sqrt(6 / both);
    put_in_float32(
        var, startup_block, "xavier_init",
        uniform_op(var, startup_block, {.low = -limit, .high = limit, .seed = options_.seed}));
  } else {
    put_in_float32(
        var, startup_block, "xavier_init",
        normal_op("gaussian_random", var, startup_block, 0, std::sqrt(2 / both), options_.seed));
  }
}

void Msra::operator()(Var& var, Block& startup_block) {
  const double fan_in = options_.fan_in.value_or(fans_of(var.shape()).in);
  if (options_.uniform) {
    const double limit = std::sqrt(6 / fan_in);
    put_in_float32(
        var, startup_block, "masra_init",  // so spelt in the original's names
        uniform_op(var, startup_block, {.low = -limit, .high = limit, .seed = options_.seed}));
  } else {
    put_in_float32(
        var, startup_block, "masra_init",
        normal_op("gaussian_random", var, startup_block, 0, std::sqrt(2 / fan_in), options_.seed));
  }
}

void Bilinear::operator()(Var& var, Block& startup_block) {
  const Shape& shape = var.shape();
  if (shape.rank() != 4 || shape.at(2) != shape.at(3)) {
    throw Error(cat("Bilinear initializer: ", var.name(), " has shape ", shape,
                    "; it must be [n, c, k, k]"))
        .at(user_line());
  }
  const int64_t k = shape.at(3);
  const double half = std::ceil(static_cast<double>(k) / 2);
  const double center = (2 * half - 1 - std::fmod(half, 2)) / (2 * half);
  const auto weight = [&](int64_t i) {
    return 1 - std::abs(static_cast<double>(i) / half - center);
  };
  Tensor value(DType::float32, shape);
  float* out = value.data<float>();
  for (int64_t i = 0; i < value.numel(); ++i) {
    out[i] = static_cast<float>(weight(i % k) * weight(i / k % k));
  }
  FromTensor(std::move(value))(var, startup_block);
}

void FromTensor::operator()(Var& var, Block& startup_block) {
  if (!(value_.shape() == var.shape())) {
    throw Error(cat("the value for ", var.name(), " has shape ", value_.shape(),
                    " but the variable has shape ", var.shape()))
        .at(user_line())
        .fix(cat("give a value of shape ", var.shape()));
  }
  put_in_float32(var, startup_block, "numpy_array_init", assign_op(var, value_));
}

std::shared_ptr<Initializer> constant(double value, bool force_cpu) {
  return std::make_shared<Constant>(value, force_cpu);
}
std::shared_ptr<Initializer> uniform(double low, double high, int seed) {
  return uniform({.low = low, .high = high, .seed = seed});
}
std::shared_ptr<Initializer> uniform(const UniformOptions& options) {
  return std::make_shared<Uniform>(options);
}
std::shared_ptr<Initializer> normal(double loc, double scale, int seed) {
  return std::make_shared<Normal>(loc, scale, seed);
}
std::shared_ptr<Initializer> truncated_normal(double loc, double scale, int seed) {
  return std::make_shared<TruncatedNormal>(loc, scale, seed);
}
std::shared_ptr<Initializer> xavier(const XavierOptions& options) {
  return std::make_shared<Xavier>(options);
}
std::shared_ptr<Initializer> msra(const MsraOptions& options) {
  return std::make_shared<Msra>(options);
}
std::shared_ptr<Initializer> bilinear() { return std::make_shared<Bilinear>(); }
std::shared_ptr<Initializer> from_tensor(Tensor value) {
  return std::make_shared<FromTensor>(std::move(value));
}

}  // namespace trireme::initializer
