// SPDX-License-Identifier: GPL-2.0
/*
 * fakehca: for tests only. An RDMA device and its Ethernet port that carry no data but answer every
 * question a monitoring program can ask the kernel: port state and rate, GID table with RoCE v1 and
 * v2 entries, counters/ and hw_counters/, DCB (PFC, ETS, buffers), pause, FEC and ethtool statistics.
 * Every number can be set through /sys/kernel/debug/fakehca/N/. The parent can be any PCI device; it is
 * bound to a driver of the name mlx5_core, so that programs take the counters for what they imitate.
 * A device may also have an InfiniBand port; it has no netdev then, but a LID.
 *   modprobe fakehca pci=0000:03:00.0,0000:04:00.0 [infiniband=1]
 * It and its netdev can be moved to other network namespaces ("rdma dev set fakehca_0 netns NAME" in exclusive mode).
 * Beside the numbers, debugfs shows how often a driver would have asked its firmware, and lets it hang:
 *   calls_query_port calls_process_mad calls_get_hw_stats calls_gstats calls_dcb calls_gstrings calls_pause calls_fec
 *                 calls since the module was loaded
 *   stall_ms      how long such a call takes, asleep and deaf to signals; 0 releases those that hang
 *   stall_what    which of them: bit 0 is calls_query_port, bit 1 calls_process_mad, ...; at first all
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <net/addrconf.h>
#include <net/dcbnl.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_pma.h>
#include <rdma/ib_verbs.h>

#define NHCA 8
static char *pci[NHCA];
static int npci;
module_param_array(pci, charp, &npci, 0444);
MODULE_PARM_DESC(pci, "PCI addresses (dddd:bb:dd.f) of the parent devices");
static int infiniband = -1;
module_param(infiniband, int, 0444);
MODULE_PARM_DESC(infiniband, "which of them has an InfiniBand port");

static const struct rdma_stat_desc hw_desc[] = {
	{ .name = "rx_write_requests" },	/* first: see s_get */
	{ .name = "out_of_sequence" }, { .name = "packet_seq_err" }, { .name = "out_of_buffer" },
	{ .name = "local_ack_timeout_err" }, { .name = "rnr_nak_retry_err" }, { .name = "implied_nak_seq_err" },
	{ .name = "duplicate_request" }, { .name = "np_cnp_sent" }, { .name = "np_ecn_marked_roce_packets" },
	{ .name = "rp_cnp_handled" }, { .name = "rp_cnp_ignored" }, { .name = "roce_adp_retrans" },
	{ .name = "roce_slow_restart" }, { .name = "rx_icrc_encapsulated" },
};
static const char *const phy_names[] = {
	"rx_discards_phy", "tx_discards_phy", "rx_symbol_err_phy", "rx_pcs_symbol_err_phy",
	"rx_corrected_bits_phy", "link_down_events_phy", "rx_out_of_buffer", "rx_vport_rdma_unicast_bytes",
	"tx_vport_rdma_unicast_bytes", "outbound_pci_stalled_wr", "rx_global_pause", "tx_global_pause",
	"rx_global_pause_duration", "tx_global_pause_duration", "rx_global_pause_transition",
	"outbound_pci_stalled_rd", "tx_pause_storm_warning_events", "tx_pause_storm_error_events",
};
static const char *const prio_names[] = {	/* one set for each priority */
	"rx_prio%d_bytes", "rx_prio%d_packets", "rx_prio%d_discards", "tx_prio%d_bytes", "tx_prio%d_packets",
	"rx_prio%d_pause", "rx_prio%d_pause_duration", "tx_prio%d_pause", "tx_prio%d_pause_duration",
	"rx_prio%d_pause_transition", "rx_prio%d_buf_discard", "rx_prio%d_cong_discard", "rx_prio%d_marked",
};
#define NHW ARRAY_SIZE(hw_desc)
#define NPHY ARRAY_SIZE(phy_names)
#define NPRIO ARRAY_SIZE(prio_names)
#define NSTAT (NPHY + 8 * NPRIO)
enum { PRIO_RX_PAUSE = 5, PRIO_TX_PAUSE = 7 };

