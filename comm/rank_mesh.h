// Connections among the ranks of a group, and what they do over them together. Every call waits.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "comm/assembly.h"
#include "comm/group.h"

namespace trireme {

// All ranks make the same calls in the same order. A call that fails, or that cut() ends, throws a
// std::exception, and no other call comes after it.
class RankMesh {
 public:
  virtual ~RankMesh() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // In place. Of reduce only the root's result means something.
  virtual void all_reduce(Collective::Op op, DType dtype, void* data, int64_t count) = 0;
  virtual void reduce(Collective::Op op, DType dtype, void* data, int64_t count, int root) = 0;
  virtual void broadcast(void* data, size_t bytes, int root) = 0;
  // `bytes` by rank; one's own are where they belong.
  virtual void all_gather(std::byte* all, const std::vector<size_t>& bytes) = 0;
  virtual void barrier() = 0;
  // From any thread: calls under way end.
  virtual void cut() noexcept = 0;
};

// Some of the ranks that have met, in order; `name` is equal on all of them and no other mesh's.
struct MeshMembers {
  std::vector<int> ranks;
  std::string name;
};

// A connection from everyone to everyone, by Gloo. All ranks of the assembly call it at once;
// without members, or where this rank is none of them, it only passes on what others say.
std::unique_ptr<RankMesh> connect_gloo(Assembly& assembly, const MeshMembers& members,
                                       std::chrono::milliseconds limit);

// The same where processes have credentials (comm/credentials.h): encrypted, in a circle.
std::unique_ptr<RankMesh> connect_ring(Assembly& assembly, const MeshMembers& members,
                                       std::chrono::milliseconds limit);

// Ranks of one node reduce to their first, the firsts exchange, and each gives its node what came.
// `outer` is the firsts', null on the others. Nodes are `inner->size()` ranks one after another.
std::unique_ptr<RankMesh> join_levels(std::unique_ptr<RankMesh> inner,
                                      std::unique_ptr<RankMesh> outer, int rank, int size);

}  // namespace trireme
