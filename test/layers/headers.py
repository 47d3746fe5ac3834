# SPDX-License-Identifier: MIT
"""Each public header compiles alone, as C11 and as C++17.

The headers that use cellring also compile with their trace points, if there is a <sys/sdt.h>. In C++ each struct can be
named without `struct`; this fails if a function has the same name.
"""
import pathlib
import re
import subprocess
import sys

from layers import HEADERS, LAYERS, code, fail, includes

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


def prefix(layer):
    return LAYERS[layer][0].rstrip("_") if layer in LAYERS else layer


def shared_names(layer):
    """The structs of a layer's headers that C++ cannot name without `struct`."""
    structs = sorted({name for f in (source / layer / "include").glob("*.h")
                      for name in re.findall(r"\bstruct (\w+)", code(f.read_text()))
                      if name.startswith(prefix(layer))})
    text = "".join(f"#include <{header}>\n" for header in HEADERS[layer]) + "".join(f"{name} *pointer_to_{name};\n" for name in structs)
    cmd = ["g++", "-x", "c++", "-std=c++17", "-fsyntax-only", "-fmax-errors=0"]
    r = subprocess.run(cmd + [f"-I{source / path}" for path in includes(layer)] + ["-"], input=text,
                       capture_output=True, text=True)
    lines = {int(n) for n in re.findall(r"^<stdin>:(\d+):\d+: error:", r.stderr, re.M)}
    return {structs[n - 1 - len(HEADERS[layer])] for n in lines}


def check_names(layer):
    """No struct has the name of a function."""
    for name in sorted(shared_names(layer)):
        errors.append(f"{layer}: struct {name} has the name of a function, so that C++ needs `struct`: rename one")


for layer in sys.argv[2:]:
    check_names(layer)
    for header in HEADERS[layer]:
        compile_alone(layer, header, [])
        if layer in TRACED and sdt.returncode == 0:
            compile_alone(layer, header, ["-DCELLRING_USDT"])
    print(layer, HEADERS[layer])
fail(errors)
