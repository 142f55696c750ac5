// Asks NVRTC for machine code, keeps it on disk, and launches it.
#include "cuda/generated.h"

#include <cuda_runtime_api.h>
#include <nvrtc.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include <unistd.h>

#include "core/error.h"
#include "core/sha256.h"
#include "core/text.h"
#include "cuda/cuda_device.h"
#include "cuda/cuda_error.h"
#include "cuda/prelude.h"

namespace trireme::cuda {

class Generated {
 public:
  GeneratedText text;
  KernelText from;
  std::array<std::atomic<cudaKernel_t>, 64> by_card{};
};

namespace {

// NVRTC takes about as long for its start as for a small kernel; more than these in one program
// make one core work where several could.
constexpr size_t kBatch = 32;

struct GeneratedTable {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Generated>> by_text;
};

GeneratedTable& table() {
  static auto& all = *new GeneratedTable;
  return all;
}

std::string whole_text(const KernelText& text, const std::string& name) {
  return cat("struct ", name, "_P { char* at[", std::max(text.addresses, 1), "]; };\nstruct ", name,
             "_D { long long v[", std::max(text.numbers, 1), "]; };\nextern \"C\" __global__ void ",
             name, "(const ", name, "_P p, const ", name, "_D d) {\n", text.body, "}\n");
}

// The arguments of a joined launch, as its text declares them: where each member's blocks begin,
// then its numbers and addresses. Entry `members` of `begin` is the number of all blocks.
constexpr size_t kMostArgumentBytes = 32000;

size_t words_of_member(const KernelText& text) {
  return static_cast<size_t>(std::max(text.addresses, 1) + std::max(text.numbers, 1));
}

size_t joined_words(const KernelText& text, size_t members) {
  return members + 1 + members * words_of_member(text);
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

// As the text of one launch, for the member whose blocks this one is among.
std::string joined_text(const KernelText& text, const std::string& name, size_t members) {
  const std::string body =
      replaced(replaced(text.body, "blockIdx.x", "tr_block"), "gridDim.x", "tr_blocks");
  return cat("struct ", name, "_M { long long numbers[", std::max(text.numbers, 1), "]; char* at[",
             std::max(text.addresses, 1), "]; };\nstruct ", name,
             "_P { char* const* at; };\nstruct ", name, "_D { const long long* v; };\nstruct ",
             name, "_A { long long begin[", members + 1, "]; ", name, "_M member[", members,
             "]; };\nextern \"C\" __global__ void ", name, "(const __grid_constant__ ", name,
             "_A tr_a) {\nint tr_m = 0;\nfor (int w = ", members / 2,
             "; w > 0; w /= 2) if (tr_m + w < ", members,
             " && (long long)blockIdx.x >= tr_a.begin[tr_m + w]) tr_m += w;\n"
             "const uint32 tr_block = blockIdx.x - (uint32)tr_a.begin[tr_m], "
             "tr_blocks = (uint32)(tr_a.begin[tr_m + 1] - tr_a.begin[tr_m]);\nconst ",
             name, "_P p = {tr_a.member[tr_m].at}; const ", name,
             "_D d = {tr_a.member[tr_m].numbers};\n", body, "}\n");
}

std::filesystem::path cache_folder() {
  if (const char* own = std::getenv("TRIREME_CUDA_CACHE")) return own;
  if (const char* cache = std::getenv("XDG_CACHE_HOME")) {
    return std::filesystem::path(cache) / "trireme" / "cuda";
  }
  if (const char* home = std::getenv("HOME")) {
    return std::filesystem::path(home) / ".cache" / "trireme" / "cuda";
  }
  return {};
}

std::string program_text(const std::vector<GeneratedText>& texts) {
  std::string program = prelude_text();
  for (const GeneratedText& one : texts) program += one.text;
  return program;
}

// A folder that cannot be read or written costs time, nothing else.
std::string cached_code(const std::vector<GeneratedText>& texts, const std::string& architecture) {
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return compile_texts(texts, architecture);
  int major = 0, minor = 0;
  check(nvrtcVersion(&major, &minor), "nvrtcVersion");
  const std::string key =
      hex(sha256(cat(architecture, " ", major, ".", minor, "\n", program_text(texts))));
  const std::filesystem::path file = folder / (key + ".cubin");
  if (std::ifstream stored(file, std::ios::binary); stored) {
    std::ostringstream all;
    all << stored.rdbuf();
    if (all.str().size() > 0) return all.str();
  }
  std::string code = compile_texts(texts, architecture);
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  // Under a name of its own first: nobody reads half a file.
  const std::filesystem::path fresh = folder / cat(key, ".", getpid());
  std::ofstream(fresh, std::ios::binary) << code;
  std::filesystem::rename(fresh, file, ignored);
  return code;
}

// The call holds the table's lock.
void compile_missing(int card) {
  cudaDeviceProp facts{};
  check(cudaGetDeviceProperties(&facts, card), "cudaGetDeviceProperties");
  const std::string architecture = cat("sm_", facts.major, facts.minor);
  std::vector<std::shared_ptr<Generated>> missing;
  for (const auto& [text, one] : table().by_text) {
    if (!one->by_card[static_cast<size_t>(card)]) missing.push_back(one);
  }
  for (size_t begin = 0; begin < missing.size(); begin += kBatch) {
    const size_t end = std::min(begin + kBatch, missing.size());
    std::vector<GeneratedText> texts;
    for (size_t i = begin; i < end; ++i) texts.push_back(missing[i]->text);
    const std::string code = cached_code(texts, architecture);
    cudaLibrary_t library = nullptr;
    check(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
          "cudaLibraryLoadData");
    for (size_t i = begin; i < end; ++i) {
      cudaKernel_t kernel = nullptr;
      check(cudaLibraryGetKernel(&kernel, library, missing[i]->text.name.c_str()),
            "cudaLibraryGetKernel");
      missing[i]->by_card[static_cast<size_t>(card)] = kernel;
    }
  }
}

cudaKernel_t kernel_on(Generated& one, int card) {
  std::atomic<cudaKernel_t>& kernel = one.by_card.at(static_cast<size_t>(card));
  if (const cudaKernel_t there = kernel.load(std::memory_order_acquire)) return there;
  const std::lock_guard lock(table().mutex);
  if (!kernel.load()) compile_missing(card);
  return kernel.load();
}

}  // namespace

std::string prelude_text() { return kPrelude; }

std::shared_ptr<Generated> generated(const KernelText& text) {
  const std::string key = cat(text.addresses, " ", text.numbers, "\n", text.body);
  const std::lock_guard lock(table().mutex);
  std::shared_ptr<Generated>& one = table().by_text[key];
  if (!one) {
    one = std::make_shared<Generated>();
    one->text.name = "tr_" + hex(sha256(key)).substr(0, 24);
    one->text.text = whole_text(text, one->text.name);
    one->from = text;
  }
  return one;
}

namespace {

// For so many members, a power of two.
std::shared_ptr<Generated> joined(const Generated& alone, size_t members) {
  const std::string key = cat("joined ", members, " ", alone.text.name);
  const std::lock_guard lock(table().mutex);
  std::shared_ptr<Generated>& one = table().by_text[key];
  if (!one) {
    one = std::make_shared<Generated>();
    one->from = alone.from;
    one->text.name = cat(alone.text.name, "_", members);
    one->text.text = joined_text(alone.from, one->text.name, members);
  }
  return one;
}

}  // namespace

void ask_for_joined_texts(size_t members) {
  std::vector<std::shared_ptr<Generated>> alone;
  {
    const std::lock_guard lock(table().mutex);
    for (const auto& [text, one] : table().by_text) alone.push_back(one);
  }
  for (size_t i = 0; i < alone.size(); i += 4) joined(*alone[i], members);
}

int address_count(const Generated& kernel) { return kernel.from.addresses; }

size_t most_joined(const Generated& kernel) {
  size_t most = 1;
  while (joined_words(kernel.from, most * 2) * sizeof(int64_t) <= kMostArgumentBytes) most *= 2;
  return most;
}

void launch_joined(const std::shared_ptr<Generated>& kernel, int threads,
                   const std::vector<LaunchArguments>& members, Queue& queue) {
  auto& own = static_cast<CudaQueue&>(queue);
  own.device.use();
  const KernelText& text = kernel->from;
  size_t room = 1;
  while (room < members.size()) room *= 2;
  const size_t numbers = static_cast<size_t>(std::max(text.numbers, 1));
  std::vector<int64_t> words(joined_words(text, room));
  for (size_t m = 0; m < room; ++m) {
    words[m + 1] = words[m] + (m < members.size() ? members[m].blocks : 0);
    if (m >= members.size()) continue;
    int64_t* const to = words.data() + room + 1 + m * words_of_member(text);
    std::copy_n(members[m].numbers, text.numbers, to);
    for (int i = 0; i < text.addresses; ++i) {
      to[numbers + static_cast<size_t>(i)] =
          static_cast<int64_t>(reinterpret_cast<uintptr_t>(members[m].addresses[i]));
    }
  }
  const std::shared_ptr<Generated> made = room == 1 ? kernel : joined(*kernel, room);
  const int64_t blocks = words[room];
  if (blocks <= 0) return;
  promise(blocks < (int64_t{1} << 31), "blocks have numbers of 31 bits");
  void* arguments[] = {words.data(), nullptr};
  if (room == 1) {
    arguments[0] = const_cast<const void**>(members[0].addresses);
    arguments[1] = const_cast<int64_t*>(members[0].numbers);
  }
  check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel_on(*made, own.device.id())),
                         dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)),
                         arguments, 0, own.stream),
        made->text.name.c_str());
}

