// By what processes of a job know each other when they talk encrypted (FLAGS_tls_...).
#pragma once

#include <optional>
#include <string>

namespace trireme {

struct Credentials {
  std::string certificate, key, authority;  // PEM texts
};

// None: FLAGS_tls_certificate, tls_key and tls_authority are all empty. Some of them, or a file
// that cannot be read, is an Error.
std::optional<Credentials> find_credentials();

}  // namespace trireme
