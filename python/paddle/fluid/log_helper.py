"""Loggers that write to stderr and leave the root logger alone."""
import logging

__all__ = ['get_logger']


def get_logger(name, level, fmt=None):
    """The logger of that name with this level; asked for again, it keeps its one handler."""
    logger = logging.getLogger(name)
    logger.setLevel(level)
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.StreamHandler())
    if fmt:
        logger.handlers[0].setFormatter(logging.Formatter(fmt=fmt, datefmt='%a %b %d %H:%M:%S'))
    return logger
