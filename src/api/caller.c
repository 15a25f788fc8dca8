/* SPDX-License-Identifier: Apache-2.0
 * src/api/caller.c - see caller.h. A token is 32 random bytes, which cannot be guessed; what an
 * attacker can do with bad ones is to keep the store busy. Failed attempts fill a bucket for each
 * address, which drains with time. While it is full, tokens from there that were not good lately
 * are looked up one at a time, and bad ones get 429. So a good token may have to wait for the
 * lookups of others, and is never refused because of them. */
#include "api/caller.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/time.h"
#include "base/utf8.h"
#include "core/id_prefix.h"
#include "core/socket_cookie.h"
#include "core/token.h"
#include "crypto/hash.h"

#define BUCKETS 1024 /* addresses that fall into the same one share it */
#define KNOWN 1024
#define FAILURES_MAX 20
#define FAILURE_MS 3000 /* until one is forgotten */
#define BEARER "Bearer "
#define ID_OF_NOTHING "00000000-0000-0000-0000-000000000000"

struct berth_api_gate {
    pthread_mutex_t lock;
    int64_t full_until_ms[BUCKETS];       /* when the bucket is empty again */
    uint64_t known[KNOWN];                /* of tokens that were good: a part of their hash */
    uint64_t companies[KNOWN];            /* of these tokens, likewise; 0: the instance */
    struct berth_api_call *first, **last; /* doubtful calls, in the order in which they came */
    bool looking;                         /* a job looks up the tokens of these */
    struct berth_arena arena;             /* of these: */
    struct berth_list hosts, origins;
    char cookie[BERTH_SOCKET_COOKIE_SIZE]; /* "": none is needed */
    char *socket;                          /* its path, or NULL */
    _Atomic bool refuses_tcp;
};

int berth_api_gate_new(struct berth_api_gate **out, struct berth_error *err)
{
    struct berth_api_gate *gate = calloc(1, sizeof *gate);
    if (!gate)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: API.");
    pthread_mutex_init(&gate->lock, NULL);
    gate->last = &gate->first;
    *out = gate;
    return BERTH_OK;
}

void berth_api_gate_free(struct berth_api_gate *gate)
{
    if (!gate)
        return;
    pthread_mutex_destroy(&gate->lock);
    berth_arena_clear(&gate->arena);
    free(gate->socket);
    free(gate);
}

static int caller_refuse(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_UNAUTHORIZED, "Unauthorized");
}

int berth_api_gate_set_cookie(struct berth_api_gate *gate, const char *value, const char *socket,
                              struct berth_error *err)
{
    gate->socket = strdup(socket);
    if (!gate->socket)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: API.");
    (void)snprintf(gate->cookie, sizeof gate->cookie, "%s", value);
    return BERTH_OK;
}

void berth_api_gate_set_tcp(struct berth_api_gate *gate, bool served)
{
    atomic_store(&gate->refuses_tcp, !served);
}

/* --- where it was sent to, and from --- */

static void copy_texts(struct berth_arena *arena, const char *const *from, struct berth_list *to)
{
    for (; from && *from; from++)
        (void)berth_list_add(to, arena, berth_arena_strdup(arena, *from));
}

int berth_api_gate_allow(struct berth_api_gate *gate, const char *const *hosts,
                         const char *const *origins, struct berth_error *err)
{
    struct berth_arena arena = BERTH_ARENA_INIT;
    struct berth_list host_list = {0}, origin_list = {0};
    copy_texts(&arena, hosts, &host_list);
    copy_texts(&arena, origins, &origin_list);
    int rc = berth_arena_check(&arena, err);
    if (rc == BERTH_OK) {
        pthread_mutex_lock(&gate->lock);
        struct berth_arena old = gate->arena;
        gate->arena = arena;
        gate->hosts = host_list;
        gate->origins = origin_list;
        pthread_mutex_unlock(&gate->lock);
        arena = old;
    }
    berth_arena_clear(&arena);
    return rc;
}

