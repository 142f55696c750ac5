// Comparisons, logic, and questions about a whole tensor.
#include <cmath>

#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

using Binary = Expr (*)(Expr, Expr);

void compare_shape(OpView& op) {
  const ValueInfo &x = op.in("X"), &y = op.in("Y");
  require_dense(op, "X");
  require_dense(op, "Y");
  if (x.known && y.known && x.dtype != y.dtype) {
    throw Error(ErrorKind::type_mismatch,
                cat("X holds ", name_of(x.dtype), " but Y holds ", name_of(y.dtype)))
        .fix("cast one of them to the type of the other");
  }
  const int axis = op.has_attr("axis") ? op.attr<int32_t>("axis") : -1;
  op.set_out("Out", DType::boolean, broadcast_shapes(op, x.shape, y.shape, axis));
  carry_lod(op, "Out", {"X"});
}

void compare(Registry& ops, const char* name, const char* doc, Binary f) {
  ops.op(name)
      .in("X", "any shape")
      .in("Y", "X's type; broadcasts with X")
      .out("Out", doc)
      .attr("axis", -1, "the dimension of X at which Y's first one stands; -1: aligned at the end")
      .at_least(-1)
      .attr("force_cpu", false, "keep the result on the CPU")
      .shape(compare_shape)
      .body([f](Body& b) {
        Expr x = b.in("X"), y = b.in("Y");
        place_at_axis(x, y, b.attr<int32_t>("axis"));
        b.out("Out") = f(x, y);
      });
}

void require_bool(const OpView& op, std::string_view slot) {
  const ValueInfo& info = op.in(slot);
  if (!info.known || info.dtype == DType::boolean) return;
  throw Error(ErrorKind::type_mismatch,
              cat(slot, " holds ", name_of(info.dtype), " but must hold bool"))
      .fix("compare first, or cast to bool");
}

void logical(Registry& ops, const char* name, const char* doc, Binary f) {
  ops.op(name)
      .in("X", "bool")
      .in("Y", "bool; broadcasts with X")
      .out("Out", doc)
      .shape([](OpView& op) {
        require_bool(op, "X");
        require_bool(op, "Y");
        compare_shape(op);
      })
      .body([f](Body& b) { b.out("Out") = f(b.in("X"), b.in("Y")); });
}

// One bool for a whole tensor or for the values of SelectedRows.
template <class Holds>
void question(Registry& ops, const char* name, const char* doc, Holds holds) {
  ops.op(name)
      .in("X", "a tensor or SelectedRows")
      .out("Out", doc)
      .shape([](OpView& op) {
        require_numbers(op, "X");
        op.set_out("Out", DType::boolean, {1});
      })
      .kernel([holds](const KernelSite& site, std::string* why_not) {
        const bool sparse = site.in("X").type == VarType::selected_rows;
        return for_dtype<float, double, int32_t, int64_t>(
            site.in("X").dtype, why_not, [=]<class T>() {
              return [=](const KernelArgs& k) {
                const Tensor& x = sparse ? std::as_const(*k.ins[0]).rows().value : k.in(0);
                const T* data = x.data<T>();
                const int64_t n = x.initialized() ? x.numel() : 0;
                *k.out<bool>(0) = holds(data, data + n);
              };
            });
      });
}

}  // namespace

void register_compare(Registry& ops) {
  compare(ops, "less_than", "X < Y", &less);
  compare(ops, "less_equal", "X <= Y", &less_equal);
  compare(ops, "greater_than", "X > Y", &greater);
  compare(ops, "greater_equal", "X >= Y", &greater_equal);
  compare(ops, "equal", "X == Y", &equal);
  compare(ops, "not_equal", "X != Y", &not_equal);
  logical(ops, "logical_and", "X and Y", &logical_and);
  logical(ops, "logical_or", "X or Y", &logical_or);
  logical(ops, "logical_xor", "exactly one of X and Y", &logical_xor);
  ops.op("logical_not")
      .in("X", "bool")
      .out("Out", "not X")
      .shape([](OpView& op) {
        require_bool(op, "X");
        op.set_out_like("Out", op.in("X"));
      })
      .body([](Body& b) { b.out("Out") = logical_not(b.in("X")); });

  question(ops, "isfinite", "whether every element is finite", [](auto* first, auto* last) {
    return std::all_of(first, last, [](auto v) { return std::isfinite(double(v)); });
  });
  question(ops, "isinf", "whether some element is infinite", [](auto* first, auto* last) {
    return std::any_of(first, last, [](auto v) { return std::isinf(double(v)); });
  });
  question(ops, "isnan", "whether some element is NaN", [](auto* first, auto* last) {
    return std::any_of(first, last, [](auto v) { return v != v; });
  });
  ops.op("is_empty")
      .in("X", "any shape and type")
      .out("Out", "whether X has no elements")
      .shape([](OpView& op) {
        require_dense(op, "X");
        op.set_out("Out", DType::boolean, {1});
      })
      .kernel(untyped([](const KernelSite& site) {
        return [empty = site.in("X").shape.count() == 0](const KernelArgs& k) {
          *k.out<bool>(0) = empty;
        };
      }));
}

}  // namespace trireme
