# SPDX-License-Identifier: MIT
"""Tests of tent with memory of any kind. TENT_RAILS in the environment, or the argument of the program, is the kind of the rails."""
import ctypes
import os
import random
import sys
import unittest

from mlx5rpc import tent
from peer import LIMIT

KIND = os.environ.setdefault("TENT_RAILS", *sys.argv[1:])  # child processes get it from the environment
RAILS = {} if KIND == "adapters" else {f"{KIND}_rails": 2}
SIZE = 1 << 20
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Test(unittest.TestCase):
    """
    self.lender is another process, which lends SIZE bytes (self.there). Asked for "bytes", it replies with their content.
    """

    def connect(self, memory):
        self.engine = tent.Engine(**RAILS)
        self.addCleanup(self.engine.close)
        self.registered = self.engine.register(memory)
        self.segment = self.engine.connect(self.lender.first)
        [self.there] = self.segment.remotes()


class Moves(Test):
    """The subclass has set(data) and get() for the bytes of its own memory, and request(rand, op, at, n), which returns a
    request for n of these bytes."""

    def test_bytes_arrive(self):
        """Requests of random length and position, whose effect a model predicts."""
        rand = random.Random(1)
        model = bytearray(self.lender.ask("bytes"))
        self.assertEqual(self.there.len, SIZE)
        for _ in range(20):
            here, requests = bytearray(rand.randbytes(SIZE)), []
            self.set(here)
            cuts = sorted(rand.sample(range(SIZE + 1), 9))
            for at, end in zip(cuts, cuts[1:]):
                op = rand.choice(list(tent.Op))
                requests.append(self.request(rand, op, at, end - at))
                if op == tent.Op.WRITE:
                    model[at:end] = here[at:end]
                else:
                    here[at:end] = model[at:end]
            batch = self.engine.submit(requests)
            self.assertEqual(batch.wait(LIMIT), cuts[-1] - cuts[0])
            self.assertEqual(batch.status(7), (tent.State.COMPLETED, 0, cuts[-1] - cuts[-2]))
            with self.assertRaises(IndexError):
                batch.status(8)
            batch.close()
            self.assertEqual(self.get(), here)
        self.assertEqual(self.lender.ask("bytes"), model)
