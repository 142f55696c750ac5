// Tests ir/backward.cc, ir/grad_ops.cc and ir/recompute.cc: which gradient ops, in which order,
// under which names.
#include "ir/backward.h"

#include <gmock/gmock.h>

#include "core/text.h"
#include "ir/schema.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

// Builds programs by hand, one op a line.
struct Net {
  std::shared_ptr<Program> program = Program::create();
  Block& block = program->global_block();

  Var& data(const std::string& name, const Shape& shape, bool stop = true) {
    return block.create_var({.name = name, .shape = shape, .stop_gradient = stop, .is_data = true});
  }
  Var& param(const std::string& name, const Shape& shape) {
    return block.create_parameter({.name = name, .shape = shape}, {});
  }
  Var& op(const std::string& type, const Slots& in, const std::string& out, Attrs attrs = {}) {
    Var& var = block.create_var({.name = out, .has_shape = false});
    block.append_op({type, in, {{"Out", {out}}}, std::move(attrs)});
    return var;
  }
  Var& unary(const std::string& type, const std::string& in, const std::string& out) {
    return op(type, {{"X", {in}}}, out);
  }
  Var& binary(const std::string& type, const std::string& x, const std::string& y,
              const std::string& out) {
    return op(type, {{"X", {x}}, {"Y", {y}}}, out);
  }
  // "mul(X=x Y=w) -> Out=h", without empty slots, from op `from` on.
  std::vector<std::string> text(size_t from) const {
    std::vector<std::string> lines;
    const auto slots = [](const Slots& held) {
      std::vector<std::string> parts;
      for (const auto& [slot, names] : held) {
        if (!names.empty()) parts.push_back(cat(slot, "=", join(names, ",")));
      }
      return join(parts, " ");
    };
    for (size_t i = from; i < block.size(); ++i) {
      const Op& op = block.op(i);
      lines.push_back(cat(op.type(), "(", slots(op.inputs()), ") -> ", slots(op.outputs())));
    }
    return lines;
  }
  std::vector<std::string> role_var(size_t i) const {
    return block.op(i).attr<std::vector<std::string>>("op_role_var");
  }
};

std::vector<std::string> names(const ParamGrads& pairs) {
  std::vector<std::string> all;
  for (const auto& [param, grad] : pairs) all.push_back(cat(param->name(), " ", grad->name()));
  return all;
}

// y = mean(x w + b), as layers build it.
struct Toy : Net {
  Var* loss;
  Toy() {
    data("X", {-1, 1});
    param("fc_0.w_0", {1, 10});
    op("mul", {{"X", {"X"}}, {"Y", {"fc_0.w_0"}}}, "fc_0.tmp_0",
       {{"x_num_col_dims", 1}, {"y_num_col_dims", 1}});
    param("fc_0.b_0", {10});
    op("elementwise_add", {{"X", {"fc_0.tmp_0"}}, {"Y", {"fc_0.b_0"}}}, "fc_0.tmp_1",
       {{"axis", 1}});
    loss = &unary("mean", "fc_0.tmp_1", "mean_0.tmp_0");
  }
};

TEST(AppendBackward, ToyComesOutOpByOp) {
  Toy toy;
  const ParamGrads pairs = append_backward(*toy.loss);
  EXPECT_THAT(
      toy.text(3),
      ElementsAre("fill_constant() -> Out=mean_0.tmp_0@GRAD",
                  "mean_grad(Out@GRAD=mean_0.tmp_0@GRAD X=fc_0.tmp_1) -> X@GRAD=fc_0.tmp_1@GRAD",
                  "elementwise_add_grad(Out@GRAD=fc_0.tmp_1@GRAD X=fc_0.tmp_0 Y=fc_0.b_0) -> "
                  "X@GRAD=fc_0.tmp_0@GRAD Y@GRAD=fc_0.b_0@GRAD",
                  "mul_grad(Out@GRAD=fc_0.tmp_0@GRAD X=X Y=fc_0.w_0) -> Y@GRAD=fc_0.w_0@GRAD"));
  std::vector<int> roles;
  for (const Op* op : toy.block.ops()) roles.push_back(op->role());
  EXPECT_THAT(roles, ElementsAre(0, 0, 256, 257, 1, 1, 1));
  EXPECT_THAT(toy.role_var(4), IsEmpty());
  EXPECT_THAT(toy.role_var(5), ElementsAre("fc_0.b_0", "fc_0.b_0@GRAD"));
  EXPECT_THAT(toy.role_var(6), ElementsAre("fc_0.w_0", "fc_0.w_0@GRAD"));
  EXPECT_THAT(names(pairs), ElementsAre("fc_0.w_0 fc_0.w_0@GRAD", "fc_0.b_0 fc_0.b_0@GRAD"));
}

