// Gradients of gradients, for every row with samples: against differences of the first gradients.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/text.h"
#include "ir/backward.h"
#include "ir/schema.h"
#include "tests/support/op_runner.h"
#include "tests/support/seed.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;

// Slots of the original's own gradients of gradients, and what this engine promises beside them.
const std::set<std::string> kPromised = {"square",
                                         "sqrt",
                                         "relu",
                                         "leaky_relu",
                                         "elu",
                                         "tanh",
                                         "sigmoid",
                                         "exp",
                                         "log",
                                         "pow",
                                         "softplus",
                                         "gelu",
                                         "mul",
                                         "matmul",
                                         "matmul_v2",
                                         "elementwise_add",
                                         "elementwise_sub",
                                         "elementwise_mul",
                                         "elementwise_div",
                                         "conv2d",
                                         "conv2d_transpose",
                                         "depthwise_conv2d",
                                         "conv3d",
                                         "reduce_sum",
                                         "reduce_mean",
                                         "reduce_prod",
                                         "mean",
                                         "reshape2",
                                         "transpose2",
                                         "squeeze2",
                                         "unsqueeze2",
                                         "concat",
                                         "slice",
                                         "expand",
                                         "gather",
                                         "softmax",
                                         "layer_norm",
                                         "batch_norm",
                                         "instance_norm",
                                         "dropout",
                                         "stack",
                                         "pad",
                                         "pad2d",
                                         "bilinear_interp",
                                         "cumsum",
                                         "clip",
                                         "lookup_table_v2",
                                         "sum",
                                         "scale",
                                         "split",
                                         "flatten2"};

// A program of one op, its first gradients and what they are weighted with.
struct Doubly {
  OpProgram built;
  std::vector<Var*> inputs;  // floating feeds: the op's operands, and the gradients of its results
  std::vector<Var*> first;   // first gradients, of the operands
  std::vector<Var*> weights;
};

Var& fed(Doubly& made, const std::string& name, const Tensor& value) {
  made.built.feeds[name] = value;
  return made.built.program->global_block().create_var(
      {.name = name,
       .dtype = value.dtype(),
       .shape = value.shape(),
       .lod_level = static_cast<int>(value.lod().size()),
       .is_data = true});
}

std::vector<Variable> run_for(const Doubly& made, const std::vector<Var*>& vars) {
  static Executor executor;
  std::vector<std::string> names;
  for (const Var* var : vars) names.push_back(var->name());
  Scope scope;
  return executor.run(*made.built.program, made.built.feeds, names,
                      {.scope = &scope, .threads = 1});
}

// False where there is nothing to differentiate: no floating operand, or no floating result.
bool add_first_gradients(Doubly& made, Draw& draw) {
  Block& block = made.built.program->global_block();
  for (const auto& [slot, names] : made.built.op->inputs()) {
    const SlotSpec* spec = op_table().get(made.built.op->type()).find_input(slot);
    for (const std::string& name : names) {
      const Tensor* value = made.built.feeds.find(name);
      if (!value || value->dtype() != DType::float64 || spec->no_grad) continue;
      made.inputs.push_back(&block.var(name));
    }
  }
  std::vector<Var*> results, arriving, all;
  for (const auto& [slot, names] : made.built.outputs) {
    for (const std::string& name : names) all.push_back(&block.var(name));
  }
  const std::vector<Variable> values = run_for(made, all);
  for (size_t i = 0; i < all.size(); ++i) {
    if (values[i].kind() != Kind::dense || !values[i].initialized()) continue;
    const Tensor& value = values[i].tensor();
    if (value.dtype() != DType::float64) continue;
    Tensor weight = draw.uniform(value.shape());
    weight.set_lod(value.lod());
    results.push_back(all[i]);
    arriving.push_back(&fed(made, "arriving_" + all[i]->name(), weight));
  }
  if (made.inputs.empty() || results.empty()) return false;
  for (Var* gradient : gradients(results, made.inputs, arriving, {})) {
    if (gradient && gradient->type() == VarType::lod_tensor) made.first.push_back(gradient);
  }
  made.inputs.insert(made.inputs.end(), arriving.begin(), arriving.end());
  if (made.first.empty()) return false;
  const std::vector<Variable> first = run_for(made, made.first);
  for (size_t i = 0; i < made.first.size(); ++i) {
    const Tensor& value = first[i].tensor();
    Tensor weight = draw.uniform(value.shape());
    weight.set_lod(value.lod());
    made.first[i]->set_shape(value.shape());
    made.weights.push_back(&fed(made, cat("weight_", i), weight));
  }
  return true;
}

