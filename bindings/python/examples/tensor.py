# SPDX-License-Identifier: MIT
"""Moves a tensor between two processes of one host, without a copy in Python.

Both sides use memory from alloc(), which copying threads copy much faster than other memory. The tensor is a memoryview of
two dimensions on this memory. With numpy, use `numpy.frombuffer(memory.view).reshape(SHAPE)` instead; with torch,
`torch.frombuffer(memory.view, dtype=torch.float64).reshape(SHAPE)`. Views must be released before the memory is freed.
"""
import multiprocessing

from mlx5rpc import tent

SHAPE = 500, 1000
NBYTES = 8 * SHAPE[0] * SHAPE[1]


def lend(pipe):
    with tent.Engine(shm_rails=1) as engine:
        memory = engine.alloc(NBYTES)
        pipe.send(engine.export())  # whoever has this text can read and write the memory
        engine.wait_notice()
        with memory.view.cast("d", SHAPE) as tensor:
            print(f"shape {tensor.shape}, last element {tensor[499, 999]}")


def main():
    here, there = multiprocessing.Pipe()
    lender = multiprocessing.Process(target=lend, args=(there,))
    lender.start()
    with tent.Engine(shm_rails=1) as engine:
        memory = engine.alloc(NBYTES)
        with memory.view.cast("d", SHAPE) as tensor:
            for i in range(SHAPE[0]):
                tensor[i, 999] = i + .999
        with engine.connect(here.recv()) as segment:
            moved = engine.write(memory, segment, segment.remotes()[0].addr, notify=1).wait()
    print(moved, "bytes moved")
    lender.join()
    return lender.exitcode


if __name__ == "__main__":
    raise SystemExit(main())
