/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/crash.c - the crash matrix, made from the list of failpoints.
 *
 * A child process goes through a scenario and kills itself at a step; another one recovers;
 * afterwards the provider's places and the ledger must agree, and what was acknowledged must stand.
 * Which scenario passes which step is found out by a first, traced run, so a new step is tested
 * without more ado, and one that no scenario reaches fails the suite. Both stores, with and without
 * a second process at work.
 *
 * The program starts itself again for the children: "crash SCENARIO STEP STORE DIRECTORY". */
#include "children.h"
#include "farhost.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/failpoint.h"
#include "base/time.h"
#include "core/lease/node.h"
#include "core/run/exec.h"
#include "core/secret/secret_provider.h"
#include "core/secret/secret.h"
#include "inventory.h"
#include "os/strays.h"
#include "store/store.h"

#define NOT_REACHED 3
#define CELLS_AT_ONCE 12 /* crashes, before all leases are let expire */
#define BESIDE_CYCLES 4  /* of the second process, in a round */

/* --- in the child --- */

static _Atomic bool seen[BERTH_FP_COUNT];
static enum berth_failpoint step;

/* From here on the step counts. */
static void arm(void)
{
    if (step == BERTH_FP_COUNT)
        berth_failpoint_trace(seen);
    else
        berth_failpoint_arm(step, 0);
}

static struct berth_lease *take_reported(struct fixture *f, const struct berth_environment *e,
                                         const struct berth_run *run)
{
    struct berth_lease *lease = take_lease(f, e, run);
    child_report("active", lease->id);
    return lease;
}

static void give_reported(struct fixture *f, const struct berth_lease *lease,
                          enum berth_lease_status status)
{
    child_report("giving", lease->id);
    (void)give_lease(f, lease, status);
}

static const char ephemeral[] = "{\"provider\":\"inventory\"}";
static const char reusable[] = "{\"provider\":\"inventory\",\"reuseLease\":true}";

static struct berth_environment *sandbox(struct fixture *f, const char *config)
{
    return make_environment(f, BERTH_DRIVER_SANDBOX, config);
}

static void acquire_local(struct fixture *f)
{
    struct berth_environment *e;
    assert_ok(f, berth_environment_ensure_local(f->b, &f->arena, NULL, &e, &f->err));
    arm();
    struct berth_lease *lease = take_reported(f, e, NULL);
    give_reported(f, lease, BERTH_LEASE_RELEASED);
}

static void acquire_place(struct fixture *f)
{
    struct berth_environment *e = sandbox(f, ephemeral);
    arm();
    (void)take_reported(f, e, make_run(f));
}

static void acquire_fails(struct fixture *f)
{
    struct berth_environment *e = sandbox(f, "{\"provider\":\"inventory\",\"acquire\":\"fail\"}");
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = e->id;
    struct berth_lease *lease;
    arm();
    assert_fails(f, BERTH_E_UPSTREAM, "told to fail",
                 berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err));
}

static void release_place(struct fixture *f)
{
    struct berth_lease *lease = take_reported(f, sandbox(f, ephemeral), make_run(f));
    arm();
    give_reported(f, lease, BERTH_LEASE_FAILED);
}

static void park_place(struct fixture *f)
{
    struct berth_lease *lease = take_reported(f, sandbox(f, reusable), make_run(f));
    arm();
    give_reported(f, lease, BERTH_LEASE_RELEASED);
}

static void claim_with(struct fixture *f, const char *config)
{
    struct berth_environment *e = sandbox(f, config);
    give_reported(f, take_reported(f, e, make_run(f)), BERTH_LEASE_RELEASED);
    struct berth_run *run = make_run(f);
    arm();
    (void)take_reported(f, e, run);
}

static void claim_place(struct fixture *f)
{
    claim_with(f, reusable);
}

static void claim_gone_place(struct fixture *f)
{
    claim_with(f, "{\"provider\":\"inventory\",\"reuseLease\":true,\"resume\":\"gone\"}");
}

static void claim_declined_place(struct fixture *f)
{
    claim_with(f, "{\"provider\":\"inventory\",\"reuseLease\":true,\"resume\":\"decline\"}");
}

