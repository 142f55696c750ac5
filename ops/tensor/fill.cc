// Tensors made from attributes: constants, copies, shapes and ranges.
#include <cmath>
#include <cstring>

#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/tensor/fill.h"

namespace trireme {

FillNumber filled_number(const OpView& op) {
  const auto text = op.attr<std::string>("str_value");
  if (text.empty()) {
    const double value = op.attr<float>("value");
    return {value, std::isfinite(value) && std::abs(value) < 0x1p63 ? int64_t(value) : 0};
  }
  try {
    size_t used = 0;
    const double real = std::stod(text, &used);  // also "inf", "-inf" and "nan"
    if (used == text.size()) {
      const bool is_whole = text.find_first_not_of("+-0123456789") == std::string::npos;
      return {real, is_whole ? std::stoll(text) : int64_t(std::isfinite(real) ? real : 0)};
    }
  } catch (const std::logic_error&) {  // no number, or too large for one
  }
  throw op.error(cat("str_value is \"", text, "\", which is no number"))
      .fix("give a number such as \"0.5\", \"7\" or \"inf\"");
}

void fill_number(const Tensor& out, const FillNumber& number) {
  if (out.dtype() == DType::int64) {
    std::fill_n(out.data<int64_t>(), out.numel(), number.whole);
  } else {
    fill(out, number.real, 0, out.numel());
  }
}

namespace {

const std::vector<std::string> kShapeInputs = {"ShapeTensor", "ShapeTensorList"};

// ---- constants

// Extents from the attribute, or from tensors that are read when the plan is bound.
Shape wanted_shape(const OpView& op) {
  const auto attr = op.attr<std::vector<int64_t>>("shape");
  std::vector<int64_t> extents = attr;
  if (op.has("ShapeTensor")) {
    extents = read_ints(op, "ShapeTensor");
    const Dim rank = op.in("ShapeTensor").shape.numel();
    if (!op.in("ShapeTensor").value && rank.known()) {
      extents.assign(static_cast<size_t>(rank.value()), -1);
    }
  } else if (op.has("ShapeTensorList")) {
    extents.clear();
    for (size_t i = 0; i < op.count("ShapeTensorList"); ++i) {
      // Until the tensors are read, the attribute says which extents were given as numbers.
      const std::vector<int64_t> read = read_ints(op, "ShapeTensorList", i);
      const int64_t declared = i < attr.size() ? attr[i] : -1;
      extents.push_back(read.empty() ? declared : read[0]);
    }
  }
  const bool from_tensors = op.has("ShapeTensor") || op.has("ShapeTensorList");
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] < (from_tensors ? -1 : 0)) {
      throw op.error(cat("shape is [", join(extents), "]; extent ", i, " is negative"))
          .fix("give every extent a size of 0 or more");
    }
  }
  return Shape(std::span<const int64_t>(extents));
}

BoundKernel constant_kernel(const KernelSite& site) {
  const FillNumber number = filled_number(site);
  const int tensor = site.schema().find_input("ValueTensor") ? site.position("ValueTensor") : -1;
  return [=](const KernelArgs& k) {
    if (!k.has_in(tensor)) return fill_number(k.out(0), number);
    const Tensor& value = k.in(tensor);
    fill_number(k.out(0),
                {element_as_double(value, 0), cast(value, DType::int64).data<int64_t>()[0]});
  };
}

void batch_size_like_shape(OpView& op) {
  const ValueInfo& input = op.in("Input");
  const auto extents = op.attr<std::vector<int32_t>>("shape");
  const std::vector<int64_t> wide(extents.begin(), extents.end());
  Shape out{std::span<const int64_t>(wide)};
  const int from =
      normal_axis(op, op.attr<int32_t>("input_dim_idx"), input.shape.rank(), "input_dim_idx");
  const int to = normal_axis(op, op.attr<int32_t>("output_dim_idx"), out.rank(), "output_dim_idx");
  out[to] = input.shape[from];
  // The batch of a tensor with LoD is its number of sequences.
  if (from == 0 && !input.lod.empty()) {
    out[to] = static_cast<int64_t>(input.lod.back().size()) - 1;
  } else if (from == 0 && input.lod_level > 0) {
    out[to] = Dim();
  }
  op.set_out("Out", dtype_attr(op, "dtype"), out);
}

