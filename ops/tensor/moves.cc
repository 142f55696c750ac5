// Elements moved to other places: flip, roll, tril_triu, diag_embed, space_to_depth, expand_as,
// trace.
#include <algorithm>

#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/tensor/place_map.h"

namespace trireme {
namespace {

using MoveInts = std::vector<int32_t>;

OpSchema& moving(Registry& ops, const char* type, const char* doc, ShapeRule shape,
                 PlaceRule places) {
  OpSchema& row =
      ops.op(type).in("X", "any shape and type").out("Out", doc).shape(std::move(shape));
  add_places(row, "X", std::move(places));
  return row;
}

int64_t place_at(const Counter& at, const Shape& shape) {
  int64_t place = 0;
  for (int d = 0; d < shape.rank(); ++d) place = place * shape.at(d) + at[d];
  return place;
}

// ---- flip and roll

std::vector<int64_t> flip_places(const OpView& op, const Shape& x, const Shape&) {
  const std::vector<int> axes = normal_axes(op, op.attr<MoveInts>("dims"), x.rank(), "dims");
  std::vector<int64_t> places;
  for (Counter at(x); at.more(); at.next()) {
    int64_t place = 0;
    for (int d = 0; d < x.rank(); ++d) {
      const bool turned = std::count(axes.begin(), axes.end(), d) > 0;
      place = place * x.at(d) + (turned ? x.at(d) - 1 - at[d] : at[d]);
    }
    places.push_back(place);
  }
  return places;
}

void flip_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  require_dense(op, "X");
  normal_axes(op, op.attr<MoveInts>("dims"), x.shape.rank(), "dims");
  op.set_out("Out", x.dtype, x.shape);
}

void roll_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  const auto shifts = op.attr<std::vector<int64_t>>("shifts");
  const auto dims = op.attr<std::vector<int64_t>>("dims");
  if (shifts.size() != dims.size()) {
    throw op.error(cat("shifts is [", join(shifts), "] but dims [", join(dims), "]"))
        .fix("give one shift for each of dims");
  }
  for (const int64_t dim : dims) normal_axis(op, static_cast<int>(dim), x.shape.rank(), "dims");
  op.set_out_like("Out", x);
}

std::vector<int64_t> roll_places(const OpView& op, const Shape& x, const Shape&) {
  const auto shifts = op.attr<std::vector<int64_t>>("shifts");
  const auto dims = op.attr<std::vector<int64_t>>("dims");
  std::vector<int64_t> by(static_cast<size_t>(x.rank()));
  for (size_t i = 0; i < dims.size(); ++i) {
    by[static_cast<size_t>(normal_axis(op, static_cast<int>(dims[i]), x.rank(), "dims"))] +=
        shifts[i];
  }
  std::vector<int64_t> places;
  for (Counter at(x); at.more(); at.next()) {
    int64_t place = 0;
    for (int d = 0; d < x.rank(); ++d) {
      const int64_t from = (at[d] - by[static_cast<size_t>(d)]) % x.at(d);
      place = place * x.at(d) + (from < 0 ? from + x.at(d) : from);
    }
    places.push_back(place);
  }
  return places;
}

// ---- triangles and diagonals

void triangle_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  if (x.shape.rank() < 2) {
    throw op.error(cat("X has shape ", x.shape)).fix("give a matrix, or a stack of matrices");
  }
  op.set_out_like("Out", x);
}

std::vector<int64_t> triangle_places(const OpView& op, const Shape& x, const Shape&) {
  const int64_t diagonal = op.attr<int32_t>("diagonal");
  const bool lower = op.attr<bool>("lower");
  std::vector<int64_t> places;
  for (Counter at(x); at.more(); at.next()) {
    const int64_t right = at[x.rank() - 1] - at[x.rank() - 2] - diagonal;
    places.push_back((lower ? right <= 0 : right >= 0) ? place_at(at, x) : -1);
  }
  return places;
}

// Two dimensions of a shape whose diagonal, `offset` above the main one, is meant.
struct DiagonalOf {
  int first, second;
  int64_t offset;
  DiagonalOf(const OpView& op, int rank)
      : first(normal_axis(op, op.attr<int32_t>("dim1"), rank, "dim1")),
        second(normal_axis(op, op.attr<int32_t>("dim2"), rank, "dim2")),
        offset(op.attr<int32_t>("offset")) {
    if (rank < 2 || first == second) {
      throw op.error(cat("dim1 and dim2 are both ", first)).fix("name two dimensions");
    }
  }
  bool on(const Counter& at) const { return at[second] - at[first] == offset; }
  int64_t along(const Counter& at) const { return std::min(at[first], at[second]); }
};

