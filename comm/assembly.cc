// Meeting over the given endpoints, and a thread that keeps each other informed.
#include "comm/assembly.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "comm/token.h"
#include "core/endpoints.h"
#include "core/error.h"
#include "core/flags.h"
#include "core/random.h"
#include "core/text.h"

namespace trireme {
namespace {

using Millis = std::chrono::milliseconds;

enum FrameKind : uint8_t {
  hello,
  challenge,
  proof,
  refusal,
  text,
  texts,
  where,
  table,
  failed,
  bye,
  ask
};

constexpr const char* kProtocol = "trireme assembly 1";
constexpr Millis kBeatEvery{1000}, kFastBeat{10};  // fast: someone wants to leave
constexpr Millis kTry{200};                        // pause between calls
constexpr Millis kGreetLimit{5000};                // one that has been called answers within
constexpr Millis kLeaveLimit{3000};
constexpr size_t kMostSaid = 2000;  // bytes of a failure

std::mutex& all_mutex() {
  static auto* const mutex = new std::mutex;  // members may be destroyed at the process's end
  return *mutex;
}
std::set<Assembly*>& all_assemblies() {
  static auto* const all = new std::set<Assembly*>;
  return *all;
}

Millis heart_limit() {
  return std::chrono::seconds(std::get<int64_t>(get_flag("heartbeat_limit")));
}

std::string nonce() { return cat(fresh_seed(), "-", fresh_seed()); }

double seconds_of(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

Assembly::Assembly(AssemblyOptions options)
    : options_(std::move(options)), process_(getpid()), members_(options_.endpoints.size()) {
  check_endpoints(options_.endpoints, {"a group of processes", "endpoints"});
  check_plaintext(options_.endpoints);
  promise(rank() >= 0 && rank() < size(), "a rank of the group");
  const Clock::time_point end = Clock::now() + options_.limit;
  rank() == 0 ? call_all(end) : be_called(end);
  const std::lock_guard lock(all_mutex());
  all_assemblies().insert(this);
}

Assembly::~Assembly() {
  leave();
  {
    const std::lock_guard lock(all_mutex());
    all_assemblies().erase(this);
  }
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  if (process_ != getpid()) {
    if (watcher_.joinable()) watcher_.detach();  // it is the parent's
    return;
  }
  if (wake_ >= 0) eventfd_write(wake_, 1);
  if (watcher_.joinable()) watcher_.join();
  if (wake_ >= 0) close(wake_);
}

std::string Assembly::facts() const {
  return pack_texts({options_.purpose, join(options_.endpoints, ",")});
}

// ---- meeting

void Assembly::call_all(Clock::time_point end) {
  to_others_.resize(static_cast<size_t>(size() - 1));
  while (true) {
    std::vector<std::string> missing;
    for (int other = 1; other < size(); ++other) {
      Connection& to = to_others_[static_cast<size_t>(other - 1)];
      if (!to.open()) to = greet(other, end);
      if (!to.open()) {
        missing.push_back(cat(other, " (", options_.endpoints[static_cast<size_t>(other)], ")"));
      }
    }
    if (missing.empty()) return;
    if (Clock::now() >= end) {
      const std::string why =
          cat(options_.purpose, ": after ", static_cast<double>(options_.limit.count()) / 1000,
              " s these ranks have not come: ", join(missing));
      for (Connection& to : to_others_) to.send(failed, why);
      throw Error(ErrorKind::timeout, why)
          .fix("start the processes of all ranks; FLAGS_rpc_deadline says how long they may take");
    }
    if (options_.poll) options_.poll();
    std::this_thread::sleep_for(std::min<Clock::duration>(kTry, end - Clock::now()));
  }
}

// Both prove that they know the job's token, each with a number that the other has chosen.
Connection Assembly::greet(int other, Clock::time_point end) {
  Connection to = connect_to(options_.endpoints[static_cast<size_t>(other)], kTry);
  const Clock::time_point soon = std::min(end, Clock::now() + kGreetLimit);
  const std::string mine = nonce();
  const std::string of = std::to_string(other);
  if (!to.open() || !to.send(hello, pack_texts({kProtocol, mine, of, facts()}))) return {};
  const auto refuse = [](const std::string& why) {
    throw Error(ErrorKind::precondition, why).fix("start all ranks with the same arguments");
  };
  const auto theirs = to.receive(soon);
  if (theirs && theirs->kind == refusal) refuse(theirs->bytes);
  if (!theirs || theirs->kind != challenge) return {};
  const auto parts = unpack_texts(theirs->bytes);
  if (!parts || parts->size() != 2) return {};
  const std::string& number = (*parts)[0];
  if ((*parts)[1] != token_proof(cat("called ", of, mine, number))) {
    refuse(cat("rank ", other, " was started with another FLAGS_job_token"));
  }
  if (!to.send(proof, token_proof(cat("caller ", of, number, mine)))) return {};
  const auto last = to.receive(soon);
  if (last && last->kind == refusal) refuse(last->bytes);
  return last && last->kind == proof ? std::move(to) : Connection();
}

void Assembly::be_called(Clock::time_point end) {
  Ear ear(options_.endpoints[static_cast<size_t>(rank())]);
  to_others_.resize(1);
  while (Clock::now() < end) {
    Connection caller = ear.accept(kTry);
    if (options_.poll) options_.poll();
    if (!caller.open() || !welcome(caller, end)) continue;  // one that only looks who listens
    to_others_[0] = std::move(caller);
    return;
  }
  throw Error(ErrorKind::timeout, cat(options_.purpose, ": rank 0 has not called ",
                                      options_.endpoints[static_cast<size_t>(rank())], " in ",
                                      static_cast<double>(options_.limit.count()) / 1000, " s"))
      .fix("start the process of rank 0; FLAGS_rpc_deadline says how long it may take");
}

bool Assembly::welcome(Connection& caller, Clock::time_point end) {
  const Clock::time_point soon = std::min(end, Clock::now() + kGreetLimit);
  const auto said = caller.receive(soon);
  const auto parts = said && said->kind == hello ? unpack_texts(said->bytes) : std::nullopt;
  if (!parts || parts->size() != 4 || (*parts)[0] != kProtocol) return false;
  const std::string &theirs = (*parts)[1], &called = (*parts)[2], mine = nonce();
  const std::string own = std::to_string(rank());
  if (!caller.send(challenge,
                   pack_texts({mine, token_proof(cat("called ", called, theirs, mine))}))) {
    return false;
  }
  const auto proved = caller.receive(soon);
  if (!proved || proved->kind != proof) return false;
  if (proved->bytes != token_proof(cat("caller ", called, mine, theirs))) {
    caller.send(refusal, cat("rank ", rank(), " was started with another FLAGS_job_token"));
    return false;
  }
  if (called != own || (*parts)[3] != facts()) {
    const auto given = unpack_texts((*parts)[3]);
    const auto shown = [](const std::vector<std::string>& of) {
      return of.size() == 2 ? cat(of[0], " of ", of[1]) : std::string("something else");
    };
    const std::string why =
        cat("rank ", rank(), " was started for rank ", rank(), ", ",
            shown({options_.purpose, join(options_.endpoints, ",")}), "; rank 0 calls it as rank ",
            called, ", ", given ? shown(*given) : "something else");
    caller.send(refusal, why);
    throw Error(ErrorKind::precondition, why).fix("start all ranks with the same arguments");
  }
  return caller.send(proof, "");
}

std::vector<std::string> Assembly::exchange(const std::string& mine) {
  const Clock::time_point end = Clock::now() + options_.limit;
  const auto lost = [&](int other) -> Error {
    return Error(ErrorKind::unavailable,
                 cat(options_.purpose, ": rank ", other, " is lost: it ended while the ranks met"))
        .fix("see why that process ended");
  };
  std::vector<std::string> all(static_cast<size_t>(size()));
  all[static_cast<size_t>(rank())] = mine;
  if (rank() != 0) {
    const auto given = to_others_[0].send(text, mine) ? to_others_[0].receive(end) : std::nullopt;
    if (given && given->kind == failed) throw Error(ErrorKind::unavailable, given->bytes);
    const auto unpacked = given && given->kind == texts ? unpack_texts(given->bytes) : std::nullopt;
    if (!unpacked || unpacked->size() != all.size()) throw lost(0);
    return *unpacked;
  }
  for (int other = 1; other < size(); ++other) {
    const auto given = to_others_[static_cast<size_t>(other - 1)].receive(end);
    if (!given || given->kind != text) throw lost(other);
    all[static_cast<size_t>(other)] = given->bytes;
  }
  for (int other = 1; other < size(); ++other) {
    if (!to_others_[static_cast<size_t>(other - 1)].send(texts, pack_texts(all))) throw lost(other);
  }
  return all;
}

// ---- while they live

void Assembly::watch() {
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  for (Member& member : members_) member.seen = Clock::now();
  watcher_ = std::thread([this] { run(); });
}

void Assembly::begin(uint64_t number, const std::string& what) {
  const std::lock_guard lock(mutex_);
  Member& mine = members_[static_cast<size_t>(rank())];
  mine.begun = number;
  mine.what = what;
}

void Assembly::end(uint64_t number) {
  const std::lock_guard lock(mutex_);
  members_[static_cast<size_t>(rank())].ended = number;
}

std::vector<Assembly::Member> Assembly::members() const {
  const std::lock_guard lock(mutex_);
  return members_;
}

std::string Assembly::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool Assembly::someone_left() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(members_, [](const Member& member) { return member.left; });
}

void Assembly::fail(const std::string& why) noexcept {
  if (process_ != getpid()) return;
  {
    const std::lock_guard lock(mutex_);
    note_failure(why.substr(0, kMostSaid));
  }
  if (wake_ >= 0) eventfd_write(wake_, 1);
}

void Assembly::note_failure(const std::string& why) {
  if (failure_.empty()) failure_ = why.empty() ? "it was ended" : why;
  changed_.notify_all();
}

void Assembly::leave() noexcept {
  if (process_ != getpid() || !watcher_.joinable()) return;
  std::unique_lock lock(mutex_);
  if (leaving_) return;
  Member& mine = members_[static_cast<size_t>(rank())];
  const auto others_are_done = [&] {
    // Rank 0 has part in all that is exchanged, and goes when the others have ended it.
    return !failure_.empty() || members_[0].left ||
           std::ranges::all_of(members_, [&](const Member& member) {
             return member.left || member.ended >= mine.ended;
           });
  };
  asks_ = true;
  eventfd_write(wake_, 1);
  changed_.wait_for(lock, kLeaveLimit, others_are_done);
  leaving_ = mine.left = true;
  lock.unlock();
  eventfd_write(wake_, 1);
}

std::string Assembly::table_text() const {
  std::vector<std::string> rows;
  for (const Member& member : members_) {
    rows.push_back(std::to_string(member.begun));
    rows.push_back(std::to_string(member.ended));
    rows.push_back(member.left ? "left" : "");
    rows.push_back(member.what);
  }
  return pack_texts(rows);
}

void Assembly::take_table(const std::string& bytes) {
  const auto rows = unpack_texts(bytes);
  if (!rows || rows->size() != 4 * members_.size()) return;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (static_cast<int>(i) == rank()) continue;
    Member& member = members_[i];
    member.begun = std::strtoull((*rows)[4 * i].c_str(), nullptr, 10);
    member.ended = std::strtoull((*rows)[4 * i + 1].c_str(), nullptr, 10);
    member.left = member.left || !(*rows)[4 * i + 2].empty();
    member.what = (*rows)[4 * i + 3];
  }
  changed_.notify_all();
}

void Assembly::lose(int lost, const std::string& how) {
  to_others_[static_cast<size_t>(rank() == 0 ? lost - 1 : 0)].close();
  if (members_[static_cast<size_t>(lost)].left) return;
  note_failure(cat("rank ", lost, " is lost: ", how));
}

// The caller holds the mutex.
void Assembly::hear(size_t number, const FrameMessage& message) {
  const int from = rank_of(number);
  Member& member = members_[static_cast<size_t>(from)];
  member.seen = Clock::now();
  switch (message.kind) {
    case where: {
      const auto said = unpack_texts(message.bytes);
      if (!said || said->size() != 3) return;
      member.begun = std::strtoull((*said)[0].c_str(), nullptr, 10);
      member.ended = std::strtoull((*said)[1].c_str(), nullptr, 10);
      member.what = (*said)[2];
      changed_.notify_all();
      return;
    }
    case table:
      return take_table(message.bytes);
    case failed:
      return note_failure(message.bytes.substr(0, kMostSaid));
    case bye:
      member.left = true;
      changed_.notify_all();
      [[fallthrough]];
    case ask:
      if (rank() == 0 && Clock::now() >= asked_until_) asks_ = true;  // it asks all of them
      asked_until_ = Clock::now() + kLeaveLimit;
      return say_where();
    default:
      return;
  }
}

// The caller holds the mutex. Messages are short: they go into the socket's own memory.
void Assembly::say_where() {
  const Member& mine = members_[static_cast<size_t>(rank())];
  for (Connection& to : to_others_) {
    if (!to.open()) continue;
    rank() == 0
        ? to.send(table, table_text())
        : to.send(where,
                  pack_texts({std::to_string(mine.begun), std::to_string(mine.ended), mine.what}));
  }
}

void Assembly::run() {
  Clock::time_point next_beat = Clock::now();
  while (true) {
    std::vector<pollfd> waiting{{.fd = wake_, .events = POLLIN, .revents = 0}};
    for (const Connection& to : to_others_) {
      waiting.push_back({.fd = to.socket(), .events = POLLIN, .revents = 0});  // -1 is passed by
    }
    const auto pause = std::chrono::duration_cast<Millis>(next_beat - Clock::now());
    poll(waiting.data(), waiting.size(),
         static_cast<int>(std::clamp<int64_t>(pause.count(), 0, 1000)));
    eventfd_t woken = 0;
    eventfd_read(wake_, &woken);
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < to_others_.size(); ++i) {
      Connection& to = to_others_[i];
      if (!to.open()) continue;
      const bool goes_on = to.fill();
      while (const auto message = to.next()) hear(i, *message);
      if (!goes_on || !to.open()) lose(rank_of(i), "its process ended without leaving");
    }
    const Millis limit = heart_limit();
    for (size_t i = 0; i < to_others_.size(); ++i) {
      const auto silent = Clock::now() - members_[static_cast<size_t>(rank_of(i))].seen;
      if (!to_others_[i].open() || silent < limit) continue;
      lose(rank_of(i), cat("nothing was heard of it for ", seconds_of(silent), " s"));
    }
    if (!failure_.empty() && !failure_told_) {
      failure_told_ = true;
      for (Connection& to : to_others_) to.send(failed, failure_);
    }
    if (Clock::now() >= next_beat || asks_) {
      say_where();
      next_beat = Clock::now() + (Clock::now() < asked_until_ ? kFastBeat : kBeatEvery);
    }
    if (std::exchange(asks_, false)) {
      asked_until_ = Clock::now() + kLeaveLimit;
      for (Connection& to : to_others_) to.send(ask, "");
    }
    if (leaving_ || stops_) {
      for (Connection& to : to_others_) to.send(bye, "");
      return;
    }
  }
}

void leave_assemblies(const std::string& failure) noexcept {
  std::set<Assembly*> here;
  {
    const std::lock_guard lock(all_mutex());
    here = all_assemblies();
  }
  for (Assembly* each : here) {
    if (!failure.empty()) each->fail(cat("rank ", each->rank(), "'s process ended with ", failure));
    each->leave();
  }
}

}  // namespace trireme
