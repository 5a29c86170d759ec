/* SPDX-License-Identifier: Apache-2.0 */
/* report_print.h - the statistics of all ranks as a table for people or as a JSON file. Inside of core/ only. */
#ifndef DDL_CORE_REPORT_PRINT_H
#define DDL_CORE_REPORT_PRINT_H

#include <stdbool.h>
#include <stdint.h>

#include <ddl/ddl.h>

enum ddl__report_time { /* the first figures of a row */
			DDL__REPORT_STARTS = 0,
			DDL__REPORT_TOTAL = 1,    /* ns */
			DDL__REPORT_SHORTEST = 2, /* ns */
			DDL__REPORT_LONGEST = 3,  /* ns */
			DDL__REPORT_ALONE = 4,    /* ns; 0 not measured */
			DDL__REPORT_LEAST = 5,    /* us that a rank waited for others, above the rank's number */
			DDL__REPORT_TIMES = 6,    /* how many there are */
};

enum {
	DDL__REPORT_PART = sizeof(struct ddl_stats) / sizeof(uint64_t), /* figures of a struct ddl_stats */
	DDL__REPORT_RANK_BITS = 20,
};

struct ddl__report_peer { /* of two ranks; no padding */
	uint32_t rank, peer;
	struct ddl_stats stats;
};

struct ddl__report_rows {
	size_t n;       /* rows, as in struct ddl__stats */
	size_t width;   /* figures of a row: times, then a part for all, for each level and for each rail */
	int64_t *least; /* n * width, over the ranks */
	int64_t *most;
	int64_t *sum;
	bool of_one; /* they are rank 0's alone */
	size_t n_peers;
	struct ddl__report_peer *peers;
};

/* Writes them where DDL_STATS said. */
void ddl__report_print(const struct ddl_comm *comm, const struct ddl__report_rows *rows);

#endif
