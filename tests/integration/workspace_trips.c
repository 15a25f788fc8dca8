/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/workspace_trips.c - random trees travel to a place and home again, by each
 * transport. The place and the directory at home are edited at random; some processes are killed on
 * the way. What is home afterwards is compared with trip_model.c.
 *
 * A voyage is a lease and a number of trips, each ended by a pull. All of it follows from its seed:
 *     BERTH_TRIP_SEED=N       runs that voyage alone (choose the transport with BERTH_TEST_SHARD)
 *     BERTH_TEST_SEED=N       begins with voyage N
 *     BERTH_TRIP_VOYAGES=N    runs N voyages
 *
 * The program starts itself again for processes that are killed:
 * "workspace_trips WHAT LEASE:POLICY:STEP:NUMBER STORE DIRECTORY". */
#include "children.h"
#include "farhost.h"
#include "plugins.h"
#include "trip_model.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/failpoint.h"
#include "core/lease/lease_directory.h"
#include "core/workspace/workspace_recover.h"
#include "os/fs.h"

#define TRIPS 10 /* of a voyage */
#define VOYAGES 20
#define FIRST_VOYAGE 1000
#define MERGE_STEP "merge_step" /* beside the names of failpoints: after some steps of a merge */
#define EXIT_TROUBLE 100        /* and the code of the error */
#define HOME_ENV "BERTH_TRIP_HOME"

static const char *const excludes[] = {"*.skip", NULL};

/* --- moving --- */

static int push(struct fixture *f, const char *lease_id, const char *home,
                struct berth_workspace_report *report)
{
    struct berth_workspace_push push = BERTH_WORKSPACE_PUSH_INIT;
    push.lease_id = lease_id;
    push.path = home;
    push.exclude = excludes;
    push.label = TRIP_LABEL;
    return berth_workspace_push(f->b, &f->arena, &push, report, &f->err);
}

/* How a pull is made. */
struct way {
    enum berth_merge_policy policy;
    bool mass_deletion, dry_run;
};

static int pull(struct fixture *f, const char *lease_id, struct way way,
                struct berth_workspace_report *report)
{
    struct berth_workspace_pull pull = BERTH_WORKSPACE_PULL_INIT;
    pull.lease_id = lease_id;
    pull.on_conflict = (int)way.policy;
    pull.mass_deletion = way.mass_deletion;
    pull.dry_run = way.dry_run;
    return berth_workspace_pull(f->b, &f->arena, &pull, report, &f->err);
}

/* --- in a child --- */

/* Pushes or pulls, and dies at a step. Returns when the step was not reached. */
static int child_main(char **argv)
{
    struct fixture f;
    struct berth_workspace_report report;
    char lease_id[64], step[64];
    int policy, number;
    if (sscanf(argv[CHILD_WHICH], "%63[^:]:%d:%63[^:]:%d", lease_id, &policy, step, &number) != 4)
        return 1;
    child_open(&f, argv);
    if (strcmp(step, MERGE_STEP) == 0)
        berth_failpoint_arm_step(number);
    else
        berth_failpoint_arm(berth_failpoint_find(step), number);
    int rc = strcmp(argv[CHILD_WHAT], "push") == 0
                 ? push(&f, lease_id, getenv(HOME_ENV), &report)
                 : pull(&f, lease_id, (struct way){(enum berth_merge_policy)policy, true, false},
                        &report);
    if (strcmp(step, MERGE_STEP) == 0 && rc == BERTH_E_CANCELLED)
        (void)kill(getpid(), SIGKILL);
    if (rc < 0)
        (void)fprintf(stderr, "# %s at %s: %s\n", argv[CHILD_WHAT], step, f.err.message);
    child_close(&f);
    return rc < 0 ? EXIT_TROUBLE - rc : 0;
}

/* --- a voyage --- */

enum transport { BY_DIRECTORY, BY_COMMANDS, BY_SSH };
static const char *const transport_names[] = {"directory", "commands", "ssh"};

