// Memory, streams, events and graphs of one GPU.
#include "cuda/cuda_device.h"

#include <iterator>

#include "core/error.h"
#include "core/text.h"
#include "cuda/cuda_error.h"

namespace trireme::cuda {
namespace {

// cuBLAS's own advice for this generation of cards.
constexpr size_t kBlasWorkspace = size_t{32} << 20;
CudaQueue& own(Queue& queue) { return static_cast<CudaQueue&>(queue); }

class CudaCaptured : public Captured {
 public:
  CudaCaptured(CudaDevice& device, cudaGraph_t graph) : device_(device) {
    const cudaError_t made = cudaGraphInstantiate(&run_, graph, 0);
    cudaGraphDestroy(graph);
    check(made, "cudaGraphInstantiate");
  }
  ~CudaCaptured() override { cudaGraphExecDestroy(run_); }
  void replay(Queue& queue) override {
    device_.use();
    check(cudaGraphLaunch(run_, own(queue).in_order()), "cudaGraphLaunch");
  }

 private:
  CudaDevice& device_;
  cudaGraphExec_t run_ = nullptr;
};

}  // namespace

CudaQueue::CudaQueue(CudaDevice& device) : device(device) {
  device.use();
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  void* word = nullptr;
  check(cudaHostAlloc(&word, sizeof(FaultWord), cudaHostAllocMapped), "cudaHostAlloc");
  fault = new (word) FaultWord;
}

CudaQueue::~CudaQueue() {
  cudaFreeHost(fault);
  if (blas_) cublasDestroy(blas_);
#ifdef TRIREME_HAVE_CUDNN
  if (dnn_) cudnnDestroy(dnn_);
#endif
  if (workspace_) cudaFree(workspace_);
  cudaStreamDestroy(stream);
}

cudaStream_t CudaQueue::in_order() {
  members.settle(*this);
  return stream;
}

cublasHandle_t CudaQueue::blas() {
  members.settle(*this);
  if (blas_) return blas_;
  device.use();
  check(cublasCreate(&blas_), "cublasCreate");
  check(cudaMalloc(&workspace_, kBlasWorkspace), "cudaMalloc");
  check(cublasSetStream(blas_, stream), "cublasSetStream");
  check(cublasSetWorkspace(blas_, workspace_, kBlasWorkspace), "cublasSetWorkspace");
  return blas_;
}

#ifdef TRIREME_HAVE_CUDNN
cudnnHandle_t CudaQueue::dnn() {
  members.settle(*this);
  if (dnn_) return dnn_;
  device.use();
  check(cudnnCreate(&dnn_), "cudnnCreate");
  check(cudnnSetStream(dnn_, stream), "cudnnSetStream");
  return dnn_;
}
#endif

CudaEvent::CudaEvent() {
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

CudaEvent::~CudaEvent() { cudaEventDestroy(event); }

CudaDevice::CudaDevice(int id) : id_(id) {
  use();
  cudaDeviceProp facts{};
  check(cudaGetDeviceProperties(&facts, id), "cudaGetDeviceProperties");
  name_ = facts.name;
  check(cudaStreamCreateWithFlags(&memory_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  cudaMemPool_t pool = nullptr;
  check(cudaDeviceGetDefaultMemPool(&pool, id), "cudaDeviceGetDefaultMemPool");
  uint64_t keep = UINT64_MAX;  // what was freed stays for the next allocation
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep),
        "cudaMemPoolSetAttribute");
}

void CudaDevice::use() const { check(cudaSetDevice(id_), "cudaSetDevice"); }

// Whoever gets the memory may use it on any queue at once, so the pool's stream is waited for.
void* CudaDevice::allocate(size_t bytes, MemoryKind kind) {
  use();
  const size_t wanted = bytes == 0 ? 1 : bytes;
  void* memory = nullptr;
  if (kind == MemoryKind::pinned) {
    check(cudaHostAlloc(&memory, wanted, cudaHostAllocPortable), "cudaHostAlloc");
    return memory;
  }
  const cudaError_t status = cudaMallocAsync(&memory, wanted, memory_);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    size_t free = 0, total = 0;
    (void)cudaMemGetInfo(&free, &total);
    throw Error(ErrorKind::resource_exhausted,
                cat("no memory left on ", to_string(place()), " (", name_, ") for ", bytes,
                    " bytes; ", total - free, " of ", total, " are in use"))
        .fix("use a smaller batch");
  }
  check(status, "cudaMallocAsync");
  check(cudaStreamSynchronize(memory_), "cudaStreamSynchronize");
  const std::lock_guard lock(mutex_);
  given_[reinterpret_cast<uintptr_t>(memory)] = wanted;
  return memory;
}

bool CudaDevice::holds(const void* address) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  const auto behind = given_.upper_bound(at);
  if (behind == given_.begin()) return false;
  const auto& [begin, size] = *std::prev(behind);
  return at - begin < size;
}

// Work of any queue may still read it: the card is waited for. Plans free no memory in a steady
// step, so nobody waits there.
void CudaDevice::release(void* memory, MemoryKind kind) noexcept {
  if (cudaSetDevice(id_) != cudaSuccess) return;  // the driver is gone at the end of the process
  if (kind == MemoryKind::pinned) {
    cudaFreeHost(memory);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    given_.erase(reinterpret_cast<uintptr_t>(memory));
  }
  cudaDeviceSynchronize();
  cudaFreeAsync(memory, memory_);
}

std::unique_ptr<Queue> CudaDevice::make_queue(QueueKind) {
  return std::make_unique<CudaQueue>(*this);
}

std::unique_ptr<Event> CudaDevice::make_event() {
  use();
  return std::make_unique<CudaEvent>();
}

void CudaDevice::copy(Queue& queue, void* to, const void* from, size_t bytes) {
  use();
  if (own(queue).members.add_copy(own(queue), to, from, bytes)) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, own(queue).in_order()),
        "cudaMemcpyAsync");
}

void CudaDevice::record(Queue& queue, Event& event) {
  use();
  check(cudaEventRecord(static_cast<CudaEvent&>(event).event, own(queue).in_order()),
        "cudaEventRecord");
}

void CudaDevice::wait(Queue& queue, Event& event) {
  use();
  check(cudaStreamWaitEvent(own(queue).in_order(), static_cast<CudaEvent&>(event).event, 0),
        "cudaStreamWaitEvent");
}

bool CudaDevice::done(const Event& event) {
  use();
  const cudaError_t status = cudaEventQuery(static_cast<const CudaEvent&>(event).event);
  if (status == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  check(status, "cudaEventQuery");
  return true;
}

void CudaDevice::synchronize(const Event& event) {
  use();
  check(cudaEventSynchronize(static_cast<const CudaEvent&>(event).event), "cudaEventSynchronize");
}

void CudaDevice::synchronize(Queue& queue) {
  use();
  check(cudaStreamSynchronize(own(queue).in_order()), "cudaStreamSynchronize");
  tell_fault(*own(queue).fault);
}

std::unique_ptr<Captured> CudaDevice::capture(Queue& queue, const std::function<void()>& work) {
  use();
  const cudaStream_t stream = own(queue).in_order();
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    work();
    own(queue).in_order();
  } catch (...) {
    own(queue).members.forget();
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess && graph) cudaGraphDestroy(graph);
    (void)cudaGetLastError();
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  return std::make_unique<CudaCaptured>(*this, graph);
}

}  // namespace trireme::cuda
