/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/run.c - see run.h. */
#include "core/run/run.h"

#include <stdio.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "base/utf8.h"
#include "core/lease/lease.h"
#include "core/lease/node.h"
#include "core/run/exec_rows.h"
#include "core/run/foreign_machine.h"
#include "os/runtime.h"
#include "store/company.h"
#include "store/secret.h"
#include "store/store.h"

struct work {
    struct berth_arena *arena;
    const char *id;
    const struct berth_run_end *end;
    struct berth_run *run;
};

const char *berth_run_id(const struct berth_run *run)
{
    return run->id;
}

const char *berth_run_company_id(const struct berth_run *run)
{
    return run->company_id;
}

enum berth_run_status berth_run_status(const struct berth_run *run)
{
    return run->status;
}

/* Writes the fields without the braces around them. */
static void put_fields(struct berth_json_writer *w, const struct berth_run *r)
{
    berth_json_put_str(w, "id", r->id);
    berth_json_put_str(w, "companyId", r->company_id);
    berth_json_put_str(w, "environmentId", r->environment_id);
    berth_json_put_str(w, "status", berth_run_statuses.names[r->status]);
    berth_json_put_str(w, "error", r->error);
    berth_json_put_str(w, "errorCode", r->error_code);
    berth_json_put_time(w, "startedAt", r->started_at_ms);
    berth_json_put_time(w, "finishedAt", r->finished_at_ms);
    berth_json_put_time(w, "createdAt", r->created_at_ms);
    berth_json_put_time(w, "updatedAt", r->updated_at_ms);
    berth_json_put_raw(w, "workspace", r->workspace_json);
}

void berth_run_json(struct berth_json_writer *w, const struct berth_run *r)
{
    berth_json_open(w, '{');
    put_fields(w, r);
    berth_json_close(w, '}');
}

void berth_run_json_with_diff(struct berth_json_writer *w, const struct berth_run *r)
{
    berth_json_open(w, '{');
    put_fields(w, r);
    berth_json_put_foreign(w, "workspaceDiff", r->workspace_diff);
    berth_json_close(w, '}');
}

const char *berth_run_to_json(struct berth_arena *arena, const struct berth_run *run)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    berth_run_json(&(struct berth_json_writer){.buf = &buf}, run);
    return berth_arena_strdup(arena, berth_buf_str(&buf));
}

struct listing {
    struct berth_arena *arena;
    const struct berth_run_filter *filter;
    struct berth_list *out;
};

static int tx_list(struct berth_db *db, void *ctx, struct berth_error *err)
{
    const struct listing *listing = ctx;
    return berth_run_select(db, listing->arena, listing->filter, listing->out, err);
}

int berth_run_list(struct berth *b, struct berth_arena *arena,
                   const struct berth_run_filter *filter, struct berth_list *out,
                   struct berth_error *err)
{
    struct berth_run_filter full = *filter;
    if (!full.company_id)
        full.company_id = b->company_id;
    *out = (struct berth_list){0};
    struct listing listing = {.arena = arena, .filter = &full, .out = out};
    return berth_id_valid(full.company_id) ? berth_store_read(b->store, tx_list, &listing, err)
                                           : BERTH_OK;
}

static int not_found(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_NOT_FOUND, "Run not found");
}

static int tx_create(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct work *work = ctx;
    struct berth_company *company;
    int rc = berth_company_by_id(db, work->arena, work->run->company_id, &company, err);
    if (rc == BERTH_OK && !company)
        rc = berth_fail(err, BERTH_E_NOT_FOUND, "Company not found");
    return rc < 0 ? rc : berth_run_insert(db, work->run, err);
}

