/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/store.c - transactions on SQLite: batches, failures, snapshots, and a hostile disk. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "store/db.h"
#include "store/migrate.h"
#include "store/sqlite.h"
#include "store/store.h"

#define NOBODY 65534
#define CANNOT_TEST 77 /* exit status of a child that may not do what it needs */
#define DISK_FULL "The disk that holds the store is full: make room and try again."
#define DAMAGED "The store is damaged or no berth store"

/* A place for a store and, after open_store, the store. */
struct ground {
    struct fixture f;
    struct berth_store *store;
};

static void open_store(struct ground *g)
{
    assert_ok(&g->f, berth_store_open(berth_builtins.databases, g->f.store, &g->store, &g->f.err));
}

static void close_store(struct ground *g)
{
    berth_store_close(g->store);
    g->store = NULL;
}

static int ground_setup(void **state)
{
    struct ground *g = calloc(1, sizeof *g);
    fixture_make(&g->f, ON_SQLITE);
    *state = g;
    return 0;
}

static int store_setup(void **state)
{
    (void)ground_setup(state);
    open_store(*state);
    return 0;
}

static int ground_teardown(void **state)
{
    struct ground *g = *state;
    close_store(g);
    fixture_destroy(&g->f);
    free(g);
    return 0;
}

static const char *path_of(const struct ground *g)
{
    return strchr(g->f.store, ':') + 1;
}

/* --- what transactions do here: rows in `companies`, and numbers in `runs_of` --- */

struct row {
    int64_t number;
    const char *text; /* NULL: a short one */
    int runs;         /* of the function; the only thing it does not reset */
    int64_t answer;   /* rows it saw or wrote */
    bool fail_before, fail_after;
};

static int insert_row(struct berth_db *db, int64_t number, const char *text,
                      struct berth_error *err)
{
    char id[32], name[64];
    (void)snprintf(id, sizeof id, "id-%06lld", (long long)number);
    (void)snprintf(name, sizeof name, "name-%lld", (long long)number);
    return berth_db_exec(db,
                         "INSERT INTO companies (id, name, created_at, updated_at)"
                         " VALUES ($1, $2 || coalesce($4, ''), $3, $3)",
                         NULL, NULL, err, berth_text(id), berth_text(name), berth_int(number),
                         berth_text(text));
}

static int tx_insert(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct row *row = ctx;
    row->runs++;
    row->answer = 0;
    if (row->fail_before)
        return berth_fail(err, BERTH_E_NOT_FOUND, "Told to fail before writing.");
    int rc = insert_row(db, row->number, row->text, err);
    if (rc < 0)
        return rc;
    row->answer++;
    if (row->fail_after)
        return berth_fail(err, BERTH_E_DENIED, "Told to fail after writing.");
    return BERTH_OK;
}

static int tx_count(struct berth_db *db, void *ctx, struct berth_error *err)
{
    return berth_db_run(db, "SELECT count(length(name)) FROM companies", NULL, 0, berth_row_int,
                        ctx, err);
}

static int64_t count_companies(struct ground *g)
{
    int64_t count = -1;
    assert_ok(&g->f, berth_store_read(g->store, tx_count, &count, &g->f.err));
    return count;
}

/* A bit per row that is there, for the first 64 numbers. */
static int on_number(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    (void)err;
    *(uint64_t *)ctx |= UINT64_C(1) << row[0].number;
    return BERTH_OK;
}

static int tx_numbers(struct berth_db *db, void *ctx, struct berth_error *err)
{
    *(uint64_t *)ctx = 0;
    return berth_db_run(db, "SELECT created_at FROM companies", NULL, 0, on_number, ctx, err);
}

static uint64_t numbers(struct ground *g)
{
    uint64_t bits;
    assert_ok(&g->f, berth_store_read(g->store, tx_numbers, &bits, &g->f.err));
    return bits;
}
#define BIT(n) (UINT64_C(1) << (n))

/* One statement without arguments; ctx is the text. */
static int tx_sql(struct berth_db *db, void *ctx, struct berth_error *err)
{
    return berth_db_run(db, ctx, NULL, 0, NULL, NULL, err);
}

static void do_sql(struct ground *g, const char *sql)
{
    char copy[512];
    (void)snprintf(copy, sizeof copy, "%s", sql);
    assert_ok(&g->f, berth_store_tx(g->store, tx_sql, copy, &g->f.err));
}

struct question {
    const char *sql;
    int64_t answer;
};

static int tx_ask(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct question *q = ctx;
    return berth_db_run(db, q->sql, NULL, 0, berth_row_int, &q->answer, err);
}

static int64_t ask(struct ground *g, const char *sql)
{
    struct question q = {.sql = sql, .answer = -1};
    assert_ok(&g->f, berth_store_read(g->store, tx_ask, &q, &g->f.err));
    return q.answer;
}

/* --- callers on threads of their own, and a plug in the writer --- */

struct caller {
    struct berth_store *store;
    berth_tx_fn *fn;
    void *ctx;
    pthread_t thread;
    _Atomic pid_t tid;
    int rc;
    struct berth_error err;
};

static void *caller_main(void *ctx)
{
    struct caller *c = ctx;
    atomic_store(&c->tid, gettid());
    c->rc = berth_store_tx(c->store, c->fn, c->ctx, &c->err);
    return NULL;
}

static void call(struct caller *c, struct ground *g, berth_tx_fn *fn, void *ctx)
{
    *c = (struct caller){.store = g->store, .fn = fn, .ctx = ctx};
    assert_int_equal(pthread_create(&c->thread, NULL, caller_main, c), 0);
}

static bool sleeps(pid_t tid)
{
    char path[64], text[256] = "";
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
        return false;
    const char *state = strrchr(text, ')');
    return state && state[2] == 'S';
}

/* The queue is not to be seen from outside: a caller waits in it once its thread sleeps. */
static void wait_until_queued(struct caller *c)
{
    for (int asleep = 0; asleep < 3; asleep = sleeps(atomic_load(&c->tid)) ? asleep + 1 : 0)
        (void)sched_yield();
}

struct plug {
    sem_t entered, go;
    bool write; /* something, before it waits */
    struct caller caller;
};

static int tx_plug(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct plug *plug = ctx;
    int rc = plug->write ? insert_row(db, 63, NULL, err) : BERTH_OK;
    (void)sem_post(&plug->entered);
    while (sem_wait(&plug->go) < 0)
        ;
    return rc;
}

/* Returns when the writer is inside the plug's transaction. */
static void put_plug(struct plug *plug, struct ground *g, bool write)
{
    plug->write = write;
    assert_int_equal(sem_init(&plug->entered, 0, 0), 0);
    assert_int_equal(sem_init(&plug->go, 0, 0), 0);
    call(&plug->caller, g, tx_plug, plug);
    while (sem_wait(&plug->entered) < 0)
        ;
}

