#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# check.bats - `ddl check` on a made-up machine (machine): healthy it has nothing to say, and of each fault it says what, where and what to
# do. Needs neither root nor Slurm.

bats_require_minimum_version 1.5.0

setup() {
	ddl=$DDL_BUILD/bin/ddl
	unset "${!DDL_PL@}" "${!DDL_MO@}" DDL_NET "${!DDL_RD@}" CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES "${!PMIX_@}" "${!SLURM_@}"
	root=$BATS_TEST_TMPDIR/root
	"$BATS_TEST_DIRNAME/machine" "$root"
	say=$root/say etc=$root/etc/slurm
	export PATH=$root/bin:$PATH
}

check() {
	"$ddl" check --root "$root" "$@"
}

# finds STATUS VERDICT CHECK TEXT REMEDY: check ends so, has this line (TEXT is a part of it) with this remedy, and but for it and for what
# `also` names (a list of checks) no line that is not a pass.
finds() {
	local others
	status=0
	check >"$BATS_TEST_TMPDIR/out" || status=$?
	cat "$BATS_TEST_TMPDIR/out"
	[ "$status" = "$1" ]
	grep -A 1 "^$2  $3 " "$BATS_TEST_TMPDIR/out" >"$BATS_TEST_TMPDIR/found"
	head -1 "$BATS_TEST_TMPDIR/found" | grep -F -- "$4"
	tail -1 "$BATS_TEST_TMPDIR/found" | grep -F -- "-> " | grep -F -- "$5"
	others=$(sed -nE 's/^(warn|fail)  ([a-z]+) .*/\2/p' "$BATS_TEST_TMPDIR/out" | grep -vxE "$3${also:+|$also}" || true)
	[ -z "$others" ]
}

@test "a healthy machine passes in everything" {
	run -0 check
	[ "$(grep -c '^pass  ' <<<"$output")" = 16 ]
	[ "${lines[16]}" = "16 pass, 0 warn, 0 fail" ]
	for word in slurm plugstack plugin loaded configless topology pmix cpus rdma uverbs gid register memlock shm network gpus; do grep -q "^pass  $word " <<<"$output"; done
	grep -F 'plugstack.conf.d/ddl.conf:2 loads /usr/lib64/slurm/spank_ddl.so' <<<"$output"
	grep -F 'built for Slurm 23.11' <<<"$output"
	grep -F 'eth0 25000 Mbit/s MTU 9000' <<<"$output"
	grep -F 'mlx5_0 port 1 ACTIVE, 200 Gb/sec (4X HDR), InfiniBand' <<<"$output"
	grep -F '/dev/shm has 8192 MiB' <<<"$output"
}

@test "JSON tells the same, and the exit status too" {
	check --json | python3 -c '
import json, sys
r = json.load(sys.stdin)
assert (r["pass"], r["warn"], r["fail"]) == (16, 0, 0), r
assert all(set(c) == {"check", "verdict", "text"} for c in r["checks"]), r'
	rm "$etc"/plugstack.conf.d/ddl.conf
	run -1 --separate-stderr check --json
	python3 -c '
import json, sys
c = [c for c in json.load(sys.stdin)["checks"] if c["check"] == "plugstack"]
assert len(c) == 1 and c[0]["verdict"] == "fail" and "optional /" in c[0]["remedy"], c' <<<"$output"
}

@test "wrong usage is refused" {
	run -2 "$ddl" check ring
	[[ $output == *"'ring' is too much"* ]]
	run -2 "$ddl" check --bogus
	run -2 "$ddl" check --root
}

@test "no Slurm" {
	for command in srun slurmd; do printf '#!/bin/sh\nexit 127\n' >"$root/bin/$command"; done # before those that this machine may have
	finds 1 fail slurm "neither srun nor slurmd" "module load slurm"
}

@test "a slurmctld that does not answer" {
	printf '#!/bin/sh\necho "slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)" >&2\nexit 1\n' >"$root/bin/scontrol"
	finds 1 fail slurmctld "Unable to contact slurm controller" "systemctl status slurmctld"
}

