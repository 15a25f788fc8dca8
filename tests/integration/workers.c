/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/workers.c - plugins whose workers babble, lie, hang, die and will not go. Each
 * case says what its callers are told and how its leases end. After each, when the worker has been
 * mended, nothing is owed, a plugin beside it has not noticed, and no process is left. */
#include "fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <pthread.h>
#include <pwd.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "driver/workers.h"
#include "os/fs.h"

#define SECOND_MS INT64_C(1000)
#define MINUTE_MS (60 * SECOND_MS)
#define CALL_MS (30 * SECOND_MS) /* what a call has when nobody says otherwise */
#define PATIENCE_MS 60000        /* of real time, for what must happen */
#define MIB (1024 * 1024)
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

struct ground;
struct plan {
    const char *name;
    void (*run)(struct ground *g);
    bool alone; /* it opens, installs and closes itself */
};

/* A runtime with two plugins: one that is faulty, and one that is none the worse for it. */
struct ground {
    struct fixture f;
    const struct plan *plan;
    char package[200]; /* of the faulty one */
    char plugin[BERTH_ID_SIZE], healthy[BERTH_ID_SIZE];
    int healthy_pid;
    struct berth_environment *e, *other; /* of the faulty one, and of the other */
    int stamps;
    bool stuck; /* it does not close: what it has is left to it */
};

/* In the fixture's arena. */
BERTH_PRINTF(2, 3) static const char *textf(struct ground *g, const char *fmt, ...)
{
    char *text;
    va_list args;
    va_start(args, fmt);
    assert_true(vasprintf(&text, fmt, args) >= 0);
    va_end(args);
    const char *copy = berth_arena_strdup(&g->f.arena, text);
    free(text);
    return copy;
}

/* --- files --- */

static void put_file(const char *path, const char *text, mode_t mode)
{
    char fresh[400];
    (void)snprintf(fresh, sizeof fresh, "%s.new", path);
    auto_close int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(rename(fresh, path), 0); /* whoever reads it meanwhile reads all of it */
}

/* All of it, in the fixture's arena; "" when it is not there. */
static const char *read_file(struct fixture *f, const char *path)
{
    auto_buf text = BERTH_BUF_INIT(64 * MIB);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return "";
    assert_ok(f, berth_fs_read_all(fd, &text, &f->err));
    return berth_arena_copy(&f->arena, berth_buf_str(&text), text.len);
}

static const char *path_in(struct ground *g, const char *path)
{
    return textf(g, "%s/%s", g->f.directory, path);
}

static const char *state_path(struct ground *g, const char *plugin, const char *name)
{
    return textf(g, "%s/plugin-state/%s/%s", g->f.directory, plugin, name);
}

static int count_places(struct ground *g)
{
    DIR *dir = opendir(state_path(g, g->plugin, "places"));
    int count = 0;
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    if (dir)
        (void)closedir(dir);
    return count;
}

/* --- packages --- */

/* A package beside the store, whose worker is `entry`; its path, in the fixture. */
static const char *make_package(struct ground *g, const char *name, const char *entry)
{
    const char *path = path_in(g, name);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, 0755), 0);
    const char *manifest = textf(
        g,
        "{\"id\":\"test.%s\",\"apiVersion\":1,\"version\":\"1.0.0\",\"displayName\":\"%s\","
        "\"description\":\"For tests.\",\"author\":\"berth\",\"categories\":[\"automation\"],"
        "\"capabilities\":[\"environment.drivers.register\"],\"entrypoints\":{\"worker\":\"%s\"},"
        "\"environmentDrivers\":[{\"driverKey\":\"%s\",\"kind\":\"sandbox_provider\","
        "\"displayName\":\"%s\",\"configSchema\":{\"type\":\"object\",\"properties\":{}}}]}",
        name, name, entry, name, name);
    put_file(textf(g, "%s/manifest.json", path), manifest, 0644);
    return path;
}

static void copy_worker(struct ground *g, const char *package, const char *name)
{
    const char *text = read_file(&g->f, FAULTY_WORKER);
    assert_true(*text);
    put_file(textf(g, "%s/%s", package, name), text, 0755);
}

/* "NAME METHOD KEY=VALUE ...", and what it needs besides; see tests/fake/faulty. */
static void set_fault(struct ground *g, const char *fault, const char *text)
{
    put_file(textf(g, "%s/fault", g->package),
             textf(g, "%s stamp=%d\n%s", fault, g->stamps++, text ? text : ""), 0644);
}

static void install(struct ground *g, const char *package, char id[BERTH_ID_SIZE])
{
    struct berth_plugin_install request = BERTH_PLUGIN_INSTALL_INIT;
    struct berth_plugin *plugin;
    request.source = package;
    assert_ok(&g->f, berth_plugin_install(g->f.b, &g->f.arena, &request, &plugin, &g->f.err));
    (void)snprintf(id, BERTH_ID_SIZE, "%s", plugin->id);
}

static struct berth_environment *environment_of(struct ground *g, const char *provider,
                                                const char *more)
{
    return make_environment(&g->f, BERTH_DRIVER_SANDBOX,
                            textf(g, "{\"provider\":\"%s\"%s}", provider, more));
}

/* --- the state of a worker --- */

struct look {
    char status[16], error[1100], confinement[400];
    int pid, crashes, crashes_in_all, pending;
    int64_t last_crash_ms, next_restart_ms;
};

static struct look look_at(struct ground *g, const char *plugin)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_worker_status s;
    struct look look = {0};
    assert_ok(&g->f, berth_plugin_worker(g->f.b, &arena, plugin, &s, &g->f.err));
    (void)snprintf(look.status, sizeof look.status, "%s", s.status);
    (void)snprintf(look.error, sizeof look.error, "%s", s.last_error ? s.last_error : "");
    (void)snprintf(look.confinement, sizeof look.confinement, "%s",
                   s.confinement ? s.confinement : "");
    look.pid = s.pid;
    look.crashes = s.crashes;
    look.crashes_in_all = s.crashes_in_all;
    look.pending = s.pending;
    look.last_crash_ms = s.last_crash_at_ms;
    look.next_restart_ms = s.next_restart_at_ms;
    return look;
}

static struct look look(struct ground *g)
{
    return look_at(g, g->plugin);
}

static bool is(const struct look *l, const char *status)
{
    return strcmp(l->status, status) == 0;
}

/* Until the condition holds; fails the test when it does not. */
#define AWAIT(condition)                                                                           \
    do {                                                                                           \
        int64_t since_ = real_ms();                                                                \
        while (!(condition)) {                                                                     \
            if (real_ms() - since_ > PATIENCE_MS)                                                  \
                fail_msg("in vain: %s (%s)", #condition, look(g).error);                           \
            pause_ms(2);                                                                           \
        }                                                                                          \
    } while (0)

static int64_t real_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool has_state(struct ground *g, const char *status)
{
    struct look l = look(g);
    return is(&l, status);
}

static void await_state(struct ground *g, const char *status)
{
    AWAIT(has_state(g, status));
}

/* --- calls past the driver --- */

struct told {
    sem_t done;
    int answers;
    enum berth_reply_kind kind;
    int64_t code, n; /* n: a member of the result */
    char text[2000];
};

static void on_told(void *ctx, const struct berth_reply *reply)
{
    struct told *t = ctx;
    t->answers++;
    t->kind = reply->kind;
    t->code = reply->code;
    t->n = berth_json_int(berth_json_get(reply->result, "n"));
    (void)snprintf(t->text, sizeof t->text, "%s", reply->text ? reply->text : "");
    (void)sem_post(&t->done);
}

/* Calls the worker; timeout_ms 0 is the manager's own. */
static void tell_for(struct ground *g, const char *plugin, const char *method, const char *params,
                     int64_t timeout_ms, struct told *t)
{
    struct berth_workers *workers = berth_registry_workers(g->f.b->registry);
    struct berth_worker_call call = {.plugin_id = plugin,
                                     .method = method,
                                     .params_json = params,
                                     .timeout_ms = timeout_ms,
                                     .on_reply = on_told,
                                     .ctx = t};
    *t = (struct told){.kind = BERTH_REPLY_UNSENT};
    (void)sem_init(&t->done, 0, 0);
    workers->ops->call(workers, &call);
}

static void tell(struct ground *g, const char *plugin, const char *method, const char *params,
                 struct told *t)
{
    tell_for(g, plugin, method, params, 0, t);
}

static void hear(struct told *t)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    int rc;
    while ((rc = sem_timedwait(&t->done, &until)) < 0 && errno == EINTR)
        ;
    if (rc < 0)
        fail_msg("a call was never answered");
    (void)sem_destroy(&t->done);
}

/* Moves both clocks. The healthy worker answers in between, so that a hurried clock does not make
 * it look as if it hung. */
static void let_pass(struct ground *g, int64_t ms)
{
    struct told told;
    berth_time_shift(ms, ms);
    for (int i = 0; i < 2; i++) {
        tell(g, g->healthy, "health", "{}", &told);
        hear(&told);
        assert_int_equal(told.kind, BERTH_REPLY_RESULT);
    }
}

/* To the moment of its restart, when there is one. */
static void let_restart(struct ground *g)
{
    struct look l = look(g);
    int64_t wait_ms = l.next_restart_ms - berth_time_wall_ms();
    if (is(&l, "backoff"))
        let_pass(g, wait_ms > 0 ? wait_ms + 1 : 1);
}

static void bring_back(struct ground *g)
{
    int64_t since = real_ms();
    struct berth_workers *workers = berth_registry_workers(g->f.b->registry);
    for (struct look l = look(g); !is(&l, "running"); l = look(g)) {
        if (is(&l, "stopped"))
            workers->ops->want(workers, g->plugin, PATIENCE_MS);
        let_restart(g);
        if (real_ms() - since > PATIENCE_MS)
            fail_msg("the worker does not come back: %s", l.error);
        pause_ms(2);
    }
}

/* --- what the worker heard --- */

static const char *journal(struct ground *g)
{
    return read_file(&g->f, state_path(g, g->plugin, "journal"));
}

/* The lines that begin with the word: how many, and the rest of the n-th (from 1) or NULL. */
static int scan(struct ground *g, const char *word, int n, const char **out)
{
    size_t len = strlen(word);
    int count = 0;
    *out = NULL;
    for (const char *at = journal(g), *end; (end = strchr(at, '\n')); at = end + 1)
        if (strncmp(at, word, len) == 0 && at[len] == ' ' && ++count == n)
            *out = berth_arena_copy(&g->f.arena, at + len + 1, (size_t)(end - at) - len - 1);
    return count;
}

static int heard(struct ground *g, const char *word)
{
    const char *ignored;
    return scan(g, word, 0, &ignored);
}

static const char *heard_nth(struct ground *g, const char *word, int n)
{
    const char *rest;
    (void)scan(g, word, n, &rest);
    if (!rest)
        fail_msg("it did not hear %s so often", word);
    return rest;
}

static const char *log_path(struct ground *g, const char *plugin)
{
    const char *path;
    assert_ok(&g->f, berth_plugin_log(g->f.b, &g->f.arena, plugin, &path, &g->f.err));
    return path;
}

/* It is written behind our back. */
static void await_log(struct ground *g, const char *words)
{
    AWAIT(strstr(read_file(&g->f, log_path(g, g->plugin)), words));
}

/* --- calls of users, each on a thread of its own --- */

enum op { VALIDATE, PROBE, ACQUIRE, RESUME, REALIZE, EXECUTE, RELEASE, DESTROY, FIND };

static const char *const methods[] = {
    [VALIDATE] = "environmentValidateConfig",  [PROBE] = "environmentProbe",
    [ACQUIRE] = "environmentAcquireLease",     [RESUME] = "environmentResumeLease",
    [REALIZE] = "environmentRealizeWorkspace", [EXECUTE] = "environmentExecute",
    [RELEASE] = "environmentReleaseLease",     [DESTROY] = "environmentDestroyLease",
    [FIND] = "environmentFindLeases"};

struct errand {
    struct ground *g;
    enum op op;
    const struct berth_lease *lease;   /* what it is about */
    const struct berth_environment *e; /* or this */
    const char *run_id;
    const char *const *argv;
    int64_t timeout_ms;
    bool holds; /* it does not want to hear more for now */

    pthread_t thread;
    _Atomic bool done;
    struct berth_arena arena;
    int rc;
    struct berth_error err;
    struct berth_lease *taken;
    struct berth_place place;
    struct berth_realized realized;
    struct berth_probe probe;
    struct berth_sweep_report report;
    struct berth_exec_end end;
    pthread_mutex_t lock; /* of the streams */
    struct berth_buf streams[2];
    const char *text; /* the error, the summary, or what stands in stderr */
};

static void on_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    struct errand *e = ctx;
    pthread_mutex_lock(&e->lock);
    berth_buf_append(&e->streams[stream], bytes, len);
    pthread_mutex_unlock(&e->lock);
}

static void execute(struct errand *e)
{
    static const char *const usual[] = {"sh", "-c", "echo out; echo err >&2; exit 5", NULL};
    struct berth_exec_request request = BERTH_EXEC_REQUEST_INIT;
    struct berth_exec_handlers handlers = {.on_output = on_output, .ctx = e};
    struct berth_exec *x;
    request.lease_id = e->lease->id;
    request.argv = e->argv ? e->argv : usual;
    request.timeout_ms = e->timeout_ms;
    e->rc = berth_exec_start(e->g->f.b, &request, &handlers, &x, &e->err);
    if (e->rc < 0)
        return;
    if (e->holds)
        berth_exec_pause(x, true);
    berth_exec_wait(x, &e->end);
    berth_exec_free(x);
}

static void *errand_main(void *ctx)
{
    struct errand *e = ctx;
    struct berth *b = e->g->f.b;
    struct berth_issues issues = {.arena = &e->arena};
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    struct berth_lease_request wish = BERTH_LEASE_REQUEST_INIT;
    struct berth_release_request release = BERTH_RELEASE_REQUEST_INIT;
    struct berth_workspace workspace = {.mode = "shared_workspace"};
    struct berth_sweep_options options = BERTH_SWEEP_OPTIONS_INIT;
    struct berth_environment *made;
    const char *environment = e->e ? e->e->id : e->g->e->id;
    switch (e->op) {
    case VALIDATE:
        input.name = "checked";
        input.driver = BERTH_DRIVER_SANDBOX;
        input.config_json = "{\"provider\":\"faulty\"}";
        e->rc = berth_environment_create(b, &e->arena, &input, &issues, &made, &e->err);
        break;
    case PROBE:
        e->rc = berth_environment_probe(b, &e->arena, environment, NULL, &e->probe, &e->err);
        break;
    case ACQUIRE:
        wish.environment_id = environment;
        wish.run_id = e->run_id;
        e->rc = berth_lease_acquire(b, &e->arena, &wish, &e->taken, &e->err);
        break;
    case RESUME:
        e->rc = berth_lease_resume(b, &e->arena, e->lease->id, &e->place, &e->err);
        break;
    case REALIZE:
        e->rc = berth_lease_realize(b, &e->arena, e->lease->id, &workspace, &e->realized, &e->err);
        break;
    case EXECUTE:
        execute(e);
        break;
    case RELEASE:
        release.lease_id = e->lease->id;
        e->rc = berth_lease_release(b, &e->arena, &release, &e->taken, &e->err);
        break;
    case DESTROY:
        e->rc = berth_lease_destroy(b, &e->arena, e->lease->id, NULL, &e->taken, &e->err);
        break;
    case FIND:
        e->rc = berth_sweep(b, &options, &e->report, &e->err);
        break;
    }
    e->text = e->rc < 0          ? e->err.message
              : e->op == PROBE   ? e->probe.summary
              : e->op == EXECUTE ? berth_buf_str(&e->streams[BERTH_STDERR])
                                 : "";
    e->done = true;
    return NULL;
}

static void start(struct ground *g, struct errand *e, enum op op, const struct berth_lease *lease)
{
    struct errand fresh = {.g = g,
                           .op = op,
                           .lease = lease,
                           .e = e->e,
                           .run_id = e->run_id,
                           .argv = e->argv,
                           .timeout_ms = e->timeout_ms,
                           .holds = e->holds,
                           .streams = {BERTH_BUF_INIT(64 * MIB), BERTH_BUF_INIT(64 * MIB)}};
    *e = fresh;
    pthread_mutex_init(&e->lock, NULL);
    assert_int_equal(pthread_create(&e->thread, NULL, errand_main, e), 0);
}

