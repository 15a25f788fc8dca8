/* SPDX-License-Identifier: Apache-2.0
 * src/core/sweep/sweep_verdict.c - see sweep_verdict.h. */
#include "core/sweep/sweep_verdict.h"

#include <assert.h>

#include "core/lease/node.h"
#include "core/run/run.h"

/* Sets *out when the process that performed the ended run is still giving back the run's leases. */
static int is_giving_back(struct berth *b, const struct berth_standing *s, bool *out,
                          struct berth_error *err)
{
    *out = false;
    if (s->status != BERTH_LEASE_ACTIVE || s->run_status < 0 || !berth_run_ended(s->run_status))
        return BERTH_OK;
    return berth_node_at_work(b->node, s->run_owner, s->run_id, 0, out, err);
}

static struct berth_sweep_verdict judge_active(const struct berth_standing *s, int64_t now_ms,
                                               struct berth_sweep_report *r)
{
    /* An active lease has an owner only when it was opened again to fetch its work, which a client
     * of a daemon may do long after its run. Its deadline is near. */
    if (s->has_work && s->owner && s->due_at_ms > now_ms)
        return (struct berth_sweep_verdict){BERTH_VERDICT_LEAVE};
    if (s->run_status == BERTH_RUN_STATUS_GONE)
        return (struct berth_sweep_verdict){BERTH_VERDICT_RELEASE, BERTH_LEASE_FAILED, "run_gone",
                                            &r->released};
    if (s->run_status >= 0 && berth_run_ended(s->run_status))
        return (struct berth_sweep_verdict){
            BERTH_VERDICT_RELEASE, berth_run_lease_status(s->run_status), NULL, &r->released};
    if (s->due_at_ms <= now_ms)
        return (struct berth_sweep_verdict){BERTH_VERDICT_RELEASE, BERTH_LEASE_EXPIRED, NULL,
                                            &r->expired};
    return (struct berth_sweep_verdict){BERTH_VERDICT_LEAVE};
}

int berth_sweep_judge(struct berth *b, int64_t now_ms, const struct berth_standing *s,
                      struct berth_sweep_report *r, struct berth_sweep_verdict *out,
                      struct berth_error *err)
{
    *out = (struct berth_sweep_verdict){BERTH_VERDICT_LEAVE};
    bool at_work = false;
    int rc = berth_node_at_work(b->node, s->owner, s->id, 0, &at_work, err);
    if (rc == BERTH_OK && !at_work && s->due_at_ms > now_ms)
        rc = is_giving_back(b, s, &at_work, err);
    if (rc < 0 || at_work)
        return rc;
    assert(s->due_at_ms);                          /* a standing row has one: the table checks it */
    bool due = s->due_at_ms <= now_ms || s->owner; /* the owner died in the middle of it */
    /* No retry is set that far ahead: the clock went back. */
    bool too_far = s->due_at_ms > now_ms + b->settings.cleanup_retry_max_ms;
    switch (s->status) {
    case BERTH_LEASE_ACQUIRING:
    case BERTH_LEASE_RELEASING:
        *out = (struct berth_sweep_verdict){BERTH_VERDICT_ADOPT, .counter = &r->adopted};
        break;
    case BERTH_LEASE_ACTIVE:
        *out = judge_active(s, now_ms, r);
        break;
    case BERTH_LEASE_RETAINED:
        if (due && s->has_work)
            *out = (struct berth_sweep_verdict){BERTH_VERDICT_LEAVE, .counter = &r->work};
        else if (due)
            *out = (struct berth_sweep_verdict){BERTH_VERDICT_RELEASE, BERTH_LEASE_EXPIRED, NULL,
                                                &r->expired};
        break;
    case BERTH_LEASE_RELEASED:
    case BERTH_LEASE_EXPIRED:
    case BERTH_LEASE_FAILED:
        if (s->place == BERTH_PLACE_PARKED && (due || s->outdated))
            *out = (struct berth_sweep_verdict){BERTH_VERDICT_CLEAN, .counter = &r->unparked};
        else if (s->place != BERTH_PLACE_PARKED && (due || too_far))
            *out = (struct berth_sweep_verdict){BERTH_VERDICT_CLEAN, .counter = &r->cleaned};
        break;
    }
    return BERTH_OK;
}
