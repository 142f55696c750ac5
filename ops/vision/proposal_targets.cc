// generate_proposal_labels: which proposed boxes a detector learns from, and what.
#include <algorithm>
#include <cmath>

#include "ops/rules.h"
#include "ops/sequence/sequence_rules.h"
#include "ops/vision/box_math.h"
#include "ops/vision/sampled_boxes.h"

namespace trireme {
namespace {

struct ProposalLabelRules {
  int64_t most, most_objects, classes;
  float object, high, low;
  std::vector<float> code_weights;
  bool random, cascade, agnostic;

  explicit ProposalLabelRules(const KernelSite& site)
      : most(site.attr<int32_t>("batch_size_per_im")),
        classes(site.attr<int32_t>("class_nums")),
        object(site.attr<float>("fg_thresh")),
        high(site.attr<float>("bg_thresh_hi")),
        low(site.attr<float>("bg_thresh_lo")),
        code_weights(site.attr<std::vector<float>>("bbox_reg_weights")),
        random(site.attr<bool>("use_random")),
        cascade(site.attr<bool>("is_cascade_rcnn")),
        agnostic(site.attr<bool>("is_cls_agnostic")) {
    most_objects = static_cast<int64_t>(
        std::floor(static_cast<float>(most) * site.attr<float>("fg_fraction")));
  }
};

// One image: boxes that are proposed, and the true ones.
template <class T>
struct ProposedImage {
  std::vector<T> boxes;
  const T* truth;
  const int32_t *classes, *crowd;
  int64_t true_count;
  T scale;
};

template <class T>
struct ProposalLabels {
  std::vector<T> rois, targets, inside, outside;
  std::vector<int32_t> labels;
};

template <class T>
ProposedImage<T> proposed(const ProposalLabelRules& rules, const T* rois, int64_t roi_count,
                          const T* truth, int64_t true_count, T scale) {
  ProposedImage<T> image{.boxes = {}, .truth = truth, .true_count = true_count, .scale = scale};
  if (!rules.cascade) image.boxes.assign(truth, truth + 4 * true_count);
  for (int64_t i = 0; i < roi_count; ++i) {
    const T* box = rois + 4 * i;
    if (!rules.cascade) {
      for (int c = 0; c < 4; ++c) image.boxes.push_back(box[c] / scale);
    } else if (box[2] > box[0] && box[3] > box[1]) {
      image.boxes.insert(image.boxes.end(), box, box + 4);
    }
  }
  if (image.boxes.empty()) image.boxes.assign(4, T{0});
  return image;
}

// Boxes that overlap a true one enough are objects; of the others, those between two bounds are
// learned as background. A row where a crowd is told is neither.
template <class T>
void label_image(const ProposalLabelRules& rules, const ProposedImage<T>& image,
                 BoxSampler& sampler, ProposalLabels<T>& to) {
  const auto count = static_cast<int32_t>(image.boxes.size() / 4);
  std::vector<int32_t> objects, others, truth_of(static_cast<size_t>(count), -1);
  for (int32_t i = 0; i < count; ++i) {
    const T* box = &image.boxes[4 * static_cast<size_t>(i)];
    T best = 0;
    for (int64_t j = 0; j < image.true_count; ++j) {
      const T overlap = box_overlap(box, image.truth + 4 * j, false);
      if (truth_of[static_cast<size_t>(i)] >= 0 && overlap <= best) continue;
      best = overlap;
      truth_of[static_cast<size_t>(i)] = static_cast<int32_t>(j);
    }
    if (i < image.true_count && image.crowd[i] != 0) continue;
    if (image.true_count > 0 && best >= static_cast<T>(rules.object)) {
      objects.push_back(i);
    } else if (best >= static_cast<T>(rules.low) && best < static_cast<T>(rules.high)) {
      others.push_back(i);
    }
  }
  if (!rules.cascade) {
    sampler.keep(objects, rules.most_objects);
    sampler.keep(others, rules.most - static_cast<int64_t>(objects.size()));
  }
  const size_t width = 4 * static_cast<size_t>(rules.classes);
  for (const std::vector<int32_t>* some : {&objects, &others}) {
    for (const int32_t i : *some) {
      const T* box = &image.boxes[4 * static_cast<size_t>(i)];
      for (int c = 0; c < 4; ++c) to.rois.push_back(box[c] * image.scale);
      std::vector<T> target(width), weight(width);
      int32_t label = 0;
      if (some == &objects) {
        const int32_t truth = truth_of[static_cast<size_t>(i)];
        label = image.classes[truth];
        const auto at = 4 * static_cast<size_t>(rules.agnostic ? std::min(label, 1) : label);
        if (at + 4 > width) {
          throw Error(ErrorKind::out_of_range,
                      cat("GtClasses holds ", label, " but class_nums is ", rules.classes))
              .fix(cat("use classes from 0 to ", rules.classes - 1));
        }
        if (label > 0) {
          box_difference(box, image.truth + 4 * truth, &target[at]);
          for (size_t c = 0; c < 4; ++c) {
            target[at + c] /= static_cast<T>(rules.code_weights[c]);
            weight[at + c] = 1;
          }
        }
      }
      to.labels.push_back(label);
      to.targets.insert(to.targets.end(), target.begin(), target.end());
      to.inside.insert(to.inside.end(), weight.begin(), weight.end());
    }
  }
}

template <class T>
BoundKernel proposal_labels(const KernelSite& site) {
  const ProposalLabelRules rules(site);
  const int64_t images = site.in("ImInfo").shape.at(0);
  const auto roi_ends = sequence_of_every_image(site, "RpnRois", images);
  const auto ends = sequence_of_every_image(site, "GtBoxes", images);
  sequence_of_every_image(site, "GtClasses", images);
  sequence_of_every_image(site, "IsCrowd", images);
  const int rois_at = site.position("RpnRois"), class_at = site.position("GtClasses");
  const int crowd_at = site.position("IsCrowd"), box_at = site.position("GtBoxes");
  const int info_at = site.position("ImInfo");
  std::vector<int> out;
  for (const char* slot :
       {"Rois", "LabelsInt32", "BboxTargets", "BboxInsideWeights", "BboxOutsideWeights"}) {
    out.push_back(site.out_position(slot));
  }
  const BoxSource source = box_source(site, rules.random);
  return [=](const KernelArgs& k) {
    ProposalLabels<T> all;
    Lod lod = {{0}};
    BoxSampler sampler(source, k);
    for (int64_t n = 0; n < images; ++n) {
      const auto i = static_cast<size_t>(n);
      ProposedImage<T> image = proposed(
          rules, k.in<T>(rois_at) + 4 * roi_ends[i], roi_ends[i + 1] - roi_ends[i],
          k.in<T>(box_at) + 4 * ends[i], ends[i + 1] - ends[i], k.in<T>(info_at)[3 * n + 2]);
      image.classes = k.in<int32_t>(class_at) + ends[i];
      image.crowd = k.in<int32_t>(crowd_at) + ends[i];
      label_image(rules, image, sampler, all);
      lod[0].push_back(static_cast<int64_t>(all.labels.size()));
    }
    const auto rows = static_cast<int64_t>(all.labels.size()), width = 4 * rules.classes;
    give_rows<T>(k, out[0], {rows, 4}, all.rois, lod);
    give_rows<int32_t>(k, out[1], {rows, 1}, all.labels, lod);
    give_rows<T>(k, out[2], {rows, width}, all.targets, lod);
    give_rows<T>(k, out[3], {rows, width}, all.inside, lod);
    give_rows<T>(k, out[4], {rows, width}, all.inside, lod);
  };
}

void proposal_labels_shape(OpView& op) {
  require_floating(op, "RpnRois");
  for (const char* slot : {"RpnRois", "GtBoxes"}) {
    const Shape& boxes = op.in(slot).shape;
    if (boxes.rank() == 2 && boxes[1].may_equal(4)) continue;
    throw op.error(cat(slot, " has shape ", boxes)).fix("give [boxes, 4]");
  }
  const Shape& info = op.in("ImInfo").shape;
  if (info.rank() != 2 || !info[1].may_equal(3)) {
    throw op.error(cat("ImInfo has shape ", info)).fix("give [images, 3]");
  }
  const auto weights = op.attr<std::vector<float>>("bbox_reg_weights");
  if (weights.size() != 4) {
    throw op.error(cat("bbox_reg_weights is [", join(weights), "]")).fix("give four numbers");
  }
  const DType dtype = op.in("RpnRois").dtype;
  const int64_t width = 4 * static_cast<int64_t>(op.attr<int32_t>("class_nums"));
  op.set_out("Rois", dtype, {Dim(), 4});
  op.set_out("LabelsInt32", DType::int32, {Dim(), 1});
  for (const char* slot : {"BboxTargets", "BboxInsideWeights", "BboxOutsideWeights"}) {
    op.set_out(slot, dtype, {Dim(), width});
    set_lod(op, slot, {}, 1);
  }
  set_lod(op, "Rois", {}, 1);
  set_lod(op, "LabelsInt32", {}, 1);
}

}  // namespace

void register_proposal_targets(Registry& ops) {
  ops.op("generate_proposal_labels")
      .doc("Which proposed boxes a detector learns from, and their classes and places")
      .in("RpnRois", "[boxes, 4]: proposals; a sequence for each image")
      .in("GtClasses", "int32 [truths, 1]: classes of the true boxes; in sequences")
      .in("IsCrowd", "int32 [truths, 1]: 1 where a true box is left out")
      .in("GtBoxes", "[truths, 4]: true boxes")
      .in("ImInfo", "[images, 3]: height, width, and what the image was scaled by")
      .out("Rois", "[chosen, 4]: boxes to learn from")
      .out("LabelsInt32", "int32 [chosen, 1]: their classes, 0 for background")
      .out("BboxTargets", "[chosen, 4 * class_nums]: codes of the true boxes, at the class's place")
      .out("BboxInsideWeights", "the same shape: 1 where there is a code")
      .out("BboxOutsideWeights", "the same")
      .required_attr<int32_t>("batch_size_per_im", "boxes of an image that are chosen")
      .required_attr<float>("fg_fraction", "the share of objects among them")
      .required_attr<float>("fg_thresh", "objects overlap a true box by so much")
      .required_attr<float>("bg_thresh_hi", "background overlaps by less than this")
      .required_attr<float>("bg_thresh_lo", "and by this at least")
      .required_attr<std::vector<float>>("bbox_reg_weights", "what codes are divided by")
      .required_attr<int32_t>("class_nums", "number of classes, background included")
      .at_least(1)
      .attr("use_random", true, "choose at random, not the first")
      .attr("seed", 0, "of that choice; 0: another one in every process")
      .attr("is_cascade_rcnn", false, "take all boxes, and no true ones among them")
      .attr("is_cls_agnostic", false, "codes have two places: background and object")
      .shape(proposal_labels_shape)
      .traits({.host = true, .random = true})
      .kernel(typed_by<float, double>(
          "RpnRois", []<class T>(const KernelSite& site) { return proposal_labels<T>(site); }))
      .sample([](Draw& d) {
        Tensor rois = draw_boxes(d, 4), boxes = draw_boxes(d, 3);
        Tensor classes = d.ints({3, 1}, 1, 2, DType::int32),
               crowd = d.ints({3, 1}, 0, 1, DType::int32);
        rois.set_lod({{0, 3, 4}});
        for (Tensor* rows : {&boxes, &classes, &crowd}) rows->set_lod({{0, 1, 3}});
        return OpSample{.inputs = {{"RpnRois", {rois}},
                                   {"GtClasses", {classes}},
                                   {"IsCrowd", {crowd}},
                                   {"GtBoxes", {boxes}},
                                   {"ImInfo", {d.uniform({2, 3}, 9, 12)}}},
                        .attrs = {{"batch_size_per_im", int32_t{4}},
                                  {"fg_fraction", 0.5f},
                                  {"fg_thresh", 0.5f},
                                  {"bg_thresh_hi", 0.5f},
                                  {"bg_thresh_lo", 0.0f},
                                  {"bbox_reg_weights", std::vector<float>{1, 1, 1, 1}},
                                  {"class_nums", int32_t{3}},
                                  {"use_random", false}}};
      });
}

}  // namespace trireme