/* A host without its port, and without the brackets of IPv6. */
static void bare_host(const char *text, char out[256])
{
    size_t len = strcspn(text, ":");
    if (*text == '[') {
        text++;
        len = strcspn(text, "]");
    } else if (strchr(text + len, ':') != strrchr(text, ':')) {
        len = strlen(text); /* IPv6, as a config may say it */
    }
    (void)snprintf(out, 256, "%.*s", (int)(len < 255 ? len : 255), text);
}

static bool is_number(const char *host)
{
    unsigned char address[16];
    return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

static bool is_host(const struct berth_api_gate *gate, const char *text)
{
    char host[256], other[256];
    bare_host(text, host);
    bool known = is_number(host) || strcasecmp(host, "localhost") == 0;
    for (int i = 0; !known && i < gate->hosts.count; i++) {
        bare_host(gate->hosts.items[i], other);
        known = strcasecmp(host, other) == 0;
    }
    return known;
}

static bool is_named(const struct berth_api_gate *gate, const char *origin)
{
    bool named = false;
    for (int i = 0; !named && i < gate->origins.count; i++)
        named = strcasecmp(origin, gate->origins.items[i]) == 0;
    return named;
}

/* Returns whether the origin is where the request was sent to: scheme, host and port. */
static bool is_ours(const char *origin, const char *host, bool secure)
{
    const char *scheme = secure ? "https://" : "http://";
    size_t len = strlen(scheme);
    return strncasecmp(origin, scheme, len) == 0 && strcasecmp(origin + len, host) == 0;
}

int berth_api_gate_address(struct berth_api_gate *gate, struct berth_http_exchange *x,
                           struct berth_error *err)
{
    const struct berth_http_head *head = berth_http_exchange_head(x);
    const char *host = berth_http_header(head, "host"), *origin = berth_http_header(head, "origin");
    if (berth_http_exchange_peer(x)->local)
        return BERTH_OK;
    if (atomic_load(&gate->refuses_tcp))
        return berth_fail(err, BERTH_E_UNAVAILABLE,
                          "Requests over TCP are not served before a token exists: run berth token "
                          "create on the daemon's machine.");
    pthread_mutex_lock(&gate->lock);
    bool known = host && is_host(gate, host);
    bool named = origin && known && is_named(gate, origin);
    bool fine = !origin || named || (known && is_ours(origin, host, berth_http_exchange_secure(x)));
    pthread_mutex_unlock(&gate->lock);
    if (named)
        berth_http_exchange_share(x);
    if (!known)
        return berth_fail(err, BERTH_E_DENIED,
                          "Host not allowed: %.100s; allowedHosts names those that are",
                          host ? host : "");
    return fine ? BERTH_OK
                : berth_fail(err, BERTH_E_DENIED,
                             "Origin not allowed: %.100s; allowedOrigins names those that are",
                             origin);
}

/* --- failed attempts --- */

static uint64_t digest(const char *text, size_t len)
{
    char hex[BERTH_SHA256_HEX_SIZE];
    struct berth_error none;
    if (berth_sha256_hex(text, len, hex, &none) < 0)
        return 0;
    hex[16] = '\0';
    return strtoull(hex, NULL, 16);
}

/* Returns the bucket of the client's uid or address, without the port. IPv6 addresses count by
 * their /64 network. */
static size_t bucket_of(const struct berth_http_exchange *x)
{
    const struct berth_peer *peer = berth_http_exchange_peer(x);
    char host[256];
    unsigned char address[16];
    if (peer->local)
        return (size_t)peer->uid % BUCKETS;
    bare_host(peer->address, host);
    if (inet_pton(AF_INET6, host, address) == 1)
        return digest((const char *)address, 8) % BUCKETS;
    return digest(host, strlen(host)) % BUCKETS;
}

static bool is_full(struct berth_api_gate *gate, size_t bucket)
{
    return gate->full_until_ms[bucket] - berth_time_mono_ms() >
           (int64_t)(FAILURES_MAX - 1) * FAILURE_MS;
}

/* Called with the lock held. */
static void count_failure(struct berth_api_gate *gate, size_t bucket)
{
    int64_t now = berth_time_mono_ms();
    if (gate->full_until_ms[bucket] < now)
        gate->full_until_ms[bucket] = now;
    if (!is_full(gate, bucket))
        gate->full_until_ms[bucket] += FAILURE_MS;
}

/* Returns the bearer token of the request, or NULL. *shown says whether the request has an
 * Authorization header at all. */
static const char *token_of(const struct berth_http_head *head, bool *shown)
{
    const char *value = berth_http_header(head, "authorization");
    *shown = value != NULL;
    if (!value || strncasecmp(value, BEARER, sizeof BEARER - 1) != 0)
        return NULL;
    return value + sizeof BEARER - 1;
}

/* Returns whether the client of the socket has the daemon's uid, or is root. */
static bool is_owner(const struct berth_peer *peer)
{
    return peer->local && (peer->uid == geteuid() || peer->uid == 0);
}

/* Checks a client without a token. */
static int check_owner(const struct berth_api_gate *gate, const struct berth_api_call *c,
                       struct berth_error *err)
{
    const char *given = berth_http_header(c->head, BERTH_SOCKET_COOKIE_FIELD);
    if (!is_owner(berth_http_exchange_peer(c->x)))
        return caller_refuse(err);
    if (!gate->cookie[0] || (given && berth_socket_cookie_is(gate->cookie, given)))
        return BERTH_OK;
    return berth_fail(err, BERTH_E_UNAUTHORIZED,
                      "Unauthorized: without a token, a request at the socket needs the "
                      "header " BERTH_SOCKET_COOKIE_HEADER " as %s" BERTH_SOCKET_COOKIE_SUFFIX
                      " has it (curl -H @FILE)",
                      gate->socket);
}

static int refuse_often(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_RATE_LIMITED,
                      "Too many failed attempts; try again in %d seconds", FAILURE_MS / 1000);
}

