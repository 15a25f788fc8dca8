/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/check_place.c - checks of places: acquire, resume, realize, find, release, destroy. */
#include <string.h>

#include "plugin/check_trial.h"

static const char *trial_realize_params(struct berth_trial *t)
{
    struct berth_json_writer w = berth_trial_open_params(t);
    berth_trial_put_lease(t, &w);
    berth_json_open_in(&w, "workspace", '{');
    berth_json_put_str(&w, "mode", "ephemeral");
    berth_json_close(&w, '}');
    return berth_trial_close_json(t, &w);
}

bool berth_check_lease(struct berth_trial *t)
{
    return berth_trial_begin(t) && berth_trial_give_back(t, "environmentReleaseLease") &&
           berth_trial_finish(t);
}

bool berth_check_double_release(struct berth_trial *t)
{
    if (!berth_trial_begin(t) || !berth_trial_give_back(t, "environmentReleaseLease"))
        return false;
    if (!berth_trial_give_back(t, "environmentReleaseLease")) {
        t->detail[0] = '\0';
        return berth_trial_wrong(t, "a second release failed; it must be a success");
    }
    return berth_trial_finish(t);
}

bool berth_check_double_destroy(struct berth_trial *t)
{
    if (!berth_trial_start(t))
        return false;
    if (!berth_trial_has(t, "environmentDestroyLease"))
        return berth_trial_skip(t, "it does not offer environmentDestroyLease");
    if (!berth_trial_acquire(t) || !berth_trial_finish(t))
        return false;
    if (!berth_trial_finish(t)) {
        t->detail[0] = '\0';
        return berth_trial_wrong(t, "a second destroy failed; an unknown place is a success");
    }
    return true;
}

static const char *trial_resume_params(struct berth_trial *t, const char *place)
{
    struct berth_json_writer w = berth_trial_open_params(t);
    berth_json_put_str(&w, "providerLeaseId", place);
    berth_json_put_raw(&w, "leaseMetadata", t->metadata ? t->metadata : "{}");
    berth_trial_put_ids(t, &w);
    return berth_trial_close_json(t, &w);
}

/* Passes when resume does not answer with a place. */
static bool resume_is_gone(struct berth_trial *t, const char *place)
{
    auto_reply r = berth_session_ask(t->s, "environmentResumeLease", trial_resume_params(t, place),
                                     BERTH_TRIAL_ASK_MS);
    if (r.kind == BERTH_REPLY_TIMEOUT || r.kind == BERTH_REPLY_GONE)
        return berth_trial_wrong(t, "resume of a place that is gone: %s", r.text);
    const char *id = berth_json_str(berth_json_get(r.result, "providerLeaseId"));
    if (r.kind == BERTH_REPLY_RESULT && id && *id)
        return berth_trial_wrong(t, "resume of a place that is gone answered with the place %.100s",
                                 id);
    return true;
}

bool berth_check_resume(struct berth_trial *t)
{
    if (!berth_trial_start(t))
        return false;
    if (!berth_trial_has(t, "environmentResumeLease"))
        return berth_trial_skip(t, "it does not offer environmentResumeLease");
    if (!berth_trial_acquire(t))
        return false;
    auto_reply r = berth_session_ask(t->s, "environmentResumeLease",
                                     trial_resume_params(t, t->place), BERTH_TRIAL_ASK_MS);
    if (!berth_trial_answered(t, "environmentResumeLease", &r))
        return false;
    const char *id = berth_json_str(berth_json_get(r.result, "providerLeaseId"));
    if (!id || !*id) /* a host destroys the place, and acquires another */
        return berth_trial_skip(t, "it does not give a place again");
    if (strcmp(id, t->place) != 0)
        return berth_trial_wrong(t, "resume of a live place answered with another place");
    return berth_trial_finish(t);
}

bool berth_check_stale_resume(struct berth_trial *t)
{
    if (!berth_trial_start(t))
        return false;
    if (!berth_trial_has(t, "environmentResumeLease") ||
        !berth_trial_has(t, "environmentDestroyLease"))
        return berth_trial_skip(t, "it does not offer resume and destroy");
    return berth_trial_acquire(t) && berth_trial_finish(t) && resume_is_gone(t, t->place) &&
           resume_is_gone(t, BERTH_TRIAL_NO_PLACE);
}

bool berth_check_realize(struct berth_trial *t)
{
    if (!berth_trial_begin(t))
        return false;
    auto_reply r = berth_session_ask(t->s, "environmentRealizeWorkspace", trial_realize_params(t),
                                     BERTH_TRIAL_ASK_MS);
    if (!berth_trial_answered(t, "environmentRealizeWorkspace", &r))
        return false;
    const char *cwd = berth_json_str(berth_json_get(r.result, "cwd"));
    if (!cwd || cwd[0] != '/')
        return berth_trial_wrong(t, "environmentRealizeWorkspace answered without an absolute cwd");
    return berth_trial_finish(t);
}

bool berth_check_find(struct berth_trial *t)
{
    bool found;
    if (!berth_trial_start(t))
        return false;
    if (!berth_trial_has(t, "environmentFindLeases"))
        return berth_trial_skip(t, "it does not offer environmentFindLeases");
    if (!berth_trial_acquire(t) || !berth_trial_find_place(t, &found))
        return false;
    if (!found)
        return berth_trial_wrong(t, "environmentFindLeases does not list what was acquired");
    if (!berth_trial_finish(t) || !berth_trial_find_place(t, &found))
        return false;
    return found ? berth_trial_wrong(t, "environmentFindLeases lists a place that was destroyed")
                 : true;
}

bool berth_check_same_lease(struct berth_trial *t)
{
    if (!berth_trial_start(t))
        return false;
    if (!berth_trial_has(t, "environmentFindLeases"))
        return berth_trial_skip(t,
                                "it does not offer environmentFindLeases, which goes with leaseId");
    if (!berth_trial_acquire(t))
        return false;
    const char *first = t->place;
    if (!berth_trial_acquire(t))
        return false;
    if (strcmp(first, t->place) != 0)
        return berth_trial_wrong(t, "acquire with the same leaseId made a second place");
    return berth_trial_finish(t);
}
