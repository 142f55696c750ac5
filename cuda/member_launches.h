// Launches of members, of which those of one kernel go to the card as one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace trireme::cuda {

class CudaQueue;
class Generated;
struct Launch;

// Between begin and end launches wait here, and small copies at any time. What one member launches
// stays in its order; members do not touch what others write, so that the n-th launches of all of
// them may run together.
class MemberLaunches {
 public:
  void begin(CudaQueue& queue);
  void next();
  void end(CudaQueue& queue);
  void forget() { gathers_ = false, waiting_.clear(), copied_.clear(); }
  // Puts what waits into the queue, for something else that comes behind it.
  void settle(CudaQueue& queue);

  bool gathers() const { return gathers_; }
  bool waits() const { return !waiting_.empty(); }
  // A copy inside the card. Copies of small tensors wait for one another, wherever they come; one
  // that touches what another writes comes behind it. False: it is too large to wait.
  bool add_copy(CudaQueue& queue, void* to, const void* from, size_t bytes);
  void add(const Launch& what, const void* const* addresses);

 private:
  struct Waiting {
    std::shared_ptr<Generated> kernel;
    int64_t blocks;
    int threads;
    std::vector<int64_t> numbers;
    std::vector<const void*> addresses;
    size_t place;  // among its member's
  };
  using Joined = std::vector<const Waiting*>;
  static void put(CudaQueue& queue, const Joined& together);

  struct Copied {
    const void *to, *from;
    size_t bytes;
  };

  bool gathers_ = false;
  size_t place_ = 0;
  std::vector<Waiting> waiting_;
  std::vector<Copied> copied_;
};

}  // namespace trireme::cuda
