// Places and strategies of a compiled program, and sharing a batch out over its devices.
#include "runtime/compiled_program.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/device.h"
#include "core/flags.h"
#include "core/text.h"
#include "core/warning.h"
#include "ir/distributed.h"
#include "runtime/places.h"

namespace trireme {
namespace {

bool is_loss_gradient(const Op& op) { return op.role() == (op_role::kBackward | op_role::kLoss); }

LossGradient loss_gradient(GradientScaleStrategy strategy) {
  switch (strategy) {
    case GradientScaleStrategy::one:
      return LossGradient::one;
    case GradientScaleStrategy::customized:
      return LossGradient::fed;
    case GradientScaleStrategy::coeff_num_device:
      break;
  }
  return LossGradient::weighted;
}

bool has_backward(const Block& block) {
  const std::vector<Op*> ops = block.ops();
  return std::ranges::any_of(ops, [](const Op* op) {
    return op->has_role(op_role::kBackward) || (op->sub_block() && has_backward(*op->sub_block()));
  });
}

// A program without backward is for testing, so what it writes into a parameter is likely a slip:
// an optimizer that was not pruned, or batch_norm that was not cloned for test.
void warn_of_written_parameters(const Program& program) {
  for (const Op* op : program.global_block().ops()) {
    if (op->attr_or<bool>("is_test", false) || op->attr_or<bool>("use_global_stats", false))
      continue;
    if (op->sub_block() && has_backward(*op->sub_block())) continue;  // a branch that trains
    for (const std::string& name : op->output_names()) {
      const Var* var = program.global_block().find_var(name);
      if (!var || !var->is_parameter()) continue;
      const SourceLine& line = op->line();
      warn(cat("the program has no backward part, but ", op->type(), " writes the parameter ", name,
               line.known() ? cat(", asked for at ", line.file, ":", line.line) : "",
               ": test with program.clone(for_test=True)"));
    }
  }
}

// In the order of names. First all say how many devices they have: gradients are summed as if all
// had as many.
void share_parameters(const Program& program, const Scope& scope, Group& group, int devices) {
  std::vector<int64_t> all(static_cast<size_t>(group.size()));
  const int64_t mine = devices;
  const Piece count{.in = &mine, .out = all.data(), .count = 1};
  run_collective(*group.prepare({.kind = Collective::Kind::all_gather,
                                 .dtype = DType::int64,
                                 .tag = "the number of devices"}),
                 {.pieces = {&count, 1}});
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r] == mine) continue;
    throw Error(ErrorKind::precondition, cat("rank ", r, " trains on ", all[r],
                                             " devices and rank ", group.rank(), " on ", mine))
        .fix("give all trainers as many places (CPU_NUM)");
  }
  std::set<std::string> names;
  for (const Var* var : program.global_block().vars()) {
    if (var->persistable()) names.insert(var->name());
  }
  for (const std::string& name : names) {
    Variable* value = scope.find(name);
    if (!value || value->kind() != Kind::dense || !value->initialized()) continue;
    const Tensor& tensor = std::as_const(*value).tensor();
    if (!in_host_memory(tensor.place())) continue;
    const Piece piece{.in = tensor.address(), .out = tensor.address(), .count = tensor.numel()};
    run_collective(
        *group.prepare({.kind = Collective::Kind::broadcast, .dtype = tensor.dtype(), .tag = name}),
        {.pieces = {&piece, 1}});
  }
}

// A program that was transpiled for several processes must not train alone in silence.
void check_trainers(const Program& program, const BuildStrategy& build) {
  const DistributedFacts* facts = program.distributed.get();
  if (!facts || facts->mode != "nccl2") return;
  const size_t trainers = facts->trainer_endpoints.size();
  if (trainers < 2 || build.num_trainers == static_cast<int>(trainers)) return;
  throw Error(ErrorKind::precondition, cat("the program was transpiled for ", trainers,
                                           " trainers (nccl2), but num_trainers is ",
                                           build.num_trainers, ": it would train alone"))
      .fix(cat("give num_trainers=", trainers, " and trainer_id=", facts->trainer_id));
}

}  // namespace

CompiledProgram::CompiledProgram(std::shared_ptr<Program> program, BuildStrategy build)
    : program_(std::move(program)), build_(std::move(build)) {
  check(build_);
}

