// Pooling: a thread a window, and backwards a thread a pixel, so that nothing is added atomically.
#include "core/text.h"
#include "cuda/emit.h"
#include "cuda/kernels/register.h"
#include "cuda/kernels/windows.h"
#include "ops/nn/pool.h"

namespace trireme::cuda {
namespace {

// Numbers: count, planes, step, adaptive, inside, then the window's.
constexpr size_t kPoolSizes = 2, kPoolWindow = 5;

bool pool_takes(DType dtype, std::string* why_not) {
  if (is_floating(dtype)) return true;
  if (why_not) *why_not = cat("no kernel for ", name_of(dtype));
  return false;
}

// What all of them begin with. SPAN declares where window `at` of an axis begins and ends; PLANE is
// where a plane begins, of images with so many pixels.
std::string pool_begin(DType dtype) {
  return cat("typedef ", type_text(dtype), " S; typedef ", number_type(dtype),
             " T;\nconst int64 step = d.v[2];\n", window_text(kPoolWindow),
             "#define SPAN(a, at) \\\n"
             "  int64 b_##a = d.v[3] ? (at) * in_##a / out_##a : (at) * stride_##a - pad_##a; \\\n"
             "  int64 e_##a = d.v[3] ? (((at) + 1) * in_##a + out_##a - 1) / out_##a "
             ": b_##a + size_##a; \\\n"
             "  b_##a = e_max(b_##a, (int64)0); e_##a = e_min(e_##a, in_##a); "
             "e_##a = e_max(e_##a, b_##a);\n"
             "#define PLANE(plane, pixels) ((plane) / step * step * (pixels) + (plane) % step)\n"
             "const int64 ins = in_d * in_h * in_w, outs = out_d * out_h * out_w;\n"
             "#define WEIGHT ((T)1 / (T)(d.v[4] ? (e_d - b_d) * (e_h - b_h) * (e_w - b_w) "
             ": size_d * size_h * size_w))\n"
             "#define EMPTY (e_d == b_d || e_h == b_h || e_w == b_w)\n");
}

constexpr const char* kPoolEnd =
    "#undef SPAN\n#undef PLANE\n#undef WEIGHT\n#undef EMPTY\n#undef ONE\n";
// For each window of each plane, or each pixel.
constexpr const char* kEachOne =
    "for (int64 one = blockIdx.x * (int64)blockDim.x + threadIdx.x; one < d.v[0];"
    " one += gridDim.x * (int64)blockDim.x) {\n";
constexpr const char* kWindowOfOne =
    "ONE(outs, at)\n"
    "SPAN(d, at / (out_h * out_w)) SPAN(h, at / out_w % out_h) SPAN(w, at % out_w)\n";
constexpr const char* kPixels =
    "for (int64 i = b_d; i < e_d; ++i) for (int64 j = b_h; j < e_h; ++j)"
    " for (int64 l = b_w; l < e_w; ++l) {\nconst int64 pixel = (i * in_h + j) * in_w + l;\n";
// The windows that may hold a pixel; whether they do is seen by their spans.
constexpr const char* kWindowsOfOne =
    "ONE(ins, pixel)\n"
    "const int64 x_d = pixel / (in_h * in_w), x_h = pixel / in_w % in_h, x_w = pixel % in_w;\n"
    "#define RANGE(a) \\\n"
    "  const int64 low_##a = e_max((int64)0, d.v[3] ? x_##a * out_##a / in_##a - 1 "
    ": (x_##a + pad_##a - size_##a) / stride_##a); \\\n"
    "  const int64 high_##a = e_min(out_##a - 1, d.v[3] ? (x_##a + 1) * out_##a / in_##a + 1 "
    ": (x_##a + pad_##a) / stride_##a);\n"
    "RANGE(d) RANGE(h) RANGE(w)\n#undef RANGE\nT sum = 0;\n"
    "for (int64 od = low_d; od <= high_d; ++od) { SPAN(d, od)\n"
    "if (x_d < b_d || x_d >= e_d) continue;\n"
    "for (int64 oh = low_h; oh <= high_h; ++oh) { SPAN(h, oh)\n"
    "if (x_h < b_h || x_h >= e_h) continue;\n"
    "for (int64 ow = low_w; ow <= high_w; ++ow) { SPAN(w, ow)\n"
    "if (x_w < b_w || x_w >= e_w) continue;\n"
    "const int64 at = (od * out_h + oh) * out_w + ow;\n";

// Divisions of 64 bits take several times as long: images that 32 bits can count do without.
std::string counted_by_int(std::string body) {
  for (size_t at = body.find("int64"); at != body.npos; at = body.find("int64", at)) {
    body.replace(at, 5, "int");
  }
  return body;
}

// A window's sizes are part of the text: the compiler divides by them without a division.
std::string with_sizes(std::string body, const std::vector<int64_t>& numbers) {
  for (size_t i = kPoolSizes; i < numbers.size(); ++i) {
    const std::string name = cat("d.v[", i, "]"), number = cat(numbers[i]);
    for (size_t at = body.find(name); at != body.npos; at = body.find(name, at + number.size())) {
      body.replace(at, name.size(), number);
    }
  }
  return body;
}

Launch pool_launch(const Pool& pool, std::string body, int addresses, bool by_pixel) {
  constexpr int kPoolThreads = 256;
  constexpr int64_t kPoolBlocks = 1 << 20;
  const int64_t count =
      pool.planes() * (by_pixel ? in_pixels(pool.window) : out_pixels(pool.window));
  const int64_t most =
      pool.planes() * std::max(in_pixels(pool.window), out_pixels(pool.window)) * 2;
  // Neighbours in memory go to neighbours among the threads.
  body = cat(
      pool.step() > 1
          ? "#define ONE(all, at) const int64 plane = one / ((all) * step) * step + one % step, "
            "at = one / step % (all);\n"
          : "#define ONE(all, at) const int64 plane = one / (all), at = one % (all);\n",
      body);
  if (most < (int64_t{1} << 31)) body = counted_by_int(std::move(body));
  Launch launch;
  launch.numbers = {count, pool.planes(), pool.step(), pool.adaptive,
                    pool.exclusive || pool.adaptive};
  const std::vector<int64_t> window = window_numbers(pool.window);
  launch.numbers.insert(launch.numbers.end(), window.begin(), window.end());
  body = with_sizes(std::move(body), launch.numbers);
  launch.numbers.resize(kPoolSizes);
  launch.kernel = generated({.body = body + kPoolEnd,
                             .addresses = addresses,
                             .numbers = static_cast<int>(launch.numbers.size())});
  launch.threads = kPoolThreads;
  launch.blocks = std::min((count + kPoolThreads - 1) / kPoolThreads, kPoolBlocks);
  return launch;
}

bool takes_largest(const KernelSite& site) {
  return site.attr<std::string>("pooling_type") == "max";
}

std::optional<BoundKernel> pool_kernel(const KernelSite& site, int spatial, std::string* why_not) {
  const DType dtype = site.in("X").dtype;
  if (!pool_takes(dtype, why_not)) return std::nullopt;
  std::string body = cat(pool_begin(dtype), kEachOne, kWindowOfOne,
                         "const S* x = (const S*)p.at[1] + PLANE(plane, ins);\n");
  if (takes_largest(site)) {
    body += cat(
        "T result = ", dtype == DType::float64 ? "-1.7976931348623157e+308" : "-3.402823466e+38f",
        ";\n", kPixels, "const T v = x[pixel * step]; if (v > result || v != v) result = v; }\n");
  } else {
    body += cat("T result = 0;\n", kPixels,
                "result += x[pixel * step]; }\nresult = EMPTY ? (T)0 : result * WEIGHT;\n");
  }
  body += "((S*)p.at[0])[PLANE(plane, outs) + at * step] = result; }\n";
  return on_queue(pool_launch(pool_site(site, spatial), body, 2, false), [](const KernelArgs& k) {
    return AddressList{k.out(0).address(), k.in(0).address()};
  });
}

// A maximum gives its gradient to the first pixel of its window that has it.
std::optional<BoundKernel> pool_grad_kernel(const KernelSite& site, int spatial,
                                            std::string* why_not) {
  const DType dtype = site.in("X").dtype;
  if (!pool_takes(dtype, why_not)) return std::nullopt;
  std::string body = cat(pool_begin(dtype), kEachOne, kWindowsOfOne,
                         "const int64 o = PLANE(plane, outs) + at * step;\nconst T arriving = "
                         "((const S*)p.at[3])[o];\n");
  if (takes_largest(site)) {
    body +=
        cat("const S* x = (const S*)p.at[1] + PLANE(plane, ins);\n"
            "const T top = ((const S*)p.at[2])[o];\nif (x[pixel * step] != top) continue;\n"
            "bool first = true;\nconst int64 own = pixel;\n",
            kPixels,
            "if (pixel < own && x[pixel * step] == top) first = false; }\n"
            "if (first) sum += arriving;\n");
  } else {
    body += "sum += arriving * WEIGHT;\n";
  }
  body += "} } }\n((S*)p.at[0])[PLANE(plane, ins) + pixel * step] = sum; }\n";
  const int x_at = site.position("X"), out_at = site.position("Out"),
            grad_at = site.position("Out@GRAD"), x_grad_at = site.out_position("X@GRAD");
  return on_queue(pool_launch(pool_site(site, spatial), body, 4, true), [=](const KernelArgs& k) {
    return AddressList{k.out(x_grad_at).address(), k.in(x_at).address(), k.in(out_at).address(),
                       k.in(grad_at).address()};
  });
}

std::optional<BoundKernel> index_kernel(const KernelSite& site, std::string* why_not) {
  const DType dtype = site.in("X").dtype;
  if (!pool_takes(dtype, why_not)) return std::nullopt;
  const std::string body = cat(
      pool_begin(dtype), kEachOne, kWindowOfOne,
      "const S* x = (const S*)p.at[2] + plane * ins;\nint64 best = b_h * in_w + b_w;\n", kPixels,
      "if (x[pixel] > x[best] || x[pixel] != x[pixel]) best = pixel; }\n"
      "if (p.at[0]) ((S*)p.at[0])[one] = x[best];\n"
      "if (p.at[1]) ((int*)p.at[1])[one] = (int)best; }\n");
  const int out_at = site.out_position("Out"), mask_at = site.out_position("Mask");
  return on_queue(pool_launch(pool_site(site, 2), body, 3, false), [=](const KernelArgs& k) {
    return AddressList{k.has_out(out_at) ? k.out(out_at).address() : nullptr,
                       k.has_out(mask_at) ? k.out(mask_at).address() : nullptr, k.in(0).address()};
  });
}

std::optional<BoundKernel> index_grad_kernel(const KernelSite& site, std::string* why_not) {
  const DType dtype = site.in("Out@GRAD").dtype;
  if (!pool_takes(dtype, why_not)) return std::nullopt;
  const std::string body =
      cat(pool_begin(dtype), kEachOne, kWindowsOfOne,
          "if (((const int*)p.at[1])[plane * outs + at] == pixel)"
          " sum += ((const S*)p.at[2])[plane * outs + at];\n} } }\n((S*)p.at[0])[one] = sum; }\n");
  const int mask_at = site.position("Mask"), grad_at = site.position("Out@GRAD"),
            x_grad_at = site.out_position("X@GRAD");
  return on_queue(pool_launch(pool_site(site, 2), body, 3, true), [=](const KernelArgs& k) {
    return AddressList{k.out(x_grad_at).address(), k.in(mask_at).address(),
                       k.in(grad_at).address()};
  });
}

}  // namespace

void add_pooling(DeviceKernels& kernels) {
  for (const int spatial : {2, 3}) {
    const std::string type = cat("pool", spatial, "d");
    add_to(
        kernels, type, "generated",
        [spatial](const KernelSite& site, std::string* why_not) {
          return pool_kernel(site, spatial, why_not);
        },
        Halves::taken);
    add_to(
        kernels, type + "_grad", "generated",
        [spatial](const KernelSite& site, std::string* why_not) {
          return pool_grad_kernel(site, spatial, why_not);
        },
        Halves::taken);
  }
  add_to(kernels, "max_pool2d_with_index", "generated", index_kernel);
  add_to(kernels, "max_pool2d_with_index_grad", "generated", index_grad_kernel);
}

}  // namespace trireme::cuda
