// How messages get to a parameter server and answers back. gRPC does it; its adaptor alone knows.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "ps/message.h"

namespace trireme {

// A trainer's way to one server. Not for two threads at once, but for stay() and tell().
class PsChannel {
 public:
  virtual ~PsChannel() = default;
  // Answers come in the order of what was sent, and are taken by receive(). False: the server
  // cannot be reached, `why` says how that showed, and what has no answer yet gets none: it may be
  // sent again.
  virtual bool send(const PsMessage& request, std::string* why) = 0;
  // Uses the memory that `answer` has where it fits.
  virtual bool receive(PsMessage& answer, std::string* why) = 0;
  // What has no answer yet gets none.
  virtual void drop() = 0;
  // Beside the others' order, within a limit.
  virtual bool tell(const PsMessage& request, std::chrono::milliseconds limit,
                    std::string* why) = 0;
  // Lets the server know that this process lives, from now to the channel's end. `again` is called
  // in a thread of the channel's, when the connection has broken and before it is made again.
  virtual void stay(int trainer, uint64_t incarnation, std::function<void()> again) = 0;
};

struct PsHandler {
  // In a thread of the listener; may wait. One trainer's requests come one after another.
  std::function<PsMessage(PsMessage request)> answer;
  std::function<void(int trainer, uint64_t incarnation)> alive;
  std::function<void(int trainer, uint64_t incarnation)> gone;  // its stay has ended
};

// A server's ear: open until destroyed.
class PsListener {
 public:
  virtual ~PsListener() = default;
};

std::unique_ptr<PsChannel> make_ps_channel(const std::string& endpoint);
std::unique_ptr<PsListener> make_ps_listener(const std::string& endpoint, PsHandler handler);

}  // namespace trireme