void register_constants(Registry& ops) {
  ops.op("fill_constant")
      .in_optional("ValueTensor", "one number; used instead of value")
      .in_optional("ShapeTensor", "the extents; used instead of shape")
      .in_optional_list("ShapeTensorList", "one extent each; used instead of shape")
      .out("Out", "the number everywhere")
      .attr("dtype", 5, "element type")
      .attr("shape", std::vector<int64_t>{}, "extents")
      .attr("value", 0.0f, "the number")
      .attr("str_value", "", "the number as text, exact; used instead of value when not empty")
      .attr("force_cpu", false, "keep the result on the CPU")
      .shape([](OpView& op) {
        filled_number(op);
        op.set_out("Out", dtype_attr(op, "dtype"), wanted_shape(op));
      })
      .kernel(untyped(constant_kernel))
      .traits({.reads_values = kShapeInputs, .fills = true, .linear = true});
  ops.op("fill_constant_batch_size_like")
      .in("Input", "one of its extents is taken")
      .out("Out", "the number everywhere")
      .required_attr<std::vector<int32_t>>("shape", "extents; one is replaced")
      .attr("input_dim_idx", 0, "which extent of Input is taken")
      .attr("output_dim_idx", 0, "which extent of shape it replaces")
      .attr("dtype", 5, "element type")
      .attr("value", 0.0f, "the number")
      .attr("str_value", "", "the number as text, exact; used instead of value when not empty")
      .attr("force_cpu", false, "keep the result on the CPU")
      .shape(batch_size_like_shape)
      .kernel(untyped(constant_kernel));
  ops.op("fill_zeros_like")
      .traits({.linear = true})
      .in("X", "its shape and type are taken")
      .out("Out", "zeros")
      .shape([](OpView& op) {
        require_dense(op, "X");
        op.set_out_like("Out", op.in("X"));
      })
      .body([](Body& b) { b.out("Out") = full_like(b.in("X"), 0.0); });
  ops.op("fill_any_like")
      .in("X", "its shape is taken")
      .out("Out", "the number everywhere")
      .attr("value", 0.0f, "the number")
      .attr("dtype", -1, "element type; -1: that of X")
      .shape([](OpView& op) {
        require_dense(op, "X");
        op.set_out_like("Out", op.in("X"));
        if (op.attr<int32_t>("dtype") >= 0) op.out("Out").dtype = dtype_attr(op, "dtype");
      })
      .body([](Body& b) {
        const Expr x = b.in("X");
        const DType dtype = b.attr<int32_t>("dtype") < 0 ? x.dtype() : dtype_attr(b.op(), "dtype");
        b.out("Out") = broadcast_like(constant(b.emitter(), dtype, b.attr<float>("value")), x);
      });
}

// ---- copies

BoundKernel assign_kernel(const KernelSite& site) {
  if (site.in("X").type == VarType::lod_tensor_array) {
    return [](const KernelArgs& k) { k.outs[0]->copy_from(*k.ins[0]); };
  }
  return [](const KernelArgs& k) {
    const SelectedRows& x = std::as_const(*k.ins[0]).rows();
    SelectedRows& out = k.outs[0]->rows();
    out.rows = x.rows;
    out.height = x.height;
    const auto bytes = x.value.bytes();
    if (!bytes.empty()) std::memcpy(out.value.address(), bytes.data(), bytes.size());
  };
}

void assign_value_shape(OpView& op) {
  const auto extents = op.attr<std::vector<int32_t>>("shape");
  const std::vector<int64_t> wide(extents.begin(), extents.end());
  const DType dtype = dtype_attr(op, "dtype");
  const size_t given =
      dtype == DType::float32   ? op.attr<std::vector<float>>("fp32_values").size()
      : dtype == DType::int32   ? op.attr<std::vector<int32_t>>("int32_values").size()
      : dtype == DType::int64   ? op.attr<std::vector<int64_t>>("int64_values").size()
      : dtype == DType::boolean ? op.attr<std::vector<int32_t>>("bool_values").size()
                                : 0;
  const Shape shape{std::span<const int64_t>(wide)};
  if (!shape.known() || shape.count() != static_cast<int64_t>(given)) {
    throw op
        .error(cat("shape [", join(extents), "] and ", given, " values of type ", name_of(dtype),
                   " do not fit"))
        .fix("give float32, int32, int64 or bool values, as many as the shape has elements");
  }
  op.set_out("Out", dtype, shape);
}

template <class T, class From>
BoundKernel values_kernel(const std::vector<From>& values) {
  return [values](const KernelArgs& k) {
    std::transform(values.begin(), values.end(), k.out<T>(0),
                   [](From value) { return static_cast<T>(value); });
  };
}

