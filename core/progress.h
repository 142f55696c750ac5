// Long work says how far it is, where somebody wants to know: compiling, saving, loading.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace trireme {

struct ProgressNote {
  const char* work = "";  // "compiling", "saving", "loading"
  std::string at;         // what is being done: a pass, a variable; empty: it is done
  int64_t done = 0, total = 0;
};

// Null: nobody wants to know, and nothing is said. Called on the thread that works; what it throws
// is the work's error.
using ProgressListener = std::function<void(const ProgressNote&)>;
void set_progress_listener(ProgressListener listener);

void tell_progress(const char* work, const std::string& at, int64_t done, int64_t total);

}  // namespace trireme
