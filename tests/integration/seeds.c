/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/seeds.c - the behaviours the project was asked for with, by their numbers.
 * What is only a function is tested once; what touches the ledger, on both stores. */
#include "fixture.h"

#include <pthread.h>

#include "base/auto.h"
#include "base/time.h"
#include "core/lease/parking.h"
#include "inventory.h"
#include "scripted.h"
#include "store/store.h"

#define FAKE_CONFIG "{\"provider\":\"fake\",\"image\":\"ubuntu:24.04\",\"reuseLease\":true}"
#define INVENTORY_REUSED "{\"provider\":\"inventory\",\"reuseLease\":true}"

/* --- help --- */

/* What is built in and nothing else. */
static struct berth_registry *builtin_registry(void)
{
    struct berth_registry *registry;
    struct berth_error err;
    if (berth_registry_new(&registry, &err) < 0 || berth_builtins.add_drivers(registry, &err) < 0)
        fail_msg("registry: %s", err.message);
    return registry;
}

static void add_spy(struct berth_registry *registry, const char *driver, const char *provider,
                    struct scripted *world)
{
    struct berth_driver *spy;
    struct berth_error err;
    if (scripted_driver(world, true, &spy, &err) < 0 ||
        berth_registry_add(registry, driver, provider, spy, &err) < 0)
        fail_msg("spy: %s", err.message);
}

/* Driver and config as a test writes them, without asking a provider. */
static struct berth_environment *change_environment(struct fixture *f,
                                                    const struct berth_environment *e,
                                                    enum berth_environment_driver driver,
                                                    const char *config)
{
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    input.fields = BERTH_FIELD_DRIVER | BERTH_FIELD_CONFIG;
    input.driver = driver;
    input.config_json = config;
    input.use = BERTH_CONFIG_SCHEMA;
    struct berth_issues issues = {.arena = &f->arena};
    struct berth_environment *changed;
    assert_ok(f,
              berth_environment_update(f->b, &f->arena, e->id, &input, &issues, &changed, &f->err));
    return changed;
}

/* Returns a row that Paperclip wrote: without a captured config and a fingerprint. */
static struct berth_lease foreign_row(const char *place_id, const char *metadata)
{
    return (struct berth_lease){.id = place_id,
                                .provider_lease_id = place_id,
                                .status = BERTH_LEASE_RELEASED,
                                .policy = BERTH_POLICY_REUSE_BY_ENVIRONMENT,
                                .place = BERTH_PLACE_PARKED,
                                .metadata_json = metadata};
}

/* The place that serves `config`, of two rows; NULL: neither. */
static const char *chosen(const char *config, const char *first, const char *first_metadata,
                          const char *second, const char *second_metadata)
{
    auto_json *parsed = parse_json(config);
    struct berth_lease a = foreign_row(first, first_metadata);
    struct berth_lease b = foreign_row(second, second_metadata);
    void *items[] = {&a, &b};
    struct berth_list list = {.items = items, .count = 2, .cap = 2};
    const struct berth_lease *found = berth_parking_find(parsed, "of this environment", &list);
    return found ? found->provider_lease_id : NULL;
}

static void assert_json(const struct berth_json *value, const char *wanted)
{
    auto_json *parsed = parse_json(wanted);
    auto_free char *is = berth_json_canonical(value), *should = berth_json_canonical(parsed);
    assert_non_null(is);
    assert_string_equal(is, should);
}

static const char *metadata_text(struct fixture *f, const struct berth_lease *lease,
                                 const char *key)
{
    return json_text(f, lease->metadata_json, key);
}

/* --- seed 002: the built-in provider --- */

static void P1_fake_is_the_only_builtin_provider(void **state)
{
    (void)state;
    struct berth_registry *registry = builtin_registry();
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_error err;
    struct berth_list providers;
    assert_int_equal(berth_registry_providers(registry, &arena, &providers, &err), BERTH_OK);
    assert_int_equal(providers.count, 1);
    assert_string_equal(providers.items[0], "fake");
    const struct berth_route *fake = berth_registry_find(registry, "sandbox", "fake");
    assert_non_null(fake);
    assert_null(berth_registry_find(registry, "sandbox", "fake-plugin"));

    struct berth_call call = {.deadline_ms = INT64_MAX, .cancel_fd = -1, .arena = &arena};
    struct berth_issues issues = {.arena = &arena};
    const char *normalised = NULL;
    assert_int_equal(berth_driver_validate(fake, &call, FAKE_CONFIG, BERTH_CONFIG_SCHEMA, &issues,
                                           &normalised, &err),
                     BERTH_OK);
    assert_int_equal(issues.list.count, 0);
    auto_json *details = parse_json(normalised);
    assert_json(details, FAKE_CONFIG);

    struct berth_place_request who = {
        .lease_id = "lease-1", .environment_id = "env-1", .config_json = FAKE_CONFIG};
    struct berth_probe probe;
    assert_int_equal(berth_driver_probe(fake, &call, &who, &probe, &err), BERTH_OK);
    assert_true(probe.ok);
    assert_string_equal(probe.summary, "Fake sandbox provider is ready for image ubuntu:24.04.");
    berth_registry_free(registry);
}

static void P2_other_providers_are_not_builtin(void **state)
{
    struct fixture *f = *state;
    const struct berth_route *route = NULL;
    assert_int_equal(berth_registry_builtin(f->b->registry, "fake-plugin", &route, &f->err),
                     BERTH_E_UNPROCESSABLE);
    assert_string_equal(f->err.message, "Sandbox provider \"fake-plugin\" is not registered as a "
                                        "built-in provider.");
    assert_null(route);
    assert_ok(f, berth_registry_builtin(f->b->registry, "fake", &route, &f->err));

    struct berth_environment *e =
        make_environment(f, BERTH_DRIVER_SANDBOX, "{\"provider\":\"fake-plugin\"}");
    struct berth_probe probe;
    assert_ok(f, berth_environment_probe(f->b, &f->arena, e->id, NULL, &probe, &f->err));
    assert_false(probe.ok);
    assert_string_equal(probe.summary,
                        "Sandbox provider \"fake-plugin\" requires a running provider plugin.");
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = e->id;
    struct berth_lease *lease;
    int rc = berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err);
    assert_int_equal(rc, BERTH_E_UNPROCESSABLE);
    assert_string_equal(f->err.message,
                        "Sandbox provider \"fake-plugin\" is not registered as a built-in provider "
                        "and no matching plugin is available.");
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases"), 0);
}

