/* SPDX-License-Identifier: Apache-2.0
 * src/daemon/yaml.h - fills a struct from a YAML file, as one table of options says. */
#ifndef BERTH_DAEMON_YAML_H
#define BERTH_DAEMON_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <berth/error.h>

#define BERTH_YAML_OPTIONS_MAX 48 /* rows of one table */

enum berth_yaml_type {
    BERTH_YAML_SECTION,  /* lines "key: value"; not stored itself, its options are */
    BERTH_YAML_LIST,     /* a pointer to entries on the heap, and an unsigned count */
    BERTH_YAML_TEXT,     /* char * on the heap: 1 to BERTH_OPTION_BYTES_MAX bytes of UTF-8 */
    BERTH_YAML_BOOL,     /* bool */
    BERTH_YAML_INT,      /* int, from min to max */
    BERTH_YAML_INT64,    /* int64_t or uint64_t, from min to max */
    BERTH_YAML_DURATION, /* int64_t, in milliseconds */
    BERTH_YAML_WORD,     /* int or enum: the index in `words` */
};

/* The value that is being read. A check needs it to report a fault. */
struct berth_yaml_cursor {
    const char *file;
    size_t line;
    char path[64]; /* "settings.leaseTtl", "listen[1].port" */
    struct berth_error *err;
};

/* One row of a table. The first row is the whole file, with the path "". After the row of a list
 * comes the row of its entries, with the path "LIST[]". A row without a path ends the table. */
struct berth_yaml_option {
    const char *path;
    enum berth_yaml_type type;
    size_t offset; /* in the struct; below "LIST[]": in the entry */
    /* Called when the value is stored; `value` points to the member, which it may change. Returns
     * OK or an error of berth_yaml_fail. NULL: every value of the type is fine. */
    int (*check)(struct berth_yaml_cursor *at, void *value);
    bool required;
    int64_t min, max;    /* LIST: max is the largest number of entries */
    const char *words;   /* WORD: "debug, info" */
    size_t count, entry; /* LIST: the offset of the count, and the size of an entry */
};

/* Reads `file` once and fills `out`. Options that the file does not set stay as they are. Refuses a
 * file that another user could change. On failure `out` is filled in part.
 * NOT_FOUND, DENIED, TOO_LARGE, or INVALID with "FILE:LINE: what is wrong and what to do". */
int berth_yaml_read(const char *file, const struct berth_yaml_option *options, void *out,
                    struct berth_error *err);

/* Returns INVALID with "FILE:LINE: text". */
int berth_yaml_fail(const struct berth_yaml_cursor *at, const char *fmt, ...) BERTH_PRINTF(2, 3);
#endif
