/* SPDX-License-Identifier: Apache-2.0
 * src/driver/fake.c - see fake.h. Its ids depend on nothing but the ledger, so that tests and
 * probes see the same one every time. */
#include "driver/fake.h"

#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/json.h"

struct fake_driver {
    struct berth_driver base;
};

/* The config as this provider keeps it: provider, image and reuseLease. */
static int own_config(const char *config_json, struct berth_json **out, struct berth_error *err)
{
    auto_json *config = NULL;
    int rc = berth_json_parse(config_json, strlen(config_json), BERTH_JSON_OURS, &config, err);
    if (rc < 0)
        return rc;
    const char *provider = berth_json_str(berth_json_get(config, "provider"));
    const char *image = berth_json_str(berth_json_get(config, "image"));
    if (!provider || strcmp(provider, "fake") != 0)
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "Sandbox provider \"fake\" received config for provider \"%s\".",
                          provider ? provider : "");
    if (!image)
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "Fake sandbox environments require an image.");
    struct berth_json *own = berth_json_new_object();
    bool reuse = berth_json_true(berth_json_get(config, "reuseLease"));
    if (!own || !berth_json_set(own, "provider", berth_json_new_str("fake")) ||
        !berth_json_set(own, "image", berth_json_new_str(image)) ||
        !berth_json_set(own, "reuseLease", berth_json_new_bool(reuse))) {
        berth_json_free(own);
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: fake provider.");
    }
    *out = own;
    return BERTH_OK;
}

static int answer(struct berth_call *call, const char *id, const struct berth_json *metadata,
                  struct berth_place *out, struct berth_error *err)
{
    out->id = berth_arena_strdup(call->arena, id);
    out->metadata_json = berth_json_canonical_in(call->arena, metadata);
    return berth_arena_check(call->arena, err);
}

static int fake_validate(struct berth_driver *d, struct berth_call *call, const char *config_json,
                         struct berth_issues *issues, const char **normalised,
                         struct berth_error *err)
{
    (void)d, (void)issues;
    auto_json *config = NULL;
    int rc = own_config(config_json, &config, err);
    if (rc < 0)
        return rc;
    *normalised = berth_json_canonical_in(call->arena, config);
    return berth_arena_check(call->arena, err);
}

static int fake_probe(struct berth_driver *d, struct berth_call *call,
                      const struct berth_place_request *who, struct berth_probe *out,
                      struct berth_error *err)
{
    (void)d;
    auto_json *config = NULL;
    int rc = own_config(who->config_json, &config, err);
    if (rc < 0)
        return rc;
    out->ok = true;
    out->summary = berth_arena_printf(call->arena, "Fake sandbox provider is ready for image %s.",
                                      berth_json_str(berth_json_get(config, "image")));
    out->details_json = berth_json_canonical_in(call->arena, config);
    return berth_arena_check(call->arena, err);
}

static int fake_acquire(struct berth_driver *d, struct berth_call *call,
                        const struct berth_place_request *who, struct berth_place *out,
                        struct berth_error *err)
{
    (void)d;
    auto_json *config = NULL;
    int rc = own_config(who->config_json, &config, err);
    if (rc < 0)
        return rc;
    const char *id = who->sole
                         ? berth_arena_printf(call->arena, "sandbox://fake/%s", who->environment_id)
                         : berth_arena_printf(call->arena, "sandbox://fake/%s/%s",
                                              who->environment_id, who->lease_id);
    return answer(call, id, config, out, err);
}

static int fake_resume(struct berth_driver *d, struct berth_call *call,
                       const struct berth_place_request *who, const struct berth_place *place,
                       struct berth_place *out, struct berth_error *err)
{
    (void)d;
    auto_json *config = NULL;
    int rc = own_config(who->config_json, &config, err);
    if (rc < 0)
        return rc;
    if (!berth_json_set(config, "resumedLease", berth_json_new_bool(true)))
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: fake provider.");
    return answer(call, place->id, config, out, err);
}

static int fake_release(struct berth_driver *d, struct berth_call *call,
                        const struct berth_place_request *who, const struct berth_place *place,
                        struct berth_error *err)
{
    (void)d, (void)call, (void)who, (void)place, (void)err;
    return BERTH_OK;
}

/* Nothing is ever made, so there is nothing to find. */
static int fake_find(struct berth_driver *d, struct berth_call *call,
                     const struct berth_place_request *who, berth_found_fn *each, void *ctx,
                     struct berth_error *err)
{
    (void)d, (void)call, (void)who, (void)each, (void)ctx, (void)err;
    return BERTH_OK;
}

static int fake_realize(struct berth_driver *d, struct berth_call *call,
                        const struct berth_place_request *who, const struct berth_place *place,
                        const struct berth_workspace *workspace, struct berth_realized *out,
                        struct berth_error *err)
{
    (void)d, (void)who, (void)place;
    out->cwd = berth_arena_strdup(call->arena, workspace->remote_path  ? workspace->remote_path
                                               : workspace->local_path ? workspace->local_path
                                                                       : "/");
    return berth_arena_check(call->arena, err);
}

static void fake_free(struct berth_driver *d)
{
    free(d);
}

static const struct berth_driver_ops fake_ops = {
    .name = "fake",
    .wants_sole = true,
    .validate = fake_validate,
    .probe = fake_probe,
    .acquire = fake_acquire,
    .resume = fake_resume,
    .realize = fake_realize,
    .release = fake_release,
    .destroy = fake_release,
    .find = fake_find,
    .free = fake_free,
};

int berth_driver_fake_new(struct berth_driver **out, struct berth_error *err)
{
    auto_free struct fake_driver *fake = calloc(1, sizeof *fake);
    if (!fake)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: fake provider.");
    fake->base.ops = &fake_ops;
    *out = &take_ptr(fake)->base;
    return BERTH_OK;
}
