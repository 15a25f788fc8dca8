/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/npm.c - see npm.h. npm's settings are read here, by the user that has them, and shown
 * to npm as files of its cage: npm runs as another user, which could not read them. */
#include "plugin/npm.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "os/fs.h"

#define CACHE ".npm"
#define CLI "/bin/npm-cli.js" /* npm's program in its own package */

/* The variables that name the files, and where npm finds them in its cage. */
enum npm_file { USER_CONFIG, GLOBAL_CONFIG, AUTHORITIES, MORE_AUTHORITIES, OPENSSL_AUTHORITIES };
static const struct {
    const char *variable, *target;
} npm_files[BERTH_NPM_FILES] = {
    [USER_CONFIG] = {"npm_config_userconfig", "/etc/berth/npmrc"},
    [GLOBAL_CONFIG] = {"npm_config_globalconfig", "/etc/berth/npmrc-global"},
    [AUTHORITIES] = {"npm_config_cafile", "/etc/berth/cafile.pem"},
    [MORE_AUTHORITIES] = {"NODE_EXTRA_CA_CERTS", "/etc/berth/extra.pem"},
    [OPENSSL_AUTHORITIES] = {"SSL_CERT_FILE", "/etc/berth/openssl.pem"},
};

/* Variables that npm gets when we have them. */
static const char *const passed[] = {"HTTP_PROXY",         "HTTPS_PROXY", "NO_PROXY",
                                     "http_proxy",         "https_proxy", "no_proxy",
                                     "npm_config_registry"};

/* Variables win over the files of a package. Scripts are not run, and what is fetched comes from a
 * registry: for a git dependency, npm starts itself once more with the settings of that repository.
 * An older npm knows only `git`. */
static const char *const strict[] = {
    "npm_config_ignore_scripts=true", "npm_config_git=/bin/false",
    "npm_config_allow_git=none",      "npm_config_allow_remote=none",
    "npm_config_allow_file=none",     "npm_config_allow_directory=none"};

static void npm_add_variable(struct berth_npm *n, const char *name, const char *value)
{
    (void)berth_list_add(&n->env, &n->arena, berth_arena_printf(&n->arena, "%s=%s", name, value));
}

/* --- files --- */

/* Lets npm read the file at `path`, which may be NULL. One that cannot be opened is left out, as
 * npm does. */
static int npm_add_file(struct berth_npm *n, enum npm_file which, const char *path,
                        struct berth_error *err)
{
    struct stat st;
    bool own_proc;
    struct berth_error why;
    auto_close int fd = path ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return BERTH_OK;
    struct berth_buf *text = &n->texts[which];
    *text = (struct berth_buf)BERTH_BUF_INIT(BERTH_NPM_FILE_BYTES_MAX);
    text->secret = true; /* it may have a token */
    if (berth_fs_read_all(fd, text, &why) < 0)
        return berth_fail(err, BERTH_E_UNPROCESSABLE, "Cannot read %s for npm: %.300s", path,
                          why.message);
    n->files[n->file_count++] = (struct berth_mount){.kind = BERTH_MOUNT_TEXT,
                                                     .target = npm_files[which].target,
                                                     .source = path,
                                                     .text = berth_buf_str(text)};
    bool caged = berth_cage_check(&own_proc, &why) == BERTH_OK;
    npm_add_variable(n, npm_files[which].variable, caged ? npm_files[which].target : path);
    return BERTH_OK;
}

/* Returns the `cafile` of npm's settings, in the arena; NULL: they have none. */
static const char *find_cafile(struct berth_npm *n, const char *settings)
{
    static const char key[] = "cafile";
    for (const char *at = settings; at && *at; at += strcspn(at, "\n"), at += *at == '\n') {
        const char *value = at + strspn(at, " \t");
        if (strncmp(value, key, sizeof key - 1) != 0)
            continue;
        value += sizeof key - 1;
        value += strspn(value, " \t");
        if (*value != '=')
            continue;
        value++;
        value += strspn(value, " \t\"'");
        size_t len = strcspn(value, "\n");
        while (len && (isspace((unsigned char)value[len - 1]) || strchr("\"'", value[len - 1])))
            len--;
        return berth_arena_copy(&n->arena, value, len);
    }
    return NULL;
}

/* Returns the path of npm's settings for all users, in the arena; or NULL. Node is PREFIX/bin/node.
 */
static const char *npm_global_config(struct berth_npm *n)
{
    const char *node;
    struct berth_error ignored;
    if (berth_launch_find(&n->arena, "node", &node, &ignored) < 0)
        return NULL;
    const char *bin = berth_arena_copy(&n->arena, node, (size_t)(strrchr(node, '/') - node));
    const char *slash = bin ? strrchr(bin, '/') : NULL;
    return slash ? berth_arena_printf(&n->arena, "%.*s/etc/npmrc", (int)(slash - bin), bin) : NULL;
}

