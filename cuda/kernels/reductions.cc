// Primitives that fold a tensor along some of its axes, in an order that sizes alone decide.
#include "core/text.h"
#include "cuda/emit.h"
#include "cuda/kernels/register.h"
#include "ops/rules.h"

namespace trireme::cuda {
namespace {

enum class Folds { sum, mean, prod, max, min, all, any };

Fold fold_of(Folds kind, DType dtype, int64_t folded) {
  const std::string type = type_text(dtype), number = number_type(dtype);
  const bool real = is_floating(dtype);
  Fold fold{.acc = real ? "double" : "uint64",
            .start = kind == Folds::prod ? "1" : "0",
            .load = cat("const ", number, " x = ((const ", type, "*)p.at[1])[e];\n")};
  const auto binary = [&](const std::string& op) {
    fold.fold = cat("acc ", op, " (", fold.acc, ")x");
    fold.combine = cat("acc ", op, " other");
  };
  std::string finish = "acc";
  switch (kind) {
    case Folds::mean:
      finish = cat("acc / ", static_cast<double>(folded), " ");
      [[fallthrough]];
    case Folds::sum:
      binary("+");
      break;
    case Folds::prod:
      binary("*");
      break;
    case Folds::max:
    case Folds::min: {
      // Every result has an element; the first stands for a start of its own. NaN wins.
      const std::string op = kind == Folds::max ? ">" : "<";
      fold.acc = number;
      fold.start = cat("((const ", type, "*)p.at[1])[base]");
      fold.fold = cat("(x ", op, " acc || x != x ? x : acc)");
      fold.combine = cat("(other ", op, " acc || other != other ? other : acc)");
      break;
    }
    case Folds::all:
    case Folds::any:
      fold.acc = "bool";
      fold.start = kind == Folds::all ? "true" : "false";
      fold.fold = kind == Folds::all ? "acc && x" : "acc || x";
      fold.combine = kind == Folds::all ? "acc && other" : "acc || other";
      break;
  }
  fold.stored = cat("((", type, "*)p.at[0])[at] = (", type, ")(", finish, ");\n");
  return fold;
}

BoundKernel fold_kernel(const KernelSite& site, const std::vector<int>& axes, Folds kind) {
  const ValueInfo& in = site.in("A");
  const int64_t results = site.out("Out").shape.count();
  if ((kind == Folds::max || kind == Folds::min) && results > 0 && in.shape.count() == 0) {
    throw site
        .error(cat("the ", kind == Folds::max ? "largest" : "smallest",
                   " of no elements is asked for: A has shape ", in.shape))
        .fix("give the reduced axes at least one element");
  }
  const int64_t folded = results == 0 ? 0 : in.shape.count() / results;
  return on_queue(folding(in.shape, axes, fold_of(kind, in.dtype, folded), 2),
                  [](const KernelArgs& k) {
                    return AddressList{k.out(0).address(), k.in(0).address()};
                  });
}

BoundKernel sum_to_kernel(const KernelSite& site) {
  const Shape& from = site.in("A").shape;
  const Shape& to = site.in("B").shape;
  const int shift = from.rank() - to.rank();
  std::vector<int> axes;
  for (int d = 0; d < from.rank(); ++d) {
    const int64_t wanted = d < shift ? 1 : to.at(d - shift);
    if (wanted == from.at(d)) continue;
    if (wanted != 1)
      throw InternalError(cat("a value of shape ", from, " is no broadcast of ", to));
    axes.push_back(d);
  }
  return fold_kernel(site, axes, Folds::sum);
}

}  // namespace

void add_reductions(DeviceKernels& kernels) {
  const auto add = [&](const char* type, Folds kind) {
    const auto make = [kind](const KernelSite& site) {
      const std::vector<int> axes = normal_axes(site, site.attr<std::vector<int32_t>>("axes"),
                                                site.in("A").shape.rank(), "axes");
      return fold_kernel(site, axes, kind);
    };
    add_to(kernels, type, "generated", untyped(make), Halves::taken);
  };
  add("p.sum", Folds::sum);
  add("p.mean", Folds::mean);
  add("p.prod", Folds::prod);
  add("p.reduce_max", Folds::max);
  add("p.reduce_min", Folds::min);
  add("p.all", Folds::all);
  add("p.any", Folds::any);
  add_to(kernels, "p.sum_to_like", "generated", untyped(sum_to_kernel), Halves::taken);
}

}  // namespace trireme::cuda
