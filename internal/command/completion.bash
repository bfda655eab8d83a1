# Completion of gpufabric_exporter for bash. In ~/.bashrc: source <(gpufabric_exporter --completion-script-bash)
_gpufabric_exporter() {
    local line=${COMP_LINE:0:COMP_POINT} cur keep= breaks=${COMP_WORDBREAKS//[^=:]/} word
    local -a words
    read -ra words <<<"$line"
    cur=${line##*[[:space:]]}
    [[ $cur ]] || words+=("")
    # Readline replaces only what stands behind the last = or :.
    [[ $breaks && $cur == *[$breaks]* ]] && keep=${cur%"${cur##*[$breaks]}"}
    COMPREPLY=()
    while IFS= read -r word; do
        [[ $word == *= ]] && compopt -o nospace
        COMPREPLY+=("${word#"$keep"}")
    done < <("${words[0]/#\~/$HOME}" --completion-bash "${words[@]:1}" 2>/dev/null)
}
complete -o default -F _gpufabric_exporter gpufabric_exporter
