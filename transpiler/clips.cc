// Finds the clips of a program, and what of them servers compute.
#include "transpiler/clips.h"

#include <algorithm>
#include <set>

#include "core/text.h"
#include "transpiler/report.h"

namespace trireme {
namespace {

bool is_in(const std::string& type, std::initializer_list<const char*> types) {
  return std::ranges::find(types, type) != types.end();
}

// Whether slices may go through the op one by one; `to_number`: on the way to a sum over all.
bool works_on_slices(const Op& op, bool to_number) {
  if (is_in(op.type(), {"clip", "scale", "elementwise_mul", "fill_constant", "sum"})) return true;
  return to_number && is_in(op.type(), {"square", "reduce_sum", "squared_l2_norm",
                                        "merge_selected_rows", "get_tensor_from_selected_rows"});
}

class ClipFinder {
 public:
  ServerClips find(const UpdateOps& ops) {
    for (const Op* op : ops.clips) add(*op);
    for (const Update& update : ops.updates) {
      const auto found = from_.find(update.grad);
      if (found == from_.end()) continue;
      const std::string raw = *found->second.grads.begin();
      ClippedGrad& grad = by_raw_.at(raw);
      for (const Op* op : grad.before) grad.may_be_cut &= works_on_slices(*op, grad.join >= 0);
      for (const Op* op : grad.after) grad.may_be_cut &= works_on_slices(*op, false);
      clips_.grads[update.grad] = grad;
    }
    return std::move(clips_);
  }

 private:
  // What a variable was computed from.
  struct Source {
    std::set<std::string> grads;  // as backward leaves them
    int join = -1;
    const Op* constant = nullptr;  // the op, where it is computed from nothing
  };

  Source source_of(const std::string& name) const {
    const auto found = from_.find(name);
    return found == from_.end() ? Source{.grads = {name}} : found->second;
  }

  void add(const Op& op) {
    clips_.ops.push_back(&op);
    Source source;
    for (const std::string& name : op.input_names()) {
      const Source one = source_of(name);
      source.grads.insert(one.grads.begin(), one.grads.end());
      source.join = std::max(source.join, one.join);
    }
    if (source.grads.empty() && source.join < 0) {
      source.constant = &op;
    } else if (source.grads.size() > 1) {
      source = add_join(op, source);
    } else if (source.grads.empty()) {
      append(clips_.joins[static_cast<size_t>(source.join)].decide, op);
    } else {
      ClippedGrad& grad = by_raw_[*source.grads.begin()];
      grad.raw = *source.grads.begin();
      append(source.join < 0 ? grad.before : grad.after, op);
    }
    for (const std::string& name : op.output_names()) from_[name] = source;
  }

  Source add_join(const Op& op, const Source& source) {
    if (op.type() != "sum" || source.join >= 0) {
      throw transpile_error(cat("gradients of several parameters are clipped together by ",
                                op.type(), "; over servers only their sum can be computed"),
                            ErrorKind::unimplemented)
          .at(op.line())
          .fix("clip by value, by norm or by global norm, or train with one trainer");
    }
    const int join = static_cast<int>(clips_.joins.size());
    for (const std::string& name : op.input_names()) {
      const std::string raw = *source_of(name).grads.begin();
      ClippedGrad& grad = by_raw_[raw];
      grad.raw = raw;
      grad.join = join;
      grad.number = name;
    }
    clips_.joins.push_back({.sum = &op, .total = op.output_names().front(), .decide = {}});
    return {.grads = {}, .join = join};
  }

  // With the constants that it reads.
  void append(std::vector<const Op*>& list, const Op& op) {
    for (const std::string& name : op.input_names()) {
      const Op* constant = source_of(name).constant;
      if (constant && std::ranges::find(list, constant) == list.end()) list.push_back(constant);
    }
    list.push_back(&op);
  }

  ServerClips clips_;
  std::map<std::string, Source> from_;         // what clips compute
  std::map<std::string, ClippedGrad> by_raw_;  // by the name before the clips
};

}  // namespace

const ClippedGrad* ServerClips::find(const std::string& grad) const {
  const auto found = grads.find(grad);
  return found == grads.end() ? nullptr : &found->second;
}

ServerClips find_server_clips(const UpdateOps& ops) { return ClipFinder().find(ops); }

}  // namespace trireme
