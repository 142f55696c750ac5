// cudnn_lstm: several layers of long short-term memory, one- or two-directional, over padded steps.
#include <algorithm>

#include "cpu/kernels/stacked_lstm.h"
#include "ir/schema.h"
#include "ops/tensor/random_source.h"

namespace trireme {
namespace {

void cudnn_lstm_shape(OpView& op) {
  const ValueInfo& input = op.in("Input");
  if (input.shape.rank() != 3) {
    throw op.error(cat("Input has shape ", input.shape)).fix("give Input [time, batch, width]");
  }
  const LstmSizes sizes(op);
  const Dim states(sizes.layers * sizes.directions);
  for (const char* slot : {"InitH", "InitC"}) {
    const Shape& state = op.in(slot).shape;
    if (state.may_equal({states, input.shape[1], Dim(sizes.hidden)})) continue;
    throw op
        .error(cat(slot, " has shape ", state, " but ", sizes.layers, " layers in ",
                   sizes.directions, " directions need [", states, ", ", input.shape[1], ", ",
                   sizes.hidden, "]"))
        .fix("give one state for every layer and direction");
  }
  if (input.shape[2].known() && !op.in("W").shape.numel().may_equal(sizes.weights())) {
    throw op
        .error(cat("W has ", op.in("W").shape.numel(), " numbers but ", sizes.weights(),
                   " are needed"))
        .fix("make W of all matrices and both biases of every layer and direction");
  }
  const Shape state = {states, input.shape[1], Dim(sizes.hidden)};
  op.set_out("Out", input.dtype,
             {input.shape[0], input.shape[1], Dim(sizes.directions * sizes.hidden)});
  for (const char* slot : {"last_h", "last_c", "LastH", "LastC"}) {
    op.set_out(slot, input.dtype, state);
  }
  for (const char* slot : {"Reserve", "StateOut"}) op.set_out(slot, DType::uint8, Shape{0});
}

// Which numbers dropout draws: those of the variable Out, in the op and in its gradient.
struct LstmDropout {
  double drop;
  RandomSource source;

  LstmDropout(const KernelSite& site, const std::string& out_name)
      : drop(site.attr<bool>("is_test") ? 0 : site.attr<float>("dropout_prob")),
        source(site.attr<int32_t>("seed") > 0
                   ? std::optional(static_cast<uint64_t>(site.attr<int32_t>("seed")))
                   : std::nullopt,
               stream_of(out_name), Draws::change) {}
};

int present(int first, int second) { return first >= 0 ? first : second; }

// The phases of a run: each does parts of what it is cut into.
template <class T>
class LstmPhases {
 public:
  using Memory = StackedLstmMemory<T>;
  using Lstm = StackedLstm<T>;
  using Range = typename Lstm::Range;

  LstmPhases(const KernelSite& site, Product<T> product, const std::string& out_name, bool backward)
      : sizes(site),
        x(site.position("Input")),
        h0(site.position("InitH")),
        c0(site.position("InitC")),
        w(site.position("W")),
        dropout_(site, out_name),
        needs_{.dropout = dropout_.drop > 0, .backward = backward},
        product_(product) {
    kernel.scratch = Memory(sizes, needs_, nullptr).bytes;
    kernel.packed =
        static_cast<size_t>(sizes.layers * sizes.directions * sizes.hidden * sizes.turned_pitch()) *
        sizeof(T);
  }

  // f(lstm, k, range) for each of `parts` parts of n.
  template <class F>
  void add(int64_t n, int64_t parts, F f) {
    const auto lstm_of = [sizes = sizes, product = product_, needs = needs_, x = x, w = w, h0 = h0,
                          c0 = c0](const KernelArgs& k) {
      return Lstm(sizes, product, Memory(sizes, needs, k.scratch),
                  {k.in<T>(x), k.in<T>(w), k.in<T>(h0), k.in<T>(c0), needs.dropout});
    };
    kernel.add(
        [=](const KernelArgs& k) {
          const Lstm lstm = lstm_of(k);
          const auto [first, last] = k.range(parts);
          for (int64_t i = first; i < last; ++i) {
            const auto [begin, end] = part_of(n, i, parts);
            f(lstm, k, Range{begin, end});
          }
        },
        static_cast<int>(parts));
  }

