#include "runtime/replicas.h"

#include <algorithm>
#include <cstring>
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
// common place.
void refuse_inner_exchanges(const Graph& graph, bool inner) {
  for (const Node& node : graph.nodes) {
    if (inner && node.schema->trait().exchange) {
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
    update_frame_ = std::make_unique<Frame>(*update_);
  }
  for (int i = 0; i < devices; ++i) frames_.push_back(std::make_unique<Frame>(*replica_));
}

void Replicas::make_local_scopes(Scope& scope) {
  if (scope_id_ == scope.id()) return;
  scope_id_ = scope.id();
  scopes_ = {&scope};
  for (size_t i = 1; i < frames_.size(); ++i) scopes_.push_back(&scope.new_scope());
  for (const auto& state : replica_->graph.states) {
    if (state.exit < 0 || state.exit == state.entry) continue;
    for (size_t i = 1; i < frames_.size(); ++i) {
      Variable& copy = scopes_[i]->var(state.name);
      const Variable* original = scope.find(state.name);
      if (original && original->kind() == Kind::dense && original->initialized()) {
        copy.tensor() = original->tensor().clone();
      }
    }
  }
}

// A replica's share of what the loss averages over: elements of the mean's operand where its size
// is known before the run, else samples.
std::vector<double> Replicas::weights(const std::vector<int64_t>& samples) const {
  std::vector<double> shares(samples.begin(), samples.end());
  if (graphs_.averaged_value >= 0) {
    bool known = true;
    std::vector<double> elements;
    for (const auto& frame : frames_) {
      const Shape& shape = frame->facts(graphs_.averaged_value).shape;
      known &= shape.known();
      elements.push_back(static_cast<double>(shape.count()));
    }
    if (known) shares = std::move(elements);
  }
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares)
    share = all > 0 ? share / all : 1.0 / static_cast<double>(shares.size());
  return shares;
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
    const RunSettings& alone, std::vector<double>& shares) {
  std::vector<std::vector<Variable>> inputs = feeds;
  const int weight_at = graphs_.loss_weight_feed;
  for (auto& input : inputs) {
    if (weight_at < 0) break;
    input.insert(input.begin() + weight_at, Variable());
    const ValueInfo& info = replica_->graph.values[replica_->graph.feeds[weight_at].value].info;
    input[weight_at].tensor() = filled(info.dtype, {1}, 1.0);
  }
  for (size_t i = 0; i < frames_.size(); ++i) frames_[i]->bind(inputs[i], *scopes_[i], alone);
  shares = weights(samples);
  for (size_t i = 0; weight_at >= 0 && options_.weighted && i < frames_.size(); ++i) {
    Tensor& weight = inputs[i][weight_at].tensor();
    weight = filled(weight.dtype(), {1}, shares[i]);
  }
  return inputs;
}

void Replicas::bind(const std::vector<std::vector<Variable>>& feeds,
                    const std::vector<int64_t>& samples, Scope& scope,
                    const RunSettings& settings) {
  make_local_scopes(scope);
  std::vector<double> shares;
  weighted_inputs(feeds, samples, settings_of_one(settings), shares);
}

std::vector<Replicas::Result> Replicas::run(const std::vector<std::vector<Variable>>& feeds,
                                            const std::vector<int64_t>& samples, Scope& scope,
                                            const RunSettings& settings) {
  make_local_scopes(scope);
  const RunSettings alone = settings_of_one(settings);
  std::vector<double> shares;
  const auto inputs = weighted_inputs(feeds, samples, alone, shares);
  place_draws();
  run_replicas(inputs, alone, settings.team ? settings.team->team() : nullptr);
  std::vector<std::vector<Variable>> fetched;
  for (const auto& frame : frames_) fetched.push_back(frame->take_fetches());

  std::vector<Variable> once;
  if (update_) {
    std::vector<Variable> sums(graphs_.gradients);
    sum_gradients(sums, settings);
    update_frame_->run(sums, scope, settings);
    once = update_frame_->take_fetches();
  }
  merge_states(shares);

  std::vector<Result> results;
  for (const auto& fetch : graphs_.fetches) {
    Result result;
    for (size_t i = 0; i < frames_.size(); ++i) {
      result.by_device.push_back(fetch.once ? once[fetch.index]
                                            : std::move(fetched[i][fetch.index]));
    }
    results.push_back(std::move(result));
  }
  return results;
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
      return frame->facts(*out).shape.known();
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
// and so on. More replicas than workers only take more turns.
void Replicas::run_replicas(const std::vector<std::vector<Variable>>& inputs,
                            const RunSettings& alone, Team* team) {
  for (size_t i = 0; i < frames_.size(); ++i) frames_[i]->begin(inputs[i], *scopes_[i], alone);
  std::vector<int> met(frames_.size(), -1);
  const auto go_on = [&](int i) { met[i] = frames_[i]->advance(); };
  while (true) {
    if (team) {
      team->run(devices(), go_on);
    } else {
      for (int i = 0; i < devices(); ++i) go_on(i);
    }
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

void Replicas::merge_states(const std::vector<double>& shares) {
  if (frames_.size() == 1) return;
  for (const auto& state : replica_->graph.states) {
    if (state.exit < 0 || state.exit == state.entry) continue;
    std::vector<Tensor*> copies;
    for (Scope* scope : scopes_) {
      Variable* variable = scope->find(state.name);
      if (variable && variable->kind() == Kind::dense) copies.push_back(&variable->tensor());
    }
    if (copies.size() != scopes_.size()) continue;
    const bool differ = !std::all_of(copies.begin(), copies.end(), [&](const Tensor* copy) {
      return equal_bytes(*copy, *copies[0]);
    });
    if (!differ) continue;
    if (copies[0]->dtype() == DType::float32) {
      weighted_mean<float>(copies, shares);
    } else if (copies[0]->dtype() == DType::float64) {
      weighted_mean<double>(copies, shares);
    } else {
      warn_once(cat("data parallel: the devices' values of ", state.name,
                    " differ and have no merge; device 0's is kept"));
    }
    for (size_t i = 1; i < copies.size(); ++i) copies[i]->copy_from(*copies[0]);
  }
}

void Replicas::drop_temporaries() {
  for (auto& frame : frames_) frame = std::make_unique<Frame>(*replica_);
  if (update_) update_frame_ = std::make_unique<Frame>(*update_);
}

std::string Replicas::report() const {
  std::string text = "each device\n" + frames_[0]->report();
  if (update_frame_) text += "update, once\n" + update_frame_->report();
  return text;
}

size_t Replicas::arena_bytes() const {
  size_t bytes = update_frame_ ? update_frame_->arena_bytes() : 0;
  for (const auto& frame : frames_) bytes += frame->arena_bytes();
  return bytes;
}

}  // namespace trireme
