"""Readers of several trainers."""
import os

__all__ = ['distributed_batch_reader']


def distributed_batch_reader(batch_reader):
    """Every trainer gets a batch in turn (PADDLE_TRAINERS_NUM, PADDLE_TRAINER_ID).

    A last round that does not reach every trainer is left out: all of them run as many steps.
    """
    trainers = int(os.getenv('PADDLE_TRAINERS_NUM', 1))
    trainer = int(os.getenv('PADDLE_TRAINER_ID', 0))
    if not 0 <= trainer < trainers:
        raise ValueError(f'PADDLE_TRAINER_ID is {trainer}, but there are {trainers} trainers')

    def batches():
        mine = None
        for number, batch in enumerate(batch_reader()):
            if number % trainers == trainer:
                mine = batch
            if number % trainers == trainers - 1:
                yield mine
    return batches
