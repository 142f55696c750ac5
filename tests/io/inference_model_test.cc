// Models for inference: what is written, what comes back, and that the program stays as it was.
#include "io/inference_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/file.h"
#include "tests/io/network.h"
#include "tests/support/temp_dir.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using trireme::testing::error_of;
using trireme::testing::Network;
using trireme::testing::TempDir;

std::vector<std::string> types(const Program& program) {
  std::vector<std::string> result;
  for (const Op* op : program.global_block().ops()) result.push_back(op->type());
  return result;
}

TEST(SaveInferenceModel, KeepsOnlyWhatTheTargetNeeds) {
  const Network net;
  const auto normal = normalize_program(*net.main, {"x"}, {net.out});
  EXPECT_THAT(types(*normal), ElementsAre("feed", "mul", "elementwise_add", "relu", "mul",
                                          "elementwise_add", "scale", "fetch"));
  EXPECT_THAT(fetch_names(*normal), ElementsAre("save_infer_model/scale_0.tmp_0"));
  EXPECT_THAT(feed_names(*normal), ElementsAre("x"));
  EXPECT_EQ(normal->global_block().find_var("learning_rate_0"), nullptr);
}

TEST(SaveInferenceModel, PredictsTheSameAfterLoading) {
  for (const std::string params : {"", "params"}) {
    const TempDir dir;
    Network net;
    const auto targets = save_inference_model(dir.path(), {"x"}, {net.out}, *net.main, net.scope,
                                              {.params_filename = params});
    EXPECT_THAT(targets, ElementsAre("save_infer_model/scale_0.tmp_0"));
    EXPECT_TRUE(fs::is_regular_file(dir / "__model__"));
    Scope other;
    const InferenceModel model =
        load_inference_model(dir.path(), other, {.params_filename = params});
    EXPECT_THAT(model.feeds, ElementsAre("x"));
    EXPECT_EQ(net.predict(*model.program, other, model.targets[0]), net.predict());
  }
}

TEST(SaveInferenceModel, StaticFilesPredictTheSame) {
  const TempDir dir;
  Network net;
  save_inference_model(dir / "net", {"x"}, {net.out}, *net.main, net.scope,
                       NormalizeOptions{.clip_extra = true});
  EXPECT_TRUE(fs::is_regular_file(dir / "net.pdiparams"));
  Scope other;
  const InferenceModel model = load_inference_model_at(dir / "net", other);
  EXPECT_EQ(net.predict(*model.program, other, model.targets[0]), net.predict());
  EXPECT_FALSE(model.program->global_block().op(1).has_attr("op_role"));
}

TEST(SaveInferenceModel, BytesPredictTheSame) {
  Network net;
  const std::string model = serialize_program(*net.main, {"x"}, {net.out});
  const std::string params = serialize_persistables(*net.main, {"x"}, {net.out}, net.scope);
  Scope other;
  const InferenceModel loaded = load_inference_model_from(model, params, other);
  EXPECT_EQ(net.predict(*loaded.program, other, loaded.targets[0]), net.predict());
  EXPECT_THAT(error_of([&] { load_inference_model_from(model, "", other); }),
              HasSubstr("there are no bytes"));
}

TEST(SaveInferenceModel, NeverChangesTheUsersProgram) {
  const TempDir dir;
  const Network net;
  const uint64_t version = net.main->version();
  const std::string bytes = serialize(*net.main);
  for (int again = 0; again < 2; ++again) {
    save_inference_model(dir.path(), {"x"}, {net.out}, *net.main, net.scope);
    EXPECT_EQ(net.main->version(), version);
    EXPECT_EQ(serialize(*net.main), bytes);
  }
  // Nor does a save use up names: the second file is the first.
  const std::string first = read_file(dir / "__model__", 1 << 20);
  save_inference_model(dir.path(), {"x"}, {net.out}, *net.main, net.scope);
  EXPECT_EQ(read_file(dir / "__model__", 1 << 20), first);
}

TEST(SaveInferenceModel, FeedsStandInDescendingColumnsAndKeepTheirOrder) {
  const auto main = Program::create();
  const ProgramGuard guard(main, Program::create());
  Var& a = layers::data("a", {2});
  Var& b = layers::data("b", {2});
  Var& sum = layers::elementwise_add(a, b);
  const auto normal = normalize_program(*main, {"b", "a"}, {sum.name()});
  EXPECT_THAT(feed_names(*normal), ElementsAre("b", "a"));
  EXPECT_THAT(normal->global_block().op(0).output("Out"), ElementsAre("a"));
}

TEST(SaveInferenceModel, WrongNamesAreToldApart) {
  const Network net;
  EXPECT_THAT(error_of([&] { normalize_program(*net.main, {"y"}, {net.out}); }),
              HasSubstr("feeds names y, which the program does not have"));
  EXPECT_THAT(error_of([&] { normalize_program(*net.main, {"x"}, {"no"}); }),
              HasSubstr("targets names no"));
  EXPECT_THAT(error_of([&] {
                normalize_program(*net.main, {net.out, "x"}, {net.out});
              }),
              HasSubstr("which the targets do not need"));
}

TEST(SaveInferenceModel, TheWholeProgramOnRequest) {
  const TempDir dir;
  const Network net;
  save_inference_model(dir.path(), {"x"}, {net.out}, *net.main, net.scope,
                       {.export_for_deployment = false});
  const auto whole = parse_program(read_file(dir / "__model__.main_program", 1 << 20));
  EXPECT_EQ(whole->global_block().size(), net.main->global_block().size());
}

TEST(LoadInferenceModel, MissingDirectoryAndDamagedModelAreErrors) {
  const TempDir dir;
  const Network net;
  Scope other;
  EXPECT_THAT(error_of([&] { load_inference_model(dir / "none", other); }),
              HasSubstr("there is no directory"));
  save_inference_model(dir.path(), {"x"}, {net.out}, *net.main, net.scope);
  const std::string bytes = read_file(dir / "__model__", 1 << 20);
  write_file(dir / "__model__", bytes.substr(0, bytes.size() / 2));
  EXPECT_THROW(load_inference_model(dir.path(), other), Error);
}

}  // namespace
}  // namespace trireme
