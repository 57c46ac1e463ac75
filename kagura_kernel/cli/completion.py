"""`kagura-kernel completion SHELL`: what a shell has to be told once, so that it completes our words.

A shell asks `kagura-kernel __complete SHELL LINE` for what may stand at the end of a line; `completion_words` answers.
"""

from __future__ import annotations

from types import SimpleNamespace

_BASH = """\
_kagura_kernel() {
  local IFS=$'\\n' line
  COMPREPLY=()
  while IFS= read -r line; do
    if [ "$line" = ':files' ]; then compopt -o default; else COMPREPLY+=("$line"); fi
  done < <(kagura-kernel __complete bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
  case "${COMPREPLY[0]-}" in */|*=) compopt -o nospace ;; esac
}
complete -F _kagura_kernel kagura-kernel
"""

_ZSH = """\
#compdef kagura-kernel
_kagura_kernel() {
  local line
  local -a texts summaries
  for line in "${(@f)$(kagura-kernel __complete zsh "$LBUFFER" 2>/dev/null)}"; do
    if [[ $line == ':files' ]]; then _files; return; fi
    [[ -n $line ]] || continue
    texts+=("${line%%$'\\t'*}")
    summaries+=("${line%%$'\\t'*}  ${line#*$'\\t'}")
  done
  compadd -l -d summaries -a texts
}
if [ "$funcstack[1]" = "_kagura_kernel" ]; then _kagura_kernel "$@"; else compdef _kagura_kernel kagura-kernel; fi
"""

_FISH = """\
function __kagura_kernel
  for line in (kagura-kernel __complete fish (commandline -cp) 2>/dev/null)
    if test "$line" = ':files'
      __fish_complete_path (commandline -ct)
    else
      echo $line
    end
  end
end
complete -c kagura-kernel -f -a '(__kagura_kernel)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def run(arguments: SimpleNamespace) -> int:
    """Print it."""
    print(SCRIPTS[arguments.shell], end="")
    return 0
