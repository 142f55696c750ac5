// Collectives among processes. A thread of the group drives Gloo, whose calls wait; tickets never
// do.
#include "comm/gloo_group.h"

#include "core/error.h"
#include "core/text.h"

#ifdef TRIREME_HAVE_GLOO

#include <fcntl.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include "comm/combine.h"
#include "core/flags.h"
#include "core/warning.h"

namespace trireme {
namespace {

using Way = Collective::Kind;
using GlooClock = std::chrono::steady_clock;
using GlooMillis = std::chrono::milliseconds;

constexpr GlooMillis kTable{1500};  // so old is what is known of the others' whereabouts

// Addresses go over the assembly: all give theirs at once, so nothing is waited for here.
class AssemblyStore final : public gloo::rendezvous::Store {
 public:
  explicit AssemblyStore(Assembly& assembly) : assembly_(assembly) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    for (const std::string& one :
         assembly_.exchange(pack_texts({key, {data.begin(), data.end()}}))) {
      const auto parts = unpack_texts(one);
      if (!parts || parts->size() != 2) throw IoError("a rank has given no address");
      given_[(*parts)[0]] = (*parts)[1];
    }
  }
  std::vector<char> get(const std::string& key) override {
    const std::string& found = given_.at(key);
    return {found.begin(), found.end()};
  }
  void wait(const std::vector<std::string>&) override {}
  void wait(const std::vector<std::string>&, const GlooMillis&) override {}

 private:
  Assembly& assembly_;
  std::map<std::string, std::string> given_;
};

// The connections of a Gloo device, so that whoever waits in Gloo can be woken: Gloo's own way to
// close them lets those wait on. A socket that is shut down looks like one whose other end has
// gone. Gloo does not say which they are; the system does: what the poll set of its thread looks
// at.
class Sockets {
 public:
  // Makes the device, and sees which poll set is new.
  explicit Sockets(gloo::transport::tcp::attr& address) {
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    const std::set<std::string> before = poll_sets();
    device = gloo::transport::tcp::CreateDevice(address);
    for (const std::string& set : poll_sets()) {
      if (!before.contains(set)) sets_.push_back(set);
    }
  }
  ~Sockets() {
    for (const int each : held_) close(each);
  }
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;