/* Until it is done, and restarts are not waited for. Let go of it afterwards. */
static void finish(struct errand *e)
{
    int64_t since = real_ms();
    while (!e->done) {
        let_restart(e->g);
        if (real_ms() - since > PATIENCE_MS)
            fail_msg("%s never ended", methods[e->op]);
        pause_ms(1);
    }
    (void)pthread_join(e->thread, NULL);
}

static void forget(struct errand *e)
{
    berth_arena_clear(&e->arena);
    berth_buf_clear(&e->streams[0]);
    berth_buf_clear(&e->streams[1]);
    pthread_mutex_destroy(&e->lock);
}

static void run(struct ground *g, struct errand *e, enum op op, const struct berth_lease *lease)
{
    start(g, e, op, lease);
    finish(e);
}

/* The same, in the middle of which a call's time is up. */
static void run_late(struct ground *g, struct errand *e, enum op op,
                     const struct berth_lease *lease)
{
    int before = heard(g, methods[op]);
    start(g, e, op, lease);
    AWAIT(heard(g, methods[op]) > before || e->done);
    let_pass(g, CALL_MS - SECOND_MS);
    pause_ms(20);
    assert_false(e->done);
    let_pass(g, SECOND_MS);
    finish(e);
}

#define assert_errand(e, code, words) assert_errand_at((e), (code), (words), __LINE__)
static void assert_errand_at(const struct errand *e, int code, const char *words, int line)
{
    if (e->rc == code && strstr(e->text, words))
        return;
    print_error("line %d: %s gave %s \"%s\", not %s \"%s\"\n", line, methods[e->op],
                berth_code_wire(e->rc), e->text, berth_code_wire(code), words);
    _fail(__FILE__, line);
}

static void assert_well(struct ground *g, enum op op, const struct berth_lease *lease)
{
    struct errand e = {0};
    run(g, &e, op, lease);
    assert_errand(&e, BERTH_OK, "");
    if (op == PROBE)
        assert_true(e.probe.ok);
    if (op == EXECUTE) {
        assert_int_equal(e.end.cause, BERTH_END_EXITED);
        assert_int_equal(e.end.exit_code, 5);
        assert_string_equal(berth_buf_str(&e.streams[0]), "out\n");
        assert_string_equal(berth_buf_str(&e.streams[1]), "err\n");
        assert_int_equal(e.end.bytes[0], 4);
        assert_int_equal(e.end.bytes[1], 4);
    }
    forget(&e);
}

static struct berth_lease *take(struct ground *g)
{
    return take_lease(&g->f, g->e, NULL);
}

static void give(struct ground *g, const struct berth_lease *lease)
{
    (void)give_lease(&g->f, lease, BERTH_LEASE_RELEASED);
    assert_done(&g->f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
}

/* All that a worker is for. */
static void live_a_life(struct ground *g)
{
    assert_well(g, VALIDATE, NULL);
    assert_well(g, PROBE, NULL);
    struct berth_lease *lease = take(g);
    assert_well(g, REALIZE, lease);
    assert_well(g, EXECUTE, lease);
    assert_well(g, RESUME, lease);
    give(g, lease);
    assert_int_equal(count_places(g), 0);
}

/* Mended, everything that is owed comes to its end. */
static void settle(struct ground *g)
{
    set_fault(g, "none -", NULL);
    bring_back(g);
    let_pass(g, g->f.b->settings.cleanup_retry_max_ms);
    bring_back(g);
    (void)sweep(&g->f);
}

/* --- the set-up, and what holds after every case --- */

static void open_ground(struct ground *g)
{
    fixture_open(&g->f);
    install(g, FAKE_PACKAGE, g->healthy);
    install(g, g->package, g->plugin);
    g->other = environment_of(g, "fake-plugin", "");
    g->e = environment_of(g, "faulty", "");
}

static void assert_healthy(struct ground *g)
{
    struct berth_probe probe;
    assert_ok(&g->f,
              berth_environment_probe(g->f.b, &g->f.arena, g->other->id, NULL, &probe, &g->f.err));
    assert_true(probe.ok);
    struct look l = look_at(g, g->healthy);
    assert_string_equal(l.status, "running");
    assert_int_equal(l.crashes_in_all, 0);
    if (!g->healthy_pid)
        g->healthy_pid = l.pid;
    assert_int_equal(l.pid, g->healthy_pid);
}

static int set_up(void **state)
{
    struct ground *g = calloc(1, sizeof *g);
    g->plan = *state;
    *state = g;
    (void)alarm(SANITIZED ? 600 : 150); /* a case that hangs ends them all */
    fixture_make(&g->f, ON_SQLITE);
    (void)snprintf(g->package, sizeof g->package, "%s", make_package(g, "faulty", "bin/faulty"));
    assert_int_equal(mkdir(textf(g, "%s/bin", g->package), 0755), 0);
    copy_worker(g, g->package, "bin/faulty");
    set_fault(g, "none -", NULL);
    if (g->plan->alone)
        return 0;
    open_ground(g);
    assert_healthy(g);
    return 0;
}

/* Somebody who carries our directory in its environment; 0: nobody. */
static int find_process(struct ground *g)
{
    char label[200], path[64];
    int len = snprintf(label, sizeof label, "BERTH_PLUGIN_STATE=%s/", g->f.directory), found = 0;
    DIR *dir = opendir("/proc");
    for (const struct dirent *entry; !found && (entry = readdir(dir));) {
        int pid = atoi(entry->d_name);
        auto_buf text = BERTH_BUF_INIT(MIB);
        struct berth_error ignored;
        (void)snprintf(path, sizeof path, "/proc/%d/environ", pid);
        auto_close int fd = pid > 0 && pid != getpid() ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (fd >= 0 && berth_fs_read_all(fd, &text, &ignored) == BERTH_OK && text.len &&
            memmem(text.data, text.len, label, (size_t)len))
            found = pid;
    }
    (void)closedir(dir);
    return found;
}

static void assert_no_process(struct ground *g)
{
    int pid = find_process(g);
    if (pid) {
        (void)kill(pid, SIGKILL); /* the next case is to have its own */
        fail_msg("process %d is left", pid);
    }
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

struct closing {
    struct ground *g;
    _Atomic bool done;
};

static void *closing_main(void *ctx)
{
    struct closing *c = ctx;
    fixture_close(&c->g->f);
    c->done = true;
    return NULL;
}

/* Workers that will not go have their time, which passes quickly here. */
static void close_ground(struct ground *g)
{
    struct closing c = {.g = g};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, closing_main, &c), 0);
    for (int i = 0; !c.done; i++) {
        pause_ms(5);
        if (i > 100)
            berth_time_shift(500, 500);
    }
    (void)pthread_join(thread, NULL);
}

/* After a close: nobody is left, and all is as it was at first. */
static void reopen(struct ground *g)
{
    assert_no_process(g);
    set_fault(g, "none -", NULL);
    fixture_open(&g->f);
    g->healthy_pid = 0;
    assert_healthy(g);
}

static int count_open(struct ground *g)
{
    return count_rows(&g->f, "SELECT count(*) FROM leases WHERE status IN "
                             "('acquiring', 'active', 'releasing')");
}

static int count_standing(struct ground *g)
{
    struct berth_lease_filter filter = BERTH_LEASE_FILTER_INIT;
    filter.standing_only = true;
    struct berth_list list;
    assert_ok(&g->f, berth_lease_list(g->f.b, &g->f.arena, &filter, &list, &g->f.err));
    return list.count;
}

static void run_plan(void **state)
{
    struct ground *g = *state;
    g->plan->run(g);
    if (!g->plan->alone) {
        assert_healthy(g);
        assert_int_equal(count_open(g), 0);
        settle(g);
        assert_int_equal(count_standing(g), 0);
        assert_int_equal(count_places(g), 0);
        live_a_life(g);
        struct berth_lease *lease = take_lease(&g->f, g->other, NULL);
        give(g, lease);
        assert_healthy(g);
        close_ground(g);
    }
    assert_no_process(g);
}

static int tear_down(void **state)
{
    struct ground *g = *state;
    (void)alarm(0);
    if (g->stuck)
        return 0;
    if (g->f.b)
        close_ground(g);
    for (int pid; (pid = find_process(g));)
        (void)kill(pid, SIGKILL);
    fixture_destroy(&g->f);
    free(g);
    return 0;
}

/* --- what it says --- */

static void noise_is_no_message(struct ground *g)
{
    set_fault(g, "noise *", NULL);
    live_a_life(g);
    await_log(g, "Invalid JSON: hello");
    await_log(g, "Message must be a JSON object");
    await_log(g, "Invalid or missing jsonrpc version (expected \\\"2.0\\\", got \\\"1.0\\\")");
    await_log(g, "unknown message type from worker");
    await_log(g, "received response with null/undefined id");
    assert_int_equal(look(g).crashes_in_all, 0);
}

/* A library's own log, for one: it is JSON, and may well have an "id". */
static void noise_with_an_id(struct ground *g)
{
    set_fault(g, "logs *", NULL);
    live_a_life(g);
    await_log(g, "Invalid or missing jsonrpc version (expected \\\"2.0\\\", got undefined)");
}

static int64_t status_kib(const char *name)
{
    char line[200];
    int64_t kib = -1;
    FILE *file = fopen("/proc/self/status", "re");
    while (kib < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            kib = atoll(line + strlen(name));
    (void)fclose(file);
    return kib;
}

/* From here on the most memory that was in use is counted anew. Its size now. */
static int64_t begin_growth(void)
{
    auto_close int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(fd, "5", 1), 1);
    return status_kib("VmRSS:");
}

static void assert_growth(int64_t before_kib, int64_t max_mib)
{
    int64_t grown = (status_kib("VmHWM:") - before_kib) / 1024;
    (void)printf("# grew by %lld MiB at most\n", (long long)grown);
    if (!SANITIZED && grown > max_mib)
        fail_msg("memory grew by %lld MiB", (long long)grown);
}

/* It is not kept beyond the longest line, and the next one is heard again. */
static void line_without_end(struct ground *g)
{
    struct errand e = {0};
    int64_t before = begin_growth();
    set_fault(g, "endless environmentProbe times=1 bytes=200000000", NULL);
    start(g, &e, PROBE, NULL);
    AWAIT(heard(g, "endless") == 1);
    assert_healthy(g);
    assert_false(e.done);
    let_pass(g, CALL_MS);
    finish(&e);
    assert_errand(&e, BERTH_OK, "RPC call \"environmentProbe\" timed out after 30000ms");
    assert_false(e.probe.ok);
    forget(&e);
    assert_growth(before, 450); /* a buffer that grows is there twice for a moment */
    assert_well(g, PROBE, NULL);
    await_log(g, "a line of 200000000 bytes was dropped");
    await_log(g, "received response for unknown request id");
    assert_int_equal(look(g).crashes_in_all, 0);
    /* It was given back. */
    if (!SANITIZED)
        assert_true(status_kib("VmRSS:") - before < 64 * 1024);
}

/* One that ends before its time is up is answered by the reply behind it. */
static void long_line_before_the_answer(struct ground *g)
{
    struct errand e = {0};
    set_fault(g, "endless environmentProbe times=1 bytes=140000000", NULL);
    start(g, &e, PROBE, NULL);
    AWAIT(heard(g, "endless") == 1);
    assert_well(g, PROBE, NULL);
    finish(&e);
    assert_true(e.probe.ok);
    forget(&e);
}

/* What a message becomes when it is read must be bounded as well. */
static void answer_of_many_small_values(struct ground *g)
{
    struct told t;
    auto_buf text = BERTH_BUF_INIT(64 * MIB);
    berth_buf_puts(&text, "{\"ok\":true,\"a\":[{}");
    while (text.len < 8 * MIB)
        berth_buf_puts(&text, ",{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}");
    berth_buf_puts(&text, "]}");
    assert_well(g, PROBE, NULL);
    set_fault(g, "bytes environmentProbe hex=00", berth_buf_str(&text));
    int64_t before = begin_growth();
    tell(g, g->plugin, "environmentProbe", "{}", &t);
    hear(&t);
    set_fault(g, "none -", NULL);
    assert_growth(before, 200);
}

static void half_a_character(struct ground *g)
{
    struct errand e = {0};
    struct berth_lease *lease;
    assert_well(g, PROBE, NULL);
    set_fault(g, "bytes environmentProbe hex=61e282",
              "{\"ok\":true,\"summary\":\"<XXXX>\",\"metadata\":{\"XXXX\":\"XXXX\"}}");
    run(g, &e, PROBE, NULL);
    assert_errand(&e, BERTH_OK, "<a\xef\xbf\xbd");
    assert_true(e.probe.ok);
    forget(&e);
    lease = take(g);
    set_fault(g, "bytes environmentExecute hex=f09f92",
              "{\"exitCode\":0,\"timedOut\":false,\"stdout\":\"[XXXX]\",\"stderr\":\"XXXX\"}");
    run(g, &e, EXECUTE, lease);
    assert_int_equal(e.end.exit_code, 0);
    assert_non_null(strstr(berth_buf_str(&e.streams[0]), "[\xef\xbf\xbd"));
    assert_int_equal(e.end.bytes[0], e.streams[0].len);
    forget(&e);
    set_fault(g, "none -", NULL);
    give(g, lease);
}

/* From Node: they stand in the output of real commands. */
static void lone_surrogates_and_nul(struct ground *g)
{
    static const char want[] = "a\xef\xbf\xbd|\0|\xef\xbf\xbd|\xf0\x9f\x98\x80";
    struct errand e = {0};
    struct berth_lease *lease = take(g);
    set_fault(g, "result environmentExecute",
              "{\"exitCode\":0,\"timedOut\":false,\"stderr\":\"\\u0000\","
              "\"stdout\":\"a\\ud83d|\\u0000|\\ude00|\\ud83d\\ude00\"}");
    run(g, &e, EXECUTE, lease);
    assert_int_equal(e.end.exit_code, 0);
    assert_int_equal(e.streams[0].len, sizeof want - 1);
    assert_memory_equal(e.streams[0].data, want, sizeof want - 1);
    assert_int_equal(e.end.bytes[0], sizeof want - 1);
    assert_int_equal(e.end.bytes[1], 1);
    forget(&e);
    set_fault(g, "result environmentProbe", "{\"ok\":true,\"summary\":\"x\\ud800y\\u0000z\"}");
    run(g, &e, PROBE, NULL);
    assert_errand(&e, BERTH_OK, "x\xef\xbf\xbdy");
    assert_true(e.probe.ok);
    forget(&e);
    set_fault(g, "result environmentRealizeWorkspace", "{\"cwd\":\"/w\\udfff\"}");
    run(g, &e, REALIZE, lease);
    assert_string_equal(e.realized.cwd, "/w\xef\xbf\xbd");
    forget(&e);
    set_fault(g, "none -", NULL);
    give(g, lease);
    /* Metadata with a NUL cannot be kept: the place is given back at once. */
    set_fault(g, "bytes environmentAcquireLease hex=00 times=1",
              "{\"providerLeaseId\":\"nul\",\"metadata\":{\"x\":\"a\\u0000b\"}}");
    run(g, &e, ACQUIRE, NULL);
    assert_errand(&e, BERTH_E_UPSTREAM, "answered with metadata that cannot be kept.");
    forget(&e);
    assert_done(&g->f, newest_lease(&g->f, g->e), BERTH_LEASE_FAILED, BERTH_PLACE_GONE,
                BERTH_CLEANUP_SUCCESS);
    (void)sweep(&g->f); /* what it really made, it knows by its label */
    (void)sweep(&g->f);
    assert_int_equal(count_places(g), 0);
}

/* An id that stops at a NUL is not the id: nobody could give the place back. */
static void id_with_a_nul(struct ground *g)
{
    struct errand e = {0};
    set_fault(g, "result environmentAcquireLease times=1",
              "{\"providerLeaseId\":\"pla\\u0000ce\"}");
    run(g, &e, ACQUIRE, NULL);
    assert_errand(&e, BERTH_E_UPSTREAM, "answered without a usable id");
    forget(&e);
}

static void answers_nobody_waits_for(struct ground *g)
{
    static const char *const faults[] = {"twice *", "elsewhere *"};
    for (int i = 0; i < 2; i++) {
        set_fault(g, faults[i], NULL);
        live_a_life(g);
    }
    await_log(g, "received response for unknown request id");
    assert_int_equal(look(g).crashes_in_all, 0);
}

