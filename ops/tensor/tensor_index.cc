// Elements picked by index: gather, gather_nd, scatter, index_sample, one_hot, where, where_index.
#include <cstring>

#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/tensor/indices.h"

namespace trireme {
namespace {

// ---- gather and scatter: whole rows

struct Rows {
  int64_t count;   // rows named by the index
  int64_t extent;  // rows there are
  int64_t width;   // elements in a row

  Rows(const Shape& table, int64_t count)
      : count(count), extent(table.at(0)), width(table.product(1, table.rank()).value()) {}
};

void gather_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  require_dense(op, "X");
  require_index(op, "Index");
  Shape out = x.shape;
  out[0] = index_count(op, "Index");
  op.set_out("Out", x.dtype, out);
}

BoundKernel gather_rows(const Rows& rows, DType dtype, int table_at, int index_at, int out_at,
                        const char* slot) {
  const int64_t bytes = rows.width * static_cast<int64_t>(size_of(dtype));
  return [=](const KernelArgs& k) {
    const Indices index(k.in(index_at), slot);
    const auto* from = static_cast<const std::byte*>(k.in(table_at).address());
    auto* to = static_cast<std::byte*>(k.out(out_at).address());
    for (int64_t i = 0; i < rows.count; ++i) {
      const int64_t row = index.checked(i, rows.extent);
      if (bytes > 0) std::memcpy(to + i * bytes, from + row * bytes, static_cast<size_t>(bytes));
    }
  };
}

template <class T>
void add_row(const T* from, int64_t width, T* to) {
  for (int64_t j = 0; j < width; ++j) to[j] += from[j];
}

template <class T>
BoundKernel gather_grad_kernel(const KernelSite& site) {
  const Rows rows(site.in("X").shape, site.in("Index").shape.at(0));
  const int index_at = site.position("Index"), grad_at = site.position("Out@GRAD");
  return [=](const KernelArgs& k) {
    const Indices index(k.in(index_at), "Index");
    const T* grad = k.in<T>(grad_at);
    T* out = k.out<T>(0);
    std::fill_n(out, rows.extent * rows.width, T{0});
    for (int64_t i = 0; i < rows.count; ++i) {
      add_row(grad + i * rows.width, rows.width, out + index.checked(i, rows.extent) * rows.width);
    }
  };
}

void scatter_shape(OpView& op) {
  const ValueInfo &x = op.in("X"), &updates = op.in("Updates");
  require_index(op, "Ids");
  Shape wanted = x.shape;
  wanted[0] = index_count(op, "Ids");
  if (!updates.shape.may_equal(wanted)) {
    throw op
        .error(cat("Updates has shape ", updates.shape, " but X ", x.shape, " and Ids ",
                   op.in("Ids").shape, " need ", wanted))
        .fix("give one row of X's width for every index");
  }
  op.set_out_like("Out", x);
}

// With overwrite the last row written to a place stays; without, the named rows start at zero and
// all that is written to them is added up.
template <class T>
BoundKernel scatter_kernel(const KernelSite& site) {
  const Rows rows(site.in("X").shape, site.in("Ids").shape.at(0));
  const bool overwrite = site.attr<bool>("overwrite");
  return [=](const KernelArgs& k) {
    const Indices ids(k.in(1), "Ids");
    const T* updates = k.in<T>(2);
    T* out = k.out<T>(0);
    if (k.in(0).address() != k.out(0).address()) {
      std::copy_n(k.in<T>(0), rows.extent * rows.width, out);
    }
    for (int64_t i = 0; i < rows.count; ++i) {
      std::fill_n(out + ids.checked(i, rows.extent) * rows.width, rows.width, T{0});
    }
    for (int64_t i = 0; i < rows.count; ++i) {
      T* to = out + ids[i] * rows.width;
      if (overwrite) {
        std::copy_n(updates + i * rows.width, rows.width, to);
      } else {
        add_row(updates + i * rows.width, rows.width, to);
      }
    }
  };
}

void scatter_grad_shape(OpView& op) {
  const ValueInfo& grad = op.in("Out@GRAD");
  if (op.wants("X@GRAD")) op.set_out("X@GRAD", grad.dtype, grad.shape);
  Shape updates = grad.shape;
  updates[0] = index_count(op, "Ids");
  if (op.wants("Updates@GRAD")) op.set_out("Updates@GRAD", grad.dtype, updates);
}

template <class T>
BoundKernel scatter_grad_kernel(const KernelSite& site) {
  const Rows rows(site.in("Out@GRAD").shape, site.in("Ids").shape.at(0));
  const int ids_at = site.position("Ids"), grad_at = site.position("Out@GRAD");
  const int x_at = site.out_position("X@GRAD"), updates_at = site.out_position("Updates@GRAD");
  const bool overwrite = site.attr<bool>("overwrite");
  BoundKernel kernel([=](const KernelArgs& k) {
    const Indices ids(k.in(ids_at), "Ids");
    const T* grad = k.in<T>(grad_at);
    if (k.has_out(updates_at)) {
      T* updates = k.out<T>(updates_at);
      // Of rows written to one place, only the last is seen when they overwrite each other.
      auto* last = reinterpret_cast<int64_t*>(k.scratch);
      for (int64_t i = 0; overwrite && i < rows.count; ++i) last[ids.checked(i, rows.extent)] = i;
      for (int64_t i = 0; i < rows.count; ++i) {
        const int64_t row = ids.checked(i, rows.extent);
        if (overwrite && last[row] != i) {
          std::fill_n(updates + i * rows.width, rows.width, T{0});
        } else {
          std::copy_n(grad + row * rows.width, rows.width, updates + i * rows.width);
        }
      }
    }
    if (!k.has_out(x_at)) return;
    T* x = k.out<T>(x_at);
    std::copy_n(grad, rows.extent * rows.width, x);
    for (int64_t i = 0; i < rows.count; ++i) {
      std::fill_n(x + ids.checked(i, rows.extent) * rows.width, rows.width, T{0});
    }
  });
  if (overwrite) kernel.scratch = static_cast<size_t>(rows.extent) * sizeof(int64_t);
  return kernel;
}

void register_rows(Registry& ops) {
  ops.op("gather")
      .in("X", "[rows, ...]")
      .in("Index", "int32 or int64, [n] or [n, 1]")
      .out("Out", "the named rows of X")
      .attr("overwrite", true, "kept for the record: gradients of one row are always added up")
      .shape(gather_shape)
      .kernel(untyped([](const KernelSite& site) {
        const ValueInfo& x = site.in("X");
        return gather_rows(Rows(x.shape, site.in("Index").shape.at(0)), x.dtype, 0, 1, 0, "Index");
      }))
      .grad({"Index", "X"})
      .no_grad({"Index"})
      .grad_kernel(typed_by<float, double>(
          "Out@GRAD", []<class T>(const KernelSite& site) { return gather_grad_kernel<T>(site); }))
      .grad_vjp(linear_gradient({"X"}))
      .traits({.can_fail = true})
      .sample([](Draw& d) {
        const Shape x = d.shape(1, 3);
        return OpSample{
            .inputs = {{"X", {d.uniform(x)}}, {"Index", {d.ints({d.size(1, 5)}, 0, x.at(0) - 1)}}}};
      });
  ops.op("scatter")
      .in("X", "[rows, ...]")
      .in("Ids", "int32 or int64, [n] or [n, 1]")
      .in("Updates", "[n, ...]: one row for every index")
      .out("Out", "X with the named rows replaced")
      .attr("overwrite", true, "the last row for a place stays; else rows are added up")
      .shape(scatter_shape)
      .kernel(typed_by<float, double, int32_t, int64_t>(
          "X", []<class T>(const KernelSite& site) { return scatter_kernel<T>(site); }))
      .grad({"Ids", "Updates"})  // Updates for its shape; 1.8.5 wants it there
      .no_grad({"Ids"})
      .grad_shape(scatter_grad_shape)
      .grad_kernel(typed_by<float, double>(
          "Out@GRAD", []<class T>(const KernelSite& site) { return scatter_grad_kernel<T>(site); }))
      .grad_vjp(linear_gradient({"X", "Updates"}))
      .inplace("X", "Out")
      .traits({.can_fail = true})
      .sample([](Draw& d) {
        const Shape x = d.shape(1, 3);
        Shape updates = x;
        updates[0] = d.size(1, 5);
        return OpSample{.inputs = {{"X", {d.uniform(x)}},
                                   {"Ids", {d.ints({updates[0]}, 0, x.at(0) - 1)}},
                                   {"Updates", {d.uniform(updates)}}},
                        .attrs = {{"overwrite", d.coin()}}};
      });
}

// ---- gather_nd and index_sample: single places

// `count` places, each a block of `width` elements of X; a tuple of `depth` indices names one.
struct TuplePlaces {
  int64_t count = 0, depth = 0, width = 0;
  Shape x;

