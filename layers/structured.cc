// Makes the tables and parameters of these layers and appends their ops.
#include "layers/structured.h"

#include <array>
#include <numeric>

#include "core/text.h"
#include "layers/layer_helper.h"
#include "layers/math_op.h"
#include "layers/nn.h"
#include "layers/ops.h"
#include "layers/tensor.h"

namespace trireme::layers {
namespace {

int64_t known_columns(const LayerHelper& helper, const Var& input, int axis) {
  if (input.shape().rank() <= axis) helper.check_rank(input, "input", axis + 1);
  const Dim columns = input.shape()[axis];
  if (columns.known()) return columns.value();
  throw helper.error(
      cat("dimension ", axis, " of ", input.name(), " must be known: ", input.describe()));
}

// Walker's alias method: a class is drawn by one uniform number and one comparison. Every place
// keeps its own class with probability keep, else it gives way to other.
struct AliasTables {
  std::vector<float> probability, keep;
  std::vector<int32_t> other;
};

AliasTables alias_tables(const std::vector<double>& distribution) {
  const size_t n = distribution.size();
  AliasTables tables;
  std::vector<double> rest;
  std::vector<size_t> poor, rich;
  for (size_t i = 0; i < n; ++i) {
    tables.probability.push_back(static_cast<float>(distribution[i]));
    rest.push_back(distribution[i] * static_cast<double>(n));
    (rest[i] < 1 ? poor : rich).push_back(i);
  }
  tables.keep.assign(n, 1);
  tables.other.assign(n, -1);
  while (!poor.empty() && !rich.empty()) {
    const size_t small = poor.back(), large = rich.back();
    poor.pop_back();
    tables.keep[small] = static_cast<float>(rest[small]);
    tables.other[small] = static_cast<int32_t>(large);
    rest[large] -= 1 - rest[small];
    if (rest[large] >= 1) continue;
    rich.pop_back();
    poor.push_back(large);
  }
  return tables;
}

Var& table_parameter(LayerHelper& helper, Tensor values) {
  const int64_t count = values.numel();
  const DType dtype = values.dtype();
  return *helper.create_parameter(
      {.attr = ParamAttr{.trainable = false},
       .shape = {count},
       .dtype = dtype,
       .default_initializer = initializer::from_tensor(std::move(values)),
       .stop_gradient = true});
}

int sampler_number(const LayerHelper& helper, const NceOptions& options) {
  if (options.sampler == "uniform") return 0;
  if (options.sampler == "log_uniform") return 1;
  if (options.sampler != "custom_dist") {
    throw helper.error(cat("sampler is \"", options.sampler, "\""))
        .fix("use \"uniform\", \"log_uniform\" or \"custom_dist\"");
  }
  if (static_cast<int>(options.custom_dist.size()) != options.num_total_classes) {
    throw helper
        .error(cat("custom_dist has ", options.custom_dist.size(), " numbers for ",
                   options.num_total_classes, " classes"))
        .fix("give one probability per class");
  }
  return 2;
}

int32_t activation_number(const LayerHelper& helper, const std::string& name) {
  constexpr std::array<std::string_view, 4> kNames = {"identity", "sigmoid", "tanh", "relu"};
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<int32_t>(i);
  }
  throw helper.error(cat("the activation is \"", name, "\""))
      .fix("use identity, sigmoid, tanh or relu");
}

}  // namespace

Var& linear_chain_crf(Var& input, Var& label, const LinearChainCrfOptions& options,
                      SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("linear_chain_crf");
  const int64_t tags = known_columns(helper, input, options.length ? 2 : 1);
  const DType dtype = input.dtype();
  Var* transition = helper.create_parameter(
      {.attr = options.param_attr, .shape = {tags + 2, tags}, .dtype = dtype});
  if (!transition) throw helper.error("param_attr is false, but the transitions are a parameter");
  VarSlots inputs = {{"Emission", input}, {"Transition", *transition}, {"Label", label}};
  if (options.length) inputs.push_back({"Length", *options.length});
  Var& alpha = helper.create_variable_for_type_inference(dtype);
  Var& emission_exps = helper.create_variable_for_type_inference(dtype);
  Var& transition_exps = helper.create_variable_for_type_inference(dtype);
  Var& cost = helper.create_variable_for_type_inference(dtype);
  helper.append_op("linear_chain_crf", inputs,
                   {{"Alpha", alpha},
                    {"EmissionExps", emission_exps},
                    {"TransitionExps", transition_exps},
                    {"LogLikelihood", cost}});
  return cost;
}

Var& crf_decoding(Var& input, const CrfDecodingOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("crf_decoding");
  Var* transition = helper.main_program().global_block().find_var(options.transition);
  if (options.transition.empty() || !transition) {
    throw helper
        .error(ErrorKind::not_found,
               options.transition.empty()
                   ? std::string("param_attr has no name")
                   : cat("there is no parameter ", options.transition, " in this program"))
        .fix("give the name that linear_chain_crf's param_attr has, and build that layer first");
  }
  VarSlots inputs = {{"Emission", input}, {"Transition", *transition}};
  if (options.label) inputs.push_back({"Label", *options.label});
  if (options.length) inputs.push_back({"Length", *options.length});
  Var& path = helper.create_variable_for_type_inference(DType::int64);
  helper.append_op("crf_decoding", inputs, {{"ViterbiPath", path}});
  return path;
}

