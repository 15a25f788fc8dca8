/* SPDX-License-Identifier: Apache-2.0
 * src/core/environment/environment_secrets.c - stores the secrets of an environment's config. */
#include <ctype.h>
#include <string.h>

#include "core/environment/environment_change.h"
#include "core/secret/secret.h"

#define FIELD_BYTES_MAX 40 /* of a field's path in the name of a secret */
#define SLUG_BYTES_MAX 48  /* of an environment's name there */

/* Returns "environment-<driver>-<name>-<field>-<8 hex>". */
static const char *secret_name(const struct berth_environment_change *c,
                               const struct berth_pasted *p)
{
    char slug[SLUG_BYTES_MAX + 1], *to = slug;
    for (const char *from = c->environment->name; *from && to < slug + SLUG_BYTES_MAX; from++)
        if (isalnum((unsigned char)*from))
            *to++ = (char)tolower((unsigned char)*from);
        else if (to > slug && to[-1] != '-')
            *to++ = '-';
    while (to > slug && to[-1] == '-')
        to--;
    *to = '\0';
    return berth_arena_printf(c->arena, "environment-%s-%s-%.*s-%s",
                              berth_environment_drivers.names[c->environment->driver],
                              *slug ? slug : "environment", FIELD_BYTES_MAX, p->field,
                              p->secret_id + strlen(p->secret_id) - 8);
}

static bool is_referenced(const struct berth_environment_change *c, const char *secret_id)
{
    for (int i = 0; i < c->references.count; i++)
        if (strcmp(((const struct berth_secret_ref *)c->references.items[i])->secret_id,
                   secret_id) == 0)
            return true;
    return false; /* the provider does not know the field */
}

static int make_secret(struct berth_db *db, const struct berth_environment_change *c,
                       const struct berth_pasted *p, struct berth_error *err)
{
    const struct berth_actor *actor = c->input->actor;
    const struct berth_environment *e = c->environment;
    const char *name = secret_name(c, p);
    struct berth_secret row = {
        .id = p->secret_id,
        .company_id = e->company_id,
        .key = name,
        .name = name,
        .description = berth_arena_printf(c->arena, "Secret for %s %s.", e->name, p->field),
        .latest_version = 1,
        .environment_id = e->id,
        .created_by_type = actor ? actor->type : "system",
        .created_by_id = actor ? actor->id : NULL,
        .last_rotated_at_ms = e->updated_at_ms,
        .created_at_ms = e->updated_at_ms,
        .updated_at_ms = e->updated_at_ms,
    };
    int rc = berth_arena_check(c->arena, err);
    if (rc == BERTH_OK)
        rc = berth_secret_add(c->b, db, c->arena, &row, p->value.bytes, p->value.len, err);
    struct berth_entity entity = {e->company_id, "secret", p->secret_id};
    const char *details =
        berth_arena_printf(c->arena, "{\"name\":\"%s\",\"provider\":\"local_encrypted\"}", name);
    return rc < 0 || !details
               ? rc
               : berth_activity_of(db, &entity, "secret.created", actor, details, err);
}

int berth_environment_store_secrets(struct berth_db *db, const struct berth_environment_change *c,
                                    struct berth_error *err)
{
    const struct berth_environment *e = c->environment;
    int rc = BERTH_OK;
    if (!c->configured)
        return rc;
    for (int i = 0; rc == BERTH_OK && i < c->pasted.count; i++) {
        const struct berth_pasted *p = c->pasted.items[i];
        if (is_referenced(c, p->secret_id))
            rc = make_secret(db, c, p, err);
    }
    struct berth_binding target = {.company_id = e->company_id,
                                   .target_type = "environment",
                                   .target_id = e->id,
                                   .created_at_ms = e->updated_at_ms};
    struct berth_list bindings = {0};
    for (int i = 0; rc == BERTH_OK && i < c->references.count; i++) {
        const struct berth_secret_ref *r = c->references.items[i];
        struct berth_binding *binding = berth_arena_alloc(c->arena, sizeof *binding);
        if (!binding || !berth_list_add(&bindings, c->arena, binding))
            return berth_arena_check(c->arena, err);
        binding->config_path = r->path;
        binding->secret_id = r->secret_id;
        binding->version = r->version;
    }
    if (rc == BERTH_OK)
        rc = berth_secret_bind(db, c->arena, &target, &bindings, err);
    return rc < 0 ? rc : berth_secret_drop_unused(db, c->arena, e->id, false, c->input->actor, err);
}
