/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/log_cursor.h - reads the log of one command, or the logs of all commands of a run,
 * a batch of events at a time. Between two reads it holds no file. */
#ifndef BERTH_API_STREAM_LOG_CURSOR_H
#define BERTH_API_STREAM_LOG_CURSOR_H

#include "api/state.h"
#include "api/stream/output_format.h"
#include "base/id.h"

/* The fields above `batch` are set before the first read. One thread uses it at a time. */
struct berth_api_log_cursor {
    struct berth_api *api;
    const struct berth_api_output_format *format;
    int stream;                  /* enum berth_stream, or -1: both */
    uint64_t offset;             /* bytes of the selected output to skip */
    bool follow;                 /* more is read later; otherwise the last event is "idle" */
    char exec_id[BERTH_ID_SIZE]; /* the command that is read, or "" between two commands of a run */
    char run_id[BERTH_ID_SIZE];  /* or "" */

    struct berth_buf batch;      /* what a read has found, for the client */
    bool idle;                   /* there is no more output for now */
    bool over;                   /* there is no more output at all */
    bool cut[2];                 /* the log has no more of that stream */
    bool ended;                  /* its row says that the command has ended */
    char *log;                   /* path of the command's log; NULL: it has none, or none yet */
    char last_id[BERTH_ID_SIZE]; /* the run's previous command, or "" */
    uint64_t before;             /* bytes of the previous commands */
    uint64_t seen[2];            /* of this command, by stream: the offset of its next byte */
    unsigned changes_seen;       /* of the progress of the run */
    uint64_t mark; /* in the log: the first frame with something new; 0: its beginning */
};

/* Reads until the batch is full or there is no more for now. Blocks. */
int berth_api_log_read(struct berth_api_log_cursor *c, struct berth_error *err);
void berth_api_log_clear(struct berth_api_log_cursor *c);

/* Writes an event to the batch: an object with one member, and `result` if it is not NULL. */
void berth_api_log_put_event(struct berth_api_log_cursor *c, const char *name, const char *key,
                             const char *value, const char *result_json);
bool berth_api_log_wants(const struct berth_api_log_cursor *c, enum berth_stream stream);
/* Returns the client's offset after everything that was seen. */
uint64_t berth_api_log_position(const struct berth_api_log_cursor *c);
/* Returns whether a request of this daemon performs the run. Such a run is over when its place is
 * given back, which is after its row says that it has ended. */
bool berth_api_is_performed(struct berth_api *api, const char *run_id);
#endif
