/* SPDX-License-Identifier: Apache-2.0
 * src/store/walfs.h - SQLite's files, but a frame of the WAL is written by one call, not by two. */
#ifndef BERTH_STORE_WALFS_H
#define BERTH_STORE_WALFS_H

/* The name to open a database with. */
const char *berth_walfs(void);
#endif