static void claim_stale_place(struct fixture *f)
{
    claim_with(f, "{\"provider\":\"inventory\",\"reuseLease\":true,\"resume\":\"fail\"}");
}

static void destroy_place(struct fixture *f)
{
    struct berth_lease *lease = take_reported(f, sandbox(f, ephemeral), make_run(f));
    child_report("giving", lease->id);
    arm();
    assert_ok(f, berth_lease_destroy(f->b, &f->arena, lease->id, NULL, &lease, &f->err));
}

static void sweep_places(struct fixture *f)
{
    struct berth_environment *idle =
        sandbox(f, "{\"provider\":\"inventory\",\"reuseLease\":true,\"idleTtlMs\":1}");
    give_reported(f, take_reported(f, idle, make_run(f)), BERTH_LEASE_RELEASED);
    struct berth_environment *e = sandbox(f, ephemeral);
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = e->id;
    request.ttl_ms = 1;
    struct berth_lease *lease;
    assert_ok(f, berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err));
    berth_time_shift(1000, 0);
    arm();
    (void)sweep(f);
}

/* A sweep of the second process may be ending a place of it at this moment: then it finishes. */
static void delete_one(struct fixture *f, const char *id, bool drain)
{
    struct berth_environment *e;
    int rc = berth_environment_delete(f->b, &f->arena, id, drain, NULL, &e, &f->err);
    if (rc < 0)
        assert_non_null(strstr(f->err.message, "\"berth sweep\" deletes it when they are."));
}

static void delete_environment(struct fixture *f)
{
    struct berth_environment *e = sandbox(f, reusable);
    give_reported(f, take_reported(f, e, make_run(f)), BERTH_LEASE_RELEASED);
    struct berth_lease *open = take_reported(f, sandbox(f, ephemeral), make_run(f));
    child_report("giving", open->id);
    arm();
    delete_one(f, e->id, false);
    delete_one(f, open->environment_id, true);
}

static void probe_place(struct fixture *f)
{
    struct berth_environment *e = sandbox(f, ephemeral);
    struct berth_probe probe;
    arm();
    assert_ok(f, berth_environment_probe(f->b, &f->arena, e->id, NULL, &probe, &f->err));
    assert_true(probe.ok);
}

static void probe_fails(struct fixture *f)
{
    struct berth_environment *e = sandbox(f, "{\"provider\":\"inventory\",\"acquire\":\"fail\"}");
    struct berth_probe probe;
    arm();
    assert_fails(f, BERTH_E_UPSTREAM, "told to fail",
                 berth_environment_probe(f->b, &f->arena, e->id, NULL, &probe, &f->err));
}

static void probe_unsaved(struct fixture *f)
{
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    struct berth_issues issues = {.arena = &f->arena};
    struct berth_probe probe;
    (void)sandbox(f, ephemeral); /* whose provider can be asked for what stands */
    input.driver = BERTH_DRIVER_SANDBOX;
    input.config_json = ephemeral;
    arm();
    assert_ok(f, berth_environment_probe_config(f->b, &f->arena, &input, &issues, &probe, &f->err));
    assert_true(probe.ok);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM environments WHERE created_at = 0"), 0);
}

static void finish_run(struct fixture *f)
{
    struct berth_run *run = make_run(f);
    struct berth_lease *lease = take_reported(f, sandbox(f, ephemeral), run);
    struct berth_run_end end = {.status = BERTH_RUN_SUCCEEDED};
    struct berth_list released;
    child_report("giving", lease->id);
    arm();
    assert_ok(f, berth_run_finish(f->b, &f->arena, run->id, &end, &released, &f->err));
}

/* A place that carries the label of a closed lease, as a provider that lied leaves it. */
static void sweep_found_place(struct fixture *f)
{
    struct berth_lease *lease = take_reported(f, sandbox(f, ephemeral), make_run(f));
    give_reported(f, lease, BERTH_LEASE_RELEASED);
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", f->inventory, lease->id);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    arm();
    (void)sweep(f);
    (void)sweep(f);
    assert_int_equal(access(path, F_OK), -1);
}

/* --- whole runs --- */

