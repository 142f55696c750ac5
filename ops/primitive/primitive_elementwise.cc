// Elementwise primitives: one number in, one number out, with numpy broadcasting.
#include <cmath>
#include <type_traits>

#include "cpu/element_math.h"
#include "cpu/vectorised.h"
#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

void rule(OpView& op, DType dtype, const Shape& shape) { op.set_out("Out", dtype, shape); }

// Wide code is worth its size for the type that programs compute in.
template <class T, class Loop>
void wide_if_float(const Loop& loop) {
  if constexpr (std::is_same_v<T, float>) {
    vectorised(loop);
  } else {
    loop();
  }
}

// ---- one operand

template <class T, class R, class F>
BoundKernel unary_kernel(const KernelSite& site, F f) {
  const int64_t n = site.out("Out").shape.count();
  return {[n, f](const KernelArgs& k) {
            const T* a = k.in<T>(0);
            R* out = k.out<R>(0);
            const auto [begin, end] = k.range(n);
            wide_if_float<T>([=, begin = begin, end = end] {
              for (int64_t i = begin; i < end; ++i) out[i] = static_cast<R>(f(a[i]));
            });
          },
          parts_for(n)};
}

// The result has the operand's type, or R.
template <class R, class... Ts, class F>
OpSchema& unary(Registry& ops, const char* name, std::optional<TileOp> tile, const char* doc, F f) {
  constexpr bool kSame = std::is_void_v<R>;
  return ops.primitive(name)
      .doc(doc)
      .traits({.tile = tile})
      .in("A", "any shape")
      .out("Out", doc)
      .shape([](OpView& op) {
        const ValueInfo& a = op.in("A");
        if constexpr (kSame) {
          rule(op, a.dtype, a.shape);
        } else {
          rule(op, dtype_of<R>, a.shape);
        }
        carry_lod(op, "Out", {"A"});
      })
      .kernel(typed_by<Ts...>("A", [f]<class T>(const KernelSite& site) {
        return unary_kernel<T, std::conditional_t<kSame, T, R>>(site, f);
      }));
}

void no_slope(Vjp& v) { v.set(0, full_like(v.in(0), 0.0)); }

