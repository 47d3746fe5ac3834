# SPDX-License-Identifier: MIT
# Completes commands, options and values of options for the programs of the workspace in bash. All are read from the
# output of the program's --help at each completion.
#
#	source scripts/completion.bash

# Prints the options in the help text $1.
_workspace_options() {
	grep -oE '^ {2,8}(-[A-Za-z], )?--[a-z][a-z0-9-]*(, --[a-z][a-z0-9-]*)*' <<<"$1" | grep -oE -e '--[a-z][a-z0-9-]*'
}

# Prints the commands, or backends, in the help text $1 of program $2: the words that are explained before the options,
# and those in the lines of the usage.
_workspace_commands() {
	sed -E '/^ +-/,$d' <<<"$1" | grep -oE '^  [a-z][a-z-]*( [^ ]+)*  ' | grep -oE '^  [a-z-]+'
	grep -oE "^(Usage:|      )? +$2 \[?[a-z]+\]?( |$)" <<<"$1" | grep -oE '[a-z]+\]? ?$' | tr -d ']'
}

# Prints the values of option $2 in the help text $1, which has --option one|other, or (one, other; default).
_workspace_values() {
	local block
	block=$(sed -nE "/^ {2,8}(-[A-Za-z], )?$2( |$)/,/^ *-|^$/p" <<<"$1" | sed '1!{/^ *-/,$d}' | tr '\n' ' ')
	grep -oE -e '--[a-z-]+ [a-z]+(\|[a-z]+)+ ' <<<"$block" | cut -d ' ' -f 2 | tr '|' '\n'
	grep -oE '\([^();]+;' <<<"$block" | tail -1 | tr -d '(;' | sed -E 's/, | or /\n/g' | grep -xE '[a-z][a-z0-9_]*'
}

_workspace_complete() {
	local program=${COMP_WORDS[0]/#\~/$HOME} cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local name=${COMP_WORDS[0]##*/} help words= command

	COMPREPLY=()
	help=$("$program" --help 2>/dev/null) || return
	if ((COMP_CWORD == 1)); then
		words=$(_workspace_commands "$help" "$name")
	else
		for command in $(_workspace_commands "$help" "$name"); do
			[ "$command" = "${COMP_WORDS[1]}" ] || continue
			help=$("$program" "$command" --help 2>/dev/null) || return
			break
		done
	fi
	if [[ $before == --* && $cur != -* ]]; then
		words=$(_workspace_values "$help" "$before")
	elif [[ $cur == -* ]]; then
		words=$(_workspace_options "$help")
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur" | sort -u)
}

# A word for which _workspace_complete finds nothing is completed as the name of a file.
complete -o default -F _workspace_complete benchkv benchkv-sim rdmabench tentbench shmls softhca-run softhcactl
