/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/rpc.c - calls to and from real children, well-behaved and not: each call is answered
 * exactly once, and lines that are not answers do no harm. */
#include "net/rpc.h"

#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/time.h"
#include "os/confine.h"
#include "os/pool.h"

#define WAIT_S 60
#define MINUTE_MS INT64_C(60000)
#define ASKED_MAX 10000

/* How every child of these tests speaks. */
#define PYTHON(script)                                                                             \
    ((const char *const[]){"python3", "-I", "-S", "-c",                                            \
                           "import json, os, sys, time\n"                                          \
                           "def recv():\n"                                                         \
                           "    line = sys.stdin.buffer.readline()\n"                              \
                           "    if not line: os._exit(0)\n"                                        \
                           "    return json.loads(line)\n"                                         \
                           "def raw(data):\n"                                                      \
                           "    sys.stdout.buffer.write(data)\n"                                   \
                           "    sys.stdout.buffer.flush()\n"                                       \
                           "def line(**m):\n"                                                      \
                           "    return json.dumps(dict(m, jsonrpc='2.0')).encode() + b'\\n'\n"     \
                           "def say(**m): raw(line(**m))\n" script,                                \
                           NULL})
#define SH(script) ((const char *const[]){"sh", "-c", script, NULL})

static const char *const environment[] = {"PATH=/usr/bin:/bin", NULL};

static struct berth_engine *engine;
static struct berth_pool *pool;

/* A call, and what came of it. */
struct asked {
    struct peer *peer;
    const char *name; /* or NULL: only counted */
    struct berth_rpc_request request;
    int answers;
    struct berth_reply reply; /* without pointers */
    int64_t number;           /* the result, when it is one */
    int again;                /* further calls, each after the answer of the one before */
    bool late;                /* it wants to hear of what comes after the time-out */
};

/* One child, and what was heard of it: a line for each event, in their order. */
struct peer {
    struct berth_process_options options;
    struct berth_rpc *rpc;
    struct berth_error err;
    int start_code;
    struct asked asked[ASKED_MAX];
    int asked_count;
    struct berth_buf stderr_bytes; /* to be looked at after the end */
    struct flood *flood;           /* or NULL: what is heard is told */
    bool over, holds_the_pool;
    pthread_mutex_t lock; /* of what was heard */
    pthread_cond_t news;
    struct berth_buf heard;
    size_t seen; /* of it, by the test */
};

/* --- on the engine's thread --- */

static void tell(struct peer *p, const char *what, const char *more, const char *even_more)
{
    pthread_mutex_lock(&p->lock);
    berth_buf_printf(&p->heard, "%s%s%s\n", what, more, even_more);
    pthread_cond_broadcast(&p->news);
    pthread_mutex_unlock(&p->lock);
}

static void on_reply(void *ctx, const struct berth_reply *reply)
{
    static const char *const kinds[] = {"result", "error", "timeout", "gone", "unsent"};
    struct asked *a = ctx;
    a->answers++;
    a->reply = (struct berth_reply){.kind = reply->kind, .code = reply->code};
    a->number = berth_json_int(reply->result);
    if (a->again-- > 0)
        berth_rpc_call(a->peer->rpc, &a->request);
    if (!a->name)
        return;
    char head[200], size[40];
    auto_free char *result = reply->result ? berth_json_canonical(reply->result) : NULL;
    (void)snprintf(size, sizeof size, "%zu characters", berth_json_str_len(reply->result));
    (void)snprintf(head, sizeof head, "%s: %s ", a->name, kinds[reply->kind]);
    if (reply->kind != BERTH_REPLY_RESULT)
        (void)snprintf(head + strlen(head), 40, "%lld ", (long long)reply->code);
    tell(a->peer, head,
         reply->kind != BERTH_REPLY_RESULT ? reply->text
         : strlen(result) > 300            ? size
                                           : result,
         "");
}

/* Requests are answered at once. */
static void on_message(void *ctx, const struct berth_message *m)
{
    struct peer *p = ctx;
    char head[200];
    auto_free char *params = m->params ? berth_json_canonical(m->params) : strdup("none");
    auto_free char *id = m->id ? berth_json_canonical(m->id) : NULL;
    (void)snprintf(head, sizeof head, "%s %s %s ", id ? "request" : "notification", m->method,
                   id ? id : "-");
    tell(p, head, params, "");
    struct berth_buf lines = BERTH_BUF_INIT(4096);
    if (m->kind == BERTH_MESSAGE_REQUEST) {
        berth_message_write_result(&lines, m->id, "\"here\"");
        berth_rpc_send(p->rpc, &lines);
    }
    berth_buf_clear(&lines);
}

static void on_noise(void *ctx, const char *line, size_t len, const char *why)
{
    char start[64] = "";
    if (len)
        (void)snprintf(start, sizeof start, " | %.*s", (int)(len < 60 ? len : 60), line);
    tell(ctx, "noise: ", why, start);
}

static void on_stderr(void *ctx, const char *bytes, size_t len)
{
    struct peer *p = ctx;
    berth_buf_append(&p->stderr_bytes, bytes, len);
}

static void on_end(void *ctx, const struct berth_exec_end *end, struct berth_buf *text)
{
    char how[80];
    (void)snprintf(how, sizeof how, "%s %d", berth_end_cause_name(end->cause),
                   end->signal ? end->signal : end->exit_code);
    berth_buf_printf(text, "It was: %s", how);
    tell(ctx, "end ", how, "");
    ((struct peer *)ctx)->over = true;
}

/* A worker that writes more lines than the engine's thread can handle. */
#define FLOOD 20000
struct flood {
    struct berth_post post;
    bool posted;
    int lines, most; /* of a stream since the last post ran */
    int all, errors;
};

static void on_flood_post(struct berth_post *post)
{
    struct flood *f = (struct flood *)(void *)post;
    f->posted = false;
    f->lines = 0;
}

