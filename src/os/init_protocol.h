/* SPDX-License-Identifier: Apache-2.0
 * src/os/init_protocol.h - the messages between a runtime and the init of a command (src/init/).
 *
 * The init has one socket to its owner, as descriptor 0 (SOCK_SEQPACKET). It reports on it and
 * takes orders from it; when the owner closes it, the init ends its whole tree and exits. The init
 * keeps one child ready, which waits for a program to run. The owner gets a socket to that child
 * with the READY report (SOCK_STREAM), sends one berth_init_start on it, and reads the answer: the
 * end of the stream when the program runs, or an errno when it could not be run. When the program
 * has ended and no process of it is left, the init makes the next child and reports READY.
 *
 * Descriptor 1 is the list of a cgroup's processes, which the init enters, or /dev/null. */
#ifndef BERTH_OS_INIT_PROTOCOL_H
#define BERTH_OS_INIT_PROTOCOL_H

#include <stdint.h>

/* The first word of an init's command line. The second is the name of its owner (owner_group.h), so
 * that a sweep recognises an init whose owner is dead. */
#define BERTH_INIT_NAME "berth-init"

enum berth_init_report_kind {
    BERTH_INIT_READY = 1, /* `pid` waits for a program; the descriptor that comes along is for it */
    BERTH_INIT_EXITED,    /* the program has ended: `code` and `status` as in siginfo_t */
    BERTH_INIT_GONE,      /* the program has ended, and no process is left in the tree */
    BERTH_INIT_FAILED,    /* the init cannot work, for the errno in `status`; it exits */
};

struct berth_init_report {
    int32_t kind, pid, code, status;
    int32_t gone; /* with EXITED: the tree is empty, and no GONE follows */
};

enum berth_init_order_kind {
    BERTH_INIT_SIGNAL = 1, /* send signal `number` to the program's process group */
    BERTH_INIT_CLEAR,      /* kill every process of the tree */
};

struct berth_init_order {
    int32_t kind, number;
    int32_t pid; /* the program that is meant; an order for an earlier one comes too late */
};

/* What to run. `bytes` bytes of text follow: the file to execute, the working directory
 * ("": the init's), the terminal ("": none), argc words and envc variables, each closed by NUL. The
 * descriptors that come along become 0, 1 and 2, in this order, where the bit of the number is set
 * in `given`; the others become /dev/null. With a terminal, all three are the terminal. */
struct berth_init_start {
    uint32_t bytes, argc, envc, given;
};
#endif
