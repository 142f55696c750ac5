// Collectives among processes. A thread of the group makes the mesh's calls, which wait; tickets
// never do.
#include "comm/process_group.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <numeric>
#include <set>
#include <thread>

#include "comm/credentials.h"
#include "comm/rank_mesh.h"
#include "core/error.h"
#include "core/flags.h"
#include "core/text.h"
#include "core/warning.h"

namespace trireme {
namespace {

using Way = Collective::Kind;
using Clock = std::chrono::steady_clock;
using Millis = std::chrono::milliseconds;

constexpr Millis kTable{1500};  // so old is what is known of the others' whereabouts

struct Work {
  std::vector<Piece> pieces;
  std::vector<int64_t> counts;
  uint64_t number = 0;
  std::atomic<bool> done{true};
};

class Link {
 public:
  explicit Link(const ProcessGroupOptions& options)
      : limit_(options.limit), assembly_(options.who) {
    try {
      mesh_ = connect(options);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      const std::string why = cause_of_others();
      if (!why.empty()) throw Error(ErrorKind::unavailable, why);
      throw IoError(cat(options.who.purpose, ": the ranks could not be connected: ", error.what()));
    }
    assembly_.watch();
    driver_ = std::thread([this] { drive(); });
  }

  std::unique_ptr<RankMesh> connect(const ProcessGroupOptions& options) {
    std::vector<int> all(static_cast<size_t>(size()));
    std::iota(all.begin(), all.end(), 0);
    const int width = options.per_node;
    const auto connect_some = find_credentials() ? connect_ring : connect_gloo;
    if (width <= 1) return connect_some(assembly_, {all, "all"}, options.who.limit);
    promise(size() > width && size() % width == 0, "several nodes of as many ranks");
    const auto node = all.begin() + rank() / width * width;
    auto inner =
        connect_some(assembly_, {{node, node + width}, cat("node ", *node)}, options.who.limit);
    std::erase_if(all, [&](int each) { return each % width != 0; });
    auto outer = connect_some(assembly_, {all, "firsts of nodes"}, options.who.limit);
    return join_levels(std::move(inner), std::move(outer), rank(), size());
  }

  // A rank that failed while others still connect, or as soon as it was connected itself, cuts
  // their connections, and says why besides.
  std::string cause_of_others() {
    constexpr std::chrono::milliseconds kLook{20};
    constexpr int kLooks = 100;
    assembly_.watch();
    for (int i = 0; i < kLooks && assembly_.failure().empty(); ++i) {
      std::this_thread::sleep_for(kLook);
    }
    return assembly_.failure();
  }

  ~Link() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    wake_.notify_all();
    if (busy_) abort(cat("rank ", rank(), " gave up ", name_of_current()));
    driver_.join();
    assembly_.leave();
  }

  int rank() const { return assembly_.rank(); }
  int size() const { return assembly_.size(); }
  Millis limit(const Collective& what) const {
    return what.limit.count() > 0 ? what.limit : limit_;
  }
  Assembly& assembly() { return assembly_; }

  void put(const Collective& what, const std::shared_ptr<Work>& work) {
    const std::lock_guard lock(mutex_);
    work->number = ++begun_;
    work->done = false;
    assembly_.begin(begun_, described(what, *work));
    queue_.emplace_back(&what, work);
    wake_.notify_all();
  }

  // Every ticket of every member ends: what is under way is cut off.
  void abort(const std::string& why) noexcept {
    assembly_.fail(why);
    mesh_->cut();
  }

  void check(const std::string& tag) {
    const std::string failure = assembly_.failure();
    if (failure.empty()) return;
    mesh_->cut();
    throw Error(ErrorKind::unavailable, cat("while ", tag, " was exchanged: ", failure))
        .fix("see why that process ended, and start the job again");
  }

  static std::string described(const Collective& what, const Work& work) {
    int64_t count = 0;
    for (const Piece& piece : work.pieces) count += piece.count;
    return cat(what.tag, " (", count * static_cast<int64_t>(size_of(what.dtype)), " bytes)");
  }

  // The members by how far they are, for people.
  std::string arrived(uint64_t number) const {
    std::vector<std::string> here, missing;
    const std::vector<Assembly::Member> members = assembly_.members();
    for (size_t r = 0; r < members.size(); ++r) {
      if (members[r].begun >= number) {
        here.push_back(std::to_string(r));
      } else {
        missing.push_back(cat(r, members[r].left           ? " (has left)"
                                 : members[r].what.empty() ? " (has exchanged nothing yet)"
                                                           : cat(" (at ", members[r].what, ")")));
      }
    }
    if (missing.empty()) {  // all came, but not to the same
      for (size_t r = 0; r < members.size(); ++r) {
        if (members[r].begun == number) missing.push_back(cat(r, " (at ", members[r].what, ")"));
      }
    }
    return cat("for ranks ", join(missing), "; arrived: ", here.empty() ? "none" : join(here));
  }

