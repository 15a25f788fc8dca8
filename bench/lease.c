/* SPDX-License-Identifier: Apache-2.0
 * bench/lease.c - what a lease costs, beside what a bare durable commit costs on the same disk.
 * Prints figures and never fails on one; README.md says how to read them. */
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/auto.h"
#include "core/lease/lease.h"
#include "floor.h"
#include "ground.h"
#include "samples.h"
#include "store/store.h"

#define CLIENTS_MAX 64
#define HISTORIES 3
#define ROUNDS 10 /* of bare commits and cycles in turn, so that noise meets both alike */
#define MS INT64_C(1000000)

static const char *const store_names[] = {[ON_SQLITE] = "SQLite", [ON_POSTGRES] = "PostgreSQL"};
static const char *const driver_names[] = {
    [BERTH_DRIVER_LOCAL] = "local", [BERTH_DRIVER_SANDBOX] = "inventory"};

struct bench {
    const char *under;  /* where directories are made */
    const char *only;   /* of the cells, those whose name starts with this; NULL: all */
    const char *server; /* PostgreSQL, or NULL */
    char directory[256];
    int64_t floor_ns, warm_ns, cell_ns;
    int history_rounds;
    struct floor *floors[2];
};

/* --- clients --- */

enum phase {
    WARMING,
    MEASURING,
    OVER,
};

/* Several threads that share one runtime. */
struct crowd {
    const struct ground *ground;
    _Atomic int phase;      /* of enum phase */
    _Atomic long remaining; /* cycles to go */
};

struct client {
    struct crowd *crowd;
    pthread_t thread;
    struct samples cycles;
    int rc;
    struct berth_error err;
};

/* *acquired_ns is when the acquire was answered. */
static int cycle(const struct ground *g, int64_t *acquired_ns, struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = g->environment->id;
    struct berth_lease *lease;
    int rc = berth_lease_acquire(g->b, &arena, &request, &lease, err);
    *acquired_ns = now_ns();
    if (rc < 0)
        return rc;
    struct berth_release_request release = {.lease_id = lease->id, .status = BERTH_LEASE_RELEASED};
    return berth_lease_release(g->b, &arena, &release, &lease, err);
}

static void *client_main(void *ctx)
{
    struct client *c = ctx;
    struct crowd *crowd = c->crowd;
    while (c->rc == BERTH_OK && atomic_load(&crowd->phase) != OVER &&
           atomic_fetch_sub(&crowd->remaining, 1) > 0) {
        int64_t acquired, before = now_ns();
        c->rc = cycle(crowd->ground, &acquired, &c->err);
        if (c->rc == BERTH_OK && atomic_load(&crowd->phase) == MEASURING)
            c->rc = samples_add(&c->cycles, now_ns() - before, &c->err);
    }
    return NULL;
}

struct figures {
    struct samples cycles;
    int64_t ns, commits, requests;
};

static void measure_round(const struct bench *bench, const struct ground *g, struct crowd *crowd,
                          struct figures *out)
{
    sleep_ns(bench->warm_ns / ROUNDS);
    int64_t start = now_ns();
    struct berth_store_stats before = berth_store_stats(g->b->store);
    atomic_store(&crowd->phase, MEASURING);
    sleep_ns(bench->cell_ns / ROUNDS);
    atomic_store(&crowd->phase, OVER);
    out->ns += now_ns() - start;
    struct berth_store_stats after = berth_store_stats(g->b->store);
    out->commits += after.commits - before.commits;
    out->requests += after.requests - before.requests;
}

/* The clients run until the round is over, or until `count` cycles are done when there is one. */
static int run_crowd(const struct bench *bench, const struct ground *g, int count, int clients,
                     struct figures *out, struct berth_error *err)
{
    static struct client all[CLIENTS_MAX];
    struct crowd crowd = {.ground = g};
    atomic_store(&crowd.remaining, count ? count : (long)INT64_MAX);
    int started = 0;
    int rc = BERTH_OK;
    memset(all, 0, sizeof all);
    for (; started < clients && rc == BERTH_OK; started++) {
        all[started].crowd = &crowd;
        if (pthread_create(&all[started].thread, NULL, client_main, &all[started]) != 0)
            rc = berth_fail(err, BERTH_E_UNAVAILABLE, "Cannot start client %d.", started + 1);
    }
    if (rc < 0)
        started--;
    else if (!count)
        measure_round(bench, g, &crowd, out);
    if (rc < 0)
        atomic_store(&crowd.phase, OVER);
    for (int i = 0; i < started; i++) {
        (void)pthread_join(all[i].thread, NULL);
        if (rc == BERTH_OK && all[i].rc < 0) {
            rc = all[i].rc;
            *err = all[i].err;
        }
        if (rc == BERTH_OK && out)
            rc = samples_add_all(&out->cycles, &all[i].cycles, err);
        samples_clear(&all[i].cycles);
    }
    return rc;
}

/* --- cycles --- */

static const char *met(bool yes)
{
    return yes ? "met" : "missed";
}

