// Names and order of gradient ops: what arrives, what is missing, what several ops add up to.
#include "ir/grad_ops.h"

#include <algorithm>

#include "ir/schema.h"
#include "ir/unique_name.h"

namespace trireme {
namespace {

void replace_in(Slots& slots, const std::string& from, const std::string& to) {
  for (auto& [slot, names] : slots) std::replace(names.begin(), names.end(), from, to);
}

GradOp make_sum(const std::string& name, const std::vector<std::string>& parts,
                const SourceLine& line) {
  return {{.type = "sum", .inputs = {{"X", parts}}, .outputs = {{"Out", {name}}}}, line};
}

// One gradient that may be written several times.
struct Writes {
  std::vector<std::string> parts;  // the names written so far; one name alone is the plain one
  size_t first = 0;                // the op that wrote it first
  int renamed = 0;
  bool arrived = false;  // the first part was there before the list
  SourceLine line;       // of the last writer

  std::string fresh_part(const std::string& name, int block) {
    return cat(name, "@RENAME@block", block, "@", renamed++);
  }
};

// Walks the list once. From its second writer on, a gradient's writers get names of their own; the
// first op that reads it gets a `sum` before it, and what nobody reads is summed at the end.
class Adder {
 public:
  // `overwritten`: gradients that are those of earlier versions from an op on.
  Adder(std::vector<GradOp>& ops, int block, const std::set<std::string>& arriving,
        const std::map<size_t, std::set<std::string>>& overwritten)
      : ops_(ops), block_(block), overwritten_(overwritten) {
    for (const std::string& name : arriving) {
      writes(name).parts = {name};
      writes(name).arrived = true;
    }
    for (size_t at = 0; at < ops.size(); ++at) {
      note_mentions(ops[at].spec.inputs, at);
      note_mentions(ops[at].spec.outputs, at);
    }
  }

  void run() {
    for (size_t at = 0; at < ops_.size(); ++at) {
      begin_versions(at);
      const std::set<std::string> read = names_in(ops_[at].spec.inputs);
      for (const auto& [slot, names] : ops_[at].spec.inputs) {
        for (const std::string& name : names) {
          if (is_grad_name(name)) join(name, at);
        }
      }
      const std::vector<std::string>& updates = op_table().get(ops_[at].spec.type).trait().updates;
      for (auto& [slot, names] : ops_[at].spec.outputs) {
        for (size_t i = 0; i < names.size(); ++i) {
          // An op that reads and writes one name changes it in place; nothing is added.
          if (!is_grad_name(names[i]) || read.contains(names[i])) continue;
          if (std::find(updates.begin(), updates.end(), slot) != updates.end()) {
            add_element(at, names[i]);
          } else {
            write(at, names, i);
          }
        }
      }
    }
    begin_versions(ops_.size());
    for (const std::string& name : std::vector<std::string>(order_)) join(name, ops_.size());
    insert_sums();
  }

 private:
  void note_mentions(const Slots& slots, size_t at) {
    for (const auto& [slot, names] : slots) {
      for (const std::string& name : names) {
        if (is_grad_name(name)) mentions_[name].push_back(at);
      }
    }
  }

  Writes& writes(const std::string& name) {
    const auto [found, fresh] = writes_.try_emplace(name);
    if (fresh) order_.push_back(name);
    return found->second;
  }

  void begin_versions(size_t at) {
    const auto found = overwritten_.find(at);
    if (found == overwritten_.end()) return;
    for (const std::string& name : found->second) {
      join(name, at);
      writes(name).parts.clear();
      writes(name).arrived = false;
    }
  }

  // Writing an element of a gradient adds to what is there: one array takes them all.
  void add_element(size_t at, const std::string& name) {
    join(name, at);
    Writes& w = writes(name);
    w.line = ops_[at].line;
    if (!w.parts.empty()) return;
    w.parts = {name};
    w.first = at;
  }

  void join(const std::string& name, size_t before) {
    Writes& w = writes(name);
    if (w.parts.size() < 2) return;
    sums_[before].push_back(make_sum(name, w.parts, w.line));
    sums_of_[name].insert(before);
    w.parts = {name};
  }

