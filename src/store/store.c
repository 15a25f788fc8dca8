/* SPDX-License-Identifier: Apache-2.0
 * src/store/store.c - transactions: one writer at a time with batches, or a pool of connections. */
#include "store/store.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/time.h"
#include "store/db.h"
#include "store/migrate.h"

/* A call of berth_store_tx that waits for the writer; on the stack of the caller. */
struct request {
    berth_tx_fn *fn;
    void *ctx;
    struct berth_error *err;
    int rc;
    sem_t done;
    struct request *next;
};

/* A caller that waits for a connection; on its stack. Callers are served in order: else a thread
 * that has just returned a connection would take it again. */
struct waiter {
    pthread_cond_t wake;
    struct berth_db *db; /* the connection; NULL: open one */
    bool served;
    bool refused; /* the server does not answer */
    struct waiter *next;
};

struct berth_store {
    const struct berth_database *database;
    char *where;

    pthread_mutex_t lock;
    /* Idle connections: of the pool, or the readers of a store with a writer thread. */
    struct berth_db *idle[BERTH_STORE_POOL_DEFAULT];
    int idle_count, open_count;
    struct waiter *first_waiter, **last_waiter;
    int64_t progress_ms;   /* monotonic, when a connection was last returned, or the first taken */
    int64_t silent_ms;     /* wall clock, since when the server does not answer; 0: it does */
    int64_t failed_ms;     /* since when connections fail, for whatever reason; 0: they do not */
    bool trying;           /* meanwhile one caller tries whether it answers again */
    char trouble[256];     /* why the last connection failed; "": it did not */
    _Atomic bool troubled; /* silent_ms or trouble is set */

    /* The writer thread and its queue, under queue_lock. */
    pthread_mutex_t queue_lock;
    struct berth_db *writer_db;
    pthread_t writer;
    bool writer_runs, stopping;
    bool busy; /* writer_db is in use, by the writer or by a caller that found it idle */
    struct request *head, **tail;
    pthread_cond_t work;

    _Atomic int64_t commits, requests, retries;
};

static int open_db(struct berth_store *store, enum berth_access access, struct berth_db **out,
                   struct berth_error *err)
{
    return store->database->open(store->where, access, out, err);
}

/* Runs fn in its own transaction. *committing says whether a failure came from the commit. */
static int run_once(struct berth_db *db, enum berth_access access, berth_tx_fn *fn, void *ctx,
                    bool *committing, struct berth_error *err)
{
    *committing = false;
    int rc = db->ops->begin(db, access, err);
    if (rc < 0)
        return rc;
    rc = fn(db, ctx, err);
    if (rc == BERTH_OK) {
        *committing = true;
        rc = db->ops->commit(db, err);
    }
    if (rc < 0)
        db->ops->rollback(db);
    return rc;
}

/* --- one writer thread --- */

/* Closes the writer's connection when a rollback has failed. It still has its transaction, and with
 * it the lock of the file that other processes wait for. */
static void drop_broken(struct berth_store *store)
{
    if (store->writer_db && store->writer_db->broken) {
        store->writer_db->ops->free(store->writer_db);
        store->writer_db = NULL;
    }
}

static int mend_writer(struct berth_store *store, struct berth_error *err)
{
    return store->writer_db ? BERTH_OK : open_db(store, BERTH_WRITE, &store->writer_db, err);
}

static void run_alone(struct berth_store *store, struct request *request)
{
    bool committing;
    request->rc = mend_writer(store, request->err);
    if (request->rc < 0)
        return;
    request->rc = run_once(store->writer_db, BERTH_WRITE, request->fn, request->ctx, &committing,
                           request->err);
    drop_broken(store);
    if (request->rc == BERTH_OK) {
        atomic_fetch_add(&store->commits, 1);
        atomic_fetch_add(&store->requests, 1);
    }
}

/* Runs all requests in one transaction, without savepoints. A request that fails before it has
 * written a row only returns its error. One that fails later rolls the batch back. Returns false
 * when the requests must run one by one. */
