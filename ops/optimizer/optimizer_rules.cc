// What optimizer rows share: operand checks, scalars in bodies, and updates from sparse gradients.
#include "ops/optimizer/optimizer_rules.h"

#include "core/text.h"

namespace trireme {
namespace {

// Gradients and states are kept in the parameter's element type.
void check_dtype(const OpView& op, const std::string& slot) {
  const DType wanted = op.in("Param").dtype, found = op.in(slot).dtype;
  if (found == wanted) return;
  throw op.error(cat(slot, " is ", name_of(found), " but Param is ", name_of(wanted)))
      .fix(cat("give ", slot, " as ", name_of(wanted)));
}

void check_grad(const OpView& op, bool sparse_allowed) {
  const ValueInfo& param = op.in("Param");
  const ValueInfo& grad = op.in("Grad");
  check_dtype(op, "Grad");
  if (grad.type != VarType::selected_rows) {
    if (!grad.shape.may_equal(param.shape)) {
      throw op.error(cat("Grad has shape ", grad.shape, " but Param has ", param.shape))
          .fix("give the gradient of this parameter; both have one shape");
    }
    return;
  }
  if (!sparse_allowed) {
    throw op.error(cat(op.schema().type(), " cannot apply a sparse gradient"))
        .fix(
            "build the embedding with is_sparse=False, or use SGD, Momentum, Adagrad, Adam, "
            "RMSProp or Lamb");
  }
  Shape row = grad.shape;
  Shape param_row = param.shape;
  if (row.rank() > 0) row[0] = Dim();
  if (param_row.rank() > 0) param_row[0] = Dim();
  if (!row.may_equal(param_row)) {
    throw op.error(cat("the rows of Grad have shape ", row, " but those of Param ", param_row))
        .fix("give the gradient of this parameter; both have rows of one shape");
  }
  if (param.shape.rank() > 0 && !Dim(grad.height).may_equal(param.shape[0])) {
    throw op.error(cat("Grad selects from ", grad.height, " rows but Param has ", param.shape[0]))
        .fix("give the gradient of this parameter; the heights are equal");
  }
}

}  // namespace

ShapeRule optimizer_shape(OptimizerOperands operands) {
  return [operands = std::move(operands)](OpView& op) {
    const ValueInfo& param = op.in("Param");
    if (param.type == VarType::selected_rows) {
      throw Error(ErrorKind::unimplemented,
                  cat(op.schema().type(), " cannot update a parameter that is SelectedRows"))
          .fix("keep the parameter dense; only its gradient may be sparse");
    }
    if (op.has_attr("multi_precision") && op.attr<bool>("multi_precision")) {
      throw Error(ErrorKind::unimplemented,
                  "multi_precision is set, but float16 parameters with a "
                  "float32 master copy are not supported")
          .fix("leave multi_precision False and train in float32");
    }
    check_grad(op, operands.sparse);
    for (const std::string& slot : operands.scalars) {
      if (op.has(slot) && !op.in(slot).shape.numel().may_equal(1)) {
        throw op.error(cat(slot, " has shape ", op.in(slot).shape, " but holds one number"))
            .fix(cat("give ", slot, " the shape [1]"));
      }
    }
    op.set_out_like("ParamOut", param);
    for (const auto& [in, out] : operands.states) {
      if (op.has(in)) check_dtype(op, in);
      if (op.has(in) && !op.in(in).shape.may_equal(param.shape)) {
        throw op.error(cat(in, " has shape ", op.in(in).shape, " but Param has ", param.shape))
            .fix(cat("create ", in, " with the parameter's shape"));
      }
      op.set_out_like(out, op.has(in) ? op.in(in) : param);
    }
  };
}

Expr scalar(const Body& b, std::string_view slot) {
  return cast(reshape(b.in(slot), {1}), b.in("Param").dtype());
}

double scalar(const KernelArgs& k, int position) { return element_as_double(k.in(position), 0); }

void set_scalar(const KernelArgs& k, int out_position, double value) {
  if (!k.has_out(out_position)) return;
  Tensor& out = k.out(out_position);
  if (out.dtype() == DType::float64) {
    *out.data<double>() = value;
  } else {
    *out.data<float>() = static_cast<float>(value);
  }
}

bool grad_is_sparse(const KernelSite& site, std::string* why_not) {
  if (site.in("Grad").type == VarType::selected_rows) return true;
  if (why_not) *why_not = "Grad is dense";
  return false;
}

void check_sparse_grad(const SelectedRows& grad, const Tensor& param) {
  const int64_t height = param.shape().at(0);
  if (grad.rows.empty()) return;
  const int64_t width = height == 0 ? 0 : param.numel() / height;
  const auto count = static_cast<int64_t>(grad.rows.size());
  if (!grad.value.initialized() || grad.value.numel() != count * width) {
    throw Error(cat("the sparse gradient names ", count, " rows of ", width,
                    " elements but its value is ",
                    grad.value.initialized() ? grad.value.describe() : "empty"));
  }
  const auto outside = [=](int64_t row) { return row < 0 || row >= height; };
  int64_t wrong = 0;  // counted without a branch: nearly always there is none
  for (const int64_t row : grad.rows) wrong += outside(row);
  if (wrong == 0) return;
  throw Error(ErrorKind::out_of_range,
              cat("the sparse gradient names row ",
                  *std::find_if(grad.rows.begin(), grad.rows.end(), outside),
                  " but Param has rows 0 to ", height - 1))
      .fix("use ids below the number of rows of the table");
}

const SelectedRows& sparse_grad(const KernelArgs& k, int grad_position, const Tensor& param) {
  const SelectedRows& grad = std::as_const(*k.ins[grad_position]).rows();
  check_sparse_grad(grad, param);
  return grad;
}

void copy_through(const KernelArgs& k, int in, int out) {
  const Tensor& from = k.in(in);
  Tensor& to = k.out(out);
  if (from.address() != to.address() && from.byte_size() > 0) {
    std::memcpy(to.address(), from.address(), from.byte_size());
  }
}

void copy_through(const KernelArgs& k, int in, int out, std::pair<int64_t, int64_t> range) {
  const Tensor& from = k.in(in);
  if (from.address() == k.out(out).address() || range.first == range.second) return;
  const size_t row = from.byte_size() / static_cast<size_t>(from.shape().at(0));
  const size_t begin = static_cast<size_t>(range.first) * row;
  std::memcpy(static_cast<std::byte*>(k.out(out).address()) + begin,
              static_cast<const std::byte*>(from.address()) + begin,
              static_cast<size_t>(range.second - range.first) * row);
}

OpSample optimizer_sample(Draw& draw, const std::vector<std::string>& states,
                          const std::vector<std::string>& scalars) {
  OpSample sample;
  const Shape shape = draw.shape(1, 3);
  sample.inputs["Param"] = {draw.uniform(shape)};
  sample.inputs["Grad"] = {draw.uniform(shape)};
  for (const std::string& state : states) sample.inputs[state] = {draw.uniform(shape, 0.1, 1)};
  for (const std::string& name : scalars) sample.inputs[name] = {draw.uniform({1}, 0.1, 0.9)};
  return sample;
}

}  // namespace trireme
