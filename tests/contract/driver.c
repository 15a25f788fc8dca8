/* SPDX-License-Identifier: Apache-2.0
 * tests/contract/driver.c - what every driver must do (include/berth/driver.h). A new driver is a
 * row in the table; calls go through the wrappers of core/driver.h, as the ledger's do. */
#include <errno.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/issues.h"
#include "base/time.h"
#include "farhost.h"
#include "fixture.h"
#include "inventory.h"
#include "os/fs.h"
#include "scripted.h"

#define LEASE "01890000-0000-7000-8000-000000000001"
#define OTHER_LEASE "01890000-0000-7000-8000-000000000002"
#define UNKNOWN_LEASE "01890000-0000-7000-8000-0000000000ff"
#define ENVIRONMENT "01890000-0000-7000-8000-00000000e001"

struct row {
    const char *name;                     /* of the driver, as its ops say */
    const char *driver, *provider;        /* how the registry finds it */
    const char *config;                   /* that asks for a place for one use */
    bool far;                             /* the config is that of the sshd beside us */
    const char *reused;                   /* for one that is parked; NULL: it parks nothing */
    const char *unknown_place;            /* an id of its shape that names nothing */
    bool makes_nothing;                   /* no place is ever gone, because none is ever there */
    void (*hang)(struct scripted *world); /* lets its provider hang; NULL: it never waits */
};

static void hang_scripted(struct scripted *world)
{
    static const enum scripted_op ops[] = {SCRIPTED_ACQUIRE, SCRIPTED_RELEASE, SCRIPTED_DESTROY};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        scripted_set(world, ops[i], (struct scripted_act){.mode = SCRIPTED_HANG});
}

static struct row rows[] = {
    {.name = "local", .driver = "local", .config = "{}", .makes_nothing = true},
    {.name = "fake",
     .driver = "sandbox",
     .provider = "fake",
     .config = "{\"provider\":\"fake\",\"image\":\"ubuntu:24.04\",\"reuseLease\":false}",
     .reused = "{\"provider\":\"fake\",\"image\":\"ubuntu:24.04\",\"reuseLease\":true}",
     .unknown_place = "sandbox://fake/" UNKNOWN_LEASE,
     .makes_nothing = true},
    {.name = "inventory",
     .driver = "sandbox",
     .provider = "inventory",
     .config = "{\"provider\":\"inventory\",\"reuseLease\":false}",
     .reused = "{\"provider\":\"inventory\",\"reuseLease\":true}",
     .unknown_place = "inventory://" UNKNOWN_LEASE},
    {.name = "scripted",
     .driver = "sandbox",
     .provider = "scripted",
     .config = "{\"provider\":\"scripted\",\"reuseLease\":false}",
     .reused = "{\"provider\":\"scripted\",\"reuseLease\":true}",
     .unknown_place = "scripted://" UNKNOWN_LEASE,
     .hang = hang_scripted},
    {.name = "ssh",
     .driver = "ssh",
     .far = true,
     .unknown_place = "ssh://nobody@nowhere:22/tmp#" UNKNOWN_LEASE},
};

/* One driver under test, with nothing behind it. */
struct bench {
    const struct row *row;
    const struct berth_route *route;
    struct berth_registry *registry;
    char directory[64], inventory[96];
    struct scripted *world;
    struct berth_arena arena;
    struct berth_error err;
    char workspace[200]; /* of the far host */
    int cancel_fd;
};

