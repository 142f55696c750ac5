// A thread that keeps the processes of a group informed of each other.
#include "comm/assembly.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <set>

#include "comm/assembly_frames.h"
#include "comm/token.h"
#include "core/endpoints.h"
#include "core/error.h"
#include "core/flags.h"
#include "core/text.h"

namespace trireme {
namespace {

using Millis = std::chrono::milliseconds;

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

void Assembly::ask_for_members() {
  if (rank() == 0 || process_ != getpid()) return;
  {
    const std::lock_guard lock(mutex_);
    looks_ = true;
  }
  if (wake_ >= 0) eventfd_write(wake_, 1);
}

bool Assembly::someone_left() const {
  const std::lock_guard lock(mutex_);
  return left_ > 0 ||
         std::ranges::any_of(members_, [](const Member& member) { return member.left; });
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
    if (!failure_.empty() || members_[0].left) return true;
    return (rank() == 0 ? least_ended() : least_ended_) >= mine.ended;
  };
  asks_ = true;
  eventfd_write(wake_, 1);
  changed_.wait_for(lock, kLeaveLimit, others_are_done);
  leaving_ = mine.left = true;
  lock.unlock();
  eventfd_write(wake_, 1);
}

// Those who have left have ended all of theirs.
uint64_t Assembly::least_ended() const {
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (const Member& member : members_) {
    if (!member.left) least = std::min(least, member.ended);
  }
  return least;
}

// What goes to all in every beat does not grow with their number.
std::string Assembly::summary_text() const {
  const auto left = std::ranges::count_if(members_, [](const Member& each) { return each.left; });
  return pack_texts({std::to_string(least_ended()), std::to_string(left)});
}

void Assembly::take_summary(const std::string& bytes) {
  const auto said = unpack_texts(bytes);
  if (!said || said->size() != 2) return;
  least_ended_ = std::strtoull((*said)[0].c_str(), nullptr, 10);
  left_ = static_cast<int>(std::strtol((*said)[1].c_str(), nullptr, 10));
  changed_.notify_all();
}

Millis Assembly::fast_beat() const { return kFastBeat * (1 + size() / 64); }

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
    case summary:
      return take_summary(message.bytes);
    case look:
      if (rank() == 0) to_others_[number].send(table, table_text());
      return;
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
      if (Clock::now() >= asked_until_) hurries_ = true;
      asked_until_ = Clock::now() + kLeaveLimit;
      return;
    default:
      return;
  }
}

// The caller holds the mutex. Messages are short: they go into the socket's own memory.
void Assembly::say_where() {
  const Member& mine = members_[static_cast<size_t>(rank())];
  const std::string said =
      rank() == 0 ? summary_text()
                  : pack_texts({std::to_string(mine.begun), std::to_string(mine.ended), mine.what});
  for (Connection& to : to_others_) {
    if (to.open()) to.send(rank() == 0 ? summary : where, said);
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
    if (Clock::now() >= next_beat || asks_ || std::exchange(hurries_, false)) {
      say_where();
      next_beat = Clock::now() + (Clock::now() < asked_until_ ? fast_beat() : kBeatEvery);
    }
    if (std::exchange(looks_, false)) to_others_[0].send(look, "");
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
