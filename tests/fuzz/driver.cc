// Drives a fuzz program without libFuzzer: mutates valid inputs, the same ones for the same seed.
//
//   program_fuzz [--runs=N] [--seed=S] [--first=K] [FILE...]
//
// Run K depends on S and K alone, so --first=K --runs=1 repeats it. With files, those are the
// inputs.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>

#include "tests/fuzz/fuzz.h"
#include "tests/support/sanitized.h"

namespace {

using Random = std::mt19937_64;

uint64_t below(Random& random, uint64_t limit) { return limit == 0 ? 0 : random() % limit; }

std::string number_bytes(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

// Numbers at which sizes, counts and signs turn.
std::string edge_number(Random& random) {
  constexpr uint64_t kEdges[] = {0,        1,          127,        128,        255,        16384,
                                 1u << 20, 0x7fffffff, 0x80000000, 0xffffffff, ~0ull >> 1, ~0ull};
  return number_bytes(kEdges[below(random, std::size(kEdges))]);
}

void mutate(std::string& bytes, const std::vector<std::string>& seeds, Random& random) {
  const size_t at = below(random, bytes.size() + 1);
  const size_t span = std::min<size_t>(bytes.size() - at, 1 + below(random, 32));
  switch (below(random, 9)) {
    case 0:
      if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(random, 8)));
      break;
    case 1:
      if (at < bytes.size()) bytes[at] = static_cast<char>(random());
      break;
    case 2:
      bytes.insert(at, 1, static_cast<char>(random()));
      break;
    case 3:
      bytes.erase(at, span);
      break;
    case 4:
      bytes.insert(at, bytes.substr(at, span));
      break;
    case 5:
      bytes.resize(at);
      break;
    case 6:
      bytes.replace(at, span, edge_number(random));
      break;
    case 7: {  // a piece of another input
      const std::string& other = seeds[below(random, seeds.size())];
      const size_t from = below(random, other.size());
      bytes.insert(at, other.substr(from, 1 + below(random, 64)));
      break;
    }
    default:  // small numbers are numbers of fields, types and blocks
      if (at < bytes.size()) bytes[at] = static_cast<char>(below(random, 32));
  }
}

// Protobuf fields, split without knowing what they mean.
struct Field {
  std::string head;   // the tag; for lengths, the length follows when written
  std::string value;  // of a field with a length, without it
  bool has_length = false;
};

