/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/run_secrets.c - see run_secrets.h. */
#include "core/run/run_secrets.h"

#include <string.h>

#include "core/run/run.h"
#include "core/secret/secret.h"
#include "os/spawn.h"
#include "store/store.h"

struct binding_of_run {
    const struct berth_run_request *request;
    const struct berth_run *run;
};

static int tx_bind(struct berth_db *db, void *ctx, struct berth_error *err)
{
    const struct binding_of_run *p = ctx;
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_binding target = {
        .company_id = p->run->company_id, .target_type = "run", .target_id = p->run->id};
    struct berth_list bindings = {0};
    for (int i = 0; i < p->request->secret_count; i++) {
        struct berth_binding *binding = berth_arena_alloc(&arena, sizeof *binding);
        if (!binding || !berth_list_add(&bindings, &arena, binding))
            return berth_arena_check(&arena, err);
        binding->secret_id = p->request->secrets[i].secret_id;
        binding->config_path =
            berth_arena_printf(&arena, "env.%s", p->request->secrets[i].variable);
        if (!binding->config_path)
            return berth_arena_check(&arena, err);
    }
    return berth_secret_bind(db, &arena, &target, &bindings, err);
}

int berth_run_secrets_resolve(struct berth *b, struct berth_arena *arena,
                              const struct berth_run *run, const struct berth_run_request *r,
                              struct berth_locked **values, struct berth_error *err)
{
    if (!r->secret_count)
        return BERTH_OK;
    *values = berth_arena_alloc(arena, (size_t)r->secret_count * sizeof **values);
    if (!*values)
        return berth_arena_check(arena, err);
    int rc = berth_store_tx(b->store, tx_bind, &(struct binding_of_run){r, run}, err);
    for (int i = 0; rc == BERTH_OK && i < r->secret_count; i++) {
        const char *path = berth_arena_printf(arena, "env.%s", r->secrets[i].variable);
        if (!path)
            return berth_arena_check(arena, err);
        struct berth_resolve_request request = {.company_id = run->company_id,
                                                .secret_id = r->secrets[i].secret_id,
                                                .consumer_type = "run",
                                                .consumer_id = run->id,
                                                .config_path = path,
                                                .run_id = run->id,
                                                .actor = r->actor};
        rc = berth_secret_resolve(b, &request, &(*values)[i], err);
        if (rc == BERTH_OK && memchr((*values)[i].bytes, '\0', (*values)[i].len))
            rc = berth_fail(err, BERTH_E_UNPROCESSABLE,
                            "The secret for %s holds a NUL byte and cannot be a variable.",
                            r->secrets[i].variable);
    }
    return rc;
}

int berth_run_secrets_add(const struct berth_run_request *r, struct berth_locked *values,
                          struct berth_arena *wiped, struct berth_exec_request *command,
                          struct berth_error *err)
{
    struct berth_list env = {0};
    if (!r->secret_count)
        return BERTH_OK;
    for (const char *const *pair = command->env; pair && *pair; pair++)
        (void)berth_list_add(&env, wiped, (char *)(uintptr_t)*pair);
    for (int i = 0; i < r->secret_count; i++)
        if (command->env && berth_env_get(command->env, r->secrets[i].variable))
            return berth_fail(err, BERTH_E_INVALID,
                              "The variable %s is given twice: as it is, and from a secret.",
                              r->secrets[i].variable);
    for (int i = 0; i < r->secret_count; i++)
        (void)berth_list_add(&env, wiped,
                             berth_arena_printf(wiped, "%s=%s", r->secrets[i].variable,
                                                values[i].bytes ? values[i].bytes : ""));
    (void)berth_list_add(&env, wiped, NULL);
    command->env = (const char *const *)(void *)env.items;
    command->secrets = values;
    command->secret_count = r->secret_count;
    return berth_arena_check(wiped, err);
}

void berth_run_secrets_clear(const struct berth_run_request *r, struct berth_locked *values)
{
    for (int i = 0; values && i < r->secret_count; i++)
        berth_locked_clear(&values[i]);
}
