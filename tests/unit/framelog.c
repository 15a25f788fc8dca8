/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/framelog.c - what was written is read, from any moment on; what was cut is said to be.
 */
#include "os/framelog.h"

#include "fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"

struct ground {
    char directory[64], path[96];
    struct berth_framelog *log;
    struct berth_error err;
};

static int set_up(void **state)
{
    struct ground *g = calloc(1, sizeof *g);
    (void)snprintf(g->directory, sizeof g->directory, "/tmp/berth-framelog.XXXXXX");
    if (!g || !mkdtemp(g->directory))
        return -1;
    (void)snprintf(g->path, sizeof g->path, "%s/log", g->directory);
    *state = g;
    return 0;
}

static int tear_down(void **state)
{
    struct ground *g = *state;
    berth_framelog_close(g->log);
    (void)unlink(g->path);
    (void)rmdir(g->directory);
    free(g);
    return 0;
}

static void create(struct ground *g, uint64_t limit)
{
    assert_ok(g, berth_framelog_create(g->path, limit, &g->log, &g->err));
}

static void write_text(struct ground *g, enum berth_frame_kind stream, const char *text)
{
    assert_ok(g, berth_framelog_write(g->log, stream, text, strlen(text), 1000, &g->err));
}

/* All frames as text: "0@0 hello|1@0 oops|". */
static const char *all_frames(struct ground *g, struct berth_buf *buf)
{
    struct berth_framereader *reader;
    assert_ok(g, berth_framereader_open(g->path, &reader, &g->err));
    struct berth_frame f;
    bool more = true;
    while (berth_framereader_next(reader, &f, &more, &g->err) == BERTH_OK && more)
        berth_buf_printf(buf, "%d@%llu %.*s|", (int)f.kind, (unsigned long long)f.offset,
                         (int)f.len, f.bytes);
    berth_framereader_close(reader);
    return berth_buf_str(buf);
}

