// Elements picked and added by index: index_select, scatter_nd_add, multiplex, shard_index; and
// tensors that only sizes decide: eye, linspace, meshgrid, size.
#include <algorithm>
#include <cstring>

#include "ops/axis_rows.h"
#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/tensor/indices.h"

namespace trireme {
namespace {

// ---- index_select

int select_axis(const OpView& op) {
  return normal_axis(op, op.attr<int32_t>("dim"), op.in("X").shape.rank(), "dim");
}

void index_select_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  require_dense(op, "X");
  require_index(op, "Index");
  Shape out = x.shape;
  out[select_axis(op)] = index_count(op, "Index");
  op.set_out("Out", x.dtype, out);
}

BoundKernel index_select_kernel(const KernelSite& site) {
  const AxisRows rows(site.in("X").shape, select_axis(site));
  const int64_t count = site.in("Index").shape.at(0);
  const auto bytes = static_cast<size_t>(rows.inner) * size_of(site.in("X").dtype);
  return [=](const KernelArgs& k) {
    const Indices index(k.in(1), "Index");
    const auto* from = static_cast<const std::byte*>(k.in(0).address());
    auto* to = static_cast<std::byte*>(k.out(0).address());
    for (int64_t outer = 0; outer < rows.outer; ++outer) {
      for (int64_t i = 0; i < count; ++i, to += bytes) {
        const int64_t at = outer * rows.extent + index.checked(i, rows.extent);
        if (bytes > 0) std::memcpy(to, from + static_cast<size_t>(at) * bytes, bytes);
      }
    }
  };
}

template <class T>
BoundKernel index_select_grad(const KernelSite& site) {
  const AxisRows rows(site.in("X").shape, select_axis(site));
  const int64_t count = site.in("Index").shape.at(0);
  const int index_at = site.position("Index"), grad_at = site.position("Out@GRAD");
  return [=](const KernelArgs& k) {
    const Indices index(k.in(index_at), "Index");
    const T* grad = k.in<T>(grad_at);
    T* out = k.out<T>(0);
    std::fill_n(out, rows.rows() * rows.extent, T{0});
    for (int64_t outer = 0; outer < rows.outer; ++outer) {
      for (int64_t i = 0; i < count; ++i, grad += rows.inner) {
        T* to = out + (outer * rows.extent + index.checked(i, rows.extent)) * rows.inner;
        for (int64_t j = 0; j < rows.inner; ++j) to[j] += grad[j];
      }
    }
  };
}

// ---- scatter_nd_add

// Tuples of `depth` indices, each naming a block of `width` elements of X.
struct NamedBlocks {
  Shape x;
  int64_t count = 0, depth = 0, width = 0;

