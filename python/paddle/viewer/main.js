// Tabs, processes, light and dark.
'use strict';
const TABS = [['graph', 'Graph', graphView], ['passes', 'Passes', passesView], ['memory', 'Memory', memoryView], ['timeline', 'Timeline', timelineView],
  ['kernels', 'Kernels', kernelsView], ['strategies', 'Strategies', strategiesView]].concat(OTHER.length ? [['difference', 'Difference', differenceView]] : []);
function openTab(name) {
  const found = TABS.find(tab => tab[0] === name) || TABS[0];
  if (page.view && page.view.leave) page.view.leave();
  page.tab = found[0];
  for (const button of byId('tabs').children) button.setAttribute('aria-selected', button.dataset.tab === found[0]);
  hideTip();
  byId('main').replaceChildren();
  page.view = found[2](byId('main')) || {};
  if (location.hash.slice(1) !== found[0]) history.replaceState(null, '', '#' + found[0]);
}
function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  readPalette();
  if (page.view && page.view.paint) page.view.paint.redraw();
}
byId('tabs').append(...TABS.map(([name, title]) => el('button', {role: 'tab', 'data-tab': name, onclick: () => openTab(name)}, title)));
byId('title').textContent = DATA.title || '';
document.title = (DATA.title ? DATA.title + ' · ' : '') + 'Trireme';
byId('run').append(...RUNS.map((run, i) => el('option', {value: i}, run.process.name || 'process ' + run.process.pid)));
byId('run').hidden = RUNS.length < 2;
byId('run').addEventListener('change', event => { page.run = +event.target.value; openTab(page.tab); });
byId('theme').addEventListener('click', () => setTheme(document.documentElement.dataset.theme !== 'dark'));
document.addEventListener('keydown', event => {
  if (event.key === '/' && !event.target.matches('input, select') && byId('search')) { event.preventDefault(); byId('search').focus(); }
});
setTheme(matchMedia('(prefers-color-scheme: dark)').matches);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', event => setTheme(event.matches));
openTab(location.hash.slice(1) || 'graph');
page.ready = performance.now();
