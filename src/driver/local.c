/* SPDX-License-Identifier: Apache-2.0
 * src/driver/local.c - this machine, in place: nothing is made, so nothing can leak. */
#include "driver/local.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"
#include "os/fs.h"
#include "os/process.h"
#include "os/spawn.h"
#include "os/strays.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/local/sbin:/usr/bin:/bin:/usr/sbin:/sbin"

struct local_driver {
    struct berth_driver base;
    struct berth_engine *engine;
};

static int local_acquire(struct berth_driver *d, struct berth_call *call,
                         const struct berth_place_request *who, struct berth_place *out,
                         struct berth_error *err)
{
    (void)d, (void)call, (void)who, (void)err;
    *out = (struct berth_place){0};
    return BERTH_OK;
}

static int local_release(struct berth_driver *d, struct berth_call *call,
                         const struct berth_place_request *who, const struct berth_place *place,
                         enum berth_release_mode mode, struct berth_error *err)
{
    (void)d, (void)call, (void)who, (void)place, (void)mode, (void)err;
    return BERTH_OK;
}

static int local_probe(struct berth_driver *d, struct berth_call *call,
                       const struct berth_place_request *who, struct berth_probe *out,
                       struct berth_error *err)
{
    (void)d, (void)who;
    char host[HOST_NAME_MAX + 1] = "", cwd[PATH_MAX];
    (void)gethostname(host, sizeof host - 1);
    auto_buf buf = BERTH_BUF_INIT(BERTH_METADATA_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "hostname", host);
    berth_json_put_str(&w, "cwd", getcwd(cwd, sizeof cwd));
    berth_json_close(&w, '}');
    out->ok = true;
    out->summary = "Local environment is available on this Paperclip host.";
    out->details_json = berth_arena_strdup(call->arena, berth_buf_str(&buf));
    return out->details_json ? BERTH_OK : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.");
}

static int make_own_directory(const struct berth_place_request *who, struct berth_error *err)
{
    if (mkdir(who->own_directory, S_IRWXU) == 0 || errno == EEXIST)
        return BERTH_OK;
    return berth_fs_mkdirs(who->own_directory, S_IRWXU, err);
}

static int local_realize(struct berth_driver *d, struct berth_call *call,
                         const struct berth_place_request *who, const struct berth_place *place,
                         const struct berth_workspace *workspace, struct berth_realized *out,
                         struct berth_error *err)
{
    (void)d, (void)place;
    const char *cwd = workspace->local_path    ? workspace->local_path
                      : workspace->remote_path ? workspace->remote_path
                                               : who->own_directory;
    struct stat st;
    int rc = cwd == who->own_directory ? make_own_directory(who, err) : BERTH_OK;
    if (rc < 0)
        return rc;
    if (stat(cwd, &st) < 0)
        return berth_fail_errno(err, "The workspace %s cannot be used", cwd);
    if (!S_ISDIR(st.st_mode))
        return berth_fail(err, BERTH_E_UNPROCESSABLE, "The workspace %s is not a directory.", cwd);
    out->cwd = berth_arena_strdup(call->arena, cwd);
    return berth_arena_check(call->arena, err);
}

static void local_free(struct berth_driver *d)
{
    free(d);
}

/* --- commands --- */

struct local_running {
    struct berth_running base;
    struct berth_process *process;
};

static struct berth_process *process_of(struct berth_running *r)
{
    return ((struct local_running *)r)->process;
}

static void running_cancel(struct berth_running *r)
{
    berth_process_cancel(process_of(r));
}

static int running_write(struct berth_running *r, const void *bytes, size_t len,
                         struct berth_error *err)
{
    return berth_process_write(process_of(r), bytes, len, err);
}

static void running_close_stdin(struct berth_running *r)
{
    berth_process_close_stdin(process_of(r));
}

static void running_pause(struct berth_running *r, bool paused)
{
    berth_process_pause(process_of(r), paused);
}

static void running_resize(struct berth_running *r, unsigned short rows, unsigned short columns)
{
    berth_process_resize(process_of(r), rows, columns);
}

static void running_free(struct berth_running *r)
{
    berth_process_free(process_of(r));
    free(r);
}

static const struct berth_running_ops running_ops = {.cancel = running_cancel,
                                                     .write = running_write,
                                                     .close_stdin = running_close_stdin,
                                                     .pause = running_pause,
                                                     .resize = running_resize,
                                                     .free = running_free,
                                                     .quick_free = true};

