/* SPDX-License-Identifier: Apache-2.0
 * bench/rpc.c - what a call to a plugin's worker costs through the manager, beside the same call
 * over a bare pair of pipes to the same program; in C, and in JavaScript when there is a node.
 * Prints figures and never fails on one. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"
#include "driver/workers.h"
#include "os/engine.h"
#include "os/fs.h"
#include "plugin/manager.h"
#include "samples.h"

#define LARGE "16777216"
#define AIM_US 50

static const char id[] = "018f0000-0000-7000-8000-000000000001";
static char **environment;

struct bench {
    const char *name, *package, *entry, *state;
    bool node;
    int rounds;
};

/* --- bare --- */

struct bare {
    pid_t pid;
    int in, out;
    struct berth_buf buf;
};

static int bare_open(const struct bench *b, struct bare *bare, struct berth_error *err)
{
    int in[2], out[2];
    char entry[PATH_MAX];
    (void)snprintf(entry, sizeof entry, "%s/%s", b->package, b->entry);
    char *const script[] = {(char *)(uintptr_t) "node", entry, NULL}, *const program[] = {entry,
                                                                                          NULL};
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        return berth_fail_errno(err, "pipe");
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    (void)posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    errno = posix_spawnp(&bare->pid, b->node ? "node" : entry, &actions, NULL,
                         b->node ? script : program, environment);
    int number = errno;
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(in[0]);
    (void)close(out[1]);
    bare->in = in[1];
    bare->out = out[0];
    bare->buf = (struct berth_buf)BERTH_BUF_INIT(BERTH_MESSAGE_BYTES_MAX);
    errno = number;
    return number ? berth_fail_errno(err, "spawn %s", entry) : BERTH_OK;
}

/* One line there, and lines back until one has an "id". */
static int bare_ask(struct bare *bare, const char *line, struct berth_error *err)
{
    int rc = berth_fs_write_all(bare->in, line, strlen(line), err);
    static char chunk[256 * 1024];
    bool answered = false;
    while (rc == BERTH_OK && !answered) {
        ssize_t got = read(bare->out, chunk, sizeof chunk);
        if (got <= 0)
            return berth_fail(err, BERTH_E_UPSTREAM, "The bare worker ended.");
        berth_buf_append(&bare->buf, chunk, (size_t)got);
        while (bare->buf.len && chunk[got - 1] == '\n' && !answered) {
            answered = memmem(bare->buf.data, bare->buf.len, "\"id\":", 5) != NULL;
            if (!answered)
                break;
            berth_buf_truncate(&bare->buf, 0);
        }
    }
    return rc;
}

static void bare_close(struct bare *bare)
{
    (void)close(bare->in);
    (void)close(bare->out);
    (void)waitpid(bare->pid, NULL, 0);
    berth_buf_clear(&bare->buf);
}

/* --- through the manager --- */

static int describe(void *ctx, const char *plugin_id, struct berth_arena *arena,
                    struct berth_worker_spec *out, struct berth_error *err)
{
    const struct bench *b = ctx;
    (void)plugin_id;
    *out = (struct berth_worker_spec){.plugin_key = "bench",
                                      .package = b->package,
                                      .entry =
                                          berth_arena_printf(arena, "%s/%s", b->package, b->entry),
                                      .manifest_json = "{}",
                                      .config_json = "{}",
                                      .settings_json = "{}",
                                      .state = b->state,
                                      .log = berth_arena_printf(arena, "%s/log", b->state)};
    return berth_arena_check(arena, err);
}

static void report(void *ctx, const char *plugin_id, enum berth_log_level level, const char *event,
                   const char *text)
{
    (void)ctx, (void)plugin_id;
    if (level >= BERTH_LOG_WARN)
        (void)fprintf(stderr, "bench-rpc: %s: %s\n", event, text);
}

struct reply {
    int fd;
    bool ok;
};

static void on_reply(void *ctx, const struct berth_reply *reply)
{
    struct reply *r = ctx;
    r->ok = reply->kind == BERTH_REPLY_RESULT;
    (void)eventfd_write(r->fd, 1);
}

static int ask(struct berth_workers *workers, int fd, const char *method, const char *params,
               struct berth_error *err)
{
    struct reply r = {.fd = fd};
    struct berth_worker_call call = {.plugin_id = id,
                                     .method = method,
                                     .params_json = params,
                                     .timeout_ms = 60000,
                                     .on_reply = on_reply,
                                     .ctx = &r};
    eventfd_t told;
    workers->ops->call(workers, &call);
    (void)eventfd_read(fd, &told);
    return r.ok ? BERTH_OK : berth_fail(err, BERTH_E_UPSTREAM, "%s failed.", method);
}

/* --- both, in turn --- */

static const char execute_params[] =
    "{\"driverKey\":\"fake-plugin\",\"config\":{},\"lease\":{\"providerLeaseId\":"
    "\"fake-plugin://x\"},\"command\":\"sh\",\"args\":[\"-c\",\"head -c " LARGE
    " /dev/zero | tr '\\\\0' x\"]}";

