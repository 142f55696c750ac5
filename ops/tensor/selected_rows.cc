// Ops on SelectedRows: merge_selected_rows, get_tensor_from_selected_rows, clip_by_norm,
// split_selected_rows.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "ir/schema.h"
#include "ops/tensor/row_order.h"

namespace trireme {
namespace {

void require_selected_rows(const OpView& op) {
  const ValueInfo& x = op.in("X");
  if (x.known && x.type != VarType::selected_rows) {
    throw op.error(cat("X is ", name_of(x.type), " but must be SELECTED_ROWS"))
        .fix("give the gradient of an embedding built with is_sparse=True");
  }
}

const SelectedRows* rows_value(const ValueInfo& info) {
  return info.value ? &info.value->rows() : nullptr;
}

void merge_shape(OpView& op) {
  require_selected_rows(op);
  op.set_out_like("Out", op.in("X"));
  if (op.out("Out").shape.rank() == 0) return;
  op.out("Out").shape[0] = Dim();
  if (const SelectedRows* x = rows_value(op.in("X"))) {
    const std::set<int64_t> rows(x->rows.begin(), x->rows.end());
    op.out("Out").shape[0] = static_cast<int64_t>(rows.size());
  }
}

template <class T>
KernelFn merge_kernel(const KernelSite&) {
  return [](const KernelArgs& k) {
    const SelectedRows& x = std::as_const(*k.ins[0]).rows();
    SelectedRows& out = k.outs[0]->rows();
    out.height = x.height;
    out.rows.clear();
    if (x.rows.empty()) return;
    const int64_t width = x.value.numel() / static_cast<int64_t>(x.rows.size());
    const T* from = x.value.data<T>();
    T* sum = out.value.data<T>();
    for_each_distinct_row(x, [&](std::span<const PlacedRow> places) {
      out.rows.push_back(places.front().row);
      std::copy_n(from + places.front().place * width, width, sum);
      for (const PlacedRow& named : places.subspan(1)) {
        for (int64_t j = 0; j < width; ++j) sum[j] += from[named.place * width + j];
      }
      sum += width;
    });
  };
}

// Of other element types, half ones are summed in float32.
BoundKernel merge_any_type(const KernelSite&) {
  return BoundKernel([](const KernelArgs& k) {
    SelectedRows merged = merge_rows(std::as_const(*k.ins[0]).rows());
    SelectedRows& out = k.outs[0]->rows();
    out.rows = std::move(merged.rows);
    out.height = merged.height;
    if (!out.rows.empty()) {
      std::memcpy(out.value.address(), merged.value.address(), merged.value.byte_size());
    }
  });
}

BoundKernel value_kernel(const KernelSite&) {
  return BoundKernel([](const KernelArgs& k) {
    const Tensor& value = std::as_const(*k.ins[0]).rows().value;
    const size_t bytes = k.out(0).byte_size();
    if (bytes > 0) std::memcpy(k.out(0).address(), value.address(), bytes);
  });
}

void clip_body(Body& b) {
  const Expr x = b.in("X");
  const double most = b.attr<float>("max_norm");
  const Expr norm = sqrt(reduce_sum(square(x)));
  const Expr scale = select(greater(norm, most), most / norm, full_like(norm, 1));
  b.out("Out") = x * scale;
}

// A row named twice is the sum of its values: the norm is that of the merged rows, while the rows
// themselves are scaled as they stand.
template <class T>
KernelFn clip_sparse(const KernelSite& site) {
  const auto most = static_cast<T>(site.attr<float>("max_norm"));
  return [=](const KernelArgs& k) {
    const SelectedRows& x = std::as_const(*k.ins[0]).rows();
    SelectedRows& out = k.outs[0]->rows();
    out.rows = x.rows;
    out.height = x.height;
    if (x.rows.empty()) return;
    const int64_t width = x.value.numel() / static_cast<int64_t>(x.rows.size());
    const T* value = x.value.data<T>();
    T squares = 0;
    for_each_distinct_row(x, [&](std::span<const PlacedRow> places) {
      for (int64_t j = 0; j < width; ++j) {
        T sum = value[places.front().place * width + j];
        for (const PlacedRow& named : places.subspan(1)) sum += value[named.place * width + j];
        squares += sum * sum;
      }
    });
    const T norm = std::sqrt(squares);
    const T scale = norm > most ? most / norm : T{1};
    std::transform(x.value.data<T>(), x.value.data<T>() + x.value.numel(), out.value.data<T>(),
                   [=](T v) { return v * scale; });
  };
}

KernelMake sparse_only(KernelMake make) {
  return [make](const KernelSite& site, std::string* why_not) -> std::optional<BoundKernel> {
    if (site.in("X").type == VarType::selected_rows) return make(site, why_not);
    if (why_not) *why_not = "X is dense";
    return std::nullopt;
  };
}

// Part i keeps the rows of section i of the height, counted from the section's start.
void split_rows_shape(OpView& op) {
  require_selected_rows(op);
  const auto sections = op.attr<std::vector<int64_t>>("height_sections");
  if (sections.size() != op.out_count("Out")) {
    throw op
        .error(
            cat("height_sections has ", sections.size(), " entries but Out ", op.out_count("Out")))
        .fix("give one section for every output");
  }
  const SelectedRows* x = rows_value(op.in("X"));
  int64_t begin = 0;
  for (size_t i = 0; i < sections.size(); ++i) {
    ValueInfo& out = op.out("Out", i);
    const std::string name = out.name;
    out = op.in("X");
    out.name = name;
    out.value = nullptr;
    out.height = sections[i];
    if (out.shape.rank() > 0) out.shape[0] = Dim();
    if (x) {
      out.shape[0] = std::ranges::count_if(
          x->rows, [&](int64_t row) { return row >= begin && row < begin + sections[i]; });
    }
    begin += sections[i];
  }
  if (!x) return;
  for (const int64_t row : x->rows) {
    if (row < 0 || row >= begin) {
      throw op.error(cat("X names row ", row, " but the sections end at ", begin))
          .fix("give height_sections that add up to the table's height");
    }
  }
}

BoundKernel split_kernel(const KernelSite& site) {
  const auto sections = site.attr<std::vector<int64_t>>("height_sections");
  return BoundKernel([=](const KernelArgs& k) {
    const SelectedRows& x = std::as_const(*k.ins[0]).rows();
    const size_t row_bytes = x.rows.empty() ? 0 : x.value.byte_size() / x.rows.size();
    int64_t begin = 0;
    for (size_t i = 0; i < sections.size(); ++i) {
      SelectedRows& out = k.outs[i]->rows();
      out.height = sections[i];
      out.rows.clear();
      auto* to = static_cast<std::byte*>(out.value.address());
      const auto* from = static_cast<const std::byte*>(x.value.address());
      for (size_t r = 0; r < x.rows.size(); ++r) {
        const int64_t row = x.rows[r] - begin;
        if (row < 0 || row >= sections[i]) continue;
        std::memcpy(to + out.rows.size() * row_bytes, from + r * row_bytes, row_bytes);
        out.rows.push_back(row);
      }
      begin += sections[i];
    }
  });
}

}  // namespace

void register_selected_rows(Registry& ops) {
  ops.op("merge_selected_rows")
      .doc("Adds up the rows that are named more than once; the rows come out ascending")
      .in("X", "SelectedRows")
      .out("Out", "SelectedRows, every row once")
      .shape(merge_shape)
      .kernel(typed<float, double>([]<class T>(const KernelSite& s) { return merge_kernel<T>(s); }))
      .kernel(untyped(merge_any_type), "any_type")
      .traits({.reads_values = {"X"}});

  ops.op("get_tensor_from_selected_rows")
      .doc("The value of SelectedRows as a tensor: one row for every named row")
      .in("X", "SelectedRows")
      .out("Out", "tensor, [named rows, ...]")
      .shape([](OpView& op) {
        require_selected_rows(op);
        op.set_out("Out", op.in("X").dtype, op.in("X").shape);
      })
      .kernel(untyped(value_kernel));

  ops.op("clip_by_norm")
      .doc("X scaled down to the norm max_norm where it is longer")
      .in("X", "a tensor or SelectedRows")
      .out("Out", "like X")
      .required_attr<float>("max_norm", "the largest norm; above 0")
      .shape([](OpView& op) {
        if (!(op.attr<float>("max_norm") > 0)) {
          throw op.error(cat("max_norm is ", op.attr<float>("max_norm"), " but must be above 0"))
              .fix("give a positive max_norm");
        }
        op.set_out_like("Out", op.in("X"));
      })
      .body(clip_body)
      .kernel(sparse_only(typed<float, double>(
                  []<class T>(const KernelSite& site) { return clip_sparse<T>(site); })),
              "sparse")
      .inplace("X", "Out")
      .sample([](Draw& draw) {
        OpSample sample;
        sample.inputs["X"] = {draw.uniform(draw.shape(1, 3))};
        sample.attrs["max_norm"] = draw.coin() ? 0.25f : 100.0f;
        return sample;
      });

  ops.op("split_selected_rows")
      .doc("Cuts SelectedRows into parts by the sections of its height")
      .in("X", "SelectedRows")
      .out_list("Out", "one SelectedRows for every section, rows counted from its start")
      .attr("height_sections", std::vector<int64_t>{}, "the height of every part")
      .shape(split_rows_shape)
      .kernel(untyped(split_kernel))
      .traits({.reads_values = {"X"}});
}

}  // namespace trireme
