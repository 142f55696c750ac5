// A trainer's calls: one channel for each server, numbered so that a repeated one counts once.
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "core/flags.h"
#include "core/text.h"
#include "core/warning.h"
#include "ops/remote/remote_calls.h"
#include "ps/gather.h"
#include "ps/geo.h"
#include "ps/sent.h"
#include "ps/transport.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
using MessageKind = PsMessage::Kind;

// A server that has answered before and cannot be reached for so long is taken for dead.
constexpr std::chrono::seconds kServerGone{3};
// A broken connection is made again at once; after so long there are pauses, and they grow.
constexpr std::chrono::milliseconds kFirstTries{20}, kPause{50}, kLongestPause{500};
constexpr size_t kAtOnce = 64;  // requests without an answer
constexpr std::chrono::milliseconds kLeaveLimit{2000};
constexpr size_t kMostSaid = 2000;  // bytes of a failure

std::chrono::milliseconds call_limit() {
  return std::chrono::milliseconds(std::get<int64_t>(get_flag("rpc_deadline")));
}

std::chrono::seconds return_limit() {
  return std::chrono::seconds(std::get<int64_t>(get_flag("server_return_limit")));
}

// Throws a share of answers away, as a broken connection does: the request is sent again.
class Drops {
 public:
  Drops() {
    const auto said = std::get<std::string>(get_flag("drop_answers"));
    if (said.empty()) return;
    const size_t comma = said.find(',');
    try {
      share_ = std::stod(said.substr(0, comma));
      if (comma != said.npos) draw_.seed(std::stoul(said.substr(comma + 1)));
    } catch (const std::logic_error&) {
      throw Error(cat("FLAGS_drop_answers is ", said)).fix("give a share and a seed, as 0.2,7");
    }
  }
  bool operator()() {
    if (share_ <= 0) return false;
    const std::lock_guard lock(mutex_);
    return std::uniform_real_distribution<>()(draw_) < share_;
  }

 private:
  std::mutex mutex_;
  double share_ = 0;
  std::mt19937_64 draw_{1};
};

MessageKind kind_of(ServerAsk::What what) {
  switch (what) {
    case ServerAsk::What::push:
      return MessageKind::push;
    case ServerAsk::What::notify:
      return MessageKind::notify;
    case ServerAsk::What::get:
      return MessageKind::get;
    case ServerAsk::What::read:
      return MessageKind::read;
    case ServerAsk::What::lookup:
      return MessageKind::lookup;
    case ServerAsk::What::sent_all:
      return MessageKind::send_barrier;
    case ServerAsk::What::got_all:
      return MessageKind::fetch_barrier;
    case ServerAsk::What::save:
      break;
  }
  return MessageKind::save;
}

std::string name_of(const ServerAsk& ask) {
  if (ask.what == ServerAsk::What::sent_all) return "the end of what is sent";
  if (ask.what == ServerAsk::What::got_all) return "the end of what is received";
  return *ask.name;
}

// Where the answer was read into the memory of `to`, all is there but its LoD.
void keep_answer(Variable& answer, Variable& to) {
  const bool there = answer.kind() == Kind::dense && to.kind() == Kind::dense &&
                     answer.tensor().address() == to.tensor().address() &&
                     answer.tensor().shape() == to.tensor().shape();
  if (!there) return to.copy_from(answer);
  to.tensor().set_lod(answer.tensor().lod());
}

struct Peer {
  std::mutex mutex;  // of one ask() at a time
  Sent done;         // what it would have to be told again; the channel's thread uses it
  std::unique_ptr<PsChannel> channel;
  uint64_t sequence = 0, after = 0, last_answered = 0;  // of requests that change the server
  std::atomic<bool> met = false;
  bool in_doubt = false;         // the connection has broken since: is it the process that it was?
  std::vector<PsMessage> asked;  // of this ask(): requests,
  std::vector<ServerAsk*> asks;  // ... what they came from,
  size_t sent = 0, answered = 0;
  Clock::time_point broken{};  // since when it cannot be reached
  std::chrono::milliseconds pause = kPause;
};

using Peers = std::map<std::string, std::shared_ptr<Peer>>;  // in one order everywhere: no deadlock

class PsClient final : public ServerCalls {
 public:
  void be(int trainer) override { trainer_ = trainer; }

