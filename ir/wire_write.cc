// Writes programs as the wire's messages, in one form: equal programs give equal bytes.
//
// Slots and attributes go by name, variables in order of creation. persistable and lod_level are
// always written, as the original's layers do; is_target, need_check_feed, is_parameter,
// stop_gradient and a forward block only when set. A tensor always states its element type, since
// the original's readers demand it, and its dims only when it has a shape.
#include <algorithm>

#include "ir/wire.h"

namespace trireme {
namespace {

template <class From, class To>
void append(const From& from, To* to) {
  for (const auto& item : from) *to->Add() = item;
}

void append(const std::vector<bool>& from, google::protobuf::RepeatedField<bool>* to) {
  for (const bool item : from) to->Add(item);
}

// One call per type of attribute.
struct WriteAttr {
  wire::OpDesc::Attr& to;

  void operator()(int32_t value) const { to.set_i(value); }
  void operator()(float value) const { to.set_f(value); }
  void operator()(const std::string& value) const { to.set_s(value); }
  void operator()(const std::vector<int32_t>& value) const { append(value, to.mutable_ints()); }
  void operator()(const std::vector<float>& value) const { append(value, to.mutable_floats()); }
  void operator()(const std::vector<std::string>& value) const {
    append(value, to.mutable_strings());
  }
  void operator()(bool value) const { to.set_b(value); }
  void operator()(const std::vector<bool>& value) const { append(value, to.mutable_bools()); }
  void operator()(const BlockRef& value) const { to.set_block_idx(value.index); }
  void operator()(int64_t value) const { to.set_l(value); }
  void operator()(const BlockRefs& value) const { append(value.indices, to.mutable_blocks_idx()); }
  void operator()(const std::vector<int64_t>& value) const { append(value, to.mutable_longs()); }
  void operator()(const std::vector<double>& value) const { append(value, to.mutable_float64s()); }
  void operator()(const VarRef& value) const { to.set_var_name(value.name); }
  void operator()(const VarRefs& value) const { append(value.names, to.mutable_vars_name()); }
  void operator()(double value) const { to.set_float64(value); }
};

void write_tensor(DType dtype, const Shape& shape, wire::VarType::TensorDesc& to) {
  to.set_data_type(static_cast<wire::VarType::Type>(dtype));
  for (const Dim dim : shape) to.add_dims(dim.value());
}

void write_slots(const Slots& slots, google::protobuf::RepeatedPtrField<wire::OpDesc::Var>* to) {
  for (const auto& [slot, names] : slots) {
    wire::OpDesc::Var& var = *to->Add();
    var.set_parameter(slot);
    append(names, var.mutable_arguments());
  }
}

}  // namespace

void write(const Var& var, wire::VarDesc& to) {
  to.set_name(var.name());
  wire::VarType& type = *to.mutable_type();
  type.set_type(static_cast<wire::VarType::Type>(var.type()));
  const Shape shape = var.has_shape() ? var.shape() : Shape();
  switch (var.type()) {
    case VarType::lod_tensor:
      write_tensor(var.dtype(), shape, *type.mutable_lod_tensor()->mutable_tensor());
      type.mutable_lod_tensor()->set_lod_level(var.lod_level());
      break;
    case VarType::selected_rows:
      write_tensor(var.dtype(), shape, *type.mutable_selected_rows());
      break;
    case VarType::lod_tensor_array:
      write_tensor(var.dtype(), shape, *type.mutable_tensor_array()->mutable_tensor());
      type.mutable_tensor_array()->set_lod_level(var.lod_level());
      break;
    case VarType::reader:
      type.mutable_reader();
      for (size_t i = 0; i < var.reader_slots.size(); ++i) {
        wire::VarType::LoDTensorDesc& slot = *type.mutable_reader()->add_lod_tensor();
        write_tensor(var.reader_slots[i].first, var.reader_slots[i].second, *slot.mutable_tensor());
        slot.set_lod_level(i < var.reader_lod_levels.size() ? var.reader_lod_levels[i] : 0);
      }
      break;
    default:
      break;
  }
  to.set_persistable(var.persistable());
  if (var.need_check_feed()) to.set_need_check_feed(true);
  if (var.is_parameter()) to.set_is_parameter(true);
  if (var.stop_gradient() || (var.is_parameter() && !var.parameter()->trainable)) {
    to.set_stop_gradient(true);
  }
  put_unknown(var.unknown_fields, to);
}

void write(const Op& op, wire::OpDesc& to) {
  write_slots(op.inputs(), to.mutable_inputs());
  write_slots(op.outputs(), to.mutable_outputs());
  to.set_type(op.type());
  Attrs attrs = op.attrs();
  if (!op.former_names.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [now, own] : op.former_names) pairs.insert(pairs.end(), {now, own});
    attrs[std::string(kFormerNames)] = pairs;
  }
  const Attrs& foreign = foreign_attributes(op.type());
  attrs.insert(foreign.begin(), foreign.end());
  for (const auto& [name, value] : attrs) {
    wire::OpDesc::Attr& attr = *to.add_attrs();
    attr.set_name(name);
    attr.set_type(static_cast<wire::AttrType>(value.index()));
    std::visit(WriteAttr{attr}, value);
  }
  if (op.is_target) to.set_is_target(true);
  if (op.unknown_fields.empty()) return;
  put_unknown(op.unknown_fields, to);
  std::stable_sort(to.mutable_attrs()->pointer_begin(), to.mutable_attrs()->pointer_end(),
                   [](const auto* a, const auto* b) { return a->name() < b->name(); });
}

void write(const Block& block, wire::BlockDesc& to) {
  to.set_idx(block.index());
  to.set_parent_idx(block.parent_index());
  for (const Var* var : block.vars()) write(*var, *to.add_vars());
  for (const Op* op : block.ops()) write(*op, *to.add_ops());
  if (block.forward_index() >= 0) to.set_forward_block_idx(block.forward_index());
  put_unknown(block.unknown_fields, to);
}

void write(const Program& program, wire::ProgramDesc& to) {
  for (size_t i = 0; i < program.num_blocks(); ++i) {
    write(program.block(static_cast<int>(i)), *to.add_blocks());
  }
  to.mutable_version()->set_version(program.desc_version);
  for (const auto& [op, version] : program.op_versions) {
    auto& pair = *to.mutable_op_version_map()->add_pair();
    pair.set_op_name(op);
    pair.mutable_op_version()->set_version(version);
  }
  put_unknown(program.unknown_fields, to);
}

}  // namespace trireme
