// Data parallelism on devices with memory of their own: the bits of as many CPU places.
#include <gmock/gmock.h>

#include "layers/layers.h"
#include "runtime/compiled_program.h"
#include "tests/hostgpu/hostgpu_places.h"
#include "tests/runtime/loop_nets.h"
#include "tests/support/ranks.h"

namespace trireme::testing {
namespace {

std::vector<Place> places_of(const std::function<Place(int)>& place, int count) {
  std::vector<Place> places;
  for (int i = 0; i < count; ++i) places.push_back(place(i));
  return places;
}

struct ParallelNet {
  const char* name;
  std::function<Var&(Var& x)> build;
  bool sync_batch_norm = false;
};

Var& with_batch_norm(Var& x) { return layers::batch_norm(dense(x), {}); }

std::vector<ParallelNet> parallel_nets() {
  return {
      {"dense", [](Var& x) -> Var& { return dense(dense(x)); }},
      {"batch_norm", with_batch_norm},
      {"sync_batch_norm", with_batch_norm, true},
      {"dropout", [](Var& x) -> Var& { return layers::dropout(dense(x), {.dropout_prob = 0.5}); }}};
}

// The scope after some steps on batches that do not share out evenly.
std::unique_ptr<Scope> trained_together(const ParallelNet& net, const std::vector<Place>& places) {
  auto main = Program::create(), startup = Program::create();
  main->set_seed(7);
  startup->set_seed(7);
  Var* loss = nullptr;
  {
    const UniqueNameGuard own_names;
    const ProgramGuard guard(main, startup);
    Var& x = layers::data("x", {kWidth});
    loss = &layers::mean(layers::square(net.build(x)));
    optimizer::Adam(1e-2).minimize(*loss);
  }
  auto scope = std::make_unique<Scope>();
  Executor exe(places.front());
  const RunOptions options{.scope = scope.get(), .threads = 2, .process_seed = 3};
  exe.run(*startup, {}, {}, options);
  BuildStrategy build;
  build.sync_batch_norm = net.sync_batch_norm;
  CompiledProgram compiled(main, build);
  compiled.with_data_parallel({.loss_name = loss->name(), .places = places});
  for (int64_t step = 0; step < 4; ++step) {
    compiled.run(exe, Feeds{{"x", varied({9 + step, kWidth})}}, {loss->name()}, options);
  }
  return scope;
}

TEST(HostGpuParallel, TrainsToTheBitsOfAsManyCpuPlaces) {
  for (const ParallelNet& net : parallel_nets()) {
    for (int count : {2, 4}) {
      SCOPED_TRACE(cat(net.name, " on ", count));
      try {
        const auto cpu = trained_together(net, places_of([](int) { return cpu_place(); }, count));
        const auto gpu = trained_together(net, places_of(hostgpu_place, count));
        EXPECT_EQ(difference(*cpu, *gpu), "");
        // Several replicas on one device.
        EXPECT_EQ(
            difference(*cpu, *trained_together(net, std::vector<Place>(static_cast<size_t>(count),
                                                                       hostgpu_place(0)))),
            "");
      } catch (const Error& e) {
        ADD_FAILURE() << e.what();
      }
    }
  }
}

// The last loss of a rank, of three steps in which gradients are summed over two ranks.
Tensor loss_of_ranks(const Place& place) {
  const Ranks ranks = make_ranks(2, place);
  std::string loss;
  for (const auto& rank : ranks) {
    const UniqueNameGuard own_names;
    const ProgramGuard guard(rank->main, rank->startup);
    rank->startup->set_seed(7);
    Var& result = layers::mean(layers::square(dense(layers::data("x", {kWidth}))));
    loss = result.name();
    optimizer::Sgd sgd(0.1);
    const ParamGrads gradients = sgd.backward(result);
    for (const auto& [param, grad] : gradients) {
      rank->main->global_block().append_op({.type = "c_allreduce_sum",
                                            .inputs = {{"X", {grad->name()}}},
                                            .outputs = {{"Out", {grad->name()}}}});
    }
    sgd.apply_gradients(gradients);
  }
  meet(ranks, ring_name(0));
  Tensor last;
  EXPECT_EQ(on_each(ranks,
                    [&](Rank& rank, int r) {
                      const RunOptions options{.scope = &rank.scope};
                      rank.executor.run(*rank.startup, {}, {}, options);
                      for (int64_t step = 0; step < 3; ++step) {
                        const Tensor got = rank.executor.run_one(
                            *rank.main, {{"x", varied({4 + r, kWidth})}}, loss, options);
                        if (r == 0) last = got.on_host();
                      }
                    }),
            all_went_well(ranks));
  return last;
}

TEST(HostGpuParallel, RanksOnDevicesExchangeTheBitsOfThoseOnCpus) {
  EXPECT_EQ(*loss_of_ranks(hostgpu_place(0)).data<float>(),
            *loss_of_ranks(cpu_place()).data<float>());
}

}  // namespace
}  // namespace trireme::testing
