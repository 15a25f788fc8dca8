/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/crash_worker.c - the crash matrix over calls to workers: berth is killed, and
 * the worker is killed, before and after each call that a life of leases makes. Another process
 * recovers; then what the provider holds is what the ledger says, and later both are empty.
 *
 * The program starts itself again for the children: "crash_worker WHAT CALL STORE DIRECTORY". */
#include "children.h"
#include "plugins.h"

#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include <berth/plugin.h>

#include "base/auto.h"
#include "base/failpoint.h"
#include "base/time.h"
#include "core/lease/node.h"
#include "core/run/exec.h"
#include "store/db.h"
#include "store/store.h"

#define PROVIDER "victim"
#define KINDS 4 /* of crashes, at each call */

enum victim { NOBODY, BERTH, WORKER };

/* --- in the child --- */

static enum victim victim;
static enum berth_failpoint moment;
static int target = -1;
static _Atomic int passes[2];
static _Atomic int worker_pid;

static void on_point(enum berth_failpoint point)
{
    if (point != BERTH_FP_worker_before_call && point != BERTH_FP_worker_after_call)
        return;
    int n = atomic_fetch_add(&passes[point == BERTH_FP_worker_after_call], 1);
    if (point != moment || n != target)
        return;
    if (victim == BERTH)
        (void)kill(getpid(), SIGKILL);
    if (victim == WORKER)
        (void)kill(worker_pid, SIGKILL);
}

/* What a killed worker makes impossible is not done; what is done is done by the rules. */
static struct berth_lease *take(struct fixture *f, const struct berth_environment *e)
{
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    struct berth_lease *lease;
    request.environment_id = e->id;
    request.run_id = make_run(f)->id;
    return berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err) == BERTH_OK ? lease
                                                                                       : NULL;
}

static void give(struct fixture *f, const struct berth_lease *lease)
{
    struct berth_release_request release = {.status = BERTH_LEASE_RELEASED};
    struct berth_lease *after;
    if (!lease)
        return;
    release.lease_id = lease->id;
    assert_ok(f, berth_lease_release(f->b, &f->arena, &release, &after, &f->err));
}

static void use(struct fixture *f, const struct berth_lease *lease)
{
    struct berth_workspace workspace = {.mode = "ephemeral"};
    struct berth_realized realized;
    struct berth_exec_request request = BERTH_EXEC_REQUEST_INIT;
    struct berth_exec *exec;
    struct berth_exec_end end;
    if (!lease ||
        berth_lease_realize(f->b, &f->arena, lease->id, &workspace, &realized, &f->err) < 0)
        return;
    request.lease_id = lease->id;
    request.argv = (const char *const[]){"sh", "-c", "sleep 0.1", NULL};
    if (berth_exec_start(f->b, &request, NULL, &exec, &f->err) < 0)
        return;
    berth_exec_wait(exec, &end);
    berth_exec_free(exec);
}

/* Everything a lease can go through. */
static void live(struct fixture *f, const struct berth_environment *once,
                 const struct berth_environment *again)
{
    struct berth_probe probe;
    struct berth_lease *lease = take(f, once);
    use(f, lease);
    give(f, lease);
    give(f, take(f, again)); /* parked */
    give(f, take(f, again)); /* resumed, and parked again */
    lease = take(f, once);
    if (lease)
        assert_ok(f, berth_lease_destroy(f->b, &f->arena, lease->id, NULL, &lease, &f->err));
    (void)berth_environment_probe(f->b, &f->arena, once->id, NULL, &probe, &f->err);
    (void)sweep(f); /* asks for labels */
}

static struct berth_environment *find_environment(struct fixture *f, const char *name)
{
    struct berth_environment_filter filter = BERTH_ENVIRONMENT_FILTER_INIT;
    struct berth_list all;
    assert_ok(f, berth_environment_list(f->b, &f->arena, &filter, &all, &f->err));
    for (int i = 0; i < all.count; i++) {
        struct berth_environment *e = all.items[i];
        if (strstr(e->config_json, name))
            return e;
    }
    fail_msg("no environment with %s", name);
    return NULL;
}

static void run_life(struct fixture *f)
{
    struct berth_plugin *plugin;
    struct berth_worker_status status;
    struct berth_environment *once = find_environment(f, "\"reuseLease\":false");
    struct berth_environment *again = find_environment(f, "\"reuseLease\":true");
    child_report("node", berth_node_id(f->b->node));
    assert_ok(f, berth_plugin_get(f->b, &f->arena, "test." PROVIDER, &plugin, &f->err));
    assert_ok(f, berth_plugin_restart(f->b, &f->arena, plugin->id, &status, &f->err));
    worker_pid = status.pid;
    berth_failpoint_watch(on_point);
    live(f, once, again);
    char count[16];
    (void)snprintf(count, sizeof count, "%d", (int)passes[0]);
    child_report("calls", count);
}

