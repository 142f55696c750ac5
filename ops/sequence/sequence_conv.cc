// sequence_conv: each row with its neighbours inside the sequence, times a filter.
#include <algorithm>

#include "cpu/gemm_kernel.h"
#include "cpu/vectorised.h"
#include "ops/sequence/sequence_rules.h"

namespace trireme {
namespace {

// Row t of a sequence sees rows t + start, ..., t + start + length - 1. Those before the sequence
// come from the first `up` rows of PaddingData, those after it from the `down` rows that follow;
// without trainable padding they are zeros.
struct Context {
  int64_t start = 0, length = 1;
  bool trainable = false;

  explicit Context(const OpView& op)
      : start(op.attr<int>("contextStart")),
        length(op.attr<int>("contextLength")),
        trainable(op.attr<bool>("paddingTrainable")) {}
  int64_t up() const { return std::max<int64_t>(0, -start); }
  int64_t down() const { return std::max<int64_t>(0, start + length - 1); }
};

void conv_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  const Shape& filter = op.in("Filter").shape;
  const Context context(op);
  sequence_offsets(op, "X");
  if (op.attr<int>("contextStride") != 1) {
    throw Error(ErrorKind::unimplemented,
                cat("contextStride is ", op.attr<int>("contextStride"), " but only 1 is supported"))
        .fix("leave filter_stride at 1");
  }
  if (x.shape.rank() != 2 || filter.rank() != 2) {
    throw op
        .error(
            cat("X has shape ", x.shape, " and Filter ", filter, " but both have two dimensions"))
        .fix("give X [rows, width] and Filter [contextLength * width, filters]");
  }
  if (!filter[0].may_equal(Dim(context.length) * x.shape[1])) {
    throw op
        .error(cat("Filter has ", filter[0], " rows but contextLength ", context.length,
                   " times the width ", x.shape[1], " of X is ", Dim(context.length) * x.shape[1]))
        .fix("give Filter the shape [contextLength * width, filters]");
  }
  if (context.trainable) {
    const Shape wanted = {context.up() + context.down(), x.shape[1]};
    if (!op.has("PaddingData") || !op.in("PaddingData").shape.may_equal(wanted)) {
      throw op
          .error(cat("paddingTrainable is set but PaddingData is ",
                     op.has("PaddingData") ? op.in("PaddingData").shape.to_string() : "absent"))
          .fix(cat("give PaddingData the shape ", wanted));
    }
  }
  op.set_out("Out", x.dtype, {x.shape[0], filter[1]});
  op.share_lod("X", "Out");
}

// Calls place(slot, source, padding) for the slots of unfolded rows [first, last), of which each
// has `length` of width elements: a slot holds row `source` of X, else row `padding` of
// PaddingData, else (both kNoRow) zeros.
template <class F>
void for_each_slot(const std::vector<int64_t>& offsets, const Context& context, int64_t first,
                   int64_t last, F place) {
  int64_t slot = first * context.length;
  auto next = std::upper_bound(offsets.begin(), offsets.end(), first);
  for (int64_t row = first; row < last; ++row) {
    while (*next <= row) ++next;
    const int64_t begin = *std::prev(next), end = *next;
    for (int64_t j = 0; j < context.length; ++j, ++slot) {
      const int64_t source = row + context.start + j;
      if (source >= begin && source < end) {
        place(slot, source, kNoRow);
      } else if (!context.trainable) {
        place(slot, kNoRow, kNoRow);
      } else {
        place(slot, kNoRow, context.up() + source - (source < begin ? begin : end));
      }
    }
  }
}

template <class T>
void add_row(const T* from, int64_t width, T* to) {
  vectorised([=] {
    for (int64_t j = 0; j < width; ++j) to[j] += from[j];
  });
}

// The rows of one site, cut by their number alone, and what is done with a part of them.
template <class T>
struct SequenceConv {
  std::vector<int64_t> offsets;
  Context context;
  int64_t rows, width, filters, window;  // window: contextLength * width
  int parts, pieces;                     // of the rows, and of the filter's rows

