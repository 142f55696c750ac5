// Widens half-precision operands, runs the float32 kernel, and rounds its results.
#include "runtime/half.h"

#include <deque>
#include <memory>

#include "core/text.h"

namespace trireme {
namespace {

bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

// What a widened kernel works on: its own float32 tensors where the operand is half.
struct Widened {
  std::vector<Variable> ins, outs;
  std::vector<Variable*> in_pointers, out_pointers;
};

// Shape and LoD, in the memory it has: a step whose shapes stay asks for none.
void take_form(const Tensor& half, Tensor& wide) {
  wide.resize(DType::float32, half.shape());
  if (wide.lod() != half.lod()) wide.set_lod(half.lod());
}

KernelFn widen(std::shared_ptr<Widened> own) {
  return [own](const KernelArgs& k) {
    for (size_t i = 0; i < own->ins.size(); ++i) {
      own->in_pointers[i] = k.ins[i];
      if (!k.ins[i] || k.ins[i]->kind() != Kind::dense || !is_half(k.in(i).dtype())) continue;
      Tensor& wide = own->ins[i].tensor();
      take_form(k.in(i), wide);
      cast_elements(k.in(i), wide, 0, wide.numel());
      own->in_pointers[i] = &own->ins[i];
    }
    for (size_t i = 0; i < own->outs.size(); ++i) {
      own->out_pointers[i] = k.outs[i];
      if (!k.outs[i] || k.outs[i]->kind() != Kind::dense || !is_half(k.out(i).dtype())) continue;
      take_form(k.out(i), own->outs[i].tensor());
      own->out_pointers[i] = &own->outs[i];
    }
  };
}

template <class T>
void round_into(const float* from, Tensor& to) {
  T* result = to.data<T>();
  for (int64_t i = 0; i < to.shape().count(); ++i) result[i] = T(from[i]);
}

KernelFn round_back(std::shared_ptr<Widened> own) {
  return [own](const KernelArgs& k) {
    for (size_t i = 0; i < own->outs.size(); ++i) {
      if (own->out_pointers[i] != &own->outs[i]) continue;
      const float* wide = std::as_const(own->outs[i]).tensor().data<float>();
      Tensor& out = k.out(i);
      out.dtype() == DType::float16 ? round_into<float16>(wide, out)
                                    : round_into<bfloat16>(wide, out);
    }
  };
}

KernelFn on_own(std::shared_ptr<Widened> own, KernelFn run) {
  return [own, run = std::move(run)](const KernelArgs& k) {
    KernelArgs args = k;
    args.ins = own->in_pointers.data();
    args.outs = own->out_pointers.data();
    run(args);
  };
}

BoundKernel between(BoundKernel inner, size_t ins, size_t outs) {
  auto own = std::make_shared<Widened>();
  own->ins.resize(ins);
  own->outs.resize(outs);
  own->in_pointers.resize(ins);
  own->out_pointers.resize(outs);
  BoundKernel kernel(widen(own));
  kernel.scratch = inner.scratch;
  kernel.then.push_back(BoundKernel(on_own(own, std::move(inner.run)), inner.parts));
  for (BoundKernel& phase : inner.then) {
    kernel.then.push_back(BoundKernel(on_own(own, std::move(phase.run)), phase.parts));
  }
  kernel.then.push_back(BoundKernel(round_back(own)));
  return kernel;
}

}  // namespace

std::optional<BoundKernel> bind_in_float(const Node& node, std::vector<ValueInfo*> facts,
                                         std::vector<std::string>& refusals) {
  std::deque<ValueInfo> widened;
  for (const std::vector<int>& values : {node.ins, node.outs}) {
    for (const int value : values) {
      if (value < 0 || !is_half(facts[value]->dtype)) continue;
      if (facts[value]->type != VarType::lod_tensor) return std::nullopt;
      widened.push_back(*facts[value]);
      widened.back().dtype = DType::float32;
      facts[value] = &widened.back();
    }
  }
  if (widened.empty()) return std::nullopt;
  const OpView view = view_of(node, facts);
  for (const Kernel& kernel : node.schema->kernels()) {
    std::string why_not;
    if (std::optional<BoundKernel> made = kernel.make(view, &why_not)) {
      return between(std::move(*made), node.ins.size(), node.outs.size());
    }
    refusals.push_back(cat(kernel.name, " in float32: ", why_not));
  }
  return std::nullopt;
}

}  // namespace trireme
