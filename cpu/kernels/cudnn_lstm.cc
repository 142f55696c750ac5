// Kernels of cudnn_lstm: phases over all layers, on each matrix product there is.
#include <algorithm>

#include "cpu/kernels/register.h"
#include "cpu/kernels/stacked_lstm.h"
#include "ops/tensor/random_source.h"

namespace trireme {
namespace {

// Which numbers dropout draws: the same in the op and in its gradient.
struct LstmDropout {
  double drop;
  RandomSource source;

  explicit LstmDropout(const KernelSite& site)
      : drop(site.attr<bool>("is_test") ? 0 : site.attr<float>("dropout_prob")),
        source(site.attr<int32_t>("seed") > 0
                   ? std::optional(static_cast<uint64_t>(site.attr<int32_t>("seed")))
                   : std::nullopt,
               random_stream(site), PerStep::change) {}
};

int present(int first, int second) { return first >= 0 ? first : second; }

// The phases of a run: each does parts of what it is cut into.
template <class T>
class LstmPhases {
 public:
  using Memory = StackedLstmMemory<T>;
  using Lstm = StackedLstm<T>;
  using Range = typename Lstm::Range;

  LstmPhases(const KernelSite& site, Product<T> product, bool backward)
      : sizes(site),
        x(site.position("Input")),
        h0(site.position("InitH")),
        c0(site.position("InitC")),
        w(site.position("W")),
        dropout_(site),
        needs_{.dropout = dropout_.drop > 0, .backward = backward},
        product_(product) {
    kernel.scratch = Memory(sizes, needs_, nullptr).bytes;
    kernel.packed =
        static_cast<size_t>(sizes.layers * sizes.directions * sizes.hidden * turned_pitch(sizes)) *
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
  LstmPhases<T> phases(site, product, /*backward=*/false);
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
  LstmPhases<T> phases(site, product, /*backward=*/true);
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

}  // namespace

void add_cudnn_lstm_kernels(Registry& ops) {
  const auto forward = []<class T>(const KernelSite& site, Product<T> product) {
    return cudnn_lstm<T>(site, product);
  };
  const auto backward = []<class T>(const KernelSite& site, Product<T> product) {
    return cudnn_lstm_grad<T>(site, product);
  };
  ops.add_kernels("cudnn_lstm", on_products(forward));
  ops.add_kernels("cudnn_lstm_grad", on_products(backward));
}

}  // namespace trireme