/* No place that nobody answers for, and none that is answered for twice. */
static void check_places(struct fixture *f)
{
    struct berth_plugin *plugin;
    assert_ok(f, berth_plugin_get(f->b, &f->arena, "test." PROVIDER, &plugin, &f->err));
    assert_int_equal(count_fake_places(f, plugin),
                     count_rows(f, "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"
                                   " AND place IN ('live', 'parked')"));
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"
                                   " AND status IN ('acquiring', 'releasing')"),
                     0);
}

static void recover(struct fixture *f, bool late)
{
    if (late)
        berth_time_shift(INT64_C(40) * 24 * 3600 * 1000, 0);
    for (int i = 0; i < 4; i++) {
        (void)sweep(f);
        berth_time_shift(2 * 3600 * 1000, 0); /* what failed once is tried again */
    }
    check_places(f);
    if (late)
        assert_int_equal(count_rows(f, "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"), 0);
}

static int child_main(char **argv)
{
    const char *what = argv[CHILD_WHAT], *which = argv[CHILD_WHICH];
    struct fixture f;
    child_open(&f, argv);
    if (strcmp(what, "recover") == 0) {
        bool late = strcmp(which, "late") == 0;
        if (!late && strcmp(which, "now") != 0)
            lapse_node(&f, which);
        recover(&f, late);
    } else {
        victim = strstr(what, "berth") ? BERTH : strstr(what, "worker") ? WORKER : NOBODY;
        moment = strstr(what, "before") ? BERTH_FP_worker_before_call : BERTH_FP_worker_after_call;
        target = atoi(which);
        run_life(&f);
    }
    child_close(&f);
    return 0;
}

/* --- in the parent --- */

/* Whether a worker of this test still lives. */
static bool has_worker(const struct fixture *f)
{
    bool found = false;
    DIR *proc = opendir("/proc");
    for (const struct dirent *entry; proc && (entry = readdir(proc));) {
        char path[300], target_path[PATH_MAX];
        (void)snprintf(path, sizeof path, "/proc/%.200s/exe", entry->d_name);
        ssize_t len = readlink(path, target_path, sizeof target_path - 1);
        if (len <= 0)
            continue;
        target_path[len] = '\0';
        found |= strncmp(target_path, f->directory, strlen(f->directory)) == 0;
    }
    (void)closedir(proc);
    return found;
}

static void crash_at(const struct fixture *f, const char *what, int call)
{
    char number[16], node[64];
    int status;
    (void)snprintf(number, sizeof number, "%d", call);
    auto_free char *told = child_finish(child_start(f, what, number), &status);
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (strstr(what, "berth") ? !killed : !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s call %d: it ended with status 0x%x", what, call, status);
    child_told(told, "node", node);
    for (int i = 0; i < 300 && has_worker(f); i++)
        pause_ms(10);
    if (has_worker(f))
        fail_msg("%s call %d: a worker outlived its owner", what, call);
    child_run(f, "recover", f->kind == ON_POSTGRES && killed ? node : "now");
}

static void crash_matrix_of_worker_calls(void **state)
{
    static const char *const kinds[KINDS] = {"berth-before", "berth-after", "worker-before",
                                             "worker-after"};
    struct fixture *f = *state;
    (void)install_fake(f, PROVIDER);
    (void)make_fake_environment(f, PROVIDER, false);
    (void)make_fake_environment(f, PROVIDER, true);
    fixture_close(f); /* the parent only looks on */
    int status, cells = 0;
    char text[64];
    struct sample sample = sample_new();
    auto_free char *told = child_finish(child_start(f, "trace", "-1"), &status);
    assert_int_equal(status, 0);
    child_told(told, "calls", text);
    int calls = atoi(text);
    assert_true(calls >= 12);
    child_run(f, "recover", "now");
    for (int kind = 0; kind < KINDS; kind++)
        for (int call = 0; call < calls; call++)
            if (sample_has(&sample, call, kind, KINDS)) {
                crash_at(f, kinds[kind], call);
                cells++;
            }
    child_run(f, "recover", "late");
    print_message("# %d calls, %d crashes survived\n", calls, cells);
}

int main(int argc, char **argv)
{
    if (argc == CHILD_ARGC)
        return child_main(argv);
    const struct CMUnitTest tests[] = {TEST_ON_BOTH(crash_matrix_of_worker_calls)};
    return run_shard("crash of workers", tests);
}