/* Returns where npm looks for a file that no variable names, in the arena; or NULL. */
static const char *npm_usual_file(struct berth_npm *n, enum npm_file which)
{
    const char *home = getenv("HOME"), *found;
    switch (which) {
    case USER_CONFIG:
        return home ? berth_arena_printf(&n->arena, "%s/.npmrc", home) : NULL;
    case GLOBAL_CONFIG:
        return npm_global_config(n);
    case AUTHORITIES:
        found = find_cafile(n, n->texts[USER_CONFIG].data);
        return found ? found : find_cafile(n, n->texts[GLOBAL_CONFIG].data);
    default:
        return NULL;
    }
}

static int npm_add_files(struct berth_npm *n, struct berth_error *err)
{
    int rc = BERTH_OK;
    for (int i = 0; rc == BERTH_OK && i < BERTH_NPM_FILES; i++) {
        const char *named = getenv(npm_files[i].variable);
        rc = npm_add_file(n, (enum npm_file)i, named ? named : npm_usual_file(n, (enum npm_file)i),
                          err);
    }
    return rc;
}

/* --- the program --- */

static void npm_fill_env(struct berth_npm *n, const char *into)
{
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        if (getenv(passed[i]))
            npm_add_variable(n, passed[i], getenv(passed[i]));
    for (size_t i = 0; i < sizeof strict / sizeof *strict; i++)
        (void)berth_list_add(&n->env, &n->arena, (char *)(uintptr_t)strict[i]);
    /* A cache that other installs read could be poisoned. */
    npm_add_variable(n, "npm_config_cache", berth_arena_printf(&n->arena, "%s/" CACHE, into));
    (void)berth_list_add(&n->env, &n->arena, NULL);
}

/* Returns the directory that npm may read: its package, or else that of its program. */
static const char *npm_directory(struct berth_npm *n, const char *program)
{
    size_t len = strlen(program), tail = sizeof CLI - 1;
    if (len > tail && strcmp(program + len - tail, CLI) == 0)
        return berth_arena_copy(&n->arena, program, len - tail);
    return berth_arena_copy(&n->arena, program, (size_t)(strrchr(program, '/') - program));
}

/* Returns the real path of the directory, in the arena: that is its path in the cage. */
static int npm_real_path(struct berth_npm *n, const char *path, const char **out,
                         struct berth_error *err)
{
    auto_free char *real = realpath(path, NULL);
    if (!real)
        return berth_fail_errno(err, "Cannot open %s", path);
    *out = berth_arena_strdup(&n->arena, real);
    return berth_arena_check(&n->arena, err);
}

int berth_npm_prepare(struct berth_npm *n, const char *spec, const struct berth_worker_spec *cage,
                      struct berth_error *err)
{
    const char *program, *into = NULL;
    int rc = berth_launch_find(&n->arena, "npm", &program, err);
    if (rc == BERTH_OK)
        rc = npm_real_path(n, cage->state, &into, err);
    if (rc == BERTH_OK)
        rc = npm_add_files(n, err);
    if (rc < 0)
        return rc;
    npm_fill_env(n, into);
    struct berth_worker_spec npm = *cage;
    npm.plugin_key = "npm";
    npm.package = npm_directory(n, program);
    npm.entry = program;
    npm.env = (const char *const *)(void *)n->env.items;
    const char *const arguments[] = {
        "install",    spec,        "--prefix",   into,    "--save", "--ignore-scripts",
        "--no-audit", "--no-fund", "--loglevel", "error", NULL};
    struct berth_launch_extra extra = {
        .arguments = arguments, .files = n->files, .file_count = n->file_count};
    rc = berth_arena_check(&n->arena, err);
    if (rc < 0)
        return rc;
    n->prepared = true;
    return berth_launch_prepare_with("npm", &npm, &extra, &n->launch, err);
}

int berth_npm_tidy(const char *directory, struct berth_error *err)
{
    static const char *const passing[] = {CACHE, "tmp"};
    auto_arena arena = BERTH_ARENA_INIT;
    int rc = BERTH_OK;
    for (size_t i = 0; rc == BERTH_OK && i < sizeof passing / sizeof *passing; i++) {
        const char *path = berth_arena_printf(&arena, "%s/%s", directory, passing[i]);
        rc = path ? berth_fs_remove_tree(path, err) : berth_arena_check(&arena, err);
    }
    return rc;
}

void berth_npm_clear(struct berth_npm *n)
{
    if (n->prepared)
        berth_launch_clear(&n->launch);
    for (int i = 0; i < BERTH_NPM_FILES; i++)
        berth_buf_clear(&n->texts[i]);
    berth_arena_clear(&n->arena);
}
