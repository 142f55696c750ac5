// Two levels of connections as one: inside nodes, and among the first ranks of nodes.
#include <numeric>

#include "comm/rank_mesh.h"

namespace trireme {
namespace {

class LevelsMesh final : public RankMesh {
 public:
  LevelsMesh(std::unique_ptr<RankMesh> inner, std::unique_ptr<RankMesh> outer, int rank, int size)
      : inner_(std::move(inner)),
        outer_(std::move(outer)),
        rank_(rank),
        size_(size),
        width_(inner_->size()),
        node_(rank / width_) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_reduce(Collective::Op op, DType dtype, void* data, int64_t count) override {
    inner_->reduce(op, dtype, data, count, 0);
    if (outer_) outer_->all_reduce(op, dtype, data, count);
    inner_->broadcast(data, static_cast<size_t>(count) * size_of(dtype), 0);
  }

  void reduce(Collective::Op op, DType dtype, void* data, int64_t count, int) override {
    all_reduce(op, dtype, data, count);
  }

  // The root's node has it first, so that its own first rank can give it to the others'.
  void broadcast(void* data, size_t bytes, int root) override {
    const int from = root / width_;
    if (node_ == from) inner_->broadcast(data, bytes, root % width_);
    if (outer_) outer_->broadcast(data, bytes, from);
    if (node_ != from) inner_->broadcast(data, bytes, 0);
  }

  void all_gather(std::byte* all, const std::vector<size_t>& bytes) override {
    std::vector<size_t> by_node;
    for (auto from = bytes.begin(); from != bytes.end(); from += width_) {
      by_node.push_back(std::accumulate(from, from + width_, size_t{0}));
    }
    const auto mine = bytes.begin() + node_ * width_;
    const size_t before = std::accumulate(bytes.begin(), mine, size_t{0});
    if (by_node[static_cast<size_t>(node_)] > 0) {
      inner_->all_gather(all + before, {mine, mine + width_});
    }
    if (outer_) outer_->all_gather(all, by_node);
    inner_->broadcast(all, std::accumulate(bytes.begin(), bytes.end(), size_t{0}), 0);
  }

  void barrier() override {
    inner_->barrier();
    if (outer_) outer_->barrier();
    inner_->barrier();
  }

  void cut() noexcept override {
    inner_->cut();
    if (outer_) outer_->cut();
  }

 private:
  const std::unique_ptr<RankMesh> inner_, outer_;
  const int rank_, size_;
  const int width_;  // ranks of a node
  const int node_;
};

}  // namespace

std::unique_ptr<RankMesh> join_levels(std::unique_ptr<RankMesh> inner,
                                      std::unique_ptr<RankMesh> outer, int rank, int size) {
  return std::make_unique<LevelsMesh>(std::move(inner), std::move(outer), rank, size);
}

}  // namespace trireme