struct voyage {
    struct fixture *f;
    enum transport by;
    struct berth_environment *environment;
    const struct berth_lease *lease;
    uint64_t seed;
    int trip;
    char ground[64], home[80], beside[80];
    char place[PATH_MAX]; /* "": nothing was sent yet */
    bool sent;            /* `base` is the baseline of the lease */
    unsigned number;      /* of the step at which the last process was to die */
    bool scraps;          /* a killed process may have left files in the scratch directory */
    struct trip_tree base, remote, local, result, untouched;
    struct trip_model model;
    int pulls, kills, failures, refusals, conflicts; /* of all voyages */
};

/* Fails the test, with the seed that repeats the voyage. `path` may be NULL. */
static void voyage_fail(const struct voyage *v, const char *path, const char *what)
{
    trip_print("base", &v->base);
    trip_print("remote", &v->remote);
    trip_print("local", &v->local);
    trip_print("wanted", &v->model.want);
    trip_print("result", &v->result);
    fail_msg("BERTH_TRIP_SEED=%" PRIu64 " BERTH_TEST_SHARD=%d/3, trip %d: %s%s%s", v->seed,
             (int)v->by + 1, v->trip, path ? path : "", path ? ": " : "", what);
}

static void expect(const struct voyage *v, bool condition, const char *what)
{
    if (!condition)
        voyage_fail(v, NULL, what);
}

/* Compares what is in a directory with a tree. */
static void expect_tree(struct voyage *v, const char *root, const struct trip_tree *wanted,
                        const char *what)
{
    trip_read(root, &v->result);
    const char *path = trip_difference(&v->result, wanted);
    if (path)
        voyage_fail(v, path, what);
}

static bool has_work(struct voyage *v)
{
    return look_at_lease(v->f, v->lease)->work_at_ms != 0;
}

/* Counts the names in a directory that begin like this. */
static int count_prefix(const char *directory, const char *prefix)
{
    int count = 0;
    DIR *dir = opendir(directory);
    for (struct dirent *e; dir && (e = readdir(dir));)
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
                 strncmp(e->d_name, prefix, strlen(prefix)) == 0;
    if (dir)
        (void)closedir(dir);
    return count;
}

static int count_names(const char *directory)
{
    return count_prefix(directory, "");
}

/* Nothing outside the workspace has changed. */
static void check_outside(struct voyage *v)
{
    expect_tree(v, v->beside, &v->untouched, "a directory beside the workspace changed");
    expect(v, count_names(v->ground) == 2, "something new is beside the workspace");
}

/* Berth has left nothing at home, nor beside its states, nor in the place. */
static void check_leftovers(struct voyage *v)
{
    static const char *const names[] = {"list", "listed"};
    char path[PATH_MAX + 32];
    struct stat st;
    auto_free char *states = NULL;
    (void)snprintf(path, sizeof path, "%s/.berth", v->home);
    expect(v, lstat(path, &st) < 0, "the directory .berth is left at home");
    assert_ok(v->f, berth_lease_directories(v->f->b, "workspaces", &states, &v->f->err));
    (void)snprintf(path, sizeof path, "%s/merges", states);
    bool merges = access(path, F_OK) == 0;
    expect(v, count_names(path) == 0, "a journal is left");
    /* The state and its lists. */
    expect(v, count_names(states) == 2 + merges, "more than the state of the lease is left");
    (void)snprintf(path, sizeof path, "%s/.berth", v->place);
    expect(v, count_prefix(path, "merge") == 0, "a merge is left in the place");
    for (size_t i = v->by == BY_DIRECTORY ? 0 : 1; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/.berth/%s", v->place, names[i]);
        expect(v, lstat(path, &st) < 0, "a file of berth is left in the place");
    }
    (void)snprintf(path, sizeof path, "%s/.paperclip-runtime/berth", v->place);
    expect(v, v->scraps || count_names(path) == 0, "a file is left in the scratch directory");
}

