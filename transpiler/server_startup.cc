// The server's startup program: the first values of the slices and states that it keeps.
//
// An initialiser whose output has a shape attribute makes the slice straight away, as the rows of
// the whole variable that it is. Any other makes the whole, and the slice is cut out of it.
#include <algorithm>
#include <map>
#include <set>

#include "core/flags.h"
#include "core/text.h"
#include "ir/kernel.h"
#include "transpiler/edit.h"
#include "transpiler/report.h"
#include "transpiler/server.h"
#include "transpiler/slice.h"

namespace trireme {
namespace {

struct Kept {
  std::string name;
  Shape shape;
  int64_t offset = 0;  // elements of the whole before it
  bool sliced = false;
  bool by_rows = false;  // of a table whose rows are made on first use
};

bool makes_any_shape(const Op& op) {
  static const std::set<std::string> types = {"fill_constant", "uniform_random", "gaussian_random",
                                              "truncated_gaussian_random"};
  return types.contains(op.type()) && op.input_names().empty() &&
         op.attr_or<int32_t>("diag_num", 0) == 0;
}

// Where memory is limited servers make the rows of a table when they are first used.
bool rows_on_first_use() { return std::get<int64_t>(get_flag("table_memory")) > 0; }

bool is_random(const Op& op) { return op.type() != "fill_constant"; }

class ServerStartup {
 public:
  ServerStartup(const Placement& placement, const Program& server, const std::string& endpoint)
      : placement_(placement),
        endpoint_(endpoint),
        original_(placement.startup->global_block()),
        program_(Program::create()),
        block_(program_->global_block()) {
    program_->set_seed(placement.startup->seed());
    for (const Var* var : server.global_block().vars()) clone_var(block_, *var);
  }

  std::shared_ptr<Program> run() {
    find_kept();
    if (placement_.async_counter()) fill_counters();
    add_initialisers();
    if (placement_.config.enable_dc_asgd) add_backups();
    return program_;
  }

 private:
  void keep(const std::string& origin, Kept kept) {
    auto& list = kept_[origin];
    const auto same = [&](const Kept& other) { return other.name == kept.name; };
    if (std::ranges::none_of(list, same)) list.push_back(std::move(kept));
  }

  void find_kept() {
    std::set<std::string> sliced;
    for (const PlacedParam& param : placement_.params) {
      for (const Slice& slice : param.slices) {
        if (slice.endpoint != endpoint_) continue;
        const bool by_rows = param.remote_rows && rows_on_first_use();
        keep(param.name, {slice.name, slice.shape, slice.offset, param.is_split(), by_rows});
        for (const size_t u : param.updates) {
          for (const PlacedState& state :
               states_of(placement_, param, placement_.ops.updates[u], slice)) {
            keep(state.origin->name(), {state.name, state.shape, state.sliced ? slice.offset : 0,
                                        state.sliced, by_rows && state.shape == slice.shape});
          }
        }
      }
    }
    // What the schedule keeps, and whatever else the server program declares under its own name.
    for (const Var* var : block_.vars()) {
      const Var* origin = original_.find_var(var->name());
      if (origin && var->persistable() && !kept_.contains(var->name())) {
        keep(var->name(), {var->name(), var->shape(), 0, false});
      }
    }
  }

  // Ops that kept variables need, with what those read.
  std::set<const Op*> needed_ops() const {
    std::set<std::string> needed;
    for (const auto& [origin, list] : kept_) needed.insert(origin);
    std::set<const Op*> ops;
    for (size_t i = original_.size(); i-- > 0;) {
      const Op& op = original_.op(i);
      const auto writes = op.output_names();
      if (std::ranges::none_of(writes, [&](const auto& name) { return needed.contains(name); })) {
        continue;
      }
      ops.insert(&op);
      for (const std::string& name : op.input_names()) needed.insert(name);
    }
    return ops;
  }

  // Whether every op that writes the variable can make a part of it by itself.
  bool made_in_parts(const std::string& name) const {
    for (const Op* op : original_.ops()) {
      const auto writes = op->output_names(), reads = op->input_names();
      if (std::ranges::find(reads, name) != reads.end()) return false;
      if (std::ranges::find(writes, name) == writes.end()) continue;
      if (!makes_any_shape(*op)) return false;
    }
    return true;
  }

