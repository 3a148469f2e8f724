own="Git, lakecli or the system itself uses a file of this name"
changed="the object has changed at its source since this script was made"

jobs=${JOBS:-8}
case $jobs in
'' | 0* | *[!0-9]* | ????*) stop "JOBS is not a number from 1 to 999: $jobs" ;;
esac
[ "$jobs" -le "$total" ] || jobs=$total
[ "$jobs" -gt 0 ] || jobs=1
# All is done in the directory of unfinished files, where no object has a name, and no link is.

[ -n "$root" ] || { mkdir -p "$directory" && cd -P "$directory" && root=${PWD%/}/; } ||
    stop "cannot use the directory $directory"
[ ! -L "$root$parts" ] || stop "$parts is a symbolic link"
cd / && mkdir "$root$parts" 2>/dev/null
cd -P "$root$parts" && [ "$PWD" = "$root$parts" ] && { chmod 700 . 2>/dev/null || [ -O . ]; } &&
    find . ! -name . -prune \( ! -type f -o -links +1 \) -exec rm -rf {} + ||
    stop "cannot write into the directory $directory"
case $(uname 2>/dev/null) in
CYGWIN* | MINGW* | MSYS*) windows=yes ;;
*) windows= ;;
esac
if after_end; then
    warn "by the clock of this machine these links have expired: ask for new ones"
fi

# Checksums: BLAKE3 by the first of two programs that hashes empty input correctly. Both start in
# the root directory, so that no file near the objects chooses a version of them.

digests() { # of lines of ID, blank, name: lines of digest, two blanks, ID
    case $hasher in
    b3sum)
        while IFS= read -r line; do
            decode "${line#* }"
            { digest=$(cd / && b3sum); } <"$file" && printf '%s  %s\n' "${digest%% *}" "${line%% *}"
        done
        ;;
    python3) (cd / && exec python3 -IS -c "$python_blake3" "$root") ;;
    esac
}

decode() { # sets file, seen from the directory of unfinished files
    case $1 in
    *\\*) file=$(printf '../%bx' "$1") && file=${file%x} ;;
    *) file=../$1 ;;
    esac
}

true >w.empty
for hasher in b3sum python3 ''; do
    case $(printf 'empty %s/w.empty\n' "$parts" | digests 2>/dev/null) in
    af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262*) break ;;
    esac
done

# Every object is one call of `o`: its ID, size, checksum or -, name, URL, and its ETag if known.
# `each` takes the objects of one worker through a step; the steps are suspect, survey, plan, sift
# and place.

o() {
    number=$((number + 1))
    [ $((number % jobs)) -ne "$me" ] || "$step" "$@"
}

d() { # a directory
    [ "$step$me" != survey0 ] || {
        decode "$1/"
        why=$own
        ! is_own "$1" && make_way && good=$((good + 1)) || fail "$1" "$why"
    }
}

x() { # a name that a file cannot have here, and why
    [ "$step$me" != survey0 ] || fail "$1" "$2"
}

each() {
    step=$1 number=0
    objects
}

fail() {
    bad=$((bad + 1))
    warn "$1: $2"
}

measure() { # sets size, 0 if there is no file
    size=0
    [ ! -f "$1" ] || size=$(wc -c <"$1") || size=0
}

without() { # takes what matches a pattern out of the name, and puts another text there
    while :; do
        case $name in
        *$1*) name=${name%%$1*}$2${name#*$1} ;;
        *) return 0 ;;
        esac
    done
}

fold() { # sets name: that of a call, as a file system reads it that ignores what is not shown
    name=$1
    case $name in
    *\\0[23]*) ;;
    *) return 0 ;;
    esac
    without '\\0302\\0255' ''
    without '\\0315\\0217' ''
    without '\\0330\\0234' ''
    without '\\0341\\0205\\0237' ''
    without '\\0341\\0205\\0240' ''
    without '\\0341\\0236\\026[45]' ''
    without '\\0341\\0240\\021[3-7]' ''
    without '\\0342\\0200\\021[3-7]' ''
    without '\\0342\\0200\\025[2-6]' ''
    without '\\0342\\0201\\02[45][0-7]' ''
    without '\\0343\\0205\\0244' ''
    without '\\0357\\0270\\02[01][0-7]' ''
    without '\\0357\\0273\\0277' ''
    without '\\0357\\0276\\0240' ''
    without '\\0357\\0277\\026[0-7]' ''
    without '\\0357\\0277\\0270' ''
    without '\\0360\\0233\\0262\\024[0-3]' ''
    without '\\0360\\0235\\0205\\026[3-7]' ''
    without '\\0360\\0235\\0205\\027[0-2]' ''
    without '\\0363\\0240\\0[0-7][0-7][0-7]\\0[0-7][0-7][0-7]' ''
    without '\\0305\\0277' s
    without '\\0342\\0204\\0252' k
    without '\\0357\\0254\\020[56]' st
}

