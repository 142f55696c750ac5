// Tables: kernels with their floors, strategies with what became of each, and two runs side by side.
'use strict';
function floorOf(run, bound) {
  const machine = run.machine;
  if (!machine || !bound || (bound.peers || []).length) return undefined;  // others answer when they can
  const speeds = machine.copies, speed = (speeds.find(([size]) => bound.bytes <= size) || speeds[speeds.length - 1])[1];
  return Math.max(bound.bytes / speed, (bound.flops || 0) / machine.flops) * 1e9;  // ns
}
// What an instruction took itself: without what its sub-block ran on the same thread.
function ownTimes(run) {
  const own = new Map(), stacks = new Map();
  const ops = eventsOf(run).filter(e => e.kind === KINDS.op).sort((p, q) => p.start - q.start || q.ns - p.ns);
  for (const event of ops) {
    own.set(event, event.ns);
    if (!stacks.has(event.thread)) stacks.set(event.thread, []);
    const stack = stacks.get(event.thread);
    while (stack.length && stack[stack.length - 1].start + stack[stack.length - 1].ns < event.start + event.ns) stack.pop();
    if (stack.length) own.set(stack[stack.length - 1], own.get(stack[stack.length - 1]) - event.ns);
    stack.push(event);
  }
  return own;
}
function kernelsOf(run) {
  const rows = new Map(), steps = Math.max(1, run.profile.steps), own = ownTimes(run);
  for (const event of eventsOf(run)) {
    if (event.kind !== KINDS.op && event.kind !== KINDS.wait) continue;
    const type = event.node ? event.node.type : event.name, kernel = event.bound ? event.bound.kernels.join(', ') : event.kind === KINDS.wait ? 'all replicas together' : '';
    const key = type + '\n' + kernel;
    if (!rows.has(key)) rows.set(key, {type, kernel, of: new Set(), calls: 0, ns: 0, bytes: 0, flops: 0, floor: 0, known: true});
    const row = rows.get(key), floor = floorOf(run, event.bound);
    row.of.add(event.name);
    row.calls++;
    row.ns += own.has(event) ? own.get(event) : event.ns;
    if (event.bound) { row.bytes += event.bound.bytes; row.flops += event.bound.flops || 0; }
    if (floor === undefined) row.known = false; else row.floor += floor;
  }
  for (const row of rows.values()) for (const name of ['calls', 'ns', 'bytes', 'flops', 'floor']) row[name] /= steps;
  return [...rows.values()].sort((p, q) => q.ns - p.ns);
}
// A table whose columns sort it: columns are [title, key, cell, class].
function sortedTable(id, columns, rows, by) {
  const body = el('tbody', {}), state = {by, down: true};
  const fill = () => {
    const sorted = [...rows].sort((p, q) => (p[state.by] > q[state.by] ? 1 : p[state.by] < q[state.by] ? -1 : 0) * (state.down ? -1 : 1));
    body.replaceChildren(...sorted.map(row => el('tr', {}, columns.map(([, , cell, kind]) => el('td', {class: kind}, cell(row))))));
  };
  fill();
  return el('table', {class: 'wide', id}, el('thead', {}, el('tr', {}, columns.map(([title, key, , kind]) => el('th', {class: kind, 'data-sort': key, onclick: () => {
    if (!key) return;
    state.down = state.by === key ? !state.down : true;
    state.by = key;
    fill();
  }}, title)))), body);
}
const card = (value, label) => el('div', {class: 'card'}, el('b', {}, value), el('span', {}, label));

