// Reductions: mean, the reduce_* ops, norms, and running sums.
#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

using Fold = Expr (*)(Expr, const std::vector<int>&, bool);

std::vector<int> reduced_axes(const OpView& op) {
  const int rank = op.in("X").shape.rank();
  if (op.attr<bool>("reduce_all")) return normal_axes(op, {}, rank, "dim");
  return normal_axes(op, op.attr<std::vector<int32_t>>("dim"), rank, "dim");
}

void reduce_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  require_dense(op, "X");
  const std::vector<int> axes = reduced_axes(op);
  const bool keep = op.attr<bool>("keep_dim");
  Shape out = x.shape;
  for (size_t i = axes.size(); i > 0; --i) {
    if (keep) {
      out[axes[i - 1]] = 1;
    } else {
      out.erase(axes[i - 1]);
    }
  }
  if (out.rank() == 0) out = {1};
  const DType dtype = op.attr<int32_t>("out_dtype") < 0 ? x.dtype : dtype_attr(op, "out_dtype");
  op.set_out("Out", dtype, out);
  if (!axes.empty() && axes[0] != 0) carry_lod(op, "Out", {"X"});
}

OpSchema& reduction_row(Registry& ops, const char* name, const char* doc, Fold fold) {
  return ops.op(name)
      .in("X", "any shape")
      .out("Out", doc)
      .attr("dim", std::vector<int32_t>{0},
            "the dimensions to fold; negative ones count from the end")
      .attr("keep_dim", false, "folded dimensions stay, with extent 1")
      .attr("reduce_all", false, "fold all dimensions, whatever dim says")
      .attr("in_dtype", -1, "X's type, for the record")
      .attr("out_dtype", -1, "X is cast to this type first; -1: it is not")
      .shape(reduce_shape)
      .body([fold](Body& b) {
        Expr x = b.in("X");
        if (b.attr<int32_t>("out_dtype") >= 0) x = cast(x, dtype_attr(b.op(), "out_dtype"));
        const std::vector<int> axes = reduced_axes(b.op());
        const Expr out = fold(x, axes, b.attr<bool>("keep_dim"));
        b.out("Out") = out.rank() == 0 ? reshape(out, {1}) : out;
      });
}

void add_reduction_samples(OpSchema& row, Tensor (*values)(Draw&, const Shape&)) {
  row.sample([values](Draw& d) {
    const Shape x = d.shape(1, 4);
    const auto axis = static_cast<int32_t>(d.size(0, x.rank() - 1));
    return OpSample{.inputs = {{"X", {values(d, x)}}},
                    .attrs = {{"dim", std::vector<int32_t>{d.coin() ? axis : axis - x.rank()}},
                              {"keep_dim", d.coin()}}};
  });
  row.sample([values](Draw& d) {
    return OpSample{.inputs = {{"X", {values(d, d.shape(3, 3))}}},
                    .attrs = {{"dim", std::vector<int32_t>{2, 0}}, {"keep_dim", d.coin()}}};
  });
  row.sample([values](Draw& d) {
    return OpSample{.inputs = {{"X", {values(d, d.shape(1, 3))}}},
                    .attrs = {{"reduce_all", true}, {"keep_dim", d.coin()}}};
  });
}

void require_bool_x(OpView& op) {
  const ValueInfo& x = op.in("X");
  if (x.known && x.dtype != DType::boolean) {
    throw Error(ErrorKind::type_mismatch, cat("X holds ", name_of(x.dtype), " but must hold bool"))
        .fix("compare first, or cast X to bool");
  }
  reduce_shape(op);
}

void register_reductions(Registry& ops) {
  const auto plain = [](Draw& d, const Shape& shape) { return d.uniform(shape); };
  const auto distinct = [](Draw& d, const Shape& shape) { return d.distinct(shape); };
  const auto positive = [](Draw& d, const Shape& shape) { return d.uniform(shape, 0.5, 1.5); };
  add_reduction_samples(
      reduction_row(ops, "reduce_sum", "sum of X", &reduce_sum).grad({"X"}).second_grad_is_itself(),
      plain);
  add_reduction_samples(reduction_row(ops, "reduce_mean", "mean of X", &reduce_mean)
                            .shape([](OpView& op) {
                              if (op.attr<int32_t>("out_dtype") < 0) require_floating(op, "X");
                              reduce_shape(op);
                            })
                            .traits({.averages = true})
                            .grad({"X"})
                            .second_grad_is_itself(),
                        plain);
  add_reduction_samples(
      reduction_row(ops, "reduce_max", "largest element of X", &reduce_max).grad({"X", "Out"}),
      distinct);
  add_reduction_samples(
      reduction_row(ops, "reduce_min", "smallest element of X", &reduce_min).grad({"X", "Out"}),
      distinct);
  add_reduction_samples(
      reduction_row(ops, "reduce_prod", "product of X", &reduce_prod).grad({"X", "Out"}), positive);
  reduction_row(ops, "reduce_all", "whether all of X holds", &reduce_all).shape(require_bool_x);
  reduction_row(ops, "reduce_any", "whether some of X holds", &reduce_any).shape(require_bool_x);
}

// ---- a whole tensor to one number

SampleRule any_rows() {
  return [](Draw& d) { return OpSample{.inputs = {{"X", {d.uniform(d.shape(1, 4))}}}}; };
}

void one_number(OpView& op) {
  require_dense(op, "X");
  require_floating(op, "X");
  op.set_out("Out", op.in("X").dtype, {1});
}

