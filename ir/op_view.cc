// Lookups of a view by slot name, and the flat layout that kernels see.
#include "ir/op_view.h"

#include <algorithm>

#include "ir/schema.h"

namespace trireme {
namespace {

int index_of(const std::vector<SlotSpec>& slots, std::string_view name) {
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
  if (attrs_.find(name) != attrs_.end()) return true;
  const AttrSpec* spec = schema_.find_attribute(name);
  return spec && spec->fallback;
}

const Attribute& OpView::attribute(std::string_view name) const {
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
    ValueInfo& info = out(slot, i);
    info.type = like.type;
    info.dtype = like.dtype;
    info.shape = like.shape;
    info.height = like.height;
    info.lod_level = like.lod_level;
    info.lod = like.lod;
    info.known = like.known;
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

void OpView::add_in(std::string_view slot, std::vector<const ValueInfo*> values) {
  in_by_slot_.resize(schema_.inputs().size());
  in_by_slot_[static_cast<size_t>(in_slot(slot))] = std::move(values);
}

void OpView::add_out(std::string_view slot, std::vector<ValueInfo*> values) {
  out_by_slot_.resize(schema_.outputs().size());
  out_by_slot_[static_cast<size_t>(out_slot(slot))] = std::move(values);
}

void OpView::seal() {
  const auto lay_out = [this](const std::vector<SlotSpec>& slots, auto& by_slot, auto& flat,
                              std::vector<Range>& ranges) {
    by_slot.resize(slots.size());
    flat.clear();
    ranges.assign(slots.size(), {});
    for (size_t s = 0; s < slots.size(); ++s) {
      auto& values = by_slot[s];
      ranges[s].present = !values.empty();
      if (!slots[s].duplicable) {
        if (values.size() > 1) {
          throw InternalError(cat("op ", schema_.type(), ": slot ", slots[s].name,
                                  " takes one operand, not ", values.size()));
        }
        values.resize(1);
      }
      ranges[s].begin = flat.size();
      flat.insert(flat.end(), values.begin(), values.end());
      ranges[s].end = flat.size();
    }
  };
  lay_out(schema_.inputs(), in_by_slot_, ins_, in_ranges_);
  lay_out(schema_.outputs(), out_by_slot_, outs_, out_ranges_);
}

}  // namespace trireme