static void P3_fake_leases_are_deterministic(void **state)
{
    (void)state;
    struct berth_registry *registry = builtin_registry();
    auto_arena arena = BERTH_ARENA_INIT;
    const struct berth_route *fake = berth_registry_find(registry, "sandbox", "fake");
    struct berth_call call = {.deadline_ms = INT64_MAX, .cancel_fd = -1, .arena = &arena};
    struct berth_place_request who = {.lease_id = "lease-1",
                                      .environment_id = "env-1",
                                      .run_id = "run-1",
                                      .config_json = FAKE_CONFIG,
                                      .sole = true};
    struct berth_place first, second;
    struct berth_error err;
    assert_int_equal(berth_driver_acquire(fake, &call, &who, &first, &err), BERTH_OK);
    assert_string_equal(first.id, "sandbox://fake/env-1");
    auto_json *metadata = parse_json(first.metadata_json);
    assert_json(metadata, FAKE_CONFIG);

    who.lease_id = "lease-2";
    who.run_id = "run-2";
    assert_int_equal(berth_driver_resume(fake, &call, &who, &first, &second, &err), BERTH_OK);
    assert_string_equal(second.id, "sandbox://fake/env-1");
    auto_json *resumed = parse_json(second.metadata_json);
    assert_true(berth_json_true(berth_json_get(resumed, "resumedLease")));

    who.sole = false; /* the first one is still held */
    assert_int_equal(berth_driver_acquire(fake, &call, &who, &second, &err), BERTH_OK);
    assert_string_equal(second.id, "sandbox://fake/env-1/lease-2");
    berth_registry_free(registry);
}

static void P3_fake_lease_is_resumed_by_the_next_run(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, FAKE_CONFIG);
    struct berth_lease *first = take_lease(f, e, make_run(f));
    assert_false(json_has(first->metadata_json, "resumedLease"));
    (void)give_lease(f, first, BERTH_LEASE_RELEASED);
    struct berth_lease *second = take_lease(f, e, make_run(f));
    assert_string_equal(second->provider_lease_id, first->provider_lease_id);
    assert_string_equal(metadata_text(f, second, "resumedLease"), "true");
    assert_string_not_equal(second->id, first->id);
    struct berth_lease *old = look_at_lease(f, first);
    assert_int_equal(old->status, BERTH_LEASE_RELEASED);
    assert_int_equal(old->place, BERTH_PLACE_NONE);
    assert_int_equal(old->due_at_ms, 0);
}

static void P4_the_image_is_part_of_the_identity(void **state)
{
    (void)state;
    const char *a = "{\"provider\":\"fake\",\"image\":\"image-a\",\"reuseLease\":true}";
    const char *b = "{\"provider\":\"fake\",\"image\":\"image-b\",\"reuseLease\":true}";
    assert_string_equal(chosen(b, "sandbox-image-a", a, "sandbox-image-b", b), "sandbox-image-b");
    assert_string_equal(chosen(a, "sandbox-image-a", a, "sandbox-image-b", b), "sandbox-image-a");
    const char *kept = "{\"provider\":\"fake\",\"image\":\"image-b\",\"reuseLease\":\"true\"}";
    assert_null(chosen(b, "sandbox-image-a", a, "not-for-reuse", kept));
    assert_null(chosen(b, "sandbox-image-a", a, "", b));
    assert_null(chosen(b, "sandbox-image-a", a, NULL, b));
}

static void P5_fake_config_from_metadata(void **state)
{
    (void)state;
    struct berth_registry *registry = builtin_registry();
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_error err;
    auto_json *metadata = parse_json("{\"driver\":\"sandbox\",\"executionWorkspaceMode\":null,"
                                     "\"provider\":\"fake\",\"image\":\"paperclip-test\","
                                     "\"reuseLease\":true}");
    const char *wanted = "{\"provider\":\"fake\",\"image\":\"paperclip-test\",\"reuseLease\":true}";
    auto_json *strict = NULL, *loose = NULL;
    assert_int_equal(berth_parking_config_strict(registry, &arena, metadata, &strict, &err),
                     BERTH_OK);
    assert_json(strict, wanted);
    assert_int_equal(berth_parking_config_loose(registry, &arena, metadata, &loose, &err),
                     BERTH_OK);
    assert_json(loose, wanted);

    auto_json *without = parse_json("{\"provider\":\"fake\",\"reuseLease\":true}");
    auto_json *none = NULL;
    assert_int_equal(berth_parking_config_strict(registry, &arena, without, &none, &err), BERTH_OK);
    assert_null(none);
    berth_registry_free(registry);
}

static void P6_plugin_config_from_metadata_keeps_every_field(void **state)
{
    (void)state;
    struct berth_registry *registry = builtin_registry();
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_error err;
    const char *text = "{\"provider\":\"fake-plugin\",\"reuseLease\":true,\"timeoutMs\":45000,"
                       "\"remoteCwd\":\"/workspace/project\",\"fakeRootDir\":\"/tmp/fake\"}";
    auto_json *metadata = parse_json(text);
    auto_json *loose = NULL;
    assert_int_equal(berth_parking_config_loose(registry, &arena, metadata, &loose, &err),
                     BERTH_OK);
    assert_json(loose, text);

    auto_json *maybe = parse_json("{\"provider\":\"fake-plugin\",\"reuseLease\":\"yes\"}");
    auto_json *exact = NULL;
    assert_int_equal(berth_parking_config_loose(registry, &arena, maybe, &exact, &err), BERTH_OK);
    assert_json(exact, "{\"provider\":\"fake-plugin\",\"reuseLease\":false}");
    auto_json *nobody = parse_json("{\"reuseLease\":true}"), *none = NULL;
    assert_int_equal(berth_parking_config_loose(registry, &arena, nobody, &none, &err), BERTH_OK);
    assert_null(none);
    berth_registry_free(registry);
}

