# SPDX-License-Identifier: MIT
"""Moves a tensor between the memory of GPUs of two processes of one host.

The engine accepts any object with `__dlpack__`, or with `data_ptr` as below. With torch, pass a tensor itself to register(),
write() and read(): `torch.zeros(1000, device="cuda")` in place of Floats(1000). Between hosts the rails are adapters or TCP.
"""
import array
import ctypes
import multiprocessing
import types

from mlx5rpc import tent

COUNT = 500_000


def driver():
    """Loads the driver, and makes the context of GPU 0 current."""
    cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    cuda.cuMemcpy.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t]
    cuda.cuCtxPushCurrent_v2.argtypes = [ctypes.c_void_p]
    if cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cuda.cuCtxPushCurrent_v2(context):
        raise SystemExit("there is no GPU")
    return cuda


class Floats:
    """Some numbers in the memory of GPU 0."""

    device = types.SimpleNamespace(type="cuda", index=0)

    def __init__(self, cuda, count):
        self.cuda, self.count, at = cuda, count, ctypes.c_uint64()
        if cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(4 * count)):
            raise MemoryError
        self.at = at.value

    def data_ptr(self):
        return self.at

    def numel(self):
        return self.count

    def element_size(self):
        return 4

    def is_contiguous(self):
        return True

    def set(self, numbers):
        assert not self.cuda.cuMemcpy(self.at, numbers.buffer_info()[0], 4 * self.count)

    def get(self):
        numbers = array.array("f", bytes(4 * self.count))
        assert not self.cuda.cuMemcpy(numbers.buffer_info()[0], self.at, 4 * self.count)
        return numbers


def lend(pipe):
    tensor = Floats(driver(), COUNT)
    with tent.Engine(gpu_rails=1) as engine:
        engine.register(tensor)
        pipe.send(engine.export())  # whoever has this text can read and write the memory
        engine.wait_notice()
        numbers = tensor.get()
        print("last element", numbers[-1])
        assert numbers == array.array("f", range(COUNT))


def main():
    here, there = multiprocessing.Pipe()
    lender = multiprocessing.Process(target=lend, args=(there,))
    lender.start()  # before this process loads the driver, which a forked child cannot use
    tensor = Floats(driver(), COUNT)
    tensor.set(array.array("f", range(COUNT)))
    with tent.Engine(gpu_rails=1) as engine:
        engine.register(tensor)
        with engine.connect(here.recv()) as segment:
            moved = engine.write(tensor, segment, segment.remotes()[0].addr, notify=1).wait()
    print(moved, "bytes moved")
    lender.join()
    return lender.exitcode


if __name__ == "__main__":
    raise SystemExit(main())
