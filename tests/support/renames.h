/* SPDX-License-Identifier: Apache-2.0
 * tests/support/renames.h - calls a function of a test before each rename and hard link of the
 * process, as another process could act in that moment. */
#ifndef BERTH_TEST_RENAMES_H
#define BERTH_TEST_RENAMES_H

#include <stdbool.h>

struct renaming {
    int from_fd, to_fd;
    const char *from, *to;
    unsigned flags; /* of renameat2 */
    bool is_link;
};

/* Returns 0 to let the call happen, or the errno that it fails with. Renames and links of the
 * function itself would end the process. */
typedef int renaming_fn(void *ctx, const struct renaming *call);

/* Watches the thread that calls it, and those that it makes, until the process ends; a second call
 * only changes the function. Returns false where the machine cannot do that. */
bool renames_watch(renaming_fn *fn, void *ctx);
#endif
