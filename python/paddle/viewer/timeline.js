// What ran when: lanes by process, replica, thread and queue; who waited, and for whom.
'use strict';
const QUEUES = ['host', 'device: compute', 'device: upload', 'device: download'];
const KINDS = {op: 0, part: 1, wait: 2, step: 3};

// Events of one run as objects, on the first run's clock. Processes of one machine share it; a number that
// holds the time of day holds no nanoseconds, so only what differs by more than a millisecond is shifted.
function eventsOf(run) {
  if (run.events) return run.events;
  const offset = each => each.process.wall_ns - each.process.steady_ns, apart = offset(run) - offset(RUNS[0]);
  const profile = run.profile, shift = Math.abs(apart) > 1e6 ? apart : 0;
  const frames = new Map();
  const walk = frame => { frames.set(frame.plan, frame); frame.inner.forEach(inner => walk(inner.frame)); };
  if (run.plan) run.plan.frames.forEach(walk);
  run.events = profile.events.map(row => {
    const [kind, name, thread, start, ns, replica, runner, plan, instruction] = row;
    const frame = frames.get(plan), bound = frame && frame.instructions[instruction];
    const node = bound && run.passes.nodes[bound.node];
    return {kind, name: profile.names[name], thread, start: profile.zero_ns + start + shift, ns, replica, runner, plan, instruction, bound, node};
  });
  return run.events;
}
// Total time by plan and instruction.
function timesOf(run) {
  if (run.times) return run.times;
  run.times = new Map();
  for (const event of eventsOf(run)) {
    if (event.kind !== KINDS.op && event.kind !== KINDS.wait) continue;
    const key = event.plan + '/' + event.instruction;
    run.times.set(key, (run.times.get(key) || 0) + event.ns / Math.max(1, run.profile.steps));
  }
  return run.times;
}
const eventName = event => event.kind === KINDS.wait ? (event.node ? event.node.type : event.name) : event.node && event.node.type !== event.name ? event.name + ' (' + event.node.type + ')' : event.name;

// Lanes: a place in the picture for every process, and in it for every thread, replica and queue.
function lanesOf(runs) {
  const lanes = [];
  runs.forEach((run, process) => {
    const events = eventsOf(run), found = new Map(), replicas = new Set(events.map(e => e.replica));
    for (const event of events) {
      const queue = event.runner > 0 && event.kind === KINDS.op;
      const by = queue ? 'q' + event.runner : event.kind === KINDS.wait || (event.kind === KINDS.op && replicas.size > 1) ? 'r' + event.replica : 't' + event.thread;
      if (!found.has(by)) {
        const name = queue ? QUEUES[event.runner] : by[0] === 'r' ? (replicas.size > 1 ? 'replica ' + event.replica : 'this process among others') : 'thread ' + event.thread;
        found.set(by, {process, run, name, by, order: by[0] === 't' ? 0 : by[0] === 'r' ? 1 : 2, events: []});
      }
      found.get(by).events.push(event);
    }
    const sorted = [...found.values()].sort((p, q) => p.order - q.order || p.by.localeCompare(q.by, 'en', {numeric: true}));
    for (const lane of sorted) {
      lane.events.sort((p, q) => p.start - q.start || q.ns - p.ns);
      const ends = [];  // rows: what lies inside another stands below it
      for (const event of lane.events) {
        let row = 0;
        while (row < ends.length && ends[row] > event.start + 1) row++;
        ends[row] = event.start + event.ns;
        event.row = row;
      }
      lane.rows = ends.length;
    }
    lanes.push(...sorted);
  });
  findWaits(runs);
  return lanes;
}
// Of a place where all must come, the last to come is whom the others waited for.
function findWaits(runs) {
  const rounds = new Map(), counts = new Map();
  runs.forEach((run, process) => eventsOf(run).forEach(event => {
    event.whom = event.bound && event.bound.peers ? event.bound.peers.join(', ') : undefined;
    if (event.kind !== KINDS.wait) return;
    if (!event.bound) {  // a server says it itself
      event.whom = event.name.replace(/^waits for /, '');
      return;
    }
    const mine = process + '/' + event.replica + '/' + event.instruction, nth = (counts.get(mine) || 0) + 1;
    counts.set(mine, nth);
    const key = event.instruction + '/' + nth;
    if (!rounds.has(key)) rounds.set(key, []);
    rounds.get(key).push({event, who: (runs.length > 1 ? (run.process.name || 'process ' + process) : '') + (runs.length > 1 && run.plan && run.plan.devices > 1 ? ', ' : '') + (runs.length === 1 || (run.plan && run.plan.devices > 1) ? 'replica ' + event.replica : '')});
  }));
  for (const round of rounds.values()) {
    const last = round.reduce((p, q) => q.event.start > p.event.start ? q : p);
    for (const each of round) each.event.whom = round.length < 2 ? undefined : each === last ? 'nobody: it came last' : last.who;
  }
}

