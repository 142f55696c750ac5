// Embedding tables that trainers do not hold: which they are, and how lookups reach the servers.
#pragma once

#include <set>
#include <string>

#include "ir/program.h"
#include "transpiler/placement.h"

namespace trireme {

// Tables that are only looked up with is_sparse and remote_prefetch: rows are fetched when needed.
std::set<std::string> remote_tables(const Program& program);
// Tables of lookups with is_distributed. An Error where a table is also used in another way.
std::set<std::string> distributed_tables(const Program& program);
PlacedTable placed_table(const Var& param, const Var& grad, const Update& update);

// Replaces the lookups of a remote table by distributed_lookup_table ops; nce and
// hierarchical_sigmoid are told where their rows are.
void rewrite_remote_lookups(Block& block, const PlacedParam& table, int trainer_id);
// Replaces the lookups of a distributed table by split_ids, prefetch and merge_ids. `first`: the
// number of the first temporary of this table.
void rewrite_table_lookups(Block& block, const PlacedTable& table, const Placement& placement,
                           size_t first);

// Names shared with the servers: ids that arrive there, rows that leave.
std::string prefetch_in(size_t number);
std::string prefetch_out(size_t number);

}  // namespace trireme
