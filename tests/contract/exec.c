/* SPDX-License-Identifier: Apache-2.0
 * tests/contract/exec.c - what every driver that runs commands must do (include/berth/driver.h:
 * exec_start, exec_settle, struct berth_running_ops). A new driver is a row in the table. Nothing
 * of core stands between: what is left of a command here, the driver has left. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/id.h"
#include "base/time.h"
#include "farhost.h"
#include "fixture.h"
#include "os/fs.h"
#include "os/strays.h"

#define OUTPUT_BYTES_MAX (64 * 1024 * 1024)
#define LIVES_MAX 32

/* Some drivers know before they start what others learn from the place. */
struct outcome {
    int code;   /* of exec_start; 0: it starts, and ends with */
    int status; /* this */
    const char *text;
};

struct row {
    const char *driver;
    bool far; /* the config is that of the sshd beside us */
    struct outcome no_cwd, no_program, no_permission;
    bool settles;     /* the place keeps how a command ended */
    bool ends_strays; /* also those that left its session; otherwise core ends them */
};

static const struct row rows[] = {
    {.driver = "local",
     .no_cwd = {.code = BERTH_E_UNPROCESSABLE, .text = "Working directory does not exist"},
     .no_program = {.code = BERTH_E_NOT_FOUND, .text = "There is no program"},
     .no_permission = {.code = BERTH_E_DENIED, .text = "Permission denied"}},
    {.driver = "ssh",
     .far = true,
     .no_cwd = {.status = 125, .text = "Working directory does not exist"},
     .no_program = {.status = 127, .text = "There is no program"},
     .no_permission = {.status = 126, .text = "Permission denied"},
     .settles = true,
     .ends_strays = true},
};

/* One command, from its start to the end of the test. */
struct live {
    struct berth_buf streams[2]; /* to be read when it has ended */
    _Atomic size_t seen, pieces, rooms;
    _Atomic int ends;
    struct berth_exec_end end;
    struct berth_running *running;
    const char *id;
};

struct bench {
    const struct row *row;
    const struct berth_route *route;
    struct berth_registry *registry;
    char directory[64], workspace[200], own[80];
    struct berth_id lease; /* new each time: other programs end what has their leases' label */
    const char *config;
    struct berth_place place;
    struct berth_arena arena;
    struct berth_error err;
    struct live lives[LIVES_MAX];
    int count;
};

/* --- help --- */

static struct berth_call no_limit(struct bench *b)
{
    return (struct berth_call){.deadline_ms = INT64_MAX, .cancel_fd = -1, .arena = &b->arena};
}

static struct berth_place_request who_of(const struct bench *b)
{
    return (struct berth_place_request){.lease_id = b->lease.text,
                                        .company_id = "01890000-0000-7000-8000-00000000c001",
                                        .environment_id = "01890000-0000-7000-8000-00000000e001",
                                        .config_json = b->config,
                                        .own_directory = b->own,
                                        .sole = true};
}

/* In the bench's arena; `variables` may be NULL. */
static struct berth_command *command_of(struct bench *b, const char *const *argv,
                                        const char *const *variables)
{
    struct berth_command *c = berth_arena_alloc(&b->arena, sizeof *c);
    struct berth_id id = berth_id_new();
    struct berth_list env = {0};
    (void)berth_list_add(&env, &b->arena,
                         berth_arena_printf(&b->arena, "BERTH_LEASE_ID=%s", b->lease.text));
    (void)berth_list_add(&env, &b->arena,
                         berth_arena_printf(&b->arena, "BERTH_EXEC_ID=%s", id.text));
    for (; variables && *variables; variables++)
        (void)berth_list_add(&env, &b->arena, berth_arena_strdup(&b->arena, *variables));
    (void)berth_list_add(&env, &b->arena, NULL);
    *c = (struct berth_command){.id = berth_arena_strdup(&b->arena, id.text),
                                .argv = argv,
                                .env = (const char *const *)(void *)env.items,
                                .rows = 24,
                                .columns = 80,
                                .grace_ms = 5000};
    return c;
}

static struct berth_command *script_of(struct bench *b, const char *script)
{
    const char **argv = berth_arena_alloc(&b->arena, 4 * sizeof *argv);
    memcpy(argv, SH(script), 4 * sizeof *argv);
    return command_of(b, argv, NULL);
}

static void on_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    struct live *live = ctx;
    berth_buf_append(&live->streams[stream], bytes, len);
    atomic_fetch_add(&live->pieces, 1);
    atomic_fetch_add(&live->seen, len);
}

static void on_stdin_room(void *ctx)
{
    atomic_fetch_add(&((struct live *)ctx)->rooms, 1);
}

static void on_end(void *ctx, const struct berth_exec_end *end)
{
    struct live *live = ctx;
    live->end = *end;
    atomic_fetch_add(&live->ends, 1);
}

static int try_start(struct bench *b, struct berth_call *call, const struct berth_command *c,
                     struct live **out)
{
    assert_true(b->count < LIVES_MAX);
    struct live *live = *out = &b->lives[b->count++];
    struct berth_place_request who = who_of(b);
    struct berth_exec_handlers handlers = {
        .on_output = on_output, .on_stdin_room = on_stdin_room, .on_end = on_end, .ctx = live};
    live->id = c->id;
    live->streams[0] = live->streams[1] = (struct berth_buf)BERTH_BUF_INIT(OUTPUT_BYTES_MAX);
    return berth_driver_exec_start(b->route, call, &who, &b->place, c, &handlers, &live->running,
                                   &b->err);
}

static struct live *start(struct bench *b, const struct berth_command *c)
{
    struct live *live;
    struct berth_call call = no_limit(b);
    assert_ok(b, try_start(b, &call, c, &live));
    return live;
}

