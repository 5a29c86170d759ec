/* SPDX-License-Identifier: Apache-2.0 */
/* shm_window.c - see shm_window.h. */
#include "shm_window.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memfd.h"

/* ---- ours ---- */

/* Puts one that waits under way. On failure it goes on waiting. */
static int send_window(struct ddl__link *link, struct ddl__shown *shown)
{
	const uint64_t size = shown->size;
	const struct ddl__frame frame = { .type = DDL__FRAME_WINDOW, .bytes = sizeof(size), .request = shown->id };
	int rc = ddl__stream_put(link->stream, &frame, &size, &shown->fd, 1);

	if (rc == 0)
		shown->fd = -1;
	return rc;
}

static bool may_say(const struct ddl__link *link)
{
	return link->state == DDL__LINK_UP && !link->said_bye && !link->mute;
}

static void say(struct ddl__link *link, enum ddl__frame_type type, uint32_t id)
{
	const struct ddl__frame frame = { .type = (uint16_t)type, .request = id };

	/* Without memory the peer does not hear of it: no slice is lent, or a mapping stays. No harm. */
	if (may_say(link))
		(void)ddl__stream_put(link->stream, &frame, NULL, NULL, 0);
}

void ddl__windows_show(struct ddl__link *link, struct ddl__windows *windows, const struct ddl__window *window)
{
	struct ddl__shown *shown = windows->shown;

	while (shown && shown->id != window->id)
		shown = shown->next;
	if (!shown) {
		if (windows->n_shown >= DDL__WINDOWS_MAX)
			return; /* the peer would take it for a fault */
		shown = calloc(1, sizeof(*shown));
		if (!shown)
			return;
		*shown = (struct ddl__shown){ window->id, fcntl(window->fd, F_DUPFD_CLOEXEC, 0), window->size, false,
					      windows->shown };
		if (shown->fd < 0) {
			free(shown);
			return;
		}
		windows->shown = shown;
		windows->n_shown++;
	}
	if (shown->fd >= 0 && may_say(link) && send_window(link, shown) == 0)
		link->mesh->ops->pump(link);
}

int ddl__windows_up(struct ddl__link *link, struct ddl__windows *windows)
{
	int rc = 0;

	for (struct ddl__shown *shown = windows->shown; rc == 0 && shown; shown = shown->next)
		if (shown->fd >= 0)
			rc = send_window(link, shown);
	return rc;
}

static void shown_free(struct ddl__shown *shown)
{
	if (shown->fd >= 0)
		close(shown->fd);
	free(shown);
}

void ddl__windows_hide(struct ddl__link *link, struct ddl__windows *windows, uint32_t id)
{
	for (struct ddl__shown **at = &windows->shown; *at; at = &(*at)->next) {
		struct ddl__shown *shown = *at;

		if (shown->id != id)
			continue;
		*at = shown->next;
		windows->n_shown--;
		if (shown->fd < 0) {
			say(link, DDL__FRAME_HIDE, id);
			if (may_say(link))
				link->mesh->ops->pump(link);
		}
		shown_free(shown);
		return;
	}
}

bool ddl__windows_mapped(struct ddl__windows *windows, uint32_t id)
{
	struct ddl__shown **at = &windows->shown, *found;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	found = *at;
	if (!found)
		return false;
	*at = found->next; /* to the front */
	found->next = windows->shown;
	windows->shown = found;
	return found->mapped;
}

/* ---- the peer's ---- */

static struct ddl__seen *find_seen(struct ddl__windows *windows, uint64_t id)
{
	struct ddl__seen **at = &windows->seen, *found;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	found = *at;
	if (found) {
		*at = found->next;
		found->next = windows->seen;
		windows->seen = found;
	}
	return found;
}

uint8_t *ddl__windows_at(struct ddl__windows *windows, uint64_t id, uint64_t at, uint64_t bytes)
{
	const struct ddl__seen *seen = find_seen(windows, id);

	return seen && at <= seen->size && bytes <= seen->size - at ? seen->memory + at : NULL;
}

/* The peer's window of that size. Not to have room for it is no fault of the peer's. */
static int map_window(struct ddl__link *link, struct ddl__windows *windows, uint32_t id, int fd, uint64_t size)
{
	struct ddl__seen *seen = calloc(1, sizeof(*seen));
	void *memory;
	int rc = seen ? ddl__memfd_map(fd, (size_t)size, MAP_POPULATE, &memory) : -ENOMEM;

	if (rc) {
		free(seen);
		return rc == -EBADMSG ? ddl__link_bad(link, "it showed a window of a wrong size or without seals") : 0;
	}
	*seen = (struct ddl__seen){ id, memory, (size_t)size, windows->seen };
	windows->seen = seen;
	windows->n_seen++;
	say(link, DDL__FRAME_MAPPED, id);
	return 0;
}

static int on_window(struct ddl__link *link, struct ddl__windows *windows, const struct ddl__frame *frame, const void *body)
{
	int fd = ddl__stream_take_fd(link->stream);
	uint64_t size = 0;
	int rc;

	if (frame->bytes == sizeof(size))
		memcpy(&size, body, sizeof(size));
	if (fd < 0 || size == 0 || size > SIZE_MAX / 2 || frame->request == 0 || find_seen(windows, frame->request) ||
	    windows->n_seen >= DDL__WINDOWS_MAX)
		rc = ddl__link_bad(link, "it showed a window in a wrong form");
	else
		rc = map_window(link, windows, frame->request, fd, size);
	if (fd >= 0)
		close(fd);
	return rc;
}

static void on_hide(struct ddl__windows *windows, uint32_t id)
{
	struct ddl__seen *seen = find_seen(windows, id);

	if (!seen)
		return; /* there was no room for it */
	windows->seen = seen->next;
	windows->n_seen--;
	munmap(seen->memory, seen->size);
	free(seen);
}

int ddl__windows_frame(struct ddl__link *link, struct ddl__windows *windows, const struct ddl__frame *frame, const void *body)
{
	if (frame->type == DDL__FRAME_WINDOW)
		return on_window(link, windows, frame, body);
	if (frame->bytes)
		return ddl__link_bad(link, "it spoke of a window in a wrong form");
	if (frame->type == DDL__FRAME_HIDE) {
		on_hide(windows, frame->request);
		return 0;
	}
	for (struct ddl__shown *shown = windows->shown; shown; shown = shown->next)
		if (shown->id == frame->request)
			shown->mapped = shown->fd < 0;
	return 0;
}

void ddl__windows_fini(struct ddl__windows *windows)
{
	while (windows->shown) {
		struct ddl__shown *shown = windows->shown;

		windows->shown = shown->next;
		shown_free(shown);
	}
	while (windows->seen)
		on_hide(windows, windows->seen->id);
}
