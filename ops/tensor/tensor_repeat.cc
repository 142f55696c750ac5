// Ops that repeat a tensor or turn it round: expand and reverse.
#include <algorithm>

#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

// ---- expand

std::vector<int64_t> expand_times(const OpView& op) {
  std::vector<int64_t> times;
  if (op.has("ExpandTimes")) {
    times = read_ints(op, "ExpandTimes");
    if (times.empty()) times.assign(static_cast<size_t>(op.in("X").shape.rank()), -1);
  } else if (op.has("expand_times_tensor")) {
    for (size_t i = 0; i < op.count("expand_times_tensor"); ++i) {
      const std::vector<int64_t> read = read_ints(op, "expand_times_tensor", i);
      times.push_back(read.empty() ? -1 : read[0]);
    }
  } else {
    const auto attr = op.attr<std::vector<int32_t>>("expand_times");
    times.assign(attr.begin(), attr.end());
  }
  return times;
}

void expand_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  const std::vector<int64_t> times = expand_times(op);
  if (static_cast<int>(times.size()) != x.shape.rank()) {
    throw op
        .error(cat("expand_times [", join(times), "] has ", times.size(), " numbers but X has ",
                   x.shape.rank(), " dimensions"))
        .fix("give one repeat count for every dimension");
  }
  Shape out;
  for (int d = 0; d < x.shape.rank(); ++d) {
    const int64_t n = times[static_cast<size_t>(d)];
    if (n == 0 || n < -1) {
      throw op.error(cat("expand_times[", d, "] is ", n)).fix("repeat at least once");
    }
    out.push_back(n < 0 ? Dim() : x.shape[d] * Dim(n));
  }
  op.set_out("Out", x.dtype, out);
  if (!times.empty() && times[0] == 1) carry_lod(op, "Out", {"X"});
}

// Calls f(wide, narrow) for every element of the repeated shape and the one it repeats.
template <class F>
void each_repeat(const Shape& wide, const Shape& narrow, F f) {
  const Strides steps = strides_of(narrow);
  std::array<int64_t, kMaxRank> index{};
  const int64_t count = wide.count();
  for (int64_t at = 0; at < count; ++at) {
    int64_t from = 0;
    for (int d = 0; d < wide.rank(); ++d) {
      const auto i = static_cast<size_t>(d);
      from += index[i] % narrow.at(d) * steps[i];
    }
    f(at, from);
    for (int d = wide.rank() - 1; d >= 0; --d) {
      if (++index[static_cast<size_t>(d)] < wide.at(d)) break;
      index[static_cast<size_t>(d)] = 0;
    }
  }
}

BoundKernel expand_kernel(const KernelSite& site) {
  const Shape x = site.in("X").shape, out = site.out("Out").shape;
  return by_size(site.in("X").dtype, [&]<class T>() {
    return BoundKernel([=](const KernelArgs& k) {
      const T* from = raw_as<T>(k.in(0));
      T* to = raw_as<T>(k.out(0));
      each_repeat(out, x, [&](int64_t wide, int64_t narrow) { to[wide] = from[narrow]; });
    });
  });
}

template <class T>
BoundKernel expand_grad_kernel(const KernelSite& site) {
  const Shape x = site.out("X@GRAD").shape, out = site.in("Out@GRAD").shape;
  return [=, grad_at = site.position("Out@GRAD")](const KernelArgs& k) {
    const T* grad = k.in<T>(grad_at);
    T* to = k.out<T>(0);
    std::fill_n(to, x.count(), T{0});
    each_repeat(out, x, [&](int64_t wide, int64_t narrow) { to[narrow] += grad[wide]; });
  };
}

// ---- reverse

BoundKernel reverse_kernel(const KernelSite& site) {
  const Shape& x = site.in("X").shape;
  Strides steps = strides_of(x);
  int64_t start = 0;
  for (const int axis :
       normal_axes(site, site.attr<std::vector<int32_t>>("axis"), x.rank(), "axis")) {
    int64_t& step = steps[static_cast<size_t>(axis)];
    start += std::max<int64_t>(x.at(axis) - 1, 0) * step;
    step = -step;
  }
  const Walk<1> walk(x, {steps});
  return by_size(site.in("X").dtype, [&]<class T>() {
    return BoundKernel(
        [walk, start](const KernelArgs& k) {
          const T* from = raw_as<T>(k.in(0)) + start;
          T* to = raw_as<T>(k.out(0));
          walk.runs(k.range(walk.count()), [&](int64_t at, const auto& offset, int64_t n) {
            for (int64_t i = 0; i < n; ++i) to[at + i] = from[offset[0] + i * walk.step(0)];
          });
        },
        parts_for(walk.count()));
  });
}

}  // namespace

void register_tensor_repeat(Registry& ops) {
  ops.op("expand")
      .in("X", "any shape and type")
      .in_optional("ExpandTimes", "repeat counts; used instead of expand_times")
      .in_optional_list("expand_times_tensor", "one count each; used instead of expand_times")
      .out("Out", "X repeated along each dimension")
      .attr("expand_times", std::vector<int32_t>{}, "how often along each dimension")
      .shape(expand_shape)
      .kernel(untyped(expand_kernel))
      .grad({"X", "ExpandTimes", "expand_times_tensor"})
      .no_grad({"ExpandTimes", "expand_times_tensor"})
      .grad_kernel(typed_by<float, double>(
          "Out@GRAD", []<class T>(const KernelSite& site) { return expand_grad_kernel<T>(site); }))
      .second_grad_is_itself()
      .traits({.reads_values = {"ExpandTimes", "expand_times_tensor"}})
      .sample([](Draw& d) {
        const Shape x = d.shape(1, 3);
        std::vector<int32_t> times;
        for (int i = 0; i < x.rank(); ++i) times.push_back(static_cast<int32_t>(d.size(1, 3)));
        return OpSample{.inputs = {{"X", {d.uniform(x)}}}, .attrs = {{"expand_times", times}}};
      });
  ops.op("reverse")
      .in("X", "any shape and type")
      .out("Out", "X with the order along some dimensions turned round")
      .required_attr<std::vector<int32_t>>("axis", "which dimensions")
      .shape([](OpView& op) {
        const ValueInfo& x = op.in("X");
        normal_axes(op, op.attr<std::vector<int32_t>>("axis"), x.shape.rank(), "axis");
        op.set_out("Out", x.dtype, x.shape);
      })
      .kernel(untyped(reverse_kernel))
      .grad_maker([](GradMaker& g) {
        g.append({"reverse",
                  {{"X", g.out_grad("Out")}},
                  {{"Out", g.in_grad("X")}},
                  {{"axis", g.op().attr<std::vector<int32_t>>("axis")}}});
      })
      .sample([](Draw& d) {
        return OpSample{
            .inputs = {{"X", {d.uniform(d.shape(2, 3))}}},
            .attrs = {{"axis", d.coin() ? std::vector<int32_t>{1} : std::vector<int32_t>{0, -1}}}};
      });
}

}  // namespace trireme
