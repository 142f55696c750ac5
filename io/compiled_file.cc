// Writes and reads the manifest and the parts of a compiled program's file, and proves them.
#include "io/compiled_file.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "core/file.h"
#include "core/sha256.h"
#include "core/tensor_stream.h"
#include "core/text.h"
#include "ir/schema.h"

namespace trireme {
namespace {

// magic, version, then sections until the end: name, size, hash, bytes.
constexpr std::string_view kMagic = "TRIREME\x01";
constexpr uint32_t kVersion = 1;
constexpr uint64_t kLargestText = uint64_t{1} << 40;  // what is not in the file is not read either
constexpr int64_t kMostElements = int64_t{1} << 40;
constexpr uint32_t kMostItems = 1 << 16;

void put_text(ByteSink& to, std::string_view text) {
  to.write_number(static_cast<uint64_t>(text.size()));
  to.write(text);
}

std::string get_text(ByteSource& from, std::string_view what) {
  const auto size = from.read<uint64_t>(what);
  if (size > kLargestText) throw from.error(cat(what, " of ", size, " bytes is too long"));
  from.need(size, what);
  std::string text(size, '\0');
  from.read(text.data(), size, what);
  return text;
}

uint32_t get_count(ByteSource& from, std::string_view what) {
  const auto count = from.read<uint32_t>(what);
  if (count > kMostItems) throw from.error(cat(count, " ", what, " are too many"));
  return count;
}

void put_list(ByteSink& to, const std::vector<std::string>& items) {
  to.write_number(static_cast<uint32_t>(items.size()));
  for (const std::string& item : items) put_text(to, item);
}

std::vector<std::string> get_list(ByteSource& from, std::string_view what) {
  std::vector<std::string> items(get_count(from, what));
  for (std::string& item : items) item = get_text(from, what);
  return items;
}

// What an op is here: a file made where it was something else must not run.
std::string row_text(const OpSchema& row) {
  std::string text = row.type();
  for (const SlotSpec& slot : row.inputs()) text += " <" + slot.name;
  for (const SlotSpec& slot : row.outputs()) text += " >" + slot.name;
  for (const AttrSpec& attr : row.attributes()) {
    text += cat(" ", attr.name, ":", name_of(attr.type));
  }
  return text;
}

std::map<std::string, std::string> row_hashes(const Program& program) {
  std::map<std::string, std::string> hashes;
  for (int b = 0; b < static_cast<int>(program.num_blocks()); ++b) {
    for (const Op* op : program.block(b).ops()) {
      if (const OpSchema* row = op_table().find(op->type())) {
        hashes[op->type()] = hex(sha256(row_text(*row)));
      }
    }
  }
  return hashes;
}

std::string manifest(const Program& program) {
  StringSink sink;
  put_text(sink, TRIREME_VERSION);
  sink.write_number(static_cast<uint32_t>(std::thread::hardware_concurrency()));
  const auto hashes = row_hashes(program);
  sink.write_number(static_cast<uint32_t>(hashes.size()));
  for (const auto& [type, hash] : hashes) {
    put_text(sink, type);
    put_text(sink, hash);
  }
  return sink.text;
}

void read_manifest(ByteSource& from, const Program& program, LoadedCompiled& loaded) {
  const std::string version = get_text(from, "the engine version");
  if (version != TRIREME_VERSION) {
    loaded.notes.push_back(cat("saved by version ", version, ", this is ", TRIREME_VERSION));
  }
  const auto cores = from.read<uint32_t>("the number of cores");
  const uint32_t here = std::thread::hardware_concurrency();
  if (cores != here) loaded.notes.push_back(cat("saved on ", cores, " cores, here are ", here));
  const auto own = row_hashes(program);
  for (uint32_t left = get_count(from, "ops"); left > 0; --left) {
    const std::string type = get_text(from, "an op's name"), hash = get_text(from, "an op's hash");
    const auto it = own.find(type);
    if (it == own.end() || it->second != hash) {
      throw from.error(cat("op ", type, " is not the same in this version of the engine"))
          .fix("save the compiled program again with this version");
    }
  }
}

std::string strategies(const CompiledProgram& compiled) {
  StringSink sink;
  put_text(sink, to_text(compiled.build_strategy(), compiled.exec_strategy()));
  sink.write_number(static_cast<uint32_t>(compiled.is_data_parallel() ? compiled.devices() : 0));
  return sink.text;
}

std::string plan_section(const std::vector<PlanSignature>& plans) {
  StringSink sink;
  sink.write_number(static_cast<uint32_t>(plans.size()));
  for (const PlanSignature& plan : plans) {
    put_list(sink, plan.fetches);
    put_text(sink, plan.digest);
    sink.write_number(static_cast<uint32_t>(plan.feeds.size()));
    for (const auto& device : plan.feeds) {
      sink.write_number(static_cast<uint32_t>(device.size()));
      for (const PlanSignature::Feed& feed : device) {
        put_text(sink, feed.name);
        sink.write_number(static_cast<uint32_t>(feed.dtype));
        sink.write_number(static_cast<uint32_t>(feed.shape.rank()));
        for (int d = 0; d < feed.shape.rank(); ++d) sink.write_number(feed.shape.at(d));
        sink.write_number(static_cast<uint32_t>(feed.lod.size()));
        for (const auto& level : feed.lod) {
          sink.write_number(static_cast<uint32_t>(level.size()));
          for (int64_t offset : level) sink.write_number(offset);
        }
      }
    }
  }
  return sink.text;
}

PlanSignature::Feed read_feed(ByteSource& from) {
  PlanSignature::Feed feed;
  feed.name = get_text(from, "a feed's name");
  const auto dtype = dtype_from_wire(static_cast<int>(from.read<uint32_t>("a feed's type")));
  if (!dtype) throw from.error("a feed of unknown type");
  feed.dtype = *dtype;
  int64_t elements = 1;
  const auto rank = from.read<uint32_t>("a feed's rank");
  if (rank > kMaxRank) throw from.error(cat("a feed of ", rank, " dimensions"));
  for (uint32_t d = 0; d < rank; ++d) {
    const auto extent = from.read<int64_t>("an extent");
    if (extent < 0 || extent > (int64_t{1} << 40)) throw from.error(cat("an extent of ", extent));
    if (extent > 0 && elements > kMostElements / extent) {
      throw from.error(cat("a feed of more than ", kMostElements, " elements"));
    }
    elements *= std::max<int64_t>(extent, 1);
    feed.shape.push_back(extent);
  }
  for (uint32_t levels = get_count(from, "LoD levels"); levels > 0; --levels) {
    std::vector<int64_t> level(get_count(from, "offsets"));
    for (int64_t& offset : level) offset = from.read<int64_t>("an offset");
    feed.lod.push_back(std::move(level));
  }
  return feed;
}

std::vector<PlanSignature> read_plans(ByteSource& from) {
  std::vector<PlanSignature> plans(get_count(from, "plans"));
  for (PlanSignature& plan : plans) {
    plan.fetches = get_list(from, "a fetch");
    plan.digest = get_text(from, "a digest");
    plan.feeds.resize(get_count(from, "devices"));
    for (auto& device : plan.feeds) {
      for (uint32_t left = get_count(from, "feeds"); left > 0; --left) {
        device.push_back(read_feed(from));
      }
    }
  }
  return plans;
}

std::vector<const Var*> saved_vars(const Program& program) {
  std::vector<const Var*> vars;
  for (const Var* var : program.global_block().vars()) {
    if (var->persistable() && var->type() == VarType::lod_tensor) vars.push_back(var);
  }
  return vars;
}

std::string stream_of_variable(const Variable& variable, const std::string& name) {
  StringSink sink;
  write_variable(sink, variable, name);
  return sink.text;
}

std::string parameter_section(const Program& program, const Scope& scope, bool whole) {
  StringSink sink;
  std::vector<std::pair<std::string, const Variable*>> held;
  for (const Var* var : saved_vars(program)) {
    const Variable* variable = scope.find(var->name());
    if (variable && variable->initialized()) {
      held.emplace_back(var->name(), variable);
    } else if (whole && var->is_parameter()) {
      throw Error(ErrorKind::precondition,
                  cat("the parameter ", var->name(), " holds no value in this scope"))
          .fix(
              "run the startup program first, give the scope where it ran, or save with "
              "parameters=False");
    }
  }
  sink.write_number(static_cast<uint32_t>(held.size()));
  for (const auto& [name, variable] : held) {
    const std::string bytes = stream_of_variable(*variable, name);
    put_text(sink, name);
    put_text(sink, hex(sha256(bytes)));
    put_text(sink, whole ? std::string_view(bytes) : std::string_view());
  }
  return sink.text;
}

// Values in the file go to `values`; the scope is only looked at.
void read_parameters(ByteSource& from, const Program& program, const Scope& scope,
                     std::map<std::string, Variable>& values, LoadedCompiled& loaded) {
  for (uint32_t left = get_count(from, "parameters"); left > 0; --left) {
    const std::string name = get_text(from, "a parameter's name");
    const std::string hash = get_text(from, "a parameter's hash");
    const std::string bytes = get_text(from, "a parameter");
    const Var* var = program.global_block().find_var(name);
    if (!var || !var->persistable()) throw from.error(cat("the program has no parameter ", name));
    if (!bytes.empty()) {
      ByteSource stream = ByteSource::memory(bytes, name);
      read_variable(stream, values[name], Holds::tensor);
      continue;
    }
    const Variable* held = scope.find(name);
    if (!held || !held->initialized()) {
      loaded.notes.push_back(cat(name, " is not in the file: load it before the first run"));
    } else if (hex(sha256(stream_of_variable(*held, name))) != hash) {
      loaded.notes.push_back(cat(name, " is not what it was when the program was saved"));
    }
  }
}

void copy_variables(const Scope& from, Scope& to) {
  if (from.parent()) copy_variables(*from.parent(), to);
  for (const std::string& name : from.names()) to.var(name).copy_from(*from.find_local(name));
  to.step() = from.step().load();
}

std::vector<Tensor> prove(CompiledProgram& compiled, const Scope& scope, const Feeds& feeds,
                          const std::vector<std::string>& fetches,
                          const std::function<void()>& poll) {
  Scope copy;
  copy_variables(scope, copy);
  Executor executor;
  std::vector<Tensor> results;
  for (const auto& result :
       compiled.run(executor, feeds, fetches, {.scope = &copy, .poll = poll, .process_seed = 1})) {
    for (const Variable& device : result.by_device) results.push_back(device.tensor().clone());
  }
  return results;
}

void put_section(ByteSink& to, std::string_view name, const std::string& content) {
  put_text(to, name);
  const Sha256 digest = sha256(cat(name, "\n", content));
  to.write(digest.data(), digest.size());
  put_text(to, content);
}

std::map<std::string, std::string> read_sections(ByteSource& from) {
  std::string magic(kMagic.size(), '\0');
  from.read(magic.data(), magic.size(), "the file's mark");
  if (magic != kMagic) throw from.error("this is no compiled program of Trireme");
  const auto version = from.read<uint32_t>("the format's version");
  if (version != kVersion) {
    throw from.error(cat("format version ", version, " is not known here, only ", kVersion));
  }
  std::map<std::string, std::string> sections;
  while (!from.at_end()) {
    const std::string name = get_text(from, "a section's name");
    Sha256 written;
    from.read(written.data(), written.size(), "a section's hash");
    std::string content = get_text(from, "a section");
    if (sha256(cat(name, "\n", content)) != written) {
      throw from.error(cat("section '", name, "' is not what was written: the file is damaged"));
    }
    if (!sections.emplace(name, std::move(content)).second) {
      throw from.error(cat("section '", name, "' is there twice"));
    }
  }
  for (const char* name : {"program", "manifest", "strategies", "plans", "parameters", "end"}) {
    if (!sections.contains(name)) throw from.error(cat("section '", name, "' is missing"));
  }
  return sections;
}

}  // namespace

void save_compiled(const std::string& path, const CompiledProgram& compiled, const Scope& scope,
                   const Executor* ran_by, const SaveCompiledOptions& options) {
  const Program& program = *compiled.program();
  StringSink file;
  file.write(kMagic);
  file.write_number(kVersion);
  put_section(file, "program", serialize(program));
  put_section(file, "manifest", manifest(program));
  put_section(file, "strategies", strategies(compiled));
  put_section(file, "plans",
              plan_section(ran_by ? compiled.plans(*ran_by) : std::vector<PlanSignature>()));
  put_section(file, "parameters", parameter_section(program, scope, options.parameters));
  if (!options.proof_fetches.empty()) {
    CompiledProgram copy = compiled;
    StringSink proof;
    proof.write_number(static_cast<uint32_t>(options.proof_feeds.size()));
    for (const auto& [name, tensor] : options.proof_feeds) {
      put_text(proof, name);
      write_tensor(proof, tensor);
    }
    put_list(proof, options.proof_fetches);
    const auto results =
        prove(copy, scope, options.proof_feeds, options.proof_fetches, options.poll);
    proof.write_number(static_cast<uint32_t>(results.size()));
    for (const Tensor& result : results) write_tensor(proof, result);
    put_section(file, "proof", proof.text);
  }
  put_section(file, "end", "");
  write_file(path, file.text);
}

LoadedCompiled read_compiled(std::string_view bytes, const std::string& name, Scope& scope) {
  ByteSource from = ByteSource::memory(bytes, name);
  const auto sections = read_sections(from);
  const auto source = [&](const char* section) {
    return ByteSource::memory(sections.at(section), cat(name, ", section ", section));
  };
  LoadedCompiled loaded;
  const std::shared_ptr<Program> program = parse_program(sections.at("program"));
  ByteSource said = source("manifest");
  read_manifest(said, *program, loaded);
  ByteSource knobs = source("strategies");
  BuildStrategy build;
  ExecutionStrategy exec;
  read_text(get_text(knobs, "the strategies"), build, exec);
  const uint32_t devices = get_count(knobs, "devices");
  loaded.compiled = std::make_shared<CompiledProgram>(program, build);
  if (devices > 0) {
    loaded.compiled->with_data_parallel(
        {.exec_strategy = exec, .places = std::vector<Place>(devices, cpu_place())});
  }
  ByteSource plans = source("plans");
  loaded.plans = read_plans(plans);
  ByteSource parameters = source("parameters");
  std::map<std::string, Variable> values;
  read_parameters(parameters, *program, scope, values, loaded);
  if (sections.contains("proof")) {
    ByteSource proof = source("proof");
    for (uint32_t left = get_count(proof, "feeds"); left > 0; --left) {
      const std::string feed = get_text(proof, "a feed's name");
      loaded.proof_feeds[feed] = read_tensor(proof);
    }
    loaded.proof_fetches = get_list(proof, "a fetch");
    loaded.proof_results.resize(get_count(proof, "results"));
    for (Tensor& result : loaded.proof_results) result = read_tensor(proof);
  }
  // All is read before the first variable changes.
  for (const auto& [name, value] : values) scope.var(name).copy_from(value);
  return loaded;
}

LoadedCompiled load_compiled(const std::string& path, Executor& executor, Scope& scope) {
  LoadedCompiled loaded = read_compiled(read_file(path, kLargestText), path, scope);
  const bool complete = std::none_of(
      loaded.notes.begin(), loaded.notes.end(),
      [](const std::string& note) { return note.find("not in the file") != note.npos; });
  for (const PlanSignature& plan : loaded.plans) {
    if (!complete) break;
    std::vector<Feeds> feeds;
    for (const auto& device : plan.feeds) {
      feeds.emplace_back();
      for (const PlanSignature::Feed& feed : device) {
        Tensor zeros = filled(feed.dtype, feed.shape, 0);
        zeros.set_lod(feed.lod);
        feeds.back()[feed.name] = std::move(zeros);
      }
    }
    loaded.compiled->prepare(executor, feeds, plan.fetches, {.scope = &scope, .shapes_only = true});
    if (!plan.digest.empty() && loaded.compiled->digest(executor) != plan.digest) {
      loaded.notes.push_back(cat("the plan for [", join(plan.fetches),
                                 "] is another one than where it was saved: run_proof compares the "
                                 "numbers"));
    }
  }
  return loaded;
}

double run_proof(const LoadedCompiled& loaded, const Scope& scope,
                 const std::function<void()>& poll) {
  if (loaded.proof_fetches.empty()) {
    throw Error(ErrorKind::precondition, "the file holds no proof")
        .fix("save with proof feeds and fetches");
  }
  const std::vector<Tensor> results =
      prove(*loaded.compiled, scope, loaded.proof_feeds, loaded.proof_fetches, poll);
  if (results.size() != loaded.proof_results.size()) return INFINITY;
  double largest = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor &now = results[i], &then = loaded.proof_results[i];
    if (now.numel() != then.numel() || now.dtype() != then.dtype()) return INFINITY;
    for (int64_t e = 0; e < now.numel(); ++e) {
      const double p = element_as_double(now, e), q = element_as_double(then, e);
      if (p == q || (std::isnan(p) && std::isnan(q))) continue;
      const double difference = std::fabs(p - q);
      largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
    }
  }
  return largest;
}

}  // namespace trireme