static void P7_releasing_a_fake_lease_does_nothing(void **state)
{
    (void)state;
    struct berth_registry *registry = builtin_registry();
    auto_arena arena = BERTH_ARENA_INIT;
    const struct berth_route *fake = berth_registry_find(registry, "sandbox", "fake");
    struct berth_call call = {.deadline_ms = INT64_MAX, .cancel_fd = -1, .arena = &arena};
    struct berth_place_request who = {
        .lease_id = "lease-1", .environment_id = "env-1", .config_json = FAKE_CONFIG};
    struct berth_place place = {.id = "sandbox://fake/env-1"};
    struct berth_error err;
    assert_int_equal(berth_driver_release(fake, &call, &who, &place, BERTH_RELEASE_KEEP, &err),
                     BERTH_OK);
    assert_int_equal(berth_driver_release(fake, &call, &who, &place, BERTH_RELEASE_KEEP, &err),
                     BERTH_OK);
    berth_registry_free(registry);
}

static void P8_plugin_leases_match_on_every_field(void **state)
{
    (void)state;
    const char *config = "{\"provider\":\"fake-plugin\",\"template\":\"template-b\","
                         "\"apiKey\":\"22222222-2222-4222-8222-222222222222\","
                         "\"timeoutMs\":300000,\"reuseLease\":true}";
    const char *other = "{\"provider\":\"fake-plugin\",\"template\":\"template-a\","
                        "\"apiKey\":\"11111111-1111-4111-8111-111111111111\",\"reuseLease\":true}";
    const char *other_secret = "{\"provider\":\"fake-plugin\",\"template\":\"template-b\","
                               "\"apiKey\":\"11111111-1111-4111-8111-111111111111\","
                               "\"timeoutMs\":300000,\"reuseLease\":true}";
    assert_string_equal(chosen(config, "sandbox-a", other, "sandbox-b", config), "sandbox-b");
    assert_null(chosen(config, "sandbox-a", other, "sandbox-b", other_secret));
}

static void P9_strict_is_for_builtin_providers_only(void **state)
{
    (void)state;
    struct berth_registry *registry = builtin_registry();
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_error err;
    const char *text = "{\"provider\":\"fake-plugin\",\"template\":\"base\",\"timeoutMs\":300000,"
                       "\"reuseLease\":true,"
                       "\"apiKey\":\"22222222-2222-4222-8222-222222222222\"}";
    auto_json *metadata = parse_json(text);
    auto_json *strict = NULL, *loose = NULL;
    assert_int_equal(berth_parking_config_strict(registry, &arena, metadata, &strict, &err),
                     BERTH_OK);
    assert_null(strict);
    assert_int_equal(berth_parking_config_loose(registry, &arena, metadata, &loose, &err),
                     BERTH_OK);
    assert_json(loose, text);
    berth_registry_free(registry);
}

/* --- seed 003: the runtime --- */

static void R1_plugin_leases_match_by_config(void **state)
{
    (void)state;
    assert_string_equal(
        chosen("{\"provider\":\"fake-plugin\",\"image\":\"template-b\",\"timeoutMs\":300000,"
               "\"reuseLease\":true}",
               "sandbox-template-a",
               "{\"provider\":\"fake-plugin\",\"image\":\"template-a\",\"timeoutMs\":300000,"
               "\"reuseLease\":true}",
               "sandbox-template-b",
               "{\"provider\":\"fake-plugin\",\"image\":\"template-b\",\"timeoutMs\":300000,"
               "\"reuseLease\":true,\"driver\":\"sandbox\"}"),
        "sandbox-template-b");
}

static void R2_fake_leases_need_the_same_image(void **state)
{
    (void)state;
    assert_string_equal(
        chosen(FAKE_CONFIG, "sandbox-image-a",
               "{\"provider\":\"fake\",\"image\":\"debian:12\",\"reuseLease\":true}",
               "sandbox-image-b", FAKE_CONFIG),
        "sandbox-image-b");
}

/* A row with a captured config is judged by its fingerprint, whatever its metadata says. */
static void R2_our_own_rows_match_by_fingerprint(void **state)
{
    (void)state;
    auto_json *config = parse_json(FAKE_CONFIG);
    struct berth_lease row = foreign_row("sandbox-image-b", FAKE_CONFIG);
    row.fingerprint = "of another config";
    assert_false(berth_parking_matches(config, "of this environment", &row));
    row.fingerprint = "of this environment";
    row.metadata_json = "{}";
    assert_true(berth_parking_matches(config, "of this environment", &row));
    row.provider_lease_id = NULL;
    assert_false(berth_parking_matches(config, "of this environment", &row));
}

static void R3_local_lease(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_LOCAL, "{}");
    struct berth_run *run = make_run(f);
    struct berth_lease *lease = take_lease(f, e, run);
    assert_int_equal(lease->status, BERTH_LEASE_ACTIVE);
    assert_int_equal(lease->policy, BERTH_POLICY_EPHEMERAL);
    assert_string_equal(lease->provider, "local");
    assert_null(lease->provider_lease_id);
    assert_string_equal(lease->heartbeat_run_id, run->id);
    assert_string_equal(lease->metadata_json,
                        "{\"driver\":\"local\",\"executionWorkspaceMode\":null}");
    assert_null(lease->execution_workspace_id);

    struct berth_run_end end = {.status = BERTH_RUN_SUCCEEDED};
    struct berth_list released;
    assert_ok(f, berth_run_finish(f->b, &f->arena, run->id, &end, &released, &f->err));
    assert_int_equal(released.count, 1);
    const struct berth_lease *one = released.items[0];
    assert_string_equal(one->id, lease->id);
    assert_string_equal(one->driver, "local");
    assert_int_equal(one->status, BERTH_LEASE_RELEASED);
    struct berth_lease *row = look_at_lease(f, lease);
    assert_int_equal(row->status, BERTH_LEASE_RELEASED);
    assert_int_equal(row->place, BERTH_PLACE_NONE);
    assert_int_equal(row->cleanup, BERTH_CLEANUP_NULL); /* 8.6: other drivers leave it null */
    assert_int_equal(row->due_at_ms, 0);
    assert_true(row->released_at_ms > 0);
}

