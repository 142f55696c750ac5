// The pipeline, step by step: what stood there before, and what the pass made of it.
'use strict';
function passesView(main) {
  const run = RUNS[page.run], passes = run.passes;
  if (!passes) return main.append(empty('This program was not compiled by itself: a server runs the parts of it that it gets asked for.'));
  const list = el('div', {class: 'side left steps', id: 'steps'}), body = el('div', {class: 'scroll', id: 'pair'});
  main.append(el('div', {class: 'split'}, list, body));
  const state = {step: 0};
  const buttons = passes.steps.map((step, i) => {
    const before = i ? passes.steps[i - 1].nodes : step.nodes, same = i > 0 && !step.graphs.length;
    const made = el('button', {class: same ? 'same' : '', onclick: () => show(i)}, step.name,
      el('small', {}, i === 0 ? step.nodes + ' nodes' : same ? 'changed nothing' : before + ' → ' + step.nodes + ' nodes', step.ms >= 0.01 ? ', ' + timeText(step.ms * 1e6) : ''));
    list.append(made);
    return made;
  });
  if (run.plan.off.length) list.append(el('p', {class: 'say'}, 'off: ' + run.plan.off.join(', ')));
  const depthOf = graph => { let n = 0; for (let at = graph; passes.graphs[at].around >= 0; at = passes.graphs[at].around) n++; return n; };
  function textOf(id) {
    const node = passes.nodes[id], name = v => v < 0 ? '_' : valueName(passes, node.graph, v);
    const made = el('span', {class: 'mono'}, ' '.repeat(2 * depthOf(node.graph)), node.outs.length ? node.outs.map(name).join(', ') + ' = ' : '',
      el('b', {}, node.type), '(' + node.ins.map(name).join(', ') + ')');
    const marks = [];
    if (node.parts) marks.push(node.parts.map(part => part[0].replace(/^p\./, '')).join(' → '));
    if (node.members) marks.push(node.members.length + ' as one');
    if (node.relu) marks.push('with relu');
    if (node.blocked) marks.push('channels in blocks');
    if (node.device) marks.push('on the device');
    if (node.by_first) marks.push('by the first replica');
    const from = [node.of && node.of !== node.type ? 'of ' + node.of : '', node.line === undefined ? '' : lineText(run, node.line)].filter(Boolean).join(', ');
    return el('div', {}, made, marks.map(mark => el('span', {class: 'tag'}, mark)), from ? el('span', {class: 'of'}, '  ' + from) : null);
  }
  const flat = step => { const orders = ordersAfter(passes, step); return flattened(passes, orders); };
  // Nodes that stay stand side by side; what went and what came between them, too.
  function pairs(before, after) {
    const stays = new Set(after), came = new Set(before), rows = [];
    let a = 0, b = 0;
    while (a < before.length || b < after.length) {
      const gone = [], fresh = [];
      while (a < before.length && !stays.has(before[a])) gone.push(before[a++]);
      while (b < after.length && !came.has(after[b])) fresh.push(after[b++]);
      for (let i = 0; i < Math.max(gone.length, fresh.length); i++) rows.push([gone[i], fresh[i]]);
      if (a < before.length && b < after.length) {
        if (before[a] === after[b]) { rows.push([before[a], after[b], true]); a++; b++; }
        else { stays.delete(before[a]); came.delete(before[a]); }  // it moved: here it goes, elsewhere it comes
      } else if (a < before.length) stays.delete(before[a]);
      else if (b < after.length) came.delete(after[b]);
    }
    return rows;
  }
  function show(index) {
    state.step = index;
    buttons.forEach((button, i) => button.setAttribute('aria-pressed', i === index));
    buttons[index].scrollIntoView({block: 'nearest'});
    const after = flat(index), first = index === 0;
    const rows = first ? after.map(id => [id, id, true]) : pairs(flat(index - 1), after);
    const near = new Uint8Array(rows.length), changed = rows.flatMap((row, i) => row[2] ? [] : [i]);
    for (const i of changed) for (let j = Math.max(0, i - 2); j <= Math.min(rows.length - 1, i + 2); j++) near[j] = 1;
    if (!changed.length) near.fill(1);
    const grid = el('div', {class: 'pair'}, el('div', {class: 'head'}, first ? 'the program, lowered' : 'before ' + passes.steps[index].name), el('div', {class: 'head'}, first ? '' : 'after'));
    let skipped = 0, written = 0;
    const MOST = 1500;
    const skip = () => { if (skipped) grid.append(el('div', {class: 'skip'}, '… ' + skipped + ' unchanged …')); skipped = 0; };
    rows.forEach(([left, right, same], i) => {
      if (!near[i] || written > MOST) { skipped++; return; }
      skip();
      written++;
      const l = left === undefined ? el('div', {}) : textOf(left), r = right === undefined || (first && same) ? el('div', {}) : textOf(right);
      if (!same && left !== undefined) l.classList.add('gone');
      if (!same && right !== undefined) r.classList.add('new');
      grid.append(l, r);
    });
    skip();
    body.replaceChildren(changed.length || first ? '' : el('p', {class: 'say'}, 'This pass found nothing to change.'), grid);
    body.scrollTop = 0;
    state.changed = changed.length;
  }
  const keys = event => {
    if (page.tab !== 'passes' || event.target.matches('input, select')) return;
    const to = state.step + (event.key === 'ArrowDown' || event.key === 'ArrowRight' ? 1 : event.key === 'ArrowUp' || event.key === 'ArrowLeft' ? -1 : 0);
    if (to !== state.step && to >= 0 && to < buttons.length) { event.preventDefault(); show(to); }
  };
  document.addEventListener('keydown', keys);
  show(Math.max(0, passes.steps.findIndex((step, i) => i > 0 && step.graphs.length)));
  return {state, show, leave: () => document.removeEventListener('keydown', keys)};
}
// All nodes of all graphs, inner ones behind the node they belong to.
function flattened(passes, orders) {
  const innerOf = new Map();
  passes.graphs.forEach(graph => graph.nodes.forEach(([node, number]) => innerOf.set(node, (innerOf.get(node) || []).concat(number))));
  const out = [];
  const walk = graph => orders[graph].forEach(id => { out.push(id); (innerOf.get(id) || []).forEach(walk); });
  walk(0);
  return out;
}
