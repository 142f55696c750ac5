// Writes JSON that may stand inside a page: commas, escapes, and text that is no UTF-8.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>

namespace trireme {

class JsonWriter {
 public:
  JsonWriter& object() { return open('{'); }
  JsonWriter& array() { return open('['); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name) {
    write(name);
    text_ += ':';
    first_ = true;
    return *this;
  }
  JsonWriter& value(std::string_view text) {
    write(text);
    return *this;
  }
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(bool is) { return raw(is ? "true" : "false"); }
  JsonWriter& value(double number) {
    if (!std::isfinite(number)) return raw("null");
    char digits[32];
    std::snprintf(digits, sizeof(digits), "%.9g", number);
    return raw(digits);
  }
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) JsonWriter& value(T number) {
    return raw(std::to_string(number));
  }
  JsonWriter& null() { return raw("null"); }
  // Text that is JSON already.
  JsonWriter& raw(std::string_view json) {
    separate();
    text_ += json;
    return *this;
  }
  template <class T>
  JsonWriter& field(std::string_view name, const T& of) {
    return key(name).value(of);
  }
  template <class Range>
  JsonWriter& list(std::string_view name, const Range& items) {
    key(name).array();
    for (const auto& item : items) value(item);
    return end_array();
  }

  const std::string& text() const { return text_; }

 private:
  JsonWriter& open(char bracket) {
    separate();
    text_ += bracket;
    first_ = true;
    return *this;
  }
  JsonWriter& close(char bracket) {
    text_ += bracket;
    first_ = false;
    return *this;
  }
  void separate() {
    if (!first_) text_ += ',';
    first_ = false;
  }
  // How many bytes from `at` on are one character of UTF-8; 0: none is.
  static size_t character(std::string_view text, size_t at) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char head = byte(at);
    const size_t length = head < 0x80   ? 1
                          : head < 0xC2 ? 0
                          : head < 0xE0 ? 2
                          : head < 0xF0 ? 3
                          : head < 0xF5 ? 4
                                        : 0;
    if (length == 0 || at + length > text.size()) return 0;
    for (size_t i = 1; i < length; ++i) {
      if ((byte(at + i) & 0xC0) != 0x80) return 0;
    }
    if ((head == 0xE0 && byte(at + 1) < 0xA0) || (head == 0xED && byte(at + 1) > 0x9F) ||
        (head == 0xF0 && byte(at + 1) < 0x90) || (head == 0xF4 && byte(at + 1) > 0x8F)) {
      return 0;
    }
    return length;
  }
  // `<` and `&` never stand as they are: no text can end a script element or begin another.
  void write(std::string_view text) {
    separate();
    text_ += '"';
    for (size_t i = 0; i < text.size();) {
      const char c = text[i];
      const size_t length = character(text, i);
      if (length == 0) {
        text_ += "\\ufffd";
        ++i;
      } else if (c == '"' || c == '\\') {
        (text_ += '\\') += c;
        ++i;
      } else if (static_cast<unsigned char>(c) < 0x20 || c == '<' || c == '&' || c == 0x7f) {
        char escape[8];
        std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(c));
        text_ += escape;
        ++i;
      } else {
        text_.append(text, i, length);
        i += length;
      }
    }
    text_ += '"';
  }

  std::string text_;
  bool first_ = true;
};

}  // namespace trireme