  void ask(std::span<ServerAsk> asks) override {
    if (gather_.hold(asks)) return;
    Gather::Round round = gather_.begin(asks);
    bool answered = false;
    try {
      if (!round.asks.empty()) ask_now(round.asks);
      answered = true;
    } catch (...) {
      gather_.end(round, answered);
      throw;
    }
    gather_.end(round, answered);
  }

  void ask_now(std::span<ServerAsk> asks) {
    Peers peers;
    for (const ServerAsk& each : asks) {
      if (!peers.contains(*each.endpoint)) peers[*each.endpoint] = peer_at(*each.endpoint);
    }
    std::vector<std::unique_lock<std::mutex>> locks;
    for (const auto& [endpoint, peer] : peers) {
      locks.emplace_back(peer->mutex);
      peer->asked.clear();
      peer->asks.clear();
      peer->sent = peer->answered = 0;
      peer->broken = {};
      peer->pause = kPause;
    }
    for (ServerAsk& each : asks) {
      Peer& peer = *peers.at(*each.endpoint);
      peer.asked.push_back(request(peer, each));
      peer.asks.push_back(&each);
    }
    try {
      exchange(peers);
    } catch (...) {  // answers that are on their way are nobody's
      for (const auto& [endpoint, peer] : peers) {
        peer->channel->drop();
        peer->after = peer->last_answered;
      }
      throw;
    }
    for (const auto& [endpoint, peer] : peers) peer->asked.clear();
  }

  void leave(const std::string& failure) noexcept override {
    try {
      if (failure.empty()) ask({});  // what still waits for a barrier
    } catch (const std::exception& error) {
      warn(cat("the last of a step could not be sent: ", error.what()));
    }
    Peers peers;
    {
      const std::lock_guard lock(mutex_);
      peers.swap(peers_);
    }
    for (const auto& [endpoint, peer] : peers) {
      if (!peer->met) continue;
      try {
        PsMessage bye;
        bye.kind = MessageKind::leave;
        bye.trainer = trainer_;
        bye.incarnation = incarnation_;
        bye.name = "leaving";
        bye.error = failure.substr(0, kMostSaid);
        say_goodbye(*peer, bye);
      } catch (const std::exception& error) {
        warn(cat("leaving ", endpoint, ": ", error.what()));
      }
    }
    ++incarnation_;
  }

  void start_geo(const GeoSettings& settings) override { geo_ = std::make_unique<Geo>(settings); }
  bool is_geo() const override { return geo_ != nullptr; }
  void geo_begin(Scope& scope) override { geo_->begin(*this, scope); }
  void geo_step(Scope& scope) override { geo_->step(*this, scope); }
  void stop_geo(Scope* scope) override {
    if (geo_ && scope) geo_->flush(*this, *scope);
    geo_.reset();
  }

 private:
  // One that cannot be reached has ended already, and nobody is left to tell; unless it is one that
  // comes again.
  static void say_goodbye(Peer& peer, const PsMessage& bye) {
    const Clock::time_point late = Clock::now() + return_limit();
    std::string why;
    while (!peer.channel->tell(bye, kLeaveLimit, &why)) {
      if (!peer.done.server_keeps() || Clock::now() >= late) return;
      std::this_thread::sleep_for(kLongestPause);
      peer.done.tell_again(bye.trainer, bye.incarnation, &why);
    }
  }

