// Losses and metrics: layers/loss.h and layers/metric.h.
#include "layers/loss.h"

#include "layers/metric.h"
#include "python/binding/casters.h"

namespace trireme::binding {

using namespace pybind11::literals;

void bind_layers_loss(py::module_& m) {
  const py::object none = py::none();
  m.def(
      "cross_entropy",
      [](Var& input, Var& label, bool soft_label, int ignore_index) {
        return &layers::cross_entropy(input, label, {soft_label, ignore_index}, python_line());
      },
      "input"_a, "label"_a, "soft_label"_a = false, "ignore_index"_a = layers::kIgnoreIndex);
  m.def(
      "softmax_with_cross_entropy",
      [](Var& logits, Var& label, bool soft_label, int ignore_index, bool numeric_stable_mode,
         bool return_softmax, int axis) -> py::object {
        const layers::SoftmaxCrossEntropy result = layers::softmax_with_cross_entropy(
            logits, label, {soft_label, ignore_index, numeric_stable_mode, axis}, python_line());
        if (!return_softmax) return py::cast(&result.loss);
        return py::make_tuple(&result.loss, &result.softmax);
      },
      "logits"_a, "label"_a, "soft_label"_a = false, "ignore_index"_a = layers::kIgnoreIndex,
      "numeric_stable_mode"_a = true, "return_softmax"_a = false, "axis"_a = -1);
  m.def(
      "square_error_cost",
      [](Var& input, Var& label) {
        return &layers::square_error_cost(input, label, python_line());
      },
      "input"_a, "label"_a);
  m.def(
      "sigmoid_cross_entropy_with_logits",
      [](Var& x, Var& label, int ignore_index, const Text& name, bool normalize) {
        return &layers::sigmoid_cross_entropy_with_logits(x, label, {ignore_index, normalize, name},
                                                          python_line());
      },
      "x"_a, "label"_a, "ignore_index"_a = layers::kIgnoreIndex, "name"_a = none,
      "normalize"_a = false);
  m.def(
      "log_loss",
      [](Var& input, Var& label, double epsilon, const Text& name) {
        return &layers::log_loss(input, label, epsilon, name, python_line());
      },
      "input"_a, "label"_a, "epsilon"_a = 1e-4, "name"_a = none);
  m.def(
      "label_smooth",
      [](Var& label, Var* prior_dist, double epsilon, DType dtype, const Text& name) {
        return &layers::label_smooth(label, {prior_dist, epsilon, dtype, name}, python_line());
      },
      "label"_a, "prior_dist"_a = none, "epsilon"_a = 0.1, "dtype"_a = "float32", "name"_a = none);
  m.def(
      "mean", [](Var& x, const Text& name) { return &layers::mean(x, name, python_line()); }, "x"_a,
      "name"_a = none);

  m.def(
      "accuracy",
      [](Var& input, Var& label, int k, Var* correct, Var* total) {
        return &layers::accuracy(input, label, {k, correct, total}, python_line());
      },
      "input"_a, "label"_a, "k"_a = 1, "correct"_a = none, "total"_a = none);
  m.def(
      "auc",
      [](Var& input, Var& label, const std::string& curve, int num_thresholds, int topk,
         int slide_steps) {
        const layers::Auc result =
            layers::auc(input, label, {curve, num_thresholds, topk, slide_steps}, python_line());
        py::list states;
        for (Var* state : result.states) states.append(state);
        return py::make_tuple(&result.auc, &result.batch_auc, states);
      },
      "input"_a, "label"_a, "curve"_a = "ROC", "num_thresholds"_a = 4095, "topk"_a = 1,
      "slide_steps"_a = 1);
}

}  // namespace trireme::binding
