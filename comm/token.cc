// A keyed hash (HMAC, RFC 2104) over SHA-256, and which addresses are this machine's alone.
#include "comm/token.h"

#include <algorithm>
#include <atomic>

#include "comm/credentials.h"
#include "core/error.h"
#include "core/flags.h"
#include "core/sha256.h"
#include "core/text.h"
#include "core/warning.h"

namespace trireme {
namespace {

constexpr size_t kHashBlock = 64;

std::string bytes_of(const Sha256& digest) { return {digest.begin(), digest.end()}; }

std::string padded(std::string key, unsigned char pad) {
  if (key.size() > kHashBlock) key = bytes_of(sha256(key));
  key.resize(kHashBlock, '\0');
  for (char& each : key) each = static_cast<char>(static_cast<unsigned char>(each) ^ pad);
  return key;
}

bool is_loopback(const std::string& endpoint) {
  const std::string host = endpoint.substr(0, endpoint.rfind(':'));
  return host.starts_with("127.") || host == "localhost" || host == "[::1]" || host == "::1";
}

}  // namespace

std::string token_proof(std::string_view text) {
  const auto token = std::get<std::string>(get_flag("job_token"));
  const std::string inner = bytes_of(sha256(cat(padded(token, 0x36), text)));
  return hex(sha256(padded(token, 0x5c) + inner));
}

void check_plaintext(const std::vector<std::string>& endpoints) {
  const auto policy = std::get<std::string>(get_flag("plaintext"));
  if (policy != "warn" && policy != "refuse" && policy != "allow") {
    throw Error(cat("FLAGS_plaintext is ", policy)).fix("choose warn, refuse or allow");
  }
  if (find_credentials()) return;
  const auto far = std::ranges::find_if_not(endpoints, is_loopback);
  if (far == endpoints.end() || policy == "allow") return;
  const std::string what =
      cat("what goes to ", *far, " is not encrypted, and whoever is on that network can read it");
  if (policy == "refuse") {
    throw Error(ErrorKind::permission, what + " (FLAGS_plaintext=refuse)")
        .fix(
            "give all processes certificates (FLAGS_tls_certificate, FLAGS_tls_key, "
            "FLAGS_tls_authority), or use a network of your own and FLAGS_plaintext=allow");
  }
  static std::atomic<bool> warned{false};  // of one endpoint, whichever comes first
  if (warned.exchange(true)) return;
  warn(what + "; FLAGS_plaintext=allow says that it is so on purpose");
}

}  // namespace trireme
