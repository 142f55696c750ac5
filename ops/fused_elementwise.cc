#include "ops/fused_elementwise.h"

#include <algorithm>
#include <map>
#include <memory>

#include "ops/fused_loop.h"

namespace trireme {

Attrs FusedProgram::to_attrs() const {
  std::vector<int32_t> code, shared;
  for (const Step& step : steps) {
    code.push_back(static_cast<int32_t>(step.op));
    code.insert(code.end(), step.in, step.in + 3);
  }
  for (const auto& [in, out] : in_place) shared.insert(shared.end(), {in, out});
  return {{"constants", constants},
          {"steps", code},
          {"results", std::vector<int32_t>(results.begin(), results.end())},
          {"in_place", shared}};
}

FusedProgram FusedProgram::from_attrs(const Attrs& attrs) {
  const auto ints = [&](const char* name) {
    return attr_as<std::vector<int32_t>>(attrs.find(name)->second, name);
  };
  FusedProgram program;
  program.constants = attr_as<std::vector<float>>(attrs.find("constants")->second, "constants");
  const std::vector<int32_t> code = ints("steps"), shared = ints("in_place");
  for (size_t i = 0; i < code.size(); i += 4) {
    program.steps.push_back(
        {static_cast<TileOp>(code[i]), {code[i + 1], code[i + 2], code[i + 3]}});
  }
  for (const int32_t result : ints("results")) program.results.push_back(result);
  for (size_t i = 0; i < shared.size(); i += 2) {
    program.in_place.emplace_back(shared[i], shared[i + 1]);
  }
  return program;
}

namespace {

// Parts are made of units of this many elements: whole tiles of one loop.
constexpr int64_t kUnit = 16 * kTile;
constexpr int64_t kMostParts = 64;

int64_t units_of(const FusedLoop& loop) {
  return std::max<int64_t>(1, (loop.count + kUnit - 1) / kUnit);
}

BoundKernel fused_kernel(const KernelSite& site) {
  const FusedProgram program = FusedProgram::from_attrs(site.attrs());
  std::vector<std::vector<int>> by_shape;  // results
  for (int i = 0; i < static_cast<int>(site.out_size()); ++i) {
    const auto same = std::find_if(by_shape.begin(), by_shape.end(), [&](const auto& others) {
      return site.out_at(static_cast<size_t>(others[0]))->shape ==
             site.out_at(static_cast<size_t>(i))->shape;
    });
    if (same == by_shape.end()) {
      by_shape.push_back({i});
    } else {
      same->push_back(i);
    }
  }
  auto loops = std::make_shared<std::vector<FusedLoop>>();
  int64_t units = 0;
  for (const std::vector<int>& outputs : by_shape) {
    loops->push_back(make_fused_loop(site, program, outputs));
    units += units_of(loops->back());
  }
  return {[loops, units](const KernelArgs& k) {
            auto [begin, end] = k.range(units);
            int64_t before = 0;  // units of the loops passed
            for (const FusedLoop& loop : *loops) {
              const int64_t own = units_of(loop);
              const int64_t first = std::max<int64_t>(begin - before, 0);
              const int64_t last = std::min(end - before, own);
              if (first < last) {
                loop.run(k, first * kUnit, std::min(last * kUnit, loop.count));
              }
              before += own;
            }
          },
          static_cast<int>(std::clamp<int64_t>(units, 1, kMostParts))};
}

}  // namespace

void register_fused_elementwise(Registry& ops) {
  ops.primitive("p.fused")
      .doc("A chain of elementwise primitives; shapes are inferred by its parts")
      .in_list("X", "float32, and bool as masks")
      .out_list("Out", "what others read of the chain")
      .required_attr<std::vector<float>>("constants", "numbers that steps read")
      .required_attr<std::vector<int32_t>>("steps", "four numbers each: op and three registers")
      .required_attr<std::vector<int32_t>>("results", "the register of each result")
      .required_attr<std::vector<int32_t>>("in_place", "pairs of operand and result")
      .kernel(untyped(fused_kernel), "tiles");
  ops.primitive("p.group")
      .doc("Nodes that run as one instruction; each has its own kernel")
      .in_list("X", "what its members read, one after another")
      .out_list("Out", "what its members write");
}

}  // namespace trireme