static bool run_together(struct berth_store *store, struct request *batch)
{
    struct berth_error err;
    int rc = mend_writer(store, &err);
    struct berth_db *db = store->writer_db;
    if (rc < 0 || db->ops->begin(db, BERTH_WRITE, &err) < 0) {
        for (struct request *r = batch; r; r = r->next) { /* one by one, each would wait again */
            r->rc = err.code;
            *r->err = err;
        }
        return true;
    }
    for (struct request *r = batch; r; r = r->next) {
        int64_t before = db->ops->written(db);
        r->rc = r->fn(db, r->ctx, r->err);
        int64_t after = db->ops->written(db);
        if (after < 0 || (r->rc < 0 && after != before)) {
            db->ops->rollback(db);
            drop_broken(store);
            return false;
        }
    }
    if (db->ops->commit(db, &err) < 0) {
        db->ops->rollback(db);
        drop_broken(store);
        return false;
    }
    atomic_fetch_add(&store->commits, 1);
    for (struct request *r = batch; r; r = r->next)
        atomic_fetch_add(&store->requests, r->rc == BERTH_OK);
    return true;
}

static void run_batch(struct berth_store *store, struct request *batch)
{
    if (batch->next && run_together(store, batch))
        return;
    if (batch->next)
        atomic_fetch_add(&store->retries, 1);
    for (struct request *r = batch; r; r = r->next)
        run_alone(store, r);
}

/* Removes at most BERTH_STORE_BATCH_MAX requests from the queue. Lock held. */
static struct request *take_batch(struct berth_store *store)
{
    struct request *batch = store->head, *last = batch;
    int count = 1;
    while (last->next && count < BERTH_STORE_BATCH_MAX) {
        last = last->next;
        count++;
    }
    store->head = last->next;
    if (!store->head)
        store->tail = &store->head;
    last->next = NULL;
    return batch;
}

static void *writer_main(void *ctx)
{
    struct berth_store *store = ctx;
    pthread_mutex_lock(&store->queue_lock);
    for (;;) {
        while ((!store->head || store->busy) && !store->stopping)
            pthread_cond_wait(&store->work, &store->queue_lock);
        if (!store->head)
            break;
        struct request *batch = take_batch(store);
        store->busy = true;
        pthread_mutex_unlock(&store->queue_lock);
        run_batch(store, batch);
        (void)sem_post(&batch->done); /* each request wakes the next */
        pthread_mutex_lock(&store->queue_lock);
        store->busy = false;
    }
    pthread_mutex_unlock(&store->queue_lock);
    return NULL;
}

/* Runs a request on the caller's thread while no other request waits, so that the writer thread
 * need not wake up. Lock held before and after. */
static void run_as_writer(struct berth_store *store, struct request *request)
{
    store->busy = true;
    pthread_mutex_unlock(&store->queue_lock);
    run_alone(store, request);
    pthread_mutex_lock(&store->queue_lock);
    store->busy = false;
    if (store->head)
        pthread_cond_signal(&store->work);
}

static int tx_by_writer(struct berth_store *store, berth_tx_fn *fn, void *ctx,
                        struct berth_error *err)
{
    struct request request = {.fn = fn, .ctx = ctx, .err = err};
    pthread_mutex_lock(&store->queue_lock);
    if (!store->busy && !store->head) {
        run_as_writer(store, &request);
        pthread_mutex_unlock(&store->queue_lock);
        return request.rc;
    }
    (void)sem_init(&request.done, 0, 0);
    *store->tail = &request;
    store->tail = &request.next;
    pthread_mutex_unlock(&store->queue_lock);
    while (sem_wait(&request.done) < 0 && errno == EINTR)
        ;
    if (request.next)
        (void)sem_post(&request.next->done);
    (void)sem_destroy(&request.done);
    return request.rc;
}

static int start_writer(struct berth_store *store, struct berth_error *err)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&store->writer, NULL, writer_main, store);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        errno = rc;
        return berth_fail_errno(err, "Cannot start the store's writer thread");
    }
    store->writer_runs = true;
    return BERTH_OK;
}

