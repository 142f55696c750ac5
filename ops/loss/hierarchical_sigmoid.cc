// hierarchical_sigmoid: a class is a leaf of a binary tree and costs the decisions on its path.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "ops/loss/class_labels.h"
#include "ops/recurrent/recurrent_rules.h"
#include "ops/sequence/sequence_spans.h"

namespace trireme {
namespace {

constexpr double kLargestScore = 40;  // scores are cut to [-40, 40], so that exp stays in range

int64_t bits_of(int64_t value) {
  return static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(value)));
}

// Decisions on the longest path.
Dim path_length(const OpView& op) {
  if (op.has("PathTable")) return op.in("PathTable").shape[1];
  return bits_of(op.attr<int32_t>("num_classes") - 1);
}

void hsigmoid_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  const Shape& w = op.in("W").shape;
  const Dim classes(op.attr<int32_t>("num_classes"));
  const bool custom = op.has("PathTable");
  if (op.in("W").type == VarType::selected_rows ||
      !op.attr<std::vector<std::string>>("epmap").empty()) {
    throw Error(ErrorKind::unimplemented,
                "W is kept by parameter servers, from which this build cannot look rows up")
        .fix("keep W in this process: leave is_sparse False");
  }
  if (x.shape.rank() != 2 || w.rank() != 2 || !w[1].may_equal(x.shape[1])) {
    throw op.error(cat("X has shape ", x.shape, " and W ", w))
        .fix("give X [batch, width] and W [nodes, width]");
  }
  if (!custom && !w[0].may_equal(classes - Dim(1))) {
    throw op
        .error(cat("W has ", w[0], " rows but a tree of ", classes, " classes has ",
                   classes - Dim(1), " nodes"))
        .fix(cat("give W the shape [", classes - Dim(1), ", ", x.shape[1], "]"));
  }
  if (custom != op.has("PathCode") ||
      (custom && (op.in("PathTable").shape.rank() != 2 ||
                  !op.in("PathTable").shape.may_equal(op.in("PathCode").shape)))) {
    throw op.error("PathTable and PathCode go together, with equal shapes")
        .fix("give both as [batch, longest path], -1 past the end of a path");
  }
  if (op.has("Bias") && !op.in("Bias").shape.numel().may_equal(w[0])) {
    throw op.error(cat("Bias has shape ", op.in("Bias").shape, " but W has ", w[0], " rows"))
        .fix(cat("give Bias the shape [", w[0], ", 1]"));
  }
  if (!op.in("Label").shape.numel().may_equal(x.shape[0])) {
    throw op
        .error(cat("Label has shape ", op.in("Label").shape, " but X has ", x.shape[0], " rows"))
        .fix("give one label for every row: [batch, 1]");
  }
  op.set_out("Out", x.dtype, {x.shape[0], 1});
  op.share_lod("X", "Out");
  op.set_out("PreOut", x.dtype, {x.shape[0], path_length(op)});
  op.set_out_like("W_Out", op.in("W"));
}

// One decision: which node of the tree, and whether its bit is set.
struct Decision {
  int64_t node;
  bool set;
};

// The path of every row. In the default tree class c is leaf c + classes of a complete binary tree
// whose root is 1; the path is read off its bits, from the leaf up.
class Paths {
 public:
  explicit Paths(const KernelSite& site)
      : label_(site.position("Label")),
        table_(site.position("PathTable")),
        code_(site.position("PathCode")),
        classes_(site.attr<int32_t>("num_classes")),
        nodes_(site.in("W").shape.at(0)),
        longest_(path_length(site).value()) {}

  int64_t longest() const { return longest_; }

  size_t scratch() const { return static_cast<size_t>(longest_) * sizeof(Decision); }

  // The path of a row, in the kernel's scratch.
  std::span<const Decision> of(const KernelArgs& k, int64_t row) const {
    auto* path = reinterpret_cast<Decision*>(k.scratch);
    size_t count = 0;
    if (table_ < 0) {
      const int64_t leaf = ClassLabels(k.in(label_)).checked(row, classes_) + classes_;
      for (int64_t bit = 0; bit + 1 < bits_of(leaf); ++bit) {
        path[count++] = {(leaf >> (bit + 1)) - 1, (leaf >> bit & 1) != 0};
      }
      return {path, count};
    }
    for (int64_t j = 0; j < longest_; ++j) {
      const int64_t node = int_at(k.in(table_), row * longest_ + j);
      if (node < 0) break;
      if (node >= nodes_) {
        throw Error(ErrorKind::out_of_range, cat("PathTable names node ", node, " in row ", row,
                                                 " but W has ", nodes_, " rows"))
            .fix(cat("use nodes from 0 to ", nodes_ - 1, ", and -1 past the end of a path"));
      }
      path[count++] = {node, int_at(k.in(code_), row * longest_ + j) != 0};
    }
    return {path, count};
  }

