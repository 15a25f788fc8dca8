/* SPDX-License-Identifier: Apache-2.0
 * src/store/walfs.c - SQLite's files, but a frame of the WAL is written by one call, not by two. */
#include "store/walfs.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <string.h>

#define FRAME_HEADER 24 /* bytes before each page in a WAL */
#define PAGE_MAX 4096

/* SQLite writes the header of a frame and then, in its very next call, the page behind it. The
 * header is held for that long. Any other call lets go of it first. Two other writes have the same
 * length, and are not held: a header with a new checksum, where it was read just before, and the
 * rest of a page that is written in parts, on disks that want whole sectors. */
struct wal {
    sqlite3_file base;
    sqlite3_int64 held_at;
    sqlite3_int64 read_at; /* by the call before; -1: it was no read */
    bool held;
    unsigned char frame[FRAME_HEADER + PAGE_MAX];
    sqlite3_file *real; /* in the same allocation, behind us */
};

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct wal *)file)->real;
}

static int let_go(sqlite3_file *file)
{
    struct wal *wal = (struct wal *)file;
    if (!wal->held)
        return SQLITE_OK;
    wal->held = false;
    return wal->real->pMethods->xWrite(wal->real, wal->frame, FRAME_HEADER, wal->held_at);
}

static int wal_traits(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int wal_write(sqlite3_file *file, const void *data, int len, sqlite3_int64 at)
{
    struct wal *wal = (struct wal *)file;
    if (wal->held && at == wal->held_at + FRAME_HEADER && len <= PAGE_MAX) {
        wal->held = false;
        memcpy(wal->frame + FRAME_HEADER, data, (size_t)len);
        return wal->real->pMethods->xWrite(wal->real, wal->frame, FRAME_HEADER + len, wal->held_at);
    }
    bool joins = len == FRAME_HEADER && at != wal->read_at &&
                 wal_traits(file) & SQLITE_IOCAP_POWERSAFE_OVERWRITE;
    wal->read_at = -1;
    int rc = let_go(file);
    if (rc != SQLITE_OK || !joins)
        return rc != SQLITE_OK ? rc : wal->real->pMethods->xWrite(wal->real, data, len, at);
    memcpy(wal->frame, data, FRAME_HEADER);
    wal->held_at = at;
    wal->held = true;
    return SQLITE_OK;
}

static int wal_close(sqlite3_file *file)
{
    int held = let_go(file);
    int rc = real_of(file)->pMethods->xClose(real_of(file));
    return rc != SQLITE_OK ? rc : held;
}

static int wal_read(sqlite3_file *file, void *data, int len, sqlite3_int64 at)
{
    int rc = let_go(file);
    ((struct wal *)file)->read_at = at;
    return rc != SQLITE_OK ? rc : real_of(file)->pMethods->xRead(real_of(file), data, len, at);
}

static int wal_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    int rc = let_go(file);
    return rc != SQLITE_OK ? rc : real_of(file)->pMethods->xTruncate(real_of(file), size);
}

static int wal_sync(sqlite3_file *file, int flags)
{
    int rc = let_go(file);
    return rc != SQLITE_OK ? rc : real_of(file)->pMethods->xSync(real_of(file), flags);
}

static int wal_size(sqlite3_file *file, sqlite3_int64 *out)
{
    int rc = let_go(file);
    return rc != SQLITE_OK ? rc : real_of(file)->pMethods->xFileSize(real_of(file), out);
}

static int wal_control(sqlite3_file *file, int op, void *arg)
{
    int rc = let_go(file);
    return rc != SQLITE_OK ? rc : real_of(file)->pMethods->xFileControl(real_of(file), op, arg);
}

static int wal_lock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int wal_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int wal_reserved(sqlite3_file *file, int *out)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), out);
}

static int wal_sector(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static const sqlite3_io_methods wal_methods = {
    .iVersion = 1,
    .xClose = wal_close,
    .xRead = wal_read,
    .xWrite = wal_write,
    .xTruncate = wal_truncate,
    .xSync = wal_sync,
    .xFileSize = wal_size,
    .xLock = wal_lock,
    .xUnlock = wal_unlock,
    .xCheckReservedLock = wal_reserved,
    .xFileControl = wal_control,
    .xSectorSize = wal_sector,
    .xDeviceCharacteristics = wal_traits,
};

static sqlite3_vfs ours, *theirs;

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    (void)vfs;
    if (!(flags & SQLITE_OPEN_WAL))
        return theirs->xOpen(theirs, name, file, flags, out);
    struct wal *wal = (struct wal *)file;
    memset(wal, 0, sizeof *wal);
    wal->read_at = -1;
    wal->real = (sqlite3_file *)(wal + 1);
    int rc = theirs->xOpen(theirs, name, wal->real, flags, out);
    if (wal->real->pMethods)
        wal->base.pMethods = &wal_methods;
    return rc;
}

static void register_once(void)
{
    theirs = sqlite3_vfs_find("unix"); /* its methods do not look behind the vfs they are given */
    if (!theirs)
        return;
    ours = *theirs;
    if (ours.iVersion > 3) /* what we copied */
        ours.iVersion = 3;
    ours.zName = "berth";
    ours.szOsFile = (int)sizeof(struct wal) + theirs->szOsFile;
    ours.xOpen = open_file;
    ours.pNext = NULL;
    (void)sqlite3_vfs_register(&ours, 0);
}

/* For hosts that unload us. */
__attribute__((destructor)) static void unregister(void)
{
    if (theirs)
        (void)sqlite3_vfs_unregister(&ours);
}

const char *berth_walfs(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_once);
    return theirs ? ours.zName : NULL;
}
