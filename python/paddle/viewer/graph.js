// The graph: folds, pans, zooms, finds, and says everything of the op that is chosen.
'use strict';
function graphView(main) {
  const run = RUNS[page.run];
  if (!run.program.blocks.length || !run.program.blocks[0].ops.length) return main.append(empty('The program has no ops.'));
  const state = {scale: 1, x: 20, y: 20, chosen: null, hits: [], hit: -1, stage: null, tree: null, laid: null};
  const search = el('input', {type: 'search', id: 'search', placeholder: 'find: an op, variable or line'});
  const say = el('span', {class: 'say', id: 'found'});
  const source = el('select', {id: 'source', title: 'which graph'}, el('option', {value: -1}, 'the program as written'),
    run.passes ? run.passes.steps.map((step, i) => el('option', {value: i}, (i ? 'after: ' : '') + step.name)) : []);
  const stage = el('div', {class: 'stage', id: 'graph'});
  const side = el('aside', {class: 'side', id: 'details'});
  main.append(el('div', {class: 'bar'}, source, search, say, el('span', {class: 'space'}),
    el('button', {id: 'fold', onclick: () => foldAll(false)}, 'fold all'), el('button', {id: 'unfold', onclick: () => foldAll(true)}, 'unfold all'),
    el('button', {id: 'fit', onclick: () => { fit(); paint.redraw(); }}, 'fit')),
  el('div', {class: 'split'}, stage, side));
  const paint = canvasIn(stage, draw);

  function load(step) {
    state.tree = treeOf(step < 0 ? opsOfProgram(run) : opsOfStep(run, step));
    state.chosen = null;
    state.hits = [];
    foldAtFirst(state.tree);
    relay();
    start();
    overview();
  }
  function relay() {
    state.laid = layOut(state.tree);
    paint.redraw();
  }
  function start() {
    state.scale = Math.min(1, Math.max(0.4, (stage.clientWidth - 40) / state.laid.width));
    state.x = Math.max(20, (stage.clientWidth - state.laid.width * state.scale) / 2);
    state.y = 20;
  }
  function fit() {
    const laid = state.laid;
    state.scale = Math.min(1.5, (stage.clientWidth - 40) / laid.width, (stage.clientHeight - 40) / laid.height);
    state.x = (stage.clientWidth - laid.width * state.scale) / 2;
    state.y = (stage.clientHeight - laid.height * state.scale) / 2;
  }
  function foldAll(open) {
    for (const group of state.tree.groups) if (group.kind !== 'root') group.open = open;
    relay();
    start();
  }
  function toggle(group) {
    const before = [group.ax, group.ay];
    group.open = !group.open;
    state.laid = layOut(state.tree);
    // What was clicked stays where it is.
    state.x += (before[0] - group.ax) * state.scale;
    state.y += (before[1] - group.ay) * state.scale;
    paint.redraw();
  }

  const labelOf = item => item.kind === 'role' ? item.name : item.kind === 'scope' ? item.name + '/' : item.kind === 'line' ? ((run.lines[item.line] || {}).text || '').trim() || lineText(run, item.line) : item.name;
  const opsText = n => n + (n === 1 ? ' op' : ' ops');
  function subOf(item) {
    if (item.children && item.kind !== 'block') return opsText(item.count) + (item.kind === 'line' ? ', ' + lineText(run, item.line) : '');
    if (item.kind === 'block') return opsText(item.count) + ' inside';
    return item.op.outs[0] || '';
  }
  function leafColour(item) {
    if (item.op) return colourOf(item.op.type);
    let at = item;
    while (at.children) at = at.children[0];
    return colourOf(at.op.type);
  }

  function draw(context, width, height) {
    const {laid, scale} = state;
    const view = {x0: -state.x / scale, y0: -state.y / scale, x1: (width - state.x) / scale, y1: (height - state.y) / scale};
    const inView = b => b.ax < view.x1 && b.ax + b.w > view.x0 && b.ay < view.y1 && b.ay + b.h > view.y0;
    context.translate(state.x, state.y);
    context.scale(scale, scale);
    context.textBaseline = 'middle';
    for (const frame of laid.frames) {
      if (!inView(frame)) continue;
      context.fillStyle = palette.group;
      context.strokeStyle = frame === state.chosen ? palette.accent : palette.line;
      context.lineWidth = frame.kind === 'block' ? 2 : 1;
      context.beginPath();
      context.roundRect(frame.ax, frame.ay, frame.w, frame.h, 8);
      context.fill();
      context.stroke();
      if (scale < 0.25 && frame.kind !== 'role') continue;
      const big = frame.kind === 'role' ? Math.max(13, Math.min(60, 11 / scale)) : 12;
      context.fillStyle = palette.soft;
      context.font = fontOf(big, 600);
      context.fillText('▾ ' + cutText(context, labelOf(frame), Math.max(30, frame.w - 60)), frame.ax + 10, frame.ay + 15);
    }
    drawEdges(context, view, scale);
    let shown = 0;
    for (const item of laid.leaves) {
      if (!inView(item)) continue;
      shown++;
      drawLeaf(context, item, scale);
    }
    state.shown = shown;
  }
  function drawEdges(context, view, scale) {
    const long = 900;
    for (const edge of state.laid.edges) {
      const {from: a, to: b, aside, x0, y0, x1, y1} = edge;
      if (Math.max(x0, x1) < view.x0 || Math.min(x0, x1) > view.x1 || Math.max(y0, y1) < view.y0 || Math.min(y0, y1) > view.y1) continue;
      const marked = state.chosen && (a === state.chosen || b === state.chosen);
      // A line that only passes through says nothing, and there may be thousands.
      const begins = x0 > view.x0 && x0 < view.x1 && y0 > view.y0 && y0 < view.y1, ends = x1 > view.x0 && x1 < view.x1 && y1 > view.y0 && y1 < view.y1;
      if (!marked && !begins && !ends) continue;
      context.strokeStyle = marked ? palette.accent : palette.edge;
      context.lineWidth = marked ? 2 : 1;
      context.globalAlpha = marked ? 1 : aside || Math.abs(y1 - y0) > long ? 0.22 : 0.75;
      context.beginPath();
      context.moveTo(x0, y0);
      if (scale < 0.12) context.lineTo(x1, y1);
      else if (aside) context.bezierCurveTo(x0 + 60, y0, x1 - 60, y1, x1, y1);
      else {
        const bend = Math.max(12, Math.min(60, Math.abs(y1 - y0) / 2));
        context.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1);
      }
      context.stroke();
      if (scale > 0.3 && !aside) {
        context.fillStyle = context.strokeStyle;
        context.beginPath();
        context.moveTo(x1, y1);
        context.lineTo(x1 - 3.5, y1 - 6);
        context.lineTo(x1 + 3.5, y1 - 6);
        context.fill();
      }
    }
    context.globalAlpha = 1;
  }
  function drawLeaf(context, item, scale) {
    const chosen = item === state.chosen, hit = state.marks && state.marks.has(item);
    context.fillStyle = hit ? palette['accent-back'] : palette.node;
    context.strokeStyle = chosen || hit ? palette.accent : palette.line;
    context.lineWidth = chosen ? 2.5 : 1;
    context.beginPath();
    if (scale < 0.12) context.rect(item.ax, item.ay, item.w, item.h);
    else context.roundRect(item.ax, item.ay, item.w, item.h, 6);
    context.fill();
    context.stroke();
    context.fillStyle = leafColour(item);
    if (scale < 0.12) {
      context.fillRect(item.ax, item.ay, item.w, item.h);
      return;
    }
    context.beginPath();
    context.roundRect(item.ax, item.ay, 5, item.h, [6, 0, 0, 6]);
    context.fill();
    if (item.children) {  // folded: a second edge behind it
      context.strokeStyle = palette.line;
      context.strokeRect(item.ax + 5, item.ay + item.h, item.w - 10, 3);
    }
    if (scale < 0.3) return;
    const room = item.w - 24;
    context.fillStyle = palette.text;
    context.font = fontOf(13, 600);
    context.fillText(cutText(context, (item.children ? '▸ ' : '') + labelOf(item), room), item.ax + 14, item.ay + 15);
    if (scale < 0.5) return;
    context.fillStyle = palette.soft;
    context.font = fontOf(11);
    context.fillText(cutText(context, subOf(item), room), item.ax + 14, item.ay + 31);
  }

  function at(event) {
    const box = paint.canvas.getBoundingClientRect();
    const x = (event.clientX - box.left - state.x) / state.scale, y = (event.clientY - box.top - state.y) / state.scale;
    const inside = b => x >= b.ax && x < b.ax + b.w && y >= b.ay && y < b.ay + b.h;
    return state.laid.leaves.find(inside) || state.laid.frames.filter(f => inside(f) && y < f.ay + BOX.head).pop() || null;
  }
  function choose(item) {
    state.chosen = item;
    if (!item) overview(); else if (item.op) details(item); else groupDetails(item);
    paint.redraw();
  }
  function centre(item) {
    for (let up = item.parent; up; up = up.parent) up.open = true;
    state.laid = layOut(state.tree);
    state.scale = Math.max(0.7, state.scale);
    state.x = stage.clientWidth / 2 - (item.ax + item.w / 2) * state.scale;
    state.y = stage.clientHeight / 2 - (item.ay + Math.min(item.h, 60) / 2) * state.scale;
    choose(item);
  }
  const goTo = (number, text) => el('a', {class: 'go', onclick: () => centre(state.tree.items[number])}, text);
  function producerOf(op, name) {
    const {edges, ops} = state.tree;
    for (let e = 0; e < edges.length; e += 2) {
      if (edges[e + 1] === op.number && ops[edges[e]].outs.includes(name)) return edges[e];
    }
    return -1;
  }
  function varsOf(op) {
    const found = {};
    for (let b = op.block; b !== undefined && b >= 0; b = run.program.blocks[b].parent) {
      for (const each of run.program.blocks[b].vars) found[each.name] = found[each.name] || each;
    }
    return found;
  }
  function details(item) {
    const op = item.op, parts = [el('h2', {}, op.type)];
    const line = run.lines[op.line];
    parts.push(el('p', {}, ROLES[roleOf(op.role)] + (op.scope !== '/' ? ' in ' + op.scope : '')));
    if (line) parts.push(el('p', {}, line.file + ':' + line.line + (line.function ? ' in ' + line.function : '')), line.text ? el('pre', {class: 'mono'}, line.text.trim()) : null);
    if (op.source) {
      const vars = varsOf(op);
      const slots = (title, given) => {
        const rows = Object.entries(given).flatMap(([slot, names]) => names.map(name => {
          const known = vars[name], from = title === 'Inputs' ? producerOf(op, name) : -1;
          return el('tr', {}, el('td', {}, slot), el('td', {}, from >= 0 ? goTo(from, name) : name,
            known && known.shape ? el('div', {class: 'of'}, el('span', {class: 'tag'}, known.dtype + ' ' + shapeText(known.shape)), known.parameter ? el('span', {class: 'tag accent'}, 'parameter') : null) : null));
        }));
        if (rows.length) parts.push(el('h3', {}, title), el('table', {}, rows));
      };
      slots('Inputs', op.source.inputs);
      slots('Outputs', op.source.outputs);
      const attrs = Object.entries(op.source.attrs).filter(([name]) => !/^op_/.test(name));
      if (attrs.length) parts.push(el('h3', {}, 'Attributes'), el('table', {}, attrs.map(([name, value]) => el('tr', {}, el('td', {}, name), el('td', {class: 'mono'}, value)))));
      const became = run.plan ? becameOf(run, op.block, op.index) : [];
      if (became.length) {
        parts.push(el('h3', {}, 'In the plan'), el('table', {}, became.map(each => el('tr', {}, el('td', {}, '#' + each.index),
          el('td', {}, each.type, el('div', {class: 'of'}, each.kernels.map(k => el('span', {class: 'tag'}, k)), each.ns ? ' ' + timeText(each.ns) : ''))))));
      } else if (run.plan) {
        parts.push(el('h3', {}, 'In the plan'), el('p', {}, 'No instruction of its own: a pass joined it with others, or nobody sees what it computes.'));
      }
    } else {
      parts.push(el('h3', {}, 'Reads'), el('p', {}, op.ins.join(', ') || 'nothing'), el('h3', {}, 'Writes'), el('p', {}, op.outs.join(', ') || 'nothing'));
      if (op.node.of) parts.push(el('h3', {}, 'Comes from'), el('p', {}, op.node.of));
      for (const [title, list] of [['Stands for', op.node.parts], ['Runs as one', op.node.members]]) {
        if (list) parts.push(el('h3', {}, title), el('table', {}, list.map((part, i) => el('tr', {}, el('td', {}, i + 1), el('td', {}, part[0])))));
      }
    }
    side.replaceChildren(...parts.filter(Boolean));
  }
  function groupDetails(group) {
    const counts = new Map();
    const walk = each => each.children ? (each.op && counts.set(each.name, (counts.get(each.name) || 0) + 1), each.children.forEach(walk)) : counts.set(each.name, (counts.get(each.name) || 0) + 1);
    group.children.forEach(walk);
    const line = run.lines[group.line];
    side.replaceChildren(el('h2', {}, labelOf(group)), el('p', {}, subOf(group)), line && line.text ? el('pre', {class: 'mono'}, line.text.trim()) : '',
      el('button', {class: 'tag', onclick: () => toggle(group)}, group.open ? 'fold' : 'unfold'), el('h3', {}, 'Ops'),
      el('table', {}, [...counts].sort((p, q) => q[1] - p[1]).map(([name, count]) => el('tr', {}, el('td', {}, name), el('td', {}, count)))));
  }
  function overview() {
    side.replaceChildren(el('h2', {}, state.tree.ops.length + (source.value < 0 ? ' ops' : ' nodes')), el('p', {}, 'Click an op for its attributes, shapes and line; a frame’s title folds it. Drag to move, turn the wheel to zoom.'),
      ...overviewRows(run));
  }
  function find(text) {
    state.hits = [];
    state.hit = -1;
    const wanted = text.trim().toLowerCase();
    if (wanted) {
      state.hits = state.tree.ops.filter(op => op.type.toLowerCase().includes(wanted) || op.outs.some(name => name.toLowerCase().includes(wanted)) ||
        op.ins.some(name => name.toLowerCase().includes(wanted)) || lineText(run, op.line).toLowerCase().includes(wanted) || op.scope.toLowerCase().includes(wanted));
    }
    state.marks = new Set(state.hits.map(op => shownFor(state.tree.items[op.number])));
    say.textContent = wanted ? (state.hits.length || 'nothing') + ' found' : '';
    if (wanted) side.replaceChildren(el('h2', {}, 'Found'), el('ul', {class: 'hits'}, state.hits.slice(0, 200).map((op, i) =>
      el('li', {onclick: () => step(i)}, el('b', {}, op.type), ' ', op.outs[0] || '', ' ', el('span', {class: 'tag'}, lineText(run, op.line))))));
    else overview();
    paint.redraw();
  }
  function step(to) {
    if (!state.hits.length) return;
    state.hit = (to + state.hits.length) % state.hits.length;
    centre(state.tree.items[state.hits[state.hit].number]);
    state.marks = new Set(state.hits.map(op => shownFor(state.tree.items[op.number])));
    say.textContent = (state.hit + 1) + ' of ' + state.hits.length;
  }
  search.addEventListener('input', () => find(search.value));
  search.addEventListener('keydown', event => { if (event.key === 'Enter') step(state.hit + (event.shiftKey ? -1 : 1)); });
  source.addEventListener('change', () => load(+source.value));
  panAndZoom(paint, state, {
    click(event) {
      const item = at(event);
      if (item && item.children) toggle(item);
      choose(item);
    },
    hover(event) {
      const item = at(event);
      paint.canvas.style.cursor = item ? 'pointer' : 'grab';
      if (!item) return hideTip();
      const op = item.op;
      showTip(event, labelOf(item), subOf(item), op ? lineText(run, op.line) : '');
    }});
  load(-1);
  return {state, paint, toggle, find, search,
    place(item) { const box = paint.canvas.getBoundingClientRect(); return {x: box.left + state.x + (item.ax + Math.min(item.w, 60) / 2) * state.scale, y: box.top + state.y + (item.ay + 14) * state.scale}; }};
}

