/* SPDX-License-Identifier: Apache-2.0
 * tests/fuzz/manifest.c - whatever is accepted as a manifest has a normalised text, which is
 * accepted, too, and is its own. What is refused says why. */
#include "core/plugin/manifest.h"

#include <string.h>

#include "base/arena.h"
#include "base/utf8.h"
#include "fuzz.h"

static void check_issues(const struct berth_issues *issues)
{
    for (int i = 0; i < issues->list.count; i++) {
        const struct berth_issue *issue = issues->list.items[i];
        CHECK(issue->path && issue->message[0] && berth_utf8_valid(issue->message));
    }
}

/* The manifest, or NULL when it is refused in the way the contract names. */
static struct berth_manifest *read_manifest(struct berth_arena *arena,
                                            const struct berth_json *value)
{
    struct berth_issues issues = {.arena = arena}, warnings = {.arena = arena};
    struct berth_manifest *m = NULL;
    struct berth_error err;
    int rc = berth_manifest_read(arena, value, &issues, &warnings, &m, &err);
    check_issues(&issues);
    check_issues(&warnings);
    CHECK((rc == BERTH_OK) == (issues.list.count == 0) && (rc == BERTH_OK) == (m != NULL));
    if (rc != BERTH_OK)
        CHECK(rc == BERTH_E_INVALID && err.code == rc && berth_utf8_valid(err.message) &&
              strncmp(err.message, "Invalid plugin manifest: ", 25) == 0 && err.message[25]);
    return m;
}

static void check_fields(const struct berth_manifest *m)
{
    CHECK(m->id[0] && m->display_name[0] && m->description[0] && m->author[0] && m->worker[0]);
    CHECK(m->capabilities.count > 0);
    CHECK(berth_semver_compare(m->version, m->version) == 0);
    if (m->minimum_host_version) {
        int order = berth_semver_compare(m->version, m->minimum_host_version);
        int other = berth_semver_compare(m->minimum_host_version, m->version);
        CHECK((order < 0) == (other > 0) && (order > 0) == (other < 0));
    }
    for (int i = 0; i < m->drivers.count; i++) {
        const struct berth_manifest_driver *d = m->drivers.items[i];
        CHECK(d->key[0] && d->display_name[0] && d->schema_json[0] == '{');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_arena arena = BERTH_ARENA_INIT;
    auto_json *value = NULL, *again = NULL;
    struct berth_error err;
    if (berth_json_parse((const char *)data, size, BERTH_JSON_OURS, &value, &err) < 0)
        return 0;
    struct berth_manifest *m = read_manifest(&arena, value);
    if (!m)
        return 0;
    check_fields(m);
    CHECK(berth_json_parse(m->json, strlen(m->json), BERTH_JSON_OURS, &again, &err) == BERTH_OK);
    struct berth_manifest *same = read_manifest(&arena, again);
    CHECK(same && strcmp(same->json, m->json) == 0);
    CHECK(same->drivers.count == m->drivers.count);
    CHECK(same->capabilities.count == m->capabilities.count);
    return 0;
}
