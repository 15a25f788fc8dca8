/* SPDX-License-Identifier: Apache-2.0
 * bench/sync.c - what it costs to send a workspace to a place and to bring its changes home, beside
 * tar piped to tar, stat walks and rsync, in turns; and the same through a place that only runs
 * commands. Prints figures and never fails on one; README.md says how to read them. */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <berth/plugin.h>
#include <berth/workspace.h>

#include "base/arena.h"
#include "base/auto.h"
#include "core/environment/environment.h"
#include "core/lease/lease.h"
#include "ground.h"
#include "relay.h"
#include "samples.h"
#include "trees.h"

#define ROUNDS 7
#define ROUNDS_QUICK 3
#define FILE_BYTES 10000 /* on average */
#define RSS_KB_MAX (64 * 1024)
#define COMMAND_FILES 200
#define COMMAND_FILE_BYTES ((size_t)20 * 1024 * 1024 / COMMAND_FILES)
#define SETTLE_NS (INT64_C(3500) * 1000000) /* then times vouch for files (sync/tree.c) */

struct bench {
    const char *under;  /* where directories are made */
    const char *worker; /* the package of the fake worker */
    char directory[256];
    int rounds;
    int files; /* of the only size; 0: all sizes */
    bool quick;
    bool rsync; /* it is installed */
};

/* What a child process answers. */
struct answer {
    int rc;
    struct berth_error err;
    int64_t ns;
    long rss_kb;    /* the most that it ever had */
    size_t updated; /* files that came home with other content */
    char lease[64], cwd[512];
};

/* --- a child process for each call, whose peak of memory is that of the call alone --- */

/* One call to measure. */
struct work {
    const char *name;     /* of the process, for a profiler */
    const char *store;    /* the address */
    const char *lease;    /* "": a new one */
    const char *tree;     /* what is sent; NULL: bring the changes home */
    const char *package;  /* of a plugin that makes the place; NULL: a directory on this machine */
    const char *state_of; /* the directory of the store */
};

static int make_lease(struct berth *b, struct berth_arena *arena, const char *environment_id,
                      struct answer *out, struct berth_error *err)
{
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    struct berth_lease *lease;
    request.environment_id = environment_id;
    int rc = berth_lease_acquire(b, arena, &request, &lease, err);
    if (rc == BERTH_OK)
        (void)snprintf(out->lease, sizeof out->lease, "%s", berth_lease_id(lease));
    return rc;
}

static int push(struct berth *b, struct berth_arena *arena, const char *tree, struct answer *out,
                struct berth_error *err)
{
    struct berth_workspace_push wish = BERTH_WORKSPACE_PUSH_INIT;
    struct berth_workspace_report report;
    wish.lease_id = out->lease;
    wish.path = tree;
    int64_t before = now_ns();
    int rc = berth_workspace_push(b, arena, &wish, &report, err);
    out->ns = now_ns() - before;
    if (rc == BERTH_OK)
        (void)snprintf(out->cwd, sizeof out->cwd, "%s", report.cwd);
    return rc;
}

static int pull(struct berth *b, struct berth_arena *arena, struct answer *out,
                struct berth_error *err)
{
    struct berth_workspace_pull wish = BERTH_WORKSPACE_PULL_INIT;
    struct berth_workspace_report report;
    wish.lease_id = out->lease;
    int64_t before = now_ns();
    int rc = berth_workspace_pull(b, arena, &wish, &report, err);
    out->ns = now_ns() - before;
    out->updated = rc == BERTH_OK ? report.updated : 0;
    return rc;
}

static int work(struct berth *b, struct berth_arena *arena, const struct work *w,
                struct answer *out, struct berth_error *err)
{
    struct berth_environment *environment;
    int rc = BERTH_OK;
    (void)snprintf(out->lease, sizeof out->lease, "%s", w->lease);
    if (!*w->lease) {
        rc = berth_environment_ensure_local(b, arena, NULL, &environment, err);
        if (rc == BERTH_OK)
            rc = make_lease(b, arena, berth_environment_id(environment), out, err);
    }
    if (rc == BERTH_OK)
        rc = w->tree ? push(b, arena, w->tree, out, err) : pull(b, arena, out, err);
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    out->rss_kb = usage.ru_maxrss;
    return rc;
}

typedef int work_fn(struct berth *b, struct berth_arena *arena, const struct work *w,
                    struct answer *out, struct berth_error *err);

