// Reading the files that flags name.
#include "comm/credentials.h"

#include <array>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "core/flags.h"
#include "core/text.h"

namespace trireme {

std::optional<Credentials> find_credentials() {
  constexpr std::array kFlags = {"tls_certificate", "tls_key", "tls_authority"};
  std::array<std::string, kFlags.size()> paths, texts;
  size_t given = 0;
  for (size_t i = 0; i < kFlags.size(); ++i) {
    paths[i] = std::get<std::string>(get_flag(kFlags[i]));
    given += paths[i].empty() ? 0 : 1;
  }
  if (given == 0) return std::nullopt;
  for (size_t i = 0; i < kFlags.size(); ++i) {
    if (paths[i].empty()) {
      throw Error(ErrorKind::precondition, cat("FLAGS_", kFlags[i],
                                               " is not set, but others of "
                                               "FLAGS_tls_... are"))
          .fix("set FLAGS_tls_certificate, FLAGS_tls_key and FLAGS_tls_authority, or none of them");
    }
    std::ifstream file(paths[i], std::ios::binary);
    std::ostringstream text;
    if (!file || !(text << file.rdbuf())) {
      throw IoError(cat("FLAGS_", kFlags[i], " names ", paths[i], ", which cannot be read"))
          .fix("give the path of a file in PEM format that this process may read");
    }
    texts[i] = text.str();
  }
  return Credentials{.certificate = texts[0], .key = texts[1], .authority = texts[2]};
}

}  // namespace trireme
