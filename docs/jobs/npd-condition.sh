#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Plugin of node-problem-detector (npd-condition.json) for the condition GPUFabricJobOnTCP of a node: a job on it is confirmed to use TCP,
# and a critical check of the node fails. A job that uses TCP on a node whose checks pass is wrong itself: its image, its resources or
# its environment. Such a node is left alone.
#
# Exit code 0: no problem; 1: the condition is true; 2: it is unknown. Where more than LIMIT nodes were in this state within the last
# hour the fabric is at fault and not a node: the answer is 2 on each of them, so that nothing drains them all. It is also 2 without an
# answer of Prometheus.
EXPORTER=${EXPORTER:-http://localhost:10791}
PROMETHEUS=${PROMETHEUS:-http://prometheus-operated.monitoring:9090}
LIMIT=${LIMIT:-2}

metrics=$(curl -gfsS --max-time 10 "$EXPORTER/metrics?collect[]=job&collect[]=check") || {
	echo "the exporter does not answer at $EXPORTER"
	exit 2
}
said=$(printf '%s\n' "$metrics" | awk '
	function label(name) { return match($0, "[{,]" name "=\"[^\"]*\"") ? substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4) : "" }
	/^gpufabric_job_transport[{].*transport="tcp"/ && $NF == 1 { tcp[label("training_job")] = 1 }
	/^gpufabric_job_transport_by_design[{]/ && $NF == 0 { plain[label("training_job")] = 1 }
	/^gpufabric_job_transport_confirmed[{]/ && $NF == 1 { sure[label("training_job")] = 1 }
	/^gpufabric_check_failed[{].*severity="critical"/ && $NF == 1 { check = label("check") }
	END {
		for (j in tcp) if (j in plain && j in sure) { job = j; break }
		if (job == "") print "OK no job is confirmed to use TCP"
		else if (check == "") print "OK job " job " uses TCP, and no critical check of the node fails"
		else print "BAD job " job " uses TCP, and check " check " fails"
	}')
case $said in
OK*)
	echo "${said#OK }"
	exit 0
	;;
BAD*) ;;
*)
	echo "the metrics could not be read"
	exit 2
	;;
esac

nodes='count by (cluster, instance) (job:gpufabric_job_transport:tcp and on (cluster, job, instance, training_job) gpufabric_job_transport_confirmed == 1) and on (cluster, instance) count by (cluster, instance) (gpufabric_check_failed{severity="critical"} == 1)'
count=$(curl -fsS --max-time 10 --data-urlencode "query=count(max_over_time(($nodes)[1h:1m]))" "$PROMETHEUS/api/v1/query" |
	sed -n 's/.*"value":\[[^,]*,"\([0-9]*\)"\].*/\1/p')
case $count in
'' | *[!0-9]*)
	echo "${said#BAD }; Prometheus does not say on how many nodes"
	exit 2
	;;
esac
if [ "$count" -gt "$LIMIT" ]; then
	echo "${said#BAD }; so on $count nodes: more than $LIMIT, look at the fabric"
	exit 2
fi
echo "${said#BAD }"
exit 1
