/* SPDX-License-Identifier: Apache-2.0 */
/* fake_verbs_qp.c - see fake_verbs.h: the verbs of queue pairs, as strict as the strictest device is with them. */
#include "fake_verbs_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct fake__fabric *const f = &fake__fabric;

/* What create_qp cannot make: its errno, else 0. */
static int qp_refused(struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
	const struct fake_device *spec = &((struct fake__context *)pd->context)->device->spec;
	const struct ibv_qp_cap *cap = &attr->cap;

	if (f->fail_qp) {
		f->fail_qp--;
		return f->fail_qp_error;
	}
	if (attr->qp_type != IBV_QPT_RC || spec->no_rc)
		return EOPNOTSUPP;
	if (attr->srq || !attr->send_cq || !attr->recv_cq || attr->send_cq->context != pd->context ||
	    attr->recv_cq->context != pd->context)
		return EINVAL;
	if (cap->max_send_wr > (uint32_t)spec->max_wr || cap->max_recv_wr > (uint32_t)spec->max_wr ||
	    cap->max_send_sge > (uint32_t)spec->max_sge || cap->max_recv_sge > (uint32_t)spec->max_sge ||
	    cap->max_inline_data > (uint32_t)spec->max_inline)
		return EINVAL;
	return 0;
}

static void make_queues(struct fake__qp *qp)
{
	const struct ibv_qp_cap *cap = &qp->cap;

	qp->sends = fake__zeroed(cap->max_send_wr, sizeof(*qp->sends));
	qp->send_sges = fake__zeroed((size_t)cap->max_send_wr * cap->max_send_sge, sizeof(*qp->send_sges));
	qp->send_bytes = fake__zeroed(cap->max_send_wr, cap->max_inline_data);
	qp->receives = fake__zeroed(cap->max_recv_wr, sizeof(*qp->receives));
	qp->receive_sges = fake__zeroed((size_t)cap->max_recv_wr * cap->max_recv_sge, sizeof(*qp->receive_sges));
	for (size_t i = 0; i < cap->max_send_wr; i++) {
		qp->sends[i].sge = qp->send_sges + i * cap->max_send_sge;
		qp->sends[i].inlined = qp->send_bytes + i * cap->max_inline_data;
	}
	for (size_t i = 0; i < cap->max_recv_wr; i++)
		qp->receives[i].sge = qp->receive_sges + i * cap->max_recv_sge;
}

void fake__qp_free(struct fake__qp *qp)
{
	free(qp->sends);
	free(qp->send_sges);
	free(qp->send_bytes);
	free(qp->receives);
	free(qp->receive_sges);
	free(qp);
}

struct ibv_qp *fake__create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct fake__qp *qp;
	int rc;

	pthread_mutex_lock(&f->lock);
	rc = qp_refused(pd, attr);
	if (rc) {
		pthread_mutex_unlock(&f->lock);
		errno = rc;
		return NULL;
	}
	qp = fake__zeroed(1, sizeof(*qp));
	qp->context = (struct fake__context *)pd->context;
	qp->cap = attr->cap;
	qp->all_signaled = attr->sq_sig_all;
	make_queues(qp);
	qp->ibv.context = pd->context;
	qp->ibv.qp_context = attr->qp_context;
	qp->ibv.pd = pd;
	qp->ibv.send_cq = attr->send_cq;
	qp->ibv.recv_cq = attr->recv_cq;
	qp->ibv.qp_type = attr->qp_type;
	qp->ibv.qp_num = f->next_qp;
	qp->ibv.state = IBV_QPS_RESET;
	f->next_qp += 3;
	qp->context->users++;
	((struct fake__pd *)pd)->users++;
	((struct fake__cq *)attr->send_cq)->users++;
	((struct fake__cq *)attr->recv_cq)->users++;
	qp->next = f->qps;
	f->qps = qp;
	f->counts.qps++;
	pthread_mutex_unlock(&f->lock);
	return &qp->ibv;
}

int fake__destroy_qp(struct ibv_qp *ibv)
{
	struct fake__qp **at = &f->qps, *qp = (struct fake__qp *)ibv;

	pthread_mutex_lock(&f->lock);
	if (qp->unacked) {
		fake__misuse("a queue pair is destroyed whose events were not acknowledged");
		pthread_mutex_unlock(&f->lock);
		return EBUSY;
	}
	while (*at != qp)
		at = &(*at)->next;
	*at = qp->next;
	fake__queue_drop(&qp->context->events, ibv);
	qp->context->users--;
	((struct fake__pd *)ibv->pd)->users--;
	((struct fake__cq *)ibv->send_cq)->users--;
	((struct fake__cq *)ibv->recv_cq)->users--;
	f->counts.qps--;
	pthread_mutex_unlock(&f->lock);
	fake__qp_free(qp);
	return 0;
}

