// Kernels: made when a plan is bound to shapes, then called with nothing left to decide.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/scope.h"
#include "ir/op_view.h"

namespace trireme {

class RunContext;  // ops/run_context.h
class Queue;       // core/device.h

struct KernelArgs {
  Variable* const* ins = nullptr;
  Variable* const* outs = nullptr;
  int part = 0;  // this call does part `part` of `parts`; parts touch disjoint outputs
  int parts = 1;
  std::byte* scratch = nullptr;  // BoundKernel::scratch bytes, shared by all parts and phases
  RunContext* run = nullptr;
  Queue* queue = nullptr;  // where the work goes (Runs::queue); null on the host

  bool has_in(int i) const { return i >= 0 && ins[i] != nullptr; }
  bool has_out(int i) const { return i >= 0 && outs[i] != nullptr; }
  const Tensor& in(int i) const { return std::as_const(*ins[i]).tensor(); }
  Tensor& out(int i) const { return outs[i]->tensor(); }
  template <class T>
  const T* in(int i) const {
    return in(i).data<T>();
  }
  template <class T>
  T* out(int i) const {
    return out(i).data<T>();
  }

  // This part's share of n things: contiguous, balanced, cut by n and parts alone.
  std::pair<int64_t, int64_t> range(int64_t n) const {
    return {n * part / parts, n * (part + 1) / parts};
  }
};

using KernelFn = std::function<void(const KernelArgs&)>;

// Where a kernel runs, and so when it has ended.
enum class Runs {
  team,    // on the CPU's threads, in parts: when it returned
  caller,  // on the caller's thread, alone: when it returned (print, save, readers, loops)
  queue,   // on a device's queue: when the queue has come to the end of it
  comm,    // with other members of a group: when its ticket is done
};

struct BoundKernel {
  KernelFn run;
  Runs runs = Runs::team;
  int parts = 1;  // into how many parts the work may be cut, by shape alone
  // Phases after `run`, in order: each begins when every part of the one before it is done. Their
  // own `scratch` and `then` are not looked at.
  std::vector<BoundKernel> then;
  size_t scratch = 0;  // bytes that live while the instruction runs, aligned to 64
  // A phase that only copies this operand into scratch, where no later phase writes. While the
  // operand stays as it is and nobody else has the scratch, it need not run again; -1: it must.
  int packs = -1;
  // For people: how it computes, beyond the kernel's name; and the bytes of operands that it copies
  // into another layout, whole, before it computes.
  std::string detail;
  size_t packed = 0;

  BoundKernel() = default;
  template <class F>
  requires std::is_invocable_v<F, const KernelArgs&> BoundKernel(F f, int parts = 1)
      : run(std::move(f)), parts(parts) {}  // NOLINT: a lambda is one

  // The first phase, or one after those there are.
  BoundKernel& add(KernelFn phase, int in_parts) {
    if (run) return then.emplace_back(std::move(phase), in_parts);
    run = std::move(phase);
    parts = in_parts;
    return *this;
  }
};

// Attributes and operand facts at bind: all shapes known, outputs inferred.
using KernelSite = OpView;

// Makes the kernel for a site, or declines (nullopt) and says why.
using KernelMake =
    std::function<std::optional<BoundKernel>(const KernelSite&, std::string* why_not)>;

struct Kernel {
  std::string name;  // "reference", "onednn", ...
  KernelMake make;
};

// The type that picks a typed kernel: of the first floating dense input, else of the first input,
// else of the first output.
DType kernel_dtype(const KernelSite& site);

// A recomputed op (append_backward's checkpoints) writes its outputs under names with this
// attribute's text at the end.
inline constexpr std::string_view kRecomputeSuffix = "recompute_suffix";
// A random op's number among those of its program, in the order in which they came into it. Its
// stream of random numbers hangs on it, never on names. Whatever copies the op keeps it: clones,
// files, transpilers, recomputation.
inline constexpr std::string_view kRandomPosition = "random_position";
// Set on a random op that draws a part of a variable (transpilers cut variables over servers): how
// many elements of the whole come before. Every part has the numbers of the whole.
inline constexpr std::string_view kSliceBegin = "slice_begin";
int64_t stream_begin(const KernelSite& site);
// The stream of a random op; its gradient op has the same.
uint64_t random_stream(const KernelSite& site);

// typed<float, double>([]<class T>(const KernelSite& site) { return [=](const KernelArgs& k) {...};
// })
template <class... Ts, class F>
KernelMake typed(F make) {
  return [make](const KernelSite& site, std::string* why_not) -> std::optional<BoundKernel> {
    const DType dtype = kernel_dtype(site);
    std::optional<BoundKernel> made;
    const bool found =
        ((dtype == dtype_of<Ts> ? (made = BoundKernel(make.template operator()<Ts>(site)), true)
                                : false) ||
         ...);
    if (!found && why_not) *why_not = "no kernel for " + std::string(name_of(dtype));
    return made;
  };
}

// For kernels that do not depend on the element type.
template <class F>
KernelMake untyped(F make) {
  return [make](const KernelSite& site, std::string*) -> std::optional<BoundKernel> {
    return BoundKernel(make(site));
  };
}

}  // namespace trireme
