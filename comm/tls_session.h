// One end of an encrypted connection, apart from its socket: bytes of the wire in, plain ones out,
// and back.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace trireme {

class TlsSession {
 public:
  virtual ~TlsSession() = default;
  // Goes out when the ends know each other.
  virtual void write(std::string_view plain) = 0;
  // Appends what came to `plain`; false: the other end is none of ours, see problem().
  virtual bool take(std::string_view wire, std::string& plain) = 0;
  virtual std::string outgoing() = 0;  // bytes for the wire since the last time
  virtual std::string problem() const = 0;
};

// Null where processes have no credentials (comm/credentials.h). Both ends show a certificate that
// the job's authority has signed; that of the end that was called is for `host`, whom the other end
// called. Empty: this end was called.
std::unique_ptr<TlsSession> make_tls_session(const std::string& host);

}  // namespace trireme