static char own_directory[96]; /* of a lease on this machine */

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    struct berth_driver *inventory, *scripted;
    bench->row = *state;
    if (bench->row->far) {
        struct row *row = *state;
        farhost_make_workspace(farhost()->workspace, bench->workspace, sizeof bench->workspace);
        row->config = farhost_config(bench->workspace);
    }
    bench->world = scripted_new();
    bench->cancel_fd = eventfd(0, EFD_CLOEXEC);
    (void)snprintf(bench->directory, sizeof bench->directory, "/tmp/berth-contract.XXXXXX");
    if (!mkdtemp(bench->directory) || bench->cancel_fd < 0)
        return -1;
    (void)snprintf(bench->inventory, sizeof bench->inventory, "%s/inventory", bench->directory);
    (void)snprintf(own_directory, sizeof own_directory, "%s/own", bench->directory);
    if (mkdir(bench->inventory, 0700) < 0 || setenv("XDG_RUNTIME_DIR", bench->directory, 1) < 0 ||
        berth_registry_new(&bench->registry, &bench->err) < 0 ||
        berth_builtins.add_drivers(bench->registry, &bench->err) < 0 ||
        inventory_new(bench->inventory, &inventory, &bench->err) < 0 ||
        berth_registry_add(bench->registry, "sandbox", "inventory", inventory, &bench->err) < 0 ||
        scripted_driver(bench->world, true, &scripted, &bench->err) < 0 ||
        berth_registry_add(bench->registry, "sandbox", "scripted", scripted, &bench->err) < 0)
        return -1;
    bench->route = berth_registry_find(bench->registry, bench->row->driver, bench->row->provider);
    *state = bench;
    return bench->route ? 0 : -1;
}

static int teardown(void **state)
{
    struct bench *bench = *state;
    berth_registry_free(bench->registry);
    scripted_free(bench->world);
    berth_arena_clear(&bench->arena);
    (void)close(bench->cancel_fd);
    (void)berth_fs_remove_tree(bench->directory, &bench->err);
    free(bench);
    return 0;
}

/* --- help --- */

static struct berth_call no_limit(struct bench *bench)
{
    return (struct berth_call){.deadline_ms = INT64_MAX, .cancel_fd = -1, .arena = &bench->arena};
}

static struct berth_place_request request_of(const char *lease_id, const char *config)
{
    return (struct berth_place_request){.lease_id = lease_id,
                                        .company_id = "01890000-0000-7000-8000-00000000c001",
                                        .environment_id = ENVIRONMENT,
                                        .own_directory = own_directory,
                                        .config_json = config};
}

/* How many places the driver has made and not ended, seen from outside. */
static int places(struct bench *bench)
{
    return inventory_count(bench->inventory) + scripted_count(bench->world) +
           (bench->row->far ? farhost_count_leases(bench->workspace) : 0);
}

static int made(const struct bench *bench, int count)
{
    return bench->row->makes_nothing ? 0 : count;
}

static struct berth_place acquire(struct bench *bench, const char *lease_id, const char *config)
{
    struct berth_call call = no_limit(bench);
    struct berth_place_request who = request_of(lease_id, config);
    struct berth_place place;
    assert_ok(bench, berth_driver_acquire(bench->route, &call, &who, &place, &bench->err));
    return place;
}

static void assert_same_text(const char *a, const char *b)
{
    if (a && b)
        assert_string_equal(a, b);
    else
        assert_ptr_equal(a, b);
}

struct search {
    int count;
    char place_id[256];
    const char *label;
};

static int on_found(void *ctx, const char *lease_id, const char *place_id, struct berth_error *err)
{
    (void)err;
    struct search *search = ctx;
    if (strcmp(lease_id, search->label) == 0) {
        search->count++;
        (void)snprintf(search->place_id, sizeof search->place_id, "%s", place_id);
    }
    return BERTH_OK;
}

/* --- the contract --- */

static void ops_are_whole(void **state)
{
    struct bench *bench = *state;
    const struct berth_driver_ops *ops = bench->route->implementation->ops;
    assert_string_equal(berth_route_traits(bench->route)->name, bench->row->name);
    assert_non_null(ops->acquire);
    assert_non_null(ops->release);
    assert_non_null(ops->probe);
    assert_non_null(ops->realize);
    assert_string_equal(berth_route_provider(bench->route),
                        bench->row->provider ? bench->row->provider : bench->row->driver);
}

