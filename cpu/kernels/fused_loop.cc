// Plans the registers of one loop of a p.fused node, and runs it tile by tile.
#include "cpu/kernels/fused_loop.h"

#include <algorithm>
#include <cstring>

namespace trireme {
namespace {

// Plans the registers of one loop. Vectors are by register of the program.
class LoopMaker {
 public:
  LoopMaker(const KernelSite& site, const TileProgram& program, const Shape& shape,
            const std::vector<int>& outputs, bool sum)
      : site_(site),
        program_(program),
        outputs_(outputs),
        shape_(shape),
        sum_(sum ? program.sum.reg : -1),
        inputs_(static_cast<int>(site.in_size())),
        first_step_(inputs_ + static_cast<int>(program.constants.size())),
        total_(first_step_ + static_cast<int>(program.steps.size())),
        needed_(total_, false),
        fixed_(total_, false),
        last_read_(total_, -1),
        place_(total_, -1) {}

  FusedLoop make() {
    loop_.count = shape_.count();
    find_needed();
    find_fixed();
    find_last_reads();
    place_stores();
    place_loads();
    place_tiles();
    write_steps();
    return std::move(loop_);
  }

 private:
  static bool is_mask(const ValueInfo& info) { return info.dtype == DType::boolean; }
  const int* operands(int reg) const { return program_.steps[reg - first_step_].in; }
  int result(int output) const { return program_.results[static_cast<size_t>(output)]; }

  void find_needed() {
    for (const int output : outputs_) needed_[result(output)] = true;
    if (sum_ >= 0) needed_[sum_] = true;
    for (int r = total_ - 1; r >= first_step_; --r) {
      for (int i = 0; i < 3 && needed_[r]; ++i) {
        if (operands(r)[i] >= 0) needed_[operands(r)[i]] = true;
      }
    }
  }

  // One number for the whole loop: constants, operands of one element, and what is made of those.
  void find_fixed() {
    for (int r = 0; r < total_; ++r) {
      if (!needed_[r]) continue;
      FusedLoop::Number number;
      if (r < inputs_) {
        const ValueInfo& info = *site_.in_at(static_cast<size_t>(r));
        fixed_[r] = info.shape.count() == 1;
        number = {r, 0, is_mask(info)};
      } else if (r < first_step_) {
        fixed_[r] = true;
        number.value = program_.constants[static_cast<size_t>(r - inputs_)];
      } else {
        fixed_[r] =
            std::all_of(operands(r), operands(r) + 3, [&](int in) { return in < 0 || fixed_[in]; });
      }
      if (!fixed_[r]) continue;
      place_[r] = static_cast<int>(loop_.numbers.size());
      loop_.numbers.push_back(number);
    }
  }

  void find_last_reads() {
    for (int r = first_step_; r < total_; ++r) {
      for (int i = 0; i < 3 && needed_[r]; ++i) {
        if (operands(r)[i] >= 0) last_read_[operands(r)[i]] = r;
      }
    }
    for (const int output : outputs_) {
      if (!is_direct(output)) last_read_[result(output)] = total_;
    }
    if (sum_ >= 0) last_read_[sum_] = total_;
  }

  // A step may write into the result unless an operand there is still to be read afterwards.
  bool is_direct(int output) const {
    const int r = result(output);
    if (r < first_step_ || fixed_[r] || is_mask(*site_.out_at(static_cast<size_t>(output))))
      return false;
    for (const int other : outputs_) {
      if (other < output && result(other) == r) return false;  // written by the first of them
    }
    return std::none_of(program_.in_place.begin(), program_.in_place.end(), [&](const auto& pair) {
      return pair.second == output && last_read_[pair.first] > r;
    });
  }

  void place_stores() {
    for (const int output : outputs_) {
      const int r = result(output);
      FusedLoop::Store store{r, output, is_mask(*site_.out_at(static_cast<size_t>(output))),
                             fixed_[r], is_direct(output)};
      if (store.direct) pointers_.push_back(r);
      if (r == sum_ && loop_.summed < 0) loop_.summed = static_cast<int>(loop_.stores.size());
      loop_.stores.push_back(store);
    }
    if (sum_ < 0 || loop_.summed >= 0) return;
    // Nobody else reads it.
    loop_.summed = static_cast<int>(loop_.stores.size());
    loop_.stores.push_back(
        {.reg = sum_, .output = -1, .fixed = fixed_[sum_], .direct = !fixed_[sum_]});
    if (!fixed_[sum_]) pointers_.push_back(sum_);
  }

