// Variables in files: split, combined, as bytes; and what is refused.
#include "io/vars.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/file.h"
#include "core/tensor_stream.h"
#include "tests/io/network.h"
#include "tests/support/temp_dir.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using trireme::testing::error_of;
using trireme::testing::Network;
using trireme::testing::numbers;
using trireme::testing::TempDir;

void expect_same_values(const Network& net, const Scope& other,
                        const std::function<bool(const Var&)>& which) {
  const VarList vars = select_vars(*net.main, which);
  ASSERT_FALSE(vars.empty());
  for (const Var* var : vars) {
    ASSERT_NE(other.find(var->name()), nullptr) << var->name();
    EXPECT_EQ(numbers(other.find(var->name())->tensor()),
              numbers(net.scope.find(var->name())->tensor()))
        << var->name();
  }
}

TEST(SaveVars, OneFilePerVariable) {
  const TempDir dir;
  const Network net;
  save_persistables(net.scope, dir.path(), *net.main);
  EXPECT_TRUE(fs::is_regular_file(dir / "fc_0.w_0"));
  EXPECT_EQ(fs::file_size(dir / "fc_0.w_0"), 26 + 4 * 3 * 4u);
  Scope other;
  load_persistables(other, dir.path(), *net.main);
  expect_same_values(net, other, is_persistable);
}

TEST(SaveVars, AllInOneFileByName) {
  const TempDir dir;
  const Network net;
  save_params(net.scope, dir.path(), *net.main, "params");
  Scope other;
  load_params(other, dir.path(), *net.main, "params");
  expect_same_values(net, other, is_saved_parameter);
  // fc_0.b_0 comes first: 3 numbers.
  ByteSource file = ByteSource::file(dir / "params");
  file.skip(4 + 8 + 4 + 4, "the head");
  EXPECT_EQ(file.read<uint32_t>("type and dimension"), 0x03100508u);
}

TEST(SaveVars, BytesAreTheCombinedFile) {
  const TempDir dir;
  const Network net;
  const VarList vars = select_vars(*net.main, is_persistable);
  save_vars(net.scope, dir.path(), vars, "all");
  const std::string bytes = serialize_vars(net.scope, vars);
  EXPECT_EQ(bytes, read_file(dir / "all", 1 << 20));
  Scope other;
  deserialize_vars(other, vars, bytes);
  expect_same_values(net, other, is_persistable);
}

TEST(SaveVars, SavingDoesNotChangeTheProgram) {
  const TempDir dir;
  const Network net;
  const uint64_t version = net.main->version();
  const std::string bytes = serialize(*net.main);
  save_persistables(net.scope, dir.path(), *net.main, "all");
  EXPECT_EQ(net.main->version(), version);
  EXPECT_EQ(serialize(*net.main), bytes);
}

TEST(SaveVars, AMissingValueNamesTheVariableAndLeavesTheOldFile) {
  const TempDir dir;
  const Network net;
  write_file(dir / "all", "old");
  const Scope empty;
  EXPECT_THAT(error_of([&] { save_persistables(empty, dir.path(), *net.main, "all"); }),
              HasSubstr("is not in the scope"));
  EXPECT_EQ(read_file(dir / "all", 10), "old");
}

TEST(LoadVars, KeepsTheMemoryOfVariablesThatFit) {
  const TempDir dir;
  Network net;
  save_params(net.scope, dir.path(), *net.main);
  const void* memory = net.scope.find("fc_0.w_0")->tensor().address();
  load_params(net.scope, dir.path(), *net.main);
  EXPECT_EQ(net.scope.find("fc_0.w_0")->tensor().address(), memory);
}

TEST(LoadVars, ADamagedFileChangesNoVariable) {
  const TempDir dir;
  Network net;
  save_persistables(net.scope, dir.path(), *net.main, "all");
  const std::string whole = read_file(dir / "all", 1 << 20);
  const std::vector<double> before = numbers(net.scope.find("fc_0.w_0")->tensor());
  for (const std::string& damaged : {whole.substr(0, whole.size() - 5), whole + "more"}) {
    write_file(dir / "all", damaged);
    EXPECT_THAT(error_of([&] { load_persistables(net.scope, dir.path(), *net.main, "all"); }),
                HasSubstr("/all"));
    EXPECT_EQ(numbers(net.scope.find("fc_0.w_0")->tensor()), before);
  }
}

