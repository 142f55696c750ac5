// Sparse tables of a server whose rows are made on first use: looked up, updated, kept.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/flags.h"
#include "core/text.h"
#include "core/warning.h"
#include "ps/server.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

const char* const kParam = "Param";

std::string plain(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return c == '/' || c == ':'; }, '_');
  return name;
}

bool ascends(std::span<const int64_t> ids) {
  return std::ranges::adjacent_find(ids, std::ranges::greater_equal{}) == ids.end();
}

// Gradients under the numbers that their rows have among `ids`, until the end of its life.
class Renumbered {
 public:
  Renumbered(SelectedRows& grad, const std::vector<int64_t>& ids, int64_t height)
      : grad_(grad), rows_(grad.rows), height_(grad.height) {
    for (int64_t& row : grad_.rows) row = std::ranges::lower_bound(ids, row) - ids.begin();
    grad_.height = height;
  }
  ~Renumbered() {
    grad_.rows = std::move(rows_);
    grad_.height = height_;
  }
  Renumbered(const Renumbered&) = delete;
  Renumbered& operator=(const Renumbered&) = delete;

 private:
  SelectedRows& grad_;
  RowNumbers rows_;
  int64_t height_;
};

}  // namespace

// Its startup program has said of which variables.
void PsServer::find_tables() {
  const auto by_rows = [&](const std::string& name) {
    const Variable* value = scope_.find(name);
    return value ? value->host<RowInit>() : nullptr;
  };
  for (const int index : serve_.attr<BlockRefs>("optimize_blocks").indices) {
    Table table;
    for (const Op* op : program_.block(index).ops()) {
      for (const std::string& name : op->input_names()) {
        const std::vector<std::string>& sent = serve_.input("X");
        if (std::ranges::find(sent, name) != sent.end()) table.grads.push_back(name);
        if (!by_rows(name)) continue;
        const bool is_param = op->input(kParam) == std::vector<std::string>{name};
        if (is_param) table.name = name;
        if (std::ranges::find(table.columns, name) != table.columns.end()) continue;
        table.columns.insert(is_param ? table.columns.begin() : table.columns.end(), name);
      }
    }
    if (table.columns.empty()) continue;
    if (table.name.empty() || tables_.contains(table.name)) {
      throw Error(ErrorKind::unimplemented,
                  cat("table ", table.columns.front(), " is updated by more than one optimizer"))
          .fix("set FLAGS_table_memory to 0: the table is whole then, in memory");
    }
    std::vector<std::shared_ptr<RowInit>> columns;
    for (const std::string& name : table.columns) columns.push_back(by_rows(name));
    const auto memory = static_cast<uint64_t>(std::get<int64_t>(get_flag("table_memory"))) << 20;
    table.store =
        std::make_unique<RowStore>(std::move(columns), memory, file_of(table.name, "open"));
    table_of_[index] = &(tables_[table.name] = std::move(table));
  }
  if (std::get<int64_t>(get_flag("table_memory")) == 0) return;
  for (const std::string& pair : serve_.attr<std::vector<std::string>>("sparse_grad_to_param")) {
    const std::string name = pair.substr(pair.rfind(':') + 1);
    const Variable* value = scope_.find(name);
    if (tables_.contains(name) || !value || value->kind() != Kind::dense) continue;
    warn(cat("table ", name, " was loaded whole: it is in memory, whatever FLAGS_table_memory is"));
  }
}

std::string PsServer::file_of(const std::string& table, const std::string& use) const {
  const std::string name =
      cat("server_", plain(serve_.attr<std::string>("endpoint")), "_rows_", use, "_", plain(table));
  const auto given = std::get<std::string>(get_flag("table_directory"));
  if (!given.empty()) return cat(given, "/", name);
  if (keeps()) return cat(fs::path(snapshot_).parent_path().string(), "/", name);
  return cat((fs::temp_directory_path() / "trireme_").string(), getpid(), "_", name);
}

