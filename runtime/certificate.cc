// Runs a step in the way that is asked for, and compares what two of them left.
#include "runtime/certificate.h"

#include <algorithm>
#include <cmath>

#include "runtime/feed_split.h"
#include "runtime/merge_fetches.h"
#include "runtime/step_copies.h"

namespace trireme {
namespace {

constexpr double kRounding = 1e-7;  // of float32 numbers around one

// What several places computed, put together as one computes it. The mean of a loss is the mean of
// the places' by their shares; what else has another shape than `like` is not to be had.
std::optional<Variable> whole(const std::string& name, const Op& op, Replicas::Result result,
                              const Variable& like) {
  if (result.by_device.size() == 1) return std::move(result.by_device.front());
  const bool dense =
      like.kind() == Kind::dense && like.initialized() &&
      std::all_of(result.by_device.begin(), result.by_device.end(), [](const Variable& piece) {
        return piece.kind() == Kind::dense && piece.initialized();
      });
  if (!dense) return std::nullopt;
  const Shape& shape = like.tensor().shape();
  const OpSchema* row = op_table().find(op.type());
  const auto& first = result.by_device.front().tensor();
  if (row && row->trait().averages && first.shape() == shape) {
    return merge_fetch(name, result, Merge::mean);
  }
  int64_t rows = 0;
  for (const Variable& piece : result.by_device) {
    const Shape& mine = piece.tensor().shape();
    if (mine.rank() != shape.rank() || mine.rank() == 0) return std::nullopt;
    for (int i = 1; i < mine.rank(); ++i) {
      if (!(mine[i] == shape[i])) return std::nullopt;
    }
    rows += mine.at(0);
  }
  if (rows != shape.at(0)) return std::nullopt;
  return merge_fetch(name, result, Merge::join);
}

}  // namespace

StepValues::StepValues(const Program& program, const Feeds& feeds, const Scope& scope,
                       const RunWay& way, const std::function<void()>& poll)
    : scope_(std::make_unique<Scope>()) {
  copy_scope(scope, *scope_);
  scope_->step() = 0;  // random ops draw by it, and files do not hold it
  std::vector<std::string> names = way.fetches;
  if (names.empty()) {
    for (const Written& each : results_of(program)) names.push_back(each.name);
  }
  Executor executor(way.place);
  Executor::ParallelOptions parallel{.sync_batch_norm = way.sync_batch_norm, .tree = way.tree};
  std::vector<Feeds> pieces{feeds};
  if (way.devices > 1) {
    pieces = split_feeds(feeds, way.devices, persistable_feeds(program, feeds));
    for (int i = 0; i < way.devices && !in_host_memory(way.place); ++i) {
      parallel.places.push_back(cuda_place(i));
    }
  }
  for (int step = 0; step < way.steps; ++step) {
    std::vector<Replicas::Result> results = executor.run_parallel(program, pieces, names, parallel,
                                                                  {.scope = scope_.get(),
                                                                   .poll = poll,
                                                                   .threads = way.threads,
                                                                   .passes_off = way.passes_off,
                                                                   .process_seed = 1});
    fetched_.clear();
    for (size_t i = 0; i < results.size(); ++i) {
      for (Variable& value : results[i].by_device) {
        if (value.kind() == Kind::dense && value.initialized()) {
          value.tensor() = value.tensor().on_host();
        }
      }
      fetched_.emplace_back(names[i], std::move(results[i]));
    }
  }
  if (!in_host_memory(way.place)) bring_home();
}

// States are left where the place has them; who compares is the host.
void StepValues::bring_home() {
  for (const std::string& name : scope_->names()) {
    Variable& held = *scope_->find_local(name);
    if (!held.initialized()) continue;
    if (held.kind() == Kind::dense) held.tensor() = held.tensor().on_host();
    if (held.kind() == Kind::rows) held.rows().value = held.rows().value.on_host();
  }
}

StepValues::StepValues(const Feeds& values) : scope_(std::make_unique<Scope>()) {
  for (const auto& [name, tensor] : values) {
    Variable value;
    value.tensor() = tensor;
    scope_->var(name).copy_from(value);
    Replicas::Result result;
    result.by_device.push_back(std::move(value));
    fetched_.emplace_back(name, std::move(result));
  }
}

StepValues::StepValues(StepValues&&) noexcept = default;
StepValues::~StepValues() = default;

const Replicas::Result* StepValues::fetched(const std::string& name) const {
  const auto found = std::find_if(fetched_.begin(), fetched_.end(),
                                  [&](const auto& each) { return each.first == name; });
  return found == fetched_.end() ? nullptr : &found->second;
}

namespace {

// Whether the verdict on several places hangs on it: what stays, and means over the batch. Rows of
// other results may stand in another order, where an op puts rows of one batch below another's.
bool is_judged(const Program& program, const Written& each) {
  const OpSchema* row = op_table().find(each.op->type());
  return program.global_block().var(each.name).persistable() || (row && row->trait().averages);
}

// What optimizers divide by grows with the square of gradients. Of all parameters together the
// largest says what is large here.
constexpr const char* kDivisors[] = {"Moment2", "MeanSquare", "AvgSquaredGrad"};
constexpr double kIsRounding = 1e-5 * 1e-5;  // of the largest

const Tensor* divisor_of(const Op& op, const Scope& scope) {
  for (const char* slot : kDivisors) {
    const std::vector<std::string>& names = op.input(slot);
    const Variable* held = names.empty() ? nullptr : scope.find(names[0]);
    if (held && held->kind() == Kind::dense && held->initialized()) return &held->tensor();
  }
  return nullptr;
}

double largest_divisor(const std::vector<Written>& results, const Scope& scope) {
  double largest = 0;
  for (const Written& each : results) {
    const Tensor* divisor = divisor_of(*each.op, scope);
    for (int64_t i = 0; divisor && i < divisor->numel(); ++i) {
      largest = std::max(largest, element_as_double(*divisor, i));
    }
  }
  return largest;
}

// The parameter of `b`, with what only rounding has decided as in `a`.
Variable without_rounding(const Variable& a, const Variable& b, const Tensor& divisor, double least,
                          int64_t& left_out) {
  Variable made;
  if (a.kind() != Kind::dense || b.kind() != Kind::dense) return b;
  const Tensor &x = a.tensor(), &y = b.tensor();
  const bool alike = x.dtype() == DType::float32 && y.dtype() == x.dtype() &&
                     x.numel() == y.numel() && divisor.numel() == x.numel();
  if (!alike) return b;
  made.tensor() = Tensor(y.dtype(), y.shape());
  float* to = made.tensor().data<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    const bool rounding = element_as_double(divisor, i) < least;
    const float mine = x.data<float>()[i], other = y.data<float>()[i];
    to[i] = rounding ? mine : other;
    left_out += rounding && mine != other;
  }
  return made;
}

// Takes one result of both runs into account.
void hold(const Written& each, const Variable& x, const Variable& y, double bound,
          Comparison& found) {
  double scale = 0;
  const double difference = largest_difference(x, y, scale);
  ++found.compared;
  found.equal += difference == 0;
  if (difference == 0) return;
  const double share = scale > 0 ? difference / scale : INFINITY;
  if (share > found.largest && (difference > kRounding || bound == 0)) {
    found.largest = share;
    found.variable = each.name;
  }
  const bool counts = difference > bound * scale && (bound == 0 || difference > kRounding);
  if (!counts || !found.op.empty()) return;
  found.op = each.op->type();
  found.differs = each.name;
  found.line = each.op->line();
  found.difference = share;
}

}  // namespace