  // When all are connected. Gloo may close its numbers, and the next file may get them: these are
  // our own.
  void hold() {
    for (const std::string& set : sets_) {
      std::ifstream lines("/proc/self/fdinfo/" + set);
      for (std::string line; std::getline(lines, line);) {
        int number = -1;
        sockaddr_storage peer{};
        socklen_t size = sizeof peer;
        if (std::sscanf(line.c_str(), "tfd: %d", &number) != 1) continue;
        if (getpeername(number, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
        held_.push_back(fcntl(number, F_DUPFD_CLOEXEC, 0));
      }
    }
  }
  size_t count() const { return held_.size(); }
  void shut_down() const {
    for (const int each : held_) shutdown(each, SHUT_RDWR);
  }

  std::shared_ptr<gloo::transport::Device> device;

 private:
  static std::set<std::string> poll_sets() {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const std::string what = std::filesystem::read_symlink(entry.path(), gone).string();
      if (what.find("[eventpoll]") != what.npos) found.insert(entry.path().filename().string());
    }
    return found;
  }

  std::vector<std::string> sets_;  // as numbers of files
  std::vector<int> held_;
};

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
    const std::string& own = options.who.endpoints[static_cast<size_t>(options.who.rank)];
    gloo::transport::tcp::attr address(own.substr(0, own.rfind(':')).c_str());
    try {
      sockets_ = std::make_unique<Sockets>(address);
      auto context =
          std::make_shared<gloo::rendezvous::Context>(assembly_.rank(), assembly_.size());
      context->setTimeout(options.who.limit);
      AssemblyStore store(assembly_);
      context->connectFullMesh(store, sockets_->device);
      // Who waits too long, and for whom, is found out by tickets: Gloo itself would not say.
      context->setTimeout(std::chrono::hours{24 * 365});
      context_ = std::move(context);
      sockets_->hold();
      if (sockets_->count() + 1 != static_cast<size_t>(size())) {
        throw std::runtime_error("a connection was closed at once");
      }
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
  GlooMillis limit(const Collective& what) const {
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
    sockets_->shut_down();
  }

  void check(const std::string& tag) {
    const std::string failure = assembly_.failure();
    if (failure.empty()) return;
    sockets_->shut_down();
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
      std::this_thread::sleep_for(GlooMillis(50));
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
      case Way::barrier: {
        gloo::BarrierOptions options(context_);
        return gloo::barrier(options);
      }
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
    gloo::AllgathervOptions options(context_);
    options.setOutput(all.data(), std::vector<size_t>(all.size(), 1));
    gloo::allgatherv(options);
    for (size_t r = 0; r < all.size(); ++r) {
      if (all[r] == hash) continue;
      throw Error(cat("rank ", r,
                      " exchanges something else: its programs, or the shapes of what it "
                      "is fed, are not those of rank ",
                      rank(), ", which is at ", mine));
    }
  }

  template <class T>
  static void reduce_some(Collective::Op op, void* to, const void* a, const void* b, size_t count) {
    auto* sum = static_cast<T*>(to);
    if (to == b) std::swap(a, b);
    if (to != a) std::memcpy(to, a, count * sizeof(T));
    combine(op, sum, static_cast<const T*>(b), static_cast<int64_t>(count));
  }

  void all_reduce(const Collective& what, const void* in, void* out, int64_t count) {
    if (count == 0) return;
    if (in != out) std::memcpy(out, in, static_cast<size_t>(count) * size_of(what.dtype));
    with_combined_type(what.dtype, [&]<class T>(T) {
      gloo::AllreduceOptions options(context_);
      options.setOutput(static_cast<T*>(out), static_cast<size_t>(count));
      options.setReduceFunction([op = what.op](void* to, const void* a, const void* b, size_t n) {
        reduce_some<T>(op, to, a, b, n);
      });
      gloo::allreduce(options);
    });
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
      gloo::BroadcastOptions options(context_);
      options.setOutput(static_cast<std::byte*>(piece.out), bytes);
      options.setRoot(what.root);
      gloo::broadcast(options);
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
    gloo::AllgathervOptions options(context_);
    options.setOutput(out, bytes);
    gloo::allgatherv(options);
  }

  void reduce_scatter(const Collective& what, Work& work) {
    const Piece& piece = work.pieces.front();
    const size_t bytes = static_cast<size_t>(piece.count) * size_of(what.dtype);
    room_.resize(bytes);
    all_reduce(what, piece.in, room_.data(), piece.count);
    const size_t share = bytes / static_cast<size_t>(size());
    std::memcpy(piece.out, room_.data() + share * static_cast<size_t>(rank()), share);
  }

  const GlooMillis limit_;
  Assembly assembly_;
  std::shared_ptr<gloo::Context> context_;
  std::unique_ptr<Sockets> sockets_;
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

class GlooTicket final : public Ticket {
 public:
  GlooTicket(std::shared_ptr<Link> link, const Collective& what)
      : link_(std::move(link)),
        what_(std::make_shared<const Collective>(what)),
        work_(std::make_shared<Work>()) {}
  ~GlooTicket() override {
    if (!under_way_) return;
    link_->abort(cat("rank ", link_->rank(), " gave up ", what_->tag));
    // The driver still looks at the pieces until Gloo lets go of them.
    while (!work_->done.load(std::memory_order_acquire)) {
      std::this_thread::sleep_for(GlooMillis(1));
    }
  }

  void start(const Exchanged& what) override {
    promise(!under_way_, "a ticket is started again when it is done");
    link_->check(what_->tag);
    work_->pieces.assign(what.pieces.begin(), what.pieces.end());
    work_->counts.assign(what.counts.begin(), what.counts.end());
    began_ = told_ = GlooClock::now();
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
    const auto now = GlooClock::now();
    const auto waited = std::chrono::duration_cast<GlooMillis>(now - began_);
    const GlooMillis limit = link_->limit(*what_);
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
  GlooClock::time_point began_, told_;
};

class GlooGroup final : public Group {
 public:
  explicit GlooGroup(const ProcessGroupOptions& options) : link_(std::make_shared<Link>(options)) {}
  int rank() const override { return link_->rank(); }
  int size() const override { return link_->size(); }
  std::unique_ptr<Ticket> prepare(const Collective& what) override {
    return std::make_unique<GlooTicket>(link_, what);
  }
  void abort(const std::string& why) noexcept override { link_->abort(why); }

 private:
  std::shared_ptr<Link> link_;
};

}  // namespace

std::unique_ptr<Group> make_process_group(const ProcessGroupOptions& options) {
  return std::make_unique<GlooGroup>(options);
}

}  // namespace trireme

#else

namespace trireme {

std::unique_ptr<Group> make_process_group(const ProcessGroupOptions& options) {
  throw Error(ErrorKind::unimplemented,
              cat(options.who.purpose,
                  ": this build of Trireme has no Gloo, by which processes "
                  "exchange tensors"))
      .fix("install Gloo (Debian: libgloo-dev) and build again");
}

}  // namespace trireme

#endif
