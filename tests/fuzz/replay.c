/* SPDX-License-Identifier: Apache-2.0
 * tests/fuzz/replay.c - a target's main without libFuzzer: replays directories of inputs as a test.
 */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "os/fs.h"

/* How many files were replayed, or -1 with a comment line. */
static int replay(const char *directory)
{
    struct berth_error err;
    DIR *dir = opendir(directory);
    if (!dir) {
        (void)printf("# cannot open %s\n", directory);
        return -1;
    }
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir)) && count >= 0;) {
        if (entry->d_name[0] == '.')
            continue;
        auto_close int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);
        auto_buf buf = BERTH_BUF_INIT(2 * BERTH_JSON_BYTES_MAX);
        (void)fprintf(stderr, "# %s\n", entry->d_name); /* the last one named is the crasher */
        if (fd < 0 || berth_fs_read_all(fd, &buf, &err) < 0) {
            (void)printf("# cannot read %s/%s\n", directory, entry->d_name);
            count = -1;
            break;
        }
        (void)LLVMFuzzerTestOneInput((const uint8_t *)berth_buf_str(&buf), buf.len);
        count++;
    }
    (void)closedir(dir);
    return count;
}

int main(int argc, char **argv)
{
    int total = 0;
    bool fine = argc > 1;
    for (int i = 1; i < argc; i++) {
        int count = replay(argv[i]);
        fine = fine && count > 0; /* an empty directory is a mistake in the path */
        total += count > 0 ? count : 0;
    }
    (void)printf("1..1\n%sok 1 - replayed %d inputs\n", fine ? "" : "not ", total);
    return fine ? EXIT_SUCCESS : EXIT_FAILURE;
}