TEST(AppendBackward, GradientOpsCarryAttributesAndTheUsersLine) {
  Toy toy;
  const SourceLine line{"train.py", 41, "build_net", "h = fc(x)"};
  toy.block.op(1).set_line(line);
  append_backward(*toy.loss);
  const Op& add_grad = toy.block.op(5);
  EXPECT_EQ(add_grad.attr<int>("axis"), 1);
  EXPECT_EQ(add_grad.line().file, "train.py");
  // The slot of the input that stops gradients is there, and empty.
  EXPECT_TRUE(toy.block.op(6).outputs().contains("X@GRAD"));
  const Op& fill = toy.block.op(3);
  EXPECT_EQ(fill.attr<std::vector<int64_t>>("shape"), std::vector<int64_t>{1});
  EXPECT_EQ(fill.attr<float>("value"), 1.0f);
}

TEST(AppendBackward, GradientsHaveTheFactsOfTheirVariables) {
  Toy toy;
  append_backward(*toy.loss);
  EXPECT_EQ(toy.block.var("fc_0.tmp_1@GRAD").shape(), Shape({-1, 10}));
  EXPECT_EQ(toy.block.var("fc_0.w_0@GRAD").shape(), Shape({1, 10}));
  EXPECT_EQ(toy.block.var("fc_0.w_0@GRAD").dtype(), DType::float32);
  EXPECT_FALSE(toy.block.var("fc_0.w_0@GRAD").persistable());
}

TEST(AppendBackward, SeveralWritersAreSummedBeforeTheFirstReader) {
  Net net;
  net.data("x", {4});
  net.param("w", {4});
  net.binary("elementwise_mul", "x", "w", "h");
  net.unary("relu", "h", "a");
  net.unary("relu", "h", "b");
  net.binary("elementwise_add", "a", "b", "c");
  net.binary("elementwise_add", "c", "h", "d");
  Var& loss = net.unary("mean", "d", "loss");
  append_backward(loss);
  EXPECT_THAT(
      net.text(8),
      ElementsAre("elementwise_add_grad(Out@GRAD=d@GRAD X=c Y=h) -> X@GRAD=c@GRAD "
                  "Y@GRAD=h@GRAD@RENAME@block0@0",
                  "elementwise_add_grad(Out@GRAD=c@GRAD X=a Y=b) -> X@GRAD=a@GRAD Y@GRAD=b@GRAD",
                  "relu_grad(Out=b Out@GRAD=b@GRAD) -> X@GRAD=h@GRAD@RENAME@block0@1",
                  "relu_grad(Out=a Out@GRAD=a@GRAD) -> X@GRAD=h@GRAD@RENAME@block0@2",
                  "sum(X=h@GRAD@RENAME@block0@0,h@GRAD@RENAME@block0@1,h@GRAD@RENAME@block0@2) -> "
                  "Out=h@GRAD",
                  "elementwise_mul_grad(Out@GRAD=h@GRAD X=x Y=w) -> Y@GRAD=w@GRAD"));
  EXPECT_EQ(net.block.var("h@GRAD@RENAME@block0@1").shape(), Shape({4}));
}

TEST(AppendBackward, SharedParameterIsSummedAtTheEndByAnOpThatNamesIt) {
  Net net;
  net.data("x", {4});
  net.param("w", {4});
  net.binary("elementwise_mul", "x", "w", "h");
  net.binary("elementwise_mul", "h", "w", "g");
  Var& loss = net.unary("mean", "g", "loss");
  const ParamGrads pairs = append_backward(loss);
  const size_t last = net.block.size() - 1;
  EXPECT_EQ(net.text(last)[0],
            "sum(X=w@GRAD@RENAME@block0@0,w@GRAD@RENAME@block0@1) -> Out=w@GRAD");
  EXPECT_EQ(net.block.op(last).role(), 1);
  EXPECT_THAT(net.role_var(last), ElementsAre("w", "w@GRAD"));
  EXPECT_THAT(names(pairs), ElementsAre("w w@GRAD"));
}

