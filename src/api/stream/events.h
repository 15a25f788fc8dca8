/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/events.h - streams of a company's activity, as it is logged. One look at the store
 * serves all listeners. */
#ifndef BERTH_API_STREAM_EVENTS_H
#define BERTH_API_STREAM_EVENTS_H

#include <berth/error.h>

struct berth_api;
struct berth_api_events;

int berth_api_events_new(struct berth_api *api, struct berth_api_events **out,
                         struct berth_error *err);
/* Ends the streams of all listeners and accepts no more. Not on the loop's thread; NULL is fine. */
void berth_api_events_close(struct berth_api_events *events);
void berth_api_events_free(struct berth_api_events *events); /* NULL is fine */
#endif
