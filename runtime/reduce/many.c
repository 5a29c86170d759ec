/* SPDX-License-Identifier: Apache-2.0 */
/*
 * many.c - reduce-many by blocks, and copies past the caches.
 *
 * Non-temporal stores spare the read of the line that a store would overwrite, and leave the caches to others. They are good for
 * whole lines only, so that blocks are cut where lines of the first destination begin, and what is less than a line is stored plainly.
 * They are weakly ordered: every call that used them ends with a fence, so that a flag stored later tells the truth.
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
#elif defined(__aarch64__)
static void stream_line(char *dst, const char *src)
{
	__asm__ volatile("ldp q0, q1, [%1]\n\tldp q2, q3, [%1, #32]\n\tstnp q0, q1, [%0]\n\tstnp q2, q3, [%0, #32]"
			 :
			 : "r"(dst), "r"(src)
			 : "v0", "v1", "v2", "v3", "memory");
}

static void fence(void) /* stnp obeys the fences that order other stores */
{
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

/* Bytes from p to the next line, at most bytes. */
static size_t to_line(const void *p, size_t bytes)
{
	size_t gap = -(uintptr_t)p % LINE;
	return gap < bytes ? gap : bytes;
}

static void stream_copy(char *dst, const char *src, size_t bytes)
{
	size_t i = to_line(dst, bytes);
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

static const void *at(const void *base, size_t offset)
{
	return (const char *)base + offset;
}

/* acc = all sources' elements from offset (in bytes) on, in their order. */
static void accumulate(const struct ddl__many *loops, void *acc, const void *const *src, size_t n_src, size_t offset, size_t n)
{
	if (n_src == 1) {
		loops->load(acc, at(src[0], offset), n);
		return;
	}
	loops->first(acc, at(src[0], offset), at(src[1], offset), n);
	size_t k = 2;
	for (; k + 2 <= n_src; k += 2)
		loops->more2(acc, at(src[k], offset), at(src[k + 1], offset), n);
	if (k < n_src)
		loops->more(acc, at(src[k], offset), n);
}

void ddl__many(const struct ddl__many *loops, void *const *dst, size_t n_dst, const void *const *src, size_t n_src, size_t n,
	       int ranks, int stream)
{
	_Alignas(LINE) uint64_t acc[DDL__MANY_BLOCK], rounded[DDL__MANY_BLOCK];
	size_t size = loops->type_bytes;
	for (size_t i = 0, m; i < n; i += m) {
		/* the first block ends where lines of the first destination begin */
		m = i == 0 && stream ? to_line(dst[0], LINE) / size : 0;
		m = m > 0 ? m : DDL__MANY_BLOCK;
		m = m < n - i ? m : n - i;
		accumulate(loops, acc, src, n_src, i * size, m);
		char *one = (char *)dst[0] + i * size;
		loops->last(stream ? (void *)rounded : one, acc, m, ranks);
		for (size_t j = 0; stream && j < n_dst; j++)
			stream_copy((char *)dst[j] + i * size, (const char *)rounded, m * size);
		for (size_t j = 1; !stream && j < n_dst; j++)
			memcpy((char *)dst[j] + i * size, one, m * size);
	}
	if (stream)
		fence();
}
