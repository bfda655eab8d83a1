// SPDX-License-Identifier: Apache-2.0

package probestest

import "time"

// Origin is a time at which tests begin.
var Origin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
