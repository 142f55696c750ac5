"""GeoSgdTranspiler: trainers update their parameters and push what changed."""
import collections
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

    def _get_vars_info(self):
        """What a communicator needs: parameter -> names, rows and servers of its parts."""
        sparse = {op.input('W')[0] for op in self.origin_program.global_block().ops
                  if op.type in ('lookup_table', 'lookup_table_v2') and op.attr('is_sparse')}
        info = collections.OrderedDict()
        for var in self.origin_program._parameters_on_pservers.distributed_vars:
            if var.vtype == 'Optimizer':
                continue
            name = var.origin.name
            parts = info.setdefault(name, collections.OrderedDict(
                var_names=[], sections=[], epmap=[], is_sparse=[str(name in sparse)]))
            parts['var_names'].append(var.slice.name)
            parts['sections'].append(str(var.slice.shape[0]))
            parts['epmap'].append(var.endpoint)
        return info