@test "plugstack.conf: missing, without the line, commented out, an include that finds nothing" {
	rm -r "$etc"/plugstack.conf.d
	also=configless finds 1 fail plugstack "its include of /etc/slurm/plugstack.conf.d/*.conf finds no file" "optional /usr/lib64/slurm/spank_ddl.so"
	echo 'optional /usr/lib64/slurm/other.so' >"$etc/plugstack.conf"
	finds 1 fail plugstack "/etc/slurm/plugstack.conf has no line that loads the plugin" "optional /usr/lib64/slurm/spank_ddl.so"
	printf '\n#optional /usr/lib64/slurm/spank_ddl.so\n' >"$etc/plugstack.conf"
	finds 1 fail plugstack "is a comment: /etc/slurm/plugstack.conf:2" "take the # away"
	rm "$etc/plugstack.conf"
	finds 1 fail plugstack "/etc/slurm/plugstack.conf is not there" "optional /usr/lib64/slurm/spank_ddl.so"
}

@test "a line in a relative include, and behind another include, is found" {
	echo 'include plugstack.conf.d/more' >"$etc/plugstack.conf"
	echo '  include /etc/slurm/plugstack.conf.d/ddl.conf' >"$etc/plugstack.conf.d/more"
	run -0 check
	grep -F 'plugstack.conf.d/ddl.conf:2 loads' <<<"$output"
	echo 'include /etc/slurm/plugstack.conf' >"$etc/plugstack.conf" # for ever
	run -1 check
}

@test "a line that names a plugin which is not there, one without its folder, one that is required" {
	echo 'optional /opt/spank_ddl.so' >"$etc/plugstack.conf.d/ddl.conf"
	finds 1 fail plugstack "names /opt/spank_ddl.so, which is not here" "install slurm-spank-ddl"
	echo 'optional spank_ddl.so' >"$etc/plugstack.conf.d/ddl.conf"
	finds 0 warn plugstack "without its folder: spank_ddl.so" "write the full path"
	echo 'required /usr/lib64/slurm/spank_ddl.so' >"$etc/plugstack.conf.d/ddl.conf"
	finds 0 warn plugstack "as required" "write optional"
}

@test "a plugin of another release of Slurm" {
	echo 'slurm 24.05.2' >"$say/version"
	finds 1 fail plugin "built for Slurm 23.11, and this is 24.05" "install slurm-spank-ddl of this release"
}

@test "a file that is not the plugin" {
	echo nonsense >"$root/usr/lib64/slurm/spank_ddl.so"
	finds 1 fail plugin "/usr/lib64/slurm/spank_ddl.so is not DDL's plugin, or is damaged" "install slurm-spank-ddl again"
}

@test "a required plugin that does not load: srun starts no more, and nothing is said of PMIx" {
	echo 'required /opt/spank_ddl.so' >"$etc/plugstack.conf.d/ddl.conf"
	# shellcheck disable=SC2016 # for the shell in there
	printf '#!/bin/sh\n[ "$1" = --version ] && exec cat "%s/version"\necho "srun: error: Plug-in initialization failed"\nexit 1\n' "$say" >"$root/bin/srun"
	also=loaded
	finds 1 fail plugstack "names /opt/spank_ddl.so, which is not here" "install slurm-spank-ddl"
}

@test "srun without the option: what it says is told" {
	printf 'srun: error: spank: /usr/lib64/slurm/spank_ddl.so: Incompatible Slurm plugin version\nUsage: srun\n' >"$say/help"
	finds 1 fail loaded "no option --ddl: srun: error: spank: /usr/lib64/slurm/spank_ddl.so: Incompatible Slurm plugin version" "release"
	echo 'Usage: srun' >"$say/help"
	finds 1 fail loaded "no option --ddl" "see to the line"
}

@test "arguments of the plugin that it does not know" {
	printf 'srun: error: ddl: plugstack.conf: nonsense: "nonsense=1" is not known; choose from default=; the default is used there\n--ddl=MODE\n' >"$say/ddl"
	finds 0 warn loaded 'plugstack.conf: nonsense: "nonsense=1" is not known' "man ddl-spank"
}