  void place_loads() {
    for (int r = 0; r < inputs_; ++r) {
      if (!needed_[r] || fixed_[r]) continue;
      const ValueInfo& info = *site_.in_at(static_cast<size_t>(r));
      FusedLoop::Load load{r, r, is_mask(info), nullptr};
      if (info.shape.count() != loop_.count) {
        load.walk = std::make_shared<const Walk<1>>(
            shape_, std::array<Strides, 1>{broadcast_strides(info.shape, shape_)});
      }
      if (load.walk || load.mask) {
        tiles_.push_back({r, -1, total_});
      } else {
        pointers_.push_back(r);
      }
      loop_.loads.push_back(std::move(load));
    }
    for (int r = first_step_; r < total_; ++r) {
      const bool pointer = std::find(pointers_.begin(), pointers_.end(), r) != pointers_.end();
      if (needed_[r] && !fixed_[r] && !pointer) tiles_.push_back({r, r, last_read_[r]});
    }
  }

  // A buffer serves again once the last step that reads it is past.
  void place_tiles() {
    const int numbers = static_cast<int>(loop_.numbers.size());
    std::vector<int> busy_until;  // by buffer
    for (const Tile& tile : tiles_) {
      size_t buffer = 0;
      while (buffer < busy_until.size() && busy_until[buffer] >= tile.first) ++buffer;
      if (buffer == busy_until.size()) busy_until.push_back(0);
      busy_until[buffer] = tile.last;
      place_[tile.reg] = numbers + static_cast<int>(buffer);
    }
    loop_.buffers = static_cast<int>(busy_until.size());
    for (const int r : pointers_) place_[r] = numbers + loop_.buffers + loop_.pointers++;
    for (FusedLoop::Load& load : loop_.loads) load.reg = place_[load.reg];
    for (FusedLoop::Store& store : loop_.stores) store.reg = place_[store.reg];
  }

  void write_steps() {
    for (int r = first_step_; r < total_; ++r) {
      if (!needed_[r]) continue;
      TileStep step{.op = program_.steps[static_cast<size_t>(r - first_step_)].op,
                    .out = static_cast<int16_t>(place_[r])};
      for (int i = 0; i < 3; ++i) {
        const int in = operands(r)[i];
        if (in < 0) continue;
        step.in[i] = static_cast<int16_t>(place_[in]);
        if (fixed_[in]) step.fixed |= static_cast<uint8_t>(1 << i);
      }
      (fixed_[r] ? loop_.once : loop_.steps).push_back(step);
    }
  }

  struct Tile {
    int reg, first, last;  // steps, as registers: written by the first, read until the last
  };

