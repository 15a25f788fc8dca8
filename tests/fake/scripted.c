/* SPDX-License-Identifier: Apache-2.0
 * tests/fake/scripted.c - see scripted.h. */
#include "scripted.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/failpoint.h"
#include "base/id.h"
#include "base/json.h"
#include "base/time.h"

#define SCHEME "scripted://"
#define POLL_MS 5 /* the movable clock is looked at that often */
#define AWAIT_S 60

struct place {
    char label[BERTH_ID_SIZE]; /* the lease id */
    char environment[64];
    bool parked;
    struct place *next;
};

struct scripted {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct scripted_act acts[SCRIPTED_OPS]; /* their texts are ours */
    int calls[SCRIPTED_OPS], hanging[SCRIPTED_OPS];
    char *configs[SCRIPTED_OPS]; /* of the newest call */
    int went_on;                 /* how often scripted_go_on was called */
    struct place *places;
};

struct scripted_driver {
    struct berth_driver base;
    struct scripted *world;
};

/* --- the test's side --- */

static void clear_act(struct scripted_act *act)
{
    free((char *)(uintptr_t)act->text);
    free((char *)(uintptr_t)act->where);
    free((char *)(uintptr_t)act->id);
    free((char *)(uintptr_t)act->metadata);
    free((char *)(uintptr_t)act->summary);
    free((char *)(uintptr_t)act->details);
    free((char *)(uintptr_t)act->environment);
    *act = (struct scripted_act){0};
}

static const char *copy(const char *text)
{
    return text ? strdup(text) : NULL;
}

struct scripted *scripted_new(void)
{
    struct scripted *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &attr);
    pthread_condattr_destroy(&attr);
    return s;
}

void scripted_free(struct scripted *s)
{
    if (!s)
        return;
    for (int i = 0; i < SCRIPTED_OPS; i++) {
        clear_act(&s->acts[i]);
        free(s->configs[i]);
    }
    for (struct place *p = s->places, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    free(s);
}

void scripted_set(struct scripted *s, enum scripted_op op, struct scripted_act act)
{
    act.text = copy(act.text);
    act.where = copy(act.where);
    act.id = copy(act.id);
    act.metadata = copy(act.metadata);
    act.summary = copy(act.summary);
    act.details = copy(act.details);
    act.environment = copy(act.environment);
    pthread_mutex_lock(&s->lock);
    clear_act(&s->acts[op]);
    s->acts[op] = act;
    pthread_mutex_unlock(&s->lock);
}

void scripted_go_on(struct scripted *s)
{
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < SCRIPTED_OPS; i++)
        clear_act(&s->acts[i]);
    s->went_on++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static struct timespec await_limit(void)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += AWAIT_S;
    return until;
}

bool scripted_await(struct scripted *s, enum scripted_op op, int hanging)
{
    struct timespec until = await_limit();
    pthread_mutex_lock(&s->lock);
    int rc = 0;
    while (s->hanging[op] < hanging && rc == 0)
        rc = pthread_cond_timedwait(&s->changed, &s->lock, &until);
    bool reached = s->hanging[op] >= hanging;
    pthread_mutex_unlock(&s->lock);
    return reached;
}

int scripted_calls(struct scripted *s, enum scripted_op op)
{
    pthread_mutex_lock(&s->lock);
    int calls = s->calls[op];
    pthread_mutex_unlock(&s->lock);
    return calls;
}

char *scripted_config(struct scripted *s, enum scripted_op op)
{
    pthread_mutex_lock(&s->lock);
    char *config = s->configs[op] ? strdup(s->configs[op]) : NULL;
    pthread_mutex_unlock(&s->lock);
    return config;
}

/* Lock held. */
static int count_places(const struct scripted *s)
{
    int count = 0;
    for (const struct place *p = s->places; p; p = p->next)
        count++;
    return count;
}

int scripted_count(struct scripted *s)
{
    pthread_mutex_lock(&s->lock);
    int count = count_places(s);
    pthread_mutex_unlock(&s->lock);
    return count;
}

bool scripted_await_count(struct scripted *s, int places)
{
    struct timespec until = await_limit();
    pthread_mutex_lock(&s->lock);
    int rc = 0;
    while (count_places(s) > places && rc == 0)
        rc = pthread_cond_timedwait(&s->changed, &s->lock, &until);
    bool reached = count_places(s) <= places;
    pthread_mutex_unlock(&s->lock);
    return reached;
}

/* Lock held. */
static struct place **find_label(struct scripted *s, const char *label)
{
    struct place **at = &s->places;
    while (*at && strcmp((*at)->label, label) != 0)
        at = &(*at)->next;
    return at;
}

