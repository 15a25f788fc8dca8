/* SPDX-License-Identifier: Apache-2.0
 * tests/fuzz/framelog.c - a log of foreign bytes: every frame that is read stands in the file as it
 * was told, what is no frame is refused or waited for, and a reader who follows a growing file sees
 * what one sees who comes later. */
#include "os/framelog.h"

#include <endian.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "fuzz.h"

#define MAGIC_LEN 12
#define HEADER_LEN 24

/* The bytes, and how far a reader got in them. */
struct walk {
    const uint8_t *data;
    size_t size; /* as much of it as is in the file */
    size_t at;
    size_t frames;
    struct berth_framereader *reader;
};

static char path[64];
static int file = -1;

static void remove_file(void)
{
    (void)unlink(path);
}

/* One file for all runs, in memory if there is such a place. */
static void make_file(void)
{
    const char *directory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(path, sizeof path, "%s/berth-fuzz-framelog.XXXXXX", directory);
    file = mkstemp(path);
    CHECK(file >= 0);
    CHECK(atexit(remove_file) == 0);
}

static void extend_file(const uint8_t *data, size_t from, size_t to)
{
    CHECK(pwrite(file, data + from, to - from, (off_t)from) == (ssize_t)(to - from));
}

static uint64_t number_at(const struct walk *w, size_t offset, size_t len)
{
    uint64_t number = 0;
    memcpy(&number, w->data + w->at + offset, len);
    return le64toh(number);
}

static void check_frame(struct walk *w, const struct berth_frame *f)
{
    CHECK(w->size - w->at >= HEADER_LEN);
    CHECK(w->data[w->at] == f->kind && f->kind < BERTH_FRAME_KINDS);
    CHECK(f->len > 0 && f->len <= BERTH_FRAME_BYTES_MAX && f->len == number_at(w, 4, 4));
    CHECK(f->len <= w->size - w->at - HEADER_LEN);
    CHECK(f->offset == number_at(w, 8, 8) && f->offset <= INT64_MAX - f->len);
    CHECK((uint64_t)f->at_ms == number_at(w, 16, 8));
    CHECK(memcmp(f->bytes, w->data + w->at + HEADER_LEN, f->len) == 0);
    if (f->kind == BERTH_FRAME_CUT)
        CHECK(f->len == 1 && (f->bytes[0] == '0' || f->bytes[0] == '1'));
    w->at += HEADER_LEN + f->len;
    w->frames++;
}

/* Nothing more may be said only while the next frame is not all there. */
static void check_wait(const struct walk *w)
{
    size_t left = w->size - w->at;
    CHECK(left < HEADER_LEN || left - HEADER_LEN < number_at(w, 4, 4));
}

/* All frames there are. OK, or INVALID where they end. */
static int drain(struct walk *w)
{
    struct berth_error err;
    struct berth_frame f;
    bool more = true;
    int rc;
    while ((rc = berth_framereader_next(w->reader, &f, &more, &err)) == BERTH_OK && more)
        check_frame(w, &f);
    CHECK(!more);
    if (rc == BERTH_OK)
        check_wait(w);
    else
        CHECK(rc == BERTH_E_INVALID && err.code == rc && err.message[0]);
    CHECK(berth_framereader_next(w->reader, &f, &more, &err) == rc && !more); /* it stays so */
    return rc;
}

/* False when the file is refused. */
static bool open_reader(struct walk *w)
{
    struct berth_error err;
    int rc = berth_framereader_open(path, &w->reader, &err);
    CHECK(rc == BERTH_OK || err.message[0]);
    CHECK(rc == BERTH_OK || rc == (w->size ? BERTH_E_INVALID : BERTH_E_NOT_FOUND));
    CHECK((rc == BERTH_OK) ==
          (w->size >= MAGIC_LEN && memcmp(w->data, "berth-log-1\n", MAGIC_LEN) == 0));
    w->at = MAGIC_LEN;
    return rc == BERTH_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (file < 0)
        make_file();
    size_t part = size ? size * data[size - 1] / 256 : 0; /* what is there at first */
    struct walk early = {.data = data, .size = part}, late = {.data = data, .size = size};
    CHECK(ftruncate(file, 0) == 0);
    extend_file(data, 0, part);
    bool follows = open_reader(&early);
    int rc = follows ? drain(&early) : BERTH_OK;
    extend_file(data, part, size);
    if (open_reader(&late)) {
        int late_rc = drain(&late);
        early.size = size;
        if (follows && rc == BERTH_OK)
            rc = drain(&early);
        CHECK(!follows || (rc == late_rc && early.at == late.at && early.frames == late.frames));
        berth_framereader_close(late.reader);
    }
    if (follows)
        berth_framereader_close(early.reader);
    return 0;
}
