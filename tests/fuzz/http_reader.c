/* SPDX-License-Identifier: Apache-2.0
 * tests/fuzz/http_reader.c - a connection's bytes, cut anywhere, with bodies that are taken in
 * parts: what is read does not depend on that, what is handed on keeps every promise of reader.h,
 * and nothing is read after a refusal.
 */
#include "http/reader.h"

#include <string.h>

#include "base/auto.h"
#include "fuzz.h"

#define STREAM_BYTES_MAX (256 * 1024)
#define BODY_BYTES_MAX 300

/* The input: a byte for the number of cuts, that many lengths of pieces (used over and over), and
 * the stream. */
struct input {
    const uint8_t *pieces, *stream;
    size_t piece_count, len;
};

static bool read_input(const uint8_t *data, size_t size, struct input *in)
{
    if (size < 1 || size > STREAM_BYTES_MAX)
        return false;
    size_t cuts = data[0] % 8;
    if (size < 1 + cuts)
        return false;
    *in = (struct input){
        .pieces = data + 1, .stream = data + 1 + cuts, .piece_count = cuts, .len = size - 1 - cuts};
    return true;
}

static bool is_plain(const char *text)
{
    for (; *text; text++)
        if (*text != '\t' && (*text < 0x20 || *text > 0x7e))
            return false;
    return true;
}

static void check_head(const struct berth_http_head *h)
{
    CHECK(h->path[0] == '/' && is_plain(h->path) && !strpbrk(h->path, " \t?#\\"));
    CHECK(!strstr(h->path, "//") && !strstr(h->path, "/../") && !strstr(h->path, "/./"));
    CHECK(!h->query || (is_plain(h->query) && !strpbrk(h->query, " \t#")));
    CHECK(h->header_count >= 0 && h->header_count <= BERTH_HTTP_HEADERS_MAX);
    int hosts = 0, lengths = 0, codings = 0;
    for (int i = 0; i < h->header_count; i++) {
        const struct berth_http_header *header = &h->headers[i];
        CHECK(header->name[0] && is_plain(header->name) && is_plain(header->value));
        CHECK(!strpbrk(header->name, " \t:ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
        size_t len = strlen(header->value);
        CHECK(!len || (!strchr(" \t", header->value[0]) && !strchr(" \t", header->value[len - 1])));
        hosts += strcmp(header->name, "host") == 0;
        lengths += strcmp(header->name, "content-length") == 0;
        codings += strcmp(header->name, "transfer-encoding") == 0;
    }
    CHECK(hosts <= 1 && lengths + codings <= 1 && (hosts == 1) == (h->host != NULL));
    CHECK(codings == (h->body_bytes < 0) && (lengths || h->body_bytes <= 0));
    CHECK(h->host || !h->keep_alive);
}

/* What was read, as text. */
static void read_all(const struct input *in, bool cut, struct berth_buf *out)
{
    struct berth_http_reader r;
    int64_t body = 0;
    berth_http_reader_init(&r);
    for (size_t at = 0, turn = 0; at < in->len;) {
        size_t here = in->len - at, used;
        if (cut && in->piece_count) {
            size_t piece = in->pieces[turn++ % in->piece_count] + 1;
            here = here < piece ? here : piece;
        }
        enum berth_http_step step;
        do {
            step = berth_http_reader_step(&r, (const char *)in->stream + at, here, &used);
            CHECK(used <= here);
            at += used;
            here -= used;
            if (step == BERTH_HTTP_HEAD_READ) {
                check_head(&r.head);
                berth_buf_printf(out, "\n%d %s %s %d %lld:", (int)r.head.method, r.head.path,
                                 r.head.query ? r.head.query : "-", r.head.header_count,
                                 (long long)r.head.body_bytes);
                r.body_bytes_max = BODY_BYTES_MAX;
                body = 0;
            } else if (step == BERTH_HTTP_BODY) {
                CHECK(r.piece_len > 0 && r.piece_len <= used);
                size_t back = cut ? r.piece_len / 2 : 0; /* what its taker did not take */
                berth_http_reader_untake(&r, back);
                at -= back;
                here += back;
                CHECK(r.piece_len > 0);
                berth_buf_append(out, r.piece, r.piece_len);
                body += (int64_t)r.piece_len;
                CHECK(body <= BODY_BYTES_MAX);
            } else if (step == BERTH_HTTP_DONE) {
                CHECK(r.head.body_bytes < 0 || body == r.head.body_bytes);
                CHECK(!berth_http_reader_busy(&r));
                berth_buf_puts(out, "|");
            }
        } while (step != BERTH_HTTP_MORE && step != BERTH_HTTP_BAD);
        if (step == BERTH_HTTP_BAD) {
            CHECK(r.status >= 400 && r.status <= 505 && r.why);
            berth_buf_printf(out, "BAD %d", r.status);
            break;
        }
        CHECK(here == 0);
    }
    berth_http_reader_clear(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in;
    if (!read_input(data, size, &in))
        return 0;
    auto_buf whole = BERTH_BUF_INIT(4 * STREAM_BYTES_MAX),
             cut = BERTH_BUF_INIT(4 * STREAM_BYTES_MAX);
    read_all(&in, false, &whole);
    read_all(&in, true, &cut);
    CHECK(whole.len == cut.len && memcmp(berth_buf_str(&whole), berth_buf_str(&cut), cut.len) == 0);
    return 0;
}