bool scripted_has_label(struct scripted *s, const char *lease_id)
{
    pthread_mutex_lock(&s->lock);
    bool has = *find_label(s, lease_id) != NULL;
    pthread_mutex_unlock(&s->lock);
    return has;
}

bool scripted_has(struct scripted *s, const char *place_id)
{
    return strncmp(place_id, SCHEME, strlen(SCHEME)) == 0 &&
           scripted_has_label(s, place_id + strlen(SCHEME));
}

/* --- the script --- */

/* The act of this call, with texts in its arena; counted. */
static struct scripted_act begin(struct scripted *s, enum scripted_op op,
                                 const struct berth_call *call, const char *environment,
                                 const char *config)
{
    pthread_mutex_lock(&s->lock);
    s->calls[op]++;
    free(s->configs[op]);
    s->configs[op] = strdup(config);
    struct scripted_act act = s->acts[op];
    if (act.environment && (!environment || strcmp(act.environment, environment) != 0))
        act = (struct scripted_act){0};
    act.began = s->went_on;
    act.text = berth_arena_strdup(call->arena, act.text);
    act.where = berth_arena_strdup(call->arena, act.where);
    act.id = berth_arena_strdup(call->arena, act.id);
    act.metadata = berth_arena_strdup(call->arena, act.metadata);
    act.summary = berth_arena_strdup(call->arena, act.summary);
    act.details = berth_arena_strdup(call->arena, act.details);
    pthread_mutex_unlock(&s->lock);
    return act;
}

