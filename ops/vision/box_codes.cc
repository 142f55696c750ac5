// Boxes compared, coded and cut: iou_similarity, box_coder, box_clip, yolo_box.
#include <cmath>

#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/vision/box_math.h"

namespace trireme {
namespace {

void require_boxes(const OpView& op, const char* slot, int rank = 2) {
  const Shape& boxes = op.in(slot).shape;
  if (boxes.rank() == rank && boxes.back().may_equal(4)) return;
  throw op.error(cat(slot, " has shape ", boxes))
      .fix(rank == 2 ? "give [boxes, 4]" : "give [boxes, priors, 4]");
}

// ---- iou_similarity

void iou_shape(OpView& op) {
  require_floating(op, "X");
  require_boxes(op, "X");
  require_boxes(op, "Y");
  op.set_out("Out", op.in("X").dtype, {op.in("X").shape[0], op.in("Y").shape[0]});
  carry_lod(op, "Out", {"X"});
}

template <class T>
BoundKernel iou_kernel(const KernelSite& site) {
  const int64_t rows = site.in("X").shape.at(0), columns = site.in("Y").shape.at(0);
  const bool normalized = site.attr<bool>("box_normalized");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(rows);
        for (int64_t i = begin; i < end; ++i) {
          for (int64_t j = 0; j < columns; ++j) {
            k.out<T>(0)[i * columns + j] =
                box_overlap(k.in<T>(0) + 4 * i, k.in<T>(1) + 4 * j, normalized);
          }
        }
      },
      parts_for(rows * columns * 4));
}

// ---- box_coder

bool encodes(const OpView& op) {
  const auto type = op.attr<std::string>("code_type");
  return type == "encode_center_size" || type == "EncodeCenterSize";
}

void coder_shape(OpView& op) {
  const ValueInfo &prior = op.in("PriorBox"), &target = op.in("TargetBox");
  require_floating(op, "TargetBox");
  require_boxes(op, "PriorBox");
  const auto variance = op.attr<std::vector<float>>("variance");
  if (!variance.empty() && (variance.size() != 4 || op.has("PriorBoxVar"))) {
    throw op.error(cat("variance is [", join(variance), "]"))
        .fix("give four numbers, or PriorBoxVar, not both");
  }
  if (op.has("PriorBoxVar") && !op.in("PriorBoxVar").shape.may_equal(prior.shape)) {
    throw op
        .error(cat("PriorBoxVar has shape ", op.in("PriorBoxVar").shape, " but PriorBox ",
                   prior.shape))
        .fix("give variances for each box");
  }
  if (encodes(op)) {
    require_boxes(op, "TargetBox");
    op.set_out("OutputBox", target.dtype, {target.shape[0], prior.shape[0], 4});
    return carry_lod(op, "OutputBox", {"TargetBox"});
  }
  require_boxes(op, "TargetBox", 3);
  const int axis = op.attr<int32_t>("axis");
  if (!target.shape[axis == 0 ? 1 : 0].may_equal(prior.shape[0])) {
    throw op.error(cat("TargetBox has shape ", target.shape, " but PriorBox ", prior.shape))
        .fix(cat("with axis ", axis, " give as many priors as dimension ", 1 - axis, " has"));
  }
  op.set_out("OutputBox", target.dtype, target.shape);
  carry_lod(op, "OutputBox", {axis == 0 ? "TargetBox" : "PriorBox"});  // whose rows they are
}

// A prior's middle and size, with the numbers that codes are divided by.
template <class T>
struct CodedBy {
  T x, y, width, height, variance[4];
  CodedBy(const T* box, const T* divisors, bool normalized) {
    const T edge = normalized ? T{0} : T{1};
    width = box[2] - box[0] + edge;
    height = box[3] - box[1] + edge;
    x = box[0] + width / 2;
    y = box[1] + height / 2;
    for (int i = 0; i < 4; ++i) variance[i] = divisors ? divisors[i] : T{1};
  }
  void encode(const T* box, bool normalized, T* code) const {
    const T edge = normalized ? T{0} : T{1};
    const T numbers[] = {((box[0] + box[2]) / 2 - x) / width, ((box[1] + box[3]) / 2 - y) / height,
                         std::log(std::abs((box[2] - box[0] + edge) / width)),
                         std::log(std::abs((box[3] - box[1] + edge) / height))};
    for (int i = 0; i < 4; ++i) code[i] = numbers[i] / variance[i];
  }
  void decode(const T* code, bool normalized, T* box) const {
    const T edge = normalized ? T{0} : T{1};
    const T middle_x = variance[0] * code[0] * width + x;
    const T middle_y = variance[1] * code[1] * height + y;
    const T w = std::exp(variance[2] * code[2]) * width;
    const T h = std::exp(variance[3] * code[3]) * height;
    box[0] = middle_x - w / 2, box[1] = middle_y - h / 2;
    box[2] = middle_x + w / 2 - edge, box[3] = middle_y + h / 2 - edge;
  }
};

