// The kernel of p.fused: loops over tiles, and one sum behind them while its lines are in the
// cache.
#include <algorithm>
#include <memory>

#include "cpu/kernels/fused_loop.h"
#include "cpu/kernels/register.h"
#include "cpu/tiled_sum.h"

namespace trireme {
namespace {

// Parts are made of units of this many elements: whole tiles of one loop.
constexpr int64_t kUnit = 16 * kTile;
constexpr int64_t kMostParts = 64;

int64_t units_of(const FusedLoop& loop) {
  return std::max<int64_t>(1, (loop.count + kUnit - 1) / kUnit);
}

// The results of one shape, and the sum, if it is over a register of that shape.
struct LoopResults {
  Shape shape;
  std::vector<int> outputs;
  bool sum = false;
};

LoopResults& results_of(std::vector<LoopResults>& all, const Shape& shape) {
  for (LoopResults& one : all) {
    if (one.shape == shape) return one;
  }
  return all.emplace_back(LoopResults{shape});
}

std::vector<LoopResults> by_shape(const KernelSite& site, const TileProgram& program) {
  std::vector<LoopResults> all;
  for (size_t i = 0; i < site.out_size(); ++i) {
    if (program.results[i] < 0) continue;
    results_of(all, site.out_at(i)->shape).outputs.push_back(static_cast<int>(i));
  }
  if (program.sum.reg >= 0) {
    results_of(all, register_shape(site, program, program.sum.reg)).sum = true;
  }
  return all;
}

// A loop with a sum goes through the lines of one chunk after the other; each is added while it is
// in the cache.
struct SummedLoop {
  FusedLoop loop;
  TiledSum sum;
  double divisor = 1;
  int result = 0;
  int64_t together = 1;  // lines that are computed before they are added

  void finish(const KernelArgs& k) const { sum.finish(k.scratch, divisor, k.out<float>(result)); }
  void run(const KernelArgs& k, int64_t chunk) const {
    const auto [first, last] = sum.lines_of(chunk);
    double* sums = sum.start(chunk, k.scratch);
    for (int64_t line = first; line < last; line += together) {
      const TiledSum::Lines some{line, std::min(line + together, last)};
      sum.add(some, loop.run(k, sum.begin(some.first), sum.begin(some.last)), sums);
    }
    if (sum.chunks() == 1) finish(k);
  }
};

BoundKernel fused_kernel(const KernelSite& site) {
  if (!site.decided().program) throw InternalError("a p.fused node has no program");
  const TileProgram& program = *site.decided().program;
  auto loops = std::make_shared<std::vector<FusedLoop>>();
  std::shared_ptr<SummedLoop> summed;
  int64_t units = 0;
  for (const LoopResults& results : by_shape(site, program)) {
    FusedLoop loop = make_fused_loop(site, program, results.shape, results.outputs, results.sum);
    if (results.sum) {
      const auto sum = TiledSum::make(results.shape, program.sum.axes);
      if (!sum || sum->results() != site.out_at(site.out_size() - 1)->shape.count()) {
        throw InternalError(cat("a fused sum does not fit ", results.shape));
      }
      summed = std::make_shared<SummedLoop>(SummedLoop{
          std::move(loop), *sum, program.sum.mean ? static_cast<double>(sum->folded()) : 1.0,
          static_cast<int>(site.out_size()) - 1,
          std::max<int64_t>(1, 4 * kTile / std::max<int64_t>(1, sum->longest_line()))});
    } else {
      units += units_of(loop);
      loops->push_back(std::move(loop));
    }
  }
  const int64_t chunks = summed ? summed->sum.chunks() : 0;
  BoundKernel made(
      [loops, summed, chunks, all = units + chunks](const KernelArgs& k) {
        auto [begin, end] = k.range(all);
        for (int64_t chunk = begin; chunk < std::min(end, chunks); ++chunk) summed->run(k, chunk);
        int64_t before = chunks;  // chunks, and units of the loops passed
        for (const FusedLoop& loop : *loops) {
          const int64_t own = units_of(loop);
          const int64_t first = std::max<int64_t>(begin - before, 0);
          const int64_t last = std::min(end - before, own);
          if (first < last) loop.run(k, first * kUnit, std::min(last * kUnit, loop.count));
          before += own;
        }
      },
      static_cast<int>(std::clamp<int64_t>(units + chunks, 1, kMostParts)));
  if (summed) made.scratch = summed->sum.scratch();
  if (chunks > 1) made.then.emplace_back([summed](const KernelArgs& k) { summed->finish(k); });
  return made;
}

}  // namespace

void add_fused_kernels(Registry& ops) {
  ops.add_kernels("p.fused", {{"tiles", untyped(fused_kernel)}});
}

}  // namespace trireme
