// Layers that are one op, and the operators on variables: layers/ops.h and layers/math_op.h.
#include "core/text.h"
#include "layers/math_op.h"
#include "layers/ops.h"
#include "python/binding/casters.h"
#include "python/binding/misuse.h"

namespace trireme::binding {
namespace {

using namespace pybind11::literals;

VarSlots var_slots(const py::dict& slots, const std::string& layer) {
  VarSlots result;
  for (const auto& [slot, value] : slots) {
    if (value.is_none()) continue;
    py::detail::make_caster<Vars> vars;
    if (!vars.load(value, true)) {
      throw Error(ErrorKind::type_mismatch, cat(py::cast<std::string>(slot),
                                                " must be a Variable or a list of "
                                                "them, not ",
                                                described(value)))
          .in(layer)
          .at(python_line())
          .fix("make a variable of it: layers.assign(array), or fluid.data(...) for what is fed");
    }
    result.emplace_back(slot.cast<std::string>(), py::detail::cast_op<Vars>(vars));
  }
  return result;
}

std::optional<Extent> extent_or_none(const py::object& value) {
  if (value.is_none()) return std::nullopt;
  return value.cast<Extent>();
}

layers::Index index_item(py::handle item) {
  if (item.ptr() == Py_Ellipsis) return layers::Index::ellipsis();
  if (PySlice_Check(item.ptr())) {
    return layers::Index::range(extent_or_none(item.attr("start")),
                                extent_or_none(item.attr("stop")),
                                extent_or_none(item.attr("step")));
  }
  if (is_integer_like(item) || py::isinstance<Var>(item))
    return layers::Index::at(item.cast<Extent>());
  throw Error(ErrorKind::type_mismatch,
              cat("a variable is indexed with a ", Py_TYPE(item.ptr())->tp_name))
      .fix("use integers, slices and ..., or the gather layer");
}

std::vector<layers::Index> index_items(const py::object& key) {
  std::vector<layers::Index> items;
  if (PyTuple_Check(key.ptr())) {
    for (py::handle item : key) items.push_back(index_item(item));
  } else {
    items.push_back(index_item(key));
  }
  return items;
}

// None: all dimensions; one number: that one.
std::vector<int> axes_of(const py::object& dim) {
  if (dim.is_none()) return {};
  if (is_integer_like(dim)) return {dim.cast<int>()};
  return dim.cast<std::vector<int>>();
}

// x op y, where y is a variable or a number; NotImplemented lets Python try the other side.
// Whether Python may ask the other operand of x + y, whose class knows what to do with variables.
// Whoever is asked for equality last gives identity.
bool leaves_to(py::handle other, const std::string& op) {
  static const std::map<std::string, const char*> mirrored = {
      {"elementwise_add", "__radd__"},
      {"elementwise_sub", "__rsub__"},
      {"elementwise_mul", "__rmul__"},
      {"elementwise_div", "__rtruediv__"},
      {"elementwise_pow", "__rpow__"},
      {"elementwise_mod", "__rmod__"},
      {"elementwise_floordiv", "__rfloordiv__"},
      {"less_than", "__gt__"},
      {"less_equal", "__ge__"},
      {"greater_than", "__lt__"},
      {"greater_equal", "__le__"}};
  const auto found = mirrored.find(op);
  if (found == mirrored.end()) return true;
  const py::handle type(reinterpret_cast<PyObject*>(Py_TYPE(other.ptr())));
  const std::string home = py::str(py::getattr(type, "__module__", py::str("")));
  if (home == "builtins" || home == "numpy") return false;
  const py::object object = py::module_::import("builtins").attr("object");
  const py::object own = py::getattr(type, found->second, py::none());
  return !own.is_none() && !own.is(py::getattr(object, found->second, py::none()));
}

// An array refuses to be one number in words of its own.
bool loads(py::detail::make_caster<Scalar>& number, py::handle value) {
  try {
    return number.load(value, true);
  } catch (const py::error_already_set&) {
    return false;
  }
}

void def_operators(py::module_& m) {
  m.def("math_op",
        [](const std::string& op, Var& x, const py::object& y, bool reverse) -> py::object {
          if (py::isinstance<Var>(y)) {
            Var& other = y.cast<Var&>();
            return py::cast(reverse ? &layers::math_op(op, other, x, python_line())
                                    : &layers::math_op(op, x, other, python_line()));
          }
          py::detail::make_caster<Scalar> number;
          if (!loads(number, y)) {
            if (!reverse && leaves_to(y, op)) {
              return py::reinterpret_borrow<py::object>(Py_NotImplemented);
            }
            throw Error(ErrorKind::type_mismatch, cat("it takes a Variable or a number beside ",
                                                      x.name(), ", not ", described(y)))
                .in(op)
                .at(python_line())
                .fix("make a variable of an array: layers.assign(array), or feed it to fluid.data");
          }
          const auto scalar = py::detail::cast_op<Scalar>(number);
          return py::cast(reverse ? &layers::reverse_math_op(op, scalar, x, python_line())
                                  : &layers::math_op(op, x, scalar, python_line()));
        });
  m.def("negative", [](Var& x) { return &layers::negative(x, python_line()); });
  m.def("index", [](Var& x, const py::object& key) {
    return &layers::index(x, index_items(key), python_line());
  });
}

}  // namespace

void bind_layers_generic(py::module_& m) {
  const py::object none = py::none();
  def_operators(m);
  m.def(
      "apply",
      [](const std::string& type, const py::dict& inputs, const py::dict& attrs, const Text& name,
         const Text& layer, const Text& act, const std::map<std::string, int>& out_counts,
         bool stop_gradient) {
        return layers::apply_all(type, var_slots(inputs, layer.empty() ? type : layer),
                                 attrs_from_python(type, attrs),
                                 {.name = name,
                                  .layer = layer,
                                  .act = act,
                                  .stop_gradient = stop_gradient,
                                  .out_counts = out_counts},
                                 python_line());
      },
      "type"_a, "inputs"_a, "attrs"_a = py::dict(), "name"_a = none, "layer"_a = none,
      "act"_a = none, "out_counts"_a = py::dict(), "stop_gradient"_a = false);
  m.def(
      "clip",
      [](Var& x, double min, double max, const Text& name) {
        return &layers::clip(x, min, max, name, python_line());
      },
      "x"_a, "min"_a, "max"_a, "name"_a = none);
  m.def(
      "clip_by_norm",
      [](Var& x, double max_norm, const Text& name) {
        return &layers::clip_by_norm(x, max_norm, name, python_line());
      },
      "x"_a, "max_norm"_a, "name"_a = none);
  m.def(
      "elementwise",
      [](const std::string& op, Var& x, Var& y, int axis, const Text& act, const Text& name) {
        return &layers::elementwise(op, x, y, {axis, act, name}, python_line());
      },
      "op"_a, "x"_a, "y"_a, "axis"_a = -1, "act"_a = none, "name"_a = none);
  m.def(
      "reduce",
      [](const std::string& op, Var& input, const py::object& dim, bool keep_dim, const Text& name,
         const Text& layer) {
        return &layers::reduce(op, input, {axes_of(dim), keep_dim, name, layer}, python_line());
      },
      "op"_a, "input"_a, "dim"_a = none, "keep_dim"_a = false, "name"_a = none, "layer"_a = none);
  m.def(
      "mul",
      [](Var& x, Var& y, int x_num_col_dims, int y_num_col_dims, const Text& name) {
        return &layers::mul(x, y, {x_num_col_dims, y_num_col_dims, name}, python_line());
      },
      "x"_a, "y"_a, "x_num_col_dims"_a = 1, "y_num_col_dims"_a = 1, "name"_a = none);
  m.def(
      "matmul",
      [](Var& x, Var& y, bool transpose_x, bool transpose_y, double alpha, const Text& name) {
        return &layers::matmul(x, y, {transpose_x, transpose_y, alpha, name}, python_line());
      },
      "x"_a, "y"_a, "transpose_x"_a = false, "transpose_y"_a = false, "alpha"_a = 1.0,
      "name"_a = none);
  m.def(
      "compare",
      [](const std::string& op, Var& x, Var& y, Var* cond) {
        return &layers::compare(op, x, y, cond, python_line());
      },
      "op"_a, "x"_a, "y"_a, "cond"_a = none);
  m.def(
      "logical_and",
      [](Var& x, Var& y, Var* out, const Text&) {
        return &layers::logical_and(x, y, out, python_line());
      },
      "x"_a, "y"_a, "out"_a = none, "name"_a = none);
  m.def(
      "logical_or",
      [](Var& x, Var& y, Var* out, const Text&) {
        return &layers::logical_or(x, y, out, python_line());
      },
      "x"_a, "y"_a, "out"_a = none, "name"_a = none);
  m.def(
      "logical_not",
      [](Var& x, Var* out, const Text&) { return &layers::logical_not(x, out, python_line()); },
      "x"_a, "out"_a = none, "name"_a = none);
  m.def(
      "cos_sim", [](Var& x, Var& y) { return &layers::cos_sim(x, y, python_line()); }, "X"_a,
      "Y"_a);
  m.def(
      "merge_selected_rows",
      [](Var& x, const Text&) { return &layers::merge_selected_rows(x, python_line()); }, "x"_a,
      "name"_a = none);
  m.def(
      "get_tensor_from_selected_rows",
      [](Var& x, const Text&) { return &layers::get_tensor_from_selected_rows(x, python_line()); },
      "x"_a, "name"_a = none);
}

}  // namespace trireme::binding
