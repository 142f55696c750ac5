// How fast a bare gRPC stream is: blocks to another process and back, in messages of a MB.
//
//   build/release/bench/grpc_stream KB...
//
// Prints, for each size, the seconds that a block takes there and back: the best of several turns.
// Nothing is looked at or copied beside what gRPC and protobuf do: bench/servers.py holds parameter
// servers against it.
#include <grpcpp/grpcpp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "ps/servers.grpc.pb.h"

namespace {

using trireme::ps::Chunk;
using trireme::ps::Servers;

constexpr size_t kMessage = 1 << 20;
constexpr int kTurns = 5;

template <class Stream>
bool send(Stream& stream, size_t bytes, Chunk& chunk) {
  for (size_t at = 0; at < bytes; at += kMessage) {
    chunk.mutable_data()->resize(std::min(kMessage, bytes - at));
    if (!stream.Write(chunk)) return false;
  }
  return true;
}

template <class Stream>
bool receive(Stream& stream, size_t bytes, Chunk& chunk) {
  for (size_t at = 0; at < bytes; at += chunk.data().size()) {
    if (!stream.Read(&chunk)) return false;
  }
  return true;
}

class Echo final : public Servers::Service {
 public:
  explicit Echo(size_t bytes) : bytes_(bytes) {}
  grpc::Status Call(grpc::ServerContext*, grpc::ServerReaderWriter<Chunk, Chunk>* stream) override {
    Chunk in, out;
    while (receive(*stream, bytes_, in) && send(*stream, bytes_, out)) {
    }
    return grpc::Status::OK;
  }

 private:
  const size_t bytes_;
};

int serve(size_t bytes, int tell) {
  Echo echo(bytes);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&echo);
  const auto server = builder.BuildAndStart();
  if (write(tell, &port, sizeof port) != sizeof port) return 1;
  server->Wait();
  return 0;
}

double measure(int port, size_t bytes) {
  const auto stub = Servers::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto stream = stub->Call(&context);
  Chunk in, out;
  const int times = std::clamp<int>(static_cast<int>((size_t{16} << 20) / bytes), 4, 200);
  double best = 1e9;
  for (int turn = 0; turn <= kTurns; ++turn) {  // the first one warms up
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) {
      if (!send(*stream, bytes, out) || !receive(*stream, bytes, in)) std::exit(1);
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (turn) best = std::min(best, taken.count() / times);
  }
  context.TryCancel();
  return best;
}

// Both sides in fresh processes: gRPC does not survive a fork.
template <class Run>
pid_t child(Run run) {
  const pid_t pid = fork();
  if (pid == 0) std::_Exit(run());
  return pid;
}

}  // namespace

int main(int count, char** words) {
  for (int i = 1; i < count; ++i) {
    const size_t bytes = static_cast<size_t>(std::atoll(words[i])) << 10;
    int ends[2];
    if (bytes == 0 || pipe(ends) != 0) return 1;
    const pid_t server = child([&] { return serve(bytes, ends[1]); });
    int port = 0;
    if (read(ends[0], &port, sizeof port) != sizeof port) return 1;
    const pid_t client = child([&] {
      std::printf("%s %.9f\n", words[i], measure(port, bytes));
      std::fflush(stdout);
      return 0;
    });
    waitpid(client, nullptr, 0);
    kill(server, SIGKILL);
    waitpid(server, nullptr, 0);
  }
}
