// Arguments that are a number or the variable that holds it, as Python gives them.
#pragma once

#include "python/binding/casters.h"

namespace pybind11::detail {

// For types that are made from either.
template <class Made>
struct number_or_var_caster {
 public:
  bool load(handle source, bool convert) {
    make_caster<trireme::Var> var;
    if (!source.is_none() && var.load(source, convert)) {
      value_.emplace(cast_op<trireme::Var&>(var));
      return true;
    }
    make_caster<double> number;
    if (!number.load(source, convert)) return false;
    value_.emplace(cast_op<double>(number));
    return true;
  }
  static constexpr auto name = const_name("Union[float, Variable]");
  template <class>
  using cast_op_type = const Made&;
  operator const Made&() const { return *value_; }

 private:
  std::optional<Made> value_;
};

}  // namespace pybind11::detail
