/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/stray_queue.c - see stray_queue.h. */
#include "core/lease/stray_queue.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "core/lock_order.h"
#include "os/pool.h"
#include "os/strays.h"

#define STRAYS_WAIT_MS 50
#define LABELS_FIRST 16

struct berth_stray_queue {
    struct berth_pool *pool;
    struct berth_lock lock;
    char **labels; /* closed by NULL when there are any */
    int count, cap;
    bool timed;           /* a flush is due */
    int flushes;          /* under way */
    pthread_cond_t ended; /* a flush has */
};

int berth_stray_queue_new(struct berth_pool *pool, struct berth_stray_queue **out,
                          struct berth_error *err)
{
    struct berth_stray_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: commands.");
    queue->pool = pool;
    berth_lock_init(&queue->lock, BERTH_RANK_STRAYS);
    pthread_cond_init(&queue->ended, NULL);
    *out = queue;
    return BERTH_OK;
}

void berth_stray_queue_free(struct berth_stray_queue *queue)
{
    if (!queue)
        return;
    berth_stray_queue_flush(queue);
    pthread_cond_destroy(&queue->ended);
    berth_lock_destroy(&queue->lock);
    free(queue);
}

void berth_stray_queue_flush(struct berth_stray_queue *queue)
{
    berth_lock_take(&queue->lock);
    char **labels = queue->labels;
    int count = queue->count;
    queue->labels = NULL;
    queue->count = queue->cap = 0;
    queue->timed = false;
    queue->flushes++;
    berth_lock_drop(&queue->lock);
    if (count)
        (void)berth_strays_end((const char *const *)(void *)labels);
    for (int i = 0; i < count; i++)
        free(labels[i]);
    free(labels);
    berth_lock_take(&queue->lock);
    queue->flushes--;
    pthread_cond_broadcast(&queue->ended);
    while (queue->flushes) /* another thread may have taken the labels that the caller means */
        berth_lock_wait(&queue->lock, &queue->ended);
    berth_lock_drop(&queue->lock);
}

static void stray_job(void *ctx)
{
    berth_stray_queue_flush(ctx);
}

/* Lock held. Makes room for one more label and the closing NULL. */
static bool stray_queue_grow(struct berth_stray_queue *queue)
{
    if (queue->count + 1 < queue->cap)
        return true;
    int cap = queue->cap ? queue->cap * 2 : LABELS_FIRST;
    char **grown = realloc(queue->labels, (size_t)cap * sizeof *grown);
    if (!grown)
        return false;
    queue->labels = grown;
    queue->cap = cap;
    return true;
}

void berth_stray_queue_add(struct berth_stray_queue *queue, const char *label)
{
    struct berth_error ignored; /* without a timer the next label, or the end, flushes */
    char *copy = strdup(label);
    berth_lock_take(&queue->lock);
    bool queued = copy && stray_queue_grow(queue);
    if (queued) {
        queue->labels[queue->count++] = copy;
        queue->labels[queue->count] = NULL;
        if (!queue->timed)
            queue->timed = berth_pool_after(queue->pool, STRAYS_WAIT_MS, stray_job, queue,
                                            &ignored) == BERTH_OK;
    }
    berth_lock_drop(&queue->lock);
    if (!queued) { /* out of memory: search at once */
        free(copy);
        (void)berth_strays_end((const char *const[]){label, NULL});
    }
}
