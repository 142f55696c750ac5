// Where warnings go, and which of them have been said.
#include "core/warning.h"

#include <cstdio>
#include <mutex>
#include <set>

#include "core/lookups.h"

namespace trireme {
namespace {

struct Sink {
  std::mutex mutex;
  WarningSink sink;
  std::set<std::string> said;
};

Sink& state() {
  static Sink sink;
  return sink;
}

}  // namespace

void set_warning_sink(WarningSink sink) {
  std::lock_guard lock(state().mutex);
  state().sink = std::move(sink);
}

void warn(const std::string& text) {
  WarningSink sink;
  {
    std::lock_guard lock(state().mutex);
    sink = state().sink;
  }
  if (sink) {
    sink(text);
  } else {
    std::fprintf(stderr, "warning: %s\n", text.c_str());
  }
}

void warn_once(const std::string& text) {
  {
    std::lock_guard lock(state().mutex);
    count_name_lookup();
    if (!state().said.insert(text).second) return;
  }
  warn(text);
}

}  // namespace trireme
