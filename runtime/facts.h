// What is known of a value: read off a variable, or compared.
#pragma once

#include "core/scope.h"
#include "ir/op_view.h"

namespace trireme {

// Type, shape and LoD; the name and what was said at compile time stay.
void take_facts(const Variable& variable, ValueInfo& info);

bool same_facts(const Variable& variable, const ValueInfo& info);
bool same_facts(const ValueInfo& a, const ValueInfo& b);

// 0 while the shape is not known.
size_t byte_count(const ValueInfo& info);

}  // namespace trireme
