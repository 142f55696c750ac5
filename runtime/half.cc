// Widens half-precision operands, runs the float32 kernel, and rounds its results.
#include "runtime/half.h"

#include <deque>
#include <memory>

#include "core/text.h"
#include "ir/device_kernels.h"

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

KernelFn widen(const std::shared_ptr<Widened>& own) {
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

KernelFn round_back(const std::shared_ptr<Widened>& own) {
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

KernelFn on_own(const std::shared_ptr<Widened>& own, KernelFn run) {
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

// ---- on a device: casts and kernel are work of its queue, one behind the other

// The device's own kernel that casts a tensor of these facts.
KernelFn device_cast(DeviceKind kind, ValueInfo from, DType to) {
  ValueInfo result = from;
  result.dtype = to;
  Node node;
  node.schema = &op_table().get("p.cast");
  node.attrs = std::make_shared<const Attrs>(Attrs{{"dtype", static_cast<int32_t>(to)}});
  node.ins = {0};
  node.outs = {1};
  node.in_counts = node.out_counts = {1};
  const std::vector<ValueInfo*> facts{&from, &result};
  const OpView view = view_of(node, facts);
  for (const Kernel& kernel : kernels_for(*node.schema, kind)) {
    std::string why_not;
    if (std::optional<BoundKernel> made = kernel.make(view, &why_not)) return std::move(made->run);
  }
  throw InternalError(cat("a device has no kernel that casts ", name_of(from.dtype)));
}

struct DeviceCast {
  size_t at;  // an operand's position, or a result's
  KernelFn run;
};

struct WidenedOnDevice : Widened {
  Place place;
  std::vector<DeviceCast> before, behind;
  BoundKernel inner;

  void give(const KernelArgs& k) {
    for (size_t i = 0; i < ins.size(); ++i) in_pointers[i] = k.ins[i];
    for (size_t i = 0; i < outs.size(); ++i) out_pointers[i] = k.outs[i];
    for (const DeviceCast& cast : before) {
      if (!k.ins[cast.at]) continue;
      take_form_there(k.in(static_cast<int>(cast.at)), ins[cast.at].tensor());
      in_pointers[cast.at] = &ins[cast.at];
      convert(cast.run, k, k.ins[cast.at], &ins[cast.at]);
    }
    for (const DeviceCast& cast : behind) {
      if (!k.outs[cast.at]) continue;
      take_form_there(k.out(static_cast<int>(cast.at)), outs[cast.at].tensor());
      out_pointers[cast.at] = &outs[cast.at];
    }
  }
  void take_back(const KernelArgs& k) {
    for (const DeviceCast& cast : behind) {
      if (k.outs[cast.at]) convert(cast.run, k, &outs[cast.at], k.outs[cast.at]);
    }
  }

 private:
  void take_form_there(const Tensor& half, Tensor& wide) const {
    wide.resize(DType::float32, half.shape(), place);
    if (wide.lod() != half.lod()) wide.set_lod(half.lod());
  }
  static void convert(const KernelFn& run, const KernelArgs& k, Variable* from, Variable* to) {
    KernelArgs args = k;
    args.ins = &from;
    args.outs = &to;
    run(args);
  }
};

BoundKernel between_on_device(BoundKernel inner, const OpView& view, const Place& place) {
  auto own = std::make_shared<WidenedOnDevice>();
  own->place = place;
  own->ins.resize(view.in_size());
  own->outs.resize(view.out_size());
  own->in_pointers.resize(view.in_size());
  own->out_pointers.resize(view.out_size());
  for (size_t i = 0; i < view.in_size(); ++i) {
    const ValueInfo* info = view.in_at(i);
    if (!info || !is_half(info->dtype)) continue;
    own->before.push_back({i, device_cast(place.kind, *info, DType::float32)});
  }
  for (size_t i = 0; i < view.out_size(); ++i) {
    const ValueInfo* info = view.out_at(i);
    if (!info || !is_half(info->dtype)) continue;
    ValueInfo wide = *info;
    wide.dtype = DType::float32;
    own->behind.push_back({i, device_cast(place.kind, wide, info->dtype)});
  }
  BoundKernel kernel;
  kernel.scratch = inner.scratch;
  kernel.runs = inner.runs;
  own->inner = std::move(inner);
  kernel.run = [own](const KernelArgs& k) {
    own->give(k);
    KernelArgs args = k;
    args.ins = own->in_pointers.data();
    args.outs = own->out_pointers.data();
    own->inner.run(args);
    for (const BoundKernel& phase : own->inner.then) phase.run(args);
    own->take_back(k);
  };
  return kernel;
}

}  // namespace

std::optional<BoundKernel> bind_in_float(const Node& node, std::vector<ValueInfo*> facts,
                                         const Place& place, std::vector<std::string>& refusals) {
  const OpView own = view_of(node, facts);
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
  for (const Kernel& kernel : kernels_for(*node.schema, place.kind)) {
    std::string why_not;
    if (std::optional<BoundKernel> made = kernel.make(view, &why_not)) {
      return place.kind == DeviceKind::cpu
                 ? between(std::move(*made), node.ins.size(), node.outs.size())
                 : between_on_device(std::move(*made), own, place);
    }
    refusals.push_back(cat(kernel.name, " in float32: ", why_not));
  }
  return std::nullopt;
}

}  // namespace trireme
