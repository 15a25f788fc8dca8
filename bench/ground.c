/* SPDX-License-Identifier: Apache-2.0
 * bench/ground.c - see ground.h. */
#include "ground.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef BERTH_WITH_POSTGRES
#include <libpq-fe.h>
#endif

#include "base/json.h"
#include "core/environment/environment.h"
#include "inventory.h"

int make_directory(const char *under, char *out, size_t size, struct berth_error *err)
{
    if ((size_t)snprintf(out, size, "%s/berth-bench.XXXXXX", under) >= size) {
        out[0] = '\0';
        return berth_fail(err, BERTH_E_INVALID, "The directory's name is too long: %s", under);
    }
    if (mkdtemp(out))
        return BERTH_OK;
    int rc = berth_fail_errno(err, "Cannot make a directory in %s", under);
    out[0] = '\0';
    return rc;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

void remove_directory(const char *path)
{
    if (path[0])
        (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#ifdef BERTH_WITH_POSTGRES
static int run_sql(const char *server, const char *sql, struct berth_error *err)
{
    PGconn *conn = PQconnectdb(server);
    PGresult *result = PQexec(conn, sql);
    int rc = PQresultStatus(result) == PGRES_COMMAND_OK
                 ? BERTH_OK
                 : berth_fail(err, BERTH_E_UNAVAILABLE, "%s: %s", sql, PQerrorMessage(conn));
    PQclear(result);
    PQfinish(conn);
    return rc;
}
#else
static int run_sql(const char *server, const char *sql, struct berth_error *err)
{
    (void)server, (void)sql;
    return berth_fail(err, BERTH_E_UNSUPPORTED, "This build has no PostgreSQL.");
}
#endif

static int make_schema(struct ground *g, struct berth_error *err)
{
    static unsigned count;
    char sql[128];
    (void)snprintf(g->schema, sizeof g->schema, "bench_%d_%u", (int)getpid(), count++);
    (void)snprintf(sql, sizeof sql, "CREATE SCHEMA %s", g->schema);
    int rc = run_sql(g->server, sql, err);
    if (rc < 0)
        g->schema[0] = '\0';
    return rc;
}

static void drop_schema(struct ground *g)
{
    if (!g->schema[0])
        return;
    char sql[160];
    struct berth_error err;
    (void)snprintf(sql, sizeof sql, "SET client_min_messages = warning; DROP SCHEMA %s CASCADE",
                   g->schema);
    if (run_sql(g->server, sql, &err) < 0)
        (void)fprintf(stderr, "bench: %s\n", err.message);
}

static int address_of(struct ground *g, enum ground_store store, char *out, size_t size,
                      struct berth_error *err)
{
    int rc = BERTH_OK;
    if (store == ON_SQLITE) {
        (void)snprintf(out, size, "sqlite:%s/berth.db", g->directory);
    } else {
        rc = make_schema(g, err);
        (void)snprintf(out, size, "%s%coptions=-csearch_path%%3D%s", g->server,
                       strchr(g->server, '?') ? '&' : '?', g->schema);
    }
    return rc;
}

static int make_registry(const struct ground *g, struct berth_registry **out,
                         struct berth_error *err)
{
    char places[sizeof g->directory + 16];
    (void)snprintf(places, sizeof places, "%s/inventory", g->directory);
    if (mkdir(places, 0700) < 0)
        return berth_fail_errno(err, "Cannot make %s", places);
    struct berth_driver *inventory;
    int rc = berth_registry_new(out, err);
    if (rc == BERTH_OK)
        rc = berth_builtins.add_drivers(*out, err);
    if (rc == BERTH_OK)
        rc = inventory_new(places, &inventory, err);
    if (rc == BERTH_OK)
        rc = berth_registry_add(*out, "sandbox", "inventory", inventory, err);
    return rc;
}

static int make_environment(struct ground *g, enum berth_environment_driver driver,
                            struct berth_error *err)
{
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    input.name = "bench";
    input.driver = driver;
    input.config_json = driver == BERTH_DRIVER_LOCAL ? "{}" : "{\"provider\":\"inventory\"}";
    input.use = BERTH_CONFIG_SCHEMA;
    struct berth_issues issues = {.arena = &g->arena};
    return berth_environment_create(g->b, &g->arena, &input, &issues, &g->environment, err);
}

int ground_open(struct ground *g, enum ground_store store, const char *under, const char *server,
                enum berth_environment_driver driver, struct berth_error *err)
{
    *g = (struct ground){.server = server};
    char address[1024];
    struct berth_options options = BERTH_OPTIONS_INIT;
    int rc = make_directory(under, g->directory, sizeof g->directory, err);
    if (rc == BERTH_OK)
        rc = address_of(g, store, address, sizeof address, err);
    if (rc == BERTH_OK)
        rc = make_registry(g, &options.registry, err);
    if (rc < 0) {
        berth_registry_free(options.registry);
        return rc;
    }
    options.store = address;
    rc = berth_open(&options, &g->b, err);
    if (rc == BERTH_OK)
        rc = make_environment(g, driver, err);
    return rc;
}

void ground_close(struct ground *g)
{
    berth_close(g->b);
    berth_arena_clear(&g->arena);
    drop_schema(g);
    remove_directory(g->directory);
    *g = (struct ground){0};
}
