// yolov3_loss: places, classes and the presence of objects at one scale of a YOLO.
#include <cmath>

#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

struct YoloScale {
  int64_t images, side, boxes, classes, size;  // size: of the image in pixels
  std::vector<int32_t> anchors, mask;
  double threshold, stretch, positive = 1, negative = 0;

  explicit YoloScale(const KernelSite& site)
      : images(site.in("X").shape.at(0)),
        side(site.in("X").shape.at(2)),
        boxes(site.in("GTBox").shape.at(1)),
        classes(site.attr<int32_t>("class_num")),
        size(site.attr<int32_t>("downsample_ratio") * side),
        anchors(site.attr<std::vector<int32_t>>("anchors")),
        mask(site.attr<std::vector<int32_t>>("anchor_mask")),
        threshold(site.attr<float>("ignore_thresh")),
        stretch(site.attr<float>("scale_x_y")) {
    if (!site.attr<bool>("use_label_smooth")) return;
    negative = std::min(1.0 / static_cast<double>(classes), 1.0 / 40);
    positive = 1 - negative;
  }
  int64_t kinds() const { return static_cast<int64_t>(mask.size()); }
  int64_t cells() const { return side * side; }
  int64_t width() const { return kinds() * (5 + classes) * cells(); }  // numbers of an image
  // Number `which` (x, y, width, height, presence, classes) of a cell.
  int64_t at(int64_t kind, int64_t which, int64_t cell) const {
    return (kind * (5 + classes) + which) * cells() + cell;
  }
  double anchor(int64_t i, int64_t axis) const {
    return static_cast<double>(anchors[static_cast<size_t>(2 * i + axis)]) /
           static_cast<double>(size);
  }
};

// Middle and size, in parts of the image.
struct MiddleBox {
  double x, y, wide, high;
  bool real() const { return wide > 1e-6 && high > 1e-6; }
};

double shared_length(double a, double length, double b, double other) {
  return std::min(a + length / 2, b + other / 2) - std::max(a - length / 2, b - other / 2);
}

double middle_overlap(const MiddleBox& a, const MiddleBox& b) {
  const double wide = shared_length(a.x, a.wide, b.x, b.wide);
  const double high = shared_length(a.y, a.high, b.y, b.high);
  const double shared = wide < 0 || high < 0 ? 0 : wide * high;
  return shared / (a.wide * a.high + b.wide * b.high - shared);
}

template <class T>
MiddleBox true_box(const T* box) {
  return {box[0], box[1], box[2], box[3]};
}

double yolo_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The cross entropy of a logit, and its slope.
double logit_loss(double x, double wanted) {
  return std::max(x, 0.0) - x * wanted + std::log1p(std::exp(-std::abs(x)));
}

// A true box that this scale learns: its cell and anchor, and what the numbers there should be.
struct YoloTarget {
  int64_t kind = -1, cell = 0;
  double wanted[4] = {}, weight = 0;

  YoloTarget(const YoloScale& s, const MiddleBox& box, double score) {
    int64_t best = 0;
    double most = 0;
    for (int64_t i = 0; i < static_cast<int64_t>(s.anchors.size()) / 2; ++i) {
      const double overlap =
          middle_overlap({0, 0, s.anchor(i, 0), s.anchor(i, 1)}, {0, 0, box.wide, box.high});
      if (overlap > most) most = overlap, best = i;
    }
    const auto found = std::find(s.mask.begin(), s.mask.end(), static_cast<int32_t>(best));
    if (found == s.mask.end()) return;
    kind = found - s.mask.begin();
    const auto side = static_cast<double>(s.side);
    const auto column = static_cast<int64_t>(box.x * side),
               row = static_cast<int64_t>(box.y * side);
    cell = row * s.side + column;
    wanted[0] = box.x * side - static_cast<double>(column);
    wanted[1] = box.y * side - static_cast<double>(row);
    wanted[2] = std::log(box.wide / s.anchor(best, 0));
    wanted[3] = std::log(box.high / s.anchor(best, 1));
    weight = (2 - box.wide * box.high) * score;
  }
};

