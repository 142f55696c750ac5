#include "compile/lower.h"

#include <algorithm>
#include <set>

#include "compile/vjp.h"
#include "core/text.h"

namespace trireme {
namespace {

bool all_dense(const OpView& view) {
  for (size_t i = 0; i < view.in_size(); ++i) {
    const ValueInfo* info = view.in_at(i);
    if (info && info->type != VarType::lod_tensor) return false;
  }
  return true;
}

ValueInfo facts_of(const Var& var) {
  ValueInfo info;
  info.type = var.type();
  info.dtype = var.dtype();
  info.shape = var.shape();
  info.lod_level = var.lod_level();
  info.name = var.name();
  info.known = var.has_shape();
  return info;
}

// Lowers one block. Names resolve here first, then, in a sub-block, in the block around it.
class BlockLowering {
 public:
  BlockLowering(const Block& block, Graph& graph, const LowerRequest& request, BlockLowering* outer)
      : block_(block), graph_(graph), request_(request), outer_(outer) {}

  void feed(const std::string& name, const FeedFacts& facts) {
    ValueInfo info;
    info.type = facts.type;
    info.dtype = facts.dtype;
    info.shape = facts.shape;
    info.lod_level = facts.lod_level;
    info.name = name;
    const int value = graph_.add_value(std::move(info));
    graph_.feeds.push_back({name, value});
    write(name, value);
  }

  void run() {
    for (const Op* op : block_.ops()) {
      auto origin = std::make_shared<Origin>();
      origin->op_type = op->type();
      origin->line = op->line();
      origin->role = op->role();
      origin->recompute = op->attr_or<std::string>(kRecomputeSuffix, "");
      graph_.origin = origin;
      try {
        lower_op(*op);
      } catch (Error& e) {
        if (!e.has_op()) e.in(op->type());
        e.at(op->line());
        throw;
      }
    }
  }

  // The value a variable had under its own name, whoever took that name since (memory_optimize) or
  // ended its life (delete_var).
  int fetch(const std::string& name) {
    if (const auto own = own_.find(name); own != own_.end()) return own->second;
    if (const int* value = find(name)) return *value;
    const Var* var = block_.find_var_recursive(name);
    if (!var) {
      throw Error(ErrorKind::not_found,
                  cat("fetch_list names ", name, ", which the program does not have"))
          .fix("fetch a variable of this program: print(program) lists them");
    }
    return read(*var, name);
  }

 private:
  const int* find(const std::string& name) const {
    const auto it = current_.find(name);
    return it == current_.end() ? nullptr : &it->second;
  }

  // Whether the name belongs to a block around this one.
  bool is_outer(const std::string& name) const {
    return outer_ != nullptr && block_.find_var(name) == nullptr;
  }

  int read(const std::string& name) {
    if (const int* value = find(name)) return *value;
    if (deleted_.contains(name)) {
      throw Error(ErrorKind::precondition, cat("it reads ", name, ", which delete_var has ended"))
          .fix(cat("put ", name, " into release_memory's skip_opt_set"));
    }
    const Var* var = block_.find_var_recursive(name);
    if (!var) {
      throw Error(ErrorKind::not_found, cat("it reads ", name, ", which no block declares"))
          .fix("create the variable before the op that reads it");
    }
    return read(*var, name);
  }

  int read(const Var& var, const std::string& name) {
    if (is_outer(name)) {
      const int outer = outer_->read(name);
      const int inner = graph_.add_value(outer_->graph_.values[outer].info);
      reads_.push_back({inner, outer});
      current_[name] = inner;
      return inner;
    }
    if (!var.persistable() && var.type() != VarType::lod_tensor_array) {
      if (var.is_data()) {
        throw Error(cat("it reads the data variable ", name, ", which is not fed"))
            .fix(cat("add '", name, "' to feed"));
      }
      throw Error(ErrorKind::precondition,
                  cat("it reads ", name,
                      ", which holds nothing yet: no op before it writes it, it is not fed and not "
                      "persistable"))
          .fix(cat("feed ", name, ", make it persistable, or put the op that writes it first"));
    }
    const int value = graph_.add_value(facts_of(var));
    states_[name] = graph_.states.size();
    graph_.states.push_back({name, value, value});
    current_[name] = value;
    return value;
  }

