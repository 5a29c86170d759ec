/* SPDX-License-Identifier: Apache-2.0 */
/* tcp.c - lanes over TCP: what every transport must do, and what is TCP's own. */
#include "transport.h"

#define OPS (&ddl__transport_tcp)
#include "transport_cases.h"

#include <netinet/in.h>

int main(void)
{
	const struct CMUnitTest tests[] = {
		TRANSPORT_CASES,
	};

	return cmocka_run_group_tests_name("tcp", tests, NULL, NULL);
}
