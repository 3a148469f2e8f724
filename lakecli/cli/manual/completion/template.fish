# fish completion for lakecli
# @HEADER@

# Print what may follow the words $argv[1], with summaries; fails where nothing does.
function __lakecli_words
    switch $argv[1]
@WORDS@
        case '*'
            return 1
    end
end

# Print the options of the command $argv[1], with summaries.
function __lakecli_options
    switch $argv[1]
@OPTIONS@
    end
    printf '%s\t%s\n' \
@SHARED@
end

# Print what completes the value of option $argv[2] of the command $argv[1]; fails where it
# takes none.
function __lakecli_value
    switch "$argv[1] $argv[2]"
@VALUES@
        case '*'
            return 1
    end
end

# Print what completes argument $argv[2] of the command $argv[1].
function __lakecli_argument
    switch "$argv[1] $argv[2]"
@ARGUMENTS@
        case '*'
            echo nothing
    end
end

# Print what completes $argv[2] as $argv[1] says.
function __lakecli_offer
    switch $argv[1]
        case '=*'
            string split ' ' -- (string sub --start 2 -- $argv[1])
        case file
            __fish_complete_path $argv[2]
        case directory
            __fish_complete_directories $argv[2]
        case nothing
        case '*'
            command lakecli __complete $argv[1] "$argv[2]" 2>/dev/null
    end
end

function __lakecli_complete
    set -l tokens (commandline --tokenize --cut-at-cursor --current-process)
    set -l current (commandline --current-token --cut-at-cursor)
    # Without quotes and backslashes; an unfinished quote is no part of the value.
    set -l typed (string unescape -- $current)
    set -l line ''
    set -l wanted ''
    set -l ended ''
    set -l position 1
    for word in $tokens[2..]
        if test -n "$wanted"
            set wanted ''
        else if test -n "$ended"
            set position (math $position + 1)
        else if test "$word" = --
            set ended yes
        else if string match --quiet -- '-*' $word
            if not string match --quiet -- '*=*' $word
                set wanted (__lakecli_value "$line" $word; or echo '')
            end
        else if set -l names (__lakecli_words "$line")
            # Every word but the last two stands in the tree, or there is nothing to complete.
            contains -- $word (string replace --regex '\t.*' '' -- $names); or return
            set line (string trim -- "$line $word")
        else
            set position (math $position + 1)
        end
    end
    if test -n "$wanted"
        __lakecli_offer $wanted $typed
    else if test -z "$ended"; and string match --quiet -- '--*=*' $typed
        set -l option (string split --max 1 = -- $typed)
        set -l value (__lakecli_value "$line" $option[1]); or return
        printf '%s\n' $option[1]=(__lakecli_offer $value $option[2])
    else if test -z "$ended"; and string match --quiet -- '-*' $typed
        __lakecli_options "$line"
    else if not __lakecli_words "$line"
        __lakecli_offer (__lakecli_argument "$line" $position) "$typed"
    end
end

complete --command lakecli --no-files --arguments '(__lakecli_complete)'
