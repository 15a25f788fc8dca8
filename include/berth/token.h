/* SPDX-License-Identifier: Apache-2.0
 * include/berth/token.h - what callers of the daemon show to be let in: kept as a hash, shown once,
 * of no use from the moment it is revoked. */
#ifndef BERTH_TOKEN_H
#define BERTH_TOKEN_H

#include <berth/common.h>
#include <berth/secret.h>

enum berth_token_kind {
    BERTH_TOKEN_OPERATOR, /* of a company, or of the whole instance */
    BERTH_TOKEN_AGENT,    /* of a company; never sees secrets */
    BERTH_TOKEN_RUN,      /* sees one run and one lease, while the run lasts */
};

/* What a token may do besides looking. */
enum berth_permission {
    BERTH_MAY_ENVIRONMENTS = 1 << 0, /* environments:manage: also leases, commands and runs */
    BERTH_MAY_SECRETS = 1 << 1,      /* secrets:manage */
    BERTH_MAY_INSTANCE = 1 << 2,     /* instance:manage: companies, plugins, tokens */
    BERTH_MAY_ALL = BERTH_MAY_ENVIRONMENTS | BERTH_MAY_SECRETS | BERTH_MAY_INSTANCE,
};

struct berth_token;
BERTH_API const char *berth_token_id(const struct berth_token *token);
/* Everything but the token itself, with the field names of the API. */
BERTH_API const char *berth_token_to_json(struct berth_arena *arena,
                                          const struct berth_token *token);

struct berth_token_request {
    enum berth_token_kind kind;
    const char *name;              /* for people */
    const char *company_id;        /* NULL: of the instance, or for a run whose it is */
    unsigned permissions;          /* of enum berth_permission */
    const char *agent_id;          /* whom an agent's token is for: it is written down; or NULL */
    const char *run_id, *lease_id; /* a run's: both */
    int64_t ttl_ms;                /* 0: until it is revoked; a run's: 48 hours */
    const struct berth_actor *actor;
};
#define BERTH_TOKEN_REQUEST_INIT                                                                   \
    {                                                                                              \
        .kind = BERTH_TOKEN_OPERATOR                                                               \
    }
/* `text` is what callers show; it is nowhere afterwards, and the caller clears it. */
BERTH_API int berth_token_create(struct berth *b, struct berth_arena *arena,
                                 const struct berth_token_request *request,
                                 struct berth_token **out, struct berth_locked *text,
                                 struct berth_error *err);
struct berth_token_filter {
    const char *company_id; /* NULL: any, and those of the instance */
    bool all;               /* also those that are revoked or have expired */
    const char *before;     /* the id of a token, the cursor of a page; NULL: from the first */
    int limit;
};
#define BERTH_TOKEN_FILTER_INIT                                                                    \
    {                                                                                              \
        .limit = 100                                                                               \
    }
/* A list of struct berth_token, newest first. */
BERTH_API int berth_token_list(struct berth *b, struct berth_arena *arena,
                               const struct berth_token_filter *filter, struct berth_list *out,
                               struct berth_error *err);
/* Of no use any more when this returns; twice is fine. */
BERTH_API int berth_token_revoke(struct berth *b, struct berth_arena *arena, const char *id,
                                 const struct berth_actor *actor, struct berth_token **out,
                                 struct berth_error *err);
#endif