  NamedBlocks(const Shape& x, const Shape& index)
      : x(x),
        count(index.product(0, index.rank() - 1).value()),
        depth(index.back().value()),
        width(x.product(static_cast<int>(depth), x.rank()).value()) {}
  int64_t operator()(const Indices& index, int64_t i) const {
    int64_t place = 0;
    for (int64_t d = 0; d < depth; ++d) {
      const int64_t extent = x.at(static_cast<int>(d));
      place = place * extent + index.checked(i * depth + d, extent);
    }
    return place * width;
  }
};

void scatter_nd_shape(OpView& op) {
  const ValueInfo &x = op.in("X"), &index = op.in("Index"), &updates = op.in("Updates");
  require_index(op, "Index");
  if (index.shape.rank() < 1 || !index.shape.back().known() ||
      index.shape.back().value() > x.shape.rank()) {
    throw op.error(cat("Index has shape ", index.shape, " but X ", x.shape))
        .fix("let the last extent of Index be the number of dimensions it names, at most X's");
  }
  Shape wanted = index.shape;
  wanted.erase(wanted.rank() - 1);
  for (int d = static_cast<int>(index.shape.back().value()); d < x.shape.rank(); ++d) {
    wanted.push_back(x.shape[d]);
  }
  if (!updates.shape.may_equal(wanted)) {
    throw op
        .error(cat("Updates has shape ", updates.shape, " but X ", x.shape, " and Index ",
                   index.shape, " need ", wanted))
        .fix("give a block of X for every tuple of indices");
  }
  op.set_out_like("Out", x);
}

template <class T>
BoundKernel scatter_nd_kernel(const KernelSite& site) {
  const NamedBlocks blocks(site.in("X").shape, site.in("Index").shape);
  const int64_t total = site.in("X").shape.count();
  return [=](const KernelArgs& k) {
    const Indices index(k.in(1), "Index");
    const T* updates = k.in<T>(2);
    T* out = k.out<T>(0);
    if (k.in(0).address() != k.out(0).address()) std::copy_n(k.in<T>(0), total, out);
    for (int64_t i = 0; i < blocks.count; ++i, updates += blocks.width) {
      T* to = out + blocks(index, i);
      for (int64_t j = 0; j < blocks.width; ++j) to[j] += updates[j];
    }
  };
}

template <class T>
BoundKernel scatter_nd_grad(const KernelSite& site) {
  const NamedBlocks blocks(site.in("Out@GRAD").shape, site.in("Index").shape);
  const int64_t total = site.in("Out@GRAD").shape.count();
  const int index_at = site.position("Index"), grad_at = site.position("Out@GRAD");
  const int x_at = site.out_position("X@GRAD"), updates_at = site.out_position("Updates@GRAD");
  return [=](const KernelArgs& k) {
    const Indices index(k.in(index_at), "Index");
    const T* grad = k.in<T>(grad_at);
    if (k.has_out(x_at)) std::copy_n(grad, total, k.out<T>(x_at));
    if (!k.has_out(updates_at)) return;
    T* updates = k.out<T>(updates_at);
    for (int64_t i = 0; i < blocks.count; ++i) {
      std::copy_n(grad + blocks(index, i), blocks.width, updates + i * blocks.width);
    }
  };
}

// ---- multiplex

void multiplex_shape(OpView& op) {
  const ValueInfo& first = op.in("X", 0);
  require_index(op, "Ids");
  if (op.count("X") < 2) throw op.error("X has one tensor").fix("give two or more");
  for (size_t i = 1; i < op.count("X"); ++i) {
    if (op.in("X", i).shape.may_equal(first.shape)) continue;
    throw op.error(cat("X[", i, "] has shape ", op.in("X", i).shape, " but X[0] ", first.shape))
        .fix("give all of X one shape");
  }
  if (first.shape.rank() < 2 || !index_count(op, "Ids").may_equal(first.shape[0])) {
    throw op.error(cat("Ids has shape ", op.in("Ids").shape, " but X ", first.shape))
        .fix("give Ids [rows, 1] and X [rows, ...]");
  }
  op.set_out("Out", first.dtype, first.shape);
}

BoundKernel multiplex_kernel(const KernelSite& site) {
  const Shape& out = site.out("Out").shape;
  const auto choices = static_cast<int64_t>(site.count("X"));
  const int ids_at = site.position("Ids"), x_at = site.position("X", 0);
  const int64_t rows = out.at(0);
  const auto bytes =
      static_cast<size_t>(out.product(1, out.rank()).value()) * size_of(site.out("Out").dtype);
  return [=](const KernelArgs& k) {
    const Indices ids(k.in(ids_at), "Ids");
    auto* to = static_cast<std::byte*>(k.out(0).address());
    for (int64_t row = 0; row < rows && bytes > 0; ++row) {
      const Tensor& from = k.in(x_at + static_cast<int>(ids.checked(row, choices)));
      const size_t at = static_cast<size_t>(row) * bytes;
      std::memcpy(to + at, static_cast<const std::byte*>(from.address()) + at, bytes);
    }
  };
}

template <class T>
BoundKernel multiplex_grad(const KernelSite& site) {
  const Shape& out = site.in("Out@GRAD").shape;
  const int64_t rows = out.at(0), width = out.product(1, out.rank()).value();
  const auto choices = static_cast<int64_t>(site.out_count("X@GRAD"));
  const int ids_at = site.position("Ids"), grad_at = site.position("Out@GRAD");
  std::vector<int> outs;
  for (size_t i = 0; i < site.out_count("X@GRAD"); ++i) {
    outs.push_back(site.out_position("X@GRAD", i));
  }
  return [=](const KernelArgs& k) {
    const Indices ids(k.in(ids_at), "Ids");
    const T* grad = k.in<T>(grad_at);
    for (size_t i = 0; i < outs.size(); ++i) {
      if (!k.has_out(outs[i])) continue;
      T* to = k.out<T>(outs[i]);
      for (int64_t row = 0; row < rows; ++row) {
        const bool mine = ids.checked(row, choices) == static_cast<int64_t>(i);
        for (int64_t j = row * width; j < (row + 1) * width; ++j) to[j] = mine ? grad[j] : T{0};
      }
    }
  };
}

void register_picks(Registry& ops) {
  ops.op("index_select")
      .in("X", "any shape and type")
      .in("Index", "int32 or int64 [n]")
      .out("Out", "the named slices of X along dim")
      .attr("dim", 0, "which dimension")
      .shape(index_select_shape)
      .kernel(untyped(index_select_kernel))
      .grad({"X", "Index"})
      .no_grad({"Index"})
      .grad_kernel(typed_by<float, double>(
          "Out@GRAD", []<class T>(const KernelSite& site) { return index_select_grad<T>(site); }))
      .grad_vjp(linear_gradient({"X"}))
      .traits({.can_fail = true})
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({2, 3, 2})}}, {"Index", {d.ints({4}, 0, 2)}}},
                        .attrs = {{"dim", int32_t{1}}}};
      });
  ops.op("scatter_nd_add")
      .in("X", "any shape")
      .in("Index", "int32 or int64; its last extent names leading dimensions of X")
      .in("Updates", "a block of X for every tuple of indices")
      .out("Out", "X with every block added where its tuple points to")
      .shape(scatter_nd_shape)
      .kernel(typed_by<float, double, int32_t, int64_t>(
          "X", []<class T>(const KernelSite& site) { return scatter_nd_kernel<T>(site); }))
      .grad({"Index", "Updates"})
      .no_grad({"Index"})
      .grad_kernel(typed_by<float, double>(
          "Out@GRAD", []<class T>(const KernelSite& site) { return scatter_nd_grad<T>(site); }))
      .grad_vjp(linear_gradient({"X", "Updates"}))
      .inplace("X", "Out")
      .traits({.can_fail = true})
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({3, 2, 2})}},
                                   {"Index", {d.ints({4, 2}, 0, 1)}},
                                   {"Updates", {d.uniform({4, 2})}}}};
      });
  ops.op("multiplex")
      .in("Ids", "int32 or int64 [rows, 1]: which of X each row is taken from")
      .in_list("X", "[rows, ...], two or more of one shape")
      .out("Out", "row i of X[Ids[i]]")
      .shape(multiplex_shape)
      .kernel(untyped(multiplex_kernel))
      .grad({"Ids"})
      .no_grad({"Ids"})
      .grad_kernel(typed_by<float, double>(
          "Out@GRAD", []<class T>(const KernelSite& site) { return multiplex_grad<T>(site); }))
      .grad_vjp(linear_gradient({"X"}))
      .traits({.can_fail = true})
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"Ids", {d.ints({3, 1}, 0, 1, DType::int32)}},
                                   {"X", {d.uniform({3, 2}), d.uniform({3, 2})}}}};
      });
}