BoundKernel assign_value_kernel(const KernelSite& site) {
  switch (site.out("Out").dtype) {
    case DType::float32:
      return values_kernel<float>(site.attr<std::vector<float>>("fp32_values"));
    case DType::int32:
      return values_kernel<int32_t>(site.attr<std::vector<int32_t>>("int32_values"));
    case DType::int64:
      return values_kernel<int64_t>(site.attr<std::vector<int64_t>>("int64_values"));
    default:
      return values_kernel<bool>(site.attr<std::vector<int32_t>>("bool_values"));
  }
}

void register_copies(Registry& ops) {
  ops.op("assign")
      .traits({.linear = true})
      .in("X", "a tensor, SelectedRows or a tensor array")
      .out("Out", "a copy of X")
      .shape([](OpView& op) { op.set_out_like("Out", op.in("X")); })
      .body([](Body& b) { b.out("Out") = reshape_like(b.in("X"), b.in("X")); })
      .kernel(untyped(assign_kernel))
      .grad_maker([](GradMaker& g) {
        g.append({"assign", {{"X", g.out_grad("Out")}}, {{"Out", g.in_grad("X")}}, {}});
      })
      .inplace("X", "Out")
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform(d.shape(1, 3))}}}};
      });
  ops.op("assign_value")
      .out("Out", "the values")
      .required_attr<std::vector<int32_t>>("shape", "extents")
      .required_attr<int32_t>("dtype", "element type")
      .attr("bool_values", std::vector<int32_t>{}, "values of a bool tensor, 0 or 1")
      .attr("fp32_values", std::vector<float>{}, "values of a float32 tensor")
      .attr("int32_values", std::vector<int32_t>{}, "values of an int32 tensor")
      .attr("int64_values", std::vector<int64_t>{}, "values of an int64 tensor")
      .shape(assign_value_shape)
      .kernel(untyped(assign_value_kernel));
}

// ---- shape, range, diag

void range_shape(OpView& op) {
  const ValueInfo &start = op.in("Start"), &end = op.in("End"), &step = op.in("Step");
  Dim count;
  if (start.value && end.value && step.value) {
    const double from = element_as_double(start.value->tensor(), 0);
    const double to = element_as_double(end.value->tensor(), 0);
    const double by = element_as_double(step.value->tensor(), 0);
    if (by == 0 || (to - from) / by < 0) {
      throw op.error(cat("no steps of ", by, " lead from ", from, " to ", to))
          .fix("give a step other than 0 with the sign of End - Start");
    }
    count = static_cast<int64_t>(std::ceil((to - from) / by));
  }
  op.set_out("Out", start.dtype, Shape{count});
}

void register_shapes(Registry& ops) {
  ops.op("shape")
      .traits({.linear = true})
      .in("Input", "any shape and type")
      .out("Out", "the extents of Input, int32")
      .shape([](OpView& op) { op.set_out("Out", DType::int32, {op.in("Input").shape.rank()}); })
      .kernel(untyped([](const KernelSite& site) {
        return values_kernel<int32_t>(site.in("Input").shape.to_vector());
      }));
  ops.op("range")
      .in("Start", "one number: the first")
      .in("End", "one number: not reached")
      .in("Step", "one number: the distance")
      .out("Out", "Start, Start + Step, ...")
      .shape(range_shape)
      .kernel(typed_by<float, double, int32_t, int64_t>(
          "Start",
          []<class T>(const KernelSite&) {
            return [](const KernelArgs& k) {
              const T start = *k.in<T>(0), step = *k.in<T>(2);
              T* out = k.out<T>(0);
              const int64_t n = k.out(0).numel();
              for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(start + step * T(i));
            };
          }))
      .traits({.reads_values = {"Start", "End", "Step"}});
  ops.op("diag")
      .in("Diagonal", "one dimension")
      .out("Out", "a square matrix with Diagonal on its diagonal and zeros elsewhere")
      .shape([](OpView& op) {
        const ValueInfo& diagonal = op.in("Diagonal");
        if (diagonal.shape.rank() != 1) {
          throw op.error(cat("Diagonal has ", diagonal.shape.rank(), " dimensions"))
              .fix("give it one dimension");
        }
        op.set_out("Out", diagonal.dtype, {diagonal.shape[0], diagonal.shape[0]});
      })
      .kernel(typed_by<float, double, int32_t, int64_t>("Diagonal", []<class T>(const KernelSite&) {
        return [](const KernelArgs& k) {
          const int64_t n = k.in(0).numel();
          T* out = k.out<T>(0);
          std::fill_n(out, n * n, T{0});
          for (int64_t i = 0; i < n; ++i) out[i * n + i] = k.in<T>(0)[i];
        };
      }));
}

}  // namespace

void register_fill(Registry& ops) {
  register_constants(ops);
  register_copies(ops);
  register_shapes(ops);
}

}  // namespace trireme
