// Losses of classes: softmax_with_cross_entropy, cross_entropy, cross_entropy2 and their gradients.
#include "core/text.h"
#include "cuda/cuda_device.h"
#include "cuda/emit.h"
#include "cuda/faults.h"
#include "cuda/kernels/register.h"
#include "ops/rules.h"

namespace trireme::cuda {
namespace {

// What all of them begin with: T, and for hard labels L, whether it counts and is a class. A label
// that is no class stops the step when the host next waits; its row is computed as class 0.
struct LossText {
  AxisRows rows;
  bool soft = false;
  std::string begin;
  std::vector<int64_t> more;  // the label that is ignored

  LossText(const KernelSite& site, DType type, const AxisRows& rows, bool soft, bool checks)
      : rows(rows), soft(soft), more{site.attr<int>("ignore_index")} {
    begin = cat("typedef ", type_text(type), " T;\n");
    if (soft) {
      begin += "const T* label = (const T*)p.at[0] + x0;\n";
      return;
    }
    begin += cat("int64 L = ((const ", type_text(site.in("Label").dtype),
                 "*)p.at[0])[row];\nconst bool counts = L != d.v[", kRowNumbers,
                 "];\nif (!counts || L < 0 || L >= extent) {\n");
    if (checks) {
      const int code = fault_code(
          {.what = "label",
           .rest = cat(site.in("Label").name, " is outside the ", rows.extent, " classes"),
           .fix = cat("feed labels from 0 to ", rows.extent - 1,
                      ", make the layer before as wide as there are classes, or name the value to "
                      "skip as ignore_index")});
      begin += cat("if (counts && threadIdx.x == 0) raise(p.at[1], ", code, ", row, L);\n");
    }
    begin += "L = 0; }\n";
  }
};

bool loss_takes(DType dtype, std::string* why_not) {
  if (dtype == DType::float32 || dtype == DType::float64) return true;
  if (why_not) *why_not = cat("no kernel for ", name_of(dtype));
  return false;
}

const void* fault_of(const KernelArgs& k) { return static_cast<CudaQueue&>(*k.queue).fault; }
const void* out_or_null(const KernelArgs& k, int at) {
  return k.has_out(at) ? k.out(at).address() : nullptr;
}

AxisRows last_axis(const Shape& shape) { return AxisRows(shape, shape.rank() - 1); }

// p: label, fault, logits, softmax, loss.
std::optional<BoundKernel> softmax_loss(const KernelSite& site, std::string* why_not) {
  const ValueInfo& logits = site.in("Logits");
  if (!loss_takes(logits.dtype, why_not)) return std::nullopt;
  const AxisRows rows(logits.shape, normal_axis(site, site.attr<int>("axis"), logits.shape.rank()));
  const LossText text(site, logits.dtype, rows, site.attr<bool>("soft_label"), true);
  const bool use_softmax = site.attr<bool>("use_softmax");
  std::string body = text.begin + "const T* x = (const T*)p.at[2] + x0;\n";
  if (!text.soft) body += "const T chosen = x[L * step];\n";
  body += use_softmax ? "T own = x[0];\nTR_EACH own = e_max(own, x[j * step]);\n"
                        "const T top = b_max(own);\nT part = 0;\n"
                        "TR_EACH part += e_exp(x[j * step] - top);\n"
                        "const T shift = top + e_log(b_sum(part));\n"
                      : "__syncthreads();\n";
  const std::string cost = use_softmax ? "shift - " : "-e_log";
  if (text.soft) {
    body += cat("T costs = 0;\nTR_EACH { const T w = label[j * step]; if (w != 0) costs += w * (",
                cost, "(x[j * step])); }\nconst T loss = b_sum(costs);\n");
  } else {
    body += cat("const T loss = counts ? ", cost, "(chosen) : (T)0;\n");
  }
  // Written last: Softmax may lie in the memory of Logits.
  body += cat("if (p.at[3]) { T* to = (T*)p.at[3] + x0; TR_EACH to[j * step] = ",
              use_softmax ? "e_exp(x[j * step] - shift)" : "x[j * step]",
              "; }\nif (p.at[4] && threadIdx.x == 0) ((T*)p.at[4])[row] = loss;\n");
  const int softmax_at = site.out_position("Softmax"), loss_at = site.out_position("Loss");
  return on_queue(by_row(rows, body, 5, text.more), [=](const KernelArgs& k) {
    return AddressList{k.in(1).address(), fault_of(k), k.in(0).address(),
                       out_or_null(k, softmax_at), out_or_null(k, loss_at)};
  });
}

// p: label, fault, softmax, loss@grad, logits@grad.
std::optional<BoundKernel> softmax_loss_grad(const KernelSite& site, std::string* why_not) {
  const ValueInfo& softmax = site.in("Softmax");
  if (!loss_takes(softmax.dtype, why_not)) return std::nullopt;
  const AxisRows rows(softmax.shape,
                      normal_axis(site, site.attr<int>("axis"), softmax.shape.rank()));
  const LossText text(site, softmax.dtype, rows, site.attr<bool>("soft_label"), false);
  const bool use_softmax = site.attr<bool>("use_softmax");
  std::string body =
      text.begin +
      "const T* y = (const T*)p.at[2] + x0; const T scale = ((const T*)p.at[3])[row];\n"
      "T* to = (T*)p.at[4] + x0;\n";
  if (text.soft) {
    body += "T part = 0;\nTR_EACH part += label[j * step];\nconst T total = b_sum(part);\n";
    body += cat(
        "TR_EACH to[j * step] = scale * (",
        use_softmax ? "y[j * step] * total - label[j * step]" : "-label[j * step] / y[j * step]",
        ");\n");
  } else {
    body += cat("TR_EACH { T g = 0; if (counts) { ",
                use_softmax ? "g = scale * y[j * step]; if (j == L) g -= scale;"
                            : "if (j == L) g -= scale / y[j * step];",
                " } to[j * step] = g; }\n");
  }
  const int label_at = site.position("Label"), softmax_at = site.position("Softmax"),
            loss_grad_at = site.position("Loss@GRAD"), to_at = site.out_position("Logits@GRAD");
  return on_queue(by_row(rows, body, 5, text.more), [=](const KernelArgs& k) {
    return AddressList{k.in(label_at).address(), fault_of(k), k.in(softmax_at).address(),
                       k.in(loss_grad_at).address(), k.out(to_at).address()};
  });
}

constexpr const char* kMinusLog =
    "const T most = (T)1e20; const T v = -e_log(chosen); "
    "const T cost = v > most ? most : v < -most ? -most : v;\n";

// p: label, fault, x, y, match. cross_entropy2 also leaves the chosen probabilities.
std::optional<BoundKernel> cross_entropy_forward(const KernelSite& site, bool keeps_match,
                                                 std::string* why_not) {
  const ValueInfo& x = site.in("X");
  if (!loss_takes(x.dtype, why_not)) return std::nullopt;
  const bool soft = !keeps_match && site.attr<bool>("soft_label");
  const LossText text(site, x.dtype, last_axis(x.shape), soft, true);
  std::string body = text.begin + "const T* x = (const T*)p.at[2] + x0;\n";
  if (soft) {
    body += cat("T part = 0;\nTR_EACH { const T chosen = x[j]; ", kMinusLog,
                "part += label[j] * cost; }\nconst T sum = b_sum(part);\n"
                "if (p.at[3] && threadIdx.x == 0) ((T*)p.at[3])[row] = sum;\n");
  } else {
    body += cat("if (threadIdx.x == 0) { const T chosen = counts ? x[L] : (T)1; ", kMinusLog,
                "if (p.at[3]) ((T*)p.at[3])[row] = counts ? cost : (T)0;\n"
                "if (p.at[4]) ((T*)p.at[4])[row] = chosen; }\n");
  }
  const int y_at = site.out_position("Y"),
            match_at = keeps_match ? site.out_position("MatchX") : -1;
  return on_queue(by_row(text.rows, body, 5, text.more), [=](const KernelArgs& k) {
    return AddressList{k.in(1).address(), fault_of(k), k.in(0).address(), out_or_null(k, y_at),
                       out_or_null(k, match_at)};
  });
}

// p: label, fault, x or the chosen probabilities, y@grad, x@grad.
std::optional<BoundKernel> cross_entropy_backward(const KernelSite& site, bool keeps_match,
                                                  std::string* why_not) {
  const ValueInfo& read = site.in(keeps_match ? "MatchX" : "X");
  if (!loss_takes(read.dtype, why_not)) return std::nullopt;
  const bool soft = !keeps_match && site.attr<bool>("soft_label");
  const Shape& shape = site.out("X@GRAD").shape;
  const LossText text(site, read.dtype, last_axis(shape), soft, false);
  std::string body =
      text.begin + "const T g = ((const T*)p.at[3])[row];\nT* to = (T*)p.at[4] + x0;\n";
  const std::string from = keeps_match ? "((const T*)p.at[2])[row]" : "((const T*)p.at[2])[x0 + j]";
  body += soft ? cat("TR_EACH to[j] = -g * label[j] / ", from, ";\n")
               : cat("TR_EACH to[j] = counts && j == L ? -g / ", from, " : (T)0;\n");
  const int label_at = site.position("Label"),
            read_at = site.position(keeps_match ? "MatchX" : "X"),
            grad_at = site.position("Y@GRAD"), to_at = site.out_position("X@GRAD");
  return on_queue(by_row(text.rows, body, 5, text.more), [=](const KernelArgs& k) {
    return AddressList{k.in(label_at).address(), fault_of(k), k.in(read_at).address(),
                       k.in(grad_at).address(), k.out(to_at).address()};
  });
}

}  // namespace

void add_losses(DeviceKernels& kernels) {
  add_to(kernels, "softmax_with_cross_entropy", "generated", softmax_loss);
  add_to(kernels, "softmax_with_cross_entropy_grad", "generated", softmax_loss_grad);
  for (const bool keeps_match : {false, true}) {
    const std::string type = keeps_match ? "cross_entropy2" : "cross_entropy";
    const std::string grad = keeps_match ? "cross_entropy_grad2" : "cross_entropy_grad";
    add_to(kernels, type, "generated", [=](const KernelSite& site, std::string* why_not) {
      return cross_entropy_forward(site, keeps_match, why_not);
    });
    add_to(kernels, grad, "generated", [=](const KernelSite& site, std::string* why_not) {
      return cross_entropy_backward(site, keeps_match, why_not);
    });
  }
}

}  // namespace trireme::cuda
