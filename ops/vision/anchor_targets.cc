// What the anchors of a detector are to learn: rpn_target_assign, retinanet_target_assign.
#include <algorithm>
#include <cmath>

#include "ops/rules.h"
#include "ops/sequence/sequence_rules.h"
#include "ops/vision/box_math.h"
#include "ops/vision/sampled_boxes.h"

namespace trireme {
namespace {

struct AnchorRules {
  double positive, negative, margin = -1;  // a negative margin: anchors may lie outside
  int64_t most = -1, most_positive = -1;   // of an image; -1: all
  bool random = false, classes;

  explicit AnchorRules(const KernelSite& site)
      : classes(site.schema().find_input("GtLabels") != nullptr) {
    positive = site.attr<float>(classes ? "positive_overlap" : "rpn_positive_overlap");
    negative = site.attr<float>(classes ? "negative_overlap" : "rpn_negative_overlap");
    if (classes) return;
    margin = site.attr<float>("rpn_straddle_thresh");
    most = site.attr<int32_t>("rpn_batch_size_per_im");
    most_positive =
        static_cast<int64_t>(site.attr<float>("rpn_fg_fraction") * static_cast<float>(most));
    random = site.attr<bool>("use_random");
  }
};

// One image: anchors that are looked at, and what is chosen of them (numbers into `anchors`).
template <class T>
struct AnchorTargets {
  std::vector<int32_t> anchors, places, scored, labels, boxes;  // boxes: of the truth, for places
  std::vector<bool> counts;                                     // whether a place is learned from
  int32_t positives = 0;
};

// Overlaps of anchors with true boxes. An anchor is positive where it overlaps one by `positive`,
// or as much as any anchor does.
template <class T>
struct AnchorOverlaps {
  std::vector<T> best;          // of each anchor
  std::vector<int32_t> box_of;  // which box that is
  std::vector<bool> positive;

