// Proposals over the levels of a feature pyramid: collect_fpn_proposals, distribute_fpn_proposals;
// and box_decoder_and_assign.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/rules.h"
#include "ops/sequence/sequence_rules.h"
#include "ops/vision/box_math.h"
#include "ops/vision/sampled_boxes.h"

namespace trireme {
namespace {

void require_box_rows(const OpView& op, const char* slot, size_t i = 0) {
  const Shape& boxes = op.in(slot, i).shape;
  if (boxes.rank() == 2 && boxes[1].may_equal(4)) return;
  throw op.error(cat(slot, " has shape ", boxes)).fix("give [boxes, 4]");
}

std::vector<int64_t> image_of_rows(const std::vector<int64_t>& ends) {
  std::vector<int64_t> images;
  for (size_t n = 0; n + 1 < ends.size(); ++n) {
    images.resize(static_cast<size_t>(ends[n + 1]), static_cast<int64_t>(n));
  }
  return images;
}

// ---- collect_fpn_proposals

void collect_shape(OpView& op) {
  const size_t levels = op.count("MultiLevelRois");
  require_floating(op, "MultiLevelRois");
  if (op.count("MultiLevelScores") != levels) {
    throw op
        .error(cat("there are ", levels, " MultiLevelRois but ", op.count("MultiLevelScores"),
                   " MultiLevelScores"))
        .fix("give scores for the boxes of every level");
  }
  for (size_t i = 0; i < levels; ++i) {
    require_box_rows(op, "MultiLevelRois", i);
    const Shape& scores = op.in("MultiLevelScores", i).shape;
    if (scores.rank() == 2 && scores[1].may_equal(1) &&
        scores[0].may_equal(op.in("MultiLevelRois", i).shape[0])) {
      continue;
    }
    throw op.error(cat("MultiLevelScores has shape ", scores)).fix("give a score for every box");
  }
  op.set_out("FpnRois", op.in("MultiLevelRois").dtype, {Dim(), 4});
  set_lod(op, "FpnRois", {}, 1);
}

// The best of all levels and images together, then by image.
template <class T>
BoundKernel collect(const KernelSite& site) {
  const size_t levels = site.count("MultiLevelRois");
  std::vector<int> rois_at, scores_at;
  std::vector<std::vector<int64_t>> images;
  size_t image_count = 0;
  for (size_t i = 0; i < levels; ++i) {
    rois_at.push_back(site.position("MultiLevelRois", i));
    scores_at.push_back(site.position("MultiLevelScores", i));
    const auto ends = bound_offsets(site, "MultiLevelRois", i);
    if (i > 0 && ends.size() - 1 != image_count) {
      throw site
          .error(cat("level ", i, " has boxes of ", ends.size() - 1, " images but the first of ",
                     image_count))
          .fix("give every level the same images");
    }
    image_count = ends.size() - 1;
    images.push_back(image_of_rows(ends));
  }
  const int64_t most = site.attr<int32_t>("post_nms_topN");
  return [=](const KernelArgs& k) {
    struct Proposal {
      T score;
      int64_t image;
      const T* box;
    };
    std::vector<Proposal> all;
    for (size_t level = 0; level < levels; ++level) {
      for (size_t i = 0; i < images[level].size(); ++i) {
        all.push_back(
            {k.in<T>(scores_at[level])[i], images[level][i], k.in<T>(rois_at[level]) + 4 * i});
      }
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Proposal& a, const Proposal& b) { return a.score > b.score; });
    all.resize(std::min(all.size(), static_cast<size_t>(std::max<int64_t>(most, 0))));
    std::stable_sort(all.begin(), all.end(),
                     [](const Proposal& a, const Proposal& b) { return a.image < b.image; });
    std::vector<T> boxes;
    Lod lod = {std::vector<int64_t>(image_count + 1)};
    for (const Proposal& one : all) {
      boxes.insert(boxes.end(), one.box, one.box + 4);
      ++lod[0][static_cast<size_t>(one.image) + 1];
    }
    std::partial_sum(lod[0].begin(), lod[0].end(), lod[0].begin());
    give_rows<T>(k, 0, {static_cast<int64_t>(all.size()), 4}, boxes, lod);
  };
}

// ---- distribute_fpn_proposals

void distribute_shape(OpView& op) {
  require_floating(op, "FpnRois");
  require_box_rows(op, "FpnRois");
  const int least = op.attr<int32_t>("min_level"), most = op.attr<int32_t>("max_level");
  const auto levels = static_cast<int>(op.out_count("MultiFpnRois"));
  if (most < least || levels != most - least + 1) {
    throw op.error(cat("levels are from ", least, " to ", most, " but MultiFpnRois has ", levels))
        .fix("give a result for every level");
  }
  const ValueInfo& rois = op.in("FpnRois");
  for (int i = 0; i < levels; ++i) {
    ValueInfo& out = op.out("MultiFpnRois", static_cast<size_t>(i));
    out.type = VarType::lod_tensor;
    out.dtype = rois.dtype;
    out.shape = {Dim(), 4};
    set_lod(op, "MultiFpnRois", {}, 1, static_cast<size_t>(i));
  }
  op.set_out("RestoreIndex", DType::int32, {rois.shape[0], 1});
}

// A box whose sides are refer_scale belongs to refer_level; one twice as large to the next.
template <class T>
BoundKernel distribute(const KernelSite& site) {
  const auto ends = bound_offsets(site, "FpnRois");
  const auto images = image_of_rows(ends);
  const int least = site.attr<int32_t>("min_level"), most = site.attr<int32_t>("max_level");
  const int level_of_scale = site.attr<int32_t>("refer_level");
  const auto scale = static_cast<T>(site.attr<int32_t>("refer_scale"));
  const auto levels = static_cast<size_t>(most - least + 1);
  std::vector<int> outs;
  for (size_t i = 0; i < levels; ++i) outs.push_back(site.out_position("MultiFpnRois", i));
  const int restore_at = site.out_position("RestoreIndex");
  return [=](const KernelArgs& k) {
    std::vector<std::vector<T>> boxes(levels);
    std::vector<std::vector<size_t>> which(levels);
    std::vector<Lod> lods(levels, {std::vector<int64_t>(ends.size())});
    for (size_t i = 0; i < images.size(); ++i) {
      const T* box = k.in<T>(0) + 4 * i;
      const T side = std::sqrt(box_area(box, false));
      const T level = std::floor(std::log2(side / scale + static_cast<T>(1e-6)) +
                                 static_cast<T>(level_of_scale));
      const auto at = static_cast<size_t>(
          std::clamp(level, static_cast<T>(least), static_cast<T>(most)) - static_cast<T>(least));
      boxes[at].insert(boxes[at].end(), box, box + 4);
      which[at].push_back(i);
      ++lods[at][0][static_cast<size_t>(images[i]) + 1];
    }
    std::vector<int32_t> restore(images.size());
    int32_t next = 0;
    for (size_t at = 0; at < levels; ++at) {
      for (const size_t i : which[at]) restore[i] = next++;
      std::partial_sum(lods[at][0].begin(), lods[at][0].end(), lods[at][0].begin());
      give_rows<T>(k, outs[at], {static_cast<int64_t>(which[at].size()), 4}, boxes[at], lods[at]);
    }
    give_rows<int32_t>(k, restore_at, {next, 1}, restore, {});
  };
}

// ---- box_decoder_and_assign

void decoder_shape(OpView& op) {
  require_floating(op, "TargetBox");
  require_box_rows(op, "PriorBox");
  const ValueInfo &prior = op.in("PriorBox"), &target = op.in("TargetBox");
  const ValueInfo& score = op.in("BoxScore");
  if (target.shape.rank() != 2 || score.shape.rank() != 2 ||
      !target.shape[0].may_equal(prior.shape[0]) || !score.shape[0].may_equal(prior.shape[0]) ||
      !target.shape[1].may_equal(score.shape[1] * Dim(4))) {
    throw op
        .error(cat("PriorBox has shape ", prior.shape, ", TargetBox ", target.shape,
                   " and BoxScore ", score.shape))
        .fix("give [boxes, 4], [boxes, 4 * classes] and [boxes, classes]");
  }
  if (op.has("PriorBoxVar") && !op.in("PriorBoxVar").shape.numel().may_equal(4)) {
    throw op.error(cat("PriorBoxVar has shape ", op.in("PriorBoxVar").shape)).fix("give [4]");
  }
  op.set_out("DecodeBox", target.dtype, target.shape);
  op.set_out("OutputAssignBox", prior.dtype, prior.shape);
  op.share_lod("PriorBox", "OutputAssignBox");
}

template <class T>
BoundKernel decode_and_assign(const KernelSite& site) {
  const int64_t rows = site.in("PriorBox").shape.at(0), classes = site.in("BoxScore").shape.at(1);
  const int prior_at = site.position("PriorBox"), variance_at = site.position("PriorBoxVar");
  const int target_at = site.position("TargetBox"), score_at = site.position("BoxScore");
  const int all_at = site.out_position("DecodeBox");
  const int one_at = site.out_position("OutputAssignBox");
  const auto most = static_cast<T>(site.attr<float>("box_clip"));
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(rows);
        for (int64_t row = begin; row < end; ++row) {
          const T *prior = k.in<T>(prior_at) + 4 * row, *score = k.in<T>(score_at) + row * classes;
          const T width = prior[2] - prior[0] + 1, height = prior[3] - prior[1] + 1;
          int64_t best = 0;  // 0 is the background
          for (int64_t c = 1; c < classes; ++c) {
            if (best == 0 ? score[c] > T{-1} : score[c] > score[best]) best = c;
          }
          T chosen[4] = {prior[0], prior[1], prior[2], prior[3]};
          for (int64_t c = 0; c < classes; ++c) {
            T code[4];
            for (int i = 0; i < 4; ++i) {
              const T variance = k.has_in(variance_at) ? k.in<T>(variance_at)[i] : T{1};
              code[i] = variance * k.in<T>(target_at)[(row * classes + c) * 4 + i];
            }
            const T x = code[0] * width + prior[0] + width / 2;
            const T y = code[1] * height + prior[1] + height / 2;
            const T w = std::exp(std::min(code[2], most)) * width;
            const T h = std::exp(std::min(code[3], most)) * height;
            const T box[] = {x - w / 2, y - h / 2, x + w / 2 - 1, y + h / 2 - 1};
            if (k.has_out(all_at)) {
              std::copy(box, box + 4, k.out<T>(all_at) + (row * classes + c) * 4);
            }
            if (c > 0 && c == best) std::copy(box, box + 4, chosen);
          }
          if (k.has_out(one_at)) std::copy(chosen, chosen + 4, k.out<T>(one_at) + 4 * row);
        }
      },
      parts_for(rows * classes * 32));
}