static void R4_no_workspace_is_fine(void **state)
{
    struct fixture *f = *state;
    const char *workspace = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff";
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_LOCAL, "{}");
    struct berth_lease *without = take_lease(f, e, make_run(f));
    assert_null(without->execution_workspace_id);
    assert_null(without->issue_id);
    assert_true(json_has(without->metadata_json, "executionWorkspaceMode"));
    assert_null(metadata_text(f, without, "executionWorkspaceMode"));

    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = e->id;
    request.execution_workspace_id = workspace;
    request.workspace_mode = "shared_workspace";
    struct berth_lease *with;
    assert_ok(f, berth_lease_acquire(f->b, &f->arena, &request, &with, &f->err));
    struct berth_lease *row = look_at_lease(f, with);
    assert_string_equal(row->execution_workspace_id, workspace);
    assert_string_equal(metadata_text(f, row, "executionWorkspaceMode"), "shared_workspace");
}

static void R5_unregistered_driver_leaves_no_row(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(
        f, BERTH_DRIVER_SSH, "{\"host\":\"h\",\"username\":\"u\",\"remoteWorkspacePath\":\"/w\"}");
    struct berth_run *run = make_run(f);
    fixture_close(f);
    struct berth_registry *only_local;
    assert_ok(f, berth_registry_new(&only_local, &f->err));
    add_spy(only_local, "local", NULL, f->world);
    fixture_open_with(f, only_local);

    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = e->id;
    request.run_id = run->id;
    struct berth_lease *lease;
    int rc = berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err);
    assert_int_equal(rc, BERTH_E_UNPROCESSABLE);
    assert_string_equal(
        f->err.message,
        "Environment driver \"ssh\" is not registered in the environment runtime yet.");
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases"), 0);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_ACQUIRE), 0);
}

static void R7_fake_sandbox_lease(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, FAKE_CONFIG);
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    char wanted[128];
    (void)snprintf(wanted, sizeof wanted, "sandbox://fake/%s", e->id);
    assert_int_equal(lease->status, BERTH_LEASE_ACTIVE);
    assert_int_equal(lease->policy, BERTH_POLICY_REUSE_BY_ENVIRONMENT);
    assert_string_equal(lease->provider_lease_id, wanted);
    assert_string_equal(metadata_text(f, lease, "driver"), "sandbox");
    assert_string_equal(metadata_text(f, lease, "provider"), "fake");
    assert_string_equal(metadata_text(f, lease, "image"), "ubuntu:24.04");
    assert_string_equal(metadata_text(f, lease, "reuseLease"), "true");

    /* While that row stands, the next holder's id says whose it is. */
    struct berth_lease *other = take_lease(f, e, make_run(f));
    (void)snprintf(wanted, sizeof wanted, "sandbox://fake/%s/%s", e->id, other->id);
    assert_string_equal(other->provider_lease_id, wanted);

    struct berth_lease *released = give_lease(f, lease, BERTH_LEASE_RELEASED);
    assert_int_equal(released->status, BERTH_LEASE_RELEASED);
    assert_int_equal(released->place, BERTH_PLACE_PARKED);
    assert_int_equal(released->cleanup, BERTH_CLEANUP_SUCCESS);
    assert_null(released->failure_reason);
}

/* R12 as the ledger reads it: the acquire comes first, the place that did not wake is owed. */
static void R12_failed_resume_acquires_and_owes_a_destroy(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e =
        make_environment(f, BERTH_DRIVER_SANDBOX,
                         "{\"provider\":\"inventory\",\"reuseLease\":true,\"resume\":\"fail\"}");
    struct berth_lease *stale = take_lease(f, e, make_run(f));
    assert_int_equal(give_lease(f, stale, BERTH_LEASE_RELEASED)->place, BERTH_PLACE_PARKED);
    struct berth_lease *fresh = take_lease(f, e, make_run(f));
    assert_int_equal(fresh->status, BERTH_LEASE_ACTIVE);
    assert_int_equal(fresh->place, BERTH_PLACE_LIVE);
    assert_string_not_equal(fresh->provider_lease_id, stale->provider_lease_id);
    assert_true(inventory_has(f->inventory, fresh->provider_lease_id));

    struct berth_lease *owing = look_at_lease(f, stale);
    assert_int_equal(owing->status, BERTH_LEASE_RELEASED);
    assert_int_equal(owing->place, BERTH_PLACE_LIVE);
    assert_int_equal(owing->cleanup, BERTH_CLEANUP_PENDING);
    assert_int_equal(owing->duty, BERTH_DUTY_DESTROY);
    assert_string_equal(owing->provider_lease_id, stale->provider_lease_id);
    assert_true(inventory_has(f->inventory, stale->provider_lease_id));
    check_invariants(f);

    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.cleaned, 1);
    assert_int_equal(report.failed, 0);
    assert_int_equal(report.owed, 0);
    struct berth_lease *done = look_at_lease(f, stale);
    assert_int_equal(done->status, BERTH_LEASE_RELEASED);
    assert_int_equal(done->place, BERTH_PLACE_GONE);
    assert_int_equal(done->cleanup, BERTH_CLEANUP_SUCCESS);
    assert_false(inventory_has(f->inventory, stale->provider_lease_id));
    assert_true(inventory_has(f->inventory, fresh->provider_lease_id));
    assert_int_equal(look_at_lease(f, fresh)->status, BERTH_LEASE_ACTIVE);
    check_invariants(f);
}

/* "Gone" is what the provider says; only a destroy confirms it. A provider that starts the place
 * and then does not give it would otherwise leave it running. */
static void resume_without_a_place(struct fixture *f, const char *config)
{
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, config);
    struct berth_lease *old = take_lease(f, e, make_run(f));
    (void)give_lease(f, old, BERTH_LEASE_RELEASED);
    struct berth_lease *fresh = take_lease(f, e, make_run(f));
    assert_int_equal(fresh->status, BERTH_LEASE_ACTIVE);
    assert_string_not_equal(fresh->provider_lease_id, old->provider_lease_id);
    assert_int_equal(inventory_count(f->inventory), 1);
    struct berth_lease *row = look_at_lease(f, old);
    assert_int_equal(row->status, BERTH_LEASE_RELEASED);
    assert_int_equal(row->place, BERTH_PLACE_GONE);
    assert_int_equal(row->cleanup, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(row->due_at_ms, 0);
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.cleaned + report.failed + report.found + report.owed, 0);
    check_invariants(f);
}

