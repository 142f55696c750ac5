// Texts of loops over shapes and of reductions.
#include "cuda/emit.h"

#include <bit>
#include <cstring>

#include "core/text.h"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = int64_t{1} << 20;

struct MergedDims {
  std::vector<int64_t> extents;             // innermost first
  std::vector<std::vector<int64_t>> steps;  // by dimension, by operand
};

MergedDims merged_dims(const Shape& shape, const std::vector<Strides>& operands) {
  MergedDims dims;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    const int64_t extent = shape.at(d);
    if (extent == 1) continue;
    std::vector<int64_t> step;
    for (const Strides& strides : operands) step.push_back(strides[static_cast<size_t>(d)]);
    bool merges = !dims.extents.empty();
    for (size_t i = 0; merges && i < step.size(); ++i) {
      merges = step[i] == dims.steps.back()[i] * dims.extents.back();
    }
    if (merges) {
      dims.extents.back() *= extent;
    } else {
      dims.extents.push_back(extent);
      dims.steps.push_back(std::move(step));
    }
  }
  return dims;
}

struct FoldAxes {
  std::vector<int64_t> extents, steps;  // innermost first
  int64_t count = 1;

  void add(int64_t extent, int64_t step) {
    count *= extent;
    if (extent == 1) return;
    if (!extents.empty() && steps.back() * extents.back() == step) {
      extents.back() *= extent;
    } else {
      extents.push_back(extent);
      steps.push_back(step);
    }
  }
  // Adds to `sum` what index `of` stands for; numbers from d.v[first].
  std::string text(const char* of, const char* sum, size_t first) const {
    std::string out = cat("uint64 r_", of, " = ", of, ";\n");
    for (size_t i = 0; i < extents.size(); ++i) {
      const std::string extent = cat("(uint64)d.v[", first + 2 * i, "]");
      const std::string step = cat("d.v[", first + 2 * i + 1, "]");
      if (i + 1 == extents.size()) {
        out += cat(sum, " += r_", of, " * ", step, ";\n");
      } else {
        out +=
            cat(sum, " += r_", of, " % ", extent, " * ", step, "; r_", of, " /= ", extent, ";\n");
      }
    }
    return out;
  }
  void append_to(std::vector<int64_t>& numbers) const {
    for (size_t i = 0; i < extents.size(); ++i) {
      numbers.push_back(extents[i]);
      numbers.push_back(steps[i]);
    }
  }
};

std::string block_fold(const Fold& fold, int threads, const std::string& base,
                       const std::string& inner) {
  return cat(
      "__shared__ ", fold.acc, " shared[", threads, "];\n",
      "for (uint64 at = blockIdx.x; at < (uint64)d.v[0]; at += gridDim.x) {\nuint64 base = 0;\n",
      base, fold.acc, " acc = ", fold.start,
      ";\nfor (uint64 f = threadIdx.x; f < (uint64)d.v[1]; f += blockDim.x) {\nuint64 e = base;\n",
      inner, fold.load, "acc = ", fold.fold, ";\n}\nshared[threadIdx.x] = acc;\n__syncthreads();\n",
      "for (unsigned w = blockDim.x / 2; w > 0; w /= 2) {\nif (threadIdx.x < w) {\n"
      "const ",
      fold.acc, " other = shared[threadIdx.x + w]; acc = shared[threadIdx.x];\n",
      "shared[threadIdx.x] = ", fold.combine, ";\n}\n__syncthreads();\n}\n",
      "if (threadIdx.x == 0) { acc = shared[0];\n", fold.stored, "}\n__syncthreads();\n}\n");
}

// Results stand side by side and are few: eight of them and many of their rows a block, so that
// what is read together lies together.
constexpr int kColumns = 8, kColumnThreads = 512;

std::string column_fold(const Fold& fold, const std::string& base, const std::string& inner) {
  const std::string one =
      cat("{ uint64 e = base;\n", inner, fold.load, "acc = ", fold.fold, "; }\n");
  return cat("__shared__ ", fold.acc, " shared[", kColumnThreads, "];\n",
             "for (uint64 first = blockIdx.x * ", kColumns,
             "ull; first < (uint64)d.v[0];"
             " first += gridDim.x * ",
             kColumns, "ull) {\nconst uint64 at = first + threadIdx.x % ", kColumns,
             ";\nuint64 base = 0;\n", fold.acc, " acc = 0;\nif (at < (uint64)d.v[0]) {\n", base,
             "acc = ", fold.start, ";\nuint64 f = threadIdx.x / ", kColumns,
             ";\n#pragma unroll 4\n"
             "for (; f < (uint64)d.v[1]; f += ",
             kColumnThreads / kColumns, ") ", one,
             "}\nshared[threadIdx.x] = acc;\n__syncthreads();\n",
             "for (unsigned w = ", kColumnThreads / 2, "; w >= ", kColumns,
             "; w /= 2) {\nif (threadIdx.x < w) {\nconst ", fold.acc,
             " other = shared[threadIdx.x + w]; acc = shared[threadIdx.x];\n"
             "shared[threadIdx.x] = ",
             fold.combine,
             ";\n}\n__syncthreads();\n}\n"
             "if (threadIdx.x < ",
             kColumns, " && at < (uint64)d.v[0]) { acc = shared[threadIdx.x];\n", fold.stored,
             "}\n__syncthreads();\n}\n");
}

