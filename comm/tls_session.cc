// TLS 1.3 by OpenSSL, over memory: sockets are read and written by their owners.
#include "comm/tls_session.h"

#include "comm/credentials.h"
#include "core/error.h"

#ifdef TRIREME_HAVE_TLS

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <mutex>

#include "core/text.h"

namespace trireme {
namespace {

template <auto free>
struct Freed {
  template <class T>
  void operator()(T* made) const {
    free(made);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Context = std::shared_ptr<SSL_CTX>;

std::string last_problem() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason ? reason : "the connection was not set up";
}

[[noreturn]] void refuse_files(const std::string& which) {
  throw Error(ErrorKind::precondition, cat(which, " cannot be used: ", last_problem()))
      .fix("give files in PEM format that belong together");
}

Bio reader(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Context make_context(const Credentials& mine) {
  Context made(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  SSL_CTX_set_min_proto_version(made.get(), TLS1_3_VERSION);
  SSL_CTX_set_num_tickets(made.get(), 0);
  SSL_CTX_set_verify(made.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  const Bio certificates = reader(mine.certificate), key_text = reader(mine.key),
            authorities = reader(mine.authority);
  const Certificate own(PEM_read_bio_X509(certificates.get(), nullptr, nullptr, nullptr));
  if (!own || SSL_CTX_use_certificate(made.get(), own.get()) != 1) {
    refuse_files("the certificate in FLAGS_tls_certificate");
  }
  while (X509* next = PEM_read_bio_X509(certificates.get(), nullptr, nullptr, nullptr)) {
    SSL_CTX_add_extra_chain_cert(made.get(), next);  // it is the context's now
  }
  const Key key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr));
  if (!key || SSL_CTX_use_PrivateKey(made.get(), key.get()) != 1) {
    refuse_files("the key in FLAGS_tls_key");
  }
  int count = 0;
  while (Certificate each{PEM_read_bio_X509(authorities.get(), nullptr, nullptr, nullptr)}) {
    count += X509_STORE_add_cert(SSL_CTX_get_cert_store(made.get()), each.get());
  }
  if (count == 0) refuse_files("the certificate in FLAGS_tls_authority");
  ERR_clear_error();
  return made;
}

// Made once for the same files.
Context context_of(const Credentials& mine) {
  static std::mutex mutex;
  static auto* const kept = new std::pair<std::string, Context>;
  const std::lock_guard lock(mutex);
  const std::string all = mine.certificate + mine.key + mine.authority;
  if (!kept->second || kept->first != all) *kept = {all, make_context(mine)};
  return kept->second;
}

class OpenSslSession final : public TlsSession {
 public:
  OpenSslSession(Context context, const std::string& host)
      : context_(std::move(context)), ssl_(SSL_new(context_.get())) {
    SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));  // they are its own now
    if (host.empty()) {
      SSL_set_accept_state(ssl_.get());
    } else {
      SSL_set_connect_state(ssl_.get());
      if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), host.c_str()) != 1) {
        SSL_set1_host(ssl_.get(), host.c_str());
      }
    }
    go_on();
  }

  void write(std::string_view plain) override {
    waiting_ += plain;
    go_on();
  }

  bool take(std::string_view wire, std::string& plain) override {
    BIO_write(SSL_get_rbio(ssl_.get()), wire.data(), static_cast<int>(wire.size()));
    if (!go_on()) return false;
    char chunk[16384];
    while (true) {
      const int count = SSL_read(ssl_.get(), chunk, sizeof chunk);
      if (count > 0) {
        plain.append(chunk, static_cast<size_t>(count));
        continue;
      }
      return SSL_get_error(ssl_.get(), count) == SSL_ERROR_WANT_READ || fail();
    }
  }

  std::string outgoing() override {
    std::string bytes(BIO_ctrl_pending(SSL_get_wbio(ssl_.get())), '\0');
    if (!bytes.empty()) {
      BIO_read(SSL_get_wbio(ssl_.get()), bytes.data(), static_cast<int>(bytes.size()));
    }
    return bytes;
  }

  std::string problem() const override { return problem_; }

 private:
  bool fail() {
    const long verified = SSL_get_verify_result(ssl_.get());
    const std::string why = last_problem();
    problem_ = verified == X509_V_OK ? why : X509_verify_cert_error_string(verified);
    return false;
  }

  // False: it cannot go on.
  bool go_on() {
    if (!problem_.empty()) return false;
    if (!SSL_is_init_finished(ssl_.get())) {
      const int done = SSL_do_handshake(ssl_.get());
      if (done != 1) return SSL_get_error(ssl_.get(), done) == SSL_ERROR_WANT_READ || fail();
    }
    while (!waiting_.empty()) {
      const int size = static_cast<int>(std::min<size_t>(waiting_.size(), size_t{1} << 30));
      const int count = SSL_write(ssl_.get(), waiting_.data(), size);
      if (count <= 0) return fail();
      waiting_.erase(0, static_cast<size_t>(count));
    }
    return true;
  }

  const Context context_;
  const std::unique_ptr<SSL, Freed<SSL_free>> ssl_;
  std::string waiting_, problem_;
};

}  // namespace

std::unique_ptr<TlsSession> make_tls_session(const std::string& host) {
  const auto mine = find_credentials();
  return mine ? std::make_unique<OpenSslSession>(context_of(*mine), host) : nullptr;
}

}  // namespace trireme

#else

namespace trireme {

std::unique_ptr<TlsSession> make_tls_session(const std::string&) {
  if (!find_credentials()) return nullptr;
  throw Error(ErrorKind::unimplemented,
              "FLAGS_tls_certificate is set, but this build of Trireme has no OpenSSL")
      .fix("install OpenSSL (Debian: libssl-dev) and build again");
}

}  // namespace trireme

#endif
