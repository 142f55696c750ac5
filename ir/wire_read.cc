// Makes a program from the wire's messages.
#include <algorithm>

#include "ir/wire.h"

namespace trireme {
namespace {

[[noreturn]] void refuse_file(ErrorKind kind, const std::string& why) {
  throw Error(kind, "the model file cannot be read: " + why);
}
[[noreturn]] void refuse_file(const std::string& why) {
  refuse_file(ErrorKind::invalid_argument, why);
}

Shape shape_of(const wire::VarType::TensorDesc& tensor, const std::string& name) {
  if (tensor.dims_size() > kMaxRank) {
    refuse_file(cat("variable ", name, " has ", tensor.dims_size(), " dimensions; at most ",
                    kMaxRank, " are supported"));
  }
  Shape shape;
  // The original multiplies unknown sizes as if they were numbers: -3 is one size it does not know.
  for (const int64_t dim : tensor.dims()) shape.push_back(std::max<int64_t>(dim, -1));
  return shape;
}

DType dtype_of(const wire::VarType::TensorDesc& tensor, const std::string& name) {
  // Not said yet, like the shape; LOD_TENSOR stands where the original never said it.
  if (!tensor.has_data_type() || tensor.data_type() == wire::VarType::LOD_TENSOR) {
    return DType::float32;
  }
  if (const std::optional<DType> dtype = dtype_from_wire(tensor.data_type())) return *dtype;
  refuse_file(ErrorKind::unimplemented,
              cat("variable ", name, " has elements of type ",
                  wire::VarType::Type_Name(tensor.data_type()), ", which is not supported"));
}

int lod_level_of(int level, const std::string& name) {
  if (level < 0 || level > kMaxRank) refuse_file(cat("variable ", name, " has lod_level ", level));
  return level;
}

// A tensor without dims has no shape yet. The format cannot tell it from one of rank 0; both are
// inferred when the program is run.
void read_tensor(const wire::VarType::TensorDesc& tensor, VarSpec& spec) {
  spec.dtype = dtype_of(tensor, spec.name);
  spec.shape = shape_of(tensor, spec.name);
  spec.has_shape = tensor.dims_size() > 0;
}

VarType type_of_var(const wire::VarDesc& from) {
  if (!from.has_type()) refuse_file(cat("variable ", from.name(), " has no type"));
  if (!from.type().has_type()) {
    refuse_file(ErrorKind::unimplemented,
                cat("variable ", from.name(), " has a type that this version does not know"));
  }
  const int number = from.type().type();
  // Element types are not types of variables.
  if (number < static_cast<int>(VarType::lod_tensor) ||
      (number > static_cast<int>(VarType::tuple) && number < static_cast<int>(VarType::string))) {
    refuse_file(cat("variable ", from.name(), " has type ",
                    wire::VarType::Type_Name(from.type().type()), ", which is an element type"));
  }
  return static_cast<VarType>(number);
}

void read_var(const wire::VarDesc& from, Block& block) {
  VarSpec spec;
  spec.name = from.name();
  if (spec.name.empty()) refuse_file(cat("a variable of block ", block.index(), " has no name"));
  if (block.find_var(spec.name)) {
    refuse_file(cat("block ", block.index(), " has two variables ", spec.name));
  }
  spec.type = type_of_var(from);
  spec.has_shape = false;
  const wire::VarType& type = from.type();
  switch (spec.type) {
    case VarType::lod_tensor:
      read_tensor(type.lod_tensor().tensor(), spec);
      spec.lod_level = lod_level_of(type.lod_tensor().lod_level(), spec.name);
      break;
    case VarType::selected_rows:
      read_tensor(type.selected_rows(), spec);
      break;
    case VarType::lod_tensor_array:
      read_tensor(type.tensor_array().tensor(), spec);
      spec.lod_level = lod_level_of(type.tensor_array().lod_level(), spec.name);
      break;
    default:
      break;
  }
  spec.persistable = from.persistable();
  spec.need_check_feed = from.need_check_feed();
  spec.stop_gradient = from.stop_gradient();
  Var& var = block.create_var(std::move(spec));
  if (var.type() == VarType::reader) {
    for (const wire::VarType::LoDTensorDesc& slot : type.reader().lod_tensor()) {
      var.reader_slots.emplace_back(dtype_of(slot.tensor(), var.name()),
                                    shape_of(slot.tensor(), var.name()));
      var.reader_lod_levels.push_back(lod_level_of(slot.lod_level(), var.name()));
    }
  }
  if (from.is_parameter()) var.edit_parameter().trainable = !from.stop_gradient();
  var.unknown_fields = take_unknown(from);
}

template <class To, class From>
To list(const From& from) {
  return To(from.begin(), from.end());
}

Attribute read_attr(const wire::OpDesc::Attr& from) {
  switch (from.type()) {
    case wire::INT:
      return from.i();
    case wire::FLOAT:
      return from.f();
    case wire::STRING:
      return from.s();
    case wire::INTS:
      return list<std::vector<int32_t>>(from.ints());
    case wire::FLOATS:
      return list<std::vector<float>>(from.floats());
    case wire::STRINGS:
      return list<std::vector<std::string>>(from.strings());
    case wire::BOOLEAN:
      return from.b();
    case wire::BOOLEANS:
      return list<std::vector<bool>>(from.bools());
    case wire::BLOCK:
      return BlockRef{from.block_idx()};
    case wire::LONG:
      return Attribute(std::in_place_type<int64_t>, from.l());
    case wire::BLOCKS:
      return BlockRefs{list<std::vector<int>>(from.blocks_idx())};
    case wire::LONGS:
      return list<std::vector<int64_t>>(from.longs());
    case wire::FLOAT64S:
      return list<std::vector<double>>(from.float64s());
    case wire::VAR:
      return VarRef{from.var_name()};
    case wire::VARS:
      return VarRefs{list<std::vector<std::string>>(from.vars_name())};
    case wire::FLOAT64:
      return from.float64();
  }
  throw InternalError("an attribute type of the format is not read");
}

template <class List>
Slots read_slots(const List& from, const std::string& op) {
  Slots slots;
  for (const wire::OpDesc::Var& slot : from) {
    const bool added =
        slots.emplace(slot.parameter(), list<std::vector<std::string>>(slot.arguments())).second;
    if (!added) refuse_file(cat("op ", op, " has slot ", slot.parameter(), " twice"));
  }
  return slots;
}

void read_op(const wire::OpDesc& from, Block& block) {
  OpSpec spec;
  spec.type = from.type();
  if (spec.type.empty()) {
    refuse_file(cat("op ", block.size(), " of block ", block.index(), " has no type"));
  }
  spec.inputs = read_slots(from.inputs(), spec.type);
  spec.outputs = read_slots(from.outputs(), spec.type);
  for (const wire::OpDesc::Attr& attr : from.attrs()) {
    if (attr.name().empty()) refuse_file(cat("op ", spec.type, " has an attribute without a name"));
    if (!attr.has_type()) {
      if (has_unknown_type(attr)) continue;  // take_unknown keeps it
      refuse_file(cat("attribute ", attr.name(), " of op ", spec.type, " has no type"));
    }
    // Later versions of the original write some attributes twice, with one value.
    const auto [held, is_new] = spec.attrs.emplace(attr.name(), read_attr(attr));
    if (!is_new && held->second != read_attr(attr)) {
      refuse_file(cat("op ", spec.type, " has attribute ", attr.name(), " twice, with two values"));
    }
  }
  for (const auto& [name, value] : foreign_attributes(spec.type)) {
    const auto found = spec.attrs.find(name);
    if (found != spec.attrs.end() && found->second == value) spec.attrs.erase(found);
  }
  std::vector<std::string> former;
  if (const auto found = spec.attrs.find(kFormerNames); found != spec.attrs.end()) {
    const auto* pairs = std::get_if<std::vector<std::string>>(&found->second);
    if (!pairs || pairs->size() % 2 != 0) {
      refuse_file(cat("attribute ", kFormerNames, " of op ", spec.type, " is not a list of pairs"));
    }
    former = *pairs;
    spec.attrs.erase(found);
  }
  Op& op = block.insert_raw_op(block.size(), std::move(spec));
  for (size_t i = 0; i < former.size(); i += 2) op.former_names[former[i]] = former[i + 1];
  op.is_target = from.is_target();
  op.unknown_fields = take_unknown(from);
}

// The block's own unknown fields; its ops and variables keep theirs.
std::string block_unknown(const wire::BlockDesc& from) {
  wire::BlockDesc own;
  own.mutable_unknown_fields()->MergeFrom(from.unknown_fields());
  return take_unknown(own);
}

std::string program_unknown(const wire::ProgramDesc& from) {
  wire::ProgramDesc own;
  own.mutable_unknown_fields()->MergeFrom(from.unknown_fields());
  if (from.has_op_compatible_map()) *own.mutable_op_compatible_map() = from.op_compatible_map();
  if (from.has_version()) *own.mutable_version() = from.version();
  if (from.has_op_version_map()) *own.mutable_op_version_map() = from.op_version_map();
  return take_unknown(own);
}

}  // namespace

std::shared_ptr<Program> read_program(const wire::ProgramDesc& from) {
  std::shared_ptr<Program> program = Program::create();
  for (int i = 1; i < from.blocks_size(); ++i) program->create_block(0);
  for (int i = 0; i < from.blocks_size(); ++i) {
    const wire::BlockDesc& block = from.blocks(i);
    Block& to = program->block(i);
    to.set_parent_index(block.parent_idx());
    to.set_forward_index(block.forward_block_idx());
    for (const wire::VarDesc& var : block.vars()) read_var(var, to);
    for (const wire::OpDesc& op : block.ops()) read_op(op, to);
    to.unknown_fields = block_unknown(block);
  }
  program->set_current(0);
  program->desc_version = from.version().version();
  for (const auto& pair : from.op_version_map().pair()) {
    program->op_versions[pair.op_name()] = pair.op_version().version();
  }
  program->unknown_fields = program_unknown(from);
  return program;
}

}  // namespace trireme
