// "ip:port" addresses of other processes, as users write them.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// Who asks: errors name both.
struct EndpointUse {
  const char* where;     // "DistributeTranspiler"
  const char* argument;  // "pservers"
};

// "ip:port", ... out of a comma list. Errors: blank, malformed or repeated ones.
std::vector<std::string> parse_endpoints(const std::string& text, const EndpointUse& use);
void check_endpoints(const std::vector<std::string>& endpoints, const EndpointUse& use);

}  // namespace trireme
