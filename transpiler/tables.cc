// Finds lookups of distributed tables, and rewrites them and their gradients.
#include "transpiler/tables.h"

#include <algorithm>
#include <limits>

#include "core/text.h"
#include "transpiler/edit.h"

namespace trireme {
namespace {

bool is_lookup(const Op& op) {
  return op.type() == "lookup_table" || op.type() == "lookup_table_v2";
}
bool is_sampled(const Op& op) { return op.type() == "nce" || op.type() == "hierarchical_sigmoid"; }
bool is_sampled_grad(const Op& op) {
  return op.type() == "nce_grad" || op.type() == "hierarchical_sigmoid_grad";
}

// The slot of the table, where the op looks rows up.
const char* table_slot(const Op& op) { return op.type().starts_with("nce") ? "Weight" : "W"; }

bool flag(const Op& op, const char* name) { return op.attr_or<bool>(name, false); }

bool reads_table(const Op& op, const std::string& name) {
  if (!is_lookup(op) && !is_sampled(op) && !is_sampled_grad(op)) return false;
  const auto& table = op.input(table_slot(op));
  return !table.empty() && table.front() == name;
}

bool is_forward(const Op& op) {
  return !op.has_role(op_role::kBackward) && !op.has_role(op_role::kOptimize) &&
         !op.has_role(op_role::kLrSched);
}

// Tables of forward ops for which `wanted` holds, and that no other forward op reads.
template <class Wanted>
std::set<std::string> tables_used_only(const Program& program, Wanted wanted, bool refuse_others) {
  std::set<std::string> tables;
  for (size_t b = 0; b < program.num_blocks(); ++b) {
    for (const Op* op : program.block(static_cast<int>(b)).ops()) {
      const bool rows = is_lookup(*op) || is_sampled(*op);
      if (rows && is_forward(*op) && wanted(*op)) tables.insert(op->input(table_slot(*op)).front());
    }
  }
  for (size_t b = 0; b < program.num_blocks(); ++b) {
    for (const Op* op : program.block(static_cast<int>(b)).ops()) {
      if (!is_forward(*op)) continue;
      for (const std::string& name : op->input_names()) {
        if (!tables.contains(name)) continue;
        if (reads_table(*op, name) && wanted(*op)) continue;
        if (refuse_others) {
          throw Error(
              ErrorKind::precondition,
              cat("table ", name, " is looked up with is_distributed=True, and here it is not"))
              .in(op->type())
              .at(op->line())
              .fix("give every lookup of one table the same is_distributed");
        }
        tables.erase(name);
        break;
      }
    }
  }
  return tables;
}

size_t index_of(const Op& op) { return static_cast<size_t>(op.index()); }

// The last op of the block that writes one of `names` before `before`; -1: none does.
int last_writer(const Block& block, const std::vector<std::string>& names, size_t before) {
  for (size_t i = before; i-- > 0;) {
    for (const std::string& name : block.op(i).output_names()) {
      if (std::ranges::find(names, name) != names.end()) return static_cast<int>(i);
    }
  }
  return -1;
}

size_t first_reader(const Block& block, const std::string& name) {
  for (size_t i = 0; i < block.size(); ++i) {
    const auto reads = block.op(i).input_names();
    if (std::ranges::find(reads, name) != reads.end()) return i;
  }
  return std::numeric_limits<size_t>::max();
}

int64_t padding_of(const Op& lookup) { return lookup.attr_or<int64_t>("padding_idx", -1); }

// Lookups that one op can stand for: all ids are there before any result is read.
struct LookupGroup {
  std::vector<Op*> lookups;
  std::vector<std::string> ids, outs;
};

std::vector<LookupGroup> group_lookups(Block& block, const std::string& table) {
  std::vector<LookupGroup> groups;
  for (Op* op : block.ops()) {
    if (!is_lookup(*op) || !is_forward(*op) || !reads_table(*op, table)) continue;
    const auto& ids = op->input("Ids");
    const auto& outs = op->output("Out");
    if (!groups.empty()) {
      LookupGroup& group = groups.back();
      size_t needed = std::numeric_limits<size_t>::max();
      for (const std::string& out : group.outs) needed = std::min(needed, first_reader(block, out));
      const int ready = last_writer(block, ids, index_of(*op));
      const Op& first = *group.lookups.front();
      const bool alike = first.type() == op->type() && padding_of(first) == padding_of(*op);
      if (alike && ready < static_cast<int>(std::min(needed, block.size()))) {
        group.lookups.push_back(op);
        group.ids.insert(group.ids.end(), ids.begin(), ids.end());
        group.outs.insert(group.outs.end(), outs.begin(), outs.end());
        continue;
      }
    }
    groups.push_back({{op}, ids, outs});
  }
  return groups;
}

}  // namespace

std::set<std::string> remote_tables(const Program& program) {
  return tables_used_only(
      program,
      [](const Op& op) {
        return flag(op, "is_sparse") && (flag(op, "remote_prefetch") || flag(op, "is_distributed"));
      },
      false);
}

std::set<std::string> distributed_tables(const Program& program) {
  return tables_used_only(
      program, [](const Op& op) { return is_lookup(op) && flag(op, "is_distributed"); }, true);
}

void rewrite_remote_lookups(Block& block, const PlacedParam& table, int trainer_id) {
  for (Op* op : block.ops()) {
    if (is_lookup(*op) || !reads_table(*op, table.name)) continue;
    op->set_attr("epmap", table.endpoints());
    op->set_attr("table_names", table.names());
    op->set_attr("height_sections", table.rows());
    op->set_attr("trainer_id", int32_t{trainer_id});
  }
  for (const LookupGroup& group : group_lookups(block, table.name)) {
    const Op& model = *group.lookups.front();
    // Right behind the latest producer of ids: as early as it can be.
    const int ready = last_writer(block, group.ids, index_of(*group.lookups.back()));
    const OpSpec spec{.type = "distributed_lookup_table",
                      .inputs = {{"Ids", group.ids}, {"W", {table.name}}},
                      .outputs = {{"Outputs", group.outs}},
                      .attrs = {{"table_names", table.names()},
                                {"height_sections", table.rows()},
                                {"endpoints", table.endpoints()},
                                {"padding_idx", padding_of(model)},
                                {"trainer_id", int32_t{trainer_id}},
                                {"lookup_table_version", model.type()},
                                {"dtype", static_cast<int32_t>(table.dtype)}}};
    const SourceLine line = model.line();
    insert_filled(block, static_cast<size_t>(ready + 1), spec, op_role::kForward, line);
    remove_ops(block, {group.lookups.begin(), group.lookups.end()});
  }
}

}  // namespace trireme
