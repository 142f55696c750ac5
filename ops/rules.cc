// Shape rules and gradient helpers that several families share.
#include "ops/rules.h"

#include <algorithm>
#include <cmath>

namespace trireme {

void carry_lod(OpView& op, std::string_view out_slot, const std::vector<std::string>& slots) {
  if (!op.wants(out_slot)) return;
  ValueInfo& out = op.out(out_slot);
  if (out.shape.rank() == 0) return;
  for (const std::string& slot : slots) {
    if (!op.has(slot)) continue;
    const ValueInfo& in = op.in(slot);
    if (in.lod_level == 0 && in.lod.empty()) continue;
    if (in.shape.rank() == 0 || !in.shape[0].may_equal(out.shape[0])) continue;
    out.lod_level = in.lod_level;
    out.lod = in.lod;
    return;
  }
}

std::vector<int> normal_axes(const OpView& op, const std::vector<int32_t>& axes, int rank,
                             std::string_view name) {
  std::vector<int> result;
  for (const int32_t axis : axes) result.push_back(normal_axis(op, axis, rank, name));
  if (axes.empty()) {
    for (int d = 0; d < rank; ++d) result.push_back(d);
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

Shape resolve_shape(const OpView& op, const Shape& from, const std::vector<int64_t>& shape) {
  if (shape.size() > static_cast<size_t>(kMaxRank)) {
    throw op.error(cat("shape has ", shape.size(), " dimensions"))
        .fix(cat("use at most ", kMaxRank, " dimensions"));
  }
  Shape out;
  int inferred = -1;
  Dim rest = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int axis = static_cast<int>(i);
    Dim extent;
    if (shape[i] == -1) {
      if (inferred >= 0) {
        throw op
            .error(cat("shape is [", join(shape), "], which has -1 at ", inferred, " and at ", i))
            .fix("leave at most one dimension to be inferred");
      }
      inferred = axis;
    } else if (shape[i] == 0) {
      if (axis >= from.rank()) {
        throw op
            .error(cat("shape[", i, "] is 0, which copies dimension ", i, " of X, but X has ",
                       from.rank(), " dimensions"))
            .fix("write the extent itself, or -1");
      }
      extent = from[axis];
    } else if (shape[i] < -1) {
      throw op.error(cat("shape[", i, "] is ", shape[i]))
          .fix("use a positive extent, 0 to copy X's or -1 to infer it");
    } else {
      extent = shape[i];
    }
    out.push_back(extent);
    if (inferred != axis) rest = rest * extent;
  }
  const Dim total = from.numel();
  if (inferred >= 0) {
    if (total.known() && rest.known() && (rest == Dim(0) || total.value() % rest.value() != 0)) {
      if (!(rest == Dim(0) && total == Dim(0))) {
        throw op
            .error(cat("X of shape ", from, " has ", total, " elements, which shape [", join(shape),
                       "] cannot hold"))
            .fix("make the known extents divide X's element count");
      }
    }
    out[inferred] = rest == Dim(0) && total == Dim(0) ? Dim(0) : total / rest;
  } else if (!rest.may_equal(total)) {
    throw op
        .error(cat("X of shape ", from, " has ", total, " elements but shape [", join(shape),
                   "] has ", rest))
        .fix("give a shape with as many elements as X, or one -1 to be inferred");
  }
  return out;
}

std::vector<int64_t> read_ints(const OpView& op, std::string_view slot, size_t i) {
  const ValueInfo& info = op.in(slot, i);
  std::vector<int64_t> numbers;
  if (!info.value) return numbers;
  const Tensor& tensor = info.value->tensor();
  if (!is_integer(tensor.dtype())) {
    throw op.error(cat(slot, " holds ", name_of(tensor.dtype()), " values"))
        .fix(cat("give ", slot, " as int32 or int64"));
  }
  const Tensor longs = cast(tensor, DType::int64);
  const int64_t* first = longs.data<int64_t>();
  numbers.assign(first, first + longs.numel());
  return numbers;
}

DType dtype_attr(const OpView& op, std::string_view name) {
  const int number = op.attr<int32_t>(name);
  const auto dtype = dtype_from_wire(number);
  if (!dtype) {
    throw op.error(cat(name, " is ", number, ", which is no element type"))
        .fix("use a VarType number such as FP32 (5) or INT64 (3)");
  }
  return *dtype;
}

void require_dense(const OpView& op, std::string_view slot) {
  if (!op.in(slot).known || op.in(slot).type == VarType::lod_tensor) return;
  throw op.error(cat(slot, " is a ", name_of(op.in(slot).type), ", but this op takes a tensor"))
      .fix("convert it first, for instance with get_tensor_from_selected_rows");
}

void require_array(const OpView& op, std::string_view slot) {
  if (!op.in(slot).known || op.in(slot).type == VarType::lod_tensor_array) return;
  throw op.error(cat(slot, " is a ", name_of(op.in(slot).type), ", not an array of tensors"))
      .fix("give what array_write or create_array returns");
}

void require_floating(const OpView& op, std::string_view slot) {
  const ValueInfo& info = op.in(slot);
  if (!info.known || is_floating(info.dtype)) return;
  throw Error(ErrorKind::type_mismatch,
              cat(slot, " holds ", name_of(info.dtype), " but must hold real numbers"))
      .fix(cat("cast ", slot, " to float32 first"));
}

void require_numbers(const OpView& op, std::string_view slot) {
  const ValueInfo& info = op.in(slot);
  if (!info.known || info.dtype != DType::boolean) return;
  throw Error(ErrorKind::type_mismatch, cat(slot, " holds bool but must hold numbers"))
      .fix(cat("cast ", slot, " to float32 or int64 first"));
}

void require_one_number(const OpView& op, std::string_view slot) {
  if (!op.has(slot) || op.in(slot).shape.numel().may_equal(1)) return;
  throw op.error(cat(slot, " has shape ", op.in(slot).shape, " but holds one number"))
      .fix(cat("give ", slot, " the shape [1]"));
}

ShapeRule floating_like_x() {
  return [](OpView& op) {
    require_dense(op, "X");
    require_floating(op, "X");
    op.set_out_like("Out", op.in("X"));
  };
}

void place_at_axis(Expr& x, Expr& y, int axis) {
  Expr& narrow = x.rank() < y.rank() ? x : y;
  const int rank = std::max(x.rank(), y.rank());
  if (axis == -1 || axis == rank - narrow.rank()) return;
  std::vector<int> dropped;
  for (int d = narrow.rank() - 1; d >= 0 && axis + d >= rank; --d) dropped.push_back(d);
  if (!dropped.empty()) narrow = squeeze(narrow, dropped);
  narrow = align(narrow, rank, axis);
}

Tensor away_from(Tensor x, std::initializer_list<double> kinks) {
  constexpr double kNear = 0.02;
  double* data = x.data<double>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    for (const double kink : kinks) {
      if (std::abs(data[i] - kink) < kNear) data[i] += data[i] < kink ? -kNear : kNear;
    }
  }
  return x;
}

}  // namespace trireme