static _Noreturn void child_main(work_fn *fn, const struct work *w, struct answer *out)
{
    struct berth_options options = BERTH_OPTIONS_INIT;
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth *b = NULL;
    (void)prctl(PR_SET_NAME, w->name);
    berth_builtins.tune_process();
    options.store = w->store;
    out->rc = berth_open(&options, &b, &out->err);
    if (out->rc == BERTH_OK)
        out->rc = fn(b, &arena, w, out, &out->err);
    berth_close(b);
    _exit(0);
}

/* Opens the store in a child and lets it do the work. This process never opens it: it stays small,
 * and has one thread. */
static int in_child(work_fn *fn, const struct work *w, struct answer *out, struct berth_error *err)
{
    struct answer *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return berth_fail_errno(err, "Cannot share memory");
    int status = 0;
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        child_main(fn, w, shared);
    bool ended = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
    *out = *shared;
    (void)munmap(shared, sizeof *shared);
    if (!ended)
        return berth_fail(err, BERTH_E_INTERNAL, "A child process failed: status %d.", status);
    *err = out->err;
    return out->rc;
}

/* --- a place on this machine --- */

enum row { FIRST, PULL_SAME, PUSH_SAME, PUSH_CHANGED, PULL_CHANGED, ROWS };

static const struct {
    const char *name, *process, *bare;
    double aim; /* 0: none */
} rows[ROWS] = {
    [FIRST] = {"first push", "first-push", "tar to tar", 1.0},
    [PULL_SAME] = {"pull, no change", "pull-same", "two stat walks", 1.5},
    [PUSH_SAME] = {"push, no change", "push-same", "two stat walks", 1.5},
    [PUSH_CHANGED] = {"push, 100 changed", "push-changed", "walks and bytes", 0},
    [PULL_CHANGED] = {"pull, 100 changed", "pull-changed", "walks and bytes", 2.0},
};

/* One size of tree. */
struct size {
    const struct bench *bench;
    const char *store;
    char directory[300], tree[320];
    int files, rounds;
    unsigned seed; /* of the last change */
    struct samples bare[ROWS], ours[ROWS], rsync[ROWS];
    long rss_kb[ROWS];
};

/* One round has directories of its own. Nothing is deleted before the end: after deletions ext4
 * searches long for a free inode, and the next extraction would be slow. */
struct round {
    struct size *size;
    char lease[64], place[512];     /* ours */
    char tarred[340], rsynced[340]; /* theirs */
    char scratch[340];              /* fresh directories have this name and a number */
    int scratches;
};

/* Writes back what earlier steps have left in memory, so that no step pays for another. */
static void settle(const char *directory)
{
    auto_close int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        (void)syncfs(fd);
}

static int run_bare(struct round *r, enum row row, struct berth_error *err)
{
    struct size *s = r->size;
    size_t here, there;
    char fresh[360];
    (void)snprintf(fresh, sizeof fresh, "%s%d", r->scratch, r->scratches++);
    settle(s->directory);
    int64_t before = now_ns();
    int rc = BERTH_OK;
    if (row == FIRST) {
        rc = tree_tar(s->tree, r->tarred, err);
    } else {
        rc = tree_walk(s->tree, &here, err);
        if (rc == BERTH_OK)
            rc = tree_walk(r->place, &there, err);
    }
    if (rc == BERTH_OK && (row == PUSH_CHANGED || row == PULL_CHANGED))
        rc = tree_copy_changed(row == PUSH_CHANGED ? s->tree : r->place, s->files, fresh, err);
    return rc < 0 ? rc : samples_add(&s->bare[row], now_ns() - before, err);
}

static bool is_push(enum row row)
{
    return row == FIRST || row == PUSH_SAME || row == PUSH_CHANGED;
}

static int run_ours(struct round *r, enum row row, bool counts, struct berth_error *err)
{
    struct size *s = r->size;
    struct answer answer;
    struct work w = {.name = rows[row].process,
                     .store = s->store,
                     .lease = r->lease,
                     .tree = is_push(row) ? s->tree : NULL};
    settle(s->directory);
    int rc = in_child(work, &w, &answer, err);
    if (rc < 0)
        return berth_wrap(err, "%s", rows[row].name);
    if (!is_push(row) && answer.updated != (row == PULL_CHANGED ? CHANGED_FILES : 0))
        return berth_fail(err, BERTH_E_INTERNAL, "%s brought %zu files home.", rows[row].name,
                          answer.updated);
    if (row == FIRST) {
        memcpy(r->lease, answer.lease, sizeof r->lease);
        memcpy(r->place, answer.cwd, sizeof r->place);
    }
    if (!counts)
        return BERTH_OK;
    if (answer.rss_kb > s->rss_kb[row])
        s->rss_kb[row] = answer.rss_kb;
    return samples_add(&s->ours[row], answer.ns, err);
}

