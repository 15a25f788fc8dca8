/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/exclusive.c - eight processes share one reusable environment, and are killed at
 * random: never do two open leases hold one place. Seen live by a lock on each place, and
 * afterwards in the activity log.
 *
 * The program starts itself again for the workers: "exclusive ENVIRONMENT CYCLES STORE DIRECTORY".
 */
#include "children.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/map.h"
#include "core/lease/node.h"
#include "inventory.h"

#define WORKERS 8
#define CYCLES_DEFAULT 500
#define CYCLES_A_KILL 8 /* about so many cycles of a worker for each kill of any */
#define VIOLATED 4

/* --- a worker --- */

/* Whoever holds a lease on the place holds this lock too; the kernel lets go of a dead one's. */
static int lock_place(const struct fixture *f, const struct berth_lease *lease)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/use-%s", f->directory,
                   lease->provider_lease_id + strlen("inventory://"));
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -1;
    return fd;
}

static int work(struct fixture *f, const char *environment_id, int cycles)
{
    struct berth_environment e = {.id = environment_id};
    child_report("node", berth_node_id(f->b->node));
    for (int i = 0; i < cycles; i++) {
        struct berth_run *run = make_run(f);
        child_report("run", run->id); /* whoever starts us again ends it */
        struct berth_lease *lease = take_lease(f, &e, run);
        int lock = lock_place(f, lease);
        if (lock < 0)
            return VIOLATED;
        if (!inventory_has(f->inventory, lease->provider_lease_id))
            return VIOLATED;
        (void)close(lock); /* before the lease goes, or the next holder meets it */
        struct berth_run_end end = {.status = i % 7 ? BERTH_RUN_SUCCEEDED : BERTH_RUN_FAILED};
        struct berth_list released;
        assert_ok(f, berth_run_finish(f->b, &f->arena, run->id, &end, &released, &f->err));
        /* By us, or by a sweep of the parent's that came between the run's end and the release. */
        assert_true(released.count <= 1);
        enum berth_lease_status status = look_at_lease(f, lease)->status;
        assert_true(status == BERTH_LEASE_RELEASING || status == BERTH_LEASE_RELEASED ||
                    status == BERTH_LEASE_FAILED);
        child_report("cycle", run->id);
        berth_arena_clear(&f->arena);
    }
    return 0;
}

static int worker_main(char **argv)
{
    struct fixture f;
    child_open(&f, argv);
    int status = work(&f, argv[CHILD_WHAT], atoi(argv[CHILD_WHICH]));
    child_close(&f);
    return status;
}

/* --- the parent --- */

struct worker {
    pid_t pid;
    int fd;
    char line[64];
    int line_len;
    char node[40], run[40]; /* the last it told of */
    int done;               /* cycles */
    bool running;
};

static void start(struct worker *w, const struct fixture *f, const char *environment_id, int cycles)
{
    char count[16];
    (void)snprintf(count, sizeof count, "%d", cycles);
    struct child child = child_start(f, environment_id, count);
    (void)fcntl(child.report_fd, F_SETFL, O_NONBLOCK);
    w->pid = child.pid;
    w->fd = child.report_fd;
    w->line_len = 0;
    w->run[0] = w->node[0] = '\0';
    w->running = true;
}

static void take_line(struct worker *w)
{
    w->line[w->line_len] = '\0';
    if (sscanf(w->line, "node %39s", w->node) != 1 && sscanf(w->line, "run %39s", w->run) != 1) {
        w->done++;
        w->run[0] = '\0';
    }
    w->line_len = 0;
}

static void hear(struct worker *w)
{
    char c;
    while (read(w->fd, &c, 1) == 1) {
        if (c == '\n')
            take_line(w);
        else if (w->line_len < (int)sizeof w->line - 1)
            w->line[w->line_len++] = c;
    }
}

/* What a supervisor does for a worker that died: its run is over, its leases go back. */
static void bury(struct fixture *f, struct worker *w)
{
    hear(w);
    (void)close(w->fd);
    w->running = false;
    if (w->node[0])
        lapse_node(f, w->node);
    if (!w->run[0])
        return;
    struct berth_run_end end = {.status = BERTH_RUN_FAILED, .error_code = "process_lost"};
    struct berth_list released;
    struct berth_error trouble; /* what is half done is the sweep's */
    (void)berth_run_finish(f->b, &f->arena, w->run, &end, &released, &trouble);
}

