// Encrypted connections in a circle: every rank sends to the next one and takes from the one
// before. Gloo knows no encryption, so this is what ranks with credentials exchange over.
//
// A sum goes round twice: first every part of the tensor collects the terms of all ranks, one at
// each, then the finished parts go round. Every part is added up in the order of the circle, so all
// ranks and all runs have the same bits.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <stdexcept>

#include "comm/assembly_frames.h"
#include "comm/combine.h"
#include "comm/rank_mesh.h"
#include "core/error.h"
#include "core/random.h"
#include "core/text.h"

namespace trireme {
namespace {

using Bytes = std::span<std::byte>;

constexpr size_t kPiece = 256 << 10;  // encrypted at a time
constexpr size_t kHop = 256 << 10;    // of a broadcast, passed on while the next one comes

// One direction to or from a neighbour.
struct Neighbour {
  Connection::Stream stream;
  std::string wire, plain;  // still to be sent; come and not taken yet
  size_t wire_at = 0, plain_at = 0;
};

class RingMesh final : public RankMesh {
 public:
  RingMesh(Assembly& assembly, const MeshMembers& members, int rank,
           std::chrono::milliseconds limit)
      : rank_(rank), size_(static_cast<int>(members.ranks.size())) {
    const std::string own = assembly.endpoint();
    Ear ear(own.substr(0, own.rfind(':')) + ":0");
    const std::string secret = cat(fresh_seed(), "-", fresh_seed());
    const std::vector<std::string> all =
        assembly.exchange(pack_texts({members.name, ear.endpoint(), secret}));
    const auto neighbour = members.ranks[static_cast<size_t>((rank_ + 1) % size_)];
    const auto to = unpack_texts(all[static_cast<size_t>(neighbour)]);
    if (!to || to->size() != 3 || (*to)[0] != members.name) {
      throw IoError("a rank has given no address");
    }
    if (size_ > 1) meet(ear, (*to)[1], (*to)[2], secret, limit);
  }

