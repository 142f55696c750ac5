// The largest and the smallest of rows: top_k, arg_max, arg_min, and accuracy.
#include "core/text.h"
#include "cuda/emit.h"
#include "cuda/kernels/register.h"
#include "ops/rules.h"

namespace trireme::cuda {
namespace {

// Who of a block's threads has the first element in order, and where: the same in each. NaN counts
// as the largest, and of equals the first wins. place < 0: a thread has none.
constexpr const char* kFirstOfBlock =
    "__shared__ T best_value[256]; __shared__ int64 best_place[256];\n"
    "#define BEFORE(a, pa, b, pb) ((pb) < 0 || ((pa) >= 0 && (((a) != (a)) != ((b) != (b)) ? "
    "((a) != (a)) == (bool)d.v[3] : (a) == (b) || (a) != (a) ? (pa) < (pb) : "
    "d.v[3] ? (a) > (b) : (a) < (b))))\n";
constexpr const char* kFoldBlock =
    "best_value[threadIdx.x] = value; best_place[threadIdx.x] = place; __syncthreads();\n"
    "for (unsigned w = blockDim.x / 2; w > 0; w /= 2) { if (threadIdx.x < w) {\n"
    "const unsigned o = threadIdx.x + w;\n"
    "if (BEFORE(best_value[o], best_place[o], best_value[threadIdx.x], best_place[threadIdx.x])) "
    "{\n"
    "best_value[threadIdx.x] = best_value[o]; best_place[threadIdx.x] = best_place[o]; } }\n"
    "__syncthreads(); }\nvalue = best_value[0]; place = best_place[0]; __syncthreads();\n";

bool order_takes(DType dtype, std::string* why_not) {
  if (dtype == DType::float32 || dtype == DType::float64 || dtype == DType::int32 ||
      dtype == DType::int64) {
    return true;
  }
  if (why_not) *why_not = cat("no kernel for ", name_of(dtype));
  return false;
}

const void* given(const KernelArgs& k, int at) {
  return k.has_out(at) ? k.out(at).address() : nullptr;
}

// k rounds, each of which takes the first one behind what the last round took: for small k.
std::optional<BoundKernel> top_kernel(const KernelSite& site, std::string* why_not) {
  const ValueInfo& x = site.in("X");
  if (!order_takes(x.dtype, why_not)) return std::nullopt;
  const int axis = site.has_attr("axis") ? normal_axis(site, site.attr<int>("axis"), x.shape.rank())
                                         : x.shape.rank() - 1;
  const bool largest = !site.has_attr("largest") || site.attr<bool>("largest");
  const int64_t k = site.out("Out").shape.at(axis);
  const std::string body = cat(
      "typedef ", type_text(x.dtype), " T; const T* x = (const T*)p.at[2] + x0;\n", kFirstOfBlock,
      "T last = 0; int64 taken = -1;\nfor (int64 n = 0; n < d.v[4]; ++n) {\n"
      "T value = 0; int64 place = -1;\nTR_EACH { const T v = x[j * step];\n"
      "if (taken >= 0 && !BEFORE(last, taken, v, j)) continue;\n"
      "if (BEFORE(v, j, value, place)) { value = v; place = j; } }\n",
      kFoldBlock,
      "last = value; taken = place;\nif (threadIdx.x == 0) {\n"
      "const int64 to = row / step * d.v[4] * step + n * step + row % step;\n"
      "if (p.at[0]) ((T*)p.at[0])[to] = value;\nif (p.at[1]) ((int64*)p.at[1])[to] = place; } }\n"
      "#undef BEFORE\n");
  const int x_at = site.position("X"), out_at = site.out_position("Out"),
            indices_at = site.out_position("Indices");
  return on_queue(by_row(AxisRows(x.shape, axis), body, 3, {largest, k}), [=](const KernelArgs& a) {
    return AddressList{given(a, out_at), given(a, indices_at), a.in(x_at).address()};
  });
}

std::optional<BoundKernel> accuracy_kernel(const KernelSite& site, std::string*) {
  const int64_t rows = site.in("Indices").shape.at(0), columns = site.in("Indices").shape.at(1);
  const std::string type = type_text(site.out("Accuracy").dtype);
  const std::string body =
      cat("int64 part = 0;\nfor (int64 r = threadIdx.x; r < d.v[0]; r += blockDim.x) {\n"
          "const int64 label = ((const ",
          type_text(site.in("Label").dtype),
          "*)p.at[1])[r]; bool found = false;\nfor (int64 c = 0; c < d.v[1]; ++c) found |= "
          "((const int64*)p.at[0])[r * d.v[1] + c] == label;\npart += found; }\n"
          "const int64 correct = b_sum(part);\nif (threadIdx.x == 0) {\n"
          "if (p.at[2]) ((",
          type, "*)p.at[2])[0] = (", type,
          ")(d.v[0] == 0 ? 0.0 : (double)correct / (double)d.v[0]);\n"
          "if (p.at[3]) ((int*)p.at[3])[0] = (int)correct;\n"
          "if (p.at[4]) ((int*)p.at[4])[0] = (int)d.v[0]; }\n");
  Launch launch{.kernel = generated({.body = body, .addresses = 5, .numbers = 2}),
                .blocks = 1,
                .threads = 256,
                .numbers = {rows, columns}};
  return on_queue(std::move(launch), [](const KernelArgs& k) {
    return AddressList{k.in(1).address(), k.in(2).address(), given(k, 0), given(k, 1), given(k, 2)};
  });
}

}  // namespace

void add_order(DeviceKernels& kernels) {
  add_to(kernels, "top_k", "generated", top_kernel);
  add_to(kernels, "top_k_v2", "generated", top_kernel);
  add_to(kernels, "accuracy", "generated", accuracy_kernel);
}

}  // namespace trireme::cuda