void register_unary(Registry& ops) {
  unary<void, float, double, int32_t, int64_t>(ops, "p.neg", TileOp::neg, "-A", element::neg)
      .vjp([](Vjp& v) { v.set(0, -v.grad()); });
  unary<void, float, double, int32_t, int64_t>(ops, "p.abs", TileOp::abs, "|A|", element::abs)
      .vjp([](Vjp& v) { v.set(0, v.grad() * sign(v.in(0))); });
  unary<void, float, double, int32_t, int64_t>(ops, "p.sign", TileOp::sign, "-1, 0 or 1",
                                               element::sign)
      .vjp(no_slope);
  unary<void, float, double, int32_t, int64_t>(ops, "p.square", TileOp::square, "A * A",
                                               element::square)
      .vjp([](Vjp& v) { v.set(0, v.grad() * (2.0 * v.in(0))); });

  const auto real = [&ops](const char* name, TileOp tile, const char* doc, auto f) -> OpSchema& {
    return unary<void, float, double>(ops, name, tile, doc, f);
  };
  real("p.exp", TileOp::exp, "e to the A", element::exp).vjp([](Vjp& v) {
    v.set(0, v.grad() * v.out());
  });
  real("p.log", TileOp::log, "natural logarithm", element::log).vjp([](Vjp& v) {
    v.set(0, v.grad() / v.in(0));
  });
  real("p.log1p", TileOp::log1p, "log(1 + A)", element::log1p).vjp([](Vjp& v) {
    v.set(0, v.grad() / (v.in(0) + 1.0));
  });
  real("p.sqrt", TileOp::sqrt, "square root", element::sqrt).vjp([](Vjp& v) {
    v.set(0, v.grad() * 0.5 / v.out());
  });
  real("p.rsqrt", TileOp::rsqrt, "1 / sqrt(A)", element::rsqrt).vjp([](Vjp& v) {
    v.set(0, v.grad() * -0.5 * v.out() * v.out() * v.out());
  });
  real("p.reciprocal", TileOp::reciprocal, "1 / A", element::reciprocal).vjp([](Vjp& v) {
    v.set(0, -v.grad() * v.out() * v.out());
  });
  real("p.tanh", TileOp::tanh, "hyperbolic tangent", element::tanh).vjp([](Vjp& v) {
    v.set(0, v.grad() * (1.0 - v.out() * v.out()));
  });
  real("p.sigmoid", TileOp::sigmoid, "1 / (1 + exp(-A))", element::sigmoid).vjp([](Vjp& v) {
    v.set(0, v.grad() * v.out() * (1.0 - v.out()));
  });
  real("p.sin", TileOp::sin, "sine", element::sin).vjp([](Vjp& v) {
    v.set(0, v.grad() * cos(v.in(0)));
  });
  real("p.cos", TileOp::cos, "cosine", element::cos).vjp([](Vjp& v) {
    v.set(0, -v.grad() * sin(v.in(0)));
  });
  real("p.erf", TileOp::erf, "error function", element::erf).vjp([](Vjp& v) {
    constexpr double kTwoOverRootPi = 1.1283791670955126;
    v.set(0, v.grad() * kTwoOverRootPi * exp(-square(v.in(0))));
  });
  real("p.floor", TileOp::floor, "largest whole number not above", element::floor).vjp(no_slope);
  real("p.ceil", TileOp::ceil, "smallest whole number not below", element::ceil).vjp(no_slope);
  real("p.round", TileOp::round, "nearest whole number, halves away from zero", element::round)
      .vjp(no_slope);
  unary<bool, float, double>(ops, "p.is_finite", std::nullopt, "neither infinite nor NaN",
                             [](auto a) { return std::isfinite(a); });
  unary<bool, bool>(ops, "p.not", TileOp::mask_not, "logical negation", [](bool a) { return !a; });
}

// ---- two operands

template <class R, class T, class F>
void binary_run(R* out, const T* a, int64_t a_step, const T* b, int64_t b_step, int64_t n, F f) {
  if (a_step == 1 && b_step == 1) {
    wide_if_float<T>([=] {
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<R>(f(a[i], b[i]));
    });
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (a_step == 1 && b_step == 0) {
      vectorised([=, fixed = *b] {
        for (int64_t i = 0; i < n; ++i) out[i] = static_cast<R>(f(a[i], fixed));
      });
      return;
    }
    if (a_step == 0 && b_step == 1) {
      vectorised([=, fixed = *a] {
        for (int64_t i = 0; i < n; ++i) out[i] = static_cast<R>(f(fixed, b[i]));
      });
      return;
    }
  }
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<R>(f(a[i * a_step], b[i * b_step]));
}

template <class T, class R, class F>
BoundKernel binary_kernel(const KernelSite& site, F f) {
  const Shape& out = site.out("Out").shape;
  const Walk<2> walk(out, {broadcast_strides(site.in("A").shape, out),
                           broadcast_strides(site.in("B").shape, out)});
  return {[walk, f](const KernelArgs& k) {
            const T* a = k.in<T>(0);
            const T* b = k.in<T>(1);
            R* result = k.out<R>(0);
            walk.runs(k.range(walk.count()), [&](int64_t at, const auto& offset, int64_t n) {
              binary_run(result + at, a + offset[0], walk.step(0), b + offset[1], walk.step(1), n,
                         f);
            });
          },
          parts_for(walk.count())};
}

// The first operand with the rows of the result gives it its LoD, also when it has none: x + y has
// that of x, whatever y has. An operand that is repeated along the rows has no say.
void carry_lod_of_rows(OpView& op) {
  const Shape& out = op.out("Out").shape;
  for (const char* slot : {"A", "B"}) {
    const Shape& own = op.in(slot).shape;
    if (own.rank() == 0 || own.rank() != out.rank() || !own[0].may_equal(out[0])) continue;
    op.share_lod(slot, "Out");
    return;
  }
}

