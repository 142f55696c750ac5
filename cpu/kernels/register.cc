// The list of the CPU's fast kernels, which join the table once all rows are there.
#include "cpu/kernels/register.h"

namespace trireme {

void add_batch_norm_kernels(Registry& ops);
void add_conv_kernels(Registry& ops);
void add_pool_kernels(Registry& ops);
void add_fused_kernels(Registry& ops);
void add_lstm_kernels(Registry& ops);
void add_cudnn_lstm_kernels(Registry& ops);
void add_gru_kernels(Registry& ops);
void add_gru_unit_kernels(Registry& ops);

void add_cpu_kernels(Registry& ops) {
  add_batch_norm_kernels(ops);
  add_conv_kernels(ops);
  add_pool_kernels(ops);
  add_fused_kernels(ops);
  add_lstm_kernels(ops);
  add_cudnn_lstm_kernels(ops);
  add_gru_kernels(ops);
  add_gru_unit_kernels(ops);
}

}  // namespace trireme
