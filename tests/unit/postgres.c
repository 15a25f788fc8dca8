/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/postgres.c - transactions on a PostgreSQL that goes away, comes back and deadlocks. */
#include "fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/time.h"
#include "store/db.h"
#include "store/migrate.h"
#include "store/store.h"

#define SECRET "hunter2-s3cret"

struct ground {
    struct fixture f;
    struct berth_store *store;
};

static void open_store(struct ground *g)
{
    assert_ok(&g->f, berth_store_open(berth_builtins.databases, g->f.store, &g->store, &g->f.err));
}

static int ground_setup(void **state)
{
    struct ground *g = calloc(1, sizeof *g);
    fixture_make(&g->f, ON_POSTGRES);
    /* Deadlocks are found at once: the schema's option is the last of the address. */
    size_t len = strlen(g->f.store);
    (void)snprintf(g->f.store + len, sizeof g->f.store - len, "%%20-cdeadlock_timeout%%3D10ms");
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
    berth_store_close(g->store);
    fixture_destroy(&g->f);
    free(g);
    return 0;
}

static void server(const char *what)
{
    const char *control = getenv("BERTH_TEST_PGCTL");
    if (!control)
        fail_msg("BERTH_TEST_PGCTL is not set: run this under tests/with-postgres");
    char command[512];
    (void)snprintf(command, sizeof command, "\"%s\" %s", control, what);
    if (system(command) != 0)
        fail_msg("%s failed", command);
}

/* --- what transactions do here --- */

static int insert_row(struct berth_db *db, int64_t number, struct berth_error *err)
{
    char id[32], name[32];
    (void)snprintf(id, sizeof id, "id-%lld", (long long)number);
    (void)snprintf(name, sizeof name, "name-%lld", (long long)number);
    return berth_db_exec(db,
                         "INSERT INTO companies (id, name, created_at, updated_at)"
                         " VALUES ($1, $2, $3, $3)",
                         NULL, NULL, err, berth_text(id), berth_text(name), berth_int(number));
}

static int tx_insert(struct berth_db *db, void *ctx, struct berth_error *err)
{
    return insert_row(db, *(int64_t *)ctx, err);
}

static int tx_insert_and_fail(struct berth_db *db, void *ctx, struct berth_error *err)
{
    int rc = insert_row(db, *(int64_t *)ctx, err);
    return rc < 0 ? rc : berth_fail(err, BERTH_E_DENIED, "Told to fail after writing.");
}

struct question {
    const char *sql;
    int64_t answer;
};

static int tx_ask(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct question *q = ctx;
    q->answer = -1;
    return berth_db_run(db, q->sql, NULL, 0, berth_row_int, &q->answer, err);
}

static int64_t ask(struct ground *g, const char *sql)
{
    struct question q = {.sql = sql};
    assert_ok(&g->f, berth_store_read(g->store, tx_ask, &q, &g->f.err));
    return q.answer;
}

static void insert(struct ground *g, int64_t number)
{
    assert_ok(&g->f, berth_store_tx(g->store, tx_insert, &number, &g->f.err));
}

#define COUNT "SELECT count(*) FROM companies"

/* --- addresses --- */

static void assert_refused(struct ground *g, const char *address, const char *text)
{
    struct berth_store *store = NULL;
    assert_fails(&g->f, BERTH_E_INVALID, text,
                 berth_store_open(berth_builtins.databases, address, &store, &g->f.err));
    assert_null(store);
    if (strstr(g->f.err.message, SECRET) || strstr(g->f.err.where, SECRET))
        fail_msg("%s: the secret is shown: %s [%s]", address, g->f.err.message, g->f.err.where);
}

static void a_password_in_the_address_is_refused(void **state)
{
    struct ground *g = *state;
    const char *const addresses[] = {
        "postgres://berth:" SECRET "@localhost/postgres",
        "postgresql://berth:" SECRET "@localhost:5432/postgres",
        "postgres://:" SECRET "@/postgres?host=/nowhere",
        "postgres://berth@localhost/postgres?password=" SECRET,
        "postgres://berth@localhost/postgres?sslmode=require&password=" SECRET,
        "postgres://berth:hunter2%2Ds3cret@localhost/postgres",
    };
    for (unsigned i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        assert_refused(g, addresses[i],
                       "The store's address must not hold a password: put it into "
                       "the file that PGPASSFILE names (~/.pgpass).");
        assert_null(strstr(g->f.err.message, "hunter2"));
    }
}