struct transition {
	enum ibv_qp_state from, to;
	int needs, takes; /* attributes, besides the state */
};

static const struct transition transitions[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_INIT, IBV_QPS_RTR,
	  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	  IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
	  IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER },
};

static const struct transition *transition_of(const struct fake__qp *qp, enum ibv_qp_state to, int mask)
{
	for (size_t i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
		const struct transition *t = &transitions[i];

		if (t->from == qp->ibv.state && t->to == to && (mask & t->needs) == t->needs &&
		    !(mask & ~(IBV_QP_STATE | t->needs | t->takes)))
			return t;
	}
	return NULL;
}

static bool is_path(const struct fake__qp *qp, const struct ibv_qp_attr *attr)
{
	const struct ibv_ah_attr *path = &attr->ah_attr;
	const struct fake_port *port = fake__port_of(qp);

	if (path->port_num != qp->attr.port_num || attr->path_mtu < IBV_MTU_256 || attr->path_mtu > port->mtu || path->sl > 15)
		return false;
	if (port->ethernet ? !path->is_global : path->dlid == 0 || (port->grh_required && !path->is_global))
		return false;
	return !path->is_global || (path->grh.sgid_index < FAKE_GIDS && port->gids[path->grh.sgid_index].text);
}

static bool is_sound(const struct fake__qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const struct fake_device *spec = &qp->context->device->spec;

	if ((mask & IBV_QP_PORT) && (attr->port_num < 1 || attr->port_num > spec->n_ports))
		return false;
	if ((mask & IBV_QP_PKEY_INDEX) &&
	    (attr->pkey_index >= FAKE_PKEYS ||
	     !spec->ports[(mask & IBV_QP_PORT ? attr->port_num : qp->attr.port_num) - 1].pkeys[attr->pkey_index]))
		return false;
	if ((mask & IBV_QP_AV) && !is_path(qp, attr))
		return false;
	if ((mask & IBV_QP_RQ_PSN && attr->rq_psn >> 24) || (mask & IBV_QP_SQ_PSN && attr->sq_psn >> 24))
		return false;
	return !((mask & IBV_QP_TIMEOUT && attr->timeout > 31) || (mask & IBV_QP_RETRY_CNT && attr->retry_cnt > 7) ||
		 (mask & IBV_QP_RNR_RETRY && attr->rnr_retry > 7) || (mask & IBV_QP_MIN_RNR_TIMER && attr->min_rnr_timer > 31));
}

static void take_attributes(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
	if (mask & IBV_QP_PKEY_INDEX)
		to->pkey_index = from->pkey_index;
	if (mask & IBV_QP_PORT)
		to->port_num = from->port_num;
	if (mask & IBV_QP_ACCESS_FLAGS)
		to->qp_access_flags = from->qp_access_flags;
	if (mask & IBV_QP_AV)
		to->ah_attr = from->ah_attr;
	if (mask & IBV_QP_PATH_MTU)
		to->path_mtu = from->path_mtu;
	if (mask & IBV_QP_DEST_QPN)
		to->dest_qp_num = from->dest_qp_num;
	if (mask & IBV_QP_RQ_PSN)
		to->rq_psn = from->rq_psn;
	if (mask & IBV_QP_SQ_PSN)
		to->sq_psn = from->sq_psn;
	if (mask & IBV_QP_TIMEOUT)
		to->timeout = from->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		to->retry_cnt = from->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		to->rnr_retry = from->rnr_retry;
}

/* Forgets what is in the queues, as a queue pair does that is reset. */
static void empty_queues(struct fake__qp *qp)
{
	qp->n_sends = qp->n_landed = qp->send_used = qp->send_done = 0;
	qp->n_receives = qp->receive_used = 0;
}

int fake__modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct fake__qp *qp = (struct fake__qp *)ibv;
	struct fake__device *device = qp->context->device;
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : ibv->state;
	int rc = 0;

	pthread_mutex_lock(&f->lock);
	if (to == IBV_QPS_ERR) {
		fake__qp_fail(qp);
	} else if (to == IBV_QPS_RESET) {
		empty_queues(qp);
		ibv->state = to;
	} else if (!transition_of(qp, to, mask) || !is_sound(qp, attr, mask)) {
		rc = EINVAL;
	} else if (to == IBV_QPS_RTR && device->fail_join) {
		device->fail_join--;
		rc = device->fail_join_error;
	} else {
		take_attributes(&qp->attr, attr, mask);
		ibv->state = to;
		fake__serve_all();
	}
	pthread_mutex_unlock(&f->lock);
	return rc;
}

/* Posting */

