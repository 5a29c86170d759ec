/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_verbs_wire.c - see fake_verbs.h: what goes between queue pairs.
 *
 * A send request is carried out (lands) when its peer can take it, in the order of the queue; it is completed when the answer gets
 * back, again in order. So what was written may be there although nobody at the sender knows. One that gets no answer stays at the
 * head and waits; retry timers go off only when the test says so.
 */
#include "fake_verbs_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct fake__fabric *const f = &fake__fabric;

/* Whom a queue pair is connected to */

const struct fake_port *fake__port_of(const struct fake__qp *qp)
{
	return &qp->context->device->spec.ports[qp->attr.port_num - 1];
}

static const union ibv_gid *gid_of(const struct fake__qp *qp)
{
	return &qp->context->device->gids[qp->attr.port_num - 1][qp->attr.ah_attr.grh.sgid_index];
}

/* Whether a port is the one that this path goes to. */
static bool is_target(const struct fake__qp *qp, const struct fake__device *device, uint8_t number)
{
	const struct ibv_ah_attr *path = &qp->attr.ah_attr;
	const struct fake_port *port = &device->spec.ports[number - 1];

	if (port->ethernet != fake__port_of(qp)->ethernet || (!port->ethernet && port->lid != path->dlid))
		return false;
	if (!path->is_global)
		return true;
	for (int i = 0; i < FAKE_GIDS; i++)
		if (port->gids[i].text && !memcmp(&device->gids[number - 1][i], &path->grh.dgid, sizeof(path->grh.dgid)) &&
		    (!port->ethernet || port->gids[i].type == fake__port_of(qp)->gids[path->grh.sgid_index].type))
			return true;
	return false;
}

/* Whether what b has of its path leads to a. */
static bool leads_back(const struct fake__qp *a, const struct fake__qp *b)
{
	if (b->attr.ah_attr.is_global && memcmp(&b->attr.ah_attr.grh.dgid, gid_of(a), sizeof(union ibv_gid)) &&
	    fake__port_of(a)->ethernet)
		return false;
	return is_target(b, a->context->device, a->attr.port_num);
}

static bool is_connected(const struct fake__qp *qp)
{
	return qp->ibv.state == IBV_QPS_RTR || qp->ibv.state == IBV_QPS_RTS;
}

static uint16_t pkey_of(const struct fake__qp *qp)
{
	return fake__port_of(qp)->pkeys[qp->attr.pkey_index];
}

static bool share_partition(uint16_t a, uint16_t b)
{
	return (a & 0x7fff) == (b & 0x7fff) && ((a | b) & 0x8000);
}

/* The queue pair that answers this one's requests; NULL: none does. */
static struct fake__qp *peer_of(const struct fake__qp *qp)
{
	for (struct fake__qp *peer = f->qps; peer; peer = peer->next) {
		if (peer->ibv.qp_num != qp->attr.dest_qp_num || !is_connected(peer) || peer->attr.dest_qp_num != qp->ibv.qp_num)
			continue;
		if (is_target(qp, peer->context->device, peer->attr.port_num) && leads_back(qp, peer) &&
		    peer->attr.rq_psn == qp->attr.sq_psn && peer->attr.path_mtu == qp->attr.path_mtu &&
		    share_partition(pkey_of(qp), pkey_of(peer)))
			return peer;
	}
	return NULL;
}

/* Whether packets of one queue pair's port reach the other's. */
static bool passes(const struct fake__qp *from, const struct fake__qp *to)
{
	if (fake__port_of(from)->state != IBV_PORT_ACTIVE || fake__port_of(to)->state != IBV_PORT_ACTIVE)
		return false;
	for (size_t i = 0; i < f->n_cuts; i++)
		if (f->cuts[i].from == from->context->device && f->cuts[i].from_port == from->attr.port_num &&
		    f->cuts[i].to == to->context->device && f->cuts[i].to_port == to->attr.port_num)
			return false;
	return true;
}

/* Memory */

/* Whether a queue pair may reach those bytes by that key. */
static bool may_reach(const struct fake__qp *qp, uint64_t at, size_t bytes, uint32_t key, bool remote, int access)
{
	for (const struct fake__mr *mr = f->mrs; mr; mr = mr->next) {
		const uint64_t begin = (uint64_t)(uintptr_t)mr->ibv.addr;

		if ((remote ? mr->ibv.rkey : mr->ibv.lkey) != key)
			continue;
		return mr->ibv.pd == qp->ibv.pd && (mr->access & access) == access && at >= begin && bytes <= mr->ibv.length &&
		       at - begin <= mr->ibv.length - bytes;
	}
	return false;
}