static void flood_count(struct flood *f)
{
    struct berth_error err;
    if (++f->lines > f->most)
        f->most = f->lines;
    if (!f->posted)
        f->posted = berth_engine_post(engine, &f->post, &err) == BERTH_OK;
}

static void on_flood_noise(void *ctx, const char *line, size_t len, const char *why)
{
    struct peer *p = ctx;
    (void)line, (void)len, (void)why;
    p->flood->all++;
    flood_count(p->flood);
}

static void on_flood_stderr(void *ctx, const char *bytes, size_t len)
{
    struct peer *p = ctx;
    for (size_t i = 0; i < len; i++) {
        p->flood->errors += bytes[i] == '\n';
        if (bytes[i] == '\n')
            flood_count(p->flood);
    }
}

/* --- from the test --- */

struct errand {
    struct berth_post post;
    void (*run)(struct peer *p, void *ctx);
    struct peer *peer;
    void *ctx;
    sem_t done;
};

static void run_errand(struct berth_post *post)
{
    struct errand *e = (struct errand *)(void *)post;
    e->run(e->peer, e->ctx);
    (void)sem_post(&e->done);
}

/* run(p, ctx) on the engine's thread; it has run when this returns. */
static void on_loop(struct peer *p, void (*run)(struct peer *p, void *ctx), void *ctx)
{
    struct errand e = {.post = {.run = run_errand}, .run = run, .peer = p, .ctx = ctx};
    struct berth_error err;
    (void)sem_init(&e.done, 0, 0);
    assert_int_equal(berth_engine_post(engine, &e.post, &err), BERTH_OK);
    while (sem_wait(&e.done) < 0 && errno == EINTR)
        ;
    (void)sem_destroy(&e.done);
}

static void do_start(struct peer *p, void *ctx)
{
    struct berth_rpc_handlers handlers = {.on_message = on_message,
                                          .on_noise = p->flood ? on_flood_noise : on_noise,
                                          .on_stderr = p->flood ? on_flood_stderr : on_stderr,
                                          .on_end = on_end,
                                          .ctx = p};
    (void)ctx;
    p->start_code = berth_rpc_start(engine, pool, &p->options, &handlers, &p->rpc, &p->err);
}

static void prepare(struct peer *p, const char *const *argv)
{
    p->options = (struct berth_process_options)BERTH_PROCESS_OPTIONS_INIT;
    p->options.argv = argv;
    p->options.env = environment;
    p->options.grace_ms = 1000;
}

/* As prepared. */
static void start_it(struct peer *p)
{
    on_loop(p, do_start, NULL);
    assert_ok_at(p->start_code, &p->err, "berth_rpc_start", __FILE__, __LINE__);
}

static void start(struct peer *p, const char *const *argv)
{
    prepare(p, argv);
    start_it(p);
}

static void do_call(struct peer *p, void *ctx)
{
    struct asked *a = ctx;
    berth_rpc_call(p->rpc, &a->request);
}

static struct asked *new_asked(struct peer *p, const char *name)
{
    assert_true(p->asked_count < ASKED_MAX);
    struct asked *a = &p->asked[p->asked_count++];
    *a = (struct asked){.peer = p, .name = name};
    return a;
}

static struct asked *ask_for(struct asked *a, const char *method, const char *params,
                             int64_t timeout_ms)
{
    a->request = (struct berth_rpc_request){.method = method,
                                            .params_json = params,
                                            .timeout_ms = timeout_ms,
                                            .on_reply = on_reply,
                                            .on_late = a->late ? on_reply : NULL,
                                            .ctx = a};
    on_loop(a->peer, do_call, a);
    return a;
}

/* A call under the method's name. */
static struct asked *ask(struct peer *p, const char *method, const char *params)
{
    return ask_for(new_asked(p, method), method, params, 0);
}

/* What has been heard since may still become what is wanted. */
static bool may_become(const struct peer *p, const char *want)
{
    size_t len = p->heard.len - p->seen;
    return len < strlen(want) && memcmp(berth_buf_str(&p->heard) + p->seen, want, len) == 0;
}

/* Waits until so much has been heard, and it must be that. */
static void expect_at(struct peer *p, const char *want, int line)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&p->lock);
    int rc = 0;
    while (rc == 0 && may_become(p, want))
        rc = pthread_cond_timedwait(&p->news, &p->lock, &until);
    const char *heard = berth_buf_str(&p->heard) + p->seen;
    bool same = strncmp(heard, want, strlen(want)) == 0;
    auto_free char *copy = same ? NULL : strdup(heard);
    p->seen += same ? strlen(want) : 0;
    pthread_mutex_unlock(&p->lock);
    if (!same)
        fail_msg("line %d, expected:\n%sheard:\n%s", line, want, copy);
}
#define expect(p, want) expect_at((p), (want), __LINE__)

static void do_nothing(struct peer *p, void *ctx)
{
    (void)p, (void)ctx;
}

/* Nothing comes for a while, though the loop turns. */
static void expect_silence(struct peer *p)
{
    pause_ms(50);
    on_loop(p, do_nothing, NULL);
    pthread_mutex_lock(&p->lock);
    auto_free char *rest = strdup(berth_buf_str(&p->heard) + p->seen);
    pthread_mutex_unlock(&p->lock);
    assert_string_equal(rest, "");
}

static void do_count(struct peer *p, void *ctx)
{
    *(int *)ctx = berth_rpc_pending(p->rpc);
}

static int pending(struct peer *p)
{
    int count = -1;
    on_loop(p, do_count, &count);
    return count;
}

static void do_count_heard(struct peer *p, void *ctx)
{
    *(uint64_t *)ctx = berth_rpc_heard(p->rpc);
}

static void do_close(struct peer *p, void *ctx)
{
    (void)ctx;
    berth_process_close_stdin(berth_rpc_process(p->rpc));
}

static void do_cancel(struct peer *p, void *ctx)
{
    (void)ctx;
    berth_process_cancel(berth_rpc_process(p->rpc));
}