is_own() { # whether Git, lakecli or the system itself uses a name of a call
    case $1 in
    *.* | *~[1-9]*) fold "$1" && without '\\0134' / ;;
    *) return 1 ;;
    esac
    name=$name/
    while [ -n "$name" ]; do
        component=${name%%/*} name=${name#*/} component=${component%%:*}
        while :; do
            case $component in
            ?*[\ .]) component=${component%?} ;;
            *) break ;;
            esac
        done
        case $component in
        .[Gg][Ii][Tt] | [Gg][Ii][Tt]~[1-9] | .[Ll][Aa][Kk][Ee][Cc][Ll][Ii]*) return 0 ;;
        .[Ll][Aa][Kk][Ee][Ff][Ss]_[Rr][Ee][Ff].[Yy][Aa][Mm][Ll]) return 0 ;;
        [Ll][Aa][Kk][Ee][Ff][Ss]~[1-9].[Yy][Aa][Mm] | .[Dd][Ss]_[Ss][Tt][Oo][Rr][Ee]) return 0 ;;
        esac
    done
    return 1
}

make_way() { # makes the directories above the file
    rest=${file#../} path=..
    while :; do
        case $rest in
        */*) path=$path/${rest%%/*} rest=${rest#*/} ;;
        *) return 0 ;;
        esac
        [ ! -L "$path" ] || { why="a symbolic link is in the way" && return 1; }
        [ -d "$path" ] || mkdir "$path" 2>/dev/null || [ -d "$path" ] ||
            { why="its directory cannot be made" && return 1; }
    done
}

is_there() { # whether the file is a regular one of this size
    [ ! -L "$file" ] && [ -f "$file" ] && measure "$file" && [ "$size" -eq "$1" ]
}

suspect() { # prints the files that may be complete already
    [ "$3" != - ] || return
    decode "$4"
    ! is_there "$2" || printf '%s %s\n' "$1" "$4"
}

survey() { # sorts the objects into complete ones and those left to do
    ! is_own "$4" || { fail "$4" "$own" && return; }
    decode "$4"
    case $windows$file in
    yes*[\\:]*)
        fail "$4" "Windows cannot have a file of this name"
        return
        ;;
    esac
    case $3:$known in
    -:*) ! is_there "$2" || [ ! -f "$1.done" ] || { good=$((good + 1)) && return; } ;;
    *"$3  $1"*) good=$((good + 1)) && return ;;
    esac
    todo="$todo$1 "
}

plan() { # prints the configuration of curl
    case $todo in
    *" $1 "*) ;;
    *) return ;;
    esac
    measure "$1"
    if [ "$2" -eq 0 ]; then
        true >"$1"
    elif [ "$size" -ne "$2" ] && { [ "$round" -gt 1 ] || [ -z "$head" ]; }; then
        [ -n "$head" ] || printf '%s\n' fail silent globoff 'continue-at = -' 'retry = 3' \
            retry-connrefused 'connect-timeout = 30' 'speed-limit = 1' 'speed-time = 60' \
            'write-out = "%{filename_effective}:%{http_code}:%header{etag}\n"'
        head=${head:-printed}
        case $head$5 in # Google sends objects of Content-Encoding gzip decoded otherwise
        printed*[?\&]X-Goog-Signature=*)
            head=raw
            printf 'header = "Accept-Encoding: gzip"\n'
            ;;
        esac
        printf 'url = "%s"\noutput = "%s"\n' "$5" "$1"
    fi
}

refusal() { # says why a server refuses an object: it is gone or changed, or its link has expired
    case $code in
    404 | 410) why="the object is gone at its source ($code): ask for a new script" ;;
    412) why="$changed ($code): ask for a new one" ;;
    *)
        why="the server refuses it ($code)"
        if after_end; then
            why="$why: its link expired at $expires_text; ask for a new one"
        else
            why="$why, though its link is valid until $expires_text: the object is gone at \
its source, or access to it was revoked"
        fi
        ;;
    esac
}

is_other() { # whether the ETag differs from the listed one; old versions of curl show none
    case $etag in
    "" | "\"$1\"" | *[!0-9a-f\"-]*) return 1 ;;
    esac
    [ -n "$1" ]
}

sift() { # checks what has arrived, and decides what to do about the rest
    case $todo in
    *" $1 "*) ;;
    *) return ;;
    esac
    measure "$1"
    code=000 etag=
    for answer in $codes; do
        case $answer in
        "$1":*) answer=${answer#"$1":} code=${answer%%:*} etag=${answer#*:} ;;
        esac
    done
    if is_other "${6-}"; then
        rm -f "$1"
        fail "$4" "$changed: its ETag is different; ask for a new one"
        return
    fi
    if [ "$size" -eq "$2" ]; then
        full="$full$1 "
        return
    fi
    case $code in
    400 | 401 | 403 | 404 | 410 | 412)
        refusal
        fail "$4" "$why"
        return
        ;;
    20[06])
        [ "$size" -lt "$2" ] || {
            rm -f "$1"
            fail "$4" "$changed: it has more than $2 bytes; ask for a new one"
            return
        }
        ;;
    # The request was for the bytes after those that have arrived, and there are none.
    416) [ "$size" -gt "$2" ] || shorter="$shorter$1 " ;;
    esac
    case $round:$code in
    1:000)
        [ -z "$unreachable" ] || {
            fail "$4" "the server cannot be reached"
            return
        }
        ;;
    4:000) fail "$4" "the server cannot be reached" ;;
    4:*)
        case $shorter in
        *" $1 "*) fail "$4" "$changed: it has fewer than $2 bytes; ask for a new one" ;;
        *) fail "$4" "the transfer broke off (status $code)" ;;
        esac
        ;;
    # A server without ranges has to send everything again.
    3:200 | 3:416) rm -f "$1" ;;
    esac
    [ "$size" -lt "$2" ] || rm -f "$1"
    left="$left$1 "
}

