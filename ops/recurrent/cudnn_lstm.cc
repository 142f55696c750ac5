// cudnn_lstm: several layers of long short-term memory, one- or two-directional, over padded steps.
#include "ir/schema.h"
#include "ops/recurrent/lstm_sizes.h"

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
      .grad({"Input", "InitH", "InitC", "W", "Cache", "Out"})
      .grad_outs({"Out"})
      .grad_outs_if_any({"last_h", "last_c", "LastH", "LastC"})
      .no_grad({"Cache"})
      .traits({.random = true})
      .sample([](Draw& draw) { return cudnn_lstm_sample(draw, false, 0); })
      .sample([](Draw& draw) { return cudnn_lstm_sample(draw, true, 0); })
      .sample([](Draw& draw) { return cudnn_lstm_sample(draw, true, 0.4f); });
}

}  // namespace trireme
