/* SPDX-License-Identifier: Apache-2.0
 * src/api/state.h - what the parts of the API share. */
#ifndef BERTH_API_STATE_H
#define BERTH_API_STATE_H

#include <stdatomic.h>
#include <stdbool.h>

#include <berth/workspace.h>

#include "api/read_turns.h"
#include "base/lock.h"
#include "base/map.h"
#include "core/berth.h"

struct berth_api_events;
struct berth_api_gate;
struct berth_api_guard;
struct berth_http_server;
struct berth_run_job;
struct berth_api_run_waiter;

/* A run that a request started, until its place is given back. */
struct berth_api_run {
    struct berth_run_job *job;
    struct berth_api_run_waiter *waiters; /* requests that wait for its end (resource/runs.c) */
    /* How far its files are, since when, and how often that has changed; lives_lock. */
    struct berth_workspace_progress progress;
    int64_t began_ms;
    unsigned changes;
};

struct berth_api_watch;

struct berth_api {
    struct berth *b;
    struct berth_api_gate *gate;
    struct berth_http_server *server;
    _Atomic bool recovering;
    struct berth_shares *quick; /* for what needs only the store (quick.h) */
    struct berth_api_events *events;
    struct berth_api_guard *guard;

    struct berth_lock lives_lock; /* of everything below */
    pthread_cond_t lives_changed;
    bool closing;           /* nothing begins any more */
    struct berth_map lives; /* exec id -> struct berth_api_live (live.h) */
    int live_count;         /* includes those that have no id yet */
    struct berth_map runs;  /* run id -> struct berth_api_run */
    int run_count;          /* runs that still refer to this struct */
    int stream_count;       /* watches and listeners, which refer to it, too */
    int place_calls;        /* requests on the threads for providers, likewise */
    /* Watches whose logs are read, and those that wait for it; on the loop's thread. */
    struct berth_api_read_turns log_reads;
    char *urls_json; /* an array of the URLs by which places reach this daemon */
};
#endif
