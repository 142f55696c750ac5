// Small things that a trainer's step asks one by one, asked together.
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ops/remote/remote_calls.h"

namespace trireme {

// Every question waits for its answer, and a step has one for each parameter. In sync mode a server
// does nothing with what is pushed before the step's barrier: small pushes are kept and go with it.
// And what the step before has fetched is fetched again with its first question, as values do not
// change until this trainer has said that it has all. Large ones travel alone, straight from and
// into their place.
class Gather {
 public:
  // True: they are kept, and nothing is asked now.
  bool hold(std::span<const ServerAsk> asks);
  // What there is to ask: what was kept, those that are not here already, and what will be wanted.
  struct Round;
  Round begin(std::span<const ServerAsk> asks);
  void end(Round& round, bool answered);

 private:
  struct Held {
    std::string endpoint, name;
    Variable value;
  };
  struct Ahead {
    Variable value;
    bool here = false, wanted = true;  // in this phase
    size_t bytes = 0;
  };
  using Key = std::pair<std::string, std::string>;  // server, variable

 public:
  struct Round {
    std::vector<ServerAsk> asks;
    std::vector<Held> held;
    std::vector<Ahead*> ahead;
    std::vector<std::pair<Ahead*, const Variable*>> sizes;  // of what was asked for itself
    bool ends_phase = false;
  };

 private:
  std::mutex mutex_;
  bool sync_ = false;  // a barrier was asked for
  std::vector<Held> held_, spare_;
  size_t held_bytes_ = 0;
  std::map<Key, Ahead> ahead_;
  bool asked_ahead_ = false;
};

}  // namespace trireme