static void reap(struct fixture *f, struct worker *workers, bool *killed)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (int i = 0; i < WORKERS; i++) {
            if (workers[i].pid != pid)
                continue;
            bool expected = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
            if (WIFEXITED(status) && WEXITSTATUS(status) == VIOLATED)
                fail_msg("a place was held twice");
            if (!expected && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
                fail_msg("a worker ended with status 0x%x", status);
            bury(f, &workers[i]);
            *killed |= expected;
        }
    }
}

/* In the order of the log: whoever is told to have acquired a place, nobody else holds it. */
static int check_history(struct fixture *f)
{
    struct berth_activity_filter filter = {.limit = 1000000};
    struct berth_list log;
    assert_ok(f, berth_activity_list(f->b, &f->arena, &filter, &log, &f->err));
    struct berth_map holders = BERTH_MAP_INIT;
    int acquired = 0;
    for (int i = log.count - 1; i >= 0; i--) {
        const struct berth_activity *a = log.items[i];
        if (strcmp(a->entity_type, "environment_lease") != 0)
            continue;
        const char *place = json_text(f, a->details_json, "providerLeaseId");
        if (!place)
            continue;
        const char *holder = berth_map_get(&holders, place);
        if (strcmp(a->action, "environment.lease_acquired") == 0) {
            if (holder)
                fail_msg("%s was given to %s while %s held it", place, a->entity_id, holder);
            assert_true(berth_map_put(&holders, place, (void *)(uintptr_t)a->entity_id));
            acquired++;
        } else if (holder && strcmp(holder, a->entity_id) == 0) {
            (void)berth_map_remove(&holders, place);
        }
    }
    berth_map_clear(&holders);
    return acquired;
}

static void never_two_leases_on_one_place(void **state)
{
    struct fixture *f = *state;
    const char *wanted = getenv("BERTH_TEST_CYCLES");
    int cycles = wanted ? atoi(wanted) : CYCLES_DEFAULT;
    struct berth_environment *e = make_environment(
        f, BERTH_DRIVER_SANDBOX, "{\"provider\":\"inventory\",\"reuseLease\":true}");
    struct worker workers[WORKERS] = {0};
    unsigned seed = test_seed();
    print_message("# seed %u\n", seed);
    int kills = 0, running = WORKERS;
    while (running) {
        running = 0;
        for (int i = 0; i < WORKERS; i++) {
            struct worker *w = &workers[i];
            if (!w->running && w->done < cycles)
                start(w, f, e->id, cycles - w->done);
            if (w->running)
                hear(w);
            running += w->running;
        }
        if (kills < cycles / CYCLES_A_KILL && running && rand_r(&seed) % 3 == 0) {
            struct worker *victim = &workers[rand_r(&seed) % WORKERS];
            if (victim->running && victim->node[0]) {
                (void)kill(victim->pid, SIGKILL);
                kills++;
            }
        }
        struct timespec pause = {.tv_nsec = 10000000 + rand_r(&seed) % 20000000};
        (void)nanosleep(&pause, NULL); /* the random moment of the next kill */
        bool killed = false;
        reap(f, workers, &killed);
        if (killed)
            (void)sweep(f);
    }
    int done = 0;
    for (int i = 0; i < WORKERS; i++)
        done += workers[i].done;
    assert_int_equal(done, WORKERS * cycles);
    (void)sweep(f);
    (void)sweep(f);
    check_invariants(f);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases WHERE status IN"
                                   " ('acquiring', 'active', 'releasing')"),
                     0);
    int acquired = check_history(f);
    assert_true(acquired >= done);
    print_message("# %d cycles, %d leases in the log, %d kills\n", done, acquired, kills);
}

int main(int argc, char **argv)
{
    if (argc == CHILD_ARGC)
        return worker_main(argv);
    const struct CMUnitTest tests[] = {
        TEST_ON_BOTH(never_two_leases_on_one_place),
    };
    return run_shard("exclusive", tests);
}
