// The graph as a tree of groups, from a program or from what a pass made of it; and a layered layout
// that is linear in what is unfolded.
'use strict';
const ROLES = ['Forward', 'Backward', 'Update', 'Messages'];
const roleOf = role => (role & 4) ? 3 : (role & (2 | 16)) ? 2 : (role & 1) ? 1 : 0;

// Ops: {key, type, ins, outs, role, scope, line, source}, edges by number.
function opsOfProgram(run) {
  const ops = [], edges = [], blocks = run.program.blocks;
  const walk = (block, outer, within) => {
    const writers = Object.create(outer);
    for (const [index, op] of block.ops.entries()) {
      const number = ops.length;
      const made = {number, type: op.type, role: op.role, scope: op.scope, line: op.line, within, source: op, block: block.index, index,
        ins: [].concat(...Object.values(op.inputs)), outs: [].concat(...Object.values(op.outputs))};
      ops.push(made);
      for (const name of made.ins) {
        const from = writers['$' + name];
        if (from !== undefined && from !== number) edges.push(from, number);
      }
      if (op.block !== undefined && blocks[op.block]) {
        made.inner = op.block;
        walk(blocks[op.block], writers, number);
      }
      for (const name of made.outs) writers['$' + name] = number;
    }
  };
  if (blocks.length) walk(blocks[0], null, -1);
  return {ops, edges};
}

// The order of the nodes of every graph after a step.
function ordersAfter(passes, step) {
  const orders = passes.graphs.map(() => []);
  for (let s = 0; s <= step; s++) {
    for (const changed of passes.steps[s].graphs) {
      orders[changed.graph] = changed.order.flatMap(([first, count]) => Array.from({length: count}, (_, i) => first + i));
    }
  }
  return orders;
}
function valueName(passes, graph, value) {
  const known = passes.graphs[graph].values[value];
  return known && known[0] ? known[0] : '%' + value;
}
function opsOfStep(run, step) {
  const passes = run.passes, orders = ordersAfter(passes, step), ops = [], edges = [];
  const innerOf = new Map();
  passes.graphs.forEach(graph => graph.nodes.forEach(([node, number]) => {
    innerOf.set(node, (innerOf.get(node) || []).concat(number));
  }));
  const walk = (graph, within) => {
    const writers = new Map();
    for (const id of orders[graph]) {
      const node = passes.nodes[id], number = ops.length;
      const program = node.op && run.program.blocks[node.op[0]] && run.program.blocks[node.op[0]].ops[node.op[1]];
      ops.push({number, type: node.type, role: node.role || 0, scope: program ? program.scope : '/', line: node.line === undefined ? -1 : node.line,
        within, node, id, graph, ins: node.ins.filter(v => v >= 0).map(v => valueName(passes, graph, v)),
        outs: node.outs.filter(v => v >= 0).map(v => valueName(passes, graph, v))});
      for (const value of node.ins) if (writers.has(value)) edges.push(writers.get(value), number);
      const inner = innerOf.get(id) || [];
      if (inner.length) ops[number].inner = inner[0];
      inner.forEach(next => walk(next, number));
      for (const value of node.outs) writers.set(value, number);
    }
  };
  walk(0, -1);
  return {ops, edges};
}

// Groups: by role, by name scope, by the user's line; a sub-block is inside its op.
function treeOf({ops, edges}) {
  const root = {kind: 'root', name: '', children: [], open: true, parent: null};
  const groups = [root];
  const holder = new Map([[-1, root]]);
  const child = (parent, name, kind, key) => {
    parent.keys = parent.keys || new Map();
    let found = parent.keys.get(key);
    if (!found) {
      found = {kind, name, children: [], open: true, parent, group: groups.length};
      groups.push(found);
      parent.keys.set(key, found);
      parent.children.push(found);
    }
    return found;
  };
  const items = [];
  let lastLine = null;
  for (const op of ops) {
    let parent = holder.get(op.within);
    if (op.within < 0) {
      const role = roleOf(op.role);
      parent = child(root, ROLES[role], 'role', 'role' + role);
    }
    for (const scope of op.scope.split('/').filter(Boolean)) parent = child(parent, scope, 'scope', 'scope' + scope);
    if (op.line >= 0) {
      // Neighbours of one line stand together; the line's later ops form a group of their own.
      if (!lastLine || lastLine.parent !== parent || lastLine.line !== op.line) {
        lastLine = {parent, line: op.line, key: 'line' + op.line + '/' + op.number};
      }
      parent = child(parent, '', 'line', lastLine.key);
      parent.line = op.line;
    } else {
      lastLine = null;
    }
    const item = {kind: 'op', op, parent, name: op.type};
    if (op.inner !== undefined) {
      Object.assign(item, {kind: 'block', children: [], open: true, group: groups.length});
      groups.push(item);
      holder.set(op.number, item);
      lastLine = null;
    }
    items[op.number] = item;
    parent.children.push(item);
  }
  // A line or a scope of one op needs no group.
  const flatten = group => {
    group.children = group.children.map(each => {
      if (each.children) flatten(each);
      if (each.kind === 'role' || each.kind === 'block' || each.children === undefined || each.children.length > 1) return each;
      each.children[0].parent = group;
      return each.children[0];
    });
    group.count = group.children.reduce((sum, each) => sum + (each.children ? each.count + (each.kind === 'block') : 1), 0);
  };
  flatten(root);
  const alive = groups.filter(group => group === root || group.parent.children.includes(group));
  return {root, items, ops, edges, groups: alive};
}

