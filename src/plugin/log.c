/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/log.c - see log.h. */
#include "plugin/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/time.h"
#include "crypto/locked.h"
#include "crypto/mask.h"
#include "os/fs.h"
#include "os/pool.h"

#define FILE_BYTES_MAX (4 * 1024 * 1024)
#define TEXT_BYTES_MAX 10000
#define LINE_BYTES_MIN 80 /* around a text: its time, its stream and its level */
#define LOOKED_BYTES_MAX (64 * 1024)
#define WAITING_BYTES_MAX (1024 * 1024)
#define VALUES_MAX 256
#define VALUES_BYTES_MAX ((size_t)64 * 1024) /* of values that earlier calls told the worker */
/* Tables for more are not made, because that would keep the loop. Texts are then not shown. */
#define MASKED_BYTES_MAX ((size_t)128 * 1024)

struct berth_worker_log {
    char *path;
    struct berth_pool *pool;
    bool lost_value; /* there was no memory for a value: nothing is shown any more */
    /* Hidden; the caller's thread alone. Those that were told last are the last. */
    struct berth_locked values[VALUES_MAX];
    int value_count;
    /* Both are made when a text is looked at after a new value was told. NULL: no values. */
    bool stale;
    struct berth_mask *mask;      /* of the values and their parts */
    struct berth_matcher *wholes; /* of the values alone */
    bool blind;                   /* there is no table, so nothing is shown */
    pthread_mutex_t lock;
    pthread_cond_t idle;
    struct berth_buf waiting;
    size_t dropped; /* lines */
    bool writing;
};

int berth_worker_log_open(const char *path, struct berth_pool *pool, struct berth_worker_log **out,
                          struct berth_error *err)
{
    struct berth_worker_log *log = calloc(1, sizeof *log);
    char *copy = strdup(path);
    if (!log || !copy) {
        free(log);
        free(copy);
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: log.");
    }
    log->path = copy;
    log->pool = pool;
    log->waiting = (struct berth_buf)BERTH_BUF_INIT(WAITING_BYTES_MAX);
    pthread_mutex_init(&log->lock, NULL);
    pthread_cond_init(&log->idle, NULL);
    *out = log;
    return BERTH_OK;
}

void berth_worker_log_close(struct berth_worker_log *log)
{
    if (!log)
        return;
    pthread_mutex_lock(&log->lock);
    while (log->writing)
        pthread_cond_wait(&log->idle, &log->lock);
    pthread_mutex_unlock(&log->lock);
    for (int i = 0; i < log->value_count; i++)
        berth_locked_clear(&log->values[i]);
    berth_mask_free(log->mask);
    berth_matcher_free(log->wholes);
    berth_buf_clear(&log->waiting);
    pthread_cond_destroy(&log->idle);
    pthread_mutex_destroy(&log->lock);
    free(log->path);
    free(log);
}

/* --- what is hidden --- */

/* -1: it is not there. */
static int find_value(const struct berth_worker_log *log, const char *bytes, size_t len)
{
    for (int i = 0; i < log->value_count; i++)
        if (berth_same_bytes(log->values[i].bytes, log->values[i].len, bytes, len))
            return i;
    return -1;
}

static struct berth_locked log_take_value(struct berth_worker_log *log, int at)
{
    struct berth_locked value = log->values[at];
    size_t behind = (size_t)(--log->value_count - at);
    memmove(&log->values[at], &log->values[at + 1], behind * sizeof *log->values);
    return value;
}

/* Forgets the value that the worker was told longest ago. */
static void log_forget_value(struct berth_worker_log *log)
{
    struct berth_locked oldest = log_take_value(log, 0);
    berth_locked_clear(&oldest);
    log->stale = true;
}

