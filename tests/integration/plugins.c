/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/plugins.c - the behaviours of places that a plugin's worker makes, by their
 * numbers: on both stores, and each with a spy in the worker's place (it sees time-outs and looks)
 * and with a real process (it sees what is on the wire). */
#include "children.h"
#include "secrets.h"

#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/container.h"
#include "base/failpoint.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "core/driver.h"
#include "os/engine.h"
#include "os/fs.h"
#include "spy.h"

#define VALIDATE "environmentValidateConfig"
#define PROBE "environmentProbe"
#define ACQUIRE "environmentAcquireLease"
#define RESUME "environmentResumeLease"
#define REALIZE "environmentRealizeWorkspace"
#define EXECUTE "environmentExecute"
#define RELEASE "environmentReleaseLease"
#define DESTROY "environmentDestroyLease"
#define FIND "environmentFindLeases"

#define PROVIDER "acme.fake-sandbox" /* plugins */
#define DRIVER "acme.environments"
#define KEY "resolved-provider-key"
#define PATIENCE_MS 5000 /* with a process that is starting */
#define AWAIT_MS 120000  /* what is certain to come */

/* --- the stage --- */

struct variant {
    enum fixture_store store;
    bool process;
};

struct stage {
    struct fixture f; /* the first, so that a test can have either */
    struct spy *spy;
    bool process;
    int64_t start_ms, ready_ms;
    const char *more; /* of the driver in the manifest; or NULL */
    struct berth_plugin *plugin;
    pthread_mutex_t lock;
    struct berth_buf log; /* of the runtime */
};

static void keep_line(void *ctx, enum berth_log_level level, const char *line)
{
    struct stage *s = ctx;
    (void)level;
    pthread_mutex_lock(&s->lock);
    berth_buf_puts(&s->log, line);
    berth_buf_append(&s->log, "\n", 1);
    pthread_mutex_unlock(&s->lock);
    if (getenv("BERTH_TEST_LOG"))
        (void)fprintf(stderr, "# %s\n", line);
}

static bool log_has(struct stage *s, const char *words)
{
    pthread_mutex_lock(&s->lock);
    bool has = strstr(berth_buf_str(&s->log), words) != NULL;
    pthread_mutex_unlock(&s->lock);
    return has;
}

static void open_runtime(struct stage *s)
{
    struct fixture *f = &s->f;
    struct berth_options options = BERTH_OPTIONS_INIT;
    options.store = f->store;
    options.key_file = key_file_of(f);
    options.settings.self_sweep_ms = 0;
    options.log = (struct berth_log){.write = keep_line, .ctx = s};
    assert_ok(f, berth_registry_new_builtin(&options.registry, &f->err));
    if (!s->process)
        berth_registry_set_workers(options.registry, spy_workers(s->spy), s->start_ms, s->ready_ms,
                                   1);
    assert_ok(f, berth_open(&options, &f->b, &f->err));
    if (s->process)
        berth_registry_set_workers(f->b->registry, berth_registry_workers(f->b->registry),
                                   s->start_ms, s->ready_ms, 10);
}

static void reopen_runtime(struct stage *s)
{
    fixture_close(&s->f);
    open_runtime(s);
}

static int setup(void **state)
{
    const struct variant *v = *state;
    struct stage *s = calloc(1, sizeof *s);
    fixture_make(&s->f, v->store);
    if (v->store == ON_POSTGRES) /* nobody takes the server away: no commit waits for the disk */
        (void)strncat(s->f.store, "%20-csynchronous_commit%3Doff",
                      sizeof s->f.store - strlen(s->f.store) - 1);
    s->process = v->process;
    s->start_ms = PATIENCE_MS;
    s->ready_ms = v->process ? PATIENCE_MS : 25;
    s->spy = spy_new(v->process);
    s->log = (struct berth_buf)BERTH_BUF_INIT(1024 * 1024);
    pthread_mutex_init(&s->lock, NULL);
    *state = s; /* `install` opens the runtime */
    return 0;
}

static int teardown(void **state)
{
    struct stage *s = *state;
    fixture_destroy(&s->f);
    spy_free(s->spy);
    berth_buf_clear(&s->log);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return 0;
}

static struct variant spy_sqlite = {ON_SQLITE, false}, spy_postgres = {ON_POSTGRES, false},
                      process_sqlite = {ON_SQLITE, true}, process_postgres = {ON_POSTGRES, true};

#define BY_SPY(test)                                                                               \
    {#test " (spy, sqlite)", test, setup, teardown, &spy_sqlite},                                  \
    {                                                                                              \
#test " (spy, postgres)", test, setup, teardown, &spy_postgres                             \
    }
#define BY_PROCESS(test)                                                                           \
    {#test " (process, sqlite)", test, setup, teardown, &process_sqlite},                          \
    {                                                                                              \
#test " (process, postgres)", test, setup, teardown, &process_postgres                     \
    }
#define BY_BOTH(test) BY_SPY(test), BY_PROCESS(test)

/* printf into the arena; ' stands for ", so that JSON can be read. */
static char *js(struct stage *s, const char *fmt, ...) BERTH_PRINTF(2, 3);
static char *js(struct stage *s, const char *fmt, ...)
{
    va_list args;
    char *whole = NULL;
    va_start(args, fmt);
    assert_true(vasprintf(&whole, fmt, args) >= 0);
    va_end(args);
    for (char *c = whole; *c; c++)
        if (*c == '\'')
            *c = '"';
    char *copy = berth_arena_strdup(&s->f.arena, whole);
    free(whole);
    assert_non_null(copy);
    return copy;
}

/* --- the plugin --- */

static const char *manifest(struct stage *s, const char *key)
{
    bool provider = strcmp(key, PROVIDER) == 0;
    return js(s,
              "{'id':'%s','apiVersion':1,'version':'1.0.0','displayName':'Acme',"
              "'description':'For tests.','author':'Acme','categories':['automation'],"
              "'capabilities':['environment.drivers.register'],"
              "'entrypoints':{'worker':'worker'},'environmentDrivers':[{'driverKey':'fake-plugin',"
              "%s%s'displayName':'Fake','configSchema':{'type':'object','properties':{"
              "'apiKey':{'type':'string','format':'secret-ref'},'image':{'type':'string'}}}}]}",
              key, provider ? "'kind':'sandbox_provider'," : "", s->more ? s->more : "");
}

static void script(struct stage *s, const char *method, const char *acts)
{
    spy_script(s->spy, method, acts ? js(s, "%s", acts) : NULL);
}

/* Opens the runtime, and puts the plugin into it; everything succeeds until it is told otherwise.
 */
static void install(struct stage *s, const char *key)
{
    struct fixture *f = &s->f;
    open_runtime(s);
    script(s, VALIDATE, "[{'result':{'ok':true}}]");
    script(s, PROBE, "[{'result':{'ok':true}}]");
    script(s, ACQUIRE, "[{'result':{'providerLeaseId':'sandbox-1'}}]");
    script(s, RESUME, "[{'result':{'providerLeaseId':'sandbox-1'}}]");
    script(s, REALIZE, "[{'result':{'cwd':'/workspace/project','metadata':{'realized':true}}}]");
    script(s, EXECUTE, "[{'result':{'exitCode':0,'timedOut':false,'stdout':'ok\\n','stderr':''}}]");
    script(s, RELEASE, "[{'result':null}]");
    script(s, DESTROY, "[{'result':null}]");
    script(s, FIND, "[{'result':{'leases':[]}}]");
    const char *directory = text(f, "%s/package", f->directory), *log;
    spy_make_package(s->spy, directory, manifest(s, key));
    struct berth_plugin_install request = BERTH_PLUGIN_INSTALL_INIT;
    request.source = directory;
    assert_ok(f, berth_plugin_install(f->b, &f->arena, &request, &s->plugin, &f->err));
    assert_ok(f, berth_plugin_log(f->b, &f->arena, key, &log, &f->err));
    char *found = strstr(log, "/logs/plugins/");
    assert_non_null(found);
    spy_set_state(s->spy, text(f, "%.*s/plugin-state/%s", (int)(found - log), log, s->plugin->id));
}

/* The worker of a process as this runtime sees it. */
static struct berth_worker_status worker_status(struct stage *s)
{
    struct berth_worker_status status;
    assert_ok(&s->f, berth_plugin_worker(s->f.b, &s->f.arena, s->plugin->id, &status, &s->f.err));
    return status;
}

/* It runs, whatever became of it before. */
static void bring_up(struct stage *s)
{
    struct berth_worker_status status;
    spy_run_from(s->spy, 1);
    if (!s->process)
        return;
    assert_ok(&s->f, berth_plugin_restart(s->f.b, &s->f.arena, s->plugin->id, &status, &s->f.err));
    assert_string_equal(status.status, "running");
}

/* Until its end is known here; it is started again after a while. */
static void await_end(struct stage *s)
{
    for (int waited = 0; strcmp(worker_status(s).status, "running") == 0; waited += 5) {
        assert_true(waited < AWAIT_MS);
        pause_ms(5);
    }
}

/* What it died of. */
static const char *last_error(struct stage *s)
{
    for (int waited = 0;; waited += 5) { /* of one look: at the next it may run again */
        struct berth_worker_status status = worker_status(s);
        if (strcmp(status.status, "running") != 0 && status.last_error)
            return status.last_error;
        assert_true(waited < AWAIT_MS);
        pause_ms(5);
    }
}

/* It ends, and cannot be started. */
static void bring_down(struct stage *s)
{
    spy_run_from(s->spy, 0);
    if (!s->process)
        return;
    struct berth_worker_status status = worker_status(s);
    spy_take_away(s->spy, true);
    if (status.pid > 0)
        (void)kill(status.pid, SIGKILL);
    await_end(s);
}

static void bring_back(struct stage *s)
{
    if (s->process)
        spy_take_away(s->spy, false);
    bring_up(s);
}

/* Checks what is said of a worker that was brought down: a process may have failed to start
 * meanwhile, and the text then says why. */
static void assert_down(struct stage *s, const char *text, const char *spied, const char *head)
{
    if (s->process && strncmp(text, head, strlen(head)) == 0)
        assert_non_null(strstr(text + strlen(head), " not start: Worker initialize failed"));
    else
        assert_string_equal(text, spied);
}
#define SANDBOX_DOWN                                                                               \
    "Sandbox provider \"fake-plugin\" is installed via plugin \"acme.fake-sandbox\", but its "     \
    "worker "
#define assert_sandbox_down(s, text)                                                               \
    assert_down(s, text, SANDBOX_DOWN "is not running.", SANDBOX_DOWN "did")
#define assert_driver_down(s, text)                                                                \
    assert_down(s, text,                                                                           \
                "Plugin environment driver \"acme.environments:fake-plugin\" has no running "      \
                "worker.",                                                                         \
                "The worker of plugin environment driver \"acme.environments:fake-plugin\" did")

/* For tests of workers that are down: they are not waited for that long. Before `install`. */
static void be_impatient(struct stage *s)
{
    s->ready_ms = s->process ? 200 : 25;
}

/* --- what it was told --- */

static void assert_json_text(const char *is, const char *wanted)
{
    auto_json *a = parse_json(is), *b = parse_json(wanted);
    auto_free char *x = berth_json_canonical(a), *y = berth_json_canonical(b);
    assert_string_equal(x, y);
}

static struct spy_call said(struct stage *s, const char *method, int n)
{
    struct spy_call call;
    if (!spy_call_at(s->spy, method, n, &call))
        fail_msg("there is no call %d of %s", n, method ? method : "all");
    assert_string_equal(call.plugin_id, s->plugin->id);
    return call;
}

/* The params to the letter; the time-out as the spy saw it (0: none was given). */
static void assert_said(struct stage *s, const char *method, int n, int64_t timeout_ms,
                        const char *params)
{
    struct spy_call call = said(s, method, n);
    assert_json_text(call.params_json, params);
    if (!s->process)
        assert_int_equal(call.timeout_ms, timeout_ms);
}

/* Text at a path of the params of a call; NULL for null or absent. */
static const char *told(struct stage *s, const char *method, int n, const char *path)
{
    return json_text(&s->f, said(s, method, n).params_json, path);
}

/* The members that every call about a place has. */
static const char *base_of(struct stage *s, const struct berth_environment *e,
                           const struct berth_lease *l, const char *config)
{
    return js(s,
              "'driverKey':'fake-plugin','companyId':'%s','environmentId':'%s','issueId':%s%s%s,"
              "'config':%s",
              e->company_id, e->id, l && l->issue_id ? "'" : "",
              l && l->issue_id ? l->issue_id : "null", l && l->issue_id ? "'" : "", config);
}

static const char *lease_of(struct stage *s, const struct berth_lease *l)
{
    char expires[BERTH_TIME_ISO_SIZE];
    berth_time_iso(l->expires_at_ms, expires);
    return js(s, "'lease':{'providerLeaseId':'%s','metadata':%s,'expiresAt':'%s'}",
              l->provider_lease_id, l->metadata_json, expires);
}

static const char *acquire_params(struct stage *s, const struct berth_environment *e,
                                  const struct berth_lease *l, const char *config)
{
    return js(s, "{%s,'runId':'%s'}", base_of(s, e, l, config), l->heartbeat_run_id);
}

/* Of resume, release and destroy. */
static const char *place_params(struct stage *s, const struct berth_environment *e,
                                const struct berth_lease *l, const char *config)
{
    return js(s, "{%s,'providerLeaseId':'%s','leaseMetadata':%s}", base_of(s, e, l, config),
              l->provider_lease_id, l->metadata_json);
}

/* Every call so far was given this config, and no other. */
static void assert_config_everywhere(struct stage *s, const char *config)
{
    int count = spy_count(s->spy, NULL);
    assert_true(count > 0);
    for (int i = 0; i < count; i++)
        assert_json_text(told(s, NULL, i, "config"), config);
}

/* --- commands --- */

struct outcome {
    char text[2][4096];
    size_t len[2];
    struct berth_exec_end end;
    char id[BERTH_ID_SIZE];
    char log[PATH_MAX];
};

static void keep_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    struct outcome *o = ctx;
    size_t room = sizeof o->text[0] - 1 - o->len[stream], part = len < room ? len : room;
    memcpy(o->text[stream] + o->len[stream], bytes, part);
    o->len[stream] += part;
}

/* Writes `input` to the command; NULL: closes its standard input without a write. */
static void execute_with(struct stage *s, const struct berth_lease *l,
                         struct berth_exec_request request, const char *input, struct outcome *out)
{
    static const char *const printf_ok[] = {"printf", "ok\\n", NULL};
    struct berth_exec_handlers handlers = {.on_output = keep_output, .ctx = out};
    struct berth_exec *x;
    *out = (struct outcome){0};
    request.lease_id = l->id;
    if (!request.argv)
        request.argv = printf_ok;
    assert_ok(&s->f, berth_exec_start(s->f.b, &request, &handlers, &x, &s->f.err));
    if (input)
        assert_ok(&s->f, berth_exec_write(x, input, strlen(input), &s->f.err));
    if (request.with_stdin)
        berth_exec_close_stdin(x);
    berth_exec_wait(x, &out->end);
    (void)snprintf(out->id, sizeof out->id, "%s", berth_exec_id(x));
    (void)snprintf(out->log, sizeof out->log, "%s", berth_exec_log(x));
    berth_exec_free(x);
}

static void execute(struct stage *s, const struct berth_lease *l, struct berth_exec_request request,
                    struct outcome *out)
{
    execute_with(s, l, request, NULL, out);
}

/* Of an execute of `printf ok\n`; `rest` has what else was asked for. The command always knows who
 * it runs for: those variables are berth's own, and stand beside the caller's. */
static const char *execute_params(struct stage *s, const struct berth_environment *e,
                                  const struct berth_lease *l, const struct outcome *o,
                                  const char *config, const char *env, const char *rest)
{
    return js(s,
              "{%s,%s,'command':'printf','args':['ok\\\\n'],'env':{'BERTH_EXEC_ID':'%s',"
              "'BERTH_LEASE_ID':'%s','BERTH_ENVIRONMENT_ID':'%s','BERTH_COMPANY_ID':'%s',"
              "'BERTH_RUN_ID':'%s'%s}%s}",
              base_of(s, e, l, config), lease_of(s, l), o->id, l->id, e->id, e->company_id,
              l->heartbeat_run_id, env, rest);
}

static void assert_ended_well(const struct outcome *o, const char *output)
{
    assert_int_equal(o->end.cause, BERTH_END_EXITED);
    assert_int_equal(o->end.exit_code, 0);
    assert_string_equal(o->text[BERTH_STDOUT], output);
    assert_string_equal(o->text[BERTH_STDERR], "");
    assert_int_equal(o->end.bytes[BERTH_STDOUT], strlen(output));
}

/* --- environments and leases --- */

/* As a test writes it, without asking the worker. */
static struct berth_environment *environment(struct stage *s, const char *config)
{
    return make_environment(&s->f, BERTH_DRIVER_SANDBOX, js(s, "%s", config));
}

static struct berth_environment *plugin_environment(struct stage *s, const char *driver_config)
{
    return make_environment(&s->f, BERTH_DRIVER_PLUGIN,
                            js(s, "{'pluginKey':'%s','driverKey':'fake-plugin','driverConfig':%s}",
                               s->plugin->plugin_key, driver_config));
}

static void change(struct stage *s, const struct berth_environment *e,
                   enum berth_environment_driver driver, const char *config)
{
    struct fixture *f = &s->f;
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    struct berth_issues issues = {.arena = &f->arena};
    struct berth_environment *changed;
    input.fields = BERTH_FIELD_DRIVER | BERTH_FIELD_CONFIG;
    input.driver = driver;
    input.config_json = js(s, "%s", config);
    input.use = BERTH_CONFIG_SCHEMA;
    assert_ok(f,
              berth_environment_update(f->b, &f->arena, e->id, &input, &issues, &changed, &f->err));
}

/* As from outside: the worker has its say. */
static int try_create(struct stage *s, enum berth_environment_driver driver, const char *config,
                      struct berth_issues *issues, struct berth_environment **out)
{
    struct fixture *f = &s->f;
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    input.name = "place under test";
    input.driver = driver;
    input.config_json = js(s, "%s", config);
    *issues = (struct berth_issues){.arena = &f->arena};
    return berth_environment_create(f->b, &f->arena, &input, issues, out, &f->err);
}

static const char *metadata_text(struct stage *s, const struct berth_lease *l, const char *key)
{
    return json_text(&s->f, l->metadata_json, key);
}

/* Releases all leases of the run, and wants this one to be the only one. */
static struct berth_lease *release_run(struct stage *s, const struct berth_lease *l)
{
    struct fixture *f = &s->f;
    struct berth_release_request request = BERTH_RELEASE_REQUEST_INIT;
    struct berth_list released;
    assert_ok(f, berth_lease_release_run(f->b, &f->arena, l->heartbeat_run_id, &request, &released,
                                         &f->err));
    assert_int_equal(released.count, 1);
    assert_string_equal(((struct berth_lease *)released.items[0])->id, l->id);
    return released.items[0];
}

static void assert_clean(struct stage *s, const struct berth_lease *l)
{
    assert_done(&s->f, l, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
}

/* The first retry of an owed clean-up is due. */
static struct berth_sweep_report sweep_later(struct stage *s)
{
    move_clock(s->f.b->settings.cleanup_retry_max_ms);
    return sweep(&s->f);
}

/* --- R8 --- */

#define R8_STORED                                                                                  \
    "{'provider':'fake-plugin','image':'fake:test','timeoutMs':1234,'reuseLease':false}"
#define R8_CONFIG "{'image':'fake:test','timeoutMs':1234,'reuseLease':false}"
#define REUSED_STORED                                                                              \
    "{'provider':'fake-plugin','image':'fake:test','timeoutMs':1234,'reuseLease':true}"
#define REUSED_CONFIG "{'image':'fake:test','timeoutMs':1234,'reuseLease':true}"

static void R8_config_without_envelope_on_every_call(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    script(s, ACQUIRE,
           "[{'result':{'providerLeaseId':'sandbox-1','metadata':{'provider':'fake-plugin',"
           "'remoteCwd':'/workspace','shellCommand':'bash','sandboxId':'sandbox-1'}}}]");
    struct berth_environment *e = environment(s, R8_STORED);
    struct berth_lease *l = take_lease(f, e, make_run(f));
    assert_int_equal(l->status, BERTH_LEASE_ACTIVE);
    assert_int_equal(l->policy, BERTH_POLICY_EPHEMERAL);
    assert_string_equal(l->provider, "fake-plugin");
    assert_string_equal(l->provider_lease_id, "sandbox-1");
    const char *config = js(s, R8_CONFIG);
    assert_said(s, ACQUIRE, 0, 31234, acquire_params(s, e, l, config));

    struct berth_workspace workspace = {.local_path = "/tmp/w"};
    struct berth_realized where;
    assert_ok(f, berth_lease_realize(f->b, &f->arena, l->id, &workspace, &where, &f->err));
    assert_said(s, REALIZE, 0, 31234,
                js(s, "{%s,%s,'workspace':{'localPath':'/tmp/w'}}", base_of(s, e, l, config),
                   lease_of(s, l)));

    struct berth_exec_request command = BERTH_EXEC_REQUEST_INIT;
    struct outcome o;
    command.timeout_ms = 1000;
    execute(s, l, command, &o);
    assert_ended_well(&o, "ok\n");
    /* It runs where the worker said that one works. */
    assert_said(s, EXECUTE, 0, 31000,
                execute_params(s, e, l, &o, config, "", ",'cwd':'/workspace','timeoutMs':1000"));

    change(s, e, BERTH_DRIVER_LOCAL, "{}");
    struct berth_lease *released = release_run(s, l);
    assert_int_equal(released->status, BERTH_LEASE_RELEASED);
    assert_int_equal(released->cleanup, BERTH_CLEANUP_SUCCESS);
    assert_clean(s, l);
    assert_said(s, RELEASE, 0, 31234, place_params(s, e, l, config));
    assert_config_everywhere(s, config);
    assert_int_equal(spy_count(s->spy, NULL), 4);
}

/* --- R9 --- */

#define WITH_KEY                                                                                   \
    "{'provider':'fake-plugin','template':'base','apiKey':'%s','timeoutMs':1234,"                  \
    "'reuseLease':false}"

struct tree_search {
    const char *text;
    char found[PATH_MAX];
    int files;
};
static struct tree_search tree;

/* A worker's own directory is its own: it was told the value. */
static int search_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    struct berth_error err;
    (void)ftw;
    if (type != FTW_F || !S_ISREG(st->st_mode) || strstr(path, "/plugin-state/"))
        return 0;
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    auto_buf bytes = BERTH_BUF_INIT(256 * 1024 * 1024);
    if (fd < 0 || berth_fs_read_all(fd, &bytes, &err) < 0)
        return 0;
    tree.files++;
    if (bytes.len && memmem(bytes.data, bytes.len, tree.text, strlen(tree.text)))
        (void)snprintf(tree.found, sizeof tree.found, "%s", path);
    return 0;
}

/* A file under the fixture's directory that holds the text, or NULL: the store, logs, all. */
static const char *find_in_tree(struct stage *s, const char *wanted)
{
    tree = (struct tree_search){.text = wanted};
    assert_int_equal(nftw(s->f.directory, search_file, 16, FTW_PHYS), 0);
    assert_true(tree.files > 0);
    return *tree.found ? tree.found : NULL;
}

/* Its words are written by a thread; they are whole when the runtime is closed. */
static void assert_plain_nowhere(struct stage *s, const char *plain)
{
    struct fixture *f = &s->f;
    reopen_runtime(s);
    assert_int_equal(count_in_tables(f, plain), 0);
    const char *found = find_in_tree(s, plain);
    if (found)
        fail_msg("%s: \"%s\" is in it", found, plain);
    assert_false(log_has(s, plain));
}

static void assert_error_is_clean(struct stage *s, const char *plain)
{
    assert_null(strstr(s->f.err.message, plain));
    assert_null(strstr(s->f.err.where, plain));
}

static void R9_secret_is_resolved_for_the_worker_and_never_kept(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    script(s, ACQUIRE,
           "[{'result':{'providerLeaseId':'sandbox-1','metadata':{'provider':'fake-plugin',"
           "'template':'base','apiKey':'$KEY','timeoutMs':1234,'sandboxId':'sandbox-1'}}}]");
    struct berth_secret *secret = make_text_secret(f, "provider key", KEY);
    struct berth_environment *e = environment(s, js(s, WITH_KEY, secret->id));
    struct berth_lease *l = take_lease(f, e, make_run(f));
    const char *config =
        js(s, "{'template':'base','apiKey':'%s','timeoutMs':1234,'reuseLease':false}", KEY);
    assert_said(s, ACQUIRE, 0, 31234, acquire_params(s, e, l, config));
    assert_json_text(l->metadata_json,
                     js(s,
                        "{'driver':'sandbox','executionWorkspaceMode':null,'pluginId':'%s',"
                        "'pluginKey':'%s','sandboxProviderPlugin':true,'provider':'fake-plugin',"
                        "'template':'base','apiKey':'%s','timeoutMs':1234,'reuseLease':false,"
                        "'sandboxId':'sandbox-1'}",
                        s->plugin->id, PROVIDER, secret->id));
    assert_string_equal(look_at_lease(f, l)->metadata_json, l->metadata_json);

    change(s, e, BERTH_DRIVER_LOCAL, "{}"); /* which takes the binding away */
    struct berth_exec_request command = BERTH_EXEC_REQUEST_INIT;
    struct outcome o;
    execute(s, l, command, &o);
    assert_ended_well(&o, "ok\n");
    assert_said(s, EXECUTE, 0, 31234, execute_params(s, e, l, &o, config, "", ""));
    (void)release_run(s, l);
    assert_clean(s, l);
    assert_said(s, RELEASE, 0, 31234, place_params(s, e, l, config));
    assert_config_everywhere(s, config);
    assert_plain_nowhere(s, KEY);
    if (f->kind == ON_POSTGRES)
        assert_null(find_in_files(f, KEY)); /* nor in the files of the server */
}

/* What was pasted into a config becomes a secret of the environment. */
static void R9_pasted_key_is_kept_as_a_secret(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    struct berth_issues issues;
    struct berth_environment *e;
    assert_ok(f, try_create(s, BERTH_DRIVER_SANDBOX, js(s, WITH_KEY, "pasted-" KEY), &issues, &e));
    const char *id = json_text(f, e->config_json, "apiKey");
    assert_true(berth_id_valid(id));
    struct berth_lease *l = take_lease(f, e, make_run(f));
    assert_string_equal(told(s, ACQUIRE, 0, "config.apiKey"), "pasted-" KEY);
    assert_string_equal(metadata_text(s, l, "apiKey"), id);
    (void)release_run(s, l);
    assert_string_equal(told(s, RELEASE, 0, "config.apiKey"), "pasted-" KEY);
    assert_clean(s, l);
    assert_plain_nowhere(s, "pasted-" KEY);
}

/* The other driver has its config in an envelope of its own. */
static void R9_secret_in_a_driver_config(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, DRIVER);
    script(s, ACQUIRE,
           "[{'result':{'providerLeaseId':'plugin-lease-1','metadata':{'token':'$KEY'}}}]");
    struct berth_secret *secret = make_text_secret(f, "provider key", KEY);
    struct berth_environment *e = plugin_environment(s, js(s, "{'apiKey':'%s'}", secret->id));
    struct berth_lease *l = take_lease(f, e, make_run(f));
    const char *config = js(s, "{'apiKey':'%s'}", KEY);
    assert_said(s, ACQUIRE, 0, 0, acquire_params(s, e, l, config));
    assert_string_equal(metadata_text(s, l, "providerMetadata.token"), "***REDACTED***");
    (void)release_run(s, l);
    assert_said(s, RELEASE, 0, 0, place_params(s, e, l, config));
    assert_clean(s, l);
    assert_plain_nowhere(s, KEY);
}

