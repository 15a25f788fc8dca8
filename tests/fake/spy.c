/* SPDX-License-Identifier: Apache-2.0
 * tests/fake/spy.c - see spy.h. */
#include "spy.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/id.h"
#include "base/json.h"
#include "os/fs.h"

#define CALLS_MAX 1000
#define FILE_BYTES_MAX (16 * 1024 * 1024)

struct spy {
    struct berth_workers base;
    pthread_mutex_t lock;
    struct spy_call calls[CALLS_MAX]; /* the texts are ours */
    int count;
    struct berth_json *script; /* method -> {"from":calls before it was set,"acts":[...]} */
    struct berth_json *start;
    char *key, *lease_id; /* what it has heard of */
    bool finds;
    int looks, run_from;
    bool process;
    char *package, *state; /* its directories */
    size_t read_bytes;     /* of its file */
};

/* What is wrong here is wrong with the test, and a thread of the runtime may be the one to see it.
 */
static void check(bool fine, const char *what)
{
    if (fine)
        return;
    (void)fprintf(stderr, "spy: %s\n", what);
    abort();
}

static char *in(const char *directory, const char *name)
{
    char *path = NULL;
    check(asprintf(&path, "%s/%s", directory, name) > 0, "no memory");
    return path;
}

static struct berth_json *parse(const char *text, size_t len)
{
    struct berth_json *value = NULL;
    struct berth_error err;
    if (berth_json_parse(text, len, BERTH_JSON_FRAME, &value, &err) < 0) {
        (void)fprintf(stderr, "spy: %.*s\n", (int)len, text);
        check(false, err.message);
    }
    return value;
}

/* --- the process --- */

/* Every request is a line of calls.jsonl before it is answered, so the test finds it there. */
static const char program[] =
    "#!/usr/bin/env python3\n"
    "import json, os, re, sys, time\n"
    "here, state = os.path.dirname(os.path.abspath(__file__)), os.environ['BERTH_PLUGIN_STATE']\n"
    "calls = os.path.join(state, 'calls.jsonl')\n"
    "uuid = re.compile('[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')\n"
    "\n"
    "def send(text):\n"
    "    sys.stdout.write(text + '\\n')\n"
    "    sys.stdout.flush()\n"
    "\n"
    "def say(**message):\n"
    "    send(json.dumps({'jsonrpc': '2.0', **message}))\n"
    "\n"
    "def script():\n"
    "    with open(os.path.join(here, 'script.json')) as f:\n"
    "        return json.load(f)\n"
    "\n"
    "def heard():\n"
    "    if not os.path.exists(calls):\n"
    "        return []\n"
    "    with open(calls) as f:\n"
    "        return [json.loads(line) for line in f]\n"
    "\n"
    "def fill(act, told):\n"
    "    key = lease = ''\n"
    "    for call in told:\n"
    "        given = call['params'].get('config', {}).get('apiKey', '')\n"
    "        key = given if given and not uuid.fullmatch(given) else key\n"
    "        lease = call['params'].get('leaseId', lease)\n"
    "    words = json.dumps(act)\n"
    "    for name, value in (('$KEY', key), ('$LEASE', lease)):\n"
    "        words = words.replace(name, json.dumps(value)[1:-1])\n"
    "    return json.loads(words)\n"
    "\n"
    "def do(act, params={}, invocation=None):\n"
    "    time.sleep(act.get('pauseMs', 0) / 1000)\n"
    "    if 'stderr' in act:\n"
    "        print(act['stderr'], file=sys.stderr, flush=True)\n"
    "    if 'dump' in act:\n"
    "        print(json.dumps(params), file=sys.stderr, flush=True)\n"
    "    if 'log' in act:\n"
    "        say(method='log', params={'level': 'info', 'message': act['log']})\n"
    "    if 'noise' in act:\n"
    "        send(act['noise'])\n"
    "    if 'stream' in act:\n"
    "        say(method='execute.log', params={'stream': 'stdout', 'chunk': act['stream']},\n"
    "            paperclipInvocationId=invocation)\n"
    "    if 'exit' in act:\n"
    "        os._exit(act['exit'])\n"
    "\n"
    "def act_for(request):\n"
    "    before = heard()\n"
    "    method, params = request['method'], request.get('params', {})\n"
    "    call = {'plugin': os.environ['PAPERCLIP_PLUGIN_ID'], 'method': method, 'params': params}\n"
    "    with open(calls, 'a') as f:\n"
    "        f.write(json.dumps(call) + '\\n')\n"
    "    entry = script()['script'].get(method)\n"
    "    if entry is None:\n"
    "        return {'error': {'code': -32601, 'message': 'Method not found: ' + method}}\n"
    "    at = sum(call['method'] == method for call in before) - entry['from']\n"
    "    return fill(entry['acts'][min(at, len(entry['acts']) - 1)], before + [call])\n"
    "\n"
    "for line in sys.stdin:\n"
    "    request = json.loads(line)\n"
    "    if request['method'] == 'initialize':\n"
    "        do(script()['start'])\n"
    "        say(id=request['id'], result={'ok': True, 'supportedMethods': script()['methods']})\n"
    "    elif request['method'] == 'shutdown':\n"
    "        say(id=request['id'], result=None)\n"
    "        sys.exit(0)\n"
    "    elif not request['method'].startswith('environment'):\n"
    "        say(id=request['id'], result={})\n"
    "    else:\n"
    "        act = act_for(request)\n"
    "        do(act, request['params'], request.get('paperclipInvocation', {}).get('id'))\n"
    "        if 'error' in act:\n"
    "            say(id=request['id'], error=act['error'])\n"
    "        elif 'result' in act:\n"
    "            say(id=request['id'], result=act['result'])\n";

