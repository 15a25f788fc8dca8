/* SPDX-License-Identifier: Apache-2.0
 * src/api/call.h - one request on its way through a handler. A resource is a file with handlers,
 * and rows in its table of routes. */
#ifndef BERTH_API_CALL_H
#define BERTH_API_CALL_H

#include "base/arena.h"
#include "base/issues.h"
#include "base/json.h"
#include "core/berth.h"
#include "core/idempotency.h"
#include "http/http.h"

#define BERTH_API_PARAMS_MAX 2

struct berth_api_call;
struct berth_api;
/* BERTH_OK: what it said is the answer; or one of the two below. */
typedef int berth_api_handler(struct berth_api_call *c, struct berth_error *err);
enum {
    BERTH_API_PASSED_ON = 1, /* somebody else answers the exchange */
    BERTH_API_KEPT = 2,      /* and the call is his, too: berth_api_answer comes, or came */
};

/* Who may: whoever may look at a thing that belongs to a company is of that company, or of the
 * instance. */
enum berth_api_access {
    BERTH_API_OPEN,     /* everybody, also without a name */
    BERTH_API_READ,     /* who is known */
    BERTH_API_MANAGE,   /* and has environments:manage */
    BERTH_API_BOARD,    /* operators; for changes, secrets:manage */
    BERTH_API_INSTANCE, /* operators of the instance; for changes, instance:manage */
};

/* With an Idempotency-Key it is done once, however often it comes. */
enum berth_api_once {
    BERTH_API_ANY = 0,     /* the key is not looked at */
    BERTH_API_ONCE,        /* what a killed daemon did is not known */
    BERTH_API_MAKES_LEASE, /* it is, and what it did not do is taken back */
};

struct berth_api_route {
    const char *method, *pattern; /* "/api/environments/:id" */
    berth_api_handler *handle;
    enum berth_api_access access;
    bool slow; /* it may call a provider */
    bool live; /* it answers over a connection: with what comes later, or bit by bit */
    bool run;  /* a run's token may, for its own */
    enum berth_api_once once;
};
/* One table for each resource, closed by an empty row. */
extern const struct berth_api_route berth_api_instance_routes[], berth_api_company_routes[],
    berth_api_environment_routes[], berth_api_lease_routes[], berth_api_secret_routes[],
    berth_api_run_routes[], berth_api_activity_routes[], berth_api_plugin_routes[],
    berth_api_token_routes[], berth_api_exec_routes[], berth_api_event_routes[],
    berth_api_metrics_routes[], berth_api_capability_routes[];

extern const struct berth_api_route *const berth_api_tables[]; /* all of them, closed by NULL */

struct berth_api_caller {
    enum berth_token_kind kind;
    const char *company_id; /* NULL: all of them */
    unsigned permissions;   /* of enum berth_permission */
    const char *run_id, *lease_id;
    const char *token_id; /* that he showed, or NULL */
};

struct berth_api_call {
    struct berth_api *api;
    struct berth *b;
    struct berth_http_exchange *x; /* NULL: it came from this process */
    const struct berth_http_head *head;
    const char *body; /* as it was sent */
    size_t body_len;
    int cancel_fd;                       /* of one from this process; see berth_api_left_fd */
    const struct berth_api_route *route; /* NULL: there is none; `allow` then has the methods */
    const char *allow;
    const char *params[BERTH_API_PARAMS_MAX]; /* of the pattern, decoded, in their order */
    struct berth_api_caller caller;
    struct berth_actor actor;      /* what is written down of him */
    struct berth_arena arena;      /* wiped: a body may hold what is to become a secret */
    struct berth_issues issues;    /* what is wrong with the body; told with the error */
    struct berth_idempotency once; /* with an Idempotency-Key */
    const char *brief;             /* kept as the answer instead of a long one, or of a stream */
    bool replayed;                 /* the answer is that of the first time */
    const char *type;              /* of what it says; NULL: JSON */
    int status;                    /* 200 unless the handler says otherwise */
    struct berth_buf out;
    struct berth_json_writer w; /* into it */
};

