/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_verbs.c - see fake_verbs.h: the verbs of devices, memory, completion queues and events. Those of queue pairs are in
 * fake_verbs_qp.c, what goes between them in fake_verbs_wire.c, what a test says in fake_verbs_fabric.c. One lock covers
 * everything, and nobody sleeps with it: who waits for an event reads the eventfd without it.
 */
#include "fake_verbs_inside.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct fake__fabric fake__fabric = { .lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER };

static struct fake__fabric *const f = &fake__fabric;
static _Thread_local const char *seen;

void *fake__zeroed(size_t n, size_t size)
{
	void *memory = calloc(n ? n : 1, size ? size : 1);

	if (!memory)
		abort();
	return memory;
}

static void lock(void)
{
	pthread_mutex_lock(&f->lock);
}

static void unlock(void)
{
	pthread_mutex_unlock(&f->lock);
}

void fake__misuse(const char *fmt, ...)
{
	va_list args;

	if (*f->misuse)
		return;
	va_start(args, fmt);
	vsnprintf(f->misuse, sizeof(f->misuse), fmt, args);
	va_end(args);
}

/* Events */

static void queue_init(struct fake__queue *queue)
{
	queue->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	if (queue->fd < 0)
		abort();
	queue->first = queue->last = NULL;
}

/* Events are kept, so that the program's data path allocates nothing here either. */
static void event_done(struct fake__event *event)
{
	event->next = f->spare;
	f->spare = event;
}

