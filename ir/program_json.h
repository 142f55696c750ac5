// A program as data for other programs: blocks, variables, ops, attributes and the user's lines.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/json.h"
#include "ir/op_view.h"
#include "ir/program.h"

namespace trireme {

// Lines are written once and named by number; -1: not known.
class LineTable {
 public:
  int number(const SourceLine& line);
  void write(JsonWriter& out) const;

 private:
  std::map<std::tuple<std::string, int, std::string>, int> numbers_;
  std::vector<SourceLine> lines_;
};

void write_json(JsonWriter& out, const Program& program, LineTable& lines);

// Open extents are -1.
void write_shape(JsonWriter& out, const Shape& shape);
void write_attrs(JsonWriter& out, const Attrs& attrs);

}  // namespace trireme