template <class T>
BoundKernel coder_kernel(const KernelSite& site) {
  const Shape& out = site.out("OutputBox").shape;
  const int64_t rows = out.at(0), columns = out.at(1);
  const bool encode = encodes(site), normalized = site.attr<bool>("box_normalized");
  const bool by_column = encode || site.attr<int32_t>("axis") == 0;
  const int prior_at = site.position("PriorBox"), variance_at = site.position("PriorBoxVar");
  const int target_at = site.position("TargetBox");
  const auto given = site.attr<std::vector<float>>("variance");
  const std::vector<T> shared(given.begin(), given.end());
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(rows);
        for (int64_t at = begin * columns; at < end * columns; ++at) {
          const int64_t prior = by_column ? at % columns : at / columns;
          const T* variance = k.has_in(variance_at) ? k.in<T>(variance_at) + 4 * prior
                              : shared.empty()      ? nullptr
                                                    : shared.data();
          const CodedBy<T> by(k.in<T>(prior_at) + 4 * prior, variance, normalized);
          T* to = k.out<T>(0) + 4 * at;
          if (encode) {
            by.encode(k.in<T>(target_at) + 4 * (at / columns), normalized, to);
          } else {
            by.decode(k.in<T>(target_at) + 4 * at, normalized, to);
          }
        }
      },
      parts_for(rows * columns * 16));
}

// ---- box_clip

void clip_boxes_shape(OpView& op) {
  const ValueInfo &input = op.in("Input"), &info = op.in("ImInfo");
  require_floating(op, "Input");
  if (input.shape.rank() < 2 || !input.shape.back().may_equal(4) || info.shape.rank() != 2 ||
      !info.shape[1].may_equal(3)) {
    throw op.error(cat("Input has shape ", input.shape, " and ImInfo ", info.shape))
        .fix("give Input [boxes, ..., 4] in sequences and ImInfo [images, 3]");
  }
  op.set_out_like("Output", input);
}

template <class T>
BoundKernel clip_boxes(const KernelSite& site) {
  const Shape& input = site.in("Input").shape;
  const Lod& lod = site.in("Input").lod;
  const int64_t images = site.in("ImInfo").shape.at(0);
  std::vector<int64_t> ends = {0, input.at(0)};
  if (!lod.empty()) ends = lod.back();
  if (static_cast<int64_t>(ends.size()) != images + 1) {
    throw site.error(cat("Input has boxes of ", ends.size() - 1, " images but ImInfo ", images))
        .fix("give Input one sequence of boxes for every image");
  }
  const int64_t width = input.product(1, input.rank()).value();
  return [=](const KernelArgs& k) {
    for (int64_t image = 0; image < images; ++image) {
      const T* info = k.in<T>(1) + 3 * image;
      const T most[] = {std::round(info[1] / info[2]) - 1, std::round(info[0] / info[2]) - 1};
      const auto first = static_cast<size_t>(image);
      for (int64_t i = ends[first] * width; i < ends[first + 1] * width; ++i) {
        k.out<T>(0)[i] = std::max(std::min(k.in<T>(0)[i], most[i % 2]), T{0});
      }
    }
  };
}

// ---- yolo_box

void yolo_box_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  require_floating(op, "X");
  const int64_t classes = op.attr<int32_t>("class_num");
  const auto anchors = op.attr<std::vector<int32_t>>("anchors");
  const auto count = static_cast<int64_t>(anchors.size() / 2);
  if (anchors.empty() || anchors.size() % 2 != 0 || x.shape.rank() != 4 ||
      !x.shape[1].may_equal(count * (5 + classes))) {
    throw op
        .error(cat("X has shape ", x.shape, " but there are ", anchors.size(),
                   " numbers of anchors and ", classes, " classes"))
        .fix("give X anchors * (5 + classes) channels, and anchors as pairs of width and height");
  }
  if (op.in("ImgSize").shape.rank() != 2 || !op.in("ImgSize").shape[1].may_equal(2)) {
    throw op.error(cat("ImgSize has shape ", op.in("ImgSize").shape)).fix("give [images, 2]");
  }
  const Dim boxes = x.shape[2] * x.shape[3] * Dim(count);
  op.set_out("Boxes", x.dtype, {x.shape[0], boxes, 4});
  op.set_out("Scores", x.dtype, {x.shape[0], boxes, classes});
}

