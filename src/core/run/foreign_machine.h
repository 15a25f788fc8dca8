/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/foreign_machine.h - what the dead process of another machine left there. Machines
 * that share a store see that a node is dead, but only its own machine can end its processes. */
#ifndef BERTH_CORE_RUN_FOREIGN_MACHINE_H
#define BERTH_CORE_RUN_FOREIGN_MACHINE_H

#include "core/berth.h"

/* Sets *out to the name of the machine that has to end what `owner`, a dead node, left in a place
 * of the environment. NULL: this process may end it, because the node was on this machine or
 * because the place itself is not on a machine of ours. The text lives in the arena. */
int berth_foreign_machine(struct berth *b, struct berth_arena *arena, const char *environment_id,
                          const char *owner, const char **out, struct berth_error *err);
/* Logs that a command or run (`key` is "execId" or "runId") waits for its machine. */
void berth_foreign_machine_tell(struct berth *b, const char *machine, const char *key,
                                const char *id);
#endif
