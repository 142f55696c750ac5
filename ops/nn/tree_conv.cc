// tree_conv: filters over the nodes of trees, each with what hangs below it.
#include <algorithm>

#include "cpu/gemm_kernel.h"
#include "ops/rules.h"
#include "ops/sequence/sequence_spans.h"

namespace trireme {
namespace {

void tree_conv_shape(OpView& op) {
  const ValueInfo& nodes = op.in("NodesVector");
  const Shape &edges = op.in("EdgeSet").shape, &filter = op.in("Filter").shape;
  const DType ids = op.in("EdgeSet").dtype;
  require_floating(op, "NodesVector");
  if (nodes.shape.rank() != 3 || edges.rank() != 3 || !edges[2].may_equal(2) ||
      !edges[0].may_equal(nodes.shape[0])) {
    throw op.error(cat("NodesVector has shape ", nodes.shape, " and EdgeSet ", edges))
        .fix("give NodesVector [batch, nodes, features] and EdgeSet [batch, edges, 2]");
  }
  if (op.in("EdgeSet").known && ids != DType::int32 && ids != DType::int64) {
    throw op.error(cat("EdgeSet holds ", name_of(ids))).fix("give int32: nodes count from 1");
  }
  if (filter.rank() != 4 || !filter[0].may_equal(nodes.shape[2]) || !filter[1].may_equal(3)) {
    throw op.error(cat("Filter has shape ", filter, " but NodesVector ", nodes.shape))
        .fix(cat("give Filter the shape [", nodes.shape[2], ", 3, output_size, num_filters]"));
  }
  op.set_out("Out", nodes.dtype, {nodes.shape[0], nodes.shape[1], filter[2], filter[3]});
}

// A node's place in its tree; nodes count from 1, and parent 0 says that it has none.
struct TreePlace {
  int32_t parent, index, children;  // the index among its siblings counts from 0
};

// What a node gives to one `up` levels above it, in three shares: of the top the more, the nearer
// it stands; of the rest the right one the more, the further right it stands among its siblings.
template <class T>
struct Shares {
  T of[3];  // right, left, top
  Shares(const TreePlace& place, int32_t siblings, int64_t up, int64_t levels) {
    const T top = static_cast<T>(levels - up) / static_cast<T>(levels);
    const T along = up == 0         ? T{0}
                    : siblings == 1 ? T{0.5}
                                    : static_cast<T>(place.index) / static_cast<T>(siblings - 1);
    of[0] = (1 - top) * along;
    of[1] = (1 - top) * (1 - of[0]);
    of[2] = top;
  }
};

[[noreturn]] void refuse_tree(int64_t tree, const std::string& why) {
  throw Error(ErrorKind::out_of_range, cat("tree ", tree, " of EdgeSet: ", why))
      .fix("give edges [parent, child] of one tree, nodes from 1 on, and [0, 0] after the last");
}

// Each node's patch is [features, 3]: the shares of all that hangs below it, down to `levels` - 1
// levels. Patches stand one below the other, so that one product with the filter serves all trees.
struct Trees {
  int64_t batch, nodes, edges, features, filters, levels;
  int edges_at;

  explicit Trees(const KernelSite& site)
      : batch(site.in("NodesVector").shape.at(0)),
        nodes(site.in("NodesVector").shape.at(1)),
        edges(site.in("EdgeSet").shape.at(1)),
        features(site.in("NodesVector").shape.at(2)),
        filters(site.in("Filter").shape.at(2) * site.in("Filter").shape.at(3)),
        levels(site.attr<int32_t>("max_depth")),
        edges_at(site.position("EdgeSet")) {}
  int64_t patch() const { return features * 3; }
  int64_t rows() const { return batch * nodes; }
  template <class T>
  size_t patches_bytes() const {
    return (static_cast<size_t>(rows() * patch()) * sizeof(T) + 63) / 64 * 64;
  }
  template <class T>
  size_t scratch_bytes() const {
    return patches_bytes<T>() + static_cast<size_t>(rows()) * sizeof(TreePlace);
  }
  int parts() const { return static_cast<int>(std::clamp<int64_t>(batch, 1, 16)); }
  int slices() const { return static_cast<int>(std::clamp<int64_t>(rows() / 64, 1, 8)); }

