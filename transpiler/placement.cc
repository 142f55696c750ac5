// Cuts parameters into slices and chooses a server for each.
#include "transpiler/placement.h"

#include <algorithm>
#include <iomanip>
#include <set>

#include "core/text.h"
#include "transpiler/own_names.h"
#include "transpiler/report.h"
#include "transpiler/slice.h"
#include "transpiler/tables.h"

namespace trireme {
namespace {

// Updates whose op takes a norm over the whole parameter: cut, they would train differently.
bool takes_norm(const Op& optimizer) {
  static const std::set<std::string> types = {"lars_momentum", "lamb", "dpsgd"};
  return types.contains(optimizer.type());
}

const Var& find(const Program& program, const std::string& name, const char* what) {
  if (const Var* var = program.global_block().find_var(name)) return *var;
  throw transpile_error(cat("the program has no ", what, " ", name));
}

// memory_optimize may have given a gradient another variable's name; trainers and servers would not
// agree on what it holds.
void check_grad_names(const Placement& placement, const std::set<std::string>& shared) {
  std::map<std::string, std::string> owners;
  for (const Update& update : placement.ops.updates) {
    const std::string& grad = placement.sent_grad(update);
    const auto [other, fresh] = owners.emplace(grad, update.param);
    if (fresh && !shared.contains(grad)) continue;
    throw transpile_error(
        cat("the gradient of ", update.param, " is kept under the name ", grad, ", which ",
            fresh ? std::string("another variable") : other->second, " has too"),
        ErrorKind::precondition)
        .fix("call memory_optimize before transpile with skip_grads=True");
  }
}

void add_params(Placement& placement) {
  const Program& main = *placement.main;
  std::set<std::string> remote = remote_tables(main);
  for (const Op* op : placement.ops.followers) {  // they need the whole
    for (const std::string& name : op->input_names()) remote.erase(name);
  }
  const std::set<std::string> distributed = distributed_tables(main);
  placement.tables.assign(distributed.begin(), distributed.end());
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < placement.ops.updates.size(); ++i) {
    const Update& update = placement.ops.updates[i];
    const Var& param = find(main, update.param, "parameter");
    const Var& grad = find(main, placement.sent_grad(update), "gradient");
    if (grad.type() != VarType::lod_tensor && grad.type() != VarType::selected_rows) {
      throw transpile_error(cat("the gradient ", grad.name(), " is ", name_of(grad.type()),
                                "; only LOD_TENSOR and SELECTED_ROWS can be sent"));
    }
    if (distributed.contains(param.name()) && grad.type() != VarType::selected_rows) {
      throw transpile_error(
          cat("table ", param.name(), " has is_distributed=True, and its gradient is dense"))
          .fix("build the embedding with is_sparse=True as well");
    }
    const auto [at, fresh] = known.emplace(param.name(), placement.params.size());
    if (fresh) {
      placement.params.push_back({.name = param.name(),
                                  .shape = param.shape(),
                                  .dtype = param.dtype(),
                                  .updates = {},
                                  .slices = {}});
    }
    PlacedParam& placed = placement.params[at->second];
    placed.updates.push_back(i);
    placed.sparse_grad |= grad.type() == VarType::selected_rows;
    placed.remote_rows = remote.contains(param.name());
  }
}

void cut(Placement& placement) {
  for (PlacedParam& param : placement.params) {
    bool whole = !placement.config.slice_var_up && !placement.config.geo_sgd_mode;
    for (const size_t i : param.updates) {
      const Update& update = placement.ops.updates[i];
      const ClippedGrad* clipped = placement.clips.find(update.grad);
      whole |= takes_norm(*update.optimizer) || (clipped && !clipped->may_be_cut);
    }
    const auto count = static_cast<int64_t>(placement.endpoints.size());
    const auto blocks = slice_variable({{param.name, param.shape}}, whole ? 1 : count,
                                       placement.config.min_block_size);
    int64_t offset = 0;
    for (const VarBlock& block : blocks) {
      param.slices.push_back(
          {.name = blocks.size() == 1 ? param.name : cat(param.name, ".block", block.block_id),
           .block_id = block.block_id,
           .offset = offset,
           .size = block.size,
           .shape = blocks.size() == 1 ? param.shape : slice_shape(block.size, param.shape),
           .endpoint = {}});
      offset += block.size;
    }
  }
}

// One table for parameters and gradients: a gradient always goes where its parameter is.
void choose_servers(Placement& placement) {
  const auto& config = placement.config;
  const std::unique_ptr<PsDispatcher> dispatcher =
      config.split_method ? config.split_method(placement.endpoints)
                          : std::make_unique<RoundRobin>(placement.endpoints);
  dispatcher->reset();
  const bool shuffle = !config.slice_var_up && !config.geo_sgd_mode;
  if (shuffle) {
    placement.send_order =
        shuffled(placement.params.size(), static_cast<uint32_t>(placement.main->seed()));
  } else {
    for (size_t i = 0; i < placement.params.size(); ++i) placement.send_order.push_back(i);
  }
  for (const size_t i : placement.send_order) {
    PlacedParam& param = placement.params[i];
    std::vector<PlacedVar> vars;
    for (const Slice& slice : param.slices) vars.push_back({slice.name, slice.shape, param.dtype});
    const std::vector<std::string> chosen = dispatcher->dispatch(vars);
    if (chosen.size() != vars.size()) {
      throw transpile_error(cat("split_method chose ", chosen.size(), " servers for the ",
                                vars.size(), " blocks of ", param.name));
    }
    for (size_t s = 0; s < chosen.size(); ++s) {
      if (std::ranges::find(placement.endpoints, chosen[s]) == placement.endpoints.end()) {
        throw transpile_error(cat("split_method chose ", chosen[s], " for ", vars[s].name,
                                  ", which is not among pservers ",
                                  join(placement.endpoints, ",")));
      }
      param.slices[s].endpoint = chosen[s];
    }
  }
}

}  // namespace

