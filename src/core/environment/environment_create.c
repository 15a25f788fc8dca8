/* SPDX-License-Identifier: Apache-2.0
 * src/core/environment/environment_create.c - creates environments, and drafts of environments that
 * are only probed. */
#include <string.h>

#include "base/id.h"
#include "base/time.h"
#include "core/environment/environment_change.h"
#include "store/company.h"
#include "store/store.h"

static int tx_create(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct berth_environment_change *c = ctx;
    struct berth_company *company;
    int rc = berth_company_by_id(db, c->arena, c->environment->company_id, &company, err);
    if (rc == BERTH_OK && !company)
        rc = berth_fail(err, BERTH_E_NOT_FOUND, "Company not found");
    if (rc == BERTH_OK)
        rc = berth_environment_refuse_second_local(db, c, err);
    if (rc == BERTH_OK)
        rc = berth_environment_insert(db, c->environment, err);
    if (rc == BERTH_OK)
        rc = berth_environment_store_secrets(db, c, err);
    if (rc == BERTH_OK)
        rc = berth_activity_of_environment(db, c->environment, "environment.created",
                                           c->input->actor, c->details_json, err);
    return rc;
}

static const char *new_id(struct berth_arena *arena)
{
    struct berth_id id = berth_id_new();
    return berth_arena_strdup(arena, id.text);
}

static int new_environment(struct berth_environment_change *c, struct berth_error *err)
{
    const struct berth_environment_input *in = c->input;
    struct berth_environment *e = berth_arena_alloc(c->arena, sizeof *e);
    if (!e)
        return berth_arena_check(c->arena, err);
    int64_t now = berth_time_wall_ms();
    *e = (struct berth_environment){
        .id = new_id(c->arena),
        .company_id =
            berth_arena_strdup(c->arena, in->company_id ? in->company_id : c->b->company_id),
        .name = berth_arena_strdup(c->arena, in->name),
        .description = berth_arena_strdup(c->arena, in->description),
        .driver = in->driver,
        .status = in->fields & BERTH_FIELD_STATUS ? in->status : BERTH_ENVIRONMENT_ACTIVE,
        .created_at_ms = now,
        .updated_at_ms = now,
    };
    c->environment = e;
    return berth_arena_check(c->arena, err);
}

int berth_environment_create(struct berth *b, struct berth_arena *arena,
                             const struct berth_environment_input *input,
                             struct berth_issues *issues, struct berth_environment **out,
                             struct berth_error *err)
{
    struct berth_environment_input in = *input;
    in.fields |= BERTH_FIELD_NAME;
    struct berth_environment_change c = {.b = b, .arena = arena, .input = &in};
    int rc = berth_environment_change_begin(&c, err);
    if (rc == BERTH_OK && in.company_id && !berth_id_valid(in.company_id))
        rc = berth_fail(err, BERTH_E_NOT_FOUND, "Company not found");
    if (rc == BERTH_OK)
        rc = new_environment(&c, err);
    if (rc == BERTH_OK)
        rc = berth_environment_change_config(&c, c.config, issues, err);
    if (rc == BERTH_OK)
        rc = berth_environment_change_metadata(&c, err);
    if (rc == BERTH_OK)
        rc = berth_environment_details(c.arena, c.environment, &c.details_json, err);
    if (rc == BERTH_OK)
        rc = berth_store_tx(b->store, tx_create, &c, err);
    berth_environment_change_end(&c);
    if (rc == BERTH_OK)
        *out = c.environment;
    return rc;
}

/* --- trying without creating --- */

static int tx_draft(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct berth_environment_change *c = ctx;
    int rc = berth_environment_insert(db, c->environment, err);
    if (rc == BERTH_OK)
        rc = berth_environment_store_secrets(db, c, err);
    return rc < 0 ? rc : c->draft->also(db, c->draft->ctx, err);
}

int berth_environment_draft(struct berth *b, struct berth_arena *arena,
                            const struct berth_environment_input *input,
                            const struct berth_draft *draft, struct berth_issues *issues,
                            struct berth_error *err)
{
    struct berth_environment_input in = *input;
    in.fields |= BERTH_FIELD_NAME;
    in.use = BERTH_CONFIG_PROBE;
    in.name = in.name ? in.name : "unsaved";
    struct berth_environment_change c = {.b = b, .arena = arena, .input = &in, .draft = draft};
    bool stored = false;
    int rc = berth_environment_change_begin(&c, err);
    if (rc == BERTH_OK)
        rc = new_environment(&c, err);
    if (rc == BERTH_OK)
        rc = berth_environment_change_config(&c, c.config, issues, err);
    if (rc == BERTH_OK) {
        c.environment->status = BERTH_ENVIRONMENT_ARCHIVED;
        c.environment->deleting = true;
        c.environment->created_at_ms = 0;
        rc = draft->ready(draft->ctx, c.environment, &stored, err);
    }
    if (rc == BERTH_OK && stored)
        rc = berth_store_tx(b->store, tx_draft, &c, err);
    berth_environment_change_end(&c);
    return rc;
}

int berth_environment_ensure_local(struct berth *b, struct berth_arena *arena,
                                   const char *company_id, struct berth_environment **out,
                                   struct berth_error *err)
{
    struct berth_environment_filter filter = BERTH_ENVIRONMENT_FILTER_INIT;
    filter.company_id = company_id;
    filter.driver = BERTH_DRIVER_DEFAULT;
    for (int tries = 0; tries < 2; tries++) {
        struct berth_list list;
        int rc = berth_environment_list(b, arena, &filter, &list, err);
        if (rc < 0)
            return rc;
        if (list.count) {
            *out = list.items[0];
            return BERTH_OK;
        }
        struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
        input.company_id = company_id;
        input.name = "Local";
        input.description = "Default execution environment for Paperclip runs on this machine.";
        input.driver = BERTH_DRIVER_DEFAULT;
        input.metadata_json = "{\"managedByPaperclip\":true,\"defaultForCompany\":true}";
        struct berth_issues issues = {.arena = arena};
        rc = berth_environment_create(b, arena, &input, &issues, out, err);
        if (rc != BERTH_E_CONFLICT) /* else another process was faster: use its environment */
            return rc;
    }
    return berth_fail(err, BERTH_E_INTERNAL, "Failed to ensure local environment");
}
