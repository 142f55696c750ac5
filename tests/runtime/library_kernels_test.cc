// Convolutions, products and recurrences of nets that train run on libraries, not on the reference
// loops.
#include <gmock/gmock.h>

#include <regex>

#include "cpu/gemm.h"
#include "cpu/onednn.h"
#include "cpu/vectorised.h"
#include "ir/unique_name.h"
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "runtime/executor.h"

namespace trireme {
namespace {

// "conv2d: onednn direct x1, reference x2" becomes {"conv2d", {"onednn", "reference"}}.
std::map<std::string, std::set<std::string>> kernels_in(const std::string& report) {
  std::map<std::string, std::set<std::string>> found;
  const std::regex line(R"(\n  (\w[\w.]*):((?: [\w -]+ x\d+,?)+))"), one(R"( (\w+)[\w -]* x\d+)");
  for (std::sregex_iterator at(report.begin(), report.end(), line), end; at != end; ++at) {
    const std::string kernels = (*at)[2];
    for (std::sregex_iterator k(kernels.begin(), kernels.end(), one); k != end; ++k) {
      found[(*at)[1]].insert((*k)[1]);
    }
  }
  return found;
}

TEST(LibraryKernels, RunWhatCostsMost) {
  if (!has_onednn() && !has_blas()) GTEST_SKIP() << "built without oneDNN and BLAS";
  const UniqueNameGuard names;
  const auto main = Program::create(), startup = Program::create();
  const ProgramGuard guard(main, startup);
  Var& image = layers::data("image", {3, 12, 12});
  Var& words = layers::data("words", {1}, {.dtype = DType::int64, .lod_level = 1});
  Var& label = layers::data("label", {1}, {.dtype = DType::int64});
  Var& seen = layers::pool2d(
      layers::conv2d(image, {.num_filters = 8, .filter_size = 3, .act = "relu"}), {.pool_size = 2});
  Var& read = layers::fc(layers::embedding(words, {.size = {50, 16}}), {.size = 32});
  Var& last = layers::sequence_last_step(layers::dynamic_lstm(read, {.size = 32}).hidden);
  Var& classes =
      layers::fc(layers::fc(Vars({seen, last}), {.size = 16}), {.size = 4, .act = "softmax"});
  Var& loss = layers::mean(layers::cross_entropy(classes, label));
  optimizer::Sgd(0.1).minimize(loss);
  Executor executor;
  Scope scope;
  executor.run(*startup, {}, {}, {.scope = &scope});
  Tensor text = filled(DType::int64, {10, 1}, 3);
  text.set_lod({{0, 4, 4, 9, 10}});
  executor.run(*main,
               {{"image", filled(DType::float32, {4, 3, 12, 12}, 0.5)},
                {"words", text},
                {"label", filled(DType::int64, {4, 1}, 1)}},
               {loss.name()}, {.scope = &scope});
  const auto kernels = kernels_in(executor.report(*main));
  for (const char* op : {"conv2d", "conv2d_grad", "mul", "mul_grad", "lstm", "lstm_grad"}) {
    ASSERT_TRUE(kernels.contains(op)) << op << " in\n" << executor.report(*main);
    EXPECT_FALSE(kernels.at(op).contains("reference")) << op;
  }
}

// By the shape alone: 3 x 3 over 64 channels is Winograd's, 1 x 1 direct.
TEST(LibraryKernels, SayHowTheyConvolveAndWhatTheyPack) {
  if (!has_onednn() || vector_width() != VectorWidth::avx512) GTEST_SKIP() << "no Winograd here";
  const UniqueNameGuard names;
  const auto main = Program::create(), startup = Program::create();
  const ProgramGuard guard(main, startup);
  Var& image = layers::data("image", {64, 16, 16});
  Var& near = layers::conv2d(image, {.num_filters = 64, .filter_size = 3, .padding = 1});
  Var& map = layers::conv2d(near, {.num_filters = 64, .filter_size = 1, .bias_attr = false});
  Executor executor;
  Scope scope;
  executor.run(*startup, {}, {}, {.scope = &scope});
  executor.run(*main, {{"image", filled(DType::float32, {8, 64, 16, 16}, 0.5)}}, {map.name()},
               {.scope = &scope});
  const std::string report = executor.report(*main);
  EXPECT_THAT(report, ::testing::HasSubstr("conv2d: onednn direct x1, onednn winograd x1"));
  EXPECT_THAT(report, ::testing::HasSubstr("in every step 2 instructions pack"));
}

}  // namespace
}  // namespace trireme
