/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/domain.c - environments, and what the clock, a run's end and bad rows do to
 * leases. Time is moved, never waited for. */
#include "fixture.h"

#include <unistd.h>

#include <sys/stat.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "core/lease/lease_work.h"
#include "core/lease/node.h"
#include "inventory.h"
#include "scripted.h"
#include "store/company.h"
#include "store/store.h"

#define MINUTE_MS INT64_C(60000)
#define HOUR_MS (60 * MINUTE_MS)
#define DAY_MS (24 * HOUR_MS)
#define YEAR_MS (365 * DAY_MS)

#define INVENTORY "{\"provider\":\"inventory\"}"
#define INVENTORY_REUSED "{\"provider\":\"inventory\",\"reuseLease\":true}"
#define SSH "{\"host\":\"h\",\"username\":\"u\",\"remoteWorkspacePath\":\"/w\"}"
#define NOBODY "01234567-89ab-7cde-8f01-23456789abcd" /* a well-formed id of nothing */

/* --- help --- */

static int create(struct fixture *f, struct berth_environment_input input, const char *config,
                  struct berth_issues *issues, struct berth_environment **out)
{
    input.config_json = config;
    *issues = (struct berth_issues){.arena = &f->arena};
    return berth_environment_create(f->b, &f->arena, &input, issues, out, &f->err);
}

static struct berth_environment_input named(const char *name, enum berth_environment_driver driver)
{
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    input.name = name;
    input.driver = driver;
    return input;
}

/* Saves an environment as one from outside, config checked and all. */
static struct berth_environment *save(struct fixture *f, const char *name,
                                      enum berth_environment_driver driver, const char *config)
{
    struct berth_issues issues;
    struct berth_environment *e;
    assert_ok(f, create(f, named(name, driver), config, &issues, &e));
    return e;
}

static int update(struct fixture *f, const char *id, struct berth_environment_input input,
                  const char *config, struct berth_environment **out)
{
    input.config_json = config;
    if (config)
        input.fields |= BERTH_FIELD_CONFIG;
    struct berth_issues issues = {.arena = &f->arena};
    return berth_environment_update(f->b, &f->arena, id, &input, &issues, out, &f->err);
}

static struct berth_environment *set_status(struct fixture *f, const struct berth_environment *e,
                                            enum berth_environment_status status)
{
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    input.fields = BERTH_FIELD_STATUS;
    input.status = status;
    struct berth_environment *changed;
    assert_ok(f, update(f, e->id, input, NULL, &changed));
    return changed;
}

static struct berth_environment *look_at(struct fixture *f, const struct berth_environment *e)
{
    struct berth_environment *now;
    assert_ok(f, berth_environment_get(f->b, &f->arena, e->id, &now, &f->err));
    return now;
}

static struct berth_lease *take(struct fixture *f, struct berth_lease_request request,
                                const struct berth_environment *e)
{
    request.environment_id = e->id;
    struct berth_lease *lease;
    assert_ok(f, berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err));
    return lease;
}

struct ending {
    struct berth_run run;
    bool won;
};

static int tx_end_run(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct ending *ending = ctx;
    return berth_run_save(db, &ending->run, &ending->won, err);
}

/* The row alone, as after a crash between the run's end and its leases. */
static void end_run_row(struct fixture *f, const struct berth_run *run,
                        enum berth_run_status status)
{
    struct ending ending = {.run = *run};
    ending.run.status = status;
    ending.run.finished_at_ms = berth_time_wall_ms();
    assert_ok(f, berth_store_tx(f->b->store, tx_end_run, &ending, &f->err));
    assert_true(ending.won);
}

static void assert_lease(struct fixture *f, const struct berth_lease *lease,
                         enum berth_lease_status status, enum berth_lease_place place,
                         enum berth_lease_cleanup cleanup)
{
    const struct berth_lease *row = look_at_lease(f, lease);
    assert_row(f, lease, status, place, cleanup);
    assert_int_equal(row->due_at_ms != 0, status == BERTH_LEASE_ACTIVE ||
                                              status == BERTH_LEASE_RETAINED ||
                                              place == BERTH_PLACE_PARKED);
}

/* --- environments: create, show, list --- */

static void environment_is_created_and_shown(void **state)
{
    struct fixture *f = *state;
    struct berth_environment_input input = named("ci", BERTH_DRIVER_SANDBOX);
    input.fields = BERTH_FIELD_METADATA;
    input.description = "for nightly work";
    input.metadata_json = "{\"team\":\"infra\",\"at\":[1,2]}";
    struct berth_issues issues;
    struct berth_environment *made;
    assert_ok(f, create(f, input, " {\"timeoutMs\":\"1500\",\"provider\":\" inventory \"} ",
                        &issues, &made));
    struct berth_environment *e = look_at(f, made);
    assert_string_equal(e->name, "ci");
    assert_string_equal(e->description, "for nightly work");
    assert_int_equal(e->driver, BERTH_DRIVER_SANDBOX);
    assert_int_equal(e->status, BERTH_ENVIRONMENT_ACTIVE);
    assert_string_equal(e->company_id, f->b->company_id);
    assert_string_equal(e->config_json,
                        "{\"provider\":\"inventory\",\"reuseLease\":false,\"timeoutMs\":1500}");
    assert_string_equal(e->metadata_json, "{\"at\":[1,2],\"team\":\"infra\"}");
    assert_string_equal(e->fingerprint, made->fingerprint);
    assert_int_equal(e->created_at_ms, e->updated_at_ms);

    auto_buf buf = BERTH_BUF_INIT(BERTH_CONFIG_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    berth_environment_json(&w, e);
    assert_string_equal(json_text(f, berth_buf_str(&buf), "driver"), "sandbox");
    assert_string_equal(json_text(f, berth_buf_str(&buf), "status"), "active");
    assert_string_equal(json_text(f, berth_buf_str(&buf), "config.timeoutMs"), "1500");
    assert_string_equal(json_text(f, berth_buf_str(&buf), "metadata.team"), "infra");

    struct berth_environment *plain = save(f, "plain", BERTH_DRIVER_LOCAL, NULL);
    assert_string_equal(plain->config_json, "{}");
    assert_null(look_at(f, plain)->metadata_json);
    assert_null(look_at(f, plain)->description);
}

static void bad_configs_are_refused_with_all_that_is_wrong(void **state)
{
    struct fixture *f = *state;
    struct berth_issues issues;
    struct berth_environment *e;
    assert_fails(f, BERTH_E_UNPROCESSABLE, "SSH environments require a host.",
                 create(f, named("x", BERTH_DRIVER_SSH), "{}", &issues, &e));
    assert_int_equal(issues.list.count, 3);
    const struct berth_issue *last = issues.list.items[2];
    assert_string_equal(last->message, "SSH environments require a remote workspace path.");
    assert_fails(f, BERTH_E_UNPROCESSABLE, "SSH remote workspace path must be absolute.",
                 create(f, named("x", BERTH_DRIVER_SSH),
                        "{\"host\":\"h\",\"username\":\"u\",\"remoteWorkspacePath\":\"w\"}",
                        &issues, &e));
    assert_fails(f, BERTH_E_UNPROCESSABLE,
                 "Built-in fake sandbox environments are reserved for internal probes and cannot "
                 "be saved.",
                 create(f, named("x", BERTH_DRIVER_SANDBOX), "{}", &issues, &e));
    assert_fails(
        f, BERTH_E_UNPROCESSABLE,
        "Sandbox provider \"daytona\" is not installed or its plugin worker is not running.",
        create(f, named("x", BERTH_DRIVER_SANDBOX), "{\"provider\":\"daytona\"}", &issues, &e));
    assert_fails(f, BERTH_E_UNPROCESSABLE, "Plugin environment driver \"a.b:c\" is not ready.",
                 create(f, named("x", BERTH_DRIVER_PLUGIN),
                        "{\"pluginKey\":\"a.b\",\"driverKey\":\"c\"}", &issues, &e));
    assert_fails(f, BERTH_E_UNPROCESSABLE,
                 "timeoutMs must be a whole number between 1 and 86400000.",
                 create(f, named("x", BERTH_DRIVER_SANDBOX),
                        "{\"provider\":\"inventory\",\"timeoutMs\":0}", &issues, &e));
    scripted_set(f->world, SCRIPTED_VALIDATE,
                 (struct scripted_act){.mode = SCRIPTED_FAIL,
                                       .code = BERTH_E_UNPROCESSABLE,
                                       .text = "the provider will not have it"});
    assert_fails(
        f, BERTH_E_UNPROCESSABLE, "the provider will not have it",
        create(f, named("x", BERTH_DRIVER_SANDBOX), "{\"provider\":\"scripted\"}", &issues, &e));
    assert_int_equal(count_rows(f, "SELECT count(*) FROM environments"), 0);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM activity"), 0);
}

static int tx_company(struct berth_db *db, void *ctx, struct berth_error *err)
{
    return berth_company_insert(db, ctx, err);
}

static void assert_listed(struct fixture *f, struct berth_environment_filter filter,
                          const char *names)
{
    struct berth_list list;
    assert_ok(f, berth_environment_list(f->b, &f->arena, &filter, &list, &f->err));
    char all[256] = "";
    for (int i = 0; i < list.count; i++) {
        const struct berth_environment *e = list.items[i];
        (void)snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? " " : "", e->name);
    }
    assert_string_equal(all, names);
}

