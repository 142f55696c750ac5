"""GeoSgdTranspiler: trainers update their parameters and push what changed."""
import copy

from .distribute_transpiler import DistributeTranspiler, DistributeTranspilerConfig

__all__ = ['GeoSgdTranspiler']


class GeoSgdTranspiler(DistributeTranspiler):
    def __init__(self, config=None):
        config = copy.copy(config) if config is not None else DistributeTranspilerConfig()
        config.runtime_split_send_recv = False
        config.sync_mode = False
        config.geo_sgd_mode = True
        super().__init__(config)

    def transpile(self, trainer_id, program=None, pservers='127.0.0.1:6174', trainers=1,
                  sync_mode=False, startup_program=None, current_endpoint='127.0.0.1:6174'):
        super().transpile(trainer_id, program, pservers, trainers, False, startup_program,
                          current_endpoint)
        self.trainer_startup_program = self.startup_program