/* Replaces the file in one step, since the worker may be reading it. */
static void write_file(const char *directory, const char *name, const char *text, mode_t mode)
{
    struct berth_error err;
    auto_free char *path = in(directory, name), *next = in(directory, "next");
    auto_close int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    check(fd >= 0 && berth_fs_write_all(fd, text, strlen(text), &err) == BERTH_OK &&
              fchmod(fd, mode) == 0 && rename(next, path) == 0,
          "cannot write a file of the package");
}

/* Lock held. */
static void write_script(struct spy *s)
{
    if (!s->package || !s->process)
        return;
    auto_free char *script = berth_json_canonical(s->script);
    auto_free char *start = berth_json_canonical(s->start);
    auto_free char *text = NULL;
    check(script && start &&
              asprintf(&text, "{\"methods\":[%s],\"script\":%s,\"start\":%s}",
                       s->finds ? "\"environmentFindLeases\"" : "", script, start) > 0,
          "no memory");
    write_file(s->package, "script.json", text, 0644);
}

/* Lock held. */
static void keep_call(struct spy *s, const char *plugin_id, const char *method, char *params_json,
                      int64_t timeout_ms)
{
    check(s->count < CALLS_MAX && params_json, "too many calls, or no memory");
    s->calls[s->count++] = (struct spy_call){.plugin_id = strdup(plugin_id),
                                             .method = strdup(method),
                                             .params_json = params_json,
                                             .timeout_ms = timeout_ms};
}

/* Lock held. What the process has written down since the last look. */
static void read_calls(struct spy *s)
{
    struct berth_error err;
    if (!s->state)
        return;
    auto_free char *path = in(s->state, "calls.jsonl");
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return; /* nothing yet */
    auto_buf text = BERTH_BUF_INIT(FILE_BYTES_MAX);
    check(berth_fs_read_all(fd, &text, &err) == BERTH_OK, "cannot read what was written down");
    const char *at = berth_buf_str(&text) + s->read_bytes;
    for (const char *end; (end = strchr(at, '\n')); at = end + 1) {
        auto_json *call = parse(at, (size_t)(end - at));
        keep_call(s, berth_json_str(berth_json_get(call, "plugin")),
                  berth_json_str(berth_json_get(call, "method")),
                  berth_json_canonical(berth_json_get(call, "params")), -1);
        s->read_bytes += (size_t)(end + 1 - at);
    }
}

/* --- struct berth_workers --- */

static struct spy *spy_of(struct berth_workers *workers)
{
    return (struct spy *)(void *)workers;
}

static bool is_running(struct berth_workers *workers, const char *plugin_id)
{
    struct spy *s = spy_of(workers);
    (void)plugin_id;
    pthread_mutex_lock(&s->lock);
    s->looks++;
    bool running = s->run_from && s->looks >= s->run_from;
    pthread_mutex_unlock(&s->lock);
    return running;
}

static bool supports(struct berth_workers *workers, const char *plugin_id, const char *method)
{
    struct spy *s = spy_of(workers);
    (void)plugin_id;
    pthread_mutex_lock(&s->lock);
    bool has = strcmp(method, "environmentFindLeases") != 0 || s->finds;
    pthread_mutex_unlock(&s->lock);
    return has;
}

