// Between the files of the oneDNN adaptor: one thread, one stream, primitives with their operands.
// Included only where the library is there.
#pragma once

#include <csignal>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <vector>

#include "core/error.h"

// Of the OpenMP runtime that the library is built on; its header is a compiler's, not the system's.
extern "C" void omp_set_num_threads(int);
extern "C" int omp_get_max_threads();

namespace trireme::onednn {

using dnnl::memory;
using Desc = memory::desc;
using Tag = memory::format_tag;

// The library's generated code keeps numbers below the stack pointer, farther than the system
// spares when a signal arrives: a handler on the same stack would write over them. So the thread
// gets a stack for signals, once; Python and most libraries ask for handlers to run there.
inline void give_signals_a_stack() {
  struct Own {
    std::vector<std::byte> memory;
    Own() {
      stack_t present{};
      if (sigaltstack(nullptr, &present) != 0 || !(present.ss_flags & SS_DISABLE)) return;
      memory.resize(size_t{64} << 10);
      const stack_t made{.ss_sp = memory.data(), .ss_flags = 0, .ss_size = memory.size()};
      sigaltstack(&made, nullptr);
    }
    ~Own() {
      if (memory.empty()) return;
      const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
      sigaltstack(&none, nullptr);
    }
  };
  thread_local Own own;
}

// For as long as it lives, the library works on the calling thread alone. The caller's own setting
// comes back: the thread may be an application's.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    give_signals_a_stack();
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

inline const dnnl::engine& engine() {
  static const dnnl::engine one(dnnl::engine::kind::cpu, 0);
  return one;
}

inline dnnl::stream& stream() {
  thread_local dnnl::stream own(engine());
  return own;
}

// Memory of the calling thread, kept between calls: a steady step asks for none.
inline std::byte* thread_scratch(size_t bytes) {
  struct Block {
    std::byte* data = nullptr;
    size_t size = 0;
    ~Block() { ::operator delete(data, std::align_val_t(64)); }
  };
  thread_local Block block;
  if (block.size < bytes) {
    ::operator delete(block.data, std::align_val_t(64));
    block.data = nullptr;
    block.data = static_cast<std::byte*>(::operator new(bytes, std::align_val_t(64)));
    block.size = bytes;
  }
  return block.data;
}

inline size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

inline dnnl::primitive_attr own_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

inline bool is_reference(const char* implementation) {
  return std::string_view(implementation).starts_with("ref");
}

// One primitive with its operands; pointers are set before each run.
class Call {
 public:
  Call() = default;
  Call(dnnl::primitive primitive, const std::vector<std::pair<int, Desc>>& operands)
      : primitive_(std::move(primitive)) {
    for (const auto& [argument, desc] : operands) {
      memories_.emplace_back(desc, engine(), nullptr);
      arguments_.push_back({argument, memories_.back().get()});
    }
  }
  Call(Call&&) = default;  // a copy would share the operands
  Call& operator=(Call&&) = default;
  explicit operator bool() const { return static_cast<bool>(primitive_); }
  void set(size_t operand, const void* data) {
    memories_[operand].set_data_handle(const_cast<void*>(data));
  }
  void run() {
    const auto status = dnnl_primitive_execute(
        primitive_.get(), stream().get(), static_cast<int>(arguments_.size()), arguments_.data());
    if (status != dnnl_success) throw InternalError("oneDNN: a primitive failed to run");
  }

 private:
  dnnl::primitive primitive_;
  std::vector<memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

// What calls of one primitive are made from.
struct Recipe {
  dnnl::primitive primitive;
  std::vector<std::pair<int, Desc>> operands;
  Call call() const { return {primitive, operands}; }
};

inline Recipe reorder_recipe(const Desc& from, const Desc& to) {
  const dnnl::reorder::primitive_desc made(engine(), from, engine(), to, own_scratchpad());
  return {
      dnnl::reorder(made),
      {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, made.scratchpad_desc()}}};
}
inline Call reorder_call(const Desc& from, const Desc& to) {
  return reorder_recipe(from, to).call();
}
inline constexpr size_t kFrom = 0, kTo = 1;  // operands of a reorder

}  // namespace trireme::onednn