  AnchorOverlaps(const T* anchors, const std::vector<int32_t>& which, const std::vector<T>& boxes,
                 double least) {
    const size_t count = boxes.size() / 4;
    std::vector<T> all(which.size() * count), most(count);
    best.assign(which.size(), T{0});
    box_of.assign(which.size(), 0);
    positive.assign(which.size(), false);
    for (size_t i = 0; i < which.size(); ++i) {
      for (size_t j = 0; j < count; ++j) {
        const T one = box_overlap(anchors + 4 * which[i], &boxes[4 * j], false);
        all[i * count + j] = one;
        most[j] = std::max(most[j], one);
        if (j == 0 || one > best[i]) best[i] = one, box_of[i] = static_cast<int32_t>(j);
      }
    }
    for (size_t i = 0; i < which.size(); ++i) {
      bool nearest = false;
      for (size_t j = 0; !nearest && j < count; ++j) {
        nearest = std::abs(all[i * count + j] - most[j]) < static_cast<T>(1e-5);
      }
      positive[i] = nearest || best[i] >= static_cast<T>(least);
    }
  }
};

// Positive anchors are chosen first, then negative ones. One that is both becomes negative; a
// positive stands in its place then, and is not learned from.
template <class T>
void choose_anchors(const AnchorRules& rules, const AnchorOverlaps<T>& overlaps,
                    BoxSampler& sampler, AnchorTargets<T>& to) {
  const auto count = static_cast<int32_t>(to.anchors.size());
  std::vector<int32_t> positive, negative, label(to.anchors.size(), -1);
  for (int32_t i = 0; i < count; ++i) {
    if (overlaps.positive[static_cast<size_t>(i)]) positive.push_back(i);
    if (overlaps.best[static_cast<size_t>(i)] < static_cast<T>(rules.negative))
      negative.push_back(i);
  }
  sampler.keep(positive, rules.most_positive);
  for (const int32_t i : positive) label[static_cast<size_t>(i)] = 1;
  to.positives = static_cast<int32_t>(positive.size());
  sampler.keep(negative, rules.most < 0 ? -1 : rules.most - to.positives);
  for (const int32_t i : negative) {
    if (label[static_cast<size_t>(i)] == 1) to.places.push_back(positive[0]);
    label[static_cast<size_t>(i)] = 0;
  }
  to.counts.assign(to.places.size(), false);
  for (int32_t i = 0; i < count; ++i) {
    if (label[static_cast<size_t>(i)] != 1) continue;
    to.places.push_back(i);
    to.counts.push_back(true);
    to.scored.push_back(i);
  }
  to.labels.assign(to.scored.size(), 1);
  for (int32_t i = 0; i < count; ++i) {
    if (label[static_cast<size_t>(i)] == 0) to.scored.push_back(i);
  }
  to.labels.resize(to.scored.size(), 0);
  for (const int32_t i : to.places) to.boxes.push_back(overlaps.box_of[static_cast<size_t>(i)]);
}

template <class T>
std::vector<int32_t> anchors_inside(const T* anchors, int64_t count, const T* info, double margin) {
  std::vector<int32_t> inside;
  const auto room = static_cast<T>(margin);
  for (int64_t i = 0; i < count; ++i) {
    const T* a = anchors + 4 * i;
    if (margin < 0 ||
        (a[0] >= -room && a[1] >= -room && a[2] < info[1] + room && a[3] < info[0] + room)) {
      inside.push_back(static_cast<int32_t>(i));
    }
  }
  return inside;
}

template <class T>
BoundKernel anchor_targets(const KernelSite& site) {
  const AnchorRules rules(site);
  const int64_t count = site.in("Anchor").shape.at(0), images = site.in("ImInfo").shape.at(0);
  const auto ends = sequence_of_every_image(site, "GtBoxes", images);
  sequence_of_every_image(site, "IsCrowd", images);
  const int anchor_at = site.position("Anchor"), box_at = site.position("GtBoxes");
  const int crowd_at = site.position("IsCrowd"), info_at = site.position("ImInfo");
  const int label_at = rules.classes ? site.position("GtLabels") : -1;
  const int outs[] = {site.out_position("LocationIndex"), site.out_position("ScoreIndex"),
                      site.out_position("TargetBBox"), site.out_position("TargetLabel"),
                      site.out_position("BBoxInsideWeight")};
  const int number_at = rules.classes ? site.out_position("ForegroundNumber") : -1;
  const std::vector<int> out(outs, outs + 5);
  const BoxSource source = box_source(site, rules.random);
  return [=](const KernelArgs& k) {
    std::vector<int32_t> places, scored, labels, numbers;
    std::vector<T> codes, weights;
    Lod place_lod = {{0}}, score_lod = {{0}}, image_lod = {{0}};
    BoxSampler sampler(source, k);
    for (int64_t n = 0; n < images; ++n) {
      const auto image = static_cast<size_t>(n);
      const T* info = k.in<T>(info_at) + 3 * n;
      std::vector<T> boxes;
      std::vector<int32_t> classes;
      for (int64_t i = ends[image]; i < ends[image + 1]; ++i) {
        if (k.in<int32_t>(crowd_at)[i] != 0) continue;
        for (int c = 0; c < 4; ++c) boxes.push_back(k.in<T>(box_at)[4 * i + c] * info[2]);
        classes.push_back(rules.classes ? k.in<int32_t>(label_at)[i] : 1);
      }
      AnchorTargets<T> chosen;
      const T* anchors = k.in<T>(anchor_at);
      chosen.anchors = anchors_inside(anchors, count, info, rules.margin);
      const AnchorOverlaps<T> overlaps(anchors, chosen.anchors, boxes, rules.positive);
      choose_anchors(rules, overlaps, sampler, chosen);
      const auto anchor = [&](int32_t i) { return chosen.anchors[static_cast<size_t>(i)]; };
      for (size_t i = 0; i < chosen.places.size(); ++i) {
        const int32_t which = anchor(chosen.places[i]);
        places.push_back(static_cast<int32_t>(n * count) + which);
        T code[4] = {};
        if (!boxes.empty()) {
          box_difference(anchors + 4 * which, &boxes[4 * static_cast<size_t>(chosen.boxes[i])],
                         code);
        }
        codes.insert(codes.end(), code, code + 4);
        weights.insert(weights.end(), 4, chosen.counts[i] ? T{1} : T{0});
      }
      for (size_t i = 0; i < chosen.scored.size(); ++i) {
        scored.push_back(static_cast<int32_t>(n * count) + anchor(chosen.scored[i]));
        const auto box =
            static_cast<size_t>(overlaps.box_of[static_cast<size_t>(chosen.scored[i])]);
        labels.push_back(chosen.labels[i] == 0 ? 0 : classes[box]);
      }
      place_lod[0].push_back(static_cast<int64_t>(places.size()));
      score_lod[0].push_back(static_cast<int64_t>(scored.size()));
      image_lod[0].push_back(n + 1);
      numbers.push_back(chosen.positives + 1);  // never 0: losses are divided by it
    }
    const auto found = static_cast<int64_t>(places.size()),
               judged = static_cast<int64_t>(scored.size());
    give_rows<int32_t>(k, out[0], {found}, places, {});
    give_rows<int32_t>(k, out[1], {judged}, scored, {});
    give_rows<T>(k, out[2], {found, 4}, codes, place_lod);
    give_rows<int32_t>(k, out[3], {judged, 1}, labels, score_lod);
    give_rows<T>(k, out[4], {found, 4}, weights, place_lod);
    if (number_at >= 0) give_rows<int32_t>(k, number_at, {images, 1}, numbers, image_lod);
  };
}

void anchor_targets_shape(OpView& op) {
  require_floating(op, "Anchor");
  for (const char* slot : {"Anchor", "GtBoxes"}) {
    const Shape& boxes = op.in(slot).shape;
    if (boxes.rank() == 2 && boxes[1].may_equal(4)) continue;
    throw op.error(cat(slot, " has shape ", boxes)).fix("give [boxes, 4]");
  }
  const ValueInfo &anchors = op.in("Anchor"), &info = op.in("ImInfo");
  if (info.shape.rank() != 2 || !info.shape[1].may_equal(3)) {
    throw op.error(cat("ImInfo has shape ", info.shape)).fix("give [images, 3]");
  }
  op.set_out("LocationIndex", DType::int32, {Dim()});
  op.set_out("ScoreIndex", DType::int32, {Dim()});
  op.set_out("TargetBBox", anchors.dtype, {Dim(), 4});
  op.set_out("TargetLabel", DType::int32, {Dim(), 1});
  op.set_out("BBoxInsideWeight", anchors.dtype, {Dim(), 4});
  for (const char* slot : {"TargetBBox", "TargetLabel", "BBoxInsideWeight"}) {
    set_lod(op, slot, {}, 1);
  }
  if (!op.schema().find_output("ForegroundNumber")) return;
  op.set_out("ForegroundNumber", DType::int32, {Dim(), 1});
  set_lod(op, "ForegroundNumber", {}, 1);
}

OpSchema& anchor_row(Registry& ops, const char* type, bool classes) {
  OpSchema& row =
      ops.op(type)
          .doc("What anchors are to learn: which of them are objects, and where those are")
          .in("Anchor", "[anchors, 4]: corners in pixels")
          .in("GtBoxes", "[boxes, 4]: true boxes; a sequence for each image");
  if (classes) row.in("GtLabels", "int32 [boxes, 1]: their classes, from 1 up");
  row.in("IsCrowd", "int32 [boxes, 1]: 1 where a box is left out")
      .in("ImInfo", "[images, 3]: height, width, and what the image was scaled by")
      .out("LocationIndex", "int32 [n]: anchors whose place is learned, of all images")
      .out("ScoreIndex", "int32 [m]: anchors whose class is learned")
      .out("TargetBBox", "[n, 4]: codes of the places")
      .out("TargetLabel", classes ? "int32 [m, 1]: classes, 0 where there is nothing"
                                  : "int32 [m, 1]: 1 where there is an object")
      .out("BBoxInsideWeight", "[n, 4]: 1, or 0 where a place only fills up");
  if (classes) {
    row.out("ForegroundNumber", "int32 [images, 1]: objects among the anchors of an image, and 1");
  }
  return row.shape(anchor_targets_shape)
      .traits({.host = true, .random = !classes})
      .kernel(typed_by<float, double>(
          "Anchor", []<class T>(const KernelSite& site) { return anchor_targets<T>(site); }));
}

SampleRule anchor_sample(bool classes) {
  return [classes](Draw& d) {
    Tensor boxes = draw_boxes(d, 3), crowd = d.ints({3, 1}, 0, 0, DType::int32);
    Tensor labels = d.ints({3, 1}, 1, 3, DType::int32);
    for (Tensor* rows : {&boxes, &crowd, &labels}) rows->set_lod({{0, 1, 3}});
    OpSample sample{.inputs = {{"Anchor", {draw_boxes(d, 6)}},
                               {"GtBoxes", {boxes}},
                               {"IsCrowd", {crowd}},
                               {"ImInfo", {d.uniform({2, 3}, 12, 15)}}}};
    if (classes) sample.inputs["GtLabels"] = {labels};
    if (!classes) sample.attrs = {{"rpn_straddle_thresh", 0.0f}, {"use_random", false}};
    return sample;
  };
}

}  // namespace

void register_anchor_targets(Registry& ops) {
  anchor_row(ops, "rpn_target_assign", false)
      .attr("rpn_batch_size_per_im", 256, "anchors of an image that are learned from")
      .required_attr<float>("rpn_straddle_thresh", "how far anchors may lie outside; below 0: any")
      .attr("rpn_positive_overlap", 0.7f, "objects overlap a true box by so much")
      .attr("rpn_negative_overlap", 0.3f, "what is no object overlaps all by less")
      .attr("rpn_fg_fraction", 0.25f, "the share of objects in an image's anchors")
      .attr("use_random", true, "choose at random, not the first")
      .attr("seed", 0, "of that choice; 0: another one in every process")
      .sample(anchor_sample(false));
  anchor_row(ops, "retinanet_target_assign", true)
      .attr("positive_overlap", 0.5f, "objects overlap a true box by so much")
      .attr("negative_overlap", 0.4f, "what is no object overlaps all by less")
      .sample(anchor_sample(true));
}

}  // namespace trireme
