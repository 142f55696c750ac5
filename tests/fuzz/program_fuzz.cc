// Fuzzes reading of model files. Any bytes give an Error or a program; a program that was read can
// be printed, copied, pruned and written, and what is written reads back as the same bytes.
#include <cstdio>
#include <cstdlib>

#include "ir/program.h"
#include "tests/fuzz/fuzz.h"
#include "tests/ir/raw_program.h"

namespace trireme::testing {
namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "program_fuzz: %s\n", what);
  std::abort();
}

// What a program allows depends on its ops: an op_role that is a list, a target that no op writes.
// Such a program is refused with an Error where that matters, and was read all the same.
template <class Action>
void allow_error(const Action& action) {
  try {
    action();
  } catch (const InternalError& error) {
    fail(error.what());
  } catch (const Error&) {
  }
}

void use(const Program& program) {
  to_text(program);
  to_proto_text(program);
  clone(program, false);
  allow_error([&] { serialize(*inference_copy(program, true)); });
  allow_error([&] { serialize(*clone(program, true)); });
  const Block& block = program.global_block();
  if (block.size() == 0) return;
  const std::vector<std::string> feeds = block.op(0).input_names();
  const std::vector<std::string> targets = block.op(block.size() - 1).output_names();
  allow_error([&] { serialize(*prune(program, feeds, targets)); });
  allow_error([&] { serialize(*prune_keeping_optimizers(program, feeds, {})); });
}

void check(std::string_view bytes) {
  std::shared_ptr<Program> program;
  allow_error([&] { program = parse_program(bytes); });
  if (!program) return;
  ++accepted_inputs;
  const std::string written = serialize(*program);
  if (serialize(*parse_program(written)) != written) fail("written bytes read back as others");
  use(*program);
}

// A loop, sub-blocks, every kind of attribute and fields of a release to come.
std::string rich_model() {
  const std::shared_ptr<Program> program = toy_training();
  Block& block = program->global_block();
  block.create_var({.name = "rows", .type = VarType::selected_rows, .shape = {100, 8}});
  block.create_var({.name = "array", .type = VarType::lod_tensor_array, .lod_level = 1});
  Var& reader = block.create_var({.name = "reader", .type = VarType::reader});
  reader.reader_slots = {{DType::float32, {-1, 4}}};
  reader.reader_lod_levels = {1};
  Block& body = program->create_block(0);
  tensor(body, "local").unknown_fields = std::string("\xe8\x04\x05", 3);
  raw(body, "assign", {{"X", {"h"}}}, {{"Out", {"local"}}});
  raw(program->create_block(1), "increment", {{"X", {"local"}}}, {{"Out", {"local"}}});
  raw(body, "while", {{"X", {"local"}}}, {{"Out", {"local"}}}, {{"sub_block", BlockRef{2}}});
  raw(block, "while", {{"X", {"h"}}}, {{"Out", {"h"}}},
      {{"sub_block", BlockRef{1}},
       {"blocks", BlockRefs{{1, 2}}},
       {"b", true},
       {"bools", std::vector<bool>{true, false}},
       {"d", 0.1},
       {"ds", std::vector<double>{0.1}},
       {"f", 0.1f},
       {"fs", std::vector<float>{0.1f}},
       {"l", Attribute(std::in_place_type<int64_t>, int64_t{1} << 40)},
       {"ls", std::vector<int64_t>{-1}},
       {"s", std::string("text")},
       {"ss", std::vector<std::string>{"a", "b"}},
       {"v", VarRef{"h"}},
       {"vs", VarRefs{{"h", "w"}}}})
      .unknown_fields = std::string("\xe8\x04\x05", 3);
  program->op_versions = {{"conv2d", 2}};
  return serialize(*program);
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {serialize(*Program::create()), serialize(*toy_training()), rich_model()};
}

}  // namespace trireme::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  trireme::testing::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