@test "the trap of configless clusters: on slurmctld's host a warning, on a node that fetched its configuration a failure" {
	sed -i 's/^SlurmctldParameters.*/SlurmctldParameters     = enable_configless/' "$say/config"
	finds 0 warn configless "does not expand an include with a pattern" "plugstack.configless.conf"
	echo 'optional /usr/lib64/slurm/spank_ddl.so' >"$etc/plugstack.conf"
	run -0 check
	grep '^pass  configless  yes, and' <<<"$output"
	mkdir -p "$root/run/slurm/conf"
	rm "$etc/slurm.conf"
	: >"$root/run/slurm/conf/slurm.conf"
	echo 'include /etc/slurm/plugstack.conf.d/*.conf' >"$root/run/slurm/conf/plugstack.conf"
	finds 1 fail configless "does not expand" "into plugstack.conf itself"
}

@test "switches: none, some nodes forgotten, a text that is not understood, a file of the plugin's" {
	: >"$say/topology"
	finds 0 warn topology "Slurm knows no switches (topology/tree)" "topology.conf"
	printf 'SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-3]\n' >"$say/topology"
	finds 0 warn topology "1 node of the cluster is in no switch's list, n4 first" "topology.conf"
	echo 'SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-' >"$say/topology"
	finds 0 warn topology "is not understood" "report it"
	echo 'optional /usr/lib64/slurm/spank_ddl.so topology=file:/etc/slurm/switches' >"$etc/plugstack.conf.d/ddl.conf"
	finds 1 fail topology "/etc/slurm/switches" "correct the file"
	echo 'SwitchName=leaf1 Nodes=n[1-4]' >"$etc/switches"
	run -0 check
	grep '^pass  topology    /etc/slurm/switches knows' <<<"$output"
}

@test "a Slurm without PMIx, and a step that was started without it" {
	printf 'MPI plugin types are...\n\tnone\n' >"$say/mpi"
	finds 1 fail pmix "no MPI type pmix" "--with-pmix"
	"$BATS_TEST_DIRNAME/machine" "$root"
	export SLURM_STEP_ID=0 SLURM_PROCID=0 DDL_MODE=auto CUDA_VISIBLE_DEVICES=0
	finds 1 fail pmix "this step was started without it (MpiDefault is none)" "srun --mpi=pmix"
	SLURM_STEP_ID=4294967291 run -0 check # a batch script is no step of srun's
}

@test "a step without a plan, and one with a broken plan" {
	export SLURM_STEP_ID=0 SLURM_PROCID=0 PMIX_NAMESPACE=x PMIX_RANK=0 CUDA_VISIBLE_DEVICES=0
	finds 0 warn plan "asked for none" "srun --ddl=auto"
	DDL_PLAN='9;x' finds 1 fail plan "DDL_PLAN: " "unset DDL_PLAN"
	DDL_MODE=auto DDL_PLAN='1;job=1.0;mode=auto;src=slurm/tree;tree=s(n1,n2)' run -0 check
	grep '^pass  plan        this step has one: --ddl=auto, of slurm/tree' <<<"$output"
}

@test "a limit on locked memory: fatal to RDMA when low, a warning when high, nothing without RDMA" {
	limits() { sed -i "s/^Max locked memory .*/Max locked memory         $1            $2              bytes/" "$root/proc/self/limits"; }
	limits 8388608 8388608
	finds 1 fail memlock "only 8 MiB" "LimitMEMLOCK=infinity"
	limits 8388608 unlimited
	finds 1 fail memlock "so TCP serves" "ulimit -l unlimited"
	limits 536870912 536870912
	finds 1 fail memlock "only 512 MiB" "LimitMEMLOCK=infinity"
	run ! grep 'TCP serves' "$BATS_TEST_TMPDIR/found"
	limits 17179869184 17179869184
	finds 0 warn memlock "only 16384 MiB" "LimitMEMLOCK=infinity"
	rm -r "$root/sys/class/infiniband"
	run -0 check
	grep '^pass  memlock .*without RDMA nothing needs it' <<<"$output"
}