/* The passphrase of a client's key is a password, too. */
static void a_passphrase_in_the_address_is_refused(void **state)
{
    assert_refused(*state, "postgres://berth@localhost/postgres?sslpassword=" SECRET,
                   "must not hold a password");
}

static void a_nonsense_address_is_refused(void **state)
{
    struct ground *g = *state;
    const char *const addresses[] = {
        "postgres:",
        "postgres:nonsense",
        "postgres:host=localhost password=" SECRET,
        "postgres:/" SECRET,
        "postgres://[::1/" SECRET,
        "postgres://berth@localhost/postgres?nonsense=" SECRET,
        "postgres://berth@localhost/postgres?" SECRET,
        "postgres://berth:" SECRET "@[::1/postgres",
        "postgres://berth:" SECRET "%zz@localhost/postgres",
    };
    for (unsigned i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
        assert_refused(g, addresses[i],
                       i == 0 ? "No store at this address"
                              : "The store's address is not one PostgreSQL knows. Write "
                                "postgres://user@host:port/database.");
}

static void nobody_listens(void **state)
{
    struct ground *g = *state;
    struct berth_store *store = NULL;
    assert_fails(&g->f, BERTH_E_UNAVAILABLE, "PostgreSQL cannot be reached: ",
                 berth_store_open(berth_builtins.databases,
                                  "postgres://berth@/postgres?host=/nowhere/at/all", &store,
                                  &g->f.err));
    assert_null(strchr(g->f.err.message, '\n'));
    assert_null(store);
}

static void a_database_that_is_not_there(void **state)
{
    struct ground *g = *state;
    const char *host = strstr(g->f.store, "?host=");
    assert_non_null(host);
    char address[512];
    (void)snprintf(address, sizeof address, "postgres://berth@/no-such-db%.*s",
                   (int)strcspn(host, "&"), host);
    struct berth_store *store = NULL;
    int rc = berth_store_open(berth_builtins.databases, address, &store, &g->f.err);
    assert_true(rc < 0);
    assert_non_null(strstr(g->f.err.message, "database \"no-such-db\" does not exist"));
    assert_null(strchr(g->f.err.message, '\n'));
}

static void both_schemes_mean_the_same(void **state)
{
    struct ground *g = *state;
    insert(g, 1);
    assert_string_equal(berth_store_scheme(g->store), "postgres");
    assert_true(berth_store_shared(g->store));
    berth_store_close(g->store);
    g->store = NULL;
    char address[sizeof g->f.store + 8];
    (void)snprintf(address, sizeof address, "postgresql%s", strchr(g->f.store, ':'));
    assert_ok(&g->f, berth_store_open(berth_builtins.databases, address, &g->store, &g->f.err));
    assert_string_equal(berth_store_scheme(g->store), "postgresql");
    assert_int_equal(ask(g, COUNT), 1);
}

/* --- transactions --- */

static void a_failure_undoes_what_was_written(void **state)
{
    struct ground *g = *state;
    int64_t number = 1;
    assert_fails(&g->f, BERTH_E_DENIED, "Told to fail after writing.",
                 berth_store_tx(g->store, tx_insert_and_fail, &number, &g->f.err));
    assert_int_equal(ask(g, COUNT), 0);
    insert(g, 1);
    assert_fails(&g->f, BERTH_E_CONFLICT, "The store refuses this: duplicate key",
                 berth_store_tx(g->store, tx_insert, &number, &g->f.err));
    assert_int_equal(ask(g, COUNT), 1);
    struct berth_store_stats stats = berth_store_stats(g->store);
    assert_int_equal(stats.commits, 1);
    assert_int_equal(stats.requests, 1);
    assert_int_equal(stats.retries, 0);
}

static int tx_ignore_an_error(struct berth_db *db, void *ctx, struct berth_error *err)
{
    int rc = insert_row(db, 1, err);
    if (rc < 0)
        return rc;
    struct berth_error ignored;
    (void)insert_row(db, 1, &ignored);
    (void)ctx;
    return BERTH_OK;
}

/* PostgreSQL answers such a commit with ROLLBACK: that is no success. */
static void an_aborted_transaction_is_not_acknowledged(void **state)
{
    struct ground *g = *state;
    assert_true(berth_store_tx(g->store, tx_ignore_an_error, NULL, &g->f.err) < 0);
    assert_int_equal(ask(g, COUNT), 0);
}

struct look {
    struct berth_store *store;
    int64_t before, after;
};

static int tx_look_twice(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct look *look = ctx;
    int64_t number = 1;
    int rc = berth_db_run(db, COUNT, NULL, 0, berth_row_int, &look->before, err);
    if (rc == BERTH_OK)
        rc = berth_store_tx(look->store, tx_insert, &number, err);
    if (rc == BERTH_OK)
        rc = berth_db_run(db, COUNT, NULL, 0, berth_row_int, &look->after, err);
    return rc;
}

static void a_read_has_one_snapshot_and_cannot_write(void **state)
{
    struct ground *g = *state;
    struct look look = {.store = g->store};
    assert_ok(&g->f, berth_store_read(g->store, tx_look_twice, &look, &g->f.err));
    assert_int_equal(look.before, 0);
    assert_int_equal(look.after, 0);
    assert_int_equal(ask(g, COUNT), 1);
    int64_t number = 2;
    assert_true(berth_store_read(g->store, tx_insert, &number, &g->f.err) < 0);
    assert_int_equal(ask(g, COUNT), 1);
    insert(g, 2);
}

/* --- deadlocks --- */

#define THREADS 8
#define TX_EACH 20

struct meeting {
    struct berth_store *store;
    pthread_barrier_t *met; /* both have their first row */
    bool other_way;
    int failed, runs;
    bool waited;
    struct berth_error err;
};

static int add_one(struct berth_db *db, const char *id, struct berth_error *err)
{
    return berth_db_exec(db, "UPDATE companies SET updated_at = updated_at + 1 WHERE id = $1", NULL,
                         NULL, err, berth_text(id));
}

static int tx_two_rows(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct meeting *m = ctx;
    m->runs++;
    int rc = add_one(db, m->other_way ? "id-2" : "id-1", err);
    if (rc < 0)
        return rc;
    if (m->met && !m->waited) {
        m->waited = true;
        (void)pthread_barrier_wait(m->met);
    }
    return add_one(db, m->other_way ? "id-1" : "id-2", err);
}

static void *meet_once(void *ctx)
{
    struct meeting *m = ctx;
    m->failed = berth_store_tx(m->store, tx_two_rows, m, &m->err) < 0;
    return NULL;
}

static void *meet_often(void *ctx)
{
    struct meeting *m = ctx;
    for (int i = 0; i < TX_EACH; i++)
        m->failed += berth_store_tx(m->store, tx_two_rows, m, &m->err) < 0;
    return NULL;
}

static void run_meetings(struct meeting *meetings, int count, void *(*body)(void *))
{
    pthread_t threads[THREADS];
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, body, &meetings[i]), 0);
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < count; i++)
        if (meetings[i].failed)
            fail_msg("%d transactions failed: %s", meetings[i].failed, meetings[i].err.message);
}

