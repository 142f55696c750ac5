// Values without repeats: unique, unique_with_counts and unique_consecutive.
#include <algorithm>
#include <cstring>
#include <map>

#include "ops/rules.h"

namespace trireme {
namespace {

// What is compared: the slices of X along an axis, or every element. A slice is gathered into bytes
// that stand next to each other.
struct Items {
  int64_t outer = 1, count = 0, inner = 1;  // X as [outer, count, inner elements]
  Shape shape;                              // of the result, before its extent along the axis
  int axis = 0;

  Items(const Tensor& x, const std::vector<int32_t>& axes) {
    if (axes.empty()) {
      count = x.numel();
      shape = {count};
      return;
    }
    axis = axes[0] < 0 ? axes[0] + x.shape().rank() : axes[0];
    shape = x.shape();
    outer = shape.product(0, axis).value();
    count = shape.at(axis);
    inner = shape.product(axis + 1, shape.rank()).value();
  }
};

class Slices {
 public:
  Slices(const Tensor& x, const std::vector<int32_t>& axes) : items(x, axes), x_(x) {}

  bool equal(int64_t a, int64_t b) const { return compare(a, b) == 0; }
  int compare(int64_t a, int64_t b) const {
    for (int64_t i = 0; i < items.outer * items.inner; ++i) {
      const int64_t left = at(a, i), right = at(b, i);
      if (x_.dtype() == DType::int64) {  // wider than a double's digits
        const int64_t l = x_.data<int64_t>()[left], r = x_.data<int64_t>()[right];
        if (l != r) return l < r ? -1 : 1;
      } else {
        const double l = element_as_double(x_, left), r = element_as_double(x_, right);
        if (l != r) return l < r ? -1 : 1;
      }
    }
    return 0;
  }
  // The slices named, in that order.
  Tensor take(const std::vector<int64_t>& chosen) const {
    Shape shape = items.shape;
    shape[items.axis] = static_cast<int64_t>(chosen.size());
    Tensor out(x_.dtype(), shape);
    const size_t bytes = size_of(x_.dtype()) * static_cast<size_t>(items.inner);
    auto* to = out.bytes().data();
    for (int64_t o = 0; o < items.outer; ++o) {
      for (const int64_t slice : chosen) {
        const auto from = static_cast<size_t>(o * items.count + slice) * bytes;
        std::memcpy(to, x_.bytes().data() + from, bytes);
        to += bytes;
      }
    }
    return out;
  }

  Items items;

 private:
  int64_t at(int64_t slice, int64_t i) const {
    return (i / items.inner * items.count + slice) * items.inner + i % items.inner;
  }
  const Tensor& x_;
};

struct Found {
  std::vector<int64_t> first;    // of each value: where it stands first
  std::vector<int64_t> inverse;  // of each slice: which value it is
  std::vector<int64_t> counts;
};

Found find_consecutive(const Slices& slices) {
  Found found;
  for (int64_t i = 0; i < slices.items.count; ++i) {
    if (i == 0 || !slices.equal(i - 1, i)) {
      found.first.push_back(i);
      found.counts.push_back(0);
    }
    ++found.counts.back();
    found.inverse.push_back(static_cast<int64_t>(found.first.size()) - 1);
  }
  return found;
}

// In ascending order, or as they are first met.
Found find_unique(const Slices& slices, bool sorted) {
  const auto less = [&](int64_t a, int64_t b) { return slices.compare(a, b) < 0; };
  std::map<int64_t, std::vector<int64_t>, decltype(less)> groups(less);
  for (int64_t i = 0; i < slices.items.count; ++i) groups[i].push_back(i);
  std::vector<const std::vector<int64_t>*> order;
  for (const auto& [key, members] : groups) order.push_back(&members);
  if (!sorted) {
    std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->front() < b->front(); });
  }
  Found found;
  found.inverse.resize(static_cast<size_t>(slices.items.count));
  for (const std::vector<int64_t>* members : order) {
    for (const int64_t i : *members) {
      found.inverse[static_cast<size_t>(i)] = static_cast<int64_t>(found.first.size());
    }
    found.first.push_back(members->front());
    found.counts.push_back(static_cast<int64_t>(members->size()));
  }
  return found;
}

void put_ints(const KernelArgs& k, int at, const std::vector<int64_t>& values, DType dtype) {
  if (!k.has_out(at)) return;
  k.out(at) = cast(
      make_tensor<int64_t>({static_cast<int64_t>(values.size())}, std::span<const int64_t>(values)),
      dtype);
}

