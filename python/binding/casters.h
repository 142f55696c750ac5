// How Python arguments become the argument types of layers/: what each accepts is said here once.
#pragma once

#include <optional>
#include <string>

#include "layers/arguments.h"
#include "layers/param_attr.h"
#include "python/binding/binding.h"

namespace trireme::binding {

// One enumeration holds element types and container types, as in the file format.
enum class WireType : int {};

// float32, "float32", VarType.FP32, numpy.float32, numpy.dtype("float32"), float.
DType dtype_from_python(py::handle value);
bool is_dtype_like(py::handle value);
ParamArg param_arg_from_python(py::handle value);

inline bool is_integer_like(py::handle value) {
  return PyLong_Check(value.ptr()) || (!PyFloat_Check(value.ptr()) && PyIndex_Check(value.ptr()));
}
inline bool is_sequence(py::handle value) {
  return PyList_Check(value.ptr()) || PyTuple_Check(value.ptr());
}

// A layer's `name`, and other texts that may be None.
struct Text : std::string {
  using std::string::string;
};

}  // namespace trireme::binding

namespace pybind11::detail {

template <>
struct type_caster<trireme::binding::Text> {
  PYBIND11_TYPE_CASTER(trireme::binding::Text, const_name("Optional[str]"));
  bool load(handle source, bool convert) {
    if (source.is_none()) return true;
    make_caster<std::string> text;
    if (!text.load(source, convert)) return false;
    value.assign(cast_op<std::string&>(text));
    return true;
  }
  static handle cast(const trireme::binding::Text& source, return_value_policy, handle) {
    if (source.empty()) return none().release();
    return str(source).release();
  }
};

template <>
struct type_caster<trireme::DType> {
  PYBIND11_TYPE_CASTER(trireme::DType, const_name("dtype"));
  bool load(handle source, bool) {
    if (!trireme::binding::is_dtype_like(source)) return false;
    value = trireme::binding::dtype_from_python(source);
    return true;
  }
  static handle cast(trireme::DType source, return_value_policy policy, handle parent) {
    return make_caster<trireme::binding::WireType>::cast(
        static_cast<trireme::binding::WireType>(static_cast<int>(source)), policy, parent);
  }
};

template <>
struct type_caster<trireme::VarType> {
  PYBIND11_TYPE_CASTER(trireme::VarType, const_name("VarType"));
  bool load(handle source, bool convert) {
    make_caster<trireme::binding::WireType> number;
    if (!number.load(source, convert)) return false;
    value = static_cast<trireme::VarType>(
        static_cast<int>(cast_op<trireme::binding::WireType&>(number)));
    return true;
  }
  static handle cast(trireme::VarType source, return_value_policy policy, handle parent) {
    return make_caster<trireme::binding::WireType>::cast(
        static_cast<trireme::binding::WireType>(static_cast<int>(source)), policy, parent);
  }
};

template <>
struct type_caster<trireme::Vars> {
  PYBIND11_TYPE_CASTER(trireme::Vars, const_name("Union[Variable, Sequence[Variable]]"));
  bool load(handle source, bool convert) {
    make_caster<trireme::Var> one;
    if (!source.is_none() && one.load(source, convert)) {
      value = trireme::Vars(cast_op<trireme::Var&>(one));
      return true;
    }
    if (!trireme::binding::is_sequence(source)) return false;
    std::vector<trireme::Var*> several;
    for (handle item : reinterpret_borrow<sequence>(source)) {
      make_caster<trireme::Var> element;
      if (item.is_none() || !element.load(item, convert)) return false;
      several.push_back(cast_op<trireme::Var*>(element));
    }
    value = trireme::Vars(std::move(several));
    return true;
  }
};

template <>
struct type_caster<trireme::Scalar> {
 public:
  bool load(handle source, bool) {
    if (source.is_none() || PyUnicode_Check(source.ptr())) return false;
    if (PyBool_Check(source.ptr())) {
      value_.emplace(source.ptr() == Py_True);
    } else if (trireme::binding::is_integer_like(source)) {
      const auto number = reinterpret_steal<object>(PyNumber_Index(source.ptr()));
      if (!number) throw error_already_set();
      const int64_t integer = PyLong_AsLongLong(number.ptr());
      if (integer == -1 && PyErr_Occurred()) throw error_already_set();
      value_.emplace(integer);
    } else if (PyFloat_Check(source.ptr()) || hasattr(source, "__float__")) {
      const double real = PyFloat_AsDouble(source.ptr());
      if (real == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return false;
      }
      value_.emplace(real);
    } else {
      return false;
    }
    return true;
  }
  static constexpr auto name = const_name("float");
  template <class>
  using cast_op_type = trireme::Scalar;
  operator trireme::Scalar() const { return *value_; }

