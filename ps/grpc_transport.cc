// Messages over gRPC: one stream of requests and answers for each trainer and server.
#include <thread>

#include "core/error.h"
#include "core/text.h"
#include "ps/transport.h"

#ifdef TRIREME_HAVE_GRPC

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <mutex>

#include "comm/token.h"
#include "core/flags.h"
#include "ps/chunks.h"
#include "ps/grpc_credentials.h"
#include "ps/servers.grpc.pb.h"

namespace trireme {
namespace {

constexpr const char* kTokenKey = "trireme-token";
constexpr int kKeepAliveMs = 10000;  // without a word for so long, a server is asked for one
constexpr std::chrono::seconds kBeat{1};
constexpr int kBeatsOfAStream = 1000;
constexpr std::chrono::milliseconds kComesBack{200};  // before a broken connection is made again

// A server's address is part of it: a proof for one server is none for another.
std::string proof_for(const std::string& endpoint) { return token_proof("server " + endpoint); }

class GrpcChannel final : public PsChannel {
 public:
  explicit GrpcChannel(const std::string& endpoint)
      : endpoint_(endpoint),
        proof_(proof_for(endpoint)),
        stub_(ps::Servers::NewStub(connected(endpoint))) {}

  ~GrpcChannel() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      if (staying_) staying_->TryCancel();
    }
    wake_.notify_all();
    if (beats_.joinable()) beats_.join();
  }

  bool send(const PsMessage& request, std::string* why) override {
    if (!asking_) asking_ = std::make_unique<Asking>(*stub_, proof_);
    return write_message(*asking_->stream, request, chunk_) || broken(why);
  }

  bool receive(PsMessage& answer, std::string* why) override {
    if (!asking_ || !read_message(*asking_->stream, answer, chunk_)) return broken(why);
    check_answer(answer);
    return true;
  }

  void drop() override { asking_.reset(); }

  bool tell(const PsMessage& request, std::chrono::milliseconds limit, std::string* why) override {
    Asking alone(*stub_, proof_, limit);
    ps::Chunk chunk;
    PsMessage answer;
    if (!write_message(*alone.stream, request, chunk) ||
        !read_message(*alone.stream, answer, chunk)) {
      *why = alone.end();
      return false;
    }
    check_answer(answer);
    return true;
  }

  void stay(int trainer, uint64_t incarnation, std::function<void()> again) override {
    if (beats_.joinable()) return;
    beats_ = std::thread([this, trainer, incarnation, again = std::move(again)] {
      beat(trainer, incarnation, again);
    });
  }

 private:
  struct Asking {
    Asking(ps::Servers::Stub& stub, const std::string& proof,
           std::chrono::milliseconds limit = {}) {
      context.AddMetadata(kTokenKey, proof);
      if (limit.count() > 0) context.set_deadline(std::chrono::system_clock::now() + limit);
      stream = stub.Call(&context);
    }
    ~Asking() {
      if (!ended) end();
    }
    std::string end() {
      context.TryCancel();
      return end_as_is();
    }
    // After a failed call: as the other end has ended it.
    std::string end_as_is() {
      ended = true;
      const grpc::Status status = stream->Finish();
      refused = status.error_code() == grpc::StatusCode::PERMISSION_DENIED;
      const std::string why = status.error_message();
      return why.empty() ? "its answer ended early" : why;
    }
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<ps::Chunk, ps::Chunk>> stream;
    bool ended = false, refused = false;
  };

  bool broken(std::string* why) {
    *why = asking_ ? asking_->end_as_is() : "nothing was asked";
    const bool refused = asking_ && asking_->refused;
    asking_.reset();
    if (refused) {
      throw Error(ErrorKind::permission, cat("server ", endpoint_, " answers: ", *why))
          .fix("start all processes of a job with the same FLAGS_job_token");
    }
    return false;
  }

  void check_answer(const PsMessage& answer) const {
    if (answer.error.empty()) return;
    throw Error(ErrorKind::unavailable, cat("server ", endpoint_, " answers: ", answer.error));
  }

