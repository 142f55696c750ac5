// Building rows of the op table, the gradient rows made from them, and the table itself.
#include "ir/schema.h"

#include <algorithm>
#include <mutex>

#include "core/lookups.h"

#include "ir/added_ops.h"
#include "ir/near_match.h"
#include "ir/second_gradient.h"

namespace trireme {
namespace {

template <class Spec>
const Spec* find_named(const std::vector<Spec>& specs, std::string_view name) {
  for (const Spec& spec : specs) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

// Every number in an attribute, whatever its type; nothing for texts and references.
std::vector<double> numbers_of(const Attribute& value) {
  return std::visit(
      [](const auto& v) -> std::vector<double> {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_arithmetic_v<T>) {
          return {static_cast<double>(v)};
        } else if constexpr (std::is_same_v<T, std::vector<int32_t>> ||
                             std::is_same_v<T, std::vector<int64_t>> ||
                             std::is_same_v<T, std::vector<float>> ||
                             std::is_same_v<T, std::vector<double>>) {
          return std::vector<double>(v.begin(), v.end());
        } else {
          return {};
        }
      },
      value);
}

}  // namespace

OpSchema& OpSchema::doc(std::string text) {
  doc_ = std::move(text);
  return *this;
}

OpSchema& OpSchema::add_slot(std::vector<SlotSpec>& slots, SlotSpec spec) {
  if (find_named(slots, spec.name)) {
    throw InternalError(cat("row ", type_, " names slot ", spec.name, " twice"));
  }
  slots.push_back(std::move(spec));
  return *this;
}

OpSchema& OpSchema::in(std::string name, std::string doc) {
  return add_slot(inputs_, {.name = std::move(name), .doc = std::move(doc)});
}
OpSchema& OpSchema::in_list(std::string name, std::string doc) {
  return add_slot(inputs_, {.name = std::move(name), .doc = std::move(doc), .duplicable = true});
}
OpSchema& OpSchema::in_optional(std::string name, std::string doc) {
  return add_slot(inputs_, {.name = std::move(name), .doc = std::move(doc), .dispensable = true});
}
OpSchema& OpSchema::in_optional_list(std::string name, std::string doc) {
  return add_slot(
      inputs_,
      {.name = std::move(name), .doc = std::move(doc), .duplicable = true, .dispensable = true});
}
OpSchema& OpSchema::out(std::string name, std::string doc) {
  return add_slot(outputs_, {.name = std::move(name), .doc = std::move(doc)});
}
OpSchema& OpSchema::out_list(std::string name, std::string doc) {
  return add_slot(outputs_, {.name = std::move(name), .doc = std::move(doc), .duplicable = true});
}
OpSchema& OpSchema::out_optional(std::string name, std::string doc) {
  return add_slot(outputs_, {.name = std::move(name), .doc = std::move(doc), .dispensable = true});
}
OpSchema& OpSchema::out_optional_list(std::string name, std::string doc) {
  return add_slot(
      outputs_,
      {.name = std::move(name), .doc = std::move(doc), .duplicable = true, .dispensable = true});
}
OpSchema& OpSchema::out_intermediate(std::string name, std::string doc) {
  return add_slot(outputs_, {.name = std::move(name), .doc = std::move(doc), .intermediate = true});
}

OpSchema& OpSchema::add_attr(AttrSpec spec) {
  if (find_attribute(spec.name)) {
    throw InternalError(cat("row ", type_, " names attribute ", spec.name, " twice"));
  }
  if (spec.fallback) spec.type = type_of(*spec.fallback);
  attrs_.push_back(std::move(spec));
  return *this;
}

OpSchema& OpSchema::add_check(std::function<std::string(const Attribute&)> problem) {
  if (attrs_.empty())
    throw InternalError(cat("row ", type_, " checks an attribute before naming one"));
  AttrSpec& spec = attrs_.back();
  if (!spec.problem) {
    spec.problem = std::move(problem);
    return *this;
  }
  spec.problem = [first = std::move(spec.problem),
                  second = std::move(problem)](const Attribute& value) {
    std::string text = first(value);
    return text.empty() ? second(value) : text;
  };
  return *this;
}

OpSchema& OpSchema::at_least(double low) {
  return add_check([low](const Attribute& value) -> std::string {
    for (const double number : numbers_of(value)) {
      if (!(number >= low)) return cat("it must be at least ", low);
    }
    return {};
  });
}

OpSchema& OpSchema::between(double low, double high) {
  return add_check([low, high](const Attribute& value) -> std::string {
    for (const double number : numbers_of(value)) {
      if (!(number >= low && number <= high)) return cat("it must be from ", low, " to ", high);
    }
    return {};
  });
}

OpSchema& OpSchema::one_of(std::vector<std::string> choices) {
  return add_check([choices = std::move(choices)](const Attribute& value) -> std::string {
    const auto* text = std::get_if<std::string>(&value);
    if (text && std::find(choices.begin(), choices.end(), *text) != choices.end()) return {};
    std::string problem = cat("it must be one of '", join(choices, "', '"), "'");
    const auto near = text ? near_matches(*text, choices) : std::vector<std::string>{};
    if (!near.empty()) problem += cat("; did you mean '", near.front(), "'?");
    return problem;
  });
}

OpSchema& OpSchema::shape(ShapeRule rule) {
  shape_ = std::move(rule);
  return *this;
}
OpSchema& OpSchema::body(BodyRule rule) {
  body_ = std::move(rule);
  return *this;
}
OpSchema& OpSchema::kernel(KernelMake make, std::string name) {
  kernels_.push_back({std::move(name), std::move(make)});
  return *this;
}
OpSchema& OpSchema::vjp(VjpRule rule) {
  vjp_ = std::move(rule);
  return *this;
}

OpSchema& OpSchema::grad(std::vector<std::string> uses) {
  has_grad_ = true;
  grad_uses_ = std::move(uses);
  return *this;
}
OpSchema& OpSchema::grad_outs(std::vector<std::string> slots) {
  grad_outs_ = std::move(slots);
  return *this;
}
OpSchema& OpSchema::grad_outs_if_any(std::vector<std::string> slots) {
  grad_outs_if_any_ = std::move(slots);
  return *this;
}

OpSchema& OpSchema::no_grad(const std::vector<std::string>& in_slots) {
  for (const std::string& name : in_slots) {
    const auto slot = std::find_if(inputs_.begin(), inputs_.end(),
                                   [&](const SlotSpec& spec) { return spec.name == name; });
    if (slot == inputs_.end()) throw InternalError(cat("row ", type_, " has no input slot ", name));
    slot->no_grad = true;
  }
  return *this;
}
OpSchema& OpSchema::grad_type(std::string type) {
  grad_type_ = std::move(type);
  return *this;
}
OpSchema& OpSchema::grad_shape(ShapeRule rule) {
  grad_shape_ = std::move(rule);
  return *this;
}
OpSchema& OpSchema::grad_body(BodyRule rule) {
  grad_body_ = std::move(rule);
  return *this;
}
OpSchema& OpSchema::grad_kernel(KernelMake make, std::string name) {
  grad_kernels_.push_back({std::move(name), std::move(make)});
  return *this;
}
OpSchema& OpSchema::grad_maker(GradRule rule) {
  grad_rule_ = std::move(rule);
  return *this;
}
OpSchema& OpSchema::grad_definition(BodyRule rule) {
  grad_definition_ = std::move(rule);
  return *this;
}
OpSchema& OpSchema::grad_vjp(VjpRule rule) {
  grad_vjp_ = std::move(rule);
  return *this;
}
OpSchema& OpSchema::second_grad_is_itself() {
  second_grad_rule_ = itself_as_second_gradient(*this);
  return *this;
}
OpSchema& OpSchema::region(RegionRule rule) {
  region_ = std::move(rule);
  return *this;
}
OpSchema& OpSchema::border(BorderRule rule) {
  border_ = std::move(rule);
  return *this;
}
OpSchema& OpSchema::sparse_grad(std::string in_slot) {
  sparse_grad_slot_ = std::move(in_slot);
  return *this;
}
OpSchema& OpSchema::inplace(std::string in_slot, std::string out_slot) {
  inplace_.emplace_back(std::move(in_slot), std::move(out_slot));
  return *this;
}
OpSchema& OpSchema::renames(std::string in_slot, std::string out_slot) {
  renaming_ = {std::move(in_slot), std::move(out_slot)};
  return *this;
}
OpSchema& OpSchema::traits(OpTraits traits) {
  if (has_traits_) throw InternalError(cat("row ", type_, " states its traits twice"));
  has_traits_ = true;
  traits.primitive |= traits_.primitive;
  traits_ = std::move(traits);
  return *this;
}
OpSchema& OpSchema::sample(SampleRule rule) {
  samples_.push_back(std::move(rule));
  return *this;
}
OpSchema& OpSchema::tolerance(double relative, std::string reason) {
  tolerance_ = relative;
  tolerance_reason_ = std::move(reason);
  return *this;
}

const SlotSpec* OpSchema::find_input(std::string_view name) const {
  return find_named(inputs_, name);
}
const SlotSpec* OpSchema::find_output(std::string_view name) const {
  return find_named(outputs_, name);
}
const AttrSpec* OpSchema::find_attribute(std::string_view name) const {
  return find_named(attrs_, name);
}

OpSchema& Registry::op(std::string type) {
  auto [row, fresh] = rows_.try_emplace(type, nullptr);
  if (!fresh) throw InternalError(cat("the op table has two rows for ", type));
  row->second = std::make_unique<OpSchema>(std::move(type));
  return *row->second;
}

OpSchema& Registry::primitive(std::string type) {
  if (!type.starts_with("p.")) throw InternalError(cat("primitive ", type, " must start with p."));
  OpSchema& row = op(std::move(type));
  row.traits_.primitive = true;
  return row;
}

const OpSchema* Registry::find(std::string_view type) const {
  count_name_lookup();
  const auto row = rows_.find(type);
  return row == rows_.end() ? nullptr : row->second.get();
}

const OpSchema& Registry::get(std::string_view type) const {
  if (const OpSchema* row = find(type)) return *row;
  std::vector<std::string> names;
  for (const auto& [name, row] : rows_) {
    if (!row->traits_.primitive) names.push_back(name);
  }
  Error error(ErrorKind::unimplemented, cat("there is no operator '", type, "'"));
  const auto near = near_matches(type, names);
  if (!near.empty()) error.fix(cat("did you mean ", join(near, " or "), "?"));
  throw error;
}

std::vector<const OpSchema*> Registry::rows() const {
  std::vector<const OpSchema*> rows;
  for (const auto& [name, row] : rows_) rows.push_back(row.get());
  return rows;
}

namespace {

KernelMake on_caller(KernelMake make) {
  return [make = std::move(make)](const KernelSite& site, std::string* why_not) {
    std::optional<BoundKernel> made = make(site, why_not);
    if (made) made->runs = Runs::caller;
    return made;
  };
}

}  // namespace

// A gradient row written by hand wins over the generated one. The gradient of a generated one reads
// all that this reads.
void Registry::finish() {
  std::vector<OpSchema*> forward;
  for (const auto& [name, row] : rows_) {
    if (row->has_grad_) forward.push_back(row.get());
  }
  const auto add_gradient_of = [this](const OpSchema& row) -> OpSchema* {
    const std::string type = row.grad_op_type();
    if (find(type)) return nullptr;
    auto made = std::make_unique<OpSchema>(row.make_grad_row());
    if (!row.traits_.over_replicas.empty()) {
      const OpSchema* over = find(row.traits_.over_replicas);
      made->traits_.over_replicas =
          over ? over->grad_op_type() : row.traits_.over_replicas + "_grad";
    }
    return rows_.emplace(type, std::move(made)).first->second.get();
  };
  for (const OpSchema* row : forward) {
    OpSchema* gradient = add_gradient_of(*row);
    if (!gradient) continue;
    gradient->grad_rule_ = row->second_grad_rule_;
    if (gradient->grad_rule_ || !gradient->twice_differentiable()) continue;
    gradient->has_grad_ = true;
    for (const SlotSpec& slot : gradient->inputs_) gradient->grad_uses_.push_back(slot.name);
    add_gradient_of(*gradient);
  }
  for (const auto& [name, row] : rows_) {
    if (!row->traits_.host) continue;
    for (Kernel& kernel : row->kernels_) kernel.make = on_caller(std::move(kernel.make));
  }
}

void Registry::add_kernels(std::string_view type, std::vector<Kernel> kernels) {
  const auto row = rows_.find(type);
  if (row == rows_.end()) throw InternalError(cat("kernels for ", type, ", which is no row"));
  std::vector<Kernel>& own = row->second->kernels_;
  own.insert(own.begin(), std::make_move_iterator(kernels.begin()),
             std::make_move_iterator(kernels.end()));
}

namespace {

// Whoever has rows to add before the table is made; nobody may afterwards.
struct AddedOps {
  std::mutex mutex;
  bool closed = false;
  std::vector<std::function<void(Registry&)>> sources;
};
AddedOps& added_ops() {
  static AddedOps added;
  return added;
}

}  // namespace

void add_ops(std::function<void(Registry&)> add) {
  AddedOps& added = added_ops();
  const std::lock_guard lock(added.mutex);
  if (added.closed) {
    throw Error(ErrorKind::precondition, "ops are added after the op table was first used")
        .fix("call add_ops before the first program is built");
  }
  added.sources.push_back(std::move(add));
}

const Registry& op_table() {
  static const Registry table = [] {
    Registry ops;
    register_all_ops(ops);
    AddedOps& added = added_ops();
    {
      const std::lock_guard lock(added.mutex);
      added.closed = true;
    }
    for (const auto& add : added.sources) add(ops);
    ops.finish();
    add_cpu_kernels(ops);
    return ops;
  }();
  return table;
}

const OpTraits& traits_of(const Op& op) {
  static const OpTraits none;
  const OpSchema* row = op_table().find(op.type());
  return row ? row->trait() : none;
}

}  // namespace trireme
