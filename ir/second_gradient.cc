// Gradients of gradients as the original has them: an op with slots of its own, or the op itself.
#include "ir/second_gradient.h"

#include <algorithm>
#include <utility>

#include "core/text.h"

namespace trireme {
namespace {

// What a slot of the op holds, of a slot of the forward op.
struct Held {
  enum class What { value, gradient, gradient_of_gradient };
  What what = What::value;
  std::string of;
};

Held held_by(const OpSchema& forward, const std::string& slot) {
  const auto is_slot = [&](const std::string& name) {
    return forward.find_input(name) || forward.find_output(name);
  };
  if (is_slot(slot)) return {Held::What::value, slot};
  if (slot.ends_with(kGradSuffix)) {
    return {Held::What::gradient, slot.substr(0, slot.size() - kGradSuffix.size())};
  }
  if (slot.starts_with("DD") && is_slot(slot.substr(2))) {
    return {Held::What::gradient_of_gradient, slot.substr(2)};
  }
  promise(slot.starts_with("D") && is_slot(slot.substr(1)), "a slot says what it holds");
  return {Held::What::gradient, slot.substr(1)};
}

bool among(const std::vector<std::string>& slots, const std::string& slot) {
  return std::find(slots.begin(), slots.end(), slot) != slots.end();
}

// Variables of one input, as they are called where the gradient op is differentiated.
std::vector<std::string> operands_for(const GradMaker& g, const Held& held, bool filled) {
  const std::string gradient = grad_name(held.of);
  std::vector<std::string> names;
  if (held.what == Held::What::value) {
    names = g.in(held.of);
  } else if (held.what == Held::What::gradient) {
    names = g.in(gradient).empty() ? g.out(gradient) : g.in(gradient);
  } else if (filled || g.arrives(gradient)) {
    names = g.out_grad(gradient);
  }
  const bool none = std::all_of(names.begin(), names.end(),
                                [](const std::string& name) { return name == kEmptyVar; });
  return none ? std::vector<std::string>() : names;
}

// Every slot is written, empty where there is nothing, as the original does.
GradRule append_second_gradient(const OpSchema& forward, const OpSchema& second,
                                SecondGradient parts) {
  return [&forward, &second, parts = std::move(parts)](GradMaker& g) {
    OpSpec spec{.type = second.type(), .attrs = g.attrs_for(second)};
    std::vector<std::string> arrived;
    for (const std::string& slot : parts.ins) {
      const Held held = held_by(forward, slot);
      spec.inputs[slot] = operands_for(g, held, among(parts.filled, slot));
      if (held.what == Held::What::gradient_of_gradient && g.arrives(grad_name(held.of))) {
        arrived.push_back(slot);
      }
    }
    for (const SecondGradient::Result& result : parts.outs) {
      const bool there = std::ranges::any_of(arrived, [&](const std::string& slot) {
        return result.from.empty() || among(result.from, slot);
      });
      const Held held = held_by(forward, result.slot);
      const bool first = held.what == Held::What::gradient;
      spec.outputs[result.slot] =
          there ? g.in_grad(first ? held.of : grad_name(held.of)) : std::vector<std::string>();
    }
    if (!arrived.empty()) g.append(std::move(spec));
  };
}

// The input that has the shape of a result: the value it is the gradient of, or that one's
// gradient.
std::string shaped_like(const OpSchema& forward, const SecondGradient& parts,
                        const std::string& result) {
  std::string of = held_by(forward, result).of;
  if (among(parts.ins, of)) return of;
  promise(among(parts.ins, "D" + of), "a result has the shape of an input");
  return "D" + of;
}

}  // namespace

GradRule itself_as_second_gradient(const OpSchema& row) {
  return [&row](GradMaker& g) {
    const std::string &x = row.inputs().front().name, &out = row.outputs().front().name;
    if (!g.arrives(grad_name(x))) return;
    OpSpec spec{.type = row.type(),
                .inputs = {{x, g.out_grad(grad_name(x))}},
                .outputs = {{out, g.in_grad(grad_name(out))}},
                .attrs = g.attrs_for(row)};
    for (const SlotSpec& slot : row.inputs()) {
      if (slot.name != x) spec.inputs[slot.name] = g.in(slot.name);
    }
    g.append(std::move(spec));
  };
}

void Registry::second_gradient(OpSchema& row, SecondGradient parts) {
  OpSchema& second = op(row.grad_op_type() + "_grad");
  second.doc(cat("The gradient of ", row.grad_op_type(), "."));
  second.traits({.linear = true});
  for (std::string& slot : parts.ins) {
    const bool optional = slot.ends_with("?");
    if (optional) slot.pop_back();
    const Held held = held_by(row, slot);
    const bool arrives = held.what == Held::What::gradient_of_gradient;
    const std::string what =
        cat(arrives ? "what arrives at the gradient of "
                    : (held.what == Held::What::gradient ? "gradient of " : ""),
            held.of);
    optional || arrives ? second.in_optional(slot, what) : second.in(slot, what);
  }
  std::vector<std::pair<std::string, std::string>> shapes;
  for (const SecondGradient::Result& result : parts.outs) {
    const Held held = held_by(row, result.slot);
    const bool first = held.what == Held::What::gradient;
    second.out_optional(result.slot, cat("gradient of ", first ? held.of : grad_name(held.of)));
    shapes.emplace_back(result.slot, shaped_like(row, parts, result.slot));
  }
  second.attrs_ = row.attrs_;
  second.shape([shapes](OpView& op) {
    for (size_t i = 0; i < op.in_size(); ++i) {
      if (!op.in_at(i) || op.in_at(i)->type == VarType::lod_tensor) continue;
      throw Error(ErrorKind::unimplemented, cat(op.schema().type(), " takes dense tensors only"))
          .fix("let first gradients be dense: is_sparse=False");
    }
    for (const auto& [result, like] : shapes) op.set_out_like(result, op.in(like));
  });
  // In a program of the original, what arrives may be named and never computed.
  second.body([shapes, rule = parts.body](Body& b) {
    rule(b);
    for (const auto& [result, like] : shapes) {
      const int position = b.op().out_position(result);
      if (position >= 0 && !b.results()[static_cast<size_t>(position)]) {
        b.out(result) = full_like(b.in(like), 0.0);
      }
    }
  });
  row.second_grad_rule_ = append_second_gradient(row, second, std::move(parts));
}

}  // namespace trireme
