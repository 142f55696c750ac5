// Maps of places: polygon_box_transform, similarity_focus.
#include <algorithm>
#include <numeric>

#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/scratch.h"

namespace trireme {
namespace {

// ---- polygon_box_transform

constexpr int64_t kPixelsOfPlace = 4;  // the map is that much smaller than the image

void polygon_shape(OpView& op) {
  const ValueInfo& x = op.in("Input");
  require_floating(op, "Input");
  if (x.shape.rank() != 4 || (x.shape[1].known() && x.shape.at(1) % 2 != 0)) {
    throw op.error(cat("Input has shape ", x.shape))
        .fix("give [batch, 2 * corners, height, width]");
  }
  op.set_out_like("Output", x);
}

template <class T>
BoundKernel polygon_boxes(const KernelSite& site) {
  const Shape x = site.in("Input").shape;
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(x.count());
        const int64_t wide = x.at(3), high = x.at(2);
        for (int64_t at = begin; at < end; ++at) {
          const bool down = at / (wide * high) % 2 == 1;
          const int64_t place = kPixelsOfPlace * (down ? at / wide % high : at % wide);
          k.out<T>(0)[at] = static_cast<T>(place) - k.in<T>(0)[at];
        }
      },
      parts_for(x.count()));
}

// ---- similarity_focus

void focus_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  require_floating(op, "X");
  const int axis = op.attr<int32_t>("axis");
  if (x.shape.rank() != 4 || axis < 1 || axis > 3) {
    throw op.error(cat("X has shape ", x.shape, " and axis is ", axis))
        .fix("give X four dimensions, and axis 1, 2 or 3");
  }
  const auto indexes = op.attr<std::vector<int32_t>>("indexes");
  for (const int32_t index : indexes) {
    if (index >= 0 && (!x.shape[axis].known() || index < x.shape.at(axis))) continue;
    throw op.error(cat("indexes has ", index, " but dimension ", axis, " has ", x.shape[axis]))
        .fix("name slices that X has");
  }
  if (indexes.empty()) throw op.error("indexes is empty").fix("name one slice of X at least");
  op.set_out_like("Out", x);
}

// The two dimensions that are neither the batch nor the axis, as a matrix in X.
struct FocusMatrix {
  int64_t rows, columns, row_step, column_step, axis_extent, axis_step, size;
  FocusMatrix(const Shape& x, int axis) {
    const Strides steps = strides_of(x);
    const int first = axis == 1 ? 2 : 1, second = axis == 3 ? 2 : 3;
    rows = x.at(first), columns = x.at(second), axis_extent = x.at(axis);
    row_step = steps[static_cast<size_t>(first)], column_step = steps[static_cast<size_t>(second)];
    axis_step = steps[static_cast<size_t>(axis)];
    size = x.at(1) * x.at(2) * x.at(3);
  }
};

// Of a slice the largest element whose row and column are not taken yet, until all rows or all
// columns are: each marks its place in every slice.
struct FocusScratch {
  int64_t* order;
  bool *rows, *columns;
  FocusScratch(const FocusMatrix& m, Scratch& scratch)
      : order(scratch.take<int64_t>(m.rows * m.columns)),
        rows(scratch.take<bool>(m.rows)),
        columns(scratch.take<bool>(m.columns)) {}
};

template <class T>
void focus(const FocusMatrix& m, const std::vector<int32_t>& indexes, const FocusScratch& own,
           const T* x, T* out) {
  std::fill_n(out, m.size, T{0});
  int64_t* end = own.order + m.rows * m.columns;
  for (const int32_t index : indexes) {
    const T* slice = x + index * m.axis_step;
    const auto value = [&](int64_t at) {
      return slice[at / m.columns * m.row_step + at % m.columns * m.column_step];
    };
    std::iota(own.order, end, int64_t{0});
    std::sort(own.order, end, [&](int64_t a, int64_t b) {
      return value(a) != value(b) ? value(a) > value(b) : a < b;
    });
    std::fill_n(own.rows, m.rows, false);
    std::fill_n(own.columns, m.columns, false);
    for (const int64_t* at = own.order; at != end; ++at) {
      const int64_t row = *at / m.columns, column = *at % m.columns;
      if (own.rows[row] || own.columns[column]) continue;
      own.rows[row] = own.columns[column] = true;
      T* to = out + row * m.row_step + column * m.column_step;
      for (int64_t i = 0; i < m.axis_extent; ++i) to[i * m.axis_step] = T{1};
    }
  }
}

template <class T>
BoundKernel focus_kernel(const KernelSite& site) {
  const Shape x = site.in("X").shape;
  const FocusMatrix m(x, site.attr<int32_t>("axis"));
  const auto indexes = site.attr<std::vector<int32_t>>("indexes");
  Scratch counting;
  FocusScratch(m, counting);
  BoundKernel made(
      [=, bytes = counting.bytes()](const KernelArgs& k) {
        Scratch scratch(k.scratch + bytes * static_cast<size_t>(k.part));
        const FocusScratch own(m, scratch);
        const auto [begin, end] = k.range(x.at(0));
        for (int64_t n = begin; n < end; ++n) {
          focus(m, indexes, own, k.in<T>(0) + n * m.size, k.out<T>(0) + n * m.size);
        }
      },
      static_cast<int>(std::clamp<int64_t>(x.at(0), 1, parts_for(x.count() * 4))));
  made.scratch = counting.bytes() * static_cast<size_t>(made.parts);
  return made;
}

}  // namespace

void register_places(Registry& ops) {
  ops.op("polygon_box_transform")
      .doc("Corners of polygons from how far they are from a place, which stands for 4 x 4 pixels")
      .in("Input", "[batch, 2 * corners, height, width]: to the left, then up, in pixels")
      .out("Output", "the corners' x and y")
      .shape(polygon_shape)
      .kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return polygon_boxes<T>(site); }))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"Input", {d.uniform({2, 4, 2, 3})}}}};
      });
  ops.op("similarity_focus")
      .doc("1 where a slice of X has its largest elements, one in a row and one in a column")
      .in("X", "[batch, a, b, c]")
      .out("Out", "like X: 0 and 1, the same in all slices")
      .required_attr<int32_t>("axis", "the dimension of the slices, from 1 to 3")
      .required_attr<std::vector<int32_t>>("indexes", "slices that are looked at")
      .shape(focus_shape)
      .kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return focus_kernel<T>(site); }))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.distinct({2, 2, 3, 4})}}},
                        .attrs = {{"axis", int32_t{1}}, {"indexes", std::vector<int32_t>{1}}}};
      });
}

}  // namespace trireme
