/* SPDX-License-Identifier: Apache-2.0
 * examples/embed.c - a program that uses libberth without a daemon: it takes a lease for one run.
 *
 *   cc embed.c $(pkg-config --cflags --libs berth) -o embed && ./embed sqlite:/tmp/demo/berth.db */
#include <berth/berth.h>
#include <stdio.h>

static void log_line(void *ctx, enum berth_log_level level, const char *line)
{
    (void)level;
    fprintf(ctx, "%s\n", line);
}

/* Acquires a lease, uses its place, and releases it whether that succeeded or not. */
static int work(struct berth *b, struct berth_arena *arena, struct berth_error *err)
{
    struct berth_environment *environment;
    struct berth_run *run;
    struct berth_lease *lease;
    int rc = berth_environment_ensure_local(b, arena, NULL, &environment, err);
    if (rc == BERTH_OK)
        rc = berth_run_create(b, arena, NULL, &run, err);
    if (rc < 0)
        return rc;

    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = berth_environment_id(environment);
    request.run_id = berth_run_id(run);
    request.ttl_ms = 60 * 60 * 1000;
    rc = berth_lease_acquire(b, arena, &request, &lease, err);
    if (rc < 0)
        return rc;
    printf("lease %s in \"%s\" is %s\n", berth_lease_id(lease), berth_environment_name(environment),
           berth_lease_status_name(berth_lease_status(lease)));

    struct berth_workspace workspace = {.local_path = "/tmp"};
    struct berth_realized where;
    rc = berth_lease_realize(b, arena, berth_lease_id(lease), &workspace, &where, err);
    if (rc == BERTH_OK)
        printf("the workspace is %s\n", where.cwd);

    /* Ends the run and releases its lease. After a crash, the sweep does so when it expires. */
    struct berth_run_end end = {.status = rc < 0 ? BERTH_RUN_FAILED : BERTH_RUN_SUCCEEDED};
    struct berth_list released;
    struct berth_error trouble;
    if (berth_run_finish(b, arena, berth_run_id(run), &end, &released, &trouble) < 0) {
        fprintf(stderr, "embed: the lease is not released yet: %s\n", trouble.message);
    } else if (released.count == 1) {
        lease = released.items[0];
        printf("lease %s is %s\n", berth_lease_id(lease),
               berth_lease_status_name(berth_lease_status(lease)));
    }
    return rc;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: embed sqlite:PATH | postgres://user@host/db\n");
        return 2;
    }
    struct berth_error err;
    struct berth_options options = BERTH_OPTIONS_INIT;
    options.store = argv[1];
    options.log = (struct berth_log){log_line, stderr, BERTH_LOG_WARN};
    struct berth *b;
    if (berth_open(&options, &b, &err) < 0) {
        fprintf(stderr, "embed: %s\n", err.message);
        return 1;
    }
    printf("berth %s\n", berth_version());

    struct berth_arena *arena = berth_arena_new();
    int rc = arena ? work(b, arena, &err) : berth_fail(&err, BERTH_E_NO_MEMORY, "Out of memory.");
    if (rc < 0)
        fprintf(stderr, "embed: %s (%s)\n", err.message, berth_code_wire(err.code));

    /* Cleans up after others: expired leases, dead processes, failed clean-up. */
    struct berth_sweep_options sweep = BERTH_SWEEP_OPTIONS_INIT;
    struct berth_sweep_report report;
    if (rc == BERTH_OK && berth_sweep(b, &sweep, &report, &err) == BERTH_OK)
        printf("%d place%s left to be cleaned up\n", report.owed,
               report.owed == 1 ? " is" : "s are");
    berth_arena_free(arena);
    berth_close(b);
    return rc < 0;
}