 private:
  int label_, table_, code_;
  int64_t classes_, nodes_, longest_;
};

// Out = sum over the path of log(1 + e^s) - (bit ? s : 0). PreOut keeps log(1 + e^s); places past
// the end of a path hold log 2 and count in Out too, as in the original. They change no gradient.
template <class T>
BoundKernel hsigmoid(const KernelSite& site) {
  const int x_at = site.position("X"), w_at = site.position("W"), bias_at = site.position("Bias");
  const int out_at = site.out_position("Out"), pre_at = site.out_position("PreOut"),
            kept_at = site.out_position("W_Out");
  const int64_t rows = site.in("X").shape.at(0), width = site.in("X").shape.at(1);
  const Paths paths(site);
  BoundKernel kernel([=](const KernelArgs& k) {
    if (k.has_out(kept_at) && k.out(kept_at).address() != k.in(w_at).address()) {
      std::memcpy(k.out(kept_at).address(), k.in(w_at).address(), k.in(w_at).byte_size());
    }
    for (int64_t row = 0; row < rows; ++row) {
      const T* x = k.in<T>(x_at) + row * width;
      T* pre = k.out<T>(pre_at) + row * paths.longest();
      std::fill_n(pre, paths.longest(), static_cast<T>(std::log(2.0)));
      T out = 0;
      int64_t at = 0;
      for (const Decision& decision : paths.of(k, row)) {
        const T* w = k.in<T>(w_at) + decision.node * width;
        T score = k.has_in(bias_at) ? k.in<T>(bias_at)[decision.node] : T{0};
        for (int64_t i = 0; i < width; ++i) score += w[i] * x[i];
        score = std::clamp(score, static_cast<T>(-kLargestScore), static_cast<T>(kLargestScore));
        pre[at++] = std::log(T{1} + std::exp(score));
        if (decision.set) out -= score;
      }
      for (int64_t j = 0; j < paths.longest(); ++j) out += pre[j];
      k.out<T>(out_at)[row] = out;
    }
  });
  kernel.scratch = paths.scratch();
  return kernel;
}

// The sparse gradient of W has a row for every place of every path.
void hsigmoid_grad_shape(OpView& op) {
  for (const std::string slot : {"X", "W", "Bias"}) {
    if (op.has(slot)) op.set_out_like(slot + "@GRAD", op.in(slot));
  }
  if (!op.wants("W@GRAD") || !op.attr<bool>("is_sparse")) return;
  ValueInfo& grad = op.out("W@GRAD");
  grad.type = VarType::selected_rows;
  grad.height = op.in("W").shape[0].value();
  grad.shape = {op.in("PreOut").shape.numel(), op.in("W").shape[1]};
}

// The slope of log(1 + e^s) is 1 - e^-log(1 + e^s), which PreOut gives.
template <class T>
BoundKernel hsigmoid_grad(const KernelSite& site) {
  const int x_at = site.position("X"), w_at = site.position("W"), pre_at = site.position("PreOut"),
            dout_at = site.position("Out@GRAD");
  const int dx_at = site.out_position("X@GRAD"), dw_at = site.out_position("W@GRAD"),
            dbias_at = site.out_position("Bias@GRAD");
  const int64_t rows = site.in("X").shape.at(0), width = site.in("X").shape.at(1),
                nodes = site.in("W").shape.at(0);
  const bool sparse = site.attr<bool>("is_sparse");
  const Paths paths(site);
  BoundKernel kernel([=](const KernelArgs& k) {
    T* dx = out_or_null<T>(k, dx_at);
    T* dbias = out_or_null<T>(k, dbias_at);
    SelectedRows* picked = sparse && k.has_out(dw_at) ? &k.outs[dw_at]->rows() : nullptr;
    T* dw = picked ? picked->value.data<T>() : out_or_null<T>(k, dw_at);
    if (dx) std::fill_n(dx, rows * width, T{0});
    if (dbias) std::fill_n(dbias, nodes, T{0});
    if (dw) std::fill_n(dw, (picked ? rows * paths.longest() : nodes) * width, T{0});
    if (picked) picked->height = nodes;
    for (int64_t row = 0; row < rows; ++row) {
      const std::span<const Decision> path = paths.of(k, row);
      const T* x = k.in<T>(x_at) + row * width;
      for (int64_t j = 0; j < paths.longest(); ++j) {
        const int64_t at = row * paths.longest() + j;
        // Places past the end name the path's first node, with zeros: it is touched anyway.
        const bool inside = j < static_cast<int64_t>(path.size());
        const Decision decision = inside         ? path[static_cast<size_t>(j)]
                                  : path.empty() ? Decision{0, false}
                                                 : path[0];
        if (picked) picked->rows[static_cast<size_t>(at)] = decision.node;
        if (!inside) continue;
        const T slope = T{1} - std::exp(-k.in<T>(pre_at)[at]) - (decision.set ? T{1} : T{0});
        const T grad = slope * k.in<T>(dout_at)[row];
        const T* w = k.in<T>(w_at) + decision.node * width;
        T* to = dw ? dw + (picked ? at : decision.node) * width : nullptr;
        for (int64_t i = 0; i < width; ++i) {
          if (dx) dx[row * width + i] += grad * w[i];
          if (to) to[i] += grad * x[i];
        }
        if (dbias) dbias[decision.node] += grad;
      }
    }
  });
  kernel.scratch = paths.scratch();
  return kernel;
}

