// Updates of parameters: adam and adagrad; and from gradients of named rows sgd, adagrad, adam.
#include "core/text.h"
#include "cuda/cuda_device.h"
#include "cuda/emit.h"
#include "cuda/faults.h"
#include "cuda/kernels/named_rows.h"
#include "cuda/kernels/register.h"

namespace trireme::cuda {
namespace {

// One element of a tensor, as text.
std::string first_of(const KernelSite& site, const char* slot, int address) {
  return cat("(T)((const ", type_text(site.in(slot).dtype), "*)p.at[", address, "])[0]");
}

const void* given_in(const KernelArgs& k, int at) {
  return k.has_in(at) ? k.in(at).address() : nullptr;
}

// Where the result has memory of its own, it begins as the operand.
void begin_as(const KernelArgs& k, int in, int out) {
  const Tensor& from = k.in(in);
  if (from.address() == k.out(out).address()) return;
  static_cast<CudaQueue&>(*k.queue).device.copy(*k.queue, k.out(out).address(), from.address(),
                                                from.byte_size());
}

// ---- gradients of named rows

struct RowsOfGrad {
  int grad, param;
  int64_t count;
  std::string type;
  NamedRows named;

  explicit RowsOfGrad(const KernelSite& site)
      : grad(site.position("Grad")),
        param(site.position("Param")),
        count(site.in("Grad").shape.at(0)),
        type(type_text(site.in("Param").dtype)),
        named(sizes(site)) {}

  static NamedRows::Site sizes(const KernelSite& site) {
    const Shape& table = site.in("Param").shape;
    const int64_t height = table.at(0);
    return {.height = height,
            .width = height == 0 ? 0 : table.count() / height,
            .count = site.in("Grad").shape.at(0),
            .id_type = "int64",
            .fault = fault_code({.what = "row",
                                 .rest = cat("the sparse gradient of ", site.in("Param").name,
                                             ", which has ", height, " rows"),
                                 .fix = "use ids below the number of rows of the table"})};
  }

  // The gradient of this run; its namings have been found.
  const SelectedRows& find(const KernelArgs& k) const {
    const SelectedRows& found = std::as_const(*k.ins[grad]).rows();
    promise(static_cast<int64_t>(found.rows.size()) == count, "rows are as many as when bound");
    named.find(static_cast<CudaQueue&>(*k.queue), k.scratch, found.rows.address());
    return found;
  }
};

BoundKernel sgd_rows(const KernelSite& site) {
  const RowsOfGrad all(site);
  const Launch update = all.named.update(
      all.type,
      cat("const T rate = ", first_of(site, "LearningRate", 3), "; T* p0 = (T*)p.at[4];\n"),
      "p0[to] -= rate * g; g = more;", "p0[to] -= rate * g;\n", 5);
  const int rate = site.position("LearningRate"), out = site.out_position("ParamOut");
  BoundKernel kernel = on_queue([=](const KernelArgs& k) {
    begin_as(k, all.param, out);
    const SelectedRows& rows = all.find(k);
    launch(update,
           {rows.rows.address(), k.scratch, rows.value.address(), k.in(rate).address(),
            k.out(out).address()},
           *k.queue);
  });
  kernel.scratch = all.named.bytes();
  return kernel;
}

std::optional<BoundKernel> sgd_kernel(const KernelSite& site, std::string* why_not) {
  if (site.in("Grad").type == VarType::selected_rows) return sgd_rows(site);
  if (why_not) *why_not = "its dense update is a body";
  return std::nullopt;
}

// ---- adagrad

struct AdagradSite {
  int param, grad, moment, rate, param_out, moment_out;
  std::string begin, step;  // text