static int run_rsync(struct round *r, enum row row, struct berth_error *err)
{
    struct size *s = r->size;
    if (!s->bench->rsync)
        return BERTH_OK;
    settle(s->directory);
    int64_t before = now_ns();
    int rc =
        is_push(row) ? tree_rsync(s->tree, r->rsynced, err) : tree_rsync(r->rsynced, s->tree, err);
    return rc < 0 ? rc : samples_add(&s->rsync[row], now_ns() - before, err);
}

static int run_row(struct round *r, enum row row, struct berth_error *err)
{
    int rc = run_bare(r, row, err);
    if (rc == BERTH_OK)
        rc = run_ours(r, row, true, err);
    return rc < 0 ? rc : run_rsync(r, row, err);
}

/* Changes the same files in both places, differently: each side has something to bring home. */
static int change_places(struct round *r, struct berth_error *err)
{
    struct size *s = r->size;
    int rc = tree_change(r->place, s->files, ++s->seed, err);
    return rc < 0 || !s->bench->rsync ? rc : tree_change(r->rsynced, s->files, ++s->seed, err);
}

static int run_round(struct size *s, int number, struct berth_error *err)
{
    struct round r = {.size = s};
    (void)snprintf(r.tarred, sizeof r.tarred, "%s/tar%d", s->directory, number);
    (void)snprintf(r.rsynced, sizeof r.rsynced, "%s/rsync%d", s->directory, number);
    (void)snprintf(r.scratch, sizeof r.scratch, "%s/bytes%d.", s->directory, number);
    int rc = run_row(&r, FIRST, err);
    sleep_ns(SETTLE_NS); /* a command in the place takes longer */
    if (rc == BERTH_OK)
        rc = run_row(&r, PULL_SAME, err);
    if (rc == BERTH_OK)
        rc = run_row(&r, PUSH_SAME, err);
    if (rc == BERTH_OK)
        rc = run_ours(&r, PULL_SAME, false, err); /* the next push wants it */
    if (rc == BERTH_OK)
        rc = tree_change(s->tree, s->files, ++s->seed, err);
    if (rc == BERTH_OK)
        rc = run_row(&r, PUSH_CHANGED, err);
    if (rc == BERTH_OK)
        rc = change_places(&r, err);
    return rc < 0 ? rc : run_row(&r, PULL_CHANGED, err);
}

static void print_rows(struct size *s)
{
    for (enum row row = 0; row < ROWS; row++) {
        double bare = samples_us(&s->bare[row], 50) / 1000;
        double ours = samples_us(&s->ours[row], 50) / 1000;
        double rsync = samples_us(&s->rsync[row], 50) / 1000;
        printf("| %6d | %-17s | %-15s | %8.1f | %8.1f | %8.1f | %5.2fx | %5.2fx | %4ld MB |",
               s->files, rows[row].name, rows[row].bare, bare, ours, rsync, ours / bare,
               rsync > 0 ? ours / rsync : 0, s->rss_kb[row] / 1024);
        if (rows[row].aim > 0)
            printf(" <= %.1fx: %s;", rows[row].aim,
                   ours / bare <= rows[row].aim ? "met" : "missed");
        if (rsync > 0)
            printf(" faster than rsync: %s;", ours < rsync ? "met" : "missed");
        printf(" <= 64 MB: %s |\n", s->rss_kb[row] <= RSS_KB_MAX ? "met" : "missed");
    }
    (void)fflush(stdout);
}

static void size_clear(struct size *s)
{
    for (int i = 0; i < ROWS; i++) {
        samples_clear(&s->bare[i]);
        samples_clear(&s->ours[i]);
        samples_clear(&s->rsync[i]);
    }
}

static int check_space(const struct bench *bench, int files, int rounds, struct berth_error *err)
{
    struct statvfs fs;
    uint64_t wanted = (uint64_t)files * FILE_BYTES * 2 * ((uint64_t)rounds * 3 + 1);
    if (statvfs(bench->directory, &fs) < 0)
        return berth_fail_errno(err, "Cannot look at %s", bench->directory);
    if ((uint64_t)fs.f_bavail * fs.f_frsize >= wanted)
        return BERTH_OK;
    return berth_fail(err, BERTH_E_UNAVAILABLE,
                      "%s has too little room: %llu MB are wanted. Choose another disk by --dir.",
                      bench->under, (unsigned long long)(wanted >> 20));
}

