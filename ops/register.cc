// The list of operator families. Adding an operator touches its family file; adding a family, one
// line here.
#include "ir/schema.h"

namespace trireme {

void register_primitive_elementwise(Registry& ops);
void register_primitive_reduce(Registry& ops);
void register_primitive_shape(Registry& ops);
void register_activation(Registry& ops);
void register_elementwise(Registry& ops);
void register_compare(Registry& ops);
void register_reduce(Registry& ops);
void register_math(Registry& ops);
void register_sum(Registry& ops);
void register_fill(Registry& ops);
void register_loss(Registry& ops);
void register_metric(Registry& ops);
void register_order(Registry& ops);
void register_tensor_shape(Registry& ops);
void register_tensor_join(Registry& ops);
void register_tensor_repeat(Registry& ops);
void register_tensor_slice(Registry& ops);
void register_tensor_index(Registry& ops);
void register_matmul(Registry& ops);
void register_conv(Registry& ops);
void register_pool(Registry& ops);
void register_batch_norm(Registry& ops);
void register_layer_norm(Registry& ops);
void register_norm(Registry& ops);
void register_dropout(Registry& ops);
void register_softmax(Registry& ops);
void register_softmax_cross_entropy(Registry& ops);
void register_cross_entropy(Registry& ops);
void register_random(Registry& ops);
void register_embedding(Registry& ops);
void register_selected_rows(Registry& ops);
void register_sequence(Registry& ops);
void register_sequence_pool(Registry& ops);
void register_sequence_pad(Registry& ops);
void register_sequence_lod(Registry& ops);
void register_sequence_conv(Registry& ops);
void register_lstm(Registry& ops);
void register_lstmp(Registry& ops);
void register_gru(Registry& ops);
void register_gru_unit(Registry& ops);
void register_crf(Registry& ops);
void register_beam_search(Registry& ops);
void register_sequence_measure(Registry& ops);
void register_print(Registry& ops);
void register_py_func_ops(Registry& ops);
void register_ctc(Registry& ops);
void register_nce(Registry& ops);
void register_hierarchical_sigmoid(Registry& ops);
void register_optimizer_basic(Registry& ops);
void register_optimizer_adaptive(Registry& ops);
void register_optimizer_norm(Registry& ops);
void register_average(Registry& ops);
void register_control(Registry& ops);
void register_host(Registry& ops);

void register_all_ops(Registry& ops) {
  register_primitive_elementwise(ops);
  register_primitive_reduce(ops);
  register_primitive_shape(ops);
  register_activation(ops);
  register_elementwise(ops);
  register_compare(ops);
  register_reduce(ops);
  register_math(ops);
  register_sum(ops);
  register_fill(ops);
  register_loss(ops);
  register_metric(ops);
  register_order(ops);
  register_tensor_shape(ops);
  register_tensor_join(ops);
  register_tensor_repeat(ops);
  register_tensor_slice(ops);
  register_tensor_index(ops);
  register_matmul(ops);
  register_conv(ops);
  register_pool(ops);
  register_batch_norm(ops);
  register_layer_norm(ops);
  register_norm(ops);
  register_dropout(ops);
  register_softmax(ops);
  register_softmax_cross_entropy(ops);
  register_cross_entropy(ops);
  register_random(ops);
  register_embedding(ops);
  register_selected_rows(ops);
  register_sequence(ops);
  register_sequence_pool(ops);
  register_sequence_pad(ops);
  register_sequence_lod(ops);
  register_sequence_conv(ops);
  register_lstm(ops);
  register_lstmp(ops);
  register_gru(ops);
  register_gru_unit(ops);
  register_crf(ops);
  register_beam_search(ops);
  register_sequence_measure(ops);
  register_print(ops);
  register_py_func_ops(ops);
  register_ctc(ops);
  register_nce(ops);
  register_hierarchical_sigmoid(ops);
  register_optimizer_basic(ops);
  register_optimizer_adaptive(ops);
  register_optimizer_norm(ops);
  register_average(ops);
  register_control(ops);
  register_host(ops);
}

}  // namespace trireme
