// Random tensors: uniform, normal, truncated normal, whole numbers, samples and shuffles.
#include <cmath>
#include <cstring>
#include <numeric>

#include "ir/schema.h"
#include "ops/tensor/original_random.h"
#include "ops/tensor/random_source.h"
#include "ops/tensor/shape_operand.h"

namespace trireme {
namespace {

DType wanted_dtype(const OpView& op) {
  const int number = op.attr<int>("dtype");
  const std::optional<DType> dtype = dtype_from_wire(number);
  if (!dtype) {
    throw op.error(cat("dtype is ", number, ", which is no element type"))
        .fix("choose float32 (5), float64 (6), float16 (4), int32 (2) or int64 (3)");
  }
  return *dtype;
}

void shape_from_operands(OpView& op) { op.set_out("Out", wanted_dtype(op), shape_operand(op)); }

// The shape attribute with one extent taken from Input: a batch size not known before the feed.
void shape_like_batch(OpView& op) {
  const auto extents = op.attr<std::vector<int>>("shape");
  const Shape& input = op.in("Input").shape;
  const int from = op.attr<int>("input_dim_idx");
  const int to = op.attr<int>("output_dim_idx");
  const int rank = static_cast<int>(extents.size());
  if (from < 0 || from >= input.rank()) {
    throw op.error(cat("input_dim_idx is ", from, " but Input has ", input.rank(), " dimensions"))
        .fix(cat("choose from 0 to ", input.rank() - 1));
  }
  if (to < 0 || to >= rank) {
    throw op.error(cat("output_dim_idx is ", to, " but shape has ", rank, " extents"))
        .fix(cat("choose from 0 to ", rank - 1));
  }
  Shape shape;
  for (int axis = 0; axis < rank; ++axis) {
    const int extent = extents[static_cast<size_t>(axis)];
    if (axis != to && extent < 0) {
      throw op
          .error(cat("shape[", axis, "] is ", extent, " but only output_dim_idx (", to,
                     ") is taken from Input"))
          .fix("give the other extents as numbers from 0 up");
    }
    shape.push_back(axis == to ? input[from] : Dim(extent));
  }
  op.set_out("Out", wanted_dtype(op), shape);
  // Rows that follow Input's rows group as they do.
  if (from == 0 && to == 0) op.share_lod("Input", "Out");
}

template <class T, class Value>
void fill_as(const KernelArgs& k, const Value& value) {
  Tensor& out = k.out(0);
  T* to = out.data<T>();
  const auto [begin, end] = k.range(out.numel());
  for (int64_t i = begin; i < end; ++i) {
    if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
      to[i] = T(static_cast<float>(value(i)));
    } else {
      to[i] = static_cast<T>(value(i));
    }
  }
}

Error no_random_numbers(const KernelArgs& k) {
  return Error(ErrorKind::unimplemented,
               cat("random numbers of type ", name_of(k.out(0).dtype()), " are not made"))
      .fix("draw float32 and cast");
}

// Fills Out with value(element), drawn in double and rounded once to the element type.
template <class Value>
void fill(const KernelArgs& k, const Value& value) {
  switch (k.out(0).dtype()) {
    case DType::float32:
      return fill_as<float>(k, value);
    case DType::float64:
      return fill_as<double>(k, value);
    case DType::float16:
      return fill_as<float16>(k, value);
    case DType::bfloat16:
      return fill_as<bfloat16>(k, value);
    case DType::int32:
      return fill_as<int32_t>(k, value);
    case DType::int64:
      return fill_as<int64_t>(k, value);
    default:
      throw no_random_numbers(k);
  }
}

// The same with the original's numbers, which come one after another: the first part draws them
// all. next.operator()<T>() is the next one. Half-precision numbers are drawn as single ones.
template <class Next>
void fill_in_order(const KernelArgs& k, uint64_t before, Next next) {
  if (k.part != 0) return;
  const auto fill_all = [&]<class T>(auto draw) {
    for (uint64_t i = 0; i < before; ++i) draw();
    T* to = k.out(0).data<T>();
    for (int64_t i = 0; i < k.out(0).numel(); ++i) to[i] = static_cast<T>(draw());
  };
  const auto single = [&] { return next.template operator()<float>(); };
  const auto wide = [&] { return next.template operator()<double>(); };
  switch (k.out(0).dtype()) {
    case DType::float32:
      return fill_all.template operator()<float>(single);
    case DType::float64:
      return fill_all.template operator()<double>(wide);
    case DType::float16:
      return fill_all.template operator()<float16>(single);
    case DType::bfloat16:
      return fill_all.template operator()<bfloat16>(single);
    case DType::int32:
      return fill_all.template operator()<int32_t>(wide);
    case DType::int64:
      return fill_all.template operator()<int64_t>(wide);
    default:
      throw no_random_numbers(k);
  }
}

// uniform(min, max); then `diag_num` elements, `diag_step` + 1 apart, become diag_val: the diagonal
// of a matrix with diag_step columns.
KernelMake uniform_kernel() {
  return untyped([](const KernelSite& site) {
    const double low = site.attr<float>("min");
    const double high = site.attr<float>("max");
    const int64_t diagonal = site.attr<int>("diag_num");
    const int64_t apart = int64_t{site.attr<int>("diag_step")} + 1;
    const double on_diagonal = site.attr<float>("diag_val");
    const int64_t count = site.out("Out").shape.count();
    if (low > high) {
      throw site.error(cat("min is ", low, " but max is ", high))
          .fix("give a min that is not larger than max");
    }
    if (diagonal > 0 && (diagonal - 1) * apart >= count) {
      throw site
          .error(cat("diag_num is ", diagonal, " and diag_step ", apart - 1,
                     ": the last one would be element ", (diagonal - 1) * apart, " but Out has ",
                     count))
          .fix("lower diag_num or diag_step");
    }
    return BoundKernel(
        [=, source = random_source(site)](const KernelArgs& k) {
          const auto is_diagonal = [=](int64_t i) {
            return diagonal > 0 && i % apart == 0 && i / apart < diagonal;
          };
          if (const auto seed = source.original_seed()) {
            OriginalRandom random(*seed);
            int64_t i = -static_cast<int64_t>(source.first());
            return fill_in_order(k, source.first(), [&]<class T>() {
              const T drawn = random.uniform(static_cast<T>(low), static_cast<T>(high));
              return is_diagonal(i++) ? static_cast<T>(on_diagonal) : drawn;
            });
          }
          const Philox philox = source.philox(k);
          fill(k, [&](int64_t i) {
            return is_diagonal(i) ? on_diagonal
                                  : low + (high - low) * philox.uniform(static_cast<uint64_t>(i));
          });
        },
        draw_parts(count));
  });
}

KernelMake normal_kernel(bool truncated) {
  return untyped([truncated](const KernelSite& site) {
    const double mean = site.attr<float>("mean");
    const double deviation = site.attr<float>("std");
    return BoundKernel(
        [=, source = random_source(site)](const KernelArgs& k) {
          if (const auto seed = source.original_seed()) {
            OriginalRandom random(*seed);
            OriginalNormal<float> single(random);
            OriginalNormal<double> wide(random);
            return fill_in_order(k, source.first(), [&]<class T>() {
              if (truncated) {
                return static_cast<T>(original_truncated_normal(random) * deviation + mean);
              }
              T drawn = 0;
              if constexpr (std::is_same_v<T, float>) {
                drawn = single.draw();
              } else {
                drawn = wide.draw();
              }
              return drawn * static_cast<T>(deviation) + static_cast<T>(mean);
            });
          }
          const Philox philox = source.philox(k);
          fill(k, [&](int64_t i) {
            const auto element = static_cast<uint64_t>(i);
            return mean + deviation * (truncated ? philox.truncated_normal(element)
                                                 : philox.normal(element));
          });
        },
        draw_parts(site.out("Out").shape.count()));
  });
}

KernelMake randint_kernel() {
  return untyped([](const KernelSite& site) {
    const int64_t low = site.attr<int>("low");
    const int64_t high = site.attr<int>("high");
    if (low >= high) {
      throw site.error(cat("low is ", low, " but high is ", high))
          .fix("numbers are drawn from low up to high - 1: give a larger high");
    }
    return BoundKernel(
        [=, source = random_source(site)](const KernelArgs& k) {
          if (const auto seed = source.original_seed()) {
            OriginalRandom random(*seed);
            return fill_in_order(k, source.first(), [&]<class T>() {
              return static_cast<T>(random.whole(low, high - 1));
            });
          }
          const Philox philox = source.philox(k);
          const auto span = static_cast<double>(high - low);
          fill(k, [&](int64_t i) {
            const double step = std::floor(span * philox.uniform(static_cast<uint64_t>(i)));
            return static_cast<double>(low) + std::min(step, span - 1);
          });
        },
        draw_parts(site.out("Out").shape.count()));
  });
}

void sampling_id_shape(OpView& op) {
  const Shape& x = op.in("X").shape;
  if (x.rank() != 2) {
    throw op.error(cat("X has ", x.rank(), " dimensions ", x, " but must be [rows, classes]"))
        .fix("reshape X to two dimensions");
  }
  op.set_out("Out", DType::int64, Shape{x[0]});
  op.share_lod("X", "Out");
}

// Walks each row until the drawn number is used up by its probabilities.
template <class T>
BoundKernel sampling_id(const KernelSite& site) {
  const Shape& x = site.in("X").shape;
  const int64_t rows = x.at(0);
  const int64_t classes = x.at(1);
  const double low = site.attr<float>("min");
  const double high = site.attr<float>("max");
  if (classes == 0) throw site.error("X has 0 columns").fix("give each row one class or more");
  return BoundKernel(
      [=, source = random_source(site)](const KernelArgs& k) {
        const T* from = k.in<T>(0);
        int64_t* to = k.out<int64_t>(0);
        const Philox philox = source.philox(k);
        const auto [begin, end] = k.range(rows);
        for (int64_t row = begin; row < end; ++row) {
          double left = low + (high - low) * philox.uniform(static_cast<uint64_t>(row));
          int64_t chosen = classes - 1;
          for (int64_t j = 0; j < classes; ++j) {
            left -= static_cast<double>(from[row * classes + j]);
            if (left < 0) {
              chosen = j;
              break;
            }
          }
          to[row] = chosen;
        }
      },
      draw_parts(rows * classes));
}

void seed_shape(OpView& op) { op.set_out("Out", DType::int32, Shape{1}); }

BoundKernel seed_kernel(const KernelSite& site) {
  const int seed = site.attr<int>("seed");
  return [=, source = random_source(site)](const KernelArgs& k) {
    const auto drawn = static_cast<int32_t>(source.philox(k).bits(0) >> 1);
    k.out<int32_t>(0)[0] = seed != 0 ? seed : drawn;
  };
}

// Rows are all dimensions but the last.
void shuffle_batch_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  if (x.shape.rank() < 2) {
    throw op.error(cat("X has ", x.shape.rank(), " dimensions but rows to shuffle need 2"))
        .fix("reshape X to [rows, columns]");
  }
  op.set_out_like("Out", x);
  op.set_out("ShuffleIdx", DType::int64, Shape{x.shape.product(0, x.shape.rank() - 1)});
  op.set_out("SeedOut", DType::int64, Shape{1});
  op.share_lod("Seed", "SeedOut");
}

