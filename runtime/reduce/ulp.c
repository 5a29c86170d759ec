/* SPDX-License-Identifier: Apache-2.0 */
/* ulp.c - see ulp.h. */
#include "ulp.h"

#include <math.h>
#include <stdbool.h>

static double eps_of(enum ddl_type type, enum ddl_wire wire)
{
	if (type == DDL_FLOAT64)
		return 0x1p-52;
	if (type == DDL_BFLOAT16 || (type == DDL_FLOAT32 && wire == DDL_WIRE_BFLOAT16))
		return 0x1p-7;
	if (type == DDL_FLOAT16 || (type == DDL_FLOAT32 && wire == DDL_WIRE_FLOAT16))
		return 0x1p-10;
	return 0x1p-23;
}

void ddl__ulp_add(struct ddl__ulp *ulp, enum ddl_type type, enum ddl_wire wire, const double *got, const double *want, size_t n)
{
	const bool shared = type == DDL_FLOAT32 && wire == DDL_WIRE_INT8;
	const double eps = eps_of(type, wire);
	double squares = 0, most = 0;
	size_t numbers = 0;
	for (size_t i = 0; i < n; i++) {
		if (!isfinite(got[i]) || !isfinite(want[i]))
			continue;
		squares += want[i] * want[i];
		most = fmax(most, fabs(want[i]));
		numbers++;
	}
	const double usual = numbers ? sqrt(squares / (double)numbers) : 0;
	for (size_t i = 0; i < n; i++) {
		if (!isfinite(got[i]) || !isfinite(want[i]))
			continue;
		const double unit = shared ? most / 127 : eps * fmax(fabs(want[i]), usual);
		const double error = got[i] == want[i] ? 0 : fabs(got[i] - want[i]) / fmax(unit, 0x1p-1022);
		ulp->most = fmax(ulp->most, error);
		ulp->squares += error * error;
	}
	ulp->n += numbers;
}

double ddl__ulp_rms(const struct ddl__ulp *ulp)
{
	return ulp->n ? sqrt(ulp->squares / (double)ulp->n) : 0;
}
