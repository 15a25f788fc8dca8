/* SPDX-License-Identifier: Apache-2.0
 * src/api/state.h - what the parts of the API share. */
#ifndef BERTH_API_STATE_H
#define BERTH_API_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/api.h"
#include "api/events.h"
#include "api/guard.h"
#include "base/map.h"
#include "os/pool.h"

struct berth_api_gate;

struct berth_api {
    struct berth *b;
    struct berth_api_gate *gate;
    struct berth_http_server *server;
    _Atomic bool recovering;
    struct berth_pool *quick, *slow; /* the slow one may wait for a provider */
    struct berth_api_events events;
    struct berth_api_guard guard;
    pthread_mutex_t lives_lock;
    pthread_cond_t lives_changed;
    struct berth_map lives; /* id of an exec -> struct berth_api_live; api/live.c */
    bool closing;           /* nothing is begun any more; the same lock */
    int live_count;         /* also those that are not named yet */
    struct berth_map runs;  /* id of a run -> struct berth_run_job; the same lock */
    int run_count;          /* that we perform: they know us until they are given back */
    char *urls_json;        /* by which places may reach us, an array; the same lock */
    int stream_count;       /* watches and listeners: they do, too */
};
#endif