/* Killed in the middle it leaves a process that would live on for a minute. */
static void perform_run(struct fixture *f)
{
    struct berth_run_request request = BERTH_RUN_REQUEST_INIT;
    struct berth_run_result result;
    request.command.argv = (const char *const[]){"sleep", "60", NULL};
    request.command.timeout_ms = 200;
    arm();
    assert_ok(f, berth_run_perform(f->b, &f->arena, &request, &result, &f->err));
    assert_int_equal(result.run->status, BERTH_RUN_TIMED_OUT);
}

/* --- runs with a workspace --- */

static const char *workspace_path(const struct fixture *f, char out[600])
{
    (void)snprintf(out, 600, "%s.workspace", f->inventory);
    return out;
}

static void write_workspace_file(const char *directory, const char *text)
{
    char path[700];
    (void)snprintf(path, sizeof path, "%s/file", directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Runs a script in the directory. Returns whether it succeeded. */
static bool script_succeeds(const char *directory, const char *script)
{
    char text[2000];
    (void)snprintf(text, sizeof text, "cd '%s' && { %s; } >/dev/null", directory, script);
    return system(text) == 0; /* NOLINT */
}

/* Makes the directory a repository with one commit. */
static void make_workspace(const struct fixture *f, char home[600])
{
    (void)mkdir(workspace_path(f, home), 0700);
    assert_true(script_succeeds(home, "rm -rf .git .berth s new"));
    write_workspace_file(home, "one\n");
    assert_true(script_succeeds(home, "git init -q -b main . && git config user.name n &&"
                                      " git config user.email e && git add file &&"
                                      " git commit -qm one"));
}

/* Performs a run whose command, killed in between, leaves the file as it was. */
static void perform_in_workspace(struct fixture *f, const char *home, const char *branch)
{
    struct berth_run_request request = BERTH_RUN_REQUEST_INIT;
    struct berth_run_result result;
    request.command.argv =
        (const char *const[]){"sh", "-c",
                              "echo two > new && mv new file && git commit -qam two && echo s > s"
                              " && git add s",
                              NULL};
    request.sync.path = home;
    request.sync.branch = branch;
    arm();
    assert_ok(f, berth_run_perform(f->b, &f->arena, &request, &result, &f->err));
    assert_int_equal(result.run->status, BERTH_RUN_SUCCEEDED);
    assert_false(result.kept);
}

static void perform_workspace(struct fixture *f)
{
    char home[600];
    make_workspace(f, home);
    perform_in_workspace(f, home, NULL);
}

static void perform_branch(struct fixture *f)
{
    char home[600];
    make_workspace(f, home);
    perform_in_workspace(f, home, "try");
    assert_true(script_succeeds(home, "[ \"$(git show try:file)\" = two ]"));
}

/* Brings the work of all places home that still have some, and checks that none is lost. */
static void bring_work_home(struct fixture *f)
{
    struct berth_lease_filter filter = BERTH_LEASE_FILTER_INIT;
    struct berth_list standing;
    char path[700], home[600], text[16] = "";
    filter.standing_only = true;
    assert_ok(f, berth_lease_list(f->b, &f->arena, &filter, &standing, &f->err));
    bool fetched = false;
    for (int i = 0; i < standing.count; i++) {
        struct berth_workspace_pull pull = BERTH_WORKSPACE_PULL_INIT;
        struct berth_workspace_report report;
        const struct berth_lease *lease = standing.items[i];
        if (!lease->work_at_ms)
            continue;
        pull.lease_id = lease->id;
        assert_ok(f, berth_workspace_pull(f->b, &f->arena, &pull, &report, &f->err));
        assert_int_equal(report.conflicts, 0);
        fetched = true;
    }
    (void)snprintf(path, sizeof path, "%s/file", workspace_path(f, home));
    FILE *file = fopen(path, "r");
    if (!file) {
        assert_false(fetched);
        return;
    }
    (void)fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    assert_true(strcmp(text, "one\n") == 0 || strcmp(text, "two\n") == 0);
    /* The repository is sound and not locked. If the commit was made, it is home, with the index.
     */
    assert_true(script_succeeds(home, "git fsck --strict && ! [ -e .git/index.lock ] &&"
                                      " ! [ -e .git/berth-index ] &&"
                                      " [ -z \"$(git for-each-ref refs/berth)\" ]"));
    assert_true(script_succeeds(home, "[ \"$(git log -1 --format=%s)\" = one ] ||"
                                      " [ -z \"$(git status --short)\" ] ||"
                                      " [ \"$(git status --short)\" = 'A  s' ]"));
    /* A run on a branch changes nothing here, and its worktree is gone. */
    assert_true(script_succeeds(home, "[ $(git worktree list | wc -l) = 1 ]"));
    assert_true(script_succeeds(home, "! git rev-parse -q --verify try || { [ -z \"$(git status"
                                      " --short)\" ] && [ \"$(cat file)\" = one ]; }"));
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases WHERE work_at IS NOT NULL"), 0);
}

static void cancel_it(void *ctx, struct berth_exec *exec)
{
    (void)ctx;
    berth_exec_cancel(exec);
}

/* In the environment of what this test runs, and of nothing else. */
static const char *far_mark(char out[200])
{
    (void)snprintf(out, 200, "CRASH_TEST=%s", getenv("XDG_RUNTIME_DIR"));
    return out;
}

/* The same over SSH, with a command that nothing but its far end would end. */
static void perform_far_run(struct fixture *f)
{
    struct berth_environment *e = farhost_environment(f, farhost_config(NULL));
    struct berth_run_request request = BERTH_RUN_REQUEST_INIT;
    struct berth_run_result result;
    request.environment_id = e->id;
    char mark[200];
    request.command.argv = (const char *const[]){"sleep", "300", NULL};
    request.command.env = (const char *const[]){far_mark(mark), NULL};
    request.on_started = cancel_it;
    arm();
    assert_ok(f, berth_run_perform(f->b, &f->arena, &request, &result, &f->err));
    assert_int_equal(result.run->status, BERTH_RUN_CANCELLED);
}

#define NOTICE_WAITS 6000 /* a minute: it reads all of /proc some times, on a busy machine */

/* What ran there ends by itself: the far end notices that we are gone. */
static void check_far_end(void)
{
    char mark[200];
    for (int i = 0; i < NOTICE_WAITS && farhost_count_processes(far_mark(mark)); i++)
        pause_ms(10);
    assert_int_equal(farhost_count_processes(far_mark(mark)), 0);
}

/* And after the next start there is no lease there, and no key here. */
static void check_far_places(void)
{
    char path[256];
    glob_t found = {0};
    (void)snprintf(path, sizeof path, "%s/berth/ssh.*", getenv("XDG_RUNTIME_DIR"));
    assert_int_equal(farhost_count_leases(NULL), 0);
    if (glob(path, 0, NULL, &found) != GLOB_NOMATCH)
        fail_msg("%s is still there", found.gl_pathv[0]);
    globfree(&found);
}

/* No run of a dead process goes on, and nothing that it started. */
static void check_runs(struct fixture *f)
{
    assert_int_equal(count_rows(f, "SELECT count(*) FROM runs WHERE owner IS NOT NULL"
                                   " AND status = 'running'"),
                     0);
    struct berth_run_filter filter = BERTH_RUN_FILTER_INIT;
    struct berth_list runs;
    assert_ok(f, berth_run_list(f->b, &f->arena, &filter, &runs, &f->err));
    for (int i = 0; i < runs.count; i++) {
        const struct berth_run *run = runs.items[i];
        if (!run->owner)
            continue;
        char label[64];
        (void)snprintf(label, sizeof label, "BERTH_RUN_ID=%s", run->id);
        assert_int_equal(berth_strays_end((const char *const[]){label, NULL}), 0);
    }
}

/* --- secrets --- */

#define SECRETS 70 /* more than are sealed anew in one transaction */

static const char *value_of(const char *name, int64_t version, char out[64])
{
    (void)snprintf(out, 64, "value %lld of %s", (long long)version, name);
    return out;
}

/* Lets the test read them: resolution demands a binding. */
static int tx_bind_all(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct fixture *f = ctx;
    struct berth_list secrets, bindings = {0};
    int rc = berth_secret_select(db, &f->arena, f->b->company_id, NULL, &secrets, err);
    for (int i = 0; rc == BERTH_OK && i < secrets.count; i++) {
        const struct berth_secret *s = secrets.items[i];
        struct berth_binding *binding = berth_arena_alloc(&f->arena, sizeof *binding);
        binding->secret_id = s->id;
        binding->config_path = s->name;
        (void)berth_list_add(&bindings, &f->arena, binding);
    }
    struct berth_binding target = {
        .company_id = f->b->company_id, .target_type = "system", .target_id = "crash"};
    return rc < 0 ? rc : berth_secret_bind(db, &f->arena, &target, &bindings, err);
}

static void make_secrets(struct fixture *f)
{
    char name[32], value[64];
    for (int i = 0; i < SECRETS; i++) {
        (void)snprintf(name, sizeof name, "secret-%d", i);
        struct berth_secret_input input = {.name = name};
        struct berth_secret *s;
        (void)value_of(name, 1, value);
        assert_ok(f,
                  berth_secret_create(f->b, &f->arena, &input, value, strlen(value), &s, &f->err));
        if (i % 10)
            continue;
        (void)value_of(name, 2, value);
        assert_ok(f, berth_secret_rotate(f->b, &f->arena, s->id, value, strlen(value), NULL, &s,
                                         &f->err));
    }
    assert_ok(f, berth_store_tx(f->b->store, tx_bind_all, f, &f->err));
}

static void change_key(struct fixture *f)
{
    struct berth_list secrets;
    assert_ok(f, berth_secret_list(f->b, &f->arena, NULL, &secrets, &f->err));
    if (!secrets.count)
        make_secrets(f); /* the cells share a store */
    struct berth_key_change done;
    arm();
    assert_ok(f, berth_secret_change_key(f->b, NULL, &done, &f->err));
}

/* Nothing stays of those that were killed before us. */
static void assert_no_unfinished_key(struct fixture *f, const char *name)
{
    char strays[sizeof f->directory + 64];
    glob_t found = {0};
    (void)snprintf(strays, sizeof strays, "%s/%s.berth-new-*", f->directory, name);
    assert_int_equal(glob(strays, 0, NULL, &found), GLOB_NOMATCH);
    globfree(&found);
}

/* A key file is there as a whole or not at all. */
static void first_key(struct fixture *f)
{
    char path[sizeof f->directory + 16], id[BERTH_KEY_ID_SIZE];
    struct berth_secret_provider *vault;
    (void)snprintf(path, sizeof path, "%s/first.key", f->directory);
    (void)unlink(path);
    assert_ok(f, berth_secret_provider_new(path, &vault, &f->err));
    arm();
    assert_ok(f, berth_secret_provider_first_key(vault, f->b->store_id, id, &f->err));
    assert_no_unfinished_key(f, "first.key");
    berth_secret_provider_free(vault);
}

static void check_values(struct fixture *f, const struct berth_list *secrets)
{
    for (int i = 0; i < secrets->count; i++) {
        const struct berth_secret *s = secrets->items[i];
        for (int64_t version = 1; version <= s->latest_version; version++) {
            struct berth_resolve_request request = {.company_id = s->company_id,
                                                    .secret_id = s->id,
                                                    .version = version,
                                                    .consumer_type = "system",
                                                    .consumer_id = "crash",
                                                    .config_path = s->name};
            auto_locked value = BERTH_LOCKED_INIT;
            char expected[64];
            assert_ok(f, berth_secret_resolve(f->b, &request, &value, &f->err));
            assert_string_equal(value.bytes, value_of(s->name, version, expected));
        }
    }
}

/* With the old key or the new one, never with neither; and the change can be finished. */
static void check_secrets(struct fixture *f)
{
    struct berth_list secrets;
    assert_ok(f, berth_secret_list(f->b, &f->arena, NULL, &secrets, &f->err));
    if (!secrets.count)
        return;
    assert_int_equal(secrets.count, SECRETS);
    check_values(f, &secrets);
    struct berth_key_change done;
    assert_ok(f, berth_secret_change_key(f->b, NULL, &done, &f->err));
    check_values(f, &secrets);
    assert_no_unfinished_key(f, "secrets.key");
    assert_int_equal(count_rows(f, "SELECT count(DISTINCT key_id) FROM secret_versions"), 1);
}

static const struct scenario {
    const char *name;
    void (*run)(struct fixture *f);
    bool far; /* beside an sshd, and then only those */
} scenarios[] = {
    {"acquire_local", acquire_local},
    {"acquire_place", acquire_place},
    {"acquire_fails", acquire_fails},
    {"release_place", release_place},
    {"park_place", park_place},
    {"claim_place", claim_place},
    {"claim_gone_place", claim_gone_place},
    {"claim_declined_place", claim_declined_place},
    {"claim_stale_place", claim_stale_place},
    {"destroy_place", destroy_place},
    {"sweep_places", sweep_places},
    {"delete_environment", delete_environment},
    {"probe_place", probe_place},
    {"probe_fails", probe_fails},
    {"probe_unsaved", probe_unsaved},
    {"finish_run", finish_run},
    {"sweep_found_place", sweep_found_place},
    {"perform_run", perform_run},
    {"perform_workspace", perform_workspace},
    {"perform_branch", perform_branch},
    {"perform_far_run", perform_far_run, .far = true},
    {"change_key", change_key},
    {"first_key", first_key},
};
#define SCENARIOS (sizeof scenarios / sizeof scenarios[0])

static bool is_far(void)
{
    return getenv("BERTH_TEST_SSH") != NULL;
}

/* Two passes: what the first finds at the provider, the second ends. Nothing may be left half
 * done, and no place may live that nobody answers for. Beside a second process that is in the
 * middle of something this holds only in between, so it gets some tries. */
static void recover(struct fixture *f, int tries)
{
    const char *broken = NULL;
    do {
        (void)sweep(f);
        (void)sweep(f);
        broken = broken_invariant(f);
        if (!broken && count_rows(f, "SELECT count(*) FROM leases WHERE owner IS NOT NULL"
                                     " AND status IN ('acquiring', 'releasing')") != 0)
            broken = "a lease is left half done";
    } while (broken && --tries > 0);
    if (broken)
        fail_msg("%s", broken);
    bring_work_home(f);
    check_runs(f);
    if (!is_far()) /* the key of the far host is bound to its environment alone */
        check_secrets(f);
}

/* Long after: every lease has expired and every place is gone. */
static void recover_late(struct fixture *f)
{
    berth_time_shift(INT64_C(40) * 24 * 3600 * 1000, 0);
    for (int i = 0; i < 3; i++)
        (void)sweep(f);
    check_invariants(f);
    assert_int_equal(inventory_count(f->inventory), 0);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"), 0);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM environments WHERE deleting = 1"), 0);
}

