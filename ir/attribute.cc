// Names, printing and lossless conversion of operator attributes.
#include "ir/attribute.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "ir/python_text.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, 16> kTypeNames = {
    "int",   "float", "string", "ints",  "floats",   "strings", "bool", "bools",
    "block", "long",  "blocks", "longs", "float64s", "var",     "vars", "float64"};
static_assert(kTypeNames.size() == std::variant_size_v<Attribute>);

template <class T>
constexpr bool is_number =
    std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t> || std::is_same_v<T, float> ||
    std::is_same_v<T, double> || std::is_same_v<T, bool>;

template <class T>
struct Element {
  using type = void;
};
template <class T>
struct Element<std::vector<T>> {
  using type = T;
};

// Empty where `value` has no equal in To. A double becomes the nearest float: that is how every
// Python number reaches a float attribute.
template <class To, class From>
std::optional<To> number_as(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<To, float> && std::is_same_v<From, double>) {
    const float rounded = static_cast<float>(value);
    if (std::isinf(rounded) && !std::isinf(value)) return std::nullopt;
    return rounded;
  } else if constexpr (std::is_floating_point_v<From> && !std::is_floating_point_v<To>) {
    if constexpr (std::is_same_v<To, bool>) {
      return std::nullopt;
    } else {
      // The bounds are powers of two, so they are exact in every floating type.
      const double low = static_cast<double>(std::numeric_limits<To>::min());
      if (!(value >= low && value < -low) || std::trunc(value) != value) return std::nullopt;
      return static_cast<To>(value);
    }
  } else if constexpr (std::is_same_v<To, bool>) {
    if (value != 0 && value != 1) return std::nullopt;
    return value != 0;
  } else if constexpr (std::is_floating_point_v<To> && std::is_integral_v<From>) {
    const To rounded = static_cast<To>(value);
    const std::optional<int64_t> back = number_as<int64_t>(rounded);
    if (!back || *back != static_cast<int64_t>(value)) return std::nullopt;
    return rounded;
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(value);
  } else {
    if (static_cast<int64_t>(value) < std::numeric_limits<To>::min() ||
        static_cast<int64_t>(value) > std::numeric_limits<To>::max()) {
      return std::nullopt;
    }
    return static_cast<To>(value);
  }
}

template <class To, class From>
std::optional<Attribute> value_as(const From& from) {
  using ToElement = typename Element<To>::type;
  using FromElement = typename Element<From>::type;
  if constexpr (is_number<To> && is_number<From>) {
    if (const std::optional<To> number = number_as<To>(from)) {
      return Attribute(std::in_place_type<To>, *number);
    }
  } else if constexpr (!std::is_void_v<ToElement> && !std::is_void_v<FromElement>) {
    if (from.empty()) return Attribute(To{});  // an empty list has no type of its own
    if constexpr (is_number<ToElement> && is_number<FromElement>) {
      To list;
      list.reserve(from.size());
      for (size_t i = 0; i < from.size(); ++i) {
        const std::optional<ToElement> item =
            number_as<ToElement>(static_cast<FromElement>(from[i]));
        if (!item) return std::nullopt;
        list.push_back(*item);
      }
      return Attribute(std::move(list));
    }
  }
  return std::nullopt;
}

template <size_t I = 0>
std::optional<Attribute> convert_to(const Attribute& value, size_t wanted) {
  if constexpr (I < std::variant_size_v<Attribute>) {
    if (I != wanted) return convert_to<I + 1>(value, wanted);
    using To = std::variant_alternative_t<I, Attribute>;
    return std::visit([](const auto& from) { return value_as<To>(from); }, value);
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(AttrType type) {
  const size_t index = static_cast<size_t>(type);
  return index < kTypeNames.size() ? kTypeNames[index] : "unknown";
}

std::string to_string(const Attribute& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, BlockRef>) {
          return cat("block[", held.index, "]");
        } else if constexpr (std::is_same_v<T, BlockRefs>) {
          return "blocks" + python_text(held.indices);
        } else if constexpr (std::is_same_v<T, VarRef>) {
          return cat("Var[", python_quoted(held.name), "]");
        } else if constexpr (std::is_same_v<T, VarRefs>) {
          std::vector<std::string> quoted;
          for (const std::string& name : held.names) quoted.push_back(python_quoted(name));
          return cat("Vars[", join(quoted, ","), "]");
        } else if constexpr (std::is_same_v<T, std::string>) {
          return held;
        } else {
          return python_text(held);
        }
      },
      value);
}

Attribute convert(const Attribute& value, AttrType wanted, std::string_view attr_name) {
  if (type_of(value) == wanted) return value;
  if (std::optional<Attribute> converted = convert_to(value, static_cast<size_t>(wanted))) {
    return std::move(*converted);
  }
  std::string shown = to_string(value);
  if (shown.size() > 80) shown = shown.substr(0, 77) + "...";
  throw Error(ErrorKind::type_mismatch, cat("attribute ", attr_name, " must be ", name_of(wanted),
                                            " but got ", name_of(type_of(value)), " ", shown));
}

}  // namespace trireme
