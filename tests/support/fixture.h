/* SPDX-License-Identifier: Apache-2.0
 * tests/support/fixture.h - a runtime on an empty store of either kind, with the drivers that tests
 * need. Also brings cmocka in, with the headers it wants. */
#ifndef BERTH_TESTS_FIXTURE_H
#define BERTH_TESTS_FIXTURE_H

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "core/berth.h"
#include "core/environment/environment.h"
#include "core/lease/lease.h"
#include "core/run/run.h"
#include "core/sweep/sweep.h"

enum fixture_store {
    ON_SQLITE,
    ON_POSTGRES,
};

struct fixture {
    enum fixture_store kind;
    char directory[128];    /* temporary; gone with the fixture */
    char inventory[160];    /* where the inventory's places are */
    char store[512];        /* address */
    struct scripted *world; /* behind the providers `scripted` and `blind`; fake/scripted.h */
    struct berth *b;
    struct berth_arena arena;
    struct berth_error err;
};

/* cmocka set-up and tear-down; which store is the test's initial state:
 *   cmocka_unit_test_prestate_setup_teardown(test, fixture_setup, fixture_teardown, &on_sqlite) */
extern enum fixture_store on_sqlite, on_postgres;
int fixture_setup(void **state);
int fixture_teardown(void **state);

/* A fresh store without a runtime; for tests that open their own. */
void fixture_make(struct fixture *f, enum fixture_store kind);
void fixture_open(struct fixture *f);
/* The same with other drivers, which are taken over. */
void fixture_open_with(struct fixture *f, struct berth_registry *registry);
void fixture_close(struct fixture *f); /* only the runtime */
void fixture_destroy(struct fixture *f);
/* The drivers of a fixture: built-in ones, the inventory, and a scripted provider: as `scripted`,
 * and as `blind` without its find. The caller's. */
struct berth_registry *fixture_registry(const struct fixture *f);

/* Both stores, the number of the seed in the name: TEST_ON_BOTH(R3_local_lease). */
#define TEST_ON_SQLITE(test)                                                                       \
    {                                                                                              \
#test " (sqlite)", test, fixture_setup, fixture_teardown, &on_sqlite                       \
    }
#define TEST_ON_POSTGRES(test)                                                                     \
    {                                                                                              \
#test " (postgres)", test, fixture_setup, fixture_teardown, &on_postgres                   \
    }
#define TEST_ON_BOTH(test) TEST_ON_SQLITE(test), TEST_ON_POSTGRES(test)

/* The arguments of a command that is a script. */
#define SH(script) ((const char *const[]){"sh", "-c", script, NULL})
/* Waits until the condition holds. Fails the test when it does not. */
#define WAIT_FOR(condition)                                                                        \
    do {                                                                                           \
        for (int i_ = 0; !(condition); i_++) {                                                     \
            if (i_ == 12000)                                                                       \
                fail_msg("waited in vain for %s", #condition);                                     \
            pause_ms(10);                                                                          \
        }                                                                                          \
    } while (0)

/* Each fails the test with the error's text. */
#define assert_ok(f, call) assert_ok_at((call), &(f)->err, #call, __FILE__, __LINE__)
void assert_ok_at(int rc, const struct berth_error *err, const char *what, const char *file,
                  int line);
#define assert_fails(f, code, text, call)                                                          \
    assert_fails_at((call), (code), (text), &(f)->err, #call, __FILE__, __LINE__)
void assert_fails_at(int rc, int code, const char *text, const struct berth_error *err,
                     const char *what, const char *file, int line);

struct berth_json *parse_json(const char *text); /* the caller's; fails the test */
/* Text at a path such as "config.image"; NULL for null or absent. Lives in the fixture. */
const char *json_text(struct fixture *f, const char *json, const char *path);
bool json_has(const char *json, const char *key);

/* Shortcuts that fail the test. */
struct berth_environment *make_environment(struct fixture *f, enum berth_environment_driver driver,
                                           const char *config);
struct berth_run *make_run(struct fixture *f);
struct berth_lease *take_lease(struct fixture *f, const struct berth_environment *e,
                               const struct berth_run *run);
struct berth_lease *give_lease(struct fixture *f, const struct berth_lease *lease,
                               enum berth_lease_status status);
struct berth_lease *look_at_lease(struct fixture *f, const struct berth_lease *lease);
/* The newest row of the environment: what a failed acquire left, for one. */
struct berth_lease *newest_lease(struct fixture *f, const struct berth_environment *e);
int try_lease(struct fixture *f, const struct berth_environment *e, const struct berth_run *run);
struct berth_sweep_report sweep(struct fixture *f);
void move_clock(int64_t ms);                                       /* forward, both clocks */
void pause_ms(int ms);                                             /* of real time */
int count_rows(struct fixture *f, const char *sql);                /* of a SELECT count(*) */
void run_sql(struct fixture *f, const char *sql, const char *arg); /* behind the ledger's back */
/* The newest activity of that name about the entity, or NULL; and how many there are. */
const struct berth_activity *last_activity(struct fixture *f, const char *entity_id,
                                           const char *action);
int count_activity(struct fixture *f, const char *entity_id, const char *action);
void assert_row(struct fixture *f, const struct berth_lease *lease, enum berth_lease_status status,
                enum berth_lease_place place, enum berth_lease_cleanup cleanup);
/* Closed and done with, too: no sweep looks at it any more. */
void assert_done(struct fixture *f, const struct berth_lease *lease, enum berth_lease_status status,
                 enum berth_lease_place place, enum berth_lease_cleanup cleanup);
/* Waits, for a minute at most, until no sweep has to look at the lease any more. */
void await_lease_done(struct fixture *f, const struct berth_lease *lease);
/* Every place of the scripted world is answered for by a row that a sweep selects: by its id, or,
 * where that never became known, by its label. */
void check_world(struct fixture *f);
/* The ledger's own invariant, and its agreement with the inventory: every file there is answered
 * for by a standing row, and every standing row with a live or parked place has its file. */
void check_invariants(struct fixture *f);
/* The same as an answer: what is wrong, or NULL. */
const char *broken_invariant(struct fixture *f);
#endif