void binary_rule(OpView& op, std::optional<DType> result) {
  const ValueInfo& a = op.in("A");
  const ValueInfo& b = op.in("B");
  if (a.dtype != b.dtype) {
    throw op.error(cat("the operands are ", name_of(a.dtype), " and ", name_of(b.dtype)))
        .fix("cast one of them to the type of the other");
  }
  rule(op, result.value_or(a.dtype), broadcast_shapes(op, a.shape, b.shape, -1));
  carry_lod_of_rows(op);
}

template <class R, class... Ts, class F>
OpSchema& binary(Registry& ops, const char* name, std::optional<TileOp> tile, const char* doc,
                 F f) {
  constexpr bool kSame = std::is_void_v<R>;
  return ops.primitive(name)
      .doc(doc)
      .traits({.tile = tile})
      .in("A", "any shape")
      .in("B", "A's type; broadcast with A as numpy does")
      .out("Out", doc)
      .shape([](OpView& op) {
        if constexpr (kSame) {
          binary_rule(op, {});
        } else {
          binary_rule(op, dtype_of<R>);
        }
      })
      .kernel(typed_by<Ts...>("A", [f]<class T>(const KernelSite& site) {
        return binary_kernel<T, std::conditional_t<kSame, T, R>>(site, f);
      }));
}

// Whether operand i may have been repeated along some dimension of the result. Extents that are not
// known yet count as repeated unless every other operand leaves that dimension alone.
bool may_be_repeated(const Vjp& v, size_t i) {
  const int rank = v.out().rank();
  const Shape& own = v.in(i).shape();
  if (own.rank() < rank) return true;
  for (int d = 0; d < rank; ++d) {
    const Dim extent = own[d];
    if (extent.known() && extent != Dim(1)) continue;
    if (extent == v.out().shape()[d] && extent.known()) continue;
    for (size_t other = 0; other < v.in_size(); ++other) {
      const Shape& shape = v.in(other).shape();
      const int axis = d - (rank - shape.rank());
      if (other != i && axis >= 0 && shape[axis] != Dim(1)) return true;
    }
  }
  return false;
}

// States the gradient of operand i, added up over the dimensions along which it was repeated.
void set_operand(Vjp& v, size_t i, Expr gradient) {
  v.set(i, may_be_repeated(v, i) ? sum_to_like(gradient, v.in(i)) : gradient);
}

