// Operands that loops do not change are packed once a loop: with the numbers of the same net
// written out pass by pass.
#include <gmock/gmock.h>

#include "cpu/onednn.h"
#include "tests/runtime/loop_nets.h"

namespace trireme::testing {
namespace {

constexpr int64_t kPasses = 3, kRows = 40, kSide = 4, kChannels = 16;
constexpr int64_t kWide = kChannels * kSide * kSide;

Var& weight_of(const char* name) {
  return layers::create_parameter({kWide, kWide}, DType::float32, {.name = name});
}

// A product whose gradient turns the weight over, a turned product and a convolution.
Var& wide_step(Var& word, Var& before) {
  Var& image = layers::reshape(before, {-1, kChannels, kSide, kSide});
  Var& seen = layers::conv2d(image, {.num_filters = kChannels,
                                     .filter_size = 3,
                                     .padding = 1,
                                     .param_attr = ParamAttr{.name = "filter"},
                                     .bias_attr = false});
  Var& flat = layers::reshape(seen, {-1, kWide});
  Var& mixed = layers::mul(word, weight_of("plain")) +
               layers::matmul(flat, weight_of("turned"), {.transpose_y = true});
  return layers::tanh(mixed);
}

// Forward only: what each pass multiplies by is what the pass before made of it.
Var& halved(Var& weight) { return layers::scale(weight, {.scale = 0.5}); }
Var& product(Var& h, Var& weight) { return layers::matmul(h, weight, {.transpose_y = true}); }

using Build = std::function<Var&(Var& x, bool loops)>;

Var& in_rnn(Var& x, bool loops) {
  if (loops) {
    layers::StaticRNN rnn;
    rnn.step([&] {
      Var& word = rnn.step_input(x);
      Var& before = rnn.memory({.shape = {-1, kWide}, .batch_ref = &word});
      Var& next = wide_step(word, before);
      rnn.update_memory(before, next);
      rnn.step_output(next);
    });
    return *rnn()[0];
  }
  Var* before = &layers::fill_constant({kRows, kWide}, DType::float32, 0.0);
  std::vector<Var*> all;
  for (int i = 0; i < kPasses; ++i) {
    Var& word = layers::reshape(layers::slice(x, {0}, {i}, {i + 1}), {kRows, kWide});
    before = &wide_step(word, *before);
    all.push_back(before);
  }
  return layers::stack(Vars(all), 0);
}

// `body` runs in a While, or as often one after the other.
void passes(bool loops, const std::function<void()>& body) {
  if (!loops) {
    for (int64_t i = 0; i < kPasses; ++i) body();
    return;
  }
  Var& i = number(0);
  Var& n = number(kPasses);
  Var& more = layers::less_than(i, n);
  layers::While loop(more);
  loop.run([&] {
    body();
    layers::increment(i);
    layers::less_than(i, n, &more);
  });
}

Var& changed_in_the_loop(Var& x, bool loops) {
  Var& h = layers::reduce_mean(x, {.dim = {0}});
  Var& weight = layers::scale(weight_of("turned"));
  passes(loops, [&] {
    layers::assign(product(h, weight), &h);
    layers::assign(halved(weight), &weight);
  });
  return h;
}

Var& changed_around_the_loop(Var& x, bool loops) {
  Var& h = layers::reduce_mean(x, {.dim = {0}});
  Var& weight = layers::scale(weight_of("turned"));
  passes(loops, [&] {
    passes(loops, [&] { layers::assign(product(h, weight), &h); });
    layers::assign(halved(weight), &weight);
  });
  return h;
}

struct PackingCase {
  const char* name;
  Build build;
  bool trains;
  bool packs;  // something stays the same in a loop at the top
};

struct PackingProgram {
  std::shared_ptr<Program> main = Program::create(), startup = Program::create();
  Scope scope;
  Executor exe;
  std::string out;

  PackingProgram(const PackingCase& given, bool loops) {
    startup->set_seed(5);
    const UniqueNameGuard own_names;
    const ProgramGuard guard(main, startup);
    Var& x = layers::data("x", {kPasses, kRows, kWide}, {.append_batch_size = false});
    Var& result = given.build(x, loops);
    out = result.name();
    if (given.trains) optimizer::Sgd(0.5).minimize(layers::mean(layers::square(result)));
    exe.run(*startup, {}, {}, {.scope = &scope});
  }

  Tensor run(int threads) {
    return exe.run_one(*main, {{"x", varied({kPasses, kRows, kWide})}}, out,
                       {.scope = &scope, .threads = threads});
  }
};

class PackedInLoops : public ::testing::TestWithParam<PackingCase> {};

TEST_P(PackedInLoops, AreTheNumbersWrittenOut) {
  PackingProgram loop(GetParam(), true), written(GetParam(), false);
  for (int step = 0; step < 3; ++step) {
    const Tensor found = loop.run(2), wanted = written.run(2);
    ASSERT_EQ(found.shape(), wanted.shape());
    double largest = 0, size = 0;
    for (int64_t i = 0; i < found.numel(); ++i) {
      const double a = found.data<float>()[i], b = wanted.data<float>()[i];
      largest = std::max(largest, std::abs(a - b));
      size = std::max(size, std::abs(b));
    }
    EXPECT_GT(size, 1e-3) << "step " << step;
    EXPECT_LE(largest, 2e-5 * size) << "step " << step;
  }
  const std::string report = loop.exe.report(*loop.main);
  const bool says = report.find("before the first, and keep") != std::string::npos;
  if (has_onednn()) {
    EXPECT_EQ(says, GetParam().packs) << report;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PackedInLoops,
    ::testing::Values(PackingCase{"StaticRnn", in_rnn, true, true},
                      PackingCase{"ChangedInTheLoop", changed_in_the_loop, false, false},
                      PackingCase{"ChangedAroundTheLoop", changed_around_the_loop, false, false}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace trireme::testing