/* The second process: leases of its own, and sweeps that meet the others'. Each SIGUSR1 is a round
 * of work, about as long as another process lives; SIGTERM ends it. */
static void work_beside(struct fixture *f)
{
    sigset_t wanted;
    int told = SIGUSR1;
    (void)sigemptyset(&wanted);
    (void)sigaddset(&wanted, SIGUSR1);
    (void)sigaddset(&wanted, SIGTERM);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &wanted, NULL), 0);
    struct berth_environment *e = sandbox(f, reusable);
    child_report("ready", "");
    while (told == SIGUSR1) {
        for (int i = 0; i < BESIDE_CYCLES; i++) {
            struct berth_lease *lease = take_lease(f, e, make_run(f));
            assert_int_equal(look_at_lease(f, lease)->status, BERTH_LEASE_ACTIVE);
            (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
            (void)sweep(f);
        }
        assert_int_equal(sigwait(&wanted, &told), 0);
    }
}

static void look(struct fixture *f, const char *lease_id)
{
    struct berth_lease *lease;
    assert_ok(f, berth_lease_get(f->b, &f->arena, lease_id, &lease, &f->err));
    assert_int_equal(lease->status, BERTH_LEASE_ACTIVE);
    if (lease->provider_lease_id)
        assert_true(inventory_has(f->inventory, lease->provider_lease_id));
}

