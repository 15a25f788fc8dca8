/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/exec.c - commands in a leased place: what they see, what is kept of them, and
 * that nothing of them stays. Linked with --wrap=berth_framelog_write. */
#include "fixture.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/failpoint.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "core/id_prefix.h"
#include "core/lease/node.h"
#include "core/paths.h"
#include "core/run/exec.h"
#include "core/run/exec_journal.h"
#include "core/run/exec_note.h"
#include "core/run/exec_result.h"
#include "core/run/exec_rows.h"
#include "core/run/run.h"
#include "core/secret/secret.h"
#include "live.h"
#include "os/framelog.h"
#include "os/fs.h"
#include "os/lockfile.h"
#include "os/strays.h"
#include "scripted.h"

#define OUTPUT_BYTES_MAX (64 * 1024 * 1024)
#define MINUTE_MS INT64_C(60000)
#define HOUR_MS (60 * MINUTE_MS)
#define DAY_MS (24 * HOUR_MS)
#define OVERDUE_MS 31000 /* a little more than a living owner is given */

static struct berth_lease *lease_here(struct fixture *f)
{
    struct berth_environment *e;
    assert_ok(f, berth_environment_ensure_local(f->b, &f->arena, NULL, &e, &f->err));
    return take_lease(f, e, make_run(f));
}

static struct berth_exec_request request_of(const struct berth_lease *l, const char *const *argv)
{
    struct berth_exec_request r = BERTH_EXEC_REQUEST_INIT;
    r.lease_id = l->id;
    r.argv = argv;
    return r;
}

/* What the log kept of a stream, and the result at its end. */
static void read_log(struct fixture *f, const char *path, enum berth_frame_kind stream,
                     struct berth_buf *bytes, const char **result)
{
    struct berth_framereader *reader;
    struct berth_frame frame;
    bool more = true;
    *result = NULL;
    assert_ok(f, berth_framereader_open(path, &reader, &f->err));
    while (berth_framereader_next(reader, &frame, &more, &f->err) == BERTH_OK && more) {
        if (frame.kind == stream) {
            assert_int_equal(frame.offset, bytes->len);
            berth_buf_append(bytes, frame.bytes, frame.len);
        }
        if (frame.kind == BERTH_FRAME_END)
            *result = berth_arena_copy(&f->arena, frame.bytes, frame.len);
    }
    berth_framereader_close(reader);
}

