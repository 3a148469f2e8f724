# bash completion for lakecli -*- shell-script -*-
# Written by `python -m lakecli.cli.generate` from the command tree; do not edit.

# What may follow the words $1, in REPLY.
__lakecli_words() {
    case $1 in
    '') REPLY='completion config version' ;;
    'config') REPLY='get list set unset' ;;
    *) return 1 ;;
    esac
}

# The options of the command $1, in REPLY.
__lakecli_options() {
    case $1 in
    'completion') REPLY='' ;;
    'config get') REPLY='' ;;
    'config list') REPLY='--show-origin' ;;
    'config set') REPLY='' ;;
    'config unset') REPLY='' ;;
    'version') REPLY='' ;;
    *) REPLY= ;;
    esac
    REPLY+=' --base-uri --config -h --help --json --no-color -q --quiet --verbose'
}

# What completes the value of option $2 of the command $1, in REPLY; fails where it takes none.
__lakecli_value() {
    case "$1 $2" in
    *' --base-uri') REPLY='nothing' ;;
    *' --config') REPLY='file' ;;
    *) return 1 ;;
    esac
}

# What completes argument $2 of the command $1, in REPLY.
__lakecli_argument() {
    case "$1 $2" in
    'completion 1') REPLY='=bash zsh fish' ;;
    'config get 1') REPLY='=user.name user.email base_uri cache.size transfer.parallelism presign.expires' ;;
    'config set 1') REPLY='=user.name user.email base_uri cache.size transfer.parallelism presign.expires' ;;
    'config set 2') REPLY='nothing' ;;
    'config unset 1') REPLY='=user.name user.email base_uri cache.size transfer.parallelism presign.expires' ;;
    *) REPLY=nothing ;;
    esac
}

# The words up to the cursor, in the caller's `words`, as they were typed: pieces of COMP_WORDS
# with no blank between them in the line are one word.
__lakecli_reassemble() {
    local line=${COMP_LINE:0:COMP_POINT} piece rest i count=0
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        rest=${line#"${line%%[![:space:]]*}"}
        piece=${COMP_WORDS[i]}
        ((i == COMP_CWORD)) && piece=$rest
        if ((i > 0)) && [[ $rest == "$line" ]]; then
            words[count - 1]+=$piece
        else
            words[count]=$piece
            count=$((count + 1))
        fi
        line=${rest#"$piece"}
    done
}

# Fill COMPREPLY with what completes $2 as $1 says; $3 is the part before it in the same word.
__lakecli_reply() {
    local kind=$1 value=$2 before=$3 quote='' keep='' breaks candidate found=()
    case $value in
    [\'\"]*) quote=${value:0:1} value=${value:1} before='' ;;
    *) value=${value//\\/} ;;
    esac
    while IFS= read -r candidate; do
        [[ $candidate == "$value"* ]] && found+=("$candidate")
    done < <(
        case $kind in
        =*) compgen -W "${kind#=}" -- "$value" ;;
        file) compgen -f -- "$value" ;;
        directory) compgen -d -- "$value" ;;
        nothing) ;;
        *) command lakecli __complete "$kind" "$value" 2>/dev/null ;;
        esac
    )
    # Readline keeps what stands before the last word break, unless the word is quoted.
    breaks=${COMP_WORDBREAKS//[[:space:]\"\']/}
    if [[ -z $quote && -n $breaks ]]; then
        keep=$before$2
        keep=${keep%"${keep##*["$breaks"]}"}
    fi
    [[ $kind == file || $kind == directory ]] && compopt -o filenames 2>/dev/null
    for candidate in "${found[@]}"; do
        if [[ $kind != file && $kind != directory ]]; then
            [[ $candidate == */ ]] && compopt -o nospace 2>/dev/null
            [[ -z $quote ]] && printf -v candidate %q "$candidate"
        fi
        candidate=$before$candidate
        COMPREPLY+=("${candidate#"$keep"}")
    done
}

_lakecli() {
    local IFS=$' \t\n' words=() command='' value='' position=1 ended='' i word REPLY
    COMPREPLY=()
    __lakecli_reassemble
    local last=$((${#words[@]} - 1))
    for ((i = 1; i < last; i++)); do
        word=${words[i]}
        if [[ -n $value ]]; then
            value=
        elif [[ -n $ended ]]; then
            position=$((position + 1))
        elif [[ $word == -- ]]; then
            ended=yes
        elif [[ $word == -* ]]; then
            [[ $word != *=* ]] && __lakecli_value "$command" "$word" && value=$REPLY
        elif __lakecli_words "$command"; then
            # Every word but the last two stands in the tree, or there is nothing to complete.
            [[ " $REPLY " == *" $word "* ]] || return 0
            command=${command:+$command }$word
        else
            position=$((position + 1))
        fi
    done
    word=${words[last]}
    if [[ -n $value ]]; then
        __lakecli_reply "$value" "$word" ''
    elif [[ -z $ended && $word == --*=* ]]; then
        __lakecli_value "$command" "${word%%=*}" || return 0
        __lakecli_reply "$REPLY" "${word#*=}" "${word%%=*}="
    elif [[ -z $ended && $word == -* ]]; then
        __lakecli_options "$command"
        COMPREPLY=($(compgen -W "$REPLY" -- "$word"))
    elif __lakecli_words "$command"; then
        COMPREPLY=($(compgen -W "$REPLY" -- "$word"))
    else
        __lakecli_argument "$command" "$position"
        __lakecli_reply "$REPLY" "$word" ''
    fi
}

complete -F _lakecli lakecli
