// Running frames together, and what they have to agree on before and after.
#include "runtime/replicas.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "comm/joined_group.h"
#include "comm/local_group.h"
#include "core/device.h"
#include "core/text.h"
#include "core/warning.h"

namespace trireme {
namespace {

using Progress = Frame::Progress;

constexpr std::chrono::microseconds kRemotePause{20};

template <class T>
void weighted_mean(const std::vector<Tensor>& copies, const std::vector<double>& weights, T* to) {
  for (int64_t i = 0; i < copies[0].numel(); ++i) {
    double mean = 0;
    for (size_t r = 0; r < copies.size(); ++r) {
      mean += weights[r] * static_cast<double>(copies[r].data<T>()[i]);
    }
    to[i] = static_cast<T>(mean);
  }
}

bool equal_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), a.byte_size()) == 0;
}

void make_shares(std::vector<double>& amounts) {
  const double all = std::accumulate(amounts.begin(), amounts.end(), 0.0);
  for (double& amount : amounts)
    amount = all > 0 ? amount / all : 1.0 / static_cast<double>(amounts.size());
}

// Replicas are what is shared out, so none of them shares its instructions out.
RunSettings settings_of_one(const RunSettings& settings) {
  RunSettings alone = settings;
  alone.team = nullptr;
  alone.counts_step = false;
  return alone;
}

}  // namespace

Replicas::Replicas(const ReplicaPlan& made)
    : made_(made),
      states_(made.places.size()),
      samples_(made.places.size()),
      shares_(made.places.size()),
      progress_(made.places.size()) {
  const Plan& plan = *made.plan;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Node& node = plan.graph.nodes[plan.instructions[i].node];
    if (node.schema->trait().random) random_.push_back(static_cast<int>(i));
  }
  for (const Place& place : made.places) {
    frames_.push_back(std::make_unique<Frame>(plan, place));
  }
  if (frames_.size() == 1 && !made.others) return;
  find_copied_states();
  groups_ = make_local_group(devices(), {.tree = made.tree});
  if (made.others) {
    if (!in_host_memory(made.places.front())) {
      throw Error(ErrorKind::unimplemented, "processes exchange gradients on CPU places only")
          .fix("run on CPUPlace, or train with one process");
    }
    groups_ = join_groups(std::move(groups_), made.others);
  }
  for (size_t i = 0; i < frames_.size(); ++i) {
    frames_[i]->join_group(*groups_[i]);
    frames_[i]->use_local_states(&states_[i]);
    if (i == 0) continue;
    states_[i].resize(plan.graph.states.size());
    for (const Copied& state : copied_) states_[i][state.number] = std::make_unique<Variable>();
  }
}

Replicas::~Replicas() { frames_.clear(); }  // before their groups

void Replicas::find_copied_states() {
  const Plan& plan = *made_.plan;
  for (size_t s = 0; s < plan.slots.size(); ++s) {
    const Slot& slot = plan.slots[s];
    if (slot.kind != SlotKind::state) continue;
    const auto number = static_cast<size_t>(slot.index);
    const auto& state = plan.graph.states[number];
    const bool written = state.exit >= 0 && state.exit != state.entry;
    const int writer = written ? plan.graph.values[state.exit].node : -1;
    if (writer >= 0 && plan.graph.nodes[writer].by_first) continue;
    if (!written && plan.target.shared_memory) continue;
    const auto& own = made_.feeds.own_states;
    copied_.push_back(
        {.slot = static_cast<int>(s),
         .number = number,
         .on_device = slot.on_device,
         .merged = written && std::find(own.begin(), own.end(), state.name) != own.end()});
  }
}

// Every replica starts a step from the run scope's values, whoever wrote them last.
void Replicas::copy_states(Scope& scope) {
  frames_.front()->find_states(scope);
  for (const Copied& state : copied_) {
    const Variable& original = frames_.front()->state(state.slot);
    for (size_t i = 1; i < frames_.size(); ++i) {
      Variable& copy = *states_[i][state.number];
      if (!original.initialized()) {
        copy.clear();
        continue;
      }
      const Place place = state.on_device ? made_.places[i] : cpu_place();
      const bool dense = original.kind() == Kind::dense;
      if (!dense || original.tensor().place() == place) {
        copy.copy_from(original);
        continue;
      }
      const Tensor& from = original.tensor();
      if (copy.kind() != Kind::dense) copy.clear();
      Tensor& to = copy.tensor();
      const bool fits = to.initialized() && to.place() == place && to.dtype() == from.dtype() &&
                        to.shape() == from.shape();
      if (!fits) {
        to = from.to(place);
      } else {
        copy_memory(place, to.address(), from.place(), from.address(), from.byte_size());
      }
    }
  }
}

