"""Starts the processes of a small parameter-server job on loopback and waits for them."""
import json
import os
import pathlib
import socket
import subprocess
import sys

WORKER = str(pathlib.Path(__file__).with_name('ps_worker.py'))
LIMIT = 40  # seconds for a whole job: all of them end by themselves long before


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(('127.0.0.1', 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Ended:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def said(self):
        assert self.code == 0, self.err
        return json.loads(self.out.splitlines()[-1])


def start(arguments, env=None):
    settings = {**os.environ, 'OMP_NUM_THREADS': '1', 'FLAGS_rpc_deadline': '20000', **(env or {})}
    return subprocess.Popen([sys.executable, WORKER] + [str(a) for a in arguments], env=settings,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(processes, stopped=()):
    """As they ended. Those that stop and stay are ended when the ones before them have."""
    ended = []
    try:
        for process in processes:
            if process in stopped:
                process.kill()
            out, err = process.communicate(timeout=LIMIT)
            ended.append(Ended(process.returncode, out, err))
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
    return ended


def local(mode='sync', steps=4):
    return wait_for([start(['local', 0, '-', 1, mode, steps])])[0].said['losses']


def job(servers, trainers, mode='sync', steps=4, env=None, everywhere=None, comes_again=False):
    """(servers, trainers), as they ended. `env`: of one trainer, by its number; a value 'SERVER' in it is
    the process id of the first server. `comes_again`: when that has died it is started once more."""
    endpoints = ','.join('127.0.0.1:%d' % port for port in free_ports(servers))
    processes = [start(['server', i, endpoints, trainers, mode, steps], everywhere)
                 for i in range(servers)]
    pid = str(processes[0].pid)
    own = [{**(everywhere or {}), **{k: pid if v == 'SERVER' else v for k, v in (env or {}).get(i, {}).items()}}
           for i in range(trainers)]
    processes += [start(['trainer', i, endpoints, trainers, mode, steps], own[i])
                  for i in range(trainers)]
    if comes_again:
        died = wait_for(processes[:1])[0]
        assert died.code == -9, died.err
        processes[0] = start(['server', 0, endpoints, trainers, mode, steps], everywhere)
    stay = [processes[servers + i] for i, each in enumerate(own) if each.get('END_BY') == 'stop']
    ended = wait_for(processes, stay)
    return ended[:servers], ended[servers:]