@test "/dev/shm: small, read-only, missing" {
	shm() { echo "$1" >"$root/proc/self/mounts"; }
	shm 'shm /dev/shm tmpfs rw,nosuid,size=65536k 0 0'
	finds 0 warn shm "/dev/shm has 64 MiB" "--shm-size"
	shm 'shm /dev/shm tmpfs ro,nosuid 0 0'
	finds 0 warn shm "not mounted for writing" "mount -t tmpfs"
	shm 'proc /proc proc rw 0 0'
	finds 0 warn shm "not mounted for writing" "mount -t tmpfs"
}

@test "one processor only" {
	echo 0 >"$root/sys/devices/system/cpu/online"
	finds 0 warn cpus "one hardware thread" "--cpus-per-task=2"
}

@test "interfaces: a wrong DDL_NET, one that is down or virtual, none but the loopback" {
	DDL_NET=ib7 finds 1 fail network "no network interface ib7; it has docker0, eth0, lo" "correct DDL_NET"
	DDL_NET=docker0 finds 0 warn network "docker0 is virtual" "name others by DDL_NET"
	echo down >"$root/sys/class/net/eth0/operstate"
	DDL_NET=eth0 finds 0 warn network "eth0 is down" "name others by DDL_NET"
	finds 0 warn network "only the loopback is usable" "bring up an interface"
}

# roce: mlx5_0 becomes a RoCE card behind eth0, with GIDs of both versions
roce() {
	local port=$root/sys/class/infiniband/mlx5_0/ports/1
	mkdir -p "$port"/gid_attrs/{types,ndevs}
	echo Ethernet >"$port/link_layer"
	echo '25 Gb/sec (1X EDR)' >"$port/rate"
	echo fe80:0000:0000:0000:b83f:d2ff:fe12:3456 | tee "$port"/gids/{0,1} >/dev/null
	echo 0000:0000:0000:0000:0000:ffff:0a01:0001 | tee "$port"/gids/{2,3} >/dev/null
	echo 'IB/RoCE v1' | tee "$port"/gid_attrs/types/{0,2} >/dev/null
	echo 'RoCE v2' | tee "$port"/gid_attrs/types/{1,3} >/dev/null
	echo eth0 | tee "$port"/gid_attrs/ndevs/{0,1,2,3} >/dev/null
}

@test "a healthy RoCE card passes in everything, with its interface" {
	roce
	run -0 check
	[ "${lines[17]}" = "17 pass, 0 warn, 0 fail" ]
	grep -F 'mlx5_0 port 1 ACTIVE, 25 Gb/sec (1X EDR), Ethernet, interface eth0' <<<"$output"
	grep -F 'RoCE carries 4096 bytes a packet' <<<"$output"
}

@test "RDMA ports that are down; without a subnet manager; though their interface is up" {
	echo '1: DOWN' >"$root/sys/class/infiniband/mlx5_0/ports/1/state"
	finds 0 warn rdma "mlx5_0 port 1 DOWN" "ibstat"
	echo '2: INIT' >"$root/sys/class/infiniband/mlx5_0/ports/1/state"
	finds 0 warn rdma "mlx5_0 port 1 INIT" "no subnet manager"
	roce
	echo '1: DOWN' >"$root/sys/class/infiniband/mlx5_0/ports/1/state"
	finds 0 warn rdma "Ethernet, interface eth0 which is up" "the driver does not follow its interface"
	echo down >"$root/sys/class/net/eth0/operstate"
	also=network finds 0 warn rdma "mlx5_0 port 1 DOWN" "see to the cable"
}

@test "no files for RDMA: the module is not loaded, a container without them, not for this user" {
	rm -r "$root/sys/class/infiniband_verbs"
	finds 0 warn uverbs "ib_uverbs is not loaded" "modprobe ib_uverbs"
	"$BATS_TEST_DIRNAME/machine" "$root"
	rm -r "${root:?}/dev"
	finds 0 warn uverbs "not there: /dev/infiniband/uverbs0 (mlx5_0)" "--device=/dev/infiniband"
	"$BATS_TEST_DIRNAME/machine" "$root"
	chmod 0 "$root/dev/infiniband/uverbs0"
	if [ "$(id -u)" = 0 ]; then # whom modes do not stop
		check() { setpriv --bounding-set -dac_override,-dac_read_search "$ddl" check --root "$root" "$@"; }
	fi
	finds 0 warn uverbs "may not open /dev/infiniband/uverbs0 (mlx5_0)" "0666"
}

