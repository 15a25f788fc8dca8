/* SPDX-License-Identifier: Apache-2.0
 * bench/exec.c - what a command costs through libberth, beside a bare posix_spawn with the same
 * pipes, in turn, with a small and with a large parent; and, under tests/with-sshd, over SSH beside
 * ssh -S on one master. Prints figures and never fails on one. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bare.h"
#include "base/auto.h"
#include "base/issues.h"
#include "base/json.h"
#include "core/environment/environment.h"
#include "core/lease/lease.h"
#include "core/run/exec.h"
#include "ground.h"
#include "samples.h"

#define COMMAND "/bin/true"
#define LARGE_BYTES (512UL * 1024 * 1024)
#define FLIGHT_MAX 64
#define FLIGHT_TURNS 10

static const char *const argv[] = {COMMAND, NULL};

/* --- bare --- */

/* What stands beside ours: the command itself, or ssh on a master. */
static const char *const *bare_argv = argv;
static const char *bare_file = COMMAND;

/* --- through libberth --- */

struct bench {
    struct ground ground;
    struct berth_lease *lease;
    int rounds;
};

static int run_ours(const struct bench *b, struct berth_error *err)
{
    struct berth_exec_request request = BERTH_EXEC_REQUEST_INIT;
    request.lease_id = b->lease->id;
    request.argv = argv;
    struct berth_exec *x;
    int rc = berth_exec_start(b->ground.b, &request, NULL, &x, err);
    if (rc < 0)
        return rc;
    struct berth_exec_end end;
    berth_exec_wait(x, &end);
    berth_exec_free(x); /* its log stays, as it does for others */
    return BERTH_OK;
}

static int timed(const struct bench *b, bool ours, struct samples *out, struct berth_error *err)
{
    int64_t before = now_ns();
    int rc = ours ? run_ours(b, err) : run_bare(bare_file, bare_argv, err);
    return rc < 0 ? rc : samples_add(out, now_ns() - before, err);
}

static double aim = 1.25;

static void print_row(const char *parent, int flight, struct samples *bare, struct samples *ours)
{
    double floor_us = samples_us(bare, 50), p50 = samples_us(ours, 50);
    printf("| %-6s | %9d | %8.0f | %8.0f | %8.0f | %8.0f | %5.2fx | %7.2fx |", parent, flight,
           floor_us, samples_us(bare, 99), p50, samples_us(ours, 99), p50 / floor_us,
           samples_mean_us(ours) / samples_mean_us(bare));
    if (flight == 1)
        printf(" p50 <= %.3gx: %s", aim, p50 / floor_us <= aim ? "met" : "missed");
    printf(" |\n");
    (void)fflush(stdout);
}

static void print_heading(const char *what)
{
    printf("%s (us)\n\n"
           "| parent | in flight | bare p50 |      p99 | ours p50 |      p99 |  ratio | of means | "
           "aim |\n"
           "| ------ | --------: | -------: | -------: | -------: | -------: | -----: | -------: | "
           "--- |\n",
           what);
}

static int measure_one(const struct bench *b, const char *parent, struct berth_error *err)
{
    auto_samples bare = {0}, ours = {0}, warm = {0};
    int rc = BERTH_OK;
    for (int i = 0; rc == BERTH_OK && i < 20; i++)
        rc = timed(b, i % 2, &warm, err);
    for (int i = 0; rc == BERTH_OK && i < b->rounds; i++) {
        rc = timed(b, false, &bare, err);
        if (rc == BERTH_OK)
            rc = timed(b, true, &ours, err);
    }
    if (rc == BERTH_OK)
        print_row(parent, 1, &bare, &ours);
    return rc;
}

/* --- several at once --- */

struct worker {
    const struct bench *bench;
    bool ours;
    pthread_t thread;
    struct samples samples;
    int rc;
    struct berth_error err;
};

static void *work(void *ctx)
{
    struct worker *w = ctx;
    for (int i = 0; w->rc == BERTH_OK && i < 20; i++)
        w->rc = timed(w->bench, w->ours, &w->samples, &w->err);
    return NULL;
}

static int run_flight(const struct bench *b, bool ours, int flight, struct samples *out,
                      struct berth_error *err)
{
    static struct worker workers[FLIGHT_MAX];
    int rc = BERTH_OK, started = 0;
    memset(workers, 0, sizeof workers);
    for (; started < flight; started++) {
        workers[started].bench = b;
        workers[started].ours = ours;
        if (pthread_create(&workers[started].thread, NULL, work, &workers[started]) != 0)
            break;
    }
    for (int i = 0; i < started; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        if (rc == BERTH_OK && workers[i].rc < 0) {
            rc = workers[i].rc;
            *err = workers[i].err;
        }
        if (rc == BERTH_OK)
            rc = samples_add_all(out, &workers[i].samples, err);
        samples_clear(&workers[i].samples);
    }
    return rc;
}

/* In turns, so that noise meets both sides alike. */
static int measure_flight(const struct bench *b, int flight, struct berth_error *err)
{
    auto_samples bare = {0}, ours = {0};
    int rc = BERTH_OK;
    for (int turn = 0; rc == BERTH_OK && turn < FLIGHT_TURNS; turn++) {
        rc = run_flight(b, false, flight, &bare, err);
        if (rc == BERTH_OK)
            rc = run_flight(b, true, flight, &ours, err);
    }
    if (rc == BERTH_OK)
        print_row("small", flight, &bare, &ours);
    return rc;
}

