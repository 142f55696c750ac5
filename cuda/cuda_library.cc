// What the plugin exports: the visible cards, and the kernels that run on them.
#include <cuda_runtime_api.h>

#include "core/device_library.h"
#include "cuda/cuda_device.h"
#include "cuda/cuda_error.h"
#include "cuda/kernels/register.h"

namespace trireme::cuda {

void add_to(DeviceKernels& kernels, std::string_view type, const char* name, KernelMake make) {
  kernels.add(op_table().get(type), {name, std::move(make)});
}

}  // namespace trireme::cuda

extern "C" void trireme_open_devices(trireme::DeviceLibrary& library) {
  using namespace trireme::cuda;
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    library.problem = why_no_card(status);
    return;
  }
  library.count = count;
  library.device = [](int id) -> trireme::Device* { return new CudaDevice(id); };
}

extern "C" void trireme_add_kernels(trireme::DeviceKernels& kernels) {
  using namespace trireme::cuda;
  // Every run ends with a wait for all it has begun, so copies would run beside kernels of their
  // own run alone; events between queues cost more than that brings.
  kernels.facts = {.lanes = 1,
                   .alignment = 256,
                   .blocked_images = false,
                   .shared_memory = false,
                   .copy_queues = false,
                   .half = false};
  add_elementwise(kernels);
  add_fused(kernels);
  add_reductions(kernels);
  add_moves(kernels);
  add_products(kernels);
  add_softmax(kernels);
  add_losses(kernels);
  add_embedding(kernels);
  add_convolution(kernels);
  add_pooling(kernels);
  add_batch_norm(kernels);
  add_order(kernels);
  add_lstm(kernels);
  add_sequences(kernels);
  add_shapes(kernels);
  add_layer_norm(kernels);
  add_optimizers(kernels);
  add_fills(kernels);
  add_dropout(kernels);
}
