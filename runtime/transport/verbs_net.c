/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_net.c - see verbs.h: addresses. A rail is a port; beside its own address stands that of the listening socket for the
 * stream, which is at the rail's IP interface where the job has as many of those, else at the first.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "log.h"
#include "tcp_net.h"
#include "verbs.h"

const struct ddl__verbs_address *ddl__verbs_address_of(const struct ddl__mesh *mesh, int peer, unsigned rail)
{
	return (const struct ddl__verbs_address *)mesh->peers[peer].own + rail;
}

int ddl__verbs_listen(struct ddl__mesh *mesh, const struct ddl__transport_config *config, int *fds, void *own, size_t *size,
		      struct ddl_error *err)
{
	struct verbs *verbs = (struct verbs *)mesh;
	struct ddl__verbs_address rails[DDL__RAILS_MAX];
	char why[DDL__REASON_SIZE];

	memset(rails, 0, sizeof(rails));
	for (size_t i = 0; i < verbs->ports.n; i++) {
		const char *at = config->n_addresses ? config->addresses[i < config->n_addresses ? i : 0] : NULL;
		int rc = at ? ddl__tcp_listen_at(at, &fds[i], &rails[i].stream) : -ENOENT;

		if (rc) {
			fds[i] = -1;
			while (i-- > 0)
				close(fds[i]);
			return ddl__error_set(err, rc, "verbs: cannot listen at %s for the connections beside RDMA: %s",
					      at ? at : "any address", ddl__error_reason(why, sizeof(why), rc));
		}
		ddl__verbs_port_describe(&verbs->ports.ports[i], &rails[i]);
		snprintf(mesh->rail_name[i], sizeof(mesh->rail_name[i]), "%.26s:%u", verbs->ports.ports[i].device->name,
			 verbs->ports.ports[i].number);
	}
	*size = verbs->ports.n * sizeof(rails[0]);
	memcpy(own, rails, *size);
	return 0;
}

static bool joins(const struct ddl__mesh *mesh, unsigned rail, const void *own, size_t size, bool apart)
{
	struct ddl__verbs_address ours, theirs;

	if ((rail + 1) * sizeof(theirs) > size)
		return false;
	memcpy(&theirs, (const uint8_t *)own + rail * sizeof(theirs), sizeof(theirs));
	memcpy(&ours, mesh->address + sizeof(struct ddl__mesh_address) + rail * sizeof(ours), sizeof(ours));
	return ddl__tcp_joins(&ours.stream, &theirs.stream, apart) && ddl__verbs_joins(&ours, &theirs);
}

int ddl__verbs_attach(struct ddl__transport *transport, const struct ddl__peer *peers, const uint8_t *secret, struct ddl_error *err)
{
	const struct ddl__mesh *mesh = (const struct ddl__mesh *)transport;
	const size_t at = sizeof(struct ddl__mesh_address);
	struct ddl__verbs_address ours, theirs;
	int rc = ddl__mesh_attach(transport, peers, secret, err);
	int first = -1, n = 0;
	char why[256] = "";

	if (rc)
		return rc;
	memcpy(&ours, mesh->address + at, sizeof(ours));
	for (int i = 0; i < mesh->n_ranks; i++) {
		if (i == mesh->rank || !peers[i].address || peers[i].size < at + sizeof(theirs) || mesh->peers[i].own)
			continue;
		memcpy(&theirs, (const uint8_t *)peers[i].address + at, sizeof(theirs));
		if (!ddl__verbs_joins(&ours, &theirs) && n++ == 0) {
			first = i;
			ddl__verbs_why_apart(&ours, &theirs, why, sizeof(why));
		}
	}
	if (n)
		ddl__log(DDL__LOG_WARNING, "rank %d: %d %s not reached by RDMA, though %s some; rank %d: %s", mesh->rank, n,
			 n == 1 ? "rank is" : "ranks are", n == 1 ? "it has" : "they have", first, why);
	return 0;
}

bool ddl__verbs_reaches(const struct ddl__mesh *mesh, const void *own, size_t size, const char *machine)
{
	const bool apart = machine[0] && mesh->machine[0] && strcmp(machine, mesh->machine);

	return size % sizeof(struct ddl__verbs_address) == 0 && size <= DDL__RAILS_MAX * sizeof(struct ddl__verbs_address) &&
	       joins(mesh, 0, own, size, apart);
}

unsigned ddl__verbs_rails(const struct ddl__mesh *mesh, const void *own, size_t size, bool here)
{
	unsigned n = 1;

	while (n < mesh->n_rails && joins(mesh, n, own, size, !here))
		n++;
	return n;
}

void ddl__verbs_target(const void *own, struct sockaddr_storage *to, socklen_t *size, char *words, size_t words_size)
{
	struct ddl__verbs_address address;

	memcpy(&address, own, sizeof(address));
	ddl__tcp_target(&address.stream, to, size, words, words_size);
}