static void pull_plug(struct plug *plug)
{
    (void)sem_post(&plug->go);
    assert_int_equal(pthread_join(plug->caller.thread, NULL), 0);
    assert_int_equal(plug->caller.rc, BERTH_OK);
    (void)sem_destroy(&plug->entered);
    (void)sem_destroy(&plug->go);
}

/* All of these in one batch, in this order. */
static struct berth_store_stats run_batch_of(struct ground *g, struct caller *callers, int count,
                                             berth_tx_fn *const *fns, void *const *ctxs)
{
    struct berth_store_stats before = berth_store_stats(g->store);
    struct plug plug;
    put_plug(&plug, g, false);
    for (int i = 0; i < count; i++) {
        call(&callers[i], g, fns[i], ctxs[i]);
        wait_until_queued(&callers[i]);
    }
    pull_plug(&plug);
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
    struct berth_store_stats after = berth_store_stats(g->store);
    return (struct berth_store_stats){.commits = after.commits - before.commits,
                                      .requests = after.requests - before.requests,
                                      .retries = after.retries - before.retries};
}

static struct berth_store_stats insert_batch(struct ground *g, struct caller *callers,
                                             struct row *rows, int count)
{
    berth_tx_fn *fns[16];
    void *ctxs[16];
    assert_in_range(count, 1, 16);
    for (int i = 0; i < count; i++) {
        fns[i] = tx_insert;
        ctxs[i] = &rows[i];
    }
    return run_batch_of(g, callers, count, fns, ctxs);
}

/* --- durability --- */

/* 2 is FULL: a commit returns when the disk has it. The question goes to the connection that
 * writes, as the store opened and configured it. */
static void commits_are_synchronous(void **state)
{
    struct ground *g = *state;
    struct question q = {.sql = "PRAGMA synchronous", .answer = -1};
    assert_ok(&g->f, berth_store_tx(g->store, tx_ask, &q, &g->f.err));
    assert_int_equal(q.answer, 2);
}

/* --- batches --- */

#define THREADS 8
#define TX_EACH 100

struct worker {
    struct berth_store *store;
    int64_t first;
    int failed;
    struct berth_error err;
};

static void *worker_main(void *ctx)
{
    struct worker *w = ctx;
    for (int i = 0; i < TX_EACH; i++) {
        struct row row = {.number = w->first + i};
        if (berth_store_tx(w->store, tx_insert, &row, &w->err) < 0 || row.answer != 1)
            w->failed++;
    }
    return NULL;
}

static void insert_by_threads(struct ground *g, struct berth_store *const *stores, int count)
{
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.store = stores[i % count], .first = INT64_C(1000) * (i + 1)};
        assert_int_equal(pthread_create(&threads[i], NULL, worker_main, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++)
        if (workers[i].failed)
            fail_msg("%d transactions failed: %s", workers[i].failed, workers[i].err.message);
    assert_int_equal(count_companies(g), THREADS * TX_EACH);
}

static void transactions_of_many_threads_all_land(void **state)
{
    struct ground *g = *state;
    insert_by_threads(g, &g->store, 1);
    struct berth_store_stats stats = berth_store_stats(g->store);
    assert_int_equal(stats.requests, THREADS * TX_EACH);
    assert_true(stats.commits < stats.requests);
    close_store(g);
    open_store(g);
    assert_int_equal(count_companies(g), THREADS * TX_EACH);
}

/* As two processes would. */
static void two_stores_on_one_file_take_turns(void **state)
{
    struct ground *g = *state;
    struct berth_store *stores[2] = {g->store, NULL};
    assert_ok(&g->f, berth_store_open(berth_builtins.databases, g->f.store, &stores[1], &g->f.err));
    insert_by_threads(g, stores, 2);
    berth_store_close(stores[1]);
}

static void queued_requests_share_one_commit(void **state)
{
    struct ground *g = *state;
    struct row rows[5] = {
        {.number = 1}, {.number = 2}, {.number = 3}, {.number = 4}, {.number = 5}};
    struct caller callers[5];
    struct berth_store_stats stats = insert_batch(g, callers, rows, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(callers[i].rc, BERTH_OK);
        assert_int_equal(rows[i].runs, 1);
    }
    assert_int_equal(stats.requests, 6); /* with the plug */
    assert_int_equal(stats.commits, 2);
    assert_int_equal(stats.retries, 0);
    assert_int_equal(numbers(g), BIT(1) | BIT(2) | BIT(3) | BIT(4) | BIT(5));
}

static void a_failure_after_writing_undoes_only_its_own(void **state)
{
    struct ground *g = *state;
    struct row rows[4] = {
        {.number = 1}, {.number = 2, .fail_after = true}, {.number = 3}, {.number = 4}};
    struct caller callers[4];
    struct berth_store_stats stats = insert_batch(g, callers, rows, 4);
    assert_int_equal(callers[0].rc, BERTH_OK);
    assert_int_equal(callers[1].rc, BERTH_E_DENIED);
    assert_string_equal(callers[1].err.message, "Told to fail after writing.");
    assert_int_equal(callers[2].rc, BERTH_OK);
    assert_int_equal(callers[3].rc, BERTH_OK);
    assert_int_equal(numbers(g), BIT(1) | BIT(3) | BIT(4));
    assert_int_equal(stats.retries, 1);
    /* The first ran in the batch and again on its own; its answer is that of one run. */
    assert_int_equal(rows[0].runs, 2);
    assert_int_equal(rows[0].answer, 1);
}

static void a_failure_before_writing_costs_the_others_nothing(void **state)
{
    struct ground *g = *state;
    struct row rows[3] = {{.number = 1}, {.number = 2, .fail_before = true}, {.number = 3}};
    struct caller callers[3];
    struct berth_store_stats stats = insert_batch(g, callers, rows, 3);
    assert_int_equal(callers[0].rc, BERTH_OK);
    assert_int_equal(callers[1].rc, BERTH_E_NOT_FOUND);
    assert_string_equal(callers[1].err.message, "Told to fail before writing.");
    assert_int_equal(callers[2].rc, BERTH_OK);
    assert_int_equal(numbers(g), BIT(1) | BIT(3));
    for (int i = 0; i < 3; i++)
        assert_int_equal(rows[i].runs, 1);
    assert_int_equal(stats.commits, 2);
    assert_int_equal(stats.retries, 0);
}

static void a_refused_row_costs_the_others_nothing(void **state)
{
    struct ground *g = *state;
    struct row rows[3] = {{.number = 1}, {.number = 1}, {.number = 3}};
    struct caller callers[3];
    struct berth_store_stats stats = insert_batch(g, callers, rows, 3);
    assert_int_equal(callers[0].rc, BERTH_OK);
    assert_int_equal(callers[1].rc, BERTH_E_CONFLICT);
    assert_non_null(strstr(callers[1].err.message, "The store refuses this: UNIQUE constraint"));
    assert_int_equal(callers[2].rc, BERTH_OK);
    assert_int_equal(numbers(g), BIT(1) | BIT(3));
    assert_int_equal(stats.commits, 2);
}

