// Appends the ops of tensor arrays and of rank tables.
#include "layers/array.h"

#include "core/text.h"
#include "ir/unique_name.h"
#include "layers/layer_helper.h"

namespace trireme::layers {
namespace {

void check_index(const LayerHelper& helper, const Var& i) {
  helper.check_dtype(i, "i", {DType::int64, DType::int32});
  if (i.has_shape() && !i.shape().numel().may_equal(1)) {
    throw helper.error(cat("i (", i.name(), ") has shape ", i.shape(), "; it must be one integer"));
  }
}

void check_array(const LayerHelper& helper, const Var& array) {
  if (array.type() == VarType::lod_tensor_array) return;
  throw helper
      .error(ErrorKind::type_mismatch,
             cat("array (", array.name(), ") is a ", name_of(array.type()), ", not a tensor array"))
      .fix("make it with create_array or array_write");
}

}  // namespace

Var& create_array(DType dtype, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("array");
  return helper.create_variable(
      {.name = helper.name() + ".out", .type = VarType::lod_tensor_array, .dtype = dtype});
}

Var& array_write(Var& x, Var& i, Var* array, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("array_write");
  check_index(helper, i);
  if (array) check_array(helper, *array);
  Var& out = array ? *array
                   : helper.create_variable({.name = helper.name() + ".out",
                                             .type = VarType::lod_tensor_array,
                                             .dtype = x.dtype()});
  helper.append_op("write_to_array", {{"X", x}, {"I", i}}, {{"Out", out}});
  return out;
}

Var& array_read(Var& array, Var& i, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("array_read");
  check_array(helper, array);
  check_index(helper, i);
  Var& out = helper.create_variable_for_type_inference(array.dtype());
  helper.append_op("read_from_array", {{"X", array}, {"I", i}}, {{"Out", out}});
  return out;
}

Var& array_length(Var& array, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("array_length");
  check_array(helper, array);
  Var& out = helper.create_variable_for_type_inference(DType::int64, /*stop_gradient=*/true);
  helper.append_op("lod_array_length", {{"X", array}}, {{"Out", out}});
  return out;
}

std::pair<Var*, Var*> tensor_array_to_tensor(Var& input, int axis, bool use_stack,
                                             const std::string& name, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("tensor_array_to_tensor", name);
  check_array(helper, input);
  Var& out = helper.create_variable_for_type_inference(input.dtype());
  Var& index = helper.create_variable_for_type_inference(DType::int32, /*stop_gradient=*/true);
  helper.append_op("tensor_array_to_tensor", {{"X", input}}, {{"Out", out}, {"OutIndex", index}},
                   {{"axis", axis}, {"use_stack", use_stack}});
  return {&out, &index};
}

Var& lod_rank_table(Var& x, int level, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("lod_rank_table");
  Var& table = helper.create_variable(
      {.name = unique_names().generate("lod_rank_table"), .type = VarType::lod_rank_table});
  helper.append_op("lod_rank_table", {{"X", x}}, {{"Out", table}}, {{"level", level}});
  return table;
}

Var& max_sequence_len(Var& rank_table, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("max_seqence_len");  // the original's spelling: it is in names
  Var& out = helper.create_variable_for_type_inference(DType::int64);
  helper.append_op("max_sequence_len", {{"RankTable", rank_table}}, {{"Out", out}});
  return out;
}

Var& lod_tensor_to_array(Var& x, Var& table, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("lod_tensor_to_array");
  Var& array = helper.create_variable({.name = unique_names().generate("lod_tensor_to_array"),
                                       .type = VarType::lod_tensor_array,
                                       .dtype = x.dtype()});
  helper.append_op("lod_tensor_to_array", {{"X", x}, {"RankTable", table}}, {{"Out", array}});
  return array;
}

Var& array_to_lod_tensor(Var& x, Var& table, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("array_to_lod_tensor");
  check_array(helper, x);
  Var& out = helper.create_variable_for_type_inference(x.dtype());
  helper.append_op("array_to_lod_tensor", {{"X", x}, {"RankTable", table}}, {{"Out", out}});
  return out;
}

Var& reorder_lod_tensor_by_rank(Var& x, Var& rank_table, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("reorder_lod_tensor_by_rank");
  Var& out = helper.create_variable_for_type_inference(x.dtype());
  helper.append_op("reorder_lod_tensor_by_rank", {{"X", x}, {"RankTable", rank_table}},
                   {{"Out", out}});
  return out;
}

Var& shrink_memory(Var& x, Var& i, Var& table, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("shrink_memory");
  Var& out = helper.create_variable_for_type_inference(x.dtype());
  helper.append_op("shrink_rnn_memory", {{"X", x}, {"I", i}, {"RankTable", table}}, {{"Out", out}});
  return out;
}

std::pair<Var*, Var*> split_lod_tensor(Var& input, Var& mask, int level, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("split_lod_tensor");
  helper.check_dtype(mask, "mask", {DType::boolean});
  Var& of_true = helper.create_variable_for_type_inference(input.dtype());
  Var& of_false = helper.create_variable_for_type_inference(input.dtype());
  helper.append_op("split_lod_tensor", {{"X", input}, {"Mask", mask}},
                   {{"OutTrue", of_true}, {"OutFalse", of_false}}, {{"level", level}});
  return {&of_true, &of_false};
}

Var& merge_lod_tensor(Var& in_true, Var& in_false, Var& x, Var& mask, int level, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("merge_lod_tensor");
  helper.check_dtype(mask, "mask", {DType::boolean});
  Var& out = helper.create_variable_for_type_inference(in_true.dtype());
  helper.append_op("merge_lod_tensor",
                   {{"X", x}, {"Mask", mask}, {"InTrue", in_true}, {"InFalse", in_false}},
                   {{"Out", out}}, {{"level", level}});
  return out;
}

}  // namespace trireme::layers
