# SPDX-License-Identifier: Apache-2.0
"""site_folder.py PREFIX - prints the folder below PREFIX in which this Python, were it installed there, looks for packages.

Debian has its own: lib/python3/dist-packages for packages of the system, lib/python3.X/dist-packages below /usr/local.
"""

import sys
import sysconfig

prefix = sys.argv[1].rstrip("/")
version = f"python{sys.version_info.major}.{sys.version_info.minor}"
if "deb_system" in sysconfig.get_scheme_names() and prefix == "/usr":
    print("lib/python3/dist-packages")
elif "deb_system" in sysconfig.get_scheme_names() and prefix == "/usr/local":
    print(f"lib/{version}/dist-packages")
else:
    print(f"lib/{version}/site-packages")
