// Work without the GIL that may outlive Python: daemon threads are in a run when the process ends.
#pragma once

#include <pybind11/pybind11.h>

namespace trireme::binding {

// As pybind11's gil_scoped_release, but a thread that comes back once Python ends stands still
// instead. Python would end it by unwinding its stack, and destructors do not let that pass: the
// process would abort.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// The GIL for work that may be left out once Python ends: then it is not there.
class GilIfAny {
 public:
  GilIfAny();
  ~GilIfAny();
  GilIfAny(const GilIfAny&) = delete;
  GilIfAny& operator=(const GilIfAny&) = delete;
  explicit operator bool() const { return has_; }

 private:
  bool has_ = false;
  PyGILState_STATE before_{};
};

// Called when the module is made: from Python's end on, threads but the main one stand still.
void watch_for_the_end();

}  // namespace trireme::binding
