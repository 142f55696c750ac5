"""The role makers of fluid.incubate.fleet, under their later name."""
from paddle.fluid.incubate.fleet.base.role_maker import (PaddleCloudRoleMaker, Role, RoleMakerBase,
                                                         UserDefinedCollectiveRoleMaker)
from paddle.fluid.incubate.fleet.base.role_maker import UserDefinedRoleMaker as _OfServers

__all__ = ['Role', 'RoleMakerBase', 'PaddleCloudRoleMaker', 'UserDefinedRoleMaker']


def UserDefinedRoleMaker(is_collective=False, current_id=0, role=Role.WORKER, worker_num=None,
                         server_endpoints=None, worker_endpoints=None, **kwargs):
    """A role as the program itself says.

    Args:
        is_collective: ranks, not trainers and servers
        current_id: this process's number among those of its role
        role: Role.WORKER or Role.SERVER
        worker_num: how many workers there are
        server_endpoints: addresses of the servers
        worker_endpoints: addresses of the workers
    """
    if kwargs:
        raise TypeError(f'UserDefinedRoleMaker does not know {sorted(kwargs)}')
    if is_collective:
        return UserDefinedCollectiveRoleMaker(current_id, worker_endpoints)
    return _OfServers(current_id, role, worker_num or len(worker_endpoints or []), server_endpoints)
