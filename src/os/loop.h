/* SPDX-License-Identifier: Apache-2.0
 * src/os/loop.h - the engine's loop, for the files of this folder that put something on it. */
#ifndef BERTH_OS_LOOP_H
#define BERTH_OS_LOOP_H

#include <stdbool.h>

#include <uv.h>

#include <berth/error.h>

struct berth_engine;
struct berth_init;
struct berth_inits;
struct berth_post;

/* Starts the loop and its thread. Twice is fine. */
int berth_engine_start(struct berth_engine *engine, struct berth_error *err);
/* Returns the loop. Call it after the start. */
uv_loop_t *berth_engine_loop(struct berth_engine *engine);
void berth_engine_put(struct berth_engine *engine, struct berth_post *what); /* cannot fail */

/* Something that must end before the engine stops. Used on the engine's thread. */
struct berth_guest {
    /* Asks the guest to end; it leaves later. May be called more than once. */
    void (*end)(struct berth_guest *guest);
    struct berth_guest *next, **link;
};
/* Returns false when the engine is stopping. */
bool berth_engine_enter(struct berth_engine *engine, struct berth_guest *guest);
void berth_engine_leave(struct berth_engine *engine, struct berth_guest *guest);

/* The parents of commands; borrowed from the engine. */
struct berth_inits *berth_engine_inits(struct berth_engine *engine);
/* Keeps an init for another command, and ends surplus ones a little later. On the engine's thread.
 */
void berth_engine_give_init(struct berth_engine *engine, struct berth_init *init);

/* Returns the buffer for the next read. It is valid until then. */
uv_buf_t berth_engine_chunk(struct berth_engine *engine);
#endif