/* `which` is "alone" or "beside", the node that died or "-", and the leases that must stand. */
static void recover_from(struct fixture *f, char *which)
{
    const char *company = strtok(which, " "), *node = strtok(NULL, " ");
    if (strcmp(node, "-") != 0)
        lapse_node(f, node);
    recover(f, strcmp(company, "beside") == 0 ? 200 : 1);
    for (const char *id; (id = strtok(NULL, " "));)
        look(f, id);
}

static void run_scenario(struct fixture *f, const char *name)
{
    child_report("node", berth_node_id(f->b->node));
    for (size_t i = 0; i < SCENARIOS; i++)
        if (strcmp(scenarios[i].name, name) == 0)
            scenarios[i].run(f);
    for (int i = 0; i < BERTH_FP_COUNT; i++)
        if (seen[i])
            child_report("passed", berth_failpoint_name((enum berth_failpoint)i));
}

static int child_main(char **argv)
{
    const char *what = argv[CHILD_WHAT];
    char *which = argv[CHILD_WHICH];
    struct fixture f;
    step = berth_failpoint_find(which);
    child_open(&f, argv);
    if (strcmp(what, "recover") == 0)
        recover_from(&f, which);
    else if (strcmp(what, "recover_late") == 0)
        recover_late(&f);
    else if (strcmp(what, "look") == 0)
        look(&f, which);
    else if (strcmp(what, "beside") == 0)
        work_beside(&f);
    else
        run_scenario(&f, what);
    child_close(&f);
    return step == BERTH_FP_COUNT ? 0 : NOT_REACHED;
}