std::string thread_fold(const Fold& fold, const std::string& base, const std::string& inner) {
  return cat(
      "for (uint64 at = blockIdx.x * (uint64)blockDim.x + threadIdx.x; at < (uint64)d.v[0];"
      " at += gridDim.x * (uint64)blockDim.x) {\nuint64 base = 0;\n",
      base, fold.acc, " acc = ", fold.start,
      ";\nfor (uint64 f = 0; f < (uint64)d.v[1]; ++f) {\nuint64 e = base;\n", inner, fold.load,
      "acc = ", fold.fold, ";\n}\n", fold.stored, "}\n");
}

}  // namespace

std::string type_text(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return "bool";
    case DType::int8:
      return "int8";
    case DType::uint8:
      return "uint8";
    case DType::int16:
      return "int16";
    case DType::int32:
      return "int";
    case DType::int64:
      return "int64";
    case DType::float32:
      return "float";
    case DType::float64:
      return "double";
    case DType::float16:
      return "f16";
    case DType::bfloat16:
      return "bf16";
  }
  return {};
}

std::string number_type(DType dtype) {
  const bool half = dtype == DType::float16 || dtype == DType::bfloat16;
  return half ? "float" : type_text(dtype);
}

std::string bits_text(DType dtype) {
  switch (size_of(dtype)) {
    case 1:
      return "uint8";
    case 2:
      return "int16";
    case 4:
      return "uint32";
    default:
      return "uint64";
  }
}

std::string number_text(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return cat("__uint_as_float(", bits, "u)");
}

std::string double_text(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return cat("__longlong_as_double((long long)", bits, "ull)");
}

// n * m / 2^(31 + l), with m = 2^(31 + l) / d rounded up and l the bits of d - 1: the error of m is
// below 2^l, so that of the product is below 2^(31 + l) and the quotient is exact.
int64_t divisor(int64_t d) {
  const uint64_t by = d > 0 ? static_cast<uint64_t>(d) : 1;
  const int shift = 31 + std::bit_width(by - 1);
  if (shift > 62) return 0;  // nobody divides numbers of 31 bits by it
  const uint64_t factor = ((uint64_t{1} << shift) + by - 1) / by;
  return static_cast<int64_t>(static_cast<uint64_t>(shift) << 40 | factor);
}

Walked walked(const Shape& shape, const std::vector<Strides>& operands, size_t first) {
  const MergedDims dims = merged_dims(shape, operands);
  Walked made;
  made.index = shape.count() < (int64_t{1} << 31) ? "uint32" : "uint64";
  made.offsets = cat(made.index, " rest = at");
  for (size_t i = 0; i < operands.size(); ++i) made.offsets += cat(", o", i, " = 0");
  made.offsets += ";\n";
  const auto number = [&](int64_t value) {
    made.numbers.push_back(value);
    return cat("(", made.index, ")d.v[", first + made.numbers.size() - 1, "]");
  };
  for (size_t i = 0; i < dims.extents.size(); ++i) {
    const bool last = i + 1 == dims.extents.size();
    const std::string extent = last ? "" : number(dims.extents[i]);
    made.offsets += cat("{ const ", made.index, " q = rest", last ? "" : cat(" % ", extent), ";\n");
    for (size_t k = 0; k < operands.size(); ++k) {
      const int64_t step = dims.steps[i][k];
      if (step == 0) continue;
      made.offsets += cat("o", k, " += q", step == 1 ? "" : cat(" * ", number(step)), ";\n");
    }
    made.offsets += last ? "}\n" : cat("rest /= ", extent, "; }\n");
  }
  return made;
}

namespace {

// A loop over the elements of a shape, `each` of them to a thread in one go.
Launch element_loop(const Shape& shape, const std::vector<Strides>& operands,
                    const std::function<std::string(const Walked&)>& text, int addresses,
                    int64_t each, std::vector<int64_t> more) {
  Launch launch;
  const int64_t count = shape.count();
  launch.numbers = std::move(more);
  launch.numbers.insert(launch.numbers.begin(), count);
  const Walked walk = walked(shape, operands, launch.numbers.size());
  launch.numbers.insert(launch.numbers.end(), walk.numbers.begin(), walk.numbers.end());
  launch.kernel = generated({.body = text(walk),
                             .addresses = addresses,
                             .numbers = static_cast<int>(launch.numbers.size())});
  launch.threads = kThreads;
  launch.blocks = std::min((count + kThreads * each - 1) / (kThreads * each), kMostBlocks);
  return launch;
}

std::string one_by_one(const Walked& walk, const std::string& body) {
  return cat("for (", walk.index, " at = blockIdx.x * (", walk.index,
             ")blockDim.x + threadIdx.x; at < (", walk.index, ")d.v[0]; at += gridDim.x * (",
             walk.index, ")blockDim.x) {\n", walk.offsets, body, "}\n");
}

constexpr int64_t kFour = 4;

}  // namespace

