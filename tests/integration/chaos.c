/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/chaos.c - a worker is killed again and again while eight callers take and give
 * back places of it, and another plugin works beside it. Afterwards nothing is lost: what the
 * provider holds is what the ledger says, which is nothing. BERTH_TEST_KILLS says how often. */
#include "plugins.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include <berth/plugin.h>

#include "base/auto.h"
#include "base/time.h"

#define CALLERS 8
#define LEASES_MIN 50
#define KILLS_DEFAULT 500
#define GROWTH_KB_MAX (16 * 1024)
#define CACHES_KB_MAX (64 * 1024) /* of SQLite's readers, as its file grows */

struct chaos {
    struct fixture *f;
    const char *environment_id, *calm_id;
    const char *plugin_id;
    _Atomic bool over;
    _Atomic int taken, refused, given, calm, calm_failures;
};

/* What must not fail in a thread of its own is counted, and looked at afterwards. */
static bool cycle(struct chaos *c, const char *environment_id, _Atomic int *given)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_error err;
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    struct berth_lease *lease;
    request.environment_id = environment_id;
    if (berth_lease_acquire(c->f->b, &arena, &request, &lease, &err) < 0) {
        if (given == &c->calm)
            print_message("# beside it: %s [%s]\n", err.message, err.where);
        return false;
    }
    struct berth_release_request release = {.lease_id = lease->id, .status = BERTH_LEASE_RELEASED};
    if (given == &c->given)
        atomic_fetch_add(&c->taken, 1);
    if (berth_lease_release(c->f->b, &arena, &release, &lease, &err) < 0)
        return false;
    atomic_fetch_add(given, 1);
    return true;
}

static void *caller_main(void *ctx)
{
    struct chaos *c = ctx;
    while (!c->over)
        if (!cycle(c, c->environment_id, &c->given))
            atomic_fetch_add(&c->refused, 1);
    return NULL;
}

static void *calm_main(void *ctx)
{
    struct chaos *c = ctx;
    while (!c->over)
        if (!cycle(c, c->calm_id, &c->calm))
            atomic_fetch_add(&c->calm_failures, 1);
    return NULL;
}

/* Minutes that pass in a moment make whoever is slow look dead: the other worker is heard first. */
static void let_pass(const struct chaos *c, int64_t ms)
{
    int before = c->calm;
    for (int i = 0; i < 5000 && !c->over && c->calm == before; i++)
        pause_ms(1);
    berth_time_shift(0, ms);
}

/* Its number while it runs, else 0. Time passes when it only waits to be started again. */
static int worker_pid(struct chaos *c)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_worker_status status;
    struct berth_error err;
    if (berth_plugin_worker(c->f->b, &arena, c->plugin_id, &status, &err) < 0)
        return 0;
    if (strcmp(status.status, "backoff") == 0)
        let_pass(c, status.next_restart_at_ms - status.last_crash_at_ms);
    return strcmp(status.status, "running") == 0 ? status.pid : 0;
}

static void kill_often(struct chaos *c, int kills)
{
    for (int done = 0; done < kills;) {
        int pid = worker_pid(c);
        if (!pid) {
            pause_ms(2);
            continue;
        }
        (void)kill(pid, SIGKILL);
        done++;
        for (int i = 0; i < 200 && worker_pid(c) == pid; i++)
            pause_ms(1);
        if (done % 10 == 0)
            pause_ms(20); /* so that some calls come through */
    }
}

static long rss_kb(void)
{
    char line[256];
    long kb = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmRSS: %ld", &kb) == 1)
            break;
    if (status)
        (void)fclose(status);
    return kb;
}

/* A node whose heart does not stop when the clock is moved. */
static void open_for_good(struct fixture *f)
{
    struct berth_options options = BERTH_OPTIONS_INIT;
    options.store = f->store;
    options.settings.node_lapse_ms = INT64_C(1000000000000);
    fixture_close(f);
    assert_ok(f, berth_open(&options, &f->b, &f->err));
}

static void worker_kills_lose_nothing(void **state)
{
    struct fixture *f = *state;
    open_for_good(f);
    const char *given = getenv("BERTH_TEST_KILLS");
    int kills = given ? atoi(given) : KILLS_DEFAULT;
    const struct berth_plugin *wild = install_fake(f, "wild"), *calm = install_fake(f, "calm");
    struct chaos c = {.f = f,
                      .environment_id = make_fake_environment(f, "wild", false)->id,
                      .calm_id = make_fake_environment(f, "calm", false)->id,
                      .plugin_id = wild->id};
    pthread_t callers[CALLERS], other;
    assert_true(cycle(&c, c.environment_id, &c.given)); /* both workers run */
    assert_true(cycle(&c, c.calm_id, &c.calm));
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&callers[i], NULL, caller_main, &c), 0);
    assert_int_equal(pthread_create(&other, NULL, calm_main, &c), 0);
    kill_often(&c, kills / 10); /* what is needed once is there now */
    long before = rss_kb();
    kill_often(&c, kills - kills / 10);
    for (int i = 0; i < 10000 && (!worker_pid(&c) || c.taken < LEASES_MIN); i++)
        pause_ms(2); /* the last ones in peace */
    c.over = true;
    for (int i = 0; i < CALLERS; i++)
        (void)pthread_join(callers[i], NULL);
    (void)pthread_join(other, NULL);
    long growth = rss_kb() - before;
    print_message("# %d kills: %d taken, %d given back, %d refused; beside it %d; %ld KB more\n",
                  kills, (int)c.taken, (int)c.given, (int)c.refused, (int)c.calm, growth);
    assert_true(c.taken >= LEASES_MIN);
    assert_int_equal(c.given, c.taken); /* a release never fails: it owes */
    assert_true(c.calm > 0);
    assert_int_equal(c.calm_failures, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they keep what is freed */
    assert_true(growth < GROWTH_KB_MAX + (f->kind == ON_SQLITE ? CACHES_KB_MAX : 0));
#endif
    /* What was owed is worked off by sweeps, as soon as there is a worker again. */
    for (int i = 0;
         i < 50 && (count_fake_places(f, wild) ||
                    count_rows(f, "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"));
         i++) {
        move_clock(2 * 3600 * 1000);
        pause_ms(20);
        (void)sweep(f);
    }
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"), 0);
    assert_int_equal(count_fake_places(f, wild), 0);
    assert_int_equal(count_fake_places(f, calm), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST_ON_BOTH(worker_kills_lose_nothing)};
    return cmocka_run_group_tests_name("chaos", tests, NULL, NULL);
}