static void R12_gone_place_is_acquired_afresh(void **state)
{
    resume_without_a_place(*state,
                           "{\"provider\":\"inventory\",\"reuseLease\":true,\"resume\":\"gone\"}");
}

static void R12_declined_place_is_destroyed(void **state)
{
    resume_without_a_place(
        *state, "{\"provider\":\"inventory\",\"reuseLease\":true,\"resume\":\"decline\"}");
}

static void R12_active_rows_are_never_resumed(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(
        f, BERTH_DRIVER_SANDBOX, "{\"provider\":\"scripted\",\"reuseLease\":true}");
    struct berth_run *run = make_run(f);
    struct berth_lease *held = take_lease(f, e, run);
    struct berth_lease *same_run = take_lease(f, e, run);
    struct berth_lease *other_run = take_lease(f, e, make_run(f));
    assert_string_not_equal(held->provider_lease_id, same_run->provider_lease_id);
    assert_string_not_equal(held->provider_lease_id, other_run->provider_lease_id);
    assert_string_not_equal(same_run->provider_lease_id, other_run->provider_lease_id);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_RESUME), 0);
    assert_int_equal(scripted_count(f->world), 3);
    assert_int_equal(look_at_lease(f, held)->status, BERTH_LEASE_ACTIVE);
}

static void R13_fake_is_released_after_the_environment_moved(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, FAKE_CONFIG);
    struct berth_run *run = make_run(f);
    struct berth_lease *lease = take_lease(f, e, run);
    (void)change_environment(f, e, BERTH_DRIVER_LOCAL, "{}");
    struct berth_run_end end = {.status = BERTH_RUN_SUCCEEDED};
    struct berth_list released;
    assert_ok(f, berth_run_finish(f->b, &f->arena, run->id, &end, &released, &f->err));
    assert_int_equal(released.count, 1);
    struct berth_lease *row = look_at_lease(f, lease);
    assert_string_equal(row->id, ((struct berth_lease *)released.items[0])->id);
    assert_int_equal(row->status, BERTH_LEASE_RELEASED);
    assert_int_equal(row->cleanup, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(row->place, BERTH_PLACE_GONE); /* nobody would ask for it again */
    assert_string_equal(row->driver, "sandbox");
}

static void R16_released_by_the_driver_that_made_it(void **state)
{
    struct fixture *f = *state;
    fixture_close(f);
    struct scripted *local = scripted_new(), *ssh = scripted_new();
    struct berth_registry *registry;
    assert_ok(f, berth_registry_new(&registry, &f->err));
    add_spy(registry, "local", NULL, local);
    add_spy(registry, "ssh", NULL, ssh);
    fixture_open_with(f, registry);

    struct berth_environment *e = make_environment(f, BERTH_DRIVER_LOCAL, "{}");
    struct berth_run *run = make_run(f);
    struct berth_lease *lease = take_lease(f, e, run);
    assert_string_equal(metadata_text(f, lease, "driver"), "local");
    (void)change_environment(f, e, BERTH_DRIVER_SSH,
                             "{\"host\":\"h\",\"username\":\"u\",\"remoteWorkspacePath\":\"/w\"}");
    struct berth_run_end end = {.status = BERTH_RUN_SUCCEEDED};
    struct berth_list released;
    assert_ok(f, berth_run_finish(f->b, &f->arena, run->id, &end, &released, &f->err));
    assert_int_equal(released.count, 1);
    assert_int_equal(scripted_calls(local, SCRIPTED_RELEASE), 1);
    assert_int_equal(scripted_calls(local, SCRIPTED_DESTROY), 0);
    assert_int_equal(scripted_calls(ssh, SCRIPTED_RELEASE), 0);
    assert_int_equal(scripted_calls(ssh, SCRIPTED_DESTROY), 0);
    assert_int_equal(scripted_count(local), 0);
    struct berth_lease *row = look_at_lease(f, lease);
    assert_int_equal(row->status, BERTH_LEASE_RELEASED);
    assert_int_equal(row->place, BERTH_PLACE_GONE);
    assert_string_equal(metadata_text(f, row, "driver"), "local");
    fixture_close(f);
    scripted_free(local);
    scripted_free(ssh);
}

/* --- the holes in the seeds --- */

struct taker {
    struct berth *b;
    const char *environment_id, *run_id;
    pthread_barrier_t *start;
    struct berth_arena arena;
    struct berth_lease *lease;
    int rc;
    struct berth_error err;
};

static void *taker_main(void *ctx)
{
    struct taker *t = ctx;
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = t->environment_id;
    request.run_id = t->run_id;
    (void)pthread_barrier_wait(t->start);
    t->rc = berth_lease_acquire(t->b, &t->arena, &request, &t->lease, &t->err);
    return NULL;
}

#define TAKERS 8

/* So many runs ask at the same moment; answers how many got the place `parked`. */
static int take_at_once(struct fixture *f, const struct berth_environment *e, const char *parked)
{
    struct taker takers[TAKERS] = {0};
    pthread_t threads[TAKERS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, TAKERS);
    for (int i = 0; i < TAKERS; i++) {
        takers[i] = (struct taker){
            .b = f->b, .environment_id = e->id, .run_id = make_run(f)->id, .start = &start};
        assert_int_equal(pthread_create(&threads[i], NULL, taker_main, &takers[i]), 0);
    }
    for (int i = 0; i < TAKERS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    int claimed = 0;
    for (int i = 0; i < TAKERS; i++) {
        if (takers[i].rc < 0)
            fail_msg("taker %d: %s", i, takers[i].err.message);
        const char *id = takers[i].lease->provider_lease_id;
        claimed += parked && strcmp(id, parked) == 0;
        for (int k = 0; k < i; k++)
            assert_string_not_equal(id, takers[k].lease->provider_lease_id);
    }
    for (int i = 0; i < TAKERS; i++)
        berth_arena_clear(&takers[i].arena);
    return claimed;
}

static void X1_concurrent_runs_never_share_a_place(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, INVENTORY_REUSED);
    struct berth_lease *first = take_lease(f, e, make_run(f));
    (void)give_lease(f, first, BERTH_LEASE_RELEASED);
    assert_int_equal(take_at_once(f, e, first->provider_lease_id), 1);
    assert_int_equal(inventory_count(f->inventory), TAKERS);
    check_invariants(f);
}

