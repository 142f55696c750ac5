// Ops that only move elements: other shapes, transposes, slices, joins and repeats.
#include "core/text.h"
#include "cuda/cuda_device.h"
#include "cuda/emit.h"
#include "cuda/kernels/register.h"
#include "ops/rules.h"
#include "ops/tensor/sites.h"

namespace trireme::cuda {
namespace {

// ---- the same elements under another shape

BoundKernel same_elements(int from, int to) {
  return on_queue([=](const KernelArgs& k) {
    const Tensor& source = k.in(from);
    Tensor& target = k.out(to);
    if (source.address() == target.address() || source.byte_size() == 0) return;
    static_cast<CudaQueue&>(*k.queue).device.copy(*k.queue, target.address(), source.address(),
                                                  source.byte_size());
  });
}

void add_renamings(DeviceKernels& kernels) {
  for (const std::string type : {"reshape", "squeeze", "unsqueeze", "flatten"}) {
    for (const std::string& name : {type, type + "2"}) {
      add_to(kernels, name, "copy", untyped([](const KernelSite& site) {
               return same_elements(site.position("X"), site.out_position("Out"));
             }),
             Halves::taken);
      add_to(kernels, name + "_grad", "copy", untyped([](const KernelSite& site) {
               return same_elements(site.position("Out@GRAD"), site.out_position("X@GRAD"));
             }),
             Halves::taken);
    }
  }
}

// ---- strided views

// Element i of the result is found by these steps through the source, from `start` on.
BoundKernel take(int from, int to, const ValueInfo& source, const Shape& shape,
                 const Strides& steps, int64_t start) {
  const std::string type = bits_text(source.dtype);
  const Walked walk = walked(shape, {steps}, 2);
  const std::string body = cat("((", type, "*)p.at[1])[at] = ((const ", type, "*)p.at[0])[(",
                               walk.index, ")(o0 + (", walk.index, ")d.v[1])];\n");
  return on_queue(pointwise(shape, {steps}, body, 2, {start}), [=](const KernelArgs& k) {
    return AddressList{k.in(from).address(), k.out(to).address()};
  });
}

BoundKernel transposed(int from, int to, const ValueInfo& source, const std::vector<int>& perm) {
  const Strides own = strides_of(source.shape);
  Strides steps{};
  Shape result;
  for (size_t d = 0; d < perm.size(); ++d) {
    steps[d] = own[static_cast<size_t>(perm[d])];
    result.push_back(source.shape[perm[d]]);
  }
  return take(from, to, source, result, steps, 0);
}

BoundKernel transpose_forward(const KernelSite& site) {
  const ValueInfo& x = site.in("X");
  return transposed(site.position("X"), site.out_position("Out"), x,
                    permutation(site, x.shape.rank()));
}

BoundKernel transpose_backward(const KernelSite& site) {
  const ValueInfo& grad = site.in("Out@GRAD");
  const std::vector<int> perm = permutation(site, grad.shape.rank());
  std::vector<int> inverse(perm.size());
  for (size_t d = 0; d < perm.size(); ++d) {
    inverse[static_cast<size_t>(perm[d])] = static_cast<int>(d);
  }
  return transposed(site.position("Out@GRAD"), site.out_position("X@GRAD"), grad, inverse);
}

BoundKernel slice_forward(const KernelSite& site, bool strided) {
  const Part part = sliced(site, strided);
  return take(site.position("Input"), site.out_position("Out"), site.in("Input"), part.shape,
              part.steps, part.start);
}

// A part of a whole that is zero elsewhere.
BoundKernel slice_backward(const KernelSite& site, bool strided) {
  const Part part = sliced(site, strided);
  const ValueInfo& whole = site.in("Input");
  const std::string type = bits_text(whole.dtype);
  const Launch clear = pointwise(whole.shape, {}, cat("((", type, "*)p.at[0])[at] = 0;\n"), 1);
  const Walked walk = walked(part.shape, {part.steps}, 2);
  const Launch put = pointwise(part.shape, {part.steps},
                               cat("((", type, "*)p.at[1])[(", walk.index, ")(o0 + (", walk.index,
                                   ")d.v[1])] = ((const ", type, "*)p.at[0])[at];\n"),
                               2, {part.start});
  const int from = site.position("Out@GRAD"), to = site.out_position("Input@GRAD");
  return on_queue([=](const KernelArgs& k) {
    launch(clear, {k.out(to).address()}, *k.queue);
    launch(put, {k.in(from).address(), k.out(to).address()}, *k.queue);
  });
}

// ---- tensors side by side

// Rows of `width` elements of one piece, and where they stand in rows of the whole.
struct Piece {
  int64_t rows, width, total, offset;
};

Launch piece_launch(const Piece& piece, DType dtype, bool cut) {
  const std::string type = bits_text(dtype);
  const std::string whole = "at / d.v[1] * d.v[2] + d.v[3] + at % d.v[1]";
  return pointwise(
      Shape{piece.rows, piece.width}, {},
      cut ? cat("((", type, "*)p.at[1])[at] = ((const ", type, "*)p.at[0])[", whole, "];\n")
          : cat("((", type, "*)p.at[1])[", whole, "] = ((const ", type, "*)p.at[0])[at];\n"),
      2, {piece.width, piece.total, piece.offset});
}

// `shape(i)`: of piece i, cut at `axis` into rows and what a row holds.
template <class F>
std::vector<Launch> pieces(size_t count, int axis, DType dtype, bool cut, const F& shape) {
  std::vector<Piece> all;
  int64_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    const Shape& own = shape(i);
    all.push_back({.rows = own.product(0, axis).value(),
                   .width = own.product(axis, own.rank()).value(),
                   .offset = total});
    total += all.back().width;
  }
  std::vector<Launch> launches;
  for (Piece& piece : all) {
    piece.total = total;
    if (piece.width == 0) piece.rows = 0;
    launches.push_back(piece_launch(piece, dtype, cut));
  }
  return launches;
}

BoundKernel join(std::vector<Launch> launches, int first_in, int to) {
  return on_queue([=, launches = std::move(launches)](const KernelArgs& k) {
    for (size_t i = 0; i < launches.size(); ++i) {
      const int from = first_in + static_cast<int>(i);
      launch(launches[i], {k.in(from).address(), k.out(to).address()}, *k.queue);
    }
  });
}

BoundKernel cut(std::vector<Launch> launches, int from, int first_out) {
  return on_queue([=, launches = std::move(launches)](const KernelArgs& k) {
    for (size_t i = 0; i < launches.size(); ++i) {
      const int to = first_out + static_cast<int>(i);
      if (!k.has_out(to)) continue;
      launch(launches[i], {k.in(from).address(), k.out(to).address()}, *k.queue);
    }
  });
}

std::vector<Launch> input_pieces(const KernelSite& site, bool cut) {
  const int axis = joining_axis(site, site.in("X").shape.rank());
  return pieces(site.count("X"), axis, site.in("X").dtype, cut,
                [&](size_t i) -> const Shape& { return site.in("X", i).shape; });
}

BoundKernel split_forward(const KernelSite& site) {
  const ValueInfo& x = site.in("X");
  const int axis = joining_axis(site, x.shape.rank());
  return cut(pieces(site.out_count("Out"), axis, x.dtype, true,
                    [&](size_t i) -> const Shape& { return site.out("Out", i).shape; }),
             site.position("X"), 0);
}

// Pieces of `whole` along an axis that they do not have.
std::vector<Launch> stacked_pieces(const KernelSite& site, size_t count, const ValueInfo& whole,
                                   bool cut) {
  const int axis = stack_axis(site, whole.shape.rank());
  Shape piece = whole.shape;
  piece.erase(axis);
  return pieces(count, axis, whole.dtype, cut, [&](size_t) -> const Shape& { return piece; });
}

BoundKernel stacked(const KernelSite& site, const char* from, const ValueInfo& whole) {
  return join(stacked_pieces(site, site.count(from), whole, false), site.position(from), 0);
}

BoundKernel unstacked(const KernelSite& site, const char* from, const char* to) {
  return cut(stacked_pieces(site, site.out_count(to), site.in(from), true), site.position(from), 0);
}

void add_joins(DeviceKernels& kernels) {
  add_to(kernels, "concat", "generated", untyped([](const KernelSite& site) {
           return join(input_pieces(site, false), site.position("X"), site.out_position("Out"));
         }),
         Halves::taken);
  add_to(kernels, "concat_grad", "generated", untyped([](const KernelSite& site) {
           return cut(input_pieces(site, true), site.position("Out@GRAD"), 0);
         }),
         Halves::taken);
  add_to(kernels, "split", "generated", untyped(split_forward), Halves::taken);
  add_to(kernels, "stack", "generated",
         untyped([](const KernelSite& site) { return stacked(site, "X", site.out("Y")); }),
         Halves::taken);
  add_to(kernels, "stack_grad", "generated",
         untyped([](const KernelSite& site) { return unstacked(site, "Y@GRAD", "X@GRAD"); }),
         Halves::taken);
  add_to(kernels, "unstack", "generated",
         untyped([](const KernelSite& site) { return unstacked(site, "X", "Y"); }), Halves::taken);
  add_to(kernels, "unstack_grad", "generated", untyped([](const KernelSite& site) {
           return stacked(site, "Y@GRAD", site.out("X@GRAD"));
         }),
         Halves::taken);
}

// ---- repeats

// Text that finds the place in `narrow` of place `at` in `wide`; numbers from d.v[first] on.
struct RepeatText {
  std::string text = "uint64 left = at, from = 0;\n";
  std::vector<int64_t> numbers;

