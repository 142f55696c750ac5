// Other ways to choose boxes: matrix_nms, locality_aware_nms, retinanet_detection_output.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/rules.h"
#include "ops/sequence/sequence_rules.h"
#include "ops/vision/box_math.h"
#include "ops/vision/polygon_overlap.h"
#include "ops/vision/sampled_boxes.h"

namespace trireme {
namespace {

template <class T>
struct FoundBox {
  T score;
  int64_t label, box;
};

// The `most` best of all, best first; most < 0: all.
template <class T>
void keep_best(std::vector<FoundBox<T>>& found, int64_t most) {
  std::stable_sort(found.begin(), found.end(),
                   [](const FoundBox<T>& a, const FoundBox<T>& b) { return a.score > b.score; });
  if (most >= 0 && static_cast<int64_t>(found.size()) > most)
    found.resize(static_cast<size_t>(most));
}

void require_scored(const OpView& op, bool polygons) {
  require_floating(op, "BBoxes");
  const Shape &boxes = op.in("BBoxes").shape, &scores = op.in("Scores").shape;
  const auto good_width = [polygons](Dim width) {
    if (!width.known() || width.value() == 4) return true;
    return polygons && width.value() >= 8 && width.value() % 2 == 0;
  };
  if (boxes.rank() == 3 && scores.rank() == 3 && boxes[0].may_equal(scores[0]) &&
      boxes[1].may_equal(scores[2]) && good_width(boxes[2])) {
    return;
  }
  throw op.error(cat("BBoxes has shape ", boxes, " and Scores ", scores))
      .fix(cat("give [images, boxes, 4", polygons ? " or numbers of a polygon's corners" : "",
               "] and [images, classes, boxes]"));
}

// ---- matrix_nms

struct MatrixNmsRules {
  int64_t background, top, keep;
  double least, left, sigma;
  bool normalized, gaussian;
  explicit MatrixNmsRules(const KernelSite& site)
      : background(site.attr<int32_t>("background_label")),
        top(site.attr<int32_t>("nms_top_k")),
        keep(site.attr<int32_t>("keep_top_k")),
        least(site.attr<float>("score_threshold")),
        left(site.attr<float>("post_threshold")),
        sigma(site.attr<float>("gaussian_sigma")),
        normalized(site.attr<bool>("normalized")),
        gaussian(site.attr<bool>("use_gaussian")) {}