static const char *const pma_names[] = {
	"xmit_data", "rcv_data", "xmit_packets", "rcv_packets", "xmit_wait", "symbol_error", "link_downed",
	"link_error_recovery", "rcv_errors", "xmit_discards",
};
enum { P_XDATA, P_RDATA, P_XPKT, P_RPKT, P_XWAIT, P_SYM, P_DOWN, P_RECOV, P_RERR, P_XDISC, NPMA };

static const char *const call_names[] = {
	"query_port", "process_mad", "get_hw_stats", "gstats", "dcb", "gstrings", "pause", "fec",
};
enum { C_PORT, C_MAD, C_HW, C_GSTATS, C_DCB, C_GSTRINGS, C_PAUSE, C_FEC, NCALL };

struct hca {
	struct ib_device ib;		/* first */
	struct net_device *nd;
	struct pci_dev *pdev;
	struct dentry *dir;
	u64 hw[NHW], stat[NSTAT], pma[NPMA];
	atomic_t calls[NCALL];
	u32 stall_ms, stall_what;
	u32 speed, width, down;		/* ib speed and width codes; 1: port down */
	u32 lid, sm_lid;
	bool infiniband;
	struct ieee_pfc pfc;
	struct ieee_ets ets;
	struct ieee_maxrate rate;
	struct dcbnl_buffer buf;
	u8 dcbx;
	struct ethtool_pauseparam pause;
	u32 fec;			/* ETHTOOL_FEC_* */
	u64 fec_corrected, fec_uncorrectable;
};
struct nd_priv { struct hca *h; };
static struct hca *hcas[NHCA];
static struct dentry *root;
#define H(nd) (((struct nd_priv *)netdev_priv(nd))->h)

/* Where a driver would ask its firmware and wait for the answer. */
static void asks(struct hca *h, int what)
{
	unsigned long begin = jiffies;

	atomic_inc(&h->calls[what]);
	while (READ_ONCE(h->stall_what) & BIT(what) &&
	       time_before(jiffies, begin + msecs_to_jiffies(READ_ONCE(h->stall_ms))))
		msleep(10);
}

