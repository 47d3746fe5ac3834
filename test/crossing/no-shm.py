# SPDX-License-Identifier: MIT
"""no-shm.py PROGRAM...: each program ends with an error and one line that names /dev/shm, if the directory does not
exist or cannot be written."""
import subprocess
import sys

WAYS = {"missing": "mount -t tmpfs none /dev && : >/dev/null", "read-only": "mount -o bind,ro /dev/shm /dev/shm"}
ARGUMENTS = {"benchkv": ["delegation", "--ops", "10"]}

if subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode:
    print("mount namespaces cannot be made")
    sys.exit(77)
for way, mount in WAYS.items():
    for program in sys.argv[1:]:
        arguments = ARGUMENTS.get(program.rsplit("/", 1)[-1], [])
        ran = subprocess.run(
            ["unshare", "-m", "sh", "-c", f'mount --make-rprivate / && {mount} || exit 77; exec "$@"', "-", program, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=400)
        lines = [line for line in ran.stderr.splitlines() if "/dev/shm" in line]
        assert ran.returncode not in (0, 77) and ran.returncode > 0, (way, program, ran)
        assert len(lines) == 1, (way, program, ran)
