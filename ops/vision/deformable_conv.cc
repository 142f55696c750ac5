// Convolutions whose windows are deformed: every element of a window looks beside its place, by an
// offset that is an operand. deformable_conv weighs it by a mask, deformable_conv_v1 does not.
#include <numeric>

#include "cpu/gemm_kernel.h"
#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/vision/between_pixels.h"

namespace trireme {
namespace {

using ConvInts = std::vector<int32_t>;

struct DeformedWindow {
  int64_t batch, in_channels, high, wide, out_channels, out_high, out_wide, kernel_y, kernel_x;
  int64_t groups, deformable_groups;
  ConvInts strides, paddings, dilations;

  DeformedWindow(const OpView& op, const Shape& x, const Shape& filter)
      : batch(x.at(0)),
        in_channels(x.at(1)),
        high(x.at(2)),
        wide(x.at(3)),
        out_channels(filter.at(0)),
        kernel_y(filter.at(2)),
        kernel_x(filter.at(3)),
        groups(op.attr<int32_t>("groups")),
        deformable_groups(op.attr<int32_t>("deformable_groups")),
        strides(op.attr<ConvInts>("strides")),
        paddings(op.attr<ConvInts>("paddings")),
        dilations(op.attr<ConvInts>("dilations")) {
    out_high = fits(high, 0, kernel_y);
    out_wide = fits(wide, 1, kernel_x);
  }
  int64_t fits(int64_t extent, size_t axis, int64_t kernel) const {
    return (extent + 2 * paddings[axis] - (dilations[axis] * (kernel - 1) + 1)) / strides[axis] + 1;
  }
  int64_t taps() const { return kernel_y * kernel_x; }
  int64_t pixels() const { return high * wide; }
  int64_t places() const { return out_high * out_wide; }
  int64_t rows() const { return in_channels * taps(); }  // of the matrix of columns
  int64_t depth() const { return rows() / groups; }
  int64_t offsets() const { return deformable_groups * 2 * taps() * places(); }
  int64_t masks() const { return deformable_groups * taps() * places(); }
  int64_t columns() const { return rows() * places(); }