/* ---- Ethernet port ---- */
static netdev_tx_t nd_xmit(struct sk_buff *skb, struct net_device *nd)
{
	nd->stats.tx_packets++;
	nd->stats.tx_bytes += skb->len;
	dev_kfree_skb(skb);
	return NETDEV_TX_OK;
}
static const struct net_device_ops nd_ops = {
	.ndo_start_xmit = nd_xmit, .ndo_set_mac_address = eth_mac_addr, .ndo_validate_addr = eth_validate_addr,
};
static void et_drvinfo(struct net_device *nd, struct ethtool_drvinfo *i)
{
	strscpy(i->driver, "mlx5_core", sizeof(i->driver));	/* the statistics have its names */
	strscpy(i->fw_version, "28.39.1002 (FAKE0000000001)", sizeof(i->fw_version));
	strscpy(i->bus_info, pci_name(H(nd)->pdev), sizeof(i->bus_info));
}
/* As with mlx5, pause has statistics only of priorities with PFC, and of the whole link only with global pause. */
static bool stat_listed(struct hca *h, int i)
{
	if (i < NPHY)
		return !strstr(phy_names[i], "global_pause") || h->pause.rx_pause || h->pause.tx_pause;
	return !strstr(prio_names[(i - NPHY) % NPRIO], "_pause") || h->pfc.pfc_en & BIT((i - NPHY) / NPRIO);
}
static int et_count(struct net_device *nd, int set)
{
	int i, n = 0;

	for (i = 0; i < NSTAT; i++)
		n += stat_listed(H(nd), i);
	return set == ETH_SS_STATS ? n : -EOPNOTSUPP;
}
static void stat_name(char *to, int i)
{
	if (i < NPHY)
		strscpy(to, phy_names[i], ETH_GSTRING_LEN);
	else
		snprintf(to, ETH_GSTRING_LEN, prio_names[(i - NPHY) % NPRIO], (int)((i - NPHY) / NPRIO));
}
static void et_strings(struct net_device *nd, u32 set, u8 *to)
{
	int i;

	asks(H(nd), C_GSTRINGS);
	for (i = 0; i < NSTAT; i++) {
		if (!stat_listed(H(nd), i))
			continue;
		stat_name(to, i);
		to += ETH_GSTRING_LEN;
	}
}
static void et_stats(struct net_device *nd, struct ethtool_stats *s, u64 *to)
{
	int i;

	asks(H(nd), C_GSTATS);
	for (i = 0; i < NSTAT; i++)
		if (stat_listed(H(nd), i))
			*to++ = H(nd)->stat[i];
}
static void et_getpause(struct net_device *nd, struct ethtool_pauseparam *p)
{
	asks(H(nd), C_PAUSE);
	p->autoneg = H(nd)->pause.autoneg;
	p->rx_pause = H(nd)->pause.rx_pause;
	p->tx_pause = H(nd)->pause.tx_pause;
}
static int et_setpause(struct net_device *nd, struct ethtool_pauseparam *p) { H(nd)->pause = *p; return 0; }
static void et_pausestats(struct net_device *nd, struct ethtool_pause_stats *s)
{
	s->rx_pause_frames = H(nd)->stat[10];
	s->tx_pause_frames = H(nd)->stat[11];
}
static void et_fecstats(struct net_device *nd, struct ethtool_fec_stats *s)
{
	s->corrected_blocks.total = H(nd)->fec_corrected;
	s->uncorrectable_blocks.total = H(nd)->fec_uncorrectable;
	s->corrected_bits.total = H(nd)->stat[4];
}
static int et_getfec(struct net_device *nd, struct ethtool_fecparam *p)
{
	asks(H(nd), C_FEC);
	p->fec = p->active_fec = H(nd)->fec;
	return 0;
}
static int et_link(struct net_device *nd, struct ethtool_link_ksettings *k)
{
	k->base.speed = 400000;
	k->base.duplex = DUPLEX_FULL;
	return 0;
}
static const struct ethtool_ops et_ops = {
	.get_drvinfo = et_drvinfo, .get_sset_count = et_count, .get_strings = et_strings,
	.get_ethtool_stats = et_stats, .get_pauseparam = et_getpause, .set_pauseparam = et_setpause,
	.get_pause_stats = et_pausestats, .get_fec_stats = et_fecstats, .get_fecparam = et_getfec,
	.get_link = ethtool_op_get_link, .get_link_ksettings = et_link,
};