Var& nce(Var& input, Var& label, const NceOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("nce", options.name);
  helper.check_dtype(label, "label", {DType::int64});
  const int64_t width = known_columns(helper, input, 1);
  const int sampler = sampler_number(helper, options);
  const DType dtype = input.dtype();
  const int64_t classes = options.num_total_classes;
  Var* weight = helper.create_parameter(
      {.attr = options.param_attr, .shape = {classes, width}, .dtype = dtype});
  if (!weight) throw helper.error("param_attr is false, but nce has a weight");
  VarSlots inputs = {{"Input", input}, {"Label", label}, {"Weight", *weight}};
  if (Var* bias = helper.create_parameter(
          {.attr = options.bias_attr, .shape = {classes, 1}, .dtype = dtype, .is_bias = true})) {
    inputs.push_back({"Bias", *bias});
  }
  if (options.sample_weight) inputs.push_back({"SampleWeight", *options.sample_weight});
  if (sampler == 2) {
    const AliasTables tables = alias_tables(options.custom_dist);
    inputs.push_back({"CustomDistProbs",
                      table_parameter(helper, make_tensor<float>({classes}, tables.probability))});
    inputs.push_back({"CustomDistAlias",
                      table_parameter(helper, make_tensor<int32_t>({classes}, tables.other))});
    inputs.push_back({"CustomDistAliasProbs",
                      table_parameter(helper, make_tensor<float>({classes}, tables.keep))});
  }
  Var& cost = helper.create_variable_for_type_inference(dtype);
  Var& logits = helper.create_variable_for_type_inference(dtype);
  Var& labels = helper.create_variable_for_type_inference(DType::int64);
  helper.append_op("nce", inputs,
                   {{"Cost", cost}, {"SampleLogits", logits}, {"SampleLabels", labels}},
                   {{"num_total_classes", options.num_total_classes},
                    {"num_neg_samples", options.num_neg_samples},
                    {"seed", options.seed},
                    {"sampler", sampler},
                    {"is_sparse", options.is_sparse},
                    {"remote_prefetch", options.is_sparse}});
  return math_op("elementwise_div", cost, Scalar(options.num_neg_samples + 1), user_line());
}

Var& hsigmoid(Var& input, Var& label, const HsigmoidOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("hierarchical_sigmoid", options.name);
  const bool has_paths = options.path_table && options.path_code;
  if (options.is_custom != has_paths || (!options.is_custom && options.path_table)) {
    throw helper.error("is_custom, path_table and path_code go together")
        .fix("give all three for a tree of your own, or none");
  }
  if (!options.is_custom && options.num_classes < 2) {
    throw helper.error(cat("num_classes is ", options.num_classes, "; it must be at least 2"));
  }
  const int64_t width = known_columns(helper, input, 1);
  const int64_t nodes = options.is_custom ? options.num_classes : options.num_classes - 1;
  const DType dtype = input.dtype();
  Var* weight = helper.create_parameter(
      {.attr = options.param_attr, .shape = {nodes, width}, .dtype = dtype});
  if (!weight) throw helper.error("param_attr is false, but hsigmoid has a weight");
  VarSlots inputs = {{"X", input}, {"W", *weight}, {"Label", label}};
  if (has_paths) {
    inputs.push_back({"PathTable", *options.path_table});
    inputs.push_back({"PathCode", *options.path_code});
  }
  if (Var* bias = helper.create_parameter(
          {.attr = options.bias_attr, .shape = {nodes, 1}, .dtype = dtype, .is_bias = true})) {
    inputs.push_back({"Bias", *bias});
  }
  Var& out = helper.create_variable_for_type_inference(dtype);
  Var& before = helper.create_variable_for_type_inference(dtype);
  helper.append_op("hierarchical_sigmoid", inputs,
                   {{"Out", out}, {"PreOut", before}, {"W_Out", *weight}},
                   {{"num_classes", options.num_classes},
                    {"is_sparse", options.is_sparse},
                    {"remote_prefetch", options.is_sparse}});
  return out;
}

