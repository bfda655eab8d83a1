#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Plugin of node-problem-detector (npd-unhealthy.json) for the condition GPUFabricUnhealthy of a node: a critical check of the node fails.
# It needs what the image of node-problem-detector has: bash, and no curl. Names of hosts are resolved by bash.
#
# Exit code 0: no problem; 1: the condition is true; 2: it is unknown. Where critical checks fail on more than LIMIT nodes at once, a
# configuration or the fabric is at fault and not a node: the answer is 2 on each of them, so that nothing taints them all. It is also 2
# without an answer of Prometheus, and while the exporter could not judge the node.
EXPORTER=${EXPORTER:-localhost:10791}
PROMETHEUS=${PROMETHEUS:-prometheus-operated.monitoring:9090}
LIMIT=${LIMIT:-2}

unknown() {
	echo "$*"
	exit 2
}

# get HOST:PORT PATH prints the answer to a request, 8 MiB of it within 10 s.
get() {
	timeout 10 bash -c 'exec 3<>"/dev/tcp/${0%:*}/${0##*:}" && printf "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n" "$1" "$0" >&3 &&
		head -c 8388608 <&3' "$1" "$2" 2>/dev/null | tr -d '\0'
}

status=$(get "$EXPORTER" /status.json)
[[ $status == "HTTP/1."?" 200 "* ]] || unknown "the exporter does not answer at $EXPORTER"
check=$(grep -o '"id":"finding-[0-9]*","check":"[a-z0-9_]*","severity":"critical"' <<<"$status" | head -n 1 | cut -d '"' -f 8)
if [ -z "$check" ]; then
	case $status in
	*'"verdict":{"status":"ok"'* | *'"verdict":{"status":"failed"'*) ;;
	*) unknown "the exporter could not judge the node" ;;
	esac
	echo "no critical check fails"
	exit 0
fi

# count(count by (cluster, instance) (gpufabric_check_failed{severity="critical"} == 1))
query='count%28count%20by%20%28cluster%2C%20instance%29%20%28gpufabric_check_failed%7Bseverity%3D%22critical%22%7D%20%3D%3D%201%29%29'
count=$(get "$PROMETHEUS" "/api/v1/query?query=$query" | sed -n 's/.*"value":\[[^,]*,"\([0-9]*\)"\].*/\1/p')
[ -n "$count" ] || unknown "check $check fails; Prometheus does not say on how many nodes"
[ "$count" -le "$LIMIT" ] || unknown "check $check fails; critical checks fail on $count nodes: more than $LIMIT, look at the fabric"
echo "check $check fails"
exit 1