  explicit SequenceConv(const KernelSite& site)
      : offsets(bound_offsets(site, "X")),
        context(site),
        rows(site.in("X").shape.at(0)),
        width(site.in("X").shape.at(1)),
        filters(site.in("Filter").shape.at(1)),
        window(site.in("Filter").shape.at(0)),
        parts(static_cast<int>(std::clamp<int64_t>(rows / 64, 1, 8))),
        pieces(static_cast<int>(std::clamp<int64_t>(window / 64, 1, 8))) {}

  size_t unfolded_bytes() const { return static_cast<size_t>(rows * window) * sizeof(T); }

  // f(begin, end) for every part of `n` things, cut into `all`, that the call does.
  template <class F>
  static void each_part(const KernelArgs& k, int64_t n, int all, F f) {
    const auto [first, last] = k.range(all);
    for (int64_t i = first; i < last; ++i) f(n * i / all, n * (i + 1) / all);
  }

  void unfold(int64_t first, int64_t last, const T* x, const T* padding, T* to) const {
    for_each_slot(offsets, context, first, last, [&](int64_t slot, int64_t source, int64_t pad) {
      const T* from = source != kNoRow ? x + source * width
                      : pad != kNoRow  ? padding + pad * width
                                       : nullptr;
      if (from) {
        std::copy_n(from, width, to + slot * width);
      } else {
        std::fill_n(to + slot * width, width, T{0});
      }
    });
  }

  // What rows [first, last) of X get: of each row that sees them, in the rows' order.
  void fold(int64_t first, int64_t last, const T* unfolded, T* to) const {
    std::fill_n(to + first * width, (last - first) * width, T{0});
    auto next = std::upper_bound(offsets.begin(), offsets.end(), first);
    for (int64_t row = first; row < last; ++row) {
      while (*next <= row) ++next;
      for (int64_t j = context.length - 1; j >= 0; --j) {
        const int64_t sees = row - context.start - j;
        if (sees < *std::prev(next) || sees >= *next) continue;
        add_row(unfolded + (sees * context.length + j) * width, width, to + row * width);
      }
    }
  }