static void do_free(struct peer *p, void *ctx)
{
    (void)ctx;
    berth_rpc_free(p->rpc);
}

/* After its end: nothing else was heard. Another may be started then. */
static void let_go(struct peer *p)
{
    expect_silence(p);
    on_loop(p, do_free, NULL);
    p->rpc = NULL;
    p->over = false;
}

/* For one that ends with its input. */
static void stop(struct peer *p)
{
    assert_int_equal(pending(p), 0);
    on_loop(p, do_close, NULL);
    expect(p, "end exited 0\n");
    let_go(p);
}

static sem_t held, released;

static void hold_the_pool(void *ctx)
{
    (void)ctx;
    (void)sem_post(&held);
    while (sem_wait(&released) < 0 && errno == EINTR)
        ;
}

/* The pool has one thread: while it is held, no long line is read. */
static void hold(struct peer *p)
{
    assert_int_equal(berth_pool_submit(pool, hold_the_pool, NULL, &p->err), BERTH_OK);
    while (sem_wait(&held) < 0 && errno == EINTR)
        ;
    p->holds_the_pool = true;
}

static void release(struct peer *p)
{
    p->holds_the_pool = false;
    (void)sem_post(&released);
}

static int set_up(void **state)
{
    struct peer *p = calloc(1, sizeof *p);
    if (!p)
        return -1;
    p->stderr_bytes = (struct berth_buf)BERTH_BUF_INIT(1 << 20);
    p->heard = (struct berth_buf)BERTH_BUF_INIT(1 << 20);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->news, NULL);
    *state = p;
    return 0;
}

static void do_look(struct peer *p, void *ctx)
{
    *(bool *)ctx = p->over;
}

/* Also after a test that failed: nothing of it disturbs the next. */
static int tear_down(void **state)
{
    struct peer *p = *state;
    if (p->holds_the_pool)
        release(p);
    bool over = !p->rpc;
    if (!over)
        on_loop(p, do_cancel, NULL);
    for (; !over; pause_ms(10))
        on_loop(p, do_look, &over);
    if (p->rpc)
        on_loop(p, do_free, NULL);
    berth_buf_clear(&p->heard);
    berth_buf_clear(&p->stderr_bytes);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->news);
    free(p);
    return 0;
}

/* --- calls and answers --- */

#define ECHO "while True:\n    m = recv()\n    say(id=m['id'], result=m['params'])\n"

static void round_trip(void **state)
{
    struct peer *p = *state;
    start(p, PYTHON(ECHO));
    const struct asked *a = ask(p, "one", "{\"x\":[1,\"\xc3\xa9\xe2\x80\xa8\"]}");
    expect(p, "one: result {\"x\":[1,\"\xc3\xa9\xe2\x80\xa8\"]}\n");
    const struct asked *b = ask(p, "two", NULL);
    expect(p, "two: result {}\n");
    const struct asked *c = ask(p, "three", "\"\"");
    expect(p, "three: result \"\"\n");
    stop(p);
    assert_true(a->answers == 1 && b->answers == 1 && c->answers == 1);
}

static void what_a_call_looks_like(void **state)
{
    struct peer *p = *state;
    start(p, PYTHON("while True:\n    m = recv()\n    say(id=m['id'], result=m)\n"));
    ask_for(new_asked(p, "a"), "first", "{\"k\":\"v\"}", 0);
    struct asked *b = new_asked(p, "b");
    b->request = (struct berth_rpc_request){
        .method = "second", .invocation_json = "{\"id\":\"i-1\"}", .on_reply = on_reply, .ctx = b};
    on_loop(p, do_call, b);
    expect(p, "a: result {\"id\":1,\"jsonrpc\":\"2.0\",\"method\":\"first\",\"params\":"
              "{\"k\":\"v\"}}\n"
              "b: result {\"id\":2,\"jsonrpc\":\"2.0\",\"method\":\"second\","
              "\"paperclipInvocation\":{\"id\":\"i-1\"},\"params\":{}}\n");
    stop(p);
}

static void answers_out_of_order(void **state)
{
    struct peer *p = *state;
    start(p, PYTHON("all = [recv(), recv(), recv()]\n"
                    "for i in 2, 0, 1: say(id=all[i]['id'], result=all[i]['params'])\n"
                    "recv()\n"));
    ask(p, "a", "1");
    ask(p, "b", "2");
    ask(p, "c", "3");
    expect(p, "c: result 3\na: result 1\nb: result 2\n");
    stop(p);
}

static void answers_nobody_waits_for(void **state)
{
    struct peer *p = *state;
    start(p, PYTHON("recv()\n"
                    "say(id=7, result='early')\n"
                    "say(id='1', result='text')\n"
                    "say(id=None, error=dict(code=-32700, message='Parse error: x'))\n"
                    "say(id=1, result='first')\n"
                    "say(id=1, result='second')\n"
                    "say(id=1, error=dict(code=1, message='third'))\n"
                    "say(id=recv()['id'], result='next')\n"
                    "recv()\n"));
    const struct asked *a = ask(p, "a", NULL);
    expect(p, "noise: received response for unknown request id | "
              "{\"id\": 7, \"result\": \"early\", \"jsonrpc\": \"2.0\"}\n"
              "noise: received response for unknown request id | "
              "{\"id\": \"1\", \"result\": \"text\", \"jsonrpc\": \"2.0\"}\n"
              "noise: received response with null/undefined id | "
              "{\"id\": null, \"error\": {\"code\": -32700, \"message\": \"Parse err\n"
              "a: result \"first\"\n"
              "noise: received response for unknown request id | "
              "{\"id\": 1, \"result\": \"second\", \"jsonrpc\": \"2.0\"}\n"
              "noise: received response for unknown request id | "
              "{\"id\": 1, \"error\": {\"code\": 1, \"message\": \"third\"}, \"jsonrpc\n");
    ask(p, "b", NULL);
    expect(p, "b: result \"next\"\n");
    stop(p);
    assert_int_equal(a->answers, 1);
}