static void X1_fake_places_stay_apart_too(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, FAKE_CONFIG);
    char first[128];
    (void)snprintf(first, sizeof first, "sandbox://fake/%s", e->id);
    assert_int_equal(take_at_once(f, e, first), 1);
}

static void X4_one_failing_release_keeps_no_other_open(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *bad =
        make_environment(f, BERTH_DRIVER_SANDBOX, "{\"provider\":\"scripted\"}");
    struct berth_environment *good =
        make_environment(f, BERTH_DRIVER_SANDBOX, "{\"provider\":\"inventory\"}");
    struct berth_environment *here = make_environment(f, BERTH_DRIVER_LOCAL, "{}");
    struct berth_run *run = make_run(f);
    struct berth_lease *before = take_lease(f, good, run);
    struct berth_lease *failing = take_lease(f, bad, run);
    struct berth_lease *after = take_lease(f, good, run);
    struct berth_lease *local = take_lease(f, here, run);
    scripted_set(f->world, SCRIPTED_RELEASE,
                 (struct scripted_act){
                     .mode = SCRIPTED_FAIL, .code = BERTH_E_UPSTREAM, .text = "api timeout"});
    struct berth_run_end end = {.status = BERTH_RUN_SUCCEEDED};
    struct berth_list released;
    assert_ok(f, berth_run_finish(f->b, &f->arena, run->id, &end, &released, &f->err));
    assert_int_equal(released.count, 4); /* the failing one is closed too: its place is owed */
    const struct berth_lease *others[] = {before, after};
    for (int i = 0; i < 2; i++) {
        struct berth_lease *row = look_at_lease(f, others[i]);
        assert_int_equal(row->status, BERTH_LEASE_RELEASED);
        assert_int_equal(row->place, BERTH_PLACE_GONE);
        assert_int_equal(row->cleanup, BERTH_CLEANUP_SUCCESS);
    }
    assert_int_equal(look_at_lease(f, local)->status, BERTH_LEASE_RELEASED);
    assert_int_equal(inventory_count(f->inventory), 0);
    struct berth_lease *row = look_at_lease(f, failing);
    assert_int_equal(row->status, BERTH_LEASE_RELEASED);
    assert_int_equal(row->place, BERTH_PLACE_LIVE);
    assert_int_equal(row->cleanup, BERTH_CLEANUP_FAILED);
    assert_int_equal(row->cleanup_attempts, 1);
    assert_string_equal(row->cleanup_error, "api timeout");
    assert_true(row->due_at_ms > 0);
    assert_int_equal(scripted_count(f->world), 1);

    scripted_go_on(f->world);
    berth_time_shift(f->b->settings.cleanup_retry_ms, 0);
    assert_int_equal(sweep(f).cleaned, 1);
    assert_int_equal(scripted_count(f->world), 0);
}

static void X5_second_release_is_a_no_op(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e =
        make_environment(f, BERTH_DRIVER_SANDBOX, "{\"provider\":\"scripted\"}");
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    struct berth_lease *first = give_lease(f, lease, BERTH_LEASE_RELEASED);
    assert_int_equal(first->status, BERTH_LEASE_RELEASED);
    berth_time_shift(1000, 0);
    const enum berth_lease_status again[] = {BERTH_LEASE_RELEASED, BERTH_LEASE_FAILED,
                                             BERTH_LEASE_EXPIRED};
    for (int i = 0; i < 3; i++) {
        struct berth_lease *second = give_lease(f, lease, again[i]);
        assert_int_equal(second->status, BERTH_LEASE_RELEASED);
        assert_int_equal(second->version, first->version);
        assert_int_equal(second->released_at_ms, first->released_at_ms);
        assert_null(second->failure_reason);
    }
    assert_int_equal(scripted_calls(f->world, SCRIPTED_RELEASE), 1);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_DESTROY), 0);
    assert_int_equal(count_activity(f, lease->id, "environment.lease_released"), 1);
}

static void X8_leased_environment_is_not_deleted(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, INVENTORY_REUSED);
    struct berth_lease *parked = take_lease(f, e, make_run(f));
    struct berth_lease *open = take_lease(f, e, make_run(f));
    (void)give_lease(f, parked, BERTH_LEASE_RELEASED);
    struct berth_environment *gone;
    int rc = berth_environment_delete(f->b, &f->arena, e->id, false, NULL, &gone, &f->err);
    assert_int_equal(rc, BERTH_E_CONFLICT);
    assert_int_equal(berth_code_http(rc), 409);
    assert_string_equal(f->err.message,
                        "Environment \"place under test\" has 1 open lease: release it first, or "
                        "delete with --drain.");
    /* Refused means that nothing happened. */
    struct berth_environment *still;
    assert_ok(f, berth_environment_get(f->b, &f->arena, e->id, &still, &f->err));
    assert_int_equal(still->status, BERTH_ENVIRONMENT_ACTIVE);
    assert_false(still->deleting);
    assert_int_equal(look_at_lease(f, parked)->place, BERTH_PLACE_PARKED);
    assert_int_equal(look_at_lease(f, open)->status, BERTH_LEASE_ACTIVE);
    assert_int_equal(inventory_count(f->inventory), 2);
    check_invariants(f);

    assert_ok(f, berth_environment_delete(f->b, &f->arena, e->id, true, NULL, &gone, &f->err));
    assert_string_equal(gone->id, e->id);
    assert_fails(f, BERTH_E_NOT_FOUND, "Environment not found",
                 berth_environment_get(f->b, &f->arena, e->id, &still, &f->err));
    struct berth_lease *row = look_at_lease(f, open); /* rows outlive their environment */
    assert_int_equal(row->status, BERTH_LEASE_RELEASED);
    assert_int_equal(row->place, BERTH_PLACE_GONE);
    assert_int_equal(row->cleanup, BERTH_CLEANUP_SUCCESS);
    row = look_at_lease(f, parked);
    assert_int_equal(row->status, BERTH_LEASE_RELEASED);
    assert_int_equal(row->place, BERTH_PLACE_GONE);
    assert_int_equal(inventory_count(f->inventory), 0);
    check_invariants(f);
}

