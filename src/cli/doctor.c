/* SPDX-License-Identifier: Apache-2.0
 * src/cli/doctor.c - berth doctor: checks the store, the daemon and the machine, and says how to
 * repair what does not work. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/landlock.h>

#include "base/auto.h"
#include "base/limits.h"
#include "cli/arguments.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "core/plugin/plugin.h"
#include "core/secret/secret_provider.h"
#include "store/migrate.h"
#include "store/secret.h"
#include "store/store.h"

#define URL_MS 3000
#define FILES_WANTED 4096
#define LOCKED_WANTED (4 * 1024 * 1024)

enum verdict {
    GOOD,
    POOR, /* a feature is limited */
    BAD,  /* a part does not work */
};
static const char *const verdicts[] = {"ok", "warn", "fail"};

struct finding {
    const char *name;
    enum verdict verdict;
    const char *summary, *cure;
};

struct visit {
    struct cli *cli;
    struct berth_list findings;
};

static void add_finding(struct visit *v, const char *name, enum verdict verdict,
                        const char *summary, const char *cure)
{
    struct finding *f = berth_arena_alloc(&v->cli->arena, sizeof *f);
    if (!f)
        return; /* the arena remembers */
    *f = (struct finding){name, verdict, summary, verdict == GOOD ? NULL : cure};
    (void)berth_list_add(&v->findings, &v->cli->arena, f);
}

#define say(v, ...) berth_arena_printf(&(v)->cli->arena, __VA_ARGS__)

/* --- the store and its key --- */

struct key_look {
    struct berth_arena *arena;
    const char *id;
};

static int tx_key_id(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct key_look *look = ctx;
    return berth_secret_key_load(db, look->arena, BERTH_LOCK_NONE, &look->id, err);
}

static void check_key(struct visit *v)
{
    struct berth_secret_provider *vault = v->cli->b->secret_provider;
    const char *path = berth_secret_provider_path(vault);
    struct key_look look = {.arena = &v->cli->arena};
    struct berth_error trouble;
    if (berth_store_read(v->cli->b->store, tx_key_id, &look, &trouble) < 0)
        add_finding(v, "key", BAD, say(v, "%s", trouble.message), "see the store");
    else if (!look.id)
        add_finding(v, "key", GOOD, say(v, "no secrets yet; the key will be made at %s", path),
                    NULL);
    else if (berth_secret_provider_has(vault, look.id, &trouble) < 0)
        add_finding(v, "key", BAD, say(v, "%s", trouble.message),
                    "put the right key file there; secrets cannot be read without it");
    else
        add_finding(v, "key", GOOD, say(v, "%s in %s", look.id, path), NULL);
}

/* What berth makes in its directory is private; but others see what there is. */
static void check_directory(struct visit *v)
{
    struct stat st;
    struct berth_error trouble;
    const char *path = berth_plugins_directory(v->cli->b, &v->cli->arena, NULL, NULL, &trouble);
    if (!path || stat(path, &st) < 0 || !(st.st_mode & (S_IRWXG | S_IRWXO)))
        return;
    add_finding(
        v, "directory", POOR,
        say(v, "%s is open to other users (mode %o)", path, (unsigned)st.st_mode & ALLPERMS),
        say(v, "chmod 700 %s", path));
}

/* Checks the store in this process, also when a daemon serves it. */
static void check_store(struct visit *v)
{
    struct cli *cli = v->cli;
    if (cli_try_connect_here(cli) < 0 && !cli->b) {
        const char *scheme = cli->store ? cli->store : "store";
        add_finding(v, "store", BAD,
                    say(v, "%.*s: %s", (int)strcspn(scheme, ":"), scheme, cli->err.message),
                    "name a store that can be opened with --store or BERTH_STORE");
        return;
    }
    if (!cli->company_id || cli->err.code == BERTH_E_NOT_FOUND)
        add_finding(v, "company", BAD, say(v, "%s", cli->err.message),
                    "\"berth company list\" shows them");
    add_finding(v, "store", GOOD,
                say(v, "%s:%s, schema %d", berth_store_scheme(cli->b->store),
                    berth_store_shared(cli->b->store) ? "..." : berth_store_where(cli->b->store),
                    berth_store_version()),
                NULL);
    check_directory(v);
    check_key(v);
}

/* --- the daemon --- */

