// Tensor arrays: elements written, read, counted and joined. Their variables are changed in place.
#include <cstring>

#include "core/text.h"
#include "ops/host/host_operands.h"
#include "ops/rules.h"

namespace trireme {
namespace {

// ---- write_to_array, read_from_array

int64_t index_of(const KernelArgs& k, int at) {
  const Tensor& index = k.in(at);
  if (index.numel() != 1 || is_floating(index.dtype())) {
    throw Error(cat("the index is ", index.describe(), ", not one integer"))
        .fix("give an int64 tensor of one element");
  }
  const auto value = static_cast<int64_t>(element_as_double(index, 0));
  if (value < 0) throw Error(cat("the index is ", value)).fix("array elements count from 0");
  return value;
}

void element_shape(OpView& op, VarType type) {
  const ValueInfo& x = op.in("X");
  ValueInfo& out = op.out("Out");
  out.type = type;
  out.dtype = x.dtype;
  out.shape = x.shape;
  out.lod_level = x.lod_level;
  out.known = x.known;
}

KernelFn write_to_array(const KernelSite& site) {
  // The gradient of reading an element twice is the sum of both gradients.
  const bool adds = works_on_gradients(site, site.out("Out").name);
  return [=, x = site.position("X"), i = site.position("I"),
          out = site.out_position("Out")](const KernelArgs& k) {
    const auto index = static_cast<size_t>(index_of(k, i));
    TensorArray& array = k.outs[out]->array();
    if (index >= array.size()) array.resize(index + 1);
    if (adds && array[index].initialized()) {
      add_tensor(k.in(x), array[index]);
    } else {
      array.renew(index).copy_from(k.in(x));
    }
  };
}

KernelFn read_from_array(const KernelSite& site) {
  const bool takes = works_on_gradients(site, site.in("X").name);
  return [=, x = site.position("X"), i = site.position("I"), written = site.position("X_W"),
          out = site.out_position("Out")](const KernelArgs& k) {
    const auto index = static_cast<size_t>(index_of(k, i));
    static const TensorArray none;
    const TensorArray& array =
        k.ins[x]->kind() == Kind::none ? none : std::as_const(*k.ins[x]).array();
    const bool there = index < array.size() && array[index].initialized();
    if (there) {
      set_tensor(*k.outs[out], array[index]);
      // What the element held before it was written has a gradient of its own.
      if (takes) k.ins[x]->array().drop(index);
      return;
    }
    if (written >= 0 && k.ins[written]->initialized()) {  // nobody read what was written there
      set_zeros(*k.outs[out], k.in(written));
      return;
    }
    if (index >= array.size()) {
      throw Error(ErrorKind::out_of_range,
                  cat("element ", index, " is read, but the array has ", array.size(), " elements"))
          .fix("write the element first, or read an index below the array's length");
    }
    throw Error(ErrorKind::precondition, cat("element ", index, " of the array (", array.size(),
                                             " elements) was never written"))
        .fix("write the element before it is read");
  };
}

void register_elements(Registry& ops) {
  ops.primitive("p.empty_array")
      .out("Out", "an array without elements")
      .traits({.host = true})
      .shape([](OpView& op) { op.out("Out").type = VarType::lod_tensor_array; })
      .kernel(untyped([](const KernelSite&) {
        return [](const KernelArgs& k) {
          if (k.outs[0]->kind() != Kind::array) k.outs[0]->clear();
          k.outs[0]->array().clear();
        };
      }));

  ops.op("write_to_array")
      .doc("Writes one element of a tensor array, which grows as needed.")
      .in("X", "the element; it is copied")
      .in("I", "its index, one integer")
      .out("Out", "the array: its other elements stay")
      .shape([](OpView& op) { element_shape(op, VarType::lod_tensor_array); })
      .grad_maker([](GradMaker& g) {
        g.append({"read_from_array",
                  {{"X", g.out_grad("Out")}, {"I", g.in("I")}, {"X_W", g.in("X")}},
                  {{"Out", g.in_grad("X")}},
                  {}});
      })
      .no_grad({"I"})
      .traits({.host = true, .updates = {"Out"}, .linear = true})
      .kernel(untyped(write_to_array));
  ops.op("read_from_array")
      .doc("Reads one element of a tensor array.")
      .in("X", "the array")
      .in("I", "the index, one integer")
      .in_optional("X_W", "gradients: zeros like this where nothing was written")
      .out("Out", "a copy of the element")
      .shape([](OpView& op) {
        require_array(op, "X");
        element_shape(op, VarType::lod_tensor);
      })
      .grad_maker([](GradMaker& g) {
        g.append({"write_to_array",
                  {{"X", g.out_grad("Out")}, {"I", g.in("I")}},
                  {{"Out", g.in_grad("X")}},
                  {}});
      })
      .no_grad({"I", "X_W"})
      .traits({.host = true, .takes = {"X"}, .linear = true})
      .kernel(untyped(read_from_array));
  ops.op("lod_array_length")
      .in("X", "a tensor array")
      .out("Out", "how many elements it has, int64 [1]")
      .shape([](OpView& op) {
        require_array(op, "X");
        op.set_out("Out", DType::int64, {1});
      })
      .traits({.host = true, .inferred_ahead = true})
      .kernel(untyped([](const KernelSite&) {
        return [](const KernelArgs& k) {
          set_number(*k.outs[0], static_cast<int64_t>(std::as_const(*k.ins[0]).array().size()));
        };
      }));
}

// ---- tensor_array_to_tensor

// Bytes of `tensor` before and after its axis: `blocks` runs of `bytes` each.
struct AxisRuns {
  int64_t blocks = 1;
  size_t bytes = 0;
};

AxisRuns runs_of(const Tensor& tensor, int axis) {
  AxisRuns runs;
  for (int i = 0; i < axis; ++i) runs.blocks *= tensor.shape().at(i);
  runs.bytes = runs.blocks == 0 ? 0 : tensor.byte_size() / static_cast<size_t>(runs.blocks);
  return runs;
}

int join_axis(int axis, int rank) {
  const int normal = axis < 0 ? axis + rank : axis;
  if (normal < 0 || normal >= rank) {
    throw Error(cat("axis is ", axis, " but the result has ", rank, " dimensions"))
        .fix(cat("choose axis from ", -rank, " to ", rank - 1));
  }
  return normal;
}

void check_elements(const TensorArray& array, int axis, bool stack) {
  if (array.empty()) throw Error("the array has no elements").fix("write to it first");
  for (size_t i = 0; i < array.size(); ++i) {
    if (!array[i].initialized()) throw Error(cat("element ", i, " of the array was never written"));
    bool fits =
        array[i].dtype() == array[0].dtype() && array[i].shape().rank() == array[0].shape().rank();
    for (int d = 0; fits && d < array[0].shape().rank(); ++d) {
      if (d != axis || stack) fits = array[i].shape()[d] == array[0].shape()[d];
    }
    if (!fits) {
      throw Error(cat("element ", i, " is ", array[i].describe(), " but element 0 is ",
                      array[0].describe()))
          .fix("join elements that agree outside the axis");
    }
  }
}

// Walks joined and single elements side by side: move(part of the whole, part of element i, bytes).
template <class Move>
void walk_joined(const Tensor& whole, const TensorArray& parts, int axis, Move move) {
  const AxisRuns all = runs_of(whole, axis);
  size_t offset = 0;
  for (const Tensor& part : parts) {
    const size_t bytes = runs_of(part, axis).bytes;
    for (int64_t b = 0; b < all.blocks && bytes > 0; ++b) {
      move(whole.bytes().data() + static_cast<size_t>(b) * all.bytes + offset,
           part.bytes().data() + static_cast<size_t>(b) * bytes, bytes);
    }
    offset += bytes;
  }
}

KernelFn join_array(const KernelSite& site) {
  return [wanted = site.attr<int32_t>("axis"), stack = site.attr<bool>("use_stack"),
          index_at = site.out_position("OutIndex")](const KernelArgs& k) {
    const TensorArray& array = std::as_const(*k.ins[0]).array();
    if (array.empty()) throw Error("the array has no elements").fix("write to it first");
    const Shape& first = array[0].shape();
    const int axis = join_axis(wanted, first.rank() + (stack ? 1 : 0));
    check_elements(array, axis, stack);
    const auto extent = [&](size_t i) { return stack ? 1 : array[i].shape().at(axis); };
    int64_t total = 0;
    for (size_t i = 0; i < array.size(); ++i) total += extent(i);
    Shape shape;
    for (int d = 0; d < first.rank() + (stack ? 1 : 0); ++d) {
      if (d == axis) {
        shape.push_back(total);
      } else {
        shape.push_back(first[d - (stack && d > axis ? 1 : 0)]);
      }
    }
    walk_joined(result_of_shape(*k.outs[0], array[0].dtype(), shape), array, axis,
                [](void* whole, void* part, size_t bytes) { std::memcpy(whole, part, bytes); });
    if (index_at < 0) return;
    const Shape count{static_cast<int64_t>(array.size())};
    auto* extents = result_of_shape(*k.outs[index_at], DType::int32, count).data<int32_t>();
    // Of stacked elements, too, their own extent; one that ends before the axis has none.
    const int64_t own = axis < first.rank() ? first.at(axis) : 1;
    for (size_t i = 0; i < array.size(); ++i) {
      extents[i] = static_cast<int32_t>(stack ? own : extent(i));
    }
  };
}

KernelFn split_gradient(const KernelSite& site) {
  return [wanted = site.attr<int32_t>("axis"), stack = site.attr<bool>("use_stack"),
          x = site.position("X"), gradient = site.position("Out@GRAD"),
          out = site.out_position("X@GRAD")](const KernelArgs& k) {
    const TensorArray& like = std::as_const(*k.ins[x]).array();
    if (k.outs[out]->kind() != Kind::array) k.outs[out]->clear();
    TensorArray& parts = k.outs[out]->array();
    parts.resize(like.size());
    for (size_t i = 0; i < like.size(); ++i) {
      Tensor& part = parts.renew(i);
      part.resize(like[i].dtype(), like[i].shape());
      part.mutable_lod() = like[i].lod();
    }
    const int rank = like.empty() ? 0 : like[0].shape().rank() + (stack ? 1 : 0);
    walk_joined(k.in(gradient), parts, join_axis(wanted, rank),
                [](void* whole, void* part, size_t bytes) { std::memcpy(part, whole, bytes); });
  };
}

void register_joining(Registry& ops) {
  ops.op("tensor_array_to_tensor")
      .doc("Concatenates or stacks the elements of a tensor array.")
      .in("X", "a tensor array")
      .out("Out", "its elements, joined")
      .out_intermediate("OutIndex", "each element's extent along the axis, int32")
      .attr("axis", 0, "the dimension along which they are joined")
      .attr("use_stack", false, "join along a new dimension")
      .shape([](OpView& op) {
        require_array(op, "X");
        const ValueInfo& x = op.in("X");
        const bool stack = op.attr<bool>("use_stack");
        const int rank = x.shape.rank() + (stack ? 1 : 0);
        const int axis = normal_axis(op, op.attr<int32_t>("axis"), rank);
        Shape shape;
        for (int d = 0; d < rank; ++d) {
          shape.push_back(d == axis ? Dim() : x.shape[d - (stack && d > axis ? 1 : 0)]);
        }
        op.set_out("Out", x.dtype, shape);
        op.set_out("OutIndex", DType::int32, {Dim()});
      })
      .grad({"X"})
      .grad_outs({"Out"})
      .grad_kernel(untyped(split_gradient))
      .traits({.host = true})
      .kernel(untyped(join_array));
}

}  // namespace

void register_array(Registry& ops) {
  register_elements(ops);
  register_joining(ops);
}

}  // namespace trireme
