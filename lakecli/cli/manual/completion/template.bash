# bash completion for lakecli -*- shell-script -*-
# @HEADER@

# What may follow the words $1, in REPLY.
__lakecli_words() {
    case $1 in
@WORDS@
    *) return 1 ;;
    esac
}

# The options of the command $1, in REPLY.
__lakecli_options() {
    case $1 in
@OPTIONS@
    *) REPLY= ;;
    esac
    REPLY+=' @SHARED@'
}

# What completes the value of option $2 of the command $1, in REPLY; fails where it takes none.
__lakecli_value() {
    case "$1 $2" in
@VALUES@
    *) return 1 ;;
    esac
}

# What completes argument $2 of the command $1, in REPLY.
__lakecli_argument() {
    case "$1 $2" in
@ARGUMENTS@
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

# The text $1 without its quotes and backslashes, in REPLY; in `open` the quote that is not closed.
__lakecli_unquote() {
    local text=$1 character
    REPLY= open=
    while [[ -n $text ]]; do
        character=${text:0:1} text=${text:1}
        if [[ $character == "$open" ]]; then
            open=
        elif [[ -z $open && $character == [\'\"] ]]; then
            open=$character
        elif [[ $character == '\' && $open != "'" ]] && [[ -z $open || $text == [\$\`\"\\]* ]]; then
            REPLY+=${text:0:1} text=${text:1}
        else
            REPLY+=$character
        fi
    done
}

# Fill COMPREPLY with what completes $2 as $1 says; $3 is the part before it in the same word,
# and $4 what readline takes for the word, which is what it replaces.
__lakecli_reply() {
    local kind=$1 before=$3 keep=$3$2 open='' value candidate special found=()
    local ended_quote="'\\''"
    keep=${keep%"$4"}
    __lakecli_unquote "$keep"
    keep=$REPLY
    __lakecli_unquote "$2"
    value=$REPLY
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
    [[ $kind == file || $kind == directory ]] && compopt -o filenames 2>/dev/null
    for candidate in "${found[@]}"; do
        candidate=$before$candidate
        candidate=${candidate#"$keep"}
        if [[ $kind != file && $kind != directory ]]; then
            [[ $candidate == */ || $candidate == *@ || $kind == setting && $candidate == *. ]] &&
                compopt -o nospace 2>/dev/null
            # Readline closes an open quote, and quotes nothing in it.
            case $open in
            \') candidate=${candidate//\'/$ended_quote} ;;
            \")
                for special in '\' '"' '$' '`'; do
                    candidate=${candidate//"$special"/\\$special}
                done
                ;;
            *) printf -v candidate %q "$candidate" ;;
            esac
        fi
        COMPREPLY+=("$candidate")
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
        __lakecli_reply "$value" "$word" '' "$2"
    elif [[ -z $ended && $word == --*=* ]]; then
        __lakecli_value "$command" "${word%%=*}" || return 0
        __lakecli_reply "$REPLY" "${word#*=}" "${word%%=*}=" "$2"
    elif [[ -z $ended && $word == -* ]]; then
        __lakecli_options "$command"
        COMPREPLY=($(compgen -W "$REPLY" -- "$word"))
    elif __lakecli_words "$command"; then
        COMPREPLY=($(compgen -W "$REPLY" -- "$word"))
    else
        __lakecli_argument "$command" "$position"
        __lakecli_reply "$REPLY" "$word" '' "$2"
    fi
}

complete -F _lakecli lakecli
