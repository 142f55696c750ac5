// Elements picked at random: randperm, random_crop.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/tensor/random_source.h"

namespace trireme {
namespace {

// ---- randperm

void randperm_shape(OpView& op) {
  const DType dtype = dtype_attr(op, "dtype");
  if (dtype != DType::int32 && dtype != DType::int64) {
    throw op.error(cat("dtype is ", name_of(dtype))).fix("choose int64 (3) or int32 (2)");
  }
  op.set_out("Out", dtype, {op.attr<int32_t>("n")});
}

template <class T>
BoundKernel randperm(const KernelSite& site) {
  const int64_t count = site.out("Out").shape.at(0);
  return [=, source = random_source(site)](const KernelArgs& k) {
    const Philox philox = source.philox(k);
    T* out = k.out<T>(0);
    std::iota(out, out + count, T{0});
    for (int64_t i = 0; i + 1 < count; ++i) {
      const double drawn = philox.uniform(static_cast<uint64_t>(i));
      std::swap(out[i], out[i + static_cast<int64_t>(drawn * static_cast<double>(count - i))]);
    }
  };
}

// ---- random_crop

void random_crop_shape(OpView& op) {
  const ValueInfo &x = op.in("X"), &seed = op.in("Seed");
  const auto wanted = op.attr<std::vector<int32_t>>("shape");
  const int kept = x.shape.rank() - static_cast<int>(wanted.size());
  if (seed.known && seed.dtype != DType::int64) {
    throw Error(ErrorKind::type_mismatch, cat("Seed holds ", name_of(seed.dtype)))
        .fix("cast Seed to int64");
  }
  if (wanted.empty() || kept < 0) {
    throw op.error(cat("X has shape ", x.shape, " but shape is [", join(wanted), "]"))
        .fix("give extents of the last dimensions");
  }
  Shape out = x.shape;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const int d = kept + static_cast<int>(i);
    if (wanted[i] < 1 || (x.shape[d].known() && wanted[i] > x.shape.at(d))) {
      throw op.error(cat("shape is [", join(wanted), "] but X has ", x.shape))
          .fix("cut out a part that X has");
    }
    out[d] = wanted[i];
  }
  op.set_out("Out", x.dtype, out);
  op.set_out("SeedOut", DType::int64, {1});
}

// Every instance is cut at a place of its own, drawn from the seed; the next seed follows from it.
BoundKernel random_crop(const KernelSite& site) {
  const Shape x = site.in("X").shape, out = site.out("Out").shape;
  const auto wanted = site.attr<std::vector<int32_t>>("shape");
  const int kept = x.rank() - static_cast<int>(wanted.size());
  const int64_t instances = x.product(0, kept).value();
  const int64_t from_size = x.product(kept, x.rank()).value();
  const int64_t to_size = out.product(kept, out.rank()).value(), run = out.at(out.rank() - 1);
  const Strides steps = strides_of(x);
  const int x_at = site.position("X"), seed_at = site.position("Seed");
  const int out_at = site.out_position("Out"), next_at = site.out_position("SeedOut");
  const size_t bytes = size_of(site.in("X").dtype);
  const uint64_t stream = random_stream(site);
  return [=](const KernelArgs& k) {
    const auto seed = static_cast<uint64_t>(k.in<int64_t>(seed_at)[0]);
    const Philox philox = RandomSource(seed, stream, PerStep::repeat).philox(k);
    const auto* from = static_cast<const std::byte*>(k.in(x_at).address());
    auto* to = k.has_out(out_at) ? static_cast<std::byte*>(k.out(out_at).address()) : nullptr;
    uint64_t drawn = 1;
    for (int64_t n = 0; to && n < instances; ++n) {
      int64_t begin = n * from_size;
      for (int d = kept; d < x.rank(); ++d) {
        const auto room = static_cast<double>(x.at(d) - out.at(d) + 1);
        begin +=
            static_cast<int64_t>(philox.uniform(drawn++) * room) * steps[static_cast<size_t>(d)];
      }
      for (int64_t at = 0; at < to_size; at += run) {
        int64_t place = begin, rest = at / run;
        for (int d = x.rank() - 2; d >= kept; --d) {
          place += rest % out.at(d) * steps[static_cast<size_t>(d)];
          rest /= out.at(d);
        }
        std::memcpy(to + static_cast<size_t>(n * to_size + at) * bytes,
                    from + static_cast<size_t>(place) * bytes, static_cast<size_t>(run) * bytes);
      }
    }
    if (k.has_out(next_at)) {
      k.out<int64_t>(next_at)[0] = static_cast<int64_t>(philox.bits(0) >> 1) + 1;
    }
  };
}

}  // namespace

void register_random_pick(Registry& ops) {
  ops.op("randperm")
      .doc("The numbers from 0 to n, not included, in a random order")
      .out("Out", "[n]")
      .required_attr<int32_t>("n", "how many")
      .at_least(1)
      .attr("dtype", 3, "int64 (3) or int32 (2)")
      .attr("seed", 0, "0: the process's own")
      .shape(randperm_shape)
      .traits({.random = true})
      .kernel([](const KernelSite& site, std::string* why_not) {
        return for_dtype<int32_t, int64_t>(site.out("Out").dtype, why_not,
                                           [&]<class T>() { return randperm<T>(site); });
      })
      .sample([](Draw&) {
        return OpSample{.attrs = {{"n", int32_t{5}}, {"seed", int32_t{3}}}};
      });
  ops.op("random_crop")
      .doc("A part of every instance, at random places")
      .in("X", "[..., extents]")
      .in("Seed", "int64 [1]: the seed of these places")
      .out("Out", "[..., shape]")
      .out_intermediate("SeedOut", "int64 [1]: the seed of the next ones")
      .required_attr<std::vector<int32_t>>("shape", "extents of the part, of the last dimensions")
      .attr("startup_seed", 0, "accepted; Seed says it")
      .shape(random_crop_shape)
      .traits({.random = true})
      .kernel(untyped(random_crop))
      .inplace("Seed", "SeedOut")
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({2, 4, 5})}}, {"Seed", {d.ints({1}, 1, 9)}}},
                        .attrs = {{"shape", std::vector<int32_t>{2, 3}}}};
      });
}

}  // namespace trireme
