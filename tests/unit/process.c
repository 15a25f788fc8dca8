/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/process.c - programs that behave, and programs that do not: each ends, is counted, and
 * leaves no process and no descriptor behind. */
#include "os/process.h"

#include "engines.h"
#include "fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/time.h"
#include "os/children.h"
#include "os/spawn.h"
#include "os/strays.h"

#define OUTPUT_BYTES_MAX (8 * 1024 * 1024)

static const char *const environment[] = {"PATH=/usr/bin:/bin", "MARK=here", NULL};

static bool below_init; /* BERTH_TEST_BELOW_INIT is set: programs are run below an init */

/* One program and what came of it. */
struct run {
    struct berth_process_options options;
    struct berth_process *process;
    struct berth_exec_end end;
    struct berth_buf out, err; /* of the child */
    bool drop;                 /* only count */
    _Atomic uint64_t given[2]; /* by the engine's thread */
    sem_t ended;
};

static void on_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    struct run *r = ctx;
    assert_true(berth_engine_is_here(engine));
    if (!r->drop)
        berth_buf_append(stream == BERTH_STDOUT ? &r->out : &r->err, bytes, len);
    atomic_fetch_add(&r->given[stream], len);
}

static void on_end(void *ctx, const struct berth_exec_end *end)
{
    struct run *r = ctx;
    r->end = *end;
    (void)sem_post(&r->ended);
}

static const struct berth_exec_handlers *handlers_of(struct run *r)
{
    static _Thread_local struct berth_exec_handlers handlers;
    handlers = (struct berth_exec_handlers){.on_output = on_output, .on_end = on_end, .ctx = r};
    return &handlers;
}

static void prepare(struct run *r, const char *const *argv)
{
    *r = (struct run){.options = BERTH_PROCESS_OPTIONS_INIT,
                      .out = BERTH_BUF_INIT(OUTPUT_BYTES_MAX),
                      .err = BERTH_BUF_INIT(OUTPUT_BYTES_MAX)};
    r->options.argv = argv;
    r->options.env = environment;
    r->options.init_user = below_init ? "one" : NULL;
    (void)sem_init(&r->ended, 0, 0);
}

static void start(struct run *r)
{
    struct berth_error err;
    assert_ok_at(berth_process_start(engine, &r->options, handlers_of(r), &r->process, &err), &err,
                 "start", __FILE__, __LINE__);
}

static void await(struct run *r)
{
    while (sem_wait(&r->ended) < 0 && errno == EINTR)
        ;
    assert_int_equal(r->end.bytes[0], atomic_load(&r->given[0]));
    assert_int_equal(r->end.bytes[1], atomic_load(&r->given[1]));
}

static void finish(struct run *r)
{
    berth_process_free(r->process);
    berth_buf_clear(&r->out);
    berth_buf_clear(&r->err);
    (void)sem_destroy(&r->ended);
}

#define SH(script) ((const char *const[]){"sh", "-c", script, NULL})

static bool is_alive(pid_t pid)
{
    char path[64], state[256] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, state, sizeof state - 1) <= 0)
        return false;
    const char *name_end = strrchr(state, ')');
    return name_end && name_end[2] != 'Z' && name_end[2] != 'X';
}

static void assert_dies(pid_t pid)
{
    for (int i = 0; i < 500 && is_alive(pid); i++)
        pause_ms(10);
    assert_false(is_alive(pid));
}

/* --- programs that behave --- */

static void exit_code_and_both_streams(void **state)
{
    (void)state;
    struct run r;
    prepare(&r, SH("echo out; echo err >&2; exit 7"));
    start(&r);
    await(&r);
    assert_int_equal(r.end.cause, BERTH_END_EXITED);
    assert_int_equal(r.end.exit_code, 7);
    assert_int_equal(r.end.signal, 0);
    assert_string_equal(berth_buf_str(&r.out), "out\n");
    assert_string_equal(berth_buf_str(&r.err), "err\n");
    assert_true(r.end.finished_at_ms >= r.end.started_at_ms);
    finish(&r);
}

static void signal_of_somebody_else(void **state)
{
    (void)state;
    struct run r;
    prepare(&r, SH("kill -USR1 $$; sleep 5"));
    start(&r);
    await(&r);
    assert_int_equal(r.end.cause, BERTH_END_SIGNALLED);
    assert_int_equal(r.end.exit_code, -1);
    assert_int_equal(r.end.signal, SIGUSR1);
    finish(&r);
}

