"""The page of paddle.view in a real browser: five examples open without an error, and do what a hand asks of them.

`make test-page` installs Chromium and runs this. With PAGE_SHOTS=FOLDER it leaves pictures of every tab, light and
dark, to be looked at.
"""
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import Select, WebDriverWait

import _trireme
import paddle.fluid as fluid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLES = os.path.join(ROOT, 'examples')
HOSTGPU = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(_trireme.__file__))), 'tests', 'libhostgpu.so')
VIEW = ['-m', 'paddle.view', '--stop-after', '12', '-o']
ON_GPU = '''
import runpy, sys
import paddle.fluid as fluid
fluid.CPUPlace = lambda: fluid.CUDAPlace(0)
sys.path.insert(0, {folder!r})
sys.argv = [{script!r}, 'conv']
runpy.run_path(sys.argv[0], run_name='__main__')
'''.format(folder=os.path.join(EXAMPLES, 'fluid'), script=os.path.join(EXAMPLES, 'fluid', 'recognize_digits.py'))
PAGES = ['convolutions', 'loop', 'places', 'servers', 'device']


def command_of(name, folder):
    page = str(folder / f'{name}.html')
    fluid_example = lambda program: os.path.join(EXAMPLES, 'fluid', program)  # noqa: E731
    if name == 'convolutions':
        return VIEW + [page, fluid_example('recognize_digits.py'), 'conv'], {}
    if name == 'loop':
        return VIEW + [page, fluid_example('understand_sentiment.py'), 'dynamic_rnn'], {}
    if name == 'places':
        return VIEW + [page, os.path.join(EXAMPLES, 'demo.py')], {}
    if name == 'servers':
        return ['-m', 'paddle.distributed.launch_ps', '--server_num', '1', '--worker_num', '1', '--log_dir', str(folder / 'logs'),
                '--view', page, os.path.join(EXAMPLES, 'distributed', 'regression.py')], {}
    script = folder / 'on_gpu.py'
    script.write_text(ON_GPU)
    return VIEW + [page, str(script)], {'FLAGS_gpu_library': HOSTGPU}


