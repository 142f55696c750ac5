// Metrics: accuracy and auc.
#include <cmath>
#include <cstring>
#include <numeric>

#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

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
  const int64_t* add(const int64_t* batch, int64_t* stat, std::vector<int64_t>& sums) const {
    const auto add_to = [&](int64_t* counts, int64_t sign, const int64_t* from) {
      for (int64_t i = 0; i < buckets; ++i) counts[i] += sign * from[i];
    };
    if (steps == 0) {
      add_to(stat, 1, batch);
      return stat;
    }
    if (ring) {
      int64_t* total = stat + steps * buckets;
      int64_t& batches = stat[(steps + 1) * buckets];
      int64_t* oldest = stat + batches % steps * buckets;
      add_to(total, -1, oldest);
      std::copy_n(batch, buckets, oldest);
      add_to(total, 1, oldest);
      ++batches;
      return total;
    }
    std::copy(stat + buckets, stat + steps * buckets, stat);
    std::copy_n(batch, buckets, stat + (steps - 1) * buckets);
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

void set_auc_outs(OpView& op) {
  AucLayout::of(op);
  op.set_out("AUC", DType::float64, {1});
  op.set_out("StatPosOut", DType::int64, op.in("StatPos").shape);
  op.set_out("StatNegOut", DType::int64, op.in("StatNeg").shape);
}

void auc_shape(OpView& op) {
  const Shape &predict = op.in("Predict").shape, &label = op.in("Label").shape;
  if (predict.rank() != 2 || !predict[0].may_equal(label.numel())) {
    throw op.error(cat("Predict has shape ", predict, " and Label ", label))
        .fix("give Predict [rows, classes] and Label [rows, 1]");
  }
  set_auc_outs(op);
}

// How many positive and negative rows of a batch fall into each bucket.
template <class T>
BoundKernel auc_counts_kernel(const KernelSite& site) {
  const Shape predict = site.in("Predict").shape;
  const int64_t buckets = site.attr<int64_t>("buckets");
  const bool narrow = site.in("Label").dtype == DType::int32;
  return [=](const KernelArgs& k) {
    const int64_t rows = predict.at(0), classes = predict.at(1);
    auto* positive = k.out<int64_t>(0);
    auto* negative = positive + buckets;
    std::fill_n(positive, 2 * buckets, int64_t{0});
    for (int64_t row = 0; row < rows; ++row) {
      const T p = k.in<T>(0)[row * classes + classes - 1];
      if (!(p >= 0 && p <= 1)) {
        throw Error(cat("Predict[", row, "] is ", p, ", which is no probability"))
            .fix("put a softmax or sigmoid before auc");
      }
      const int64_t label = narrow ? k.in<int32_t>(1)[row] : k.in<int64_t>(1)[row];
      const auto bucket = static_cast<size_t>(p * static_cast<T>(buckets - 1));
      ++(label > 0 ? positive : negative)[bucket];
    }
  };
}

BoundKernel auc_update_kernel(const KernelSite& site) {
  const AucLayout layout = AucLayout::of(site);
  const bool precision_recall = site.attr<std::string>("curve") == "PR";
  const auto counts = static_cast<size_t>(site.in("StatPos").shape.count());
  return [=](const KernelArgs& k) {
    const auto* positive = k.in<int64_t>(0);
    auto* stat_positive = k.out<int64_t>(1);
    auto* stat_negative = k.out<int64_t>(2);
    std::memmove(stat_positive, k.in<int64_t>(1), counts * sizeof(int64_t));
    std::memmove(stat_negative, k.in<int64_t>(2), counts * sizeof(int64_t));
    std::vector<int64_t> positive_sums, negative_sums;
    const int64_t* p = layout.add(positive, stat_positive, positive_sums);
    const int64_t* n = layout.add(positive + layout.buckets, stat_negative, negative_sums);
    *k.out<double>(0) = area_under_curve(p, n, layout.buckets, precision_recall);
  };
}

// The batch's counts are those of all replicas: each judges by, and keeps, the whole.
void auc_body(Body& b) {
  const int64_t buckets = int64_t{b.attr<int32_t>("num_thresholds")} + 1;
  const Expr counts =
      emit("p.auc_counts", {b.in("Predict"), b.in("Label")}, {{"buckets", buckets}});
  const Expr all = emit("p.sum_replicas", {counts});
  const std::vector<int> results =
      b.emitter().emit("p.auc_update", {all.id(), b.in("StatPos").id(), b.in("StatNeg").id()},
                       {{"curve", b.attr<std::string>("curve")},
                        {"num_thresholds", b.attr<int32_t>("num_thresholds")},
                        {"slide_steps", b.attr<int32_t>("slide_steps")}});
  b.out("AUC") = Expr(&b.emitter(), results[0]);
  b.out("StatPosOut") = Expr(&b.emitter(), results[1]);
  b.out("StatNegOut") = Expr(&b.emitter(), results[2]);
}

// Shared by the op and the primitive that ends it.
OpSchema& auc_stats(OpSchema& row) {
  return row.in("StatPos", "counts of positive rows per bucket so far, int64")
      .in("StatNeg", "counts of negative rows per bucket so far, int64")
      .out("AUC", "area under the curve, float64 [1]")
      .out("StatPosOut", "StatPos with this batch")
      .out("StatNegOut", "StatNeg with this batch")
      .attr("curve", "ROC", "ROC or PR")
      .one_of({"ROC", "PR"})
      .attr("num_thresholds", 8191, "probabilities are cut into this many steps")
      .at_least(1)
      .attr("slide_steps", 1, "judge by the last so many batches; 0: by all")
      .at_least(0);
}

}  // namespace

void register_metric(Registry& ops) {
  ops.op("accuracy")
      .in("Out", "scores of the best classes; only its type matters")
      .in("Indices", "the best classes of each row, int64 [rows, k]")
      .in("Label", "the right class, [rows, 1]")
      .out("Accuracy", "share of rows whose label is among the best, [1]")
      .out("Correct", "how many, int32 [1]")
      .out("Total", "number of rows, int32 [1]")
      .shape(accuracy_shape)
      .kernel(untyped(accuracy_kernel));
  ops.primitive("p.auc_counts")
      .doc("Rows of a batch by the bucket of their probability: positive ones, then negative ones")
      .in("Predict", "probabilities; the last column is that of the positive class")
      .in("Label", "positive when above 0")
      .out("Counts", "int64 [2, buckets]")
      .required_attr<int64_t>("buckets", "how many")
      .shape([](OpView& op) {
        op.set_out("Counts", DType::int64, {2, op.attr<int64_t>("buckets")});
      })
      .kernel(typed_by<float, double>(
          "Predict", []<class T>(const KernelSite& site) { return auc_counts_kernel<T>(site); }))
      .traits({.can_fail = true});
  auc_stats(ops.primitive("p.auc_update")
                .doc("Takes the counts of a batch in, and judges by them")
                .in("Counts", "int64 [2, buckets]"))
      .shape(set_auc_outs)
      .kernel(untyped(auc_update_kernel));
  auc_stats(ops.op("auc")
                .in("Predict", "probabilities; the last column is that of the positive class")
                .in("Label", "positive when above 0, [rows, 1]"))
      .shape(auc_shape)
      .body(auc_body)
      .inplace("StatPos", "StatPosOut")
      .inplace("StatNeg", "StatNegOut")
      .traits({.can_fail = true});
}

}  // namespace trireme
