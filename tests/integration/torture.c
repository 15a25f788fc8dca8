/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/torture.c - the n-th allocation fails, or all from the n-th on, then the n-th
 * query, for every n until a run passes without meeting it. Each failure must be an error with a
 * text, and afterwards the ledger recovers: every place is answered for, and in the end all are
 * gone. Linked with --wrap for the allocating functions; SQLite's go the same way. */
#include "children.h"

#include <jansson.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/time.h"
#include "inventory.h"

#define RUNS_MAX 20000

/* --- allocations that fail on demand --- */

static _Atomic int countdown; /* 0: not armed */
static _Atomic bool for_good; /* once it is at 0, everything fails */
static _Atomic bool exhausted;

static bool fails_now(void)
{
    if (atomic_load(&exhausted))
        return true;
    if (atomic_load(&countdown) <= 0 || atomic_fetch_sub(&countdown, 1) != 1)
        return false;
    atomic_store(&exhausted, atomic_load(&for_good));
    return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *text);
int __wrap_asprintf(char **out, const char *fmt, ...);

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return fails_now() ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *text)
{
    return fails_now() ? NULL : __real_strdup(text);
}

int __wrap_asprintf(char **out, const char *fmt, ...)
{
    if (fails_now())
        return -1;
    va_list args;
    va_start(args, fmt);
    int len = vasprintf(out, fmt, args);
    va_end(args);
    return len;
}

static sqlite3_mem_methods sqlite_memory;

static void *sqlite_malloc(int size)
{
    return fails_now() ? NULL : sqlite_memory.xMalloc(size);
}

static void *sqlite_realloc(void *p, int size)
{
    return fails_now() ? NULL : sqlite_memory.xRealloc(p, size);
}

/* Before the first use of SQLite. */
static void wrap_sqlite(void)
{
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &sqlite_memory), SQLITE_OK);
    sqlite3_mem_methods wrapped = sqlite_memory;
    wrapped.xMalloc = sqlite_malloc;
    wrapped.xRealloc = sqlite_realloc;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &wrapped), SQLITE_OK);
}

static void arm_allocation(int nth)
{
    atomic_store(&exhausted, false);
    atomic_store(&for_good, false);
    atomic_store(&countdown, nth);
}

static void arm_exhaustion(int nth)
{
    arm_allocation(nth);
    atomic_store(&for_good, nth > 0);
}

static bool allocation_armed(void)
{
    return atomic_load(&countdown) > 0;
}

/* --- what is tried --- */

/* A life with all its turns; stops at the first error. */
static int live(struct fixture *f, struct berth_arena *arena, struct berth_error *err)
{
    struct berth_environment_input input = {.name = "torture",
                                            .driver = BERTH_DRIVER_SANDBOX,
                                            .config_json = "{\"provider\":\"inventory\","
                                                           "\"reuseLease\":true}",
                                            .use = BERTH_CONFIG_PERSIST};
    struct berth_issues issues = {.arena = arena};
    struct berth_environment *e;
    struct berth_run *run;
    struct berth_lease *first = NULL, *second = NULL;
    struct berth_release_request release = {.status = BERTH_LEASE_RELEASED};
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    struct berth_workspace workspace = {.local_path = "/tmp"};
    struct berth_realized realized;
    struct berth_list released;
    struct berth_run_end end = {.status = BERTH_RUN_SUCCEEDED};
    struct berth_sweep_options options = BERTH_SWEEP_OPTIONS_INIT;
    struct berth_sweep_report report;

    int rc = berth_environment_create(f->b, arena, &input, &issues, &e, err);
    if (rc == BERTH_OK)
        rc = berth_run_create(f->b, arena, NULL, &run, err);
    if (rc == BERTH_OK) {
        request.environment_id = e->id;
        request.run_id = run->id;
        rc = berth_lease_acquire(f->b, arena, &request, &first, err);
    }
    if (rc == BERTH_OK)
        rc = berth_lease_realize(f->b, arena, first->id, &workspace, &realized, err);
    if (rc == BERTH_OK) {
        release.lease_id = first->id;
        rc = berth_lease_release(f->b, arena, &release, &first, err);
    }
    if (rc == BERTH_OK)
        rc = berth_lease_acquire(f->b, arena, &request, &second, err);
    if (rc == BERTH_OK)
        rc = berth_run_finish(f->b, arena, run->id, &end, &released, err);
    if (rc == BERTH_OK)
        rc = berth_sweep(f->b, &options, &report, err);
    if (rc == BERTH_OK)
        rc = berth_environment_delete(f->b, arena, e->id, true, NULL, &e, err);
    return rc;
}

