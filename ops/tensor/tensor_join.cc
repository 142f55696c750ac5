// Ops that join tensors and cut them apart: concat, split, stack, unstack.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/tensor/sites.h"

namespace trireme {

int joining_axis(const OpView& op, int rank) {
  int axis = op.attr<int32_t>("axis");
  if (op.has("AxisTensor")) {
    const std::vector<int64_t> read = read_ints(op, "AxisTensor");
    if (read.empty()) return -1;
    axis = static_cast<int>(read[0]);
  }
  return normal_axis(op, axis, rank);
}

int stack_axis(const OpView& op, int rank_of_whole) {
  return normal_axis(op, op.attr<int32_t>("axis"), rank_of_whole);
}

namespace {

// ---- one tensor against several that lie side by side along an axis

// For each of `rows` rows, piece i takes widths[i] bytes of the whole.
struct Pieces {
  int64_t rows = 0;
  std::vector<int64_t> widths;
  int64_t total = 0;

  // `shape(i)` is that of piece i; a stacked piece stands for an extent of 1.
  template <class F>
  Pieces(size_t count, int axis, DType dtype, F shape) {
    for (size_t i = 0; i < count; ++i) {
      const Shape& piece = shape(i);
      rows = piece.product(0, axis).value();
      widths.push_back(piece.product(axis, piece.rank()).value() *
                       static_cast<int64_t>(size_of(dtype)));
      total += widths.back();
    }
  }
  int parts() const { return static_cast<int>(std::clamp<int64_t>(rows * total / 65536, 1, 64)); }
};

BoundKernel join_kernel(const Pieces& pieces, int first_in) {
  return {[=](const KernelArgs& k) {
            const auto [begin, end] = k.range(pieces.rows);
            auto* to = static_cast<std::byte*>(k.out(0).address()) + begin * pieces.total;
            for (int64_t row = begin; row < end; ++row) {
              for (size_t i = 0; i < pieces.widths.size(); ++i) {
                const int64_t width = pieces.widths[i];
                if (width == 0) continue;
                const auto* from =
                    static_cast<const std::byte*>(k.in(first_in + static_cast<int>(i)).address());
                std::memcpy(to, from + row * width, static_cast<size_t>(width));
                to += width;
              }
            }
          },
          pieces.parts()};
}

BoundKernel cut_kernel(const Pieces& pieces, int in) {
  return {[=](const KernelArgs& k) {
            const auto [begin, end] = k.range(pieces.rows);
            const auto* from =
                static_cast<const std::byte*>(k.in(in).address()) + begin * pieces.total;
            for (int64_t row = begin; row < end; ++row) {
              for (size_t i = 0; i < pieces.widths.size(); ++i) {
                const int64_t width = pieces.widths[i];
                if (k.has_out(static_cast<int>(i)) && width > 0) {
                  auto* to = static_cast<std::byte*>(k.out(static_cast<int>(i)).address());
                  std::memcpy(to + row * width, from, static_cast<size_t>(width));
                }
                from += width;
              }
            }
          },
          pieces.parts()};
}

// ---- concat and split

// Sequences of the inputs one after another, when all have as many levels.
void join_lod(OpView& op) {
  ValueInfo& out = op.out("Out");
  Lod joined;
  for (size_t i = 0; i < op.count("X"); ++i) {
    const Lod& lod = op.in("X", i).lod;
    if (lod.empty() || (i > 0 && lod.size() != joined.size())) return;
    if (i == 0) joined = lod;
    for (size_t level = 0; i > 0 && level < lod.size(); ++level) {
      const int64_t shift = joined[level].back();
      for (size_t j = 1; j < lod[level].size(); ++j) joined[level].push_back(lod[level][j] + shift);
    }
  }
  out.lod = joined;
  out.lod_level = op.in("X").lod_level;
}

void concat_shape(OpView& op) {
  const ValueInfo& first = op.in("X");
  const int rank = first.shape.rank();
  const int axis = joining_axis(op, rank);
  Shape out = first.shape;
  for (size_t i = 0; i < op.count("X"); ++i) {
    const ValueInfo& x = op.in("X", i);
    if (x.known && first.known && x.dtype != first.dtype) {
      throw Error(ErrorKind::type_mismatch, cat("X[", i, "] holds ", name_of(x.dtype),
                                                " but X[0] holds ", name_of(first.dtype)))
          .fix("cast the inputs to one type");
    }
    if (x.shape.rank() != rank) {
      throw op.error(cat("X[", i, "] has shape ", x.shape, " but X[0] has ", first.shape))
          .fix("give all inputs the same number of dimensions");
    }
    for (int d = 0; d < rank; ++d) {
      if (axis < 0) {
        out[d] = Dim();
      } else if (d == axis) {
        if (i > 0) out[d] = out[d] + x.shape[d];
      } else if (!out[d].may_equal(x.shape[d])) {
        throw op
            .error(
                cat("dimension ", d, " is ", x.shape[d], " in X[", i, "] but ", out[d], " before"))
            .fix(cat("make all extents but the one at axis ", axis, " equal"));
      } else {
        out[d] = Dim::join(out[d], x.shape[d]);
      }
    }
  }
  op.set_out("Out", first.dtype, out);
  if (axis == 0 && op.count("X") > 1) {
    op.out("Out").lod_level = first.lod_level;
    join_lod(op);
  } else {
    carry_lod(op, "Out", {"X"});
  }
}

Pieces input_pieces(const KernelSite& site, int axis) {
  return Pieces(site.count("X"), axis, site.in("X").dtype,
                [&](size_t i) -> const Shape& { return site.in("X", i).shape; });
}

void split_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  const size_t count = op.out_count("Out");
  const int axis = joining_axis(op, x.shape.rank());
  std::vector<int64_t> sections;
  if (op.has("SectionsTensorList")) {
    for (size_t i = 0; i < op.count("SectionsTensorList"); ++i) {
      const std::vector<int64_t> read = read_ints(op, "SectionsTensorList", i);
      sections.push_back(read.empty() ? -1 : read[0]);
    }
  } else {
    const auto attr = op.attr<std::vector<int32_t>>("sections");
    sections.assign(attr.begin(), attr.end());
  }
  const int num = op.attr<int32_t>("num");
  const Dim whole = axis < 0 ? Dim() : x.shape[axis];
  if (num > 0) {
    if (whole.known() && whole.value() % num != 0) {
      throw op
          .error(cat("dimension ", axis, " of X ", x.shape, " has ", whole,
                     " elements, which do not divide into ", num, " equal parts"))
          .fix("choose another num, or give sections");
    }
    const Dim each = whole / Dim(num);
    sections.assign(static_cast<size_t>(num), each.value());
  }
  if (sections.size() != count) {
    throw op.error(cat("there are ", sections.size(), " sections but ", count, " outputs"))
        .fix("give one output for every section");
  }
  // One section may be left to be inferred.
  Dim rest = whole;
  size_t open = 0;
  for (const int64_t section : sections) {
    if (section < 0) ++open;
    if (section >= 0) rest = rest - Dim(section);
  }
  if (num <= 0 && whole.known() && open <= 1) {
    int64_t given = 0;
    for (const int64_t section : sections) given += std::max<int64_t>(section, 0);
    if (given > whole.value() || (open == 0 && given != whole.value())) {
      throw op
          .error(cat("sections [", join(sections), "] add up to ", given, " but dimension ", axis,
                     " of X ", x.shape, " has ", whole))
          .fix("make the sections add up to that extent; one may be -1");
    }
  }
  for (size_t i = 0; i < count; ++i) {
    if (op.out_position("Out", i) < 0) continue;
    ValueInfo& out = op.out("Out", i);
    out.type = VarType::lod_tensor;
    out.dtype = x.dtype;
    out.known = true;
    out.shape = x.shape;
    if (axis >= 0) out.shape[axis] = sections[i] >= 0 || open > 1 ? Dim(sections[i]) : rest;
    if (axis != 0) {
      out.lod = x.lod;
      out.lod_level = x.lod_level;
    }
  }
}

void split_grad(GradMaker& g) {
  Slots inputs{{"X", g.out_grad("Out")}};
  if (!g.in("AxisTensor").empty()) inputs["AxisTensor"] = g.in("AxisTensor");
  g.append({"concat", inputs, {{"Out", g.in_grad("X")}}, {{"axis", g.op().attr_or("axis", 0)}}});
}

void register_concat(Registry& ops) {
  ops.op("concat")
      .in_list("X", "tensors that differ in one extent at most")
      .in_optional("AxisTensor", "one whole number; used instead of axis")
      .out("Out", "X one after another along the axis")
      .attr("axis", 0, "the dimension that grows")
      .shape(concat_shape)
      .kernel(untyped([](const KernelSite& site) {
        const int axis = joining_axis(site, site.in("X").shape.rank());
        return join_kernel(input_pieces(site, axis), 0);
      }))
      .grad({"X", "AxisTensor"})
      .no_grad({"AxisTensor"})
      .grad_kernel(untyped([](const KernelSite& site) {
        const int axis = joining_axis(site, site.in("X").shape.rank());
        return cut_kernel(input_pieces(site, axis), site.position("Out@GRAD"));
      }))
      .grad_vjp(linear_gradient({"X"}))
      .traits({.reads_values = {"AxisTensor"}, .linear = true})
      .sample([](Draw& d) {
        const Shape shape = d.shape(1, 3);
        const auto axis = static_cast<int32_t>(d.size(-shape.rank(), shape.rank() - 1));
        OpSample sample{.attrs = {{"axis", axis}}};
        for (int64_t i = d.size(1, 3); i > 0; --i) {
          Shape x = shape;
          x[axis < 0 ? axis + shape.rank() : axis] = d.size(1, 4);
          sample.inputs["X"].push_back(d.uniform(x));
        }
        return sample;
      });
  ops.op("split")
      .in("X", "any shape and type")
      .in_optional("AxisTensor", "one whole number; used instead of axis")
      .in_optional_list("SectionsTensorList", "one extent each; used instead of sections")
      .out_list("Out", "parts of X along the axis")
      .attr("sections", std::vector<int32_t>{}, "extents of the parts; one may be -1")
      .attr("num", 0, "this many equal parts; 0: sections say")
      .attr("axis", 0, "the dimension that is cut")
      .shape(split_shape)
      .kernel(untyped([](const KernelSite& site) {
        const ValueInfo& x = site.in("X");
        const int axis = joining_axis(site, x.shape.rank());
        return cut_kernel(
            Pieces(site.out_count("Out"), axis, x.dtype,
                   [&](size_t i) -> const Shape& { return site.out("Out", i).shape; }),
            site.position("X"));
      }))
      .grad_maker(split_grad)
      .no_grad({"AxisTensor", "SectionsTensorList"})
      .traits({.reads_values = {"AxisTensor", "SectionsTensorList"}})
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({d.size(1, 3), 6})}}},
                        .attrs = {{"num", int32_t{3}}, {"axis", int32_t{1}}},
                        .out_counts = {{"Out", 3}}};
      })
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({5, d.size(1, 3)})}}},
                        .attrs = {{"sections", std::vector<int32_t>{2, -1}}},
                        .out_counts = {{"Out", 2}}};
      });
}

