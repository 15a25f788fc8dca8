/* SPDX-License-Identifier: Apache-2.0
 * src/core/secret/driver_input.h - what a driver is told for the length of one call, with the
 * secrets of the config resolved; and what it answers, with those secrets taken out again. Drivers
 * are hostile: a value that they repeat must not reach the store, a log or a caller. */
#ifndef BERTH_CORE_SECRET_DRIVER_INPUT_H
#define BERTH_CORE_SECRET_DRIVER_INPUT_H

#include "core/berth.h"
#include "core/secret/secret_refs.h"

struct berth_driver_input {
    struct berth_place_request who; /* config_json is the resolved one */
    bool ends; /* set by the caller when the call gives a place back; see berth_driver_input_open */
    struct berth_list references;
    struct berth_locked *values;  /* one for each reference */
    struct berth_list patterns;   /* what is looked for in answers, the longest first */
    struct berth_matcher *inside; /* of those that are looked for inside of texts; NULL: none */
    struct berth_locked config;
};

/* Resolves the secrets of use->who, whose other members the caller has set. If it names
 * a lease, secrets that the lease captured may be used, too. What may not be resolved is an error;
 * but a call that ends a place is made without it, since the driver never had the value. Close it
 * right after the call. */
int berth_driver_input_open(struct berth *b, struct berth_arena *arena, const char *driver,
                            struct berth_driver_input *use, struct berth_error *err);
void berth_driver_input_close(struct berth_driver_input *use);
#define auto_driver_input                                                                          \
    __attribute__((cleanup(berth_driver_input_close))) struct berth_driver_input

bool berth_driver_input_shows(const struct berth_driver_input *use,
                              const char *text); /* a value is in it */
void berth_driver_input_mask(const struct berth_driver_input *use, char *text); /* in place */
void berth_driver_input_mask_error(const struct berth_driver_input *use, struct berth_error *err);
/* Removes the secrets from *json, an object as JSON text or NULL. The new text is in the arena. */
int berth_driver_input_clean(const struct berth_driver_input *use, struct berth_arena *arena,
                             const char **json, struct berth_error *err);
#endif