/* --- a pool of connections --- */

/* Gives a connection to the first waiter, or makes it idle. NULL: gives the right to open one. Lock
 * held. */
static void hand_on(struct berth_store *store, struct berth_db *db)
{
    struct waiter *w = store->first_waiter;
    if (!w) {
        if (db)
            store->idle[store->idle_count++] = db;
        else
            store->open_count--;
        return;
    }
    store->first_waiter = w->next;
    if (!w->next)
        store->last_waiter = &store->first_waiter;
    w->db = db;
    w->served = true;
    pthread_cond_signal(&w->wake);
}

static int fail_silent(const struct berth_store *store, struct berth_error *err)
{
    char since[BERTH_TIME_ISO_SIZE];
    berth_time_iso(store->silent_ms, since);
    return berth_fail(err, BERTH_E_UNAVAILABLE,
                      "The store has not answered since %s. Try again later.", since);
}

/* Waits for a connection, or for the right to open one. Lock held. */
static int checkout_wait(struct berth_store *store, struct berth_db **out, struct berth_error *err)
{
    struct waiter w = {0};
    struct timespec until = berth_time_until(BERTH_STORE_CHECKOUT_MS_MAX);
    int timed_out = 0;
    berth_time_cond_init(&w.wake);
    *store->last_waiter = &w;
    store->last_waiter = &w.next;
    while (!w.served && !timed_out)
        timed_out = pthread_cond_timedwait(&w.wake, &store->lock, &until);
    if (!w.served) {
        struct waiter **at = &store->first_waiter;
        while (*at != &w)
            at = &(*at)->next;
        *at = w.next;
        if (!w.next)
            store->last_waiter = at;
    }
    pthread_cond_destroy(&w.wake);
    *out = w.db;
    if (w.refused)
        return fail_silent(store, err);
    return w.served ? BERTH_OK
                    : berth_fail(err, BERTH_E_UNAVAILABLE,
                                 "No connection to the store became free for %d s. Try again "
                                 "later.",
                                 BERTH_STORE_CHECKOUT_MS_MAX / 1000);
}

/* Notes that the server answers, or that it does not: then those who wait are told at once. */
static void note_outcome(struct berth_store *store, bool answered, bool silent, bool tried,
                         const struct berth_error *err)
{
    pthread_mutex_lock(&store->lock);
    if (tried)
        store->trying = false;
    if (answered) {
        store->silent_ms = store->failed_ms = 0;
        store->trouble[0] = '\0';
    } else {
        (void)snprintf(store->trouble, sizeof store->trouble, "%.255s", err->message);
        store->failed_ms = store->failed_ms ? store->failed_ms : berth_time_wall_ms();
    }
    atomic_store(&store->troubled, !answered);
    if (silent && !store->silent_ms) {
        store->silent_ms = store->failed_ms;
        for (struct waiter *w = store->first_waiter; w; w = w->next) {
            w->served = w->refused = true;
            pthread_cond_signal(&w->wake);
        }
        store->first_waiter = NULL;
        store->last_waiter = &store->first_waiter;
    }
    pthread_mutex_unlock(&store->lock);
}

/* Takes an idle connection, opens one, or waits for the next that is returned. While the server
 * does not answer, one caller at a time tests it (*tests), and the others fail at once. */
static int checkout(struct berth_store *store, enum berth_access access, struct berth_db **out,
                    bool *tests, struct berth_error *err)
{
    int rc = BERTH_OK;
    *out = NULL;
    pthread_mutex_lock(&store->lock);
    *tests = store->silent_ms && !store->trying;
    if (store->open_count == store->idle_count)
        store->progress_ms = berth_time_mono_ms();
    if (store->silent_ms && store->trying)
        rc = fail_silent(store, err);
    else if (store->idle_count)
        *out = store->idle[--store->idle_count];
    else if (store->open_count < BERTH_STORE_POOL_DEFAULT)
        store->open_count++;
    else
        rc = checkout_wait(store, out, err);
    store->trying |= *tests && rc == BERTH_OK;
    pthread_mutex_unlock(&store->lock);
    if (rc < 0 || *out)
        return rc;
    rc = open_db(store, access, out, err);
    if (rc < 0) {
        note_outcome(store, false, err->os_errno == ETIMEDOUT, *tests, err);
        pthread_mutex_lock(&store->lock);
        hand_on(store, NULL);
        pthread_mutex_unlock(&store->lock);
    }
    return rc;
}