void norm_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  require_floating(op, "X");
  Shape norm = x.shape;
  norm[normal_axis(op, op.attr<int32_t>("axis"), x.shape.rank())] = 1;
  op.set_out("Norm", x.dtype, norm);
  op.set_out_like("Out", x);
}

void register_whole(Registry& ops) {
  ops.op("mean")
      .traits({.averages = true})
      .in("X", "any shape, floating point")
      .out("Out", "the mean of all elements, shape [1]")
      .shape(one_number)
      .body([](Body& b) { b.out("Out") = reshape(reduce_mean(b.in("X")), {1}); })
      .grad({"X"})
      .second_grad_is_itself()
      .sample(any_rows());
  ops.op("squared_l2_norm")
      .in("X", "any shape, floating point")
      .out("Out", "the sum of all squares, shape [1]")
      .shape(one_number)
      .body([](Body& b) { b.out("Out") = reshape(reduce_sum(square(b.in("X"))), {1}); })
      .grad({"X"})
      .sample(any_rows());
  ops.op("norm")
      .in("X", "any shape, floating point")
      .out_intermediate("Norm", "length of X along the axis, whose extent becomes 1")
      .out("Out", "X / Norm")
      .required_attr<int32_t>("axis", "the dimension that gets length 1")
      .attr("epsilon", 1.0e-10f, "added to the sum of squares")
      .shape(norm_shape)
      .body([](Body& b) {
        const Expr x = b.in("X");
        const Expr squares = reduce_sum(square(x), {b.attr<int32_t>("axis")}, true);
        const Expr length = sqrt(squares + b.attr<float>("epsilon"));
        b.out("Norm") = length;
        b.out("Out") = x / length;
      })
      .grad({"X", "Norm"})
      .sample([](Draw& d) {
        const Shape x = d.shape(1, 4);
        const auto axis = static_cast<int32_t>(d.size(-x.rank(), x.rank() - 1));
        return OpSample{.inputs = {{"X", {away_from(d.uniform(x), {0})}}},
                        .attrs = {{"axis", axis}}};
      });
}

// ---- running sums

struct Line {  // one axis of a tensor: `outer` x `length` x `inner`
  int64_t outer, length, inner;
};

Line line_of(const KernelSite& site) {
  const Shape& x = site.in("X").shape;
  if (site.attr<bool>("flatten")) return {1, x.count(), 1};
  const int axis = normal_axis(site, site.attr<int32_t>("axis"), x.rank());
  return {x.product(0, axis).value(), x.at(axis), x.product(axis + 1, x.rank()).value()};
}

template <class T>
BoundKernel cumsum_kernel(const KernelSite& site) {
  const Line line = line_of(site);
  const bool exclusive = site.attr<bool>("exclusive"), reverse = site.attr<bool>("reverse");
  return {[=](const KernelArgs& k) {
            const auto [begin, end] = k.range(line.outer);
            for (int64_t o = begin; o < end; ++o) {
              for (int64_t i = 0; i < line.inner; ++i) {
                const T* x = k.in<T>(0) + o * line.length * line.inner + i;
                T* out = k.out<T>(0) + o * line.length * line.inner + i;
                T sum = 0;
                for (int64_t step = 0; step < line.length; ++step) {
                  const int64_t at = (reverse ? line.length - 1 - step : step) * line.inner;
                  const T value = x[at];
                  out[at] = exclusive ? sum : sum + value;
                  sum += value;
                }
              }
            }
          },
          static_cast<int>(std::clamp<int64_t>(line.outer, 1, 64))};
}

void cumsum_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  require_dense(op, "X");
  if (op.attr<bool>("flatten")) {
    op.set_out("Out", x.dtype, Shape{x.shape.numel()});
    return;
  }
  normal_axis(op, op.attr<int32_t>("axis"), x.shape.rank());
  op.set_out_like("Out", x);
}

// The gradient of a running sum is the running sum of the gradient from the other end.
void cumsum_grad(GradMaker& g) {
  if (g.op().attr_or<bool>("flatten", false)) {
    throw Error(ErrorKind::unimplemented, "the gradient of cumsum with flatten=True is not there")
        .fix("reshape X to one dimension before cumsum");
  }
  g.append({"cumsum",
            {{"X", g.out_grad("Out")}},
            {{"Out", g.in_grad("X")}},
            {{"axis", g.op().attr_or<int32_t>("axis", -1)},
             {"exclusive", g.op().attr_or<bool>("exclusive", false)},
             {"reverse", !g.op().attr_or<bool>("reverse", false)}}});
}

void register_cumsum(Registry& ops) {
  ops.op("cumsum")
      .traits({.linear = true})
      .in("X", "any shape")
      .out("Out", "sums of X from the start of the axis up to each element")
      .attr("axis", -1, "the dimension along which to add up")
      .attr("flatten", false, "add up all elements in order; Out has one dimension")
      .attr("exclusive", false, "leave the element itself out")
      .attr("reverse", false, "start at the end")
      .shape(cumsum_shape)
      .kernel(typed_by<float, double, int32_t, int64_t>(
          "X", []<class T>(const KernelSite& site) { return cumsum_kernel<T>(site); }))
      .grad_maker(cumsum_grad)
      .sample([](Draw& d) {
        const Shape x = d.shape(1, 3);
        const auto axis = static_cast<int32_t>(d.size(-x.rank(), x.rank() - 1));
        return OpSample{.inputs = {{"X", {d.uniform(x)}}},
                        .attrs = {{"axis", axis}, {"exclusive", d.coin()}, {"reverse", d.coin()}}};
      });
}

}  // namespace

void register_reduce(Registry& ops) {
  register_reductions(ops);
  register_whole(ops);
  register_cumsum(ops);
}

}  // namespace trireme
