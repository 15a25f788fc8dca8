/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/query_plans.c - the store's statements find their rows by an index. Each function of
 * store/ is called on SQLite, its statements are recorded, and SQLite's plan of each is judged.
 * Then each index is dropped in turn, and the judgement must notice. */
#include "fixture.h"

#include <ctype.h>
#include <glob.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/buf.h"
#include "store/activity.h"
#include "store/company.h"
#include "store/db.h"
#include "store/environment.h"
#include "store/exec.h"
#include "store/lease.h"
#include "store/migrate.h"
#include "store/node.h"
#include "store/plugin.h"
#include "store/prefix.h"
#include "store/request.h"
#include "store/run.h"
#include "store/secret.h"
#include "store/sqlite.h"
#include "store/token.h"

#define STATEMENTS_MAX 200
#define INDEXES_MAX 40
#define TEXT_BYTES_MAX (64 * 1024)

/* What is expected of a statement, beside the name of an index that it must use. */
#define ANY_KEY NULL  /* no full scan of a table that grows */
#define PAGE "page"   /* reads in the order of the primary key, up to its limit */
#define WHOLE "whole" /* reads all rows, on purpose: not part of serving or sweeping */

struct statement {
    const char *sql;
    const char *expected;
    const char *call; /* the C text of the call that ran it */
};

struct ground {
    struct fixture f;
    struct berth_db *db;
    struct berth_db_ops ops;         /* SQLite's, with a `run` that records */
    const struct berth_db_ops *real; /* SQLite's */
    struct berth_arena arena;
    const char *expected, *call; /* of what is called now; call NULL: nothing is recorded */
    struct statement statements[STATEMENTS_MAX];
    int count;
    int pass; /* how many times the plans were judged */
};

static struct ground *recorder; /* berth_db_ops have no context of their own */

static int record(struct berth_db *db, const char *sql, const struct berth_value *args, int nargs,
                  berth_row_fn *on_row, void *ctx, struct berth_error *err)
{
    struct ground *g = recorder;
    if (g->call) {
        assert_true(g->count < STATEMENTS_MAX);
        g->statements[g->count++] =
            (struct statement){.sql = sql, .expected = g->expected, .call = g->call};
    }
    return g->real->run(db, sql, args, nargs, on_row, ctx, err);
}

static int set_up(void **state)
{
    struct ground *g = calloc(1, sizeof *g);
    auto_free char *path = NULL;
    fixture_make(&g->f, ON_SQLITE);
    assert_ok(&g->f, berth_database_sqlite.prepare(strchr(g->f.store, ':') + 1, &path, &g->f.err));
    assert_ok(&g->f, berth_database_sqlite.open(path, BERTH_WRITE, &g->db, &g->f.err));
    assert_ok(&g->f, berth_store_migrate(g->db, &g->f.err));
    g->real = g->db->ops;
    g->ops = *g->real;
    g->ops.run = record;
    g->db->ops = &g->ops;
    recorder = g;
    *state = g;
    return 0;
}

static int tear_down(void **state)
{
    struct ground *g = *state;
    g->real->free(g->db);
    berth_arena_clear(&g->arena);
    fixture_destroy(&g->f);
    free(g);
    return 0;
}

/* --- every function of store/ --- */

#define RUN(expectation, function, ...)                                                            \
    do {                                                                                           \
        g->expected = (expectation);                                                               \
        g->call = #function "(" #__VA_ARGS__ ")";                                                  \
        assert_ok(&g->f, function(g->db, __VA_ARGS__, &g->f.err));                                 \
        g->call = NULL;                                                                            \
    } while (0)
/* The same for a function without arguments. */
#define RUN_BARE(expectation, function)                                                            \
    do {                                                                                           \
        g->expected = (expectation);                                                               \
        g->call = #function "()";                                                                  \
        assert_ok(&g->f, function(g->db, &g->f.err));                                              \
        g->call = NULL;                                                                            \
    } while (0)

static void run_companies(struct ground *g)
{
    struct berth_company company = {.id = "c", .name = "company"}, *found;
    struct berth_list list;
    RUN(ANY_KEY, berth_company_insert, &company);
    RUN(ANY_KEY, berth_company_by_name, &g->arena, "company", &found);
    RUN(ANY_KEY, berth_company_by_id, &g->arena, "c", &found);
    RUN(ANY_KEY, berth_company_select, &g->arena, NULL, &list);
}