static int measure_size(const struct bench *bench, int files, int rounds, struct berth_error *err)
{
    struct size s = {.bench = bench, .files = files, .rounds = rounds};
    char store[400];
    (void)snprintf(s.directory, sizeof s.directory, "%s/%d", bench->directory, files);
    (void)snprintf(s.tree, sizeof s.tree, "%s/tree", s.directory);
    (void)snprintf(store, sizeof store, "sqlite:%s/berth.db", s.directory);
    s.store = store;
    int rc = check_space(bench, files, rounds, err);
    if (rc == BERTH_OK && mkdir(s.directory, 0700) < 0)
        rc = berth_fail_errno(err, "Cannot make %s", s.directory);
    if (rc == BERTH_OK)
        rc = tree_make(s.tree, files, err);
    sleep_ns(SETTLE_NS);
    for (int i = 0; rc == BERTH_OK && i < rounds; i++)
        rc = run_round(&s, i, err);
    if (rc == BERTH_OK)
        print_rows(&s);
    size_clear(&s);
    return rc;
}

static int measure_sizes(const struct bench *bench, bool all, struct berth_error *err)
{
    printf(
        "milliseconds, medians; a place on this machine\n\n"
        "|  files | what              | beside          |     bare |     ours |    rsync |  ratio "
        "|  rsync |     RSS | aims |\n"
        "| -----: | ----------------- | --------------- | -------: | -------: | -------: | -----: "
        "| -----: | ------: | ---- |\n");
    if (bench->files)
        return measure_size(bench, bench->files, bench->rounds, err);
    int rc = measure_size(bench, 1000, bench->rounds, err);
    if (rc == BERTH_OK && !bench->quick)
        rc = measure_size(bench, 10000, bench->rounds, err);
    if (rc == BERTH_OK && all)
        rc = measure_size(bench, 50000, ROUNDS_QUICK, err);
    return rc;
}

/* --- a place that only runs commands --- */

static int make_box(struct berth *b, struct berth_arena *arena, const struct work *w,
                    const char **state, struct answer *out, struct berth_error *err)
{
    struct berth_plugin_install install = BERTH_PLUGIN_INSTALL_INIT;
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    struct berth_issues issues = {.arena = arena};
    struct berth_plugin *plugin;
    struct berth_environment *environment;
    install.source = w->package;
    input.name = "box";
    input.driver = BERTH_DRIVER_SANDBOX;
    input.config_json = "{\"provider\":\"fake-plugin\"}";
    int rc = berth_plugin_install(b, arena, &install, &plugin, err);
    if (rc == BERTH_OK)
        rc = berth_environment_create(b, arena, &input, &issues, &environment, err);
    if (rc < 0)
        return rc;
    *state = berth_arena_printf(arena, "%s/plugin-state/%s", w->state_of, plugin->id);
    return make_lease(b, arena, berth_environment_id(environment), out, err);
}

static void print_commands(const char *what, int delay_ms, const struct answer *a, long calls)
{
    printf("| %-15s | %5d ms | %5ld | %7.2f | %4ld MB |\n", what, delay_ms, calls,
           (double)a->ns / 1e9, a->rss_kb / 1024);
    (void)fflush(stdout);
}

/* Sends the tree and brings it home. The answer has the sum of both peaks of memory. */
static int work_in_box(struct berth *b, struct berth_arena *arena, const struct work *w,
                       struct answer *out, struct berth_error *err)
{
    const char *state = NULL;
    struct rusage usage;
    int delay_ms = atoi(w->lease); /* the first argument of this row is a delay, not a lease */
    int rc = make_box(b, arena, w, &state, out, err);
    long before = rc < 0 ? 0 : relay_count(state);
    if (rc == BERTH_OK)
        rc = push(b, arena, w->tree, out, err);
    if (rc < 0)
        return rc;
    long between = relay_count(state);
    (void)getrusage(RUSAGE_SELF, &usage);
    out->rss_kb = usage.ru_maxrss;
    print_commands("first push", delay_ms, out, between - before);
    rc = pull(b, arena, out, err);
    (void)getrusage(RUSAGE_SELF, &usage);
    out->rss_kb = usage.ru_maxrss;
    if (rc == BERTH_OK)
        print_commands("pull, no change", delay_ms, out, relay_count(state) - between);
    struct berth_release_request release = BERTH_RELEASE_REQUEST_INIT;
    release.lease_id = out->lease;
    return rc < 0 ? rc : berth_lease_release(b, arena, &release, NULL, err);
}