static void print_aim(enum ground_store store, enum berth_environment_driver driver, int clients,
                      double per_second, double ratio)
{
    if (store == ON_SQLITE && driver == BERTH_DRIVER_LOCAL && clients == 1)
        printf("p50 <= 3.5 commits: %s", met(ratio <= 3.5));
    else if (store == ON_SQLITE && driver == BERTH_DRIVER_LOCAL && clients == 64)
        printf(">= 20,000 cycles/s: %s", met(per_second >= 20000));
}

/* "sqlite/local" is three cells, "sqlite/local/1" one of them. */
static bool chosen(const char *only, const char *name)
{
    size_t len = strlen(only);
    return strncasecmp(name, only, len) == 0 && (name[len] == '/' || name[len] == '\0');
}

static int measure_cell(struct bench *bench, enum ground_store store,
                        enum berth_environment_driver driver, int clients, struct berth_error *err)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s/%s/%d", store_names[store], driver_names[driver],
                   clients);
    if (bench->only && !chosen(bench->only, name))
        return BERTH_OK;
    struct ground ground;
    struct figures f = {0};
    auto_samples commits_bare = {0};
    int rc = ground_open(&ground, store, bench->directory, bench->server, driver, err);
    for (int round = 0; rc == BERTH_OK && round < ROUNDS; round++) {
        rc = floor_run(bench->floors[store], bench->floor_ns / ROUNDS, &commits_bare, err);
        if (rc == BERTH_OK)
            rc = run_crowd(bench, &ground, 0, clients, &f, err);
    }
    ground_close(&ground);
    if (rc == BERTH_OK) {
        double commit_us = samples_us(&commits_bare, 50);
        double p50 = samples_us(&f.cycles, 50), p99 = samples_us(&f.cycles, 99);
        double per_second = (double)f.cycles.count * 1e9 / (double)f.ns;
        printf("| %-10s | %-9s | %7d | %8.0f | %8.0f | %8.0f | %9.0f | %6.2fx | %9.1f | ",
               store_names[store], driver_names[driver], clients, per_second, p50, p99, commit_us,
               p50 / commit_us, f.commits ? (double)f.requests / (double)f.commits : 0);
        print_aim(store, driver, clients, per_second, p50 / commit_us);
        printf(" |\n");
        (void)fflush(stdout);
    }
    samples_clear(&f.cycles);
    return rc;
}

static int measure_cycles(struct bench *bench, struct berth_error *err)
{
    static const enum berth_environment_driver drivers[] = {BERTH_DRIVER_LOCAL,
                                                            BERTH_DRIVER_SANDBOX};
    static const int clients[] = {1, 16, 64};
    printf("\nacquire + release (us)\n\n"
           "| store      | driver    | clients | cycles/s |      p50 |      p99 | a commit "
           " |   ratio | tx/commit | aim |\n"
           "| ---------- | --------- | ------: | -------: | -------: | -------: | --------: "
           "| ------: | --------: | --- |\n");
    int rc = BERTH_OK;
    for (int s = ON_SQLITE; s <= ON_POSTGRES; s++)
        for (int d = 0; d < 2; d++)
            for (int c = 0; c < 3; c++)
                if (rc == BERTH_OK && bench->floors[s])
                    rc = measure_cell(bench, (enum ground_store)s, drivers[d], clients[c], err);
    return rc;
}

/* --- history --- */

struct history {
    int past; /* leases released before the first sample */
    struct ground ground;
    struct samples acquires;
};

static int make_history(const struct bench *bench, struct history *h, enum ground_store store,
                        struct berth_error *err)
{
    int rc =
        ground_open(&h->ground, store, bench->directory, bench->server, BERTH_DRIVER_LOCAL, err);
    return rc < 0 ? rc : run_crowd(bench, &h->ground, h->past, CLIENTS_MAX, NULL, err);
}

/* One cycle in each in turn, so that what else the machine does meets all of them alike. */
static int compare_histories(const struct bench *bench, struct history *all,
                             struct berth_error *err)
{
    int rc = BERTH_OK;
    for (int round = 0; rc == BERTH_OK && round < bench->history_rounds; round++)
        for (int i = 0; rc == BERTH_OK && i < HISTORIES; i++) {
            int64_t acquired, before = now_ns();
            rc = cycle(&all[i].ground, &acquired, err);
            if (rc == BERTH_OK)
                rc = samples_add(&all[i].acquires, acquired - before, err);
        }
    return rc;
}

static int measure_history(struct bench *bench, enum ground_store store, struct berth_error *err)
{
    struct history all[HISTORIES] = {{.past = 1}, {.past = 1000}, {.past = 10000}};
    int rc = BERTH_OK;
    for (int i = 0; rc == BERTH_OK && i < HISTORIES; i++)
        rc = make_history(bench, &all[i], store, err);
    if (rc == BERTH_OK)
        rc = compare_histories(bench, all, err);
    double first = samples_us(&all[0].acquires, 50);
    for (int i = 0; i < HISTORIES; i++) {
        double p50 = samples_us(&all[i].acquires, 50);
        if (rc == BERTH_OK)
            printf("| %-10s | %11d | %11.0f | %6.2fx | %s |\n", store_names[store], all[i].past,
                   p50, p50 / first, i ? (p50 <= first * 1.1 ? "flat: met" : "flat: missed") : "");
        ground_close(&all[i].ground);
        samples_clear(&all[i].acquires);
    }
    (void)fflush(stdout);
    return rc;
}

