/* SPDX-License-Identifier: Apache-2.0
 * tests/fuzz/place_list.c - the list that a place prints of its files. What is accepted is a tree
 * that is possible, and each entry has all that was asked for. The first byte chooses what is
 * asked for. */
#include <string.h>

#include "core/workspace/place_list.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_tree_manifest found = {0};
    auto_buf text = BERTH_BUF_INIT(64 * 1024 * 1024);
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_error err = {0};
    if (!size)
        return 0;
    bool hashed = data[0] & 1;
    berth_buf_append(&text, data + 1, size - 1);
    (void)berth_place_list_lacks(&arena, &text);
    if (berth_place_list_parse(&text, NULL, hashed, data[0] & 2, &found, &err) < 0) {
        CHECK(err.message[0]);
        return 0;
    }
    for (size_t i = 0; i < found.count; i++) {
        const struct berth_entry *e = &found.entries[i];
        CHECK(berth_path_valid(e->path) && e->mode <= 0777 && e->size >= 0);
        CHECK((e->target != NULL) == (e->kind == BERTH_ENTRY_LINK));
        CHECK(e->kind != BERTH_ENTRY_FILE || e->hashed == hashed);
        CHECK(i == 0 || berth_path_compare(found.entries[i - 1].path, e->path) < 0);
    }
    return 0;
}
