"""python -m paddle.distributed.launch_ps SCRIPT: parameter servers and trainers on this machine."""
import os
import shutil
import sys
import tempfile

from . import arguments, supervise


RESTARTS = 3  # of each server


def _parse(argv):
    parser = arguments.parser('Starts SCRIPT as parameter servers and as trainers.')
    parser.add_argument('--start_port', type=int, default=6170, help='of the first server')
    parser.add_argument('--endpoints', default='', help='addresses of the servers, "ip:port,ip:port"')
    parser.add_argument('--worker_num', type=int, default=2, help='number of trainers')
    parser.add_argument('--server_num', type=int, default=2, help='number of servers')
    parser.add_argument('--server_restarts', type=int, default=RESTARTS,
                        help='how often a server that a signal has ended is started again, from its snapshot; '
                             '0: it ends the job')
    parser.add_argument('--log_dir', default='logs', help='where serverlog.<i> and workerlog.<i> go')
    return parser.parse_args(argv)


def tasks(endpoints, worker_num, restarts=0, snapshots=None):
    common = {'PADDLE_PSERVERS_IP_PORT_LIST': ','.join(endpoints), 'PADDLE_TRAINERS_NUM': str(worker_num)}
    made = []
    for i, endpoint in enumerate(endpoints):
        host, _, port = endpoint.rpartition(':')
        env = {**common, 'TRAINING_ROLE': 'PSERVER', 'POD_IP': host, 'PADDLE_PORT': port,
               'PADDLE_PSERVER_ID': str(i)}
        if restarts:
            env['FLAGS_server_snapshot'] = snapshots
        made.append(supervise.Task(f'server {i}', f'serverlog.{i}', env, False, restarts))
    for i in range(worker_num):
        env = {**common, 'TRAINING_ROLE': 'TRAINER', 'PADDLE_TRAINER_ID': str(i)}
        made.append(supervise.Task(f'trainer {i}', f'workerlog.{i}', env, True))
    return made


def _empty_directory(log_dir):
    """For snapshots. What a launcher that was killed has left there is not this job's."""
    if not log_dir:
        return tempfile.mkdtemp(prefix='snapshots_')
    path = os.path.abspath(os.path.join(log_dir, 'snapshots'))
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def run(script, script_args, server_num, worker_num, endpoints=None, start_port=None, log_dir=None,
        restarts=RESTARTS, view=None):
    """The exit code of the job."""
    if not endpoints:
        first = start_port or 0
        ports = [first + i for i in range(server_num)] if first else supervise.free_ports(server_num)
        endpoints = [f'127.0.0.1:{port}' for port in ports]
    if worker_num < 1 or not endpoints:
        raise SystemExit('launch_ps: there must be a server and a trainer at least')
    supervise.check_ports(endpoints)
    program = os.access(script, os.X_OK) and not script.endswith('.py')  # of any other language
    command = ([os.path.abspath(script)] if program else [sys.executable, '-u', script]) + script_args
    given = os.environ.get('FLAGS_server_snapshot')  # of the user: what is there is gone on from, and stays
    snapshots = given or (_empty_directory(log_dir) if restarts else None)
    try:
        return supervise.Job(command, tasks(endpoints, worker_num, restarts, snapshots), log_dir, view).run()
    finally:
        if snapshots and not given:
            shutil.rmtree(snapshots, ignore_errors=True)


def main(argv=None):
    args = _parse(argv)
    arguments.show(args)
    endpoints = [each.strip() for each in args.endpoints.split(',') if each.strip()]
    return run(args.training_script, args.training_script_args, args.server_num, args.worker_num, endpoints,
               args.start_port, args.log_dir, args.server_restarts, args.view)


if __name__ == '__main__':
    sys.exit(main())