/* Checks from this machine a URL by which places reach the daemon. */
static void check_url(struct visit *v, const char *url)
{
    struct berth_http_client_request request = BERTH_CLIENT_REQUEST_INIT;
    struct berth_http_client_reply reply;
    struct berth_error trouble;
    auto_json *health = NULL;
    request.url = say(v, "%s/api/health", url);
    request.ca_file = v->cli->daemon->ca_file;
    request.timeout_ms = request.connect_ms = URL_MS;
    int rc = request.url ? berth_http_client_ask(&request, &reply, &trouble) : BERTH_E_NO_MEMORY;
    if (rc == BERTH_OK) {
        (void)berth_json_parse(berth_buf_str(&reply.body), reply.body.len, BERTH_JSON_FOREIGN,
                               &health, &trouble);
        berth_buf_clear(&reply.body);
    }
    const char *status = cli_text(health, "status");
    bool ours = status && (strcmp(status, "ok") == 0 || strcmp(status, "degraded") == 0);
    add_finding(
        v, "url", ours ? GOOD : POOR,
        ours     ? say(v, "%s answers", url)
        : rc < 0 ? say(v, "%s: %s", url, trouble.message)
                 : say(v, "%s is not berthd", url),
        "sandboxes that try it cannot call back: set publicUrl in berthd.yaml to one that works");
}

/* Checks the daemon that is named or serves the store; it is fine to have none. */
static void check_daemon(struct visit *v)
{
    struct cli *cli = v->cli;
    struct cli_answer health, urls;
    if (cli_find_daemon(cli) < 0 || (cli->daemon && cli_get(cli, &health, "/api/health") < 0)) {
        add_finding(v, "daemon", BAD, say(v, "%s", cli->err.message),
                    "start berthd, or name one that runs with --url or BERTH_URL");
        return;
    }
    if (!cli->daemon)
        return;
    const char *version = cli_text(health.json, "version");
    bool recovering = berth_json_true(berth_json_get(health.json, "recovering"));
    add_finding(v, "daemon", GOOD,
                say(v, "%s, version %s%s", cli->daemon->where, version ? version : "unknown",
                    recovering ? ", recovering" : ""),
                NULL);
    if (cli_get(cli, &urls, "/api/runtime-urls") < 0) {
        add_finding(v, "url", BAD, say(v, "%s", cli->err.message), "see the daemon");
        return;
    }
    const struct berth_json *list = berth_json_get(urls.json, "urls");
    for (size_t i = 0; i < berth_json_count(list); i++)
        if (berth_json_str(berth_json_at(list, i)))
            check_url(v, berth_json_str(berth_json_at(list, i)));
    if (!berth_json_count(list))
        add_finding(v, "url", GOOD, "none: it listens at its socket only", NULL);
}

/* --- the machine --- */

static void check_limits(struct visit *v)
{
    struct rlimit files, locked;
    (void)getrlimit(RLIMIT_NOFILE, &files);
    (void)getrlimit(RLIMIT_MEMLOCK, &locked);
    add_finding(v, "files", files.rlim_cur >= FILES_WANTED ? GOOD : POOR,
                say(v, "%llu open files allowed", (unsigned long long)files.rlim_cur),
                "raise it: ulimit -n 4096, or LimitNOFILE= in the unit");
    if (locked.rlim_cur == RLIM_INFINITY)
        add_finding(v, "memory lock", GOOD, "no limit", NULL);
    else
        add_finding(
            v, "memory lock", locked.rlim_cur >= LOCKED_WANTED ? GOOD : POOR,
            say(v, "%llu KiB can be kept out of swap", (unsigned long long)locked.rlim_cur / 1024),
            "raise it, so that secrets are never swapped out: ulimit -l 4096, or LimitMEMLOCK=");
}

static bool can_unshare(int flags)
{
    pid_t child = fork();
    if (child == 0)
        _exit(unshare(flags) == 0 ? 0 : 1);
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static void check_sandboxing(struct visit *v)
{
    bool user = can_unshare(CLONE_NEWUSER);
    bool rest =
        can_unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC);
    add_finding(
        v, "namespaces", rest ? GOOD : POOR,
        rest   ? "user, mount, pid, net and ipc namespaces"
        : user ? "user namespaces, but not all others"
               : "no user namespaces",
        "allow them: sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces=10000");
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    add_finding(v, "landlock", abi >= 1 ? GOOD : POOR,
                abi >= 1 ? say(v, "ABI %ld", abi) : "not in this kernel, or not switched on",
                "boot with lsm=landlock,... on a kernel with CONFIG_SECURITY_LANDLOCK");
}