void fake__queue_put(struct fake__queue *queue, const struct fake__event *event)
{
	struct fake__event *copy = f->spare;
	const uint64_t one = 1;

	if (copy)
		f->spare = copy->next;
	else
		copy = fake__zeroed(1, sizeof(*copy));
	*copy = *event;
	copy->next = NULL;
	if (queue->last)
		queue->last->next = copy;
	else
		queue->first = copy;
	queue->last = copy;
	if (write(queue->fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

/* Takes the first; NULL: there is none, errno says why. Blocks as the descriptor does. */
static struct fake__event *queue_get(struct fake__queue *queue)
{
	struct fake__event *event;
	uint64_t one;

	if (read(queue->fd, &one, sizeof(one)) != sizeof(one))
		return NULL;
	lock();
	event = queue->first;
	if (event) {
		queue->first = event->next;
		if (!queue->first)
			queue->last = NULL;
	}
	unlock();
	if (!event)
		errno = EAGAIN;
	return event;
}

/* Whether an event is of that completion queue, or queue pair. */
static bool is_of(const struct fake__event *event, const void *object)
{
	switch (event->cq ? IBV_EVENT_CQ_ERR : event->what.event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		return event->what.element.qp == object;
	case IBV_EVENT_CQ_ERR:
		return (event->cq ? &event->cq->ibv : event->what.element.cq) == object;
	default:
		return false;
	}
}

/* Forgets the events of an object that goes, or (NULL) all. Their count in the descriptor goes too, unless somebody is just reading
 * it. */
void fake__queue_drop(struct fake__queue *queue, const void *object)
{
	struct fake__event **at = &queue->first, *event;
	int flags = 0;
	uint64_t one;

	queue->last = NULL;
	while ((event = *at)) {
		if (object && !is_of(event, object)) {
			queue->last = event;
			at = &event->next;
			continue;
		}
		*at = event->next;
		event_done(event);
		flags++;
	}
	for (; flags > 0 && object; flags--)
		if (eventfd_read(queue->fd, &one) < 0)
			break;
}

void fake__queue_fini(struct fake__queue *queue)
{
	fake__queue_drop(queue, NULL);
	close(queue->fd);
}

void fake__tell(struct fake__device *device, const struct ibv_async_event *event)
{
	const struct ibv_context *only = NULL;

	if (event->event_type == IBV_EVENT_CQ_ERR)
		only = event->element.cq->context;
	else if (event->event_type == IBV_EVENT_QP_FATAL || event->event_type == IBV_EVENT_QP_REQ_ERR ||
		 event->event_type == IBV_EVENT_QP_ACCESS_ERR)
		only = event->element.qp->context;
	for (struct fake__context *context = f->contexts; context; context = context->next)
		if (context->device == device && (!only || only == &context->ibv))
			fake__queue_put(&context->events, &(struct fake__event){ .what = *event });
}

/* Devices */

void fake_verbs_see(const char *prefix)
{
	seen = prefix;
}

static struct ibv_device **get_device_list(int *n)
{
	struct ibv_device **list = fake__zeroed(FAKE_DEVICES + 1, sizeof(*list));
	int count = 0;

	lock();
	for (size_t i = 0; i < f->n_devices; i++)
		if (!seen || !strncmp(f->devices[i]->spec.name, seen, strlen(seen)))
			list[count++] = &f->devices[i]->ibv;
	f->lists++;
	unlock();
	if (n)
		*n = count;
	return list;
}

static void free_device_list(struct ibv_device **list)
{
	lock();
	f->lists--;
	unlock();
	free(list);
}

static const char *get_device_name(struct ibv_device *device)
{
	return device->name;
}

static struct ibv_context *open_device(struct ibv_device *ibv)
{
	struct fake__device *device = (struct fake__device *)ibv;
	struct fake__context *context;

	if (device->spec.open_error) {
		errno = device->spec.open_error;
		return NULL;
	}
	context = fake__zeroed(1, sizeof(*context));
	context->device = device;
	queue_init(&context->events);
	context->ibv.device = ibv;
	context->ibv.cmd_fd = -1;
	context->ibv.async_fd = context->events.fd;
	context->ibv.num_comp_vectors = 1;
	lock();
	context->next = f->contexts;
	f->contexts = context;
	f->counts.contexts++;
	unlock();
	return &context->ibv;
}

static int close_device(struct ibv_context *ibv)
{
	struct fake__context *context = (struct fake__context *)ibv, **at = &f->contexts;

	lock();
	if (context->users) {
		fake__misuse("%s is closed with %u objects that were made of it", context->device->spec.name, context->users);
		unlock();
		return EBUSY;
	}
	if (context->unacked)
		fake__misuse("%s is closed with %u events that were not acknowledged", context->device->spec.name,
			     context->unacked);
	while (*at != context)
		at = &(*at)->next;
	*at = context->next;
	f->counts.contexts--;
	fake__queue_fini(&context->events);
	unlock();
	free(context);
	return 0;
}

static int query_device(struct ibv_context *ibv, struct ibv_device_attr *attr)
{
	const struct fake_device *spec = &((struct fake__context *)ibv)->device->spec;

	memset(attr, 0, sizeof(*attr));
	snprintf(attr->fw_ver, sizeof(attr->fw_ver), "1.0");
	attr->max_mr_size = UINT64_MAX;
	attr->max_qp = 1 << 16;
	attr->max_qp_wr = spec->max_wr;
	attr->max_sge = spec->max_sge;
	attr->max_cq = 1 << 16;
	attr->max_cqe = spec->max_cqe;
	attr->max_mr = 1 << 20;
	attr->max_pd = 1 << 10;
	attr->max_pkeys = FAKE_PKEYS;
	attr->phys_port_cnt = (uint8_t)spec->n_ports;
	return 0;
}

static const struct fake_port *port_at(struct ibv_context *ibv, uint32_t number)
{
	const struct fake_device *spec = &((struct fake__context *)ibv)->device->spec;

	return number >= 1 && number <= (uint32_t)spec->n_ports ? &spec->ports[number - 1] : NULL;
}

static int query_port(struct ibv_context *ibv, uint8_t number, struct ibv_port_attr *attr)
{
	const struct fake_port *port = port_at(ibv, number);

	if (!port)
		return EINVAL;
	lock();
	memset(attr, 0, sizeof(*attr));
	attr->state = port->state;
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = port->mtu;
	attr->gid_tbl_len = FAKE_GIDS;
	attr->pkey_tbl_len = FAKE_PKEYS;
	attr->lid = port->lid;
	attr->active_speed = port->speed;
	attr->active_width = port->width;
	attr->phys_state = port->state == IBV_PORT_ACTIVE ? 5 : 3;
	attr->link_layer = port->ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
	attr->flags = port->grh_required ? IBV_QPF_GRH_REQUIRED : 0;
	attr->max_msg_sz = 1u << 31;
	unlock();
	return 0;
}

static int query_gid(struct ibv_context *ibv, uint8_t number, int index, union ibv_gid *gid)
{
	if (!port_at(ibv, number) || index < 0 || index >= FAKE_GIDS) {
		errno = EINVAL;
		return -1;
	}
	*gid = ((struct fake__context *)ibv)->device->gids[number - 1][index];
	return 0;
}

static int query_gid_ex(struct ibv_context *ibv, uint32_t number, uint32_t index, struct ibv_gid_entry *entry, uint32_t flags,
			size_t size)
{
	const struct fake_port *port = port_at(ibv, number);

	if (!port || index >= FAKE_GIDS || flags || size != sizeof(*entry))
		return EINVAL;
	if (!port->gids[index].text)
		return ENODATA;
	memset(entry, 0, sizeof(*entry));
	entry->gid = ((struct fake__context *)ibv)->device->gids[number - 1][index];
	entry->gid_index = index;
	entry->port_num = number;
	entry->gid_type = port->gids[index].type;
	entry->ndev_ifindex = port->gids[index].ifindex;
	return 0;
}

static int query_pkey(struct ibv_context *ibv, uint8_t number, int index, __be16 *pkey)
{
	const struct fake_port *port = port_at(ibv, number);

	if (!port || index < 0 || index >= FAKE_PKEYS) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htons(port->pkeys[index]);
	return 0;
}

/* Memory */

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
	struct fake__pd *pd = fake__zeroed(1, sizeof(*pd));

	pd->ibv.context = context;
	lock();
	((struct fake__context *)context)->users++;
	f->counts.pds++;
	unlock();
	return &pd->ibv;
}

static int dealloc_pd(struct ibv_pd *ibv)
{
	struct fake__pd *pd = (struct fake__pd *)ibv;

	lock();
	if (pd->users) {
		fake__misuse("a protection domain is given back with %u objects that were made of it", pd->users);
		unlock();
		return EBUSY;
	}
	((struct fake__context *)ibv->context)->users--;
	f->counts.pds--;
	unlock();
	free(pd);
	return 0;
}

/* Whether a registration is to fail: its errno, else 0. */
static int reg_refused(struct fake__device *device, size_t bytes, int access)
{
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	if (bytes == 0)
		return EINVAL;
	if (device->fail_reg) {
		device->fail_reg--;
		return device->fail_reg_error;
	}
	if (f->fail_reg) {
		f->fail_reg--;
		return f->fail_reg_error;
	}
	return bytes > f->memory_limit || f->counts.bytes > f->memory_limit - bytes ? ENOMEM : 0;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *at, size_t bytes, int access)
{
	struct fake__mr *mr;
	int rc;

	lock();
	rc = reg_refused(((struct fake__context *)pd->context)->device, bytes, access);
	if (rc) {
		unlock();
		errno = rc;
		return NULL;
	}
	mr = fake__zeroed(1, sizeof(*mr));
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	mr->ibv.addr = at;
	mr->ibv.length = bytes;
	mr->ibv.lkey = f->next_key; /* keys are never used again, and those for the two sides differ */
	mr->ibv.rkey = f->next_key + 1;
	f->next_key += 0x35;
	mr->access = access;
	mr->next = f->mrs;
	f->mrs = mr;
	((struct fake__pd *)pd)->users++;
	f->counts.mrs++;
	f->counts.bytes += bytes;
	f->counts.registrations++;
	unlock();
	return &mr->ibv;
}

static int dereg_mr(struct ibv_mr *ibv)
{
	struct fake__mr **at = &f->mrs, *mr = (struct fake__mr *)ibv;

	lock();
	while (*at && *at != mr)
		at = &(*at)->next;
	if (!*at) {
		fake__misuse("memory is deregistered that is not registered");
		unlock();
		return EINVAL;
	}
	*at = mr->next;
	((struct fake__pd *)ibv->pd)->users--;
	f->counts.mrs--;
	f->counts.bytes -= ibv->length;
	unlock();
	free(mr);
	return 0;
}

/* Completions */

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *context)
{
	struct fake__channel *channel = fake__zeroed(1, sizeof(*channel));

	queue_init(&channel->events);
	channel->ibv.context = context;
	channel->ibv.fd = channel->events.fd;
	lock();
	((struct fake__context *)context)->users++;
	f->counts.channels++;
	unlock();
	return &channel->ibv;
}

static int destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	struct fake__channel *channel = (struct fake__channel *)ibv;

	lock();
	if (ibv->refcnt) {
		fake__misuse("a completion channel is destroyed that %d completion queues use", ibv->refcnt);
		unlock();
		return EBUSY;
	}
	((struct fake__context *)ibv->context)->users--;
	f->counts.channels--;
	fake__queue_fini(&channel->events);
	unlock();
	free(channel);
	return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel,
				int vector)
{
	const struct fake_device *spec = &((struct fake__context *)context)->device->spec;
	struct fake__cq *cq;
	int rc = 0;

	lock();
	if (f->fail_cq) {
		f->fail_cq--;
		rc = f->fail_cq_error;
	} else if (cqe < 1 || cqe > spec->max_cqe || vector < 0 || vector >= context->num_comp_vectors ||
		   (channel && channel->context != context)) {
		rc = EINVAL;
	}
	if (rc) {
		unlock();
		errno = rc;
		return NULL;
	}
	cq = fake__zeroed(1, sizeof(*cq));
	cq->ring = fake__zeroed((size_t)cqe, sizeof(*cq->ring));
	cq->ibv.context = context;
	cq->ibv.channel = channel;
	cq->ibv.cq_context = cq_context;
	cq->ibv.cqe = cqe;
	if (channel)
		channel->refcnt++;
	((struct fake__context *)context)->users++;
	f->counts.cqs++;
	unlock();
	return &cq->ibv;
}