static void run_environments(struct ground *g)
{
    struct berth_environment e = {.id = "e",
                                  .company_id = "c",
                                  .name = "environment",
                                  .driver = BERTH_DRIVER_SSH,
                                  .config_json = "{}",
                                  .fingerprint = "f",
                                  .created_at_ms = 1},
                             *found;
    struct berth_environment_filter filter = BERTH_ENVIRONMENT_FILTER_INIT;
    struct berth_list list;
    RUN(ANY_KEY, berth_environment_insert, &e);
    for (int lock = BERTH_LOCK_NONE; lock <= BERTH_LOCK_UPDATE; lock++)
        RUN(ANY_KEY, berth_environment_load, &g->arena, "e", (enum berth_row_lock)lock, &found);
    RUN(ANY_KEY, berth_environment_take_turns, "e");
    RUN(ANY_KEY, berth_environment_select, &g->arena, &filter, &list);
    filter.company_id = "c";
    RUN("environments_by_change", berth_environment_select, &g->arena, &filter, &list);
    filter.limit = 10;
    filter.before = "e";
    RUN("environments_by_change", berth_environment_select, &g->arena, &filter, &list);
    filter.name = "environment";
    RUN("environments_by_name", berth_environment_select, &g->arena, &filter, &list);
    RUN("leases_standing", berth_environment_select_drained, &g->arena, &list);
    RUN(ANY_KEY, berth_environment_save, &e);
    RUN(ANY_KEY, berth_environment_remove, "nothing");
}

static void run_runs(struct ground *g)
{
    struct berth_run run = {.id = "r", .company_id = "c", .owner = "n"}, *found;
    struct berth_run_filter filter = BERTH_RUN_FILTER_INIT;
    struct berth_list list;
    bool won;
    filter.company_id = "c";
    RUN(ANY_KEY, berth_run_insert, &run);
    RUN("runs_id", berth_run_load, &g->arena, "r", &found);
    RUN("runs_performed", berth_run_select_performed, &g->arena, &list);
    RUN("runs_by_age", berth_run_select, &g->arena, &filter, &list);
    RUN("runs_id", berth_run_save, &run, &won);
}

static void select_leases(struct ground *g)
{
    struct berth_lease_filter filter = BERTH_LEASE_FILTER_INIT;
    struct berth_list list;
    RUN("leases_by_company", berth_lease_select, &g->arena, &filter, &list);
    filter.company_id = "c";
    RUN("leases_by_company", berth_lease_select, &g->arena, &filter, &list);
    filter.before = "l";
    RUN("leases_by_company", berth_lease_select, &g->arena, &filter, &list);
    filter.status = BERTH_LEASE_FAILED;
    RUN("leases_by_company", berth_lease_select, &g->arena, &filter, &list);
    filter.status = BERTH_LEASE_ACTIVE;
    RUN("leases_standing", berth_lease_select, &g->arena, &filter, &list);
    filter.standing_only = true;
    RUN("leases_standing", berth_lease_select, &g->arena, &filter, &list);
    filter.environment_id = "e";
    RUN("leases_standing", berth_lease_select, &g->arena, &filter, &list);
    filter.standing_only = false;
    filter.status = -1;
    RUN("leases_by_company", berth_lease_select, &g->arena, &filter, &list);
    filter.company_id = NULL;
    filter.standing_only = true;
    RUN("leases_standing", berth_lease_select, &g->arena, &filter, &list);
    filter.standing_only = false;
    RUN("leases_by_use", berth_lease_select, &g->arena, &filter, &list);
    filter.run_id = "r";
    RUN("leases_by_run", berth_lease_select, &g->arena, &filter, &list);
}

static void run_leases(struct ground *g)
{
    struct berth_lease lease = {.id = "l",
                                .company_id = "c",
                                .environment_id = "e",
                                .driver = "ssh",
                                .due_at_ms = 1},
                       *found;
    struct berth_list list;
    int64_t count;
    bool yes;
    RUN(ANY_KEY, berth_lease_insert, &lease);
    RUN("leases_id", berth_lease_load, &g->arena, "l", &found);
    RUN("leases_id", berth_lease_load_locked, &g->arena, "l", &found);
    assert_int_equal(g->real->begin(g->db, BERTH_WRITE, &g->f.err), BERTH_OK);
    RUN("leases_id", berth_lease_save, &lease, &yes);
    assert_int_equal(g->real->commit(g->db, &g->f.err), BERTH_OK);
    RUN("leases_id", berth_lease_touch, "l", 2);
    select_leases(g);
    RUN("leases_standing", berth_lease_select_parked, &g->arena, "e", "f", &list);
    RUN("leases_standing", berth_lease_count_standing, "e", &count);
    RUN("leases_standing", berth_lease_count_of_provider, "sandbox", "fake", &count);
    RUN("leases_standing", berth_lease_tally, &g->arena, &list);
    RUN("leases_standing", berth_lease_count_owed, &count);
    RUN("leases_standing", berth_lease_count_owed_of, "e", &count);
    RUN("leases_place", berth_lease_place_holder, "e", "place", "other", &yes);
    RUN("leases_standing", berth_lease_select_standing, &g->arena, &list);
}