static void check_cgroups(struct visit *v)
{
    auto_close int fd = open("/sys/fs/cgroup/cgroup.controllers", O_RDONLY | O_CLOEXEC);
    char text[256] = "";
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[got > 0 ? strcspn(text, "\n") : 0] = '\0';
    bool v1 =
        access("/sys/fs/cgroup/memory", F_OK) == 0 && access("/sys/fs/cgroup/pids", F_OK) == 0;
    if (strstr(text, "memory") && strstr(text, "pids"))
        add_finding(v, "cgroups", GOOD, say(v, "version 2: %s", text), NULL);
    else if (v1)
        add_finding(v, "cgroups", access("/sys/fs/cgroup/memory", W_OK) == 0 ? GOOD : POOR,
                    "version 1, memory and pids", "limits need a writable hierarchy: run as root");
    else
        add_finding(v, "cgroups", POOR, "no memory and pids controllers",
                    "sandboxes here have no memory or process limits; mount cgroup2");
}

/* --- programs --- */

static const char *find_program(struct visit *v, const char *name)
{
    const char *path = getenv("PATH");
    auto_free char *copy = strdup(path ? path : "");
    char *rest = NULL;
    for (char *dir = copy ? strtok_r(copy, ":", &rest) : NULL; dir;
         dir = strtok_r(NULL, ":", &rest)) {
        const char *file = say(v, "%s/%s", dir, name);
        if (file && access(file, X_OK) == 0)
            return file;
    }
    return NULL;
}

static void check_programs(struct visit *v)
{
    static const struct {
        const char *name, *use, *cure;
    } programs[] = {
        {"ssh", "for environments over SSH", "apt install openssh-client"},
        {"node", "for provider plugins written in JavaScript", "apt install nodejs"},
    };
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        const char *file = find_program(v, programs[i].name);
        add_finding(v, programs[i].name, file ? GOOD : POOR,
                    file ? file : say(v, "not found; it is %s", programs[i].use), programs[i].cure);
    }
}

/* --- the answer --- */

static int doctor_print_json(struct cli *cli, const struct berth_list *findings)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    berth_json_open(&w, '[');
    for (int i = 0; i < findings->count; i++) {
        const struct finding *f = findings->items[i];
        berth_json_open(&w, '{');
        berth_json_put_str(&w, "name", f->name);
        berth_json_put_str(&w, "status", verdicts[f->verdict]);
        berth_json_put_str(&w, "summary", f->summary);
        berth_json_put_str(&w, "cure", f->cure);
        berth_json_close(&w, '}');
    }
    berth_json_close(&w, ']');
    return cli_print(cli, &buf);
}

/* The cure has a line of its own and is never cut. */
static int print_findings(struct cli *cli, const struct berth_list *findings)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    static const char *const colours[] = {"32", "33", "31"};
    for (int i = 0; i < findings->count; i++) {
        const struct finding *f = findings->items[i];
        const char *word = verdicts[f->verdict];
        if (cli_colours(stdout))
            berth_buf_printf(&buf, "%s\033[%sm%-4s\033[0m", i ? "\n" : "", colours[f->verdict],
                             word);
        else
            berth_buf_printf(&buf, "%s%-4s", i ? "\n" : "", word);
        berth_buf_printf(&buf, "  %-12s %s", f->name, cli_clean(cli, f->summary));
        if (f->cure)
            berth_buf_printf(&buf, "\n      %-12s %s", "", f->cure);
    }
    return cli_print(cli, &buf);
}

static int doctor_main(struct cli *cli, int argc, char **argv)
{
    if (cli_parse(cli, argc, argv, NULL, 0, 0) < 0)
        return CLI_USAGE;
    struct visit v = {.cli = cli};
    bool named = cli_named_daemon(cli) != NULL;
    check_daemon(&v);
    if (!named)
        check_store(&v);
    check_limits(&v);
    check_sandboxing(&v);
    check_cgroups(&v);
    check_programs(&v);
    if (berth_arena_check(&cli->arena, &cli->err) < 0)
        return cli_fail(cli);
    int status = cli->json ? doctor_print_json(cli, &v.findings) : print_findings(cli, &v.findings);
    for (int i = 0; i < v.findings.count; i++)
        if (((const struct finding *)v.findings.items[i])->verdict == BAD)
            status = CLI_FAILED;
    return status;
}

const struct cli_command cli_doctor_commands[] = {
    {"doctor", NULL, "", "what works here, what does not, and the cure", doctor_main},
    {0},
};