void register_arithmetic(Registry& ops) {
  const auto small = [&ops](const char* name, TileOp tile, const char* doc, auto f) -> OpSchema& {
    return binary<void, float, double, int32_t, int64_t, int8_t, uint8_t>(ops, name, tile, doc, f);
  };
  const auto number = [&ops](const char* name, TileOp tile, const char* doc, auto f) -> OpSchema& {
    return binary<void, float, double, int32_t, int64_t>(ops, name, tile, doc, f);
  };
  small("p.add", TileOp::add, "A + B", element::add).vjp([](Vjp& v) {
    set_operand(v, 0, v.grad());
    set_operand(v, 1, v.grad());
  });
  small("p.sub", TileOp::sub, "A - B", element::sub).vjp([](Vjp& v) {
    set_operand(v, 0, v.grad());
    set_operand(v, 1, -v.grad());
  });
  small("p.mul", TileOp::mul, "A * B", element::mul).vjp([](Vjp& v) {
    set_operand(v, 0, v.grad() * v.in(1));
    set_operand(v, 1, v.grad() * v.in(0));
  });
  number("p.div", TileOp::div, "A / B; whole numbers are cut towards zero", element::div)
      .vjp([](Vjp& v) {
        set_operand(v, 0, v.grad() / v.in(1));
        set_operand(v, 1, -v.grad() * v.out() / v.in(1));
      });
  number("p.pow", TileOp::pow, "A to the power B", element::pow).vjp([](Vjp& v) {
    const Expr a = v.in(0), b = v.in(1), g = v.grad();
    set_operand(v, 0, g * b * pow(a, b - 1.0));
    // 0 to the power b does not move with b, though its logarithm has no end.
    const Expr slope = g * v.out() * log(a);
    set_operand(v, 1, select(equal(a, 0.0), constant(a, 0.0), slope));
  });
  // At a tie the gradient goes to B.
  small("p.max", TileOp::max, "the larger", element::max).vjp([](Vjp& v) {
    const Expr first = greater(v.in(0), v.in(1)), zero = constant(v.grad(), 0.0);
    set_operand(v, 0, select(first, v.grad(), zero));
    set_operand(v, 1, select(first, zero, v.grad()));
  });
  small("p.min", TileOp::min, "the smaller", element::min).vjp([](Vjp& v) {
    const Expr first = less(v.in(0), v.in(1)), zero = constant(v.grad(), 0.0);
    set_operand(v, 0, select(first, v.grad(), zero));
    set_operand(v, 1, select(first, zero, v.grad()));
  });
  number("p.mod", TileOp::mod, "remainder of A / B with the sign of B", element::mod);
  number("p.floordiv", TileOp::floordiv, "A / B rounded down", element::floordiv);
}

void register_comparisons(Registry& ops) {
  const auto compare = [&ops](const char* name, TileOp tile, const char* doc, auto f) {
    binary<bool, float, double, int32_t, int64_t, bool, uint8_t, int8_t>(ops, name, tile, doc, f);
  };
  compare("p.eq", TileOp::eq, "A == B", element::eq);
  compare("p.ne", TileOp::ne, "A != B", element::ne);
  compare("p.lt", TileOp::lt, "A < B", element::lt);
  compare("p.le", TileOp::le, "A <= B", element::le);
  compare("p.gt", TileOp::gt, "A > B", element::gt);
  compare("p.ge", TileOp::ge, "A >= B", element::ge);
  binary<bool, bool>(ops, "p.and", TileOp::mask_and, "both", [](bool a, bool b) { return a && b; });
  binary<bool, bool>(ops, "p.or", TileOp::mask_or, "at least one",
                     [](bool a, bool b) { return a || b; });
  binary<bool, bool>(ops, "p.xor", TileOp::mask_xor, "exactly one",
                     [](bool a, bool b) { return a != b; });
}

// ---- the others

// Chosen as bits: both sides are read, none is computed with.
template <class T>
void select_run(T* out, const bool* condition, int64_t step, const T* yes, int64_t yes_step,
                const T* no, int64_t no_step, int64_t n) {
  const auto run = [=](auto yes_at, auto no_at) {
    vectorised([=] {
      for (int64_t i = 0; i < n; ++i) {
        const T mask = static_cast<T>(-static_cast<T>(condition[i]));
        out[i] = static_cast<T>((yes_at(i) & mask) | (no_at(i) & ~mask));
      }
    });
  };
  const auto each = [](const T* from) { return [from](int64_t i) { return from[i]; }; };
  const auto fixed = [](const T* from) { return [one = *from](int64_t) { return one; }; };
  if (step == 1 && yes_step == 1 && no_step == 1) {
    run(each(yes), each(no));
  } else if (step == 1 && yes_step == 1 && no_step == 0) {
    run(each(yes), fixed(no));
  } else if (step == 1 && yes_step == 0 && no_step == 1) {
    run(fixed(yes), each(no));
  } else {
    for (int64_t i = 0; i < n; ++i) {
      out[i] = condition[i * step] ? yes[i * yes_step] : no[i * no_step];
    }
  }
}

