"""Ranks joined by ops, as classes: GradAllReduce and LocalSGD."""
from .distribute_transpiler import DistributeTranspiler, DistributeTranspilerConfig

__all__ = ['GradAllReduce', 'LocalSGD']


class Collective:
    mode = None

    def __init__(self, nrings=2):
        self.nrings = nrings

    def transpile(self, startup_program, main_program, rank, endpoints, current_endpoint,
                  wait_port=True):
        config = DistributeTranspilerConfig()
        config.mode = 'collective'
        config.collective_mode = self.mode
        config.nccl_comm_num = self.nrings
        config.wait_port = wait_port
        if isinstance(endpoints, str):
            endpoints = endpoints.split(',')
        DistributeTranspiler(config).transpile(rank, main_program, trainers=endpoints,
                                               startup_program=startup_program,
                                               current_endpoint=current_endpoint)


class GradAllReduce(Collective):
    """Gradients are summed over all ranks before they update."""
    mode = 'grad_allreduce'


class LocalSGD(Collective):
    """Each rank updates its own parameters; after every step they are averaged."""
    mode = 'local_sgd'
