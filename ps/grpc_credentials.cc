// gRPC's own TLS with certificates on both sides.
#include "ps/grpc_credentials.h"

#ifdef TRIREME_HAVE_GRPC

#include "comm/credentials.h"

namespace trireme {

std::shared_ptr<grpc::ChannelCredentials> channel_credentials() {
  const auto mine = find_credentials();
  if (!mine) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({.pem_root_certs = mine->authority,
                               .pem_private_key = mine->key,
                               .pem_cert_chain = mine->certificate});
}

std::shared_ptr<grpc::ServerCredentials> server_credentials() {
  const auto mine = find_credentials();
  if (!mine) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = mine->authority;
  options.pem_key_cert_pairs.push_back({mine->key, mine->certificate});
  return grpc::SslServerCredentials(options);
}

}  // namespace trireme

#endif
