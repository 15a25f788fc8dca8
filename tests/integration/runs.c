/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/runs.c - whole runs: what fails keeps its code to the end, what cannot run a
 * command runs nothing, and whatever happens the place goes back. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/failpoint.h"
#include "base/time.h"
#include "core/run/exec.h"
#include "core/run/exec_journal.h"
#include "core/run/exec_rows.h"
#include "core/secret/secret.h"
#include "farhost.h"
#include "os/fs.h"
#include "scripted.h"
#include "secrets.h"

static struct berth_run_request request_of(const struct berth_environment *e,
                                           const char *const *argv)
{
    struct berth_run_request r = BERTH_RUN_REQUEST_INIT;
    r.environment_id = e ? e->id : NULL;
    r.command.argv = argv;
    return r;
}

/* What came of it is in the row, too. */
static void assert_run(struct fixture *f, const struct berth_run_result *result,
                       enum berth_run_status status, const char *code)
{
    struct berth_run *row;
    assert_ok(f, berth_run_get(f->b, &f->arena, result->run->id, &row, &f->err));
    assert_int_equal(row->status, status);
    if (code)
        assert_string_equal(row->error_code, code);
    else
        assert_null(row->error_code);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"), 0);
}

static void assert_run_fails(struct fixture *f, struct berth_run_request *r, int code,
                             const char *error_code, const char *text)
{
    struct berth_run_result result;
    assert_int_equal(berth_run_perform(f->b, &f->arena, r, &result, &f->err), code);
    assert_false(result.started);
    assert_run(f, &result, BERTH_RUN_FAILED, error_code);
    assert_non_null(strstr(f->err.message, text));
    assert_string_equal(result.run->error, f->err.message);
}

/* --- choosing and refusing --- */