static int measure_delay(const struct bench *bench, const char *tree, int delay_ms,
                         struct berth_error *err)
{
    char directory[300], package[320], store[320], delay[16];
    struct answer answer;
    (void)snprintf(directory, sizeof directory, "%s/commands%d", bench->directory, delay_ms);
    (void)snprintf(package, sizeof package, "%s/package", directory);
    (void)snprintf(store, sizeof store, "sqlite:%s/berth.db", directory);
    (void)snprintf(delay, sizeof delay, "%d", delay_ms);
    struct work w = {.name = "commands",
                     .store = store,
                     .lease = delay,
                     .tree = tree,
                     .package = package,
                     .state_of = directory};
    if (mkdir(directory, 0700) < 0)
        return berth_fail_errno(err, "Cannot make %s", directory);
    int rc = relay_package(bench->worker, package, delay_ms, err);
    settle(directory);
    return rc < 0 ? rc : in_child(work_in_box, &w, &answer, err);
}

static int measure_commands(const struct bench *bench, struct berth_error *err)
{
    char tree[300];
    (void)snprintf(tree, sizeof tree, "%s/commands", bench->directory);
    int rc = tree_make_even(tree, COMMAND_FILES, COMMAND_FILE_BYTES, err);
    printf(
        "\n20 MiB in 200 files, through a place that only runs commands; the reference prepares\n"
        "such a workspace with 863 calls in 7.3 s without a delay\n\n"
        "| what            | a call's delay | calls | seconds |     RSS |\n"
        "| --------------- | -------------: | ----: | ------: | ------: |\n");
    if (rc == BERTH_OK)
        rc = measure_delay(bench, tree, 0, err);
    return rc < 0 || bench->quick ? rc : measure_delay(bench, tree, 100, err);
}

/* --- the whole --- */

static void print_head(const struct bench *bench)
{
    struct utsname u;
    (void)uname(&u);
    printf("berth %s, %s %s, %ld cores, in %s\n", BERTH_VERSION, u.sysname, u.release,
           sysconf(_SC_NPROCESSORS_ONLN), bench->under);
    if (!bench->rsync)
        printf("rsync is left out: it is not installed\n");
}

static int run(struct bench *bench, bool all, struct berth_error *err)
{
    int rc = make_directory(bench->under, bench->directory, sizeof bench->directory, err);
    if (rc < 0)
        return rc;
    bench->rsync = system("rsync --version >/dev/null 2>&1") == 0;
    print_head(bench);
    rc = measure_sizes(bench, all, err);
    return rc < 0 || bench->files ? rc : measure_commands(bench, err);
}

static int usage(void)
{
    (void)fprintf(stderr, "usage: bench-sync WORKER-PACKAGE [--quick | --long] [--dir DIRECTORY]\n"
                          "                  [--files COUNT]   one size alone, such as 10000\n");
    return 2;
}

int main(int argc, char **argv)
{
    if (relay_wanted())
        return relay_main();
    static const struct option options[] = {{"quick", no_argument, NULL, 'q'},
                                            {"long", no_argument, NULL, 'l'},
                                            {"dir", required_argument, NULL, 'd'},
                                            {"files", required_argument, NULL, 'f'},
                                            {0}};
    const char *tmp = getenv("TMPDIR");
    struct bench bench = {.under = tmp && *tmp ? tmp : "/tmp", .rounds = ROUNDS};
    struct berth_error err = {0};
    bool all = false;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'q') {
            bench.quick = true;
            bench.rounds = ROUNDS_QUICK;
        } else if (option == 'l') {
            all = true;
        } else if (option == 'd') {
            bench.under = optarg;
        } else if (option == 'f' && atoi(optarg) >= CHANGED_FILES) {
            bench.files = atoi(optarg);
        } else {
            return usage();
        }
    }
    if (optind != argc - 1)
        return usage();
    bench.worker = argv[optind];
    int rc = run(&bench, all, &err);
    if (rc < 0)
        (void)fprintf(stderr, "bench-sync: %s [%s]\n", err.message, err.where);
    remove_directory(bench.directory);
    return rc < 0 ? 1 : 0;
}