  void write(size_t at, std::vector<std::string>& names, size_t i) {
    const std::string name = names[i];
    Writes& w = writes(name);
    w.line = ops_[at].line;
    if (w.parts.empty()) {
      w.parts = {name};
      w.first = at;
      return;
    }
    if (w.parts.size() == 1 && !w.arrived) {
      const std::string first = w.fresh_part(name, block_);
      const std::vector<size_t>& mentioned = mentions_[name];
      for (auto before = std::lower_bound(mentioned.begin(), mentioned.end(), w.first);
           before != mentioned.end() && *before < at; ++before) {
        replace_in(ops_[*before].spec.inputs, name, first);
        replace_in(ops_[*before].spec.outputs, name, first);
      }
      for (const size_t position : sums_of_[name]) {
        for (GradOp& sum : sums_[position]) {
          replace_in(sum.spec.inputs, name, first);
          replace_in(sum.spec.outputs, name, first);
        }
      }
      // The op itself may have written the name in an earlier slot or place.
      names[i].clear();
      rename_before(ops_[at].spec.outputs, name, first);
      w.parts[0] = first;
    }
    names[i] = w.fresh_part(name, block_);
    w.parts.push_back(names[i]);
  }

  // Up to the place that was emptied.
  static void rename_before(Slots& slots, const std::string& from, const std::string& to) {
    for (auto& [slot, names] : slots) {
      for (std::string& name : names) {
        if (name.empty()) return;
        if (name == from) name = to;
      }
    }
  }

  void insert_sums() {
    std::vector<GradOp> all;
    for (size_t at = 0; at <= ops_.size(); ++at) {
      if (const auto found = sums_.find(at); found != sums_.end()) {
        std::move(found->second.begin(), found->second.end(), std::back_inserter(all));
      }
      if (at < ops_.size()) all.push_back(std::move(ops_[at]));
    }
    ops_ = std::move(all);
  }

