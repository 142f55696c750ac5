// The wire format: known bytes, round trips, and files written by others.
#include <gmock/gmock.h>

#include <limits>

#include "ir/framework.pb.h"
#include "tests/ir/raw_program.h"
#include "tests/ir/wire_bytes.h"
#include "tests/support/op_runner.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace testing;  // NOLINT: this room's test helpers
namespace pb = paddle::framework::proto;

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += hex[i] == ' ' ? 1 : 2) {
    if (hex[i] != ' ') {
      bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
    }
  }
  return bytes;
}

TEST(Wire, TheEmptyProgramHasTheKnownBytes) {
  const auto program = Program::create();
  const std::string block = "0a 0d 08 00 10 ff ff ff ff ff ff ff ff ff 01 ";
  EXPECT_EQ(serialize(*program), from_hex(block + "22 04 08 a2 a8 7a"));
  program->desc_version = 1008005;
  EXPECT_EQ(serialize(*program), from_hex(block + "22 04 08 85 c3 3d"));
}

TEST(Wire, TheEmptyProgramOf18IsRead) {
  const std::string bytes =
      from_hex("0a 0d 08 00 10 ff ff ff ff ff ff ff ff ff 01 22 04 08 85 c3 3d");
  const auto program = parse_program(bytes);
  EXPECT_EQ(program->desc_version, 1008005);
  EXPECT_EQ(program->global_block().size(), 0u);
  EXPECT_EQ(serialize(*program), bytes);
}

// One of everything the format has.
std::shared_ptr<Program> full_program() {
  const auto program = toy_training();
  Block& block = program->global_block();
  block.create_var({.name = "ids",
                    .dtype = DType::int64,
                    .shape = {-1, 1},
                    .lod_level = 2,
                    .stop_gradient = true,
                    .need_check_feed = true});
  block.create_var({.name = "rows", .type = VarType::selected_rows, .shape = {100, 8}});
  block.create_var({.name = "array",
                    .type = VarType::lod_tensor_array,
                    .dtype = DType::float64,
                    .shape = {-1, 2},
                    .lod_level = 1});
  Var& reader = block.create_var({.name = "reader", .type = VarType::reader, .persistable = true});
  reader.reader_slots = {{DType::float32, {-1, 4}}, {DType::int64, {-1, 1}}};
  reader.reader_lod_levels = {0, 1};
  block.create_var({.name = "feed", .type = VarType::feed_minibatch, .persistable = true});
  block.create_var({.name = "open", .dtype = DType::int32, .has_shape = false});
  block.create_parameter({.name = "frozen", .shape = {2}}, {.trainable = false});
  Block& body = program->create_block(0);
  tensor(body, "local");
  program->create_block(1).set_forward_index(1);
  program->set_current(0);
  raw(block, "everything", {{"X", {"ids", "rows"}}, {"None", {}}}, {{"Out", {"open"}}},
      {{"b", true},
       {"bools", std::vector<bool>{true, false}},
       {"block", BlockRef{1}},
       {"blocks", BlockRefs{{1, 2}}},
       {"f", -0.1f},
       {"floats", std::vector<float>{1.5f, std::numeric_limits<float>::infinity()}},
       {"float64", 0.1},
       {"float64s", std::vector<double>{0.1, -2}},
       {"i", -3},
       {"ints", std::vector<int32_t>{-1, 0, 7}},
       {"l", Attribute(std::in_place_type<int64_t>, int64_t{1} << 40)},
       {"longs", std::vector<int64_t>{-1, int64_t{1} << 50}},
       {"no_ints", std::vector<int32_t>{}},
       {"s", std::string("a\nb")},
       {"strings", std::vector<std::string>{"a", ""}},
       {"var", VarRef{"ids"}},
       {"vars", VarRefs{{"ids", "rows"}}}})
      .is_target = true;
  program->op_versions = {{"conv2d", 2}, {"adam", 1}};
  return program;
}

TEST(Wire, EverythingSurvivesARoundTrip) {
  const auto program = full_program();
  const std::string bytes = serialize(*program);
  const auto read = parse_program(bytes);
  EXPECT_EQ(serialize(*read), bytes);
  EXPECT_EQ(to_text(*read), to_text(*program));
  const Block& block = read->global_block();
  EXPECT_EQ(block.op(7).attrs(), program->global_block().op(7).attrs());
  EXPECT_TRUE(block.op(7).is_target);
  EXPECT_EQ(block.var("ids").lod_level(), 2);
  EXPECT_TRUE(block.var("ids").need_check_feed());
  EXPECT_TRUE(block.var("w").is_parameter());
  EXPECT_TRUE(block.var("w").parameter()->trainable);
  EXPECT_FALSE(block.var("frozen").parameter()->trainable);
  EXPECT_FALSE(block.var("open").has_shape());
  EXPECT_EQ(block.var("open").dtype(), DType::int32);
  EXPECT_EQ(block.var("reader").reader_slots.size(), 2u);
  EXPECT_EQ(read->block(2).forward_index(), 1);
  EXPECT_EQ(read->op_versions, program->op_versions);
  EXPECT_EQ(read->current_index(), 0);
}

