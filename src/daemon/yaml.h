/* SPDX-License-Identifier: Apache-2.0
 * src/daemon/yaml.h - a YAML file, filled into a struct by a schema of libcyaml, with the line of
 * every value. */
#ifndef BERTH_DAEMON_YAML_H
#define BERTH_DAEMON_YAML_H

#include "base/arena.h"
#include "base/buf.h"

struct cyaml_schema_value;

/* The path of a value is "settings.leaseTtl", "listen[1].port"; "" is the whole file. */
struct berth_yaml {
    const char *path;        /* the file's, borrowed */
    struct berth_buf text;   /* what is in it */
    struct berth_list lines; /* of the values: where each begins */
    struct berth_arena arena;
    const struct cyaml_schema_value *schema;
    void *data; /* as the schema has it, borrowed; NULL: the file says nothing */
};

/* A schema is a mapping of texts, enums, whole numbers (UINT), booleans, and mappings and lists of
 * them; what is not OPTIONAL must be there. Who may change the file is checked, too.
 * NOT_FOUND, DENIED, TOO_LARGE, or INVALID with "FILE:LINE: PATH what is wrong". Clear it in any
 * case. */
int berth_yaml_read(const char *path, const struct cyaml_schema_value *schema,
                    struct berth_yaml *out, struct berth_error *err);
void berth_yaml_clear(struct berth_yaml *yaml);

/* INVALID, "FILE:LINE: PATH text". */
int berth_yaml_fail(const struct berth_yaml *yaml, const char *path, struct berth_error *err,
                    const char *fmt, ...) BERTH_PRINTF(4, 5);

#define auto_yaml __attribute__((cleanup(berth_yaml_clear))) struct berth_yaml
#endif
