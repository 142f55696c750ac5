// Runs of a distributed program wait for the other processes first, as its transpiler noted.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "ir/distributed.h"

namespace trireme {

class Meeting {
 public:
  // Waits for `facts->wait_for`, once for every note: a transpiler that is asked again writes a
  // new one. Error (timeout) after FLAGS_rpc_deadline, listing who cannot be reached; `poll` may
  // end the wait.
  void wait(const std::shared_ptr<const DistributedFacts>& facts,
            const std::function<void()>& poll);

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<const DistributedFacts>> met_;
};

}  // namespace trireme