  RepeatText(const Shape& wide, const Shape& narrow, size_t first) {
    const Strides steps = strides_of(narrow);
    const auto number = [&](int64_t value) {
      numbers.push_back(value);
      return cat("(uint64)d.v[", first + numbers.size() - 1, "]");
    };
    for (int d = wide.rank() - 1; d >= 0; --d) {
      const std::string all = number(wide.at(d)), own = number(narrow.at(d));
      text += cat("from += left % ", all, " % ", own, " * ", number(steps[static_cast<size_t>(d)]),
                  "; left /= ", all, ";\n");
    }
  }
};

BoundKernel expand_forward(const KernelSite& site) {
  const Shape &x = site.in("X").shape, &out = site.out("Out").shape;
  const std::string type = bits_text(site.in("X").dtype);
  const RepeatText repeat(out, x, 1);
  const std::string body =
      cat(repeat.text, "((", type, "*)p.at[1])[at] = ((const ", type, "*)p.at[0])[from];\n");
  const int from = site.position("X"), to = site.out_position("Out");
  return on_queue(pointwise(out, {}, body, 2, repeat.numbers), [=](const KernelArgs& k) {
    return AddressList{k.in(from).address(), k.out(to).address()};
  });
}

// A thread for each element of X adds up its repeats, in their order.
std::optional<BoundKernel> expand_backward(const KernelSite& site, std::string* why_not) {
  const ValueInfo& grad = site.in("Out@GRAD");
  if (grad.dtype != DType::float32 && grad.dtype != DType::float64) {
    if (why_not) *why_not = cat("no kernel for ", name_of(grad.dtype));
    return std::nullopt;
  }
  const Shape &x = site.out("X@GRAD").shape, &wide = grad.shape;
  const Strides steps = strides_of(wide);
  const std::string type = type_text(grad.dtype);
  std::vector<int64_t> numbers;
  const auto number = [&](int64_t value) {
    numbers.push_back(value);
    return cat("d.v[", numbers.size(), "]");
  };
  std::string base = "int64 left = at, base = 0;\n", loops, add = "base", ends;
  for (int d = x.rank() - 1; d >= 0; --d) {
    const auto step = steps[static_cast<size_t>(d)];
    const std::string extent = number(x.at(d));
    base += cat("base += left % ", extent, " * ", number(step), "; left /= ", extent, ";\n");
  }
  for (int d = 0; d < x.rank(); ++d) {
    const int64_t extent = x.at(d), times = extent == 0 ? 0 : wide.at(d) / extent;
    if (times == 1) continue;
    loops += cat("for (int64 t", d, " = 0; t", d, " < ", number(times), "; ++t", d, ")\n");
    add += cat(" + t", d, " * ", number(extent * steps[static_cast<size_t>(d)]));
  }
  const std::string body = cat(base, type, " sum = 0;\n", loops, "sum += ((const ", type,
                               "*)p.at[0])[", add, "];\n((", type, "*)p.at[1])[at] = sum;\n");
  const int from = site.position("Out@GRAD"), to = site.out_position("X@GRAD");
  return on_queue(pointwise(x, {}, body, 2, numbers), [=](const KernelArgs& k) {
    return AddressList{k.in(from).address(), k.out(to).address()};
  });
}

}  // namespace

void add_shapes(DeviceKernels& kernels) {
  add_renamings(kernels);
  for (const std::string type : {"transpose", "transpose2"}) {
    add_to(kernels, type, "generated", untyped(transpose_forward), Halves::taken);
    add_to(kernels, type + "_grad", "generated", untyped(transpose_backward), Halves::taken);
  }
  for (const bool strided : {false, true}) {
    const std::string type = strided ? "strided_slice" : "slice";
    add_to(kernels, type, "generated",
           untyped([strided](const KernelSite& site) { return slice_forward(site, strided); }),
           Halves::taken);
    add_to(kernels, type + "_grad", "generated",
           untyped([strided](const KernelSite& site) { return slice_backward(site, strided); }),
           Halves::taken);
  }
  add_joins(kernels);
  add_to(kernels, "expand", "generated", untyped(expand_forward), Halves::taken);
  add_to(kernels, "expand_grad", "generated", expand_backward);
}

}  // namespace trireme::cuda
