#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Drains nodes of Slurm on which a job is confirmed to use TCP and a critical check fails. It is run in one place, the host of slurmctld,
# by a timer. A job that uses TCP on a node whose checks pass is wrong itself, and its node is left alone.
#
# At most LIMIT nodes are drained at once: those that it drained before and that were not resumed count. Where more than LIMIT nodes are found,
# the fabric is at fault and not a node, and none is drained. Without APPLY=yes it only prints what it would do.
#
# Exit code 0: done, or nothing to do; 1: something was left to a person, who reads why on standard error.
PROMETHEUS=${PROMETHEUS:-http://localhost:9090}
LIMIT=${LIMIT:-2}
APPLY=${APPLY:-no}
PREFIX='gpufabric: job on TCP'

fail() {
	echo "gpufabric: $*" >&2
	exit 1
}

query='count by (instance, training_job) (job:gpufabric_job_transport:tcp and on (cluster, job, instance, training_job) gpufabric_job_transport_confirmed == 1 and on (cluster, instance) count by (cluster, instance) (gpufabric_check_failed{severity="critical"} == 1))'
answer=$(curl -fsS --max-time 10 --data-urlencode "query=$query" "$PROMETHEUS/api/v1/query") || fail "no node is drained: Prometheus does not answer at $PROMETHEUS"
case $answer in
*'"status":"success"'*) ;;
*) fail "no node is drained: Prometheus does not answer the query" ;;
esac
# host:port or host.domain is called host by Slurm.
nodes=$(printf '%s' "$answer" | grep -o '"instance":"[A-Za-z0-9._:-]*"' | cut -d '"' -f 4 | sed 's/[:.].*//' | sort -u)
[ -n "$nodes" ] || exit 0
found=$(echo "$nodes" | wc -l)
[ "$found" -le "$LIMIT" ] || fail "no node is drained: jobs use TCP on $found nodes whose checks fail, more than $LIMIT: look at the fabric"

states=$(timeout -k 1 10 sinfo -h -N -o '%N|%T|%E') || fail "no node is drained: sinfo does not answer"
states=$(echo "$states" | sort -u) # a line for each partition
drained=$(echo "$states" | grep -c "|$PREFIX")
left=0
for node in $nodes; do
	state=$(echo "$states" | sed -n "s/^$node|\([^|]*\)|.*/\1/p" | head -n 1)
	case $state in
	'')
		echo "gpufabric: $node is not drained: Slurm does not know it" >&2
		left=1
		continue
		;;
	*drain* | *down* | *fail* | *maint* | *power* | *reboot*) continue ;; # with the reason that it has
	esac
	if [ "$drained" -ge "$LIMIT" ]; then
		echo "gpufabric: $node is not drained: $drained nodes are, the limit is $LIMIT" >&2
		left=1
		continue
	fi
	drained=$((drained + 1))
	if [ "$APPLY" != yes ]; then
		echo "would drain $node"
		continue
	fi
	timeout -k 1 10 scontrol update "NodeName=$node" State=DRAIN "Reason=$PREFIX and a critical check fails" || {
		echo "gpufabric: $node could not be drained" >&2
		left=1
	}
done
exit "$left"