/* --- in the parent --- */

static bool was_given(char *told, const char *lease_id)
{
    char id[64];
    for (char *at = told; child_line(&at, "giving", id);)
        if (strcmp(id, lease_id) == 0)
            return true;
    return false;
}

/* Lets another process recover from a crash. What was acknowledged before it must stand. */
static void recover_elsewhere(const struct fixture *f, char *told, bool beside)
{
    auto_buf which = BERTH_BUF_INIT(64 * 1024);
    char id[64];
    child_told(told, "node", id);
    berth_buf_printf(&which, "%s %s", beside ? "beside" : "alone",
                     f->kind == ON_POSTGRES ? id : "-");
    for (char *at = told; child_line(&at, "active", id);)
        if (!was_given(told, id))
            berth_buf_printf(&which, " %s", id);
    child_run(f, "recover", berth_buf_str(&which));
}

/* Gives the second process, if there is one, a round of work. */
static void go_on(struct child second)
{
    if (second.pid)
        (void)kill(second.pid, SIGUSR1);
}

/* One cell of the matrix. */
static void crash_at(const struct fixture *f, const struct scenario *scenario,
                     enum berth_failpoint point, struct child second)
{
    bool beside = second.pid;
    int status;
    go_on(second);
    auto_free char *told =
        child_finish(child_start(f, scenario->name, berth_failpoint_name(point)), &status);
    if (beside && WIFEXITED(status) && WEXITSTATUS(status) == NOT_REACHED)
        return; /* the second process swept what this one would have swept */
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail_msg("%s at %s ended with status 0x%x instead of SIGKILL", scenario->name,
                 berth_failpoint_name(point), status);
    if (is_far())
        check_far_end();
    go_on(second);
    recover_elsewhere(f, told, beside);
    if (is_far())
        check_far_places();
}