/* ---- DCB ---- `dcb dcbx set dev hca0 host cee` makes it a driver of CEE, whose PFC is that of IEEE */
static bool ieee(struct hca *h) { return h->dcbx & DCB_CAP_DCBX_VER_IEEE; }
static int d_getpfc(struct net_device *nd, struct ieee_pfc *p)
{
	struct hca *h = H(nd);
	int i;

	if (!ieee(h))
		return -EOPNOTSUPP;
	asks(h, C_DCB);
	*p = h->pfc;
	p->pfc_cap = 8;
	for (i = 0; i < 8; i++) {	/* requests: PFC frames sent; indications: received */
		p->requests[i] = h->stat[NPHY + i * NPRIO + PRIO_TX_PAUSE];
		p->indications[i] = h->stat[NPHY + i * NPRIO + PRIO_RX_PAUSE];
	}
	return 0;
}
static int d_setpfc(struct net_device *nd, struct ieee_pfc *p) { H(nd)->pfc = *p; return 0; }
static int d_getets(struct net_device *nd, struct ieee_ets *e)
{
	if (!ieee(H(nd)))
		return -EOPNOTSUPP;
	asks(H(nd), C_DCB);
	*e = H(nd)->ets;
	e->ets_cap = 8;
	return 0;
}
static int d_setets(struct net_device *nd, struct ieee_ets *e) { H(nd)->ets = *e; return 0; }
static int d_getrate(struct net_device *nd, struct ieee_maxrate *r) { asks(H(nd), C_DCB); *r = H(nd)->rate; return 0; }
static int d_setrate(struct net_device *nd, struct ieee_maxrate *r) { H(nd)->rate = *r; return 0; }
static int d_getbuf(struct net_device *nd, struct dcbnl_buffer *b) { asks(H(nd), C_DCB); *b = H(nd)->buf; return 0; }
static int d_setbuf(struct net_device *nd, struct dcbnl_buffer *b) { H(nd)->buf = *b; return 0; }
static void d_getpfccfg(struct net_device *nd, int prio, u8 *setting) { asks(H(nd), C_DCB); *setting = H(nd)->pfc.pfc_en >> prio & 1; }
static u8 d_getdcbx(struct net_device *nd) { return H(nd)->dcbx; }	/* under a spin lock: no driver may wait here */
static u8 d_setdcbx(struct net_device *nd, u8 v) { H(nd)->dcbx = v; return 0; }
static const struct dcbnl_rtnl_ops dcb_ops = {
	.ieee_getpfc = d_getpfc, .ieee_setpfc = d_setpfc, .ieee_getets = d_getets, .ieee_setets = d_setets,
	.ieee_getmaxrate = d_getrate, .ieee_setmaxrate = d_setrate,
	.dcbnl_getbuffer = d_getbuf, .dcbnl_setbuffer = d_setbuf, .getdcbx = d_getdcbx, .setdcbx = d_setdcbx,
	.getpfccfg = d_getpfccfg,
};

/* ---- RDMA device ---- */
static struct hca *of(struct ib_device *ib) { return container_of(ib, struct hca, ib); }
static int q_device(struct ib_device *ib, struct ib_device_attr *a, struct ib_udata *u)
{
	a->fw_ver = (28ULL << 32) | (39 << 16) | 1002;
	a->vendor_id = 0x02c9;
	a->vendor_part_id = 4129;
	a->sys_image_guid = ib->node_guid;
	a->max_pkeys = 1;
	return 0;
}
static int q_port(struct ib_device *ib, u32 port, struct ib_port_attr *a)
{
	struct hca *h = of(ib);
	bool up = !h->down && (h->infiniband || (netif_running(h->nd) && netif_carrier_ok(h->nd)));

	asks(h, C_PORT);
	a->state = up ? IB_PORT_ACTIVE : IB_PORT_DOWN;
	a->phys_state = up ? IB_PORT_PHYS_STATE_LINK_UP : IB_PORT_PHYS_STATE_DISABLED;
	a->max_mtu = a->active_mtu = IB_MTU_4096;
	a->gid_tbl_len = h->infiniband ? 1 : 255;
	a->pkey_tbl_len = 1;
	a->lid = h->lid;
	a->sm_lid = h->sm_lid;
	a->active_speed = h->speed;
	a->active_width = h->width;
	a->max_msg_sz = 1 << 30;
	return 0;
}
static int q_immutable(struct ib_device *ib, u32 port, struct ib_port_immutable *i)
{
	i->pkey_tbl_len = 1;
	i->gid_tbl_len = of(ib)->infiniband ? 1 : 255;
	i->core_cap_flags = of(ib)->infiniband ? RDMA_CORE_PORT_IBA_IB :
			    RDMA_CORE_PORT_IBA_ROCE | RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	i->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}
