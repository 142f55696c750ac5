// Matrix products by cuBLAS, in the precision of their operands unless FLAGS_allow_tf32 is set.
#include <algorithm>

#include "core/flags.h"
#include "core/text.h"
#include "cuda/cuda_device.h"
#include "cuda/emit.h"
#include "cuda/kernels/blas.h"
#include "cuda/kernels/register.h"
#include "ops/math/matrix_products.h"

namespace trireme::cuda {
namespace {

using OperandsOf = ProductOperands (*)(const OpView&);

// c = alpha * op(a) * op(b) + beta * c for `count` matrices at equal distances, in elements.
struct Batch {
  int64_t a = 0, b = 0, c = 0;
  int64_t count = 1;
  int64_t step_a = 0, step_b = 0, step_c = 0;
  double beta = 0;
};

// Products of equal sizes, stored row after row as everywhere in Trireme.
struct BlasProducts {
  int a_at = 0, b_at = 0, c_at = 0;  // operands, operands, results
  int64_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0;
  bool trans_a = false, trans_b = false;
  double alpha = 1;
  bool tf32 = false;
  std::vector<Batch> batches;

  // Another product; it joins the last batch where it stands at that batch's distances.
  void add(int64_t a, int64_t b, int64_t c, double beta) {
    if (!batches.empty()) {
      Batch& last = batches.back();
      const int64_t step_a = a - (last.a + (last.count - 1) * last.step_a);
      const int64_t step_b = b - (last.b + (last.count - 1) * last.step_b);
      const int64_t step_c = c - (last.c + (last.count - 1) * last.step_c);
      const bool fits =
          last.count == 1 ? step_a >= 0 && step_b >= 0 && step_c > 0
                          : step_a == last.step_a && step_b == last.step_b && step_c == last.step_c;
      if (fits && beta == last.beta) {
        last.step_a = step_a, last.step_b = step_b, last.step_c = step_c;
        ++last.count;
        return;
      }
    }
    batches.push_back({.a = a, .b = b, .c = c, .beta = beta});
  }

