/* SPDX-License-Identifier: Apache-2.0
 * src/core/secret/rekey.c - sealing everything with another key. It can stop anywhere: the new key
 * is in the file before the store switches to it, and the old one leaves the file when nothing
 * needs it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/failpoint.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "core/secret/secret.h"
#include "core/secret/secret_provider.h"
#include "store/store.h"

#define BATCH 64 /* versions sealed anew in one transaction */

struct key_change {
    struct berth *b;
    const struct berth_actor *actor;
    struct berth_arena *arena; /* of what is under way */
    const char *from, *to;
    struct berth_id after_id; /* the last version of the batch before */
    int64_t after_version;
    struct berth_id last_id; /* of this batch */
    int64_t last_version;
    int64_t count, skipped, total; /* of this batch; over all */
    struct berth_id unread;        /* one that could not be read */
    struct berth_list keys;        /* that versions are sealed with */
};

static int tx_key(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct key_change *c = ctx;
    return berth_secret_key_load(db, c->arena, BERTH_LOCK_NONE, &c->from, err);
}

static int tx_switch(struct berth_db *db, void *ctx, struct berth_error *err)
{
    const struct key_change *c = ctx;
    const char *now;
    int rc = berth_secret_key_load(db, c->arena, BERTH_LOCK_UPDATE, &now, err);
    if (rc == BERTH_OK && (!now || strcmp(now, c->from) != 0))
        rc = berth_fail(err, BERTH_E_CONFLICT,
                        "Another node has just changed the key: copy its key file here.");
    return rc < 0 ? rc : berth_secret_key_save(db, c->to, berth_time_wall_ms(), err);
}

static int seal_anew(struct berth_db *db, struct key_change *c, struct berth_secret_version *v,
                     struct berth_error *err)
{
    struct berth_secret *secret;
    int rc = berth_secret_load(db, c->arena, v->secret_id, BERTH_LOCK_NONE, &secret, err);
    if (rc < 0)
        return rc;
    const char *context = secret ? berth_secret_context(c->arena, secret->company_id, v) : NULL;
    if (!context)
        return berth_arena_check(c->arena, err);
    auto_locked value = BERTH_LOCKED_INIT;
    auto_free char *sealed = NULL;
    struct berth_error trouble;
    rc = berth_secret_provider_unseal(c->b->secret_provider, v->key_id, context, v->sealed, &value,
                                      &trouble);
    if (rc == BERTH_E_INVALID || rc == BERTH_E_UNPROCESSABLE) {
        c->skipped++; /* it stays as it is, and so does its key */
        (void)snprintf(c->unread.text, sizeof c->unread.text, "%s", v->secret_id);
        return BERTH_OK;
    }
    if (rc < 0) {
        *err = trouble;
        return rc;
    }
    v->key_id = c->to;
    context = berth_secret_context(c->arena, secret->company_id, v);
    rc = context ? berth_secret_provider_seal(c->b->secret_provider, c->to, context, value.bytes,
                                              value.len, &sealed, err)
                 : berth_arena_check(c->arena, err);
    v->sealed = sealed;
    return rc < 0 ? rc : berth_version_reseal(db, v, err);
}

static int tx_batch(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct key_change *c = ctx;
    struct berth_list versions;
    struct berth_secret_version after = {.secret_id = c->after_id.text,
                                         .version = c->after_version};
    c->count = c->skipped = 0;
    berth_arena_clear(c->arena);
    int rc = berth_version_select_other_key(db, c->arena, c->to, &after, BATCH, &versions, err);
    for (int i = 0; rc == BERTH_OK && i < versions.count; i++) {
        struct berth_secret_version *v = versions.items[i];
        (void)snprintf(c->last_id.text, sizeof c->last_id.text, "%s", v->secret_id);
        c->last_version = v->version;
        rc = seal_anew(db, c, v, err);
        c->count++;
    }
    return rc;
}

/* Everything that is sealed with another key than `to`, in batches. */
static int seal_all(struct key_change *c, int64_t *skipped, struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_arena *outer = c->arena;
    int rc;
    *skipped = 0;
    c->after_id = (struct berth_id){0};
    c->after_version = 0;
    c->arena = &arena;
    while ((rc = berth_store_tx(c->b->store, tx_batch, c, err)) == BERTH_OK && c->count) {
        BERTH_FAILPOINT(key_after_batch);
        c->after_id = c->last_id;
        c->after_version = c->last_version;
        c->total += c->count - c->skipped;
        *skipped += c->skipped;
    }
    c->arena = outer;
    return rc;
}

