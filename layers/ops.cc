// Layers that are one op of the table.
#include "layers/ops.h"

#include "core/text.h"
#include "ir/schema.h"

namespace trireme::layers {
namespace {

// Some layers of the original use `name` for the result itself, not for the layer.
Var& named_output(LayerHelper& helper, const std::string& name, const Var& like) {
  if (name.empty()) return helper.create_variable_for_type_inference(like.dtype());
  return helper.create_variable(
      {.name = name, .type = like.type(), .dtype = like.dtype(), .has_shape = false});
}

Var& logical(const char* op, const VarSlots& inputs, Var* out) {
  LayerHelper helper(op);
  if (!out) out = &helper.create_variable_for_type_inference(DType::boolean);
  helper.append_op(op, inputs, {{"Out", *out}});
  return *out;
}

DType first_dtype(const VarSlots& inputs) {
  for (const auto& [slot, vars] : inputs) {
    if (!vars.empty()) return vars[0].dtype();
  }
  return defaults().dtype;
}

}  // namespace

std::map<std::string, std::vector<Var*>> apply_all(const std::string& type, const VarSlots& inputs,
                                                   Attrs attrs, const ApplyOptions& options,
                                                   SourceLine line) {
  const LineScope scope(line);
  const OpSchema* row = op_table().find(type);
  LayerHelper helper(options.layer.empty() ? type : options.layer, options.name);
  if (!row || row->trait().primitive) {
    throw helper.error(ErrorKind::unimplemented, cat("there is no op ", type));
  }
  std::map<std::string, std::vector<Var*>> outputs;
  VarSlots slots;
  for (const SlotSpec& slot : row->outputs()) {
    const auto asked = options.out_counts.find(slot.name);
    if (slot.dispensable && asked == options.out_counts.end()) continue;
    const int count = asked == options.out_counts.end() ? 1 : asked->second;
    std::vector<Var*>& made = outputs[slot.name];
    for (int i = 0; i < count; ++i) {
      made.push_back(
          &helper.create_variable_for_type_inference(first_dtype(inputs), options.stop_gradient));
    }
    slots.push_back({slot.name, made});
  }
  helper.append_op(type, inputs, slots, std::move(attrs));
  return outputs;
}

Var& apply(const std::string& type, const VarSlots& inputs, Attrs attrs,
           const ApplyOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper(options.layer.empty() ? type : options.layer, options.name);
  ApplyOptions same_layer = options;
  same_layer.name = helper.name();  // the activation's result belongs to the same layer
  auto outputs = apply_all(type, inputs, std::move(attrs), same_layer);
  for (const SlotSpec& slot : op_table().get(type).outputs()) {
    const auto made = outputs.find(slot.name);
    if (slot.intermediate || made == outputs.end() || made->second.empty()) continue;
    return helper.append_activation(*made->second.front(), options.act);
  }
  throw helper.error(cat(type, " has no output to return"));
}

Var& clip(Var& x, double min, double max, const std::string& name, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("clip", name);
  Var& out = named_output(helper, name, x);
  out.set_type(x.type());
  helper.append_op("clip", {{"X", x}}, {{"Out", out}},
                   {{"min", static_cast<float>(min)}, {"max", static_cast<float>(max)}});
  return out;
}

Var& clip_by_norm(Var& x, double max_norm, const std::string& name, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("clip_by_norm", name);
  Var& out = named_output(helper, name, x);
  out.set_type(x.type());
  helper.append_op("clip_by_norm", {{"X", x}}, {{"Out", out}},
                   {{"max_norm", static_cast<float>(max_norm)}});
  return out;
}

Var& elementwise(const std::string& op, Var& x, Var& y, const ElementwiseOptions& options,
                 SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper(op, options.name);
  Var& out = named_output(helper, options.name, x);
  helper.append_op(op, {{"X", x}, {"Y", y}}, {{"Out", out}}, {{"axis", options.axis}});
  return helper.append_activation(out, options.act);
}

Var& reduce(const std::string& op, Var& input, const ReduceOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper(options.layer.empty() ? op : options.layer, options.name);
  const bool every = static_cast<int>(options.dim.size()) == input.shape().rank();
  const bool reduce_all = options.dim.empty() || (every && defaults().style == Style::static_2_4);
  Var& out = helper.create_variable_for_type_inference(input.dtype());
  helper.append_op(op, {{"X", input}}, {{"Out", out}},
                   {{"dim", options.dim.empty() ? std::vector<int>{0} : options.dim},
                    {"keep_dim", options.keep_dim},
                    {"reduce_all", reduce_all}});
  return out;
}

Var& mul(Var& x, Var& y, const MulOptions& options, SourceLine line) {
  return apply(
      "mul", {{"X", x}, {"Y", y}},
      {{"x_num_col_dims", options.x_num_col_dims}, {"y_num_col_dims", options.y_num_col_dims}},
      {.name = options.name}, line);
}

Var& matmul(Var& x, Var& y, const MatmulOptions& options, SourceLine line) {
  return apply("matmul", {{"X", x}, {"Y", y}},
               {{"transpose_X", options.transpose_x},
                {"transpose_Y", options.transpose_y},
                {"alpha", static_cast<float>(options.alpha)}},
               {.name = options.name}, line);
}

Var& compare(const std::string& op, Var& x, Var& y, Var* cond, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper(op);
  if (!cond) cond = &helper.create_variable_for_type_inference(DType::boolean);
  cond->set_stop_gradient(true);
  helper.append_op(op, {{"X", x}, {"Y", y}}, {{"Out", *cond}});
  return *cond;
}

Var& logical_and(Var& x, Var& y, Var* out, SourceLine line) {
  const LineScope scope(line);
  return logical("logical_and", {{"X", x}, {"Y", y}}, out);
}

Var& logical_or(Var& x, Var& y, Var* out, SourceLine line) {
  const LineScope scope(line);
  return logical("logical_or", {{"X", x}, {"Y", y}}, out);
}

Var& logical_not(Var& x, Var* out, SourceLine line) {
  const LineScope scope(line);
  return logical("logical_not", {{"X", x}}, out);
}

Var& is_empty(Var& x, Var* cond, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("is_empty");
  Var& out = cond ? *cond : helper.create_variable_for_type_inference(DType::boolean);
  if (cond) helper.check_dtype(out, "cond", {DType::boolean});
  out.set_stop_gradient(true);
  helper.append_op("is_empty", {{"X", x}}, {{"Out", out}});
  return out;
}

Var& cos_sim(Var& x, Var& y, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("cos_sim");
  Var& out = helper.create_variable_for_type_inference(x.dtype());
  Var& x_norm = helper.create_variable_for_type_inference(x.dtype());
  Var& y_norm = helper.create_variable_for_type_inference(x.dtype());
  helper.append_op("cos_sim", {{"X", x}, {"Y", y}},
                   {{"Out", out}, {"XNorm", x_norm}, {"YNorm", y_norm}});
  return out;
}

Var& merge_selected_rows(Var& x, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("merge_selected_rows");
  Var& out = helper.create_variable_for_type_inference(x.dtype());
  out.set_type(VarType::selected_rows);
  helper.append_op("merge_selected_rows", {{"X", x}}, {{"Out", out}});
  return out;
}

Var& get_tensor_from_selected_rows(Var& x, SourceLine line) {
  return apply("get_tensor_from_selected_rows", {{"X", x}}, {}, {}, line);
}

}  // namespace trireme::layers
