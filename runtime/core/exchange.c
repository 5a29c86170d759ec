/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.c - rank 0's plan counts. Each rank publishes the digest of the plan it was given; a rank with another one is named. The
 * job's secret is rank 0's and travels nowhere else. Ranks of a communicator that is split from another know both already.
 *
 * Keys: "ddl.rank" (version, digest, facts, addresses) of every rank, "ddl.job" (plan text, options, secret) of rank 0.
 */
#include "exchange.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "blob.h"
#include "error.h"
#include "log.h"
#include "merge.h"
#include "stats.h"

#define PROTOCOL "4" /* of the exchange and the transports; ranks must have the same */

static int out_of_memory(struct ddl_error *err)
{
	return ddl__error_set(err, -ENOMEM, "out of memory at start");
}

static int publish_rank(struct ddl__boot *boot, const struct ddl__settings *settings, const struct ddl__facts *facts,
			struct ddl__transport *const *transports, size_t n_transports, struct ddl_error *err)
{
	struct ddl__blob blob = { 0 };
	char *text = NULL;
	uint8_t buffer[DDL__ADDRESS_MAX];
	uint32_t observe = settings->observe | (*settings->options.trace ? DDL__OBSERVE_TRACE : 0);
	uint64_t digest = settings->plan ? ddl__plan_digest(settings->plan, strlen(settings->plan)) : 0;
	int rc = ddl__facts_encode(facts, &text, err);
	if (rc < 0)
		return rc;
	rc = ddl__blob_add(&blob, "protocol", PROTOCOL, sizeof(PROTOCOL) - 1);
	rc = rc ? rc : ddl__blob_add(&blob, "version", DDL_VERSION, sizeof(DDL_VERSION) - 1);
	rc = rc ? rc : ddl__blob_add(&blob, "digest", &digest, settings->plan ? sizeof(digest) : 0);
	rc = rc ? rc : ddl__blob_add(&blob, "facts", text, strlen(text));
	rc = rc ? rc : ddl__blob_add(&blob, "observe", &observe, observe ? sizeof(observe) : 0);
	rc = rc ? rc : ddl__blob_add(&blob, "check", &settings->check, settings->check ? sizeof(settings->check) : 0);
	for (size_t t = 0; rc == 0 && t < n_transports; t++) {
		size_t size = sizeof(buffer);
		rc = transports[t]->ops->address(transports[t], buffer, &size);
		rc = rc ? rc : ddl__blob_add(&blob, transports[t]->ops->name, buffer, size);
	}
	rc = rc ? out_of_memory(err) : boot->ops->put(boot, "ddl.rank", blob.data, blob.size, err);
	free(blob.data);
	free(text);
	return rc;
}

/*
 * Reads rank 0's tuning file into text (room for DDL__TUNING_TEXT_MAX) and looks whether it is one. What is wrong with it costs the
 * tuning only: it is said and left out. Returns its size, 0: none.
 */
static size_t read_tuning(const char *path, char *text, struct ddl__tuning *tuning)
{
	struct ddl_error why;
	ssize_t size = ddl__tuning_read(path, text, tuning, &why);
	if (size >= 0)
		return (size_t)size;
	ddl__log(DDL__LOG_WARNING, "the tuning file %s (DDL_TUNE) is left out: %s", path, why.text);
	return 0;
}

static int publish_tuning(const char *path, struct ddl__blob *blob)
{
	char *text = malloc(DDL__TUNING_TEXT_MAX);
	struct ddl__tuning *tuning = calloc(1, sizeof(*tuning));
	size_t size = text && tuning ? read_tuning(path, text, tuning) : 0;
	int rc = !text || !tuning ? -ENOMEM : size ? ddl__blob_add(blob, "tuning", text, size) : 0;
	free(tuning);
	free(text);
	return rc;
}

static int publish_job(struct ddl__boot *boot, const struct ddl__settings *settings, struct ddl_error *err)
{
	struct ddl__blob blob = { 0 };
	uint8_t secret[DDL__SECRET_SIZE];
	if (getrandom(secret, sizeof(secret), 0) != sizeof(secret))
		return ddl__error_set(err, -EIO, "no random bytes for the job's secret: %s", strerror(errno));
	int rc = ddl__blob_add(&blob, "secret", secret, sizeof(secret));
	if (rc == 0 && settings->plan)
		rc = ddl__blob_add(&blob, "plan", settings->plan, strlen(settings->plan));
	if (rc == 0 && settings->tuning)
		rc = publish_tuning(settings->tuning, &blob);
	rc = rc ? rc : ddl__blob_add(&blob, "options", &settings->options, sizeof(settings->options));
	rc = rc ? out_of_memory(err) : boot->ops->put(boot, "ddl.job", blob.data, blob.size, err);
	free(blob.data);
	return rc;
}