// Row i of X goes to row ShuffleIdx[i] of Out. The seed read this time makes the next one.
BoundKernel shuffle_batch_kernel(const KernelSite& site) {
  const Shape& x = site.in("X").shape;
  const int64_t rows = x.product(0, x.rank() - 1).value();
  const size_t row_bytes = static_cast<size_t>(x.back().value()) * size_of(site.in("X").dtype);
  const uint64_t stream = random_stream(site);
  const int64_t startup_seed = site.attr<int>("startup_seed");
  const int x_at = site.position("X"), seed_at = site.position("Seed");
  const int out_at = site.out_position("Out"), index_at = site.out_position("ShuffleIdx"),
            next_at = site.out_position("SeedOut");
  return [=](const KernelArgs& k) {
    const Tensor& given = k.in(seed_at);
    const int64_t seed = given.initialized() && given.numel() > 0
                             ? static_cast<int64_t>(element_as_double(given, 0))
                             : startup_seed;
    const Philox philox =
        RandomSource(static_cast<uint64_t>(seed), stream, PerStep::repeat).philox(k);
    int64_t* index = k.out<int64_t>(index_at);
    std::iota(index, index + rows, int64_t{0});
    for (int64_t i = rows - 1; i > 0; --i) {  // Fisher and Yates
      const double drawn = philox.uniform(static_cast<uint64_t>(i));
      const auto other = static_cast<int64_t>(drawn * static_cast<double>(i + 1));
      std::swap(index[i], index[std::min(other, i)]);
    }
    const auto* from = static_cast<const std::byte*>(k.in(x_at).address());
    auto* to = static_cast<std::byte*>(k.out(out_at).address());
    for (int64_t i = 0; i < rows; ++i) {
      std::memcpy(to + static_cast<size_t>(index[i]) * row_bytes,
                  from + static_cast<size_t>(i) * row_bytes, row_bytes);
    }
    k.out<int64_t>(next_at)[0] = static_cast<int64_t>(philox.bits(0) >> 1) + 1;
  };
}

