// The table of element types.
#include "core/dtype.h"

#include "core/error.h"
#include "core/text.h"

namespace trireme {
namespace {

enum class Class { boolean, integer, floating };

struct Row {
  DType dtype;
  std::string_view name;
  size_t size;
  Class of;
};

constexpr Row kTypes[] = {
    {DType::boolean, "bool", 1, Class::boolean},
    {DType::int16, "int16", 2, Class::integer},
    {DType::int32, "int32", 4, Class::integer},
    {DType::int64, "int64", 8, Class::integer},
    {DType::float16, "float16", 2, Class::floating},
    {DType::float32, "float32", 4, Class::floating},
    {DType::float64, "float64", 8, Class::floating},
    {DType::uint8, "uint8", 1, Class::integer},
    {DType::int8, "int8", 1, Class::integer},
    {DType::bfloat16, "bfloat16", 2, Class::floating},
};

const Row& row_of(DType dtype) {
  for (const Row& row : kTypes) {
    if (row.dtype == dtype) return row;
  }
  throw InternalError(cat("no element type has the number ", static_cast<int>(dtype)));
}

}  // namespace

size_t size_of(DType dtype) { return row_of(dtype).size; }

std::string_view name_of(DType dtype) { return row_of(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  // numpy has no bfloat16; arrays of it travel as uint16.
  if (name == "uint16") return DType::bfloat16;
  for (const Row& row : kTypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_wire(int number) {
  for (const Row& row : kTypes) {
    if (static_cast<int>(row.dtype) == number) return row.dtype;
  }
  return std::nullopt;
}

bool is_floating(DType dtype) { return row_of(dtype).of == Class::floating; }

bool is_integer(DType dtype) { return row_of(dtype).of == Class::integer; }

}  // namespace trireme
