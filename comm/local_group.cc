// Collectives in one process: members leave their pieces, and whoever comes by works on all of
// them.
#include "comm/local_group.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "comm/combine.h"
#include "core/error.h"
#include "core/lookups.h"
#include "core/text.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = Collective::Kind;

constexpr int64_t kChunk = 2048;          // elements that are added up before they are written
constexpr int64_t kPartBytes = 32 << 10;  // below this a part is not worth another worker
constexpr int kMostParts = 8;

bool reduces(Kind kind) { return kind == Kind::all_reduce || kind == Kind::reduce; }

template <class T>
T* at(void* data, int64_t element) {
  return static_cast<T*>(data) + element;
}
template <class T>
const T* at(const void* data, int64_t element) {
  return static_cast<const T*>(data) + element;
}

// One run of one collective. There are two, used in turn: nobody can begin the next but one before
// all have left this one.
struct Round {
  std::vector<Exchanged> given;  // by rank
  std::atomic<int> arriving{0};
  std::atomic<bool> complete{false};  // all are here and have given the same shapes
  std::atomic<int> next_part{0}, finished{0}, left{0};
  int parts = 1;
  std::vector<std::atomic<bool>> here;  // by rank, for people

  explicit Round(int size) : given(static_cast<size_t>(size)), here(static_cast<size_t>(size)) {}
  void clear() {
    arriving = 0;
    complete = false;
    next_part = finished = left = 0;
    for (auto& one : here) one = false;
  }
};

// A collective that all members have prepared under one tag.
class Meeting {
 public:
  Meeting(const Collective& what, int size, bool tree)
      : what_(what), size_(size), tree_(tree), rounds_{Round(size), Round(size)} {}

  const Collective& what() const { return what_; }
  Round& round(uint64_t number) { return rounds_[number % 2]; }

  // The last to arrive looks at all of them; what it says of them is an error for all.
  std::string problem(const Round& round) const;
  int parts_of(const Round& round) const;
  void work(const Round& round, int part) const;
  size_t bytes(const Exchanged& given) const {
    int64_t count = 0;
    for (const Piece& piece : given.pieces) count += piece.count;
    return static_cast<size_t>(count) * size_of(what_.dtype);
  }

 private:
  template <class T>
  void reduce(const Round& round, int part) const;
  template <class T>
  void reduce_tree(const Round& round, int part) const;
  template <class T>
  void scatter_sum(const Round& round, int part) const;
  void gather(const Round& round, int part) const;
  void copy_root(const Round& round, int part) const;

  const Collective what_;
  const int size_;
  const bool tree_;
  std::array<Round, 2> rounds_;
};

std::string Meeting::problem(const Round& round) const {
  const bool unequal_allowed = what_.kind == Kind::all_gather || what_.kind == Kind::gather;
  for (int r = 1; r < size_; ++r) {
    const auto &first = round.given[0].pieces, &other = round.given[static_cast<size_t>(r)].pieces;
    if (first.size() != other.size()) {
      return cat("member 0 gives ", first.size(), " tensors and member ", r, " ", other.size());
    }
    for (size_t i = 0; i < first.size() && !unequal_allowed; ++i) {
      if (first[i].count == other[i].count) continue;
      return cat("member 0 gives ", first[i].count, " elements and member ", r, " ",
                 other[i].count);
    }
  }
  return "";
}

int Meeting::parts_of(const Round& round) const {
  if (!reduces(what_.kind)) return size_;
  const auto bytes = static_cast<int64_t>(this->bytes(round.given[0]));
  return static_cast<int>(std::clamp<int64_t>(bytes / kPartBytes, 1, kMostParts));
}

// Every element's sum goes in the members' order, so nothing depends on where parts are cut.
template <class T>
void Meeting::reduce(const Round& round, int part) const {
  const auto& first = round.given[0].pieces;
  std::array<T, kChunk> sum;
  for (size_t i = 0; i < first.size(); ++i) {
    const int64_t end = first[i].count * (part + 1) / round.parts;
    for (int64_t at_element = first[i].count * part / round.parts; at_element < end;) {
      const int64_t count = std::min(kChunk, end - at_element);
      std::memcpy(sum.data(), at<T>(first[i].in, at_element),
                  static_cast<size_t>(count) * sizeof(T));
      for (int r = 1; r < size_; ++r) {
        combine(what_.op, sum.data(), at<T>(round.given[r].pieces[i].in, at_element), count);
      }
      for (int r = 0; r < size_; ++r) {
        if (what_.kind == Kind::reduce && r != what_.root) continue;
        std::memcpy(at<T>(round.given[r].pieces[i].out, at_element), sum.data(),
                    static_cast<size_t>(count) * sizeof(T));
      }
      at_element += count;
    }
  }
}

