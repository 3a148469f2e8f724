newline='
'
[ -n "$root" ] || stop "there is no directory $directory"
[ -z "$named" ] && [ $# -eq 0 ] && stop "usage: sh $0 DIRECTORY"
if after_end; then
    warn "by the clock of this machine these links have expired: ask for a new script"
fi

# All is done in a new directory that only its owner can read. Everything that is called starts
# there, so that no file near those that are sent chooses a version of it.

umask 077
work=/tmp/lakecli-put-$$
mkdir "$work" && cd -P "$work" || stop "cannot make the directory $work"
work=$PWD
trap 'cd / && rm -rf "$work"' EXIT

sha256() { # of standard input
    case $hasher in
    sha256sum) sha256sum ;;
    shasum) shasum -a 256 ;;
    openssl) openssl dgst -sha256 -r ;;
    esac
}

for hasher in sha256sum shasum openssl ''; do
    case $(sha256 </dev/null 2>/dev/null) in
    e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855*) break ;;
    esac
done

# Files of a link, by its ID: c.ID has the configuration of curl, m.ID the line of the list of sent
# files, u.ID the URLs of parts: what they begin with, and the rest of each. `names` has the names
# that have a link, `known` their links, in the same order.

l() { # a link: its ID, name if it has one, configuration, URLs of parts
    printf '%b' "$3" >"c.$1"
    if [ -n "$named" ]; then
        printf '%b\n' "$2" >>names
        printf '%s\n' "$1" >>known
    else
        printf '%s\n' "$1" >>free
    fi
    id=$1
    shift 3
    [ $# -eq 0 ] || printf '%s\n' "$@" >"u.$id"
}

true >names && true >known && true >free && true >queue
links

code=$(printf 'url = "%s"\n' "$was_sent" |
    curl -q --config - --globoff --silent --retry 3 --output got --write-out '%{http_code}' \
        2>/dev/null)
case $code in
200)
    while IFS= read -r line; do
        id=${line%% *}
        case $id in
        '' | *[!0-9a-f]*) ;;
        *) [ ! -f "c.$id" ] || printf '%s\n' "$line" >"m.$id" ;;
        esac
    done <got
    ;;
403 | 404) ;; # nothing was sent yet; which of both, depends on the permissions of the signer
'' | 000) stop "the server cannot be reached" ;;
*) stop "the server does not answer ($code)" ;;
esac
if [ -z "$named" ]; then
    mv free all && while IFS= read -r id; do
        if [ -f "m.$id" ]; then
            IFS= read -r line <"m.$id"
            printf '%s\n' "${line#* * * * }" >>names
            printf '%s\n' "$id" >>known
        else
            printf '%s\n' "$id"
        fi
    done <all >free
fi
exec 3<free

good=0 bad=0 total_sent=0

fail() {
    bad=$((bad + 1))
    warn "$1: $2"
}

add() { # takes a link for the file of a name, unless the file was sent before
    name=$1 file=$root$1 line=
    case $name in
    *"$newline"*) fail "$name" "its name has a line break" && return ;;
    esac
    found=$(grep -n -F -x -e "$name" names)
    if [ -n "$found" ]; then
        id=$(sed -n "${found%%:*}p" known)
    elif IFS= read -r id <&3; then
        printf '%s\n' "$name" >>names
        printf '%s\n' "$id" >>known
    else
        fail "$name" "no link is left for it"
        return
    fi
    size=$(wc -c <"$file") || { fail "$name" "it cannot be read" && return; }
    size=$((size)) digest=-
    [ "$size" -le "$max_size" ] || { fail "$name" "it has more than $max_size bytes" && return; }
    [ -z "$hasher" ] || { digest=$(sha256 <"$file") && digest=sha256:${digest%% *}; } ||
        { fail "$name" "it cannot be read" && return; }
    [ ! -f "m.$id" ] || IFS= read -r line <"m.$id"
    if [ "$digest" != - ] && [ "$line" = "$id $size $digest + $name" ]; then
        good=$((good + 1))
        return
    fi
    state=.
    case $line in
    "$id "*" "[+*]" $name") state='*' ;;
    "$id $size sha256:"*" $name")
        rest=${line%" $name"}
        [ "${rest% *}" != "$id $size $digest" ] || state=${rest##* }
        ;;
    esac
    case $state in *[!0-9*]*) state=. ;; esac
    printf '%s\n' "$id $size $digest $state $name" >"m.$id"
    printf '%s\n' "$id" >>queue
}

walk() { # adds all files below a directory
    for each in "$root$1"*; do
        [ ! -L "$each" ] || continue
        if [ -d "$each" ]; then
            walk "${each#"$root"}/"
        elif [ "${each#"$root"}" = "${0##*/}" ]; then
            warn "$each: this script is not sent"
        elif [ -f "$each" ]; then
            add "${each#"$root"}"
        fi
    done
}

if [ -n "$named" ]; then
    while IFS= read -r name <&4; do
        if [ -f "$root$name" ]; then
            add "$name"
        else
            fail "$name" "there is no such file in $root"
        fi
    done 4<names