static void same_lease_id_gives_the_same_place(void **state)
{
    struct bench *bench = *state;
    struct berth_place first = acquire(bench, LEASE, bench->row->config);
    struct berth_place again = acquire(bench, LEASE, bench->row->config);
    assert_same_text(first.id, again.id);
    assert_int_equal(places(bench), made(bench, 1));
    struct berth_place other = acquire(bench, OTHER_LEASE, bench->row->config);
    assert_int_equal(places(bench), made(bench, 2));
    if (first.id) {
        assert_true(*first.id != '\0');
        assert_string_not_equal(first.id, other.id);
    }
    if (first.metadata_json) {
        auto_json *metadata = parse_json(first.metadata_json);
        assert_true(berth_json_is(metadata, BERTH_JSON_OBJECT));
    }
}

static void what_is_made_is_found_by_its_label(void **state)
{
    struct bench *bench = *state;
    struct berth_place place = acquire(bench, LEASE, bench->row->config);
    (void)acquire(bench, OTHER_LEASE, bench->row->config);
    struct berth_call call = no_limit(bench);
    struct berth_place_request who = request_of(NULL, bench->row->config);
    struct search search = {.label = LEASE};
    assert_ok(bench, berth_driver_find(bench->route, &call, &who, on_found, &search, &bench->err));
    assert_int_equal(search.count, 1);
    assert_string_equal(search.place_id, place.id);
    struct berth_place_request of_lease = request_of(LEASE, bench->row->config);
    assert_ok(bench, berth_driver_release(bench->route, &call, &of_lease, &place,
                                          BERTH_RELEASE_DESTROY, &bench->err));
    search.count = 0;
    assert_ok(bench, berth_driver_find(bench->route, &call, &who, on_found, &search, &bench->err));
    assert_int_equal(search.count, 0);
}

static void release_again_is_fine(void **state)
{
    struct bench *bench = *state;
    struct berth_call call = no_limit(bench);
    struct berth_place_request who = request_of(LEASE, bench->row->config);
    struct berth_place place = acquire(bench, LEASE, bench->row->config);
    for (int i = 0; i < 2; i++) {
        assert_ok(bench, berth_driver_release(bench->route, &call, &who, &place, BERTH_RELEASE_KEEP,
                                              &bench->err));
        assert_int_equal(places(bench), 0);
    }
}

static void release_of_a_reusable_place_parks_it(void **state)
{
    struct bench *bench = *state;
    struct berth_call call = no_limit(bench);
    struct berth_place_request who = request_of(LEASE, bench->row->reused);
    struct berth_place place = acquire(bench, LEASE, bench->row->reused), woken;
    for (int i = 0; i < 2; i++) {
        assert_ok(bench, berth_driver_release(bench->route, &call, &who, &place, BERTH_RELEASE_KEEP,
                                              &bench->err));
        assert_int_equal(places(bench), made(bench, 1));
    }
    struct berth_place_request next = request_of(OTHER_LEASE, bench->row->reused);
    assert_ok(bench, berth_driver_resume(bench->route, &call, &next, &place, &woken, &bench->err));
    assert_string_equal(woken.id, place.id);
    assert_int_equal(places(bench), made(bench, 1));
    /* A later lease that holds the place may end it, though its id is not on the label. */
    assert_ok(bench, berth_driver_release(bench->route, &call, &next, &woken, BERTH_RELEASE_DESTROY,
                                          &bench->err));
    assert_int_equal(places(bench), 0);
}

static void unknown_places_are_a_success(void **state)
{
    struct bench *bench = *state;
    struct berth_call call = no_limit(bench);
    const char *const configs[] = {bench->row->config, bench->row->reused};
    (void)acquire(bench, OTHER_LEASE, bench->row->config);
    for (int i = 0; i < 2 && configs[i]; i++) {
        struct berth_place_request who = request_of(UNKNOWN_LEASE, configs[i]);
        struct berth_place nameless = {0}, unknown = {.id = bench->row->unknown_place};
        struct berth_place foreign = {.id = "somewhere://else/entirely"};
        const struct berth_place *each[] = {&nameless, &unknown, &foreign};
        for (int k = 0; k < 3; k++) {
            assert_ok(bench, berth_driver_release(bench->route, &call, &who, each[k],
                                                  BERTH_RELEASE_KEEP, &bench->err));
            assert_ok(bench, berth_driver_release(bench->route, &call, &who, each[k],
                                                  BERTH_RELEASE_DESTROY, &bench->err));
        }
    }
    assert_int_equal(places(bench), made(bench, 1)); /* the other lease's */
}

