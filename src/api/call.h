/* SPDX-License-Identifier: Apache-2.0
 * src/api/call.h - one request on its way through a handler. A resource is a file with handlers,
 * and rows in its table of routes. */
#ifndef BERTH_API_CALL_H
#define BERTH_API_CALL_H

#include "api/guard.h"
#include "base/arena.h"
#include "base/issues.h"
#include "base/json.h"
#include "core/berth.h"
#include "core/idempotency.h"
#include "http/http.h"
#include "os/engine.h"

#define BERTH_API_PARAMS_MAX 2
#define BERTH_API_TURN_SIZE 17

struct berth_api_call;
struct berth_api;
/* Handles one request. Returns BERTH_OK when c->out holds the answer, an error code, or one of the
 * two values below. */
typedef int berth_api_handler(struct berth_api_call *c, struct berth_error *err);
enum {
    BERTH_API_PASSED_ON = 1, /* another component answers the exchange */
    BERTH_API_KEPT = 2,      /* the same, and that component calls berth_api_answer, or did */
};

/* Who may use a route. A thing that belongs to a company is visible to callers of that company and
 * to callers of the instance. */
enum berth_api_access {
    BERTH_API_OPEN,     /* every caller, also without a token */
    BERTH_API_READ,     /* authenticated callers */
    BERTH_API_MANAGE,   /* callers that have environments:manage */
    BERTH_API_BOARD,    /* operators; for changes, secrets:manage */
    BERTH_API_INSTANCE, /* operators of the instance; for changes, instance:manage */
};

/* How a route treats an Idempotency-Key. A request with a key is performed once, however often it
 * is sent. */
enum berth_api_once {
    BERTH_API_ANY = 0,     /* the key is ignored */
    BERTH_API_ONCE,        /* the outcome is unknown when the daemon was killed meanwhile */
    BERTH_API_MAKES_LEASE, /* the lease's row tells the outcome; an unfinished lease is released */
};

struct berth_api_route {
    const char *method, *pattern; /* "/api/environments/:id" */
    berth_api_handler *handle;
    enum berth_api_access access;
    bool slow;    /* the handler takes long, or may wait for a plugin (berth_api_at_instance) */
    bool here;    /* the handler never blocks: it runs on the loop's thread */
    bool live;    /* needs a connection: the answer comes later, or as a stream */
    bool streams; /* the handler reads the body itself, piece by piece (stream/pipe.h) */
    bool run;     /* a run's token may use it for its own run and lease */
    enum berth_api_once once;
    const char *query; /* names of the parameters of its query, "limit before"; NULL: it has none */
};
/* One table for each resource, closed by an empty row. */
extern const struct berth_api_route berth_api_instance_routes[], berth_api_company_routes[],
    berth_api_environment_routes[], berth_api_lease_routes[], berth_api_secret_routes[],
    berth_api_run_routes[], berth_api_activity_routes[], berth_api_plugin_routes[],
    berth_api_token_routes[], berth_api_exec_routes[], berth_api_event_routes[],
    berth_api_metrics_routes[], berth_api_capability_routes[], berth_api_file_routes[],
    berth_api_place_script_routes[];

extern const struct berth_api_route *const berth_api_tables[]; /* all of them, closed by NULL */

struct berth_api_caller {
    enum berth_token_kind kind;
    const char *company_id; /* NULL: all of them */
    unsigned permissions;   /* of enum berth_permission */
    const char *run_id, *lease_id;
    const char *agent_id; /* the agent that the token was made for, or NULL */
    const char *token_id; /* of the token in the request, or NULL */
};

struct berth_api_call {
    struct berth_api *api;
    struct berth *b;
    struct berth_http_exchange *x; /* NULL: the call came from this process */
    const struct berth_http_head *head;
    const char *body; /* as it was sent */
    size_t body_len;
    int cancel_fd;                       /* of a call from this process; see berth_api_left_fd */
    const struct berth_api_route *route; /* NULL: none matches; `allow` lists the methods */
    const char *allow;
    const char *params[BERTH_API_PARAMS_MAX]; /* of the pattern, decoded, in their order */
    uint64_t token_hash;                      /* a part of it */
    char turn[BERTH_API_TURN_SIZE];           /* whose turn it takes; see berth_api_gate_look */
    size_t bucket;                            /* where failed attempts of this client count */
    bool doubtful;                            /* see berth_api_gate_look */
    bool counted;                             /* as a failed attempt, until its token is found */
    bool admitted;                            /* the caller is known and may use the route */
    struct berth_api_call *next;              /* among those that wait for their token's lookup */
    struct berth_post post;                   /* brings an admitted call back to the loop */
    struct berth_api_guarded guarded;         /* while it waits; see berth_api_call_wait */
    struct berth_api_caller caller;
    struct berth_actor actor;      /* the caller, as the activity log records it */
    struct berth_arena arena;      /* wiped when freed: a body may hold a secret's value */
    struct berth_issues issues;    /* faults of the body; sent with the error */
    struct berth_idempotency once; /* used with an Idempotency-Key */
    const char *brief;             /* stored as the answer when that is long, or a stream */
    bool replayed;                 /* the answer is the stored one of the first request */
    const char *type;              /* content type of the answer; NULL: JSON */
    const char *fixed; /* the answer, instead of `out`: bytes that never change; or NULL */
    size_t fixed_len;
    int status; /* 200 unless the handler says otherwise */
    struct berth_buf out;
    struct berth_json_writer w; /* into it */
    berth_api_handler *then;    /* goes on with the call in place_call.c */
    void *state;                /* for `then`, in the arena */
};

