// Embedding tables that trainers do not hold: which they are, and how lookups reach the servers.
#pragma once

#include <set>
#include <string>

#include "ir/program.h"
#include "transpiler/placement.h"

namespace trireme {

// Tables that are only looked up with is_sparse and remote_prefetch or is_distributed: rows are
// fetched when needed.
std::set<std::string> remote_tables(const Program& program);
// Tables of lookups with is_distributed. An Error where a table is also used in another way.
std::set<std::string> distributed_tables(const Program& program);
// Replaces the lookups of a remote table by distributed_lookup_table ops; nce and
// hierarchical_sigmoid are told where their rows are.
void rewrite_remote_lookups(Block& block, const PlacedParam& table, int trainer_id);
}  // namespace trireme