BoundKernel select_kernel(const KernelSite& site) {
  const Shape& out = site.out("Out").shape;
  const Walk<3> walk(
      out, {broadcast_strides(site.in("A").shape, out), broadcast_strides(site.in("B").shape, out),
            broadcast_strides(site.in("C").shape, out)});
  return by_size(site.in("B").dtype, [&]<class T>() {
    return BoundKernel(
        [walk](const KernelArgs& k) {
          const bool* condition = k.in<bool>(0);
          const T* yes = raw_as<T>(k.in(1));
          const T* no = raw_as<T>(k.in(2));
          T* result = raw_as<T>(k.out(0));
          walk.runs(k.range(walk.count()), [&](int64_t at, const auto& offset, int64_t n) {
            select_run(result + at, condition + offset[0], walk.step(0), yes + offset[1],
                       walk.step(1), no + offset[2], walk.step(2), n);
          });
        },
        parts_for(walk.count()));
  });
}

BoundKernel fill_kernel(const KernelSite& site) {
  const int64_t n = site.out("Out").shape.count();
  return {[n, value = site.attr<double>("value")](const KernelArgs& k) {
            const auto [begin, end] = k.range(n);
            fill(k.out(0), value, begin, end);
          },
          parts_for(n)};
}

void register_others(Registry& ops) {
  ops.primitive("p.select")
      .in("A", "condition, bool")
      .in("B", "taken where A holds")
      .in("C", "B's type; taken elsewhere")
      .out("Out", "all three broadcast together")
      .shape([](OpView& op) {
        const ValueInfo& b = op.in("B");
        const Shape pair = broadcast_shapes(op, b.shape, op.in("C").shape, -1);
        rule(op, b.dtype, broadcast_shapes(op, op.in("A").shape, pair, -1));
        carry_lod(op, "Out", {"A", "B", "C"});
      })
      .traits({.tile = TileOp::select})
      .vjp([](Vjp& v) {
        const Expr zero = constant(v.grad(), 0.0);
        set_operand(v, 1, select(v.in(0), v.grad(), zero));
        set_operand(v, 2, select(v.in(0), zero, v.grad()));
      })
      .kernel(untyped(select_kernel));

  ops.primitive("p.cast")
      .traits({.keeps_rows = true, .images = BlockedImages::any})
      .in("A", "any shape and type")
      .out("Out", "A in another element type")
      .renames("A", "Out")
      .required_attr<int32_t>("dtype", "the wanted element type")
      .shape([](OpView& op) {
        rule(op, dtype_attr(op, "dtype"), op.in("A").shape);
        carry_lod(op, "Out", {"A"});
      })
      .vjp([](Vjp& v) {
        if (is_floating(v.in(0).dtype())) v.set(0, cast(v.grad(), v.in(0).dtype()));
      })
      .kernel(untyped([](const KernelSite& site) {
        const int64_t n = site.in("A").shape.count();
        return BoundKernel(
            [n](const KernelArgs& k) {
              const auto [begin, end] = k.range(n);
              cast_elements(k.in(0), k.out(0), begin, end);
            },
            parts_for(n));
      }));

  ops.primitive("p.constant")
      .out("Out", "one number, rank 0")
      .required_attr<double>("value", "the number")
      .required_attr<int32_t>("dtype", "its element type")
      .shape([](OpView& op) { rule(op, dtype_attr(op, "dtype"), Shape{}); })
      .kernel(untyped(fill_kernel));

  ops.primitive("p.full_like")
      .traits({.like = 0, .images = BlockedImages::any})
      .in("A", "its shape and type are taken")
      .out("Out", "`value` everywhere")
      .required_attr<double>("value", "the number")
      .shape([](OpView& op) {
        rule(op, op.in("A").dtype, op.in("A").shape);
        carry_lod(op, "Out", {"A"});
      })
      .vjp(no_gradient)
      .kernel(untyped(fill_kernel));
}

}  // namespace

void register_primitive_elementwise(Registry& ops) {
  register_unary(ops);
  register_arithmetic(ops);
  register_comparisons(ops);
  register_others(ops);
}

}  // namespace trireme