static int tx_add_one(struct berth_db *db, void *ctx, struct berth_error *err)
{
    (void)ctx;
    return berth_db_run(db, "UPDATE tally SET n = n + 1", NULL, 0, NULL, NULL, err);
}

/* Lets the file grow no more, and writes: SQLite then ends the whole transaction by itself. */
static int tx_outgrow(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct question q = {.sql = "PRAGMA page_count"};
    int rc = tx_ask(db, &q, err);
    char limit[64];
    (void)snprintf(limit, sizeof limit, "PRAGMA max_page_count = %lld", (long long)q.answer);
    if (rc == BERTH_OK)
        rc = berth_db_run(db, limit, NULL, 0, NULL, NULL, err);
    if (rc < 0)
        return rc;
    struct row row = {.number = 60, .text = ctx};
    rc = tx_insert(db, &row, err);
    struct berth_error ignored;
    (void)berth_db_run(db, "PRAGMA max_page_count = 1000000", NULL, 0, NULL, NULL, &ignored);
    return rc;
}

/* The disk is full in the middle of a batch: no write is lost or made twice. */
static void a_batch_that_the_database_ends_itself(void **state)
{
    struct ground *g = *state;
    static char big[200 * 1024];
    memset(big, 'x', sizeof big - 1);
    do_sql(g, "CREATE TABLE tally (n {bigint} NOT NULL {serial_table_end}");
    do_sql(g, "INSERT INTO tally (n) VALUES (0)");
    berth_tx_fn *fns[4] = {tx_add_one, tx_outgrow, tx_add_one, tx_add_one};
    void *ctxs[4] = {NULL, big, NULL, NULL};
    struct caller callers[4];
    (void)run_batch_of(g, callers, 4, fns, ctxs);
    assert_int_equal(callers[1].rc, BERTH_E_UNAVAILABLE);
    assert_string_equal(callers[1].err.message, DISK_FULL);
    for (int i = 0; i < 4; i++)
        if (i != 1)
            assert_ok_at(callers[i].rc, &callers[i].err, "tx_add_one", __FILE__, __LINE__);
    assert_int_equal(ask(g, "SELECT n FROM tally"), 3);
}

/* `commits` counts commits: a transaction that was undone made none. */
static void an_undone_transaction_is_no_commit(void **state)
{
    struct ground *g = *state;
    int64_t before = berth_store_stats(g->store).commits;
    struct row row = {.number = 1, .fail_after = true};
    assert_fails(&g->f, BERTH_E_DENIED, "Told to fail after writing.",
                 berth_store_tx(g->store, tx_insert, &row, &g->f.err));
    assert_int_equal(numbers(g), 0);
    assert_int_equal(berth_store_stats(g->store).commits, before);
}

/* --- reads --- */

static void reads_never_wait_for_a_writer(void **state)
{
    struct ground *g = *state;
    struct row first = {.number = 1};
    assert_ok(&g->f, berth_store_tx(g->store, tx_insert, &first, &g->f.err));
    struct plug plug;
    put_plug(&plug, g, true); /* holds the write lock, with a row that is not committed */
    assert_int_equal(numbers(g), BIT(1));
    assert_int_equal(count_companies(g), 1);
    pull_plug(&plug);
    assert_int_equal(numbers(g), BIT(1) | BIT(63));
}

struct look {
    struct berth_store *store;
    int64_t before, after;
};

static int tx_look_twice(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct look *look = ctx;
    int rc = tx_count(db, &look->before, err);
    if (rc < 0)
        return rc;
    struct row row = {.number = 1};
    rc = berth_store_tx(look->store, tx_insert, &row, err); /* by the writer's connection */
    if (rc < 0)
        return rc;
    return tx_count(db, &look->after, err);
}

static void a_read_has_one_snapshot(void **state)
{
    struct ground *g = *state;
    struct look look = {.store = g->store};
    assert_ok(&g->f, berth_store_read(g->store, tx_look_twice, &look, &g->f.err));
    assert_int_equal(look.before, 0);
    assert_int_equal(look.after, 0);
    assert_int_equal(count_companies(g), 1);
}

static void a_read_cannot_write(void **state)
{
    struct ground *g = *state;
    struct row row = {.number = 1};
    assert_true(berth_store_read(g->store, tx_insert, &row, &g->f.err) < 0);
    assert_int_equal(count_companies(g), 0);
    assert_ok(&g->f, berth_store_tx(g->store, tx_insert, &row, &g->f.err));
}

static int tx_pair(struct berth_db *db, void *ctx, struct berth_error *err)
{
    int64_t number = *(int64_t *)ctx;
    int rc = insert_row(db, number, NULL, err);
    return rc < 0 ? rc : insert_row(db, number + 1, NULL, err);
}

struct reader {
    struct berth_store *store;
    _Atomic bool *stop;
    int odd, failed;
    int64_t last;
};

static void *reader_main(void *ctx)
{
    struct reader *r = ctx;
    bool last_round = false;
    while (!last_round) {
        last_round = atomic_load(r->stop);
        int64_t count = 0;
        struct berth_error err;
        if (berth_store_read(r->store, tx_count, &count, &err) < 0 || count < r->last)
            r->failed++;
        r->odd += count % 2 != 0;
        r->last = count;
    }
    return NULL;
}

/* More of them than there are connections; each sees whole transactions, and never an older state
 * than before. */
static void many_readers_see_whole_transactions(void **state)
{
    struct ground *g = *state;
    enum { READERS = 24, PAIRS = 60 };
    pthread_t threads[READERS];
    struct reader readers[READERS];
    _Atomic bool stop = false;
    for (int i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.store = g->store, .stop = &stop};
        assert_int_equal(pthread_create(&threads[i], NULL, reader_main, &readers[i]), 0);
    }
    for (int64_t i = 0; i < PAIRS; i++) {
        int64_t number = 2 * i;
        assert_ok(&g->f, berth_store_tx(g->store, tx_pair, &number, &g->f.err));
    }
    atomic_store(&stop, true);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(readers[i].odd, 0);
        assert_int_equal(readers[i].failed, 0);
        assert_int_equal(readers[i].last, 2 * PAIRS);
    }
}

/* --- files --- */

static char *slurp(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *len = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*len + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *len, file), *len);
    (void)fclose(file);
    return bytes;
}