BoundKernel shuffle_batch_grad_kernel(const KernelSite& site) {
  const ValueInfo& out_grad = site.in("Out@GRAD");
  const int64_t rows = out_grad.shape.product(0, out_grad.shape.rank() - 1).value();
  const size_t row_bytes =
      static_cast<size_t>(out_grad.shape.back().value()) * size_of(out_grad.dtype);
  const int index_at = site.position("ShuffleIdx"), out_grad_at = site.position("Out@GRAD");
  const int x_grad_at = site.out_position("X@GRAD");
  return [=](const KernelArgs& k) {
    const int64_t* index = k.in<int64_t>(index_at);
    const auto* from = static_cast<const std::byte*>(k.in(out_grad_at).address());
    auto* to = static_cast<std::byte*>(k.out(x_grad_at).address());
    for (int64_t i = 0; i < rows; ++i) {
      std::memcpy(to + static_cast<size_t>(i) * row_bytes,
                  from + static_cast<size_t>(index[i]) * row_bytes, row_bytes);
    }
  };
}

OpSchema& uniform_attrs(OpSchema& row) {
  return row.attr("min", -1.0f, "the smallest number drawn")
      .attr("max", 1.0f, "numbers drawn are below this")
      .attr("seed", 0, "the same seed draws the same numbers; 0: others in every run")
      .attr("diag_num", 0, "how many elements of a diagonal to set")
      .at_least(0)
      .attr("diag_step", 0, "columns of the matrix whose diagonal is set")
      .at_least(0)
      .attr("diag_val", 1.0f, "what the diagonal is set to")
      .attr("dtype", static_cast<int>(DType::float32), "element type of Out");
}