/* --- and what it does not say --- */

static const char timed_out[] = "timed out after 30000ms";

/* Ids are compared with their type. */
static void answer_to_a_text(struct ground *g)
{
    struct errand e = {0};
    set_fault(g, "texted environmentProbe", NULL);
    run_late(g, &e, PROBE, NULL);
    assert_errand(&e, BERTH_OK, timed_out);
    assert_false(e.probe.ok);
    forget(&e);
    await_log(g, "received response for unknown request id");
}

static void silence_about_an_acquire(struct ground *g)
{
    struct errand e = {0};
    set_fault(g, "never environmentAcquireLease", NULL);
    run_late(g, &e, ACQUIRE, NULL);
    assert_errand(&e, BERTH_E_TIMEOUT,
                  "RPC call \"environmentAcquireLease\" timed out after 30000ms");
    forget(&e);
    /* It was made, and found by its label. */
    struct berth_lease *row = newest_lease(&g->f, g->e);
    assert_done(&g->f, row, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_non_null(strstr(row->failure_reason, timed_out));
    assert_int_equal(heard(g, "environmentFindLeases"), 1);
    assert_int_equal(heard(g, "environmentDestroyLease"), 1);
    assert_int_equal(count_places(g), 0);
}

/* One that nobody can ask about is shown until somebody has looked. */
static void silence_of_one_who_cannot_find(struct ground *g)
{
    struct errand e = {0};
    set_fault(g, "never environmentAcquireLease lacks=environmentFindLeases", NULL);
    run_late(g, &e, ACQUIRE, NULL);
    assert_errand(&e, BERTH_E_TIMEOUT, timed_out);
    forget(&e);
    assert_null(strstr(heard_nth(g, "environmentAcquireLease", 1), "leaseId"));
    struct berth_lease *row = newest_lease(&g->f, g->e);
    assert_row(&g->f, row, BERTH_LEASE_FAILED, BERTH_PLACE_UNKNOWN, BERTH_CLEANUP_FAILED);
    assert_non_null(strstr(row->cleanup_error, "look there, then acknowledge the lease."));
    let_pass(g, g->f.b->settings.cleanup_retry_max_ms);
    assert_int_equal(sweep(&g->f).failed, 1);
    assert_row(&g->f, row, BERTH_LEASE_FAILED, BERTH_PLACE_UNKNOWN, BERTH_CLEANUP_FAILED);
    assert_int_equal(heard(g, "environmentDestroyLease"), 0);
    assert_ok(&g->f, berth_lease_acknowledge(g->f.b, &g->f.arena, row->id, NULL, &row, &g->f.err));
    assert_int_equal(count_standing(g), 0);
    assert_int_equal(count_places(g), 1);
    assert_ok(&g->f, berth_fs_remove_tree(state_path(g, g->plugin, "places"), &g->f.err));
    struct stat st; /* the worker is another user when we are root */
    assert_int_equal(stat(state_path(g, g->plugin, ""), &st), 0);
    assert_int_equal(mkdir(state_path(g, g->plugin, "places"), 0700), 0);
    assert_int_equal(chown(state_path(g, g->plugin, "places"), st.st_uid, st.st_gid), 0);
}

/* The place is asked to stop what may still run there. */
static void silence_about_a_command(struct ground *g)
{
    struct berth_lease *lease = take(g);
    struct errand e = {.timeout_ms = 1000};
    set_fault(g, "nothing environmentExecute times=1", NULL);
    start(g, &e, EXECUTE, lease);
    AWAIT(heard(g, "environmentExecute") == 1);
    let_pass(g, CALL_MS);
    pause_ms(20);
    assert_false(e.done);
    let_pass(g, SECOND_MS);
    finish(&e);
    assert_errand(&e, BERTH_OK, "berth: RPC call \"environmentExecute\" timed out after 31000ms\n");
    assert_int_equal(e.end.cause, BERTH_END_TIMEOUT);
    assert_int_equal(e.end.exit_code, -1);
    forget(&e);
    AWAIT(heard(g, "environmentExecute") == 2);
    const char *label =
        json_text(&g->f, heard_nth(g, "environmentExecute", 1), "env.BERTH_EXEC_ID");
    const char *stop = heard_nth(g, "environmentExecute", 2);
    assert_string_equal(json_text(&g->f, stop, "command"), "sh");
    assert_non_null(strstr(stop, textf(g, "\"BERTH_EXEC_ID=%s\"", label)));
    give(g, lease);
}

/* And for the others of its methods. */
static void silence_about_the_rest(struct ground *g)
{
    struct errand e = {0};
    struct berth_lease *lease = take(g);
    static const enum op ops[] = {VALIDATE, PROBE, RESUME, REALIZE, RELEASE, FIND};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        set_fault(g, textf(g, "nothing %s times=1", methods[ops[i]]), NULL);
        run_late(g, &e, ops[i], lease);
        if (ops[i] == VALIDATE || ops[i] == RESUME || ops[i] == REALIZE)
            assert_errand(&e, BERTH_E_TIMEOUT, timed_out);
        else
            assert_errand(&e, BERTH_OK, ops[i] == PROBE ? timed_out : "");
        forget(&e);
    }
    assert_row(&g->f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_LIVE, BERTH_CLEANUP_FAILED);
    assert_non_null(strstr(look_at_lease(&g->f, lease)->cleanup_error, timed_out));
    lease = take(g);
    set_fault(g, "nothing environmentDestroyLease times=1", NULL);
    run_late(g, &e, DESTROY, lease);
    assert_errand(&e, BERTH_OK, "");
    forget(&e);
    assert_row(&g->f, lease, BERTH_LEASE_FAILED, BERTH_PLACE_LIVE, BERTH_CLEANUP_FAILED);
    settle(g);
    assert_done(&g->f, lease, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(look(g).crashes_in_all, 0);
}

/* The place of an acquire that was given up is not adopted, but ended; all else is noise. */
static void answers_that_come_too_late(struct ground *g)
{
    struct errand e = {0};
    set_fault(g, "late environmentAcquireLease times=1", NULL);
    run_late(g, &e, ACQUIRE, NULL);
    assert_errand(&e, BERTH_E_TIMEOUT, timed_out);
    forget(&e);
    AWAIT(count_rows(&g->f, "SELECT count(*) FROM activity"
                            " WHERE action = 'environment.lease_place_found'") == 1);
    AWAIT(!berth_lease_stands(newest_lease(&g->f, g->e)));
    assert_done(&g->f, newest_lease(&g->f, g->e), BERTH_LEASE_FAILED, BERTH_PLACE_GONE,
                BERTH_CLEANUP_SUCCESS);
    assert_int_equal(count_places(g), 0);
    set_fault(g, "late environmentProbe times=1", NULL);
    run_late(g, &e, PROBE, NULL);
    assert_false(e.probe.ok);
    forget(&e);
    assert_well(g, PROBE, NULL);
    await_log(g, "received response for unknown request id");
}

/* --- what it says is not what was asked --- */

static void wrong_places(struct ground *g)
{
    static const char *const ids[] = {"{\"providerLeaseId\":17}",
                                      "{\"providerLeaseId\":\"\"}",
                                      "{\"providerLeaseId\":null}",
                                      "{\"providerLeaseId\":[\"x\"]}",
                                      "{}",
                                      "null",
                                      "5",
                                      "[]",
                                      "\"place\""};
    struct errand e = {0};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        set_fault(g, "result environmentAcquireLease", ids[i]);
        run(g, &e, ACQUIRE, NULL);
        assert_errand(&e, BERTH_E_UPSTREAM, "Provider \"faulty\" answered without a usable id.");
        forget(&e);
        /* What it made all the same is found and ended. */
        assert_done(&g->f, newest_lease(&g->f, g->e), BERTH_LEASE_FAILED, BERTH_PLACE_GONE,
                    BERTH_CLEANUP_SUCCESS);
        assert_int_equal(count_places(g), 0);
    }
    static const char *const metadata[] = {"[1,2]", "\"text\"", "7", "null"};
    for (size_t i = 0; i < sizeof metadata / sizeof metadata[0]; i++) {
        set_fault(g, "result environmentAcquireLease",
                  textf(g,
                        "{\"providerLeaseId\":\"p%zu\",\"metadata\":%s,"
                        "\"expiresAt\":%s}",
                        i, metadata[i], i % 2 ? "12" : "\"yesterday\""));
        struct berth_lease *lease = take(g);
        assert_string_equal(json_text(&g->f, lease->metadata_json, "provider"), "faulty");
        give(g, lease);
        (void)sweep(&g->f); /* the label's own */
        (void)sweep(&g->f);
    }
    set_fault(g, "none -", NULL);
    struct berth_lease *lease = take(g);
    static const char *const gone[] = {"{\"providerLeaseId\":17}", "null", "[]"};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        set_fault(g, "result environmentResumeLease", gone[i]);
        run(g, &e, RESUME, lease);
        assert_errand(&e, BERTH_OK, "");
        assert_null(e.place.id);
        forget(&e);
    }
    static const char *const nowhere[] = {"{}",     "{\"cwd\":5}", "{\"cwd\":\"\"}",
                                          "\"/w\"", "null",        "{\"cwd\":[\"/w\"]}"};
    for (size_t i = 0; i < sizeof nowhere / sizeof nowhere[0]; i++) {
        set_fault(g, "result environmentRealizeWorkspace", nowhere[i]);
        run(g, &e, REALIZE, lease);
        assert_errand(&e, BERTH_E_UPSTREAM, "answered environmentRealizeWorkspace without a cwd.");
        forget(&e);
    }
    set_fault(g, "result environmentRealizeWorkspace", "{\"cwd\":\"/w\",\"metadata\":[1]}");
    assert_well(g, REALIZE, lease);
    set_fault(g, "result environmentReleaseLease", "{\"never\":\"mind\"}");
    give(g, lease);
}

struct ending {
    const char *result;
    enum berth_end_cause cause;
    int exit_code, signal;
};

static void wrong_ends_of_commands(struct ground *g)
{
    /* How it ended is either said or not known: nothing missing is taken for success. */
    static const struct ending endings[] = {
        {"{}", BERTH_END_LOST, -1, 0},
        {"null", BERTH_END_LOST, -1, 0},
        {"0", BERTH_END_LOST, -1, 0},
        {"[0]", BERTH_END_LOST, -1, 0},
        {"{\"timedOut\":false,\"stdout\":\"\",\"stderr\":\"\"}", BERTH_END_LOST, -1, 0},
        {"{\"exitCode\":null,\"timedOut\":false}", BERTH_END_LOST, -1, 0},
        {"{\"exitCode\":\"0\",\"timedOut\":false}", BERTH_END_LOST, -1, 0},
        {"{\"exitCode\":true}", BERTH_END_LOST, -1, 0},
        {"{\"exitCode\":-1}", BERTH_END_SIGNALLED, -1, SIGKILL},
        {"{\"exitCode\":-2.5}", BERTH_END_LOST, -1, 0},
        {"{\"exitCode\":0}", BERTH_END_EXITED, 0, 0},
        {"{\"exitCode\":3,\"stdout\":5,\"stderr\":[\"x\"]}", BERTH_END_EXITED, 3, 0},
        {"{\"exitCode\":3,\"timedOut\":\"yes\"}", BERTH_END_EXITED, 3, 0},
        {"{\"exitCode\":null,\"timedOut\":true}", BERTH_END_TIMEOUT, -1, 0},
        {"{\"exitCode\":null,\"signal\":\"SIGKILL\"}", BERTH_END_SIGNALLED, -1, SIGKILL},
        {"{\"exitCode\":null,\"signal\":\"SIGNONSENSE\"}", BERTH_END_LOST, -1, 0},
        {"{\"exitCode\":null,\"signal\":9}", BERTH_END_LOST, -1, 0},
    };
    struct berth_lease *lease = take(g);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        struct errand e = {0};
        int before = heard(g, "environmentExecute");
        set_fault(g, "result environmentExecute times=1", endings[i].result);
        run(g, &e, EXECUTE, lease);
        if (e.end.cause != endings[i].cause || e.end.exit_code != endings[i].exit_code ||
            e.end.signal != endings[i].signal)
            fail_msg("%s: %s, %d, %d", endings[i].result, berth_end_cause_name(e.end.cause),
                     e.end.exit_code, e.end.signal);
        assert_int_equal(e.end.bytes[0] + e.end.bytes[1], 0);
        forget(&e);
        /* What nobody knows the end of, its place is asked to end. */
        assert_int_equal(heard(g, "environmentExecute") - before,
                         1 + (endings[i].cause == BERTH_END_LOST));
    }
    give(g, lease);
}

/* 256 is no 0. */
static void exit_code_beyond_a_byte(struct ground *g)
{
    struct berth_lease *lease = take(g);
    struct errand e = {0};
    set_fault(g, "result environmentExecute times=1", "{\"exitCode\":256}");
    run(g, &e, EXECUTE, lease);
    assert_int_not_equal(e.end.exit_code, 0);
    forget(&e);
    give(g, lease);
}

static void wrong_verdicts(struct ground *g)
{
    struct errand e = {0};
    static const char *const refused[] = {"{}",
                                          "null",
                                          "[]",
                                          "{\"ok\":1}",
                                          "{\"ok\":\"true\"}",
                                          "{\"ok\":false,\"errors\":\"none\"}",
                                          "{\"ok\":false,\"errors\":[5]}"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        set_fault(g, "result environmentValidateConfig", refused[i]);
        run(g, &e, VALIDATE, NULL);
        assert_errand(&e, BERTH_E_UNPROCESSABLE,
                      "Sandbox provider \"faulty\" rejected its config.");
        forget(&e);
        set_fault(g, "result environmentProbe", refused[i]);
        run(g, &e, PROBE, NULL);
        assert_errand(&e, BERTH_OK, "Sandbox provider \"faulty\" probe failed.");
        assert_false(e.probe.ok);
        forget(&e);
    }
    set_fault(g, "result environmentValidateConfig", "{\"ok\":true,\"normalizedConfig\":[1]}");
    assert_well(g, VALIDATE, NULL);
    set_fault(g, "result environmentProbe",
              "{\"ok\":true,\"summary\":5,\"diagnostics\":{},\"metadata\":[]}");
    run(g, &e, PROBE, NULL);
    assert_errand(&e, BERTH_OK, "Sandbox provider \"faulty\" probe passed.");
    assert_string_equal(json_text(&g->f, e.probe.details_json, "diagnostics"), "[]");
    assert_string_equal(json_text(&g->f, e.probe.details_json, "metadata"), "{}");
    forget(&e);
}

/* A list that is none is no proof that nothing is there. */
static void wrong_lists(struct ground *g)
{
    struct errand e = {0};
    static const char *const lists[] = {"{}", "null", "[]", "{\"leases\":{}}", "{\"leases\":5}"};
    set_fault(g, "never environmentAcquireLease", NULL);
    start(g, &e, ACQUIRE, NULL);
    AWAIT(heard(g, "environmentAcquireLease") == 1);
    set_fault(g, "result environmentFindLeases", lists[0]);
    let_pass(g, CALL_MS);
    finish(&e);
    assert_errand(&e, BERTH_E_TIMEOUT, timed_out);
    forget(&e);
    struct berth_lease *row = newest_lease(&g->f, g->e);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        set_fault(g, "result environmentFindLeases", lists[i]);
        let_pass(g, g->f.b->settings.cleanup_retry_max_ms);
        assert_int_equal(sweep(&g->f).failed, 1);
        assert_row(&g->f, row, BERTH_LEASE_FAILED, BERTH_PLACE_UNKNOWN, BERTH_CLEANUP_FAILED);
        assert_non_null(strstr(look_at_lease(&g->f, row)->cleanup_error,
                               "answered environmentFindLeases without a list."));
    }
    /* Items that are none are passed over. */
    set_fault(g, "result environmentFindLeases times=1",
              textf(g,
                    "{\"leases\":[5,null,[],{\"leaseId\":7},{\"providerLeaseId\":\"x\"},"
                    "{\"leaseId\":\"%s\"},{\"leaseId\":\"%s\",\"providerLeaseId\":4},"
                    "{\"leaseId\":\"%s\",\"providerLeaseId\":\"place-%s\"}]}",
                    row->id, row->id, row->id, row->id));
    let_pass(g, g->f.b->settings.cleanup_retry_max_ms);
    assert_int_equal(sweep(&g->f).failed, 0);
    assert_done(&g->f, row, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(count_places(g), 0);
    assert_int_equal(look(g).crashes_in_all, 0);
}