// What is folded at first: lines where there are many ops, and scopes where there are still many.
function foldAtFirst(tree) {
  const many = tree.ops.length;
  for (const group of tree.groups) {
    if (group.kind === 'line') group.open = many <= 60;
    if (group.kind === 'scope') group.open = many <= 400 && !/^optimizer/.test(group.name);
    if (group.kind === 'role') group.open = many <= 3000 || group.name === 'Forward';
    if (group.kind === 'block') group.open = many <= 400;
  }
}

const BOX = {width: 168, height: 44, gap: 18, rank: 34, pad: 14, head: 28};
// The item that is drawn for an op: itself, or the outermost folded group around it.
function shownFor(item) {
  let shown = item;
  for (let at = item.parent; at; at = at.parent) if (!at.open) shown = at;
  return shown;
}

function layOut(tree) {
  const leaves = [], frames = [];
  // Edges of children, by the group in which both ends stand side by side.
  const between = new Map();
  const depth = item => { let n = 0; for (let at = item; at; at = at.parent) n++; return n; };
  const seen = new Set(), edges = [];
  for (let e = 0; e < tree.edges.length; e += 2) {
    let a = shownFor(tree.items[tree.edges[e]]), b = shownFor(tree.items[tree.edges[e + 1]]);
    if (a === b) continue;
    a.index = a.index || (a.index = ++layOut.next);
    b.index = b.index || (b.index = ++layOut.next);
    const key = a.index * 67108864 + b.index;
    if (seen.has(key)) continue;
    seen.add(key);
    edges.push({from: a, to: b});
    let da = depth(a), db = depth(b);
    while (da > db) { a = a.parent; da--; }
    while (db > da) { b = b.parent; db--; }
    while (a.parent !== b.parent) { a = a.parent; b = b.parent; }
    if (a === b) continue;
    if (!between.has(a.parent)) between.set(a.parent, new Map());
    const list = between.get(a.parent);
    if (!list.has(b)) list.set(b, []);
    list.get(b).push(a);
  }
  const size = item => {
    if (item.children && item.open) return arrange(item);
    item.w = BOX.width;
    item.h = BOX.height;
  };
  const arrange = group => {
    const children = group.children;
    children.forEach(size);
    const before = between.get(group) || new Map();
    if (group.kind === 'root') {
      let x = 0;
      for (const each of children) { each.x = x; each.y = 0; x += each.w + 72; }
      group.w = x - 72; group.h = Math.max(0, ...children.map(each => each.h));
      return;
    }
    const rank = new Map(), ranks = [];
    for (const each of children) {
      let at = 0;
      for (const from of before.get(each) || []) if (rank.has(from)) at = Math.max(at, rank.get(from) + 1);
      rank.set(each, at);
      (ranks[at] = ranks[at] || []).push(each);
    }
    let y = BOX.head, left = Infinity, right = -Infinity;
    // What many have in common, such as the update, would be one endless row.
    const rows = ranks.flatMap(row => row.length <= 5 ? [row] : Array.from({length: Math.ceil(row.length / 3)}, (_, i) => row.slice(3 * i, 3 * i + 3)));
    for (const row of rows) {
      for (const each of row) {
        const from = (before.get(each) || []).filter(p => rank.get(p) < rank.get(each));
        each.wish = from.length ? from.reduce((sum, p) => sum + p.x + p.w / 2, 0) / from.length : 0;
      }
      row.sort((p, q) => p.wish - q.wish);
      let x = -Infinity, shift = 0;
      for (const each of row) {
        each.x = Math.max(each.wish - each.w / 2, x);
        x = each.x + each.w + BOX.gap;
        shift += each.wish - each.x - each.w / 2;
      }
      shift /= row.length;
      const tall = Math.max(...row.map(each => each.h));
      for (const each of row) {
        each.x += shift;
        each.y = y + (tall - each.h) / 2;
        left = Math.min(left, each.x);
        right = Math.max(right, each.x + each.w);
      }
      y += tall + BOX.rank;
    }
    if (!children.length) { left = 0; right = BOX.width; y += BOX.height; }
    for (const each of children) each.x += BOX.pad - left;
    group.w = right - left + 2 * BOX.pad;
    group.h = y - BOX.rank + BOX.pad;
  };
  arrange(tree.root);
  const settle = (item, x, y) => {
    item.ax = x + item.x;
    item.ay = y + item.y;
    if (item.children && item.open) {
      frames.push(item);
      item.children.forEach(each => settle(each, item.ax, item.ay));
    } else {
      leaves.push(item);
    }
  };
  tree.root.children.forEach(each => settle(each, 0, 0));
  const outermost = item => {
    let at = item;
    while (at.parent && at.parent.kind !== 'root') at = at.parent;
    return at;
  };
  for (const edge of edges) {  // where lines begin and end: found once, drawn in every frame
    const a = edge.from, b = edge.to;
    edge.aside = b.ax > a.ax + a.w + 40 && outermost(a) !== outermost(b);
    edge.x0 = edge.aside ? a.ax + a.w : a.ax + a.w / 2;
    edge.y0 = edge.aside ? a.ay + Math.min(a.h / 2, 22) : a.ay + a.h;
    edge.x1 = edge.aside ? b.ax : b.ax + b.w / 2;
    edge.y1 = edge.aside ? b.ay + Math.min(b.h / 2, 22) : b.ay;
  }
  return {leaves, frames, edges, width: tree.root.w, height: tree.root.h};
}
layOut.next = 0;
