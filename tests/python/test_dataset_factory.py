"""fluid.DatasetFactory: files of samples, streamed or held, and training on them."""
import random
import subprocess
import sys

import numpy as np
import pytest

import paddle.fluid as fluid

layers = fluid.layers


@pytest.fixture
def variables():
    return [layers.data('ids', [1], dtype='int64', lod_level=1), layers.data('x', [2]),
            layers.data('label', [1], dtype='int64')]


@pytest.fixture
def files(tmp_path):
    """Three files of two samples; the ids say which."""
    for i in range(3):
        rows = [f'{n + 1} ' + ' '.join([str(10 * i + n)] * (n + 1)) + f' 2 {i}.5 {n} 1 {n}' for n in range(2)]
        (tmp_path / f'part-{i}').write_text('\n'.join(rows) + '\n')
    return [str(tmp_path / f'part-{i}') for i in range(3)]


def made(kind, variables, files, batch_size=2, thread=1):
    dataset = fluid.DatasetFactory().create_dataset(kind)
    dataset.set_use_var(variables)
    dataset.set_batch_size(batch_size)
    dataset.set_filelist(files)
    dataset.set_thread(thread)
    return dataset


def firsts(batches):
    return [[np.array(b['ids'])[at, 0] for at in b['ids'].lod()[0][:-1]] for b in batches]


def test_a_batch_has_lod_where_the_variable_has(variables, files):
    batch = next(made('QueueDataset', variables, files)._batches(1))
    assert batch['ids'].recursive_sequence_lengths() == [[1, 2]] and batch['ids'].shape() == [3, 1]
    assert np.array(batch['x']).tolist() == [[0.5, 0], [0.5, 1]]
    assert np.array(batch['label']).tolist() == [[0], [1]]


def test_a_queue_reads_as_many_files_at_a_time_as_it_has_threads(variables, files):
    assert firsts(made('QueueDataset', variables, files, 4)._batches(1)) == [[0, 1, 10, 11], [20, 21]]
    assert firsts(made('QueueDataset', variables, files, 4)._batches(2)) == [[0, 1, 20, 21], [10, 11]]
    with pytest.raises(NotImplementedError, match='InMemoryDataset'):
        made('QueueDataset', variables, files).local_shuffle()


def test_samples_in_memory_can_be_shuffled(variables, files):
    dataset = made('InMemoryDataset', variables, files, 6, thread=2)
    with pytest.raises(RuntimeError, match='load_into_memory'):
        dataset.local_shuffle()
    dataset.load_into_memory()
    assert dataset.get_memory_data_size() == 6
    assert firsts(dataset._batches(1)) == [[0, 1, 10, 11, 20, 21]]
    random.seed(1)
    dataset.global_shuffle()
    shuffled, = firsts(dataset._batches(1))
    assert sorted(shuffled) == [0, 1, 10, 11, 20, 21] != shuffled
    dataset.release_memory()
    with pytest.raises(RuntimeError, match='load_into_memory'):
        dataset.get_memory_data_size()


def test_a_pipe_command_makes_the_lines(variables, tmp_path):
    (tmp_path / 'raw').write_text('7\n')
    dataset = made('QueueDataset', variables, [str(tmp_path / 'raw')])
    dataset.set_pipe_command("sed 's/.*/1 & 2 & & 1 &/'")
    assert firsts(dataset._batches(1)) == [[7]]
    dataset.set_pipe_command('exit 3')
    with pytest.raises(RuntimeError, match='ended with 3'):
        list(dataset._batches(1))


@pytest.mark.parametrize('line, problem', [
    ('1 4 2 1 1', 'not a sample'),
    ('2 4 2 1 1 1 0', 'label'),
    ('1 4 3 1 1 1 1 0', r'x has 3 values for the shape \[2\]'),
    ('0 2 1 1 1 0', 'an empty one must be padded'),
    ('1 4 2 1 1 1 0 9', '1 words are left over'),
    ('1 a 2 1 1 1 0', "'a'"),
])
def test_a_wrong_line_is_shown(variables, tmp_path, line, problem):
    (tmp_path / 'part').write_text(line + '\n')
    with pytest.raises(ValueError, match=problem):
        list(made('QueueDataset', variables, [str(tmp_path / 'part')])._batches(1))


