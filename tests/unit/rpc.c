/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/rpc.c - calls to and from real children, well-behaved and not: each call is answered
 * exactly once, and what is no answer disturbs nobody. */
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

/* One child, and what was heard of it: a line for each event, in their order. */
struct peer {
    struct berth_process_options options;
    struct berth_rpc *rpc;
    struct berth_error err;
    int start_code;
    struct berth_buf stderr_bytes; /* to be looked at after the end */
    pthread_mutex_t lock;          /* of these two */
    pthread_cond_t news;
    struct berth_buf heard;
    size_t seen; /* of it, by the test */
};

/* A call, and what came of it. */
struct asked {
    struct peer *peer;
    const char *name; /* or NULL: only counted */
    struct berth_rpc_request request;
    int answers;
    struct berth_reply reply; /* without pointers */
    int64_t number;           /* the result, when it is one */
    int again;                /* so many times more, each when the one before is answered */
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
                                          .on_noise = on_noise,
                                          .on_stderr = on_stderr,
                                          .on_end = on_end,
                                          .ctx = p};
    (void)ctx;
    p->start_code = berth_rpc_start(engine, pool, &p->options, &handlers, &p->rpc, &p->err);
}

static void prepare(struct peer *p, const char *const *argv)
{
    *p = (struct peer){.options = BERTH_PROCESS_OPTIONS_INIT,
                       .stderr_bytes = BERTH_BUF_INIT(1 << 20),
                       .heard = BERTH_BUF_INIT(1 << 20)};
    p->options.argv = argv;
    p->options.env = environment;
    p->options.grace_ms = 1000;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->news, NULL);
}

static void start(struct peer *p, const char *const *argv)
{
    prepare(p, argv);
    on_loop(p, do_start, NULL);
    assert_ok_at(p->start_code, &p->err, "berth_rpc_start", __FILE__, __LINE__);
}

static void do_call(struct peer *p, void *ctx)
{
    struct asked *a = ctx;
    berth_rpc_call(p->rpc, &a->request);
}

static void ask_for(struct peer *p, struct asked *a, const char *method, const char *params,
                    int64_t timeout_ms)
{
    a->peer = p;
    a->request = (struct berth_rpc_request){.method = method,
                                            .params_json = params,
                                            .timeout_ms = timeout_ms,
                                            .on_reply = on_reply,
                                            .ctx = a};
    on_loop(p, do_call, a);
}

/* A call under the method's name. */
static void ask(struct peer *p, struct asked *a, const char *method, const char *params)
{
    *a = (struct asked){.name = method};
    ask_for(p, a, method, params, 0);
}

/* Waits until so much has been heard, and it must be that. */
static void expect_at(struct peer *p, const char *want, int line)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&p->lock);
    int rc = 0;
    while (rc == 0 && p->heard.len - p->seen < strlen(want))
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

/* After its end: nothing else was heard. */
static void let_go(struct peer *p)
{
    expect_silence(p);
    on_loop(p, do_free, NULL);
    berth_buf_clear(&p->heard);
    berth_buf_clear(&p->stderr_bytes);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->news);
}

/* For one that ends with its input. */
static void stop(struct peer *p)
{
    assert_int_equal(pending(p), 0);
    on_loop(p, do_close, NULL);
    expect(p, "end exited 0\n");
    let_go(p);
}

/* --- calls and answers --- */

#define ECHO "while True:\n    m = recv()\n    say(id=m['id'], result=m['params'])\n"

static void round_trip(void **state)
{
    (void)state;
    struct peer p;
    struct asked a, b, c;
    start(&p, PYTHON(ECHO));
    ask(&p, &a, "one", "{\"x\":[1,\"\xc3\xa9\xe2\x80\xa8\"]}");
    expect(&p, "one: result {\"x\":[1,\"\xc3\xa9\xe2\x80\xa8\"]}\n");
    ask(&p, &b, "two", NULL);
    expect(&p, "two: result {}\n");
    ask(&p, &c, "three", "\"\"");
    expect(&p, "three: result \"\"\n");
    stop(&p);
    assert_true(a.answers == 1 && b.answers == 1 && c.answers == 1);
}

