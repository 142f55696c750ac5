// Runs shape rules on a program's ops while it is built, and the rules many rows share.
#include <deque>

#include "ir/schema.h"
#include "ir/var_facts.h"

namespace trireme {

ValueInfo facts_of(const Var& var) {
  ValueInfo info;
  info.type = var.type();
  info.dtype = var.dtype();
  info.shape = var.shape();
  info.lod_level = var.lod_level();
  info.name = var.name();
  info.known = var.has_shape();
  if (info.type == VarType::selected_rows && info.shape.rank() > 0) {
    info.height = info.shape[0].known() ? info.shape.at(0) : -1;
    info.shape[0] = Dim();
  }
  return info;
}

namespace {

void write_facts(const ValueInfo& info, const ValueInfo& before, Var& var) {
  Shape shape = info.shape;
  if (info.type == VarType::selected_rows && shape.rank() > 0) shape[0] = Dim(info.height);
  const bool stated = info.known || !(info.shape == before.shape) || info.dtype != before.dtype;
  if (info.type != var.type()) var.set_type(info.type);
  if (info.lod_level != var.lod_level()) var.set_lod_level(info.lod_level);
  if (!stated) return;
  if (info.dtype != var.dtype()) var.set_dtype(info.dtype);
  if (!var.has_shape() || !(shape == var.shape())) var.set_shape(shape);
}

struct Written {
  Var* var = nullptr;
  ValueInfo before, after;
};

}  // namespace

void infer_op(Op& op) try {
  const OpSchema& schema = op_table().get(op.type());
  if (schema.trait().no_inference || !schema.shape_rule()) return;
  OpView view(schema, op.attrs());
  std::deque<ValueInfo> ins;
  for (const SlotSpec& slot : schema.inputs()) {
    std::vector<const ValueInfo*> values;
    for (const std::string& name : op.input(slot.name)) {
      if (name == kEmptyVar) {
        values.push_back(nullptr);
        continue;
      }
      const Var* var = op.block().find_var_recursive(name);
      if (!var || !var->has_shape()) return;  // nothing is known of an input: nothing follows
      ins.push_back(facts_of(*var));
      values.push_back(&ins.back());
    }
    view.add_in(slot.name, values);
  }
  std::deque<Written> outs;
  for (const SlotSpec& slot : schema.outputs()) {
    std::vector<ValueInfo*> values;
    for (const std::string& name : op.output(slot.name)) {
      if (name == kEmptyVar) {
        values.push_back(nullptr);
        continue;
      }
      Written written;
      written.var = op.block().find_var_recursive(name);
      if (written.var) written.before = facts_of(*written.var);
      written.before.name = name;
      written.after = written.before;
      outs.push_back(std::move(written));
      values.push_back(&outs.back().after);
    }
    view.add_out(slot.name, values);
  }
  view.seal();
  schema.shape_rule()(view);
  for (Written& written : outs) {
    if (written.var) write_facts(written.after, written.before, *written.var);
  }
} catch (Error& e) {
  add_op_context(e, op);
  throw;
}

ShapeRule same_as(std::string in_slot, std::string out_slot) {
  return [in = std::move(in_slot), out = std::move(out_slot)](OpView& op) {
    op.set_out_like(out, op.in(in));
  };
}

// Y's dims stand at X's dims [axis, axis + rank of Y); -1 aligns them at the right. Extents of 1
// repeat on either side. Trailing 1s of Y that would stick out are dropped. When Y has more dims
// than X the two change roles. An unknown extent beside a known one above 1 must turn out equal to
// it, or 1.
Shape broadcast_shapes(const OpView& op, const Shape& x, const Shape& y, int axis) {
  const auto clash = [&](const std::string& why) {
    return op.error(cat("X ", x, " and Y ", y, " do not fit at axis ", axis, ": ", why))
        .fix(
            "make the extents equal or 1, or choose the axis of X at which Y's first dimension "
            "stands");
  };
  Shape wide = x, narrow = y;
  int rank = narrow.rank();
  if (axis >= 0) {
    while (rank > 0 && axis + rank > wide.rank() && narrow[rank - 1].may_equal(1)) --rank;
  }
  if (rank > wide.rank()) {
    std::swap(wide, narrow);
    rank = narrow.rank();
    if (axis >= 0) {
      while (rank > 0 && axis + rank > wide.rank() && narrow[rank - 1].may_equal(1)) --rank;
    }
  }
  if (axis < -1) throw clash("axis must be -1 or count from 0");
  const int begin = axis == -1 ? wide.rank() - rank : axis;
  if (begin + rank > wide.rank()) {
    throw clash(
        cat(rank, " dimensions starting at ", begin, " reach past the last of ", wide.rank()));
  }
  Shape result = wide;
  for (int i = 0; i < rank; ++i) {
    const Dim a = wide[begin + i], b = narrow[i];
    if (a.known() && b.known() && !(a == b) && !(a == Dim(1)) && !(b == Dim(1))) {
      throw clash(cat("dimension ", begin + i, " is ", a, " against ", b));
    }
    if (a == Dim(1)) {
      result[begin + i] = b;
    } else if (b == Dim(1)) {
      result[begin + i] = a;
    } else {
      result[begin + i] = Dim::join(a, b);
    }
  }
  return result;
}

int normal_axis(const OpView& op, int axis, int rank, std::string_view name) {
  if (axis < -rank || axis >= rank) {
    throw op.error(cat(name, " is ", axis, " but there are ", rank, " dimensions"))
        .fix(cat("choose ", name, " from ", -rank, " to ", rank - 1));
  }
  return axis < 0 ? axis + rank : axis;
}

}  // namespace trireme
