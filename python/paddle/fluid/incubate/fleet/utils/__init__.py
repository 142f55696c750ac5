"""Helpers of programs that save to HDFS: not here."""
from paddle.fluid.compiler import not_built

HDFSClient = not_built('fleet.utils.HDFSClient', 'save to local disks, and copy with hadoop fs')
