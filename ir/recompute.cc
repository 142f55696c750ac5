// Cuts the way to the loss at checkpoints and repeats the ops of each segment in the backward part.
#include "ir/recompute.h"

#include <algorithm>

#include "ir/schema.h"

namespace trireme {
namespace {

struct Segment {
  size_t begin = 0, end = 0;  // ops [begin, end) of the path
};

struct Uses {
  std::vector<size_t> reads, writes;  // positions in the path
};

class Recompute {
 public:
  Recompute(GradList& gradients, Block& block, const std::vector<Op*>& path)
      : gradients_(gradients), block_(block), path_(path) {
    for (size_t i = 0; i < path.size(); ++i) {
      for (const std::string& name : names_in(path[i]->inputs())) uses_[name].reads.push_back(i);
      for (const std::string& name : names_in(path[i]->outputs())) uses_[name].writes.push_back(i);
      if (path[i]->sub_block()) {
        Error error(ErrorKind::unimplemented, "an op with a sub-block cannot be recomputed");
        error.fix("give append_backward no checkpoints");
        throw add_op_context(error, *path[i]);
      }
    }
  }

  void run(const std::vector<std::string>& checkpoints) {
    const std::vector<Segment> segments = cut(checkpoints);
    find_kept(segments, checkpoints);
    size_t end = path_.size();
    for (size_t k = 0; k < segments.size(); ++k) {
      const Segment& segment = segments[segments.size() - 1 - k];
      for (size_t i = end; i > segment.end; --i) gradients_.differentiate(*path_[i - 1]);
      const Renames again = repeat(segment, cat(".subprog_", k));
      for (size_t i = segment.end; i > segment.begin; --i) {
        gradients_.differentiate(*path_[i - 1], again);
      }
      end = segment.begin;
    }
    for (size_t i = end; i > 0; --i) gradients_.differentiate(*path_[i - 1]);
  }

 private:
  // A segment runs from the first reader of one checkpoint to the op that computes the next; what
  // stands before the first segment is one more.
  std::vector<Segment> cut(const std::vector<std::string>& checkpoints) const {
    std::vector<std::pair<size_t, std::string>> found;  // after how many ops it is there
    for (const std::string& name : std::set<std::string>(checkpoints.begin(), checkpoints.end())) {
      if (!block_.find_var(name)) {
        throw Error(ErrorKind::not_found,
                    cat("checkpoint ", name, " is not a variable of the program"))
            .fix("give variables that the loss is computed from");
      }
      const auto uses = uses_.find(name);
      if (uses == uses_.end()) continue;  // the loss does not depend on it
      found.emplace_back(uses->second.writes.empty() ? 0 : uses->second.writes.back() + 1, name);
    }
    std::sort(found.begin(), found.end());
    std::vector<Segment> segments;
    if (found.size() == 1 && found[0].first > 0) segments.push_back({0, found[0].first});
    for (size_t i = 0; i + 1 < found.size(); ++i) {
      const Uses& from = uses_.at(found[i].second);
      if (from.reads.empty() || from.reads.front() + 1 >= found[i + 1].first) continue;
      segments.push_back({from.reads.front(), found[i + 1].first});
    }
    if (!segments.empty() && segments[0].begin > 0) {
      segments.insert(segments.begin(), {0, segments[0].begin});
    }
    return segments;
  }

  // Kept in memory: checkpoints, what enters the path, what a segment takes from or gives to
  // others, and what ops with effects give, since those must not run twice.
  void find_kept(const std::vector<Segment>& segments,
                 const std::vector<std::string>& checkpoints) {
    kept_.insert(checkpoints.begin(), checkpoints.end());
    for (const auto& [name, uses] : uses_) {
      if (uses.writes.empty()) {
        kept_.insert(name);
        continue;
      }
      for (const Segment& segment : segments) {
        const auto inside = [&](size_t i) { return i >= segment.begin && i < segment.end; };
        const auto reads_inside = std::any_of(uses.reads.begin(), uses.reads.end(), inside);
        const auto writes_inside = std::any_of(uses.writes.begin(), uses.writes.end(), inside);
        if ((writes_inside && !uses.reads.empty() && uses.reads.back() >= segment.end) ||
            (reads_inside && uses.writes.front() < segment.begin)) {
          kept_.insert(name);
        }
      }
      for (const size_t writer : uses.writes) {
        if (op_table().get(path_[writer]->type()).trait().effect) kept_.insert(name);
      }
    }
  }

  bool kept(const std::string& name) const {
    const Var* var = block_.find_var_recursive(name);
    return kept_.contains(name) || (var && var->persistable());
  }

  Renames repeat(const Segment& segment, const std::string& suffix) {
    Renames again;
    for (size_t i = segment.begin; i < segment.end; ++i) {
      const Op& op = *path_[i];
      const std::set<std::string> outputs = names_in(op.outputs());
      if (std::all_of(outputs.begin(), outputs.end(),
                      [this](const std::string& name) { return kept(name); })) {
        continue;
      }
      refuse_overwritten(op, i);
      OpSpec spec{op.type(), op.inputs(), op.outputs(), op.attrs()};
      rename_in(spec.inputs, again);
      // State (running means) was updated the first time; the second result goes nowhere.
      Renames written;
      for (const std::string& name : outputs) {
        written[name] = name + suffix;
        if (!kept(name)) again[name] = name + suffix;
        create_twin(name, name + suffix);
      }
      rename_in(spec.outputs, written);
      spec.attrs.insert_or_assign(std::string(kRecomputeSuffix), suffix);
      spec.attrs.erase("op_role");
      spec.attrs.erase("op_role_var");
      gradients_.repeat({std::move(spec), op.line()});
    }
    return again;
  }

  // Running an op again needs its inputs as they were.
  void refuse_overwritten(const Op& op, size_t at) const {
    if (traits_of(op).repeatable) return;
    for (const std::string& name : names_in(op.inputs())) {
      const auto uses = uses_.find(name);
      if (uses->second.writes.empty() || uses->second.writes.back() < at) continue;
      Error error(ErrorKind::unimplemented,
                  cat("this op cannot be recomputed: its input ", name, " is overwritten later"));
      error.fix(cat("write the later value of ", name,
                    " to a variable of its own, or give no checkpoints"));
      throw add_op_context(error, op);
    }
  }

  void create_twin(const std::string& name, const std::string& twin) {
    const Var* var = block_.find_var_recursive(name);
    if (!var) return;
    block_.create_var({.name = twin,
                       .type = var->type(),
                       .dtype = var->dtype(),
                       .shape = var->shape(),
                       .lod_level = var->lod_level(),
                       .stop_gradient = var->stop_gradient(),
                       .has_shape = var->has_shape()});
  }

  GradList& gradients_;
  Block& block_;
  const std::vector<Op*>& path_;
  std::map<std::string, Uses> uses_;
  std::set<std::string> kept_;
};

}  // namespace

void differentiate_with_checkpoints(GradList& gradients, Block& block, const std::vector<Op*>& path,
                                    const std::vector<std::string>& checkpoints) {
  Recompute(gradients, block, path).run(checkpoints);
}

}  // namespace trireme
