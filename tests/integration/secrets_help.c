/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/secrets_help.c - see secrets.h. */
#include "secrets.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "store/db.h"
#include "store/store.h"

/* --- runtimes --- */

const char *key_file_of(struct fixture *f)
{
    return text(f, "%s/secrets.key", f->directory);
}

struct berth *open_another(struct fixture *f, const char *key_file, struct berth_log log)
{
    struct berth_options options = BERTH_OPTIONS_INIT;
    options.store = f->store;
    options.key_file = key_file ? key_file : key_file_of(f);
    options.settings.self_sweep_ms = 0;
    options.registry = fixture_registry(f);
    options.log = log;
    struct berth *b = NULL;
    assert_ok(f, berth_open(&options, &b, &f->err));
    return b;
}

void reopen(struct fixture *f, const char *key_file, struct berth_log log)
{
    fixture_close(f);
    f->b = open_another(f, key_file, log);
}

/* --- secrets --- */

void bind_secret(struct fixture *f, const char *secret_id)
{
    run_sql(f,
            "INSERT INTO secret_bindings (company_id, target_type, target_id, config_path,"
            " secret_id, created_at) SELECT company_id, 'test', id, 'value', id, 1 FROM secrets"
            " WHERE id = $1",
            secret_id);
}

static struct berth_secret *make(struct fixture *f, const struct berth_secret_input *input,
                                 const void *value, size_t len)
{
    struct berth_secret *secret = NULL;
    assert_ok(f, berth_secret_create(f->b, &f->arena, input, value, len, &secret, &f->err));
    bind_secret(f, secret->id);
    return secret;
}

struct berth_secret *make_secret(struct fixture *f, const char *name, const void *value, size_t len)
{
    return make(f, &(struct berth_secret_input){.name = name}, value, len);
}

struct berth_secret *make_text_secret(struct fixture *f, const char *name, const char *value)
{
    return make_secret(f, name, value, strlen(value));
}

struct berth_secret *make_secret_of(struct fixture *f, const char *company_id, const char *name,
                                    const char *value)
{
    struct berth_secret_input input = {.name = name, .company_id = company_id};
    return make(f, &input, value, strlen(value));
}

struct berth_secret *look_at_secret(struct fixture *f, const char *id)
{
    struct berth_secret *secret = NULL;
    assert_ok(f, berth_secret_get(f->b, &f->arena, id, &secret, &f->err));
    return secret;
}

void rotate(struct fixture *f, const char *id, const char *value)
{
    struct berth_secret *secret;
    assert_ok(
        f, berth_secret_rotate(f->b, &f->arena, id, value, strlen(value), NULL, &secret, &f->err));
}

void make_company(struct fixture *f, const char *id)
{
    run_sql(f, "INSERT INTO companies (id, name, created_at, updated_at) VALUES ($1, 'Acme', 1, 1)",
            id);
}

static const char *company_of(struct fixture *f, struct berth *b, const char *secret_id)
{
    struct berth_secret *secret = NULL;
    if (berth_secret_get(b, &f->arena, secret_id, &secret, &f->err) < 0)
        return f->b->company_id;
    return secret->company_id;
}

int resolve(struct fixture *f, struct berth *b, const char *secret_id, int64_t version,
            struct berth_locked *out)
{
    struct berth_resolve_request request = {.company_id = company_of(f, b, secret_id),
                                            .secret_id = secret_id,
                                            .version = version,
                                            .consumer_type = "test",
                                            .consumer_id = secret_id,
                                            .config_path = "value"};
    return berth_secret_resolve(b, &request, out, &f->err);
}

void assert_value_in(struct fixture *f, struct berth *b, const char *secret_id, int64_t version,
                     const char *value)
{
    auto_locked got = BERTH_LOCKED_INIT;
    assert_ok(f, resolve(f, b, secret_id, version, &got));
    assert_int_equal(got.len, strlen(value));
    assert_string_equal(got.bytes, value);
}

const struct berth_secret_event *last_event(struct fixture *f, const char *secret_id)
{
    struct berth_list events;
    assert_ok(f, berth_secret_events(f->b, &f->arena, secret_id, 0, 1, &events, &f->err));
    assert_int_equal(events.count, 1);
    return events.items[0];
}

/* --- environments --- */

int try_save(struct fixture *f, const struct berth_environment *e, const char *config,
             struct berth_environment **out)
{
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    struct berth_issues issues = {.arena = &f->arena};
    input.driver = BERTH_DRIVER_SANDBOX;
    input.config_json = config;
    if (e) {
        input.fields = BERTH_FIELD_CONFIG;
        return berth_environment_update(f->b, &f->arena, e->id, &input, &issues, out, &f->err);
    }
    input.name = "My  \xc3\x89tude #1";
    return berth_environment_create(f->b, &f->arena, &input, &issues, out, &f->err);
}

