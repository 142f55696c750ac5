// Recurrent cells and stacks of them, and the ops that talk to other processes.
#include "layers/cell.h"

#include "layers/remote.h"
#include "tests/layers/loop_net.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

TEST(Cells, GradientsOfAStackMatchFiniteDifferences) {
  for (const bool both_ways : {false, true}) {
    Net net;
    Var& x = net.data("x", {2, 3, 2});
    const layers::BasicRnn made =
        layers::basic_lstm(x, nullptr, nullptr,
                           {.cell = {.hidden_size = 2, .dtype = DType::float64},
                            .num_layers = 2,
                            .bidirectional = both_ways});
    EXPECT_EQ(made.out.shape(), Shape({2, 3, both_ways ? 4 : 2}));
    ASSERT_EQ(made.last.size(), 2u);
    EXPECT_EQ(made.last[0]->shape(), Shape({both_ways ? 4 : 2, 2, 2}));
    net.executor.run(*net.startup, {}, {}, {.scope = &net.scope});
    Var& target = layers::reduce_sum(made.out) + layers::reduce_sum(*made.last[1]);
    expect_gradients(net, target, {{"x", some({2, 3, 2})}}, {&x}, 1e-6);
  }
}

TEST(Cells, StatesStayBeyondTheLength) {
  Net net;
  Var& x = net.data("x", {2, 3, 2});
  Var& lengths = net.main->global_block().create_var(
      {.name = "lengths", .dtype = DType::int64, .shape = {2}, .is_data = true});
  const layers::BasicRnn made = layers::basic_gru(
      x, nullptr,
      {.cell = {.hidden_size = 2, .dtype = DType::float64}, .sequence_length = &lengths});
  net.executor.run(*net.startup, {}, {}, {.scope = &net.scope});
  const Feeds feeds = {{"x", some({2, 3, 2})}, {"lengths", trireme::testing::longs({2}, {3, 1})}};
  const Tensor out = net.run(feeds, made.out);
  for (int64_t j = 0; j < 2; ++j) {  // the second sequence has one step
    EXPECT_EQ(out.data<double>()[6 + j], out.data<double>()[6 + 4 + j]);
    EXPECT_NE(out.data<double>()[j], out.data<double>()[4 + j]);
  }
}

TEST(Cells, WrongUses) {
  Net net;
  Var& x = net.data("x", {2, 3, 2});
  EXPECT_THAT(error_of([&] { layers::BasicGruUnit("cell", {.hidden_size = 0}); }),
              HasSubstr("hidden_size is 0"));
  layers::BasicLstmUnit unit("cell", {.hidden_size = 2});
  EXPECT_THAT(error_of([&] { unit.step(x, {&x}); }), HasSubstr("has 2 states but 1 are given"));
  EXPECT_THAT(error_of([&] { layers::basic_lstm(x, &x, nullptr, {.cell = {.hidden_size = 2}}); }),
              HasSubstr("go together"));
}

TEST(Remote, BlocksOfAServerAndWhatTrainersSend) {
  Net net;
  Var& x = net.data("x", {2});
  layers::ListenAndServ server("host:1", x, 2);
  server.run([&] { layers::scale(x, {.scale = 2}); });
  layers::send("host:1,host:2", {x, x});
  layers::recv("host:1", x, {.sync = false});
  layers::allreduce(x, {.reduce_type = "prod"});
  EXPECT_EQ(types_of(net.main->global_block()), "listen_and_serv send send_barrier recv allreduce");
  EXPECT_EQ(net.main->global_block().op(2).attr<std::vector<std::string>>("endpoints").size(), 2u);
  EXPECT_EQ(net.main->block(1).size(), 1u);
  EXPECT_THAT(error_of([&] {
                layers::send("host:1", {x, x});
              }),
              HasSubstr("1 endpoints for 2 variables"));
}

}  // namespace
}  // namespace trireme
