// Samples out of files, through a command of the user's, and batches of them ahead on threads.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "io/multi_slot.h"

extern char** environ;

namespace trireme {
namespace {

std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char letter : text)
    quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

std::string command_for(const SampleSource& source, const std::string& file) {
  if (source.download_command.empty())
    return cat("(", source.pipe_command, ") < ", shell_quoted(file));
  return cat(source.download_command, " ", shell_quoted(file), " | (", source.pipe_command, ")");
}

// Starts `command` in a group of its own, so that all of it can be ended; returns its process.
int start(const std::string& command, int* output) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw IoError(cat("no pipe can be made: ", std::strerror(errno)));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::string shell = "sh", option = "-c", text = command;
  char* const arguments[] = {shell.data(), option.data(), text.data(), nullptr};
  pid_t child = -1;
  const int failed = posix_spawn(&child, "/bin/sh", &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (failed) {
    ::close(ends[0]);
    throw IoError(cat("/bin/sh cannot be started: ", std::strerror(failed)));
  }
  *output = ends[0];
  return child;
}

std::string names_of(const MultiSlotFormat& format) {
  std::vector<std::string> names;
  for (const MultiSlotVar& var : format.vars) names.push_back(var.name);
  return join(names);
}

}  // namespace

SampleReader::SampleReader(MultiSlotFormat format, SampleSource source,
                           std::vector<std::string> files)
    : format_(std::move(format)), source_(std::move(source)), files_(std::move(files)) {}

SampleReader::~SampleReader() {
  stop();
  if (pipe_ >= 0) ::close(pipe_);
  if (child_ >= 0) waitpid(child_, nullptr, 0);
}

void SampleReader::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  if (child_ >= 0) kill(-child_, SIGKILL);
}

void SampleReader::open() {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  if (source_.download_command.empty() && access(files_[file_].c_str(), R_OK) != 0) {
    throw IoError(cat(files_[file_], " cannot be read: ", std::strerror(errno)));
  }
  child_ = start(command_for(source_, files_[file_]), &pipe_);
}

// The end of a file: its command must have ended well.
void SampleReader::close() {
  ::close(pipe_);
  pipe_ = -1;
  int status = 0;
  const std::lock_guard lock(mutex_);
  waitpid(child_, &status, 0);
  child_ = -1;
  const std::string file = files_[file_++];
  if (stopped_ || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) return;
  throw Error(ErrorKind::precondition,
              cat("the pipe command ", shell_quoted(source_.pipe_command), " ended with ",
                  WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), " for ", file));
}

bool SampleReader::next_line(std::string& line) {
  while (true) {
    const size_t end = held_.find('\n', parsed_);
    if (end != std::string::npos) {
      line.assign(held_, parsed_, end - parsed_);
      parsed_ = end + 1;
      return true;
    }
    held_.erase(0, parsed_);
    parsed_ = 0;
    char part[1 << 16];
    const ssize_t count = read(pipe_, part, sizeof part);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw IoError(cat("the output of the pipe command cannot be read: ", std::strerror(errno)));
    if (count == 0) {  // a last line may have no end
      line = std::move(held_);
      held_.clear();
      return !line.empty();
    }
    held_.append(part, static_cast<size_t>(count));
  }
}

bool SampleReader::next(MultiSlotSample& sample) {
  std::string line;
  while (file_ < files_.size()) {
    if (pipe_ < 0) open();
    if (pipe_ < 0) return false;  // stopped
    if (!next_line(line)) {
      close();
      continue;
    }
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      sample = parse_sample(line, format_);
      return true;
    } catch (const Error& error) {
      throw Error(cat(files_[file_], ": the line \"", line.substr(0, 200), "\" is not a sample of ",
                      names_of(format_), ": ", error.message()))
          .fix("a line has \"n value ... value\" for each variable of set_use_var, in their order");
    }
  }
  return false;
}

// Batches ahead.

struct QueuedBatches::Lane {
  explicit Lane(SampleReader* with) : reader(with) {}
  std::unique_ptr<SampleReader> reader;
  std::deque<std::vector<Tensor>> batches;
  bool ended = false;
  std::exception_ptr problem;
  std::thread thread;
};

QueuedBatches::QueuedBatches(const MultiSlotFormat& format, const SampleSource& source,
                             const std::vector<std::string>& files, const Options& options)
    : format_(format), options_(options) {
  const size_t count = std::clamp<size_t>(static_cast<size_t>(std::max(options.threads, 1)), 1,
                                          std::max<size_t>(files.size(), 1));
  for (size_t lane = 0; lane < count; ++lane) {
    std::vector<std::string> share;
    for (size_t file = lane; file < files.size(); file += count) share.push_back(files[file]);
    lanes_.push_back(std::make_unique<Lane>(new SampleReader(format, source, std::move(share))));
  }
  for (const auto& lane : lanes_) lane->thread = std::thread([this, &lane = *lane] { read(lane); });
}

QueuedBatches::~QueuedBatches() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  for (const auto& lane : lanes_) lane->reader->stop();
  for (const auto& lane : lanes_) lane->thread.join();
}

void QueuedBatches::read(Lane& lane) {
  const auto put = [&](std::vector<MultiSlotSample>& held) {
    std::vector<const MultiSlotSample*> rows;
    for (const MultiSlotSample& sample : held) rows.push_back(&sample);
    std::vector<Tensor> batch = batch_of(format_, rows);
    held.clear();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || lane.batches.size() < options_.ahead; });
    lane.batches.push_back(std::move(batch));
    changed_.notify_all();
    return !stopped_;
  };
  std::exception_ptr problem;
  try {
    std::vector<MultiSlotSample> held;
    MultiSlotSample sample;
    while (lane.reader->next(sample)) {
      held.push_back(std::move(sample));
      if (static_cast<int64_t>(held.size()) == options_.batch_size && !put(held)) break;
    }
    if (!held.empty()) put(held);
  } catch (...) {
    problem = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  lane.ended = true;
  lane.problem = problem;
  changed_.notify_all();
}

std::vector<Tensor> QueuedBatches::next() {
  std::unique_lock lock(mutex_);
  for (size_t tried = 0; tried < lanes_.size(); ++tried) {
    Lane& lane = *lanes_[turn_];
    turn_ = (turn_ + 1) % lanes_.size();
    changed_.wait(lock, [&] { return lane.ended || !lane.batches.empty(); });
    if (!lane.batches.empty()) {
      std::vector<Tensor> batch = std::move(lane.batches.front());
      lane.batches.pop_front();
      changed_.notify_all();
      return batch;
    }
    if (lane.problem) std::rethrow_exception(std::exchange(lane.problem, nullptr));
  }
  return {};
}

}  // namespace trireme
