/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loops.h - a loop whose iterations do not depend on each other, also where dst equals src: what a compiler cannot know.
 */
#ifndef DDL_REDUCE_LOOPS_H
#define DDL_REDUCE_LOOPS_H

#ifdef __clang__
#define foreach(i, n) _Pragma("clang loop vectorize(assume_safety)") for (size_t i = 0; i < (n); i++)
#else
#define foreach(i, n) _Pragma("GCC ivdep") for (size_t i = 0; i < (n); i++)
#endif

#endif
