// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3") and what is drawn
// from it.
#include "core/random.h"

#include <cmath>
#include <numbers>
#include <random>

namespace trireme {
namespace {

constexpr uint32_t high(uint64_t value) { return static_cast<uint32_t>(value >> 32); }
constexpr uint32_t low(uint64_t value) { return static_cast<uint32_t>(value); }

// The top 53 of the 64 bits in two words, as a fraction in [0, 1).
double fraction(uint32_t first, uint32_t second) {
  return static_cast<double>((uint64_t{first} << 32 | second) >> 11) * 0x1p-53;
}

// The SplitMix64 finisher: nearby inputs give unrelated outputs.
uint64_t scramble(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

}  // namespace

std::array<uint32_t, 4> Philox::block(uint64_t index) const {
  std::array<uint32_t, 4> counter{low(index), high(index), low(stream_), high(stream_)};
  uint32_t key0 = low(seed_);
  uint32_t key1 = high(seed_);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xd2511f53u} * counter[0];
    const uint64_t product1 = uint64_t{0xcd9e8d57u} * counter[2];
    counter = {high(product1) ^ counter[1] ^ key0, low(product1),
               high(product0) ^ counter[3] ^ key1, low(product0)};
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return counter;
}

double Philox::uniform(uint64_t i) const {
  i += first_;
  const std::array<uint32_t, 4> words = block(i / 2);
  return i % 2 == 0 ? fraction(words[0], words[1]) : fraction(words[2], words[3]);
}

double Philox::normal(uint64_t i) const {
  i += first_;
  // One block makes a pair of normals: elements 2k and 2k + 1 share it.
  const std::array<uint32_t, 4> words = block(i / 2);
  const double radius = std::sqrt(-2.0 * std::log(1.0 - fraction(words[0], words[1])));
  const double angle = 2.0 * std::numbers::pi * fraction(words[2], words[3]);
  return radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

double Philox::truncated_normal(uint64_t i) const {
  i += first_;
  const Philox own(seed_, scramble(stream_ ^ scramble(i + 0x9e3779b97f4a7c15u)));
  for (uint64_t attempt = 0;; ++attempt) {  // 95 % of draws are accepted
    const double value = own.normal(attempt);
    if (std::abs(value) <= 2.0) return value;
  }
}

uint64_t stream_of(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

uint64_t fresh_seed() {
  std::random_device device;
  uint64_t seed = 0;
  while (seed == 0) seed = uint64_t{device()} << 32 | device();
  return seed;
}

}  // namespace trireme
