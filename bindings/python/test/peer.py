# SPDX-License-Identifier: MIT
"""Other processes for the tests of all modules."""
import multiprocessing
import os
import signal

LIMIT = 60  # seconds, so that a test does not hang; less than its time limit in meson, after which it cannot clean up
spawn = multiprocessing.get_context("spawn")


class Peer:
    """Another process, which runs function(pipe, *arguments) and first sends an object over the pipe."""

    def __init__(self, function, *arguments):
        self.pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(target=function, args=(theirs, *arguments), daemon=True)
        self.process.start()
        theirs.close()
        self.first = self.answer()

    def answer(self):
        assert self.pipe.poll(LIMIT)
        return self.pipe.recv()

    def ask(self, what):
        self.pipe.send(what)
        return self.answer()

    def stop(self):
        os.kill(self.process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def go_on(self, *_):
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self):
        self.process.kill()
        self.process.join(LIMIT)


def close_in_child(handle):
    """Closes the inherited handle in a forked child."""
    child = os.fork()
    if child == 0:
        handle.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
