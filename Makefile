# SPDX-License-Identifier: Apache-2.0
# The front end over CMake: `make help` lists what there is. What it builds lies in build/: programs in build/bin, libraries in
# build/lib, the Slurm plugin in build/lib/slurm/spank_ddl.so.
#
#   make PREFIX=/usr DESTDIR=/tmp/root install      CMAKE_ARGS="-DDDL_PMIX=OFF" is handed to cmake
#   make bench-node FETCH=1 BENCH_ARGS="--ranks 2"   BENCH_ARGS is handed to the benchmark
#   make JOBS=8                                     processes at once; default: the machine's cores

BUILD      ?= build
PREFIX     ?= /usr/local
SYSCONFDIR ?= $(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)
JOBS       ?= $(shell nproc 2>/dev/null || echo 2)
CMAKE      ?= cmake
CMAKE_ARGS ?=

# What is not installed is left out, and cmake says so: the tests without cmocka, the plugin without Slurm's headers.
found       = $(shell printf '$(hash)include <$(1)>\n' | $(CC) -E -x c - >/dev/null 2>&1 && echo ON || echo OFF)
packaged    = $(shell pkg-config --exists $(1) 2>/dev/null && echo ON || echo OFF)
hash       := \#
OPTIONS     = -DCMAKE_INSTALL_PREFIX=$(PREFIX) -DCMAKE_INSTALL_SYSCONFDIR=$(SYSCONFDIR) \
	      -DDDL_SPANK=$(call found,slurm/spank.h) -DDDL_PMIX=$(call packaged,pmix) \
	      -DDDL_TESTS=$(call packaged,cmocka) $(CMAKE_ARGS)

.PHONY: all configure install rpm deb check check-long check-frameworks bench bench-node bench-network bench-overlap bench-precision \
	bench-rdma bench-training demo fmt lint deps clean distclean help
.DEFAULT_GOAL := all

all: configure                  ## builds everything into build/
	@$(CMAKE) --build $(BUILD) -j $(JOBS)

# Runs cmake only where the options have changed (ninja itself looks at the CMakeLists.txt files), so that `sudo make install`
# after `make` leaves nothing of root's in the build folder.
configure:
	@command -v $(CMAKE) >/dev/null && command -v ninja >/dev/null && pkg-config --exists jansson libcrypto || \
		{ echo "make: packages are missing; \"make deps\" installs them, scripts/install-deps --check names them" >&2; exit 1; }
	@mkdir -p $(BUILD); options='$(OPTIONS)'; [ -e $(BUILD)/build.ninja ] && [ "$$(cat $(BUILD)/options 2>/dev/null)" = "$$options" ] || \
		{ $(CMAKE) -S . -B $(BUILD) -G Ninja $(OPTIONS) && printf '%s' "$$options" >$(BUILD)/options; }

install: all                    ## installs below $(DESTDIR)$(PREFIX)
	@DESTDIR='$(DESTDIR)' $(CMAKE) --install $(BUILD)

rpm:                            ## RPM packages in build/rpm (RPM_ARGS="--define 'slurm_prefix /opt/slurm'")
	@scripts/install-deps build package
	@scripts/package rpm --jobs $(JOBS) $(RPM_ARGS)

deb:                            ## Debian packages in build/deb
	@scripts/install-deps build package
	@scripts/package deb --jobs $(JOBS)

check:                          ## installs what the tests need, then runs them, also under sanitizers (some minutes on 2 cores)
	@scripts/install-deps
	@scripts/install-deps rdma || echo "make: without these the tests over RDMA are skipped" >&2
	@scripts/check --jobs $(JOBS) --build $(BUILD) $(if $(CI),--ci)

check-long:                     ## the same, then the long ones: fuzzing and whatever carries the label "long"
	@scripts/install-deps build cluster test lint long
	@scripts/install-deps rdma || echo "make: without these the tests over RDMA are skipped" >&2
	@scripts/check --jobs $(JOBS) --build $(BUILD) --ci --long

check-frameworks: all           ## PyTorch's own tests; the package with PyTorch 2, TensorFlow and JAX of PyPI, in ~/.cache/ddl-frameworks (GBs)
	@scripts/install-deps build test
	@ctest --test-dir $(BUILD) -L frameworks --output-on-failure --no-tests=error
	@scripts/check-frameworks --build $(BUILD)

bench: bench-node bench-network bench-precision ## every benchmark in its short form, against the peers that are here (FETCH=1: also Intel's, from PyPI)

bench-node: all                 ## all-reduce inside one node: ours, the peers, the memory's limit (bench/README.md)
	@scripts/install-deps bench || echo "make: bench goes on with the peers that are here" >&2
	@python3 bench/node.py --short --build $(BUILD) $(if $(FETCH),--fetch) $(BENCH_ARGS)

bench-network: all              ## all-reduce between hosts in network namespaces, and over the loopback; as root (bench/README.md)
	@scripts/install-deps bench || echo "make: bench goes on with the peers that are here" >&2
	@python3 bench/network.py --build $(BUILD) $(if $(FETCH),--fetch) $(BENCH_ARGS)

bench-overlap: all              ## what compute hides of the gradients' sum, and how long they are waited for, against MPI; as root
	@scripts/install-deps bench || echo "make: bench goes on with the peers that are here" >&2
	@python3 bench/overlap.py --build $(BUILD) $(BENCH_ARGS)

bench-training: all             ## PyTorch trains over ddl and over gloo, in turn: on a Slurm cluster (as root) and on one node (bench/README.md)
	@scripts/install-deps bench test || echo "make: bench goes on with what is here" >&2
	@python3 bench/training.py --build $(BUILD) $(BENCH_ARGS)

bench-rdma: all                 ## all-reduce over RDMA in software, in a guest of User-Mode Linux, against plain RDMA writes (bench/README.md)
	@scripts/install-deps bench rdma || echo "make: bench goes on with what is here" >&2
	@tests/rdma/kernel --jobs $(JOBS)
	@python3 bench/rdma.py --build $(BUILD) $(BENCH_ARGS)

bench-precision: all            ## what low precision saves between hosts (as root), and its errors with up to 256 ranks (bench/README.md)
	@scripts/install-deps bench || echo "make: bench goes on with what is here" >&2
	@python3 bench/precision.py --build $(BUILD) $(BENCH_ARGS)

demo:                           ## a Slurm cluster on this machine, a job with --ddl=multiring, the traffic on its uplinks
	@scripts/demo --jobs $(JOBS) --build $(BUILD)

fmt:                            ## lays the sources out as .clang-format says
	@git ls-files '*.c' '*.h' '*.inc' | xargs clang-format -i

lint: all                       ## the static checks (label "lint" of the tests)
	@scripts/install-deps --check build test lint
	@ctest --test-dir $(BUILD) -L lint -j $(JOBS) --output-on-failure

deps:                           ## installs the packages that are missing (as root)
	@scripts/install-deps

clean:                          ## removes what was built
	@rm -rf $(BUILD)

distclean: clean

help:                           ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22