static void environment_by_priority(void **state)
{
    (void)state;
    static const struct {
        struct berth_environment_wishes wishes;
        const char *chosen;
    } rows[] = {
        {{0}, NULL},
        {{.agent = "a"}, "a"},
        {{.project = "p", .agent = "a"}, "a"}, /* counts only where workspaces are isolated */
        {{.issue = "i", .project = "p"}, NULL},
        {{.isolated_workspaces = true, .project = "p", .agent = "a"}, "p"},
        {{.isolated_workspaces = true, .issue = "i", .project = "p", .agent = "a"}, "i"},
        {{.workspace_says = true,
          .workspace = "w",
          .isolated_workspaces = true,
          .issue = "i",
          .agent = "a"},
         "w"},
        {{.workspace_says = true, .isolated_workspaces = true, .issue = "i", .agent = "a"}, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *chosen = berth_run_choose_environment(&rows[i].wishes);
        if (rows[i].chosen)
            assert_string_equal(chosen, rows[i].chosen);
        else
            assert_null(chosen);
    }
}

/* X7 for whole runs: neither a place nor a process, here least of all. */
static void X7_run_fails_closed(void **state)
{
    struct fixture *f = *state;
    char marker[192];
    (void)snprintf(marker, sizeof marker, "%s/ran-on-the-host", f->directory);
    const char *const argv[] = {"touch", marker, NULL};
    struct berth_environment *scripted =
        make_environment(f, BERTH_DRIVER_SANDBOX, "{\"provider\":\"scripted\"}");
    struct berth_environment *fake = make_environment(
        f, BERTH_DRIVER_SANDBOX, "{\"provider\":\"fake\",\"image\":\"ubuntu:24.04\"}");
    struct berth_run_request r = request_of(scripted, argv);
    assert_run_fails(f, &r, BERTH_E_UNSUPPORTED, "unsupported_environment", "cannot execute runs");
    r = request_of(fake, argv);
    assert_run_fails(f, &r, BERTH_E_UNSUPPORTED, "unsupported_environment",
                     "Environment sandbox provider \"fake\" is not allowed here. The built-in fake "
                     "provider is probe-only and cannot execute runs.");
    assert_int_equal(scripted_calls(f->world, SCRIPTED_ACQUIRE), 0);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases"), 0);
    assert_int_equal(access(marker, F_OK), -1);
}

static void error_codes_are_kept(void **state)
{
    struct fixture *f = *state;
    struct berth_run_request r = request_of(NULL, SH("true"));
    r.environment_id = "01890000-0000-7000-8000-0000000000ff";
    assert_run_fails(f, &r, BERTH_E_NOT_FOUND, "environment_not_found",
                     "Environment \"01890000-0000-7000-8000-0000000000ff\" not found.");
    struct berth_environment *e = make_environment(
        f, BERTH_DRIVER_SSH,
        "{\"host\":\"127.0.0.1\",\"port\":1,\"username\":\"u\",\"remoteWorkspacePath\":\"/w\"}");
    r = request_of(e, SH("true"));
    static const char other[] = "01890000-0000-7000-8000-0000000000aa";
    /* Another company's environment looks like one that does not exist. */
    run_sql(f, "INSERT INTO companies (id, name, created_at, updated_at) VALUES ($1, 'Acme', 1, 1)",
            other);
    r.company_id = other;
    assert_run_fails(f, &r, BERTH_E_NOT_FOUND, "environment_not_found",
                     berth_arena_printf(&f->arena, "Environment \"%s\" not found.", e->id));
    assert_int_equal(count_rows(f, "SELECT count(*) FROM runs WHERE environment_id IS NOT NULL"),
                     0);
    r.company_id = NULL;
    assert_run_fails(f, &r, BERTH_E_UNAVAILABLE, "lease_acquire_failed",
                     "Failed to acquire lease for environment \"place under test\" (ssh): ");
    run_sql(f, "UPDATE environments SET status = 'archived' WHERE id = $1", e->id);
    assert_run_fails(f, &r, BERTH_E_UNPROCESSABLE, "environment_inactive",
                     "Environment \"place under test\" is not active (status: archived).");
    r = request_of(NULL, SH("true"));
    r.workspace = "/no/such/directory";
    assert_run_fails(f, &r, BERTH_E_NOT_FOUND, "workspace_realization_failed",
                     "Failed to realize workspace for environment \"Local\" (local): ");
    r = request_of(NULL, (const char *const[]){"no-such-program", NULL});
    assert_run_fails(f, &r, BERTH_E_NOT_FOUND, "command_not_found", "no-such-program");
    r = request_of(NULL, SH("true"));
    r.run_id = "not an id";
    struct berth_run_result result;
    assert_int_equal(berth_run_perform(f->b, &f->arena, &r, &result, &f->err), BERTH_E_INVALID);
    assert_null(result.run);
}

/* --- the provision command --- */

static struct berth_environment *far_environment(struct fixture *f)
{
    return farhost_environment(f, farhost_config(NULL));
}

static void provision_comes_first(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = far_environment(f);
    struct berth_run_request r = request_of(e, SH("cat provisioned; rm provisioned"));
    struct berth_run_result result;
    struct berth_list execs;
    r.provision_command = "echo $SHELL >provisioned";
    assert_ok(f, berth_run_perform(f->b, &f->arena, &r, &result, &f->err));
    assert_run(f, &result, BERTH_RUN_SUCCEEDED, NULL);
    assert_int_equal(result.end.bytes[0], strlen("/bin/bash\n"));
    assert_ok(f, berth_exec_rows_list(f->b, &f->arena, result.run->id, NULL, 100, &execs, &f->err));
    assert_int_equal(execs.count, 2);
    r.provision_command = "echo first >&2; echo second >&2; exit 9";
    assert_run_fails(f, &r, BERTH_E_UNPROCESSABLE, "workspace_realization_failed",
                     "Failed to provision workspace for environment \"far\" (ssh): exit code 9: "
                     "first");
    r.provision_command = "kill -9 $$";
    assert_run_fails(f, &r, BERTH_E_UNPROCESSABLE, "workspace_realization_failed",
                     "exit code null (signal SIGKILL)");
}

/* --- secrets --- */

static void secrets_are_bound_for_the_run_alone(void **state)
{
    struct fixture *f = *state;
    static const char with_nul[] = "before\0after";
    struct berth_secret_input input = {.name = "token"}, odd = {.name = "odd"};
    struct berth_secret *secret, *nul;
    assert_ok(f, berth_secret_create(f->b, &f->arena, &input, "the-value", 9, &secret, &f->err));
    assert_ok(f, berth_secret_create(f->b, &f->arena, &odd, with_nul, sizeof with_nul - 1, &nul,
                                     &f->err));
    struct berth_run_secret one = {.variable = "TOKEN", .secret_id = secret->id};
    /* Who writes it into the command as well finds no trace of it in the row. */
    struct berth_run_request r =
        request_of(NULL, (const char *const[]){"sh", "-c", "[ \"$TOKEN\" = \"$1\" ]", "sh",
                                               "the-value", NULL});
    struct berth_run_result result;
    r.secrets = &one;
    r.secret_count = 1;
    assert_ok(f, berth_run_perform(f->b, &f->arena, &r, &result, &f->err));
    assert_run(f, &result, BERTH_RUN_SUCCEEDED, NULL);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM secret_bindings"), 0);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM secret_events"), 1);
    assert_ok(f, berth_exec_journal_flush(f->b, &f->err));
    assert_int_equal(count_rows(f, "SELECT count(*) FROM execs WHERE command LIKE '%the-value%'"),
                     0);
    assert_int_equal(
        count_rows(f, "SELECT count(*) FROM execs WHERE command LIKE '% sh *********'"), 1);
    /* Who takes it for the program finds no trace of it in the error. */
    struct berth_run_request odd_program =
        request_of(NULL, (const char *const[]){"/no/the-value/program", NULL});
    odd_program.secrets = &one;
    odd_program.secret_count = 1;
    assert_run_fails(f, &odd_program, BERTH_E_NOT_FOUND, "command_not_found",
                     "/no/*********/program");
    assert_int_equal(count_rows(f, "SELECT count(*) FROM runs WHERE error LIKE '%the-value%'"), 0);
    assert_int_equal(
        count_rows(f, "SELECT count(*) FROM activity WHERE details LIKE '%the-value%'"), 0);
    const char *const twice[] = {"TOKEN=plain", NULL};
    r.command.env = twice;
    assert_run_fails(f, &r, BERTH_E_INVALID, "adapter_failed", "is given twice");
    r.command.env = NULL;
    one.secret_id = nul->id;
    assert_run_fails(f, &r, BERTH_E_UNPROCESSABLE, "adapter_failed", "holds a NUL byte");
    one.secret_id = "01890000-0000-7000-8000-0000000000ff";
    assert_run_fails(f, &r, BERTH_E_NOT_FOUND, "adapter_failed", "Secret not found");
    assert_int_equal(count_rows(f, "SELECT count(*) FROM secret_bindings"), 0);
}

