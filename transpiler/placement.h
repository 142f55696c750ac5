// Who keeps what: every parameter of a program cut into slices, every slice on one server.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/distributed.h"
#include "transpiler/clips.h"
#include "transpiler/config.h"
#include "transpiler/updates.h"

namespace trireme {

struct Slice {
  std::string name;  // the parameter's own where it is whole, else param.block<i>
  int block_id = 0;
  int64_t offset = 0, size = 0;  // elements
  Shape shape;
  std::string endpoint;
};

struct PlacedParam {
  std::string name;
  Shape shape;
  DType dtype = DType::float32;
  std::vector<size_t> updates;  // of UpdateOps: one for every loss
  bool sparse_grad = false;     // gradients are SelectedRows
  bool remote_rows = false;     // trainers fetch the rows they need and never the whole
  std::vector<Slice> slices;

  bool is_split() const { return slices.size() > 1; }
  std::vector<int64_t> rows() const;  // of every slice
  std::vector<std::string> names() const;
  std::vector<std::string> endpoints() const;
  // What a slice of a gradient is called, without the trainer's suffix.
  std::string grad_name(const std::string& grad, size_t slice) const;
};

// A program and its cluster, decided once; trainer and server programs are read off it.
struct Placement {
  std::shared_ptr<const Program> main;  // as they were before, under names of their own
  std::shared_ptr<const Program> startup;
  DistributeTranspilerConfig config;
  ServerRuntimeConfig server;
  ResolvedMode mode;
  int trainer_id = 0;
  int trainers = 1;
  std::vector<std::string> endpoints;
  UpdateOps ops;                    // of `main`
  ServerClips clips;                // none where nothing is averaged: trainers clip there
  std::vector<PlacedParam> params;  // in the order of their updates
  std::vector<size_t> send_order;   // of params
  std::vector<std::string> tables;  // of lookups with is_distributed

  // Servers sum one gradient per trainer, so names carry the trainer.
  bool by_trainer() const { return mode.merge_by_trainer && trainers > 1; }
  bool split_at_run() const { return config.runtime_split_send_recv; }
  // The gradient of an update as trainers send it.
  const std::string& sent_grad(const Update& update) const;
  bool async_counter() const { return !mode.merge_by_trainer && ops.step_counter != nullptr; }
};

Placement place(const Program& main, const Program& startup,
                const DistributeTranspilerConfig& config, bool sync_mode_argument, int trainer_id,
                int trainers, std::vector<std::string> endpoints);

// The state of one update on one server: name there, and how much of it.
struct PlacedState {
  const Var* origin = nullptr;
  std::string name;
  Shape shape;
  bool sliced = false;
};
// Persistable variables that the update of `slice` reads or writes, but for the parameter.
std::vector<PlacedState> states_of(const Placement& placement, const PlacedParam& param,
                                   const Update& update, const Slice& slice);
// How many slices of the parameter a server keeps.
int slices_at(const PlacedParam& param, const std::string& endpoint);

// The records that saving and loading read.
std::vector<VarSlice> slice_records(const Placement& placement);
// Servers, by their place in the list, that keep gradients of the join.
std::vector<size_t> servers_of_join(const Placement& placement, int join);
// One line per server: blocks, bytes and share.
std::vector<std::string> balance_lines(const Placement& placement);

// "name.trainer_i"
std::string of_trainer(const std::string& name, int trainer);

}  // namespace trireme