static void same_id_in_both_directions(void **state)
{
    struct peer *p = *state;
    start(p, PYTHON("m = recv()\n"
                    "say(id=m['id'], method='get', params={'of': 1})\n"
                    "first = recv()\n"
                    "say(id='s', method='get')\n"
                    "say(method='log', params=[])\n"
                    "say(id=m['id'], result=[first, recv()])\n"
                    "recv()\n"));
    ask(p, "a", NULL);
    expect(p, "request get 1 {\"of\":1}\n"
              "request get \"s\" none\n"
              "notification log - []\n"
              "a: result [{\"id\":1,\"jsonrpc\":\"2.0\",\"result\":\"here\"},"
              "{\"id\":\"s\",\"jsonrpc\":\"2.0\",\"result\":\"here\"}]\n");
    stop(p);
}

static void shapes_of_an_answer(void **state)
{
    static const char *const wants[] = {
        "error 404 gone",
        "error -32002 no code",
        "error -32002 code is a text",
        "error -7 ",
        "error -32002 ",
        "error -32002 ",
        "error 1 wins",
        "result null",
        "result false",
        "result 5",
        "error -32002 Unexpected response format for \"m\"",
    };
    enum { COUNT = sizeof wants / sizeof *wants };
    struct peer *p = *state;
    start(p, PYTHON("def answer(text): raw(b'{\"jsonrpc\":\"2.0\",\"id\":%d,%s}\\n' %"
                    " (recv()['id'], text))\n"
                    "answer(b'\"error\":{\"code\":404,\"message\":\"gone\",\"data\":{}}')\n"
                    "answer(b'\"error\":{\"message\":\"no code\"}')\n"
                    "answer(b'\"error\":{\"code\":\"E\",\"message\":\"code is a text\"}')\n"
                    "answer(b'\"error\":{\"code\":-7}')\n"
                    "answer(b'\"error\":{}')\n"
                    "answer(b'\"error\":\"a text\"')\n"
                    "answer(b'\"error\":{\"code\":1,\"message\":\"wins\"},\"result\":1')\n"
                    "answer(b'\"result\":null')\n"
                    "answer(b'\"result\":false')\n"
                    "answer(b'\"result\":5,\"error\":null,\"method\":\"m\"')\n"
                    "answer(b'\"error\":null')\n"
                    "recv()\n"));
    for (int i = 0; i < COUNT; i++) {
        char want[200];
        ask(p, "m", NULL);
        (void)snprintf(want, sizeof want, "m: %s\n", wants[i]);
        expect(p, want);
    }
    stop(p);
}

/* What libraries print is passed on, and nothing else happens. */
static void noise(void **state)
{
    struct peer *p = *state;
    start(p, PYTHON("recv()\n"
                    "raw(b'hello stdout noise\\n\\n   \\n\\r\\n\\t \\r\\n42\\n[]\\n')\n"
                    "raw(b'{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"m\"}\\n')\n"
                    "raw(b'{\"jsonrpc\":\"1.0\"}\\r\\n')\n"
                    "raw(b'{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"h\\xc3\"}\\r\\n')\n"
                    "recv()\n"));
    ask(p, "a", NULL);
    expect(p, "noise: Invalid JSON: hello stdout noise | hello stdout noise\n"
              "noise: Message must be a JSON object | 42\n"
              "noise: Invalid or missing jsonrpc version (expected \"2.0\", got undefined) | []\n"
              "noise: unknown message type from worker | "
              "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"m\"}\n"
              "noise: Invalid or missing jsonrpc version (expected \"2.0\", got \"1.0\") | "
              "{\"jsonrpc\":\"1.0\"}\n"
              "a: result \"h\xef\xbf\xbd\"\n");
    uint64_t heard = 0;
    on_loop(p, do_count_heard, &heard);
    assert_int_equal(heard, 2); /* the one of an unknown kind, and the answer */
    stop(p);
}

static void lines_in_any_pieces(void **state)
{
    struct peer *p = *state;
    start(p, PYTHON("one, two = line(id=recv()['id'], result=1), line(id=recv()['id'], result=2)\n"
                    "for byte in one[:-3]:\n"
                    "    raw(bytes([byte])); time.sleep(0.001)\n"
                    "raw(one[-3:] + b'\\n' + two[:5]); time.sleep(0.05); raw(two[5:])\n"
                    "recv()\n"));
    ask(p, "a", NULL);
    ask(p, "b", NULL);
    expect(p, "a: result 1\nb: result 2\n");
    stop(p);
}

static void stderr_is_handed_on(void **state)
{
    struct peer *p = *state;
    start(p, PYTHON("sys.stderr.write('one\\n'); sys.stderr.flush()\n"
                    "say(id=recv()['id'], result={})\n"
                    "sys.stderr.write('{\"jsonrpc\":\"2.0\"}' * 10000); sys.stderr.flush()\n"
                    "recv()\n"));
    ask(p, "a", NULL);
    expect(p, "a: result {}\n");
    on_loop(p, do_close, NULL);
    expect(p, "end exited 0\n");
    expect_silence(p);
    assert_int_equal(p->stderr_bytes.len, 4 + 17 * 10000);
    assert_memory_equal(p->stderr_bytes.data, "one\n{\"jsonrpc\":\"2.0\"}{", 22);
    let_go(p);
}

/* See struct flood. */
static void many_lines_leave_room_for_others(void **state)
{
    struct peer *p = *state;
    struct flood flood = {.post = {.run = on_flood_post}};
    p->flood = &flood;
    start(p, PYTHON("raw(b'x\\n' * 20000)\nos.write(2, b'\\n' * 20000)\n"
                    "raw(b'x\\n' * 20000)\nsay(id=recv()['id'], result={})\nrecv()\n"));
    ask(p, "a", NULL);
    expect(p, "a: result {}\n");
    stop(p);
    assert_int_equal(flood.all, 2 * FLOOD);
    assert_int_equal(flood.errors, FLOOD);
    assert_true(flood.most <= 4 * BERTH_WORKER_LINES_PER_TURN);
}

