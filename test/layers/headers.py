# SPDX-License-Identifier: MIT
"""Each public header compiles alone, as C11 and as C++17, with nothing but itself included."""
import pathlib
import subprocess
import sys

from layers import HEADERS, fail, includes

source = pathlib.Path(sys.argv[1])
errors = []
for layer in sys.argv[2:]:
    for header in HEADERS[layer]:
        for lang in (
            ["gcc", "-x", "c", "-std=c11", "-Wstrict-prototypes"],
            ["g++", "-x", "c++", "-std=c++17"],
        ):
            cmd = lang + ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
            cmd += [f"-I{source / path}" for path in includes(layer)] + ["-"]
            text = f"#include <{header}>\n#include <{header}>\n"
            r = subprocess.run(cmd, input=text, capture_output=True, text=True)
            if r.returncode:
                errors.append(f"{header} as {lang[0]}:\n{r.stderr}")
    print(layer, HEADERS[layer])
fail(errors)
