// SPDX-License-Identifier: Apache-2.0

package verdict

// Mode is a way in which the fabric of a node fails or is configured wrong: the unit in which the coverage of
// checks and alerts is counted. The checks that find one declare it (Check.Modes).
type Mode struct {
	ID, Text string
	// Alert names the alert rule that finds it, where rates show it and states do not; empty: a check finds it.
	Alert string
	// Gap says why nothing finds it; empty where something does.
	Gap string
}

// ModeIDs are the names of the modes that the check finds.
func (c *Check) ModeIDs() []string {
	var ids []string
	for _, m := range c.Modes {
		ids = append(ids, m.ID)
	}
	return ids
}