/* Which steps does the scenario pass? */
static void trace(const struct fixture *f, const struct scenario *scenario,
                  bool passes[BERTH_FP_COUNT])
{
    int status;
    auto_free char *told = child_finish(child_start(f, scenario->name, "-"), &status);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s ended with status 0x%x", scenario->name, status);
    char name[64];
    for (char *at = told; child_line(&at, "passed", name);)
        passes[berth_failpoint_find(name)] = true;
}

static void stop_second(struct child second)
{
    int status;
    (void)kill(second.pid, SIGTERM);
    free(child_finish(second, &status));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the second process ended with status 0x%x", status);
}

/* Crashes at the point in each scenario that passes it; in a sample, in one of them. Returns how
 * often. */
static int crash_at_point(const struct fixture *f, bool passes[SCENARIOS][BERTH_FP_COUNT],
                          enum berth_failpoint point, struct child second, struct sample *sample)
{
    const struct scenario *passing[SCENARIOS];
    int count = 0;
    for (size_t i = 0; i < SCENARIOS; i++)
        if (passes[i][point])
            passing[count++] = &scenarios[i];
    if (count && sample->wanted) {
        passing[0] = passing[rand_r(&sample->seed) % count];
        count = 1;
    }
    for (int i = 0; i < count; i++)
        crash_at(f, passing[i], point, second);
    return count;
}

