// Numbers, strings and lists written the way Python writes them: programs print in its notation.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

std::string python_text(double value);  // repr: the shortest digits that read back the same
std::string python_quoted(std::string_view text);

template <class T>
requires std::same_as<T, bool> std::string python_text(T value) { return value ? "True" : "False"; }
template <class T>
requires std::integral<T> &&(!std::same_as<T, bool>)std::string python_text(T value) {
  return std::to_string(value);
}
inline std::string python_text(float value) { return python_text(static_cast<double>(value)); }

template <class T>
std::string python_text(const std::vector<T>& items) {
  std::string text = "[";
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += ", ";
    if constexpr (std::same_as<T, std::string>) {
      text += python_quoted(items[i]);
    } else {
      text += python_text(static_cast<T>(items[i]));
    }
  }
  return text + "]";
}

std::string python_tuple(const std::vector<int64_t>& items);  // "(3,)", "(-1, 784)"

}  // namespace trireme
