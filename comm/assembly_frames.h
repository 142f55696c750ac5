// What the processes of a group say to each other apart from what they exchange, and how often.
#pragma once

#include <chrono>
#include <cstdint>

namespace trireme {

enum AssemblyFrame : uint8_t {
  hello,
  challenge,
  proof,
  refusal,
  text,     // to rank 0, of an exchange
  texts,    // all of them, back
  where,    // to rank 0: what its sender takes part in
  summary,  // from rank 0: how far the last of them is
  look,     // to rank 0: its sender wants to know of all
  table,    // the answer
  ask,      // whoever gets it says soon where it is; rank 0 passes it on
  failed,
  bye
};

constexpr const char* kAssemblyProtocol = "trireme assembly 2";
constexpr std::chrono::milliseconds kBeatEvery{1000};
constexpr std::chrono::milliseconds kFastBeat{10};      // someone wants to leave a small group
constexpr std::chrono::milliseconds kTry{200};          // pause between calls
constexpr std::chrono::milliseconds kGreetLimit{5000};  // one that has been called answers within
constexpr std::chrono::milliseconds kLeaveLimit{3000};

}  // namespace trireme
