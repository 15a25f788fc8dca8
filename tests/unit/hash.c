/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/hash.c - SHA-256 by the vectors of FIPS 180-4, and from many threads. */
#include "crypto/hash.h"

#include "fixture.h"

#include <pthread.h>

#include "base/auto.h"

static struct {
    struct berth_error err;
} t;

static const struct {
    const char *text, *hex;
} known[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqr"
     "lmnopqrsmnopqrstnopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
};

static void known_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char hex[BERTH_SHA256_HEX_SIZE];
        assert_ok(&t, berth_sha256_hex(known[i].text, strlen(known[i].text), hex, &t.err));
        assert_string_equal(hex, known[i].hex);
    }
}

static void a_million_times_a(void **state)
{
    (void)state;
    enum { MILLION = 1000000 };
    auto_free char *text = malloc(MILLION);
    assert_non_null(text);
    memset(text, 'a', MILLION);
    char hex[BERTH_SHA256_HEX_SIZE];
    assert_ok(&t, berth_sha256_hex(text, MILLION, hex, &t.err));
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void bytes_are_bytes(void **state)
{
    (void)state;
    char hex[BERTH_SHA256_HEX_SIZE];
    assert_ok(&t, berth_sha256_hex("\0", 1, hex, &t.err));
    assert_string_equal(hex, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
    assert_ok(&t, berth_sha256_hex(NULL, 0, hex, &t.err));
    assert_string_equal(hex, known[0].hex);
}

static void *hash_often(void *ctx)
{
    bool *fine = ctx;
    *fine = true;
    for (int i = 0; i < 2000; i++) {
        struct berth_error err;
        char hex[BERTH_SHA256_HEX_SIZE];
        if (berth_sha256_hex("abc", 3, hex, &err) < 0 || strcmp(hex, known[1].hex) != 0)
            *fine = false;
    }
    return NULL;
}

/* RFC 6455, 1.3; and RFC 3174's first vector. */
static void sha1_as_protocols_want_it(void **state)
{
    (void)state;
    static const char text[] = "dGhlIHNhbXBsZSBub25jZQ==258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    struct berth_error err;
    char out[BERTH_SHA1_BASE64_SIZE];
    assert_int_equal(berth_sha1_base64(text, sizeof text - 1, out, &err), BERTH_OK);
    assert_string_equal(out, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_int_equal(berth_sha1_base64("abc", 3, out, &err), BERTH_OK);
    assert_string_equal(out, "qZk+NkcGgWq6PiVxeFDCbJzQ2J0=");
}

static void threads_do_not_meet(void **state)
{
    (void)state;
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    bool fine[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hash_often, &fine[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        assert_true(fine[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_vectors),       cmocka_unit_test(a_million_times_a),
        cmocka_unit_test(bytes_are_bytes),     cmocka_unit_test(sha1_as_protocols_want_it),
        cmocka_unit_test(threads_do_not_meet),
    };
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
