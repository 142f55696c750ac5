// What a shape rule, a body or a kernel maker sees of one operator: slots, attributes, operand
// facts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/scope.h"
#include "ir/attribute.h"
#include "ir/decided.h"
#include "ir/program.h"

namespace trireme {

class OpSchema;

// Facts about one operand. While a program is built the shape may have unknown extents and there is
// no LoD; when a plan is bound all is known, and `value` is set where the row asked to read values.
struct ValueInfo {
  VarType type = VarType::lod_tensor;
  DType dtype = DType::float32;
  Shape shape;          // of the value tensor for SelectedRows; of one element for arrays
  int64_t height = -1;  // SelectedRows
  int lod_level = 0;
  Lod lod;
  const Variable* value = nullptr;
  std::string name;   // the variable's name: error texts use it
  bool known = true;  // false: the variable exists but nobody has said its shape and type
};

// Type, shape and LoD; the name and the value stay.
void take_facts(const ValueInfo& from, ValueInfo& to);

// Operands are flat: slots in the row's order. A slot that is not duplicable takes exactly one
// position, null when absent; a duplicable one takes as many as it has names.
class OpView {
 public:
  OpView(const OpSchema& schema, const Attrs& attrs, const Decided& decided = kUndecided)
      : schema_(schema), attrs_(attrs), decided_(decided) {}

  const OpSchema& schema() const { return schema_; }
  const Attrs& attrs() const { return attrs_; }
  const Decided& decided() const { return decided_; }  // by passes

  bool has(std::string_view slot) const;      // input slot present with at least one operand
  bool wants(std::string_view slot) const;    // same for an output slot
  size_t count(std::string_view slot) const;  // operands of an input slot
  size_t out_count(std::string_view slot) const;
  const ValueInfo& in(std::string_view slot, size_t i = 0) const;
  const ValueInfo* in_at(size_t position) const { return ins_[position]; }
  ValueInfo& out(std::string_view slot, size_t i = 0);
  const ValueInfo& out(std::string_view slot, size_t i = 0) const;
  ValueInfo* out_at(size_t position) const { return outs_[position]; }
  // Where a slot's operand stands in KernelArgs; -1 when absent.
  int position(std::string_view slot, size_t i = 0) const;
  int out_position(std::string_view slot, size_t i = 0) const;
  size_t in_size() const { return ins_.size(); }
  size_t out_size() const { return outs_.size(); }

  template <class T>
  T attr(std::string_view name) const {
    return attr_as<T>(attribute(name), name);
  }
  bool has_attr(std::string_view name) const;

  // Sets type, dtype, shape (and LoD facts of `like`, when given) of an output, if it is wanted.
  void set_out(std::string_view slot, DType dtype, const Shape& shape);
  void set_out_like(std::string_view slot, const ValueInfo& like);  // all facts, LoD too
  void share_lod(std::string_view in_slot, std::string_view out_slot);

  Error error(std::string message) const { return Error(std::move(message)); }

  // For those who build views: slots in the row's order; one that is left out is absent.
  void add_in(std::string_view slot, const std::vector<const ValueInfo*>& values);
  void add_out(std::string_view slot, const std::vector<ValueInfo*>& values);
  void seal();  // after all slots

 private:
  struct Range {
    size_t begin = 0, end = 0;
    bool present = false;
  };
  const Attribute& attribute(std::string_view name) const;
  int in_slot(std::string_view slot) const;  // index in the row, an InternalError if it has none
  int out_slot(std::string_view slot) const;

  const OpSchema& schema_;
  const Attrs& attrs_;
  const Decided& decided_;
  std::vector<Range> in_ranges_, out_ranges_;
  std::vector<const ValueInfo*> ins_;
  std::vector<ValueInfo*> outs_;
};

}  // namespace trireme