function kernelsView(main) {
  const run = RUNS[page.run], rows = kernelsOf(run);
  if (!rows.length) return main.append(empty('No step was timed: there are no times to share out.'));
  const steps = eventsOf(run).filter(e => e.kind === KINDS.step), whole = steps.reduce((sum, e) => sum + e.ns, 0) / Math.max(1, steps.length) || rows.reduce((sum, row) => sum + row.ns, 0);
  const floor = rows.reduce((sum, row) => sum + (row.known ? row.floor : 0), 0), most = rows[0].ns;
  const columns = [
    ['operation', 'type', row => el('span', {}, el('b', {}, row.type), ...[...row.of].filter(name => name !== row.type).slice(0, 3).map(name => el('div', {class: 'of'}, el('span', {class: 'tag'}, 'of ' + name))))],
    ['kernel', 'kernel', row => row.kernel], ['a step', 'calls', row => +row.calls.toPrecision(3), 'number'],
    ['time', 'ns', row => timeText(row.ns), 'number'], ['share', 'ns', row => percent(row.ns / whole), 'number'],
    ['time and floor', null, row => el('div', {class: 'meter', title: 'dark: the floor'}, el('i', {style: `width:${100 * row.ns / most}%`}), row.known ? el('b', {style: `width:${100 * Math.min(row.ns, row.floor) / most}%`}) : null)],
    ['floor', 'floor', row => row.known ? timeText(row.floor) : '', 'number'],
    ['times the floor', 'over', row => row.known && row.floor ? (row.over = row.ns / row.floor).toFixed(1) : '', 'number'],
    ['touches', 'bytes', row => row.bytes ? bytesText(Math.round(row.bytes)) : '', 'number'], ['Gflop', 'flops', row => row.flops ? (row.flops / 1e9).toPrecision(3) : '', 'number']];
  rows.forEach(row => { row.over = row.known && row.floor ? row.ns / row.floor : 0; });
  const machine = run.machine;
  main.append(el('div', {class: 'scroll'}, el('div', {class: 'cards'}, card(timeText(whole), 'a step, mean of ' + steps.length), card(rows.length, 'kinds of kernels'),
    machine ? card(timeText(floor), 'floor of a step') : null, machine ? card((machine.flops / 1e9).toPrecision(3) + ' Gflop/s', 'products here at best') : null,
    machine ? card((machine.copies[machine.copies.length - 1][1] / 1e9).toPrecision(3) + ' GB/s', 'memory here at best') : null),
  el('p', {class: 'say'}, machine ? 'The floor of a kernel is what this machine needs at least: the bytes of its operands and results at the speed at which copies of that size ran here, or its multiplications and additions at the speed of a large matrix product here, whichever takes longer. Below one, operands stayed in a cache. A loop’s own time is without what its sub-block ran.' : ''),
  sortedTable('kernels', columns, rows, 'ns')));
  return {rows};
}

const USES = {honoured: 'good', 'always on': 'good', 'not needed': '', refused: 'bad'};
function strategiesView(main) {
  const given = RUNS[page.run].strategies;
  if (!given) return main.append(empty('The program ran without a CompiledProgram: every strategy has its default.'));
  const input = el('input', {type: 'search', id: 'knob', placeholder: 'find a knob'}), holder = el('div', {class: 'scroll'});
  const fill = () => {
    const wanted = input.value.toLowerCase();
    const table = (title, knobs) => [el('h3', {}, title), el('table', {class: 'wide'}, el('thead', {}, el('tr', {}, ['knob', 'value', 'what became of it', 'why'].map(head => el('th', {}, head)))),
      el('tbody', {}, knobs.filter(knob => (knob.name + knob.why).toLowerCase().includes(wanted)).map(knob => el('tr', {}, el('td', {}, el('b', {}, knob.name)), el('td', {class: 'mono'}, knob.value), el('td', {}, el('span', {class: 'tag ' + (USES[knob.use] || '')}, knob.use)), el('td', {}, knob.why)))))];
    holder.replaceChildren(el('div', {class: 'cards'}, card(given.devices, given.devices === 1 ? 'device' : 'devices'), card(given.data_parallel ? 'yes' : 'no', 'data parallel')), ...table('Build strategy', given.build), ...table('Execution strategy', given.execution));
  };
  input.addEventListener('input', fill);
  fill();
  main.append(el('div', {class: 'bar'}, input), holder);
}

function overviewRows(run) {
  const rows = [], frame = run.plan && run.plan.frames[0], steps = run.profile.steps, times = eventsOf(run).filter(e => e.kind === KINDS.step);
  rows.push(['process', run.process.name || 'pid ' + run.process.pid], ['machine', run.process.host + ', ' + run.process.threads + ' threads']);
  if (frame) rows.push(['place', frame.place + (run.plan.devices > 1 ? ', ' + run.plan.devices + ' of them' : '')], ['instructions', frame.instructions.length], ['arena', bytesText(frame.arena.bytes)], ['fetches', run.plan.fetches.join(', ')]);
  if (times.length) rows.push(['a step', timeText(times.reduce((sum, e) => sum + e.ns, 0) / times.length) + ' (mean of ' + steps + ')']);
  const parts = [el('h3', {}, 'The run'), factsTable(rows)];
  for (const [name, values] of Object.entries(run.curves || {})) parts.push(el('h3', {}, name), curve(values));
  return parts;
}
function curve(values) {
  const w = 320, h = 90, low = Math.min(...values), high = Math.max(...values), span = high - low || 1;
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg'), line = document.createElementNS('http://www.w3.org/2000/svg', 'polyline');
  svg.setAttribute('viewBox', `0 0 ${w} ${h}`);
  svg.setAttribute('class', 'curve');
  line.setAttribute('points', values.map((v, i) => `${(i / Math.max(1, values.length - 1) * (w - 8) + 4).toFixed(1)},${(h - 6 - (v - low) / span * (h - 12)).toFixed(1)}`).join(' '));
  line.setAttribute('fill', 'none');
  line.setAttribute('stroke', 'var(--accent)');
  line.setAttribute('stroke-width', '1.5');
  svg.append(line);
  return el('div', {}, svg, el('p', {}, values.length + ' steps, ' + values[0].toPrecision(4) + ' → ' + values[values.length - 1].toPrecision(4)));
}