/* Long after, everything is gone, and nothing was forgotten on the way. */
static void recover(struct fixture *f)
{
    (void)sweep(f);
    check_invariants(f);
    berth_time_shift(INT64_C(40) * 24 * 3600 * 1000, 0);
    for (int i = 0; i < 2; i++)
        (void)sweep(f);
    check_invariants(f);
    assert_int_equal(inventory_count(f->inventory), 0);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"), 0);
    struct berth_environment_filter all = BERTH_ENVIRONMENT_FILTER_INIT;
    struct berth_list list;
    assert_ok(f, berth_environment_list(f->b, &f->arena, &all, &list, &f->err));
    for (int i = 0; i < list.count; i++) {
        struct berth_environment *e = list.items[i];
        assert_ok(f, berth_environment_delete(f->b, &f->arena, e->id, true, NULL, &e, &f->err));
    }
    berth_arena_clear(&f->arena);
}

static void torture(struct fixture *f, void (*arm)(int nth), bool (*armed)(void))
{
    bool met = true;
    int nth = 1;
    for (; met && nth < RUNS_MAX; nth++) {
        struct berth_arena arena = BERTH_ARENA_INIT;
        struct berth_error err = {0};
        arm(nth);
        int rc = live(f, &arena, &err);
        met = !armed();
        arm(0);
        if (rc < 0 && (!err.message[0] || err.code != rc))
            fail_msg("failure %d gave %d without an error", nth, rc);
        if (!met && rc < 0)
            fail_msg("without a failure it still said: %s", err.message);
        berth_arena_clear(&arena);
        recover(f);
    }
    assert_true(nth > 10 && nth < RUNS_MAX);
    print_message("# %d failures survived\n", nth - 2);
}

static void every_allocation_fails_once(void **state)
{
    torture(*state, arm_allocation, allocation_armed);
}

static void memory_runs_out_at_every_point(void **state)
{
    torture(*state, arm_exhaustion, allocation_armed);
}

static void every_query_fails_once(void **state)
{
    torture(*state, berth_failpoint_arm_query, berth_failpoint_query_armed);
}

/* Opening is tortured by itself, on a store that is there and on one that is not. */
static void every_allocation_of_open_fails_once(void **state)
{
    struct fixture *f = *state;
    fixture_close(f);
    bool met = true;
    int nth = 1;
    for (; met && nth < RUNS_MAX; nth++) {
        struct berth_options options = BERTH_OPTIONS_INIT;
        options.store = f->store;
        struct berth *b = NULL;
        arm_allocation(nth);
        int rc = berth_open(&options, &b, &f->err);
        met = !allocation_armed();
        arm_allocation(0);
        if (rc < 0 && f->err.code != rc)
            fail_msg("failure %d gave %d without an error", nth, rc);
        if (!met)
            assert_ok(f, rc);
        berth_close(b);
    }
    assert_true(nth > 5);
    fixture_open(f);
}

int main(void)
{
    json_set_alloc_funcs(__wrap_malloc, free);
    wrap_sqlite();
    const struct CMUnitTest tests[] = {
        TEST_ON_BOTH(every_allocation_fails_once),
        TEST_ON_BOTH(memory_runs_out_at_every_point),
        TEST_ON_BOTH(every_query_fails_once),
        TEST_ON_BOTH(every_allocation_of_open_fails_once),
    };
    return run_shard("torture", tests);
}