static void hangs(struct scripted *s, enum scripted_op op, int by)
{
    pthread_mutex_lock(&s->lock);
    s->hanging[op] += by;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static int hang(struct scripted *s, enum scripted_op op, const struct berth_call *call,
                struct berth_error *err)
{
    hangs(s, op, 1);
    int rc = BERTH_OK;
    while (rc == BERTH_OK) {
        struct pollfd cancel = {.fd = call->cancel_fd, .events = POLLIN};
        if (poll(&cancel, 1, POLL_MS) > 0)
            rc = berth_fail(err, BERTH_E_CANCELLED, "scripted: the caller gave up");
        else if (berth_time_mono_ms() >= call->deadline_ms)
            rc = berth_fail(err, BERTH_E_TIMEOUT, "scripted: the deadline passed");
    }
    hangs(s, op, -1);
    return rc;
}

static void stall(struct scripted *s, enum scripted_op op, const struct scripted_act *act)
{
    hangs(s, op, 1);
    pthread_mutex_lock(&s->lock);
    while (s->went_on == act->began)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    hangs(s, op, -1);
}

static int misbehave(struct scripted *s, enum scripted_op op, const struct scripted_act *act,
                     const struct berth_call *call, struct berth_error *err)
{
    switch (act->mode) {
    case SCRIPTED_FAIL:
        (void)berth_fail(err, act->code, "%s", act->text ? act->text : "scripted: told to fail");
        return act->where ? berth_wrap(err, "%s", act->where) : err->code;
    case SCRIPTED_HANG:
        return hang(s, op, call, err);
    case SCRIPTED_STALL:
        stall(s, op, act);
        break;
    case SCRIPTED_SUCCEED:
        break;
    }
    return BERTH_OK;
}

/* What goes wrong before the work is done. */
static int before(struct scripted *s, enum scripted_op op, const struct scripted_act *act,
                  const struct berth_call *call, struct berth_error *err)
{
    return act->after ? BERTH_OK : misbehave(s, op, act, call, err);
}

static int after(struct scripted *s, enum scripted_op op, const struct scripted_act *act,
                 const struct berth_call *call, struct berth_error *err)
{
    int rc = act->after ? misbehave(s, op, act, call, err) : BERTH_OK;
    if (act->then_fail_query)
        berth_failpoint_arm_query(act->then_fail_query);
    return rc;
}

/* --- the provider's side --- */

static struct scripted *world_of(struct berth_driver *d)
{
    return ((struct scripted_driver *)d)->world;
}

static void make_place(struct scripted *s, const struct berth_place_request *who)
{
    pthread_mutex_lock(&s->lock);
    if (!*find_label(s, who->lease_id)) {
        struct place *p = calloc(1, sizeof *p);
        if (!p)
            abort();
        (void)snprintf(p->label, sizeof p->label, "%s", who->lease_id);
        (void)snprintf(p->environment, sizeof p->environment, "%s", who->environment_id);
        p->next = s->places;
        s->places = p;
    }
    pthread_mutex_unlock(&s->lock);
}

static void end_place(struct scripted *s, const char *label)
{
    pthread_mutex_lock(&s->lock);
    struct place **at = find_label(s, label), *p = *at;
    if (p)
        *at = p->next;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    free(p);
}

/* The label behind a place's id; a place without id goes by its lease. */
static const char *label_of(const struct berth_place_request *who, const struct berth_place *place)
{
    if (!place->id)
        return who->lease_id;
    return strncmp(place->id, SCHEME, strlen(SCHEME)) == 0 ? place->id + strlen(SCHEME) : "";
}

static int answer(const struct scripted_act *act, struct berth_call *call, const char *label,
                  struct berth_place *out, struct berth_error *err)
{
    out->id = act->no_id ? NULL
              : act->id  ? act->id
                         : berth_arena_printf(call->arena, SCHEME "%s", label);
    out->metadata_json = act->metadata
                             ? act->metadata
                             : berth_arena_printf(call->arena, "{\"sandboxId\":\"%s\"}", label);
    out->expires_at_ms = act->expires_at_ms;
    return berth_arena_check(call->arena, err);
}

static int scripted_validate(struct berth_driver *d, struct berth_call *call,
                             const char *config_json, enum berth_config_use use,
                             struct berth_issues *issues, const char **normalised,
                             struct berth_error *err)
{
    (void)use;
    (void)issues;
    struct scripted *s = world_of(d);
    struct scripted_act act = begin(s, SCRIPTED_VALIDATE, call, NULL, config_json);
    *normalised = config_json;
    int rc = before(s, SCRIPTED_VALIDATE, &act, call, err);
    return rc < 0 ? rc : after(s, SCRIPTED_VALIDATE, &act, call, err);
}

static int scripted_probe(struct berth_driver *d, struct berth_call *call,
                          const struct berth_place_request *who, struct berth_probe *out,
                          struct berth_error *err)
{
    struct scripted *s = world_of(d);
    struct scripted_act act = begin(s, SCRIPTED_PROBE, call, who->environment_id, who->config_json);
    int rc = before(s, SCRIPTED_PROBE, &act, call, err);
    if (rc < 0)
        return rc;
    make_place(s, who);
    end_place(s, who->lease_id);
    *out =
        (struct berth_probe){.ok = true,
                             .summary = act.summary ? act.summary : "The script can be followed.",
                             .details_json = act.details};
    return after(s, SCRIPTED_PROBE, &act, call, err);
}

static int scripted_acquire(struct berth_driver *d, struct berth_call *call,
                            const struct berth_place_request *who, struct berth_place *out,
                            struct berth_error *err)
{
    struct scripted *s = world_of(d);
    struct scripted_act act =
        begin(s, SCRIPTED_ACQUIRE, call, who->environment_id, who->config_json);
    int rc = before(s, SCRIPTED_ACQUIRE, &act, call, err);
    if (rc < 0)
        return rc;
    if (!act.makes_nothing)
        make_place(s, who);
    rc = after(s, SCRIPTED_ACQUIRE, &act, call, err);
    return rc < 0 ? rc : answer(&act, call, who->lease_id, out, err);
}

static int scripted_resume(struct berth_driver *d, struct berth_call *call,
                           const struct berth_place_request *who, const struct berth_place *place,
                           struct berth_place *out, struct berth_error *err)
{
    struct scripted *s = world_of(d);
    struct scripted_act act =
        begin(s, SCRIPTED_RESUME, call, who->environment_id, who->config_json);
    int rc = before(s, SCRIPTED_RESUME, &act, call, err);
    if (rc < 0)
        return rc;
    const char *label = label_of(who, place);
    pthread_mutex_lock(&s->lock);
    struct place *p = *find_label(s, label);
    if (p)
        p->parked = false;
    pthread_mutex_unlock(&s->lock);
    rc = after(s, SCRIPTED_RESUME, &act, call, err);
    if (rc < 0 || !p)
        return rc; /* gone is an answer */
    return answer(&act, call, label, out, err);
}

static int scripted_realize(struct berth_driver *d, struct berth_call *call,
                            const struct berth_place_request *who, const struct berth_place *place,
                            const struct berth_workspace *workspace, struct berth_realized *out,
                            struct berth_error *err)
{
    (void)place;
    struct scripted *s = world_of(d);
    struct scripted_act act =
        begin(s, SCRIPTED_REALIZE, call, who->environment_id, who->config_json);
    int rc = before(s, SCRIPTED_REALIZE, &act, call, err);
    if (rc < 0)
        return rc;
    const char *cwd = workspace->remote_path ? workspace->remote_path : "/workspace";
    out->cwd = berth_arena_strdup(call->arena, act.summary ? act.summary : cwd);
    out->metadata_json = act.metadata;
    return after(s, SCRIPTED_REALIZE, &act, call, err);
}

static int scripted_destroy(struct scripted *s, struct berth_call *call,
                            const struct berth_place_request *who, const struct berth_place *place,
                            struct berth_error *err)
{
    struct scripted_act act =
        begin(s, SCRIPTED_DESTROY, call, who->environment_id, who->config_json);
    int rc = before(s, SCRIPTED_DESTROY, &act, call, err);
    if (rc < 0)
        return rc;
    end_place(s, label_of(who, place));
    return after(s, SCRIPTED_DESTROY, &act, call, err);
}

static bool config_reuses(const char *config_json)
{
    auto_json *config = NULL;
    struct berth_error ignored;
    return berth_json_parse(config_json, strlen(config_json), BERTH_JSON_OURS, &config, &ignored) ==
               BERTH_OK &&
           berth_json_true(berth_json_get(config, "reuseLease"));
}

static int scripted_release(struct berth_driver *d, struct berth_call *call,
                            const struct berth_place_request *who, const struct berth_place *place,
                            enum berth_release_mode mode, struct berth_error *err)
{
    struct scripted *s = world_of(d);
    if (mode == BERTH_RELEASE_DESTROY)
        return scripted_destroy(s, call, who, place, err);
    struct scripted_act act =
        begin(s, SCRIPTED_RELEASE, call, who->environment_id, who->config_json);
    int rc = before(s, SCRIPTED_RELEASE, &act, call, err);
    if (rc < 0)
        return rc;
    if (place->id && config_reuses(who->config_json)) {
        pthread_mutex_lock(&s->lock);
        struct place *p = *find_label(s, label_of(who, place));
        if (p)
            p->parked = true;
        pthread_mutex_unlock(&s->lock);
    } else {
        end_place(s, label_of(who, place));
    }
    return after(s, SCRIPTED_RELEASE, &act, call, err);
}

/* Copies first: `each` is told without the lock. */
static int scripted_find(struct berth_driver *d, struct berth_call *call,
                         const struct berth_place_request *who, berth_found_fn *each, void *ctx,
                         struct berth_error *err)
{
    struct scripted *s = world_of(d);
    struct scripted_act act = begin(s, SCRIPTED_FIND, call, who->environment_id, who->config_json);
    int rc = before(s, SCRIPTED_FIND, &act, call, err);
    if (rc < 0)
        return rc;
    struct berth_list labels = {0};
    pthread_mutex_lock(&s->lock);
    for (struct place *p = s->places; p; p = p->next)
        if (strcmp(p->environment, who->environment_id) == 0)
            (void)berth_list_add(&labels, call->arena, berth_arena_strdup(call->arena, p->label));
    pthread_mutex_unlock(&s->lock);
    rc = berth_arena_check(call->arena, err);
    for (int i = 0; rc == BERTH_OK && i < labels.count; i++) {
        char id[sizeof SCHEME + BERTH_ID_SIZE];
        (void)snprintf(id, sizeof id, SCHEME "%.36s", (const char *)labels.items[i]);
        rc = each(ctx, labels.items[i], act.id ? act.id : id, err);
    }
    return rc < 0 ? rc : after(s, SCRIPTED_FIND, &act, call, err);
}

static void scripted_driver_free(struct berth_driver *d)
{
    free(d);
}

static const struct berth_driver_ops scripted_ops = {
    .validate = scripted_validate,
    .probe = scripted_probe,
    .acquire = scripted_acquire,
    .resume = scripted_resume,
    .realize = scripted_realize,
    .release = scripted_release,
    .free = scripted_driver_free,
};

static const struct berth_driver_finder scripted_finder = {.find = scripted_find};
static const struct berth_driver_traits finding_traits = {
    .name = "scripted", .config_schema = SCRIPTED_SCHEMA, .finder = &scripted_finder};
/* Most providers cannot be asked by label. */
static const struct berth_driver_traits blind_traits = {.name = "scripted",
                                                        .config_schema = SCRIPTED_SCHEMA};

int scripted_driver(struct scripted *s, bool finds, struct berth_driver **out,
                    struct berth_error *err)
{
    struct scripted_driver *driver = calloc(1, sizeof *driver);
    if (!driver)
        return berth_fail(err, BERTH_E_NO_MEMORY, "scripted");
    driver->base.ops = &scripted_ops;
    driver->base.traits = finds ? &finding_traits : &blind_traits;
    driver->world = s;
    *out = &driver->base;
    return BERTH_OK;
}