// What became of an op: the instructions that came from it.
function becameOf(run, block, index) {
  const frames = run.plan.frames, found = [], times = timesOf(run);
  const walk = frame => {
    frame.instructions.forEach((instruction, i) => {
      const node = run.passes.nodes[instruction.node];
      if (node.op && node.op[0] === block && node.op[1] === index) {
        found.push({index: i, type: node.type, kernels: instruction.kernels, ns: times.get(frame.plan + '/' + i)});
      }
    });
    frame.inner.forEach(inner => walk(inner.frame));
  };
  frames.forEach(walk);
  return found;
}

// Drag, wheel and keys for a canvas whose state has scale, x and y.
function panAndZoom(paint, state, {click, hover}) {
  const canvas = paint.canvas;
  let down = null;
  canvas.addEventListener('pointerdown', event => {
    down = {x: event.clientX, y: event.clientY, moved: false};
    canvas.setPointerCapture(event.pointerId);
    canvas.focus({preventScroll: true});
  });
  canvas.addEventListener('pointermove', event => {
    if (!down) return hover(event);
    const dx = event.clientX - down.x, dy = event.clientY - down.y;
    if (!down.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
    down = {x: event.clientX, y: event.clientY, moved: true};
    state.x += dx;
    state.y += dy;
    hideTip();
    paint.redraw();
  });
  canvas.addEventListener('pointerup', event => {
    if (down && !down.moved) click(event);
    down = null;
  });
  canvas.addEventListener('pointerleave', hideTip);
  canvas.addEventListener('wheel', event => {
    event.preventDefault();
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const factor = Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015));
    const scale = Math.min(4, Math.max(0.02, state.scale * factor));
    state.x = x - (x - state.x) * scale / state.scale;
    state.y = y - (y - state.y) * scale / state.scale;
    state.scale = scale;
    paint.redraw();
  }, {passive: false});
}