/* One that JSON, a shell and a difference write with escapes. */
#define CANARY "hunter2\"it's"
#define CANARY_STARS "************"
#define PRINT_CANARY "cat >&2 <<'E'\n" CANARY "\nE\n"

/* Performs a run that knows the canary, and looks for it in the ledger. Returns its row. */
static struct berth_run *run_with_canary(struct fixture *f, struct berth_run_request *r)
{
    static struct berth_run_secret one = {.variable = "TOKEN"};
    struct berth_secret_input input = {.name = "token"};
    struct berth_secret *secret;
    struct berth_run_result result;
    struct berth_run *row;
    if (count_rows(f, "SELECT count(*) FROM secrets WHERE name = 'token'") == 0) {
        assert_ok(f, berth_secret_create(f->b, &f->arena, &input, CANARY, strlen(CANARY), &secret,
                                         &f->err));
        one.secret_id = secret->id;
    }
    r->secrets = &one;
    r->secret_count = 1;
    if (berth_run_perform(f->b, &f->arena, r, &result, &f->err) < 0)
        assert_null(strstr(f->err.message, "hunter2"));
    assert_ok(f, berth_exec_journal_flush(f->b, &f->err));
    assert_int_equal(count_in_tables(f, "hunter2"), 0);
    assert_ok(f, berth_run_get(f->b, &f->arena, result.run->id, &row, &f->err));
    return row;
}

static void assert_shows(const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        fail_msg("\"%s\" does not contain \"%s\"", text ? text : "", part);
}

