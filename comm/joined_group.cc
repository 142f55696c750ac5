// A collective in up to three parts: among the replicas here, among the processes, and back.
#include "comm/joined_group.h"

#include <numeric>

#include "core/error.h"
#include "core/text.h"

namespace trireme {
namespace {

using Way = Collective::Kind;

// Exchanges among processes begin in the order in which their tickets were started, whichever the
// replicas here are through with first: the other processes have no other order in common.
struct Turns {
  uint64_t given = 0, next = 0;
};

// The first member here stands for all of them: it takes what they give, exchanges it, and gives
// them what came.
class JoinedTicket final : public Ticket {
 public:
  JoinedTicket(Group& here, Group& others, Turns& turns, const Collective& what)
      : what_(what),
        turns_(turns),
        first_(here.rank() == 0),
        here_size_(here.size()),
        place_(others.rank()),
        processes_(others.size()) {
    const bool to_first = what.kind == Way::reduce || what.kind == Way::gather;
    promise(what.root == 0, "the first takes what one takes");
    Collective part = what;
    part.root = 0;
    part.tag = what.tag + ", here";
    part.kind = what.kind == Way::all_reduce   ? Way::reduce
                : what.kind == Way::all_gather ? Way::gather
                                               : what.kind;
    const bool alone = here.size() == 1;
    if (part.kind != Way::broadcast && !alone) gather_ = here.prepare(part);
    part.tag = what.tag;
    part.kind = what.kind == Way::reduce   ? Way::all_reduce
                : what.kind == Way::gather ? Way::all_gather
                                           : what.kind;
    if (first_) exchange_ = others.prepare(part);
    part.tag = what.tag + ", of all";
    part.kind = what.kind == Way::barrier ? Way::barrier : Way::broadcast;
    if (!to_first && !alone) spread_ = here.prepare(part);
  }

  void start(const Exchanged& what) override {
    pieces_.assign(what.pieces.begin(), what.pieces.end());
    counts_.assign(what.counts.begin(), what.counts.end());
    if (gathers() && counts_.empty()) {
      counts_.assign(static_cast<size_t>(here_size_ * processes_), pieces_.front().count);
    }
    if (first_) turn_ = turns_.given++;
    stage_ = Stage::gather;
    if (gather_) return start_gather();
    stage_ = Stage::turn;
    begin_in_turn();
  }

  bool done() override {
    if (stage_ == Stage::gather) {
      if (!gather_->done()) return false;
      stage_ = Stage::turn;
    }
    if (stage_ == Stage::turn && !begin_in_turn()) return false;
    if (stage_ == Stage::exchange) {
      if (first_ && !exchange_->done()) return false;
      if (!spread_) return true;
      stage_ = Stage::spread;
      start_spread();
    }
    return spread_->done();
  }

 private:
  bool gathers() const { return what_.kind == Way::gather || what_.kind == Way::all_gather; }
  size_t width() const { return size_of(what_.dtype); }

  // Where the shares of this process begin among all, in elements.
  int64_t before() const {
    return std::accumulate(counts_.begin(), counts_.begin() + place_ * here_size_, int64_t{0});
  }
  std::span<const int64_t> counts_here() const {
    return std::span(counts_).subspan(static_cast<size_t>(place_ * here_size_),
                                      static_cast<size_t>(here_size_));
  }

  void start_gather() {
    part_ = pieces_;
    if (gathers() && part_.front().out) {
      part_.front().out =
          static_cast<std::byte*>(part_.front().out) + static_cast<size_t>(before()) * width();
    }
    gather_->start(
        {.pieces = part_, .counts = gathers() ? counts_here() : std::span<const int64_t>()});
  }

  bool begin_in_turn() {
    if (first_ && turns_.next != turn_) return false;
    stage_ = Stage::exchange;
    if (!first_) return true;
    ++turns_.next;
    start_exchange();
    return true;
  }

  void start_exchange() {
    part_ = pieces_;
    by_process_.clear();
    if (gathers()) {
      for (int p = 0; p < processes_; ++p) {
        const auto from = counts_.begin() + p * here_size_;
        by_process_.push_back(std::accumulate(from, from + here_size_, int64_t{0}));
      }
      Piece& piece = part_.front();
      if (gather_) {
        piece.in = static_cast<std::byte*>(piece.out) + static_cast<size_t>(before()) * width();
      }
      piece.count = by_process_[static_cast<size_t>(place_)];
    } else if (what_.kind == Way::broadcast) {
      if (place_ != 0) {
        for (Piece& piece : part_) piece.in = piece.out;
      }
    } else if (gather_) {
      for (Piece& piece : part_) piece.in = piece.out;
    }
    exchange_->start({.pieces = part_, .counts = by_process_});
  }

  void start_spread() {
    part_ = pieces_;
    for (Piece& piece : part_) {
      piece.in = piece.out;
      if (gathers()) piece.count = std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
    }
    spread_->start({.pieces = part_});
  }

  const Collective what_;
  Turns& turns_;
  uint64_t turn_ = 0;
  const bool first_;
  const int here_size_, place_, processes_;
  std::unique_ptr<Ticket> gather_, exchange_, spread_;
  enum class Stage { gather, turn, exchange, spread } stage_ = Stage::gather;
  std::vector<Piece> pieces_, part_;
  std::vector<int64_t> counts_, by_process_;
};

class JoinedGroup final : public Group {
 public:
  JoinedGroup(std::unique_ptr<Group> here, std::shared_ptr<Group> others)
      : here_(std::move(here)), others_(std::move(others)) {}
  int rank() const override { return here_->rank(); }
  int size() const override { return here_->size() * others_->size(); }
  std::unique_ptr<Ticket> prepare(const Collective& what) override {
    if (what.kind == Way::reduce_scatter) {
      throw InternalError("reduce_scatter among replicas of several processes");
    }
    return std::make_unique<JoinedTicket>(*here_, *others_, turns_, what);
  }
  void abort(const std::string& why) noexcept override {
    others_->abort(why);
    here_->abort(why);
  }

 private:
  std::unique_ptr<Group> here_;
  std::shared_ptr<Group> others_;
  Turns turns_;
};

}  // namespace

std::vector<std::unique_ptr<Group>> join_groups(std::vector<std::unique_ptr<Group>> here,
                                                const std::shared_ptr<Group>& others) {
  std::vector<std::unique_ptr<Group>> joined;
  for (auto& member : here) {
    joined.push_back(std::make_unique<JoinedGroup>(std::move(member), others));
  }
  return joined;
}

}  // namespace trireme