  std::vector<GradOp>& ops_;
  int block_;
  const std::map<size_t, std::set<std::string>>& overwritten_;
  std::map<std::string, Writes> writes_;
  std::vector<std::string> order_;                       // gradients as they are first mentioned
  std::map<size_t, std::vector<GradOp>> sums_;           // by the op they stand before
  std::map<std::string, std::vector<size_t>> mentions_;  // ops that read or write a gradient
  std::map<std::string, std::set<size_t>> sums_of_;      // where sums of a gradient stand
};

}  // namespace

ForwardNames::ForwardNames(const Op& op)
    : read(names_in(op.inputs())), written(names_in(op.outputs())) {}

bool is_grad_name(std::string_view name) { return name.find(kGradSuffix) != name.npos; }

void rename_in(Slots& slots, const Renames& renames) {
  if (renames.empty()) return;
  for (auto& [slot, names] : slots) {
    for (std::string& name : names) {
      if (const auto found = renames.find(name); found != renames.end()) name = found->second;
    }
  }
}

std::set<std::string> names_in(const Slots& slots) {
  std::set<std::string> all;
  for (const auto& [slot, names] : slots) all.insert(names.begin(), names.end());
  all.erase(std::string(kEmptyVar));
  return all;
}

std::string GradList::current_name(const std::string& gradient) const {
  const auto found = renames_.find(gradient);
  return found == renames_.end() ? gradient : found->second;
}

// A name the block has belongs to an earlier backward; this one's get one "grad/" per backward.
std::string GradList::new_name(const std::string& gradient) {
  if (const auto found = renames_.find(gradient); found != renames_.end()) return found->second;
  if (!block_.find_var(gradient)) return gradient;
  std::string name;
  for (int i = 0; i < order_ && order_ > 1; ++i) name += "grad/";
  name = name.empty() ? unique_names().generate(gradient) : name + gradient;
  renames_[gradient] = name;
  return name;
}

void GradList::seed(const std::string& target, GradOp op) {
  const std::string name = new_name(grad_name(target));
  for (auto& [slot, names] : op.spec.outputs) names = {name};
  forward_of_[name] = target;
  add(std::move(op));
}

void GradList::seed_with(const std::string& target, const std::string& name) {
  renames_[grad_name(target)] = name;
  produced_.insert(name);
  ever_produced_.insert(name);
}

void GradList::arrive(const std::string& name) {
  const std::string gradient = grad_name(name);
  produced_.insert(gradient);
  ever_produced_.insert(gradient);
  arriving_.insert(gradient);
  forward_of_[gradient] = name;
}

bool GradList::arrives(const std::string& name) const {
  return produced_.contains(current_name(grad_name(name)));
}

void GradList::overwrite(const Op& op) {
  if (op.sub_block()) return;  // it may not run; its gradient sees to that
  const std::set<std::string> read = names_in(op.inputs());
  const std::vector<std::string>& updates = op_table().get(op.type()).trait().updates;
  for (const auto& [slot, names] : op.outputs()) {
    if (std::find(updates.begin(), updates.end(), slot) != updates.end()) continue;
    for (const std::string& name : names) {
      const std::string gradient = current_name(grad_name(name));
      if (read.contains(name) || !produced_.erase(gradient)) continue;
      overwritten_[ops_.size()].insert(gradient);
    }
  }
}

void GradList::rename_gradients(const ForwardNames& forward, OpSpec& spec) {
  for (auto& [slot, names] : spec.inputs) {
    for (std::string& name : names) {
      if (!forward.contains(name)) name = current_name(name);
    }
  }
  for (auto& [slot, names] : spec.outputs) {
    for (std::string& name : names) {
      if (!is_grad_name(name)) continue;
      const std::string plain = name;
      name = new_name(plain);
      if (!plain.ends_with(kGradSuffix)) continue;
      std::string of = plain.substr(0, plain.size() - kGradSuffix.size());
      if (forward.read.contains(of)) forward_of_[name] = std::move(of);
    }
  }
}

// False when gradients should arrive at the op and none does. Where only some do, the others are
// zero.
bool GradList::complete_arriving(const Op& op, const ForwardNames& forward, const OpSpec& spec,
                                 const Renames& recomputed) {
  std::set<std::string> missing;
  bool any = false, arrives = false;
  for (const std::string& name : names_in(spec.inputs)) {
    if (forward.contains(name)) continue;
    any = true;
    if (produced_.contains(name)) {
      arrives = true;
    } else {
      missing.insert(name);
    }
  }
  if (any && !arrives) return false;
  if (missing.empty()) return true;
  for (const auto& [slot, outputs] : op.outputs()) {
    for (const std::string& output : outputs) {
      const std::string gradient = current_name(grad_name(output));
      if (!missing.erase(gradient)) continue;
      const auto now = recomputed.find(output);
      const std::string& like = now == recomputed.end() ? output : now->second;
      forward_of_[gradient] = output;
      add({{.type = "fill_zeros_like", .inputs = {{"X", {like}}}, .outputs = {{"Out", {gradient}}}},
           op.line()});
    }
  }
  if (!missing.empty()) {
    throw InternalError(cat(spec.type, ", the gradient of ", op.type(), ", reads ",
                            *missing.begin(), ", which nothing computes"));
  }
  return true;
}

void GradList::differentiate(const Op& op, const Renames& recomputed) {
  if (op.sub_block()) return differentiate_sub_block(op);
  const OpSchema& row = op_table().get(op.type());
  GradMaker maker(
      op, [this](const std::string& name) { return !no_grad_.contains(name); },
      [this](const std::string& name) { return arrives(name); });
  const ForwardNames forward(op);
  for (OpSpec& spec : row.make_grad(maker)) {
    const std::set<std::string> outputs = names_in(spec.outputs);
    const bool wanted =
        std::any_of(outputs.begin(), outputs.end(), [this](const std::string& name) {
          const size_t end = name.size() - std::min(name.size(), kGradSuffix.size());
          return !name.ends_with(kGradSuffix) || !no_grad_.contains(name.substr(0, end));
        });
    if (!wanted) continue;
    rename_gradients(forward, spec);
    if (!complete_arriving(op, forward, spec, recomputed)) continue;
    keep_versions(op, forward, spec);
    rename_in(spec.inputs, recomputed);
    const auto device = op.attrs().find("op_device");
    if (device != op.attrs().end()) spec.attrs.insert_or_assign("op_device", device->second);
    add({std::move(spec), op.line()});
  }
}

void GradList::add(GradOp op) {
  const std::set<std::string> outputs = names_in(op.spec.outputs);
  produced_.insert(outputs.begin(), outputs.end());
  ever_produced_.insert(outputs.begin(), outputs.end());
  ops_.push_back(std::move(op));
}

std::vector<GradOp> GradList::finish() {
  Adder(ops_, block_.index(), arriving_, overwritten_).run();
  return std::move(ops_);
}

std::string GradList::gradient_of(const std::string& name) const {
  const std::string gradient = current_name(grad_name(name));
  return ever_produced_.contains(gradient) ? gradient : "";
}

std::string GradList::forward_of(std::string_view gradient) const {
  const size_t part = gradient.find("@RENAME@");
  const auto found = forward_of_.find(gradient.substr(0, part));
  return found == forward_of_.end() ? "" : found->second;
}

}  // namespace trireme