OpSample hsigmoid_sample(Draw& draw, bool custom) {
  OpSample sample;
  const int64_t rows = draw.size(1, 3), width = draw.size(1, 3), classes = draw.size(3, 7);
  const int64_t nodes = custom ? classes : classes - 1;
  sample.inputs["X"] = {draw.uniform({rows, width})};
  sample.inputs["W"] = {draw.uniform({nodes, width})};
  sample.inputs["Label"] = {draw.ints({rows, 1}, 0, classes - 1)};
  if (draw.coin()) sample.inputs["Bias"] = {draw.uniform({nodes, 1})};
  sample.attrs["num_classes"] = static_cast<int32_t>(classes);
  if (custom) {
    sample.inputs["PathTable"] = {draw.ints({rows, 3}, -1, nodes - 1)};
    sample.inputs["PathCode"] = {draw.ints({rows, 3}, 0, 1)};
    sample.attrs["is_sparse"] = draw.coin();
  }
  return sample;
}

}  // namespace

void register_hierarchical_sigmoid(Registry& ops) {
  ops.op("hierarchical_sigmoid")
      .doc("What the decisions on the way to each row's class cost, in a binary tree of classes")
      .in("X", "[batch, width]")
      .in("W", "[num_classes - 1, width], or with paths one row for every node they name")
      .in("Label", "int64 [batch, 1]; not read when paths are given")
      .in_optional("PathTable", "int64 [batch, longest path]: nodes, -1 past the end of a path")
      .in_optional("PathCode", "int64 [batch, longest path]: the decision at each node, 0 or 1")
      .in_optional("Bias", "[rows of W, 1]")
      .out("Out", "[batch, 1]")
      .out_intermediate("PreOut", "[batch, longest path]: log(1 + e^score) of each decision")
      .out_optional("W_Out", "the variable W, as it is")
      .attr("num_classes", 2, "leaves of the default tree")
      .at_least(2)
      .attr("remote_prefetch", false, "fetch rows from parameter servers")
      .attr("trainer_id", 0, "this trainer's number, for parameter servers")
      .attr("height_sections", std::vector<int64_t>{}, "rows kept by each parameter server")
      .attr("epmap", std::vector<std::string>{}, "addresses of the parameter servers")
      .attr("table_names", std::vector<std::string>{}, "names of the table's parts there")
      .attr("is_sparse", false, "the gradient of W holds only the rows used")
      .shape(hsigmoid_shape)
      .inplace("W", "W_Out")
      .kernel(typed<float, double>([]<class T>(const KernelSite& s) { return hsigmoid<T>(s); }))
      .grad({"X", "W", "Bias", "Label", "PathTable", "PathCode", "PreOut"})
      .grad_outs({"Out"})
      .no_grad({"Label", "PathTable", "PathCode"})
      .sparse_grad("W")
      .grad_shape(hsigmoid_grad_shape)
      .grad_kernel(
          typed<float, double>([]<class T>(const KernelSite& s) { return hsigmoid_grad<T>(s); }))
      .traits({.can_fail = true})
      .sample([](Draw& draw) { return hsigmoid_sample(draw, false); })
      .sample([](Draw& draw) { return hsigmoid_sample(draw, true); });
}

}  // namespace trireme