/* `as` has what the caller says of it; the rest is filled in. */
static int run_create(struct berth *b, struct berth_arena *arena, const struct berth_run *as,
                      struct berth_run **out, struct berth_error *err)
{
    if (as->company_id && !berth_id_valid(as->company_id))
        return berth_fail(err, BERTH_E_NOT_FOUND, "Company not found");
    if (as->id && !berth_id_valid(as->id))
        return berth_fail(err, BERTH_E_INVALID, "The id of a run is a UUID.");
    struct berth_run *run = berth_arena_alloc(arena, sizeof *run);
    if (!run)
        return berth_arena_check(arena, err);
    struct berth_id id = berth_id_new_random();
    int64_t now = berth_time_wall_ms();
    *run = (struct berth_run){
        .id = berth_arena_strdup(arena, as->id ? as->id : id.text),
        .company_id = berth_arena_strdup(arena, as->company_id ? as->company_id : b->company_id),
        .environment_id = berth_arena_strdup(arena, as->environment_id),
        .status = BERTH_RUN_RUNNING,
        .owner = as->owner,
        .started_at_ms = now,
        .created_at_ms = now,
        .updated_at_ms = now,
    };
    int rc = berth_arena_check(arena, err);
    if (rc < 0)
        return rc;
    struct work work = {.arena = arena, .run = run};
    rc = berth_store_tx(b->store, tx_create, &work, err);
    if (rc == BERTH_OK)
        *out = run;
    return rc;
}

int berth_run_create(struct berth *b, struct berth_arena *arena, const char *company_id,
                     struct berth_run **out, struct berth_error *err)
{
    return run_create(b, arena, &(struct berth_run){.company_id = company_id}, out, err);
}

int berth_run_create_own(struct berth *b, struct berth_arena *arena, const char *id,
                         const char *company_id, const char *environment_id, struct berth_run **out,
                         struct berth_error *err)
{
    struct berth_run as = {.id = id,
                           .company_id = company_id,
                           .environment_id = environment_id,
                           .owner = berth_node_id(b->node)};
    return run_create(b, arena, &as, out, err);
}

static int tx_get(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct work *work = ctx;
    return berth_run_load(db, work->arena, work->id, &work->run, err);
}

int berth_run_get(struct berth *b, struct berth_arena *arena, const char *id,
                  struct berth_run **out, struct berth_error *err)
{
    struct berth_id parsed;
    if (berth_id_parse(id, "Run", &parsed, err) < 0)
        return not_found(err);
    struct work work = {.arena = arena, .id = parsed.text};
    int rc = berth_store_read(b->store, tx_get, &work, err);
    if (rc == BERTH_OK && !work.run)
        rc = not_found(err);
    if (rc == BERTH_OK)
        *out = work.run;
    return rc;
}

static int tx_finish(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct work *work = ctx;
    int rc = berth_run_load(db, work->arena, work->id, &work->run, err);
    if (rc < 0)
        return rc;
    if (!work->run)
        return not_found(err);
    if (berth_run_ended((int)work->run->status))
        return BERTH_OK;
    struct berth_run *run = work->run;
    if (run->owner) /* what it might read of secrets */
        rc = berth_binding_remove_all(db, run->company_id, "run", run->id, err);
    if (rc < 0)
        return rc;
    run->status = work->end->status;
    run->error = work->end->error;
    run->error_code = work->end->error_code;
    run->workspace_json = work->end->workspace_json;
    run->workspace_diff = work->end->workspace_diff;
    run->finished_at_ms = run->updated_at_ms = berth_time_wall_ms();
    bool won; /* a lost race means that it has ended: that end stays */
    return berth_run_save(db, run, &won, err);
}

/* --- runs whose process is gone --- */

static int tx_performed(struct berth_db *db, void *ctx, struct berth_error *err)
{
    const struct listing *listing = ctx;
    return berth_run_select_performed(db, listing->arena, listing->out, err);
}

/* Sets *lost to whether nothing on this machine performs the run any more. */
static int judge_performed(struct berth *b, struct berth_arena *arena, const struct berth_run *run,
                           bool *lost, struct berth_error *err)
{
    struct work now = {.arena = arena, .id = run->id};
    bool at_work;
    const char *machine;
    int rc = berth_node_at_work(b->node, run->owner, run->id, 0, &at_work, err);
    if (rc < 0 || at_work)
        return rc;
    rc = berth_store_read(b->store, tx_get, &now, err);
    if (rc < 0 || !now.run || berth_run_ended((int)now.run->status))
        return rc; /* its process has ended the run since it was listed */
    rc = berth_foreign_machine_of_run(b, arena, run, &machine, err);
    if (rc == BERTH_OK &&
        machine) /* its leases stay open, too: they follow the run or a deadline */
        berth_foreign_machine_tell(b, machine, "runId", run->id);
    *lost = rc == BERTH_OK && !machine;
    return rc;
}

