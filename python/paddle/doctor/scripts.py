"""Scripts: which names of the package they use, with which arguments, read off the syntax tree.

Imports are followed with their aliases, in order and whatever function they stand in; so are names that are set
to a module of the package (`layers = fluid.layers`). What a script does with its own objects is not followed.
"""
import ast
import inspect

from . import advice
from .findings import Finding
from .names import is_of_use, named, near, parameters, what_it_raises

_ROOT = 'paddle'


def check_script(source, path='<script>'):
    """The findings in the text of a script, by line."""
    try:
        tree = ast.parse(source, path)
    except SyntaxError as error:
        return [Finding(error.lineno or 0, 'syntax', '', f'is not Python 3: {error.msg}',
                        'Trireme runs on Python 3: 2to3 or six rewrites scripts for Python 2')]
    reader = _Reader()
    reader.visit(tree)
    return sorted(set(reader.findings))


class _Reader(ast.NodeVisitor):
    def __init__(self):
        self.findings = []
        self._aliases = {}  # a name in the script -> the dotted name that it stands for

    def visit_Import(self, node):
        for item in node.names:
            if item.name.split('.')[0] != _ROOT:
                self._aliases.pop(item.asname or item.name.split('.')[0], None)
                continue
            self._resolve(item.name, node.lineno)
            self._aliases[item.asname or _ROOT] = item.name if item.asname else _ROOT

    def visit_ImportFrom(self, node):
        if node.level or not node.module or node.module.split('.')[0] != _ROOT:
            return
        for item in node.names:
            if item.name == '*':
                module = self._resolve(node.module, node.lineno)
                for name in getattr(module, '__all__', None) or dir(module) if module else ():
                    self._aliases[name] = f'{node.module}.{name}'
                continue
            full = f'{node.module}.{item.name}'
            self._resolve(full, node.lineno, imported=True)
            self._aliases[item.asname or item.name] = full

    def visit_Assign(self, node):
        self.generic_visit(node)
        full = self._dotted(node.value)
        for target in node.targets:
            if not isinstance(target, ast.Name):
                continue
            try:
                is_module = full is not None and inspect.ismodule(named(full))
            except Exception:  # said where it is read
                is_module = False
            if is_module:
                self._aliases[target.id] = full
            else:
                self._aliases.pop(target.id, None)

    def visit_Attribute(self, node):
        full = self._dotted(node)
        if full is None:
            self.generic_visit(node)
        else:
            self._resolve(full, node.lineno)

    def visit_Call(self, node):
        full = self._dotted(node.func)
        thing = self._resolve(full, node.lineno) if full else None
        if thing is not None:
            self._check_arguments(full, thing, node)
            self.findings += advice.of_call(full, thing, node)
        elif full is None:
            self.visit(node.func)
        for part in [*node.args, *[keyword.value for keyword in node.keywords]]:
            self.visit(part)

    def _dotted(self, node):
        """The package's name that an expression stands for; None where it is no such thing."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._aliases:
            return None
        return '.'.join([self._aliases[node.id], *reversed(parts)])

    def _resolve(self, full, line, imported=False):
        """The thing, when it is there and of use; what it is not is a finding. Importing what raises is no use of it."""
        try:
            thing = named(full)
        except NotImplementedError as error:
            self._found(line, 'refused', full, str(error))
        except (AttributeError, ImportError):
            self._missing(full, line)
        except RuntimeError:
            return None  # it is there, once something else was called
        else:
            if imported or is_of_use(thing):
                return thing
            self._found(line, 'refused', full, what_it_raises(thing) or f'{full} is not built')
        return None

    def _missing(self, full, line):
        """Says which part of a dotted name is not there, and what is like it."""
        parts = full.split('.')
        for i in range(1, len(parts)):
            try:
                around = named('.'.join(parts[:i]))
                named('.'.join(parts[:i + 1]))
            except Exception:
                break
        name = '.'.join(parts[:i + 1])
        like = near(parts[i], around)
        self._found(line, 'missing', name, f'{name} is not there', f'did you mean {like}?' if like else '')

    def _found(self, line, kind, name, text, way_out=''):
        self.findings.append(Finding(line, kind, name, text, advice.for_name(name) or way_out))

    def _check_arguments(self, full, thing, node):
        known = parameters(thing)
        if known is None or any(keyword.arg is None for keyword in node.keywords) or \
                any(isinstance(argument, ast.Starred) for argument in node.args):
            return
        for keyword in node.keywords:
            if keyword.arg not in known:
                shown = ', '.join(name for name in known if not name.startswith('_'))
                self.findings.append(Finding(node.lineno, 'argument', f'{full}({keyword.arg})',
                                             f'{full} has no argument {keyword.arg}', f'it takes {shown}'))
        if len(node.args) > len(known):
            self.findings.append(Finding(node.lineno, 'argument', full,
                                         f'{full} takes {len(known)} arguments, {len(node.args)} are given'))
