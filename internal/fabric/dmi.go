// SPDX-License-Identifier: Apache-2.0

package fabric

// DMI is what the firmware, or the hypervisor, says that the machine is (class/dmi/id). Serial numbers and
// the UUID are not read. A value is absent where the machine has none.
type DMI struct {
	Vendor      Fact[string] // sys_vendor
	Product     Fact[string] // product_name; on AWS the instance type
	Version     Fact[string] // product_version
	BoardVendor Fact[string] // board_vendor
	Board       Fact[string] // board_name
	AssetTag    Fact[string] // chassis_asset_tag; clouds say there who they are, and owners what they like
}

// AssetTags are those of clouds. All others may identify the machine.
func AssetTags() []string {
	return []string{
		"7783-7084-3265-9085-8269-3286-77", // Azure
		"OracleCloud.com",
	}
}