  static std::shared_ptr<grpc::Channel> connected(const std::string& endpoint) {
    grpc::ChannelArguments arguments;
    arguments.SetInt("grpc.enable_http_proxy", 0);  // servers are reached by their own address
    arguments.SetInt("grpc.max_reconnect_backoff_ms", 500);
    // Else a server that comes again is found only after seconds: each try asks for its address.
    arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 100);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepAliveMs);
    const auto silent = static_cast<int>(std::get<int64_t>(get_flag("heartbeat_limit"))) * 1000;
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, silent);
    arguments.SetInt("grpc.min_reconnect_backoff_ms", silent);  // a connection is made within
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    arguments.SetInt("grpc.initial_reconnect_backoff_ms", 100);
    return grpc::CreateCustomChannel(endpoint, channel_credentials(), arguments);
  }

  // A new stream where the old one broke: the server may have started again. And one after so many
  // beats, as a call's memory grows with each of its messages.
  void beat(int trainer, uint64_t incarnation, const std::function<void()>& again) {
    ps::Chunk beat, answer;
    beat.mutable_head()->set_trainer(trainer);
    beat.mutable_head()->set_incarnation(incarnation);
    std::unique_lock lock(mutex_);
    while (!ends_) {
      grpc::ClientContext context;
      context.AddMetadata(kTokenKey, proof_);
      staying_ = &context;
      lock.unlock();
      const auto stream = stub_->Stay(&context, &answer);
      lock.lock();
      bool sent = true;
      for (int beats = 0; sent && !ends_ && beats < kBeatsOfAStream; ++beats) {
        lock.unlock();
        sent = stream->Write(beat);
        lock.lock();
        if (sent) wake_.wait_for(lock, kBeat, [&] { return ends_; });
      }
      lock.unlock();
      stream->WritesDone();
      const bool served = stream->Finish().ok();
      lock.lock();
      staying_ = nullptr;
      if (sent && served) continue;
      wake_.wait_for(lock, kComesBack, [&] { return ends_; });
      if (ends_) break;
      lock.unlock();
      again();
      lock.lock();
    }
  }

  const std::string endpoint_, proof_;
  std::unique_ptr<ps::Servers::Stub> stub_;
  std::unique_ptr<Asking> asking_;  // open from the first request on
  ps::Chunk chunk_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;
  grpc::ClientContext* staying_ = nullptr;
  std::thread beats_;
};

class GrpcService final : public ps::Servers::Service {
 public:
  GrpcService(const std::string& endpoint, PsHandler handler)
      : proof_(proof_for(endpoint)), handler_(std::move(handler)) {}

  grpc::Status Call(grpc::ServerContext* context,
                    grpc::ServerReaderWriter<ps::Chunk, ps::Chunk>* stream) override {
    if (!proved(*context)) return refusal();
    ps::Chunk chunk;
    for (bool goes_on = true; goes_on;) {
      PsMessage request, answer;
      try {
        goes_on = false;  // after a message that is not one of ours nothing else can be read
        if (!read_message(*stream, request, chunk)) break;
        goes_on = true;
        answer = handler_.answer(std::move(request));
      } catch (const std::exception& error) {
        answer = PsMessage{};
        answer.error = error.what();
      }
      goes_on = write_message(*stream, answer, chunk) && goes_on;
    }
    return grpc::Status::OK;
  }

  grpc::Status Stay(grpc::ServerContext* context, grpc::ServerReader<ps::Chunk>* stream,
                    ps::Chunk*) override {
    if (!proved(*context)) return refusal();
    ps::Chunk beat;
    int trainer = -1;
    uint64_t incarnation = 0;
    while (stream->Read(&beat)) {
      trainer = beat.head().trainer();
      incarnation = beat.head().incarnation();
      handler_.alive(trainer, incarnation);
    }
    if (trainer >= 0) handler_.gone(trainer, incarnation);
    return grpc::Status::OK;
  }

 private:
  bool proved(const grpc::ServerContext& context) const {
    const auto given = context.client_metadata().find(kTokenKey);
    return given != context.client_metadata().end() &&
           std::string_view(given->second.data(), given->second.size()) == proof_;
  }
  static grpc::Status refusal() {
    return {grpc::StatusCode::PERMISSION_DENIED, "it was started with another FLAGS_job_token"};
  }

  const std::string proof_;
  PsHandler handler_;
};

class GrpcListener final : public PsListener {
 public:
  GrpcListener(const std::string& endpoint, PsHandler handler)
      : service_(endpoint, std::move(handler)) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // two servers cannot share a port
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kKeepAliveMs / 2);
    builder.AddListeningPort(endpoint, server_credentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (!server_ || port == 0) {
      throw IoError(cat("cannot listen on ", endpoint))
          .fix("choose an address of this machine and a port that no other process has");
    }
  }
  ~GrpcListener() override {
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
    server_->Wait();
  }

 private:
  GrpcService service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

std::unique_ptr<PsChannel> make_ps_channel(const std::string& endpoint) {
  check_plaintext({endpoint});
  return std::make_unique<GrpcChannel>(endpoint);
}

std::unique_ptr<PsListener> make_ps_listener(const std::string& endpoint, PsHandler handler) {
  check_plaintext({endpoint});
  return std::make_unique<GrpcListener>(endpoint, std::move(handler));
}

}  // namespace trireme

#else

namespace trireme {
namespace {

[[noreturn]] void no_grpc(const std::string& endpoint) {
  throw Error(ErrorKind::unimplemented,
              cat("cannot talk to ", endpoint, ": this build of Trireme has no gRPC"))
      .fix("install gRPC (Debian: libgrpc++-dev protobuf-compiler-grpc) and build again");
}

}  // namespace

std::unique_ptr<PsChannel> make_ps_channel(const std::string& endpoint) { no_grpc(endpoint); }
std::unique_ptr<PsListener> make_ps_listener(const std::string& endpoint, PsHandler) {
  no_grpc(endpoint);
}

}  // namespace trireme

#endif