/* What one rank wants to see is done on all. */
static void take_wishes(struct ddl__members *m, const void *blob, size_t size)
{
	const void *found;
	size_t found_size;
	uint32_t observe = 0;
	uint64_t check = 0;
	if (ddl__blob_find(blob, size, "observe", &found, &found_size) == 0 && found_size == sizeof(observe))
		memcpy(&observe, found, sizeof(observe));
	if (ddl__blob_find(blob, size, "check", &found, &found_size) == 0 && found_size == sizeof(check))
		memcpy(&check, found, sizeof(check));
	m->observe |= observe;
	m->check = check > m->check ? check : m->check;
}

/* Reads one rank's blob; its facts are decoded into `told` and its place kept, its protocol and digest compared. */
static int read_rank(struct ddl__members *m, int rank, struct ddl__facts *told, const void *plan, size_t plan_size,
		     struct ddl_error *err)
{
	const void *protocol, *version, *digest, *facts;
	size_t protocol_size, version_size, digest_size, facts_size;
	const void *blob = m->blobs[rank];
	size_t size = m->sizes[rank];
	struct ddl_error why = { 0 };
	if (ddl__blob_find(blob, size, "protocol", &protocol, &protocol_size) < 0 ||
	    ddl__blob_find(blob, size, "version", &version, &version_size) < 0)
		return ddl__error_set(err, -EBADMSG,
				      "rank %d published something that is not DDL's: is another program part of this job step?",
				      rank);
	if (protocol_size != sizeof(PROTOCOL) - 1 || memcmp(protocol, PROTOCOL, protocol_size) != 0)
		return ddl__error_set(
			err, -EPROTO,
			"rank %d runs DDL %.*s, which does not talk to this rank's %s: install one version on all nodes", rank,
			(int)version_size, (const char *)version, DDL_VERSION);
	if (ddl__blob_find(blob, size, "digest", &digest, &digest_size) < 0 ||
	    ddl__blob_find(blob, size, "facts", &facts, &facts_size) < 0 || ddl__facts_decode(facts, facts_size, told, &why) < 0)
		return ddl__error_set(err, -EBADMSG, "rank %d published facts that cannot be read: %s", rank, why.text);
	if (ddl__place_init(&m->places[rank], told) < 0)
		return out_of_memory(err);
	take_wishes(m, blob, size);
	uint64_t theirs = 0;
	if (digest_size == sizeof(theirs))
		memcpy(&theirs, digest, sizeof(theirs));
	if (digest_size && (!plan || theirs != ddl__plan_digest(plan, plan_size)))
		return ddl__error_set(err, -EPROTO,
				      "rank %d on node %s has %s: " DDL__PLAN_ENV
				      " must be the same on all ranks (was it changed in the job script?)",
				      rank, told->node, plan ? "another plan than rank 0" : "a plan and rank 0 has none");
	return 0;
}

static int read_all(struct ddl__boot *boot, struct ddl__members *m, const void *plan, size_t plan_size, struct ddl_error *err)
{
	struct ddl__facts *told = calloc(1, sizeof(*told)); /* too large for a stack */
	int rc = told ? 0 : out_of_memory(err);
	for (int r = 0; rc == 0 && r < boot->size; r++) {
		rc = boot->ops->get(boot, r, "ddl.rank", &m->blobs[r], &m->sizes[r], err);
		rc = rc ? rc : read_rank(m, r, told, plan, plan_size, err);
	}
	free(told);
	return rc;
}

struct job {              /* what all ranks must have the same of */
	void *data;       /* holds what follows, where it was read; owned */
	size_t size;      /* of data */
	const void *plan; /* text; NULL: there is none */
	size_t plan_size;
	const void *secret;  /* DDL__SECRET_SIZE bytes */
	const void *options; /* a struct ddl__options, perhaps not aligned */
};

