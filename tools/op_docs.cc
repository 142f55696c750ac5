// Prints docs/ops.md: every operator of the op table with its slots, attributes and gradient.
//
//     op_docs > docs/ops.md
#include <array>
#include <charconv>
#include <iostream>
#include <string>
#include <string_view>

#include "core/text.h"
#include "ir/schema.h"

namespace trireme {
namespace {

// Text that may stand in a cell of a table.
std::string cell(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '|') safe += '\\';
    safe += c == '\n' ? ' ' : c;
  }
  return safe;
}

std::string marks(const SlotSpec& slot) {
  std::vector<std::string> words;
  if (slot.duplicable) words.push_back("list");
  if (slot.dispensable) words.push_back("optional");
  if (slot.intermediate) words.push_back("intermediate");
  if (slot.no_grad) words.push_back("no gradient");
  return words.empty() ? "" : cat(" (", join(words), ")");
}

void print_slots(const char* title, const std::vector<SlotSpec>& slots) {
  if (slots.empty()) return;
  std::cout << "\n| " << title << " | |\n|---|---|\n";
  for (const SlotSpec& slot : slots) {
    std::cout << "| `" << slot.name << "`" << marks(slot) << " | " << cell(slot.doc) << " |\n";
  }
}

// A float as it was written: 0.95, not the double nearest to it.
std::string default_of(const AttrSpec& attr) {
  if (!attr.fallback) return "required";
  const float* number = std::get_if<float>(&*attr.fallback);
  if (!number) return cat("`", cell(to_string(*attr.fallback)), "`");
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), *number).ptr;
  return cat("`", std::string_view(text.data(), end), "`");
}

void print_attributes(const std::vector<AttrSpec>& attributes) {
  if (attributes.empty()) return;
  std::cout << "\n| attribute | type | default | |\n|---|---|---|---|\n";
  for (const AttrSpec& attr : attributes) {
    std::cout << "| `" << attr.name << "` | " << name_of(attr.type) << " | " << default_of(attr)
              << " | " << cell(attr.doc) << " |\n";
  }
}

std::string gradient_of(const OpSchema& row) {
  if (!row.differentiable()) return "none";
  const OpSchema* grad = op_table().find(row.grad_op_type());
  if (!grad || (grad->forward() && grad->forward() != &row)) return "by other operators";
  std::vector<std::string> in, out;
  for (const SlotSpec& slot : grad->inputs()) in.push_back(slot.name);
  for (const SlotSpec& slot : grad->outputs()) out.push_back(slot.name);
  return cat("`", grad->type(), "`: ", join(in), " → ", join(out));
}

void print_row(const OpSchema& row) {
  std::cout << "\n## " << row.type() << "\n";
  if (row.trait().cannot_run) std::cout << "\nCannot run yet.\n";
  if (!row.documentation().empty()) std::cout << "\n" << row.documentation() << "\n";
  print_slots("input", row.inputs());
  print_slots("output", row.outputs());
  print_attributes(row.attributes());
  std::cout << "\nGradient: " << gradient_of(row) << ".\n";
}

void print_table() {
  std::vector<const OpSchema*> rows;
  size_t running = 0;
  for (const OpSchema* row : op_table().rows()) {
    if (row->trait().primitive || row->is_gradient()) continue;
    rows.push_back(row);
    if (!row->trait().cannot_run) ++running;
  }
  std::cout
      << "# Operators\n\nThe op table defines " << running << " operators that run and "
      << rows.size() - running
      << " more that programs may hold but that cannot run:\ncompressed gradients, communicators "
         "of "
         "one process. "
         "Every operator also takes `op_role`, `op_role_var`, `op_namescope`, `op_callstack` and\n"
         "`op_device`. Gradient operators are listed with the operator they belong to.\n";
  for (const OpSchema* row : rows) print_row(*row);
}

}  // namespace
}  // namespace trireme

int main() {
  trireme::print_table();
  return std::cout.good() ? 0 : 1;
}
