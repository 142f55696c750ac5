// Checks one op against its row when it is appended, and fills in what was left to defaults.
#include <algorithm>
#include <array>

#include "ir/near_match.h"
#include "ir/schema.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, 8> kCommon = {
    "op_role",   "op_role_var",     "op_namescope",   "op_callstack",
    "op_device", "with_quant_attr", kRecomputeSuffix, kRandomPosition,
};
constexpr std::array<std::string_view, 15> kIgnored = {
    "use_mkldnn",
    "use_cudnn",
    "use_quantizer",
    "fuse_relu",
    "fuse_residual_connection",
    "workspace_size_MB",
    "exhaustive_search",
    "force_fp32_output",
    "x_data_format",
    "y_data_format",
    "mkldnn_data_type",
    "use_addto",
    "use_gpu",
    "quantization_type",
    "out_threshold",
};
constexpr std::array<std::string_view, 3> kIgnoredPrefixes = {"Scale_", "fuse_brelu",
                                                              "fuse_activation"};

template <class Specs>
std::vector<std::string> names_of(const Specs& specs) {
  std::vector<std::string> names;
  for (const auto& spec : specs) names.push_back(spec.name);
  return names;
}

// The advice for a name the row does not have.
std::string instead_of(std::string_view name, const std::vector<std::string>& known,
                       std::string_view what) {
  const auto near = near_matches(name, known);
  if (!near.empty()) return cat("did you mean ", join(near, " or "), "?");
  if (known.empty()) return cat("it takes no ", what, "s");
  return cat("its ", what, "s are ", join(known));
}

void check_slots(const std::vector<SlotSpec>& slots, const Slots& given, std::string_view what,
                 ErrorKind missing) {
  for (const auto& [name, vars] : given) {
    const auto slot =
        std::find_if(slots.begin(), slots.end(),
                     [&name = name](const SlotSpec& spec) { return spec.name == name; });
    if (slot == slots.end()) {
      throw Error(cat(what, " slot ", name, " does not exist"))
          .fix(instead_of(name, names_of(slots), what));
    }
    if (!slot->duplicable && vars.size() > 1) {
      throw Error(cat(what, " slot ", name, " takes one variable but ", vars.size(),
                      " are given: ", join(vars)))
          .fix(cat("give one variable in ", name));
    }
  }
  for (const SlotSpec& slot : slots) {
    if (slot.dispensable) continue;
    const auto found = given.find(slot.name);
    if (found != given.end() && !found->second.empty()) continue;
    throw Error(missing, cat(what, " ", slot.name, " is missing"))
        .fix(cat("give a variable in slot ", slot.name, ": ", slot.doc));
  }
}

void check_attribute(const AttrSpec& spec, Attribute& value) {
  if (type_of(value) != spec.type) {
    try {
      value = convert(value, spec.type, spec.name);
    } catch (Error& e) {
      e.fix(cat("give ", spec.name, " as ", name_of(spec.type)));
      throw;
    }
  }
  if (!spec.problem) return;
  const std::string problem = spec.problem(value);
  if (problem.empty()) return;
  throw Error(cat("attribute ", spec.name, " is ", to_string(value), "; ", problem));
}

}  // namespace

bool is_common_attr(std::string_view name) {
  return std::find(kCommon.begin(), kCommon.end(), name) != kCommon.end();
}

bool is_ignored_attr(std::string_view name) {
  return std::find(kIgnored.begin(), kIgnored.end(), name) != kIgnored.end() ||
         std::any_of(kIgnoredPrefixes.begin(), kIgnoredPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

void check_and_fill(const OpSchema& schema, OpSpec& spec) {
  if (schema.trait().primitive) {
    throw Error(cat(schema.type(), " is a primitive of the compiler, not an operator of programs"));
  }
  check_slots(schema.inputs(), spec.inputs, "input", ErrorKind::assertion);
  check_slots(schema.outputs(), spec.outputs, "output", ErrorKind::invalid_argument);
  // The original's programs name every input slot, empty ones too.
  for (const SlotSpec& slot : schema.inputs()) spec.inputs.try_emplace(slot.name);

  for (auto& [name, value] : spec.attrs) {
    if (const AttrSpec* attr = schema.find_attribute(name)) {
      check_attribute(*attr, value);
    } else if (!is_common_attr(name) && !is_ignored_attr(name)) {
      throw Error(cat("attribute ", name, " does not exist"))
          .fix(instead_of(name, names_of(schema.attributes()), "attribute"));
    }
  }
  for (const AttrSpec& attr : schema.attributes()) {
    if (spec.attrs.find(attr.name) != spec.attrs.end()) continue;
    if (!attr.fallback) {
      throw Error(cat("attribute ", attr.name, " is missing"))
          .fix(cat("set ", attr.name, " (", name_of(attr.type), "): ", attr.doc));
    }
    spec.attrs.emplace(attr.name, *attr.fallback);
  }
}

}  // namespace trireme
