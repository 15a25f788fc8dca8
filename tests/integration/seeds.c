/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/seeds.c - the behaviours the project was asked for with, by their numbers. */
#include "fixture.h"

static void R3_local_lease(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_LOCAL, "{}");
    struct berth_run *run = make_run(f);
    struct berth_lease *lease = take_lease(f, e, run);
    assert_int_equal(lease->status, BERTH_LEASE_ACTIVE);
    assert_string_equal(json_text(f, lease->metadata_json, "driver"), "local");
    assert_true(json_has(lease->metadata_json, "executionWorkspaceMode"));
    assert_null(json_text(f, lease->metadata_json, "executionWorkspaceMode"));
    assert_null(lease->execution_workspace_id);

    struct berth_run_end end = {.status = BERTH_RUN_SUCCEEDED};
    struct berth_list released;
    assert_ok(f, berth_run_finish(f->b, &f->arena, run->id, &end, &released, &f->err));
    assert_int_equal(released.count, 1);
    struct berth_lease *row = look_at_lease(f, lease);
    assert_int_equal(row->status, BERTH_LEASE_RELEASED);
    assert_string_equal(row->driver, "local");
    assert_int_equal(row->due_at_ms, 0);
}

static void R7_fake_sandbox_lease(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(
        f, BERTH_DRIVER_SANDBOX,
        "{\"provider\":\"fake\",\"image\":\"ubuntu:24.04\",\"reuseLease\":true}");
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    char wanted[128];
    (void)snprintf(wanted, sizeof wanted, "sandbox://fake/%s", e->id);
    assert_string_equal(lease->provider_lease_id, wanted);
    assert_string_equal(json_text(f, lease->metadata_json, "driver"), "sandbox");
    assert_string_equal(json_text(f, lease->metadata_json, "provider"), "fake");
    assert_string_equal(json_text(f, lease->metadata_json, "image"), "ubuntu:24.04");
    assert_string_equal(json_text(f, lease->metadata_json, "reuseLease"), "true");
    struct berth_lease *released = give_lease(f, lease, BERTH_LEASE_RELEASED);
    assert_int_equal(released->status, BERTH_LEASE_RELEASED);
    assert_int_equal(released->place, BERTH_PLACE_PARKED);
    assert_int_equal(released->cleanup, BERTH_CLEANUP_SUCCESS);
}

static void inventory_round(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(
        f, BERTH_DRIVER_SANDBOX, "{\"provider\":\"inventory\",\"reuseLease\":true}");
    struct berth_lease *first = take_lease(f, e, make_run(f));
    check_invariants(f);
    (void)give_lease(f, first, BERTH_LEASE_RELEASED);
    check_invariants(f);
    struct berth_lease *second = take_lease(f, e, make_run(f));
    assert_string_equal(second->provider_lease_id, first->provider_lease_id);
    check_invariants(f);
    struct berth_lease *gone = give_lease(f, second, BERTH_LEASE_FAILED);
    assert_int_equal(gone->place, BERTH_PLACE_GONE);
    check_invariants(f);
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ON_BOTH(R3_local_lease),
        TEST_ON_BOTH(R7_fake_sandbox_lease),
        TEST_ON_BOTH(inventory_round),
    };
    return cmocka_run_group_tests_name("seeds", tests, NULL, NULL);
}
