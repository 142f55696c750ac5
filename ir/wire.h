// Between the wire's messages and our programs: the parts that ir/wire*.cc share.
#pragma once

#include <string>
#include <string_view>

#include "ir/framework.pb.h"
#include "ir/program.h"

namespace trireme {

namespace wire = paddle::framework::proto;

// Bounds on what is read. They are far above any program people build, and keep the memory that a
// damaged or hostile file can ask for to a small multiple of them.
inline constexpr size_t kMaxProgramBytes = size_t{512} << 20;
inline constexpr size_t kMaxProgramParts = size_t{16} << 20;  // messages and strings
inline constexpr int kMaxBlockNesting = 256;
// The attribute under which Op::former_names is saved: name now, own name, name now, ...
inline constexpr std::string_view kFormerNames = "former_names";

// Errors if `bytes` are too large, are not fields at all, or hold too many parts. Allocates
// nothing.
void check_size(std::string_view bytes);
// Errors unless block numbers, parents and sub-block attributes are consistent and do not go round.
// After it, blocks are in the order of their numbers.
void check_blocks(wire::ProgramDesc& program);

// A type that this version does not know is found among the unknown fields.
bool has_unknown_type(const wire::OpDesc::Attr& attr);
// What a message holds that our programs do not represent, as a message of the same type that has
// lost all the rest; empty text when there is nothing.
std::string take_unknown(const google::protobuf::Message& message);
// Puts what take_unknown found back where it was, if that place still exists.
void put_unknown(const std::string& unknown, google::protobuf::Message& into);

// Attributes that the original writes with an op of this type and that mean nothing here.
const Attrs& foreign_attributes(std::string_view type);

std::shared_ptr<Program> read_program(const wire::ProgramDesc& from);

void write(const Program& program, wire::ProgramDesc& to);
void write(const Block& block, wire::BlockDesc& to);
void write(const Op& op, wire::OpDesc& to);
void write(const Var& var, wire::VarDesc& to);

}  // namespace trireme
