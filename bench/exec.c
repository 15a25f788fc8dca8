/* SPDX-License-Identifier: Apache-2.0
 * bench/exec.c - what a command costs through libberth, beside a bare posix_spawn with the same
 * pipes, in turn, with a small and with a large parent. Prints figures and never fails on one. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "core/exec.h"
#include "core/lease.h"
#include "ground.h"
#include "samples.h"

#define COMMAND "/bin/true"
#define LARGE_BYTES (512UL * 1024 * 1024)
#define FLIGHT_MAX 64

static const char *const argv[] = {COMMAND, NULL};

/* --- bare --- */

/* Reads both pipes to their end, as anybody has to. */
static void drain(int out, int err)
{
    struct pollfd fds[] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
    char bytes[4096];
    for (int open = 2; open;) {
        if (poll(fds, 2, -1) < 0)
            continue;
        for (int i = 0; i < 2; i++)
            if (fds[i].fd >= 0 && fds[i].revents && read(fds[i].fd, bytes, sizeof bytes) <= 0) {
                fds[i].fd = -1;
                open--;
            }
    }
}

static int run_bare(struct berth_error *err)
{
    int out[2], errs[2];
    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(errs, O_CLOEXEC) < 0)
        return berth_fail_errno(err, "pipe");
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    (void)posix_spawn_file_actions_adddup2(&actions, errs[1], 2);
    static char path[] = "PATH=/usr/bin:/bin";
    char *env[] = {path, NULL};
    pid_t pid;
    int number = posix_spawn(&pid, COMMAND, &actions, NULL, (char *const *)(uintptr_t)argv, env);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(out[1]);
    (void)close(errs[1]);
    if (number == 0) {
        drain(out[0], errs[0]);
        (void)waitpid(pid, NULL, 0);
    }
    (void)close(out[0]);
    (void)close(errs[0]);
    errno = number;
    return number ? berth_fail_errno(err, "posix_spawn") : BERTH_OK;
}

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
    (void)unlink(berth_exec_log(x));
    berth_exec_free(x);
    return BERTH_OK;
}

static int timed(const struct bench *b, bool ours, struct samples *out, struct berth_error *err)
{
    int64_t before = now_ns();
    int rc = ours ? run_ours(b, err) : run_bare(err);
    return rc < 0 ? rc : samples_add(out, now_ns() - before, err);
}

static void print_row(const char *parent, int flight, struct samples *bare, struct samples *ours)
{
    double floor_us = samples_us(bare, 50), p50 = samples_us(ours, 50);
    printf("| %-6s | %9d | %8.0f | %8.0f | %8.0f | %8.0f | %5.2fx |%s |\n", parent, flight,
           floor_us, samples_us(bare, 99), p50, samples_us(ours, 99), p50 / floor_us,
           flight > 1               ? ""
           : p50 / floor_us <= 1.25 ? " p50 <= 1.25x: met"
                                    : " p50 <= 1.25x: missed");
    (void)fflush(stdout);
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

static int measure_flight(const struct bench *b, int flight, struct berth_error *err)
{
    auto_samples bare = {0}, ours = {0};
    int rc = run_flight(b, false, flight, &bare, err);
    if (rc == BERTH_OK)
        rc = run_flight(b, true, flight, &ours, err);
    if (rc == BERTH_OK)
        print_row("small", flight, &bare, &ours);
    return rc;
}

static int measure(struct bench *b, struct berth_error *err)
{
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = b->ground.environment->id;
    int rc = berth_lease_acquire(b->ground.b, &b->ground.arena, &request, &b->lease, err);
    printf("a command, " COMMAND " (us)\n\n"
           "| parent | in flight | bare p50 |      p99 | ours p50 |      p99 |  ratio | aim |\n"
           "| ------ | --------: | -------: | -------: | -------: | -------: | -----: | --- |\n");
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
    ground_close(&b.ground);
    if (rc < 0)
        (void)fprintf(stderr, "bench-exec: %s [%s]\n", err.message, err.where);
    return rc < 0 ? 1 : 0;
}