static int destroy_cq(struct ibv_cq *ibv)
{
	struct fake__cq *cq = (struct fake__cq *)ibv;

	lock();
	if (cq->users || cq->unacked) {
		fake__misuse(cq->users ? "a completion queue is destroyed that queue pairs use"
				       : "a completion queue is destroyed whose events were not acknowledged");
		unlock();
		return EBUSY;
	}
	if (ibv->channel) {
		fake__queue_drop(&((struct fake__channel *)ibv->channel)->events, ibv);
		ibv->channel->refcnt--;
	}
	fake__queue_drop(&((struct fake__context *)ibv->context)->events, ibv);
	((struct fake__context *)ibv->context)->users--;
	f->counts.cqs--;
	unlock();
	free(cq->ring);
	free(cq);
	return 0;
}

static int req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	struct fake__cq *cq = (struct fake__cq *)ibv;

	lock();
	if (!ibv->channel)
		fake__misuse("a completion queue without a channel is armed");
	cq->solicited_only = solicited_only && (!cq->armed || cq->solicited_only);
	cq->armed = true;
	unlock();
	return 0;
}

void fake__complete(struct fake__cq *cq, const struct fake__cqe *cqe, bool solicited)
{
	if (cq->n == (size_t)cq->ibv.cqe) {
		struct ibv_async_event event = { .event_type = IBV_EVENT_CQ_ERR, .element.cq = &cq->ibv };

		fake__misuse("a completion queue of %d entries overran", cq->ibv.cqe);
		if (!cq->overrun)
			fake__tell(((struct fake__context *)cq->ibv.context)->device, &event);
		cq->overrun = true;
		return;
	}
	cq->ring[(cq->head + cq->n++) % (size_t)cq->ibv.cqe] = *cqe;
	if (!cq->armed || (cq->solicited_only && !solicited && cqe->wc.status == IBV_WC_SUCCESS))
		return;
	cq->armed = false;
	if (cq->ibv.channel)
		fake__queue_put(&((struct fake__channel *)cq->ibv.channel)->events, &(struct fake__event){ .cq = cq });
}