static void log_hide_value(struct berth_worker_log *log, const char *bytes, size_t len)
{
    struct berth_error ignored;
    struct berth_locked copy = BERTH_LOCKED_INIT;
    int known = find_value(log, bytes, len);
    if (known >= 0) {
        copy = log_take_value(log, known);
        log->values[log->value_count++] = copy;
        return;
    }
    if (len < BERTH_MASKED_BYTES_MIN)
        return;
    if (berth_locked_new(len, &copy, &ignored) < 0) {
        log->lost_value = true;
        return;
    }
    berth_locked_append(&copy, bytes, len);
    if (log->value_count == VALUES_MAX)
        log_forget_value(log);
    log->values[log->value_count++] = copy;
    log->stale = true;
}

void berth_worker_log_hide(struct berth_worker_log *log, const struct berth_locked *values,
                           int count)
{
    for (int i = 0; i < count; i++)
        log_hide_value(log, values[i].bytes, values[i].len);
    size_t bytes = 0;
    for (int i = 0; i < log->value_count; i++)
        bytes += log->values[i].len;
    while (log->value_count > count && bytes > VALUES_BYTES_MAX) {
        bytes -= log->values[0].len;
        log_forget_value(log);
    }
}

/* Returns the end of the part that begins at `from`. A worker writes lines one by one, and may
 * quote a value, so parts of it are hidden, too. */
static size_t part_end(const struct berth_locked *value, size_t from)
{
    while (from < value->len && (unsigned char)value->bytes[from] >= 0x20 &&
           value->bytes[from] != '"' && value->bytes[from] != '\\')
        from++;
    return from;
}

/* Writes the parts of a value that are long enough to `out`, unless that is NULL. Returns their
 * number. */
static size_t value_parts(const struct berth_locked *value, struct berth_pattern *out)
{
    size_t count = 0;
    for (size_t from = 0, to; from < value->len; from = to + 1) {
        to = part_end(value, from);
        if (to - from < BERTH_MASKED_BYTES_MIN || to - from == value->len)
            continue;
        if (out)
            out[count] = (struct berth_pattern){value->bytes + from, to - from};
        count++;
    }
    return count;
}

/* Makes mask and matcher of the values that are hidden now. Returns false when nothing may be
 * shown, because there are too many bytes or too little memory for that. */
static bool log_make_masks(struct berth_worker_log *log)
{
    struct berth_error ignored;
    size_t count = (size_t)log->value_count, all = count, bytes = 0;
    if (!log->stale || log->lost_value)
        return !log->blind && !log->lost_value;
    berth_mask_free(take_ptr(log->mask));
    berth_matcher_free(take_ptr(log->wholes));
    for (int i = 0; i < log->value_count; i++)
        all += value_parts(&log->values[i], NULL);
    for (int i = 0; i < log->value_count; i++)
        bytes += log->values[i].len;
    auto_free struct berth_pattern *patterns =
        bytes <= MASKED_BYTES_MAX ? calloc(all + 1, sizeof *patterns) : NULL;
    size_t used = count;
    for (int i = 0; patterns && i < log->value_count; i++) {
        patterns[i] = (struct berth_pattern){log->values[i].bytes, log->values[i].len};
        used += value_parts(&log->values[i], patterns + used);
    }
    log->blind = !patterns || berth_matcher_new(patterns, count, &log->wholes, &ignored) < 0 ||
                 berth_mask_new(patterns, used, &log->mask, &ignored) < 0;
    log->stale = false;
    return !log->blind;
}

bool berth_worker_log_shows(struct berth_worker_log *log, const char *text, size_t len)
{
    return !log_make_masks(log) || berth_matcher_finds(log->wholes, text, len);
}

static void log_keep(void *ctx, const char *bytes, size_t len)
{
    berth_buf_append(ctx, bytes, len);
}

char *berth_worker_log_clean(struct berth_worker_log *log, const char *text, size_t len)
{
    struct berth_buf out = BERTH_BUF_INIT(len + 1);
    if (!log_make_masks(log))
        return NULL;
    berth_mask_put(log->mask, text, len, log_keep, &out);
    berth_mask_end(log->mask, log_keep, &out);
    return berth_buf_take(&out);
}