  explicit TuplePlaces(const OpView& op) : x(op.in("X").shape) {
    const Shape& index = op.in("Index").shape;
    depth = index.back().value();
    count = index.product(0, index.rank() - 1).value();
    width = x.product(static_cast<int>(depth), x.rank()).value();
  }
  int64_t operator()(const Indices& index, int64_t i) const {
    int64_t place = 0;
    for (int64_t d = 0; d < depth; ++d) {
      const int64_t extent = x.at(static_cast<int>(d));
      place = place * extent + index.checked(i * depth + d, extent);
    }
    return place * width;
  }
};

// Each index names an element of its own row.
struct ColumnPlaces {
  int64_t count, columns, per_row, width = 1;

  explicit ColumnPlaces(const OpView& op)
      : count(op.in("Index").shape.count()),
        columns(op.in("X").shape.at(1)),
        per_row(op.in("Index").shape.at(1)) {}
  int64_t operator()(const Indices& index, int64_t i) const {
    return i / per_row * columns + index.checked(i, columns);
  }
};

void gather_nd_shape(OpView& op) {
  const Shape &x = op.in("X").shape, &index = op.in("Index").shape;
  require_index(op, "Index");
  if (index.rank() > 0 && !index.back().known()) {
    // Even the number of dimensions of Out is not known yet.
    op.out("Out").dtype = op.in("X").dtype;
    op.out("Out").known = false;
    return;
  }
  if (index.rank() < 1 || index.back().value() > x.rank()) {
    throw op.error(cat("Index has shape ", index, " but X ", x, " has ", x.rank(), " dimensions"))
        .fix("let the last extent of Index be the number of dimensions it names, at most X's");
  }
  Shape out = index;
  out.erase(out.rank() - 1);
  for (int d = static_cast<int>(index.back().value()); d < x.rank(); ++d) out.push_back(x[d]);
  if (out.rank() == 0) out = {1};
  op.set_out("Out", op.in("X").dtype, out);
}

void index_sample_shape(OpView& op) {
  const Shape &x = op.in("X").shape, &index = op.in("Index").shape;
  require_index(op, "Index");
  if (x.rank() != 2 || index.rank() != 2 || !x[0].may_equal(index[0])) {
    throw op.error(cat("X has shape ", x, " and Index ", index))
        .fix("give both two dimensions and as many rows");
  }
  op.set_out("Out", op.in("X").dtype, index);
  carry_lod(op, "Out", {"Index"});
}

template <class Places>
void register_places(OpSchema& row) {
  row.kernel(untyped([](const KernelSite& site) {
       const int x_at = site.position("X"), index_at = site.position("Index");
       return [=, places = Places(site), size = size_of(site.in("X").dtype)](const KernelArgs& k) {
         const Indices index(k.in(index_at), "Index");
         const size_t bytes = static_cast<size_t>(places.width) * size;
         const auto* from = static_cast<const std::byte*>(k.in(x_at).address());
         auto* to = static_cast<std::byte*>(k.out(0).address());
         for (int64_t i = 0; i < places.count; ++i, to += bytes) {
           const auto place = static_cast<size_t>(places(index, i));
           if (bytes > 0) std::memcpy(to, from + place * size, bytes);
         }
       };
     }))
      .grad({"Index", "X"})
      .no_grad({"Index"})
      .grad_kernel(typed_by<float, double>(
          "Out@GRAD",
          []<class T>(const KernelSite& site) {
            const int grad_at = site.position("Out@GRAD"), index_at = site.position("Index");
            return [=, places = Places(site),
                    total = site.in("X").shape.count()](const KernelArgs& k) {
              const Indices index(k.in(index_at), "Index");
              const T* grad = k.in<T>(grad_at);
              T* out = k.out<T>(0);
              std::fill_n(out, total, T{0});
              for (int64_t i = 0; i < places.count; ++i) {
                add_row(grad + i * places.width, places.width, out + places(index, i));
              }
            };
          }))
      .grad_vjp(linear_gradient({"X"}))
      .traits({.can_fail = true});
}

void register_single_places(Registry& ops) {
  OpSchema& nd = ops.op("gather_nd")
                     .in("X", "any shape")
                     .in("Index", "int32 or int64; its last extent names leading dimensions of X")
                     .out("Out", "what each index tuple points to")
                     .shape(gather_nd_shape)
                     .sample([](Draw& d) {
                       const Shape x = {3, 2, d.size(1, 3)};
                       return OpSample{.inputs = {{"X", {d.uniform(x)}},
                                                  {"Index", {d.ints({d.size(1, 4), 2}, 0, 1)}}}};
                     });
  register_places<TuplePlaces>(nd);
  OpSchema& sample =
      ops.op("index_sample")
          .in("X", "[rows, columns]")
          .in("Index", "int32 or int64 [rows, n]: columns of its own row")
          .out("Out", "Out[i][j] = X[i][Index[i][j]]")
          .shape(index_sample_shape)
          .sample([](Draw& d) {
            const int64_t rows = d.size(1, 3), columns = d.size(1, 4);
            return OpSample{.inputs = {{"X", {d.uniform({rows, columns})}},
                                       {"Index", {d.ints({rows, 3}, 0, columns - 1)}}}};
          });
  register_places<ColumnPlaces>(sample);
}

// ---- one_hot

Dim one_hot_depth(const OpView& op) {
  Dim depth = op.attr<int32_t>("depth");
  if (op.has("depth_tensor")) {
    const std::vector<int64_t> read = read_ints(op, "depth_tensor");
    depth = read.empty() ? Dim() : Dim(read[0]);
    if (read.empty()) return depth;
  }
  if (!depth.known() || depth.value() < 1) {
    throw op.error(cat("depth is ", op.attr<int32_t>("depth"))).fix("give a depth of 1 or more");
  }
  return depth;
}

void one_hot(Registry& ops, bool appends) {
  ops.op(appends ? "one_hot_v2" : "one_hot")
      .in("X", appends ? "int32 or int64" : "int32 or int64; the last extent is 1")
      .in_optional("depth_tensor", "one whole number; used instead of depth")
      .out("Out", "1 at the place X names, 0 elsewhere")
      .attr("depth", -1, "extent of the last dimension of Out")
      .attr("dtype", 5, "element type of Out")
      .attr("allow_out_of_range", false, "an X outside [0, depth) gives zeros instead of an error")
      .shape([appends](OpView& op) {
        const ValueInfo& x = op.in("X");
        require_index(op, "X");
        Shape out = x.shape;
        if (!appends) {
          if (out.rank() < 1 || !out.back().may_equal(1)) {
            throw op.error(cat("X has shape ", x.shape, "; its last extent must be 1"))
                .fix("use one_hot_v2 (fluid.one_hot), or unsqueeze X");
          }
          out.erase(out.rank() - 1);
        }
        out.push_back(one_hot_depth(op));
        op.set_out("Out", dtype_attr(op, "dtype"), out);
        carry_lod(op, "Out", {"X"});
      })
      .kernel(untyped([](const KernelSite& site) {
        const int64_t depth = site.out("Out").shape.back().value(), n = site.in("X").shape.count();
        const bool lenient = site.attr<bool>("allow_out_of_range");
        return [=](const KernelArgs& k) {
          const Indices x(k.in(0), "X");
          const Tensor& out = k.out(0);
          fill(out, 0, 0, out.numel());
          for (int64_t i = 0; i < n; ++i) {
            if (lenient && (x[i] < 0 || x[i] >= depth)) continue;
            const int64_t at = i * depth + x.checked(i, depth);
            fill(out, 1, at, at + 1);
          }
        };
      }))
      .traits({.can_fail = true, .reads_values = {"depth_tensor"}});
}

// ---- where

void register_where(Registry& ops) {
  ops.op("where")
      .in("Condition", "bool")
      .in("X", "taken where Condition holds")
      .in("Y", "X's shape and type; taken elsewhere")
      .out("Out", "X where Condition holds, Y elsewhere")
      .shape([](OpView& op) {
        const ValueInfo &condition = op.in("Condition"), &x = op.in("X"), &y = op.in("Y");
        if (condition.known && condition.dtype != DType::boolean) {
          throw Error(ErrorKind::type_mismatch,
                      cat("Condition holds ", name_of(condition.dtype), " but must hold bool"))
              .fix("compare first, or cast Condition to bool");
        }
        if (!condition.shape.may_equal(x.shape) || !x.shape.may_equal(y.shape)) {
          throw op
              .error(
                  cat("Condition has shape ", condition.shape, ", X ", x.shape, " and Y ", y.shape))
              .fix("give all three one shape");
        }
        op.set_out_like("Out", x);
      })
      .body([](Body& b) { b.out("Out") = select(b.in("Condition"), b.in("X"), b.in("Y")); })
      .grad({"Condition", "X", "Y"})
      .no_grad({"Condition"})
      .sample([](Draw& d) {
        const Shape shape = d.shape(1, 3);
        return OpSample{.inputs = {{"Condition", {d.bools(shape)}},
                                   {"X", {d.uniform(shape)}},
                                   {"Y", {d.uniform(shape)}}}};
      });
  ops.op("where_index")
      .in("Condition", "any shape; true where it is not 0")
      .out("Out", "int64 [n, rank]: the places where Condition holds")
      .shape([](OpView& op) {
        require_dense(op, "Condition");
        const ValueInfo& condition = op.in("Condition");
        Dim count;
        if (condition.value) {
          const Tensor holds = cast(condition.value->tensor(), DType::boolean);
          count = std::count(holds.data<bool>(), holds.data<bool>() + holds.numel(), true);
        }
        op.set_out("Out", DType::int64, {count, condition.shape.rank()});
      })
      .kernel(untyped([](const KernelSite& site) {
        const Shape shape = site.in("Condition").shape;
        return [=](const KernelArgs& k) {
          const Strides steps = strides_of(shape);
          auto* out = k.out<int64_t>(0);
          for (int64_t i = 0; i < shape.count(); ++i) {
            if (element_as_double(k.in(0), i) == 0) continue;
            for (int d = 0; d < shape.rank(); ++d) {
              *out++ = i / steps[static_cast<size_t>(d)] % shape.at(d);
            }
          }
        };
      }))
      .traits({.reads_values = {"Condition"}});
}

}  // namespace

void register_tensor_index(Registry& ops) {
  register_rows(ops);
  register_single_places(ops);
  one_hot(ops, false);
  one_hot(ops, true);
  register_where(ops);
}

}  // namespace trireme
