#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# HealthCheckProgram for Slurm: drains the node when a critical check fails. Jobs that run continue to their end.
# slurm.conf:
#
#   HealthCheckProgram=/etc/slurm/gpufabric-health.sh
#   HealthCheckInterval=300
#   HealthCheckNodeState=ANY,CYCLE
#
# slurmd runs it as root and kills it after 60 seconds; the program itself has to drain the node. It does so where the
# prolog beside it would, with the settings of the prolog (ON_ERROR, ON_UNKNOWN). A node that is drained, down or reserved
# for maintenance already is left as it is, with the reason that it has. Nodes are never resumed: the person who repaired
# the node does that.
PATH=${PATH:+$PATH:}/usr/sbin:/usr/bin:/sbin:/bin
export PATH
GATE=${GATE:-/etc/slurm/prolog.d/gpufabric.sh}
host=$(uname -n)
NODE=${NODE:-${SLURMD_NODENAME:-${host%%.*}}}

said=$("$GATE" 2>&1)
case $? in
0) exit 0 ;; # no reason to drain; the prolog has logged the rest
1) ;;
*)
	echo "gpufabric: $GATE cannot be run: $said" >&2
	exit 1
	;;
esac

# Without an answer the node is not drained: that could replace an existing reason. The next run is minutes later.
state=$(timeout -k 1 10 sinfo -h -N -n "$NODE" -o %T | head -n 1)
case $state in
'')
	echo "gpufabric: not drained: sinfo does not know the state of $NODE" >&2
	exit 1
	;;
*drain* | *down* | *fail* | *maint* | *power* | *reboot*) exit 0 ;;
esac

# The first check that failed, in characters that need no quoting; else what the prolog said.
what=$(echo "$said" | sed -n 's/^FAILED *critical *//p' | head -n 1)
[ -n "$what" ] || what=$(echo "$said" | sed -n 's/^gpufabric: //p' | head -n 1)
what=$(echo "$what" | tr -s ' ' | tr -cd 'A-Za-z0-9 _.:,/()=-' | cut -c 1-120)
timeout -k 1 10 scontrol update "NodeName=$NODE" State=DRAIN "Reason=gpufabric: $what" || {
	echo "gpufabric: $NODE could not be drained" >&2
	exit 1
}
