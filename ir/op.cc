// Operators of a program: slots, attributes, and the context their errors carry.
#include <algorithm>

#include "core/lookups.h"
#include "core/text.h"
#include "ir/program.h"

namespace trireme {
namespace {

const std::vector<std::string>& slot_names(const Slots& slots, std::string_view slot) {
  static const std::vector<std::string> none;
  count_name_lookup();
  const auto found = slots.find(slot);
  return found == slots.end() ? none : found->second;
}

std::vector<std::string> all_names(const Slots& slots) {
  std::vector<std::string> names;
  for (const auto& [slot, held] : slots) names.insert(names.end(), held.begin(), held.end());
  return names;
}

void rename(Slots& slots, std::string_view from, const std::string& to) {
  for (auto& [slot, names] : slots) std::replace(names.begin(), names.end(), std::string(from), to);
}

void put(Slots& slots, std::string_view slot, std::vector<std::string> names) {
  slots.insert_or_assign(std::string(slot), std::move(names));
}

template <class Map>
void erase_key(Map& map, std::string_view key) {
  const auto found = map.find(key);
  if (found != map.end()) map.erase(found);
}

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

// One line per input: slot, name, what is known of it. An op may have thousands; a few say enough.
void add_operands(Error& error, const Op& op) {
  constexpr size_t kShown = 16;
  std::vector<std::pair<std::string, std::string>> operands;
  for (const auto& [slot, names] : op.inputs()) {
    for (const std::string& name : names) operands.emplace_back(slot, name);
  }
  const size_t shown = std::min(operands.size(), kShown);
  size_t slot_width = 0, name_width = 0;
  for (size_t i = 0; i < shown; ++i) {
    slot_width = std::max(slot_width, operands[i].first.size());
    name_width = std::max(name_width, operands[i].second.size());
  }
  for (size_t i = 0; i < shown; ++i) {
    const auto& [slot, name] = operands[i];
    const Var* var = op.block().find_var_recursive(name);
    error.operand(cat(padded(slot, slot_width), "   ", padded(name, name_width), "   ",
                      var ? var->describe() : "(no such variable)"));
  }
  if (shown < operands.size()) error.operand(cat("and ", operands.size() - shown, " more"));
}

// The user's frame in the Python stack that a model file brought along; empty when there is none.
// Frames take two entries, the outermost first: where it is, and the text of the line.
std::string frame_from_file(const Op& op) {
  const Attribute* stack = op.find_attr("op_callstack");
  const auto* frames = stack ? std::get_if<std::vector<std::string>>(stack) : nullptr;
  if (!frames) return {};
  std::string found;
  for (const std::string& entry : *frames) {
    const size_t text = entry.find_first_not_of(" \t");
    if (text == std::string::npos || entry.compare(text, 6, "File \"") != 0) continue;
    const bool inside = entry.find("/paddle/") != std::string::npos;
    if (!inside || found.empty()) found = entry.substr(text);
  }
  return found;
}

}  // namespace

Op::Op(Block& block, OpSpec spec, SourceLine line)
    : block_(&block),
      type_(std::move(spec.type)),
      inputs_(std::move(spec.inputs)),
      outputs_(std::move(spec.outputs)),
      attrs_(std::move(spec.attrs)),
      line_(std::move(line)) {}

const std::vector<std::string>& Op::input(std::string_view slot) const {
  return slot_names(inputs_, slot);
}
const std::vector<std::string>& Op::output(std::string_view slot) const {
  return slot_names(outputs_, slot);
}
std::vector<std::string> Op::input_names() const { return all_names(inputs_); }
std::vector<std::string> Op::output_names() const { return all_names(outputs_); }

const Attribute* Op::find_attr(std::string_view name) const {
  count_name_lookup();
  const auto found = attrs_.find(name);
  return found == attrs_.end() ? nullptr : &found->second;
}

Block* Op::sub_block() const {
  const Attribute* value = find_attr("sub_block");
  const BlockRef* ref = value ? std::get_if<BlockRef>(value) : nullptr;
  return ref ? &block_->program().block(ref->index) : nullptr;
}

void Op::set_type(std::string type) {
  type_ = std::move(type);
  block_->program().touch();
}

void Op::set_input(std::string_view slot, std::vector<std::string> names) {
  put(inputs_, slot, std::move(names));
  block_->program().touch();
}

void Op::set_output(std::string_view slot, std::vector<std::string> names) {
  put(outputs_, slot, std::move(names));
  block_->program().touch();
}

void Op::remove_input(std::string_view slot) {
  erase_key(inputs_, slot);
  block_->program().touch();
}

void Op::remove_output(std::string_view slot) {
  erase_key(outputs_, slot);
  block_->program().touch();
}

void Op::set_attr(std::string_view name, Attribute value) {
  attrs_.insert_or_assign(std::string(name), std::move(value));
  block_->program().touch();
}

void Op::remove_attr(std::string_view name) {
  erase_key(attrs_, name);
  block_->program().touch();
}

void Op::rename_input(std::string_view from, const std::string& to) {
  rename(inputs_, from, to);
  block_->program().touch();
}

void Op::rename_output(std::string_view from, const std::string& to) {
  rename(outputs_, from, to);
  block_->program().touch();
}

int Op::index() const {
  for (size_t i = 0; i < block_->size(); ++i) {
    if (&block_->op(i) == this) return static_cast<int>(i);
  }
  return -1;
}

Error Op::no_attr(std::string_view name) const {
  return Error(ErrorKind::not_found, cat("there is no attribute ", name)).in(type_).at(line_);
}

Error& add_op_context(Error& error, const Op& op) {
  const bool innermost = !error.has_op();  // an op of a sub-block speaks before the op around it
  error.in(op.type());
  if (innermost) add_operands(error, op);
  error.at(op.line());
  if (innermost && !op.line().known()) {
    const std::string frame = frame_from_file(op);
    if (!frame.empty()) error.note("the model file says it was made at " + frame);
  }
  return error;
}

}  // namespace trireme