GruStep gru_unit(Var& input, Var& hidden, const GruUnitOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("gru_unit");
  if (options.size <= 0 || options.size % 3 != 0) {
    throw helper.error(cat("size is ", options.size, "; it must be three times the hidden size"));
  }
  const int64_t width = options.size / 3;
  const DType dtype = input.dtype();
  Var* weight = helper.create_parameter(
      {.attr = options.param_attr, .shape = {width, 3 * width}, .dtype = dtype});
  if (!weight) throw helper.error("param_attr is false, but a gru_unit has a weight");
  VarSlots inputs = {{"Input", input}, {"HiddenPrev", hidden}, {"Weight", *weight}};
  if (Var* bias = helper.create_parameter(
          {.attr = options.bias_attr, .shape = {1, 3 * width}, .dtype = dtype, .is_bias = true})) {
    inputs.push_back({"Bias", *bias});
  }
  Var& gate = helper.create_variable_for_type_inference(dtype);
  Var& reset = helper.create_variable_for_type_inference(dtype);
  Var& updated = helper.create_variable_for_type_inference(dtype);
  helper.append_op("gru_unit", inputs,
                   {{"Gate", gate}, {"ResetHiddenPrev", reset}, {"Hidden", updated}},
                   {{"activation", activation_number(helper, options.activation)},
                    {"gate_activation", activation_number(helper, options.gate_activation)},
                    {"origin_mode", options.origin_mode}});
  return {updated, reset, gate};
}

LstmStep lstm_unit(Var& x_t, Var& hidden_t_prev, Var& cell_t_prev, const LstmUnitOptions& options,
                   SourceLine line) {
  const LineScope scope(line);
  const LayerHelper helper("lstm_unit", options.name);
  helper.check_rank(x_t, "x_t", 2);
  helper.check_rank(hidden_t_prev, "hidden_t_prev", 2);
  helper.check_rank(cell_t_prev, "cell_t_prev", 2);
  const Dim width = cell_t_prev.shape()[1];
  if (!width.known() || !hidden_t_prev.shape()[1].may_equal(width)) {
    throw helper
        .error(cat("hidden_t_prev is ", hidden_t_prev.describe(), " and cell_t_prev ",
                   cell_t_prev.describe()))
        .fix("give both [batch, size] of one known size");
  }
  Var& gates = fc(concat(Vars({x_t, hidden_t_prev}), 1), {.size = 4 * width.value(),
                                                          .param_attr = options.param_attr,
                                                          .bias_attr = options.bias_attr});
  const std::vector<Var*> parts = split(gates, 4, 1);
  Var& input = sigmoid(*parts[0]);
  Var& forget = sigmoid(scale(*parts[1], {.bias = options.forget_bias}));
  Var& cell = elementwise_add(elementwise_mul(forget, cell_t_prev),
                              elementwise_mul(input, tanh(*parts[3])));
  Var& hidden = elementwise_mul(sigmoid(*parts[2]), tanh(cell));
  return {hidden, cell};
}

Lstmp dynamic_lstmp(Var& input, const DynamicLstmpOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("lstmp", options.name);
  if (options.size <= 0 || options.size % 4 != 0 || options.proj_size <= 0) {
    throw helper.error(cat("size is ", options.size, " and proj_size is ", options.proj_size))
        .fix("size is four times the hidden size, proj_size the width of the projection");
  }
  helper.check_rank(input, "input", 2);
  const int64_t width = options.size / 4;
  const auto parameter = [&](const ParamArg& attr, std::vector<int64_t> shape,
                             bool is_bias) -> Var& {
    Var* made = helper.create_parameter(
        {.attr = attr, .shape = std::move(shape), .dtype = options.dtype, .is_bias = is_bias});
    if (!made) throw helper.error("an lstmp needs its weights and its bias; none may be false");
    return *made;
  };
  Var& weight = parameter(options.param_attr, {options.proj_size, 4 * width}, false);
  Var& projection_weight = parameter(options.param_attr, {width, options.proj_size}, false);
  Var& bias = parameter(options.bias_attr, {1, (options.use_peepholes ? 7 : 4) * width}, true);
  VarSlots inputs = {
      {"Input", input}, {"Weight", weight}, {"ProjWeight", projection_weight}, {"Bias", bias}};
  if (options.h_0) inputs.push_back({"H0", *options.h_0});
  if (options.c_0) inputs.push_back({"C0", *options.c_0});
  const auto temporary = [&]() -> Var& {
    return helper.create_variable_for_type_inference(options.dtype);
  };
  Var& projection = temporary();
  Var& cell = temporary();
  Var& ordered_projection_input = temporary();
  Var& gates = temporary();
  Var& cell_before = temporary();
  Attrs attrs = {{"use_peepholes", options.use_peepholes},
                 {"is_reverse", options.is_reverse},
                 {"gate_activation", options.gate_activation},
                 {"cell_activation", options.cell_activation},
                 {"candidate_activation", options.candidate_activation},
                 {"proj_activation", options.proj_activation}};
  if (options.cell_clip) attrs["cell_clip"] = static_cast<float>(*options.cell_clip);
  if (options.proj_clip) attrs["proj_clip"] = static_cast<float>(*options.proj_clip);
  helper.append_op("lstmp", inputs,
                   {{"Projection", projection},
                    {"Cell", cell},
                    {"BatchHidden", ordered_projection_input},
                    {"BatchGate", gates},
                    {"BatchCellPreAct", cell_before}},
                   std::move(attrs));
  return {projection, cell};
}

}  // namespace trireme::layers