  std::shared_ptr<Peer> peer_at(const std::string& endpoint) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Peer>& peer = peers_[endpoint];
    if (!peer) {
      peer = std::make_shared<Peer>();
      peer->channel = make_ps_channel(endpoint);
      peer->done.be_at(endpoint);
    }
    return peer;
  }

  PsMessage request(Peer& peer, const ServerAsk& ask) const {
    PsMessage made;
    made.kind = kind_of(ask.what);
    made.trainer = trainer_;
    made.incarnation = incarnation_;
    made.after = peer.after;
    if (changes_server(made.kind)) peer.after = made.sequence = ++peer.sequence;
    made.name = name_of(ask);
    made.path = ask.path;
    made.value = ask.value;
    return made;
  }

  // What all were sent first, they work on at the same time.
  void exchange(const Peers& peers) {
    for (bool left = true; left;) {
      left = false;
      // Whom to tell again may wait for others, which may wait for what goes to the rest.
      for (const auto& [endpoint, peer] : peers) {
        if (!peer->in_doubt) send_some(endpoint, *peer);
      }
      for (const auto& [endpoint, peer] : peers) {
        if (peer->in_doubt && still_there(endpoint, *peer)) send_some(endpoint, *peer);
      }
      for (const auto& [endpoint, peer] : peers) {
        receive_sent(endpoint, *peer);
        left = left || peer->answered < peer->asked.size();
      }
    }
  }

  bool still_there(const std::string& endpoint, Peer& peer) {
    std::string why;
    if (peer.done.server_keeps() && !peer.done.tell_again(trainer_, incarnation_, &why)) {
      come_again(endpoint, peer, why);
      return false;
    }
    peer.in_doubt = false;
    return true;
  }

  // Few at a time: a server that cannot get rid of its answers takes no more requests.
  void send_some(const std::string& endpoint, Peer& peer) {
    const size_t to = std::min(peer.asked.size(), peer.answered + kAtOnce);
    for (std::string why; peer.sent < to; ++peer.sent) {
      if (!peer.channel->send(peer.asked[peer.sent], &why)) return come_again(endpoint, peer, why);
    }
  }

  void receive_sent(const std::string& endpoint, Peer& peer) {
    while (peer.answered < peer.sent) {
      std::string why;
      ServerAsk& ask = *peer.asks[peer.answered];
      PsMessage answer;
      if (ask.into && ask.into->kind() == Kind::dense) answer.value = *ask.into;
      // No limit: a server that lives answers, and the connection notices one that does not.
      if (!peer.channel->receive(answer, &why)) return come_again(endpoint, peer, why);
      meet(peer);
      if (drops_()) {
        peer.channel->drop();
        return come_again(endpoint, peer, "its answer was thrown away (FLAGS_drop_answers)");
      }
      peer.broken = {};
      peer.pause = kPause;
      peer.last_answered = std::max(peer.last_answered, peer.asked[peer.answered].sequence);
      peer.done.take(peer.asked[peer.answered], answer);
      if (ask.into) keep_answer(answer.value, *ask.into);
      ++peer.answered;
    }
  }

  void meet(Peer& peer) {
    if (peer.met) return;
    peer.channel->stay(trainer_, incarnation_,
                       [sent = &peer.done, trainer = trainer_.load(), own = incarnation_.load()] {
                         std::string why;
                         try {  // where it cannot be, those who ask are told why
                           if (sent->server_keeps()) sent->tell_again(trainer, own, &why);
                         } catch (const std::exception&) {
                         }
                       });
    peer.met = true;
  }

  // What has no answer is sent again, unless it was tried for long.
  void come_again(const std::string& endpoint, Peer& peer, const std::string& why) {
    peer.sent = peer.answered;
    peer.in_doubt = true;
    const std::chrono::milliseconds limit =
        peer.done.server_keeps() ? std::chrono::milliseconds(return_limit()) : call_limit();
    const Clock::time_point now = Clock::now();
    if (peer.broken == Clock::time_point{}) peer.broken = now;
    const auto tried = now - peer.broken;
    const bool gone = peer.met && !peer.done.server_keeps() && tried > kServerGone;
    if (gone || (limit.count() > 0 && tried > limit)) {
      throw Error(
          ErrorKind::unavailable,
          cat("server ", endpoint, " cannot be reached for ", peer.asked[peer.answered].name,
              ", tried for ", std::chrono::duration_cast<std::chrono::milliseconds>(tried).count(),
              " ms: ", why))
          .fix("see why that process ended, and start the job again");
    }
    if (tried <= kFirstTries) return;
    std::this_thread::sleep_for(peer.pause);
    peer.pause = std::min(peer.pause * 2, kLongestPause);
  }

  std::mutex mutex_;  // of peers_
  std::atomic<int> trainer_ = 0;
  // A later process of the same trainer has a larger one.
  std::atomic<uint64_t> incarnation_ =
      static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  Drops drops_;
  Gather gather_;
  Peers peers_;
  std::unique_ptr<Geo> geo_;  // where this process is a geo trainer
};

}  // namespace

// Never destroyed: at the process's end gRPC's threads may be gone already.
ServerCalls& server_calls() {
  static auto* const calls = new PsClient;
  return *calls;
}

}  // namespace trireme