/* Whether a scenario of this program has to pass the point. */
static bool is_ours(enum berth_failpoint point)
{
    const char *name = berth_failpoint_name(point);
    return strncmp(name, "worker_", 7) != 0 && /* crash_worker.c has those */
           is_far() == (strncmp(name, "ssh_", 4) == 0);
}

static void trace_all(const struct fixture *f, bool passes[SCENARIOS][BERTH_FP_COUNT])
{
    bool passed[BERTH_FP_COUNT] = {false};
    for (size_t i = 0; i < SCENARIOS; i++) {
        memset(passes[i], 0, sizeof passes[i]);
        if (scenarios[i].far == is_far())
            trace(f, &scenarios[i], passes[i]);
        for (int point = 0; point < BERTH_FP_COUNT; point++)
            passed[point] |= passes[i][point];
    }
    for (int point = 0; point < BERTH_FP_COUNT; point++)
        if (!passed[point] && is_ours((enum berth_failpoint)point))
            fail_msg("no scenario passes %s", berth_failpoint_name((enum berth_failpoint)point));
}

static struct child start_second(const struct fixture *f)
{
    char ready[8];
    struct child second = child_start(f, "beside", "-");
    assert_true(read(second.report_fd, ready, sizeof ready) > 0);
    return second;
}

/* Crashes at the points from `first` on, up to a number of crashes. Returns the next point. */
static int crash_some(const struct fixture *f, bool passes[SCENARIOS][BERTH_FP_COUNT], int first,
                      bool beside, struct sample *sample, int *cells)
{
    const struct sample parts = {.wanted = sample->wanted, .seed = test_seed()};
    struct child second = beside ? start_second(f) : (struct child){0};
    int point = first, limit = *cells + CELLS_AT_ONCE;
    /* In a sample, each point is in one of the matrices: two over SSH, else four. */
    for (; point < BERTH_FP_COUNT && *cells < limit; point++)
        if (sample_has(&parts, point, 2 * beside + (f->kind == ON_POSTGRES), is_far() ? 2 : 4))
            *cells += crash_at_point(f, passes, (enum berth_failpoint)point, second, sample);
    if (beside)
        stop_second(second);
    return point;
}

static void run_matrix(struct fixture *f, bool beside)
{
    static bool passes[SCENARIOS][BERTH_FP_COUNT];
    struct sample sample = sample_new();
    int cells = 0;
    fixture_close(f); /* the parent only looks on */
    trace_all(f, passes);
    for (int point = 0; point < BERTH_FP_COUNT;) {
        point = crash_some(f, passes, point, beside, &sample, &cells);
        child_run(f, "recover_late", "-"); /* and later sweeps have fewer leases to look at */
    }
    print_message("# %d crashes survived\n", cells);
}

static void crash_matrix(void **state)
{
    run_matrix(*state, false);
}

static void crash_matrix_beside_a_second_process(void **state)
{
    run_matrix(*state, true);
}

/* Closing one runtime must not loosen SQLite's hold on the file another one has open here: the next
 * process to leave would take the log away from under it, and what it acknowledged. */
static void a_second_runtime_in_the_process_loses_nothing(void **state)
{
    struct fixture *f = *state;
    struct fixture again = *f;
    fixture_open(&again);
    fixture_close(&again);
    child_run(f, "recover", "alone -"); /* comes and goes */
    struct berth_lease *lease = take_lease(f, sandbox(f, ephemeral), NULL);
    child_run(f, "look", lease->id);
    fixture_close(f);
    child_run(f, "look", lease->id);
}

int main(int argc, char **argv)
{
    if (argc == CHILD_ARGC)
        return child_main(argv);
    const struct CMUnitTest far_tests[] = {TEST_ON_BOTH(crash_matrix)};
    if (is_far())
        return run_shard("crash over SSH", far_tests);
    const struct CMUnitTest tests[] = {
        TEST_ON_BOTH(a_second_runtime_in_the_process_loses_nothing),
        TEST_ON_BOTH(crash_matrix),
        TEST_ON_BOTH(crash_matrix_beside_a_second_process),
    };
    return run_shard("crash", tests);
}
