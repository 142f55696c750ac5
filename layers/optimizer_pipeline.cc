// An optimizer whose program is cut into sections, which run one after another.
#include "layers/optimizer_pipeline.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "core/text.h"

namespace trireme::optimizer {
namespace {

void check_at_least(const char* argument, int value, int least, const SourceLine& line) {
  if (value >= least) return;
  throw Error(cat(argument, " is ", value, " but must be ", least, " or more"))
      .in("PipelineOptimizer")
      .at(line);
}

void check_length(const char* argument, size_t length, size_t cuts, const SourceLine& line) {
  const size_t sections = 2 * cuts - 1;
  if (length == sections) return;
  throw Error(cat(argument, " has ", length, length == 1 ? " item" : " items", ", but ", cuts,
                  cuts == 1 ? " cut makes " : " cuts make ", sections,
                  sections == 1 ? " section" : " sections"))
      .in("PipelineOptimizer")
      .at(line)
      .fix(
          "give an item for each section: forward to every cut but the last, the loss, and as many "
          "backward");
}

void check_places(const std::vector<Place>& places, const SourceLine& line) {
  std::set<int> cards;
  for (const Place& place : places) {
    if (place.kind == DeviceKind::cuda) cards.insert(place.id);
  }
  if (cards.size() < 2) return;
  std::vector<std::string> names;
  for (const int card : cards) names.push_back(to_string(cuda_place(card)));
  throw Error(ErrorKind::unimplemented,
              cat("place_list names the cards ", join(names),
                  "; a program on several GPU cards is not built yet in Trireme"))
      .in("PipelineOptimizer")
      .at(line)
      .fix("name one card, or CPUPlace() for all sections");
}

}  // namespace

Pipeline::Pipeline(std::shared_ptr<Optimizer> inner, const PipelineOptions& options,
                   const SourceLine& line)
    : inner_(std::move(inner)), places_(options.places), concurrency_(options.concurrency) {
  if (!inner_) {
    throw Error(ErrorKind::assertion, "the inner optimizer is missing")
        .in("PipelineOptimizer")
        .at(line)
        .fix("give an optimizer such as SGD(0.01)");
  }
  if (options.cuts.empty()) {
    throw Error("cut_list holds no cut")
        .in("PipelineOptimizer")
        .at(line)
        .fix("give a list of lists of Variables, the last [loss]");
  }
  for (const std::vector<Var*>& cut : options.cuts) {
    if (cut.empty()) {
      throw Error(cat("item ", cuts_.size(), " of cut_list is empty"))
          .in("PipelineOptimizer")
          .at(line)
          .fix("list the Variables that go from one section to the next");
    }
    cuts_.emplace_back();
    for (const Var* var : cut) cuts_.back().push_back({var->name(), var->block().program().id()});
  }
  check_length("place_list", places_.size(), cuts_.size(), line);
  check_length("concurrency_list", concurrency_.size(), cuts_.size(), line);
  check_places(places_, line);
  for (const int each : concurrency_) check_at_least("an item of concurrency_list", each, 1, line);
  check_at_least("queue_size", options.queue_size, 1, line);
  check_at_least("sync_steps", options.sync_steps, 1, line);
  check_at_least("start_cpu_core_id", options.start_cpu_core_id, 0, line);
}

Minimized Pipeline::minimize(Var& loss, const MinimizeOptions& options, SourceLine line) {
  check_cuts(loss, line);
  Minimized made = inner_->minimize(loss, options, line);
  divide(loss.block().program().global_block());
  return made;
}

// Before anything is appended, so that a wrong cut leaves the program as it was.
void Pipeline::check_cuts(const Var& loss, const SourceLine& line) const {
  const Block& block = loss.block().program().global_block();
  std::map<std::string, size_t, std::less<>> cut_of;
  for (size_t i = 0; i < cuts_.size(); ++i) {
    for (const CutVar& var : cuts_[i]) {
      const auto refuse = [&](const std::string& what) {
        return Error(cat(var.name, " of cut ", i, " ", what)).in("PipelineOptimizer").at(line);
      };
      if (var.program != block.program().id() || !block.find_var(var.name)) {
        throw refuse("is not in the loss's program")
            .fix("cut at variables that the loss comes from");
      }
      if (!cut_of.emplace(var.name, i).second) {
        throw refuse("is cut twice").fix("name every variable in one cut");
      }
      const auto ops = block.ops();
      const bool computed = std::any_of(ops.begin(), ops.end(), [&](const Op* op) {
        const std::vector<std::string> names = op->output_names();
        return std::find(names.begin(), names.end(), var.name) != names.end();
      });
      if (!computed) {
        throw refuse("is computed by no op").fix("cut at what a layer returns");
      }
    }
  }
  // What a cut's variables come from belongs before it: a later cut's variable there is out of
  // order.
  std::map<std::string, size_t, std::less<>> reached;  // name -> the last cut that it comes from
  for (const Op* op : block.ops()) {
    size_t after = 0;  // cuts passed
    for (const std::string& name : op->input_names()) {
      if (const auto found = reached.find(name); found != reached.end()) {
        after = std::max(after, found->second);
      }
    }
    for (const std::string& name : op->output_names()) {
      const auto cut = cut_of.find(name);
      if (cut != cut_of.end() && cut->second < after) {
        throw Error(cat(name, " of cut ", cut->second, " is computed from cut ", after - 1))
            .in("PipelineOptimizer")
            .at(line)
            .fix("order cut_list as the program computes");
      }
      reached[name] = cut == cut_of.end() ? after : cut->second + 1;
    }
  }
}

// Where each section but the last ends: the cuts, then their gradients from the last to the first.
std::vector<std::vector<std::string>> Pipeline::boundaries(const Block& block) const {
  std::vector<std::vector<std::string>> ends;
  for (size_t i = 0; i + 1 < cuts_.size(); ++i) {
    ends.emplace_back();
    for (const CutVar& var : cuts_[i]) ends.back().push_back(var.name);
  }
  for (size_t i = ends.size(); i-- > 0;) {
    std::vector<std::string> grads;
    for (const std::string& name : ends[i]) {
      if (block.find_var(grad_name(name))) grads.push_back(grad_name(name));
    }
    ends.push_back(std::move(grads));
  }
  return ends;
}

// An op is in the first section whose end comes from it. Others, updates above all, are where the
// last of what they read is computed; what reads a section's end is in a later one.
void Pipeline::divide(const Block& block) {
  const std::vector<std::vector<std::string>> ends = boundaries(block);
  const std::vector<Op*> ops = block.ops();
  const size_t last = ends.size();
  std::unordered_map<const Op*, size_t> section;
  for (size_t end = 0; end < ends.size(); ++end) {
    std::set<std::string, std::less<>> wanted(ends[end].begin(), ends[end].end());
    for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
      const std::vector<std::string> out = (*op)->output_names();
      if (std::none_of(out.begin(), out.end(),
                       [&](const auto& n) { return wanted.count(n) > 0; })) {
        continue;
      }
      section.emplace(*op, end);
      for (const std::string& name : (*op)->input_names()) wanted.insert(name);
    }
  }
  sections_.assign(last + 1, {});
  std::map<std::string, size_t, std::less<>> made_in, readable_from;
  for (Op* op : ops) {
    size_t here = 0;
    if (const auto known = section.find(op); known != section.end()) {
      here = known->second;
    } else {
      for (const std::string& name : op->input_names()) {
        if (const auto from = readable_from.find(name); from != readable_from.end()) {
          here = std::max(here, from->second);
        }
      }
    }
    PipelineSection& part = sections_[here];
    part.ops.push_back(op->type());
    for (const std::string& name : op->input_names()) {
      const auto maker = made_in.find(name);
      if (name == kEmptyVar || (maker != made_in.end() && maker->second == here)) continue;
      if (std::find(part.inputs.begin(), part.inputs.end(), name) == part.inputs.end()) {
        part.inputs.push_back(name);
      }
    }
    for (const std::string& name : op->output_names()) {
      const bool ends_it =
          here < last && std::find(ends[here].begin(), ends[here].end(), name) != ends[here].end();
      made_in[name] = here;
      readable_from[name] = here + (ends_it ? 1 : 0);
    }
  }
  for (size_t i = 0; i <= last; ++i) {
    sections_[i].place = places_[i];
    sections_[i].concurrency = concurrency_[i];
    if (i < last) sections_[i].outputs = ends[i];
  }
}

}  // namespace trireme::optimizer