static void child_sees_nothing_of_ours(void **state)
{
    (void)state;
    assert_int_equal(setenv("BERTH_TEST_LEAK", "leak", 1), 0);
    int leak = open("/dev/null", O_RDONLY); /* without O_CLOEXEC, as libraries do */
    assert_true(leak >= 0);
    struct run r;
    prepare(&r,
            SH("env | sort | grep -v -e ^PWD -e ^_= -e ^SHLVL -e ^OLDPWD; ls /proc/self/fd | wc -l;"
               " cat /proc/self/status | grep -e SigBlk -e SigIgn | cut -f2;"
               " test $(ps -o sid= -p $$) -eq $$ && echo own session"));
    start(&r);
    await(&r);
    (void)close(leak);
    assert_int_equal(unsetenv("BERTH_TEST_LEAK"), 0);
    assert_string_equal(berth_buf_str(&r.out),
                        "MARK=here\nPATH=/usr/bin:/bin\n4\n0000000000000000\n0000000000000000\n"
                        "own session\n");
    finish(&r);
}

static void working_directory(void **state)
{
    (void)state;
    struct run r;
    struct berth_error err;
    prepare(&r, SH("pwd"));
    r.options.cwd = "/usr";
    start(&r);
    await(&r);
    assert_string_equal(berth_buf_str(&r.out), "/usr\n");
    finish(&r);
    prepare(&r, SH("pwd"));
    r.options.cwd = "/nowhere";
    assert_int_equal(berth_process_start(engine, &r.options, handlers_of(&r), &r.process, &err),
                     BERTH_E_UNPROCESSABLE);
    assert_string_equal(err.message, "Working directory does not exist: \"/nowhere\"");
    r.options.cwd = "/etc/passwd";
    assert_int_equal(berth_process_start(engine, &r.options, handlers_of(&r), &r.process, &err),
                     BERTH_E_UNPROCESSABLE);
}

static void programs_that_are_not_there_or_may_not_run(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int code;
    } programs[] = {{"no-such-program", BERTH_E_NOT_FOUND},
                    {"/no/such", BERTH_E_NOT_FOUND},
                    {"", BERTH_E_NOT_FOUND},
                    {"/etc/passwd", BERTH_E_DENIED},
                    {"/usr", BERTH_E_DENIED},
                    {"/etc/passwd/x", BERTH_E_NOT_FOUND}};
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        struct run r;
        struct berth_error err;
        prepare(&r, (const char *const[]){programs[i].name, NULL});
        assert_int_equal(berth_process_start(engine, &r.options, handlers_of(&r), &r.process, &err),
                         programs[i].code);
        assert_true(err.message[0]);
    }
}

/* The last one: the process keeps it. */
static void ignored_signals_that_were_noted(void **state)
{
    (void)state;
    struct run r;
    (void)signal(SIGUSR1, SIG_IGN);
    (void)signal(SIGRTMAX, SIG_IGN);
    berth_spawn_note_signals();
    prepare(&r, SH("grep SigIgn /proc/self/status"));
    start(&r);
    await(&r);
    assert_string_equal(berth_buf_str(&r.out), "SigIgn:\t0000000000000000\n");
    finish(&r);
    (void)signal(SIGUSR1, SIG_DFL);
    (void)signal(SIGRTMAX, SIG_DFL);
}

static void run_for(const char *user, const char *script, char *out, size_t size)
{
    struct run r;
    prepare(&r, SH(script));
    r.options.init_user = user;
    start(&r);
    await(&r);
    assert_int_equal(r.end.exit_code, 0);
    (void)snprintf(out, size, "%s", berth_buf_str(&r.out));
    finish(&r);
}

