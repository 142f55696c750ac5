// Ops that stand for several: fused_elemwise_activation and coalesce_tensor.
#include <cstring>
#include <numeric>

#include "ops/rules.h"

namespace trireme {
namespace {

bool is_binary(const std::string& name) { return name.starts_with("elementwise_"); }

// {"relu", "elementwise_add"} is relu(X + Y), {"elementwise_add", "relu"} is X + relu(Y).
struct Composition {
  std::string binary, unary;
  bool unary_outside = false;

  explicit Composition(const OpView& op) {
    const auto names = op.attr<std::vector<std::string>>("functor_list");
    if (names.size() != 2 || is_binary(names[0]) == is_binary(names[1])) {
      throw op.error(cat("functor_list is [", join(names), "]"))
          .fix(
              "name one of elementwise_add, elementwise_mul and one of relu, scale, tanh, sigmoid");
    }
    unary_outside = is_binary(names[1]);
    binary = names[unary_outside ? 1 : 0];
    unary = names[unary_outside ? 0 : 1];
    const bool known =
        (binary == "elementwise_add" || binary == "elementwise_mul") &&
        (unary == "relu" || unary == "scale" || unary == "tanh" || unary == "sigmoid");
    if (!known) {
      throw op.error(cat("functor_list is [", join(names), "]"))
          .fix(
              "name one of elementwise_add, elementwise_mul and one of relu, scale, tanh, sigmoid");
    }
  }

