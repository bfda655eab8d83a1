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
# prolog beside it would, with the settings of the prolog (/etc/default/gpufabric_slurm), but HEALTH_LIMIT for LIMIT: no job waits for
# it, so it may take longer, and it must end within the 60 seconds whatever the prolog may take. What is wrong with many nodes at once is
# more often a configuration than hardware: while MAX_DRAINED nodes are drained by this program or by prologs, no further one is. Nodes
# wait for a random time before they ask, so that they do not decide at once. A node that is drained, down or reserved for maintenance
# already is left as it is; only the reason "Prolog error" becomes the one of the prolog. Nodes are never resumed: the person who
# repaired the node does that. Errors go to the system's log, too (journalctl -t gpufabric_check).
PATH=${PATH:+$PATH:}/usr/sbin:/usr/bin:/sbin:/bin
export PATH

# settings NAME... takes these variables from the file of settings, unless the environment has them: slurmd passes none of its own. Lines
# are NAME=value and never run. A file that another user may write to is not read.
settings() {
	[ -e "$SETTINGS" ] || [ -L "$SETTINGS" ] || return 0
	case $(ls -ldn "$SETTINGS" 2>/dev/null | tr -s ' ' | cut -d ' ' -f 1,3) in
	-????-??-*" 0" | -????-??-*" $(id -u)") ;;
	l*)
		unread="$SETTINGS is not read: it is a symbolic link; expected the file itself, because others may write where a link leads"
		return 0
		;;
	*)
		unread="$SETTINGS is not read: it has to be a file of root that no other user can write to"
		return 0
		;;
	esac
	while IFS='= 	' read -r name value || [ -n "$name" ]; do
		[ "$name" != export ] || { name=${value%%=*} && value=${value#*=}; }
		case "$name $* " in
		*[!A-Z_]*" $* " | " $* ") continue ;; # a comment, or no name
		esac
		case " $* " in
		*" $name "*) ;;
		*) continue ;; # for the other script
		esac
		value=${value%"$(printf '\r')"} && value=${value%%[ 	]#*}
		value=${value#[\"\']} && value=${value%[\"\']}
		eval "[ -n \"\${$name:-}\" ] || $name=\$value" # a name of the list, and the value is not evaluated
	done <"$SETTINGS" || unread="$SETTINGS cannot be read"
}
SETTINGS=${SETTINGS:-/etc/default/gpufabric_slurm}
unread=
settings GATE NODE LOGGER MAX_DRAINED JITTER HEALTH_LIMIT
GATE=${GATE:-/etc/slurm/prolog.d/gpufabric.sh}
host=$(uname -n)
NODE=${NODE:-${SLURMD_NODENAME:-${host%%.*}}}
LOGGER=${LOGGER:-logger}
MAX_DRAINED=${MAX_DRAINED:-2} # nodes
JITTER=${JITTER:-20}          # seconds
HEALTH_LIMIT=${HEALTH_LIMIT:-10} # seconds

# fail ends the program. What it says is seen, whatever slurmd does with the output.
fail() {
	echo "gpufabric: $1" >&2
	timeout -k 1 2 "$LOGGER" -t gpufabric_check -p daemon.err "$1" >/dev/null 2>&1 </dev/null
	exit 1
}
[ -z "$unread" ] || echo "gpufabric: $unread" >&2

# What else may take time: 5 seconds to end and log the check, 18 for Slurm, 3 to log an error.
case $JITTER:$HEALTH_LIMIT in
*[!0-9:]* | 0?*:* | *:0?* | ??????*) together=no ;; # no numbers, octal ones, or more than two digits each
*) together=$((JITTER + HEALTH_LIMIT)) ;;
esac
if [ "$together" = no ] || [ "$together" -gt 30 ]; then
	wrong="JITTER=$JITTER and HEALTH_LIMIT=$HEALTH_LIMIT are not used, but 20 and 10: expected whole seconds, at most 30 together"
	echo "gpufabric: $wrong" >&2
	timeout -k 1 2 "$LOGGER" -t gpufabric_check -p daemon.err "$wrong" >/dev/null 2>&1 </dev/null
	JITTER=20 HEALTH_LIMIT=10
fi

said=$(LIMIT=$HEALTH_LIMIT "$GATE" 2>&1)
case $? in
0) exit 0 ;; # no reason to drain; the prolog has logged the rest
1) ;;
*) fail "$GATE cannot be run: $said" ;;
esac

# The first check that failed, in characters that need no quoting; else what the prolog said.
what=$(echo "$said" | sed -n 's/^FAILED *critical *//p' | head -n 1)
[ -n "$what" ] || what=$(echo "$said" | sed -n 's/^gpufabric: //p' | head -n 1)
what=$(echo "$what" | tr -s ' ' | tr -cd 'A-Za-z0-9 _.:,/()=-' | cut -c 1-120)

case $MAX_DRAINED in
*[!0-9]*) fail "not drained: MAX_DRAINED=$MAX_DRAINED: expected a whole number" ;;
esac
[ "$JITTER" -eq 0 ] || sleep $(($(od -An -N2 -tu2 /dev/urandom) % (JITTER + 1)))

# Without an answer the node is not drained: that could replace an existing reason. The next run is minutes later.
state=$(timeout -k 1 5 sinfo -h -N -n "$NODE" -o '%T %E' | head -n 1)
why=${state#* }
case ${state%% *} in
'') fail "not drained: sinfo does not know the state of $NODE" ;;
*drain*)
	[ "$why" = "Prolog error" ] || exit 0
	timeout -k 1 5 scontrol update "NodeName=$NODE" "Reason=gpufabric: $what" || fail "the reason of $NODE could not be set: $what"
	exit 0
	;;
*down* | *fail* | *maint* | *power* | *reboot*) exit 0 ;;
esac

others=$(timeout -k 1 5 sinfo -h -N -t drain -o '%N %E') || fail "not drained: sinfo does not list drained nodes: $what"
drained=$(echo "$others" | sort -u | grep -cE '^[^ ]+ (gpufabric: |Prolog error)')
[ "$drained" -lt "$MAX_DRAINED" ] || fail "not drained, because $drained nodes are (MAX_DRAINED=$MAX_DRAINED): $what"
timeout -k 1 5 scontrol update "NodeName=$NODE" State=DRAIN "Reason=gpufabric: $what" || fail "$NODE could not be drained: $what"