bool CompiledProgram::trains() const {
  const auto ops = program_->global_block().ops();
  return std::any_of(ops.begin(), ops.end(),
                     [](const Op* op) { return op->has_role(op_role::kBackward); });
}

void CompiledProgram::with_data_parallel(const DataParallel& options) {
  if (data_parallel_) {
    throw Error(ErrorKind::assertion,
                "with_data_parallel was called before on this CompiledProgram")
        .fix("compile the program again: CompiledProgram(program).with_data_parallel(...)");
  }
  if (options.build_strategy) {
    check(*options.build_strategy);
    build_ = *options.build_strategy;
  }
  check(options.exec_strategy);
  exec_ = options.exec_strategy;
  for (const Place& place : options.places) {
    if (place.kind != options.places.front().kind) {
      throw Error("places mixes devices of different kinds").fix("give places of one kind");
    }
    device_of(place);  // says what is missing
  }
  if (options.share_vars_from && !options.share_vars_from->is_data_parallel()) {
    throw Error("share_vars_from is a CompiledProgram that is not data parallel")
        .fix("call with_data_parallel on it first");
  }
  if (trains()) {
    check_trainers(*program_, build_);
    const auto ops = program_->global_block().ops();
    const auto loss =
        std::find_if(ops.begin(), ops.end(), [](const Op* op) { return is_loss_gradient(*op); });
    if (loss == ops.end()) {
      throw Error(ErrorKind::assertion,
                  "the program has gradients, but no op starts them from a loss")
          .fix("call minimize or append_backward on the loss of this program");
    }
    const std::string& gradient = loss_gradient_ = (*loss)->output("Out").at(0);
    if (!options.loss_name.empty() && grad_name(options.loss_name) != gradient) {
      throw Error(cat("loss_name is ", options.loss_name, ", but the gradients start from ",
                      gradient.substr(0, gradient.size() - kGradSuffix.size())))
          .fix("pass the name of the loss that minimize was called on");
    }
  } else {
    if (!options.loss_name.empty() && !program_->global_block().find_var(options.loss_name)) {
      warn(cat("loss_name is ", options.loss_name,
               ", which the program does not have; it has no backward part and needs none"));
    }
    warn_of_written_parameters(*program_);
  }
  places_ = options.places;
  from_environment_ = options.places.empty();
  data_parallel_ = true;
}

// Only Customized leaves the loss's gradient to the caller; any other strategy would overwrite it.
void CompiledProgram::check_names(const Feeds& feeds, bool pruned) const {
  if (!feeds_loss_gradient() && !loss_gradient_.empty() && feeds.contains(loss_gradient_)) {
    throw Error(cat("feed gives ", loss_gradient_,
                    ", which BuildStrategy.gradient_scale_strategy computes"))
        .fix("set gradient_scale_strategy to GradientScaleStrategy.Customized, or do not feed it");
  }
  for (const auto& [name, tensor] : feeds) {
    if (pruned || program_->global_block().find_var(name)) continue;
    throw Error(cat("feed names ", name, ", which the program does not have"))
        .fix("feed variables of the program that was compiled");
  }
}

int CompiledProgram::devices(DeviceKind kind) const {
  if (!data_parallel_) return 1;
  take_places(kind);
  return static_cast<int>(places_.size());
}

void CompiledProgram::take_places(DeviceKind kind) const {
  if (data_parallel_ && places_.empty()) places_ = default_places(kind);
}

Executor::ParallelOptions CompiledProgram::parallel_options() const {
  if (!data_parallel_) return {};
  const bool by_device = !places_.empty() && !in_host_memory(places_.front());
  return {.places = by_device ? places_ : std::vector<Place>{},
          .loss_gradient = loss_gradient(build_.gradient_scale_strategy),
          .sync_batch_norm = build_.sync_batch_norm,
          .tree = build_.virtual_shards > 0,
          .others = ring_ ? ring_->group : nullptr};
}