void unique_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  const auto axes = op.schema().find_attribute("axis") ? op.attr<std::vector<int32_t>>("axis")
                                                       : std::vector<int32_t>{};
  Shape out = {Dim()};
  Dim items = x.shape.numel();
  if (!axes.empty()) {
    const int axis = normal_axis(op, axes[0], x.shape.rank());
    out = x.shape;
    items = out[axis];
    out[axis] = Dim();
  }
  const DType index = dtype_attr(op, "dtype");
  if (!is_integer(index)) {
    throw op.error(cat("dtype is ", name_of(index), ", but indices are whole numbers"))
        .fix("use int32 or int64");
  }
  op.set_out("Out", x.dtype, out);
  for (const SlotSpec& slot : op.schema().outputs()) {
    if (slot.name == "Index") op.set_out("Index", index, {items});
    if (slot.name == "Indices" || slot.name == "Counts" || slot.name == "Count") {
      op.set_out(slot.name, index, {Dim()});
    }
  }
}

template <class Find>
KernelMake unique_kernel(Find find) {
  return untyped([find](const KernelSite& site) {
    const OpSchema& row = site.schema();
    const auto position = [&](const char* slot) {
      return row.find_output(slot) ? site.out_position(slot) : -1;
    };
    const auto axes = row.find_attribute("axis") ? site.attr<std::vector<int32_t>>("axis")
                                                 : std::vector<int32_t>{};
    const bool sorted = row.find_attribute("is_sorted") && site.attr<bool>("is_sorted");
    return [=, index = position("Index"), first = position("Indices"),
            counts = std::max(position("Counts"), position("Count")),
            dtype = dtype_attr(site, "dtype")](const KernelArgs& k) {
      const Slices slices(k.in(0), axes);
      const Found found = find(slices, sorted || !axes.empty());
      k.out(0) = slices.take(found.first);
      put_ints(k, index, found.inverse, dtype);
      put_ints(k, first, found.first, dtype);
      put_ints(k, counts, found.counts, dtype);
    };
  });
}

constexpr int32_t kInt64 = static_cast<int32_t>(DType::int64);

}  // namespace

void register_unique(Registry& ops) {
  const auto all = [](const Slices& slices, bool sorted) { return find_unique(slices, sorted); };
  const auto runs = [](const Slices& slices, bool) { return find_consecutive(slices); };
  ops.op("unique")
      .doc("Every value of X once, as they are first met or in ascending order")
      .in("X", "any tensor")
      .out("Out", "the values")
      .out_optional("Index", "for every element of X, which of Out it is")
      .out_optional("Indices", "for every element of Out, where it stands first in X")
      .out_optional("Counts", "for every element of Out, how often it is in X")
      .attr("dtype", kInt64, "element type of the indices")
      .attr("return_index", false, "Indices is wanted")
      .attr("return_inverse", false, "Index is wanted")
      .attr("return_counts", false, "Counts is wanted")
      .attr("axis", std::vector<int32_t>{}, "compare slices along this axis; none: elements")
      .attr("is_sorted", false, "ascending; along an axis always")
      .shape(unique_shape)
      .traits({.host = true})
      .kernel(unique_kernel(all));
  ops.op("unique_with_counts")
      .doc("Every value of X once, as they are first met, with its number")
      .in("X", "one dimension")
      .out("Out", "the values")
      .out("Index", "for every element of X, which of Out it is")
      .out("Count", "for every element of Out, how often it is in X")
      .attr("dtype", kInt64, "element type of the indices")
      .shape([](OpView& op) {
        if (const Shape& x = op.in("X").shape; x.rank() != 1) {
          throw op.error(cat("X has shape ", x, " but one dimension is taken"))
              .fix("reshape X to [-1]");
        }
        unique_shape(op);
      })
      .traits({.host = true})
      .kernel(unique_kernel(all));
  ops.op("unique_consecutive")
      .doc("X with equal neighbours made one")
      .in("X", "any tensor")
      .out("Out", "the values that differ from the one before")
      .out_optional("Index", "for every element of X, which of Out it is")
      .out_optional("Counts", "for every element of Out, how many neighbours it stands for")
      .attr("return_inverse", false, "Index is wanted")
      .attr("return_counts", false, "Counts is wanted")
      .attr("axis", std::vector<int32_t>{}, "compare slices along this axis; none: elements")
      .attr("dtype", kInt64, "element type of the indices")
      .shape(unique_shape)
      .traits({.host = true})
      .kernel(unique_kernel(runs));
}

}  // namespace trireme