static const struct berth_exec_end *finish(struct live *live)
{
    WAIT_FOR(live->ends);
    return &live->end;
}

static struct live *run(struct bench *b, const struct berth_command *c)
{
    struct live *live = start(b, c);
    (void)finish(live);
    return live;
}

static struct live *run_script(struct bench *b, const char *script)
{
    return run(b, script_of(b, script));
}

static const char *out_of(const struct live *live)
{
    return berth_buf_str(&live->streams[BERTH_STDOUT]);
}

static const char *err_of(const struct live *live)
{
    return berth_buf_str(&live->streams[BERTH_STDERR]);
}

/* What was said was counted, and all of it came. */
static void assert_end(const struct live *live, enum berth_end_cause cause, int exit_code)
{
    assert_string_equal(berth_end_cause_name(live->end.cause), berth_end_cause_name(cause));
    assert_int_equal(live->end.exit_code, exit_code);
    assert_int_equal(live->ends, 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(live->end.bytes[i], live->streams[i].len);
}

static void assert_exited(const struct live *live, int exit_code)
{
    assert_end(live, BERTH_END_EXITED, exit_code);
    assert_int_equal(live->end.signal, 0);
    assert_false(live->end.cut[0] || live->end.cut[1]);
}

static void assert_bytes(const struct berth_buf *buf, const void *bytes, size_t len)
{
    assert_int_equal(buf->len, len);
    assert_true(memcmp(buf->data, bytes, len) == 0);
}

/* Nothing that carries the command's label is there any more. */
static void assert_nothing_runs(struct bench *b, const struct live *live)
{
    const char *label = berth_arena_printf(&b->arena, "BERTH_EXEC_ID=%s", live->id);
    if (!b->row->ends_strays) /* as core does for it */
        (void)berth_strays_end((const char *const[]){label, NULL});
    farhost_wait_for_end(label);
}

static void assert_outcome(struct bench *b, const struct berth_command *c,
                           const struct outcome *wanted)
{
    struct live *live;
    struct berth_call call = no_limit(b);
    int rc = try_start(b, &call, c, &live);
    if (wanted->code) {
        assert_fails(b, wanted->code, wanted->text, rc);
        assert_int_equal(live->ends, 0);
        assert_null(live->running);
        return;
    }
    assert_ok(b, rc);
    (void)finish(live);
    assert_exited(live, wanted->status);
    assert_non_null(strstr(c->terminal ? out_of(live) : err_of(live), wanted->text));
}

/* A file that the place can read, too. */
static const char *make_file(struct bench *b, const char *name, const void *bytes, size_t len,
                             mode_t mode)
{
    const char *path = berth_arena_printf(&b->arena, "%s/%s", b->directory, name);
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_ok(b, berth_fs_write_all(fd, bytes, len, &b->err));
    assert_int_equal(fchmod(fd, mode), 0);
    return path;
}

/* Every byte value, in no order that a pipe's size would fit. */
static void fill(char *bytes, size_t len)
{
    unsigned state = 1;
    for (size_t i = 0; i < len; i++) {
        state = state * 1664525U + 1013904223U;
        bytes[i] = i < 256 ? (char)i : (char)(state >> 24);
    }
}

/* The drivers go as soon as the last command has ended: what they still do on their own account
 * must not outlive them. */
static int teardown(void **state)
{
    struct bench *b = *state;
    for (int i = 0; i < b->count; i++) {
        struct live *live = &b->lives[i];
        if (live->running && !live->ends) /* the test has failed */
            live->running->ops->cancel(live->running);
        for (int k = 0; k < 2000 && live->running && !live->ends; k++)
            pause_ms(10);
        if (live->ends)
            live->running->ops->free(live->running);
    }
    berth_registry_free(b->registry);
    for (int i = 0; i < b->count; i++)
        for (int k = 0; k < 2; k++)
            berth_buf_clear(&b->lives[i].streams[k]);
    berth_arena_clear(&b->arena);
    (void)berth_fs_remove_tree(b->directory, &b->err);
    free(b);
    return 0;
}

static int open_bench(struct bench *b)
{
    (void)snprintf(b->directory, sizeof b->directory, "/tmp/berth-contract.XXXXXX");
    b->config = "{}";
    if (b->row->far) {
        farhost_make_workspace(farhost()->workspace, b->workspace, sizeof b->workspace);
        b->config = farhost_config(b->workspace);
    }
    if (!mkdtemp(b->directory) || chmod(b->directory, 0755) < 0 ||
        setenv("XDG_RUNTIME_DIR", b->directory, 1) < 0 ||
        berth_registry_new(&b->registry, &b->err) < 0 ||
        berth_builtins.add_drivers(b->registry, &b->err) < 0)
        return -1;
    (void)snprintf(b->own, sizeof b->own, "%s/own", b->directory);
    b->route = berth_registry_find(b->registry, b->row->driver, NULL);
    struct berth_call call = no_limit(b);
    struct berth_place_request who = who_of(b);
    return berth_driver_acquire(b->route, &call, &who, &b->place, &b->err);
}

static int setup(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    b->row = *state;
    b->lease = berth_id_new();
    *state = b;
    int rc = open_bench(b);
    if (rc < 0) {
        print_error("%s\n", b->err.message);
        (void)teardown(state);
    }
    return rc;
}

/* --- what comes of it --- */

static void status_and_both_streams(void **state)
{
    struct live *live = run_script(*state, "printf out; echo errors >&2; exit 7");
    assert_exited(live, 7);
    assert_string_equal(out_of(live), "out");
    assert_string_equal(err_of(live), "errors\n");
    assert_int_equal(live->end.bytes[BERTH_STDOUT], 3);
    assert_int_equal(live->end.bytes[BERTH_STDERR], 7);
    assert_true(live->end.started_at_ms > 0);
    assert_true(live->end.finished_at_ms >= live->end.started_at_ms);
}

/* Those that a shell, or the way to the place, has a meaning for, too. What lies between 128 and
 * 193 says a signal where only a shell tells the status. */
static void every_status_is_the_commands(void **state)
{
    struct bench *b = *state;
    static const int codes[] = {0, 1, 2, 125, 126, 127, 128, 193, 254, 255};
    for (unsigned i = 0; i < sizeof codes / sizeof codes[0]; i++)
        assert_exited(run_script(b, berth_arena_printf(&b->arena, "exit %d", codes[i])), codes[i]);
}

static void signals_are_told(void **state)
{
    static const struct {
        const char *script;
        int number;
    } signals[] = {
        {"kill -9 $$", SIGKILL}, {"kill -15 $$", SIGTERM}, {"echo out; kill -1 $$", SIGHUP}};
    for (unsigned i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct live *live = run_script(*state, signals[i].script);
        assert_end(live, BERTH_END_SIGNALLED, -1);
        assert_int_equal(live->end.signal, signals[i].number);
        assert_int_equal(live->streams[BERTH_STDERR].len, 0); /* no shell's words about it */
    }
}

static void streams_are_binary(void **state)
{
    struct bench *b = *state;
    enum { LEN = 1024 * 1024 + 7 };
    auto_free char *bytes = malloc(LEN);
    fill(bytes, LEN);
    const char *path = make_file(b, "pattern", bytes, LEN, 0644);
    struct live *live = run_script(
        b, berth_arena_printf(&b->arena, "cat '%s' & cat '%s' >&2; wait; exit 4", path, path));
    assert_exited(live, 4);
    assert_bytes(&live->streams[BERTH_STDOUT], bytes, LEN);
    assert_bytes(&live->streams[BERTH_STDERR], bytes, LEN);
    /* Each piece is work for all who read it. */
    assert_in_range(live->pieces, 1, LEN / 256);
}

/* What a driver may use to tell its own words from the command's. */
static void separators_are_output(void **state)
{
    struct bench *b = *state;
    enum { LEN = 300000 };
    auto_free char *bytes = malloc(LEN);
    memset(bytes, 0x1e, LEN);
    memcpy(bytes + 1000, "0123456789abcdef0123456789abcdef", 32);
    memcpy(bytes + 2000, "ready;", 6);
    const char *path = make_file(b, "pattern", bytes, LEN, 0644);
    struct live *live =
        run_script(b, berth_arena_printf(&b->arena, "cat '%s'; cat '%s' >&2", path, path));
    assert_exited(live, 0);
    assert_bytes(&live->streams[BERTH_STDOUT], bytes, LEN);
    assert_bytes(&live->streams[BERTH_STDERR], bytes, LEN);
    assert_in_range(live->pieces, 1, LEN / 256);
    live = run_script(b, "printf '\\036'; printf '\\036-\\036' >&2");
    assert_exited(live, 0);
    assert_string_equal(out_of(live), "\036");
    assert_string_equal(err_of(live), "\036-\036");
}

/* --- what it is given --- */

#define LONG_BYTES (100 * 1024)

/* All that is hard to quote; `text` has room for LONG_BYTES + 1. */
static void hard_texts(const char *out[], int *count, char *every, char *text)
{
    static const char *const fixed[] = {"",
                                        " ",
                                        "'",
                                        "\n",
                                        "--",
                                        "-n",
                                        "*",
                                        "~",
                                        "x=1",
                                        "\\",
                                        "a'b\"c\n'\n''",
                                        "$HOME `id` $(id) !! #",
                                        " a\tb\r\n",
                                        "\001\002\177",
                                        "%s\\n%%",
                                        "\xc3\xa4\xff\x80"};
    *count = 0;
    for (unsigned i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        out[(*count)++] = fixed[i];
    for (int i = 1; i < 256; i++)
        every[i - 1] = (char)i;
    every[255] = '\0';
    out[(*count)++] = every;
    memset(text, 'x', LONG_BYTES);
    text[LONG_BYTES / 2] = '\'';
    text[LONG_BYTES / 2 + 1] = '\n';
    text[LONG_BYTES] = '\0';
    out[(*count)++] = text;
}

/* Runs a script that prints its own command line, with every hard text as an argument. */
static void assert_arguments_arrive(struct bench *b, const char *script, bool terminal)
{
    const char *argv[64] = {"sh", "-c", script, "name"};
    char every[256];
    auto_free char *text = malloc(LONG_BYTES + 1);
    int count;
    hard_texts(argv + 4, &count, every, text);
    argv[4 + count] = NULL;
    auto_buf wanted = BERTH_BUF_INIT(OUTPUT_BYTES_MAX);
    for (int i = 0; argv[i]; i++)
        berth_buf_append(&wanted, argv[i], strlen(argv[i]) + 1);
    struct berth_command *c = command_of(b, argv, NULL);
    c->terminal = terminal;
    struct live *live = run(b, c);
    assert_exited(live, 0);
    assert_bytes(&live->streams[BERTH_STDOUT], wanted.data, wanted.len);
}

static void arguments_arrive_as_they_are(void **state)
{
    /* The second command keeps a shell from becoming the first. */
    assert_arguments_arrive(*state, "cat /proc/$$/cmdline; :", false);
}

static void assert_variables(struct bench *b, const char *const *pairs)
{
    struct live *live = run(b, command_of(b, SH("cat /proc/$$/environ; :"), pairs));
    assert_exited(live, 0);
    const struct berth_buf *out = &live->streams[BERTH_STDOUT];
    for (const char *const *pair = pairs; *pair; pair++) {
        bool there = false;
        for (size_t at = 0; at < out->len && !there; at += strlen(out->data + at) + 1)
            there = strcmp(out->data + at, *pair) == 0;
        if (!there)
            fail_msg("%.60s did not arrive", *pair);
    }
}

static void variables_arrive_as_they_are(void **state)
{
    struct bench *b = *state;
    const char *values[64], *pairs[65];
    char every[256];
    auto_free char *text = malloc(LONG_BYTES + 1);
    int count;
    hard_texts(values, &count, every, text);
    for (int i = 0; i < count; i++)
        pairs[i] = berth_arena_printf(&b->arena, "VARIABLE_%d=%s", i, values[i]);
    pairs[count] = NULL;
    assert_variables(b, pairs);
}

/* Also where the driver's own scripts have variables of that name. */
static void any_name_is_the_commands(void **state)
{
    struct bench *b = *state;
    const char *pairs[80];
    int count = 0;
    for (char c = 'a'; c <= 'z'; c++)
        pairs[count++] = berth_arena_printf(&b->arena, "%c=its own\n%c", c, c);
    for (char c = 'A'; c <= 'Z'; c++)
        pairs[count++] = berth_arena_printf(&b->arena, "%c=its own %c", c, c);
    static const char *const others[] = {"CDPATH=/usr",   "ENV=/nowhere", "HOME=/nowhere",
                                         "PS4=$(exit 3)", "TERM=its own", "SHELL=/nowhere"};
    for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++)
        pairs[count++] = others[i];
    pairs[count] = NULL;
    assert_variables(b, pairs);
}

/* What is on it is the command's business alone. */
static void a_path_of_its_own(void **state)
{
    struct bench *b = *state;
    (void)make_file(b, "only-here", "#!/bin/sh\necho \"$PATH\"\n", 23, 0755);
    const char *const path[] = {berth_arena_printf(&b->arena, "PATH=%s", b->directory), NULL};
    struct live *live = run(b, command_of(b, (const char *const[]){"only-here", NULL}, path));
    assert_exited(live, 0);
    assert_string_equal(out_of(live), berth_arena_printf(&b->arena, "%s\n", b->directory));
    assert_outcome(b, command_of(b, (const char *const[]){"sleep", NULL}, path),
                   &b->row->no_program);
    struct berth_command *c = command_of(b, (const char *const[]){"/bin/sleep", "300", NULL}, path);
    c->timeout_ms = 700;
    c->grace_ms = 200;
    int64_t begun_ms = berth_time_mono_ms();
    live = run(b, c);
    assert_int_equal(live->end.cause, BERTH_END_TIMEOUT);
    assert_in_range(berth_time_mono_ms() - begun_ms, 650, 6000);
    assert_nothing_runs(b, live);
}

static void default_variables_are_there(void **state)
{
    struct bench *b = *state;
    struct live *live =
        run_script(b, "[ -n \"$PATH\" ] && [ -n \"$HOME\" ] && printf %s \"$BERTH_EXEC_ID\"");
    assert_exited(live, 0);
    assert_string_equal(out_of(live), live->id);
}

static void working_directory(void **state)
{
    struct bench *b = *state;
    static const char *const names[] = {"plain",     "with blank", "it's \"quoted\"",
                                        "new\nline", "$HOME",      "-n"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *path = berth_arena_printf(&b->arena, "%s/%s", b->directory, names[i]);
        assert_int_equal(mkdir(path, 0755), 0);
        assert_int_equal(chmod(path, 0755), 0);
        struct berth_command *c = script_of(b, "pwd -P");
        c->cwd = path;
        struct live *live = run(b, c);
        assert_exited(live, 0);
        assert_string_equal(out_of(live), berth_arena_printf(&b->arena, "%s\n", path));
    }
}

static void missing_working_directory(void **state)
{
    struct bench *b = *state;
    struct berth_command *c = script_of(b, "echo ran");
    c->cwd = "/no/such/directory";
    assert_outcome(b, c, &b->row->no_cwd);
    c = script_of(b, "echo ran");
    c->cwd = make_file(b, "file", "", 0, 0644);
    struct outcome wanted = b->row->no_cwd;
    wanted.text = "Working directory";
    assert_outcome(b, c, &wanted);
}

static void missing_program(void **state)
{
    struct bench *b = *state;
    static const char *const names[] = {"no-such-program", "/no/such/program", "", "-v"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_outcome(b, command_of(b, (const char *const[]){names[i], "x", NULL}, NULL),
                       &b->row->no_program);
    /* A shell knows these, and says what it likes. */
    static const char *const words[] = {"if", "a=b", "export", "E"};
    struct outcome wanted = b->row->no_program;
    wanted.text = "";
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_outcome(b, command_of(b, (const char *const[]){words[i], "x", NULL}, NULL), &wanted);
}

static void program_that_may_not_be_run(void **state)
{
    struct bench *b = *state;
    const char *path = make_file(b, "not-executable", "#!/bin/sh\necho ran\n", 19, 0644);
    assert_outcome(b, command_of(b, (const char *const[]){path, NULL}, NULL),
                   &b->row->no_permission);
    struct outcome wanted = b->row->no_permission;
    wanted.text = ""; /* each system says it in its own words */
    assert_outcome(b, command_of(b, (const char *const[]){"/", NULL}, NULL), &wanted);
}

/* --- standard input --- */

static void write_text(struct bench *b, struct live *live, const char *text)
{
    assert_ok(b, live->running->ops->write(live->running, text, strlen(text), &b->err));
}

static void stdin_streams_and_closes(void **state)
{
    struct bench *b = *state;
    struct berth_command *c =
        script_of(b, "while read l; do echo \"<$l>\"; done; echo eof; exit 3");
    c->with_stdin = true;
    struct live *live = start(b, c);
    write_text(b, live, "one\n");
    WAIT_FOR(live->seen == 6);
    write_text(b, live, "two\n");
    WAIT_FOR(live->seen == 12);
    assert_int_equal(live->ends, 0);
    write_text(b, live, "three\n");
    live->running->ops->close_stdin(live->running);
    assert_fails(b, BERTH_E_CONFLICT, NULL,
                 live->running->ops->write(live->running, "x", 1, &b->err));
    (void)finish(live);
    assert_exited(live, 3);
    assert_string_equal(out_of(live), "<one>\n<two>\n<three>\neof\n");
    live->running->ops->close_stdin(live->running);
}

static void stdin_is_closed_at_once(void **state)
{
    struct bench *b = *state;
    struct berth_command *c = script_of(b, "cat; echo eof");
    c->with_stdin = true;
    struct live *live = start(b, c);
    live->running->ops->close_stdin(live->running);
    (void)finish(live);
    assert_exited(live, 0);
    assert_string_equal(out_of(live), "eof\n");
}

static void no_stdin_reads_the_end(void **state)
{
    struct live *live = run_script(*state, "cat; echo eof");
    assert_exited(live, 0);
    assert_string_equal(out_of(live), "eof\n");
}

/* Who writes more than is read is told so, and when to go on. */
static void full_stdin_says_when_there_is_room(void **state)
{
    struct bench *b = *state;
    enum { PIECE = 64 * 1024, PIECES = 160 };
    auto_free char *bytes = malloc((size_t)PIECE * PIECES);
    fill(bytes, (size_t)PIECE * PIECES);
    struct berth_command *c = script_of(b, "sleep 1; cat");
    c->with_stdin = true;
    struct live *live = start(b, c);
    int refused = 0;
    for (int i = 0; i < PIECES;) {
        size_t before = live->rooms;
        int rc =
            live->running->ops->write(live->running, bytes + (size_t)i * PIECE, PIECE, &b->err);
        if (rc == BERTH_OK) {
            i++;
            continue;
        }
        assert_int_equal(rc, BERTH_E_UNAVAILABLE);
        refused++;
        WAIT_FOR(live->rooms > before);
    }
    live->running->ops->close_stdin(live->running);
    (void)finish(live);
    assert_exited(live, 0);
    assert_true(refused > 0);
    assert_bytes(&live->streams[BERTH_STDOUT], bytes, (size_t)PIECE * PIECES);
}

static void unread_stdin_does_not_keep_it(void **state)
{
    struct bench *b = *state;
    enum { LEN = 1024 * 1024 };
    auto_free char *bytes = calloc(1, LEN);
    for (int closes = 0; closes < 2; closes++) {
        struct berth_command *c = script_of(b, "sleep 0.3; echo done; exit 3");
        c->with_stdin = true;
        struct live *live = start(b, c);
        int rc;
        while ((rc = live->running->ops->write(live->running, bytes, LEN, &b->err)) < 0)
            assert_int_equal(rc, BERTH_E_UNAVAILABLE); /* the way there was still busy */
        if (closes)
            live->running->ops->close_stdin(live->running);
        int64_t begun_ms = berth_time_mono_ms();
        (void)finish(live);
        assert_true(berth_time_mono_ms() - begun_ms < 5000);
        assert_end(live, BERTH_END_EXITED, 3);
        assert_string_equal(out_of(live), "done\n");
    }
}

/* --- ends that are asked for --- */

/* Its own group, one that does not hear SIGTERM, and one in a session of its own. */
#define TREE                                                                                       \
    "trap '' TERM; sleep 301 & setsid sh -c 'trap \"\" TERM; sleep 302; sleep 302' &"              \
    " echo before; echo errors >&2; sleep 303; sleep 303; sleep 303"

static void timeout_ends_the_tree(void **state)
{
    struct bench *b = *state;
    struct berth_command *c = script_of(b, TREE);
    c->timeout_ms = 700;
    c->grace_ms = 300;
    int64_t begun_ms = berth_time_mono_ms();
    struct live *live = run(b, c);
    assert_in_range(berth_time_mono_ms() - begun_ms, 950, 8000);
    assert_int_equal(live->end.cause, BERTH_END_TIMEOUT);
    assert_int_equal(live->ends, 1);
    assert_string_equal(out_of(live), "before\n");
    assert_string_equal(err_of(live), "errors\n");
    assert_nothing_runs(b, live);
}

/* The command heard SIGTERM; what it left did not, and holds none of its streams. */
static struct berth_command *one_that_leaves(struct bench *b, int64_t timeout_ms)
{
    struct berth_command *c = script_of(
        b, "setsid sh -c 'trap \"\" TERM; sleep 300; sleep 300' </dev/null >/dev/null 2>&1 &"
           " sleep 0.3; echo up; exec sleep 300");
    c->timeout_ms = timeout_ms;
    c->grace_ms = 300;
    return c;
}

static void what_it_leaves_is_ended(void **state)
{
    struct bench *b = *state;
    struct live *live = run(b, one_that_leaves(b, 900));
    assert_int_equal(live->end.cause, BERTH_END_TIMEOUT);
    assert_int_equal(live->end.signal, SIGTERM);
    assert_nothing_runs(b, live);
    live = start(b, one_that_leaves(b, 0));
    WAIT_FOR(live->seen == 3);
    live->running->ops->cancel(live->running);
    (void)finish(live);
    assert_int_equal(live->end.cause, BERTH_END_CANCELLED);
    assert_nothing_runs(b, live);
}

/* It may tidy up, and its own status is told. */
static void timeout_asks_first(void **state)
{
    struct bench *b = *state;
    struct berth_command *c =
        script_of(b, "trap 'echo tidy; exit 9' TERM; echo up; while :; do sleep 0.1; done");
    c->timeout_ms = 700;
    struct live *live = run(b, c);
    assert_end(live, BERTH_END_TIMEOUT, 9);
    assert_string_equal(out_of(live), "up\ntidy\n");
    assert_nothing_runs(b, live);
}

static void stopped_one_is_ended_all_the_same(void **state)
{
    struct bench *b = *state;
    struct berth_command *c = script_of(b, "echo up; kill -STOP $$; echo on; sleep 300");
    c->timeout_ms = 700;
    c->grace_ms = 300;
    struct live *live = run(b, c);
    assert_int_equal(live->end.cause, BERTH_END_TIMEOUT);
    assert_nothing_runs(b, live);
}

static void timeout_that_is_not_reached(void **state)
{
    struct bench *b = *state;
    struct berth_command *c = script_of(b, "echo out; exit 2");
    c->timeout_ms = 300000;
    struct live *live = run(b, c);
    assert_exited(live, 2);
    assert_nothing_runs(b, live); /* and no timer process either */
}

static void cancel(struct live *live)
{
    live->running->ops->cancel(live->running);
}

static void cancel_at_once(void **state)
{
    struct bench *b = *state;
    struct berth_command *c = script_of(b, "sleep 300; sleep 300");
    c->grace_ms = 300;
    struct live *live = start(b, c);
    cancel(live);
    (void)finish(live);
    assert_int_equal(live->end.cause, BERTH_END_CANCELLED);
    assert_nothing_runs(b, live);
}

static void cancel_in_the_middle(void **state)
{
    struct bench *b = *state;
    struct berth_command *c = script_of(b, TREE);
    c->grace_ms = 300;
    struct live *live = start(b, c);
    WAIT_FOR(live->seen == 14);
    int64_t begun_ms = berth_time_mono_ms();
    cancel(live);
    cancel(live);
    (void)finish(live);
    assert_true(berth_time_mono_ms() - begun_ms < 8000);
    assert_int_equal(live->end.cause, BERTH_END_CANCELLED);
    assert_int_equal(live->ends, 1);
    assert_string_equal(out_of(live), "before\n");
    assert_string_equal(err_of(live), "errors\n");
    assert_nothing_runs(b, live);
}

static void after_the_end_nothing_is_heard(void **state)
{
    struct bench *b = *state;
    struct berth_command *c = script_of(b, "echo out; exit 3");
    c->with_stdin = true;
    struct live *live = run(b, c);
    const struct berth_running_ops *ops = live->running->ops;
    cancel(live);
    cancel(live);
    ops->pause(live->running, true);
    ops->resize(live->running, 10, 10);
    assert_fails(b, BERTH_E_CONFLICT, NULL, ops->write(live->running, "x", 1, &b->err));
    ops->close_stdin(live->running);
    pause_ms(300);
    assert_exited(live, 3);
    assert_string_equal(out_of(live), "out\n");
}

static void call_that_is_late_starts_nothing(void **state)
{
    struct bench *b = *state;
    const char *path = berth_arena_printf(&b->arena, "%s/ran", b->workspace);
    const struct berth_command *c = command_of(b, (const char *const[]){"touch", path, NULL}, NULL);
    struct berth_call late = no_limit(b), cancelled = no_limit(b);
    struct live *live;
    auto_close int cancel_fd = eventfd(1, EFD_CLOEXEC);
    late.deadline_ms = berth_time_mono_ms() - 1;
    cancelled.cancel_fd = cancel_fd;
    assert_fails(b, BERTH_E_TIMEOUT, NULL, try_start(b, &late, c, &live));
    assert_fails(b, BERTH_E_CANCELLED, NULL, try_start(b, &cancelled, c, &live));
    assert_int_equal(access(path, F_OK), -1);
}

/* --- the reader's pace --- */

static void pause_stops_and_goes_on(void **state)
{
    struct bench *b = *state;
    enum { LEN = 24 * 1024 * 1024 };
    struct berth_command *c = script_of(b, "head -c 25165824 /dev/zero; echo done >&2");
    struct live *live = start(b, c);
    live->running->ops->pause(live->running, true);
    size_t before;
    do { /* what was on its way may still come */
        before = live->seen;
        pause_ms(300);
    } while (live->seen != before);
    assert_true(before < LEN);
    pause_ms(300);
    assert_int_equal(live->seen, before);
    assert_int_equal(live->ends, 0);
    live->running->ops->pause(live->running, false);
    (void)finish(live);
    assert_exited(live, 0);
    assert_int_equal(live->end.bytes[BERTH_STDOUT], LEN);
    assert_string_equal(err_of(live), "done\n");
}

static void many_at_once(void **state)
{
    struct bench *b = *state;
    enum { COUNT = 16 };
    struct live *lives[COUNT];
    for (int i = 0; i < COUNT; i++)
        lives[i] = start(
            b, script_of(b, berth_arena_printf(&b->arena, "sleep 1; echo %d; exit %d", i, i)));
    for (int i = 0; i < COUNT; i++) {
        (void)finish(lives[i]);
        assert_exited(lives[i], i);
        assert_int_equal(atoi(out_of(lives[i])), i);
    }
}

/* --- streams that outlive the command, and the other way round --- */

static void grandchild_does_not_keep_it(void **state)
{
    struct bench *b = *state;
    static const char *const scripts[] = {"sleep 300 & echo out; exit 5",
                                          "setsid sleep 300 & echo out; exit 5"};
    for (unsigned i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        struct live *live = start(b, script_of(b, scripts[i]));
        WAIT_FOR(live->seen == 4);
        int64_t begun_ms = berth_time_mono_ms();
        (void)finish(live);
        assert_true(berth_time_mono_ms() - begun_ms < 5000);
        assert_end(live, BERTH_END_EXITED, 5);
        assert_string_equal(out_of(live), "out\n");
        assert_nothing_runs(b, live);
    }
}

static void closed_streams_are_no_end(void **state)
{
    struct bench *b = *state;
    int64_t begun_ms = berth_time_mono_ms();
    struct live *live = run_script(b, "echo out; exec >&- 2>&-; sleep 1; exit 9");
    assert_true(berth_time_mono_ms() - begun_ms >= 1000);
    assert_exited(live, 9);
    assert_string_equal(out_of(live), "out\n");
    assert_exited(run_script(b, "exec </dev/null >/dev/null 2>/dev/null; sleep 0.2; exit 8"), 8);
}

/* --- a terminal --- */

static struct berth_command *terminal_of(struct bench *b, const char *script)
{
    struct berth_command *c = script_of(b, script);
    c->terminal = true;
    c->rows = 31;
    c->columns = 97;
    c->timeout_ms = 25000;
    return c;
}

static void terminal_is_one(void **state)
{
    struct live *live = run(*state, terminal_of(*state, "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] &&"
                                                        " stty size && echo errors >&2 &&"
                                                        " echo ${TERM:+term}; exit 7"));
    assert_exited(live, 7);
    assert_string_equal(out_of(live), "31 97\r\nerrors\r\nterm\r\n");
    assert_int_equal(live->streams[BERTH_STDERR].len, 0);
}

static void terminal_is_resized(void **state)
{
    struct bench *b = *state;
    struct live *live =
        start(b, terminal_of(b, "echo up; while [ \"$(stty size)\" != '40 120' ]; do sleep 0.05;"
                                " done; stty size; exit 6"));
    WAIT_FOR(live->seen == 4);
    live->running->ops->resize(live->running, 40, 120);
    (void)finish(live);
    assert_exited(live, 6);
    assert_string_equal(out_of(live), "up\r\n40 120\r\n");
}

static void terminal_takes_input(void **state)
{
    struct bench *b = *state;
    struct live *live = start(b, terminal_of(b, "read a; read b; echo \"<$a><$b>\"; exit 5"));
    write_text(b, live, "one\r"); /* at once, as a user who types ahead */
    write_text(b, live, "it's \"two\"\r");
    (void)finish(live);
    assert_exited(live, 5);
    assert_non_null(strstr(out_of(live), "<one><it's \"two\">\r\n"));
}

static void terminal_whose_input_was_closed(void **state)
{
    struct bench *b = *state;
    struct live *live = start(b, terminal_of(b, "echo out; sleep 0.2; exit 5"));
    live->running->ops->close_stdin(live->running);
    assert_fails(b, BERTH_E_CONFLICT, NULL,
                 live->running->ops->write(live->running, "x", 1, &b->err));
    (void)finish(live);
    assert_exited(live, 5);
    assert_string_equal(out_of(live), "out\r\n");
}

static void terminal_interrupts(void **state)
{
    struct bench *b = *state;
    struct live *live = start(
        b, terminal_of(b, "trap 'echo int; exit 5' INT; echo up; while :; do sleep 0.1; done"));
    WAIT_FOR(live->seen == 4);
    write_text(b, live, "\003");
    (void)finish(live);
    assert_exited(live, 5);
    live = start(b, terminal_of(b, "echo up; exec sleep 300"));
    WAIT_FOR(live->seen == 4);
    write_text(b, live, "\003");
    (void)finish(live);
    assert_end(live, BERTH_END_SIGNALLED, -1);
    assert_int_equal(live->end.signal, SIGINT);
    assert_string_equal(out_of(live), "up\r\n^C"); /* no shell's words about it */
    live = run(b, terminal_of(b, "kill -9 $$"));
    assert_end(live, BERTH_END_SIGNALLED, -1);
    assert_string_equal(out_of(live), "");
}

static void terminal_ends_when_asked_to(void **state)
{
    struct bench *b = *state;
    struct berth_command *c = terminal_of(b, TREE);
    c->timeout_ms = 700;
    c->grace_ms = 300;
    struct live *live = run(b, c);
    assert_int_equal(live->end.cause, BERTH_END_TIMEOUT);
    assert_ptr_equal(strstr(out_of(live), "before\r\nerrors\r\n"), out_of(live));
    assert_nothing_runs(b, live);
    c = terminal_of(b, TREE);
    c->grace_ms = 300;
    live = start(b, c);
    WAIT_FOR(live->seen == 16);
    cancel(live);
    (void)finish(live);
    assert_int_equal(live->end.cause, BERTH_END_CANCELLED);
    assert_nothing_runs(b, live);
    c = terminal_of(b, "sleep 300; sleep 300");
    c->grace_ms = 300;
    live = start(b, c);
    cancel(live);
    (void)finish(live);
    assert_int_equal(live->end.cause, BERTH_END_CANCELLED);
    assert_nothing_runs(b, live);
}

static void terminal_without_a_program(void **state)
{
    struct bench *b = *state;
    struct berth_command *c = terminal_of(b, "echo ran");
    c->cwd = "/no/such/directory";
    assert_outcome(b, c, &b->row->no_cwd);
    c = command_of(b, (const char *const[]){"no-such-program", NULL}, NULL);
    c->terminal = true;
    assert_outcome(b, c, &b->row->no_program);
}

static void terminal_takes_hard_arguments(void **state)
{
    assert_arguments_arrive(*state, "stty -opost; cat /proc/$$/cmdline; :", true);
}

/* --- what the place knows afterwards --- */

static struct berth_exec_end settle(struct bench *b, const char *exec_id)
{
    struct berth_call call = no_limit(b);
    struct berth_place_request who = who_of(b);
    struct berth_exec_end end = {.cause = BERTH_END_LOST, .exit_code = -1};
    assert_ok(b,
              berth_driver_exec_settle(b->route, &call, &who, &b->place, exec_id, &end, &b->err));
    return end;
}

static void settle_says_how_it_ended(void **state)
{
    struct bench *b = *state;
    struct live *live = run_script(b, "exit 7");
    for (int i = 0; i < 2; i++) { /* again is fine */
        struct berth_exec_end end = settle(b, live->id);
        assert_int_equal(end.cause, b->row->settles ? BERTH_END_EXITED : BERTH_END_LOST);
        assert_int_equal(end.exit_code, b->row->settles ? 7 : -1);
    }
    live = run_script(b, "kill -9 $$");
    struct berth_exec_end end = settle(b, live->id);
    assert_int_equal(end.cause, b->row->settles ? BERTH_END_SIGNALLED : BERTH_END_LOST);
    assert_int_equal(end.signal, b->row->settles ? SIGKILL : 0);
}

static void settle_of_what_never_was(void **state)
{
    struct berth_exec_end end = settle(*state, "01890000-0000-7000-8000-0000000000ff");
    assert_int_equal(end.cause, BERTH_END_LOST);
    assert_int_equal(end.exit_code, -1);
}

/* The command was lost to us alone: settling it also ends it. */
static void settle_ends_what_runs(void **state)
{
    struct bench *b = *state;
    if (!b->row->settles)
        return; /* there, nothing can be lost */
    struct live *live = start(b, script_of(b, TREE));
    WAIT_FOR(live->seen == 14);
    struct berth_exec_end end = settle(b, live->id);
    assert_int_equal(end.cause, BERTH_END_LOST);
    (void)finish(live);
    assert_int_equal(live->end.cause, BERTH_END_LOST);
    assert_nothing_runs(b, live);
}

/* --- the table --- */

static const struct {
    const char *name;
    CMUnitTestFunction test;
} contract[] = {
#define CLAUSE(test)                                                                               \
    {                                                                                              \
#test, test                                                                                \
    }
    CLAUSE(status_and_both_streams),
    CLAUSE(every_status_is_the_commands),
    CLAUSE(signals_are_told),
    CLAUSE(streams_are_binary),
    CLAUSE(separators_are_output),
    CLAUSE(arguments_arrive_as_they_are),
    CLAUSE(variables_arrive_as_they_are),
    CLAUSE(any_name_is_the_commands),
    CLAUSE(a_path_of_its_own),
    CLAUSE(default_variables_are_there),
    CLAUSE(working_directory),
    CLAUSE(missing_working_directory),
    CLAUSE(missing_program),
    CLAUSE(program_that_may_not_be_run),
    CLAUSE(stdin_streams_and_closes),
    CLAUSE(stdin_is_closed_at_once),
    CLAUSE(no_stdin_reads_the_end),
    CLAUSE(full_stdin_says_when_there_is_room),
    CLAUSE(unread_stdin_does_not_keep_it),
    CLAUSE(timeout_ends_the_tree),
    CLAUSE(what_it_leaves_is_ended),
    CLAUSE(timeout_asks_first),
    CLAUSE(stopped_one_is_ended_all_the_same),
    CLAUSE(timeout_that_is_not_reached),
    CLAUSE(cancel_at_once),
    CLAUSE(cancel_in_the_middle),
    CLAUSE(after_the_end_nothing_is_heard),
    CLAUSE(call_that_is_late_starts_nothing),
    CLAUSE(pause_stops_and_goes_on),
    CLAUSE(many_at_once),
    CLAUSE(grandchild_does_not_keep_it),
    CLAUSE(closed_streams_are_no_end),
    CLAUSE(terminal_is_one),
    CLAUSE(terminal_is_resized),
    CLAUSE(terminal_takes_input),
    CLAUSE(terminal_whose_input_was_closed),
    CLAUSE(terminal_interrupts),
    CLAUSE(terminal_ends_when_asked_to),
    CLAUSE(terminal_without_a_program),
    CLAUSE(terminal_takes_hard_arguments),
    CLAUSE(settle_says_how_it_ended),
    CLAUSE(settle_of_what_never_was),
    CLAUSE(settle_ends_what_runs),
#undef CLAUSE
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

int main(void)
{
    static char names[COUNT(rows)][COUNT(contract)][96];
    static struct CMUnitTest tests[COUNT(rows) * COUNT(contract)];
    size_t count = 0;
    for (size_t r = 0; r < COUNT(rows); r++)
        for (size_t c = 0; c < COUNT(contract); c++) {
            (void)snprintf(names[r][c], sizeof names[r][c], "%s: %s", rows[r].driver,
                           contract[c].name);
            tests[count++] = (struct CMUnitTest){.name = names[r][c],
                                                 .test_func = contract[c].test,
                                                 .setup_func = setup,
                                                 .teardown_func = teardown,
                                                 .initial_state = (void *)(uintptr_t)&rows[r]};
        }
    const char *only = getenv("BERTH_TEST_ONLY"); /* a pattern, while one writes a driver */
    if (only)
        cmocka_set_test_filter(only);
    return cmocka_run_group_tests_name("exec contract", tests, NULL, NULL);
}
