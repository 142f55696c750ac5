"""python -m paddle.distributed.launch SCRIPT: one process for every rank on this machine."""
import os
import sys

from . import arguments, launch_ps, supervise

_CLOUD_PORT, _PORT = 6170, 6070


def _parse(argv):
    parser = arguments.parser('Starts SCRIPT as ranks that train together.')
    parser.add_argument('--use_paddlecloud', action='store_true',
                        help='machines, this one and the first port are those of the environment '
                             '(PADDLE_TRAINERS, POD_IP, PADDLE_PORT)')
    parser.add_argument('--started_port', type=int, help='first port of this machine; else free ones')
    parser.add_argument('--selected_gpus', '--gpus', '--devices',
                        help='one rank for each of these GPUs, "0,1"')
    parser.add_argument('--nproc_per_node', type=int, help='this many ranks on this machine, on its CPU')
    parser.add_argument('--log_level', type=int, default=20, help='10: say also what is started')
    parser.add_argument('--log_dir', help='write workerlog.<rank> there; else all write here')
    parser.add_argument('--server_num', type=int, help='with --worker_num: parameter servers')
    parser.add_argument('--worker_num', '--trainer_num', type=int, help='their trainers')
    args = parser.parse_args(argv)
    if (args.server_num is None) != (args.worker_num is None):
        parser.error('--server_num and --worker_num come together')
    if args.selected_gpus and args.nproc_per_node:
        parser.error('--selected_gpus and --nproc_per_node both say how many ranks there are')
    return args


def _selected_gpus(text):
    """Positions among CUDA_VISIBLE_DEVICES of the GPUs that are named."""
    named = [each.strip() for each in text.split(',')]
    visible = os.environ.get('CUDA_VISIBLE_DEVICES')
    if not visible:
        return named
    order = [each.strip() for each in visible.split(',')]
    missing = [each for each in named if each not in order]
    assert not missing, f'--selected_gpus names {missing}, but CUDA_VISIBLE_DEVICES is {visible!r}'
    return [str(order.index(each)) for each in named]


def _machines(args):
    ips, here, port = args.cluster_node_ips, args.node_ip, args.started_port
    if args.use_paddlecloud:
        ips = os.environ.get('PADDLE_TRAINERS', ips)
        here = os.environ.get('POD_IP', here)
        port = port or int(os.environ.get('PADDLE_PORT', _CLOUD_PORT))
    ips = [each.strip() for each in ips.split(',')]
    if here not in ips:
        raise SystemExit(f'launch: --node_ip {here} is not among --cluster_node_ips {",".join(ips)}')
    return ips, here, port


def tasks(args):
    """The ranks of this machine."""
    ips, here, port = _machines(args)
    gpus = _selected_gpus(args.selected_gpus) if args.selected_gpus else None
    count = len(gpus) if gpus else args.nproc_per_node or 1
    if port is None and len(ips) == 1:
        ports = supervise.free_ports(count, here)
    else:
        ports = [(port or _PORT) + i for i in range(count)]
    everyone = [f'{ip}:{port}' for ip in ips for port in ports]
    first = ips.index(here) * count
    supervise.check_ports(everyone[first:first + count])
    made = []
    for i in range(count):
        env = {'PADDLE_TRAINER_ID': str(first + i), 'PADDLE_CURRENT_ENDPOINT': everyone[first + i],
               'PADDLE_TRAINERS_NUM': str(len(everyone)), 'PADDLE_TRAINER_ENDPOINTS': ','.join(everyone)}
        if gpus:
            env['FLAGS_selected_gpus'] = gpus[i]
        made.append(supervise.Task(f'rank {first + i}', f'workerlog.{i}', env, True))
    return made


def main(argv=None):
    args = _parse(argv)
    arguments.show(args)
    if args.server_num is not None:
        return launch_ps.run(args.training_script, args.training_script_args, args.server_num,
                             args.worker_num, log_dir=args.log_dir or 'logs', view=args.view)
    started = tasks(args)
    if args.log_level <= 10:
        for task in started:
            print(task.name, task.env, flush=True)
    command = [sys.executable, '-u', args.training_script] + args.training_script_args
    return supervise.Job(command, started, args.log_dir, args.view).run()


if __name__ == '__main__':
    sys.exit(main())