static size_t bytes_of(const struct ibv_sge *sge, int n)
{
	size_t bytes = 0;

	for (int i = 0; i < n; i++)
		bytes += sge[i].length;
	return bytes;
}

static int send_refused(const struct fake__qp *qp, const struct ibv_send_wr *wr)
{
	if (qp->ibv.state != IBV_QPS_RTS && qp->ibv.state != IBV_QPS_ERR)
		return EINVAL;
	if (wr->opcode != IBV_WR_RDMA_WRITE && wr->opcode != IBV_WR_RDMA_WRITE_WITH_IMM && wr->opcode != IBV_WR_SEND &&
	    wr->opcode != IBV_WR_SEND_WITH_IMM)
		return EINVAL;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_send_sge)
		return EINVAL;
	if (qp->context->device->fail_post_send) {
		qp->context->device->fail_post_send--;
		return qp->context->device->fail_post_error;
	}
	if ((wr->send_flags & IBV_SEND_INLINE) && bytes_of(wr->sg_list, wr->num_sge) > qp->cap.max_inline_data)
		return EINVAL;
	return qp->send_used == qp->cap.max_send_wr ? ENOMEM : 0;
}

static void count_send(const struct fake__send *send)
{
	const bool immediate = send->opcode == IBV_WR_RDMA_WRITE_WITH_IMM || send->opcode == IBV_WR_SEND_WITH_IMM;

	if (send->opcode == IBV_WR_SEND || send->opcode == IBV_WR_SEND_WITH_IMM)
		f->counts.sends++;
	else if (immediate)
		f->counts.immediates++;
	else
		f->counts.writes++;
	f->counts.inlines += (send->flags & IBV_SEND_INLINE) != 0;
	f->counts.signaled += (send->flags & IBV_SEND_SIGNALED) != 0;
}

static void enqueue_send(struct fake__qp *qp, const struct ibv_send_wr *wr)
{
	struct fake__send *send = fake__send_at(qp, qp->n_sends), fresh = { .sge = send->sge, .inlined = send->inlined };
	size_t used = 0;

	*send = fresh;
	send->id = wr->wr_id;
	send->opcode = wr->opcode;
	send->flags = wr->send_flags | (qp->all_signaled ? (unsigned)IBV_SEND_SIGNALED : 0);
	send->imm = wr->imm_data;
	send->to = wr->wr.rdma.remote_addr;
	send->rkey = wr->wr.rdma.rkey;
	send->n_sge = wr->num_sge;
	send->bytes = bytes_of(wr->sg_list, wr->num_sge);
	for (int i = 0; i < wr->num_sge; i++)
		send->sge[i] = wr->sg_list[i];
	for (int i = 0; i < wr->num_sge && (send->flags & IBV_SEND_INLINE); i++) {
		if (wr->sg_list[i].length)
			memcpy(send->inlined + used, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		used += wr->sg_list[i].length;
	}
	qp->n_sends++;
	qp->send_used++;
	count_send(send);
	if (qp->ibv.state == IBV_QPS_ERR)
		fake__qp_fail(qp); /* flushes it */
}

int fake__post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake__qp *qp = (struct fake__qp *)ibv;
	int rc = 0;

	pthread_mutex_lock(&f->lock);
	f->counts.doorbells++;
	for (; wr; wr = wr->next) {
		rc = send_refused(qp, wr);
		if (rc) {
			*bad = wr;
			break;
		}
		enqueue_send(qp, wr);
	}
	fake__serve(qp);
	pthread_mutex_unlock(&f->lock);
	return rc;
}

int fake__post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake__qp *qp = (struct fake__qp *)ibv;
	int rc = 0;

	pthread_mutex_lock(&f->lock);
	for (; wr; wr = wr->next) {
		struct fake__receive *receive;

		if (ibv->state == IBV_QPS_RESET || wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_recv_sge)
			rc = EINVAL;
		else if (qp->receive_used == qp->cap.max_recv_wr)
			rc = ENOMEM;
		else if (qp->context->device->fail_post_recv && qp->context->device->fail_post_recv--)
			rc = qp->context->device->fail_post_error;
		if (rc) {
			*bad = wr;
			break;
		}
		receive = &qp->receives[(qp->receive_head + qp->n_receives) % qp->cap.max_recv_wr];
		receive->id = wr->wr_id;
		receive->n_sge = wr->num_sge;
		for (int i = 0; i < wr->num_sge; i++)
			receive->sge[i] = wr->sg_list[i];
		qp->n_receives++;
		qp->receive_used++;
		f->counts.receives++;
	}
	if (ibv->state == IBV_QPS_ERR)
		fake__qp_fail(qp);
	fake__serve_peer(qp);
	pthread_mutex_unlock(&f->lock);
	return rc;
}
