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
    hello,  // after a broken connection: what has this server done of what I asked?
  };
  Kind kind = Kind::answer;
  int trainer = 0;
  uint64_t incarnation = 0;
  uint64_t sequence =
      0;  // of what changes the server, from 1 on; in the answer to hello: the last done
  uint64_t after = 0;  // the one before it that must have been done
  bool keeps = false;  // of an answer: this server has snapshots, so that it may come again
  uint64_t kept = 0;   // ... and the last of the asker's requests that one holds
  std::string name;
  std::string error;
  std::string path;
  Variable value;
};

// A request that is numbered: done once, however often it comes.
inline bool changes_server(PsMessage::Kind kind) {
  using enum PsMessage::Kind;
  return kind == push || kind == notify || kind == send_barrier || kind == fetch_barrier;
}

}  // namespace trireme
