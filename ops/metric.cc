// Metrics and order: top_k, argsort, arg_max and arg_min, accuracy, auc.
#include <cmath>
#include <cstring>
#include <numeric>

#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

// One axis of a tensor as lines: line l holds `length` elements, `step` apart.
struct Lines {
  int64_t count = 0, length = 0, step = 1;

  Lines(const Shape& shape, int axis)
      : count(shape.product(0, axis).value() * shape.product(axis + 1, shape.rank()).value()),
        length(shape.at(axis)),
        step(shape.product(axis + 1, shape.rank()).value()) {}
  int64_t start(int64_t line) const { return line / step * step * length + line % step; }
};

// Whether `a` comes before `b`: NaN counts as the largest, equals keep their order.
template <class T>
bool before(T a, int64_t a_index, T b, int64_t b_index, bool descending) {
  const bool a_nan = a != a, b_nan = b != b;
  if (a_nan != b_nan) return a_nan == descending;
  if (!a_nan && a != b) return descending ? a > b : a < b;
  return a_index < b_index;
}

// The first k of each line in order, with their places. k == length sorts.
template <class T>
BoundKernel order_kernel(const KernelSite& site, int axis, bool descending) {
  const Lines from(site.in("X").shape, axis);
  const Lines to(site.out("Out").shape, axis);
  const int x_at = site.position("X");
  const int out_at = site.out_position("Out"), indices_at = site.out_position("Indices");
  return {[=](const KernelArgs& k) {
            std::vector<int64_t> order(static_cast<size_t>(from.length));
            const auto [begin, end] = k.range(from.count);
            for (int64_t line = begin; line < end; ++line) {
              const T* x = k.in<T>(x_at) + from.start(line);
              std::iota(order.begin(), order.end(), int64_t{0});
              std::partial_sort(
                  order.begin(), order.begin() + to.length, order.end(), [&](int64_t a, int64_t b) {
                    return before(x[a * from.step], a, x[b * from.step], b, descending);
                  });
              for (int64_t i = 0; i < to.length; ++i) {
                const int64_t place = order[static_cast<size_t>(i)];
                const int64_t at = to.start(line) + i * to.step;
                if (k.has_out(out_at)) k.out<T>(out_at)[at] = x[place * from.step];
                if (k.has_out(indices_at)) k.out<int64_t>(indices_at)[at] = place;
              }
            }
          },
          static_cast<int>(std::clamp<int64_t>(from.count / 16, 1, 64))};
}

// Each gradient goes back to the place its value came from; all other places get zero.
template <class T>
BoundKernel order_grad_kernel(const KernelSite& site, int axis) {
  const Lines from(site.in("Out@GRAD").shape, axis);
  const Lines to(site.out("X@GRAD").shape, axis);
  const int grad_at = site.position("Out@GRAD"), indices_at = site.position("Indices");
  const int64_t total = site.out("X@GRAD").shape.count();
  return [=](const KernelArgs& k) {
    const T* grad = k.in<T>(grad_at);
    const auto* indices = k.in<int64_t>(indices_at);
    T* out = k.out<T>(0);
    std::fill_n(out, total, T{0});
    for (int64_t line = 0; line < from.count; ++line) {
      for (int64_t i = 0; i < from.length; ++i) {
        const int64_t at = from.start(line) + i * from.step;
        out[to.start(line) + indices[at] * to.step] += grad[at];
      }
    }
  };
}

int axis_of(const OpView& op, const Shape& shape) {
  if (!op.has_attr("axis")) return shape.rank() - 1;
  return normal_axis(op, static_cast<int>(op.attr<int32_t>("axis")), shape.rank());
}

void top_k_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  const int axis = axis_of(op, x.shape);
  Dim k = op.attr<int32_t>("k");
  if (op.has("K")) {
    const std::vector<int64_t> read = read_ints(op, "K");
    k = read.empty() ? Dim() : Dim(read[0]);
  }
  if (k.known() && (k.value() < 1 || (x.shape[axis].known() && k.value() > x.shape.at(axis)))) {
    throw op
        .error(cat("k is ", k, " but dimension ", axis, " of X ", x.shape, " has ", x.shape[axis],
                   " elements"))
        .fix("choose k from 1 to that number");
  }
  Shape out = x.shape;
  out[axis] = k;
  op.set_out("Out", x.dtype, out);
  op.set_out("Indices", DType::int64, out);
  carry_lod(op, "Out", {"X"});
  carry_lod(op, "Indices", {"X"});
}