void CompiledProgram::meet_others(const RunOptions& options) const {
  if (!joins_others()) return;
  const Scope& scope = options.scope ? *options.scope : global_scope();
  std::shared_ptr<Ring> ring = find_ring(scope, kProcessesName);
  const auto refuse = [](const std::string& what, const std::string& fix) {
    throw Error(ErrorKind::precondition, what).fix(fix);
  };
  const int ranks = ring->group->size();
  if (ranks != build_.num_trainers || ring->group->rank() != build_.trainer_id) {
    refuse(cat("num_trainers is ", build_.num_trainers, " and trainer_id ", build_.trainer_id,
               ", but the startup program has met as rank ", ring->group->rank(), " of ", ranks),
           "give the transpiler and the strategy the same trainers");
  }
  const auto same = [&](const std::vector<std::string>& endpoints, const char* whose) {
    if (endpoints.empty() || endpoints == ring->endpoints) return;
    refuse(cat(whose, " names the trainers ", join(endpoints, ","), ", but those who have met are ",
               join(ring->endpoints, ",")),
           "give the transpiler and the strategy the same trainers");
  };
  same(build_.trainers_endpoints, "BuildStrategy.trainers_endpoints");
  if (program_->distributed) same(program_->distributed->trainer_endpoints, "the program");
  if (ring == ring_ && shared_.contains(scope.id())) return;
  if (ring != ring_) shared_.clear();
  ring_ = std::move(ring);
  share_parameters(*program_, scope, *ring_->group, devices());
  shared_.insert(scope.id());
}

int CompiledProgram::shards() const {
  return data_parallel_ && build_.virtual_shards > 0 ? build_.virtual_shards : devices();
}

RunOptions CompiledProgram::in_effect(RunOptions options) const {
  if (exec_.num_threads > 0) options.threads = std::min(exec_.num_threads, num_threads());
  options.graphviz = build_.debug_graphviz_path;
  options.passes_off.insert(options.passes_off.end(), build_.passes_off.begin(),
                            build_.passes_off.end());
  options.check_feeds = [this, pruned = options.use_prune](const Feeds& feeds) {
    check_names(feeds, pruned);
  };
  return options;
}

// Made anew where the program was edited or other names are fed.
std::unique_ptr<CompiledProgram::Share> CompiledProgram::take_share(const Feeds& feeds) const {
  std::unique_ptr<Share> share;
  {
    std::lock_guard lock(shares_->mutex);
    if (!shares_->idle.empty()) {
      share = std::move(shares_->idle.back());
      shares_->idle.pop_back();
    }
  }
  if (share && share->version == program_->version() && same_names(share->pieces[0], feeds)) {
    return share;
  }
  return std::make_unique<Share>(
      Share{.version = program_->version(),
            .trains = trains(),
            .kinds = kinds_of(feeds, persistable_feeds(*program_, feeds))});
}

void CompiledProgram::share_out(const Feeds& feeds, Share& share) const {
  const int all = shards();
  int used = all;
  const SplitRule rule = splits_by_chunks() ? SplitRule::chunks : SplitRule::even;
  if (!share.trains && all > 1) {
    for (size_t i = 0; i < feeds.size(); ++i) {
      if (share.kinds[i] == Fed::whole) continue;
      const int64_t count = sample_count(feeds.number(i));
      used = std::min(used, std::max(1, devices_reached(count, all, rule)));
    }
    if (used < all && std::exchange(share.idle_told, all - used) != all - used) {
      warn_once(
          cat("a batch of ", used, " samples leaves ", all - used, " of ", all, " devices idle"));
    }
  }
  split_feeds(feeds, used, share.kinds, rule, share.pieces);
}

std::vector<Variable> CompiledProgram::run_alone(Executor& executor, const Feeds& feeds,
                                                 const std::vector<std::string>& fetches,
                                                 RunOptions options) {
  return executor.run(*program_, feeds, fetches, in_effect(std::move(options)));
}

std::vector<Replicas::Result> CompiledProgram::run(Executor& executor, const Feeds& feeds,
                                                   const std::vector<std::string>& fetches,
                                                   RunOptions options) {
  take_places(executor.place().kind);
  meet_others(options);
  std::unique_ptr<Share> share = take_share(feeds);
  share_out(feeds, *share);
  std::vector<Replicas::Result> results = executor.run_parallel(
      *program_, share->pieces, fetches, parallel_options(), in_effect(std::move(options)));
  std::lock_guard lock(shares_->mutex);
  shares_->idle.push_back(std::move(share));
  return results;
}