static void give_back(struct berth_store *store, struct berth_db *db)
{
    bool broken = db->broken;
    if (broken)
        db->ops->free(db);
    pthread_mutex_lock(&store->lock);
    hand_on(store, broken ? NULL : db);
    if (!broken)
        store->progress_ms = berth_time_mono_ms();
    pthread_mutex_unlock(&store->lock);
}

/* Closes the idle connections. The retry after a lost connection must not take a dead one. */
static void drop_idle(struct berth_store *store)
{
    pthread_mutex_lock(&store->lock);
    while (store->idle_count) {
        struct berth_db *db = store->idle[--store->idle_count];
        db->ops->free(db);
        store->open_count--;
    }
    pthread_mutex_unlock(&store->lock);
}

static void back_off(int tries)
{
    uint16_t jitter = 0; /* up to 1 ms after the first try, up to 64 ms after the sixth */
    (void)getrandom(&jitter, sizeof jitter, 0);
    struct timespec wait = {.tv_nsec = (INT64_C(16) << (tries < 6 ? tries : 6)) * jitter};
    (void)nanosleep(&wait, NULL);
}

static int tx_by_pool(struct berth_store *store, enum berth_access access, berth_tx_fn *fn,
                      void *ctx, struct berth_error *err)
{
    bool reconnected = false;
    for (int tries = 0;; tries++) {
        struct berth_db *db;
        bool committing, tests;
        int rc = checkout(store, access, &db, &tests, err);
        if (rc < 0)
            return rc;
        rc = run_once(db, access, fn, ctx, &committing, err);
        bool conflict = rc < 0 && db->conflict, silent = rc < 0 && db->silent;
        bool lost = rc < 0 && db->broken && !committing && !silent;
        if (rc < 0 && db->broken)
            note_outcome(store, false, silent, tests, err);
        else if (tests || atomic_load(&store->troubled))
            note_outcome(store, true, false, tests, NULL);
        give_back(store, db);
        if (silent)
            drop_idle(store);
        if (access == BERTH_WRITE && rc == BERTH_OK) {
            atomic_fetch_add(&store->commits, 1);
            atomic_fetch_add(&store->requests, 1);
        }
        if (lost && !reconnected) {
            reconnected = true; /* nothing was committed: retry on a new connection */
            drop_idle(store);
        } else if (!conflict || tries >= BERTH_STORE_RETRIES_MAX) {
            return rc;
        } else {
            back_off(tries);
        }
        atomic_fetch_add(&store->retries, 1);
    }
}

/* --- both --- */

int berth_store_tx(struct berth_store *store, berth_tx_fn *fn, void *ctx, struct berth_error *err)
{
    if (store->database->one_writer)
        return tx_by_writer(store, fn, ctx, err);
    return tx_by_pool(store, BERTH_WRITE, fn, ctx, err);
}

int berth_store_read(struct berth_store *store, berth_tx_fn *fn, void *ctx, struct berth_error *err)
{
    return tx_by_pool(store, BERTH_READ, fn, ctx, err);
}

const char *berth_store_scheme(const struct berth_store *store)
{
    return store->database->scheme;
}

const char *berth_store_where(const struct berth_store *store)
{
    return store->where;
}

bool berth_store_shared(const struct berth_store *store)
{
    return !store->database->one_writer;
}

