// Attributes and slots between Python and the op table's types.
#include "ir/attribute.h"

#include <limits>

#include "core/text.h"
#include "ir/schema.h"
#include "python/binding/binding.h"
#include "python/binding/casters.h"

namespace trireme::binding {
namespace {

bool is_block(py::handle value) { return py::isinstance<Block>(value); }
bool is_var(py::handle value) { return py::isinstance<Var>(value); }

[[noreturn]] void refuse(py::handle value, const std::string& op, const std::string& name,
                         const std::string& wanted) {
  throw Error(ErrorKind::type_mismatch,
              cat("attribute ", name, " of ", op, " is ", std::string(py::repr(value)), " (",
                  Py_TYPE(value.ptr())->tp_name, "); it must be ", wanted));
}

// numpy scalars and arrays of one element count as numbers, VarType as its number.
py::object plain(py::handle value) {
  if (py::isinstance<WireType>(value)) return py::int_(static_cast<int>(value.cast<WireType>()));
  if (py::hasattr(value, "tolist") && !is_var(value)) return value.attr("tolist")();
  return py::reinterpret_borrow<py::object>(value);
}

py::list plain_list(py::handle value) {
  py::list items;
  for (py::handle item : py::reinterpret_borrow<py::sequence>(value)) items.append(plain(item));
  return items;
}

template <class T>
T as(py::handle value, const std::string& op, const std::string& name, AttrType type) {
  try {
    return value.cast<T>();
  } catch (const py::cast_error&) {
    refuse(value, op, name, cat("of type ", name_of(type)));
  }
}

std::vector<int> block_indices(const py::list& items, const std::string& op,
                               const std::string& name) {
  std::vector<int> indices;
  for (py::handle item : items) {
    if (!is_block(item)) refuse(item, op, name, "a Block");
    indices.push_back(item.cast<Block&>().index());
  }
  return indices;
}

Attribute list_attribute(const py::list& items, const std::string& op, const std::string& name) {
  if (items.empty()) return std::vector<int32_t>();
  bool bools = true, ints = true, small = true, numbers = true, texts = true;
  for (py::handle item : items) {
    const bool is_bool = PyBool_Check(item.ptr());
    const bool is_int = !is_bool && PyLong_Check(item.ptr());
    bools = bools && is_bool;
    ints = ints && is_int;
    numbers = numbers && (is_int || PyFloat_Check(item.ptr()));
    texts = texts && py::isinstance<py::str>(item);
    if (is_int) {
      const auto number = item.cast<int64_t>();
      small = small && number >= std::numeric_limits<int32_t>::min() &&
              number <= std::numeric_limits<int32_t>::max();
    }
  }
  if (bools) return items.cast<std::vector<bool>>();
  if (ints && small) return items.cast<std::vector<int32_t>>();
  if (ints) return items.cast<std::vector<int64_t>>();
  if (numbers) return items.cast<std::vector<float>>();
  if (texts) return items.cast<std::vector<std::string>>();
  if (is_block(items[0])) return BlockRefs{block_indices(items, op, name)};
  refuse(items, op, name, "a list of numbers, texts or blocks");
}

// The type is what the value looks like: for attributes that no row describes.
Attribute guessed(const py::object& value, const std::string& op, const std::string& name) {
  if (PyBool_Check(value.ptr())) return value.cast<bool>();
  if (PyLong_Check(value.ptr())) {
    const auto number = value.cast<int64_t>();
    const bool small = number >= std::numeric_limits<int32_t>::min() &&
                       number <= std::numeric_limits<int32_t>::max();
    return small ? Attribute(static_cast<int32_t>(number)) : Attribute(number);
  }
  if (PyFloat_Check(value.ptr())) return value.cast<float>();
  if (py::isinstance<py::str>(value) || py::isinstance<py::bytes>(value)) {
    return value.cast<std::string>();
  }
  if (is_block(value)) return BlockRef{value.cast<Block&>().index()};
  if (is_var(value)) return VarRef{value.cast<Var&>().name()};
  if (is_sequence(value)) return list_attribute(plain_list(value), op, name);
  refuse(value, op, name, "a number, a text, a block, or a list of these");
}

Attribute wanted(const py::object& value, AttrType type, const std::string& op,
                 const std::string& name) {
  const bool list = is_sequence(value);
  switch (type) {
    case AttrType::strings:
      if (list) return as<std::vector<std::string>>(plain_list(value), op, name, type);
      if (py::isinstance<py::str>(value))
        return std::vector<std::string>{value.cast<std::string>()};
      break;
    case AttrType::ints:
      if (list) return as<std::vector<int32_t>>(plain_list(value), op, name, type);
      break;
    case AttrType::longs:
      if (list) return as<std::vector<int64_t>>(plain_list(value), op, name, type);
      break;
    case AttrType::floats:
      if (list) return as<std::vector<float>>(plain_list(value), op, name, type);
      break;
    case AttrType::float64s:
      if (list) return as<std::vector<double>>(plain_list(value), op, name, type);
      break;
    case AttrType::float32:
      if (PyLong_Check(value.ptr())) return as<float>(value, op, name, type);
      break;
    case AttrType::float64:
      if (PyLong_Check(value.ptr()) || PyFloat_Check(value.ptr())) {
        return as<double>(value, op, name, type);
      }
      break;
    case AttrType::boolean:
      if (PyLong_Check(value.ptr())) return as<bool>(py::bool_(value), op, name, type);
      break;
    case AttrType::int32:
    case AttrType::int64:
      if (py::isinstance<py::str>(value) && dtype_from_name(value.cast<std::string>())) {
        return static_cast<int32_t>(dtype_from_python(value));  // dtype="float32"
      }
      break;
    default:
      break;
  }
  return convert(guessed(value, op, name), type, name);
}

const AttrSpec* spec_of(const std::string& op, const std::string& name) {
  const OpSchema* row = op_table().find(op);
  return row ? row->find_attribute(name) : nullptr;
}

std::string name_in_slot(py::handle item, const std::string& slot, const char* what) {
  if (is_var(item)) return item.cast<Var&>().name();
  if (py::isinstance<py::str>(item) || py::isinstance<py::bytes>(item))
    return item.cast<std::string>();
  throw Error(ErrorKind::type_mismatch,
              cat(what, " ", slot, " holds a ", Py_TYPE(item.ptr())->tp_name))
      .fix("a slot takes Variables, or their names");
}

}  // namespace

Attribute attribute_from_python(py::handle value, const std::string& op, const std::string& name) {
  const py::object simple = plain(value);
  const AttrSpec* spec = spec_of(op, name);
  return spec ? wanted(simple, spec->type, op, name) : guessed(simple, op, name);
}

Attrs attrs_from_python(const std::string& op, const py::dict& attrs) {
  Attrs result;
  for (const auto& [key, value] : attrs) {
    if (value.is_none()) continue;  // as if it were not there
    const auto name = key.cast<std::string>();
    result[name] = attribute_from_python(value, op, name);
  }
  return result;
}

py::object attribute_to_python(const Attribute& value, const Program& program) {
  if (const auto* block = std::get_if<BlockRef>(&value)) {
    return py::cast(&program.block(block->index));
  }
  if (const auto* blocks = std::get_if<BlockRefs>(&value)) {
    py::list items;
    for (const int index : blocks->indices) items.append(py::cast(&program.block(index)));
    return items;
  }
  if (const auto* var = std::get_if<VarRef>(&value)) return py::str(var->name);
  if (const auto* vars = std::get_if<VarRefs>(&value)) return py::cast(vars->names);
  return std::visit(
      [](const auto& held) -> py::object {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, BlockRef> || std::is_same_v<T, BlockRefs> ||
                      std::is_same_v<T, VarRef> || std::is_same_v<T, VarRefs>) {
          return py::none();
        } else {
          return py::cast(held);
        }
      },
      value);
}

Slots slots_from_python(const py::dict& slots, const char* what) {
  Slots result;
  for (const auto& [key, value] : slots) {
    const auto slot = key.cast<std::string>();
    std::vector<std::string>& names = result[slot];
    if (value.is_none()) {
      result.erase(slot);
    } else if (is_sequence(value)) {
      for (py::handle item : py::reinterpret_borrow<py::sequence>(value)) {
        names.push_back(name_in_slot(item, slot, what));
      }
    } else {
      names.push_back(name_in_slot(value, slot, what));
    }
  }
  return result;
}

}  // namespace trireme::binding