// ---- shard_index

BoundKernel shard_kernel(const KernelSite& site) {
  const int64_t all = site.attr<int32_t>("index_num"), shards = site.attr<int32_t>("nshards");
  const int64_t mine = site.attr<int32_t>("shard_id"), ignored = site.attr<int32_t>("ignore_value");
  const int64_t count = site.in("X").shape.count(), size = (all + shards - 1) / shards;
  return [=](const KernelArgs& k) {
    const Indices x(k.in(0), "X");
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = x.checked(i, all);
      const int64_t found = index / size == mine ? index % size : ignored;
      if (k.out(0).dtype() == DType::int32) {
        k.out<int32_t>(0)[i] = static_cast<int32_t>(found);
      } else {
        k.out<int64_t>(0)[i] = found;
      }
    }
  };
}

void shard_shape(OpView& op) {
  require_index(op, "X");
  const int32_t id = op.attr<int32_t>("shard_id"), shards = op.attr<int32_t>("nshards");
  if (id < 0 || id >= shards) {
    throw op.error(cat("shard_id is ", id, " but nshards ", shards))
        .fix(cat("give a shard from 0 to ", shards - 1));
  }
  op.set_out_like("Out", op.in("X"));
}

// ---- eye, linspace, size

template <class T>
BoundKernel eye_kernel(const KernelSite& site) {
  const int64_t rows = site.out("Out").shape.at(0), columns = site.out("Out").shape.at(1);
  return [=](const KernelArgs& k) {
    std::fill_n(k.out<T>(0), rows * columns, T{0});
    for (int64_t i = 0; i < std::min(rows, columns); ++i) k.out<T>(0)[i * columns + i] = T{1};
  };
}

