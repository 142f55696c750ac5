// Composes the text of an error from its parts.
#include "core/error.h"

#include "core/text.h"

namespace trireme {
namespace {

// The text of a source line, each of its lines indented by six and without its own indentation.
void append_source_text(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) continue;
    line = line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
    out.append("\n      ").append(line);
  }
}

}  // namespace

std::string_view name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return "ValueError";
    case ErrorKind::type_mismatch:
      return "TypeError";
    case ErrorKind::not_found:
    case ErrorKind::already_exists:
    case ErrorKind::precondition:
    case ErrorKind::permission:
    case ErrorKind::timeout:
    case ErrorKind::unavailable:
      return "RuntimeError";
    case ErrorKind::out_of_range:
      return "IndexError";
    case ErrorKind::resource_exhausted:
      return "MemoryError";
    case ErrorKind::unimplemented:
      return "NotImplementedError";
    case ErrorKind::fatal:
      return "SystemError";
    case ErrorKind::external:
      return "OSError";
    case ErrorKind::end_of_data:
      return "EOFException";
    case ErrorKind::assertion:
      return "AssertionError";
  }
  return "RuntimeError";
}

Error::Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {
  compose();
}

Error& Error::in(std::string_view op) {
  if (op_.empty()) op_ = op;
  compose();
  return *this;
}

Error& Error::operand(std::string line) {
  operands_.push_back(std::move(line));
  compose();
  return *this;
}

Error& Error::at(const SourceLine& line) {
  if (!line_.known()) line_ = line;
  compose();
  return *this;
}

Error& Error::fix(std::string advice) {
  if (fix_.empty()) fix_ = std::move(advice);
  compose();
  return *this;
}

Error& Error::note(std::string line) {
  notes_.push_back(std::move(line));
  compose();
  return *this;
}

const char* Error::what() const noexcept { return text_.c_str(); }

void Error::compose() {
  text_ = name_of(kind_);
  if (!op_.empty()) text_.append(" in ").append(op_);
  text_.append(": ").append(message_);
  for (const std::string& operand : operands_) text_.append("\n  ").append(operand);
  if (line_.known()) {
    text_ += cat("\n  asked for at ", line_.file, ":", line_.line);
    if (!line_.function.empty()) text_.append(" in ").append(line_.function);
    append_source_text(text_, line_.text);
  }
  for (const std::string& note : notes_) text_.append("\n  ").append(note);
  if (!fix_.empty()) text_.append("\n  fix: ").append(fix_);
}

InternalError::InternalError(std::string message, const char* file, int line)
    : Error(ErrorKind::fatal, std::move(message)) {
  note(cat("this is a bug in Trireme, found at ", file, ":", line, "; please report it"));
}

void promise(bool holds, const char* what, const char* file, int line) {
  if (!holds) throw InternalError(cat("broken promise: ", what), file, line);
}

}  // namespace trireme
