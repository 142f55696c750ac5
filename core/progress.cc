// The one listener of the process.
#include "core/progress.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

namespace trireme {
namespace {

std::atomic<bool> has_listener = false;
std::mutex listener_mutex;
std::shared_ptr<const ProgressListener> the_listener;

}  // namespace

void set_progress_listener(ProgressListener listener) {
  const std::lock_guard lock(listener_mutex);
  has_listener = listener != nullptr;
  the_listener = std::make_shared<const ProgressListener>(std::move(listener));
}

void tell_progress(const char* work, const std::string& at, int64_t done, int64_t total) {
  if (!has_listener.load(std::memory_order_relaxed)) return;
  std::shared_ptr<const ProgressListener> listener;
  {
    const std::lock_guard lock(listener_mutex);
    listener = the_listener;
  }
  if (listener && *listener) (*listener)({.work = work, .at = at, .done = done, .total = total});
}

}  // namespace trireme