/* Dies in another process. Returns true when it was killed, and writes the step to `step`. */
static bool die(struct voyage *v, const char *what, enum berth_merge_policy policy,
                const char *const *steps, char step[64])
{
    char which[200];
    int status, count = 0;
    while (steps[count])
        count++;
    (void)snprintf(step, 64, "%s", steps[trip_dice((unsigned)count)]);
    unsigned number = strcmp(step, MERGE_STEP) == 0      ? 1 + trip_dice(trip_dice(2) ? 4 : 16)
                      : strncmp(step, "worker_", 7) == 0 ? trip_dice(16)
                                                         : 0;
    (void)snprintf(which, sizeof which, "%s:%d:%s:%u", v->lease->id, (int)policy, step, number);
    free(child_finish(child_start(v->f, what, which), &status));
    v->number = number;
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    v->kills += killed;
    v->scraps |= killed; /* the next push removes them */
    expect(v, killed || status == 0, "a process failed that should have been killed");
    return killed;
}

/* --- there --- */

/* The place is like the directory at home, which a push leaves alone. */
static void check_sent(struct voyage *v, const struct berth_workspace_report *report)
{
    char text[16];
    int files = 0;
    (void)snprintf(v->place, sizeof v->place, "%s", report->cwd);
    expect_tree(v, v->home, &v->local, "a push changed the directory at home");
    expect_tree(v, v->place, &v->local, "the place is not like the directory at home");
    for (int i = 0; i < v->local.count; i++)
        files += v->local.things[i].kind != 'd';
    expect(v, report->files == (size_t)files, "the number of files sent");
    expect(v, trip_read_excluded(v->place, text)[0] != 'h', "an excluded file was sent");
    expect(v, has_work(v), "the lease is not marked after a push");
    v->scraps = false;
    v->base = v->local;
    v->sent = true;
}

/* A push on a full disk leaves the place as it was. */
static void push_fails(struct voyage *v)
{
    struct berth_workspace_report report;
    trip_read(v->place, &v->remote);
    berth_failpoint_arm_step_failure(1 + (int)trip_dice(6));
    int rc = push(v->f, v->lease->id, v->home, &report);
    berth_failpoint_arm_step_failure(0);
    if (rc == BERTH_OK) {
        check_sent(v, &report);
        return;
    }
    v->failures++;
    expect(v, rc == BERTH_E_UNAVAILABLE, v->f->err.message);
    expect_tree(v, v->place, &v->remote, "a push that failed changed the place");
}

/* After a push was killed, a pull takes nothing home that is not the place's own work. `base` is
 * the baseline then, or NULL: it is not known, and the pull has to be refused. */
static void pull_after_killed_push(struct voyage *v, const struct trip_tree *base)
{
    struct berth_workspace_report report;
    struct way way = {BERTH_MERGE_KEEP_BOTH, true, false};
    trip_read(v->place, &v->remote);
    int rc = pull(v->f, v->lease->id, way, &report);
    if (rc < 0) {
        expect(v, rc == BERTH_E_CONFLICT || rc == BERTH_E_NOT_FOUND, v->f->err.message);
        expect_tree(v, v->home, &v->local, "a pull that was refused changed the directory");
        return;
    }
    expect(v, base != NULL, "a pull from a place with another token succeeded");
    v->model = (struct trip_model){
        .base = base, .remote = &v->remote, .local = &v->local, .policy = way.policy};
    trip_model_make(&v->model);
    expect_tree(v, v->home, &v->model.want, "what a pull after a killed push brought home");
    trip_read(v->home, &v->local);
    v->base = v->remote;
}

static void push_dies(struct voyage *v)
{
    static const char *const steps[][5] = {
        [BY_DIRECTORY] = {"workspace_after_send", "workspace_after_state", "workspace_after_mark",
                          MERGE_STEP, NULL},
        [BY_COMMANDS] = {"workspace_after_send", "workspace_after_state", "worker_before_call",
                         "worker_after_call", NULL},
        [BY_SSH] = {"workspace_after_send", "workspace_after_state", "workspace_after_mark", NULL},
    };
    char step[64];
    if (!die(v, "push", BERTH_MERGE_KEEP_BOTH, steps[v->by], step) || has_work(v)) {
        v->base = v->local;
        v->sent = true;
        return;
    }
    bool saved = strcmp(step, "workspace_after_state") == 0;
    bool refused = strcmp(step, "workspace_after_send") == 0;
    if (*v->place && trip_dice(2))
        pull_after_killed_push(v, saved ? &v->local : refused || !v->sent ? NULL : &v->base);
    v->sent = false;
}