static int measure_calls(struct bare *bare, struct berth_workers *workers, int fd, int rounds,
                         const char *method, const char *params, const char *what,
                         struct berth_error *err)
{
    auto_samples floor = {0}, ours = {0};
    auto_free char *line = NULL;
    if (asprintf(&line, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"%s\",\"params\":%s}\n", method,
                 params) < 0)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.");
    int rc = BERTH_OK;
    for (int i = 0; rc == BERTH_OK && i < rounds; i++) {
        int64_t a = now_ns();
        rc = bare_ask(bare, line, err);
        int64_t b = now_ns();
        if (rc == BERTH_OK)
            rc = ask(workers, fd, method, params, err);
        int64_t c = now_ns();
        if (rc == BERTH_OK && i >= rounds / 10) { /* the first ones warm up */
            rc = samples_add(&floor, b - a, err);
            if (rc == BERTH_OK)
                rc = samples_add(&ours, c - b, err);
        }
    }
    if (rc == BERTH_OK)
        printf("  %-28s %10.0f %10.0f %10.0f %10.0f %8.2fx %8.0f\n", what, samples_us(&floor, 50),
               samples_us(&floor, 99), samples_us(&ours, 50), samples_us(&ours, 99),
               samples_us(&ours, 50) / samples_us(&floor, 50),
               samples_us(&ours, 50) - samples_us(&floor, 50));
    return rc;
}

/* The memory of a process and of its descendants: of a worker's cage and of the worker in it. */
static long rss_kb(int pid)
{
    char path[64], line[256];
    long kb = 0;
    int child;
    (void)snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %ld", &kb) == 1)
            break;
    if (f)
        (void)fclose(f);
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    f = fopen(path, "r");
    while (f && fscanf(f, "%d", &child) == 1)
        kb += rss_kb(child);
    if (f)
        (void)fclose(f);
    return kb;
}

static int measure_start(struct berth_manager *m, const struct bench *b, struct berth_error *err)
{
    auto_samples starts = {0};
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_worker_status status = {0};
    int rc = BERTH_OK;
    for (int i = 0; rc == BERTH_OK && i < 10; i++) {
        berth_plugin_manager.stop(m, id);
        int64_t before = now_ns();
        berth_plugin_manager.start(m, id, 20000);
        rc = samples_add(&starts, now_ns() - before, err);
    }
    if (rc == BERTH_OK)
        rc = berth_plugin_manager.status(m, id, &arena, &status, err);
    if (rc == BERTH_OK)
        printf("  %-28s spawn to ready %.1f ms, RSS %ld KB\n", b->name,
               samples_us(&starts, 50) / 1000, rss_kb(status.pid));
    return rc;
}

static int measure(const struct bench *b, struct berth_engine *engine, struct berth_error *err)
{
    struct berth_worker_host host = {
        .describe = describe, .report = report, .version = "0", .ctx = (void *)(uintptr_t)b};
    struct berth_manager *m;
    struct bare bare = {0};
    auto_close int fd = eventfd(0, EFD_CLOEXEC);
    int rc = berth_plugin_manager.open(engine, &host, &m, err);
    if (rc < 0)
        return rc;
    struct berth_workers *workers = berth_plugin_manager.workers(m);
    berth_plugin_manager.start(m, id, 20000);
    rc = bare_open(b, &bare, err);
    if (rc == BERTH_OK)
        rc = bare_ask(&bare,
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":"
                      "{\"manifest\":{},\"config\":{}}}\n",
                      err);
    if (rc == BERTH_OK)
        rc = measure_calls(&bare, workers, fd, b->rounds, "health", "{}", b->name, err);
    char what[80];
    (void)snprintf(what, sizeof what, "%s, 16 MiB back", b->name);
    if (rc == BERTH_OK)
        rc = measure_calls(&bare, workers, fd, 12, "environmentExecute", execute_params, what, err);
    if (rc == BERTH_OK)
        rc = measure_start(m, b, err);
    if (bare.pid > 0)
        bare_close(&bare);
    berth_plugin_manager.close(m);
    return rc;
}

static bool has_node(void)
{
    return system("node -e 0 >/dev/null 2>&1") == 0;
}

int main(int argc, char **argv, char **envp)
{
    environment = envp;
    if (argc < 3) {
        (void)fprintf(stderr, "bench-rpc FAKE_WORKER_DIR SCRIPT_DIR [--quick]\n");
        return 2;
    }
    bool quick = argc > 3 && strcmp(argv[3], "--quick") == 0;
    char state[] = "/tmp/bench-rpc.XXXXXX";
    struct berth_error err = {0}, ignored;
    struct berth_engine *engine = NULL;
    if (!mkdtemp(state))
        return 1;
    struct bench benches[] = {
        {"C worker", argv[1], "berth-worker-fake", state, false, quick ? 500 : 5000},
        {"Node worker", argv[2], "rpc-worker.mjs", state, true, quick ? 300 : 3000},
    };
    printf(
        "A call to a worker through the manager, beside the same over a bare pair of pipes (us)\n"
        "  %-28s %10s %10s %10s %10s %9s %8s\n",
        "", "bare p50", "p99", "ours p50", "p99", "ratio", "over");
    int rc = berth_engine_new(&engine, &err);
    for (int i = 0; rc == BERTH_OK && i < 2; i++)
        if (i == 0 || has_node())
            rc = measure(&benches[i], engine, &err);
        else
            printf("  there is no node here\n");
    printf("  aim: at most %d us over the bare call at p50\n", AIM_US);
    berth_engine_free(engine);
    (void)berth_fs_remove_tree(state, &ignored);
    if (rc < 0)
        (void)fprintf(stderr, "bench-rpc: %s [%s]\n", err.message, err.where);
    return rc < 0 ? 1 : 0;
}
