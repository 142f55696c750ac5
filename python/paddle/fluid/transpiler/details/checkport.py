"""Waiting until other processes accept connections."""
import _trireme as _C


def wait_server_ready(endpoints, timeout=_C.ready_limit_seconds):
    """Returns when every "ip:port" accepts a connection; after timeout seconds an error lists those
    that do not."""
    assert not isinstance(endpoints, str), 'endpoints must be a list of "ip:port", not a string'
    _C.wait_server_ready(list(endpoints), float(timeout))