static bool may_reach_list(const struct fake__qp *qp, const struct ibv_sge *sge, int n, int access)
{
	for (int i = 0; i < n; i++)
		if (sge[i].length > 0 && !may_reach(qp, sge[i].addr, sge[i].length, sge[i].lkey, false, access))
			return false;
	return true;
}

struct reader { /* of the bytes of a send request */
	const struct fake__send *send;
	int sge;
	size_t offset;
};

/* Copies the next bytes. */
static void read_bytes(struct reader *reader, uint8_t *to, size_t bytes)
{
	const struct fake__send *send = reader->send;

	if (send->flags & IBV_SEND_INLINE) {
		if (bytes)
			memcpy(to, send->inlined + reader->offset, bytes);
		reader->offset += bytes;
		return;
	}
	while (bytes > 0) {
		const struct ibv_sge *sge = &send->sge[reader->sge];
		size_t part = sge->length - reader->offset;

		if (part > bytes)
			part = bytes;
		if (part)
			memcpy(to, (const uint8_t *)(uintptr_t)sge->addr + reader->offset, part);
		to += part;
		bytes -= part;
		reader->offset += part;
		if (reader->offset == sge->length) {
			reader->sge++;
			reader->offset = 0;
		}
	}
}

/* Completions */

static void complete_send(struct fake__qp *qp, const struct fake__send *send, enum ibv_wc_status status)
{
	static const enum ibv_wc_opcode opcodes[] = {
		[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
		[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
		[IBV_WR_SEND] = IBV_WC_SEND,
		[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
	};
	struct fake__cqe cqe = { .wc = { .wr_id = send->id, .status = status, .qp_num = qp->ibv.qp_num } };

	qp->send_done++;
	if (status == IBV_WC_SUCCESS && !(send->flags & IBV_SEND_SIGNALED))
		return;
	cqe.wc.opcode = opcodes[send->opcode];
	cqe.wc.byte_len = (uint32_t)send->bytes;
	cqe.frees = qp->send_done;
	qp->send_done = 0;
	fake__complete((struct fake__cq *)qp->ibv.send_cq, &cqe, false);
}

static void complete_receive(struct fake__qp *qp, const struct fake__receive *receive, enum ibv_wc_status status,
			     const struct fake__send *send)
{
	struct fake__cqe cqe = { .wc = { .wr_id = receive->id, .status = status, .qp_num = qp->ibv.qp_num },
				 .frees = 1,
				 .receive = true };

	if (send) {
		const bool immediate = send->opcode != IBV_WR_SEND;

		cqe.wc.opcode = send->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
		cqe.wc.byte_len = (uint32_t)send->bytes;
		cqe.wc.imm_data = immediate ? send->imm : 0;
		cqe.wc.wc_flags = immediate ? IBV_WC_WITH_IMM : 0;
		cqe.wc.src_qp = qp->attr.dest_qp_num;
		cqe.wc.slid = qp->attr.ah_attr.dlid;
	}
	fake__complete((struct fake__cq *)qp->ibv.recv_cq, &cqe, send && (send->flags & IBV_SEND_SOLICITED));
}

struct fake__send *fake__send_at(struct fake__qp *qp, size_t i)
{
	return &qp->sends[(qp->send_head + i) % qp->cap.max_send_wr];
}

static struct fake__receive *take_receive(struct fake__qp *qp)
{
	struct fake__receive *receive = &qp->receives[qp->receive_head];

	qp->receive_head = (qp->receive_head + 1) % qp->cap.max_recv_wr;
	qp->n_receives--;
	return receive;
}

static void take_send(struct fake__qp *qp)
{
	qp->send_head = (qp->send_head + 1) % qp->cap.max_send_wr;
	qp->n_sends--;
	qp->n_landed -= qp->n_landed > 0;
}

void fake__qp_fail(struct fake__qp *qp)
{
	if (qp->ibv.state == IBV_QPS_RESET)
		return;
	qp->ibv.state = IBV_QPS_ERR;
	while (qp->n_sends > 0) {
		complete_send(qp, fake__send_at(qp, 0), IBV_WC_WR_FLUSH_ERR);
		take_send(qp);
	}
	while (qp->n_receives > 0)
		complete_receive(qp, take_receive(qp), IBV_WC_WR_FLUSH_ERR, NULL);
}

/* A request of the peer cannot be answered: this end fails too, and tells. */
static void fail_answering(struct fake__qp *qp)
{
	struct ibv_async_event event = { .event_type = IBV_EVENT_QP_ACCESS_ERR, .element.qp = &qp->ibv };

	fake__tell(qp->context->device, &event);
	fake__qp_fail(qp);
}

/* Carrying out */

static bool settle(struct fake__qp *qp, struct fake__send *send, enum ibv_wc_status status, bool answered)
{
	send->landed = true;
	send->status = status;
	send->answered = answered;
	send->waits = false;
	qp->n_landed++;
	return true;
}

static bool wait_for_answer(struct fake__send *send, bool not_ready)
{
	send->waits = true;
	send->not_ready = not_ready;
	return false;
}

/* Whether the device is to fail this request. */
static bool is_chosen_to_fail(struct fake__qp *qp, struct fake__send *send)
{
	struct fake__device *device = qp->context->device;

	if (send->counted || device->fail_send == 0)
		return false;
	send->counted = true;
	return --device->fail_send == 0;
}

static bool land_write(struct fake__qp *qp, struct fake__qp *peer, struct fake__send *send)
{
	struct reader reader = { .send = send };

	if (send->bytes > 0 && !(may_reach(peer, send->to, send->bytes, send->rkey, true, IBV_ACCESS_REMOTE_WRITE) &&
				 (peer->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))) {
		fail_answering(peer);
		return settle(qp, send, IBV_WC_REM_ACCESS_ERR, false);
	}
	if (send->opcode == IBV_WR_RDMA_WRITE_WITH_IMM && peer->n_receives == 0)
		return wait_for_answer(send, true);
	read_bytes(&reader, (uint8_t *)(uintptr_t)send->to, send->bytes);
	if (send->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		complete_receive(peer, take_receive(peer), IBV_WC_SUCCESS, send);
	return settle(qp, send, IBV_WC_SUCCESS, false);
}

static bool land_send(struct fake__qp *qp, struct fake__qp *peer, struct fake__send *send)
{
	struct reader reader = { .send = send };
	struct fake__receive *receive;
	size_t room = 0, left = send->bytes;

	if (peer->n_receives == 0)
		return wait_for_answer(send, true);
	receive = take_receive(peer);
	for (int i = 0; i < receive->n_sge; i++)
		room += receive->sge[i].length;
	if (room < send->bytes || !may_reach_list(peer, receive->sge, receive->n_sge, IBV_ACCESS_LOCAL_WRITE)) {
		const bool small = room < send->bytes;

		complete_receive(peer, receive, small ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR, NULL);
		fake__qp_fail(peer);
		return settle(qp, send, small ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_OP_ERR, false);
	}
	for (int i = 0; i < receive->n_sge && left > 0; i++) {
		const size_t part = left < receive->sge[i].length ? left : receive->sge[i].length;

		read_bytes(&reader, (uint8_t *)(uintptr_t)receive->sge[i].addr, part);
		left -= part;
	}
	complete_receive(peer, receive, IBV_WC_SUCCESS, send);
	return settle(qp, send, IBV_WC_SUCCESS, false);
}

/* The next request that has not landed; false: none does. */
static bool land(struct fake__qp *qp)
{
	struct fake__send *send;
	struct fake__qp *peer;
	bool good;

	if (qp->ibv.state != IBV_QPS_RTS || qp->n_landed == qp->n_sends)
		return false;
	if (qp->n_landed > 0 && fake__send_at(qp, qp->n_landed - 1)->status != IBV_WC_SUCCESS)
		return false; /* the queue pair fails when that is answered */
	send = fake__send_at(qp, qp->n_landed);
	if (is_chosen_to_fail(qp, send))
		return settle(qp, send, qp->context->device->fail_status, true);
	if (!(send->flags & IBV_SEND_INLINE) && !may_reach_list(qp, send->sge, send->n_sge, 0))
		return settle(qp, send, IBV_WC_LOC_PROT_ERR, true);
	peer = peer_of(qp);
	if (!peer || !passes(qp, peer))
		return wait_for_answer(send, false);
	good = send->opcode == IBV_WR_RDMA_WRITE || send->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? land_write(qp, peer, send)
											       : land_send(qp, peer, send);
	if (good && send->status == IBV_WC_SUCCESS) {
		f->counts.delivered++;
		f->counts.delivered_bytes += send->bytes;
	}
	return good;
}

/* The oldest request, if it has landed and the answer gets back; false: not. */
static bool answer(struct fake__qp *qp)
{
	struct fake__send *send;
	enum ibv_wc_status status;
	bool lost = false;

	if (qp->n_landed == 0)
		return false;
	send = fake__send_at(qp, 0);
	/* the peer may have failed, or be gone, since it answered: then its answer was under way */
	for (struct fake__qp *peer = f->qps; peer && !send->answered; peer = peer->next)
		lost |= peer->ibv.qp_num == qp->attr.dest_qp_num && peer->attr.port_num && !passes(peer, qp);
	if (lost)
		return wait_for_answer(send, false);
	status = send->status;
	complete_send(qp, send, status);
	take_send(qp);
	if (status != IBV_WC_SUCCESS)
		fake__qp_fail(qp);
	return true;
}

static bool step(struct fake__qp *qp)
{
	const bool landed = land(qp);

	return answer(qp) || landed;
}

/* Delivery */

static uint64_t random_number(void)
{
	f->random ^= f->random << 13;
	f->random ^= f->random >> 7;
	f->random ^= f->random << 17;
	return f->random >> 16;
}

/* One step of any queue pair, chosen at random. */
static bool step_any(void)
{
	struct fake__qp *qp = f->qps;
	size_t at;

	if (f->counts.qps == 0)
		return false;
	for (at = random_number() % f->counts.qps; at > 0; at--)
		qp = qp->next;
	for (size_t i = 0; i < f->counts.qps; i++, qp = qp->next ? qp->next : f->qps)
		if (step(qp))
			return true;
	return false;
}

void fake__serve(struct fake__qp *qp)
{
	if (f->delivery == FAKE_AT_ONCE) {
		while (step(qp))
			;
	} else if (f->delivery == FAKE_BY_THREAD) {
		f->renewed = true;
		pthread_cond_signal(&f->work);
	}
}

void fake__serve_all(void)
{
	for (struct fake__qp *qp = f->qps; qp; qp = qp->next)
		fake__serve(qp);
}

void fake__serve_peer(struct fake__qp *qp)
{
	if (!is_connected(qp))
		return;
	for (struct fake__qp *peer = f->qps; peer; peer = peer->next)
		if (peer->ibv.qp_num == qp->attr.dest_qp_num)
			fake__serve(peer);
}

void *fake__wire(void *unused)
{
	pthread_mutex_lock(&f->lock);
	while (!f->ending) {
		f->renewed = false;
		if (step_any()) { /* let others have the lock between two steps */
			pthread_mutex_unlock(&f->lock);
			pthread_mutex_lock(&f->lock);
			continue;
		}
		while (!f->renewed && !f->ending)
			pthread_cond_wait(&f->work, &f->lock);
	}
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

size_t fake_verbs_step(size_t n)
{
	size_t done = 0;

	pthread_mutex_lock(&f->lock);
	while (done < n && step_any())
		done++;
	pthread_mutex_unlock(&f->lock);
	return done;
}

/* The timer of a queue pair whose oldest request waits: it is sent again, or given up. */
static void time_out(struct fake__qp *qp)
{
	struct fake__send *send;
	bool not_ready;

	if (qp->ibv.state != IBV_QPS_RTS || qp->n_sends == 0)
		return;
	send = fake__send_at(qp, 0);
	not_ready = send->not_ready;
	if (!send->waits || step(qp))
		return;
	if (not_ready && qp->attr.rnr_retry == 7)
		return; /* for ever */
	if (++send->tries <= (not_ready ? qp->attr.rnr_retry : qp->attr.retry_cnt))
		return;
	complete_send(qp, send, not_ready ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_RETRY_EXC_ERR);
	take_send(qp);
	fake__qp_fail(qp);
}

void fake_verbs_timeouts(unsigned n)
{
	pthread_mutex_lock(&f->lock);
	for (; n > 0; n--)
		for (struct fake__qp *qp = f->qps; qp; qp = qp->next)
			time_out(qp);
	pthread_mutex_unlock(&f->lock);
}
