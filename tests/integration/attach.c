/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/attach.c - running commands by a WebSocket: what they write and what is written
 * to them, terminals, clients who are late, slow, gone or many. */
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/state.h"
#include "asking.h"
#include "base/auto.h"
#include "base/time.h"
#include "core/run/exec_rows.h"
#include "http/http.h"
#include "wsclient.h"

#define BEAT_MS 11000 /* a little more than one */

/* --- help --- */

static const char *local_lease(struct fixture *f)
{
    const char *e = ask_environment(f, "{'name':'here','driver':'local'}");
    struct reply r = ask(f, "POST", text_of(f, "/api/environments/%s/leases", e), "{}");
    assert_int_equal(r.status, 201);
    return reply_text(f, &r, "id");
}

static const char *start_in(struct fixture *f, const char *lease, const char *body)
{
    struct reply r = ask(f, "POST", text_of(f, "/api/environment-leases/%s/exec", lease), body);
    if (r.status != 202)
        fail_msg("%d %s", r.status, r.body);
    return reply_text(f, &r, "execId");
}

static const char *start(struct fixture *f, const char *body)
{
    return start_in(f, local_lease(f), body);
}

#define CAT "{'command':'cat','keepStdin':true,'detach':true}"

static int try_attach(struct fixture *f, struct ws *ws, const char *id, const char *query)
{
    return ws_open(ws, dial(f), text_of(f, "/api/execs/%s/attach%s", id, query), WS_HANDSHAKE);
}

static void attach_from(struct fixture *f, struct ws *ws, const char *id, unsigned long long offset)
{
    assert_int_equal(try_attach(f, ws, id, text_of(f, "?offset=%llu", offset)), 101);
    ws_expect(ws, WS_TEXT,
              text_of(f, "{'type':'started','execId':'%s','offset':%llu}", id, offset));
}

static void attach(struct fixture *f, struct ws *ws, const char *id)
{
    attach_from(f, ws, id, 0);
}

/* All that comes, to the end. */
struct heard {
    struct berth_buf output[2];
    char end[1000], dropped[1000]; /* the messages of these types; "": there was none */
    int errors, code;
};

static void take(struct heard *h, const struct ws *ws)
{
    const char *text = berth_buf_str(&ws->data);
    if (ws->opcode == WS_BINARY) {
        assert_true(text[0] == 1 || text[0] == 2);
        berth_buf_append(&h->output[text[0] - 1], text + 1, ws->data.len - 1);
    } else if (ws->opcode == WS_TEXT && strncmp(text, "{\"type\":\"end\"", 13) == 0) {
        (void)snprintf(h->end, sizeof h->end, "%s", text);
    } else if (ws->opcode == WS_TEXT && strncmp(text, "{\"type\":\"dropped\"", 17) == 0) {
        (void)snprintf(h->dropped, sizeof h->dropped, "%s", text);
    } else if (ws->opcode == WS_TEXT) {
        assert_int_equal(strncmp(text, "{\"type\":\"error\"", 15), 0);
        h->errors++;
    }
}

static void hear(struct ws *ws, struct heard *h)
{
    *h = (struct heard){.output = {BERTH_BUF_INIT(64 << 20), BERTH_BUF_INIT(64 << 20)}};
    do {
        assert_true(ws_next(ws));
        take(h, ws);
    } while (ws->opcode != WS_CLOSE);
    h->code = ws_code(ws);
    assert_false(ws_next(ws));
    ws_close(ws);
}

static void forget(struct heard *h)
{
    berth_buf_clear(&h->output[0]);
    berth_buf_clear(&h->output[1]);
}

/* Until the output, all in all, has this text. */
static void await_text(struct ws *ws, const char *text)
{
    auto_buf all = BERTH_BUF_INIT(1 << 20);
    while (!strstr(berth_buf_str(&all), text)) {
        assert_true(ws_next(ws));
        if (ws->opcode == WS_BINARY)
            berth_buf_append(&all, ws->data.data + 1, ws->data.len - 1);
    }
}