static void send_trip(struct voyage *v)
{
    struct berth_workspace_report report;
    unsigned how = trip_dice(v->by == BY_DIRECTORY ? 8 : 14);
    trip_read(v->home, &v->local);
    if (how == 0)
        push_dies(v);
    else if (how == 1 && *v->place)
        push_fails(v);
    if (has_work(v))
        expect(v, push(v->f, v->lease->id, v->home, &report) == BERTH_E_CONFLICT,
               "a second push was not refused");
    else if (push(v->f, v->lease->id, v->home, &report) < 0)
        voyage_fail(v, NULL, v->f->err.message);
    else
        check_sent(v, &report);
    if (!*v->place)
        (void)snprintf(v->place, sizeof v->place, "%s", report.cwd);
    check_outside(v);
}

/* --- home --- */

static void make_model(struct voyage *v, enum berth_merge_policy policy)
{
    v->model.base = &v->base;
    v->model.remote = &v->remote;
    v->model.local = &v->local;
    v->model.policy = policy;
    trip_model_make(&v->model);
}

static void check_counts(struct voyage *v, const struct berth_workspace_report *report)
{
    const struct trip_model *m = &v->model;
    expect(v, report->conflicts == (size_t)m->conflicts, "the number of conflicts");
    expect(v, report->added == (size_t)m->added, "the number of files added");
    expect(v, report->updated == (size_t)m->updated, "the number of files updated");
    expect(v, report->deleted == (size_t)m->deleted, "the number of files deleted");
}

/* All that must hold after a pull. */
static void check_home(struct voyage *v)
{
    expect_tree(v, v->home, &v->model.want, "what came home is not what must");
    expect_tree(v, v->place, &v->remote, "a pull changed the place");
    expect(v, !has_work(v), "the lease is still marked after a pull");
    check_outside(v);
    check_leftovers(v);
    v->base = v->remote;
    v->pulls++;
}

static void pull_well(struct voyage *v, struct way way)
{
    struct berth_workspace_report report;
    if (pull(v->f, v->lease->id, way, &report) < 0)
        voyage_fail(v, NULL, v->f->err.message);
    check_counts(v, &report);
}

/* Pulls, and expects that it fails and changes nothing. */
static void pull_in_vain(struct voyage *v, struct way way, int code)
{
    struct berth_workspace_report report;
    bool marked = has_work(v);
    int rc = pull(v->f, v->lease->id, way, &report);
    if (rc != code)
        voyage_fail(v, NULL, rc < 0 ? v->f->err.message : "a pull was not refused");
    expect_tree(v, v->home, &v->local, "a pull that did not succeed changed the directory");
    expect(v, has_work(v) == marked, "a pull that did not succeed changed the mark");
    check_outside(v);
}

static void pull_fails(struct voyage *v, struct way way)
{
    if (!trip_difference(&v->model.want, &v->local))
        return; /* the trip changes nothing, so no step can fail */
    v->failures++;
    berth_failpoint_arm_step_failure(1);
    pull_in_vain(v, way, BERTH_E_UNAVAILABLE);
}

/* A place with another token is not the one that the workspace was sent to. */
static void pull_from_another_place(struct voyage *v)
{
    char token[PATH_MAX + 32], kept[PATH_MAX + 32];
    (void)snprintf(token, sizeof token, "%s/.berth/token", v->place);
    (void)snprintf(kept, sizeof kept, "%s/.berth/kept", v->place);
    assert_int_equal(rename(token, kept), 0);
    if (trip_dice(2))
        assert_int_equal(symlink(v->place, token), 0); /* a stranger's, which cannot be read */
    pull_in_vain(v, (struct way){BERTH_MERGE_REMOTE, true, false}, BERTH_E_CONFLICT);
    (void)unlink(token);
    assert_int_equal(rename(kept, token), 0);
}

