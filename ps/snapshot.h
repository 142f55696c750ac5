// A parameter server's state in one file: what it goes on from when its process has died.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/file.h"
#include "core/scope.h"

namespace trireme {

// How far a job is, as a server knows it.
struct PsProgress {
  struct Trainer {
    uint64_t incarnation = 0;
    uint64_t sequence = 0;  // the last of its requests that was done
    bool left = false;
  };
  std::map<int, Trainer> trainers;
  bool sends = false;  // the phase of a step: trainers send, or receive
  std::set<int> came;  // to this phase's barrier
  uint64_t round = 0, step = 0;
};

// Takes the place of the last one when it is whole. Returns its size in bytes.
uint64_t write_snapshot(const std::string& path, const std::string& endpoint,
                        const PsProgress& progress, const Scope& scope,
                        const std::vector<std::string>& names,
                        const std::function<void(ByteSink&)>& rest);
// False: there is none. Another server's, or a damaged one, is an Error.
bool read_snapshot(const std::string& path, const std::string& endpoint, PsProgress& progress,
                   Scope& scope, const std::function<void(ByteSource&)>& rest);

}  // namespace trireme