  // `own`: the variable whose value it is, where memory_optimize let it use another's name.
  void write(const std::string& name, int value) { write(name, value, name); }
  void write(const std::string& name, int value, const std::string& own) {
    current_[name] = value;
    own_[own] = value;
    deleted_.erase(name);
    if (is_outer(name)) {
      written_outer_.insert(name);
      return;
    }
    const Var* var = block_.find_var(name);
    if (!var || !var->persistable()) return;
    const auto [it, fresh] = states_.try_emplace(name, graph_.states.size());
    if (fresh) graph_.states.push_back({name, -1, -1});
    graph_.states[it->second].exit = value;
  }

  void lower_op(const Op& op) {
    if (op.type() == "feed") {
      const std::string& name = op.output("Out").at(0);
      if (!find(name)) {
        throw Error(cat("the program expects ", name, " to be fed, and it is not"))
            .fix(cat("add '", name, "' to feed"));
      }
      return;
    }
    if (op.type() == "fetch") return;  // what is fetched is the caller's list
    if (op.type() == "read") {
      check_read(op);
      return;
    }
    // A reader is its queue, which the caller keeps; there is nothing to make.
    if (op.type() == "create_py_reader" || op.type() == "create_double_buffer_reader") return;
    const bool deletes = op.type() == "delete_var";
    if (deletes && end_lives(op)) return;

    const OpSchema& schema = op_table().get(op.type());
    auto attrs = std::make_shared<Attrs>(op.attrs());
    // Files written elsewhere may leave attributes out or use a neighbouring number type.
    for (const AttrSpec& attr : schema.attributes()) {
      const auto given = attrs->find(attr.name);
      if (given != attrs->end()) {
        given->second = convert(given->second, attr.type, attr.name);
      } else if (attr.fallback) {
        attrs->emplace(attr.name, *attr.fallback);
      } else {
        throw Error(cat("attribute ", attr.name, " is missing")).fix(cat("set it: ", attr.doc));
      }
    }

    OpView view(schema, *attrs);
    std::vector<int> ins;
    std::vector<std::vector<int>> by_slot;
    for (const SlotSpec& slot : schema.inputs()) {
      std::vector<int> ids;
      for (const std::string& name : op.input(slot.name)) {
        if (name == kEmptyVar || (deletes && deleted_.contains(name))) continue;
        // A gradient nobody computes counts as absent where the slot allows it.
        if (slot.dispensable && !find(name) && unreadable(name)) continue;
        // What an op both takes by name and writes (arrays, loop variables) may not exist yet.
        if (slot.dispensable && writes(op, name) && !find(name) && unreadable(name)) continue;
        ids.push_back(read(name));
      }
      by_slot.push_back(ids);
    }
    // Reading may add values and move the table, so pointers are taken only now.
    for (size_t s = 0; s < by_slot.size(); ++s) {
      const SlotSpec& slot = schema.inputs()[s];
      if (by_slot[s].empty() && !slot.duplicable) ins.push_back(-1);
      for (int id : by_slot[s]) ins.push_back(id);
    }
    std::vector<ValueInfo> facts;
    facts.reserve(ins.size());
    for (int id : ins) facts.push_back(id < 0 ? ValueInfo{} : graph_.values[id].info);
    size_t at = 0;
    for (size_t s = 0; s < by_slot.size(); ++s) {
      std::vector<const ValueInfo*> operands;
      for (size_t i = 0; i < by_slot[s].size(); ++i) operands.push_back(&facts[at + i]);
      at += std::max<size_t>(by_slot[s].size(), schema.inputs()[s].duplicable ? 0 : 1);
      view.add_in(schema.inputs()[s].name, operands);
    }

    std::vector<std::unique_ptr<ValueInfo>> results;
    std::vector<std::string> result_names;  // by position
    for (const SlotSpec& slot : schema.outputs()) {
      std::vector<ValueInfo*> operands;
      const auto& names = op.output(slot.name);
      for (const std::string& name : names) {
        const bool empty = name == kEmptyVar;
        if (empty && !slot.duplicable) continue;
        result_names.push_back(empty ? "" : name);
        if (empty) {
          operands.push_back(nullptr);
          continue;
        }
        // Under its own name: random streams and errors do not see that memory is shared.
        const std::string& own = op.own_name(name);
        const Var* var = block_.find_var_recursive(own);
        results.push_back(std::make_unique<ValueInfo>(var ? facts_of(*var) : ValueInfo{}));
        results.back()->name = own;
        operands.push_back(results.back().get());
      }
      if (operands.empty() && !slot.duplicable) result_names.push_back("");
      view.add_out(slot.name, operands);
    }
    view.seal();
    check_present(schema, view);
    const bool inferred = schema.shape_rule() && !schema.trait().no_inference;
    if (inferred) schema.shape_rule()(view);

    std::vector<int> outs;
    if (op.sub_block()) {
      outs = lower_region(op, schema, attrs, view, ins, result_names);
      return;
    }
    if (schema.body_rule() && all_dense(view)) {
      Body body(graph_, view, ins);
      schema.body_rule()(body);
      for (size_t i = 0; i < view.out_size(); ++i) {
        const Expr result = body.results()[i];
        if (!result && view.out_at(i) && !result_names[i].empty() &&
            required_output(schema, view, i)) {
          throw InternalError(cat("the body of ", schema.type(), " leaves an output unset"));
        }
        outs.push_back(result ? result.id() : -1);
      }
    } else if (schema.kernels().empty() && schema.forward()) {
      if (!all_dense(view)) {
        throw Error(ErrorKind::unimplemented, cat(op.type(), " takes dense tensors only"));
      }
      outs = lower_by_vjp(graph_, view, ins);
    } else {
      outs = graph_.add_node(schema, attrs, view, ins).outs;
    }
    if (deletes) {
      for (const std::string& name : op.input("X")) {
        current_.erase(name);
        deleted_.insert(name);
      }
    }
    for (size_t i = 0; i < outs.size(); ++i) {
      if (outs[i] < 0 || result_names[i].empty()) continue;
      if (graph_.values[outs[i]].info.name.empty())
        graph_.values[outs[i]].info.name = result_names[i];
      write(result_names[i], outs[i], op.own_name(result_names[i]));
    }
  }