/* The answer to acquire was lost: only the label is known. */
static void place_without_id_is_found_by_label(void **state)
{
    struct bench *bench = *state;
    struct berth_call call = no_limit(bench);
    struct berth_place nameless = {0};
    const char *const configs[] = {bench->row->config, bench->row->reused};
    for (int i = 0; i < 2 && configs[i]; i++) {
        struct berth_place_request who = request_of(LEASE, configs[i]);
        (void)acquire(bench, LEASE, configs[i]);
        (void)acquire(bench, OTHER_LEASE, configs[i]);
        assert_int_equal(places(bench), made(bench, 2));
        assert_ok(bench, berth_driver_release(bench->route, &call, &who, &nameless,
                                              BERTH_RELEASE_DESTROY, &bench->err));
        assert_int_equal(places(bench), made(bench, 1));
        assert_ok(bench, berth_driver_release(bench->route, &call, &who, &nameless,
                                              BERTH_RELEASE_DESTROY, &bench->err));
        assert_int_equal(places(bench), made(bench, 1));
    }
    struct berth_place_request who = request_of(LEASE, bench->row->config);
    (void)acquire(bench, LEASE, bench->row->config);
    assert_ok(bench, berth_driver_release(bench->route, &call, &who, &nameless, BERTH_RELEASE_KEEP,
                                          &bench->err));
    assert_int_equal(places(bench), made(bench, 1));
}

static void destroy_again_is_fine(void **state)
{
    struct bench *bench = *state;
    struct berth_call call = no_limit(bench);
    const char *const configs[] = {bench->row->config, bench->row->reused};
    for (int i = 0; i < 2 && configs[i]; i++) { /* it never parks, whatever the config says */
        struct berth_place_request who = request_of(LEASE, configs[i]);
        struct berth_place place = acquire(bench, LEASE, configs[i]);
        for (int k = 0; k < 2; k++) {
            assert_ok(bench, berth_driver_release(bench->route, &call, &who, &place,
                                                  BERTH_RELEASE_DESTROY, &bench->err));
            assert_int_equal(places(bench), 0);
        }
    }
}

static void parked_place_is_destroyed(void **state)
{
    struct bench *bench = *state;
    struct berth_call call = no_limit(bench);
    struct berth_place_request who = request_of(LEASE, bench->row->reused);
    struct berth_place place = acquire(bench, LEASE, bench->row->reused);
    assert_ok(bench, berth_driver_release(bench->route, &call, &who, &place, BERTH_RELEASE_KEEP,
                                          &bench->err));
    assert_ok(bench, berth_driver_release(bench->route, &call, &who, &place, BERTH_RELEASE_DESTROY,
                                          &bench->err));
    assert_int_equal(places(bench), 0);
}