Tensor boxes_drawn(Draw& d, int64_t count, const Lod& lod) {
  Tensor boxes = d.uniform({count, 4}, 0, 9);
  boxes.set_lod(lod);
  return boxes;
}

}  // namespace

void register_pyramid(Registry& ops) {
  ops.op("collect_fpn_proposals")
      .doc("The best boxes of all levels of a pyramid")
      .in_list("MultiLevelRois", "[boxes, 4]: of each level; a sequence for each image")
      .in_list("MultiLevelScores", "[boxes, 1]: their scores")
      .out("FpnRois", "[chosen, 4]: a sequence for each image, the best first")
      .required_attr<int32_t>("post_nms_topN", "how many are chosen, of all images together")
      .shape(collect_shape)
      .traits({.host = true})
      .kernel(
          typed<float, double>([]<class T>(const KernelSite& site) { return collect<T>(site); }))
      .sample([](Draw& d) {
        const Lod lod = {{0, 2, 3}};
        return OpSample{
            .inputs = {{"MultiLevelRois", {boxes_drawn(d, 3, lod), boxes_drawn(d, 3, lod)}},
                       {"MultiLevelScores", {d.distinct({3, 1}), d.distinct({3, 1})}}},
            .attrs = {{"post_nms_topN", int32_t{4}}}};
      });
  ops.op("distribute_fpn_proposals")
      .doc("Boxes shared out to the levels of a pyramid by their size")
      .in("FpnRois", "[boxes, 4]: a sequence for each image")
      .out_list("MultiFpnRois", "[n, 4]: the boxes of each level")
      .out("RestoreIndex",
           "int32 [boxes, 1]: where each box stands in the levels, one after another")
      .required_attr<int32_t>("min_level", "the level of the smallest boxes")
      .required_attr<int32_t>("max_level", "the level of the largest")
      .required_attr<int32_t>("refer_level", "the level of boxes of refer_scale")
      .required_attr<int32_t>("refer_scale", "side of boxes in pixels")
      .at_least(1)
      .shape(distribute_shape)
      .traits({.host = true})
      .kernel(
          typed<float, double>([]<class T>(const KernelSite& site) { return distribute<T>(site); }))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"FpnRois", {boxes_drawn(d, 5, {{0, 2, 5}})}}},
                        .attrs = {{"min_level", int32_t{2}},
                                  {"max_level", int32_t{3}},
                                  {"refer_level", int32_t{3}},
                                  {"refer_scale", int32_t{5}}},
                        .out_counts = {{"MultiFpnRois", 2}}};
      });
  ops.op("box_decoder_and_assign")
      .doc("Boxes of every class from their codes, and the one of the likeliest class")
      .in("PriorBox", "[boxes, 4]: corners in pixels")
      .in_optional("PriorBoxVar", "[4]: what codes are multiplied by")
      .in("TargetBox", "[boxes, 4 * classes]: codes")
      .in("BoxScore", "[boxes, classes]: the first is the background")
      .out("DecodeBox", "like TargetBox: corners")
      .out("OutputAssignBox", "[boxes, 4]: those of the likeliest class")
      .attr("box_clip", 4.135f, "the largest code of a size")
      .shape(decoder_shape)
      .kernel(typed_by<float, double>(
          "TargetBox", []<class T>(const KernelSite& site) { return decode_and_assign<T>(site); }))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"PriorBox", {d.uniform({3, 4}, 0, 9)}},
                                   {"PriorBoxVar", {d.uniform({4}, 0.1, 0.3)}},
                                   {"TargetBox", {d.uniform({3, 8})}},
                                   {"BoxScore", {d.distinct({3, 2})}}}};
      });
}

}  // namespace trireme