place() { # verifies files and gives them their names
    case $full in
    *" $1 "*) ;;
    *) return ;;
    esac
    case $3:$hasher in
    -:*) ;;
    *:) unchecked=$((unchecked + 1)) ;;
    *) case $sums in
        *"$3  $1"*) ;;
        *)
            rm -f "$1"
            fail "$4" "the checksum is wrong: the object has changed at its source, or was \
damaged in transfer; run this again, and if that does not help ask for a new script"
            return
            ;;
        esac ;;
    esac
    decode "$4"
    why="the file cannot be written"
    if make_way && { [ ! -d "$file" ] || { why="a directory has its name" && false; }; } &&
        mv -f "$1" "$file"; then
        good=$((good + 1))
        [ "$3" != - ] || true >"$1.done"
    else
        fail "$4" "$why"
    fi
}

work() {
    me=$1 good=0 bad=0 unchecked=0 todo=' ' full=' ' shorter=' ' codes= round=0 curl=
    trap '[ -z "$curl" ] || kill "$curl" 2>/dev/null; exit 143' INT TERM HUP
    known=$(each suspect | digests)
    each survey
    unreachable=
    while [ "$round" -lt 4 ] && [ "$todo" != ' ' ]; do
        [ "$round" -lt 2 ] || sleep "$round"
        round=$((round + 1)) head=
        (umask 077 && each plan >"w$me.curl")
        if [ -s "w$me.curl" ]; then
            curl -q --config "w$me.curl" >"w$me.codes" </dev/null &
            curl=$!
            wait "$curl"
            curl=
            codes=$(cat "w$me.codes")
            # The first round requests one object only, to see whether the server answers.
            case $round$codes in
            1*:[1-9]*) ;;
            1*) unreachable=yes ;;
            esac
        fi
        left=' '
        each sift
        todo=$left
    done
    sums=
    [ -z "$hasher" ] || [ "$full" = ' ' ] || sums=$(
        for part in $full; do printf '%s %s/%s\n' "$part" "$parts" "$part"; done | digests
    )
    each place
    printf '%s %s %s\n' "$good" "$bad" "$unchecked" >"w$me.counts"
}

watch() { # reports progress on a terminal
    while sleep 5; do
        warn "$((done + $(cat w*.codes 2>/dev/null | wc -l))) of $total objects"
    done
}

done=0 all_good=0 all_bad=0 all_unchecked=0 workers= watcher=
trap 'kill $workers $watcher 2>/dev/null; wait; warn "interrupted; run it again to resume"; exit 130' \
    INT TERM HUP

run() { # downloads the objects that `objects` names now
    rm -f w*
    me=0 workers=
    while [ "$me" -lt "$jobs" ]; do
        work "$me" &
        workers="$workers $!"
        me=$((me + 1))
    done
    if [ -t 2 ]; then
        watch &
        watcher=$!
    fi
    for worker in $workers; do
        wait "$worker"
    done
    workers=
    [ -z "$watcher" ] || kill "$watcher" 2>/dev/null
    watcher= me=0
    while [ "$me" -lt "$jobs" ]; do
        good=0 bad=0 unchecked=0
        [ ! -f "w$me.counts" ] || read -r good bad unchecked <"w$me.counts"
        all_good=$((all_good + good)) all_bad=$((all_bad + bad))
        all_unchecked=$((all_unchecked + unchecked))
        me=$((me + 1))
    done
    done=$((all_good + all_bad))
}

finish() {
    rm -f w*
    [ "$all_good" -ne "$total" ] || rm -f *.done
    cd / && rmdir "$root$parts" 2>/dev/null
    printf '%s of %s objects are complete\n' "$all_good" "$total"
    if [ "$all_good" -ne "$total" ]; then
        warn "$((total - all_good)) are not; complete files are kept: run it again to resume"
        exit 1
    fi
    if [ "$all_unchecked" -gt 0 ]; then
        warn "their sizes are right, but CHECKSUMS WERE NOT VERIFIED: there is neither b3sum nor python3"
        exit 3
    fi
    exit 0
}