OpSchema& with_order_grad(OpSchema& row) {
  return row.grad({"X", "Indices"})
      .grad_outs({"Out"})
      .grad_kernel(typed_by<float, double>("Out@GRAD", []<class T>(const KernelSite& site) {
        return order_grad_kernel<T>(site, axis_of(site, site.in("X").shape));
      }));
}

void register_top_k(Registry& ops) {
  OpSchema& old = ops.op("top_k")
                      .in("X", "any shape")
                      .in_optional("K", "one whole number; used instead of k")
                      .out("Out", "the k largest of each row, largest first")
                      .out("Indices", "their places, int64")
                      .attr("k", 1, "how many")
                      .shape(top_k_shape)
                      .kernel(typed_by<float, double, int32_t, int64_t>(
                          "X",
                          []<class T>(const KernelSite& site) {
                            return order_kernel<T>(site, axis_of(site, site.in("X").shape), true);
                          }))
                      .no_grad({"K"})
                      .traits({.reads_values = {"K"}});
  with_order_grad(old).sample([](Draw& d) {
    const Shape x = d.shape(1, 3);
    const auto k = static_cast<int32_t>(d.size(1, x.back().value()));
    return OpSample{.inputs = {{"X", {d.distinct(x)}}}, .attrs = {{"k", k}}};
  });

  OpSchema& row = ops.op("top_k_v2")
                      .in("X", "any shape")
                      .in_optional("K", "one whole number; used instead of k")
                      .out("Out", "the k largest (or smallest) along the axis, in order")
                      .out("Indices", "their places, int64")
                      .attr("k", 1, "how many")
                      .attr("axis", -1, "the dimension to search")
                      .attr("largest", true, "the largest; else the smallest")
                      .attr("sorted", true, "results are in order either way")
                      .shape(top_k_shape)
                      .kernel(typed_by<float, double, int32_t, int64_t>(
                          "X",
                          []<class T>(const KernelSite& site) {
                            return order_kernel<T>(site, axis_of(site, site.in("X").shape),
                                                   site.attr<bool>("largest"));
                          }))
                      .no_grad({"K"})
                      .traits({.reads_values = {"K"}});
  with_order_grad(row).sample([](Draw& d) {
    const Shape x = d.shape(1, 3);
    const auto axis = static_cast<int32_t>(d.size(0, x.rank() - 1));
    const auto k = static_cast<int32_t>(d.size(1, x.at(axis)));
    return OpSample{.inputs = {{"X", {d.distinct(x)}}},
                    .attrs = {{"k", k}, {"axis", axis}, {"largest", d.coin()}}};
  });

  OpSchema& sort = ops.op("argsort")
                       .in("X", "any shape")
                       .out("Out", "X in order along the axis")
                       .out("Indices", "where each value was, int64")
                       .attr("axis", -1, "the dimension to sort")
                       .attr("descending", false, "largest first")
                       .shape([](OpView& op) {
                         axis_of(op, op.in("X").shape);
                         op.set_out_like("Out", op.in("X"));
                         op.set_out_like("Indices", op.in("X"));
                         if (op.wants("Indices")) op.out("Indices").dtype = DType::int64;
                       })
                       .kernel(typed_by<float, double, int32_t, int64_t>(
                           "X", []<class T>(const KernelSite& site) {
                             return order_kernel<T>(site, axis_of(site, site.in("X").shape),
                                                    site.attr<bool>("descending"));
                           }));
  with_order_grad(sort).sample([](Draw& d) {
    const Shape x = d.shape(1, 3);
    const auto axis = static_cast<int32_t>(d.size(-x.rank(), x.rank() - 1));
    return OpSample{.inputs = {{"X", {d.distinct(x)}}},
                    .attrs = {{"axis", axis}, {"descending", d.coin()}}};
  });
}