  template <class T>
  void run(const KernelArgs& args) const {
    const auto at = [](const Tensor& tensor, int64_t offset) {
      return static_cast<T*>(tensor.address()) + offset;
    };
    for (const Batch& one : batches) {
      multiply<T>(static_cast<CudaQueue&>(*args.queue), {.m = m,
                                                         .n = n,
                                                         .k = k,
                                                         .a = at(args.in(a_at), one.a),
                                                         .lda = lda,
                                                         .trans_a = trans_a,
                                                         .b = at(args.in(b_at), one.b),
                                                         .ldb = ldb,
                                                         .trans_b = trans_b,
                                                         .c = at(args.out(c_at), one.c),
                                                         .ldc = ldc,
                                                         .alpha = alpha,
                                                         .beta = one.beta,
                                                         .count = one.count,
                                                         .step_a = one.step_a,
                                                         .step_b = one.step_b,
                                                         .step_c = one.step_c,
                                                         .tf32 = tf32});
    }
  }
};

BlasProducts forward_products(const MatrixProducts& work) {
  BlasProducts made{.a_at = 0,
                    .b_at = 1,
                    .c_at = 0,
                    .m = work.m,
                    .n = work.n,
                    .k = work.k,
                    .lda = work.x_ld,
                    .ldb = work.y_ld,
                    .ldc = work.n,
                    .trans_a = work.trans_x,
                    .trans_b = work.trans_y,
                    .alpha = work.alpha};
  for (size_t b = 0; b < static_cast<size_t>(work.products); ++b) {
    made.add(work.x_of[b] * work.m * work.k, work.y_of[b] * work.k * work.n,
             static_cast<int64_t>(b) * work.m * work.n, 0);
  }
  return made;
}

// The gradient of one operand; `other` is the one it was multiplied with. It is stored as the
// operand is, so a transposed operand's gradient is the product turned over.
BlasProducts gradient_products(const KernelSite& site, const MatrixProducts& work, bool of_x) {
  const int gradient_at = site.position("Out@GRAD");
  const int other_at = site.position(of_x ? "Y" : "X");
  const bool turned = of_x ? work.trans_x : work.trans_y;
  const bool other_turned = of_x ? work.trans_y : work.trans_x;
  const int64_t other_ld = of_x ? work.y_ld : work.x_ld;
  // X@GRAD = G * op(Y)', turned: op(Y) * G'.  Y@GRAD = op(X)' * G, turned: G' * op(X).
  const bool gradient_first = of_x != turned;
  BlasProducts made{.a_at = gradient_first ? gradient_at : other_at,
                    .b_at = gradient_first ? other_at : gradient_at,
                    .c_at = site.out_position(of_x ? "X@GRAD" : "Y@GRAD"),
                    .k = of_x ? work.n : work.m,
                    .lda = gradient_first ? work.n : other_ld,
                    .ldb = gradient_first ? other_ld : work.n,
                    .ldc = of_x ? work.x_ld : work.y_ld,
                    .alpha = work.alpha};
  const int64_t rows = of_x ? work.m : work.k, columns = of_x ? work.k : work.n;
  made.m = turned ? columns : rows;
  made.n = turned ? rows : columns;
  const bool turns_other = turned ? other_turned : !other_turned;
  made.trans_a = gradient_first ? turned : turns_other;
  made.trans_b = gradient_first ? turns_other : turned;
  const std::vector<int64_t>& own_of = of_x ? work.x_of : work.y_of;
  const std::vector<int64_t>& other_of = of_x ? work.y_of : work.x_of;
  const int64_t own_size = rows * columns;
  const int64_t other_size = of_x ? work.k * work.n : work.m * work.k;
  std::vector<bool> begun;
  for (size_t b = 0; b < own_of.size(); ++b) {
    const auto own = static_cast<size_t>(own_of[b]);
    if (begun.size() <= own) begun.resize(own + 1);
    const int64_t gradient = static_cast<int64_t>(b) * work.m * work.n;
    const int64_t other = other_of[b] * other_size;
    made.add(gradient_first ? gradient : other, gradient_first ? other : gradient,
             own_of[b] * own_size, begun[own] ? 1 : 0);
    begun[own] = true;
  }
  return made;
}

std::optional<BoundKernel> blas_kernel(DType dtype, std::vector<BlasProducts> all,
                                       std::string* why_not) {
  const bool half = dtype == DType::float16 || dtype == DType::bfloat16;
  const auto adds = [](const BlasProducts& one) {
    return std::ranges::any_of(one.batches, [](const Batch& batch) { return batch.beta != 0; });
  };
  if (!is_floating(dtype) || (half && std::ranges::any_of(all, adds))) {
    if (why_not) {
      *why_not = cat(half ? "sums of products would be rounded to " : "no matrix product of ",
                     name_of(dtype));
    }
    return std::nullopt;
  }
  const bool tf32 = std::get<bool>(get_flag("allow_tf32"));
  for (BlasProducts& one : all) one.tf32 = tf32;
  std::erase_if(all, [](const BlasProducts& one) { return one.m == 0 || one.n == 0; });
  const auto products_in = [&]<class T>(T) {
    return on_queue([all = std::move(all)](const KernelArgs& k) {
      for (const BlasProducts& one : all) one.run<T>(k);
    });
  };
  switch (dtype) {
    case DType::float64:
      return products_in(double{});
    case DType::float16:
      return products_in(float16{});
    case DType::bfloat16:
      return products_in(bfloat16{});
    default:
      return products_in(float{});
  }
}

void add_product(DeviceKernels& kernels, const char* type, OperandsOf operands) {
  add_to(
      kernels, type, "cublas",
      [operands](const KernelSite& site, std::string* why_not) {
        return blas_kernel(site.in("X").dtype, {forward_products(products_of(operands(site)))},
                           why_not);
      },
      Halves::taken);
  add_to(
      kernels, cat(type, "_grad"), "cublas",
      [operands](const KernelSite& site, std::string* why_not) {
        const MatrixProducts work = products_of(operands(site));
        std::vector<BlasProducts> all;
        if (site.wants("Y@GRAD")) all.push_back(gradient_products(site, work, false));
        if (site.wants("X@GRAD")) all.push_back(gradient_products(site, work, true));
        return blas_kernel(site.in("X").dtype, std::move(all), why_not);
      },
      Halves::taken);
}

}  // namespace

void add_products(DeviceKernels& kernels) {
  add_product(kernels, "mul", mul_operands);
  add_product(kernels, "matmul", matmul_operands);
  add_product(kernels, "matmul_v2", matmul_v2_operands);
}

}  // namespace trireme::cuda
