// SPDX-License-Identifier: Apache-2.0

// Prints where the fields of libibverbs are that this package uses: by the header of the package, or by the real one.

#ifdef REAL
#include <infiniband/verbs.h>
#define EXTENDED __VERBS_ABI_IS_EXTENDED
enum {
	EVENT_CQ_ERR = IBV_EVENT_CQ_ERR,
	EVENT_QP_FATAL = IBV_EVENT_QP_FATAL,
	EVENT_DEVICE_FATAL = IBV_EVENT_DEVICE_FATAL,
	EVENT_PORT_ACTIVE = IBV_EVENT_PORT_ACTIVE,
	EVENT_PORT_ERR = IBV_EVENT_PORT_ERR,
	EVENT_LID_CHANGE = IBV_EVENT_LID_CHANGE,
	EVENT_PKEY_CHANGE = IBV_EVENT_PKEY_CHANGE,
	EVENT_GID_CHANGE = IBV_EVENT_GID_CHANGE,
	PORT_ACTIVE = IBV_PORT_ACTIVE,
	LINK_INFINIBAND = IBV_LINK_LAYER_INFINIBAND,
	LINK_ETHERNET = IBV_LINK_LAYER_ETHERNET,
	GRH_REQUIRED = IBV_QPF_GRH_REQUIRED,
	QP_TYPE_UD = IBV_QPT_UD,
	QPS_INIT = IBV_QPS_INIT,
	QPS_RTR = IBV_QPS_RTR,
	QPS_RTS = IBV_QPS_RTS,
	QP_STATE = IBV_QP_STATE,
	QP_PKEY_INDEX = IBV_QP_PKEY_INDEX,
	QP_PORT = IBV_QP_PORT,
	QP_QKEY = IBV_QP_QKEY,
	QP_SQ_PSN = IBV_QP_SQ_PSN,
	WR_SEND = IBV_WR_SEND,
	SEND_SIGNALED = IBV_SEND_SIGNALED,
	WC_GRH = IBV_WC_GRH,
	WC_EX_BYTE_LEN = IBV_WC_EX_WITH_BYTE_LEN,
	WC_EX_SRC_QP = IBV_WC_EX_WITH_SRC_QP,
	WC_EX_SLID = IBV_WC_EX_WITH_SLID,
	WC_EX_TIMESTAMP = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
	ACCESS_LOCAL_WRITE = IBV_ACCESS_LOCAL_WRITE,
};
#define ah wr.ud.ah
#define remote_qpn wr.ud.remote_qpn
#define remote_qkey wr.ud.remote_qkey
#define poll_cq ops.poll_cq
#define req_notify_cq ops.req_notify_cq
#define post_send ops.post_send
#define post_recv ops.post_recv
#else
#include "../verbs.h"
#endif

#include <stdio.h>

