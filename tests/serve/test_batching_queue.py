"""Jobs that come together are one batch, everyone gets what is theirs, and nobody pays for another's fault."""

from concurrent.futures import wait
from threading import Event, Thread

import pytest

from regard.errors import DataError
from regard.serve.batching_queue import BatchingQueue, BusyError


class Held:
    """Work that waits until it is let go, and remembers its batches."""

    def __init__(self):
        self.go, self.begun, self.batches = Event(), Event(), []

    def __call__(self, things):
        self.begun.set()
        assert self.go.wait(10)
        self.batches.append(things)
        if any(thing < 0 for thing in things):
            raise DataError(f"{min(things)} is negative.")
        return [thing * 10 for thing in things]


@pytest.fixture
def held():
    return Held()


def queue_at_work(held, **options):
    """A queue whose thread has begun a first job and is held in it."""
    queue = BatchingQueue(wait=0, **options)
    first = queue.ask("first", [0], held)
    assert held.begun.wait(10)
    return queue, first


def test_what_comes_together_is_one_batch_and_everyone_gets_their_own(held):
    queue, first = queue_at_work(held, most=6)
    jobs = [
        queue.ask("a", [1, 2], held),
        queue.ask("b", [7], held),
        queue.ask("a", [3], held),
        queue.ask("a", [], held),
    ]
    jobs += [queue.ask("a", [4, 5, 6, 8], held)]  # there is no room for these with the others
    held.go.set()
    assert [job.result(10) for job in jobs] == [[10, 20], [70], [30], [], [40, 50, 60, 80]]
    assert held.batches == [[0], [1, 2, 3], [7], [4, 5, 6, 8]]
    assert first.result() == [0]
    queue.close()


def test_one_at_fault_does_not_harm_the_others(held):
    queue, _ = queue_at_work(held)
    good, bad, other = (queue.ask("a", [thing], held) for thing in (1, -2, 3))
    held.go.set()
    assert (good.result(10), other.result(10)) == ([10], [30])
    with pytest.raises(DataError, match="-2 is negative"):
        bad.result(10)
    queue.close()


def test_a_bug_fails_its_batch_alone_and_too_few_answers_are_a_bug(held):
    held.go.set()
    queue = BatchingQueue(wait=0)
    with pytest.raises(ZeroDivisionError):
        queue.ask("a", [1], lambda things: 1 / 0).result(10)
    with pytest.raises(Exception, match=r".*"):
        queue.ask("a", [1, 2], lambda things: [1]).result(10)
    assert queue.ask("a", [1], held).result(10) == [10]
    queue.close()


def test_what_is_cancelled_is_not_done(held):
    queue, _ = queue_at_work(held)
    jobs = [queue.ask("a", [thing], held) for thing in (1, 2)]
    assert jobs[0].cancel()
    held.go.set()
    assert jobs[1].result(10) == [20]
    assert held.batches == [[0], [2]]
    queue.close()


def test_a_full_desk_says_so_and_a_closed_one_finishes_first(held):
    queue, _ = queue_at_work(held, room=3)
    waiting = queue.ask("a", [1, 2, 3], held)
    with pytest.raises(BusyError):
        queue.ask("a", [4], held)
    closing = Thread(target=queue.close)
    closing.start()
    held.go.set()
    closing.join(10)
    assert waiting.result(0) == [10, 20, 30]
    with pytest.raises(BusyError):
        queue.ask("a", [5], held)


def test_many_threads_get_their_own_answers(held):
    held.go.set()
    queue, jobs = BatchingQueue(most=8, wait=0.002), {}

    def ask(number):
        jobs[number] = [queue.ask("a", [number * 100 + i], held) for i in range(20)]

    threads = [Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait([job for own in jobs.values() for job in own], 10)
    for number, own in jobs.items():
        assert [job.result() for job in own] == [[(number * 100 + i) * 10] for i in range(20)]
    assert max(map(len, held.batches)) <= 8
    queue.close()


def test_answers_that_cannot_be_measured_are_answers_all_the_same(caplog):
    class Failing:
        def queued(self, length):
            pass

        def batch(self, seconds, answers):
            raise TypeError("answers of a kind that nobody counts")

    queue = BatchingQueue(monitor=Failing())
    try:
        for number in (1, 2):
            answer = queue.ask("key", [number], lambda things: [10 * thing for thing in things])
            assert answer.result(10) == [10 * number]
    finally:
        queue.close()
    assert "regard: a batch could not be measured." in caplog.text