/* Takes a lease under an id of version 7, as older programs made them. */
static struct berth_lease *take_old_lease(struct fixture *f, const struct berth_environment *e)
{
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    struct berth_id id = berth_id_new();
    struct berth_lease *lease;
    request.environment_id = e->id;
    request.id = id.text;
    assert_ok(f, berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err));
    return lease;
}

/* Ids of runs and leases are random, so that a provider may name places after their first digits.
 * Lists go by the time of creation, also where ids begin with the clock. */
static void random_ids_are_listed_by_age(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_LOCAL, "{}");
    const char *leases[8], *runs[8];
    for (int i = 0; i < 8; i++) {
        move_clock(1);
        runs[i] = make_run(f)->id;
        leases[i] = (i % 2 ? take_lease(f, e, NULL) : take_old_lease(f, e))->id;
        assert_int_equal(runs[i][14], '4');
        assert_int_equal(leases[i][14], i % 2 ? '4' : '7');
    }
    struct berth_lease_filter filter = BERTH_LEASE_FILTER_INIT;
    struct berth_run_filter of_runs = BERTH_RUN_FILTER_INIT;
    filter.limit = of_runs.limit = 1;
    for (int i = 7; i >= 0; i--) {
        struct berth_list found;
        assert_ok(f, berth_lease_list(f->b, &f->arena, &filter, &found, &f->err));
        assert_int_equal(found.count, 1);
        filter.before = berth_lease_id(found.items[0]);
        assert_string_equal(filter.before, leases[i]);
        assert_ok(f, berth_run_list(f->b, &f->arena, &of_runs, &found, &f->err));
        of_runs.before = berth_run_id(found.items[0]);
        assert_string_equal(of_runs.before, runs[i]);
    }
    struct berth_list found;
    assert_ok(f, berth_lease_list(f->b, &f->arena, &filter, &found, &f->err));
    assert_int_equal(found.count, 0);
    filter.before = NULL;
    filter.limit = 100;
    filter.status = BERTH_LEASE_ACTIVE;
    assert_ok(f, berth_lease_list(f->b, &f->arena, &filter, &found, &f->err));
    assert_int_equal(found.count, 8);
    for (int i = 0; i < 8; i++)
        assert_string_equal(berth_lease_id(found.items[i]), leases[7 - i]);
}

static void lists_are_filtered_and_ordered(void **state)
{
    struct fixture *f = *state;
    struct berth_company acme = {.id = NOBODY, .name = "Acme", .created_at_ms = 1};
    assert_ok(f, berth_store_tx(f->b->store, tx_company, &acme, &f->err));
    struct berth_environment *a = save(f, "a", BERTH_DRIVER_LOCAL, NULL);
    move_clock(1000);
    struct berth_environment *b = save(f, "b", BERTH_DRIVER_SANDBOX, INVENTORY);
    move_clock(1000);
    (void)save(f, "c", BERTH_DRIVER_SSH, SSH);
    struct berth_environment_input theirs = named("theirs", BERTH_DRIVER_LOCAL);
    theirs.company_id = NOBODY;
    struct berth_issues issues;
    struct berth_environment *other;
    assert_ok(f, create(f, theirs, NULL, &issues, &other)); /* one local each */

    struct berth_environment_filter filter = BERTH_ENVIRONMENT_FILTER_INIT;
    assert_listed(f, filter, "c b a");
    move_clock(1000);
    (void)set_status(f, b, BERTH_ENVIRONMENT_ARCHIVED);
    assert_listed(f, filter, "b c a");
    filter.status = BERTH_ENVIRONMENT_ARCHIVED;
    assert_listed(f, filter, "b");
    filter.status = BERTH_ENVIRONMENT_ACTIVE;
    assert_listed(f, filter, "c a");
    filter.driver = BERTH_DRIVER_SSH;
    assert_listed(f, filter, "c");
    filter = (struct berth_environment_filter)BERTH_ENVIRONMENT_FILTER_INIT;
    filter.name = a->name;
    assert_listed(f, filter, "a");
    filter.driver = BERTH_DRIVER_SANDBOX;
    assert_listed(f, filter, "");
    filter = (struct berth_environment_filter)BERTH_ENVIRONMENT_FILTER_INIT;
    filter.company_id = NOBODY;
    assert_listed(f, filter, "theirs");

    /* A lease is asked for in the name of the environment's own company, or it is not found. */
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    struct berth_lease *lease;
    request.environment_id = a->id;
    request.company_id = NOBODY;
    assert_fails(f, BERTH_E_NOT_FOUND, "Environment not found",
                 berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err));
    request.company_id = NULL;
    request.environment_id = other->id;
    request.run_id = make_run(f)->id; /* of the other company */
    assert_fails(f, BERTH_E_NOT_FOUND, "not found.",
                 berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err));
}

/* Reads a list in pages of two. After each page, uses the lease that it ended with, and releases it
 * as well if asked to. Each of the six leases must be listed once. */
static void expect_each_lease_once(struct fixture *f, struct berth_lease_filter filter,
                                   struct berth_lease *const leases[6], bool release)
{
    int seen[6] = {0}, rows = 0;
    struct berth_list found;
    filter.limit = 2;
    do {
        assert_ok(f, berth_lease_list(f->b, &f->arena, &filter, &found, &f->err));
        for (int i = 0; i < found.count; i++)
            for (int l = 0; l < 6; l++)
                seen[l] += strcmp(berth_lease_id(found.items[i]), leases[l]->id) == 0;
        rows += found.count;
        if (found.count == 0)
            break;
        const struct berth_lease *last = found.items[found.count - 1];
        filter.before = last->id;
        run_sql(f, "UPDATE leases SET last_used_at = last_used_at + 3600000 WHERE id = $1",
                last->id);
        if (release)
            (void)give_lease(f, last, BERTH_LEASE_RELEASED);
    } while (rows < 100);
    for (int l = 0; l < 6; l++)
        assert_int_equal(seen[l], 1);
}

static void use_moves_no_lease_in_a_company_s_list(void **state)
{
    struct fixture *f = *state;
    struct berth_lease_filter filter = BERTH_LEASE_FILTER_INIT;
    /* Bits of n: of one environment, of one run, those that stand, those that are active, and
     * whether the last lease of each page is released. */
    for (int n = 0; n < 32; n++) {
        struct berth_environment *e =
            make_environment(f, BERTH_DRIVER_SANDBOX, "{\"provider\":\"scripted\"}");
        struct berth_run *run = make_run(f);
        struct berth_lease *leases[6];
        for (int i = 0; i < 6; i++) {
            move_clock(i % 2); /* some are of the same millisecond */
            leases[i] = take_lease(f, e, run);
        }
        filter.company_id = e->company_id;
        filter.environment_id = n & 1 ? e->id : NULL;
        filter.run_id = n & 2 ? run->id : NULL;
        filter.standing_only = n & 4;
        filter.status = n & 8 ? BERTH_LEASE_ACTIVE : -1;
        expect_each_lease_once(f, filter, leases, n & 16);
        for (int i = 0; i < 6; i++)
            (void)give_lease(f, leases[i], BERTH_LEASE_RELEASED);
        filter.before = NULL;
    }
}

static void one_local_environment_per_company(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *first, *again;
    assert_ok(f, berth_environment_ensure_local(f->b, &f->arena, NULL, &first, &f->err));
    assert_string_equal(first->name, "Local");
    assert_string_equal(first->description,
                        "Default execution environment for Paperclip runs on this machine.");
    assert_string_equal(first->metadata_json,
                        "{\"defaultForCompany\":true,\"managedByPaperclip\":true}");
    assert_ok(f, berth_environment_ensure_local(f->b, &f->arena, NULL, &again, &f->err));
    assert_string_equal(again->id, first->id);
    struct berth_issues issues;
    assert_fails(f, BERTH_E_CONFLICT, "This company already has a local environment, \"Local\".",
                 create(f, named("second", BERTH_DRIVER_LOCAL), "{}", &issues, &again));
    struct berth_environment *ssh = save(f, "far", BERTH_DRIVER_SSH, SSH);
    struct berth_environment_input moves = BERTH_ENVIRONMENT_INPUT_INIT;
    moves.fields = BERTH_FIELD_DRIVER;
    moves.driver = BERTH_DRIVER_LOCAL;
    assert_fails(f, BERTH_E_CONFLICT, "This company already has a local environment, \"Local\".",
                 update(f, ssh->id, moves, NULL, &again));
    assert_int_equal(look_at(f, ssh)->driver, BERTH_DRIVER_SSH);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM environments"), 2);
}

/* --- environments: update --- */

