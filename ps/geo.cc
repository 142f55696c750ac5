// Differences of parameters, cut as servers keep them.
#include "ps/geo.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "ir/distributed.h"

namespace trireme {
namespace {

using What = ServerAsk::What;
using GeoParam = GeoSettings::Param;

Tensor& parameter_in(Scope& scope, const std::string& name) {
  Variable* found = scope.find(name);
  if (!found || found->kind() != Kind::dense || !found->initialized()) {
    throw Error(ErrorKind::precondition, cat("the scope has no parameter ", name))
        .fix("run the trainer's startup program in the same scope first");
  }
  if (found->tensor().dtype() != DType::float32) {
    throw Error(ErrorKind::unimplemented, cat(name, " is ", name_of(found->tensor().dtype()),
                                              ", and geo training takes float32 only"))
        .fix("use float32 parameters, or another mode");
  }
  return found->tensor();
}

int64_t row_width(const Tensor& tensor) {
  return tensor.shape().product(1, tensor.shape().rank()).value();
}

// Of rows [begin, begin + count): those in which something has changed, counted from 0.
Variable changed_rows(const Tensor& delta, int64_t begin, int64_t count) {
  const int64_t width = row_width(delta);
  const float* const from = std::as_const(delta).data<float>() + begin * width;
  Variable part;
  SelectedRows& rows = part.rows();
  rows.height = count;
  for (int64_t r = 0; r < count; ++r) {
    const float* row = from + r * width;
    if (std::any_of(row, row + width, [](float x) { return x != 0; })) rows.rows.push_back(r);
  }
  Shape shape = delta.shape();
  shape[0] = static_cast<int64_t>(rows.rows.size());
  rows.value = Tensor(DType::float32, shape);
  for (size_t i = 0; i < rows.rows.size(); ++i) {
    std::copy_n(from + rows.rows[i] * width, width,
                rows.value.data<float>() + static_cast<int64_t>(i) * width);
  }
  return part;
}

bool looks_rows_up(const Op& op) {
  return (op.type() == "lookup_table" || op.type() == "lookup_table_v2") &&
         op.attr_or<bool>("is_sparse", false);
}

}  // namespace

GeoSettings geo_settings(const Program& trainer, int trainers, int64_t push_every) {
  if (!trainer.distributed || trainer.distributed->slices.empty()) {
    throw Error(ErrorKind::precondition, "the program was not made for parameter servers")
        .fix("give the program that GeoSgdTranspiler has transpiled");
  }
  if (trainers < 1 || push_every < 1) {
    throw Error(cat("there are ", trainers, " trainers that push every ", push_every, " steps"))
        .fix("give numbers from 1 on");
  }
  std::set<std::string> tables;
  for (const Op* op : trainer.global_block().ops()) {
    if (looks_rows_up(*op)) tables.insert(op->input("W").front());
  }
  std::vector<const VarSlice*> slices;
  for (const VarSlice& slice : trainer.distributed->slices) {
    if (slice.use != VarSlice::Use::optimizer) slices.push_back(&slice);
  }
  std::ranges::stable_sort(slices, {}, [](const VarSlice* s) { return s->offset; });
  GeoSettings made{.trainer = trainer.distributed->trainer_id,
                   .trainers = trainers,
                   .push_every = push_every,
                   .params = {}};
  std::map<std::string, size_t> number;
  for (const VarSlice* slice : slices) {
    const std::string& name = slice->origin.name;
    if (number.emplace(name, made.params.size()).second) {
      made.params.push_back({.name = name, .sparse = tables.contains(name), .parts = {}});
    }
    made.params[number.at(name)].parts.push_back({.name = slice->slice.name,
                                                  .delta = slice->slice.name + ".delta",
                                                  .endpoint = slice->endpoint,
                                                  .rows = slice->slice.shape.at(0)});
  }
  return made;
}

std::vector<Tensor> Geo::pull(ServerCalls& calls) const {
  std::vector<std::vector<Variable>> parts;
  std::vector<ServerAsk> asks;
  for (const GeoParam& param : settings_.params) parts.emplace_back(param.parts.size());
  for (size_t p = 0; p < parts.size(); ++p) {
    for (size_t i = 0; i < parts[p].size(); ++i) {
      const GeoParam::Part& part = settings_.params[p].parts[i];
      asks.push_back({.what = What::read,
                      .endpoint = &part.endpoint,
                      .name = &part.name,
                      .value = {},
                      .into = &parts[p][i],
                      .path = {}});
    }
  }
  calls.be(settings_.trainer);
  calls.ask(asks);
  std::vector<Tensor> pulled;
  for (std::vector<Variable>& of_one : parts) {
    Shape shape = of_one.front().tensor().shape();
    int64_t rows = 0;
    for (const Variable& part : of_one) rows += part.tensor().shape().at(0);
    shape[0] = rows;
    Tensor& whole = pulled.emplace_back(DType::float32, shape);
    float* to = whole.data<float>();
    for (Variable& part : of_one) {
      const Tensor& rows_of_part = part.tensor();
      to = std::copy_n(std::as_const(rows_of_part).data<float>(), rows_of_part.numel(), to);
    }
  }
  return pulled;
}

void Geo::begin(ServerCalls& calls, Scope& scope) {
  old_ = pull(calls);
  for (size_t p = 0; p < old_.size(); ++p) {
    Variable value;
    value.tensor() = old_[p];
    scope.var(settings_.params[p].name).copy_from(value);
  }
  steps_ = 0;
}

void Geo::push(ServerCalls& calls, Scope& scope) {
  std::vector<ServerAsk> asks;
  for (size_t p = 0; p < old_.size(); ++p) {
    const GeoParam& param = settings_.params[p];
    const Tensor& now = parameter_in(scope, param.name);
    Tensor delta(DType::float32, now.shape());
    float *change = delta.data<float>(), *old = old_[p].data<float>();
    const float* value = now.data<float>();
    for (int64_t i = 0; i < now.numel(); ++i) {
      change[i] = (value[i] - old[i]) / static_cast<float>(settings_.trainers);
      old[i] += change[i];
    }
    int64_t begin = 0;
    for (const GeoParam::Part& part : param.parts) {
      Variable changed;
      if (param.sparse) {
        changed = changed_rows(delta, begin, part.rows);
      } else {
        changed.tensor() = delta.slice_rows(begin, begin + part.rows);
      }
      begin += part.rows;
      if (param.sparse && changed.rows().rows.empty()) continue;
      asks.push_back({.what = What::push,
                      .endpoint = &part.endpoint,
                      .name = &part.delta,
                      .value = std::move(changed),
                      .into = nullptr,
                      .path = {}});
    }
  }
  calls.be(settings_.trainer);
  calls.ask(asks);
}

void Geo::step(ServerCalls& calls, Scope& scope) {
  if (++steps_ % settings_.push_every == 0) flush(calls, scope);
}

void Geo::flush(ServerCalls& calls, Scope& scope) {
  if (old_.empty()) {
    throw Error(ErrorKind::precondition, "a geo trainer has not asked for the servers' parameters")
        .fix("run the trainer's startup program after fleet.init_worker()");
  }
  push(calls, scope);
  const std::vector<Tensor> theirs = pull(calls);
  for (size_t p = 0; p < theirs.size(); ++p) {
    Tensor& now = parameter_in(scope, settings_.params[p].name);
    float *value = now.data<float>(), *old = old_[p].data<float>();
    const float* given = theirs[p].data<float>();
    for (int64_t i = 0; i < now.numel(); ++i) {
      value[i] += given[i] - old[i];
      old[i] = given[i];
    }
  }
}

}  // namespace trireme
