# SPDX-License-Identifier: Apache-2.0
"""other_release.py PLUGIN COPY - copies the plugin as if it had been built for the release of Slurm after this one."""
import struct
import subprocess
import sys

plugin, copy = sys.argv[1:]
data = bytearray(open(plugin, "rb").read())


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


# plugin_version is the release's number, which SPANK_PLUGIN() puts into the file; built_for is told to `ddl check`
places = [data.index(b"ddl built for Slurm\0") + 20]
address = next(int(w[0], 16) for w in map(str.split, run("nm", "-D", plugin).splitlines()) if w[-1] == "plugin_version")
for w in map(str.split, run("readelf", "-lW", plugin).splitlines()):
    if w[:1] == ["LOAD"] and int(w[2], 16) <= address < int(w[2], 16) + int(w[4], 16):
        places.append(int(w[1], 16) + address - int(w[2], 16))
assert len(places) == 2, places
for at in places:
    data[at:at + 4] = struct.pack("<I", struct.unpack("<I", data[at:at + 4])[0] + 0x10000)
open(copy, "wb").write(data)
