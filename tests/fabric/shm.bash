# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# shm.bash - what lies in the folder of shared memory, for tests that leave nothing there. A benchmark of ours may run beside them.

shm_files() {
	find /dev/shm -mindepth 1 -maxdepth 1 ! -name 'ddl-bench-*' | sort
}