  const KernelSite& site_;
  const TileProgram& program_;
  const std::vector<int>& outputs_;
  const Shape& shape_;
  int sum_;  // a register, or -1
  int inputs_, first_step_, total_;
  std::vector<bool> needed_, fixed_;
  std::vector<int> last_read_, place_;
  std::vector<Tile> tiles_;
  std::vector<int> pointers_;
  FusedLoop loop_;
};

// Asks for the tile after this one: the hardware looks ahead only within a page, and a tile is as
// long as one.
void ask_for(const float* tile) {
  constexpr int64_t kLine = 16;
  for (int64_t i = 0; i < kTile; i += kLine) __builtin_prefetch(tile + i, 0, 2);
}

void load_tile(const KernelArgs& k, const FusedLoop::Load& load, float** registers, int64_t first,
               int64_t n, bool last) {
  if (!load.walk && !load.mask) {
    registers[load.reg] = const_cast<float*>(k.in<float>(load.input)) + first;
    if (!last) ask_for(registers[load.reg] + kTile);
    return;
  }
  float* tile = registers[load.reg];
  if (!load.walk) {
    mask_from_bools(k.in<bool>(load.input) + first, tile, n);
    return;
  }
  const int64_t step = load.walk->step(0);
  load.walk->runs({first, first + n}, [&](int64_t position, const auto& offset, int64_t length) {
    float* to = tile + (position - first);
    if (load.mask) {
      const bool* from = k.in<bool>(load.input) + offset[0];
      for (int64_t i = 0; i < length; ++i) mask_from_bools(from + i * step, to + i, 1);
      return;
    }
    const float* from = k.in<float>(load.input) + offset[0];
    if (step == 1) {
      std::memcpy(to, from, static_cast<size_t>(length) * sizeof(float));
    } else {
      std::fill_n(to, length, *from);
    }
  });
}

void store_mask(const KernelArgs& k, const FusedLoop::Store& store, const float* tile,
                int64_t first, int64_t n) {
  bool* to = k.out<bool>(store.output) + first;
  bools_from_mask(tile, to, store.fixed ? 1 : n);
  if (store.fixed) std::fill_n(to, n, *to);
}

void store_tile(const FusedLoop::Store& store, const float* tile, float* to, int64_t n) {
  if (store.fixed) {
    std::fill_n(to, n, *tile);
  } else {
    std::memcpy(to, tile, static_cast<size_t>(n) * sizeof(float));
  }
}

}  // namespace

Shape register_shape(const KernelSite& site, const TileProgram& program, int reg) {
  const int inputs = static_cast<int>(site.in_size());
  const int first_step = inputs + static_cast<int>(program.constants.size());
  if (reg < inputs) return site.in_at(static_cast<size_t>(reg))->shape;
  if (reg < first_step) return {};
  // One number may stand under another shape than its operand has: it says nothing about the rank.
  Shape shape, of_number;
  for (const int in : program.steps[static_cast<size_t>(reg - first_step)].in) {
    if (in < 0) continue;
    const Shape operand = register_shape(site, program, in);
    Shape& joined = operand.count() == 1 ? of_number : shape;
    joined = broadcast_shapes(site, joined, operand, -1);
  }
  return shape.rank() > 0 ? shape : of_number;
}

FusedLoop make_fused_loop(const KernelSite& site, const TileProgram& program, const Shape& shape,
                          const std::vector<int>& outputs, bool sum) {
  return LoopMaker(site, program, shape, outputs, sum).make();
}

const float* FusedLoop::run(const KernelArgs& k, int64_t begin, int64_t end) const {
  // Of the calling thread, kept between calls: a steady step asks for no memory, whichever thread
  // gets which part. As large as any loop of usual size needs; pages that none touches cost
  // nothing.
  thread_local std::unique_ptr<float[]> memory;
  thread_local size_t memory_size = 0;
  thread_local std::vector<float*> registers;
  const size_t first_tile = (numbers.size() + 15) / 16 * 16;
  const size_t first_passing = first_tile + static_cast<size_t>(buffers * kTile);
  // What is added up and kept nowhere else stands behind the tiles.
  const bool passes = summed >= 0 && stores[static_cast<size_t>(summed)].output < 0;
  const size_t floats = first_passing + static_cast<size_t>(passes ? end - begin : 0);
  if (memory_size < floats) {
    memory_size = std::max(floats, static_cast<size_t>(64 * kTile));
    memory.reset(new float[memory_size]);
  }
  const size_t count_of_registers = numbers.size() + static_cast<size_t>(buffers + pointers);
  if (registers.size() < count_of_registers) {
    registers.resize(std::max<size_t>(count_of_registers, 256));
  }
  float** at = registers.data();
  for (int i = 0; i < buffers; ++i) {
    at[numbers.size() + static_cast<size_t>(i)] = memory.get() + first_tile + i * kTile;
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    at[i] = memory.get() + i;
    if (numbers[i].input < 0) {
      *at[i] = numbers[i].value;
    } else if (numbers[i].mask) {
      mask_from_bools(k.in<bool>(numbers[i].input), at[i], 1);
    } else {
      *at[i] = *k.in<float>(numbers[i].input);
    }
  }
  if (!once.empty()) run_tile(once, at, 1);
  const auto place = [&](const Store& store, int64_t first) {
    return store.output < 0 ? memory.get() + first_passing + (first - begin)
                            : k.out<float>(store.output) + first;
  };
  for (int64_t first = begin; first < end; first += kTile) {
    const int64_t n = std::min(kTile, end - first);
    for (const Load& load : loads) load_tile(k, load, at, first, n, first + n == end);
    for (const Store& store : stores) {
      if (store.direct) at[store.reg] = place(store, first);
    }
    run_tile(steps, at, n);
    for (const Store& store : stores) {
      if (store.direct) continue;
      if (store.mask) {
        store_mask(k, store, at[store.reg], first, n);
      } else {
        store_tile(store, at[store.reg], place(store, first), n);
      }
    }
  }
  return summed < 0 ? nullptr : place(stores[static_cast<size_t>(summed)], begin);
}

}  // namespace trireme