/* What rank 0 published, or what all ranks know already. */
static int read_job(struct ddl__boot *boot, const struct ddl__settings *settings, struct job *job, struct ddl_error *err)
{
	size_t secret_size, options_size;
	if (boot->secret) {
		*job = (struct job){ NULL, 0, settings->plan, strlen(settings->plan), boot->secret, &settings->options };
		return 0;
	}
	int rc = boot->ops->get(boot, 0, "ddl.job", &job->data, &job->size, err);
	if (rc < 0)
		return rc;
	if (ddl__blob_find(job->data, job->size, "secret", &job->secret, &secret_size) < 0 || secret_size != DDL__SECRET_SIZE ||
	    ddl__blob_find(job->data, job->size, "options", &job->options, &options_size) < 0 ||
	    options_size != sizeof(struct ddl__options))
		return ddl__error_set(err, -EBADMSG,
				      "what rank 0 published cannot be read: install one version of DDL on all nodes");
	if (ddl__blob_find(job->data, job->size, "plan", &job->plan, &job->plan_size) < 0)
		job->plan = NULL;
	return 0;
}

/* The tuning that rank 0 published, if any. */
static int take_tuning(const struct job *job, struct ddl__members *m, struct ddl_error *err)
{
	const void *text;
	size_t size;
	if (!job->data || ddl__blob_find(job->data, job->size, "tuning", &text, &size) < 0)
		return 0;
	m->tuning = calloc(1, sizeof(*m->tuning));
	return m->tuning ? ddl__tuning_parse(text, size, m->tuning, err) : out_of_memory(err);
}

static int merge(const struct ddl__boot *boot, const struct job *job, struct ddl__members *m, struct ddl_error *err)
{
	char *text = job->plan ? strndup(job->plan, job->plan_size) : NULL;
	struct ddl__options asked;
	memcpy(&asked, job->options, sizeof(asked));
	asked.trace[sizeof(asked.trace) - 1] = '\0';
	int rc = job->plan && !text
			 ? out_of_memory(err)
			 : ddl__merge(text, m->places, (size_t)m->size, boot->job, &asked, &m->plan, &m->node_of_rank, err);
	free(text);
	return rc;
}

int ddl__exchange(struct ddl__boot *boot, const struct ddl__settings *settings, const struct ddl__facts *facts,
		  struct ddl__transport *const *transports, size_t n_transports, struct ddl__members *m, struct ddl_error *err)
{
	struct job job = { 0 };
	memset(m, 0, sizeof(*m));
	m->size = boot->size;
	m->places = calloc((size_t)boot->size, sizeof(*m->places));
	m->blobs = calloc((size_t)boot->size, sizeof(void *));
	m->sizes = calloc((size_t)boot->size, sizeof(*m->sizes));
	int rc = m->places && m->blobs && m->sizes ? 0 : out_of_memory(err);
	rc = rc ? rc : publish_rank(boot, settings, facts, transports, n_transports, err);
	if (rc == 0 && boot->rank == 0 && !boot->secret)
		rc = publish_job(boot, settings, err);
	rc = rc ? rc : boot->ops->fence(boot, err);
	rc = rc ? rc : read_job(boot, settings, &job, err);
	rc = rc ? rc : read_all(boot, m, job.plan, job.plan_size, err);
	rc = rc ? rc : take_tuning(&job, m, err);
	rc = rc ? rc : merge(boot, &job, m, err);
	if (rc == 0)
		memcpy(m->secret, job.secret, sizeof(m->secret));
	free(job.data);
	if (rc < 0)
		ddl__members_fini(m);
	return rc;
}

void ddl__members_peer(const struct ddl__members *m, int rank, const char *transport, struct ddl__peer *peer)
{
	memset(peer, 0, sizeof(*peer));
	peer->machine = m->places[rank].machine;
	if (ddl__blob_find(m->blobs[rank], m->sizes[rank], transport, &peer->address, &peer->size) < 0)
		peer->address = NULL;
}

void ddl__members_fini(struct ddl__members *m)
{
	ddl__plan_destroy(m->plan);
	for (int r = 0; m->blobs && r < m->size; r++)
		free(m->blobs[r]);
	for (int r = 0; m->places && r < m->size; r++)
		ddl__place_fini(&m->places[r]);
	free(m->node_of_rank);
	free(m->places);
	free(m->tuning);
	free(m->blobs);
	free(m->sizes);
	memset(m, 0, sizeof(*m));
}
