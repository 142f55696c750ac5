// generate_mask_labels: what a detector's masks are to learn, from polygons around true objects.
#include <algorithm>
#include <cmath>

#include "ops/rules.h"
#include "ops/sequence/sequence_rules.h"
#include "ops/vision/box_math.h"
#include "ops/vision/sampled_boxes.h"

namespace trireme {
namespace {

template <class T>
struct MaskPolygon {
  const T* points;  // x and y of each
  int64_t count;
};
template <class T>
using Outline = std::vector<MaskPolygon<T>>;  // an object may have several

template <class T>
std::vector<T> box_around(const Outline<T>& outline) {
  std::vector<T> box = {INFINITY, INFINITY, 0, 0};
  for (const auto& polygon : outline) {
    for (int64_t i = 0; i < 2 * polygon.count; ++i) {
      const auto axis = static_cast<size_t>(i % 2);
      box[axis] = std::min(box[axis], polygon.points[i]);
      box[2 + axis] = std::max(box[2 + axis], polygon.points[i]);
    }
  }
  return box;
}

// A place on a grid that is five times as fine as the mask.
constexpr int kFine = 5;
struct FinePoint {
  int x, y;
};

// The fine places along the polygon, one step along its longer side at a time.
std::vector<FinePoint> walk_around(const std::vector<FinePoint>& corners) {
  std::vector<FinePoint> walked;
  for (size_t i = 0; i < corners.size(); ++i) {
    FinePoint a = corners[i], b = corners[(i + 1) % corners.size()];
    const int wide = std::abs(b.x - a.x), high = std::abs(b.y - a.y);
    const bool turned = wide >= high ? a.x > b.x : a.y > b.y;  // both ways walk over equal places
    if (turned) std::swap(a, b);
    const int steps = std::max(wide, high);
    const double slope = steps == 0     ? 0
                         : wide >= high ? static_cast<double>(b.y - a.y) / wide
                                        : static_cast<double>(b.x - a.x) / high;
    for (int step = 0; step <= steps; ++step) {
      const int t = turned ? steps - step : step;
      const auto aside = [&](int from) { return static_cast<int>(from + slope * t + .5); };
      walked.push_back(wide >= high ? FinePoint{a.x + t, aside(a.y)}
                                    : FinePoint{aside(a.x), a.y + t});
    }
  }
  return walked;
}

// Adds the inside of a polygon to a mask of side x side, of numbers along columns. Wherever the
// outline crosses the middle of a column, what is below changes sides.
template <class T>
void fill_polygon(const MaskPolygon<T>& polygon, const T* box, int64_t side,
                  std::vector<bool>& mask) {
  const T wide = std::max(box[2] - box[0], T{1}), high = std::max(box[3] - box[1], T{1});
  std::vector<FinePoint> corners;
  for (int64_t i = 0; i < polygon.count; ++i) {
    const T x = (polygon.points[2 * i] - box[0]) * static_cast<T>(side) / wide;
    const T y = (polygon.points[2 * i + 1] - box[1]) * static_cast<T>(side) / high;
    corners.push_back({static_cast<int>(kFine * static_cast<double>(x) + .5),
                       static_cast<int>(kFine * static_cast<double>(y) + .5)});
  }
  const std::vector<FinePoint> around = walk_around(corners);
  std::vector<bool> changes(mask.size() + 1);
  for (size_t i = 1; i < around.size(); ++i) {
    const FinePoint &before = around[i - 1], &here = around[i];
    if (here.x == before.x) continue;
    const double column = (std::min(here.x, before.x) + .5) / kFine - .5;
    if (std::floor(column) != column || column < 0 || column > static_cast<double>(side - 1))
      continue;
    const double top = (std::min(here.y, before.y) + .5) / kFine - .5;
    const double row = std::ceil(std::clamp(top, 0.0, static_cast<double>(side)));
    const auto at = static_cast<size_t>(column * static_cast<double>(side) + row);
    changes[at] = !changes[at];
  }
  bool inside = false;
  for (size_t at = 0; at < mask.size(); ++at) {
    if (changes[at]) inside = !inside;
    if (inside) mask[at] = true;
  }
}

template <class T>
struct MaskLabels {
  std::vector<T> rois;
  std::vector<int32_t> which, masks;
};

// One image: the boxes that are objects learn the outline that they overlap most.
template <class T>
struct MaskImage {
  std::vector<Outline<T>> outlines;
  const T* rois;
  const int32_t* labels;
  int64_t count;
  T scale;