std::vector<Replicas::Result> CompiledProgram::run(Executor& executor,
                                                   const std::vector<Feeds>& feeds,
                                                   const std::vector<std::string>& fetches,
                                                   RunOptions options) {
  take_places(executor.place().kind);
  if (data_parallel_ && build_.virtual_shards > 0 && feeds.size() != 1 &&
      static_cast<int>(feeds.size()) != shards()) {
    throw Error(cat("feed is a list of ", feeds.size(), ", but virtual_shards cuts the batch"))
        .fix("give one dict");
  }
  const size_t wanted = static_cast<size_t>(shards());
  if (feeds.size() != wanted && (trains() || feeds.size() > wanted || feeds.empty())) {
    throw Error(cat("feed is a list of ", feeds.size(), " for ", wanted, " devices"))
        .fix("give one dict per device");
  }
  meet_others(options);
  return executor.run_parallel(*program_, feeds, fetches, parallel_options(),
                               in_effect(std::move(options)));
}

PlanMemory CompiledProgram::prepare(Executor& executor, const std::vector<Feeds>& feeds,
                                    const std::vector<std::string>& fetches,
                                    RunOptions options) const {
  take_places(executor.place().kind);
  meet_others(options);
  return executor.prepare(*program_, feeds, fetches, parallel_options(),
                          in_effect(std::move(options)));
}

PlanMemory CompiledProgram::prepare(Executor& executor, const Feeds& feeds,
                                    const std::vector<std::string>& fetches,
                                    RunOptions options) const {
  take_places(executor.place().kind);
  const std::unique_ptr<Share> share = take_share(feeds);
  share_out(feeds, *share);
  return prepare(executor, share->pieces, fetches, std::move(options));
}

std::vector<PassCheck> CompiledProgram::check_passes(const Feeds& feeds, const Scope& scope,
                                                     double tolerance,
                                                     const std::function<void()>& poll) const {
  check_names(feeds, false);
  const std::unique_ptr<Share> share = take_share(feeds);
  share_out(feeds, *share);
  return trireme::check_passes(
      *program_, share->pieces, scope,
      {.tolerance = tolerance, .parallel = parallel_options(), .poll = poll});
}

std::vector<PlanSignature> CompiledProgram::plans(const Executor& ran_by) const {
  const Executor::ParallelOptions parallel = parallel_options();
  return ran_by.plans_of(*program_, shards(), &parallel);
}

std::string CompiledProgram::digest(const Executor& ran_by) const {
  const Executor::ParallelOptions parallel = parallel_options();
  return ran_by.digest(*program_, shards(), &parallel);
}

std::string CompiledProgram::explain(const Executor* ran_by) const {
  std::ostringstream out;
  const bool cpu = devices() > 0 && (places_.empty() || in_host_memory(places_.front()));
  out << "devices: " << devices() << (cpu ? " CPU" : " GPU")
      << (!from_environment_ ? ""
          : cpu              ? " (CPU_NUM)"
                             : " (those that the environment chooses)")
      << ", threads: "
      << (exec_.num_threads > 0 ? std::min(exec_.num_threads, num_threads()) : num_threads())
      << "\n";
  if (exec_.num_threads > 0 && exec_.num_threads < num_threads()) {
    out << "num_threads = " << exec_.num_threads << " leaves " << num_threads() - exec_.num_threads
        << " of " << num_threads() << " cores idle\n";
  }
  if (!data_parallel_) {
    out << "not data parallel: the execution strategy is the default one, and reduce_strategy, "
           "gradient_scale_strategy, sync_batch_norm and virtual_shards have nothing to do\n";
  }
  const auto print = [&](const char* title, const std::vector<Knob>& knobs) {
    out << title << "\n";
    for (const Knob& knob : knobs) {
      out << "  " << knob.name << " = " << knob.value << ": " << name_of(knob.use) << " ("
          << knob.why << ")\n";
    }
  };
  print("build strategy", trireme::explain(build_));
  print("execution strategy", trireme::explain(exec_));
  const Executor::ParallelOptions parallel = parallel_options();
  out << (ran_by ? ran_by->report(*program_, shards(), &parallel)
                 : "no plan yet: the program has not run\n");
  return out.str();
}

}  // namespace trireme