// A replica's share of what the loss averages over: elements of the mean's operand, else samples.
void Replicas::find_shares(bool ran) {
  const int averaged = made_.feeds.averaged_value;
  bool known = averaged >= 0;
  for (const auto& frame : frames_) {
    known = known && (ran ? frame->binding().facts(averaged).shape.known()
                          : frame->binding().known_before_run(averaged));
  }
  promise(known || averaged < 0 || ran || made_.feeds.loss_weight < 0 || !made_.weighted,
          "where sizes are known late, replicas find their shares while they run");
  for (size_t i = 0; i < frames_.size(); ++i) {
    shares_[i] = static_cast<double>(known ? frames_[i]->binding().facts(averaged).shape.count()
                                           : samples_[i]);
  }
  make_shares(shares_);
}

// With the loss's weight among the feeds. All frames are bound: sizes decide the weights.
void Replicas::bind_weighted(Scope& scope, const RunSettings& alone) {
  const int weight_at = made_.feeds.loss_weight;
  if (weight_at >= 0 && loss_weights_.empty()) {
    const Graph& graph = made_.plan->graph;
    const ValueInfo& info = graph.values[graph.feeds[weight_at].value].info;
    for (size_t i = 0; i < frames_.size(); ++i) {
      loss_weights_.push_back(filled(info.dtype, {1}, 1.0));
    }
  }
  for (size_t i = 0; i < frames_.size(); ++i) {
    if (weight_at >= 0) frames_[i]->feed(static_cast<size_t>(weight_at), loss_weights_[i]);
    frames_[i]->bind(scope, alone);
  }
  find_shares(/*ran=*/false);
  // Of a loss that is no mean, every process has an equal share.
  const double processes = made_.others ? made_.others->size() : 1;
  for (size_t i = 0; i < loss_weights_.size() && made_.weighted; ++i) {
    fill(loss_weights_[i], shares_[i] / processes, 0, 1);
  }
}

void Replicas::bind(Scope& scope, const RunSettings& settings) {
  if (!made_.replicated) return frames_.front()->bind(scope, settings);
  copy_states(scope);
  bind_weighted(scope, settings_of_one(settings));
}

void Replicas::run(Scope& scope, const RunSettings& settings) {
  if (!made_.replicated) return frames_.front()->run(scope, settings);
  copy_states(scope);
  const RunSettings alone = settings_of_one(settings);
  bind_weighted(scope, alone);
  check_common_feeds();
  place_draws();
  run_together(scope, settings);
  find_shares(/*ran=*/true);
  merge_states();
}

// Numbers are drawn by a row's place in the whole batch, so that they do not depend on the number
// of replicas; where rows are not those of the batch, or not known yet, each replica draws its own.
// Processes are taken to have equal shares: where they have not, their numbers overlap.
void Replicas::place_draws() {
  size_t changes = 0;
  for (const auto& frame : frames_) changes += frame->binding().change_count();
  if (random_.empty() || std::exchange(placed_changes_, changes) == changes) return;
  const Plan& plan = *made_.plan;
  std::vector<std::vector<RunContext::StreamOffset>> draws(frames_.size());
  const auto process = static_cast<size_t>(made_.others ? made_.others->rank() : 0);
  for (size_t r = 0; r < frames_.size(); ++r) {
    draws[r].assign(plan.instructions.size(),
                    {.before = 0, .replica = process * frames_.size() + r});
  }
  for (int index : random_) {
    const Node& node = plan.graph.nodes[plan.instructions[index].node];
    const auto out = std::find_if(node.outs.begin(), node.outs.end(), [](int v) { return v >= 0; });
    if (out == node.outs.end()) continue;
    const Shape& open = plan.graph.values[*out].info.shape;
    const bool batch = open.rank() > 0 && !open[0].known();
    const bool known = std::all_of(frames_.begin(), frames_.end(), [&](const auto& frame) {
      return frame->binding().known_before_run(*out);
    });
    if (!batch || !known) continue;
    const auto count = [&](size_t r) {
      return static_cast<uint64_t>(frames_[r]->binding().facts(*out).shape.count());
    };
    uint64_t here = 0;
    for (size_t r = 0; r < frames_.size(); ++r) here += count(r);
    uint64_t before = process * here;
    for (size_t r = 0; r < frames_.size(); ++r) {
      draws[r][index] = {.before = before, .replica = 0};
      before += count(r);
    }
  }
  for (size_t r = 0; r < frames_.size(); ++r) frames_[r]->set_stream_offsets(std::move(draws[r]));
}

// What the update reads of the feeds is the same on every replica.
void Replicas::check_common_feeds() const {
  for (int number : made_.feeds.common) {
    const auto fed = [&](size_t device) -> const Tensor& {
      return std::as_const(frames_[device]->fed(static_cast<size_t>(number))).tensor();
    };
    for (size_t r = 1; r < frames_.size(); ++r) {
      if (equal_bytes(fed(r), fed(0))) continue;
      throw Error(cat("devices 0 and ", r, " are fed different values of ",
                      made_.plan->graph.feeds[static_cast<size_t>(number)].name,
                      ", which the optimizer reads once"))
          .fix("feed the same value to every device");
    }
  }
}