  // A score decays by the better box that covers it most, less where that one is covered itself.
  template <class T>
  void choose(const T* boxes, const T* scores, int64_t count, int64_t label,
              std::vector<FoundBox<T>>& found) const {
    const auto order = best_scores(scores, count, 1, least, top);
    std::vector<T> covered(order.size()), overlaps(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      T decay = 1;
      for (size_t j = 0; j < i; ++j) {
        const T overlap = box_overlap(boxes + 4 * order[i], boxes + 4 * order[j], normalized);
        covered[i] = std::max(covered[i], overlap);
        overlaps[j] = overlap;
      }
      for (size_t j = 0; j < i; ++j) {
        const T one = overlaps[j], of_better = covered[j];
        decay = std::min(
            decay, gaussian ? std::exp((of_better * of_better - one * one) * static_cast<T>(sigma))
                            : (1 - one) / (1 - of_better));
      }
      const T score = scores[order[i]] * decay;
      if (score > static_cast<T>(left)) found.push_back({score, label, order[i]});
    }
  }
};

template <class T>
BoundKernel matrix_nms(const KernelSite& site) {
  const MatrixNmsRules rules(site);
  const Shape scores = site.in("Scores").shape;
  const int box_at = site.position("BBoxes"), score_at = site.position("Scores");
  const int out_at = site.out_position("Out"), index_at = site.out_position("Index");
  return [=](const KernelArgs& k) {
    const int64_t classes = scores.at(1), count = scores.at(2);
    std::vector<T> rows;
    std::vector<int32_t> index;
    Lod lod = {{0}};
    for (int64_t n = 0; n < scores.at(0); ++n) {
      const T* boxes = k.in<T>(box_at) + n * count * 4;
      std::vector<FoundBox<T>> found;
      for (int64_t c = 0; c < classes; ++c) {
        if (c == rules.background) continue;
        rules.choose(boxes, k.in<T>(score_at) + (n * classes + c) * count, count, c, found);
      }
      keep_best(found, rules.keep);
      for (const FoundBox<T>& one : found) {
        rows.insert(rows.end(), {static_cast<T>(one.label), one.score});
        rows.insert(rows.end(), boxes + 4 * one.box, boxes + 4 * one.box + 4);
        index.push_back(static_cast<int32_t>(n * count + one.box));
      }
      lod[0].push_back(static_cast<int64_t>(index.size()));
    }
    const auto all = static_cast<int64_t>(index.size());
    give_rows<T>(k, out_at, {all, 6}, rows, lod);
    give_rows<int32_t>(k, index_at, {all, 1}, index, lod);
  };
}

// ---- locality_aware_nms

struct LocalityRules {
  int64_t top, keep, background;
  double least, threshold, eta;
  bool normalized;
  explicit LocalityRules(const KernelSite& site)
      : top(site.attr<int32_t>("nms_top_k")),
        keep(site.attr<int32_t>("keep_top_k")),
        background(site.attr<int32_t>("background_label")),
        least(site.attr<float>("score_threshold")),
        threshold(site.attr<float>("nms_threshold")),
        eta(site.attr<float>("nms_eta")),
        normalized(site.attr<bool>("normalized")) {}

