// The sizes of a stack of LSTM layers, and where its weights stand.
#pragma once

#include <cstdint>

#include "ir/op_view.h"

namespace trireme {

// Where each weight stands in the flat tensor W. First the matrices: for every layer and direction
// those from the input [4 * hidden, width], then those from the hidden state [4 * hidden, hidden],
// gates in the order input, forget, candidate, output. Then the biases: for every layer and
// direction 4 * hidden for the input and 4 * hidden for the hidden state. It is cuDNN's order.
struct LstmSizes {
  int64_t time, batch, input, hidden, layers, directions;

  explicit LstmSizes(const OpView& op)
      : time(op.in("Input").shape[0].value()),
        batch(op.in("Input").shape[1].value()),
        input(op.in("Input").shape[2].value()),
        hidden(op.attr<int32_t>("hidden_size")),
        layers(op.attr<int32_t>("num_layers")),
        directions(op.attr<bool>("is_bidirec") ? 2 : 1) {}

  int64_t gates() const { return 4 * hidden; }
  int64_t width(int64_t layer) const { return layer == 0 ? input : directions * hidden; }
  int64_t matrices(int64_t layer) const { return gates() * (width(layer) + hidden); }
  int64_t all_matrices() const {
    int64_t sum = 0;
    for (int64_t layer = 0; layer < layers; ++layer) sum += directions * matrices(layer);
    return sum;
  }
  int64_t weights() const { return all_matrices() + layers * directions * 2 * gates(); }
  int64_t state() const { return batch * hidden; }  // elements of one layer and direction

  int64_t from_input(int64_t layer, int64_t direction) const {
    int64_t at = direction * matrices(layer);
    for (int64_t before = 0; before < layer; ++before) at += directions * matrices(before);
    return at;
  }
  int64_t from_hidden(int64_t layer, int64_t direction) const {
    return from_input(layer, direction) + gates() * width(layer);
  }
  int64_t bias(int64_t layer,
               int64_t direction) const {  // of the input; the hidden state's follows
    return all_matrices() + (layer * directions + direction) * 2 * gates();
  }
};

}  // namespace trireme
