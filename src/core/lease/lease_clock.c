/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/lease_clock.c - see lease_clock.h. */
#include "core/lease/lease_clock.h"

#include <fcntl.h>
#include <libgen.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/time.h"
#include "os/fs.h"
#include "store/node.h"
#include "store/store.h"

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"
#define LINE_BYTES_MAX 128 /* a boot id and a number */

static bool read_line(const char *path, char out[LINE_BYTES_MAX])
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t got = fd < 0 ? -1 : read(fd, out, LINE_BYTES_MAX - 1);
    if (got <= 0)
        return false;
    out[got] = '\0';
    out[strcspn(out, "\n")] = '\0';
    return true;
}

/* Replaces the file, so that no other process reads half of it. */
static void write_line(const char *path, const char *line)
{
    struct berth_error ignored; /* the next process tries again */
    auto_free char *fresh = NULL;
    if (asprintf(&fresh, "%s.%d", path, (int)getpid()) < 0) {
        fresh = NULL;
        return;
    }
    auto_close int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    if (berth_fs_write_all(fd, line, strlen(line), &ignored) < 0 || rename(fresh, path) < 0)
        (void)unlink(fresh);
}

/* Reads by how much the time since boot is another one in the time namespace of this process. */
static void read_boot_offset(long long *seconds, long long *nanoseconds)
{
    char line[LINE_BYTES_MAX];
    *seconds = *nanoseconds = 0;
    FILE *file =
        fopen("/proc/self/timens_offsets", "re"); /* a file of kernels with time namespaces */
    while (file && fgets(line, sizeof line, file) &&
           sscanf(line, "boottime %lld %lld", seconds, nanoseconds) != 2)
        continue;
    if (file)
        (void)fclose(file);
}

/* Returns the path of the anchor, which the caller frees: `clock` beside the store. Where the time
 * since boot is another one, so is the file. */
static char *anchor_path(const struct berth_store *store)
{
    long long seconds, nanoseconds;
    char *path = NULL;
    auto_free char *copy = strdup(berth_store_where(store));
    read_boot_offset(&seconds, &nanoseconds);
    int len = !copy ? -1
              : seconds || nanoseconds
                  ? asprintf(&path, "%s/clock.%lld.%lld", dirname(copy), seconds, nanoseconds)
                  : asprintf(&path, "%s/clock", dirname(copy));
    return len < 0 ? NULL : path;
}

/* Uses the anchor of this boot, or makes it. */
static int anchor_by_file(const struct berth_store *store, struct berth_error *err)
{
    char boot[LINE_BYTES_MAX], line[LINE_BYTES_MAX];
    int64_t offset_ms = berth_time_offset_ms();
    auto_free char *path = anchor_path(store);
    if (!path)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: clock.");
    if (!read_line(BOOT_ID_FILE, boot))
        return BERTH_OK;
    size_t len = strlen(boot);
    if (read_line(path, line) && strncmp(line, boot, len) == 0 && line[len] == ' ') {
        char *end;
        long long stored = strtoll(line + len + 1, &end, 10);
        if (end > line + len + 1 && !*end)
            offset_ms = stored;
    } else {
        (void)snprintf(line, sizeof line, "%.60s %lld\n", boot, (long long)offset_ms);
        write_line(path, line);
    }
    berth_time_anchor(offset_ms);
    return BERTH_OK;
}

static int tx_now(struct berth_db *db, void *ctx, struct berth_error *err)
{
    return berth_node_now(db, ctx, err);
}

int berth_lease_clock_open(struct berth *b, struct berth_error *err)
{
    int64_t now_ms;
    if (!berth_store_shared(b->store))
        return anchor_by_file(b->store, err);
    int rc = berth_store_read(b->store, tx_now, &now_ms, err);
    if (rc == BERTH_OK)
        berth_time_anchor(now_ms - berth_time_since_boot_ms());
    return rc;
}

void berth_lease_clock_watch(struct berth *b)
{
    int64_t jumped_ms = berth_time_jumped_ms();
    int64_t before_ms = atomic_exchange(&b->clock_jumped_ms, jumped_ms);
    if (llabs(jumped_ms - before_ms) <= BERTH_CLOCK_JUMP_MS)
        return;
    char text[32];
    (void)snprintf(text, sizeof text, "%lld", (long long)jumped_ms);
    berth_log_line(&b->log, BERTH_LOG_WARN,
                   jumped_ms ? "the clock was set: deadlines of leases do not follow it"
                             : "the clock is right again",
                   "byMs", text, NULL);
}
