// The arena over the step: where every value stands and for how long, and what limits the peak.
'use strict';
function memoryView(main) {
  const run = RUNS[page.run], top = run.plan && run.plan.frames[0];
  if (!top) return main.append(empty('There is no plan to show the memory of.'));
  const frames = [];
  const walk = (frame, name) => {
    // Host and device have an arena each.
    const sides = frame.slots.some(slot => slot.device && slot.offset !== undefined) ? [1, 0] : [0];
    for (const side of sides) frames.push({frame, side, name: name + (sides.length > 1 ? side ? ', on the device' : ', on the host' : '')});
    frame.inner.forEach(inner => walk(inner.frame, 'sub-block of ' + run.passes.nodes[frame.instructions[inner.instruction].node].type +
      (inner.iterations > 0 ? ', ' + inner.iterations + ' iterations' : '')));
  };
  walk(top, 'the step');
  const which = el('select', {id: 'frame', title: 'whose memory'}, frames.map((each, i) => el('option', {value: i}, each.name)));
  const stage = el('div', {class: 'stage', id: 'memory'}), side = el('aside', {class: 'side'});
  const say = el('span', {class: 'say'});
  const state = {frame: top, boxes: [], from: 0, to: 1, hovered: null};
  main.append(el('div', {class: 'bar'}, which, say, el('span', {class: 'space'}), el('button', {id: 'whole', onclick: () => { state.from = 0; state.to = state.count; paint.redraw(); }}, 'whole step')),
    el('div', {class: 'split'}, stage, side));
  const paint = canvasIn(stage, draw);
  const M = {left: 78, right: 16, top: 16, curve: 90, gap: 34, bottom: 30};

  function load(number) {
    const frame = state.frame = frames[number].frame, passes = run.passes, side = frames[number].side;
    state.count = frame.instructions.length;
    state.from = 0;
    state.to = Math.max(1, state.count);
    const nodeOf = index => passes.nodes[frame.instructions[Math.min(index, state.count - 1)].node];
    state.boxes = [];
    const boxes = state.boxes;
    frame.slots.forEach((slot, number) => {
      if ((slot.offset === undefined && slot.late_offset === undefined) || !!slot.device !== !!side) return;
      const names = slot.values.map(v => valueName(passes, frame.graph, v));
      const node = nodeOf(slot.first);
      boxes.push({number, slot, first: slot.first, last: Math.min(slot.last, state.count - 1), offset: slot.offset !== undefined ? slot.offset : slot.late_offset,
        bytes: Math.ceil(slot.bytes / 64) * 64, names, node, facts: slot.values.map(v => frame.facts[v]).filter(Boolean)});
    });
    frame.inner.forEach(inner => {
      const lent = inner.frame.arena;
      if (lent.lent && lent.planned && !side) boxes.push({inner, first: inner.instruction, last: inner.instruction, offset: lent.base[0] - frame.arena.base[0], bytes: lent.planned, names: ['what the sub-block needs'], node: nodeOf(inner.instruction), facts: []});
    });
    const live = new Float64Array(state.count + 1);
    for (const box of boxes) for (let i = box.first; i <= box.last; i++) live[i] += box.bytes;
    state.live = live;
    state.peak = live.indexOf(Math.max(...live));
    state.bytes = Math.max(1, ...boxes.map(box => box.offset + box.bytes));
    say.textContent = boxes.length ? 'arena ' + bytesText(state.bytes) + ', at most ' + bytesText(live[state.peak]) + ' at once' : 'nothing of it is laid out ahead of the step';
    overview();
    paint.redraw();
  }
  function overview() {
    const frame = state.frame, arena = frame.arena, peak = state.peak;
    const alive = state.boxes.filter(box => box.first <= peak && peak <= box.last).sort((p, q) => q.bytes - p.bytes);
    const node = state.count ? run.passes.nodes[frame.instructions[Math.min(peak, state.count - 1)].node] : null;
    const states = frame.slots.filter(slot => slot.kind === 'state'), feeds = frame.slots.filter(slot => slot.kind === 'feed');
    const sum = list => list.reduce((n, slot) => n + slot.bytes, 0);
    side.replaceChildren(el('h2', {}, 'What limits the peak'),
      node ? el('p', {}, bytesText(state.live[peak]) + ' live at instruction #' + peak + ', ' + node.type + (node.line !== undefined ? ' (' + lineText(run, node.line) + ')' : '') + ':') : '',
      el('table', {id: 'peak'}, alive.filter(box => box.bytes).slice(0, 25).map(box => el('tr', {}, el('td', {}, bytesText(box.bytes)), el('td', {}, box.names[box.names.length - 1], el('div', {class: 'of'}, el('span', {class: 'tag'}, ownerText(box))))))),
      el('h3', {}, 'Beside the arena'), factsTable([['parameters and states', bytesText(sum(states))], ['feeds', bytesText(sum(feeds))], ['scratch', bytesText(arena.scratch)], ['memory of their own', bytesText(arena.own)]]),
      el('h3', {}, 'How to read it'), el('p', {}, 'From left to right the instructions of the step; upwards the bytes of the arena. Each box is a value from the instruction that writes it to the last that reads it. Wheel zooms, dragging moves.'));
  }
  const ownerText = box => (box.facts[0] ? box.facts[0][0] + ' ' + shapeText(box.facts[0][1]) + ' of ' : 'of ') + box.node.type;
  const plot = () => ({x: M.left, w: paint.width - M.left - M.right, y: M.top + M.curve + M.gap, h: paint.height - M.top - M.curve - M.gap - M.bottom});
  const xOf = i => { const p = plot(); return p.x + (i - state.from) / (state.to - state.from) * p.w; };
  function draw(context, width, height) {
    const p = plot();
    if (p.h < 20 || !state.boxes.length) return;
    context.font = fontOf(11);
    context.textBaseline = 'middle';
    const yOf = bytes => p.y + p.h - bytes / state.bytes * p.h;
    axis(context, state.bytes, bytes => yOf(bytes), p, width);
    context.save();
    context.beginPath();
    context.rect(p.x, M.top, p.w, height);
    context.clip();
    for (const box of state.boxes) {
      const x0 = xOf(box.first), x1 = xOf(box.last + 1), y1 = yOf(box.offset), y0 = yOf(box.offset + box.bytes);
      if (x1 < p.x || x0 > p.x + p.w) continue;
      const w = Math.max(1, x1 - x0 - 0.5), h = Math.max(1, y1 - y0 - 0.5);
      context.globalAlpha = box === state.hovered ? 1 : box.first <= state.peak && state.peak <= box.last ? 0.9 : 0.55;
      context.fillStyle = colourOf(box.node.type);
      context.fillRect(x0, y0, w, h);
      context.globalAlpha = 1;
      if (box === state.hovered) { context.strokeStyle = palette.text; context.lineWidth = 1.5; context.strokeRect(x0, y0, w, h); }
      if (h > 13 && w > 46) {
        // White on what is drawn strongly, dark on what is pale.
        context.fillStyle = document.documentElement.dataset.theme === 'dark' || box === state.hovered || (box.first <= state.peak && state.peak <= box.last) ? '#fff' : palette.text;
        context.fillText(cutText(context, box.names[box.names.length - 1], Math.round(w - 10)), Math.max(x0, p.x) + 5, y0 + h / 2);
      }
    }
    // How much lives at every instruction.
    const cy = M.top, ch = M.curve, most = state.live[state.peak];
    context.beginPath();
    context.moveTo(xOf(0), cy + ch);
    for (let i = 0; i < state.count; i++) {
      const y = cy + ch - state.live[i] / most * ch;
      context.lineTo(xOf(i), y);
      context.lineTo(xOf(i + 1), y);
    }
    context.lineTo(xOf(state.count), cy + ch);
    context.fillStyle = palette['accent-back'];
    context.fill();
    context.strokeStyle = palette.accent;
    context.lineWidth = 1.5;
    context.stroke();
    context.strokeStyle = palette.bad;
    context.setLineDash([4, 4]);
    context.beginPath();
    context.moveTo((xOf(state.peak) + xOf(state.peak + 1)) / 2, cy);
    context.lineTo((xOf(state.peak) + xOf(state.peak + 1)) / 2, p.y + p.h);
    context.stroke();
    context.setLineDash([]);
    context.restore();
    context.fillStyle = palette.soft;
    context.textAlign = 'right';
    context.fillText(bytesText(most), M.left - 8, cy + 6);
    context.fillText('live', M.left - 8, cy + ch - 6);
    context.textAlign = 'left';
    const every = niceStep((state.to - state.from) / Math.max(2, p.w / 90));
    for (let i = Math.ceil(state.from / every) * every; i <= state.to; i += every) {
      if (i % 1) continue;
      context.textAlign = 'center';
      context.fillText('#' + i, xOf(i), height - 14);
    }
    context.textAlign = 'left';
  }
  function axis(context, most, yOf, p, width) {
    const every = niceBytes(most / 5);
    context.textAlign = 'right';
    for (let at = 0; at <= most; at += every) {
      context.strokeStyle = palette.line;
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(p.x, yOf(at));
      context.lineTo(width - M.right, yOf(at));
      context.stroke();
      context.fillStyle = palette.soft;
      context.fillText(bytesText(at), M.left - 8, yOf(at));
    }
    context.textAlign = 'left';
  }
  function boxAt(event) {
    const box = paint.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top, p = plot();
    const i = state.from + (x - p.x) / p.w * (state.to - state.from), bytes = (p.y + p.h - y) / p.h * state.bytes;
    if (x < p.x) return null;
    return state.boxes.find(b => i >= b.first && i < b.last + 1 && bytes >= b.offset && bytes < b.offset + b.bytes) || null;
  }
  zoomAlong(paint, state, () => plot(), () => [0, state.count], 2, event => {
    const found = boxAt(event);
    if (found !== state.hovered) { state.hovered = found; paint.redraw(); }
    if (!found) return hideTip();
    showTip(event, found.names.join(' = '), bytesText(found.slot ? found.slot.bytes : found.bytes) + ' at offset ' + found.offset.toLocaleString('en') + ', ' + ownerText(found),
      'instructions #' + found.first + ' to #' + found.last, found.node.line !== undefined ? lineText(run, found.node.line) : '');
  });
  which.addEventListener('change', () => load(+which.value));
  load(0);
  return {state, paint, place(box) { const b = paint.canvas.getBoundingClientRect(), p = plot(); return {x: b.left + (xOf(box.first) + xOf(box.last + 1)) / 2, y: b.top + p.y + p.h - (box.offset + box.bytes / 2) / state.bytes * p.h}; }};
}
function niceStep(least) {
  const ten = Math.pow(10, Math.floor(Math.log10(Math.max(least, 1e-9))));
  for (const step of [1, 2, 5, 10]) if (step * ten >= least) return step * ten;
}
const niceBytes = least => Math.max(64, niceStep(least));