/* Returns the directory to run in: a relative one is below the lease's own, which is made. */
static int find_directory(struct berth_arena *arena, const struct berth_place_request *who,
                          const char *cwd, const char **out, struct berth_error *err)
{
    *out = cwd;
    if (cwd && *cwd == '/')
        return BERTH_OK;
    *out = cwd ? berth_arena_printf(arena, "%s/%s", who->own_directory, cwd) : who->own_directory;
    int rc = make_own_directory(who, err);
    return rc < 0 ? rc : berth_arena_check(arena, err);
}

/* What was named, with our own PATH and HOME where it names none. NULL: no memory. */
static const char *const *whole_env(struct berth_arena *arena, const struct berth_command *command)
{
    const char *path = getenv("PATH");
    const struct {
        const char *name, *value;
    } ours[] = {{"PATH", path && *path ? path : DEFAULT_PATH},
                {"HOME", getenv("HOME")},
                {"TERM", command->terminal ? "xterm-256color" : NULL}};
    struct berth_list env = {0};
    for (const char *const *v = command->env; *v; v++)
        (void)berth_list_add(&env, arena, (char *)(uintptr_t)*v);
    for (unsigned i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (ours[i].value && !berth_env_get(command->env, ours[i].name))
            (void)berth_list_add(&env, arena,
                                 berth_arena_printf(arena, "%s=%s", ours[i].name, ours[i].value));
    (void)berth_list_add(&env, arena, NULL);
    return arena->failed ? NULL : (const char *const *)(void *)env.items;
}

static int local_exec_start(struct berth_driver *d, struct berth_call *call,
                            const struct berth_place_request *who, const struct berth_place *place,
                            const struct berth_command *command,
                            const struct berth_exec_handlers *handlers, struct berth_running **out,
                            struct berth_error *err)
{
    (void)place;
    const struct local_driver *local = (struct local_driver *)d;
    auto_free struct local_running *running = calloc(1, sizeof *running);
    if (!running)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: command.");
    running->base.ops = &running_ops;
    struct berth_process_options options = BERTH_PROCESS_OPTIONS_INIT;
    options.argv = command->argv;
    options.env = whole_env(call->arena, command);
    options.with_stdin = command->with_stdin;
    options.terminal = command->terminal;
    options.init_user = who->lease_id;
    options.rows = command->rows;
    options.columns = command->columns;
    options.timeout_ms = command->timeout_ms;
    options.grace_ms = command->grace_ms;
    if (!options.env)
        return berth_arena_check(call->arena, err);
    int rc = find_directory(call->arena, who, command->cwd, &options.cwd, err);
    if (rc < 0)
        return rc;
    rc = berth_process_start(local->engine, &options, handlers, &running->process, err);
    if (rc == BERTH_OK)
        *out = &take_ptr(running)->base;
    return rc;
}

/* The init of the command was killed, so nothing else knows how it ended or what is left of it. The
 * label in the environment finds the rest, unless a process has changed its environment. */
static int local_exec_settle(struct berth_driver *d, struct berth_call *call,
                             const struct berth_place_request *who, const struct berth_place *place,
                             const char *exec_id, struct berth_exec_end *end,
                             struct berth_error *err)
{
    (void)d, (void)who, (void)place, (void)end;
    const char *label = berth_arena_printf(call->arena, "BERTH_EXEC_ID=%s", exec_id);
    if (label)
        (void)berth_strays_end((const char *const[]){label, NULL});
    return berth_arena_check(call->arena, err);
}

static const struct berth_driver_ops local_ops = {
    .probe = local_probe,
    .acquire = local_acquire,
    .realize = local_realize,
    .exec_start = local_exec_start,
    .exec_settle = local_exec_settle,
    .release = local_release,
    .free = local_free,
};

static const struct berth_driver_traits local_traits = {
    .name = "local",
    .owns_config = true,
    .ledger_only = true,
    .in_place = true,
};

int berth_driver_local_new(struct berth_engine *engine, struct berth_driver **out,
                           struct berth_error *err)
{
    auto_free struct local_driver *local = calloc(1, sizeof *local);
    if (!local)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: local driver.");
    local->base = (struct berth_driver){.ops = &local_ops, .traits = &local_traits};
    local->engine = engine;
    *out = &take_ptr(local)->base;
    return BERTH_OK;
}