def test_training_consumes_the_dataset(exe, fresh, variables, files, capsys):
    ids, x, label = variables
    pooled = layers.sequence_pool(layers.embedding(ids, [30, 4], is_sparse=True), 'sum')
    predict = layers.fc([pooled, x], 2, act='softmax')
    loss = layers.mean(layers.cross_entropy(predict, label))
    fluid.optimizer.SGD(0.2).minimize(loss)
    exe.run(fresh[1])
    dataset = made('InMemoryDataset', variables, files)
    dataset.load_into_memory()
    seen = []

    class Handler(fluid.executor.FetchHandler):
        def handler(self, res_dict):
            seen.append(res_dict['loss'].item())
    for _ in range(30):
        assert exe.train_from_dataset(fresh[0], dataset, thread=2, fetch_list=[loss], fetch_info=['the loss'],
                                      print_period=2, fetch_handler=Handler({'loss': loss}, 0)) is None
    assert len(seen) == 90 and np.mean(seen[-3:]) < 0.5 * np.mean(seen[:3])
    assert capsys.readouterr().out.count('batch: 2, the loss: [') == 30
    exe.infer_from_dataset(fresh[0].clone(for_test=True), dataset, debug=True)
    assert '3 batches in' in capsys.readouterr().out


def test_misuse_of_train_from_dataset(exe, fresh, variables, files):
    with pytest.raises(RuntimeError, match='no dataset to run over'):
        exe.train_from_dataset(fresh[0])
    with pytest.raises(TypeError, match='DatasetFactory, got int'):
        exe.train_from_dataset(fresh[0], dataset=1)
    with pytest.raises(RuntimeError, match='how many files to read'):
        exe.train_from_dataset(fresh[0], made('QueueDataset', variables, files, thread=0))
    with pytest.raises(AssertionError):
        exe.train_from_dataset(fresh[0], made('QueueDataset', variables, files), fetch_list=['x'], fetch_info=['a', 'b'])
    with pytest.raises(ValueError, match='NoDataset does not exist'):
        fluid.DatasetFactory().create_dataset('NoDataset')
    with pytest.raises(ValueError, match='float32 or int64'):
        made('QueueDataset', [layers.data('z', [1], dtype='float64')], files)
    with pytest.raises(RuntimeError, match='set_use_var'):
        list(fluid.DatasetFactory().create_dataset()._batches(1))


def test_a_loader_from_a_dataset(exe, variables, files):
    out = layers.reduce_sum(variables[1])
    loader = fluid.io.DataLoader.from_dataset(made('QueueDataset', variables, files), fluid.cpu_places(1))
    assert [exe.run(feed=feed, fetch_list=[out])[0].item() for feed in loader()] == [2, 4, 6]


GENERATOR = '''
import paddle.fluid.incubate.data_generator as dg

class Words(dg.MultiSlotDataGenerator):
    def generate_sample(self, line):
        def local_iter():
            ids = [int(word) for word in line.split()]
            yield [('ids', ids), ('x', [0.5, 1.0]), ('label', [len(ids) % 2])]
        return local_iter

Words().run_from_stdin()
'''


def test_a_data_generator_is_a_pipe_command(variables, tmp_path):
    (tmp_path / 'generate.py').write_text(GENERATOR)
    (tmp_path / 'raw').write_text('4 5 6\n7 8\n')
    out = subprocess.run([sys.executable, str(tmp_path / 'generate.py')], input='4 5 6\n7 8\n',
                         capture_output=True, text=True, check=True)
    assert out.stdout == '3 4 5 6 2 0.5 1.0 1 1\n2 7 8 2 0.5 1.0 1 0\n'
    dataset = made('QueueDataset', variables, [str(tmp_path / 'raw')])
    dataset.set_pipe_command(f'{sys.executable} {tmp_path}/generate.py')
    batch, = dataset._batches(1)
    assert batch['ids'].recursive_sequence_lengths() == [[3, 2]]


def test_a_data_generator_checks_its_samples():
    generator = fluid.incubate.data_generator.MultiSlotDataGenerator()
    with pytest.raises(ValueError, match='pad it'):
        generator._gen_str([('ids', [])])
    with pytest.raises(ValueError, match="the first one had \\['ids'\\]"):
        generator._gen_str([('words', [1])])
    with pytest.raises(ValueError, match='must be int or float, got str'):
        generator._gen_str([('ids', ['a'])])
    strings = fluid.incubate.data_generator.MultiSlotStringDataGenerator()
    assert strings._gen_str([('ids', ['1', '2'])]) == '2 1 2\n'


