// Layers that talk to other processes: blocks a server runs, and what trainers send and receive.
#pragma once

#include <string>
#include <vector>

#include "layers/arguments.h"
#include "layers/sub_block.h"

namespace trireme::layers {

// Ops appended between begin() and complete() run on the server whenever all trainers have sent.
class ListenAndServ : public SubBlock {
 public:
  explicit ListenAndServ(std::string endpoint, Vars inputs, int fan_in = 1,
                         SourceLine line = SourceLine::here());
  void complete() override;

 private:
  std::string endpoint_;
  Vars inputs_;
  int fan_in_;
  SourceLine line_;
};

// `endpoints`: one server for every variable, separated by commas.
struct RemoteOptions {
  Vars dummy = {};   // variables that order this op among others
  bool sync = true;  // a barrier follows
};
void send(const std::string& endpoints, const Vars& send_vars, const RemoteOptions& options = {},
          SourceLine line = SourceLine::here());
void recv(const std::string& endpoints, const Vars& get_vars, const RemoteOptions& options = {},
          SourceLine line = SourceLine::here());

struct AllReduceOptions {
  Var* out = nullptr;
  std::string reduce_type = "sum";  // sum, prod, max, min
  bool sync_mode = false;
};
Var& allreduce(Var& x, const AllReduceOptions& options = {}, SourceLine line = SourceLine::here());

}  // namespace trireme::layers