static struct reply exec_of(struct fixture *f, const char *id)
{
    return ask(f, "GET", text_of(f, "/api/execs/%s", id), NULL);
}

static bool has_ended(struct fixture *f, const char *id)
{
    struct reply r = exec_of(f, id);
    return strcmp(reply_text(f, &r, "status"), "ended") == 0;
}

static int streams(void)
{
    return (int)berth_http_server_stats(asked_api->server).streams;
}

static void cancel(struct fixture *f, const char *id)
{
    assert_int_equal(ask(f, "POST", text_of(f, "/api/execs/%s/cancel", id), NULL).status, 202);
}

/* --- both ways --- */

static void an_echo(void **state)
{
    struct fixture *f = *state;
    struct ws ws;
    struct heard h;
    const char *lease = local_lease(f), *id = start_in(f, lease, CAT);
    attach(f, &ws, id);
    ws_send(&ws, WS_BINARY, "one\n", 4);
    ws_expect(&ws, WS_BINARY, "\001one\n");
    ws_send(&ws, WS_BINARY, "\xff\n", 2);
    ws_expect(&ws, WS_BINARY, "\001\xff\n");
    ws_send(&ws, WS_BINARY, "", 0);
    ws_send(&ws, WS_PING, "?", 1);
    ws_expect(&ws, WS_PONG, "?");
    ws_say(&ws, "{'type':'closeStdin'}");
    hear(&ws, &h);
    assert_int_equal(h.code, 1000);
    assert_non_null(strstr(h.end, text_of(f, "\"execId\":\"%s\",\"result\":{", id)));
    assert_non_null(strstr(h.end, "\"exitCode\":0"));
    assert_int_equal(h.output[0].len + h.output[1].len, 0);
    assert_string_equal(ask(f, "GET", text_of(f, "/api/execs/%s/log", id), NULL).body,
                        "one\n\xff\n");
    /* The other stream, and how it ended. */
    id = start_in(f, lease,
                  "{'command':'sh','args':['-c','read x; echo $x; echo $x >&2; exit 3'],"
                  "'keepStdin':true,'detach':true}");
    attach(f, &ws, id);
    ws_send(&ws, WS_BINARY, "both\n", 5);
    hear(&ws, &h);
    assert_string_equal(berth_buf_str(&h.output[0]), "both\n");
    assert_string_equal(berth_buf_str(&h.output[1]), "both\n");
    assert_non_null(strstr(h.end, "\"exitCode\":3"));
    forget(&h);
}

/* What a client says in the same breath as the handshake is answered after `started`. */
static void started_is_the_first(void **state)
{
    struct fixture *f = *state;
    struct ws ws;
    const char *id = start(f, CAT), *path = text_of(f, "/api/execs/%s/attach", id);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(ws_open_saying(&ws, dial(f), path, WS_HANDSHAKE, "{"), 101);
        ws_expect(&ws, WS_TEXT, text_of(f, "{'type':'started','execId':'%s','offset':0}", id));
        assert_true(ws_next(&ws));
        assert_int_equal(strncmp(berth_buf_str(&ws.data), "{\"type\":\"error\"", 15), 0);
        ws_close(&ws);
    }
    assert_int_equal(ws_open_saying(&ws, dial(f), path, WS_HANDSHAKE, "{\"type\":\"closeStdin\"}"),
                     101);
    struct heard h;
    ws_expect(&ws, WS_TEXT, text_of(f, "{'type':'started','execId':'%s','offset':0}", id));
    hear(&ws, &h);
    assert_int_equal(h.code, 1000);
    assert_non_null(strstr(h.end, "\"exitCode\":0"));
    forget(&h);
}

static void a_terminal(void **state)
{
    struct fixture *f = *state;
    struct ws ws;
    struct heard h;
    const char *id =
        start(f, "{'command':'sh','args':['-c','stty size; while read x; do stty size; done'],"
                 "'terminal':true,'rows':30,'columns':100,'detach':true}");
    attach(f, &ws, id);
    await_text(&ws, "30 100");
    ws_say(&ws, "{'type':'resize','rows':51,'columns':133}");
    ws_send(&ws, WS_BINARY, "\n", 1);
    await_text(&ws, "51 133");
    ws_send(&ws, WS_BINARY, "\004", 1); /* end of input, as it is typed */
    hear(&ws, &h);
    assert_int_equal(h.code, 1000);
    assert_non_null(strstr(h.end, "\"exitCode\":0"));
    forget(&h);
}

