// Layers with parameters of their own, images excepted: fc, embedding, layer_norm, dropout, top-k.
#include "layers/nn.h"

#include "core/text.h"
#include "layers/layer_helper.h"

namespace trireme::layers {
namespace {

const ParamArg& attr_for(const LayerHelper& helper, const ParamArgs& attrs, size_t input,
                         size_t inputs) {
  const std::vector<ParamArg>& list = attrs.list();
  if (list.size() == 1) return list.front();
  if (list.size() == inputs) return list[input];
  throw helper
      .error(cat("param_attr has ", list.size(), " entries but there are ", inputs, " inputs"))
      .fix("give one for all inputs, or one for each");
}

int64_t known_width(const LayerHelper& helper, const Var& x, int from) {
  const Dim width = x.shape().product(from, x.shape().rank());
  if (width.known()) return width.value();
  Error open = helper.error(cat("the dimensions of ", x.name(), " from ", from,
                                " on make the weight's rows, and one of them is unknown"));
  open.operand(cat("input   ", x.name(), "   ", x.describe()));
  throw open.fix("reshape the input so that only the leading dimensions are -1");
}

Var& lookup(const char* op, Var& ids, const EmbeddingOptions& options) {
  LayerHelper helper("embedding", options.name);
  if (options.size.size() != 2 || options.size[0] <= 0 || options.size[1] <= 0) {
    throw helper.error(cat("size is [", join(options.size), "]; it must be [rows, columns]"));
  }
  helper.check_dtype(ids, "input", {DType::int64, DType::int32});
  const int64_t rows = options.size[0];
  int64_t padding = options.padding_idx.value_or(-1);
  if (options.padding_idx && padding < 0) padding += rows;
  if (options.padding_idx && (padding < 0 || padding >= rows)) {
    throw helper
        .error(cat("padding_idx is ", *options.padding_idx, " but the table has ", rows, " rows"))
        .fix(cat("use a number from ", -rows, " to ", rows - 1));
  }
  Var* table = helper.create_parameter(
      {.attr = options.param_attr, .shape = options.size, .dtype = options.dtype});
  if (!table) throw helper.error("param_attr is false, but an embedding is its table");
  Var& out = helper.create_variable_for_type_inference(options.dtype);
  helper.append_op(op, {{"Ids", ids}, {"W", *table}}, {{"Out", out}},
                   {{"is_sparse", options.is_sparse},
                    {"is_distributed", options.is_distributed},
                    {"remote_prefetch", options.is_sparse && !options.is_distributed},
                    {"padding_idx", padding}});
  return out;
}

Var& one_hot_op(const char* op, Var& input, const OneHotOptions& options) {
  LayerHelper helper(op);
  Var& out = helper.create_variable_for_type_inference(DType::float32, /*stop_gradient=*/true);
  VarSlots inputs = {{"X", input}};
  Attrs attrs = {{"allow_out_of_range", options.allow_out_of_range}};
  if (options.depth.var) {
    inputs.push_back({"depth_tensor", *options.depth.var});
  } else {
    if (options.depth.value <= 0) {
      throw helper.error(cat("depth is ", options.depth.value, "; it must be at least 1"));
    }
    attrs["depth"] = options.depth.value;
  }
  helper.append_op(op, inputs, {{"Out", out}}, std::move(attrs));
  return out;
}

}  // namespace

Var& fc(const Vars& input, const FcOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("fc", options.name);
  if (input.empty()) throw helper.error("fc has no input");
  if (options.size <= 0) {
    throw helper.error(cat("size is ", options.size, "; it must be at least 1"))
        .fix("size is the number of columns of the result");
  }
  const DType dtype = input[0].dtype();
  int flat = options.num_flatten_dims;
  std::vector<Var*> products;
  for (size_t i = 0; i < input.size(); ++i) {
    Var& x = input[i];
    const int rank = x.shape().rank();
    if (x.dtype() != dtype) {
      throw helper
          .error(ErrorKind::type_mismatch,
                 cat("input ", i, " (", x.name(), ") is ", name_of(x.dtype()), " but the first is ",
                     name_of(dtype)))
          .fix("cast one of them");
    }
    if (flat == -1) flat = rank - 1;
    if (flat < 1 || flat >= rank) {
      Error wrong = helper.error(cat("num_flatten_dims is ", options.num_flatten_dims, " but ",
                                     x.name(), " has ", rank, " dimensions"));
      wrong.operand(cat("input   ", x.name(), "   ", x.describe()));
      throw wrong.fix(rank < 2 ? "reshape the input to at least two dimensions"
                               : cat("choose from 1 to ", rank - 1));
    }
    Var* weight =
        helper.create_parameter({.attr = attr_for(helper, options.param_attr, i, input.size()),
                                 .shape = {known_width(helper, x, flat), options.size},
                                 .dtype = dtype});
    if (!weight) throw helper.error("param_attr is false, but fc has a weight");
    Var& product = helper.create_variable_for_type_inference(dtype);
    helper.append_op("mul", {{"X", x}, {"Y", *weight}}, {{"Out", product}},
                     {{"x_num_col_dims", flat}, {"y_num_col_dims", 1}});
    products.push_back(&product);
  }
  Var* sum = products.front();
  if (products.size() > 1) {
    sum = &helper.create_variable_for_type_inference(dtype);
    helper.append_op("sum", {{"X", products}}, {{"Out", *sum}});
  }
  return helper.append_activation(helper.append_bias_op(*sum, options.bias_attr, flat),
                                  options.act);
}

Var& bilinear_tensor_product(Var& x, Var& y, const BilinearOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("bilinear_tensor_product", options.name);
  helper.check_rank(x, "x", 2);
  helper.check_rank(y, "y", 2);
  if (options.size <= 0 || !x.shape()[1].known() || !y.shape()[1].known()) {
    throw helper
        .error(cat("size is ", options.size, ", x is ", x.describe(), " and y ", y.describe()))
        .fix("give a size of 1 or more, and operands whose numbers of columns are known");
  }
  Var* weight = helper.create_parameter({.attr = options.param_attr,
                                         .shape = {options.size, x.shape().at(1), y.shape().at(1)},
                                         .dtype = x.dtype()});
  if (!weight) throw helper.error("param_attr is false, but bilinear_tensor_product has a weight");
  VarSlots inputs = {{"X", x}, {"Y", y}, {"Weight", *weight}};
  if (Var* bias = helper.create_parameter({.attr = options.bias_attr,
                                           .shape = {1, options.size},
                                           .dtype = x.dtype(),
                                           .is_bias = true})) {
    inputs.push_back({"Bias", *bias});
  }
  Var& out = helper.create_variable_for_type_inference(x.dtype());
  helper.append_op("bilinear_tensor_product", inputs, {{"Out", out}});
  return helper.append_activation(out, options.act);
}

Var& embedding(Var& ids, const EmbeddingOptions& options, SourceLine line) {
  const LineScope scope(line);
  return lookup("lookup_table", ids, options);
}

Var& embedding_v2(Var& ids, const EmbeddingOptions& options, SourceLine line) {
  const LineScope scope(line);
  return lookup("lookup_table_v2", ids, options);
}

Var& sparse_embedding(Var& ids, EmbeddingOptions options, SourceLine line) {
  options.is_sparse = options.is_distributed = true;
  const int rank = ids.shape().rank();
  const bool ends_in_one = rank > 1 && ids.shape()[rank - 1] == Dim(1);
  return ends_in_one ? embedding(ids, options, line) : embedding_v2(ids, options, line);
}

Var& layer_norm(Var& input, const LayerNormOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("layer_norm", options.name);
  const DType dtype = input.dtype();
  const int rank = input.shape().rank();
  if (options.begin_norm_axis < 1 || options.begin_norm_axis >= rank) {
    throw helper
        .error(cat("begin_norm_axis is ", options.begin_norm_axis, " but ", input.name(), " has ",
                   rank, " dimensions"))
        .fix(rank < 2 ? "give an input of at least two dimensions"
                      : cat("choose from 1 to ", rank - 1));
  }
  const std::vector<int64_t> shape = {known_width(helper, input, options.begin_norm_axis)};
  VarSlots inputs = {{"X", input}};
  if (options.scale) {
    Var* scale = helper.create_parameter({.attr = options.param_attr,
                                          .shape = shape,
                                          .dtype = dtype,
                                          .default_initializer = initializer::constant(1)});
    if (!scale)
      throw helper.error("param_attr is false while scale is true").fix("pass scale=False");
    inputs.push_back({"Scale", *scale});
  }
  if (options.shift) {
    Var* shift = helper.create_parameter(
        {.attr = options.bias_attr, .shape = shape, .dtype = dtype, .is_bias = true});
    if (!shift)
      throw helper.error("bias_attr is false while shift is true").fix("pass shift=False");
    inputs.push_back({"Bias", *shift});
  }
  Var& mean = helper.create_variable_for_type_inference(dtype, /*stop_gradient=*/true);
  Var& variance = helper.create_variable_for_type_inference(dtype, /*stop_gradient=*/true);
  Var& out = helper.create_variable_for_type_inference(dtype);
  helper.append_op("layer_norm", inputs, {{"Y", out}, {"Mean", mean}, {"Variance", variance}},
                   {{"epsilon", static_cast<float>(options.epsilon)},
                    {"begin_norm_axis", options.begin_norm_axis}});
  return helper.append_activation(out, options.act);
}

Var& dropout(Var& x, const DropoutOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("dropout", options.name);
  std::optional<int> seed = options.seed;
  if (seed.value_or(0) == 0 && helper.main_program().seed() != 0) {
    seed = helper.main_program().seed();
  }
  Var& out = helper.create_variable_for_type_inference(x.dtype());
  Var& mask = helper.create_variable_for_type_inference(DType::uint8, /*stop_gradient=*/true);
  helper.append_op("dropout", {{"X", x}}, {{"Out", out}, {"Mask", mask}},
                   {{"dropout_prob", static_cast<float>(options.dropout_prob)},
                    {"is_test", options.is_test},
                    {"fix_seed", seed.has_value()},
                    {"seed", seed.value_or(0)},
                    {"dropout_implementation", options.dropout_implementation}});
  return out;
}

Var& softmax(Var& input, const SoftmaxOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("softmax", options.name);
  Var& out = helper.create_variable_for_type_inference(input.dtype());
  helper.append_op("softmax", {{"X", input}}, {{"Out", out}},
                   {{"axis", options.axis}, {"use_cudnn", options.use_cudnn}});
  return out;
}

Var& one_hot(Var& input, const OneHotOptions& options, SourceLine line) {
  const LineScope scope(line);
  return one_hot_op("one_hot", input, options);
}

Var& one_hot_v2(Var& input, const OneHotOptions& options, SourceLine line) {
  const LineScope scope(line);
  return one_hot_op("one_hot_v2", input, options);
}

TopK topk(Var& input, const Extent& k, const std::string& name, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("top_k", name);
  VarSlots inputs = {{"X", input}};
  Attrs attrs;
  if (k.var) {
    inputs.push_back({"K", *k.var});
  } else {
    attrs["k"] = k.value;
  }
  Var& values = helper.create_variable_for_type_inference(input.dtype(), /*stop_gradient=*/true);
  Var& indices = helper.create_variable_for_type_inference(DType::int64, /*stop_gradient=*/true);
  helper.append_op("top_k", inputs, {{"Out", values}, {"Indices", indices}}, std::move(attrs));
  return {values, indices};
}

Var& data_norm(Var& input, const DataNormOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("data_norm", options.name);
  const Shape& shape = input.shape();
  const int axis = options.data_layout == "NHWC" ? shape.rank() - 1 : 1;
  if (options.data_layout != "NCHW" && options.data_layout != "NHWC") {
    throw helper.error(cat("data_layout is \"", options.data_layout, "\""))
        .fix("use \"NCHW\" or \"NHWC\"");
  }
  if (shape.rank() < 2 || !shape[axis].known()) {
    throw helper.error("the input's number of columns must be known")
        .fix("declare the input with its last extent");
  }
  const std::string prefix = options.name.empty() ? "dn" : options.name;
  const auto parameter = [&](const std::string& what, double start) -> Var& {
    return *helper.create_parameter({.attr = ParamAttr{.name = cat(prefix, ".", what),
                                                       .initializer = initializer::constant(start)},
                                     .shape = {shape.at(axis)},
                                     .dtype = input.dtype()});
  };
  Attrs attrs = {{"epsilon", static_cast<float>(options.epsilon)},
                 {"data_layout", options.data_layout},
                 {"sync_stats", options.sync_stats},
                 {"summary_decay_rate", static_cast<float>(options.summary_decay_rate)}};
  if (options.slot_dim > 0) attrs["slot_dim"] = options.slot_dim;
  VarSlots inputs = {{"X", input}};
  if (options.enable_scale_and_shift) {
    attrs["enable_scale_and_shift"] = true;
    inputs.push_back({"scale_w", parameter("scale_w", options.scale_w)});
    inputs.push_back({"bias", parameter("bias", options.bias)});
  }
  inputs.push_back({"BatchSize", parameter("batch_size", options.batch_size)});
  inputs.push_back({"BatchSum", parameter("batch_sum", options.batch_sum)});
  inputs.push_back({"BatchSquareSum", parameter("batch_square_sum", options.batch_square)});
  const auto temporary = [&](bool stop_gradient) -> Var& {
    return helper.create_variable(
        {.dtype = input.dtype(), .stop_gradient = stop_gradient, .has_shape = false});
  };
  Var& means = temporary(true);
  Var& scales = temporary(true);
  Var& out = options.in_place ? input : temporary(false);
  helper.append_op("data_norm", inputs, {{"Y", out}, {"Means", means}, {"Scales", scales}}, attrs);
  return helper.append_activation(out, options.act);
}

}  // namespace trireme::layers