@test "RoCE: only GIDs of version 1, none at all, an MTU that cuts packets short" {
	roce
	rm "$root"/sys/class/infiniband/mlx5_0/ports/1/gid*/{,types/}{1,3} 2>/dev/null || true
	finds 0 warn gid "mlx5_0 port 1 has RoCE v1 only" "should offer RoCE v2"
	rm "$root"/sys/class/infiniband/mlx5_0/ports/1/gids/*
	finds 0 warn gid "mlx5_0 port 1 has no GID" "give the interface an address"
	"$BATS_TEST_DIRNAME/machine" "$root"
	roce
	echo 1500 >"$root/sys/class/net/eth0/mtu"
	finds 0 warn mtu "eth0 has MTU 1500, so packets of mlx5_0 carry 1024 bytes" "mtu 9000"
	echo 4192 >"$root/sys/class/net/eth0/mtu"
	run -0 check
	grep -F 'RoCE carries 4096 bytes a packet' <<<"$output"
}

@test "variables of RDMA that are wrong: by their form, a GID that is empty, a device that is not there or down" {
	DDL_RDMA_MTU=1500 finds 1 fail rails "DDL_RDMA_MTU=1500 is no MTU of RDMA" "correct the variable"
	DDL_RDMA_GID_INDEX=1 finds 1 fail gid "DDL_RDMA_GID_INDEX=1: there is no such GID on mlx5_0 port 1" "unset DDL_RDMA_GID_INDEX"
	DDL_RDMA_GID_INDEX=0 DDL_RDMA=mlx5_0:1 run -0 check
	cp -r "$root"/sys/class/infiniband/mlx5_{0,1} # which has no GID 0, and is not named
	rm "$root"/sys/class/infiniband/mlx5_1/ports/1/gids/0
	DDL_RDMA_GID_INDEX=0 DDL_RDMA=mlx5_0:1 run -0 check
	DDL_RDMA_GID_INDEX=0 finds 1 fail gid "there is no such GID on mlx5_1 port 1" "unset DDL_RDMA_GID_INDEX"
	rm -r "$root/sys/class/infiniband/mlx5_1"
	DDL_RDMA=mlx5_0,mlx5_7 finds 1 fail rails "DDL_RDMA: mlx5_7 is not there" "correct DDL_RDMA"
	DDL_RDMA=mlx5_0:2 finds 1 fail rails "DDL_RDMA: mlx5_0:2 is not there" "correct DDL_RDMA"
	echo '1: DOWN' >"$root/sys/class/infiniband/mlx5_0/ports/1/state"
	DDL_RDMA=mlx5_0 also=rdma finds 1 fail rails "DDL_RDMA: mlx5_0 is not active" "correct DDL_RDMA"
	rm -r "$root/sys/class/infiniband"
	DDL_RDMA=mlx5_0 finds 1 fail rails "DDL_RDMA: mlx5_0 is not there" "correct DDL_RDMA"
}

@test "a kernel that does not tell what is unmapped: a warning, unless that is not wanted" {
	rm "$root/proc/sys/vm/unprivileged_userfaultfd"
	finds 0 warn register "the kernel has no userfaultfd" "ddl_mem_alloc()"
	DDL_RDMA_REGISTER=alloc run -0 check
	grep '^pass  register    DDL_RDMA_REGISTER=alloc' <<<"$output"
	DDL_RDMA_REGISTER=all run -0 check
}

@test "GPUs without a driver, and a job that was given none" {
	rm "$root/proc/driver/nvidia/version"
	finds 0 warn gpus "driver is not loaded" "modprobe nvidia"
	"$BATS_TEST_DIRNAME/machine" "$root"
	export SLURM_STEP_ID=0 SLURM_PROCID=0 DDL_MODE=auto PMIX_NAMESPACE=x PMIX_RANK=0
	finds 0 warn gpus "this job was given none" "gres.conf"
}

@test "what commands print cannot break the terminal" {
	printf '#!/bin/sh\nprintf "error: \\033[31mred\\n" >&2\nexit 1\n' >"$root/bin/scontrol"
	finds 1 fail slurmctld "error: ?[31mred" "systemctl"
}
