// Binds operands to the scope's variables and runs.
#include "tests/support/scope_runner.h"

#include "ir/schema.h"
#include "runtime/executor.h"
#include "tests/support/op_record.h"

namespace trireme::testing {

void ScopeRunner::set(const std::string& name, Tensor tensor) {
  scope_->var(name).clear();
  scope_->var(name).tensor() = std::move(tensor);
}

void ScopeRunner::set(const std::string& name, SelectedRows rows) {
  scope_->var(name).clear();
  scope_->var(name).rows() = std::move(rows);
}

void ScopeRunner::run(const std::string& type, const std::map<std::string, std::string>& inputs,
                      const std::map<std::string, std::string>& outputs, const Attrs& attrs) {
  const std::shared_ptr<Program> program = Program::create();
  Block& block = program->global_block();
  OpSpec spec{.type = type, .inputs = {}, .outputs = {}, .attrs = attrs};
  for (const auto& [slot, name] : inputs) {
    spec.inputs[slot] = {name};
    if (block.find_var(name)) continue;
    const Variable& value = scope_->var(name);
    const bool sparse = value.kind() == Kind::rows;
    const Tensor& tensor = sparse ? value.rows().value : value.tensor();
    Shape shape = tensor.shape();
    if (sparse) shape[0] = value.rows().height;
    block.create_var({.name = name,
                      .type = sparse ? VarType::selected_rows : VarType::lod_tensor,
                      .dtype = tensor.dtype(),
                      .shape = shape,
                      .lod_level = static_cast<int>(tensor.lod().size()),
                      .persistable = true});
  }
  for (const auto& [slot, name] : outputs) {
    spec.outputs[slot] = {name};
    if (!block.find_var(name)) {
      block.create_var({.name = name, .persistable = true, .has_shape = false});
    }
  }
  block.append_op(spec);
  Executor executor;
  executor.run(*program, {}, {}, {.scope = scope_.get()});
  for (const auto& [slot, name] : outputs) note_result(*program, name, *scope_->find(name));
}

const Tensor& ScopeRunner::tensor(const std::string& name) const {
  return std::as_const(*scope_->find(name)).tensor();
}

const SelectedRows& ScopeRunner::rows(const std::string& name) const {
  return std::as_const(*scope_->find(name)).rows();
}

}  // namespace trireme::testing