 private:
  struct Queued {
    Queued(const Collective* of, std::shared_ptr<Work> made) : what(of), work(std::move(made)) {}
    const Collective* what;
    std::shared_ptr<Work> work;
  };

  std::string name_of_current() {
    const std::lock_guard lock(mutex_);
    return current_;
  }

  void drive() {
    while (true) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return ends_ || !queue_.empty(); });
      if (ends_) return;
      Queued next = std::move(queue_.front());
      queue_.pop_front();
      current_ = next.what->tag;
      busy_ = true;
      lock.unlock();
      try {
        perform(*next.what, *next.work);
        assembly_.end(next.work->number);
      } catch (const std::exception& error) {
        // A member that is gone is named by the assembly, which notices it at about the same time.
        wait_for_cause();
        assembly_.fail(cat("rank ", rank(), " could not exchange ",
                           described(*next.what, *next.work), ": ", error.what()));
      }
      busy_ = false;
      next.work->done.store(true, std::memory_order_release);
    }
  }

  void wait_for_cause() {
    for (int i = 0; i < 20 && assembly_.failure().empty(); ++i) {
      if (assembly_.someone_left()) {
        assembly_.ask_for_members();
        std::string gone;
        const auto members = assembly_.members();
        for (size_t r = 0; r < members.size(); ++r) {
          if (members[r].left && static_cast<int>(r) != rank())
            gone += cat(gone.empty() ? "" : ", ", r);
        }
        if (!gone.empty()) {
          return assembly_.fail(
              cat("rank ", gone, " has left, and rank ", rank(),
                  " still exchanges: all ranks must run the same number of steps"));
        }
      }
      std::this_thread::sleep_for(Millis(50));
    }
  }

  void perform(const Collective& what, Work& work) {
    check_alike(what, work);
    switch (what.kind) {
      case Way::all_reduce:
      case Way::reduce:
        return reduce(what, work);
      case Way::broadcast:
        return broadcast(what, work);
      case Way::all_gather:
      case Way::gather:
        return gather(what, work);
      case Way::reduce_scatter:
        return reduce_scatter(what, work);
      case Way::barrier:
        return mesh_->barrier();
    }
  }

  // The first time of every collective, and of every new size of it, all compare what they give: a
  // difference would be waited for until the limit, or be taken for numbers.
  void check_alike(const Collective& what, const Work& work) {
    const bool unequal = what.kind == Way::all_gather || what.kind == Way::gather;
    std::string mine =
        cat(what.tag, " ", static_cast<int>(what.kind), " ", static_cast<int>(what.op), " ",
            name_of(what.dtype), " root ", what.root);
    if (!unequal) {
      for (const Piece& piece : work.pieces) mine += cat(" ", piece.count);
    }
    if (!agreed_.insert(mine).second) return;
    const uint64_t hash = std::hash<std::string>()(mine);
    std::vector<uint64_t> all(static_cast<size_t>(size()));
    all[static_cast<size_t>(rank())] = hash;
    mesh_->all_gather(reinterpret_cast<std::byte*>(all.data()),
                      std::vector<size_t>(all.size(), sizeof hash));
    for (size_t r = 0; r < all.size(); ++r) {
      if (all[r] == hash) continue;
      throw Error(cat("rank ", r,
                      " exchanges something else: its programs, or the shapes of what it "
                      "is fed, are not those of rank ",
                      rank(), ", which is at ", mine));
    }
  }

  void all_reduce(const Collective& what, const void* in, void* out, int64_t count) {
    if (count == 0) return;
    if (in != out) std::memcpy(out, in, static_cast<size_t>(count) * size_of(what.dtype));
    mesh_->all_reduce(what.op, what.dtype, out, count);
  }

  void reduce(const Collective& what, Work& work) {
    const bool takes = what.kind == Way::all_reduce || what.root == rank();
    for (const Piece& piece : work.pieces) {
      if (!takes) room_.resize(static_cast<size_t>(piece.count) * size_of(what.dtype));
      all_reduce(what, piece.in, takes ? piece.out : room_.data(), piece.count);
    }
  }

  void broadcast(const Collective& what, Work& work) {
    for (const Piece& piece : work.pieces) {
      const size_t bytes = static_cast<size_t>(piece.count) * size_of(what.dtype);
      if (bytes == 0) continue;
      if (what.root == rank() && piece.in != piece.out) std::memcpy(piece.out, piece.in, bytes);
      mesh_->broadcast(piece.out, bytes, what.root);
    }
  }

  void gather(const Collective& what, Work& work) {
    const Piece& piece = work.pieces.front();
    const size_t width = size_of(what.dtype);
    std::vector<size_t> bytes;
    for (const int64_t count : work.counts) bytes.push_back(static_cast<size_t>(count) * width);
    if (bytes.empty()) {
      bytes.assign(static_cast<size_t>(size()), static_cast<size_t>(piece.count) * width);
    }
    const size_t all = std::accumulate(bytes.begin(), bytes.end(), size_t{0});
    if (all == 0) return;
    const bool takes = what.kind == Way::all_gather || what.root == rank();
    if (!takes) room_.resize(all);
    auto* const out = takes ? static_cast<std::byte*>(piece.out) : room_.data();
    std::byte* const own = out + std::accumulate(bytes.begin(), bytes.begin() + rank(), size_t{0});
    const size_t mine = bytes[static_cast<size_t>(rank())];
    if (mine > 0 && own != piece.in) std::memmove(own, piece.in, mine);
    mesh_->all_gather(out, bytes);
  }

  void reduce_scatter(const Collective& what, Work& work) {
    const Piece& piece = work.pieces.front();
    const size_t bytes = static_cast<size_t>(piece.count) * size_of(what.dtype);
    room_.resize(bytes);
    all_reduce(what, piece.in, room_.data(), piece.count);
    const size_t share = bytes / static_cast<size_t>(size());
    std::memcpy(piece.out, room_.data() + share * static_cast<size_t>(rank()), share);
  }

  const Millis limit_;
  Assembly assembly_;
  std::unique_ptr<RankMesh> mesh_;
  std::thread driver_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;
  std::atomic<bool> busy_{false};
  std::string current_;
  uint64_t begun_ = 0;
  std::deque<Queued> queue_;

  // Of the driver alone.
  std::set<std::string> agreed_;
  std::vector<std::byte> room_;
};

