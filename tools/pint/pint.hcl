# SPDX-License-Identifier: Apache-2.0
#
# What pint looks for in alerts/*.rules.yml, beside its own checks (make pint).
parser {
  schema = "prometheus"
  names  = "legacy" # a Prometheus 2 reads the rules, too
}

rule {
  match { kind = "alerting" }
  annotation "summary" {
    severity = "bug"
    required = true
  }
  annotation "description" {
    severity = "bug"
    required = true
  }
  annotation "runbook_url" {
    severity = "bug"
    required = true
    value    = "https://.+/alerts/runbooks/{{ $alert }}\\.md"
  }
  label "severity" {
    severity = "bug"
    required = true
  }
}

# What the recording rule says exists only while something is wrong: there is nothing to compare it with, and its value,
# the time or the share that the description shows, may be 0.
rule {
  match { name = "GpuFabricProbe(TransportSocket|GpuDirectLost|WrongResult|BandwidthCollapsed|BandwidthRegression|BaselineDrifted)" }
  disable = ["alerts/comparison"]
}

# When a device vanished is remembered for a week. Probes come hours apart: that another group records it, 15 s earlier
# at most, is no matter.
check "rule/dependency" {
  ignoreGroupMismatch = ["device:gpufabric_hca_info:gone_since_timestamp_seconds"]
}