  // The caller takes a batch out of the reader and feeds it.
  void check_read(const Op& op) const {
    for (const std::string& name : op.output("Out")) {
      if (find(name)) continue;
      throw Error(ErrorKind::precondition,
                  cat("reader ", op.input("Reader").at(0), " gave no ", name))
          .fix(cat("run the program where the reader was made, or feed '", name, "'"));
    }
  }

  // Memory of temporaries is planned, so ending their lives needs no instruction. True when that
  // was all: persistable variables are cleared when the program runs.
  bool end_lives(const Op& op) {
    bool all = true;
    for (const std::string& name : op.input("X")) {
      const Var* var = block_.find_var_recursive(name);
      if (var && var->persistable()) {
        all = false;
        continue;
      }
      current_.erase(name);
      deleted_.insert(name);
    }
    return all;
  }

  static bool writes(const Op& op, const std::string& name) {
    const auto names = op.output_names();
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  // Nothing has written it and reading it would fail.
  bool unreadable(const std::string& name) const {
    if (find(name)) return false;
    const Var* var = block_.find_var_recursive(name);
    if (!var) return true;
    if (is_outer(name)) return outer_->unreadable(name);
    return !var->persistable();
  }

  static bool required_output(const OpSchema& schema, const OpView& view, size_t position) {
    for (const SlotSpec& slot : schema.outputs()) {
      for (size_t i = 0; i < view.out_count(slot.name); ++i) {
        if (view.out_position(slot.name, i) == static_cast<int>(position)) {
          return !slot.dispensable && !slot.intermediate;
        }
      }
    }
    return false;
  }

  static void check_present(const OpSchema& schema, const OpView& view) {
    for (const SlotSpec& slot : schema.inputs()) {
      if (!slot.dispensable && !slot.duplicable && !view.has(slot.name)) {
        throw Error(cat("input ", slot.name, " is missing")).fix(cat("give it ", slot.doc));
      }
    }
  }

  // An op that owns a sub-block. What the sub-block reads from outside joins the op's operands;
  // what it writes outside becomes new versions that share the old ones' slots.
  std::vector<int> lower_region(const Op& op, const OpSchema& schema,
                                std::shared_ptr<const Attrs> attrs, const OpView& view,
                                std::vector<int> ins,
                                const std::vector<std::string>& result_names) {
    auto inner_graph = std::make_unique<Graph>();
    BlockLowering inner(*op.sub_block(), *inner_graph, request_, this);
    inner.run();

    Region region;
    region.reads = inner.reads_;
    Node& made = graph_.add_node(schema, std::move(attrs), view, ins);
    const size_t node_index = graph_.nodes.size() - 1;
    std::vector<int> outs = made.outs;
    for (size_t i = 0; i < outs.size(); ++i) {
      if (outs[i] >= 0 && !result_names[i].empty() &&
          !inner.written_outer_.contains(result_names[i])) {
        write(result_names[i], outs[i]);
      }
    }
    for (const std::string& name : inner.written_outer_) {
      const int inner_value = inner.current_.at(name);
      const int* old = find(name);
      int old_value = old ? *old : -1;
      if (old_value < 0 && !unreadable(name)) old_value = read(name);
      ValueInfo info = inner_graph->values[inner_value].info;
      info.name = name;
      const int outer_value = graph_.add_value(std::move(info), static_cast<int>(node_index));
      Node& node = graph_.nodes[node_index];
      // Operands and results beyond the row's slots: they only carry the order and the shared slot.
      node.outs.push_back(outer_value);
      if (old_value >= 0) {
        node.ins.push_back(old_value);
        node.shared.emplace_back(static_cast<int>(node.ins.size()) - 1,
                                 static_cast<int>(node.outs.size()) - 1);
      }
      region.writes.push_back(outer_value);
      inner_graph->kept.push_back(inner_value);
      write(name, outer_value);
    }
    Node& node = graph_.nodes[node_index];
    for (const Region::Link& link : region.reads) node.ins.push_back(link.outer);
    region.graph = std::move(inner_graph);
    node.regions.push_back(std::move(region));
    return outs;
  }

  const Block& block_;
  Graph& graph_;
  const LowerRequest& request_;
  BlockLowering* outer_;
  std::map<std::string, int> current_;  // the version a name stands for now
  std::map<std::string, int> own_;      // the last version that is the variable's own
  std::set<std::string> deleted_;
  std::map<std::string, size_t> states_;  // index in graph_.states
  std::set<std::string> written_outer_;
  std::vector<Region::Link> reads_;
};

}  // namespace

Graph lower(const Program& program, const LowerRequest& request) {
  Graph graph;
  BlockLowering lowering(program.global_block(), graph, request, nullptr);
  for (const auto& [name, facts] : request.feeds) lowering.feed(name, facts);
  lowering.run();
  for (const std::string& name : request.fetches) {
    graph.fetches.push_back({name, lowering.fetch(name)});
  }
  return graph;
}

}  // namespace trireme
