// Operator attributes: one of the sixteen types of the model file format.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace trireme {

struct BlockRef {
  int index = 0;
  friend bool operator==(const BlockRef&, const BlockRef&) = default;
};
struct BlockRefs {
  std::vector<int> indices;
  friend bool operator==(const BlockRefs&, const BlockRefs&) = default;
};
struct VarRef {
  std::string name;
  friend bool operator==(const VarRef&, const VarRef&) = default;
};
struct VarRefs {
  std::vector<std::string> names;
  friend bool operator==(const VarRefs&, const VarRefs&) = default;
};

// The order is the file format's AttrType numbering: index() is what is written.
using Attribute =
    std::variant<int32_t, float, std::string, std::vector<int32_t>, std::vector<float>,
                 std::vector<std::string>, bool, std::vector<bool>, BlockRef, int64_t, BlockRefs,
                 std::vector<int64_t>, std::vector<double>, VarRef, VarRefs, double>;

enum class AttrType : int {
  int32,
  float32,
  string,
  ints,
  floats,
  strings,
  boolean,
  booleans,
  block,
  int64,
  blocks,
  longs,
  float64s,
  var,
  vars,
  float64,
};

using Attrs = std::map<std::string, Attribute, std::less<>>;

inline AttrType type_of(const Attribute& value) { return static_cast<AttrType>(value.index()); }
std::string_view name_of(AttrType type);        // "int", "float", "ints", ...
std::string to_string(const Attribute& value);  // as programs print it
// Converts between the number types (int <-> long <-> float, ints <-> longs, bool <-> int) when no
// information is lost; an Error naming the attribute otherwise.
Attribute convert(const Attribute& value, AttrType wanted, std::string_view attr_name);

template <class T>
constexpr AttrType attr_type_of() {
  return static_cast<AttrType>(Attribute(std::in_place_type<T>).index());
}

template <class T>
T attr_as(const Attribute& value, std::string_view attr_name) {
  if (const T* exact = std::get_if<T>(&value)) return *exact;
  return std::get<T>(convert(value, static_cast<AttrType>(Attribute(T{}).index()), attr_name));
}

}  // namespace trireme