/* A list of very many places for one lease: one clean-up ends some of them, and owes the rest. */
static void long_list_of_one_lease(struct ground *g)
{
    struct errand e = {0};
    auto_buf list = BERTH_BUF_INIT(MIB);
    set_fault(g, "never environmentAcquireLease", NULL);
    start(g, &e, ACQUIRE, NULL);
    AWAIT(heard(g, "environmentAcquireLease") == 1);
    struct berth_lease *row = newest_lease(&g->f, g->e);
    berth_buf_printf(&list, "{\"leases\":[");
    for (int i = 0; i < 3 * BERTH_LABEL_PLACES_MAX; i++)
        berth_buf_printf(&list, "%s{\"leaseId\":\"%s\",\"providerLeaseId\":\"place-%d\"}",
                         i ? "," : "", row->id, i);
    berth_buf_printf(&list, "]}");
    set_fault(g, "result environmentFindLeases", berth_buf_str(&list));
    let_pass(g, CALL_MS);
    finish(&e);
    assert_errand(&e, BERTH_E_TIMEOUT, timed_out);
    forget(&e);
    assert_int_equal(heard(g, "environmentDestroyLease"), BERTH_LABEL_PLACES_MAX);
    assert_row(&g->f, row, BERTH_LEASE_FAILED, BERTH_PLACE_UNKNOWN, BERTH_CLEANUP_FAILED);
    assert_non_null(
        strstr(look_at_lease(&g->f, row)->cleanup_error, "lists 48 places of one lease"));
    settle(g);
    assert_done(&g->f, row, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(count_places(g), 0);
}

/* A worker's own config may not give it the time that it likes, nor say when places are ended. */
static void limits_of_a_config(struct ground *g)
{
    set_fault(g, "result environmentValidateConfig",
              "{\"ok\":true,\"normalizedConfig\":{\"timeoutMs\":900000000000000,"
              "\"idleTtlMs\":900000000000000,\"provider\":\"other\"}}");
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    struct berth_issues issues = {.arena = &g->f.arena};
    struct berth_environment *made;
    input.name = "generous";
    input.driver = BERTH_DRIVER_SANDBOX;
    input.config_json = "{\"provider\":\"faulty\"}";
    assert_ok(&g->f,
              berth_environment_create(g->f.b, &g->f.arena, &input, &issues, &made, &g->f.err));
    struct errand e = {.e = made};
    assert_string_equal(made->config_json,
                        "{\"provider\":\"faulty\",\"timeoutMs\":900000000000000}");
    struct berth_lease *lease = take_lease(&g->f, made, NULL);
    set_fault(g, "nothing environmentReleaseLease times=1", NULL);
    start(g, &e, RELEASE, lease);
    AWAIT(heard(g, "environmentReleaseLease") == 1);
    let_pass(g, BERTH_PLACE_CALL_MS_MAX);
    pause_ms(20);
    assert_false(e.done);
    let_pass(g, CALL_MS);
    finish(&e);
    forget(&e);
    assert_row(&g->f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_LIVE, BERTH_CLEANUP_FAILED);
    assert_non_null(
        strstr(look_at_lease(&g->f, lease)->cleanup_error, "timed out after 3630000ms"));
    settle(g);
    assert_done(&g->f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
}

/* Neither a result nor an error, or both, or an error that is none. */
static void odd_answers(struct ground *g)
{
    static const struct {
        const char *members, *words;
    } answers[] = {
        {"{\"error\":null}", "Unexpected response format for \"environmentProbe\""},
        {"{\"error\":5}", "The worker said nothing."},
        {"{\"error\":\"words\"}", "The worker said nothing."},
        {"{\"error\":{}}", "The worker said nothing."},
        {"{\"error\":{\"code\":\"x\",\"message\":7}}", "The worker said nothing."},
        {"{\"error\":{\"code\":404,\"message\":\"no such image\"}}", "no such image"},
        {"{\"error\":{\"message\":\"no code\"},\"result\":{\"ok\":true}}", "no code"},
        {"{\"error\":null,\"result\":{\"ok\":true,\"summary\":\"fine\"}}", "fine"},
        {"{\"method\":\"x\",\"result\":{\"ok\":true,\"summary\":\"both\"}}", "both"},
    };
    struct errand e = {0};
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        set_fault(g, "other environmentProbe", answers[i].members);
        run(g, &e, PROBE, NULL);
        assert_errand(&e, BERTH_OK, answers[i].words);
        assert_int_equal(e.probe.ok, i >= 7);
        forget(&e);
    }
    set_fault(g, "other environmentProbe", "{\"neither\":1}");
    run_late(g, &e, PROBE, NULL);
    assert_errand(&e, BERTH_OK, timed_out);
    forget(&e);
    /* An acquire that is refused made nothing, as far as that can be proved. */
    set_fault(g, "error environmentAcquireLease code=-32002", "no box for you");
    run(g, &e, ACQUIRE, NULL);
    assert_errand(&e, BERTH_E_UPSTREAM, "no box for you");
    forget(&e);
    assert_done(&g->f, newest_lease(&g->f, g->e), BERTH_LEASE_FAILED, BERTH_PLACE_GONE,
                BERTH_CLEANUP_SUCCESS);
    assert_int_equal(heard(g, "environmentFindLeases"), 1);
}

/* --- it dies --- */

struct death {
    const char *fault, *words, *last;
};
static const struct death exits = {"exits", "Worker process exited (code=7, signal=null)",
                                   "\n\nWorker stderr:\nthese are\nits last words"};
static const struct death killed = {"killed", "Worker process exited (code=null, signal=SIGKILL)",
                                    "\n\nWorker stderr:\nno time for more"};

static void arm_death(struct ground *g, const struct death *d, const char *method)
{
    set_fault(g, textf(g, "%s %s times=1", d->fault, method), NULL);
}

static const char *words_of(struct ground *g, const struct death *d)
{
    return textf(g, "%s%s", d->words, d->last);
}

/* Whoever called it is told how it died, and it comes back. A good minute later that is forgotten:
 * a second's wait is one that calls wait for. */
static void run_death(struct ground *g, const struct death *d, struct errand *e, enum op op,
                      const struct berth_lease *lease)
{
    int crashes = look(g).crashes_in_all;
    int64_t before = berth_time_wall_ms();
    arm_death(g, d, methods[op]);
    run(g, e, op, lease);
    bring_back(g);
    struct look l = look(g);
    assert_int_equal(l.crashes_in_all, crashes + 1);
    assert_true(l.last_crash_ms >= before && l.last_crash_ms <= berth_time_wall_ms());
    assert_string_equal(l.error, "");
    let_pass(g, MINUTE_MS);
    AWAIT(look(g).crashes == 0);
}

static void die_everywhere(struct ground *g, const struct death *d)
{
    const char *words = words_of(g, d);
    struct berth_lease *lease = take(g), *row;
    struct errand e = {0};
    static const enum op ops[] = {VALIDATE, RESUME, REALIZE};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        run_death(g, d, &e, ops[i], lease);
        assert_errand(&e, BERTH_E_UNAVAILABLE, words);
        forget(&e);
        assert_row(&g->f, lease, BERTH_LEASE_ACTIVE, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
        assert_well(g, ops[i], lease);
    }
    run_death(g, d, &e, PROBE, NULL);
    assert_errand(&e, BERTH_OK, words);
    assert_false(e.probe.ok);
    forget(&e);

    /* A command: its end is not known, and what is left of it is ended. */
    int before = heard(g, "environmentExecute");
    run_death(g, d, &e, EXECUTE, lease);
    assert_errand(&e, BERTH_OK, textf(g, "berth: %s\n", words));
    assert_int_equal(e.end.cause, BERTH_END_LOST);
    assert_int_equal(e.end.exit_code, -1);
    forget(&e);
    assert_int_equal(heard(g, "environmentExecute"), before + 2);
    assert_row(&g->f, lease, BERTH_LEASE_ACTIVE, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
    assert_well(g, EXECUTE, lease);

    /* Giving back is owed until somebody has confirmed it. */
    run_death(g, d, &e, RELEASE, lease);
    assert_errand(&e, BERTH_OK, "");
    forget(&e);
    assert_row(&g->f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_LIVE, BERTH_CLEANUP_FAILED);
    assert_non_null(strstr(look_at_lease(&g->f, lease)->cleanup_error, words));
    row = take(g);
    run_death(g, d, &e, DESTROY, row);
    assert_errand(&e, BERTH_OK, "");
    forget(&e);
    assert_row(&g->f, row, BERTH_LEASE_FAILED, BERTH_PLACE_LIVE, BERTH_CLEANUP_FAILED);
    assert_non_null(strstr(look_at_lease(&g->f, row)->cleanup_error, words));
    let_pass(g, g->f.b->settings.cleanup_retry_ms);
    assert_int_equal(sweep(&g->f).cleaned, 2);
    assert_done(&g->f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_done(&g->f, row, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);

    /* An audit that cannot be made is none, and changes nothing. */
    run_death(g, d, &e, FIND, NULL);
    assert_errand(&e, BERTH_OK, "");
    assert_int_equal(e.report.failed + e.report.found + e.report.owed, 0);
    forget(&e);

    /* It had made the place: the next one of it finds that by its label. */
    run_death(g, d, &e, ACQUIRE, NULL);
    assert_errand(&e, BERTH_E_UNAVAILABLE, words);
    forget(&e);
    row = newest_lease(&g->f, g->e);
    assert_done(&g->f, row, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_non_null(strstr(row->failure_reason, words));
    assert_int_equal(count_places(g), 0);
}

static void dies_of_itself(struct ground *g)
{
    die_everywhere(g, &exits);
}

static void dies_by_a_signal(struct ground *g)
{
    die_everywhere(g, &killed);
}

/* When it does not come back in time, the place is owed. */
static void dies_and_stays_away(struct ground *g)
{
    struct errand e = {0};
    assert_well(g, PROBE, NULL);
    set_fault(g, "exits environmentAcquireLease times=1", NULL);
    start(g, &e, ACQUIRE, NULL);
    AWAIT(has_state(g, "backoff"));
    set_fault(g, "exits initialize", NULL);
    AWAIT((let_restart(g), e.done));
    finish(&e);
    assert_errand(&e, BERTH_E_UNAVAILABLE, "Worker process exited (code=7, signal=null)");
    forget(&e);
    struct berth_lease *row = newest_lease(&g->f, g->e);
    assert_row(&g->f, row, BERTH_LEASE_FAILED, BERTH_PLACE_UNKNOWN, BERTH_CLEANUP_FAILED);
    assert_int_equal(count_places(g), 1);
    settle(g);
    assert_done(&g->f, row, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(count_places(g), 0);
}

/* A parked place whose resume dies is not handed on, and not lost. */
static void dies_in_the_resume_of_an_acquire(struct ground *g)
{
    struct berth_environment *reused = environment_of(g, "faulty", ",\"reuseLease\":true");
    struct berth_lease *parked = take_lease(&g->f, reused, make_run(&g->f));
    (void)give_lease(&g->f, parked, BERTH_LEASE_RELEASED);
    assert_row(&g->f, parked, BERTH_LEASE_RELEASED, BERTH_PLACE_PARKED, BERTH_CLEANUP_SUCCESS);
    struct errand e = {.e = reused, .run_id = make_run(&g->f)->id};
    arm_death(g, &exits, "environmentResumeLease");
    run(g, &e, ACQUIRE, NULL);
    assert_errand(&e, BERTH_OK, "");
    struct berth_lease *fresh = look_at_lease(&g->f, e.taken);
    forget(&e);
    assert_string_not_equal(fresh->provider_lease_id, parked->provider_lease_id);
    assert_row(&g->f, parked, BERTH_LEASE_RELEASED, BERTH_PLACE_LIVE, BERTH_CLEANUP_PENDING);
    assert_int_equal(sweep(&g->f).cleaned, 1);
    assert_done(&g->f, parked, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_ok(&g->f, berth_lease_destroy(g->f.b, &g->f.arena, fresh->id, NULL, &fresh, &g->f.err));
}

static void dies_in_health(struct ground *g)
{
    static const struct death *const deaths[] = {&exits, &killed};
    for (int i = 0; i < 2; i++) {
        bring_back(g);
        int pid = look(g).pid;
        arm_death(g, deaths[i], "health");
        let_pass(g, MINUTE_MS);
        await_state(g, "backoff");
        assert_string_equal(look(g).error, words_of(g, deaths[i]));
        bring_back(g);
        assert_int_not_equal(look(g).pid, pid);
    }
}

static void dies_in_its_start(struct ground *g)
{
    static const struct death *const deaths[] = {&exits, &killed};
    struct errand e = {0};
    for (int i = 0; i < 2; i++) {
        arm_death(g, deaths[i], "initialize");
        if (i)
            assert_int_equal(kill(look(g).pid, SIGTERM), 0);
        start(g, &e, PROBE, NULL);
        AWAIT((i && !strstr(look(g).error, deaths[i]->words) ? let_restart(g) : (void)0,
               strstr(look(g).error, deaths[i]->words)));
        assert_string_equal(look(g).error, words_of(g, deaths[i]));
        finish(&e); /* by then it has been started again */
        forget(&e);
        bring_back(g);
        assert_string_equal(look(g).error, "");
    }
}

/* Many callers at once are all told, and told once. */
static void dies_with_many_calls(struct ground *g)
{
    enum { CALLS = 500 };
    static struct told told[CALLS], last;
    assert_well(g, PROBE, NULL);
    set_fault(g, "nothing environmentProbe", NULL);
    for (int i = 0; i < CALLS; i++)
        tell(g, g->plugin, "environmentProbe", "{}", &told[i]);
    AWAIT(heard(g, "environmentProbe") == CALLS + 1);
    assert_int_equal(look(g).pending, CALLS);
    arm_death(g, &killed, "environmentFindLeases");
    tell(g, g->plugin, "environmentFindLeases", "{\"environmentId\":\"\"}", &last);
    hear(&last);
    for (int i = 0; i < CALLS; i++) {
        hear(&told[i]);
        assert_int_equal(told[i].answers, 1);
        assert_int_equal(told[i].kind, BERTH_REPLY_GONE);
        assert_non_null(strstr(told[i].text, killed.words));
    }
    assert_int_equal(look(g).pending, 0);
    await_state(g, "backoff");
    /* A call waits for one that is coming back, for five seconds. */
    set_fault(g, "exits initialize", NULL);
    tell(g, g->plugin, "environmentProbe", "{}", &last);
    AWAIT((let_restart(g), last.answers));
    hear(&last);
    assert_int_equal(last.kind, BERTH_REPLY_UNSENT);
    assert_non_null(
        strstr(last.text, "Cannot call \"environmentProbe\" \xe2\x80\x94 worker for \""));
}

/* --- coming back --- */

/* How long it waits, in thousandths of what it should. */
static void assert_wait(const struct look *l, int64_t nominal_ms)
{
    int64_t wait = l->next_restart_ms - l->last_crash_ms;
    int64_t least = nominal_ms * 3 / 4, most = nominal_ms * 5 / 4;
    least = least < 300000 ? least : 300000;
    most = most < 300000 ? most : 300000;
    if (wait < least || wait > most)
        fail_msg("%lld ms after crash %d, not between %lld and %lld", (long long)wait, l->crashes,
                 (long long)least, (long long)most);
}

static void await_crash(struct ground *g, int number)
{
    AWAIT(look(g).crashes_in_all == number && has_state(g, "backoff"));
}

static void waits_longer_and_never_gives_up(struct ground *g)
{
    struct errand e = {0};
    int64_t waits[14];
    bool differ = false;
    set_fault(g, "exits initialize", NULL);
    start(g, &e, PROBE, NULL);
    for (int i = 0; i < 14; i++) {
        await_crash(g, i + 1);
        struct look l = look(g);
        assert_int_equal(l.crashes, i + 1);
        assert_int_equal(l.pid, 0);
        assert_string_equal(l.error, words_of(g, &exits));
        assert_wait(&l, SECOND_MS << i);
        waits[i] = l.next_restart_ms - l.last_crash_ms;
        differ |= i < 8 && waits[i] != SECOND_MS << i;
        if (i >= 2 && i % 4 == 2) { /* not before its time */
            let_pass(g, l.next_restart_ms - berth_time_wall_ms() - 500);
            pause_ms(30);
            assert_true(has_state(g, "backoff"));
        }
        let_restart(g);
    }
    assert_true(differ);
    assert_int_equal(waits[12], 300000);
    await_crash(g, 15);
    finish(&e);
    assert_errand(&e, BERTH_OK, "but its worker did not start"); /* for a reason, or in time */
    forget(&e);
    run(g, &e, ACQUIRE, NULL); /* nothing was made, since nobody could be told */
    assert_errand(&e, BERTH_E_UNAVAILABLE,
                  "its worker did not start"); /* for a reason, or in time */
    forget(&e);
    assert_done(&g->f, newest_lease(&g->f, g->e), BERTH_LEASE_FAILED, BERTH_PLACE_NONE,
                BERTH_CLEANUP_NULL);
    assert_int_equal(heard(g, "environmentAcquireLease"), 0);
}

static void wait_grows_also_for_one_who_starts_well(struct ground *g)
{
    set_fault(g, "leaves initialize", NULL);
    struct berth_workers *workers = berth_registry_workers(g->f.b->registry);
    workers->ops->want(workers, g->plugin, PATIENCE_MS);
    for (int i = 0; i < 6; i++) {
        await_crash(g, i + 1);
        struct look l = look(g);
        assert_int_equal(l.crashes, i + 1);
        assert_string_equal(l.error, "Worker process exited (code=3, signal=null)");
        assert_wait(&l, SECOND_MS << i);
        if (i == 5)
            set_fault(g, "none -", NULL);
        let_restart(g);
    }
    /* Mended: it runs, and a minute later its crashes are forgotten. */
    await_state(g, "running");
    assert_string_equal(look(g).error, "");
    let_pass(g, 50 * SECOND_MS);
    pause_ms(20);
    assert_int_equal(look(g).crashes, 6);
    arm_death(g, &exits, methods[PROBE]);
    assert_well(g, VALIDATE, NULL);
    struct errand e = {0};
    start(g, &e, PROBE, NULL);
    await_crash(g, 7);
    struct look l = look(g);
    assert_wait(&l, SECOND_MS << 6);
    finish(&e);
    forget(&e);
    bring_back(g);
    let_pass(g, MINUTE_MS);
    AWAIT(look(g).crashes == 0);
    assert_true(has_state(g, "running"));
    assert_int_equal(look(g).crashes_in_all, 7);
    arm_death(g, &exits, methods[PROBE]);
    start(g, &e, PROBE, NULL);
    await_crash(g, 8);
    l = look(g);
    assert_int_equal(l.crashes, 1);
    assert_wait(&l, SECOND_MS);
    finish(&e);
    forget(&e);
}

/* Whatever keeps it from starting: the next try looks at everything anew. */
static void no_failed_start_sticks(struct ground *g)
{
    const char *worker = textf(g, "%s/bin/faulty", g->package);
    const char *aside = textf(g, "%s/aside", g->package);
    struct errand e = {0};
    assert_int_equal(rename(worker, aside), 0);
    start(g, &e, PROBE, NULL);
    await_crash(g, 1);
    assert_non_null(strstr(look(g).error, "Worker entrypoint not found for plugin "
                                          "\"test.faulty\". Checked: "));
    finish(&e);
    assert_errand(&e, BERTH_OK, "worker did not start: Worker initialize failed for \"");
    forget(&e);
    assert_int_equal(rename(aside, worker), 0);
    bring_back(g);
    assert_well(g, PROBE, NULL);
    /* The whole package, while it runs. */
    const char *moved = path_in(g, "moved");
    assert_int_equal(rename(g->package, moved), 0);
    assert_int_equal(kill(look(g).pid, SIGKILL), 0);
    await_state(g, "backoff"); /* its error is known a moment before */
    assert_non_null(strstr(look(g).error, "signal=SIGKILL"));
    let_restart(g);
    AWAIT(strstr(look(g).error, "Package root not found for plugin \"test.faulty\""));
    assert_int_equal(rename(moved, g->package), 0);
    bring_back(g);
    assert_string_equal(look(g).error, "");
}

/* Disabled or stopped while it waits, it is not started by its timer. */
static void waiting_ends_with_the_plugin(struct ground *g)
{
    struct berth_plugin *plugin;
    struct berth_worker_status s;
    struct errand e = {0};
    set_fault(g, "exits initialize", NULL);
    run(g, &e, PROBE, NULL);
    forget(&e);
    await_state(g, "backoff");
    assert_ok(&g->f, berth_plugin_disable(g->f.b, &g->f.arena, g->plugin, "for a while", NULL,
                                          &plugin, &g->f.err));
    int starts = heard(g, "initialize");
    assert_true(has_state(g, "stopped"));
    let_pass(g, 10 * MINUTE_MS);
    pause_ms(50);
    assert_true(has_state(g, "stopped"));
    assert_int_equal(heard(g, "initialize"), starts);
    assert_fails(&g->f, BERTH_E_CONFLICT, "is disabled: only one that is ready runs.",
                 berth_plugin_restart(g->f.b, &g->f.arena, g->plugin, &s, &g->f.err));
    assert_ok(&g->f, berth_plugin_enable(g->f.b, &g->f.arena, g->plugin, NULL, &plugin, &g->f.err));
    set_fault(g, "none -", NULL);
    assert_well(g, PROBE, NULL);
}

/* Its answer is how the start went, not that it has not begun. */
static void restart_of_one_that_is_stopped(struct ground *g)
{
    struct berth_plugin *plugin;
    struct berth_worker_status s;
    assert_well(g, PROBE, NULL);
    for (int i = 0; i < 5; i++) {
        assert_ok(&g->f, berth_plugin_disable(g->f.b, &g->f.arena, g->plugin, NULL, NULL, &plugin,
                                              &g->f.err));
        assert_ok(&g->f,
                  berth_plugin_enable(g->f.b, &g->f.arena, g->plugin, NULL, &plugin, &g->f.err));
        assert_ok(&g->f, berth_plugin_restart(g->f.b, &g->f.arena, g->plugin, &s, &g->f.err));
        assert_string_equal(s.status, "running");
    }
}

/* --- the handshake --- */

static void assert_start_fails(struct ground *g, const char *words)
{
    AWAIT(look(g).crashes_in_all > 0 && has_state(g, "backoff"));
    struct look l = look(g);
    if (!strstr(l.error, words))
        fail_msg("lastError is \"%s\", not \"%s\"", l.error, words);
    assert_wait(&l, SECOND_MS);
}

static void starts_too_slowly(struct ground *g)
{
    struct errand e = {0};
    set_fault(g, "nothing initialize times=1", NULL);
    start(g, &e, PROBE, NULL);
    AWAIT(heard(g, "initialize") == 1);
    int pid = look(g).pid;
    assert_true(has_state(g, "starting"));
    let_pass(g, 7 * SECOND_MS); /* of the 15; the rest is for a busy machine */
    pause_ms(30);
    assert_true(has_state(g, "starting"));
    let_pass(g, 8 * SECOND_MS);
    AWAIT(look(g).crashes_in_all == 1 && has_state(g, "backoff"));
    AWAIT(kill(pid, 0) < 0 && errno == ESRCH);
    finish(&e);
    assert_errand(&e, BERTH_OK, "worker did not start: Worker ");
    forget(&e);
    bring_back(g);
}

static void says_that_it_cannot_start(struct ground *g)
{
    struct errand e = {0};
    static const char *const faults[] = {"result initialize times=1",
                                         "error initialize times=1 code=-32002"};
    static const char *const texts[] = {"{\"ok\":false,\"supportedMethods\":[]}", "no licence"};
    for (int i = 0; i < 2; i++) {
        set_fault(g, faults[i], texts[i]);
        if (i)
            assert_int_equal(kill(look(g).pid, SIGKILL), 0);
        start(g, &e, PROBE, NULL);
        AWAIT(look(g).crashes_in_all == 1 + 2 * i ||
              (let_restart(g), look(g).crashes_in_all == 1 + 2 * i));
        finish(&e);
        forget(&e);
        bring_back(g);
        assert_well(g, PROBE, NULL);
    }
}

/* The list stays in memory and is shown to people. */
static void says_that_it_has_many_methods(struct ground *g)
{
    struct berth_worker_status s;
    auto_buf list = BERTH_BUF_INIT(1024 * 1024);
    auto_json *kept = NULL;
    berth_buf_printf(&list, "{\"ok\":true,\"supportedMethods\":[1,\"%0300d\"", 0);
    for (int i = 0; i < 10 * BERTH_WORKER_METHODS_MAX; i++)
        berth_buf_printf(&list, ",\"method-%d\"", i);
    berth_buf_puts(&list, "]}");
    set_fault(g, "result initialize", berth_buf_str(&list));
    assert_ok(&g->f, berth_plugin_restart(g->f.b, &g->f.arena, g->plugin, &s, &g->f.err));
    assert_string_equal(s.status, "running");
    assert_ok(&g->f, berth_json_parse(s.methods_json, strlen(s.methods_json), BERTH_JSON_OURS,
                                      &kept, &g->f.err));
    assert_int_equal(berth_json_count(kept), BERTH_WORKER_METHODS_MAX);
    assert_string_equal(berth_json_str(berth_json_at(kept, 0)), "method-0");
}

/* Why it was killed is what people want to know. */
static void why_a_start_failed(struct ground *g)
{
    struct errand e = {0};
    set_fault(g, "result initialize", "{\"ok\":false}");
    start(g, &e, PROBE, NULL);
    assert_start_fails(g, textf(g,
                                "Worker initialize failed for \"%s\": Worker "
                                "initialize returned ok=false",
                                g->plugin));
    finish(&e);
    forget(&e);
    set_fault(g, "error initialize code=-32002", "no licence");
    AWAIT((let_restart(g), strstr(look(g).error, "no licence")));
    set_fault(g, "nothing initialize", NULL);
    int before = heard(g, "initialize");
    AWAIT((let_restart(g), heard(g, "initialize") > before));
    let_pass(g, 15 * SECOND_MS);
    AWAIT(strstr(look(g).error, "RPC call \"initialize\" timed out after 15000ms"));
}

/* It may ask before it answers, and is answered at once. */
static void asks_before_it_answers(struct ground *g)
{
    struct berth_plugin *plugin;
    assert_ok(&g->f, berth_plugin_configure(g->f.b, &g->f.arena, g->plugin,
                                            "{\"k\":\"v\xe2\x80\xa8\"}", NULL, &plugin, &g->f.err));
    set_fault(g, "asks initialize", NULL);
    int64_t before = real_ms();
    assert_well(g, PROBE, NULL);
    assert_true(real_ms() - before < 5000);
    const char *config = heard_nth(g, "told", 1);
    assert_string_equal(json_text(&g->f, config, "result.k"), "v\xe2\x80\xa8");
    for (int i = 2; i < 4; i++) {
        const char *refused = heard_nth(g, "told", i);
        assert_string_equal(json_text(&g->f, refused, "error.code"), "-32601");
        assert_string_equal(json_text(&g->f, refused, "error.message"),
                            i == 2 ? "Host does not handle method \"no.such.method\""
                                   : "Host does not handle method \"secrets.resolve\"");
    }
    assert_true(json_has(heard_nth(g, "told", 4), "result"));
    const char *params = heard_nth(g, "initialize", 1);
    assert_string_equal(json_text(&g->f, params, "config.k"), "v\xe2\x80\xa8");
    assert_string_equal(json_text(&g->f, params, "manifest.id"), "test.faulty");
    assert_string_equal(json_text(&g->f, params, "apiVersion"), "1");
    assert_string_equal(json_text(&g->f, params, "instanceInfo.instanceId"), "default");
}

/* --- pipes --- */

/* Not as a zombie of somebody's, either. */
static bool lives(int pid)
{
    char path[64], byte;
    (void)snprintf(path, sizeof path, "/proc/%d/environ", pid);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, &byte, 1) == 1;
}

static void child_that_keeps_the_pipes(struct ground *g)
{
    struct errand e = {0};
    set_fault(g, "holds environmentProbe times=1", NULL);
    start(g, &e, PROBE, NULL);
    AWAIT(e.done || has_state(g, "backoff") ||
          (heard(g, "environmentProbe") == 1 && (let_pass(g, 100), false)));
    finish(&e);
    assert_errand(&e, BERTH_OK, "Worker process exited (code=7, signal=null)");
    forget(&e);
    int child = atoi(heard_nth(g, "child", 1));
    AWAIT(!lives(child));
}

/* One that has made itself a session of its own is not reached by the signals to its group. */
static void child_that_leaves_the_group(struct ground *g)
{
    struct errand e = {0};
    set_fault(g, "holds environmentProbe times=1 setsid=1", NULL);
    start(g, &e, PROBE, NULL);
    AWAIT(e.done || has_state(g, "backoff") ||
          (heard(g, "environmentProbe") == 1 && (let_pass(g, 100), false)));
    finish(&e);
    assert_errand(&e, BERTH_OK, "Worker process exited (code=7, signal=null)");
    forget(&e);
}

/* Each step has its time: the answer to shutdown, the exit, SIGTERM, SIGKILL. */
static void will_not_go(struct ground *g)
{
    struct closing c = {.g = g};
    pthread_t thread;
    set_fault(g, "stubborn initialize", NULL);
    bring_back(g);
    int pid = look(g).pid;
    const char *file = state_path(g, g->plugin, "journal");
    assert_int_equal(pthread_create(&thread, NULL, closing_main, &c), 0);
    AWAIT(strstr(read_file(&g->f, file), "\nshutdown {}\n"));
    berth_time_shift(0, 9900);
    pause_ms(50);
    assert_null(strstr(read_file(&g->f, file), "EOF"));
    berth_time_shift(0, 200);
    AWAIT(strstr(read_file(&g->f, file), "EOF null\n"));
    pause_ms(50);
    assert_null(strstr(read_file(&g->f, file), "SIGTERM"));
    berth_time_shift(0, 500);
    AWAIT(strstr(read_file(&g->f, file), "SIGTERM null\n"));
    berth_time_shift(0, 4500);
    pause_ms(50);
    assert_int_equal(kill(pid, 0), 0);
    assert_false(c.done);
    berth_time_shift(0, 600);
    AWAIT(c.done);
    (void)pthread_join(thread, NULL);
    assert_int_equal(kill(pid, 0), -1);
    reopen(g);
}

/* Its calls time out like those of any that hangs, and it is ended for that. */
static void shut(struct ground *g, const char *fault)
{
    struct errand e = {0};
    assert_well(g, PROBE, NULL);
    int pid = look(g).pid;
    set_fault(g, fault, NULL);
    run_late(g, &e, PROBE, NULL);
    assert_errand(&e, BERTH_OK, "RPC call \"environmentProbe\" timed out after 30000ms");
    forget(&e);
    for (int i = 0; i < 4 && look(g).crashes_in_all == 0; i++) {
        let_pass(g, MINUTE_MS);
        let_pass(g, CALL_MS);
        pause_ms(20);
    }
    AWAIT(look(g).crashes_in_all == 1);
    AWAIT(kill(pid, 0) < 0 && errno == ESRCH);
}

static void shuts_its_mouth(struct ground *g)
{
    shut(g, "shuts environmentProbe fd=1 times=1");
}

static void shuts_its_ears(struct ground *g)
{
    shut(g, "shuts environmentProbe fd=0 times=1");
}

static int64_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

static void talks_without_end(struct ground *g)
{
    struct errand e = {0};
    static const char *const faults[] = {
        "chatters environmentProbe line=1000 bytes=100000000",
        "chatters environmentProbe line=100000000 bytes=100000000"};
    assert_well(g, PROBE, NULL);
    int64_t before = begin_growth();
    for (int i = 0; i < 2; i++) {
        set_fault(g, faults[i], NULL);
        start(g, &e, PROBE, NULL);
        AWAIT(heard(g, "environmentProbe") == i + 2);
        assert_healthy(g);
        finish(&e);
        assert_true(e.probe.ok);
        forget(&e);
    }
    await_log(g, "(a line that was too long)");
    assert_growth(before, 100);
    const char *path = log_path(g, g->plugin);
    assert_true(size_of(path) <= 6 * MIB);
    assert_true(size_of(textf(g, "%s.1", path)) <= 6 * MIB);
    assert_int_equal(access(textf(g, "%s.2", path), F_OK), -1);
    /* In an error it is the end of it that is told. */
    arm_death(g, &exits, methods[PROBE]);
    run(g, &e, PROBE, NULL);
    assert_errand(&e, BERTH_OK, "Worker process exited (code=7, signal=null)\n\nWorker stderr:\n");
    forget(&e);
    await_log(g, "its last words");
}

/* What is written for it waits, within bounds, and calls have their time as always. */
static void does_not_read(struct ground *g)
{
    enum { CALLS = 1000 };
    static struct told told[CALLS];
    auto_buf params = BERTH_BUF_INIT(MIB);
    berth_buf_puts(&params, "{\"x\":\"");
    for (int i = 0; i < 100; i++)
        berth_buf_puts(&params, "0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrs"
                                "tuvwxyz0123456789abcdefghijklmnopqrstuvwxyz");
    berth_buf_puts(&params, "\"}");
    assert_well(g, PROBE, NULL);
    set_fault(g, "deaf environmentProbe", NULL);
    assert_well(g, PROBE, NULL);
    int64_t before = begin_growth();
    for (int i = 0; i < CALLS; i++)
        tell(g, g->plugin, "environmentValidateConfig", berth_buf_str(&params), &told[i]);
    assert_healthy(g);
    assert_int_equal(look(g).pending, CALLS);
    let_pass(g, CALL_MS);
    for (int i = 0; i < CALLS; i++) {
        hear(&told[i]);
        assert_int_equal(told[i].kind, BERTH_REPLY_TIMEOUT);
    }
    assert_growth(before, 100);
    assert_int_equal(look(g).pending, 0);
    assert_int_equal(heard(g, "environmentValidateConfig"), 0);
    /* It hangs, and is ended for that. */
    set_fault(g, "none -", NULL);
    for (int i = 0; i < 4 && look(g).crashes_in_all == 0; i++) {
        let_pass(g, MINUTE_MS);
        let_pass(g, CALL_MS);
        pause_ms(20);
    }
    AWAIT(look(g).crashes_in_all == 1);
}

/* Calls beyond what may wait are refused at once; nothing of them was sent. */
static void does_not_read_much(struct ground *g)
{
    enum { CALLS = 300 };
    static struct told told[CALLS];
    auto_buf params = BERTH_BUF_INIT(4 * MIB);
    int timeouts = 0, unsent = 0;
    berth_buf_puts(&params, "{\"x\":\"");
    while (params.len < MIB)
        berth_buf_puts(&params, "0123456789abcdefghijklmnopqrstuvwxyz");
    berth_buf_puts(&params, "\"}");
    assert_well(g, PROBE, NULL);
    set_fault(g, "deaf environmentProbe", NULL);
    assert_well(g, PROBE, NULL);
    int64_t before = begin_growth();
    for (int i = 0; i < CALLS; i++)
        tell(g, g->plugin, "environmentValidateConfig", berth_buf_str(&params), &told[i]);
    assert_healthy(g);
    let_pass(g, CALL_MS);
    for (int i = 0; i < CALLS; i++) {
        hear(&told[i]);
        timeouts += told[i].kind == BERTH_REPLY_TIMEOUT;
        unsent += told[i].kind == BERTH_REPLY_UNSENT;
        if (told[i].kind == BERTH_REPLY_UNSENT)
            assert_string_equal(told[i].text, "The worker does not read what it is sent.");
    }
    assert_int_equal(timeouts + unsent, CALLS);
    assert_true(timeouts >= 100 && unsent >= 40);
    assert_growth(before, 700); /* what waits, and the copies that are on their way to it */
    set_fault(g, "none -", NULL);
    assert_int_equal(kill(look(g).pid, SIGKILL), 0);
    AWAIT(look(g).crashes_in_all == 1);
}

/* It asks and asks, and does not read the answers. */
static void asks_and_does_not_read(struct ground *g)
{
    struct told t;
    assert_well(g, PROBE, NULL);
    int64_t before = begin_growth();
    set_fault(g, "floods environmentProbe count=800000", NULL);
    tell_for(g, g->plugin, "environmentProbe", "{}", 10 * MINUTE_MS,
             &t); /* longer than the flood */
    AWAIT(heard(g, "flooded") == 1);
    assert_healthy(g);
    assert_growth(before, 330); /* without a bound it would be more */
    set_fault(g, "none -", NULL);
    assert_int_equal(kill(look(g).pid, SIGKILL), 0);
    hear(&t);
    assert_int_equal(t.kind, BERTH_REPLY_GONE);
}

/* --- health --- */

static void miss_health(struct ground *g, int number)
{
    let_pass(g, MINUTE_MS);
    AWAIT(heard(g, "health") == number);
    let_pass(g, CALL_MS);
    pause_ms(20);
}

static void hangs_three_times(struct ground *g)
{
    assert_well(g, PROBE, NULL);
    int pid = look(g).pid;
    /* Twice is forgiven. */
    set_fault(g, "nothing health times=2", NULL);
    miss_health(g, 1);
    miss_health(g, 2);
    let_pass(g, MINUTE_MS);
    AWAIT(heard(g, "health") == 3);
    pause_ms(20);
    assert_int_equal(look(g).pid, pid);
    assert_well(g, PROBE, NULL);
    set_fault(g, "nothing health", NULL);
    miss_health(g, 4);
    miss_health(g, 5);
    assert_int_equal(look(g).pid, pid);
    miss_health(g, 6);
    await_state(g, "backoff");
    assert_int_equal(look(g).crashes_in_all, 1);
    assert_non_null(strstr(look(g).error, "Worker process exited (code=null, signal=SIGKILL)"));
    AWAIT(kill(pid, 0) < 0 && errno == ESRCH);
    set_fault(g, "none -", NULL);
    bring_back(g);
    await_log(g, "It did not answer health; it is killed.");
}

static void knows_no_health(struct ground *g)
{
    static const char *const faults[] = {"error health code=-32601", "error health code=-32004",
                                         "result health", "error health code=1"};
    assert_well(g, PROBE, NULL);
    int pid = look(g).pid, calls = 0;
    for (int i = 0; i < 12; i++) {
        set_fault(g, faults[i / 3], "5");
        let_pass(g, MINUTE_MS);
        calls++;
        AWAIT(heard(g, "health") == calls);
        assert_well(g, PROBE, NULL); /* its answer has been heard, then */
    }
    assert_int_equal(look(g).pid, pid);
    assert_int_equal(look(g).crashes_in_all, 0);
}

/* --- its config --- */

static void configure(struct ground *g, const char *config)
{
    struct berth_plugin *plugin;
    assert_ok(&g->f, berth_plugin_configure(g->f.b, &g->f.arena, g->plugin, config, NULL, &plugin,
                                            &g->f.err));
}

static void config_is_told(struct ground *g)
{
    configure(g, "{\"n\":1}");
    assert_well(g, PROBE, NULL);
    assert_string_equal(json_text(&g->f, heard_nth(g, "initialize", 1), "config.n"), "1");
    int pid = look(g).pid;
    configure(g, "{\"n\":2}");
    AWAIT(heard(g, "configChanged") == 1);
    assert_string_equal(json_text(&g->f, heard_nth(g, "configChanged", 1), "config.n"), "2");
    pause_ms(20);
    assert_int_equal(look(g).pid, pid);
    /* Other errors than "no such method" are its own affair. */
    set_fault(g, "error configChanged code=-32002", "not now");
    configure(g, "{\"n\":3}");
    AWAIT(heard(g, "configChanged") == 2);
    pause_ms(20);
    assert_int_equal(look(g).pid, pid);
    /* One that knows no such method reads it at its next start, which is now. */
    static const int codes[] = {-32601, -32004};
    for (int i = 0; i < 2; i++) {
        set_fault(g, textf(g, "error configChanged times=1 code=%d", codes[i]), "no such method");
        configure(g, textf(g, "{\"n\":%d}", 4 + i));
        AWAIT(heard(g, "initialize") == 2 + i);
        await_state(g, "running");
        assert_string_equal(json_text(&g->f, heard_nth(g, "initialize", 2 + i), "config.n"),
                            i ? "5" : "4");
        assert_int_not_equal(look(g).pid, pid);
    }
    assert_int_equal(look(g).crashes_in_all, 0);
    /* And after a crash. */
    assert_int_equal(kill(look(g).pid, SIGKILL), 0);
    await_state(g, "backoff");
    configure(g, "{\"n\":6}");
    bring_back(g);
    assert_string_equal(json_text(&g->f, heard_nth(g, "initialize", 4), "config.n"), "6");
    set_fault(g, "none -", NULL);
}

/* A change while it is starting: what it was started with is the old one. */
static void config_changes_during_the_start(struct ground *g)
{
    struct errand e = {0};
    configure(g, "{\"n\":1}");
    set_fault(g, "slow initialize ms=500", NULL);
    start(g, &e, PROBE, NULL);
    AWAIT(heard(g, "initialize") == 1);
    configure(g, "{\"n\":2}");
    finish(&e);
    assert_true(e.probe.ok);
    forget(&e);
    int64_t since = real_ms();
    while (heard(g, "configChanged") == 0 && heard(g, "initialize") == 1)
        if (real_ms() - since > 2000)
            fail_msg("it was never told");
        else
            pause_ms(5);
}

/* --- what other processes do to its row --- */

/* A second later everybody knows. */
static void let_know(struct ground *g)
{
    struct berth_sweep_options options = BERTH_SWEEP_OPTIONS_INIT;
    struct berth_sweep_report report;
    berth_time_shift(1100, 1100);
    assert_ok(&g->f, berth_sweep(g->f.b, &options, &report, &g->f.err));
}

static void others_change_its_row(struct ground *g)
{
    struct fixture *f = &g->f;
    struct berth_options options = BERTH_OPTIONS_INIT;
    struct berth_plugin *plugin;
    struct berth *other;
    options.store = f->store;
    assert_ok(f, berth_open(&options, &other, &f->err));
    assert_well(g, PROBE, NULL);
    int pid = look(g).pid;
    /* Its config: it hears of it, and goes on. */
    assert_ok(f, berth_plugin_configure(other, &f->arena, g->plugin, "{\"n\":7}", NULL, &plugin,
                                        &f->err));
    let_know(g);
    AWAIT(heard(g, "configChanged") == 1);
    assert_string_equal(json_text(f, heard_nth(g, "configChanged", 1), "config.n"), "7");
    let_know(g);
    assert_int_equal(look(g).pid, pid);
    assert_int_equal(heard(g, "configChanged"), 1);
    /* Its package: the old worker ends, and the new one comes when it is needed. */
    put_file(textf(g, "%s/manifest.json", g->package),
             textf(g, "%s ", read_file(f, textf(g, "%s/manifest.json", g->package))), 0644);
    assert_ok(f, berth_plugin_upgrade(other, &f->arena, g->plugin, NULL, NULL, &plugin, &f->err));
    let_know(g);
    AWAIT(look(g).pid != pid);
    assert_well(g, PROBE, NULL);
    /* Its status. */
    assert_ok(f, berth_plugin_disable(other, &f->arena, g->plugin, NULL, NULL, &plugin, &f->err));
    let_know(g);
    await_state(g, "stopped");
    assert_ok(f, berth_plugin_enable(other, &f->arena, g->plugin, NULL, &plugin, &f->err));
    let_know(g);
    assert_well(g, PROBE, NULL);
    /* And its end. */
    pid = look(g).pid;
    assert_ok(f, berth_plugin_uninstall(other, &f->arena, g->plugin, NULL, &f->err));
    let_know(g);
    for (int waited = 0; kill(pid, 0) == 0; waited += 2) {
        assert_true(waited < PATIENCE_MS);
        pause_ms(2);
    }
    berth_close(other);
    install(g, g->package, g->plugin);
}

/* --- the end of the runtime --- */

/* Calls in flight come home before the worker is asked to go. */
static void closing_waits_for_calls(struct ground *g)
{
    struct told told[5];
    set_fault(g, "slow environmentProbe ms=300", NULL);
    bring_back(g);
    for (int i = 0; i < 5; i++)
        tell(g, g->plugin, "environmentProbe", "{}", &told[i]);
    close_ground(g);
    for (int i = 0; i < 5; i++) {
        hear(&told[i]);
        assert_int_equal(told[i].kind, BERTH_REPLY_RESULT);
    }
    const char *said = journal(g), *asked = strstr(said, "\nshutdown {}\n");
    assert_non_null(asked);
    const char *after = strstr(said, "answered ");
    assert_true(after && after < asked);
    reopen(g);
}

/* Those that do not come home have ten seconds. */
static void closing_gives_up_on_calls(struct ground *g)
{
    struct closing c = {.g = g};
    pthread_t thread;
    static struct told told[50];
    set_fault(g, "nothing environmentProbe", NULL);
    bring_back(g);
    for (int i = 0; i < 50; i++)
        tell(g, g->plugin, "environmentProbe", "{}", &told[i]);
    AWAIT(heard(g, "environmentProbe") == 50);
    const char *file = state_path(g, g->plugin, "journal");
    assert_int_equal(pthread_create(&thread, NULL, closing_main, &c), 0);
    pause_ms(100);
    assert_null(strstr(read_file(&g->f, file), "shutdown"));
    berth_time_shift(0, 10 * SECOND_MS);
    for (int i = 0; i < 50; i++) {
        hear(&told[i]);
        assert_int_equal(told[i].answers, 1);
        assert_int_equal(told[i].kind, BERTH_REPLY_GONE);
        assert_non_null(strstr(told[i].text, "Worker process exited (code=0, signal=null)"));
    }
    (void)pthread_join(thread, NULL);
    reopen(g);
}

/* Closed again and again, in whatever state it is. */
static void closing_at_any_moment(struct ground *g)
{
    static const char *const faults[] = {"none -",           "nothing initialize",
                                         "exits initialize", "leaves initialize",
                                         "exits shutdown",   "leaves environmentProbe"};
    struct told t;
    close_ground(g);
    for (int i = 0; i < 30; i++) {
        set_fault(g, faults[i % 6], NULL);
        fixture_open(&g->f);
        struct berth_workers *workers = berth_registry_workers(g->f.b->registry);
        workers->ops->want(workers, g->plugin, i / 6 * 20);
        tell(g, g->plugin, "environmentProbe", "{}", &t);
        close_ground(g);
        hear(&t);
        assert_int_equal(t.answers, 1);
        assert_no_process(g);
    }
    reopen(g);
}

/* A worker that wants a restart for its new config, and is to go meanwhile: it goes. */
static void closing_after_a_change_of_config(struct ground *g)
{
    static struct closing c;
    pthread_t thread;
    c.g = g;
    set_fault(g, "error configChanged code=-32601 ms=300", "no such method");
    bring_back(g);
    configure(g, "{\"n\":1}");
    AWAIT(heard(g, "configChanged") == 1);
    assert_int_equal(pthread_create(&thread, NULL, closing_main, &c), 0);
    for (int64_t since = real_ms(); !c.done && real_ms() - since < 10000;)
        pause_ms(5);
    g->stuck = !c.done;
    assert_false(g->stuck);
    (void)pthread_join(thread, NULL);
    reopen(g);
}

/* One that is stopped already is let go, too. */
static void closing_after_it_was_disabled(struct ground *g)
{
    struct berth_plugin *plugin;
    for (int i = 0; i < 20; i++) {
        bring_back(g);
        assert_ok(&g->f, berth_plugin_disable(g->f.b, &g->f.arena, g->plugin, NULL, NULL, &plugin,
                                              &g->f.err));
        assert_ok(&g->f,
                  berth_plugin_enable(g->f.b, &g->f.arena, g->plugin, NULL, &plugin, &g->f.err));
        close_ground(g);
        reopen(g);
    }
}

/* Restarted while others want it: nobody waits for ever. */
static void *probe_on(void *ctx)
{
    struct closing *c = ctx;
    while (!c->done) {
        auto_arena arena = BERTH_ARENA_INIT;
        struct berth_probe probe;
        struct berth_error err;
        (void)berth_environment_probe(c->g->f.b, &arena, c->g->e->id, NULL, &probe, &err);
    }
    return NULL;
}

static void restarted_while_it_is_wanted(struct ground *g)
{
    enum { THREADS = 6 };
    struct closing c = {.g = g};
    pthread_t threads[THREADS];
    struct berth_worker_status s;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, probe_on, &c), 0);
    for (int i = 0; i < 25; i++)
        assert_ok(&g->f, berth_plugin_restart(g->f.b, &g->f.arena, g->plugin, &s, &g->f.err));
    c.done = true;
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    assert_int_equal(look(g).crashes_in_all, 0);
}

/* In a process of its own: opens, wants both workers, says their numbers, and waits. */
static void own_workers(struct ground *g, int report_fd)
{
    struct berth_workers *workers;
    int pids[2];
    open_ground(g);
    workers = berth_registry_workers(g->f.b->registry);
    workers->ops->want(workers, g->plugin, PATIENCE_MS);
    workers->ops->want(workers, g->healthy, PATIENCE_MS);
    pids[0] = look_at(g, g->plugin).pid;
    pids[1] = look_at(g, g->healthy).pid;
    if (write(report_fd, pids, sizeof pids) != sizeof pids)
        _exit(1);
    for (;;)
        (void)pause();
}

static void die_with_their_owner(struct ground *g, const char *fault)
{
    int ends[2], pids[2] = {0};
    set_fault(g, fault, NULL);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t owner = fork();
    if (owner == 0) {
        own_workers(g, ends[1]);
        _exit(1);
    }
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], pids, sizeof pids), sizeof pids);
    (void)close(ends[0]);
    assert_true(pids[0] > 0 && pids[1] > 0);
    assert_int_equal(kill(pids[0], 0), 0);
    assert_int_equal(kill(pids[1], 0), 0);
    assert_int_equal(kill(owner, SIGKILL), 0);
    assert_int_equal(waitpid(owner, NULL, 0), owner);
    AWAIT(!find_process(g));
}