template <class T>
MiddleBox said_box(const YoloScale& s, const T* x, int64_t kind, int64_t cell) {
  const auto number = [&](int64_t which) {
    return static_cast<double>(x[s.at(kind, which, cell)]);
  };
  const auto side = static_cast<double>(s.side);
  const auto place = [&](int64_t which, int64_t begin) {
    const double inside = yolo_sigmoid(number(which)) * s.stretch - 0.5 * (s.stretch - 1);
    return (static_cast<double>(begin) + inside) / side;
  };
  const int32_t anchor = s.mask[static_cast<size_t>(kind)];
  return {place(0, cell % s.side), place(1, cell / s.side),
          std::exp(number(2)) * s.anchor(anchor, 0), std::exp(number(3)) * s.anchor(anchor, 1)};
}

// The numbers of one image.
template <class T>
struct YoloImage {
  const T *x, *boxes, *scores;  // scores: null where all are 1
  const int32_t* labels;
  double score(int64_t box) const { return scores ? static_cast<double>(scores[box]) : 1.0; }
};

// Presence at a cell: the score of the object there, 0 where there is none, -1 where what is said
// overlaps an object too much to be called wrong. `match`: the kind of anchor of a true box, or -1.
template <class T>
double image_loss(const YoloScale& s, const YoloImage<T>& image, T* presence, int32_t* match) {
  double loss = 0;
  for (int64_t at = 0; at < s.kinds() * s.cells(); ++at) {
    const MiddleBox said = said_box(s, image.x, at / s.cells(), at % s.cells());
    double most = 0;
    for (int64_t t = 0; t < s.boxes; ++t) {
      const MiddleBox box = true_box(image.boxes + 4 * t);
      if (box.real()) most = std::max(most, middle_overlap(said, box));
    }
    presence[at] = most > s.threshold ? T{-1} : T{0};
  }
  for (int64_t t = 0; t < s.boxes; ++t) {
    match[t] = -1;
    const MiddleBox box = true_box(image.boxes + 4 * t);
    if (!box.real()) continue;
    const YoloTarget target(s, box, image.score(t));
    match[t] = static_cast<int32_t>(target.kind);
    if (target.kind < 0) continue;
    const auto number = [&](int64_t which) {
      return static_cast<double>(image.x[s.at(target.kind, which, target.cell)]);
    };
    for (int64_t i = 0; i < 4; ++i) {
      loss += target.weight * (i < 2 ? logit_loss(number(i), target.wanted[i])
                                     : std::abs(number(i) - target.wanted[i]));
    }
    presence[target.kind * s.cells() + target.cell] = static_cast<T>(image.score(t));
    for (int64_t c = 0; c < s.classes; ++c) {
      const double wanted = c == image.labels[t] ? s.positive : s.negative;
      loss += logit_loss(number(5 + c), wanted) * image.score(t);
    }
  }
  for (int64_t at = 0; at < s.kinds() * s.cells(); ++at) {
    const auto x = static_cast<double>(image.x[s.at(at / s.cells(), 4, at % s.cells())]);
    const auto there = static_cast<double>(presence[at]);
    if (there > 1e-5) {
      loss += logit_loss(x, 1) * there;
    } else if (there > -0.5) {
      loss += logit_loss(x, 0);
    }
  }
  return loss;
}

template <class T>
void image_gradient(const YoloScale& s, const YoloImage<T>& image, const T* presence,
                    const int32_t* match, double grad, T* to) {
  std::fill_n(to, s.width(), T{0});
  for (int64_t t = 0; t < s.boxes; ++t) {
    if (match[t] < 0) continue;
    const YoloTarget target(s, true_box(image.boxes + 4 * t), image.score(t));
    const auto give = [&](int64_t which, const auto& slope) {
      const int64_t at = s.at(target.kind, which, target.cell);
      to[at] += static_cast<T>(slope(static_cast<double>(image.x[at])) * grad);
    };
    for (int64_t i = 0; i < 4; ++i) {
      give(i, [&](double x) {
        const double off =
            i < 2 ? yolo_sigmoid(x) - target.wanted[i]
                  : static_cast<double>((x > target.wanted[i]) - (x < target.wanted[i]));
        return off * target.weight;
      });
    }
    for (int64_t c = 0; c < s.classes; ++c) {
      const double wanted = c == image.labels[t] ? s.positive : s.negative;
      give(5 + c, [&](double x) { return (yolo_sigmoid(x) - wanted) * image.score(t); });
    }
  }
  for (int64_t at = 0; at < s.kinds() * s.cells(); ++at) {
    const int64_t place = s.at(at / s.cells(), 4, at % s.cells());
    const double said = yolo_sigmoid(static_cast<double>(image.x[place]));
    const auto there = static_cast<double>(presence[at]);
    const double slope = there > 1e-5 ? (said - 1) * there : there > -0.5 ? said : 0;
    to[place] += static_cast<T>(slope * grad);
  }
}

