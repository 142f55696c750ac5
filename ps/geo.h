// Geo training: a trainer updates its own parameters, and now and then gives servers what has
// changed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/scope.h"
#include "ops/remote/remote_calls.h"

namespace trireme {

// Every so many steps: what this trainer has changed since it last looked, divided by the number of
// trainers, is added to the servers' values; what others have added comes back.
class Geo {
 public:
  explicit Geo(GeoSettings settings) : settings_(std::move(settings)) {}

  // Parameters become the servers'.
  void begin(ServerCalls& calls, Scope& scope);
  // Behind a step of training.
  void step(ServerCalls& calls, Scope& scope);
  // Gives what has changed since the last time, where anything has.
  void flush(ServerCalls& calls, Scope& scope);

 private:
  void push(ServerCalls& calls, Scope& scope);
  std::vector<Tensor> pull(ServerCalls& calls) const;  // by parameter

  const GeoSettings settings_;
  int64_t steps_ = 0;
  std::vector<Tensor> old_;  // by parameter: what the servers had, as far as this trainer knows
};

}  // namespace trireme
