// Making, reshaping and joining tensors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "layers/arguments.h"
#include "layers/param_attr.h"

namespace trireme::layers {

// A variable only; no op.
Var& create_tensor(DType dtype, const std::string& name = {}, bool persistable = false,
                   SourceLine line = SourceLine::here());

struct CreateParameterOptions {
  std::string name = {};
  ParamArg attr = {};
  bool is_bias = false;
  std::shared_ptr<Initializer> default_initializer = nullptr;
};
Var& create_parameter(const std::vector<int64_t>& shape, DType dtype = DType::float32,
                      const CreateParameterOptions& options = {},
                      SourceLine line = SourceLine::here());

struct GlobalVarOptions {
  bool persistable = false;
  bool force_cpu = false;
  std::string name = {};
};
// Filled with `value` by the startup program.
Var& create_global_var(const std::vector<int64_t>& shape, double value,
                       DType dtype = DType::float32, const GlobalVarOptions& options = {},
                       SourceLine line = SourceLine::here());

struct FillOptions {
  bool force_cpu = false;
  Var* out = nullptr;
  std::string name = {};
};
Var& fill_constant(const Extents& shape, DType dtype, Scalar value, const FillOptions& options = {},
                   SourceLine line = SourceLine::here());
Var& fill_constant(const Extents& shape, DType dtype, Var& value, const FillOptions& options = {},
                   SourceLine line = SourceLine::here());
Var& zeros(const Extents& shape, DType dtype, bool force_cpu = false,
           SourceLine line = SourceLine::here());
Var& ones(const Extents& shape, DType dtype, bool force_cpu = false,
          SourceLine line = SourceLine::here());
Var& zeros_like(Var& x, Var* out = nullptr, SourceLine line = SourceLine::here());
Var& ones_like(Var& x, Var* out = nullptr, SourceLine line = SourceLine::here());

struct FillLikeOptions {
  int input_dim_idx = 0;
  int output_dim_idx = 0;
  bool force_cpu = false;
};
Var& fill_constant_batch_size_like(Var& input, const std::vector<int64_t>& shape, DType dtype,
                                   Scalar value, const FillLikeOptions& options = {},
                                   SourceLine line = SourceLine::here());

struct UniformRandomOptions {
  DType dtype = DType::float32;
  double min = -1;
  double max = 1;
  int seed = 0;
  std::string name = {};
};
Var& uniform_random(const Extents& shape, const UniformRandomOptions& options = {},
                    SourceLine line = SourceLine::here());
struct GaussianRandomOptions {
  double mean = 0;
  double std = 1;
  int seed = 0;
  DType dtype = DType::float32;
  std::string name = {};
};
Var& gaussian_random(const Extents& shape, const GaussianRandomOptions& options = {},
                     SourceLine line = SourceLine::here());

Var& assign(Var& input, Var* output = nullptr, SourceLine line = SourceLine::here());
Var& assign(const Tensor& value, Var* output = nullptr, SourceLine line = SourceLine::here());
Var& cast(Var& x, DType dtype, SourceLine line = SourceLine::here());

Var& concat(const Vars& input, const Extent& axis = 0, const std::string& name = {},
            SourceLine line = SourceLine::here());
Var& sums(const Vars& input, Var* out = nullptr, SourceLine line = SourceLine::here());
// Equal parts, or parts of these sizes (one may be -1).
std::vector<Var*> split(Var& input, int parts, const Extent& dim = -1, const std::string& name = {},
                        SourceLine line = SourceLine::here());
std::vector<Var*> split(Var& input, const Extents& sections, const Extent& dim = -1,
                        const std::string& name = {}, SourceLine line = SourceLine::here());
Var& stack(const Vars& x, int axis = 0, SourceLine line = SourceLine::here());

struct ReshapeOptions {
  Var* actual_shape = nullptr;  // wins over `shape` when the program runs
  std::string act = {};
  bool inplace = false;
  std::string name = {};
};
// 0 copies the input's dimension, one -1 is inferred.
Var& reshape(Var& x, const Extents& shape, const ReshapeOptions& options = {},
             SourceLine line = SourceLine::here());
Var& transpose(Var& x, const std::vector<int>& perm, const std::string& name = {},
               SourceLine line = SourceLine::here());
Var& squeeze(Var& input, const std::vector<int>& axes, const std::string& name = {},
             SourceLine line = SourceLine::here());
Var& unsqueeze(Var& input, const Extents& axes, const std::string& name = {},
               SourceLine line = SourceLine::here());
Var& flatten(Var& x, int axis = 1, const std::string& name = {},
             SourceLine line = SourceLine::here());
Var& expand(Var& x, const Extents& expand_times, const std::string& name = {},
            SourceLine line = SourceLine::here());
Var& slice(Var& input, const std::vector<int>& axes, const Extents& starts, const Extents& ends,
           SourceLine line = SourceLine::here());
Var& shape(Var& input, SourceLine line = SourceLine::here());  // int32 [rank]
Var& gather(Var& input, Var& index, bool overwrite = true, SourceLine line = SourceLine::here());

struct ScaleOptions {
  double scale = 1;
  Var* scale_tensor = nullptr;  // read instead of `scale`
  double bias = 0;
  bool bias_after_scale = true;
  std::string act = {};
  std::string name = {};
};
Var& scale(Var& x, const ScaleOptions& options = {}, SourceLine line = SourceLine::here());
Var& increment(Var& x, double value = 1, bool in_place = true,
               SourceLine line = SourceLine::here());

}  // namespace trireme::layers
