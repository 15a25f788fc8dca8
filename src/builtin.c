/* SPDX-License-Identifier: Apache-2.0
 * src/builtin.c - the list of drivers and databases: the one place that names them all. */
#include "base/json.h"
#include "core/berth.h"
#include "driver/fake.h"
#include "driver/local.h"
#include "driver/ssh.h"
#include "driver/worker.h"
#include "os/children.h"
#include "plugin/manager.h"
#include "plugin/package.h"
#include "store/db.h"
#ifdef BERTH_WITH_POSTGRES
#include "store/postgres.h"
#endif
#include "store/sqlite.h"

static const struct berth_database *const databases[] = {
    &berth_database_sqlite,
#ifdef BERTH_WITH_POSTGRES
    &berth_database_postgres,
    &berth_database_postgresql,
#endif
    NULL,
};

static int add_drivers(struct berth_registry *registry, struct berth_error *err)
{
    static const struct {
        const char *driver, *provider;
        int (*make)(struct berth_engine *engine, struct berth_driver **out,
                    struct berth_error *err);
    } drivers[] = {
        {"local", NULL, berth_driver_local_new},
        {"ssh", NULL, berth_driver_ssh_new},
        {"sandbox", "fake", berth_driver_fake_new},
    };
    for (unsigned i = 0; i < sizeof drivers / sizeof drivers[0]; i++) {
        struct berth_driver *driver;
        int rc = drivers[i].make(berth_registry_engine(registry), &driver, err);
        if (rc == BERTH_OK)
            rc = berth_registry_add(registry, drivers[i].driver, drivers[i].provider, driver, err);
        if (rc < 0)
            return rc;
    }
    return BERTH_OK;
}

static void tune_process(void)
{
    berth_sqlite_tune_process();
    berth_json_tune_process();
    berth_children_inherit();
}

static int new_worker(const struct berth_worker_route *what, struct berth_driver **out,
                      struct berth_error *err)
{
    struct berth_worker_driver_options options = {.engine = what->engine,
                                                  .workers = what->workers,
                                                  .inputs = what->inputs,
                                                  .plugin_id = what->plugin_id,
                                                  .plugin_key = what->plugin_key,
                                                  .driver_key = what->driver_key,
                                                  .schema_json = what->schema_json,
                                                  .sandbox = what->sandbox,
                                                  .start_ms = what->start_ms,
                                                  .ready_ms = what->ready_ms,
                                                  .poll_ms = what->poll_ms};
    return berth_driver_worker_new(&options, out, err);
}

const struct berth_builtins berth_builtins = {
    .databases = databases,
    .add_drivers = add_drivers,
    .provider_default = "fake",
    .tune_process = tune_process,
    .manager = &berth_plugin_manager,
    .packages = &berth_plugin_packages,
    .new_worker = new_worker,
};