/* Lock held. The number of calls of that method, or of all. */
static int count_calls(const struct spy *s, const char *method)
{
    int count = 0;
    for (int i = 0; i < s->count; i++)
        count += !method || strcmp(s->calls[i].method, method) == 0;
    return count;
}

static void remember(char **kept, const char *text)
{
    if (!text || !*text)
        return;
    free(*kept);
    *kept = strdup(text);
}

/* Lock held. */
static void listen(struct spy *s, const char *params_json)
{
    auto_json *params = parse(params_json, strlen(params_json));
    const char *key = berth_json_str(berth_json_get(berth_json_get(params, "config"), "apiKey"));
    remember(&s->lease_id, berth_json_str(berth_json_get(params, "leaseId")));
    if (key && !berth_id_valid(key))
        remember(&s->key, key);
}

/* The text with every `name` in it replaced; the caller's. */
static char *replace(const char *text, const char *name, const char *value)
{
    struct berth_buf out = BERTH_BUF_INIT(FILE_BYTES_MAX);
    auto_json *json = berth_json_new_str(value ? value : "");
    auto_free char *quoted = berth_json_canonical(json);
    check(quoted != NULL, "no memory");
    for (const char *found; (found = strstr(text, name)); text = found + strlen(name)) {
        berth_buf_append(&out, text, (size_t)(found - text));
        berth_buf_append(&out, quoted + 1, strlen(quoted) - 2);
    }
    berth_buf_puts(&out, text);
    return berth_buf_take(&out);
}

/* Lock held; the call is written down. The caller's; NULL: it has no such method. */
static struct berth_json *next_act(struct spy *s, const char *method)
{
    const struct berth_json *entry = berth_json_get(s->script, method);
    const struct berth_json *acts = berth_json_get(entry, "acts");
    if (!acts)
        return NULL;
    size_t count = berth_json_count(acts);
    size_t at =
        (size_t)(count_calls(s, method) - 1 - (int)berth_json_int(berth_json_get(entry, "from")));
    auto_free char *text = berth_json_canonical(berth_json_at(acts, at < count ? at : count - 1));
    auto_free char *with_key = replace(text, "$KEY", s->key);
    auto_free char *whole = replace(with_key, "$LEASE", s->lease_id);
    return parse(whole, strlen(whole));
}

static void answer(const struct berth_worker_call *call, const struct berth_json *act)
{
    char text[256] = "Method not found";
    const struct berth_json *error = berth_json_get(act, "error");
    const char *words = berth_json_str(berth_json_get(error, "message"));
    struct berth_reply reply = {
        .kind = BERTH_REPLY_ERROR, .code = BERTH_RPC_NO_METHOD, .text = text};
    if (error) {
        reply.code = berth_json_int(berth_json_get(error, "code"));
        reply.text = words ? words : "";
    } else if (berth_json_true(berth_json_get(act, "lost"))) {
        reply = (struct berth_reply){
            .kind = BERTH_REPLY_TIMEOUT, .code = BERTH_RPC_TIMEOUT, .text = text};
        (void)snprintf(text, sizeof text, "RPC call \"%s\" timed out", call->method);
    } else if (berth_json_get(act, "exit")) {
        reply = (struct berth_reply){
            .kind = BERTH_REPLY_GONE, .code = BERTH_RPC_UNAVAILABLE, .text = text};
        (void)snprintf(text, sizeof text, "Worker process exited (code=%lld, signal=null)",
                       (long long)berth_json_int(berth_json_get(act, "exit")));
    } else if (act) {
        reply = (struct berth_reply){.kind = BERTH_REPLY_RESULT,
                                     .result = berth_json_get(act, "result")};
        check(reply.result != NULL, "an act without a result");
    }
    call->on_reply(call->ctx, &reply);
    if (reply.kind != BERTH_REPLY_TIMEOUT || !call->on_late)
        return;
    const struct berth_json *late = berth_json_get(act, "result");
    reply = (struct berth_reply){
        .kind = late ? BERTH_REPLY_RESULT : BERTH_REPLY_GONE, .result = late, .text = text};
    call->on_late(call->ctx, &reply);
}