/* --- X12: a worker that repeats what it was told, wherever it can --- */

#define ECHOED "echoed-provider-key-4711"
#define NOISE "'stderr':'stderr says $KEY','log':'log says $KEY','noise':'noise says $KEY',"

static struct berth_probe probe_of(struct stage *s, const struct berth_environment *e)
{
    struct fixture *f = &s->f;
    struct berth_probe probe;
    assert_ok(f, berth_environment_probe(f->b, &f->arena, e->id, NULL, &probe, &f->err));
    return probe;
}

static struct berth_environment *environment_with_key(struct stage *s, const char *key)
{
    struct berth_secret *secret = make_text_secret(&s->f, "provider key", key);
    return environment(s, js(s, WITH_KEY, secret->id));
}

/* Checks that a text has these words of the worker, and not the key. */
static void assert_masked(const char *text, const char *words, const char *key)
{
    if (!text || !strstr(text, words))
        fail_msg("\"%s\" is not in: %s", words, text ? text : "(null)");
    if (strstr(text, key))
        fail_msg("\"%s\" is in: %s", key, text);
}

/* All of what its worker said, when it is written. */
static const char *worker_log(struct stage *s)
{
    struct fixture *f = &s->f;
    const char *path;
    struct berth_error err;
    reopen_runtime(s);
    assert_ok(f, berth_plugin_log(f->b, &f->arena, s->plugin->id, &path, &f->err));
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    auto_buf bytes = BERTH_BUF_INIT(16 * 1024 * 1024);
    if (fd < 0 || berth_fs_read_all(fd, &bytes, &err) < 0)
        return "";
    return text(f, "%s", berth_buf_str(&bytes));
}

static void X12_answers_about_places_are_masked(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    struct berth_environment *e = environment_with_key(s, ECHOED);
    script(s, ACQUIRE,
           "[{'result':{'providerLeaseId':'sandbox-1','metadata':{'token':'$KEY','deep':{'list':["
           "'Bearer $KEY',1]},'$KEY':true,'apiKey':'$KEY','sandboxId':'sandbox-1'}}},"
           "{'result':{'providerLeaseId':'box-$KEY'}}]");
    struct berth_lease *l = take_lease(f, e, make_run(f));
    assert_null(strstr(l->metadata_json, ECHOED));
    assert_string_equal(metadata_text(s, l, "token"), "***REDACTED***");
    assert_string_equal(metadata_text(s, l, "deep.list"), "[\"***REDACTED***\",1]");
    assert_string_equal(metadata_text(s, l, "sandboxId"), "sandbox-1");

    script(s, RESUME, "[{'result':{'providerLeaseId':'sandbox-1','metadata':{'t':'$KEY'}}}]");
    struct berth_place place;
    assert_ok(f, berth_lease_resume(f->b, &f->arena, l->id, &place, &f->err));
    assert_string_equal(place.metadata_json, "{\"t\":\"***REDACTED***\"}");
    script(s, REALIZE,
           "[{'result':{'cwd':'/w','metadata':{'t':'$KEY'}}},"
           "{'result':{'cwd':'/home/$KEY'}}]");
    struct berth_workspace workspace = {0};
    struct berth_realized where;
    assert_ok(f, berth_lease_realize(f->b, &f->arena, l->id, &workspace, &where, &f->err));
    assert_string_equal(where.metadata_json, "{\"t\":\"***REDACTED***\"}");
    assert_fails(f, BERTH_E_UPSTREAM, "answered with a secret",
                 berth_lease_realize(f->b, &f->arena, l->id, &workspace, &where, &f->err));

    /* An id that has the key in it cannot be kept. */
    assert_fails(f, BERTH_E_UPSTREAM, "answered with a secret", try_lease(f, e, make_run(f)));
    assert_row(f, newest_lease(f, e), BERTH_LEASE_FAILED, BERTH_PLACE_UNKNOWN,
               BERTH_CLEANUP_FAILED);
    (void)release_run(s, l);
    assert_plain_nowhere(s, ECHOED);
}