static int q_pkey(struct ib_device *ib, u32 port, u16 i, u16 *key) { *key = 0xffff; return 0; }
static enum rdma_link_layer q_layer(struct ib_device *ib, u32 port) 
{
	return of(ib)->infiniband ? IB_LINK_LAYER_INFINIBAND : IB_LINK_LAYER_ETHERNET;
}
static int q_gid(struct ib_device *ib, u32 port, int index, union ib_gid *gid)	/* InfiniBand only */
{
	gid->global.subnet_prefix = cpu_to_be64(0xfe80000000000000ULL);
	gid->global.interface_id = ib->node_guid;
	return 0;
}
static int g_add(const struct ib_gid_attr *a, void **ctx) { return 0; }
static int g_del(const struct ib_gid_attr *a, void **ctx) { return 0; }
static void q_fw(struct ib_device *ib, char *to) { strscpy(to, "28.39.1002", IB_FW_VERSION_NAME_MAX); }
static struct rdma_hw_stats *s_alloc(struct ib_device *ib, u32 port)
{
	return rdma_alloc_hw_stats_struct(hw_desc, NHW, RDMA_HW_STATS_DEFAULT_LIFESPAN);
}
/*
 * The kernel remembers an answer for the lifespan only if it is complete. As with mlx5, which has optional
 * counters on top, an answer to a file of sysfs is complete only if that is the first counter's. Netlink asks for
 * the first one, the registration (index NHW) for all.
 */
static int s_get(struct ib_device *ib, struct rdma_hw_stats *s, u32 port, int index)
{
	if (!port)
		return -EOPNOTSUPP;
	asks(of(ib), C_HW);
	memcpy(s->value, of(ib)->hw, sizeof(of(ib)->hw));
	return index && index < NHW ? NHW - 1 : NHW;
}
static int mad(struct ib_device *ib, int flags, u32 port, const struct ib_wc *wc, const struct ib_grh *grh,
	       const struct ib_mad *in, struct ib_mad *out, size_t *size, u16 *pkey)
{
	u64 *p = of(ib)->pma;
	void *to = out->data + 40;

	asks(of(ib), C_MAD);
	if (in->mad_hdr.mgmt_class != IB_MGMT_CLASS_PERF_MGMT)
		return IB_MAD_RESULT_FAILURE;
	if (in->mad_hdr.attr_id == IB_PMA_CLASS_PORT_INFO) {
		struct ib_class_port_info *c = to;

		c->capability_mask = IB_PMA_CLASS_CAP_EXT_WIDTH;
	} else if (in->mad_hdr.attr_id == IB_PMA_PORT_COUNTERS_EXT) {
		struct ib_pma_portcounters_ext *c = to;

		c->port_xmit_data = cpu_to_be64(p[P_XDATA]);
		c->port_rcv_data = cpu_to_be64(p[P_RDATA]);
		c->port_xmit_packets = cpu_to_be64(p[P_XPKT]);
		c->port_rcv_packets = cpu_to_be64(p[P_RPKT]);
		c->port_unicast_xmit_packets = c->port_xmit_packets;
		c->port_unicast_rcv_packets = c->port_rcv_packets;
	} else if (in->mad_hdr.attr_id == IB_PMA_PORT_COUNTERS) {
		struct ib_pma_portcounters *c = to;

		c->symbol_error_counter = cpu_to_be16(p[P_SYM]);
		c->link_error_recovery_counter = p[P_RECOV];
		c->link_downed_counter = p[P_DOWN];
		c->port_rcv_errors = cpu_to_be16(p[P_RERR]);
		c->port_xmit_discards = cpu_to_be16(p[P_XDISC]);
		c->port_xmit_wait = cpu_to_be32(p[P_XWAIT]);
	} else {
		return IB_MAD_RESULT_FAILURE;
	}
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}
/* The RDMA core moves only devices that can take themselves away from programs; ib_uverbs serves those with contexts. */
struct context { struct ib_ucontext ib; };
static int c_alloc(struct ib_ucontext *c, struct ib_udata *u) { return -EOPNOTSUPP; }
static void c_free(struct ib_ucontext *c) {}
static ssize_t hca_type_show(struct device *d, struct device_attribute *a, char *b) { return sysfs_emit(b, "MT4129\n"); }
static DEVICE_ATTR_RO(hca_type);
static ssize_t hw_rev_show(struct device *d, struct device_attribute *a, char *b) { return sysfs_emit(b, "0\n"); }
static DEVICE_ATTR_RO(hw_rev);
static ssize_t board_id_show(struct device *d, struct device_attribute *a, char *b) { return sysfs_emit(b, "FAKE0000000001\n"); }
static DEVICE_ATTR_RO(board_id);
static struct attribute *ib_attrs[] = { &dev_attr_hca_type.attr, &dev_attr_hw_rev.attr, &dev_attr_board_id.attr, NULL };
static const struct attribute_group ib_group = { .attrs = ib_attrs };
static const struct ib_device_ops ib_ops = {
	.owner = THIS_MODULE, .driver_id = RDMA_DRIVER_UNKNOWN, .device_group = &ib_group,
	.query_device = q_device, .query_port = q_port, .get_port_immutable = q_immutable, .query_pkey = q_pkey,
	.get_link_layer = q_layer, .query_gid = q_gid, .add_gid = g_add, .del_gid = g_del, .get_dev_fw_str = q_fw,
	.alloc_hw_port_stats = s_alloc, .get_hw_stats = s_get, .process_mad = mad,
	.alloc_ucontext = c_alloc, .dealloc_ucontext = c_free, .disassociate_ucontext = c_free,
	INIT_RDMA_OBJ_SIZE(ib_ucontext, context, ib),
};