int berth_api_gate_look(struct berth_api_gate *gate, struct berth_api_call *c,
                        struct berth_error *err)
{
    bool shown;
    const char *token = token_of(c->head, &shown);
    (void)snprintf(c->turn, sizeof c->turn, shown ? "unknown" : "owner");
    if (!shown)
        return check_owner(gate, c, err);
    bool form = token && berth_token_well_formed(token);
    c->bucket = bucket_of(c->x);
    c->token_hash = form ? digest(token, strlen(token)) : 0;
    pthread_mutex_lock(&gate->lock);
    bool full = is_full(gate, c->bucket);
    bool known = form && gate->known[c->token_hash % KNOWN] == c->token_hash;
    if (known)
        (void)snprintf(c->turn, sizeof c->turn, "%016llx",
                       (unsigned long long)gate->companies[c->token_hash % KNOWN]);
    /* An attempt counts from now on, so that those which are made at once count, too. */
    if (!full && !known)
        count_failure(gate, c->bucket);
    pthread_mutex_unlock(&gate->lock);
    c->counted = !full && !known;
    c->doubtful = full && !known;
    if (form)
        return BERTH_OK;
    return full ? refuse_often(err) : caller_refuse(err);
}

bool berth_api_gate_wait(struct berth_api_gate *gate, struct berth_api_call *c)
{
    c->next = NULL;
    pthread_mutex_lock(&gate->lock);
    *gate->last = c;
    gate->last = &c->next;
    bool first = !gate->looking;
    gate->looking = true;
    pthread_mutex_unlock(&gate->lock);
    return first;
}

struct berth_api_call *berth_api_gate_next(struct berth_api_gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    struct berth_api_call *c = gate->first;
    if (c)
        gate->first = c->next;
    else
        gate->looking = false;
    if (!gate->first)
        gate->last = &gate->first;
    pthread_mutex_unlock(&gate->lock);
    return c;
}

/* Remembers what the lookup of the call's token has found. */
static void gate_learn(struct berth_api_gate *gate, const struct berth_api_call *c, int rc,
                       const char *company_id)
{
    uint64_t *known = &gate->known[c->token_hash % KNOWN];
    uint64_t *company = &gate->companies[c->token_hash % KNOWN];
    bool bad = rc == BERTH_E_UNAUTHORIZED;
    pthread_mutex_lock(&gate->lock);
    if (rc == BERTH_OK && *known != c->token_hash)
        *company = company_id ? digest(company_id, strlen(company_id)) : 0;
    if (rc == BERTH_OK)
        *known = c->token_hash;
    else if (bad && *known == c->token_hash)
        *known = 0;
    if (c->counted && !bad)
        gate->full_until_ms[c->bucket] -= FAILURE_MS;
    else if (!c->counted && bad)
        count_failure(gate, c->bucket);
    pthread_mutex_unlock(&gate->lock);
}

