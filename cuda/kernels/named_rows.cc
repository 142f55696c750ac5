// Texts that find the first naming of every row and go on to the others.
#include "cuda/kernels/named_rows.h"

#include "core/text.h"
#include "cuda/cuda_error.h"

namespace trireme::cuda {
namespace {

constexpr int kNoFirst = 0x7f;  // every byte of the place of a row that nobody names

}  // namespace

NamedRows::NamedRows(Site site) : site_(std::move(site)) {
  const std::string skip =
      site_.skipped ? cat("if (id == ", *site_.skipped, "ll) continue;\n") : std::string();
  mark_ = pointwise(Shape{site_.count}, {},
                    cat("const int64 id = ((const ", site_.id_type, "*)p.at[0])[at];\n", skip,
                        "if (id < 0 || id >= d.v[1]) { raise(p.at[2], ", site_.fault,
                        ", at, id); continue; }\nint* first = (int*)p.at[1];\n"
                        "atomicMin(first + id, (int)at); atomicAdd(first + d.v[1] + id, 1);\n"),
                    3, {site_.height});
}

void NamedRows::find(CudaQueue& queue, std::byte* scratch, const void* ids) const {
  const size_t half = bytes() / 2;
  if (half == 0) return;
  queue.device.use();
  check(cudaMemsetAsync(scratch, kNoFirst, half, queue.in_order()), "cudaMemsetAsync");
  check(cudaMemsetAsync(scratch + half, 0, half, queue.in_order()), "cudaMemsetAsync");
  launch(mark_, {ids, scratch, queue.fault}, queue);
}

Launch NamedRows::update(const std::string& type, const std::string& begin,
                         const std::string& again, const std::string& end, int addresses) const {
  constexpr int kThreads = 128;
  constexpr int64_t kMostBlocks = 65536;
  const std::string skip =
      site_.skipped ? cat("if (id == ", *site_.skipped, "ll) continue;\n") : std::string();
  const std::string body =
      cat("typedef ", type, " T; const ", site_.id_type, "* ids = (const ", site_.id_type,
          "*)p.at[0];\nconst int* first = (const int*)p.at[1];\n"
          "const T* values = (const T*)p.at[2];\n",
          begin,
          "for (int64 i = blockIdx.x; i < d.v[0]; i += gridDim.x) {\n"
          "const int64 id = ids[i]; if (id < 0 || id >= d.v[1]) continue;\n",
          skip,
          "if (first[id] != (int)i) continue;\n"
          "for (int64 c0 = 0; c0 < d.v[2]; c0 += blockDim.x) {\n"
          "const int64 c = c0 + threadIdx.x, to = id * d.v[2] + c; const bool own = c < d.v[2];\n"
          "int left = first[d.v[1] + id] - 1;\nT g = own ? values[i * d.v[2] + c] : (T)0;\n"
          "TR_EACH_SAME(ids, id, i + 1, d.v[0], left, j, if (own) {\n"
          "const T more = values[j * d.v[2] + c]; ",
          again, " })\nif (own) {\n", end, "} } }\n");
  return {.kernel = generated({.body = body, .addresses = addresses, .numbers = 3}),
          .blocks = std::min(site_.count, kMostBlocks),
          .threads = kThreads,
          .numbers = {site_.count, site_.height, site_.width}};
}

}  // namespace trireme::cuda
