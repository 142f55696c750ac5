// Nets that train on a device that is not the host: loops, branches, and what may go wrong.
#include <gmock/gmock.h>

#include "compile/assign_queues.h"
#include "compile/lower.h"
#include "compile/pipeline.h"
#include "compile/plan.h"
#include "runtime/frame.h"
#include "tests/hostgpu/hostgpu_places.h"
#include "tests/runtime/loop_nets.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

const std::vector<LoopNet>& nets() {
  static const std::vector<LoopNet> all = {
      {"dense", dense},
      {"while", [](Var& x) -> Var& { return looped(x, 4, dense); }},
      {"array", through_an_array},
      {"static_rnn", static_rnn, varied({5, 4, kWidth}), {-1, 4, kWidth}},
      {"wide_rnn", wide_rnn, varied({5, 4, kWidth}), {-1, 4, kWidth}},
      {"rnn_in_rnn", rnn_in_rnn},
      {"words", static_rnn_of_words, varied({5, 4, kWidth}), {-1, 4, kWidth}},
      {"dynamic_rnn", dynamic_rnn, sequences({3, 1, 2}), {-1, kWidth}, 1},
      {"by_row", by_row},
      {"cond_in_rnn", cond_in_rnn},
      {"by_number", by_number},
  };
  return all;
}

std::unique_ptr<Scope> trained(const LoopNet& net, bool trains, const Place& place) {
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
    if (trains) optimizer::Adam(1e-3).minimize(loss);
  }
  auto scope = std::make_unique<Scope>();
  Executor exe(place);
  const RunOptions options{.scope = scope.get(), .threads = 1, .process_seed = 3};
  exe.run(*startup, {}, {}, options);
  for (int step = 0; step < 6; ++step) exe.run(*main, {{"x", net.x}}, {}, options);
  return scope;
}

TEST(HostGpuNets, TrainToTheBitsOfTheCpu) {
  for (const LoopNet& net : nets()) {
    for (const bool trains : {false, true}) {
      SCOPED_TRACE(cat(net.name, trains ? ", training" : ""));
      try {
        EXPECT_EQ(
            difference(*trained(net, trains, cpu_place()), *trained(net, trains, hostgpu_place())),
            "");
      } catch (const Error& e) {
        ADD_FAILURE() << e.what();
      }
    }
  }
}

struct DevicePlan {
  std::shared_ptr<Program> main = Program::create(), startup = Program::create();
  std::unique_ptr<Plan> plan;
  DevicePlan() {
    const UniqueNameGuard own_names;
    const ProgramGuard guard(main, startup);
    Var& x = layers::data("x", {kWidth});
    Var& loss = layers::mean(layers::square(dense(dense(x))));
    optimizer::Sgd(0.1).minimize(loss);
    LowerRequest request;
    request.feeds["x"] = {.dtype = DType::float32, .shape = Shape{-1, kWidth}, .lod_level = 0};
    request.fetches = {loss.name()};
    Graph graph = lower(*main, request);
    const Target target = target_of(hostgpu_place());
    run_passes(graph, target);
    plan = make_plan(std::move(graph), target);
  }
};

TEST(HostGpuPlan, UploadsFeedsAndDownloadsFetches) {
  const DevicePlan made;
  int uploads = 0, downloads = 0, kernels = 0;
  for (const Instruction& instruction : made.plan->instructions) {
    uploads += instruction.runner == Runner::upload;
    downloads += instruction.runner == Runner::download;
    kernels += instruction.runner == Runner::compute;
  }
  EXPECT_EQ(uploads, 1);
  EXPECT_EQ(downloads, 1);
  EXPECT_GT(kernels, 3);
}

TEST(HostGpuPlan, AMissingWaitIsFound) {
  const DevicePlan made;
  int found = 0;
  for (Instruction& instruction : made.plan->instructions) {
    for (size_t w = 0; w < instruction.waits.size(); ++w) {
      const std::vector<int> waits = instruction.waits;
      instruction.waits.erase(instruction.waits.begin() + static_cast<std::ptrdiff_t>(w));
      EXPECT_THROW(check_order(*made.plan), InternalError);
      instruction.waits = waits;
      ++found;
    }
  }
  EXPECT_GE(found, 2);
  check_order(*made.plan);
}