static void X12_answers_of_probes_and_commands_are_masked(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    struct berth_environment *e = environment_with_key(s, ECHOED);
    script(s, PROBE,
           "[{" NOISE "'result':{'ok':false,'summary':'probe says $KEY','diagnostics':[{"
           "'severity':'error','message':'$KEY'}],'metadata':{'$KEY':['x $KEY y']}}}]");
    struct berth_probe probe = probe_of(s, e);
    assert_string_equal(told(s, PROBE, 0, "config.apiKey"), ECHOED);
    assert_masked(probe.summary, "probe says ", ECHOED);
    assert_null(strstr(probe.details_json, ECHOED));
    assert_non_null(strstr(probe.details_json, "***REDACTED***"));

    struct berth_lease *l = take_lease(f, e, make_run(f));
    script(s, EXECUTE,
           "[{" NOISE "'stream':'out $KEY\\n','result':{'exitCode':0,'timedOut':false,"
           "'stdout':'out $KEY\\n','stderr':'err $KEY\\n','metadata':{'k':'$KEY'}}}]");
    struct berth_exec_request command = BERTH_EXEC_REQUEST_INIT;
    struct outcome o;
    execute(s, l, command, &o);
    assert_int_equal(o.end.exit_code, 0);
    assert_int_equal(o.len[BERTH_STDOUT], strlen("out " ECHOED "\n"));
    assert_int_equal(strncmp(o.text[BERTH_STDOUT], "out ****", 8), 0);
    assert_int_equal(strncmp(o.text[BERTH_STDERR], "err ****", 8), 0);
    assert_null(strstr(o.text[BERTH_STDOUT], ECHOED));
    assert_null(strstr(o.text[BERTH_STDERR], ECHOED));
    (void)release_run(s, l);
    assert_plain_nowhere(s, ECHOED);
}

/* Output of one command, and how much of it had come when the engine's thread did something else.
 */
struct turns {
    struct berth_post post;
    struct berth_engine *engine;
    size_t len, plain, len_between;
};

static void note_turn(struct berth_post *post)
{
    struct turns *t = berth_container_of(post, struct turns, post);
    t->len_between = t->len;
}

static void count_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    struct turns *t = ctx;
    struct berth_error none;
    (void)stream;
    if (!t->len)
        (void)berth_engine_post(t->engine, &t->post, &none);
    for (size_t i = 0; i < len; i++)
        t->plain += bytes[i] != '*';
    t->len += len;
}

/* A worker may answer megabytes at once. They are masked in slices, and the thread that serves
 * everybody does other work between them. */
static void long_answers_are_masked_in_turns(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    enum { TIMES = 100000 };
    auto_buf acts = BERTH_BUF_INIT(8 * 1024 * 1024);
    install(s, PROVIDER);
    berth_buf_puts(&acts, "[{'result':{'exitCode':0,'timedOut':false,'stderr':'','stdout':'");
    for (int i = 0; i < TIMES; i++)
        berth_buf_puts(&acts, KEY);
    berth_buf_puts(&acts, "end'}}]");
    script(s, EXECUTE, berth_buf_str(&acts));
    struct berth_lease *l = take_lease(f, environment_with_key(s, KEY), make_run(f));
    static const char *const argv[] = {"cat", NULL};
    struct berth_exec_request request = BERTH_EXEC_REQUEST_INIT;
    struct turns turns = {.post = {.run = note_turn}, .engine = f->b->engine};
    struct berth_exec_handlers handlers = {.on_output = count_output, .ctx = &turns};
    struct berth_exec_end end;
    struct berth_exec *x;
    request.lease_id = l->id;
    request.argv = argv;
    assert_ok(f, berth_exec_start(f->b, &request, &handlers, &x, &f->err));
    berth_exec_wait(x, &end);
    berth_exec_free(x);
    assert_int_equal(turns.len, TIMES * strlen(KEY) + 3);
    assert_int_equal(turns.plain, 3);
    assert_in_range(turns.len_between, 1, 4 * 65536);
}

/* The worker's own words reach the caller, without the key in them. */
static void X12_errors_are_masked(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    const char *plain = "failing-provider-key-0815";
    install(s, PROVIDER);
    struct berth_environment *e = environment_with_key(s, plain);
    const char *fails = "[{" NOISE "'error':{'code':-32002,'message':'no: $KEY'}}]";
    script(s, PROBE, fails);
    struct berth_probe probe = probe_of(s, e);
    assert_false(probe.ok);
    assert_masked(probe.summary, "no: ", plain);

    script(s, ACQUIRE, fails);
    assert_fails(f, BERTH_E_UPSTREAM, "no: ", try_lease(f, e, make_run(f)));
    assert_error_is_clean(s, plain);
    struct berth_lease *failed = newest_lease(f, e);
    assert_row(f, failed, BERTH_LEASE_FAILED, BERTH_PLACE_NONE, BERTH_CLEANUP_NULL);
    assert_masked(failed->failure_reason, "no: ", plain);

    script(s, ACQUIRE, "[{'result':{'providerLeaseId':'sandbox-1'}}]");
    struct berth_lease *l = take_lease(f, e, make_run(f));
    script(s, RESUME, fails);
    struct berth_place place;
    assert_fails(f, BERTH_E_UPSTREAM,
                 "no: ", berth_lease_resume(f->b, &f->arena, l->id, &place, &f->err));
    assert_error_is_clean(s, plain);
    script(s, REALIZE, fails);
    struct berth_workspace workspace = {0};
    struct berth_realized where;
    assert_fails(f, BERTH_E_UPSTREAM,
                 "no: ", berth_lease_realize(f->b, &f->arena, l->id, &workspace, &where, &f->err));
    assert_error_is_clean(s, plain);
    script(s, EXECUTE, fails);
    struct berth_exec_request command = BERTH_EXEC_REQUEST_INIT;
    struct outcome o;
    execute(s, l, command, &o);
    assert_int_equal(o.end.cause, BERTH_END_LOST);
    assert_masked(o.text[BERTH_STDERR], "no: ", plain);

    script(s, RELEASE, fails);
    struct berth_lease *owing = release_run(s, l);
    assert_row(f, l, BERTH_LEASE_RELEASED, BERTH_PLACE_LIVE, BERTH_CLEANUP_FAILED);
    assert_masked(owing->cleanup_error, "no: ", plain);
    assert_int_equal(sweep_later(s).failed, 1);
    assert_plain_nowhere(s, plain);
}

/* What it prints, and what is left of it when it dies. */
static void X12_a_workers_words_are_masked(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    const char *plain = "printed-provider-key-1234";
    install(s, PROVIDER);
    struct berth_environment *e = environment_with_key(s, plain);
    script(s, ACQUIRE, "[{" NOISE "'exit':3}]");
    assert_fails(f, BERTH_E_UNAVAILABLE, "Worker process exited (code=3, signal=null)",
                 try_lease(f, e, make_run(f)));
    assert_non_null(strstr(f->err.message, "stderr says "));
    assert_error_is_clean(s, plain);
    assert_null(strstr(newest_lease(f, e)->failure_reason, plain));

    script(s, PROBE, "[{" NOISE "'exit':4}]");
    bring_up(s);
    struct berth_probe probe = probe_of(s, e);
    assert_masked(probe.summary, "code=4", plain);
    const char *why = last_error(s);
    assert_non_null(strstr(why, "Worker process exited (code=4, signal=null)"));
    assert_masked(why, "stderr says ****", plain);
    assert_true(log_has(s, "plugin worker crashed"));

    const char *words = worker_log(s);
    assert_non_null(strstr(words, "stderr says ****"));
    assert_non_null(strstr(words, "log says ****"));
    assert_non_null(strstr(words, "noise says ****"));
    assert_plain_nowhere(s, plain);
}

/* What a worker prints of a key, and what must not be left of it. A text can be cut in the middle
 * of a key: of a line that is not a message, 200 bytes are kept, and of what a worker printed
 * before it died, the last 8000. */
static const struct printed_key {
    const char *key;
    const char *acts; /* of a probe; %s is the filler */
    char filler;
    int filler_bytes;
    bool lives;            /* the worker does not die of it */
    const char *words;     /* is in the worker's log, and in what it died of */
    const char *hidden[2]; /* parts of the key that are found nowhere; they name the case */
} printed_keys[] = {
    {.key = "-----BEGIN KEY-----\nfirst-line-of-the-key\nsecond-line-of-the-key\n"
            "-----END KEY-----",
     .acts = "[{'stderr':'stderr says $KEY','log':'log says $KEY%s','exit':4}]",
     .words = "stderr says ",
     .hidden = {"first-line-of-the-key", "second-line-of-the-key"}},
    {.key = "before-the-quote\"after-the-quote",
     .acts = "[{'dump':true,'exit':4%s}]",
     .words = "apiKey",
     .hidden = {"before-the-quote", "after-the-quote"}},
    {.key = "first-half-of-a-key-whose-end-is-cut",
     .acts = "[{'noise':'%s$KEY','result':{'ok':true}}]",
     .filler = 'x',
     .filler_bytes = 180,
     .lives = true,
     .words = "xxxx",
     .hidden = {"first-half-of"}},
    {.key = "its-beginning-is-cut-2nd-half-of-key",
     .acts = "[{'stderr':'$KEY%s','exit':4}]",
     .filler = 'y',
     .filler_bytes = 7980,
     .words = "yyyy",
     .hidden = {"half-of-key"}},
};

static void X12_printed_keys_are_masked(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    for (size_t i = 0; i < sizeof printed_keys / sizeof printed_keys[0]; i++) {
        const struct printed_key *k = &printed_keys[i];
        char filler[8000] = "";
        memset(filler, k->filler, (size_t)k->filler_bytes);
        struct berth_secret *secret = make_text_secret(f, text(f, "key %zu", i), k->key);
        struct berth_environment *e = environment(s, js(s, WITH_KEY, secret->id));
        script(s, PROBE, js(s, k->acts, filler));
        bring_up(s);
        struct berth_probe probe = probe_of(s, e);
        assert_masked(probe.summary, k->lives ? "" : "code=4", k->hidden[0]);
        if (!k->lives)
            assert_masked(last_error(s), k->words, k->hidden[0]);
        assert_masked(worker_log(s), k->words, k->hidden[0]);
        for (int h = 0; h < 2 && k->hidden[h]; h++)
            assert_plain_nowhere(s, k->hidden[h]);
    }
}

/* A release that has no config to tell has no secrets to look for, but the worker knows them. */
static void X12_release_without_config_is_masked(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    const char *plain = "remembered-provider-key-77";
    install(s, DRIVER);
    struct berth_secret *secret = make_text_secret(f, "provider key", plain);
    struct berth_environment *e = plugin_environment(s, js(s, "{'apiKey':'%s'}", secret->id));
    struct berth_lease *l = take_lease(f, e, make_run(f));
    change(s, e, BERTH_DRIVER_LOCAL, "{}");
    script(s, RELEASE, "[{'error':{'code':-32002,'message':'no: $KEY'}},{'result':null}]");
    struct berth_lease *owing = release_run(s, l);
    assert_string_equal(told(s, RELEASE, 0, "config"), "{}");
    assert_row(f, l, BERTH_LEASE_RELEASED, BERTH_PLACE_LIVE, BERTH_CLEANUP_FAILED);
    assert_masked(owing->cleanup_error, "no: ", plain);
    assert_int_equal(sweep_later(s).cleaned, 1);
    assert_plain_nowhere(s, plain);
}

/* Saving tells the worker an id, and still it knows the value from before. */
static void X12_refusal_of_a_config_is_masked(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    const char *plain = "known-from-before-key-99";
    install(s, PROVIDER);
    struct berth_environment *e = environment_with_key(s, plain);
    struct berth_lease *l = take_lease(f, e, make_run(f));
    script(s, VALIDATE,
           "[{'result':{'ok':false,'errors':['bad: $KEY']}},"
           "{'error':{'code':-32002,'message':'no: $KEY'}}]");
    for (int i = 0; i < 2; i++) {
        struct berth_issues issues;
        struct berth_environment *other;
        assert_true(try_create(s, BERTH_DRIVER_SANDBOX, js(s, WITH_KEY, "another-key"), &issues,
                               &other) < 0);
        assert_error_is_clean(s, plain);
        for (int k = 0; k < issues.list.count; k++)
            assert_null(strstr(((struct berth_issue *)issues.list.items[k])->message, plain));
    }
    (void)release_run(s, l);
    assert_plain_nowhere(s, plain);
}

#define WITH_TEXTS                                                                                 \
    "{'provider':'fake-plugin','image':'my-project-1','my-project-1':'kind-of-it','n':'%s'}"

/* What looks like a piece of somebody's secret, or like all of it, is still the caller's own. */
static void X12_config_that_is_saved_is_never_rewritten(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    const char *plain = "{\"type\":\"kind-of-it\",\"project\":\"my-project-1\"}";
    const char *whole = "standard-size-7";
    install(s, PROVIDER);
    (void)release_run(s, take_lease(f, environment_with_key(s, plain), make_run(f)));
    struct berth_secret *other = make_text_secret(f, "another key", whole);
    (void)release_run(s, take_lease(f, environment(s, js(s, WITH_KEY, other->id)), make_run(f)));
    struct berth_issues issues;
    struct berth_environment *e;
    script(
        s, VALIDATE,
        js(s,
           "[{'result':{'ok':true,'normalizedConfig':"
           "{'image':'my-project-1','my-project-1':'kind-of-it','n':'%s','added':'kind-of-it'}}},"
           "{'result':{'ok':true,'normalizedConfig':{'image':'x %s'}}}]",
           whole, whole));
    assert_ok(f, try_create(s, BERTH_DRIVER_SANDBOX, js(s, WITH_TEXTS, whole), &issues, &e));
    assert_string_equal(json_text(f, e->config_json, "image"), "my-project-1");
    assert_string_equal(json_text(f, e->config_json, "my-project-1"), "kind-of-it");
    assert_string_equal(json_text(f, e->config_json, "added"), "kind-of-it");
    assert_string_equal(json_text(f, e->config_json, "n"), whole);
    assert_fails(f, BERTH_E_UPSTREAM, "The worker answered with a secret of somebody else.",
                 try_create(s, BERTH_DRIVER_SANDBOX, js(s, WITH_TEXTS, "y"), &issues, &e));
    /* What is longer than any config is not looked through. */
    script(s, VALIDATE,
           js(s, "[{'result':{'ok':true,'normalizedConfig':{'image':'%01200000d'}}}]", 7));
    assert_fails(f, BERTH_E_UPSTREAM, "The worker says too much about a config.",
                 try_create(s, BERTH_DRIVER_SANDBOX, js(s, WITH_TEXTS, "y"), &issues, &e));
}

/* A worker that knows the id of a secret does not get its value by putting the id into a config. */
static void X12_worker_cannot_name_a_secret(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    const struct berth_secret *mine = make_text_secret(f, "mine", "the-value-of-mine");
    const struct berth_secret *other = make_text_secret(f, "other", "the-value-of-other");
    struct berth_issues issues;
    struct berth_environment *e;
    const char *given = js(s, WITH_KEY, mine->id);
    const char *none = "{\"provider\":\"fake-plugin\",\"image\":\"x\"}";
    const struct {
        const char *config, *answer;
        bool good;
    } tries[] = {
        {none, other->id, false},  {none, "a new secret", false}, {none, " ", true},
        {given, other->id, false}, {given, "planted", false},     {given, " ", true},
        {given, mine->id, true},
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        script(s, VALIDATE,
               js(s, "[{'result':{'ok':true,'normalizedConfig':{'image':'x','apiKey':'%s'}}}]",
                  tries[i].answer));
        int rc = try_create(s, BERTH_DRIVER_SANDBOX, tries[i].config, &issues, &e);
        if (tries[i].good)
            assert_ok(f, rc);
        else
            assert_fails(f, BERTH_E_UPSTREAM,
                         "The worker answered with another secret at apiKey than it was asked "
                         "about.",
                         rc);
    }
    assert_string_equal(json_text(f, e->config_json, "apiKey"), mine->id);
}

/* Upgrades the plugin to one whose schema says that the image is a secret. An operator consents. */
static void upgrade_to_secret_image(struct stage *s)
{
    struct fixture *f = &s->f;
    static const char plain[] = "\"image\":{";
    const char *before = manifest(s, PROVIDER), *at = strstr(before, plain);
    assert_non_null(at);
    spy_make_package(s->spy, text(f, "%s/package", f->directory),
                     text(f, "%.*s\"format\":\"secret-ref\",%s",
                          (int)(at - before + (int)strlen(plain)), before, at + strlen(plain)));
    struct berth_plugin *p;
    assert_ok(f, berth_plugin_upgrade(f->b, &f->arena, PROVIDER, NULL, NULL, &p, &f->err));
    assert_int_equal(p->status, BERTH_PLUGIN_UPGRADE_PENDING);
    assert_string_equal(p->last_error, "The new version asks for more capabilities, drivers or "
                                       "secrets: look at it, then enable it.");
    assert_ok(f, berth_plugin_enable(f->b, &f->arena, PROVIDER, NULL, &p, &f->err));
}

