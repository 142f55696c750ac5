// Boxes chosen among many by their scores: multiclass_nms, multiclass_nms2, generate_proposals.
#include <cmath>

#include "ops/rules.h"
#include "ops/sequence/sequence_rules.h"
#include "ops/vision/box_math.h"

namespace trireme {
namespace {

// ---- multiclass_nms

struct Chosen {
  int64_t label;
  int32_t box;
  double score;
};

// Boxes [boxes, 4] and scores [classes, boxes] of one image. Where every class has boxes of its
// own, steps tell where they are.
template <class T>
struct Scored {
  const T* boxes;
  const T* scores;
  int64_t count, classes, box_step, box_of_class, score_step, score_of_class;
};

struct NmsRules {
  int64_t background, top, keep;
  double least, threshold, eta;
  bool normalized;
  explicit NmsRules(const KernelSite& site)
      : background(site.attr<int32_t>("background_label")),
        top(site.attr<int32_t>("nms_top_k")),
        keep(site.attr<int32_t>("keep_top_k")),
        least(site.attr<float>("score_threshold")),
        threshold(site.attr<float>("nms_threshold")),
        eta(site.attr<float>("nms_eta")),
        normalized(site.attr<bool>("normalized")) {}

  // By class, best first in each.
  template <class T>
  std::vector<Chosen> choose(const Scored<T>& image) const {
    std::vector<Chosen> all;
    for (int64_t label = 0; label < image.classes; ++label) {
      if (label == background) continue;
      const T* scores = image.scores + label * image.score_of_class;
      const T* boxes = image.boxes + label * image.box_of_class;
      const auto kept = not_covered<T>(
          best_scores(scores, image.count, image.score_step, least, top),
          [&](int32_t i) { return boxes + i * image.box_step; }, threshold, eta, normalized);
      for (const int32_t i : kept) {
        all.push_back({label, i, static_cast<double>(scores[i * image.score_step])});
      }
    }
    if (keep < 0 || static_cast<int64_t>(all.size()) <= keep) return all;
    std::stable_sort(all.begin(), all.end(),
                     [](const Chosen& a, const Chosen& b) { return a.score > b.score; });
    all.resize(static_cast<size_t>(keep));
    std::stable_sort(all.begin(), all.end(),
                     [](const Chosen& a, const Chosen& b) { return a.label < b.label; });
    return all;
  }
};

void nms_shape(OpView& op) {
  const ValueInfo &boxes = op.in("BBoxes"), &scores = op.in("Scores");
  require_floating(op, "BBoxes");
  const bool batch = scores.shape.rank() == 3;
  const bool good = boxes.shape.rank() == 3 && (batch || scores.shape.rank() == 2) &&
                    boxes.shape[2].may_equal(4) &&
                    boxes.shape[1].may_equal(scores.shape[batch ? 2 : 1]) &&
                    boxes.shape[0].may_equal(scores.shape[0]);
  if (!good) {
    throw op.error(cat("BBoxes has shape ", boxes.shape, " and Scores ", scores.shape))
        .fix(
            "give [images, boxes, 4] and [images, classes, boxes], or in sequences [boxes, "
            "classes, 4] and [boxes, classes]");
  }
  op.set_out("Out", boxes.dtype, {Dim(), 6});
  set_lod(op, "Out", {}, 1);
  if (!op.schema().find_output("Index") || !op.wants("Index")) return;
  op.set_out("Index", DType::int32, {Dim(), 1});
  set_lod(op, "Index", {}, 1);
}

template <class T>
std::vector<Scored<T>> scored_images(const Tensor& boxes, const Tensor& scores) {
  std::vector<Scored<T>> images;
  const Shape &b = boxes.shape(), &s = scores.shape();
  if (s.rank() == 3) {
    for (int64_t n = 0; n < b.at(0); ++n) {
      images.push_back({boxes.data<T>() + n * b.at(1) * 4, scores.data<T>() + n * s.at(1) * s.at(2),
                        b.at(1), s.at(1), 4, 0, 1, s.at(2)});
    }
    return images;
  }
  const std::vector<int64_t> ends =
      boxes.lod().empty() ? std::vector<int64_t>{0, b.at(0)} : boxes.lod().back();
  for (size_t n = 0; n + 1 < ends.size(); ++n) {
    images.push_back({boxes.data<T>() + ends[n] * b.at(1) * 4, scores.data<T>() + ends[n] * s.at(1),
                      ends[n + 1] - ends[n], b.at(1), b.at(1) * 4, 4, s.at(1), 1});
  }
  return images;
}

template <class T>
void write_chosen(const KernelArgs& k, int out_at, int index_at, bool placeholder,
                  const std::vector<Scored<T>>& images,
                  const std::vector<std::vector<Chosen>>& chosen) {
  std::vector<T> rows;
  std::vector<int32_t> index;
  Lod lod = {{0}};
  int64_t before = 0;
  for (size_t n = 0; n < images.size(); ++n) {
    const Scored<T>& image = images[n];
    for (const Chosen& one : chosen[n]) {
      const T* box = image.boxes + one.label * image.box_of_class + one.box * image.box_step;
      rows.push_back(static_cast<T>(one.label));
      rows.push_back(static_cast<T>(one.score));
      rows.insert(rows.end(), box, box + 4);
      const int64_t at = image.box_of_class == 0 ? before + one.box
                                                 : (before + one.box) * image.classes + one.label;
      index.push_back(static_cast<int32_t>(at));
    }
    before += image.count;
    lod[0].push_back(static_cast<int64_t>(index.size()));
  }
  const auto count = static_cast<int64_t>(index.size());
  if (count == 0 && placeholder) {  // a single -1 says that nothing was found
    const T none[] = {T{-1}};
    k.out(out_at) = make_tensor<T>({1, 1}, std::span<const T>(none));
    k.out(out_at).set_lod({{0, 1}});
    return;
  }
  k.out(out_at) = make_tensor<T>({count, 6}, std::span<const T>(rows));
  k.out(out_at).set_lod(lod);
  if (!k.has_out(index_at)) return;
  k.out(index_at) = make_tensor<int32_t>({count, 1}, std::span<const int32_t>(index));
  k.out(index_at).set_lod(lod);
}

template <class T>
BoundKernel nms_kernel(const KernelSite& site) {
  const NmsRules rules(site);
  const bool second = site.schema().find_output("Index") != nullptr;
  const int boxes_at = site.position("BBoxes"), scores_at = site.position("Scores");
  const int out_at = site.out_position("Out");
  const int index_at = second ? site.out_position("Index") : -1;
  return [=](const KernelArgs& k) {
    const auto images = scored_images<T>(k.in(boxes_at), k.in(scores_at));
    std::vector<std::vector<Chosen>> chosen;
    for (const Scored<T>& image : images) chosen.push_back(rules.choose(image));
    write_chosen(k, out_at, index_at, !second, images, chosen);
  };
}

void register_nms(Registry& ops, bool second) {
  OpSchema& row =
      ops.op(second ? "multiclass_nms2" : "multiclass_nms")
          .doc("The best boxes of every class that no better one covers")
          .in("BBoxes", "[images, boxes, 4], or in sequences [boxes, classes, 4]")
          .in("Scores", "[images, classes, boxes], or in sequences [boxes, classes]")
          .out("Out", second ? "[chosen, 6]: class, score, corners; a sequence for each image"
                             : "[chosen, 6]: class, score, corners; a sequence for each image; a "
                               "single -1 where nothing was chosen");
  if (second) row.out_intermediate("Index", "int32 [chosen, 1]: which of all boxes it is");
  row.attr("background_label", 0, "the class that is left out; -1: none")
      .required_attr<float>("score_threshold", "only boxes with a larger score")
      .required_attr<int32_t>("nms_top_k", "how many of a class are looked at; -1: all")
      .attr("nms_threshold", 0.3f, "how much of a box a better one may cover")
      .attr("nms_eta", 1.0f, "the threshold becomes smaller by this after each box")
      .required_attr<int32_t>("keep_top_k", "how many of an image are chosen; -1: all")
      .attr("normalized", true, "corners are parts of the image, not pixels")
      .shape(nms_shape)
      .traits({.host = true})
      .kernel(
          typed<float, double>([]<class T>(const KernelSite& site) { return nms_kernel<T>(site); }))
      .sample([](Draw& d) {
        return OpSample{
            .inputs = {{"BBoxes", {d.uniform({2, 5, 4}, 0, 1)}},
                       {"Scores", {d.uniform({2, 3, 5}, 0, 1)}}},
            .attrs = {
                {"score_threshold", 0.1f}, {"nms_top_k", int32_t{4}}, {"keep_top_k", int32_t{5}}}};
      });
}

// ---- generate_proposals

struct ProposalRules {
  int64_t before, after;
  double threshold, eta, least_side;
  explicit ProposalRules(const KernelSite& site)
      : before(site.attr<int32_t>("pre_nms_topN")),
        after(site.attr<int32_t>("post_nms_topN")),
        threshold(site.attr<float>("nms_thresh")),
        eta(site.attr<float>("eta")),
        least_side(std::max(site.attr<float>("min_size"), 1.0f)) {}
};

void proposals_shape(OpView& op) {
  const ValueInfo &scores = op.in("Scores"), &deltas = op.in("BboxDeltas");
  require_floating(op, "Scores");
  const Shape& info = op.in("ImInfo").shape;
  if (scores.shape.rank() != 4 || deltas.shape.rank() != 4 ||
      !deltas.shape[1].may_equal(scores.shape[1] * Dim(4)) || info.rank() != 2 ||
      !info[1].may_equal(3)) {
    throw op
        .error(cat("Scores has shape ", scores.shape, ", BboxDeltas ", deltas.shape, " and ImInfo ",
                   info))
        .fix(
            "give [images, anchors, height, width], [images, anchors * 4, height, width] and "
            "[images, 3]");
  }
  for (const char* slot : {"Anchors", "Variances"}) {
    const Shape& given = op.in(slot).shape;
    if (given.rank() >= 2 && given.back().may_equal(4)) continue;
    throw op.error(cat(slot, " has shape ", given)).fix("give [height, width, anchors, 4]");
  }
  op.set_out("RpnRois", deltas.dtype, {Dim(), 4});
  op.set_out("RpnRoiProbs", scores.dtype, {Dim(), 1});
  set_lod(op, "RpnRois", {}, 1);
  set_lod(op, "RpnRoiProbs", {}, 1);
  op.set_out("RpnRoisLod", DType::int64, {Dim()});
}

// The maps of one image; place and anchor of box i are those of row i of Anchors.
template <class T>
struct ProposalMaps {
  const T *scores, *deltas, *info, *anchors, *variances;
  int64_t kinds, pixels;

