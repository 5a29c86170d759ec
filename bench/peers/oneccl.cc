/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oneccl.cc - oneCCL for processors: ccl::allreduce, waited for. Which transport and how many workers: the environment (peers.py).
 */
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>

#include <oneapi/ccl.hpp>

#include "harness.h"

namespace
{
struct state {
	ccl::shared_ptr_class<ccl::kvs> kvs;
	std::unique_ptr<ccl::communicator> comm;
};

struct state *state;

int open_oneccl(const struct bench_settings *settings)
{
	if (strcmp(settings->wire, "native")) {
		fprintf(stderr, "oneccl: elements travel in their own type only\n");
		return -1;
	}
	try {
		ccl::kvs::address_type address{};

		ccl::init();
		state = new struct state();
		if (settings->rank == 0) {
			state->kvs = ccl::create_main_kvs();
			address = state->kvs->get_address();
		}
		if (bench_share(address.data(), address.size()) < 0)
			return -1;
		if (settings->rank != 0)
			state->kvs = ccl::create_kvs(address);
		state->comm.reset(new ccl::communicator(ccl::create_communicator(settings->size, settings->rank, state->kvs)));
		return 0;
	} catch (const std::exception &e) {
		fprintf(stderr, "oneccl: %s\n", e.what());
		return -1;
	}
}

int run(const struct bench_call *call)
{
	try {
		ccl::allreduce(call->send, call->recv, call->count,
			       call->type == BENCH_FLOAT32 ? ccl::datatype::float32 : ccl::datatype::bfloat16, ccl::reduction::sum,
			       *state->comm)
			.wait();
		return 0;
	} catch (const std::exception &e) {
		fprintf(stderr, "oneccl: %s\n", e.what());
		return -1;
	}
}

void close_oneccl()
{
	delete state;
	state = nullptr;
}
} // namespace

extern "C" const struct bench_peer bench_peer = {
	"oneccl", 0, open_oneccl, nullptr, nullptr, nullptr, run, nullptr, close_oneccl,
};