static void errors_and_commands_hide_secrets(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *far = far_environment(f);
    struct berth_run_request path = request_of(NULL, SH("exit 0"));
    struct berth_run_request provision = request_of(far, SH("exit 0"));
    struct berth_run_request cwd = provision, push = provision;
    struct berth_workspace_asset asset = {.key = "k", .path = "/nowhere/" CANARY};
    struct berth_run_request assets = provision;
    cwd.command.cwd = "/nowhere/" CANARY;
    (void)run_with_canary(f, &cwd);
    assert_int_equal(
        count_rows(f, "SELECT count(*) FROM execs WHERE cwd = '/nowhere/" CANARY_STARS "'"), 1);
    path.workspace = "/nowhere/" CANARY;
    assert_shows(run_with_canary(f, &path)->error, "The workspace /nowhere/" CANARY_STARS " ");
    /* A text that is cut in the middle of the value has no part of it. */
    path.workspace = berth_arena_printf(&f->arena, "/nowhere/%0571d" CANARY, 0);
    assert_shows(run_with_canary(f, &path)->error, "0******");
    push.sync.path = "/nowhere/" CANARY;
    assert_shows(run_with_canary(f, &push)->error, "workspace /nowhere/" CANARY_STARS ": ");
    assets.sync.path = "/tmp/" CANARY;
    assert_true(mkdir(assets.sync.path, 0700) == 0 || errno == EEXIST);
    assets.sync.setup.assets = &asset;
    assets.sync.setup.asset_count = 1;
    assert_shows(run_with_canary(f, &assets)->error, "directory /nowhere/" CANARY_STARS " of");
    assert_int_equal(rmdir(assets.sync.path), 0);
    provision.provision_command = PRINT_CANARY "exit 9";
    assert_shows(run_with_canary(f, &provision)->error, "exit code 9: " CANARY_STARS);
    assert_int_equal(
        count_rows(f, "SELECT count(*) FROM execs WHERE command LIKE '%" CANARY_STARS "%'"), 1);
    assert_null(find_in_files(f, "hunter2")); /* nor in the logs of the commands */
}

static void workspaces_hide_secrets(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *far = far_environment(f);
    struct berth_run_request r =
        request_of(far, SH("mkdir \"d-$TOKEN\"; echo x >\"d-$TOKEN/f-$TOKEN\""));
    struct berth_error ignored;
    char home[] = "/tmp/berth-runs.XXXXXX";
    assert_non_null(mkdtemp(home));
    r.sync.path = home;
    r.sync.setup.install_command = PRINT_CANARY "exit 3";
    const struct berth_run *row = run_with_canary(f, &r);
    assert_shows(row->workspace_diff, "+++ b/d-" CANARY_STARS "/f-" CANARY_STARS "\n");
    assert_shows(row->workspace_json, "ended with status 3: cat >&2 <<'E'\\n" CANARY_STARS "\\nE");
    assert_shows(row->workspace_json, "exit 3: " CANARY_STARS "\"");
    /* Without a command, and with a report of work that stays in the place. */
    r.provision_command = "cat >f <<'E'\n" CANARY "\nE\nexit 1";
    row = run_with_canary(f, &r);
    assert_shows(row->workspace_diff, "+++ b/f\n@@ -0,0 +1 @@\n+" CANARY_STARS "\n");
    r.provision_command = NULL;
    r.sync.no_restore = true;
    row = run_with_canary(f, &r);
    assert_shows(row->workspace_json, "\"state\":\"kept\"");
    assert_shows(row->workspace_json, "exit 3: " CANARY_STARS "\"");
    assert_int_equal(berth_fs_remove_tree(home, &ignored), BERTH_OK);
}

/* --- without anybody who waits --- */

struct waiting {
    _Atomic bool done;
    enum berth_run_status status;
    int code;
};

static void on_done(void *ctx, const struct berth_run_result *result, const struct berth_error *err)
{
    struct waiting *w = ctx;
    w->status = result->run ? result->run->status : BERTH_RUN_QUEUED;
    w->code = err ? err->code : BERTH_OK;
    atomic_store(&w->done, true); /* the last that is done with it */
}

static void await(struct waiting *w)
{
    while (!atomic_load(&w->done))
        pause_ms(2);
}

static void started_runs_can_be_cancelled(void **state)
{
    struct fixture *f = *state;
    struct berth_run_request r = request_of(NULL, SH("sleep 300"));
    r.command.grace_ms = 200;
    for (int i = 0; i < 20; i++) { /* at every stage of it */
        struct waiting w = {0};
        struct berth_run_job *p;
        assert_ok(f, berth_run_start(f->b, &r, on_done, &w, &p, &f->err));
        (void)usleep((useconds_t)(i * 500));
        berth_run_cancel(p);
        await(&w);
        assert_int_equal(w.status, BERTH_RUN_CANCELLED);
    }
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"), 0);
}