static int end_lost_run(struct berth *b, struct berth_arena *arena, const char *id,
                        struct berth_error *err)
{
    static const struct berth_run_end lost = {.status = BERTH_RUN_FAILED,
                                              .error = "The process that ran it is gone.",
                                              .error_code = "process_lost"};
    char socket[BERTH_RUNTIME_SOCKET_SIZE];
    if (berth_runtime_socket(id, socket, err) == BERTH_OK)
        (void)unlink(socket);
    struct work work = {.arena = arena, .id = id, .end = &lost};
    int rc = berth_store_tx(b->store, tx_finish, &work, err);
    if (rc == BERTH_OK)
        berth_log_line(&b->log, BERTH_LOG_WARN, "run of a dead process ended", "runId", id, NULL);
    return rc;
}

/* Ends the processes of all lost runs, then the runs. */
static int end_lost_runs(struct berth *b, struct berth_arena *arena, const struct berth_list *lost,
                         int *count, struct berth_error *err)
{
    struct berth_list labels = {0};
    for (int i = 0; i < lost->count; i++)
        (void)berth_list_add(&labels, arena,
                             berth_arena_printf(arena, "BERTH_RUN_ID=%s",
                                                ((const struct berth_run *)lost->items[i])->id));
    int rc = berth_exec_rows_end_labelled(b, arena, &labels, err);
    for (int i = 0; rc == BERTH_OK && i < lost->count; i++) {
        rc = end_lost_run(b, arena, ((const struct berth_run *)lost->items[i])->id, err);
        *count += rc == BERTH_OK;
    }
    return rc;
}

int berth_run_end_lost(struct berth *b, struct berth_arena *arena, int *count,
                       struct berth_error *err)
{
    struct berth_list performed = {0}, lost = {0};
    struct listing listing = {.arena = arena, .out = &performed};
    *count = 0;
    int rc = berth_store_read(b->store, tx_performed, &listing, err);
    for (int i = 0; i < performed.count; i++) { /* one that cannot be judged now is judged later */
        bool is_lost = false;
        struct berth_error trouble;
        if (judge_performed(b, arena, performed.items[i], &is_lost, &trouble) < 0 &&
            rc == BERTH_OK) {
            rc = trouble.code;
            *err = trouble;
        }
        if (is_lost)
            (void)berth_list_add(&lost, arena, performed.items[i]);
    }
    struct berth_error trouble;
    int ended = end_lost_runs(b, arena, &lost, count, &trouble);
    if (ended < 0 && rc == BERTH_OK)
        *err = trouble;
    return rc < 0 ? rc : ended;
}

enum berth_lease_status berth_run_lease_status(int run_status)
{
    return run_status == BERTH_RUN_FAILED || run_status == BERTH_RUN_TIMED_OUT
               ? BERTH_LEASE_FAILED
               : BERTH_LEASE_RELEASED;
}

int berth_run_finish(struct berth *b, struct berth_arena *arena, const char *id,
                     const struct berth_run_end *end, struct berth_list *released,
                     struct berth_error *err)
{
    struct berth_id parsed;
    if (berth_id_parse(id, "Run", &parsed, err) < 0)
        return not_found(err);
    if (!berth_run_ended((int)end->status))
        return berth_fail(err, BERTH_E_INVALID,
                          "A run ends as succeeded, failed, cancelled or timed_out.");
    int rc = end->error_code ? berth_utf8_check_id(end->error_code, "errorCode", err) : BERTH_OK;
    if (rc < 0)
        return rc;
    /* The text may be what some place said. */
    struct berth_run_end mended = *end;
    char *text = berth_arena_strdup(arena, end->error);
    rc = berth_arena_check(arena, err);
    if (rc < 0)
        return rc;
    if (text)
        berth_utf8_mend(text);
    mended.error = text;
    struct work work = {.arena = arena, .id = parsed.text, .end = &mended};
    rc = berth_store_tx(b->store, tx_finish, &work, err);
    if (rc < 0)
        return rc;
    BERTH_FAILPOINT(run_after_end);
    struct berth_release_request request = {.status = berth_run_lease_status((int)work.run->status),
                                            .actor = end->actor};
    return berth_lease_release_run(b, arena, work.run->id, &request, released, err);
}