template <class T>
void Meeting::reduce_tree(const Round& round, int part) const {
  for (size_t i = 0; i < round.given[0].pieces.size(); ++i) {
    const auto piece = [&](int r) -> const Piece& { return round.given[r].pieces[i]; };
    const int64_t begin = piece(0).count * part / round.parts;
    const int64_t count = piece(0).count * (part + 1) / round.parts - begin;
    const auto out = [&](int r) { return at<T>(piece(r).out, begin); };
    for (int r = 0; r < size_; ++r) {
      if (piece(r).in != piece(r).out) {
        std::memcpy(out(r), at<T>(piece(r).in, begin), static_cast<size_t>(count) * sizeof(T));
      }
    }
    for (int stride = 1; stride < size_; stride *= 2) {
      for (int r = 0; r + stride < size_; r += 2 * stride) {
        combine(what_.op, out(r), out(r + stride), count);
      }
    }
    for (int r = 1; r < size_; ++r) {
      if (what_.kind == Kind::reduce && r != what_.root) continue;
      std::memcpy(out(r), out(0), static_cast<size_t>(count) * sizeof(T));
    }
  }
}

// Part p makes what member p takes.
template <class T>
void Meeting::scatter_sum(const Round& round, int part) const {
  const Piece& taker = round.given[static_cast<size_t>(part)].pieces.front();
  const int64_t share = taker.count / size_;
  const auto given = [&](int r) { return at<T>(round.given[r].pieces.front().in, part * share); };
  std::memcpy(taker.out, given(0), static_cast<size_t>(share) * sizeof(T));
  for (int r = 1; r < size_; ++r) combine(what_.op, static_cast<T*>(taker.out), given(r), share);
}

// Part p takes what member p gives to everybody who takes.
void Meeting::gather(const Round& round, int part) const {
  const Piece& from = round.given[static_cast<size_t>(part)].pieces.front();
  int64_t before = 0;
  for (int r = 0; r < part; ++r) before += round.given[static_cast<size_t>(r)].pieces.front().count;
  const size_t width = size_of(what_.dtype);
  for (int r = 0; r < size_; ++r) {
    if (what_.kind == Kind::gather && r != what_.root) continue;
    auto* to = static_cast<std::byte*>(round.given[static_cast<size_t>(r)].pieces.front().out) +
               static_cast<size_t>(before) * width;
    if (to != from.in && from.count > 0) {
      std::memcpy(to, from.in, static_cast<size_t>(from.count) * width);
    }
  }
}

void Meeting::copy_root(const Round& round, int part) const {
  const auto& from = round.given[static_cast<size_t>(what_.root)].pieces;
  const auto& to = round.given[static_cast<size_t>(part)].pieces;
  for (size_t i = 0; i < from.size(); ++i) {
    if (to[i].out == from[i].in || from[i].count == 0) continue;
    std::memcpy(to[i].out, from[i].in, static_cast<size_t>(from[i].count) * size_of(what_.dtype));
  }
}

void Meeting::work(const Round& round, int part) const {
  switch (what_.kind) {
    case Kind::all_reduce:
    case Kind::reduce:
      return with_combined_type(what_.dtype, [&]<class T>(T) {
        tree_ ? reduce_tree<T>(round, part) : reduce<T>(round, part);
      });
    case Kind::reduce_scatter:
      return with_combined_type(what_.dtype, [&]<class T>(T) { scatter_sum<T>(round, part); });
    case Kind::all_gather:
    case Kind::gather:
      return gather(round, part);
    case Kind::broadcast:
      return copy_root(round, part);
    case Kind::barrier:
      return;
  }
}

// What the members of one group have in common.
class Shared {
 public:
  Shared(int size, const LocalGroupOptions& options) : size(size), options_(options) {}

