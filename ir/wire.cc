// Programs to bytes, to text, and back: the public side of the wire format.
#include "ir/wire.h"

#include <google/protobuf/text_format.h>

namespace trireme {
namespace {

template <class Message, class Thing>
std::string proto_text(const Thing& thing) {
  Message message;
  write(thing, message);
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(message, &text)) {
    throw InternalError("a program's message could not be printed");
  }
  return text;
}

}  // namespace

std::string serialize(const Program& program) {
  wire::ProgramDesc message;
  write(program, message);
  if (message.ByteSizeLong() > kMaxProgramBytes) {
    throw Error(ErrorKind::resource_exhausted,
                cat("the program takes ", message.ByteSizeLong(),
                    " bytes; a model file may have at most ", kMaxProgramBytes))
        .fix("keep large constant arrays in variables, not in attributes");
  }
  return message.SerializePartialAsString();
}

std::shared_ptr<Program> parse_program(std::string_view bytes) {
  check_size(bytes);
  wire::ProgramDesc message;
  if (!message.ParsePartialFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw Error("these bytes are not a model file: fields do not fit into each other")
        .fix("check that the file is a saved program and that it is complete");
  }
  check_blocks(message);
  return read_program(message);
}

std::string to_proto_text(const Program& program) { return proto_text<wire::ProgramDesc>(program); }
std::string to_proto_text(const Block& block) { return proto_text<wire::BlockDesc>(block); }
std::string to_proto_text(const Op& op) { return proto_text<wire::OpDesc>(op); }
std::string to_proto_text(const Var& var) { return proto_text<wire::VarDesc>(var); }

}  // namespace trireme