// Two runs: what is new, gone or slower.
function differenceView(main) {
  const a = OTHER[0], b = RUNS[page.run], rows = new Map();
  const add = (run, side) => kernelsOf(run).forEach(row => {
    const key = row.type + '\n' + row.kernel;
    if (!rows.has(key)) rows.set(key, {type: row.type, kernel: row.kernel, before: 0, now: 0, callsBefore: 0, callsNow: 0});
    rows.get(key)[side === 0 ? 'before' : 'now'] = row.ns;
    rows.get(key)[side === 0 ? 'callsBefore' : 'callsNow'] = row.calls;
  });
  add(a, 0);
  add(b, 1);
  const list = [...rows.values()];
  list.forEach(row => { row.change = row.now - row.before; row.size = Math.abs(row.change); });
  const arenaOf = run => run.plan && run.plan.frames[0] ? run.plan.frames[0].arena.planned : 0;
  const stepOf = run => { const s = eventsOf(run).filter(e => e.kind === KINDS.step); return s.length ? s.reduce((n, e) => n + e.ns, 0) / s.length : 0; };
  const opsOf = run => run.program.blocks.reduce((n, block) => n + block.ops.length, 0);
  const counts = run => { const n = new Map(); run.program.blocks.forEach(block => block.ops.forEach(op => n.set(op.type, (n.get(op.type) || 0) + 1))); return n; };
  const facts = [['a step', timeText(stepOf(a)), timeText(stepOf(b))], ['ops', opsOf(a), opsOf(b)], ['arena', bytesText(arenaOf(a)), bytesText(arenaOf(b))],
    ['instructions', a.plan ? a.plan.frames[0]?.instructions.length : '', b.plan ? b.plan.frames[0]?.instructions.length : '']];
  const ca = counts(a), cb = counts(b), ops = [...new Set([...ca.keys(), ...cb.keys()])].filter(type => (ca.get(type) || 0) !== (cb.get(type) || 0)).sort();
  const knobs = run => new Map((run.strategies ? [...run.strategies.build, ...run.strategies.execution] : []).map(knob => [knob.name, knob.value]));
  const ka = knobs(a), kb = knobs(b), changed = [...new Set([...ka.keys(), ...kb.keys()])].filter(name => ka.get(name) !== kb.get(name));
  const steps = run => new Map((run.passes ? run.passes.steps : []).map(step => [step.name, step.nodes]));
  const sa = steps(a), sb = steps(b), passes = [...new Set([...sa.keys(), ...sb.keys()])].filter(name => sa.get(name) !== sb.get(name));
  const three = (title, rows) => rows.length ? [el('h3', {}, title), el('table', {class: 'wide'}, el('thead', {}, el('tr', {}, el('th', {}, ''), el('th', {class: 'number'}, 'before'), el('th', {class: 'number'}, 'now'))),
    el('tbody', {}, rows.map(([name, x, y]) => el('tr', {}, el('td', {}, name), el('td', {class: 'number'}, x ?? '–'), el('td', {class: 'number'}, y ?? '–')))))] : [];
  main.append(el('div', {class: 'scroll', id: 'difference'}, ...three('Run', facts), ...three('Ops of the program', ops.map(type => [type, ca.get(type), cb.get(type)])),
    ...three('Nodes after passes', passes.map(name => [name, sa.get(name), sb.get(name)])), ...three('Strategies', changed.map(name => [name, ka.get(name), kb.get(name)])),
    el('h3', {}, 'Kernels'), list.length ? sortedTable('changes', [['operation', 'type', row => el('b', {}, row.type)], ['kernel', 'kernel', row => row.kernel], ['before', 'before', row => row.before ? timeText(row.before) : '–', 'number'],
      ['now', 'now', row => row.now ? timeText(row.now) : '–', 'number'], ['change', 'size', row => el('span', {class: 'tag ' + (row.change > 0 ? 'bad' : 'good')}, (row.change > 0 ? '+' : '−') + timeText(row.size)), 'number'],
      ['calls', 'callsNow', row => +row.callsBefore.toPrecision(3) + ' → ' + +row.callsNow.toPrecision(3), 'number']], list, 'size') : el('p', {}, 'No times were taken in either.')));
}
