// What a distributing transpiler notes on a program: read by runtimes and by saving and loading.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace trireme {

// One part of a variable, as one parameter server keeps it.
struct VarSlice {
  enum class Use {
    parameter,
    remote_rows,  // a table whose rows trainers fetch one by one
    optimizer,    // state of an update
  };
  VarSpec origin;
  VarSpec slice;  // its name is the one on the server
  bool is_slice = false;
  int block_id = 0;
  int64_t offset = 0;  // elements before the slice
  Use use = Use::parameter;
  std::string endpoint;
};
std::string_view name_of(VarSlice::Use use);  // "Param", "RemotePrefetch", "Optimizer"

struct DistributedFacts {
  std::string mode;  // "pserver", "nccl2" or "collective"
  int trainer_id = 0;
  bool is_chief = false;               // trainer 0
  std::vector<std::string> endpoints;  // of parameter servers
  std::string ps_endpoint;             // the server this process is, where it is one
  std::vector<std::string> tables;     // embeddings built with is_distributed
  std::vector<VarSlice> slices;

  std::vector<std::string> trainer_endpoints;
  int nccl_comm_num = 1;
  bool use_hierarchical_allreduce = false;
  int hierarchical_allreduce_inter_nranks = 0;
  // An executor's first run of the program waits until these accept connections, for
  // FLAGS_rpc_deadline at most; none: it does not wait.
  std::vector<std::string> wait_for;
};

}  // namespace trireme
