/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/manifest.c - what a plugin may say of itself: every rule with its text. */
#include "core/plugin/manifest.h"

#include "fixture.h"

#include <jansson.h>

#include "base/auto.h"
#include "base/utf8.h"

#define KEY_SHAPE                                                                                  \
    " must start with a lowercase alphanumeric and contain only lowercase letters, digits, dots, " \
    "hyphens, or underscores"
#define AT_LEAST_ONE "String must contain at least 1 character(s)"
#define NO_SCHEMA                                                                                  \
    "Must be a valid JSON Schema object (requires at least a 'type', '$ref', or composition "      \
    "keyword)"
#define CATEGORIES "'connector' | 'workspace' | 'automation' | 'ui'"
#define KINDS "'environment_driver' | 'sandbox_provider'"

/* The least that is accepted, in canonical form. */
#define LEAST                                                                                      \
    "{\"apiVersion\":1,\"author\":\"A\",\"capabilities\":[\"environment.drivers.register\"],"      \
    "\"categories\":[\"automation\"],\"description\":\"D\",\"displayName\":\"N\","                 \
    "\"entrypoints\":{\"worker\":\"./w.js\"},\"id\":\"p\",\"version\":\"1.0.0\"}"
#define LEAST_DRIVER "{\"configSchema\":{},\"displayName\":\"N\",\"driverKey\":\"d\"}"

static struct {
    struct berth_arena arena;
    struct berth_issues issues, warnings;
    struct berth_manifest *manifest;
    struct berth_error err;
} t;

static int set_up(void **state)
{
    (void)state;
    memset(&t, 0, sizeof t);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    berth_arena_clear(&t.arena);
    return 0;
}

/* --- how the tests ask --- */

static int read_value(const struct berth_json *value)
{
    t.issues = t.warnings = (struct berth_issues){.arena = &t.arena};
    t.manifest = NULL;
    return berth_manifest_read(&t.arena, value, &t.issues, &t.warnings, &t.manifest, &t.err);
}

static int read_text(const char *text)
{
    auto_json *value = parse_json(text);
    auto_json *before = berth_json_copy(value);
    int rc = read_value(value);
    assert_true(berth_json_equal(value, before)); /* it was only lent */
    return rc;
}

/* A copy of the object in which members are others: "id", "\"q\"", "jobs", NULL (gone), NULL. */
static const char *change(const char *base, const char *const *pairs)
{
    auto_json *object = parse_json(base);
    for (; pairs[0]; pairs += 2) {
        if (pairs[1])
            assert_true(berth_json_set(object, pairs[0], parse_json(pairs[1])));
        else
            berth_json_remove(object, pairs[0]);
    }
    return berth_json_canonical_in(&t.arena, object);
}
#define with(...) change(LEAST, (const char *const[]){__VA_ARGS__, NULL, NULL})
#define driver_with(...) change(LEAST_DRIVER, (const char *const[]){__VA_ARGS__, NULL, NULL})

static const char *with_driver(const char *driver)
{
    return with("environmentDrivers", berth_arena_printf(&t.arena, "[%s]", driver));
}

/* "path: message; path: message" */
static const char *joined(const struct berth_issues *issues)
{
    const char *all = "";
    for (int i = 0; i < issues->list.count; i++) {
        const struct berth_issue *issue = issues->list.items[i];
        all = berth_arena_printf(&t.arena, "%s%s%s%s%s", all, *all ? "; " : "", issue->path,
                                 *issue->path ? ": " : "", issue->message);
    }
    return all;
}

#define assert_refused(text, faults) refused_at(text, faults, __FILE__, __LINE__)

static void refused_at(const char *text, const char *faults, const char *file, int line)
{
    int rc = read_text(text);
    if (rc != BERTH_E_INVALID)
        print_error("%s\n", text);
    _assert_int_equal(rc, BERTH_E_INVALID, file, line);
    _assert_string_equal(joined(&t.issues), faults, file, line);
    const char *message = berth_arena_printf(&t.arena, "Invalid plugin manifest: %s", faults);
    if (strlen(message) < sizeof t.err.message)
        _assert_string_equal(t.err.message, message, file, line);
    _assert_true(t.manifest == NULL, "a refusal leaves *out alone", file, line);
}

/* With these warnings, and this normalised text; NULL: the text itself. */
#define assert_accepted(text, warnings, json) accepted_at(text, warnings, json, __FILE__, __LINE__)

static void accepted_at(const char *text, const char *warnings, const char *json, const char *file,
                        int line)
{
    assert_ok_at(read_text(text), &t.err, text, file, line);
    _assert_int_equal(t.issues.list.count, 0, file, line);
    _assert_string_equal(joined(&t.warnings), warnings, file, line);
    _assert_string_equal(t.manifest->json, json ? json : text, file, line);
}

/* A JSON text of `count` times the same. */
static const char *long_text(const char *unit, int count)
{
    size_t len = strlen(unit);
    char *text = berth_arena_alloc(&t.arena, len * (size_t)count + 3);
    assert_non_null(text);
    text[0] = '"';
    for (int i = 0; i < count; i++)
        memcpy(text + 1 + len * (size_t)i, unit, len);
    text[1 + len * (size_t)count] = '"';
    return text;
}

/* --- the whole --- */

static void least_is_accepted(void **state)
{
    (void)state;
    assert_accepted(LEAST, "", NULL);
    const struct berth_manifest *m = t.manifest;
    assert_string_equal(m->id, "p");
    assert_string_equal(m->version, "1.0.0");
    assert_string_equal(m->display_name, "N");
    assert_string_equal(m->description, "D");
    assert_string_equal(m->author, "A");
    assert_string_equal(m->worker, "./w.js");
    assert_null(m->minimum_host_version);
    assert_int_equal(m->capabilities.count, 1);
    assert_string_equal(m->capabilities.items[0], "environment.drivers.register");
    assert_int_equal(m->drivers.count, 0);
}

