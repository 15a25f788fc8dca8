/* SPDX-License-Identifier: Apache-2.0
 * src/core/token.c - see berth/token.h. A token is its row's id and 32 random bytes. The row has
 * a hash of these bytes; random bytes cannot be guessed, so the hash needs no salt. */
#include "core/token.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "base/utf8.h"
#include "core/activity.h"
#include "crypto/hash.h"
#include "crypto/locked.h"
#include "store/company.h"
#include "store/lease.h"
#include "store/run.h"
#include "store/store.h"

#define PREFIX "berth_"
#define PREFIX_LEN (sizeof PREFIX - 1)
#define ID_LEN 32 /* without its dashes */
#define RANDOM_BYTES 32
#define SECRET_AT (PREFIX_LEN + ID_LEN + 1)
#define SECRET_LEN ((size_t)RANDOM_BYTES * 2)
#define USED_EVERY_MS 60000
#define RUN_TTL_MS INT64_C(172800000)

const char *const berth_permissions[] = {"environments:manage", "secrets:manage", "instance:manage",
                                         NULL};

struct work {
    struct berth_arena *arena;
    const char *id, *company_id;
    const struct berth_token_request *request;
    struct berth_token *token;
    struct berth_list *list;
    const struct berth_actor *actor;
    int64_t now_ms, count;
    const struct berth_token_filter *filter;
};

const char *berth_token_id(const struct berth_token *token)
{
    return token->id;
}

void berth_token_fields(struct berth_json_writer *w, const struct berth_token *t)
{
    berth_json_put_str(w, "id", t->id);
    berth_json_put_str(w, "name", t->name);
    berth_json_put_str(w, "kind", berth_token_kinds.names[t->kind]);
    berth_json_put_str(w, "companyId", t->company_id);
    berth_json_open_in(w, "permissions", '[');
    for (int i = 0; berth_permissions[i]; i++)
        if (t->permissions & 1U << i)
            berth_json_put_str(w, NULL, berth_permissions[i]);
    berth_json_close(w, ']');
    berth_json_put_str(w, "agentId", t->agent_id);
    berth_json_put_str(w, "runId", t->run_id);
    berth_json_put_str(w, "leaseId", t->lease_id);
    berth_json_put_time(w, "createdAt", t->created_at_ms);
    berth_json_put_time(w, "expiresAt", t->expires_at_ms);
    berth_json_put_time(w, "revokedAt", t->revoked_at_ms);
    berth_json_put_time(w, "lastUsedAt", t->last_used_at_ms);
}

void berth_token_json(struct berth_json_writer *w, const struct berth_token *t)
{
    berth_json_open(w, '{');
    berth_token_fields(w, t);
    berth_json_close(w, '}');
}

const char *berth_token_to_json(struct berth_arena *arena, const struct berth_token *token)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    berth_token_json(&(struct berth_json_writer){.buf = &buf}, token);
    return berth_arena_strdup(arena, berth_buf_str(&buf));
}

/* --- making one --- */

static int check_request(const struct berth_token_request *r, struct berth_error *err)
{
    bool run = r->kind == BERTH_TOKEN_RUN;
    int rc = berth_utf8_check_name(r->name, "A token", err);
    if (rc == BERTH_OK && r->agent_id)
        rc = berth_utf8_check_id(r->agent_id, "agentId", err);
    if (rc < 0)
        return rc;
    if (run != (r->run_id && r->lease_id))
        return berth_fail(err, BERTH_E_INVALID,
                          run ? "A run's token needs the run and its lease."
                              : "Only a run's token names a run and a lease.");
    if (r->agent_id && r->kind != BERTH_TOKEN_AGENT)
        return berth_fail(err, BERTH_E_INVALID, "Only an agent's token names an agent.");
    if (r->kind == BERTH_TOKEN_AGENT && !r->company_id)
        return berth_fail(err, BERTH_E_INVALID, "An agent's token belongs to a company.");
    if (run && r->permissions)
        return berth_fail(err, BERTH_E_INVALID, "A run's token may only look.");
    if (r->kind == BERTH_TOKEN_AGENT && r->permissions & ~(unsigned)BERTH_MAY_ENVIRONMENTS)
        return berth_fail(err, BERTH_E_INVALID, "An agent may have environments:manage only.");
    if (r->company_id && r->permissions & BERTH_MAY_INSTANCE)
        return berth_fail(err, BERTH_E_INVALID,
                          "instance:manage is for tokens of the instance, without a company.");
    if (r->ttl_ms < 0 || r->ttl_ms > BERTH_TTL_MS_MAX)
        return berth_fail(err, BERTH_E_INVALID, "A token lasts for at most %lld days.",
                          (long long)(BERTH_TTL_MS_MAX / 86400000));
    return BERTH_OK;
}

