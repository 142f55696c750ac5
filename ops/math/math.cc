// Scaling, casting, clipping and other small arithmetic on one tensor; label_smooth and cos_sim.
#include <algorithm>

#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/tensor/row_order.h"

namespace trireme {
namespace {

void out_like_x(OpView& op) { op.set_out_like("Out", op.in("X")); }

void like_dense_x(OpView& op) {
  require_dense(op, "X");
  out_like_x(op);
}

SampleRule any_x(Attrs attrs = {}) {
  return [attrs](Draw& d) {
    return OpSample{.inputs = {{"X", {d.uniform(d.shape(1, 3))}}}, .attrs = attrs};
  };
}

// A kernel for SelectedRows in X: `each` maps the values, rows and height stay.
template <class F>
KernelMake on_rows(F make) {
  return [make](const KernelSite& site, std::string* why_not) -> std::optional<BoundKernel> {
    if (site.in("X").type != VarType::selected_rows) {
      if (why_not) *why_not = "X is dense";
      return std::nullopt;
    }
    return for_dtype<float, double>(site.in("X").dtype, why_not, [&]<class T>() {
      return [map = make.template operator()<T>(site)](const KernelArgs& k) {
        const SelectedRows& x = std::as_const(*k.ins[0]).rows();
        SelectedRows& out = k.outs[0]->rows();
        out.rows = x.rows;
        out.height = x.height;
        if (!x.rows.empty()) map(k, x, out);
      };
    });
  };
}

// ---- scale

Expr scale_of(Body& b, Expr x) {
  if (!b.has("ScaleTensor")) return constant(x, b.attr<float>("scale"));
  return cast(reshape(b.in("ScaleTensor"), {}), x.dtype());
}

void scale_body(Body& b) {
  const Expr x = b.in("X"), scale = scale_of(b, x);
  const double bias = b.attr<float>("bias");
  if (bias == 0) {
    b.out("Out") = x * scale;
  } else if (b.attr<bool>("bias_after_scale")) {
    b.out("Out") = x * scale + bias;
  } else {
    b.out("Out") = (x + bias) * scale;
  }
}

void scale_grad(GradMaker& g) {
  Slots inputs{{"X", g.out_grad("Out")}};
  if (!g.in("ScaleTensor").empty()) inputs["ScaleTensor"] = g.in("ScaleTensor");
  g.append({"scale",
            inputs,
            {{"Out", g.in_grad("X")}},
            {{"scale", g.op().attr_or<float>("scale", 1.0f)},
             {"bias", 0.0f},
             {"bias_after_scale", true}}});
}

template <class T>
auto scale_rows(const KernelSite& site) {
  const bool after = site.attr<bool>("bias_after_scale");
  const auto fixed = static_cast<T>(site.attr<float>("scale"));
  const auto bias = static_cast<T>(site.attr<float>("bias"));
  const int tensor = site.position("ScaleTensor");
  return [=](const KernelArgs& k, const SelectedRows& x, SelectedRows& out) {
    const T scale = k.has_in(tensor) ? static_cast<T>(element_as_double(k.in(tensor), 0)) : fixed;
    const T* from = x.value.data<T>();
    std::transform(from, from + x.value.numel(), out.value.data<T>(),
                   [=](T v) { return after ? v * scale + bias : (v + bias) * scale; });
  };
}

void register_scale(Registry& ops) {
  ops.op("scale")
      .traits({.linear = true})
      .in("X", "a tensor or SelectedRows")
      .in_optional("ScaleTensor", "one number; used instead of scale")
      .out("Out", "scale * X + bias, or scale * (X + bias)")
      .attr("scale", 1.0f, "the factor")
      .attr("bias", 0.0f, "what is added")
      .attr("bias_after_scale", true, "scale first, then add")
      .shape([](OpView& op) {
        require_numbers(op, "X");
        require_one_number(op, "ScaleTensor");
        out_like_x(op);
      })
      .body(scale_body)
      .kernel(on_rows([]<class T>(const KernelSite& site) { return scale_rows<T>(site); }),
              "selected_rows")
      .grad_maker(scale_grad)
      .no_grad({"ScaleTensor"})
      .inplace("X", "Out")
      .sample(any_x({{"scale", -1.5f}, {"bias", 0.5f}}))
      .sample(any_x({{"scale", 2.0f}, {"bias", 1.0f}, {"bias_after_scale", false}}))
      .sample([](Draw& d) {
        return OpSample{
            .inputs = {{"X", {d.uniform(d.shape(1, 3))}}, {"ScaleTensor", {d.uniform({1}, 1, 2)}}}};
      });
}

// ---- cast, clip, sign, increment

void cast_grad(GradMaker& g) {
  g.append({"cast",
            {{"X", g.out_grad("Out")}},
            {{"Out", g.in_grad("X")}},
            {{"in_dtype", g.op().attr<int32_t>("out_dtype")},
             {"out_dtype", g.op().attr<int32_t>("in_dtype")}}});
}

Expr bound_of(Body& b, Expr x, const char* slot, const char* attr) {
  if (!b.has(slot)) return constant(x, b.attr<float>(attr));
  return cast(reshape(b.in(slot), {}), x.dtype());
}

void clip_shape(OpView& op) {
  const float low = op.attr<float>("min"), high = op.attr<float>("max");
  if (!op.has("Min") && !op.has("Max") && low > high) {
    throw op.error(cat("min is ", low, " and max is ", high)).fix("make max at least min");
  }
  out_like_x(op);
}

// A row that is named twice stands for a sum: the sum is clipped. It goes to the first place, and
// the others become zero, so that the number of rows stays.
template <class T>
auto clip_rows(const KernelSite& site) {
  const auto low = static_cast<T>(site.attr<float>("min"));
  const auto high = static_cast<T>(site.attr<float>("max"));
  const int low_at = site.position("Min"), high_at = site.position("Max");
  return [=](const KernelArgs& k, const SelectedRows& x, SelectedRows& out) {
    const T least = k.has_in(low_at) ? static_cast<T>(element_as_double(k.in(low_at), 0)) : low;
    const T most = k.has_in(high_at) ? static_cast<T>(element_as_double(k.in(high_at), 0)) : high;
    const int64_t width = x.value.numel() / static_cast<int64_t>(x.rows.size());
    const T* from = x.value.data<T>();
    T* to = out.value.data<T>();
    for_each_distinct_row(x, [=](std::span<const PlacedRow> places) {
      T* sum = to + places.front().place * width;
      for (const PlacedRow& named : places) {
        T* at = to + named.place * width;
        for (int64_t j = 0; j < width; ++j) {
          const T value = from[named.place * width + j];
          if (at != sum) at[j] = T{0};
          sum[j] = (at == sum ? T{0} : sum[j]) + value;
        }
      }
      std::transform(sum, sum + width, sum,
                     [=](T v) { return std::min(std::max(v, least), most); });
    });
  };
}

// A loop counter is stepped back, as the original does; a real number passes its gradient on.
void increment_grad(GradMaker& g) {
  if (g.wants(g.in("X").at(0))) {
    g.append({"assign", {{"X", g.out_grad("Out")}}, {{"Out", g.in_grad("X")}}, {}});
  } else {
    g.append({"increment",
              {{"X", g.out("Out")}},
              {{"Out", g.in("X")}},
              {{"step", -g.op().attr_or<float>("step", 1.0f)}}});
  }
}

void register_small(Registry& ops) {
  ops.op("cast")
      .traits({.linear = true})
      .in("X", "any shape and type")
      .out("Out", "X in the type out_dtype")
      .required_attr<int32_t>("out_dtype", "the wanted type")
      .required_attr<int32_t>("in_dtype", "the type of X")
      .shape([](OpView& op) {
        like_dense_x(op);
        op.out("Out").dtype = dtype_attr(op, "out_dtype");
      })
      .body([](Body& b) {
        const Expr x = b.in("X"), out = cast(x, dtype_attr(b.op(), "out_dtype"));
        b.out("Out") = out.id() == x.id() ? reshape_like(x, x) : out;
      })
      .grad_maker(cast_grad)
      .sample(any_x({{"in_dtype", int32_t{6}}, {"out_dtype", int32_t{6}}}));
  ops.op("clip")
      .in("X", "a tensor or SelectedRows")
      .in_optional("Min", "one number; used instead of min")
      .in_optional("Max", "one number; used instead of max")
      .out("Out", "X cut to [min, max]")
      .required_attr<float>("min", "the smallest result")
      .required_attr<float>("max", "the largest result")
      .shape(clip_shape)
      .body([](Body& b) {
        const Expr x = b.in("X");
        b.out("Out") =
            minimum(maximum(x, bound_of(b, x, "Min", "min")), bound_of(b, x, "Max", "max"));
      })
      .kernel(on_rows([]<class T>(const KernelSite& site) { return clip_rows<T>(site); }),
              "selected_rows")
      .grad({"X", "Min", "Max"})
      .no_grad({"Min", "Max"})
      .inplace("X", "Out")
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {away_from(d.uniform(d.shape(1, 3)), {-0.5, 0.25})}}},
                        .attrs = {{"min", -0.5f}, {"max", 0.25f}}};
      });
  ops.op("sign")
      .in("X", "any shape")
      .out("Out", "-1, 0 or 1")
      .shape([](OpView& op) {
        require_numbers(op, "X");
        like_dense_x(op);
      })
      .body([](Body& b) { b.out("Out") = sign(b.in("X")); })
      .grad_maker([](GradMaker& g) {
        g.append({"scale",
                  {{"X", g.out_grad("Out")}},
                  {{"Out", g.in_grad("X")}},
                  {{"scale", 0.0f}, {"bias", 0.0f}, {"bias_after_scale", true}}});
      })
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {away_from(d.uniform(d.shape(1, 3)), {0})}}}};
      });
  ops.op("increment")
      .traits({.linear = true, .counts = true})
      .in("X", "one number")
      .out("Out", "X + step")
      .attr("step", 1.0f, "what is added")
      .shape([](OpView& op) {
        if (!op.in("X").shape.numel().may_equal(1)) {
          throw op.error(cat("X has shape ", op.in("X").shape, " but must be one number"))
              .fix("use scale(X, bias=step) for whole tensors");
        }
        like_dense_x(op);
      })
      .body([](Body& b) { b.out("Out") = b.in("X") + b.attr<float>("step"); })
      .grad_maker(increment_grad)
      .inplace("X", "Out")
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({1})}}}, .attrs = {{"step", 2.0f}}};
      });
}