int yolo_parts(const YoloScale& s) {
  const int64_t work = s.images * s.width() * std::max<int64_t>(s.boxes, 1);
  return static_cast<int>(std::clamp<int64_t>(s.images, 1, parts_for(work)));
}

template <class T>
BoundKernel yolo_loss(const KernelSite& site) {
  const YoloScale s(site);
  const int x_at = site.position("X"), box_at = site.position("GTBox");
  const int label_at = site.position("GTLabel"), score_at = site.position("GTScore");
  const int loss_at = site.out_position("Loss"), there_at = site.out_position("ObjectnessMask");
  const int match_at = site.out_position("GTMatchMask");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(s.images);
        for (int64_t n = begin; n < end; ++n) {
          const YoloImage<T> image{k.in<T>(x_at) + n * s.width(), k.in<T>(box_at) + n * s.boxes * 4,
                                   k.has_in(score_at) ? k.in<T>(score_at) + n * s.boxes : nullptr,
                                   k.in<int32_t>(label_at) + n * s.boxes};
          const double loss = image_loss(s, image, k.out<T>(there_at) + n * s.kinds() * s.cells(),
                                         k.out<int32_t>(match_at) + n * s.boxes);
          k.out<T>(loss_at)[n] = static_cast<T>(loss);
        }
      },
      yolo_parts(s));
}

template <class T>
BoundKernel yolo_loss_grad(const KernelSite& site) {
  const YoloScale s(site);
  const int x_at = site.position("X"), box_at = site.position("GTBox");
  const int label_at = site.position("GTLabel"), score_at = site.position("GTScore");
  const int there_at = site.position("ObjectnessMask"), match_at = site.position("GTMatchMask");
  const int grad_at = site.position("Loss@GRAD"), to_at = site.out_position("X@GRAD");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(s.images);
        for (int64_t n = begin; n < end; ++n) {
          const YoloImage<T> image{k.in<T>(x_at) + n * s.width(), k.in<T>(box_at) + n * s.boxes * 4,
                                   k.has_in(score_at) ? k.in<T>(score_at) + n * s.boxes : nullptr,
                                   k.in<int32_t>(label_at) + n * s.boxes};
          image_gradient(s, image, k.in<T>(there_at) + n * s.kinds() * s.cells(),
                         k.in<int32_t>(match_at) + n * s.boxes,
                         static_cast<double>(k.in<T>(grad_at)[n]), k.out<T>(to_at) + n * s.width());
        }
      },
      yolo_parts(s));
}

void yolo_loss_shape(OpView& op) {
  const ValueInfo &x = op.in("X"), &boxes = op.in("GTBox"), &labels = op.in("GTLabel");
  require_floating(op, "X");
  const auto anchors = op.attr<std::vector<int32_t>>("anchors");
  const auto mask = op.attr<std::vector<int32_t>>("anchor_mask");
  const auto kinds = static_cast<int64_t>(mask.size());
  if (anchors.empty() || anchors.size() % 2 != 0 || kinds == 0) {
    throw op.error(cat("anchors is [", join(anchors), "] and anchor_mask [", join(mask), "]"))
        .fix("give width and height of each anchor, and which of them this scale has");
  }
  for (const int32_t one : mask) {
    if (one >= 0 && one < static_cast<int32_t>(anchors.size() / 2)) continue;
    throw op.error(cat("anchor_mask has ", one, " but there are ", anchors.size() / 2, " anchors"))
        .fix(cat("use numbers from 0 to ", anchors.size() / 2 - 1));
  }
  const int64_t channels = kinds * (5 + op.attr<int32_t>("class_num"));
  if (x.shape.rank() != 4 || !x.shape[1].may_equal(channels) || !x.shape[2].may_equal(x.shape[3])) {
    throw op.error(cat("X has shape ", x.shape))
        .fix(cat("give [images, ", channels,
                 ", side, side]: 5 + class_num for each of anchor_mask"));
  }
  const auto agrees = [&](const Shape& shape, int rank) {
    return shape.rank() == rank && shape[0].may_equal(x.shape[0]) &&
           shape[1].may_equal(boxes.shape[1]);
  };
  if (boxes.shape.rank() != 3 || !agrees(boxes.shape, 3) || !boxes.shape[2].may_equal(4) ||
      !agrees(labels.shape, 2) || (op.has("GTScore") && !agrees(op.in("GTScore").shape, 2))) {
    throw op.error(cat("GTBox has shape ", boxes.shape, " and GTLabel ", labels.shape))
        .fix("give [images, boxes, 4] and [images, boxes], GTScore too where it is there");
  }
  op.set_out("Loss", x.dtype, {x.shape[0]});
  op.set_out("ObjectnessMask", x.dtype, {x.shape[0], kinds, x.shape[2], x.shape[3]});
  op.set_out("GTMatchMask", DType::int32, {x.shape[0], boxes.shape[1]});
}

