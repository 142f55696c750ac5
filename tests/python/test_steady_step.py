"""A steady step, from the Python call down: nothing is looked up by name, whichever way it runs."""
import pytest

import _trireme as _C
import paddle.fluid as fluid
from parallel_toy import Toy, batch, started


class Normed(Toy):
    """With statistics that every place has copies of, which are merged at the end of a step."""

    def __init__(self):
        fluid.default_startup_program().random_seed = 5
        hidden = fluid.layers.batch_norm(fluid.layers.fc(fluid.layers.data('X', [1]), 10))
        self.loss = fluid.layers.mean(fluid.layers.square(hidden))
        fluid.optimizer.Momentum(learning_rate=0.01, momentum=0.9).minimize(self.loss)
        self.main = fluid.default_main_program()
        self.exe = started()


def plain(toy):
    return toy.main


def compiled(toy):
    return fluid.CompiledProgram(toy.main)


def one_place(toy):
    return toy.parallel(1)


def two_places(toy):
    return toy.parallel(2)


def places_of_the_environment(toy):
    return fluid.CompiledProgram(toy.main).with_data_parallel(loss_name=toy.loss.name)


@pytest.mark.parametrize('net', [Toy, Normed])
@pytest.mark.parametrize('way', [plain, compiled, one_place, two_places, places_of_the_environment])
def test_a_step_looks_nothing_up(monkeypatch, net, way):
    monkeypatch.setenv('CPU_NUM', '2')
    toy = net()
    program, feed = way(toy), {'X': batch()}
    for _ in range(2):
        toy.run(program, feed)
    before = _C.name_lookups()
    assert before > 0  # programs are built and plans made by names
    for _ in range(3):
        toy.run(program, feed)
    assert _C.name_lookups() == before


def test_a_list_with_a_dict_per_place_is_taken_by_number():
    toy = Toy()
    program, feed = toy.parallel(2), [{'X': batch(4)}, {'X': batch(6)}]
    for _ in range(2):
        toy.run(program, feed)
    before = _C.name_lookups()
    for _ in range(3):
        toy.run(program, feed)
    assert _C.name_lookups() == before


def test_places_that_are_fed_different_names_are_told_which():
    toy = Toy()
    program = toy.parallel(2)
    given = {'X': batch(4)}
    more = {'X': batch(4), toy.main.all_parameters()[1].name: batch(10).reshape(10)}
    for feed, text in (([given, more], 'device 0 is not fed fc_0.b_0, which device 1 is'),
                       ([more, given], 'device 1 is not fed fc_0.b_0, which device 0 is')):
        with pytest.raises(Exception, match=text):
            toy.run(program, feed)
