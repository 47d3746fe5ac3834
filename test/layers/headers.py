# SPDX-License-Identifier: MIT
"""Each public header compiles alone, as C11 and as C++17, with nothing but itself included; those
over cellring also with their trace points, if there is a <sys/sdt.h>."""
import pathlib
import subprocess
import sys

from layers import HEADERS, fail, includes

source = pathlib.Path(sys.argv[1])
TRACED = ["cellring", "delegrpc", "shmipc", "flux"]
sdt = subprocess.run(["gcc", "-fsyntax-only", "-include", "sys/sdt.h", "-x", "c", "/dev/null"], capture_output=True)
errors = []


def compile_alone(layer, header, flags):
    for lang in (
        ["gcc", "-x", "c", "-std=c11", "-Wstrict-prototypes"],
        ["g++", "-x", "c++", "-std=c++17"],
    ):
        cmd = lang + ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"] + flags
        cmd += [f"-I{source / path}" for path in includes(layer)] + ["-"]
        text = f"#include <{header}>\n#include <{header}>\n"
        r = subprocess.run(cmd, input=text, capture_output=True, text=True)
        if r.returncode:
            errors.append(f"{header} as {lang[0]} {' '.join(flags)}:\n{r.stderr}")


for layer in sys.argv[2:]:
    for header in HEADERS[layer]:
        compile_alone(layer, header, [])
        if layer in TRACED and sdt.returncode == 0:
            compile_alone(layer, header, ["-DCELLRING_USDT"])
    print(layer, HEADERS[layer])
fail(errors)