  // The number of nodes of a tree, and their places.
  int64_t read(const KernelArgs& k, int64_t tree, TreePlace* places) const {
    const Tensor& ids = k.in(edges_at);
    const auto id = [&](int64_t edge, int64_t end) {
      return int_at(ids, (tree * edges + edge) * 2 + end);
    };
    std::fill_n(places, nodes, TreePlace{0, 0, 0});
    int64_t count = 1, used = 0;
    for (int64_t edge = 0; edge < edges; ++edge) {
      if (id(edge, 0) != 0 && id(edge, 1) != 0) ++count;
    }
    if (count > nodes) refuse_tree(tree, cat(count - 1, " edges for ", nodes, " nodes"));
    while (used < edges && id(used, 0) != 0 && id(used, 1) != 0) ++used;
    for (int64_t edge = 0; edge < used; ++edge) {
      const int64_t parent = id(edge, 0), child = id(edge, 1);
      if (std::min(parent, child) < 1 || std::max(parent, child) > nodes) {
        refuse_tree(tree, cat("an edge from ", parent, " to ", child, " with ", nodes, " nodes"));
      }
      TreePlace& place = places[child - 1];
      if (place.parent != 0) refuse_tree(tree, cat("node ", child, " has two parents"));
      place.parent = static_cast<int32_t>(parent);
      place.index = places[parent - 1].children++;
    }
    for (int64_t node = 1; node <= nodes; ++node) {
      int64_t above = places[node - 1].parent;
      for (int64_t up = 0; above != 0; ++up, above = places[above - 1].parent) {
        if (up > used) refuse_tree(tree, cat("node ", node, " is below itself"));
      }
    }
    return count;
  }

  // f(node, node above it or itself, shares) for all pairs of a tree; nodes count from 0 here.
  template <class T, class F>
  void each_pair(const KernelArgs& k, int64_t tree, F f) const {
    TreePlace* places = reinterpret_cast<TreePlace*>(k.scratch + patches_bytes<T>()) + tree * nodes;
    const int64_t count = read(k, tree, places);
    for (int64_t node = 0; node < count; ++node) {
      int64_t above = node;
      for (int64_t up = 0; up < levels && above >= 0; ++up) {
        const int32_t parent = places[node].parent;
        f(tree * nodes + node, tree * nodes + above,
          Shares<T>(places[node], parent ? places[parent - 1].children : 1, up, levels));
        above = places[above].parent - 1;
      }
    }
  }

  template <class T>
  void gather(const KernelArgs& k, const T* vectors) const {
    T* patches = reinterpret_cast<T*>(k.scratch);
    const auto [begin, end] = k.range(batch);
    for (int64_t tree = begin; tree < end; ++tree) {
      std::fill_n(patches + tree * nodes * patch(), nodes * patch(), T{0});
      each_pair<T>(k, tree, [&](int64_t node, int64_t above, const Shares<T>& shares) {
        const T* from = vectors + node * features;
        T* to = patches + above * patch();
        for (int64_t i = 0; i < features; ++i) {
          for (int64_t share = 0; share < 3; ++share)
            to[i * 3 + share] += shares.of[share] * from[i];
        }
      });
    }
  }

