// One JSON of what is known of a program that ran: docs/view.md.
#include <unistd.h>

#include <algorithm>
#include <map>

#include "compile/graph_steps.h"
#include "core/flags.h"
#include "core/json.h"
#include "core/text.h"
#include "ir/program_json.h"
#include "runtime/compiled_program.h"
#include "runtime/executor_plans.h"

namespace trireme {
namespace {

constexpr const char* kFormat = "trireme report 1";

template <class Clock>
int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

// The two clocks at one moment: processes of several machines are laid side by side by them.
void write_process(JsonWriter& out, const std::string& name) {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  out.key("process").object().field("name", name).field("pid", getpid());
  out.field("host", host).field("steady_ns", nanoseconds<std::chrono::steady_clock>());
  out.field("wall_ns", nanoseconds<std::chrono::system_clock>());
  out.field("threads", num_threads()).end_object();
}

void write_knobs(JsonWriter& out, const char* name, const std::vector<Knob>& knobs) {
  out.key(name).array();
  for (const Knob& knob : knobs) {
    out.object().field("name", knob.name).field("value", knob.value);
    out.field("use", name_of(knob.use)).field("why", knob.why).end_object();
  }
  out.end_array();
}

void write_events(JsonWriter& out, const std::vector<ProfileEvent>& events,
                  const std::vector<const Plan*>& plans) {
  std::map<std::string, size_t> numbers;
  std::vector<std::string> names;
  int64_t zero = 0, steps = 0;
  for (const ProfileEvent& event : events) {
    if (numbers.try_emplace(event.op, names.size()).second) names.push_back(event.op);
    zero = zero == 0 ? event.start : std::min(zero, event.start);
    steps += event.kind == ProfileEvent::Kind::step;
  }
  out.key("profile").object().field("steps", steps).field("zero_ns", zero).list("names", names);
  out.list("columns", std::vector<std::string>{"kind", "name", "thread", "start_ns", "ns",
                                               "replica", "runner", "plan", "instruction"});
  out.key("events").array();
  for (const ProfileEvent& event : events) {
    const auto plan = std::find(plans.begin(), plans.end(), event.plan);
    out.array().value(static_cast<int>(event.kind)).value(numbers.at(event.op));
    out.value(event.thread).value(event.start - zero).value(event.end - event.start);
    out.value(event.replica).value(event.runner);
    out.value(plan == plans.end() ? -1 : static_cast<int>(plan - plans.begin()));
    out.value(event.instruction).end_array();
  }
  out.end_array().end_object();
}

}  // namespace

std::string Executor::json(const Program& program, const ReportParts& parts, int devices,
                           const ParallelOptions* parallel) const {
  std::lock_guard lock(mutex_);
  const Compiled* last = last_of(program, devices, parallel);
  JsonWriter out;
  LineTable lines;
  out.object().field("format", kFormat);
  write_process(out, parts.process);
  out.key("machine").raw(parts.machine).key("strategies").raw(parts.strategies);
  std::vector<const Plan*> plans;
  if (!last) {
    out.key("program");
    write_json(out, program, lines);
    out.key("passes").null().key("plan").null();
  } else {
    const Key& key = last->key;
    if (key.version != program.version()) {
      throw Error(ErrorKind::precondition, "the program was edited after it ran")
          .fix("run it once more, then ask again");
    }
    const std::shared_ptr<Program> reached = key.reached(program);
    const Program& compiled = reached ? *reached : program;
    out.key("program");
    write_json(out, compiled, lines);
    // The passes run once more: nothing of what they did was kept.
    Graph graph = lower_as(compiled, key);
    GraphSteps steps(lines);
    steps.take("the program, lowered", graph);
    const ReplicaPlan& made = last->made;
    if (made.replicated) {
      make_replica(graph, key.parallel.loss_gradient, made.others != nullptr);
      steps.take("one replica of it", graph);
    }
    run_passes(graph, target_of(made.places.front()), key.passes_off,
               [&](const std::string& pass, const Graph& now) { steps.take(pass, now); });
    const bool same = steps.size(0) == made.plan->graph.nodes.size();
    promise(same, "the passes make of a program what they made of it before");
    out.key("passes");
    steps.write(out);
    std::lock_guard frames(last->mutex);
    out.key("plan").object().list("fetches", key.fetches).list("off", key.passes_off);
    out.field("devices", key.devices).key("frames").array();
    if (!last->idle.empty()) {
      const Replicas& replicas = *last->idle.back();
      replicas.frame(0).list_plans(plans);
      // All replicas have one plan; where they are bound to other shapes, the first stands for
      // them.
      replicas.frame(0).write_json(out, steps, 0, plans);
    }
    out.end_array().end_object();
  }
  write_events(out, parts.events, plans);
  out.key("lines");
  lines.write(out);
  return out.end_object().text();
}

std::string CompiledProgram::json(const Executor& ran_by, ReportParts parts) const {
  JsonWriter knobs;
  knobs.object().field("devices", devices()).field("data_parallel", data_parallel_);
  write_knobs(knobs, "build", trireme::explain(build_));
  write_knobs(knobs, "execution", trireme::explain(exec_));
  parts.strategies = knobs.end_object().text();
  const Executor::ParallelOptions parallel = parallel_options();
  return ran_by.json(*program_, parts, shards(), &parallel);
}

}  // namespace trireme
