// What all views of the page use: the data, elements, colours, numbers as text, canvases.
'use strict';
const DATA = JSON.parse(document.getElementById('data').textContent);
const RUNS = DATA.runs, OTHER = DATA.against || [];
const page = {run: 0, tab: '', views: {}, errors: []};
window.page = page;
window.addEventListener('error', e => page.errors.push(String(e.message)));

// Text never becomes markup: names of variables may be anything.
function el(tag, attrs, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attrs || {})) {
    if (value === undefined || value === false) continue;
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) made.append(child);
  return made;
}
const byId = id => document.getElementById(id);

function bytesText(n) {
  for (const unit of ['B', 'kB', 'MB', 'GB']) {
    if (n < 1000 || unit === 'GB') return (unit === 'B' ? n : n.toPrecision(3)) + ' ' + unit;
    n /= 1000;
  }
}
function timeText(ns) {
  if (ns < 1e3) return ns.toFixed(0) + ' ns';
  if (ns < 1e6) return (ns / 1e3).toPrecision(3) + ' µs';
  if (ns < 1e9) return (ns / 1e6).toPrecision(3) + ' ms';
  return (ns / 1e9).toPrecision(3) + ' s';
}
const percent = share => (100 * share).toFixed(share < 0.1 ? 1 : 0) + ' %';
const shapeText = shape => '[' + shape.map(n => n < 0 ? '?' : n).join(', ') + ']';
const fileOf = path => path.slice(path.lastIndexOf('/') + 1);
function lineText(run, number) {
  const line = number >= 0 ? run.lines[number] : undefined;
  return line ? fileOf(line.file) + ':' + line.line : '';
}

let palette = {};
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  palette = new Proxy({}, {get: (kept, name) => kept[name] || (kept[name] = style.getPropertyValue('--' + name).trim())});
}
const hues = new Map();
const FAMILIES = [/conv|pool|image|interp/, /norm/, /mul$|matmul|fc|product|mul_grad|dot/, /sgd|adam|momentum|adagrad|rms|update|lamb/,
  /softmax|entropy|mean|loss|accuracy/, /send|recv|barrier|sum_|allreduce|broadcast|listen|upload|download/, /lstm|gru|rnn|while|cond|recurrent|array/];
function colourOf(type) {
  if (!hues.has(type)) {
    let found = FAMILIES.findIndex(family => family.test(type));
    hues.set(type, 'c' + (found < 0 ? 7 : found));
  }
  return palette[hues.get(type)];
}

// A canvas that fills its stage, sharp on any screen; draw(context, width, height) when something has changed.
function canvasIn(stage, draw) {
  const canvas = el('canvas', {tabindex: 0});
  stage.append(canvas);
  let waiting = false;
  const made = {canvas, width: 0, height: 0, draws: 0, redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      if (!canvas.isConnected) return;
      const scale = window.devicePixelRatio || 1, box = stage.getBoundingClientRect();
      made.width = box.width;
      made.height = box.height;
      if (canvas.width !== Math.round(box.width * scale) || canvas.height !== Math.round(box.height * scale)) {
        canvas.width = Math.round(box.width * scale);
        canvas.height = Math.round(box.height * scale);
      }
      const context = canvas.getContext('2d');
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.clearRect(0, 0, box.width, box.height);
      const start = performance.now();
      draw(context, box.width, box.height);
      made.took = performance.now() - start;
      made.draws++;
    });
  }};
  new ResizeObserver(made.redraw).observe(stage);
  return made;
}
const fontOf = (size, weight) => `${weight || 400} ${size}px system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif`;

// Text cut to a width, with an ellipsis; widths are remembered.
const cuts = new Map();
function cutText(context, text, width) {
  const key = context.font + '|' + width + '|' + text;
  let found = cuts.get(key);
  if (found === undefined) {
    found = text;
    if (context.measureText(text).width > width) {
      let low = 0, high = text.length;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (context.measureText(text.slice(0, middle) + '…').width <= width) low = middle; else high = middle - 1;
      }
      found = low ? text.slice(0, low) + '…' : '';
    }
    if (cuts.size > 20000) cuts.clear();
    cuts.set(key, found);
  }
  return found;
}

function showTip(event, title, ...lines) {
  const tip = byId('tip');
  tip.replaceChildren(el('b', {}, title), ...lines.filter(Boolean).map(line => el('span', {}, line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + 'px';
  tip.style.top = Math.max(4, event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18) + 'px';
}
const hideTip = () => { byId('tip').hidden = true; };

function download(name, text) {
  const link = el('a', {href: URL.createObjectURL(new Blob([text], {type: 'application/json'})), download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
function factsTable(rows) {
  return el('table', {}, rows.filter(row => row[1] !== undefined && row[1] !== '').map(([name, value]) => el('tr', {}, el('td', {}, name), el('td', {}, value))));
}
const empty = text => el('div', {class: 'empty'}, text);