// ---- arg_max, arg_min

int arg_axis(const OpView& op) {
  return normal_axis(op, static_cast<int>(op.attr<int64_t>("axis")), op.in("X").shape.rank());
}

void arg_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  const int axis = arg_axis(op);
  Shape out = x.shape;
  if (op.attr<bool>("keepdims")) {
    out[axis] = 1;
  } else {
    out.erase(axis);
  }
  if (out.rank() == 0) out = {1};
  const DType dtype = op.attr<int32_t>("dtype") < 0 ? DType::int64 : dtype_attr(op, "dtype");
  if (!is_integer(dtype)) {
    throw op.error(cat("dtype is ", name_of(dtype))).fix("use int32 or int64");
  }
  op.set_out("Out", dtype, out);
}

template <class T>
BoundKernel arg_kernel(const KernelSite& site, bool largest) {
  const Lines lines(site.in("X").shape, arg_axis(site));
  if (lines.length == 0 && lines.count > 0) {
    throw site.error(cat("X ", site.in("X").shape, " has no elements along the axis"))
        .fix("give X at least one element there");
  }
  const bool narrow = site.out("Out").dtype == DType::int32;
  return [=](const KernelArgs& k) {
    for (int64_t line = 0; line < lines.count; ++line) {
      const T* x = k.in<T>(0) + lines.start(line);
      int64_t best = 0;
      for (int64_t i = 1; i < lines.length; ++i) {
        if (before(x[i * lines.step], i, x[best * lines.step], best, largest)) best = i;
      }
      if (narrow) {
        k.out<int32_t>(0)[line] = static_cast<int32_t>(best);
      } else {
        k.out<int64_t>(0)[line] = best;
      }
    }
  };
}

void register_args(Registry& ops) {
  for (const bool largest : {true, false}) {
    ops.op(largest ? "arg_max" : "arg_min")
        .in("X", "any shape")
        .out("Out", largest ? "place of the largest" : "place of the smallest")
        .required_attr<int64_t>("axis", "the dimension to search")
        .attr("keepdims", false, "the searched dimension stays, with extent 1")
        .attr("dtype", -1, "int32 or int64; -1: int64")
        .shape(arg_shape)
        .kernel(typed_by<float, double, int32_t, int64_t>(
            "X",
            [largest]<class T>(const KernelSite& site) { return arg_kernel<T>(site, largest); }));
  }
}

// ---- accuracy

void accuracy_shape(OpView& op) {
  const ValueInfo &indices = op.in("Indices"), &label = op.in("Label");
  if (indices.shape.rank() != 2 || label.shape.rank() != 2 || !label.shape[1].may_equal(1) ||
      !indices.shape[0].may_equal(label.shape[0])) {
    throw op.error(cat("Indices has shape ", indices.shape, " and Label ", label.shape))
        .fix("give Indices [rows, k] and Label [rows, 1]");
  }
  op.set_out("Accuracy", op.in("Out").dtype, {1});
  op.set_out("Correct", DType::int32, {1});
  op.set_out("Total", DType::int32, {1});
}

BoundKernel accuracy_kernel(const KernelSite& site) {
  const int64_t rows = site.in("Indices").shape.at(0), columns = site.in("Indices").shape.at(1);
  const bool narrow = site.in("Label").dtype == DType::int32;
  return [=](const KernelArgs& k) {
    const auto* indices = k.in<int64_t>(1);
    int64_t correct = 0;
    for (int64_t row = 0; row < rows; ++row, indices += columns) {
      const int64_t label = narrow ? k.in<int32_t>(2)[row] : k.in<int64_t>(2)[row];
      if (std::find(indices, indices + columns, label) != indices + columns) ++correct;
    }
    const double share = rows == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(rows);
    if (k.has_out(0)) fill(k.out(0), share, 0, 1);
    if (k.has_out(1)) *k.out<int32_t>(1) = static_cast<int32_t>(correct);
    if (k.has_out(2)) *k.out<int32_t>(2) = static_cast<int32_t>(rows);
  };
}

