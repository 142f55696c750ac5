// Primitives that move or rename dimensions and leave every element as it is.
#include <cstring>

#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

BoundKernel copy_kernel(const KernelSite& site) {
  const int64_t n = site.out("Out").shape.count();
  const auto size = static_cast<int64_t>(size_of(site.in("A").dtype));
  return {[n, size](const KernelArgs& k) {
            const auto [begin, end] = k.range(n);
            const auto* from = static_cast<const std::byte*>(k.in(0).raw());
            auto* to = static_cast<std::byte*>(k.out(0).raw());
            if (from != to && end > begin) {
              std::memmove(to + begin * size, from + begin * size,
                           static_cast<size_t>((end - begin) * size));
            }
          },
          parts_for(n)};
}

// Every primitive here that keeps the element order: the same elements under another shape.
OpSchema& renaming_primitive(Registry& ops, const char* name, const char* doc) {
  return ops.primitive(name)
      .doc(doc)
      .in("A", "any shape")
      .out("Out", doc)
      .renames("A", "Out")
      .vjp([](Vjp& v) { v.set(0, reshape_like(v.grad(), v.in(0))); })
      .kernel(untyped(copy_kernel));
}

void set_shape(OpView& op, const Shape& shape) {
  op.set_out("Out", op.in("A").dtype, shape);
  carry_lod(op, "Out", {"A"});
}

void align_rule(OpView& op) {
  const Shape& own = op.in("A").shape;
  const int rank = op.attr<int32_t>("rank");
  const int axis = op.attr<int32_t>("axis");
  if (axis < 0 || axis + own.rank() > rank) {
    throw op
        .error(cat("dimensions ", own, " do not fit at axis ", axis, " of ", rank, " dimensions"))
        .fix(cat("choose an axis from 0 to ", rank - own.rank()));
  }
  Shape out;
  for (int d = 0; d < rank; ++d) {
    const int at = d - axis;
    out.push_back(at >= 0 && at < own.rank() ? own[at] : Dim(1));
  }
  set_shape(op, out);
}

void unsqueeze_rule(OpView& op) {
  const auto axes = op.attr<std::vector<int32_t>>("axes");
  Shape out = op.in("A").shape;
  if (axes.empty()) return set_shape(op, out);
  const int rank = out.rank() + static_cast<int>(axes.size());
  for (const int axis : normal_axes(op, axes, rank, "axes")) out.insert(axis, 1);
  set_shape(op, out);
}

void squeeze_rule(OpView& op) {
  Shape out = op.in("A").shape;
  const auto axes = op.attr<std::vector<int32_t>>("axes");
  if (axes.empty()) return set_shape(op, out);
  const std::vector<int> sorted = normal_axes(op, axes, out.rank(), "axes");
  for (size_t i = sorted.size(); i > 0; --i) {
    const int axis = sorted[i - 1];
    if (!out[axis].may_equal(1)) {
      throw op
          .error(cat("axis ", axis, " of ", op.in("A").shape, " has ", out[axis],
                     " elements and cannot be dropped"))
          .fix("drop only axes of extent 1");
    }
    out.erase(axis);
  }
  set_shape(op, out);
}

std::vector<int> permutation_of(const OpView& op) {
  const auto perm = op.attr<std::vector<int32_t>>("perm");
  const int rank = op.in("A").shape.rank();
  std::vector<int> result;
  std::vector<bool> seen(static_cast<size_t>(rank));
  for (const int32_t axis : perm) {
    const int normal = normal_axis(op, axis, rank, "perm");
    if (seen[static_cast<size_t>(normal)]) {
      throw op.error(cat("perm [", join(perm), "] names axis ", normal, " twice"))
          .fix("name every axis once");
    }
    seen[static_cast<size_t>(normal)] = true;
    result.push_back(normal);
  }
  if (static_cast<int>(result.size()) != rank) {
    throw op
        .error(cat("perm [", join(perm), "] has ", perm.size(), " axes but the operand has ", rank))
        .fix("name every axis once");
  }
  return result;
}

