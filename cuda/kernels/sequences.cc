// What is computed of one sequence at a time: sequence_pool and sequence_softmax.
#include "core/text.h"
#include "cuda/emit.h"
#include "cuda/kernels/device_table.h"
#include "cuda/kernels/register.h"
#include "ops/sequence/sequence_rules.h"

namespace trireme::cuda {
namespace {

struct Sequences {
  std::vector<int64_t> offsets;
  DeviceTable table;

  explicit Sequences(const KernelSite& site) : offsets(bound_offsets(site, "X")), table(offsets) {}
  int64_t count() const { return static_cast<int64_t>(offsets.size()) - 1; }
};

// What a sum over `n` rows is multiplied by.
std::string scale_text(const std::string& how) {
  if (how == "AVERAGE") return "(T)1 / (T)n";
  if (how == "SQRT") return "(T)1 / e_sqrt((T)n)";
  return "(T)1";
}

// A thread for column c of sequence s, whose rows are [begin, end).
constexpr const char* kColumn =
    "const int64 s = at / d.v[1], c = at % d.v[1];\n"
    "const int64* offsets = (const int64*)p.at[0];\n"
    "const int64 begin = offsets[s], end = offsets[s + 1], n = end - begin;\n";

BoundKernel pool_forward(const KernelSite& site) {
  const Sequences sequences(site);
  const auto how = site.attr<std::string>("pooltype");
  const int64_t width = row_width(site.in("X").shape);
  const std::string type = type_text(site.in("X").dtype);
  std::string text =
      cat("typedef ", type, " T;\n", kColumn,
          "const T* x = (const T*)p.at[1] + c; T* to = (T*)p.at[2] + at;\n"
          "int* from = (int*)p.at[3];\nif (n == 0) { *to = (T)",
          number_text(site.attr<float>("pad_value")), "; if (from) from[at] = -1; continue; }\n");
  if (how == "FIRST" || how == "LAST") {
    text += cat("*to = x[", how == "FIRST" ? "begin" : "(end - 1)", " * d.v[1]];\n");
  } else if (how == "MAX") {
    text +=
        "T top = x[begin * d.v[1]]; int64 best = begin;\n"
        "for (int64 r = begin + 1; r < end; ++r) { const T v = x[r * d.v[1]];\n"
        "if (v > top) { top = v; best = r; } }\n*to = top; if (from) from[at] = (int)best;\n";
  } else {
    text +=
        cat("T sum = x[begin * d.v[1]];\n"
            "for (int64 r = begin + 1; r < end; ++r) sum += x[r * d.v[1]];\n*to = sum * (",
            scale_text(how), ");\n");
  }
  const int x = site.position("X"), out = site.out_position("Out");
  const int from = how == "MAX" ? site.out_position("MaxIndex") : -1;
  return on_queue(pointwise(Shape{sequences.count(), width}, {}, text, 4, {width}),
                  [=, table = sequences.table](const KernelArgs& k) {
                    return AddressList{table.on(static_cast<CudaQueue&>(*k.queue)),
                                       k.in(x).address(), k.out(out).address(),
                                       k.has_out(from) ? k.out(from).address() : nullptr};
                  });
}

BoundKernel pool_backward(const KernelSite& site) {
  const Sequences sequences(site);
  const auto how = site.attr<std::string>("pooltype");
  const int64_t width = row_width(site.in("X").shape);
  const std::string type = type_text(site.in("X").dtype);
  std::string text = cat("typedef ", type, " T;\n", kColumn,
                         "if (n == 0) continue;\nconst T dy = ((const T*)p.at[1])[at];\n"
                         "T* dx = (T*)p.at[2] + c;\n");
  if (how == "FIRST" || how == "LAST" || how == "MAX") {
    const char* row = how == "FIRST"  ? "begin"
                      : how == "LAST" ? "end - 1"
                                      : "((const int*)p.at[3])[at]";
    text += cat("const int64 own = ", row,
                ";\nfor (int64 r = begin; r < end; ++r) dx[r * d.v[1]] = r == own ? dy : (T)0;\n");
  } else {
    text += cat("const T part = dy * (", scale_text(how),
                ");\nfor (int64 r = begin; r < end; ++r) dx[r * d.v[1]] = part;\n");
  }
  const int dout = site.position("Out@GRAD");
  const int from = how == "MAX" ? site.position("MaxIndex") : -1;
  return on_queue(pointwise(Shape{sequences.count(), width}, {}, text, 4, {width}),
                  [=, table = sequences.table](const KernelArgs& k) {
                    return AddressList{table.on(static_cast<CudaQueue&>(*k.queue)),
                                       k.in(dout).address(), k.out(0).address(),
                                       k.has_in(from) ? k.in(from).address() : nullptr};
                  });
}

// A block of threads a sequence of single numbers.
Launch by_sequence(const Sequences& sequences, const std::string& body, int addresses) {
  const std::string text =
      cat("const int64* offsets = (const int64*)p.at[0];\n"
          "for (int64 s = blockIdx.x; s < d.v[0]; s += gridDim.x) {\n"
          "const int64 begin = offsets[s], extent = offsets[s + 1] - begin;\n"
          "if (extent == 0) continue;\n",
          body, "}\n");
  return {.kernel = generated({.body = text, .addresses = addresses, .numbers = 1}),
          .blocks = std::min<int64_t>(sequences.count(), 65536),
          .threads = 128,
          .numbers = {sequences.count()}};
}

BoundKernel softmax_forward(const KernelSite& site) {
  const Sequences sequences(site);
  const std::string body =
      cat("typedef ", type_text(site.in("X").dtype),
          " T; const T* x = (const T*)p.at[1] + begin; T* y = (T*)p.at[2] + begin;\n"
          "T own = x[0];\nTR_EACH own = e_max(own, x[j]);\nconst T top = b_max(own);\n"
          "T part = 0;\nTR_EACH { const T e = e_exp(x[j] - top); y[j] = e; part += e; }\n"
          "const T sum = b_sum(part);\nTR_EACH y[j] /= sum;\n");
  const int x = site.position("X");
  return on_queue(by_sequence(sequences, body, 3),
                  [x, table = sequences.table](const KernelArgs& k) {
                    return AddressList{table.on(static_cast<CudaQueue&>(*k.queue)),
                                       k.in(x).address(), k.out(0).address()};
                  });
}

BoundKernel softmax_backward(const KernelSite& site) {
  const Sequences sequences(site);
  const std::string body =
      cat("typedef ", type_text(site.in("X").dtype),
          " T; const T* y = (const T*)p.at[1] + begin; const T* dy = (const T*)p.at[2] + begin;\n"
          "T* dx = (T*)p.at[3] + begin;\nT part = 0;\nTR_EACH part += dy[j] * y[j];\n"
          "const T sum = b_sum(part);\nTR_EACH dx[j] = y[j] * (dy[j] - sum);\n");
  const int out = site.position("Out"), dout = site.position("Out@GRAD");
  return on_queue(
      by_sequence(sequences, body, 4), [out, dout, table = sequences.table](const KernelArgs& k) {
        return AddressList{table.on(static_cast<CudaQueue&>(*k.queue)), k.in(out).address(),
                           k.in(dout).address(), k.out(0).address()};
      });
}

}  // namespace

void add_sequences(DeviceKernels& kernels) {
  add_to(kernels, "sequence_pool", "generated", untyped(pool_forward));
  add_to(kernels, "sequence_pool_grad", "generated", untyped(pool_backward));
  add_to(kernels, "sequence_softmax", "generated", untyped(softmax_forward));
  add_to(kernels, "sequence_softmax_grad", "generated", untyped(softmax_backward));
}

}  // namespace trireme::cuda