// ---- auc

// How the counts lie in StatPos and StatNeg, for b buckets and s sliding steps:
//   s = 0: [b], all batches so far;
//   [s, b]: the last s batches, the newest last;
//   [(s + 1) b + 1]: a ring of s batches, their sum, and the number of batches so far.
struct AucLayout {
  int64_t buckets, steps;
  bool ring;

  static AucLayout of(const OpView& op) {
    const int64_t buckets = int64_t{op.attr<int32_t>("num_thresholds")} + 1;
    const int64_t steps = op.attr<int32_t>("slide_steps");
    const Dim size = op.in("StatPos").shape.numel();
    const int64_t ring = (steps + 1) * buckets + 1, rows = std::max<int64_t>(steps, 1) * buckets;
    for (const char* slot : {"StatPos", "StatNeg"}) {
      const Dim given = op.in(slot).shape.numel();
      if (given.may_equal(rows) || (steps > 0 && given.may_equal(ring))) continue;
      throw op
          .error(cat(slot, " has ", given, " counts, but num_thresholds ", buckets - 1,
                     " and slide_steps ", steps, " need ", rows))
          .fix(cat("give ", slot, " the shape [", std::max<int64_t>(steps, 1), ", ", buckets, "]"));
    }
    return {buckets, steps, steps > 0 && size == Dim(ring)};
  }

  // Takes the counts of a batch in, and says where the sums to judge by are.
  const int64_t* add(const std::vector<int64_t>& batch, int64_t* stat,
                     std::vector<int64_t>& sums) const {
    const auto add_to = [&](int64_t* counts, int64_t sign, const int64_t* from) {
      for (int64_t i = 0; i < buckets; ++i) counts[i] += sign * from[i];
    };
    if (steps == 0) {
      add_to(stat, 1, batch.data());
      return stat;
    }
    if (ring) {
      int64_t* total = stat + steps * buckets;
      int64_t& batches = stat[(steps + 1) * buckets];
      int64_t* oldest = stat + batches % steps * buckets;
      add_to(total, -1, oldest);
      std::copy(batch.begin(), batch.end(), oldest);
      add_to(total, 1, oldest);
      ++batches;
      return total;
    }
    std::copy(stat + buckets, stat + steps * buckets, stat);
    std::copy(batch.begin(), batch.end(), stat + (steps - 1) * buckets);
    sums.assign(static_cast<size_t>(buckets), 0);
    for (int64_t step = 0; step < steps; ++step) add_to(sums.data(), 1, stat + step * buckets);
    return sums.data();
  }
};

// Walks the threshold from high to low; each bucket adds a trapezoid.
double area_under_curve(const int64_t* positive, const int64_t* negative, int64_t buckets,
                        bool precision_recall) {
  const auto total = [&](const int64_t* counts) {
    return static_cast<double>(std::accumulate(counts, counts + buckets, int64_t{0}));
  };
  const double all_positive = total(positive), all_negative = total(negative);
  if (all_positive == 0 || (all_negative == 0 && !precision_recall)) return 0;
  double area = 0, hits = 0, alarms = 0, last_precision = 1;
  for (int64_t i = buckets - 1; i >= 0; --i) {
    const double new_hits = hits + static_cast<double>(positive[i]);
    const double new_alarms = alarms + static_cast<double>(negative[i]);
    if (precision_recall) {
      const double both = new_hits + new_alarms;
      const double precision = both == 0 ? last_precision : new_hits / both;
      area += (new_hits - hits) * (precision + last_precision) / 2;
      last_precision = precision;
    } else {
      area += (new_alarms - alarms) * (hits + new_hits) / 2;
    }
    hits = new_hits;
    alarms = new_alarms;
  }
  return precision_recall ? area / all_positive : area / all_positive / all_negative;
}