struct berth_environment *save(struct fixture *f, const struct berth_environment *e,
                               const char *config)
{
    struct berth_environment *saved = NULL;
    assert_ok(f, try_save(f, e, config, &saved));
    return saved;
}

void make_local(struct fixture *f, const struct berth_environment *e)
{
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    struct berth_issues issues = {.arena = &f->arena};
    struct berth_environment *out;
    input.fields = BERTH_FIELD_DRIVER | BERTH_FIELD_CONFIG;
    input.driver = BERTH_DRIVER_LOCAL;
    input.config_json = "{}";
    assert_ok(f, berth_environment_update(f->b, &f->arena, e->id, &input, &issues, &out, &f->err));
}

/* --- looking for a text --- */

struct query {
    struct fixture *f;
    const char *sql;
    const struct berth_value *args;
    int nargs;
    struct berth_list rows; /* the first column, as text */
};

static int on_text(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    struct query *q = ctx;
    const char *value = row[0].type == BERTH_VALUE_TEXT ? row[0].text : "";
    (void)berth_list_add(&q->rows, &q->f->arena, berth_arena_strdup(&q->f->arena, value));
    return berth_arena_check(&q->f->arena, err);
}

static int tx_query(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct query *q = ctx;
    q->rows = (struct berth_list){0};
    return berth_db_run(db, q->sql, q->args, q->nargs, on_text, q, err);
}

static struct berth_list texts_of(struct fixture *f, const char *sql, const char *arg)
{
    struct berth_value value = berth_text(arg);
    struct query q = {.f = f, .sql = sql, .args = &value, .nargs = arg ? 1 : 0};
    assert_ok(f, berth_store_read(f->b->store, tx_query, &q, &f->err));
    return q.rows;
}

const char *first_text(struct fixture *f, const char *sql)
{
    struct berth_list rows = texts_of(f, sql, NULL);
    assert_true(rows.count > 0);
    return rows.items[0];
}

int try_sql(struct fixture *f, const char *sql, const char *a, const char *b, int64_t number)
{
    struct berth_value args[3];
    int nargs = 0;
    if (a)
        args[nargs++] = berth_text(a);
    if (b)
        args[nargs++] = berth_text(b);
    else
        args[nargs++] = berth_int(number);
    struct query q = {.f = f, .sql = sql, .args = args, .nargs = nargs};
    struct berth_error refused;
    return berth_store_tx(f->b->store, tx_query, &q, &refused) < 0 ? -1 : 0;
}

int count_in_tables(struct fixture *f, const char *wanted)
{
    bool sqlite = f->kind == ON_SQLITE;
    struct berth_list tables =
        texts_of(f,
                 sqlite ? "SELECT name FROM sqlite_master WHERE type = 'table'"
                        : "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()",
                 NULL);
    assert_true(tables.count >= 10);
    int count = 0;
    for (int i = 0; i < tables.count; i++) {
        const char *table = tables.items[i], *row = "CAST(r AS TEXT)";
        if (sqlite)
            row = texts_of(f,
                           "SELECT group_concat('coalesce(\"' || name || '\",'''')', '||')"
                           " FROM pragma_table_info($1)",
                           table)
                      .items[0];
        count += texts_of(f,
                          text(f,
                               sqlite ? "SELECT 'x' FROM \"%s\" r WHERE instr(%s, $1) > 0"
                                      : "SELECT 'x' FROM \"%s\" r WHERE strpos(%s, $1) > 0",
                               table, row),
                          wanted)
                     .count;
    }
    return count;
}

static struct {
    const char *text;
    char found[PATH_MAX];
    int files;
} search;

static int search_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    if (type != FTW_F || !S_ISREG(st->st_mode) || st->st_size == 0)
        return 0;
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0; /* the server took it away */
    size_t size = (size_t)st->st_size;
    auto_free char *bytes = malloc(size);
    assert_non_null(bytes);
    ssize_t got = pread(fd, bytes, size, 0);
    search.files++;
    if (got > 0 && memmem(bytes, (size_t)got, search.text, strlen(search.text)))
        (void)snprintf(search.found, sizeof search.found, "%s", path);
    return 0;
}

const char *find_in_files(struct fixture *f, const char *wanted)
{
    search.text = wanted;
    search.found[0] = '\0';
    search.files = 0;
    const char *directory = f->directory;
    if (f->kind == ON_POSTGRES) {
        run_sql(f, "CHECKPOINT", NULL);
        directory = first_text(f, "SELECT setting FROM pg_settings WHERE name = 'data_directory'");
    }
    assert_int_equal(nftw(directory, search_file, 16, FTW_PHYS), 0);
    assert_true(search.files > 0);
    return *search.found ? search.found : NULL;
}