static void run_execs(struct ground *g)
{
    struct berth_exec_record exec = {.id = "x",
                                     .company_id = "c",
                                     .environment_id = "e",
                                     .lease_id = "l",
                                     .run_id = "r",
                                     .command = "true"},
                             *found;
    struct berth_list list;
    int64_t count;
    RUN(ANY_KEY, berth_exec_put, &exec);
    RUN(ANY_KEY, berth_exec_load, &g->arena, "x", &found);
    RUN("execs_by_run", berth_exec_select, &g->arena, "r", NULL, 10, &list);
    RUN("execs_by_run", berth_exec_load_next, &g->arena, "r", "", &found);
    RUN("execs_open", berth_exec_select_open, &g->arena, &list);
    RUN("execs_open", berth_exec_select_overdue, &g->arena, 1, &list);
    RUN("execs_open", berth_exec_count_open, "l1", "n1", &count);
    RUN(ANY_KEY, berth_exec_set_lost, "x", 2);
}

static void run_secrets(struct ground *g)
{
    struct berth_secret secret = {.id = "s", .company_id = "c", .key = "k", .name = "n"}, *found;
    struct berth_list list;
    int64_t count;
    RUN(ANY_KEY, berth_secret_insert, &secret);
    for (int lock = BERTH_LOCK_NONE; lock <= BERTH_LOCK_UPDATE; lock++)
        RUN("secret_bindings_by_secret", berth_secret_load, &g->arena, "s",
            (enum berth_row_lock)lock, &found);
    RUN("secret_bindings_by_secret", berth_secret_count_bindings, "s", &count);
    RUN("secret_bindings_by_secret", berth_secret_find, &g->arena, "c", "n", NULL, &found);
    RUN("secret_bindings_by_secret", berth_secret_find, &g->arena, "c", NULL, "k", &found);
    RUN("secret_bindings_by_secret", berth_secret_select, &g->arena, "c", NULL, &list);
    RUN("secrets_made_by", berth_secret_select_made_by, &g->arena, "e", &list);
    RUN(ANY_KEY, berth_secret_save, &secret);
    RUN(ANY_KEY, berth_secret_touch, "s", 2);
    RUN("leases_standing", berth_secret_count_captures, "c", "s", &count);
    RUN(ANY_KEY, berth_secret_remove, "nothing");
}

static void run_versions(struct ground *g)
{
    struct berth_secret_version version = {
        .secret_id = "s", .version = 1, .key_id = "key", .sealed = "sealed"};
    struct berth_secret_version *found;
    struct berth_list list;
    const char *id;
    RUN(ANY_KEY, berth_version_insert, &version);
    RUN(ANY_KEY, berth_version_load, &g->arena, "s", 1, &found);
    RUN(ANY_KEY, berth_version_retire, "s");
    RUN(ANY_KEY, berth_version_select_other_key, &g->arena, "key", &version, 10, &list);
    RUN(ANY_KEY, berth_version_reseal, &version);
    RUN(WHOLE, berth_version_select_keys, &g->arena, &list); /* a change of the key */
    RUN(ANY_KEY, berth_secret_key_insert, "key", 1);
    for (int lock = BERTH_LOCK_NONE; lock <= BERTH_LOCK_UPDATE; lock++)
        RUN(ANY_KEY, berth_secret_key_load, &g->arena, (enum berth_row_lock)lock, &id);
    RUN(ANY_KEY, berth_secret_key_save, "key", 2);
    RUN(ANY_KEY, berth_store_identity, &g->arena, "id", &id);
    RUN(ANY_KEY, berth_store_identity_load, &g->arena, &id);
}

