// What transpilers tell their users: errors, and the lines of print_log.
#pragma once

#include <functional>
#include <string>

#include "core/error.h"

namespace trireme {

// In "DistributeTranspiler"; add what to do about it with fix().
Error transpile_error(std::string message, ErrorKind kind = ErrorKind::invalid_argument);
// `lacks`: "the program has no ...".
Error minimize_first(std::string lacks);

// Takes one line; empty: standard output does.
using PrintLine = std::function<void(const std::string& line)>;
void print_log_line(const PrintLine& print, const std::string& line);

}  // namespace trireme
