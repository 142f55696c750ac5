// mean_iou: how much of every class's places two maps of classes share.
#include <algorithm>

#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/scratch.h"
#include "ops/tensor/indices.h"

namespace trireme {
namespace {

void mean_iou_shape(OpView& op) {
  require_index(op, "Predictions");
  require_index(op, "Labels");
  const Shape &said = op.in("Predictions").shape, &labels = op.in("Labels").shape;
  if (!said.numel().may_equal(labels.numel())) {
    throw op.error(cat("Predictions has shape ", said, " but Labels ", labels))
        .fix("give a label for every prediction");
  }
  const int64_t classes = op.attr<int32_t>("num_classes");
  op.set_out("OutMeanIou", DType::float32, {1});
  op.set_out("OutWrong", DType::int32, {classes});
  op.set_out("OutCorrect", DType::int32, {classes});
}

// A place that two maps see differently is wrong for both classes. The mean is that of the classes
// that appear at all.
BoundKernel mean_iou(const KernelSite& site) {
  const int64_t classes = site.attr<int32_t>("num_classes");
  const int64_t count = site.in("Predictions").shape.count();
  const int said_at = site.position("Predictions"), label_at = site.position("Labels");
  std::vector<int> before[3];
  const char* const slots[] = {"InWrongs", "InCorrects", "InMeanIou"};
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < site.count(slots[i]); ++j)
      before[i].push_back(site.position(slots[i], j));
  }
  const int mean_at = site.out_position("OutMeanIou");
  const int outs[] = {site.out_position("OutWrong"), site.out_position("OutCorrect")};
  const int wrong_at = outs[0], right_at = outs[1];
  Scratch counting;
  counting.take<int32_t>(classes), counting.take<int32_t>(classes);
  BoundKernel made(
      [=, wrongs = before[0], rights = before[1], means = before[2]](const KernelArgs& k) {
        Scratch scratch(k.scratch);
        int32_t *wrong = scratch.take<int32_t>(classes), *right = scratch.take<int32_t>(classes);
        std::fill_n(wrong, classes, 0);
        std::fill_n(right, classes, 0);
        const Indices said(k.in(said_at), "Predictions"), labels(k.in(label_at), "Labels");
        for (int64_t i = 0; i < count; ++i) {
          const int64_t a = said.checked(i, classes), b = labels.checked(i, classes);
          if (a == b) ++right[a];
          if (a != b) ++wrong[a], ++wrong[b];
        }
        const auto add = [&](const std::vector<int>& more, int32_t* to) {
          for (const int at : more) {
            for (int64_t c = 0; c < classes; ++c) to[c] += k.in<int32_t>(at)[c];
          }
        };
        add(wrongs, wrong);
        add(rights, right);
        double sum = 0;
        int64_t seen = 0;
        for (int64_t c = 0; c < classes; ++c) {
          if (wrong[c] + right[c] == 0) continue;
          ++seen;
          sum += static_cast<double>(right[c]) / static_cast<double>(wrong[c] + right[c]);
        }
        double mean = seen == 0 ? 0 : sum / static_cast<double>(seen);
        for (const int at : means) mean += static_cast<double>(k.in<float>(at)[0]);
        if (k.has_out(mean_at)) k.out<float>(mean_at)[0] = static_cast<float>(mean);
        if (k.has_out(wrong_at)) std::copy_n(wrong, classes, k.out<int32_t>(wrong_at));
        if (k.has_out(right_at)) std::copy_n(right, classes, k.out<int32_t>(right_at));
      });
  made.scratch = counting.bytes();
  return made;
}

}  // namespace

void register_mean_iou(Registry& ops) {
  ops.op("mean_iou")
      .doc("How much of the places of a class two maps share, as the mean of all classes there are")
      .in("Predictions", "int32 or int64: classes")
      .in("Labels", "the true classes, as many")
      .in_optional_list("InWrongs", "int32 [num_classes]: OutWrong of batches before")
      .in_optional_list("InCorrects", "int32 [num_classes]: OutCorrect of batches before")
      .in_optional_list("InMeanIou", "[1]: added to the mean")
      .out("OutMeanIou", "[1]")
      .out("OutWrong", "int32 [num_classes]: places that only one map has")
      .out("OutCorrect", "int32 [num_classes]: places that both have")
      .required_attr<int32_t>("num_classes", "number of classes")
      .at_least(1)
      .shape(mean_iou_shape)
      .traits({.can_fail = true})
      .kernel(untyped(mean_iou))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"Predictions", {d.ints({2, 5}, 0, 2, DType::int32)}},
                                   {"Labels", {d.ints({2, 5}, 0, 2, DType::int32)}}},
                        .attrs = {{"num_classes", int32_t{3}}}};
      });
}

}  // namespace trireme
