// The number that an op fills a tensor with, for kernels of every device.
#pragma once

#include "core/tensor.h"
#include "ir/op_view.h"

namespace trireme {

// As it is written: whole numbers keep all their digits, which a float would not.
struct FillNumber {
  double real = 0;
  int64_t whole = 0;
};

FillNumber filled_number(const OpView& op);  // attributes value and str_value
void fill_number(const Tensor& out, const FillNumber& number);

}  // namespace trireme