/* Answers, and frees the call. From any thread. */
void berth_api_answer(struct berth_api_call *c, int rc, const struct berth_error *err);

/* Keeps what is said as the answer to the Idempotency-Key; berth_api_answer does it otherwise, but
 * blocks. */
void berth_api_keep_answer(struct berth_api_call *c);
/* The same for an answer that is a stream, before that begins: it may end before we go on. */
void berth_api_keep_stream(struct berth_api_call *c);
/* Frees it: somebody else answers the exchange. */
void berth_api_pass_on(struct berth_api_call *c);

/* --- what was sent --- */

enum berth_api_type {
    BERTH_API_TEXT,
    BERTH_API_OBJECT, /* as JSON text */
    BERTH_API_FLAG,
    BERTH_API_NUMBER, /* whole, 0 or more: an int64_t */
    BERTH_API_WORD,   /* one of `words`: an int */
    BERTH_API_TEXTS,  /* an array of them: a berth_list */
    BERTH_API_PAIRS,  /* an object of texts: a berth_list of "name=text" */
};
struct berth_api_field {
    const char *name;
    enum berth_api_type type;
    size_t offset; /* in the struct: const char *, bool, int64_t, int or struct berth_list */
    bool required, nullable;
    const char *const *words;
};
/* Fills the struct by the table, which is closed by an empty row; *given has a bit for each row
 * that was there (also as null). INVALID: all that is wrong is in c->issues. An absent body is {}.
 */
int berth_api_body(struct berth_api_call *c, const struct berth_api_field *fields, void *out,
                   unsigned *given, struct berth_error *err);
extern const struct berth_api_field berth_api_nothing[]; /* of those that have no body */
/* A part of a target, of which the reader has seen that it is well-formed; `form`: "+" is a blank.
 */
const char *berth_api_decode(struct berth_arena *arena, const char *text, size_t len, bool form);
/* -1: it is none of them. */
int berth_api_find_word(const char *const *words, const char *text);
/* Becomes readable when nobody waits for the answer any more; -1: never. */
int berth_api_left_fd(const struct berth_api_call *c);
bool berth_api_wants_events(const struct berth_api_call *c); /* Accept: text/event-stream */
/* Last-Event-ID: what a reader who comes back has seen. False: he has not, or the id is not ours.
 */
bool berth_api_last_event(const struct berth_api_call *c, int64_t *out);
/* Of the query, decoded, in the arena; NULL: it is not there. */
const char *berth_api_query(struct berth_api_call *c, const char *name);
/* A whole number between these; `otherwise` when it is not there. */
int berth_api_query_number(struct berth_api_call *c, const char *name, int64_t min, int64_t max,
                           int64_t otherwise, int64_t *out, struct berth_error *err);
/* How many rows of a list are wanted, by `limit`. */
int berth_api_query_limit(struct berth_api_call *c, int *out, struct berth_error *err);
/* NULL: it is not there. What is no id is INVALID. */
int berth_api_query_id(struct berth_api_call *c, const char *name, const char **out,
                       struct berth_error *err);
/* ?name=true or false, which it is when it is not there; anything else is INVALID. */
int berth_api_query_flag(struct berth_api_call *c, const char *name, bool *out,
                         struct berth_error *err);
/* -1: it is not there. UNKNOWN words are INVALID. */
int berth_api_query_word(struct berth_api_call *c, const char *name, const char *const *words,
                         int *out, struct berth_error *err);

/* --- what is said --- */

void berth_api_say_ok(struct berth_api_call *c); /* {"ok":true} */
typedef void berth_api_item_fn(struct berth_json_writer *w, const void *item);
void berth_api_say_list(struct berth_api_call *c, const struct berth_list *list,
                        berth_api_item_fn *each);
/* Of a whole list the rows that ?limit= and ?before= ask for; without a limit all. `id_at`: where
 * an item has the pointer to its id. */
int berth_api_say_page(struct berth_api_call *c, const struct berth_list *all, size_t id_at,
                       berth_api_item_fn *each, struct berth_error *err);
#endif
