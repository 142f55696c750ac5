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

}  // namespace trireme
