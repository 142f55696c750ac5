// A snapshot is a head, every trainer's progress, then variables by name, and a last word.
#include "ps/snapshot.h"

#include <filesystem>

#include "core/tensor_stream.h"
#include "core/text.h"

namespace trireme {
namespace {

constexpr std::string_view kHead = "trireme server snapshot 1\n", kEnd = "whole\n";
constexpr uint32_t kMostName = 4096;

void write_text(ByteSink& to, std::string_view text) {
  to.write_number(static_cast<uint32_t>(text.size()));
  to.write(text);
}

std::string read_text(ByteSource& from, std::string_view what) {
  const auto size = from.read<uint32_t>(what);
  if (size > kMostName) throw from.error(cat(what, " claims ", size, " bytes"));
  std::string text(size, '\0');
  from.read(text.data(), size, what);
  return text;
}

void expect(ByteSource& from, std::string_view word) {
  std::string found(word.size(), '\0');
  from.read(found.data(), found.size(), "the snapshot");
  if (found != word) throw from.error("this is no snapshot of a parameter server");
}

void write_progress(ByteSink& to, const PsProgress& progress) {
  to.write_number(static_cast<uint8_t>(progress.sends));
  to.write_number(progress.round);
  to.write_number(progress.step);
  to.write_number(static_cast<uint32_t>(progress.trainers.size()));
  for (const auto& [number, trainer] : progress.trainers) {
    to.write_number(static_cast<int32_t>(number));
    to.write_number(trainer.incarnation);
    to.write_number(trainer.sequence);
    to.write_number(static_cast<uint8_t>(trainer.left));
    to.write_number(static_cast<uint8_t>(progress.came.contains(number)));
  }
}

PsProgress read_progress(ByteSource& from) {
  PsProgress progress;
  progress.sends = from.read<uint8_t>("the phase") != 0;
  progress.round = from.read<uint64_t>("the round");
  progress.step = from.read<uint64_t>("the step");
  const auto count = from.read<uint32_t>("the number of trainers");
  for (uint32_t i = 0; i < count; ++i) {
    const auto number = from.read<int32_t>("a trainer's number");
    PsProgress::Trainer& trainer = progress.trainers[number];
    trainer.incarnation = from.read<uint64_t>("a trainer's process");
    trainer.sequence = from.read<uint64_t>("a trainer's last request");
    trainer.left = from.read<uint8_t>("whether a trainer has left") != 0;
    if (from.read<uint8_t>("whether a trainer has come")) progress.came.insert(number);
  }
  return progress;
}

// A table kept as SelectedRows has room for rows without a number: it follows as a tensor.
void write_table(ByteSink& to, const Variable& variable) {
  const SelectedRows& rows = variable.rows();
  to.write_number(static_cast<uint64_t>(rows.rows.size()));
  to.write(rows.rows.address(), rows.rows.size() * sizeof(int64_t));
  to.write_number(rows.height);
  write_tensor(to, rows.value);
}

void read_table(ByteSource& from, Variable& variable) {
  const auto count = from.read<uint64_t>("the number of rows");
  if (count > from.left() / sizeof(int64_t))
    throw from.error(cat("a table claims ", count, " rows"));
  variable.clear();
  SelectedRows& rows = variable.rows();
  rows.rows.resize(count);
  from.read(rows.rows.data(), count * sizeof(int64_t), "the row numbers");
  rows.height = from.read<int64_t>("the height");
  rows.value = read_tensor(from);
}

}  // namespace

uint64_t write_snapshot(const std::string& path, const std::string& endpoint,
                        const PsProgress& progress, const Scope& scope,
                        const std::vector<std::string>& names,
                        const std::function<void(ByteSink&)>& rest) {
  AtomicFile file(path);
  file.write(kHead);
  write_text(file, endpoint);
  write_progress(file, progress);
  std::vector<std::string> kept;
  for (const std::string& name : names) {
    const Variable* value = scope.find(name);
    const bool held = value && value->initialized();
    if (held && (value->kind() == Kind::dense || value->kind() == Kind::rows)) kept.push_back(name);
  }
  file.write_number(static_cast<uint32_t>(kept.size()));
  for (const std::string& name : kept) {
    const Variable& value = *scope.find(name);
    write_text(file, name);
    file.write_number(static_cast<uint8_t>(value.kind()));
    value.kind() == Kind::rows ? write_table(file, value) : write_tensor(file, value.tensor());
  }
  rest(file);
  file.write(kEnd);
  file.commit();
  return std::filesystem::file_size(path);
}

bool read_snapshot(const std::string& path, const std::string& endpoint, PsProgress& progress,
                   Scope& scope, const std::function<void(ByteSource&)>& rest) {
  if (!std::filesystem::exists(path)) return false;
  ByteSource file = ByteSource::file(path);
  expect(file, kHead);
  if (const std::string whose = read_text(file, "the server's address"); whose != endpoint) {
    throw file.error(cat("this is the snapshot of the server ", whose, ", not of ", endpoint))
        .fix("give every job a directory of its own");
  }
  progress = read_progress(file);
  const auto count = file.read<uint32_t>("the number of variables");
  for (uint32_t i = 0; i < count; ++i) {
    Variable& value = scope.var(read_text(file, "a variable's name"));
    if (file.read<uint8_t>("a variable's kind") == static_cast<uint8_t>(Kind::rows)) {
      read_table(file, value);
    } else {
      read_variable(file, value, Holds::tensor);
    }
  }
  rest(file);
  expect(file, kEnd);
  return true;
}

}  // namespace trireme
