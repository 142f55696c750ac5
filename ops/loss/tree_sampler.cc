// tdm_sampler: for every leaf of a tree the nodes above it, and on each level others drawn at
// random.
#include <algorithm>

#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/sequence/sequence_spans.h"
#include "ops/tensor/random_source.h"

namespace trireme {
namespace {

struct TreeLevels {
  std::vector<int32_t> drawn, begins;  // how many of each level; where it begins in Layer
  bool positive;

  explicit TreeLevels(const OpView& op)
      : drawn(op.attr<std::vector<int32_t>>("neg_samples_num_list")),
        begins(op.attr<std::vector<int32_t>>("layer_offset_lod")),
        positive(op.attr<bool>("output_positive")) {}
  int64_t columns() const {
    int64_t sum = 0;
    for (const int32_t each : drawn) sum += each + (positive ? 1 : 0);
    return sum;
  }
};

DType require_node_ids(const OpView& op, std::string_view slot) {
  const ValueInfo& ids = op.in(slot);
  if (ids.known && ids.dtype != DType::int32 && ids.dtype != DType::int64) {
    throw Error(ErrorKind::type_mismatch, cat(slot, " holds ", name_of(ids.dtype)))
        .fix(cat("give ", slot, " as int32 or int64"));
  }
  return ids.dtype;
}

void tdm_sampler_shape(OpView& op) {
  const TreeLevels levels(op);
  const Shape &x = op.in("X").shape, &travel = op.in("Travel").shape, &layer = op.in("Layer").shape;
  require_node_ids(op, "X");
  if (require_node_ids(op, "Travel") != require_node_ids(op, "Layer")) {
    throw Error(ErrorKind::type_mismatch, cat("Travel holds ", name_of(op.in("Travel").dtype),
                                              " but Layer ", name_of(op.in("Layer").dtype)))
        .fix("give both one type");
  }
  const auto count = static_cast<int64_t>(levels.drawn.size());
  if (travel.rank() != 2 || !travel[1].may_equal(count) ||
      levels.begins.size() != levels.drawn.size() + 1 || levels.begins[0] != 0 ||
      !layer.numel().may_equal(int64_t{levels.begins.back()})) {
    throw op
        .error(cat("neg_samples_num_list has ", count, " levels, Travel shape ", travel, ", Layer ",
                   layer, ", layer_offset_lod is [", join(levels.begins), "]"))
        .fix("give Travel [leaves, levels], and the nodes of all levels one after the other");
  }
  for (size_t i = 0; i < levels.drawn.size(); ++i) {
    const int32_t nodes = levels.begins[i + 1] - levels.begins[i];
    if (levels.drawn[i] >= 0 && levels.drawn[i] < nodes) continue;
    throw op
        .error(cat("neg_samples_num_list asks for ", levels.drawn[i], " nodes of level ", i,
                   ", which has ", nodes))
        .fix(cat("ask for ", std::max(nodes - 1, 0), " at most: the leaf's own is left out"));
  }
  if (levels.columns() == 0) {
    throw op.error("nothing is asked for").fix("set output_positive, or draw some nodes");
  }
  const DType dtype = dtype_attr(op, "dtype");
  if (dtype != DType::int32 && dtype != DType::int64) {
    throw op.error(cat("dtype is ", name_of(dtype))).fix("choose int32 (2) or int64 (3)");
  }
  for (const char* slot : {"Out", "Labels", "Mask"}) {
    op.set_out(slot, dtype, {x.numel(), levels.columns()});
  }
}

// One leaf's row. Every level is written from left to right: the node above the leaf, then the
// drawn ones, all different and none the leaf's own.
template <class T>
struct TreeRow {
  T *out, *labels, *mask;
  int64_t at = 0;
  void put(int64_t node, bool label, bool real) {
    out[at] = static_cast<T>(node);
    if (labels) labels[at] = static_cast<T>(label);
    mask[at++] = static_cast<T>(real);
  }
};

template <class T>
void draw_level(const Philox& philox, uint64_t& draws, const Tensor& layer, int64_t begin,
                int64_t nodes, int64_t own, int64_t wanted, TreeRow<T>& row) {
  // Of the most that may be asked for, nodes - 1, the last takes about `nodes` draws.
  const uint64_t most = draws + static_cast<uint64_t>(nodes) * 1000;
  const int64_t first = row.at;
  while (row.at - first < wanted) {
    if (draws >= most) {
      throw Error(ErrorKind::out_of_range,
                  cat("Layer has fewer than ", wanted, " different nodes besides ", own,
                      " on a level of ", nodes))
          .fix("name every node of a level once");
    }
    const auto pick = static_cast<int64_t>(philox.uniform(draws++) * static_cast<double>(nodes));
    const int64_t node = int_at(layer, begin + pick);
    T *drawn = row.out + first, *end = row.out + row.at;
    const bool again = std::find(drawn, end, static_cast<T>(node)) != end;
    if (node != own && !again) row.put(node, false, true);
  }
}

template <class T>
BoundKernel tdm_sampler(const KernelSite& site) {
  const TreeLevels levels(site);
  const int x_at = site.position("X"), travel_at = site.position("Travel");
  const int layer_at = site.position("Layer"), out_at = site.out_position("Out");
  const int labels_at = site.out_position("Labels"), mask_at = site.out_position("Mask");
  const int64_t leaves = site.in("Travel").shape.at(0), columns = levels.columns();
  const auto count = static_cast<int64_t>(levels.drawn.size());
  return [=, source = random_source(site)](const KernelArgs& k) {
    const Philox philox = source.philox(k);
    uint64_t draws = 0;
    for (int64_t i = 0; i < k.in(x_at).numel(); ++i) {
      const int64_t leaf = int_at(k.in(x_at), i);
      if (leaf < 0 || leaf >= leaves) {
        throw Error(ErrorKind::out_of_range,
                    cat("X holds ", leaf, " but Travel has ", leaves, " leaves"))
            .fix(cat("give leaves from 0 to ", leaves - 1));
      }
      TreeRow<T> row{k.out<T>(out_at) + i * columns,
                     k.has_out(labels_at) ? k.out<T>(labels_at) + i * columns : nullptr,
                     k.out<T>(mask_at) + i * columns};
      for (int64_t level = 0; level < count; ++level) {
        const int32_t wanted = levels.drawn[static_cast<size_t>(level)];
        const int64_t own = int_at(k.in(travel_at), leaf * count + level);
        if (own == 0) {  // the leaf's path has ended
          for (int32_t j = 0; j < wanted + (levels.positive ? 1 : 0); ++j) row.put(0, false, false);
          continue;
        }
        if (levels.positive) row.put(own, true, true);
        const int64_t begin = levels.begins[static_cast<size_t>(level)];
        draw_level<T>(philox, draws, k.in(layer_at), begin,
                      levels.begins[static_cast<size_t>(level) + 1] - begin, own, wanted, row);
      }
    }
  };
}

Tensor tree_part(Draw& draw, const Shape& shape, const std::vector<int32_t>& nodes) {
  Tensor made = draw.ints(shape, 0, 0, DType::int32);
  std::copy(nodes.begin(), nodes.end(), made.data<int32_t>());
  return made;
}

}  // namespace

void register_tree_sampler(Registry& ops) {
  ops.op("tdm_sampler")
      .doc("For every leaf the nodes on its way, and of each level others drawn at random")
      .in("X", "int32 or int64 [leaves asked for, 1]")
      .in("Travel", "int32 or int64 [leaves, levels]: each leaf's way down, 0 where it has ended")
      .in("Layer", "[nodes, 1] of the type of Travel: the nodes of all levels")
      .out("Out", "[leaves asked for, numbers of all levels]: nodes, 0 where the way has ended")
      .out_optional("Labels", "1 for a node on the way, 0 for a drawn one")
      .out("Mask", "0 where the way has ended, else 1")
      .attr("output_positive", true, "whether the nodes on the way stand before the drawn ones")
      .required_attr<std::vector<int32_t>>("neg_samples_num_list", "how many each level draws")
      .required_attr<std::vector<int32_t>>("layer_offset_lod", "where each level begins in Layer")
      .attr("seed", 0, "0: the process's own")
      .attr("dtype", 2, "int32 (2) or int64 (3)")
      .shape(tdm_sampler_shape)
      .traits({.random = true, .can_fail = true})
      .kernel([](const KernelSite& site, std::string* why_not) {
        return for_dtype<int32_t, int64_t>(site.out("Out").dtype, why_not,
                                           [&]<class T>() { return tdm_sampler<T>(site); });
      })
      .sample([](Draw& draw) {
        return OpSample{.inputs = {{"X", {draw.ints({3, 1}, 0, 3)}},
                                   {"Travel", {tree_part(draw, {4, 2}, {1, 3, 1, 4, 2, 5, 2, 6})}},
                                   {"Layer", {tree_part(draw, {6, 1}, {1, 2, 3, 4, 5, 6})}}},
                        .attrs = {{"neg_samples_num_list", std::vector<int32_t>{1, 2}},
                                  {"layer_offset_lod", std::vector<int32_t>{0, 2, 6}},
                                  {"seed", int32_t{3}}}};
      });
}

}  // namespace trireme
