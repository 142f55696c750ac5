// Heads of messages, written and looked at.
#ifdef TRIREME_HAVE_GRPC

#include "ps/chunks.h"

#include <unistd.h>

#include "core/error.h"
#include "core/lod.h"
#include "core/text.h"

namespace trireme {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 40;
constexpr int kMostExtents = 8;
constexpr size_t kMostName = 4096;

void check_memory(int64_t count, size_t width) {
  const int64_t memory = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  if (count > memory / static_cast<int64_t>(width)) refuse_message("more than this machine holds");
}

Shape shape_of(const ps::Head& head, DType dtype) {
  if (head.shape_size() > kMostExtents) refuse_message(cat(head.shape_size(), " extents"));
  int64_t count = 1;
  for (const int64_t extent : head.shape()) {
    if (extent < 0 || (extent > 0 && count > kMostElements / extent)) {
      refuse_message("a shape too large");
    }
    count *= extent;
  }
  check_memory(count, size_of(dtype));
  return Shape{std::span<const int64_t>(head.shape().data(), head.shape().size())};
}

Lod lod_of(const ps::Head& head, int64_t length) {
  Lod lod;
  for (const ps::Level& level : head.lod()) {
    lod.emplace_back(level.starts().begin(), level.starts().end());
  }
  if (!lod.empty() && !lod_problem(lod, length).empty()) refuse_message(lod_problem(lod, length));
  return lod;
}

bool fits(const Tensor& tensor, DType dtype, const Shape& shape) {
  return tensor.initialized() && in_host_memory(tensor.place()) && tensor.dtype() == dtype &&
         tensor.shape() == shape;
}

}  // namespace

void refuse_message(const std::string& what) {
  throw IoError(cat("a message from another process is not one of ours: ", what));
}

void fill_head(const PsMessage& message, ps::Head& head) {
  head.set_kind(static_cast<int32_t>(message.kind));
  head.set_trainer(message.trainer);
  head.set_incarnation(message.incarnation);
  head.set_sequence(message.sequence);
  head.set_name(message.name);
  head.set_error(message.error);
  head.set_path(message.path);
  head.set_keeps(message.keeps);
  head.set_kept(message.kept);
  head.set_after(message.after);
  if (message.value.kind() != Kind::dense && message.value.kind() != Kind::rows) return;
  const bool dense = message.value.kind() == Kind::dense;
  const Tensor& tensor = dense ? message.value.tensor() : message.value.rows().value;
  head.set_holds(dense ? 1 : 2);
  head.set_dtype(static_cast<int32_t>(tensor.dtype()));
  for (int axis = 0; axis < tensor.shape().rank(); ++axis) head.add_shape(tensor.shape().at(axis));
  for (const auto& level : tensor.lod()) {
    ps::Level& to = *head.add_lod();
    for (const int64_t start : level) to.add_starts(start);
  }
  if (!dense) {
    head.set_height(message.value.rows().height);
    head.set_named(static_cast<int64_t>(message.value.rows().rows.size()));
  }
}

void take_head(const ps::Head& head, PsMessage& message) {
  if (head.kind() < 0 || head.kind() > static_cast<int32_t>(PsMessage::Kind::hello)) {
    refuse_message(cat("kind ", head.kind()));
  }
  for (const std::string* text : {&head.name(), &head.path()}) {
    if (text->size() > kMostName) refuse_message(cat("a name of ", text->size(), " bytes"));
  }
  message.kind = static_cast<PsMessage::Kind>(head.kind());
  message.trainer = head.trainer();
  message.incarnation = head.incarnation();
  message.sequence = head.sequence();
  message.name = head.name();
  message.error = head.error();
  message.path = head.path();
  message.keeps = head.keeps();
  message.kept = head.kept();
  message.after = head.after();
  if (head.holds() == 0) return message.value.clear();
  const std::optional<DType> dtype = dtype_from_wire(head.dtype());
  if (!dtype) refuse_message(cat("element type ", head.dtype()));
  const Shape shape = shape_of(head, *dtype);
  if (head.holds() == 2) {
    // A table may have room for rows that have no number yet.
    const int64_t room = shape.rank() > 0 ? shape.at(0) : -1;
    if (head.named() < 0 || head.named() > room) refuse_message("more row numbers than rows");
    check_memory(head.named(), sizeof(int64_t));
    message.value.clear();
    SelectedRows& rows = message.value.rows();
    rows.height = head.height();
    rows.rows = RowNumbers(std::vector<int64_t>(static_cast<size_t>(head.named())));
    rows.value = Tensor(*dtype, shape);
    return;
  }
  Lod lod = lod_of(head, shape.rank() > 0 ? shape.at(0) : 1);
  if (message.value.kind() != Kind::dense) message.value.clear();
  Tensor& tensor = message.value.tensor();
  if (!fits(tensor, *dtype, shape)) tensor = Tensor(*dtype, shape);
  tensor.set_lod(std::move(lod));
}

std::vector<std::span<std::byte>> bytes_of(const Variable& value) {
  if (value.kind() == Kind::dense) return {value.tensor().bytes()};
  if (value.kind() != Kind::rows) return {};
  const SelectedRows& rows = value.rows();
  auto* numbers = static_cast<std::byte*>(rows.rows.address());
  return {{numbers, rows.rows.size() * sizeof(int64_t)}, rows.value.bytes()};
}

}  // namespace trireme

#endif