/* A handler may call at once. */
static void one_call_after_the_other(void **state)
{
    struct peer *p = *state;
    start(p, PYTHON(ECHO));
    struct asked *a = new_asked(p, NULL);
    a->again = 499;
    ask_for(a, "m", "1", 0);
    for (int i = 0; i < WAIT_S * 100 && pending(p) > 0; i++)
        pause_ms(10);
    ask(p, "last", NULL);
    expect(p, "last: result {}\n");
    stop(p);
    assert_int_equal(a->answers, 500);
}

static void do_ask_many(struct peer *p, void *ctx)
{
    for (int i = 0; i < ASKED_MAX; i++) {
        char number[20];
        (void)snprintf(number, sizeof number, "%d", i);
        struct asked *a = new_asked(p, NULL);
        struct berth_rpc_request request = {.method = "m",
                                            .params_json = number,
                                            .timeout_ms = 60 * MINUTE_MS,
                                            .on_reply = on_reply,
                                            .ctx = a};
        berth_rpc_call(p->rpc, &request);
    }
    *(int *)ctx = berth_rpc_pending(p->rpc);
}

static void ten_thousand_in_flight(void **state)
{
    struct peer *p = *state;
    int in_flight = 0;
    start(p, PYTHON("all = [recv() for i in range(10000)]\n"
                    "all = all[5000:] + all[:5000][::-1]\n"
                    "raw(b''.join(line(id=m['id'], result=m['params']) for m in all))\n"
                    "say(method='done')\n"
                    "recv()\n"));
    on_loop(p, do_ask_many, &in_flight);
    assert_int_equal(in_flight, 10000);
    expect(p, "notification done - none\n");
    for (int i = 0; i < 10000; i++) {
        const struct asked *a = &p->asked[i];
        if (a->answers != 1 || a->reply.kind != BERTH_REPLY_RESULT || a->number != i)
            fail_msg("call %d: %d answers, the last %lld", i, a->answers, (long long)a->number);
    }
    stop(p);
}

/* --- long lines --- */

#define LONG_ANSWER                                                                                \
    "m = recv()\n"                                                                                 \
    "raw(line(method='before') + line(id=m['id'], result='x' * 200000) + line(method='after'))\n"

static void long_lines_keep_their_turn(void **state)
{
    struct peer *p = *state;
    start(p, PYTHON(LONG_ANSWER "say(id=recv()['id'], result='y' * 70000)\nrecv()\n"));
    hold(p);
    ask(p, "a", NULL);
    ask(p, "b", NULL);
    expect(p, "notification before - none\n");
    expect_silence(p); /* it waits for the pool, and so does what is behind it; the loop does not */
    release(p);
    expect(p, "a: result 200000 characters\nnotification after - none\n"
              "b: result 70000 characters\n");
    stop(p);
}

/* Up to the limit a line is read on the loop. */
static void short_lines_do_not_wait_for_the_pool(void **state)
{
    struct peer *p = *state;
    start(p, PYTHON("limit = int(recv()['params'])\n"
                    "short = line(id=1, result='')\n"
                    "raw(line(id=1, result='x' * (limit - len(short) + 1)))\n"
                    "raw(line(id=recv()['id'], result='x' * (limit - len(short) + 2)))\n"
                    "recv()\n"));
    char limit[20];
    (void)snprintf(limit, sizeof limit, "%d", BERTH_MESSAGE_BYTES_SMALL);
    hold(p);
    ask(p, "a", limit);
    expect(p, "a: result 65495 characters\n");
    ask(p, "b", NULL);
    expect_silence(p);
    release(p);
    expect(p, "b: result 65496 characters\n");
    stop(p);
}

/* Many in a row, some of them noise, with more than a pipe holds in between. */
static void long_lines_in_a_row(void **state)
{
    struct peer *p = *state;
    auto_buf want = BERTH_BUF_INIT(1 << 16);
    start(p, PYTHON("for m in [recv() for i in range(20)]:\n"
                    "    raw(b'{' + b' ' * 99999 + b'\\n')\n"
                    "    say(id=m['id'], result='x' * (100000 + m['id']))\n"
                    "    say(method='small', params=m['id'])\n"
                    "recv()\n"));
    for (int i = 0; i < 20; i++) {
        ask(p, "m", NULL);
        berth_buf_printf(&want, "noise: Invalid JSON: {%199s | {%59s\n", "", "");
        berth_buf_printf(&want, "m: result %d characters\nnotification small - %d\n",
                         100000 + i + 1, i + 1);
    }
    expect(p, berth_buf_str(&want));
    stop(p);
}

/* Its end waits for what it has said. */
static void end_behind_a_long_line(void **state)
{
    struct peer *p = *state;
    start(p, PYTHON(LONG_ANSWER "recv()\nos._exit(3)\n"));
    hold(p);
    ask(p, "a", NULL);
    ask(p, "b", NULL);
    expect(p, "notification before - none\n");
    expect_silence(p);
    release(p);
    expect(p, "a: result 200000 characters\nnotification after - none\nend exited 3\n"
              "b: gone -32000 It was: exited 3\n");
    let_go(p);
}

/* Until the child has renamed itself. */
static void await_name(struct peer *p, const char *want)
{
    char path[64], name[32];
    (void)snprintf(path, sizeof path, "/proc/%d/comm",
                   berth_process_pid(berth_rpc_process(p->rpc)));
    for (int i = 0; i < WAIT_S * 100; i++) {
        auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = read(fd, name, sizeof name - 1);
        name[got > 0 ? got - 1 : 0] = '\0';
        if (strcmp(name, want) == 0)
            return;
        pause_ms(10);
    }
    fail_msg("it is still called %s", name);
}