/* Allocates c->state, zeroed, and returns it; NULL without memory, which the arena remembers. */
void *berth_api_state(struct berth_api_call *c, size_t size);
/* Ends the call as the return value of a handler says. */
void berth_api_end_call(struct berth_api_call *c, int rc, const struct berth_error *err);

/* Answers, and frees the call. From any thread. */
void berth_api_answer(struct berth_api_call *c, int rc, const struct berth_error *err);

/* Stores the answer under the Idempotency-Key. Blocks. berth_api_answer calls it unless the handler
 * has. */
void berth_api_keep_answer(struct berth_api_call *c);
/* Stores the answer of a stream. Call it before the stream begins, because the stream may end at
 * any time after that. */
void berth_api_keep_stream(struct berth_api_call *c);
/* Frees the call without answering; another component answers the exchange. */
void berth_api_pass_on(struct berth_api_call *c);

/* A call may wait long: for its body, for the end of a command, for room in a standard input.
 * Between these two it is refused (401) as soon as its token is not good any more, and learns that
 * its client has left. Both on the loop's thread; the second one before the call is answered, and
 * twice is fine. */
void berth_api_call_wait(struct berth_api_call *c);
void berth_api_call_go_on(struct berth_api_call *c);

/* --- the request --- */

enum berth_api_type {
    BERTH_API_TEXT,
    BERTH_API_OBJECT, /* as JSON text */
    BERTH_API_FLAG,
    BERTH_API_NUMBER,  /* whole, 0 or more: an int64_t */
    BERTH_API_WORD,    /* one of `words`: an int */
    BERTH_API_TEXTS,   /* an array of them: a berth_list */
    BERTH_API_PAIRS,   /* an object of texts: a berth_list of "name=text" */
    BERTH_API_OBJECTS, /* an array of objects: a berth_list of JSON texts */
};
struct berth_api_field {
    const char *name;
    enum berth_api_type type;
    size_t offset; /* in the struct: const char *, bool, int64_t, int or struct berth_list */
    bool required, nullable;
    const char *const *words;
};
/* Fills the struct `out` from the body, by a table that ends with an empty row. *given has a bit
 * for each field that the body contains, also as null. INVALID: the faults are in c->issues. An
 * absent body counts as {}. */
int berth_api_body(struct berth_api_call *c, const struct berth_api_field *fields, void *out,
                   unsigned *given, struct berth_error *err);
/* Does the same for a member that was read as BERTH_API_OBJECT. NULL: nothing is filled. */
int berth_api_object(struct berth_api_call *c, const char *json,
                     const struct berth_api_field *fields, void *out, struct berth_error *err);
extern const struct berth_api_field berth_api_nothing[]; /* fields of routes that take no body */
/* Decodes the percent escapes of a part of a target. The HTTP reader has checked that they are
 * well-formed. With `form`, "+" is a blank. */
const char *berth_api_decode(struct berth_arena *arena, const char *text, size_t len, bool form);
/* Returns the index of the text in `words`, or -1 when it is not one of them. */
int berth_api_find_word(const char *const *words, const char *text);
/* Returns a descriptor that becomes readable when the client is gone or the call is cancelled; -1:
 * never. */
int berth_api_left_fd(const struct berth_api_call *c);
bool berth_api_wants_events(const struct berth_api_call *c); /* Accept: text/event-stream */
/* Reads Last-Event-ID, the last event that a returning client has received. *out stays as it is
 * when the header is absent. INVALID: it is not a number. */
int berth_api_last_event(const struct berth_api_call *c, int64_t *out, struct berth_error *err);
/* Checks the names in the query against c->route. INVALID: a name is unknown or given twice; the
 * faults are in c->issues. */
int berth_api_check_query(struct berth_api_call *c, struct berth_error *err);
/* Returns a parameter of the query, decoded, in the arena; NULL when it is absent. "?name" counts
 * as "?name=". */
const char *berth_api_query(struct berth_api_call *c, const char *name);
/* Reads a whole number from `min` to `max`; *out is `otherwise` when the parameter is absent. */
int berth_api_query_number(struct berth_api_call *c, const char *name, int64_t min, int64_t max,
                           int64_t otherwise, int64_t *out, struct berth_error *err);
/* Reads `limit`, the number of rows that the client wants. */
int berth_api_query_limit(struct berth_api_call *c, int *out, struct berth_error *err);
/* Reads an id; *out is NULL when the parameter is absent. INVALID: the text is not an id. */
int berth_api_query_id(struct berth_api_call *c, const char *name, const char **out,
                       struct berth_error *err);
/* Reads `limit` and `before` of a list that comes whole without a limit. */
int berth_api_query_page(struct berth_api_call *c, struct berth_page *out, struct berth_error *err);
/* Reads ?name=true or ?name=false; *out is false when the parameter is absent. INVALID: any other
 * text. */
int berth_api_query_flag(struct berth_api_call *c, const char *name, bool *out,
                         struct berth_error *err);
/* Reads one of `words`; *out is its index, or -1 when the parameter is absent. INVALID: any other
 * text. */
int berth_api_query_word(struct berth_api_call *c, const char *name, const char *const *words,
                         int *out, struct berth_error *err);

/* --- the answer --- */

void berth_api_say_ok(struct berth_api_call *c); /* {"ok":true} */
typedef void berth_api_item_fn(struct berth_json_writer *w, const void *item);
void berth_api_say_list(struct berth_api_call *c, const struct berth_list *list,
                        berth_api_item_fn *each);
#endif