  AdagradSite(const KernelSite& site, int rate_address)
      : param(site.position("Param")),
        grad(site.position("Grad")),
        moment(site.position("Moment")),
        rate(site.position("LearningRate")),
        param_out(site.out_position("ParamOut")),
        moment_out(site.out_position("MomentOut")),
        begin(cat("const T rate = ", first_of(site, "LearningRate", rate_address),
                  ", epsilon = (T)", number_text(site.attr<float>("epsilon")), ";\n")),
        step(
            "const T m = moment + g * g;\n"
            "((T*)p.at[5])[to] = m;\n"
            "((T*)p.at[4])[to] = param - rate * g / (e_sqrt(m) + epsilon);\n") {}
};

BoundKernel adagrad_dense(const KernelSite& site) {
  const AdagradSite at(site, 3);
  const std::string body =
      cat("typedef ", type_text(site.in("Param").dtype), " T; const int64 to = at;\n", at.begin,
          "const T param = ((const T*)p.at[0])[at], g = ((const T*)p.at[1])[at], "
          "moment = ((const T*)p.at[2])[at];\n",
          at.step);
  return on_queue(pointwise(site.in("Param").shape, {}, body, 6), [=](const KernelArgs& k) {
    return AddressList{k.in(at.param).address(),      k.in(at.grad).address(),
                       k.in(at.moment).address(),     k.in(at.rate).address(),
                       k.out(at.param_out).address(), k.out(at.moment_out).address()};
  });
}

BoundKernel adagrad_rows(const KernelSite& site) {
  const RowsOfGrad all(site);
  const AdagradSite at(site, 3);
  const Launch update = all.named.update(
      all.type, at.begin, "g += more;",
      cat("const T param = ((const T*)p.at[4])[to], moment = ((const T*)p.at[5])[to];\n", at.step),
      6);
  BoundKernel kernel = on_queue([=](const KernelArgs& k) {
    begin_as(k, at.param, at.param_out);
    begin_as(k, at.moment, at.moment_out);
    const SelectedRows& rows = all.find(k);
    launch(update,
           {rows.rows.address(), k.scratch, rows.value.address(), k.in(at.rate).address(),
            k.out(at.param_out).address(), k.out(at.moment_out).address()},
           *k.queue);
  });
  kernel.scratch = all.named.bytes();
  return kernel;
}

// ---- adam

struct AdamSite {
  int param, grad, rate, moment1, moment2, pow1, pow2, beta1, beta2, epsilon;
  int param_out, moment1_out, moment2_out, pow1_out, pow2_out;
  std::string begin;  // text; p.at[0...6]: rate, powers, betas, epsilon
  Launch powers;

  explicit AdamSite(const KernelSite& site)
      : param(site.position("Param")),
        grad(site.position("Grad")),
        rate(site.position("LearningRate")),
        moment1(site.position("Moment1")),
        moment2(site.position("Moment2")),
        pow1(site.position("Beta1Pow")),
        pow2(site.position("Beta2Pow")),
        beta1(site.position("Beta1Tensor")),
        beta2(site.position("Beta2Tensor")),
        epsilon(site.position("EpsilonTensor")),
        param_out(site.out_position("ParamOut")),
        moment1_out(site.out_position("Moment1Out")),
        moment2_out(site.out_position("Moment2Out")),
        pow1_out(site.out_position("Beta1PowOut")),
        pow2_out(site.out_position("Beta2PowOut")) {
    const auto number = [&](const char* slot, int address, const char* attr) {
      return site.has(slot) ? first_of(site, slot, address)
                            : cat("(T)", number_text(site.attr<float>(attr)));
    };
    const std::string betas = cat("const T beta1 = ", number("Beta1Tensor", 3, "beta1"),
                                  ", beta2 = ", number("Beta2Tensor", 4, "beta2"), ";\n");
    const std::string type = type_text(site.in("Param").dtype);
    begin = cat(betas, "const T correction = e_sqrt((T)1 - ", first_of(site, "Beta2Pow", 2),
                ");\nconst T move = ", first_of(site, "LearningRate", 0),
                " * correction / ((T)1 - ", first_of(site, "Beta1Pow", 1),
                ");\nconst T epsilon = ", number("EpsilonTensor", 5, "epsilon"),
                site.attr<bool>("corrects_epsilon") ? " * correction;\n" : ";\n");
    const std::string pow1_type = type_text(site.in("Beta1Pow").dtype);
    const std::string pow2_type = type_text(site.in("Beta2Pow").dtype);
    powers = pointwise(Shape{1}, {},
                       cat("typedef ", type, " T;\n", betas, "if (p.at[6]) ((", pow1_type,
                           "*)p.at[6])[0] = (", pow1_type, ")(", first_of(site, "Beta1Pow", 1),
                           " * beta1);\nif (p.at[7]) ((", pow2_type, "*)p.at[7])[0] = (", pow2_type,
                           ")(", first_of(site, "Beta2Pow", 2), " * beta2);\n"),
                       8);
  }

