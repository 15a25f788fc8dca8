/* SPDX-License-Identifier: Apache-2.0
 * tests/fuzz/json.c - whatever the reader accepts has one canonical text, which reads back as the
 * same value. With -DBERTH_FUZZ_REPLAY a program that replays directories of inputs as a test. */
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* The value, or NULL when it is refused in the way the contract names. */
static struct berth_json *parse(const char *text, size_t len, enum berth_json_mode mode)
{
    struct berth_json *value = NULL;
    struct berth_error err;
    int rc = berth_json_parse(text, len, mode, &value, &err);
    if (rc == BERTH_OK) {
        CHECK(value);
        return value;
    }
    CHECK(!value);
    CHECK(rc == err.code && err.message[0]);
    CHECK(rc == BERTH_E_INVALID || rc == BERTH_E_TOO_LARGE || rc == BERTH_E_NO_MEMORY);
    return NULL;
}

static void check_round_trip(const struct berth_json *value, enum berth_json_mode mode)
{
    auto_free char *text = berth_json_canonical(value);
    CHECK(text);
    auto_json *again = parse(text, strlen(text), mode);
    CHECK(again);
    CHECK(berth_json_equal(value, again));
    auto_free char *same = berth_json_canonical(again);
    CHECK(same && strcmp(text, same) == 0);
    auto_json *copy = berth_json_copy(value);
    CHECK(copy && berth_json_equal(value, copy));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_free char *text = malloc(size ? size : 1); /* no NUL behind it: reading on would be seen */
    CHECK(text);
    if (size)
        memcpy(text, data, size);
    auto_json *ours = parse(text, size, BERTH_JSON_OURS);
    auto_json *foreign = parse(text, size, BERTH_JSON_FOREIGN);
    if (ours) {
        CHECK(foreign && berth_json_equal(ours, foreign)); /* the second mode only takes more */
        check_round_trip(ours, BERTH_JSON_OURS);
    }
    if (foreign)
        check_round_trip(foreign, BERTH_JSON_FOREIGN);
    return 0;
}

#ifdef BERTH_FUZZ_REPLAY
#include <dirent.h>
#include <fcntl.h>

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
#endif
