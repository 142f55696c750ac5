// Tensors and SelectedRows as the bytes of parameter files; both versions of the original agree.
#pragma once

#include <vector>

#include "core/file.h"
#include "core/scope.h"
#include "core/tensor.h"

namespace trireme {

// One stream each. They stand back to back in combined files: nothing separates them.
void write_tensor(ByteSink& to, const Tensor& tensor);
void write_rows(ByteSink& to, const SelectedRows& rows);
Tensor read_tensor(ByteSource& from);
SelectedRows read_rows(ByteSource& from);

// The elements of the stream's tensor from `first` on that fill `shape`; no LoD.
Tensor read_tensor_part(ByteSource& from, int64_t first, const Shape& shape);

// A variable's stream by what it holds, and a variable from one by what it is declared as. Reading
// keeps memory that fits, so that views of the variable stay true.
void write_variable(ByteSink& to, const Variable& variable, const std::string& name);
enum class Holds { tensor, rows };
void read_variable(ByteSource& from, Variable& variable, Holds holds);
void take_value(Tensor& target, const Tensor& value);

// Bytes in a variable: what save_combine gives with save_to_memory.
class HostBytes final : public HostObject {
 public:
  explicit HostBytes(std::string content) : bytes(std::move(content)) {}
  std::string describe() const override;
  std::string bytes;
};

}  // namespace trireme
