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
# files. `names` has the names that have a link, `known` their links, in the same order.

l() { # a link: its ID, name if it has one, configuration
    printf '%b' "$3" >"c.$1"
    if [ -n "$named" ]; then
        printf '%b\n' "$2" >>names
        printf '%s\n' "$1" >>known
    else
        printf '%s\n' "$1" >>free
    fi
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
    [ -z "$hasher" ] || { digest=$(sha256 <"$file") && digest=sha256:${digest%% *}; }
    [ ! -f "m.$id" ] || IFS= read -r line <"m.$id"
    if [ "$digest" != - ] && [ "$line" = "$id $size $digest + $name" ]; then
        good=$((good + 1))
        return
    fi
    printf '%s\n' "$id $size $digest . $name" >"m.$id"
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
    if [ -n "$form" ] && [ "$1" != sent ]; then
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

send() { # sends the files of a batch of links
    next=
    for id in $batch; do
        IFS= read -r line <"m.$id"
        printf '%s' "$next"
        plan "c.$id" "$root${line#* * * * }"
        next="next$newline"
    done >conf
    curl -q --config conf >codes 2>/dev/null &
    curl=$!
    wait "$curl"
    curl=
    exec 5<codes
    for id in $batch; do
        code=
        IFS= read -r code <&5
        IFS= read -r line <"m.$id"
        name=${line#* * * * }
        case $code in
        20[0-9])
            rest=${line%" . $name"}
            printf '%s\n' "$rest + $name" >"m.$id"
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
    while IFS= read -r next <&4; do
        batch="$batch $next" count=$((count + 1))
        if [ "$count" -eq 25 ]; then
            send
            save >/dev/null
        fi
    done 4<queue
    send
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