static void run_bindings(struct ground *g)
{
    struct berth_binding binding = {.company_id = "c",
                                    .secret_id = "s",
                                    .target_type = "environment",
                                    .target_id = "e",
                                    .config_path = "key"};
    struct berth_secret_event event = {.company_id = "c",
                                       .secret_id = "s",
                                       .actor_type = "a",
                                       .consumer_type = "environment",
                                       .consumer_id = "e"};
    struct berth_list list;
    bool yes;
    RUN(ANY_KEY, berth_binding_insert, &binding);
    RUN("secret_bindings_by_secret", berth_binding_select, &g->arena, "s", &list);
    RUN(ANY_KEY, berth_binding_exists, &binding, &yes);
    RUN(ANY_KEY, berth_lease_capture_secrets, "c", "e", "l");
    RUN(ANY_KEY, berth_lease_copy_secrets, "l", "m");
    RUN(ANY_KEY, berth_lease_has_secret, "l", "apiKey", "s", &yes);
    RUN(ANY_KEY, berth_binding_remove_all, "c", "environment", "e");
    RUN(ANY_KEY, berth_secret_event_insert, &event);
    RUN("secret_events_by_secret", berth_secret_event_select, &g->arena, "s", 0, 10, &list);
}

static void run_activity(struct ground *g)
{
    struct berth_activity activity = {.company_id = "c",
                                      .actor_type = "system",
                                      .action = "done",
                                      .entity_type = "lease",
                                      .entity_id = "l"};
    struct berth_activity_filter filter = {.company_id = "c", .limit = 10};
    struct berth_list list;
    int64_t last;
    RUN(ANY_KEY, berth_activity_insert, &activity);
    RUN(ANY_KEY, berth_activity_last, &last);
    RUN_BARE(ANY_KEY, berth_activity_await_writers);
    RUN("activity_by_company", berth_activity_select_after, &g->arena, "c", 0, 9, 10, &list);
    RUN("activity_by_company", berth_activity_select, &g->arena, &filter, &list);
    filter.entity_id = "l";
    RUN("activity_by_entity", berth_activity_select, &g->arena, &filter, &list);
}

static void run_requests(struct ground *g)
{
    struct berth_request_row row = {
        .id = "q", .caller = "caller", .key = "key", .digest = "d", .owner = "n"};
    struct berth_request_row *found;
    RUN(ANY_KEY, berth_request_insert, &row);
    RUN(ANY_KEY, berth_request_load, &g->arena, "caller", "key", &found);
    RUN(ANY_KEY, berth_request_finish, "q", 200, "{}");
    RUN(ANY_KEY, berth_request_take_over, "q", "p", "n");
    RUN(ANY_KEY, berth_request_delete, "p");
    RUN("requests_by_age", berth_request_delete_before, 1);
}

static void run_tokens(struct ground *g)
{
    struct berth_token token = {.id = "t", .name = "token", .hash = "h"}, *found;
    struct berth_token_filter filter = BERTH_TOKEN_FILTER_INIT;
    struct berth_list list;
    int64_t count;
    RUN(ANY_KEY, berth_token_insert, &token);
    RUN(ANY_KEY, berth_token_load, &g->arena, "t", &found);
    RUN(PAGE, berth_token_select, &g->arena, &filter, 1, &list);
    filter.all = true;
    RUN(PAGE, berth_token_select, &g->arena, &filter, 1, &list);
    RUN(ANY_KEY, berth_token_set_revoked, "t", 1);
    RUN(ANY_KEY, berth_token_set_used, "t", 1);
    RUN(WHOLE, berth_token_count, 1, &count); /* the start of a daemon */
}

static void run_nodes_and_plugins(struct ground *g)
{
    struct berth_plugin plugin = {.id = "p",
                                  .settings_json = "{}",
                                  .plugin_key = "key",
                                  .package_name = "name",
                                  .package_path = "path",
                                  .version = "1",
                                  .manifest_json = "{}",
                                  .config_json = "{}"},
                        *found;
    struct berth_list list;
    int64_t order;
    const char *machine;
    bool yes;
    RUN(ANY_KEY, berth_node_beat, "n", "host", 1);
    RUN(ANY_KEY, berth_node_alive, "n", 1, &yes);
    RUN(ANY_KEY, berth_node_now, &order);
    RUN(ANY_KEY, berth_node_remove, "n");
    RUN(ANY_KEY, berth_node_machine, &g->arena, "n", &machine);
    RUN("execs_open", berth_node_remove_dead, 1);
    RUN_BARE(ANY_KEY, berth_plugin_take_turns);
    RUN(ANY_KEY, berth_plugin_insert, &plugin);
    for (int lock = BERTH_LOCK_NONE; lock <= BERTH_LOCK_UPDATE; lock++)
        RUN(ANY_KEY, berth_plugin_load, &g->arena, "key", (enum berth_row_lock)lock, &found);
    RUN(ANY_KEY, berth_plugin_save, &plugin, &yes);
    RUN(ANY_KEY, berth_plugin_select, &g->arena, NULL, &list);
    RUN(ANY_KEY, berth_plugin_next_order, &order);
    RUN(ANY_KEY, berth_plugin_remove, "p");
}

