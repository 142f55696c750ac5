// Other shapes for the same elements: reshape, squeeze, unsqueeze, flatten, and transpose. The ops
// whose names end in 2 keep X's shape in XShape, so that the gradient needs no X.
#include <cstring>

#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/tensor/sites.h"

namespace trireme {

std::vector<int> permutation(const OpView& op, int rank) {
  const auto axes = op.attr<std::vector<int32_t>>("axis");
  std::vector<int> perm;
  for (const int32_t axis : axes) perm.push_back(normal_axis(op, axis, rank));
  if (static_cast<int>(perm.size()) != rank ||
      static_cast<int>(normal_axes(op, axes, rank, "axis").size()) != rank) {
    throw op.error(cat("axis is [", join(axes), "] but X has ", rank, " dimensions"))
        .fix(cat("name each of the axes 0 to ", rank - 1, " once"));
  }
  return perm;
}

namespace {

using TargetShape = Shape (*)(const OpView&);

BoundKernel copy_elements(int from, int to, int64_t n, DType dtype) {
  const auto size = static_cast<int64_t>(size_of(dtype));
  return {[=](const KernelArgs& k) {
            const auto [begin, end] = k.range(n);
            const auto* source = static_cast<const std::byte*>(k.in(from).address());
            auto* target = static_cast<std::byte*>(k.out(to).address());
            if (begin < end && source != target) {
              std::memmove(target + begin * size, source + begin * size,
                           static_cast<size_t>((end - begin) * size));
            }
          },
          parts_for(n)};
}

void set_x_shape(OpView& op) {
  if (!op.schema().find_output("XShape") || !op.wants("XShape")) return;
  const Shape& x = op.in("X").shape;
  if (x.rank() == kMaxRank) {
    throw op.error(cat("X has ", x.rank(), " dimensions"))
        .fix(cat("use at most ", kMaxRank - 1, " dimensions"));
  }
  Shape kept = x;
  kept.insert(0, 0);
  op.set_out("XShape", op.in("X").dtype, kept);
}

// X@GRAD has the shape that XShape remembers behind its leading 0.
void shape_from_x_shape(OpView& op) {
  if (!op.wants("X@GRAD")) return;
  Shape x = op.in("XShape").shape;
  x.erase(0);
  op.set_out("X@GRAD", op.in("Out@GRAD").dtype, x);
}

// Registers `name` and `name`2 with the slots and attributes that `describe` adds.
void renaming(Registry& ops, const std::string& name, const char* doc, TargetShape target,
              const std::function<void(OpSchema&)>& describe) {
  for (const bool keeps_shape : {false, true}) {
    OpSchema& row = ops.op(keeps_shape ? name + "2" : name)
                        .in("X", "any shape and type")
                        .out("Out", doc)
                        .inplace("X", "Out")
                        .renames("X", "Out");
    if (keeps_shape) row.out_intermediate("XShape", "[0, extents of X], no elements");
    describe(row);
    row.shape([target](OpView& op) {
      require_dense(op, "X");
      op.set_out("Out", op.in("X").dtype, target(op));
      carry_lod(op, "Out", {"X"});
      set_x_shape(op);
    });
    row.kernel(untyped([](const KernelSite& site) {
      const ValueInfo& x = site.in("X");
      return copy_elements(site.position("X"), site.out_position("Out"), x.shape.count(), x.dtype);
    }));
    row.grad({keeps_shape ? "XShape" : "X"});
    if (keeps_shape) row.grad_shape(shape_from_x_shape);
    row.grad_kernel(untyped([](const KernelSite& site) {
      const ValueInfo& grad = site.in("Out@GRAD");
      return copy_elements(site.position("Out@GRAD"), site.out_position("X@GRAD"),
                           grad.shape.count(), grad.dtype);
    }));
    row.grad_vjp(
        [](Vjp& v) { v.set("Out@GRAD", 0, reshape_like(v.grad("X@GRAD"), v.in("Out@GRAD"))); });
  }
}

// ---- reshape

// Extents given as numbers, or as tensors that are read when the plan is bound. While the program
// is built a tensor's extent is -1, and then nothing can be inferred from the others.
Shape reshape_target(const OpView& op) {
  const Shape& x = op.in("X").shape;
  const auto attr = op.attr<std::vector<int32_t>>("shape");
  if (op.has("ShapeTensor")) {
    std::vector<int64_t> shape;
    bool all_read = true;
    for (size_t i = 0; i < op.count("ShapeTensor"); ++i) {
      const std::vector<int64_t> read = read_ints(op, "ShapeTensor", i);
      all_read = all_read && !read.empty();
      shape.push_back(read.empty() ? -1 : read[0]);
    }
    if (all_read) return resolve_shape(op, x, shape);
    // Extents that stand in the attribute are numbers; the others come from tensors.
    for (size_t i = 0; i < shape.size() && i < attr.size(); ++i) shape[i] = attr[i];
    Shape out;
    for (size_t i = 0; i < shape.size(); ++i) {
      const int axis = static_cast<int>(i);
      out.push_back(shape[i] == 0 && axis < x.rank() ? x[axis] : Dim(shape[i]));
    }
    return out;
  }
  if (op.has("Shape")) {
    const std::vector<int64_t> read = read_ints(op, "Shape");
    if (!read.empty()) return resolve_shape(op, x, read);
    if (attr.empty()) {
      Shape unknown;
      const Dim rank = op.in("Shape").shape.numel();
      for (int64_t i = 0; i < rank.value(); ++i) unknown.push_back(Dim());
      return unknown;
    }
  }
  if (attr.empty()) {
    throw op.error("no shape is given").fix("set shape, or give Shape or ShapeTensor");
  }
  return resolve_shape(op, x, {attr.begin(), attr.end()});
}

void describe_reshape(OpSchema& row) {
  row.in_optional("Shape", "the extents, int32; used instead of shape")
      .in_optional_list("ShapeTensor", "one extent each; used instead of shape")
      .attr("shape", std::vector<int32_t>{}, "0 copies the extent of X, one -1 is inferred")
      .no_grad({"Shape", "ShapeTensor"})
      .traits({.reads_values = {"Shape", "ShapeTensor"}})
      .sample([](Draw& d) {
        const int64_t rows = d.size(1, 4), a = d.size(1, 3), b = d.size(1, 3);
        return OpSample{.inputs = {{"X", {d.uniform({rows, a, b})}}},
                        .attrs = {{"shape", std::vector<int32_t>{0, -1}}}};
      })
      .sample([](Draw& d) {
        const auto a = static_cast<int32_t>(d.size(1, 3));
        return OpSample{.inputs = {{"X", {d.uniform({d.size(1, 4), a * 2})}}},
                        .attrs = {{"shape", std::vector<int32_t>{-1, a, 2}}}};
      });
}

void second_of_reshape2(Registry& ops, OpSchema& row) {
  ops.second_gradient(row, {.ins = {"DOut", "DDX"}, .outs = {{"DDOut"}}, .body = [](Body& b) {
                              if (!b.has("DDX")) return;
                              b.out("DDOut") = reshape_like(b.in("DDX"), b.in("DOut"));
                            }});
}

// ---- squeeze, unsqueeze, flatten

Shape squeeze_target(const OpView& op) {
  Shape out = op.in("X").shape;
  const auto axes = op.attr<std::vector<int32_t>>("axes");
  if (axes.empty()) {
    for (int d = out.rank() - 1; d >= 0; --d) {
      if (out[d] == Dim(1)) out.erase(d);
    }
    return out;
  }
  const std::vector<int> sorted = normal_axes(op, axes, out.rank(), "axes");
  for (size_t i = sorted.size(); i > 0; --i) {
    if (!out[sorted[i - 1]].may_equal(1)) {
      throw op
          .error(cat("axis ", sorted[i - 1], " of X ", op.in("X").shape, " has ",
                     out[sorted[i - 1]], " elements"))
          .fix("name only axes of extent 1");
    }
    out.erase(sorted[i - 1]);
  }
  return out;
}

std::vector<int32_t> unsqueeze_axes(const OpView& op, bool& known) {
  known = true;
  std::vector<int64_t> read;
  if (op.has("AxesTensor")) {
    read = read_ints(op, "AxesTensor");
    known = op.in("AxesTensor").value != nullptr;
    if (!known) read.assign(static_cast<size_t>(op.in("AxesTensor").shape.numel().value()), 0);
  } else if (op.has("AxesTensorList")) {
    for (size_t i = 0; i < op.count("AxesTensorList"); ++i) {
      const std::vector<int64_t> one = read_ints(op, "AxesTensorList", i);
      known = known && !one.empty();
      read.push_back(one.empty() ? 0 : one[0]);
    }
  } else {
    return op.attr<std::vector<int32_t>>("axes");
  }
  return {read.begin(), read.end()};
}

// Axes are put in one after another: each counts in the shape as it is by then.
Shape unsqueeze_target(const OpView& op) {
  Shape out = op.in("X").shape;
  bool known = true;
  const std::vector<int32_t> axes = unsqueeze_axes(op, known);
  if (!known) {
    Shape unknown;
    for (size_t i = 0; i < axes.size() + static_cast<size_t>(out.rank()); ++i) {
      unknown.push_back(Dim());
    }
    return unknown;
  }
  for (const int32_t axis : axes) {
    out.insert(normal_axis(op, axis, out.rank() + 1, "axes"), 1);
  }
  return out;
}

Shape flatten_target(const OpView& op) {
  const Shape& x = op.in("X").shape;
  const int axis = op.attr<int32_t>("axis");
  if (axis < 0 || axis > x.rank()) {
    throw op.error(cat("axis is ", axis, " but X has ", x.rank(), " dimensions"))
        .fix(cat("choose an axis from 0 to ", x.rank()));
  }
  return {x.product(0, axis), x.product(axis, x.rank())};
}

void register_renamings(Registry& ops) {
  renaming(ops, "reshape", "the elements of X under another shape", reshape_target,
           [&ops](OpSchema& row) {
             describe_reshape(row);
             if (row.find_output("XShape")) second_of_reshape2(ops, row);
           });
  renaming(ops, "squeeze", "X without dimensions of extent 1", squeeze_target, [](OpSchema& row) {
    row.attr("axes", std::vector<int32_t>{}, "which to drop; empty: all of extent 1")
        .sample([](Draw& d) {
          return OpSample{
              .inputs = {{"X", {d.uniform({d.size(2, 4), 1, d.size(2, 4), 1})}}},
              .attrs = {{"axes", d.coin() ? std::vector<int32_t>{1, -1} : std::vector<int32_t>{}}}};
        });
  });
  renaming(ops, "unsqueeze", "X with dimensions of extent 1 put in", unsqueeze_target,
           [](OpSchema& row) {
             row.in_optional("AxesTensor", "the axes; used instead of axes")
                 .in_optional_list("AxesTensorList", "one axis each; used instead of axes")
                 .attr("axes", std::vector<int32_t>{}, "where they stand in the result")
                 .no_grad({"AxesTensor", "AxesTensorList"})
                 .traits({.reads_values = {"AxesTensor", "AxesTensorList"}})
                 .sample([](Draw& d) {
                   return OpSample{.inputs = {{"X", {d.uniform(d.shape(1, 3))}}},
                                   .attrs = {{"axes", std::vector<int32_t>{0, -1}}}};
                 });
           });
  renaming(ops, "flatten", "dimensions before `axis` as rows, the others as columns",
           flatten_target, [](OpSchema& row) {
             row.attr("axis", 1, "the first dimension of the columns").sample([](Draw& d) {
               const Shape x = d.shape(1, 4);
               const auto axis = static_cast<int32_t>(d.size(0, x.rank()));
               return OpSample{.inputs = {{"X", {d.uniform(x)}}}, .attrs = {{"axis", axis}}};
             });
           });
}

// ---- transpose

// Element i of the result, in row-major order, is found by these steps through the source.
BoundKernel permute(int from, int to, const Shape& source, const std::vector<int>& perm,
                    DType dtype) {
  const Strides own = strides_of(source);
  Strides steps{};
  Shape result;
  for (size_t d = 0; d < perm.size(); ++d) {
    steps[d] = own[static_cast<size_t>(perm[d])];
    result.push_back(source[perm[d]]);
  }
  const Walk<1> walk(result, {steps});
  return by_size(dtype, [&]<class T>() {
    return BoundKernel(
        [walk, from, to](const KernelArgs& k) {
          const T* in = raw_as<T>(k.in(from));
          T* out = raw_as<T>(k.out(to));
          const int64_t step = walk.step(0);
          walk.runs(k.range(walk.count()), [&](int64_t at, const auto& offset, int64_t n) {
            const T* run = in + offset[0];
            for (int64_t i = 0; i < n; ++i) out[at + i] = run[i * step];
          });
        },
        parts_for(walk.count()));
  });
}

void register_transposes(Registry& ops) {
  for (const bool keeps_shape : {false, true}) {
    OpSchema& row = ops.op(keeps_shape ? "transpose2" : "transpose")
                        .in("X", "any shape and type")
                        .out("Out", "dimension i is dimension axis[i] of X")
                        .required_attr<std::vector<int32_t>>("axis", "every axis of X once")
                        .attr("data_format", "AnyLayout", "kept for the record");
    if (keeps_shape) row.out_intermediate("XShape", "[0, extents of X], no elements");
    row.shape([](OpView& op) {
      const ValueInfo& x = op.in("X");
      require_dense(op, "X");
      Shape out;
      for (const int axis : permutation(op, x.shape.rank())) out.push_back(x.shape[axis]);
      op.set_out("Out", x.dtype, out);
      set_x_shape(op);
    });
    row.kernel(untyped([](const KernelSite& site) {
      const ValueInfo& x = site.in("X");
      return permute(site.position("X"), site.out_position("Out"), x.shape,
                     permutation(site, x.shape.rank()), x.dtype);
    }));
    row.grad({keeps_shape ? "XShape" : "X"});
    if (keeps_shape) row.grad_shape(shape_from_x_shape);
    row.grad_kernel(untyped([](const KernelSite& site) {
      const ValueInfo& grad = site.in("Out@GRAD");
      const std::vector<int> perm = permutation(site, grad.shape.rank());
      std::vector<int> inverse(perm.size());
      for (size_t d = 0; d < perm.size(); ++d) {
        inverse[static_cast<size_t>(perm[d])] = static_cast<int>(d);
      }
      return permute(site.position("Out@GRAD"), site.out_position("X@GRAD"), grad.shape, inverse,
                     grad.dtype);
    }));
    row.grad_vjp(linear_gradient({"X"}));
    row.sample([](Draw& d) {
      return OpSample{.inputs = {{"X", {d.uniform(d.shape(3, 3))}}},
                      .attrs = {{"axis", std::vector<int32_t>{2, 0, 1}}}};
    });
    row.sample([](Draw& d) {
      return OpSample{.inputs = {{"X", {d.uniform(d.shape(4, 4))}}},
                      .attrs = {{"axis", std::vector<int32_t>{0, 2, 1, 3}}}};
    });
  }
}

}  // namespace

void register_tensor_shape(Registry& ops) {
  register_renamings(ops);
  register_transposes(ops);
}

}  // namespace trireme
