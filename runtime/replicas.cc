#include "runtime/replicas.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>
#include <numeric>

#include "compile/graphviz.h"
#include "core/text.h"
#include "core/warning.h"

namespace trireme {
namespace {

// ((g0 + g1) + g2) + ...: the order is the replicas', whoever adds which slice.
template <class T>
void add_slice(T* sum, const T* term, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) sum[i] += term[i];
}

void add_dense(Tensor& sum, const Tensor& term, int part, int parts) {
  const int64_t n = sum.numel();
  const int64_t begin = n * part / parts, end = n * (part + 1) / parts;
  switch (sum.dtype()) {
    case DType::float32:
      return add_slice(sum.data<float>(), term.data<float>(), begin, end);
    case DType::float64:
      return add_slice(sum.data<double>(), term.data<double>(), begin, end);
    default:
      throw InternalError(cat("a gradient of type ", name_of(sum.dtype())));
  }
}

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

// Rows of all replicas one after another, then equal rows added up: it never becomes dense.
SelectedRows sum_rows(const std::vector<const SelectedRows*>& terms) {
  SelectedRows all;
  all.height = terms.front()->height;
  Shape shape = terms.front()->value.shape();
  int64_t rows = 0;
  for (const SelectedRows* term : terms) rows += static_cast<int64_t>(term->rows.size());
  shape[0] = rows;
  all.value = Tensor(terms.front()->value.dtype(), shape);
  size_t at = 0;
  for (const SelectedRows* term : terms) {
    all.rows.insert(all.rows.end(), term->rows.begin(), term->rows.end());
    const auto bytes = term->value.bytes();
    if (!bytes.empty()) std::memcpy(all.value.bytes().data() + at, bytes.data(), bytes.size());
    at += bytes.size();
  }
  return merge_rows(all);
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

// ((g0 + g1) + (g2 + g3)) + ...: the sums of halves, quarters and so on are the same for any number
// of workers. Replica 0's memory takes the sum, the others' is written to on the way.
void add_tree(std::vector<Tensor>& terms, int part, int parts) {
  for (size_t stride = 1; stride < terms.size(); stride *= 2) {
    for (size_t i = 0; i + stride < terms.size(); i += 2 * stride) {
      add_dense(terms[i], terms[i + stride], part, parts);
    }
  }
}

template <class T>
void sum_all(const std::vector<const Tensor*>& offered, Tensor& to) {
  std::memcpy(to.raw(), offered[0]->raw(), to.byte_size());
  for (size_t r = 1; r < offered.size(); ++r) {
    add_slice(to.data<T>(), offered[r]->data<T>(), 0, to.numel());
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
    draw_graph(graphs_.replica, options.graphviz + "_after");
    draw_graph(graphs_.update, options.graphviz + "_update_after");
  }
  replica_ = make_plan(std::move(graphs_.replica));
  for (size_t i = 0; i < replica_->instructions.size(); ++i) {
    const Node& node = replica_->graph.nodes[replica_->instructions[i].node];
    if (node.schema->trait().random) random_.push_back(static_cast<int>(i));
  }
  if (!graphs_.update.nodes.empty() || !graphs_.update.fetches.empty()) {
    update_ = make_plan(std::move(graphs_.update));
  }
  states_.resize(static_cast<size_t>(devices));
  for (const auto& state : replica_->graph.states) {
    if (state.exit < 0 || state.exit == state.entry) continue;
    for (int i = 1; i < devices; ++i) states_[i][state.name];
  }
  frames_.resize(static_cast<size_t>(devices));
  drop_temporaries();
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

std::vector<double> shares_of(std::vector<double> amounts) {
  const double all = std::accumulate(amounts.begin(), amounts.end(), 0.0);
  for (double& amount : amounts)
    amount = all > 0 ? amount / all : 1.0 / static_cast<double>(amounts.size());
  return amounts;
}

}  // namespace

// A replica's share of what the loss averages over: elements of the mean's operand where its size
// is known before the run, else samples.
Replicas::Weights Replicas::weights(const std::vector<int64_t>& samples) const {
  const int averaged = graphs_.averaged_value;
  const bool known = averaged >= 0 && std::all_of(frames_.begin(), frames_.end(), [&](auto& frame) {
                       return frame->known_before_run(averaged);
                     });
  std::vector<double> amounts(samples.begin(), samples.end());
  for (size_t i = 0; known && i < frames_.size(); ++i) {
    amounts[i] = static_cast<double>(frames_[i]->facts(averaged).shape.count());
  }
  return {.shares = shares_of(std::move(amounts)), .exact = known || averaged < 0};
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

// The feeds with the loss's weight among them. All frames are bound: sizes decide the weights.
std::vector<std::vector<Variable>> Replicas::weighted_inputs(
    const std::vector<std::vector<Variable>>& feeds, const std::vector<int64_t>& samples,
    Scope& scope, const RunSettings& alone, Weights& used) {
  std::vector<std::vector<Variable>> inputs = feeds;
  const int weight_at = graphs_.loss_weight_feed;
  for (auto& input : inputs) {
    if (weight_at < 0) break;
    input.insert(input.begin() + weight_at, Variable());
    const ValueInfo& info = replica_->graph.values[replica_->graph.feeds[weight_at].value].info;
    input[weight_at].tensor() = filled(info.dtype, {1}, 1.0);
  }
  for (size_t i = 0; i < frames_.size(); ++i) frames_[i]->bind(inputs[i], scope, alone);
  used = weights(samples);
  for (size_t i = 0; weight_at >= 0 && options_.weighted && i < frames_.size(); ++i) {
    Tensor& weight = inputs[i][weight_at].tensor();
    weight = filled(weight.dtype(), {1}, used.shares[i]);
  }
  return inputs;
}

void Replicas::bind(const std::vector<std::vector<Variable>>& feeds,
                    const std::vector<int64_t>& samples, Scope& scope,
                    const RunSettings& settings) {
  copy_states(scope);
  Weights used;
  weighted_inputs(feeds, samples, scope, settings_of_one(settings), used);
}

std::vector<Replicas::Result> Replicas::run(const std::vector<std::vector<Variable>>& feeds,
                                            const std::vector<int64_t>& samples, Scope& scope,
                                            const RunSettings& settings) {
  try {
    return step(feeds, samples, scope, settings);
  } catch (...) {
    drop_temporaries();
    throw;
  }
}

std::vector<Replicas::Result> Replicas::step(const std::vector<std::vector<Variable>>& feeds,
                                             const std::vector<int64_t>& samples, Scope& scope,
                                             const RunSettings& settings) {
  copy_states(scope);
  const RunSettings alone = settings_of_one(settings);
  Weights used;
  const auto inputs = weighted_inputs(feeds, samples, scope, alone, used);
  if (!used.exact && options_.weighted) refuse_nonlinear();
  place_draws();
  run_replicas(inputs, alone, scope, settings.team ? settings.team->team() : nullptr);
  std::vector<std::vector<Variable>> fetched;
  for (const auto& frame : frames_) fetched.push_back(frame->take_fetches());

  if (!used.exact && options_.weighted) correct_weights(used);
  const std::vector<double>& shares = used.shares;
  std::vector<Variable> once;
  if (update_) {
    std::vector<Variable> sums(graphs_.gradients);
    sum_gradients(sums, settings);
    for (int number : graphs_.passed) sums.push_back(common_feed(number, feeds));
    update_frame_->run(sums, scope, settings);
    once = update_frame_->take_fetches();
  }
  merge_states(scope, shares);

  std::vector<Result> results;
  for (const auto& fetch : graphs_.fetches) {
    Result result{.by_device = {}, .shares = shares};
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
void Replicas::correct_weights(Weights& used) {
  std::vector<double> elements;
  for (const auto& frame : frames_) {
    const Shape& shape = frame->facts(graphs_.averaged_value).shape;
    if (!shape.known()) return;
    elements.push_back(static_cast<double>(shape.count()));
  }
  const std::vector<double> right = shares_of(std::move(elements));
  for (size_t r = 0; r < frames_.size(); ++r) {
    const double factor = used.shares[r] > 0 ? right[r] / used.shares[r] : 1;
    if (std::abs(factor - 1) < 1e-12) continue;
    for (size_t g = 0; g < graphs_.gradients; ++g) {
      const Variable& gradient = frames_[r]->value(replica_->graph.kept[g]);
      multiply(gradient.kind() == Kind::rows ? gradient.rows().value : gradient.tensor(), factor);
    }
  }
  used.shares = right;
  used.exact = true;
}

// Numbers are drawn by a row's place in the whole batch, so that they do not depend on the number
// of replicas; where rows are not those of the batch, or not known yet, each replica draws its own.
void Replicas::place_draws() {
  if (random_.empty()) return;
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
void Replicas::run_replicas(const std::vector<std::vector<Variable>>& inputs,
                            const RunSettings& settings, Scope& scope, Team* team) {
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::exception_ptr first;
  RunSettings alone = settings;
  alone.stop = &failed;
  for (size_t i = 0; i < frames_.size(); ++i) frames_[i]->begin(inputs[i], scope, alone);
  std::vector<int> met(frames_.size(), -1);
  const auto go_on = [&](int i) {
    try {
      met[i] = frames_[i]->advance();
    } catch (const RunStopped&) {
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
      failed = true;
    }
  };
  while (true) {
    if (team) {
      team->run(devices(), go_on);
    } else {
      for (int i = 0; i < devices(); ++i) go_on(i);
    }
    if (first) std::rethrow_exception(first);
    promise(std::count(met.begin(), met.end(), met[0]) == devices(), "replicas meet in one place");
    if (met[0] < 0) break;
    exchange(met[0]);
  }
  for (const auto& frame : frames_) frame->finish();
}

void Replicas::exchange(int instruction) {
  std::vector<const Tensor*> offered;
  for (const auto& frame : frames_) offered.push_back(&frame->offered(instruction));
  Tensor& sum = frames_[0]->received(instruction);
  switch (sum.dtype()) {
    case DType::float32:
      sum_all<float>(offered, sum);
      break;
    case DType::float64:
      sum_all<double>(offered, sum);
      break;
    case DType::int64:
      sum_all<int64_t>(offered, sum);
      break;
    default:
      throw InternalError(cat("replicas exchange ", name_of(sum.dtype())));
  }
  for (size_t r = 1; r < frames_.size(); ++r) {
    std::memcpy(frames_[r]->received(instruction).raw(), sum.raw(), sum.byte_size());
  }
}

void Replicas::sum_gradients(std::vector<Variable>& sums, const RunSettings& settings) {
  const auto& kept = replica_->graph.kept;
  for (size_t g = 0; g < graphs_.gradients; ++g) {
    const Variable& first = frames_[0]->value(kept[g]);
    if (first.kind() == Kind::rows) {
      std::vector<const SelectedRows*> terms;
      for (const auto& frame : frames_)
        terms.push_back(&std::as_const(frame->value(kept[g])).rows());
      sums[g].rows() = sum_rows(terms);
    } else {
      sums[g].tensor() = first.tensor();  // replica 0's memory takes the sum
    }
  }
  if (frames_.size() == 1) return;
  const int parts = 8;
  const auto add_part = [&](int part) {
    for (size_t g = 0; g < graphs_.gradients; ++g) {
      if (sums[g].kind() != Kind::dense) continue;
      if (options_.tree) {
        std::vector<Tensor> terms;
        for (const auto& frame : frames_) {
          terms.push_back(std::as_const(frame->value(kept[g])).tensor());
        }
        add_tree(terms, part, parts);
        continue;
      }
      for (size_t i = 1; i < frames_.size(); ++i) {
        add_dense(sums[g].tensor(), std::as_const(frames_[i]->value(kept[g])).tensor(), part,
                  parts);
      }
    }
  };
  if (Team* team = settings.team ? settings.team->team() : nullptr) {
    team->run(parts, add_part);
  } else {
    for (int part = 0; part < parts; ++part) add_part(part);
  }
}

// What the update reads of the feeds, it reads once.
Variable Replicas::common_feed(int number, const std::vector<std::vector<Variable>>& feeds) const {
  const Variable& first = feeds[0][static_cast<size_t>(number)];
  for (size_t r = 1; r < feeds.size(); ++r) {
    if (equal_bytes(feeds[r][static_cast<size_t>(number)].tensor(), first.tensor())) continue;
    throw Error(cat("devices 0 and ", r, " are fed different values of ",
                    replica_->graph.feeds[static_cast<size_t>(number)].name,
                    ", which the optimizer reads once"))
        .fix("feed the same value to every device");
  }
  return first;
}

void Replicas::merge_states(Scope& scope, const std::vector<double>& shares) {
  if (frames_.size() == 1) return;
  for (const auto& state : replica_->graph.states) {
    if (state.exit < 0 || state.exit == state.entry) continue;
    Variable* merged = scope.find(state.name);
    if (!merged || merged->kind() != Kind::dense) continue;
    std::vector<Tensor*> copies = {&merged->tensor()};
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
      weighted_mean<float>(copies, shares);
    } else if (alike && copies[0]->dtype() == DType::float64) {
      weighted_mean<double>(copies, shares);
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
}

std::string Replicas::report() const {
  std::string text = "each device\n" + frames_[0]->report();
  if (update_frame_) text += "update, once\n" + update_frame_->report();
  return text;
}

size_t Replicas::live_bytes() const {
  size_t bytes = update_frame_ ? update_frame_->live_bytes() : 0;
  for (const auto& frame : frames_) bytes += frame->live_bytes();
  return bytes;
}

size_t Replicas::arena_bytes() const {
  size_t bytes = update_frame_ ? update_frame_->arena_bytes() : 0;
  for (const auto& frame : frames_) bytes += frame->arena_bytes();
  return bytes;
}

}  // namespace trireme
