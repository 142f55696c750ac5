// Layers with parameters: layers/nn.h.
#include "layers/nn.h"

#include "python/binding/casters.h"

namespace trireme::binding {
namespace {

using namespace pybind11::literals;

// momentum may be a variable that is read when the program runs.
struct Momentum {
  double value = 0.9;
  Var* var = nullptr;
  explicit Momentum(const py::object& given) {
    if (py::isinstance<Var>(given)) {
      var = given.cast<Var*>();
    } else {
      value = given.cast<double>();
    }
  }
};

void bind_dense(py::module_& m) {
  const py::object none = py::none();
  m.def(
      "fc",
      [](const Vars& input, int64_t size, int num_flatten_dims, const ParamArgs& param_attr,
         const ParamArg& bias_attr, const Text& act, const Text& name) {
        return &layers::fc(input, {size, num_flatten_dims, param_attr, bias_attr, act, name},
                           python_line());
      },
      "input"_a, "size"_a, "num_flatten_dims"_a = 1, "param_attr"_a = none, "bias_attr"_a = none,
      "act"_a = none, "name"_a = none);
  const auto def_embedding = [&](const char* name, auto layer) {
    m.def(
        name,
        [layer](Var& input, const std::vector<int64_t>& size, bool is_sparse, bool is_distributed,
                std::optional<int64_t> padding_idx, const ParamArg& param_attr, DType dtype) {
          return &layer(input,
                        {.size = size,
                         .is_sparse = is_sparse,
                         .is_distributed = is_distributed,
                         .padding_idx = padding_idx,
                         .param_attr = param_attr,
                         .dtype = dtype},
                        python_line());
        },
        "input"_a, "size"_a, "is_sparse"_a = false, "is_distributed"_a = false,
        "padding_idx"_a = none, "param_attr"_a = none, "dtype"_a = "float32");
  };
  def_embedding("embedding", layers::embedding);
  def_embedding("embedding_v2", layers::embedding_v2);
}

void bind_image(py::module_& m) {
  const py::object none = py::none();
  m.def(
      "conv2d",
      [](Var& input, int num_filters, Pair filter_size, Pair stride, const Padding& padding,
         Pair dilation, std::optional<int> groups, const ParamArg& param_attr,
         const ParamArg& bias_attr, bool use_cudnn, const Text& act, const Text& name,
         const std::string& data_format) {
        return &layers::conv2d(input,
                               {num_filters, filter_size, stride, padding, dilation, groups,
                                param_attr, bias_attr, use_cudnn, act, name, data_format},
                               python_line());
      },
      "input"_a, "num_filters"_a, "filter_size"_a, "stride"_a = 1, "padding"_a = 0,
      "dilation"_a = 1, "groups"_a = none, "param_attr"_a = none, "bias_attr"_a = none,
      "use_cudnn"_a = true, "act"_a = none, "name"_a = none, "data_format"_a = "NCHW");
  m.def(
      "pool2d",
      [](Var& input, Pair pool_size, const std::string& pool_type, Pair pool_stride,
         const Padding& pool_padding, bool global_pooling, bool use_cudnn, bool ceil_mode,
         const Text& name, bool exclusive, const std::string& data_format) {
        return &layers::pool2d(input,
                               {pool_size, pool_type, pool_stride, pool_padding, global_pooling,
                                use_cudnn, ceil_mode, exclusive, name, data_format},
                               python_line());
      },
      "input"_a, "pool_size"_a = -1, "pool_type"_a = "max", "pool_stride"_a = 1,
      "pool_padding"_a = 0, "global_pooling"_a = false, "use_cudnn"_a = true, "ceil_mode"_a = false,
      "name"_a = none, "exclusive"_a = true, "data_format"_a = "NCHW");
}

// A table: a definition for each layer.
void bind_norms(py::module_& m) {
  const py::object none = py::none();
  m.def(
      "batch_norm",
      [](Var& input, const Text& act, bool is_test, const py::object& momentum, double epsilon,
         const ParamArg& param_attr, const ParamArg& bias_attr, const std::string& data_layout,
         bool in_place, const Text& name, const Text& moving_mean_name,
         const Text& moving_variance_name, bool do_model_average, bool use_global_stats) {
        const Momentum given(momentum);
        return &layers::batch_norm(input,
                                   {act, is_test, given.value, given.var, epsilon, param_attr,
                                    bias_attr, data_layout, in_place, name, moving_mean_name,
                                    moving_variance_name, do_model_average, use_global_stats},
                                   python_line());
      },
      "input"_a, "act"_a = none, "is_test"_a = false, "momentum"_a = 0.9, "epsilon"_a = 1e-05,
      "param_attr"_a = none, "bias_attr"_a = none, "data_layout"_a = "NCHW", "in_place"_a = false,
      "name"_a = none, "moving_mean_name"_a = none, "moving_variance_name"_a = none,
      "do_model_average_for_mean_and_var"_a = true, "use_global_stats"_a = false);
  m.def(
      "inplace_abn",
      [](Var& input, const Text& act, bool is_test, const py::object& momentum, double epsilon,
         const ParamArg& param_attr, const ParamArg& bias_attr, const std::string& data_layout,
         const Text& name, const Text& moving_mean_name, const Text& moving_variance_name,
         bool do_model_average, bool use_global_stats, double act_alpha) {
        const Momentum given(momentum);
        return &layers::inplace_abn(input,
                                    {{act, is_test, given.value, given.var, epsilon, param_attr,
                                      bias_attr, data_layout, true, name, moving_mean_name,
                                      moving_variance_name, do_model_average, use_global_stats},
                                     act_alpha},
                                    python_line());
      },
      "input"_a, "act"_a = none, "is_test"_a = false, "momentum"_a = 0.9, "epsilon"_a = 1e-05,
      "param_attr"_a = none, "bias_attr"_a = none, "data_layout"_a = "NCHW", "name"_a = none,
      "moving_mean_name"_a = none, "moving_variance_name"_a = none,
      "do_model_average_for_mean_and_var"_a = true, "use_global_stats"_a = false,
      "act_alpha"_a = 1.0);
  m.def(
      "fused_bn_add_act",
      [](Var& x, Var& y, const py::object& momentum, double epsilon, const ParamArg& param_attr,
         const ParamArg& bias_attr, const Text& moving_mean_name, const Text& moving_variance_name,
         const Text& act, const Text& name) {
        const Momentum given(momentum);
        return &layers::fused_bn_add_act(x, y,
                                         {.act = act,
                                          .momentum = given.value,
                                          .momentum_tensor = given.var,
                                          .epsilon = epsilon,
                                          .param_attr = param_attr,
                                          .bias_attr = bias_attr,
                                          .name = name,
                                          .moving_mean_name = moving_mean_name,
                                          .moving_variance_name = moving_variance_name},
                                         python_line());
      },
      "x"_a, "y"_a, "momentum"_a = 0.9, "epsilon"_a = 1e-05, "param_attr"_a = none,
      "bias_attr"_a = none, "moving_mean_name"_a = none, "moving_variance_name"_a = none,
      "act"_a = none, "name"_a = none);
  m.def(
      "sparse_embedding",
      [](Var& input, const std::vector<int64_t>& size, std::optional<int64_t> padding_idx,
         const ParamArg& param_attr, DType dtype) {
        return &layers::sparse_embedding(
            input,
            {.size = size, .padding_idx = padding_idx, .param_attr = param_attr, .dtype = dtype},
            python_line());
      },
      "input"_a, "size"_a, "padding_idx"_a = none, "param_attr"_a = none, "dtype"_a = "float32");
  m.def(
      "bilinear_tensor_product",
      [](Var& x, Var& y, int64_t size, const Text& act, const Text& name,
         const ParamArg& param_attr, const ParamArg& bias_attr) {
        return &layers::bilinear_tensor_product(x, y, {size, act, name, param_attr, bias_attr},
                                                python_line());
      },
      "x"_a, "y"_a, "size"_a, "act"_a = none, "name"_a = none, "param_attr"_a = none,
      "bias_attr"_a = none);
  m.def(
      "data_norm",
      [](Var& input, const Text& act, double epsilon, const py::object& param_attr,
         const std::string& data_layout, bool in_place, const Text& name, const Text&, const Text&,
         bool,  // of moving statistics: has none, as in the original
         int slot_dim, bool sync_stats, double summary_decay_rate, bool enable_scale_and_shift) {
        layers::DataNormOptions options{.act = act,
                                        .epsilon = epsilon,
                                        .data_layout = data_layout,
                                        .in_place = in_place,
                                        .name = name,
                                        .slot_dim = slot_dim,
                                        .sync_stats = sync_stats,
                                        .summary_decay_rate = summary_decay_rate,
                                        .enable_scale_and_shift = enable_scale_and_shift};
        if (py::isinstance<py::dict>(param_attr)) {
          const auto given = param_attr.cast<py::dict>();
          const auto take = [&](const char* key, double& value) {
            if (given.contains(key)) value = given[key].cast<double>();
          };
          take("batch_size", options.batch_size);
          take("batch_sum", options.batch_sum);
          take("batch_square", options.batch_square);
          take("scale_w", options.scale_w);
          take("bias", options.bias);
        }
        return &layers::data_norm(input, options, python_line());
      },
      "input"_a, "act"_a = none, "epsilon"_a = 1e-05, "param_attr"_a = none,
      "data_layout"_a = "NCHW", "in_place"_a = false, "name"_a = none, "moving_mean_name"_a = none,
      "moving_variance_name"_a = none, "do_model_average_for_mean_and_var"_a = true,
      "slot_dim"_a = -1, "sync_stats"_a = false, "summary_decay_rate"_a = 0.9999999,
      "enable_scale_and_shift"_a = false);
  m.def(
      "layer_norm",
      [](Var& input, bool scale, bool shift, int begin_norm_axis, double epsilon,
         const ParamArg& param_attr, const ParamArg& bias_attr, const Text& act, const Text& name) {
        return &layers::layer_norm(
            input, {scale, shift, begin_norm_axis, epsilon, param_attr, bias_attr, act, name},
            python_line());
      },
      "input"_a, "scale"_a = true, "shift"_a = true, "begin_norm_axis"_a = 1, "epsilon"_a = 1e-05,
      "param_attr"_a = none, "bias_attr"_a = none, "act"_a = none, "name"_a = none);
}

void bind_others(py::module_& m) {
  const py::object none = py::none();
  m.def(
      "dropout",
      [](Var& x, double dropout_prob, bool is_test, std::optional<int> seed, const Text& name,
         const std::string& dropout_implementation) {
        return &layers::dropout(x, {dropout_prob, is_test, seed, name, dropout_implementation},
                                python_line());
      },
      "x"_a, "dropout_prob"_a, "is_test"_a = false, "seed"_a = none, "name"_a = none,
      "dropout_implementation"_a = "downgrade_in_infer");
  m.def(
      "softmax",
      [](Var& input, bool use_cudnn, const Text& name, int axis) {
        return &layers::softmax(input, {use_cudnn, axis, name}, python_line());
      },
      "input"_a, "use_cudnn"_a = false, "name"_a = none, "axis"_a = -1);
  m.def(
      "one_hot",
      [](Var& input, const Extent& depth, bool allow_out_of_range) {
        return &layers::one_hot(input, {depth, allow_out_of_range}, python_line());
      },
      "input"_a, "depth"_a, "allow_out_of_range"_a = false);
  m.def(
      "one_hot_v2",
      [](Var& input, const Extent& depth, bool allow_out_of_range) {
        return &layers::one_hot_v2(input, {depth, allow_out_of_range}, python_line());
      },
      "input"_a, "depth"_a, "allow_out_of_range"_a = false);
  m.def(
      "topk",
      [](Var& input, const Extent& k, const Text& name) {
        const layers::TopK found = layers::topk(input, k, name, python_line());
        return std::pair<Var*, Var*>(&found.values, &found.indices);
      },
      "input"_a, "k"_a, "name"_a = none);
}

}  // namespace

void bind_layers_nn(py::module_& m) {
  bind_dense(m);
  bind_image(m);
  bind_norms(m);
  bind_others(m);
}

}  // namespace trireme::binding
