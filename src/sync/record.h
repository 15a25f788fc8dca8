/* SPDX-License-Identifier: Apache-2.0
 * src/sync/record.h - the parts of the files that this folder writes: numbers, texts and entries of
 * a manifest, and at the end their count and the SHA-256 of all before it. What is read may come
 * from a stranger. */
#ifndef BERTH_SYNC_RECORD_H
#define BERTH_SYNC_RECORD_H

#include <stddef.h>

#include "sync/entry.h"

struct berth_buf;

void berth_record_put_text(struct berth_buf *out, const char *text); /* closed by NUL */
void berth_record_put_entry(struct berth_buf *out, const struct berth_entry *entry);
/* Ends a record that began at `begin` of the buffer. */
void berth_record_put_end(struct berth_buf *out, size_t begin, size_t count);

/* What is being read: [at, end), which is followed by a NUL. Each function below reads one part and
 * returns false, or NULL, when it is damaged. */
struct berth_record {
    const char *at, *end;
};
/* Reads a whole number and the byte behind it. */
bool berth_record_number(struct berth_record *r, int base, char behind, int64_t *out);
const char *berth_record_text(struct berth_record *r);
/* Reads an entry, and checks that its path and its numbers are possible. */
bool berth_record_entry(struct berth_record *r, struct berth_entry *e);
bool berth_record_at_end(const struct berth_record *r);
/* Reads the end, and checks the count and the sum of all from `begin` on. */
bool berth_record_end(struct berth_record *r, const char *begin, size_t count);
#endif