  static constexpr const char* kStep =
      "const T m1 = beta1 * ((const T*)p.at[8])[at] + ((T)1 - beta1) * g;\n"
      "const T m2 = beta2 * ((const T*)p.at[9])[at] + ((T)1 - beta2) * g * g;\n"
      "((T*)p.at[11])[at] = m1; ((T*)p.at[12])[at] = m2;\n"
      "((T*)p.at[10])[at] = ((const T*)p.at[6])[at] - move * (m1 / (e_sqrt(m2) + epsilon));\n";

  AddressList numbers(const KernelArgs& k) const {
    return {k.in(rate).address(), k.in(pow1).address(), k.in(pow2).address(),
            given_in(k, beta1),   given_in(k, beta2),   given_in(k, epsilon)};
  }
  AddressList operands(const KernelArgs& k, const void* gradient) const {
    AddressList all = numbers(k);
    for (const void* one : {static_cast<const void*>(k.in(param).address()), gradient,
                            static_cast<const void*>(k.in(moment1).address()),
                            static_cast<const void*>(k.in(moment2).address()),
                            static_cast<const void*>(k.out(param_out).address()),
                            static_cast<const void*>(k.out(moment1_out).address()),
                            static_cast<const void*>(k.out(moment2_out).address())}) {
      all.push_back(one);
    }
    return all;
  }
  // Behind the step: the powers may be in the memory of those that it reads.
  void write_powers(const KernelArgs& k) const {
    AddressList all = numbers(k);
    all.push_back(k.has_out(pow1_out) ? k.out(pow1_out).address() : nullptr);
    all.push_back(k.has_out(pow2_out) ? k.out(pow2_out).address() : nullptr);
    launch(powers, all, *k.queue);
  }
};

BoundKernel adam_dense(const KernelSite& site) {
  const AdamSite at(site);
  const Launch step = pointwise_after(
      cat("typedef ", type_text(site.in("Param").dtype), " T;\n", at.begin), site.in("Param").shape,
      cat("const T g = ((const T*)p.at[7])[at];\n", AdamSite::kStep), 13);
  return on_queue([=](const KernelArgs& k) {
    launch(step, at.operands(k, k.in(at.grad).address()), *k.queue);
    at.write_powers(k);
  });
}

// Rows without a gradient have gradient 0, and move; with lazy_mode they stay as they are.
BoundKernel adam_rows(const KernelSite& site) {
  const RowsOfGrad all(site);
  const NamedRows::Site sizes = RowsOfGrad::sizes(site);
  const AdamSite at(site);
  const bool lazy = site.attr<bool>("lazy_mode");
  const std::string body =
      cat("typedef ", all.type, " T; const int64 id = at / d.v[1], c = at % d.v[1];\n",
          "const int* first = (const int*)p.at[13]; const int times = first[d.v[2] + id];\n",
          lazy ? "if (times == 0) continue;\n" : "", at.begin,
          "T g = 0;\nif (times > 0) { const int64* rows = (const int64*)p.at[14];\n"
          "const T* values = (const T*)p.at[7]; int64 j = first[id];\n"
          "g = values[j * d.v[1] + c];\n"
          "for (int left = times - 1; left > 0;) if (rows[++j] == id) { --left; "
          "g += values[j * d.v[1] + c]; } }\n",
          AdamSite::kStep);
  const Launch step = pointwise(site.in("Param").shape, {}, body, 15, {sizes.width, sizes.height});
  BoundKernel kernel = on_queue([=](const KernelArgs& k) {
    begin_as(k, at.param, at.param_out);
    begin_as(k, at.moment1, at.moment1_out);
    begin_as(k, at.moment2, at.moment2_out);
    const SelectedRows& rows = all.find(k);
    AddressList operands = at.operands(k, rows.value.address());
    operands.push_back(k.scratch);
    operands.push_back(rows.rows.address());
    launch(step, operands, *k.queue);
    at.write_powers(k);
  });
  kernel.scratch = all.named.bytes();
  return kernel;
}

bool by_rows(const KernelSite& site) { return site.in("Grad").type == VarType::selected_rows; }

}  // namespace

void add_optimizers(DeviceKernels& kernels) {
  add_to(kernels, "sgd", "generated", sgd_kernel);
  add_to(kernels, "adagrad", "generated", untyped([](const KernelSite& site) {
           return by_rows(site) ? adagrad_rows(site) : adagrad_dense(site);
         }));
  add_to(kernels, "adam", "generated", untyped([](const KernelSite& site) {
           return by_rows(site) ? adam_rows(site) : adam_dense(site);
         }));
}

}  // namespace trireme::cuda
