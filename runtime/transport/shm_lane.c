/* SPDX-License-Identifier: Apache-2.0 */
/* shm_lane.c - see shm_lane.h; and the memory itself, which has no name and cannot shrink. */
#include "shm_lane.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_SIZE 4096u
#define SEALS     (F_SEAL_SHRINK | F_SEAL_GROW)

void ddl__shm_lane_init(struct ddl__shm_lane *lane, const struct ddl__lane *as, void *memory)
{
	size_t slots = sizeof(struct ddl__shm_segment), slice = ddl__lane_stride(as);
	bool inside = as->slot_bytes <= sizeof(lane->at->inside), near = as->slot_bytes <= PAGE_SIZE;

	*lane = (struct ddl__shm_lane){ .segment = memory, .slots = as->slots };
	lane->slot_stride = sizeof(struct ddl__shm_slot) + (inside || !near ? 0 : slice);
	lane->slice_stride = near ? lane->slot_stride : slice;
	if (near)
		lane->slices_at = slots + (inside ? offsetof(struct ddl__shm_slot, inside) : sizeof(struct ddl__shm_slot));
	else
		lane->slices_at = (slots + as->slots * sizeof(struct ddl__shm_slot) + PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE;
	lane->size = near ? slots + as->slots * lane->slot_stride : lane->slices_at + as->slots * slice;
	lane->at = memory ? (struct ddl__shm_slot *)(lane->segment + 1) : NULL;
}

size_t ddl__shm_lane_size(const struct ddl__lane *as)
{
	struct ddl__shm_lane lane;

	ddl__shm_lane_init(&lane, as, NULL);
	return lane.size;
}

int ddl__shm_map(int fd, size_t size, int flags, void **memory)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *at;

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) || st.st_size < 0 || (size_t)st.st_size != size)
		return -EBADMSG;
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	*memory = at;
	return 0;
}

int ddl__shm_make(const char *name, size_t size, int *fd, void **memory)
{
	int made = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int rc;

	if (made < 0)
		return -errno;
	do
		rc = fallocate(made, 0, 0, (off_t)size);
	while (rc && errno == EINTR);
	if (rc || fcntl(made, F_ADD_SEALS, SEALS | F_SEAL_SEAL))
		rc = -errno;
	else
		rc = ddl__shm_map(made, size, 0, memory);
	if (rc)
		close(made);
	else
		*fd = made;
	return rc;
}
