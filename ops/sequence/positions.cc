// Rows by their place in a sequence: add_position_encoding, sequence_scatter.
#include <cmath>

#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/sequence/sequence_rules.h"
#include "ops/tensor/indices.h"

namespace trireme {
namespace {

// ---- add_position_encoding

void encoding_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  require_floating(op, "X");
  const Dim width = x.shape.rank() == 2 || x.shape.rank() == 3 ? x.shape.back() : Dim(1);
  if (width.known() && (width.value() < 2 || width.value() % 2 != 0)) {
    throw op.error(cat("X has shape ", x.shape))
        .fix("give [batch, time, width], or sequences of [rows, width], width even");
  }
  op.set_out_like("Out", x);
}

// Column c of the first half has sin(place / 10000^(c / (half - 1))), of the second half the cos.
template <class T>
BoundKernel encode_positions(const KernelSite& site) {
  const ValueInfo& x = site.in("X");
  const bool padded = x.shape.rank() == 3;
  const int64_t width = x.shape.back().value(), rows = x.shape.count() / width, half = width / 2;
  std::vector<int64_t> place(static_cast<size_t>(rows));
  if (padded) {
    for (int64_t row = 0; row < rows; ++row) place[static_cast<size_t>(row)] = row % x.shape.at(1);
  } else {
    const auto ends = bound_offsets(site, "X");
    for (size_t n = 0; n + 1 < ends.size(); ++n) {
      for (int64_t row = ends[n]; row < ends[n + 1]; ++row) {
        place[static_cast<size_t>(row)] = row - ends[n];
      }
    }
  }
  const auto alpha = static_cast<T>(site.attr<float>("alpha"));
  const auto beta = static_cast<T>(site.attr<float>("beta"));
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(rows);
        for (int64_t row = begin; row < end; ++row) {
          const T* from = k.in<T>(0) + row * width;
          T* to = k.out<T>(0) + row * width;
          for (int64_t c = 0; c < half; ++c) {
            const double power =
                half > 1 ? static_cast<double>(c) / static_cast<double>(half - 1) : 1.0;
            const double angle =
                static_cast<double>(place[static_cast<size_t>(row)]) / std::pow(10000.0, power);
            to[c] = from[c] * alpha + static_cast<T>(std::sin(angle)) * beta;
            to[half + c] = from[half + c] * alpha + static_cast<T>(std::cos(angle)) * beta;
          }
        }
      },
      parts_for(rows * width * 16));
}

// ---- sequence_scatter

void seq_scatter_shape(OpView& op) {
  const ValueInfo &x = op.in("X"), &ids = op.in("Ids"), &updates = op.in("Updates");
  require_index(op, "Ids");
  const Dim count = ids.shape.numel();
  if (x.shape.rank() != 2 || !updates.shape.numel().may_equal(count)) {
    throw op
        .error(cat("X has shape ", x.shape, ", Ids ", ids.shape, " and Updates ", updates.shape))
        .fix("give X [rows, columns], and an id for every update");
  }
  op.set_out_like("Out", x);
}

std::vector<int64_t> updates_of_rows(const KernelSite& site) {
  const auto ends = bound_offsets(site, "Ids");
  const int64_t rows = site.in("X").shape.at(0);
  if (static_cast<int64_t>(ends.size()) == rows + 1) return ends;
  throw site.error(cat("X has ", rows, " rows but Ids ", ends.size() - 1, " sequences"))
      .fix("give Ids a sequence for every row of X");
}

template <class T>
BoundKernel seq_scatter(const KernelSite& site) {
  const auto ends = updates_of_rows(site);
  const int64_t columns = site.in("X").shape.at(1), count = site.in("X").shape.count();
  const int x_at = site.position("X"), id_at = site.position("Ids");
  const int update_at = site.position("Updates");
  return [=](const KernelArgs& k) {
    const Indices ids(k.in(id_at), "Ids");
    T* out = k.out<T>(0);
    if (out != k.in<T>(x_at)) std::copy_n(k.in<T>(x_at), count, out);
    for (size_t row = 0; row + 1 < ends.size(); ++row) {
      for (int64_t i = ends[row]; i < ends[row + 1]; ++i) {
        out[static_cast<int64_t>(row) * columns + ids.checked(i, columns)] += k.in<T>(update_at)[i];
      }
    }
  };
}

template <class T>
BoundKernel seq_scatter_grad(const KernelSite& site) {
  const auto ends = updates_of_rows(site);
  const Shape shape = site.in("X").shape;
  const int64_t columns = shape.at(1), count = shape.count();
  const int id_at = site.position("Ids"), grad_at = site.position("Out@GRAD");
  const int x_grad = site.out_position("X@GRAD"), update_grad = site.out_position("Updates@GRAD");
  return [=](const KernelArgs& k) {
    const Indices ids(k.in(id_at), "Ids");
    const T* grad = k.in<T>(grad_at);
    if (k.has_out(x_grad)) std::copy_n(grad, count, k.out<T>(x_grad));
    if (!k.has_out(update_grad)) return;
    for (size_t row = 0; row + 1 < ends.size(); ++row) {
      for (int64_t i = ends[row]; i < ends[row + 1]; ++i) {
        k.out<T>(update_grad)[i] =
            grad[static_cast<int64_t>(row) * columns + ids.checked(i, columns)];
      }
    }
  };
}

}  // namespace

void register_positions(Registry& ops) {
  ops.op("add_position_encoding")
      .doc("X and, beside it, waves of its rows' places")
      .in("X", "[batch, time, width], or [rows, width] in sequences; width even")
      .out("Out", "alpha * X + beta * waves")
      .attr("alpha", 1.0f, "weight of X")
      .attr("beta", 1.0f, "weight of the waves")
      .shape(encoding_shape)
      .kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return encode_positions<T>(site); }))
      .grad({})
      .grad_shape([](OpView& op) { op.set_out_like("X@GRAD", op.in("Out@GRAD")); })
      .grad_body([](Body& b) { b.out("X@GRAD") = b.in("Out@GRAD") * b.attr<float>("alpha"); })
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({2, 3, 4})}}}, .attrs = {{"alpha", 0.7f}}};
      })
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {draw_sequences(d, {6})}}}};
      });
  ops.op("sequence_scatter")
      .doc("X with updates added in the columns that ids name, a sequence of them for each row")
      .in("X", "[rows, columns]")
      .in("Ids", "[n, 1]: columns; a sequence for each row")
      .in("Updates", "[n, 1]: what is added")
      .out("Out", "like X")
      .shape(seq_scatter_shape)
      .kernel(typed_by<float, double, int32_t, int64_t>(
          "X", []<class T>(const KernelSite& site) { return seq_scatter<T>(site); }))
      .grad({"X", "Ids", "Updates"})
      .no_grad({"Ids"})
      .grad_kernel(typed_by<float, double>(
          "X", []<class T>(const KernelSite& site) { return seq_scatter_grad<T>(site); }))
      .sample([](Draw& d) {
        Tensor updates = draw_sequences(d, {1});
        Tensor ids = d.ints(updates.shape(), 0, 3);
        ids.set_lod(updates.lod());
        return OpSample{
            .inputs = {{"X", {d.uniform({3, 4})}}, {"Ids", {ids}}, {"Updates", {updates}}}};
      });
}

}  // namespace trireme