void PsServer::update_rows(Table& table, int block) {
  std::vector<int64_t> ids;
  std::vector<SelectedRows*> grads;
  for (const std::string& name : table.grads) {
    Variable* value = scope_.find(name);
    if (!value || value->kind() != Kind::rows) continue;
    grads.push_back(&value->rows());
    ids.insert(ids.end(), grads.back()->rows.begin(), grads.back()->rows.end());
  }
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (ids.empty()) return;
  if (ids.front() < 0 || ids.back() >= table.store->height()) {
    throw Error(cat("a gradient names row ", ids.front() < 0 ? ids.front() : ids.back(), " of ",
                    table.store->height()));
  }
  const auto count = static_cast<int64_t>(ids.size());
  std::vector<float*> records;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    const RowInit& column = table.store->column(c);
    Shape shape = column.shape;
    shape[0] = count + 1;
    Variable& value = scope_.var(table.columns[c]);
    if (value.kind() != Kind::dense) value.clear();
    if (!value.initialized() || value.tensor().shape() != shape) {
      value.tensor() = Tensor(DType::float32, shape);
    }
    records.push_back(value.tensor().data<float>());
    std::fill_n(records.back() + count * column.width(), column.width(), 1.0f);
  }
  table.store->take(ids, records);
  {
    std::vector<std::unique_ptr<Renumbered>> numbers;
    for (SelectedRows* grad : grads) {
      numbers.push_back(std::make_unique<Renumbered>(*grad, ids, count + 1));
    }
    run_as_program(block);
  }
  std::vector<const float*> updated;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    const float* of_column = scope_.var(table.columns[c]).tensor().data<float>();
    const int64_t width = table.store->column(c).width();
    const float* unnamed = of_column + count * width;  // the last row, which no gradient names
    if (std::any_of(unnamed, unnamed + width, [](float x) { return x != 1.0f; })) {
      throw Error(ErrorKind::unimplemented,
                  cat("the optimizer of table ", table.name,
                      " changes also rows that a batch does not name, and not all are in memory"))
          .fix("use SGD, Adagrad or Adam with lazy_mode, or set FLAGS_table_memory to 0");
    }
    updated.push_back(of_column);
  }
  table.store->put(ids, updated);
}

void PsServer::look_up_rows(Table& table, const Tensor& ids, PsMessage& reply) {
  const std::span<const int64_t> asked(ids.data<int64_t>(), static_cast<size_t>(ids.numel()));
  for (const int64_t id : asked) {
    if (id >= 0 && id < table.store->height()) continue;
    throw Error(cat("row ", id, " of ", table.store->height(), " is asked for"));
  }
  Shape shape = table.store->column(0).shape;
  shape[0] = ids.numel();
  Tensor& found = reply.value.tensor();
  found = Tensor(DType::float32, shape);
  std::vector<float*> to(table.store->columns(), nullptr);
  if (ascends(asked)) {
    to[0] = found.data<float>();
    return table.store->take(asked, to);
  }
  std::vector<int64_t> once(asked.begin(), asked.end());
  std::ranges::sort(once);
  once.erase(std::unique(once.begin(), once.end()), once.end());
  const auto width = static_cast<size_t>(table.store->column(0).width());
  std::vector<float> rows(once.size() * width);
  to[0] = rows.data();
  table.store->take(once, to);
  for (size_t i = 0; i < asked.size(); ++i) {
    const auto at = static_cast<size_t>(std::ranges::lower_bound(once, asked[i]) - once.begin());
    std::copy_n(rows.data() + at * width, width, found.data<float>() + i * width);
  }
}

void PsServer::read_rows(Table& table, Variable& to) {
  to.clear();
  to.tensor() = Tensor(DType::float32, table.store->column(0).shape);
  table.store->take_all(0, to.tensor().data<float>());
}

// Files of a snapshot: it names them by its number, and those of other snapshots go after it.
void PsServer::save_tables(ByteSink& to) {
  ++checkpoint_;
  to.write_number(checkpoint_);
  for (auto& [name, table] : tables_) {
    const std::string directory = cat(snapshot_, "_rows_", checkpoint_, "_", plain(name));
    fs::remove_all(directory);  // of a snapshot that was not finished
    table.store->save(to, directory);
  }
}

void PsServer::load_tables(ByteSource& from) {
  checkpoint_ = from.read<uint64_t>("the number of the tables' files");
  for (auto& [name, table] : tables_) {
    table.store->load(from, cat(snapshot_, "_rows_", checkpoint_, "_", plain(name)));
  }
}

void PsServer::forget_tables(uint64_t but) const {
  if (tables_.empty()) return;
  const std::string begin = fs::path(snapshot_).filename().string() + "_rows_";
  const std::string kept = cat(begin, but, "_"), open = begin + "open_";
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(fs::path(snapshot_).parent_path(), gone)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(begin) || name.starts_with(kept) || name.starts_with(open)) continue;
    fs::remove_all(entry.path(), gone);
  }
}

}  // namespace trireme
