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
    parser.add_argument('--servers', help='addresses of parameter servers, "ip:port,ip:port"')
    parser.add_argument('--run_mode', choices=('collective', 'ps'), help='ranks, or servers and trainers')
    parser.add_argument('--nnodes', type=int, help='number of machines: as many as --ips names')
    parser.add_argument('--max_restart', type=int, default=0, help='0: a job that fails ends')
    args = parser.parse_args(argv)
    by_servers = args.servers is not None or args.server_num is not None
    if args.run_mode is not None and (args.run_mode == 'ps') != by_servers:
        parser.error(f'--run_mode {args.run_mode}, but servers are {"" if by_servers else "not "}asked for')
    if args.servers is not None and args.server_num not in (None, args.servers.count(',') + 1):
        parser.error(f'--server_num is {args.server_num}, but --servers names {args.servers.count(",") + 1}')
    if args.nnodes is not None and args.nnodes != len(args.cluster_node_ips.split(',')):
        parser.error(f'--nnodes is {args.nnodes}, but --ips names {len(args.cluster_node_ips.split(","))}')
    if args.max_restart:
        parser.error('--max_restart: jobs are not started again by themselves: save checkpoints, and start '
                     'the command again')
    if args.servers is not None:
        args.server_num = args.servers.count(',') + 1
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
        env = {'PADDLE_TRAINING_ROLE': 'TRAINER', 'PADDLE_TRAINER_ID': str(first + i), 'PADDLE_CURRENT_ENDPOINT': everyone[first + i],
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
                             args.worker_num, log_dir=args.log_dir or 'logs',
                             endpoints=[each.strip() for each in (args.servers or '').split(',') if each],
                             view=args.view)
    started = tasks(args)
    if args.log_level <= 10:
        for task in started:
            print(task.name, task.env, flush=True)
    command = [sys.executable, '-u', args.training_script] + args.training_script_args
    return supervise.Job(command, started, args.log_dir, args.view).run()


if __name__ == '__main__':
    sys.exit(main())
