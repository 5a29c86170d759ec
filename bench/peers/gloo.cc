/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gloo.cc - Gloo over TCP, the transport that distributions build. Of its two algorithms the faster one for a size is found by
 * trying both before the measurement.
 */
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "harness.h"

namespace
{
using Options = gloo::AllreduceOptions;

const int TRIALS = 3; /* of each algorithm; the best counts */

const struct bench_settings *settings;
std::shared_ptr<gloo::rendezvous::Context> context;
Options::Algorithm algorithm;

void add_bfloat16(void *out, const void *a, const void *b, size_t n)
{
	auto c = static_cast<unsigned short *>(out);

	if (out == a) {
		bench_add_bfloat16(c, static_cast<const unsigned short *>(b), n);
	} else if (out == b) {
		bench_add_bfloat16(c, static_cast<const unsigned short *>(a), n);
	} else {
		memcpy(out, a, 2 * n);
		bench_add_bfloat16(c, static_cast<const unsigned short *>(b), n);
	}
}

void reduce(const struct bench_call *call)
{
	Options options(context);

	if (call->type == BENCH_FLOAT32) {
		if (call->send != call->recv)
			options.setInput(static_cast<float *>(call->send), call->count);
		options.setOutput(static_cast<float *>(call->recv), call->count);
		options.setReduceFunction(static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));
	} else {
		if (call->send != call->recv)
			options.setInput(static_cast<unsigned short *>(call->send), call->count);
		options.setOutput(static_cast<unsigned short *>(call->recv), call->count);
		options.setReduceFunction(add_bfloat16);
	}
	options.setAlgorithm(algorithm);
	gloo::allreduce(options);
}

/* Calls a function that throws where the library fails. */
template <typename F> int guarded(F function)
{
	try {
		function();
		return 0;
	} catch (const std::exception &e) {
		fprintf(stderr, "gloo: %s\n", e.what());
		return -1;
	}
}

int open_gloo(const struct bench_settings *s)
{
	settings = s;
	if (strcmp(s->wire, "native")) {
		fprintf(stderr, "gloo: elements travel in their own type only\n");
		return -1;
	}
	return guarded([] {
		gloo::transport::tcp::attr attr;

		attr.iface = *settings->interface ? settings->interface : "lo";
		auto device = gloo::transport::tcp::CreateDevice(attr);
		gloo::rendezvous::FileStore store(settings->folder);

		context = std::make_shared<gloo::rendezvous::Context>(settings->rank, settings->size);
		context->setTimeout(std::chrono::seconds(30));
		context->connectFullMesh(store, device);
	});
}

double try_out(Options::Algorithm candidate, const struct bench_call *call)
{
	double best = 1e18;

	algorithm = candidate;
	for (int i = 0; i < TRIALS; i++) {
		bench_barrier();
		const auto begin = std::chrono::steady_clock::now();
		reduce(call);
		const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
		best = us < best ? us : best;
	}
	return best;
}

int prepare(const struct bench_call *call)
{
	return guarded([call] {
		int ring = try_out(Options::Algorithm::RING, call) < try_out(Options::Algorithm::BCUBE, call);

		bench_share(&ring, sizeof(ring));
		algorithm = ring ? Options::Algorithm::RING : Options::Algorithm::BCUBE;
	});
}

int run(const struct bench_call *call)
{
	return guarded([call] { reduce(call); });
}

void close_gloo()
{
	context.reset();
}
} // namespace

extern "C" const struct bench_peer bench_peer = {
	"gloo", 1, open_gloo, nullptr, nullptr, prepare, run, nullptr, close_gloo,
};
