#!/bin/bash
# SPDX-License-Identifier: MIT
# Makes the source tarball and uses it in three ways. Without git, its tests of the suites unit, quick and layers must
# pass; another project uses its layers by a wrap file; pip makes a wheel of the Python modules, which then use the
# libraries that were built from the tarball.
#
#	source.sh SOURCE BUILD
set -euo pipefail
source=$(realpath "$1") build=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

dist() {
	meson dist -C "$build" --no-tests --allow-dirty --formats xztar >"$work/log"
	tarball=$(ls -t "$build"/meson-dist/*.tar.xz | head -1)
	tar -C "$work" -xf "$tarball"
	tree=$(ls -d "$work"/mlx5-rpc-workspace-*/)
	tree=${tree%/}
	meson setup "$tree/build" "$tree" -Drdma=enabled -Dpmix=enabled >>"$work/log"
	ninja -C "$tree/build" >>"$work/log"
	meson test -C "$tree/build" --no-rebuild --print-errorlogs --quiet --suite unit --suite quick \
		--suite layers
	echo "source: $(basename "$tarball"): built, its tests of the suites unit, quick and layers pass"
}

wrap() {
	local outer=$work/outer sum
	sum=$(sha256sum "$tarball" | cut -d' ' -f1)
	mkdir -p "$outer/subprojects/packagefiles"
	cat >"$outer/subprojects/workspace.wrap" <<-END
		[wrap-file]
		directory = $(basename "$tree")
		source_url = file://$tarball
		source_filename = $(basename "$tarball")
		source_hash = $sum

		[provide]
		dependency_names = shmipc, copyrpc
	END
	cat >"$outer/meson.build" <<-'END'
		project('outer', 'c', default_options: ['c_std=gnu11', 'default_library=static'])
		foreach layer : ['shmipc', 'copyrpc']
		  test(layer, executable('use-' + layer, layer + '.c', dependencies: dependency(layer)))
		endforeach
	END
	cp "$source"/test/layers/consumer/{shmipc,copyrpc}.c "$outer"
	meson setup "$outer/b" "$outer" --wrap-mode=forcefallback >>"$work/log"
	ninja -C "$outer/b" >>"$work/log"
	meson test -C "$outer/b" --no-rebuild --quiet
	echo "source: another project takes layers by a wrap file"
}

wheel() {
	cp -r "$tree/bindings/python" "$work/python"
	/usr/bin/python3 -m pip wheel --quiet --no-deps --no-build-isolation --no-index -w "$work/wheel" "$work/python"
	/usr/bin/python3 -m pip install --quiet --no-deps --no-index --target "$work/site" "$work"/wheel/mlx5rpc-*.whl
	(cd / && PYTHONPATH=$work/site LD_LIBRARY_PATH=$(echo "$tree"/build/{shmipc,copyrpc,tent,mlx5dv-lite,latrec} | tr ' ' :) \
		/usr/bin/python3 -c '
import os
from mlx5rpc import copyrpc, shmipc, tent
assert "/site/" in shmipc.__file__
name = f"wheel.{os.getpid()}"
with shmipc.Server(name) as server, shmipc.Client(name) as client:
	client.call(b"payload", "token")
	client.flush()
	for request in server.requests():
		request.reply(request.data)
	server.flush()
	assert client.poll() == [("token", b"payload")]')
	echo "source: $(basename "$work"/wheel/*.whl) is made and used"
}

dist
wrap
wheel