  // Where element `tap` of the window at `place` looks; offsets are those of its image.
  template <class T>
  BetweenPixels<T> look(const T* offset, int64_t group, int64_t tap, int64_t place) const {
    const T* own = offset + (group * taps() + tap) * 2 * places() + place;
    const int64_t y = place / out_wide * strides[0] - paddings[0] + tap / kernel_x * dilations[0];
    const int64_t x = place % out_wide * strides[1] - paddings[1] + tap % kernel_x * dilations[1];
    return {static_cast<T>(y) + own[0], static_cast<T>(x) + own[places()], high, wide};
  }
};

void deformable_shape(OpView& op) {
  const Shape &x = op.in("Input").shape, &filter = op.in("Filter").shape;
  const Shape& offset = op.in("Offset").shape;
  require_floating(op, "Input");
  for (const char* attr : {"strides", "paddings", "dilations"}) {
    const auto given = op.attr<ConvInts>(attr);
    const int32_t least = std::string(attr) == "paddings" ? 0 : 1;
    if (given.size() == 2 && given[0] >= least && given[1] >= least) continue;
    throw op.error(cat(attr, " is [", join(given), "]"))
        .fix(cat("give two numbers, ", least, " at least"));
  }
  if (x.rank() != 4 || filter.rank() != 4 || offset.rank() != 4) {
    throw op.error(cat("Input has shape ", x, ", Filter ", filter, " and Offset ", offset))
        .fix("give all three four dimensions");
  }
  const int64_t groups = op.attr<int32_t>("groups"), own = op.attr<int32_t>("deformable_groups");
  if (x[1].known() && filter[1].known() && filter[0].known() &&
      (x.at(1) != filter.at(1) * groups || filter.at(0) % groups != 0 || x.at(1) % own != 0)) {
    throw op
        .error(cat("Input has ", x[1], " channels and Filter shape ", filter, " in ", groups,
                   " groups, ", own, " of them deformable"))
        .fix("give Filter [channels out, channels in / groups, height, width]");
  }
  Shape out = {x[0], filter[0], Dim(), Dim()};
  const auto strides = op.attr<ConvInts>("strides"), paddings = op.attr<ConvInts>("paddings");
  const auto dilations = op.attr<ConvInts>("dilations");
  for (int axis = 0; axis < 2; ++axis) {
    const auto i = static_cast<size_t>(axis);
    if (!x[2 + axis].known() || !filter[2 + axis].known()) continue;
    const int64_t reach = dilations[i] * (filter.at(2 + axis) - 1) + 1;
    out[2 + axis] = (x.at(2 + axis) + 2 * paddings[i] - reach) / strides[i] + 1;
  }
  const Dim taps = filter[2] * filter[3];
  const auto agrees = [&](const char* slot, Dim channels) {
    const Shape& given = op.in(slot).shape;
    if (given.rank() == 4 && given[0].may_equal(x[0]) && given[1].may_equal(channels) &&
        given[2].may_equal(out[2]) && given[3].may_equal(out[3])) {
      return;
    }
    throw op.error(cat(slot, " has shape ", given))
        .fix(cat("give ", slot, " the shape ", Shape{x[0], channels, out[2], out[3]}));
  };
  agrees("Offset", taps * Dim(2 * own));
  if (op.schema().find_input("Mask")) agrees("Mask", taps * Dim(own));
  op.set_out("Output", op.in("Input").dtype, out);
}

// The matrix of columns of image n, rows [first, last) of it.
template <class T>
void deformed_columns(const DeformedWindow& s, const T* x, const T* offset, const T* mask,
                      int64_t first, int64_t last, T* columns) {
  const int64_t per_group = s.in_channels / s.deformable_groups, places = s.places();
  for (int64_t row = first; row < last; ++row) {
    const int64_t c = row / s.taps(), tap = row % s.taps(), group = c / per_group;
    for (int64_t place = 0; place < places; ++place) {
      const T value = s.look(offset, group, tap, place).value(x + c * s.pixels());
      const T weight = mask ? mask[(group * s.taps() + tap) * places + place] : T{1};
      columns[row * places + place] = value * weight;
    }
  }
}

template <class T>
BoundKernel deformable_forward(const KernelSite& site, Product<T> product) {
  const DeformedWindow s(site, site.in("Input").shape, site.in("Filter").shape);
  const int x_at = site.position("Input"), offset_at = site.position("Offset");
  const int mask_at = site.schema().find_input("Mask") ? site.position("Mask") : -1;
  const int filter_at = site.position("Filter");
  BoundKernel made;
  made.scratch = static_cast<size_t>(s.columns()) * sizeof(T);
  const auto rows_out = s.out_channels / s.groups;
  const int slices =
      static_cast<int>(std::clamp<int64_t>(rows_out / product.least_rows, 1, product.most_slices));
  for (int64_t n = 0; n < s.batch; ++n) {
    made.add(
        [=](const KernelArgs& k) {
          const auto [first, last] = k.range(s.rows());
          deformed_columns(s, k.in<T>(x_at) + n * s.in_channels * s.pixels(),
                           k.in<T>(offset_at) + n * s.offsets(),
                           mask_at < 0 ? nullptr : k.in<T>(mask_at) + n * s.masks(), first, last,
                           reinterpret_cast<T*>(k.scratch));
        },
        parts_for(s.columns() * 4));
    made.add(
        [=](const KernelArgs& k) {
          const auto [first, last] = k.range(rows_out);
          if (first == last) return;
          for (int64_t group = 0; group < s.groups; ++group) {
            const Gemm<T> whole{
                .m = rows_out,
                .n = s.places(),
                .k = s.depth(),
                .a = k.in<T>(filter_at) + group * rows_out * s.depth(),
                .lda = s.depth(),
                .b = reinterpret_cast<T*>(k.scratch) + group * s.depth() * s.places(),
                .ldb = s.places(),
                .c = k.out<T>(0) + (n * s.out_channels + group * rows_out) * s.places(),
                .ldc = s.places()};
            product(whole.rows(first, last));
          }
        },
        slices);
  }
  if (!made.run) made.run = [](const KernelArgs&) {};
  return made;
}

// Where operands and results of the gradient stand.
struct DeformablePositions {
  int x, offset, mask = -1, filter, grad;
  int x_grad, offset_grad, mask_grad = -1, filter_grad;
  explicit DeformablePositions(const KernelSite& site)
      : x(site.position("Input")),
        offset(site.position("Offset")),
        filter(site.position("Filter")),
        grad(site.position("Output@GRAD")),
        x_grad(site.out_position("Input@GRAD")),
        offset_grad(site.out_position("Offset@GRAD")),
        filter_grad(site.out_position("Filter@GRAD")) {
    if (!site.schema().find_input("Mask")) return;
    mask = site.position("Mask");
    mask_grad = site.out_position("Mask@GRAD");
  }
};

// Filter@GRAD += Output@GRAD * columns' for image n; `columns` are in scratch.
template <class T>
void add_filter_grad(const DeformedWindow& s, const DeformablePositions& at,
                     const Product<T>& product, const KernelArgs& k, int64_t n, const T* columns) {
  const int64_t rows_out = s.out_channels / s.groups;
  for (int64_t group = 0; group < s.groups; ++group) {
    product({.m = rows_out,
             .n = s.depth(),
             .k = s.places(),
             .a = k.in<T>(at.grad) + (n * s.out_channels + group * rows_out) * s.places(),
             .lda = s.places(),
             .b = columns + group * s.depth() * s.places(),
             .ldb = s.places(),
             .trans_b = true,
             .c = k.out<T>(at.filter_grad) + group * rows_out * s.depth(),
             .ldc = s.depth(),
             .beta = n == 0 ? T{0} : T{1}});
  }
}

// columns@GRAD = filter' * Output@GRAD for image n.
template <class T>
void columns_grad(const DeformedWindow& s, const DeformablePositions& at, const Product<T>& product,
                  const KernelArgs& k, int64_t n, T* columns) {
  const int64_t rows_out = s.out_channels / s.groups;
  for (int64_t group = 0; group < s.groups; ++group) {
    product({.m = s.depth(),
             .n = s.places(),
             .k = rows_out,
             .a = k.in<T>(at.filter) + group * rows_out * s.depth(),
             .lda = s.depth(),
             .trans_a = true,
             .b = k.in<T>(at.grad) + (n * s.out_channels + group * rows_out) * s.places(),
             .ldb = s.places(),
             .c = columns + group * s.depth() * s.places(),
             .ldc = s.places()});
  }
}

// Channels [first, last) of Input@GRAD for image n.
template <class T>
void deformed_back(const DeformedWindow& s, const DeformablePositions& at, const KernelArgs& k,
                   int64_t n, int64_t first, int64_t last, const T* columns) {
  const T* offset = k.in<T>(at.offset) + n * s.offsets();
  const T* mask = at.mask < 0 ? nullptr : k.in<T>(at.mask) + n * s.masks();
  const int64_t per_group = s.in_channels / s.deformable_groups, places = s.places();
  for (int64_t c = first; c < last; ++c) {
    T* plane = k.out<T>(at.x_grad) + (n * s.in_channels + c) * s.pixels();
    std::fill_n(plane, s.pixels(), T{0});
    for (int64_t tap = 0; tap < s.taps(); ++tap) {
      for (int64_t place = 0; place < places; ++place) {
        const int64_t group = c / per_group;
        const T weight = mask ? mask[(group * s.taps() + tap) * places + place] : T{1};
        s.look(offset, group, tap, place)
            .add(plane, columns[(c * s.taps() + tap) * places + place] * weight);
      }
    }
  }
}

// Elements [first, last) of [deformable groups, taps]: offsets and masks of image n.
template <class T>
void offsets_back(const DeformedWindow& s, const DeformablePositions& at, const KernelArgs& k,
                  int64_t n, int64_t first, int64_t last, const T* columns) {
  const T* offset = k.in<T>(at.offset) + n * s.offsets();
  const T* mask = at.mask < 0 ? nullptr : k.in<T>(at.mask) + n * s.masks();
  const int64_t per_group = s.in_channels / s.deformable_groups, places = s.places();
  for (int64_t element = first; element < last; ++element) {
    const int64_t group = element / s.taps(), tap = element % s.taps();
    for (int64_t place = 0; place < places; ++place) {
      const BetweenPixels<T> look = s.look(offset, group, tap, place);
      T down = 0, right = 0, value = 0;
      for (int64_t c = group * per_group; c < (group + 1) * per_group; ++c) {
        const T* plane = k.in<T>(at.x) + (n * s.in_channels + c) * s.pixels();
        const T grad = columns[(c * s.taps() + tap) * places + place];
        down += grad * look.slope_down(plane);
        right += grad * look.slope_right(plane);
        value += grad * look.value(plane);
      }
      const T weight = mask ? mask[element * places + place] : T{1};
      if (k.has_out(at.offset_grad)) {
        T* to = k.out<T>(at.offset_grad) + n * s.offsets() + element * 2 * places + place;
        to[0] = down * weight;
        to[places] = right * weight;
      }
      if (k.has_out(at.mask_grad)) {
        k.out<T>(at.mask_grad)[n * s.masks() + element * places + place] = value;
      }
    }
  }
}

template <class T>
BoundKernel deformable_backward(const KernelSite& site, Product<T> product) {
  const DeformedWindow s(site, site.in("Input").shape, site.in("Filter").shape);
  const DeformablePositions at(site);
  BoundKernel made;
  made.scratch = static_cast<size_t>(s.columns()) * sizeof(T);
  const auto columns = [](const KernelArgs& k) { return reinterpret_cast<T*>(k.scratch); };
  const int parts = parts_for(s.columns() * 4);
  for (int64_t n = 0; n < s.batch; ++n) {
    if (at.filter_grad >= 0) {
      made.add(
          [=](const KernelArgs& k) {
            const auto [first, last] = k.range(s.rows());
            deformed_columns(s, k.in<T>(at.x) + n * s.in_channels * s.pixels(),
                             k.in<T>(at.offset) + n * s.offsets(),
                             at.mask < 0 ? nullptr : k.in<T>(at.mask) + n * s.masks(), first, last,
                             columns(k));
          },
          parts);
      made.add([=](const KernelArgs& k) { add_filter_grad(s, at, product, k, n, columns(k)); }, 1);
    }
    made.add([=](const KernelArgs& k) { columns_grad(s, at, product, k, n, columns(k)); }, 1);
    if (at.x_grad >= 0) {
      made.add(
          [=](const KernelArgs& k) {
            const auto [first, last] = k.range(s.in_channels);
            deformed_back(s, at, k, n, first, last, columns(k));
          },
          static_cast<int>(std::clamp<int64_t>(s.in_channels, 1, parts)));
    }
    if (at.offset_grad >= 0 || at.mask_grad >= 0) {
      const int64_t elements = s.deformable_groups * s.taps();
      made.add(
          [=](const KernelArgs& k) {
            const auto [first, last] = k.range(elements);
            offsets_back(s, at, k, n, first, last, columns(k));
          },
          static_cast<int>(std::clamp<int64_t>(elements, 1, parts)));
    }
  }
  if (!made.run) made.run = [](const KernelArgs&) {};
  return made;
}

SampleRule deformable_sample(bool masked, int32_t groups, int32_t deformable, int32_t stride) {
  return [=](Draw& d) {
    const int64_t side = stride == 1 ? 3 : 2;
    OpSample sample;
    sample.inputs = {{"Input", {d.uniform({2, 4, 4, 4})}},
                     {"Offset", {d.uniform({2, deformable * 8, side, side}, -1.4, 1.4)}},
                     {"Filter", {d.uniform({2, 4 / groups, 2, 2})}}};
    if (masked) sample.inputs["Mask"] = {d.uniform({2, deformable * 4, side, side}, 0.1, 1)};
    sample.attrs = {{"groups", groups},
                    {"deformable_groups", deformable},
                    {"strides", ConvInts{stride, stride}},
                    {"paddings", ConvInts{0, 0}}};
    return sample;
  };
}

void deformable_row(OpSchema& row, bool masked) {
  const auto run = []<class T>(const KernelSite& site, Product<T> product) {
    return deformable_forward(site, product);
  };
  const auto run_grad = []<class T>(const KernelSite& site, Product<T> product) {
    return deformable_backward(site, product);
  };
  row.doc("A convolution whose windows look beside their places")
      .in("Input", "[batch, channels, height, width]")
      .in("Offset",
          "[batch, deformable groups * elements * 2, out height, out width]: down, right");
  if (masked) {
    row.in("Mask", "[batch, deformable groups * elements, out height, out width]: weights");
  }
  row.in("Filter", "[channels out, channels / groups, height, width]")
      .out("Output", "[batch, channels out, out height, out width]")
      .attr("strides", ConvInts{1, 1}, "steps of the window")
      .attr("paddings", ConvInts{0, 0}, "room around the image")
      .attr("dilations", ConvInts{1, 1}, "how far apart a window's elements are")
      .attr("groups", 1, "channels that are convolved among themselves")
      .at_least(1)
      .attr("deformable_groups", 1, "channels that share offsets")
      .at_least(1)
      .attr("im2col_step", 64, "accepted; changes no result")
      .shape(deformable_shape)
      .kernel(with_blas(run), "blas")
      .kernel(with_reference(run))
      .grad(masked ? std::vector<std::string>{"Input", "Offset", "Mask", "Filter"}
                   : std::vector<std::string>{"Input", "Offset", "Filter"})
      .grad_kernel(with_blas(run_grad), "blas")
      .grad_kernel(with_reference(run_grad))
      .sample(deformable_sample(masked, 1, 1, 1))
      .sample(deformable_sample(masked, 2, 2, 2));
}

}  // namespace

void register_deformable_conv(Registry& ops) {
  deformable_row(ops.op("deformable_conv"), true);
  deformable_row(ops.op("deformable_conv_v1"), false);
}

}  // namespace trireme
