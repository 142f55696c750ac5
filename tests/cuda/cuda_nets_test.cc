// Nets with loops and branches that train on a GPU as on the CPU.
#include <gmock/gmock.h>

#include "core/flags.h"
#include "layers/layers.h"
#include "layers/mixed_precision.h"
#include "layers/optimizer.h"
#include "tests/cuda/cuda_places.h"
#include "tests/runtime/loop_nets.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

const std::vector<LoopNet>& cuda_nets() {
  static const std::vector<LoopNet> all = {
      {"dense", dense},
      {"while", [](Var& x) -> Var& { return looped(x, 4, dense); }},
      {"array", through_an_array},
      {"static_rnn", static_rnn, varied({5, 4, kWidth}), {-1, 4, kWidth}},
      {"rnn_in_rnn", rnn_in_rnn},
      {"dynamic_rnn", dynamic_rnn, sequences({3, 1, 2}), {-1, kWidth}, 1},
      {"by_row", by_row},
      {"cond_in_rnn", cond_in_rnn},
      {"by_number", by_number},
  };
  return all;
}

std::unique_ptr<Scope> trained_on(const LoopNet& net, const Place& place) {
  auto main = Program::create(), startup = Program::create();
  {
    const UniqueNameGuard own_names;
    const ProgramGuard guard(main, startup);
    Var& x = main->global_block().create_var({.name = "x",
                                              .dtype = DType::float32,
                                              .shape = Shape(net.shape),
                                              .lod_level = net.lod_level,
                                              .is_data = true});
    Var& loss = layers::mean(layers::square(net.build(dense(x))));
    loss.set_persistable(true);
    optimizer::Momentum(0.01, 0.9).minimize(loss);
  }
  auto scope = std::make_unique<Scope>();
  Executor exe(place);
  const RunOptions options{.scope = scope.get(), .threads = 1, .process_seed = 3};
  exe.run(*startup, {}, {}, options);
  for (int step = 0; step < 6; ++step) exe.run(*main, {{"x", net.x}}, {}, options);
  return scope;
}

TEST(CudaNets, TrainAsOnTheCpu) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU is visible";
  for (const LoopNet& net : cuda_nets()) {
    SCOPED_TRACE(net.name);
    try {
      const auto cpu = trained_on(net, cpu_place()), gpu = trained_on(net, cuda_place(0));
      EXPECT_EQ(disagreement(*cpu, *gpu, 1e-4), "");
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

// A residual block between a convolution and a pooling layer, as nets of images have them.
std::vector<float> losses_of_images(const Place& place, int steps) {
  auto main = Program::create(), startup = Program::create();
  std::string loss;
  {
    const UniqueNameGuard own_names;
    const ProgramGuard guard(main, startup);
    Var& x = layers::data("x", {3, 16, 16});
    Var& first = layers::conv2d(x, {.num_filters = 8, .filter_size = 3, .padding = 1});
    Var& normal = layers::batch_norm(first, {.act = "relu"});
    Var& second = layers::conv2d(normal, {.num_filters = 8, .filter_size = 3, .padding = 1});
    Var& sum = layers::relu(layers::elementwise_add(layers::batch_norm(second), normal));
    Var& small = layers::pool2d(sum, {.pool_size = 2, .pool_stride = 2});
    Var& flat = layers::fc({small}, {.size = 4});
    Var& mean = layers::mean(layers::square(flat));
    loss = mean.name();
    optimizer::Momentum(0.01, 0.9).minimize(mean);
  }
  Draw draw(4);
  const Tensor images = cast(draw.uniform({6, 3, 16, 16}), DType::float32);
  Scope scope;
  Executor exe(place);
  const RunOptions options{.scope = &scope, .process_seed = 3};
  exe.run(*startup, {}, {}, options);
  std::vector<float> losses;
  for (int step = 0; step < steps; ++step) {
    const auto fetched = exe.run(*main, {{"x", images}}, {loss}, options);
    losses.push_back(fetched[0].tensor().on_host().data<float>()[0]);
  }
  return losses;
}

TEST(CudaNets, OfImagesTrainAsOnTheCpuAndRoundTheirProductsWhereAsked) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU is visible";
  constexpr int kSteps = 8;
  const auto distance = [](const std::vector<float>& a, const std::vector<float>& b) {
    double most = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      most = std::max(most, std::abs(double(a[i]) - b[i]) / std::abs(double(a[i])));
    }
    return most;
  };
  const std::vector<float> cpu = losses_of_images(cpu_place(), kSteps);
  const std::vector<float> gpu = losses_of_images(cuda_place(0), kSteps);
  EXPECT_LT(distance(cpu, gpu), 1e-4);
  EXPECT_EQ(gpu, losses_of_images(cuda_place(0), kSteps)) << "two runs differ";
  set_flag("allow_tf32", true);
  const std::vector<float> rounded = losses_of_images(cuda_place(0), kSteps);
  set_flag("allow_tf32", false);
  EXPECT_NE(rounded, gpu);
  EXPECT_LT(distance({cpu[0]}, {rounded[0]}), 1e-2);  // later steps carry the first ones' errors on
}