/* Programs that use select() have a hard time with more than they were given. */
static void file_limit_is_raised_for_ourselves(void **state)
{
    (void)state;
    struct run r;
    struct rlimit before, now;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){500, before.rlim_max}), 0);
    berth_spawn_raise_file_limit();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
    assert_int_equal(now.rlim_cur, before.rlim_max);
    prepare(&r, SH("ulimit -Sn"));
    r.options.init_user = below_init ? "two" : NULL; /* an init that was started after that */
    start(&r);
    await(&r);
    assert_string_equal(berth_buf_str(&r.out), "500\n");
    finish(&r);
    if (below_init) { /* which sends descriptors, and has our limit therefore */
        char of_init[64], all[64];
        run_for("two", "sed -n 's/^Max open files *\\([0-9]*\\).*/\\1/p' /proc/$PPID/limits",
                of_init, sizeof of_init);
        (void)snprintf(all, sizeof all, "%llu\n", (unsigned long long)before.rlim_max);
        assert_string_equal(of_init, all);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    berth_spawn_raise_file_limit();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static _Atomic bool bystander_stops;

/* How often a descriptor of its own was gone. */
static void *stand_by(void *ctx)
{
    uintptr_t *robbed = ctx;
    while (!atomic_load(&bystander_stops)) {
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        *robbed += fd >= 0 && close(fd) < 0;
    }
    return NULL;
}

static void failed_starts_close_what_is_theirs(void **state)
{
    (void)state;
    pthread_t thread;
    uintptr_t robbed = 0;
    struct berth_error err;
    assert_int_equal(pthread_create(&thread, NULL, stand_by, &robbed), 0);
    for (int i = 0; i < 1000; i++) {
        struct run r;
        prepare(&r, (const char *const[]){"/etc/passwd", NULL});
        assert_int_equal(berth_process_start(engine, &r.options, handlers_of(&r), &r.process, &err),
                         BERTH_E_DENIED);
    }
    atomic_store(&bystander_stops, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(robbed, 0);
}

static void much_output_arrives_whole(void **state)
{
    (void)state;
    struct run r;
    prepare(&r, SH("head -c 300000000 /dev/zero & head -c 5000000 /dev/zero >&2; wait"));
    r.drop = true;
    start(&r);
    await(&r);
    assert_int_equal(r.end.bytes[0], 300000000);
    assert_int_equal(r.end.bytes[1], 5000000);
    finish(&r);
}

static void paused_child_waits(void **state)
{
    (void)state;
    struct run r;
    prepare(&r, SH("head -c 3000000 /dev/zero; echo done >&2"));
    r.drop = true;
    start(&r);
    berth_process_pause(r.process, true);
    pause_ms(200);
    uint64_t seen = atomic_load(&r.given[0]);
    assert_true(seen < 3000000); /* its pipe is full: it cannot get on */
    pause_ms(100);
    assert_int_equal(atomic_load(&r.given[0]), seen);
    berth_process_pause(r.process, false);
    await(&r);
    assert_int_equal(r.end.bytes[0], 3000000);
    finish(&r);
}

/* --- stdin --- */

/* A reader that takes nothing any more keeps neither a cancelled program nor a time-out. */
static void paused_child_can_be_ended(void **state)
{
    (void)state;
    for (int by_timeout = 0; by_timeout < 2; by_timeout++) {
        struct run r;
        prepare(&r, SH("head -c 3000000 /dev/zero"));
        r.drop = true;
        r.options.grace_ms = 200;
        r.options.timeout_ms = by_timeout ? 300 : 0;
        start(&r);
        berth_process_pause(r.process, true);
        pause_ms(100);
        if (!by_timeout)
            berth_process_cancel(r.process);
        await(&r);
        assert_int_equal(r.end.cause, by_timeout ? BERTH_END_TIMEOUT : BERTH_END_CANCELLED);
        assert_true(r.end.cut[0]); /* and that is told */
        finish(&r);
    }
}

/* The same when it has ended by itself. */
static void paused_child_that_has_ended_can_be_cancelled(void **state)
{
    (void)state;
    struct run r;
    prepare(&r, SH("echo some words"));
    start(&r);
    berth_process_pause(r.process, true);
    pause_ms(300);
    berth_process_cancel(r.process);
    await(&r);
    assert_int_equal(r.end.exit_code, 0);
    finish(&r);
}

static void stdin_streams_and_closes(void **state)
{
    (void)state;
    struct run r;
    struct berth_error err;
    prepare(&r, (const char *const[]){"cat", NULL});
    r.options.with_stdin = true;
    start(&r);
    assert_int_equal(berth_process_write(r.process, "one ", 4, &err), BERTH_OK);
    assert_int_equal(berth_process_write(r.process, "two", 3, &err), BERTH_OK);
    berth_process_close_stdin(r.process);
    berth_process_close_stdin(r.process);
    assert_int_equal(berth_process_write(r.process, "three", 5, &err), BERTH_E_CONFLICT);
    await(&r);
    assert_string_equal(berth_buf_str(&r.out), "one two");
    finish(&r);
}

static void stdin_has_a_bound(void **state)
{
    (void)state;
    struct run r;
    struct berth_error err;
    static char block[256 * 1024];
    prepare(&r, SH("sleep 0.3; cat | wc -c"));
    r.options.with_stdin = true;
    start(&r);
    size_t sent = 0;
    int rc;
    while ((rc = berth_process_write(r.process, block, sizeof block, &err)) == BERTH_OK &&
           sent < 64 * sizeof block)
        sent += sizeof block;
    assert_int_equal(rc, BERTH_E_UNAVAILABLE);
    assert_true(sent <= 8 * sizeof block);
    berth_process_close_stdin(r.process);
    await(&r);
    assert_int_equal(strtoll(berth_buf_str(&r.out), NULL, 10), sent);
    finish(&r);
}

static void child_that_does_not_read_is_no_failure(void **state)
{
    (void)state;
    struct run r;
    struct berth_error err;
    static char block[128 * 1024];
    prepare(&r, SH("exec 0<&-; sleep 0.1; exit 5"));
    r.options.with_stdin = true;
    start(&r);
    (void)berth_process_write(r.process, block, sizeof block, &err);
    await(&r);
    assert_int_equal(r.end.exit_code, 5);
    finish(&r);
}

static void terminal_is_one(void **state)
{
    (void)state;
    struct run r;
    struct berth_error err;
    prepare(&r, SH("test -t 0 && test -t 1 && test -t 2 && stty size; read x; stty size;"
                   " echo got:$x"));
    r.options.terminal = true;
    r.options.rows = 30;
    r.options.columns = 100;
    start(&r);
    for (int i = 0; i < 500 && !atomic_load(&r.given[0]); i++)
        pause_ms(10);
    berth_process_resize(r.process, 50, 132);
    assert_int_equal(berth_process_write(r.process, "word\n", 5, &err), BERTH_OK);
    await(&r);
    assert_int_equal(r.end.exit_code, 0);
    assert_non_null(strstr(berth_buf_str(&r.out), "30 100\r\n"));
    assert_non_null(strstr(berth_buf_str(&r.out), "50 132\r\n"));
    assert_non_null(strstr(berth_buf_str(&r.out), "got:word\r\n"));
    finish(&r);
}

/* --- programs that do not behave --- */

static void timeout_ends_the_whole_tree(void **state)
{
    (void)state;
    struct run r;
    prepare(&r, SH("trap '' TERM; (trap '' TERM; sleep 300) & echo $!; wait; sleep 300"));
    r.options.timeout_ms = 200;
    r.options.grace_ms = 200;
    start(&r);
    await(&r);
    assert_int_equal(r.end.cause, BERTH_END_TIMEOUT);
    assert_int_equal(r.end.signal, SIGKILL);
    assert_dies((pid_t)strtol(berth_buf_str(&r.out), NULL, 10));
    finish(&r);
}

static void timeout_that_the_child_answers(void **state)
{
    (void)state;
    struct run r;
    prepare(&r, SH("trap 'echo bye; exit 9' TERM; echo ready; while :; do sleep 0.05; done"));
    r.options.timeout_ms = 300;
    r.options.grace_ms = 60000;
    start(&r);
    await(&r);
    assert_int_equal(r.end.cause, BERTH_END_TIMEOUT);
    assert_int_equal(r.end.exit_code, 9);
    assert_string_equal(berth_buf_str(&r.out), "ready\nbye\n");
    finish(&r);
}

static void deadline_follows_the_moved_clock(void **state)
{
    (void)state;
    struct run r;
    prepare(&r, SH("echo ready; sleep 300"));
    r.options.timeout_ms = 10 * 60 * 1000;
    start(&r);
    for (int i = 0; i < 500 && !atomic_load(&r.given[0]); i++)
        pause_ms(10);
    berth_time_shift(0, 9 * 60 * 1000);
    pause_ms(100);
    assert_int_equal(sem_trywait(&r.ended), -1); /* five minutes and more are not cut */
    berth_time_shift(0, 2 * 60 * 1000);
    await(&r);
    assert_int_equal(r.end.cause, BERTH_END_TIMEOUT);
    assert_int_equal(r.end.signal, SIGTERM);
    finish(&r);
}

static void cancel_at_any_moment(void **state)
{
    (void)state;
    struct run r;
    prepare(&r, SH("sleep 300"));
    start(&r);
    berth_process_cancel(r.process); /* at once */
    berth_process_cancel(r.process);
    await(&r);
    assert_int_equal(r.end.cause, BERTH_END_CANCELLED);
    berth_process_cancel(r.process); /* after its end */
    finish(&r);
    prepare(&r, SH("kill -STOP $$; sleep 300"));
    start(&r);
    pause_ms(100);
    berth_process_cancel(r.process); /* while it is stopped */
    await(&r);
    assert_int_equal(r.end.signal, SIGTERM);
    finish(&r);
}

static void grandchild_that_holds_the_pipe(void **state)
{
    (void)state;
    struct run r;
    prepare(&r, SH("sleep 300 & echo $!; exit 3"));
    r.options.linger_ms = 200;
    start(&r);
    await(&r);
    assert_int_equal(r.end.cause, BERTH_END_EXITED);
    assert_int_equal(r.end.exit_code, 3);
    assert_dies((pid_t)strtol(berth_buf_str(&r.out), NULL, 10));
    finish(&r);
}

static void child_that_closes_its_output_and_lives_on(void **state)
{
    (void)state;
    struct run r;
    prepare(&r, SH("exec 1>&- 2>&-; sleep 0.3; exit 4"));
    start(&r);
    await(&r);
    assert_int_equal(r.end.exit_code, 4);
    assert_true(r.end.finished_at_ms - r.end.started_at_ms >= 250);
    finish(&r);
}

static void daemon_is_found_by_its_label(void **state)
{
    (void)state;
    static const char *const labelled[] = {"PATH=/usr/bin:/bin", "BERTH_EXEC_ID=engine-test", NULL};
    struct run r;
    prepare(&r, SH("setsid sh -c 'sleep 300 & sleep 300' >/dev/null 2>&1 </dev/null & sleep 0.2;"
                   " pgrep -f 'sleep 300' >/dev/null && echo started"));
    r.options.env = labelled;
    start(&r);
    await(&r);
    finish(&r);
    assert_true(berth_strays_end((const char *const[]){"BERTH_EXEC_ID=engine-test", NULL}) >= 1);
    assert_int_equal(berth_strays_end((const char *const[]){"BERTH_EXEC_ID=engine-test", NULL}), 0);
    assert_int_equal(berth_strays_end((const char *const[]){"BERTH_EXEC_ID=engine", NULL}),
                     0); /* not by a beginning */
}

/* --- many, and too many --- */

static int count_fds(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    (void)closedir(dir);
    return count;
}

static int count_threads(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/task");
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    (void)closedir(dir);
    return count;
}

static void many_at_once_leave_nothing(void **state)
{
    (void)state;
    enum { MANY = 300 };
    static struct run runs[MANY];
    int fds = count_fds(), threads = count_threads();
    for (int i = 0; i < MANY; i++) {
        prepare(&runs[i], (const char *const[]){"sleep", "300", NULL});
        start(&runs[i]);
    }
    assert_int_equal(count_threads(), threads);
    for (int i = 0; i < MANY; i++)
        berth_process_cancel(runs[i].process);
    for (int i = 0; i < MANY; i++) {
        await(&runs[i]);
        assert_int_equal(runs[i].end.cause, BERTH_END_CANCELLED);
        finish(&runs[i]);
    }
    for (int i = 0; i < 500 && count_fds() != fds; i++)
        pause_ms(10);
    assert_int_equal(count_fds(), fds);
}

static void without_descriptors_it_fails_cleanly(void **state)
{
    (void)state;
    struct rlimit before, few;
    int fds = count_fds();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (int room = 0; room < 12; room++) {
        few = before;
        few.rlim_cur = (rlim_t)(fds - 3 + room);
        struct run r;
        struct berth_error err;
        prepare(&r, SH("exit 0"));
        r.options.with_stdin = true;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        int rc = berth_process_start(engine, &r.options, handlers_of(&r), &r.process, &err);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        if (rc < 0) {
            assert_int_equal(rc, BERTH_E_UNAVAILABLE);
            continue;
        }
        await(&r);
        finish(&r);
    }
    for (int i = 0; i < 500 && count_fds() != fds; i++)
        pause_ms(10);
    assert_int_equal(count_fds(), fds);
}

static void closing_the_engine_ends_what_runs(void **state)
{
    (void)state;
    struct berth_engine *shared = engine;
    struct berth_error err;
    struct run r;
    assert_int_equal(berth_engine_new(&engine, &err), BERTH_OK);
    prepare(&r, SH("echo $$; sleep 300"));
    r.options.grace_ms = 100;
    start(&r);
    for (int i = 0; i < 500 && !atomic_load(&r.given[0]); i++)
        pause_ms(10);
    pid_t pid = berth_process_pid(r.process);
    berth_process_free(r.process); /* before its end */
    r.process = NULL;
    berth_engine_free(engine);
    await(&r);
    assert_int_equal(r.end.cause, BERTH_END_CANCELLED);
    assert_false(is_alive(pid));
    finish(&r);
    engine = shared;
}

/* A program may close its streams before it ends, and is not ended for that. */
static void terminal_that_is_closed_early(void **state)
{
    (void)state;
    struct run r;
    prepare(&r, SH("echo up; exec <&- >&- 2>&-; sleep 0.2; exit 7"));
    r.options.terminal = true;
    start(&r);
    await(&r);
    assert_int_equal(r.end.cause, BERTH_END_EXITED);
    assert_int_equal(r.end.exit_code, 7);
    assert_string_equal(berth_buf_str(&r.out), "up\r\n");
    finish(&r);
}

static sem_t napping;

static void nap_a_while(struct berth_post *post)
{
    (void)post;
    (void)sem_post(&napping);
    pause_ms(100); /* until the engine was told to stop; no event reports that */
}

static void do_nothing(void *ctx)
{
    (void)ctx;
}

/* The loop is busy when both come: the start of a process, and the end of all. */
static void closing_the_engine_sees_what_has_just_begun(void **state)
{
    (void)state;
    struct berth_engine *own;
    struct berth_error err;
    struct run r;
    struct berth_post nap = {.run = nap_a_while};
    assert_int_equal(sem_init(&napping, 0, 0), 0);
    assert_int_equal(berth_engine_new(&own, &err), BERTH_OK);
    assert_int_equal(berth_engine_do(own, do_nothing, NULL, &err), BERTH_OK); /* its loop runs */
    assert_int_equal(berth_engine_post(own, &nap, &err), BERTH_OK);
    assert_int_equal(sem_wait(&napping), 0);
    prepare(&r, (const char *const[]){"sleep", "30", NULL});
    r.options.grace_ms = 100;
    assert_int_equal(berth_process_start(own, &r.options, handlers_of(&r), &r.process, &err),
                     BERTH_OK);
    pid_t pid = berth_process_pid(r.process);
    berth_process_free(r.process);
    r.process = NULL;
    berth_engine_free(own);
    assert_false(is_alive(pid));
    await(&r);
    assert_int_equal(r.end.cause, BERTH_END_CANCELLED);
    finish(&r);
}

/* A program that embeds us may have SIGCHLD ignored: the kernel then keeps no status, and what is
 * not known is never called success. */
static void status_that_somebody_else_took(void **state)
{
    (void)state;
    struct run r;
    (void)signal(SIGCHLD, SIG_IGN);
    prepare(&r, SH("sleep 0.3; echo done; exit 3"));
    start(&r);
    await(&r);
    (void)signal(SIGCHLD, SIG_DFL);
    assert_int_equal(r.end.cause, BERTH_END_LOST);
    assert_int_equal(r.end.exit_code, -1);
    assert_int_equal(r.end.bytes[0], 5);
    finish(&r);
}

/* --- below an init --- */

/* Returns the process that the program's output names. */
static pid_t named_process(struct run *r)
{
    pid_t pid = (pid_t)atoi(berth_buf_str(&r->out));
    assert_true(pid > 1);
    return pid;
}

static void what_changed_session_and_variables_ends(void **state)
{
    (void)state;
    struct run r;
    prepare(&r, SH("setsid env -i sh -c 'echo $$; exec sleep 300 >/dev/null 2>&1' & read x"));
    r.options.with_stdin = true;
    start(&r);
    for (int i = 0; i < 1000 && !atomic_load(&r.given[0]); i++)
        pause_ms(10);
    berth_process_close_stdin(r.process);
    await(&r);
    assert_int_equal(r.end.cause, BERTH_END_EXITED);
    assert_false(is_alive(named_process(&r)));
    finish(&r);
}

/* Moves the clock until the program is over. */
static void await_shifting(struct run *r)
{
    int shifted = 0;
    for (; sem_trywait(&r->ended) < 0; shifted += 1000) {
        assert_true(shifted < 600 * 1000);
        berth_time_shift(0, 1000);
        pause_ms(10);
    }
    berth_time_shift(0, -shifted);
}

/* A process that the command left reads what the command wrote, so that it never reaches us. */
static void stolen_output_is_not_waited_for(void **state)
{
    (void)state;
    struct run r;
    char mark[] = "/tmp/berth-test.XXXXXX", script[512];
    auto_close int fd = mkstemp(mark);
    assert_true(fd >= 0);
    (void)snprintf(script, sizeof script,
                   "head -c 1000 /dev/zero; (while [ -e /proc/$$ ] && ! grep -q 'State:.Z' "
                   "/proc/$$/status; do sleep 0.01; done; sleep 0.2; "
                   "head -c 1000 </proc/self/fd/1 >/dev/null; echo >%s; exec sleep 300) &",
                   mark);
    prepare(&r, SH(script));
    start(&r);
    berth_process_pause(r.process, true);
    struct stat st = {0};
    for (int i = 0; i < 3000 && st.st_size == 0; i++) {
        pause_ms(10);
        assert_int_equal(fstat(fd, &st), 0);
    }
    assert_true(st.st_size > 0);
    berth_process_pause(r.process, false);
    await_shifting(&r);
    assert_int_equal(r.end.cause, BERTH_END_EXITED);
    finish(&r);
    (void)unlink(mark);
}

static void command_that_kills_its_init_is_lost(void **state)
{
    (void)state;
    struct run r;
    prepare(&r, SH("echo $$; kill -9 $PPID; exec sleep 300"));
    start(&r);
    await(&r);
    assert_int_equal(r.end.cause, BERTH_END_LOST);
    assert_int_equal(r.end.exit_code, -1);
    assert_false(is_alive(named_process(&r)));
    finish(&r);
}

/* The clock is moved over the time that an init has for an answer. */
static void command_that_stops_its_init_is_ended(void **state)
{
    (void)state;
    struct run r;
    prepare(&r, SH("echo $$; kill -STOP $PPID; exec sleep 300"));
    r.options.grace_ms = 10;
    start(&r);
    for (int i = 0; i < 1000 && !atomic_load(&r.given[0]); i++)
        pause_ms(10);
    berth_process_cancel(r.process);
    await_shifting(&r);
    assert_int_equal(r.end.cause, BERTH_END_CANCELLED);
    assert_false(is_alive(named_process(&r)));
    finish(&r);
}

static void next_command_has_an_init_again(void **state)
{
    command_that_kills_its_init_is_lost(state);
    exit_code_and_both_streams(state);
}

/* More text than the socket of an init takes at once. */
static void long_commands_arrive_whole(void **state)
{
    (void)state;
    struct run r;
    static char words[20][100 * 1024];
    const char *argv[24] = {"sh", "-c", "echo $# ${#20}", "sh"};
    for (int i = 0; i < 20; i++) {
        memset(words[i], 'a', sizeof words[i] - 1);
        argv[4 + i] = words[i];
    }
    const char *closed[25];
    memcpy(closed, argv, sizeof argv);
    closed[24] = NULL;
    prepare(&r, closed);
    start(&r);
    await(&r);
    assert_int_equal(r.end.exit_code, 0);
    assert_string_equal(berth_buf_str(&r.out), "20 102399\n");
    finish(&r);
}

/* Runs a script for a user, and copies what it printed. */
/* A command may change limits and priority of its init; those of others have another one. */
static void inits_serve_one_user(void **state)
{
    (void)state;
    char before[64], after[64], again[64];
    static const char look[] = "ulimit -Hn; nice; echo $PPID";
    run_for("three", look, before, sizeof before);
    run_for("four", "prlimit --pid $PPID --nofile=32:32 && renice 7 $PPID >/dev/null", after,
            sizeof after);
    run_for("four", look, after, sizeof after);
    assert_int_equal(strncmp(after, "32\n7\n", 5), 0); /* the same init: the test can fail */
    run_for("five", look, after, sizeof after);
    run_for("five", look, again, sizeof again);
    size_t same = (size_t)(strrchr(before, '\n') - before);
    while (before[same - 1] != '\n') /* without the process number */
        same--;
    assert_int_equal(strncmp(after, before, same), 0);
    assert_string_not_equal(after, before);
    assert_string_equal(after, again);
}

/* A program that cannot be run leaves nothing: neither a process, nor the need for another init. */
static void init_outlives_programs_that_cannot_be_run(void **state)
{
    (void)state;
    struct berth_error err;
    struct run r;
    char before[64], after[64];
    run_for("six", "echo $PPID", before, sizeof before);
    for (int i = 0; i < 3; i++) {
        prepare(&r, (const char *const[]){"/etc/passwd", NULL});
        r.options.init_user = "six";
        assert_int_equal(berth_process_start(engine, &r.options, handlers_of(&r), &r.process, &err),
                         BERTH_E_DENIED);
        r.process = NULL;
        finish(&r);
    }
    run_for("six", "echo $PPID", after, sizeof after);
    assert_string_equal(after, before);
}

int main(void)
{
    const struct CMUnitTest init_tests[] = {
        cmocka_unit_test(what_changed_session_and_variables_ends),
        cmocka_unit_test(command_that_kills_its_init_is_lost),
        cmocka_unit_test(command_that_stops_its_init_is_ended),
        cmocka_unit_test(next_command_has_an_init_again),
        cmocka_unit_test(long_commands_arrive_whole),
        cmocka_unit_test(inits_serve_one_user),
        cmocka_unit_test(init_outlives_programs_that_cannot_be_run),
    };
    const struct CMUnitTest child_tests[] = {
        cmocka_unit_test(daemon_is_found_by_its_label),
        cmocka_unit_test(many_at_once_leave_nothing),
        cmocka_unit_test(without_descriptors_it_fails_cleanly),
        cmocka_unit_test(status_that_somebody_else_took),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_code_and_both_streams),
        cmocka_unit_test(signal_of_somebody_else),
        cmocka_unit_test(child_sees_nothing_of_ours),
        cmocka_unit_test(working_directory),
        cmocka_unit_test(programs_that_are_not_there_or_may_not_run),
        cmocka_unit_test(file_limit_is_raised_for_ourselves),
        cmocka_unit_test(failed_starts_close_what_is_theirs),
        cmocka_unit_test(much_output_arrives_whole),
        cmocka_unit_test(paused_child_waits),
        cmocka_unit_test(paused_child_can_be_ended),
        cmocka_unit_test(paused_child_that_has_ended_can_be_cancelled),
        cmocka_unit_test(stdin_streams_and_closes),
        cmocka_unit_test(stdin_has_a_bound),
        cmocka_unit_test(child_that_does_not_read_is_no_failure),
        cmocka_unit_test(terminal_is_one),
        cmocka_unit_test(timeout_ends_the_whole_tree),
        cmocka_unit_test(timeout_that_the_child_answers),
        cmocka_unit_test(deadline_follows_the_moved_clock),
        cmocka_unit_test(cancel_at_any_moment),
        cmocka_unit_test(grandchild_that_holds_the_pipe),
        cmocka_unit_test(child_that_closes_its_output_and_lives_on),
        cmocka_unit_test(stolen_output_is_not_waited_for),
        cmocka_unit_test(closing_the_engine_ends_what_runs),
        cmocka_unit_test(closing_the_engine_sees_what_has_just_begun),
        cmocka_unit_test(terminal_that_is_closed_early),
        cmocka_unit_test(ignored_signals_that_were_noted),
    };
    (void)signal(SIGPIPE, SIG_IGN); /* as programs that embed us may not */
    below_init = getenv("BERTH_TEST_BELOW_INIT") != NULL;
    if (below_init)
        berth_children_inherit();
    enum {
        COMMON = sizeof tests / sizeof tests[0],
        INIT = sizeof init_tests / sizeof init_tests[0]
    };
    struct CMUnitTest all[COMMON + INIT];
    size_t own = below_init ? sizeof init_tests : sizeof child_tests;
    memcpy(all, tests, sizeof tests);
    memcpy(all + COMMON, below_init ? init_tests : child_tests, own);
    return _cmocka_run_group_tests("process", all, COMMON + own / sizeof all[0], open_engine,
                                   close_engine);
}
