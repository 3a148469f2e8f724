set -u

warn() { printf '%s\n' "$*" >&2; }

stop() {
    warn "$*"
    exit 2
}

[ $# -le 1 ] || stop "usage: sh $0 [DIRECTORY]"
directory=${1:-.}
case $directory in
/*) ;;
*) directory=./$directory ;;
esac

# Nothing in the directory decides what runs: programs are taken from PATH without its relative
# entries and those in the directory, and see no other variables than the ones named here.

root=
! cd -P "$directory" 2>/dev/null || root=${PWD%/}/

is_outside() { # whether a directory exists, and is not in the one of the files
    (
        cd -P "$1" 2>/dev/null || exit 1
        [ -z "$root" ] || case ${PWD%/}/ in "$root"*) exit 1 ;; esac
    )
}

entries=${PATH:-}: PATH=
while [ -n "$entries" ]; do
    each=${entries%%:*} entries=${entries#*:}
    case $each in
    /*) ! is_outside "$each" || PATH=${PATH:+$PATH:}$each ;;
    esac
done
export PATH
set -f
for each in $(declare -F 2>/dev/null); do # functions that bash found in the environment
    case $each in
    -* | declare | warn | stop | is_outside) ;;
    *) unset -f "$each" ;;
    esac
done
for each in $(export -p); do # a name may be a word of some value: such a variable goes, too
    name=${each%%=*}
    case $name in
    directory | root) ;; # the script's own
    PATH | JOBS | SYSTEMROOT | http_proxy | https_proxy | HTTPS_PROXY | all_proxy | ALL_PROXY) ;;
    no_proxy | NO_PROXY | CURL_CA_BUNDLE | SSL_CERT_FILE | SSL_CERT_DIR) ;;
    "$each" | '' | [0-9]* | *[!A-Za-z0-9_]*) ;;
    *) (unset "$name") 2>/dev/null && unset "$name" ;;
    esac
done
set +f
LC_ALL=C
export LC_ALL
for each in "${CURL_CA_BUNDLE-}" "${SSL_CERT_FILE-}" "${SSL_CERT_DIR-}"; do
    case $each in
    '' | /* | [A-Za-z]:*) ;;
    *) stop "the variables of certificates need absolute paths: $each" ;;
    esac
done
command -v curl >/dev/null 2>&1 || stop "this script needs curl"

after_end() { # whether the first of the links has expired, by the clock of this machine
    expr "x$(date -u +%Y%m%d%H%M%S)" '>' "x$expires" >/dev/null
}