/* When it is ended by us, what has been read still counts. */
static void cancelled_behind_a_long_line(void **state)
{
    struct peer *p = *state;
    prepare(p, PYTHON(LONG_ANSWER "open('/proc/self/comm', 'w').write('written')\n"
                                  "recv()\nrecv()\n"));
    p->options.linger_ms = 100;
    start_it(p);
    hold(p);
    ask(p, "a", NULL);
    const struct asked *b = ask(p, "b", NULL);
    expect(p, "notification before - none\n");
    await_name(p, "written");
    expect_silence(p); /* what the pipe still held has been read, too */
    on_loop(p, do_cancel, NULL);
    pause_ms(500); /* it has ended, and its pipes are not waited for any more */
    expect_silence(p);
    release(p);
    expect(p, "a: result 200000 characters\n");
    for (int i = 0; i < WAIT_S * 100 && pending(p) > 0; i++)
        pause_ms(10);
    assert_int_equal(b->answers, 1);
    assert_int_equal(b->reply.kind, BERTH_REPLY_GONE);
    p->seen = p->heard.len; /* whether "after" was heard depends on where the pipe was cut */
    let_go(p);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* Longer than any message may be: its length is told, and the next is whole. */
static void much_too_long_a_line(void **state)
{
    struct peer *p = *state;
    start(p, PYTHON("m = recv()\n"
                    "for i in range(129): raw(b'x' * 1048576)\n"
                    "raw(b'\\n' + line(id=m['id'], result=1))\n"
                    "say(id=recv()['id'], result='x' * (100 * 1048576))\n"
                    "recv()\n"));
    ask(p, "a", NULL);
    expect(p, "noise: a line of 135266304 bytes was dropped\na: result 1\n");
    ask(p, "b", NULL);
    expect(p, "b: result 104857600 characters\n");
    stop(p);
}

static void much_too_long_a_call(void **state)
{
    struct peer *p = *state;
    auto_free char *params = malloc((size_t)BERTH_MESSAGE_BYTES_MAX + 3);
    memset(params, 'x', (size_t)BERTH_MESSAGE_BYTES_MAX + 2);
    params[0] = params[BERTH_MESSAGE_BYTES_MAX + 1] = '"';
    params[BERTH_MESSAGE_BYTES_MAX + 2] = '\0';
    start(p, PYTHON("while True:\n    m = recv()\n    say(id=m['id'], result=len(m['params']))\n"));
    ask(p, "a", params);
    expect(p, "a: unsent -32000 The call is too long for one message.\n");
    (void)strcpy(params + 30000000, "\"");
    ask(p, "b", params);
    expect(p, "b: result 29999999\n");
    stop(p);
}
#endif

/* --- time --- */

static void calls_time_out_by_the_moved_clock(void **state)
{
    struct peer *p = *state;
    start(p, PYTHON("soon, later, never = recv(), recv(), recv()\n"
                    "say(id=recv()['id'], result={})\n"
                    "for m in soon, later, never: say(id=m['id'], result='late')\n"
                    "recv()\n"));
    ask_for(new_asked(p, "soon"), "slow \"one\"", NULL, 5 * MINUTE_MS);
    ask_for(new_asked(p, "later"), "slower", NULL, 10 * MINUTE_MS);
    ask(p, "never", NULL);
    berth_time_shift(0, 4 * MINUTE_MS);
    expect_silence(p);
    berth_time_shift(0, 2 * MINUTE_MS);
    expect(p, "soon: timeout -32003 RPC call \"slow \"one\"\" timed out after 300000ms\n");
    assert_int_equal(pending(p), 2);
    expect_silence(p);
    berth_time_shift(0, 5 * MINUTE_MS);
    expect(p, "later: timeout -32003 RPC call \"slower\" timed out after 600000ms\n");
    berth_time_shift(0, 24 * 60 * MINUTE_MS);
    expect_silence(p);
    ask(p, "other", NULL);
    expect(p, "other: result {}\n"
              "noise: received response for unknown request id | "
              "{\"id\": 1, \"result\": \"late\", \"jsonrpc\": \"2.0\"}\n"
              "noise: received response for unknown request id | "
              "{\"id\": 2, \"result\": \"late\", \"jsonrpc\": \"2.0\"}\n"
              "never: result \"late\"\n");
    stop(p);
}

/* Whoever wants to hear of it is told twice, and of the end when nothing else comes. */
static void late_answers_are_told_to_who_wants_them(void **state)
{
    struct peer *p = *state;
    start(p, PYTHON("a, b = recv(), recv()\n"
                    "recv()\n"
                    "say(id=a['id'], result='late')\n"
                    "say(id=a['id'], result='again')\n"
                    "recv()\n"));
    struct asked *a = new_asked(p, "a"), *b = new_asked(p, "b");
    a->late = b->late = true;
    ask_for(a, "m", NULL, MINUTE_MS);
    ask_for(b, "m", NULL, MINUTE_MS);
    berth_time_shift(0, 2 * MINUTE_MS);
    expect(p, "a: timeout -32003 RPC call \"m\" timed out after 60000ms\n"
              "b: timeout -32003 RPC call \"m\" timed out after 60000ms\n");
    assert_int_equal(pending(p), 2);
    berth_time_shift(0, 24 * 60 * MINUTE_MS);
    expect_silence(p);
    ask(p, "go", NULL);
    expect(p, "a: result \"late\"\n"
              "noise: received response for unknown request id | "
              "{\"id\": 1, \"result\": \"again\", \"jsonrpc\": \"2.0\"}\n");
    ask(p, "end", NULL);
    expect(p, "end exited 0\nb: gone -32000 It was: exited 0\ngo: gone -32000 It was: exited 0\n"
              "end: gone -32000 It was: exited 0\n");
    assert_int_equal(a->answers, 2);
    assert_int_equal(b->answers, 2);
    let_go(p);
}

/* One that was answered does not time out any more. */
static void answered_calls_have_no_time(void **state)
{
    struct peer *p = *state;
    start(p, PYTHON(ECHO));
    const struct asked *a = ask_for(new_asked(p, "a"), "m", NULL, MINUTE_MS);
    expect(p, "a: result {}\n");
    berth_time_shift(0, 5 * MINUTE_MS);
    expect_silence(p);
    stop(p);
    assert_int_equal(a->answers, 1);
}

/* --- the end --- */

/* A whole message is one also without the end of its line; half of one is noise. */
static void last_line_without_an_end(void **state)
{
    struct peer *p = *state;
    start(p, PYTHON("m = recv()\n"
                    "sys.stdout.write('{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":5}')\n"
                    "sys.stdout.flush()\n"
                    "os._exit(4)\n"));
    ask(p, "a", NULL);
    expect(p, "a: result 5\nend exited 4\n");
    let_go(p);
    start(p, PYTHON("m = recv()\n"
                    "sys.stdout.write('{\"jsonrpc\":\"2.0\",\"id\":1,\"resu')\n"
                    "sys.stdout.flush()\n"
                    "os._exit(4)\n"));
    ask(p, "b", NULL);
    expect(p, "noise: Invalid JSON: {\"jsonrpc\":\"2.0\",\"id\":1,\"resu | "
              "{\"jsonrpc\":\"2.0\",\"id\":1,\"resu\n"
              "end exited 4\nb: gone -32000 It was: exited 4\n");
    let_go(p);
}

