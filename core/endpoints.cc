// Takes lists of addresses apart, and refuses what is none.
#include "core/endpoints.h"

#include <charconv>
#include <set>

#include "core/error.h"
#include "core/text.h"

namespace trireme {

std::vector<std::string> parse_endpoints(const std::string& text, const EndpointUse& use) {
  std::vector<std::string> list;
  size_t begin = 0;
  while (true) {
    const size_t comma = text.find(',', begin);
    std::string item = text.substr(begin, comma == std::string::npos ? comma : comma - begin);
    const size_t first = item.find_first_not_of(" \t"), last = item.find_last_not_of(" \t");
    list.push_back(first == std::string::npos ? "" : item.substr(first, last - first + 1));
    if (comma == std::string::npos) break;
    begin = comma + 1;
  }
  check_endpoints(list, use);
  return list;
}

void check_endpoints(const std::vector<std::string>& endpoints, const EndpointUse& use) {
  const auto refuse = [&](const std::string& why) {
    throw Error(cat(use.argument, " is '", join(endpoints, ","), "': ", why))
        .in(use.where)
        .fix(cat("write ", use.argument, " as \"ip:port,ip:port\""));
  };
  if (endpoints.empty()) refuse("it names no endpoint");
  std::set<std::string> seen;
  for (const std::string& endpoint : endpoints) {
    if (endpoint.empty()) refuse("one of its endpoints is blank");
    const size_t colon = endpoint.rfind(':');
    int port = -1;
    if (colon != std::string::npos && colon > 0) {
      const char* end = endpoint.data() + endpoint.size();
      const auto [stop, error] = std::from_chars(endpoint.data() + colon + 1, end, port);
      if (error != std::errc() || stop != end) port = -1;
    }
    if (port < 0 || port > 65535 || endpoint.find_first_of(" \t") != std::string::npos) {
      refuse(cat("'", endpoint, "' is not of the form ip:port"));
    }
    if (!seen.insert(endpoint).second) refuse(cat(endpoint, " is there twice"));
  }
}

}  // namespace trireme
