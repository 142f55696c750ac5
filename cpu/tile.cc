// Loops over one tile, one per step; the compiler makes them for every vector width.
#include "cpu/tile.h"

#include <bit>
#include <utility>

#include "cpu/element_math.h"
#include "cpu/independent.h"
#include "cpu/vectorised.h"

namespace trireme {
namespace {

struct Each {
  const float* from;
  float operator[](int64_t i) const { return from[i]; }
};
struct Fixed {
  float value;
  float operator[](int64_t) const { return value; }
};

int32_t bits(float mask) { return std::bit_cast<int32_t>(mask); }
float as_mask(bool holds) { return std::bit_cast<float>(-static_cast<int32_t>(holds)); }

class Interpreter {
 public:
  Interpreter(float* const* registers, int64_t n) : registers_(registers), n_(n) {}

  void run(const TileStep& s) const {
    switch (s.op) {
      case TileOp::copy:
        return one(s, [](float a) { return a; });
      case TileOp::neg:
        return one(s, element::neg);
      case TileOp::abs:
        return one(s, element::abs);
      case TileOp::sign:
        return one(s, element::sign);
      case TileOp::square:
        return one(s, element::square);
      case TileOp::exp:
        return one(s, element::exp);
      case TileOp::log:
        return one(s, element::log);
      case TileOp::log1p:
        return one(s, element::log1p);
      case TileOp::sqrt:
        return one(s, element::sqrt);
      case TileOp::rsqrt:
        return one(s, element::rsqrt);
      case TileOp::reciprocal:
        return one(s, element::reciprocal);
      case TileOp::tanh:
        return one(s, element::tanh);
      case TileOp::sigmoid:
        return one(s, element::sigmoid);
      case TileOp::sin:
        return one(s, element::sin);
      case TileOp::cos:
        return one(s, element::cos);
      case TileOp::erf:
        return one(s, element::erf);
      case TileOp::floor:
        return one(s, element::floor);
      case TileOp::ceil:
        return one(s, element::ceil);
      case TileOp::round:
        return one(s, element::round);
      case TileOp::add:
        return two(s, element::add);
      case TileOp::sub:
        return two(s, element::sub);
      case TileOp::mul:
        return two(s, element::mul);
      case TileOp::div:
        return two(s, element::div);
      case TileOp::pow:
        return two(s, element::pow);
      case TileOp::max:
        return two(s, element::max);
      case TileOp::min:
        return two(s, element::min);
      case TileOp::mod:
        return two(s, element::mod);
      case TileOp::floordiv:
        return two(s, element::floordiv);
      case TileOp::eq:
        return compare(s, element::eq);
      case TileOp::ne:
        return compare(s, element::ne);
      case TileOp::lt:
        return compare(s, element::lt);
      case TileOp::le:
        return compare(s, element::le);
      case TileOp::gt:
        return compare(s, element::gt);
      case TileOp::ge:
        return compare(s, element::ge);
      case TileOp::mask_not:
        return one(s, [](float a) { return std::bit_cast<float>(~bits(a)); });
      case TileOp::mask_and:
        return two(s, [](float a, float b) { return std::bit_cast<float>(bits(a) & bits(b)); });
      case TileOp::mask_or:
        return two(s, [](float a, float b) { return std::bit_cast<float>(bits(a) | bits(b)); });
      case TileOp::mask_xor:
        return two(s, [](float a, float b) { return std::bit_cast<float>(bits(a) ^ bits(b)); });
      case TileOp::select:
        return choose(s);
    }
  }

 private:
  // Calls f with the operand as an array, or as the one number that it is.
  template <class F>
  void with(const TileStep& s, int i, const F& f) const {
    const float* from = registers_[s.in[i]];
    if (s.fixed >> i & 1) {
      f(Fixed{*from});
    } else {
      f(Each{from});
    }
  }

  template <class F>
  void one(const TileStep& s, const F& f) const {
    float* out = registers_[s.out];
    with(s, 0, [&](auto a) {
      TRIREME_INDEPENDENT
      for (int64_t i = 0; i < n_; ++i) out[i] = static_cast<float>(f(a[i]));
    });
  }

  template <class F>
  void two(const TileStep& s, const F& f) const {
    float* out = registers_[s.out];
    with(s, 0, [&](auto a) {
      with(s, 1, [&](auto b) {
        TRIREME_INDEPENDENT
        for (int64_t i = 0; i < n_; ++i) out[i] = static_cast<float>(f(a[i], b[i]));
      });
    });
  }

  template <class F>
  void compare(const TileStep& s, const F& f) const {
    two(s, [&f](float a, float b) { return as_mask(f(a, b)); });
  }

  // Chosen as bits: both sides are read, none is computed with.
  void choose(const TileStep& s) const {
    float* out = registers_[s.out];
    with(s, 0, [&](auto mask) {
      with(s, 1, [&](auto yes) {
        with(s, 2, [&](auto no) {
          TRIREME_INDEPENDENT
          for (int64_t i = 0; i < n_; ++i) {
            out[i] = std::bit_cast<float>((bits(yes[i]) & bits(mask[i])) |
                                          (bits(no[i]) & ~bits(mask[i])));
          }
        });
      });
    });
  }

  float* const* registers_;
  int64_t n_;
};

}  // namespace

void run_tile(std::span<const TileStep> steps, float* const* registers, int64_t n) {
  vectorised([=] {
    const Interpreter interpreter(registers, n);
    for (const TileStep& step : steps) interpreter.run(step);
  });
}

void mask_from_bools(const bool* from, float* mask, int64_t n) {
  vectorised([=] {
    for (int64_t i = 0; i < n; ++i) mask[i] = as_mask(from[i]);
  });
}

void bools_from_mask(const float* mask, bool* to, int64_t n) {
  vectorised([=] {
    for (int64_t i = 0; i < n; ++i) to[i] = bits(mask[i]) != 0;
  });
}

}  // namespace trireme
