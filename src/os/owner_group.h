/* SPDX-License-Identifier: Apache-2.0
 * src/os/owner_group.h - a cgroup for everything that this process runs below inits, where one can
 * be made. It is named after the process, so that another process finds it when this one and its
 * inits were killed at the same moment. */
#ifndef BERTH_OS_OWNER_GROUP_H
#define BERTH_OS_OWNER_GROUP_H

#define BERTH_OWNER_NAME_SIZE 96

/* Writes the name of the group of this process, which names the process itself. */
void berth_owner_group_name(char out[BERTH_OWNER_NAME_SIZE]);
enum berth_owner_state {
    BERTH_OWNER_UNKNOWN, /* the text is not such a name, or names a process of another namespace */
    BERTH_OWNER_LIVES,   /* also when /proc does not show it, but a signal would reach it */
    BERTH_OWNER_DEAD,
};
/* Returns what is known of the process with this name. */
enum berth_owner_state berth_owner_group_state(const char *name);

/* Between these two the group may be used; it is removed when the last user has left it and nothing
 * is left in it. */
void berth_owner_group_hold(void);
void berth_owner_group_leave(void);
/* Returns a descriptor that a process writes "0" to in order to enter the group of this process, or
 * -1 when this machine or our rights do not allow a group (cgroup v2 is needed). The descriptor
 * stays open; the caller borrows it. */
int berth_owner_group_fd(void);
/* Kills what is in groups whose process is dead, wherever it made them, and removes them. Returns
 * how many there were. */
int berth_owner_group_end_dead(void);
#endif
