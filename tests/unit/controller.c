/* SPDX-License-Identifier: Apache-2.0 */
/*
 * controller.c - the time limit around the one RPC: with a slurmctld that answers, refuses, or answers when nobody waits any
 * more. The RPC is the test's own and waits for the test, so nothing here depends on the clock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <semaphore.h>

#include "controller.h"
#include "error.h"
#include "release.h"

static struct {
	int rc;         /* what the RPC returns */
	int wait;       /* 1: not before `go` */
	sem_t go;       /* the RPC may return */
	sem_t returned; /* it is about to */
	int topo_len;   /* SLURM_TOPO_LEN was set during the RPC */
} rpc;

int ddl__release_topology(char **text, size_t *length, struct ddl_error *err)
{
	rpc.topo_len = getenv("SLURM_TOPO_LEN") != NULL;
	if (rpc.wait)
		sem_wait(&rpc.go);
	sem_post(&rpc.returned);
	if (rpc.rc < 0)
		return ddl__error_set(err, rpc.rc, "slurmctld says no");
	*text = strdup("SwitchName=leaf1 Nodes=n1\n");
	assert_non_null(*text);
	*length = strlen(*text);
	return 0;
}

static int setup(void **state)
{
	memset(&rpc, 0, sizeof(rpc));
	sem_init(&rpc.go, 0, 0);
	sem_init(&rpc.returned, 0, 0);
	return 0;
}

static void an_answer_comes_back_as_it_is(void **state)
{
	char *text = NULL;
	size_t length = 0;

	setenv("SLURM_TOPO_LEN", "20", 1);
	assert_int_equal(ddl__controller_topology(60000, &text, &length, NULL), 0);
	assert_string_equal(text, "SwitchName=leaf1 Nodes=n1\n");
	assert_int_equal(length, strlen(text));
	assert_int_equal(rpc.topo_len, 0);
	assert_string_equal(getenv("SLURM_TOPO_LEN"), "20");
	unsetenv("SLURM_TOPO_LEN");
	free(text);
}

static void a_refusal_comes_back_with_its_sentence(void **state)
{
	struct ddl_error err;
	char *text = NULL;
	size_t length;

	rpc.rc = -ECONNREFUSED;
	assert_int_equal(ddl__controller_topology(60000, &text, &length, &err), -ECONNREFUSED);
	assert_string_equal(err.text, "slurmctld says no");
	assert_null(text);
}

static void nobody_waits_for_ever(void **state)
{
	struct ddl_error err;
	char *text = NULL;
	size_t length;

	rpc.wait = 1;
	assert_int_equal(ddl__controller_topology(10, &text, &length, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "within 10 ms"));
	assert_null(text);
	/* the answer comes after all: its thread frees it */
	sem_post(&rpc.go);
	sem_wait(&rpc.returned);
	/* and the next call is not disturbed */
	rpc.wait = 0;
	assert_int_equal(ddl__controller_topology(60000, &text, &length, &err), 0);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(an_answer_comes_back_as_it_is, setup),
		cmocka_unit_test_setup(a_refusal_comes_back_with_its_sentence, setup),
		cmocka_unit_test_setup(nobody_waits_for_ever, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