static struct berth_lease *take_lease_with_image(struct stage *s, const char *image,
                                                 struct berth_environment **e)
{
    struct berth_issues issues;
    script(s, VALIDATE, js(s, "[{'result':{'ok':true,'normalizedConfig':{'image':'%s'}}}]", image));
    script(s, ACQUIRE, js(s, "[{'result':{'providerLeaseId':'sandbox of %s'}}]", image));
    assert_ok(&s->f, try_create(s, BERTH_DRIVER_SANDBOX, "{'provider':'fake-plugin'}", &issues, e));
    return take_lease(&s->f, *e, make_run(&s->f));
}

/* Nor by an upgrade that says later that a secret stands there. A lease can still be given back. */
static void X12_upgrade_makes_no_secret_of_an_id(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    make_company(f, NOBODY);
    const char *ids[] = {make_text_secret(f, "mine", "the-value-of-mine")->id,
                         make_secret_of(f, NOBODY, "theirs", "the-value-of-theirs")->id};
    struct berth_environment *e[2];
    struct berth_lease *l[2];
    for (int i = 0; i < 2; i++)
        l[i] = take_lease_with_image(s, ids[i], &e[i]);
    upgrade_to_secret_image(s);
    for (int i = 0; i < 2; i++) {
        static const char *const words[] = {"true", NULL};
        struct berth_exec_request command = BERTH_EXEC_REQUEST_INIT;
        struct berth_exec_handlers none = {0};
        struct berth_exec *x;
        const char *refusal =
            i ? "Secret not found"
              : text(f, "Secret is not bound to environment:%s at image", e[i]->id);
        assert_fails(f, i ? BERTH_E_NOT_FOUND : BERTH_E_UNPROCESSABLE, refusal,
                     try_lease(f, e[i], make_run(f)));
        command.lease_id = l[i]->id;
        command.argv = words;
        assert_fails(f, i ? BERTH_E_NOT_FOUND : BERTH_E_UNPROCESSABLE, refusal,
                     berth_exec_start(f->b, &command, &none, &x, &f->err));
        (void)release_run(s, l[i]);
        assert_clean(s, l[i]);
        assert_string_equal(told(s, RELEASE, i, "config.image"), ids[i]);
    }
    struct spy_call call;
    for (int i = 0; spy_call_at(s->spy, NULL, i, &call); i++)
        assert_null(strstr(call.params_json, "the-value-of"));
    assert_string_equal(first_text(f, "SELECT CAST(count(*) AS TEXT) FROM secret_events"
                                      " WHERE outcome = 'success'"),
                        "0");
}

/* --- R10 --- */

static void R10_a_worker_that_is_starting_is_waited_for(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    spy_run_from(s->spy, 3);
    spy_set_start(s->spy, js(s, "{'pauseMs':300}"));
    struct berth_environment *e = environment(s, R8_STORED);
    struct berth_lease *l = take_lease(f, e, make_run(f));
    assert_string_equal(l->provider_lease_id, "sandbox-1");
    if (!s->process)
        assert_int_equal(spy_looks(s->spy), 3);
    assert_int_equal(spy_count(s->spy, NULL), 1);
    assert_said(s, ACQUIRE, 0, 31234, acquire_params(s, e, l, js(s, R8_CONFIG)));
}

/* Once it runs, one look is enough. */
static void R10_a_worker_that_runs_is_looked_at_once(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    struct berth_environment *e = environment(s, R8_STORED);
    struct berth_lease *l = take_lease(f, e, make_run(f));
    assert_int_equal(spy_looks(s->spy), 1);
    (void)release_run(s, l);
    assert_int_equal(spy_looks(s->spy), 2);
}

static void R10_but_not_for_ever(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    be_impatient(s);
    install(s, PROVIDER);
    bring_down(s);
    struct berth_environment *e = environment(s, R8_STORED);
    assert_fails(f, BERTH_E_UNAVAILABLE, NULL, try_lease(f, e, make_run(f)));
    assert_sandbox_down(s, f->err.message);
    if (!s->process)
        assert_true(spy_looks(s->spy) > 3);
    assert_int_equal(spy_count(s->spy, NULL), 0);
    /* The worker has never heard of it: there is no place, and nothing is owed. */
    assert_done(f, newest_lease(f, e), BERTH_LEASE_FAILED, BERTH_PLACE_NONE, BERTH_CLEANUP_NULL);
    bring_back(s);
    (void)take_lease(f, e, make_run(f));
}

/* A start may take longer than a worker that has crashed is waited for. */
static void R10_a_start_has_a_time_of_its_own(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    be_impatient(s);
    install(s, PROVIDER);
    spy_set_start(s->spy, js(s, "{'pauseMs':1000}"));
    struct berth_environment *e = environment(s, R8_STORED);
    struct berth_lease *l = take_lease(f, e, make_run(f));
    assert_string_equal(l->provider_lease_id, "sandbox-1");
}

static void R10_a_start_that_takes_too_long_is_told(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    s->start_ms = 300;
    install(s, PROVIDER);
    spy_set_start(s->spy, js(s, "{'pauseMs':%d}", 10 * PATIENCE_MS));
    struct berth_environment *e = environment(s, R8_STORED), *other;
    struct berth_issues issues;
    static const char slow[] = "Sandbox provider \"fake-plugin\" is installed via plugin "
                               "\"acme.fake-sandbox\", but its worker did not start within 300 ms.";
    assert_fails(f, BERTH_E_UNAVAILABLE, NULL, try_lease(f, e, make_run(f)));
    assert_string_equal(f->err.message, slow);
    assert_done(f, newest_lease(f, e), BERTH_LEASE_FAILED, BERTH_PLACE_NONE, BERTH_CLEANUP_NULL);
    assert_fails(
        f, BERTH_E_UNPROCESSABLE, NULL,
        try_create(s, BERTH_DRIVER_SANDBOX, "{'provider':'fake-plugin'}", &issues, &other));
    assert_string_equal(f->err.message, slow);
    assert_string_equal(probe_of(s, e).summary, slow);
}

static void R10_driver_without_a_running_worker(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    be_impatient(s);
    install(s, DRIVER);
    bring_down(s);
    struct berth_environment *e = plugin_environment(s, "{}");
    assert_fails(f, BERTH_E_UNAVAILABLE, NULL, try_lease(f, e, make_run(f)));
    assert_driver_down(s, f->err.message);
    assert_done(f, newest_lease(f, e), BERTH_LEASE_FAILED, BERTH_PLACE_NONE, BERTH_CLEANUP_NULL);
}

/* --- R11 --- */

static void R11_the_larger_timeout_counts(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    static const struct {
        const char *config; /* without the provider */
        int64_t place_ms, execute_ms, asked_ms;
    } cases[] = {
        {"'image':'fake:test','timeoutMs':1234,'bridgeRequestTimeoutMs':40000,'reuseLease':false",
         70000, 31234, 0},
        {"'image':'fake:test','timeoutMs':1234,'bridgeRequestTimeoutMs':50000,'reuseLease':false",
         80000, 31234, 0},
        {"'timeoutMs':60000,'bridgeRequestTimeoutMs':40000,'reuseLease':false", 90000, 90000, 0},
        {"'bridgeRequestTimeoutMs':40000,'reuseLease':false", 70000, 0, 0},
        {"'bridgeRequestTimeoutMs':40000.9,'reuseLease':false", 70000, 0, 0},
        {"'bridgeRequestTimeoutMs':'40000','reuseLease':false", 0, 0, 0},
        {"'timeoutMs':1234,'bridgeRequestTimeoutMs':-5,'reuseLease':false", 31234, 31234, 0},
        {"'image':'fake:test','reuseLease':false", 0, 0, 0},
        {"'timeoutMs':600000,'reuseLease':false", 630000, 630000, 0},
        {"'timeoutMs':1234,'reuseLease':false", 31234, 3630000, 3600000},
    };
    install(s, PROVIDER);
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        struct berth_environment *e =
            environment(s, js(s, "{'provider':'fake-plugin',%s}", cases[i].config));
        const char *config = js(s, "{%s}", cases[i].config);
        struct berth_lease *l = take_lease(f, e, make_run(f));
        assert_said(s, ACQUIRE, i, cases[i].place_ms, acquire_params(s, e, l, config));
        struct berth_exec_request command = BERTH_EXEC_REQUEST_INIT;
        struct outcome o;
        command.timeout_ms = cases[i].asked_ms;
        execute(s, l, command, &o);
        assert_said(s, EXECUTE, i, cases[i].execute_ms,
                    execute_params(s, e, l, &o, config, "",
                                   cases[i].asked_ms ? ",'timeoutMs':3600000" : ""));
        (void)release_run(s, l);
        assert_said(s, RELEASE, i, cases[i].place_ms, place_params(s, e, l, config));
    }
}

/* --- R12 --- */

#define STALE_THEN_FRESH                                                                           \
    "[{'result':{'providerLeaseId':'stale-plugin-lease'}},"                                        \
    "{'result':{'providerLeaseId':'fresh-plugin-lease'}}]"
#define STALE_SANDBOX "[{'error':{'code':-32002,'message':'stale sandbox'}}]"

/* A row that is parked with the place `stale-plugin-lease`. */
static struct berth_lease *park(struct stage *s, const struct berth_environment *e,
                                const struct berth_run *run)
{
    struct fixture *f = &s->f;
    struct berth_lease *l = take_lease(f, e, run);
    struct berth_lease *released = give_lease(f, l, BERTH_LEASE_RELEASED);
    assert_int_equal(released->place, BERTH_PLACE_PARKED);
    assert_int_equal(released->cleanup, BERTH_CLEANUP_SUCCESS);
    return released;
}

static void R12_failed_resume_falls_back_to_acquire(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    script(s, ACQUIRE, STALE_THEN_FRESH);
    script(s, RESUME, STALE_SANDBOX);
    struct berth_environment *e = environment(s, REUSED_STORED);
    struct berth_run *run = make_run(f);
    const char *config = js(s, REUSED_CONFIG);
    struct berth_lease *stale = park(s, e, run);
    assert_int_equal(stale->policy, BERTH_POLICY_REUSE_BY_ENVIRONMENT);
    assert_said(s, RELEASE, 0, 31234, place_params(s, e, stale, config));
    int before = spy_count(s->spy, NULL);

    struct berth_lease *fresh = take_lease(f, e, run);
    assert_string_equal(fresh->provider_lease_id, "fresh-plugin-lease");
    assert_int_equal(spy_count(s->spy, NULL), before + 2);
    assert_string_equal(said(s, NULL, before).method, RESUME);
    assert_string_equal(said(s, NULL, before + 1).method, ACQUIRE);
    assert_said(s, RESUME, 0, 31234, place_params(s, e, stale, config));
    assert_said(s, ACQUIRE, 1, 31234, acquire_params(s, e, fresh, config));

    /* The acquire comes first; the place that did not wake is owed its end. */
    assert_row(f, stale, BERTH_LEASE_RELEASED, BERTH_PLACE_LIVE, BERTH_CLEANUP_PENDING);
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.cleaned, 1);
    assert_int_equal(report.owed, 0);
    assert_said(s, DESTROY, 0, 31234, place_params(s, e, stale, config));
    assert_int_equal(spy_count(s->spy, DESTROY), 1);
    assert_clean(s, stale);
    assert_row(f, fresh, BERTH_LEASE_ACTIVE, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);

    (void)release_run(s, fresh); /* nothing of the other is left to be closed with the run */
    assert_int_equal(look_at_lease(f, fresh)->place, BERTH_PLACE_PARKED);
}

/* A row without a captured config is matched by its metadata, and its config is made from that. */
static void R12_rows_of_others_are_resumed_too(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    script(s, ACQUIRE, STALE_THEN_FRESH);
    script(s, RESUME, STALE_SANDBOX);
    struct berth_environment *e = environment(s, REUSED_STORED);
    struct berth_lease *stale = park(s, e, make_run(f));
    run_sql(f,
            "UPDATE leases SET config = NULL, fingerprint = NULL, provider_metadata = NULL"
            " WHERE id = $1",
            stale->id);
    struct berth_lease *fresh = take_lease(f, e, make_run(f));
    assert_string_equal(fresh->provider_lease_id, "fresh-plugin-lease");
    const char *config = js(s, REUSED_CONFIG);
    assert_said(s, RESUME, 0, 31234, place_params(s, e, stale, config));
    assert_int_equal(sweep(f).cleaned, 1);
    assert_said(s, DESTROY, 0, 31234, place_params(s, e, stale, config));
    assert_clean(s, stale);
}

#define NO_PLACE "[{'result':{'providerLeaseId':null,'metadata':{'expired':true}}}]"

/* "Gone" is an answer, and no proof: a worker may start the place and then not give it. It is
 * destroyed before the new one is acquired. */
