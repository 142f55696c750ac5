// Gradients of ops that read positions out of tensors: those of the step, on every device.
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "tests/hostgpu/hostgpu_places.h"
#include "tests/runtime/loop_nets.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

// Two parts of a hidden layer, from positions that are fed. The gradient of the first stands behind
// the second, so positions of one may change where those of the other stay.
std::unique_ptr<Scope> trained_on_parts(const Place& place, bool bound_anew) {
  auto main = Program::create(), startup = Program::create();
  {
    const UniqueNameGuard own_names;
    const ProgramGuard guard(main, startup);
    const auto position = [](const std::string& name) -> Var& {
      return layers::data(name, {1}, {.append_batch_size = false, .dtype = DType::int64});
    };
    Var& hidden = dense(layers::data("x", {kWidth}));
    Var& a = layers::slice(hidden, {0}, {position("a")}, {position("a_end")});
    Var& b = layers::slice(hidden, {0}, {position("b")}, {position("b_end")});
    Var& loss = layers::mean(layers::square(layers::elementwise_add(a, layers::square(b))));
    optimizer::Sgd(0.1).minimize(loss);
  }
  auto scope = std::make_unique<Scope>();
  auto exe = std::make_unique<Executor>(place);
  const RunOptions options{.scope = scope.get(), .threads = 1, .process_seed = 3};
  exe->run(*startup, {}, {}, options);
  for (const auto& [a, b] : std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {3, 0}, {3, 2}}) {
    if (bound_anew) exe = std::make_unique<Executor>(place);
    const Feeds feeds{{"x", varied({6, kWidth})},
                      {"a", longs({1}, {a})},
                      {"a_end", longs({1}, {a + 2})},
                      {"b", longs({1}, {b})},
                      {"b_end", longs({1}, {b + 2})}};
    exe->run(*main, feeds, {}, options);
  }
  return scope;
}

TEST(FedPositions, GradientsGoWhereThePartsCameFrom) {
  const auto wanted = trained_on_parts(cpu_place(), /*bound_anew=*/true);
  EXPECT_EQ(difference(*wanted, *trained_on_parts(cpu_place(), /*bound_anew=*/false)), "");
  EXPECT_EQ(difference(*wanted, *trained_on_parts(hostgpu_place(), /*bound_anew=*/true)), "");
  EXPECT_EQ(difference(*wanted, *trained_on_parts(hostgpu_place(), /*bound_anew=*/false)), "");
}

TEST(FedPositions, RowsOfGradientsReadWhatTheyUse) {
  for (const OpSchema* row : op_table().rows()) {
    if (!row->forward()) continue;
    for (const std::string& name : row->forward()->trait().reads_values) {
      const auto& read = row->trait().reads_values;
      EXPECT_EQ(row->find_input(name) != nullptr,
                std::find(read.begin(), read.end(), name) != read.end())
          << row->type() << ": " << name;
    }
  }
}

}  // namespace
}  // namespace trireme::testing
