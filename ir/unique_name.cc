// The process's current name generator.
#include "ir/unique_name.h"

#include <cstdint>

#include "core/first_thread.h"
#include "core/text.h"

namespace trireme {
namespace {

struct Current {
  std::mutex mutex;
  std::shared_ptr<UniqueNames> names = std::make_shared<UniqueNames>();
};

Current& current() {
  static Current held;
  return held;
}

// A thread's own, from its first swap until it swaps back.
std::shared_ptr<UniqueNames>& of_this_thread() {
  thread_local std::shared_ptr<UniqueNames> held;
  return held;
}

}  // namespace

std::string UniqueNames::generate(std::string_view key) {
  const std::lock_guard lock(mutex_);
  auto found = next_.find(key);
  if (found == next_.end()) found = next_.emplace(key, 0).first;
  return cat(prefix_, key, "_", found->second++);
}

UniqueNames& unique_names() {
  thread_local std::shared_ptr<UniqueNames> held;
  if (!on_first_thread() && of_this_thread()) return *of_this_thread();
  const std::lock_guard lock(current().mutex);
  held = current().names;
  return *held;
}

std::shared_ptr<UniqueNames> swap_unique_names(std::shared_ptr<UniqueNames> names) {
  if (!names) names = std::make_shared<UniqueNames>();
  const bool first = on_first_thread();
  const std::lock_guard lock(current().mutex);
  if (first) {
    names.swap(current().names);
    return names;
  }
  std::shared_ptr<UniqueNames>& own = of_this_thread();
  std::shared_ptr<UniqueNames> before = own ? own : current().names;
  own = names == current().names ? nullptr : std::move(names);
  return before;
}

}  // namespace trireme