  void fold_padding(const T* unfolded, T* to) const {
    for_each_slot(offsets, context, 0, rows, [&](int64_t slot, int64_t, int64_t pad) {
      if (pad != kNoRow) add_row(unfolded + slot * width, width, to + pad * width);
    });
  }
};

template <class T>
BoundKernel conv(const KernelSite& site, Product<T> product) {
  const int x = site.position("X"), filter = site.position("Filter");
  const int padding = site.position("PaddingData"), out = site.out_position("Out");
  const SequenceConv<T> n(site);
  BoundKernel kernel(
      [=](const KernelArgs& k) {
        const T* pad = k.has_in(padding) ? k.in<T>(padding) : nullptr;
        T* unfolded = reinterpret_cast<T*>(k.scratch);
        n.each_part(k, n.rows, n.parts, [&](int64_t begin, int64_t end) {
          n.unfold(begin, end, k.in<T>(x), pad, unfolded);
          product(Gemm<T>{.m = n.rows,
                          .n = n.filters,
                          .k = n.window,
                          .a = unfolded,
                          .lda = n.window,
                          .b = k.in<T>(filter),
                          .ldb = n.filters,
                          .c = k.out<T>(out),
                          .ldc = n.filters}
                      .rows(begin, end));
        });
      },
      n.parts);
  kernel.scratch = n.unfolded_bytes();
  return kernel;
}

template <class T>
BoundKernel conv_grad(const KernelSite& site, Product<T> product) {
  const int x = site.position("X"), filter = site.position("Filter");
  const int padding = site.position("PaddingData"), dout = site.position("Out@GRAD");
  const int dx = site.out_position("X@GRAD"), dfilter = site.out_position("Filter@GRAD");
  const int dpadding = site.out_position("PaddingData@GRAD");
  const SequenceConv<T> n(site);
  BoundKernel kernel;
  kernel.scratch = n.unfolded_bytes();
  if (dfilter >= 0) {
    kernel.add(
        [=](const KernelArgs& k) {
          const T* pad = k.has_in(padding) ? k.in<T>(padding) : nullptr;
          n.each_part(k, n.rows, n.parts, [&](int64_t begin, int64_t end) {
            n.unfold(begin, end, k.in<T>(x), pad, reinterpret_cast<T*>(k.scratch));
          });
        },
        n.parts);
    kernel.add(
        [=](const KernelArgs& k) {
          n.each_part(k, n.window, n.pieces, [&](int64_t begin, int64_t end) {
            product(Gemm<T>{.m = n.window,
                            .n = n.filters,
                            .k = n.rows,
                            .a = reinterpret_cast<const T*>(k.scratch),
                            .lda = n.window,
                            .trans_a = true,
                            .b = k.in<T>(dout),
                            .ldb = n.filters,
                            .c = k.out<T>(dfilter),
                            .ldc = n.filters}
                        .rows(begin, end));
          });
        },
        n.pieces);
  }
  if (dx < 0 && dpadding < 0) return kernel;
  kernel.add(
      [=](const KernelArgs& k) {
        n.each_part(k, n.rows, n.parts, [&](int64_t begin, int64_t end) {
          product(Gemm<T>{.m = n.rows,
                          .n = n.window,
                          .k = n.filters,
                          .a = k.in<T>(dout),
                          .lda = n.filters,
                          .b = k.in<T>(filter),
                          .ldb = n.filters,
                          .trans_b = true,
                          .c = reinterpret_cast<T*>(k.scratch),
                          .ldc = n.window}
                      .rows(begin, end));
        });
      },
      n.parts);
  kernel.add(
      [=](const KernelArgs& k) {
        const T* unfolded = reinterpret_cast<const T*>(k.scratch);
        if (dx >= 0) {
          n.each_part(k, n.rows, n.parts, [&](int64_t begin, int64_t end) {
            n.fold(begin, end, unfolded, k.out<T>(dx));
          });
        }
        if (dpadding < 0 || k.part > 0) return;
        std::fill_n(k.out<T>(dpadding), k.out(dpadding).numel(), T{0});
        n.fold_padding(unfolded, k.out<T>(dpadding));
      },
      n.parts);
  return kernel;
}

OpSample conv_sample(Draw& draw, bool trainable) {
  OpSample sample;
  const int64_t width = draw.size(1, 3), start = draw.size(-2, 1), length = draw.size(1, 3);
  sample.inputs["X"] = {draw_sequences(draw, {width}, {.levels = draw.coin() ? 1 : 2})};
  sample.inputs["Filter"] = {draw.uniform({length * width, draw.size(1, 3)})};
  sample.attrs["contextStart"] = static_cast<int>(start);
  sample.attrs["contextLength"] = static_cast<int>(length);
  const int64_t pads = std::max<int64_t>(0, -start) + std::max<int64_t>(0, start + length - 1);
  if (trainable && pads > 0) {
    sample.inputs["PaddingData"] = {draw.uniform({pads, width})};
    sample.attrs["paddingTrainable"] = true;
  }
  return sample;
}

}  // namespace

void register_sequence_conv(Registry& ops) {
  const auto forward = []<class T>(const KernelSite& site, Product<T> product) {
    return conv<T>(site, product);
  };
  const auto backward = []<class T>(const KernelSite& site, Product<T> product) {
    return conv_grad<T>(site, product);
  };
  ops.op("sequence_conv")
      .doc(
          "Row t of Out is rows t + contextStart, ..., t + contextStart + contextLength - 1 of "
          "the same sequence, side by side, times Filter")
      .in("X", "[rows, width] in sequences")
      .in_optional("PaddingData", "rows that stand before and after every sequence, when trainable")
      .in("Filter", "[contextLength * width, filters]")
      .out("Out", "[rows, filters], the LoD of X")
      .attr("paddingTrainable", false, "neighbours outside the sequence come from PaddingData")
      .required_attr<int>("contextLength", "how many rows are seen")
      .at_least(1)
      .attr("contextStart", 0, "the first row seen, counted from the row itself")
      .attr("contextStride", 1, "only 1")
      .shape(conv_shape)
      .kernel(with_onednn(forward), "onednn")
      .kernel(with_blas(forward), "blas")
      .kernel(with_reference(forward))
      .grad({"PaddingData", "X", "Filter"})
      .grad_kernel(with_onednn(backward), "onednn")
      .grad_kernel(with_blas(backward), "blas")
      .grad_kernel(with_reference(backward))
      .sample([](Draw& draw) { return conv_sample(draw, false); })
      .sample([](Draw& draw) { return conv_sample(draw, true); });
}

}  // namespace trireme
