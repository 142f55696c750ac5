// LayerHelper: names a layer and makes its parameters, temporaries and ops, as the original names
// them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/program.h"
#include "layers/arguments.h"
#include "layers/defaults.h"
#include "layers/initializer.h"
#include "layers/param_attr.h"

namespace trireme {

struct ParameterRequest {
  ParamArg attr = {};
  std::vector<int64_t> shape = {};
  DType dtype = DType::float32;
  bool is_bias = false;                                        // named .b_N, zero by default
  std::shared_ptr<Initializer> default_initializer = nullptr;  // null: Xavier, or 0 for a bias
  bool stop_gradient = false;
};

struct GlobalVarRequest {
  std::string name = {};  // empty: _generated_var_N
  DType dtype = DType::float32;
  std::vector<int64_t> shape = {};
  bool persistable = false;
  bool stop_gradient = false;
};

// Slots filled with variables: {{"X", x}, {"Y", y}}. Slots with no variable are left out.
using VarSlots = std::vector<std::pair<std::string, Vars>>;

class LayerHelper {
 public:
  // `name`: the user's; empty: <layer_type>_N.
  explicit LayerHelper(std::string layer_type, const std::string& name = {});

  const std::string& layer_type() const { return layer_type_; }
  const std::string& name() const { return name_; }
  Program& main_program() const { return default_main_program(); }
  Program& startup_program() const { return default_startup_program(); }

  // In the global block, with its initializer in the startup program. A name that exists already is
  // that parameter, if shape and type agree; null when the attr says false.
  Var* create_parameter(const ParameterRequest& request);
  // <layer>.tmp_N in the current block; shape and type are filled by the op that writes it.
  Var& create_variable_for_type_inference(DType dtype, bool stop_gradient = false);
  Var& create_variable(VarSpec spec);                            // in the current block
  Var& create_global_variable(const GlobalVarRequest& request);  // in the global block
  // The variable, and whether it is new.
  std::pair<Var*, bool> create_or_get_global_variable(const GlobalVarRequest& request);
  void set_variable_initializer(Var& var, Initializer& initializer);

  Op& append_op(std::string type, const VarSlots& inputs, const VarSlots& outputs,
                Attrs attrs = {});
  // Adds a parameter of the shape of dims [dim_start, dim_end) of x; x itself when bias_attr is
  // false.
  Var& append_bias_op(Var& x, const ParamArg& bias_attr, int dim_start = 1, int dim_end = -1);
  // `act`: any op of the table with input X and output Out; empty: x itself.
  Var& append_activation(Var& x, const std::string& act, Attrs attrs = {});

  // An error of this layer at the user's line.
  Error error(std::string message) const;
  Error error(ErrorKind kind, std::string message) const;
  // An Error unless x has one of these types (the argument is called `argument`).
  void check_dtype(const Var& x, std::string_view argument,
                   std::initializer_list<DType> allowed) const;
  void check_rank(const Var& x, std::string_view argument, int rank) const;

 private:
  std::string layer_type_;
  std::string name_;
};

// The user's line while a layer runs; unknown outside of one.
SourceLine user_line();

// An attribute value as the original's ops carry element types.
inline int32_t wire_number(DType dtype) { return static_cast<int32_t>(dtype); }

}  // namespace trireme