/* Pulls in a process that is killed, then in this one. */
static void pull_dies(struct voyage *v, struct way way)
{
    static const char *const steps[][5] = {
        [BY_DIRECTORY] = {"workspace_after_merge", "workspace_after_home", MERGE_STEP, MERGE_STEP,
                          NULL},
        [BY_COMMANDS] = {"workspace_after_merge", "workspace_after_home", "worker_before_call",
                         MERGE_STEP, NULL},
        [BY_SSH] = {"workspace_after_merge", "workspace_after_home", "ssh_after_session",
                    MERGE_STEP, NULL},
    };
    struct berth_workspace_report report;
    char step[64];
    bool killed = die(v, "pull", way.policy, steps[v->by], step);
    if (trip_dice(2)) { /* as a sweep does; the next pull tells of it all the same */
        struct stat st;
        char path[PATH_MAX];
        (void)snprintf(path, sizeof path, "%s/.berth", v->home);
        assert_ok(v->f, berth_workspace_recover(v->f->b, &v->f->err));
        expect(v, stat(path, &st) < 0, "a sweep leaves a merge unfinished");
    }
    if (pull(v->f, v->lease->id, way, &report) < 0)
        voyage_fail(v, NULL, v->f->err.message);
    if (killed && strcmp(step, MERGE_STEP) == 0 && v->number <= 2)
        expect(v, (report.recovered > 0) == (v->number == 2), /* 1 is before the journal */
               "a merge that was interrupted is not reported");
}

static void fetch_trip(struct voyage *v)
{
    static const enum berth_merge_policy policies[] = {BERTH_MERGE_KEEP_BOTH, BERTH_MERGE_KEEP_BOTH,
                                                       BERTH_MERGE_REMOTE, BERTH_MERGE_LOCAL,
                                                       BERTH_MERGE_FAIL};
    struct way way = {policies[trip_dice(5)], trip_dice(2) != 0, false};
    unsigned how = trip_dice(v->by == BY_DIRECTORY ? 8 : 16);
    char text[16], kept[16];
    trip_read(v->home, &v->local);
    trip_read(v->place, &v->remote);
    (void)trip_read_excluded(v->home, kept);
    make_model(v, way.policy);
    if (trip_model_refuses(&v->model, way.mass_deletion)) {
        v->refusals++;
        pull_in_vain(v, way, BERTH_E_CONFLICT);
        way = (struct way){BERTH_MERGE_KEEP_BOTH, true, false};
        make_model(v, way.policy);
    }
    v->conflicts += v->model.conflicts;
    if (how == 1)
        pull_fails(v, way);
    if (how == 2)
        pull_in_vain(v, (struct way){way.policy, way.mass_deletion, true}, BERTH_OK);
    if (how == 3)
        pull_from_another_place(v);
    if (how == 0) {
        way.mass_deletion = true;
        pull_dies(v, way);
    } else {
        pull_well(v, way);
    }
    check_home(v);
    expect(v, strcmp(trip_read_excluded(v->home, text), kept) == 0, "an excluded file changed");
}

/* --- all trips --- */

/* Edits a directory some times. */
static void edit(const char *root, char who, const char *hot)
{
    if (trip_dice(12) == 0)
        trip_delete_most(root);
    for (unsigned i = trip_dice(7); i; i--)
        trip_edit(root, who, hot);
}

/* Edits the place and the directory at home: at random, or in modes and contents of the same files
 * alone. */
