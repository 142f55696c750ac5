#include "runtime/replicas.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>
#include <numeric>
#include <set>

#include "compile/graphviz.h"
#include "core/text.h"
#include "core/warning.h"

namespace trireme {
namespace {

template <class T>
void multiply_all(T* data, int64_t count, double factor) {
  for (int64_t i = 0; i < count; ++i) data[i] = static_cast<T>(data[i] * factor);
}

// In place: the handle shares its memory.
void multiply(Tensor tensor, double factor) {
  if (tensor.dtype() == DType::float32) {
    multiply_all(tensor.data<float>(), tensor.numel(), factor);
  } else {
    multiply_all(tensor.data<double>(), tensor.numel(), factor);
  }
}

template <class T>
void weighted_mean(const std::vector<Tensor*>& copies, const std::vector<double>& weights) {
  for (int64_t i = 0; i < copies[0]->numel(); ++i) {
    double mean = 0;
    for (size_t r = 0; r < copies.size(); ++r) {
      mean += weights[r] * static_cast<double>(copies[r]->data<T>()[i]);
    }
    copies[0]->data<T>()[i] = static_cast<T>(mean);
  }
}

// Replicas meet between instructions of the whole program; those of a loop or branch have no
// common place: not for values they exchange, not for gradients that an update would take.
void refuse_inner_exchanges(const Graph& graph, bool inner) {
  for (const Node& node : graph.nodes) {
    const bool updates = node.origin && node.origin->role == op_role::kOptimize;
    if (inner && (updates || node.schema->trait().exchange)) {
      throw Error(ErrorKind::unimplemented,
                  cat(node.origin->op_type,
                      " inside a loop or branch cannot take what other devices computed"))
          .at(node.origin->line)
          .fix("move it out of the block, or run without with_data_parallel");
    }
    for (const Region& region : node.regions) refuse_inner_exchanges(*region.graph, true);
  }
}

bool equal_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), a.byte_size()) == 0;
}

}  // namespace

Replicas::Replicas(ParallelGraphs graphs, int devices, const Options& options)
    : graphs_(std::move(graphs)), options_(options) {
  passes_ = run_passes(graphs_.replica, options.passes_off);
  for (const PassReport& pass : run_passes(graphs_.update, options.passes_off)) {
    passes_.push_back(pass);
  }
  refuse_inner_exchanges(graphs_.replica, false);
  if (!options.graphviz.empty()) {
    draw_graph(graphs_.replica, options.graphviz + "_after", options.poll);
    draw_graph(graphs_.update, options.graphviz + "_update_after", options.poll);
  }
  replica_ = make_plan(std::move(graphs_.replica));
  for (size_t i = 0; i < replica_->instructions.size(); ++i) {
    const Node& node = replica_->graph.nodes[replica_->instructions[i].node];
    if (node.schema->trait().random) random_.push_back(static_cast<int>(i));
  }
  std::set<int> alone(replica_->graph.kept.begin(), replica_->graph.kept.end());
  for (const Plan::Bucket& bucket : replica_->buckets) {
    for (const auto& place : bucket.places) alone.erase(place.value);
  }
  alone_.assign(alone.begin(), alone.end());
  filled_buckets_.resize(replica_->buckets.size());
  if (!graphs_.update.nodes.empty() || !graphs_.update.fetches.empty()) {
    update_ = make_plan(std::move(graphs_.update));
  }
  states_.resize(static_cast<size_t>(devices));
  for (const auto& state : replica_->graph.states) {
    if (state.exit < 0 || state.exit == state.entry) continue;
    for (int i = 1; i < devices; ++i) states_[i][state.name];
  }
  frames_.resize(static_cast<size_t>(devices));
  samples_.resize(static_cast<size_t>(devices));
  met_.resize(static_cast<size_t>(devices));
  used_.shares.resize(static_cast<size_t>(devices));
  drop_temporaries();
}

void Replicas::feed(int device, size_t number, const Tensor& tensor) {
  const int weight_at = graphs_.loss_weight_feed;
  const bool behind = weight_at >= 0 && number >= static_cast<size_t>(weight_at);
  frames_[device]->feed(behind ? number + 1 : number, tensor);
}

// Every replica starts a step from the run scope's values, whoever wrote them last.
void Replicas::copy_states(Scope& scope) {
  for (const auto& state : replica_->graph.states) {
    if (state.exit < 0 || state.exit == state.entry) continue;
    const Variable* original = scope.find(state.name);
    for (size_t i = 1; i < frames_.size(); ++i) {
      Variable& copy = states_[i].at(state.name);
      if (original && original->initialized()) {
        copy.copy_from(*original);
      } else {
        copy.clear();
      }
    }
  }
}

