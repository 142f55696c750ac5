// Attributes that ops of the original carry for its own kernels and passes, and that mean nothing
// here.
//
// Its kernels look some of them up without a default, gradient ops above all, so files that lack
// them do not run there. They are written with the value that the original gives them; what is read
// with that value is left out again, so that programs do not hold them.
#include "ir/wire.h"

namespace trireme {
namespace {

Attrs joined(std::initializer_list<Attrs> parts) {
  Attrs all;
  for (const Attrs& part : parts) all.insert(part.begin(), part.end());
  return all;
}

std::map<std::string, Attrs, std::less<>> make_table() {
  const Attrs mkldnn = {{"use_mkldnn", false}};
  const Attrs quantizer = {{"use_quantizer", false}};
  const Attrs either = {{"use_mkldnn", false}, {"use_cudnn", false}};
  const Attrs formats = {{"x_data_format", std::string()}, {"y_data_format", std::string()}};
  const Attrs fused = {{"fuse_relu", false},
                       {"fuse_activation", std::string()},
                       {"fuse_alpha", 0.0f},
                       {"fuse_beta", 0.0f}};
  const Attrs workspace = {{"workspace_size_MB", int32_t{512}}};
  const Attrs searched = {{"exhaustive_search", false},
                          {"force_fp32_output", false},
                          {"fuse_residual_connection", false}};
  const Attrs at_run_time = {{"@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@", true}};

  std::map<std::string, Attrs, std::less<>> table;
  for (const char* type :
       {"abs",   "ceil",       "cos",        "exp",  "floor",  "gelu",  "log",
        "log1p", "logsigmoid", "reciprocal", "relu", "round",  "rsqrt", "sigmoid",
        "sin",   "softplus",   "softsign",   "sqrt", "square", "tanh",  "tanh_shrink"}) {
    table[type] = either;
  }
  for (const char* type : {"addmm", "data_norm", "gaussian_random", "leaky_relu", "pool3d",
                           "softmax", "sum", "swish"}) {
    table[type] = mkldnn;
  }
  for (const char* type : {"add", "div", "floordiv", "max", "min", "mod", "mul", "pow", "sub"}) {
    table[std::string("elementwise_") + type] = joined({mkldnn, formats});
  }
  for (const char* type : {"batch_norm", "inplace_abn"}) {
    table[type] = joined({mkldnn, {{"fuse_with_relu", false}}});
  }
  for (const char* type : {"concat", "pool2d", "prior_box", "transpose2"}) {
    table[type] = joined({mkldnn, quantizer});
  }
  for (const char* type : {"conv2d", "depthwise_conv2d"}) {
    table[type] = joined({mkldnn,
                          quantizer,
                          fused,
                          workspace,
                          searched,
                          {{"Scale_in", 1.0f},
                           {"Scale_in_eltwise", 1.0f},
                           {"Scale_out", 1.0f},
                           {"Scale_weights", std::vector<float>{1.0f}},
                           {"fuse_brelu", false},
                           {"fuse_brelu_threshold", 6.0f}}});
  }
  table["conv3d"] = joined({mkldnn, fused, workspace, searched});
  table["conv2d_transpose"] = table["depthwise_conv2d_transpose"] =
      joined({mkldnn, fused, workspace});
  table["conv3d_transpose"] = joined({mkldnn, workspace});
  table["cos_sim"] = table["hash"] = table["sequence_enumerate"] = at_run_time;
  table["matmul"] = joined({mkldnn,
                            quantizer,
                            {{"Scale_out", 1.0f},
                             {"Scale_x", 1.0f},
                             {"Scale_y", 1.0f},
                             {"force_fp32_output", false},
                             {"fused_reshape_Out", std::vector<int32_t>{}},
                             {"fused_transpose_Out", std::vector<int32_t>{}},
                             {"head_number", int32_t{1}}}});
  table["mul"] = joined({mkldnn,
                         {{"force_fp32_output", false},
                          {"scale_out", 1.0f},
                          {"scale_x", 1.0f},
                          {"scale_y", std::vector<float>{1.0f}}}});
  table["reshape2"] = quantizer;
  table["lrn"] = joined({mkldnn, {{"is_test", false}}});
  return table;
}

}  // namespace

const Attrs& foreign_attributes(std::string_view type) {
  static const auto table = make_table();
  static const Attrs none;
  // A gradient op has the attributes of its op.
  constexpr std::string_view suffix = "_grad";
  while (type.ends_with(suffix)) type.remove_suffix(suffix.size());
  const auto found = table.find(type);
  return found == table.end() ? none : found->second;
}

}  // namespace trireme