static void X8_parked_places_are_ended_first(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, INVENTORY_REUSED);
    struct berth_lease *parked = take_lease(f, e, make_run(f));
    (void)give_lease(f, parked, BERTH_LEASE_RELEASED);
    assert_int_equal(inventory_count(f->inventory), 1);
    struct berth_environment *gone; /* a parked place is nobody's: no drain is needed */
    assert_ok(f, berth_environment_delete(f->b, &f->arena, e->id, false, NULL, &gone, &f->err));
    assert_int_equal(inventory_count(f->inventory), 0);
    assert_int_equal(look_at_lease(f, parked)->place, BERTH_PLACE_GONE);
    check_invariants(f);
}

/* While a place is not confirmed gone, its environment stays, and the sweep finishes. */
static void X8_delete_waits_for_a_place_that_will_not_go(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e =
        make_environment(f, BERTH_DRIVER_SANDBOX, "{\"provider\":\"scripted\"}");
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    struct scripted_act fails = {.mode = SCRIPTED_FAIL, .code = BERTH_E_UPSTREAM};
    scripted_set(f->world, SCRIPTED_RELEASE, fails);
    scripted_set(f->world, SCRIPTED_DESTROY, fails);
    struct berth_environment *gone;
    assert_fails(f, BERTH_E_CONFLICT, "is archived, but some of its places are not confirmed gone",
                 berth_environment_delete(f->b, &f->arena, e->id, true, NULL, &gone, &f->err));
    struct berth_environment *still;
    assert_ok(f, berth_environment_get(f->b, &f->arena, e->id, &still, &f->err));
    assert_int_equal(still->status, BERTH_ENVIRONMENT_ARCHIVED);
    assert_true(still->deleting);
    struct berth_lease *row = look_at_lease(f, lease);
    assert_int_equal(row->status, BERTH_LEASE_RELEASED);
    assert_int_equal(row->cleanup, BERTH_CLEANUP_FAILED);
    assert_int_equal(scripted_count(f->world), 1);

    scripted_go_on(f->world);
    berth_time_shift(f->b->settings.cleanup_retry_ms, 0);
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.cleaned, 1);
    assert_int_equal(report.deleted, 1);
    assert_int_equal(scripted_count(f->world), 0);
    assert_fails(f, BERTH_E_NOT_FOUND, "Environment not found",
                 berth_environment_get(f->b, &f->arena, e->id, &still, &f->err));
    assert_non_null(last_activity(f, e->id, "environment.deleted"));
}

static void X9_provider_metadata_overrides_nothing(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e =
        make_environment(f, BERTH_DRIVER_SANDBOX,
                         "{\"provider\":\"scripted\",\"reuseLease\":true,\"image\":\"asked\"}");
    scripted_set(f->world, SCRIPTED_ACQUIRE,
                 (struct scripted_act){
                     .metadata = "{\"driver\":\"evil\",\"pluginId\":\"p\",\"pluginKey\":\"k\","
                                 "\"driverKey\":\"d\",\"provider\":\"other\",\"reuseLease\":false,"
                                 "\"executionWorkspaceMode\":\"theirs\",\"image\":\"theirs\","
                                 "\"sandboxProviderPlugin\":true,\"remoteCwd\":\"/home/box\"}"});
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    assert_string_equal(metadata_text(f, lease, "driver"), "sandbox");
    assert_string_equal(metadata_text(f, lease, "provider"), "scripted");
    assert_string_equal(metadata_text(f, lease, "reuseLease"), "true");
    assert_string_equal(metadata_text(f, lease, "image"), "asked");
    assert_null(metadata_text(f, lease, "executionWorkspaceMode"));
    assert_false(json_has(lease->metadata_json, "pluginId"));
    assert_false(json_has(lease->metadata_json, "pluginKey"));
    assert_false(json_has(lease->metadata_json, "driverKey"));
    assert_false(json_has(lease->metadata_json, "sandboxProviderPlugin"));
    assert_string_equal(metadata_text(f, lease, "remoteCwd"), "/home/box");
    struct berth_lease *row = look_at_lease(f, lease);
    assert_string_equal(row->metadata_json, lease->metadata_json);
    assert_string_equal(row->driver, "sandbox");
    assert_string_equal(row->provider, "scripted");
    /* Nor does what it says decide over reuse. */
    assert_int_equal(give_lease(f, lease, BERTH_LEASE_RELEASED)->place, BERTH_PLACE_PARKED);
    struct berth_lease *second = take_lease(f, e, make_run(f));
    assert_string_equal(second->provider_lease_id, lease->provider_lease_id);
}

static void X10_effective_values_do_not_prevent_reuse(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(
        f, BERTH_DRIVER_SANDBOX, "{\"provider\":\"scripted\",\"reuseLease\":true,\"target\":null}");
    struct scripted_act tells = {.metadata = "{\"target\":\"us\",\"cpu\":4}"};
    scripted_set(f->world, SCRIPTED_ACQUIRE, tells);
    scripted_set(f->world, SCRIPTED_RESUME, tells);
    struct berth_lease *first = take_lease(f, e, make_run(f));
    assert_string_equal(metadata_text(f, first, "target"), "us");
    (void)give_lease(f, first, BERTH_LEASE_RELEASED);
    struct berth_lease *second = take_lease(f, e, make_run(f));
    assert_string_equal(second->provider_lease_id, first->provider_lease_id);
    assert_string_equal(metadata_text(f, second, "target"), "us");
    assert_int_equal(scripted_calls(f->world, SCRIPTED_ACQUIRE), 1);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_RESUME), 1);
    assert_int_equal(scripted_count(f->world), 1);
}

