// Boxes that detectors start from, at every place of a map: prior_box, density_prior_box,
// anchor_generator.
#include <cmath>

#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

using Sizes = std::vector<float>;

struct PriorSize {
  double width, height;  // halves
};

// Ratios each once, 1 first; with flip each also upside down.
std::vector<double> prior_ratios(const OpView& op) {
  std::vector<double> ratios = {1.0};
  for (const float given : op.attr<Sizes>("aspect_ratios")) {
    const bool there = std::any_of(ratios.begin(), ratios.end(),
                                   [&](double r) { return std::abs(r - given) < 1e-6; });
    if (there) continue;
    ratios.push_back(given);
    if (op.attr<bool>("flip")) ratios.push_back(1.0 / given);
  }
  return ratios;
}

std::vector<PriorSize> prior_sizes(const OpView& op) {
  const Sizes least = op.attr<Sizes>("min_sizes"), most = op.attr<Sizes>("max_sizes");
  const std::vector<double> ratios = prior_ratios(op);
  const bool largest_second = op.attr<bool>("min_max_aspect_ratios_order");
  std::vector<PriorSize> sizes;
  for (size_t i = 0; i < least.size(); ++i) {
    std::vector<PriorSize> large;
    if (!most.empty()) {
      const double side = std::sqrt(static_cast<double>(least[i]) * most[i]) / 2;
      large = {{side, side}};
    }
    std::vector<PriorSize> all;
    for (const double ratio : ratios) {
      all.push_back({least[i] * std::sqrt(ratio) / 2, least[i] / std::sqrt(ratio) / 2});
    }
    all.insert(largest_second ? all.begin() + 1 : all.end(), large.begin(), large.end());
    sizes.insert(sizes.end(), all.begin(), all.end());
  }
  return sizes;
}

void require_map(const OpView& op, const char* slot) {
  if (op.in(slot).shape.rank() == 4) return;
  throw op.error(cat(slot, " has shape ", op.in(slot).shape))
      .fix("give [batch, channels, height, width]");
}

void require_variances(const OpView& op) {
  const Sizes variances = op.attr<Sizes>("variances");
  if (variances.size() == 4) return;
  throw op.error(cat("variances is [", join(variances), "]")).fix("give four numbers");
}

void set_boxes(OpView& op, const char* boxes, int64_t count, bool flat = false) {
  const Shape& map = op.in("Input").shape;
  Shape out = {map[2], map[3], count, 4};
  if (flat) out = {map[2] * map[3] * Dim(count), 4};
  op.set_out(boxes, DType::float32, out);
  op.set_out("Variances", DType::float32, out);
}

void prior_shape(OpView& op) {
  require_map(op, "Input");
  require_map(op, "Image");
  require_variances(op);
  const Sizes least = op.attr<Sizes>("min_sizes"), most = op.attr<Sizes>("max_sizes");
  if (least.empty() || (!most.empty() && most.size() != least.size())) {
    throw op.error(cat("min_sizes is [", join(least), "] and max_sizes [", join(most), "]"))
        .fix("give one size or more, and as many of both, or no max_sizes");
  }
  for (size_t i = 0; i < most.size(); ++i) {
    if (most[i] > least[i]) continue;
    throw op.error(cat("max_sizes[", i, "] is ", most[i], " but min_sizes[", i, "] ", least[i]))
        .fix("give max_sizes that are larger");
  }
  set_boxes(op, "Boxes", static_cast<int64_t>(prior_sizes(op).size()));
}

void fill_variances(const OpView& site, const char* slot, std::vector<float>& to, size_t boxes) {
  const Sizes variances = site.attr<Sizes>(slot);
  for (size_t i = 0; i < boxes; ++i) to.insert(to.end(), variances.begin(), variances.end());
}

// Boxes and their variances are numbers that shapes and attributes decide: made once.
BoundKernel constant_boxes(const KernelSite& site, const char* slot, std::vector<float> boxes) {
  std::vector<float> variances;
  fill_variances(site, "variances", variances, boxes.size() / 4);
  const int boxes_at = site.out_position(slot), variances_at = site.out_position("Variances");
  return [=, boxes = std::move(boxes), variances = std::move(variances)](const KernelArgs& k) {
    if (k.has_out(boxes_at)) std::copy(boxes.begin(), boxes.end(), k.out<float>(boxes_at));
    if (k.has_out(variances_at)) {
      std::copy(variances.begin(), variances.end(), k.out<float>(variances_at));
    }
  };
}

