// Copies, zeros and sums of operands that host ops hold as variables.
#include "ops/host/host_operands.h"

#include <cstring>

#include "core/text.h"
#include "cpu/vectorised.h"

namespace trireme {
namespace {

template <class T>
void add_elements(const Tensor& from, const Tensor& to, int64_t begin, int64_t end) {
  vectorised([source = from.data<T>(), target = to.data<T>(), begin, end] {
    for (int64_t i = begin; i < end; ++i) target[i] += source[i];
  });
}

}  // namespace

void add_tensor(const Tensor& from, const Tensor& to, int part, int parts) {
  if (from.dtype() != to.dtype() || !(from.shape() == to.shape())) {
    throw Error(cat("one gradient is ", from.describe(), " and another of the same variable is ",
                    to.describe()));
  }
  const int64_t n = from.numel(), begin = n * part / parts, end = n * (part + 1) / parts;
  if (from.dtype() == DType::float32) {
    add_elements<float>(from, to, begin, end);
  } else if (from.dtype() == DType::float64) {
    add_elements<double>(from, to, begin, end);
  } else {
    throw Error(ErrorKind::unimplemented,
                cat("gradients of type ", name_of(from.dtype()), " cannot be added up"))
        .fix("compute in float32");
  }
}

bool works_on_gradients(const KernelSite& site, const std::string& variable) {
  return site.has_attr("op_role") && (site.attr<int32_t>("op_role") & op_role::kBackward) != 0 &&
         variable.find(kGradSuffix) != variable.npos;
}

void set_tensor(Variable& result, const Tensor& value) {
  if (result.kind() != Kind::dense) result.clear();
  result.tensor().copy_from(value);
}

Tensor& result_of_shape(Variable& result, DType dtype, const Shape& shape) {
  if (result.kind() != Kind::dense) result.clear();
  Tensor& tensor = result.tensor();
  tensor.resize(dtype, shape);
  tensor.mutable_lod().clear();
  return tensor;
}

void set_zeros(Variable& result, const Tensor& like) {
  if (result.kind() != Kind::dense) result.clear();
  Tensor& tensor = result.tensor();
  tensor.resize(like.dtype(), like.shape());
  fill(tensor, 0, 0, tensor.numel());
  tensor.mutable_lod() = like.lod();
}

void set_number(Variable& result, int64_t value) {
  *result_of_shape(result, DType::int64, {1}).data<int64_t>() = value;
}

RowRange rows_of_items(const Lod& lod, size_t level, int64_t begin, int64_t end) {
  for (size_t l = level; l < lod.size(); ++l) {
    begin = lod[l][static_cast<size_t>(begin)];
    end = lod[l][static_cast<size_t>(end)];
  }
  return {begin, end};
}

void PieceList::clear() {
  parts_.clear();
  for (std::vector<int64_t>& level : lengths_) level.clear();
  levels_ = 0;
}

void PieceList::add(const Tensor& source, size_t level, int64_t begin, int64_t end) {
  const Lod& lod = source.lod();
  for (size_t below = 0; level + below < lod.size(); ++below) {
    levels_ = std::max(levels_, below + 1);
    if (lengths_.size() < levels_) lengths_.resize(levels_);
    const std::vector<int64_t>& offsets = lod[level + below];
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      lengths_[below].push_back(offsets[i + 1] - offsets[i]);
    }
    begin = offsets[static_cast<size_t>(begin)];
    end = offsets[static_cast<size_t>(end)];
  }
  parts_.push_back({&source, begin, end - begin});
}

void PieceList::add_zeros(int64_t rows) { parts_.push_back({nullptr, 0, rows}); }

void PieceList::join(const Tensor* like, Variable& result) const {
  if (result.kind() != Kind::dense) result.clear();
  join({}, like, result.tensor());
}

void PieceList::join(const Lod& prefix, const Tensor* like, Tensor& joined) const {
  int64_t rows = 0;
  for (const Part& part : parts_) {
    if (part.source) like = part.source;
    rows += part.rows;
    promise(part.source != &joined, "pieces are not joined to one of their sources");
  }
  if (!like) throw Error("there is nothing to join: no element was ever written");
  Shape shape = like->shape();
  shape[0] = rows;
  joined.resize(like->dtype(), shape);
  auto* to = static_cast<std::byte*>(joined.raw());
  const size_t width =
      rows == 0 ? 0 : joined.byte_size() / static_cast<size_t>(rows);  // bytes of one row
  for (const Part& part : parts_) {
    const size_t bytes = static_cast<size_t>(part.rows) * width;
    if (bytes == 0) continue;
    if (part.source) {
      const Tensor& from = *part.source;
      if (from.dtype() != like->dtype() ||
          from.byte_size() != width * static_cast<size_t>(from.shape().at(0))) {
        throw Error(
            cat("rows of ", from.describe(), " and of ", like->describe(), " do not fit together"));
      }
      std::memcpy(to, static_cast<std::byte*>(from.raw()) + static_cast<size_t>(part.begin) * width,
                  bytes);
    } else {
      std::memset(to, 0, bytes);
    }
    to += bytes;
  }
  Lod& lod = joined.mutable_lod();
  lod.resize(prefix.size() + levels_);
  for (size_t l = 0; l < prefix.size(); ++l) lod[l] = prefix[l];
  for (size_t l = 0; l < levels_; ++l) {
    std::vector<int64_t>& offsets = lod[prefix.size() + l];
    offsets.assign(1, 0);
    for (int64_t length : lengths_[l]) offsets.push_back(offsets.back() + length);
  }
}

}  // namespace trireme