static void what_is_written_is_read(void **state)
{
    struct ground *g = *state;
    create(g, 1000);
    write_text(g, BERTH_FRAME_STDOUT, "hello");
    write_text(g, BERTH_FRAME_STDERR, "oops");
    write_text(g, BERTH_FRAME_STDOUT, ", world");
    assert_ok(g, berth_framelog_end(g->log, "{}", 2000, &g->err));
    auto_buf buf = BERTH_BUF_INIT(4096);
    assert_string_equal(all_frames(g, &buf), "0@0 hello|1@0 oops|0@5 , world|3@0 {}|");
    struct stat st;
    assert_int_equal(stat(g->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    struct berth_framelog *second;
    assert_int_equal(berth_framelog_create(g->path, 1, &second, &g->err), BERTH_E_CONFLICT);
}

static void any_byte_is_kept(void **state)
{
    struct ground *g = *state;
    static char in[3 * BERTH_FRAME_BYTES_MAX + 17];
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (char)(i * 31 + i / 251);
    create(g, UINT64_MAX);
    assert_ok(g, berth_framelog_write(g->log, BERTH_FRAME_STDOUT, in, sizeof in, 7, &g->err));
    struct berth_framereader *reader;
    assert_ok(g, berth_framereader_open(g->path, &reader, &g->err));
    struct berth_frame f;
    bool more = true;
    size_t seen = 0;
    while (berth_framereader_next(reader, &f, &more, &g->err) == BERTH_OK && more) {
        assert_int_equal(f.offset, seen);
        assert_int_equal(f.at_ms, 7);
        assert_memory_equal(f.bytes, in + seen, f.len);
        seen += f.len;
    }
    assert_int_equal(seen, sizeof in);
    berth_framereader_close(reader);
}

static void head_is_kept_and_the_cut_is_said(void **state)
{
    struct ground *g = *state;
    create(g, 6);
    write_text(g, BERTH_FRAME_STDOUT, "abcd");
    write_text(g, BERTH_FRAME_STDOUT, "efgh");
    write_text(g, BERTH_FRAME_STDOUT, "ijkl");
    write_text(g, BERTH_FRAME_STDERR, "123456"); /* just fits */
    assert_true(berth_framelog_was_cut(g->log, BERTH_FRAME_STDOUT));
    assert_false(berth_framelog_was_cut(g->log, BERTH_FRAME_STDERR));
    auto_buf buf = BERTH_BUF_INIT(4096);
    assert_string_equal(all_frames(g, &buf), "0@0 abcd|0@4 ef|2@6 0|1@0 123456|");
}

static void reader_follows_the_writer(void **state)
{
    struct ground *g = *state;
    create(g, 1000);
    struct berth_framereader *reader;
    struct berth_frame f;
    bool more;
    assert_ok(g, berth_framereader_open(g->path, &reader, &g->err));
    assert_ok(g, berth_framereader_next(reader, &f, &more, &g->err));
    assert_false(more);
    write_text(g, BERTH_FRAME_STDOUT, "one");
    assert_ok(g, berth_framereader_next(reader, &f, &more, &g->err));
    assert_true(more);
    assert_ok(g, berth_framereader_next(reader, &f, &more, &g->err));
    assert_false(more);
    write_text(g, BERTH_FRAME_STDOUT, "two");
    assert_ok(g, berth_framereader_next(reader, &f, &more, &g->err));
    assert_true(more);
    assert_memory_equal(f.bytes, "two", 3);
    berth_framereader_close(reader);
}

/* As a crash may leave it: cut anywhere, the whole frames are read and no error is made up. */
static void torn_end_is_no_frame(void **state)
{
    struct ground *g = *state;
    create(g, 1000);
    write_text(g, BERTH_FRAME_STDOUT, "first");
    write_text(g, BERTH_FRAME_STDOUT, "second");
    struct stat st;
    assert_int_equal(stat(g->path, &st), 0);
    for (off_t len = st.st_size - 1; len >= 12 + 24 + 5; len--) {
        assert_int_equal(truncate(g->path, len), 0);
        auto_buf buf = BERTH_BUF_INIT(4096);
        assert_string_equal(all_frames(g, &buf), "0@0 first|");
    }
}

static void damage_is_told(void **state)
{
    struct ground *g = *state;
    struct berth_framereader *reader;
    struct berth_frame f;
    bool more;
    create(g, 1000);
    write_text(g, BERTH_FRAME_STDOUT, "first");
    static const struct {
        off_t at;
        unsigned char byte;
    } faults[] = {{12, 9}, {13, 1}, {19, 0xff}}; /* kind, zero, length */
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        auto_close int fd = open(g->path, O_RDWR | O_CLOEXEC);
        unsigned char before;
        assert_int_equal(pread(fd, &before, 1, faults[i].at), 1);
        assert_int_equal(pwrite(fd, &faults[i].byte, 1, faults[i].at), 1);
        assert_ok(g, berth_framereader_open(g->path, &reader, &g->err));
        assert_int_equal(berth_framereader_next(reader, &f, &more, &g->err), BERTH_E_INVALID);
        assert_false(more);
        berth_framereader_close(reader);
        assert_int_equal(pwrite(fd, &before, 1, faults[i].at), 1);
    }
    assert_int_equal(truncate(g->path, 3), 0);
    assert_int_equal(berth_framereader_open(g->path, &reader, &g->err), BERTH_E_INVALID);
    assert_int_equal(truncate(g->path, 0), 0);
    assert_int_equal(berth_framereader_open(g->path, &reader, &g->err), BERTH_E_NOT_FOUND);
    assert_int_equal(berth_framereader_open("/nowhere", &reader, &g->err), BERTH_E_NOT_FOUND);
}

/* One header and bytes behind the last frame, as no writer of ours puts them. */
static void append_raw(struct ground *g, const unsigned char *header, const char *bytes, size_t len)
{
    auto_close int fd = open(g->path, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(write(fd, header, 24), 24);
    assert_int_equal(write(fd, bytes, len), (ssize_t)len);
}

/* Frames that we never write, and that a reader must refuse. */
static void odd_frames_are_damage(void **state)
{
    struct ground *g = *state;
    static const struct {
        unsigned char header[24];
        const char *bytes;
    } faults[] = {
        {{BERTH_FRAME_STDOUT}, ""},                        /* a hole of zeros */
        {{BERTH_FRAME_END}, ""},                           /* no result */
        {{BERTH_FRAME_CUT}, ""},                           /* of no stream */
        {{BERTH_FRAME_CUT, [4] = 2}, "01"},                /* of two */
        {{BERTH_FRAME_CUT, [4] = 1}, "2"},                 /* of a third */
        {{BERTH_FRAME_STDOUT, [4] = 1, [15] = 0x80}, "x"}, /* offset 2^63 */
        {{BERTH_FRAME_STDOUT, [4] = 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 127}, "x"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct berth_framereader *reader;
        struct berth_frame f;
        bool more;
        create(g, 1000);
        write_text(g, BERTH_FRAME_STDOUT, "first");
        append_raw(g, faults[i].header, faults[i].bytes, strlen(faults[i].bytes));
        assert_ok(g, berth_framereader_open(g->path, &reader, &g->err));
        assert_ok(g, berth_framereader_next(reader, &f, &more, &g->err));
        assert_true(more);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(berth_framereader_next(reader, &f, &more, &g->err), BERTH_E_INVALID);
            assert_false(more);
        }
        berth_framereader_close(reader);
        berth_framelog_close(g->log);
        g->log = NULL;
        assert_int_equal(unlink(g->path), 0);
    }
}

/* What cannot be read as an end is not written as one. */
static void end_is_one_frame(void **state)
{
    struct ground *g = *state;
    auto_free char *result = malloc(BERTH_FRAME_BYTES_MAX + 2);
    assert_non_null(result);
    memset(result, ' ', BERTH_FRAME_BYTES_MAX + 1);
    result[BERTH_FRAME_BYTES_MAX + 1] = '\0';
    create(g, 1000);
    assert_int_equal(berth_framelog_end(g->log, result, 1, &g->err), BERTH_E_INVALID);
    assert_int_equal(berth_framelog_end(g->log, "", 1, &g->err), BERTH_E_INVALID);
    assert_ok(g, berth_framelog_end(g->log, result + 1, 1, &g->err));
    auto_buf buf = BERTH_BUF_INIT(2 * BERTH_FRAME_BYTES_MAX);
    assert_int_equal(strlen(all_frames(g, &buf)), strlen("3@0 |") + BERTH_FRAME_BYTES_MAX);
}

/* A log that could not be begun is not in the way of the next. */
static void no_room_no_log(void **state)
{
    struct ground *g = *state;
    struct rlimit before, small;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    for (rlim_t room = 0; room < 12; room += 5) {
        small = before;
        small.rlim_cur = room;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        int rc = berth_framelog_create(g->path, 1000, &g->log, &g->err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(rc, BERTH_E_UNAVAILABLE);
    }
    create(g, 1000);
}

/* A full disk, here by the limit on a file's size: what fits stays whole, the rest is counted. */
static void full_disk_cuts(void **state)
{
    struct ground *g = *state;
    struct rlimit before, small;
    (void)signal(SIGXFSZ, SIG_IGN);
    create(g, 1000000);
    write_text(g, BERTH_FRAME_STDOUT, "fits");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 60;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int rc =
        berth_framelog_write(g->log, BERTH_FRAME_STDOUT, "does not fit any more", 21, 1, &g->err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rc, BERTH_E_UNAVAILABLE);
    assert_true(berth_framelog_was_cut(g->log, BERTH_FRAME_STDOUT));
    write_text(g, BERTH_FRAME_STDOUT, "nor this");
    write_text(g, BERTH_FRAME_STDERR, "room again");
    auto_buf buf = BERTH_BUF_INIT(4096);
    assert_string_equal(all_frames(g, &buf), "0@0 fits|1@0 room again|");
}

#define ON_GROUND(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_GROUND(what_is_written_is_read),
        ON_GROUND(any_byte_is_kept),
        ON_GROUND(head_is_kept_and_the_cut_is_said),
        ON_GROUND(reader_follows_the_writer),
        ON_GROUND(torn_end_is_no_frame),
        ON_GROUND(damage_is_told),
        ON_GROUND(odd_frames_are_damage),
        ON_GROUND(end_is_one_frame),
        ON_GROUND(no_room_no_log),
        ON_GROUND(full_disk_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