static void edit_both(struct voyage *v)
{
    const char *hot = NULL;
    unsigned how = trip_dice(3);
    for (unsigned i = how == 0 ? 6 : 1; v->base.count && i; i--) {
        hot = v->base.things[trip_dice((unsigned)v->base.count)].path;
        if (how)
            break;
        trip_touch(v->place, 'p', hot);
        trip_touch(v->home, 'h', hot);
    }
    if (how) {
        edit(v->place, 'p', hot);
        edit(v->home, 'h', hot);
    }
    trip_write_excluded(v->place, 'p');
    trip_write_excluded(v->home, 'h');
    trip_give_to_owner(v->place);
}

static void make_ground(struct voyage *v)
{
    char path[100];
    (void)snprintf(v->ground, sizeof v->ground, "%s/berth-trips.XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(v->ground));
    (void)snprintf(v->home, sizeof v->home, "%s/home", v->ground);
    (void)snprintf(v->beside, sizeof v->beside, "%s/beside", v->ground);
    (void)snprintf(path, sizeof path, "%s/kept", v->beside);
    assert_int_equal(mkdir(v->home, 0755), 0);
    assert_int_equal(mkdir(v->beside, 0755), 0);
    assert_int_equal(mkdir(path, 0755), 0);
    trip_write_excluded(path, 'k'); /* an ordinary file here */
    trip_read(v->beside, &v->untouched);
    assert_int_equal(setenv(HOME_ENV, v->home, 1), 0);
}

static void sail(struct voyage *v, uint64_t seed)
{
    struct berth_error err;
    trip_seed(seed);
    v->seed = seed;
    v->sent = v->scraps = false;
    *v->place = '\0';
    make_ground(v);
    v->lease = take_lease(v->f, v->environment, NULL);
    trip_fill(v->home, 'h', 10 + trip_dice(20));
    for (v->trip = 0; v->trip < TRIPS; v->trip++) {
        if (trip_dice(4) == 0)
            trip_fill(v->home, 'h', 15);
        if (!v->sent || has_work(v) || trip_dice(3))
            send_trip(v);
        edit_both(v);
        fetch_trip(v);
    }
    (void)give_lease(v->f, v->lease, BERTH_LEASE_RELEASED);
    assert_int_equal(berth_fs_remove_tree(v->ground, &err), BERTH_OK);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void sail_all(struct fixture *f, enum transport by, struct berth_environment *environment)
{
    auto_free struct voyage *v = calloc(1, sizeof *v);
    assert_non_null(v);
    v->f = f;
    v->by = by;
    v->environment = environment;
    (void)umask(S_IRWXG | S_IRWXO); /* modes come from the trees all the same */
    uint64_t only = number_of("BERTH_TRIP_SEED", 0),
             first = number_of("BERTH_TEST_SEED", FIRST_VOYAGE);
    uint64_t voyages = only ? 1 : number_of("BERTH_TRIP_VOYAGES", VOYAGES);
    for (uint64_t i = 0; i < voyages; i++)
        sail(v, only ? only : first + i);
    print_message("# %s: %d pulls, %d conflicts, %d refusals, %d failures, %d kills\n",
                  transport_names[by], v->pulls, v->conflicts, v->refusals, v->failures, v->kills);
}

static void trips_to_a_directory(void **state)
{
    struct fixture *f = *state;
    sail_all(f, BY_DIRECTORY, make_environment(f, BERTH_DRIVER_LOCAL, "{}"));
}

static void trips_by_commands_alone(void **state)
{
    struct fixture *f = *state;
    (void)install_fake(f, "trips");
    sail_all(f, BY_COMMANDS, make_fake_environment(f, "trips", false));
}

static void trips_over_ssh(void **state)
{
    struct fixture *f = *state;
    if (!getenv("BERTH_TEST_SSH"))
        skip();
    sail_all(f, BY_SSH, farhost_environment(f, farhost_config(NULL)));
}

int main(int argc, char **argv)
{
    if (argc == CHILD_ARGC)
        return child_main(argv);
    const struct CMUnitTest tests[] = {
        TEST_ON_SQLITE(trips_to_a_directory),
        TEST_ON_SQLITE(trips_by_commands_alone),
        TEST_ON_SQLITE(trips_over_ssh),
    };
    return run_shard("trips of workspaces", tests);
}