static void resume_of_a_gone_place_is_an_answer(void **state)
{
    struct bench *bench = *state;
    struct berth_call call = no_limit(bench);
    struct berth_place woken;
    if (!berth_route_can_resume(bench->route)) {
        struct berth_place_request who = request_of(OTHER_LEASE, bench->row->config);
        struct berth_place place = acquire(bench, LEASE, bench->row->config);
        char text[128];
        (void)snprintf(text, sizeof text,
                       "Environment driver \"%s\" does not support lease resume.",
                       bench->row->driver);
        assert_fails(bench, BERTH_E_UNSUPPORTED, text,
                     berth_driver_resume(bench->route, &call, &who, &place, &woken, &bench->err));
        return;
    }
    struct berth_place place = acquire(bench, LEASE, bench->row->reused);
    struct berth_place_request who = request_of(LEASE, bench->row->reused);
    assert_ok(bench, berth_driver_release(bench->route, &call, &who, &place, BERTH_RELEASE_KEEP,
                                          &bench->err));
    assert_ok(bench, berth_driver_release(bench->route, &call, &who, &place, BERTH_RELEASE_DESTROY,
                                          &bench->err));
    struct berth_place_request next = request_of(OTHER_LEASE, bench->row->reused);
    assert_ok(bench, berth_driver_resume(bench->route, &call, &next, &place, &woken, &bench->err));
    if (bench->row->makes_nothing)
        assert_string_equal(woken.id, place.id); /* there is nothing that could be gone */
    else
        assert_null(woken.id);
    assert_int_equal(places(bench), 0); /* nor is it made again */
}

/* Every call of the ledger under one set of circumstances; each must answer `code`. */
static void assert_all_refuse(struct bench *bench, struct berth_call call, int code)
{
    struct berth_error *err = &bench->err;
    const struct berth_route *r = bench->route;
    const char *config = bench->row->reused ? bench->row->reused : bench->row->config;
    struct berth_place held = acquire(bench, OTHER_LEASE, config), out;
    struct berth_place_request who = request_of(LEASE, config);
    struct berth_place_request holder = request_of(OTHER_LEASE, config);
    int before = places(bench);
    assert_fails(bench, code, NULL, berth_driver_acquire(r, &call, &who, &out, err));
    assert_null(out.id);
    if (berth_route_can_resume(r))
        assert_fails(bench, code, NULL, berth_driver_resume(r, &call, &who, &held, &out, err));
    assert_fails(bench, code, NULL,
                 berth_driver_release(r, &call, &holder, &held, BERTH_RELEASE_KEEP, err));
    assert_fails(bench, code, NULL,
                 berth_driver_release(r, &call, &holder, &held, BERTH_RELEASE_DESTROY, err));
    if (berth_route_can_find(r, &call)) {
        struct search search = {.label = LEASE};
        assert_fails(bench, code, NULL,
                     berth_driver_find(r, &call, &holder, on_found, &search, err));
    }
    assert_int_equal(places(bench), before); /* nothing was made and nothing ended */
}

static struct berth_call late(struct bench *bench)
{
    struct berth_call call = no_limit(bench);
    call.deadline_ms = berth_time_mono_ms() - 1;
    return call;
}

static struct berth_call cancelled(struct bench *bench)
{
    struct berth_call call = no_limit(bench);
    call.cancel_fd = bench->cancel_fd;
    assert_int_equal(eventfd_write(bench->cancel_fd, 1), 0);
    return call;
}

static void passed_deadline_is_a_timeout(void **state)
{
    assert_all_refuse(*state, late(*state), BERTH_E_TIMEOUT);
}

static void readable_cancel_fd_cancels(void **state)
{
    assert_all_refuse(*state, cancelled(*state), BERTH_E_CANCELLED);
}

/* Past the wrappers, which would refuse a call that is late before it begins: the driver itself
 * must come back, whatever its provider does, and a driver that never waits may also succeed. */
static void assert_comes_back(struct bench *bench, struct berth_call call, int code)
{
    struct berth_driver *d = bench->route->implementation;
    struct berth_place held = acquire(bench, OTHER_LEASE, bench->row->config), out = {0};
    struct berth_place_request who = request_of(LEASE, bench->row->config);
    struct berth_place_request holder = request_of(OTHER_LEASE, bench->row->config);
    if (bench->row->hang)
        bench->row->hang(bench->world);
    (void)alarm(60); /* or the program is killed */
    int acquired = d->ops->acquire(d, &call, &who, &out, &bench->err);
    int released = d->ops->release(d, &call, &holder, &held, BERTH_RELEASE_KEEP, &bench->err);
    int destroyed = d->ops->release(d, &call, &holder, &held, BERTH_RELEASE_DESTROY, &bench->err);
    (void)alarm(0);
    if (bench->row->hang) {
        assert_int_equal(acquired, code);
        assert_int_equal(released, code);
        assert_int_equal(destroyed, code);
        assert_int_equal(bench->err.code, code);
    } else {
        assert_true(acquired == BERTH_OK || acquired == code);
        assert_true(released == BERTH_OK || released == code);
        assert_true(destroyed == BERTH_OK || destroyed == code);
    }
    scripted_go_on(bench->world);
}

