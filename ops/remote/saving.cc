// Ops by which a trainer saves what servers keep, and looks rows up by hand: recv_save,
// checkpoint_notify, prefetch.
#include <cstring>
#include <filesystem>
#include <map>

#include "core/tensor_stream.h"
#include "core/text.h"
#include "ops/host/host_operands.h"
#include "ops/remote/remote_calls.h"
#include "ops/remote/send_recv.h"

namespace trireme {
namespace {

using SavedNames = std::vector<std::string>;
using What = ServerAsk::What;

Shape shape_of_text(const KernelSite& site, const std::string& text) {
  Shape shape;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    try {
      shape.push_back(Dim(std::stoll(text.substr(begin, comma - begin))));
    } catch (const std::logic_error&) {
      throw site.error(cat("a slice's shape is '", text, "'")).fix("write it as \"500,64\"");
    }
    begin = comma + 1;
  }
  return shape;
}

// Slices are groups of rows, or elements of what has one dimension: one behind the other in memory.
Tensor put_together(const std::vector<Variable>& parts, const SavedNames& names,
                    const std::vector<Shape>& shapes, DType dtype, const Shape& whole) {
  Tensor joined(dtype, whole);
  size_t at = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Tensor* part = parts[i].kind() == Kind::dense ? &parts[i].tensor() : nullptr;
    if (!part || part->dtype() != dtype || !(part->shape() == shapes[i]) ||
        at + part->byte_size() > joined.byte_size()) {
      throw Error(cat("a server keeps ", names[i], " as ", parts[i].describe(), ", not as ",
                      name_of(dtype), " ", shapes[i]))
          .fix("save with the program that the servers' programs were made with");
    }
    if (part->byte_size())
      std::memcpy(joined.bytes().data() + at, part->address(), part->byte_size());
    at += part->byte_size();
  }
  if (at == joined.byte_size()) return joined;
  throw Error(cat("the slices have ", at, " bytes, the whole variable ", joined.byte_size()))
      .fix("name all slices of the variable");
}

}  // namespace

// In sync mode no update can come in between: it would need this trainer.
KernelFn recv_save_kernel(const KernelSite& site) {
  const auto names = site.attr<SavedNames>("remote_varnames");
  const auto servers = site.attr<SavedNames>("endpoints");
  const auto texts = site.attr<SavedNames>("slice_shapes");
  const auto path = site.attr<std::string>("file_path");
  if (names.empty() || names.size() != servers.size() || names.size() != texts.size()) {
    throw site
        .error(cat("there are ", names.size(), " remote_varnames, ", texts.size(),
                   " slice_shapes and ", servers.size(), " endpoints"))
        .fix("give one shape and one server for every slice");
  }
  std::vector<Shape> shapes;
  for (const std::string& text : texts) shapes.push_back(shape_of_text(site, text));
  const auto extents = site.attr<std::vector<int64_t>>("shape");
  const Shape whole{std::span<const int64_t>(extents)};
  const auto dtype = static_cast<DType>(site.attr<int32_t>("dtype"));
  const bool overwrite = site.attr<bool>("overwrite");
  return [=, trainer = site.attr<int32_t>("trainer_id")](const KernelArgs&) {
    if (!overwrite && std::filesystem::exists(path)) {
      throw Error(ErrorKind::precondition, cat(path, " exists already and overwrite is False"))
          .fix("choose another file, or set overwrite=True");
    }
    std::vector<Variable> parts(names.size());
    std::vector<ServerAsk> asks(names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      asks[i].what = What::read;
      asks[i].endpoint = &servers[i];
      asks[i].name = &names[i];
      asks[i].into = &parts[i];
    }
    server_calls().be(trainer);
    server_calls().ask(asks);
    Variable joined;
    joined.tensor() = put_together(parts, names, shapes, dtype, whole);
    AtomicFile file(path);
    write_variable(file, joined, path);
    file.commit();
  };
}

// Every server writes what it keeps of the table, under the table's name and the server's number.
KernelFn checkpoint_notify_kernel(const KernelSite& site) {
  const auto servers = site.attr<SavedNames>("epmap");
  const auto dir = site.attr<std::string>("dir"), table = site.attr<std::string>("lookup_table");
  return [=, trainer = site.attr<int32_t>("trainer_id")](const KernelArgs&) {
    std::vector<ServerAsk> asks(servers.size());
    for (size_t i = 0; i < servers.size(); ++i) {
      asks[i].what = What::save;
      asks[i].endpoint = &servers[i];
      asks[i].name = &table;
      asks[i].path = cat(dir, "/", table, "_", i);
    }
    server_calls().be(trainer);
    server_calls().ask(asks);
  };
}

// A server knows by the name of the ids which of its tables they are for.
KernelFn prefetch_kernel(const KernelSite& site) {
  const auto servers = site.attr<SavedNames>("epmap");
  const size_t count = site.count("X");
  if (count != servers.size() || count != site.out_count("Out")) {
    throw site
        .error(cat("there are ", count, " X, ", site.out_count("Out"), " Out and ", servers.size(),
                   " servers"))
        .fix("give one result and one server for every part");
  }
  SavedNames names;
  for (size_t i = 0; i < count; ++i) names.push_back(site.in("X", i).name);
  return [=, trainer = site.attr<int32_t>("trainer_id")](const KernelArgs& k) {
    std::vector<ServerAsk> asks(count);
    for (size_t i = 0; i < count; ++i) {
      asks[i].what = What::lookup;
      asks[i].endpoint = &servers[i];
      asks[i].name = &names[i];
      asks[i].value = *k.ins[i];
      asks[i].into = k.outs[i];
    }
    server_calls().be(trainer);
    server_calls().ask(asks);
  };
}

}  // namespace trireme
