#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # out, err: run_apart
# examples.bats - every file of slurm-conf/ in use: read by Slurm where this release can, and by ddl. And the trap that the configless one
# avoids, on a node that fetches its configuration.

load helpers

setup_file() {
	cluster_up --host-rate 0 --uplink-rate 0 --conf SlurmctldParameters=enable_configless --conf PropagateResourceLimitsExcept=MEMLOCK
	mkdir -p "$(cluster folder)/prolog.d"
}

teardown_file() {
	cluster down
}

setup() {
	job_setup
	examples=$BATS_TEST_DIRNAME/../../slurm-conf/examples
	folder=$(cluster folder)
}

teardown() {
	no_node_suffers
}

# with_path FILE: a plugstack.conf with the path of the build's plugin
with_path() {
	sed "s|/usr/lib64/slurm/spank_ddl.so|$folder/spank_ddl.so|" "$1"
}

@test "every example is used below" {
	for file in $(cd "$examples" && find . -type f -printf '%P\n'); do
		sed 1,/every.example/d "$BATS_TEST_FILENAME" | grep -qF "$file" || { echo "$file is not tested"; return 1; }
	done
}

@test "plugstack.conf, configless and OpenHPC: the option is there" {
	for file in "$examples"/plugstack.configless.conf "$examples"/plugstack.openhpc.conf "$DDL_BUILD"/slurm-conf/plugstack.conf.d/ddl.conf; do
		grep -cE '^(optional|required) /.*/spank_ddl.so$' "$file" | grep -x 1
		sed "s|/[^ ]*/spank_ddl.so|$folder/spank_ddl.so|" "$file" >"$folder/etc/plugstack.conf"
		srun --ddl=help | grep -w multiring
	done
}

# A node whose slurmd fetches its configuration: with a /run of its own, and without this machine's /etc/slurm, where Slurm looks first.
configless_node() { # NAME
	local host port
	host=$(sed -n 's/^SlurmctldHost=.*(\(.*\))/\1/p' "$folder/etc/slurm.conf")
	port=$(sed -n 's/^SlurmctldPort=//p' "$folder/etc/slurm.conf")
	cluster exec "$1" env -u SLURM_CONF bash -ec "
		kill \$(cat $folder/run/slurmd.$1.pid)
		mountpoint -q /run || mount -t tmpfs run /run
		mountpoint -q /etc/slurm || [ ! -d /etc/slurm ] || mount -t tmpfs etc /etc/slurm
		mkdir -p /run/munge
		ln -sf $folder/munge/munge.sock /run/munge/munge.socket.2
		for i in {1..50}; do
			slurmd -N $1 --conf-server $host:$port && exit 0
			sleep 0.1 # until the one before has let go of its port
		done
		exit 1"
}

@test "a configless node: an include finds nothing there, the line of its own does, and ddl check tells both" {
	mkdir -p "$folder/etc/plugstack.conf.d"
	echo "optional $folder/spank_ddl.so" >"$folder/etc/plugstack.conf.d/ddl.conf"
	on_node() { cluster exec n8 env -u SLURM_CONF PATH="$PATH" "$@"; }
	has_option() { on_node srun --help | grep -q -- --ddl=; }

	echo 'include plugstack.conf.d/*.conf' >"$folder/etc/plugstack.conf"
	srun --ddl=help | grep -w multiring # where slurmctld runs it is found
	scontrol reconfigure
	configless_node n8
	refute has_option
	run_apart on_node ddl check
	[ "$status" = 1 ]
	grep -F '/run/slurm/conf/plugstack.conf has no line' <<<"$out"
	grep -E '^fail  configless' <<<"$out"
	grep -E '^fail  loaded' <<<"$out"

	with_path "$examples/plugstack.configless.conf" >"$folder/etc/plugstack.conf"
	scontrol reconfigure # which sends it
	eventually has_option
	run_apart on_node ddl check
	grep -F '/run/slurm/conf/plugstack.conf:' <<<"$out"
	grep -E '^pass  configless  yes' <<<"$out"
	grep -E '^pass  loaded' <<<"$out"
	srun -w n8 --ddl=auto printenv DDL_MODE | grep -x auto
}