static void X13_runless_leases_are_ephemeral(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, INVENTORY_REUSED);
    struct berth_lease *of_run = take_lease(f, e, make_run(f));
    (void)give_lease(f, of_run, BERTH_LEASE_RELEASED);
    struct berth_lease *ad_hoc = take_lease(f, e, NULL);
    assert_int_equal(ad_hoc->policy, BERTH_POLICY_EPHEMERAL);
    assert_null(ad_hoc->heartbeat_run_id);
    /* It does not take what is parked ... */
    assert_string_not_equal(ad_hoc->provider_lease_id, of_run->provider_lease_id);
    assert_int_equal(look_at_lease(f, of_run)->place, BERTH_PLACE_PARKED);
    /* ... and leaves nothing to be taken. */
    struct berth_lease *released = give_lease(f, ad_hoc, BERTH_LEASE_RELEASED);
    assert_int_equal(released->place, BERTH_PLACE_GONE);
    assert_int_equal(released->cleanup, BERTH_CLEANUP_SUCCESS);
    assert_false(inventory_has(f->inventory, ad_hoc->provider_lease_id));
    check_invariants(f);
}

/* The process went away between the place and the outcome, and nobody waits for the lease. */
static void X13_runless_leases_are_removed_after_a_crash(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, INVENTORY_REUSED);
    struct berth_lease *half_made = take_lease(f, e, NULL);
    struct berth_lease *active = take_lease(f, e, NULL);
    run_sql(f,
            "UPDATE leases SET status = 'acquiring', place = 'none', provider_lease_id = NULL,"
            " owner = '00000000-0000-7000-8000-000000000000', version = version + 1"
            " WHERE id = $1",
            half_made->id);
    fixture_close(f);
    fixture_open(f);
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.adopted, 1);
    assert_int_equal(report.expired, 0);
    struct berth_lease *row = look_at_lease(f, half_made);
    assert_int_equal(row->status, BERTH_LEASE_FAILED);
    assert_string_equal(row->failure_reason, "owner_lost");
    assert_int_equal(row->place, BERTH_PLACE_GONE);
    assert_int_equal(row->cleanup, BERTH_CLEANUP_SUCCESS);
    assert_false(inventory_has(f->inventory, half_made->provider_lease_id));
    /* An active one needs no live process, but its time runs out. */
    assert_int_equal(look_at_lease(f, active)->status, BERTH_LEASE_ACTIVE);
    berth_time_shift(f->b->settings.lease_ttl_ms, 0);
    assert_int_equal(sweep(f).expired, 1);
    assert_int_equal(look_at_lease(f, active)->status, BERTH_LEASE_EXPIRED);
    assert_int_equal(inventory_count(f->inventory), 0);
    check_invariants(f);
}

static void inventory_round(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, INVENTORY_REUSED);
    struct berth_lease *first = take_lease(f, e, make_run(f));
    check_invariants(f);
    (void)give_lease(f, first, BERTH_LEASE_RELEASED);
    check_invariants(f);
    struct berth_lease *second = take_lease(f, e, make_run(f));
    assert_string_equal(second->provider_lease_id, first->provider_lease_id);
    check_invariants(f);
    struct berth_lease *gone = give_lease(f, second, BERTH_LEASE_FAILED);
    assert_int_equal(gone->place, BERTH_PLACE_GONE); /* what failed is not handed on */
    assert_string_equal(gone->failure_reason, "adapter_or_run_failure");
    check_invariants(f);
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(P1_fake_is_the_only_builtin_provider),
        TEST_ON_BOTH(P2_other_providers_are_not_builtin),
        cmocka_unit_test(P3_fake_leases_are_deterministic),
        TEST_ON_BOTH(P3_fake_lease_is_resumed_by_the_next_run),
        cmocka_unit_test(P4_the_image_is_part_of_the_identity),
        cmocka_unit_test(P5_fake_config_from_metadata),
        cmocka_unit_test(P6_plugin_config_from_metadata_keeps_every_field),
        cmocka_unit_test(P7_releasing_a_fake_lease_does_nothing),
        cmocka_unit_test(P8_plugin_leases_match_on_every_field),
        cmocka_unit_test(P9_strict_is_for_builtin_providers_only),
        cmocka_unit_test(R1_plugin_leases_match_by_config),
        cmocka_unit_test(R2_fake_leases_need_the_same_image),
        cmocka_unit_test(R2_our_own_rows_match_by_fingerprint),
        TEST_ON_BOTH(R3_local_lease),
        TEST_ON_BOTH(R4_no_workspace_is_fine),
        TEST_ON_BOTH(R5_unregistered_driver_leaves_no_row),
        TEST_ON_BOTH(R7_fake_sandbox_lease),
        TEST_ON_BOTH(R12_failed_resume_acquires_and_owes_a_destroy),
        TEST_ON_BOTH(R12_gone_place_is_acquired_afresh),
        TEST_ON_BOTH(R12_declined_place_is_destroyed),
        TEST_ON_BOTH(R12_active_rows_are_never_resumed),
        TEST_ON_BOTH(R13_fake_is_released_after_the_environment_moved),
        TEST_ON_BOTH(R16_released_by_the_driver_that_made_it),
        TEST_ON_BOTH(X1_concurrent_runs_never_share_a_place),
        TEST_ON_BOTH(X1_fake_places_stay_apart_too),
        TEST_ON_BOTH(X4_one_failing_release_keeps_no_other_open),
        TEST_ON_BOTH(X5_second_release_is_a_no_op),
        TEST_ON_BOTH(X8_leased_environment_is_not_deleted),
        TEST_ON_BOTH(X8_parked_places_are_ended_first),
        TEST_ON_BOTH(X8_delete_waits_for_a_place_that_will_not_go),
        TEST_ON_BOTH(X9_provider_metadata_overrides_nothing),
        TEST_ON_BOTH(X10_effective_values_do_not_prevent_reuse),
        TEST_ON_BOTH(X13_runless_leases_are_ephemeral),
        TEST_ON_BOTH(X13_runless_leases_are_removed_after_a_crash),
        TEST_ON_BOTH(inventory_round),
    };
    return cmocka_run_group_tests_name("seeds", tests, NULL, NULL);
}
