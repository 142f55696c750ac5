// Pieces of CUDA text that kernels share: element types, loops over shapes, reductions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cuda/generated.h"
#include "ops/axis_rows.h"
#include "ops/loops.h"

namespace trireme::cuda {

// As the text names what is stored: "float", "bool", "f16". Halves become float where they are
// read.
std::string type_text(DType dtype);
// As the text names what is computed with: "float" for halves, else as above.
std::string number_type(DType dtype);
// An unsigned type of as many bytes, for kernels that only move elements.
std::string bits_text(DType dtype);
// A float32, a float64 with all its bits.
std::string number_text(float value);
std::string double_text(double value);

// What e_quotient of the prelude needs to divide whole numbers below 2^31 by d, which is above 0.
int64_t divisor(int64_t d);

// Elements of `shape` one by one, and where each operand stands at element `at`.
struct Walked {
  std::string index;             // the type of positions
  std::string offsets;           // text: `const index o0 = ..., o1 = ...;` from `at`
  std::vector<int64_t> numbers;  // d.v[first...]
};
Walked walked(const Shape& shape, const std::vector<Strides>& operands, size_t first);

// A kernel that runs `body` for each element `at` of `shape`; p.at and o<i> are there.
Launch pointwise(const Shape& shape, const std::vector<Strides>& operands, const std::string& body,
                 int addresses, std::vector<int64_t> more = {});
// The same for large tensors: a thread begins with `before` and has several elements.
Launch pointwise_after(const std::string& before, const Shape& shape, const std::string& body,
                       int addresses);
// Four elements a thread, all of which are computed before the first is stored, so that loads wait
// together. `declared` has room for four results, `each` fills place u of it, `stored` stores it.
struct FourElements {
  std::string declared, each, stored;
};
Launch pointwise_by_four(const Shape& shape, const std::vector<Strides>& operands,
                         const FourElements& text, int addresses);

// Folds a tensor of `shape` along `axes`. `load`: text that declares x from the position `e`;
// `stored`: text that writes `acc` to position `at` of the result.
struct Fold {
  std::string acc;      // type of the accumulator
  std::string start;    // an expression
  std::string fold;     // an expression of acc and x
  std::string combine;  // an expression of acc and other
  std::string load, stored;
};
Launch folding(const Shape& shape, const std::vector<int>& axes, const Fold& fold, int addresses);

// One block of threads for each row along an axis: `body` has x0 (where the row begins), step (how
// far its elements are apart), extent, row, and the threads' `for (j...)` as TR_EACH.
Launch by_row(const AxisRows& rows, const std::string& body, int addresses,
              std::vector<int64_t> more = {});
inline constexpr size_t kRowNumbers = 3;  // d.v[3...] are `more`

// A kernel of the queue out of launches, each with the operands it is given by `addresses`.
using Addresses = std::function<AddressList(const KernelArgs&)>;
BoundKernel on_queue(Launch launch, Addresses addresses);
BoundKernel on_queue(KernelFn run);

}  // namespace trireme::cuda
