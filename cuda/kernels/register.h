// The lists of this device's kernels, one function a file.
#pragma once

#include "ir/device_kernels.h"

namespace trireme::cuda {

void add_elementwise(DeviceKernels& kernels);
void add_fused(DeviceKernels& kernels);
void add_reductions(DeviceKernels& kernels);
void add_moves(DeviceKernels& kernels);
void add_products(DeviceKernels& kernels);
void add_softmax(DeviceKernels& kernels);
void add_losses(DeviceKernels& kernels);
void add_embedding(DeviceKernels& kernels);
void add_convolution(DeviceKernels& kernels);
void add_pooling(DeviceKernels& kernels);
void add_batch_norm(DeviceKernels& kernels);
void add_order(DeviceKernels& kernels);
void add_lstm(DeviceKernels& kernels);
void add_sequences(DeviceKernels& kernels);
void add_shapes(DeviceKernels& kernels);
void add_layer_norm(DeviceKernels& kernels);
void add_optimizers(DeviceKernels& kernels);
void add_fills(DeviceKernels& kernels);
void add_dropout(DeviceKernels& kernels);
void add_loss_scaling(DeviceKernels& kernels);

// What a kernel does with float16 and bfloat16: where it declines them, the plan has it compute in
// float32 between casts.
enum class Halves { declined, taken };

// For the row of this type, which the op table must have.
void add_to(DeviceKernels& kernels, std::string_view type, const char* name, KernelMake make,
            Halves halves = Halves::declined);

}  // namespace trireme::cuda
