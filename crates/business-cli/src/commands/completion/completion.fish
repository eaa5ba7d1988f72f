# Completes kubectl-business in fish.
function __kubectl_business
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    set -l lines ($words[1] __complete -- $words[2..-1] "$typed" 2>/dev/null)
    if test "$lines[-1]" = ":0"
        __fish_complete_path "$typed"
    else if test (count $lines) -gt 1
        printf '%s\n' $lines[1..-2]
    end
end
complete -c kubectl-business -f -a '(__kubectl_business)'
