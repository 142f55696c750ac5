// What sequence rows share: reading LoD, moving rows by a map, samples with sequences.
#include "ops/sequence/sequence_rules.h"

#include <algorithm>
#include <cstring>

namespace trireme {
namespace {

// By the number of bytes moved alone, so that the cut is the same on every machine.
int parts_for_bytes(int64_t bytes) {
  return static_cast<int>(std::clamp<int64_t>(bytes >> 16, 1, 64));
}

}  // namespace

Error no_sequences(const OpView& op, std::string_view slot, size_t i) {
  const ValueInfo& x = op.in(slot, i);
  return op.error(cat(slot, " (", x.name, ") has no LoD, so its sequences are not known"))
      .fix(
          "declare the data with lod_level=1 and feed a LoDTensor: "
          "fluid.create_lod_tensor(data, recursive_seq_lens, place)");
}

const std::vector<int64_t>* sequence_offsets(const OpView& op, std::string_view slot, size_t i) {
  const ValueInfo& x = op.in(slot, i);
  if (!x.lod.empty()) return &x.lod.back();
  if (x.known && x.lod_level == 0 && x.shape.known()) throw no_sequences(op, slot, i);
  return nullptr;
}

std::vector<int64_t> bound_offsets(const KernelSite& site, std::string_view slot, size_t i) {
  const ValueInfo& x = site.in(slot, i);
  if (x.lod.empty()) throw no_sequences(site, slot, i);
  return x.lod.back();
}

int64_t row_width(const Shape& shape) {
  return shape.rank() == 0 ? 1 : shape.product(1, shape.rank()).value();
}

void set_lod(OpView& op, std::string_view slot, Lod lod, int level, size_t i) {
  if (op.out_position(slot, i) < 0) return;
  ValueInfo& out = op.out(slot, i);
  out.lod_level = lod.empty() ? level : static_cast<int>(lod.size());
  out.lod = std::move(lod);
}

Lod outer_levels(const Lod& lod) { return lod.empty() ? Lod{} : Lod(lod.begin(), lod.end() - 1); }

BoundKernel gather_rows(int in, int out, RowMap map) {
  const auto rows = static_cast<int64_t>(map.size());
  return BoundKernel([in, out, rows, map = std::move(map)](const KernelArgs& k) {
    const auto* from = static_cast<const std::byte*>(k.in(in).address());
    auto* to = static_cast<std::byte*>(k.out(out).address());
    const size_t bytes = rows == 0 ? 0 : k.out(out).byte_size() / static_cast<size_t>(rows);
    for (int64_t row = 0; row < rows && bytes > 0; ++row) {
      std::byte* target = to + static_cast<size_t>(row) * bytes;
      const int64_t source = map[static_cast<size_t>(row)];
      if (source == kNoRow) {
        std::memset(target, 0, bytes);
      } else {
        std::memcpy(target, from + static_cast<size_t>(source) * bytes, bytes);
      }
    }
  });
}

// Several rows may meet in one, so the columns are cut into parts and every part adds in row order.
KernelMake add_rows_back(std::string in, std::string out, RowMap (*map)(const KernelSite& site)) {
  return typed<float, double>([in, out, map]<class T>(const KernelSite& site) {
    const int from = site.position(in), to = site.out_position(out);
    const Shape& shape = site.out(out).shape;
    const int64_t width = row_width(shape), rows = shape.rank() == 0 ? 1 : shape.at(0);
    const auto bytes = static_cast<int64_t>(sizeof(T)) * rows * width;
    const auto parts =
        static_cast<int>(std::min<int64_t>(parts_for_bytes(bytes), std::max<int64_t>(width, 1)));
    return BoundKernel(
        [=, where = map(site)](const KernelArgs& k) {
          const auto [first, last] = k.range(width);
          T* sums = k.out<T>(to);
          const T* values = k.in<T>(from);
          for (int64_t row = 0; row < rows; ++row) {
            std::fill(sums + row * width + first, sums + row * width + last, T{0});
          }
          for (size_t row = 0; row < where.size(); ++row) {
            if (where[row] == kNoRow) continue;
            T* sum = sums + where[row] * width;
            const T* value = values + static_cast<int64_t>(row) * width;
            for (int64_t j = first; j < last; ++j) sum[j] += value[j];
          }
        },
        parts);
  });
}

Tensor draw_sequences(Draw& draw, std::vector<int64_t> row_shape, const SequenceDraw& wanted) {
  Lod lod = draw.lod(wanted.sequences, 3, wanted.allow_empty);
  row_shape.insert(row_shape.begin(), lod.back().back());
  if (wanted.levels == 2) {
    const int64_t cut = draw.size(wanted.allow_empty ? 0 : 1, wanted.sequences - 1);
    lod.insert(lod.begin(), {0, cut, wanted.sequences});
  }
  Tensor tensor = draw.distinct(Shape(row_shape));
  tensor.set_lod(std::move(lod));
  return tensor;
}

}  // namespace trireme