static void owner_is_killed(struct ground *g)
{
    die_with_their_owner(g, "none -");
}

static void owner_of_a_stubborn_one_is_killed(struct ground *g)
{
    die_with_their_owner(g, "stubborn initialize");
}

/* --- what it may see --- */

static int landlock_abi(void)
{
    return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

static void put_list(struct berth_json_writer *w, const char *key, const char *const *paths)
{
    berth_json_open_in(w, key, '[');
    for (; *paths; paths++)
        berth_json_put_str(w, NULL, *paths);
    berth_json_close(w, ']');
}

/* What was tried under that name, and came out so. */
static void assert_said(struct ground *g, const struct berth_json *said, const char *name,
                        const char *const *allowed)
{
    const char *what = berth_json_str(berth_json_get(said, name));
    (void)g;
    for (; what && *allowed; allowed++)
        if (strcmp(what, *allowed) == 0)
            return;
    fail_msg("%s: %s", name, what ? what : "not tried");
}

static const char *home_of_user(void)
{
    const struct passwd *user = getpwuid(getuid());
    return user && strcmp(user->pw_dir, "/") != 0 ? user->pw_dir : "/root";
}

/* What is not in the cage does not exist there, nor does a process that is not. */
static const char *const denied[] = {"EACCES", "EPERM", "ENOENT", "EROFS", "ESRCH", NULL};
static const char *const done[] = {"done", NULL};

static void assert_denied(struct ground *g, const struct berth_json *said, const char *verb,
                          const char *const *paths)
{
    for (; *paths; paths++)
        assert_said(g, said, textf(g, "%s %s", verb, *paths), denied);
}

static void assert_environment(struct ground *g, const struct berth_json *environ)
{
    const char *path = getenv("PATH"), *node_path = getenv("NODE_PATH"), *tz = getenv("TZ");
    const char *node_env = getenv("NODE_ENV");
    const char *const want[] = {
        textf(g, "BERTH_PLUGIN_STATE=%s/plugin-state/%s", g->f.directory, g->plugin),
        berth_json_str(berth_json_at(environ, 1)), /* another one each time */
        textf(g, "HOME=%s/plugin-state/%s", g->f.directory, g->plugin),
        textf(g, "NODE_ENV=%s", node_env ? node_env : "production"),
        textf(g, "NODE_PATH=%s", node_path ? node_path : ""),
        "PAPERCLIP_DEPLOYMENT_EXPOSURE=",
        "PAPERCLIP_DEPLOYMENT_MODE=",
        textf(g, "PAPERCLIP_PLUGIN_ID=%s", g->plugin),
        textf(g, "PATH=%s", path),
        textf(g, "TMPDIR=%s/plugin-state/%s/tmp", g->f.directory, g->plugin),
        textf(g, "TZ=%s", tz ? tz : "UTC")};
    size_t count = sizeof want / sizeof want[0];
    for (size_t i = 0; i < berth_json_count(environ); i++)
        assert_string_equal(berth_json_str(berth_json_at(environ, i)), i < count ? want[i] : "");
    assert_int_equal(berth_json_count(environ), count);
    assert_int_equal(strncmp(want[1], "BERTH_WORKER_ID=", 16), 0);
}

/* All that is none of its business; each list ends with NULL. */
struct attempts {
    const char *reads[16], *lists[16], *writes[16], *appends[8], *removes[8], *links[8];
};

static struct attempts make_attempts(struct ground *g)
{
    const char *proc = textf(g, "/proc/%d", getpid()), *home = home_of_user();
    const char *foreign = path_in(g, "foreign"), *key = path_in(g, "secrets.key");
    const char *own_log = log_path(g, g->plugin);
    struct berth_secret_input input = {.name = "a secret"};
    struct berth_secret *secret;
    assert_ok(&g->f, berth_secret_create(g->f.b, &g->f.arena, &input, "hidden value", 12, &secret,
                                         &g->f.err));
    put_file(foreign, "not yours", 0666);
    assert_well(g, PROBE, NULL);
    AWAIT(size_of(own_log) > 0);
    return (struct attempts){
        .reads = {key, path_in(g, "berth.db"), path_in(g, "berth.db-wal"), log_path(g, g->healthy),
                  FAKE_PACKAGE "/manifest.json", FAULTY_WORKER, foreign, "/etc/shadow",
                  textf(g, "%s/environ", proc), textf(g, "%s/mem", proc), textf(g, "%s/maps", proc),
                  textf(g, "%s/fd/0", proc), textf(g, "/proc/%d/environ", g->healthy_pid)},
        .lists = {path_in(g, "logs"), state_path(g, g->healthy, ""), home,
                  textf(g, "%s/root", proc)},
        .writes = {path_in(g, "new"), "/new", "/etc/new", "/usr/new", "/dev/new",
                   textf(g, "%s/berth-test-new", home), textf(g, "%s/new", g->package),
                   state_path(g, g->healthy, "new"), state_path(g, g->plugin, "../new")},
        .appends = {own_log, textf(g, "%s/fault", g->package), foreign},
        .removes = {own_log, key, foreign},
        .links = {key, foreign}};
}

static void write_attempts(struct ground *g, const struct attempts *a, struct berth_buf *out)
{
    struct berth_json_writer w = {.buf = out};
    berth_json_open(&w, '{');
    put_list(&w, "read", a->reads);
    put_list(&w, "list", a->lists);
    put_list(&w, "write", a->writes);
    put_list(&w, "append", a->appends);
    put_list(&w, "remove", a->removes);
    put_list(&w, "link", a->links);
    berth_json_open_in(&w, "signal", '[');
    berth_json_put_int(&w, NULL, getpid());
    berth_json_put_int(&w, NULL, g->healthy_pid);
    berth_json_close(&w, ']');
    berth_json_close(&w, '}');
}

static void assert_attempts(struct ground *g, const struct attempts *a,
                            const struct berth_json *said)
{
    assert_denied(g, said, "read", a->reads);
    assert_denied(g, said, "list", a->lists);
    assert_denied(g, said, "write", a->writes);
    assert_denied(g, said, "append", a->appends);
    assert_denied(g, said, "remove", a->removes);
    for (int i = 0; a->links[i]; i++)
        assert_said(g, said, textf(g, "link %s", a->links[i]),
                    (const char *const[]){"EACCES", "EPERM", "EXDEV", "ENOENT", NULL});
    assert_said(g, said, textf(g, "signal %d", getpid()), denied);
    assert_said(g, said, textf(g, "signal %d", g->healthy_pid), denied);
    assert_said(g, said, "become root", denied);
    assert_said(g, said, "own state", done);
    assert_said(g, said, "own tmp", done);
    assert_said(g, said, "own package", done);
}

/* Root's workers are other users, whatever the modes of our directories are. */
static void try_everything(struct ground *g)
{
    struct errand e = {0};
    auto_buf plan = BERTH_BUF_INIT(MIB);
    struct attempts attempts = make_attempts(g);
    write_attempts(g, &attempts, &plan);
    assert_int_equal(access(attempts.reads[0], R_OK), 0); /* there is something to see */
    auto_close int ours = open("/dev/null", O_RDONLY);    /* one that could be inherited */
    set_fault(g, "tries environmentProbe", berth_buf_str(&plan));
    run(g, &e, PROBE, NULL);
    assert_true(e.probe.ok);
    auto_json *details = parse_json(e.probe.details_json);
    const struct berth_json *answer = berth_json_get(details, "metadata");
    assert_attempts(g, &attempts, berth_json_get(answer, "said"));
    assert_environment(g, berth_json_get(answer, "environ"));
    const struct berth_json *descriptors = berth_json_get(answer, "descriptors");
    assert_int_equal(berth_json_count(descriptors), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(berth_json_int(berth_json_at(descriptors, (size_t)i)), i);
    assert_string_equal(berth_json_str(berth_json_get(answer, "capabilities")), "0000000000000000");
    assert_string_equal(berth_json_str(berth_json_get(answer, "noNewPrivs")), "1");
    assert_string_equal(berth_json_str(berth_json_get(answer, "cwd")),
                        textf(g, "%s/plugin-state/%s", g->f.directory, g->plugin));
    assert_int_equal(berth_json_int(berth_json_get(answer, "uid")) != (int64_t)getuid(),
                     geteuid() == 0);
    assert_non_null(strstr(look(g).confinement, "own root directory and processes; files confined "
                                                "by Landlock; system calls filtered; no Unix"));
    forget(&e);
}

static void want_landlock(void)
{
    if (landlock_abi() >= 1)
        return;
    (void)printf("# skipped: this kernel has no Landlock\n");
    skip();
}

static void sees_nothing_of_ours(struct ground *g)
{
    want_landlock();
    try_everything(g);
}

/* Opens anew, with directories that others can reach. */
static void become_others(struct ground *g)
{
    close_ground(g);
    assert_int_equal(chmod(g->f.directory, 0711), 0);
    assert_int_equal(chmod(path_in(g, "plugin-state"), 0711), 0);
    reopen(g);
}

/* It makes no difference whether others can reach our directories. */
static void is_somebody_else(struct ground *g)
{
    want_landlock();
    if (geteuid() != 0) {
        (void)printf("# skipped: only root can choose another user\n");
        skip();
    }
    become_others(g);
    try_everything(g);
}

/* What came of reading that one file. */
static void assert_unreadable(struct ground *g, const struct berth_environment *e,
                              const char *package, const char *path)
{
    struct errand errand = {.e = e};
    put_file(textf(g, "%s/fault", package),
             textf(g,
                   "tries environmentProbe\n{\"read\":[\"%s\"],\"list\":[],"
                   "\"write\":[],\"append\":[],\"remove\":[],\"link\":[],"
                   "\"signal\":[]}",
                   path),
             0644);
    run(g, &errand, PROBE, NULL);
    assert_true(errand.probe.ok);
    auto_json *details = parse_json(errand.probe.details_json);
    forget(&errand);
    assert_said(g, berth_json_get(berth_json_get(details, "metadata"), "said"),
                textf(g, "read %s", path), denied);
}

/* What lies beside a package is not its own, wherever in the package its entry is. */
static void sees_nothing_beside_its_package(struct ground *g)
{
    char id[BERTH_ID_SIZE];
    want_landlock();
    const char *package = make_package(g, "shallow", "faulty"), *beside = path_in(g, "beside");
    copy_worker(g, package, "faulty");
    install(g, package, id);
    put_file(beside, "not yours", 0600);
    assert_unreadable(g, environment_of(g, "shallow", ""), package, beside);
    assert_ok(&g->f, berth_plugin_uninstall(g->f.b, &g->f.arena, id, NULL, &g->f.err));
}

/* A disk that we may read, since it has everything on it; or NULL. */
static const char *find_disk(struct ground *g)
{
    DIR *dir = opendir("/dev");
    const char *found = NULL;
    for (const struct dirent *entry; !found && (entry = readdir(dir));) {
        const char *path = textf(g, "/dev/%s", entry->d_name);
        struct stat st;
        auto_close int fd = stat(path, &st) == 0 && S_ISBLK(st.st_mode)
                                ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
                                : -1;
        if (fd >= 0)
            found = path;
    }
    (void)closedir(dir);
    return found;
}

static void reads_no_disk(struct ground *g)
{
    want_landlock();
    const char *disk = find_disk(g);
    if (!disk) {
        (void)printf("# skipped: there is no disk that we may read\n");
        skip();
    }
    assert_unreadable(g, g->e, g->package, disk);
}

/* Its directories are given to it at each start: what it has put in their stead is not. */
static void is_given_nothing_else(struct ground *g)
{
    struct stat st;
    struct errand e = {0};
    if (geteuid() != 0) {
        (void)printf("# skipped: only root can choose another user\n");
        skip();
    }
    const char *victim = path_in(g, "victim");
    assert_int_equal(mkdir(victim, 0700), 0);
    become_others(g);
    assert_well(g, PROBE, NULL);
    assert_int_equal(stat(state_path(g, g->plugin, "tmp"), &st), 0);
    assert_int_not_equal(st.st_uid, 0);
    set_fault(g, "swaps environmentProbe times=1", victim);
    run(g, &e, PROBE, NULL);
    forget(&e);
    bring_back(g);
    assert_int_equal(heard(g, "initialize"), 2);
    assert_int_equal(stat(victim, &st), 0);
    assert_int_equal(st.st_uid, 0);
    assert_int_equal(lstat(state_path(g, g->plugin, "tmp"), &st), 0);
    assert_true(S_ISDIR(st.st_mode) && st.st_uid != 0);
}

/* --- what the operator allows --- */

/* Returns whether the worker that runs has the variable, "NAME=value". */
static bool has_variable(struct ground *g, const char *variable)
{
    char file[64];
    struct berth_error err;
    auto_buf text = BERTH_BUF_INIT(256 * 1024);
    (void)snprintf(file, sizeof file, "/proc/%d/environ", look(g).pid);
    auto_close int fd = open(file, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(berth_fs_read_all(fd, &text, &err), BERTH_OK);
    for (const char *at = berth_buf_str(&text); at < text.data + text.len; at += strlen(at) + 1)
        if (strcmp(at, variable) == 0)
            return true;
    return false;
}

static int set_settings(struct ground *g, const char *change)
{
    struct berth_plugin *plugin;
    return berth_plugin_set(g->f.b, &g->f.arena, g->plugin, change, NULL, &plugin, &g->f.err);
}

/* A worker has the variables that the operator names for its plugin, and is started anew when they
 * change. */
static void has_the_operators_variables(struct ground *g)
{
    assert_int_equal(setenv("BERTHTEST_PROXY", "http://proxy:1", 1), 0);
    assert_int_equal(unsetenv("BERTHTEST_ABSENT"), 0);
    assert_well(g, PROBE, NULL);
    int pid = look(g).pid;
    assert_false(has_variable(g, "BERTHTEST_PROXY=http://proxy:1"));
    assert_ok(&g->f, set_settings(g, "{\"env\":{\"BERTHTEST_PROXY\":null,"
                                     "\"BERTHTEST_ABSENT\":null,\"DOMAIN\":\"a=b\"}}"));
    assert_well(g, PROBE, NULL);
    assert_int_not_equal(look(g).pid, pid);
    assert_true(has_variable(g, "BERTHTEST_PROXY=http://proxy:1"));
    assert_true(has_variable(g, "DOMAIN=a=b"));
    assert_ok(&g->f, set_settings(g, "{\"env\":{}}"));
    assert_well(g, PROBE, NULL);
    assert_false(has_variable(g, "BERTHTEST_PROXY=http://proxy:1"));
    assert_false(has_variable(g, "DOMAIN=a=b"));

    static const struct {
        const char *change;
        int code;
        const char *words;
    } refused[] = {
        {"{\"env\":{\"PATH\":\"/x\"}}", BERTH_E_INVALID, "berth itself sets"},
        {"{\"env\":{\"BERTH_WORKER_ID\":null}}", BERTH_E_INVALID, "berth itself sets"},
        {"{\"env\":{\"1A\":\"x\"}}", BERTH_E_INVALID, "is not the name of a variable"},
        {"{\"env\":{\"A=B\":\"x\"}}", BERTH_E_INVALID, "is not the name of a variable"},
        {"{\"env\":{\"A\":1}}", BERTH_E_INVALID, "is a text or null"},
        {"{\"env\":{\"E2B_API_KEY\":\"x\"}}", BERTH_E_INVALID, "Put secrets into the config"},
        {"{\"env\":[]}", BERTH_E_INVALID, "is an object"},
        {"{\"colour\":1}", BERTH_E_INVALID, "has no setting \"colour\""},
        {"[]", BERTH_E_INVALID, "are a JSON object"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_fails(&g->f, refused[i].code, refused[i].words, set_settings(g, refused[i].change));
    assert_ok(&g->f, set_settings(g, "{\"env\":{\"E2B_API_KEY\":null}}"));
    struct berth_plugin *plugin;
    assert_ok(&g->f, berth_plugin_get(g->f.b, &g->f.arena, g->plugin, &plugin, &g->f.err));
    assert_string_equal(plugin->settings_json, "{\"env\":{\"E2B_API_KEY\":null}}");
}

/* --- entries that are none --- */

/* A package whose entry is as it should be; then it is not. */
static const char *sound_package(struct ground *g, const char *name, char id[BERTH_ID_SIZE])
{
    const char *package = make_package(g, name, "worker");
    copy_worker(g, package, "worker");
    install(g, package, id);
    return package;
}

/* The start fails, its lastError says why, and so does an install of what is there now. */
static void assert_entry_fails(struct ground *g, const char *name, const char *id,
                               const char *refused, const char *words)
{
    struct errand e = {.e = environment_of(g, name, "")};
    struct berth_plugin_install request = BERTH_PLUGIN_INSTALL_INIT;
    struct berth_plugin *plugin;
    start(g, &e, PROBE, NULL);
    AWAIT(*look_at(g, id).error);
    AWAIT((let_pass(g, SECOND_MS), e.done));
    finish(&e);
    assert_errand(&e, BERTH_OK, "worker did not start: Worker ");
    forget(&e);
    struct look l = look_at(g, id);
    if (!strstr(l.error, words))
        fail_msg("%s: lastError is \"%s\", not \"%s\"", name, l.error, words);
    assert_ok(&g->f, berth_plugin_uninstall(g->f.b, &g->f.arena, id, NULL, &g->f.err));
    request.source = path_in(g, name);
    int rc = berth_plugin_install(g->f.b, &g->f.arena, &request, &plugin, &g->f.err);
    if ((rc < 0) != (refused != NULL) || (refused && !strstr(g->f.err.message, refused)))
        fail_msg("%s: the install said \"%s\"", name, rc < 0 ? g->f.err.message : "");
    if (rc == BERTH_OK)
        assert_ok(&g->f, berth_plugin_uninstall(g->f.b, &g->f.arena, plugin->id, NULL, &g->f.err));
}

static void entries_that_cannot_be_run(struct ground *g)
{
    char id[BERTH_ID_SIZE];
    const char *package = sound_package(g, "missing", id), *words;
    words = "Worker entrypoint not found for plugin \"test.missing\". Checked: ";
    assert_int_equal(unlink(textf(g, "%s/worker", package)), 0);
    assert_entry_fails(g, "missing", id, words, words);

    package = sound_package(g, "linked", id);
    assert_int_equal(unlink(textf(g, "%s/worker", package)), 0);
    assert_int_equal(symlink(FAULTY_WORKER, textf(g, "%s/worker", package)), 0);
    words = "Worker entrypoint of plugin \"test.linked\" leads out of its package: ";
    assert_entry_fails(g, "linked", id, words, words);

    package = sound_package(g, "plain", id);
    assert_int_equal(chmod(textf(g, "%s/worker", package), 0644), 0);
    words = "Worker entrypoint of plugin \"test.plain\" is not executable: ";
    assert_entry_fails(g, "plain", id, words, words);

    package = sound_package(g, "folder", id);
    assert_int_equal(unlink(textf(g, "%s/worker", package)), 0);
    assert_int_equal(mkdir(textf(g, "%s/worker", package), 0755), 0);
    words = "Worker entrypoint not found for plugin \"test.folder\"";
    assert_entry_fails(g, "folder", id, words, words);

    package = sound_package(g, "garbled", id);
    put_file(textf(g, "%s/worker", package), "no program at all", 0755);
    assert_entry_fails(g, "garbled", id, NULL, "cannot be run: Exec format error.");

    package = sound_package(g, "orphan", id);
    put_file(textf(g, "%s/worker", package), "#!/no/such/shell\n", 0755);
    assert_entry_fails(g, "orphan", id, NULL,
                       "Worker process failed to start: There is no program");
}

static void script_without_node(struct ground *g)
{
    char id[BERTH_ID_SIZE];
    const char *package = make_package(g, "noded", "dist/worker.js");
    assert_int_equal(mkdir(textf(g, "%s/dist", package), 0755), 0);
    put_file(textf(g, "%s/dist/worker.js", package), "throw 1\n", 0644);
    install(g, package, id);
    auto_free char *path = strdup(getenv("PATH"));
    assert_int_equal(setenv("PATH", package, 1), 0);
    assert_entry_fails(g, "noded", id, NULL,
                       "This plugin needs Node.js: install it, or put its directory into PATH.");
    assert_int_equal(setenv("PATH", path, 1), 0);
}

/* --- output while a command runs --- */

static bool streamed(struct errand *e, enum berth_stream stream, const char *want)
{
    pthread_mutex_lock(&e->lock);
    const struct berth_buf *buf = &e->streams[stream];
    bool same = buf->len == strlen(want) && memcmp(berth_buf_str(buf), want, buf->len) == 0;
    pthread_mutex_unlock(&e->lock);
    return same;
}

static void output_comes_before_the_end(struct ground *g)
{
    /* With all of it in the end again, or with nothing there: it is told once. */
    static const char *const ends[] = {
        "{\"exitCode\":9,\"timedOut\":false,\"stdout\":\"one \xe2\x82\xac two\","
        "\"stderr\":\"three\"}",
        "{\"exitCode\":9,\"timedOut\":false,\"stdout\":\"\",\"stderr\":\"\"}",
        "{\"exitCode\":9,\"timedOut\":false}",
        "{\"exitCode\":9,\"timedOut\":false,\"stdout\":\"one \xe2\x82\xac two and more\","
        "\"stderr\":\"three.\"}"};
    const char *go = textf(g, "%s/go", g->package);
    struct berth_lease *lease = take(g);
    for (int i = 0; i < 4; i++) {
        struct errand e = {0};
        set_fault(g, "streams environmentExecute",
                  textf(g,
                        "{\"chunks\":[[\"stdout\",\"one \xe2\x82\xac\"],[\"stderr\",\"three\"],"
                        "[\"stdout\",\" two\"],[\"stdout\",\"\"]],"
                        "\"nobody\":[\"\",\"no such call\",null,5,\"%s\"],"
                        "\"odd\":[{},null,[],{\"stream\":\"stdout\"},{\"chunk\":\"x\"},"
                        "{\"stream\":5,\"chunk\":\"x\"},{\"stream\":\"stdout\",\"chunk\":5}],"
                        "\"end\":%s}",
                        lease->id, ends[i]));
        start(g, &e, EXECUTE, lease);
        AWAIT(streamed(&e, BERTH_STDOUT, "one \xe2\x82\xac two") &&
              streamed(&e, BERTH_STDERR, "three"));
        pause_ms(20);
        assert_false(e.done);
        put_file(go, "", 0644);
        finish(&e);
        assert_int_equal(e.end.cause, BERTH_END_EXITED);
        assert_int_equal(e.end.exit_code, 9);
        assert_string_equal(berth_buf_str(&e.streams[0]),
                            i == 3 ? "one \xe2\x82\xac two and more" : "one \xe2\x82\xac two");
        assert_string_equal(berth_buf_str(&e.streams[1]), i == 3 ? "three." : "three");
        assert_int_equal(e.end.bytes[0], e.streams[0].len);
        assert_int_equal(e.end.bytes[1], e.streams[1].len);
        forget(&e);
        AWAIT(heard(g, "done") == i + 1);
        assert_string_equal(json_text(&g->f, heard_nth(g, "invocation", i + 1), "scope.companyId"),
                            lease->company_id);
        assert_int_equal(unlink(go), 0);
    }
    set_fault(g, "none -", NULL);
    assert_well(g, EXECUTE, lease);
    give(g, lease);
}

/* What nobody wanted to hear yet comes with the answer, or is said to be missing. */
static void output_is_left_to_the_answer(struct ground *g)
{
    const char *go = textf(g, "%s/go", g->package);
    struct berth_lease *lease = take(g);
    for (int whole = 0; whole < 2; whole++) {
        struct errand e = {.holds = true};
        set_fault(g, "streams environmentExecute times=1",
                  textf(g,
                        "{\"chunks\":[[\"stdout\",\"1\"],[\"stdout\",\"2\"],[\"stdout\",\"3\"]],"
                        "\"last\":[[\"stdout\",\"4\"],[\"stdout\",\"5\"]],"
                        "\"end\":{\"exitCode\":0,\"stdout\":\"%s\"}}",
                        whole ? "12345" : ""));
        start(g, &e, EXECUTE, lease);
        AWAIT(heard(g, "streamed") == whole + 1);
        pause_ms(50);
        put_file(go, "", 0644);
        finish(&e);
        assert_int_equal(e.end.cut[0], !whole);
        if (whole)
            assert_string_equal(berth_buf_str(&e.streams[0]), "12345");
        else
            assert_true(e.streams[0].len < 5);
        assert_int_equal(e.end.bytes[0], e.streams[0].len);
        forget(&e);
        assert_int_equal(unlink(go), 0);
    }
    give(g, lease);
}

/* Two commands at once: each has its own. */
static void output_goes_to_its_command(struct ground *g)
{
    const char *go = textf(g, "%s/go", g->package);
    struct berth_lease *lease = take(g);
    struct errand a = {0}, b = {0};
    set_fault(g, "streams environmentExecute times=1",
              "{\"chunks\":[[\"stdout\",\"first\"]],\"end\":{\"exitCode\":1}}");
    start(g, &a, EXECUTE, lease);
    AWAIT(streamed(&a, BERTH_STDOUT, "first"));
    set_fault(g, "streams environmentExecute times=1",
              "{\"chunks\":[[\"stdout\",\"second\"]],\"end\":{\"exitCode\":2}}");
    start(g, &b, EXECUTE, lease);
    AWAIT(streamed(&b, BERTH_STDOUT, "second"));
    put_file(go, "", 0644);
    finish(&a);
    finish(&b);
    assert_int_equal(a.end.exit_code, 1);
    assert_int_equal(b.end.exit_code, 2);
    assert_int_equal(a.end.bytes[0], 5);
    assert_int_equal(b.end.bytes[0], 6);
    forget(&a);
    forget(&b);
    AWAIT(heard(g, "done") == 2);
    assert_int_equal(unlink(go), 0);
    give(g, lease);
}

/* Output for nobody while a call without output is under way. */
static void output_of_a_call_that_has_none(struct ground *g)
{
    assert_well(g, PROBE, NULL);
    set_fault(g, "astray environmentProbe", NULL);
    assert_well(g, PROBE, NULL);
}

static void answers_out_of_order(struct ground *g)
{
    enum { CALLS = 2000 };
    static struct told told[CALLS];
    char params[40];
    assert_well(g, PROBE, NULL);
    set_fault(g, "shuffles environmentProbe count=2000", NULL);
    for (int i = 0; i < CALLS; i++) {
        (void)snprintf(params, sizeof params, "{\"n\":%d}", i);
        tell(g, g->plugin, "environmentProbe", params, &told[i]);
    }
    for (int i = 0; i < CALLS; i++) {
        hear(&told[i]);
        assert_int_equal(told[i].answers, 1);
        assert_int_equal(told[i].kind, BERTH_REPLY_RESULT);
        assert_int_equal(told[i].n, i);
    }
    assert_int_equal(look(g).pending, 0);
    set_fault(g, "none -", NULL);
}

/* --- all of them --- */

/* With the defect that keeps it from passing, where there is one. */
#define CASE(name)                                                                                 \
    {                                                                                              \
#name, name, false                                                                         \
    }
static const struct plan plans[] = {
    CASE(noise_is_no_message),
    CASE(line_without_end),
    CASE(long_line_before_the_answer),
    CASE(half_a_character),
    CASE(lone_surrogates_and_nul),
    CASE(answers_nobody_waits_for),
    CASE(answer_to_a_text),
    CASE(silence_about_an_acquire),
    CASE(silence_of_one_who_cannot_find),
    CASE(silence_about_a_command),
    CASE(silence_about_the_rest),
    CASE(answers_that_come_too_late),
    CASE(wrong_places),
    CASE(wrong_ends_of_commands),
    CASE(wrong_verdicts),
    CASE(wrong_lists),
    CASE(long_list_of_one_lease),
    CASE(limits_of_a_config),
    CASE(odd_answers),
    CASE(exit_code_beyond_a_byte),
    CASE(noise_with_an_id),
    CASE(id_with_a_nul),
    CASE(answer_of_many_small_values),

    CASE(dies_of_itself),
    CASE(dies_by_a_signal),
    CASE(dies_and_stays_away),
    CASE(dies_in_the_resume_of_an_acquire),
    CASE(dies_in_health),
    CASE(dies_in_its_start),
    CASE(dies_with_many_calls),

    CASE(waits_longer_and_never_gives_up),
    CASE(wait_grows_also_for_one_who_starts_well),
    CASE(no_failed_start_sticks),
    CASE(waiting_ends_with_the_plugin),
    CASE(starts_too_slowly),
    CASE(says_that_it_cannot_start),
    CASE(says_that_it_has_many_methods),
    CASE(asks_before_it_answers),
    CASE(why_a_start_failed),
    CASE(restart_of_one_that_is_stopped),

    CASE(child_that_keeps_the_pipes),
    CASE(will_not_go),
    CASE(shuts_its_mouth),
    CASE(shuts_its_ears),
    CASE(talks_without_end),
    CASE(does_not_read),
    CASE(does_not_read_much),
    CASE(child_that_leaves_the_group),
    CASE(asks_and_does_not_read),

    CASE(hangs_three_times),
    CASE(knows_no_health),
    CASE(config_is_told),
    CASE(config_changes_during_the_start),
    CASE(others_change_its_row),

    CASE(closing_waits_for_calls),
    CASE(closing_gives_up_on_calls),
    CASE(closing_after_a_change_of_config),
    CASE(closing_at_any_moment),
    CASE(closing_after_it_was_disabled),
    CASE(restarted_while_it_is_wanted),
    {"owner_is_killed", owner_is_killed, true},
    {"owner_of_a_stubborn_one_is_killed", owner_of_a_stubborn_one_is_killed, true},

    CASE(sees_nothing_of_ours),
    CASE(is_somebody_else),
    CASE(sees_nothing_beside_its_package),
    CASE(reads_no_disk),
    CASE(is_given_nothing_else),
    CASE(has_the_operators_variables),
    CASE(entries_that_cannot_be_run),
    CASE(script_without_node),

    CASE(output_comes_before_the_end),
    CASE(output_is_left_to_the_answer),
    CASE(output_goes_to_its_command),
    CASE(answers_out_of_order),
    CASE(output_of_a_call_that_has_none),
};
#define PLANS (sizeof plans / sizeof plans[0])

int main(int argc, char **argv)
{
    struct CMUnitTest tests[PLANS] = {0};
    for (size_t i = 0; i < PLANS; i++)
        tests[i] = (struct CMUnitTest){plans[i].name, run_plan, set_up, tear_down,
                                       (void *)(uintptr_t)&plans[i]};
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    (void)signal(SIGPIPE, SIG_IGN);
    /* A python of the user's own is nothing that a worker may read. */
    (void)setenv("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", 1);
    return cmocka_run_group_tests_name("workers", tests, NULL, NULL);
}
