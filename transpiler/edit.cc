// Inserts, removes and finds ops, and adds variables.
#include "transpiler/edit.h"

#include <algorithm>
#include <set>

#include "core/text.h"
#include "ir/schema.h"

namespace trireme {

Op& insert_filled(Block& block, size_t index, OpSpec spec, int role, const SourceLine& line) {
  spec.attrs.try_emplace("op_role", int32_t{role});
  spec.attrs.try_emplace("op_role_var", std::vector<std::string>{});
  spec.attrs.try_emplace("op_namescope", std::string("/"));
  spec.attrs.try_emplace("op_device", std::string());
  check_and_fill(op_table().get(spec.type), spec);
  return block.insert_raw_op(index, std::move(spec), line);
}

Op& append_filled(Block& block, OpSpec spec, int role, const SourceLine& line) {
  return insert_filled(block, block.size(), std::move(spec), role, line);
}

void remove_ops(Block& block, const std::vector<const Op*>& ops) {
  const std::set<const Op*> gone(ops.begin(), ops.end());
  for (size_t i = block.size(); i-- > 0;) {
    if (gone.contains(&block.op(i))) block.remove_ops(i, i + 1);
  }
}

int find_writer(const Block& block, const std::string& name) {
  for (size_t i = block.size(); i-- > 0;) {
    const auto writes = block.op(i).output_names();
    if (std::ranges::find(writes, name) != writes.end()) return static_cast<int>(i);
  }
  return -1;
}

Var& clone_var(Block& to, const Var& var, const std::string& name, const Shape* shape) {
  VarSpec spec = var.spec();
  if (!name.empty()) spec.name = name;
  if (shape) spec.shape = *shape;
  if (Var* held = to.find_var(spec.name)) return *held;
  return to.create_var(std::move(spec));
}

std::string add_control_var(Block& block) {
  int next = 0;
  while (block.find_var(cat("__control_var@", next))) ++next;
  return block.create_var({.name = cat("__control_var@", next), .has_shape = false}).name();
}

}  // namespace trireme