static void run_prefixes(struct ground *g)
{
    struct berth_list list;
    const char *company, *lease;
    for (int kind = BERTH_KIND_COMPANY; kind <= BERTH_KIND_TOKEN; kind++) {
        /* By their first digits, leases and runs are found in an index that has all ids. */
        const char *index = kind == BERTH_KIND_LEASE ? "leases_id"
                            : kind == BERTH_KIND_RUN ? "runs_id"
                                                     : ANY_KEY;
        RUN(index, berth_prefix_select, &g->arena, (enum berth_kind)kind, "c", "0", &list);
        RUN(ANY_KEY, berth_owner_select, &g->arena, (enum berth_kind)kind, "0", &company, &lease);
    }
}

static void run_all(struct ground *g)
{
    run_companies(g);
    run_environments(g);
    run_runs(g);
    run_leases(g);
    run_execs(g);
    run_secrets(g);
    run_versions(g);
    run_bindings(g);
    run_activity(g);
    run_requests(g);
    run_tokens(g);
    run_nodes_and_plugins(g);
    run_prefixes(g);
}

/* --- plans --- */

static int on_plan_line(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    (void)err;
    berth_buf_printf(ctx, "%s\n", row[3].text);
    return BERTH_OK;
}

/* Writes SQLite's plan of the statement, one step per line. */
static void explain(struct ground *g, const struct statement *s, struct berth_buf *plan)
{
    char sql[8192]; /* the number makes it a new statement, which knows the indexes of now */
    int len = snprintf(sql, sizeof sql, "EXPLAIN QUERY PLAN /* %d */ %s", g->pass, s->sql);
    assert_in_range(len, 1, sizeof sql - 1);
    assert_ok(&g->f, g->real->run(g->db, sql, NULL, 0, on_plan_line, plan, &g->f.err));
}

static bool names_index(const char *line, size_t len, const char *index)
{
    const char *at = memmem(line, len, " INDEX ", 7);
    size_t name_len = strlen(index);
    if (!at)
        return false;
    at += 7;
    return (size_t)(line + len - at) >= name_len && strncmp(at, index, name_len) == 0 &&
           (at + name_len == line + len || at[name_len] == ' ');
}

/* Tables with a row for each thing an operator set up, a part of a list, and steps without a
 * table. */
static bool scans_something_small(const char *line)
{
    static const char *const small[] = {
        "SCAN CONSTANT ROW", "SCAN ended\n",   "SCAN companies",
        "SCAN e\n",          "SCAN plugins\n", "SCAN nodes\n",
    };
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++)
        if (strncmp(line, small[i], strlen(small[i])) == 0)
            return true;
    return false;
}

/* Returns what is wrong with the plan, or NULL. */
static const char *judge(const char *plan, const char *expected)
{
    bool page = expected && strcmp(expected, PAGE) == 0;
    bool whole = expected && strcmp(expected, WHOLE) == 0;
    bool uses = !expected || page || whole;
    for (const char *line = plan; *line;) {
        size_t len = strcspn(line, "\n");
        bool expects = expected && names_index(line, len, expected);
        uses = uses || expects;
        if (strncmp(line, "SCAN ", 5) == 0 && !expects && !page && !whole &&
            !scans_something_small(line))
            return "it reads a whole table that grows";
        if (memmem(line, len, "AUTOMATIC", 9))
            return "it builds an index of its own";
        if (page && memmem(line, len, "FOR ORDER BY", 12))
            return "it sorts the whole table for a page";
        line += len + 1;
    }
    return uses ? NULL : "it does not use the index";
}

