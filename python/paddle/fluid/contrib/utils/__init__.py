"""fluid.contrib.utils: files on HDFS, and the tables of parameter servers in local programs."""
from . import hdfs_utils, lookup_table_utils
from .hdfs_utils import *
from .lookup_table_utils import *

__all__ = hdfs_utils.__all__ + lookup_table_utils.__all__
