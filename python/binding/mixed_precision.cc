// Mixed precision: layers/mixed_precision.h.
#include "layers/mixed_precision.h"

#include "python/binding/optimizer_arguments.h"

namespace trireme::binding {

using namespace pybind11::literals;
namespace amp = mixed_precision;

namespace {

// A list, tuple or set of names; None: none.
std::set<std::string> name_set(const py::object& names) {
  std::set<std::string> result;
  if (names.is_none()) return result;
  for (const py::handle name : names) result.insert(name.cast<std::string>());
  return result;
}

}  // namespace

void bind_mixed_precision(py::module_& m) {
  const py::object none = py::none();
  py::class_<amp::OpLists>(m, "AutoMixedPrecisionLists", py::dynamic_attr())
      .def(py::init([](const py::object& white, const py::object& black,
                       const py::object& black_varnames) {
             return amp::op_lists(name_set(white), name_set(black), name_set(black_varnames));
           }),
           "custom_white_list"_a = none, "custom_black_list"_a = none,
           "custom_black_varnames"_a = none)
      .def_readwrite("white_list", &amp::OpLists::white)
      .def_readwrite("black_list", &amp::OpLists::black)
      .def_readwrite("gray_list", &amp::OpLists::gray)
      .def_readwrite("black_varnames", &amp::OpLists::black_varnames);
  m.def(
      "rewrite_program",
      [](Program& program, const amp::OpLists& lists, DType dtype) {
        amp::rewrite_program(program, lists, dtype);
      },
      "main_prog"_a, "amp_lists"_a, "dtype"_a = "float16");
  using Decorated = amp::OptimizerWithMixedPrecision;
  py::class_<Decorated, Optimizer, std::shared_ptr<Decorated>>(m, "OptimizerWithMixedPrecision",
                                                               py::dynamic_attr())
      .def(py::init([](const py::object& optimizer, const std::optional<amp::OpLists>& lists,
                       double init_loss_scaling, int incr_every_n_steps,
                       int decr_every_n_nan_or_inf, double incr_ratio, double decr_ratio,
                       bool use_dynamic_loss_scaling, DType dtype) {
             return std::make_shared<Decorated>(
                 kept<Optimizer>(optimizer),
                 amp::DecorateOptions{lists, init_loss_scaling, incr_every_n_steps,
                                      decr_every_n_nan_or_inf, incr_ratio, decr_ratio,
                                      use_dynamic_loss_scaling, dtype});
           }),
           "optimizer"_a, "amp_lists"_a, "init_loss_scaling"_a, "incr_every_n_steps"_a,
           "decr_every_n_nan_or_inf"_a, "incr_ratio"_a, "decr_ratio"_a,
           "use_dynamic_loss_scaling"_a, "dtype"_a = "float16")
      .def("get_loss_scaling", [](const Decorated& self) { return self.loss_scaling(); })
      .def("get_scaled_loss", [](const Decorated& self) { return self.scaled_loss(); });
}

}  // namespace trireme::binding
