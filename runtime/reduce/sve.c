/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sve.c - the kernels for arm64's SVE, whose vectors are as long as the CPU likes: the portable loops, which the compiler turns
 * into SVE's. Taken only where vectors are longer than NEON's.
 */
#include <sys/auxv.h>
#include <sys/prctl.h>

#define PLAIN_FLOATS
#include "plain.inc"
#include "blocks.inc"
#include "set.inc"

#ifndef HWCAP_SVE
#define HWCAP_SVE (1u << 22)
#endif

static int usable(void)
{
	int length = getauxval(AT_HWCAP) & HWCAP_SVE ? prctl(PR_SVE_GET_VL) : -1;
	return length > 0 && (length & PR_SVE_VL_LEN_MASK) > 16;
}

const struct ddl__kernel_set ddl__kernel_set_sve = {
	.name = "sve",
	.description = "SVE with vectors of more than 16 bytes",
	.usable = usable,
	.get = get,
};