// ---- label_smooth, cos_sim

void label_smooth_shape(OpView& op) {
  const Shape& x = op.in("X").shape;
  require_floating(op, "X");
  if (op.has("PriorDist")) {
    const Shape& prior = op.in("PriorDist").shape;
    if (!prior.numel().may_equal(x.back())) {
      throw op
          .error(cat("PriorDist ", prior, " has ", prior.numel(), " elements but X has ", x.back(),
                     " classes"))
          .fix("give one prior probability for every class");
    }
  }
  op.set_out_like("Out", op.in("X"));
}

void label_smooth_body(Body& b) {
  const Expr x = b.in("X");
  const double epsilon = b.attr<float>("epsilon");
  const Expr sharp = x * (1.0 - epsilon);
  if (b.has("PriorDist")) {
    b.out("Out") = sharp + reshape(b.in("PriorDist"), {-1}) * epsilon;
  } else if (const Dim classes = x.shape().back(); classes.known()) {
    b.out("Out") = sharp + epsilon / static_cast<double>(classes.value());
  } else {
    b.out("Out") = sharp + epsilon / emit("p.size_ratio", {x, reduce_sum(x, {-1})});
  }
}

void cos_sim_shape(OpView& op) {
  const ValueInfo &x = op.in("X"), &y = op.in("Y");
  require_floating(op, "X");
  if (x.shape.rank() < 2 || x.shape.rank() != y.shape.rank()) {
    throw op.error(cat("X has ", x.shape.rank(), " dimensions and Y ", y.shape.rank()))
        .fix("give both the same number of dimensions, at least two");
  }
  for (int d = 0; d < x.shape.rank(); ++d) {
    const bool one_row = d == 0 && y.shape[0] == Dim(1);
    if (!one_row && !x.shape[d].may_equal(y.shape[d])) {
      throw op.error(cat("dimension ", d, " is ", x.shape[d], " in X but ", y.shape[d], " in Y"))
          .fix("give Y the shape of X; only its first extent may be 1 instead");
    }
  }
  op.set_out("Out", x.dtype, {x.shape[0], 1});
  op.set_out("XNorm", x.dtype, {x.shape[0], 1});
  op.set_out("YNorm", x.dtype, {y.shape[0], 1});
  carry_lod(op, "Out", {"X"});
}