static void spill(const char *path, const void *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void assert_bytes_are(const char *path, const char *bytes, size_t len)
{
    size_t now_len;
    auto_free char *now = slurp(path, &now_len);
    assert_int_equal(now_len, len);
    assert_memory_equal(now, bytes, len);
}

static void a_newer_store_is_refused_and_left_alone(void **state)
{
    struct ground *g = *state;
    struct row row = {.number = 1};
    assert_ok(&g->f, berth_store_tx(g->store, tx_insert, &row, &g->f.err));
    int version = berth_store_version();
    char text[256];
    (void)snprintf(text, sizeof text, "INSERT INTO berth_schema (version) VALUES (%d)",
                   version + 41);
    do_sql(g, text);
    close_store(g);
    size_t len;
    auto_free char *before = slurp(path_of(g), &len);
    (void)snprintf(text, sizeof text,
                   "The store has schema version %d, this program knows up to %d: use a newer "
                   "berth. Nothing was changed.",
                   version + 41, version);
    for (int i = 0; i < 2; i++) {
        struct berth_store *store = NULL;
        assert_int_equal(berth_store_open(berth_builtins.databases, g->f.store, &store, &g->f.err),
                         BERTH_E_UNSUPPORTED);
        assert_string_equal(g->f.err.message, text);
        assert_null(store);
        assert_bytes_are(path_of(g), before, len);
    }
}

static void opening_again_migrates_no_more(void **state)
{
    struct ground *g = *state;
    size_t len;
    close_store(g);
    auto_free char *before = slurp(path_of(g), &len);
    for (int i = 0; i < 3; i++) {
        open_store(g);
        assert_int_equal(ask(g, "SELECT count(*) FROM berth_schema"), berth_store_version());
        assert_int_equal(ask(g, "SELECT max(version) FROM berth_schema"), berth_store_version());
        close_store(g);
    }
    assert_bytes_are(path_of(g), before, len);
}

/* Versions 11 and 12 copy leases and runs into tables of another form; here they do so once more.
 */
static void leases_and_runs_survive_their_copy(void **state)
{
    struct ground *g = *state;
    do_sql(g, "INSERT INTO leases (id, company_id, environment_id, status, lease_policy,"
              " acquired_at, last_used_at, created_at, updated_at, version, place, driver,"
              " provider_lease_id, due_at)"
              " SELECT 'l' || value, 'c', 'e', 'active', 'ephemeral', 1, 2, 100 - value, 4, 5,"
              " 'live', 'd', 'p' || value, 7 FROM (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL"
              " SELECT value + 1 FROM n WHERE value < 50) SELECT value FROM n)");
    do_sql(g, "INSERT INTO companies (id, name, created_at, updated_at) VALUES ('c', 'c', 1, 1)");
    do_sql(g, "INSERT INTO runs (id, company_id, environment_id, status, error, error_code,"
              " started_at, finished_at, created_at, updated_at, owner)"
              " SELECT 'r' || version || id, 'c', 'e', 'failed', 'x', 'y', 1, 2, created_at, 4, 'o'"
              " FROM leases");
    do_sql(g, "INSERT INTO secret_events (company_id, secret_id, actor_type, consumer_type,"
              " consumer_id, config_path, outcome, created_at) SELECT 'c', 's' || (value % 2),"
              " 'system', 'environment', 'e', 'apiKey', CASE value % 2 WHEN 0 THEN 'success' ELSE"
              " 'failure' END, 1 FROM (SELECT 1 AS value UNION SELECT 2 UNION SELECT 4)");
    do_sql(g, "DROP TABLE lease_secrets"); /* of later versions */
    do_sql(g, "ALTER TABLE leases DROP COLUMN work_at");
    do_sql(g, "ALTER TABLE leases DROP COLUMN home_at");
    do_sql(g, "ALTER TABLE runs DROP COLUMN workspace");
    do_sql(g, "ALTER TABLE runs DROP COLUMN workspace_diff");
    do_sql(g, "DROP INDEX environments_by_change");
    do_sql(g, "DROP INDEX activity_by_company");
    do_sql(g, "DROP INDEX leases_by_company");
    do_sql(g, "CREATE INDEX leases_by_age ON leases (created_at, id)"); /* of earlier ones */
    do_sql(g, "DELETE FROM berth_schema WHERE version > 10");
    close_store(g);
    open_store(g);
    assert_int_equal(ask(g, "SELECT max(version) FROM berth_schema"), berth_store_version());
    assert_int_equal(ask(g, "SELECT count(*) FROM leases WHERE id = 'l' || (100 - created_at)"
                            " AND provider_lease_id = 'p' || (100 - created_at)"
                            " AND acquired_at = 1 AND last_used_at = 2 AND updated_at = 4"
                            " AND version = 5 AND cleanup_attempts = 0 AND due_at = 7"),
                     50);
    assert_int_equal(ask(g, "SELECT count(*) FROM sqlite_master WHERE tbl_name = 'leases'"
                            " AND type = 'index' AND sql IS NOT NULL"),
                     6);
    assert_int_equal(ask(g, "SELECT count(*) FROM runs WHERE id = 'r5l' || (100 - created_at)"
                            " AND environment_id = 'e' AND error = 'x' AND error_code = 'y'"
                            " AND started_at = 1 AND finished_at = 2 AND updated_at = 4"
                            " AND owner = 'o'"),
                     50);
    assert_int_equal(ask(g, "SELECT count(*) FROM sqlite_master WHERE name LIKE '%_new'"), 0);
    assert_int_equal(ask(g, "SELECT count(*) FROM lease_secrets WHERE config_path = 'apiKey'"
                            " AND secret_id = 's0'"),
                     50); /* what was resolved for them, once */
    assert_int_equal(ask(g, "SELECT count(*) FROM lease_secrets"), 50);
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0)
        fail_msg("%s: %s", path, strerror(errno));
    return st.st_mode & 07777;
}

static void files_are_for_their_owner_only(void **state)
{
    struct ground *g = *state;
    char path[256];
    mode_t before = umask(0);
    (void)snprintf(g->f.store, sizeof g->f.store, "sqlite:%s/a/b/berth.db", g->f.directory);
    open_store(g);
    (void)umask(before);
    struct row row = {.number = 1};
    assert_ok(&g->f, berth_store_tx(g->store, tx_insert, &row, &g->f.err));
    const char *const directories[] = {"a", "a/b"};
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", g->f.directory, directories[i]);
        assert_int_equal(mode_of(path), 0700);
    }
    const char *const suffixes[] = {"", "-wal", "-shm"};
    for (int i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/a/b/berth.db%s", g->f.directory, suffixes[i]);
        assert_int_equal(mode_of(path), 0600);
    }
}

static void directories_that_exist_keep_their_mode(void **state)
{
    struct ground *g = *state;
    char path[256];
    (void)snprintf(path, sizeof path, "%s/mine", g->f.directory);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, 0750), 0);
    (void)snprintf(g->f.store, sizeof g->f.store, "sqlite:%s/berth.db", path);
    open_store(g);
    assert_int_equal(mode_of(path), 0750);
}

/* --- addresses --- */

