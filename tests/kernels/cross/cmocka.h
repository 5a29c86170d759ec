/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmocka.h - as much of cmocka as unit/kernels.c uses, for processors for which there is no library.
 */
#ifndef DDL_TESTS_KERNELS_CMOCKA_H
#define DDL_TESTS_KERNELS_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
	const char *name;           /* a sentence */
	void (*test)(void **state); /* returns if all is good */
};

#define cmocka_unit_test(f)                                                                                                        \
	{                                                                                                                          \
#f, f                                                                                                              \
	}
#define print_message(...) printf(__VA_ARGS__)
#define fail_msg(...)                                                                                                              \
	do {                                                                                                                       \
		printf(__VA_ARGS__);                                                                                               \
		printf("\n%s:%d: failed\n", __FILE__, __LINE__);                                                                   \
		exit(1);                                                                                                           \
	} while (0)
#define assert_true(e)                                                                                                             \
	do {                                                                                                                       \
		if (!(e))                                                                                                          \
			fail_msg("%s", #e);                                                                                        \
	} while (0)
#define assert_int_equal(a, b)       assert_true((a) == (b))
#define assert_ptr_equal(a, b)       assert_true((a) == (b))
#define assert_non_null(p)           assert_true((p) != NULL)
#define assert_null(p)               assert_true((p) == NULL)
#define assert_string_equal(a, b)    assert_true(strcmp(a, b) == 0)
#define assert_memory_equal(a, b, n) assert_true(memcmp(a, b, n) == 0)

#define cmocka_run_group_tests(tests, setup, teardown) run_tests(tests, sizeof(tests) / sizeof((tests)[0]))

static inline int run_tests(const struct CMUnitTest *tests, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		printf("[ RUN      ] %s\n", tests[i].name);
		fflush(stdout);
		tests[i].test(NULL);
		printf("[       OK ] %s\n", tests[i].name);
	}
	printf("%zu test(s) run.\n", n);
	return 0;
}

#endif