  template <class T>
  T overlap(const T* a, const T* b, int64_t width) const {
    return width == 4 ? box_overlap(a, b, normalized) : polygon_overlap(a, b, width / 2);
  }
};

// Neighbours in the order of the input that overlap become one box, the mean by their scores, which
// are added up. What is left is chosen by score as usual.
template <class T>
std::vector<FoundBox<T>> locality_aware(const LocalityRules& rules, std::vector<T>& boxes,
                                        std::vector<T>& scores, int64_t width) {
  const auto count = static_cast<int64_t>(scores.size());
  std::vector<FoundBox<T>> merged, found;
  const auto close = [&](int64_t box) {
    if (box < 0) return;
    const T score = scores[static_cast<size_t>(box)];
    if (score > static_cast<T>(rules.least)) merged.push_back({score, 0, box});
  };
  int64_t open = -1;  // the box that neighbours are merged into
  for (int64_t i = 0; i < count; ++i) {
    T* own = &boxes[static_cast<size_t>(i * width)];
    T* into = open < 0 ? nullptr : &boxes[static_cast<size_t>(open * width)];
    if (!into || rules.overlap(own, into, width) <= static_cast<T>(rules.threshold)) {
      close(open);
      open = i;
      continue;
    }
    const T score = scores[static_cast<size_t>(i)];
    T& sum = scores[static_cast<size_t>(open)];
    for (int64_t c = 0; c < width; ++c) into[c] = (own[c] * score + into[c] * sum) / (score + sum);
    sum += score;
  }
  close(open);
  keep_best(merged, rules.top);
  double threshold = rules.threshold;
  for (const FoundBox<T>& one : merged) {
    const T* own = &boxes[static_cast<size_t>(one.box * width)];
    const bool covered = std::any_of(found.begin(), found.end(), [&](const FoundBox<T>& better) {
      return rules.overlap(own, &boxes[static_cast<size_t>(better.box * width)], width) >
             static_cast<T>(threshold);
    });
    if (covered) continue;
    found.push_back(one);
    if (rules.eta < 1 && threshold > 0.5) threshold *= rules.eta;
  }
  keep_best(found, rules.keep);
  return found;
}

template <class T>
BoundKernel locality_kernel(const KernelSite& site) {
  const LocalityRules rules(site);
  const Shape shape = site.in("BBoxes").shape;
  const int box_at = site.position("BBoxes"), score_at = site.position("Scores");
  return [=](const KernelArgs& k) {
    const int64_t count = shape.at(1), width = shape.at(2);
    std::vector<T> rows;
    Lod lod = {{0}};
    for (int64_t n = 0; n < shape.at(0) && rules.background != 0; ++n) {
      const T *first = k.in<T>(box_at) + n * count * width, *score = k.in<T>(score_at) + n * count;
      std::vector<T> boxes(first, first + count * width), scores(score, score + count);
      for (const FoundBox<T>& one : locality_aware(rules, boxes, scores, width)) {
        const T* box = &boxes[static_cast<size_t>(one.box * width)];
        rows.insert(rows.end(), {T{0}, one.score});
        rows.insert(rows.end(), box, box + width);
      }
      lod[0].push_back(static_cast<int64_t>(rows.size()) / (width + 2));
    }
    if (rows.empty()) return give_rows<T>(k, 0, {1, 1}, {T{-1}}, {{0, 1}});  // nothing was found
    give_rows<T>(k, 0, {lod[0].back(), width + 2}, rows, lod);
  };
}

// ---- retinanet_detection_output

struct RetinanetRules {
  int64_t top, keep;
  double least, threshold, eta;
  explicit RetinanetRules(const KernelSite& site)
      : top(site.attr<int32_t>("nms_top_k")),
        keep(site.attr<int32_t>("keep_top_k")),
        least(site.attr<float>("score_threshold")),
        threshold(site.attr<float>("nms_threshold")),
        eta(site.attr<float>("nms_eta")) {}
};

// The box that a code says, seen from an anchor, in the image as it was before it was scaled.
template <class T>
void decode_anchor(const T* anchor, const T* code, const T* info, T* box) {
  const T width = anchor[2] - anchor[0] + 1, height = anchor[3] - anchor[1] + 1;
  const T x = code[0] * width + anchor[0] + width / 2,
          y = code[1] * height + anchor[1] + height / 2;
  const T w = std::exp(code[2]) * width, h = std::exp(code[3]) * height;
  const T corners[] = {x - w / 2, y - h / 2, x + w / 2 - 1, y + h / 2 - 1};
  for (int c = 0; c < 4; ++c) {
    const T most = std::round(info[c % 2 ? 0 : 1] / info[2]) - 1;
    box[c] = std::max(std::min(corners[c] / info[2], most), T{0});
  }
}

template <class T>
BoundKernel retinanet_output(const KernelSite& site) {
  const RetinanetRules rules(site);
  const size_t levels = site.count("BBoxes");
  std::vector<Shape> shapes;
  std::vector<int> box_at, score_at, anchor_at;
  for (size_t i = 0; i < levels; ++i) {
    shapes.push_back(site.in("Scores", i).shape);
    box_at.push_back(site.position("BBoxes", i));
    score_at.push_back(site.position("Scores", i));
    anchor_at.push_back(site.position("Anchors", i));
  }
  const int info_at = site.position("ImInfo");
  return [=](const KernelArgs& k) {
    const int64_t images = shapes[0].at(0), classes = shapes[0].at(2);
    std::vector<T> rows;
    Lod lod = {{0}};
    for (int64_t n = 0; n < images; ++n) {
      std::vector<T> boxes, scores;
      std::vector<std::vector<int32_t>> of_class(static_cast<size_t>(classes));
      for (size_t level = 0; level < levels; ++level) {
        const int64_t anchors = shapes[level].at(1);
        const T* said = k.in<T>(score_at[level]) + n * anchors * classes;
        // The last level shows whatever there is.
        const double least = level + 1 < levels ? rules.least : 0;
        for (const int32_t i : best_scores(said, anchors * classes, 1, least, rules.top)) {
          T box[4];
          decode_anchor(k.in<T>(anchor_at[level]) + i / classes * 4,
                        k.in<T>(box_at[level]) + (n * anchors + i / classes) * 4,
                        k.in<T>(info_at) + 3 * n, box);
          of_class[static_cast<size_t>(i % classes)].push_back(static_cast<int32_t>(scores.size()));
          boxes.insert(boxes.end(), box, box + 4);
          scores.push_back(said[i]);
        }
      }
      std::vector<FoundBox<T>> found;
      for (int64_t c = 0; c < classes; ++c) {
        auto& order = of_class[static_cast<size_t>(c)];
        std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
          return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
        });
        for (const int32_t i : not_covered<T>(
                 order, [&](int32_t one) { return &boxes[4 * static_cast<size_t>(one)]; },
                 rules.threshold, rules.eta, false)) {
          found.push_back({scores[static_cast<size_t>(i)], c, i});
        }
      }
      keep_best(found, rules.keep);
      for (const FoundBox<T>& one : found) {
        const T* box = &boxes[4 * static_cast<size_t>(one.box)];
        rows.insert(rows.end(), {static_cast<T>(one.label + 1), one.score});
        rows.insert(rows.end(), box, box + 4);
      }
      lod[0].push_back(static_cast<int64_t>(rows.size()) / 6);
    }
    give_rows<T>(k, 0, {lod[0].back(), 6}, rows, lod);
  };
}

