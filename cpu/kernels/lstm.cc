// Kernels of lstm and lstmp: the recurrence over sequences, on each matrix product there is.
#include "ops/recurrent/lstm.h"
#include "cpu/kernels/lstm_one_row.h"
#include "cpu/kernels/lstm_recurrence.h"
#include "cpu/kernels/register.h"
#include "ops/sequence/sequence_rules.h"

namespace trireme {
namespace {

// `rows`: an operand with Input's LoD. The gradient of lstmp does not read Input.
template <class T>
LstmRecurrence<T> recurrence(const KernelSite& site, std::string_view rows, Product<T> product) {
  const bool projected = LstmSlots(site).projected;
  const Shape& weight = site.in("Weight").shape;
  LstmRecurrence<T> made{.steps = Steps(bound_offsets(site, rows), site.attr<bool>("is_reverse")),
                         .width = weight.at(1) / 4,
                         .state = weight.at(0),
                         .peephole = site.attr<bool>("use_peepholes"),
                         .projected = projected,
                         .gate = activation_of(site.attr<std::string>("gate_activation")),
                         .cell = activation_of(site.attr<std::string>("cell_activation")),
                         .candidate = activation_of(site.attr<std::string>("candidate_activation")),
                         .product = product};
  if (!projected) return made;
  made.projection = activation_of(site.attr<std::string>("proj_activation"));
  made.cell_clip = static_cast<T>(site.attr<float>("cell_clip"));
  made.projection_clip = static_cast<T>(site.attr<float>("proj_clip"));
  return made;
}

struct LstmIns {
  int weight, projection, bias, h0, c0;
  explicit LstmIns(const KernelSite& site)
      : weight(site.position("Weight")),
        projection(LstmSlots(site).projected ? site.position("ProjWeight") : -1),
        bias(site.position("Bias")),
        h0(site.position("H0")),
        c0(site.position("C0")) {}
  template <class T>
  LstmData<T> data(const KernelArgs& k) const {
    return {.weight = k.in<T>(weight),
            .bias = k.in<T>(bias),
            .projection = in_or_null<T>(k, projection),
            .r0 = in_or_null<T>(k, h0),
            .c0 = in_or_null<T>(k, c0)};
  }
};

// Where the forward kernels find their operands and results.
template <class T>
struct LstmOperands {
  std::function<const T*(const KernelArgs&)> input;
  std::function<LstmData<T>(const KernelArgs&)> in;
  std::function<LstmRows<T>(const KernelArgs&)> out;

  explicit LstmOperands(const KernelSite& site) {
    const LstmSlots slots(site);
    const int input_at = site.position("Input"), state = site.out_position(slots.state);
    const int hidden = site.out_position(slots.hidden), cell = site.out_position("Cell");
    const int gate = site.out_position("BatchGate");
    const int active = site.out_position("BatchCellPreAct");
    input = [=](const KernelArgs& k) { return k.in<T>(input_at); };
    in = [ins = LstmIns(site)](const KernelArgs& k) { return ins.template data<T>(k); };
    out = [=](const KernelArgs& k) {
      return LstmRows<T>{.gates = k.out<T>(gate),
                         .active = k.out<T>(active),
                         .cell = k.out<T>(cell),
                         .h = k.out<T>(hidden),
                         .r = k.out<T>(state)};
    };
  }
};

template <class T>
BoundKernel lstm(const KernelSite& site, Product<T> product) {
  const LstmOperands<T> at(site);
  return recurrence<T>(site, "Input", product).forward_kernel(at.input, at.in, at.out);
}

std::optional<BoundKernel> lstm_one_row(const KernelSite& site, std::string* why_not) {
  const auto refuse = [&](const char* why) {
    if (why_not) *why_not = why;
    return std::nullopt;
  };
  if (kernel_dtype(site) != DType::float32) return refuse("only for float32");
  LstmRecurrence<float> run = recurrence<float>(site, "Input", {});
  if (const char* why = LstmOneRow::why_not(run)) return refuse(why);
  const LstmOperands<float> at(site);
  return LstmOneRow::kernel(
      std::make_shared<const LstmOneRow>(std::move(run), at.input, at.in, at.out),
      site.position("Weight"));
}

template <class T>
BoundKernel lstm_grad(const KernelSite& site, Product<T> product) {
  const LstmSlots slots(site);
  const int state = site.position(slots.state), hidden = site.position(slots.hidden);
  const int cell = site.position("Cell");
  const int gate = site.position("BatchGate"), active = site.position("BatchCellPreAct");
  const int dstate = site.position(grad_name(slots.state)), dcell = site.position("Cell@GRAD");
  const int dinput = site.out_position("Input@GRAD"), dweight = site.out_position("Weight@GRAD");
  const int dprojection = slots.projected ? site.out_position("ProjWeight@GRAD") : -1;
  const int dbias = site.out_position("Bias@GRAD");
  const int dh0 = site.out_position("H0@GRAD"), dc0 = site.out_position("C0@GRAD");
  return recurrence<T>(site, slots.state, product)
      .backward_kernel(
          [ins = LstmIns(site)](const KernelArgs& k) { return ins.template data<T>(k); },
          [=](const KernelArgs& k) {
            return LstmRows<const T>{.gates = k.in<T>(gate),
                                     .active = k.in<T>(active),
                                     .cell = k.in<T>(cell),
                                     .h = k.in<T>(hidden),
                                     .r = k.in<T>(state)};
          },
          [=](const KernelArgs& k) {
            return LstmGrads<T>{.dr = in_or_null<T>(k, dstate),
                                .dcell = in_or_null<T>(k, dcell),
                                .dinput = out_or_null<T>(k, dinput),
                                .dweight = out_or_null<T>(k, dweight),
                                .dbias = out_or_null<T>(k, dbias),
                                .dprojection = out_or_null<T>(k, dprojection),
                                .dr0 = out_or_null<T>(k, dh0),
                                .dc0 = out_or_null<T>(k, dc0)};
          });
}

}  // namespace

void add_lstm_kernels(Registry& ops) {
  const auto forward = []<class T>(const KernelSite& site, Product<T> product) {
    return lstm<T>(site, product);
  };
  const auto backward = []<class T>(const KernelSite& site, Product<T> product) {
    return lstm_grad<T>(site, product);
  };
  for (const char* row : {"lstm", "lstmp"}) {
    ops.add_kernels(row, on_products(forward));
    ops.add_kernels(std::string(row) + "_grad", on_products(backward));
  }
  ops.add_kernels("lstm", {{"one_row", lstm_one_row}});  // tried before those
}

}  // namespace trireme