static void call(struct berth_workers *workers, const struct berth_worker_call *what)
{
    struct spy *s = spy_of(workers);
    pthread_mutex_lock(&s->lock);
    keep_call(s, what->plugin_id, what->method, strdup(what->params_json), what->timeout_ms);
    listen(s, what->params_json);
    auto_json *act = next_act(s, what->method);
    pthread_mutex_unlock(&s->lock);
    answer(what, act);
}

static const struct berth_workers_ops spy_ops = {
    .is_running = is_running, .supports = supports, .call = call};

/* --- the test's side --- */

struct spy *spy_new(bool process)
{
    struct spy *s = calloc(1, sizeof *s);
    check(s != NULL, "no memory");
    s->base.ops = &spy_ops;
    s->process = process;
    s->run_from = 1;
    s->script = berth_json_new_object();
    s->start = berth_json_new_object();
    pthread_mutex_init(&s->lock, NULL);
    check(s->script && s->start, "no memory");
    return s;
}

void spy_make_package(struct spy *s, const char *directory, const char *manifest_json)
{
    struct berth_error err;
    check(berth_fs_mkdirs(directory, 0755, &err) == BERTH_OK, "cannot make the package");
    write_file(directory, "manifest.json", manifest_json, 0644);
    write_file(directory, "worker", program, 0755);
    pthread_mutex_lock(&s->lock);
    free(s->package);
    s->package = strdup(directory);
    write_script(s);
    pthread_mutex_unlock(&s->lock);
}

void spy_free(struct spy *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->count; i++) {
        free((char *)(uintptr_t)s->calls[i].plugin_id);
        free((char *)(uintptr_t)s->calls[i].method);
        free((char *)(uintptr_t)s->calls[i].params_json);
    }
    berth_json_free(s->script);
    berth_json_free(s->start);
    free(s->key);
    free(s->lease_id);
    free(s->package);
    free(s->state);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

struct berth_workers *spy_workers(struct spy *s)
{
    return s->process ? NULL : &s->base;
}

void spy_set_state(struct spy *s, const char *directory)
{
    pthread_mutex_lock(&s->lock);
    free(s->state);
    s->state = strdup(directory);
    pthread_mutex_unlock(&s->lock);
}

void spy_script(struct spy *s, const char *method, const char *acts_json)
{
    pthread_mutex_lock(&s->lock);
    read_calls(s);
    if (acts_json) {
        struct berth_json *entry = berth_json_new_object();
        check(berth_json_set(entry, "from", berth_json_new_int(count_calls(s, method))) &&
                  berth_json_set(entry, "acts", parse(acts_json, strlen(acts_json))) &&
                  berth_json_set(s->script, method, entry),
              "no memory");
    } else {
        berth_json_remove(s->script, method);
    }
    write_script(s);
    pthread_mutex_unlock(&s->lock);
}

void spy_set_finds(struct spy *s, bool finds)
{
    pthread_mutex_lock(&s->lock);
    s->finds = finds;
    write_script(s);
    pthread_mutex_unlock(&s->lock);
}

void spy_set_start(struct spy *s, const char *act_json)
{
    pthread_mutex_lock(&s->lock);
    berth_json_free(s->start);
    s->start = act_json ? parse(act_json, strlen(act_json)) : berth_json_new_object();
    write_script(s);
    pthread_mutex_unlock(&s->lock);
}

int spy_looks(struct spy *s)
{
    pthread_mutex_lock(&s->lock);
    int looks = s->looks;
    pthread_mutex_unlock(&s->lock);
    return looks;
}

void spy_run_from(struct spy *s, int look)
{
    pthread_mutex_lock(&s->lock);
    s->run_from = look;
    pthread_mutex_unlock(&s->lock);
}

void spy_take_away(struct spy *s, bool away)
{
    auto_free char *there = in(s->package, "worker"), *elsewhere = in(s->package, "away");
    check(rename(away ? there : elsewhere, away ? elsewhere : there) == 0,
          "cannot move the worker");
}

int spy_count(struct spy *s, const char *method)
{
    pthread_mutex_lock(&s->lock);
    read_calls(s);
    int count = count_calls(s, method);
    pthread_mutex_unlock(&s->lock);
    return count;
}

bool spy_call_at(struct spy *s, const char *method, int n, struct spy_call *out)
{
    bool found = false;
    pthread_mutex_lock(&s->lock);
    read_calls(s);
    for (int i = 0; i < s->count && !found; i++) {
        found = (!method || strcmp(s->calls[i].method, method) == 0) && n-- == 0;
        if (found)
            *out = s->calls[i];
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}