void auc_shape(OpView& op) {
  const Shape &predict = op.in("Predict").shape, &label = op.in("Label").shape;
  if (predict.rank() != 2 || !predict[0].may_equal(label.numel())) {
    throw op.error(cat("Predict has shape ", predict, " and Label ", label))
        .fix("give Predict [rows, classes] and Label [rows, 1]");
  }
  AucLayout::of(op);
  op.set_out("AUC", DType::float64, {1});
  op.set_out("StatPosOut", DType::int64, op.in("StatPos").shape);
  op.set_out("StatNegOut", DType::int64, op.in("StatNeg").shape);
}

template <class T>
BoundKernel auc_kernel(const KernelSite& site) {
  const AucLayout layout = AucLayout::of(site);
  const Shape predict = site.in("Predict").shape;
  const bool precision_recall = site.attr<std::string>("curve") == "PR";
  const bool narrow = site.in("Label").dtype == DType::int32;
  const auto counts = static_cast<size_t>(site.in("StatPos").shape.count());
  return [=](const KernelArgs& k) {
    const int64_t rows = predict.at(0), classes = predict.at(1);
    std::vector<int64_t> positive(static_cast<size_t>(layout.buckets));
    std::vector<int64_t> negative(static_cast<size_t>(layout.buckets));
    for (int64_t row = 0; row < rows; ++row) {
      const T p = k.in<T>(0)[row * classes + classes - 1];
      if (!(p >= 0 && p <= 1)) {
        throw Error(cat("Predict[", row, "] is ", p, ", which is no probability"))
            .fix("put a softmax or sigmoid before auc");
      }
      const int64_t label = narrow ? k.in<int32_t>(1)[row] : k.in<int64_t>(1)[row];
      const auto bucket = static_cast<size_t>(p * static_cast<T>(layout.buckets - 1));
      ++(label > 0 ? positive : negative)[bucket];
    }
    auto* stat_positive = k.out<int64_t>(1);
    auto* stat_negative = k.out<int64_t>(2);
    std::memmove(stat_positive, k.in<int64_t>(2), counts * sizeof(int64_t));
    std::memmove(stat_negative, k.in<int64_t>(3), counts * sizeof(int64_t));
    std::vector<int64_t> positive_sums, negative_sums;
    const int64_t* p = layout.add(positive, stat_positive, positive_sums);
    const int64_t* n = layout.add(negative, stat_negative, negative_sums);
    if (k.has_out(0)) *k.out<double>(0) = area_under_curve(p, n, layout.buckets, precision_recall);
  };
}

void register_scores(Registry& ops) {
  ops.op("accuracy")
      .in("Out", "scores of the best classes; only its type matters")
      .in("Indices", "the best classes of each row, int64 [rows, k]")
      .in("Label", "the right class, [rows, 1]")
      .out("Accuracy", "share of rows whose label is among the best, [1]")
      .out("Correct", "how many, int32 [1]")
      .out("Total", "number of rows, int32 [1]")
      .shape(accuracy_shape)
      .kernel(untyped(accuracy_kernel));
  ops.op("auc")
      .in("Predict", "probabilities; the last column is that of the positive class")
      .in("Label", "positive when above 0, [rows, 1]")
      .in("StatPos", "counts of positive rows per bucket so far, int64")
      .in("StatNeg", "counts of negative rows per bucket so far, int64")
      .out("AUC", "area under the curve, float64 [1]")
      .out("StatPosOut", "StatPos with this batch")
      .out("StatNegOut", "StatNeg with this batch")
      .attr("curve", "ROC", "ROC or PR")
      .one_of({"ROC", "PR"})
      .attr("num_thresholds", 8191, "probabilities are cut into this many steps")
      .at_least(1)
      .attr("slide_steps", 1, "judge by the last so many batches; 0: by all")
      .at_least(0)
      .shape(auc_shape)
      .kernel(typed_by<float, double>(
          "Predict", []<class T>(const KernelSite& site) { return auc_kernel<T>(site); }))
      .inplace("StatPos", "StatPosOut")
      .inplace("StatNeg", "StatNegOut")
      .traits({.can_fail = true});
}

}  // namespace

void register_metric(Registry& ops) {
  register_top_k(ops);
  register_args(ops);
  register_scores(ops);
}

}  // namespace trireme
