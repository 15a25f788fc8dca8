#!/usr/bin/env -S python3 -IS
# SPDX-License-Identifier: Apache-2.0
# tests/fake/far_worker.py - a worker that can only execute commands, as most providers do: no
# streams, no standard input. With the file `carries` in its package it moves files, too. Its places
# are directories in its state. The file manifest.json of its package is made by the test.
#
# The environment's config says how the places behave. The file `knobs.json` of the package replaces
# members of it, and is read before each command, so that one place can change its behaviour:
#
#   record          true: a line in the file `calls` of the state for each command
#   stamp           a word; commands are counted anew when it changes, and a place that
#                   `replaceAfter` has taken away comes back
#   shellCommand    the shell that the place names in its metadata
#   workspace       the directory that realize answers, below the place's own; it is not made
#   without         programs that are not in PATH
#   tools           {NAME: SCRIPT}: what runs instead of a program
#   archive         a file: what tar says is in the workspace
#   argBytesMax     the largest argument of a command, in bytes
#   argvBytesMax    the largest argv, in bytes
#   refuseAs        how a larger one is refused: "status" (126) or "error" (the call fails)
#   outputBytesMax  stdout is cut there, and the answer does not say so
#   replaceAfter    after so many commands, the workspace is a new, empty directory
#   diskFullAfter   after so many commands, nothing can be written to a file
#   holdAt          this command is executed and never answered; `holding-STAMP` in the state says so
#   delayMs         the time that each command takes longer
#   carryAs         what is wrong when files are moved: "error", "die", or what arrives instead of the
#                   file: "nothing", "other", "short", "long", "link", "pipe", "directory", "holes"
#   carryWrong      "in" or "out": carryAs is for files to the place or from it, only
import errno
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

PACKAGE = os.path.dirname(os.path.abspath(__file__))
STATE = os.environ["BERTH_PLUGIN_STATE"]
PLACES = STATE + "/places"

# What a place with a PATH of its own has. The shell has more, such as `test` and `printf`.
PROGRAMS = """
    awk basename base64 bash cat chmod cmp cp cut date dirname env expr find git grep head id kill ln ls
    mkdir mkfifo mv nproc od perl python3 readlink rm rmdir sed sh sha256sum sleep sort stat tail tar
    touch tr uname wc xargs zstd
""".split()

out_lock = threading.Lock()


