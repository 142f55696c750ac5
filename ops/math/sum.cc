// The sum of several tensors, SelectedRows or tensor arrays: what gradients meet in.
#include <algorithm>

#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

void sum_shape(OpView& op) {
  const size_t n = op.count("X");
  const ValueInfo* dense = nullptr;
  const ValueInfo* rows = nullptr;
  const ValueInfo* array = nullptr;
  Dim all_rows = 0;
  for (size_t i = 0; i < n; ++i) {
    const ValueInfo& x = op.in("X", i);
    const ValueInfo*& first = x.type == VarType::selected_rows      ? rows
                              : x.type == VarType::lod_tensor_array ? array
                                                                    : dense;
    if (!first) first = &x;
    if (x.type == VarType::selected_rows && x.shape.rank() > 0) all_rows = all_rows + x.shape[0];
    if (x.known && first->known && x.dtype != first->dtype) {
      throw Error(ErrorKind::type_mismatch, cat("X[", i, "] holds ", name_of(x.dtype),
                                                " but X[0] holds ", name_of(first->dtype)))
          .fix("cast the inputs to one type");
    }
    if (x.type == VarType::lod_tensor && !x.shape.may_equal(first->shape)) {
      throw op.error(cat("X[", i, "] has shape ", x.shape, " but X[0] has ", first->shape))
          .fix("give inputs of one shape");
    }
  }
  if (array && (dense || rows)) {
    throw op.error("tensor arrays are added to other kinds").fix("give arrays only, or none");
  }
  if (array || dense) {
    op.set_out_like("Out", array ? *array : *dense);
    if (!dense) return;
    // The most definite extents of all.
    for (size_t i = 0; i < n; ++i) {
      const ValueInfo& x = op.in("X", i);
      if (x.type != VarType::lod_tensor) continue;
      Shape& out = op.out("Out").shape;
      for (int d = 0; d < out.rank(); ++d) out[d] = Dim::join(out[d], x.shape[d]);
    }
    return;
  }
  op.set_out_like("Out", *rows);
  if (op.out("Out").shape.rank() > 0) op.out("Out").shape[0] = all_rows;
}

void sum_body(Body& b) {
  Expr total = b.in("X", 0);
  if (b.count("X") == 1) total = reshape_like(total, total);
  for (size_t i = 1; i < b.count("X"); ++i) total = total + b.in("X", i);
  b.out("Out") = total;
}

void append_rows(const KernelArgs& k, size_t inputs) {
  SelectedRows& out = k.outs[0]->rows();
  out.rows.clear();
  auto* to = static_cast<std::byte*>(out.value.raw());
  for (size_t i = 0; i < inputs; ++i) {
    const SelectedRows& x = std::as_const(*k.ins[i]).rows();
    out.height = x.height;
    if (x.rows.empty()) continue;
    out.rows.insert(out.rows.end(), x.rows.begin(), x.rows.end());
    const auto bytes = x.value.bytes();
    to = std::copy(bytes.begin(), bytes.end(), to);
  }
}

template <class T>
void add_to(const T* from, int64_t n, T* to) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

template <class T>
void add_mixed(const KernelArgs& k, size_t inputs) {
  Tensor& out = k.out(0);
  fill(out, 0, 0, out.numel());
  for (size_t i = 0; i < inputs; ++i) {
    if (k.ins[i]->kind() == Kind::dense) {
      const Tensor& x = k.in(static_cast<int>(i));
      add_to(x.data<T>(), x.numel(), out.data<T>());
      continue;
    }
    const SelectedRows& x = std::as_const(*k.ins[i]).rows();
    if (x.rows.empty()) continue;
    const int64_t width = x.value.numel() / static_cast<int64_t>(x.rows.size());
    const T* from = x.value.data<T>();
    for (const int64_t row : x.rows) {
      if (row < 0 || (row + 1) * width > out.numel()) {
        throw Error(
            cat("X[", i, "] names row ", row, " but the dense inputs have shape ", out.shape()))
            .fix("add gradients of one parameter only");
      }
      add_to(from, width, out.data<T>() + row * width);
      from += width;
    }
  }
}

template <class T>
void add_arrays(const KernelArgs& k, size_t inputs) {
  const bool in_place = k.ins[0] == k.outs[0];
  TensorArray& total = k.outs[0]->array();
  if (!in_place) total.clear();
  for (size_t i = in_place ? 1 : 0; i < inputs; ++i) {
    const TensorArray& x = std::as_const(*k.ins[i]).array();
    if (total.size() < x.size()) total.resize(x.size());
    for (size_t j = 0; j < x.size(); ++j) {
      if (!x[j].initialized()) continue;
      if (!total[j].initialized()) {
        total.renew(j).copy_from(x[j]);
      } else if (total[j].shape() != x[j].shape()) {
        throw Error(cat("element ", j, " has shape ", x[j].shape(), " in X[", i, "] but ",
                        total[j].shape(), " before"));
      } else {
        add_to(x[j].data<T>(), x[j].numel(), total[j].data<T>());
      }
    }
  }
}

std::optional<BoundKernel> sum_kernel(const KernelSite& site, std::string* why_not) {
  const size_t n = site.count("X");
  const VarType result = site.out("Out").type;
  if (result == VarType::selected_rows) {
    return BoundKernel([n](const KernelArgs& k) { append_rows(k, n); });
  }
  const bool arrays = result == VarType::lod_tensor_array;
  return for_dtype<float, double, int32_t, int64_t>(site.out("Out").dtype, why_not, [=]<class T>() {
    return [=](const KernelArgs& k) { arrays ? add_arrays<T>(k, n) : add_mixed<T>(k, n); };
  });
}

void sum_grad(GradMaker& g) {
  for (const std::string& x : g.in_grad("X")) {
    if (x == kEmptyVar) continue;
    g.append({"scale",
              {{"X", g.out_grad("Out")}},
              {{"Out", {x}}},
              {{"scale", 1.0f}, {"bias", 0.0f}, {"bias_after_scale", true}}});
  }
}

}  // namespace

void register_sum(Registry& ops) {
  ops.op("sum")
      .traits({.linear = true})
      .in_list("X", "tensors of one shape, SelectedRows of one table, or tensor arrays")
      .out("Out", "their sum: SelectedRows when all are, an array when they are arrays")
      .shape(sum_shape)
      .body(sum_body)
      .kernel(sum_kernel)
      .grad_maker(sum_grad)
      .sample([](Draw& d) {
        const Shape shape = d.shape(1, 3);
        OpSample sample;
        for (int64_t i = d.size(1, 4); i > 0; --i) {
          sample.inputs["X"].push_back(d.uniform(shape));
        }
        return sample;
      });
}

}  // namespace trireme