static void R12_gone_place_is_acquired_afresh(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    script(s, ACQUIRE, STALE_THEN_FRESH);
    script(s, RESUME, NO_PLACE);
    struct berth_environment *e = environment(s, REUSED_STORED);
    struct berth_lease *stale = park(s, e, make_run(f));
    int before = spy_count(s->spy, NULL);
    struct berth_lease *fresh = take_lease(f, e, make_run(f));
    assert_string_equal(fresh->provider_lease_id, "fresh-plugin-lease");
    assert_false(json_has(fresh->metadata_json, "expired"));
    static const char *const order[] = {RESUME, DESTROY, ACQUIRE};
    for (int i = 0; i < 3; i++)
        assert_string_equal(said(s, NULL, before + i).method, order[i]);
    assert_said(s, DESTROY, 0, 31234, place_params(s, e, stale, js(s, REUSED_CONFIG)));
    assert_done(f, stale, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(sweep(f).owed, 0);
    assert_int_equal(spy_count(s->spy, DESTROY), 1);
}

/* A provider that names its places after the environment gives the same name again. */
static void R12_gone_place_comes_again_under_its_name(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    script(s, ACQUIRE, "[{'result':{'providerLeaseId':'the-only-one'}}]");
    script(s, RESUME, NO_PLACE);
    struct berth_environment *e = environment(s, REUSED_STORED);
    struct berth_lease *stale = park(s, e, make_run(f));
    struct berth_lease *fresh = take_lease(f, e, make_run(f));
    assert_string_equal(fresh->provider_lease_id, "the-only-one");
    assert_done(f, stale, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_row(f, fresh, BERTH_LEASE_ACTIVE, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
}

/* Until a destroy confirms that it is gone, the place is owed. */
static void R12_gone_place_that_cannot_be_destroyed_is_owed(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    script(s, ACQUIRE, STALE_THEN_FRESH);
    script(s, RESUME, NO_PLACE);
    script(s, DESTROY, "[{'error':{'code':-32002,'message':'busy'}},{'result':null}]");
    struct berth_environment *e = environment(s, REUSED_STORED);
    struct berth_lease *stale = park(s, e, make_run(f));
    struct berth_lease *fresh = take_lease(f, e, make_run(f));
    assert_string_equal(fresh->provider_lease_id, "fresh-plugin-lease");
    assert_row(f, stale, BERTH_LEASE_RELEASED, BERTH_PLACE_LIVE, BERTH_CLEANUP_FAILED);
    assert_string_equal(look_at_lease(f, stale)->cleanup_error, "busy");
    assert_int_equal(sweep_later(s).cleaned, 1);
    assert_int_equal(spy_count(s->spy, DESTROY), 2);
    assert_done(f, stale, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
}

/* A worker that is down is no reason to give up what sleeps at its provider. */
static void R12_parked_place_outlasts_a_worker_that_is_down(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    be_impatient(s);
    install(s, PROVIDER);
    bring_up(s);
    struct berth_environment *e = environment(s, REUSED_STORED);
    struct berth_lease *l = park(s, e, make_run(f));
    int64_t due_ms = look_at_lease(f, l)->due_at_ms;
    bring_down(s);
    for (int i = 0; i < 2; i++) {
        assert_fails(f, BERTH_E_UNAVAILABLE, NULL, try_lease(f, e, make_run(f)));
        struct berth_lease *failed = newest_lease(f, e);
        assert_int_equal(failed->status, BERTH_LEASE_FAILED);
        assert_false(berth_lease_stands(failed));
        assert_null(failed->provider_lease_id);
        assert_int_equal(look_at_lease(f, l)->place, BERTH_PLACE_PARKED);
        assert_int_equal(look_at_lease(f, l)->due_at_ms, due_ms);
    }
    bring_back(s);
    struct berth_lease *again = take_lease(f, e, make_run(f));
    assert_string_equal(again->provider_lease_id, "sandbox-1");
    assert_int_equal(spy_count(s->spy, RESUME), 1);
    assert_int_equal(spy_count(s->spy, ACQUIRE), 1);
    assert_int_equal(spy_count(s->spy, DESTROY), 0);
}

/* Its manifest says that it cannot: nothing is parked that nobody could wake. */
static void R12_provider_that_never_resumes(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    s->more = "'sandboxCapabilities':{'reusableLeases':false},";
    install(s, PROVIDER);
    struct berth_environment *e = environment(s, REUSED_STORED);
    struct berth_lease *l = take_lease(f, e, make_run(f));
    assert_int_equal(l->policy, BERTH_POLICY_EPHEMERAL);
    (void)release_run(s, l);
    assert_done(f, l, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    (void)release_run(s, take_lease(f, e, make_run(f)));
    assert_int_equal(spy_count(s->spy, RESUME), 0);
    assert_int_equal(spy_count(s->spy, DESTROY), 2);
}

static void R12_active_rows_are_never_resumed(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    script(s, ACQUIRE,
           "[{'result':{'providerLeaseId':'box-1'}},{'result':{'providerLeaseId':'box-2'}},"
           "{'result':{'providerLeaseId':'box-3'}}]");
    struct berth_environment *e = environment(s, REUSED_STORED);
    struct berth_run *run = make_run(f);
    struct berth_lease *held = take_lease(f, e, run);
    struct berth_lease *same_run = take_lease(f, e, run);
    struct berth_lease *other_run = take_lease(f, e, make_run(f));
    assert_string_equal(held->provider_lease_id, "box-1");
    assert_string_equal(same_run->provider_lease_id, "box-2");
    assert_string_equal(other_run->provider_lease_id, "box-3");
    assert_int_equal(spy_count(s->spy, RESUME), 0);
    assert_int_equal(spy_count(s->spy, ACQUIRE), 3);
    assert_int_equal(look_at_lease(f, held)->status, BERTH_LEASE_ACTIVE);
}

/* --- reuse --- */

static void reuse_resumes_with_the_workers_metadata(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    script(s, ACQUIRE,
           "[{'result':{'providerLeaseId':'sandbox-1','metadata':{'sandboxId':'sandbox-1',"
           "'remoteCwd':'/home/box'}}}]");
    script(s, RESUME,
           "[{'result':{'providerLeaseId':'sandbox-1','metadata':{'sandboxId':'sandbox-1',"
           "'remoteCwd':'/home/box','resumedLease':true}}}]");
    struct berth_environment *e = environment(s, REUSED_STORED);
    struct berth_lease *first = take_lease(f, e, make_run(f));
    assert_string_equal(metadata_text(s, first, "remoteCwd"), "/home/box");
    assert_int_equal(give_lease(f, first, BERTH_LEASE_RELEASED)->place, BERTH_PLACE_PARKED);
    struct berth_lease *second = take_lease(f, e, make_run(f));
    assert_string_equal(second->provider_lease_id, "sandbox-1");
    assert_string_equal(metadata_text(s, second, "resumedLease"), "true");
    assert_string_equal(metadata_text(s, second, "sandboxId"), "sandbox-1");
    assert_done(f, first, BERTH_LEASE_RELEASED, BERTH_PLACE_NONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(spy_count(s->spy, ACQUIRE), 1);
    /* It is told what it said itself, as the parked row has it. */
    assert_said(s, RESUME, 0, 31234, place_params(s, e, first, js(s, REUSED_CONFIG)));
    (void)give_lease(f, second, BERTH_LEASE_RELEASED);
    assert_said(s, RELEASE, 1, 31234, place_params(s, e, second, js(s, REUSED_CONFIG)));
}

static void reuse_ends_with_a_destroy_by_the_sweep(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    struct berth_environment *e = environment(s, REUSED_STORED);
    struct berth_lease *l = park(s, e, make_run(f));
    assert_int_equal(sweep(f).unparked, 0);
    assert_int_equal(spy_count(s->spy, DESTROY), 0);
    move_clock(f->b->settings.idle_ttl_ms);
    assert_int_equal(sweep(f).unparked, 1);
    assert_said(s, DESTROY, 0, 31234, place_params(s, e, l, js(s, REUSED_CONFIG)));
    assert_clean(s, l);
    assert_int_equal(spy_count(s->spy, RELEASE), 1); /* the one that parked it */
}

/* A worker without environmentDestroyLease gets a release that says not to keep the place. */
static void reuse_ends_with_a_release_where_there_is_no_destroy(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    script(s, DESTROY, NULL);
    struct berth_environment *e = environment(s, REUSED_STORED);
    struct berth_lease *l = park(s, e, make_run(f));
    /* Nobody would ask for it any more. */
    change(s, e, BERTH_DRIVER_SANDBOX, "{'image':'another'}");
    assert_int_equal(sweep(f).unparked, 1);
    assert_int_equal(spy_count(s->spy, DESTROY), 1);
    assert_said(s, RELEASE, 1, 31234, place_params(s, e, l, js(s, R8_CONFIG)));
    assert_clean(s, l);
}

/* How long it may idle is between the user and us. */
static void reuse_keeps_idle_ttl_from_the_worker(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    struct berth_environment *e =
        environment(s, "{'provider':'fake-plugin','idleTtlMs':60000,'reuseLease':true}");
    struct berth_lease *l = park(s, e, make_run(f));
    assert_said(s, ACQUIRE, 0, 0, acquire_params(s, e, l, js(s, "{'reuseLease':true}")));
    assert_int_equal(sweep(f).unparked, 0);
    move_clock(60000);
    assert_int_equal(sweep(f).unparked, 1);
    assert_clean(s, l);
}

/* --- R14 --- */

static void R14_lease_through_the_worker(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, DRIVER);
    int64_t expires_at_ms = berth_time_wall_ms() / 1000 * 1000 + 3600000 + 123;
    char expires[BERTH_TIME_ISO_SIZE];
    berth_time_iso(expires_at_ms, expires);
    const char *words = js(s, "{'driver':'local','pluginId':'theirs','pluginKey':'theirs',"
                              "'driverKey':'theirs','executionWorkspaceMode':'theirs',"
                              "'provider':'theirs','remoteCwd':'/workspace'}");
    script(s, ACQUIRE,
           js(s, "[{'result':{'providerLeaseId':'plugin-lease-1','expiresAt':'%s','metadata':%s}}]",
              expires, words));
    struct berth_environment *e = plugin_environment(s, "{'template':'base'}");
    struct berth_lease *l = take_lease(f, e, make_run(f));
    assert_said(s, ACQUIRE, 0, 0, acquire_params(s, e, l, js(s, "{'template':'base'}")));
    assert_string_equal(l->provider_lease_id, "plugin-lease-1");
    assert_string_equal(l->provider, "plugin:acme.environments:fake-plugin");
    assert_int_equal(l->policy, BERTH_POLICY_EPHEMERAL);
    assert_int_equal(l->expires_at_ms, expires_at_ms);
    assert_int_equal(look_at_lease(f, l)->expires_at_ms, expires_at_ms);
    assert_json_text(l->metadata_json,
                     js(s,
                        "{'driver':'plugin','pluginId':'%s','pluginKey':'acme.environments',"
                        "'driverKey':'fake-plugin','executionWorkspaceMode':null,"
                        "'providerMetadata':%s}",
                        s->plugin->id, words));
    assert_string_equal(look_at_lease(f, l)->metadata_json, l->metadata_json);

    change(s, e, BERTH_DRIVER_LOCAL, "{}");
    (void)release_run(s, l);
    assert_said(s, RELEASE, 0, 0, place_params(s, e, l, "{}"));
    assert_clean(s, l);
    assert_int_equal(spy_count(s->spy, NULL), 2);
}

/* A place lives no longer than we want, whatever its provider says; and what is no time is none. */
static void R14_only_the_ledger_extends_a_lease(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, DRIVER);
    script(s, ACQUIRE,
           "[{'result':{'providerLeaseId':'p-1','expiresAt':'2999-01-01T00:00:00.000Z'}},"
           "{'result':{'providerLeaseId':'p-2','expiresAt':'tomorrow'}},"
           "{'result':{'providerLeaseId':'p-3','expiresAt':null,'metadata':null}}]");
    struct berth_environment *e = plugin_environment(s, "{}");
    for (int i = 0; i < 3; i++) {
        struct berth_lease *l = take_lease(f, e, make_run(f));
        int64_t ttl_ms = f->b->settings.run_lease_ttl_ms;
        assert_true(l->expires_at_ms <= berth_time_wall_ms() + ttl_ms);
        assert_true(l->expires_at_ms > berth_time_wall_ms() + ttl_ms - 60000);
        assert_string_equal(metadata_text(s, l, "providerMetadata"), "{}");
    }
}

static void R14_acquire_tells_what_is_known(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, DRIVER);
    struct berth_environment *e = plugin_environment(s, "{'template':'base'}");
    struct berth_run *run = make_run(f);
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = e->id;
    request.run_id = run->id;
    request.workspace_mode = "shared_workspace";
    struct berth_lease *l;
    assert_ok(f, berth_lease_acquire(f->b, &f->arena, &request, &l, &f->err));
    assert_said(s, ACQUIRE, 0, 0,
                js(s, "{%s,'runId':'%s','workspaceMode':'shared_workspace'}",
                   base_of(s, e, l, js(s, "{'template':'base'}")), run->id));
    assert_string_equal(metadata_text(s, l, "executionWorkspaceMode"), "shared_workspace");
    (void)release_run(s, l);
    /* A lease without a run goes by its own id. */
    l = take_lease(f, e, NULL);
    assert_said(s, ACQUIRE, 1, 0,
                js(s, "{%s,'runId':'%s'}", base_of(s, e, l, js(s, "{'template':'base'}")), l->id));
}

/* Acquire and resume tell whom the lease is for, where the request says it. */
static void R14_agent_and_workspace_are_told(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    static const char workspace[] = "5f2a1c1e-3b52-4c49-8a3f-0d3c3f0e6a11";
    install(s, PROVIDER);
    script(s, ACQUIRE, "[{'result':{'providerLeaseId':'place-1'}}]");
    script(s, RESUME, "[{'result':{'providerLeaseId':'place-1'}}]");
    struct berth_environment *e = environment(s, REUSED_STORED);
    for (int i = 0; i < 3; i++) { /* the last one names nobody */
        struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
        struct berth_lease *l;
        request.environment_id = e->id;
        request.run_id = make_run(f)->id;
        request.agent_id = i < 2 ? "bot-7" : NULL;
        request.execution_workspace_id = i < 2 ? workspace : NULL;
        assert_ok(f, berth_lease_acquire(f->b, &f->arena, &request, &l, &f->err));
        const char *method = i ? RESUME : ACQUIRE;
        const char *told_to[] = {told(s, method, i ? i - 1 : 0, "agentId"),
                                 told(s, method, i ? i - 1 : 0, "executionWorkspaceId")};
        if (i < 2) {
            assert_string_equal(told_to[0], "bot-7");
            assert_string_equal(told_to[1], workspace);
        } else {
            assert_false(json_has(said(s, RESUME, 1).params_json, "agentId"));
            assert_false(json_has(said(s, RESUME, 1).params_json, "executionWorkspaceId"));
        }
        (void)give_lease(f, l, BERTH_LEASE_RELEASED);
        assert_false(json_has(said(s, RELEASE, i).params_json, "agentId"));
    }
}

/* The first release tells what the environment says now, as long as it names the same worker. */
static void R14_first_release_tells_the_current_config(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, DRIVER);
    struct berth_environment *e = plugin_environment(s, "{'template':'base'}");
    struct berth_lease *l = take_lease(f, e, make_run(f));
    change(s, e, BERTH_DRIVER_PLUGIN,
           "{'pluginKey':'acme.environments','driverKey':'fake-plugin',"
           "'driverConfig':{'template':'newer'}}");
    (void)release_run(s, l);
    assert_said(s, RELEASE, 0, 0, place_params(s, e, l, js(s, "{'template':'newer'}")));
    assert_clean(s, l);

    l = take_lease(f, e, make_run(f));
    assert_string_equal(told(s, ACQUIRE, 1, "config.template"), "newer");
    change(s, e, BERTH_DRIVER_PLUGIN,
           "{'pluginKey':'somebody.else','driverKey':'fake-plugin',"
           "'driverConfig':{'template':'theirs'}}");
    (void)release_run(s, l);
    assert_said(s, RELEASE, 1, 0, place_params(s, e, l, "{}"));
    assert_clean(s, l);
}

/* Who tries again goes by what the lease captured. */
static void R14_retries_tell_the_captured_config(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    const char *const moved[] = {
        "{'pluginKey':'acme.environments','driverKey':'fake-plugin',"
        "'driverConfig':{'template':'newer'}}",
        "{'pluginKey':'somebody.else','driverKey':'fake-plugin','driverConfig':{}}", "{}"};
    install(s, DRIVER);
    for (int i = 0; i < 3; i++) {
        script(s, RELEASE, "[{'error':{'code':-32002,'message':'api timeout'}},{'result':null}]");
        struct berth_environment *e = plugin_environment(s, "{'template':'base'}");
        struct berth_lease *l = take_lease(f, e, make_run(f));
        change(s, e, i < 2 ? BERTH_DRIVER_PLUGIN : BERTH_DRIVER_LOCAL, moved[i]);
        struct berth_lease *owing = release_run(s, l);
        assert_row(f, l, BERTH_LEASE_RELEASED, BERTH_PLACE_LIVE, BERTH_CLEANUP_FAILED);
        assert_string_equal(owing->cleanup_error, "api timeout");
        assert_said(s, RELEASE, 2 * i, 0,
                    place_params(s, e, l, i ? "{}" : js(s, "{'template':'newer'}")));
        assert_int_equal(sweep_later(s).cleaned, 1);
        assert_said(s, RELEASE, 2 * i + 1, 0, place_params(s, e, l, js(s, "{'template':'base'}")));
        assert_clean(s, l);
    }
    assert_int_equal(spy_count(s->spy, DESTROY), 0);
}

/* Only an execute looks at the time-out in a driver's config. */
static void R14_driver_config_sets_the_time_of_commands_only(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, DRIVER);
    struct berth_environment *e =
        plugin_environment(s, "{'timeoutMs':5000,'bridgeRequestTimeoutMs':40000}");
    const char *config = js(s, "{'timeoutMs':5000,'bridgeRequestTimeoutMs':40000}");
    struct berth_lease *l = take_lease(f, e, make_run(f));
    assert_said(s, ACQUIRE, 0, 0, acquire_params(s, e, l, config));
    struct berth_exec_request command = BERTH_EXEC_REQUEST_INIT;
    struct outcome o;
    execute(s, l, command, &o);
    assert_said(s, EXECUTE, 0, 35000, execute_params(s, e, l, &o, config, "", ""));
    (void)release_run(s, l);
    assert_said(s, RELEASE, 0, 0, place_params(s, e, l, config));
}

/* --- R15 --- */

static void R15_full_life_cycle(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, DRIVER);
    script(s, ACQUIRE,
           "[{'result':{'providerLeaseId':'plugin-lease-1','metadata':{'state':'running'}}}]");
    script(s, RESUME,
           "[{'result':{'providerLeaseId':'plugin-lease-1','metadata':{'resumed':true}}}]");
    struct berth_environment *e = plugin_environment(s, "{'template':'base'}");
    const char *config = js(s, "{'template':'base'}");
    struct berth_lease *l = take_lease(f, e, make_run(f));
    assert_said(s, ACQUIRE, 0, 0, acquire_params(s, e, l, config));

    struct berth_place place;
    assert_ok(f, berth_lease_resume(f->b, &f->arena, l->id, &place, &f->err));
    assert_string_equal(place.id, "plugin-lease-1");
    assert_string_equal(place.metadata_json, "{\"resumed\":true}");
    assert_said(s, RESUME, 0, 0, place_params(s, e, l, config));
    assert_string_equal(look_at_lease(f, l)->metadata_json, l->metadata_json);

    struct berth_workspace workspace = {.local_path = "/tmp/project", .mode = "ephemeral"};
    struct berth_realized where;
    assert_ok(f, berth_lease_realize(f->b, &f->arena, l->id, &workspace, &where, &f->err));
    assert_string_equal(where.cwd, "/workspace/project");
    assert_string_equal(where.metadata_json, "{\"realized\":true}");
    assert_said(s, REALIZE, 0, 0,
                js(s, "{%s,%s,'workspace':{'localPath':'/tmp/project','mode':'ephemeral'}}",
                   base_of(s, e, l, config), lease_of(s, l)));

    static const char *const env[] = {"FOO=bar", NULL};
    struct berth_exec_request command = BERTH_EXEC_REQUEST_INIT;
    struct outcome o;
    command.env = env;
    command.cwd = where.cwd;
    command.with_stdin = true;
    command.timeout_ms = 1000;
    execute_with(s, l, command, "", &o);
    assert_ended_well(&o, "ok\n");
    assert_said(s, EXECUTE, 0, 31000,
                execute_params(s, e, l, &o, config, ",'FOO':'bar'",
                               ",'cwd':'/workspace/project','stdin':'','timeoutMs':1000"));

    struct berth_lease *ended;
    assert_ok(f, berth_lease_destroy(f->b, &f->arena, l->id, NULL, &ended, &f->err));
    assert_int_equal(ended->status, BERTH_LEASE_FAILED);
    assert_said(s, DESTROY, 0, 0, place_params(s, e, l, config));
    assert_done(f, l, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    /* A sweep does not go by `failed` alone. */
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.cleaned + report.failed + report.owed, 0);
    assert_int_equal(spy_count(s->spy, NULL), 5);
}