void eye_shape(OpView& op) {
  const int64_t rows = op.attr<int64_t>("num_rows"), columns = op.attr<int64_t>("num_columns");
  op.set_out("Out", dtype_attr(op, "dtype"), {rows, columns < 0 ? rows : columns});
}

void linspace_shape(OpView& op) {
  require_floating(op, "Start");
  for (const char* slot : {"Start", "Stop", "Num"}) require_one_number(op, slot);
  const std::vector<int64_t> num = read_ints(op, "Num");
  if (!num.empty() && num[0] < 1) {
    throw op.error(cat("Num is ", num[0])).fix("ask for one number or more");
  }
  op.set_out("Out", op.in("Start").dtype, {num.empty() ? Dim() : Dim(num[0])});
}

template <class T>
BoundKernel linspace_kernel(const KernelSite& site) {
  const int64_t count = site.out("Out").shape.at(0);
  return [=](const KernelArgs& k) {
    const T start = *k.in<T>(0), stop = *k.in<T>(1);
    const T step = count > 1 ? (stop - start) / static_cast<T>(count - 1) : T{0};
    for (int64_t i = 0; i < count; ++i) k.out<T>(0)[i] = start + step * static_cast<T>(i);
  };
}

void register_made(Registry& ops) {
  ops.op("shard_index")
      .in("X", "int32 or int64, from 0 to below index_num")
      .out("Out", "the place in its shard of each index of this shard, ignore_value elsewhere")
      .required_attr<int32_t>("index_num", "how many indices there are")
      .required_attr<int32_t>("nshards", "into how many shards they are cut")
      .at_least(1)
      .required_attr<int32_t>("shard_id", "which shard this is")
      .attr("ignore_value", -1, "what stands for an index of another shard")
      .shape(shard_shape)
      .kernel(untyped(shard_kernel))
      .traits({.can_fail = true});
  ops.op("eye")
      .out("Out", "[num_rows, num_columns]: 1 on the diagonal, 0 elsewhere")
      .attr("dtype", 5, "element type")
      .required_attr<int64_t>("num_rows", "rows")
      .at_least(0)
      .attr("num_columns", int64_t{-1}, "columns; -1: as many as rows")
      .at_least(-1)
      .shape(eye_shape)
      .kernel([](const KernelSite& site, std::string* why_not) {
        return for_dtype<float, double, int32_t, int64_t>(
            site.out("Out").dtype, why_not, [&]<class T>() { return eye_kernel<T>(site); });
      });
  ops.op("linspace")
      .in("Start", "one number, floating point")
      .in("Stop", "one number of Start's type")
      .in("Num", "one whole number: how many")
      .out("Out", "Num numbers, evenly from Start to Stop")
      .shape(linspace_shape)
      .kernel(typed_by<float, double>(
          "Start", []<class T>(const KernelSite& site) { return linspace_kernel<T>(site); }))
      .traits({.reads_values = {"Num"}});
  ops.op("size")
      .in("Input", "any shape and type")
      .out("Out", "int64 [1]: how many elements it has")
      .shape([](OpView& op) {
        require_dense(op, "Input");
        op.set_out("Out", DType::int64, {1});
      })
      .kernel(untyped([](const KernelSite& site) {
        return [count = site.in("Input").shape.count()](const KernelArgs& k) {
          *k.out<int64_t>(0) = count;
        };
      }));
}

