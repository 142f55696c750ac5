"""Which table of a program parameter servers keep: the one of its lookups with is_distributed."""

__all__ = ['find_distributed_lookup_table', 'find_distributed_lookup_table_inputs',
           'find_distributed_lookup_table_outputs']

LOOKUP_TABLE_TYPE = 'lookup_table'
_TYPES = (LOOKUP_TABLE_TYPE, 'lookup_table_v2')


def _lookups(program, table_name):
    return [op for op in program.global_block().ops if op.type in _TYPES and op.input('W')[0] == table_name]


def find_distributed_lookup_table(program):
    """Its name; None when there is none. Several are an error."""
    tables = {op.input('W')[0]: None for op in program.global_block().ops
              if op.type in _TYPES and op.has_attr('is_distributed') and op.attr('is_distributed')}
    if len(tables) > 1:
        raise RuntimeError(f'a program has one distributed table at most, this one has {", ".join(tables)}')
    table = next(iter(tables), None)
    for op in _lookups(program, table) if table else ():
        if not op.attr('is_distributed'):
            raise RuntimeError(f'{table} is looked up with is_distributed and without: give all lookups the same')
    return table


def _variables(program, table_name, names):
    return [program.global_block().var(name) for op in _lookups(program, table_name) for name in names(op)]


def find_distributed_lookup_table_inputs(program, table_name):
    """The ids that are looked up in it."""
    return _variables(program, table_name, lambda op: op.input('Ids'))


def find_distributed_lookup_table_outputs(program, table_name):
    """The rows that come out of it."""
    return _variables(program, table_name, lambda op: op.output('Out'))
