// Fresh programs and names for a test, and programs written as short text.
#pragma once

#include <memory>
#include <string>

#include "core/text.h"
#include "ir/unique_name.h"
#include "layers/layers.h"

namespace trireme {

struct FreshPrograms {
  UniqueNameGuard names;
  std::shared_ptr<Program> main = Program::create();
  std::shared_ptr<Program> startup = Program::create();
  ProgramGuard guard{main, startup};
};

// "mul(x, fc_0.w_0) -> fc_0.tmp_0; ...", slots in the order of their names.
inline std::string ops_of(const Block& block) {
  std::string text;
  for (const Op* op : block.ops()) {
    if (!text.empty()) text += "; ";
    text += cat(op->type(), "(", join(op->input_names()), ") -> ", join(op->output_names()));
  }
  return text;
}

inline std::string types_of(const Block& block) {
  std::string text;
  for (const Op* op : block.ops()) text += cat(text.empty() ? "" : " ", op->type());
  return text;
}

template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace trireme
