// What gRPC needs to talk encrypted, or in plain text (comm/credentials.h says which).
#pragma once

#ifdef TRIREME_HAVE_GRPC

#include <grpcpp/grpcpp.h>

#include <memory>

namespace trireme {

// Both ends prove that the job's authority has signed them.
std::shared_ptr<grpc::ChannelCredentials> channel_credentials();
std::shared_ptr<grpc::ServerCredentials> server_credentials();

}  // namespace trireme

#endif