class ProcessTicket final : public Ticket {
 public:
  ProcessTicket(std::shared_ptr<Link> link, const Collective& what)
      : link_(std::move(link)),
        what_(std::make_shared<const Collective>(what)),
        work_(std::make_shared<Work>()) {}
  ~ProcessTicket() override {
    if (!under_way_) return;
    link_->abort(cat("rank ", link_->rank(), " gave up ", what_->tag));
    // The driver still looks at the pieces until the mesh lets go of them.
    while (!work_->done.load(std::memory_order_acquire)) {
      std::this_thread::sleep_for(Millis(1));
    }
  }

  void start(const Exchanged& what) override {
    promise(!under_way_, "a ticket is started again when it is done");
    link_->check(what_->tag);
    work_->pieces.assign(what.pieces.begin(), what.pieces.end());
    work_->counts.assign(what.counts.begin(), what.counts.end());
    began_ = told_ = Clock::now();
    under_way_ = true;
    link_->put(*what_, work_);
  }

  bool done() override {
    if (work_->done.load(std::memory_order_acquire)) {
      under_way_ = false;
      link_->check(what_->tag);
      return true;
    }
    link_->check(what_->tag);
    check_time();
    return false;
  }

 private:
  void check_time() {
    const auto now = Clock::now();
    const auto waited = std::chrono::duration_cast<Millis>(now - began_);
    const Millis limit = link_->limit(*what_);
    if (waited < std::min<Millis>(limit, std::chrono::seconds{1})) return;
    if (now - asked_ >= std::chrono::seconds{1}) {
      asked_ = now;
      link_->assembly().ask_for_members();
    }
    const std::string name = Link::described(*what_, *work_);
    // Where the others are is known when they have said so once more.
    if (waited >= limit + kTable) {
      const std::string why = cat("rank ", link_->rank(), " has waited ", limit.count(), " ms at ",
                                  name, " ", link_->arrived(work_->number));
      link_->abort(why);
      throw Error(ErrorKind::timeout, why)
          .fix("see what those processes do; FLAGS_collective_limit says how long they may take");
    }
    const std::chrono::seconds watchdog(std::get<int64_t>(get_flag("hang_watchdog")));
    if (watchdog.count() == 0 || now - told_ < watchdog) return;
    told_ = now;
    warn(cat("rank ", link_->rank(), " waits since ", static_cast<double>(waited.count()) / 1000,
             " s at ", name, " ", link_->arrived(work_->number)));
  }

  std::shared_ptr<Link> link_;
  std::shared_ptr<const Collective> what_;
  std::shared_ptr<Work> work_;
  bool under_way_ = false;
  Clock::time_point began_, told_, asked_{};
};

class ProcessGroup final : public Group {
 public:
  explicit ProcessGroup(const ProcessGroupOptions& options)
      : link_(std::make_shared<Link>(options)) {}
  int rank() const override { return link_->rank(); }
  int size() const override { return link_->size(); }
  std::unique_ptr<Ticket> prepare(const Collective& what) override {
    return std::make_unique<ProcessTicket>(link_, what);
  }
  void abort(const std::string& why) noexcept override { link_->abort(why); }

 private:
  std::shared_ptr<Link> link_;
};

}  // namespace

std::unique_ptr<Group> make_process_group(const ProcessGroupOptions& options) {
  return std::make_unique<ProcessGroup>(options);
}

}  // namespace trireme
