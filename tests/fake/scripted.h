/* SPDX-License-Identifier: Apache-2.0
 * tests/fake/scripted.h - a provider that does at each call what the test told it: succeed, fail,
 * hang or lie. Every function may be called from any thread. */
#ifndef BERTH_TESTS_SCRIPTED_H
#define BERTH_TESTS_SCRIPTED_H

#include <berth/driver.h>

/* The provider's own side: places, script and counts. It belongs to the test and outlives the
 * drivers, as a real provider does, so that a runtime can be closed and opened upon it. A place's
 * id is "scripted://<lease id>"; reuseLease in the config parks it at release. */
struct scripted;

enum scripted_op {
    SCRIPTED_VALIDATE,
    SCRIPTED_PROBE,
    SCRIPTED_ACQUIRE,
    SCRIPTED_RESUME,
    SCRIPTED_REALIZE,
    SCRIPTED_RELEASE,
    SCRIPTED_DESTROY,
    SCRIPTED_FIND,
    SCRIPTED_OPS,
};

enum scripted_mode {
    SCRIPTED_SUCCEED,
    SCRIPTED_FAIL,  /* with `code` and `text` */
    SCRIPTED_HANG,  /* until the deadline or the cancel of the call */
    SCRIPTED_STALL, /* deaf to both, until scripted_go_on; then it succeeds */
};

/* What one operation does from now on. Texts are copied. */
struct scripted_act {
    enum scripted_mode mode;
    int code;
    const char *text;
    bool after;        /* what was asked for is done first, only its answer is lost, or late */
    const char *where; /* FAIL: goes into the error's `where` */
    /* What acquire and resume answer instead of the truth; find its id, realize its metadata. */
    bool no_id;
    const char *id, *metadata;
    const char *summary, *details; /* of a probe; summary: the cwd of a realize, too */
    int64_t expires_at_ms;
    bool makes_nothing;      /* acquire answers, but no place was made */
    int then_fail_query;     /* n: the n-th query after the call fails */
    const char *environment; /* only there; others succeed. NULL: everywhere */
    int began;               /* set by the provider: the number of scripted_go_on before the call */
};

/* What every driver onto it says of its config. */
#define SCRIPTED_SCHEMA                                                                            \
    "{\"properties\":{\"apiKey\":{\"type\":\"string\",\"format\":\"secret-ref\"},"                 \
    "\"auth\":{\"properties\":{\"token\":{\"format\":\"secret-ref\"}}}}}"

struct scripted *scripted_new(void);
void scripted_free(struct scripted *s); /* after the last of its drivers; NULL is fine */
/* A driver onto it, for a registry; without `finds` its provider cannot be asked by label. */
int scripted_driver(struct scripted *s, bool finds, struct berth_driver **out,
                    struct berth_error *err);

void scripted_set(struct scripted *s, enum scripted_op op, struct scripted_act act);
/* Everything succeeds from now on, what stalls too. */
void scripted_go_on(struct scripted *s);
/* Waits until `count` calls of that kind hang or stall. Returns false after a minute. */
bool scripted_await(struct scripted *s, enum scripted_op op, int hanging);

int scripted_calls(struct scripted *s, enum scripted_op op);
/* The config that the newest call of that kind was given, or NULL; the caller's. */
char *scripted_config(struct scripted *s, enum scripted_op op);
int scripted_count(struct scripted *s); /* places */
/* Waits until at most that many places are left. Returns false after a minute. */
bool scripted_await_count(struct scripted *s, int places);
bool scripted_has(struct scripted *s, const char *place_id);
bool scripted_has_label(struct scripted *s, const char *lease_id);
#endif
