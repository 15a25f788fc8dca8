/* SPDX-License-Identifier: Apache-2.0
 * src/store/company.c - SQL of companies. */
#include "store/company.h"

struct reader {
    struct berth_arena *arena;
    struct berth_list *out;
};

static int on_company(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    struct reader *reader = ctx;
    struct berth_company *company = berth_arena_alloc(reader->arena, sizeof *company);
    if (!company || !berth_list_add(reader->out, reader->arena, company))
        return berth_arena_check(reader->arena, err);
    company->id = berth_row_text(reader->arena, &row[0]);
    company->name = berth_row_text(reader->arena, &row[1]);
    company->created_at_ms = row[2].number;
    company->updated_at_ms = row[3].number;
    return berth_arena_check(reader->arena, err);
}

int berth_company_insert(struct berth_db *db, const struct berth_company *company,
                         struct berth_error *err)
{
    return berth_db_exec(db,
                         "INSERT INTO companies (id, name, created_at, updated_at)"
                         " VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
                         NULL, NULL, err, berth_text(company->id), berth_text(company->name),
                         berth_int(company->created_at_ms), berth_int(company->updated_at_ms));
}

static int company_find(struct berth_db *db, struct berth_arena *arena, const char *sql,
                        const char *key, struct berth_company **out, struct berth_error *err)
{
    struct berth_list list = {0};
    struct reader reader = {.arena = arena, .out = &list};
    int rc = berth_db_exec(db, sql, on_company, &reader, err, berth_text(key));
    *out = list.count ? list.items[0] : NULL;
    return rc;
}

int berth_company_select(struct berth_db *db, struct berth_arena *arena,
                         const struct berth_page *page, struct berth_list *out,
                         struct berth_error *err)
{
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    return berth_db_exec(db,
                         "SELECT id, name, created_at, updated_at FROM companies"
                         " WHERE CAST($1 AS TEXT) IS NULL"
                         " OR name > (SELECT name FROM companies WHERE id = $1)"
                         " ORDER BY name LIMIT $2",
                         on_company, &reader, err, berth_page_before(page), berth_page_limit(page));
}

int berth_company_by_name(struct berth_db *db, struct berth_arena *arena, const char *name,
                          struct berth_company **out, struct berth_error *err)
{
    return company_find(db, arena,
                        "SELECT id, name, created_at, updated_at FROM companies WHERE name = $1",
                        name, out, err);
}

int berth_company_by_id(struct berth_db *db, struct berth_arena *arena, const char *id,
                        struct berth_company **out, struct berth_error *err)
{
    return company_find(db, arena,
                        "SELECT id, name, created_at, updated_at FROM companies WHERE id = $1", id,
                        out, err);
}