static void assert_no_store(struct ground *g, const char *address, int code, const char *text)
{
    struct berth_store *store = NULL;
    assert_fails(&g->f, code, text,
                 berth_store_open(berth_builtins.databases, address, &store, &g->f.err));
    assert_null(store);
}

/* Others could put files there in the place of ours, also where they cannot remove ours. */
static void a_directory_that_all_can_write_is_refused(void **state)
{
    struct ground *g = *state;
    static const mode_t modes[] = {0777, 01777, 0703};
    char path[256];
    (void)snprintf(path, sizeof path, "%s/open", g->f.directory);
    (void)snprintf(g->f.store, sizeof g->f.store, "sqlite:%s/berth.db", path);
    assert_int_equal(mkdir(path, 0700), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_no_store(g, g->f.store, BERTH_E_DENIED, "Every user can write to the directory");
    }
    assert_int_equal(chmod(path, 0755), 0);
    open_store(g);
}

static void an_unknown_scheme_is_refused(void **state)
{
    struct ground *g = *state;
    const char *const addresses[] = {"mysql://user:hunter2@host/db",
                                     "berth.db",
                                     "/tmp/berth.db",
                                     "",
                                     ":",
                                     ":x",
                                     "sqlite:",
                                     "sqlite",
                                     "sqlite3:/x",
                                     "sqlit:/x"};
    for (unsigned i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        assert_no_store(g, addresses[i], BERTH_E_INVALID, "");
        assert_string_equal(
            g->f.err.message,
            "No store at this address: write sqlite:PATH or postgres://user@host/db.");
    }
}

static void a_store_says_where_it_is(void **state)
{
    struct ground *g = *state;
    assert_string_equal(berth_store_scheme(g->store), "sqlite");
    assert_string_equal(berth_store_where(g->store), path_of(g));
    assert_false(berth_store_shared(g->store));
    berth_store_close(NULL);
}

/* -wal, nodes/ and the daemon's lock go by the name: a second one would hide them. */
static void a_store_has_one_name(void **state)
{
    struct ground *g = *state;
    char other[256], address[300];
    (void)snprintf(other, sizeof other, "%s/other.db", g->f.directory);
    (void)snprintf(address, sizeof address, "sqlite:%s", other);
    spill(path_of(g), "", 0);
    assert_int_equal(link(path_of(g), other), 0);
    assert_no_store(g, address, BERTH_E_CONFLICT, "has 2 names (hard links)");
    (void)snprintf(address, sizeof address, "sqlite:%s", path_of(g));
    assert_no_store(g, address, BERTH_E_CONFLICT, "has 2 names (hard links)");
    assert_int_equal(unlink(other), 0);
}

/* What root would make beside it, its owner could not use. */
static void root_leaves_stores_of_others_alone(void **state)
{
    struct ground *g = *state;
    char address[256];
    if (geteuid() != 0)
        skip();
    (void)snprintf(address, sizeof address, "sqlite:%s", path_of(g));
    spill(path_of(g), "", 0);
    assert_int_equal(chown(path_of(g), 65534, 65534), 0);
    assert_no_store(g, address, BERTH_E_DENIED, "belongs to uid 65534, and files that root makes");
    assert_int_equal(chown(path_of(g), 0, 0), 0);
    /* A directory without a store is its owner's, too. */
    assert_int_equal(unlink(path_of(g)), 0);
    assert_int_equal(chown(g->f.directory, 65534, 65534), 0);
    assert_no_store(g, address, BERTH_E_DENIED, "belongs to uid 65534, and files that root makes");
    /* So are directories that root would make there. */
    (void)snprintf(address, sizeof address, "sqlite:%s/a/b/berth.db", g->f.directory);
    assert_no_store(g, address, BERTH_E_DENIED, "belongs to uid 65534, and files that root makes");
    assert_int_equal(chown(g->f.directory, 0, 0), 0);
    assert_int_equal(access(path_of(g), F_OK), -1);
}

static void a_directory_is_no_store(void **state)
{
    struct ground *g = *state;
    char address[256], text[512];
    (void)snprintf(address, sizeof address, "sqlite:%s", g->f.directory);
    (void)snprintf(text, sizeof text,
                   "The store %s is not a file: name the database file itself, for example "
                   "sqlite:%s/berth.db",
                   g->f.directory, g->f.directory);
    assert_no_store(g, address, BERTH_E_INVALID, text);
    /* A slash at the end says directory, too. */
    (void)snprintf(address, sizeof address, "sqlite:%s/", g->f.directory);
    assert_no_store(g, address, BERTH_E_INVALID, "is not a file");
}

static void a_file_is_no_parent(void **state)
{
    struct ground *g = *state;
    char path[256], address[512], text[300];
    (void)snprintf(path, sizeof path, "%s/file", g->f.directory);
    spill(path, "text", 4);
    (void)snprintf(text, sizeof text, "%s is not a directory.", path);
    (void)snprintf(address, sizeof address, "sqlite:%s/berth.db", path);
    assert_no_store(g, address, BERTH_E_INVALID, text);
    (void)snprintf(address, sizeof address, "sqlite:%s/a/b/berth.db", path);
    assert_no_store(g, address, BERTH_E_INVALID, text);
    assert_bytes_are(path, "text", 4);
}

/* It is told apart by the application id in the file's header. */
static void a_database_of_another_program_is_left_alone(void **state)
{
    struct ground *g = *state;
    char path[PATH_MAX], address[PATH_MAX + 16], command[PATH_MAX + 128];
    (void)snprintf(path, sizeof path, "%s/other.db", g->f.directory);
    (void)snprintf(address, sizeof address, "sqlite:%s", path);
    (void)snprintf(command, sizeof command,
                   "python3 -c 'import sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\n"
                   "c.execute(\"CREATE TABLE songs (name TEXT)\")\nc.commit()' %s",
                   path);
    assert_int_equal(system(command), 0);
    assert_no_store(g, address, BERTH_E_INVALID,
                    "This SQLite file belongs to another program: name another store.");
}

/* SQLite gives some names a meaning of their own: each connection would then have a database of its
 * own, in memory, and what was acknowledged would be gone. */
static void a_name_is_a_file_and_nothing_else(void **state)
{
    struct ground *g = *state;
    char here[PATH_MAX];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(g->f.directory), 0);
    const char *const addresses[] = {"sqlite::memory:", "sqlite:file:x?mode=memory",
                                     "sqlite:berth.db"};
    int64_t seen[3] = {-1, -1, -1};
    for (int i = 0; i < 3; i++) {
        struct row row = {.number = 1};
        int rc = berth_store_open(berth_builtins.databases, addresses[i], &g->store, &g->f.err);
        if (rc == BERTH_E_INVALID) {
            seen[i] = 1; /* a refusal is fine as well */
            continue;
        }
        if (rc == BERTH_OK)
            rc = berth_store_tx(g->store, tx_insert, &row, &g->f.err);
        if (rc == BERTH_OK)
            (void)berth_store_read(g->store, tx_count, &seen[i], &g->f.err);
        close_store(g);
    }
    assert_int_equal(chdir(here), 0);
    for (int i = 0; i < 3; i++)
        if (seen[i] != 1)
            fail_msg("%s: %lld rows were read after one was stored", addresses[i],
                     (long long)seen[i]);
}