struct berth_store_health berth_store_health(struct berth_store *store)
{
    struct berth_store_health health = {.answers = true};
    pthread_mutex_lock(&store->lock);
    int64_t waited_ms = berth_time_mono_ms() - store->progress_ms;
    if (store->failed_ms) {
        health.answers = false;
        health.since_ms = store->failed_ms;
        (void)snprintf(health.trouble, sizeof health.trouble, "%s", store->trouble);
    } else if (store->open_count > store->idle_count && waited_ms > BERTH_STORE_SILENT_MS) {
        health.answers = false;
        health.since_ms = berth_time_wall_ms() - waited_ms;
        (void)snprintf(health.trouble, sizeof health.trouble, "The store does not answer.");
    }
    pthread_mutex_unlock(&store->lock);
    return health;
}

struct berth_store_stats berth_store_stats(struct berth_store *store)
{
    return (struct berth_store_stats){.commits = atomic_load(&store->commits),
                                      .requests = atomic_load(&store->requests),
                                      .retries = atomic_load(&store->retries)};
}

static int find_database(const struct berth_database *const *databases, const char *address,
                         const struct berth_database **out, struct berth_error *err)
{
    const char *colon = strchr(address, ':');
    size_t len = colon ? (size_t)(colon - address) : 0;
    for (; *databases; databases++) {
        const char *scheme = (*databases)->scheme;
        if (len == strlen(scheme) && strncmp(address, scheme, len) == 0 && colon[1]) {
            *out = *databases;
            return BERTH_OK;
        }
    }
    return berth_fail(err, BERTH_E_INVALID,
                      "No store at this address: write sqlite:PATH or postgres://user@host/db.");
}

int berth_store_check(const struct berth_database *const *databases, const char *address,
                      struct berth_error *err)
{
    const struct berth_database *database = NULL;
    int rc = find_database(databases, address, &database, err);
    if (rc == BERTH_OK && database->check)
        rc = database->check(strchr(address, ':') + 1, err);
    return rc;
}

static int store_start(struct berth_store *store, struct berth_error *err)
{
    char *canonical = NULL;
    int rc = store->database->prepare(store->where, &canonical, err);
    if (rc == BERTH_OK) {
        free(store->where);
        store->where = canonical;
    }
    if (rc == BERTH_OK)
        rc = open_db(store, BERTH_WRITE, &store->writer_db, err);
    if (rc == BERTH_OK)
        rc = berth_store_migrate(store->writer_db, err);
    if (rc < 0)
        return rc;
    if (store->database->one_writer)
        return start_writer(store, err);
    store->idle[store->idle_count++] = take_ptr(store->writer_db);
    store->open_count++;
    return BERTH_OK;
}

int berth_store_open(const struct berth_database *const *databases, const char *address,
                     struct berth_store **out, struct berth_error *err)
{
    const struct berth_database *database = NULL;
    int rc = find_database(databases, address, &database, err);
    if (rc < 0)
        return rc;
    struct berth_store *store = calloc(1, sizeof *store);
    if (!store)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: store.");
    store->database = database;
    pthread_mutex_init(&store->lock, NULL);
    pthread_mutex_init(&store->queue_lock, NULL);
    store->last_waiter = &store->first_waiter;
    pthread_cond_init(&store->work, NULL);
    store->tail = &store->head;
    store->where = strdup(strchr(address, ':') + 1);
    rc = store->where ? store_start(store, err)
                      : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: store.");
    if (rc < 0) {
        berth_store_close(store);
        return rc;
    }
    *out = store;
    return BERTH_OK;
}

void berth_store_close(struct berth_store *store)
{
    if (!store)
        return;
    if (store->writer_runs) {
        pthread_mutex_lock(&store->queue_lock);
        store->stopping = true;
        pthread_cond_signal(&store->work);
        pthread_mutex_unlock(&store->queue_lock);
        pthread_join(store->writer, NULL);
    }
    if (store->writer_db)
        store->writer_db->ops->free(store->writer_db);
    drop_idle(store);
    pthread_mutex_destroy(&store->lock);
    pthread_mutex_destroy(&store->queue_lock);
    pthread_cond_destroy(&store->work);
    free(store->where);
    free(store);
}