static void command_runs_and_is_kept(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    struct berth_exec_request r = request_of(l, SH("echo out; echo err >&2; exit 3"));
    struct live live;
    struct berth_exec *x = live_start(f, &r, &live);
    struct berth_exec_end end;
    berth_exec_wait(x, &end);
    assert_int_equal(end.exit_code, 3);
    assert_string_equal(berth_buf_str(&live.out), "out\n");
    assert_string_equal(berth_buf_str(&live.err), "err\n");
    auto_buf kept = BERTH_BUF_INIT(4096);
    const char *result;
    read_log(f, berth_exec_log(x), BERTH_FRAME_STDOUT, &kept, &result);
    assert_string_equal(berth_buf_str(&kept), "out\n");
    assert_non_null(result);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases WHERE status = 'active'"), 1);
    auto_json *json = parse_json(result);
    assert_int_equal(berth_json_int(berth_json_get(json, "exitCode")), 3);
    assert_int_equal(berth_json_int(berth_json_get(json, "stdoutBytes")), 4);
    assert_string_equal(berth_json_str(berth_json_get(json, "cause")), "exited");
    assert_false(berth_json_true(berth_json_get(json, "truncated")));
    struct stat st;
    assert_int_equal(stat(berth_exec_log(x), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    (void)unlink(berth_exec_log(x));
    berth_exec_free(x);
    live_clear(&live);
}

static void child_sees_only_what_is_named(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(setenv("HOST_SECRET", "leak", 1), 0);
    struct berth_lease *l = lease_here(f);
    const char *const env[] = {"NAMED=yes", NULL};
    struct berth_exec_request r =
        request_of(l, SH("env | cut -d= -f1 | grep -v -e PWD -e _$ -e SHLVL | sort | tr '\\n' ' ';"
                         " echo $NAMED $BERTH_LEASE_ID"));
    r.env = env;
    struct live live;
    struct berth_exec *x = live_start(f, &r, &live);
    struct berth_exec_end end;
    berth_exec_wait(x, &end);
    char expected[256];
    (void)snprintf(expected, sizeof expected,
                   "BERTH_COMPANY_ID BERTH_ENVIRONMENT_ID BERTH_EXEC_ID BERTH_LEASE_ID BERTH_RUN_ID"
                   " HOME NAMED PATH yes %s\n",
                   l->id);
    assert_string_equal(berth_buf_str(&live.out), expected);
    (void)unlink(berth_exec_log(x));
    berth_exec_free(x);
    live_clear(&live);
    const char *const bad[] = {"NO-NAME=1", NULL}, *const forged[] = {"BERTH_LEASE_ID=x", NULL};
    r.env = bad;
    assert_int_equal(berth_exec_start(f->b, &r, NULL, &x, &f->err), BERTH_E_INVALID);
    r.env = forged;
    assert_fails(f, BERTH_E_INVALID, "leave out BERTH_LEASE_ID.",
                 berth_exec_start(f->b, &r, NULL, &x, &f->err));
}

/* X7: an environment that cannot run the command never falls back to the host. */
static void X7_fails_closed(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e =
        make_environment(f, BERTH_DRIVER_SANDBOX, "{\"provider\":\"scripted\"}");
    struct berth_lease *l = take_lease(f, e, make_run(f));
    char marker[192];
    (void)snprintf(marker, sizeof marker, "%s/ran-on-the-host", f->directory);
    struct berth_exec_request r = request_of(l, (const char *const[]){"touch", marker, NULL});
    struct berth_exec *x;
    assert_int_equal(berth_exec_start(f->b, &r, NULL, &x, &f->err), BERTH_E_UNSUPPORTED);
    assert_int_equal(access(marker, F_OK), -1);
    (void)give_lease(f, l, BERTH_LEASE_RELEASED);
    r = request_of(l, (const char *const[]){"touch", marker, NULL});
    assert_int_equal(berth_exec_start(f->b, &r, NULL, &x, &f->err), BERTH_E_CONFLICT);
    assert_int_equal(access(marker, F_OK), -1);
}

/* X11: five minutes and more are not cut. */
static void X11_long_commands_are_not_cut(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    struct berth_exec_request r = request_of(l, SH("echo begun; read x; echo done"));
    r.with_stdin = true;
    struct live live;
    struct berth_exec *x = live_start(f, &r, &live);
    WAIT_FOR(atomic_load(&live.seen) > 0);
    berth_time_shift(0, INT64_C(3600) * 1000);
    pause_ms(100);
    assert_ok(f, berth_exec_write(x, "\n", 1, &f->err));
    struct berth_exec_end end;
    berth_exec_wait(x, &end);
    assert_int_equal(end.cause, BERTH_END_EXITED);
    assert_string_equal(berth_buf_str(&live.out), "begun\ndone\n");
    (void)unlink(berth_exec_log(x));
    berth_exec_free(x);
    live_clear(&live);
}

static void timeout_and_cancel_are_results(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    for (int cancel = 0; cancel < 2; cancel++) {
        struct berth_exec_request r = request_of(l, SH("echo so far; sleep 300"));
        r.timeout_ms = cancel ? 0 : 300;
        struct live live;
        struct berth_exec *x = live_start(f, &r, &live);
        WAIT_FOR(atomic_load(&live.seen) > 0);
        if (cancel)
            berth_exec_cancel(x);
        struct berth_exec_end end;
        berth_exec_wait(x, &end);
        assert_int_equal(end.cause, cancel ? BERTH_END_CANCELLED : BERTH_END_TIMEOUT);
        assert_string_equal(berth_buf_str(&live.out), "so far\n");
        auto_buf kept = BERTH_BUF_INIT(4096);
        const char *result;
        read_log(f, berth_exec_log(x), BERTH_FRAME_STDOUT, &kept, &result);
        assert_string_equal(berth_buf_str(&kept), "so far\n");
        assert_non_null(strstr(result, cancel ? "\"timedOut\":false" : "\"timedOut\":true"));
        (void)unlink(berth_exec_log(x));
        berth_exec_free(x);
        live_clear(&live);
    }
}

static void daemons_do_not_stay(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    struct berth_exec_request r = request_of(
        l, SH("setsid sh -c 'sleep 300' >/dev/null 2>&1 </dev/null & sleep 0.2; echo $!"));
    struct live live;
    struct berth_exec *x = live_start(f, &r, &live);
    struct berth_exec_end end;
    berth_exec_wait(x, &end);
    char label[64];
    (void)snprintf(label, sizeof label, "BERTH_EXEC_ID=%s", berth_exec_id(x));
    assert_int_equal(berth_strays_end((const char *const[]){label, NULL}), 0);
    (void)unlink(berth_exec_log(x));
    berth_exec_free(x);
    live_clear(&live);
}

static void secrets_are_masked_byte_for_byte(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    auto_locked secret = BERTH_LOCKED_INIT;
    assert_ok(f, berth_locked_new(16, &secret, &f->err));
    berth_locked_append(&secret, "s3cr3t-value", 12);
    const char *const env[] = {"TOKEN=s3cr3t-value", NULL};
    struct berth_exec_request r =
        request_of(l, SH("i=0; while [ $i -lt 20000 ]; do printf '%s' \"$TOKEN\"; i=$((i+1)); done;"
                         " echo $TOKEN >&2"));
    r.env = env;
    r.secrets = &secret;
    r.secret_count = 1;
    struct live live;
    struct berth_exec *x = live_start(f, &r, &live);
    struct berth_exec_end end;
    berth_exec_wait(x, &end);
    assert_int_equal(end.bytes[0], 12 * 20000);
    auto_buf kept = BERTH_BUF_INIT(OUTPUT_BYTES_MAX);
    const char *result;
    read_log(f, berth_exec_log(x), BERTH_FRAME_STDOUT, &kept, &result);
    assert_int_equal(kept.len, 12 * 20000);
    assert_int_equal(live.out.len, 12 * 20000);
    assert_int_equal(strspn(berth_buf_str(&kept), "*"), kept.len);
    assert_int_equal(strspn(berth_buf_str(&live.out), "*"), live.out.len);
    assert_string_equal(berth_buf_str(&live.err), "************\n");
    (void)unlink(berth_exec_log(x));
    berth_exec_free(x);
    live_clear(&live);
}

static void log_has_a_limit(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    struct berth_exec_request r = request_of(l, SH("head -c 5000000 /dev/zero"));
    r.log_bytes_max = 1000000;
    struct live live;
    struct berth_exec *x = live_start(f, &r, &live);
    struct berth_exec_end end;
    berth_exec_wait(x, &end);
    assert_int_equal(end.bytes[0], 5000000);
    auto_buf kept = BERTH_BUF_INIT(OUTPUT_BYTES_MAX);
    const char *result;
    read_log(f, berth_exec_log(x), BERTH_FRAME_STDOUT, &kept, &result);
    assert_int_equal(kept.len, 1000000);
    assert_non_null(strstr(result, "\"truncated\":true"));
    assert_non_null(strstr(result, "\"stdoutBytes\":5000000"));
    (void)unlink(berth_exec_log(x));
    berth_exec_free(x);
    live_clear(&live);
}

static void closing_ends_what_runs(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    struct berth_exec_request r = request_of(l, SH("sleep 300"));
    r.grace_ms = 200;
    struct live live;
    struct berth_exec *x = live_start(f, &r, &live);
    char *log = strdup(berth_exec_log(x));
    berth_exec_cancel(x);
    berth_exec_free(x); /* waits for its end */
    (void)unlink(log);
    free(log);
    live_clear(&live);
    fixture_close(f);
    fixture_open(f);
}

enum way { RELEASED, DESTROYED, EXPIRED, RELEASED_BY_ANOTHER, EXPIRED_UNSEEN, WAYS };

/* By what it moves the clocks. */
static const int64_t shifts[WAYS][2] = {
    [EXPIRED] = {8 * DAY_MS, 0},
    [RELEASED_BY_ANOTHER] = {0, 6000}, /* it looks now and then */
    [EXPIRED_UNSEEN] = {8 * DAY_MS, 6000}};

static void end_lease(struct fixture *f, struct berth *other, const char *id, enum way way)
{
    struct berth_release_request release = BERTH_RELEASE_REQUEST_INIT;
    struct berth_lease *out;
    release.lease_id = id;
    if (way == RELEASED || way == RELEASED_BY_ANOTHER)
        assert_ok(f, berth_lease_release(way == RELEASED ? f->b : other, &f->arena, &release, &out,
                                         &f->err));
    if (way == DESTROYED)
        assert_ok(f, berth_lease_destroy(f->b, &f->arena, id, NULL, &out, &f->err));
    berth_time_shift(shifts[way][0], shifts[way][1]);
    if (way == EXPIRED)
        (void)sweep(f);
}

/* A release that follows the end of a command at once finds its daemon, too. */
static void release_ends_what_a_command_left(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    struct berth_exec_request r =
        request_of(l, SH("setsid sleep 300 >/dev/null 2>&1 </dev/null & sleep 0.2"));
    struct live live;
    struct berth_exec *x = live_start(f, &r, &live);
    struct berth_exec_end end;
    char label[64];
    berth_exec_wait(x, &end);
    (void)snprintf(label, sizeof label, "BERTH_EXEC_ID=%s", berth_exec_id(x));
    berth_exec_free(x);
    end_lease(f, NULL, l->id, RELEASED);
    assert_int_equal(berth_strays_end((const char *const[]){label, NULL}), 0);
    live_clear(&live);
}

/* However a lease ends: nothing runs in a place that may be somebody else's. */
static void no_command_outlives_its_lease(void **state)
{
    struct fixture *f = *state;
    for (int way = 0; way < WAYS; way++) {
        struct berth_lease *l = lease_here(f);
        struct berth_exec_request r =
            request_of(l, SH("trap 'echo told; exit 0' TERM; echo here; sleep 300 & wait"));
        struct berth *own = f->b, *other;
        struct berth_exec_end end;
        struct live live;
        fixture_open(f);
        other = f->b;
        f->b = own;
        struct berth_exec *x = live_start(f, &r, &live);
        while (!atomic_load(&live.seen))
            pause_ms(5);
        end_lease(f, other, l->id, (enum way)way);
        if (way <= EXPIRED) /* it has ended by now */
            assert_int_equal(berth_buf_str(&live.out)[5], 't');
        berth_exec_wait(x, &end);
        assert_int_equal(end.cause, BERTH_END_CANCELLED);
        assert_string_equal(berth_buf_str(&live.out), "here\ntold\n");
        assert_int_equal(berth_exec_start(f->b, &r, NULL, &(struct berth_exec *){NULL}, &f->err),
                         BERTH_E_CONFLICT);
        berth_time_shift(-shifts[way][0], -shifts[way][1]);
        berth_exec_free(x);
        live_clear(&live);
        berth_close(other);
    }
}

/* Nor does one that does not listen, whatever grace it was promised. */
static void stubborn_commands_end_with_their_lease(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    struct berth_exec_request r =
        request_of(l, SH("trap '' TERM; echo here; while :; do sleep 1; done"));
    struct berth_exec_end end;
    struct live live;
    r.grace_ms = DAY_MS;
    struct berth_exec *x = live_start(f, &r, &live);
    while (!atomic_load(&live.seen))
        pause_ms(5);
    int64_t from_ms = berth_time_mono_ms();
    end_lease(f, NULL, l->id, RELEASED);
    assert_in_range(berth_time_mono_ms() - from_ms, 9000, 60000);
    berth_exec_wait(x, &end); /* or the test would take a day */
    assert_int_equal(end.cause, BERTH_END_CANCELLED);
    berth_exec_free(x);
    live_clear(&live);
}

/* A sweep that comes between a command's end and its row does not take it for a dead process's. */
static void an_end_that_is_queued_is_no_loss(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    struct berth_exec_request r = request_of(l, SH("read line"));
    r.with_stdin = true;
    struct live live;
    struct berth_exec *x = live_start(f, &r, &live);
    struct berth_exec_end end;
    assert_ok(f, berth_exec_journal_flush(f->b, &f->err));
    assert_int_equal(count_rows(f, "SELECT count(*) FROM execs WHERE cause IS NULL"), 1);
    berth_exec_journal_hold(f->b);
    berth_exec_close_stdin(x);
    berth_exec_wait(x, &end);
    (void)unlink(berth_exec_log(x));
    berth_exec_free(x);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM execs WHERE cause IS NULL"), 1);
    (void)sweep(f);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM execs WHERE cause = 'exited'"), 1);
    live_clear(&live);
}

/* A journal as a killed process leaves it. */
static char *leave_journal(struct fixture *f, const char *store_id, const char *text)
{
    auto_free char *directory = NULL;
    struct berth_id node = berth_id_new();
    char *path = NULL;
    assert_ok(f, berth_directory(f->b, "journal", &directory, &f->err));
    assert_ok(f, berth_fs_mkdirs(directory, 0700, &f->err));
    assert_true(asprintf(&path, "%s/%s.%s", directory, store_id, node.text) > 0);
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_ok(f, berth_fs_write_all(fd, text, strlen(text), &f->err));
    return path;
}

static void what_was_told_outlives_a_kill(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    struct berth_id ids[3] = {berth_id_new(), berth_id_new(), berth_id_new()},
                    node = berth_id_new(), store = berth_id_new();
    auto_buf text = BERTH_BUF_INIT(1 << 20);
    struct berth_exec_record record = {.company_id = l->company_id,
                                       .environment_id = l->environment_id,
                                       .lease_id = l->id,
                                       .command = "say \"more\"\n",
                                       .owner = node.text,
                                       .end = {.started_at_ms = 1000}};
    for (int i = 0; i < 3; i++) { /* one that ended, one that did not, one that never began */
        record.id = ids[i].text;
        berth_exec_note_write(&text, &record);
    }
    record.id = ids[0].text;
    record.ended = record.truncated = true;
    record.end = (struct berth_exec_end){.cause = BERTH_END_SIGNALLED,
                                         .exit_code = -1,
                                         .signal = SIGSEGV,
                                         .bytes = {INT64_C(5000000000), 7},
                                         .started_at_ms = 1000,
                                         .finished_at_ms = 2000};
    berth_exec_note_write(&text, &record);
    berth_exec_note_write_void(&text, ids[2].text);
    berth_buf_puts(&text, "{\"id\":\"no id\"}\nno json\n");
    auto_free char *path = leave_journal(f, f->b->store_id, berth_buf_str(&text));
    auto_free char *foreign = leave_journal(f, store.text, berth_buf_str(&text));
    fixture_close(f);
    fixture_open(f);
    struct berth_exec_record *found;
    assert_ok(f, berth_exec_rows_get(f->b, &f->arena, ids[0].text, &found, &f->err));
    assert_true(found->ended && found->truncated);
    assert_string_equal(found->command, "say \"more\"\n");
    assert_null(found->cwd);
    assert_int_equal(found->end.cause, BERTH_END_SIGNALLED);
    assert_int_equal(found->end.signal, SIGSEGV);
    assert_int_equal(found->end.bytes[0], INT64_C(5000000000));
    assert_int_equal(found->end.finished_at_ms, 2000);
    assert_ok(f, berth_exec_rows_get(f->b, &f->arena, ids[1].text, &found, &f->err));
    assert_false(found->ended);
    assert_int_equal(berth_exec_rows_get(f->b, &f->arena, ids[2].text, &found, &f->err),
                     BERTH_E_NOT_FOUND);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access(foreign, F_OK), 0);
    (void)unlink(foreign);
    (void)sweep(f); /* nobody runs the second any more */
    assert_ok(f, berth_exec_rows_get(f->b, &f->arena, ids[1].text, &found, &f->err));
    assert_true(found->ended);
    assert_int_equal(found->end.cause, BERTH_END_LOST);
}

/* Two sweeps at once: who cannot read the journal leaves its commands to who does. */
static void what_somebody_recovers_is_not_lost(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    struct berth_id id = berth_id_new(), node = berth_id_new();
    struct berth_exec_record record = {.id = id.text,
                                       .company_id = l->company_id,
                                       .environment_id = l->environment_id,
                                       .lease_id = l->id,
                                       .command = "true",
                                       .owner = node.text,
                                       .end = {.started_at_ms = 1000}};
    struct berth_exec_record *found;
    auto_buf text = BERTH_BUF_INIT(1 << 20);
    assert_ok(f, berth_exec_journal_begin(f->b, &record, &f->err));
    berth_exec_journal_started(f->b, record.id);
    record.ended = true;
    record.end.finished_at_ms = 2000;
    berth_exec_note_write(&text, &record);
    auto_free char *directory = NULL;
    char path[PATH_MAX];
    assert_ok(f, berth_directory(f->b, "journal", &directory, &f->err));
    (void)snprintf(path, sizeof path, "%s/%s.%s", directory, f->b->store_id, node.text);
    int fd = berth_lockfile_make(path, &f->err);
    assert_ok(f, berth_fs_write_all(fd, text.data, text.len, &f->err));
    (void)sweep(f);
    assert_ok(f, berth_exec_rows_get(f->b, &f->arena, record.id, &found, &f->err));
    assert_false(found->ended);
    (void)close(fd);
    (void)sweep(f);
    assert_ok(f, berth_exec_rows_get(f->b, &f->arena, record.id, &found, &f->err));
    assert_true(found->ended);
    assert_int_equal(found->end.cause, BERTH_END_EXITED);
}

static void journal_path(struct fixture *f, const char *node_id, char path[PATH_MAX])
{
    auto_free char *directory = NULL;
    assert_ok(f, berth_directory(f->b, "journal", &directory, &f->err));
    (void)snprintf(path, PATH_MAX, "%s/%s.%s", directory, f->b->store_id, node_id);
}

static long journal_size(struct fixture *f)
{
    struct stat st;
    char path[PATH_MAX];
    journal_path(f, berth_node_id(f->b->node), path);
    assert_int_equal(stat(path, &st), 0);
    return (long)st.st_size;
}

/* A command of this process that is about to start. */
static struct berth_exec_record record_of(struct fixture *f, const struct berth_lease *l,
                                          const char *id)
{
    return (struct berth_exec_record){.id = id,
                                      .company_id = l->company_id,
                                      .environment_id = l->environment_id,
                                      .lease_id = l->id,
                                      .command = "true",
                                      .owner = berth_node_id(f->b->node)};
}

/* Killed when the journal has the start of a command and the word that it never began. */
static void what_never_began_has_no_row(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    struct berth_id id = berth_id_new();
    struct berth_exec_record record = record_of(f, l, id.text);
    struct berth_exec_record *found;
    struct berth_exec_request r = request_of(l, SH("true"));
    struct live live;
    berth_exec_journal_hold(f->b);
    assert_ok(f, berth_exec_journal_begin(f->b, &record, &f->err));
    berth_exec_free(live_start(f, &r, &live));
    berth_exec_journal_void(f->b, record.id);
    char path[PATH_MAX], copy[PATH_MAX];
    struct berth_id dead = berth_id_new();
    auto_buf text = BERTH_BUF_INIT(1 << 20);
    journal_path(f, berth_node_id(f->b->node), path);
    journal_path(f, dead.text, copy);
    int from = open(path, O_RDONLY | O_CLOEXEC),
        to = open(copy, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_ok(f, berth_fs_read_all(from, &text, &f->err));
    assert_ok(f, berth_fs_write_all(to, text.data, text.len, &f->err));
    (void)close(from);
    (void)close(to);
    berth_exec_journal_recover(f->b);
    assert_int_equal(access(copy, F_OK), -1);
    assert_int_equal(berth_exec_rows_get(f->b, &f->arena, record.id, &found, &f->err),
                     BERTH_E_NOT_FOUND);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM execs WHERE cause = 'exited'"), 1);
    live_clear(&live);
}

/* A command that is about to start stays in a journal that is trimmed because it is long. */
static void a_trim_keeps_what_is_not_written(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    struct berth_id id = berth_id_new();
    struct berth_exec_record record = record_of(f, l, id.text);
    struct berth_exec_request r = request_of(l, (const char *const[]){"/etc/passwd", NULL});
    struct berth_exec *x;
    berth_exec_journal_hold(f->b);
    assert_ok(f, berth_exec_journal_begin(f->b, &record, &f->err));
    for (int i = 0; i < 5000; i++)
        assert_int_equal(berth_exec_start(f->b, &r, NULL, &x, &f->err), BERTH_E_DENIED);
    assert_ok(f, berth_exec_journal_flush(f->b, &f->err));
    char path[PATH_MAX];
    auto_buf text = BERTH_BUF_INIT(1 << 20);
    journal_path(f, berth_node_id(f->b->node), path);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_ok(f, berth_fs_read_all(fd, &text, &f->err));
    assert_non_null(strstr(berth_buf_str(&text), record.id));
    assert_in_range(text.len, 1, 1000);
    berth_exec_journal_void(f->b, record.id);
    assert_ok(f, berth_exec_journal_flush(f->b, &f->err));
    assert_int_equal(journal_size(f), 0);
}

/* A file where a directory should be. */
static void block(struct fixture *f, const char *name)
{
    auto_free char *path = NULL;
    assert_true(asprintf(&path, "%s/%s", f->directory, name) > 0);
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
}

static void refused_commands_leave_a_short_journal(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    struct berth_exec_request r = request_of(l, (const char *const[]){"/etc/passwd", NULL});
    struct berth_exec *x;
    berth_exec_journal_hold(f->b);
    for (int i = 0; i < 5000; i++) /* 374 bytes each */
        assert_int_equal(berth_exec_start(f->b, &r, NULL, &x, &f->err), BERTH_E_DENIED);
    assert_true(journal_size(f) > 1024 * 1024);
    assert_ok(f, berth_exec_journal_flush(f->b, &f->err));
    assert_int_equal(journal_size(f), 0);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM execs"), 0);
}

static void run_command(struct fixture *f, const struct berth_lease *l)
{
    struct berth_exec_request r = request_of(l, SH("exit 3"));
    struct berth_exec_end end;
    struct live live;
    struct berth_exec *x = live_start(f, &r, &live);
    berth_exec_wait(x, &end);
    assert_int_equal(end.exit_code, 3);
    berth_exec_free(x);
    live_clear(&live);
}

/* Commands go on, the journal keeps what became of them, and their rows come by themselves. */
static void rows_wait_for_a_store_that_is_away(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    run_sql(f, "ALTER TABLE execs RENAME TO execs_elsewhere", NULL);
    for (int i = 0; i < 3; i++) {
        run_command(f, l);
        assert_true(berth_exec_journal_flush(f->b, &f->err) < 0);
    }
    assert_true(journal_size(f) > 0);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM execs_elsewhere"), 0);
    run_sql(f, "ALTER TABLE execs_elsewhere RENAME TO execs", NULL);
    const char *of_all = "SELECT count(*) FROM execs WHERE exit_code = 3";
    for (int i = 0; i < 100 && count_rows(f, of_all) < 3; i++)
        pause_ms(100);
    assert_int_equal(count_rows(f, of_all), 3);
    assert_ok(f, berth_exec_journal_flush(f->b, &f->err)); /* behind the one that wrote them */
    assert_int_equal(journal_size(f), 0);
}

/* While the row of a command cannot be written, asking for it fails as the store does, and never
 * with NOT_FOUND: the command exists. */
static void a_row_that_waits_is_not_missing(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    struct berth_exec_request r = request_of(l, SH("exit 3"));
    struct berth_exec_record *record;
    struct berth_exec_end end;
    struct live live;
    const char *company, *lease;
    struct berth_id nobody = berth_id_new();
    auto_arena arena = BERTH_ARENA_INIT;
    berth_exec_journal_hold(f->b);
    struct berth_exec *x = live_start(f, &r, &live);
    run_sql(f, "ALTER TABLE leases RENAME TO leases_elsewhere", NULL); /* written, not read */
    assert_true(berth_exec_rows_get(f->b, &arena, berth_exec_id(x), &record, &f->err) < 0);
    assert_int_not_equal(f->err.code, BERTH_E_NOT_FOUND);
    assert_true(berth_exec_rows_next(f->b, &arena, nobody.text, "", &record, &f->err) < 0);
    assert_true(berth_id_prefix_owner(f->b, &arena, BERTH_KIND_EXEC, berth_exec_id(x), &company,
                                      &lease, &f->err) < 0);
    run_sql(f, "ALTER TABLE leases_elsewhere RENAME TO leases", NULL);
    assert_ok(f, berth_exec_rows_get(f->b, &arena, berth_exec_id(x), &record, &f->err));
    berth_exec_wait(x, &end);
    berth_exec_free(x);
    live_clear(&live);
}

static void what_cannot_be_recorded_is_not_started(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    auto_free char *mark = NULL;
    assert_true(asprintf(&mark, "%s/mark", f->directory) > 0);
    const char *const argv[] = {"touch", mark, NULL};
    struct berth_exec_request r = request_of(l, argv);
    struct berth_exec *x;
    block(f, "journal");
    assert_int_equal(berth_exec_start(f->b, &r, NULL, &x, &f->err), BERTH_E_UNAVAILABLE);
    assert_int_equal(access(mark, F_OK), -1);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM execs"), 0);
}

static void result_of(struct fixture *f, struct berth_exec *x, struct berth_buf *text)
{
    struct berth_exec_end end;
    berth_exec_wait(x, &end);
    struct berth_json_writer w = {.buf = text};
    assert_ok(f, berth_exec_result_json(&w, berth_exec_log(x), NULL, &end, berth_exec_truncated(x),
                                        &f->err));
}

static void silence_needs_no_log(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    struct berth_exec_request r = request_of(l, SH("exit 4"));
    struct live live;
    struct berth_exec *x = live_start(f, &r, &live);
    auto_buf text = BERTH_BUF_INIT(4096);
    result_of(f, x, &text);
    assert_non_null(strstr(berth_buf_str(&text), "\"exitCode\":4"));
    assert_non_null(strstr(berth_buf_str(&text), "\"truncated\":false"));
    assert_int_equal(access(berth_exec_log(x), F_OK), -1);
    berth_exec_free(x);
    live_clear(&live);
}

static void a_log_that_cannot_be_made_is_said_to_be_missing(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    struct berth_exec_request r = request_of(l, SH("echo out; exit 4"));
    struct live live;
    block(f, "logs");
    struct berth_exec *x = live_start(f, &r, &live);
    auto_buf text = BERTH_BUF_INIT(4096);
    result_of(f, x, &text);
    assert_string_equal(berth_buf_str(&live.out), "out\n");
    assert_non_null(strstr(berth_buf_str(&text), "\"exitCode\":4"));
    assert_non_null(strstr(berth_buf_str(&text), "\"stdoutBytes\":4"));
    assert_non_null(strstr(berth_buf_str(&text), "\"truncated\":true"));
    berth_exec_free(x);
    live_clear(&live);
}

/* --- a log that lags --- */

#define LONG_BYTES ((size_t)8 * BERTH_PIPE_QUEUE_BYTES_MAX)
#define CHUNK_BYTES ((size_t)64 * 1024) /* what is read from a command at once */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stalled;
    size_t written; /* to logs of any command */
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

int __real_berth_framelog_write(struct berth_framelog *log, enum berth_frame_kind stream,
                                const char *bytes, size_t len, int64_t at_ms,
                                struct berth_error *err);
int __wrap_berth_framelog_write(struct berth_framelog *log, enum berth_frame_kind stream,
                                const char *bytes, size_t len, int64_t at_ms,
                                struct berth_error *err);

int __wrap_berth_framelog_write(struct berth_framelog *log, enum berth_frame_kind stream,
                                const char *bytes, size_t len, int64_t at_ms,
                                struct berth_error *err)
{
    pthread_mutex_lock(&disk.lock);
    while (disk.stalled)
        pthread_cond_wait(&disk.changed, &disk.lock);
    pthread_mutex_unlock(&disk.lock);
    int rc = __real_berth_framelog_write(log, stream, bytes, len, at_ms, err);
    pthread_mutex_lock(&disk.lock);
    disk.written += len;
    pthread_cond_broadcast(&disk.changed);
    pthread_mutex_unlock(&disk.lock);
    return rc;
}

static void stall_disk(bool stalled)
{
    pthread_mutex_lock(&disk.lock);
    disk.stalled = stalled;
    disk.written = 0;
    pthread_cond_broadcast(&disk.changed);
    pthread_mutex_unlock(&disk.lock);
}

static void await_written(size_t bytes)
{
    pthread_mutex_lock(&disk.lock);
    while (disk.written < bytes)
        pthread_cond_wait(&disk.changed, &disk.lock);
    pthread_mutex_unlock(&disk.lock);
}

static void await_seen(struct live *live, size_t bytes)
{
    while (atomic_load(&live->seen) < bytes)
        pause_ms(1);
}

/* The loop thread reads from every command that is not paused while `echo`, a cat, answers. */
static void turn_the_loop(struct fixture *f, struct berth_exec *echo, struct live *live)
{
    for (int i = 0; i < 100; i++) {
        size_t seen = atomic_load(&live->seen);
        assert_ok(f, berth_exec_write(echo, "x", 1, &f->err));
        await_seen(live, seen + 1);
    }
}

/* A command whose log cannot be written is not read from beyond the queue's limit, whatever the
 * caller does with its own pause. Nothing is lost by it. What is seen is compared when all have
 * ended, so that a failure does not leave the disk stalled. */
static void command_waits_for_a_log_that_lags(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    struct berth_exec_request loud = request_of(l, SH("read line; head -c 8388608 /dev/zero"));
    struct berth_exec_request quiet = request_of(l, (const char *const[]){"cat", NULL});
    struct live heard, echoed;
    struct berth_exec_end end;
    loud.with_stdin = quiet.with_stdin = true;
    loud.timeout_ms = 2 * MINUTE_MS; /* for a command that is never read from again */
    stall_disk(true);
    struct berth_exec *x = live_start(f, &loud, &heard), *echo = live_start(f, &quiet, &echoed);
    assert_ok(f, berth_exec_write(x, "\n", 1, &f->err)); /* it can be paused from its first byte */
    await_seen(&heard, BERTH_PIPE_QUEUE_BYTES_MAX);
    turn_the_loop(f, echo, &echoed);
    berth_exec_pause(x, true);
    berth_exec_pause(x, false);
    turn_the_loop(f, echo, &echoed);
    size_t unwritten = atomic_load(&heard.seen);

    berth_exec_pause(x, true); /* now the caller does not want more */
    stall_disk(false);
    await_written(unwritten + atomic_load(&echoed.seen));
    turn_the_loop(f, echo, &echoed);
    size_t held = atomic_load(&heard.seen);
    berth_exec_pause(x, false);
    berth_exec_wait(x, &end);
    size_t all = atomic_load(&heard.seen);
    bool truncated = berth_exec_truncated(x);
    auto_buf kept = BERTH_BUF_INIT(OUTPUT_BYTES_MAX);
    const char *result;
    read_log(f, berth_exec_log(x), BERTH_FRAME_STDOUT, &kept, &result);
    berth_exec_close_stdin(echo);
    berth_exec_free(echo);
    berth_exec_free(x);
    live_clear(&heard);
    live_clear(&echoed);
    assert_in_range(unwritten, BERTH_PIPE_QUEUE_BYTES_MAX,
                    BERTH_PIPE_QUEUE_BYTES_MAX + CHUNK_BYTES);
    assert_int_equal(held, unwritten);
    assert_int_equal(end.cause, BERTH_END_EXITED);
    assert_int_equal(end.bytes[0], LONG_BYTES);
    assert_int_equal(all, LONG_BYTES);
    assert_int_equal(kept.len, LONG_BYTES);
    assert_false(truncated);
}

/* --- processes that stay behind --- */

/* A process as a command of that exec would have started it. */
static pid_t spawn_labelled(const char *label)
{
    const char *argv[] = {"sleep", "300", NULL}, *env[] = {label, NULL};
    pid_t pid;
    assert_int_equal(
        posix_spawnp(&pid, "sleep", NULL, NULL, (char **)(void *)argv, (char **)(void *)env), 0);
    return pid;
}

static void bury(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

/* A row of a command that runs, by its owner's word. */
static void record_running(struct fixture *f, const struct berth_lease *l, const char *id,
                           const char *owner)
{
    struct berth_exec_record record = {.id = id,
                                       .company_id = l->company_id,
                                       .environment_id = l->environment_id,
                                       .lease_id = l->id,
                                       .command = "sleep 300",
                                       .owner = owner,
                                       .end = {.started_at_ms = 1000}};
    assert_ok(f, berth_exec_journal_begin(f->b, &record, &f->err));
    berth_exec_journal_started(f->b, id);
    assert_ok(f, berth_exec_journal_flush(f->b, &f->err));
}

/* The sweep ends what a killed process left running, and nothing of a process that lives. */
static void commands_of_a_dead_process_are_killed(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    struct berth *own = f->b, *other;
    struct berth_id ids[2] = {berth_id_new(), berth_id_new()}, dead = berth_id_new();
    char labels[2][128];
    pid_t pids[2];
    struct berth_exec_record *row;
    fixture_open(f);
    other = f->b;
    f->b = own;
    for (int i = 0; i < 2; i++) {
        (void)snprintf(labels[i], sizeof labels[i], "BERTH_EXEC_ID=%s", ids[i].text);
        pids[i] = spawn_labelled(labels[i]);
    }
    record_running(f, l, ids[0].text, dead.text);
    record_running(f, l, ids[1].text, berth_node_id(other->node));
    (void)sweep(f);
    int left = berth_strays_end((const char *const[]){labels[0], NULL});
    int living = berth_strays_end((const char *const[]){labels[1], NULL});
    bury(pids[0]);
    bury(pids[1]);
    berth_close(other);
    assert_int_equal(left, 0);
    assert_int_equal(living, 1);
    assert_ok(f, berth_exec_rows_get(f->b, &f->arena, ids[0].text, &row, &f->err));
    assert_true(row->ended);
    assert_int_equal(row->end.cause, BERTH_END_LOST);
    assert_ok(f, berth_exec_rows_get(f->b, &f->arena, ids[1].text, &row, &f->err));
    assert_false(row->ended);
}

/* A process that is suspended cannot end its command when another one ends the lease. */
static void commands_of_a_suspended_process_end_with_their_lease(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    struct berth *own = f->b, *suspended;
    struct berth_id id = berth_id_new();
    struct berth_exec_record *row;
    char label[128];
    int status;
    fixture_open(f);
    suspended = f->b;
    f->b = own;
    (void)snprintf(label, sizeof label, "BERTH_EXEC_ID=%s", id.text);
    pid_t pid = spawn_labelled(label);
    record_running(f, l, id.text, berth_node_id(suspended->node));
    end_lease(f, NULL, l->id, RELEASED);
    (void)sweep(f);
    pid_t ended_at_once = waitpid(pid, &status, WNOHANG);
    berth_time_shift(OVERDUE_MS, OVERDUE_MS);
    (void)sweep(f);
    berth_time_shift(-OVERDUE_MS, -OVERDUE_MS);
    int left = berth_strays_end((const char *const[]){label, NULL});
    bury(pid);
    berth_close(suspended);
    assert_int_equal(ended_at_once, 0); /* its owner has some time */
    assert_int_equal(left, 0);
    assert_ok(f, berth_exec_rows_get(f->b, &f->arena, id.text, &row, &f->err));
    assert_false(row->ended); /* its owner writes the end */
}

/* Puts a dead node of another machine into the shared store. */
static void add_foreign_node(struct fixture *f, const char *id)
{
    run_sql(f,
            "INSERT INTO nodes (id, host, pid, started_at, beat_at)"
            " VALUES ($1, 'another machine', 1, 0, 0)",
            id);
}

/* A sweep cannot reach the processes of another machine: it leaves their rows to that machine. */
static void commands_of_another_machine_are_left_to_it(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = lease_here(f);
    struct berth_id id = berth_id_new(), dead = berth_id_new();
    struct berth_sweep_report report;
    struct berth_run *run;
    struct berth_exec_record *row;
    add_foreign_node(f, dead.text);
    run_sql(f, "UPDATE runs SET owner = $1", dead.text);
    record_running(f, l, id.text, dead.text);
    report = sweep(f);
    assert_int_equal(report.elsewhere, 1);
    assert_int_equal(report.lost, 0);
    /* Whatever becomes of the lease and its environment, the command runs on that machine. */
    (void)give_lease(f, l, BERTH_LEASE_RELEASED);
    run_sql(f, "UPDATE environments SET driver = 'ssh' WHERE id = $1", l->environment_id);
    assert_int_equal(sweep(f).elsewhere, 1);
    run_sql(f, "DELETE FROM environments WHERE id = $1", l->environment_id);
    assert_int_equal(sweep(f).elsewhere, 1);
    assert_ok(f, berth_run_get(f->b, &f->arena, l->heartbeat_run_id, &run, &f->err));
    assert_int_equal(run->status, BERTH_RUN_RUNNING);
    report = sweep(f); /* the dead node's row stays: it names the machine */
    assert_int_equal(report.elsewhere, 1);
    assert_ok(f, berth_exec_rows_get(f->b, &f->arena, id.text, &row, &f->err));
    assert_false(row->ended);

    run_sql(f, "UPDATE nodes SET host = (SELECT host FROM nodes WHERE beat_at > 0 LIMIT 1)", NULL);
    report = sweep(f); /* as if this were the machine, started again */
    assert_int_equal(report.elsewhere, 0);
    assert_int_equal(report.lost, 1);
    assert_ok(f, berth_exec_rows_get(f->b, &f->arena, id.text, &row, &f->err));
    assert_true(row->ended);
    assert_int_equal(row->end.cause, BERTH_END_LOST);
}

static struct {
    char label[64];
    bool reached;
    int strays;
} giving_back;

static void count_strays(enum berth_failpoint point)
{
    if (point != BERTH_FP_perform_before_release)
        return;
    giving_back.reached = true;
    giving_back.strays = berth_strays_end((const char *const[]){giving_back.label, NULL});
}

/* The timer that ends strays, too, is an hour away from now on. */
static void stop_the_clock(void *ctx, const struct berth_exec_end *end)
{
    (void)ctx, (void)end;
    berth_time_shift(0, -HOUR_MS);
}

static void strays_are_ended_before_the_place_is_given_back(void **state)
{
    struct fixture *f = *state;
    struct berth_id id = berth_id_new();
    struct berth_run_request r = BERTH_RUN_REQUEST_INIT;
    struct berth_run_result result;
    char fifo[sizeof f->directory + 8];
    (void)snprintf(fifo, sizeof fifo, "%s/fifo", f->directory);
    (void)snprintf(giving_back.label, sizeof giving_back.label, "BERTH_RUN_ID=%s", id.text);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    r.run_id = id.text;
    r.command.argv = (const char *const[]){
        "sh",
        "-c",
        "setsid sh -c 'echo up >\"$1\"; exec sleep 300' sh \"$1\" >/dev/null 2>&1 </dev/null &"
        " read line <\"$1\"",
        "sh",
        fifo,
        NULL};
    r.handlers.on_end = stop_the_clock;
    berth_failpoint_watch(count_strays);
    int rc = berth_run_perform(f->b, &f->arena, &r, &result, &f->err);
    berth_failpoint_arm(BERTH_FP_COUNT, 0);
    berth_time_shift(0, HOUR_MS);
    assert_ok(f, rc);
    assert_int_equal(result.end.exit_code, 0);
    assert_true(giving_back.reached);
    assert_int_equal(giving_back.strays, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ON_BOTH(command_runs_and_is_kept),
        TEST_ON_BOTH(child_sees_only_what_is_named),
        TEST_ON_BOTH(X7_fails_closed),
        TEST_ON_BOTH(X11_long_commands_are_not_cut),
        TEST_ON_SQLITE(timeout_and_cancel_are_results),
        TEST_ON_SQLITE(daemons_do_not_stay),
        TEST_ON_SQLITE(release_ends_what_a_command_left),
        TEST_ON_SQLITE(secrets_are_masked_byte_for_byte),
        TEST_ON_SQLITE(log_has_a_limit),
        TEST_ON_SQLITE(closing_ends_what_runs),
        TEST_ON_BOTH(no_command_outlives_its_lease),
        TEST_ON_SQLITE(stubborn_commands_end_with_their_lease),
        TEST_ON_BOTH(an_end_that_is_queued_is_no_loss),
        TEST_ON_BOTH(what_was_told_outlives_a_kill),
        TEST_ON_SQLITE(what_somebody_recovers_is_not_lost),
        TEST_ON_SQLITE(what_never_began_has_no_row),
        TEST_ON_SQLITE(a_trim_keeps_what_is_not_written),
        TEST_ON_SQLITE(refused_commands_leave_a_short_journal),
        TEST_ON_BOTH(rows_wait_for_a_store_that_is_away),
        TEST_ON_BOTH(a_row_that_waits_is_not_missing),
        TEST_ON_SQLITE(what_cannot_be_recorded_is_not_started),
        TEST_ON_SQLITE(silence_needs_no_log),
        TEST_ON_SQLITE(a_log_that_cannot_be_made_is_said_to_be_missing),
        TEST_ON_SQLITE(command_waits_for_a_log_that_lags),
        TEST_ON_BOTH(commands_of_a_dead_process_are_killed),
        TEST_ON_BOTH(commands_of_a_suspended_process_end_with_their_lease),
        TEST_ON_POSTGRES(commands_of_another_machine_are_left_to_it),
        TEST_ON_SQLITE(strays_are_ended_before_the_place_is_given_back),
    };
    return cmocka_run_group_tests_name("exec", tests, NULL, NULL);
}