static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct fake__event *event = queue_get(&((struct fake__channel *)channel)->events);

	if (!event)
		return -1;
	*cq = &event->cq->ibv;
	*cq_context = event->cq->ibv.cq_context;
	lock();
	event->cq->unacked++;
	event_done(event);
	unlock();
	return 0;
}

static void ack_cq_events(struct ibv_cq *ibv, unsigned int n)
{
	struct fake__cq *cq = (struct fake__cq *)ibv;

	lock();
	if (n > cq->unacked)
		fake__misuse("more events of a completion queue are acknowledged than there were");
	cq->unacked -= n < cq->unacked ? n : cq->unacked;
	unlock();
}

/* A completion was polled: the places of its queue that it gives back. */
static void take_back(const struct fake__cqe *cqe)
{
	for (struct fake__qp *qp = f->qps; qp; qp = qp->next) {
		if (qp->ibv.qp_num != cqe->wc.qp_num)
			continue;
		if (cqe->receive)
			qp->receive_used -= cqe->frees;
		else
			qp->send_used -= cqe->frees;
		return;
	}
}

static int poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct fake__cq *cq = (struct fake__cq *)ibv;
	int count = 0;

	lock();
	f->counts.polls++;
	for (; count < n && cq->n > 0; count++) {
		struct fake__cqe *cqe = &cq->ring[cq->head];

		take_back(cqe);
		wc[count] = cqe->wc;
		if (cqe->wc.status != IBV_WC_SUCCESS) { /* then a device tells no more than id, status and queue pair */
			wc[count].opcode = (enum ibv_wc_opcode)0x7f;
			wc[count].byte_len = 0xdeadbeef;
			wc[count].wc_flags = 0;
			wc[count].imm_data = 0xdeadbeef;
		}
		cq->head = (cq->head + 1) % (size_t)ibv->cqe;
		cq->n--;
	}
	unlock();
	return count;
}