// The map's and the image's sizes, and how far places of the map are apart in the image.
struct PriorGrid {
  int64_t height, width;
  double image_height, image_width, step_w, step_h, offset;
  explicit PriorGrid(const OpView& op)
      : height(op.in("Input").shape.at(2)),
        width(op.in("Input").shape.at(3)),
        image_height(static_cast<double>(op.in("Image").shape.at(2))),
        image_width(static_cast<double>(op.in("Image").shape.at(3))),
        step_w(op.attr<float>("step_w")),
        step_h(op.attr<float>("step_h")),
        offset(op.attr<float>("offset")) {
    if (step_w == 0 || step_h == 0) {
      step_w = image_width / static_cast<double>(width);
      step_h = image_height / static_cast<double>(height);
    }
  }
  template <class Visit>
  void each(const Visit& visit) const {
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        visit((static_cast<double>(x) + offset) * step_w,
              (static_cast<double>(y) + offset) * step_h);
      }
    }
  }
  void add(std::vector<float>& boxes, double x, double y, PriorSize half, bool cut) const {
    const double corners[] = {(x - half.width) / image_width, (y - half.height) / image_height,
                              (x + half.width) / image_width, (y + half.height) / image_height};
    for (const double corner : corners) {
      boxes.push_back(static_cast<float>(cut ? std::clamp(corner, 0.0, 1.0) : corner));
    }
  }
};

BoundKernel prior_kernel(const KernelSite& site) {
  const PriorGrid grid(site);
  const std::vector<PriorSize> sizes = prior_sizes(site);
  const bool cut = site.attr<bool>("clip");
  std::vector<float> boxes;
  grid.each([&](double x, double y) {
    for (const PriorSize& size : sizes) grid.add(boxes, x, y, size, cut);
  });
  return constant_boxes(site, "Boxes", std::move(boxes));
}

// ---- density_prior_box

void density_shape(OpView& op) {
  require_map(op, "Input");
  require_map(op, "Image");
  require_variances(op);
  const Sizes sizes = op.attr<Sizes>("fixed_sizes"), ratios = op.attr<Sizes>("fixed_ratios");
  const auto densities = op.attr<std::vector<int32_t>>("densities");
  if (sizes.empty() || densities.size() != sizes.size()) {
    throw op.error(cat("fixed_sizes is [", join(sizes), "] and densities [", join(densities), "]"))
        .fix("give as many of both, one or more");
  }
  int64_t count = 0;
  for (const int32_t density : densities) {
    count += static_cast<int64_t>(ratios.size()) * density * density;
  }
  set_boxes(op, "Boxes", count, op.attr<bool>("flatten_to_2d"));
}

// Around every place a square of density x density boxes of each ratio.
BoundKernel density_kernel(const KernelSite& site) {
  const PriorGrid grid(site);
  const Sizes sizes = site.attr<Sizes>("fixed_sizes"), ratios = site.attr<Sizes>("fixed_ratios");
  const auto densities = site.attr<std::vector<int32_t>>("densities");
  const int step = static_cast<int>((grid.step_w + grid.step_h) * 0.5);
  std::vector<float> boxes;
  grid.each([&](double x, double y) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      const int apart = step / densities[i];
      const double left = x - step / 2.0 + apart / 2.0, top = y - step / 2.0 + apart / 2.0;
      for (const float ratio : ratios) {
        const double root = std::sqrt(static_cast<double>(ratio));
        for (int at = 0; at < densities[i] * densities[i]; ++at) {
          grid.add(boxes, left + at % densities[i] * apart, top + at / densities[i] * apart,
                   {sizes[i] * root / 2, sizes[i] / root / 2}, true);
        }
      }
    }
  });
  return constant_boxes(site, "Boxes", std::move(boxes));
}

// ---- anchor_generator

void anchor_shape(OpView& op) {
  require_map(op, "Input");
  require_variances(op);
  if (op.attr<Sizes>("stride").size() != 2) {
    throw op.error(cat("stride is [", join(op.attr<Sizes>("stride")), "]"))
        .fix("give the distance of anchors to the right and down");
  }
  set_boxes(op, "Anchors",
            static_cast<int64_t>(op.attr<Sizes>("anchor_sizes").size() *
                                 op.attr<Sizes>("aspect_ratios").size()));
}

