// What the plugin exports: the visible cards, and the kernels that run on them.
#include <cuda_runtime_api.h>

#include "core/device_library.h"
#include "core/text.h"
#include "cuda/cuda_device.h"
#include "cuda/cuda_error.h"
#include "cuda/kernels/register.h"

namespace trireme::cuda {

namespace {

const ValueInfo* half_operand(const KernelSite& site) {
  const auto is_half = [](const ValueInfo* info) {
    return info && (info->dtype == DType::float16 || info->dtype == DType::bfloat16);
  };
  for (size_t i = 0; i < site.in_size(); ++i) {
    if (is_half(site.in_at(i))) return site.in_at(i);
  }
  for (size_t i = 0; i < site.out_size(); ++i) {
    if (is_half(site.out_at(i))) return site.out_at(i);
  }
  return nullptr;
}

}  // namespace

void add_to(DeviceKernels& kernels, std::string_view type, const char* name, KernelMake make,
            Halves halves) {
  if (halves == Halves::declined) {
    make = [make = std::move(make)](const KernelSite& site,
                                    std::string* why_not) -> std::optional<BoundKernel> {
      if (const ValueInfo* half = half_operand(site)) {
        if (why_not) *why_not = cat("no kernel for ", name_of(half->dtype));
        return std::nullopt;
      }
      return make(site, why_not);
    };
  }
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
                   .half_tiles = true,
                   .channel_last = true};
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
  add_loss_scaling(kernels);
}