static void child_that_dies_answers_all(void **state)
{
    struct peer *p = *state;
    start(p, PYTHON("recv(); recv(); os._exit(7)\n"));
    for (int i = 0; i < 100; i++)
        ask_for(new_asked(p, NULL), "m", NULL, i % 2 ? MINUTE_MS : 0);
    expect(p, "end exited 7\n");
    assert_int_equal(pending(p), 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(p->asked[i].answers, 1);
        assert_int_equal(p->asked[i].reply.code, BERTH_RPC_UNAVAILABLE);
        if (p->asked[i].reply.kind != BERTH_REPLY_GONE) /* those that came after its end */
            assert_int_equal(p->asked[i].reply.kind, BERTH_REPLY_UNSENT);
    }
    assert_int_equal(p->asked[0].reply.kind, BERTH_REPLY_GONE);
    berth_time_shift(0, 5 * MINUTE_MS);
    ask(p, "late", NULL);
    expect(p, "late: unsent -32000 The worker has ended.\n");
    let_go(p);
}

static void killed_child_answers_too(void **state)
{
    struct peer *p = *state;
    start(p, PYTHON("recv(); os.kill(os.getpid(), 9)\n"));
    ask(p, "a", NULL);
    expect(p, "end signalled 9\na: gone -32000 It was: signalled 9\n");
    let_go(p);
}

/* Who calls again when it hears of the end is told at once, and only once. */
static void calling_again_from_the_end(void **state)
{
    struct peer *p = *state;
    start(p, PYTHON("recv(); os._exit(0)\n"));
    struct asked *a = new_asked(p, "a");
    a->again = 1;
    ask_for(a, "m", NULL, MINUTE_MS);
    expect(p, "end exited 0\na: unsent -32000 The worker has ended.\n"
              "a: gone -32000 It was: exited 0\n");
    let_go(p);
    assert_int_equal(a->answers, 2);
}

static void last_words_are_heard(void **state)
{
    struct peer *p = *state;
    for (int i = 0; i < 20; i++) {
        start(p, PYTHON("m = recv(); recv()\n"
                        "raw(line(id=m['id'], result='x' * 50000) + line(method='bye'))\n"
                        "os._exit(4)\n"));
        ask(p, "a", NULL);
        ask(p, "b", NULL);
        expect(p, "a: result 50000 characters\nnotification bye - none\nend exited 4\n"
                  "b: gone -32000 It was: exited 4\n");
        let_go(p);
    }
}

static bool is_alive(int64_t pid)
{
    char path[64], text[256] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
        return false;
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[2] != 'Z' && name_end[2] != 'X';
}

static void grandchild_that_holds_the_pipe(void **state)
{
    struct peer *p = *state;
    struct timespec from, to;
    prepare(p, SH("read line; sleep 300 & echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":'$!'}';"
                  " exit 5"));
    p->options.linger_ms = 200;
    start_it(p);
    (void)clock_gettime(CLOCK_MONOTONIC, &from);
    const struct asked *a = ask_for(new_asked(p, NULL), "m", NULL, 0);
    expect(p, "end exited 5\n");
    (void)clock_gettime(CLOCK_MONOTONIC, &to);
    assert_in_range(to.tv_sec - from.tv_sec, 0, 30);
    assert_int_equal(a->answers, 1);
    assert_true(a->number > 1);
    for (int i = 0; i < 1000 && is_alive(a->number); i++)
        pause_ms(10);
    assert_false(is_alive(a->number));
    let_go(p);
}

static void programs_that_cannot_be_started(void **state)
{
    struct peer *p = *state;
    prepare(p, (const char *const[]){"no-such-program", NULL});
    on_loop(p, do_start, NULL);
    assert_int_equal(p->start_code, BERTH_E_NOT_FOUND);
    assert_null(p->rpc);
    berth_rpc_free(NULL);
}

/* --- one that does not read --- */

static long resident_mib(void)
{
    char text[100] = "";
    auto_close int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    assert_true(read(fd, text, sizeof text - 1) > 0);
    return strtol(strchr(text, ' '), NULL, 10) * sysconf(_SC_PAGESIZE) / (1024 * 1024);
}

static void do_send(struct peer *p, void *ctx)
{
    struct berth_buf lines = BERTH_BUF_INIT(BERTH_MESSAGE_BYTES_MAX);
    berth_message_write(&lines, &(struct berth_message_request){.method = "n", .params_json = ctx});
    berth_rpc_send(p->rpc, &lines);
    assert_int_equal(lines.len, 0); /* taken in any case */
    berth_buf_clear(&lines);
}

/* Returns a JSON text of that length, which the caller frees. */
static char *long_text(size_t size)
{
    char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, 'x', size);
    text[0] = text[size - 1] = '"';
    text[size] = '\0';
    return text;
}