static void what_a_call_looks_like(void **state)
{
    (void)state;
    struct peer p;
    struct asked a = {.name = "a"}, b = {.name = "b"};
    start(&p, PYTHON("while True:\n    m = recv()\n    say(id=m['id'], result=m)\n"));
    ask_for(&p, &a, "first", "{\"k\":\"v\"}", 0);
    b.peer = &p;
    b.request = (struct berth_rpc_request){
        .method = "second", .invocation_json = "{\"id\":\"i-1\"}", .on_reply = on_reply, .ctx = &b};
    on_loop(&p, do_call, &b);
    expect(&p, "a: result {\"id\":1,\"jsonrpc\":\"2.0\",\"method\":\"first\",\"params\":"
               "{\"k\":\"v\"}}\n"
               "b: result {\"id\":2,\"jsonrpc\":\"2.0\",\"method\":\"second\","
               "\"paperclipInvocation\":{\"id\":\"i-1\"},\"params\":{}}\n");
    stop(&p);
}

static void answers_out_of_order(void **state)
{
    (void)state;
    struct peer p;
    struct asked a, b, c;
    start(&p, PYTHON("all = [recv(), recv(), recv()]\n"
                     "for i in 2, 0, 1: say(id=all[i]['id'], result=all[i]['params'])\n"
                     "recv()\n"));
    ask(&p, &a, "a", "1");
    ask(&p, &b, "b", "2");
    ask(&p, &c, "c", "3");
    expect(&p, "c: result 3\na: result 1\nb: result 2\n");
    stop(&p);
}

