// py_func: an op whose kernel is a callable registered by number.
#include "ops/host/py_func.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include "core/text.h"
#include "ir/schema.h"

namespace trireme {
namespace {

// Callables stay where they are: a deque does not move them, and none is ever taken out.
struct Callables {
  std::mutex mutex;
  std::deque<PyFunc> list;
};

Callables& callables() {
  static Callables all;
  return all;
}

const PyFunc& callable(int id) {
  Callables& all = callables();
  const std::lock_guard lock(all.mutex);
  if (id < 0 || id >= static_cast<int>(all.list.size())) {
    throw Error(
        ErrorKind::not_found,
        cat("callable ", id, " is not registered in this process, which has ", all.list.size()))
        .fix("build the program in this process: a loaded one does not bring its Python functions");
  }
  return all.list[static_cast<size_t>(id)];
}

KernelFn call(const KernelSite& site) {
  const int id = site.attr<int32_t>("forward_callable_id");
  const size_t ins = site.in_size(), outs = site.out_size();
  return [=](const KernelArgs& k) {
    const std::vector<const Variable*> read(k.ins, k.ins + ins);
    callable(id)(read, std::vector<Variable*>(k.outs, k.outs + outs));
  };
}

// The same op with the backward callable. It reads the inputs and the outputs, less those that are
// to be skipped, then every gradient that arrives; it writes the inputs' gradients.
void py_func_grad(GradMaker& g) {
  const int backward = g.op().attr_or<int32_t>("backward_callable_id", -1);
  const std::vector<std::string> gradients = g.in_grad("X");
  if (backward < 0 || gradients.empty()) return;
  const auto skipped = g.op().attr_or<std::vector<std::string>>("backward_skip_vars", {});
  std::vector<std::string> reads;
  for (const std::string slot : {"X", "Out"}) {
    for (const std::string& name : slot == "X" ? g.in(slot) : g.out(slot)) {
      if (std::find(skipped.begin(), skipped.end(), name) == skipped.end()) reads.push_back(name);
    }
  }
  for (const std::string& name : g.out_grad("Out")) reads.push_back(name);
  g.append({.type = "py_func",
            .inputs = {{"X", reads}},
            .outputs = {{"Out", gradients}},
            .attrs = {{"forward_callable_id", backward},
                      {"backward_callable_id", -1},
                      {"backward_skip_vars", std::vector<std::string>{}}}});
}

}  // namespace

int register_py_func(PyFunc function) {
  Callables& all = callables();
  const std::lock_guard lock(all.mutex);
  all.list.push_back(std::move(function));
  return static_cast<int>(all.list.size()) - 1;
}

void register_py_func_ops(Registry& ops) {
  ops.op("py_func")
      .doc("Calls a function registered in this process; it reads X and fills Out")
      .in_optional_list("X", "what the function reads")
      .out_list("Out", "what it fills; declared with shape and type")
      .attr("forward_callable_id", 0, "the function's number")
      .at_least(0)
      .attr("backward_callable_id", -1, "the function that makes the gradients; -1: none")
      .attr("backward_skip_vars", std::vector<std::string>{},
            "inputs and outputs that the gradient does not read")
      .traits({.host = true, .effect = true, .no_inference = true})
      .kernel(untyped(call))
      .grad_maker(py_func_grad)
      .sample([](Draw& draw) {
        // y = x * x, and its gradient.
        static const int square = register_py_func([](const auto& ins, const auto& outs) {
          Tensor y = ins[0]->tensor().clone();
          for (int64_t i = 0; i < y.numel(); ++i) {
            if (y.dtype() == DType::float64) y.data<double>()[i] *= y.data<double>()[i];
            if (y.dtype() == DType::float32) y.data<float>()[i] *= y.data<float>()[i];
          }
          outs[0]->tensor() = y;
        });
        static const int back = register_py_func([](const auto& ins, const auto& outs) {
          const Tensor &x = ins[0]->tensor(), &grad = ins[2]->tensor();
          Tensor dx(x.dtype(), x.shape());
          for (int64_t i = 0; i < x.numel(); ++i) {
            dx.data<double>()[i] = 2 * x.data<double>()[i] * grad.data<double>()[i];
          }
          if (outs[0]) outs[0]->tensor() = dx;
        });
        OpSample sample;
        sample.inputs["X"] = {draw.uniform(draw.shape(1, 3))};
        sample.attrs["forward_callable_id"] = square;
        sample.attrs["backward_callable_id"] = back;
        return sample;
      });
}

}  // namespace trireme
