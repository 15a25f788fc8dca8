/* SPDX-License-Identifier: Apache-2.0
 * include/berth/environment.h - named places where work can run: create, change, look, end. */
#ifndef BERTH_ENVIRONMENT_H
#define BERTH_ENVIRONMENT_H

#include <berth/common.h>

enum berth_environment_driver {
    BERTH_DRIVER_LOCAL, /* this machine itself, and no sandbox */
    BERTH_DRIVER_SSH,
    BERTH_DRIVER_SANDBOX,
    BERTH_DRIVER_PLUGIN,
};

enum berth_environment_status {
    BERTH_ENVIRONMENT_ACTIVE,
    BERTH_ENVIRONMENT_ARCHIVED, /* no lease can be taken */
};

struct berth_environment;
BERTH_API const char *berth_environment_id(const struct berth_environment *e);
BERTH_API const char *berth_environment_company_id(const struct berth_environment *e);
BERTH_API const char *berth_environment_name(const struct berth_environment *e);
BERTH_API enum berth_environment_driver berth_environment_driver(const struct berth_environment *e);
BERTH_API enum berth_environment_status berth_environment_status(const struct berth_environment *e);
/* Normalised; secrets are in it by their ids. */
BERTH_API const char *berth_environment_config(const struct berth_environment *e);
/* Everything, with the field names of the API. */
BERTH_API const char *berth_environment_to_json(struct berth_arena *arena,
                                                const struct berth_environment *e);

enum berth_environment_field {
    BERTH_FIELD_NAME = 1 << 0,
    BERTH_FIELD_DESCRIPTION = 1 << 1,
    BERTH_FIELD_DRIVER = 1 << 2,
    BERTH_FIELD_STATUS = 1 << 3,
    BERTH_FIELD_CONFIG = 1 << 4,
    BERTH_FIELD_METADATA = 1 << 5,
};

/* What a config is checked for. */
enum berth_config_use {
    BERTH_CONFIG_SCHEMA,  /* its form alone */
    BERTH_CONFIG_PROBE,   /* a probe before it is saved: secret values may stand in it */
    BERTH_CONFIG_PERSIST, /* saving: the provider is asked, and secret values are refused */
    BERTH_CONFIG_REBUILD, /* rebuilding it from a lease's metadata: unknown keys are ignored */
};

/* What create sets and update changes; `fields` says which were given. */
struct berth_environment_input {
    unsigned fields;        /* update: of enum berth_environment_field */
    const char *company_id; /* create: NULL is the company `default` */
    const char *name, *description;
    enum berth_environment_driver driver;
    enum berth_environment_status status; /* create: with BERTH_FIELD_STATUS */
    /* Objects as JSON text, or NULL. A value where the provider wants a secret is made one. */
    const char *config_json, *metadata_json;
    enum berth_config_use use; /* PERSIST for what comes from outside */
    bool own_keys; /* DENIED: a config that would reach its places with keys of this process */
    /* DENIED: a config that uses stored secrets, unless the environment has exactly this config
     * already. Values that the config itself brings are allowed. */
    bool own_secrets;
    const struct berth_actor *actor;
};
#define BERTH_ENVIRONMENT_INPUT_INIT                                                               \
    {                                                                                              \
        .use = BERTH_CONFIG_PERSIST                                                                \
    }

/* `issues` gets all that is wrong with the config, and the first is the error. CONFLICT: a second
 * local environment. */
BERTH_API int berth_environment_create(struct berth *b, struct berth_arena *arena,
                                       const struct berth_environment_input *input,
                                       struct berth_issues *issues, struct berth_environment **out,
                                       struct berth_error *err);
/* A config is merged over the one there while the driver stays, and stands alone when it changes.
 * Open leases keep what they captured. */
BERTH_API int berth_environment_update(struct berth *b, struct berth_arena *arena, const char *id,
                                       const struct berth_environment_input *input,
                                       struct berth_issues *issues, struct berth_environment **out,
                                       struct berth_error *err);
/* Parked places are ended first; open leases too with `drain`, else they are a CONFLICT. While a
 * place is not confirmed gone the environment stays, archived, and the sweep finishes. */
BERTH_API int berth_environment_delete(struct berth *b, struct berth_arena *arena, const char *id,
                                       bool drain, const struct berth_actor *actor,
                                       struct berth_environment **out, struct berth_error *err);
/* The company's local environment; made when there is none. */
BERTH_API int berth_environment_ensure_local(struct berth *b, struct berth_arena *arena,
                                             const char *company_id, struct berth_environment **out,
                                             struct berth_error *err);
BERTH_API int berth_environment_get(struct berth *b, struct berth_arena *arena, const char *id,
                                    struct berth_environment **out, struct berth_error *err);

struct berth_environment_filter {
    const char *company_id; /* NULL: the company `default` */
    const char *name;       /* NULL: any */
    int driver, status;     /* -1: any */
    int limit;              /* rows; 0: all */
    const char *before;     /* only rows that follow the one with this id in the list; or NULL */
};
#define BERTH_ENVIRONMENT_FILTER_INIT                                                              \
    {                                                                                              \
        .driver = -1, .status = -1                                                                 \
    }
/* A list of struct berth_environment, newest change first. */
BERTH_API int berth_environment_list(struct berth *b, struct berth_arena *arena,
                                     const struct berth_environment_filter *filter,
                                     struct berth_list *out, struct berth_error *err);

struct berth_probe {
    bool ok;
    const char *summary;
    const char *details_json; /* or NULL */
};
/* Touches the real place and leaves nothing behind; what fails there is an answer. */
BERTH_API int berth_environment_probe(struct berth *b, struct berth_arena *arena, const char *id,
                                      const struct berth_actor *actor, struct berth_probe *out,
                                      struct berth_error *err);
/* The same for a config that is not saved, and is not afterwards: name, driver and config of the
 * input are read. UNPROCESSABLE: what is wrong with the config is in `issues`. */
BERTH_API int berth_environment_probe_config(struct berth *b, struct berth_arena *arena,
                                             const struct berth_environment_input *input,
                                             struct berth_issues *issues, struct berth_probe *out,
                                             struct berth_error *err);
#endif
