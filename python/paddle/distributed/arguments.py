"""What launchers' command lines have in common."""
import argparse


def boolean(text):
    if text.lower() in ('true', '1', 'yes'):
        return True
    if text.lower() in ('false', '0', 'no'):
        return False
    raise argparse.ArgumentTypeError(f'{text!r} is neither True nor False')


def parser(description):
    made = argparse.ArgumentParser(description=description)
    made.add_argument('--cluster_node_ips', '--ips', default='127.0.0.1',
                      help='addresses of all machines, "ip,ip"')
    made.add_argument('--node_ip', default='127.0.0.1', help='the address of this machine')
    made.add_argument('--print_config', type=boolean, default=True,
                      help='print the settings before starting')
    made.add_argument('--view', metavar='PAGE', help='write a page of all processes there when the job has ended '
                      '(docs/view.md)')
    made.add_argument('training_script', help='the program, followed by its arguments')
    made.add_argument('training_script_args', nargs=argparse.REMAINDER)
    return made


def show(args):
    if not args.print_config:
        return
    lines = [f'{name}: {value}' for name, value in sorted(vars(args).items())]
    print('\n'.join([' Configuration Arguments '.center(48, '-'), *lines, '-' * 48]), flush=True)