  void label(int64_t classes, int64_t side, MaskLabels<T>& to) const {
    std::vector<std::vector<T>> around;
    for (const auto& outline : outlines) around.push_back(box_around(outline));
    const auto width = static_cast<size_t>(classes * side * side);
    bool any = false;
    for (int64_t i = 0; i < count; ++i) {
      if (labels[i] <= 0 || outlines.empty()) continue;
      any = true;
      T box[4];
      for (int c = 0; c < 4; ++c) box[c] = rois[4 * i + c] / scale;
      size_t best = 0;
      T overlap = 0;
      for (size_t j = 0; j < around.size(); ++j) {
        const T one = box_overlap<T>(box, around[j].data(), false);
        if (one > overlap) overlap = one, best = j;
      }
      std::vector<bool> mask(static_cast<size_t>(side * side));
      for (const auto& polygon : outlines[best]) {
        std::vector<bool> own(mask.size());
        fill_polygon(polygon, box, side, own);
        for (size_t at = 0; at < mask.size(); ++at) mask[at] = mask[at] || own[at];
      }
      give(i, to);
      std::vector<int32_t> all(width, -1);
      if (labels[i] >= classes) {
        throw Error(ErrorKind::out_of_range,
                    cat("LabelsInt32 holds ", labels[i], " but num_classes is ", classes))
            .fix(cat("use classes from 0 to ", classes - 1));
      }
      for (int64_t at = 0; at < side * side; ++at) {
        all[static_cast<size_t>(labels[i] * side * side + at)] =
            mask[static_cast<size_t>(at % side * side + at / side)] ? 1 : 0;
      }
      to.masks.insert(to.masks.end(), all.begin(), all.end());
    }
    if (any) return;
    // Something must be there: a box of the background, with nothing to learn.
    for (int64_t i = 0; i < count; ++i) {
      if (labels[i] != 0) continue;
      give(i, to);
      to.masks.resize(to.masks.size() + width, -1);
      return;
    }
  }
  void give(int64_t i, MaskLabels<T>& to) const {
    to.rois.insert(to.rois.end(), rois + 4 * i, rois + 4 * i + 4);
    to.which.push_back(static_cast<int32_t>(i));
  }
};

template <class T>
BoundKernel mask_labels(const KernelSite& site) {
  const int64_t images = site.in("ImInfo").shape.at(0);
  const int64_t classes = site.attr<int32_t>("num_classes"),
                side = site.attr<int32_t>("resolution");
  const auto truth_ends = sequence_of_every_image(site, "GtClasses", images);
  sequence_of_every_image(site, "IsCrowd", images);
  const auto roi_ends = sequence_of_every_image(site, "Rois", images);
  sequence_of_every_image(site, "LabelsInt32", images);
  const Lod segments = site.in("GtSegms").lod;
  if (segments.size() != 3 || static_cast<int64_t>(segments[0].size()) != images + 1) {
    throw site.error(cat("GtSegms has ", segments.size(), " levels of sequences"))
        .fix("give points of polygons of objects of images: three levels");
  }
  const int info_at = site.position("ImInfo"), class_at = site.position("GtClasses");
  const int crowd_at = site.position("IsCrowd"), segment_at = site.position("GtSegms");
  const int roi_at = site.position("Rois"), label_at = site.position("LabelsInt32");
  const int rois_out = site.out_position("MaskRois"),
            which_out = site.out_position("RoiHasMaskInt32");
  const int mask_out = site.out_position("MaskInt32");
  return [=](const KernelArgs& k) {
    MaskLabels<T> all;
    Lod lod = {{0}};
    for (int64_t n = 0; n < images; ++n) {
      const auto i = static_cast<size_t>(n);
      MaskImage<T> image{.outlines = {},
                         .rois = k.in<T>(roi_at) + 4 * roi_ends[i],
                         .labels = k.in<int32_t>(label_at) + roi_ends[i],
                         .count = roi_ends[i + 1] - roi_ends[i],
                         .scale = k.in<T>(info_at)[3 * n + 2]};
      for (int64_t object = segments[0][i]; object < segments[0][i + 1]; ++object) {
        const int64_t truth = truth_ends[i] + object - segments[0][i];
        if (k.in<int32_t>(class_at)[truth] <= 0 || k.in<int32_t>(crowd_at)[truth] != 0) continue;
        Outline<T> outline;
        const auto at = static_cast<size_t>(object);
        for (auto p = static_cast<size_t>(segments[1][at]);
             p < static_cast<size_t>(segments[1][at + 1]); ++p) {
          outline.push_back(
              {k.in<T>(segment_at) + 2 * segments[2][p], segments[2][p + 1] - segments[2][p]});
        }
        image.outlines.push_back(outline);
      }
      image.label(classes, side, all);
      lod[0].push_back(static_cast<int64_t>(all.which.size()));
    }
    const auto rows = static_cast<int64_t>(all.which.size());
    give_rows<T>(k, rois_out, {rows, 4}, all.rois, lod);
    give_rows<int32_t>(k, which_out, {rows, 1}, all.which, lod);
    give_rows<int32_t>(k, mask_out, {rows, classes * side * side}, all.masks, lod);
  };
}

void mask_labels_shape(OpView& op) {
  require_floating(op, "Rois");
  const Shape &rois = op.in("Rois").shape, &points = op.in("GtSegms").shape;
  const Shape& info = op.in("ImInfo").shape;
  if (rois.rank() != 2 || !rois[1].may_equal(4) || points.rank() != 2 || !points[1].may_equal(2) ||
      info.rank() != 2 || !info[1].may_equal(3)) {
    throw op.error(cat("Rois has shape ", rois, ", GtSegms ", points, " and ImInfo ", info))
        .fix("give [boxes, 4], [points, 2] and [images, 3]");
  }
  const int64_t side = op.attr<int32_t>("resolution");
  op.set_out("MaskRois", op.in("Rois").dtype, {Dim(), 4});
  op.set_out("RoiHasMaskInt32", DType::int32, {Dim(), 1});
  op.set_out("MaskInt32", DType::int32, {Dim(), op.attr<int32_t>("num_classes") * side * side});
  for (const char* slot : {"MaskRois", "RoiHasMaskInt32", "MaskInt32"}) set_lod(op, slot, {}, 1);
}

}  // namespace

void register_mask_targets(Registry& ops) {
  ops.op("generate_mask_labels")
      .doc("What masks of boxes are to learn, from polygons around true objects")
      .in("ImInfo", "[images, 3]: height, width, and what the image was scaled by")
      .in("GtClasses", "int32 [truths, 1]: classes of the objects; in sequences")
      .in("IsCrowd", "int32 [truths, 1]: 1 where an object is left out")
      .in("GtSegms", "[points, 2]: of polygons of objects of images, three levels of sequences")
      .in("Rois", "[boxes, 4]: a sequence for each image")
      .in("LabelsInt32", "int32 [boxes, 1]: their classes, 0 for background")
      .out("MaskRois", "[chosen, 4]: the boxes that are objects")
      .out("RoiHasMaskInt32", "int32 [chosen, 1]: which of the image's boxes they are")
      .out("MaskInt32", "int32 [chosen, num_classes * resolution^2]: masks, -1 for other classes")
      .required_attr<int32_t>("num_classes", "number of classes, background included")
      .at_least(1)
      .required_attr<int32_t>("resolution", "height and width of a mask")
      .at_least(1)
      .shape(mask_labels_shape)
      .traits({.host = true})
      .kernel(typed_by<float, double>(
          "Rois", []<class T>(const KernelSite& site) { return mask_labels<T>(site); }))
      .sample([](Draw& d) {
        Tensor points = d.uniform({6, 2}, 0, 9), rois = d.uniform({2, 4}, 0, 9);
        Tensor one = d.ints({2, 1}, 1, 1, DType::int32), none = d.ints({2, 1}, 0, 0, DType::int32);
        points.set_lod({{0, 1, 2}, {0, 1, 2}, {0, 3, 6}});
        for (Tensor* rows : {&rois, &one, &none}) rows->set_lod({{0, 1, 2}});
        return OpSample{.inputs = {{"ImInfo", {d.uniform({2, 3}, 9, 12)}},
                                   {"GtClasses", {one}},
                                   {"IsCrowd", {none}},
                                   {"GtSegms", {points}},
                                   {"Rois", {rois}},
                                   {"LabelsInt32", {one}}},
                        .attrs = {{"num_classes", int32_t{2}}, {"resolution", int32_t{4}}}};
      });
}

}  // namespace trireme
