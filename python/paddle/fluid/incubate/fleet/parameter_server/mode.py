"""Names of the ways in which servers and trainers go on together."""


class DistributedMode:
    SYNC = 0
    ASYNC = 1
    HALF_ASYNC = 2
    GEO = 3


class PSMode:
    TRANSPILER = 1
    PSLIB = 2
