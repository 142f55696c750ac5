// Watches for the end of the process, so that nobody asks for the GIL after it.
#include "python/binding/without_gil.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace trireme::binding {
namespace {

std::atomic<bool> python_ends{false};
std::atomic<int> coming_back{0};  // threads between their work and the GIL

bool too_late() { return python_ends && ::gettid() != ::getpid(); }

}  // namespace

GilIfAny::GilIfAny() {
  if (!Py_IsInitialized()) return;
  ++coming_back;
  if (!too_late()) {
    before_ = PyGILState_Ensure();
    has_ = true;
  }
  --coming_back;
}

GilIfAny::~GilIfAny() {
  if (has_) PyGILState_Release(before_);
}

WithoutGil::~WithoutGil() {
  ++coming_back;
  if (too_late()) {
    --coming_back;
    for (;;) ::pause();
  }
  PyEval_RestoreThread(state_);
  --coming_back;
}

void watch_for_the_end() {
  pybind11::module_::import("atexit").attr("register")(pybind11::cpp_function([] {
    python_ends = true;
    // Those who did not see it yet get the GIL once more.
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    const pybind11::gil_scoped_release others_turn;
    while (coming_back > 0 && std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }));
}

}  // namespace trireme::binding