 private:
  std::optional<trireme::Scalar> value_;
};

template <>
struct type_caster<trireme::Pair> {
 public:
  bool load(handle source, bool) {
    if (trireme::binding::is_integer_like(source)) {
      value_.emplace(source.cast<int>());
      return true;
    }
    if (!trireme::binding::is_sequence(source)) return false;
    const auto items = reinterpret_borrow<sequence>(source);
    if (items.size() == 1) {
      value_.emplace(items[0].cast<int>());
    } else if (items.size() == 2) {
      value_.emplace(items[0].cast<int>(), items[1].cast<int>());
    } else {
      return false;
    }
    return true;
  }
  static constexpr auto name = const_name("Union[int, Sequence[int]]");
  template <class>
  using cast_op_type = trireme::Pair;
  operator trireme::Pair() const { return *value_; }

 private:
  std::optional<trireme::Pair> value_;
};

template <>
struct type_caster<trireme::Padding> {
 public:
  bool load(handle source, bool) {
    using trireme::binding::is_integer_like;
    if (is_integer_like(source)) {
      value_.emplace(source.cast<int>());
    } else if (isinstance<str>(source)) {
      value_.emplace(source.cast<std::string>());
    } else if (trireme::binding::is_sequence(source)) {
      const auto items = reinterpret_borrow<sequence>(source);
      if (items.size() > 0 && trireme::binding::is_sequence(items[0])) {
        value_.emplace(source.cast<std::vector<std::vector<int>>>());
      } else {
        value_.emplace(source.cast<std::vector<int>>());
      }
    } else {
      return false;
    }
    return true;
  }
  static constexpr auto name = const_name("Union[int, str, Sequence[int]]");
  template <class>
  using cast_op_type = trireme::Padding;
  operator trireme::Padding() const { return *value_; }

 private:
  std::optional<trireme::Padding> value_;
};

template <>
struct type_caster<trireme::Extent> {
 public:
  bool load(handle source, bool convert) {
    if (trireme::binding::is_integer_like(source)) {
      value_.emplace(source.cast<int64_t>());
      return true;
    }
    make_caster<trireme::Var> var;
    if (source.is_none() || !var.load(source, convert)) return false;
    value_.emplace(cast_op<trireme::Var&>(var));
    return true;
  }
  static constexpr auto name = const_name("Union[int, Variable]");
  template <class>
  using cast_op_type = trireme::Extent;
  operator trireme::Extent() const { return *value_; }

 private:
  std::optional<trireme::Extent> value_;
};

template <>
struct type_caster<trireme::Extents> {
  PYBIND11_TYPE_CASTER(trireme::Extents,
                       const_name("Union[Variable, Sequence[Union[int, Variable]]]"));
  bool load(handle source, bool convert) {
    make_caster<trireme::Var> tensor;
    if (!source.is_none() && tensor.load(source, convert)) {
      value = trireme::Extents(cast_op<trireme::Var&>(tensor));
      return true;
    }
    if (!trireme::binding::is_sequence(source)) return false;
    std::vector<trireme::Extent> items;
    for (handle item : reinterpret_borrow<sequence>(source)) {
      if (item.is_none()) {
        items.emplace_back(-1);
        continue;
      }
      make_caster<trireme::Extent> element;
      if (!element.load(item, convert)) return false;
      items.push_back(cast_op<trireme::Extent>(element));
    }
    value = trireme::Extents(std::move(items));
    return true;
  }
};

template <>
struct type_caster<trireme::ParamArg> {
  PYBIND11_TYPE_CASTER(trireme::ParamArg,
                       const_name("Union[None, bool, str, ParamAttr, Initializer]"));
  bool load(handle source, bool) {
    value = trireme::binding::param_arg_from_python(source);
    return true;
  }
};

template <>
struct type_caster<trireme::ParamArgs> {
  PYBIND11_TYPE_CASTER(trireme::ParamArgs,
                       const_name("Union[None, bool, str, ParamAttr, Initializer, list]"));
  bool load(handle source, bool) {
    if (!trireme::binding::is_sequence(source)) {
      value = trireme::ParamArgs(trireme::binding::param_arg_from_python(source));
      return true;
    }
    std::vector<trireme::ParamArg> several;
    for (handle item : reinterpret_borrow<sequence>(source)) {
      several.push_back(trireme::binding::param_arg_from_python(item));
    }
    value = trireme::ParamArgs(std::move(several));
    return true;
  }
};

}  // namespace pybind11::detail