else
    walk ''
fi

case $(uname 2>/dev/null) in
MINGW* | MSYS*) windows=yes ;; # curl knows only the paths of Windows
*) windows= ;;
esac

quoted() { # a path as a value of curl's configuration
    printf '%s' "$1" | sed 's/[\\"]/\\&/g'
}

plan() { # prints the configuration of curl for a file
    printf '%s\n' fail silent globoff 'output = answer' 'retry = 3' 'connect-timeout = 30' \
        'speed-limit = 1' 'speed-time = 60' 'write-out = "%{http_code}\n"'
    cat "$1"
    path=$2
    [ -z "$windows" ] || path=$(cygpath -m "$path")
    if [ -n "$form" ] && [ "${1#c.}" != "$1" ]; then
        printf 'form = "file=@\\"%s\\""\n' "$(quoted "$(quoted "$path")")"
    else
        printf 'upload-file = "%s"\n' "$(quoted "$path")"
    fi
}

printf '%b' "$sent" >sent

save() { # sends the list of files; prints what the server answers
    cat m.* >list
    plan sent "$work/list" >list.conf
    curl -q --config list.conf 2>/dev/null
}

refusal() { # says why the server refuses something
    case $1 in
    '' | 000) why="the server cannot be reached" ;;
    *)
        why="the server refuses it ($1)"
        if after_end; then
            why="$why: the links expired at $expires_text; ask for a new script"
        fi
        ;;
    esac
}

call() { # runs curl, which the traps can end
    curl -q --config conf >codes 2>/dev/null &
    curl=$!
    wait "$curl"
    curl=
}

note() { # writes how much of the file of the link was sent
    printf '%s\n' "$rest $1 $name" >"m.$id"
}

take() { # takes the line of a link apart
    IFS= read -r line <"m.$id"
    name=${line#* * * * } rest=${line%" ${line#* * * * }"}
    state=${rest##* } rest=${rest% *}
}

send_parts() { # sends a large file in parts, those that are missing; fails if it is to be sent whole
    take
    size=${rest#* }
    size=${size% *}
    [ -f "u.$id" ] && [ "$size" -gt "$part_size" ] && [ "$state" != '*' ] || return 1
    [ "$state" != . ] || state=0
    rest_size=$((size % part_size))
    while [ $((part_size * (state + 1))) -le "$size" ]; do
        at=$((rest_size + part_size * state)) length=$part_size
        [ "$state" -gt 0 ] || at=0 length=$((rest_size + part_size)) # the first has the rest, too
        tail -c "+$((at + 1))" "$root$name" 2>/dev/null | head -c "$length" >part
        printf 'url = "%s%s"\n' "$(sed -n 1p "u.$id")" "$(sed -n "$((state + 2))p" "u.$id")" >url
        plan url "$work/part" >conf
        call
        code=
        IFS= read -r code <codes
        case $code in
        20[0-9]) ;;
        404) # its upload has ended
            note '*'
            return 1
            ;;
        *)
            refusal "$code"
            fail "$name" "$why"
            return
            ;;
        esac
        state=$((state + 1))
        note "$state"
        save >/dev/null
        [ ! -t 2 ] || warn "$name: part $state is sent"
    done
    note +
    good=$((good + 1)) total_sent=$((total_sent + 1))
}

send() { # sends the files of a batch of links
    next=
    for id in $batch; do
        IFS= read -r line <"m.$id"
        printf '%s' "$next"
        plan "c.$id" "$root${line#* * * * }"
        next="next$newline"
    done >conf
    call
    exec 5<codes
    for id in $batch; do
        code=
        IFS= read -r code <&5
        take
        case $code in
        20[0-9])
            note +
            good=$((good + 1)) total_sent=$((total_sent + 1))
            ;;
        *)
            refusal "$code"
            fail "$name" "$why"
            ;;
        esac
    done
    exec 5<&-
    batch= count=0
    [ ! -t 2 ] || warn "$total_sent files sent"
}

curl= batch= count=0
if [ -s queue ]; then
    trap '[ -z "$curl" ] || kill "$curl" 2>/dev/null; save >/dev/null
        warn "interrupted; run it again to resume"; exit 130' INT TERM HUP
    code=$(save)
    case $code in
    20[0-9]) ;;
    *) refusal "$code" && stop "cannot send: $why" ;;
    esac
    while IFS= read -r id <&4; do
        ! send_parts || continue
        batch="$batch $id" count=$((count + 1))
        if [ "$count" -eq 25 ]; then
            send
            save >/dev/null
        fi
    done 4<queue
    [ -z "$batch" ] || send
    code=$(save)
    case $code in
    20[0-9]) ;;
    *) refusal "$code" && fail "the list of files" "$why" ;;
    esac
fi
printf '%s of %s files are sent\n' "$good" "$((good + bad))"
if [ "$bad" -gt 0 ]; then
    warn "run it again to send the rest"
    exit 1
fi
if [ -z "$hasher" ]; then
    warn "CHECKSUMS WERE NOT MADE: there is neither sha256sum, shasum nor openssl"
    exit 3
fi
exit 0
