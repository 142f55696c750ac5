"""The certificate as a page: a table that needs nothing but itself."""
import html
import os

from ..viewer.pages import _read

_TAGS = {'equal bits': 'good', 'within the bound': 'accent', 'differs': 'bad', 'not run': ''}


def _largest(entry):
    if entry.get('largest'):
        return f'{entry["largest"]:.2g}'
    return '0' if entry['equal'] == entry['compared'] else 'rounding'


def _row(entry):
    shown = [entry['name'], f'<span class="tag {_TAGS[entry["verdict"]]}">{entry["verdict"]}</span>']
    counted = f'{entry["equal"]} of {entry["compared"]}' if 'compared' in entry else ''
    largest = _largest(entry) if counted else ''
    where = html.escape(entry['variable']) if entry.get('largest') else ''
    first = entry.get('first')
    said = html.escape(entry['why'])
    if first:
        line = f', asked for at {first["line"]}' if 'line' in first else ''
        said += '<br><b>' + html.escape(f'{first["op"]} is the first op that differs, by {first["difference"]:.2g} in '
                                        f'{first["differs"]}{line}') + '</b>'
    if 'left_out' in entry:
        said += f'<br>{entry["left_out"]} numbers of parameters are left out: their gradients are nothing but rounding'
    shown[0] = f'<b>{html.escape(shown[0])}</b>'
    bound = '' if entry['verdict'] == 'not run' else 'equal bits' if entry['bound'] == 0 else f'{entry["bound"]:g}'
    cells = shown + [f'<span>{counted}</span>', largest, where, bound, said]
    kinds = ['', '', 'number', 'number', 'mono', 'number', '']
    return '<tr>' + ''.join(f'<td class="{kind}">{cell}</td>' for kind, cell in zip(kinds, cells)) + '</tr>'


def write_page(path, certificate):
    heads = ['comparison', 'verdict', 'equal', 'largest difference', 'in', 'bound', 'why']
    verdict = {'the same': 'The same in every way it was run', 'differs': 'Something differs',
               'not run': 'Nothing could be compared'}[certificate['verdict']]
    rows = ''.join(map(_row, certificate['comparisons']))
    title = html.escape(certificate['of'])
    ran = [entry for entry in certificate['comparisons'] if entry['verdict'] != 'not run']
    equal = sum(entry['verdict'] == 'equal bits' for entry in ran)
    text = f'''<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><title>Certificate of {title}</title><style>{_read("page.css")}</style>
<script>document.documentElement.dataset.theme = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'</script></head>
<body><header><div class="brand"><b>Trireme</b></div><div id="title">certificate of {title}</div></header>
<div class="scroll"><div class="cards">
<div class="card"><b>{verdict}</b><span>one step of {certificate["ops"]} ops{", with its gradients and update" if certificate["trains"] else ""}</span></div>
<div class="card"><b>{equal} of {len(ran)}</b><span>comparisons with equal bits</span></div></div>
<p class="say">Every result of every op, and every variable that the step leaves, is held against that of another run. Differences are
shares of the largest number of their variable; what differs by less than 1e-7 of one counts as rounding.</p>
<table class="wide"><thead><tr>{"".join(f"<th>{head}</th>" for head in heads)}</tr></thead><tbody>{rows}</tbody></table>
</div></body></html>
'''
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def text_of(certificate):
    lines = [f'certificate of {certificate["of"]}: {certificate["ops"]} ops']
    width = max(len(entry['name']) for entry in certificate['comparisons'])
    for entry in certificate['comparisons']:
        said = entry['why'] if entry['verdict'] == 'not run' else f'{entry["equal"]} of {entry["compared"]} equal'
        if entry.get('largest'):
            said += f', largest difference {entry["largest"]:.2g} in {entry["variable"]}'
        if 'left_out' in entry:
            said += f', {entry["left_out"]} numbers left out as rounding'
        if 'first' in entry:
            first = entry['first']
            said += f'; first {first["op"]} at {first.get("line", "an unknown line")}'
        lines.append(f'  {entry["name"]:{width}}  {entry["verdict"]:16}  {said}')
    return '\n'.join(lines + [f'verdict: {certificate["verdict"]}'])


def default_path(path):
    return os.path.splitext(os.path.basename(os.path.normpath(path)))[0] + '.certificate.html'
