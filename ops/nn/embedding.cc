// Embedding tables: lookup_table (Ids end in a dimension of 1) and lookup_table_v2 (they do not).
// The table's gradient is dense, or with is_sparse the rows that were looked up.
#include <algorithm>

#include "cpu/vectorised.h"
#include "ir/schema.h"
#include "ops/rules.h"

namespace trireme {
namespace {

// The `padding_idx` that means there is none.
constexpr int64_t kNoPadding = -1;

// Ids as [n]: the trailing 1 of lookup_table does not count.
Shape ids_shape(const OpView& op, bool ids_end_in_one) {
  Shape ids = op.in("Ids").shape;
  if (!ids_end_in_one) return ids;
  if (ids.rank() < 1 || !ids.back().may_equal(1)) {
    throw op.error(cat("Ids has shape ", ids, " but its last dimension must be 1"))
        .fix("feed ids of shape [..., 1], or use fluid.embedding, which takes any shape");
  }
  ids.erase(ids.rank() - 1);
  return ids;
}

ShapeRule lookup_shape(bool ids_end_in_one) {
  return [=](OpView& op) {
    const ValueInfo& table = op.in("W");
    if (table.type == VarType::selected_rows ||
        (op.attr<bool>("remote_prefetch") && !op.attr<std::vector<std::string>>("epmap").empty())) {
      throw Error(ErrorKind::unimplemented,
                  "the table is kept by parameter servers, from which "
                  "this build cannot look rows up")
          .fix("keep the table in this process: leave is_distributed False");
    }
    if (table.shape.rank() != 2) {
      throw op.error(cat("W has shape ", table.shape, " but a table is [rows, width]"))
          .fix("create the table with two dimensions");
    }
    const DType id_type = op.in("Ids").dtype;
    if (op.in("Ids").known && id_type != DType::int64 && id_type != DType::int32) {
      throw op.error(cat("Ids is ", name_of(id_type), " but ids are int64 or int32"))
          .fix("feed the ids as int64");
    }
    Shape out = ids_shape(op, ids_end_in_one);
    out.push_back(table.shape[1]);
    op.set_out("Out", table.dtype, out);
    op.share_lod("Ids", "Out");
  };
}

// Dense: like W. Sparse: one row for every id, in the order of the ids, repeats included.
void lookup_grad_shape(OpView& op) {
  const ValueInfo& table = op.in("W");
  op.set_out_like("W@GRAD", table);
  if (!op.wants("W@GRAD") || !op.attr<bool>("is_sparse")) return;
  ValueInfo& grad = op.out("W@GRAD");
  grad.type = VarType::selected_rows;
  grad.height = table.shape[0].value();
  grad.shape = {op.in("Ids").shape.numel(), table.shape[1]};
}

int64_t id_at(const Tensor& ids, int64_t i) {
  return ids.dtype() == DType::int32 ? ids.data<int32_t>()[i] : ids.data<int64_t>()[i];
}

// An id that names a row, checked.
int64_t checked_id(const Tensor& ids, int64_t i, int64_t height) {
  const int64_t id = id_at(ids, i);
  if (id < 0 || id >= height) {
    throw Error(cat("id ", id, " at position ", i, " of Ids is not a row of the table, which has ",
                    height, " rows"))
        .fix(cat("feed ids from 0 to ", height - 1,
                 ", or create the embedding with size[0] above the largest id"));
  }
  return id;
}

int lookup_parts(int64_t elements) {
  return static_cast<int>(std::clamp<int64_t>(elements / 16384, 1, 64));
}

// Calls f with the ids, as what they are.
template <class F>
void with_ids(const Tensor& ids, F f) {
  if (ids.dtype() == DType::int32) {
    f(ids.data<int32_t>());
  } else {
    f(ids.data<int64_t>());
  }
}

template <class T>
BoundKernel lookup(const KernelSite& site) {
  const int table = site.position("W"), ids = site.position("Ids"), out = site.out_position("Out");
  const int64_t padding = site.attr<int64_t>("padding_idx");
  const int64_t height = site.in("W").shape.at(0), width = site.in("W").shape.at(1);
  const int64_t count = site.in("Ids").shape.count();
  const auto run = [=](const KernelArgs& k, const auto* id) {
    const T* rows = k.in<T>(table);
    T* to = k.out<T>(out);
    const auto [begin, end] = k.range(count);
    constexpr int64_t kAhead = 16;  // rows are far apart: asked for before they are needed
    for (int64_t i = begin; i < end; ++i) {
      if (i + kAhead < end && id[i + kAhead] >= 0 && id[i + kAhead] < height) {
        const T* next = rows + id[i + kAhead] * width;
        __builtin_prefetch(next);
        __builtin_prefetch(next + width - 1);
      }
      if (padding != kNoPadding && id[i] == padding) {
        std::fill_n(to + i * width, width, T{0});
        continue;
      }
      if (id[i] < 0 || id[i] >= height) checked_id(k.in(ids), i, height);
      const T* from = rows + id[i] * width;
      for (int64_t j = 0; j < width; ++j) to[i * width + j] = from[j];
    }
  };
  return BoundKernel(
      [=](const KernelArgs& k) {
        with_ids(k.in(ids), [&](const auto* id) { vectorised([&] { run(k, id); }); });
      },
      lookup_parts(count * width));
}

// Rows may repeat, so the table's rows are cut into parts: each adds in the order of the ids.
template <class T>
BoundKernel lookup_grad_dense(const KernelSite& site) {
  constexpr int64_t kMostParts = 8;  // each reads all the ids
  const int ids = site.position("Ids"), dout = site.position("Out@GRAD");
  const int dtable = site.out_position("W@GRAD");
  const int64_t padding = site.attr<int64_t>("padding_idx");
  const int64_t height = site.in("W").shape.at(0), width = site.in("W").shape.at(1);
  const int64_t count = site.in("Ids").shape.count();
  const int64_t wanted = std::min<int64_t>(lookup_parts((height + count) * width), kMostParts);
  const auto parts = static_cast<int>(std::clamp<int64_t>(height, 1, wanted));
  return BoundKernel(
      [=](const KernelArgs& k) {
        const T* from = k.in<T>(dout);
        T* to = k.out<T>(dtable);
        const auto [first, last] = k.range(height);
        std::fill(to + first * width, to + last * width, T{0});
        for (int64_t i = 0; i < count; ++i) {
          if (padding != kNoPadding && id_at(k.in(ids), i) == padding) continue;
          const int64_t row = checked_id(k.in(ids), i, height);
          if (row < first || row >= last) continue;
          for (int64_t j = 0; j < width; ++j) to[row * width + j] += from[i * width + j];
        }
      },
      parts);
}

// The rows of padding ids are named too, with zeros: the number of rows is that of the ids.
template <class T>
BoundKernel lookup_grad_sparse(const KernelSite& site) {
  const int ids = site.position("Ids"), dout = site.position("Out@GRAD");
  const int dtable = site.out_position("W@GRAD");
  const int64_t padding = site.attr<int64_t>("padding_idx");
  const int64_t height = site.in("W").shape.at(0), width = site.in("W").shape.at(1);
  const int64_t count = site.in("Ids").shape.count();
  return BoundKernel(
      [=](const KernelArgs& k) {
        SelectedRows& grad = k.outs[dtable]->rows();
        const T* from = k.in<T>(dout);
        T* to = grad.value.data<T>();
        const auto [begin, end] = k.range(count);
        for (int64_t i = begin; i < end; ++i) {
          grad.rows[static_cast<size_t>(i)] = checked_id(k.in(ids), i, height);
        }
        std::copy(from + begin * width, from + end * width, to + begin * width);
        for (int64_t i = begin; i < end && padding != kNoPadding; ++i) {
          if (grad.rows[static_cast<size_t>(i)] == padding)
            std::fill_n(to + i * width, width, T{0});
        }
      },
      lookup_parts(count * width));
}

void add_lookup(OpSchema& row, bool ids_end_in_one) {
  row.doc("The rows of a table that the ids name; an id equal to padding_idx gives zeros")
      .in("W", "the table, [rows, width]")
      .in("Ids", ids_end_in_one ? "int64, [..., 1]" : "int64 or int32, any shape")
      .out("Out", ids_end_in_one ? "[..., width]" : "the shape of Ids, then width")
      .attr("is_sparse", false, "the gradient of W holds only the rows looked up")
      .attr("is_distributed", false, "the table is kept by parameter servers")
      .attr("padding_idx", kNoPadding, "the id whose row is zeros and is never trained; -1: none")
      .attr("remote_prefetch", false, "fetch rows from parameter servers")
      .attr("trainer_id", 0, "this trainer's number, for parameter servers")
      .attr("height_sections", std::vector<int64_t>{}, "rows kept by each parameter server")
      .attr("epmap", std::vector<std::string>{}, "addresses of the parameter servers")
      .attr("table_names", std::vector<std::string>{}, "names of the table's parts there")
      .shape(lookup_shape(ids_end_in_one))
      .kernel(typed<float, double>([]<class T>(const KernelSite& s) { return lookup<T>(s); }))
      .grad({"W", "Ids"})
      .no_grad({"Ids"})
      .sparse_grad("W")
      .grad_shape(lookup_grad_shape)
      .grad_kernel(typed<float, double>([]<class T>(const KernelSite& s) {
        return s.attr<bool>("is_sparse") ? lookup_grad_sparse<T>(s) : lookup_grad_dense<T>(s);
      }))
      .grad_vjp(linear_gradient({"W"}))
      .traits({.can_fail = true});
  if (ids_end_in_one) row.attr("grad_inplace", false, "accepted; changes no result");
  for (const auto& [padded, sparse] : {std::pair(false, false), {true, false}, {true, true}}) {
    row.sample([=, padded = padded, sparse = sparse](Draw& draw) {
      OpSample sample;
      const int64_t height = draw.size(2, 6);
      Shape ids = draw.shape(1, 3);
      if (ids_end_in_one) ids[ids.rank() - 1] = 1;
      sample.inputs["W"] = {draw.uniform({height, draw.size(1, 4)})};
      sample.inputs["Ids"] = {draw.ints(ids, 0, height - 1)};
      if (padded) sample.attrs["padding_idx"] = draw.size(0, height - 1);
      sample.attrs["is_sparse"] = sparse;
      return sample;
    });
  }
}

}  // namespace

void register_embedding(Registry& ops) {
  add_lookup(ops.op("lookup_table"), true);
  add_lookup(ops.op("lookup_table_v2"), false);
}

}  // namespace trireme
