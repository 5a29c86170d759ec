/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generic.c - the kernels in portable C for any CPU of this architecture.
 */
#define PLAIN_FLOATS
#include "plain.inc"
#include "blocks.inc"
#include "set.inc"

static int usable(void)
{
	return 1;
}

const struct ddl__kernel_set ddl__kernel_set_generic = {
	.name = "generic",
	.description = "portable C, compiled for this architecture's baseline",
	.usable = usable,
	.get = get,
};