static void wishes_that_cannot_be_granted(void **state)
{
    struct fixture *f = *state;
    struct ws ws;
    static const struct {
        const char *text, *answer;
    } cases[] = {
        {"{'type':'resize','rows':0,'columns':80}", "{'type':'error','error':'rows and columns are "
                                                    "numbers from 1 to 10000.','code':'invalid'}"},
        {"{'type':'resize','rows':24}", "{'type':'error','error':'rows and columns are numbers "
                                        "from 1 to 10000.','code':'invalid'}"},
        {"{'type':'resize','rows':24,'columns':80,'x':1}",
         "{'type':'error','error':'resize has a key that is not known.','code':'invalid'}"},
        {"{'type':'cancel','now':true}",
         "{'type':'error','error':'cancel has a key that is not known.','code':'invalid'}"},
        {"{'type':'wish'}", NULL},
        {"{'type':1}", NULL},
        {"{}", NULL},
        {"[1]", NULL},
        {"hello", NULL},
        {"", NULL},
    };
    /* It outlives its input: one that ends with it may be gone before the late bytes come. */
    const char *lease = local_lease(f), *id = start_in(f, lease,
                                                       "{'command':'sleep','args':['60'],"
                                                       "'keepStdin':true,'detach':true,"
                                                       "'graceMs':100}");
    attach(f, &ws, id);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ws_say(&ws, cases[i].text);
        if (cases[i].answer) {
            ws_expect(&ws, WS_TEXT, cases[i].answer);
            continue;
        }
        assert_true(ws_next(&ws));
        assert_non_null(strstr(ws.data.data, "{\"type\":\"error\",\"error\":\""));
        assert_non_null(strstr(ws.data.data, "\"code\":\"invalid\"}"));
    }
    char much[5000];
    memset(much, ' ', sizeof much);
    ws_send(&ws, WS_TEXT, much, sizeof much);
    ws_expect(&ws, WS_TEXT,
              "{'type':'error','error':'A text message has at most 4096 bytes.',"
              "'code':'too_large'}");
    ws_say(&ws, "{'type':'closeStdin'}");
    ws_send(&ws, WS_BINARY, "late", 4);
    ws_expect(&ws, WS_TEXT,
              "{'type':'error','error':'The standard input is closed.','code':'conflict'}");
    ws_say(&ws, "{'type':'cancel'}");
    assert_int_equal(ws_await_close(&ws), 1000);
    ws_close(&ws);
    /* One that was started without it has none. */
    id = start_in(f, lease, "{'command':'sleep','args':['60'],'detach':true,'graceMs':100}");
    attach(f, &ws, id);
    ws_send(&ws, WS_BINARY, "x", 1);
    ws_expect(&ws, WS_TEXT,
              "{'type':'error','error':'The standard input is closed.','code':'conflict'}");
    ws_say(&ws, "{'type':'cancel'}");
    struct heard h;
    hear(&ws, &h);
    assert_non_null(strstr(h.end, "\"cause\":\"cancelled\""));
    forget(&h);
}