/* --- who it is --- */

static void take_token(struct berth_api_call *c, const struct berth_token *t)
{
    c->caller = (struct berth_api_caller){.kind = t->kind,
                                          .company_id = t->company_id,
                                          .permissions = t->permissions,
                                          .run_id = t->run_id,
                                          .lease_id = t->lease_id,
                                          .agent_id = t->agent_id,
                                          .token_id = t->id};
    bool agent = t->kind != BERTH_TOKEN_OPERATOR;
    c->actor = (struct berth_actor){.type = agent ? "agent" : "user",
                                    .id = t->agent_id ? t->agent_id : t->id};
}

/* Hides why the store failed from a client that is not known to be one of ours: the texts of a
 * database have names of hosts, users and files. */
static int caller_hide(const struct berth_api_call *c, int rc, struct berth_error *err)
{
    return rc != BERTH_E_UNAVAILABLE || berth_http_exchange_peer(c->x)->local
               ? rc
               : berth_fail(err, rc, "The store does not answer. Try again later.");
}

int berth_api_authenticate(struct berth_api_gate *gate, struct berth_api_call *c,
                           struct berth_error *err)
{
    bool shown;
    const char *text = token_of(c->head, &shown);
    struct berth_token *token;
    if (!shown) { /* the gate has looked */
        c->caller =
            (struct berth_api_caller){.kind = BERTH_TOKEN_OPERATOR, .permissions = BERTH_MAY_ALL};
        c->actor = (struct berth_actor){.type = "user", .id = "local-board"};
        berth_http_exchange_trust(c->x, NULL);
        return BERTH_OK;
    }
    int rc = berth_token_check(c->b, &c->arena, text, &token, err);
    gate_learn(gate, c, rc, rc == BERTH_OK ? token->company_id : NULL);
    if (rc == BERTH_E_UNAUTHORIZED && c->doubtful)
        return refuse_often(err);
    if (rc < 0)
        return caller_hide(c, rc, err);
    take_token(c, token);
    berth_http_exchange_trust(c->x, token->company_id);
    return BERTH_OK;
}

int berth_api_check_token(struct berth_api_call *c, struct berth_error *err)
{
    bool alive;
    if (!c->caller.token_id)
        return BERTH_OK;
    int rc = berth_token_alive(c->b, c->caller.token_id, &alive, err);
    return rc == BERTH_OK && !alive ? caller_refuse(err) : caller_hide(c, rc, err);
}

/* --- the caller's rights --- */

/* The kind of thing that the first parameter of a path names. */
static const struct {
    const char *prefix;
    enum berth_kind kind;
} kinds[] = {{"/api/companies/:", BERTH_KIND_COMPANY},
             {"/api/environments/:", BERTH_KIND_ENVIRONMENT},
             {"/api/environment-leases/:", BERTH_KIND_LEASE},
             {"/api/runs/:", BERTH_KIND_RUN},
             {"/api/execs/:", BERTH_KIND_EXEC},
             {"/api/secrets/:", BERTH_KIND_SECRET}};

static bool kind_of(const struct berth_api_route *route, enum berth_kind *out)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strncmp(route->pattern, kinds[i].prefix, strlen(kinds[i].prefix)) == 0) {
            *out = kinds[i].kind;
            return true;
        }
    return false;
}

static bool same_id(const char *a, const char *b)
{
    return a && b && strcasecmp(a, b) == 0;
}

static int allow_run(struct berth_api_call *c, enum berth_kind kind, const char *lease_id,
                     struct berth_error *err)
{
    bool own = kind == BERTH_KIND_RUN ? same_id(c->params[0], c->caller.run_id)
                                      : same_id(lease_id, c->caller.lease_id);
    return own && c->route->run
               ? BERTH_OK
               : berth_fail(err, BERTH_E_DENIED, "A run's token sees its own run and lease only");
}