double weighted_first(const Doubly& made) {
  const std::vector<Variable> first = run_for(made, made.first);
  double sum = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    const Tensor& weight = *made.built.feeds.find(made.weights[i]->name());
    const double* x = first[i].tensor().data<double>();
    for (int64_t k = 0; k < weight.numel(); ++k) sum += x[k] * weight.data<double>()[k];
  }
  return sum;
}

std::vector<double> differences(Doubly& made, const Var& input) {
  const Tensor original = *made.built.feeds.find(input.name());
  Tensor moved = original.clone();
  moved.set_lod(original.lod());
  made.built.feeds[input.name()] = moved;
  double* x = moved.data<double>();
  std::vector<double> found;
  for (int64_t i = 0; i < moved.numel(); ++i) {
    const double at = x[i], h = 1e-5 * std::max(1.0, std::fabs(at));
    const auto f = [&](double value) {
      x[i] = value;
      return weighted_first(made);
    };
    const double near = f(at + h) - f(at - h), far = f(at + 2 * h) - f(at - 2 * h);
    found.push_back((8 * near - far) / (12 * h));
    x[i] = at;
  }
  made.built.feeds[input.name()] = original;
  return found;
}

struct Totals {
  std::set<std::string> checked, refused;
  int draws = 0;
  int64_t elements = 0;
};

void check_second(const OpSchema& row, const OpSample& sample, uint64_t seed, Totals& totals) {
  Doubly made{.built = build_op({.type = row.type(),
                                 .inputs = sample.inputs,
                                 .attrs = sample.attrs,
                                 .out_counts = sample.out_counts})};
  Draw draw(seed);
  if (!add_first_gradients(made, draw)) return;
  std::vector<Var*> second;
  std::vector<Variable> analytic;
  try {
    second = gradients(made.first, made.inputs, made.weights, {});
    std::vector<Var*> there;
    for (Var* var : second) {
      if (var) there.push_back(var);
    }
    analytic = run_for(made, there);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unimplemented) throw;
    EXPECT_THAT(error.what(), HasSubstr("_grad")) << "the op is named";
    totals.refused.insert(row.type());
    return;
  }
  size_t next = 0;
  for (size_t i = 0; i < made.inputs.size(); ++i) {
    const Tensor* found = second[i] ? &analytic[next++].tensor() : nullptr;
    const std::vector<double> expected = differences(made, *made.inputs[i]);
    double scale = 1;
    for (const double value : expected) scale = std::max(scale, std::fabs(value));
    if (found) {
      ASSERT_EQ(found->numel(), static_cast<int64_t>(expected.size()));
    }
    for (size_t k = 0; k < expected.size(); ++k) {
      const double value = found ? found->data<double>()[k] : 0;
      EXPECT_LE(std::fabs(value - expected[k]) / scale, std::max(1e-6, row.grad_tolerance()))
          << made.inputs[i]->name() << "[" << k << "] is " << value << ", differences give "
          << expected[k];
    }
    totals.elements += static_cast<int64_t>(expected.size());
  }
  totals.checked.insert(row.type());
  ++totals.draws;
}

TEST(SecondGradients, MatchDifferencesOfTheFirstForEveryRowThatHasThem) {
  const uint64_t seed = test_seed();
  Totals totals;
  for (const OpSchema* row : op_table().rows()) {
    if (!row->differentiable() || row->forward() || row->trait().host) continue;
    uint64_t number = 0;
    for (const SampleRule& rule : row->samples()) {
      Draw draw(seed * 1000 + number);
      SCOPED_TRACE(cat(row->type(), " sample ", number++, " seed ", seed));
      try {
        check_second(*row, rule(draw), seed + number, totals);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
  std::printf("second gradients: %zu ops, %d draws, %lld elements checked; %zu refused: %s\n",
              totals.checked.size(), totals.draws, static_cast<long long>(totals.elements),
              totals.refused.size(),
              join(std::vector<std::string>(totals.refused.begin(), totals.refused.end())).c_str());
  for (const std::string& type : kPromised) {
    EXPECT_TRUE(totals.checked.contains(type)) << type;
    EXPECT_FALSE(totals.refused.contains(type)) << type;
  }
}

}  // namespace
}  // namespace trireme::testing
