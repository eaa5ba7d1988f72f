# Completes kubectl-business in bash.
_kubectl_business() {
    local current="$2" line words lines word
    line="${COMP_LINE:0:COMP_POINT}"
    read -ra words <<< "$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    mapfile -t lines < <("${words[0]}" __complete -- "${words[@]:1}" 2>/dev/null)
    COMPREPLY=()
    ((${#lines[@]})) || return
    if [[ "${lines[-1]}" == :0 ]]; then
        compopt -o default 2>/dev/null
        return
    fi
    # bash takes `=` and `:` for the ends of words.
    word="${words[-1]}"
    [[ "$current" == "=" || "$current" == ":" ]] && current=""
    for line in "${lines[@]:0:${#lines[@]}-1}"; do
        line="${line%%$'\t'*}"
        COMPREPLY+=("${line#"${word%"$current"}"}")
    done
}
complete -F _kubectl_business kubectl-business