  void add_initialisers() {
    const std::set<const Op*> needed = needed_ops();
    std::set<std::string> whole;
    for (const Op* op : original_.ops()) {
      if (!needed.contains(op)) continue;
      const auto writes = op->output_names();
      const auto found = writes.empty() ? kept_.end() : kept_.find(writes.front());
      const bool parts = found != kept_.end() && made_in_parts(found->first);
      if (!parts && found != kept_.end() && found->second.front().by_rows) {
        throw transpile_error(cat("table ", found->first, " is initialised by ", op->type(),
                                  ", which cannot make single rows (FLAGS_table_memory)"));
      }
      if (parts) {
        for (const Kept& kept : found->second) add_part(*op, kept);
        continue;
      }
      for (const auto& names : {op->input_names(), writes}) {
        for (const std::string& name : names) {
          const Var* var = original_.find_var(name);
          if (var) clone_var(block_, *var);
        }
      }
      OpSpec spec = op->spec();
      spec.attrs.erase("op_callstack");
      block_.insert_raw_op(block_.size(), std::move(spec), op->line());
      for (const std::string& name : writes) {
        if (kept_.contains(name)) whole.insert(name);
      }
    }
    for (const std::string& name : whole) cut_out(name);
  }

  void add_part(const Op& op, const Kept& kept) {
    OpSpec spec = op.spec();
    if (kept.by_rows) {
      spec.attrs["initializer"] = spec.type;
      spec.attrs["shape"] = kept.shape.to_vector();
      spec.type = "init_rows";
      for (const char* other :
           {"dtype", "force_cpu", "str_value", "place_type", "diag_num", "diag_step", "diag_val"}) {
        spec.attrs.erase(other);
      }
      if (spec.attrs.contains("seed")) {
        spec.attrs["seed"] = int64_t{op.attr_or<int32_t>("seed", 0)};
      }
    }
    spec.attrs.erase("op_callstack");
    spec.outputs.begin()->second = {kept.name};
    if (kept.sliced) spec.attrs["shape"] = kept.shape.to_vector();
    if (is_random(op) && kept.sliced) {
      // The same numbers as these rows of the whole variable would get.
      spec.attrs[std::string(kSliceBegin)] = kept.offset;
    }
    block_.insert_raw_op(block_.size(), std::move(spec), op.line());
  }

  void cut_out(const std::string& name) {
    const Var& origin = original_.var(name);
    bool itself = false;
    for (const Kept& kept : kept_.at(name)) {
      itself |= kept.name == name;
      if (kept.name == name && !kept.sliced) continue;
      if (!kept.sliced) {
        append_filled(
            block_,
            {.type = "assign", .inputs = {{"X", {name}}}, .outputs = {{"Out", {kept.name}}}},
            op_role::kForward);
        continue;
      }
      const int64_t begin = rows_of(kept.offset, origin.shape());
      const int64_t end = begin + kept.shape.at(0);
      append_filled(block_,
                    {.type = "slice",
                     .inputs = {{"Input", {name}}},
                     .outputs = {{"Out", {kept.name}}},
                     .attrs = {{"axes", std::vector<int32_t>{0}},
                               {"starts", std::vector<int32_t>{static_cast<int32_t>(begin)}},
                               {"ends", std::vector<int32_t>{static_cast<int32_t>(end)}}}},
                    op_role::kForward);
    }
    // The whole is needed only here.
    if (!itself) block_.var(name).set_persistable(false);
  }

  // The schedule counts the steps of all trainers: it starts where it would with one.
  void fill_counters() {
    const Op& increment = *placement_.ops.step_counter;
    float first = increment.attr_or<float>("step", 1.0f);
    for (const Op* op : original_.ops()) {
      const auto writes = op->output_names();
      if (std::ranges::find(writes, kLrCounter) != writes.end()) {
        first += op->attr_or<float>("value", 0.0f);
      }
    }
    const Var& counter = placement_.main->global_block().var(kLrCounter);
    for (int t = 0; t < placement_.trainers; ++t) {
      const std::string name = of_trainer(std::string(kLrCounter), t);
      append_filled(block_,
                    {.type = "fill_constant",
                     .outputs = {{"Out", {name}}},
                     .attrs = {{"shape", std::vector<int64_t>{1}},
                               {"dtype", static_cast<int32_t>(counter.dtype())},
                               {"value", t == 0 ? first : 0.0f},
                               {"force_cpu", true}}},
                    op_role::kForward);
    }
  }

  void add_backups() {
    for (const PlacedParam& param : placement_.params) {
      for (const Slice& slice : param.slices) {
        if (slice.endpoint != endpoint_) continue;
        for (int t = 0; t < placement_.trainers; ++t) {
          append_filled(block_,
                        {.type = "assign",
                         .inputs = {{"X", {slice.name}}},
                         .outputs = {{"Out", {backup_name(slice.name, t)}}}},
                        op_role::kForward);
        }
      }
    }
  }

  const Placement& placement_;
  const std::string& endpoint_;
  const Block& original_;
  std::shared_ptr<Program> program_;
  Block& block_;
  std::map<std::string, std::vector<Kept>> kept_;  // by the variable's name in the original
};

}  // namespace

std::shared_ptr<Program> make_server_startup(const Placement& placement, const Program& server,
                                             const std::string& endpoint) {
  return ServerStartup(placement, server, endpoint).run();
}

}  // namespace trireme
