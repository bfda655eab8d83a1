// SPDX-License-Identifier: Apache-2.0

package rdmanl

import "fmt"

// attr is an RDMA_NLDEV_ATTR_... or RDMA_NLDEV_SYS_ATTR_... (enum rdma_nldev_attr).
type attr uint16

const (
	attrDevIndex             attr = 1
	attrDevName              attr = 2
	attrPortIndex            attr = 3
	attrCapFlags             attr = 4
	attrFWVersion            attr = 5
	attrNodeGUID             attr = 6
	attrSysImageGUID         attr = 7
	attrSubnetPrefix         attr = 8
	attrLID                  attr = 9
	attrSMLID                attr = 10
	attrLMC                  attr = 11
	attrPortState            attr = 12
	attrPortPhysState        attr = 13
	attrDevNodeType          attr = 14
	attrResSummary           attr = 15
	attrResSummaryEntry      attr = 16
	attrResSummaryEntryName  attr = 17
	attrResSummaryEntryCurr  attr = 18
	attrNdevIndex            attr = 50
	attrNdevName             attr = 51
	attrSysNetNSMode         attr = 66
	attrDevProtocol          attr = 67
	attrStatHWCounters       attr = 80
	attrStatHWCounterEntry   attr = 81
	attrStatHWCounterName    attr = 82
	attrStatHWCounterValue   attr = 83
	attrSysCopyOnFork        attr = 93
	attrStatHWCounterIndex   attr = 94
	attrStatHWCounterDynamic attr = 95
	attrSysMonitorMode       attr = 103
)

// String returns the name without RDMA_NLDEV_, or the number.
func (a attr) String() string {
	names := [...]string{
		0:            "ATTR_UNSPEC", // also PAD, which only architectures without unaligned access have
		attrDevIndex: "ATTR_DEV_INDEX", attrDevName: "ATTR_DEV_NAME", attrPortIndex: "ATTR_PORT_INDEX",
		attrCapFlags: "ATTR_CAP_FLAGS", attrFWVersion: "ATTR_FW_VERSION", attrNodeGUID: "ATTR_NODE_GUID",
		attrSysImageGUID: "ATTR_SYS_IMAGE_GUID", attrSubnetPrefix: "ATTR_SUBNET_PREFIX", attrLID: "ATTR_LID",
		attrSMLID: "ATTR_SM_LID", attrLMC: "ATTR_LMC", attrPortState: "ATTR_PORT_STATE",
		attrPortPhysState: "ATTR_PORT_PHYS_STATE", attrDevNodeType: "ATTR_DEV_NODE_TYPE",
		attrResSummary: "ATTR_RES_SUMMARY", attrResSummaryEntry: "ATTR_RES_SUMMARY_ENTRY",
		attrResSummaryEntryName: "ATTR_RES_SUMMARY_ENTRY_NAME", attrResSummaryEntryCurr: "ATTR_RES_SUMMARY_ENTRY_CURR",
		attrNdevIndex: "ATTR_NDEV_INDEX", attrNdevName: "ATTR_NDEV_NAME", attrSysNetNSMode: "SYS_ATTR_NETNS_MODE",
		attrDevProtocol: "ATTR_DEV_PROTOCOL", attrStatHWCounters: "ATTR_STAT_HWCOUNTERS",
		attrStatHWCounterEntry: "ATTR_STAT_HWCOUNTER_ENTRY", attrStatHWCounterName: "ATTR_STAT_HWCOUNTER_ENTRY_NAME",
		attrStatHWCounterValue: "ATTR_STAT_HWCOUNTER_ENTRY_VALUE", attrSysCopyOnFork: "SYS_ATTR_COPY_ON_FORK",
		attrStatHWCounterIndex: "ATTR_STAT_HWCOUNTER_INDEX", attrStatHWCounterDynamic: "ATTR_STAT_HWCOUNTER_DYNAMIC",
		attrSysMonitorMode: "SYS_ATTR_MONITOR_MODE",
	}
	if int(a) < len(names) && names[a] != "" {
		return names[a]
	}
	return fmt.Sprintf("attribute %d", uint16(a))
}