bool take_varint(std::string_view& bytes, uint64_t& value) {
  value = 0;
  for (size_t i = 0; i < bytes.size() && i < 10; ++i) {
    value |= static_cast<uint64_t>(bytes[i] & 0x7f) << (7 * i);
    if ((bytes[i] & 0x80) == 0) {
      bytes.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

// Empty where the bytes are not fields.
std::vector<Field> split(std::string_view bytes) {
  std::vector<Field> fields;
  while (!bytes.empty()) {
    const std::string_view start = bytes;
    uint64_t tag = 0, size = 0;
    if (!take_varint(bytes, tag)) return {};
    Field field;
    field.head = start.substr(0, start.size() - bytes.size());
    const std::string_view after = bytes;
    if ((tag & 7) == 0) {
      if (!take_varint(bytes, size)) return {};
      size = after.size() - bytes.size();
      bytes = after;
    } else if ((tag & 7) == 2) {
      field.has_length = true;
      if (!take_varint(bytes, size)) return {};
    } else {
      size = (tag & 7) == 1 ? 8 : 4;
      if ((tag & 7) != 1 && (tag & 7) != 5) return {};
    }
    if (size > bytes.size()) return {};
    field.value = bytes.substr(0, size);
    bytes.remove_prefix(size);
    fields.push_back(std::move(field));
  }
  return fields;
}

// Changes one field somewhere inside and keeps all lengths right, so that the change is not just a
// broken file. Stops at a random depth.
std::string mutate_fields(const std::string& bytes, Random& random) {
  std::vector<Field> fields = split(bytes);
  if (fields.empty()) return bytes;
  Field& field = fields[below(random, fields.size())];
  const bool message = field.has_length && !split(field.value).empty();
  if (message && below(random, 8) != 0) {
    field.value = mutate_fields(field.value, random);
  } else {
    Field& other = fields[below(random, fields.size())];
    switch (below(random, 6)) {
      case 0:
        fields.erase(fields.begin() + (&field - fields.data()));
        break;
      case 1:
        fields.push_back(Field(field));
        break;
      case 2:
        std::swap(field, other);
        break;
      case 3:
        field.value = other.value;
        break;
      case 4:
        if (!field.has_length) {
          field.value = below(random, 2) ? number_bytes(below(random, 24)) : edge_number(random);
        } else {
          field.value.resize(below(random, field.value.size() + 4), 'x');
        }
        break;
      default:
        field.head = number_bytes(below(random, 24) << 3 | (field.has_length ? 2 : 0));
    }
  }
  std::string written;
  for (const Field& part : fields) {
    written += part.head;
    if (part.has_length) written += number_bytes(part.value.size());
    written += part.value;
  }
  return written;
}

std::string mutated(const std::vector<std::string>& seeds, uint64_t seed, uint64_t run) {
  std::seed_seq both{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                     static_cast<uint32_t>(run), static_cast<uint32_t>(run >> 32)};
  Random random(both);
  std::string bytes = seeds[below(random, seeds.size())];
  const bool by_field = below(random, 2) == 0;
  for (uint64_t times = 1 + below(random, 4); times > 0; --times) {
    if (by_field) {
      bytes = mutate_fields(bytes, random);
    } else {
      mutate(bytes, seeds, random);
    }
  }
  return bytes;
}

void try_one(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

char crash_text[160];

void on_crash(int signal) {
  // Only what is safe in a signal handler; the text was made before.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, crash_text, std::strlen(crash_text));
  ::signal(signal, SIG_DFL);
  raise(signal);
}

long peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

uint64_t number(std::string_view text) { return std::stoull(std::string(text)); }

}  // namespace

int main(int argc, char** argv) {
  uint64_t runs = 20000, seed = 1, first = 0;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg.starts_with("--runs=")) {
      runs = number(arg.substr(7));
    } else if (arg.starts_with("--seed=")) {
      seed = number(arg.substr(7));
    } else if (arg.starts_with("--first=")) {
      first = number(arg.substr(8));
    } else if (arg.starts_with("-")) {
      std::fprintf(stderr, "usage: %s [--runs=N] [--seed=S] [--first=K] [FILE...]\n", argv[0]);
      return 2;
    } else {
      files.emplace_back(arg);
    }
  }
  for (const std::string& file : files) {
    std::ifstream in(file, std::ios::binary);
    if (!in) {
      std::fprintf(stderr, "%s cannot be read\n", file.c_str());
      return 2;
    }
    try_one({std::istreambuf_iterator<char>(in), {}});
  }
  if (!files.empty()) return 0;

  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE}) ::signal(signal, on_crash);
  const std::vector<std::string> seeds = trireme::testing::fuzz_seeds();
  for (const std::string& bytes : seeds) try_one(bytes);
  const long before = peak_mib();
  const auto start = std::chrono::steady_clock::now();
  std::printf("seed %llu, runs %llu to %llu\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(first + runs));
  std::fflush(stdout);
  for (uint64_t run = first; run < first + runs; ++run) {
    std::snprintf(crash_text, sizeof crash_text,
                  "crashed: repeat with --seed=%llu --first=%llu --runs=1\n",
                  static_cast<unsigned long long>(seed), static_cast<unsigned long long>(run));
    try_one(mutated(seeds, seed, run));
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%llu inputs in %.1f s, %llu accepted; peak memory %ld MiB, %ld MiB before\n",
              static_cast<unsigned long long>(runs), took.count(),
              static_cast<unsigned long long>(trireme::testing::accepted_inputs), peak_mib(),
              before);
  // Inputs are a few KiB, and reading them needs little more.
  constexpr long kAllowedMib = 64;
  if (!trireme::testing::kSanitized && peak_mib() > before + kAllowedMib) {
    std::fprintf(stderr, "memory grew by more than %ld MiB\n", kAllowedMib);
    return 1;
  }
  return 0;
}
