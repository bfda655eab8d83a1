// SPDX-License-Identifier: Apache-2.0

package rdmanl

// Attributes: RDMA_NLDEV_ATTR_... and RDMA_NLDEV_SYS_ATTR_... (enum rdma_nldev_attr).
const (
	attrDevIndex           = 1
	attrDevName            = 2
	attrPortIndex          = 3
	attrCapFlags           = 4
	attrFWVersion          = 5
	attrNodeGUID           = 6
	attrSysImageGUID       = 7
	attrSubnetPrefix       = 8
	attrLID                = 9
	attrSMLID              = 10
	attrLMC                = 11
	attrPortState          = 12
	attrPortPhysState      = 13
	attrDevNodeType        = 14
	attrResPID             = 28
	attrResKernName        = 29
	attrResCQ              = 35
	attrResCQEntry         = 36
	attrResUseCount        = 38
	attrResMR              = 40
	attrResMREntry         = 41
	attrResMRLen           = 45
	attrResPD              = 46
	attrResPDEntry         = 47
	attrNdevIndex          = 50
	attrNdevName           = 51
	attrResCtxN            = 64
	attrSysNetNSMode       = 66
	attrDevProtocol        = 67
	attrStatHWCounters     = 80
	attrStatHWCounterEntry = 81
	attrStatHWCounterName  = 82
	attrStatHWCounterValue = 83
	attrResCtx             = 86
	attrResCtxEntry        = 87
	attrSysCopyOnFork      = 93
	attrDevType            = 99
	attrSysMonitorMode     = 103
)

// attributeName returns the name without RDMA_NLDEV_; empty for what is not known here.
func attributeName(kind uint16) string {
	names := [...]string{
		0:            "ATTR_UNSPEC", // also PAD, which only architectures without unaligned access have
		attrDevIndex: "ATTR_DEV_INDEX", attrDevName: "ATTR_DEV_NAME", attrPortIndex: "ATTR_PORT_INDEX",
		attrCapFlags: "ATTR_CAP_FLAGS", attrFWVersion: "ATTR_FW_VERSION", attrNodeGUID: "ATTR_NODE_GUID",
		attrSysImageGUID: "ATTR_SYS_IMAGE_GUID", attrSubnetPrefix: "ATTR_SUBNET_PREFIX", attrLID: "ATTR_LID",
		attrSMLID: "ATTR_SM_LID", attrLMC: "ATTR_LMC", attrPortState: "ATTR_PORT_STATE",
		attrPortPhysState: "ATTR_PORT_PHYS_STATE", attrDevNodeType: "ATTR_DEV_NODE_TYPE",
		attrNdevIndex: "ATTR_NDEV_INDEX", attrNdevName: "ATTR_NDEV_NAME", attrSysNetNSMode: "SYS_ATTR_NETNS_MODE",
		attrDevProtocol: "ATTR_DEV_PROTOCOL", attrStatHWCounters: "ATTR_STAT_HWCOUNTERS",
		attrStatHWCounterEntry: "ATTR_STAT_HWCOUNTER_ENTRY", attrStatHWCounterName: "ATTR_STAT_HWCOUNTER_ENTRY_NAME",
		attrStatHWCounterValue: "ATTR_STAT_HWCOUNTER_ENTRY_VALUE", attrSysCopyOnFork: "SYS_ATTR_COPY_ON_FORK",
		attrSysMonitorMode: "SYS_ATTR_MONITOR_MODE", attrDevType: "ATTR_DEV_TYPE",
		attrResPID: "ATTR_RES_PID", attrResKernName: "ATTR_RES_KERN_NAME", attrResUseCount: "ATTR_RES_USECNT",
		attrResCQ: "ATTR_RES_CQ", attrResCQEntry: "ATTR_RES_CQ_ENTRY", attrResMR: "ATTR_RES_MR",
		attrResMREntry: "ATTR_RES_MR_ENTRY",
		attrResMRLen:   "ATTR_RES_MRLEN", attrResPD: "ATTR_RES_PD", attrResPDEntry: "ATTR_RES_PD_ENTRY",
		attrResCtxN: "ATTR_RES_CTXN",
		attrResCtx:  "ATTR_RES_CTX", attrResCtxEntry: "ATTR_RES_CTX_ENTRY",
	}
	if int(kind) < len(names) {
		return names[kind]
	}
	return ""
}