// Wheel and drag along one axis: state.from and state.to within the limits.
function zoomAlong(paint, state, plot, limits, least, hover) {
  const canvas = paint.canvas;
  const clampTo = (from, to) => {
    const [low, high] = limits(), span = Math.min(high - low, Math.max(least, to - from));
    state.from = Math.max(low, Math.min(from, high - span));
    state.to = state.from + span;
    paint.redraw();
  };
  canvas.addEventListener('wheel', event => {
    event.preventDefault();
    const p = plot(), x = event.clientX - canvas.getBoundingClientRect().left - p.x, span = state.to - state.from;
    if (event.shiftKey && state.top !== undefined) { state.top = Math.max(0, state.top + event.deltaY); return paint.redraw(); }
    const factor = Math.exp(event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), middle = state.from + x / p.w * span;
    const next = Math.max(least, span * factor);
    clampTo(middle - x / p.w * next, middle + (1 - x / p.w) * next);
  }, {passive: false});
  let down = null;
  canvas.addEventListener('pointerdown', event => { down = {x: event.clientX, y: event.clientY, from: state.from, to: state.to, top: state.top}; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener('pointermove', event => {
    if (!down) return hover(event);
    hideTip();
    const shift = (event.clientX - down.x) / plot().w * (down.to - down.from);
    if (state.top !== undefined) state.top = Math.max(0, down.top - (event.clientY - down.y));
    clampTo(down.from - shift, down.to - shift);
  });
  canvas.addEventListener('pointerup', () => { down = null; });
  canvas.addEventListener('pointerleave', hideTip);
}
