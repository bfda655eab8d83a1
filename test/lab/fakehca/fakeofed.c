// SPDX-License-Identifier: GPL-2.0
/*
 * fakeofed: for tests only. Files that MLNX_OFED's drivers have beside those of Linux, for one RDMA device and its
 * interface: which priorities notify of congestion and heed notifications, and the traffic class of a whole port.
 *   modprobe fakeofed netdev=hca0 rdma=fakehca_0
 * What they say is in /sys/module/fakeofed/parameters/{np,rp,tclass}.
 */
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/sysfs.h>
#include <rdma/ib_verbs.h>

static char *netdev = "hca0";
module_param(netdev, charp, 0444);
static char *rdma = "fakehca_0";
module_param(rdma, charp, 0444);
static int np = 0xff, rp = 0xff, tclass = -1;
module_param(np, int, 0644);
MODULE_PARM_DESC(np, "priorities that notify of congestion");
module_param(rp, int, 0644);
MODULE_PARM_DESC(rp, "priorities that heed notifications");
module_param(tclass, int, 0644);
MODULE_PARM_DESC(tclass, "traffic class over what applications ask for; -1: none");

static struct kobject *ecn, *sides[2], *enable[2], *tc, *tc_port;
static struct kobj_attribute switches[2][8];
static const char *const numbers[] = { "0", "1", "2", "3", "4", "5", "6", "7" };

static ssize_t switch_show(struct kobject *k, struct kobj_attribute *a, char *b)
{
	int side = a >= switches[1];

	return sysfs_emit(b, "%d\n", ((side ? rp : np) >> (a - switches[side])) & 1);
}

static ssize_t traffic_class_show(struct kobject *k, struct kobj_attribute *a, char *b)
{
	return tclass < 0 ? 0 : sysfs_emit(b, "Global tclass=%d\n", tclass);
}
static struct kobj_attribute traffic_class = __ATTR_RO(traffic_class);

static void fini(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		kobject_put(enable[i]);
		kobject_put(sides[i]);
	}
	kobject_put(ecn);
	kobject_put(tc_port);
	kobject_put(tc);
}

static int files(struct net_device *nd, struct ib_device *ib)
{
	int i, p, err;

	ecn = kobject_create_and_add("ecn", &nd->dev.kobj);
	for (i = 0; i < 2; i++) {
		sides[i] = ecn ? kobject_create_and_add(i ? "roce_rp" : "roce_np", ecn) : NULL;
		enable[i] = sides[i] ? kobject_create_and_add("enable", sides[i]) : NULL;
		if (!enable[i])
			return -ENOMEM;
		for (p = 0; p < 8; p++) {
			struct kobj_attribute *a = &switches[i][p];

			sysfs_attr_init(&a->attr);
			a->attr.name = numbers[p];
			a->attr.mode = 0444;
			a->show = switch_show;
			err = sysfs_create_file(enable[i], &a->attr);
			if (err)
				return err;
		}
	}
	tc = kobject_create_and_add("tc", &ib->dev.kobj);
	tc_port = tc ? kobject_create_and_add("1", tc) : NULL;
	return tc_port ? sysfs_create_file(tc_port, &traffic_class.attr) : -ENOMEM;
}

static int __init init(void)
{
	struct net_device *nd = dev_get_by_name(&init_net, netdev);
	struct ib_device *ib = ib_device_get_by_name(rdma, RDMA_DRIVER_UNKNOWN);
	int err = nd && ib ? files(nd, ib) : -ENODEV;

	if (err)
		fini();
	if (ib)
		ib_device_put(ib);
	dev_put(nd);
	return err;
}
module_init(init);
module_exit(fini);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("files of MLNX_OFED, for tests of monitoring programs");