static void put_hex(const unsigned char *bytes, size_t count, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        out[i * 2] = digits[bytes[i] >> 4];
        out[i * 2 + 1] = digits[bytes[i] & 15];
    }
}

/* The id as it stands in a token. */
static void put_id(const char *id, char out[ID_LEN])
{
    for (; *id; id++)
        if (*id != '-')
            *out++ = *id;
}

static int make_text(const char *id, struct berth_locked *out, struct berth_error *err)
{
    unsigned char random[RANDOM_BYTES];
    char text[BERTH_TOKEN_TEXT_SIZE] = PREFIX;
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return berth_fail_errno(err, "Cannot draw random bytes");
    put_id(id, text + PREFIX_LEN);
    text[SECRET_AT - 1] = '_';
    put_hex(random, sizeof random, text + SECRET_AT);
    int rc = berth_locked_new(sizeof text, out, err);
    if (rc == BERTH_OK)
        berth_locked_append(out, text, sizeof text - 1);
    explicit_bzero(random, sizeof random);
    explicit_bzero(text, sizeof text);
    return rc;
}

/* A run's token is of the company of its run, and the lease must be the run's. */
static int check_run(struct berth_db *db, struct work *work, struct berth_error *err)
{
    struct berth_run *run;
    struct berth_lease *lease;
    struct berth_token *t = work->token;
    int rc = berth_run_load(db, work->arena, t->run_id, &run, err);
    if (rc == BERTH_OK && (!run || (t->company_id && strcmp(t->company_id, run->company_id) != 0)))
        rc = berth_fail(err, BERTH_E_NOT_FOUND, "Run \"%.60s\" not found.", t->run_id);
    if (rc == BERTH_OK && berth_run_ended((int)run->status))
        rc = berth_fail(err, BERTH_E_CONFLICT, "Run %s has ended.", t->run_id);
    if (rc == BERTH_OK)
        rc = berth_lease_load(db, work->arena, t->lease_id, &lease, err);
    if (rc == BERTH_OK &&
        (!lease || !lease->heartbeat_run_id || strcmp(lease->heartbeat_run_id, run->id) != 0))
        rc = berth_fail(err, BERTH_E_UNPROCESSABLE, "Lease %s is not one of run %s.", t->lease_id,
                        t->run_id);
    if (rc == BERTH_OK)
        t->company_id = run->company_id;
    return rc;
}

static int check_company(struct berth_db *db, struct work *work, struct berth_error *err)
{
    struct berth_company *company;
    if (!work->token->company_id)
        return BERTH_OK;
    int rc = berth_company_by_id(db, work->arena, work->token->company_id, &company, err);
    return rc == BERTH_OK && !company ? berth_fail(err, BERTH_E_NOT_FOUND, "Company not found")
                                      : rc;
}

/* Tokens of the instance are in the log of the company `default`. */
static int log_change(struct berth_db *db, struct work *work, const char *action,
                      struct berth_error *err)
{
    const struct berth_token *t = work->token;
    struct berth_entity entity = {t->company_id ? t->company_id : work->company_id, "token", t->id};
    auto_buf details = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &details};
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "name", t->name);
    berth_json_put_str(&w, "kind", berth_token_kinds.names[t->kind]);
    berth_json_close(&w, '}');
    return berth_activity_of(db, &entity, action, work->actor, berth_buf_str(&details), err);
}

