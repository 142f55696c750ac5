// Walks a program and writes what is in it.
#include "ir/program_json.h"

#include "ir/schema.h"

namespace trireme {

int LineTable::number(const SourceLine& line) {
  if (!line.known()) return -1;
  const auto [found, is_new] =
      numbers_.try_emplace({line.file, line.line, line.function}, static_cast<int>(lines_.size()));
  if (is_new) lines_.push_back(line);
  return found->second;
}

void LineTable::write(JsonWriter& out) const {
  out.array();
  for (const SourceLine& line : lines_) {
    out.object().field("file", line.file).field("line", line.line);
    out.field("function", line.function).field("text", line.text).end_object();
  }
  out.end_array();
}

void write_shape(JsonWriter& out, const Shape& shape) {
  out.array();
  for (int i = 0; i < shape.rank(); ++i) {
    out.value(shape[i].known() ? shape.at(i) : int64_t{-1});
  }
  out.end_array();
}

void write_attrs(JsonWriter& out, const Attrs& attrs) {
  out.object();
  for (const auto& [name, value] : attrs) {
    if (name == "op_callstack") continue;  // the line says it
    out.field(name, to_string(value));
  }
  out.end_object();
}

namespace {

void write_slots(JsonWriter& out, const Slots& slots) {
  out.object();
  for (const auto& [slot, names] : slots) {
    if (!names.empty()) out.list(slot, names);
  }
  out.end_object();
}

void write_var(JsonWriter& out, const Var& var) {
  out.object().field("name", var.name()).field("type", name_of(var.type()));
  if (var.has_shape()) {
    out.field("dtype", name_of(var.dtype())).key("shape");
    write_shape(out, var.shape());
  }
  if (var.lod_level() > 0) out.field("lod_level", var.lod_level());
  if (var.persistable()) out.field("persistable", true);
  if (var.is_parameter()) out.field("parameter", true);
  if (var.is_data()) out.field("data", true);
  out.end_object();
}

void write_op(JsonWriter& out, const Op& op, LineTable& lines) {
  out.object().field("type", op.type()).key("inputs");
  write_slots(out, op.inputs());
  out.key("outputs");
  write_slots(out, op.outputs());
  out.key("attrs");
  write_attrs(out, op.attrs());
  out.field("role", op.role()).field("scope", op.attr_or<std::string>("op_namescope", "/"));
  out.field("line", lines.number(op.line()));
  if (const Block* inner = op.sub_block()) out.field("block", inner->index());
  out.end_object();
}

}  // namespace

void write_json(JsonWriter& out, const Program& program, LineTable& lines) {
  out.object().field("version", program.version()).key("blocks").array();
  for (size_t b = 0; b < program.num_blocks(); ++b) {
    const Block& block = program.block(static_cast<int>(b));
    out.object().field("index", block.index()).field("parent", block.parent_index());
    out.key("vars").array();
    for (const Var* var : block.vars()) write_var(out, *var);
    out.end_array().key("ops").array();
    for (const Op* op : block.ops()) write_op(out, *op, lines);
    out.end_array().end_object();
  }
  out.end_array().end_object();
}

}  // namespace trireme