static void driver_keeps_the_deadline(void **state)
{
    struct bench *bench = *state;
    struct berth_call call = no_limit(bench);
    call.deadline_ms = berth_time_mono_ms() + 20;
    assert_comes_back(bench, call, BERTH_E_TIMEOUT);
}

static void driver_hears_the_cancel(void **state)
{
    assert_comes_back(*state, cancelled(*state), BERTH_E_CANCELLED);
}

/* The same for the calls that hold no place of a lease's. */
static void late_probe_and_realize_do_not_begin(void **state)
{
    struct bench *bench = *state;
    struct berth_place place = acquire(bench, LEASE, bench->row->config);
    struct berth_place_request who = request_of(LEASE, bench->row->config);
    struct berth_place_request fresh = request_of(OTHER_LEASE, bench->row->config);
    struct berth_workspace workspace = {.local_path = "/"};
    struct berth_realized realized;
    struct berth_probe probe;
    struct berth_call calls[] = {late(bench), cancelled(bench)};
    const int codes[] = {BERTH_E_TIMEOUT, BERTH_E_CANCELLED};
    for (int i = 0; i < 2; i++) {
        assert_fails(bench, codes[i], NULL,
                     berth_driver_realize(bench->route, &calls[i], &who, &place, &workspace,
                                          &realized, &bench->err));
        assert_fails(bench, codes[i], NULL,
                     berth_driver_probe(bench->route, &calls[i], &fresh, &probe, &bench->err));
    }
}

static void cancel_fd_that_stays_silent_changes_nothing(void **state)
{
    struct bench *bench = *state;
    struct berth_call call = no_limit(bench);
    call.cancel_fd = bench->cancel_fd;
    call.deadline_ms = berth_time_mono_ms() + 60000;
    struct berth_place_request who = request_of(LEASE, bench->row->config);
    struct berth_place place;
    assert_ok(bench, berth_driver_acquire(bench->route, &call, &who, &place, &bench->err));
    assert_int_equal(places(bench), made(bench, 1));
    assert_ok(bench, berth_driver_release(bench->route, &call, &who, &place, BERTH_RELEASE_KEEP,
                                          &bench->err));
    assert_int_equal(places(bench), 0);
}

static void probe_leaves_nothing_behind(void **state)
{
    struct bench *bench = *state;
    struct berth_call call = no_limit(bench);
    struct berth_place_request who = request_of(LEASE, bench->row->config);
    struct berth_probe probe;
    (void)acquire(bench, OTHER_LEASE, bench->row->config);
    assert_ok(bench, berth_driver_probe(bench->route, &call, &who, &probe, &bench->err));
    assert_true(probe.ok);
    assert_non_null(probe.summary);
    if (probe.details_json) {
        auto_json *details = parse_json(probe.details_json);
        assert_true(berth_json_is(details, BERTH_JSON_OBJECT));
    }
    assert_int_equal(places(bench), made(bench, 1)); /* what was there before */
}

/* A config that was normalised once is left as it is. */
static void validate_answers_a_config(void **state)
{
    struct bench *bench = *state;
    struct berth_call call = no_limit(bench);
    struct berth_issues issues = {.arena = &bench->arena};
    const char *once = NULL, *twice = NULL;
    assert_ok(bench, berth_driver_validate(bench->route, &call, bench->row->config,
                                           BERTH_CONFIG_PROBE, &issues, &once, &bench->err));
    assert_int_equal(issues.list.count, 0);
    auto_json *first = parse_json(once);
    assert_true(berth_json_is(first, BERTH_JSON_OBJECT));
    assert_ok(bench, berth_driver_validate(bench->route, &call, once, BERTH_CONFIG_PROBE, &issues,
                                           &twice, &bench->err));
    auto_json *second = parse_json(twice);
    assert_true(berth_json_equal(first, second));
    assert_int_equal(places(bench), 0);
}

