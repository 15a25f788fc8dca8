# SPDX-License-Identifier: Apache-2.0
# tests/e2e/far_places.sh - sourced by tests of workspaces in places that only execute commands:
# `source far_places.sh BERTH WORKER`. Makes a directory, a store, and a package of the worker
# tests/fake/far_worker.py, and prints TAP. The tests install the package.
# shellcheck shell=bash disable=SC2013,SC2016,SC2034,SC2086 # words are split; single quotes are for commands and Python
berth=$(realpath "$1") worker=$(realpath "$2")
top=$(mktemp -d)
directory=$(realpath "$top")
trap 'wait; chmod -R u+rwX "$top"; rm -rf "$top"' EXIT
export BERTH_STORE=sqlite:$directory/store/berth.db XDG_RUNTIME_DIR=$directory/run
mkdir -m 700 "$XDG_RUNTIME_DIR" "$directory/store"
mkdir "$directory/home" "$directory/package" "$directory/notes"
cd "$directory/home" || exit 1
notes=$directory/notes
out=$notes/out err=$notes/err
count=0

# --- saying what was found ---

report() { # STATUS NAME
    count=$((count + 1))
    if [ "$1" = 0 ]; then echo "ok $count - $2"; else
        echo "not ok $count - $2"
        sed 's/^/# /' "$out" "$err" 2>/dev/null | head -n 40
    fi
}
# check NAME STATUS TEXT COMMAND... : the exit status, and a text in stdout or stderr.
check() {
    local name=$1 status=$2 text=$3 got
    shift 3
    "$@" >"$out" 2>"$err" </dev/null
    got=$?
    [ "$got" = "$status" ] && { [ -z "$text" ] || grep -qF -- "$text" "$out" "$err"; }
    report $? "$name (status $got, wanted $status${text:+ and: $text})"
}
holds() { # NAME COMMAND...
    local name=$1
    shift
    "$@" >"$out" 2>"$err"
    report $? "$name"
}
is() { [ "$(cat "$2" 2>/dev/null)" = "$3" ]; report $? "$1"; }
absent() { [ ! -e "$2" ] && [ ! -L "$2" ]; report $? "$1"; }

# A series is one check of many attempts. Each fault of it is a line in `faults`.
begin_series() { failures=0 successes=0; : >"$notes/faults"; }
fault() { { echo "$1"; sed 's/^/    /' "$err" | head -n 3; } >>"$notes/faults"; }
# end_series NAME FAILURES SUCCESSES : how many attempts of each kind there must be at least.
end_series() {
    [ "$failures" -ge "$2" ] || fault "only $failures attempts failed, not $2"
    [ "$successes" -ge "$3" ] || fault "only $successes attempts succeeded, not $3"
    cp "$notes/faults" "$err"
    : >"$out"
    [ ! -s "$notes/faults" ]
    report $? "$1 ($failures refused, $successes done)"
}
# attempt COMMAND... : sets `got`. A failure has to be one clear line, without the text of a script.
attempt() {
    "$@" >"$out" 2>"$err" </dev/null
    got=$?
    if [ $got = 0 ]; then
        successes=$((successes + 1))
        return
    fi
    failures=$((failures + 1))
    [ $got -le 125 ] || fault "$* ended with status $got"
    local text
    text=$(cat "$err")
    [[ "$(wc -l <"$err")" = 1 && $text = "berth: "* && ${#text} -gt 30 && ${#text} -lt 600 ]] ||
        fault "$*: not one clear line"
    ! grep -qE 'LC_ALL=C|printf %s|far_worker|shift' "$err" || fault "$*: the text of a script"
}

# --- places and workspaces ---

cp "$worker" "$directory/package/far_worker.py"
python3 - >"$directory/package/manifest.json" <<'P'
import json
print(json.dumps({
    "id": "berth.far", "apiVersion": 1, "version": "0.1.0", "displayName": "Far", "author": "berth",
    "description": "Places that only execute commands.", "categories": ["automation"],
    "capabilities": ["environment.drivers.register"], "entrypoints": {"worker": "far_worker.py"},
    "environmentDrivers": [{"driverKey": "far", "kind": "sandbox_provider", "displayName": "Far",
                            "configSchema": {"type": "object"}}]}))
P

stamps=0
# put_knobs JSON-MEMBERS : how places behave from now on.
put_knobs() {
    printf '{"stamp": "%s"%s}\n' "$stamps" "${1:+, $1}" >"$directory/package/knobs.new"
    mv "$directory/package/knobs.new" "$directory/package/knobs.json"
}
# The same, and commands are counted anew; a place that was taken away comes back.
knobs() {
    stamps=$((stamps + 1))
    put_knobs "$1"
}
honest() { knobs ''; }
environment() { "$berth" env create "$1" --provider far --config - --quiet <<<"$2" >/dev/null; }

# What a directory contains: kinds, modes, link targets, contents. The place's own files are left out.
snapshot() {
    (
        cd "$1" || exit
        find . \( -path ./.berth -o -path ./.paperclip-runtime \) -prune -o \
            -printf '%y %m %p\t%l\0' | LC_ALL=C sort -z
        find . \( -path ./.berth -o -path ./.paperclip-runtime \) -prune -o -type f -print0 |
            LC_ALL=C sort -z | xargs -0r sha256sum
    ) | tr '\0' '\n'
}
keep() { snapshot ws >"$notes/$1"; [ -s "$notes/$1" ]; } # as it is now
like() { snapshot "${2:-ws}" | cmp -s - "$notes/$1"; }

head -c 20000 /dev/urandom >"$notes/large"
# Makes the same workspace in ws/ each time: fewer files than a mass deletion has to have.
make_workspace() {
    chmod -R u+rwX ws 2>/dev/null
    rm -rf ws
    mkdir -p ws/sub/deep ws/empty
    for i in 1 2 3 4 5 6; do echo "file $i" >"ws/f$i"; done
    echo deep >ws/sub/deep/b
    cp "$notes/large" ws/large
    ln -s f1 ws/link
    chmod 750 ws/f2
}
place_of() { echo "$states"/*/places/place-"$1"/workspace; }
# take ENVIRONMENT : a lease with the workspace in its place.
take() {
    lease=$("$berth" lease acquire "$1" --quiet) && "$berth" workspace push "$lease" ws >/dev/null
    place=$(place_of "$lease")
}
give_up() { "$berth" lease destroy "$lease" --discard-work --quiet >/dev/null 2>&1; }
there() { "$berth" exec "$lease" -- sh -c "$1 #user"; }
# What the command of a run might do. No merge refuses it.
changes='echo changed > f1; echo new > n; rm f3; ln -sf f2 link; rm -r sub; mkdir made; chmod 600 f4
    head -c 9000 large > part; chmod 644 n part; chmod 755 made'

# recorded EXPRESSION : in Python, of the commands of berth since the last honest place; `all_calls`
# has those of the user, too. There has to be one.
recorded() {
    cat "$states"/*/calls >"$notes/calls"
    python3 -c 'import json, re, sys
all_calls = [c for c in map(json.loads, open(sys.argv[1])) if c["stamp"] == sys.argv[2]]
calls = [c for c in all_calls if not (c["script"] or "").endswith("#user")]
assert calls, "nothing was recorded"
parts = [c for c in calls if ".paperclip-upload.b64." in " ".join(c["arguments"])]
value = eval("(" + sys.argv[3] + ")")
assert value, json.dumps(calls, indent=1)[:3000]
print(value)' "$notes/calls" "$stamps" "$1"
}
states=$directory/store/plugin-state