  ~RingMesh() override {
    for (const Neighbour* each : {&next_, &before_}) {
      if (each->stream.socket >= 0) close(each->stream.socket);
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_reduce(Collective::Op op, DType dtype, void* data, int64_t count) override {
    with_combined_type(dtype, [&]<class T>(T) {
      auto* const all = static_cast<T*>(data);
      const auto part = [&](int number) {
        const int n = ((number % size_) + size_) % size_;
        const int64_t begin = count * n / size_, end = count * (n + 1) / size_;
        return std::span<T>(all + begin, static_cast<size_t>(end - begin));
      };
      room_.resize((static_cast<size_t>(count / size_) + 1) * sizeof(T));
      for (int step = 0; step + 1 < size_; ++step) {
        const std::span<T> mine = part(rank_ - step - 1);
        const Bytes came(room_.data(), mine.size_bytes());
        swap(std::as_writable_bytes(part(rank_ - step)), came);
        combine(op, mine.data(), reinterpret_cast<const T*>(came.data()),
                static_cast<int64_t>(mine.size()));
      }
      for (int step = 0; step + 1 < size_; ++step) {
        swap(std::as_writable_bytes(part(rank_ + 1 - step)),
             std::as_writable_bytes(part(rank_ - step)));
      }
    });
  }

  void reduce(Collective::Op op, DType dtype, void* data, int64_t count, int) override {
    all_reduce(op, dtype, data, count);
  }

  void broadcast(void* data, size_t bytes, int root) override {
    const int place = (rank_ - root + size_) % size_;
    const bool takes = place > 0, gives = place + 1 < size_;
    const size_t hops = (bytes + kHop - 1) / kHop;
    const auto hop = [&](size_t number) {
      const size_t begin = number * kHop;
      return Bytes(static_cast<std::byte*>(data) + begin, std::min(kHop, bytes - begin));
    };
    for (size_t turn = 0; turn <= hops; ++turn) {
      const bool comes = takes && turn < hops;
      const size_t behind = takes ? 1 : 0;  // one that passes on has it one turn later
      const bool goes = gives && turn >= behind && turn - behind < hops;
      swap(goes ? hop(turn - behind) : Bytes(), comes ? hop(turn) : Bytes());
    }
  }

  void all_gather(std::byte* all, const std::vector<size_t>& bytes) override {
    const auto share = [&](int number) {
      const int n = ((number % size_) + size_) % size_;
      const size_t begin = std::accumulate(bytes.begin(), bytes.begin() + n, size_t{0});
      return Bytes(all + begin, bytes[static_cast<size_t>(n)]);
    };
    for (int step = 0; step + 1 < size_; ++step) swap(share(rank_ - step), share(rank_ - step - 1));
  }

  void barrier() override {
    int32_t nothing = 0;
    for (int round = 0; round + 1 < size_; ++round) {
      swap(std::as_writable_bytes(std::span(&nothing, 1)),
           std::as_writable_bytes(std::span(&nothing, 1)));
    }
  }

  void cut() noexcept override {
    for (const Neighbour* each : {&next_, &before_}) {
      if (each->stream.socket >= 0) shutdown(each->stream.socket, SHUT_RDWR);
    }
  }

 private:
  // Both at once: who only waited to be called would keep the one before it from being heard.
  void meet(Ear& ear, const std::string& to, const std::string& their_secret,
            const std::string& secret, std::chrono::milliseconds limit) {
    const auto end = Connection::Clock::now() + limit;
    Connection next = connect_to(to, limit), before;
    bool called = false, known = next.send(hello, their_secret);
    if (!known) throw std::runtime_error("no connection to " + to);
    for (known = false; !known || !called;) {
      if (Connection::Clock::now() >= end) throw std::runtime_error("the circle is not closed");
      if (!before.open()) before = ear.accept(kTry / 20);
      if (before.open() && !called) {
        const bool goes_on = before.fill();
        const auto said = before.next();
        called = said && said->kind == hello && said->bytes == secret;
        if (called) before.send(proof, "");
        if ((said && !called) || !goes_on) before.close();  // a stranger
      }
      const bool goes_on = next.fill();
      if (const auto said = next.next()) known = said->kind == proof;
      if (!goes_on && !known) throw std::runtime_error(cat(to, ": ", next.problem()));
      pollfd waiting[] = {{.fd = next.socket(), .events = POLLIN, .revents = 0},
                          {.fd = before.socket(), .events = POLLIN, .revents = 0}};
      if (!known || !called) poll(waiting, 2, static_cast<int>(kTry.count() / 20));
    }
    next_.stream = next.release();
    before_.stream = before.release();
    promise(next_.stream.session && before_.stream.session, "the circle is encrypted");
    before_.plain = std::exchange(before_.stream.in, {});
  }

  // Sends to the next while it takes from the one before.
  void swap(std::span<const std::byte> out, Bytes in) {
    if (size_ == 1) return;
    while (true) {
      take(in);
      give(out);
      const bool sent = out.empty() && next_.wire_at == next_.wire.size();
      if (sent && in.empty()) return;
      pollfd waiting[] = {
          {.fd = sent ? -1 : next_.stream.socket, .events = POLLOUT, .revents = 0},
          {.fd = in.empty() ? -1 : before_.stream.socket, .events = POLLIN, .revents = 0}};
      poll(waiting, 2, -1);
      if (waiting[1].revents != 0) receive();
    }
  }

  void take(Bytes& in) {
    Neighbour& from = before_;
    const size_t count = std::min(in.size(), from.plain.size() - from.plain_at);
    if (count > 0) std::memcpy(in.data(), from.plain.data() + from.plain_at, count);
    in = in.subspan(count);
    from.plain_at += count;
    if (from.plain_at < from.plain.size()) return;
    from.plain.clear();
    from.plain_at = 0;
  }

  void give(std::span<const std::byte>& out) {
    Neighbour& to = next_;
    while (true) {
      if (to.wire_at == to.wire.size()) {
        if (out.empty()) return;
        const size_t now = std::min(kPiece, out.size());
        to.stream.session->write({reinterpret_cast<const char*>(out.data()), now});
        out = out.subspan(now);
        to.wire = to.stream.session->outgoing();
        to.wire_at = 0;
      }
      const ssize_t count = send(to.stream.socket, to.wire.data() + to.wire_at,
                                 to.wire.size() - to.wire_at, MSG_NOSIGNAL);
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (count <= 0 && errno != EINTR)
        throw std::runtime_error("the next rank's connection broke");
      if (count > 0) to.wire_at += static_cast<size_t>(count);
    }
  }

  void receive() {
    char chunk[64 << 10];
    const ssize_t count = recv(before_.stream.socket, chunk, sizeof chunk, 0);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
    const bool ours = count > 0 && before_.stream.session->take({chunk, static_cast<size_t>(count)},
                                                                before_.plain);
    if (!ours) throw std::runtime_error("the connection of the rank before this one broke");
  }

  const int rank_, size_;
  Neighbour next_, before_;
  std::vector<std::byte> room_;
};

}  // namespace

std::unique_ptr<RankMesh> connect_ring(Assembly& assembly, const MeshMembers& members,
                                       std::chrono::milliseconds limit) {
  const auto found = std::ranges::find(members.ranks, assembly.rank());
  if (found == members.ranks.end()) {
    assembly.exchange(pack_texts({"", "", ""}));
    return nullptr;
  }
  return std::make_unique<RingMesh>(assembly, members,
                                    static_cast<int>(found - members.ranks.begin()), limit);
}

}  // namespace trireme