/* Whoever does not read holds up whoever writes to him, and nobody else. */
static void input_waits_for_the_command(void **state)
{
    struct fixture *f = *state;
    enum { LEN = 50000, COUNT = 200 };
    struct ws ws, other;
    struct heard h;
    auto_free char *data = malloc(LEN);
    memset(data, 'x', LEN);
    auto_buf one = BERTH_BUF_INIT(LEN + 100);
    ws_frame(&one, 0x80 | WS_BINARY, data, LEN);
    const char *go = text_of(f, "%s/go", f->directory);
    const char *id = start(f, text_of(f,
                                      "{'command':'sh','args':['-c','until test -e %s; do sleep "
                                      "0.05; done; wc -c'],'keepStdin':true,'detach':true}",
                                      go));
    attach(f, &ws, id);
    attach(f, &other, id);
    size_t sent = ws_push(&ws, one.data, one.len, 16 << 20);
    assert_in_range(sent, 1024 * 1024, 4 * 1024 * 1024);
    ws_send(&other, WS_PING, "?", 1);
    ws_expect(&other, WS_PONG, "?");
    assert_int_equal(mkdir(go, 0700), 0);
    size_t left = one.len - sent % one.len, count = sent / one.len + 1;
    assert_int_equal(ws_push(&ws, one.data + one.len - left, left, left), left);
    for (; count < COUNT; count++)
        ws_send(&ws, WS_BINARY, data, LEN);
    ws_say(&ws, "{'type':'closeStdin'}");
    hear(&ws, &h);
    assert_string_equal(berth_buf_str(&h.output[0]), text_of(f, "%d\n", LEN * COUNT));
    assert_int_equal(h.errors, 0);
    forget(&h);
    hear(&other, &h);
    assert_string_equal(berth_buf_str(&h.output[0]), text_of(f, "%d\n", LEN * COUNT));
    forget(&h);
}

/* What is on its way when the command ends is lost, and that is told. */
static void input_for_one_that_ends(void **state)
{
    struct fixture *f = *state;
    struct ws ws;
    struct heard h;
    auto_free char *data = calloc(1, 1024 * 1024);
    const char *id =
        start(f, "{'command':'sleep','args':['60'],'keepStdin':true,'detach':true,'graceMs':100}");
    attach(f, &ws, id);
    for (int i = 0; i < 2; i++)
        ws_send(&ws, WS_BINARY, data, 1024 * 1024);
    pause_ms(500); /* all of it has come, and waits */
    cancel(f, id);
    hear(&ws, &h);
    assert_int_equal(h.code, 1000);
    assert_int_equal(h.errors, 1);
    assert_non_null(strstr(h.end, "\"cause\":\"cancelled\""));
    forget(&h);
}

/* --- late and slow ones --- */

static void late_ones_hear_every_byte(void **state)
{
    struct fixture *f = *state;
    struct ws ws;
    struct heard h;
    const char *id =
        start(f, "{'command':'sh','args':['-c','seq 1 30000; read x; seq 30001 60000; read x'],"
                 "'keepStdin':true,'detach':true}");
    auto_buf all = BERTH_BUF_INIT(1 << 20);
    for (int i = 1; i <= 60000; i++)
        berth_buf_printf(&all, "%d\n", i);
    static const unsigned offsets[] = {0, 1, 100000, 168894, 250000};
    enum { COUNT = sizeof offsets / sizeof offsets[0] };
    struct ws early[COUNT];
    pause_ms(100);
    for (int i = 0; i < COUNT; i++) /* some behind what there is */
        attach_from(f, &early[i], id, offsets[i]);
    ws_send(&early[0], WS_BINARY, "\n", 1);
    for (int i = 0; i < COUNT; i++)
        attach_from(f, &ws, id, offsets[i]), ws_close(&ws);
    ws_send(&early[1], WS_BINARY, "\n", 1);
    for (int i = 0; i < COUNT; i++) {
        hear(&early[i], &h);
        assert_int_equal(h.output[0].len, all.len - offsets[i]);
        assert_memory_equal(h.output[0].data, all.data + offsets[i], h.output[0].len);
        assert_int_equal(h.code, 1000);
        forget(&h);
    }
    for (int i = 0; i < COUNT; i++) { /* it has ended: its log has the rest */
        attach_from(f, &ws, id, offsets[i]);
        hear(&ws, &h);
        assert_int_equal(h.output[0].len, all.len - offsets[i]);
        assert_memory_equal(h.output[0].data, all.data + offsets[i], h.output[0].len);
        assert_non_null(strstr(h.end, "\"exitCode\":0"));
        assert_int_equal(h.code, 1000);
        forget(&h);
    }
}

