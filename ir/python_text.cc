// Python's notation for numbers, strings and tuples.
#include "ir/python_text.h"

#include <charconv>
#include <cmath>

namespace trireme {

std::string python_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto written =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string_view text(buffer, written.ptr - buffer);
  std::string sign;
  if (text.front() == '-') {
    sign = "-";
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  std::string digits(text.substr(0, e));
  if (digits.size() > 1) digits.erase(1, 1);  // the point
  const int exponent = std::stoi(std::string(text.substr(e + 1)));

  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    if (count > 1) digits.insert(1, ".");
    std::string power = std::to_string(std::abs(exponent));
    if (power.size() < 2) power.insert(0, "0");
    return sign + digits + (exponent < 0 ? "e-" : "e+") + power;
  }
  if (exponent < 0) return sign + "0." + std::string(-exponent - 1, '0') + digits;
  if (count <= exponent + 1) return sign + digits + std::string(exponent + 1 - count, '0') + ".0";
  digits.insert(exponent + 1, ".");
  return sign + digits;
}

std::string python_quoted(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      constexpr char kHex[] = "0123456789abcdef";
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + quote;
}

std::string python_tuple(const std::vector<int64_t>& items) {
  std::string text = "(";
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(items[i]);
  }
  return text + (items.size() == 1 ? ",)" : ")");
}

}  // namespace trireme