  T score(int64_t i) const { return scores[i % kinds * pixels + i / kinds]; }
  T delta(int64_t i, int64_t which) const {
    return deltas[(i % kinds * 4 + which) * pixels + i / kinds];
  }
  // Corners in the image, cut to it.
  void box(int64_t i, T* to) const {
    static const T kMost = std::log(T{1000} / T{16});
    const T *anchor = anchors + 4 * i, *variance = variances + 4 * i;
    const T width = anchor[2] - anchor[0] + 1, height = anchor[3] - anchor[1] + 1;
    const T x = variance[0] * delta(i, 0) * width + anchor[0] + width / 2;
    const T y = variance[1] * delta(i, 1) * height + anchor[1] + height / 2;
    const T w = std::exp(std::min(variance[2] * delta(i, 2), kMost)) * width;
    const T h = std::exp(std::min(variance[3] * delta(i, 3), kMost)) * height;
    const T corners[] = {x - w / 2, y - h / 2, x + w / 2 - 1, y + h / 2 - 1};
    for (int c = 0; c < 4; ++c) to[c] = std::clamp(corners[c], T{0}, info[c % 2 ? 0 : 1] - 1);
  }
  bool large(const T* box, double least) const {
    const T w = box[2] - box[0], h = box[3] - box[1], scale = info[2];
    return w / scale + 1 >= least && h / scale + 1 >= least && box[0] + (w + 1) / 2 <= info[1] &&
           box[1] + (h + 1) / 2 <= info[0];
  }
};

template <class T>
void propose(const ProposalRules& rules, const ProposalMaps<T>& maps, std::vector<T>& rois,
             std::vector<T>& probs) {
  std::vector<T> scores, boxes, left;
  for (int64_t i = 0; i < maps.kinds * maps.pixels; ++i) scores.push_back(maps.score(i));
  const auto order = best_scores(scores.data(), static_cast<int64_t>(scores.size()), 1, -INFINITY,
                                 rules.before > 0 ? rules.before : -1);
  std::vector<int32_t> ranks;
  for (const int32_t i : order) {
    T box[4];
    maps.box(i, box);
    if (!maps.large(box, rules.least_side)) continue;
    ranks.push_back(static_cast<int32_t>(left.size()));
    left.push_back(scores[static_cast<size_t>(i)]);
    boxes.insert(boxes.end(), box, box + 4);
  }
  if (rules.threshold > 0) {
    ranks = not_covered<T>(
        ranks, [&](int32_t i) { return &boxes[4 * static_cast<size_t>(i)]; }, rules.threshold,
        rules.eta, false, rules.after > 0 ? rules.after : -1);
  }
  for (const int32_t i : ranks) {
    const auto at = static_cast<size_t>(i);
    rois.insert(rois.end(), &boxes[4 * at], &boxes[4 * at] + 4);
    probs.push_back(left[at]);
  }
}

template <class T>
BoundKernel proposals_kernel(const KernelSite& site) {
  const ProposalRules rules(site);
  const Shape scores = site.in("Scores").shape;
  const int at[] = {site.position("Scores"), site.position("BboxDeltas"), site.position("ImInfo"),
                    site.position("Anchors"), site.position("Variances")};
  const int rois_at = site.out_position("RpnRois"), probs_at = site.out_position("RpnRoiProbs");
  const int lod_at = site.out_position("RpnRoisLod");
  const std::vector<int> ins(at, at + 5);
  return [=](const KernelArgs& k) {
    std::vector<T> rois, probs;
    std::vector<int64_t> counts;
    Lod lod = {{0}};
    const int64_t kinds = scores.at(1), pixels = scores.at(2) * scores.at(3);
    for (int64_t n = 0; n < scores.at(0); ++n) {
      propose<T>(rules,
                 {k.in<T>(ins[0]) + n * kinds * pixels, k.in<T>(ins[1]) + n * kinds * pixels * 4,
                  k.in<T>(ins[2]) + 3 * n, k.in<T>(ins[3]), k.in<T>(ins[4]), kinds, pixels},
                 rois, probs);
      lod[0].push_back(static_cast<int64_t>(probs.size()));
      counts.push_back(lod[0].back());
    }
    const auto count = static_cast<int64_t>(probs.size());
    k.out(rois_at) = make_tensor<T>({count, 4}, std::span<const T>(rois));
    k.out(probs_at) = make_tensor<T>({count, 1}, std::span<const T>(probs));
    k.out(rois_at).set_lod(lod);
    k.out(probs_at).set_lod(lod);
    if (!k.has_out(lod_at)) return;
    k.out(lod_at) = make_tensor<int64_t>({scores.at(0)}, std::span<const int64_t>(counts));
  };
}

}  // namespace

void register_nms_ops(Registry& ops) {
  register_nms(ops, false);
  register_nms(ops, true);
  ops.op("generate_proposals")
      .doc("The best boxes that a region network proposes and no better one covers")
      .in("Scores", "[images, anchors, height, width]")
      .in("BboxDeltas", "[images, anchors * 4, height, width]: codes of the boxes")
      .in("ImInfo", "[images, 3]: height, width, and what the image was scaled by")
      .in("Anchors", "[height, width, anchors, 4]")
      .in("Variances", "the shape of Anchors: what codes are multiplied by")
      .out("RpnRois", "[chosen, 4]: corners; a sequence for each image")
      .out("RpnRoiProbs", "[chosen, 1]: their scores")
      .out_optional("RpnRoisLod", "[images]: how many were chosen up to the end of each image")
      .required_attr<int32_t>("pre_nms_topN", "how many of an image are looked at")
      .required_attr<int32_t>("post_nms_topN", "how many of an image are chosen")
      .required_attr<float>("nms_thresh", "how much of a box a better one may cover")
      .required_attr<float>("min_size", "boxes with a smaller side are dropped")
      .required_attr<float>("eta", "the threshold becomes smaller by this after each box")
      .shape(proposals_shape)
      .traits({.host = true})
      .kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return proposals_kernel<T>(site); }))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"Scores", {d.uniform({1, 2, 2, 2})}},
                                   {"BboxDeltas", {d.uniform({1, 8, 2, 2})}},
                                   {"ImInfo", {d.uniform({1, 3}, 5, 9)}},
                                   {"Anchors", {d.uniform({2, 2, 2, 4}, 0, 5)}},
                                   {"Variances", {d.uniform({2, 2, 2, 4}, 0.5, 1)}}},
                        .attrs = {{"pre_nms_topN", int32_t{6}},
                                  {"post_nms_topN", int32_t{3}},
                                  {"nms_thresh", 0.5f},
                                  {"min_size", 0.1f},
                                  {"eta", 1.0f}}};
      });
}

}  // namespace trireme