// The third run with the same memory is captured, and replayed from then on; other shapes of feeds
// begin anew.
TEST(HostGpuPlan, IsReplayedOnceItRepeats) {
  const DevicePlan made;
  Scope here, there;
  for (const auto& [scope, place] :
       {std::pair{&here, cpu_place()}, std::pair{&there, hostgpu_place()}}) {
    Executor(place).run(*made.startup, {}, {}, {.scope = scope, .process_seed = 5});
  }
  Frame frame(*made.plan, hostgpu_place());
  Executor cpu;
  const RunSettings settings;
  Draw draw(6);
  const auto step = [&](int64_t rows) {
    const Tensor x = cast(draw.uniform({rows, kWidth}), DType::float32);
    frame.feed(0, x);
    frame.run(there, settings);
    cpu.run(*made.main, {{"x", x}}, {}, {.scope = &here});
    return frame.replayed();
  };
  EXPECT_EQ(step(4), 0u);
  EXPECT_EQ(step(4), 0u);
  EXPECT_GE(step(4), 1u);
  for (int i = 0; i < 3; ++i) EXPECT_GE(step(4), 1u);
  EXPECT_EQ(difference(here, there), "");
  EXPECT_EQ(step(3), 0u);
  for (int i = 0; i < 3; ++i) step(3);
  EXPECT_GE(frame.replayed(), 1u);
  EXPECT_EQ(difference(here, there), "");
}

TEST(HostGpuMemory, TheHostCannotReadIt) {
  const Tensor there = filled(DType::float32, {4}, 1.5).to(hostgpu_place());
  EXPECT_THAT(error_of([&] { there.data<float>(); }), ::testing::HasSubstr("gpu:0"));
  EXPECT_DEATH(
      {
        volatile const float* address = static_cast<const float*>(there.address());
        std::printf("%f\n", static_cast<double>(*address));
      },
      "");
  EXPECT_EQ(difference(filled(DType::float32, {4}, 1.5), there), "");
}

TEST(HostGpuMemory, AFailedAllocationSaysWhatIsInUse) {
  EXPECT_THAT(error_of([&] { Tensor(DType::float32, {int64_t{1} << 40}, hostgpu_place()); }),
              ::testing::HasSubstr("gpu:0"));
}

TEST(HostGpuQueue, WhatIsCapturedRunsAgain) {
  Device& device = device_of(hostgpu_place());
  const auto queue = device.make_queue(QueueKind::compute);
  const Tensor from = floats({2}, {1, 2}), to(DType::float32, {2}, hostgpu_place());
  const auto captured = device.capture(
      *queue, [&] { device.copy(*queue, to.address(), from.address(), from.byte_size()); });
  captured->replay(*queue);
  device.synchronize(*queue);
  EXPECT_EQ(difference(from, to), "");
  from.data<float>()[0] = 7;
  captured->replay(*queue);
  device.synchronize(*queue);
  EXPECT_EQ(difference(from, to), "");
}

TEST(HostGpuRun, AnErrorOfAKernelNamesTheUsersLine) {
  auto main = Program::create(), startup = Program::create();
  {
    const UniqueNameGuard own_names;
    const ProgramGuard guard(main, startup);
    Var& x = layers::data("x", {kWidth});
    Var& label = layers::data("label", {1}, {.dtype = DType::int64});
    layers::mean(layers::cross_entropy(layers::softmax(x), label));
  }
  Scope scope;
  Executor exe(hostgpu_place());
  const Feeds feeds{{"x", varied({2, kWidth})}, {"label", longs({2, 1}, {0, 9})}};
  const std::string text =
      error_of([&] { exe.run(*main, feeds, {}, {.scope = &scope, .threads = 1}); });
  EXPECT_THAT(text, ::testing::HasSubstr("cross_entropy"));
  EXPECT_THAT(text, ::testing::HasSubstr("nets_test.cc"));
}

// Parameters go to the device with the first run there, and come back with the next on the CPU.
TEST(HostGpuRun, StatesMoveBetweenPlaces) {
  auto main = Program::create(), startup = Program::create();
  std::string loss_name;
  {
    const UniqueNameGuard own_names;
    const ProgramGuard guard(main, startup);
    Var& loss = layers::mean(layers::square(dense(layers::data("x", {kWidth}))));
    optimizer::Sgd(0.1).minimize(loss);
    loss_name = loss.name();
  }
  const auto losses = [&](const std::vector<Place>& places) {
    Scope scope;
    Executor on_cpu(cpu_place());
    std::vector<float> found;
    on_cpu.run(*startup, {}, {}, {.scope = &scope, .threads = 1, .process_seed = 3});
    for (const Place& place : places) {
      Executor exe(place);
      const Tensor loss = exe.run_one(*main, {{"x", varied({2, kWidth})}}, loss_name,
                                      {.scope = &scope, .threads = 1});
      found.push_back(loss.data<float>()[0]);
    }
    return found;
  };
  const Place cpu = cpu_place(), gpu = hostgpu_place(), other = hostgpu_place(1);
  EXPECT_EQ(losses({cpu, cpu, cpu, cpu}), losses({cpu, gpu, other, cpu}));
}

}  // namespace
}  // namespace trireme::testing