static void let_it_expire(void *ctx, struct berth_exec *exec)
{
    (void)ctx, (void)exec;
    berth_time_shift(61000, 6000); /* beyond its lease, and to the next look at that */
}

/* Nobody has cancelled it, and it says so. */
static void runs_end_with_their_lease(void **state)
{
    struct fixture *f = *state;
    struct berth_run_request r = request_of(NULL, SH("sleep 60"));
    struct berth_run_result result;
    r.ttl_ms = 60000;
    r.on_started = let_it_expire;
    int rc = berth_run_perform(f->b, &f->arena, &r, &result, &f->err);
    berth_time_shift(-61000, -6000);
    assert_ok(f, rc);
    assert_run(f, &result, BERTH_RUN_FAILED, "lease_ended");
    assert_string_equal(result.run->error,
                        "The lease of the run expired before the command ended: set a longer ttl.");
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases WHERE status = 'expired'"), 1);
}

static void fail_the_end(void *ctx, enum berth_run_phase phase)
{
    (void)ctx;
    if (phase == BERTH_PHASE_RELEASING)
        berth_failpoint_arm_query(1);
}

/* A store that cannot be written for a while, as on a full disk, does not make the run a lost one.
 */
static void ends_that_could_not_be_stored_are_stored_later(void **state)
{
    struct fixture *f = *state;
    struct berth_run_request r = request_of(NULL, SH("exit 3"));
    struct berth_run_result result;
    struct waiting w = {0};
    struct berth_run_job *p;
    r.on_phase = fail_the_end;
    assert_ok(f, berth_run_perform(f->b, &f->arena, &r, &result, &f->err));
    assert_false(berth_failpoint_query_armed());
    assert_run(f, &result, BERTH_RUN_FAILED, "adapter_failed");
    assert_string_equal(result.run->error, "The command ended with status 3.");
    assert_ok(f, berth_run_start(f->b, &r, on_done, &w, &p, &f->err));
    await(&w);
    berth_failpoint_arm_query(0);
    assert_int_equal(w.status, BERTH_RUN_FAILED);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM runs WHERE error ="
                                   " 'The command ended with status 3.'"),
                     2);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"), 0);
}

static void closing_ends_started_runs(void **state)
{
    struct fixture *f = *state;
    struct berth_run_request r = request_of(NULL, SH("sleep 300"));
    struct waiting w[3] = {0};
    struct berth_run_job *p;
    r.command.grace_ms = 200;
    for (int i = 0; i < 3; i++) {
        assert_ok(f, berth_run_start(f->b, &r, on_done, &w[i], &p, &f->err));
    }
    pause_ms(100);
    fixture_close(f);
    for (int i = 0; i < 3; i++) {
        await(&w[i]);
        assert_int_equal(w[i].status, BERTH_RUN_CANCELLED);
    }
    fixture_open(f);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"), 0);
}

static void start_that_fails_is_told(void **state)
{
    struct fixture *f = *state;
    struct berth_run_request r = request_of(NULL, (const char *const[]){"no-such-program", NULL});
    struct waiting w = {0};
    struct berth_run_job *p;
    assert_ok(f, berth_run_start(f->b, &r, on_done, &w, &p, &f->err));
    await(&w);
    assert_int_equal(w.status, BERTH_RUN_FAILED);
    assert_int_equal(w.code, BERTH_E_NOT_FOUND);
}

/* --- many over SSH --- */

struct crowd {
    _Atomic int done, right;
    enum berth_run_status wanted;
    int count;
};

static void on_member_done(void *ctx, const struct berth_run_result *result,
                           const struct berth_error *err)
{
    struct crowd *c = ctx;
    if (!err && result->run->status == c->wanted && !result->owed)
        atomic_fetch_add(&c->right, 1);
    atomic_fetch_add(&c->done, 1); /* the last that is done with it */
}

static void await_all(struct crowd *c)
{
    while (atomic_load(&c->done) < c->count)
        pause_ms(5);
}

/* sshd frees a session some moments after its end: nobody notices. */
static void short_runs_over_ssh_all_succeed(void **state)
{
    struct fixture *f = *state;
    struct berth_run_request r =
        request_of(far_environment(f), (const char *const[]){"true", NULL});
    for (int round = 0; round < 3; round++) {
        struct crowd c = {.wanted = BERTH_RUN_SUCCEEDED, .count = 24};
        struct berth_run_job *p;
        for (int i = 0; i < c.count; i++)
            assert_ok(f, berth_run_start(f->b, &r, on_member_done, &c, &p, &f->err));
        await_all(&c);
        assert_int_equal(atomic_load(&c.right), c.count);
    }
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"), 0);
}

