/* SPDX-License-Identifier: Apache-2.0
 * src/core/paths.c - see paths.h. */
#include "core/paths.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "os/fs.h"
#include "store/store.h"

int berth_data_directory(char **out, struct berth_error *err)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (!home || !*home) {
        const struct passwd *user = getpwuid(getuid());
        home = user ? user->pw_dir : NULL;
    }
    bool named = data && data[0] == '/';
    if (!named && !home)
        return berth_fail(
            err, BERTH_E_INVALID,
            "HOME is not set, so there is no default store. Name a store with --store.");
    if (asprintf(out, "%s%s/berth", named ? data : home, named ? "" : "/.local/share") < 0)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.");
    return BERTH_OK;
}

int berth_data_directory_check(const struct berth_store *store, struct berth_error *err)
{
    auto_free char *directory = NULL;
    int rc = berth_store_shared(store) ? berth_data_directory(&directory, err) : BERTH_OK;
    return rc < 0 || !directory ? rc : berth_fs_refuse_root("data directory", directory, err);
}

int berth_default_store(char **out, struct berth_error *err)
{
    auto_free char *directory = NULL;
    int rc = berth_data_directory(&directory, err);
    if (rc == BERTH_OK && asprintf(out, "sqlite:%s/berth.db", directory) < 0)
        rc = berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.");
    return rc;
}

int berth_key_file(const struct berth_store *store, char **out, struct berth_error *err)
{
    auto_free char *directory = NULL;
    const char *where = berth_store_where(store), *name = strrchr(where, '/');
    int len;
    if (berth_store_shared(store)) {
        int rc = berth_data_directory(&directory, err);
        if (rc < 0)
            return rc;
        len = asprintf(out, "%s/secrets.key", directory);
    } else if (name && strcmp(name, "/berth.db") == 0) {
        len = asprintf(out, "%.*s/secrets.key", (int)(name - where), where);
    } else {
        len = asprintf(out, "%s.key", where);
    }
    return len < 0 ? berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.") : BERTH_OK;
}

int berth_directory(const struct berth *b, const char *name, char **out, struct berth_error *err)
{
    auto_free char *directory = NULL;
    const char *where = berth_store_where(b->store), *last = strrchr(where, '/');
    int rc = berth_store_shared(b->store) ? berth_data_directory(&directory, err) : BERTH_OK;
    if (rc < 0)
        return rc;
    int len = directory ? asprintf(out, "%s/%s", directory, name)
                        : asprintf(out, "%.*s/%s", last ? (int)(last - where) : 1,
                                   last ? where : ".", name);
    return len < 0 ? berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.") : BERTH_OK;
}