// A time on an axis: as many digits as its ticks are apart.
function tickText(ns, every) {
  const [unit, name] = every >= 1e8 ? [1e9, ' s'] : every >= 1e5 ? [1e6, ' ms'] : [1e3, ' µs'];
  return (ns / unit).toLocaleString('en', {maximumFractionDigits: Math.max(0, Math.ceil(-Math.log10(every / unit)))}) + name;
}

function timelineView(main) {
  const lanes = lanesOf(RUNS);
  if (!lanes.length) return main.append(empty('No step was timed. python -m paddle.view SCRIPT times the last steps of a script; compiled.view(path, feed=...) times steps on that feed.'));
  const all = lanes.flatMap(lane => lane.events);
  const begin = Math.min(...all.map(e => e.start)), end = all.reduce((most, e) => Math.max(most, e.start + e.ns), 0);
  const state = {from: 0, to: end - begin, top: 0, hovered: null, lanes};
  // Of processes that serve others' programs, those others' steps are the steps.
  const training = RUNS.filter(run => run.plan), steps = (training.length ? training : RUNS).flatMap(run => eventsOf(run).filter(e => e.kind === KINDS.step));
  const stage = el('div', {class: 'stage', id: 'timeline'});
  const say = el('span', {class: 'say'});
  const mean = steps.length ? steps.reduce((sum, e) => sum + e.ns, 0) / steps.length : 0;
  say.textContent = steps.length + ' steps, ' + timeText(mean) + ' each in the mean';
  main.append(el('div', {class: 'bar'}, say, el('span', {class: 'space'}),
    el('button', {id: 'laststep', onclick: () => last()}, 'last step'), el('button', {id: 'all', onclick: () => { state.from = 0; state.to = end - begin; paint.redraw(); }}, 'all'),
    el('button', {id: 'trace', title: 'for Perfetto and chrome://tracing', onclick: () => download('trace.json', traceText(RUNS))}, 'save as Chrome trace')), stage);
  const paint = canvasIn(stage, draw);
  const M = {left: 170, right: 12, top: 30, row: 22, lane: 12};
  function last() {
    const widest = steps.filter(e => e.start === Math.max(...steps.map(s => s.start)))[0];
    if (!widest) return;
    state.from = widest.start - begin - widest.ns * 0.02;
    state.to = widest.start - begin + widest.ns * 1.02;
    paint.redraw();
  }
  const plot = () => ({x: M.left, w: paint.width - M.left - M.right});
  const xOf = ns => M.left + (ns - state.from) / (state.to - state.from) * (paint.width - M.left - M.right);
  function draw(context, width, height) {
    context.textBaseline = 'middle';
    let total = 0;
    lanes.forEach((lane, i) => { if (!i || lanes[i - 1].process !== lane.process) total += 24; lane.y = total; total += lane.rows * M.row + M.lane; });
    state.top = Math.max(0, Math.min(state.top, total + M.top + 10 - height));
    context.font = fontOf(11);
    const every = niceStep((state.to - state.from) / Math.max(2, (width - M.left) / 110));
    for (let at = Math.ceil(state.from / every) * every; at <= state.to; at += every) {
      context.strokeStyle = palette.line;
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(xOf(at), M.top - 6);
      context.lineTo(xOf(at), height);
      context.stroke();
    }
    context.save();
    context.beginPath();
    context.rect(0, M.top, width, height - M.top);
    context.clip();
    lanes.forEach((lane, i) => drawLane(context, lane, i, width, height));
    context.restore();
    context.fillStyle = palette.soft;
    context.textAlign = 'center';
    for (let at = Math.ceil(state.from / every) * every; at <= state.to; at += every) context.fillText(tickText(at, every), xOf(at), 14);
    context.textAlign = 'left';
  }
  function drawLane(context, lane, number, width, height) {
    const y = M.top + lane.y - state.top, right = width - M.right;
    if (!number || lanes[number - 1].process !== lane.process) {
      context.font = fontOf(12, 600);
      context.fillStyle = palette.text;
      context.fillText(lane.run.process.name || 'process ' + lane.run.process.pid, 14, y - 10);
    }
    if (y > height || y + lane.rows * M.row < 0) return;
    context.fillStyle = palette.group;
    context.fillRect(M.left, y, right - M.left, lane.rows * M.row);
    context.font = fontOf(12);
    context.fillStyle = palette.soft;
    context.fillText(cutText(context, lane.name, M.left - 34), 24, y + M.row / 2);
    context.save();
    context.beginPath();
    context.rect(M.left, y, right - M.left, lane.rows * M.row);
    context.clip();
    context.font = fontOf(11);
    const drawn = [];
    for (const event of lane.events) {
      const x0 = xOf(event.start - begin), x1 = xOf(event.start - begin + event.ns);
      if (x1 < M.left || x0 > right) continue;
      if (x1 - x0 < 0.5 && drawn[event.row] > x0 - 0.5) continue;  // a pixel shows one of them
      const w = Math.max(1, x1 - x0 - 0.5), ey = y + event.row * M.row + 1, h = M.row - 2;
      drawn[event.row] = x0 + w;
      const wait = event.kind === KINDS.wait || (event.bound && event.bound.peers);  // communication is mostly waiting
      context.globalAlpha = event === state.hovered ? 1 : event.kind === KINDS.part ? 0.6 : 0.88;
      context.fillStyle = event.kind === KINDS.step ? palette.edge : wait ? palette.warn : colourOf(event.name);
      context.fillRect(x0, ey, w, h);
      context.globalAlpha = 1;
      if (wait && w > 6) hatch(context, x0, ey, w, h);
      if (event === state.hovered) { context.strokeStyle = palette.text; context.lineWidth = 1.5; context.strokeRect(x0 + 0.5, ey + 0.5, Math.max(1, w - 1), h - 1); }
      if (w > 34) {
        context.fillStyle = '#fff';
        const from = Math.max(x0, M.left);
        context.fillText(cutText(context, wait && event.whom ? (event.bound ? eventName(event) + ', ' : '') + 'waits for ' + event.whom : event.name, Math.round((x0 + w - from - 8) / 4) * 4), from + 5, ey + h / 2 + 0.5);
      }
    }
    context.restore();
  }
  function hatch(context, x, y, w, h) {
    context.save();
    context.beginPath();
    context.rect(x, y, w, h);
    context.clip();
    context.strokeStyle = '#ffffff55';
    context.lineWidth = 2;
    context.beginPath();
    for (let at = Math.max(x, 0) - h; at < Math.min(x + w, 4000); at += 8) { context.moveTo(at, y + h); context.lineTo(at + h, y); }
    context.stroke();
    context.restore();
  }
  function eventAt(event) {
    const box = paint.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top + state.top - M.top;
    if (x < M.left) return null;
    const lane = lanes.find(l => y >= l.y && y < l.y + l.rows * M.row);
    if (!lane) return null;
    const at = state.from + (x - M.left) / (paint.width - M.left - M.right) * (state.to - state.from), row = Math.floor((y - lane.y) / M.row);
    const slack = 2 * (state.to - state.from) / paint.width;
    return lane.events.find(e => e.row === row && at >= e.start - begin - slack && at <= e.start - begin + e.ns + slack) || null;
  }
  zoomAlong(paint, state, plot, () => [-(end - begin) * 0.02, (end - begin) * 1.02], 200, event => {
    const found = eventAt(event);
    if (found !== state.hovered) { state.hovered = found; paint.redraw(); }
    if (!found) return hideTip();
    const facts = [];
    if (found.bound) facts.push('instruction #' + found.instruction + (found.bound.kernels.length ? ', kernel ' + found.bound.kernels.join(', ') : ''), bytesText(found.bound.bytes) + (found.bound.flops ? ', ' + (found.bound.flops / 1e6).toPrecision(3) + ' Mflop' : ''));
    if (found.whom) facts.push('waits for ' + found.whom);
    if (found.node && found.node.line !== undefined) facts.push(lineText(RUNS[lanes.find(l => l.events.includes(found)).process], found.node.line));
    showTip(event, eventName(found), timeText(found.ns) + (found.kind === KINDS.part ? ', this thread’s part' : found.kind === KINDS.wait ? ' from coming to going on' : ''), ...facts);
  });
  last();
  return {state, paint, lanes};
}

// The Trace Event Format, as Perfetto and chrome://tracing read it.
function traceText(runs) {
  const lanes = lanesOf(runs), events = [];
  const zero = Math.min(...lanes.flatMap(lane => lane.events.map(e => e.start)));
  lanes.forEach((lane, tid) => {
    events.push({ph: 'M', name: 'process_name', pid: lane.process, args: {name: lane.run.process.name || 'process ' + lane.run.process.pid}},
      {ph: 'M', name: 'thread_name', pid: lane.process, tid, args: {name: lane.name}});
    for (const e of lane.events) events.push({ph: 'X', name: eventName(e), cat: Object.keys(KINDS)[e.kind], pid: lane.process, tid, ts: (e.start - zero) / 1e3, dur: e.ns / 1e3, args: {instruction: e.instruction, whom: e.whom}});
  });
  return JSON.stringify({displayTimeUnit: 'ms', traceEvents: events});
}