  Expr apply_unary(Body& b, Expr x) const {
    if (unary == "relu") return maximum(x, 0.0);
    if (unary == "tanh") return tanh(x);
    if (unary == "sigmoid") return sigmoid(x);
    return x * static_cast<double>(b.attr<float>("scale"));
  }
  Expr apply_binary(Expr x, Expr y, int axis) const {
    place_at_axis(x, y, axis);
    return binary == "elementwise_add" ? x + y : x * y;
  }
};

void fused_shape(OpView& op) {
  const Composition parts(op);
  const ValueInfo& x = op.in("X");
  const Shape out = broadcast_shapes(op, x.shape, op.in("Y").shape, op.attr<int32_t>("axis"));
  op.set_out("Out", x.dtype, out);
  carry_lod(op, "Out", {"X", "Y"});
  op.set_out("IntermediateOut", x.dtype, parts.unary_outside ? out : op.in("Y").shape);
}

void fused_body(Body& b) {
  const Composition parts(b.op());
  const int axis = b.attr<int32_t>("axis");
  if (parts.unary_outside) {
    const Expr between = parts.apply_binary(b.in("X"), b.in("Y"), axis);
    b.out("IntermediateOut") = between;
    b.out("Out") = parts.apply_unary(b, between);
  } else {
    const Expr between = parts.apply_unary(b, b.in("Y"));
    b.out("IntermediateOut") = between;
    b.out("Out") = parts.apply_binary(b.in("X"), between, axis);
  }
}

// ---- coalesce_tensor

constexpr int64_t kAlignment =
    256;  // bytes between tensors in the fused buffer, as in the original

struct Layout {
  std::vector<int64_t> at;  // first element of every tensor
  int64_t size = 0;
};
Layout layout_of(const std::vector<int64_t>& counts, size_t element) {
  Layout layout;
  const auto step = kAlignment / static_cast<int64_t>(element);
  for (const int64_t count : counts) {
    layout.at.push_back(layout.size);
    layout.size += (count + step - 1) / step * step;
  }
  return layout;
}

// The outputs are views of one buffer: whoever changes it changes them.
KernelFn coalesce(const KernelSite& site) {
  const DType dtype = dtype_attr(site, "dtype");
  const auto count = static_cast<int>(site.count("Input"));
  const int first = site.out_position("Output"), fused = site.out_position("FusedOutput");
  const bool copies = site.attr<bool>("copy_data"), fills = site.attr<bool>("set_constant");
  const double constant = site.attr<float>("constant");
  const size_t out_count = site.out_count("Output");
  if (static_cast<size_t>(count) != out_count) {
    throw site.error(cat("Input has ", count, " tensors but Output has ", out_count))
        .fix("name one output for every input");
  }
  return [=](const KernelArgs& k) {
    std::vector<Tensor> sources;
    std::vector<int64_t> counts;
    for (int i = 0; i < count; ++i) {
      const Tensor& source = k.in(i);
      if (source.dtype() != dtype) {
        throw Error(ErrorKind::type_mismatch, cat("Input ", i, " is ", name_of(source.dtype()),
                                                  " but dtype says ", name_of(dtype)))
            .fix("coalesce tensors of one element type");
      }
      sources.push_back(source);  // keeps the memory while an output of the same name is replaced
      counts.push_back(source.numel());
    }
    const Layout layout = layout_of(counts, size_of(dtype));
    Tensor all = filled(dtype, {layout.size}, fills ? constant : 0.0);
    for (int i = 0; i < count; ++i) {
      const Tensor& source = sources[static_cast<size_t>(i)];
      const int64_t at = layout.at[static_cast<size_t>(i)];
      Tensor view = all.slice_rows(at, at + source.numel()).reshaped(source.shape());
      if (copies && source.numel() > 0) {
        std::memcpy(view.address(), source.address(), source.byte_size());
      }
      view.set_lod(source.lod());
      k.out(first + i) = view;
    }
    k.out(fused) = all;
  };
}

}  // namespace

void register_fused(Registry& ops) {
  OpSchema& row =
      ops.op("fused_elemwise_activation")
          .doc("An elementwise op and an activation: the first of functor_list of the second")
          .in("X", "floating point")
          .in("Y", "placed in X at axis, as elementwise ops do")
          .out("Out", "the result")
          .out_intermediate("IntermediateOut", "the inner result")
          .attr("axis", -1, "where Y stands in X")
          .attr("scale", 0.0f, "of the functor scale")
          .attr("save_intermediate_out", false, "IntermediateOut is wanted")
          .required_attr<std::vector<std::string>>("functor_list", "outer, inner")
          .shape(fused_shape)
          .body(fused_body)
          .grad({"X", "Y", "Out", "IntermediateOut"});
  for (const std::vector<std::string>& list :
       std::vector<std::vector<std::string>>{{"relu", "elementwise_add"},
                                             {"elementwise_add", "relu"},
                                             {"elementwise_mul", "scale"},
                                             {"scale", "elementwise_add"},
                                             {"tanh", "elementwise_mul"}}) {
    row.sample([list](Draw& draw) {
      OpSample sample;
      const int64_t columns = draw.size(1, 3);
      // Away from relu's kink: X is far above 0, Y near it on both sides.
      sample.inputs["X"] = {draw.uniform({draw.size(1, 3), columns}, 2, 3)};
      sample.inputs["Y"] = {away_from(draw.uniform({columns}), {0.0})};
      sample.attrs["functor_list"] = list;
      sample.attrs["scale"] = 0.5f;
      return sample;
    });
  }

  ops.op("coalesce_tensor")
      .doc("Lays tensors out in one buffer, of which the outputs are views")
      .in_list("Input", "tensors of one element type")
      .out_list("Output", "the same shapes, in the buffer")
      .out("FusedOutput", "the buffer; every tensor starts at a multiple of 256 bytes")
      .required_attr<int32_t>("dtype", "the element type")
      .attr("copy_data", false, "the outputs hold the inputs' values")
      .attr("set_constant", false, "the outputs hold `constant`")
      .attr("constant", 0.0f, "with set_constant")
      .attr("check_name", false, "accepted; changes no result")
      .shape([](OpView& op) {
        for (size_t i = 0; i < std::min(op.count("Input"), op.out_count("Output")); ++i) {
          const ValueInfo like = op.in("Input", i);
          ValueInfo& out = op.out("Output", i);
          out.dtype = like.dtype;
          out.shape = like.shape;
          out.lod_level = like.lod_level;
          out.lod = like.lod;
        }
        op.set_out("FusedOutput", dtype_attr(op, "dtype"), {Dim()});
      })
      .traits({.host = true})
      .kernel(untyped(coalesce));
}

}  // namespace trireme
