// Joins values into one string, for error texts and names.
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace trireme {

template <class... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class Range>
std::string join(const Range& items, const std::string& separator = ", ") {
  std::ostringstream out;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out << separator;
    first = false;
    out << item;
  }
  return out.str();
}

}  // namespace trireme
