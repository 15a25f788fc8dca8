/* SPDX-License-Identifier: Apache-2.0
 * tests/fuzz/tree_record.c - manifests of trees and journals of merges from strangers. What is
 * accepted is possible, and is the same after it was written and read again. The sum at the end of
 * a record keeps most inputs out, so entries are also read alone. */
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "fuzz.h"
#include "sync/apply_steps.h"
#include "sync/record.h"

static void check_entry(const struct berth_entry *e)
{
    CHECK(berth_path_valid(e->path));
    CHECK(e->kind >= BERTH_ENTRY_DIRECTORY && e->kind <= BERTH_ENTRY_LINK);
    CHECK(e->mode <= 0777 && e->size >= 0);
    CHECK((e->target != NULL) == (e->kind == BERTH_ENTRY_LINK));
    CHECK(e->kind == BERTH_ENTRY_FILE || (!e->hashed && e->size == 0));
}

static void check_manifest(const char *text, size_t size)
{
    auto_tree_manifest first = {0}, second = {0};
    auto_buf written = BERTH_BUF_INIT(64 * 1024 * 1024);
    struct berth_error err;
    if (berth_tree_manifest_parse(text, size, &first, &err) < 0) {
        CHECK(err.message[0] && first.count == 0);
        return;
    }
    for (size_t i = 0; i < first.count; i++) {
        check_entry(&first.entries[i]);
        CHECK(i == 0 || berth_path_compare(first.entries[i - 1].path, first.entries[i].path) < 0);
    }
    berth_tree_manifest_write(&first, &written);
    CHECK(berth_tree_manifest_parse(berth_buf_str(&written), written.len, &second, &err) == 0);
    CHECK(second.count == first.count);
    for (size_t i = 0; i < first.count; i++)
        CHECK(strcmp(first.entries[i].path, second.entries[i].path) == 0 &&
              berth_entry_same(&first.entries[i], &second.entries[i]));
}

static void check_journal(const char *text, size_t size)
{
    auto_steps first = {0}, second = {0};
    auto_buf written = BERTH_BUF_INIT(64 * 1024 * 1024);
    struct berth_error err;
    if (berth_steps_parse(text, size, &first, &err) < 0) {
        CHECK(err.message[0] && first.count == 0);
        return;
    }
    for (size_t i = 0; i < first.count; i++)
        CHECK(berth_path_valid(first.items[i].path) && first.items[i].mode <= 0777);
    berth_steps_write(&first, &written);
    CHECK(berth_steps_parse(berth_buf_str(&written), written.len, &second, &err) == 0);
    CHECK(second.count == first.count && strcmp(first.label, second.label) == 0);
}

static void check_entries(const char *text, size_t size)
{
    struct berth_record r = {text, text + size};
    struct berth_entry e, again;
    while (r.at < r.end && berth_record_entry(&r, &e)) {
        auto_buf written = BERTH_BUF_INIT(1024 * 1024);
        check_entry(&e);
        berth_record_put_entry(&written, &e);
        struct berth_record copy = {written.data, written.data + written.len};
        CHECK(berth_record_entry(&copy, &again) && copy.at == copy.end);
        CHECK(strcmp(e.path, again.path) == 0 && berth_entry_same(&e, &again));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1); /* a NUL follows the bytes, as their readers ask for */
    CHECK(text);
    memcpy(text, data, size);
    text[size] = '\0';
    check_manifest(text, size);
    check_journal(text, size);
    check_entries(text, size);
    free(text);
    return 0;
}