static int tx_create(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct work *work = ctx;
    int rc = work->token->kind == BERTH_TOKEN_RUN ? check_run(db, work, err)
                                                  : check_company(db, work, err);
    if (rc == BERTH_OK)
        rc = berth_token_insert(db, work->token, err);
    return rc < 0 ? rc : log_change(db, work, "token.created", err);
}

static int make_token(struct berth_arena *arena, const struct berth_token_request *r,
                      struct berth_token **out, struct berth_locked *text, struct berth_error *err)
{
    struct berth_token *t = berth_arena_alloc(arena, sizeof *t);
    struct berth_id id = berth_id_new();
    char hash[BERTH_SHA256_HEX_SIZE];
    int rc = t ? make_text(id.text, text, err) : berth_arena_check(arena, err);
    if (rc == BERTH_OK)
        rc = berth_sha256_hex((const char *)text->bytes + SECRET_AT, SECRET_LEN, hash, err);
    if (rc < 0)
        return rc;
    int64_t ttl_ms = r->ttl_ms ? r->ttl_ms : r->kind == BERTH_TOKEN_RUN ? RUN_TTL_MS : 0;
    int64_t now = berth_time_wall_ms();
    *t = (struct berth_token){.id = berth_arena_strdup(arena, id.text),
                              .name = berth_arena_strdup(arena, r->name),
                              .kind = r->kind,
                              .company_id = berth_arena_strdup(arena, r->company_id),
                              .permissions = r->permissions & BERTH_MAY_ALL,
                              .agent_id = berth_arena_strdup(arena, r->agent_id),
                              .run_id = berth_arena_strdup(arena, r->run_id),
                              .lease_id = berth_arena_strdup(arena, r->lease_id),
                              .hash = berth_arena_strdup(arena, hash),
                              .created_at_ms = now,
                              .expires_at_ms = ttl_ms ? now + ttl_ms : 0};
    *out = t;
    return berth_arena_check(arena, err);
}

int berth_token_create(struct berth *b, struct berth_arena *arena,
                       const struct berth_token_request *request, struct berth_token **out,
                       struct berth_locked *text, struct berth_error *err)
{
    auto_locked made = BERTH_LOCKED_INIT;
    struct work work = {.arena = arena, .actor = request->actor, .company_id = b->company_id};
    int rc = check_request(request, err);
    if (rc == BERTH_OK)
        rc = make_token(arena, request, &work.token, &made, err);
    if (rc == BERTH_OK)
        rc = berth_store_tx(b->store, tx_create, &work, err);
    if (rc < 0)
        return rc;
    *out = work.token;
    *text = made;
    made = (struct berth_locked)BERTH_LOCKED_INIT;
    return BERTH_OK;
}

/* --- looking at them --- */

static int tx_list(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct work *work = ctx;
    return berth_token_select(db, work->arena, work->filter, work->now_ms, work->list, err);
}

int berth_token_list(struct berth *b, struct berth_arena *arena,
                     const struct berth_token_filter *filter, struct berth_list *out,
                     struct berth_error *err)
{
    struct work work = {
        .arena = arena, .filter = filter, .list = out, .now_ms = berth_time_wall_ms()};
    *out = (struct berth_list){0};
    return berth_id_names(filter->company_id) ? berth_store_read(b->store, tx_list, &work, err)
                                              : BERTH_OK;
}

static int tx_count(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct work *work = ctx;
    return berth_token_count(db, work->now_ms, &work->count, err);
}

int berth_token_exists(struct berth *b, bool *out, struct berth_error *err)
{
    struct work work = {.now_ms = berth_time_wall_ms()};
    int rc = berth_store_read(b->store, tx_count, &work, err);
    *out = rc == BERTH_OK && work.count > 0;
    return rc;
}

static int tx_revoke(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct work *work = ctx;
    int rc = berth_token_load(db, work->arena, work->id, &work->token, err);
    if (rc == BERTH_OK && !work->token)
        rc = berth_fail(err, BERTH_E_NOT_FOUND, "Token not found");
    if (rc < 0 || work->token->revoked_at_ms)
        return rc;
    work->token->revoked_at_ms = work->now_ms;
    rc = berth_token_set_revoked(db, work->id, work->now_ms, err);
    return rc < 0 ? rc : log_change(db, work, "token.revoked", err);
}