/* Two beats without a byte that goes: he is let go, and comes back. */
static void who_does_not_read_is_let_go(void **state)
{
    struct fixture *f = *state;
    struct ws ws;
    struct heard h;
    const char *id = start(f, "{'command':'seq','args':['1','300000'],'detach':true}");
    attach(f, &ws, id);
    pause_ms(300);
    for (int i = 0; i < 3 && streams(); i++) {
        berth_time_shift(0, BEAT_MS);
        pause_ms(300);
    }
    hear(&ws, &h);
    assert_int_equal(h.code, 1008);
    assert_non_null(strstr(h.dropped, "\"reason\":\"The reader did not follow"));
    assert_string_equal(h.end, "");
    size_t had = h.output[0].len;
    assert_non_null(strstr(h.dropped, text_of(f, "\"offset\":%zu}", had)));
    forget(&h);
    attach_from(f, &ws, id, had);
    hear(&ws, &h);
    assert_int_equal(had + h.output[0].len, 1988895); /* of seq 1 300000 */
    assert_int_equal(h.code, 1000);
    forget(&h);
}

static void who_does_not_answer_is_let_go(void **state)
{
    struct fixture *f = *state;
    struct ws silent, awake;
    struct heard h;
    const char *id = start(f, CAT);
    attach(f, &silent, id);
    attach(f, &awake, id);
    for (int i = 0; i < 3; i++) {
        berth_time_shift(0, BEAT_MS);
        do
            assert_true(ws_next(&awake));
        while (awake.opcode != WS_PING);
        ws_send(&awake, WS_PONG, "", 0);
        pause_ms(100);
    }
    hear(&silent, &h);
    assert_int_equal(h.code, 1008);
    assert_non_null(strstr(h.dropped, "\"offset\":0}"));
    forget(&h);
    ws_send(&awake, WS_BINARY, "x", 1);
    ws_expect(&awake, WS_BINARY, "\001x");
    ws_close(&awake);
    cancel(f, id);
}

/* --- those who leave --- */

static void leaving_is_noticed(void **state)
{
    struct fixture *f = *state;
    struct ws ws;
    const char *id = start(f, CAT);
    attach(f, &ws, id);
    assert_int_equal(streams(), 1);
    ws_close(&ws); /* without a word */
    WAIT_FOR(streams() == 0);
    attach(f, &ws, id);
    ws_send(&ws, WS_CLOSE, "\x0f\xa0", 2);
    assert_int_equal(ws_await_close(&ws), 4000);
    ws_close(&ws);
    WAIT_FOR(streams() == 0);
    assert_false(has_ended(f, id));
    assert_int_equal(try_attach(f, &ws, id, "?cancel=true"), 101);
    ws_close(&ws);
    WAIT_FOR(has_ended(f, id));
    struct reply r = exec_of(f, id);
    assert_string_equal(reply_text(f, &r, "cause"), "cancelled");
}

static int threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    (void)closedir(dir);
    return count;
}

/* All hear all, whoever says it; and all hear that the server ends. */
static void many_at_once(void **state)
{
    struct fixture *f = *state;
    enum { COUNT = 500 };
    auto_free struct ws *all = calloc(COUNT, sizeof *all);
    const char *id = start(f, CAT);
    int most = 0;
    for (int i = 0; i < COUNT; i++) {
        attach(f, &all[i], id);
        int now = threads();
        most = now > most && i > COUNT / 2 ? now : most;
    }
    assert_int_equal(streams(), COUNT);
    for (int i = 0; i < 3; i++) {
        const char *text = text_of(f, "by %d", i);
        ws_send(&all[i], WS_BINARY, text, strlen(text));
        for (int k = 0; k < COUNT; k++)
            ws_expect(&all[k], WS_BINARY, text_of(f, "\001%s", text));
    }
    assert_in_range(most, 1, 60); /* of pools, however many are attached */
    berth_api_close(asked_api, 500);
    asked_api = NULL;
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(ws_await_close(&all[i]), 1001);
        ws_close(&all[i]);
    }
}