static const struct pci_device_id pd_ids[] = { { PCI_DEVICE_CLASS(PCI_CLASS_NETWORK_ETHERNET << 8, ~0) }, {} };
static int pd_probe(struct pci_dev *d, const struct pci_device_id *id)
{
	return match_string((const char *const *)pci, npci, pci_name(d)) < 0 ? -ENODEV : 0;
}
static struct pci_driver pd = { .name = "mlx5_core", .id_table = pd_ids, .probe = pd_probe };

static void hca_free(struct hca *h)
{
	debugfs_remove_recursive(h->dir);
	if (h->nd) {
		if (h->nd->reg_state == NETREG_REGISTERED)
			unregister_netdev(h->nd);
		free_netdev(h->nd);
	}
	pci_dev_put(h->pdev);
}
static int hca_new(int n)
{
	unsigned int dom, bus, slot, fn;
	struct hca *h;
	char name[ETH_GSTRING_LEN];
	u8 mac[ETH_ALEN] = { 2, 0, 0, 0, 7, n };	/* the same each time the module is loaded */
	int i, err;

	if (sscanf(pci[n], "%x:%x:%x.%x", &dom, &bus, &slot, &fn) != 4)
		return -EINVAL;
	h = ib_alloc_device(hca, ib);
	if (!h)
		return -ENOMEM;
	err = -ENODEV;
	h->pdev = pci_get_domain_bus_and_slot(dom, bus, PCI_DEVFN(slot, fn));
	h->nd = alloc_etherdev(sizeof(struct nd_priv));
	if (!h->pdev || !h->nd)
		goto fail;
	H(h->nd) = h;
	h->nd->netdev_ops = &nd_ops;
	h->nd->ethtool_ops = &et_ops;
	h->nd->dcbnl_ops = &dcb_ops;
	h->nd->max_mtu = 9216;
	SET_NETDEV_DEV(h->nd, &h->pdev->dev);
	strscpy(h->nd->name, "hca%d", IFNAMSIZ);
	eth_hw_addr_set(h->nd, mac);
	h->stall_what = BIT(NCALL) - 1;
	h->speed = IB_SPEED_NDR;
	h->width = IB_WIDTH_4X;
	h->fec = ETHTOOL_FEC_RS;
	h->dcbx = DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_IEEE;
	for (i = 0; i < 8; i++)
		h->buf.prio2buffer[i] = h->ets.prio_tc[i] = i;
	h->buf.total_size = 524288;
	h->infiniband = n == infiniband;
	h->lid = h->infiniband ? 7 : 0;
	h->sm_lid = h->infiniband;
	err = h->infiniband ? 0 : register_netdev(h->nd);
	if (err)
		goto fail;
	ib_set_device_ops(&h->ib, &ib_ops);
	h->ib.node_type = RDMA_NODE_IB_CA;
	h->ib.phys_port_cnt = 1;
	h->ib.num_comp_vectors = 1;
	addrconf_addr_eui48((u8 *)&h->ib.node_guid, h->nd->dev_addr);
	strscpy(h->ib.node_desc, "fakehca", sizeof(h->ib.node_desc));
	h->ib.dev.parent = &h->pdev->dev;
	err = h->infiniband ? 0 : ib_device_set_netdev(&h->ib, h->nd, 1);
	if (!err)
		err = ib_register_device(&h->ib, "fakehca_%d", NULL);
	if (err) {
		ib_device_set_netdev(&h->ib, NULL, 1);
		goto fail;
	}
	snprintf(name, sizeof(name), "%d", n);
	h->dir = debugfs_create_dir(name, root);
	for (i = 0; i < NHW; i++)
		debugfs_create_u64(hw_desc[i].name, 0600, h->dir, &h->hw[i]);
	for (i = 0; i < NSTAT; i++) {
		stat_name(name, i);
		debugfs_create_u64(name, 0600, h->dir, &h->stat[i]);
	}
	for (i = 0; i < NPMA; i++) {
		snprintf(name, sizeof(name), "port_%s", pma_names[i]);
		debugfs_create_u64(name, 0600, h->dir, &h->pma[i]);
	}
	for (i = 0; i < NCALL; i++) {
		snprintf(name, sizeof(name), "calls_%s", call_names[i]);
		debugfs_create_atomic_t(name, 0400, h->dir, &h->calls[i]);
	}
	debugfs_create_u64("fec_corrected_blocks", 0600, h->dir, &h->fec_corrected);
	debugfs_create_u64("fec_uncorrectable_blocks", 0600, h->dir, &h->fec_uncorrectable);
	debugfs_create_u32("fec", 0600, h->dir, &h->fec);
	debugfs_create_u32("stall_ms", 0600, h->dir, &h->stall_ms);
	debugfs_create_u32("stall_what", 0600, h->dir, &h->stall_what);
	debugfs_create_u32("speed", 0600, h->dir, &h->speed);
	debugfs_create_u32("width", 0600, h->dir, &h->width);
	debugfs_create_u32("down", 0600, h->dir, &h->down);
	debugfs_create_u32("lid", 0600, h->dir, &h->lid);
	debugfs_create_u32("sm_lid", 0600, h->dir, &h->sm_lid);
	hcas[n] = h;
	return 0;
fail:
	hca_free(h);
	ib_dealloc_device(&h->ib);
	return err;
}
static void fini(void)
{
	int i;

	for (i = 0; i < npci; i++) {
		if (!hcas[i])
			continue;
		ib_unregister_device(&hcas[i]->ib);
		hca_free(hcas[i]);
		ib_dealloc_device(&hcas[i]->ib);
	}
	debugfs_remove_recursive(root);
	pci_unregister_driver(&pd);
}
static int __init init(void)
{
	int i, err = pci_register_driver(&pd);

	if (err)
		return err;
	root = debugfs_create_dir("fakehca", NULL);
	for (i = 0; i < npci; i++) {
		err = hca_new(i);
		if (err) {
			fini();
			return err;
		}
	}
	return 0;
}
module_init(init);
module_exit(fini);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("RDMA device without data path, for tests of monitoring programs");