static void all_runs_over_ssh_can_be_cancelled(void **state)
{
    struct fixture *f = *state;
    enum { COUNT = 10 };
    struct berth_run_request r = request_of(far_environment(f), SH("sleep 300"));
    struct crowd c = {.wanted = BERTH_RUN_CANCELLED, .count = COUNT};
    struct berth_run_job *p[COUNT];
    r.command.grace_ms = 500;
    for (int i = 0; i < COUNT; i++)
        assert_ok(f, berth_run_start(f->b, &r, on_member_done, &c, &p[i], &f->err));
    WAIT_FOR(count_rows(f, "SELECT count(*) FROM execs") >= COUNT);
    int64_t begun = berth_time_mono_ms();
    for (int i = 0; i < COUNT; i++)
        berth_run_cancel(p[i]);
    await_all(&c);
    assert_int_equal(atomic_load(&c.right), COUNT);
    assert_in_range(berth_time_mono_ms() - begun, 0, 12000);
}

/* --- a reader that takes its time --- */

struct slow {
    struct berth_exec *exec;
    uint64_t seen;
};

static void on_slow_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    struct slow *s = ctx;
    (void)bytes;
    if (stream == BERTH_STDOUT)
        __atomic_fetch_add(&s->seen, len, __ATOMIC_RELAXED);
}

/* The command has long ended when the last of its output is taken: all of it is there. */
static void slow_reader_loses_nothing(struct fixture *f, const struct berth_environment *e)
{
    struct berth_lease *l = take_lease(f, e, make_run(f));
    struct slow s = {0};
    struct berth_exec_handlers handlers = {.on_output = on_slow_output, .ctx = &s};
    struct berth_exec_request r = BERTH_EXEC_REQUEST_INIT;
    struct berth_exec_end end;
    struct berth_exec *x;
    r.lease_id = l->id;
    r.argv = SH("head -c 3000000 /dev/zero; echo told >&2");
    assert_ok(f, berth_exec_start(f->b, &r, &handlers, &x, &f->err));
    for (int i = 0; i < 5; i++) {
        berth_exec_pause(x, true);
        pause_ms(600);
        berth_exec_pause(x, false);
        pause_ms(2);
    }
    berth_exec_wait(x, &end);
    assert_int_equal(end.cause, BERTH_END_EXITED);
    assert_true(end.bytes[0] == 3000000);
    assert_true(__atomic_load_n(&s.seen, __ATOMIC_RELAXED) == 3000000);
    assert_false(end.cut[0] || end.cut[1]);
    berth_exec_free(x);
    /* One that takes nothing at all does not keep a command that is to end. */
    r.grace_ms = 300;
    assert_ok(f, berth_exec_start(f->b, &r, &handlers, &x, &f->err));
    berth_exec_pause(x, true);
    pause_ms(300);
    berth_exec_cancel(x);
    berth_exec_wait(x, &end);
    assert_int_equal(end.cause, BERTH_END_CANCELLED);
    berth_exec_free(x);
    (void)give_lease(f, l, BERTH_LEASE_RELEASED);
}

static void slow_reader_here(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e;
    assert_ok(f, berth_environment_ensure_local(f->b, &f->arena, NULL, &e, &f->err));
    slow_reader_loses_nothing(f, e);
}

static void slow_reader_over_ssh(void **state)
{
    slow_reader_loses_nothing(*state, far_environment(*state));
}

/* What a place says need not be text: the run ends all the same. */
static void error_that_is_no_text(void **state)
{
    struct fixture *f = *state;
    struct berth_run_request r = request_of(far_environment(f), SH("true"));
    r.provision_command = "printf 'acc\\350s\\n' >&2; exit 1";
    struct berth_run_result result;
    assert_int_equal(berth_run_perform(f->b, &f->arena, &r, &result, &f->err),
                     BERTH_E_UNPROCESSABLE);
    assert_run(f, &result, BERTH_RUN_FAILED, "workspace_realization_failed");
    assert_non_null(strstr(result.run->error, "acc?s"));
}

