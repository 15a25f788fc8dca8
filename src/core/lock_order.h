/* SPDX-License-Identifier: Apache-2.0
 * src/core/lock_order.h - the lock order of the runtime and the API, outermost first.
 * A thread that holds a lock takes only locks that stand below it here; base/lock.h asserts it.
 * The locks of base/, os/, store/ and the drivers have no rank: their owners call nothing of core/
 * while they hold one. */
#ifndef BERTH_CORE_LOCK_ORDER_H
#define BERTH_CORE_LOCK_ORDER_H

enum berth_lock_rank {
    BERTH_RANK_API_COMMANDS,    /* api/stream/live.c: the commands and runs that requests started */
    BERTH_RANK_RUN_JOBS,        /* run/run_jobs.c: runs that this process performs */
    BERTH_RANK_PLUGINS,         /* plugin/plugin.c: when the plugin rows were last read */
    BERTH_RANK_EXEC_WRITER,     /* run/exec_journal.c: one thread writes exec rows at a time */
    BERTH_RANK_EXEC_JOURNAL,    /* run/exec_journal.c: the queue of exec rows and its file */
    BERTH_RANK_LEASE_EXECS,     /* lease/lease_execs.c: running commands by lease */
    BERTH_RANK_EXEC,            /* run/exec.c: one running command */
    BERTH_RANK_MASK_BUDGET,     /* run/mask_budget.c: secrets that running commands hide */
    BERTH_RANK_SWEEP_PASS,      /* sweep/sweep.c: one pass and its jobs */
    BERTH_RANK_SWEEP_SLOTS,     /* sweep/sweep_slots.c: environments and providers being swept */
    BERTH_RANK_SELF_SWEEP,      /* lease/self_sweep.c: the timer of this process's own sweep */
    BERTH_RANK_LATE_PLACES,     /* lease/late_place.c: places to write down */
    BERTH_RANK_SECRET_PROVIDER, /* secret/secret_provider.c: the keys of the key file */
    BERTH_RANK_NODE,            /* lease/node.c: the rows that this process works on */
};
#endif
