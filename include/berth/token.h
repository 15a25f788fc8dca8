/* SPDX-License-Identifier: Apache-2.0
 * include/berth/token.h - bearer tokens, which callers of the daemon's HTTP API authenticate with.
 * The store keeps only a hash of each token. */
#ifndef BERTH_TOKEN_H
#define BERTH_TOKEN_H

#include <berth/common.h>
#include <berth/secret.h>

enum berth_token_kind {
    BERTH_TOKEN_OPERATOR, /* for a person or program; of one company or of the whole instance */
    BERTH_TOKEN_AGENT,    /* for an agent of one company; cannot read or manage secrets */
    BERTH_TOKEN_RUN, /* for a run's command; reads that run and its lease, until the run ends */
};

/* Permissions of a token, as bits. Without any, a token may only read. */
enum berth_permission {
    /* environments:manage: change environments, leases, commands and runs */
    BERTH_MAY_ENVIRONMENTS = 1 << 0,
    /* secrets:manage */
    BERTH_MAY_SECRETS = 1 << 1,
    /* instance:manage: companies, plugins and tokens; not for tokens of a company */
    BERTH_MAY_INSTANCE = 1 << 2,
    BERTH_MAY_ALL = BERTH_MAY_ENVIRONMENTS | BERTH_MAY_SECRETS | BERTH_MAY_INSTANCE,
};

struct berth_token;
/* Returns the id. It lives as long as the token. */
BERTH_API const char *berth_token_id(const struct berth_token *token);
/* Returns everything but the token's text as a JSON object with the field names of the HTTP API.
 * NULL: out of memory. */
BERTH_API const char *berth_token_to_json(struct berth_arena *arena,
                                          const struct berth_token *token);

struct berth_token_request {
    enum berth_token_kind kind;
    const char *name; /* required; shown to people */
    /* NULL: the whole instance, or the company of the run for kind RUN. Required for kind AGENT. */
    const char *company_id;
    unsigned permissions; /* bits of enum berth_permission; 0: read only */
    const char *agent_id; /* the agent, recorded with its calls; or NULL. Only for kind AGENT. */
    const char *run_id, *lease_id; /* required for kind RUN; otherwise NULL */
    int64_t ttl_ms;                /* 0: never expires; for kind RUN 48 hours */
    const struct berth_actor *actor;
};
#define BERTH_TOKEN_REQUEST_INIT                                                                   \
    {                                                                                              \
        .kind = BERTH_TOKEN_OPERATOR                                                               \
    }
/* Creates a token. *text receives the token itself, which cannot be read again later; the caller
 * clears it with berth_locked_clear. */
BERTH_API int berth_token_create(struct berth *b, struct berth_arena *arena,
                                 const struct berth_token_request *request,
                                 struct berth_token **out, struct berth_locked *text,
                                 struct berth_error *err);

/* The tokens to list. */
struct berth_token_filter {
    const char *company_id; /* NULL: all tokens, also those of the instance */
    bool all;               /* also list tokens that are revoked or expired, or whose run ended */
    const char *before;     /* the last token of the previous page; NULL: start with the newest */
    int limit;              /* the largest number of tokens to list */
};
#define BERTH_TOKEN_FILTER_INIT                                                                    \
    {                                                                                              \
        .limit = 100                                                                               \
    }
/* Lists tokens as struct berth_token, newest first. */
BERTH_API int berth_token_list(struct berth *b, struct berth_arena *arena,
                               const struct berth_token_filter *filter, struct berth_list *out,
                               struct berth_error *err);
/* Revokes a token: calls with it are refused from now on. Revoking it again is not an error.
 * NOT_FOUND: no token has this id. */
BERTH_API int berth_token_revoke(struct berth *b, struct berth_arena *arena, const char *id,
                                 const struct berth_actor *actor, struct berth_token **out,
                                 struct berth_error *err);
#endif
