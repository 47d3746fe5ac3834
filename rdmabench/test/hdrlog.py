#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads logs of HdrHistogram as its tools do: the encoding V2 with counts in ZigZag LEB128.

    hdrlog.py FIGURES [JAVA JAR]

With JAVA and JAR, HdrHistogram's own HistogramLogProcessor reads a log.
"""
import base64
import re
import struct
import subprocess
import sys
import zlib

HEAD = '''#[Logged with X, values in nanoseconds]
#[Histogram log format version 1.3]
#[StartTime: N (seconds since epoch), D]
"StartTimestamp","Interval_Length","Interval_Max","HdrHistogram"
'''


def counts_of(data):
    """Yields the counts. The number -n stands for n counts of 0."""
    at = 0
    while at < len(data):
        value = 0
        for i in range(9):  # the last of nine bytes has eight bits
            value |= (data[at + i] & (127 if i < 8 else 255)) << 7 * i
            if data[at + i] < 128 or i == 8:
                break
        at += i + 1
        count = value >> 1 ^ -(value & 1)
        yield from [0] * -count if count < 0 else [count]


def lowest_of(index, half):
    """Returns the smallest value of a bucket, as HdrHistogram's valueFromIndex does for a lowest value of 1."""
    bucket = (index >> half) - 1
    return index if bucket < 0 else ((index & (1 << half) - 1) + (1 << half)) << bucket


def decode(text):
    """Returns a histogram as {smallest value of a bucket: count}."""
    data = base64.b64decode(text, validate=True)
    cookie, length = struct.unpack(">II", data[:8])
    assert cookie == 0x1c849304 | 0x10 and length == len(data) - 8, (hex(cookie), length, len(data))
    data = zlib.decompress(data[8:])
    cookie, length, offset, digits, lowest, highest, ratio = struct.unpack(">IIIIqqd", data[:40])
    assert cookie == 0x1c849303 | 0x10 and length == len(data) - 40 and offset == 0, (hex(cookie), length)
    assert lowest == 1 and highest >= 2 and ratio == 1, (lowest, highest, ratio)
    half = (2 * 10**digits - 1).bit_length() - 1
    found = {lowest_of(i, half): n for i, n in enumerate(counts_of(data[40:])) if n}
    assert not found or max(found) <= highest, (found, highest)
    return found


def read(text):
    """Returns [(tag, start, length, maximum in ns, histogram)]. HdrHistogram ignores a line that starts before StartTime."""
    lines = text.splitlines(keepends=True)
    head = re.sub(r"with [^,]*", "with X", "".join(lines[:4]))
    assert re.sub(r": \d+\.\d{3} (.*), 20\S*Z", r": N \1, D", head) == HEAD, head
    begin = float(re.search(r"StartTime: ([\d.]+)", text).group(1))
    found = []
    for line in lines[4:]:
        tag, start, length, most, histogram = re.fullmatch(r"Tag=([^,\s]+),([\d.]+),([\d.]+),([\d.]+),(\S+)\n", line).groups()
        assert float(start) >= begin, (begin, line)
        found.append((tag, float(start), float(length), float(most) * 1e6, decode(histogram)))
    return found


def lowest(value):
    """Returns the smallest value of the bucket of this value: the value with all but its first eight bits cleared."""
    shift = max(value.bit_length() - 8, 0)
    return value >> shift << shift


def reference(figures, java, jar):
    """Compares with HistogramLogProcessor, which adds the histograms of a tag.

    Each row of its output has a value, and the number of samples that are not above that value.
    """
    log, wanted = "", {}
    for planted in ({}, {0: 3, 1: 1}, {5: 2, 6: 1, 8: 1, 11: 7}, {255: 1, 256: 2, 257: 300, 258: 1}, {3**k: 99 - k for k in range(39)}):
        args = [str(x) for pair in planted.items() for x in pair]
        text = subprocess.run([figures, "hdr", *args], capture_output=True, text=True, check=True).stdout
        log += "".join(text.splitlines(keepends=True)[4 if log else 0:])
        for value, count in planted.items():
            wanted[lowest(value)] = wanted.get(lowest(value), 0) + count
    out = subprocess.run([java, "-cp", jar, "org.HdrHistogram.HistogramLogProcessor", "-tag", "it", "-outputValueUnitRatio", "1"],
                         input=log, capture_output=True, text=True, check=True).stdout
    rows = [r.split() for r in re.findall(r"^ *[\d.]+ [\d.]+ +\d+ .*$", out, re.MULTILINE)]
    assert len(rows) > 20, out
    for value, _, count, *_ in rows:
        assert sum(n for low, n in wanted.items() if low <= float(value)) == int(count), (value, count, wanted)
    assert f"Total count    = {sum(wanted.values()):>12}]" in out, (wanted, out)


def main():
    figures = sys.argv[1]
    if sys.argv[2:]:
        return reference(*sys.argv[1:])
    for planted in ({}, {0: 1}, {1: 3}, {5: 2, 6: 1, 8: 1, 11: 7}, {255: 1, 256: 2, 257: 3, 258: 1}, {0: 1, 2**63 - 1: 2**62}, {5: 2**62, 6: 3, 900: 1},
                    {v: v + 1 for v in range(300)}, {3**k: 2**k for k in range(39)}, {10**k: 127 + k % 2 for k in range(19)},
                    {1000: 2**62 - 1}, {lowest(37**k % 2**63 | 1): 2**61 // 3**k for k in range(30)},
                    {i << (i >> 7): 2**56 - i for i in range(128, 7000, 97) if i << (i >> 7) < 2**63}):
        args = [str(x) for pair in planted.items() for x in pair]
        r = subprocess.run([figures, "hdr", *args], capture_output=True, text=True, check=True)
        (tag, start, length, most, found), = read(r.stdout)
        wanted = {}
        for value, count in planted.items():
            wanted[lowest(value)] = wanted.get(lowest(value), 0) + count
        assert (tag, start, length) == ("it", 1700000000.25, 2.5) and found == wanted, (planted, found)
        assert abs(most - max(planted, default=0)) <= max(planted, default=0) * 1e-9 + 500, most
    r = subprocess.run([figures, "hdr", str(2**63), "1"], capture_output=True, text=True)
    assert r.returncode == 1 and "Tag" not in r.stdout, r  # HdrHistogram has no such value


if __name__ == "__main__":
    sys.exit(main())