Launch pointwise(const Shape& shape, const std::vector<Strides>& operands, const std::string& body,
                 int addresses, std::vector<int64_t> more) {
  return element_loop(
      shape, operands, [&](const Walked& walk) { return one_by_one(walk, body); }, addresses, 1,
      std::move(more));
}

Launch pointwise_after(const std::string& before, const Shape& shape, const std::string& body,
                       int addresses) {
  return element_loop(shape, {},
                      [&](const Walked& walk) { return before + one_by_one(walk, body); },
                      addresses, kFour, {});
}

Launch pointwise_by_four(const Shape& shape, const std::vector<Strides>& operands,
                         const FourElements& text, int addresses) {
  const auto write = [&](const Walked& walk) {
    const std::string& index = walk.index;
    const std::string step = cat("(", index, ")(blockDim.x * ", kFour, ")");
    const std::string place =
        cat("#pragma unroll\nfor (int u = 0; u < ", kFour, "; ++u) {\nconst ", index,
            " at = first + u * blockDim.x;\nif (at < (", index, ")d.v[0]) {\n");
    return cat("for (", index, " first = blockIdx.x * ", step, " + threadIdx.x; first < (", index,
               ")d.v[0]; first += gridDim.x * ", step, ") {\n", text.declared, place, walk.offsets,
               text.each, "} }\n", place, text.stored, "} }\n}\n");
  };
  return element_loop(shape, operands, write, addresses, kFour, {});
}

Launch folding(const Shape& shape, const std::vector<int>& axes, const Fold& fold, int addresses) {
  std::vector<bool> folded(static_cast<size_t>(shape.rank()));
  for (const int axis : axes) folded[static_cast<size_t>(axis)] = true;
  FoldAxes kept, gone;
  int64_t step = 1;
  bool inner_kept = false, seen = false;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    const bool fold_it = folded[static_cast<size_t>(d)];
    if (shape.at(d) != 1 && !seen) inner_kept = !fold_it, seen = true;
    (fold_it ? gone : kept).add(shape.at(d), step);
    step *= shape.at(d);
  }
  Launch launch;
  launch.numbers = {kept.count, gone.count};
  const std::string base = kept.text("at", "base", launch.numbers.size());
  kept.append_to(launch.numbers);
  const std::string inner = gone.text("f", "e", launch.numbers.size());
  gone.append_to(launch.numbers);
  const bool by_block = gone.count >= 32 && (!inner_kept || kept.count < 8192);
  const bool by_column = by_block && inner_kept && gone.count >= kColumnThreads / kColumns;
  int threads = 32;
  while (by_block && threads < kThreads && threads * 2 <= gone.count) threads *= 2;
  if (by_column) threads = kColumnThreads;
  if (!by_block) threads = 128;
  KernelText text{.body = by_column  ? column_fold(fold, base, inner)
                          : by_block ? block_fold(fold, threads, base, inner)
                                     : thread_fold(fold, base, inner),
                  .addresses = addresses,
                  .numbers = static_cast<int>(launch.numbers.size())};
  launch.kernel = generated(text);
  launch.threads = threads;
  const int64_t each = by_column ? kColumns : by_block ? 1 : threads;
  const int64_t wanted = (kept.count + each - 1) / each;
  launch.blocks = std::min(wanted, kMostBlocks);
  return launch;
}

Launch by_row(const AxisRows& rows, const std::string& body, int addresses,
              std::vector<int64_t> more) {
  Launch launch;
  launch.numbers = {rows.rows(), rows.extent, rows.inner};
  launch.numbers.insert(launch.numbers.end(), more.begin(), more.end());
  KernelText text{.body = cat("const int64 extent = d.v[1], step = d.v[2];\n"
                              "for (int64 row = blockIdx.x; row < d.v[0]; row += gridDim.x) {\n"
                              "const int64 x0 = row / step * extent * step + row % step;\n",
                              body, "}\n"),
                  .addresses = addresses,
                  .numbers = static_cast<int>(launch.numbers.size())};
  launch.kernel = generated(text);
  launch.threads = 32;
  while (launch.threads < kThreads && launch.threads < rows.extent) launch.threads *= 2;
  launch.blocks = rows.extent == 0 ? 0 : std::min(rows.rows(), kMostBlocks);
  return launch;
}

BoundKernel on_queue(KernelFn run) {
  BoundKernel kernel;
  kernel.run = std::move(run);
  kernel.runs = Runs::queue;
  return kernel;
}

BoundKernel on_queue(Launch what, Addresses addresses) {
  return on_queue([what = std::move(what), addresses = std::move(addresses)](const KernelArgs& k) {
    launch(what, addresses(k), *k.queue);
  });
}

}  // namespace trireme::cuda
