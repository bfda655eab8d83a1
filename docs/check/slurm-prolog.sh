#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Prolog for Slurm (slurm.conf: Prolog=/etc/slurm/prolog.d/gpufabric.sh): a node on which a critical check fails gets no job.
# Where a prolog ends with anything but 0, slurmd drains the node and the job goes back into the queue.
#
# What cannot be told (exit code 2) is logged and lets the job start; exit with 1 there too if your site would rather not.
CHECK=${CHECK:-/usr/bin/gpufabric_exporter}
CONFIG=${CONFIG:-/etc/gpufabric_exporter.yml}

report=$(timeout 20 "$CHECK" check --severity=critical --config.file="$CONFIG" --log.level=error 2>&1)
code=$?
[ "$code" -eq 0 ] && exit 0
echo "$report" | logger -t gpufabric_check 2>/dev/null
if [ "$code" -eq 1 ]; then
	echo "$report" >&2
	exit 1
fi
exit 0
