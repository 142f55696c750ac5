// Embedding tables: rows by id, and their gradients, dense or as selected rows.
#include "core/text.h"
#include "cuda/cuda_device.h"
#include "cuda/emit.h"
#include "cuda/faults.h"
#include "cuda/kernels/named_rows.h"
#include "cuda/kernels/register.h"

namespace trireme::cuda {
namespace {

struct Lookup {
  int64_t height, width, count;
  std::string type, id_type;
  int code;

  explicit Lookup(const KernelSite& site)
      : height(site.in("W").shape.at(0)),
        width(site.in("W").shape.at(1)),
        count(site.in("Ids").shape.count()),
        type(bits_text(site.in("W").dtype)),
        id_type(type_text(site.in("Ids").dtype)),
        code(fault_code({.what = "id",
                         .rest = cat(site.in("Ids").name, " is not a row of the table, which has ",
                                     site.in("W").shape.at(0), " rows"),
                         .fix = cat("feed ids from 0 to ", site.in("W").shape.at(0) - 1,
                                    ", or create the embedding with size[0] above the largest "
                                    "id")})) {}
  // d.v: count of elements, padding, height, width.
  std::vector<int64_t> numbers(const KernelSite& site) const {
    return {site.attr<int64_t>("padding_idx"), height, width};
  }
  std::string id_text() const {
    return cat("const int64 i = at / d.v[3], j = at % d.v[3];\nconst int64 id = ((const ", id_type,
               "*)p.at[1])[i];\nconst bool padding = d.v[1] != -1 && id == d.v[1];\n"
               "const bool there = id >= 0 && id < d.v[2];\n");
  }
  Shape elements() const { return Shape{count, width}; }
};

const void* fault_word(const KernelArgs& k) { return static_cast<CudaQueue&>(*k.queue).fault; }

BoundKernel lookup_kernel(const KernelSite& site) {
  const Lookup sizes(site);
  const int table = site.position("W"), ids = site.position("Ids"), out = site.out_position("Out");
  const std::string body =
      cat(sizes.id_text(), "if (!there && !padding && j == 0) raise(p.at[2], ", sizes.code,
          ", i, id);\n((", sizes.type, "*)p.at[3])[at] = there && !padding ? ((const ", sizes.type,
          "*)p.at[0])[id * d.v[3] + j] : 0;\n");
  return on_queue(pointwise(sizes.elements(), {}, body, 4, sizes.numbers(site)),
                  [=](const KernelArgs& k) {
                    return AddressList{k.in(table).address(), k.in(ids).address(), fault_word(k),
                                       k.out(out).address()};
                  });
}

// One row for every id, in the order of the ids; those of padding ids hold zeros.
BoundKernel sparse_gradient(const KernelSite& site) {
  const Lookup sizes(site);
  const int ids = site.position("Ids"), from = site.position("Out@GRAD");
  const int to = site.out_position("W@GRAD");
  const std::string body =
      cat(sizes.id_text(), "if (j == 0) { ((int64*)p.at[3])[i] = there ? id : 0;\n",
          "if (!there) raise(p.at[4], ", sizes.code, ", i, id); }\n((", sizes.type,
          "*)p.at[2])[at] = there && !padding ? ((const ", sizes.type, "*)p.at[0])[at] : 0;\n");
  return on_queue(pointwise(sizes.elements(), {}, body, 5, sizes.numbers(site)),
                  [=](const KernelArgs& k) {
                    SelectedRows& rows = k.outs[to]->rows();
                    return AddressList{k.in(from).address(), k.in(ids).address(),
                                       rows.value.address(), rows.rows.address(), fault_word(k)};
                  });
}

// The table is cleared; then every row that is named gets the sum of its places.
BoundKernel dense_gradient(const KernelSite& site) {
  const Lookup sizes(site);
  const int ids = site.position("Ids"), from = site.position("Out@GRAD");
  const int to = site.out_position("W@GRAD");
  const auto padding = site.attr<int64_t>("padding_idx");
  const NamedRows named({.height = sizes.height,
                         .width = sizes.width,
                         .count = sizes.count,
                         .id_type = sizes.id_type,
                         .fault = sizes.code,
                         .skipped = padding == -1 ? std::nullopt : std::optional(padding)});
  const Launch clear =
      pointwise(site.in("W").shape, {}, cat("((", sizes.type, "*)p.at[0])[at] = 0;\n"), 1);
  const Launch add =
      named.update(type_text(site.in("W").dtype), "", "g += more;", "((T*)p.at[3])[to] = g;\n", 4);
  BoundKernel kernel = on_queue([=](const KernelArgs& k) {
    launch(clear, {k.out(to).address()}, *k.queue);
    named.find(static_cast<CudaQueue&>(*k.queue), k.scratch, k.in(ids).address());
    launch(add, {k.in(ids).address(), k.scratch, k.in(from).address(), k.out(to).address()},
           *k.queue);
  });
  kernel.scratch = named.bytes();
  return kernel;
}

std::optional<BoundKernel> lookup_gradient(const KernelSite& site, std::string* why_not) {
  const DType dtype = site.in("W").dtype;
  if (dtype != DType::float32 && dtype != DType::float64) {
    if (why_not) *why_not = cat("no kernel for ", name_of(dtype));
    return std::nullopt;
  }
  return site.attr<bool>("is_sparse") ? sparse_gradient(site) : dense_gradient(site);
}

}  // namespace

void add_embedding(DeviceKernels& kernels) {
  for (const std::string type : {"lookup_table", "lookup_table_v2"}) {
    add_to(kernels, type, "generated", untyped(lookup_kernel));
    add_to(kernels, type + "_grad", "generated", lookup_gradient);
  }
}

}  // namespace trireme::cuda
