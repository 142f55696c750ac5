// What ops ask of parameter servers. Defined in ps/, which stands above: no op includes it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/scope.h"

namespace trireme {

// One thing that one server is asked. Names and values are the asker's until it is answered.
struct ServerAsk {
  enum class What {
    push,
    notify,
    get,   // waits for the step's update
    read,  // as it is now
    lookup,
    sent_all,
    got_all,
    save,  // into `path`, on the server's disk
  };
  What what = What::push;
  const std::string* endpoint = nullptr;
  const std::string* name = nullptr;  // null: it is not about a variable
  Variable value;
  Variable* into = nullptr;  // where the answer goes
  std::string path;
};

class Program;

// How a trainer of a geo program goes on with its servers.
struct GeoSettings {
  struct Param {
    struct Part {
      std::string name, delta, endpoint;
      int64_t rows = 0;
    };
    std::string name;
    bool sparse = false;      // of its rows only those that have changed are given
    std::vector<Part> parts;  // in the order of their rows
  };
  int trainer = 0, trainers = 1;
  int64_t push_every = 100;  // steps
  std::vector<Param> params;
};
GeoSettings geo_settings(const Program& trainer, int trainers, int64_t push_every);

class ServerCalls {
 public:
  virtual ~ServerCalls() = default;
  // Who asks, from here on: `send` does not say it.
  virtual void be(int trainer) = 0;
  // Returns when all are answered. Different servers are asked at once, each in the order given.
  virtual void ask(std::span<ServerAsk> asks) = 0;
  // Tells all servers that this trainer is at its end, and by which failure, if one. Errors are
  // said and not thrown.
  virtual void leave(const std::string& failure) noexcept = 0;

  // From here on `send` ops of this process are those of a geo program.
  virtual void start_geo(const GeoSettings& settings) = 0;
  virtual bool is_geo() const = 0;
  virtual void geo_begin(Scope& scope) = 0;
  virtual void geo_step(Scope& scope) = 0;
  // Gives the rest, where the scope is there, and sends as other programs do again.
  virtual void stop_geo(Scope* scope) = 0;
};

// Of this process (ps/client.cc).
ServerCalls& server_calls();

}  // namespace trireme