/* That the server ends is no wish of his: the command has its grace. */
static void ending_is_not_leaving(void **state)
{
    struct fixture *f = *state;
    struct ws ws;
    struct berth_exec_record *record;
    const char *id =
        start(f, "{'command':'sh','args':['-c','echo here; sleep 1; exit 5'],'detach':true}");
    assert_int_equal(try_attach(f, &ws, id, "?cancel=true"), 101);
    await_text(&ws, "here");
    berth_api_close(asked_api, 20000);
    asked_api = NULL;
    assert_int_equal(ws_await_close(&ws), 1001);
    ws_close(&ws);
    assert_ok(f, berth_exec_rows_get(f->b, &f->arena, id, &record, &f->err));
    assert_int_equal(record->end.cause, BERTH_END_EXITED);
    assert_int_equal(record->end.exit_code, 5);
}

/* --- those who are not let in --- */

static void refusals(void **state)
{
    struct fixture *f = *state;
    struct ws ws;
    const char *id = start(f, CAT), *path = text_of(f, "/api/execs/%s/attach", id);
    struct reply r = ask(f, "GET", path, NULL);
    expect_error(f, r, 426, "invalid",
                 "This is for a WebSocket: ask for it by Connection and Upgrade.");
    assert_non_null(strstr(r.head, "\r\nUpgrade: websocket"));
    assert_non_null(strstr(r.head, "\r\nSec-WebSocket-Version: 13"));
    assert_int_equal(ask(f, "POST", path, NULL).status, 405);
    assert_int_equal(ask_status(f, WS_HANDSHAKE, "POST", path, NULL), 400); /* Connection, twice */
    static const struct {
        const char *query, *headers;
        int status;
    } cases[] = {
        {"?offset=-1", WS_HANDSHAKE, 400},
        {"?cancel=perhaps", WS_HANDSHAKE, 400},
        {"",
         "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 12\r\n"
         "Sec-WebSocket-Key: " WS_KEY "\r\n",
         426},
        {"",
         "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
         "Sec-WebSocket-Key: x\r\n",
         400},
        {"", WS_HANDSHAKE "Authorization: Bearer x\r\n", 401},
        {"", WS_HANDSHAKE "Sec-WebSocket-Protocol: berth.exec.v1, other\r\n", 101},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int status =
            ws_open(&ws, dial(f), text_of(f, "%s%s", path, cases[i].query), cases[i].headers);
        assert_int_equal(status, cases[i].status);
        if (status == 101)
            assert_non_null(strstr(ws.data.data, "\r\nSec-WebSocket-Protocol: berth.exec.v1\r\n"));
        ws_close(&ws);
    }
    assert_int_equal(try_attach(f, &ws, NOBODY, ""), 404);
    ws_close(&ws);
    cancel(f, id);
}

/* The row says that it runs, and nobody here knows of it. */
static void commands_of_others(void **state)
{
    struct fixture *f = *state;
    struct ws ws;
    const char *id = start(f, "{'command':'true','detach':true}");
    WAIT_FOR(has_ended(f, id));
    run_sql(f, "UPDATE execs SET cause = NULL WHERE id = $1", id);
    assert_int_equal(try_attach(f, &ws, id, ""), 409);
    ws_close(&ws);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ASK_ON_BOTH(an_echo),
        ASK_ON_BOTH(started_is_the_first),
        ASK_ON_BOTH(a_terminal),
        ASK_ON_BOTH(wishes_that_cannot_be_granted),
        ASK_ON_BOTH(input_waits_for_the_command),
        ASK_ON_BOTH(input_for_one_that_ends),
        ASK_ON_BOTH(late_ones_hear_every_byte),
        ASK_ON_BOTH(who_does_not_read_is_let_go),
        ASK_ON_BOTH(who_does_not_answer_is_let_go),
        ASK_ON_BOTH(leaving_is_noticed),
        ASK_ON_BOTH(ending_is_not_leaving),
        ASK_ON_BOTH(many_at_once),
        ASK_ON_BOTH(refusals),
        ASK_ON_BOTH(commands_of_others),
    };
    return cmocka_run_group_tests_name("attach", tests, NULL, NULL);
}