namespace {

void make_shares(std::vector<double>& amounts) {
  const double all = std::accumulate(amounts.begin(), amounts.end(), 0.0);
  for (double& amount : amounts)
    amount = all > 0 ? amount / all : 1.0 / static_cast<double>(amounts.size());
}

}  // namespace

// A replica's share of what the loss averages over: elements of the mean's operand where its size
// is known before the run, else samples.
void Replicas::find_weights() {
  const int averaged = graphs_.averaged_value;
  const bool known = averaged >= 0 && std::all_of(frames_.begin(), frames_.end(), [&](auto& frame) {
                       return frame->known_before_run(averaged);
                     });
  for (size_t i = 0; i < frames_.size(); ++i) {
    used_.shares[i] =
        static_cast<double>(known ? frames_[i]->facts(averaged).shape.count() : samples_[i]);
  }
  make_shares(used_.shares);
  used_.exact = known || averaged < 0;
}

namespace {

// Replicas are what is shared out, so none of them shares its instructions out.
RunSettings settings_of_one(const RunSettings& settings) {
  RunSettings alone = settings;
  alone.team = nullptr;
  alone.counts_step = false;
  alone.meets = true;
  return alone;
}

}  // namespace

// With the loss's weight among the feeds. All frames are bound: sizes decide the weights.
void Replicas::bind_weighted(Scope& scope, const RunSettings& alone) {
  const int weight_at = graphs_.loss_weight_feed;
  if (weight_at >= 0 && loss_weights_.empty()) {
    const ValueInfo& info = replica_->graph.values[replica_->graph.feeds[weight_at].value].info;
    for (size_t i = 0; i < frames_.size(); ++i) {
      loss_weights_.push_back(filled(info.dtype, {1}, 1.0));
    }
  }
  for (size_t i = 0; i < frames_.size(); ++i) {
    if (weight_at >= 0) frames_[i]->feed(static_cast<size_t>(weight_at), loss_weights_[i]);
    frames_[i]->bind(scope, alone);
  }
  find_weights();
  for (size_t i = 0; i < loss_weights_.size() && options_.weighted; ++i) {
    fill(loss_weights_[i], used_.shares[i], 0, 1);
  }
}

void Replicas::bind(Scope& scope, const RunSettings& settings) {
  try {
    copy_states(scope);
    bind_weighted(scope, settings_of_one(settings));
    if (update_) bind_update(scope, settings);
  } catch (...) {
    drop_temporaries();
    throw;
  }
}

// To gradients that are not there yet. How many rows a sum of rows has, only the run knows.
void Replicas::bind_update(Scope& scope, const RunSettings& settings) {
  for (size_t g = 0; g < graphs_.gradients; ++g) {
    const int value = replica_->graph.kept[g];
    const ValueInfo& info = frames_[0]->facts(value);
    if (info.type != VarType::lod_tensor || !frames_[0]->known_before_run(value)) return;
    Tensor gradient = Tensor::without_memory(info.dtype, info.shape);
    gradient.set_lod(info.lod);
    update_frame_->feed(g, gradient);
  }
  for (size_t i = 0; i < graphs_.passed.size(); ++i) {
    const auto number = static_cast<size_t>(graphs_.passed[i]);
    update_frame_->feed(graphs_.gradients + i, std::as_const(frames_[0]->fed(number)).tensor());
  }
  update_frame_->bind(scope, settings);
}

std::vector<Replicas::Result> Replicas::run(Scope& scope, const RunSettings& settings) {
  try {
    return step(scope, settings);
  } catch (...) {
    drop_temporaries();
    throw;
  }
}

std::vector<Replicas::Result> Replicas::step(Scope& scope, const RunSettings& settings) {
  copy_states(scope);
  const RunSettings alone = settings_of_one(settings);
  bind_weighted(scope, alone);
  if (!used_.exact && options_.weighted) refuse_nonlinear();
  place_draws();
  run_replicas(alone, scope, settings.team ? settings.team->team() : nullptr);
  std::vector<std::vector<Variable>> fetched;
  for (size_t i = 0; i < frames_.size() && !replica_->graph.fetches.empty(); ++i) {
    fetched.push_back(frames_[i]->take_fetches());
  }

  if (!used_.exact && options_.weighted) correct_weights();
  std::vector<Variable> once;
  if (update_) {
    sum_gradients(settings);
    for (size_t i = 0; i < graphs_.passed.size(); ++i) {
      update_frame_->feed(graphs_.gradients + i, common_feed(graphs_.passed[i]));
    }
    update_frame_->run(scope, settings);
    once = update_frame_->take_fetches();
  }
  merge_states(scope);

  std::vector<Result> results;
  for (const auto& fetch : graphs_.fetches) {
    Result result{.by_device = {}, .shares = used_.shares};
    for (size_t i = 0; i < frames_.size(); ++i) {
      result.by_device.push_back(fetch.once ? once[fetch.index]
                                            : std::move(fetched[i][fetch.index]));
    }
    results.push_back(std::move(result));
  }
  return results;
}