static const char *wc_status_str(enum ibv_wc_status status)
{
	static const char *const names[] = {
		[IBV_WC_SUCCESS] = "success",
		[IBV_WC_LOC_LEN_ERR] = "local length error",
		[IBV_WC_LOC_QP_OP_ERR] = "local QP operation error",
		[IBV_WC_LOC_PROT_ERR] = "local protection error",
		[IBV_WC_WR_FLUSH_ERR] = "Work Request Flushed Error",
		[IBV_WC_REM_INV_REQ_ERR] = "remote invalid request error",
		[IBV_WC_REM_ACCESS_ERR] = "remote access error",
		[IBV_WC_REM_OP_ERR] = "remote operation error",
		[IBV_WC_RETRY_EXC_ERR] = "transport retry counter exceeded",
		[IBV_WC_RNR_RETRY_EXC_ERR] = "RNR retry counter exceeded",
		[IBV_WC_FATAL_ERR] = "fatal error",
		[IBV_WC_GENERAL_ERR] = "general error",
	};

	return (size_t)status < sizeof(names) / sizeof(names[0]) && names[status] ? names[status] : "another error";
}

/* Asynchronous events */

static unsigned *unacked_of(const struct ibv_async_event *event, struct fake__context *context)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		return &((struct fake__cq *)event->element.cq)->unacked;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		return &((struct fake__qp *)event->element.qp)->unacked;
	default:
		return context ? &context->unacked : NULL;
	}
}

static int get_async_event(struct ibv_context *ibv, struct ibv_async_event *what)
{
	struct fake__context *context = (struct fake__context *)ibv;
	struct fake__event *event = queue_get(&context->events);

	if (!event)
		return -1;
	lock();
	*what = event->what;
	event_done(event);
	++*unacked_of(what, context);
	unlock();
	return 0;
}

static void ack_async_event(struct ibv_async_event *event)
{
	unsigned *unacked;

	lock();
	unacked = unacked_of(event, NULL);
	for (struct fake__context *context = f->contexts; context && !unacked; context = context->next)
		if (context->unacked)
			unacked = &context->unacked; /* an event of a port does not say whose it is: one of those that wait */
	if (unacked && *unacked)
		--*unacked;
	else
		fake__misuse("an event is acknowledged that there was not");
	unlock();
}

/* Fork */

static int fork_init(void)
{
	return 0;
}

static enum ibv_fork_status is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

const struct ddl__verbs_api fake_verbs_api = {
	.get_device_list = get_device_list,
	.free_device_list = free_device_list,
	.get_device_name = get_device_name,
	.open_device = open_device,
	.close_device = close_device,
	.query_device = query_device,
	.query_port = query_port,
	.query_gid = query_gid,
	.query_gid_ex = query_gid_ex,
	.query_pkey = query_pkey,
	.alloc_pd = alloc_pd,
	.dealloc_pd = dealloc_pd,
	.reg_mr = reg_mr,
	.dereg_mr = dereg_mr,
	.create_comp_channel = create_comp_channel,
	.destroy_comp_channel = destroy_comp_channel,
	.create_cq = create_cq,
	.destroy_cq = destroy_cq,
	.req_notify_cq = req_notify_cq,
	.get_cq_event = get_cq_event,
	.ack_cq_events = ack_cq_events,
	.poll_cq = poll_cq,
	.wc_status_str = wc_status_str,
	.create_qp = fake__create_qp,
	.modify_qp = fake__modify_qp,
	.destroy_qp = fake__destroy_qp,
	.post_send = fake__post_send,
	.post_recv = fake__post_recv,
	.get_async_event = get_async_event,
	.ack_async_event = ack_async_event,
	.fork_init = fork_init,
	.is_fork_initialized = is_fork_initialized,
};
