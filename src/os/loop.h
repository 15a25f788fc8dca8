/* SPDX-License-Identifier: Apache-2.0
 * src/os/loop.h - the engine's loop, for the files of this folder that put something on it. */
#ifndef BERTH_OS_LOOP_H
#define BERTH_OS_LOOP_H

#include <uv.h>

#include "os/engine.h"

uv_loop_t *berth_engine_loop(struct berth_engine *engine);
/* Room for what is read next; used up before the next read. */
uv_buf_t berth_engine_chunk(struct berth_engine *engine);
#endif
