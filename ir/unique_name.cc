// The process's current name generator.
#include "ir/unique_name.h"

#include <cstdint>

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

}  // namespace

std::string UniqueNames::generate(std::string_view key) {
  const std::lock_guard lock(mutex_);
  auto found = next_.find(key);
  if (found == next_.end()) found = next_.emplace(key, 0).first;
  return cat(prefix_, key, "_", found->second++);
}

UniqueNames& unique_names() {
  thread_local std::shared_ptr<UniqueNames> held;
  const std::lock_guard lock(current().mutex);
  held = current().names;
  return *held;
}

std::shared_ptr<UniqueNames> swap_unique_names(std::shared_ptr<UniqueNames> names) {
  if (!names) names = std::make_shared<UniqueNames>();
  const std::lock_guard lock(current().mutex);
  names.swap(current().names);
  return names;
}

}  // namespace trireme
