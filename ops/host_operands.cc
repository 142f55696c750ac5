#include "ops/host_operands.h"

#include <cstring>

#include "core/text.h"

namespace trireme {
namespace {

template <class T>
void add_elements(const Tensor& from, const Tensor& to) {
  const T* source = from.data<T>();
  T* target = to.data<T>();
  for (int64_t i = 0; i < from.numel(); ++i) target[i] += source[i];
}

}  // namespace

void add_tensor(const Tensor& from, const Tensor& to) {
  if (from.dtype() != to.dtype() || !(from.shape() == to.shape())) {
    throw Error(cat("one gradient is ", from.describe(), " and another of the same variable is ",
                    to.describe()));
  }
  if (from.dtype() == DType::float32) {
    add_elements<float>(from, to);
  } else if (from.dtype() == DType::float64) {
    add_elements<double>(from, to);
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

Piece piece_of(const Lod& lod, size_t level, int64_t begin, int64_t end) {
  Piece piece{begin, end, {}};
  for (size_t l = level; l < lod.size(); ++l) {
    std::vector<int64_t>& lengths = piece.lengths.emplace_back();
    for (int64_t i = piece.begin; i < piece.end; ++i) {
      lengths.push_back(lod[l][static_cast<size_t>(i) + 1] - lod[l][static_cast<size_t>(i)]);
    }
    piece.begin = lod[l][static_cast<size_t>(piece.begin)];
    piece.end = lod[l][static_cast<size_t>(piece.end)];
  }
  return piece;
}

void PieceList::add(const Tensor& source, const Piece& piece) {
  parts_.push_back({&source, piece.begin, piece.end - piece.begin});
  if (lengths_.size() < piece.lengths.size()) lengths_.resize(piece.lengths.size());
  for (size_t l = 0; l < piece.lengths.size(); ++l) {
    lengths_[l].insert(lengths_[l].end(), piece.lengths[l].begin(), piece.lengths[l].end());
  }
}

void PieceList::add_zeros(int64_t rows) { parts_.push_back({nullptr, 0, rows}); }

Tensor PieceList::join(const Lod& prefix, const Tensor* like) const {
  int64_t rows = 0;
  for (const Part& part : parts_) {
    if (part.source) like = part.source;
    rows += part.rows;
  }
  if (!like) throw Error("there is nothing to join: no element was ever written");
  Shape shape = like->shape();
  shape[0] = rows;
  Tensor joined = filled(like->dtype(), shape, 0);
  auto* to = static_cast<std::byte*>(joined.raw());
  const size_t width =
      rows == 0 ? 0 : joined.byte_size() / static_cast<size_t>(rows);  // bytes of one row
  for (const Part& part : parts_) {
    const size_t bytes = static_cast<size_t>(part.rows) * width;
    if (part.source && bytes > 0) {
      const Tensor& from = *part.source;
      if (from.dtype() != like->dtype() ||
          from.byte_size() != width * static_cast<size_t>(from.shape().at(0))) {
        throw Error(
            cat("rows of ", from.describe(), " and of ", like->describe(), " do not fit together"));
      }
      std::memcpy(to, static_cast<std::byte*>(from.raw()) + static_cast<size_t>(part.begin) * width,
                  bytes);
    }
    to += bytes;
  }
  Lod lod = prefix;
  for (std::vector<int64_t>& level : lod_from_lengths(lengths_)) lod.push_back(std::move(level));
  joined.set_lod(std::move(lod));
  return joined;
}

}  // namespace trireme
