// The thread that asked first.
#include "core/first_thread.h"

#include <thread>

namespace trireme {

bool on_first_thread() {
  static const std::thread::id first = std::this_thread::get_id();
  return std::this_thread::get_id() == first;
}

}  // namespace trireme