  Meeting& meeting(const Collective& what) {
    const std::lock_guard lock(mutex_);
    count_name_lookup();
    std::unique_ptr<Meeting>& found = meetings_[what.tag];
    if (reduces(what.kind) || what.kind == Kind::reduce_scatter)
      with_combined_type(what.dtype, [](auto) {});
    if (!found) found = std::make_unique<Meeting>(what, size, options_.tree);
    if (found->what().kind != what.kind || found->what().dtype != what.dtype) {
      throw InternalError(cat("members have prepared different collectives under ", what.tag));
    }
    return *found;
  }
  std::chrono::milliseconds limit(const Collective& what) const {
    return what.limit.count() > 0 ? what.limit : options_.limit;
  }
  void abort(const std::string& why) noexcept {
    const std::lock_guard lock(mutex_);
    if (aborted_.load(std::memory_order_relaxed)) return;
    why_ = why;
    aborted_.store(true, std::memory_order_release);
  }
  void check_not_aborted(const std::string& tag) {
    if (!aborted_.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex_);
    throw Error(ErrorKind::unavailable,
                cat("the group was left while ", tag, " was exchanged: ", why_));
  }

  const int size;

 private:
  const LocalGroupOptions options_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Meeting>> meetings_;
  std::atomic<bool> aborted_{false};
  std::string why_;
};

class LocalTicket : public Ticket {
 public:
  LocalTicket(std::shared_ptr<Shared> shared, Meeting& meeting, int rank)
      : shared_(std::move(shared)), meeting_(meeting), rank_(rank) {}
  ~LocalTicket() override {
    if (under_way_) shared_->abort(cat("member ", rank_, " gave up ", meeting_.what().tag));
  }

  void start(const Exchanged& what) override {
    shared_->check_not_aborted(meeting_.what().tag);
    promise(!under_way_, "a ticket is started again when it is done");
    Round& round = meeting_.round(number_);
    round.given[static_cast<size_t>(rank_)] = what;
    round.here[static_cast<size_t>(rank_)].store(true, std::memory_order_relaxed);
    under_way_ = true;
    began_ = Clock::now();
    if (round.arriving.fetch_add(1, std::memory_order_acq_rel) + 1 < shared_->size) return;
    if (const std::string problem = meeting_.problem(round); !problem.empty()) {
      shared_->abort(problem);
    } else {
      round.parts = meeting_.parts_of(round);
      round.complete.store(true, std::memory_order_release);
    }
  }

  bool done() override {
    shared_->check_not_aborted(meeting_.what().tag);
    Round& round = meeting_.round(number_);
    if (!round.complete.load(std::memory_order_acquire)) {
      check_time(round);
      return false;
    }
    for (int part;
         (part = round.next_part.fetch_add(1, std::memory_order_relaxed)) < round.parts;) {
      meeting_.work(round, part);
      round.finished.fetch_add(1, std::memory_order_acq_rel);
    }
    if (round.finished.load(std::memory_order_acquire) < round.parts) return false;
    under_way_ = false;
    ++number_;
    if (round.left.fetch_add(1, std::memory_order_acq_rel) + 1 == shared_->size) round.clear();
    return true;
  }

 private:
  void check_time(const Round& round) {
    const auto limit = shared_->limit(meeting_.what());
    if (Clock::now() - began_ < limit) return;
    std::vector<int> here, missing;
    for (int r = 0; r < shared_->size; ++r) {
      (round.here[static_cast<size_t>(r)].load(std::memory_order_relaxed) ? here : missing)
          .push_back(r);
    }
    shared_->abort(cat("member ", rank_, " has waited ", limit.count(), " ms for members ",
                       join(missing), " at ", meeting_.what().tag, " (",
                       meeting_.bytes(round.given[static_cast<size_t>(rank_)]),
                       " bytes); arrived: ", join(here)));
    shared_->check_not_aborted(meeting_.what().tag);
  }

  std::shared_ptr<Shared> shared_;
  Meeting& meeting_;
  const int rank_;
  uint64_t number_ = 0;  // runs so far
  bool under_way_ = false;
  Clock::time_point began_;
};

class LocalGroup : public Group {
 public:
  LocalGroup(std::shared_ptr<Shared> shared, int rank) : shared_(std::move(shared)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return shared_->size; }
  std::unique_ptr<Ticket> prepare(const Collective& what) override {
    return std::make_unique<LocalTicket>(shared_, shared_->meeting(what), rank_);
  }
  void abort(const std::string& why) noexcept override { shared_->abort(why); }

 private:
  std::shared_ptr<Shared> shared_;
  const int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Group>> make_local_group(int size, const LocalGroupOptions& options) {
  auto shared = std::make_shared<Shared>(size, options);
  std::vector<std::unique_ptr<Group>> members;
  for (int rank = 0; rank < size; ++rank) {
    members.push_back(std::make_unique<LocalGroup>(shared, rank));
  }
  return members;
}

}  // namespace trireme
