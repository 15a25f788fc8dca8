/* SPDX-License-Identifier: Apache-2.0
 * src/os/loop.h - the engine's loop, for the files of this folder that put something on it. */
#ifndef BERTH_OS_LOOP_H
#define BERTH_OS_LOOP_H

#include <stdbool.h>

#include <uv.h>

#include <berth/error.h>

struct berth_engine;
struct berth_inits;
struct berth_post;

/* Its loop and its thread; twice is fine. */
int berth_engine_start(struct berth_engine *engine, struct berth_error *err);
/* From here on. */
uv_loop_t *berth_engine_loop(struct berth_engine *engine);
void berth_engine_put(struct berth_engine *engine, struct berth_post *what); /* cannot fail */

/* What the engine waits for when it stops. All on its thread. */
struct berth_guest {
    /* It is to end, and leaves later; more than once is fine. */
    void (*end)(struct berth_guest *guest);
    struct berth_guest *next, **link;
};
/* False: the engine stops already. */
bool berth_engine_enter(struct berth_engine *engine, struct berth_guest *guest);
void berth_engine_leave(struct berth_engine *engine, struct berth_guest *guest);

/* The parents of commands; borrowed from the engine. */
struct berth_inits *berth_engine_inits(struct berth_engine *engine);

/* Room for what is read next; used up before the next read. */
uv_buf_t berth_engine_chunk(struct berth_engine *engine);
#endif