TEST(AppendBackward, OneOpMayWriteOneGradientTwice) {
  Net net;
  net.param("w", {4});
  net.binary("elementwise_mul", "w", "w", "h");
  Var& loss = net.unary("mean", "h", "loss");
  append_backward(loss);
  EXPECT_THAT(net.text(4),
              ElementsAre("elementwise_mul_grad(Out@GRAD=h@GRAD X=w Y=w) -> "
                          "X@GRAD=w@GRAD@RENAME@block0@0 Y@GRAD=w@GRAD@RENAME@block0@1",
                          "sum(X=w@GRAD@RENAME@block0@0,w@GRAD@RENAME@block0@1) -> Out=w@GRAD"));
}

TEST(AppendBackward, UnusedOutputsGetZeroGradients) {
  Net net;
  net.param("w", {4, 2});
  net.block.create_var({.name = "a", .has_shape = false});
  net.block.create_var({.name = "b", .has_shape = false});
  net.block.append_op({"split", {{"X", {"w"}}}, {{"Out", {"a", "b"}}}, {{"num", 2}, {"axis", 0}}});
  Var& loss = net.unary("mean", "b", "loss");
  append_backward(loss);
  EXPECT_THAT(net.text(4)[0], "fill_zeros_like(X=a) -> Out=a@GRAD");
  EXPECT_THAT(net.text(5)[0], HasSubstr("a@GRAD,b@GRAD"));
  EXPECT_EQ(net.block.var("a@GRAD").shape(), Shape({2, 2}));
}

TEST(AppendBackward, SparseTablesGetSelectedRows) {
  Net net;
  net.block.create_var(
      {.name = "ids", .dtype = DType::int64, .shape = {-1, 1}, .stop_gradient = true});
  net.param("table", {100, 8});
  net.op("lookup_table", {{"W", {"table"}}, {"Ids", {"ids"}}}, "rows", {{"is_sparse", true}});
  Var& loss = net.unary("mean", "rows", "loss");
  append_backward(loss);
  EXPECT_EQ(net.block.var("table@GRAD").type(), VarType::selected_rows);
  EXPECT_EQ(net.block.var("table@GRAD").shape(), Shape({100, 8}));
}

TEST(AppendBackward, NoGradNamesCutTheWay) {
  Toy toy;
  const ParamGrads pairs = append_backward(*toy.loss, {.no_grad = {"fc_0.tmp_0"}});
  EXPECT_THAT(names(pairs), ElementsAre("fc_0.b_0 fc_0.b_0@GRAD"));
  EXPECT_EQ(toy.block.op(toy.block.size() - 1).type(), "elementwise_add_grad");
  EXPECT_THAT(toy.block.op(toy.block.size() - 1).output("X@GRAD"), IsEmpty());
}

TEST(AppendBackward, StoppedLossGivesNoPairs) {
  Toy toy;
  toy.loss->set_stop_gradient(true);
  toy.block.var("fc_0.tmp_1").set_stop_gradient(true);
  EXPECT_THAT(append_backward(*toy.loss), IsEmpty());
}

TEST(AppendBackward, ParameterListChoosesPairs) {
  Toy toy;
  const ParamGrads pairs =
      append_backward(*toy.loss, {.parameter_list = {"fc_0.b_0"}, .only_listed = true});
  EXPECT_THAT(names(pairs), ElementsAre("fc_0.b_0 fc_0.b_0@GRAD"));
  EXPECT_THAT(toy.role_var(6), IsEmpty());
}

TEST(AppendBackward, FrozenParametersAreLeftOut) {
  Toy toy;
  toy.block.var("fc_0.w_0").edit_parameter().trainable = false;
  toy.block.var("fc_0.w_0").set_stop_gradient(true);
  EXPECT_THAT(names(append_backward(*toy.loss)), ElementsAre("fc_0.b_0 fc_0.b_0@GRAD"));
  EXPECT_EQ(toy.block.op(toy.block.size() - 1).type(), "elementwise_add_grad");
}

