/* SPDX-License-Identifier: Apache-2.0
 * src/api/events.h - what happens in a company, as it happens: its activity, told to whoever
 * listens. One look at the store serves for all of them. */
#ifndef BERTH_API_EVENTS_H
#define BERTH_API_EVENTS_H

#include "api/call.h"
#include "os/engine.h"

struct berth_api_listener;

/* Of the loop's thread. */
struct berth_api_events {
    struct berth_api *api;
    struct berth_api_listener *listeners;
    int count;
    int64_t settled; /* the last entry that is known to have all before it; -1: not known yet */
    bool looking;    /* a job is at it */
    bool closing;    /* nobody is let in any more */
    int64_t found;   /* by the job; -1: nothing */
    struct berth_post post;
    struct berth_timer timer;
};

void berth_api_events_init(struct berth_api_events *events, struct berth_api *api);
/* Lets all listeners go; from any thread but the loop's. */
void berth_api_events_close(struct berth_api_events *events);
#endif
