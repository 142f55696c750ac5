// Mean average precision of detections against marked boxes, of a batch and of all batches so far:
// detection_map.
#include <cmath>
#include <map>

#include "core/lod.h"
#include "ops/rules.h"
#include "ops/sequence/sequence_rules.h"
#include "ops/vision/box_math.h"

namespace trireme {
namespace {

// (score, 1 or 0) by class, in the order in which images came.
using Marks = std::vector<std::vector<std::pair<float, float>>>;

struct MapCounts {
  std::vector<int32_t> positives;  // marked boxes by class
  Marks hits, misses;
};

struct MapRules {
  int64_t classes, background;
  float overlap;
  bool difficult_counts, integral;
  explicit MapRules(const KernelSite& site)
      : classes(site.attr<int32_t>("class_num")),
        background(site.attr<int32_t>("background_label")),
        overlap(site.attr<float>("overlap_threshold")),
        difficult_counts(site.attr<bool>("evaluate_difficult")),
        integral(site.attr<std::string>("ap_type") == "integral") {}
};

// Rows of Label: class, corners; or class, difficult, corners.
struct MarkedBoxes {
  const float* rows;
  int64_t width;
  int64_t label(int64_t i) const { return static_cast<int64_t>(rows[i * width]); }
  bool difficult(int64_t i) const { return width == 6 && rows[i * width + 1] != 0; }
  const float* box(int64_t i) const { return rows + i * width + (width - 4); }
};

int64_t checked_label(int64_t label, const MapRules& rules, const char* what) {
  if (label >= 0 && label < rules.classes) return label;
  throw Error(cat(what, " has class ", label, " but class_num is ", rules.classes))
      .fix("classes are numbered from 0; give a larger class_num");
}

// One image: each detection, best first, is a hit when the marked box of its class that it overlaps
// most is overlapped enough and was not hit before. Hits of difficult boxes that do not count are
// neither.
void count_image(const MapRules& rules, const MarkedBoxes& marked, int64_t marked_begin,
                 int64_t marked_end, const float* found, int64_t found_count, MapCounts& counts) {
  std::map<int64_t, std::vector<int64_t>> by_class;
  for (int64_t i = marked_begin; i < marked_end; ++i) {
    const int64_t label = checked_label(marked.label(i), rules, "Label");
    by_class[label].push_back(i);
    if (rules.difficult_counts || !marked.difficult(i)) ++counts.positives[label];
  }
  std::map<int64_t, std::vector<const float*>> detections;
  for (int64_t i = 0; i < found_count; ++i) {
    const float* row = found + 6 * i;
    detections[checked_label(static_cast<int64_t>(row[0]), rules, "DetectRes")].push_back(row);
  }
  for (auto& [label, rows] : detections) {
    std::ranges::stable_sort(rows, [](const float* a, const float* b) { return a[1] > b[1]; });
    const std::vector<int64_t>& boxes = by_class[label];
    std::vector<bool> hit(boxes.size(), false);
    for (const float* row : rows) {
      float corners[4];
      for (int c = 0; c < 4; ++c) corners[c] = std::clamp(row[2 + c], 0.0f, 1.0f);
      float most = -1;
      size_t at = 0;
      for (size_t j = 0; j < boxes.size(); ++j) {
        const float overlap = box_overlap(corners, marked.box(boxes[j]), true);
        if (overlap > most) most = overlap, at = j;
      }
      const bool covers = most > rules.overlap;
      if (covers && !rules.difficult_counts && marked.difficult(boxes[at])) continue;
      const bool is_hit = covers && !hit[at];
      if (is_hit) hit[at] = true;
      counts.hits[label].emplace_back(row[1], is_hit ? 1.0f : 0.0f);
      counts.misses[label].emplace_back(row[1], is_hit ? 0.0f : 1.0f);
    }
  }
}

std::vector<float> running_sums(std::vector<std::pair<float, float>> marks) {
  std::ranges::stable_sort(marks, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<float> sums;
  float sum = 0;
  for (const auto& [score, mark] : marks) sums.push_back(sum += mark);
  return sums;
}

// The area below precision over recall, or the mean of the best precisions at 11 recalls.
float average_precision(const MapRules& rules, const std::vector<float>& hits,
                        const std::vector<float>& misses, float positives) {
  float area = 0, before = 0;
  std::vector<float> best(11, 0.0f);
  for (size_t i = 0; i < hits.size(); ++i) {
    const float precision = hits[i] / (hits[i] + misses[i]), recall = hits[i] / positives;
    if (std::fabs(recall - before) > 1e-6f) area += precision * std::fabs(recall - before);
    before = recall;
    for (int point = 0; point <= 10; ++point) {
      if (recall >= static_cast<float>(point) / 10.0f)
        best[point] = std::max(best[point], precision);
    }
  }
  if (rules.integral) return area;
  return std::accumulate(best.begin(), best.end(), 0.0f) / 11;
}

// Over the classes that have marked boxes; 0 where none has.
float mean_average_precision(const MapRules& rules, const MapCounts& counts) {
  float sum = 0;
  int64_t classes = 0;
  for (int64_t label = 0; label < rules.classes; ++label) {
    if (label == rules.background || counts.positives[label] == 0) continue;
    ++classes;
    sum += average_precision(rules, running_sums(counts.hits[label]),
                             running_sums(counts.misses[label]),
                             static_cast<float>(counts.positives[label]));
  }
  return classes == 0 ? 0 : sum / static_cast<float>(classes);
}

void read_marks(const Tensor& from, Marks& marks) {
  const Lod& lod = from.lod();
  if (lod.empty()) return;  // nothing was marked so far
  if (lod[0].size() != marks.size() + 1) {
    throw Error(
        cat("the marks of ", lod[0].size() - 1, " classes do not fit class_num ", marks.size()));
  }
  const float* rows = from.data<float>();
  for (size_t label = 0; label < marks.size(); ++label) {
    for (int64_t i = lod[0][label]; i < lod[0][label + 1]; ++i) {
      marks[label].emplace_back(rows[2 * i], rows[2 * i + 1]);
    }
  }
}

Tensor marks_tensor(const Marks& marks) {
  std::vector<float> rows;
  Lod lod = {{0}};
  for (const auto& of_class : marks) {
    for (const auto& [score, mark] : of_class) rows.insert(rows.end(), {score, mark});
    lod[0].push_back(static_cast<int64_t>(rows.size() / 2));
  }
  Tensor made = make_tensor<float>({lod[0].back(), 2}, std::span<const float>(rows));
  made.set_lod(lod);
  return made;
}

const std::vector<int64_t>& images_of(const Tensor& tensor, const char* slot) {
  if (!tensor.lod().empty()) return tensor.lod().back();
  throw Error(cat(slot, " has no LoD")).fix("give a sequence for each image");
}

BoundKernel detection_map_kernel(const KernelSite& site) {
  const MapRules rules(site);
  const int found_at = site.position("DetectRes"), marked_at = site.position("Label");
  const int state_at = site.position("HasState"), count_at = site.position("PosCount");
  const int hits_at = site.position("TruePos"), misses_at = site.position("FalsePos");
  const int counts_to = site.out_position("AccumPosCount"), map_to = site.out_position("MAP");
  const int hits_to = site.out_position("AccumTruePos"),
            misses_to = site.out_position("AccumFalsePos");
  return [=](const KernelArgs& k) {
    const std::vector<int64_t>& found_images = images_of(k.in(found_at), "DetectRes");
    const std::vector<int64_t>& marked_images = images_of(k.in(marked_at), "Label");
    const Tensor found = cast(k.in(found_at), DType::float32);
    const Tensor labels = cast(k.in(marked_at), DType::float32);
    if (found_images.size() != marked_images.size()) {
      throw Error(cat("DetectRes has ", found_images.size() - 1, " images but Label ",
                      marked_images.size() - 1));
    }
    const auto classes = static_cast<size_t>(rules.classes);
    MapCounts counts{std::vector<int32_t>(classes, 0), Marks(classes), Marks(classes)};
    if (k.has_in(state_at) && k.has_in(count_at) && k.in<int32_t>(state_at)[0] != 0) {
      if (k.in(count_at).numel() != rules.classes) {
        throw Error(cat("PosCount holds ", k.in(count_at).numel(), " classes but class_num is ",
                        rules.classes));
      }
      std::copy_n(k.in<int32_t>(count_at), classes, counts.positives.begin());
      read_marks(k.in(hits_at), counts.hits);
      read_marks(k.in(misses_at), counts.misses);
    }
    const MarkedBoxes marked{labels.data<float>(), labels.shape().at(1)};
    for (size_t image = 0; image + 1 < found_images.size(); ++image) {
      count_image(rules, marked, marked_images[image], marked_images[image + 1],
                  found.data<float>() + 6 * found_images[image],
                  found_images[image + 1] - found_images[image], counts);
    }
    // Operands may be the results' own variables: they are read by now.
    k.out(counts_to) =
        make_tensor<int32_t>({rules.classes, 1}, std::span<const int32_t>(counts.positives));
    k.out(hits_to) = marks_tensor(counts.hits);
    k.out(misses_to) = marks_tensor(counts.misses);
    k.out(map_to) = make_tensor<float>({1}, {mean_average_precision(rules, counts)});
  };
}

void detection_map_shape(OpView& op) {
  const Shape &found = op.in("DetectRes").shape, &marked = op.in("Label").shape;
  if (found.rank() != 2 || !found[1].may_equal(6)) {
    throw op.error(cat("DetectRes has shape ", found))
        .fix("give [detections, 6]: class, score, corners");
  }
  if (marked.rank() != 2 || !(marked[1].may_equal(6) || marked[1].may_equal(5))) {
    throw op.error(cat("Label has shape ", marked))
        .fix("give [boxes, 6]: class, difficult, corners; or [boxes, 5] without difficult");
  }
  const auto kind = op.attr<std::string>("ap_type");
  if (kind != "integral" && kind != "11point") {
    throw op.error(cat("ap_type is \"", kind, "\"")).fix("choose \"integral\" or \"11point\"");
  }
  const auto classes = op.attr<int32_t>("class_num");
  if (classes < 1) throw op.error(cat("class_num is ", classes)).fix("give the number of classes");
  op.set_out("AccumPosCount", DType::int32, {classes, 1});
  for (const char* slot : {"AccumTruePos", "AccumFalsePos"}) {
    op.set_out(slot, DType::float32, {Dim(), 2});
    set_lod(op, slot, {}, 1);
  }
  op.set_out("MAP", DType::float32, {1});
}

}  // namespace

void register_detection_map(Registry& ops) {
  ops.op("detection_map")
      .doc("Mean average precision of detections, with the counts that later batches add to")
      .in("DetectRes", "[detections, 6]: class, score, corners; a sequence for each image")
      .in("Label",
          "[boxes, 6]: class, difficult, corners; or without difficult; a sequence for each "
          "image")
      .in_optional("HasState", "int32 [1]: 0 where counting begins anew")
      .in_optional("PosCount", "int32 [classes, 1]: marked boxes so far")
      .in_optional("TruePos", "[n, 2]: score and whether it was a hit; a sequence for each class")
      .in_optional("FalsePos", "[n, 2]: score and whether it was a miss")
      .out("AccumPosCount", "PosCount with this batch")
      .out("AccumTruePos", "TruePos with this batch")
      .out("AccumFalsePos", "FalsePos with this batch")
      .out("MAP", "[1]: the mean over the classes that have marked boxes")
      .required_attr<int32_t>("class_num", "how many classes there are, the background with them")
      .attr("background_label", 0, "the class that is left out; -1: none")
      .attr("overlap_threshold", 0.5f, "a detection must overlap a box by more than this")
      .attr("evaluate_difficult", true, "whether boxes that are marked as difficult count")
      .attr("ap_type", std::string("integral"),
            "integral: the area below precision over recall; 11point")
      .shape(detection_map_shape)
      .traits({.host = true})
      .kernel(untyped(detection_map_kernel))
      .sample([](Draw& d) {
        Tensor found = make_tensor<double>({2, 6}, {1, .9, .1, .1, .5, .5, 1, .4, .6, .6, .9, .9});
        Tensor marked = make_tensor<double>({2, 6}, {1, 0, .1, .1, .5, .4, 2, 1, .5, .5, .9, .9});
        found.set_lod({{0, 1, 2}});
        marked.set_lod({{0, 1, 2}});
        return OpSample{.inputs = {{"DetectRes", {found}}, {"Label", {marked}}},
                        .attrs = {{"class_num", static_cast<int32_t>(d.size(3, 5))}}};
      });
}

}  // namespace trireme
