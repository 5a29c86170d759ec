#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What users of the `ddl` command see: forms of output, usage errors, exit statuses. Needs neither root nor Slurm.

bats_require_minimum_version 1.5.0

setup() {
	ddl=$DDL_BUILD/bin/ddl
	unset DDL_PLAN DDL_MODE DDL_ALGO DDL_TUNE PMIX_NAMESPACE PMIX_RANK "${!SLURM_@}"
	cat >"$BATS_TEST_TMPDIR/topology.conf" <<-END
		SwitchName=leaf1 Nodes=n[1,4,7]
		SwitchName=leaf2 Nodes=n[2,5,8]
		SwitchName=leaf3 Nodes=n[3,6]
		SwitchName=spine Switches=leaf[1-3]
	END
	plan=("$ddl" plan --topology "$BATS_TEST_TMPDIR/topology.conf" --nodes 'n[1-8]' --tasks 2)
}

# expect_refusal STATUS TEXT COMMAND...: the command ends with that status and says one line, with that text, on standard error only.
expect_refusal() {
	local wanted=$1 text=$2 rc=0
	shift 2
	"$@" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" </dev/null || rc=$?
	cat "$BATS_TEST_TMPDIR/out" "$BATS_TEST_TMPDIR/err"
	[ "$rc" = "$wanted" ]
	[ ! -s "$BATS_TEST_TMPDIR/out" ]
	[ "$(wc -l <"$BATS_TEST_TMPDIR/err")" = 1 ]
	grep -qF -- "$text" "$BATS_TEST_TMPDIR/err"
}

# ranks N ARGUMENTS...: ddl perf with N ranks over a folder; the output of rank 0 is left in out.0. Fails if a rank fails.
ranks() {
	local n=$1 r rc=0 pids=()
	shift
	mkdir -p "$BATS_TEST_TMPDIR/store"
	for ((r = 0; r < n; r++)); do
		DDL_TIMEOUT=60 "$ddl" perf "$@" --store "$BATS_TEST_TMPDIR/store" --rank "$r" --ranks "$n" \
			>"$BATS_TEST_TMPDIR/out.$r" 2>"$BATS_TEST_TMPDIR/err.$r" </dev/null &
		pids+=($!)
	done
	for r in "${!pids[@]}"; do wait "${pids[r]}" || rc=$?; done
	cat "$BATS_TEST_TMPDIR"/err.* "$BATS_TEST_TMPDIR"/out.0
	rm -r "$BATS_TEST_TMPDIR/store"
	return $rc
}

