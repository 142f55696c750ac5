// Kernels of the ops by which trainers talk to parameter servers.
#pragma once

#include "ir/kernel.h"

namespace trireme {

KernelFn send_kernel(const KernelSite& site);
KernelFn recv_kernel(const KernelSite& site);
KernelFn send_barrier_kernel(const KernelSite& site);
KernelFn fetch_barrier_kernel(const KernelSite& site);
KernelFn remote_lookup_kernel(const KernelSite& site);
KernelFn recv_save_kernel(const KernelSite& site);
KernelFn checkpoint_notify_kernel(const KernelSite& site);
KernelFn prefetch_kernel(const KernelSite& site);

}  // namespace trireme