// correct_weights below needs gradients in proportion to the loss's gradient.
void Replicas::refuse_nonlinear() const {
  if (!graphs_.nonlinear) return;
  throw Error(ErrorKind::unimplemented,
              cat("the devices' shares of the loss are known only after a loop has run, but ",
                  graphs_.nonlinear->op_type, " needs them before: it is applied to gradients on ",
                  "their way (error_clip, or a callback of append_backward)"))
      .at(graphs_.nonlinear->line)
      .fix(
          "clip the parameters' gradients instead (grad_clip of the optimizer), or run on one "
          "device");
}

// What the loss averages over may be known only after the run, as the steps of a loop are.
// Gradients are in proportion to the loss's gradient, so those of each replica are brought to the
// right share.
void Replicas::correct_weights() {
  std::vector<double> elements;
  for (const auto& frame : frames_) {
    const Shape& shape = frame->facts(graphs_.averaged_value).shape;
    if (!shape.known()) return;
    elements.push_back(static_cast<double>(shape.count()));
  }
  make_shares(elements);
  const std::vector<double>& right = elements;
  for (size_t r = 0; r < frames_.size(); ++r) {
    const double factor = used_.shares[r] > 0 ? right[r] / used_.shares[r] : 1;
    if (std::abs(factor - 1) < 1e-12) continue;
    for (size_t g = 0; g < graphs_.gradients; ++g) {
      const Variable& gradient = frames_[r]->value(replica_->graph.kept[g]);
      multiply(gradient.kind() == Kind::rows ? gradient.rows().value : gradient.tensor(), factor);
    }
  }
  used_.shares = right;
  used_.exact = true;
}

// Numbers are drawn by a row's place in the whole batch, so that they do not depend on the number
// of replicas; where rows are not those of the batch, or not known yet, each replica draws its own.
void Replicas::place_draws() {
  size_t changes = 0;
  for (const auto& frame : frames_) changes += frame->change_count();
  if (random_.empty() || std::exchange(placed_changes_, changes) == changes) return;
  std::vector<std::vector<RunContext::Draw>> draws(frames_.size());
  for (size_t r = 0; r < frames_.size(); ++r) {
    draws[r].assign(replica_->instructions.size(), {.before = 0, .replica = r});
  }
  for (int index : random_) {
    const Node& node = replica_->graph.nodes[replica_->instructions[index].node];
    const auto out = std::find_if(node.outs.begin(), node.outs.end(), [](int v) { return v >= 0; });
    if (out == node.outs.end()) continue;
    const Shape& open = replica_->graph.values[*out].info.shape;
    const bool batch = open.rank() > 0 && !open[0].known();
    const bool known = std::all_of(frames_.begin(), frames_.end(), [&](const auto& frame) {
      return frame->known_before_run(*out);
    });
    if (!batch || !known) continue;
    uint64_t before = 0;
    for (size_t r = 0; r < frames_.size(); ++r) {
      draws[r][index] = {.before = before, .replica = 0};
      before += static_cast<uint64_t>(frames_[r]->facts(*out).shape.count());
    }
  }
  for (size_t r = 0; r < frames_.size(); ++r) {
    frames_[r]->set_replica(static_cast<int>(r), std::move(draws[r]));
  }
}

// Up to the next place where replicas exchange values, each by whoever is free; then the exchange;
// and so on. More replicas than workers only take more turns. The first error stops all of them at
// their next instruction, and is the one the caller sees.
void Replicas::run_replicas(const RunSettings& settings, Scope& scope, Team* team) {
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::exception_ptr first;
  RunSettings alone = settings;
  alone.stop = &failed;
  for (const auto& frame : frames_) frame->begin(scope, alone);
  std::fill(met_.begin(), met_.end(), -1);
  const auto go_on = [&](int i) {
    try {
      met_[i] = frames_[i]->advance();
    } catch (const RunStopped&) {
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
      failed = true;
    }
  };
  while (true) {
    if (team) {
      team->run(devices(), std::ref(go_on));
    } else {
      for (int i = 0; i < devices(); ++i) go_on(i);
    }
    if (first) std::rethrow_exception(first);
    promise(std::count(met_.begin(), met_.end(), met_[0]) == devices(),
            "replicas meet in one place");
    if (met_[0] < 0) break;
    exchange(met_[0]);
  }
  for (const auto& frame : frames_) frame->finish();
}