/* Places far away are given back before the runtime is gone. */
static void closing_gives_far_places_back(void **state)
{
    struct fixture *f = *state;
    struct berth_run_request r = request_of(far_environment(f), SH("sleep 300"));
    struct crowd c = {.wanted = BERTH_RUN_CANCELLED, .count = 1};
    struct berth_run_job *p;
    r.command.grace_ms = 200;
    assert_ok(f, berth_run_start(f->b, &r, on_member_done, &c, &p, &f->err));
    WAIT_FOR(count_rows(f, "SELECT count(*) FROM execs") >= 1);
    fixture_close(f);
    assert_int_equal(atomic_load(&c.right), 1);
    fixture_open(f);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"), 0);
}

/* --- what is kept --- */

/* The file may not grow any more: the command goes on, all is counted, and the cut is told. */
static void full_disk_cuts_the_log(void **state)
{
    struct fixture *f = *state;
    struct rlimit before, small;
    struct berth_run_result result;
    struct berth_list execs;
    struct berth_run_request r = request_of(NULL, SH("head -c 20000000 /dev/zero; echo end >&2"));
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){.rlim_cur = 8000000, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int rc = berth_run_perform(f->b, &f->arena, &r, &result, &f->err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rc, BERTH_OK);
    assert_run(f, &result, BERTH_RUN_SUCCEEDED, NULL);
    assert_true(result.end.bytes[0] == 20000000);
    assert_true(result.truncated);
    assert_ok(f, berth_exec_rows_list(f->b, &f->arena, result.run->id, NULL, 100, &execs, &f->err));
    assert_int_equal(execs.count, 1);
    const struct berth_exec_record *x = execs.items[0];
    assert_true(x->ended && x->truncated);
    assert_true(x->end.bytes[0] == 20000000);
}

/* The words of a command are kept, its secrets are not. */
static void commands_are_recorded(void **state)
{
    struct fixture *f = *state;
    struct berth_run_request r = request_of(
        NULL, (const char *const[]){"sh", "-c", "exit 4", "sh", "--password=hunter2-x", NULL});
    struct berth_run_result result;
    struct berth_list execs;
    assert_ok(f, berth_run_perform(f->b, &f->arena, &r, &result, &f->err));
    assert_run(f, &result, BERTH_RUN_FAILED, "adapter_failed");
    assert_ok(f, berth_exec_rows_list(f->b, &f->arena, result.run->id, NULL, 100, &execs, &f->err));
    assert_int_equal(execs.count, 1);
    const struct berth_exec_record *x = execs.items[0];
    assert_string_equal(x->run_id, result.run->id);
    assert_int_equal(x->end.exit_code, 4);
    assert_string_equal(x->command, "sh -c 'exit 4' sh --password=***REDACTED***");
    assert_int_equal(count_rows(f, "SELECT count(*) FROM execs WHERE command LIKE '%hunter2%'"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ON_SQLITE(environment_by_priority),
        TEST_ON_BOTH(X7_run_fails_closed),
        TEST_ON_BOTH(error_codes_are_kept),
        TEST_ON_SQLITE(provision_comes_first),
        TEST_ON_BOTH(secrets_are_bound_for_the_run_alone),
        TEST_ON_SQLITE(errors_and_commands_hide_secrets),
        TEST_ON_SQLITE(workspaces_hide_secrets),
        TEST_ON_BOTH(started_runs_can_be_cancelled),
        TEST_ON_BOTH(runs_end_with_their_lease),
        TEST_ON_BOTH(ends_that_could_not_be_stored_are_stored_later),
        TEST_ON_SQLITE(closing_ends_started_runs),
        TEST_ON_SQLITE(start_that_fails_is_told),
        TEST_ON_BOTH(short_runs_over_ssh_all_succeed),
        TEST_ON_SQLITE(all_runs_over_ssh_can_be_cancelled),
        TEST_ON_SQLITE(slow_reader_here),
        TEST_ON_SQLITE(slow_reader_over_ssh),
        TEST_ON_BOTH(error_that_is_no_text),
        TEST_ON_SQLITE(closing_gives_far_places_back),
        TEST_ON_SQLITE(full_disk_cuts_the_log),
        TEST_ON_BOTH(commands_are_recorded),
    };
    return cmocka_run_group_tests_name("runs", tests, NULL, NULL);
}
