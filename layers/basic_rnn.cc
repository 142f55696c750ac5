// basic_lstm and basic_gru: cells on each other, walked along time by StaticRNN.
#include <memory>

#include "core/text.h"
#include "layers/cell.h"
#include "layers/layer_helper.h"
#include "layers/math_op.h"
#include "layers/nn.h"
#include "layers/ops.h"
#include "layers/step_rnn.h"
#include "layers/tensor.h"

namespace trireme::layers {
namespace {

using Units = std::vector<std::unique_ptr<CellUnit>>;
using MakeUnit = std::function<std::unique_ptr<CellUnit>(const std::string&, CellOptions)>;

ParamArg named_layer(const ParamArg& arg, const std::string& suffix) {
  if (!arg.wanted() || arg.attr().name.empty()) return arg;
  ParamAttr attr = arg.attr();
  attr.name += suffix;
  return attr;
}

Units make_units(const BasicRnnOptions& options, const std::string& name, bool backwards,
                 const MakeUnit& make) {
  Units units;
  const std::string way = backwards ? "bw" : "fw";
  for (int i = 0; i < options.num_layers; ++i) {
    CellOptions cell = options.cell;
    cell.param_attr = named_layer(cell.param_attr, cat("_", way, "_w_", i));
    cell.bias_attr = named_layer(cell.bias_attr, cat("_", way, "_b_", i));
    units.push_back(make(cat(name, backwards ? "_reverse_layers_" : "_layers_", i), cell));
  }
  return units;
}

Var& reversed(Var& x) { return unary("reverse", x, {{"axis", std::vector<int>{0}}}); }

// Where the mask is 0 the sequence has ended, and the state stays.
Var& where_alive(Var& before, Var& after, Var* mask) {
  if (!mask) return after;
  return elementwise_mul(after, *mask, {.axis = 0}) -
         elementwise_mul(before, *mask - 1.0, {.axis = 0});
}

struct OneWay {
  Var* out;
  std::vector<Var*> last;  // of each state: [layers, batch, hidden]
};

// `init`: for each layer its states before the first step; empty: zeros.
OneWay walk(Var& input, Var* mask, const Units& units, const std::vector<std::vector<Var*>>& init,
            double dropout_prob) {
  const size_t states = units[0]->states();
  const int64_t hidden = units[0]->hidden_size();
  StaticRNN rnn;
  rnn.step([&] {
    Var* below = &rnn.step_input(input);
    Var* alive = mask ? &rnn.step_input(*mask) : nullptr;
    for (size_t i = 0; i < units.size(); ++i) {
      std::vector<Var*> before;
      for (size_t s = 0; s < states; ++s) {
        StaticRNN::MemoryOptions memory{.shape = {-1, hidden}, .batch_ref = &input};
        if (!init.empty()) memory = {.init = init[i][s]};
        before.push_back(&rnn.memory(memory));
      }
      const std::vector<Var*> after = units[i]->step(*below, before);
      for (size_t s = 0; s < states; ++s) {
        Var& next = where_alive(*before[s], *after[s], alive);
        rnn.update_memory(*before[s], next);
        rnn.step_output(next);
        if (s == 0) below = &next;
      }
      if (dropout_prob > 0) {
        below = &dropout(
            *below, {.dropout_prob = dropout_prob, .dropout_implementation = "upscale_in_train"});
      }
    }
    rnn.step_output(*below);
  });
  const std::vector<Var*>& all = rnn();
  OneWay result{.out = all.back(), .last = {}};
  for (size_t s = 0; s < states; ++s) {
    std::vector<Var*> ends;
    for (size_t i = 0; i < units.size(); ++i) {
      ends.push_back(&index(*all[i * states + s], {Index::at(-1)}));
    }
    result.last.push_back(
        &reshape(concat(ends, 0), {static_cast<int64_t>(units.size()), -1, hidden}));
  }
  return result;
}

// The states of every layer in one direction, cut out of [layers * directions, batch, hidden].
std::vector<std::vector<Var*>> initial_states(const std::vector<Var*>& given,
                                              const BasicRnnOptions& options, int direction) {
  std::vector<std::vector<Var*>> result;
  if (!given[0]) return result;
  const int directions = options.bidirectional ? 2 : 1;
  for (int i = 0; i < options.num_layers; ++i) {
    std::vector<Var*> states;
    for (Var* state : given) {
      Var& by_layer =
          reshape(*state, {options.num_layers, directions, -1, options.cell.hidden_size});
      states.push_back(&index(by_layer, {Index::at(i), Index::at(direction)}));
    }
    result.push_back(std::move(states));
  }
  return result;
}

// [time, batch]: 1 where a sequence has a step.
Var& step_mask(Var& input, Var& lengths, DType dtype) {
  Var& longest = index(shape(input), {Index::at(0)});
  Var& mask = apply("sequence_mask", {{"X", lengths}, {"MaxLenTensor", longest}},
                    {{"out_dtype", wire_number(dtype)}});
  return transpose(mask, {1, 0});
}

BasicRnn basic_rnn(Var& given, const std::vector<Var*>& init, const BasicRnnOptions& options,
                   const std::string& name, const MakeUnit& make) {
  const LayerHelper helper(name, options.name);
  if (options.num_layers < 1) {
    throw helper.error(cat("num_layers is ", options.num_layers, "; it must be at least 1"));
  }
  for (const Var* state : init) {
    if (!state != !init[0]) throw helper.error("init_hidden and init_cell go together");
  }
  helper.check_rank(given, "input", 3);
  const std::string& called = options.name.empty() ? name : options.name;
  const Units forwards = make_units(options, called, false, make);
  const Units backwards = options.bidirectional ? make_units(options, called, true, make) : Units();
  Var& input = options.batch_first ? transpose(given, {1, 0, 2}) : given;
  Var* mask = nullptr;
  if (options.sequence_length) {
    mask = &step_mask(input, *options.sequence_length, options.cell.dtype);
  }
  const auto in_order = [&](Var& out) -> Var& {
    return options.batch_first ? transpose(out, {1, 0, 2}) : out;
  };
  const OneWay there =
      walk(input, mask, forwards, initial_states(init, options, 0), options.dropout_prob);
  if (!options.bidirectional) return {in_order(*there.out), there.last};
  const OneWay back = walk(reversed(input), mask ? &reversed(*mask) : nullptr, backwards,
                           initial_states(init, options, 1), options.dropout_prob);
  BasicRnn result{in_order(concat({*there.out, reversed(*back.out)}, 2)), {}};
  for (size_t s = 0; s < there.last.size(); ++s) {
    Var& both = concat({*there.last[s], *back.last[s]}, 1);
    result.last.push_back(&reshape(both, {2 * options.num_layers, -1, options.cell.hidden_size}));
  }
  return result;
}

}  // namespace

BasicRnn basic_lstm(Var& input, Var* init_hidden, Var* init_cell, const BasicRnnOptions& options,
                    SourceLine line) {
  const LineScope scope(line);
  return basic_rnn(input, {init_hidden, init_cell}, options, "basic_lstm",
                   [](const std::string& name, CellOptions cell) {
                     return std::make_unique<BasicLstmUnit>(name, std::move(cell));
                   });
}

BasicRnn basic_gru(Var& input, Var* init_hidden, const BasicRnnOptions& options, SourceLine line) {
  const LineScope scope(line);
  return basic_rnn(input, {init_hidden}, options, "basic_gru",
                   [](const std::string& name, CellOptions cell) {
                     return std::make_unique<BasicGruUnit>(name, std::move(cell));
                   });
}

}  // namespace trireme::layers
