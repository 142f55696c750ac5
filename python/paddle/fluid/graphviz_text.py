"""Blocks of programs in the language of graphviz: ops as boxes, variables between them."""


def _quoted(text):
    return '"' + str(text).replace('\\', '\\\\').replace('"', '\\"') + '"'


def block_text(block, highlights=()):
    """A digraph. What `highlights` names (variables or ops) is filled in yellow; parameters are bold."""
    head = ['digraph {', '  rankdir=TB;', '  node [fontname="Helvetica"];']
    return '\n'.join(head + block_lines(block, highlights) + ['}']) + '\n'


def block_lines(block, highlights=(), prefix=''):
    """The nodes and edges of a block; prefix begins the names of its nodes."""
    lines, known = [], {}

    def variable(name):
        if name not in known:
            known[name] = f'{prefix}var_{len(known)}'
            var = block._find_var_recursive(name)
            label = name if var is None or not var._has_shape else f'{name}\n{list(var.shape)}'
            style = ['filled'] * (name in highlights) + ['bold'] * (var is not None and var.is_parameter)
            lines.append(f'  {known[name]} [label={_quoted(label)}, shape=ellipse, style="{",".join(style)}"'
                         + (', fillcolor=yellow' if name in highlights else '') + '];')
        return known[name]

    for number, op in enumerate(block.ops):
        bright = op.type in highlights
        lines.append(f'  {prefix}op_{number} [label={_quoted(op.type)}, shape=box, style="{"filled" if bright else ""}"'
                     + (', fillcolor=yellow' if bright else '') + '];')
        for slot in op.input_names:
            lines += [f'  {variable(name)} -> {prefix}op_{number} [label={_quoted(slot)}];' for name in op.input(slot)]
        for slot in op.output_names:
            lines += [f'  {prefix}op_{number} -> {variable(name)} [label={_quoted(slot)}];' for name in op.output(slot)]
    return lines
