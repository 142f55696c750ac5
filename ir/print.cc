// The readable form of programs, as 2.4 prints them.
#include "core/text.h"
#include "ir/program.h"
#include "ir/python_text.h"

namespace trireme {
namespace {

std::string slots_text(const Slots& slots) {
  std::vector<std::string> parts;
  for (const auto& [slot, names] : slots) parts.push_back(cat(slot, "=", python_text(names)));
  return "{" + join(parts) + "}";
}

}  // namespace

std::string to_text(const Var& var) {
  std::string text = var.persistable() ? "persist " : "";
  if (!var.is_parameter()) {
    text += "var ";
  } else {
    text += var.parameter()->trainable ? "trainable param " : "param ";
  }
  text += cat(var.name(), " : ", name_of(var.type()));
  if (var.type() != VarType::lod_tensor && var.type() != VarType::selected_rows) {
    return text + ")";  // the original closes a parenthesis that it never opened
  }
  return cat(text, ".shape", python_tuple(var.shape().to_vector()), ".dtype(", name_of(var.dtype()),
             ").stop_gradient(", python_text(var.stop_gradient()), ")");
}

std::string to_text(const Op& op) {
  std::vector<std::string> attrs;
  for (const auto& [name, value] : op.attrs()) {
    if (name != "op_callstack") attrs.push_back(cat(name, " = ", to_string(value)));
  }
  const std::string call =
      cat(op.type(), "(inputs=", slots_text(op.inputs()), ", ", join(attrs), ")");
  return op.outputs().empty() ? call : cat(slots_text(op.outputs()), " = ", call);
}

std::string to_text(const Block& block) {
  std::string text = cat("{ // block ", block.index(), "\n");
  for (const Var* var : block.vars()) text += cat("    ", to_text(*var), "\n");
  text += "\n";
  for (const Op* op : block.ops()) text += cat("    ", to_text(*op), "\n");
  return text + "}";
}

std::string to_text(const Program& program) {
  std::string text;
  for (size_t i = 0; i < program.num_blocks(); ++i) {
    text += to_text(program.block(static_cast<int>(i))) + "\n";
  }
  return text;
}

}  // namespace trireme
