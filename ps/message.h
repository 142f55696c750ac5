// What trainers ask of parameter servers, and what these answer.
#pragma once

#include <cstdint>
#include <string>

#include "core/scope.h"

namespace trireme {

struct PsMessage {
  enum class Kind : int32_t {
    answer,
    push,           // a gradient; in async mode its update runs
    notify,         // a step of the learning rate's schedule
    get,            // a variable after the step's update
    read,           // a variable as it is now
    lookup,         // rows of a table, by the ids that `value` holds
    send_barrier,   // this trainer has pushed all of a step
    fetch_barrier,  // this trainer has got all of a step
    save,           // a variable into a file of the server's, at `path`
    leave,
  };
  Kind kind = Kind::answer;
  int trainer = 0;
  uint64_t incarnation = 0;
  uint64_t sequence = 0;
  std::string name;
  std::string error;
  std::string path;
  Variable value;
};

}  // namespace trireme
