// row_conv: each row of a sequence with the rows after it, column by column. The sequences are
// those of a LoD, or equally long ones of a padded batch.
#include <algorithm>

#include "ops/sequence/sequence_rules.h"

namespace trireme {
namespace {

void row_conv_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  const Shape& filter = op.in("Filter").shape;
  const int rank = x.shape.rank();
  if (rank != 3) sequence_offsets(op, "X");
  if (rank < 2 || rank > 3 || filter.rank() != 2 || !filter[1].may_equal(x.shape[rank - 1])) {
    throw op.error(cat("X has shape ", x.shape, " and Filter ", filter))
        .fix("give X [rows, width] or [batch, rows, width] and Filter [rows ahead + 1, width]");
  }
  op.set_out_like("Out", x);
}

// Where sequences begin and end among the rows of X.
std::vector<int64_t> row_offsets(const KernelSite& site) {
  const Shape& x = site.in("X").shape;
  if (x.rank() != 3) return bound_offsets(site, "X");
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i <= x.at(0); ++i) offsets.push_back(i * x.at(1));
  return offsets;
}

// Calls visit(row, ahead) for every row and every row of its sequence that Filter reaches from it.
template <class F>
void for_each_reach(const std::vector<int64_t>& offsets, int64_t length, F visit) {
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    for (int64_t row = offsets[s]; row < offsets[s + 1]; ++row) {
      const int64_t reach = std::min(length, offsets[s + 1] - row);
      for (int64_t ahead = 0; ahead < reach; ++ahead) visit(row, ahead);
    }
  }
}

template <class T>
BoundKernel row_conv(const KernelSite& site) {
  const int64_t width = site.in("Filter").shape.at(1), length = site.in("Filter").shape.at(0);
  const int x_at = site.position("X"), filter_at = site.position("Filter");
  return [=, offsets = row_offsets(site)](const KernelArgs& k) {
    const T *x = k.in<T>(x_at), *filter = k.in<T>(filter_at);
    T* out = k.out<T>(0);
    std::fill_n(out, k.out(0).numel(), T{0});
    for_each_reach(offsets, length, [&](int64_t row, int64_t ahead) {
      for (int64_t j = 0; j < width; ++j) {
        out[row * width + j] += x[(row + ahead) * width + j] * filter[ahead * width + j];
      }
    });
  };
}

template <class T>
BoundKernel row_conv_grad(const KernelSite& site) {
  const int64_t width = site.in("Filter").shape.at(1), length = site.in("Filter").shape.at(0);
  const int x_at = site.position("X"), filter_at = site.position("Filter");
  const int grad_at = site.position("Out@GRAD");
  const int dx_at = site.out_position("X@GRAD"), dfilter_at = site.out_position("Filter@GRAD");
  return [=, offsets = row_offsets(site)](const KernelArgs& k) {
    const T *x = k.in<T>(x_at), *filter = k.in<T>(filter_at), *grad = k.in<T>(grad_at);
    T* dx = k.has_out(dx_at) ? k.out<T>(dx_at) : nullptr;
    T* dfilter = k.has_out(dfilter_at) ? k.out<T>(dfilter_at) : nullptr;
    if (dx) std::fill_n(dx, k.out(dx_at).numel(), T{0});
    if (dfilter) std::fill_n(dfilter, length * width, T{0});
    for_each_reach(offsets, length, [&](int64_t row, int64_t ahead) {
      for (int64_t j = 0; j < width; ++j) {
        const T g = grad[row * width + j];
        if (dx) dx[(row + ahead) * width + j] += g * filter[ahead * width + j];
        if (dfilter) dfilter[ahead * width + j] += g * x[(row + ahead) * width + j];
      }
    });
  };
}

}  // namespace

void register_row_conv(Registry& ops) {
  ops.op("row_conv")
      .doc("Out[t] = X[t] Filter[0] + X[t + 1] Filter[1] + ..., as far as the sequence goes")
      .in("X", "[rows, width] in sequences, or [batch, rows, width]")
      .in("Filter", "[rows ahead + 1, width]: a factor for every column of every row")
      .out("Out", "like X")
      .shape(row_conv_shape)
      .kernel(typed<float, double>([]<class T>(const KernelSite& s) { return row_conv<T>(s); }))
      .grad({"X", "Filter"})
      .grad_kernel(
          typed<float, double>([]<class T>(const KernelSite& s) { return row_conv_grad<T>(s); }))
      .sample([](Draw& draw) {
        const int64_t width = draw.size(1, 3);
        const int64_t rows = draw.size(1, 4);
        return OpSample{.inputs = {{"X", {draw.uniform({draw.size(1, 3), rows, width})}},
                                   {"Filter", {draw.uniform({draw.size(1, 4), width})}}}};
      })
      .sample([](Draw& draw) {
        const int64_t width = draw.size(1, 3);
        return OpSample{.inputs = {{"X", {draw_sequences(draw, {width})}},
                                   {"Filter", {draw.uniform({draw.size(1, 4), width})}}}};
      });
}

}  // namespace trireme