void embed_shape(OpView& op) {
  const ValueInfo& x = op.in("Input");
  const DiagonalOf diagonal(op, x.shape.rank() + 1);
  const Dim side = x.shape[x.shape.rank() - 1] + Dim(std::abs(diagonal.offset));
  Shape out;
  for (int d = 0, next = 0; d <= x.shape.rank(); ++d) {
    out.push_back(d == diagonal.first || d == diagonal.second ? side : x.shape[next++]);
  }
  op.set_out("Out", x.dtype, out);
}

std::vector<int64_t> embed_places(const OpView& op, const Shape& x, const Shape& out) {
  const DiagonalOf diagonal(op, out.rank());
  std::vector<int64_t> places;
  for (Counter at(out); at.more(); at.next()) {
    int64_t place = 0;
    for (int d = 0, next = 0; d < out.rank(); ++d) {
      if (d != diagonal.first && d != diagonal.second) place = place * x.at(next++) + at[d];
    }
    const int64_t along = diagonal.along(at);
    places.push_back(diagonal.on(at) ? place * x.at(x.rank() - 1) + along : -1);
  }
  return places;
}

void trace_shape(OpView& op) {
  const ValueInfo& x = op.in("Input");
  require_numbers(op, "Input");
  const DiagonalOf diagonal(op, x.shape.rank());
  Shape out;
  for (int d = 0; d < x.shape.rank(); ++d) {
    if (d != diagonal.first && d != diagonal.second) out.push_back(x.shape[d]);
  }
  op.set_out("Out", x.dtype, out.rank() ? out : Shape{1});
}

// For every element of Input the sum that it is part of; -1: of none.
std::vector<int64_t> trace_sums(const OpView& op, const Shape& x) {
  const DiagonalOf diagonal(op, x.rank());
  std::vector<int64_t> sums;
  for (Counter at(x); at.more(); at.next()) {
    int64_t sum = 0;
    for (int d = 0; d < x.rank(); ++d) {
      if (d != diagonal.first && d != diagonal.second) sum = sum * x.at(d) + at[d];
    }
    sums.push_back(diagonal.on(at) ? sum : -1);
  }
  return sums;
}

template <class T>
BoundKernel trace_kernel(const KernelSite& site) {
  const auto sums = trace_sums(site, site.in("Input").shape);
  const int64_t count = site.out("Out").shape.count();
  return [=](const KernelArgs& k) {
    T* out = k.out<T>(0);
    std::fill_n(out, count, T{0});
    for (size_t i = 0; i < sums.size(); ++i) {
      if (sums[i] >= 0) out[sums[i]] += k.in<T>(0)[i];
    }
  };
}

template <class T>
BoundKernel trace_grad_kernel(const KernelSite& site) {
  const auto sums = trace_sums(site, site.in("Input").shape);
  return [=, grad_at = site.position("Out@GRAD")](const KernelArgs& k) {
    for (size_t i = 0; i < sums.size(); ++i) {
      k.out<T>(0)[i] = sums[i] < 0 ? T{0} : k.in<T>(grad_at)[sums[i]];
    }
  };
}

void register_diagonals(Registry& ops) {
  moving(ops, "tril_triu", "X with zeros on one side of a diagonal", triangle_shape,
         triangle_places)
      .attr("diagonal", 0, "which one: above the main diagonal where it is positive")
      .attr("lower", false, "what is below the diagonal stays, else what is above it")
      .grad({})
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({2, 3, 4})}}},
                        .attrs = {{"diagonal", int32_t{1}}, {"lower", true}}};
      });
  OpSchema& embed = ops.op("diag_embed")
                        .in("Input", "[..., n]")
                        .out("Out", "Input's rows on diagonals of matrices, 0 elsewhere")
                        .attr("offset", 0, "how far above the main diagonal")
                        .attr("dim1", -2, "the rows of the matrices")
                        .attr("dim2", -1, "their columns")
                        .shape(embed_shape);
  add_places(embed, "Input", embed_places);
  embed.sample([](Draw& d) {
    return OpSample{.inputs = {{"Input", {d.uniform({2, 3})}}},
                    .attrs = {{"offset", int32_t{-1}}, {"dim1", int32_t{0}}}};
  });
  ops.op("trace")
      .doc("The sum of a diagonal")
      .in("Input", "two dimensions or more")
      .out("Out", "Input's shape without dim1 and dim2")
      .attr("offset", 0, "how far above the main diagonal")
      .attr("dim1", -2, "the rows of the matrices")
      .attr("dim2", -1, "their columns")
      .shape(trace_shape)
      .kernel(typed_by<float, double, int32_t, int64_t>(
          "Input", []<class T>(const KernelSite& site) { return trace_kernel<T>(site); }))
      .grad({"Input"})
      .grad_kernel(typed_by<float, double>(
          "Input", []<class T>(const KernelSite& site) { return trace_grad_kernel<T>(site); }))
      .grad_vjp(linear_gradient({"Input"}))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"Input", {d.uniform({3, 2, 4})}}},
                        .attrs = {{"offset", int32_t{1}}, {"dim1", int32_t{0}}}};
      });
}

