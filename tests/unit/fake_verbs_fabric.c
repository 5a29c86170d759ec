/* SPDX-License-Identifier: Apache-2.0 */
/* fake_verbs_fabric.c - see fake_verbs.h: what a test says to the fabric. */
#include "fake_verbs_inside.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fake__fabric *const f = &fake__fabric;
static char left_text[384];

#define EVENTS 64 /* that are there from the begin */

static void lock(void)
{
	pthread_mutex_lock(&f->lock);
}

static void unlock(void)
{
	pthread_mutex_unlock(&f->lock);
}

static struct fake__device *device_named(const char *name)
{
	for (size_t i = 0; i < f->n_devices; i++)
		if (!strcmp(f->devices[i]->spec.name, name))
			return f->devices[i];
	fprintf(stderr, "fake_verbs: there is no device %s\n", name);
	abort();
}

void fake_verbs_begin(void)
{
	lock();
	if (f->n_devices || f->contexts)
		abort(); /* the one before was not ended */
	f->next_key = 0x1000;
	f->next_qp = 0x11;
	f->n_cuts = 0;
	f->delivery = FAKE_AT_ONCE;
	f->random = 1;
	f->ending = f->renewed = false;
	f->memory_limit = SIZE_MAX;
	f->fail_qp = f->fail_cq = f->fail_reg = 0;
	f->counts = (struct fake_verbs_counts){ 0 };
	f->lists = 0;
	f->misuse[0] = '\0';
	for (int i = 0; i < EVENTS; i++) {
		struct fake__event *event = fake__zeroed(1, sizeof(*event));

		event->next = f->spare;
		f->spare = event;
	}
	unlock();
}

/* GIDs that a port has by itself: of RoCE those that a kernel makes of an interface with an IPv4 address. */
static void default_gids(struct fake_port *port, size_t device, int number, char (*texts)[64])
{
	snprintf(texts[0], sizeof(texts[0]), "fe80::%zx:%x", device + 1, number);
	snprintf(texts[1], sizeof(texts[1]), "::ffff:10.99.%zu.%d", device + 1, number);
	port->gids[0] = (struct fake_gid){ texts[0], port->ethernet ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_IB, 0 };
	if (port->ethernet)
		port->gids[1] = (struct fake_gid){ texts[1], IBV_GID_TYPE_ROCE_V2, 0 };
}

static void fill_port(struct fake__device *device, int number)
{
	struct fake_port *port = &device->spec.ports[number - 1];
	char texts[2][64];
	bool any = false;

	if (!port->state)
		port->state = IBV_PORT_ACTIVE;
	if (!port->mtu)
		port->mtu = IBV_MTU_4096;
	if (!port->speed) { /* EDR, four lanes */
		port->speed = 32;
		port->width = 2;
	}
	if (!port->ethernet && !port->lid)
		port->lid = (uint16_t)(8 * (f->n_devices + 1) + (unsigned)number);
	for (int i = 0; i < FAKE_PKEYS; i++)
		any |= port->pkeys[i] != 0;
	if (!any)
		port->pkeys[0] = 0xffff;
	for (int i = 0; i < FAKE_GIDS; i++)
		if (port->gids[i].text)
			break;
		else if (i == FAKE_GIDS - 1)
			default_gids(port, f->n_devices, number, texts);
	for (int i = 0; i < FAKE_GIDS; i++) {
		if (!port->gids[i].text)
			continue;
		if (inet_pton(AF_INET6, port->gids[i].text, device->gids[number - 1][i].raw) != 1)
			abort();
		port->gids[i].text = "";
	}
}

void fake_verbs_add(const struct fake_device *spec)
{
	struct fake__device *device = fake__zeroed(1, sizeof(*device));

	lock();
	if (f->n_devices == FAKE_DEVICES || strlen(spec->name) >= sizeof(device->ibv.name))
		abort();
	device->spec = *spec;
	snprintf(device->ibv.name, sizeof(device->ibv.name), "%s", spec->name);
	device->spec.name = device->ibv.name;
	device->ibv.node_type = IBV_NODE_CA;
	device->ibv.transport_type = spec->transport ? spec->transport : IBV_TRANSPORT_IB;
	device->spec.n_ports = spec->n_ports ? spec->n_ports : 1;
	device->spec.max_wr = spec->max_wr ? spec->max_wr : 1024;
	device->spec.max_sge = spec->max_sge ? spec->max_sge : 4;
	device->spec.max_cqe = spec->max_cqe ? spec->max_cqe : 4096;
	device->spec.max_inline = spec->max_inline ? spec->max_inline : 256;
	for (int i = 1; i <= device->spec.n_ports; i++)
		fill_port(device, i);
	f->devices[f->n_devices++] = device;
	unlock();
}

void fake_verbs_add_simple(const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fake_verbs_add(&(struct fake_device){ .name = names[i], .ports[0].ethernet = true });
}

static void say_left(size_t n, const char *what)
{
	size_t used = strlen(left_text);

	if (n)
		snprintf(left_text + used, sizeof(left_text) - used, "%s%zu %s", used ? ", " : "left open: ", n, what);
}

static void stop_thread(void)
{
	bool threaded;

	lock();
	f->ending = true;
	threaded = f->threaded;
	pthread_cond_broadcast(&f->work);
	unlock();
	if (threaded)
		pthread_join(f->thread, NULL);
	f->threaded = f->ending = false;
}

