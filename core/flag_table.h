// The process's flags behind flags.h: the table, its lock, and how values are read and checked.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/flags.h"

namespace trireme {

struct FlagRow {
  const char* name;
  FlagValue default_value;
  FlagUse use;
  const char* why;
  double least = -std::numeric_limits<double>::infinity();  // of numbers that are honoured
};

std::vector<FlagRow> flag_rows();  // flag_list.cc

struct FlagEntry {
  Flag flag;
  double least;
  bool given = false;  // by the user, be it to its default
};

// Flags belong to the process, so this is its one global table. Its lock also keeps getenv and
// setenv apart.
struct FlagTable {
  std::mutex mutex;
  std::map<std::string, FlagEntry, std::less<>> entries;
  std::string selected_gpus_read;  // what the variable was when the flag was last set

  FlagTable();
};
FlagTable& flag_table();
extern std::atomic<uint64_t> flag_edits;  // rises when a flag is set

// The caller holds the table's lock.
FlagEntry& flag_entry(std::string_view name);
// An Error where the flag does not take the value.
void check_flag(const FlagEntry& entry, const FlagValue& value);

std::string shown(const FlagValue& value);
std::string_view type_name(const FlagValue& value);  // "a bool", "a whole number", ...

std::optional<int64_t> parse_whole(std::string_view text);
// Takes the first item of a list like "0, 2" off it, without blanks around.
std::string_view next_item(std::string_view& list);
// The ids of a list like "0,2", or nothing when it is not one.
std::optional<std::vector<int>> parse_ids(std::string_view list);
std::string selected_gpus_variable();

// What a step asks for at every run is looked up again only when a flag was set since.
template <class T>
class RememberedFlag {
 public:
  template <class LookUp>
  T get(LookUp look_up) {
    const uint64_t now = flag_edits.load(std::memory_order_acquire);
    if (at_.load(std::memory_order_acquire) != now) {
      value_.store(look_up(), std::memory_order_relaxed);
      at_.store(now, std::memory_order_release);
    }
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t> at_{0};
  std::atomic<T> value_{};
};

}  // namespace trireme
