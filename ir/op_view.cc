// Lookups of a view by slot name, and the flat layout that kernels see.
#include "ir/op_view.h"

#include <algorithm>

#include "core/lookups.h"
#include "ir/schema.h"

namespace trireme {
namespace {

int index_of(const std::vector<SlotSpec>& slots, std::string_view name) {
  count_name_lookup();
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

template <class T>
bool any(const std::vector<T*>& values, size_t begin, size_t end) {
  return std::any_of(values.begin() + static_cast<std::ptrdiff_t>(begin),
                     values.begin() + static_cast<std::ptrdiff_t>(end),
                     [](const T* value) { return value != nullptr; });
}

}  // namespace

void take_facts(const ValueInfo& from, ValueInfo& to) {
  to.type = from.type;
  to.dtype = from.dtype;
  to.shape = from.shape;
  to.height = from.height;
  to.lod_level = from.lod_level;
  to.lod = from.lod;
  to.known = from.known;
}

int OpView::in_slot(std::string_view slot) const {
  const int index = index_of(schema_.inputs(), slot);
  if (index < 0) throw InternalError(cat("op ", schema_.type(), " has no input slot ", slot));
  return index;
}

int OpView::out_slot(std::string_view slot) const {
  const int index = index_of(schema_.outputs(), slot);
  if (index < 0) throw InternalError(cat("op ", schema_.type(), " has no output slot ", slot));
  return index;
}

bool OpView::has(std::string_view slot) const {
  const Range& range = in_ranges_[static_cast<size_t>(in_slot(slot))];
  return range.present && any(ins_, range.begin, range.end);
}

bool OpView::wants(std::string_view slot) const {
  const Range& range = out_ranges_[static_cast<size_t>(out_slot(slot))];
  return range.present && any(outs_, range.begin, range.end);
}

size_t OpView::count(std::string_view slot) const {
  const Range& range = in_ranges_[static_cast<size_t>(in_slot(slot))];
  return range.present ? range.end - range.begin : 0;
}

size_t OpView::out_count(std::string_view slot) const {
  const Range& range = out_ranges_[static_cast<size_t>(out_slot(slot))];
  return range.present ? range.end - range.begin : 0;
}

int OpView::position(std::string_view slot, size_t i) const {
  const Range& range = in_ranges_[static_cast<size_t>(in_slot(slot))];
  const size_t at = range.begin + i;
  return at < range.end && ins_[at] ? static_cast<int>(at) : -1;
}

int OpView::out_position(std::string_view slot, size_t i) const {
  const Range& range = out_ranges_[static_cast<size_t>(out_slot(slot))];
  const size_t at = range.begin + i;
  return at < range.end && outs_[at] ? static_cast<int>(at) : -1;
}

const ValueInfo& OpView::in(std::string_view slot, size_t i) const {
  const int at = position(slot, i);
  if (at < 0) {
    throw InternalError(cat("op ", schema_.type(), " reads operand ", i, " of input slot ", slot,
                            ", which is absent"));
  }
  return *ins_[static_cast<size_t>(at)];
}

const ValueInfo& OpView::out(std::string_view slot, size_t i) const {
  const int at = out_position(slot, i);
  if (at < 0) {
    throw InternalError(cat("op ", schema_.type(), " asks for operand ", i, " of output slot ",
                            slot, ", which is absent"));
  }
  return *outs_[static_cast<size_t>(at)];
}

ValueInfo& OpView::out(std::string_view slot, size_t i) {
  return const_cast<ValueInfo&>(std::as_const(*this).out(slot, i));
}

bool OpView::has_attr(std::string_view name) const {
  count_name_lookup();
  if (attrs_.find(name) != attrs_.end()) return true;
  const AttrSpec* spec = schema_.find_attribute(name);
  return spec && spec->fallback;
}

const Attribute& OpView::attribute(std::string_view name) const {
  count_name_lookup();
  if (const auto found = attrs_.find(name); found != attrs_.end()) return found->second;
  const AttrSpec* spec = schema_.find_attribute(name);
  if (spec && spec->fallback) return *spec->fallback;
  if (!spec) throw InternalError(cat("op ", schema_.type(), " has no attribute ", name));
  throw Error(cat("attribute ", name, " is missing")).fix(cat("set ", name, ": ", spec->doc));
}

void OpView::set_out(std::string_view slot, DType dtype, const Shape& shape) {
  for (size_t i = 0; i < out_count(slot); ++i) {
    if (out_position(slot, i) < 0) continue;
    ValueInfo& info = out(slot, i);
    info.type = VarType::lod_tensor;
    info.dtype = dtype;
    info.shape = shape;
    info.known = true;
  }
}

void OpView::set_out_like(std::string_view slot, const ValueInfo& like) {
  for (size_t i = 0; i < out_count(slot); ++i) {
    if (out_position(slot, i) < 0) continue;
    take_facts(like, out(slot, i));
  }
}

void OpView::share_lod(std::string_view from, std::string_view to) {
  if (position(from) < 0) return;
  const ValueInfo& source = in(from);
  for (size_t i = 0; i < out_count(to); ++i) {
    if (out_position(to, i) < 0) continue;
    ValueInfo& info = out(to, i);
    info.lod_level = source.lod_level;
    info.lod = source.lod;
  }
}

namespace {

// Slots between the last one laid out and this one are absent.
template <class T, class Range>
void lay_out(const OpSchema& schema, const std::vector<SlotSpec>& slots, std::string_view name,
             const std::vector<T*>& values, std::vector<T*>& flat, std::vector<Range>& ranges) {
  ranges.reserve(slots.size());
  flat.reserve(slots.size());
  for (;;) {
    if (ranges.size() == slots.size()) {
      if (name.empty()) return;
      throw InternalError(
          cat("op ", schema.type(), ": slot ", name, " is not there, or was laid out already"));
    }
    const SlotSpec& slot = slots[ranges.size()];
    const bool found = slot.name == name;
    const size_t begin = flat.size();
    if (found) flat.insert(flat.end(), values.begin(), values.end());
    if (!slot.duplicable && flat.size() > begin + 1) {
      throw InternalError(cat("op ", schema.type(), ": slot ", slot.name,
                              " takes one operand, not ", values.size()));
    }
    if (!slot.duplicable) flat.resize(begin + 1);
    ranges.push_back({begin, flat.size(), found && !values.empty()});
    if (found) return;
  }
}

}  // namespace

void OpView::add_in(std::string_view slot, const std::vector<const ValueInfo*>& values) {
  lay_out(schema_, schema_.inputs(), slot, values, ins_, in_ranges_);
}

void OpView::add_out(std::string_view slot, const std::vector<ValueInfo*>& values) {
  lay_out(schema_, schema_.outputs(), slot, values, outs_, out_ranges_);
}

void OpView::seal() {
  add_in("", {});
  add_out("", {});
}

}  // namespace trireme