OpSchema& normal_attrs(OpSchema& row) {
  return row.attr("mean", 0.0f, "mean of the numbers drawn")
      .attr("std", 1.0f, "their standard deviation")
      .attr("seed", 0, "the same seed draws the same numbers; 0: others in every run")
      .attr("dtype", static_cast<int>(DType::float32), "element type of Out");
}

OpSchema& shape_slots(OpSchema& row) {
  return row.in_optional("ShapeTensor", "the extents of Out, one tensor")
      .in_optional_list("ShapeTensorList", "the extents of Out, one tensor of one number each")
      .out("Out", "the numbers drawn")
      .attr("shape", std::vector<int64_t>{}, "the extents of Out when no tensor gives them")
      .shape(shape_from_operands)
      .traits({.random = true, .reads_values = {"ShapeTensor", "ShapeTensorList"}});
}

OpSchema& batch_slots(OpSchema& row) {
  return row.in("Input", "one extent of Out is taken from it")
      .out("Out", "the numbers drawn")
      .required_attr<std::vector<int>>("shape", "the extents of Out")
      .attr("input_dim_idx", 0, "which extent of Input is taken")
      .attr("output_dim_idx", 0, "where it goes in Out")
      .shape(shape_like_batch)
      .traits({.random = true});
}

}  // namespace

