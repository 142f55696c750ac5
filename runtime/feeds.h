// What a caller feeds to a program: tensors by name, in the order of their names.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/lookups.h"
#include "core/tensor.h"
#include "core/text.h"

namespace trireme {

// One piece of memory for all entries. Names are compared when a plan is looked for; the plan that
// was found then takes its feeds by their numbers in this order.
class Feeds {
 public:
  using Entry = std::pair<std::string, Tensor>;

  Feeds() = default;
  Feeds(std::initializer_list<Entry> entries) : Feeds(std::vector<Entry>(entries)) {}
  // Of two of one name the first stays. Orders by comparing neighbours: no name is looked up.
  explicit Feeds(std::vector<Entry> entries) : entries_(std::move(entries)) {
    const auto by_name = [](const Entry& a, const Entry& b) { return a.first < b.first; };
    const auto same = [](const Entry& a, const Entry& b) { return a.first == b.first; };
    if (!std::is_sorted(entries_.begin(), entries_.end(), by_name)) {
      std::stable_sort(entries_.begin(), entries_.end(), by_name);
    }
    entries_.erase(std::unique(entries_.begin(), entries_.end(), same), entries_.end());
  }

  // The first of a name stays here too.
  void emplace(std::string name, Tensor tensor) {
    const auto at = place_of(name);
    if (at != entries_.end() && at->first == name) return;
    entries_.emplace(at, std::move(name), std::move(tensor));
  }
  Tensor& operator[](const std::string& name) {
    const auto at = place_of(name);
    if (at != entries_.end() && at->first == name) return at->second;
    return entries_.emplace(at, name, Tensor())->second;
  }
  const Tensor* find(std::string_view name) const {
    count_name_lookup();
    const auto at = std::lower_bound(entries_.begin(), entries_.end(), name, before);
    return at != entries_.end() && at->first == name ? &at->second : nullptr;
  }
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  const Tensor& at(std::string_view name) const {
    if (const Tensor* found = find(name)) return *found;
    throw Error(ErrorKind::not_found, cat("nothing is fed to ", name));
  }
  void erase(std::string_view name) {
    std::erase_if(entries_, [&](const Entry& entry) { return entry.first == name; });
  }

  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  // By its number in the order of names.
  const Tensor& number(size_t i) const { return entries_[i].second; }
  Tensor& number(size_t i) { return entries_[i].second; }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  auto begin() { return entries_.begin(); }
  auto end() { return entries_.end(); }

 private:
  static bool before(const Entry& entry, std::string_view name) { return entry.first < name; }
  std::vector<Entry>::iterator place_of(std::string_view name) {
    count_name_lookup();
    return std::lower_bound(entries_.begin(), entries_.end(), name, before);
  }

  std::vector<Entry> entries_;
};

}  // namespace trireme
