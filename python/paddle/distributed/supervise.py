"""Starts the processes of a job on this machine, keeps their logs, and ends what is left of them."""
import collections
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

from .. import progress

POLL = 0.02  # seconds
GRACE = 5.0  # between asking a process to end and ending it
SETTLE = 5.0  # after a failure: others may be about to name its cause themselves
SHOWN = 40  # lines of the log of the process that failed first

# One process: what it is called, its environment beside this one's, whether the job waits for it, and how
# many times it is started again when a signal has ended it.
Task = collections.namedtuple('Task', 'name log env counts restarts', defaults=[0])


def free_ports(count, host='127.0.0.1'):
    """Ports that nobody listens on now."""
    taken = [socket.socket() for _ in range(count)]
    try:
        for each in taken:
            each.bind((host, 0))
        return [each.getsockname()[1] for each in taken]
    finally:
        for each in taken:
            each.close()


def check_ports(endpoints):
    """An error before anything is started: the address is another machine's, or the port is taken."""
    for endpoint in endpoints:
        host, _, port = endpoint.rpartition(':')
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind((host, int(port)))
            except OSError as error:
                raise SystemExit(f'launch: cannot use {endpoint}: {error.strerror}. Choose an address of this '
                                 'machine and a port that is free')


def _ends_with_parent():
    """Between fork and exec: a launcher that is killed takes its processes with it."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        os._exit(1)


def _environment(task):
    env = {name: value for name, value in os.environ.items()
           if name.lower() not in ('http_proxy', 'https_proxy')}
    return {**env, 'PYTHONUNBUFFERED': '1', **task.env}


def how_it_ended(code):
    return f'was ended by {signal.Signals(-code).name}' if code < 0 else f'ended with {code}'


class Job:
    """Processes that end together: the first failure ends the others."""

    def __init__(self, command, tasks, log_dir, view=None):
        self._command, self._tasks, self._log_dir, self._view = command, tasks, log_dir, view
        self._reports = tempfile.TemporaryDirectory(prefix='view_') if view else None
        # Where processes write to the terminal themselves, a line of ours would be in their way.
        self._states = tempfile.TemporaryDirectory(prefix='progress_') if log_dir and progress.wanted() else None
        self._began = self._told = time.monotonic()
        self._processes, self._files = [], []
        self._asked_to_end = None
        self._failed = None  # (task, code): the first
        self._restarts = collections.Counter()  # by task's name

    def run(self):
        """0 where all that count ended so; else 1, with the first failure said on stderr."""
        before = {each: signal.signal(each, self._take_signal) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            for task in self._tasks:
                self._start(task)
            self._watch()
        finally:
            self._end_all()
            if self._states:
                progress.clear()
                self._states.cleanup()
            for number, handler in before.items():
                signal.signal(number, handler)
            for each in filter(None, self._files):
                each.close()
        if self._asked_to_end is not None:
            return 128 + self._asked_to_end
        if self._view:
            self._write_view()
        if self._failed is None:
            return 0
        self._tell()
        return 1

    def _report(self, task):
        return os.path.join(self._reports.name, task.name.replace(' ', '_') + '.json')

    def _command_of(self, task):
        """With --view a process writes a report of what it ran."""
        if not self._view:
            return self._command
        python, unbuffered, script, *arguments = self._command
        return [python, unbuffered, '-m', 'paddle.view', '--name', task.name, '--data', self._report(task), script, '--',
                *arguments]

    def _write_view(self):
        from ..viewer import write_page
        texts = []
        for task in self._tasks:
            if os.path.exists(self._report(task)):
                with open(self._report(task), encoding='utf-8') as file:
                    texts.append(file.read())
        self._reports.cleanup()
        if not texts:
            return print('launch: no process came to the end of its script: there is no page', file=sys.stderr)
        write_page(self._view, texts, title=os.path.basename(self._command[2]))
        return print(f'view: {self._view}', file=sys.stderr)

    def _take_signal(self, number, frame):
        self._asked_to_end = number

    def _log(self, task):
        return os.path.join(self._log_dir, task.log) if self._log_dir else None

    def _start(self, task):
        log = self._log(task)
        if log:
            os.makedirs(self._log_dir, exist_ok=True)
            self._files.append(open(log, 'wb'))
        else:
            self._files.append(None)
        self._processes.append(self._process(task, self._files[-1]))

    def _process(self, task, out):
        return subprocess.Popen(
            self._command_of(task), env={**_environment(task), **self._progress_of(task)}, stdout=out,
            stderr=out and subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            preexec_fn=_ends_with_parent)

    def _started_again(self, at):
        """What a signal has ended had no say, and may go on where it stopped; a bounded number of times."""
        task, code = self._tasks[at], self._processes[at].returncode
        if code is None or code >= 0 or self._restarts[task.name] == task.restarts:
            return False
        self._restarts[task.name] += 1
        print(f'launch: {task.name} {how_it_ended(code)} and is started again '
              f'({self._restarts[task.name]} of {task.restarts} times)', file=sys.stderr, flush=True)
        self._processes[at] = self._process(task, self._files[at])
        return True

    def _watch(self):
        while self._asked_to_end is None and self._failed is None:
            codes = [process.poll() for process in self._processes]
            if any([self._started_again(at) for at, code in enumerate(codes) if code]):
                continue
            failed = [(task, code) for task, code in zip(self._tasks, codes) if code]
            if failed:
                # Of several at a time, what was ended by a signal is the cause: it had no say.
                self._failed = min(failed, key=lambda each: each[1])
                return self._wait(SETTLE)
            if all(code is not None for task, code in zip(self._tasks, codes) if task.counts):
                return self._wait(GRACE)  # servers end by themselves when the last trainer has left
            self._say()
            time.sleep(POLL)

    def _state_file(self, task):
        return os.path.join(self._states.name, task.name.replace(' ', '_'))

    def _progress_of(self, task):
        return {progress.FILE: self._state_file(task)} if self._states else {}

    def _say(self):
        """Who is alive, and what the first that tells says."""
        now = time.monotonic()
        if not self._states or now - self._told < progress.EVERY:
            return
        self._told = now
        alive = [process.poll() is None for process in self._processes]
        told = [(task.name, progress.read(self._state_file(task))) for task in self._tasks]
        name, state = next(((name, state) for name, state in told if state), ('', {}))
        said = f'{sum(alive)} of {len(alive)} processes alive for {progress.duration(now - self._began)}'
        progress.tell({**state, 'work': f'{said}   {name}'.rstrip(), 'alive': sum(alive), 'processes': dict(told)})

    def _wait(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end and self._asked_to_end is None:
            if all(process.poll() is not None for process in self._processes):
                break
            time.sleep(POLL)
        if self._failed is None:
            failed = [(task, process.returncode) for task, process in zip(self._tasks, self._processes)
                      if process.returncode]
            self._failed = min(failed, key=lambda each: each[1]) if failed else None

    def _signal_all(self, number):
        for process in self._processes:
            try:
                os.killpg(process.pid, number)  # with what it has started
            except ProcessLookupError:
                pass

    def _end_all(self):
        alive = [process for process in self._processes if process.poll() is None]
        if alive:
            self._signal_all(self._asked_to_end or signal.SIGTERM)
            self._signal_all(signal.SIGCONT)
            end = time.monotonic() + GRACE
            while time.monotonic() < end and any(process.poll() is None for process in alive):
                time.sleep(POLL)
        self._signal_all(signal.SIGKILL)
        for process in self._processes:
            process.wait()

    def _tell(self):
        task, code = self._failed
        print(f'launch: {task.name} {how_it_ended(code)} first, and ended the job', file=sys.stderr)
        log = self._log(task)
        if log:
            with open(log, errors='replace') as lines:
                last = collections.deque(lines, SHOWN)
            print(f'--- the end of {log}', file=sys.stderr)
            sys.stderr.writelines(last)
            print(f'--- the logs of all processes are in {self._log_dir}', file=sys.stderr)
        for other, process in zip(self._tasks, self._processes):
            if other is not task and process.returncode:
                print(f'launch: {other.name} {how_it_ended(process.returncode)}', file=sys.stderr)
        sys.stderr.flush()
