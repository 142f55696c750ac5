// StaticRNN: sub-block, states and sequences become one recurrent op.
#include "layers/step_rnn.h"

#include <algorithm>
#include <set>

#include "core/text.h"
#include "ir/unique_name.h"
#include "layers/layer_helper.h"

namespace trireme::layers {

StaticRNN::StaticRNN(const std::string& name, SourceLine line) : line_(std::move(line)) {
  const LineScope scope(line_);
  name_ = LayerHelper("static_rnn", name).name();
}

void StaticRNN::require_inside(const char* what) const {
  if (status_ == Status::inside) return;
  throw LayerHelper("static_rnn", name_).error(cat(what, " is called outside of the step block"));
}

void StaticRNN::begin() {
  SubBlock::begin();
  status_ = Status::inside;
}

Var& StaticRNN::step_input(Var& x, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("static_rnn", name_);
  require_inside("step_input");
  if (x.shape().rank() < 1) {
    throw helper.error(cat("x (", x.name(), ") has no dimensions; the first one is the step"));
  }
  const Dim length = x.shape()[0];
  if (length_ && !length_->may_equal(length)) {
    throw helper
        .error(cat("x (", x.name(), ") has ", length, " steps but an earlier input has ", *length_))
        .fix("give inputs of one length");
  }
  if (!length_ || !length_->known()) length_ = length;
  Shape row;
  for (int i = 1; i < x.shape().rank(); ++i) row.push_back(x.shape()[i]);
  inputs_.push_back(&x);
  return helper.create_variable(
      {.name = x.name(), .dtype = x.dtype(), .shape = row, .stop_gradient = x.stop_gradient()});
}

Var& StaticRNN::memory(const MemoryOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("static_rnn", name_);
  require_inside("memory");
  Var* init = options.init;
  if (init && !parent().find_var_recursive(init->name())) {
    throw helper
        .error(cat("init ", init->name(), " is a variable of the step; memory is made before"))
        .fix("make init before the step block");
  }
  if (!init) {
    if (options.shape.empty() || !options.batch_ref) {
      throw helper.error("memory needs init, or shape and batch_ref")
          .fix(
              "give init, or a shape with -1 for the batch and a variable that has the batch size");
    }
    Var& ref = *options.batch_ref;
    // A step input is known by its name: outside, where the memory is made, it has all its steps.
    if (!parent().find_var_recursive(ref.name())) {
      throw helper
          .error(cat("batch_ref ", ref.name(), " is a variable of the step; memory is made before"))
          .fix("give a step input or a variable from outside as batch_ref");
    }
    Shape shape(options.shape);
    Var& boot = parent().create_var({.name = unique_names().generate(name_ + "@memory_boot"),
                                     .dtype = ref.dtype(),
                                     .shape = shape});
    parent().append_op({.type = "fill_constant_batch_size_like",
                        .inputs = {{"Input", {ref.name()}}},
                        .outputs = {{"Out", {boot.name()}}},
                        .attrs = {{"value", static_cast<float>(options.init_value)},
                                  {"shape", options.shape},
                                  {"dtype", wire_number(boot.dtype())},
                                  {"input_dim_idx", options.ref_batch_dim_idx},
                                  {"output_dim_idx", options.init_batch_dim_idx}}},
                       user_line());
    init = &boot;
  }
  Var& before = helper.create_variable({.name = unique_names().generate(name_ + "@mem"),
                                        .dtype = init->dtype(),
                                        .shape = init->shape()});
  memories_.push_back({.init = init, .before = &before});
  return before;
}

void StaticRNN::update_memory(Var& mem, Var& var, SourceLine line) {
  const LineScope scope(line);
  require_inside("update_memory");
  for (Memory& memory : memories_) {
    if (memory.before != &mem) continue;
    memory.after = &var;
    return;
  }
  throw LayerHelper("static_rnn", name_)
      .error(cat(mem.name(), " is no memory of this StaticRNN"))
      .fix("pass what memory() returned");
}

void StaticRNN::step_output(Var& o, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("static_rnn", name_);
  require_inside("step_output");
  Var& out = helper.create_variable_for_type_inference(o.dtype());
  helper.append_op("rnn_memory_helper", {{"X", o}}, {{"Out", out}},
                   {{"dtype", wire_number(o.dtype())}});
  Shape shape;
  shape.push_back(length_ ? *length_ : Dim());
  for (int i = 0; i < out.shape().rank(); ++i) shape.push_back(out.shape()[i]);
  outputs_.push_back(
      &parent().create_var({.name = out.name(), .dtype = out.dtype(), .shape = shape}));
}

void StaticRNN::output(const Vars& outputs, SourceLine line) {
  for (Var* out : outputs) step_output(*out, line);
}

void StaticRNN::complete() {
  promise(open(), "complete follows begin");
  const LineScope scope(line_);
  LayerHelper helper("static_rnn", name_);
  Block& block = inside();
  Block& around = parent();
  const auto names = [](const std::vector<Var*>& vars) { return Vars(vars).names(); };
  std::vector<std::string> initial, before, after;
  for (const Memory& memory : memories_) {
    if (!memory.after) {
      abandon();
      status_ = Status::after;
      throw helper.error(cat("memory ", memory.before->name(), " is never updated"))
          .fix("call update_memory for it");
    }
    Var& handed_on = helper.create_variable_for_type_inference(memory.after->dtype());
    helper.append_op("rnn_memory_helper", {{"X", *memory.after}}, {{"Out", handed_on}},
                     {{"dtype", wire_number(memory.after->dtype())}});
    initial.push_back(memory.init->name());
    before.push_back(memory.before->name());
    after.push_back(handed_on.name());
  }
  abandon();
  status_ = Status::after;
  // What ops inside read and nothing inside makes: parameters, and other variables from outside.
  std::vector<std::string> made = names(inputs_);
  made.insert(made.end(), before.begin(), before.end());
  const Crossing crossing = crossing_of(block, around, made);
  Var& step_scope = around.create_var({.type = VarType::step_scopes, .has_shape = false});
  around.append_op({.type = "recurrent",
                    .inputs = {{"inputs", names(inputs_)},
                               {"initial_states", initial},
                               {"parameters", crossing.read}},
                    .outputs = {{"outputs", names(outputs_)}, {"step_scopes", {step_scope.name()}}},
                    .attrs = {{"has_states", !before.empty()},
                              {"ex_states", before},
                              {"states", after},
                              {"sub_block", BlockRef{block.index()}}}},
                   user_line());
}

const std::vector<Var*>& StaticRNN::operator()(SourceLine line) const {
  const LineScope scope(line);
  const LayerHelper helper("static_rnn", name_);
  if (status_ != Status::after) throw helper.error("its outputs are asked for before its end");
  if (outputs_.empty()) throw helper.error("it has no output").fix("call step_output in the step");
  return outputs_;
}

}  // namespace trireme::layers