struct YoloForm {
  int64_t images, anchors, classes, height, width;
  double scale, shift, least, reduction;
  bool cut;
  std::vector<int32_t> sizes;
  explicit YoloForm(const KernelSite& site) : sizes(site.attr<std::vector<int32_t>>("anchors")) {
    const Shape& x = site.in("X").shape;
    images = x.at(0), height = x.at(2), width = x.at(3);
    anchors = static_cast<int64_t>(sizes.size() / 2);
    classes = site.attr<int32_t>("class_num");
    scale = site.attr<float>("scale_x_y");
    shift = -0.5 * (scale - 1);
    least = site.attr<float>("conf_thresh");
    reduction = site.attr<int32_t>("downsample_ratio");
    cut = site.attr<bool>("clip_bbox");
  }
};

template <class T>
T logistic(T x) {
  return T{1} / (T{1} + std::exp(-x));
}

// One box: what the network said at a place of its map, in pixels of the image.
template <class T>
void yolo_one(const YoloForm& f, const T* x, int64_t anchor, int64_t place, T image_h, T image_w,
              T* box, T* scores) {
  const int64_t pixels = f.height * f.width;
  const T* at = x + anchor * (5 + f.classes) * pixels + place;
  const T sure = logistic(at[4 * pixels]);
  if (sure < f.least) {
    std::fill_n(box, 4, T{0});
    std::fill_n(scores, f.classes, T{0});
    return;
  }
  const auto scale = static_cast<T>(f.scale), shift = static_cast<T>(f.shift);
  const T mid_x = (static_cast<T>(place % f.width) + logistic(at[0]) * scale + shift) * image_w /
                  static_cast<T>(f.width);
  const T mid_y = (static_cast<T>(place / f.width) + logistic(at[pixels]) * scale + shift) *
                  image_h / static_cast<T>(f.height);
  const auto side = [&](int64_t which, T image, int64_t extent) {
    const auto size = static_cast<T>(f.sizes[static_cast<size_t>(2 * anchor + which)]);
    return std::exp(at[(2 + which) * pixels]) * size * image /
           (static_cast<T>(f.reduction) * static_cast<T>(extent));
  };
  const T w = side(0, image_w, f.width), h = side(1, image_h, f.height);
  box[0] = mid_x - w / 2, box[1] = mid_y - h / 2;
  box[2] = mid_x + w / 2, box[3] = mid_y + h / 2;
  if (f.cut) {
    box[0] = std::max(box[0], T{0}), box[1] = std::max(box[1], T{0});
    box[2] = std::min(box[2], image_w - 1), box[3] = std::min(box[3], image_h - 1);
  }
  for (int64_t c = 0; c < f.classes; ++c) scores[c] = sure * logistic(at[(5 + c) * pixels]);
}

template <class T>
BoundKernel yolo_box_kernel(const KernelSite& site) {
  const YoloForm f(site);
  const int x_at = site.position("X"), size_at = site.position("ImgSize");
  const int boxes_at = site.out_position("Boxes"), scores_at = site.out_position("Scores");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const int64_t pixels = f.height * f.width, boxes = f.anchors * pixels;
        const auto [begin, end] = k.range(f.images * boxes);
        for (int64_t at = begin; at < end; ++at) {
          const int64_t image = at / boxes, box = at % boxes;
          const int32_t* size = k.in<int32_t>(size_at) + 2 * image;
          yolo_one(f, k.in<T>(x_at) + image * f.anchors * (5 + f.classes) * pixels, box / pixels,
                   box % pixels, static_cast<T>(size[0]), static_cast<T>(size[1]),
                   k.out<T>(boxes_at) + 4 * at, k.out<T>(scores_at) + f.classes * at);
        }
      },
      parts_for(f.images * f.anchors * f.height * f.width * (8 + f.classes)));
}

Tensor draw_scaled_boxes(Draw& d, int64_t count, double scale = 1) {
  Tensor boxes = d.uniform({count, 4}, 0, 0.4);
  for (int64_t i = 0; i < count * 4; ++i) {
    double& corner = boxes.data<double>()[i];
    corner = (i % 4 < 2 ? corner : corner + 0.5) * scale;
  }
  return boxes;
}