  template <class T>
  void scatter(const KernelArgs& k, T* grads) const {
    const T* patches = reinterpret_cast<const T*>(k.scratch);
    const auto [begin, end] = k.range(batch);
    for (int64_t tree = begin; tree < end; ++tree) {
      std::fill_n(grads + tree * nodes * features, nodes * features, T{0});
      each_pair<T>(k, tree, [&](int64_t node, int64_t above, const Shares<T>& shares) {
        const T* from = patches + above * patch();
        T* to = grads + node * features;
        for (int64_t i = 0; i < features; ++i) {
          for (int64_t share = 0; share < 3; ++share)
            to[i] += shares.of[share] * from[i * 3 + share];
        }
      });
    }
  }
};

template <class T>
BoundKernel tree_conv(const KernelSite& site, Product<T> product) {
  const Trees at(site);
  const int vectors = site.position("NodesVector"), filter = site.position("Filter");
  BoundKernel kernel([=](const KernelArgs& k) { at.gather(k, k.in<T>(vectors)); }, at.parts());
  kernel.scratch = at.scratch_bytes<T>();
  kernel.add(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(at.rows());
        if (begin == end) return;
        product(Gemm<T>{.m = at.rows(),
                        .n = at.filters,
                        .k = at.patch(),
                        .a = reinterpret_cast<const T*>(k.scratch),
                        .lda = at.patch(),
                        .b = k.in<T>(filter),
                        .ldb = at.filters,
                        .c = k.out<T>(0),
                        .ldc = at.filters}
                    .rows(begin, end));
      },
      at.slices());
  return kernel;
}

template <class T>
BoundKernel tree_conv_grad(const KernelSite& site, Product<T> product) {
  const Trees at(site);
  const int vectors = site.position("NodesVector"), filter = site.position("Filter");
  const int grad = site.position("Out@GRAD");
  const int dvectors = site.out_position("NodesVector@GRAD");
  const int dfilter = site.out_position("Filter@GRAD");
  BoundKernel kernel;
  kernel.scratch = at.scratch_bytes<T>();
  if (dfilter >= 0) {
    kernel.add([=](const KernelArgs& k) { at.gather(k, k.in<T>(vectors)); }, at.parts());
    kernel.add(
        [=](const KernelArgs& k) {
          product({.m = at.patch(),
                   .n = at.filters,
                   .k = at.rows(),
                   .a = reinterpret_cast<const T*>(k.scratch),
                   .lda = at.patch(),
                   .trans_a = true,
                   .b = k.in<T>(grad),
                   .ldb = at.filters,
                   .c = k.out<T>(dfilter),
                   .ldc = at.filters});
        },
        1);
  }
  if (dvectors < 0) return kernel;
  kernel.add(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(at.rows());
        if (begin == end) return;
        product(Gemm<T>{.m = at.rows(),
                        .n = at.patch(),
                        .k = at.filters,
                        .a = k.in<T>(grad),
                        .lda = at.filters,
                        .b = k.in<T>(filter),
                        .ldb = at.filters,
                        .trans_b = true,
                        .c = reinterpret_cast<T*>(k.scratch),
                        .ldc = at.patch()}
                    .rows(begin, end));
      },
      at.slices());
  kernel.add([=](const KernelArgs& k) { at.scatter(k, k.out<T>(dvectors)); }, at.parts());
  return kernel;
}

OpSample tree_conv_sample(Draw& draw) {
  // Node 1 has three children, one of which has children of its own; the other tree is a chain.
  Tensor edges = draw.ints({2, 5, 2}, 0, 0, DType::int32);
  const std::vector<int32_t> ends = {1, 2, 1, 3, 1, 4, 3, 6, 3, 5, 2, 1, 1, 3, 0, 0, 0, 0, 0, 0};
  std::copy(ends.begin(), ends.end(), edges.data<int32_t>());
  const int64_t features = draw.size(1, 3);
  return OpSample{
      .inputs = {{"NodesVector", {draw.uniform({2, 6, features})}},
                 {"EdgeSet", {edges}},
                 {"Filter", {draw.uniform({features, 3, draw.size(1, 3), draw.size(1, 2)})}}},
      .attrs = {{"max_depth", static_cast<int32_t>(draw.size(2, 4))}}};
}

}  // namespace

void register_tree_conv(Registry& ops) {
  const auto forward = []<class T>(const KernelSite& site, Product<T> product) {
    return tree_conv<T>(site, product);
  };
  const auto backward = []<class T>(const KernelSite& site, Product<T> product) {
    return tree_conv_grad<T>(site, product);
  };
  ops.op("tree_conv")
      .doc("Filters over every node of a tree with what hangs below it")
      .in("NodesVector", "[batch, nodes, features]")
      .in("EdgeSet", "int32 [batch, edges, 2]: parent and child, from 1 on; [0, 0] after the last")
      .in("Filter", "[features, 3, output_size, num_filters]: right, left, top")
      .out("Out", "[batch, nodes, output_size, num_filters]; zeros for nodes that are in no tree")
      .attr("max_depth", 2, "how many levels are seen, the node's own too")
      .at_least(2)
      .shape(tree_conv_shape)
      .traits({.can_fail = true})
      .kernel(with_onednn(forward), "onednn")
      .kernel(with_blas(forward), "blas")
      .kernel(with_reference(forward))
      .grad({"NodesVector", "EdgeSet", "Filter"})
      .no_grad({"EdgeSet"})
      .grad_kernel(with_onednn(backward), "onednn")
      .grad_kernel(with_blas(backward), "blas")
      .grad_kernel(with_reference(backward))
      .sample(tree_conv_sample);
}

}  // namespace trireme