// ---- stack and unstack

void stack_shape(OpView& op) {
  const ValueInfo& first = op.in("X");
  Shape out = first.shape;
  for (size_t i = 1; i < op.count("X"); ++i) {
    const ValueInfo& x = op.in("X", i);
    if (!x.shape.may_equal(first.shape) || (x.known && first.known && x.dtype != first.dtype)) {
      throw op
          .error(cat("X[", i, "] is ", name_of(x.dtype), " ", x.shape, " but X[0] is ",
                     name_of(first.dtype), " ", first.shape))
          .fix("stack tensors of one shape and type");
    }
    for (int d = 0; d < out.rank(); ++d) out[d] = Dim::join(out[d], x.shape[d]);
  }
  out.insert(stack_axis(op, out.rank() + 1), static_cast<int64_t>(op.count("X")));
  op.set_out("Y", first.dtype, out);
  carry_lod(op, "Y", {"X"});
}

void unstack_outputs(OpView& op, const ValueInfo& whole, const char* slot) {
  const int axis = stack_axis(op, whole.shape.rank());
  const auto count = static_cast<int64_t>(op.out_count(slot));
  if (!whole.shape[axis].may_equal(count)) {
    throw op
        .error(cat("dimension ", axis, " of ", whole.shape, " has ", whole.shape[axis],
                   " elements but there are ", count, " outputs"))
        .fix("give one output for every element");
  }
  Shape out = whole.shape;
  out.erase(axis);
  op.set_out(slot, whole.dtype, out);
}

