/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_inside.h - what verbs_device.c (devices as they are) and verbs_rails.c (the choice among their ports) share. */
#ifndef DDL_TRANSPORT_VERBS_INSIDE_H
#define DDL_TRANSPORT_VERBS_INSIDE_H

#include "verbs_device.h"

struct ddl__verbs_candidate { /* a port that may become a rail */
	struct ddl__verbs_port port;
	size_t interface; /* RoCE: which of the rank's interfaces it belongs to; n_interfaces: none of them */
};

struct ddl__verbs_survey {
	const struct ddl__verbs_api *api;
	const struct ddl__verbs_choice *choice; /* whose settings are not NULL, nor its root */
	struct ddl__verbs_device **devices;
	size_t n_devices;
	struct ddl__verbs_candidate *candidates;
	size_t n_candidates;
	char names[256]; /* of all devices, also of those that are not wanted: "mlx5_0, mlx5_1" */
};

/* Opens the devices, in natural order of their names (wanted_only: those alone that the settings name, if they do), and describes
 * their ports. Returns 0, also where there are none, or -ENOMEM; close it in any case. */
int ddl__verbs_survey_open(struct ddl__verbs_survey *survey, bool wanted_only);
void ddl__verbs_survey_close(struct ddl__verbs_survey *survey);
void ddl__verbs_device_close(struct ddl__verbs_device *device); /* and frees it */

#endif
