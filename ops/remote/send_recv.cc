// What trainers' ops send to parameter servers and take from them.
#include "ops/remote/send_recv.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/text.h"
#include "ops/host/host_operands.h"
#include "ops/remote/remote_calls.h"
#include "ops/run_context.h"

namespace trireme {
namespace {

using RemoteNames = std::vector<std::string>;
using What = ServerAsk::What;

void check_one_each(const KernelSite& site, const char* what, size_t count, size_t servers) {
  if (count == servers) return;
  throw site.error(cat(count, " ", what, " for ", servers, " servers"))
      .fix("name one server for each");
}

// Rows [begin, end) of a gradient, counted from 0 again.
Variable rows_section(const Variable& whole, int64_t begin, int64_t end) {
  Variable part;
  if (whole.kind() == Kind::dense) {
    part.tensor() = whole.tensor().slice_rows(begin, end);
    return part;
  }
  const SelectedRows& from = whole.rows();
  SelectedRows& to = part.rows();
  to.height = end - begin;
  std::vector<size_t> taken;
  for (size_t r = 0; r < from.rows.size(); ++r) {
    if (from.rows[r] < begin || from.rows[r] >= end) continue;
    taken.push_back(r);
    to.rows.push_back(from.rows[r] - begin);
  }
  Shape shape = from.value.shape();
  shape[0] = static_cast<int64_t>(taken.size());
  to.value = Tensor(from.value.dtype(), shape);
  const size_t row = from.rows.empty() ? 0 : from.value.byte_size() / from.rows.size();
  for (size_t i = 0; i < taken.size(); ++i) {
    std::memcpy(to.value.bytes().data() + i * row, from.value.bytes().data() + taken[i] * row, row);
  }
  return part;
}

// The variable that stands for 'done' is never looked at.
void mark_done(const KernelArgs& k, size_t outs) {
  for (size_t i = 0; i < outs; ++i) set_number(*k.outs[i], 1);
}

void join_rows(const std::vector<Variable>& parts, Variable& to) {
  const Tensor& first = parts.front().tensor();
  Shape shape = first.shape();
  shape[0] = std::accumulate(
      parts.begin(), parts.end(), int64_t{0},
      [](int64_t rows, const Variable& part) { return rows + part.tensor().shape().at(0); });
  Tensor& whole = result_of_shape(to, first.dtype(), shape);
  size_t at = 0;
  for (const Variable& part : parts) {
    const Tensor& rows = part.tensor();
    if (rows.byte_size()) std::memcpy(whole.bytes().data() + at, rows.address(), rows.byte_size());
    at += rows.byte_size();
  }
}

// Tells every server.
void tell_all(int trainer, const RemoteNames& servers, What what) {
  std::vector<ServerAsk> asks(servers.size());
  for (size_t i = 0; i < servers.size(); ++i) {
    asks[i].what = what;
    asks[i].endpoint = &servers[i];
  }
  server_calls().be(trainer);
  server_calls().ask(asks);
}

}  // namespace

// A geo program's: the startup's takes the servers' parameters, the main program's is the end of a
// step. Which parameters, and when they are pushed, the settings say.
KernelFn geo_send(const KernelSite& site) {
  const bool begins = site.attr<RemoteNames>("send_varnames") == RemoteNames{"param_init"};
  return [begins, outs = site.out_size()](const KernelArgs& k) {
    Scope& scope = k.run->scope();
    begins ? server_calls().geo_begin(scope) : server_calls().geo_step(scope);
    mark_done(k, outs);
  };
}

KernelFn send_kernel(const KernelSite& site) {
  if (server_calls().is_geo()) return geo_send(site);
  const auto servers = site.attr<RemoteNames>("epmap");
  RemoteNames names = site.attr<RemoteNames>("send_varnames");
  const auto sections = site.attr<std::vector<int64_t>>("sections");
  const size_t count = site.count("X"), outs = site.out_size();
  const bool notifies = !site.attr<bool>("use_send_handler");
  const bool of_geo = names == RemoteNames{"param_init"};
  if (count == 0 || of_geo) {
    throw site.error(of_geo ? "param_init belongs to a geo program" : "X is empty")
        .fix(
            "send at least one variable; in a geo program start its Communicator first "
            "(fleet.init_worker, or fluid.communicator.Communicator(...).start())");
  }
  const bool cuts = !notifies && !names.empty() && !sections.empty();
  if (names.empty()) {
    for (size_t i = 0; i < count; ++i) names.push_back(site.in("X", i).name);
  }
  if (!notifies) check_one_each(site, "variables", names.size(), servers.size());
  if (cuts) check_one_each(site, "sections", sections.size(), servers.size());
  return [=](const KernelArgs& k) {
    std::vector<ServerAsk> asks(servers.size());
    int64_t begin = 0;
    for (size_t i = 0; i < servers.size(); ++i) {
      asks[i].what = notifies ? What::notify : What::push;
      asks[i].endpoint = &servers[i];
      asks[i].name = &names[notifies ? 0 : i];
      if (cuts) {
        asks[i].value = rows_section(*k.ins[0], begin, begin + sections[i]);
        begin += sections[i];
      } else {
        asks[i].value = *k.ins[notifies ? 0 : i];
      }
    }
    server_calls().ask(asks);
    mark_done(k, outs);
  };
}

KernelFn recv_kernel(const KernelSite& site) {
  const auto servers = site.attr<RemoteNames>("epmap");
  RemoteNames names = site.attr<RemoteNames>("recv_varnames");
  const bool joins = !names.empty();
  if (!joins) names = site.attr<RemoteNames>("varnames");
  const size_t outs = site.out_size();
  if (names.empty()) {
    for (size_t i = 0; i < outs; ++i) names.push_back(site.out("Out", i).name);
  }
  check_one_each(site, "variables", names.size(), servers.size());
  const bool waits = site.attr<bool>("with_barrier");
  if (site.attr<int32_t>("do_not_run") != 0) return [](const KernelArgs&) {};
  return [=, trainer = site.attr<int32_t>("trainer_id")](const KernelArgs& k) {
    std::vector<Variable> parts(joins ? names.size() : 0);
    std::vector<ServerAsk> asks(names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      asks[i].what = waits ? What::get : What::read;
      asks[i].endpoint = &servers[i];
      asks[i].name = &names[i];
      asks[i].into = joins ? &parts[i] : k.outs[i];
    }
    server_calls().be(trainer);
    server_calls().ask(asks);
    if (joins) join_rows(parts, *k.outs[0]);
  };
}

KernelFn send_barrier_kernel(const KernelSite& site) {
  // half_async asks for what is so anyway: `send` returns when servers have what it sends.
  return [servers = site.attr<RemoteNames>("endpoints"), trainer = site.attr<int32_t>("trainer_id"),
          outs = site.out_size()](const KernelArgs& k) {
    tell_all(trainer, servers, What::sent_all);
    mark_done(k, outs);
  };
}

KernelFn fetch_barrier_kernel(const KernelSite& site) {
  return [servers = site.attr<RemoteNames>("endpoints"), trainer = site.attr<int32_t>("trainer_id"),
          outs = site.out_size()](const KernelArgs& k) {
    tell_all(trainer, servers, What::got_all);
    for (size_t i = 0; i < outs; ++i) {  // what was received stays as it is
      if (k.outs[i] && k.outs[i]->kind() == Kind::none) set_number(*k.outs[i], 1);
    }
  };
}

// All ids of the op are asked for once, each section's at its server.
KernelFn remote_lookup_kernel(const KernelSite& site) {
  const auto tables = site.attr<RemoteNames>("table_names");
  const auto servers = site.attr<RemoteNames>("endpoints");
  const auto sections = site.attr<std::vector<int64_t>>("height_sections");
  check_one_each(site, "tables", tables.size(), servers.size());
  check_one_each(site, "sections", sections.size(), servers.size());
  const bool second = site.attr<std::string>("lookup_table_version") == "lookup_table_v2";
  const auto padding = site.attr<int64_t>("padding_idx");
  const size_t count = site.count("Ids");
  const int first = site.position("Ids");
  return [=, trainer = site.attr<int32_t>("trainer_id")](const KernelArgs& k) {
    std::vector<int64_t> wanted;
    for (size_t i = 0; i < count; ++i) {
      const Tensor& ids = k.in(first + static_cast<int>(i));
      const int64_t* each = ids.data<int64_t>();
      std::copy_if(each, each + ids.numel(), std::back_inserter(wanted),
                   [&](int64_t id) { return id != padding; });
    }
    std::ranges::sort(wanted);
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    const int64_t height = std::accumulate(sections.begin(), sections.end(), int64_t{0});
    if (!wanted.empty() && (wanted.front() < 0 || wanted.back() >= height)) {
      throw Error(ErrorKind::out_of_range,
                  cat("an id is ", wanted.front() < 0 ? wanted.front() : wanted.back(),
                      " but the table has ", height, " rows"));
    }
    std::vector<Variable> parts(sections.size());
    std::vector<ServerAsk> asks(sections.size());
    int64_t begin = 0;
    auto from = wanted.begin();
    for (size_t s = 0; s < sections.size(); ++s) {
      const auto to = std::lower_bound(from, wanted.end(), begin + sections[s]);
      std::vector<int64_t> here(from, to);
      for (int64_t& id : here) id -= begin;
      // A server is asked also for no rows: it says how wide and of which type they are.
      asks[s].what = What::lookup;
      asks[s].endpoint = &servers[s];
      asks[s].name = &tables[s];
      asks[s].value.tensor() = make_tensor<int64_t>({static_cast<int64_t>(here.size())}, here);
      asks[s].into = &parts[s];
      begin += sections[s];
      from = to;
    }
    server_calls().be(trainer);
    server_calls().ask(asks);
    Variable joined;
    join_rows(parts, joined);
    const Tensor& rows = joined.tensor();
    const size_t width = size_of(rows.dtype()) *
                         static_cast<size_t>(rows.shape().product(1, rows.shape().rank()).value());
    for (size_t i = 0; i < count; ++i) {
      const Tensor& ids = k.in(first + static_cast<int>(i));
      Shape shape = ids.shape();
      if (!second && shape.rank() > 1) shape.erase(shape.rank() - 1);
      for (int axis = 1; axis < rows.shape().rank(); ++axis) shape.push_back(rows.shape()[axis]);
      Tensor& out = result_of_shape(*k.outs[i], rows.dtype(), shape);
      out.set_lod(ids.lod());
      for (int64_t n = 0; n < ids.numel(); ++n) {
        const int64_t id = ids.data<int64_t>()[n];
        std::byte* const to = out.bytes().data() + static_cast<size_t>(n) * width;
        if (id == padding) {
          std::memset(to, 0, width);
          continue;
        }
        const auto at = std::ranges::lower_bound(wanted, id) - wanted.begin();
        std::memcpy(to, rows.bytes().data() + static_cast<size_t>(at) * width, width);
      }
    }
  };
}

}  // namespace trireme