@test "topology.conf: Slurm takes it, and a step's plan has its switches" {
	cp "$folder/etc/topology.conf" "$BATS_TEST_TMPDIR/own"
	cp "$examples/topology.conf" "$folder/etc/topology.conf"
	scontrol reconfigure
	scontrol show topology | grep -E 'SwitchName=spine1 .*Switches=leaf\[1-3\]'
	srun -N8 -n8 --ddl=ring env >"$BATS_TEST_TMPDIR/log"
	[ "$(field "$(plan_in "$BATS_TEST_TMPDIR/log")" tree)" = "$WHOLE_TREE" ]
	cp "$BATS_TEST_TMPDIR/own" "$folder/etc/topology.conf"
	scontrol reconfigure
}

@test "topology.yaml: its default is that tree, its blocks are two racks" {
	plan=$(ddl plan --topology "$examples/topology.yaml" --text)
	[ "$(field "$plan" tree)" = "$WHOLE_TREE" ]
	sed 's/cluster_default: true/cluster_default: no/; s/cluster_default: false/cluster_default: true/; s/cluster_default: no/cluster_default: false/' \
		"$examples/topology.yaml" >"$BATS_TEST_TMPDIR/topology.yaml"
	plan=$(ddl plan --topology "$BATS_TEST_TMPDIR/topology.yaml" --text)
	[ "$(field "$plan" src)" = file/block ]
	grep -F 'rack1(n[1-4])' <<<"$plan"
	grep -F 'rack2(n[5-8])' <<<"$plan"
}

@test "gres.conf: slurmd takes it" {
	mkdir "$BATS_TEST_TMPDIR/etc"
	for i in 0 1 2 3; do ln -s /dev/null "$BATS_TEST_TMPDIR/gpu$i"; done
	sed "s|/dev/nvidia|$BATS_TEST_TMPDIR/gpu|" "$examples/gres.conf" >"$BATS_TEST_TMPDIR/etc/gres.conf"
	cp "$folder/etc/cgroup.conf" "$BATS_TEST_TMPDIR/etc"
	{ sed 's/^NodeName=.*/& Gres=gpu:h100:4/' "$folder/etc/slurm.conf"; echo GresTypes=gpu; } >"$BATS_TEST_TMPDIR/etc/slurm.conf"
	slurmd -G -N n1 -f "$BATS_TEST_TMPDIR/etc/slurm.conf" 2>&1 | tee "$BATS_TEST_TMPDIR/out"
	grep -F 'Gres Name=gpu Type=h100 Count=2' "$BATS_TEST_TMPDIR/out"
	refute grep -iE 'error|fatal' "$BATS_TEST_TMPDIR/out"
}

@test "prolog.d/memlock: the jobs after it have the limit that it names" {
	# No container lets a limit be lifted, so it is lowered here.
	sed 's/^limit=.*/limit=4194304/' "$examples/prolog.d/memlock" >"$folder/prolog.d/memlock"
	chmod +x "$folder/prolog.d/memlock"
	before=$(srun -w n1 bash -c 'ulimit -l')
	[ "$before" != 4096 ]
	echo "Prolog=$folder/prolog.d/memlock" >>"$folder/etc/slurm.conf"
	scontrol reconfigure
	has_it() { [ "$(srun -w n1 bash -c 'ulimit -l; ulimit -Hl' | xargs)" = '4096 4096' ]; }
	eventually has_it
	# without a slurmd above it, it does nothing and is content
	sh "$examples/prolog.d/memlock"
}

@test "slurmd.service.d/memlock.conf: systemd takes it" {
	command -v systemd-analyze >/dev/null || skip "systemd-analyze is not installed"
	mkdir -p "$BATS_TEST_TMPDIR/slurmd.service.d"
	cp "$examples/slurmd.service.d/memlock.conf" "$BATS_TEST_TMPDIR/slurmd.service.d"
	printf '[Service]\nExecStart=/bin/true\n' >"$BATS_TEST_TMPDIR/slurmd.service"
	run systemd-analyze verify "$BATS_TEST_TMPDIR/slurmd.service"
	echo "$output"
	refute grep -F memlock.conf <<<"$output"
}
