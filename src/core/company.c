/* SPDX-License-Identifier: Apache-2.0
 * src/core/company.c - see company.h. */
#include "core/company.h"

#include <string.h>

#include "base/buf.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "base/utf8.h"
#include "core/activity.h"
#include "store/store.h"

struct work {
    struct berth_arena *arena;
    const struct berth_actor *actor;
    const char *id;
    struct berth_company *company;
    struct berth_list *list;
    const struct berth_page *page;
};

const char *berth_company_id(const struct berth_company *company)
{
    return company->id;
}

const char *berth_company_name(const struct berth_company *company)
{
    return company->name;
}

void berth_company_json(struct berth_json_writer *w, const struct berth_company *c)
{
    berth_json_open(w, '{');
    berth_json_put_str(w, "id", c->id);
    berth_json_put_str(w, "name", c->name);
    berth_json_put_time(w, "createdAt", c->created_at_ms);
    berth_json_put_time(w, "updatedAt", c->updated_at_ms);
    berth_json_close(w, '}');
}

const char *berth_company_to_json(struct berth_arena *arena, const struct berth_company *company)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    berth_company_json(&(struct berth_json_writer){.buf = &buf}, company);
    return berth_arena_strdup(arena, berth_buf_str(&buf));
}

static int tx_create(struct berth_db *db, void *ctx, struct berth_error *err)
{
    const struct work *work = ctx;
    const struct berth_company *c = work->company;
    struct berth_company *there;
    int rc = berth_company_insert(db, c, err);
    if (rc == BERTH_OK)
        rc = berth_company_by_name(db, work->arena, c->name, &there, err);
    if (rc == BERTH_OK && (!there || strcmp(there->id, c->id) != 0))
        rc = berth_fail(err, BERTH_E_CONFLICT, "Company already exists: %s", c->name);
    struct berth_entity entity = {c->id, "company", c->id};
    return rc < 0 ? rc : berth_activity_of(db, &entity, "company.created", work->actor, "{}", err);
}

int berth_company_create(struct berth *b, struct berth_arena *arena, const char *name,
                         const struct berth_actor *actor, struct berth_company **out,
                         struct berth_error *err)
{
    int rc = berth_utf8_check_name(name, "A company", err);
    if (rc < 0)
        return rc;
    struct berth_company *company = berth_arena_alloc(arena, sizeof *company);
    if (!company)
        return berth_arena_check(arena, err);
    struct berth_id id = berth_id_new();
    int64_t now = berth_time_wall_ms();
    *company = (struct berth_company){.id = berth_arena_strdup(arena, id.text),
                                      .name = berth_arena_strdup(arena, name),
                                      .created_at_ms = now,
                                      .updated_at_ms = now};
    rc = berth_arena_check(arena, err);
    struct work work = {.arena = arena, .actor = actor, .company = company};
    if (rc == BERTH_OK)
        rc = berth_store_tx(b->store, tx_create, &work, err);
    if (rc == BERTH_OK)
        *out = company;
    return rc;
}

static int tx_get(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct work *work = ctx;
    int rc = berth_company_by_id(db, work->arena, work->id, &work->company, err);
    if (rc == BERTH_OK && !work->company)
        rc = berth_fail(err, BERTH_E_NOT_FOUND, "Company not found");
    return rc;
}

int berth_company_get(struct berth *b, struct berth_arena *arena, const char *id,
                      struct berth_company **out, struct berth_error *err)
{
    struct berth_id parsed;
    if (berth_id_parse(id, "Company", &parsed, err) < 0)
        return berth_fail(err, BERTH_E_NOT_FOUND, "Company not found");
    struct work work = {.arena = arena, .id = parsed.text};
    int rc = berth_store_read(b->store, tx_get, &work, err);
    if (rc == BERTH_OK)
        *out = work.company;
    return rc;
}

static int tx_list(struct berth_db *db, void *ctx, struct berth_error *err)
{
    const struct work *work = ctx;
    return berth_company_select(db, work->arena, work->page, work->list, err);
}

int berth_company_list(struct berth *b, struct berth_arena *arena, struct berth_list *out,
                       struct berth_error *err)
{
    return berth_company_list_page(b, arena, NULL, out, err);
}

int berth_company_list_page(struct berth *b, struct berth_arena *arena,
                            const struct berth_page *page, struct berth_list *out,
                            struct berth_error *err)
{
    struct work work = {.arena = arena, .list = out, .page = page};
    *out = (struct berth_list){0};
    return berth_store_read(b->store, tx_list, &work, err);
}