/* --- damage --- */

static void garbage_is_no_store(void **state)
{
    struct ground *g = *state;
    static char noise[64 * 1024];
    unsigned seed = 12345;
    for (size_t i = 0; i < sizeof noise; i++) {
        seed = seed * 1103515245 + 12345;
        noise[i] = (char)(seed >> 16);
    }
    const size_t sizes[] = {5, 100, 512, 4096, sizeof noise};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        spill(path_of(g), noise, sizes[i]);
        assert_no_store(g, g->f.store, BERTH_E_INTERNAL, DAMAGED);
        assert_non_null(
            strstr(g->f.err.message, "restore it from a backup, or name another with --store."));
        assert_bytes_are(path_of(g), noise, sizes[i]);
    }
    /* The way out that the text names. */
    assert_int_equal(unlink(path_of(g)), 0);
    open_store(g);
}

#define ROWS 1500
#define PAGE 4096

static void fill(struct ground *g)
{
    static char text[400];
    memset(text, 'n', sizeof text - 1);
    do_sql(g, "CREATE TABLE marker (n {bigint} NOT NULL {serial_table_end}");
    do_sql(g, "INSERT INTO marker (n) VALUES (7)");
    for (int i = 0; i < ROWS; i += 2) {
        struct row row = {.number = i, .text = text};
        assert_ok(&g->f, berth_store_tx(g->store, tx_insert, &row, &g->f.err));
    }
}

/* Overwrites the pages from `first` on, page 1 being the first of the file. */
static void damage(const char *bytes, size_t len, size_t first, const char *path)
{
    auto_free char *copy = malloc(len);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    memset(copy + (first - 1) * PAGE, 0xa5, len - (first - 1) * PAGE);
    spill(path, copy, len);
}

/* A sick store answers with an error each time, and still gives what it can. */
static void check_sick_store(struct ground *g)
{
    int64_t count = -1;
    open_store(g);
    assert_fails(&g->f, BERTH_E_INTERNAL, DAMAGED,
                 berth_store_read(g->store, tx_count, &count, &g->f.err));
    assert_int_equal(ask(g, "SELECT n FROM marker"), 7);
    int refused = 0;
    for (int i = 1; i < ROWS; i += 100) {
        struct row row = {.number = i};
        int rc = berth_store_tx(g->store, tx_insert, &row, &g->f.err);
        if (rc < 0) {
            assert_fails(&g->f, BERTH_E_INTERNAL, DAMAGED, rc);
            refused++;
        }
    }
    assert_true(refused > 0);
    do_sql(g, "UPDATE marker SET n = 7"); /* the connection has survived */
    assert_int_equal(ask(g, "SELECT n FROM marker"), 7);
    close_store(g);
}

static void damaged_pages_are_told(void **state)
{
    struct ground *g = *state;
    fill(g);
    close_store(g);
    size_t len;
    auto_free char *bytes = slurp(path_of(g), &len);
    size_t pages = len / PAGE;
    assert_true(pages > 100);
    /* Only rows. */
    damage(bytes, len, pages / 2, path_of(g));
    check_sick_store(g);
    /* The tables' definitions, too. */
    damage(bytes, len, 2, path_of(g));
    assert_no_store(g, g->f.store, BERTH_E_INTERNAL, DAMAGED);
    /* All of it. */
    damage(bytes, len, 1, path_of(g));
    assert_no_store(g, g->f.store, BERTH_E_INTERNAL, DAMAGED);
    /* The end is missing. */
    spill(path_of(g), bytes, len / 2);
    int64_t count;
    struct berth_store *store = NULL;
    int rc = berth_store_open(berth_builtins.databases, g->f.store, &store, &g->f.err);
    if (rc == BERTH_OK)
        rc = berth_store_read(store, tx_count, &count, &g->f.err);
    berth_store_close(store);
    assert_fails(&g->f, BERTH_E_INTERNAL, DAMAGED, rc);
    /* The backup. */
    spill(path_of(g), bytes, len);
    open_store(g);
    assert_int_equal(count_companies(g), ROWS / 2);
}

/* --- in processes of their own --- */

/* cmocka's assertions jump into the parent's runner: a child says what is wrong and ends. */
#define must(condition, ...)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "# %s:%d: %s: ", __FILE__, __LINE__, #condition);                \
            (void)fprintf(stderr, __VA_ARGS__);                                                    \
            (void)fputc('\n', stderr);                                                             \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static pid_t spawn(void (*body)(struct ground *g, int number), struct ground *g, int number)
{
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        body(g, number);
        _exit(0);
    }
    return pid;
}