def test_ids_are_read_and_merged(variables, tmp_path):
    lines = ['1 a 1 4 2 1 1 1 0', '1 b 1 5 2 1 1 1 0', '1 a 2 6 7 2 1 1 1 0', '1 c 1 8 2 1 1 1 0']
    (tmp_path / 'part').write_text('\n'.join(lines))
    dataset = made('InMemoryDataset', variables, [str(tmp_path / 'part')], 4)
    dataset.set_merge_by_lineid(2)
    dataset.load_into_memory()
    with pytest.warns(UserWarning, match='2 samples are dropped'):
        dataset.global_shuffle()
    batch, = dataset._batches(1)
    assert np.array(batch['ids'])[:, 0].tolist() == [4, 6, 7] and np.array(batch['x']).tolist() == [[1, 1]]


def test_content_is_read_over(variables, tmp_path):
    (tmp_path / 'part').write_text('1 the_content 1 4 2 1 1 1 0\n')
    dataset = made('InMemoryDataset', variables, [str(tmp_path / 'part')])
    dataset.set_parse_content(True)
    dataset.load_into_memory()
    assert firsts(dataset._batches(1)) == [[4]]


def test_ids_of_64_bits_keep_their_bits(variables, tmp_path):
    (tmp_path / 'part').write_text(f'2 {2**64 - 1} -3 2 1e-3 .5 1 0\n')
    batch = next(made('QueueDataset', variables, [str(tmp_path / 'part')])._batches(1))
    assert np.array(batch['ids'])[:, 0].tolist() == [-1, -3]
    np.testing.assert_allclose(np.array(batch['x']), [[1e-3, .5]])


def test_files_may_be_fetched_by_a_command(variables, tmp_path, monkeypatch):
    dataset = made('QueueDataset', variables, ['7', "it's 8"])
    dataset.set_download_cmd('echo')
    dataset.set_pipe_command("sed 's/[^0-9]//g;s/.*/1 & 2 & & 1 &/'")
    assert firsts(dataset._batches(1)) == [[7, 8]]
    (tmp_path / 'hadoop').write_text('#!/bin/sh\n[ "$3" = "hadoop.job.ugi=me,secret" ] || shift\necho "$@" >&2\n'
                                     'for last; do :; done\necho "1 $last 2 1 1 1 0"\n')
    (tmp_path / 'hadoop').chmod(0o755)
    monkeypatch.setenv('PATH', str(tmp_path), prepend=':')
    dataset = made('QueueDataset', variables, ['9'])
    dataset.set_hdfs_config('hdfs://there:9000', 'me,secret')
    assert firsts(dataset._batches(1)) == [[9]]


def test_a_reader_that_is_left_ends_its_commands(variables, tmp_path):
    (tmp_path / 'raw').write_text('')
    dataset = made('QueueDataset', variables, [str(tmp_path / 'raw')], 1)
    dataset.set_pipe_command('echo 1 4 2 1 1 1 0; exec sleep 1000')
    batches = dataset._batches(1)
    next(batches)
    batches.close()  # returns, and does not wait for the command


def test_a_missing_file_is_named(variables, tmp_path):
    for kind in ('QueueDataset', 'InMemoryDataset'):
        dataset = made(kind, variables, [str(tmp_path / 'none')])
        with pytest.raises(OSError, match='none cannot be read'):
            if kind == 'InMemoryDataset':
                dataset.load_into_memory()
            list(dataset._batches(1))


def test_no_files_are_no_batches(variables):
    assert list(made('QueueDataset', variables, [])._batches(3)) == []


def test_the_description_is_the_originals(variables):
    dataset = made('QueueDataset', variables[:2], [], 4)
    dataset.set_pipe_command('cat x')
    assert dataset.desc() == '''name: "MultiSlotDataFeed"
batch_size: 4
multi_slot_desc {
  slots {
    name: "ids"
    type: "uint64"
    is_used: true
  }
  slots {
    name: "x"
    type: "float"
    is_dense: true
    is_used: true
    shape: -1
    shape: 2
  }
}
pipe_command: "cat x"
'''


def test_what_is_for_search_logs_says_so(variables):
    dataset = fluid.DatasetFactory().create_dataset('InMemoryDataset')
    for use in (lambda: dataset.set_parse_logkey(True), lambda: dataset.set_rank_offset('r'),
                lambda: dataset.set_merge_by_sid(True), lambda: dataset.set_enable_pv_merge(True)):
        with pytest.raises(NotImplementedError, match='search'):
            use()
    dataset.set_queue_num(3)
    with pytest.raises(ValueError, match='queue_num'):
        dataset.set_queue_num(0)
