// Blocks under a condition, and loops: layers/control_flow.h.
#include "layers/control_flow.h"

#include "python/binding/casters.h"

namespace trireme::binding {
namespace {

using namespace pybind11::literals;
using layers::ConditionalBlock;
using layers::IfElse;
using layers::Switch;
using layers::While;

// Functions of Python return lists of variables; what they raise passes through.
layers::Build build_from_python(const py::object& function) {
  if (function.is_none()) return {};
  return [function] { return function().cast<std::vector<Var*>>(); };
}

void bind_blocks_under_conditions(py::module_& m) {
  const py::object none = py::none();
  py::class_<SubBlock>(m, "SubBlock")
      .def("begin", &SubBlock::begin)
      .def("complete", &SubBlock::complete)
      .def("abandon", &SubBlock::abandon);
  py::class_<ConditionalBlock, SubBlock>(m, "ConditionalBlock")
      .def(py::init([](const Vars& inputs, bool is_scalar_condition, const Text& name) {
             return ConditionalBlock(inputs, is_scalar_condition, name, python_line());
           }),
           "inputs"_a, "is_scalar_condition"_a = false, "name"_a = none, py::keep_alive<1, 2>());
  py::class_<Switch>(m, "Switch")
      .def(py::init<>())
      .def("when", [](Switch& s, Var& condition) { return s.when(condition, python_line()); })
      .def("otherwise", [](Switch& s) { return s.otherwise(python_line()); });
  py::class_<While, SubBlock>(m, "While")
      .def(py::init([](Var& cond, bool is_test, const Text& name) {
             return While(cond, is_test, name, python_line());
           }),
           "cond"_a, "is_test"_a = false, "name"_a = none, py::keep_alive<1, 2>());
  py::class_<IfElse>(m, "IfElse")
      .def(py::init([](Var& cond, const Text& name) {
             return std::make_unique<IfElse>(cond, name, python_line());
           }),
           "cond"_a, "name"_a = none, py::keep_alive<1, 2>())
      .def("side", &IfElse::side, py::return_value_policy::reference_internal)
      .def("enter", &IfElse::enter)
      .def("leave", &IfElse::leave)
      .def(
          "input", [](IfElse& both, Var& x) { return &both.input(x, python_line()); }, "x"_a)
      .def("output", [](IfElse& both,
                        const py::args& outs) { both.output(outs.cast<Vars>(), python_line()); })
      .def("__call__", [](IfElse& both) { return both(python_line()); });
}

}  // namespace

void bind_layers_control(py::module_& m) {
  const py::object none = py::none();
  bind_blocks_under_conditions(m);
  m.def(
      "while_loop",
      [](const py::function& cond, const py::function& body, const Vars& loop_vars, bool is_test,
         const Text& name) {
        return layers::while_loop(
            [&](const std::vector<Var*>& vars) -> Var& { return *cond(vars).cast<Var*>(); },
            [&](const std::vector<Var*>& vars) { return body(vars).cast<std::vector<Var*>>(); },
            loop_vars, is_test, name, python_line());
      },
      "cond"_a, "body"_a, "loop_vars"_a, "is_test"_a = false, "name"_a = none);
  m.def(
      "cond",
      [](Var& pred, const py::object& true_fn, const py::object& false_fn, const Text& name) {
        return layers::cond(pred, build_from_python(true_fn), build_from_python(false_fn), name,
                            python_line());
      },
      "pred"_a, "true_fn"_a = none, "false_fn"_a = none, "name"_a = none);
  m.def(
      "case",
      [](const std::vector<std::pair<Var*, py::object>>& pred_fn_pairs, const py::object& otherwise,
         const Text& name) {
        std::vector<std::pair<Var*, layers::Build>> pairs;
        for (const auto& [pred, fn] : pred_fn_pairs) {
          pairs.emplace_back(pred, build_from_python(fn));
        }
        return layers::case_(std::move(pairs), build_from_python(otherwise), name, python_line());
      },
      "pred_fn_pairs"_a, "default"_a = none, "name"_a = none);
  m.def(
      "switch_case",
      [](Var& branch_index, const std::map<int, py::object>& branch_fns,
         const py::object& otherwise, const Text& name) {
        std::map<int, layers::Build> branches;
        for (const auto& [number, fn] : branch_fns) branches[number] = build_from_python(fn);
        return layers::switch_case(branch_index, std::move(branches), build_from_python(otherwise),
                                   name, python_line());
      },
      "branch_index"_a, "branch_fns"_a, "default"_a = none, "name"_a = none);
}

}  // namespace trireme::binding