void retinanet_shape(OpView& op) {
  const size_t levels = op.count("BBoxes");
  require_floating(op, "BBoxes");
  if (op.count("Scores") != levels || op.count("Anchors") != levels) {
    throw op
        .error(cat("there are ", levels, " BBoxes, ", op.count("Scores"), " Scores and ",
                   op.count("Anchors"), " Anchors"))
        .fix("give all three for every level");
  }
  for (size_t i = 0; i < levels; ++i) {
    const Shape &boxes = op.in("BBoxes", i).shape, &scores = op.in("Scores", i).shape;
    const Shape& anchors = op.in("Anchors", i).shape;
    if (boxes.rank() == 3 && scores.rank() == 3 && anchors.rank() == 2 && boxes[2].may_equal(4) &&
        anchors[1].may_equal(4) && boxes[1].may_equal(scores[1]) &&
        boxes[1].may_equal(anchors[0])) {
      continue;
    }
    throw op.error(cat("BBoxes has shape ", boxes, ", Scores ", scores, " and Anchors ", anchors))
        .fix("give [images, anchors, 4], [images, anchors, classes] and [anchors, 4]");
  }
  op.set_out("Out", op.in("BBoxes").dtype, {Dim(), 6});
  set_lod(op, "Out", {}, 1);
}

OpSchema& choice_attrs(OpSchema& row) {
  return row.required_attr<float>("score_threshold", "only boxes with a larger score")
      .required_attr<int32_t>("nms_top_k", "how many are looked at; -1: all")
      .required_attr<int32_t>("keep_top_k", "how many of an image are chosen; -1: all");
}

OpSample nms_sample(Draw& d, int64_t classes, Attrs attrs) {
  OpSample sample{.inputs = {{"BBoxes", {d.uniform({2, 5, 4}, 0, 1)}},
                             {"Scores", {d.uniform({2, classes, 5}, 0, 1)}}},
                  .attrs = std::move(attrs)};
  sample.attrs["score_threshold"] = 0.1f;
  sample.attrs["nms_top_k"] = int32_t{4};
  sample.attrs["keep_top_k"] = int32_t{5};
  return sample;
}