void cos_sim_body(Body& b) {
  const Expr x = flatten2d(b.in("X"), 1), y = flatten2d(b.in("Y"), 1);
  const Expr x_norm = sqrt(reduce_sum(square(x), {1}, true));
  const Expr y_norm = sqrt(reduce_sum(square(y), {1}, true));
  b.out("XNorm") = x_norm;
  b.out("YNorm") = y_norm;
  b.out("Out") = reduce_sum(x * y, {1}, true) / x_norm / y_norm;
}

void register_similarity(Registry& ops) {
  ops.op("label_smooth")
      .in("X", "class probabilities in the last dimension")
      .in_optional("PriorDist", "what is mixed in; all classes alike when absent")
      .out("Out", "(1 - epsilon) * X + epsilon * prior")
      .attr("epsilon", 0.0f, "the share of the prior")
      .between(0, 1)
      .shape(label_smooth_shape)
      .body(label_smooth_body)
      .grad({})
      .no_grad({"PriorDist"})
      .grad_body(
          [](Body& b) { b.out("X@GRAD") = b.in("Out@GRAD") * (1.0 - b.attr<float>("epsilon")); })
      .sample(any_x({{"epsilon", 0.1f}}))
      .sample([](Draw& d) {
        const Shape x = d.shape(2, 3);
        return OpSample{
            .inputs = {{"X", {d.uniform(x)}}, {"PriorDist", {d.uniform({1, x.back()})}}},
            .attrs = {{"epsilon", 0.3f}}};
      });
  ops.op("cos_sim")
      .in("X", "rows of numbers, at least two dimensions")
      .in("Y", "X's shape, or one row")
      .out("Out", "cosine of the angle between rows, [rows, 1]")
      .out_intermediate("XNorm", "lengths of X's rows")
      .out_intermediate("YNorm", "lengths of Y's rows")
      .shape(cos_sim_shape)
      .body(cos_sim_body)
      .grad({"X", "Y", "XNorm", "YNorm", "Out"})
      .sample([](Draw& d) {
        const Shape x = d.shape(2, 3);
        Shape y = x;
        if (d.coin()) y[0] = 1;
        return OpSample{.inputs = {{"X", {d.uniform(x, 0.2, 1)}}, {"Y", {d.uniform(y, 0.2, 1)}}}};
      });
}

}  // namespace

void register_math(Registry& ops) {
  register_scale(ops);
  register_small(ops);
  register_similarity(ops);
}

}  // namespace trireme
