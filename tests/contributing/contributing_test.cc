// Follows CONTRIBUTING.md: its op, its kernels and its pass, as they are printed there.
#include <gmock/gmock.h>

#include <cmath>

#include "compile/graph_check.h"
#include "compile/passes.h"
#include "layers/layers.h"
#include "layers/ops.h"
#include "tests/contributing/worked_ops.h"
#include "tests/hostgpu/hostgpu_places.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_runner.h"

namespace trireme {

namespace layers {
#include "contributing/op_layer.inc"
}  // namespace layers

#include "contributing/pass.inc"

namespace testing {
namespace {

using ::testing::HasSubstr;

#include "contributing/op_test.inc"

#include "contributing/kernel_test.inc"

#include "contributing/pass_test.inc"

OpCall sample_call(const std::string& type) {
  Draw draw(1);
  const OpSample sample = op_table().get(type).samples().at(0)(draw);
  return {.type = type, .inputs = sample.inputs, .attrs = sample.attrs};
}

// What the suites do with every row of the table.
TEST(Contributing, TheOpHasAGradientWithoutALineForIt) {
  const GradCheck found = check_grad(sample_call("bent_identity"));
  EXPECT_GT(found.elements, 0);
  EXPECT_LT(found.worst, 1e-6) << found.where;
}

std::unique_ptr<Scope> scope_after(const OpProgram& built, const Place& place) {
  auto scope = std::make_unique<Scope>();
  Executor(place).run(*built.program, built.feeds, {}, {.scope = scope.get()});
  return scope;
}

TEST(Contributing, TheOpRunsOnAnyDeviceWithoutALineForIt) {
  OpCall call = sample_call("bent_identity");
  call.inputs = in_float32(call.inputs);
  OpProgram built = build_op(call);
  append_gradient(built, run_op(call));
  for (const Op* op : built.program->global_block().ops()) {
    for (const std::string& name : op->output_names()) {
      built.program->global_block().var(name).set_persistable(true);
    }
  }
  const auto cpu = scope_after(built, cpu_place()), gpu = scope_after(built, hostgpu_place());
  EXPECT_EQ(difference(*cpu, *gpu), "");
  const std::string& out = built.outputs.at("Out")[0];
  EXPECT_FALSE(in_host_memory(gpu->find(out)->tensor().place()));
}

TEST(Contributing, TheLayerIsOneOp) {
  const auto program = Program::create(), startup = Program::create();
  const ProgramGuard guard(program, startup);
  Var& x = layers::data("x", {3});
  Var& y = layers::bent_identity(x);
  EXPECT_EQ(program->global_block().ops().back()->type(), "bent_identity");
  EXPECT_EQ(y.shape(), x.shape());
}

TEST(Contributing, OpsCannotBeAddedOnceTheTableIsInUse) {
  op_table();
  const std::string what = error_of([] { add_ops([](Registry&) {}); });
  EXPECT_THAT(what, HasSubstr("after the op table was first used"));
}

}  // namespace
}  // namespace testing
}  // namespace trireme