int berth_token_revoke(struct berth *b, struct berth_arena *arena, const char *id,
                       const struct berth_actor *actor, struct berth_token **out,
                       struct berth_error *err)
{
    struct berth_id parsed;
    if (berth_id_parse(id, "Token", &parsed, err) < 0)
        return berth_fail(err, BERTH_E_NOT_FOUND, "Token not found");
    struct work work = {.arena = arena,
                        .id = parsed.text,
                        .actor = actor,
                        .company_id = b->company_id,
                        .now_ms = berth_time_wall_ms()};
    int rc = berth_store_tx(b->store, tx_revoke, &work, err);
    if (rc == BERTH_OK)
        *out = work.token;
    return rc;
}

/* --- checking tokens --- */

static bool all_hex(const char *text, size_t len)
{
    return strspn(text, "0123456789abcdef") >= len;
}

bool berth_token_well_formed(const char *text)
{
    return strnlen(text, BERTH_TOKEN_TEXT_SIZE) == BERTH_TOKEN_TEXT_SIZE - 1 &&
           strncmp(text, PREFIX, PREFIX_LEN) == 0 && all_hex(text + PREFIX_LEN, ID_LEN) &&
           text[SECRET_AT - 1] == '_' && all_hex(text + SECRET_AT, SECRET_LEN);
}

/* Reads an id without hyphens and inserts them: 8-4-4-4-12. */
static struct berth_id read_id(const char *text)
{
    struct berth_id id = {0};
    for (int to = 0; to < BERTH_ID_SIZE - 1; to++)
        id.text[to] = to == 8 || to == 13 || to == 18 || to == 23 ? '-' : *text++;
    return id;
}

static int tx_load(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct work *work = ctx;
    return berth_token_load(db, work->arena, work->id, &work->token, err);
}

static int tx_used(struct berth_db *db, void *ctx, struct berth_error *err)
{
    const struct work *work = ctx;
    return berth_token_set_used(db, work->id, work->now_ms, err);
}

static bool is_of_use(const struct berth_token *t, int64_t now_ms)
{
    return t && !t->revoked_at_ms && (!t->expires_at_ms || t->expires_at_ms > now_ms) &&
           !t->run_ended;
}

static bool is_good(const struct berth_token *t, const char *hash, int64_t now_ms)
{
    return t && strlen(t->hash) == BERTH_SHA256_HEX_SIZE - 1 &&
           berth_same_bytes(t->hash, BERTH_SHA256_HEX_SIZE - 1, hash, BERTH_SHA256_HEX_SIZE - 1) &&
           is_of_use(t, now_ms);
}

int berth_token_alive(struct berth *b, const char *id, bool *out, struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct work work = {.arena = &arena, .id = id};
    int rc = berth_store_read(b->store, tx_load, &work, err);
    *out = rc == BERTH_OK && is_of_use(work.token, berth_time_wall_ms());
    return rc;
}

int berth_token_check(struct berth *b, struct berth_arena *arena, const char *text,
                      struct berth_token **out, struct berth_error *err)
{
    char hash[BERTH_SHA256_HEX_SIZE];
    if (!berth_token_well_formed(text))
        return berth_fail(err, BERTH_E_UNAUTHORIZED, "Unauthorized");
    struct berth_id id = read_id(text + PREFIX_LEN);
    struct work work = {.arena = arena, .id = id.text, .now_ms = berth_time_wall_ms()};
    int rc = berth_sha256_hex(text + SECRET_AT, SECRET_LEN, hash, err);
    if (rc == BERTH_OK)
        rc = berth_store_read(b->store, tx_load, &work, err);
    if (rc < 0)
        return rc;
    if (!is_good(work.token, hash, work.now_ms))
        return berth_fail(err, BERTH_E_UNAUTHORIZED, "Unauthorized");
    struct berth_error none; /* a failure to record the use does not refuse the token */
    if (work.now_ms - work.token->last_used_at_ms >= USED_EVERY_MS)
        (void)berth_store_tx(b->store, tx_used, &work, &none);
    *out = work.token;
    return BERTH_OK;
}