/* --- the file --- */

/* Other processes of ours write to it, too: whoever has the lock moves it aside, once. */
static int log_open_file(const char *path)
{
    for (int tries = 0; tries < 3; tries++) {
        int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        struct stat held, named;
        if (fd < 0 || flock(fd, LOCK_EX) < 0 || fstat(fd, &held) < 0)
            return fd;
        bool ours = stat(path, &named) == 0 && named.st_ino == held.st_ino;
        if (ours && held.st_size < FILE_BYTES_MAX)
            return fd;
        auto_free char *old = NULL;
        if (ours && asprintf(&old, "%s.1", path) > 0)
            (void)rename(path, old);
        (void)close(fd);
    }
    return -1;
}

static void write_job(void *ctx)
{
    struct berth_worker_log *log = ctx;
    struct berth_error ignored;
    pthread_mutex_lock(&log->lock);
    while (log->waiting.len || log->dropped) {
        auto_buf lines = log->waiting;
        log->waiting = (struct berth_buf)BERTH_BUF_INIT(WAITING_BYTES_MAX);
        size_t dropped = log->dropped;
        log->dropped = 0;
        pthread_mutex_unlock(&log->lock);
        auto_close int fd = log_open_file(log->path);
        if (fd >= 0) {
            (void)berth_fs_write_all(fd, lines.data, lines.len, &ignored);
            if (dropped)
                (void)dprintf(fd,
                              "{\"stream\":\"host\",\"level\":\"warn\",\"message\":"
                              "\"%zu lines were dropped\"}\n",
                              dropped);
        }
        pthread_mutex_lock(&log->lock);
    }
    log->writing = false;
    pthread_cond_broadcast(&log->idle);
    pthread_mutex_unlock(&log->lock);
}

/* Counts a line that finds no room, before any work is done for it. */
static bool log_drops(struct berth_worker_log *log, size_t len)
{
    pthread_mutex_lock(&log->lock);
    bool full = log->writing && log->waiting.len + len > WAITING_BYTES_MAX;
    log->dropped += full;
    pthread_mutex_unlock(&log->lock);
    return full;
}

void berth_worker_log_write(struct berth_worker_log *log, const char *stream, const char *level,
                            const char *text, size_t len)
{
    if (log_drops(log, LINE_BYTES_MIN + (len < TEXT_BYTES_MAX ? len : TEXT_BYTES_MAX)))
        return;
    size_t looked =
        len < LOOKED_BYTES_MAX ? len : LOOKED_BYTES_MAX; /* what is cut off is not seen */
    auto_free char *clean = berth_worker_log_clean(log, text, looked);
    if (!clean)
        return;
    auto_buf line = BERTH_BUF_INIT(8 * TEXT_BYTES_MAX);
    struct berth_json_writer w = {.buf = &line};
    size_t kept = len < TEXT_BYTES_MAX ? len : TEXT_BYTES_MAX;
    clean[kept] = '\0';
    berth_json_open(&w, '{');
    berth_json_put_time(&w, "time", berth_time_wall_ms());
    berth_json_put_str(&w, "stream", stream);
    berth_json_put_str(&w, "level", level);
    berth_json_put_bytes(&w, "message", clean, kept);
    if (kept < len)
        berth_json_put_int(&w, "cut", (int64_t)(len - kept));
    berth_json_close(&w, '}');
    berth_buf_append(&line, "\n", 1);
    struct berth_error ignored;
    pthread_mutex_lock(&log->lock);
    if (line.failed || log->waiting.len + line.len > WAITING_BYTES_MAX)
        log->dropped++;
    else
        berth_buf_append(&log->waiting, line.data, line.len);
    if (!log->writing)
        log->writing = berth_pool_submit(log->pool, write_job, log, &ignored) == BERTH_OK;
    pthread_mutex_unlock(&log->lock);
}