#define AT(type, field) printf("%s %d\n", #type "." #field, (int)offsetof(struct type, field));
#define BEFORE(field) \
	printf("verbs_context." #field " %d\n", (int)(offsetof(struct verbs_context, context) - offsetof(struct verbs_context, field)));
#define SIZE(type) printf(#type " %d\n", (int)sizeof(struct type));
#define IS(number) printf(#number " %lld\n", (long long)(number));

int main(void) {
	SIZE(ibv_context) AT(ibv_context, poll_cq) AT(ibv_context, req_notify_cq) AT(ibv_context, post_send)
	AT(ibv_context, post_recv) AT(ibv_context, async_fd) AT(ibv_context, abi_compat)
	SIZE(ibv_async_event) AT(ibv_async_event, element.port_num) AT(ibv_async_event, event_type)
	IS(EVENT_CQ_ERR) IS(EVENT_QP_FATAL) IS(EVENT_DEVICE_FATAL) IS(EVENT_PORT_ACTIVE) IS(EVENT_PORT_ERR)
	IS(EVENT_LID_CHANGE) IS(EVENT_PKEY_CHANGE) IS(EVENT_GID_CHANGE)
	BEFORE(create_cq_ex) BEFORE(query_device_ex) BEFORE(sz) IS((intptr_t)EXTENDED)
	AT(ibv_port_attr, state) AT(ibv_port_attr, active_mtu) AT(ibv_port_attr, lid) AT(ibv_port_attr, link_layer)
	AT(ibv_port_attr, flags) IS(PORT_ACTIVE) IS(LINK_INFINIBAND) IS(LINK_ETHERNET) IS(GRH_REQUIRED)
	AT(ibv_mr, lkey) AT(ibv_comp_channel, fd) AT(ibv_qp, qp_num)
	SIZE(ibv_qp_cap) AT(ibv_qp_cap, max_send_wr) AT(ibv_qp_cap, max_recv_wr) AT(ibv_qp_cap, max_send_sge)
	AT(ibv_qp_cap, max_recv_sge)
	SIZE(ibv_qp_init_attr) AT(ibv_qp_init_attr, send_cq) AT(ibv_qp_init_attr, recv_cq) AT(ibv_qp_init_attr, cap)
	AT(ibv_qp_init_attr, qp_type) AT(ibv_qp_init_attr, sq_sig_all) IS(QP_TYPE_UD)
	AT(ibv_global_route, dgid) AT(ibv_global_route, flow_label) AT(ibv_global_route, sgid_index)
	AT(ibv_global_route, hop_limit) AT(ibv_global_route, traffic_class)
	SIZE(ibv_ah_attr) AT(ibv_ah_attr, grh) AT(ibv_ah_attr, dlid) AT(ibv_ah_attr, sl) AT(ibv_ah_attr, is_global)
	AT(ibv_ah_attr, port_num)
	SIZE(ibv_qp_attr) AT(ibv_qp_attr, qp_state) AT(ibv_qp_attr, qkey) AT(ibv_qp_attr, sq_psn)
	AT(ibv_qp_attr, pkey_index) AT(ibv_qp_attr, port_num)
	IS(QPS_INIT) IS(QPS_RTR) IS(QPS_RTS) IS(QP_STATE) IS(QP_PKEY_INDEX) IS(QP_PORT) IS(QP_QKEY) IS(QP_SQ_PSN)
	SIZE(ibv_sge) AT(ibv_sge, addr) AT(ibv_sge, length) AT(ibv_sge, lkey)
	SIZE(ibv_send_wr) AT(ibv_send_wr, wr_id) AT(ibv_send_wr, sg_list) AT(ibv_send_wr, num_sge)
	AT(ibv_send_wr, opcode) AT(ibv_send_wr, send_flags) AT(ibv_send_wr, ah) AT(ibv_send_wr, remote_qpn)
	AT(ibv_send_wr, remote_qkey) IS(WR_SEND) IS(SEND_SIGNALED)
	SIZE(ibv_recv_wr) AT(ibv_recv_wr, wr_id) AT(ibv_recv_wr, sg_list) AT(ibv_recv_wr, num_sge)
	SIZE(ibv_wc) AT(ibv_wc, wr_id) AT(ibv_wc, status) AT(ibv_wc, byte_len) AT(ibv_wc, src_qp) AT(ibv_wc, wc_flags)
	AT(ibv_wc, slid) IS(WC_GRH)
	AT(ibv_cq_ex, status) AT(ibv_cq_ex, wr_id) AT(ibv_cq_ex, start_poll)
	AT(ibv_cq_ex, end_poll) AT(ibv_cq_ex, read_byte_len) AT(ibv_cq_ex, read_src_qp) AT(ibv_cq_ex, read_wc_flags)
	AT(ibv_cq_ex, read_slid) AT(ibv_cq_ex, read_completion_ts)
	SIZE(ibv_cq_init_attr_ex) AT(ibv_cq_init_attr_ex, cqe) AT(ibv_cq_init_attr_ex, channel)
	AT(ibv_cq_init_attr_ex, wc_flags)
	IS(WC_EX_BYTE_LEN) IS(WC_EX_SRC_QP) IS(WC_EX_SLID) IS(WC_EX_TIMESTAMP)
	SIZE(ibv_poll_cq_attr)
	AT(ibv_device_attr_ex, completion_timestamp_mask) AT(ibv_device_attr_ex, hca_core_clock)
	IS(ACCESS_LOCAL_WRITE)
}