static int tx_done(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct key_change *c = ctx;
    struct berth_entity entity = {c->b->company_id, "secret_key", c->to};
    auto_buf buf = BERTH_BUF_INIT(BERTH_METADATA_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    berth_json_open(&w, '{');
    berth_json_put_int(&w, "versions", c->total);
    berth_json_close(&w, '}');
    int rc = berth_buf_check(&buf, "Activity details", err);
    if (rc == BERTH_OK)
        rc = berth_activity_of(db, &entity, "secret_key.changed", c->actor, berth_buf_str(&buf),
                               err);
    return rc < 0 ? rc : berth_version_select_keys(db, c->arena, &c->keys, err);
}

/* Which key comes next: one that an interrupted change has added already, else a new one. When the
 * store had switched before the interruption, that change is finished first. */
static int choose_key(struct key_change *c, char next[BERTH_KEY_ID_SIZE], bool *finished,
                      struct berth_error *err)
{
    struct berth *b = c->b;
    int64_t ignored;
    *finished = false;
    int rc = berth_secret_provider_newest_key(b->secret_provider, b->store_id, c->from, next, err);
    if (rc < 0 || strcmp(next, c->from) != 0)
        return rc;
    rc = seal_all(c, &ignored, err);
    *finished = rc == BERTH_OK && c->total > 0;
    return rc < 0 || *finished
               ? rc
               : berth_secret_provider_add_key(b->secret_provider, b->store_id, next, err);
}

static int fail_unread(const struct key_change *c, int64_t skipped, struct berth_error *err)
{
    return berth_fail(err, BERTH_E_CONFLICT,
                      "Everything has the new key, but for %" PRId64 " version%s that no key of %s "
                      "opens, of secret %s among others: rotate or delete such secrets. Their keys "
                      "are kept.",
                      skipped, skipped == 1 ? "" : "s",
                      berth_secret_provider_path(c->b->secret_provider), c->unread.text);
}

static int change_key(struct key_change *c, char next[BERTH_KEY_ID_SIZE], struct berth_error *err)
{
    struct berth *b = c->b;
    bool finished;
    int64_t skipped = 0;
    int rc = choose_key(c, next, &finished, err);
    if (rc < 0)
        return rc;
    BERTH_FAILPOINT(key_after_file);
    if (!finished)
        rc = berth_store_tx(b->store, tx_switch, c, err);
    if (rc < 0)
        return rc;
    BERTH_FAILPOINT(key_after_switch);
    rc = seal_all(c, &skipped, err);
    if (rc == BERTH_OK)
        rc = berth_store_tx(b->store, tx_done, c, err);
    if (rc == BERTH_OK)
        rc = berth_secret_provider_keep_only(b->secret_provider, b->store_id, next, &c->keys, err);
    if (rc < 0)
        return rc;
    BERTH_FAILPOINT(key_after_drop);
    return skipped ? fail_unread(c, skipped, err) : BERTH_OK;
}

int berth_secret_change_key(struct berth *b, const struct berth_actor *actor,
                            struct berth_key_change *out, struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    auto_close int lock = -1;
    char next[BERTH_KEY_ID_SIZE];
    struct key_change c = {.b = b, .arena = &arena, .actor = actor, .to = next};
    int rc = berth_keyfile_lock(berth_secret_provider_path(b->secret_provider), 0, &lock, err);
    if (rc == BERTH_OK)
        rc = berth_store_read(b->store, tx_key, &c, err);
    if (rc == BERTH_OK && !c.from)
        rc = berth_fail(err, BERTH_E_UNPROCESSABLE,
                        "There is no key to change: this store holds no secrets yet.");
    if (rc == BERTH_OK)
        rc = change_key(&c, next, err);
    if (rc < 0)
        return rc;
    *out = (struct berth_key_change){.versions = c.total};
    (void)snprintf(out->from, sizeof out->from, "%s", c.from);
    (void)snprintf(out->to, sizeof out->to, "%s", next);
    return BERTH_OK;
}
