/* SPDX-License-Identifier: Apache-2.0
 * tests/support/fixture.c - see fixture.h. */
#include "fixture.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/time.h"
#include "inventory.h"
#include "scripted.h"
#include "store/db.h"
#include "store/store.h"

enum fixture_store on_sqlite = ON_SQLITE, on_postgres = ON_POSTGRES;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

/* Each test has a schema of its own in the one database. */
static void make_schema(struct fixture *f)
{
    const char *base = getenv("BERTH_TEST_POSTGRES");
    if (!base)
        fail_msg("BERTH_TEST_POSTGRES is not set: run this under tests/with-postgres");
    struct berth_id id = berth_id_new();
    char schema[48] = "t";
    for (int i = 0, n = 1; id.text[i]; i++)
        if (id.text[i] != '-')
            schema[n++] = id.text[i];
    schema[33] = '\0';
    char command[1024];
    (void)snprintf(command, sizeof command, "psql -q -X '%s' -c 'CREATE SCHEMA %s'", base, schema);
    if (system(command) != 0)
        fail_msg("cannot create a schema: %s", command);
    (void)snprintf(f->store, sizeof f->store, "%s&options=-csearch_path%%3D%s", base, schema);
}

void fixture_make(struct fixture *f, enum fixture_store kind)
{
    *f = (struct fixture){.kind = kind, .world = scripted_new()};
    (void)snprintf(f->directory, sizeof f->directory, "/tmp/berth-test.XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    (void)snprintf(f->inventory, sizeof f->inventory, "%s/inventory", f->directory);
    assert_int_equal(mkdir(f->inventory, 0700), 0);
    assert_int_equal(setenv("XDG_DATA_HOME", f->directory, 1), 0); /* nothing in the user's own */
    assert_int_equal(setenv("XDG_RUNTIME_DIR", f->directory, 1), 0);
    if (kind == ON_SQLITE)
        (void)snprintf(f->store, sizeof f->store, "sqlite:%s/berth.db", f->directory);
    else
        make_schema(f);
}

struct berth_registry *fixture_registry(const struct fixture *f)
{
    struct berth_error err;
    struct berth_registry *registry;
    struct berth_driver *inventory, *scripted, *blind;
    if (berth_registry_new(&registry, &err) < 0 || berth_builtins.add_drivers(registry, &err) < 0 ||
        inventory_new(f->inventory, &inventory, &err) < 0 ||
        berth_registry_add(registry, "sandbox", "inventory", inventory, &err) < 0 ||
        scripted_driver(f->world, true, &scripted, &err) < 0 ||
        berth_registry_add(registry, "sandbox", "scripted", scripted, &err) < 0 ||
        scripted_driver(f->world, false, &blind, &err) < 0 ||
        berth_registry_add(registry, "sandbox", "blind", blind, &err) < 0)
        fail_msg("registry: %s", err.message);
    return registry;
}

static void log_to_stderr(void *ctx, enum berth_log_level level, const char *line)
{
    (void)ctx, (void)level;
    (void)fprintf(stderr, "# %s\n", line);
}

void fixture_open_with(struct fixture *f, struct berth_registry *registry)
{
    struct berth_options options = BERTH_OPTIONS_INIT;
    char key_file[sizeof f->directory + 16];
    (void)snprintf(key_file, sizeof key_file, "%s/secrets.key", f->directory);
    options.store = f->store;
    options.key_file = key_file;
    options.settings.self_sweep_ms = 0; /* tests sweep when they want to */
    options.registry = registry;
    if (getenv("BERTH_TEST_LOG"))
        options.log = (struct berth_log){.write = log_to_stderr};
    assert_ok(f, berth_open(&options, &f->b, &f->err));
}

void fixture_open(struct fixture *f)
{
    fixture_open_with(f, fixture_registry(f));
}

void fixture_close(struct fixture *f)
{
    berth_close(f->b);
    f->b = NULL;
}

void fixture_destroy(struct fixture *f)
{
    scripted_go_on(f->world); /* closing waits for calls under way */
    fixture_close(f);
    scripted_free(f->world);
    berth_arena_clear(&f->arena);
    (void)nftw(f->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int fixture_setup(void **state)
{
    enum fixture_store kind = *(enum fixture_store *)*state;
    struct fixture *f = calloc(1, sizeof *f);
    fixture_make(f, kind);
    fixture_open(f);
    *state = f;
    return 0;
}

int fixture_teardown(void **state)
{
    fixture_destroy(*state);
    free(*state);
    return 0;
}

struct statement {
    const char *sql;
    struct berth_value arg;
    int nargs;
    int64_t answer;
};

static int tx_statement(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct statement *s = ctx;
    return berth_db_run(db, s->sql, &s->arg, s->nargs, berth_row_int, &s->answer, err);
}

void pause_ms(int ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    (void)nanosleep(&pause, NULL);
}

void move_clock(int64_t ms)
{
    berth_time_shift(ms, 0);
}

/* Waits for the next millisecond, so that a list has the new row before all that were made earlier.
 * Bounded, because a test may hold the clock still. */
static void next_ms(void)
{
    int64_t now_ms = berth_time_wall_ms();
    for (int i = 0; i < 20 && berth_time_wall_ms() == now_ms; i++)
        (void)usleep(100);
}

int try_lease(struct fixture *f, const struct berth_environment *e, const struct berth_run *run)
{
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = e->id;
    request.run_id = run ? run->id : NULL;
    struct berth_lease *lease;
    next_ms();
    return berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err);
}

struct berth_lease *newest_lease(struct fixture *f, const struct berth_environment *e)
{
    struct berth_lease_filter filter = BERTH_LEASE_FILTER_INIT;
    filter.environment_id = e->id;
    struct berth_list list;
    assert_ok(f, berth_lease_list(f->b, &f->arena, &filter, &list, &f->err));
    assert_true(list.count > 0);
    struct berth_lease *found = list.items[0];
    for (int i = 1; i < list.count; i++) {
        struct berth_lease *l = list.items[i];
        if (l->created_at_ms > found->created_at_ms)
            found = l;
    }
    return found;
}

void assert_row(struct fixture *f, const struct berth_lease *lease, enum berth_lease_status status,
                enum berth_lease_place place, enum berth_lease_cleanup cleanup)
{
    const struct berth_lease *row = look_at_lease(f, lease);
    assert_string_equal(berth_lease_statuses.names[row->status],
                        berth_lease_statuses.names[status]);
    assert_string_equal(berth_lease_places.names[row->place], berth_lease_places.names[place]);
    assert_string_equal(berth_lease_cleanups.names[row->cleanup],
                        berth_lease_cleanups.names[cleanup]);
}

void assert_done(struct fixture *f, const struct berth_lease *lease, enum berth_lease_status status,
                 enum berth_lease_place place, enum berth_lease_cleanup cleanup)
{
    assert_row(f, lease, status, place, cleanup);
    const struct berth_lease *row = look_at_lease(f, lease);
    assert_int_equal(row->due_at_ms, 0);
    assert_null(row->owner);
    assert_int_equal(row->duty, BERTH_DUTY_NULL);
}

void await_lease_done(struct fixture *f, const struct berth_lease *lease)
{
    for (int i = 0; i < 6000 && look_at_lease(f, lease)->due_at_ms; i++)
        pause_ms(10);
}

void check_world(struct fixture *f)
{
    struct berth_lease_filter filter = BERTH_LEASE_FILTER_INIT;
    filter.standing_only = true;
    filter.limit = 100000;
    struct berth_list standing;
    assert_ok(f, berth_lease_list(f->b, &f->arena, &filter, &standing, &f->err));
    int answered = 0;
    for (int i = 0; i < standing.count; i++) {
        const struct berth_lease *l = standing.items[i];
        answered += l->provider_lease_id ? scripted_has(f->world, l->provider_lease_id)
                                         : scripted_has_label(f->world, l->id);
    }
    assert_int_equal(answered, scripted_count(f->world));
}

int count_rows(struct fixture *f, const char *sql)
{
    struct statement s = {.sql = sql};
    assert_ok(f, berth_store_read(f->b->store, tx_statement, &s, &f->err));
    return (int)s.answer;
}

void run_sql(struct fixture *f, const char *sql, const char *arg)
{
    struct statement s = {.sql = sql, .arg = berth_text(arg), .nargs = arg ? 1 : 0};
    assert_ok(f, berth_store_tx(f->b->store, tx_statement, &s, &f->err));
}

/* All activity about the entity, newest first. */
static struct berth_list activity_of(struct fixture *f, const char *entity_id)
{
    struct berth_activity_filter filter = {.entity_id = entity_id, .limit = 1000};
    struct berth_list list;
    assert_ok(f, berth_activity_list(f->b, &f->arena, &filter, &list, &f->err));
    return list;
}

const struct berth_activity *last_activity(struct fixture *f, const char *entity_id,
                                           const char *action)
{
    struct berth_list list = activity_of(f, entity_id);
    for (int i = 0; i < list.count; i++) {
        const struct berth_activity *a = list.items[i];
        if (strcmp(a->action, action) == 0)
            return a;
    }
    return NULL;
}

int count_activity(struct fixture *f, const char *entity_id, const char *action)
{
    struct berth_list list = activity_of(f, entity_id);
    int count = 0;
    for (int i = 0; i < list.count; i++)
        count += strcmp(((const struct berth_activity *)list.items[i])->action, action) == 0;
    return count;
}

void assert_ok_at(int rc, const struct berth_error *err, const char *what, const char *file,
                  int line)
{
    if (rc < 0) {
        print_error("%s\n  failed (%s): %s [%s]\n", what, berth_code_wire(rc), err->message,
                    err->where);
        _fail(file, line);
    }
}

void assert_fails_at(int rc, int code, const char *text, const struct berth_error *err,
                     const char *what, const char *file, int line)
{
    if (rc != code || (text && !strstr(err->message, text))) {
        print_error("%s\n  gave %s \"%s\"\n  wanted %s \"%s\"\n", what, berth_code_wire(rc),
                    rc < 0 ? err->message : "", berth_code_wire(code), text ? text : "");
        _fail(file, line);
    }
}

struct berth_json *parse_json(const char *text)
{
    struct berth_json *value = NULL;
    struct berth_error err;
    if (berth_json_parse(text, strlen(text), BERTH_JSON_OURS, &value, &err) < 0)
        fail_msg("%s: %s", text, err.message);
    return value;
}

const char *json_text(struct fixture *f, const char *json, const char *path)
{
    auto_json *value = parse_json(json);
    const struct berth_json *at = value;
    char copy[256];
    (void)snprintf(copy, sizeof copy, "%s", path);
    char *save;
    for (char *part = strtok_r(copy, ".", &save); part; part = strtok_r(NULL, ".", &save))
        at = berth_json_get(at, part);
    if (berth_json_type(at) == BERTH_JSON_NULL)
        return NULL;
    if (berth_json_is(at, BERTH_JSON_STRING))
        return berth_arena_strdup(&f->arena, berth_json_str(at));
    return berth_json_canonical_in(&f->arena, at);
}

bool json_has(const char *json, const char *key)
{
    auto_json *value = parse_json(json);
    return berth_json_get(value, key) != NULL;
}

struct berth_environment *make_environment(struct fixture *f, enum berth_environment_driver driver,
                                           const char *config)
{
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    input.name = "place under test";
    input.driver = driver;
    input.config_json = config;
    input.use = BERTH_CONFIG_SCHEMA;
    struct berth_issues issues = {.arena = &f->arena};
    struct berth_environment *e;
    assert_ok(f, berth_environment_create(f->b, &f->arena, &input, &issues, &e, &f->err));
    return e;
}

struct berth_run *make_run(struct fixture *f)
{
    struct berth_run *run;
    next_ms();
    assert_ok(f, berth_run_create(f->b, &f->arena, NULL, &run, &f->err));
    return run;
}

struct berth_lease *take_lease(struct fixture *f, const struct berth_environment *e,
                               const struct berth_run *run)
{
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = e->id;
    request.run_id = run ? run->id : NULL;
    struct berth_lease *lease;
    next_ms();
    assert_ok(f, berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err));
    next_ms(); /* a test may acquire the next one by itself */
    return lease;
}

struct berth_lease *give_lease(struct fixture *f, const struct berth_lease *lease,
                               enum berth_lease_status status)
{
    struct berth_release_request request = {.lease_id = lease->id, .status = status};
    struct berth_lease *released;
    assert_ok(f, berth_lease_release(f->b, &f->arena, &request, &released, &f->err));
    return released;
}

struct berth_lease *look_at_lease(struct fixture *f, const struct berth_lease *lease)
{
    struct berth_lease *now;
    assert_ok(f, berth_lease_get(f->b, &f->arena, lease->id, &now, &f->err));
    return now;
}

struct berth_sweep_report sweep(struct fixture *f)
{
    struct berth_sweep_options options = BERTH_SWEEP_OPTIONS_INIT;
    struct berth_sweep_report report;
    assert_ok(f, berth_sweep(f->b, &options, &report, &f->err));
    return report;
}

/* Does a standing row answer for the place in that file, by its id or by its label? */
static bool is_answered(const struct berth_list *standing, const char *name)
{
    for (int i = 0; i < standing->count; i++) {
        const struct berth_lease *l = standing->items[i];
        if (l->provider_lease_id ? strstr(l->provider_lease_id, name) != NULL
                                 : strcmp(l->id, name) == 0)
            return true;
    }
    return false;
}

static const char *broken_row(struct fixture *f, const struct berth_list *standing, int at)
{
    const struct berth_lease *l = standing->items[at];
    if (!l->provider || strcmp(l->provider, "inventory") != 0)
        return NULL;
    bool there = l->provider_lease_id && inventory_has(f->inventory, l->provider_lease_id);
    if ((l->status == BERTH_LEASE_ACTIVE || l->place == BERTH_PLACE_PARKED) && !there)
        return berth_arena_printf(&f->arena, "lease %s (%s, %s) answers for %s, which is not there",
                                  l->id, berth_lease_statuses.names[l->status],
                                  berth_lease_places.names[l->place],
                                  l->provider_lease_id ? l->provider_lease_id : "nothing");
    for (int k = 0; k < at; k++) {
        const struct berth_lease *other = standing->items[k];
        if (l->provider_lease_id && other->provider_lease_id &&
            strcmp(l->provider_lease_id, other->provider_lease_id) == 0)
            return berth_arena_printf(&f->arena, "%s is held by two leases", l->provider_lease_id);
    }
    return NULL;
}

const char *broken_invariant(struct fixture *f)
{
    struct berth_lease_filter filter = BERTH_LEASE_FILTER_INIT;
    filter.standing_only = true;
    filter.limit = 100000;
    struct berth_list standing;
    assert_ok(f, berth_lease_list(f->b, &f->arena, &filter, &standing, &f->err));
    const char *broken = NULL;
    for (int i = 0; i < standing.count && !broken; i++)
        broken = broken_row(f, &standing, i);
    DIR *dir = opendir(f->inventory);
    assert_non_null(dir);
    for (struct dirent *entry; !broken && (entry = readdir(dir));)
        if (berth_id_valid(entry->d_name) && !is_answered(&standing, entry->d_name))
            broken = berth_arena_printf(&f->arena, "place %s lives, and no row answers for it",
                                        entry->d_name);
    (void)closedir(dir);
    return broken;
}

void check_invariants(struct fixture *f)
{
    const char *broken = broken_invariant(f);
    if (broken)
        fail_msg("%s", broken);
}
