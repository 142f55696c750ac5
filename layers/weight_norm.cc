// Parameters as length times direction, so that training changes the two apart.
#include "layers/weight_norm.h"

#include "core/text.h"
#include "ir/unique_name.h"
#include "layers/defaults.h"
#include "layers/initializer.h"
#include "layers/ops.h"
#include "layers/tensor.h"

namespace trireme {
namespace {

// The lengths of v along `dim`, in the shape that they have as a parameter.
Var& length_of(Var& v, std::optional<int> dim, const std::vector<int64_t>& shape) {
  layers::ReduceOptions all_but;
  for (int i = 0; dim && i < v.shape().rank(); ++i) {
    if (i != *dim) all_but.dim.push_back(i);
  }
  // With one dimension alone there is nothing to sum up: the length of a number is its size.
  Var& squares = layers::square(v);
  Var& sum = dim && all_but.dim.empty() ? squares : layers::reduce_sum(squares, all_but);
  return layers::reshape(layers::sqrt(sum), shape);
}

}  // namespace

Var& weight_normalized(LayerHelper& helper, const ParameterRequest& request) {
  ParamAttr attr = request.attr.attr();
  const auto rank = static_cast<int>(request.shape.size());
  std::optional<int> dim = attr.norm_dim;
  if (dim && (*dim < 0 || *dim >= rank)) {
    throw helper
        .error(cat("WeightNormParamAttr has dim ", *dim, " but the parameter has ", rank,
                   " dimensions"))
        .fix(cat("choose a dim from 0 to ", rank - 1, ", or None for one length"));
  }
  if (attr.name.empty()) {
    attr.name = unique_names().generate(cat(helper.name(), request.is_bias ? ".b" : ".w"));
  }
  attr.weight_norm = false;
  std::vector<int64_t> lengths(request.shape.size(), 1);
  if (dim) lengths[*dim] = request.shape[*dim];

  ParameterRequest direction = request, length = request;
  ParamAttr direction_attr = attr, length_attr = attr;
  direction_attr.name = attr.name + "_v";
  length_attr.name = attr.name + "_g";
  length_attr.initializer = initializer::constant(1);  // overwritten below, once v is there
  direction.attr = direction_attr;
  length.attr = length_attr;
  length.shape = lengths;
  Var& g = *helper.create_parameter(length);
  Var& v = *helper.create_parameter(direction);
  {
    const std::shared_ptr<Program> startup = default_startup_program().shared_from_this();
    const ProgramGuard guard(startup, startup);
    Var& made = startup->global_block().var(v.name());
    layers::assign(length_of(made, dim, lengths), &startup->global_block().var(g.name()));
  }
  Var& factor = layers::elementwise_div(g, length_of(v, dim, lengths));
  Var& flat = layers::reshape(factor, {dim ? lengths[*dim] : 1});
  return layers::elementwise_mul(v, flat, {.axis = dim.value_or(-1)});
}

}  // namespace trireme
