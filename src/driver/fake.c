/* SPDX-License-Identifier: Apache-2.0
 * src/driver/fake.c - see fake.h. Its ids depend on nothing but the ledger, so that tests and
 * probes see the same one every time. */
#include "driver/fake.h"

#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/form.h"
#include "base/json.h"

struct fake_driver {
    struct berth_driver base;
};

/* Reads provider, image and reuseLease; other keys are ignored. */
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

static void fake_form(struct berth_form *f, void *ctx)
{
    static const char *const known[] = {"provider", "image", "reuseLease", NULL};
    (void)ctx;
    berth_form_put(f, "provider", berth_json_new_str("fake"));
    if (berth_json_get(f->in, "image"))
        (void)berth_form_required_text(f, "image", "Fake sandbox environments require an image.");
    else
        berth_form_put(f, "image", berth_json_new_str("ubuntu:24.04"));
    berth_form_boolean(f, "reuseLease", false);
    berth_form_refuse_unknown(f, f->in, "", known);
}

static int fake_validate(struct berth_driver *d, struct berth_call *call, const char *config_json,
                         enum berth_config_use use, struct berth_issues *issues,
                         const char **normalised, struct berth_error *err)
{
    (void)d;
    if (use != BERTH_CONFIG_REBUILD)
        return berth_form_normalise(config_json, fake_form, NULL, issues, normalised, err);
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
                        enum berth_release_mode mode, struct berth_error *err)
{
    (void)d, (void)call, (void)who, (void)place, (void)mode, (void)err;
    return BERTH_OK;
}

/* The driver makes nothing, so it finds nothing. */
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
    .validate = fake_validate,
    .probe = fake_probe,
    .acquire = fake_acquire,
    .resume = fake_resume,
    .realize = fake_realize,
    .release = fake_release,
    .free = fake_free,
};

static const struct berth_driver_finder fake_finder = {.find = fake_find};

static const struct berth_driver_traits fake_traits = {
    .name = "fake",
    .config_schema = "{\"properties\":{\"provider\":{\"const\":\"fake\"},"
                     "\"image\":{\"type\":\"string\",\"default\":\"ubuntu:24.04\"},"
                     "\"reuseLease\":{\"type\":\"boolean\",\"default\":false}}}",
    .finder = &fake_finder,
    .owns_config = true,
    .wants_sole = true,
    .unsavable = "Built-in fake sandbox environments are reserved for internal probes and cannot "
                 "be saved.",
};

int berth_driver_fake_new(struct berth_engine *engine, struct berth_driver **out,
                          struct berth_error *err)
{
    (void)engine;
    auto_free struct fake_driver *fake = calloc(1, sizeof *fake);
    if (!fake)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: fake provider.");
    fake->base = (struct berth_driver){.ops = &fake_ops, .traits = &fake_traits};
    *out = &take_ptr(fake)->base;
    return BERTH_OK;
}
