// Keeps what a file holds and our programs do not represent: fields of newer releases at any depth,
// attributes of types we do not know, and the few known messages we only pass on.
//
// take_unknown copies a message and clears all that our programs represent. Elements of a list stay
// if something unknown is left in them, together with the name that tells where it belongs.
// put_unknown walks both messages and finds list elements again by that name.
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <array>
#include <map>

#include "ir/wire.h"

namespace trireme {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Known to the format, passed on whole.
bool is_opaque(const FieldDescriptor* field) {
  static const std::array opaque = {
      wire::VarDesc::descriptor()->FindFieldByName("attrs"),
      wire::VarType::descriptor()->FindFieldByName("tuple"),
      wire::VarType::descriptor()->FindFieldByName("string"),
      wire::VarType::descriptor()->FindFieldByName("strings"),
      wire::VarType::descriptor()->FindFieldByName("vocab"),
      wire::VarType::descriptor()->FindFieldByName("sparse_coo"),
      wire::VarType::descriptor()->FindFieldByName("sparse_csr"),
      wire::ProgramDesc::descriptor()->FindFieldByName("op_compatible_map"),
  };
  return std::ranges::find(opaque, field) != opaque.end();
}

// The field by which an element of a list is found again; null: by its position.
const FieldDescriptor* key_of(const google::protobuf::Descriptor* type) {
  static const std::array keys = {
      wire::OpDesc::Attr::descriptor()->FindFieldByName("name"),
      wire::OpDesc::Var::descriptor()->FindFieldByName("parameter"),
      wire::OpVersionMap::OpVersionPair::descriptor()->FindFieldByName("op_name"),
  };
  const auto found = std::ranges::find(keys, type, &FieldDescriptor::containing_type);
  return found == keys.end() ? nullptr : *found;
}

bool is_unknown_attr(const Message& message) {
  const auto* attr = dynamic_cast<const wire::OpDesc::Attr*>(&message);
  return attr && has_unknown_type(*attr);
}

std::vector<const FieldDescriptor*> fields_of(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  return fields;
}

// Clears what is represented; true if something else remains.
bool strip(Message& message) {
  if (is_unknown_attr(message)) return true;
  const Reflection& at = *message.GetReflection();
  const FieldDescriptor* key = key_of(message.GetDescriptor());
  bool remains = !at.GetUnknownFields(message).empty();
  for (const FieldDescriptor* field : fields_of(message)) {
    if (is_opaque(field)) {
      remains = true;
    } else if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      if (field != key) at.ClearField(&message, field);
    } else if (!field->is_repeated()) {
      if (strip(*at.MutableMessage(&message, field))) {
        remains = true;
      } else {
        at.ClearField(&message, field);
      }
    } else {
      const bool keyed = key_of(field->message_type()) != nullptr;
      int kept = 0;
      for (int i = 0; i < at.FieldSize(message, field); ++i) {
        const bool unknown = strip(*at.MutableRepeatedMessage(&message, field, i));
        remains = remains || unknown;
        if (keyed && !unknown) continue;
        if (kept != i) at.SwapElements(&message, field, kept, i);
        ++kept;
      }
      while (at.FieldSize(message, field) > kept) at.RemoveLast(&message, field);
    }
  }
  return remains;
}

void merge(const Message& unknown, Message& into);

void merge_list(const Message& unknown, const FieldDescriptor* field, Message& into) {
  const Reflection& at = *unknown.GetReflection();
  const FieldDescriptor* key = key_of(field->message_type());
  const int size = at.FieldSize(into, field);
  const auto key_in = [&](const Message& part) {
    return part.GetReflection()->GetString(part, key);
  };
  std::map<std::string, int> places;
  for (int i = 0; key && i < size; ++i) {
    places.emplace(key_in(at.GetRepeatedMessage(into, field, i)), i);
  }
  for (int i = 0; i < at.FieldSize(unknown, field); ++i) {
    const Message& part = at.GetRepeatedMessage(unknown, field, i);
    int found = i;
    if (key) {
      const auto place = places.find(key_in(part));
      found = place == places.end() ? size : place->second;
    }
    if (is_unknown_attr(part)) {
      // An attribute set since then under the same name takes its place.
      if (found >= size) at.AddMessage(&into, field)->CopyFrom(part);
    } else if (found < size) {
      merge(part, *at.MutableRepeatedMessage(&into, field, found));
    }
  }
}

void merge(const Message& unknown, Message& into) {
  const Reflection& at = *unknown.GetReflection();
  at.MutableUnknownFields(&into)->MergeFrom(at.GetUnknownFields(unknown));
  for (const FieldDescriptor* field : fields_of(unknown)) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;  // a key
    if (!field->is_repeated()) {
      const Message& part = at.GetMessage(unknown, field);
      if (is_opaque(field)) {
        at.MutableMessage(&into, field)->CopyFrom(part);
      } else if (at.HasField(into, field)) {
        merge(part, *at.MutableMessage(&into, field));
      }
    } else if (is_opaque(field)) {
      for (int i = 0; i < at.FieldSize(unknown, field); ++i) {
        at.AddMessage(&into, field)->CopyFrom(at.GetRepeatedMessage(unknown, field, i));
      }
    } else {
      merge_list(unknown, field, into);
    }
  }
}

}  // namespace

bool has_unknown_type(const wire::OpDesc::Attr& attr) {
  if (attr.has_type()) return false;
  const google::protobuf::UnknownFieldSet& fields = attr.unknown_fields();
  for (int i = 0; i < fields.field_count(); ++i) {
    if (fields.field(i).number() == wire::OpDesc::Attr::kTypeFieldNumber) return true;
  }
  return false;
}

std::string take_unknown(const Message& message) {
  const std::unique_ptr<Message> copy(message.New());
  copy->CopyFrom(message);
  return strip(*copy) ? copy->SerializePartialAsString() : std::string();
}

void put_unknown(const std::string& unknown, Message& into) {
  if (unknown.empty()) return;
  const std::unique_ptr<Message> parsed(into.New());
  if (!parsed->ParsePartialFromString(unknown)) {
    throw Error(cat("the unknown fields kept for a ", into.GetDescriptor()->name(),
                    " are not fields of the model file format"));
  }
  merge(*parsed, into);
}

}  // namespace trireme
