/* SPDX-License-Identifier: Apache-2.0
 * tests/support/plugins.c - see plugins.h. */
#include "plugins.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <berth/plugin.h>

#include "base/auto.h"

const char *make_fake_package(struct fixture *f, const char *name)
{
    const char *program = getenv("BERTH_TEST_FAKE_WORKER");
    char file[PATH_MAX];
    if (!program)
        fail_msg("BERTH_TEST_FAKE_WORKER does not name the fake worker");
    char *package = berth_arena_printf(&f->arena, "%s/package-%s", f->directory, name);
    assert_int_equal(mkdir(package, 0755), 0);
    /* A program cannot be linked across file systems, and need not be copied: it is small. */
    char command[2 * PATH_MAX];
    (void)snprintf(command, sizeof command, "cp '%s' '%s/worker'", program, package);
    assert_int_equal(system(command), 0);
    (void)snprintf(file, sizeof file, "%s/manifest.json", package);
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    (void)fprintf(
        out,
        "{\"id\":\"test.%s\",\"apiVersion\":1,\"version\":\"1.0.0\",\"displayName\":\"%s\","
        "\"description\":\"x\",\"author\":\"x\",\"categories\":[\"automation\"],"
        "\"capabilities\":[\"environment.drivers.register\"],"
        "\"entrypoints\":{\"worker\":\"worker\"},\"environmentDrivers\":[{\"driverKey\":"
        "\"%s\",\"kind\":\"sandbox_provider\",\"displayName\":\"x\",\"configSchema\":"
        "{\"type\":\"object\"}}]}",
        name, name, name);
    assert_int_equal(fclose(out), 0);
    return package;
}

struct berth_plugin *install_fake(struct fixture *f, const char *name)
{
    struct berth_plugin_install request = BERTH_PLUGIN_INSTALL_INIT;
    struct berth_plugin *plugin;
    request.source = make_fake_package(f, name);
    assert_ok(f, berth_plugin_install(f->b, &f->arena, &request, &plugin, &f->err));
    return plugin;
}

int count_fake_places(struct fixture *f, const struct berth_plugin *plugin)
{
    char path[PATH_MAX];
    int count = 0;
    (void)snprintf(path, sizeof path, "%s/plugin-state/%s", f->directory, plugin->id);
    DIR *dir = opendir(path);
    if (!dir && f->kind == ON_POSTGRES) { /* beside the user's own data then */
        (void)snprintf(path, sizeof path, "%s/berth/plugin-state/%s", getenv("XDG_DATA_HOME"),
                       plugin->id);
        dir = opendir(path);
    }
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        count += strncmp(entry->d_name, "paperclip-fake-sandbox-", 23) == 0;
    if (dir)
        (void)closedir(dir);
    return count;
}

struct berth_environment *make_fake_environment(struct fixture *f, const char *name, bool reuse)
{
    char config[300];
    (void)snprintf(config, sizeof config,
                   "{\"provider\":\"%s\",\"timeoutMs\":80000000,\"reuseLease\":%s}", name,
                   reuse ? "true" : "false");
    return make_environment(f, BERTH_DRIVER_SANDBOX, config);
}
