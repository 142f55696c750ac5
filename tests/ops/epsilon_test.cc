// Where epsilon stands: under a root or beside it, before a division or after. At its usual 1e-8 no
// test sees that, so here it is as large as what it is added to. The numbers are what PaddlePaddle
// computes (1.8.5 in float32); it lets norms have 0.001 at most.
#include <gmock/gmock.h>

#include <cmath>

#include "core/text.h"
#include "tests/support/op_runner.h"
#include "tests/support/scope_runner.h"

namespace trireme::testing {
namespace {

using Numbers = std::vector<double>;

void expect_close(const Tensor& found, const Numbers& wanted, const std::string& what) {
  const Numbers values = numbers(found);
  ASSERT_EQ(values.size(), wanted.size()) << what;
  for (size_t i = 0; i < wanted.size(); ++i) {
    // Several float32 roundings, on both sides.
    EXPECT_NEAR(values[i], wanted[i], 2e-6 * std::max(1.0, std::fabs(wanted[i])))
        << what << "[" << i << "]";
  }
}

// A parameter of three numbers, its gradient, states and scalars; what they become.
struct Update {
  std::string type;
  std::map<std::string, Numbers> states, scalars;
  Attrs attrs;
  std::map<std::string, Numbers> after;
  bool takes_rows = true;
};

const Numbers kParam = {0.5, -1, 2}, kGrad = {0.25, -0.5, 1.5};
const Numbers kFirst = {0.4, 0.3, 0.2}, kSecond = {0.1, 0.2, 0.9};

std::vector<Update> updates() {
  const std::map<std::string, Numbers> rate = {{"LearningRate", {0.25}}};
  const std::map<std::string, Numbers> rate_and_powers = {
      {"LearningRate", {0.25}}, {"Beta1Pow", {0.81}}, {"Beta2Pow", {0.64}}};
  const Attrs betas = {{"beta1", 0.9f}, {"beta2", 0.8f}, {"epsilon", 0.5f}};
  Attrs lamb = betas;
  lamb["weight_decay"] = 0.25f;
  const auto rmsprop = [&](bool centered, Numbers param, Numbers moment) {
    return Update{
        .type = "rmsprop",
        .states = {{"MeanSquare", kSecond}, {"MeanGrad", {0.1, 0.1, 0.1}}, {"Moment", kFirst}},
        .scalars = rate,
        .attrs = {{"epsilon", 0.5f}, {"decay", 0.75f}, {"momentum", 0.5f}, {"centered", centered}},
        .after = {{"Param", std::move(param)}, {"Moment", std::move(moment)}}};
  };
  const auto adam = [&](bool corrects_epsilon, Numbers param) {
    Attrs attrs = betas;
    attrs["corrects_epsilon"] = corrects_epsilon;
    return Update{.type = "adam",
                  .states = {{"Moment1", kFirst}, {"Moment2", kSecond}},
                  .scalars = rate_and_powers,
                  .attrs = attrs,
                  .after = {{"Param", std::move(param)},
                            {"Moment1", {0.385, 0.22, 0.33}},
                            {"Moment2", {0.0925, 0.21, 1.17}}}};
  };
  return {
      // 1.8.5 adds epsilon to the root before its correction, 2.x to the corrected root, as in the
      // article (that one from 2.6.2).
      adam(false, {0.122020946, -1.181250027, 1.835283544}),
      adam(true, {-0.003109068, -1.229056954, 1.811440349}),
      {.type = "adagrad",
       .states = {{"Moment", kSecond}},
       .scalars = rate,
       .attrs = {{"epsilon", 0.5f}},
       .after = {{"Param", {0.430794924, -0.893237233, 1.835152030}}}},
      {.type = "decayed_adagrad",
       .states = {{"Moment", kSecond}},
       .scalars = rate,
       .attrs = {{"epsilon", 0.5f}, {"decay", 0.75f}},
       .after = {{"Param", {0.421976417, -0.869924068, 1.767431736}}},
       .takes_rows = false},
      // In place, as programs have it: the parameter moves by the mean of squared updates that has
      // this update in it.
      {.type = "adadelta",
       .states = {{"AvgSquaredGrad", kSecond}, {"AvgSquaredUpdate", kFirst}},
       .scalars = {},
       .attrs = {{"epsilon", 0.5f}, {"rho", 0.75f}},
       .after = {{"Param", {0.204744837, -0.471787045, 0.934547190}},
                 {"AvgSquaredUpdate", {0.323809534, 0.295175433, 0.376618683}}},
       .takes_rows = false},
      {.type = "adamax",
       .states = {{"Moment", kFirst}, {"InfNorm", kSecond}},
       .scalars = {{"LearningRate", {0.25}}, {"Beta1Pow", {0.81}}},
       .attrs = betas,
       .after = {{"Param", {-0.373411953, -1.438596487, 1.710526228}},
                 {"InfNorm", {0.58, 0.66, 1.5}}},
       .takes_rows = false},
      rmsprop(false, {0.218674988, -1.001912832, 1.615508795},
              {0.281325012, 0.001912788, 0.384491205}),
      rmsprop(true, {0.217341244, -1.001652241, 1.597324610},
              {0.282658756, 0.001652300, 0.402675360}),
      {.type = "lamb",
       .states = {{"Moment1", kFirst}, {"Moment2", kSecond}},
       .scalars = rate_and_powers,
       .attrs = lamb,
       .after = {{"Param", {0.128591955, -0.987440825, 1.564083338}}}},
  };
}

TEST(Epsilon, StandsInUpdatesWhereTheOriginalHasIt) {
  for (const Update& update : updates()) {
    for (const DType dtype : {DType::float32, DType::float64}) {
      for (const bool rows : {false, true}) {
        if (rows && !update.takes_rows) continue;
        const auto tensor = [&](const Numbers& values) {
          return cast(doubles({1, static_cast<int64_t>(values.size())}, values), dtype);
        };
        ScopeRunner runner;
        std::map<std::string, std::string> ins = {{"Param", "Param"}, {"Grad", "Grad"}};
        std::map<std::string, std::string> outs = {{"ParamOut", "Param"}};
        runner.set("Param", tensor(kParam));
        rows ? runner.set("Grad", SelectedRows{{0}, 1, tensor(kGrad)})
             : runner.set("Grad", tensor(kGrad));
        for (const auto& [slot, values] : update.states) {
          runner.set(slot, tensor(values));
          ins[slot] = slot;
          outs[slot + "Out"] = slot;
        }
        for (const auto& [slot, values] : update.scalars) {
          runner.set(slot, cast(doubles({1}, values), dtype));
          ins[slot] = slot;
          if (update.type == "adam" && slot != "LearningRate") outs[slot + "Out"] = slot;
        }
        runner.run(update.type, ins, outs, update.attrs);
        for (const auto& [slot, values] : update.after) {
          expect_close(runner.tensor(slot), values,
                       cat(update.type, " ", name_of(dtype), rows ? " rows " : " ", slot));
        }
      }
    }
  }
}

struct Normalised {
  std::string type;
  Tensors inputs;
  Attrs attrs;
  std::map<std::string, Numbers> outputs;
};

std::vector<Normalised> norms() {
  const Tensor x = doubles({1, 2, 2, 2}, {.01, .02, .03, .06, 0, -.01, .04, .01});
  const Tensor rows = doubles({2, 3}, {.01, .02, .06, 0, -.01, .04});
  const Tensors scaled = {
      {"X", {x}}, {"Scale", {doubles({2}, {2, 3})}}, {"Bias", {doubles({2}, {0.5, -0.5})}}};
  const auto kept = [&](Numbers mean, Numbers variance) {
    Tensors all = scaled;
    all["Mean"] = {doubles({2}, mean)};
    all["Variance"] = {doubles({2}, variance)};
    return all;
  };
  const Numbers of_channels = {-0.588662, -0.044331, 0.5,     2.132993,
                               -1.316496, -2.132993, 1.94949, -0.5};
  return {
      {"batch_norm",
       kept({0, 0}, {1, 1}),
       {{"epsilon", 0.001f}},
       {{"Y", of_channels}, {"SavedVariance", {27.216553, 27.216553}}}},
      {"sync_batch_norm", kept({0, 0}, {1, 1}), {{"epsilon", 0.001f}}, {{"Y", of_channels}}},
      {"batch_norm",
       kept({1, 2}, {.001, .004}),
       {{"epsilon", 0.001f}, {"is_test", true}},
       {{"Y",
         {-43.774147, -43.326931, -42.879719, -41.538078, -85.352806, -85.777069, -83.655746,
          -84.928543}}}},
      {"layer_norm",
       {{"X", {rows}}},
       {{"epsilon", 0.001f}, {"begin_norm_axis", 1}},
       {{"Y", {-0.522233, -0.261116, 0.783349, -0.261116, -0.522233, 0.783349}}}},
      {"group_norm",
       {{"X", {x}}},
       {{"epsilon", 0.001f}, {"groups", 2}},
       {{"Y", {-0.544331, -0.272166, 0, 0.816497, -0.272166, -0.544331, 0.816497, 0}}}},
      {"instance_norm",
       scaled,
       {{"epsilon", 0.001f}},
       {{"Y", of_channels}, {"SavedVariance", {27.216551, 27.216551}}}},
      {"norm",
       {{"X", {doubles({2, 3}, {1, 2, 6, 0, -1, 4})}}},
       {{"epsilon", 0.5f}, {"axis", 1}},
       {{"Out", {0.15523, 0.31046, 0.931381, 0, -0.239046, 0.956183}},
        {"Norm", {6.44205, 4.1833}}}},
      {"log_loss",
       {{"Predicted", {doubles({2, 1}, {0.25, 0.75})}}, {"Labels", {doubles({2, 1}, {1, 0})}}},
       {{"epsilon", 0.1f}},
       {{"Loss", {1.049822, 1.049822}}}},
      {"spectral_norm",
       {{"Weight", {doubles({2, 2}, {1, 2, 3, -4})}},
        {"U", {doubles({2}, {1, 1})}},
        {"V", {doubles({2}, {1, -1})}}},
       {{"eps", 0.5f}, {"dim", 0}, {"power_iters", 1}},
       {{"Out", {0.279509, 0.559019, 0.838528, -1.118038}}}},
  };
}

TEST(Epsilon, StandsInNormsWhereTheOriginalHasIt) {
  for (const Normalised& norm : norms()) {
    for (const DType dtype : {DType::float32, DType::float64}) {
      OpCall call{.type = norm.type, .inputs = norm.inputs, .attrs = norm.attrs};
      for (auto& [slot, tensors] : call.inputs) tensors[0] = cast(tensors[0], dtype);
      const Tensors out = run_op(call);
      for (const auto& [slot, values] : norm.outputs) {
        expect_close(out.at(slot)[0], values, cat(norm.type, " ", name_of(dtype), " ", slot));
      }
    }
  }
}

}  // namespace
}  // namespace trireme::testing