static int measure_histories(struct bench *bench, struct berth_error *err)
{
    printf("\nacquire with a past, local, 1 client (us)\n\n"
           "| store      | past leases | acquire p50 |   ratio | aim |\n"
           "| ---------- | ----------: | ----------: | ------: | --- |\n");
    int rc = BERTH_OK;
    for (int s = ON_SQLITE; rc == BERTH_OK && s <= ON_POSTGRES; s++)
        if (bench->floors[s])
            rc = measure_history(bench, (enum ground_store)s, err);
    return rc;
}

/* --- the whole --- */

static void print_floors(struct bench *bench)
{
    printf("\none bare durable commit, one connection (us), in slices between the rounds of the "
           "cells\n\n"
           "| store      | commits/s |      p50 |      p99 |\n"
           "| ---------- | --------: | -------: | -------: |\n");
    for (int s = ON_SQLITE; s <= ON_POSTGRES; s++)
        if (bench->floors[s])
            printf("| %-10s | %9.0f | %8.0f | %8.0f |\n", store_names[s],
                   floor_per_second(bench->floors[s]),
                   samples_us(floor_samples(bench->floors[s]), 50),
                   samples_us(floor_samples(bench->floors[s]), 99));
}

static void print_head(const struct bench *bench)
{
    struct utsname u;
    (void)uname(&u);
    printf("berth %s, %s %s, %ld cores, in %s\n%s", BERTH_VERSION, u.sysname, u.release,
           sysconf(_SC_NPROCESSORS_ONLN), bench->under, floor_version(bench->floors[ON_SQLITE]));
    if (bench->floors[ON_POSTGRES])
        printf(", %s\n", floor_version(bench->floors[ON_POSTGRES]));
    else
        printf("; PostgreSQL is left out: BERTH_TEST_POSTGRES is not set (tests/with-postgres)\n");
}

static int open_floors(struct bench *bench, struct berth_error *err)
{
    int rc = make_directory(bench->under, bench->directory, sizeof bench->directory, err);
    if (rc == BERTH_OK)
        rc = floor_open_sqlite(bench->directory, &bench->floors[ON_SQLITE], err);
    if (rc == BERTH_OK && bench->server)
        rc = floor_open_postgres(bench->server, &bench->floors[ON_POSTGRES], err);
    auto_samples ignored = {0}; /* the first slice finds cold files */
    for (int s = ON_SQLITE; rc == BERTH_OK && s <= ON_POSTGRES; s++)
        if (bench->floors[s])
            rc = floor_run(bench->floors[s], bench->floor_ns, &ignored, err);
    return rc;
}

static int run(struct bench *bench, struct berth_error *err)
{
    int rc = open_floors(bench, err);
    if (rc < 0)
        return rc;
    print_head(bench);
    rc = measure_cycles(bench, err);
    if (rc == BERTH_OK && (!bench->only || strcmp(bench->only, "history") == 0))
        rc = measure_histories(bench, err);
    if (rc == BERTH_OK)
        print_floors(bench);
    return rc;
}

static int usage(void)
{
    (void)fprintf(stderr,
                  "usage: bench-lease [--quick] [--dir DIRECTORY] [--seconds PER_CELL]\n"
                  "                   [--only TEXT]   cells such as sqlite/local/64, or history\n");
    return 2;
}

int main(int argc, char **argv)
{
    berth_builtins.tune_process(); /* as the programs do */
    static const struct option options[] = {{"quick", no_argument, NULL, 'q'},
                                            {"dir", required_argument, NULL, 'd'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {"only", required_argument, NULL, 'o'},
                                            {0}};
    const char *tmp = getenv("TMPDIR"), *server = getenv("BERTH_TEST_POSTGRES");
    struct bench bench = {.under = tmp && *tmp ? tmp : "/tmp",
                          .server = server && *server ? server : NULL,
                          .floor_ns = 500 * MS,
                          .warm_ns = 300 * MS,
                          .cell_ns = 2500 * MS,
                          .history_rounds = 500};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'q') {
            bench.floor_ns = 100 * MS;
            bench.warm_ns = 100 * MS;
            bench.cell_ns = 300 * MS;
            bench.history_rounds = 100;
        } else if (option == 'd') {
            bench.under = optarg;
        } else if (option == 's' && atof(optarg) > 0) {
            bench.cell_ns = (int64_t)(atof(optarg) * 1e9);
        } else if (option == 'o') {
            bench.only = optarg;
        } else {
            return usage();
        }
    }
    if (optind < argc)
        return usage();
    struct berth_error err = {0};
    int rc = run(&bench, &err);
    if (rc < 0)
        (void)fprintf(stderr, "bench-lease: %s [%s]\n", err.message, err.where);
    floor_close(bench.floors[ON_SQLITE]);
    floor_close(bench.floors[ON_POSTGRES]);
    remove_directory(bench.directory);
    return rc < 0 ? 1 : 0;
}
