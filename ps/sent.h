// What a trainer has sent to one server and would have to send again, should that have died.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "ps/transport.h"

namespace trireme {

// A server with snapshots says in every answer which of the asker's requests the last one holds.
// What came later and was answered is kept here. A server that starts again from its snapshot is
// told it again, by every trainer in a thread of its own: none has to ask for something first, so
// that a step which needs several of them goes on whatever they are doing.
class Sent {
 public:
  void be_at(const std::string& endpoint) { endpoint_ = endpoint; }
  bool server_keeps() const { return server_keeps_; }
  // `request` has been answered.
  void take(const PsMessage& request, const PsMessage& answer);
  // True: the server has all that it has ever answered. May wait for other trainers. False: it
  // cannot be reached. An Error is the server's.
  bool tell_again(int trainer, uint64_t incarnation, std::string* why);

 private:
  void forget(uint64_t kept);

  std::string endpoint_;
  std::atomic<bool> server_keeps_ = false;
  std::mutex mutex_;
  std::deque<PsMessage> requests_, spare_;  // the memory of those that are in a snapshot
  std::unique_ptr<PsChannel> channel_;      // beside the one for asking
};

}  // namespace trireme