// Each as far as it goes, by whoever is free; and so on until all have ended. More replicas than
// workers only take more turns. The first error stops all of them at their next instruction, and is
// the one the caller sees.
void Replicas::run_together(Scope& scope, const RunSettings& settings) {
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::exception_ptr first;
  RunSettings alone = settings_of_one(settings);
  alone.stop = &failed;
  for (const auto& frame : frames_) frame->begin(scope, alone);
  std::fill(progress_.begin(), progress_.end(), Progress::waits);
  const auto go_on = [&](int i) {
    if (progress_[i] != Progress::waits) return;
    try {
      progress_[i] = frames_[i]->advance();
    } catch (const RunStopped&) {
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
      failed = true;
    }
  };
  Team* team = settings.team && devices() > 1 ? settings.team->team() : nullptr;
  while (std::find(progress_.begin(), progress_.end(), Progress::waits) != progress_.end()) {
    if (team) {
      team->run(devices(), std::ref(go_on));
    } else {
      for (int i = 0; i < devices(); ++i) go_on(i);
    }
    if (first) std::rethrow_exception(first);
    if (settings.poll) frames_.front()->poll();
    // Who is waited for may need this core.
    if (made_.others) std::this_thread::sleep_for(kRemotePause);
  }
  RunSettings whole = settings;
  if (progress_.front() == Progress::for_all) frames_.front()->run_for_all(whole);
  for (const auto& frame : frames_) frame->finish();
  if (made_.plan->writes_states && settings.counts_step) {
    scope.step().fetch_add(1, std::memory_order_relaxed);
  }
}

std::vector<Replicas::Result> Replicas::take_results() {
  const Graph& graph = made_.plan->graph;
  if (graph.fetches.empty()) return {};
  std::vector<std::vector<Variable>> fetched;
  for (const auto& frame : frames_) fetched.push_back(frame->take_fetches());
  std::vector<Result> results;
  for (size_t f = 0; f < graph.fetches.size(); ++f) {
    Result result{.by_device = {}, .shares = made_.replicated ? shares_ : std::vector<double>{}};
    const bool once = frames_.front()->is_for_all(graph.fetches[f].value);
    for (size_t i = 0; i < frames_.size(); ++i) {
      result.by_device.push_back(once && i > 0 ? result.by_device.front()
                                               : std::move(fetched[i][f]));
    }
    results.push_back(std::move(result));
  }
  return results;
}

void Replicas::merge_states() {
  for (const Copied& state : copied_) {
    Variable& merged = frames_.front()->state(state.slot);
    if (!state.merged || merged.kind() != Kind::dense) continue;
    if (!merged.tensor().initialized()) continue;
    std::vector<Tensor>& copies = compared_;
    copies.assign(1, merged.tensor().on_host());
    for (size_t i = 1; i < frames_.size(); ++i) {
      const Variable& copy = *states_[i][state.number];
      if (copy.kind() == Kind::dense && copy.initialized()) {
        copies.push_back(copy.tensor().on_host());
      }
    }
    if (copies.size() != frames_.size()) continue;
    const bool differ = !std::all_of(copies.begin(), copies.end(), [&](const Tensor& copy) {
      return equal_bytes(copy, copies[0]);
    });
    if (!differ) continue;
    const bool alike = std::all_of(copies.begin(), copies.end(), [&](const Tensor& copy) {
      return copy.dtype() == copies[0].dtype() && copy.shape() == copies[0].shape();
    });
    const DType dtype = copies[0].dtype();
    if (alike && dtype == DType::float32) {
      weighted_mean<float>(copies, shares_, copies[0].data<float>());
    } else if (alike && dtype == DType::float64) {
      weighted_mean<double>(copies, shares_, copies[0].data<double>());
    } else {
      warn_once(cat("data parallel: the devices' values of ",
                    made_.plan->graph.states[state.number].name,
                    " differ and have no merge; device 0's is kept"));
      continue;
    }
    const Tensor& to = std::as_const(merged).tensor();
    if (to.address() != copies[0].address()) {
      copy_memory(to.place(), to.address(), cpu_place(), copies[0].address(), to.byte_size());
    }
  }
  compared_.clear();
}

std::string Replicas::report() const {
  return (frames_.size() > 1 ? "each device\n" : "") + frames_.front()->report();
}

bool Replicas::knows_its_memory() const {
  return std::all_of(frames_.begin(), frames_.end(),
                     [](const auto& frame) { return frame->knows_its_memory(); });
}

size_t Replicas::bind_count() const {
  size_t count = 0;
  for (const auto& frame : frames_) count += frame->binding().bind_count();
  return count;
}

size_t Replicas::of_frames(size_t (MemoryPlacement::*bytes)() const) const {
  size_t sum = 0;
  for (const auto& frame : frames_) sum += (frame->placement().*bytes)();
  return sum;
}

size_t Replicas::own_bytes() const {
  size_t bytes = of_frames(&MemoryPlacement::own_bytes);
  for (const LocalStates& states : states_) {
    for (const auto& copy : states) {
      if (!copy || copy->kind() != Kind::dense || !copy->initialized()) continue;
      bytes += copy->tensor().buffer()->size();
    }
  }
  for (const Tensor& weight : loss_weights_) bytes += weight.byte_size();
  return bytes;
}

}  // namespace trireme