void launch(const Launch& what, const AddressList& addresses, Queue& queue) {
  if (what.blocks <= 0) return;
  auto& own = static_cast<CudaQueue&>(queue);
  if (own.members.gathers()) return own.members.add(what, addresses.data());
  if (own.members.waits()) own.members.settle(own);
  own.device.use();
  const cudaKernel_t kernel = kernel_on(*what.kernel, own.device.id());
  void* arguments[] = {const_cast<const void**>(addresses.data()),
                       const_cast<int64_t*>(what.numbers.data())};
  check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel),
                         dim3(static_cast<unsigned>(what.blocks)),
                         dim3(static_cast<unsigned>(what.threads)), arguments, 0, own.stream),
        what.kernel->text.name.c_str());
}

std::vector<GeneratedText> all_generated_texts() {
  const std::lock_guard lock(table().mutex);
  std::vector<GeneratedText> all;
  for (const auto& [text, one] : table().by_text) all.push_back(one->text);
  return all;
}

std::string compile_texts(const std::vector<GeneratedText>& texts,
                          const std::string& architecture) {
  const std::string program = program_text(texts);
  nvrtcProgram compiled = nullptr;
  check(nvrtcCreateProgram(&compiled, program.c_str(), "trireme.cu", 0, nullptr, nullptr),
        "nvrtcCreateProgram");
  const std::string target = "--gpu-architecture=" + architecture;
  // An op's result is rounded before the next op reads it, as on the CPU.
  const char* options[] = {target.c_str(), "--std=c++17", "--fmad=false"};
  const nvrtcResult status = nvrtcCompileProgram(compiled, 3, options);
  if (status != NVRTC_SUCCESS) {
    size_t size = 0;
    nvrtcGetProgramLogSize(compiled, &size);
    std::string log(size, '\0');
    nvrtcGetProgramLog(compiled, log.data());
    nvrtcDestroyProgram(&compiled);
    throw Error(ErrorKind::external, cat("NVRTC cannot compile a generated kernel for ",
                                         architecture, ": ", log.c_str()));
  }
  size_t size = 0;
  check(nvrtcGetCUBINSize(compiled, &size), "nvrtcGetCUBINSize");
  std::string code(size, '\0');
  check(nvrtcGetCUBIN(compiled, code.data()), "nvrtcGetCUBIN");
  nvrtcDestroyProgram(&compiled);
  return code;
}

}  // namespace trireme::cuda