struct HalfNet {
  DType half;
  double bound;  // of losses, relative: some roundings of the type
};

// An image net and a dense one behind it, decorated: what is white computes in halves.
std::vector<float> losses_in_halves(const Place& place, DType half, int steps) {
  auto main = Program::create(), startup = Program::create();
  std::string loss;
  {
    const UniqueNameGuard own_names;
    const ProgramGuard guard(main, startup);
    Var& x = layers::data("x", {8, 12, 12});
    Var& label = layers::data("label", {1}, {.dtype = DType::int64});
    Var& first = layers::conv2d(x, {.num_filters = 16, .filter_size = 3, .padding = 1});
    Var& normal = layers::batch_norm(first, {.act = "relu"});
    Var& second =
        layers::conv2d(normal, {.num_filters = 16, .filter_size = 3, .stride = 2, .padding = 1});
    Var& small = layers::pool2d(second, {.pool_size = 2, .pool_stride = 2});
    Var& wide = layers::fc({small}, {.size = 32, .act = "tanh"});
    Var& logits = layers::fc({layers::layer_norm(wide)}, {.size = 4});
    Var& mean = layers::mean(layers::softmax_with_cross_entropy(logits, label));
    loss = mean.name();
    mixed_precision::OptimizerWithMixedPrecision(std::make_shared<optimizer::Momentum>(0.05, 0.9),
                                                 {.init_loss_scaling = 128, .half = half})
        .minimize(mean);
  }
  Draw draw(4);
  const Tensor images = cast(draw.uniform({6, 8, 12, 12}), DType::float32);
  Tensor labels(DType::int64, Shape{6, 1});
  for (int i = 0; i < 6; ++i) labels.data<int64_t>()[i] = i % 4;
  Scope scope;
  Executor exe(place);
  const RunOptions options{.scope = &scope, .process_seed = 3};
  exe.run(*startup, {}, {}, options);
  std::vector<float> losses;
  for (int step = 0; step < steps; ++step) {
    const auto fetched = exe.run(*main, {{"x", images}, {"label", labels}}, {loss}, options);
    losses.push_back(fetched[0].tensor().on_host().data<float>()[0]);
  }
  return losses;
}

