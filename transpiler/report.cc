// Words the errors that transpilers share, and prints their lines.
#include "transpiler/report.h"

#include <iostream>

namespace trireme {

Error transpile_error(std::string message, ErrorKind kind) {
  return Error(kind, std::move(message)).in("DistributeTranspiler");
}

Error minimize_first(std::string lacks) {
  return transpile_error(std::move(lacks), ErrorKind::precondition)
      .fix("call minimize first: optimizer.minimize(loss), then transpile");
}

void print_log_line(const PrintLine& print, const std::string& line) {
  if (print) {
    print(line);
  } else {
    std::cout << line << std::endl;
  }
}

}  // namespace trireme
