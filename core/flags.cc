// Finding, getting and setting flags.
#include "core/flags.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/error.h"
#include "core/flag_table.h"
#include "core/lookups.h"
#include "core/text.h"

namespace trireme {
namespace {

std::string_view bare(std::string_view name) {
  constexpr std::string_view kPrefix = "FLAGS_";
  return name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

// `value` as the type that `like` has, or nothing.
std::optional<FlagValue> as_type_of(const FlagValue& like, const FlagValue& value) {
  if (like.index() == value.index()) return value;
  const auto* number = std::get_if<int64_t>(&value);
  if (!number) return std::nullopt;
  if (std::holds_alternative<bool>(like) && (*number == 0 || *number == 1)) return *number == 1;
  if (std::holds_alternative<double>(like)) return static_cast<double>(*number);
  return std::nullopt;
}

}  // namespace

std::atomic<uint64_t> flag_edits{1};

FlagTable::FlagTable() {
  for (const FlagRow& row : flag_rows()) {
    Flag flag{row.name, row.default_value, row.default_value, row.use, row.why};
    entries.emplace(row.name, FlagEntry{std::move(flag), row.least});
  }
}

FlagTable& flag_table() {
  static FlagTable the_table;
  return the_table;
}

FlagEntry& flag_entry(std::string_view name) {
  count_name_lookup();
  auto& entries = flag_table().entries;
  const auto found = entries.find(bare(name));
  if (found != entries.end()) return found->second;

  std::vector<std::pair<size_t, std::string>> near;
  for (const auto& [known, entry] : entries) {
    const size_t distance = edit_distance(bare(name), known);
    const bool part = bare(name).size() >= 4 && known.find(bare(name)) != std::string::npos;
    if (part || distance <= std::max<size_t>(2, known.size() / 4)) {
      near.emplace_back(distance, "FLAGS_" + known);
    }
  }
  std::ranges::sort(near);
  if (near.size() > 3) near.resize(3);
  std::vector<std::string> names;
  names.reserve(near.size());
  for (auto& [distance, known] : near) names.push_back(std::move(known));

  Error error(cat("there is no flag named FLAGS_", bare(name)));
  if (!names.empty()) error.fix(cat("did you mean ", join(names, " or "), "?"));
  throw error;
}

std::string_view type_name(const FlagValue& value) {
  constexpr std::string_view kNames[] = {"a bool", "a whole number", "a number", "a string"};
  return kNames[value.index()];
}

std::string shown(const FlagValue& value) {
  struct Show {
    std::string operator()(bool b) const { return b ? "True" : "False"; }
    std::string operator()(int64_t i) const { return cat(i); }
    std::string operator()(double d) const { return cat(d); }
    std::string operator()(const std::string& s) const { return cat("'", s, "'"); }
  };
  return std::visit(Show{}, value);
}

std::optional<int64_t> parse_whole(std::string_view text) {
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string_view next_item(std::string_view& list) {
  const size_t comma = list.find(',');
  std::string_view item = list.substr(0, comma);
  list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
  while (item.starts_with(' ')) item.remove_prefix(1);
  while (item.ends_with(' ')) item.remove_suffix(1);
  return item;
}

std::optional<std::vector<int>> parse_ids(std::string_view list) {
  std::vector<int> ids;
  while (!list.empty()) {
    const std::optional<int64_t> id = parse_whole(next_item(list));
    if (!id || *id < 0 || *id > std::numeric_limits<int>::max()) return std::nullopt;
    ids.push_back(static_cast<int>(*id));
  }
  return ids;
}

void check_flag(const FlagEntry& entry, const FlagValue& value) {
  const Flag& flag = entry.flag;
  if (flag.use == FlagUse::refused && value != flag.default_value) {
    throw Error(cat("FLAGS_", flag.name, " cannot be set to ", shown(value), ": ", flag.why))
        .fix(cat("leave it at ", shown(flag.default_value)));
  }
  const auto* number = std::get_if<int64_t>(&value);
  if (number && static_cast<double>(*number) < entry.least) {
    throw Error(cat("FLAGS_", flag.name, " is ", *number, " but must be at least ", entry.least));
  }
  if (flag.name == "selected_gpus" && !parse_ids(std::get<std::string>(value))) {
    throw Error(cat("FLAGS_selected_gpus is ", shown(value), ", which is not a list of GPU ids"))
        .fix("write it like '0,1'");
  }
}

std::string_view name_of(FlagUse use) {
  constexpr std::string_view kNames[] = {"honoured", "not needed", "refused"};
  return kNames[static_cast<size_t>(use)];
}

std::vector<Flag> list_flags() {
  const std::lock_guard lock(flag_table().mutex);
  std::vector<Flag> flags;
  for (const auto& [name, entry] : flag_table().entries) flags.push_back(entry.flag);
  return flags;
}

bool is_flag(std::string_view name) {
  const std::lock_guard lock(flag_table().mutex);
  return flag_table().entries.contains(bare(name));
}

FlagValue get_flag(std::string_view name) {
  const std::lock_guard lock(flag_table().mutex);
  return flag_entry(name).flag.value;
}

void set_flag(std::string_view name, const FlagValue& value) {
  const std::lock_guard lock(flag_table().mutex);
  FlagEntry& entry = flag_entry(name);
  const std::optional<FlagValue> typed = as_type_of(entry.flag.default_value, value);
  if (!typed) {
    throw Error(ErrorKind::type_mismatch,
                cat("FLAGS_", entry.flag.name, " is ", type_name(entry.flag.value),
                    " and cannot be set to ", type_name(value), ", ", shown(value)))
        .fix(cat("its default is ", shown(entry.flag.default_value)));
  }
  check_flag(entry, *typed);
  entry.flag.value = *typed;
  entry.given = true;
  if (entry.flag.name == "selected_gpus")
    flag_table().selected_gpus_read = selected_gpus_variable();
  flag_edits.fetch_add(1, std::memory_order_release);
}

bool fills_new_memory() {
  static RememberedFlag<bool> known;
  return known.get([] { return std::get<bool>(get_flag("init_allocated_mem")); });
}

bool draws_original_numbers() {
  static RememberedFlag<bool> known;
  return known.get([] { return std::get<bool>(get_flag("original_random")); });
}

bool splits_by_chunks() {
  static RememberedFlag<bool> known;
  return known.get([] { return std::get<bool>(get_flag("split_by_chunks")); });
}

}  // namespace trireme