Comparison compare(const Program& program, const StepValues& a, const StepValues& b, double bound) {
  const std::vector<Written> results = results_of(program);
  const double least = kIsRounding * largest_divisor(results, *a.scope_);
  bool other_places = false;
  const auto together = [&](bool judged_alone) {
    Comparison found;
    for (const Written& each : results) {
      const Replicas::Result *x = a.fetched(each.name), *y = b.fetched(each.name);
      const bool stays = program.global_block().var(each.name).persistable();
      if (!x || !y || stays) {
        const Variable *in_a = a.scope_->find(each.name), *in_b = b.scope_->find(each.name);
        const bool both = in_a && in_b && in_a->initialized() && in_b->initialized();
        if (!both) continue;
        const Tensor* divisor = bound > 0 ? divisor_of(*each.op, *a.scope_) : nullptr;
        const std::vector<std::string>& updated = each.op->output("ParamOut");
        if (divisor && !updated.empty() && updated[0] == each.name) {
          hold(each, *in_a, without_rounding(*in_a, *in_b, *divisor, least, found.left_out), bound,
               found);
        } else {
          hold(each, *in_a, *in_b, bound, found);
        }
        continue;
      }
      const bool same_places = x->by_device.size() == y->by_device.size();
      other_places = other_places || !same_places;
      if (judged_alone && !same_places && !is_judged(program, each)) continue;
      const Variable& like = x->by_device.front();
      for (size_t i = 0; same_places && i < x->by_device.size(); ++i) {
        hold(each, x->by_device[i], y->by_device[i], bound, found);
      }
      if (same_places) continue;
      const std::optional<Variable> joined = whole(each.name, *each.op, *y, like);
      if (joined) hold(each, like, *joined, bound, found);
    }
    return found;
  };
  const Comparison judged = together(true);
  // Where something differs, the first op is looked for among all.
  return judged.op.empty() || !other_places ? judged : together(false);
}

}  // namespace trireme
