/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/fan.c - see fan.h. */
#include "api/stream/fan.h"

#include <stdlib.h>

#include "base/limits.h"
#include "base/time.h"

#define PIECES_MAX 1024 /* in one round; output of one stream in a row is one piece */

static void batch_clear(struct berth_api_fan_batch *batch)
{
    free(batch->pieces);
    berth_buf_clear(&batch->bytes);
    *batch = (struct berth_api_fan_batch){.until = {batch->until[0], batch->until[1]}};
}

/* Returns a new piece, or NULL when there is no room. */
static struct berth_api_piece *batch_extend(struct berth_api_fan_batch *batch)
{
    if (batch->count == batch->cap && batch->cap < PIECES_MAX) {
        size_t cap = batch->cap ? 2 * batch->cap : 8;
        struct berth_api_piece *more = realloc(batch->pieces, cap * sizeof *more);
        if (!more)
            return NULL;
        batch->pieces = more;
        batch->cap = cap;
    }
    return batch->count < batch->cap ? &batch->pieces[batch->count++] : NULL;
}

void berth_api_fan_add(struct berth_api_fan *fan, enum berth_stream stream, uint64_t offset,
                       const char *bytes, size_t len)
{
    struct berth_api_fan_batch *batch = &fan->next;
    struct berth_api_piece *last = batch->count ? &batch->pieces[batch->count - 1] : NULL;
    batch->until[stream] = offset + len;
    if (batch->bytes.len + len > BERTH_FAN_BYTES_MAX)
        return;
    batch->bytes.max = BERTH_FAN_BYTES_MAX;
    berth_buf_append(&batch->bytes, bytes, len);
    if (batch->bytes.failed)
        return;
    if (last && last->stream == stream && last->offset + last->len == offset) {
        last->len += len;
        return;
    }
    last = batch_extend(batch);
    if (last)
        *last = (struct berth_api_piece){
            .stream = stream, .offset = offset, .len = len, .at_ms = berth_time_wall_ms()};
    else
        berth_buf_truncate(&batch->bytes, batch->bytes.len - len);
}

bool berth_api_fan_begin(struct berth_api_fan *fan)
{
    struct berth_api_fan_batch *now = &fan->now;
    if (fan->next.until[0] == now->until[0] && fan->next.until[1] == now->until[1])
        return false;
    batch_clear(now);
    *now = fan->next;
    fan->next = (struct berth_api_fan_batch){.until = {now->until[0], now->until[1]}};
    const char *bytes = now->bytes.data;
    for (size_t i = 0; i < now->count; i++) {
        now->pieces[i].bytes = bytes;
        bytes += now->pieces[i].len;
    }
    fan->handing = true;
    return true;
}

/* Writes the part of a piece that the cursor has not seen, and moves the cursor. Returns false when
 * output before it is missing. */
static bool write_piece(struct berth_api_log_cursor *c, const struct berth_api_piece *piece,
                        struct berth_buf *out)
{
    uint64_t *seen = &c->seen[piece->stream];
    if (!berth_api_log_wants(c, piece->stream) || *seen >= piece->offset + piece->len)
        return true;
    if (*seen < piece->offset && !c->cut[piece->stream])
        return false;
    if (*seen < piece->offset)
        *seen = piece->offset; /* the log has no more of this stream */
    for (size_t at = (size_t)(*seen - piece->offset); at < piece->len;) {
        struct berth_api_piece part = {.stream = piece->stream,
                                       .offset = *seen,
                                       .at_ms = piece->at_ms,
                                       .bytes = piece->bytes + at,
                                       .len =
                                           berth_api_piece_len(piece->bytes + at, piece->len - at)};
        *seen += part.len;
        at += part.len;
        part.id = berth_api_log_position(c);
        c->format->output(out, &part);
    }
    return true;
}

/* Writes the round for a cursor, and moves it. Returns false when the cursor needs output that is
 * not in the round. */
static bool write_round(const struct berth_api_fan_batch *batch, struct berth_api_log_cursor *c,
                        struct berth_buf *out)
{
    for (size_t i = 0; i < batch->count; i++)
        if (!write_piece(c, &batch->pieces[i], out))
            return false;
    for (int i = BERTH_STDOUT; i <= BERTH_STDERR; i++) {
        if (c->seen[i] >= batch->until[i])
            continue;
        if (berth_api_log_wants(c, (enum berth_stream)i) && !c->cut[i])
            return false;
        c->seen[i] = batch->until[i];
    }
    return !out->failed;
}

static struct berth_api_fan_text *find_text(struct berth_api_fan *fan,
                                            const struct berth_api_log_cursor *c)
{
    for (size_t i = 0; i < fan->text_count && i < BERTH_API_FAN_TEXTS; i++) {
        struct berth_api_fan_text *t = &fan->texts[i];
        if (t->format == c->format && t->stream == c->stream && t->before == c->before &&
            t->from[0] == c->seen[0] && t->from[1] == c->seen[1])
            return t;
    }
    return NULL;
}

static struct berth_api_fan_text *make_text(struct berth_api_fan *fan,
                                            const struct berth_api_log_cursor *c)
{
    struct berth_api_fan_text *t = &fan->texts[fan->text_count % BERTH_API_FAN_TEXTS];
    struct berth_api_log_cursor moved = *c;
    auto_buf text = BERTH_BUF_INIT(BERTH_API_EVENTS_BYTES_MAX);
    if (!write_round(&fan->now, &moved, &text))
        return NULL;
    berth_buf_clear(&t->text);
    *t = (struct berth_api_fan_text){.format = c->format,
                                     .stream = c->stream,
                                     .before = c->before,
                                     .from = {c->seen[0], c->seen[1]},
                                     .to = {moved.seen[0], moved.seen[1]},
                                     .text = text};
    text = (struct berth_buf){0};
    fan->text_count++;
    return t;
}

const struct berth_buf *berth_api_fan_give(struct berth_api_fan *fan,
                                           struct berth_api_log_cursor *cursor)
{
    struct berth_api_fan_text *t = find_text(fan, cursor);
    if (!t)
        t = make_text(fan, cursor);
    if (!t)
        return NULL;
    cursor->seen[0] = t->to[0];
    cursor->seen[1] = t->to[1];
    return &t->text;
}

void berth_api_fan_end(struct berth_api_fan *fan)
{
    for (size_t i = 0; i < BERTH_API_FAN_TEXTS; i++) {
        berth_buf_clear(&fan->texts[i].text);
        fan->texts[i] = (struct berth_api_fan_text){0};
    }
    fan->text_count = 0;
    batch_clear(&fan->now);
    fan->handing = false;
}

void berth_api_fan_clear(struct berth_api_fan *fan)
{
    berth_api_fan_end(fan);
    batch_clear(&fan->next);
}