void register_stack(Registry& ops) {
  const auto pieces = [](size_t count, const ValueInfo& whole, int axis) {
    Shape piece = whole.shape;
    piece.erase(axis);
    return Pieces(count, axis, whole.dtype, [&](size_t) -> const Shape& { return piece; });
  };
  ops.op("stack")
      .in_list("X", "tensors of one shape")
      .out("Y", "X side by side along a new dimension")
      .attr("axis", 0, "where the new dimension stands in Y")
      .shape(stack_shape)
      .kernel(untyped([pieces](const KernelSite& site) {
        const ValueInfo& y = site.out("Y");
        return join_kernel(pieces(site.count("X"), y, stack_axis(site, y.shape.rank())), 0);
      }))
      .grad({})
      .grad_shape([](OpView& op) { unstack_outputs(op, op.in("Y@GRAD"), "X@GRAD"); })
      .grad_kernel(untyped([pieces](const KernelSite& site) {
        const ValueInfo& y = site.in("Y@GRAD");
        const int axis = stack_axis(site, y.shape.rank());
        return cut_kernel(pieces(site.out_count("X@GRAD"), y, axis), site.position("Y@GRAD"));
      }))
      .grad_vjp(linear_gradient({"X"}))
      .sample([](Draw& d) {
        const Shape shape = d.shape(1, 3);
        OpSample sample{
            .attrs = {{"axis", static_cast<int32_t>(d.size(-shape.rank() - 1, shape.rank()))}}};
        for (int64_t i = d.size(1, 3); i > 0; --i) sample.inputs["X"].push_back(d.uniform(shape));
        return sample;
      });
  ops.op("unstack")
      .in("X", "any shape")
      .out_list("Y", "X cut along the axis, which is dropped")
      .attr("axis", 0, "the dimension that is cut")
      .required_attr<int32_t>("num", "its extent")
      .shape([](OpView& op) { unstack_outputs(op, op.in("X"), "Y"); })
      .kernel(untyped([pieces](const KernelSite& site) {
        const ValueInfo& x = site.in("X");
        const int axis = stack_axis(site, x.shape.rank());
        return cut_kernel(pieces(site.out_count("Y"), x, axis), site.position("X"));
      }))
      .grad({})
      .grad_shape([](OpView& op) {
        const ValueInfo& y = op.in("Y@GRAD");
        Shape x = y.shape;
        x.insert(stack_axis(op, x.rank() + 1), static_cast<int64_t>(op.count("Y@GRAD")));
        op.set_out("X@GRAD", y.dtype, x);
      })
      .grad_kernel(untyped([pieces](const KernelSite& site) {
        const ValueInfo& x = site.out("X@GRAD");
        const int axis = stack_axis(site, x.shape.rank());
        return join_kernel(pieces(site.count("Y@GRAD"), x, axis), site.position("Y@GRAD"));
      }))
      .grad_vjp(linear_gradient({"X"}))
      .sample([](Draw& d) {
        const int64_t count = d.size(1, 3);
        return OpSample{.inputs = {{"X", {d.uniform({d.size(1, 3), count, d.size(1, 3)})}}},
                        .attrs = {{"axis", int32_t{1}}, {"num", static_cast<int32_t>(count)}},
                        .out_counts = {{"Y", static_cast<int>(count)}}};
      });
}

}  // namespace

void register_tensor_join(Registry& ops) {
  register_concat(ops);
  register_stack(ops);
}

}  // namespace trireme