TEST(AppendBackward, SecondBackwardPrefixesItsGradients) {
  Toy toy;
  append_backward(*toy.loss);
  const size_t first = toy.block.size();
  Var& twice = toy.op("scale", {{"X", {"mean_0.tmp_0"}}}, "twice", {{"scale", 2.0f}});
  const ParamGrads pairs = append_backward(twice);
  EXPECT_THAT(names(pairs),
              ElementsAre("fc_0.w_0 grad/grad/fc_0.w_0@GRAD", "fc_0.b_0 grad/grad/fc_0.b_0@GRAD"));
  EXPECT_THAT(toy.text(first + 1)[0], HasSubstr("fill_constant() -> Out=twice@GRAD"));
  EXPECT_EQ(toy.text(first + 2)[0], "scale(X=twice@GRAD) -> Out=grad/grad/mean_0.tmp_0@GRAD");
  EXPECT_EQ(toy.block.var("grad/grad/fc_0.w_0@GRAD").shape(), Shape({1, 10}));
}

TEST(AppendBackward, SameLossTwiceDoesNotOverwriteTheFirst) {
  Toy toy;
  append_backward(*toy.loss);
  const size_t first = toy.block.size();
  append_backward(*toy.loss);
  EXPECT_EQ(toy.text(first)[0], "fill_constant() -> Out=grad/grad/mean_0.tmp_0@GRAD");
}

TEST(AppendBackward, CallbacksSeeEachOpAndAddToTheBackwardPart) {
  Toy toy;
  std::vector<std::string> seen;
  const auto callback = [&](Block& block, Op& op) {
    seen.push_back(op.type());
    if (op.type() == "mean_grad") {
      block.append_op({"scale",
                       {{"X", {"fc_0.tmp_1@GRAD"}}},
                       {{"Out", {"fc_0.tmp_1@GRAD"}}},
                       {{"scale", 0.5f}}});
    }
  };
  append_backward(*toy.loss, {.callbacks = {callback}});
  EXPECT_THAT(seen, ElementsAre("fill_constant", "mean_grad", "elementwise_add_grad", "mul_grad"));
  EXPECT_EQ(toy.block.op(5).type(), "scale");
  EXPECT_EQ(toy.block.op(5).role(), 1);
  EXPECT_EQ(toy.program->role, 0);
}

std::string backward_error(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(AppendBackward, LossMustHaveOneElementAndAnOp) {
  Toy toy;
  EXPECT_THAT(backward_error([&] { append_backward(toy.block.var("fc_0.w_0")); }),
              HasSubstr("has shape [1, 10]; it must have one element"));
  Var& fed = toy.data("fed", {1});
  EXPECT_THAT(backward_error([&] { append_backward(fed); }),
              HasSubstr("no op computes the loss fed"));
}

TEST(AppendBackward, AGradientThatHasNoneIsAClearError) {
  Net net;
  net.param("w", {1, 2, 4, 4});
  for (const char* name : {"h", "sums"}) net.block.create_var({.name = name, .has_shape = false});
  net.block.append_op({"lrn", {{"X", {"w"}}}, {{"Out", {"h"}}, {"MidOut", {"sums"}}}});
  Var& loss = net.unary("mean", "h", "loss");
  append_backward(loss);
  Var& second = net.unary("mean", "w@GRAD", "second");
  const std::string what = backward_error([&] { append_backward(second); });
  EXPECT_THAT(what, HasSubstr("there is no gradient of lrn_grad yet"));
}

TEST(Gradients, SeedsWithOnesAndReturnsNullWhereUnreachable) {
  Net net;
  Var& x = net.data("x", {-1, 4}, false);
  Var& other = net.data("other", {4}, false);
  Var& y = net.unary("relu", "x", "y");
  const std::vector<Var*> found = gradients({&y}, {&x, &other});
  EXPECT_THAT(net.text(1), ElementsAre("shape(Input=y) -> Out=y_shape",
                                       "fill_constant(ShapeTensor=y_shape) -> Out=y@GRAD",
                                       "relu_grad(Out=y Out@GRAD=y@GRAD) -> X@GRAD=x@GRAD"));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]->name(), "x@GRAD");
  EXPECT_EQ(found[0]->shape(), Shape({-1, 4}));
  EXPECT_EQ(found[1], nullptr);
}

