# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# completion.bash - completes the command ddl in bash. Commands, options and their values are read from ddl's own help, so that there is
# no second list of them.

# _ddl_options COMMAND...: the options that a command's help shows
_ddl_options() {
	ddl "$@" --help 2>/dev/null | sed -n 's/^  \(-[^ ].*\)/\1/p' | cut -c 1-26 | grep -oE '(^|[ ,])--?[a-z][a-z-]*' | tr -d ' ,'
}

# _ddl_values OPTION COMMAND...: the words that the help of an option offers, if it is a list of words: "of ranks: block (default) or cyclic"
_ddl_values() {
	local option=$1
	shift
	ddl "$@" --help 2>/dev/null | sed -n "s/^  \(-n, \)\{0,1\}${option}[ =][^ ]* *//p" | sed -E 's/\([^)]*\)//g; s/.*: //; s/,? or /, /g' | tr ',' '\n' |
		awk '{ if (NF != 1) bad = 1; else words = words $1 "\n" } END { if (!bad) printf "%s", words }'
}

# _ddl_mode: MODE[,KEY=VALUE...], of which the last word is completed
_ddl_mode() {
	local done='' names
	case $1 in *,*) done=${1%,*}, ;; esac
	names=$(ddl info --alone --json 2>/dev/null | awk -v want="$([ -n "$done" ] && echo keys || echo modes)" \
		'/^  "[a-z]*": / { on = $1 == "\"" want "\":" } on && /"name": / { gsub(/[",]/, "", $2); print $2 }')
	[ -z "$done" ] || names=$(sed 's/$/=/' <<<"$names")
	mapfile -t COMPREPLY < <(compgen -P "$done" -W "$names" -- "${1##*,}")
	compopt -o nospace
}

_ddl() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} words=
	# bash makes words of its own of what is around a =
	[ "$word" != = ] || word=
	[ "$before" != = ] || before=${COMP_WORDS[COMP_CWORD - 2]}
	local -a of=("$command")
	[ "$command ${COMP_WORDS[2]}" != 'perf kernels' ] || of+=(kernels)
	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ] || { [ "$COMP_CWORD" = 2 ] && [ "$command" = help ]; }; then
		words=$(ddl help 2>/dev/null | sed -n 's/^  \([a-z]*\) .*/\1/p')
		[ "$COMP_CWORD" = 2 ] || words+=' help --version'
	elif [ "$before" = --ddl ]; then
		_ddl_mode "$word"
		return
	elif [[ $word == -* ]]; then
		words=$(_ddl_options "${of[@]}")
	elif [[ $before == --* ]]; then
		words=$(_ddl_values "$before" "${of[@]}")
	elif [ "$COMP_CWORD" = 2 ]; then
		case $command in
		perf) words=$(ddl perf --help 2>/dev/null | tr '\n' ' ' | sed 's/.*Collectives: \([a-z, ]*\)\..*/\1/; s/,/ /g')' kernels' ;;
		stat) words=$(squeue -h -t R -u "$(id -un)" -o %i 2>/dev/null) ;;
		trace) words=merge ;;
		esac
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
	[ "$command" != run ] || [[ $word == -* ]] || mapfile -t COMPREPLY < <(compgen -c -- "$word")
}
complete -o default -F _ddl ddl