/* Returns the first statement with a bad plan, or NULL. */
static const struct statement *find_bad_plan(struct ground *g, const char **why,
                                             struct berth_buf *plan)
{
    g->pass++;
    for (int i = 0; i < g->count; i++) {
        plan->len = 0;
        explain(g, &g->statements[i], plan);
        *why = judge(plan->len ? berth_buf_str(plan) : "", g->statements[i].expected);
        if (*why)
            return &g->statements[i];
    }
    return NULL;
}

static void check_plans(struct ground *g)
{
    const char *why;
    auto_buf plan = BERTH_BUF_INIT(TEXT_BYTES_MAX);
    const struct statement *bad = find_bad_plan(g, &why, &plan);
    if (bad)
        fail_msg("%s [%s]: %s\n%s\n%s", bad->call, bad->expected ? bad->expected : "any key", why,
                 bad->sql, berth_buf_str(&plan));
}

static void statements_find_rows_by_index(void **state)
{
    struct ground *g = *state;
    run_all(g);
    check_plans(g);
}

/* --- indexes --- */

struct names {
    char text[INDEXES_MAX][64];
    int count;
};

static int on_name(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    (void)err;
    struct names *names = ctx;
    assert_true(names->count < INDEXES_MAX);
    (void)snprintf(names->text[names->count++], sizeof names->text[0], "%s", row[0].text);
    return BERTH_OK;
}

static void do_sql(struct ground *g, const char *sql)
{
    assert_ok(&g->f, g->real->run(g->db, sql, NULL, 0, NULL, NULL, &g->f.err));
}

/* Also finds an index that no statement needs. */
static void every_dropped_index_is_noticed(void **state)
{
    struct ground *g = *state;
    struct names names = {0};
    run_all(g);
    assert_ok(&g->f, g->real->run(g->db,
                                  "SELECT name FROM sqlite_master WHERE type = 'index'"
                                  " AND sql IS NOT NULL"
                                  " AND name <> 'environments_local'", /* keeps a rule only */
                                  NULL, 0, on_name, &names, &g->f.err));
    assert_true(names.count > 10);
    for (int i = 0; i < names.count; i++) {
        char sql[128];
        const char *why;
        auto_buf plan = BERTH_BUF_INIT(TEXT_BYTES_MAX);
        (void)snprintf(sql, sizeof sql, "DROP INDEX %s", names.text[i]);
        do_sql(g, "BEGIN");
        do_sql(g, sql);
        if (!find_bad_plan(g, &why, &plan))
            fail_msg("no statement needs the index %s", names.text[i]);
        do_sql(g, "ROLLBACK");
        check_plans(g);
    }
}

/* --- completeness --- */

static bool is_called(const struct ground *g, const char *name, size_t len)
{
    for (int i = 0; i < g->count; i++)
        if (strncmp(g->statements[i].call, name, len) == 0 && g->statements[i].call[len] == '(')
            return true;
    return false;
}

/* Fails for a function "NAME(struct berth_db *db" of the header that was not called. */
static void check_header(const struct ground *g, const char *path)
{
    static const char first_parameter[] = "(struct berth_db *db";
    auto_free char *text = calloc(1, TEXT_BYTES_MAX);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_in_range(fread(text, 1, TEXT_BYTES_MAX - 1, file), 1, TEXT_BYTES_MAX - 2);
    assert_int_equal(fclose(file), 0);
    for (const char *at = text; (at = strstr(at, first_parameter)); at++) {
        const char *name = at;
        while (name > text && (isalnum((unsigned char)name[-1]) || name[-1] == '_'))
            name--;
        if (!is_called(g, name, (size_t)(at - name)))
            fail_msg("%s: call %.*s here, with the index that it needs", path, (int)(at - name),
                     name);
    }
}

static void every_function_of_the_store_is_called(void **state)
{
    struct ground *g = *state;
    glob_t headers;
    run_all(g);
    assert_int_equal(glob(STORE_DIRECTORY "/*.h", 0, NULL, &headers), 0);
    for (size_t i = 0; i < headers.gl_pathc; i++) {
        const char *name = strrchr(headers.gl_pathv[i], '/') + 1;
        if (strcmp(name, "db.h") != 0 && strcmp(name, "migrate.h") != 0 &&
            strcmp(name, "store.h") != 0)
            check_header(g, headers.gl_pathv[i]);
    }
    globfree(&headers);
}

#define ON_GROUND(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_GROUND(statements_find_rows_by_index),
        ON_GROUND(every_dropped_index_is_noticed),
        ON_GROUND(every_function_of_the_store_is_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
