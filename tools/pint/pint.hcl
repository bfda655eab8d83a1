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
    value    = "https://.+/alerts/runbooks/.*{{ $alert }}\\.md.*" # that of a check leads to its family
  }
  label "severity" {
    severity = "bug"
    required = true
  }
}

# What the recording rule says exists only while something is wrong: there is nothing to compare it with, and its value,
# the time or the share that the description shows, may be 0.
rule {
  match { name = "GpuFabric(CheckFailed|TrainingOnTcpSuspected|Job(BandwidthRegression|OnTcp|RankLost|Hang|HangSuspected|Straggler)|Ping(Leaf|LeafSlow|Spine)|ConfigurationDrift|ClusterProbe(NodeSlow|PathSlow)|Probe(TransportSocket|GpuDirectLost|WrongResult|BandwidthCollapsed|BandwidthRegression|BaselineDrifted))" }
  disable = ["alerts/comparison"]
}

# They are read only over hours, which have no gaps.
rule {
  match { name = "port:gpufabric_(link_down_events|ping_lost|ping_loopback_lost):step10m" }
  disable = ["group/interval"]
}

# label_replace adds the role on one side of an "or", which pint does not follow.
rule {
  match { name = "GpuFabricTcpOnRdmaNic" }
  disable = ["promql/impossible"]
}

# Names of GPUs come from one of three sides of an or, which do not exclude each other by them; most findings have no place.
rule {
  match { name = "finding:gpufabric_finding:listed" }
  disable = ["promql/impossible"]
}

# A series without a device is meant: it is one of a rail that has none.
rule {
  match { name = "GpuFabricProbeNeverRun" }
  disable = ["promql/impossible"]
}

# The share of ports that a sum over nodes reads is never 0/0: where no port is good some are lost, and those are counted
# below the line.
rule {
  match { name = "cluster:gpufabric_slo_bad:sum" }
  disable = ["promql/nan"]
}

# A count of paths over two: only whether it is there is read.
rule {
  match { name = "GpuFabricPingRail" }
  disable = ["promql/nan"]
}

# Groups read what others recorded a moment ago: what must be quick and what it needs are in one group, and to what looks
# back over hours a minute is no matter.
checks {
  disabled = ["rule/dependency"]
}