// What the update reads of the feeds, it reads once.
const Tensor& Replicas::common_feed(int number) {
  const auto fed = [&](size_t device) -> const Tensor& {
    return std::as_const(frames_[device]->fed(static_cast<size_t>(number))).tensor();
  };
  for (size_t r = 1; r < frames_.size(); ++r) {
    if (equal_bytes(fed(r), fed(0))) continue;
    throw Error(cat("devices 0 and ", r, " are fed different values of ",
                    replica_->graph.feeds[static_cast<size_t>(number)].name,
                    ", which the optimizer reads once"))
        .fix("feed the same value to every device");
  }
  return fed(0);
}

void Replicas::merge_states(Scope& scope) {
  if (frames_.size() == 1) return;
  for (const auto& state : replica_->graph.states) {
    if (state.exit < 0 || state.exit == state.entry) continue;
    Variable* merged = scope.find(state.name);
    if (!merged || merged->kind() != Kind::dense) continue;
    std::vector<Tensor*>& copies = copies_;
    copies.assign(1, &merged->tensor());
    for (size_t i = 1; i < frames_.size(); ++i) {
      Variable& copy = states_[i].at(state.name);
      if (copy.kind() == Kind::dense) copies.push_back(&copy.tensor());
    }
    if (copies.size() != frames_.size()) continue;
    const bool differ = !std::all_of(copies.begin(), copies.end(), [&](const Tensor* copy) {
      return equal_bytes(*copy, *copies[0]);
    });
    if (!differ) continue;
    const bool alike = std::all_of(copies.begin(), copies.end(), [&](const Tensor* copy) {
      return copy->dtype() == copies[0]->dtype() && copy->shape() == copies[0]->shape();
    });
    if (alike && copies[0]->dtype() == DType::float32) {
      weighted_mean<float>(copies, used_.shares);
    } else if (alike && copies[0]->dtype() == DType::float64) {
      weighted_mean<double>(copies, used_.shares);
    } else {
      warn_once(cat("data parallel: the devices' values of ", state.name,
                    " differ and have no merge; device 0's is kept"));
    }
  }
}

void Replicas::drop_temporaries() {
  for (size_t i = 0; i < frames_.size(); ++i) {
    frames_[i] = std::make_unique<Frame>(*replica_);
    frames_[i]->use_local_states(&states_[i]);
  }
  if (update_) update_frame_ = std::make_unique<Frame>(*update_);
  placed_changes_ = 0;
}

std::string Replicas::report() const {
  std::string text = "each device\n" + frames_[0]->report();
  if (update_frame_) text += "update, once\n" + update_frame_->report();
  return text;
}

bool Replicas::knows_its_memory() const {
  return (!update_frame_ || update_frame_->knows_its_memory()) &&
         std::all_of(frames_.begin(), frames_.end(),
                     [](const auto& frame) { return frame->knows_its_memory(); });
}

size_t Replicas::of_frames(size_t (Frame::*bytes)() const) const {
  size_t sum = update_frame_ ? (*update_frame_.*bytes)() : 0;
  for (const auto& frame : frames_) sum += (*frame.*bytes)();
  return sum;
}

size_t Replicas::live_bytes() const { return of_frames(&Frame::live_bytes); }
size_t Replicas::arena_bytes() const { return of_frames(&Frame::arena_bytes); }
size_t Replicas::scratch_bytes() const { return of_frames(&Frame::scratch_bytes); }

size_t Replicas::own_bytes() const {
  size_t bytes = of_frames(&Frame::own_bytes);
  for (const LocalStates& states : states_) {
    for (const auto& [name, copy] : states) {
      if (copy.kind() == Kind::dense && copy.initialized()) bytes += copy.tensor().buffer()->size();
    }
  }
  for (const Tensor& weight : loss_weights_) bytes += weight.byte_size();
  for (size_t g = 0; update_frame_ && g < graphs_.gradients; ++g) {
    const Variable& summed = update_frame_->fed(g);
    if (summed.kind() == Kind::rows && summed.initialized()) {
      bytes += summed.rows().value.buffer()->size();
    }
  }
  return bytes;
}

}  // namespace trireme
