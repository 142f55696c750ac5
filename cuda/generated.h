// Kernels that are CUDA text: asked for when a plan is bound, compiled together at the first
// launch.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "ir/kernel.h"

namespace trireme::cuda {

// A kernel's text has the form of `body` below; `TR_KERNEL` stands for its name, which follows from
// the text. It is called with addresses and whole numbers, as many as it says:
//   TR_KERNEL(p, d): p.at[i] is the i-th address, d.v[i] the i-th number.
struct KernelText {
  std::string body;  // statements
  int addresses = 0;
  int numbers = 0;
};

class Generated;  // one text and what it became on each card

// The same text gives the same one. Any thread may ask.
std::shared_ptr<Generated> generated(const KernelText& text);

struct Launch {
  std::shared_ptr<Generated> kernel;
  int64_t blocks = 1;
  int threads = 1;
  std::vector<int64_t> numbers;
};

// The addresses of a launch: as many as fit a kernel's arguments, beside its numbers.
class AddressList {
 public:
  AddressList() {}  // NOLINT: what is not pushed is not read
  AddressList(std::initializer_list<const void*> all) {
    for (const void* one : all) push_back(one);
  }
  void push_back(const void* one) {
    promise(count_ < at_.size(), "a kernel has at most 384 operands");
    at_[count_++] = one;
  }
  const void* const* data() const { return at_.data(); }

 private:
  std::array<const void*, 384> at_;
  size_t count_ = 0;
};

// What one of several launches of one kernel is given.
struct LaunchArguments {
  int64_t blocks;
  const int64_t* numbers;
  const void* const* addresses;
};
int address_count(const Generated& kernel);
// How many launches of it may go as one: a kernel's arguments have a limit.
size_t most_joined(const Generated& kernel);
// So many at most; each runs as it would alone, none behind another.
void launch_joined(const std::shared_ptr<Generated>& kernel, int threads,
                   const std::vector<LaunchArguments>& members, Queue& queue);

// Puts the kernel into the queue; compiles whatever was asked for and is not compiled yet.
void launch(const Launch& what, const AddressList& addresses, Queue& queue);

// For tests: the text that compilers see, of all kernels that were asked for, and their names.
std::string prelude_text();  // what every program begins with
struct GeneratedText {
  std::string name, text;
};
std::vector<GeneratedText> all_generated_texts();
void ask_for_joined_texts(size_t members);  // of every fourth of them
// Machine code of the texts for an architecture such as "sm_90"; an Error holds NVRTC's log.
std::string compile_texts(const std::vector<GeneratedText>& texts, const std::string& architecture);

}  // namespace trireme::cuda
