// SPDX-License-Identifier: Apache-2.0

package gate

// PassOf is a pass of a gate that has not been entered.
func PassOf(g *Gate, gpus ...string) *Pass { return &Pass{gate: g, gpus: gpus} }

// What tests compare with.
const MaxDetail = maxDetail

var SchedulerOf = schedulerOf
