/* SPDX-License-Identifier: Apache-2.0
 * src/store/prefix.c - see prefix.h. */
#include "store/prefix.h"

struct reader {
    struct berth_arena *arena;
    struct berth_list *out;
};

static int on_id(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    struct reader *reader = ctx;
    char *id = berth_arena_strdup(reader->arena, row[0].text);
    (void)berth_list_add(reader->out, reader->arena, id);
    return berth_arena_check(reader->arena, err);
}

int berth_prefix_select(struct berth_db *db, struct berth_arena *arena, enum berth_kind kind,
                        const char *company_id, const char *prefix, struct berth_list *out,
                        struct berth_error *err)
{
    /* "g" sorts after every hex digit and the dash. */
#define BY_PREFIX(table, company)                                                                  \
    "SELECT id FROM " table " WHERE id {byte_order} >= $1"                                         \
    " AND id {byte_order} < CAST($1 AS TEXT) || 'g'"                                               \
    " AND (CAST($2 AS TEXT) IS NULL OR " company " = $2) ORDER BY id {byte_order} LIMIT 5"
    /* SQLite has no index on the first digits of these ids: it reads the index of all ids. */
#define BY_PREFIX_OF_ALL(table)                                                                    \
    "SELECT id FROM " table " WHERE {row_key} IN (SELECT {row_key} FROM " table                    \
    "  WHERE id {byte_order} >= $1 AND id {byte_order} < CAST($1 AS TEXT) || 'g')"                 \
    " AND (CAST($2 AS TEXT) IS NULL OR company_id = $2) ORDER BY id {byte_order} LIMIT 5"
    static const char *const sql[] = {
        [BERTH_KIND_COMPANY] = BY_PREFIX("companies", "id"),
        [BERTH_KIND_ENVIRONMENT] = BY_PREFIX("environments", "company_id"),
        [BERTH_KIND_LEASE] = BY_PREFIX_OF_ALL("leases"),
        [BERTH_KIND_RUN] = BY_PREFIX_OF_ALL("runs"),
        [BERTH_KIND_SECRET] = BY_PREFIX("secrets", "company_id"),
        [BERTH_KIND_EXEC] = BY_PREFIX("execs", "company_id"),
        [BERTH_KIND_TOKEN] = BY_PREFIX("tokens", "company_id"),
    };
#undef BY_PREFIX
#undef BY_PREFIX_OF_ALL
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    return berth_db_exec(db, sql[kind], on_id, &reader, err, berth_text(prefix),
                         berth_text(company_id));
}

struct owner {
    struct berth_arena *arena;
    const char *company_id, *lease_id;
};

static int on_owner(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    struct owner *owner = ctx;
    owner->company_id = berth_row_text(owner->arena, &row[0]);
    owner->lease_id = berth_row_text(owner->arena, &row[1]);
    return berth_arena_check(owner->arena, err);
}

int berth_owner_select(struct berth_db *db, struct berth_arena *arena, enum berth_kind kind,
                       const char *id, const char **company_id, const char **lease_id,
                       struct berth_error *err)
{
#define OWNER(columns, table) "SELECT " columns " FROM " table " WHERE id = $1"
#define OWNER_BY_TIME(columns, table)                                                              \
    "SELECT " columns " FROM " table " WHERE " BERTH_SAME_ID("id", BERTH_ID_ARG(1))
    static const char *const sql[] = {
        [BERTH_KIND_COMPANY] = OWNER("id, NULL", "companies"),
        [BERTH_KIND_ENVIRONMENT] = OWNER("company_id, NULL", "environments"),
        [BERTH_KIND_LEASE] = OWNER_BY_TIME("company_id, id", "leases"),
        [BERTH_KIND_RUN] = OWNER_BY_TIME("company_id, NULL", "runs"),
        [BERTH_KIND_SECRET] = OWNER("company_id, NULL", "secrets"),
        [BERTH_KIND_EXEC] = OWNER("company_id, lease_id", "execs"),
        [BERTH_KIND_TOKEN] = OWNER("company_id, NULL", "tokens"),
    };
#undef OWNER
#undef OWNER_BY_TIME
    struct owner owner = {.arena = arena};
    int rc = berth_db_exec(db, sql[kind], on_owner, &owner, err, berth_text(id));
    *company_id = owner.company_id;
    *lease_id = owner.lease_id;
    return rc;
}
