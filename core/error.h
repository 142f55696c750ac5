// The errors users meet: what is wrong, the operands, the user's own line, and what to do.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

// Where the user asked for something: one frame, never ours first.
struct SourceLine {
  std::string file;
  int line = 0;
  std::string function;
  std::string text;  // the source text of that line, when known

  bool known() const { return line > 0; }
  static SourceLine here(const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                         const char* function = __builtin_FUNCTION()) {
    return {file, line, function, {}};
  }
};

// Decides which Python type an error becomes; the names are those of the original's error classes.
enum class ErrorKind {
  invalid_argument,    // ValueError
  type_mismatch,       // TypeError
  not_found,           // RuntimeError
  already_exists,      // RuntimeError
  precondition,        // RuntimeError
  permission,          // RuntimeError
  timeout,             // RuntimeError
  unavailable,         // RuntimeError
  out_of_range,        // IndexError
  resource_exhausted,  // MemoryError
  unimplemented,       // NotImplementedError
  fatal,               // SystemError
  external,            // OSError
  end_of_data,         // core.EOFException
  assertion,           // AssertionError, where the original asserts
};

std::string_view name_of(ErrorKind kind);  // the Python type: "ValueError", "MemoryError", ...

// The user's mistake. Context (operands, line, fix) is added on the way up; what() shows all of it.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message);
  explicit Error(std::string message) : Error(ErrorKind::invalid_argument, std::move(message)) {}

  // "in mul": the op that complained. Only the first call counts, so inner context wins.
  Error& in(std::string_view op);
  // One operand line: "X   img_flat   float32 [64, 784]".
  Error& operand(std::string line);
  Error& at(const SourceLine& line);  // the first known line counts
  Error& fix(std::string advice);     // the first advice counts
  Error& note(std::string line);      // any further line of context

  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const SourceLine& line() const { return line_; }
  bool has_op() const { return !op_.empty(); }
  const char* what() const noexcept override;

 private:
  void compose();

  ErrorKind kind_;
  std::string message_;
  std::string op_;
  std::vector<std::string> operands_;
  std::vector<std::string> notes_;
  SourceLine line_;
  std::string fix_;
  std::string text_;
};

// The world's failure: a file, a peer, a full disk.
// `throw IoError(text).fix(advice)` throws a plain Error, as fix() returns one: tell errors apart
// by kind(), not by the type that is caught.
class IoError : public Error {
 public:
  explicit IoError(std::string message) : Error(ErrorKind::external, std::move(message)) {}
};

// Our own bug: says our file and line and asks for a report.
class InternalError : public Error {
 public:
  explicit InternalError(std::string message, const char* file = __builtin_FILE(),
                         int line = __builtin_LINE());
};

// Checks one of our own promises; never reachable from user input.
void promise(bool holds, const char* what, const char* file = __builtin_FILE(),
             int line = __builtin_LINE());

}  // namespace trireme