OpSample yolo_sample(Draw& d, bool scored) {
  OpSample sample;
  sample.inputs = {{"X", {d.uniform({2, 14, 3, 3})}},
                   {"GTBox", {d.uniform({2, 3, 4}, 0.1, 0.9)}},
                   {"GTLabel", {d.ints({2, 3}, 0, 1, DType::int32)}}};
  if (scored) sample.inputs["GTScore"] = {d.uniform({2, 3}, 0.2, 1)};
  sample.attrs = {{"class_num", int32_t{2}},
                  {"anchors", std::vector<int32_t>{10, 13, 30, 30, 60, 50}},
                  {"anchor_mask", std::vector<int32_t>{1, 2}},
                  {"ignore_thresh", 0.7f},
                  {"downsample_ratio", int32_t{32}},
                  {"use_label_smooth", scored},
                  {"scale_x_y", scored ? 1.1f : 1.0f}};
  return sample;
}

}  // namespace

void register_yolov3_loss(Registry& ops) {
  ops.op("yolov3_loss")
      .doc("A YOLO's loss at one scale: of places, of classes, and of whether there is an object")
      .in("X", "[images, anchors * (5 + classes), side, side]: what the network says of every cell")
      .in("GTBox", "[images, boxes, 4]: middle and size in parts of the image; size 0: none")
      .in("GTLabel", "int32 [images, boxes]: classes, from 0 up")
      .in_optional("GTScore", "[images, boxes]: how much each counts")
      .out("Loss", "[images]")
      .out_intermediate("ObjectnessMask",
                        "[images, anchors, side, side]: scores of objects; -1: "
                        "nothing is learned there")
      .out_intermediate("GTMatchMask", "int32 [images, boxes]: which anchor learns it; -1: none")
      .required_attr<int32_t>("class_num", "number of classes")
      .at_least(1)
      .attr("anchors", std::vector<int32_t>{}, "width and height of all anchors, in pixels")
      .attr("anchor_mask", std::vector<int32_t>{}, "which of them this scale has")
      .attr("downsample_ratio", 32, "pixels of a cell's side")
      .attr("ignore_thresh", 0.7f, "what overlaps an object by more is not called wrong")
      .attr("use_label_smooth", true, "classes are wanted a little less than wholly")
      .attr("scale_x_y", 1.0f, "how far places reach beyond their cell")
      .shape(yolo_loss_shape)
      .kernel(typed_by<float, double>(
          "X", []<class T>(const KernelSite& site) { return yolo_loss<T>(site); }))
      .grad({"X", "GTBox", "GTLabel", "GTScore", "ObjectnessMask", "GTMatchMask"})
      .no_grad({"GTBox", "GTLabel", "GTScore"})
      .grad_outs({"Loss"})
      .grad_kernel(typed_by<float, double>(
          "X", []<class T>(const KernelSite& site) { return yolo_loss_grad<T>(site); }))
      .sample([](Draw& d) { return yolo_sample(d, false); })
      .sample([](Draw& d) { return yolo_sample(d, true); });
}

}  // namespace trireme
