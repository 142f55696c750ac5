// One NVIDIA GPU as a Device: memory from CUDA's pool, streams, events and graphs.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#ifdef TRIREME_HAVE_CUDNN
#include <cudnn.h>
#endif

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "core/device.h"
#include "cuda/faults.h"
#include "cuda/member_launches.h"

namespace trireme::cuda {

class CudaDevice;

class CudaQueue : public Queue {
 public:
  explicit CudaQueue(CudaDevice& device);
  ~CudaQueue() override;
  // Made when the first matrix product of the queue is bound to it. It has a workspace of its own,
  // so that what it computes does not depend on other queues and may be captured.
  cublasHandle_t blas();
#ifdef TRIREME_HAVE_CUDNN
  cudnnHandle_t dnn();
#endif
  // For whatever is put there by other means than launch(): what waits to be joined goes first.
  cudaStream_t in_order();
  void begin_members() override { members.begin(*this); }
  void next_member() override { members.next(); }
  void end_members() override { members.end(*this); }

  CudaDevice& device;
  cudaStream_t stream = nullptr;
  MemberLaunches members;
  FaultWord* fault = nullptr;  // kernels write it, the host reads it after a wait

 private:
  cublasHandle_t blas_ = nullptr;
  void* workspace_ = nullptr;
#ifdef TRIREME_HAVE_CUDNN
  cudnnHandle_t dnn_ = nullptr;
#endif
};

class CudaEvent : public Event {
 public:
  CudaEvent();
  ~CudaEvent() override;
  cudaEvent_t event = nullptr;
};

class CudaDevice : public Device {
 public:
  explicit CudaDevice(int id);

  Place place() const override { return cuda_place(id_); }
  std::string describe() const override { return name_; }
  void* allocate(size_t bytes, MemoryKind kind) override;
  void release(void* memory, MemoryKind kind) noexcept override;
  std::unique_ptr<Queue> make_queue(QueueKind kind) override;
  std::unique_ptr<Event> make_event() override;
  void copy(Queue& queue, void* to, const void* from, size_t bytes) override;
  void record(Queue& queue, Event& event) override;
  void wait(Queue& queue, Event& event) override;
  bool done(const Event& event) override;
  void synchronize(const Event& event) override;
  void synchronize(Queue& queue) override;
  std::unique_ptr<Captured> capture(Queue& queue, const std::function<void()>& work) override;

  int id() const { return id_; }
  // Every thread that talks to CUDA says to which card.
  void use() const;
  // Whether the address is in memory that it has given.
  bool holds(const void* address) const;

 private:
  int id_;
  std::string name_;
  cudaStream_t memory_ = nullptr;  // where allocations are ordered
  mutable std::mutex mutex_;
  std::map<uintptr_t, size_t> given_;  // device memory, by where it begins
};

}  // namespace trireme::cuda