@pytest.fixture(scope='session')
def pages(tmp_path_factory):
    """Paths by name; all are made at the same time."""
    folder = tmp_path_factory.mktemp('pages')
    running = {}
    for name in PAGES:
        command, more = command_of(name, folder)
        running[name] = subprocess.Popen([sys.executable, *command], cwd=folder, env={**os.environ, **more, 'PYTHONPATH': os.pathsep.join(sys.path)},
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for name, process in running.items():
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, f'{name}: {said}'
    return {name: str(folder / f'{name}.html') for name in PAGES}


@pytest.fixture(scope='session')
def browser():
    options = webdriver.ChromeOptions()
    for word in ('--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--window-size=1400,900', '--hide-scrollbars'):
        options.add_argument(word)
    options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
    driver = webdriver.Chrome(service=Service('/usr/bin/chromedriver'), options=options)
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


class Page:
    def __init__(self, driver, path):
        self.driver = driver
        driver.get('about:blank')
        driver.get('file://' + path)
        WebDriverWait(driver, 30).until(lambda d: d.execute_script('return window.page && page.ready'))

    def js(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def settled(self):
        """Until the canvas stands as the state says."""
        self.driver.execute_async_script('const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done(1)))')

    def open(self, tab):
        self.driver.find_element(By.CSS_SELECTOR, f'[data-tab={tab}]').click()
        self.settled()

    def pointer(self, place, click=False):
        builder = ActionBuilder(self.driver)
        builder.pointer_action.move_to_location(int(place['x']), int(place['y']))
        if click:
            builder.pointer_action.click()
        builder.perform()
        self.settled()

    def wheel(self, element, down):
        ActionChains(self.driver).scroll_from_origin(ScrollOrigin.from_element(element), 0, down).perform()
        self.settled()

    def tip(self):
        return '' if self.js("return byId('tip').hidden") else self.driver.find_element(By.ID, 'tip').text

    def check_quiet(self):
        said = [line for line in self.driver.get_log('browser') if line['level'] in ('SEVERE', 'WARNING')]
        assert not said and self.js('return page.errors') == [], said

    def take_trained(self):
        """Of several processes one that trains."""
        number = self.js('return RUNS.findIndex(run => run.plan)')
        if self.js('return RUNS.length') > 1:
            Select(self.driver.find_element(By.ID, 'run')).select_by_value(str(number))
            self.settled()


@pytest.fixture(params=PAGES)
def page(request, pages, browser):
    made = Page(browser, pages[request.param])
    made.name = request.param
    made.take_trained()
    yield made
    made.check_quiet()


def test_a_group_folds_and_unfolds_where_it_is_clicked(page):
    leaves = 'return page.view.state.laid.leaves.length'
    before = page.js(leaves)
    place = page.js("return page.view.place(page.view.state.laid.frames.find(f => f.kind === 'role'))")
    page.pointer(place, click=True)
    folded = page.js(leaves)
    assert folded < before
    page.pointer(page.js("return page.view.place(page.view.state.laid.leaves.find(f => f.kind === 'role'))"), click=True)
    assert page.js(leaves) == before
    page.driver.find_element(By.ID, 'fold').click()
    assert page.js(leaves) <= 4
    page.driver.find_element(By.ID, 'unfold').click()
    ops = page.js('return RUNS[page.run].program.blocks.reduce((n, b) => n + b.ops.length, 0)')
    frames = page.js("return page.view.state.laid.frames.filter(f => f.kind === 'block').length")
    assert page.js(leaves) + frames == ops


def test_search_finds_an_op_and_shows_its_attributes_shapes_and_line(page):
    wanted = {'convolutions': 'conv2d', 'loop': 'while', 'places': 'conv2d', 'servers': 'send', 'device': 'conv2d'}[page.name]
    box = page.driver.find_element(By.ID, 'search')
    box.send_keys(wanted)
    assert page.driver.find_element(By.ID, 'found').text.endswith('found')
    box.send_keys(Keys.ENTER)
    page.settled()
    assert page.driver.find_element(By.ID, 'found').text.startswith('1 of ')
    said = page.driver.find_element(By.ID, 'details').text
    assert wanted in said.splitlines()[0]
    assert 'INPUTS' in said and '.py:' in said
    if wanted == 'conv2d':
        assert 'strides' in said and 'float32 [' in said and 'IN THE PLAN' in said
    box.clear()
    box.send_keys('no such thing')
    assert page.driver.find_element(By.ID, 'found').text == 'nothing found'


def test_passes_are_stepped_through_with_before_and_after(page):
    page.open('passes')
    steps = page.driver.find_elements(By.CSS_SELECTOR, '#steps button')
    changed = [step for step in steps if '→' in step.text]
    assert len(steps) == page.js('return RUNS[page.run].passes.steps.length') and changed
    for step in changed:
        step.click()
        assert page.driver.find_elements(By.CSS_SELECTOR, '#pair .new') or page.driver.find_elements(By.CSS_SELECTOR, '#pair .gone')
    steps[0].click()
    assert not page.driver.find_elements(By.CSS_SELECTOR, '#pair .new')
    ActionChains(page.driver).send_keys(Keys.ARROW_DOWN).perform()
    assert steps[1].get_attribute('aria-pressed') == 'true'
    # What the last step leaves is what the plan has.
    nodes = page.js('return ordersAfter(RUNS[page.run].passes, RUNS[page.run].passes.steps.length - 1)[0].length')
    assert nodes == page.js('return RUNS[page.run].plan.frames[0].instructions.length')


def test_memory_says_who_owns_what_is_under_the_pointer(page):
    page.open('memory')
    box = page.js('''const boxes = page.view.state.boxes.filter(b => b.names[0] && b.bytes), best = boxes.reduce((p, q) => q.bytes > p.bytes ? q : p);
        return {name: best.names[0], place: page.view.place(best), first: best.first, last: best.last}''')
    page.pointer(box['place'])
    assert box['name'] in page.tip() and f'#{box["first"]} to #{box["last"]}' in page.tip()
    assert page.driver.find_elements(By.CSS_SELECTOR, '#peak tr')
    # No two boxes that live at the same time share a byte: the picture is that of the plan.
    assert page.js('''const b = page.view.state.boxes.filter(x => x.slot && x.slot.offset !== undefined && x.bytes);
        return b.every((p, i) => b.every((q, j) => j <= i || p.last < q.first || q.last < p.first || p.offset + p.bytes <= q.offset ||
        q.offset + q.bytes <= p.offset || p.offset === q.offset))''')


def test_the_timeline_zooms_and_says_what_ran(page):
    page.open('timeline')
    span = 'return page.view.state.to - page.view.state.from'
    before, canvas = page.js(span), page.driver.find_element(By.CSS_SELECTOR, '#timeline canvas')
    page.wheel(canvas, -400)
    assert page.js(span) < before
    page.driver.find_element(By.ID, 'all').click()
    page.settled()
    assert page.js(span) > before
    names = set(page.js('return page.view.lanes.map(lane => lane.name)'))
    whom = [each for each in page.js('return page.view.lanes.flatMap(lane => lane.events).map(e => e.whom)') if each]
    if page.name == 'places':
        assert {'replica 0', 'replica 1'} <= names and {'replica 0', 'replica 1'} <= set(whom)
    if page.name == 'servers':
        assert len(set(page.js('return page.view.lanes.map(lane => lane.process)'))) == 2
        assert any('127.0.0.1' in each for each in whom), whom
    if page.name == 'device':
        assert {'device: compute', 'device: upload', 'device: download'} <= names


def test_kernels_stand_beside_their_floors_and_strategies_say_what_became_of_them(page):
    page.open('kernels')
    rows = page.driver.find_elements(By.CSS_SELECTOR, '#kernels tbody tr')
    assert len(rows) == page.js('return page.view.rows.length') > 3
    page.driver.find_element(By.CSS_SELECTOR, '#kernels th').click()
    ops = [cell.text for cell in page.driver.find_elements(By.CSS_SELECTOR, '#kernels tbody tr td:first-child')]
    assert len(set(ops)) > 1 and ops in (sorted(ops), sorted(ops, reverse=True))
    if page.name != 'device':
        assert page.js('return page.view.rows.some(row => row.floor > 0)')
    page.open('strategies')
    said = page.driver.find_element(By.ID, 'main').text
    assert 'reduce_strategy' in said and 'honoured' in said if page.name == 'places' else 'default' in said


def test_every_tab_is_there_in_light_and_dark(page):
    folder = os.environ.get('PAGE_SHOTS')
    for theme in ('light', 'dark'):
        page.driver.execute_cdp_cmd('Emulation.setEmulatedMedia', {'features': [{'name': 'prefers-color-scheme', 'value': theme}]})
        WebDriverWait(page.driver, 10).until(lambda d: page.js('return document.documentElement.dataset.theme') == theme)
        for tab in ('graph', 'passes', 'memory', 'timeline', 'kernels', 'strategies'):
            page.open(tab)
            assert page.js("return byId('main').children.length")
            if folder:
                os.makedirs(folder, exist_ok=True)
                page.driver.save_screenshot(os.path.join(folder, f'{page.name}_{tab}_{theme}.png'))


def own_program(count, name='x'):
    """A chain of `count` ops over a variable of this name."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        value = fluid.data(name, [None, 4])
        for _ in range(count):
            value = fluid.layers.tanh(value)
        out = fluid.layers.reduce_sum(value)
    return main, out


def viewed(path, program, feed, fetch, times=False):
    exe = fluid.Executor(fluid.CPUPlace())
    compiled = fluid.CompiledProgram(program)
    exe.run(compiled, feed=feed, fetch_list=[fetch])
    compiled.view(str(path), **({'feed': feed, 'fetch_list': [fetch]} if times else {}))
    return str(path)


def test_names_that_are_markup_do_no_harm(tmp_path, browser):
    name = '</script><script>window.hurt = 1</script><img src=x onerror="window.hurt = 2">&amp;\u2028'
    main, out = own_program(3, name)
    feed = {name: np.ones((2, 4), 'float32')}
    opened = Page(browser, viewed(tmp_path / 'page.html', main, feed, out, times=True))
    for tab in ('graph', 'passes', 'memory', 'timeline', 'kernels', 'strategies'):
        opened.open(tab)
    opened.open('graph')
    opened.driver.find_element(By.ID, 'search').send_keys('onerror', Keys.ENTER)
    assert name.replace('\u2028', '') in opened.driver.find_element(By.ID, 'details').text.replace('\u2028', '').replace('\n', '')
    assert opened.js('return window.hurt === undefined && !document.querySelector("img")')
    opened.check_quiet()


def test_ten_thousand_ops_draw_only_what_is_seen(tmp_path, browser):
    main, out = own_program(10000)
    opened = Page(browser, viewed(tmp_path / 'large.html', main, {'x': np.ones((2, 4), 'float32')}, out))
    print(f'ready after {opened.js("return page.ready"):.0f} ms, {os.path.getsize(tmp_path / "large.html") / 1e6:.1f} MB')
    opened.driver.find_element(By.ID, 'unfold').click()
    opened.settled()
    assert opened.js('return page.view.state.laid.leaves.length') > 10000
    assert opened.js('return page.view.state.shown') < 100
    opened.wheel(opened.driver.find_element(By.CSS_SELECTOR, '#graph canvas'), 300)
    print(f'a frame takes {opened.js("return page.view.paint.took"):.1f} ms')
    opened.open('passes')
    opened.check_quiet()


def test_two_runs_are_compared(tmp_path, browser):
    reports = []
    for count in (3, 5):
        script = tmp_path / f'run{count}.py'
        script.write_text("import numpy as np, paddle.fluid as fluid\n"
                          f"x = fluid.data('x', [None, 4])\ny = x\nfor _ in range({count}): y = fluid.layers.tanh(y)\nexe = fluid.Executor()\n"
                          "for _ in range(3): exe.run(feed={'x': np.ones((2, 4), 'float32')}, fetch_list=[y])\n")
        reports.append(str(tmp_path / f'run{count}.json'))
        subprocess.run([sys.executable, '-m', 'paddle.view', str(script), '--data', reports[-1]], check=True, timeout=120,
                       env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)})
    subprocess.run([sys.executable, '-m', 'paddle.view', reports[1], '--against', reports[0], '-o', str(tmp_path / 'both.html'),
                    '--trace', str(tmp_path / 'trace.json')], check=True, timeout=120, env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)})
    opened = Page(browser, str(tmp_path / 'both.html'))
    opened.open('difference')
    said = opened.driver.find_element(By.ID, 'difference').text
    assert 'tanh 3 5' in said and 'a step' in said
    opened.check_quiet()
    events = json.loads((tmp_path / 'trace.json').read_text())['traceEvents']
    assert sum(event.get('name') == 'step' for event in events) == 3


def test_the_certificate_is_a_page_too(tmp_path, browser):
    from paddle.certify import certify, page as pages_of_certificates
    main, out = own_program(3)
    found = certify(main, {'x': np.ones((4, 4), 'float32')}, fluid.Scope(), [out.name], title='<b>three</b>')
    assert found['verdict'] == 'the same'
    pages_of_certificates.write_page(str(tmp_path / 'certificate.html'), found)
    browser.get('file://' + str(tmp_path / 'certificate.html'))
    assert 'The same in every way it was run' in browser.find_element(By.TAG_NAME, 'body').text
    assert '<b>three</b>' in browser.find_element(By.ID, 'title').text
    assert not [line for line in browser.get_log('browser') if line['level'] == 'SEVERE']