static int measure(struct bench *b, struct berth_error *err)
{
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = b->ground.environment->id;
    int rc = berth_lease_acquire(b->ground.b, &b->ground.arena, &request, &b->lease, err);
    print_heading("a command, " COMMAND);
    if (rc == BERTH_OK)
        rc = measure_one(b, "small", err);
    if (rc == BERTH_OK)
        rc = measure_flight(b, 16, err);
    if (rc == BERTH_OK)
        rc = measure_flight(b, FLIGHT_MAX, err);
    char *large = rc == BERTH_OK ? malloc(LARGE_BYTES) : NULL;
    if (large) {
        for (size_t i = 0; i < LARGE_BYTES; i += 4096)
            large[i] = 1; /* really there */
        rc = measure_one(b, "512 MB", err);
        free(large);
    }
    return rc;
}

/* --- over SSH --- */

/* One line of a file beside the server's key. */
static int read_word(const char *directory, const char *name, char *out, size_t size)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, out, size - 1) : -1;
    out[len > 0 ? len : 0] = '\0';
    if (strcmp(name, "port") == 0 || strcmp(name, "user") == 0)
        out[strcspn(out, "\n")] = '\0';
    return len > 0 ? 0 : -1;
}

struct far {
    char port[16], user[64], key[4096], hosts[4096], control[300];
    const char *argv[16];
};

/* A master of our own for the bare side; it is ended by ssh -O exit. */
static int open_master(const char *directory, struct far *far, struct berth_error *err)
{
    char command[1400];
    (void)snprintf(far->control, sizeof far->control, "%s/bench.sock", directory);
    (void)snprintf(command, sizeof command,
                   "ssh -MNf -S %s -i %s/key -o BatchMode=yes -o IdentitiesOnly=yes"
                   " -o UserKnownHostsFile=%s/known_hosts -p %s -l %s -- 127.0.0.1",
                   far->control, directory, directory, far->port, far->user);
    if (system(command) != 0)
        return berth_fail(err, BERTH_E_UNAVAILABLE, "ssh made no connection");
    const char *const words[] = {"ssh", "-F", "none", "-S",    far->control,
                                 "-T",  "--", "far",  COMMAND, NULL};
    memcpy(far->argv, words, sizeof words);
    bare_argv = far->argv;
    bare_file = "/usr/bin/ssh";
    return BERTH_OK;
}

static int make_far(struct bench *b, const char *directory, struct far *far,
                    struct berth_error *err)
{
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    struct berth_issues issues = {.arena = &b->ground.arena};
    auto_buf config = BERTH_BUF_INIT(16384);
    struct berth_json_writer w = {.buf = &config};
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "host", "127.0.0.1");
    berth_json_put_str(&w, "port", far->port);
    berth_json_put_str(&w, "username", far->user);
    berth_json_put_str(&w, "remoteWorkspacePath",
                       berth_arena_printf(&b->ground.arena, "%s/workspace", directory));
    berth_json_put_str(&w, "privateKey", far->key);
    berth_json_put_str(&w, "knownHosts", far->hosts);
    berth_json_close(&w, '}');
    input.name = "far";
    input.driver = BERTH_DRIVER_SSH;
    input.config_json = berth_buf_str(&config);
    struct berth_environment *e;
    int rc = berth_environment_create(b->ground.b, &b->ground.arena, &input, &issues, &e, err);
    if (rc < 0)
        return rc;
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = e->id;
    return berth_lease_acquire(b->ground.b, &b->ground.arena, &request, &b->lease, err);
}

static int measure_far(struct bench *b, const char *directory, struct berth_error *err)
{
    struct far far = {0};
    char command[400];
    if (read_word(directory, "port", far.port, sizeof far.port) < 0 ||
        read_word(directory, "user", far.user, sizeof far.user) < 0 ||
        read_word(directory, "key", far.key, sizeof far.key) < 0 ||
        read_word(directory, "known_hosts", far.hosts, sizeof far.hosts) < 0)
        return berth_fail(err, BERTH_E_NOT_FOUND, "there is no server at %s", directory);
    int rc = make_far(b, directory, &far, err);
    if (rc == BERTH_OK)
        rc = open_master(directory, &far, err);
    if (rc < 0)
        return rc;
    aim = 1.3;
    printf("\n");
    print_heading("over SSH, beside ssh -S on one master: " COMMAND);
    rc = measure_one(b, "small", err);
    if (rc == BERTH_OK)
        rc = measure_flight(b, 8, err); /* a bare master takes no more than ten */
    (void)snprintf(command, sizeof command, "ssh -q -S %s -O exit far 2>/dev/null", far.control);
    (void)!system(command);
    struct berth_release_request release = {.lease_id = b->lease->id,
                                            .status = BERTH_LEASE_RELEASED};
    struct berth_lease *released;
    return rc < 0 ? rc
                  : berth_lease_release(b->ground.b, &b->ground.arena, &release, &released, err);
}

int main(int argc, char **args)
{
    berth_builtins.tune_process();
    const char *tmp = getenv("TMPDIR");
    struct bench b = {.rounds = argc > 1 && strcmp(args[1], "--quick") == 0 ? 100 : 600};
    struct berth_error err = {0};
    int rc = ground_open(&b.ground, ON_SQLITE, tmp && *tmp ? tmp : "/tmp", NULL, BERTH_DRIVER_LOCAL,
                         &err);
    if (rc == BERTH_OK)
        rc = measure(&b, &err);
    const char *server = getenv("BERTH_TEST_SSH");
    if (rc == BERTH_OK && server)
        rc = measure_far(&b, server, &err);
    ground_close(&b.ground);
    if (rc < 0)
        (void)fprintf(stderr, "bench-exec: %s [%s]\n", err.message, err.where);
    return rc < 0 ? 1 : 0;
}
