/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/foreign_machine.h - what the dead process of another machine left there. Machines
 * that share a store see that a node is dead, but only its own machine can end its processes. */
#ifndef BERTH_CORE_RUN_FOREIGN_MACHINE_H
#define BERTH_CORE_RUN_FOREIGN_MACHINE_H

#include "core/berth.h"
#include "store/exec.h"
#include "store/run.h"

/* Both set *out to the name of the machine that has to end what a dead node, the owner, left there.
 * NULL: this process may end it, because the node was on this machine or because the place itself
 * is not on a machine of ours. The text lives in the arena. */
int berth_foreign_machine_of_exec(struct berth *b, struct berth_arena *arena,
                                  const struct berth_exec_record *exec, const char **out,
                                  struct berth_error *err);
int berth_foreign_machine_of_run(struct berth *b, struct berth_arena *arena,
                                 const struct berth_run *run, const char **out,
                                 struct berth_error *err);
/* Logs that a command or run (`key` is "execId" or "runId") waits for its machine. */
void berth_foreign_machine_tell(struct berth *b, const char *machine, const char *key,
                                const char *id);
#endif
