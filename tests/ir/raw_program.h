// Short ways to put ops and variables into programs without asking the op table.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace trireme::testing {

inline Op& raw(Block& block, std::string type, Slots inputs, Slots outputs, Attrs attrs = {}) {
  return block.insert_raw_op(
      block.size(), {std::move(type), std::move(inputs), std::move(outputs), std::move(attrs)});
}

inline Op& raw(Block& block, std::string type, Slots inputs, Slots outputs, int role) {
  return raw(block, std::move(type), std::move(inputs), std::move(outputs),
             Attrs{{"op_role", int32_t{role}}});
}

inline Var& tensor(Block& block, const std::string& name, const Shape& shape = {-1, 4}) {
  return block.create_var({.name = name, .shape = shape});
}

inline Var& weight(Block& block, const std::string& name, const Shape& shape = {4, 4}) {
  return block.create_parameter({.name = name, .shape = shape}, {});
}

inline std::vector<std::string> op_types(const Block& block) {
  std::vector<std::string> types;
  for (const Op* op : block.ops()) types.push_back(op->type());
  return types;
}

inline std::vector<std::string> var_names(const Block& block) {
  std::vector<std::string> names;
  for (const Var* var : block.vars()) names.push_back(var->name());
  return names;
}

// data X -> fc -> mean, trained by sgd: the ops, roles and variables of the smallest program.
inline std::shared_ptr<Program> toy_training() {
  using namespace op_role;
  std::shared_ptr<Program> program = Program::create();
  Block& block = program->global_block();
  block.create_var({.name = "X", .shape = {-1, 4}, .stop_gradient = true, .is_data = true});
  weight(block, "w");
  tensor(block, "h");
  tensor(block, "loss", {1});
  tensor(block, "loss@GRAD", {1});
  tensor(block, "h@GRAD");
  tensor(block, "w@GRAD", {4, 4});
  block.create_var({.name = "lr", .shape = {1}, .persistable = true});
  raw(block, "mul", {{"X", {"X"}}, {"Y", {"w"}}}, {{"Out", {"h"}}}, kForward);
  raw(block, "dropout", {{"X", {"h"}}}, {{"Out", {"h"}}}, {{"is_test", false}});
  raw(block, "mean", {{"X", {"h"}}}, {{"Out", {"loss"}}}, kForward | kLoss);
  raw(block, "fill_constant", {}, {{"Out", {"loss@GRAD"}}}, kBackward | kLoss);
  raw(block, "mean_grad", {{"Out@GRAD", {"loss@GRAD"}}, {"X", {"h"}}}, {{"X@GRAD", {"h@GRAD"}}},
      kBackward);
  raw(block, "mul_grad", {{"Out@GRAD", {"h@GRAD"}}, {"X", {"X"}}, {"Y", {"w"}}},
      {{"X@GRAD", {}}, {"Y@GRAD", {"w@GRAD"}}}, kBackward);
  raw(block, "sgd", {{"Param", {"w"}}, {"Grad", {"w@GRAD"}}, {"LearningRate", {"lr"}}},
      {{"ParamOut", {"w"}}}, kOptimize);
  return program;
}

}  // namespace trireme::testing