TEST(Wire, WritingSortsSlotsAndAttributesAndKeepsVariableOrder) {
  pb::ProgramDesc message;
  ASSERT_TRUE(message.ParseFromString(serialize(*full_program())));
  const pb::OpDesc& op = message.blocks(0).ops(7);
  EXPECT_EQ(op.inputs(0).parameter(), "None");
  EXPECT_EQ(op.attrs(0).name(), "b");
  EXPECT_EQ(op.attrs(1).name(), "block");
  EXPECT_EQ(message.blocks(0).vars(0).name(), "X");
  EXPECT_EQ(message.blocks(0).vars(1).name(), "w");
  // Written when set, or always: see wire_write.cc.
  EXPECT_TRUE(message.blocks(0).vars(0).has_persistable());
  EXPECT_TRUE(message.blocks(0).vars(0).type().lod_tensor().has_lod_level());
  EXPECT_FALSE(message.blocks(0).vars(0).has_is_parameter());
  EXPECT_FALSE(message.blocks(0).vars(1).has_stop_gradient());
  EXPECT_FALSE(message.blocks(0).ops(0).has_is_target());
}

// Kernels of the original look these up; here they mean nothing, so programs do not hold them.
TEST(Wire, AttributesOfTheOriginalsKernelsAreWrittenAndNotKept) {
  const auto program = Program::create();
  program->block(0).insert_raw_op(0, {.type = "tanh_grad"});
  const std::string bytes = serialize(*program);
  pb::ProgramDesc written;
  ASSERT_TRUE(written.ParseFromString(bytes));
  std::vector<std::string> names;
  for (const auto& attr : written.blocks(0).ops(0).attrs()) names.push_back(attr.name());
  EXPECT_THAT(names, ElementsAre("use_cudnn", "use_mkldnn"));
  const auto read = parse_program(bytes);
  EXPECT_TRUE(read->block(0).op(0).attrs().empty());
  written.mutable_blocks(0)->mutable_ops(0)->mutable_attrs(1)->set_b(true);
  const auto set = parse_program(written.SerializeAsString());
  EXPECT_EQ(set->block(0).op(0).attrs().size(), 1u);  // another value than the usual one is kept
}

TEST(Wire, FieldsMayComeInAnyOrder) {
  // The canonical bytes of one variable and one op, and the same fields written backwards.
  const std::string var = text(1, "x") +
                          msg(2, num(1, 7) + msg(3, msg(1, num(1, 5) + num(2, 3)) + num(2, 0))) +
                          num(3, 1);
  const std::string op = msg(1, text(1, "X") + text(2, "x")) +
                         msg(2, text(1, "Out") + text(2, "x")) + text(3, "scale") +
                         msg(4, text(1, "a") + num(2, 0) + num(3, 1)) +
                         msg(4, text(1, "b") + num(2, 6) + num(10, 1));
  const std::string canonical =
      msg(1, num(1, 0) + num(2, ~0ull) + msg(3, var) + msg(4, op)) + msg(4, num(1, 2004002));
  const std::string var2 = num(3, 1) +
                           msg(2, msg(3, num(2, 0) + msg(1, num(2, 3) + num(1, 5))) + num(1, 7)) +
                           text(1, "x");
  const std::string op2 = msg(4, num(10, 1) + num(2, 6) + text(1, "b")) +
                          msg(4, num(3, 1) + text(1, "a") + num(2, 0)) + text(3, "scale") +
                          msg(2, text(2, "x") + text(1, "Out")) +
                          msg(1, text(2, "x") + text(1, "X"));
  const std::string backwards =
      msg(4, num(1, 2004002)) + msg(1, msg(4, op2) + msg(3, var2) + num(2, ~0ull) + num(1, 0));
  EXPECT_EQ(serialize(*parse_program(canonical)), canonical);
  EXPECT_EQ(serialize(*parse_program(backwards)), canonical);
}

