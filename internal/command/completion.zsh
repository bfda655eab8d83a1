#compdef gpufabric_exporter
# Completion of gpufabric_exporter for zsh. In ~/.zshrc, behind compinit: source <(gpufabric_exporter --completion-script-zsh)
# Or as a file named _gpufabric_exporter in a folder of $fpath.
_gpufabric_exporter() {
    local -a found
    found=(${(f)"$("${words[1]/#\~/$HOME}" --completion-bash "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)"})
    if (( ! $#found )); then
        compset -P '*='
        _files
        return
    fi
    compadd -S '' -- ${(M)found:#*=}
    compadd -- ${found:#*=}
}
if [[ $funcstack[1] == _gpufabric_exporter ]]; then
    _gpufabric_exporter "$@"
else
    compdef _gpufabric_exporter gpufabric_exporter
fi
