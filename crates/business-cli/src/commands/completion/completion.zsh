#compdef kubectl-business
# Completes kubectl-business in zsh.
_kubectl-business() {
    local -a lines told
    local line
    lines=("${(@f)$(${words[1]} __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ "${lines[-1]}" == :0 ]]; then
        _files
        return
    fi
    for line in "${(@)lines[1,-2]}"; do
        line="${line//:/\\:}"
        told+=("${line/$'\t'/:}")
    done
    _describe 'kubectl business' told
}
if [[ "${funcstack[1]}" == _kubectl-business ]]; then
    _kubectl-business "$@"
else
    compdef _kubectl-business kubectl-business
fi
