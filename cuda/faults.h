// What a kernel of a GPU finds wrong with its operands, told when the host waits for the queue.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::cuda {

// One a queue, in memory that host and card both see. The first fault stays until it is told.
struct alignas(16) FaultWord {
  long long position = 0, value = 0;
  int code = 0;  // 0: none
  int unused = 0;
};

// "<what> <value> at position <position> of <rest>", with what to do about it.
struct FaultText {
  std::string what, rest, fix;
};

// The number under which kernels report it. Equal texts have one number.
int fault_code(const FaultText& text);
// Throws the Error of a fault and forgets it; nothing where there is none.
void tell_fault(FaultWord& word);

}  // namespace trireme::cuda