// ---- space_to_depth

void depth_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  const int64_t block = op.attr<int64_t>("blocksize");
  const auto fits = [&](Dim extent, int64_t by) {
    return !extent.known() || extent.value() % by == 0;
  };
  if (x.shape.rank() != 4 || block < 2 || !fits(x.shape[1], block * block) ||
      !fits(x.shape[2], block) || !fits(x.shape[3], block)) {
    throw op.error(cat("X has shape ", x.shape, " but blocksize is ", block))
        .fix(
            "give [batch, channels, height, width] with height and width multiples of blocksize, "
            "channels of its square");
  }
  op.set_out("Out", x.dtype,
             {x.shape[0], x.shape[1] * Dim(block * block), x.shape[2] / Dim(block),
              x.shape[3] / Dim(block)});
}

// The image is read as if it were larger: blocks of pixels, one of each group of channels. The
// larger image's elements, in their order, are those of Out.
std::vector<int64_t> depth_places(const OpView& op, const Shape& x, const Shape&) {
  const int64_t block = op.attr<int64_t>("blocksize");
  const int64_t channels = x.at(1) / (block * block);
  std::vector<int64_t> places;
  for (Counter at(Shape{x.at(0), channels, x.at(2) * block, x.at(3) * block}); at.more();
       at.next()) {
    const int64_t group = at[2] % block * block + at[3] % block;
    places.push_back(((at[0] * x.at(1) + group * channels + at[1]) * x.at(2) + at[2] / block) *
                         x.at(3) +
                     at[3] / block);
  }
  return places;
}

// ---- expand_as

void expand_to_shape(OpView& op) {
  const ValueInfo &x = op.in("X"), &target = op.in("target_tensor");
  const auto fits = [](Dim wide, Dim narrow) {
    return !wide.known() || !narrow.known() ||
           (narrow.value() > 0 && wide.value() % narrow.value() == 0);
  };
  bool good = x.shape.rank() == target.shape.rank();
  for (int d = 0; good && d < x.shape.rank(); ++d) good = fits(target.shape[d], x.shape[d]);
  if (!good) {
    throw op.error(cat("X has shape ", x.shape, " but target_tensor ", target.shape))
        .fix("give a target of X's rank whose extents are multiples of X's");
  }
  op.set_out("Out", x.dtype, target.shape);
}

std::vector<int64_t> expand_as_places(const OpView&, const Shape& x, const Shape& out) {
  std::vector<int64_t> places;
  for (Counter at(out); at.more(); at.next()) {
    int64_t place = 0;
    for (int d = 0; d < out.rank(); ++d) place = place * x.at(d) + at[d] % x.at(d);
    places.push_back(place);
  }
  return places;
}

}  // namespace

void register_tensor_moves(Registry& ops) {
  moving(ops, "flip", "X with the order along some dimensions turned round", flip_shape,
         flip_places)
      .required_attr<MoveInts>("dims", "which dimensions")
      .grad_maker([](GradMaker& g) {
        g.append({"flip",
                  {{"X", g.out_grad("Out")}},
                  {{"Out", g.in_grad("X")}},
                  {{"dims", g.op().attr<MoveInts>("dims")}}});
      })
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({2, 3, 4})}}},
                        .attrs = {{"dims", MoveInts{0, -1}}}};
      });
  moving(ops, "roll", "X moved along some dimensions; what leaves at an end enters at the other",
         roll_shape, roll_places)
      .attr("shifts", std::vector<int64_t>{}, "how far")
      .attr("dims", std::vector<int64_t>{}, "along which dimensions")
      .grad({"X"})
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({3, 4})}}},
                        .attrs = {{"shifts", std::vector<int64_t>{1, -2}},
                                  {"dims", std::vector<int64_t>{0, 1}}}};
      });
  register_diagonals(ops);
  moving(ops, "space_to_depth", "pixels of blocks become channels", depth_shape, depth_places)
      .required_attr<int64_t>("blocksize", "height and width of a block")
      .grad({"X"})
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({2, 8, 2, 4})}}},
                        .attrs = {{"blocksize", int64_t{2}}}};
      });
  OpSchema& as = ops.op("expand_as")
                     .in("X", "any shape and type")
                     .in("target_tensor", "has the shape wanted: multiples of X's extents")
                     .out("Out", "X repeated to the shape of target_tensor")
                     .shape(expand_to_shape)
                     .grad({"X", "target_tensor"})
                     .no_grad({"target_tensor"});
  add_places(as, "X", expand_as_places);
  as.sample([](Draw& d) {
    return OpSample{
        .inputs = {{"X", {d.uniform({2, 1, 2})}}, {"target_tensor", {d.uniform({4, 3, 2})}}}};
  });
}

}  // namespace trireme
