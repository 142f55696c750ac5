// Ops that read and write parameter files: save, load, save_combine, load_combine.
#include <filesystem>

#include "core/directory_save.h"
#include "core/tensor_stream.h"
#include "core/text.h"
#include "ir/schema.h"

namespace trireme {
namespace {

const OpTraits kFileOp{.host = true, .effect = true, .no_inference = true};

std::string file_path(const KernelSite& site) {
  std::string path = site.attr<std::string>("file_path");
  if (path.empty()) throw site.error("file_path is empty").fix("say which file");
  return path;
}

// Whether the file may be written is asked at each run: it may have come in between.
void check_overwrite(const std::string& path, bool overwrite) {
  if (overwrite || !std::filesystem::exists(path)) return;
  throw Error(ErrorKind::precondition, cat(path, " exists already and overwrite is False"))
      .fix("choose another file, or set overwrite=True");
}

void narrow(Variable& variable) {
  Tensor& tensor = variable.kind() == Kind::rows ? variable.rows().value : variable.tensor();
  tensor = cast(tensor, DType::float16);
}

void write_one(ByteSink& to, const Variable& variable, const std::string& name, bool as_fp16) {
  if (!as_fp16 || !variable.initialized()) return write_variable(to, variable, name);
  Variable copy = variable;
  narrow(copy);
  write_variable(to, copy, name);
}

Holds holds(const ValueInfo& info) {
  return info.type == VarType::selected_rows ? Holds::rows : Holds::tensor;
}

// Gives a variable the value that was read, in the memory it has where that fits.
void put(Variable& out, Variable value, bool as_fp16) {
  if (as_fp16) narrow(value);
  if (value.kind() == Kind::dense && out.kind() == Kind::dense) {
    take_value(out.tensor(), value.tensor());
  } else {
    out = std::move(value);
  }
}

void check_end(const ByteSource& from, const std::string& what) {
  if (from.at_end()) return;
  throw Error(ErrorKind::unavailable, cat(from.name(), " has ", from.left(), " bytes after ", what))
      .fix("load the variables that were saved, all of them");
}

ByteSource open_saved(const std::string& path) {
  const auto [directory, file] = split_path(path);
  return SavedDirectory(directory).open(file);
}

KernelFn save(const KernelSite& site) {
  const std::string path = file_path(site);
  const bool overwrite = site.attr<bool>("overwrite"), as_fp16 = site.attr<bool>("save_as_fp16");
  return [=, at = site.position("X"), name = site.in("X").name](const KernelArgs& k) {
    check_overwrite(path, overwrite);
    const auto [directory, file] = split_path(path);
    DirectorySave save(directory);
    write_one(save.file(file), *k.ins[at], name, as_fp16);
    save.commit();
  };
}

KernelFn save_combine(const KernelSite& site) {
  const bool to_memory = site.attr<bool>("save_to_memory");
  const std::string path = to_memory ? std::string() : file_path(site);
  const bool overwrite = site.attr<bool>("overwrite"), as_fp16 = site.attr<bool>("save_as_fp16");
  const int at = site.position("X"), bytes_at = site.out_position("Y");
  if (to_memory && bytes_at < 0) throw site.error("save_to_memory is set but Y is missing");
  std::vector<std::string> names;
  for (size_t i = 0; i < site.count("X"); ++i) names.push_back(site.in("X", i).name);
  return [=](const KernelArgs& k) {
    const auto write_all = [&](ByteSink& to) {
      for (size_t i = 0; i < names.size(); ++i) {
        write_one(to, *k.ins[at + static_cast<int>(i)], names[i], as_fp16);
      }
    };
    if (to_memory) {
      StringSink sink;
      write_all(sink);
      k.outs[bytes_at]->set_host(std::make_shared<HostBytes>(std::move(sink.text)));
      return;
    }
    check_overwrite(path, overwrite);
    const auto [directory, file] = split_path(path);
    DirectorySave save(directory);
    write_all(save.file(file));
    save.commit();
  };
}

KernelFn load(const KernelSite& site) {
  const std::string path = file_path(site);
  const bool as_fp16 = site.attr<bool>("load_as_fp16");
  const int64_t seek = site.attr<int64_t>("seek");
  const auto dims = site.attr<std::vector<int64_t>>("shape");
  if (seek != -1 && dims.empty()) {
    throw site.error(cat("seek is ", seek, " but shape is empty")).fix("give the part's shape");
  }
  return [=, at = site.out_position("Out"), kind = holds(site.out("Out"))](const KernelArgs& k) {
    ByteSource file = open_saved(path);
    Variable value;
    if (seek == -1) {
      read_variable(file, value, kind);
    } else {
      value.tensor() = read_tensor_part(file, seek, Shape(dims));
    }
    check_end(file, "the variable");
    put(*k.outs[at], std::move(value), as_fp16);
  };
}

KernelFn load_combine(const KernelSite& site) {
  const std::string path = file_path(site);
  const bool as_fp16 = site.attr<bool>("load_as_fp16");
  const bool from_memory = site.attr<bool>("model_from_memory");
  std::vector<Holds> kinds;
  for (size_t i = 0; i < site.out_count("Out"); ++i) kinds.push_back(holds(site.out("Out", i)));
  return [=, at = site.out_position("Out")](const KernelArgs& k) {
    ByteSource source =
        from_memory ? ByteSource::memory(path, "the bytes in file_path") : open_saved(path);
    // All of it is read before the first variable changes.
    std::vector<Variable> values(kinds.size());
    for (size_t i = 0; i < kinds.size(); ++i) read_variable(source, values[i], kinds[i]);
    check_end(source, cat("the last of ", kinds.size(), " variables"));
    for (size_t i = 0; i < kinds.size(); ++i) {
      put(*k.outs[at + static_cast<int>(i)], std::move(values[i]), as_fp16);
    }
  };
}

}  // namespace

void register_host(Registry& ops) {
  ops.op("save")
      .doc("Writes one variable to a file: the variable's stream and nothing else.")
      .in("X", "a dense tensor or SelectedRows")
      .required_attr<std::string>("file_path", "missing directories are made")
      .attr("overwrite", true, "False: an existing file is an error")
      .attr("save_as_fp16", false, "write float16 whatever the type is")
      .traits(kFileOp)
      .kernel(untyped(save));

  ops.op("save_combine")
      .doc("Writes several variables to one file, one stream after another, in the given order.")
      .in_list("X", "dense tensors or SelectedRows")
      .out_optional("Y", "the bytes, with save_to_memory")
      .required_attr<std::string>("file_path", "missing directories are made")
      .attr("overwrite", true, "False: an existing file is an error")
      .attr("save_as_fp16", false, "write float16 whatever the types are")
      .attr("save_to_memory", false, "put the bytes into Y and write no file")
      .traits(kFileOp)
      .kernel(untyped(save_combine));

  ops.op("load")
      .doc("Reads one variable from a file that `save` wrote.")
      .out("Out", "dense, or SelectedRows where it is declared so")
      .required_attr<std::string>("file_path", "the file")
      .attr("load_as_fp16", false, "convert to float16")
      .attr("seek", int64_t{-1}, "first element of a part; -1: the whole variable")
      .attr("shape", std::vector<int64_t>{}, "the part's shape, with seek")
      .traits(kFileOp)
      .kernel(untyped(load));

  ops.op("load_combine")
      .doc("Reads several variables from a file that save_combine wrote, in its order.")
      .out_list("Out", "as many as the file holds")
      .required_attr<std::string>("file_path", "the file, or with model_from_memory its bytes")
      .attr("load_as_fp16", false, "convert to float16")
      .attr("model_from_memory", false, "file_path holds the bytes themselves")
      .traits(kFileOp)
      .kernel(untyped(load_combine));
}

}  // namespace trireme