static int outcome_of(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
        fail_msg("the child died of signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

static void run_in_child(void (*body)(struct ground *g, int number), struct ground *g)
{
    int outcome = outcome_of(spawn(body, g, 0));
    if (outcome == CANNOT_TEST)
        skip();
    assert_int_equal(outcome, 0);
}

static int start_line[2]; /* readable (at its end) when all may go */

static void open_with_others(struct ground *g, int number)
{
    char byte;
    (void)close(start_line[1]);
    must(read(start_line[0], &byte, 1) == 0, "the start line is broken");
    struct berth_error err;
    int rc = berth_store_open(berth_builtins.databases, g->f.store, &g->store, &err);
    must(rc == BERTH_OK, "%s", err.message);
    struct row row = {.number = number};
    rc = berth_store_tx(g->store, tx_insert, &row, &err);
    must(rc == BERTH_OK, "%s", err.message);
    berth_store_close(g->store);
}

static void processes_that_start_together_migrate_once(void **state)
{
    struct ground *g = *state;
    enum { PROCESSES = 8, ROUNDS = 6 };
    for (int round = 0; round < ROUNDS; round++) {
        (void)snprintf(g->f.store, sizeof g->f.store, "sqlite:%s/round-%d/berth.db", g->f.directory,
                       round);
        pid_t pids[PROCESSES];
        assert_int_equal(pipe2(start_line, O_CLOEXEC), 0);
        for (int i = 0; i < PROCESSES; i++)
            pids[i] = spawn(open_with_others, g, i);
        (void)close(start_line[0]);
        (void)close(start_line[1]);
        int failed = 0;
        for (int i = 0; i < PROCESSES; i++)
            failed += outcome_of(pids[i]) != 0;
        assert_int_equal(failed, 0);
        open_store(g);
        assert_int_equal(ask(g, "SELECT count(*) FROM berth_schema"), berth_store_version());
        assert_int_equal(count_companies(g), PROCESSES);
        close_store(g);
    }
}

/* A process killed in the middle of a transaction leaves what it had acknowledged. */
static void die_while_writing(struct ground *g, int number)
{
    (void)number;
    struct berth_error err;
    int rc = berth_store_open(berth_builtins.databases, g->f.store, &g->store, &err);
    must(rc == BERTH_OK, "%s", err.message);
    for (int i = 0; i < 10; i++) {
        struct row row = {.number = i};
        rc = berth_store_tx(g->store, tx_insert, &row, &err);
        must(rc == BERTH_OK, "%s", err.message);
    }
    struct plug *plug = calloc(1, sizeof *plug);
    put_plug(plug, g, true);
    _exit(0); /* with the transaction open: to the file, the same as kill -9 */
}

static void a_dead_process_leaves_what_it_acknowledged(void **state)
{
    struct ground *g = *state;
    run_in_child(die_while_writing, g);
    open_store(g);
    assert_int_equal(numbers(g), 0x3ff);
}

static void become_nobody(void)
{
    if (geteuid() != 0)
        return;
    must(setresgid(NOBODY, NOBODY, NOBODY) == 0, "%s", strerror(errno));
    must(setresuid(NOBODY, NOBODY, NOBODY) == 0, "%s", strerror(errno));
}

static void must_be_denied(const char *address, const char *path)
{
    struct berth_store *store = NULL;
    struct berth_error err;
    int rc = berth_store_open(berth_builtins.databases, address, &store, &err);
    must(rc == BERTH_E_DENIED, "%s gave %s \"%s\"", address, berth_code_wire(rc),
         rc < 0 ? err.message : "");
    must(!path || strstr(err.message, path), "%s is not in \"%s\"", path, err.message);
    must(!path || strstr(err.message, "Permission denied"), "%s", err.message);
}

static void try_as_nobody(struct ground *g, int number)
{
    (void)number;
    char path[256], address[512];
    become_nobody();
    /* No file there, and none can be made. */
    (void)snprintf(path, sizeof path, "%s/locked/new.db", g->f.directory);
    (void)snprintf(address, sizeof address, "sqlite:%s", path);
    must_be_denied(address, path);
    /* No directory there either. */
    (void)snprintf(path, sizeof path, "%s/locked/sub", g->f.directory);
    (void)snprintf(address, sizeof address, "sqlite:%s/new.db", path);
    must_be_denied(address, path);
    /* A store that may only be read. */
    (void)snprintf(path, sizeof path, "%s/locked/read-only.db", g->f.directory);
    (void)snprintf(address, sizeof address, "sqlite:%s", path);
    must_be_denied(address, path);
    /* A store that may be written, but not its companions. */
    (void)snprintf(address, sizeof address, "sqlite:%s/locked/berth.db", g->f.directory);
    must_be_denied(address, NULL);
}

static void an_unwritable_directory(void **state)
{
    struct ground *g = *state;
    char path[256];
    const char *const names[] = {"berth.db", "read-only.db"};
    for (int i = 0; i < 2; i++) {
        (void)snprintf(g->f.store, sizeof g->f.store, "sqlite:%s/locked/%s", g->f.directory,
                       names[i]);
        open_store(g);
        struct row row = {.number = 1};
        assert_ok(&g->f, berth_store_tx(g->store, tx_insert, &row, &g->f.err));
        close_store(g);
        (void)snprintf(path, sizeof path, "%s/locked/%s", g->f.directory, names[i]);
        assert_int_equal(chmod(path, i == 0 ? 0666 : 0444), 0);
    }
    (void)snprintf(path, sizeof path, "%s/locked", g->f.directory);
    assert_int_equal(chmod(g->f.directory, 0755), 0);
    assert_int_equal(chmod(path, 0555), 0);
    run_in_child(try_as_nobody, g);
    assert_int_equal(chmod(path, 0700), 0);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(g->f.store, sizeof g->f.store, "sqlite:%s/locked/%s", g->f.directory,
                       names[i]);
        (void)chmod(path_of(g), 0600);
        open_store(g);
        assert_int_equal(numbers(g), BIT(1));
        close_store(g);
    }
}

/* --- a full disk --- */

static void write_text(const char *path, const char *text)
{
    auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        _exit(CANNOT_TEST);
}

/* A disk of 1 MiB that only this process sees. */
static void mount_small_disk(const char *at)
{
    char map[64];
    bool root = geteuid() == 0;
    (void)snprintf(map, sizeof map, "0 %d 1", (int)geteuid());
    if (unshare(root ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) < 0)
        _exit(CANNOT_TEST);
    if (!root) {
        write_text("/proc/self/setgroups", "deny");
        write_text("/proc/self/uid_map", map);
    }
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", at, "tmpfs", 0, "size=1m,mode=0700") < 0)
        _exit(CANNOT_TEST);
}

static void make_ballast(const char *path, size_t len)
{
    static char bytes[4096];
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    must(fd >= 0, "%s", strerror(errno));
    for (size_t done = 0; done < len; done += sizeof bytes)
        if (write(fd, bytes, sizeof bytes) != (ssize_t)sizeof bytes) {
            must(errno == ENOSPC, "%s", strerror(errno));
            return;
        }
}

static int64_t must_count(struct berth_store *store)
{
    struct berth_error err;
    int64_t count = -1;
    int rc = berth_store_read(store, tx_count, &count, &err);
    must(rc == BERTH_OK, "reading failed: %s", err.message);
    return count;
}

/* Writes until it fails; the number of rows that were acknowledged. */
static int64_t write_until_full(struct berth_store *store, int64_t from)
{
    static char text[8000];
    memset(text, 't', sizeof text - 1);
    for (int64_t i = from; i < from + 1000; i++) {
        struct row row = {.number = i, .text = text};
        struct berth_error err;
        int rc = berth_store_tx(store, tx_insert, &row, &err);
        if (rc == BERTH_OK)
            continue;
        must(rc == BERTH_E_UNAVAILABLE, "%s: %s", berth_code_wire(rc), err.message);
        must(strcmp(err.message, DISK_FULL) == 0, "%s", err.message);
        return i - from;
    }
    must(false, "the disk never became full");
    return -1;
}

/* Many at once on the full disk: every one of them hears it, or is there. */
static int64_t write_together(struct ground *g)
{
    static char text[8000];
    memset(text, 'u', sizeof text - 1);
    enum { CALLERS = 6 };
    static struct caller callers[CALLERS];
    static struct row rows[CALLERS];
    static struct plug plug;
    int64_t stored = 0;
    put_plug(&plug, g, false);
    for (int i = 0; i < CALLERS; i++) {
        rows[i] = (struct row){.number = 5000 + i, .text = text};
        call(&callers[i], g, tx_insert, &rows[i]);
        wait_until_queued(&callers[i]);
    }
    (void)sem_post(&plug.go);
    (void)pthread_join(plug.caller.thread, NULL);
    for (int i = 0; i < CALLERS; i++) {
        (void)pthread_join(callers[i].thread, NULL);
        if (callers[i].rc == BERTH_OK)
            stored++;
        else
            must(strcmp(callers[i].err.message, DISK_FULL) == 0, "%s", callers[i].err.message);
    }
    return stored;
}

static void live_on_a_small_disk(struct ground *g, int number)
{
    (void)number;
    char ballast[256];
    struct berth_error err;
    mount_small_disk(g->f.inventory);
    (void)snprintf(g->f.store, sizeof g->f.store, "sqlite:%s/berth.db", g->f.inventory);
    (void)snprintf(ballast, sizeof ballast, "%s/ballast", g->f.inventory);
    make_ballast(ballast, 256 * 1024);
    int rc = berth_store_open(berth_builtins.databases, g->f.store, &g->store, &err);
    must(rc == BERTH_OK, "%s", err.message);
    int64_t stored = write_until_full(g->store, 0);
    must(stored > 10, "only %lld rows fit", (long long)stored);
    must(must_count(g->store) == stored, "%lld rows", (long long)must_count(g->store));
    /* It stays a clear error, and reading goes on. */
    stored += write_until_full(g->store, 2000);
    stored += write_together(g);
    must(must_count(g->store) == stored, "%lld rows", (long long)must_count(g->store));
    /* Room again: the same store works. */
    must(unlink(ballast) == 0, "%s", strerror(errno));
    struct row row = {.number = 9000};
    rc = berth_store_tx(g->store, tx_insert, &row, &err);
    must(rc == BERTH_OK, "after room was made: %s", err.message);
    stored++;
    must(must_count(g->store) == stored, "%lld rows", (long long)must_count(g->store));
    berth_store_close(g->store);
    rc = berth_store_open(berth_builtins.databases, g->f.store, &g->store, &err);
    must(rc == BERTH_OK, "%s", err.message);
    must(must_count(g->store) == stored, "%lld rows", (long long)must_count(g->store));
    struct question q = {.sql = "SELECT count(*) FROM pragma_integrity_check"
                                " WHERE integrity_check <> 'ok'"};
    rc = berth_store_read(g->store, tx_ask, &q, &err);
    must(rc == BERTH_OK && q.answer == 0, "the store is not sound");
    berth_store_close(g->store);
}

static void a_full_disk_loses_nothing(void **state)
{
    run_in_child(live_on_a_small_disk, *state);
}

/* With no byte left at all, and with room for some of it. */
static void begin_on_a_full_disk(struct ground *g, int number)
{
    (void)number;
    char ballast[256], rest[256];
    struct berth_error err;
    mount_small_disk(g->f.inventory);
    (void)snprintf(g->f.store, sizeof g->f.store, "sqlite:%s/berth.db", g->f.inventory);
    (void)snprintf(ballast, sizeof ballast, "%s/ballast", g->f.inventory);
    (void)snprintf(rest, sizeof rest, "%s/rest", g->f.inventory);
    for (size_t room = 0; room <= 96 * 1024; room += 8 * 1024) {
        make_ballast(rest, room);
        make_ballast(ballast, SIZE_MAX);
        must(unlink(rest) == 0, "%s", strerror(errno));
        int rc = berth_store_open(berth_builtins.databases, g->f.store, &g->store, &err);
        must(unlink(ballast) == 0, "%s", strerror(errno));
        if (rc == BERTH_OK)
            berth_store_close(g->store);
        else
            must(rc == BERTH_E_UNAVAILABLE && strcmp(err.message, DISK_FULL) == 0,
                 "with %zu bytes: %s: %s", room, berth_code_wire(rc), err.message);
        must(rc < 0 || room > 0, "a store without a byte");
    }
    /* What was begun can be finished. */
    int rc = berth_store_open(berth_builtins.databases, g->f.store, &g->store, &err);
    must(rc == BERTH_OK, "%s", err.message);
    struct row row = {.number = 1};
    rc = berth_store_tx(g->store, tx_insert, &row, &err);
    must(rc == BERTH_OK && must_count(g->store) == 1, "%s", err.message);
    berth_store_close(g->store);
}

static void a_new_store_on_a_full_disk(void **state)
{
    run_in_child(begin_on_a_full_disk, *state);
}

/* A process without descriptors knows nothing about the rows: it must not call them missing. */
static void a_store_without_descriptors(void **state)
{
    struct ground *g = *state;
    struct rlimit limit, none;
    struct berth_db *db;
    struct berth_error err;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int rc = berth_database_sqlite.open(path_of(g), BERTH_READ, &db, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(rc, BERTH_E_UNAVAILABLE);
}

#define ON_STORE(test) cmocka_unit_test_setup_teardown(test, store_setup, ground_teardown)
#define ON_GROUND(test) cmocka_unit_test_setup_teardown(test, ground_setup, ground_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_STORE(commits_are_synchronous),
        ON_STORE(transactions_of_many_threads_all_land),
        ON_STORE(two_stores_on_one_file_take_turns),
        ON_STORE(queued_requests_share_one_commit),
        ON_STORE(a_failure_after_writing_undoes_only_its_own),
        ON_STORE(a_failure_before_writing_costs_the_others_nothing),
        ON_STORE(a_refused_row_costs_the_others_nothing),
        ON_STORE(a_batch_that_the_database_ends_itself),
        ON_STORE(an_undone_transaction_is_no_commit),
        ON_STORE(reads_never_wait_for_a_writer),
        ON_STORE(a_read_has_one_snapshot),
        ON_STORE(a_read_cannot_write),
        ON_STORE(many_readers_see_whole_transactions),
        ON_STORE(a_newer_store_is_refused_and_left_alone),
        ON_STORE(opening_again_migrates_no_more),
        ON_STORE(leases_and_runs_survive_their_copy),
        ON_STORE(a_store_says_where_it_is),
        ON_STORE(damaged_pages_are_told),
        ON_GROUND(files_are_for_their_owner_only),
        ON_GROUND(directories_that_exist_keep_their_mode),
        ON_GROUND(a_directory_that_all_can_write_is_refused),
        ON_GROUND(an_unknown_scheme_is_refused),
        ON_GROUND(a_directory_is_no_store),
        ON_GROUND(a_store_has_one_name),
        ON_GROUND(root_leaves_stores_of_others_alone),
        ON_GROUND(a_file_is_no_parent),
        ON_GROUND(a_database_of_another_program_is_left_alone),
        ON_GROUND(a_name_is_a_file_and_nothing_else),
        ON_GROUND(garbage_is_no_store),
        ON_GROUND(processes_that_start_together_migrate_once),
        ON_GROUND(a_dead_process_leaves_what_it_acknowledged),
        ON_GROUND(an_unwritable_directory),
        ON_GROUND(a_full_disk_loses_nothing),
        ON_GROUND(a_new_store_on_a_full_disk),
        ON_STORE(a_store_without_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
