// Waiting until other processes accept connections.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace trireme {

inline constexpr std::chrono::seconds kReadyLimit{180};
inline constexpr std::chrono::milliseconds kNoReadyLimit = std::chrono::hours{24 * 365};

// Returns when every "ip:port" accepts a TCP connection. Error (timeout) after `limit`, listing
// those that do not. `poll` runs between tries and may throw to end the wait.
void wait_server_ready(const std::vector<std::string>& endpoints,
                       std::chrono::milliseconds limit = kReadyLimit,
                       const std::function<void()>& poll = {});

}  // namespace trireme