std::vector<int64_t> PlacedParam::rows() const {
  std::vector<int64_t> rows;
  for (const Slice& slice : slices) rows.push_back(rows_of(slice.size, shape));
  return rows;
}

std::vector<std::string> PlacedParam::names() const {
  std::vector<std::string> names;
  for (const Slice& slice : slices) names.push_back(slice.name);
  return names;
}

std::vector<std::string> PlacedParam::endpoints() const {
  std::vector<std::string> list;
  for (const Slice& slice : slices) list.push_back(slice.endpoint);
  return list;
}

std::string PlacedParam::grad_name(const std::string& grad, size_t slice) const {
  return is_split() ? cat(grad, ".block", slices[slice].block_id) : grad;
}

std::string of_trainer(const std::string& name, int trainer) {
  return cat(name, ".trainer_", trainer);
}

Placement place(const Program& main, const Program& startup,
                const DistributeTranspilerConfig& config, bool sync_mode_argument, int trainer_id,
                int trainers, std::vector<std::string> endpoints) {
  const std::set<std::string> shared = shared_names(main);
  const std::shared_ptr<Program> copy = clone(main, false);
  give_back_names(*copy);
  Placement placement{.main = copy,
                      .startup = clone(startup, false),
                      .config = config,
                      .server = {},
                      .mode = resolve_mode(config, sync_mode_argument),
                      .trainer_id = trainer_id,
                      .trainers = trainers,
                      .endpoints = std::move(endpoints),
                      .ops = {},
                      .clips = {},
                      .params = {},
                      .send_order = {},
                      .tables = {}};
  placement.ops = find_updates(*placement.main);
  if (!config.geo_sgd_mode) refuse_other_writers(*placement.main, placement.ops);
  if (!placement.main->scheduled_rate.empty() && !config.geo_sgd_mode) {
    throw transpile_error(cat("the learning rate ", placement.main->scheduled_rate,
                              " is written by an LRScheduler on the trainer, but servers read it"),
                          ErrorKind::unimplemented)
        .fix("use a schedule made of ops, such as fluid.layers.exponential_decay");
  }
  // One trainer's gradient is the average already; where trainers do not wait for each other there
  // is none.
  if (placement.by_trainer()) placement.clips = find_server_clips(placement.ops);
  check_grad_names(placement, shared);
  add_params(placement);
  cut(placement);
  choose_servers(placement);
  return placement;
}

const std::string& Placement::sent_grad(const Update& update) const {
  const ClippedGrad* clipped = clips.find(update.grad);
  return clipped ? clipped->raw : update.grad;
}

std::vector<size_t> servers_of_join(const Placement& placement, int join) {
  std::vector<size_t> servers;
  for (size_t k = 0; k < placement.endpoints.size(); ++k) {
    const bool any = std::ranges::any_of(placement.params, [&](const PlacedParam& param) {
      return slices_at(param, placement.endpoints[k]) > 0 &&
             std::ranges::any_of(param.updates, [&](size_t u) {
               const auto* clipped = placement.clips.find(placement.ops.updates[u].grad);
               return clipped && clipped->join == join;
             });
    });
    if (any) servers.push_back(k);
  }
  return servers;
}

int slices_at(const PlacedParam& param, const std::string& endpoint) {
  return static_cast<int>(std::ranges::count_if(
      param.slices, [&](const Slice& slice) { return slice.endpoint == endpoint; }));
}