BoundKernel anchor_kernel(const KernelSite& site) {
  const Shape& map = site.in("Input").shape;
  const Sizes stride = site.attr<Sizes>("stride"), sizes = site.attr<Sizes>("anchor_sizes");
  const Sizes ratios = site.attr<Sizes>("aspect_ratios");
  const double offset = site.attr<float>("offset");
  std::vector<float> boxes;
  for (int64_t y = 0; y < map.at(2); ++y) {
    for (int64_t x = 0; x < map.at(3); ++x) {
      const double middle_x = static_cast<double>(x) * stride[0] + offset * (stride[0] - 1);
      const double middle_y = static_cast<double>(y) * stride[1] + offset * (stride[1] - 1);
      for (const float ratio : ratios) {
        const double base_w = std::round(std::sqrt(stride[0] * stride[1] / ratio));
        const double base_h = std::round(base_w * ratio);
        for (const float size : sizes) {
          const double w = (size / stride[0] * base_w - 1) / 2;
          const double h = (size / stride[1] * base_h - 1) / 2;
          for (const double corner : {middle_x - w, middle_y - h, middle_x + w, middle_y + h}) {
            boxes.push_back(static_cast<float>(corner));
          }
        }
      }
    }
  }
  return constant_boxes(site, "Anchors", std::move(boxes));
}

OpSchema& grid_slots(OpSchema& row) {
  return row.in("Input", "[batch, channels, height, width]: the map; its size is read")
      .in("Image", "[batch, channels, height, width]; its size is read")
      .out("Boxes", "[height, width, boxes, 4]: corners, as parts of the image")
      .out("Variances", "variances for each of them");
}

OpSchema& grid_attrs(OpSchema& row) {
  return row.attr("variances", Sizes{0.1f, 0.1f, 0.2f, 0.2f}, "what codes of boxes are divided by")
      .attr("step_w", 0.0f, "how far places are apart in the image; 0: as sizes say")
      .at_least(0)
      .attr("step_h", 0.0f, "the same, down")
      .at_least(0)
      .attr("offset", 0.5f, "where in its step a box has its middle");
}

Tensor any_map(Draw& d, int64_t height, int64_t width) { return d.uniform({1, 2, height, width}); }

}  // namespace

void register_priors(Registry& ops) {
  grid_attrs(grid_slots(ops.op("prior_box"))
                 .required_attr<Sizes>("min_sizes", "sides of the squares")
                 .attr("max_sizes", Sizes{}, "with min_sizes, sides of larger squares")
                 .attr("aspect_ratios", Sizes{}, "width by height of further boxes")
                 .attr("flip", true, "ratios upside down as well")
                 .attr("clip", true, "corners are cut to the image"))
      .attr("min_max_aspect_ratios_order", false, "the larger square comes second, not last")
      .shape(prior_shape)
      .kernel(untyped(prior_kernel))
      .sample([](Draw& d) {
        return OpSample{
            .inputs = {{"Input", {any_map(d, 2, 3)}}, {"Image", {any_map(d, 8, 9)}}},
            .attrs = {
                {"min_sizes", Sizes{2}}, {"max_sizes", Sizes{4}}, {"aspect_ratios", Sizes{1, 2}}}};
      });
  grid_attrs(grid_slots(ops.op("density_prior_box"))
                 .attr("clip", true, "corners are cut to the image: they always are")
                 .attr("flatten_to_2d", false, "one row for each box")
                 .attr("fixed_sizes", Sizes{}, "sides of the squares")
                 .attr("fixed_ratios", Sizes{}, "width by height")
                 .attr("densities", std::vector<int32_t>{}, "boxes to a side, for each size"))
      .shape(density_shape)
      .kernel(untyped(density_kernel))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"Input", {any_map(d, 2, 3)}}, {"Image", {any_map(d, 8, 9)}}},
                        .attrs = {{"fixed_sizes", Sizes{2}},
                                  {"fixed_ratios", Sizes{1, 2}},
                                  {"densities", std::vector<int32_t>{2}}}};
      });
  ops.op("anchor_generator")
      .in("Input", "[batch, channels, height, width]: the map; its size is read")
      .out("Anchors", "[height, width, anchors, 4]: corners, in pixels")
      .out("Variances", "variances for each of them")
      .attr("anchor_sizes", Sizes{}, "sides of the squares")
      .attr("aspect_ratios", Sizes{}, "height by width")
      .attr("variances", Sizes{0.1f, 0.1f, 0.2f, 0.2f}, "what codes of boxes are divided by")
      .attr("stride", Sizes{16, 16}, "how far anchors are apart, to the right and down")
      .attr("offset", 0.5f, "where in its stride an anchor has its middle")
      .shape(anchor_shape)
      .kernel(untyped(anchor_kernel))
      .sample([](Draw& d) {
        return OpSample{
            .inputs = {{"Input", {any_map(d, 2, 3)}}},
            .attrs = {{"anchor_sizes", Sizes{32, 64}}, {"aspect_ratios", Sizes{0.5f, 1}}}};
      });
}

}  // namespace trireme
