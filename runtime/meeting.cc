// Waits for the processes that a program names, once for each.
#include "runtime/meeting.h"

#include <algorithm>

#include "comm/wait_ready.h"
#include "core/flags.h"

namespace trireme {

void Meeting::wait(const std::shared_ptr<const DistributedFacts>& facts,
                   const std::function<void()>& poll) {
  if (!facts || facts->wait_for.empty()) return;
  std::lock_guard lock(mutex_);
  if (std::find(met_.begin(), met_.end(), facts) != met_.end()) return;
  const std::chrono::milliseconds limit(std::get<int64_t>(get_flag("rpc_deadline")));
  wait_server_ready(facts->wait_for, limit.count() > 0 ? limit : kNoReadyLimit, poll);
  met_.push_back(facts);
}

}  // namespace trireme
