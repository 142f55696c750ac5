// Connections by Gloo: its own algorithms, its own sockets, and a way to wake who waits in them.
#include "comm/rank_mesh.h"
#include "core/error.h"
#include "core/text.h"

#ifdef TRIREME_HAVE_GLOO

#include <fcntl.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>

#include "comm/combine.h"

namespace trireme {
namespace {

constexpr const char* kConnected = "connected";

// Gloo writes to sockets as to files: where the other end has gone, that raises SIGPIPE, which ends
// a program that has not asked for anything else. While one of these lives, its thread and the
// threads that are made there only get the error.
class PipeSignalBlocked {
 public:
  PipeSignalBlocked() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~PipeSignalBlocked() {
    constexpr timespec kNow{};
    if (!was_pending_) {
      while (sigtimedwait(&pipe_, nullptr, &kNow) < 0 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  PipeSignalBlocked(const PipeSignalBlocked&) = delete;
  PipeSignalBlocked& operator=(const PipeSignalBlocked&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

// Addresses go over the assembly: all give theirs at once, so nothing is waited for here. Several
// meshes may be made at a time, of different ranks: each looks at its own.
class AssemblyStore final : public gloo::rendezvous::Store {
 public:
  AssemblyStore(Assembly& assembly, std::string name)
      : assembly_(assembly), name_(std::move(name)) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    for (const std::string& one :
         assembly_.exchange(pack_texts({own(key), {data.begin(), data.end()}}))) {
      const auto parts = unpack_texts(one);
      if (!parts || parts->size() != 2) throw IoError("a rank has given no address");
      given_[(*parts)[0]] = (*parts)[1];
    }
  }
  std::vector<char> get(const std::string& key) override {
    const std::string& found = given_.at(own(key));
    return {found.begin(), found.end()};
  }
  void wait(const std::vector<std::string>&) override {}
  void wait(const std::vector<std::string>&, const std::chrono::milliseconds&) override {}

 private:
  std::string own(const std::string& key) const { return name_ + "/" + key; }

  Assembly& assembly_;
  const std::string name_;
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

class GlooMesh final : public RankMesh {
 public:
  GlooMesh(Assembly& assembly, const MeshMembers& members, int rank,
           std::chrono::milliseconds limit)
      : rank_(rank), size_(static_cast<int>(members.ranks.size())) {
    const PipeSignalBlocked blocked;  // Gloo's own thread, which is made here, inherits that
    const std::string own = assembly.endpoint();
    gloo::transport::tcp::attr address(own.substr(0, own.rfind(':')).c_str());
    sockets_ = std::make_unique<Sockets>(address);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank_, size_);
    context->setTimeout(limit);
    AssemblyStore store(assembly, members.name);
    context->connectFullMesh(store, sockets_->device);
    assembly.exchange(pack_texts({kConnected, ""}));
    // Who waits too long, and for whom, is found out by tickets: Gloo itself would not say.
    context->setTimeout(std::chrono::hours{24 * 365});
    context_ = std::move(context);
    sockets_->hold();
    if (sockets_->count() + 1 != members.ranks.size()) {
      throw std::runtime_error("a connection was closed at once");
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_reduce(Collective::Op op, DType dtype, void* data, int64_t count) override {
    with_combined_type(dtype, [&]<class T>(T) {
      const PipeSignalBlocked blocked;
      gloo::AllreduceOptions options(context_);
      options.setOutput(static_cast<T*>(data), static_cast<size_t>(count));
      options.setReduceFunction(reduction<T>(op));
      gloo::allreduce(options);
    });
  }

  void reduce(Collective::Op op, DType dtype, void* data, int64_t count, int root) override {
    with_combined_type(dtype, [&]<class T>(T) {
      const PipeSignalBlocked blocked;
      gloo::ReduceOptions options(context_);
      options.setOutput(static_cast<T*>(data), static_cast<size_t>(count));
      options.setReduceFunction(reduction<T>(op));
      options.setRoot(root);
      gloo::reduce(options);
    });
  }

  void broadcast(void* data, size_t bytes, int root) override {
    const PipeSignalBlocked blocked;
    gloo::BroadcastOptions options(context_);
    options.setOutput(static_cast<std::byte*>(data), bytes);
    options.setRoot(root);
    gloo::broadcast(options);
  }

  void all_gather(std::byte* all, const std::vector<size_t>& bytes) override {
    const PipeSignalBlocked blocked;
    gloo::AllgathervOptions options(context_);
    options.setOutput(all, bytes);
    gloo::allgatherv(options);
  }

  void barrier() override {
    const PipeSignalBlocked blocked;
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

  void cut() noexcept override { sockets_->shut_down(); }

 private:
  template <class T>
  static auto reduction(Collective::Op op) {
    return [op](void* to, const void* a, const void* b, size_t count) {
      auto* sum = static_cast<T*>(to);
      if (to == b) std::swap(a, b);
      if (to != a) std::memcpy(to, a, count * sizeof(T));
      combine(op, sum, static_cast<const T*>(b), static_cast<int64_t>(count));
    };
  }

  const int rank_, size_;
  std::unique_ptr<Sockets> sockets_;
  std::shared_ptr<gloo::Context> context_;
};

}  // namespace

std::unique_ptr<RankMesh> connect_gloo(Assembly& assembly, const MeshMembers& members,
                                       std::chrono::milliseconds limit) {
  const auto found = std::ranges::find(members.ranks, assembly.rank());
  if (found == members.ranks.end()) {
    // How often its members exchange is Gloo's affair.
    const auto first = static_cast<size_t>(members.ranks.front());
    const std::string connected = pack_texts({kConnected, ""});
    while (assembly.exchange(pack_texts({"", ""}))[first] != connected) {
    }
    return nullptr;
  }
  return std::make_unique<GlooMesh>(assembly, members,
                                    static_cast<int>(found - members.ranks.begin()), limit);
}

}  // namespace trireme

#else

namespace trireme {

std::unique_ptr<RankMesh> connect_gloo(Assembly& assembly, const MeshMembers&,
                                       std::chrono::milliseconds) {
  throw Error(ErrorKind::unimplemented,
              cat(assembly.purpose(),
                  ": this build of Trireme has no Gloo, by which processes "
                  "exchange tensors"))
      .fix("install Gloo (Debian: libgloo-dev) and build again");
}

}  // namespace trireme

#endif