class Refusal(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


# --- lines ---


def say(**message):
    line = json.dumps(dict(message, jsonrpc="2.0")).encode() + b"\n"
    with out_lock:
        view = memoryview(line)
        while view:
            view = view[os.write(1, view[: 1 << 20]) :]


def append(name, data):
    """Appends to a file of the state, and returns its length."""
    fd = os.open(STATE + "/" + name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, data)
    size = os.fstat(fd).st_size
    os.close(fd)
    return size


def knobs_of(params):
    knobs = dict(params.get("config") or {})
    try:
        with open(PACKAGE + "/knobs.json", encoding="utf-8") as f:
            knobs.update(json.load(f))
    except FileNotFoundError:
        pass
    return knobs


# --- places ---


def place_of(place_id):
    return PLACES + "/" + place_id.replace("/", "-")


def lease(place_id, knobs):
    metadata = {"provider": "far", "remoteCwd": place_of(place_id) + "/workspace"}
    if "shellCommand" in knobs:
        metadata["shellCommand"] = knobs["shellCommand"]
    return {"providerLeaseId": place_id, "metadata": metadata}


def acquire(params):
    label = params.get("leaseId") or params["runId"]
    place_id = "place-" + label
    os.makedirs(place_of(place_id) + "/workspace", exist_ok=True)
    with open(place_of(place_id) + "/label", "w", encoding="utf-8") as f:
        json.dump({"leaseId": label, "environmentId": params["environmentId"]}, f)
    return lease(place_id, knobs_of(params))


def resume(params):
    there = os.path.isdir(place_of(params["providerLeaseId"]))
    return lease(params["providerLeaseId"], knobs_of(params)) if there else {"providerLeaseId": None}


def destroy(params):
    if params["providerLeaseId"]:
        shutil.rmtree(place_of(params["providerLeaseId"]), ignore_errors=True)


def release(params):
    if not params["config"].get("reuseLease"):
        destroy(params)


def find(params):
    leases = []
    for name in os.listdir(PLACES):
        with open(PLACES + "/" + name + "/label", encoding="utf-8") as f:
            label = json.load(f)
        if label["environmentId"] == params["environmentId"]:
            leases.append({"leaseId": label["leaseId"], "providerLeaseId": name})
    return {"leases": leases}


def realize(params):
    base = params["lease"]["metadata"]["remoteCwd"]
    inner = knobs_of(params).get("workspace")
    return {"cwd": base + "/" + inner if inner else base}


def replace(place, stamp):
    """Takes the workspace away until the stamp changes, and puts an empty one there."""
    os.rename(place + "/workspace", place + "/away-" + stamp)
    os.mkdir(place + "/workspace")


def bring_back(place, stamp):
    for name in os.listdir(place):
        if name.startswith("away-") and name != "away-" + stamp:
            shutil.rmtree(place + "/workspace", ignore_errors=True)
            os.rename(place + "/" + name, place + "/workspace")


# --- commands ---


def programs(knobs):
    """Returns a directory that has the programs of this machine, as far as the place has them."""
    without, tools = knobs.get("without") or [], dict(knobs.get("tools") or {})
    if "archive" in knobs:
        tools["tar"] = 'case "$*" in *-cf*) exec cat "%s" ;; esac; exec /usr/bin/tar "$@"' % (
            PACKAGE + "/" + knobs["archive"]
        )
    if not without and not tools:
        return "/usr/bin:/bin"
    key = hashlib.sha256(json.dumps([without, tools], sort_keys=True).encode()).hexdigest()[:16]
    made = STATE + "/bin-" + key
    if os.path.isdir(made):
        return made
    fresh = "%s-%d-%d" % (made, os.getpid(), threading.get_ident())
    os.mkdir(fresh)
    for name in PROGRAMS:
        path = shutil.which(name, path="/usr/bin:/bin")
        if path and name not in without and name not in tools:
            os.symlink(path, fresh + "/" + name)
    for name, script in tools.items():
        with open(fresh + "/" + name, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n" + script + "\n")
        os.chmod(fresh + "/" + name, 0o755)
    os.rename(fresh, made)
    return made


def check_size(argv, knobs):
    sizes = [len(a.encode()) + 1 for a in argv]
    if max(sizes) <= knobs.get("argBytesMax", 1 << 30) and sum(sizes) <= knobs.get(
        "argvBytesMax", 1 << 30
    ):
        return None
    if knobs.get("refuseAs") == "error":
        raise Refusal(-32002, "spawn E2BIG: the argument list is too long")
    return {
        "exitCode": 126,
        "signal": None,
        "timedOut": False,
        "stdout": "",
        "stderr": argv[0] + ": Argument list too long\n",
    }


def spawn(params, argv, knobs, full):
    env = dict(params.get("env") or {})
    env.setdefault("PATH", programs(knobs))
    env.setdefault("HOME", STATE)

    def prepare():
        os.umask(0o077)
        if full:  # writes fail with EFBIG, which tools treat as they treat ENOSPC
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    stdin = params.get("stdin")
    program = shutil.which(argv[0], path=env["PATH"]) or argv[0]
    process = subprocess.Popen(
        [program] + argv[1:],
        cwd=params.get("cwd") or params["lease"]["metadata"]["remoteCwd"],
        env=env,
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=prepare,
    )
    limit = params.get("timeoutMs") or 300000
    try:
        out, err = process.communicate(stdin and stdin.encode(), timeout=limit / 1000)
        timed_out = False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        timed_out = True
    status = process.returncode
    return {
        "exitCode": status if status >= 0 else None,
        "signal": signal.Signals(-status).name if status < 0 else None,
        "timedOut": timed_out,
        "stdout": out[: knobs.get("outputBytesMax", len(out))].decode(errors="replace"),
        "stderr": err.decode(errors="replace"),
    }


def record(params, stamp, number, answer):
    args = params.get("args") or []
    line = {
        "stamp": stamp,
        "number": number,
        "command": params["command"],
        "option": args[0] if args else None,
        "script": args[1] if len(args) > 1 else None,
        "arguments": [a if len(a) < 300 else a[:64] for a in args[2:]],
        "argumentBytes": [len(a.encode()) for a in args],
        "cwd": params.get("cwd"),
        "hasStdin": "stdin" in params,
        "timeoutMs": params.get("timeoutMs"),
        "exitCode": answer and answer["exitCode"],
        "stdoutBytes": answer and len(answer["stdout"]),
    }
    append("calls", json.dumps(line).encode() + b"\n")


def execute(params):
    knobs = knobs_of(params)
    stamp = str(knobs.get("stamp", "none"))
    place = place_of(params["lease"]["providerLeaseId"])
    number = append("count-" + stamp, b".")
    bring_back(place, stamp)
    if number == knobs.get("replaceAfter", -1) + 1:
        replace(place, stamp)
    if knobs.get("delayMs"):
        time.sleep(knobs["delayMs"] / 1000)
    argv = [params["command"]] + (params.get("args") or [])
    full = number > knobs.get("diskFullAfter", number)
    answer = None
    try:
        answer = check_size(argv, knobs) or spawn(params, argv, knobs, full)
    except FileNotFoundError:
        raise Refusal(-32002, "spawn " + params["command"] + " ENOENT")
    except OSError as e:
        raise Refusal(-32002, "spawn " + errno.errorcode[e.errno])
    finally:
        if knobs.get("record"):
            record(params, stamp, number, answer)
    if number == knobs.get("holdAt"):
        append("holding-" + stamp, b".")
        time.sleep(3600)
    return answer


# --- files ---


def spoil(way, path):
    """Puts something else in the place of the file."""
    with open(path, "rb") as f:
        data = f.read()
    os.unlink(path)
    if way == "other":
        data = bytes(b ^ 1 for b in data)
    elif way == "short":
        data = data[:-1]
    elif way == "long":
        data += b"x"
    elif way == "link":
        os.symlink(PACKAGE + "/manifest.json", path)
    elif way == "pipe":
        os.mkfifo(path)
    elif way == "directory":
        os.mkdir(path)
    if way in ("other", "short", "long", "holes"):
        with open(path, "wb") as f:
            f.write(data) if way != "holes" else f.truncate(1 << 40)


def move(params, inward):
    knobs = knobs_of(params)
    stamp = str(knobs.get("stamp", "none"))
    way = knobs.get("carryAs")
    if knobs.get("carryWrong", "in" if inward else "out") != ("in" if inward else "out"):
        way = None
    bring_back(place_of(params["lease"]["providerLeaseId"]), stamp)
    answers = []
    for operation in params["operations"]:
        for file in operation["files"]:
            source, target = file["sourcePath"], file["targetPath"]
            line = {"stamp": stamp, "inward": inward, "kind": file["kind"], "source": source,
                    "target": target, "bytes": os.path.getsize(source)}
            append("carried", json.dumps(line).encode() + b"\n")
            if way == "error":
                raise Refusal(-32002, "the bucket does not answer")
            if way == "die":
                os._exit(7)
            if way != "nothing":
                shutil.copyfile(source, target)
            if way not in (None, "nothing"):
                spoil(way, target)
        answers.append({"operationId": operation["operationId"], "filesTransferred": 1,
                        "bytesTransferred": 1})
    return {"operations": answers}


METHODS = {
    "shutdown": lambda params: None,
    "health": lambda params: {"status": "ok"},
    "configChanged": lambda params: None,
    "environmentValidateConfig": lambda params: {"ok": True, "normalizedConfig": params["config"]},
    "environmentProbe": lambda params: {"ok": True, "summary": "well"},
    "environmentAcquireLease": acquire,
    "environmentResumeLease": resume,
    "environmentReleaseLease": release,
    "environmentDestroyLease": destroy,
    "environmentRealizeWorkspace": realize,
    "environmentExecute": execute,
    "environmentFindLeases": find,
}
if os.path.exists(PACKAGE + "/carries"):
    METHODS["environmentSyncIn"] = lambda params: move(params, True)
    METHODS["environmentSyncOut"] = lambda params: move(params, False)
METHODS["initialize"] = lambda params: {"ok": True, "supportedMethods": list(METHODS)}


def answer_request(m):
    try:
        if m["method"] not in METHODS:
            raise Refusal(-32601, "Unknown method: " + m["method"])
        say(id=m["id"], result=METHODS[m["method"]](m.get("params") or {}))
    except Refusal as e:
        say(id=m["id"], error={"code": e.code, "message": str(e)})
    except Exception as e:  # an error of ours must not look like one of the place
        say(id=m["id"], error={"code": -32603, "message": "far_worker.py: %r" % e})
    if m["method"] == "shutdown":
        os._exit(0)


def main():
    os.makedirs(PLACES, exist_ok=True)
    while True:
        line = sys.stdin.buffer.readline()
        if not line:
            os._exit(0)
        m = json.loads(line)
        if "method" not in m or "id" not in m:
            continue
        if m["method"] == "environmentExecute":
            threading.Thread(target=answer_request, args=(m,), daemon=True).start()
        else:
            answer_request(m)


main()
