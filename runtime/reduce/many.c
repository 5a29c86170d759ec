/* SPDX-License-Identifier: Apache-2.0 */
/*
 * many.c - reduce-many by blocks, and copies past the caches.
 *
 * Non-temporal stores spare the read of the line that a store would overwrite, and leave the caches to others. They pay for whole
 * lines only. On x86 they are weakly ordered: every call that used them ends with a fence, so that a flag stored later tells the
 * truth. The cores of arm64 find out by themselves that a stream of lines is written and not read: there the stores are plain ones.
 */
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "many.h"
#include "reduce.h"

enum { LINE = 64 };

#ifdef __SSE2__
static void stream_line(char *dst, const char *src)
{
	for (int i = 0; i < LINE; i += 16)
		_mm_stream_si128((__m128i *)(void *)(dst + i), _mm_loadu_si128((const __m128i *)(const void *)(src + i)));
}

static void fence(void)
{
	_mm_sfence();
}
#else
static void stream_line(char *dst, const char *src)
{
	memcpy(dst, src, LINE);
}

static void fence(void)
{
}
#endif

/* Bytes from p to the next line. */
static size_t to_line(const void *p)
{
	return -(uintptr_t)p % LINE;
}

static void stream_copy(char *dst, const char *src, size_t bytes)
{
	size_t i = to_line(dst) < bytes ? to_line(dst) : bytes;
	memcpy(dst, src, i);
	for (; i + LINE <= bytes; i += LINE)
		stream_line(dst + i, src + i);
	memcpy(dst + i, src + i, bytes - i);
}

void ddl__copy(void *dst, const void *src, size_t bytes, int stream)
{
	if (!stream) {
		memcpy(dst, src, bytes);
		return;
	}
	stream_copy(dst, src, bytes);
	fence();
}

void ddl__many_put(const struct ddl__many *m, const void *results, size_t bytes)
{
	for (size_t j = 0; j < m->n_dst; j++) {
		char *to = (char *)m->dst[j] + m->offset;
		if (m->stream)
			stream_copy(to, results, bytes);
		else
			memcpy(to, results, bytes);
	}
}

/* Whether lines of all destinations begin at the same elements. */
static int lines_agree(void *const *dst, size_t n_dst, size_t type_bytes)
{
	for (size_t j = 1; j < n_dst; j++) {
		if (to_line(dst[j]) != to_line(dst[0]))
			return 0;
	}
	return to_line(dst[0]) % type_bytes == 0;
}

void ddl__many(const struct ddl__many_call *call, void *const *dst, size_t n_dst, const void *const *src, size_t n_src, size_t n,
	       int ranks, int stream)
{
	_Alignas(LINE) unsigned char acc[DDL__MANY_BLOCK * sizeof(double)];
	size_t most = call->free_of_acc && n_src <= DDL__MANY_GROUP ? n : DDL__MANY_BLOCK;
	int lines = stream && lines_agree(dst, n_dst, call->type_bytes);
	struct ddl__many m = { .dst = dst, .n_dst = n_dst, .acc = acc };
	for (size_t i = 0; i < n; i += m.n) {
		size_t head = i == 0 && lines ? to_line(dst[0]) / call->type_bytes : 0;
		m.n = head ? head : most;
		m.n = m.n < n - i ? m.n : n - i;
		m.offset = i * call->type_bytes;
		m.stream = lines && !head;
		for (size_t k = 0; k < n_src; k += m.n_src) {
			m.src = src + k;
			m.n_src = n_src - k < DDL__MANY_GROUP ? n_src - k : DDL__MANY_GROUP;
			m.begin = k == 0;
			m.ranks = k + m.n_src == n_src ? ranks : 0;
			call->block(&m);
		}
	}
	if (lines)
		fence();
}
