/* SPDX-License-Identifier: Apache-2.0
 * src/core/id_prefix.c - see id_prefix.h. */
#include "core/id_prefix.h"

#include <ctype.h>
#include <string.h>

#include "base/id.h"
#include "core/run/exec_journal.h"
#include "store/store.h"

static const char *const kinds[][2] = {[BERTH_KIND_COMPANY] = {"Company", "companies"},
                                       [BERTH_KIND_ENVIRONMENT] = {"Environment", "environments"},
                                       [BERTH_KIND_LEASE] = {"Environment lease", "leases"},
                                       [BERTH_KIND_RUN] = {"Run", "runs"},
                                       [BERTH_KIND_SECRET] = {"Secret", "secrets"},
                                       [BERTH_KIND_EXEC] = {"Exec", "execs"},
                                       [BERTH_KIND_TOKEN] = {"Token", "tokens"}};

struct search {
    struct berth_arena *arena;
    enum berth_kind kind;
    const char *company_id, *prefix;
    struct berth_list found;
};

bool berth_id_prefix_valid(const char *text)
{
    size_t len = strlen(text);
    if (len < BERTH_PREFIX_LEN_MIN || len >= BERTH_ID_SIZE)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isxdigit((unsigned char)text[i]) && text[i] != '-')
            return false;
    return true;
}

static int tx_search(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct search *s = ctx;
    return berth_prefix_select(db, s->arena, s->kind, s->company_id, s->prefix, &s->found, err);
}

int berth_id_prefix_find(struct berth *b, struct berth_arena *arena, enum berth_kind kind,
                         const char *company_id, const char *text, const char **out,
                         struct berth_error *err)
{
    char *prefix = berth_arena_strdup(arena, text);
    if (!prefix)
        return berth_arena_check(arena, err);
    for (char *c = prefix; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    if (!berth_id_prefix_valid(prefix))
        return berth_fail(err, BERTH_E_NOT_FOUND, "%s not found", kinds[kind][0]);
    struct search s = {.arena = arena, .kind = kind, .company_id = company_id, .prefix = prefix};
    int rc = berth_store_read(b->store, tx_search, &s, err);
    if (rc < 0)
        return rc;
    if (s.found.count == 0)
        return berth_fail(err, BERTH_E_NOT_FOUND, "%s not found", kinds[kind][0]);
    if (s.found.count > 1)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "Several %s begin with %s, %s and %s among them: write more of it.",
                          kinds[kind][1], prefix, (const char *)s.found.items[0],
                          (const char *)s.found.items[1]);
    *out = s.found.items[0];
    return BERTH_OK;
}

struct ownership {
    struct berth_arena *arena;
    enum berth_kind kind;
    const char *id, *company_id, *lease_id;
};

static int tx_owner(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct ownership *o = ctx;
    return berth_owner_select(db, o->arena, o->kind, o->id, &o->company_id, &o->lease_id, err);
}

int berth_id_prefix_owner(struct berth *b, struct berth_arena *arena, enum berth_kind kind,
                          const char *id, const char **company_id, const char **lease_id,
                          struct berth_error *err)
{
    struct berth_id parsed;
    *company_id = *lease_id = NULL;
    if (berth_id_parse(id, kinds[kind][0], &parsed, err) < 0)
        return BERTH_OK;
    struct berth_error behind;
    int flushed = kind == BERTH_KIND_EXEC ? berth_exec_journal_flush(b, &behind) : BERTH_OK;
    struct ownership o = {.arena = arena, .kind = kind, .id = parsed.text};
    int rc = berth_store_read(b->store, tx_owner, &o, err);
    if (rc == BERTH_OK && !o.company_id && flushed < 0) { /* it may not be written yet */
        *err = behind;
        rc = flushed;
    }
    *company_id = o.company_id;
    *lease_id = o.lease_id;
    return rc;
}
