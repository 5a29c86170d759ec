/* SPDX-License-Identifier: Apache-2.0 */
/* shm.c - lanes through shared memory: what every transport must do, and what is shared memory's own. */
#include "transport.h"

#define OPS (&ddl__transport_shm)
#include "transport_cases.h"

int main(void)
{
	const struct CMUnitTest tests[] = {
		TRANSPORT_CASES,
	};

	return cmocka_run_group_tests_name("shm", tests, NULL, NULL);
}
