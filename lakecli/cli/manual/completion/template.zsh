#compdef lakecli
# @HEADER@

# What may follow the words $1, in reply; fails where nothing does.
__lakecli_words() {
    case $1 in
@WORDS@
    (*) return 1 ;;
    esac
}

# The options of the command $1, in reply.
__lakecli_options() {
    case $1 in
@OPTIONS@
    (*) reply=() ;;
    esac
    reply+=(
@SHARED@
    )
}

# What completes the value of option $2 of the command $1, in REPLY; fails where it takes none.
__lakecli_value() {
    case "$1 $2" in
@VALUES@
    (*) return 1 ;;
    esac
}

# What completes argument $2 of the command $1, in REPLY.
__lakecli_argument() {
    case "$1 $2" in
@ARGUMENTS@
    (*) REPLY=nothing ;;
    esac
}

# The word before the cursor without quotes and backslashes, in REPLY.
__lakecli_typed() {
    # Within an open quote PREFIX begins behind it.
    REPLY=$compstate[quote]
    REPLY=${(Q)${:-$REPLY$PREFIX$REPLY}}
}

# Offer what completes the current word, or the part of it behind IPREFIX, as $1 says.
__lakecli_offer() {
    local -a found whole
    case $1 in
    ('='*) compadd -- ${(s: :)1#=} ;;
    (file) _files ;;
    (directory) _files -/ ;;
    (nothing) _message 'no more arguments' ;;
    (*)
        local kind=$1
        __lakecli_typed
        found=(${(f)"$(command lakecli __complete $kind "$REPLY" 2>/dev/null)"})
        local part='*[/@]'
        [[ $kind == setting ]] && part='*.'
        whole=(${found:#${~part}})
        found=(${(M)found:#${~part}})
        compadd -a whole
        compadd -S '' -a found ;;
    esac
}

_lakecli() {
    local REPLY line word wanted=
    local -a reply names
    local -i position=1 ended=0 i
    for ((i = 2; i < CURRENT; i++)); do
        word=${(Q)words[i]}
        if [[ -n $wanted ]]; then
            wanted=
        elif ((ended)); then
            position+=1
        elif [[ $word == -- ]]; then
            ended=1
        elif [[ $word == -* ]]; then
            [[ $word != *=* ]] && __lakecli_value "$line" "$word" && wanted=$REPLY
        elif __lakecli_words "$line"; then
            # Every word but the last two stands in the tree, or there is nothing to complete.
            names=(${reply%%:*})
            ((${names[(Ie)$word]})) || return 1
            line=${line:+$line }$word
        else
            position+=1
        fi
    done
    __lakecli_typed
    word=$REPLY
    if [[ -n $wanted ]]; then
        __lakecli_offer $wanted
    elif ((!ended)) && [[ $word == --*=* ]]; then
        __lakecli_value "$line" "${word%%=*}" || return 1
        compset -P '*='
        __lakecli_offer $REPLY
    elif ((!ended)) && [[ $word == -* ]]; then
        __lakecli_options "$line"
        _describe -o option reply
    elif __lakecli_words "$line"; then
        _describe command reply
    else
        __lakecli_argument "$line" $position
        __lakecli_offer $REPLY
    fi
}

# Autoloaded from $fpath this file is the function's body; sourced, it registers the function.
if [[ $funcstack[1] == _lakecli ]]; then
    _lakecli "$@"
else
    compdef _lakecli lakecli
fi
