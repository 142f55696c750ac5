// Operators on variables: x + y, x * 2, x < y, x[...]. Results are named tmp_N.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "layers/arguments.h"

namespace trireme::layers {

// `op`: elementwise_add, _sub, _mul, _div, _pow, _floordiv, _mod, less_than, ..., equal.
// y is cast to x's type. The ops go to the current block of x's program.
Var& math_op(const std::string& op, Var& x, Var& y, SourceLine line = SourceLine::here());
// x op number: one scale where that is enough, else a constant of shape [1].
Var& math_op(const std::string& op, Var& x, Scalar y, SourceLine line = SourceLine::here());
// number op x.
Var& reverse_math_op(const std::string& op, Scalar x, Var& y, SourceLine line = SourceLine::here());
Var& negative(Var& x, SourceLine line = SourceLine::here());

// One item of x[...].
struct Index {
  enum class Kind { at, range, ellipsis };
  Kind kind = Kind::at;
  Extent at_ = 0;
  std::optional<Extent> start = std::nullopt, stop = std::nullopt, step = std::nullopt;

  static Index at(const Extent& position) { return {.kind = Kind::at, .at_ = position}; }
  static Index range(std::optional<Extent> start, std::optional<Extent> stop,
                     std::optional<Extent> step = std::nullopt) {
    return {.kind = Kind::range, .start = start, .stop = stop, .step = step};
  }
  static Index all() { return {.kind = Kind::range}; }
  static Index ellipsis() { return {.kind = Kind::ellipsis}; }
};
// An integer index drops its dimension. slice, or strided_slice where a step is not 1, then reverse
// for [::-1]; x itself when nothing is taken away.
Var& index(Var& x, const std::vector<Index>& items, SourceLine line = SourceLine::here());

}  // namespace trireme::layers

namespace trireme {

// The right side of an operator: a variable or a number, and where the operator was written (an
// operator itself cannot have a default argument).
struct Operand {
  Operand(Var& v, const char* file = __builtin_FILE(), int line = __builtin_LINE(),
          const char* function = __builtin_FUNCTION())
      : var(&v), line(SourceLine::here(file, line, function)) {}
  Operand(Scalar v, const char* file = __builtin_FILE(), int line = __builtin_LINE(),
          const char* function = __builtin_FUNCTION())
      : number(v), line(SourceLine::here(file, line, function)) {}
  template <class T>
  requires std::is_arithmetic_v<T> Operand(T v, const char* file = __builtin_FILE(),
                                           int line = __builtin_LINE(),
                                           const char* function = __builtin_FUNCTION())
      : Operand(Scalar(v), file, line, function) {}
  Var* var = nullptr;
  Scalar number = 0;
  SourceLine line;
};
// The right side where the left one is a number.
struct VarOperand {
  VarOperand(Var& v, const char* file = __builtin_FILE(), int line = __builtin_LINE(),
             const char* function = __builtin_FUNCTION())
      : var(v), line(SourceLine::here(file, line, function)) {}
  Var& var;
  SourceLine line;
};

Var& operator+(Var& x, const Operand& y);
Var& operator-(Var& x, const Operand& y);
Var& operator*(Var& x, const Operand& y);
Var& operator/(Var& x, const Operand& y);
Var& operator+(Scalar x, const VarOperand& y);
Var& operator-(Scalar x, const VarOperand& y);
Var& operator*(Scalar x, const VarOperand& y);
Var& operator/(Scalar x, const VarOperand& y);
Var& operator<(Var& x, const Operand& y);
Var& operator<=(Var& x, const Operand& y);
Var& operator>(Var& x, const Operand& y);
Var& operator>=(Var& x, const Operand& y);
inline Var& operator-(Var& x) { return layers::negative(x); }

}  // namespace trireme