TEST(Gradients, GivenGradientIsReadInstead) {
  Net net;
  Var& x = net.data("x", {-1, 4}, false);
  Var& y = net.unary("relu", "x", "y");
  Var& g = net.data("g", {-1, 4});
  gradients({&y}, {&x}, {&g});
  EXPECT_THAT(net.text(1), ElementsAre("relu_grad(Out=y Out@GRAD=g) -> X@GRAD=x@GRAD"));
}

TEST(Gradients, TargetsThatFeedEachOtherAddUp) {
  Net net;
  Var& x = net.data("x", {4}, false);
  Var& y = net.unary("relu", "x", "y");
  Var& z = net.unary("relu", "y", "z");
  gradients({&y, &z}, {&x});
  EXPECT_THAT(net.text(2),
              IsSupersetOf({"sum(X=y@GRAD@RENAME@block0@0,y@GRAD@RENAME@block0@1) -> Out=y@GRAD",
                            "relu_grad(Out=y Out@GRAD=y@GRAD) -> X@GRAD=x@GRAD"}));
}

TEST(Gradients, WrongShapeOfAGivenGradientIsAnError) {
  Net net;
  Var& x = net.data("x", {4}, false);
  Var& y = net.unary("relu", "x", "y");
  Var& g = net.data("g", {5});
  EXPECT_THAT(backward_error([&] { gradients({&y}, {&x}, {&g}); }), HasSubstr("g [5]"));
}

// x -> h1 -> c1 -> h2 -> c2 -> loss, checkpoints c1 and c2.
struct Deep : Net {
  Var* loss;
  Deep() {
    data("x", {4});
    param("w1", {4});
    param("w2", {4});
    binary("elementwise_mul", "x", "w1", "h1");
    unary("relu", "h1", "c1");
    binary("elementwise_mul", "c1", "w2", "h2");
    unary("tanh", "h2", "c2");
    loss = &unary("mean", "c2", "loss");
  }
};

TEST(Recompute, SegmentsAreRepeatedBeforeTheirGradients) {
  Deep net;
  const ParamGrads pairs = append_backward(*net.loss, {.checkpoints = {"c1", "c2"}});
  EXPECT_THAT(
      net.text(6),
      ElementsAre(
          "mean_grad(Out@GRAD=loss@GRAD X=c2) -> X@GRAD=c2@GRAD",
          "elementwise_mul(X=c1 Y=w2) -> Out=h2.subprog_0",
          "tanh_grad(Out=c2 Out@GRAD=c2@GRAD) -> X@GRAD=h2@GRAD",
          "elementwise_mul_grad(Out@GRAD=h2@GRAD X=c1 Y=w2) -> X@GRAD=c1@GRAD Y@GRAD=w2@GRAD",
          "elementwise_mul(X=x Y=w1) -> Out=h1.subprog_1",
          "relu_grad(Out=c1 Out@GRAD=c1@GRAD) -> X@GRAD=h1@GRAD",
          "elementwise_mul_grad(Out@GRAD=h1@GRAD X=x Y=w1) -> Y@GRAD=w1@GRAD"));
  EXPECT_EQ(net.block.op(7).role(), 1);
  EXPECT_EQ(net.block.op(7).attr<std::string>("recompute_suffix"), ".subprog_0");
  EXPECT_THAT(names(pairs), ElementsAre("w1 w1@GRAD", "w2 w2@GRAD"));
}

TEST(Recompute, GradientsReadTheRepeatedValues) {
  Net net;
  net.data("x", {4});
  net.param("w", {4});
  net.binary("elementwise_mul", "x", "w", "h");
  net.unary("tanh", "h", "t");
  net.unary("relu", "t", "c");
  Var& loss = net.unary("mean", "c", "loss");
  append_backward(loss, {.checkpoints = {"c"}});
  EXPECT_THAT(net.text(5),
              IsSupersetOf({"tanh(X=h.subprog_0) -> Out=t.subprog_0",
                            "tanh_grad(Out=t.subprog_0 Out@GRAD=t@GRAD) -> X@GRAD=h@GRAD"}));
}

TEST(Recompute, UnknownCheckpointIsNamed) {
  Deep net;
  EXPECT_THAT(backward_error([&] { append_backward(*net.loss, {.checkpoints = {"nowhere"}}); }),
              HasSubstr("checkpoint nowhere is not a variable of the program"));
}

}  // namespace
}  // namespace trireme