/* Each holds what the other wants: one of them is chosen, and runs again. */
static void a_deadlock_is_retried(void **state)
{
    struct ground *g = *state;
    insert(g, 1);
    insert(g, 2);
    pthread_barrier_t met;
    assert_int_equal(pthread_barrier_init(&met, NULL, 2), 0);
    struct meeting meetings[2] = {{.store = g->store, .met = &met},
                                  {.store = g->store, .met = &met, .other_way = true}};
    run_meetings(meetings, 2, meet_once);
    (void)pthread_barrier_destroy(&met);
    int runs = meetings[0].runs + meetings[1].runs;
    assert_true(runs >= 3); /* on a slow machine the second try may meet the other once more */
    assert_int_equal(berth_store_stats(g->store).retries, runs - 2);
    assert_int_equal(ask(g, "SELECT updated_at FROM companies WHERE id = 'id-1'"), 1 + 2);
    assert_int_equal(ask(g, "SELECT updated_at FROM companies WHERE id = 'id-2'"), 2 + 2);
}

static void eight_threads_of_conflicts_all_land(void **state)
{
    struct ground *g = *state;
    insert(g, 1);
    insert(g, 2);
    struct meeting meetings[THREADS];
    for (int i = 0; i < THREADS; i++)
        meetings[i] = (struct meeting){.store = g->store, .other_way = i % 2};
    run_meetings(meetings, THREADS, meet_often);
    assert_int_equal(ask(g, "SELECT updated_at FROM companies WHERE id = 'id-1'"),
                     1 + THREADS * TX_EACH);
    assert_int_equal(ask(g, "SELECT updated_at FROM companies WHERE id = 'id-2'"),
                     2 + THREADS * TX_EACH);
    struct berth_store_stats stats = berth_store_stats(g->store);
    assert_int_equal(stats.commits, THREADS * TX_EACH + 2);
}

