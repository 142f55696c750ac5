// print, assert and py_func.
#include "layers/host.h"

#include <algorithm>
#include <cctype>

#include "core/text.h"
#include "layers/layer_helper.h"

namespace trireme::layers {

Var& print(Var& input, const PrintOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("print");
  std::string phase = options.print_phase;
  std::transform(phase.begin(), phase.end(), phase.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  Var& out = helper.create_variable_for_type_inference(input.dtype());
  helper.append_op("print", {{"In", input}}, {{"Out", out}},
                   {{"first_n", options.first_n},
                    {"summarize", options.summarize},
                    {"message", options.message},
                    {"print_tensor_name", options.print_tensor_name},
                    {"print_tensor_type", options.print_tensor_type},
                    {"print_tensor_shape", options.print_tensor_shape},
                    {"print_tensor_layout", options.print_tensor_layout},
                    {"print_tensor_lod", options.print_tensor_lod},
                    {"print_phase", phase}});
  return out;
}

void assert_true(Var& condition, const AssertOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper(options.name.empty() ? cat("assert_", condition.name()) : options.name);
  VarSlots inputs = {{"Cond", condition}};
  if (!options.data.empty()) inputs.push_back({"Data", options.data});
  helper.append_op("assert", inputs, {}, {{"summarize", options.summarize}});
}

Vars py_func(int function, const Vars& x, const Vars& out, const PyFuncOptions& options,
             SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("py_func");
  for (const std::string& name : options.skip_vars_in_backward_input) {
    const auto named = [&](const Var* var) { return var->name() == name; };
    if (std::none_of(x.begin(), x.end(), named) && std::none_of(out.begin(), out.end(), named)) {
      throw helper.error(cat(name, " is neither an input nor an output of this py_func"))
          .fix("skip only variables of x and out");
    }
  }
  helper.append_op("py_func", {{"X", x}}, {{"Out", out}},
                   {{"forward_callable_id", function},
                    {"backward_callable_id", options.backward},
                    {"backward_skip_vars", options.skip_vars_in_backward_input}});
  return out;
}

}  // namespace trireme::layers
