// What a program says while it runs: print and assert.
#include <iostream>
#include <sstream>

#include "core/text.h"
#include "ir/schema.h"
#include "ops/run_context.h"

namespace trireme {
namespace {

// Element types as C++ names them: so the original prints them.
std::string_view type_text(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "float";
    case DType::float64:
      return "double";
    case DType::int64:
      return "long";
    case DType::int32:
      return "int";
    default:
      return name_of(dtype);
  }
}

std::string data_text(const Tensor& tensor, int64_t summarize) {
  const int64_t count =
      summarize < 0 ? tensor.numel() : std::min<int64_t>(summarize, tensor.numel());
  std::ostringstream text;
  text << '[';
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) text << ' ';
    const double value = element_as_double(tensor, i);
    if (is_floating(tensor.dtype())) {
      text << value;
    } else if (tensor.dtype() == DType::int64) {
      text << tensor.data<int64_t>()[i];
    } else {
      text << static_cast<int64_t>(value);
    }
  }
  text << ']';
  return text.str();
}

struct PrintForm {
  std::string name, message;
  bool type = true, shape = true, lod = true, layout = true;
  int64_t summarize = -1;

  std::string text(const Tensor& tensor) const {
    std::ostringstream out;
    if (!name.empty()) out << "Variable: " << name << '\n';
    if (!message.empty()) out << "  - message: " << message << '\n';
    if (lod) {
      out << "  - lod: {";
      for (const std::vector<int64_t>& level : tensor.lod()) out << '{' << join(level) << '}';
      out << "}\n";
    }
    out << "  - place: CPUPlace\n";
    if (shape) out << "  - shape: " << tensor.shape() << '\n';
    if (layout) out << "  - layout: NCHW\n";
    if (type) out << "  - dtype: " << type_text(tensor.dtype()) << '\n';
    out << "  - data: " << data_text(tensor, summarize) << '\n';
    return out.str();
  }
};

// How often a print op has printed in a scope: first_n counts over runs, whatever shapes they have.
struct PrintCount final : HostObject {
  int64_t count = 0;
  std::string describe() const override { return cat("printed ", count, " times"); }
};

int64_t count_print(const KernelArgs& k, const std::string& name) {
  Variable& slot = k.run->scope().var(name);
  std::shared_ptr<PrintCount> counter = slot.host<PrintCount>();
  if (!counter) {
    counter = std::make_shared<PrintCount>();
    slot.set_host(counter);
  }
  return ++counter->count;
}

bool prints_now(const OpView& op) {
  const auto phase = op.attr<std::string>("print_phase");
  const bool forward = op.attr<bool>("is_forward");
  return phase == "BOTH" || phase == (forward ? "FORWARD" : "BACKWARD");
}

KernelFn print(const KernelSite& site) {
  const ValueInfo& in = site.in("In");
  const PrintForm form{.name = site.attr<bool>("print_tensor_name") ? in.name : std::string(),
                       .message = site.attr<std::string>("message"),
                       .type = site.attr<bool>("print_tensor_type"),
                       .shape = site.attr<bool>("print_tensor_shape"),
                       .lod = site.attr<bool>("print_tensor_lod"),
                       .layout = site.attr<bool>("print_tensor_layout"),
                       .summarize = site.attr<int32_t>("summarize")};
  const int64_t first_n = site.attr<int32_t>("first_n");
  const bool prints = prints_now(site);
  const std::string counter = cat("@PRINT_COUNT@", site.out("Out").name);
  return [=](const KernelArgs& k) {
    const Variable& value = *k.ins[0];
    if (value.kind() != Kind::dense) {
      throw Error(ErrorKind::type_mismatch, cat("In is ", value.describe(), ", not a tensor"))
          .fix("print a dense tensor");
    }
    if (k.outs[0] != k.ins[0]) k.out(0).copy_from(value.tensor());
    if (!prints || (first_n > 0 && count_print(k, counter) > first_n)) return;
    // One write, so that lines of several runs do not mix.
    std::cout << form.text(value.tensor()) << std::flush;
  };
}

// The gradient passes as it is, and is printed if the phase asks for it.
void print_grad(GradMaker& g) {
  Attrs attrs = g.op().attrs();
  attrs["is_forward"] = false;
  g.append({.type = "print",
            .inputs = {{"In", g.out_grad("Out")}},
            .outputs = {{"Out", g.in_grad("In")}},
            .attrs = std::move(attrs)});
}

KernelFn check(const KernelSite& site) {
  const int data = site.position("Data");
  const int64_t summarize = site.attr<int64_t>("summarize");
  const std::string condition = site.in("Cond").name;
  std::vector<std::string> names;
  for (size_t i = 0; i < site.count("Data"); ++i) names.push_back(site.in("Data", i).name);
  return [=](const KernelArgs& k) {
    if (*k.in<bool>(0)) return;
    Error error(cat("the condition ", condition, " is false"));
    for (size_t i = 0; i < names.size(); ++i) {
      const Tensor& tensor = k.in(data + static_cast<int>(i));
      error.note(cat(names[i], "   ", tensor.describe(), "   ", data_text(tensor, summarize)));
    }
    throw error.fix("look at the data above, or change what is asserted");
  };
}

}  // namespace

void register_print(Registry& ops) {
  ops.op("print")
      .doc("Prints a tensor on standard output whenever it is computed; Out is In")
      .in("In", "any tensor")
      .out("Out", "the same")
      .attr("first_n", -1, "how many times to print; not positive: always")
      .attr("message", "", "a text to print with it")
      .attr("summarize", 20, "how many elements to print; negative: all")
      .attr("print_tensor_name", true, "print the variable's name")
      .attr("print_tensor_type", true, "print the element type")
      .attr("print_tensor_shape", true, "print the shape")
      .attr("print_tensor_layout", true, "print the layout")
      .attr("print_tensor_lod", true, "print the LoD")
      .attr("print_phase", "BOTH", "print the value, its gradient, or both")
      .one_of({"FORWARD", "BACKWARD", "BOTH"})
      .attr("is_forward", true, "False: In is a gradient")
      .shape(same_as("In"))
      .traits({.host = true, .effect = true, .inferred_ahead = true, .linear = true})
      .kernel(untyped(print))
      .grad_maker(print_grad)
      .sample([](Draw& draw) {
        OpSample sample;
        sample.inputs["In"] = {draw.uniform(draw.shape(1, 3))};
        // The forward value is silent: the tests run it often.
        sample.attrs["print_phase"] = std::string("BACKWARD");
        sample.attrs["first_n"] = 1;
        return sample;
      });

  ops.op("assert")
      .doc("Stops the run with an error that shows Data when the condition is false")
      .in("Cond", "one bool")
      .in_optional_list("Data", "what the error shows")
      .attr("summarize", int64_t{-1}, "how many elements of each to show; negative: all")
      .shape([](OpView& op) {
        const ValueInfo& condition = op.in("Cond");
        if ((!condition.known || condition.dtype == DType::boolean) &&
            condition.shape.numel().may_equal(1)) {
          return;
        }
        throw op
            .error(
                cat("Cond is ", name_of(condition.dtype), " ", condition.shape, ", not one bool"))
            .fix("compare, then join with reduce_all");
      })
      .traits({.host = true, .effect = true, .can_fail = true})
      .kernel(untyped(check));
}

}  // namespace trireme