/* `stdin` is sent when the caller wrote input, and left out when the caller only closed it: some
 * workers write an empty input to a command that has already exited. */
static void R15_input_is_sent_when_it_was_given(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    static const struct {
        const char *input, *sent;
    } cases[] = {{NULL, ""}, {"", ",'stdin':''"}, {"words\n", ",'stdin':'words\\n'"}};
    install(s, DRIVER);
    struct berth_environment *e = plugin_environment(s, "{}");
    struct berth_lease *l = take_lease(f, e, make_run(f));
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        struct berth_exec_request command = BERTH_EXEC_REQUEST_INIT;
        struct outcome o;
        command.with_stdin = true;
        execute_with(s, l, command, cases[i].input, &o);
        assert_ended_well(&o, "ok\n");
        assert_said(s, EXECUTE, i, 0, execute_params(s, e, l, &o, "{}", "", cases[i].sent));
    }
}

/* What the command says, and how it ended, comes through as it is. */
static void R15_answers_of_commands(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    static const struct {
        const char *act;
        enum berth_end_cause cause;
        int exit_code, signal;
        const char *out, *err;
    } cases[] = {
        {"{'result':{'exitCode':7,'signal':null,'timedOut':false,'stdout':'a\\n','stderr':'b'}}",
         BERTH_END_EXITED, 7, 0, "a\n", "b"},
        {"{'result':{'exitCode':0}}", BERTH_END_EXITED, 0, 0, "", ""},
        {"{'result':{'exitCode':null,'timedOut':true,'stdout':'','stderr':'late\\n'}}",
         BERTH_END_TIMEOUT, -1, 0, "", "late\n"},
        {"{'result':{'exitCode':null,'signal':'SIGKILL','timedOut':false,'stdout':''}}",
         BERTH_END_SIGNALLED, -1, SIGKILL, "", ""},
        /* How some vendors tell a signal: its negative number, or -1 for all of them. */
        {"{'result':{'exitCode':-15,'stdout':'a\\n'}}", BERTH_END_SIGNALLED, -1, SIGTERM, "a\n",
         ""},
        {"{'result':{'exitCode':-1}}", BERTH_END_SIGNALLED, -1, SIGKILL, "", ""},
        {"{'result':{'exitCode':-4096}}", BERTH_END_SIGNALLED, -1, SIGKILL, "", ""},
        {"{'result':{'exitCode':-1,'signal':'SIGINT'}}", BERTH_END_SIGNALLED, -1, SIGINT, "", ""},
        {"{'result':{'exitCode':-1,'timedOut':true}}", BERTH_END_TIMEOUT, -1, 0, "", ""},
        {"{'error':{'code':-32002,'message':'spawn printf ENOENT'}}", BERTH_END_EXITED, 127, 0, "",
         "berth: spawn printf ENOENT\n"},
        {"{'error':{'code':-32002,'message':'spawn printf EACCES'}}", BERTH_END_EXITED, 126, 0, "",
         "berth: spawn printf EACCES\n"},
        {"{'stream':'one ','result':{'exitCode':0,'stdout':'one two','stderr':''}}",
         BERTH_END_EXITED, 0, 0, "one two", ""},
    };
    install(s, DRIVER);
    struct berth_environment *e = plugin_environment(s, "{}");
    struct berth_lease *l = take_lease(f, e, make_run(f));
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        script(s, EXECUTE, js(s, "[%s]", cases[i].act));
        struct berth_exec_request command = BERTH_EXEC_REQUEST_INIT;
        struct outcome o;
        execute(s, l, command, &o);
        assert_int_equal(o.end.cause, cases[i].cause);
        assert_int_equal(o.end.exit_code, cases[i].exit_code);
        assert_int_equal(o.end.signal, cases[i].signal);
        assert_string_equal(o.text[BERTH_STDOUT], cases[i].out);
        assert_string_equal(o.text[BERTH_STDERR], cases[i].err);
        assert_int_equal(o.end.bytes[BERTH_STDERR], strlen(cases[i].err));
    }
}

/* --- X2 --- */

static void X2_release_is_owed_while_the_worker_is_down(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    be_impatient(s);
    install(s, PROVIDER);
    bring_up(s);
    struct berth_environment *e = environment(s, R8_STORED);
    struct berth_lease *l = take_lease(f, e, make_run(f));
    bring_down(s);
    struct berth_lease *owing = release_run(s, l);
    assert_int_equal(owing->status, BERTH_LEASE_RELEASED);
    assert_row(f, l, BERTH_LEASE_RELEASED, BERTH_PLACE_LIVE, BERTH_CLEANUP_FAILED);
    assert_int_equal(owing->cleanup_attempts, 1);
    assert_sandbox_down(s, owing->cleanup_error);
    assert_true(owing->due_at_ms > 0);
    assert_int_equal(spy_count(s->spy, RELEASE), 0);

    struct berth_sweep_report report = sweep_later(s);
    assert_int_equal(report.failed, 1);
    assert_int_equal(report.owed, 1);
    assert_int_equal(look_at_lease(f, l)->cleanup_attempts, 2);
    assert_int_equal(spy_count(s->spy, RELEASE), 0);

    bring_back(s);
    report = sweep_later(s);
    assert_int_equal(report.cleaned, 1);
    assert_int_equal(report.owed, 0);
    assert_said(s, RELEASE, 0, 31234, place_params(s, e, l, js(s, R8_CONFIG)));
    assert_int_equal(spy_count(s->spy, RELEASE), 1);
    assert_clean(s, l);
}

/* What could not be stopped in good order is not handed on. */
static void X2_reusable_place_is_owed_a_destroy(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    be_impatient(s);
    install(s, PROVIDER);
    bring_up(s);
    struct berth_environment *e = environment(s, REUSED_STORED);
    struct berth_lease *l = take_lease(f, e, make_run(f));
    bring_down(s);
    (void)release_run(s, l);
    assert_row(f, l, BERTH_LEASE_RELEASED, BERTH_PLACE_LIVE, BERTH_CLEANUP_FAILED);
    bring_back(s);
    assert_int_equal(sweep_later(s).cleaned, 1);
    assert_said(s, DESTROY, 0, 31234, place_params(s, e, l, js(s, REUSED_CONFIG)));
    assert_int_equal(spy_count(s->spy, RELEASE), 0);
    assert_clean(s, l);
}

/* Its answer was lost: it is asked again, which does no harm. */
static void X2_release_whose_answer_was_lost_is_owed(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, DRIVER);
    script(s, RELEASE, "[{'exit':1},{'result':null}]");
    struct berth_environment *e = plugin_environment(s, "{'template':'base'}");
    struct berth_lease *l = take_lease(f, e, make_run(f));
    struct berth_lease *owing = release_run(s, l);
    assert_row(f, l, BERTH_LEASE_RELEASED, BERTH_PLACE_LIVE, BERTH_CLEANUP_FAILED);
    assert_non_null(strstr(owing->cleanup_error, "Worker process exited (code=1, signal=null)"));
    bring_up(s);
    assert_int_equal(sweep_later(s).cleaned, 1);
    assert_int_equal(spy_count(s->spy, RELEASE), 2);
    assert_clean(s, l);
}

/* --- X3 --- */

#define NOT_OURS "{'leaseId':'01234567-89ab-7cde-8f01-23456789abcd','providerLeaseId':'not-ours'}"
/* The place is there for the one who looks for it, and has gone for the audit after that. */
#define ONE_FOUND                                                                                  \
    "[{'result':{'leases':[" NOT_OURS ",{'leaseId':'$LEASE','providerLeaseId':'box-9'}]}},"        \
    "{'result':{'leases':[" NOT_OURS "]}}]"

/* An acquire that makes a place and never says so; answers its row. */
static struct berth_lease *lose_acquire(struct stage *s, const struct berth_environment *e)
{
    struct fixture *f = &s->f;
    script(s, ACQUIRE, "[{'exit':1}]");
    assert_fails(f, BERTH_E_UNAVAILABLE, "Worker process exited (code=1, signal=null)",
                 try_lease(f, e, make_run(f)));
    struct berth_lease *l = newest_lease(f, e);
    assert_int_equal(l->status, BERTH_LEASE_FAILED);
    return l;
}