// A half has 11 or 8 bits: the first loss differs by roundings of what is between, later ones by
// what those make of the parameters.
TEST(CudaNets, InHalvesTrainAsOnTheCpu) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU is visible";
  constexpr int kSteps = 8;
  for (const HalfNet& net : {HalfNet{DType::float16, 4e-3}, HalfNet{DType::bfloat16, 3e-2}}) {
    SCOPED_TRACE(name_of(net.half));
    const std::vector<float> cpu = losses_in_halves(cpu_place(), net.half, kSteps);
    const std::vector<float> gpu = losses_in_halves(cuda_place(0), net.half, kSteps);
    EXPECT_EQ(gpu, losses_in_halves(cuda_place(0), net.half, kSteps)) << "two runs differ";
    EXPECT_LT(gpu.back(), gpu.front());
    for (int step = 0; step < kSteps; ++step) {
      const double away = std::abs(double(cpu[step]) - gpu[step]) / cpu[0];
      EXPECT_LT(away, net.bound) << "step " << step << ": " << cpu[step] << " and " << gpu[step];
      if (step == 0 || step + 1 == kSteps) {
        std::printf("cuda: %s, step %d: %g on the CPU, %g on the GPU\n",
                    std::string(name_of(net.half)).c_str(), step, cpu[step], gpu[step]);
      }
    }
  }
}

// Of a feed that lies on the card already nothing is copied over the host, and it stays as it was.
TEST(CudaNets, TakeFeedsThatLieOnTheCard) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU is visible";
  auto main = Program::create(), startup = Program::create();
  std::string out;
  {
    const UniqueNameGuard own_names;
    const ProgramGuard guard(main, startup);
    Var& x = layers::data("x", {5});
    Var& y = layers::data("y", {5});
    out = layers::relu(layers::elementwise_add(layers::relu(x), y)).name();
  }
  Draw draw(4);
  const Tensor x = cast(draw.uniform({3, 5}), DType::float32);
  const Tensor y = cast(draw.uniform({3, 5}), DType::float32);
  Scope scope;
  Executor exe(cuda_place(0));
  const RunOptions options{.scope = &scope};
  const auto run = [&](const Tensor& a, const Tensor& b) {
    return numbers(exe.run(*main, {{"x", a}, {"y", b}}, {out}, options)[0].tensor().on_host());
  };
  const std::vector<double> wanted = run(x, y);
  const Tensor x_there = x.to(cuda_place(0)), y_there = y.to(cuda_place(0));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(run(x_there, y_there), wanted) << i;
  EXPECT_EQ(run(x_there, y), wanted);
  EXPECT_EQ(run(y_there, x_there), run(y, x));
  EXPECT_EQ(numbers(x_there.on_host()), numbers(x));
  EXPECT_EQ(numbers(y_there.on_host()), numbers(y));
}

// The card cannot stop a step: the run that fed the id fails when it ends, and the next one works.
TEST(CudaNets, NameAnIdThatIsNoRow) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU is visible";
  auto main = Program::create(), startup = Program::create();
  std::string out;
  {
    const UniqueNameGuard own_names;
    const ProgramGuard guard(main, startup);
    layers::data("ids", {1}, {.dtype = DType::int64});
    main->global_block().create_var(
        {.name = "table", .dtype = DType::float32, .shape = Shape{4, 2}, .persistable = true});
    Var& rows = main->global_block().create_var({.name = "rows", .dtype = DType::float32});
    main->global_block().append_op({.type = "lookup_table",
                                    .inputs = {{"W", {"table"}}, {"Ids", {"ids"}}},
                                    .outputs = {{"Out", {"rows"}}}});
    out = rows.name();
  }
  Scope scope;
  Draw draw(1);
  scope.var("table").tensor() = cast(draw.uniform({4, 2}), DType::float32);
  Executor exe(cuda_place(0));
  const RunOptions options{.scope = &scope};
  const auto run = [&](int64_t id) {
    Tensor ids(DType::int64, Shape{3, 1});
    ids.data<int64_t>()[0] = ids.data<int64_t>()[1] = 1;
    ids.data<int64_t>()[2] = id;
    return exe.run(*main, {{"ids", ids}}, {out}, options);
  };
  run(3);
  try {
    run(9);
    FAIL() << "an id that is no row was taken";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("id 9 at position 2 of ids is not a row"));
  }
  run(0);
}

}  // namespace
}  // namespace trireme::testing