static void config_is_merged_while_the_driver_stays(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e =
        save(f, "far", BERTH_DRIVER_SSH,
             "{\"host\":\"h\",\"username\":\"u\",\"remoteWorkspacePath\":\"/w\","
             "\"knownHosts\":\"h ssh-ed25519 AAAA\"}");
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    struct berth_environment *changed;
    assert_ok(f, update(f, e->id, input, "{\"port\":2222,\"knownHosts\":null}", &changed));
    assert_string_equal(changed->config_json,
                        "{\"host\":\"h\",\"knownHosts\":null,\"port\":2222,\"privateKey\":null,"
                        "\"privateKeySecretRef\":null,\"remoteWorkspacePath\":\"/w\","
                        "\"strictHostKeyChecking\":true,\"username\":\"u\"}");
    assert_string_equal(look_at(f, e)->config_json, changed->config_json);
    assert_string_not_equal(changed->fingerprint, e->fingerprint);
    assert_true(changed->updated_at_ms > e->updated_at_ms);
    assert_int_equal(changed->created_at_ms, e->created_at_ms);

    /* Shallow: an object in it is replaced, not merged. */
    struct berth_environment *box =
        save(f, "box", BERTH_DRIVER_SANDBOX,
             "{\"provider\":\"inventory\",\"labels\":{\"a\":1,\"b\":2},\"size\":3}");
    assert_ok(f, update(f, box->id, input, "{\"labels\":{\"c\":3}}", &changed));
    assert_string_equal(changed->config_json,
                        "{\"labels\":{\"c\":3},\"provider\":\"inventory\",\"reuseLease\":false,"
                        "\"size\":3}");

    /* Fields that were not given stay, and so does the config. */
    input.fields = BERTH_FIELD_NAME | BERTH_FIELD_DESCRIPTION;
    input.name = "farther";
    input.description = "beyond the hills";
    assert_ok(f, update(f, e->id, input, NULL, &changed));
    struct berth_environment *now = look_at(f, e);
    assert_string_equal(now->name, "farther");
    assert_string_equal(now->description, "beyond the hills");
    assert_int_equal(now->driver, BERTH_DRIVER_SSH);
    assert_string_equal(json_text(f, now->config_json, "port"), "2222");
    input = (struct berth_environment_input)BERTH_ENVIRONMENT_INPUT_INIT;
    assert_fails(f, BERTH_E_INVALID, "Nothing to change was given.",
                 update(f, e->id, input, NULL, &changed));
}

static void another_driver_starts_from_nothing(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = save(f, "far", BERTH_DRIVER_SSH, SSH);
    struct berth_environment_input to_local = BERTH_ENVIRONMENT_INPUT_INIT;
    to_local.fields = BERTH_FIELD_DRIVER;
    to_local.driver = BERTH_DRIVER_LOCAL;
    struct berth_environment *changed;
    assert_ok(f, update(f, e->id, to_local, NULL, &changed));
    assert_int_equal(look_at(f, e)->driver, BERTH_DRIVER_LOCAL);
    assert_string_equal(look_at(f, e)->config_json, "{}");

    struct berth_environment_input to_ssh = to_local;
    to_ssh.driver = BERTH_DRIVER_SSH;
    int rc = update(f, e->id, to_ssh, NULL, &changed);
    assert_int_equal(rc, BERTH_E_UNPROCESSABLE);
    assert_string_equal(f->err.message, "SSH environments require a host.");
    assert_int_equal(look_at(f, e)->driver, BERTH_DRIVER_LOCAL);

    /* With a config, that one stands alone. */
    assert_ok(f, update(f, e->id, to_local, "{\"key\":\"kept\"}", &changed));
    assert_ok(f, update(f, e->id, to_ssh, SSH, &changed));
    assert_false(json_has(changed->config_json, "key"));
    assert_string_equal(json_text(f, changed->config_json, "host"), "h");
    assert_string_equal(json_text(f, changed->config_json, "port"), "22");

    /* The same driver named again keeps the config. */
    assert_ok(f, update(f, e->id, to_ssh, NULL, &changed));
    assert_string_equal(json_text(f, changed->config_json, "host"), "h");
}