std::vector<PlacedState> states_of(const Placement& placement, const PlacedParam& param,
                                   const Update& update, const Slice& slice) {
  const Block& block = placement.main->global_block();
  std::set<std::string> written;
  std::vector<std::string> names;
  for (const Op* op : update.ops) {
    for (const std::string& name : op->output_names()) written.insert(name);
    for (const auto& list : {op->input_names(), op->output_names()}) {
      for (const std::string& name : list) {
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
      }
    }
  }
  // Two slices of one parameter on one server keep their states apart.
  const bool apart = slices_at(param, slice.endpoint) > 1;
  std::vector<PlacedState> states;
  for (const std::string& name : names) {
    const Var* var = block.find_var(name);
    if (!var || !var->persistable() || name == param.name || name == update.grad) continue;
    const bool sliced = param.is_split() && var->shape() == param.shape;
    states.push_back({.origin = var,
                      .name = apart && (sliced || written.contains(name))
                                  ? cat(name, ".block", slice.block_id)
                                  : name,
                      .shape = sliced ? slice.shape : var->shape(),
                      .sliced = sliced});
  }
  return states;
}

std::vector<VarSlice> slice_records(const Placement& placement) {
  const Block& block = placement.main->global_block();
  std::vector<VarSlice> records;
  const auto add = [&](const Var& origin, const std::string& name, const Shape& shape,
                       VarSlice record) {
    record.origin = origin.spec();
    record.slice = origin.spec();
    record.slice.name = name;
    record.slice.shape = shape;
    records.push_back(std::move(record));
  };
  for (const PlacedParam& param : placement.params) {
    for (const Slice& slice : param.slices) {
      const VarSlice record{
          .origin = {},
          .slice = {},
          .is_slice = param.is_split(),
          .block_id = slice.block_id,
          .offset = slice.offset,
          .use = param.remote_rows ? VarSlice::Use::remote_rows : VarSlice::Use::parameter,
          .endpoint = slice.endpoint};
      add(block.var(param.name), slice.name, slice.shape, record);
    }
  }
  for (const PlacedParam& param : placement.params) {
    std::set<std::pair<std::string, std::string>> seen;  // name there, server
    for (const size_t i : param.updates) {
      const Update& update = placement.ops.updates[i];
      const auto& rate = update.optimizer->input("LearningRate");
      for (const Slice& slice : param.slices) {
        for (const PlacedState& state : states_of(placement, param, update, slice)) {
          if (std::ranges::find(rate, state.origin->name()) != rate.end()) continue;
          if (!seen.emplace(state.name, slice.endpoint).second) continue;
          VarSlice record{.origin = {},
                          .slice = {},
                          .is_slice = state.sliced,
                          .block_id = state.sliced ? slice.block_id : 0,
                          .offset = state.sliced ? slice.offset : 0,
                          .use = VarSlice::Use::optimizer,
                          .endpoint = slice.endpoint};
          add(*state.origin, state.name, state.shape, record);
        }
      }
    }
  }
  // Where the schedule stands. Trainers have counters of the same names in async mode, so the file
  // has another.
  const auto add_count = [&](const std::string& held, const std::string& file) {
    const Var& counter = block.var(kLrCounter);
    for (const std::string& endpoint : placement.endpoints) {
      VarSlice record{.origin = counter.spec(),
                      .slice = counter.spec(),
                      .use = VarSlice::Use::optimizer,
                      .endpoint = endpoint};
      record.origin.name = file;
      record.slice.name = held;
      records.push_back(std::move(record));
    }
  };
  const std::string counter(kLrCounter);
  if (placement.async_counter()) {
    for (int t = 0; t < placement.trainers; ++t) {
      add_count(of_trainer(counter, t), of_trainer(counter + ".servers", t));
    }
  } else if (placement.ops.step_counter && !placement.config.geo_sgd_mode) {
    add_count(counter, counter);
  }
  return records;
}

std::vector<std::string> balance_lines(const Placement& placement) {
  int64_t total = 0;
  std::map<std::string, std::pair<int64_t, int64_t>> held;  // blocks, bytes
  for (const PlacedParam& param : placement.params) {
    for (const Slice& slice : param.slices) {
      const int64_t bytes = slice.size * static_cast<int64_t>(size_of(param.dtype));
      auto& [blocks, sum] = held[slice.endpoint];
      ++blocks;
      sum += bytes;
      total += bytes;
    }
  }
  std::vector<std::string> lines;
  for (const std::string& endpoint : placement.endpoints) {
    const auto [blocks, bytes] = held[endpoint];
    const double share =
        total ? 100.0 * static_cast<double>(bytes) / static_cast<double>(total) : 0;
    lines.push_back(cat(endpoint, ": ", blocks, blocks == 1 ? " block, " : " blocks, ", bytes,
                        " bytes, ", std::fixed, std::setprecision(1), share, "%"));
  }
  return lines;
}

}  // namespace trireme
