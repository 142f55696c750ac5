"""Records the losses of server_job.py: record_servers.py INTERPRETER, which runs the original.

Writes records/servers.json: by net, the losses of every trainer."""
import json
import pathlib
import socket
import subprocess
import sys

from server_job_names import NETS, SERVERS, TRAINERS

HERE = pathlib.Path(__file__).parent
LIMIT = 120  # seconds for a whole job


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(('127.0.0.1', 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def run(interpreter, net, env=None):
    """The losses by trainer. Servers of the original never end: all that is left is ended."""
    endpoints = ','.join('127.0.0.1:%d' % port for port in free_ports(SERVERS))

    def start(role, index):
        return subprocess.Popen(interpreter + [str(HERE / 'server_job.py'), net, role, str(index), endpoints],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    servers = [start('server', i) for i in range(SERVERS)]
    trainers = [start('trainer', i) for i in range(TRAINERS)]
    losses = []
    try:
        for each in trainers:
            out, err = each.communicate(timeout=LIMIT)
            assert each.returncode == 0, err
            losses.append([float(line) for line in out.split()])
    finally:
        for each in servers + trainers:
            each.kill()
            each.communicate()
    return losses


if __name__ == '__main__':
    found = {net: run(sys.argv[1:], net) for net in NETS}
    (HERE / 'records' / 'servers.json').write_text(json.dumps(found, indent=1) + '\n')