const char *fake_verbs_end(void)
{
	const struct fake_verbs_counts *now = &f->counts;

	stop_thread();
	snprintf(left_text, sizeof(left_text), "%s", f->misuse);
	if (!*left_text) {
		say_left(f->lists, "device lists");
		say_left(now->contexts, "devices");
		say_left(now->pds, "protection domains");
		say_left(now->mrs, "memory regions");
		say_left(now->channels, "completion channels");
		say_left(now->cqs, "completion queues");
		say_left(now->qps, "queue pairs");
	}
	while (f->qps) {
		struct fake__qp *qp = f->qps;

		f->qps = qp->next;
		fake__qp_free(qp);
	}
	while (f->mrs) {
		struct fake__mr *mr = f->mrs;

		f->mrs = mr->next;
		free(mr);
	}
	while (f->contexts) {
		struct fake__context *context = f->contexts;

		f->contexts = context->next;
		fake__queue_fini(&context->events);
		free(context);
	}
	while (f->spare) {
		struct fake__event *event = f->spare;

		f->spare = event->next;
		free(event);
	}
	for (size_t i = 0; i < f->n_devices; i++)
		free(f->devices[i]);
	f->n_devices = 0;
	return left_text;
}

/* Faults */

void fake_verbs_delivery(enum fake_delivery how, uint64_t seed)
{
	stop_thread();
	lock();
	f->delivery = how;
	f->random = seed * 2 + 1;
	f->renewed = true;
	if (how == FAKE_BY_THREAD) {
		if (pthread_create(&f->thread, NULL, fake__wire, NULL))
			abort();
		f->threaded = true;
	} else if (how == FAKE_AT_ONCE) {
		fake__serve_all();
	}
	unlock();
}

void fake_verbs_fail_reg(const char *device, unsigned n, int error)
{
	lock();
	if (device) {
		device_named(device)->fail_reg = n;
		device_named(device)->fail_reg_error = error;
	} else {
		f->fail_reg = n;
		f->fail_reg_error = error;
	}
	unlock();
}

void fake_verbs_limit_memory(size_t bytes)
{
	lock();
	f->memory_limit = bytes;
	unlock();
}

void fake_verbs_fail_qp(unsigned n, int error)
{
	lock();
	f->fail_qp = n;
	f->fail_qp_error = error;
	unlock();
}

void fake_verbs_fail_cq(unsigned n, int error)
{
	lock();
	f->fail_cq = n;
	f->fail_cq_error = error;
	unlock();
}

void fake_verbs_fail_post(const char *device, unsigned sends, unsigned receives, int error)
{
	lock();
	device_named(device)->fail_post_send = sends;
	device_named(device)->fail_post_recv = receives;
	device_named(device)->fail_post_error = error;
	unlock();
}

void fake_verbs_fail_join(const char *device, unsigned n, int error)
{
	lock();
	device_named(device)->fail_join = n;
	device_named(device)->fail_join_error = error;
	unlock();
}

void fake_verbs_fail_send(const char *device, uint64_t n, enum ibv_wc_status status)
{
	lock();
	device_named(device)->fail_send = n;
	device_named(device)->fail_status = status;
	unlock();
}

void fake_verbs_port_state(const char *name, uint8_t number, enum ibv_port_state state)
{
	struct ibv_async_event event = { .element.port_num = number };
	struct fake__device *device;

	lock();
	device = device_named(name);
	device->spec.ports[number - 1].state = state;
	event.event_type = state == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
	fake__tell(device, &event);
	fake__serve_all();
	unlock();
}

void fake_verbs_cut(const char *from, uint8_t from_port, const char *to, uint8_t to_port, bool cut)
{
	struct fake__cut what = { 0 };

	lock();
	what.from = device_named(from);
	what.to = device_named(to);
	what.from_port = from_port;
	what.to_port = to_port;
	for (size_t i = 0; i < f->n_cuts; i++)
		if (f->cuts[i].from == what.from && f->cuts[i].to == what.to && f->cuts[i].from_port == from_port &&
		    f->cuts[i].to_port == to_port)
			f->cuts[i--] = f->cuts[--f->n_cuts];
	if (cut && f->n_cuts == FAKE_CUTS)
		abort();
	if (cut)
		f->cuts[f->n_cuts++] = what;
	fake__serve_all();
	unlock();
}

void fake_verbs_event(const char *name, enum ibv_event_type type, uint8_t port)
{
	struct ibv_async_event event = { .event_type = type, .element.port_num = port };
	struct fake__device *device;

	lock();
	device = device_named(name);
	fake__tell(device, &event);
	for (struct fake__qp *qp = f->qps; qp && type == IBV_EVENT_DEVICE_FATAL; qp = qp->next)
		if (qp->context->device == device)
			fake__qp_fail(qp);
	unlock();
}

void fake_verbs_qp_event(struct ibv_qp *qp, enum ibv_event_type type)
{
	struct ibv_async_event event = { .event_type = type, .element.qp = qp };

	lock();
	fake__tell(((struct fake__qp *)qp)->context->device, &event);
	fake__qp_fail((struct fake__qp *)qp);
	unlock();
}

struct fake_verbs_counts fake_verbs_counts(void)
{
	struct fake_verbs_counts counts;

	lock();
	counts = f->counts;
	unlock();
	return counts;
}

const char *fake_verbs_misuse(void)
{
	lock(); /* once written, it stays */
	unlock();
	return f->misuse;
}
