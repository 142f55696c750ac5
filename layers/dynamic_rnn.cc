// DynamicRNN: a while loop over the time steps that a rank table cuts sequences into.
#include <algorithm>

#include "core/text.h"
#include "ir/unique_name.h"
#include "layers/array.h"
#include "layers/layer_helper.h"
#include "layers/ops.h"
#include "layers/step_rnn.h"
#include "layers/tensor.h"

namespace trireme::layers {

DynamicRNN::DynamicRNN(const std::string& name, SourceLine line) : line_(std::move(line)) {
  const LineScope scope(line_);
  LayerHelper helper("dynamic_rnn", name);
  name_ = helper.name();
  condition_ = &helper.create_variable_for_type_inference(DType::boolean);
  condition_->set_shape({1});
}

void DynamicRNN::require_inside(const char* what) const {
  if (status_ == Status::inside) return;
  throw LayerHelper("dynamic_rnn", name_).error(cat(what, " is called outside of the block"));
}

Block& DynamicRNN::outside() const { return *default_main_program().current_block().parent(); }

Var& DynamicRNN::outside_var(const std::string& name, DType dtype, VarType type) const {
  return outside().create_var({.name = unique_names().generate(name),
                               .type = type,
                               .dtype = dtype,
                               .has_shape = type != VarType::lod_tensor});
}

void DynamicRNN::append_outside(OpSpec spec) const {
  outside().append_op(std::move(spec), user_line());
}

void DynamicRNN::begin() {
  const LineScope scope(line_);
  step_ = &fill_constant({1}, DType::int64, 0, {.force_cpu = true});
  step_->set_stop_gradient(false);
  loop_.emplace(*condition_, false, std::string(), line_);
  loop_->begin();
  status_ = Status::inside;
}

void DynamicRNN::abandon() {
  if (loop_) loop_->abandon();
  status_ = Status::before;
}

void DynamicRNN::block(const std::function<void()>& build) {
  begin();
  try {
    build();
  } catch (...) {
    abandon();
    throw;
  }
  complete();
}

Var& DynamicRNN::step_input(Var& x, int level, SourceLine line) {
  const LineScope scope(line);
  require_inside("step_input");
  if (!table_) {
    table_ = &outside_var("lod_rank_table", x.dtype(), VarType::lod_rank_table);
    table_->set_stop_gradient(true);
    append_outside({.type = "lod_rank_table",
                    .inputs = {{"X", {x.name()}}},
                    .outputs = {{"Out", {table_->name()}}},
                    .attrs = {{"level", level}}});
    longest_ = &outside_var("dynamic_rnn_max_seq_len", DType::int64);
    append_outside({.type = "max_sequence_len",
                    .inputs = {{"RankTable", {table_->name()}}},
                    .outputs = {{"Out", {longest_->name()}}}});
    condition_->set_stop_gradient(true);
    append_outside({.type = "less_than",
                    .inputs = {{"X", {step_->name()}}, {"Y", {longest_->name()}}},
                    .outputs = {{"Out", {condition_->name()}}},
                    .attrs = {{"force_cpu", true}}});
  }
  Var& array = outside_var("dynamic_rnn_input_array", x.dtype(), VarType::lod_tensor_array);
  append_outside({.type = "lod_tensor_to_array",
                  .inputs = {{"X", {x.name()}}, {"RankTable", {table_->name()}}},
                  .outputs = {{"Out", {array.name()}}}});
  input_arrays_.push_back(&array);
  return array_read(array, *step_);
}

Var& DynamicRNN::reordered(Var& x, const char* name) {
  Var& sorted = outside_var(name, x.dtype());
  append_outside({.type = "reorder_lod_tensor_by_rank",
                  .inputs = {{"X", {x.name()}}, {"RankTable", {table_->name()}}},
                  .outputs = {{"Out", {sorted.name()}}}});
  return sorted;
}

Var& DynamicRNN::static_input(Var& x, SourceLine line) {
  const LineScope scope(line);
  require_inside("static_input");
  if (!table_) {
    throw LayerHelper("dynamic_rnn", name_)
        .error(ErrorKind::precondition, "static_input is called before step_input")
        .fix("call step_input first: it says how many sequences there are");
  }
  return shrink_memory(reordered(x, "dynamic_rnn_static_input_reordered"), *step_, *table_);
}

Var& DynamicRNN::zero_index() {
  if (zero_) return *zero_;
  zero_ = &outside_var("zero_idx", DType::int64);
  append_outside({.type = "fill_constant",
                  .outputs = {{"Out", {zero_->name()}}},
                  .attrs = {{"shape", std::vector<int64_t>{1}},
                            {"dtype", wire_number(DType::int64)},
                            {"value", 0.0f},
                            {"force_cpu", true}}});
  return *zero_;
}

Var& DynamicRNN::memory(const MemoryOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("dynamic_rnn", name_);
  require_inside("memory");
  zero_index();
  Var* init = options.init;
  if (!init) {
    if (input_arrays_.empty()) {
      throw helper.error("memory without init is called before step_input")
          .fix("call step_input first: it says how many sequences there are");
    }
    init = &outside_var("mem_init", options.dtype);
    Var& first = outside_var("in0", input_arrays_[0]->dtype());
    append_outside({.type = "read_from_array",
                    .inputs = {{"X", {input_arrays_[0]->name()}}, {"I", {zero_->name()}}},
                    .outputs = {{"Out", {first.name()}}}});
    std::vector<int64_t> shape = {-1};
    shape.insert(shape.end(), options.shape.begin(), options.shape.end());
    append_outside({.type = "fill_constant_batch_size_like",
                    .inputs = {{"Input", {first.name()}}},
                    .outputs = {{"Out", {init->name()}}},
                    .attrs = {{"shape", shape},
                              {"value", static_cast<float>(options.value)},
                              {"dtype", wire_number(options.dtype)}}});
  } else if (options.need_reorder) {
    if (!table_) {
      throw helper.error("memory with need_reorder is called before step_input")
          .fix("call step_input first: it says what the order is");
    }
    init = &reordered(*init, "dynamic_rnn_mem_init_reordered");
  }
  Var& array = outside_var("dynamic_rnn_mem_array", init->dtype(), VarType::lod_tensor_array);
  append_outside({.type = "write_to_array",
                  .inputs = {{"X", {init->name()}}, {"I", {zero_->name()}}},
                  .outputs = {{"Out", {array.name()}}}});
  Var* before = &array_read(array, *step_);
  if (!table_) {
    throw helper.error("memory is called before step_input")
        .fix("call step_input first: it says which sequences take part in a step");
  }
  before = &shrink_memory(*before, *step_, *table_);
  memory_arrays_[before->name()] = &array;
  return *before;
}

void DynamicRNN::update_memory(Var& ex_mem, Var& new_mem, SourceLine line) {
  const LineScope scope(line);
  require_inside("update_memory");
  const auto array = memory_arrays_.find(ex_mem.name());
  if (array == memory_arrays_.end()) {
    throw LayerHelper("dynamic_rnn", name_)
        .error(cat(ex_mem.name(), " is no memory of this DynamicRNN"))
        .fix("pass what memory() returned");
  }
  updates_.emplace_back(&new_mem, array->second);
}

void DynamicRNN::output(const Vars& outputs, SourceLine line) {
  const LineScope scope(line);
  require_inside("output");
  for (Var* out : outputs) {
    Var& array = outside_var(cat(name_, "_output_array_", out->name()), out->dtype(),
                             VarType::lod_tensor_array);
    array_write(*out, *step_, &array);
    output_arrays_.push_back(&array);
  }
}

void DynamicRNN::complete() {
  const LineScope scope(line_);
  promise(status_ == Status::inside, "complete follows begin");
  if (!table_) {
    abandon();
    throw LayerHelper("dynamic_rnn", name_)
        .error("it has no step input")
        .fix("call step_input in the block: it says how many steps there are");
  }
  increment(*step_, 1, /*in_place=*/true);
  for (const auto& [value, array] : updates_) array_write(*value, *step_, array);
  less_than(*step_, *longest_, condition_);
  loop_->complete();
  status_ = Status::after;
  for (Var* array : output_arrays_) outputs_.push_back(&array_to_lod_tensor(*array, *table_));
}

const std::vector<Var*>& DynamicRNN::operator()(SourceLine line) const {
  const LineScope scope(line);
  const LayerHelper helper("dynamic_rnn", name_);
  if (status_ != Status::after) throw helper.error("its outputs are asked for before its end");
  if (outputs_.empty()) throw helper.error("it has no output").fix("call output in the block");
  return outputs_;
}

}  // namespace trireme::layers