TEST(LoadVars, AParameterOfAnotherShapeIsRefused) {
  const TempDir dir;
  Network net;
  save_params(net.scope, dir.path(), *net.main);
  fs::copy_file(dir / "fc_0.w_0", dir / "fc_1.w_0", fs::copy_options::overwrite_existing);
  EXPECT_THAT(error_of([&] { load_params(net.scope, dir.path(), *net.main); }),
              HasSubstr("fc_1.w_0 is damaged: it is not what was saved there"));
  fs::remove(dir / ".trireme.sums");  // as that error says
  const std::string what = error_of([&] { load_params(net.scope, dir.path(), *net.main); });
  EXPECT_THAT(what, HasSubstr("parameter fc_1.w_0 has the shape [3, 2] in the program and [4, 3]"));
}

TEST(SaveOps, RunInProgramsAndAgreeWithTheFunctions) {
  const TempDir dir;
  Network net;
  const auto program = Program::create();
  Block& block = program->global_block();
  std::vector<std::string> names;
  for (const Var* var : select_vars(*net.main, is_saved_parameter)) {
    names.push_back(var->name());
    block.create_var(var->spec());
  }
  std::sort(names.begin(), names.end());
  block.append_op({"save_combine", {{"X", names}}, {}, {{"file_path", dir / "sub/ops"}}});
  block.append_op({"save", {{"X", {names[0]}}}, {}, {{"file_path", dir / "one"}}});
  net.executor.run(*program, {}, {}, {.scope = &net.scope});
  save_params(net.scope, dir.path(), *net.main, "functions");
  EXPECT_EQ(read_file(dir / "sub/ops", 1 << 20), read_file(dir / "functions", 1 << 20));

  const auto loader = Program::create();
  for (const std::string& name : names) loader->global_block().create_var(block.var(name).spec());
  loader->global_block().append_op(
      {"load_combine", {}, {{"Out", names}}, {{"file_path", dir / "sub/ops"}}});
  Scope other;
  net.executor.run(*loader, {}, {}, {.scope = &other});
  expect_same_values(net, other, is_saved_parameter);
}

TEST(SaveOps, OverwriteFalseRefusesAnExistingFile) {
  const TempDir dir;
  Network net;
  write_file(dir / "one", "old");
  const auto program = Program::create();
  Block& block = program->global_block();
  block.create_var(net.main->global_block().var("fc_0.w_0").spec());
  block.append_op(
      {"save", {{"X", {"fc_0.w_0"}}}, {}, {{"file_path", dir / "one"}, {"overwrite", false}}});
  EXPECT_THAT(error_of([&] { net.executor.run(*program, {}, {}, {.scope = &net.scope}); }),
              HasSubstr("exists already and overwrite is False"));
}

TEST(SaveOps, MemoryTakesTheBytesAndGivesThemBack) {
  Network net;
  const auto program = Program::create();
  Block& block = program->global_block();
  block.create_var(net.main->global_block().var("fc_0.w_0").spec());
  VarSpec raw;
  raw.name = "bytes";
  raw.type = VarType::raw;
  raw.persistable = true;
  block.create_var(raw);
  block.append_op({"save_combine",
                   {{"X", {"fc_0.w_0"}}},
                   {{"Y", {"bytes"}}},
                   {{"file_path", std::string()}, {"save_to_memory", true}}});
  net.executor.run(*program, {}, {}, {.scope = &net.scope});
  const auto bytes = net.scope.find("bytes")->host<HostBytes>();
  ASSERT_NE(bytes, nullptr);
  EXPECT_EQ(bytes->bytes.size(), 26 + 4 * 3 * 4u);
}

}  // namespace
}  // namespace trireme