static void realize_answers_a_cwd(void **state)
{
    struct bench *bench = *state;
    struct berth_call call = no_limit(bench);
    struct berth_place_request who = request_of(LEASE, bench->row->config);
    struct berth_place place = acquire(bench, LEASE, bench->row->config);
    struct berth_workspace workspaces[] = {{0}, {.local_path = "/", .mode = "ephemeral"}};
    for (int i = 0; i < 2; i++) {
        struct berth_realized realized;
        assert_ok(bench, berth_driver_realize(bench->route, &call, &who, &place, &workspaces[i],
                                              &realized, &bench->err));
        assert_non_null(realized.cwd);
        assert_int_equal(realized.cwd[0], '/');
    }
    assert_int_equal(places(bench), made(bench, 1));
}

/* --- the table --- */

enum needs {
    ANY,
    PARKS, /* it parks places */
    MAKES, /* there is something to be found */
};

static const struct {
    const char *name;
    CMUnitTestFunction test;
    enum needs needs;
} contract[] = {
#define CLAUSE(test, needs)                                                                        \
    {                                                                                              \
#test, test, needs                                                                         \
    }
    CLAUSE(ops_are_whole, ANY),
    CLAUSE(same_lease_id_gives_the_same_place, ANY),
    CLAUSE(what_is_made_is_found_by_its_label, MAKES),
    CLAUSE(release_again_is_fine, ANY),
    CLAUSE(release_of_a_reusable_place_parks_it, PARKS),
    CLAUSE(unknown_places_are_a_success, ANY),
    CLAUSE(place_without_id_is_found_by_label, ANY),
    CLAUSE(destroy_again_is_fine, ANY),
    CLAUSE(parked_place_is_destroyed, PARKS),
    CLAUSE(resume_of_a_gone_place_is_an_answer, ANY),
    CLAUSE(passed_deadline_is_a_timeout, ANY),
    CLAUSE(readable_cancel_fd_cancels, ANY),
    CLAUSE(driver_keeps_the_deadline, ANY),
    CLAUSE(driver_hears_the_cancel, ANY),
    CLAUSE(late_probe_and_realize_do_not_begin, ANY),
    CLAUSE(cancel_fd_that_stays_silent_changes_nothing, ANY),
    CLAUSE(probe_leaves_nothing_behind, ANY),
    CLAUSE(validate_answers_a_config, ANY),
    CLAUSE(realize_answers_a_cwd, ANY),
#undef CLAUSE
};

static bool applies(const struct row *row, enum needs needs)
{
    return needs == ANY || (needs == PARKS && row->reused) ||
           (needs == MAKES && !row->makes_nothing);
}

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

int main(void)
{
    static char names[COUNT(rows)][COUNT(contract)][96];
    static struct CMUnitTest tests[COUNT(rows) * COUNT(contract)];
    size_t count = 0;
    for (size_t r = 0; r < COUNT(rows); r++)
        for (size_t c = 0; c < COUNT(contract); c++) {
            if (!applies(&rows[r], contract[c].needs))
                continue;
            (void)snprintf(names[r][c], sizeof names[r][c], "%s: %s", rows[r].name,
                           contract[c].name);
            tests[count++] = (struct CMUnitTest){.name = names[r][c],
                                                 .test_func = contract[c].test,
                                                 .setup_func = setup,
                                                 .teardown_func = teardown,
                                                 .initial_state = &rows[r]};
        }
    /* The macro would run the whole array, also what was not filled. */
    return _cmocka_run_group_tests("driver contract", tests, count, NULL, NULL);
}