// ---- meshgrid

void meshgrid_shape(OpView& op) {
  Shape out;
  for (size_t i = 0; i < op.count("X"); ++i) {
    const ValueInfo& x = op.in("X", i);
    if (x.shape.rank() != 1 || i >= kMaxRank) {
      throw op.error(cat("X[", i, "] has shape ", x.shape)).fix("give vectors, nine at most");
    }
    out.push_back(x.shape[0]);
  }
  for (size_t i = 0; i < op.out_count("Out"); ++i) {
    if (op.out_position("Out", i) >= 0) {
      op.out("Out", i).dtype = op.in("X", i).dtype;
      op.out("Out", i).shape = out;
    }
  }
}

// Calls visit(which X, element of the grid, element of X).
template <class Visit>
void each_of_grid(const std::vector<int64_t>& extents, const Visit& visit) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  int64_t inner = count;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] > 0) inner /= extents[i];
    for (int64_t at = 0; at < count; ++at) visit(i, at, at / inner % extents[i]);
  }
}

template <class T>
BoundKernel meshgrid_kernel(const KernelSite& site) {
  std::vector<int64_t> extents;
  std::vector<int> outs;
  for (size_t i = 0; i < site.count("X"); ++i) {
    extents.push_back(site.in("X", i).shape.at(0));
    outs.push_back(site.out_position("Out", i));
  }
  return [=, x_at = site.position("X", 0)](const KernelArgs& k) {
    each_of_grid(extents, [&](size_t i, int64_t at, int64_t from) {
      if (k.has_out(outs[i])) {
        raw_as<T>(k.out(outs[i]))[at] = raw_as<T>(k.in(x_at + static_cast<int>(i)))[from];
      }
    });
  };
}

template <class T>
BoundKernel meshgrid_grad(const KernelSite& site) {
  std::vector<int64_t> extents;
  std::vector<int> outs;
  for (size_t i = 0; i < site.count("X"); ++i) {
    extents.push_back(site.in("X", i).shape.at(0));
    outs.push_back(site.out_position("X@GRAD", i));
  }
  return [=, grad_at = site.position("Out@GRAD", 0)](const KernelArgs& k) {
    for (size_t i = 0; i < outs.size(); ++i) {
      if (k.has_out(outs[i])) std::fill_n(k.out<T>(outs[i]), extents[i], T{0});
    }
    each_of_grid(extents, [&](size_t i, int64_t at, int64_t to) {
      const int from = grad_at + static_cast<int>(i);
      if (k.has_out(outs[i]) && k.has_in(from)) k.out<T>(outs[i])[to] += k.in<T>(from)[at];
    });
  };
}

}  // namespace

void register_tensor_pick(Registry& ops) {
  register_picks(ops);
  register_made(ops);
  ops.op("meshgrid")
      .in_list("X", "vectors of one type")
      .out_list("Out", "X[i] along dimension i of a grid, repeated along all others")
      .shape(meshgrid_shape)
      .kernel(untyped([](const KernelSite& site) {
        return by_size(site.in("X", 0).dtype, [&]<class T>() { return meshgrid_kernel<T>(site); });
      }))
      .grad({"X"})
      .grad_kernel(typed_by<float, double>(
          "X", []<class T>(const KernelSite& site) { return meshgrid_grad<T>(site); }))
      .grad_vjp(linear_gradient({"X"}))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({2}), d.uniform({3})}}},
                        .out_counts = {{"Out", 2}}};
      });
}

}  // namespace trireme
