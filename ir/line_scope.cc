// The user's line that ops appended on this thread carry.
#include <mutex>
#include <optional>

#include "ir/program.h"

namespace trireme {
namespace {

thread_local std::optional<SourceLine> open_line;
thread_local SourceLine asked_line;

struct Asking {
  std::mutex mutex;
  LineScope::Provider provider;
};

Asking& asking() {
  static Asking held;
  return held;
}

}  // namespace

LineScope::LineScope(const SourceLine& line) : outermost_(!open_line) {
  if (outermost_) open_line = line;
}

LineScope::~LineScope() {
  if (outermost_) open_line.reset();
}

const SourceLine* LineScope::current() {
  if (open_line) return &*open_line;
  Provider provider;
  {
    const std::lock_guard lock(asking().mutex);
    provider = asking().provider;
  }
  if (!provider) return nullptr;
  asked_line = provider();
  return asked_line.known() ? &asked_line : nullptr;
}

void LineScope::set_provider(Provider provider) {
  const std::lock_guard lock(asking().mutex);
  asking().provider = std::move(provider);
}

}  // namespace trireme