void register_random(Registry& ops) {
  uniform_attrs(shape_slots(ops.op("uniform_random"))).kernel(uniform_kernel());
  uniform_attrs(batch_slots(ops.op("uniform_random_batch_size_like"))).kernel(uniform_kernel());
  normal_attrs(shape_slots(ops.op("gaussian_random"))).kernel(normal_kernel(false));
  normal_attrs(batch_slots(ops.op("gaussian_random_batch_size_like"))).kernel(normal_kernel(false));
  normal_attrs(ops.op("truncated_gaussian_random")
                   .out("Out", "numbers within two standard deviations of the mean")
                   .required_attr<std::vector<int>>("shape", "the extents of Out")
                   .shape([](OpView& op) {
                     const auto shape = op.attr<std::vector<int64_t>>("shape");
                     op.set_out("Out", wanted_dtype(op), Shape(std::span<const int64_t>(shape)));
                   })
                   .traits({.random = true}))
      .kernel(normal_kernel(true));
  shape_slots(ops.op("randint"))
      .attr("low", 0, "the smallest number drawn")
      .attr("high", 0, "numbers drawn are below this")
      .attr("seed", 0, "the same seed draws the same numbers; 0: others in every run")
      .attr("dtype", static_cast<int>(DType::int64), "element type of Out")
      .kernel(randint_kernel());
  ops.op("sampling_id")
      .in("X", "[rows, classes]: the probabilities of each row's classes")
      .out("Out", "[rows]: the class drawn for each row")
      .attr("min", 0.0f, "the smallest number drawn")
      .attr("max", 1.0f, "numbers drawn are below this")
      .attr("seed", 0, "the same seed draws the same numbers; 0: others in every run")
      .shape(sampling_id_shape)
      .traits({.random = true})
      .kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return sampling_id<T>(site); }));
  ops.op("seed")
      .out("Out", "[1]: a seed for dropout")
      .attr("seed", 0, "what Out holds; 0: a number that changes from run to run")
      .shape(seed_shape)
      .traits({.random = true})
      .kernel(untyped(seed_kernel));
  ops.op("shuffle_batch")
      .in("X", "[..., columns]: what is shuffled; all but the last dimension are rows")
      .in("Seed", "[1]: the seed of this shuffle")
      .out("Out", "the rows of X in another order")
      .out("ShuffleIdx", "where each row went")
      .out("SeedOut", "[1]: the seed of the next shuffle")
      .attr("startup_seed", 0, "the first seed, where Seed holds none")
      .shape(shuffle_batch_shape)
      .traits({.random = true})
      .inplace("Seed", "SeedOut")
      .kernel(untyped(shuffle_batch_kernel))
      .grad({"ShuffleIdx"})
      .grad_outs({"Out"})
      .no_grad({"Seed"})
      .grad_kernel(untyped(shuffle_batch_grad_kernel))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({d.size(1, 3), d.size(1, 4), 2})}},
                                   {"Seed", {d.ints({1}, 1, 1000)}}}};
      });
}

}  // namespace trireme
