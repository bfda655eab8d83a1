#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Prolog for Slurm (slurm.conf: Prolog=/etc/slurm/prolog.d/gpufabric.sh): a node on which a critical check fails gets no
# job. If a prolog ends with an exit code other than 0, slurmd drains the node and requeues the job. As an epilog
# (Epilog=) it drains the node after the job during which it failed, instead of before the next one.
#
#   check ends with                                 what happens                          the prolog ends with
#   0  nothing is wrong                             the job starts                        0
#   1  a critical check failed                      logged; the node drains               1, whatever the settings are
#   2  not everything could be judged               logged; the job starts                0, or 1 with ON_UNKNOWN=drain
#   3  wrong command line or configuration; also    logged as an error; the job starts,   0, or 1 with ON_ERROR=drain
#      no program (127), one that cannot run        because one bad push of a
#      (126), a crash (0 or 2 without verdicts,     configuration must not empty a
#      134, 139), killed (137), too slow (124),     cluster
#      others
#
# What is logged goes to the system's log (journalctl -t gpufabric_check), and to standard error, which slurmd logs only where the
# prolog fails. It asks Slurm nothing: a controller that is slow must not keep a job waiting. slurm-health.sh gives the node a reason.
PATH=/usr/sbin:/usr/bin:/sbin:/bin${PATH:+:$PATH} # slurmd gives none
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
settings CHECK CONFIG LOGGER ON_ERROR ON_UNKNOWN LIMIT
CHECK=${CHECK:-/usr/bin/gpufabric_exporter}
CONFIG=${CONFIG:-} # empty: /etc/gpufabric_exporter/config.yml, if there is one
LOGGER=${LOGGER:-logger}
ON_ERROR=${ON_ERROR:-start}     # or drain
ON_UNKNOWN=${ON_UNKNOWN:-start} # or drain
# Seconds. With those for a process that does not end and for the log it stays below MessageTimeout, which is 10 s by default: srun, which
# waits for the prolog of the first step, gives up at about twice that. A larger one needs PrologFlags=Alloc or a larger MessageTimeout.
LIMIT=${LIMIT:-5}

goes_on="the job starts"
case ${SLURM_SCRIPT_CONTEXT:-} in epilog*) goes_on="the node stays in service" ;; esac

# bounded SECONDS INPUT OUTPUT COMMAND... runs a command between two files. It returns what the command ends with, or 124 after
# that time: a process that hangs in the kernel cannot be killed, and timeout(1) would wait for it. No trap: slurmstepd blocks
# all signals that it could be told by (PrologFlags=RunInJob).
bounded() {
	seconds=$1 input=$2 output=$3
	shift 3
	{
		sleep "$seconds" &
		nap=$!
		{
			"$@" <"$input" >"$output" 2>&1 &
			echo "child $!"
			wait "$!"
			echo "ended $?"
			kill -KILL "$nap"
		} &
		wait "$nap"
		[ $? = 137 ] || echo late # if it cannot sleep, too: a limit that is no number is seen at once
	} 2>/dev/null | {
		child='' late=''
		while [ -z "$child" ] || [ -z "$late" ]; do
			read -r what value || exit 2 # no process can be started
			case $what in
			child) child=$value ;;
			late) late=yes ;;
			ended) exit "$value" ;;
			esac
		done
		kill "$child"
		sleep 1
		kill -KILL "$child"
		exit 124
	} 2>/dev/null
}

# tell PRIORITY TEXT logs the text and what check printed, which is usually a few KiB.
tell() {
	{ echo "gpufabric: $2" && head -c 65536 "$report"; } >&2
	if [ "$report" != /dev/null ] && { echo "$2" && head -c 65536 "$report"; } >"$dir/log" 2>/dev/null; then
		bounded 2 "$dir/log" /dev/null "$LOGGER" -t gpufabric_check -p "daemon.$1"
	else
		bounded 2 /dev/null /dev/null "$LOGGER" -t gpufabric_check -p "daemon.$1" "$2"
	fi
}

# finish ends the prolog. A trap on EXIT is not enough: bash also runs it in a background process that is killed early.
finish() {
	[ -z "$dir" ] || rm -rf "$dir"
	exit "$1"
}

# Where no report can be made the exit code alone decides.
dir=$(mktemp -d 2>/dev/null) && touch "$dir/report" "$dir/log" 2>/dev/null && report=$dir/report || report=/dev/null

[ -z "$unread" ] || tell err "$unread"
bounded "$LIMIT" /dev/null "$report" "$CHECK" check --severity=critical ${CONFIG:+"--config.file=$CONFIG"} --log.level=error
code=$?
why= # the error
case $code in
0) [ "$report" = /dev/null ] || [ -s "$report" ] || why="it ended with 0 and without verdicts: is $CHECK empty?" ;;
1) ;;
2) [ "$report" = /dev/null ] || grep -q ' failed, .* unknown' "$report" || grep -q 'no check applies' "$report" || why="it ended with 2 and without verdicts: it crashed" ;;
3) why="its command line or its configuration is wrong, or its report could not be written" ;;
124) why="it took more than $LIMIT seconds" ;;
126) why="$CHECK cannot be run" ;;
127) why="$CHECK is not there" ;;
*) why="it ended with $code" ;;
esac

if [ -n "$why" ]; then
	case $ON_ERROR in
	drain)
		tell err "this node could not be checked and drains (ON_ERROR=drain): $why"
		finish 1
		;;
	start) tell err "this node was not checked, and $goes_on: $why" ;;
	*) tell err "this node was not checked, and $goes_on (ON_ERROR=$ON_ERROR is neither start nor drain): $why" ;;
	esac
	finish 0
fi
case $code in
1)
	tell crit "a critical check failed, and the node drains"
	finish 1
	;;
2)
	case $ON_UNKNOWN in
	drain)
		tell warning "not everything could be checked, and the node drains (ON_UNKNOWN=drain)"
		finish 1
		;;
	start) tell warning "not everything could be checked, and $goes_on" ;;
	*) tell warning "not everything could be checked, and $goes_on (ON_UNKNOWN=$ON_UNKNOWN is neither start nor drain)" ;;
	esac
	;;
esac
finish 0