static void answers_nobody_waits_for(void **state)
{
    (void)state;
    struct peer p;
    struct asked a, b;
    start(&p, PYTHON("recv()\n"
                     "say(id=7, result='early')\n"
                     "say(id='1', result='text')\n"
                     "say(id=None, error=dict(code=-32700, message='Parse error: x'))\n"
                     "say(id=1, result='first')\n"
                     "say(id=1, result='second')\n"
                     "say(id=1, error=dict(code=1, message='third'))\n"
                     "say(id=recv()['id'], result='next')\n"
                     "recv()\n"));
    ask(&p, &a, "a", NULL);
    expect(&p, "noise: received response for unknown request id | "
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
    ask(&p, &b, "b", NULL);
    expect(&p, "b: result \"next\"\n");
    stop(&p);
    assert_int_equal(a.answers, 1);
}

static void same_id_in_both_directions(void **state)
{
    (void)state;
    struct peer p;
    struct asked a;
    start(&p, PYTHON("m = recv()\n"
                     "say(id=m['id'], method='get', params={'of': 1})\n"
                     "first = recv()\n"
                     "say(id='s', method='get')\n"
                     "say(method='log', params=[])\n"
                     "say(id=m['id'], result=[first, recv()])\n"
                     "recv()\n"));
    ask(&p, &a, "a", NULL);
    expect(&p, "request get 1 {\"of\":1}\n"
               "request get \"s\" none\n"
               "notification log - []\n"
               "a: result [{\"id\":1,\"jsonrpc\":\"2.0\",\"result\":\"here\"},"
               "{\"id\":\"s\",\"jsonrpc\":\"2.0\",\"result\":\"here\"}]\n");
    stop(&p);
}

static void shapes_of_an_answer(void **state)
{
    (void)state;
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
    struct asked all[COUNT] = {0};
    struct peer p;
    start(&p, PYTHON("def answer(text): raw(b'{\"jsonrpc\":\"2.0\",\"id\":%d,%s}\\n' %"
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
        all[i].name = "m";
        ask_for(&p, &all[i], "m", NULL, 0);
        (void)snprintf(want, sizeof want, "m: %s\n", wants[i]);
        expect(&p, want);
    }
    stop(&p);
}

/* What libraries print is passed on, and nothing else happens. */
static void noise(void **state)
{
    (void)state;
    struct peer p;
    struct asked a;
    start(&p, PYTHON("recv()\n"
                     "raw(b'hello stdout noise\\n\\n   \\n\\r\\n\\t \\r\\n42\\n[]\\n')\n"
                     "raw(b'{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"m\"}\\n')\n"
                     "raw(b'{\"jsonrpc\":\"1.0\"}\\r\\n')\n"
                     "raw(b'{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"h\\xc3\"}\\r\\n')\n"
                     "recv()\n"));
    ask(&p, &a, "a", NULL);
    expect(&p, "noise: Invalid JSON: hello stdout noise | hello stdout noise\n"
               "noise: Message must be a JSON object | 42\n"
               "noise: Invalid or missing jsonrpc version (expected \"2.0\", got undefined) | []\n"
               "noise: unknown message type from worker | "
               "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"m\"}\n"
               "noise: Invalid or missing jsonrpc version (expected \"2.0\", got \"1.0\") | "
               "{\"jsonrpc\":\"1.0\"}\n"
               "a: result \"h\xef\xbf\xbd\"\n");
    stop(&p);
}

static void lines_in_any_pieces(void **state)
{
    (void)state;
    struct peer p;
    struct asked a, b;
    start(&p, PYTHON("one, two = line(id=recv()['id'], result=1), line(id=recv()['id'], result=2)\n"
                     "for byte in one[:-3]:\n"
                     "    raw(bytes([byte])); time.sleep(0.001)\n"
                     "raw(one[-3:] + b'\\n' + two[:5]); time.sleep(0.05); raw(two[5:])\n"
                     "recv()\n"));
    ask(&p, &a, "a", NULL);
    ask(&p, &b, "b", NULL);
    expect(&p, "a: result 1\nb: result 2\n");
    stop(&p);
}

static void stderr_is_handed_on(void **state)
{
    (void)state;
    struct peer p;
    struct asked a;
    start(&p, PYTHON("sys.stderr.write('one\\n'); sys.stderr.flush()\n"
                     "say(id=recv()['id'], result={})\n"
                     "sys.stderr.write('{\"jsonrpc\":\"2.0\"}' * 10000); sys.stderr.flush()\n"
                     "recv()\n"));
    ask(&p, &a, "a", NULL);
    expect(&p, "a: result {}\n");
    on_loop(&p, do_close, NULL);
    expect(&p, "end exited 0\n");
    expect_silence(&p);
    assert_int_equal(p.stderr_bytes.len, 4 + 17 * 10000);
    assert_memory_equal(p.stderr_bytes.data, "one\n{\"jsonrpc\":\"2.0\"}{", 22);
    let_go(&p);
}

/* A handler may call at once. */
static void one_call_after_the_other(void **state)
{
    (void)state;
    struct peer p;
    struct asked a = {.again = 499}, last;
    start(&p, PYTHON(ECHO));
    ask_for(&p, &a, "m", "1", 0);
    for (int i = 0; i < WAIT_S * 100 && pending(&p) > 0; i++)
        pause_ms(10);
    ask(&p, &last, "last", NULL);
    expect(&p, "last: result {}\n");
    stop(&p);
    assert_int_equal(a.answers, 500);
}

static void do_ask_many(struct peer *p, void *ctx)
{
    struct asked *all = ctx;
    for (int i = 0; i < 10000; i++) {
        char number[20];
        (void)snprintf(number, sizeof number, "%d", i);
        all[i].peer = p;
        all[i].request = (struct berth_rpc_request){.method = "m",
                                                    .params_json = number,
                                                    .timeout_ms = 60 * MINUTE_MS,
                                                    .on_reply = on_reply,
                                                    .ctx = &all[i]};
        berth_rpc_call(p->rpc, &all[i].request);
        all[i].request.params_json = NULL;
    }
}

static void ten_thousand_in_flight(void **state)
{
    (void)state;
    enum { MANY = 10000 };
    auto_free struct asked *all = calloc(MANY, sizeof *all);
    struct peer p;
    start(&p, PYTHON("all = [recv() for i in range(10000)]\n"
                     "all = all[5000:] + all[:5000][::-1]\n"
                     "raw(b''.join(line(id=m['id'], result=m['params']) for m in all))\n"
                     "say(method='done')\n"
                     "recv()\n"));
    on_loop(&p, do_ask_many, all);
    expect(&p, "notification done - none\n");
    for (int i = 0; i < MANY; i++)
        if (all[i].answers != 1 || all[i].reply.kind != BERTH_REPLY_RESULT || all[i].number != i)
            fail_msg("call %d: %d answers, the last %lld", i, all[i].answers,
                     (long long)all[i].number);
    stop(&p);
}

/* --- long lines --- */

static sem_t held, released;

static void hold_the_pool(void *ctx)
{
    (void)ctx;
    (void)sem_post(&held);
    while (sem_wait(&released) < 0 && errno == EINTR)
        ;
}

/* The pool has one thread: while it is held, no long line is read. */
static void hold(void)
{
    struct berth_error err;
    assert_int_equal(berth_pool_submit(pool, hold_the_pool, NULL, &err), BERTH_OK);
    while (sem_wait(&held) < 0 && errno == EINTR)
        ;
}

#define LONG_ANSWER                                                                                \
    "m = recv()\n"                                                                                 \
    "raw(line(method='before') + line(id=m['id'], result='x' * 200000) + line(method='after'))\n"

static void long_lines_keep_their_turn(void **state)
{
    (void)state;
    struct peer p;
    struct asked a, b;
    start(&p, PYTHON(LONG_ANSWER "say(id=recv()['id'], result='y' * 70000)\nrecv()\n"));
    hold();
    ask(&p, &a, "a", NULL);
    ask(&p, &b, "b", NULL);
    expect(&p, "notification before - none\n");
    expect_silence(
        &p); /* it waits for the pool, and so does what is behind it; the loop does not */
    (void)sem_post(&released);
    expect(&p, "a: result 200000 characters\nnotification after - none\n"
               "b: result 70000 characters\n");
    stop(&p);
}

/* Up to the limit a line is read on the loop. */
static void short_lines_do_not_wait_for_the_pool(void **state)
{
    (void)state;
    struct peer p;
    struct asked a, b;
    start(&p, PYTHON("limit = int(recv()['params'])\n"
                     "short = line(id=1, result='')\n"
                     "raw(line(id=1, result='x' * (limit - len(short) + 1)))\n"
                     "raw(line(id=recv()['id'], result='x' * (limit - len(short) + 2)))\n"
                     "recv()\n"));
    char limit[20];
    (void)snprintf(limit, sizeof limit, "%d", BERTH_MESSAGE_BYTES_SMALL);
    hold();
    ask(&p, &a, "a", limit);
    expect(&p, "a: result 65495 characters\n");
    ask(&p, &b, "b", NULL);
    expect_silence(&p);
    (void)sem_post(&released);
    expect(&p, "b: result 65496 characters\n");
    stop(&p);
}

/* Many in a row, some of them noise, with more than a pipe holds in between. */
static void long_lines_in_a_row(void **state)
{
    (void)state;
    struct peer p;
    struct asked all[20] = {0};
    auto_buf want = BERTH_BUF_INIT(1 << 16);
    start(&p, PYTHON("for m in [recv() for i in range(20)]:\n"
                     "    raw(b'{' + b' ' * 99999 + b'\\n')\n"
                     "    say(id=m['id'], result='x' * (100000 + m['id']))\n"
                     "    say(method='small', params=m['id'])\n"
                     "recv()\n"));
    for (int i = 0; i < 20; i++) {
        all[i].name = "m";
        ask_for(&p, &all[i], "m", NULL, 0);
        berth_buf_printf(&want, "noise: Invalid JSON: {%199s | {%59s\n", "", "");
        berth_buf_printf(&want, "m: result %d characters\nnotification small - %d\n",
                         100000 + i + 1, i + 1);
    }
    expect(&p, berth_buf_str(&want));
    stop(&p);
}

/* Its end waits for what it has said. */
static void end_behind_a_long_line(void **state)
{
    (void)state;
    struct peer p;
    struct asked a, b;
    start(&p, PYTHON(LONG_ANSWER "recv()\nos._exit(3)\n"));
    hold();
    ask(&p, &a, "a", NULL);
    ask(&p, &b, "b", NULL);
    expect(&p, "notification before - none\n");
    expect_silence(&p);
    (void)sem_post(&released);
    expect(&p, "a: result 200000 characters\nnotification after - none\nend exited 3\n"
               "b: gone -32000 It was: exited 3\n");
    let_go(&p);
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
    (void)state;
    struct peer p;
    struct asked a, b;
    prepare(&p, PYTHON(LONG_ANSWER "open('/proc/self/comm', 'w').write('written')\n"
                                   "recv()\nrecv()\n"));
    p.options.linger_ms = 100;
    on_loop(&p, do_start, NULL);
    hold();
    ask(&p, &a, "a", NULL);
    ask(&p, &b, "b", NULL);
    expect(&p, "notification before - none\n");
    await_name(&p, "written");
    expect_silence(&p); /* what the pipe still held has been read, too */
    on_loop(&p, do_cancel, NULL);
    pause_ms(500); /* it has ended, and nobody waits for its pipes any more */
    expect_silence(&p);
    (void)sem_post(&released);
    expect(&p, "a: result 200000 characters\n");
    for (int i = 0; i < WAIT_S * 100 && pending(&p) > 0; i++)
        pause_ms(10);
    assert_int_equal(b.answers, 1);
    assert_int_equal(b.reply.kind, BERTH_REPLY_GONE);
    p.seen = p.heard.len; /* whether "after" was heard depends on where the pipe was cut */
    let_go(&p);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* Longer than any message may be: its length is told, and the next is whole. */
static void much_too_long_a_line(void **state)
{
    (void)state;
    struct peer p;
    struct asked a, b;
    start(&p, PYTHON("m = recv()\n"
                     "for i in range(129): raw(b'x' * 1048576)\n"
                     "raw(b'\\n' + line(id=m['id'], result=1))\n"
                     "say(id=recv()['id'], result='x' * (100 * 1048576))\n"
                     "recv()\n"));
    ask(&p, &a, "a", NULL);
    expect(&p, "noise: a line of 135266304 bytes was dropped\na: result 1\n");
    ask(&p, &b, "b", NULL);
    expect(&p, "b: result 104857600 characters\n");
    stop(&p);
}

static void much_too_long_a_call(void **state)
{
    (void)state;
    struct peer p;
    struct asked a, b;
    auto_free char *params = malloc((size_t)BERTH_MESSAGE_BYTES_MAX + 3);
    memset(params, 'x', (size_t)BERTH_MESSAGE_BYTES_MAX + 2);
    params[0] = params[BERTH_MESSAGE_BYTES_MAX + 1] = '"';
    params[BERTH_MESSAGE_BYTES_MAX + 2] = '\0';
    start(&p,
          PYTHON("while True:\n    m = recv()\n    say(id=m['id'], result=len(m['params']))\n"));
    ask(&p, &a, "a", params);
    expect(&p, "a: unsent -32000 The call is too long for one message.\n");
    (void)strcpy(params + 30000000, "\"");
    ask(&p, &b, "b", params);
    expect(&p, "b: result 29999999\n");
    stop(&p);
}
#endif

/* --- time --- */

static void calls_time_out_by_the_moved_clock(void **state)
{
    (void)state;
    struct peer p;
    struct asked soon = {.name = "soon"}, later = {.name = "later"}, never, other;
    start(&p, PYTHON("soon, later, never = recv(), recv(), recv()\n"
                     "say(id=recv()['id'], result={})\n"
                     "for m in soon, later, never: say(id=m['id'], result='late')\n"
                     "recv()\n"));
    ask_for(&p, &soon, "slow \"one\"", NULL, 5 * MINUTE_MS);
    ask_for(&p, &later, "slower", NULL, 10 * MINUTE_MS);
    ask(&p, &never, "never", NULL);
    berth_time_shift(0, 4 * MINUTE_MS);
    expect_silence(&p);
    berth_time_shift(0, 2 * MINUTE_MS);
    expect(&p, "soon: timeout -32003 RPC call \"slow \"one\"\" timed out after 300000ms\n");
    assert_int_equal(pending(&p), 2);
    expect_silence(&p);
    berth_time_shift(0, 5 * MINUTE_MS);
    expect(&p, "later: timeout -32003 RPC call \"slower\" timed out after 600000ms\n");
    berth_time_shift(0, 24 * 60 * MINUTE_MS);
    expect_silence(&p);
    ask(&p, &other, "other", NULL);
    expect(&p, "other: result {}\n"
               "noise: received response for unknown request id | "
               "{\"id\": 1, \"result\": \"late\", \"jsonrpc\": \"2.0\"}\n"
               "noise: received response for unknown request id | "
               "{\"id\": 2, \"result\": \"late\", \"jsonrpc\": \"2.0\"}\n"
               "never: result \"late\"\n");
    stop(&p);
}

/* One that was answered does not time out any more. */
static void answered_calls_have_no_time(void **state)
{
    (void)state;
    struct peer p;
    struct asked a = {.name = "a"};
    start(&p, PYTHON(ECHO));
    ask_for(&p, &a, "m", NULL, MINUTE_MS);
    expect(&p, "a: result {}\n");
    berth_time_shift(0, 5 * MINUTE_MS);
    expect_silence(&p);
    stop(&p);
    assert_int_equal(a.answers, 1);
}

/* --- the end --- */

static void child_that_dies_answers_all(void **state)
{
    (void)state;
    struct peer p;
    struct asked all[100] = {0}, late;
    start(&p, PYTHON("recv(); recv(); os._exit(7)\n"));
    for (int i = 0; i < 100; i++)
        ask_for(&p, &all[i], "m", NULL, i % 2 ? MINUTE_MS : 0);
    expect(&p, "end exited 7\n");
    assert_int_equal(pending(&p), 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(all[i].answers, 1);
        assert_int_equal(all[i].reply.code, BERTH_RPC_UNAVAILABLE);
        if (all[i].reply.kind != BERTH_REPLY_GONE) /* those that came after its end */
            assert_int_equal(all[i].reply.kind, BERTH_REPLY_UNSENT);
    }
    assert_int_equal(all[0].reply.kind, BERTH_REPLY_GONE);
    berth_time_shift(0, 5 * MINUTE_MS);
    ask(&p, &late, "late", NULL);
    expect(&p, "late: unsent -32000 The worker has ended.\n");
    let_go(&p);
}

static void killed_child_answers_too(void **state)
{
    (void)state;
    struct peer p;
    struct asked a;
    start(&p, PYTHON("recv(); os.kill(os.getpid(), 9)\n"));
    ask(&p, &a, "a", NULL);
    expect(&p, "end signalled 9\na: gone -32000 It was: signalled 9\n");
    let_go(&p);
}

/* Who calls again when it hears of the end is told at once, and only once. */
static void calling_again_from_the_end(void **state)
{
    (void)state;
    struct peer p;
    struct asked a = {.name = "a", .again = 1};
    start(&p, PYTHON("recv(); os._exit(0)\n"));
    ask_for(&p, &a, "m", NULL, MINUTE_MS);
    expect(&p, "end exited 0\na: unsent -32000 The worker has ended.\n"
               "a: gone -32000 It was: exited 0\n");
    let_go(&p);
    assert_int_equal(a.answers, 2);
}

static void last_words_are_heard(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct peer p;
        struct asked a, b;
        start(&p, PYTHON("m = recv(); recv()\n"
                         "raw(line(id=m['id'], result='x' * 50000) + line(method='bye'))\n"
                         "os._exit(4)\n"));
        ask(&p, &a, "a", NULL);
        ask(&p, &b, "b", NULL);
        expect(&p, "a: result 50000 characters\nnotification bye - none\nend exited 4\n"
                   "b: gone -32000 It was: exited 4\n");
        let_go(&p);
    }
}

static void grandchild_that_holds_the_pipe(void **state)
{
    (void)state;
    struct peer p;
    struct asked a = {0};
    struct timespec from, to;
    prepare(&p, SH("read line; sleep 300 & echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":'$!'}';"
                   " exit 5"));
    p.options.linger_ms = 200;
    on_loop(&p, do_start, NULL);
    (void)clock_gettime(CLOCK_MONOTONIC, &from);
    ask_for(&p, &a, "m", NULL, 0);
    expect(&p, "end exited 5\n");
    (void)clock_gettime(CLOCK_MONOTONIC, &to);
    assert_in_range(to.tv_sec - from.tv_sec, 0, 30);
    assert_int_equal(a.answers, 1);
    for (int i = 0; i < 1000 && kill((pid_t)a.number, 0) == 0; i++)
        pause_ms(10);
    assert_int_equal(kill((pid_t)a.number, 0), -1);
    let_go(&p);
}

static void programs_that_cannot_be_started(void **state)
{
    (void)state;
    struct peer p;
    prepare(&p, (const char *const[]){"no-such-program", NULL});
    on_loop(&p, do_start, NULL);
    assert_int_equal(p.start_code, BERTH_E_NOT_FOUND);
    assert_null(p.rpc);
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

/* What waits for it has a bound; what goes beyond is refused, and takes no memory. */
static void child_that_never_reads(void **state)
{
    (void)state;
    enum { SIZE = 16 * 1024 * 1024, FIT = BERTH_MESSAGES_QUEUED_MAX / SIZE - 1, MORE = 60 };
    struct asked sent[FIT] = {0}, more[MORE] = {0};
    auto_free char *params = malloc(SIZE + 1);
    memset(params, 'x', SIZE);
    params[0] = params[SIZE - 1] = '"';
    params[SIZE] = '\0';
    struct peer p;
    start(&p, SH("exec sleep 300"));
    for (int i = 0; i < FIT; i++)
        ask_for(&p, &sent[i], "m", params, 0);
    assert_int_equal(pending(&p), FIT);
    long before = resident_mib();
    for (int i = 0; i < MORE; i++) {
        ask_for(&p, &more[i], "m", params, MINUTE_MS);
        on_loop(&p, do_send, params);
        assert_int_equal(more[i].answers, 1);
        assert_int_equal(more[i].reply.kind, BERTH_REPLY_UNSENT);
        assert_int_equal(more[i].reply.code, BERTH_RPC_UNAVAILABLE);
    }
    assert_int_equal(pending(&p), FIT);
    assert_true(resident_mib() - before < 600); /* of 1920; sanitizers keep some of what is freed */
    struct asked small, late;
    ask(&p, &small, "small", NULL); /* there is still room for it */
    assert_int_equal(pending(&p), FIT + 1);
    more[0].name = "big";
    more[0].answers = 0;
    ask_for(&p, &more[0], "m", params, 0);
    expect(&p, "big: unsent -32000 The worker does not read what it is sent.\n");
    on_loop(&p, do_cancel, NULL);
    expect(&p, "end cancelled 15\n");
    assert_int_equal(pending(&p), 0);
    for (int i = 0; i < FIT; i++)
        assert_true(sent[i].answers == 1 && sent[i].reply.kind == BERTH_REPLY_GONE);
    expect(&p, "small: gone -32000 It was: cancelled 15\n");
    ask(&p, &late, "late", NULL);
    expect(&p, "late: unsent -32000 The worker has ended.\n");
    let_go(&p);
}

/* One that only reads late gets all of it, in order and whole. */
static void child_that_reads_late(void **state)
{
    (void)state;
    enum { COUNT = 60, SIZE = 200000 };
    struct asked all[COUNT] = {0}, last;
    auto_free char *params = malloc(SIZE + 1);
    memset(params, 'x', SIZE);
    params[0] = params[SIZE - 1] = '"';
    params[SIZE] = '\0';
    struct peer p;
    start(&p, PYTHON("time.sleep(0.3)\n"
                     "for i in range(1, 61):\n"
                     "    m = recv()\n"
                     "    say(id=m['id'], result=m['id'] if m['id'] == i"
                     " and m['params'] == 'x' * 199998 else 0)\n"
                     "say(id=recv()['id'], result='all')\n"
                     "recv()\n"));
    for (int i = 0; i < COUNT; i++)
        ask_for(&p, &all[i], "m", params, 0);
    ask(&p, &last, "last", NULL);
    expect(&p, "last: result \"all\"\n");
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(all[i].number, i + 1);
    stop(&p);
}

/* --- one that is confined --- */

static void confined_child_speaks_as_any_other(void **state)
{
    (void)state;
    static const char *const readable[] = {"/usr", "/lib", "/lib64", "/bin", "/etc", NULL};
    static const char *const none[] = {NULL};
    struct berth_confine_request request = {
        .readable = readable, .writable = none, .reachable = none, .uid = 60123};
    struct berth_confinement c;
    struct peer p;
    struct asked a;
#ifdef __SANITIZE_THREAD__
    skip(); /* it takes the clone of a confined child for a fork, and gives up on the thread */
#endif
    prepare(&p, PYTHON("recv()\n"
                       "try: open('/proc/self/status'); seen = True\n"
                       "except OSError: seen = False\n"
                       "say(id=1, result=[seen, os.getuid()])\n"
                       "recv()\n"));
    assert_ok(&p, berth_confine_open(&request, &c, &p.err));
    p.options.confinement = &c;
    on_loop(&p, do_start, NULL);
    assert_ok_at(p.start_code, &p.err, "berth_rpc_start", __FILE__, __LINE__);
    char want[100];
    (void)snprintf(want, sizeof want, "a: result [%s,%d]\n", c.ruleset_fd < 0 ? "true" : "false",
                   geteuid() == 0 ? 60123 : (int)getuid());
    berth_confine_close(&c);
    ask(&p, &a, "a", NULL);
    expect(&p, want);
    stop(&p);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(what_a_call_looks_like),
        cmocka_unit_test(answers_out_of_order),
        cmocka_unit_test(answers_nobody_waits_for),
        cmocka_unit_test(same_id_in_both_directions),
        cmocka_unit_test(shapes_of_an_answer),
        cmocka_unit_test(noise),
        cmocka_unit_test(lines_in_any_pieces),
        cmocka_unit_test(stderr_is_handed_on),
        cmocka_unit_test(one_call_after_the_other),
        cmocka_unit_test(ten_thousand_in_flight),
        cmocka_unit_test(long_lines_keep_their_turn),
        cmocka_unit_test(short_lines_do_not_wait_for_the_pool),
        cmocka_unit_test(long_lines_in_a_row),
        cmocka_unit_test(end_behind_a_long_line),
        cmocka_unit_test(cancelled_behind_a_long_line),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        cmocka_unit_test(much_too_long_a_line),
        cmocka_unit_test(much_too_long_a_call),
#endif
        cmocka_unit_test(calls_time_out_by_the_moved_clock),
        cmocka_unit_test(answered_calls_have_no_time),
        cmocka_unit_test(child_that_dies_answers_all),
        cmocka_unit_test(killed_child_answers_too),
        cmocka_unit_test(calling_again_from_the_end),
        cmocka_unit_test(last_words_are_heard),
        cmocka_unit_test(grandchild_that_holds_the_pipe),
        cmocka_unit_test(programs_that_cannot_be_started),
        cmocka_unit_test(child_that_never_reads),
        cmocka_unit_test(child_that_reads_late),
        cmocka_unit_test(confined_child_speaks_as_any_other),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("rpc", tests, open_all, close_all);
}