@test "without arguments and with help it lists its commands" {
	run -0 "$ddl"
	for command in info perf plan run; do grep -qE "^  $command " <<<"$output"; done
	[ "$("$ddl" help)" = "$output" ]
	[[ "$("$ddl" --version)" =~ ^ddl\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
	for command in info perf plan; do "$ddl" help $command | grep -q "^Usage: ddl $command"; done
}

@test "wrong usage is one sentence and status 2" {
	expect_refusal 2 "there is no command 'bogus'" "$ddl" bogus
	expect_refusal 2 "there is no command 'bogus'" "$ddl" help bogus
	expect_refusal 2 "'--bogus' does not exist" "$ddl" info --bogus
	expect_refusal 2 "'--sizes' needs a value" "$ddl" perf allreduce --sizes
	expect_refusal 2 "name one collective" "$ddl" perf
	expect_refusal 2 "collective 'gossip' does not exist; there are allreduce, broadcast, barrier" "$ddl" perf gossip
	expect_refusal 2 "type 'f8' does not exist" "$ddl" perf allreduce --type f8
	expect_refusal 2 "'12Q' is not a size" "$ddl" perf allreduce --sizes 8,12Q
	expect_refusal 2 "'-8' is not a size" "$ddl" perf allreduce --sizes -8
	expect_refusal 2 "size 7 is no multiple of an element's 4 bytes" "$ddl" perf allreduce --sizes 7
	expect_refusal 2 "go together" "$ddl" perf allreduce --rank 0
	expect_refusal 2 "rank 3 of 3 ranks does not exist" "$ddl" perf allreduce --store / --rank 3 --ranks 3
	expect_refusal 2 "root 5 does not exist" "$ddl" perf broadcast --root 5
	expect_refusal 2 "cannot be opened" "$ddl" perf allreduce --sizes-file /nonexistent
	expect_refusal 2 "'ring' is too much" "$ddl" plan ring
	expect_refusal 2 'the mode "bogus" is not known' "$ddl" plan --ddl bogus
	expect_refusal 2 "distribution 'odd' does not exist" "$ddl" plan --distribution odd
	expect_refusal 2 "--size goes with --explain or --traffic" "${plan[@]}" --size 8
}

@test "what cannot be done is one sentence and status 1" {
	expect_refusal 1 "there is no plan here" "$ddl" plan
	expect_refusal 1 "/nonexistent" "$ddl" plan --topology /nonexistent
	expect_refusal 1 "the bracket is not closed" "$ddl" plan --nodes 'n[1-'
	expect_refusal 1 "named twice" "$ddl" plan --nodes n1,n1
	expect_refusal 1 "3 numbers where 4 belong" "$ddl" plan --nodes 'n[1-4]' --tasks '2(x3)'
	expect_refusal 1 "plan text" env DDL_PLAN=9\;x "$ddl" plan
	expect_refusal 1 "where DDL_PLAN was set by hand, unset it" env DDL_PLAN=9\;x "$ddl" perf allreduce
	expect_refusal 1 "make an empty folder" "$ddl" perf allreduce --store /nonexistent --rank 0 --ranks 1
	expect_refusal 1 'no transport "pigeon"' "$ddl" perf allreduce --transports pigeon
	expect_refusal 1 'no transport "pigeon"' "$ddl" perf allreduce --transport pigeon
}

@test "words of the environment that are not known are said, in printable letters" {
	local escape=$'\e[31mred'
	expect_refusal 1 'no algorithm "?[31mred"' env DDL_ALGO="$escape" "$ddl" perf broadcast --algorithm "$escape" --sizes 8 --json
	expect_refusal 1 'DDL_TIMEOUT=?[31mred is not' env DDL_TIMEOUT="$escape" "$ddl" perf barrier
	expect_refusal 1 'no transport "?[31mred"' env DDL_TRANSPORTS="$escape" "$ddl" perf barrier
	DDL_LOG=$escape run -0 --separate-stderr "$ddl" perf barrier --iters 1
	[ "$stderr" = "ddl: DDL_LOG=?[31mred is no level: choose from error, warning, info, debug" ]
}

@test "a full disk is not taken for success" {
	fill_disk() { "$@" >/dev/full; }
	run -1 fill_disk "$ddl" info
	run -1 fill_disk "$ddl" plan --nodes n1 --json
	run -1 fill_disk "$ddl" perf allreduce --sizes 8 --iters 1
	[[ "$output" = *"could not be written"* ]]
}

@test "info shows every table, and the same facts as JSON" {
	run -0 "$ddl" info
	for word in Transports Kernels Algorithms Modes Keys "Wire types" Slurm "Node "; do grep -q "^$word" <<<"$output"; done
	"$ddl" info --json | python3 -c '
import json, sys
info = json.load(sys.stdin)
assert {"shm", "tcp"} <= {t["name"] for t in info["transports"]}
assert any(k["name"] == "generic" and k["usable"] for k in info["kernels"])
assert {"all-reduce", "broadcast", "barrier"} <= {a["collective"] for a in info["algorithms"]}
assert any(i["loopback"] for i in info["node"]["interfaces"])
assert all({"device", "port"} <= set(p) for p in info["node"]["rdma"]["ports"])
assert info["node"]["cpus"] >= 1'
}

@test "info shows what serves each rank, and why nothing does" {
	run -0 "$ddl" info
	grep -q "^  none: ddl_test and ddl_wait make progress" <<<"$output"
	DDL_PROGRESS=1 run -0 "$ddl" info
	grep -q "^  this process is no rank" <<<"$output"
	"$ddl" info | grep -q ", with PMIx$" || skip "built without PMIx"
	cpu=$(taskset -cp $$ | grep -oE '[0-9]+$')
	DDL_PROGRESS=1 run -0 "$ddl" run -n 2 taskset -c "$cpu" "$ddl" info
	[ "$(grep -cE "^\[0\]   rank [01] .*, hardware threads $cpu: not bound: the process may use a single hardware thread" <<<"$output")" = 2 ]
	DDL_PROGRESS=2 DDL_PROGRESS_CORES=$cpu run -0 "$ddl" run -n 2 "$ddl" info --json
	sed -n 's/^\[0\] //p' <<<"$output" | python3 -c "
import json, sys
rows = json.load(sys.stdin)['ranks']['rows']
assert [(r['rank'], r['cpus']) for r in rows] == [(0, [$cpu]), (1, [$cpu])], rows
assert all('as DDL_PROGRESS_CORES says' in r['service'] for r in rows), rows"
	DDL_PROGRESS=1 DDL_PROGRESS_CORES=none run -0 "$ddl" run -n 2 "$ddl" info
	[ "$(grep -c "^\[0\]   rank .* not bound, as DDL_PROGRESS_CORES=none says" <<<"$output")" = 2 ]
	DDL_PROGRESS=1 DDL_PROGRESS_CORES=16383 run -0 "$ddl" run -n 2 "$ddl" info
	grep -q "^\[0\]   DDL_PROGRESS_CORES=16383: this process may use none of these hardware threads" <<<"$output"
	DDL_PROGRESS=1 run -0 "$ddl" run -n 2 "$ddl" info --alone
	grep -q "^\[0\]   not asked, as --alone says" <<<"$output"
}

@test "info finds the plugin that was installed beside the command" {
	mkdir -p "$BATS_TEST_TMPDIR"/own/{bin,lib/x86_64-linux-gnu/slurm}
	cp "$ddl" "$BATS_TEST_TMPDIR/own/bin/ddl"
	touch "$BATS_TEST_TMPDIR/own/lib/x86_64-linux-gnu/slurm/spank_ddl.so"
	"$BATS_TEST_TMPDIR/own/bin/ddl" info | grep -q "^  plugin  .* $BATS_TEST_TMPDIR/own/lib/x86_64-linux-gnu/slurm/spank_ddl.so$"
}

@test "a plan ahead of its job shows ring, crossings and all forms" {
	run -0 "${plan[@]}"
	grep -qx "ring 0: 0 1 6 7 12 13 2 3 8 9 14 15 4 5 10 11" <<<"$output"
	grep -qE "^leaf1 - spine +1/1 +3/3$" <<<"$output"
	[ "$("${plan[@]}" --hostfile | tr '\n' ' ')" = "n1 n1 n4 n4 n7 n7 n2 n2 n5 n5 n8 n8 n3 n3 n6 n6 " ]
	[ "$("${plan[@]}" --hostfile=slurm)" = "$("${plan[@]}" --hostfile)" ]
	[ "$("${plan[@]}" --hostfile=openmpi | head -2 | tr '\n' ' ')" = "n1 slots=2 n4 slots=2 " ]
	[ "$("${plan[@]}" --tasks '1(x7),3' --hostfile=mpich | tr '\n' ' ')" = "n1:1 n4:1 n7:1 n2:1 n5:1 n8:3 n3:1 n6:1 " ]
	expect_refusal 2 "hostfile 'odd' does not exist; there are slurm, openmpi, mpich" "${plan[@]}" --hostfile=odd
	"${plan[@]}" --json | python3 -c '
import json, sys
plan = json.load(sys.stdin)
assert plan["rings"] == [[0, 1, 6, 7, 12, 13, 2, 3, 8, 9, 14, 15, 4, 5, 10, 11]]
assert [u["plan_up"] for u in plan["uplinks"]] == [1, 1, 1]
assert [u["rank_order_up"] for u in plan["uplinks"]] == [3, 3, 2]'
	"${plan[@]}" --svg | python3 -c 'import sys, xml.dom.minidom as m; m.parseString(sys.stdin.read())'
	"${plan[@]}" --svg --rank-order | grep -q "3 up, 3 down"
	if command -v dot >/dev/null; then "${plan[@]}" --dot | dot -Tsvg >/dev/null; fi
}

@test "plan --explain predicts every all-reduce algorithm and says which is chosen and why" {
	"${plan[@]}" --explain --size 8,1K,64M >"$BATS_TEST_TMPDIR/out"
	cat "$BATS_TEST_TMPDIR/out"
	for algorithm in ring multiring doubling halving tree direct; do grep -qw "$algorithm" "$BATS_TEST_TMPDIR/out"; done
	grep -q '^ *8 B .*doubling: the least time$' "$BATS_TEST_TMPDIR/out"
	grep -q '^ *64 MiB .*ring: nothing is clearly faster$' "$BATS_TEST_TMPDIR/out"
	grep -q 'groups of different size' "$BATS_TEST_TMPDIR/out"
	"${plan[@]}" --ddl ring --explain --size 8 | grep -q 'ring: asked for by --ddl$'
	"${plan[@]}" --ddl multiring,dims=4x4 --explain --size 64M | grep -q 'multiring: asked for by --ddl$'
	expect_refusal 1 "'x' is not a size" "${plan[@]}" --explain --size 8,x
}

@test "plan --explain says by which wire, and takes one that rounds only where it wins" {
	explain() { "${plan[@]}" --explain --size "$1" --ddl "$2" | tail -1; }
	explain 64M auto | grep -qv ' by ' # nobody asks for less than all bits
	explain 64M auto,wire=bf16 | grep -q '; by bf16$'
	explain 64M auto,accuracy=fast | grep -q '; fast; by bf16, clearly faster than .* by native: '
	explain 64M auto,accuracy=flat | grep -qE '  (direct|multidirect)[:0-9x]*: .*; flat; by bf16, clearly faster than '
	explain 64M auto,accuracy=flat,wire=i8 | grep -q '; flat; by i8, clearly faster than '
	explain 64M auto,accuracy=flat,wire=native | grep -qv ' by '
	explain 64M auto,accuracy=exact,wire=bf16 | grep -q '; exact$'
	explain 8 auto,accuracy=fast | grep -q '; by native, since .* by bf16 is not clearly faster: '
	"$ddl" plan --nodes n1 --tasks 4 --explain --size 8,64K,16M,256M --ddl auto,accuracy=flat | tail -4 >"$BATS_TEST_TMPDIR/out"
	[ "$(grep -c '; by native, since ' "$BATS_TEST_TMPDIR/out")" -eq 4 ] # through memory it wins nothing
	DDL_ACCURACY=exact "${plan[@]}" --explain --size 64M --ddl auto,wire=bf16 | grep -q '; exact$'
	expect_refusal 1 "auto, fast, flat, exact" env DDL_ACCURACY=good "${plan[@]}" --explain
	explain 64M auto,reproducible | grep -qE '  (direct|chain): .*; in the order of ranks$'
	explain 64M ring,reproducible | grep -qE '  (direct|chain): .*; in the order of ranks$'
	DDL_ALGO=ring DDL_REPRODUCIBLE=1 "${plan[@]}" --explain --size 8 | grep -q 'ring does not add contributions in the order of ranks'
}

@test "plan --explain says where each number comes from" {
	"${plan[@]}" --explain --size 8 >"$BATS_TEST_TMPDIR/out"
	grep -qE '^1 at a switch +6 +40.0 +1.250 default +-' "$BATS_TEST_TMPDIR/out"
	grep -qE '^2 at switches above +16 +41.0 +1.250 default +1.250 default' "$BATS_TEST_TMPDIR/out"
	"${plan[@]}" --explain --size 8 --link-speed 400 --ddl auto,uplink=2:1 >"$BATS_TEST_TMPDIR/out"
	grep -qE '^1 at a switch +6 +40.0 +0.050 links +-' "$BATS_TEST_TMPDIR/out"
	grep -qE '^2 at switches above +16 +41.0 +0.050 links +0.075 plan' "$BATS_TEST_TMPDIR/out" # 3 nodes of 50 MB/s by 2
	"${plan[@]}" --ddl auto,uplink=2:1 | grep -q 'leaf1  3 nodes, 6 tasks, uplink 2:1$'
	[ "$("${plan[@]}" --ddl auto,uplink=2:1 --svg | grep -c '>uplink 2:1<')" = 3 ]
	"${plan[@]}" --ddl auto,uplink=2.5:1 --json | grep -q '"oversubscribed": 2.5'
	expect_refusal 2 "uplink=fast is not possible" "${plan[@]}" --ddl auto,uplink=fast
}

@test "plan --traffic counts what crosses each link" {
	run -0 "${plan[@]}" --traffic --size 4M,8 --algorithm ring
	[ "$(grep -cE '^leaf[123] - spine +7864320 +7864320$' <<<"$output")" = 3 ]
	[ "$(grep -cE '^n[1-8] - leaf[123] +7864320 +7864320$' <<<"$output")" = 8 ]
	[ "$(grep -c '^all-reduce of .* by ring' <<<"$output")" = 2 ]
	"${plan[@]}" --traffic --size 8 | grep -q 'by doubling:'
	"${plan[@]}" --traffic --size 64M --ddl multiring,dims=4x4 | grep -q 'by multiring:'
	expect_refusal 1 "dims=3x3 makes 9 ranks, but there are 16: choose dimensions whose product is 16 (2x2x2x2)" \
		"${plan[@]}" --traffic --algorithm multiring:3x3
	expect_refusal 1 'no algorithm "warp"' "${plan[@]}" --traffic --algorithm warp
}

@test "dimensions whose product is not the ranks are refused before the job runs" {
	"${plan[@]}" --ddl multiring,dims=4x4 | grep -q "^mode multiring, dims 4x4, order"
	for form in --text --svg --explain --traffic; do
		expect_refusal 1 "dims=4x8 makes 32 ranks, but there are 16" "${plan[@]}" --ddl multiring,dims=4x8 $form
	done
	"$ddl" plan --nodes 'n[1-8]' --ddl multiring,dims=4x8 >/dev/null # tasks are not known yet
}

@test "plan --explain goes by DDL_ALGO and DDL_TUNE as the job will" {
	DDL_ALGO=tree "${plan[@]}" --explain --size 8 | grep -q 'tree: asked for by DDL_ALGO$'
	expect_refusal 1 'no algorithm "warp"' env DDL_ALGO=warp "${plan[@]}" --explain
	expect_refusal 1 "dims=3x3 makes 9 ranks" env DDL_ALGO=multiring:3x3 "${plan[@]}" --explain
	printf '# ddl tuning 1\nranks 2 6 16\nallreduce 8 knomial 1500\nallreduce 64 knomial 2000\n' >"$BATS_TEST_TMPDIR/tune"
	export DDL_TUNE=$BATS_TEST_TMPDIR/tune
	"${plan[@]}" --explain --size 8 | grep -q 'knomial: measured (DDL_TUNE), 1.5 us$'
	"${plan[@]}" --ddl ring --explain --size 8 | grep -q 'ring: asked for by --ddl$'
	run -0 --separate-stderr "$ddl" plan --nodes n1 --tasks 3 --explain --size 8
	grep -q 'doubling: the least time$\|exchange: the least time$' <<<"$output"
	[[ "$stderr" = *"is left out: it was measured on 16 ranks, at most 2 on a node; here are 3 and 3" ]]
}

@test "without --nodes the nodes of the topology stand by name, as in Slurm" {
	run -0 "$ddl" plan --topology "$BATS_TEST_TMPDIR/topology.conf" --tasks 2
	grep -qx "ring 0: 0 1 6 7 12 13 2 3 8 9 14 15 4 5 10 11" <<<"$output"
}

@test "a plan in the environment is shown, by rank 0 alone" {
	text=$("${plan[@]}" --ddl ring,rings=2 --text)
	[ "$(DDL_PLAN=$text "$ddl" plan --text)" = "$text" ]
	[ -z "$(DDL_PLAN=$text PMIX_RANK=1 "$ddl" plan --text)" ]
	DDL_PLAN=$text SLURM_STEP_NODELIST='n[1-8]' "$ddl" plan | grep -qx "ring 0: 0 1 6 7 12 13 2 3 8 9 14 15 4 5 10 11"
	DDL_PLAN=$text SLURM_DISTRIBUTION=cyclic "$ddl" plan | grep -q "^ring 0: 0 8 3 11 "
}

@test "drawings stay well formed whatever switches are called" {
	cat >"$BATS_TEST_TMPDIR/odd.conf" <<-END
		SwitchName=a&b Nodes=n[1-2]
		SwitchName=c<"d Nodes=n[3-4]
		SwitchName=top Switches=a&b,c<"d
	END
	odd=("$ddl" plan --topology "$BATS_TEST_TMPDIR/odd.conf")
	"${odd[@]}" --svg | python3 -c 'import sys, xml.dom.minidom as m; m.parseString(sys.stdin.read())'
	"${odd[@]}" --json | grep -qF '"c<\"d"'
	if command -v dot >/dev/null; then "${odd[@]}" --dot | dot -Tsvg >/dev/null; fi
}

@test "every wire is right by either way of rounding, where all ranks get the same and where not" {
	for wire in bf16 f16 i8; do
		for rounding in nearest stochastic; do
			for collective in allreduce reducescatter allgather; do
				ranks 3 $collective --sizes 40,40004 --wire $wire --rounding $rounding --check --iters 1 --warmup 0 --json
				[ "$(grep -c "\"wire\":\"$wire\".*\"correct\":true" "$BATS_TEST_TMPDIR/out.0")" = 2 ]
				jq -es 'all(.[]; .error_max_ulp > 0 and .error_rms_ulp > 0.05 and .error_rms_ulp < 1.5
					and .error_rms_ulp <= .error_max_ulp and .error_max_ulp < 4)' "$BATS_TEST_TMPDIR/out.0"
			done
		done
	done
	run -2 "$ddl" perf allreduce --wire i4
	[[ $output == *i4*bf16*i8* ]]
	run -2 "$ddl" perf allreduce --rounding up
	[[ $output == *up*nearest*stochastic* ]]
}

@test "DDL_CHECK compares a share of the all-reduces and tells on rank 0; a share that is none is refused" {
	DDL_CHECK=0.5 DDL_STATS=1 ranks 3 allreduce --sizes 400,40K --wire i8 --check --iters 20
	[ "$(grep -c 'check: .* of \(100\|10240\) f32 .*against float32 the largest error is' "$BATS_TEST_TMPDIR/err.0")" = 2 ]
	grep -q 'check: [1-9][0-9]* results compared: .* bits on all ranks: 0; .* numbers: 0; .* infinity: 0$' "$BATS_TEST_TMPDIR/err.0"
	run ! grep u8 "$BATS_TEST_TMPDIR/err.0"
	run ! grep check: "$BATS_TEST_TMPDIR/err.1"
	DDL_CHECK=1.5 run -1 "$ddl" perf barrier
	[[ $output == *DDL_CHECK=1.5*"from 0 to 1"* ]]
}

@test "perf over a folder prints rows that add up, in JSON and CSV" {
	ranks 3 allreduce --sizes 0,8,4K --type f32 --wire bf16 --check --iters 3 --warmup 1 --json
	python3 - "$BATS_TEST_TMPDIR/out.0" <<-'END'
		import json, sys
		rows = [json.loads(line) for line in open(sys.argv[1])]
		assert [r["bytes"] for r in rows] == [0, 8, 4096]
		for r in rows:
		    assert r["collective"] == "allreduce" and r["ranks"] == 3 and r["type"] == "f32" and r["wire"] == "bf16", r
		    assert r["correct"] is True and r["starts"] == 6, r
		    assert 0 < r["min_us"] <= r["median_us"] <= r["p99_us"], r
		    assert abs(r["algbw_GBps"] - r["bytes"] / r["median_us"] / 1e3) <= 1e-6 * r["algbw_GBps"] + 1e-9, r
		    assert abs(r["busbw_GBps"] - r["algbw_GBps"] * 4 / 3) <= 1e-6 * r["busbw_GBps"] + 1e-9, r
	END
	[ ! -s "$BATS_TEST_TMPDIR/out.1" ]
	ranks 2 broadcast --root 1 --sizes 4K --check --iters 2 --csv
	[ "$(head -1 "$BATS_TEST_TMPDIR/out.0" | cut -d, -f1-3)" = collective,ranks,bytes ]
	grep -q '^broadcast,2,4096,1,f32,none,f32,chain,.*,true,[0-9]*,false,0,0$' "$BATS_TEST_TMPDIR/out.0"
	ranks 2 allreduce --type i32 --sizes 4K --check --iters 2 --csv
	grep -q '^allreduce,2,4096,1,i32,sum,i32,.*,true,[0-9]*,false,,$' "$BATS_TEST_TMPDIR/out.0"
	ranks 2 allreduce --sizes 4K --wire bf16 --check --iters 2
	grep -q 'max ulp  rms ulp  correct' "$BATS_TEST_TMPDIR/out.0"
	ranks 2 barrier --iters 2 --json
	grep -q '"correct":null' "$BATS_TEST_TMPDIR/out.0"
}

@test "perf measures and checks every collective, with blocks that are equal and that are not" {
	local collective
	for collective in reducescatter allgather reduce alltoall gather scatter sendrecv; do
		ranks 3 $collective --sizes 0,4,28,1200 --check --iters 2 --warmup 1 --csv
		[ "$(grep -c ",true,5,false," "$BATS_TEST_TMPDIR/out.0")" = 4 ]
	done
	for collective in reducescatter allgather reduce gather scatter; do
		ranks 2 $collective --in-place --type bf16 --sizes 4,50 --check --iters 2 --warmup 1 --csv
		[ "$(grep -c ",true,5,false," "$BATS_TEST_TMPDIR/out.0")" = 2 ]
	done
	expect_refusal 2 "alltoall is not measured in place" "$ddl" perf alltoall --in-place
	expect_refusal 1 "sendrecv needs at least two ranks" "$ddl" perf sendrecv
	expect_refusal 2 "root 5 does not exist" "$ddl" perf gather --root 5
}

@test "perf takes a list of tensors: each size, then all at once; the progress line comes on demand" {
	printf '# two layers\nfc.weight 1000\nfc.bias 10\nout.weight 1000\n' >"$BATS_TEST_TMPDIR/list"
	ranks 2 allreduce --sizes-file "$BATS_TEST_TMPDIR/list" --check --iters 2 --csv --progress-line
	[ "$(cut -d, -f3,4,17 "$BATS_TEST_TMPDIR/out.0" | tail -n +2 | tr '\n' ' ')" = "40,1,false 4000,2,false 8040,3,true " ]
	grep -q $'\rallreduce ' "$BATS_TEST_TMPDIR/err.0"
	ranks 2 allreduce --sizes-file "$BATS_TEST_TMPDIR/list" --total-only --iters 2 --csv
	[ "$(wc -l <"$BATS_TEST_TMPDIR/out.0")" = 2 ]
	[ ! -s "$BATS_TEST_TMPDIR/err.0" ]
}

@test "perf --explore measures every algorithm and writes what DDL_TUNE takes" {
	ranks 3 allreduce --sizes 8,64K --iters 2 --warmup 1 --check --csv --explore "$BATS_TEST_TMPDIR/tuning"
	cat "$BATS_TEST_TMPDIR/out.0" "$BATS_TEST_TMPDIR/tuning"
	for algorithm in ring multiring doubling halving tree direct knomial exchange; do grep -q ",$algorithm," "$BATS_TEST_TMPDIR/out.0"; done
	[ "$(grep -c ^allreduce "$BATS_TEST_TMPDIR/tuning")" = "$(grep -c ^allreduce, "$BATS_TEST_TMPDIR/out.0")" ]
	ranks 4 allreduce --sizes 64K --iters 1 --json --explore "$BATS_TEST_TMPDIR/split"
	grep -q ' multiring:2x2 ' "$BATS_TEST_TMPDIR/split"
	[ "$(grep -c '"chosen":true' "$BATS_TEST_TMPDIR/out.0")" = 1 ]
	DDL_ALGO=multiring:2x2 ranks 4 allreduce --sizes 64K --iters 1 --csv --check
	grep -q ",multiring:2x2,.*,true," "$BATS_TEST_TMPDIR/out.0"
	printf '# ddl tuning 1\nranks 3 3\nallreduce 8 tree 1\n' >"$BATS_TEST_TMPDIR/tree"
	DDL_TUNE=$BATS_TEST_TMPDIR/tree ranks 3 allreduce --sizes 64K --iters 1 --csv
	grep -q ,tree, "$BATS_TEST_TMPDIR/out.0"
	mkdir "$BATS_TEST_TMPDIR/folder"
	expect_refusal 1 "folder' cannot be written (Is a directory)" \
		"$ddl" perf allreduce --sizes 8 --iters 2 --explore "$BATS_TEST_TMPDIR/folder"
	expect_refusal 2 "--explore goes with allreduce" "$ddl" perf broadcast --explore "$BATS_TEST_TMPDIR/tuning"
}

@test "perf tells what was compared, and where its tuning file is" {
	ranks 2 gather --sizes 8 --iters 1 --check
	[ "$(tail -1 "$BATS_TEST_TMPDIR/out.0")" = "All results are exact." ]
	ranks 2 reduce --sizes 8 --iters 1 --check
	[ "$(tail -1 "$BATS_TEST_TMPDIR/out.0")" = "All results are within the rounding of float64's." ]
	ranks 2 allreduce --sizes 8 --iters 1 --explore "$BATS_TEST_TMPDIR/two"
	tail -1 "$BATS_TEST_TMPDIR/out.0" | grep -qF "DDL_TUNE=$BATS_TEST_TMPDIR/two"
}

@test "a folder that another run has used is refused" {
	mkdir "$BATS_TEST_TMPDIR/used"
	"$ddl" perf barrier --iters 1 --store "$BATS_TEST_TMPDIR/used" --rank 0 --ranks 1
	expect_refusal 1 "could not set" "$ddl" perf barrier --store "$BATS_TEST_TMPDIR/used" --rank 0 --ranks 1
}