/* --- the server goes away --- */

struct gathering {
    pthread_barrier_t *all;
    struct berth_store *store;
    struct berth_error err;
    int rc;
    bool waited;
};

static int tx_gather(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct gathering *p = ctx;
    int64_t one;
    int rc = berth_db_run(db, "SELECT 1", NULL, 0, berth_row_int, &one, err);
    if (!p->waited) {
        p->waited = true;
        (void)pthread_barrier_wait(p->all);
    }
    return rc;
}

static void *gather_main(void *ctx)
{
    struct gathering *p = ctx;
    p->rc = berth_store_tx(p->store, tx_gather, p, &p->err);
    return NULL;
}

/* As many transactions at once as there are threads, so that many connections are idle after. */
static void gather(struct ground *g)
{
    pthread_barrier_t all;
    pthread_t threads[THREADS];
    struct gathering places[THREADS];
    assert_int_equal(pthread_barrier_init(&all, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) {
        places[i] = (struct gathering){.all = &all, .store = g->store};
        assert_int_equal(pthread_create(&threads[i], NULL, gather_main, &places[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_ok_at(places[i].rc, &places[i].err, "gather", __FILE__, __LINE__);
    (void)pthread_barrier_destroy(&all);
}

static void assert_away(struct ground *g)
{
    int64_t number = 900;
    assert_fails(&g->f, BERTH_E_UNAVAILABLE, "PostgreSQL",
                 berth_store_tx(g->store, tx_insert, &number, &g->f.err));
    assert_null(strchr(g->f.err.message, '\n'));
    struct question q = {.sql = COUNT};
    assert_fails(&g->f, BERTH_E_UNAVAILABLE, "PostgreSQL",
                 berth_store_read(g->store, tx_ask, &q, &g->f.err));
}

static void the_server_goes_away_and_comes_back(void **state)
{
    struct ground *g = *state;
    gather(g);
    insert(g, 1);
    server("stop");
    for (int i = 0; i < 3; i++)
        assert_away(g);
    struct berth_store *store = NULL;
    assert_fails(&g->f, BERTH_E_UNAVAILABLE, "PostgreSQL cannot be reached: ",
                 berth_store_open(berth_builtins.databases, g->f.store, &store, &g->f.err));
    server("start");
    assert_int_equal(ask(g, COUNT), 1);
    insert(g, 2);
    gather(g);
    assert_int_equal(ask(g, COUNT), 2);
}

/* Nobody asked in between: every idle connection is dead, and no caller notices. */
static void idle_connections_survive_a_restart(void **state)
{
    struct ground *g = *state;
    for (int round = 0; round < 2; round++) {
        gather(g);
        server("stop");
        server("start");
        if (round == 0)
            gather(g); /* all of them at once meet a dead one */
        else
            assert_int_equal(ask(g, COUNT), 1);
        insert(g, round + 1);
    }
    assert_int_equal(ask(g, COUNT), 2);
}

#define NUMBERS 200000 /* that one writer may use up, most of them while the server is away */

struct writer {
    struct berth_store *store;
    _Atomic bool *stop;
    sem_t *stored; /* goes up with each acknowledged row */
    int index;
    bool *acknowledged; /* by number */
    bool *seen;         /* in the store, afterwards */
    int other;
    struct berth_error err;
};

static void *writer_main(void *ctx)
{
    struct writer *w = ctx;
    for (int i = 0; i < NUMBERS && !atomic_load(w->stop); i++) {
        int64_t number = (int64_t)w->index * NUMBERS + i;
        int rc = berth_store_tx(w->store, tx_insert, &number, &w->err);
        w->acknowledged[i] = rc == BERTH_OK;
        if (rc == BERTH_OK)
            (void)sem_post(w->stored);
        else if (rc != BERTH_E_UNAVAILABLE)
            w->other++;
    }
    return NULL;
}

/* So many more than there are now. */
static void wait_for_rows(sem_t *stored, int more)
{
    while (sem_trywait(stored) == 0)
        ;
    for (int i = 0; i < more; i++)
        while (sem_wait(stored) < 0)
            ;
}

static int on_number(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    (void)err;
    struct writer *writers = ctx;
    writers[row[0].number / NUMBERS].seen[row[0].number % NUMBERS] = true;
    return BERTH_OK;
}

static int tx_numbers(struct berth_db *db, void *ctx, struct berth_error *err)
{
    return berth_db_run(db, "SELECT created_at FROM companies", NULL, 0, on_number, ctx, err);
}

static void a_restart_in_the_middle_loses_nothing(void **state)
{
    struct ground *g = *state;
    static bool acknowledged[THREADS][NUMBERS], seen[THREADS][NUMBERS];
    pthread_t threads[THREADS];
    struct writer writers[THREADS];
    _Atomic bool stop = false;
    sem_t stored;
    assert_int_equal(sem_init(&stored, 0, 0), 0);
    for (int i = 0; i < THREADS; i++) {
        writers[i] = (struct writer){.store = g->store,
                                     .stop = &stop,
                                     .stored = &stored,
                                     .index = i,
                                     .acknowledged = acknowledged[i],
                                     .seen = seen[i]};
        assert_int_equal(pthread_create(&threads[i], NULL, writer_main, &writers[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        wait_for_rows(&stored, 50);
        server("stop");
        server("start");
    }
    wait_for_rows(&stored, 50);
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(writers[i].other, 0); /* failures that were not UNAVAILABLE */
    (void)sem_destroy(&stored);
    assert_ok(&g->f, berth_store_read(g->store, tx_numbers, writers, &g->f.err));
    int rows = 0, lost = 0;
    for (int i = 0; i < THREADS * NUMBERS; i++) {
        rows += acknowledged[i / NUMBERS][i % NUMBERS];
        lost += acknowledged[i / NUMBERS][i % NUMBERS] && !seen[i / NUMBERS][i % NUMBERS];
    }
    assert_true(rows >= 150);
    assert_int_equal(lost, 0);
}

/* libpq writes warnings of a dying server to stderr unless it is told otherwise; a library has no
 * business there. */
static void nothing_is_written_to_stderr(void **state)
{
    struct ground *g = *state;
    char path[256];
    gather(g);
    (void)snprintf(path, sizeof path, "%s/stderr", g->f.directory);
    (void)fflush(stderr);
    int saved = dup(STDERR_FILENO), fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(saved >= 0 && fd >= 0);
    server("stop");
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    int64_t number = 1;
    int rc = berth_store_tx(g->store, tx_insert, &number, &g->f.err);
    (void)dup2(saved, STDERR_FILENO);
    (void)close(saved);
    server("start");
    char text[512];
    ssize_t len = pread(fd, text, sizeof text - 1, 0);
    (void)close(fd);
    assert_int_equal(rc, BERTH_E_UNAVAILABLE);
    if (len > 0) {
        text[len] = '\0';
        fail_msg("stderr: %s", text);
    }
}

/* --- a commit whose answer is lost --- */

/* Leaves the store's transaction for a statement that no transaction may contain. */
static int tx_configure(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct question *q = ctx;
    const char *const statements[] = {"COMMIT", q->sql, "SELECT pg_reload_conf()", "BEGIN"};
    int rc = BERTH_OK;
    for (int i = 0; rc == BERTH_OK && i < 4; i++)
        rc = berth_db_run(db, statements[i], NULL, 0, NULL, NULL, err);
    return rc;
}

static void configure(struct ground *g, const char *sql)
{
    struct question q = {.sql = sql};
    assert_ok(&g->f, berth_store_tx(g->store, tx_configure, &q, &g->f.err));
}

static int tx_count_up(struct berth_db *db, void *ctx, struct berth_error *err)
{
    ++*(int *)ctx;
    return add_one(db, "id-1", err);
}

struct killer {
    struct berth_store *store;
    _Atomic bool stop;
    int64_t killed;
};

/* Ends each connection that has committed and waits for the standby, before it can answer. */
static void *killer_main(void *ctx)
{
    struct killer *k = ctx;
    struct berth_error err;
    while (!atomic_load(&k->stop)) {
        struct question q = {.sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                                    " WHERE wait_event = 'SyncRep'"};
        if (berth_store_read(k->store, tx_ask, &q, &err) == BERTH_OK)
            k->killed += q.answer;
        pause_ms(1);
    }
    return NULL;
}

/* With a standby that never comes, PostgreSQL commits, and then waits instead of answering. */
static void a_commit_without_an_answer_is_not_run_again(void **state)
{
    struct ground *g = *state;
    struct killer killer = {.store = g->store};
    pthread_t thread;
    int runs = 0, calls = 0, rc;
    insert(g, 1);
    configure(g, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    assert_int_equal(pthread_create(&thread, NULL, killer_main, &killer), 0);
    do { /* the server takes its new configuration in its own time */
        rc = berth_store_tx(g->store, tx_count_up, &runs, &g->f.err);
        calls++;
    } while (rc == BERTH_OK);
    atomic_store(&killer.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    struct berth_error err = g->f.err;
    configure(g, "ALTER SYSTEM RESET synchronous_standby_names");
    assert_int_equal(rc, BERTH_E_UNAVAILABLE);
    assert_non_null(strstr(err.message, "PostgreSQL"));
    assert_int_equal(runs, calls);
    assert_true(killer.killed > 0);
    assert_int_equal(ask(g, "SELECT updated_at FROM companies WHERE id = 'id-1'"), 1 + calls);
}

/* --- migrating together --- */

static int start_line[2];

static void open_with_others(struct ground *g, int number)
{
    char byte;
    struct berth_error err;
    (void)close(start_line[1]);
    if (read(start_line[0], &byte, 1) != 0)
        _exit(1);
    int64_t row = number;
    int rc = berth_store_open(berth_builtins.databases, g->f.store, &g->store, &err);
    if (rc == BERTH_OK)
        rc = berth_store_tx(g->store, tx_insert, &row, &err);
    if (rc < 0)
        (void)fprintf(stderr, "# %s: %s\n", berth_code_wire(rc), err.message);
    berth_store_close(g->store);
    _exit(rc < 0);
}

static void processes_that_start_together_migrate_once(void **state)
{
    struct ground *g = *state;
    enum { PROCESSES = 8 };
    pid_t pids[PROCESSES];
    assert_int_equal(pipe2(start_line, O_CLOEXEC), 0);
    (void)fflush(NULL);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            open_with_others(g, i);
    }
    (void)close(start_line[0]);
    (void)close(start_line[1]);
    int failed = 0;
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        failed += status != 0;
    }
    assert_int_equal(failed, 0);
    open_store(g);
    assert_int_equal(ask(g, "SELECT count(*) FROM berth_schema"), berth_store_version());
    assert_int_equal(ask(g, COUNT), PROCESSES);
}

static int tx_be_newer(struct berth_db *db, void *ctx, struct berth_error *err)
{
    return berth_db_exec(db, "INSERT INTO berth_schema (version) VALUES ($1)", NULL, NULL, err,
                         berth_int(*(int64_t *)ctx));
}

static void a_newer_store_is_refused(void **state)
{
    struct ground *g = *state;
    int64_t version = berth_store_version() + 6;
    assert_ok(&g->f, berth_store_tx(g->store, tx_be_newer, &version, &g->f.err));
    char text[256];
    (void)snprintf(text, sizeof text,
                   "The store has schema version %lld, this program knows up to %d: use a newer "
                   "berth. Nothing was changed.",
                   (long long)version, berth_store_version());
    struct berth_store *store = NULL;
    assert_fails(&g->f, BERTH_E_UNSUPPORTED, text,
                 berth_store_open(berth_builtins.databases, g->f.store, &store, &g->f.err));
    assert_null(store);
    assert_int_equal(ask(g, "SELECT count(*) FROM berth_schema"), berth_store_version() + 1);
}

#define ON_STORE(test) cmocka_unit_test_setup_teardown(test, store_setup, ground_teardown)
#define ON_GROUND(test) cmocka_unit_test_setup_teardown(test, ground_setup, ground_teardown)

/* --- a server that hangs --- */

/* A transaction on a thread of its own. */
struct hung_writer {
    struct ground *g;
    pthread_t thread;
    int64_t number;
    int rc;
    struct berth_error err;
    atomic_bool done;
};

static void *hung_main(void *ctx)
{
    struct hung_writer *w = ctx;
    w->rc = berth_store_tx(w->g->store, tx_insert, &w->number, &w->err);
    atomic_store(&w->done, true);
    return NULL;
}

static void start_writing(struct hung_writer *w, struct ground *g, int64_t number)
{
    *w = (struct hung_writer){.g = g, .number = number};
    assert_int_equal(pthread_create(&w->thread, NULL, hung_main, w), 0);
}

/* Lets time pass until the transaction has failed. */
static void expire(struct hung_writer *w)
{
    for (int i = 0; i < 3000 && !atomic_load(&w->done); i++) {
        berth_time_shift(0, 1000);
        pause_ms(10);
    }
    assert_true(atomic_load(&w->done));
    pthread_join(w->thread, NULL);
    assert_int_equal(w->rc, BERTH_E_UNAVAILABLE);
}

static void a_server_that_hangs_is_given_up(void **state)
{
    struct ground *g = *state;
    struct hung_writer first, second;
    int64_t number = 3;
    struct berth_store_health health = berth_store_health(g->store);
    assert_true(health.answers);
    insert(g, 1);
    server("hang");
    start_writing(&first, g, 2);
    expire(&first);
    assert_string_equal(first.err.message,
                        "PostgreSQL does not answer. Check its server, or try again later.");
    health = berth_store_health(g->store);
    assert_false(health.answers);
    assert_true(health.since_ms > 0);
    assert_string_equal(health.trouble, first.err.message);
    /* One tries whether it is back; nobody else waits. */
    start_writing(&second, g, 2);
    int rc;
    do
        rc = berth_store_tx(g->store, tx_insert, &number, &g->f.err);
    while (strncmp(g->f.err.message, "The store has not answered since ", 33) != 0 &&
           rc == BERTH_E_UNAVAILABLE && !atomic_load(&second.done));
    assert_int_equal(rc, BERTH_E_UNAVAILABLE);
    expire(&second);
    server("resume");
    insert(g, 4);
    assert_true(berth_store_health(g->store).answers);
    assert_int_equal(ask(g, COUNT), 2); /* what was given up has not happened */
}

/* While a commit is on its way, what became of it is not known: it is not tried again. */
struct hung_commit {
    int runs;
};

static int tx_insert_then_hang(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct hung_commit *h = ctx;
    h->runs++;
    int rc = insert_row(db, 10, err);
    server("hang");
    return rc;
}

struct committer {
    struct ground *g;
    struct hung_commit hung;
    int rc;
    struct berth_error err;
    atomic_bool done;
};

static void *committer_main(void *ctx)
{
    struct committer *c = ctx;
    c->rc = berth_store_tx(c->g->store, tx_insert_then_hang, &c->hung, &c->err);
    atomic_store(&c->done, true);
    return NULL;
}

static void a_commit_that_hangs_is_not_tried_again(void **state)
{
    struct ground *g = *state;
    struct committer c = {.g = g};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, committer_main, &c), 0);
    for (int i = 0; i < 3000 && !atomic_load(&c.done); i++) {
        berth_time_shift(0, 1000);
        pause_ms(10);
    }
    pthread_join(thread, NULL);
    assert_int_equal(c.rc, BERTH_E_UNAVAILABLE);
    assert_int_equal(c.hung.runs, 1);
    server("resume");
    insert(g, 11);
    assert_true(ask(g, COUNT) <= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_GROUND(a_password_in_the_address_is_refused),
        ON_GROUND(a_passphrase_in_the_address_is_refused),
        ON_GROUND(a_nonsense_address_is_refused),
        ON_GROUND(nobody_listens),
        ON_GROUND(a_database_that_is_not_there),
        ON_GROUND(processes_that_start_together_migrate_once),
        ON_STORE(both_schemes_mean_the_same),
        ON_STORE(a_failure_undoes_what_was_written),
        ON_STORE(an_aborted_transaction_is_not_acknowledged),
        ON_STORE(a_read_has_one_snapshot_and_cannot_write),
        ON_STORE(a_deadlock_is_retried),
        ON_STORE(eight_threads_of_conflicts_all_land),
        ON_STORE(the_server_goes_away_and_comes_back),
        ON_STORE(idle_connections_survive_a_restart),
        ON_STORE(a_restart_in_the_middle_loses_nothing),
        ON_STORE(nothing_is_written_to_stderr),
        ON_STORE(a_commit_without_an_answer_is_not_run_again),
        ON_STORE(a_server_that_hangs_is_given_up),
        ON_STORE(a_commit_that_hangs_is_not_tried_again),
        ON_STORE(a_newer_store_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