/* What waits for it has a bound; what goes beyond is refused, and takes no memory. */
static void child_that_never_reads(void **state)
{
    enum { SIZE = 16 * 1024 * 1024, FIT = BERTH_MESSAGES_QUEUED_MAX / SIZE - 1, MORE = 30 };
    auto_free char *params = long_text(SIZE);
    struct peer *p = *state;
    start(p, SH("exec sleep 300"));
    for (int i = 0; i < FIT; i++)
        ask_for(new_asked(p, NULL), "m", params, 0);
    assert_int_equal(pending(p), FIT);
    long before = resident_mib();
    for (int i = 0; i < MORE; i++) {
        const struct asked *a = ask_for(new_asked(p, NULL), "m", params, MINUTE_MS);
        on_loop(p, do_send, params);
        assert_int_equal(a->answers, 1);
        assert_int_equal(a->reply.kind, BERTH_REPLY_UNSENT);
        assert_int_equal(a->reply.code, BERTH_RPC_UNAVAILABLE);
    }
    assert_true(resident_mib() - before < 600); /* of 960; sanitizers keep some of what is freed */
    ask_for(new_asked(p, "big"), "m", params, 0);
    expect(p, "big: unsent -32000 The worker does not read what it is sent.\n");
    assert_int_equal(pending(p), FIT);
    ask(p, "small", NULL); /* there is still room for it */
    assert_int_equal(pending(p), FIT + 1);
    on_loop(p, do_cancel, NULL);
    expect(p, "end cancelled 15\nsmall: gone -32000 It was: cancelled 15\n");
    assert_int_equal(pending(p), 0);
    for (int i = 0; i < FIT; i++)
        assert_true(p->asked[i].answers == 1 && p->asked[i].reply.kind == BERTH_REPLY_GONE);
    let_go(p);
}

/* One that only reads late gets all of it, in order and whole. */
static void child_that_reads_late(void **state)
{
    auto_free char *params = long_text(200000);
    struct peer *p = *state;
    start(p, PYTHON("time.sleep(0.3)\n"
                    "for i in range(1, 61):\n"
                    "    m = recv()\n"
                    "    say(id=m['id'], result=m['id'] if m['id'] == i"
                    " and m['params'] == 'x' * 199998 else 0)\n"
                    "say(id=recv()['id'], result='all')\n"
                    "recv()\n"));
    for (int i = 0; i < 60; i++)
        ask_for(new_asked(p, NULL), "m", params, 0);
    ask(p, "last", NULL);
    expect(p, "last: result \"all\"\n");
    for (int i = 0; i < 60; i++)
        assert_int_equal(p->asked[i].number, i + 1);
    stop(p);
}

/* --- one that is confined --- */

static void confined_child_speaks_as_any_other(void **state)
{
    static const char *const readable[] = {"/usr", "/lib", "/lib64", "/bin", "/etc", NULL};
    static const char *const none[] = {NULL};
    struct berth_confine_request request = {
        .readable = readable, .writable = none, .reachable = none, .uid = 60123};
    struct berth_confinement c;
    struct peer *p = *state;
    prepare(p, PYTHON("recv()\n"
                      "try: open('/proc/self/status'); seen = True\n"
                      "except OSError: seen = False\n"
                      "say(id=1, result=[seen, os.getuid()])\n"
                      "recv()\n"));
    assert_ok(p, berth_confine_open(&request, &c, &p->err));
    p->options.confinement = &c;
    start_it(p);
    char want[100];
    (void)snprintf(want, sizeof want, "a: result [%s,%d]\n", c.ruleset_fd < 0 ? "true" : "false",
                   geteuid() == 0 ? 60123 : (int)getuid());
    berth_confine_close(&c);
    ask(p, "a", NULL);
    expect(p, want);
    stop(p);
}

static int open_all(void **state)
{
    (void)state;
    struct berth_error err;
    (void)sem_init(&held, 0, 0);
    (void)sem_init(&released, 0, 0);
    return berth_engine_new(&engine, &err) < 0 || berth_pool_new(1, &pool, &err) < 0;
}

static int close_all(void **state)
{
    (void)state;
    berth_pool_free(pool);
    berth_engine_free(engine);
    return 0;
}

#define ON_PEER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_PEER(round_trip),
        ON_PEER(what_a_call_looks_like),
        ON_PEER(answers_out_of_order),
        ON_PEER(answers_nobody_waits_for),
        ON_PEER(same_id_in_both_directions),
        ON_PEER(shapes_of_an_answer),
        ON_PEER(noise),
        ON_PEER(lines_in_any_pieces),
        ON_PEER(stderr_is_handed_on),
        ON_PEER(many_lines_leave_room_for_others),
        ON_PEER(one_call_after_the_other),
        ON_PEER(ten_thousand_in_flight),
        ON_PEER(long_lines_keep_their_turn),
        ON_PEER(short_lines_do_not_wait_for_the_pool),
        ON_PEER(long_lines_in_a_row),
        ON_PEER(end_behind_a_long_line),
        ON_PEER(cancelled_behind_a_long_line),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        ON_PEER(much_too_long_a_line),
        ON_PEER(much_too_long_a_call),
#endif
        ON_PEER(calls_time_out_by_the_moved_clock),
        ON_PEER(late_answers_are_told_to_who_wants_them),
        ON_PEER(last_line_without_an_end),
        ON_PEER(answered_calls_have_no_time),
        ON_PEER(child_that_dies_answers_all),
        ON_PEER(killed_child_answers_too),
        ON_PEER(calling_again_from_the_end),
        ON_PEER(last_words_are_heard),
        ON_PEER(grandchild_that_holds_the_pipe),
        ON_PEER(programs_that_cannot_be_started),
        ON_PEER(child_that_never_reads),
        ON_PEER(child_that_reads_late),
        ON_PEER(confined_child_speaks_as_any_other),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("rpc", tests, open_all, close_all);
}
