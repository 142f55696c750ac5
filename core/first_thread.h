// Whose the process's own defaults are: programs, guards and names that no thread has for itself.
#pragma once

namespace trireme {

// Whether the caller is the thread that asked first. Others get their own as they switch something.
bool on_first_thread();

}  // namespace trireme
