// The run of a program that serves: listens, answers, and ends when the last trainer has left.
#include "core/endpoints.h"
#include "ps/server.h"
#include "ps/transport.h"
#include "runtime/serving.h"

namespace trireme {

bool serves(const Program& program) {
  const Block& block = program.global_block();
  return block.size() == 1 && block.op(0).type() == "listen_and_serv";
}

void serve(const Program& program, Scope& scope, const std::function<void()>& poll) {
  const auto endpoint = program.global_block().op(0).attr<std::string>("endpoint");
  check_endpoints({endpoint}, {"listen_and_serv", "endpoint"});
  PsServer server(program, scope);
  const std::unique_ptr<PsListener> listener = make_ps_listener(
      endpoint,
      {.answer = [&](const PsMessage& request) { return server.answer(request); },
       .alive = [&](int trainer, uint64_t incarnation) { server.alive(trainer, incarnation); },
       .gone = [&](int trainer, uint64_t incarnation) { server.gone(trainer, incarnation); }});
  server.wait(poll);
}

}  // namespace trireme