static void archived_means_no_new_leases(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = save(f, "old barn", BERTH_DRIVER_SANDBOX, INVENTORY_REUSED);
    struct berth_lease *held = take_lease(f, e, make_run(f));
    (void)set_status(f, e, BERTH_ENVIRONMENT_ARCHIVED);
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = e->id;
    struct berth_lease *lease;
    int rc = berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err);
    assert_int_equal(rc, BERTH_E_UNPROCESSABLE);
    assert_string_equal(f->err.message, "Environment \"old barn\" is not active.");
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases"), 1);
    /* What is leased goes on, and is not parked for a future there is not. */
    assert_int_equal(sweep(f).released, 0);
    assert_lease(f, held, BERTH_LEASE_ACTIVE, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
    (void)give_lease(f, held, BERTH_LEASE_RELEASED);
    assert_lease(f, held, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    check_invariants(f);
    (void)set_status(f, e, BERTH_ENVIRONMENT_ACTIVE);
    (void)take_lease(f, e, NULL);
}

static void environment_is_deleted(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = save(f, "short-lived", BERTH_DRIVER_SANDBOX, INVENTORY);
    struct berth_lease *past = take_lease(f, e, make_run(f));
    (void)give_lease(f, past, BERTH_LEASE_RELEASED);
    struct berth_environment *gone;
    assert_ok(f, berth_environment_delete(f->b, &f->arena, e->id, false, NULL, &gone, &f->err));
    assert_string_equal(gone->name, "short-lived");
    assert_fails(f, BERTH_E_NOT_FOUND, "Environment not found",
                 berth_environment_delete(f->b, &f->arena, e->id, false, NULL, &gone, &f->err));
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = e->id;
    struct berth_lease *lease;
    assert_fails(f, BERTH_E_NOT_FOUND, "Environment not found",
                 berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err));
    assert_lease(f, past, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
}

/* --- activity --- */

static void changes_of_environments_are_logged_without_values(void **state)
{
    struct fixture *f = *state;
    struct berth_actor alice = {.type = "user", .id = "alice"};
    struct berth_environment_input input = named("logged", BERTH_DRIVER_SANDBOX);
    input.actor = &alice;
    struct berth_issues issues;
    struct berth_environment *e, *changed;
    assert_ok(
        f, create(f, input, "{\"provider\":\"inventory\",\"apiKey\":\"hush-hush\"}", &issues, &e));
    const struct berth_activity *a = last_activity(f, e->id, "environment.created");
    assert_non_null(a);
    assert_string_equal(a->entity_type, "environment");
    assert_string_equal(a->actor_type, "user");
    assert_string_equal(a->actor_id, "alice");
    assert_string_equal(a->company_id, f->b->company_id);
    assert_string_equal(a->details_json,
                        "{\"name\":\"logged\",\"driver\":\"sandbox\",\"status\":\"active\"}");

    input = (struct berth_environment_input)BERTH_ENVIRONMENT_INPUT_INIT;
    input.actor = &alice;
    input.fields =
        BERTH_FIELD_STATUS | BERTH_FIELD_METADATA | BERTH_FIELD_DESCRIPTION | BERTH_FIELD_NAME;
    input.name = "renamed";
    input.description = "hush-hush";
    input.status = BERTH_ENVIRONMENT_ARCHIVED;
    input.metadata_json = "{\"note\":\"hush-hush\",\"n\":1}";
    assert_ok(f, update(f, e->id, input, "{\"apiKey\":\"hush-hush 2\",\"x\":1,\"y\":2}", &changed));
    a = last_activity(f, e->id, "environment.updated");
    assert_non_null(a);
    auto_json *is = parse_json(a->details_json);
    auto_json *wanted = parse_json(
        "{\"changedFields\":[\"config\",\"description\",\"metadata\",\"name\",\"status\"],"
        "\"name\":\"renamed\",\"status\":\"archived\",\"descriptionChanged\":true,"
        "\"configChanged\":true,\"configTopLevelKeyCount\":3,\"metadataChanged\":true,"
        "\"metadataTopLevelKeyCount\":2}");
    assert_true(berth_json_equal(is, wanted));

    input.fields = BERTH_FIELD_NAME;
    input.name = "once more";
    assert_ok(f, update(f, e->id, input, NULL, &changed));
    assert_string_equal(last_activity(f, e->id, "environment.updated")->details_json,
                        "{\"changedFields\":[\"name\"],\"name\":\"once more\"}");

    struct berth_probe probe;
    assert_ok(f, berth_environment_probe(f->b, &f->arena, e->id, &alice, &probe, &f->err));
    assert_string_equal(
        last_activity(f, e->id, "environment.probed")->details_json,
        "{\"driver\":\"sandbox\",\"ok\":true,\"summary\":\"The inventory can be written.\"}");

    assert_ok(f, berth_environment_delete(f->b, &f->arena, e->id, false, NULL, &changed, &f->err));
    a = last_activity(f, e->id, "environment.deleted");
    assert_string_equal(a->details_json,
                        "{\"name\":\"once more\",\"driver\":\"sandbox\",\"status\":\"archived\"}");
    assert_string_equal(a->actor_type, "system");
    assert_null(a->actor_id);
    assert_int_equal(
        count_rows(f, "SELECT count(*) FROM activity WHERE details LIKE '%hush-hush%'"), 0);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM activity"), 5);
}

static void leases_are_logged(void **state)
{
    struct fixture *f = *state;
    struct berth_actor agent = {.type = "agent", .id = "agent-7"};
    struct berth_environment *e =
        save(f, "box", BERTH_DRIVER_SANDBOX, "{\"provider\":\"inventory\",\"key\":\"hush-hush\"}");
    struct berth_run *run = make_run(f);
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.run_id = run->id;
    request.issue_id = NOBODY;
    request.actor = &agent;
    struct berth_lease *lease = take(f, request, e);
    const struct berth_activity *a = last_activity(f, lease->id, "environment.lease_acquired");
    assert_non_null(a);
    assert_string_equal(a->entity_type, "environment_lease");
    assert_string_equal(a->actor_type, "agent");
    assert_string_equal(a->actor_id, "agent-7");
    assert_string_equal(a->run_id, run->id);
    assert_string_equal(json_text(f, a->details_json, "environmentId"), e->id);
    assert_string_equal(json_text(f, a->details_json, "driver"), "sandbox");
    assert_string_equal(json_text(f, a->details_json, "leasePolicy"), "ephemeral");
    assert_string_equal(json_text(f, a->details_json, "provider"), "inventory");
    assert_string_equal(json_text(f, a->details_json, "issueId"), NOBODY);
    assert_true(json_has(a->details_json, "executionWorkspaceId"));
    assert_null(json_text(f, a->details_json, "executionWorkspaceId"));
    assert_false(json_has(a->details_json, "status"));

    struct berth_run_end end = {.status = BERTH_RUN_TIMED_OUT, .actor = &agent};
    struct berth_list released;
    assert_ok(f, berth_run_finish(f->b, &f->arena, run->id, &end, &released, &f->err));
    a = last_activity(f, lease->id, "environment.lease_released");
    assert_non_null(a);
    assert_string_equal(a->actor_id, "agent-7");
    assert_string_equal(json_text(f, a->details_json, "status"), "failed");
    assert_string_equal(json_text(f, a->details_json, "cleanupStatus"), "success");
    assert_string_equal(json_text(f, a->details_json, "failureReason"), "adapter_or_run_failure");
    assert_string_equal(json_text(f, a->details_json, "driver"), "sandbox");
    assert_int_equal(count_activity(f, lease->id, "environment.lease_acquired"), 1);
    assert_int_equal(count_activity(f, lease->id, "environment.lease_released"), 1);
    assert_int_equal(
        count_rows(f, "SELECT count(*) FROM activity WHERE details LIKE '%hush-hush%'"), 0);
}

static void probe_of_this_machine(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = save(f, "here", BERTH_DRIVER_LOCAL, NULL);
    struct berth_probe probe;
    assert_ok(f, berth_environment_probe(f->b, &f->arena, e->id, NULL, &probe, &f->err));
    assert_true(probe.ok);
    assert_string_equal(probe.summary, "Local environment is available on this Paperclip host.");
    assert_true(json_has(probe.details_json, "hostname"));
    assert_true(json_has(probe.details_json, "cwd"));
    struct berth_environment *far = save(
        f, "far", BERTH_DRIVER_SSH,
        "{\"host\":\"127.0.0.1\",\"port\":1,\"username\":\"u\",\"remoteWorkspacePath\":\"/w\"}");
    assert_ok(f, berth_environment_probe(f->b, &f->arena, far->id, NULL, &probe, &f->err));
    assert_false(probe.ok);
    assert_string_equal(probe.summary, "SSH probe failed for u@127.0.0.1.");
    assert_non_null(strstr(json_text(f, probe.details_json, "error"), "Connection refused"));
    assert_string_equal(
        json_text(f, last_activity(f, far->id, "environment.probed")->details_json, "ok"), "false");
}

/* --- what time does --- */

static void lease_expires_by_its_ttl(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = save(f, "box", BERTH_DRIVER_SANDBOX, INVENTORY_REUSED);
    struct berth_environment *here = save(f, "here", BERTH_DRIVER_LOCAL, NULL);
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.run_id = make_run(f)->id;
    request.ttl_ms = HOUR_MS;
    struct berth_lease *short_one = take(f, request, e);
    struct berth_lease *local = take(f, request, here);
    struct berth_lease *long_one = take_lease(f, e, make_run(f));
    assert_int_equal(long_one->expires_at_ms - long_one->created_at_ms,
                     f->b->settings.run_lease_ttl_ms);
    move_clock(HOUR_MS - MINUTE_MS);
    assert_int_equal(sweep(f).expired, 0);
    assert_lease(f, short_one, BERTH_LEASE_ACTIVE, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
    move_clock(MINUTE_MS);
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.expired, 2);
    assert_int_equal(report.failed, 0);
    /* A reusable place that was not given back in time is not trusted again. */
    assert_lease(f, short_one, BERTH_LEASE_EXPIRED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_lease(f, local, BERTH_LEASE_EXPIRED, BERTH_PLACE_NONE, BERTH_CLEANUP_NULL);
    assert_lease(f, long_one, BERTH_LEASE_ACTIVE, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
    assert_false(inventory_has(f->inventory, short_one->provider_lease_id));
    const struct berth_activity *a = last_activity(f, short_one->id, "environment.lease_released");
    assert_string_equal(json_text(f, a->details_json, "status"), "expired");
    assert_string_equal(a->actor_type, "system");
    check_invariants(f);
    /* The ledger alone settles what made nothing; the rest waits for its provider. */
    move_clock(f->b->settings.run_lease_ttl_ms);
    struct berth_sweep_options quick = BERTH_SWEEP_OPTIONS_INIT;
    quick.call_providers = false;
    struct berth_lease *local_again =
        take(f, request = (struct berth_lease_request){.cancel_fd = -1, .ttl_ms = 1}, here);
    move_clock(MINUTE_MS);
    assert_ok(f, berth_sweep(f->b, &quick, &report, &f->err));
    assert_int_equal(report.expired, 1);
    assert_lease(f, local_again, BERTH_LEASE_EXPIRED, BERTH_PLACE_NONE, BERTH_CLEANUP_NULL);
    assert_lease(f, long_one, BERTH_LEASE_ACTIVE, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
}

static void leases_of_a_run_that_ended_are_released(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = save(f, "box", BERTH_DRIVER_SANDBOX, INVENTORY);
    static const struct {
        enum berth_run_status run;
        enum berth_lease_status lease;
    } ends[] = {{BERTH_RUN_SUCCEEDED, BERTH_LEASE_RELEASED},
                {BERTH_RUN_CANCELLED, BERTH_LEASE_RELEASED},
                {BERTH_RUN_FAILED, BERTH_LEASE_FAILED},
                {BERTH_RUN_TIMED_OUT, BERTH_LEASE_FAILED}};
    struct berth_lease *leases[4];
    for (int i = 0; i < 4; i++) {
        struct berth_run *run = make_run(f);
        leases[i] = take_lease(f, e, run);
        end_run_row(f, run, ends[i].run);
    }
    struct berth_lease *of_living = take_lease(f, e, make_run(f));
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.released, 4);
    assert_int_equal(report.expired, 0);
    for (int i = 0; i < 4; i++)
        assert_lease(f, leases[i], ends[i].lease, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_null(look_at_lease(f, leases[0])->failure_reason);
    assert_string_equal(look_at_lease(f, leases[2])->failure_reason, "adapter_or_run_failure");
    assert_lease(f, of_living, BERTH_LEASE_ACTIVE, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
    assert_int_equal(inventory_count(f->inventory), 1);
    check_invariants(f);
}

static void lease_of_a_run_that_is_gone_fails(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = save(f, "box", BERTH_DRIVER_SANDBOX, INVENTORY_REUSED);
    struct berth_run *run = make_run(f);
    struct berth_lease *lease = take_lease(f, e, run);
    run_sql(f, "DELETE FROM runs WHERE id = $1", run->id);
    assert_int_equal(sweep(f).released, 1);
    assert_lease(f, lease, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_string_equal(look_at_lease(f, lease)->failure_reason, "run_gone");
    check_invariants(f);
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = e->id;
    request.run_id = run->id;
    assert_fails(f, BERTH_E_NOT_FOUND, "not found.",
                 berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err));
    struct berth_run *ended = make_run(f);
    end_run_row(f, ended, BERTH_RUN_CANCELLED);
    request.run_id = ended->id;
    assert_fails(f, BERTH_E_UNPROCESSABLE, "has ended (status: cancelled).",
                 berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err));
}

static void runless_lease_ends_after_a_day(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = save(f, "box", BERTH_DRIVER_SANDBOX, INVENTORY);
    struct berth_lease *lease = take_lease(f, e, NULL);
    assert_int_equal(lease->expires_at_ms - lease->created_at_ms, DAY_MS);
    move_clock(DAY_MS - MINUTE_MS);
    assert_int_equal(sweep(f).expired, 0);
    assert_lease(f, lease, BERTH_LEASE_ACTIVE, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
    move_clock(MINUTE_MS);
    assert_int_equal(sweep(f).expired, 1);
    assert_lease(f, lease, BERTH_LEASE_EXPIRED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(inventory_count(f->inventory), 0);
}

static struct berth_lease *park(struct fixture *f, const struct berth_environment *e)
{
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    struct berth_lease *parked = give_lease(f, lease, BERTH_LEASE_RELEASED);
    assert_int_equal(parked->place, BERTH_PLACE_PARKED);
    return parked;
}

static void parked_places_are_not_kept_for_ever(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = save(f, "day", BERTH_DRIVER_SANDBOX, INVENTORY_REUSED);
    struct berth_environment *brief =
        save(f, "hour", BERTH_DRIVER_SANDBOX,
             "{\"provider\":\"inventory\",\"reuseLease\":true,\"idleTtlMs\":3600000}");
    struct berth_lease *day = park(f, e), *hour = park(f, brief);
    assert_int_equal(day->due_at_ms - day->released_at_ms, DAY_MS);
    assert_int_equal(hour->due_at_ms - hour->released_at_ms, HOUR_MS);
    move_clock(HOUR_MS - MINUTE_MS);
    assert_int_equal(sweep(f).unparked, 0);
    move_clock(MINUTE_MS);
    assert_int_equal(sweep(f).unparked, 1);
    assert_lease(f, hour, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_lease(f, day, BERTH_LEASE_RELEASED, BERTH_PLACE_PARKED, BERTH_CLEANUP_SUCCESS);
    check_invariants(f);
    move_clock(DAY_MS - HOUR_MS);
    assert_int_equal(sweep(f).unparked, 1);
    assert_lease(f, day, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(inventory_count(f->inventory), 0);
    check_invariants(f);
}

static void parked_places_go_with_their_config(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = save(f, "box", BERTH_DRIVER_SANDBOX, INVENTORY_REUSED);
    struct berth_lease *old = park(f, e);
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    struct berth_environment *changed;
    assert_ok(f, update(f, e->id, input, "{\"image\":\"newer\"}", &changed));
    /* It does not serve the new config ... */
    struct berth_lease *fresh = take_lease(f, e, make_run(f));
    assert_string_not_equal(fresh->provider_lease_id, old->provider_lease_id);
    /* ... and goes at the next sweep, whatever its time. */
    assert_int_equal(sweep(f).unparked, 1);
    assert_lease(f, old, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_false(inventory_has(f->inventory, old->provider_lease_id));
    assert_true(inventory_has(f->inventory, fresh->provider_lease_id));
    check_invariants(f);
    /* A lease taken before the change is not parked after it. */
    assert_ok(f, update(f, e->id, input, "{\"image\":\"newest\"}", &changed));
    (void)give_lease(f, fresh, BERTH_LEASE_RELEASED);
    assert_lease(f, fresh, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    /* A new name is no new config. */
    struct berth_lease *kept = park(f, e);
    input.fields = BERTH_FIELD_NAME;
    input.name = "renamed";
    assert_ok(f, update(f, e->id, input, NULL, &changed));
    assert_int_equal(sweep(f).unparked, 0);
    assert_lease(f, kept, BERTH_LEASE_RELEASED, BERTH_PLACE_PARKED, BERTH_CLEANUP_SUCCESS);
}

static void parked_places_go_with_their_environment(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = save(f, "box", BERTH_DRIVER_SANDBOX, INVENTORY_REUSED);
    struct berth_lease *lease = park(f, e);
    (void)set_status(f, e, BERTH_ENVIRONMENT_ARCHIVED);
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.unparked, 1);
    assert_int_equal(report.deleted, 0);
    assert_lease(f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(inventory_count(f->inventory), 0);
    assert_int_equal(look_at(f, e)->status, BERTH_ENVIRONMENT_ARCHIVED);
    check_invariants(f);
}

static void failed_place_is_retained_for_a_look(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = save(f, "box", BERTH_DRIVER_SANDBOX, INVENTORY_REUSED);
    struct berth_run *run = make_run(f);
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.run_id = run->id;
    request.retain_on_failure = true;
    struct berth_lease *lease = take(f, request, e);
    assert_int_equal(lease->policy, BERTH_POLICY_RETAIN_ON_FAILURE);
    struct berth_run_end end = {.status = BERTH_RUN_FAILED};
    struct berth_list released;
    assert_ok(f, berth_run_finish(f->b, &f->arena, run->id, &end, &released, &f->err));
    assert_int_equal(released.count, 1);
    struct berth_lease *kept = look_at_lease(f, lease);
    assert_lease(f, lease, BERTH_LEASE_RETAINED, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
    assert_int_equal(kept->released_at_ms, 0);
    assert_string_equal(kept->failure_reason, "adapter_or_run_failure");
    /* A deadline follows the clock of PostgreSQL, updated_at that of this machine. */
    assert_in_range(kept->expires_at_ms - kept->updated_at_ms, DAY_MS - 100, DAY_MS + 100);
    assert_true(inventory_has(f->inventory, lease->provider_lease_id));
    const struct berth_activity *a = last_activity(f, lease->id, "environment.lease_released");
    assert_string_equal(json_text(f, a->details_json, "status"), "retained");
    check_invariants(f);
    /* Nobody gets it, its run's end does not take it away, and a second failure changes nothing. */
    struct berth_lease *other = take_lease(f, e, make_run(f));
    assert_string_not_equal(other->provider_lease_id, lease->provider_lease_id);
    assert_int_equal(sweep(f).released, 0);
    assert_int_equal(give_lease(f, lease, BERTH_LEASE_FAILED)->version, kept->version);
    move_clock(DAY_MS - MINUTE_MS);
    assert_int_equal(sweep(f).expired, 0);
    assert_lease(f, lease, BERTH_LEASE_RETAINED, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
    move_clock(MINUTE_MS);
    assert_int_equal(sweep(f).expired, 1);
    assert_lease(f, lease, BERTH_LEASE_EXPIRED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_false(inventory_has(f->inventory, lease->provider_lease_id));
    check_invariants(f);
}

/* Only the count of a sweep shows the operator that the time of kept work is over. */
static void assert_work_is_kept(struct fixture *f, const struct berth_lease *lease, int overdue)
{
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.work, overdue);
    assert_int_equal(report.expired + report.unparked + report.cleaned + report.released, 0);
    assert_lease(f, lease, BERTH_LEASE_RETAINED, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
    assert_true(look_at_lease(f, lease)->work_at_ms != 0);
    assert_true(inventory_has(f->inventory, lease->provider_lease_id));
    check_invariants(f);
}

static void work_is_kept_past_its_time(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = save(f, "box", BERTH_DRIVER_SANDBOX, INVENTORY_REUSED);
    struct berth_lease *lease = take_lease(f, e, NULL);
    struct berth_lease_work_seen seen;
    assert_ok(f, berth_lease_work_begin(f->b, lease->id, &f->err));
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
    struct berth_lease *kept = look_at_lease(f, lease);
    assert_in_range(kept->expires_at_ms - kept->updated_at_ms, 7 * DAY_MS - 1000,
                    7 * DAY_MS + 1000);
    assert_work_is_kept(f, lease, 0);
    move_clock(7 * DAY_MS - MINUTE_MS);
    assert_work_is_kept(f, lease, 0);
    move_clock(2 * MINUTE_MS);
    assert_work_is_kept(f, lease, 1);
    move_clock(YEAR_MS); /* each sweep says it again */
    assert_work_is_kept(f, lease, 1);
    (void)set_status(f, e, BERTH_ENVIRONMENT_ARCHIVED);
    assert_work_is_kept(f, lease, 1);
    /* When the work is home, the place is not kept any longer. */
    assert_ok(f, berth_lease_work_reopen(f->b, lease->id, &seen, &f->err));
    assert_true(seen.reopened);
    assert_ok(f, berth_lease_work_end(f->b, lease->id, seen.mark_ms, &f->err));
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
    assert_int_equal(sweep(f).work, 0);
    assert_false(inventory_has(f->inventory, lease->provider_lease_id));
    check_invariants(f);
}

/* Released as anything but failed, it is an ordinary ephemeral lease. */
static void retained_only_on_failure(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = save(f, "box", BERTH_DRIVER_SANDBOX, INVENTORY);
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.retain_on_failure = true;
    struct berth_lease *fine = take(f, request, e), *failed = take(f, request, e);
    (void)give_lease(f, fine, BERTH_LEASE_RELEASED);
    assert_lease(f, fine, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    (void)give_lease(f, failed, BERTH_LEASE_FAILED);
    assert_lease(f, failed, BERTH_LEASE_RETAINED, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
    struct berth_environment *gone;
    assert_fails(f, BERTH_E_CONFLICT, "has 1 open lease",
                 berth_environment_delete(f->b, &f->arena, e->id, false, NULL, &gone, &f->err));
    (void)give_lease(f, failed, BERTH_LEASE_RELEASED); /* somebody has looked */
    assert_lease(f, failed, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    check_invariants(f);
}

static void providers_may_shorten_a_lease_only(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e =
        save(f, "box", BERTH_DRIVER_SANDBOX, "{\"provider\":\"scripted\"}");
    int64_t now = berth_time_wall_ms();
    scripted_set(f->world, SCRIPTED_ACQUIRE, (struct scripted_act){.expires_at_ms = now + HOUR_MS});
    struct berth_lease *sooner = take_lease(f, e, make_run(f));
    assert_int_equal(look_at_lease(f, sooner)->expires_at_ms, now + HOUR_MS);
    assert_int_equal(look_at_lease(f, sooner)->due_at_ms, now + HOUR_MS);
    scripted_set(f->world, SCRIPTED_ACQUIRE, (struct scripted_act){.expires_at_ms = now + YEAR_MS});
    struct berth_lease *later = take_lease(f, e, make_run(f));
    assert_int_equal(later->expires_at_ms - later->created_at_ms, f->b->settings.run_lease_ttl_ms);
    move_clock(HOUR_MS);
    assert_int_equal(sweep(f).expired, 1);
    assert_lease(f, sooner, BERTH_LEASE_EXPIRED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_lease(f, later, BERTH_LEASE_ACTIVE, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
    assert_int_equal(scripted_count(f->world), 1);
}

/* Leases may end early, but nothing that lives is ever without a row. */
static void clock_jumps_lose_nothing(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = save(f, "box", BERTH_DRIVER_SANDBOX, INVENTORY_REUSED);
    struct berth_environment *plain = save(f, "plain", BERTH_DRIVER_SANDBOX, INVENTORY);
    struct berth_lease *active = take_lease(f, e, make_run(f));
    struct berth_lease *runless = take_lease(f, plain, NULL);
    struct berth_lease *parked = park(f, e);

    move_clock(-YEAR_MS);
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.expired + report.unparked + report.failed + report.owed, 0);
    check_invariants(f);
    struct berth_lease *claimed = take_lease(f, e, make_run(f)); /* a year before it was parked */
    assert_string_equal(claimed->provider_lease_id, parked->provider_lease_id);
    struct berth_lease *of_then = take_lease(f, e, make_run(f));
    assert_string_not_equal(of_then->provider_lease_id, claimed->provider_lease_id);
    (void)give_lease(f, claimed, BERTH_LEASE_RELEASED);
    assert_int_equal(look_at_lease(f, claimed)->place, BERTH_PLACE_PARKED);
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    input.fields = BERTH_FIELD_NAME;
    input.name = "renamed in the past";
    struct berth_environment *changed;
    assert_ok(f, update(f, e->id, input, NULL, &changed));
    assert_true(changed->updated_at_ms > e->updated_at_ms);
    check_invariants(f);

    move_clock(YEAR_MS); /* what was given in the past is over */
    report = sweep(f);
    assert_int_equal(report.expired, 1);
    assert_int_equal(report.unparked, 1);
    assert_int_equal(report.failed, 0);
    assert_lease(f, of_then, BERTH_LEASE_EXPIRED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_lease(f, claimed, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_lease(f, active, BERTH_LEASE_ACTIVE, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
    assert_lease(f, runless, BERTH_LEASE_ACTIVE, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
    check_invariants(f);

    move_clock(YEAR_MS);
    assert_int_equal(sweep(f).expired, 2);
    assert_lease(f, active, BERTH_LEASE_EXPIRED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_lease(f, runless, BERTH_LEASE_EXPIRED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(inventory_count(f->inventory), 0);
    move_clock(-YEAR_MS);
    check_invariants(f);
}

/* --- what comes from outside --- */

static char *repeated(struct fixture *f, char c, size_t count)
{
    char *text = berth_arena_alloc(&f->arena, count + 1);
    assert_non_null(text);
    memset(text, c, count);
    return text;
}

static void assert_refused(struct fixture *f, int rc, const char *id, const char *what)
{
    if (rc != BERTH_E_NOT_FOUND && rc != BERTH_E_INVALID)
        fail_msg("%s of an id of %zu bytes, the first %#x: %s \"%s\"", what, strlen(id),
                 (unsigned char)id[0], berth_code_wire(rc), rc < 0 ? f->err.message : "");
}

/* An empty answer or a refusal, but not the database's opinion. */
static void assert_nothing_listed(struct fixture *f, int rc, const struct berth_list *list,
                                  const char *id, const char *what)
{
    if (rc < 0)
        assert_refused(f, rc, id, what);
    else
        assert_int_equal(list->count, 0);
}

static void try_as_environment(struct fixture *f, const char *id)
{
    struct berth_environment_input rename = named("x", BERTH_DRIVER_LOCAL);
    rename.fields = BERTH_FIELD_NAME;
    struct berth_environment *e;
    struct berth_probe probe;
    struct berth_lease *lease;
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = id;
    assert_refused(f, berth_environment_get(f->b, &f->arena, id, &e, &f->err), id, "get");
    assert_refused(f, update(f, id, rename, NULL, &e), id, "update");
    assert_refused(f, berth_environment_delete(f->b, &f->arena, id, true, NULL, &e, &f->err), id,
                   "delete");
    assert_refused(f, berth_environment_probe(f->b, &f->arena, id, NULL, &probe, &f->err), id,
                   "probe");
    assert_refused(f, berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err), id,
                   "acquire");
}

static void try_as_lease(struct fixture *f, const char *id)
{
    struct berth_lease *lease;
    struct berth_release_request release = {.lease_id = id, .status = BERTH_LEASE_RELEASED};
    struct berth_workspace workspace = {0};
    struct berth_realized realized;
    assert_refused(f, berth_lease_get(f->b, &f->arena, id, &lease, &f->err), id, "lease get");
    assert_refused(f, berth_lease_release(f->b, &f->arena, &release, &lease, &f->err), id,
                   "release");
    assert_refused(f, berth_lease_destroy(f->b, &f->arena, id, NULL, &lease, &f->err), id,
                   "destroy");
    assert_refused(f, berth_lease_acknowledge(f->b, &f->arena, id, NULL, &lease, &f->err), id,
                   "acknowledge");
    assert_refused(f, berth_lease_realize(f->b, &f->arena, id, &workspace, &realized, &f->err), id,
                   "realize");
}

static void try_as_run_or_company(struct fixture *f, const char *id,
                                  const struct berth_environment *e)
{
    struct berth_run *run;
    struct berth_run_end end = {.status = BERTH_RUN_SUCCEEDED};
    struct berth_list list;
    struct berth_lease *lease;
    assert_refused(f, berth_run_get(f->b, &f->arena, id, &run, &f->err), id, "run get");
    assert_refused(f, berth_run_finish(f->b, &f->arena, id, &end, &list, &f->err), id, "finish");
    assert_refused(f, berth_run_create(f->b, &f->arena, id, &run, &f->err), id, "run create");
    struct berth_environment_input input = named("x", BERTH_DRIVER_LOCAL);
    input.company_id = id;
    struct berth_issues issues;
    struct berth_environment *made;
    assert_refused(f, create(f, input, NULL, &issues, &made), id, "create");
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = e->id;
    request.run_id = id;
    assert_refused(f, berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err), id, "run");
    request.run_id = NULL;
    request.company_id = id;
    assert_refused(f, berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err), id,
                   "company");
}

static void try_in_lists(struct fixture *f, const char *id)
{
    struct berth_list list;
    struct berth_release_request release = {.status = BERTH_LEASE_RELEASED};
    assert_nothing_listed(f, berth_lease_release_run(f->b, &f->arena, id, &release, &list, &f->err),
                          &list, id, "release run");
    struct berth_lease_filter leases = BERTH_LEASE_FILTER_INIT;
    leases.environment_id = id;
    assert_nothing_listed(f, berth_lease_list(f->b, &f->arena, &leases, &list, &f->err), &list, id,
                          "leases of an environment");
    leases = (struct berth_lease_filter)BERTH_LEASE_FILTER_INIT;
    leases.run_id = id;
    assert_nothing_listed(f, berth_lease_list(f->b, &f->arena, &leases, &list, &f->err), &list, id,
                          "leases of a run");
    leases = (struct berth_lease_filter)BERTH_LEASE_FILTER_INIT;
    leases.company_id = id;
    assert_nothing_listed(f, berth_lease_list(f->b, &f->arena, &leases, &list, &f->err), &list, id,
                          "leases of a company");
    struct berth_environment_filter environments = BERTH_ENVIRONMENT_FILTER_INIT;
    environments.company_id = id;
    assert_nothing_listed(f, berth_environment_list(f->b, &f->arena, &environments, &list, &f->err),
                          &list, id, "environments");
    struct berth_activity_filter activity = {.entity_id = id, .limit = 10};
    assert_nothing_listed(f, berth_activity_list(f->b, &f->arena, &activity, &list, &f->err), &list,
                          id, "activity");
}

static void ids_that_name_nothing(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_LOCAL, "{}");
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    int before = count_rows(f, "SELECT count(*) FROM activity");
    const char *const ids[] = {
        NOBODY,
        "nonsense",
        "",
        "01234567-89ab-7cde-8f01-23456789abcd0",
        "01234567-89ab-7cde-8f01-23456789abc",
        "01234567-89ab-7cde-8f01-23456789abcg",
        "0123456789ab7cde8f0123456789abcd",
        "'; DROP TABLE leases; --",
        "%s%n",
        "\xff\xfe",
        repeated(f, 'a', 100000),
    };
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        try_as_environment(f, ids[i]);
        try_as_lease(f, ids[i]);
        try_as_run_or_company(f, ids[i], e);
    }
    assert_int_equal(count_rows(f, "SELECT count(*) FROM activity"), before);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases"), 1);
    assert_lease(f, lease, BERTH_LEASE_ACTIVE, BERTH_PLACE_NONE, BERTH_CLEANUP_NULL);

    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = e->id;
    request.issue_id = "nonsense";
    assert_fails(f, BERTH_E_INVALID, "issueId must be a UUID.",
                 berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err));
    request.issue_id = NULL;
    request.execution_workspace_id = "\xff";
    assert_fails(f, BERTH_E_INVALID, "executionWorkspaceId must be a UUID.",
                 berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err));
}

static void ids_that_name_nothing_in_lists(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_LOCAL, "{}");
    (void)take_lease(f, e, make_run(f));
    const char *const ids[] = {
        NOBODY, "nonsense", "", "'; DROP TABLE leases; --", "\xff\xfe", repeated(f, 'a', 100000)};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        try_in_lists(f, ids[i]);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases"), 1);
}

/* Either case names the same thing, wherever an id is taken. */
static void ids_in_capitals(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_LOCAL, "{}");
    struct berth_run *run = make_run(f);
    char environment_id[BERTH_ID_SIZE], run_id[BERTH_ID_SIZE];
    for (int i = 0; i < BERTH_ID_SIZE; i++) {
        environment_id[i] = (char)(e->id[i] >= 'a' && e->id[i] <= 'f' ? e->id[i] - 32 : e->id[i]);
        run_id[i] = (char)(run->id[i] >= 'a' && run->id[i] <= 'f' ? run->id[i] - 32 : run->id[i]);
    }
    struct berth_environment *same;
    assert_ok(f, berth_environment_get(f->b, &f->arena, environment_id, &same, &f->err));
    struct berth_run *same_run;
    assert_ok(f, berth_run_get(f->b, &f->arena, run_id, &same_run, &f->err));
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = environment_id;
    request.run_id = run_id;
    struct berth_lease *lease;
    assert_ok(f, berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err));
    struct berth_run_end end = {.status = BERTH_RUN_SUCCEEDED};
    struct berth_list released;
    assert_ok(f, berth_run_finish(f->b, &f->arena, run->id, &end, &released, &f->err));
    assert_int_equal(released.count, 1);
}

static void what_is_too_long_is_refused(void **state)
{
    struct fixture *f = *state;
    struct berth_issues issues;
    struct berth_environment *e;
    struct berth_environment_input input =
        named(repeated(f, 'n', BERTH_NAME_BYTES_MAX + 1), BERTH_DRIVER_LOCAL);
    assert_fails(f, BERTH_E_INVALID, "The name is longer than 200 bytes.",
                 create(f, input, NULL, &issues, &e));
    input.name = " ci";
    assert_fails(f, BERTH_E_INVALID, "The name begins or ends with a blank",
                 create(f, input, NULL, &issues, &e));
    input.name = "";
    assert_fails(f, BERTH_E_INVALID, "An environment needs a name.",
                 create(f, input, NULL, &issues, &e));
    input.name = "\xc3\x28";
    assert_fails(f, BERTH_E_INVALID, "The name is not UTF-8.", create(f, input, NULL, &issues, &e));
    input.name = "fine";
    input.fields = BERTH_FIELD_DESCRIPTION;
    input.description = repeated(f, 'd', BERTH_DESCRIPTION_BYTES_MAX + 1);
    assert_fails(f, BERTH_E_INVALID, "The description is longer than 4096 bytes.",
                 create(f, input, NULL, &issues, &e));
    input.fields = 0;
    input.description = NULL;
    char *big =
        berth_arena_printf(&f->arena, "{\"k\":\"%s\"}", repeated(f, 'v', BERTH_CONFIG_BYTES_MAX));
    assert_fails(f, BERTH_E_TOO_LARGE, "The config is longer than 262144 bytes.",
                 create(f, input, big, &issues, &e));
    input.fields = BERTH_FIELD_METADATA;
    input.metadata_json = big;
    assert_fails(f, BERTH_E_TOO_LARGE, "The metadata is longer than 262144 bytes.",
                 create(f, input, NULL, &issues, &e));
    input.metadata_json = "[1]";
    assert_fails(f, BERTH_E_INVALID, "The metadata must be an object or null.",
                 create(f, input, NULL, &issues, &e));
    input.metadata_json = "{";
    assert_fails(f, BERTH_E_INVALID, "line 1", create(f, input, NULL, &issues, &e));
    input.metadata_json = NULL;
    assert_fails(f, BERTH_E_INVALID, "line 1", create(f, input, "{\"a\":}", &issues, &e));
    assert_int_equal(count_rows(f, "SELECT count(*) FROM environments"), 0);

    struct berth_environment *box = save(f, "box", BERTH_DRIVER_SANDBOX, INVENTORY);
    struct berth_environment_input change = BERTH_ENVIRONMENT_INPUT_INIT;
    assert_fails(f, BERTH_E_TOO_LARGE, "The config is longer than 262144 bytes.",
                 update(f, box->id, change, big, &e));
    change.fields = BERTH_FIELD_METADATA;
    change.metadata_json = big;
    assert_fails(f, BERTH_E_TOO_LARGE, "The metadata is longer than 262144 bytes.",
                 update(f, box->id, change, NULL, &e));

    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = box->id;
    request.workspace_mode = repeated(f, 'm', BERTH_NAME_BYTES_MAX + 1);
    struct berth_lease *lease;
    assert_fails(f, BERTH_E_INVALID, "The executionWorkspaceMode is longer than 200 bytes.",
                 berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err));
    request.workspace_mode = NULL;
    const int64_t ttls[] = {-1, BERTH_TTL_MS_MAX + 1, INT64_MAX, INT64_MIN};
    for (int i = 0; i < 4; i++) {
        request.ttl_ms = ttls[i];
        assert_fails(f, BERTH_E_INVALID, "The ttl must lie between 1 ms and 366 days.",
                     berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err));
    }
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases"), 0);
    lease = take_lease(f, box, NULL);
    struct berth_release_request release = {.lease_id = lease->id,
                                            .status = BERTH_LEASE_FAILED,
                                            .reason = repeated(f, 'r', BERTH_REASON_BYTES_MAX + 1)};
    assert_fails(f, BERTH_E_INVALID, "The reason is longer than 1000 bytes or not UTF-8.",
                 berth_lease_release(f->b, &f->arena, &release, &lease, &f->err));
    release.reason = NULL;
    release.status = BERTH_LEASE_ACTIVE;
    assert_fails(f, BERTH_E_INVALID, "A lease is released as released, failed or expired.",
                 berth_lease_release(f->b, &f->arena, &release, &lease, &f->err));
    assert_lease(f, lease, BERTH_LEASE_ACTIVE, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
}

/* --- rows nobody can read --- */

static void unreadable_lease_is_quarantined(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = save(f, "box", BERTH_DRIVER_SANDBOX, INVENTORY);
    struct berth_environment *other = save(f, "other", BERTH_DRIVER_SANDBOX, INVENTORY);
    struct berth_lease *bad = take_lease(f, e, NULL);
    struct berth_lease *beside = take_lease(f, e, NULL);
    struct berth_lease *apart = take_lease(f, other, NULL);
    run_sql(f, "UPDATE leases SET status = 'hibernating' WHERE id = $1", bad->id);
    move_clock(DAY_MS);
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.quarantined, 1);
    assert_int_equal(report.expired, 2);
    assert_int_equal(report.failed, 0);
    assert_lease(f, beside, BERTH_LEASE_EXPIRED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_lease(f, apart, BERTH_LEASE_EXPIRED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    struct berth_lease *row;
    int rc = berth_lease_get(f->b, &f->arena, bad->id, &row, &f->err);
    assert_int_equal(rc, BERTH_E_INTERNAL);
    assert_string_equal(f->err.message, "Unexpected environment lease status value: hibernating");
    struct berth_release_request release = {.lease_id = bad->id, .status = BERTH_LEASE_RELEASED};
    assert_fails(f, BERTH_E_INTERNAL, "Unexpected environment lease status value: hibernating",
                 berth_lease_release(f->b, &f->arena, &release, &row, &f->err));
    assert_true(inventory_has(f->inventory, bad->provider_lease_id)); /* left alone */
    (void)take_lease(f, e, make_run(f));                              /* the environment goes on */
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases WHERE status = 'hibernating'"), 1);

    run_sql(f, "UPDATE leases SET status = 'active', place = 'elsewhere' WHERE id = $1", bad->id);
    assert_int_equal(sweep(f).quarantined, 1);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM activity WHERE action ="
                                   " 'environment.lease_quarantined' AND details LIKE"
                                   " '%hibernating%'"),
                     1); /* told once */
    assert_int_equal(
        count_rows(f, "SELECT count(*) FROM activity WHERE action LIKE '%quarantined'"), 1);
    assert_fails(f, BERTH_E_INTERNAL, "Unexpected environment lease place value: elsewhere",
                 berth_lease_get(f->b, &f->arena, bad->id, &row, &f->err));
    run_sql(f, "UPDATE leases SET place = 'live' WHERE id = $1", bad->id); /* put right by hand */
    report = sweep(f);
    assert_int_equal(report.quarantined, 0);
    assert_int_equal(report.expired, 1);
    assert_lease(f, bad, BERTH_LEASE_EXPIRED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    check_invariants(f);
}

/* An unreadable row keeps neither its environment's next lease nor its run's others. */
static void unreadable_parked_lease_blocks_nobody(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = save(f, "box", BERTH_DRIVER_SANDBOX, INVENTORY_REUSED);
    struct berth_lease *parked = park(f, e);
    run_sql(f, "UPDATE leases SET status = 'hibernating' WHERE id = $1", parked->id);
    struct berth_lease *fresh = take_lease(f, e, make_run(f));
    assert_string_not_equal(fresh->provider_lease_id, parked->provider_lease_id);
    assert_int_equal(sweep(f).quarantined, 1);
    assert_true(inventory_has(f->inventory, parked->provider_lease_id));
}

static void unreadable_environment_does_not_stop_the_sweep(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *bad = save(f, "bad", BERTH_DRIVER_SANDBOX, INVENTORY);
    struct berth_environment *good = save(f, "good", BERTH_DRIVER_SANDBOX, INVENTORY);
    struct berth_lease *lease = take_lease(f, good, NULL);
    run_sql(f, "UPDATE environments SET driver = 'zeppelin' WHERE id = $1", bad->id);
    struct berth_environment *row;
    assert_fails(f, BERTH_E_INTERNAL, "Unexpected environment driver value: zeppelin",
                 berth_environment_get(f->b, &f->arena, bad->id, &row, &f->err));
    move_clock(DAY_MS);
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.expired, 1);
    assert_lease(f, lease, BERTH_LEASE_EXPIRED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(inventory_count(f->inventory), 0);
}

static void unreadable_run_is_quarantined(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = save(f, "box", BERTH_DRIVER_SANDBOX, INVENTORY);
    struct berth_run *run = make_run(f);
    struct berth_lease *lease = take_lease(f, e, run), *other = take_lease(f, e, NULL);
    run_sql(f, "UPDATE runs SET status = 'dreaming' WHERE id = $1", run->id);
    move_clock(DAY_MS);
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.quarantined, 1);
    assert_int_equal(report.expired, 1);
    assert_lease(f, lease, BERTH_LEASE_ACTIVE, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
    assert_lease(f, other, BERTH_LEASE_EXPIRED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    check_invariants(f);
}

/* Rows that Paperclip wrote: without a captured config and a fingerprint, only with metadata. */
static void rows_of_others_are_claimed_and_cleaned_up(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e =
        make_environment(f, BERTH_DRIVER_SANDBOX,
                         "{\"provider\":\"inventory\",\"reuseLease\":true,\"template\":\"a\"}");
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
    run_sql(f, "UPDATE leases SET config = NULL, fingerprint = NULL", NULL);

    /* Another template does not match, the same one does. */
    struct berth_environment *other =
        make_environment(f, BERTH_DRIVER_SANDBOX,
                         "{\"provider\":\"inventory\",\"reuseLease\":true,\"template\":\"b\"}");
    run_sql(f, "UPDATE leases SET environment_id = $1", other->id);
    struct berth_lease *fresh = take_lease(f, other, make_run(f));
    assert_string_not_equal(fresh->provider_lease_id, lease->provider_lease_id);
    (void)give_lease(f, fresh, BERTH_LEASE_FAILED);
    run_sql(f, "UPDATE leases SET environment_id = $1 WHERE config IS NULL", e->id);
    struct berth_lease *claimed = take_lease(f, e, make_run(f));
    assert_string_equal(claimed->provider_lease_id, lease->provider_lease_id);
    (void)give_lease(f, claimed, BERTH_LEASE_RELEASED);

    /* Parked under a row without config, then idle for too long: the sweep still ends it. */
    run_sql(f, "UPDATE leases SET config = NULL, fingerprint = NULL", NULL);
    berth_time_shift(INT64_C(25) * 3600 * 1000, 0);
    assert_int_equal(sweep(f).unparked, 1);
    assert_int_equal(inventory_count(f->inventory), 0);
    check_invariants(f);
}

/* A lease that this very process gave up on is nobody's: it can be ended by hand. */
static void own_abandoned_acquire_is_destroyed(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e =
        make_environment(f, BERTH_DRIVER_SANDBOX, "{\"provider\":\"inventory\"}");
    struct berth_lease *lease = take_lease(f, e, NULL), *ended;
    run_sql(f, "UPDATE leases SET status = 'acquiring', owner = $1", berth_node_id(f->b->node));
    assert_ok(f, berth_lease_destroy(f->b, &f->arena, lease->id, NULL, &ended, &f->err));
    assert_int_equal(ended->status, BERTH_LEASE_FAILED);
    assert_int_equal(ended->place, BERTH_PLACE_GONE);
    check_invariants(f);
}

/* Whoever comes to the same file by another name sees the same nodes alive. */
static void store_by_another_name_knows_who_lives(void **state)
{
    struct fixture *f = *state;
    char other[256], link[400], file[512];
    (void)snprintf(other, sizeof other, "%s/elsewhere", f->directory);
    assert_int_equal(mkdir(other, 0700), 0);
    (void)snprintf(file, sizeof file, "%s", f->store + strlen("sqlite:"));
    (void)snprintf(link, sizeof link, "%s/linked.db", other);
    assert_int_equal(symlink(file, link), 0);
    struct fixture second = *f;
    (void)snprintf(second.store, sizeof second.store, "sqlite:%s", link);
    fixture_open(&second);
    bool at_work = false;
    assert_ok(f, berth_node_at_work(second.b->node, berth_node_id(f->b->node),
                                    "01890000-0000-7000-8000-000000000001", 0, &at_work, &f->err));
    assert_true(at_work);
    fixture_close(&second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ON_BOTH(own_abandoned_acquire_is_destroyed),
        TEST_ON_SQLITE(store_by_another_name_knows_who_lives),
        TEST_ON_BOTH(rows_of_others_are_claimed_and_cleaned_up),
        TEST_ON_BOTH(environment_is_created_and_shown),
        TEST_ON_BOTH(bad_configs_are_refused_with_all_that_is_wrong),
        TEST_ON_BOTH(lists_are_filtered_and_ordered),
        TEST_ON_BOTH(random_ids_are_listed_by_age),
        TEST_ON_BOTH(use_moves_no_lease_in_a_company_s_list),
        TEST_ON_BOTH(one_local_environment_per_company),
        TEST_ON_BOTH(config_is_merged_while_the_driver_stays),
        TEST_ON_BOTH(another_driver_starts_from_nothing),
        TEST_ON_BOTH(archived_means_no_new_leases),
        TEST_ON_BOTH(environment_is_deleted),
        TEST_ON_BOTH(changes_of_environments_are_logged_without_values),
        TEST_ON_BOTH(leases_are_logged),
        TEST_ON_BOTH(probe_of_this_machine),
        TEST_ON_BOTH(lease_expires_by_its_ttl),
        TEST_ON_BOTH(leases_of_a_run_that_ended_are_released),
        TEST_ON_BOTH(lease_of_a_run_that_is_gone_fails),
        TEST_ON_BOTH(runless_lease_ends_after_a_day),
        TEST_ON_BOTH(parked_places_are_not_kept_for_ever),
        TEST_ON_BOTH(parked_places_go_with_their_config),
        TEST_ON_BOTH(parked_places_go_with_their_environment),
        TEST_ON_BOTH(failed_place_is_retained_for_a_look),
        TEST_ON_BOTH(work_is_kept_past_its_time),
        TEST_ON_BOTH(retained_only_on_failure),
        TEST_ON_BOTH(providers_may_shorten_a_lease_only),
        TEST_ON_BOTH(clock_jumps_lose_nothing),
        TEST_ON_BOTH(ids_that_name_nothing),
        TEST_ON_BOTH(ids_that_name_nothing_in_lists),
        TEST_ON_BOTH(ids_in_capitals),
        TEST_ON_BOTH(what_is_too_long_is_refused),
        TEST_ON_BOTH(unreadable_lease_is_quarantined),
        TEST_ON_BOTH(unreadable_parked_lease_blocks_nobody),
        TEST_ON_BOTH(unreadable_environment_does_not_stop_the_sweep),
        TEST_ON_BOTH(unreadable_run_is_quarantined),
    };
    return cmocka_run_group_tests_name("domain", tests, NULL, NULL);
}