static void not_an_object(void **state)
{
    (void)state;
    static const struct {
        const char *text, *fault;
    } rows[] = {
        {"null", "Expected object, received null"},
        {"[]", "Expected object, received array"},
        {"[" LEAST "]", "Expected object, received array"},
        {"\"{}\"", "Expected object, received string"},
        {"true", "Expected object, received boolean"},
        {"1", "Expected object, received number"},
        {"1.5", "Expected object, received number"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_refused(rows[i].text, rows[i].fault);
    assert_string_equal(((struct berth_issue *)t.issues.list.items[0])->path, "");
    assert_int_equal(read_value(NULL), BERTH_E_INVALID);
    assert_string_equal(t.err.message, "Invalid plugin manifest: Required");
}

static void all_that_is_missing(void **state)
{
    (void)state;
    assert_refused("{}", "id: Required; apiVersion: Invalid literal value, expected 1; "
                         "version: Required; displayName: Required; description: Required; "
                         "author: Required; categories: Required; capabilities: Required; "
                         "entrypoints: Required");
}

static void each_that_is_missing(void **state)
{
    (void)state;
    static const char *const members[] = {"id",     "version",    "displayName",  "description",
                                          "author", "categories", "capabilities", "entrypoints"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        assert_refused(with(members[i], NULL),
                       berth_arena_printf(&t.arena, "%s: Required", members[i]));
    assert_refused(with("apiVersion", NULL), "apiVersion: Invalid literal value, expected 1");
}

/* null does not count as a missing value. */
static void each_of_another_type(void **state)
{
    (void)state;
    static const struct {
        const char *member, *expected;
    } rows[] = {
        {"id", "string"},
        {"version", "string"},
        {"displayName", "string"},
        {"description", "string"},
        {"author", "string"},
        {"categories", "array"},
        {"minimumHostVersion", "string"},
        {"minimumPaperclipVersion", "string"},
        {"capabilities", "array"},
        {"entrypoints", "object"},
        {"instanceConfigSchema", "object"},
        {"jobs", "array"},
        {"webhooks", "array"},
        {"tools", "array"},
        {"database", "object"},
        {"apiRoutes", "array"},
        {"environmentDrivers", "array"},
        {"agents", "array"},
        {"projects", "array"},
        {"routines", "array"},
        {"skills", "array"},
        {"localFolders", "array"},
        {"launchers", "array"},
        {"ui", "object"},
    };
    static const char *const values[][2] = {
        {"null", "null"},    {"7", "number"}, {"0.5", "number"}, {"false", "boolean"},
        {"\"x\"", "string"}, {"[]", "array"}, {"{}", "object"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < sizeof values / sizeof *values; k++)
            if (strcmp(values[k][1], rows[i].expected) != 0)
                assert_refused(with(rows[i].member, values[k][0]),
                               berth_arena_printf(&t.arena, "%s: Expected %s, received %s",
                                                  rows[i].member, rows[i].expected, values[k][1]));
}

/* --- 16.1: the top level --- */

static void id(void **state)
{
    (void)state;
    static const char *const good[] = {"\"0\"", "\"acme.tools\"", "\"a._-9\"",
                                       "\"9876543210zyxwvutsrqponmlkjihgfedcba\""};
    static const char *const bad[] = {"\".a\"",  "\"-a\"",  "\"_a\"",   "\"A\"",        "\"aB\"",
                                      "\"a b\"", "\"a/b\"", "\"a\\n\"", "\"a\\u00e9\"", "\"a:b\""};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_accepted(with("id", good[i]), "", NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(with("id", bad[i]), "id: Plugin id" KEY_SHAPE);
    assert_refused(with("id", "\"\""), "id: " AT_LEAST_ONE "; id: Plugin id" KEY_SHAPE);
}

static void api_version(void **state)
{
    (void)state;
    static const char *const bad[] = {"0", "2", "1.5", "\"1\"", "true", "null", "[1]", "{}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(with("apiVersion", bad[i]), "apiVersion: Invalid literal value, expected 1");
    assert_accepted(with("apiVersion", "1.0"), "", LEAST); /* the same number */
}

static const char *const versions[] = {
    "0.0.0",
    "1.2.3",
    "01.002.0",
    "1.0.0-beta.1",
    "1.0.0-0",
    "1.0.0--",
    "1.0.0-a-b.C.9",
    "1.0.0+build.5",
    "1.0.0-rc.1+x",
    "1.0.0+a-b",
    "1.0.0+-.--1",
    "1.0.0-x+y.z",
    "1.0.0-1.02.alpha",
    "1234567890.9876543210.55-ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    "1.0.0+abcdefghijklmnopqrstuvwxyz"};
static const char *const no_versions[] = {
    "1",          "1.0",      "1.0.0.0",  "v1.0.0",   "1.0.0 ",    " 1.0.0",
    "1.0.x",      "1..0",     ".1.0.0",   "1.0.",     "1.0.0-",    "1.0.0+",
    "1.0.0-a..b", "1.0.0-.a", "1.0.0-a.", "1.0.0-a+", "1.0.0-a_b", "1.0.0+a+b",
    "-1.0.0",     "1.0.0\\n", "1,0,0",    "1.0.0~1"};

static const char *quoted(const char *text)
{
    return berth_arena_printf(&t.arena, "\"%s\"", text);
}

static void version(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        assert_accepted(with("version", quoted(versions[i])), "", NULL);
        assert_string_equal(t.manifest->version, versions[i]);
    }
    for (size_t i = 0; i < sizeof no_versions / sizeof *no_versions; i++)
        assert_refused(with("version", quoted(no_versions[i])),
                       "version: Version must follow semver (e.g. 1.0.0 or 1.0.0-beta.1)");
    assert_refused(with("version", "\"\""),
                   "version: " AT_LEAST_ONE
                   "; version: Version must follow semver (e.g. 1.0.0 or 1.0.0-beta.1)");
}

static void minimum_versions(void **state)
{
    (void)state;
    static const char *const names[] = {"minimumHostVersion", "minimumPaperclipVersion"};
    for (int n = 0; n < 2; n++) {
        for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
            assert_accepted(with(names[n], quoted(versions[i])), "", NULL);
            assert_string_equal(t.manifest->minimum_host_version, versions[i]);
        }
        const char *fault = berth_arena_printf(&t.arena, "%s: %s must follow semver (e.g. 1.0.0)",
                                               names[n], names[n]);
        for (size_t i = 0; i < sizeof no_versions / sizeof *no_versions; i++)
            assert_refused(with(names[n], quoted(no_versions[i])), fault);
        assert_refused(with(names[n], "\"\""), fault); /* no rule about the length */
    }
}

/* A text of 1 to `max` units of UTF-16. */
static void check_lengths(const char *member, int max)
{
    const char *too_long = berth_arena_printf(
        &t.arena, "%s: String must contain at most %d character(s)", member, max);
    assert_refused(with(member, "\"\""), berth_arena_printf(&t.arena, "%s: " AT_LEAST_ONE, member));
    assert_accepted(with(member, "\" \""), "", NULL);
    assert_accepted(with(member, long_text("x", max)), "", NULL);
    assert_refused(with(member, long_text("x", max + 1)), too_long);
    assert_accepted(with(member, long_text("\xc3\xa9", max)), "", NULL);
    assert_refused(with(member, long_text("\xc3\xa9", max + 1)), too_long);
    assert_accepted(with(member, long_text("\xe2\x82\xac", max)), "", NULL);
    assert_refused(with(member, long_text("\xe2\x82\xac", max + 1)), too_long);
    assert_accepted(with(member, long_text("\xf0\x9f\x9a\xa2", max / 2)), "", NULL);
    assert_refused(with(member, long_text("\xf0\x9f\x9a\xa2", max / 2 + 1)), too_long);
}

static void lengths(void **state)
{
    (void)state;
    check_lengths("displayName", 100);
    check_lengths("description", 500);
    check_lengths("author", 200);
}

static void category_list(void **state)
{
    (void)state;
    assert_accepted(with("categories", "[\"connector\",\"workspace\",\"automation\",\"ui\"]"), "",
                    NULL);
    assert_accepted(with("categories", "[\"ui\",\"ui\"]"), "", NULL);
    assert_refused(with("categories", "[]"),
                   "categories: Array must contain at least 1 element(s)");
    assert_refused(with("categories", "[\"ui\",\"UI\",\"\"]"),
                   "categories.1: Invalid enum value. Expected " CATEGORIES ", received 'UI'; "
                   "categories.2: Invalid enum value. Expected " CATEGORIES ", received ''");
    assert_refused(with("categories", "[3,null]"),
                   "categories.0: Expected " CATEGORIES ", received number; "
                   "categories.1: Expected " CATEGORIES ", received null");
}

static void entry_points(void **state)
{
    (void)state;
    assert_accepted(with("entrypoints", "{\"ui\":\"./ui\",\"worker\":\"w\"}"), "", NULL);
    assert_string_equal(t.manifest->worker, "w");
    assert_refused(with("entrypoints", "{}"), "entrypoints.worker: Required");
    assert_refused(with("entrypoints", "{\"worker\":\"\",\"ui\":\"\"}"),
                   "entrypoints.worker: " AT_LEAST_ONE "; entrypoints.ui: " AT_LEAST_ONE);
    assert_refused(with("entrypoints", "{\"worker\":null,\"ui\":1}"),
                   "entrypoints.worker: Expected string, received null; "
                   "entrypoints.ui: Expected string, received number");
}

static const char *const schemas[] = {"{}",
                                      "{\"type\":\"object\"}",
                                      "{\"type\":\"\"}",
                                      "{\"$ref\":\"#/x\"}",
                                      "{\"oneOf\":[]}",
                                      "{\"anyOf\":[{\"a\":[1.5,null]}]}",
                                      "{\"allOf\":null}",
                                      "{\"$ref\":1,\"type\":7}"};
static const char *const no_schemas[] = {"{\"properties\":{}}", "{\"type\":[\"object\"]}",
                                         "{\"type\":null}", "{\"oneof\":[],\"not\":{}}"};

static void instance_schema(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
        assert_accepted(with("instanceConfigSchema", schemas[i]), "", NULL);
    for (size_t i = 0; i < sizeof no_schemas / sizeof *no_schemas; i++)
        assert_refused(with("instanceConfigSchema", no_schemas[i]),
                       "instanceConfigSchema: " NO_SCHEMA);
}

/* --- capabilities --- */

static void known_capabilities(void **state)
{
    (void)state;
    const char *all =
        "[\"companies.read\",\"projects.read\",\"project.workspaces.read\",\"issues.read\","
        "\"issue.relations.read\",\"issue.subtree.read\",\"issue.comments.read\","
        "\"issue.documents.read\",\"agents.read\",\"goals.read\",\"goals.create\",\"goals.update\","
        "\"activity.read\",\"costs.read\",\"issues.orchestration.read\",\"database.namespace."
        "read\","
        "\"issues.create\",\"issues.update\",\"issue.relations.write\",\"issues.checkout\","
        "\"issues.wakeup\",\"issue.comments.create\",\"issue.interactions.create\","
        "\"issue.documents.write\",\"projects.managed\",\"routines.managed\",\"skills.managed\","
        "\"agents.pause\",\"agents.resume\",\"agents.invoke\",\"agents.managed\","
        "\"agent.sessions.create\",\"agent.sessions.list\",\"agent.sessions.send\","
        "\"agent.sessions.close\",\"activity.log.write\",\"metrics.write\",\"telemetry.track\","
        "\"database.namespace.migrate\",\"database.namespace.write\",\"plugin.state.read\","
        "\"plugin.state.write\",\"events.subscribe\",\"events.emit\",\"jobs.schedule\","
        "\"webhooks.receive\",\"api.routes.register\",\"http.outbound\",\"secrets.read-ref\","
        "\"environment.drivers.register\",\"local.folders\",\"agent.tools.register\","
        "\"instance.settings.register\",\"ui.sidebar.register\",\"ui.page.register\","
        "\"ui.detailTab.register\",\"ui.dashboardWidget.register\","
        "\"ui.commentAnnotation.register\",\"ui.action.register\"]";
    assert_accepted(with("capabilities", all), "", NULL);
    assert_int_equal(t.manifest->capabilities.count, 59);
    assert_string_equal(t.manifest->capabilities.items[0], "companies.read");
    assert_string_equal(t.manifest->capabilities.items[58], "ui.action.register");
}

static void unknown_capabilities_are_kept(void **state)
{
    (void)state;
    assert_accepted(with("capabilities", "[\"access.read\",\"issues.read\",\"\",\"issues\","
                                         "\"issues.read issues.create\",\"read issues\"]"),
                    "capabilities.0: Unknown capability 'access.read'; "
                    "capabilities.2: Unknown capability ''; "
                    "capabilities.3: Unknown capability 'issues'; "
                    "capabilities.4: Unknown capability 'issues.read issues.create'; "
                    "capabilities.5: Unknown capability 'read issues'",
                    NULL);
    assert_int_equal(t.manifest->capabilities.count, 6);
    assert_string_equal(t.manifest->capabilities.items[0], "access.read");
}

static void bad_capabilities(void **state)
{
    (void)state;
    assert_refused(with("capabilities", "[]"),
                   "capabilities: Array must contain at least 1 element(s)");
    assert_refused(with("capabilities", "[\"issues.read\",1,{}]"),
                   "capabilities.1: Expected string, received number; "
                   "capabilities.2: Expected string, received object");
}

/* --- 16.2: drivers --- */

static void least_driver(void **state)
{
    (void)state;
    assert_accepted(with_driver(LEAST_DRIVER), "", NULL);
    assert_int_equal(t.manifest->drivers.count, 1);
    const struct berth_manifest_driver *d = t.manifest->drivers.items[0];
    assert_string_equal(d->key, "d");
    assert_string_equal(d->display_name, "N");
    assert_null(d->description);
    assert_null(d->kind);
    assert_string_equal(d->schema_json, "{}");
}

static void full_drivers(void **state)
{
    (void)state;
    assert_accepted(
        with("environmentDrivers",
             "[" LEAST_DRIVER ",{\"configSchema\":{\"type\":\"object\",\"a\":1},\"description\":"
             "\"\",\"displayName\":\"M\",\"driverKey\":\"e.f\",\"kind\":\"sandbox_provider\"}]"),
        "", NULL);
    assert_int_equal(t.manifest->drivers.count, 2);
    const struct berth_manifest_driver *d = t.manifest->drivers.items[1];
    assert_string_equal(d->key, "e.f");
    assert_string_equal(d->display_name, "M");
    assert_string_equal(d->description, "");
    assert_string_equal(d->kind, "sandbox_provider");
    assert_string_equal(d->schema_json, "{\"a\":1,\"type\":\"object\"}");
    assert_accepted(with_driver(driver_with("kind", "\"environment_driver\"")), "", NULL);
    d = t.manifest->drivers.items[0];
    assert_string_equal(d->kind, "environment_driver");
}

static void driver_members(void **state)
{
    (void)state;
    assert_refused(with_driver("{}"), "environmentDrivers.0.driverKey: Required; "
                                      "environmentDrivers.0.displayName: Required; "
                                      "environmentDrivers.0.configSchema: Required");
    assert_refused(
        with_driver("{\"driverKey\":1,\"kind\":2,\"displayName\":[],\"description\":null,"
                    "\"configSchema\":[]}"),
        "environmentDrivers.0.driverKey: Expected string, received number; "
        "environmentDrivers.0.kind: Expected " KINDS ", received number; "
        "environmentDrivers.0.displayName: Expected string, received array; "
        "environmentDrivers.0.description: Expected string, received null; "
        "environmentDrivers.0.configSchema: Expected object, received array");
    assert_refused(with("environmentDrivers", "[" LEAST_DRIVER ",7,null]"),
                   "environmentDrivers.1: Expected object, received number; "
                   "environmentDrivers.2: Expected object, received null");
}

static void driver_key(void **state)
{
    (void)state;
    assert_accepted(with_driver(driver_with("driverKey", "\"0a._-z\"")), "", NULL);
    static const char *const bad[] = {"\"-a\"", "\"A\"", "\"a/b\"", "\"a:b\""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(with_driver(driver_with("driverKey", bad[i])),
                       "environmentDrivers.0.driverKey: Environment driver key" KEY_SHAPE);
    assert_refused(with_driver(driver_with("driverKey", "\"\"")),
                   "environmentDrivers.0.driverKey: " AT_LEAST_ONE
                   "; environmentDrivers.0.driverKey: Environment driver key" KEY_SHAPE);
}

static void driver_texts(void **state)
{
    (void)state;
    assert_accepted(with_driver(driver_with("displayName", long_text("x", 100))), "", NULL);
    assert_refused(
        with_driver(driver_with("displayName", long_text("x", 101))),
        "environmentDrivers.0.displayName: String must contain at most 100 character(s)");
    assert_refused(with_driver(driver_with("displayName", "\"\"")),
                   "environmentDrivers.0.displayName: " AT_LEAST_ONE);
    assert_accepted(with_driver(driver_with("description", long_text("x", 500))), "", NULL);
    assert_refused(
        with_driver(driver_with("description", long_text("x", 501))),
        "environmentDrivers.0.description: String must contain at most 500 character(s)");
    assert_refused(with_driver(driver_with("kind", "\"sandbox\"")),
                   "environmentDrivers.0.kind: Invalid enum value. Expected " KINDS
                   ", received 'sandbox'");
}

static void driver_schema(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        assert_accepted(with_driver(driver_with("configSchema", schemas[i])), "", NULL);
        const struct berth_manifest_driver *d = t.manifest->drivers.items[0];
        assert_string_equal(d->schema_json, schemas[i]);
    }
    for (size_t i = 0; i < sizeof no_schemas / sizeof *no_schemas; i++)
        assert_refused(with_driver(driver_with("configSchema", no_schemas[i])),
                       "environmentDrivers.0.configSchema: " NO_SCHEMA);
}

/* --- 24: what later hosts know of drivers --- */

#define D0 "environmentDrivers.0."

static void later_keys_are_kept(void **state)
{
    (void)state;
    assert_accepted(
        with_driver(
            "{\"configSchema\":{},\"displayName\":\"N\",\"driverKey\":\"d\","
            "\"interactiveSetupConnectionTypes\":[\"ssh\",\"a\",\"b\",\"c\",\"d\",\"e\",\"f\","
            "\"g\",\"h\",\"i\"],"
            "\"sandboxCapabilities\":{\"concurrentSyncOperations\":false,"
            "\"duplexCommandStream\":true,\"incrementalSessionOutput\":true,"
            "\"independentControlCommands\":true,\"nativeSyncIn\":true,\"nativeSyncOut\":false,"
            "\"persistentProcessSessions\":true,\"reusableLeases\":true},"
            "\"supportsInteractiveSetup\":true,\"supportsLoginPty\":true,"
            "\"supportsReusableLeases\":false,\"supportsSetupTokenLogin\":true,"
            "\"supportsTemplateCapture\":true,\"supportsTemplateDelete\":false,"
            "\"templateConfigBinding\":{\"field\":\"image\",\"unsetFields\":[\"a\"]},"
            "\"templateIdentityPaths\":[\"a\",\"b\"],\"templateRefKind\":\"snapshot\"}"),
        "", NULL);
    assert_accepted(with_driver(driver_with("sandboxCapabilities", "{}")), "", NULL);
    assert_accepted(with_driver(driver_with("templateConfigBinding", "{\"field\":\"f\"}")), "",
                    NULL);
}

/* A warning, and as if it were not there; the rest stays. */
static void later_keys_of_another_type(void **state)
{
    (void)state;
    static const struct {
        const char *member, *value, *warning;
    } rows[] = {
        {"sandboxCapabilities", "true", ": Expected object, received boolean"},
        {"supportsReusableLeases", "1", ": Expected boolean, received number"},
        {"supportsInteractiveSetup", "\"yes\"", ": Expected boolean, received string"},
        {"interactiveSetupConnectionTypes", "{}", ": Expected array, received object"},
        {"interactiveSetupConnectionTypes", "[\"a\",1]", ".1: Expected string, received number"},
        {"interactiveSetupConnectionTypes",
         "[\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\"]",
         ": Array must contain at most 10 element(s)"},
        {"supportsTemplateCapture", "null", ": Expected boolean, received null"},
        {"supportsTemplateDelete", "[]", ": Expected boolean, received array"},
        {"templateRefKind", "3", ": Expected string, received number"},
        {"templateConfigBinding", "\"image\"", ": Expected object, received string"},
        {"templateConfigBinding", "{}", ".field: Required"},
        {"templateConfigBinding", "{\"field\":\"f\",\"unsetFields\":7}",
         ".unsetFields: Expected array, received number"},
        {"templateIdentityPaths", "\"a\"", ": Expected array, received string"},
        {"supportsLoginPty", "{}", ": Expected boolean, received object"},
        {"supportsSetupTokenLogin", "0", ": Expected boolean, received number"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_accepted(
            with_driver(driver_with("kind", "\"sandbox_provider\"", rows[i].member, rows[i].value)),
            berth_arena_printf(&t.arena, D0 "%s%s", rows[i].member, rows[i].warning),
            with_driver(driver_with("kind", "\"sandbox_provider\"")));
}

/* Twenty are fine, one more is not. */
static void later_lists_have_limits(void **state)
{
    (void)state;
    const char *twenty = "\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\","
                         "\"\",\"\",\"\",\"\",\"\",\"\"";
    const char *fine = berth_arena_printf(&t.arena, "[%s]", twenty);
    const char *more = berth_arena_printf(&t.arena, "[%s,\"\"]", twenty);
    assert_accepted(with_driver(driver_with("templateIdentityPaths", fine)), "", NULL);
    assert_accepted(with_driver(driver_with("templateIdentityPaths", more)),
                    D0 "templateIdentityPaths: Array must contain at most 20 element(s)",
                    with_driver(LEAST_DRIVER));
    fine = berth_arena_printf(&t.arena, "{\"field\":\"f\",\"unsetFields\":%s}", fine);
    more = berth_arena_printf(&t.arena, "{\"field\":\"f\",\"unsetFields\":%s}", more);
    assert_accepted(with_driver(driver_with("templateConfigBinding", fine)), "", NULL);
    assert_accepted(with_driver(driver_with("templateConfigBinding", more)),
                    D0
                    "templateConfigBinding.unsetFields: Array must contain at most 20 element(s)",
                    with_driver(LEAST_DRIVER));
}

static void sandbox_capabilities_one_by_one(void **state)
{
    (void)state;
    static const char *const names[] = {"reusableLeases",
                                        "nativeSyncIn",
                                        "nativeSyncOut",
                                        "persistentProcessSessions",
                                        "independentControlCommands",
                                        "incrementalSessionOutput",
                                        "concurrentSyncOperations",
                                        "duplexCommandStream"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *other = names[(i + 1) % (sizeof names / sizeof *names)];
        assert_accepted(
            with_driver(driver_with("sandboxCapabilities",
                                    berth_arena_printf(&t.arena,
                                                       "{\"%s\":1,\"%s\":true,\"unheardOf\":true}",
                                                       names[i], other))),
            berth_arena_printf(
                &t.arena, D0 "sandboxCapabilities.%s: Expected boolean, received number", names[i]),
            with_driver(driver_with("sandboxCapabilities",
                                    berth_arena_printf(&t.arena, "{\"%s\":true}", other))));
    }
}

/* A warning does not hide a fault, nor make one. */
static void warnings_beside_faults(void **state)
{
    (void)state;
    assert_refused(with("environmentDrivers", "[{\"supportsLoginPty\":1}]", "capabilities",
                        "[\"new\",\"environment.drivers.register\"]"),
                   D0 "driverKey: Required; " D0 "displayName: Required; " D0
                      "configSchema: Required");
    assert_string_equal(joined(&t.warnings), "capabilities.0: Unknown capability 'new'; " D0
                                             "supportsLoginPty: Expected boolean, received number");
    /* A wrong type that is only a warning does not keep the rules between fields from applying. */
    assert_refused(with("capabilities", "[\"new\"]", "environmentDrivers",
                        "[{\"configSchema\":{},\"displayName\":\"N\",\"driverKey\":\"d\","
                        "\"supportsLoginPty\":1}]"),
                   "capabilities: Capability 'environment.drivers.register' is required when "
                   "environmentDrivers are declared");
}

/* --- 16.3: the others are looked at from outside only --- */

static void other_lists_are_of_objects(void **state)
{
    (void)state;
    static const char *const members[] = {"jobs",      "webhooks",    "tools",    "apiRoutes",
                                          "agents",    "projects",    "routines", "skills",
                                          "launchers", "localFolders"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        assert_accepted(with(members[i], "[]"), "", NULL);
        assert_refused(with(members[i], "[{},\"x\",[]]"),
                       berth_arena_printf(&t.arena,
                                          "%s.1: Expected object, received string; "
                                          "%s.2: Expected object, received array",
                                          members[i], members[i]));
    }
}

#define ALL_CAPABILITIES                                                                           \
    "[\"agent.tools.register\",\"environment.drivers.register\",\"agents.managed\","               \
    "\"projects.managed\",\"routines.managed\",\"skills.managed\",\"local.folders\","              \
    "\"jobs.schedule\",\"webhooks.receive\",\"api.routes.register\","                              \
    "\"database.namespace.migrate\",\"database.namespace.read\"]"

static void other_contents_are_kept(void **state)
{
    (void)state;
    const char *item = "[{\"a\":{\"b\":[1,null,2.5]},\"displayName\":7}]";
    assert_accepted(with("capabilities", ALL_CAPABILITIES, "jobs", item, "webhooks", item, "tools",
                         item, "apiRoutes", item, "agents", item, "projects", item, "routines",
                         item, "skills", item, "localFolders", item, "launchers", item, "database",
                         "{\"x\":{\"y\":1}}", "ui", "{\"slots\":\"odd\",\"x\":[{}]}"),
                    "", NULL);
}

/* --- unknown keys --- */

static void unknown_keys_are_dropped(void **state)
{
    (void)state;
    assert_accepted(with("objectReferences", "[1]", "Id", "\"x\"", "", "{}"), "", LEAST);
    assert_accepted(with("entrypoints", "{\"worker\":\"./w.js\",\"cli\":7}"), "", LEAST);
    assert_accepted(with_driver(driver_with("x", "1", "supports", "true", "id", "null")), "",
                    with_driver(LEAST_DRIVER));
    assert_accepted(
        with_driver(driver_with("templateConfigBinding", "{\"field\":\"f\",\"more\":1}")), "",
        with_driver(driver_with("templateConfigBinding", "{\"field\":\"f\"}")));
}

static void schemas_keep_all_keys(void **state)
{
    (void)state;
    const char *schema = "{\"id\":1,\"properties\":{\"a\":{\"x-y\":[{},null,1.25,\"\\u00e9\"]}},"
                         "\"type\":\"object\",\"unheardOf\":{\"b\":true}}";
    auto_json *value = parse_json(schema);
    schema = berth_json_canonical_in(&t.arena, value);
    assert_accepted(with("instanceConfigSchema", schema, "environmentDrivers",
                         berth_arena_printf(&t.arena, "[%s]", driver_with("configSchema", schema))),
                    "", NULL);
    const struct berth_manifest_driver *d = t.manifest->drivers.items[0];
    assert_string_equal(d->schema_json, schema);
}

/* --- 16.4: rules between fields --- */

static void ui_needs_its_entry(void **state)
{
    (void)state;
    const char *fault =
        "entrypoints.ui: entrypoints.ui is required when ui.slots or ui.launchers are declared";
    assert_refused(with("ui", "{\"slots\":[{}]}"), fault);
    assert_refused(with("ui", "{\"launchers\":[{}]}"), fault);
    assert_refused(with("ui", "{\"launchers\":[{}],\"slots\":[]}"), fault);
    assert_accepted(with("ui", "{\"launchers\":[],\"slots\":[]}"), "", NULL);
    assert_accepted(with("ui", "{}"), "", NULL);
    assert_accepted(with("launchers", "[{}]"), "", NULL); /* the older place */
    assert_accepted(with("ui", "{\"launchers\":[{}],\"slots\":[{}]}", "entrypoints",
                         "{\"ui\":\"u\",\"worker\":\"w\"}"),
                    "", NULL);
    assert_refused(
        with("ui", "{\"slots\":[{}]}", "entrypoints", "{\"ui\":\"\",\"worker\":\"w\"}"),
        "entrypoints.ui: " AT_LEAST_ONE
        "; entrypoints.ui: entrypoints.ui is required when ui.slots or ui.launchers are declared");
}

#define MUST_MATCH                                                                                 \
    "minimumHostVersion: minimumHostVersion and minimumPaperclipVersion must match when both are " \
    "declared"

static void minimum_versions_match(void **state)
{
    (void)state;
    assert_refused(with("minimumHostVersion", "\"1.0.0\"", "minimumPaperclipVersion", "\"1.0.1\""),
                   MUST_MATCH);
    assert_refused(
        with("minimumHostVersion", "\"1.0.0\"", "minimumPaperclipVersion", "\"1.0.0+x\""),
        MUST_MATCH); /* as texts */
    assert_accepted(with("minimumHostVersion", "\"1.0.0\"", "minimumPaperclipVersion", "\"1.0.0\""),
                    "", NULL);
    assert_string_equal(t.manifest->minimum_host_version, "1.0.0");
    assert_refused(with("minimumHostVersion", "\"\"", "minimumPaperclipVersion", "\"1.0.0\""),
                   "minimumHostVersion: minimumHostVersion must follow semver (e.g. 1.0.0)");
}

static void features_need_capabilities(void **state)
{
    (void)state;
    static const struct {
        const char *member, *value, *capability, *what;
    } rows[] = {
        {"tools", "[{}]", "agent.tools.register", "tools"},
        {"environmentDrivers", "[" LEAST_DRIVER "]", "environment.drivers.register",
         "environmentDrivers"},
        {"agents", "[{}]", "agents.managed", "managed agents"},
        {"projects", "[{}]", "projects.managed", "managed projects"},
        {"routines", "[{}]", "routines.managed", "managed routines"},
        {"skills", "[{}]", "skills.managed", "managed skills"},
        {"localFolders", "[{}]", "local.folders", "local folders"},
        {"jobs", "[{}]", "jobs.schedule", "jobs"},
        {"webhooks", "[{}]", "webhooks.receive", "webhooks"},
        {"apiRoutes", "[{}]", "api.routes.register", "apiRoutes"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_refused(
            with(rows[i].member, rows[i].value, "capabilities", "[\"issues.read\"]"),
            berth_arena_printf(&t.arena,
                               "capabilities: Capability '%s' is required when %s are declared",
                               rows[i].capability, rows[i].what));
        assert_accepted(
            with(rows[i].member, rows[i].value, "capabilities",
                 berth_arena_printf(&t.arena, "[\"issues.read\",\"%s\"]", rows[i].capability)),
            "", NULL);
        assert_accepted(with(rows[i].member, "[]", "capabilities", "[\"issues.read\"]"), "", NULL);
    }
}

static void database_needs_two(void **state)
{
    (void)state;
    const char *migrate = "capabilities: Capability 'database.namespace.migrate' is required when "
                          "database migrations are declared";
    const char *read = "capabilities: Capability 'database.namespace.read' is required when "
                       "database migrations are declared";
    assert_refused(with("database", "{}"), berth_arena_printf(&t.arena, "%s; %s", migrate, read));
    assert_refused(with("database", "{}", "capabilities", "[\"database.namespace.read\"]"),
                   migrate);
    assert_refused(with("database", "{}", "capabilities", "[\"database.namespace.migrate\"]"),
                   read);
    assert_accepted(with("database", "{}", "capabilities",
                         "[\"database.namespace.read\",\"database.namespace.migrate\"]"),
                    "", NULL);
}

static void all_capabilities_missing(void **state)
{
    (void)state;
    const char *names[] = {"agent.tools.register' is required when tools",
                           "environment.drivers.register' is required when environmentDrivers",
                           "agents.managed' is required when managed agents",
                           "projects.managed' is required when managed projects",
                           "routines.managed' is required when managed routines",
                           "skills.managed' is required when managed skills",
                           "local.folders' is required when local folders",
                           "jobs.schedule' is required when jobs",
                           "webhooks.receive' is required when webhooks",
                           "api.routes.register' is required when apiRoutes",
                           "database.namespace.migrate' is required when database migrations",
                           "database.namespace.read' is required when database migrations"};
    const char *all = "";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        all = berth_arena_printf(&t.arena, "%s%scapabilities: Capability '%s are declared", all,
                                 i ? "; " : "", names[i]);
    assert_refused(with("capabilities", "[\"issues.read\"]", "jobs", "[{}]", "webhooks", "[{}]",
                        "tools", "[{}]", "database", "{}", "apiRoutes", "[{}]",
                        "environmentDrivers", "[" LEAST_DRIVER "]", "agents", "[{}]", "projects",
                        "[{}]", "routines", "[{}]", "skills", "[{}]", "localFolders", "[{}]"),
                   all);
}

/* --- duplicates --- */

#define UI_ENTRY "entrypoints", "{\"ui\":\"u\",\"worker\":\"w\"}"

static void duplicate_keys(void **state)
{
    (void)state;
    static const struct {
        const char *member, *key, *what;
    } rows[] = {
        {"jobs", "jobKey", "job keys"},
        {"webhooks", "endpointKey", "webhook endpoint keys"},
        {"apiRoutes", "routeKey", "api route keys"},
        {"tools", "name", "tool names"},
        {"localFolders", "folderKey", "local folder keys"},
        {"agents", "agentKey", "managed agent keys"},
        {"projects", "projectKey", "managed project keys"},
        {"routines", "routineKey", "managed routine keys"},
        {"skills", "skillKey", "managed skill keys"},
        {"launchers", "id", "launcher ids"},
    };
    /* The order is that of the second ones; a value that cannot be read is not a key. */
    static const char keys[] = "[{\"%s\":\"a\"},{\"%s\":\"b\"},{\"%s\":\"c\"},{\"%s\":\"b\"},"
                               "{\"%s\":\"a\"},{\"%s\":\"b\"},{\"%s\":1},{\"%s\":1},{},{}]";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *k = rows[i].key;
        assert_refused(
            with("capabilities", ALL_CAPABILITIES, rows[i].member,
                 berth_arena_printf(&t.arena, keys, k, k, k, k, k, k, k, k)),
            berth_arena_printf(&t.arena, "%s: Duplicate %s: b, a", rows[i].member, rows[i].what));
        assert_accepted(with("capabilities", ALL_CAPABILITIES, rows[i].member,
                             berth_arena_printf(&t.arena, "[{\"%s\":\"a\"},{\"%s\":\"A\"}]", k, k)),
                        "", NULL);
    }
}

static void duplicate_drivers(void **state)
{
    (void)state;
    assert_refused(
        with("environmentDrivers", "[" LEAST_DRIVER "," LEAST_DRIVER "," LEAST_DRIVER "]"),
        "environmentDrivers: Duplicate environment driver keys: d");
}

static void duplicate_routes(void **state)
{
    (void)state;
    assert_refused(
        with("capabilities", "[\"api.routes.register\"]", "apiRoutes",
             "[{\"method\":\"GET\",\"path\":\"/a\",\"routeKey\":\"x\"},"
             "{\"method\":\"POST\",\"path\":\"/a\",\"routeKey\":\"y\"},"
             "{\"method\":\"GET\",\"path\":\"/a\",\"routeKey\":\"x\"}]"),
        "apiRoutes: Duplicate api route keys: x; apiRoutes: Duplicate api routes: GET /a");
    assert_accepted(
        with("capabilities", "[\"api.routes.register\"]", "apiRoutes",
             "[{\"method\":\"GET\"},{\"method\":\"GET\"},{\"path\":\"/a\"},{\"path\":\"/a\"},"
             "{\"method\":\"GET\",\"path\":1},{\"method\":\"GET\",\"path\":1}]"),
        "", NULL);
}

static void duplicates_in_ui(void **state)
{
    (void)state;
    const char *twice = "[{\"id\":\"a\"},{\"id\":\"a\"}]", *once = "[{\"id\":\"a\"}]";
    const char *form = "{\"%s\":%s}";
    assert_refused(with(UI_ENTRY, "ui", berth_arena_printf(&t.arena, form, "slots", twice)),
                   "ui.slots: Duplicate UI slot ids: a");
    assert_refused(with(UI_ENTRY, "ui", berth_arena_printf(&t.arena, form, "launchers", twice)),
                   "ui.launchers: Duplicate launcher ids: a");
    assert_refused(with(UI_ENTRY, "ui", berth_arena_printf(&t.arena, form, "launchers", once),
                        "launchers", once),
                   "ui.launchers: Duplicate launcher ids: a"); /* in both places together */
    assert_refused(with("ui", "{}", "launchers", twice), "launchers: Duplicate launcher ids: a");
    assert_accepted(
        with(UI_ENTRY, "ui", berth_arena_printf(&t.arena, form, "slots", once), "launchers", once),
        "", NULL);
}

static void duplicate_tables(void **state)
{
    (void)state;
    assert_refused(
        with("capabilities", ALL_CAPABILITIES, "database",
             "{\"coreReadTables\":[\"issues\",\"goals\",\"goals\",\"issues\",\"goals\",1,1]}"),
        "database.coreReadTables: Duplicate database coreReadTables: goals, issues");
}

/* --- several at once --- */

/* Rules between fields wait until every field can be read. */
static void unreadable_fields_come_first(void **state)
{
    (void)state;
    static const struct {
        const char *member, *value, *fault;
    } rows[] = {
        {"author", NULL, "author: Required"},
        {"author", "1", "author: Expected string, received number"},
        {"apiVersion", "2", "apiVersion: Invalid literal value, expected 1"},
        {"categories", "[\"x\"]",
         "categories.0: Invalid enum value. Expected " CATEGORIES ", received 'x'"},
        {"capabilities", "[1]", "capabilities.0: Expected string, received number"},
        {"tools", "[1]", "tools.0: Expected object, received number"},
        {"environmentDrivers",
         "[{\"configSchema\":{},\"displayName\":\"N\",\"driverKey\":\"d\","
         "\"kind\":\"x\"}]",
         "environmentDrivers.0.kind: Invalid enum value. Expected " KINDS ", received 'x'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_refused(with("jobs", "[{\"jobKey\":\"a\"},{\"jobKey\":\"a\"}]", "minimumHostVersion",
                            "\"1.0.0\"", "minimumPaperclipVersion", "\"2.0.0\"", rows[i].member,
                            rows[i].value),
                       rows[i].fault);
}

/* A text of a wrong form can be read. */
static void misfits_do_not_hide_the_rest(void **state)
{
    (void)state;
    static const struct {
        const char *member, *value, *fault;
    } rows[] = {
        {"author", "\"\"", "author: " AT_LEAST_ONE},
        {"id", "\"A\"", "id: Plugin id" KEY_SHAPE},
        {"version", "\"1\"", "version: Version must follow semver (e.g. 1.0.0 or 1.0.0-beta.1)"},
        {"categories", "[]", "categories: Array must contain at least 1 element(s)"},
        {"capabilities", "[]", "capabilities: Array must contain at least 1 element(s)"},
        {"instanceConfigSchema", "{\"a\":1}", "instanceConfigSchema: " NO_SCHEMA},
        {"minimumHostVersion", "\"x\"",
         "minimumHostVersion: minimumHostVersion must follow semver (e.g. 1.0.0)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_refused(
            with("jobs", "[{\"jobKey\":\"a\"},{\"jobKey\":\"a\"}]", "minimumHostVersion",
                 "\"1.0.0\"", "minimumPaperclipVersion", "\"2.0.0\"", rows[i].member,
                 rows[i].value),
            berth_arena_printf(&t.arena,
                               "%s; " MUST_MATCH
                               "; capabilities: Capability 'jobs.schedule' is required when "
                               "jobs are declared; jobs: Duplicate job keys: a",
                               rows[i].fault));
}

static void faults_stand_in_the_form_order(void **state)
{
    (void)state;
    /* Not in that of the document. */
    assert_refused(
        "{\"ui\":1,\"version\":\"x\",\"entrypoints\":{\"ui\":\"\"},\"id\":\"X\","
        "\"apiVersion\":\"1\",\"displayName\":\"\",\"description\":null,\"author\":\"A\","
        "\"categories\":[],\"capabilities\":[\"a\"],\"jobs\":{},\"tools\":[3]}",
        "id: Plugin id" KEY_SHAPE "; apiVersion: Invalid literal value, expected 1; "
        "version: Version must follow semver (e.g. 1.0.0 or 1.0.0-beta.1); "
        "displayName: " AT_LEAST_ONE "; description: Expected string, received null; "
        "categories: Array must contain at least 1 element(s); "
        "entrypoints.worker: Required; entrypoints.ui: " AT_LEAST_ONE
        "; jobs: Expected array, received object; "
        "tools.0: Expected object, received number; "
        "ui: Expected object, received number");
}

static void duplicates_stand_behind_capabilities(void **state)
{
    (void)state;
    const char *two = "[{\"id\":\"i\",\"jobKey\":\"k\",\"endpointKey\":\"k\",\"name\":\"n\"},"
                      "{\"id\":\"i\",\"jobKey\":\"k\",\"endpointKey\":\"k\",\"name\":\"n\"}]";
    assert_refused(
        with("capabilities", "[\"database.namespace.read\",\"jobs.schedule\"]", "launchers", two,
             "tools", two, "webhooks", two, "jobs", two, "database",
             "{\"coreReadTables\":[\"a\",\"a\"]}", "ui",
             "{\"slots\":[{\"id\":\"s\"},{\"id\":\"s\"}]}", "minimumHostVersion", "\"1.0.0\"",
             "minimumPaperclipVersion", "\"1.0.1\""),
        "entrypoints.ui: entrypoints.ui is required when ui.slots or ui.launchers are "
        "declared; " MUST_MATCH
        "; capabilities: Capability 'agent.tools.register' is required when tools are declared; "
        "capabilities: Capability 'webhooks.receive' is required when webhooks are declared; "
        "capabilities: Capability 'database.namespace.migrate' is required when database "
        "migrations are declared; "
        "database.coreReadTables: Duplicate database coreReadTables: a; "
        "jobs: Duplicate job keys: k; webhooks: Duplicate webhook endpoint keys: k; "
        "tools: Duplicate tool names: n; ui.slots: Duplicate UI slot ids: s; "
        "launchers: Duplicate launcher ids: i");
}

/* --- sizes --- */

/* Cut, but not within a character. */
static void long_faults_are_cut(void **state)
{
    (void)state;
    for (int shift = 0; shift < 4; shift++) {
        const char *value = berth_arena_printf(&t.arena, "[\"%.*s%s]", shift, "xyz",
                                               long_text("\xf0\x9f\x9a\xa2", 600) + 1);
        assert_int_equal(read_text(with("categories", value)), BERTH_E_INVALID);
        const struct berth_issue *issue = t.issues.list.items[0];
        const char *begin = "Invalid enum value. Expected " CATEGORIES ", received '";
        assert_memory_equal(issue->message, begin, strlen(begin));
        assert_in_range(strlen(issue->message), 1020, 1023);
        assert_true(berth_utf8_valid(issue->message));
        begin = "Invalid plugin manifest: categories.0: Invalid enum value.";
        assert_memory_equal(t.err.message, begin, strlen(begin));
        assert_in_range(strlen(t.err.message), 1020, 1023);
        assert_true(berth_utf8_valid(t.err.message));
    }
}

/* The list has all of them, the error as many as fit. */
static void many_faults_are_cut(void **state)
{
    (void)state;
    auto_json *list = berth_json_new_array();
    for (int i = 0; i < 100; i++)
        assert_true(berth_json_add(list, berth_json_new_int(i)));
    assert_int_equal(read_text(with("capabilities", berth_json_canonical_in(&t.arena, list))),
                     BERTH_E_INVALID);
    assert_int_equal(t.issues.list.count, 100);
    const struct berth_issue *last = t.issues.list.items[99];
    assert_string_equal(last->path, "capabilities.99");
    const char *all =
        berth_arena_printf(&t.arena, "Invalid plugin manifest: %s", joined(&t.issues));
    assert_int_equal(strlen(t.err.message), sizeof t.err.message - 1);
    assert_memory_equal(t.err.message, all, sizeof t.err.message - 1);
}

static void there_is_an_end_of_faults(void **state)
{
    (void)state;
    auto_json *numbers = berth_json_new_array();
    auto_json *texts = berth_json_new_array();
    for (int i = 0; i < 1500; i++) {
        assert_true(berth_json_add(numbers, berth_json_new_int(i)));
        assert_true(berth_json_add(texts, berth_json_new_str("x")));
    }
    const char *json = berth_json_canonical_in(&t.arena, numbers);
    assert_int_equal(read_text(with("capabilities", json)), BERTH_E_INVALID);
    assert_int_equal(t.issues.list.count, 1000);
    json = berth_json_canonical_in(&t.arena, texts);
    assert_ok(&t, read_text(with("capabilities", json)));
    assert_int_equal(t.warnings.list.count, 1000);
    assert_int_equal(t.manifest->capabilities.count, 1500);
}

static void many_duplicates(void **state)
{
    (void)state;
    auto_json *jobs = berth_json_new_array();
    for (int i = 0; i < 20000; i++) {
        auto_json *job =
            parse_json(berth_arena_printf(&t.arena, "{\"jobKey\":\"job-number-%d\"}", i % 10000));
        assert_true(berth_json_add(jobs, berth_json_copy(job)));
    }
    const char *text = with("capabilities", "[\"jobs.schedule\"]", "jobs",
                            berth_json_canonical_in(&t.arena, jobs));
    assert_int_equal(read_text(text), BERTH_E_INVALID);
    assert_int_equal(t.issues.list.count, 1);
    const struct berth_issue *issue = t.issues.list.items[0];
    const char *begin = "Duplicate job keys: job-number-0, job-number-1, job-number-2, ";
    assert_memory_equal(issue->message, begin, strlen(begin));
    assert_in_range(strlen(issue->message), 800, 1000);
}

static void memory_runs_out(void **state)
{
    (void)state;
    auto_json *good = parse_json(LEAST), *bad = parse_json("{}");
    t.arena.failed = true;
    assert_int_equal(read_value(good), BERTH_E_NO_MEMORY);
    assert_null(t.manifest);
    t.arena.failed = true;
    assert_int_equal(read_value(bad), BERTH_E_NO_MEMORY); /* whether it was wrong is unknown */
    auto_arena arena = BERTH_ARENA_INIT, full = {.failed = true};
    struct berth_issues issues = {.arena = &full}, warnings = {.arena = &arena};
    assert_int_equal(berth_manifest_read(&arena, bad, &issues, &warnings, &t.manifest, &t.err),
                     BERTH_E_NO_MEMORY); /* faults may be missing from the list */
}

static int countdown; /* the allocation that fails; 0: none */

static void *failing_malloc(size_t size)
{
    return countdown > 0 && --countdown == 0 ? NULL : malloc(size);
}

/* Each allocation of the JSON library, one after the other. The manifest is one that is refused in
 * the end, so that nothing is written: there the library itself overlooks some. */
static void each_allocation_fails(void **state)
{
    (void)state;
    auto_json *value = parse_json(with("environmentDrivers", "[" LEAST_DRIVER "," LEAST_DRIVER "]",
                                       "ui", "{\"x\":[1,2.5]}", "instanceConfigSchema",
                                       "{\"type\":\"object\",\"default\":[null,true]}"));
    int rc = BERTH_E_NO_MEMORY, fails = 0;
    json_set_alloc_funcs(failing_malloc, free);
    while (rc == BERTH_E_NO_MEMORY && fails < 10000) {
        berth_arena_clear(&t.arena);
        countdown = ++fails;
        rc = read_value(value);
        if (countdown == 0 && rc != BERTH_E_NO_MEMORY)
            break; /* overlooked */
    }
    int left = countdown;
    countdown = 0;
    json_set_alloc_funcs(malloc, free);
    assert_in_range(fails, 30, 9999);
    assert_int_not_equal(left, 0);
    assert_int_equal(rc, BERTH_E_INVALID);
    assert_string_equal(joined(&t.issues),
                        "environmentDrivers: Duplicate environment driver keys: d");
}

/* --- 21: the first-party providers --- */

#define SECRET ",\"format\":\"secret-ref\""
#define DEFAULT(json) ",\"default\":" json

static const struct {
    const char *driver, *name, *type, *rest;
} properties[] = {
    {"daytona", "apiKey", "string", SECRET},
    {"daytona", "apiUrl", "string", ""},
    {"daytona", "target", "string", ""},
    {"daytona", "snapshot", "string", ""},
    {"daytona", "image", "string", ""},
    {"daytona", "language", "string", ""},
    {"daytona", "cpu", "number", ""},
    {"daytona", "memory", "number", ""},
    {"daytona", "disk", "number", ""},
    {"daytona", "gpu", "number", ""},
    {"daytona", "timeoutMs", "number", DEFAULT("300000")},
    {"daytona", "autoStopInterval", "number", ""},
    {"daytona", "autoArchiveInterval", "number", ""},
    {"daytona", "autoDeleteInterval", "number", ""},
    {"daytona", "reuseLease", "boolean", DEFAULT("false")},
    {"e2b", "template", "string", DEFAULT("\"base\"")},
    {"e2b", "apiKey", "string", SECRET},
    {"e2b", "timeoutMs", "number", DEFAULT("300000")},
    {"e2b", "reuseLease", "boolean", DEFAULT("false")},
    {"cloudflare", "bridgeBaseUrl", "string", ",\"format\":\"uri\""},
    {"cloudflare", "bridgeAuthToken", "string", SECRET},
    {"cloudflare", "reuseLease", "boolean", DEFAULT("false")},
    {"cloudflare", "keepAlive", "boolean", DEFAULT("false")},
    {"cloudflare", "sleepAfter", "string", DEFAULT("\"10m\"")},
    {"cloudflare", "normalizeId", "boolean", DEFAULT("true")},
    {"cloudflare", "requestedCwd", "string", DEFAULT("\"/workspace/paperclip\"")},
    {"cloudflare", "sessionStrategy", "string",
     ",\"enum\":[\"named\",\"default\"]" DEFAULT("\"named\"")},
    {"cloudflare", "sessionId", "string", DEFAULT("\"paperclip\"")},
    {"cloudflare", "timeoutMs", "number", DEFAULT("300000")},
    {"cloudflare", "bridgeRequestTimeoutMs", "number", DEFAULT("30000")},
    {"cloudflare", "previewHostname", "string", ""},
    {"fake-plugin", "image", "string", DEFAULT("\"fake:latest\"")},
    {"fake-plugin", "timeoutMs", "number", DEFAULT("300000")},
    {"fake-plugin", "reuseLease", "boolean", DEFAULT("false")},
};

/* In canonical form. */
static const char *provider_schema(const char *driver, const char *required)
{
    const char *all = "";
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++)
        if (strcmp(properties[i].driver, driver) == 0)
            all =
                berth_arena_printf(&t.arena, "%s%s\"%s\":{\"type\":\"%s\"%s}", all, *all ? "," : "",
                                   properties[i].name, properties[i].type, properties[i].rest);
    auto_json *schema = parse_json(berth_arena_printf(
        &t.arena, "{\"type\":\"object\",\"required\":[%s],\"properties\":{%s}}", required, all));
    return berth_json_canonical_in(&t.arena, schema);
}

static void first_party_manifests(void **state)
{
    (void)state;
    static const struct {
        const char *id, *key, *required;
        size_t keys;
    } rows[] = {
        {"paperclip.daytona-sandbox-provider", "daytona", "", 15},
        {"paperclip.e2b-sandbox-provider", "e2b", "", 4},
        {"paperclip.cloudflare-sandbox-provider", "cloudflare",
         "\"bridgeBaseUrl\",\"bridgeAuthToken\"", 12},
        {"paperclip.fake-sandbox-provider", "fake-plugin", "", 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *schema = provider_schema(rows[i].key, rows[i].required);
        const char *text = berth_arena_printf(
            &t.arena,
            "{\"id\":\"%s\",\"apiVersion\":1,\"version\":\"0.1.0\",\"displayName\":\"A provider\","
            "\"description\":\"Sandboxes.\",\"author\":\"Paperclip\","
            "\"categories\":[\"automation\"],"
            "\"capabilities\":[\"environment.drivers.register\"],"
            "\"entrypoints\":{\"worker\":\"./dist/worker.js\"},\"environmentDrivers\":[{"
            "\"driverKey\":\"%s\",\"kind\":\"sandbox_provider\",\"displayName\":\"A sandbox\","
            "\"description\":\"Where it runs.\",\"configSchema\":%s}]}",
            rows[i].id, rows[i].key, schema);
        auto_json *value = parse_json(text);
        assert_accepted(text, "", berth_json_canonical_in(&t.arena, value));
        assert_string_equal(t.manifest->id, rows[i].id);
        assert_string_equal(t.manifest->version, "0.1.0");
        assert_string_equal(t.manifest->worker, "./dist/worker.js");
        assert_int_equal(t.manifest->drivers.count, 1);
        const struct berth_manifest_driver *d = t.manifest->drivers.items[0];
        assert_string_equal(d->key, rows[i].key);
        assert_string_equal(d->kind, "sandbox_provider");
        assert_string_equal(d->schema_json, schema);
        auto_json *read = parse_json(d->schema_json);
        assert_int_equal(berth_json_count(berth_json_get(read, "properties")), rows[i].keys);
    }
}

/* --- the order of versions --- */

static int sign(int order)
{
    return (order > 0) - (order < 0);
}

static void versions_have_an_order(void **state)
{
    (void)state;
    static const char *const rising[] = {"0.0.0",
                                         "0.0.1",
                                         "0.0.9",
                                         "0.0.10",
                                         "0.1.0",
                                         "0.9.99",
                                         "1.0.0-0",
                                         "1.0.0-0.0",
                                         "1.0.0-2",
                                         "1.0.0-10",
                                         "1.0.0-99999999999999999999",
                                         "1.0.0-100000000000000000000",
                                         "1.0.0--",
                                         "1.0.0-1a",
                                         "1.0.0-A",
                                         "1.0.0-a",
                                         "1.0.0-alpha",
                                         "1.0.0-alpha.1",
                                         "1.0.0-alpha.beta",
                                         "1.0.0-alpha-1",
                                         "1.0.0-beta",
                                         "1.0.0-beta.2",
                                         "1.0.0-beta.11",
                                         "1.0.0-rc.1",
                                         "1.0.0",
                                         "1.0.1-a",
                                         "1.0.1",
                                         "1.2.0",
                                         "1.10.0",
                                         "2.0.0-0",
                                         "2.0.0",
                                         "10.0.0",
                                         "18446744073709551616.0.0"};
    int count = (int)(sizeof rising / sizeof *rising);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++)
            if (sign(berth_semver_compare(rising[i], rising[k])) != sign(i - k))
                fail_msg("%s and %s", rising[i], rising[k]);
}

static void some_versions_are_equal(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"1.0.0", "1.0.0+x"},     {"1.0.0+a", "1.0.0+b.c-d"},     {"01.2.3", "1.02.003"},
        {"1.0.0-a+x", "1.0.0-a"}, {"1.0.0-a.b+1", "1.0.0-a.b+2"}, {"1.0.0-01", "1.0.0-1"},
        {"1.0.0+a-b", "1.0.0"},   {"0.0.0", "000.00.0"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        assert_int_equal(berth_semver_compare(pairs[i][0], pairs[i][1]), 0);
        assert_int_equal(berth_semver_compare(pairs[i][1], pairs[i][0]), 0);
    }
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(least_is_accepted),
        TEST(not_an_object),
        TEST(all_that_is_missing),
        TEST(each_that_is_missing),
        TEST(each_of_another_type),
        TEST(id),
        TEST(api_version),
        TEST(version),
        TEST(minimum_versions),
        TEST(lengths),
        TEST(category_list),
        TEST(entry_points),
        TEST(instance_schema),
        TEST(known_capabilities),
        TEST(unknown_capabilities_are_kept),
        TEST(bad_capabilities),
        TEST(least_driver),
        TEST(full_drivers),
        TEST(driver_members),
        TEST(driver_key),
        TEST(driver_texts),
        TEST(driver_schema),
        TEST(later_keys_are_kept),
        TEST(later_keys_of_another_type),
        TEST(later_lists_have_limits),
        TEST(sandbox_capabilities_one_by_one),
        TEST(warnings_beside_faults),
        TEST(other_lists_are_of_objects),
        TEST(other_contents_are_kept),
        TEST(unknown_keys_are_dropped),
        TEST(schemas_keep_all_keys),
        TEST(ui_needs_its_entry),
        TEST(minimum_versions_match),
        TEST(features_need_capabilities),
        TEST(database_needs_two),
        TEST(all_capabilities_missing),
        TEST(duplicate_keys),
        TEST(duplicate_drivers),
        TEST(duplicate_routes),
        TEST(duplicates_in_ui),
        TEST(duplicate_tables),
        TEST(unreadable_fields_come_first),
        TEST(misfits_do_not_hide_the_rest),
        TEST(faults_stand_in_the_form_order),
        TEST(duplicates_stand_behind_capabilities),
        TEST(long_faults_are_cut),
        TEST(many_faults_are_cut),
        TEST(there_is_an_end_of_faults),
        TEST(many_duplicates),
        TEST(memory_runs_out),
        TEST(each_allocation_fails),
        TEST(first_party_manifests),
        TEST(versions_have_an_order),
        TEST(some_versions_are_equal),
    };
    return cmocka_run_group_tests_name("manifest", tests, NULL, NULL);
}