  // Groups of sequences of every direction: f(lstm, k, direction, sequences).
  template <class F>
  void add_for_groups(F f) {
    const int64_t groups = row_groups(sizes.batch);
    const int64_t all = groups * sizes.directions;
    add(all, all,
        [f, groups, batch = sizes.batch](const Lstm& lstm, const KernelArgs& k, Range at) {
          const auto [begin, end] = part_of(batch, at.begin % groups, groups);
          f(lstm, k, at.begin / groups, Range{begin, end});
        });
  }

  void add_forward() {
    add(sizes.gates(), gate_parts(),
        [](const Lstm& lstm, const KernelArgs&, Range part) { lstm.turn(part); });
    for (int64_t l = 0; l < sizes.layers; ++l) {
      if (l > 0 && needs_.dropout) {
        add(rows(), row_parts(),
            [l, dropout = dropout_](const Lstm& lstm, const KernelArgs& k, Range part) {
              lstm.drop_out(l, part, dropout.drop, dropout.source.philox(k));
            });
      }
      add(rows(), row_parts(),
          [l](const Lstm& lstm, const KernelArgs&, Range part) { lstm.project(l, part); });
      add_for_groups([l](const Lstm& lstm, const KernelArgs&, int64_t direction, Range sequences) {
        lstm.run(l, direction, sequences);
      });
    }
  }

  int64_t rows() const { return sizes.time * sizes.batch; }
  int64_t row_parts() const { return std::clamp<int64_t>(rows() / 64, 1, 8); }
  int64_t gate_parts() const { return std::clamp<int64_t>(sizes.gates() / 64, 1, 8); }

  BoundKernel kernel;
  const LstmSizes sizes;
  const int x, h0, c0, w;

