// How an op gets into a block: attributes from the program's state, the row's checks, inference.
#include <algorithm>

#include "core/text.h"
#include "ir/program.h"
#include "ir/schema.h"

namespace trireme {
namespace {

const OpSchema& row_of(const std::string& type, const Block& block, const SourceLine& line) {
  try {
    return op_table().get(type);
  } catch (Error& error) {
    error.in(type).at(line).note(
        cat("appended to block ", block.index(), " of program ", block.program().id()));
    throw;
  }
}

void fill_from_program(const Program& program, Attrs& attrs) {
  attrs.try_emplace("op_role", int32_t{program.role});
  attrs.try_emplace("op_role_var", program.role_vars);
  attrs.try_emplace("op_namescope", program.name_scope);
  attrs.try_emplace("op_device", program.device);
}

// A random op that comes with a number keeps it, and later ones are counted on from there.
void number_random_op(OpSpec& spec, int& count) {
  const auto given = spec.attrs.find(kRandomPosition);
  if (given != spec.attrs.end()) {
    count = std::max(count, attr_as<int32_t>(given->second, kRandomPosition) + 1);
    return;
  }
  const OpSchema* row = op_table().find(spec.type);
  if (row && row->trait().random) spec.attrs.emplace(kRandomPosition, int32_t{count++});
}

}  // namespace

Op& Block::append_op(OpSpec spec, const SourceLine& line) {
  return insert_op(ops_.size(), std::move(spec), line);
}

Op& Block::prepend_op(OpSpec spec, const SourceLine& line) {
  return insert_op(0, std::move(spec), line);
}

Op& Block::insert_op(size_t index, OpSpec spec, const SourceLine& line) {
  const SourceLine* open = LineScope::current();
  const SourceLine asked = open ? *open : line;
  const OpSchema& row = row_of(spec.type, *this, asked);
  fill_from_program(*program_, spec.attrs);
  try {
    check_and_fill(row, spec);
  } catch (Error& error) {
    // The op is not in the program yet; its operands are shown all the same.
    add_op_context(error, Op(*this, std::move(spec), asked));
    throw;
  }
  Op& op = insert_raw_op(index, std::move(spec), asked);
  if (row.trait().no_inference) return op;
  try {
    infer_op(op);
  } catch (Error& error) {
    add_op_context(error, op);
    ops_.erase(ops_.begin() + static_cast<std::ptrdiff_t>(index));
    throw;
  }
  return op;
}

Op& Block::insert_raw_op(size_t index, OpSpec spec, const SourceLine& line) {
  if (index > ops_.size()) {
    throw Error(ErrorKind::out_of_range, cat("an op cannot be inserted at ", index, ": block ",
                                             index_, " has ", ops_.size(), " ops"));
  }
  number_random_op(spec, program_->random_ops);
  std::unique_ptr<Op> made(new Op(*this, std::move(spec), line));
  Op& op = *made;
  ops_.insert(ops_.begin() + static_cast<std::ptrdiff_t>(index), std::move(made));
  program_->touch();
  return op;
}

void Block::remove_ops(size_t begin, size_t end) {
  if (begin > end || end > ops_.size()) {
    throw Error(ErrorKind::out_of_range,
                cat("ops ", begin, " to ", end, " cannot be removed: block ", index_, " has ",
                    ops_.size(), " ops"));
  }
  const auto first = ops_.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto last = ops_.begin() + static_cast<std::ptrdiff_t>(end);
  for (auto op = first; op != last; ++op) removed_ops_.push_back(std::move(*op));
  ops_.erase(first, last);
  program_->touch();
}

}  // namespace trireme
