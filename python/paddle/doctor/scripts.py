"""Scripts: which names of the package they use, with which arguments, read off the syntax tree.

Imports are followed with their aliases, in order and whatever function they stand in; so are names that are set
to a module of the package (`layers = fluid.layers`), and names that hold what a class of the package makes
(`exe = fluid.Executor(place)`), as far as nothing else is ever put into them. Other objects are not followed.
"""
import ast
import inspect
import re

import _trireme as _C

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
    reader = _Reader(_changing_names(tree))
    reader.visit(tree)
    return sorted(set(reader.findings))


def _changing_names(tree):
    """Names that get values otherwise than by `name = value`: loops, with, unpacking, +=, global and the like."""
    simple = {id(target) for node in ast.walk(tree) if isinstance(node, ast.Assign) for target in node.targets}
    names = {node.id for node in ast.walk(tree)
             if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and id(node) not in simple}
    return names.union(*[node.names for node in ast.walk(tree) if isinstance(node, (ast.Global, ast.Nonlocal))])


def _made_by(thing):
    """The class of what a call gives: a class itself, or what a function of the engine says that it returns."""
    if inspect.isclass(thing) and thing.__module__.partition('.')[0] == _ROOT:
        return thing
    if inspect.isbuiltin(thing):
        returned = re.match(r'\w+\(.*\) -> paddle\.fluid\.core\.(\w+)$', (thing.__doc__ or '').partition('\n')[0])
        made = getattr(_C, returned[1], None) if returned else None
        return made if inspect.isclass(made) else None
    return None


def _may_have(cls, name):
    """Whether an object may have what its class has not: by __getattr__, or set by one of its methods."""
    if hasattr(cls, '__getattr__') or any(base.__module__.partition('.')[0] not in (_ROOT, 'builtins', 'pybind11_builtins')
                                          for base in cls.__mro__):
        return True
    methods = [inspect.unwrap(member) for base in cls.__mro__ for member in vars(base).values() if inspect.isroutine(member)]
    return any(name in method.__code__.co_names for method in methods if hasattr(method, '__code__'))


class _Reader(ast.NodeVisitor):
    def __init__(self, changing):
        self.findings = []
        self._aliases = {}  # a name in the script -> the dotted name that it stands for
        self._changing = changing
        self._made = {}  # a name in the script -> the class of the package that made what it holds

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

    def visit_FunctionDef(self, node):
        """Arguments hide what their names stand for outside, and names set inside are gone behind it."""
        outside = dict(self._made)
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                self._made.pop(argument.arg, None)
        self.generic_visit(node)
        self._made = outside

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def visit_Assign(self, node):
        self.generic_visit(node)
        full = self._dotted(node.value)
        made_by = self._class_of(node.value)
        for target in node.targets:
            if not isinstance(target, ast.Name):
                continue
            self._made.pop(target.id, None)
            if made_by and target.id not in self._changing:
                self._made[target.id] = made_by
            try:
                is_module = full is not None and inspect.ismodule(named(full))
            except Exception:  # said where it is read
                is_module = False
            if is_module:
                self._aliases[target.id] = full
            else:
                self._aliases.pop(target.id, None)

    def _class_of(self, node):
        """The class of the package whose object a call gives; None where that is not known."""
        full = self._dotted(node.func) if isinstance(node, ast.Call) else None
        try:
            thing = named(full) if full else None
        except Exception:  # said where it is read
            return None
        return _made_by(thing)

    def _member(self, node):
        """(class, name) of `exe.run` where exe holds an object of the package."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self._made:
            return self._made[node.value.id], node.attr
        return None

    def _check_member(self, node):
        """What a method stands for; one that the class does not have is a finding."""
        cls, name = self._member(node)
        if hasattr(cls, name):
            return getattr(cls, name)
        if not _may_have(cls, name):
            like = near(name, cls)
            self._found(node.lineno, 'missing', f'{cls.__name__}.{name}', f'{cls.__name__} has no {name}',
                        f'did you mean {like}?' if like else '')
        return None

    def visit_Attribute(self, node):
        full = self._dotted(node)
        if full is None and self._member(node) and isinstance(node.ctx, ast.Load):
            self._check_member(node)
        elif full is None:
            self.generic_visit(node)
        else:
            self._resolve(full, node.lineno)

    def visit_Call(self, node):
        full = self._dotted(node.func)
        thing = self._resolve(full, node.lineno) if full else None
        if thing is not None:
            self._check_arguments(full, thing, node)
            self.findings += advice.of_call(full, thing, node)
        elif full is None and self._member(node.func):
            method = self._check_member(node.func)
            if inspect.isroutine(method):
                self._check_arguments('.'.join([self._member(node.func)[0].__name__, node.func.attr]), method, node, 1)
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

    def _check_arguments(self, full, thing, node, bound=0):
        known = parameters(thing)
        if known and known[0] == 'self' and bound:
            known = known[1:]
        if known is None:
            return
        for keyword in node.keywords:
            if keyword.arg is not None and keyword.arg not in known:
                shown = ', '.join(name for name in known if not name.startswith('_'))
                self.findings.append(Finding(node.lineno, 'argument', f'{full}({keyword.arg})',
                                             f'{full} has no argument {keyword.arg}', f'it takes {shown}'))
        if len(node.args) > len(known) and not any(isinstance(argument, ast.Starred) for argument in node.args):
            self.findings.append(Finding(node.lineno, 'argument', full,
                                         f'{full} takes {len(known)} arguments, {len(node.args)} are given'))
