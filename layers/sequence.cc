// Layers over LoD sequences.
#include "layers/sequence.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "core/text.h"
#include "layers/layer_helper.h"

namespace trireme::layers {
namespace {

// `size` gates of the input's width.
void check_width(const LayerHelper& helper, const Var& input, int64_t width) {
  helper.check_rank(input, "input", 2);
  if (input.shape()[1].may_equal(width)) return;
  Error wrong =
      helper.error(cat("the input has ", input.shape()[1], " columns but size asks for ", width));
  wrong.operand(cat("input   ", input.name(), "   ", input.describe()));
  throw wrong.fix(cat("put an fc of size ", width, " in front"));
}

}  // namespace

Var& sequence_conv(Var& input, const SequenceConvOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("sequence_conv", options.name);
  helper.check_rank(input, "input", 2);
  if (!input.shape()[1].known()) throw helper.error("the input's number of columns must be known");
  if (options.num_filters <= 0 || options.filter_size <= 0) {
    throw helper.error(cat("num_filters is ", options.num_filters, " and filter_size is ",
                           options.filter_size, "; both must be at least 1"));
  }
  Var* filter = helper.create_parameter(
      {.attr = options.param_attr,
       .shape = {options.filter_size * input.shape().at(1), options.num_filters},
       .dtype = input.dtype()});
  if (!filter) throw helper.error("param_attr is false, but sequence_conv has a filter");
  Var& out = helper.create_variable_for_type_inference(input.dtype());
  helper.append_op("sequence_conv", {{"X", input}, {"Filter", *filter}}, {{"Out", out}},
                   {{"contextStride", options.filter_stride},
                    {"contextStart", options.padding_start.value_or(-(options.filter_size / 2))},
                    {"contextLength", options.filter_size}});
  return helper.append_activation(helper.append_bias_op(out, options.bias_attr), options.act);
}

Var& row_conv(Var& input, const RowConvOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("row_conv");
  if (input.shape().rank() != 3) helper.check_rank(input, "input", 2);
  const int last = input.shape().rank() - 1;
  if (!input.shape()[last].known()) {
    throw helper.error("the input's number of columns must be known");
  }
  if (options.future_context_size < 0) {
    throw helper.error(cat("future_context_size is ", options.future_context_size))
        .fix("say how many rows ahead a row sees, 0 or more");
  }
  Var* filter =
      helper.create_parameter({.attr = options.param_attr,
                               .shape = {options.future_context_size + 1, input.shape().at(last)},
                               .dtype = input.dtype()});
  if (!filter) throw helper.error("param_attr is false, but row_conv has a filter");
  Var& out = helper.create_variable_for_type_inference(input.dtype());
  helper.append_op("row_conv", {{"X", input}, {"Filter", *filter}}, {{"Out", out}});
  return helper.append_activation(out, options.act);
}

Var& sequence_pool(Var& input, const std::string& pool_type, const SequencePoolOptions& options,
                   SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("sequence_pool");
  std::string type = pool_type;
  std::transform(type.begin(), type.end(), type.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  constexpr std::array<std::string_view, 6> kTypes = {"AVERAGE", "SUM",  "SQRT",
                                                      "MAX",     "LAST", "FIRST"};
  if (std::find(kTypes.begin(), kTypes.end(), type) == kTypes.end()) {
    throw helper.error(cat("pool_type is \"", pool_type, "\""))
        .fix("use average, sum, sqrt, max, last or first");
  }
  Var& out = helper.create_variable_for_type_inference(input.dtype());
  Var& max_index = helper.create_variable_for_type_inference(DType::int32, type == "MAX");
  helper.append_op("sequence_pool", {{"X", input}}, {{"Out", out}, {"MaxIndex", max_index}},
                   {{"pooltype", type},
                    {"is_test", options.is_test},
                    {"pad_value", static_cast<float>(options.pad_value)}});
  return out;
}

Var& sequence_first_step(Var& input, SourceLine line) {
  return sequence_pool(input, "first", {}, line);
}

Var& sequence_last_step(Var& input, SourceLine line) {
  return sequence_pool(input, "last", {}, line);
}

Var& sequence_softmax(Var& input, const SequenceSoftmaxOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("sequence_softmax", options.name);
  Var& out = helper.create_variable_for_type_inference(input.dtype());
  helper.append_op("sequence_softmax", {{"X", input}}, {{"Out", out}},
                   {{"use_cudnn", options.use_cudnn}});
  return out;
}

Var& sequence_expand(Var& x, Var& y, const SequenceExpandOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("sequence_expand", options.name);
  Var& out = helper.create_variable_for_type_inference(x.dtype());
  helper.append_op("sequence_expand", {{"X", x}, {"Y", y}}, {{"Out", out}},
                   {{"ref_level", options.ref_level}});
  return out;
}

Lstm dynamic_lstm(Var& input, const DynamicLstmOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("lstm", options.name);
  if (options.size <= 0 || options.size % 4 != 0) {
    throw helper.error(cat("size is ", options.size, "; it must be four times the hidden size"));
  }
  check_width(helper, input, options.size);
  const int64_t hidden_size = options.size / 4;
  Var* weight = helper.create_parameter({.attr = options.param_attr,
                                         .shape = {hidden_size, 4 * hidden_size},
                                         .dtype = options.dtype});
  Var* bias = helper.create_parameter({.attr = options.bias_attr,
                                       .shape = {1, (options.use_peepholes ? 7 : 4) * hidden_size},
                                       .dtype = options.dtype,
                                       .is_bias = true});
  if (!weight || !bias)
    throw helper.error("an lstm needs its weight and its bias; neither may be false");
  Var& hidden = helper.create_variable_for_type_inference(options.dtype);
  Var& cell = helper.create_variable_for_type_inference(options.dtype);
  Var& batch_gate = helper.create_variable_for_type_inference(options.dtype);
  Var& batch_cell_pre_act = helper.create_variable_for_type_inference(options.dtype);
  VarSlots inputs = {{"Input", input}, {"Weight", *weight}, {"Bias", *bias}};
  if (options.h_0) inputs.push_back({"H0", *options.h_0});
  if (options.c_0) inputs.push_back({"C0", *options.c_0});
  helper.append_op("lstm", inputs,
                   {{"Hidden", hidden},
                    {"Cell", cell},
                    {"BatchGate", batch_gate},
                    {"BatchCellPreAct", batch_cell_pre_act}},
                   {{"use_peepholes", options.use_peepholes},
                    {"is_reverse", options.is_reverse},
                    {"gate_activation", options.gate_activation},
                    {"cell_activation", options.cell_activation},
                    {"candidate_activation", options.candidate_activation}});
  return {hidden, cell};
}

Var& dynamic_gru(Var& input, const DynamicGruOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("gru");
  if (options.size <= 0)
    throw helper.error(cat("size is ", options.size, "; it must be at least 1"));
  check_width(helper, input, 3 * options.size);
  const DType dtype = input.dtype();
  Var* weight = helper.create_parameter(
      {.attr = options.param_attr, .shape = {options.size, 3 * options.size}, .dtype = dtype});
  Var* bias = helper.create_parameter(
      {.attr = options.bias_attr, .shape = {1, 3 * options.size}, .dtype = dtype, .is_bias = true});
  if (!weight) throw helper.error("param_attr is false, but a gru has a weight");
  VarSlots inputs = {{"Input", input}, {"Weight", *weight}};
  if (bias) inputs.push_back({"Bias", *bias});
  if (options.h_0) inputs.push_back({"H0", *options.h_0});
  Var& hidden = helper.create_variable_for_type_inference(dtype);
  Var& batch_gate = helper.create_variable_for_type_inference(dtype);
  Var& batch_reset = helper.create_variable_for_type_inference(dtype);
  Var& batch_hidden = helper.create_variable_for_type_inference(dtype);
  helper.append_op("gru", inputs,
                   {{"Hidden", hidden},
                    {"BatchGate", batch_gate},
                    {"BatchResetHiddenPrev", batch_reset},
                    {"BatchHidden", batch_hidden}},
                   {{"is_reverse", options.is_reverse},
                    {"gate_activation", options.gate_activation},
                    {"activation", options.candidate_activation},
                    {"origin_mode", options.origin_mode}});
  return hidden;
}

LstmStates lstm(Var& input, Var& init_h, Var& init_c, const LstmOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("cudnn_lstm", options.name);
  helper.check_rank(input, "input", 3);
  if (!input.shape()[2].known()) throw helper.error("the input's last extent must be known");
  if (options.hidden_size < 1 || options.num_layers < 1) {
    throw helper.error(cat("hidden_size is ", options.hidden_size, " and num_layers is ",
                           options.num_layers, "; both must be at least 1"));
  }
  const int64_t hidden = options.hidden_size, directions = options.is_bidirec ? 2 : 1;
  int64_t weights = 0;
  for (int layer = 0; layer < options.num_layers; ++layer) {
    const int64_t width = layer == 0 ? input.shape().at(2) : directions * hidden;
    weights += directions * 4 * hidden * (width + hidden + 2);
  }
  Var& weight = *helper.create_parameter({.shape = {weights},
                                          .dtype = input.dtype(),
                                          .default_initializer = options.default_initializer});
  Var& out = helper.create_variable_for_type_inference(input.dtype());
  Var& last_h = helper.create_variable_for_type_inference(input.dtype());
  Var& last_c = helper.create_variable_for_type_inference(input.dtype());
  VarSlots inputs = {{"Input", input}, {"InitH", init_h}, {"InitC", init_c}, {"W", weight}};
  VarSlots outputs = {{"Out", out}};
  if (defaults().style == Style::static_2_4) {
    outputs.push_back({"LastH", last_h});
    outputs.push_back({"LastC", last_c});
    for (const char* slot : {"Reserve", "StateOut"}) {
      outputs.push_back({slot, helper.create_variable_for_type_inference(DType::uint8, true)});
    }
  } else {
    // What the original's kernel keeps between runs; nothing here.
    inputs.push_back(
        {"Cache", helper.create_variable(
                      {.type = VarType::raw, .persistable = true, .stop_gradient = true})});
    outputs.push_back({"last_h", last_h});
    outputs.push_back({"last_c", last_c});
  }
  Attrs attrs = {{"is_bidirec", options.is_bidirec},
                 {"input_size", static_cast<int>(input.shape().at(2))},
                 {"hidden_size", options.hidden_size},
                 {"num_layers", options.num_layers},
                 {"is_test", options.is_test},
                 {"dropout_prob", static_cast<float>(options.dropout_prob)},
                 {"seed", options.seed}};
  if (options.max_len > 0) attrs["max_len"] = options.max_len;
  helper.append_op("cudnn_lstm", inputs, outputs, attrs);
  return {out, last_h, last_c};
}

Var& im2sequence(Var& input, const Im2SequenceOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("im2sequence", options.name);
  helper.check_rank(input, "input", 4);
  std::vector<int> padding = options.padding;
  if (padding.size() == 1) padding.resize(4, padding[0]);
  if (padding.size() == 2) padding = {padding[0], padding[1], padding[0], padding[1]};
  Var& out = helper.create_variable_for_type_inference(input.dtype());
  VarSlots inputs = {{"X", input}};
  Attrs attrs = {{"kernels", options.filter_size.to_vector()},
                 {"strides", options.stride.to_vector()},
                 {"paddings", padding}};
  if (options.input_image_size) {
    inputs.push_back({"Y", *options.input_image_size});
    attrs["out_stride"] = options.out_stride.to_vector();
  }
  helper.append_op("im2sequence", inputs, {{"Out", out}}, attrs);
  return out;
}

Var& lod_reset(Var& x, Var& y, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("lod_reset");
  Var& out = helper.create_variable_for_type_inference(x.dtype());
  helper.append_op("lod_reset", {{"X", x}, {"Y", y}}, {{"Out", out}});
  return out;
}

Var& lod_reset(Var& x, const std::vector<int>& target_lod, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("lod_reset");
  if (target_lod.empty()) throw helper.error("neither y nor target_lod is given");
  Var& out = helper.create_variable_for_type_inference(x.dtype());
  helper.append_op("lod_reset", {{"X", x}}, {{"Out", out}}, {{"target_lod", target_lod}});
  return out;
}

}  // namespace trireme::layers