void register_matrix_nms(Registry& ops) {
  OpSchema& row = ops.op("matrix_nms")
                      .doc("The best boxes, whose scores decay where better ones cover them")
                      .in("BBoxes", "[images, boxes, 4]")
                      .in("Scores", "[images, classes, boxes]")
                      .out("Out", "[chosen, 6]: class, score, corners; a sequence for each image")
                      .out("Index", "int32 [chosen, 1]: which of all boxes it is");
  choice_attrs(row)
      .attr("background_label", 0, "the class that is left out; -1: none")
      .required_attr<float>("post_threshold", "only boxes with a larger score after it decayed")
      .attr("normalized", true, "corners are parts of the image, not pixels")
      .attr("use_gaussian", false, "scores decay as a bell, not linearly")
      .attr("gaussian_sigma", 2.0f, "how steep it is")
      .shape([](OpView& op) {
        require_scored(op, false);
        op.set_out("Out", op.in("BBoxes").dtype, {Dim(), 6});
        op.set_out("Index", DType::int32, {Dim(), 1});
        set_lod(op, "Out", {}, 1);
        set_lod(op, "Index", {}, 1);
      })
      .traits({.host = true})
      .kernel(
          typed<float, double>([]<class T>(const KernelSite& site) { return matrix_nms<T>(site); }))
      .sample([](Draw& d) {
        return nms_sample(d, 3, {{"post_threshold", 0.0f}});
      });
}

}  // namespace

void register_other_nms(Registry& ops) {
  register_matrix_nms(ops);
  OpSchema& row = ops.op("locality_aware_nms")
                      .doc("The best boxes, after neighbours that overlap were merged")
                      .in("BBoxes", "[images, boxes, 4], or numbers of a convex polygon's corners")
                      .in("Scores", "[images, 1, boxes]")
                      .out("Out",
                           "[chosen, 2 + numbers]: 0, score, corners; a sequence for each "
                           "image; a single -1 where nothing was chosen");
  choice_attrs(row)
      .attr("background_label", 0, "0: the class is left out; -1: none is")
      .attr("nms_threshold", 0.3f, "how much of a box a better one may cover")
      .attr("nms_eta", 1.0f, "the threshold becomes smaller by this after each box")
      .attr("normalized", true, "corners are parts of the image, not pixels")
      .shape([](OpView& op) {
        require_scored(op, true);
        const Shape& scores = op.in("Scores").shape;
        if (!scores[1].may_equal(1)) {
          throw op.error(cat("Scores has ", scores[1], " classes")).fix("give scores of one class");
        }
        op.set_out("Out", op.in("BBoxes").dtype, {Dim(), op.in("BBoxes").shape[2] + Dim(2)});
        set_lod(op, "Out", {}, 1);
      })
      .traits({.host = true})
      .kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return locality_kernel<T>(site); }))
      .sample([](Draw& d) {
        return nms_sample(d, 1, {{"background_label", int32_t{-1}}});
      });
  OpSchema& output =
      ops.op("retinanet_detection_output")
          .doc("What a RetinaNet found: its boxes decoded, and the best of each class")
          .in_list("BBoxes", "[images, anchors, 4]: codes of each level")
          .in_list("Scores", "[images, anchors, classes]")
          .in_list("Anchors", "[anchors, 4]: corners in pixels")
          .in("ImInfo", "[images, 3]: height, width, and what the image was scaled by")
          .out("Out", "[chosen, 6]: class from 1 up, score, corners; in sequences");
  choice_attrs(output)
      .required_attr<float>("nms_threshold", "how much of a box a better one may cover")
      .attr("nms_eta", 1.0f, "the threshold becomes smaller by this after each box")
      .shape(retinanet_shape)
      .traits({.host = true})
      .kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return retinanet_output<T>(site); }))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"BBoxes", {d.uniform({2, 3, 4})}},
                                   {"Scores", {d.uniform({2, 3, 2}, 0, 1)}},
                                   {"Anchors", {d.uniform({3, 4}, 0, 9)}},
                                   {"ImInfo", {d.uniform({2, 3}, 9, 12)}}},
                        .attrs = {{"score_threshold", 0.1f},
                                  {"nms_top_k", int32_t{4}},
                                  {"keep_top_k", int32_t{3}},
                                  {"nms_threshold", 0.3f}}};
      });
}

}  // namespace trireme