TEST(Wire, BlocksMayComeInAnyOrder) {
  const std::string root = msg(1, num(1, 0) + num(2, ~0ull));
  const std::string inner = msg(1, num(1, 1) + num(2, 0));
  const std::string version = msg(4, num(1, 0));
  EXPECT_EQ(serialize(*parse_program(inner + root + version)), root + inner + version);
}

TEST(Wire, PackedNumbersAreAccepted) {
  const auto attr = [](const std::string& values) {
    return block_with(msg(4, text(3, "t") + msg(4, text(1, "a") + num(2, 3) + values)));
  };
  const auto packed = parse_program(attr(text(6, std::string("\x01\x02\x03"))));
  EXPECT_THAT(packed->global_block().op(0).attr<std::vector<int32_t>>("a"), ElementsAre(1, 2, 3));
  EXPECT_EQ(serialize(*packed), attr(num(6, 1) + num(6, 2) + num(6, 3)));
}

TEST(Wire, UnknownFieldsAreKeptAtEveryDepth) {
  const std::string more = num(77, 5) + text(78, "new");
  const std::string var =
      text(1, "x") +
      msg(2, num(1, 7) + msg(3, msg(1, num(1, 5) + num(2, 3) + more) + num(2, 0) + more) + more) +
      num(3, 0) + more;
  const std::string op = msg(1, text(1, "X") + text(2, "x") + more) + text(3, "t") +
                         msg(4, text(1, "a") + num(2, 0) + num(3, 1) + more) + more;
  const std::string bytes = msg(1, num(1, 0) + num(2, ~0ull) + msg(3, var) + msg(4, op) + more) +
                            msg(4, num(1, 3000000) + more) +
                            msg(5, msg(1, text(1, "t") + msg(2, num(1, 1)) + more)) + more;
  const auto program = parse_program(bytes);
  EXPECT_EQ(serialize(*program), bytes);
  EXPECT_EQ(serialize(*clone(*program, false)), bytes);
  // Edits elsewhere leave them; what they belonged to takes them along.
  program->global_block().op(0).set_attr("a", 2);
  EXPECT_NE(serialize(*program).find(num(3, 2) + more), std::string::npos);
  program->global_block().op(0).remove_attr("a");
  EXPECT_THAT(to_proto_text(program->global_block().op(0)), ::testing::Not(HasSubstr("attrs")));
}

TEST(Wire, AttributesOfUnknownTypeAreKeptInPlace) {
  const std::string strange = msg(4, text(1, "b") + num(2, 31) + text(40, "value"));
  // A parser puts fields it does not know after those it knows.
  const std::string op = text(3, "t") + msg(4, text(1, "a") + num(2, 0) + num(3, 1)) + strange +
                         msg(4, text(1, "c") + num(2, 0) + num(3, 1));
  const std::string bytes = block_with(msg(4, op));
  const auto program = parse_program(bytes);
  EXPECT_EQ(serialize(*program), bytes);
  Op& read = program->global_block().op(0);
  EXPECT_FALSE(read.has_attr("b"));
  read.set_attr("b", 9);
  EXPECT_EQ(parse_program(serialize(*program))->global_block().op(0).attr<int32_t>("b"), 9);
}

TEST(Wire, MessagesWeOnlyPassOnAreKept) {
  const std::string tuple =
      block_with(msg(3, text(1, "x") + msg(2, num(1, 18) + msg(7, num(1, 5))) + num(3, 0)));
  EXPECT_EQ(serialize(*parse_program(tuple)), tuple);
  const std::string vocab =
      block_with(msg(3, text(1, "x") + msg(2, num(1, 27) + msg(10, num(1, 5) + num(2, 3))) +
                            num(3, 0) + msg(7, text(1, "dist") + num(2, 0) + num(3, 4))));
  EXPECT_EQ(serialize(*parse_program(vocab)), vocab);
  const std::string compatible =
      msg(1, num(1, 0) + num(2, ~0ull)) +
      msg(3, msg(1, text(1, "op") + msg(2, text(1, "1.6.0") + num(2, 2))) + text(2, "1.5.0")) +
      msg(4, num(1, 1008005));
  EXPECT_EQ(serialize(*parse_program(compatible)), compatible);
}

TEST(Wire, CallStacksFromFilesAreKept) {
  const auto program = Program::create();
  raw(program->global_block(), "t", {}, {},
      {{"op_callstack", std::vector<std::string>{"  File \"a.py\", line 1", "    x"}}});
  const std::string bytes = serialize(*program);
  EXPECT_EQ(serialize(*parse_program(bytes)), bytes);
}

}  // namespace
}  // namespace trireme