void register_coder(Registry& ops) {
  ops.op("box_coder")
      .doc("Boxes as differences from others: middles in sizes of these, logarithms of sizes")
      .in("PriorBox", "[priors, 4]")
      .in_optional("PriorBoxVar", "[priors, 4]: codes are divided by these")
      .in("TargetBox", "[boxes, 4] to encode; codes [boxes, priors, 4] to decode")
      .out("OutputBox", "[boxes, priors, 4]")
      .attr("code_type", "encode_center_size", "which way")
      .one_of({"encode_center_size", "decode_center_size", "EncodeCenterSize", "DecodeCenterSize"})
      .attr("box_normalized", true, "corners are parts of the image, not pixels")
      .attr("axis", 0, "decoding: 0: a prior for each column, 1: for each row")
      .between(0, 1)
      .attr("variance", std::vector<float>{}, "one for all, in place of PriorBoxVar")
      .shape(coder_shape)
      .kernel(typed_by<float, double>(
          "TargetBox", []<class T>(const KernelSite& site) { return coder_kernel<T>(site); }))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"PriorBox", {draw_scaled_boxes(d, 3)}},
                                   {"PriorBoxVar", {d.uniform({3, 4}, 0.1, 0.2)}},
                                   {"TargetBox", {draw_scaled_boxes(d, 2)}}}};
      })
      .sample([](Draw& d) {
        return OpSample{
            .inputs = {{"PriorBox", {draw_scaled_boxes(d, 3)}},
                       {"TargetBox", {d.uniform({3, 2, 4})}}},
            .attrs = {{"code_type", std::string("decode_center_size")}, {"axis", int32_t{1}}}};
      });
}

}  // namespace

void register_box_codes(Registry& ops) {
  ops.op("iou_similarity")
      .doc("How much boxes overlap: the area shared by that of both together")
      .in("X", "[boxes, 4]")
      .in("Y", "[others, 4]")
      .out("Out", "[boxes, others]")
      .attr("box_normalized", true, "corners are parts of the image, not pixels")
      .shape(iou_shape)
      .kernel(typed_by<float, double>(
          "X", []<class T>(const KernelSite& site) { return iou_kernel<T>(site); }))
      .sample([](Draw& d) {
        return OpSample{
            .inputs = {{"X", {draw_scaled_boxes(d, 3)}}, {"Y", {draw_scaled_boxes(d, 2)}}}};
      });
  register_coder(ops);
  ops.op("box_clip")
      .doc("Boxes cut to their images")
      .in("Input", "[boxes, ..., 4], in a sequence for each image")
      .in("ImInfo", "[images, 3]: height, width, and what the image was scaled by")
      .out("Output", "corners from 0 to the last pixel of the image before it was scaled")
      .shape(clip_boxes_shape)
      .kernel(typed_by<float, double>(
          "Input", []<class T>(const KernelSite& site) { return clip_boxes<T>(site); }))
      .sample([](Draw& d) {
        Tensor boxes = draw_scaled_boxes(d, 3, 20);
        boxes.set_lod({{0, 1, 3}});
        return OpSample{.inputs = {{"Input", {boxes}}, {"ImInfo", {d.uniform({2, 3}, 5, 9)}}}};
      });
  ops.op("yolo_box")
      .doc("Boxes and scores from what a YOLO network says at every place of its map")
      .in("X", "[images, anchors * (5 + classes), height, width]")
      .in("ImgSize", "int32 [images, 2]: height and width")
      .out("Boxes", "[images, boxes, 4]: corners in pixels, 0 where conf_thresh is not reached")
      .out("Scores", "[images, boxes, classes]")
      .required_attr<int32_t>("class_num", "classes")
      .at_least(1)
      .attr("anchors", std::vector<int32_t>{}, "width and height of each anchor")
      .attr("downsample_ratio", 32, "how much smaller the map is than the network's image")
      .at_least(1)
      .attr("conf_thresh", 0.01f, "how sure a box must be")
      .attr("clip_bbox", true, "corners are cut to the image")
      .attr("scale_x_y", 1.0f, "how far middles may leave their place")
      .shape(yolo_box_shape)
      .kernel(typed_by<float, double>(
          "X", []<class T>(const KernelSite& site) { return yolo_box_kernel<T>(site); }))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({1, 14, 2, 3})}},
                                   {"ImgSize", {d.ints({1, 2}, 60, 90, DType::int32)}}},
                        .attrs = {{"class_num", int32_t{2}},
                                  {"anchors", std::vector<int32_t>{10, 13, 16, 30}}}};
      });
}

}  // namespace trireme