BoundKernel transpose_kernel(const KernelSite& site) {
  const std::vector<int> perm = permutation_of(site);
  const Strides own = strides_of(site.in("A").shape);
  Strides steps{};
  for (size_t d = 0; d < perm.size(); ++d) steps[d] = own[static_cast<size_t>(perm[d])];
  const Walk<1> walk(site.out("Out").shape, {steps});
  return by_size(site.in("A").dtype, [&]<class T>() {
    return BoundKernel(
        [walk](const KernelArgs& k) {
          const T* in = raw_as<T>(k.in(0));
          T* out = raw_as<T>(k.out(0));
          const int64_t step = walk.step(0);
          walk.runs(k.range(walk.count()), [&](int64_t at, const auto& offset, int64_t n) {
            const T* from = in + offset[0];
            for (int64_t i = 0; i < n; ++i) out[at + i] = from[i * step];
          });
        },
        parts_for(walk.count()));
  });
}

}  // namespace

void register_primitive_shape(Registry& ops) {
  renaming_primitive(ops, "p.reshape", "the elements of A under another shape")
      .required_attr<std::vector<int64_t>>("shape", "0 copies A's extent, one -1 is inferred")
      .shape([](OpView& op) {
        const auto shape = op.attr<std::vector<int64_t>>("shape");
        set_shape(op, resolve_shape(op, op.in("A").shape, shape));
      });
  renaming_primitive(ops, "p.reshape_like", "the elements of A under the shape of B")
      .in("B", "its shape is taken")
      .traits({.like = 1})
      .shape([](OpView& op) {
        const ValueInfo &a = op.in("A"), &like = op.in("B");
        if (!a.shape.numel().may_equal(like.shape.numel())) {
          throw op.error(cat("a value of shape ", a.shape, " cannot take the shape ", like.shape))
              .fix("use operands with as many elements");
        }
        op.set_out("Out", a.dtype, like.shape);
        carry_lod(op, "Out", {"B", "A"});
      });
  renaming_primitive(ops, "p.flatten2d", "dimensions before `axis` as rows, the others as columns")
      .required_attr<int32_t>("axis", "from 0 to the rank")
      .shape([](OpView& op) {
        const Shape& own = op.in("A").shape;
        const int axis = op.attr<int32_t>("axis");
        if (axis < 0 || axis > own.rank()) {
          throw op.error(cat("axis is ", axis, " but the operand has ", own.rank(), " dimensions"))
              .fix(cat("choose an axis from 0 to ", own.rank()));
        }
        set_shape(op, Shape{own.product(0, axis), own.product(axis, own.rank())});
      });
  renaming_primitive(ops, "p.align", "A's dimensions at `axis` of `rank` dimensions, the others 1")
      .required_attr<int32_t>("rank", "of the result")
      .required_attr<int32_t>("axis", "where A's first dimension goes")
      .shape(align_rule);
  renaming_primitive(ops, "p.unsqueeze", "A with dimensions of extent 1 put in")
      .required_attr<std::vector<int32_t>>("axes", "where they stand in the result")
      .shape(unsqueeze_rule);
  renaming_primitive(ops, "p.squeeze", "A without some dimensions of extent 1")
      .required_attr<std::vector<int32_t>>("axes", "which of A")
      .shape(squeeze_rule);

  ops.primitive("p.transpose")
      .in("A", "any shape")
      .out("Out", "dimension i of the result is dimension perm[i] of A")
      .required_attr<std::vector<int32_t>>("perm", "every axis of A once")
      .shape([](OpView& op) {
        Shape out;
        for (const int axis : permutation_of(op)) out.push_back(op.in("A").shape[axis]);
        set_shape(op, out);
      })
      .vjp([](Vjp& v) {
        const auto perm = v.attr<std::vector<int32_t>>("perm");
        const int rank = v.in(0).rank();
        std::vector<int> inverse(perm.size());
        for (size_t d = 0; d < perm.size(); ++d) {
          inverse[static_cast<size_t>(perm[d] < 0 ? perm[d] + rank : perm[d])] =
              static_cast<int>(d);
        }
        v.set(0, transpose(v.grad(), inverse));
      })
      .kernel(untyped(transpose_kernel));
}

}  // namespace trireme
