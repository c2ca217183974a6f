import pytest

from gateway.wire.stall import Stall

SECONDS = 30.0


class Client:
    """A client's connection, and the loop that its times run in.

    Attributes:
        unread: Bytes that it has yet to read.
        waits: Whether somebody will look at it again.
        aborted: Whether it was given up.
    """

    def __init__(self):
        self.unread = 100
        self.waits = self.aborted = False
        self.stall = Stall(self, self, SECONDS, self._abort)

    def call_later(self, seconds, look):
        assert (seconds, self.waits) == (SECONDS, False)
        self.waits, self._look = True, look
        return self

    def get_write_buffer_size(self):
        return self.unread

    def pass_time(self):
        """It is looked at."""
        self.waits = False
        self._look()

    def _abort(self):
        self.aborted = True


def test_a_client_that_reads_nothing_is_given_up():
    client = Client()
    client.stall.begin()
    client.pass_time()
    assert (client.aborted, client.waits) == (True, False)


@pytest.mark.parametrize("grows", [0, 50], ids=["nothing more is written", "more is written"])
def test_a_client_that_reads_a_little_is_waited_for_again(grows):
    client = Client()
    client.stall.begin()
    for _ in range(3):
        client.unread -= 1
        client.pass_time()
        assert (client.aborted, client.waits) == (False, True)
    client.unread += grows
    client.pass_time()
    assert client.aborted


def test_a_client_that_has_caught_up_is_not_looked_at_until_it_falls_behind_again():
    client = Client()
    client.stall.begin()
    client.stall.end()
    client.pass_time()
    assert (client.aborted, client.waits) == (False, False)
    client.stall.begin()
    client.pass_time()
    assert client.aborted


def test_a_client_that_had_caught_up_in_between_gets_all_of_the_time_again():
    client = Client()
    client.stall.begin()
    client.stall.end()
    client.unread += 100
    client.stall.begin()
    client.pass_time()
    assert (client.aborted, client.waits) == (False, True)
    client.pass_time()
    assert client.aborted