 private:
  LstmDropout dropout_;
  typename Memory::Needs needs_;
  Product<T> product_;
};

template <class T>
BoundKernel cudnn_lstm(const KernelSite& site, Product<T> product) {
  const int out = site.out_position("Out");
  const int h = present(site.out_position("last_h"), site.out_position("LastH"));
  const int c = present(site.out_position("last_c"), site.out_position("LastC"));
  LstmPhases<T> phases(site, product, stream_name(site, "Out"), /*backward=*/false);
  phases.add_forward();
  using Lstm = StackedLstm<T>;
  const int64_t count = phases.rows() * phases.sizes.directions * phases.sizes.hidden;
  phases.add(count, phases.row_parts(),
             [=](const Lstm& lstm, const KernelArgs& k, typename Lstm::Range part) {
               std::copy(lstm.out() + part.begin, lstm.out() + part.end,
                         k.out<T>(out) + part.begin);
               if (part.begin == 0) lstm.last_states(out_or_null<T>(k, h), out_or_null<T>(k, c));
             });
  return std::move(phases.kernel);
}

template <class T>
BoundKernel cudnn_lstm_grad(const KernelSite& site, Product<T> product) {
  const int dout = site.position("Out@GRAD");
  const int dh = present(site.position("last_h@GRAD"), site.position("LastH@GRAD"));
  const int dc = present(site.position("last_c@GRAD"), site.position("LastC@GRAD"));
  const int dx = site.out_position("Input@GRAD"), dw = site.out_position("W@GRAD"),
            dh0 = site.out_position("InitH@GRAD"), dc0 = site.out_position("InitC@GRAD");
  LstmPhases<T> phases(site, product, site.in("Out").name, /*backward=*/true);
  phases.add_forward();
  using Lstm = StackedLstm<T>;
  using Range = typename Lstm::Range;
  const auto grads = [=](const KernelArgs& k) {
    return typename Lstm::Grads{.dout = in_or_null<T>(k, dout),
                                .dlast_h = in_or_null<T>(k, dh),
                                .dlast_c = in_or_null<T>(k, dc),
                                .dx = out_or_null<T>(k, dx),
                                .dw = out_or_null<T>(k, dw),
                                .dh0 = out_or_null<T>(k, dh0),
                                .dc0 = out_or_null<T>(k, dc0)};
  };
  for (int64_t l = phases.sizes.layers - 1; l >= 0; --l) {
    phases.add_for_groups(
        [=](const Lstm& lstm, const KernelArgs& k, int64_t direction, Range sequences) {
          lstm.run_back(l, direction, sequences, grads(k));
        });
    phases.add(phases.rows(), phases.row_parts(),
               [=](const Lstm& lstm, const KernelArgs& k, Range rows) {
                 lstm.input_grad(l, rows, grads(k));
               });
    if (dw < 0) continue;
    phases.add(phases.sizes.gates(), phases.gate_parts(),
               [=](const Lstm& lstm, const KernelArgs& k, Range gates) {
                 lstm.weight_grad(l, gates, k.out<T>(dw));
               });
  }
  return std::move(phases.kernel);
}

OpSample cudnn_lstm_sample(Draw& draw, bool two_ways, float drop) {
  OpSample sample;
  const int64_t layers = draw.size(1, 2), hidden = draw.size(1, 2), batch = draw.size(1, 2),
                width = draw.size(1, 3), directions = two_ways ? 2 : 1;
  int64_t weights = 0;
  for (int64_t layer = 0; layer < layers; ++layer) {
    weights += directions * 4 * hidden * ((layer == 0 ? width : directions * hidden) + hidden + 2);
  }
  sample.inputs["Input"] = {draw.uniform({draw.size(1, 3), batch, width})};
  sample.inputs["InitH"] = {draw.uniform({layers * directions, batch, hidden})};
  sample.inputs["InitC"] = {draw.uniform({layers * directions, batch, hidden})};
  sample.inputs["W"] = {draw.uniform({weights})};
  sample.attrs["hidden_size"] = static_cast<int32_t>(hidden);
  sample.attrs["num_layers"] = static_cast<int32_t>(layers);
  sample.attrs["is_bidirec"] = two_ways;
  sample.attrs["dropout_prob"] = drop;
  sample.attrs["seed"] = 5;
  return sample;
}

}  // namespace

void register_cudnn_lstm(Registry& ops) {
  const auto forward = []<class T>(const KernelSite& site, Product<T> product) {
    return cudnn_lstm<T>(site, product);
  };
  const auto backward = []<class T>(const KernelSite& site, Product<T> product) {
    return cudnn_lstm_grad<T>(site, product);
  };
  ops.op("cudnn_lstm")
      .doc("Layers of long short-term memory over padded steps, with dropout between the layers")
      .in("Input", "[time, batch, width]")
      .in("InitH", "[layers * directions, batch, hidden]: the hidden states before the first step")
      .in("InitC", "[layers * directions, batch, hidden]: the cells before the first step")
      .in("W", "all weights, flat: matrices of every layer and direction, then their biases")
      .in_optional("Cache", "kept for files; not used")
      .out("Out", "[time, batch, directions * hidden]")
      .out_optional("last_h", "[layers * directions, batch, hidden]: after the last step")
      .out_optional("last_c", "[layers * directions, batch, hidden]: the cells then")
      .out_optional("LastH", "last_h as 2.x names it")
      .out_optional("LastC", "last_c as 2.x names it")
      .out_optional("Reserve", "empty: nothing needs to be kept")
      .out_optional("StateOut", "empty: nothing needs to be kept")
      .attr("max_len", 20, "accepted; changes no result")
      .attr("dropout_prob", 0.0f, "how much of a layer's input is dropped, the first one's not")
      .between(0, 1)
      .attr("is_bidirec", false, "a second direction runs from the last step to the first")
      .attr("input_size", 10, "accepted; the width is Input's")
      .attr("hidden_size", 100, "width of the hidden state")
      .at_least(1)
      .attr("num_layers", 1, "how many layers stand on each other")
      .at_least(1)
      .attr("is_test", false, "nothing is dropped")
      .attr("seed", -1, "of dropout; not positive: the process's own")
      .shape(cudnn_lstm_shape)
      .kernel(with_onednn(forward), "onednn")
      .kernel(with_blas(forward), "blas")
      .kernel(with_reference(forward))
      .grad({"Input", "InitH", "InitC", "W", "Cache", "Out"})
      .grad_outs({"Out"})
      .grad_outs_if_any({"last_h", "last_c", "LastH", "LastC"})
      .no_grad({"Cache"})
      .grad_kernel(with_onednn(backward), "onednn")
      .grad_kernel(with_blas(backward), "blas")
      .grad_kernel(with_reference(backward))
      .traits({.random = true})
      .sample([](Draw& draw) { return cudnn_lstm_sample(draw, false, 0); })
      .sample([](Draw& draw) { return cudnn_lstm_sample(draw, true, 0); })
      .sample([](Draw& draw) { return cudnn_lstm_sample(draw, true, 0.4f); });
}

}  // namespace trireme