static int deny_company(const struct berth_api_call *c, struct berth_error *err)
{
    return berth_fail(err, BERTH_E_DENIED,
                      c->caller.kind == BERTH_TOKEN_AGENT
                          ? "Agent key cannot access another company"
                          : "User does not have access to this company");
}

/* Keeps the caller to its company, without telling whether an id of another company exists: all
 * companies but its own are DENIED, also those that do not exist. For another thing of another
 * company, the path is made to name nothing, and the handler answers as for any unknown id. */
static int allow_company(struct berth_api_call *c, struct berth_error *err)
{
    enum berth_kind kind;
    const char *company_id, *lease_id;
    if (!c->caller.company_id || !kind_of(c->route, &kind))
        return BERTH_OK;
    if (kind == BERTH_KIND_COMPANY && c->caller.kind != BERTH_TOKEN_RUN)
        return same_id(c->params[0], c->caller.company_id) ? BERTH_OK : deny_company(c, err);
    int rc =
        berth_id_prefix_owner(c->b, &c->arena, kind, c->params[0], &company_id, &lease_id, err);
    if (rc < 0)
        return rc;
    if (c->caller.kind == BERTH_TOKEN_RUN)
        return allow_run(c, kind, lease_id, err);
    if (company_id && !same_id(company_id, c->caller.company_id))
        c->params[0] = ID_OF_NOTHING;
    return BERTH_OK;
}

static int need(const struct berth_api_call *c, unsigned permission, struct berth_error *err)
{
    int bit = __builtin_ctz(permission);
    return c->caller.permissions & permission
               ? BERTH_OK
               : berth_fail(err, BERTH_E_DENIED, "Missing permission: %s", berth_permissions[bit]);
}

int berth_api_allow_local(const struct berth_api_call *c, bool local, struct berth_error *err)
{
    return !local || !c->caller.company_id
               ? BERTH_OK
               : berth_fail(err, BERTH_E_DENIED,
                            "Local environments are for operators of the instance: commands there "
                            "run as the daemon's user");
}

int berth_api_take_agent(const struct berth_api_call *c, const char **agent_id,
                         struct berth_error *err)
{
    const char *own = c->caller.agent_id;
    int rc = *agent_id ? berth_utf8_check_id(*agent_id, "agentId", err) : BERTH_OK;
    if (rc < 0)
        return rc;
    if (own && *agent_id && strcmp(own, *agent_id) != 0)
        return berth_fail(err, BERTH_E_DENIED, "The token is for another agent than agentId");
    if (!*agent_id)
        *agent_id = own;
    return BERTH_OK;
}

int berth_api_authorize(struct berth_api_call *c, struct berth_error *err)
{
    const struct berth_api_caller *who = &c->caller;
    bool looks = c->head->method == BERTH_HTTP_GET || c->head->method == BERTH_HTTP_HEAD;
    enum berth_api_access access = c->route->access;
    enum berth_kind kind;
    if (access == BERTH_API_OPEN)
        return BERTH_OK;
    if (who->kind == BERTH_TOKEN_RUN && (!c->route->run || !kind_of(c->route, &kind)))
        return allow_run(c, BERTH_KIND_LEASE, NULL, err);
    if (access == BERTH_API_BOARD && who->kind != BERTH_TOKEN_OPERATOR)
        return berth_fail(err, BERTH_E_DENIED, "Board access required");
    if (access == BERTH_API_INSTANCE && (who->kind != BERTH_TOKEN_OPERATOR || who->company_id))
        return berth_fail(err, BERTH_E_DENIED, "Instance access required");
    int rc = allow_company(c, err);
    if (rc < 0 || who->kind == BERTH_TOKEN_RUN)
        return rc;
    if (access == BERTH_API_MANAGE)
        return need(c, BERTH_MAY_ENVIRONMENTS, err);
    if (access == BERTH_API_BOARD && !looks)
        return need(c, BERTH_MAY_SECRETS, err);
    return access == BERTH_API_INSTANCE && !looks ? need(c, BERTH_MAY_INSTANCE, err) : BERTH_OK;
}