static void assert_destroyed(struct stage *s, const struct berth_environment *e,
                             const struct berth_lease *l)
{
    struct berth_lease as_found = *l;
    as_found.provider_lease_id = "box-9";
    assert_said(s, DESTROY, 0, 31234, place_params(s, e, &as_found, js(s, R8_CONFIG)));
    assert_int_equal(spy_count(s->spy, DESTROY), 1);
    assert_done(&s->f, l, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
}

static void X3_lost_acquire_is_found_by_its_label(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    spy_set_finds(s->spy, true);
    bring_up(s);
    script(s, FIND, ONE_FOUND);
    struct berth_environment *e = environment(s, R8_STORED);
    struct berth_lease *l = lose_acquire(s, e);
    assert_said(s, ACQUIRE, 0, 31234,
                js(s, "{%s,'runId':'%s','leaseId':'%s'}", base_of(s, e, l, js(s, R8_CONFIG)),
                   l->heartbeat_run_id, l->id));
    assert_said(s, FIND, 0, 31234, js(s, "{%s}", base_of(s, e, l, js(s, R8_CONFIG))));
    assert_destroyed(s, e, l);
    assert_int_equal(sweep(f).owed, 0);
}

static void X3_lost_acquire_is_found_by_the_sweep(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    spy_set_finds(s->spy, true);
    bring_up(s);
    script(s, FIND, "[{'error':{'code':-32002,'message':'not now'}}]");
    struct berth_environment *e = environment(s, R8_STORED);
    struct berth_lease *l = lose_acquire(s, e);
    assert_row(f, l, BERTH_LEASE_FAILED, BERTH_PLACE_UNKNOWN, BERTH_CLEANUP_FAILED);
    assert_string_equal(look_at_lease(f, l)->cleanup_error, "not now");
    assert_int_equal(spy_count(s->spy, DESTROY), 0);
    script(s, FIND, ONE_FOUND);
    struct berth_sweep_report report = sweep_later(s);
    assert_int_equal(report.cleaned, 1);
    assert_int_equal(report.foreign, 1); /* is seen, and left alone */
    assert_destroyed(s, e, l);
}

/* The process of ours died in the middle of it. */
static void X3_acquire_without_an_owner_is_found_by_the_sweep(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    spy_set_finds(s->spy, true);
    bring_up(s);
    struct berth_environment *e = environment(s, R8_STORED);
    struct berth_lease *l = take_lease(f, e, make_run(f));
    run_sql(f,
            "UPDATE leases SET status = 'acquiring', place = 'none', provider_lease_id = NULL,"
            " owner = '00000000-0000-7000-8000-000000000000', version = version + 1"
            " WHERE id = $1",
            l->id);
    reopen_runtime(s);
    script(s, FIND, ONE_FOUND);
    assert_int_equal(sweep(f).adopted, 1);
    assert_string_equal(look_at_lease(f, l)->failure_reason, "owner_lost");
    assert_destroyed(s, e, look_at_lease(f, l));
}

/* The worker is still at it when it is asked, and done with it later. */
static void X3_place_that_comes_late_is_found_by_the_sweep(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    spy_set_finds(s->spy, true);
    bring_up(s);
    struct berth_environment *e = environment(s, R8_STORED);
    struct berth_lease *l = lose_acquire(s, e);
    assert_done(f, l, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    script(s, FIND, "[{'result':{'leases':[{'leaseId':'$LEASE','providerLeaseId':'box-9'}]}}]");
    assert_int_equal(sweep(f).found, 1);
    assert_row(f, l, BERTH_LEASE_FAILED, BERTH_PLACE_LIVE, BERTH_CLEANUP_PENDING);
    script(s, FIND, "[{'result':{'leases':[]}}]");
    assert_int_equal(sweep(f).cleaned, 1);
    assert_destroyed(s, e, l);
}

/* A provider may list any number of places with a label of ours. */
static void X3_provider_that_lies_cannot_fill_the_ledger(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    spy_set_finds(s->spy, true);
    bring_up(s);
    struct berth_lease *l = lose_acquire(s, environment(s, R8_STORED));
    auto_buf list = BERTH_BUF_INIT(1024 * 1024);
    for (int i = 0; i < 3 * BERTH_FOUND_PLACES_MAX; i++)
        berth_buf_printf(&list, "%s{'leaseId':'$LEASE','providerLeaseId':'ghost-%d'}", i ? "," : "",
                         i);
    script(s, FIND, text(f, "[{'result':{'leases':[%s]}}]", berth_buf_str(&list)));
    script(s, DESTROY, "[{'error':{'code':-32002,'message':'no'}}]");
    assert_int_equal(sweep(f).found, BERTH_FOUND_PLACES_MAX);
    assert_int_equal(sweep(f).found, 0);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases"), BERTH_FOUND_PLACES_MAX);
    script(s, DESTROY, "[{'result':null}]");
    move_clock(24 * 3600 * 1000);
    assert_int_equal(sweep(f).cleaned, BERTH_FOUND_PLACES_MAX);
    assert_int_equal(sweep(f).found, BERTH_FOUND_PLACES_MAX);
    (void)l;
}

/* Makes an acquire of a worker that runs time out. Returns the lease's row. */
static struct berth_lease *outwait_next_acquire(struct stage *s, const struct berth_environment *e)
{
    struct fixture *f = &s->f;
    struct berth_lease *l;
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = e->id;
    request.run_id = make_run(f)->id;
    request.timeout_ms = 150;
    assert_fails(f, BERTH_E_TIMEOUT, NULL,
                 berth_lease_acquire(f->b, &f->arena, &request, &l, &f->err));
    return newest_lease(f, e);
}

static struct berth_lease *outwait_acquire(struct stage *s, const struct berth_environment *e)
{
    bring_up(s);
    return outwait_next_acquire(s, e);
}

static void await_settled(struct stage *s, const struct berth_lease *l)
{
    for (int waited = 0; berth_lease_stands(look_at_lease(&s->f, l)); waited += 5) {
        assert_true(waited < AWAIT_MS);
        pause_ms(5);
    }
}

#define LATE "[{'pauseMs':700,'lost':%s,'result':{'providerLeaseId':'box-9'}}]"

/* The worker cannot be asked for it, and need not be: it says so itself in the end. */
static void X3_place_of_a_late_answer_is_ended(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    struct berth_environment *e = environment(s, R8_STORED);
    script(s, ACQUIRE, js(s, LATE, s->process ? "null" : "true"));
    struct berth_lease *l = outwait_acquire(s, e);
    await_settled(s, l);
    assert_destroyed(s, e, l);
    assert_int_equal(sweep(f).owed, 0);
}

static int count_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 4096; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* One that is never answered holds no descriptor. */
static void X3_unanswered_acquires_cost_next_to_nothing(void **state)
{
    struct stage *s = *state;
    install(s, PROVIDER);
    struct berth_environment *e = environment(s, R8_STORED);
    script(s, ACQUIRE, "[{'lost':true}]");
    (void)outwait_acquire(s, e);
    int before = count_descriptors();
    for (int i = 0; i < 10; i++)
        (void)outwait_next_acquire(s, e);
    assert_true(count_descriptors() < before + 5);
    bring_down(s); /* else closing waits for the answers that never come */
}

/* A store that fails for a moment loses no place that was told late. */
static void X3_late_answer_is_recorded_in_the_end(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    struct berth_environment *e = environment(s, R8_STORED);
    script(s, ACQUIRE, js(s, LATE, "null"));
    struct berth_lease *l = outwait_acquire(s, e);
    assert_true(berth_lease_stands(look_at_lease(f, l)));
    berth_failpoint_arm_query(1);
    for (int waited = 0; !log_has(s, "late place not recorded") && spy_count(s->spy, DESTROY) == 0;
         waited += 5) {
        assert_true(waited < AWAIT_MS);
        berth_time_shift(100, 100);
        pause_ms(5);
    }
    assert_false(log_has(s, "late place not recorded"));
    await_settled(s, l);
    assert_destroyed(s, e, l);
}

/* The runtime closes before the answer comes, waits for it, and leaves the rest to the next. */
static void X3_late_answer_at_the_end_is_kept(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    struct berth_environment *e = environment(s, R8_STORED);
    script(s, ACQUIRE, js(s, LATE, "null"));
    struct berth_lease *l = outwait_acquire(s, e);
    reopen_runtime(s);
    assert_row(f, l, BERTH_LEASE_FAILED, BERTH_PLACE_LIVE, BERTH_CLEANUP_PENDING);
    assert_int_equal(spy_count(s->spy, DESTROY), 0);
    assert_int_equal(sweep(f).cleaned, 1);
    assert_destroyed(s, e, l);
}

/* The stated limit: nobody can be asked, so the operator is told. */
static void X3_worker_that_cannot_find(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    struct berth_environment *e = environment(s, R8_STORED);
    script(s, ACQUIRE, "[{'lost':true}]");
    struct berth_lease *l = outwait_acquire(s, e);
    assert_said(s, ACQUIRE, 0, 31234, acquire_params(s, e, l, js(s, R8_CONFIG))); /* no label */
    assert_row(f, l, BERTH_LEASE_FAILED, BERTH_PLACE_UNKNOWN, BERTH_CLEANUP_FAILED);
    assert_string_equal(l->cleanup_error,
                        "Provider \"fake-plugin\" never named a place for this lease and cannot be "
                        "asked by lease id: look there, then acknowledge the lease.");
    struct berth_sweep_report report = sweep_later(s);
    assert_int_equal(report.failed, 1);
    assert_int_equal(report.owed, 1);
    assert_row(f, l, BERTH_LEASE_FAILED, BERTH_PLACE_UNKNOWN, BERTH_CLEANUP_FAILED);
    assert_true(berth_lease_stands(look_at_lease(f, l)));
    struct berth_lease *seen;
    assert_ok(f, berth_lease_acknowledge(f->b, &f->arena, l->id, NULL, &seen, &f->err));
    assert_false(berth_lease_stands(seen));
    assert_int_equal(sweep_later(s).owed, 0);
    assert_int_equal(spy_count(s->spy, NULL), 1); /* nothing else could be said */
    bring_down(s); /* else closing waits for the answer that never comes */
}

/* --- X9 --- */

static void X9_worker_metadata_overrides_nothing(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    script(s, ACQUIRE,
           "[{'result':{'providerLeaseId':'sandbox-1','metadata':{'driver':'local','pluginId':'p',"
           "'pluginKey':'k','driverKey':'d','provider':'other','reuseLease':false,"
           "'executionWorkspaceMode':'theirs','sandboxProviderPlugin':false,'image':'theirs',"
           "'timeoutMs':1,'providerMetadata':{'x':1},'workspaceRealization':{'x':1},"
           "'remoteCwd':'/home/box'}}}]");
    script(s, RESUME,
           "[{'result':{'providerLeaseId':'sandbox-1','metadata':{'pluginId':'p','driver':'local',"
           "'reuseLease':false,'provider':'other'}}}]");
    struct berth_environment *e = environment(s, REUSED_STORED);
    struct berth_lease *l = take_lease(f, e, make_run(f));
    const char *wanted = js(s,
                            "{'driver':'sandbox','executionWorkspaceMode':null,'pluginId':'%s',"
                            "'pluginKey':'%s','sandboxProviderPlugin':true,"
                            "'provider':'fake-plugin','image':'fake:test','timeoutMs':1234,"
                            "'reuseLease':true,'remoteCwd':'/home/box'}",
                            s->plugin->id, PROVIDER);
    assert_json_text(l->metadata_json, wanted);
    struct berth_lease *row = look_at_lease(f, l);
    assert_string_equal(row->driver, "sandbox");
    assert_string_equal(row->provider, "fake-plugin");
    /* Nor does what it says decide over reuse, or over whom it is released by. */
    assert_int_equal(give_lease(f, l, BERTH_LEASE_RELEASED)->place, BERTH_PLACE_PARKED);
    assert_said(s, RELEASE, 0, 31234, place_params(s, e, l, js(s, REUSED_CONFIG)));
    struct berth_lease *second = take_lease(f, e, make_run(f));
    assert_int_equal(spy_count(s->spy, RESUME), 1);
    assert_string_equal(metadata_text(s, second, "pluginId"), s->plugin->id);
    assert_string_equal(metadata_text(s, second, "driver"), "sandbox");
    assert_string_equal(metadata_text(s, second, "provider"), "fake-plugin");
    assert_string_equal(metadata_text(s, second, "reuseLease"), "true");
}

/* A worker that hands out what another lease holds does not get it away from there. */
static void X9_place_of_another_lease_is_not_handed_out(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    struct berth_environment *e = environment(s, R8_STORED);
    struct berth_lease *l = take_lease(f, e, make_run(f));
    assert_fails(f, BERTH_E_CONFLICT, "handed out a place that another lease holds",
                 try_lease(f, e, make_run(f)));
    assert_done(f, newest_lease(f, e), BERTH_LEASE_FAILED, BERTH_PLACE_NONE, BERTH_CLEANUP_NULL);
    assert_string_equal(newest_lease(f, e)->failure_reason, "place_in_use");
    assert_row(f, l, BERTH_LEASE_ACTIVE, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
    assert_int_equal(spy_count(s->spy, RELEASE) + spy_count(s->spy, DESTROY), 0);
}

/* --- issues --- */

/* A life with all of its calls, for an issue. */
static void live_for(struct stage *s, const struct berth_environment *e, const char *issue_id,
                     const char *place_id, bool destroy)
{
    struct fixture *f = &s->f;
    struct berth_run *run = make_run(f);
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = e->id;
    request.run_id = run->id;
    request.issue_id = issue_id;
    script(s, ACQUIRE, js(s, "[{'result':{'providerLeaseId':'%s'}}]", place_id));
    script(s, RESUME, js(s, "[{'result':{'providerLeaseId':'%s'}}]", place_id));
    struct berth_lease *l;
    assert_ok(f, berth_lease_acquire(f->b, &f->arena, &request, &l, &f->err));
    assert_string_equal(l->issue_id, issue_id);
    struct berth_place place;
    struct berth_workspace workspace = {0};
    struct berth_realized where;
    assert_ok(f, berth_lease_resume(f->b, &f->arena, l->id, &place, &f->err));
    assert_ok(f, berth_lease_realize(f->b, &f->arena, l->id, &workspace, &where, &f->err));
    struct berth_exec_request command = BERTH_EXEC_REQUEST_INIT;
    struct outcome o;
    execute(s, l, command, &o);
    struct berth_lease *ended;
    if (destroy)
        assert_ok(f, berth_lease_destroy(f->b, &f->arena, l->id, NULL, &ended, &f->err));
    else
        (void)release_run(s, l);
}

static void Q6_issue_is_threaded_through(void **state)
{
    struct stage *s = *state;
    static const char *const issues[] = {"0197c7c0-0000-7000-8000-000000000001",
                                         "0197c7c0-0000-7000-8000-000000000002"};
    install(s, PROVIDER);
    struct berth_environment *e[] = {
        environment(s, R8_STORED),
        environment(s, "{'provider':'fake-plugin','image':'other','reuseLease':false}")};
    live_for(s, e[0], issues[0], "place-0", false);
    live_for(s, e[1], issues[1], "place-1", true);
    static const char *const methods[] = {ACQUIRE, RESUME, REALIZE, EXECUTE, RELEASE,
                                          ACQUIRE, RESUME, REALIZE, EXECUTE, DESTROY};
    assert_int_equal(spy_count(s->spy, NULL), 10);
    for (int i = 0; i < 10; i++) {
        int which = i / 5;
        assert_string_equal(said(s, NULL, i).method, methods[i]);
        assert_string_equal(told(s, NULL, i, "issueId"), issues[which]);
        assert_string_equal(told(s, NULL, i, "environmentId"), e[which]->id);
        assert_string_equal(told(s, NULL, i, "companyId"), e[which]->company_id);
        assert_string_equal(told(s, NULL, i, "config.image"), which ? "other" : "fake:test");
    }
}

/* --- saving --- */

static void saving_asks_the_worker(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    struct berth_issues issues;
    struct berth_environment *e;
    /* What it makes of the config is what is kept, with what is ours around it. */
    script(s, VALIDATE,
           "[{'result':{'ok':true,'warnings':['old image'],'normalizedConfig':{"
           "'image':'fake:test','timeoutMs':5000,'reuseLease':true,'target':null}}}]");
    assert_ok(f, try_create(s, BERTH_DRIVER_SANDBOX,
                            "{'provider':'fake-plugin','image':' fake:test ','timeoutMs':5000,"
                            "'reuseLease':true,'idleTtlMs':60000}",
                            &issues, &e));
    assert_said(s, VALIDATE, 0, 0,
                js(s, "{'driverKey':'fake-plugin','config':{'image':' fake:test ',"
                      "'timeoutMs':5000,'reuseLease':true}}"));
    assert_json_text(e->config_json,
                     js(s, "{'provider':'fake-plugin','image':'fake:test','timeoutMs':5000,"
                           "'reuseLease':true,'target':null,'idleTtlMs':60000}"));
    /* Without a word of it, it is kept as it came. */
    script(s, VALIDATE, "[{'result':{'ok':true}}]");
    assert_ok(f, try_create(s, BERTH_DRIVER_SANDBOX, "{'provider':'fake-plugin','image':' x '}",
                            &issues, &e));
    assert_json_text(e->config_json,
                     js(s, "{'provider':'fake-plugin','image':' x ','reuseLease':false}"));
    script(s, VALIDATE, NULL); /* nor does every worker know the question */
    assert_ok(f, try_create(s, BERTH_DRIVER_SANDBOX, "{'provider':'fake-plugin','image':'y'}",
                            &issues, &e));
    assert_string_equal(json_text(f, e->config_json, "image"), "y");
}

static void saving_is_refused_with_all_that_is_wrong(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    script(s, VALIDATE,
           "[{'result':{'ok':false,'errors':['image is bad.','timeoutMs is bad.','the rest, too.'],"
           "'warnings':['w']}},{'result':{'ok':false}},"
           "{'error':{'code':-32002,'message':'validator broke'}}]");
    struct berth_issues issues;
    struct berth_environment *e;
    const char *config = "{'provider':'fake-plugin','image':'x'}";
    assert_fails(f, BERTH_E_UNPROCESSABLE, NULL,
                 try_create(s, BERTH_DRIVER_SANDBOX, config, &issues, &e));
    assert_int_equal(berth_code_http(f->err.code), 422);
    assert_string_equal(f->err.message, "image is bad.");
    static const char *const all[] = {"image is bad.", "timeoutMs is bad.", "the rest, too."};
    assert_int_equal(issues.list.count, 3);
    for (int i = 0; i < 3; i++)
        assert_string_equal(((struct berth_issue *)issues.list.items[i])->message, all[i]);

    assert_fails(f, BERTH_E_UNPROCESSABLE, NULL,
                 try_create(s, BERTH_DRIVER_SANDBOX, config, &issues, &e));
    assert_string_equal(f->err.message, "Sandbox provider \"fake-plugin\" rejected its config.");
    assert_fails(f, BERTH_E_UPSTREAM, "validator broke",
                 try_create(s, BERTH_DRIVER_SANDBOX, config, &issues, &e));
    assert_int_equal(count_rows(f, "SELECT count(*) FROM environments"), 0);
}

static void saving_needs_a_worker_that_runs(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    be_impatient(s);
    install(s, PROVIDER);
    bring_down(s);
    struct berth_issues issues;
    struct berth_environment *e;
    assert_fails(f, BERTH_E_UNPROCESSABLE, NULL,
                 try_create(s, BERTH_DRIVER_SANDBOX, "{'provider':'fake-plugin'}", &issues, &e));
    assert_sandbox_down(s, f->err.message);
    assert_fails(f, BERTH_E_UNPROCESSABLE, NULL,
                 try_create(s, BERTH_DRIVER_SANDBOX, "{'provider':'unheard-of'}", &issues, &e));
    assert_string_equal(f->err.message, "Sandbox provider \"unheard-of\" is not installed or its "
                                        "plugin worker is not running.");
    assert_int_equal(count_rows(f, "SELECT count(*) FROM environments"), 0);
    assert_int_equal(spy_count(s->spy, NULL), 0);
}

#define DRIVER_CONFIG(inner)                                                                       \
    "{'pluginKey':'acme.environments','driverKey':'fake-plugin','driverConfig':" inner "}"

static void saving_for_the_plugin_driver(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, DRIVER);
    script(s, VALIDATE,
           "[{'result':{'ok':true,'normalizedConfig':{'template':'base','cpu':2}}},"
           "{'result':{'ok':false,'errors':['template is bad.','cpu is bad.']}}]");
    struct berth_issues issues;
    struct berth_environment *e;
    assert_ok(
        f, try_create(s, BERTH_DRIVER_PLUGIN, DRIVER_CONFIG("{'template':' base '}"), &issues, &e));
    assert_said(s, VALIDATE, 0, 0,
                js(s, "{'driverKey':'fake-plugin','config':{'template':' base '}}"));
    assert_json_text(e->config_json, js(s, DRIVER_CONFIG("{'template':'base','cpu':2}")));
    assert_fails(f, BERTH_E_UNPROCESSABLE, NULL,
                 try_create(s, BERTH_DRIVER_PLUGIN, DRIVER_CONFIG("{}"), &issues, &e));
    assert_string_equal(f->err.message, "template is bad.");
    assert_int_equal(issues.list.count, 2);
}

/* The texts of that driver name the plugin, too. */
static void saving_for_the_plugin_driver_texts(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    be_impatient(s);
    install(s, DRIVER);
    bring_up(s);
    struct berth_issues issues;
    struct berth_environment *e;
    script(s, VALIDATE, "[{'result':{'ok':false}}]");
    assert_fails(f, BERTH_E_UNPROCESSABLE, NULL,
                 try_create(s, BERTH_DRIVER_PLUGIN, DRIVER_CONFIG("{}"), &issues, &e));
    assert_string_equal(f->err.message, "Plugin environment driver \"acme.environments:fake-plugin"
                                        "\" rejected its config.");
    bring_down(s);
    assert_fails(f, BERTH_E_UNPROCESSABLE, NULL,
                 try_create(s, BERTH_DRIVER_PLUGIN, DRIVER_CONFIG("{}"), &issues, &e));
    assert_driver_down(s, f->err.message);
}

/* --- probes --- */

static void probe_tells_what_the_worker_says(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    script(s, PROBE,
           "[{'result':{'ok':true,'summary':'Connected.','diagnostics':[{'severity':'info',"
           "'message':'fast'}],'metadata':{'region':'us'}}},{'result':{'ok':true}},"
           "{'result':{'ok':false}},{'error':{'code':-32002,'message':'no such region'}},"
           "{'result':{'ok':false,'metadata':{'error':'no route'}}},"
           "{'result':{'ok':false,'summary':'Cannot connect.','metadata':{'error':'no route'}}},"
           "{'result':{'ok':false,'summary':'There is no route.','metadata':{'error':'no route'}}},"
           "{'result':{'ok':true,'summary':'Connected.','metadata':{'error':'none'}}}]");
    struct berth_environment *e = environment(s, R8_STORED);
    struct berth_probe probe = probe_of(s, e);
    assert_true(probe.ok);
    assert_string_equal(probe.summary, "Connected.");
    assert_json_text(probe.details_json,
                     js(s,
                        "{'provider':'fake-plugin','pluginKey':'%s','diagnostics':[{'severity':"
                        "'info','message':'fast'}],'metadata':{'region':'us'}}",
                        PROVIDER));
    assert_said(s, PROBE, 0, 0,
                js(s,
                   "{'driverKey':'fake-plugin','companyId':'%s','environmentId':'%s',"
                   "'config':" R8_CONFIG "}",
                   e->company_id, e->id));
    probe = probe_of(s, e);
    assert_true(probe.ok);
    assert_string_equal(probe.summary, "Sandbox provider \"fake-plugin\" probe passed.");
    assert_json_text(probe.details_json, js(s,
                                            "{'provider':'fake-plugin','pluginKey':'%s',"
                                            "'diagnostics':[],'metadata':{}}",
                                            PROVIDER));
    probe = probe_of(s, e);
    assert_false(probe.ok);
    assert_string_equal(probe.summary, "Sandbox provider \"fake-plugin\" probe failed.");
    probe = probe_of(s, e);
    assert_false(probe.ok);
    assert_string_equal(probe.summary, "no such region");
    /* The reason of a failure may be in the metadata. */
    static const char *const reasons[] = {"Sandbox provider \"fake-plugin\" probe failed: no route",
                                          "Cannot connect: no route", "There is no route.",
                                          "Connected."};
    for (int i = 0; i < 4; i++)
        assert_string_equal(probe_of(s, e).summary, reasons[i]);
    /* Nothing is left behind, and every probe is on record. */
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"), 0);
    assert_int_equal(count_activity(f, e->id, "environment.probed"), 8);
}

static void probe_of_the_plugin_driver(void **state)
{
    struct stage *s = *state;
    install(s, DRIVER);
    script(s, PROBE, "[{'result':{'ok':true}},{'result':{'ok':false}}]");
    struct berth_environment *e = plugin_environment(s, "{'template':'base'}");
    struct berth_probe probe = probe_of(s, e);
    assert_true(probe.ok);
    assert_string_equal(probe.summary, "Plugin environment driver \"acme.environments:fake-plugin"
                                       "\" probe passed.");
    assert_json_text(probe.details_json,
                     js(s, "{'pluginKey':'acme.environments','driverKey':'fake-plugin',"
                           "'diagnostics':[],'metadata':{}}"));
    assert_said(s, PROBE, 0, 0,
                js(s,
                   "{'driverKey':'fake-plugin','companyId':'%s','environmentId':'%s',"
                   "'config':{'template':'base'}}",
                   e->company_id, e->id));
    probe = probe_of(s, e);
    assert_false(probe.ok);
    assert_string_equal(probe.summary, "Plugin environment driver \"acme.environments:fake-plugin"
                                       "\" probe failed.");
}

static void probe_of_a_worker_that_is_down(void **state)
{
    struct stage *s = *state;
    be_impatient(s);
    install(s, PROVIDER);
    bring_down(s);
    struct berth_environment *e = environment(s, R8_STORED);
    struct berth_probe probe = probe_of(s, e);
    assert_false(probe.ok);
    assert_int_equal(spy_count(s->spy, NULL), 0);
    assert_string_equal(json_text(&s->f, probe.details_json, "provider"), "fake-plugin");
    assert_int_equal(count_rows(&s->f, "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"), 0);
    bring_back(s);
    assert_true(probe_of(s, e).ok);
}

static void probe_of_a_worker_that_is_down_text(void **state)
{
    struct stage *s = *state;
    be_impatient(s);
    install(s, PROVIDER);
    bring_down(s);
    struct berth_environment *e = environment(s, R8_STORED);
    struct berth_probe probe = probe_of(s, e);
    assert_sandbox_down(s, probe.summary);
    assert_json_text(probe.details_json, js(s, "{'provider':'fake-plugin'}"));
}

/* --- plugins that are not to be used --- */

static void set_disabled(struct stage *s, bool disabled)
{
    struct fixture *f = &s->f;
    struct berth_plugin *p;
    assert_ok(f, disabled ? berth_plugin_disable(f->b, &f->arena, s->plugin->id, "for now", NULL,
                                                 &p, &f->err)
                          : berth_plugin_enable(f->b, &f->arena, s->plugin->id, NULL, &p, &f->err));
    assert_int_equal(p->status, disabled ? BERTH_PLUGIN_DISABLED : BERTH_PLUGIN_READY);
}

static void disabled_plugin_serves_nobody(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    static const char text_now[] = "Sandbox provider \"fake-plugin\" is installed via plugin "
                                   "\"acme.fake-sandbox\", but that plugin is currently disabled.";
    install(s, PROVIDER);
    struct berth_environment *e = environment(s, R8_STORED);
    struct berth_lease *l = take_lease(f, e, make_run(f));
    int rows = count_rows(f, "SELECT count(*) FROM leases");
    set_disabled(s, true);
    if (s->process)
        assert_string_equal(worker_status(s).status, "stopped");
    assert_fails(f, BERTH_E_UNPROCESSABLE, NULL, try_lease(f, e, make_run(f)));
    assert_string_equal(f->err.message, text_now);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases"), rows);
    struct berth_workspace workspace = {0};
    struct berth_realized where;
    assert_fails(f, BERTH_E_UNPROCESSABLE, text_now,
                 berth_lease_realize(f->b, &f->arena, l->id, &workspace, &where, &f->err));
    static const char *const argv[] = {"true", NULL};
    struct berth_exec_request command = BERTH_EXEC_REQUEST_INIT;
    struct berth_exec *x;
    command.lease_id = l->id;
    command.argv = argv;
    assert_fails(f, BERTH_E_UNPROCESSABLE, text_now,
                 berth_exec_start(f->b, &command, NULL, &x, &f->err));
    assert_false(probe_of(s, e).ok);
    assert_int_equal(spy_count(s->spy, NULL), 1);

    /* What it holds is closed and owed, until it is enabled again. */
    struct berth_lease *owing = release_run(s, l);
    assert_row(f, l, BERTH_LEASE_RELEASED, BERTH_PLACE_LIVE, BERTH_CLEANUP_FAILED);
    assert_string_equal(owing->cleanup_error, text_now);
    assert_int_equal(sweep_later(s).failed, 1);
    set_disabled(s, false);
    assert_int_equal(sweep_later(s).cleaned, 1);
    assert_said(s, RELEASE, 0, 31234, place_params(s, e, l, js(s, R8_CONFIG)));
    assert_clean(s, l);
}

static void disabled_plugin_of_the_plugin_driver(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    static const char not_ready[] =
        "Plugin environment driver \"acme.environments:fake-plugin\" is not ready.";
    install(s, DRIVER);
    struct berth_environment *e = plugin_environment(s, "{'template':'base'}");
    struct berth_lease *l = take_lease(f, e, make_run(f));
    set_disabled(s, true);
    assert_fails(f, BERTH_E_UNPROCESSABLE, NULL, try_lease(f, e, make_run(f)));
    assert_string_equal(f->err.message, not_ready);
    struct berth_place place;
    assert_fails(f, BERTH_E_UNPROCESSABLE, NULL,
                 berth_lease_resume(f->b, &f->arena, l->id, &place, &f->err));
    assert_string_equal(f->err.message, not_ready);
    struct berth_issues issues;
    struct berth_environment *other;
    assert_fails(f, BERTH_E_UNPROCESSABLE, NULL,
                 try_create(s, BERTH_DRIVER_PLUGIN, DRIVER_CONFIG("{}"), &issues, &other));
    assert_string_equal(f->err.message, not_ready);
    assert_string_equal(release_run(s, l)->cleanup_error, not_ready);
    set_disabled(s, false);
    assert_int_equal(sweep_later(s).cleaned, 1);
    assert_said(s, RELEASE, 0, 0, place_params(s, e, l, js(s, "{'template':'base'}")));
}

static void disabled_plugin_when_saving_text(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    install(s, PROVIDER);
    set_disabled(s, true);
    struct berth_issues issues;
    struct berth_environment *e;
    assert_fails(f, BERTH_E_UNPROCESSABLE, NULL,
                 try_create(s, BERTH_DRIVER_SANDBOX, "{'provider':'fake-plugin'}", &issues, &e));
    assert_string_equal(f->err.message,
                        "Sandbox provider \"fake-plugin\" is installed via plugin "
                        "\"acme.fake-sandbox\", but that plugin is currently disabled.");
}

static void unknown_plugins_and_drivers(void **state)
{
    struct stage *s = *state;
    struct fixture *f = &s->f;
    static const struct {
        enum berth_environment_driver driver;
        const char *config, *message;
    } cases[] = {
        {BERTH_DRIVER_SANDBOX, "{'provider':'unheard-of'}",
         "Sandbox provider \"unheard-of\" is not registered as a built-in provider and no matching "
         "plugin is available."},
        /* It has that driver, but not as a provider of sandboxes. */
        {BERTH_DRIVER_SANDBOX, "{'provider':'fake-plugin'}",
         "Sandbox provider \"fake-plugin\" is not registered as a built-in provider and no "
         "matching "
         "plugin is available."},
        {BERTH_DRIVER_PLUGIN, "{'pluginKey':'un.heard-of','driverKey':'fake-plugin'}",
         "Plugin environment driver \"un.heard-of:fake-plugin\" is not ready."},
        {BERTH_DRIVER_PLUGIN, "{'pluginKey':'acme.environments','driverKey':'another'}",
         "Plugin \"acme.environments\" does not declare environment driver \"another\"."},
    };
    install(s, DRIVER);
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        struct berth_environment *e =
            make_environment(f, cases[i].driver, js(s, "%s", cases[i].config));
        assert_fails(f, BERTH_E_UNPROCESSABLE, NULL, try_lease(f, e, make_run(f)));
        assert_string_equal(f->err.message, cases[i].message);
        assert_false(probe_of(s, e).ok);
    }
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases"), 0);
    assert_int_equal(spy_count(s->spy, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BY_BOTH(R8_config_without_envelope_on_every_call),
        BY_BOTH(R9_secret_is_resolved_for_the_worker_and_never_kept),
        BY_BOTH(R9_pasted_key_is_kept_as_a_secret),
        BY_BOTH(R9_secret_in_a_driver_config),
        BY_BOTH(X12_answers_about_places_are_masked),
        BY_BOTH(X12_answers_of_probes_and_commands_are_masked),
        BY_BOTH(long_answers_are_masked_in_turns),
        BY_BOTH(X12_errors_are_masked),
        BY_PROCESS(X12_a_workers_words_are_masked),
        BY_PROCESS(X12_printed_keys_are_masked),
        BY_BOTH(R10_a_worker_that_is_starting_is_waited_for),
        BY_SPY(R10_a_worker_that_runs_is_looked_at_once),
        BY_BOTH(R10_but_not_for_ever),
        BY_PROCESS(R10_a_start_has_a_time_of_its_own),
        BY_PROCESS(R10_a_start_that_takes_too_long_is_told),
        BY_BOTH(R10_driver_without_a_running_worker),
        BY_BOTH(R11_the_larger_timeout_counts),
        BY_BOTH(R12_failed_resume_falls_back_to_acquire),
        BY_BOTH(R12_rows_of_others_are_resumed_too),
        BY_BOTH(R12_gone_place_is_acquired_afresh),
        BY_BOTH(R12_gone_place_comes_again_under_its_name),
        BY_BOTH(R12_gone_place_that_cannot_be_destroyed_is_owed),
        BY_BOTH(R12_parked_place_outlasts_a_worker_that_is_down),
        BY_BOTH(R12_provider_that_never_resumes),
        BY_BOTH(R12_active_rows_are_never_resumed),
        BY_BOTH(reuse_ends_with_a_destroy_by_the_sweep),
        BY_BOTH(reuse_ends_with_a_release_where_there_is_no_destroy),
        BY_BOTH(reuse_keeps_idle_ttl_from_the_worker),
        BY_BOTH(R14_lease_through_the_worker),
        BY_BOTH(R14_only_the_ledger_extends_a_lease),
        BY_BOTH(R14_acquire_tells_what_is_known),
        BY_BOTH(R14_agent_and_workspace_are_told),
        BY_BOTH(R14_first_release_tells_the_current_config),
        BY_BOTH(R14_retries_tell_the_captured_config),
        BY_BOTH(R14_driver_config_sets_the_time_of_commands_only),
        BY_BOTH(R15_full_life_cycle),
        BY_BOTH(R15_input_is_sent_when_it_was_given),
        BY_BOTH(R15_answers_of_commands),
        BY_BOTH(X2_release_is_owed_while_the_worker_is_down),
        BY_BOTH(X2_reusable_place_is_owed_a_destroy),
        BY_BOTH(X2_release_whose_answer_was_lost_is_owed),
        BY_BOTH(X3_lost_acquire_is_found_by_its_label),
        BY_BOTH(X3_lost_acquire_is_found_by_the_sweep),
        BY_BOTH(X3_acquire_without_an_owner_is_found_by_the_sweep),
        BY_BOTH(X3_place_that_comes_late_is_found_by_the_sweep),
        BY_PROCESS(X3_provider_that_lies_cannot_fill_the_ledger),
        BY_BOTH(X3_place_of_a_late_answer_is_ended),
        BY_PROCESS(X3_late_answer_at_the_end_is_kept),
        BY_PROCESS(X3_late_answer_is_recorded_in_the_end),
        BY_BOTH(X3_unanswered_acquires_cost_next_to_nothing),
        BY_BOTH(X3_worker_that_cannot_find),
        BY_BOTH(X9_worker_metadata_overrides_nothing),
        BY_BOTH(X9_place_of_another_lease_is_not_handed_out),
        BY_BOTH(Q6_issue_is_threaded_through),
        BY_BOTH(saving_asks_the_worker),
        BY_BOTH(saving_is_refused_with_all_that_is_wrong),
        BY_BOTH(saving_needs_a_worker_that_runs),
        BY_BOTH(saving_for_the_plugin_driver),
        BY_BOTH(probe_tells_what_the_worker_says),
        BY_BOTH(probe_of_a_worker_that_is_down),
        BY_BOTH(disabled_plugin_serves_nobody),
        BY_BOTH(disabled_plugin_of_the_plugin_driver),
        BY_BOTH(unknown_plugins_and_drivers),
        BY_BOTH(reuse_resumes_with_the_workers_metadata),
        BY_BOTH(X12_release_without_config_is_masked),
        BY_PROCESS(X12_refusal_of_a_config_is_masked),
        BY_PROCESS(X12_config_that_is_saved_is_never_rewritten),
        BY_PROCESS(X12_worker_cannot_name_a_secret),
        BY_PROCESS(X12_upgrade_makes_no_secret_of_an_id),
        BY_BOTH(saving_for_the_plugin_driver_texts),
        BY_BOTH(probe_of_the_plugin_driver),
        BY_BOTH(probe_of_a_worker_that_is_down_text),
        BY_BOTH(disabled_plugin_when_saving_text),
    };
    /* The Python of somebody's home comes first in some paths, and a worker cannot read it there.
     */
    char path[8192];
    (void)snprintf(path, sizeof path, "/usr/bin:/bin:%s", getenv("PATH") ? getenv("PATH") : "");
    (void)setenv("PATH", path, 1);
    return run_shard("plugins", tests);
}
