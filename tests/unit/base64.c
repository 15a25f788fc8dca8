/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/base64.c - RFC 4648 both ways, and only the one text that stands for some bytes. */
#include "base/base64.h"

#include "fixture.h"

#define BYTES_MAX 64
#define BYTES(text)                                                                                \
    {                                                                                              \
        (text), sizeof(text) - 1                                                                   \
    }

static const struct {
    const char *plain, *text;
} known[] = {
    {"", ""},
    {"f", "Zg=="},
    {"fo", "Zm8="},
    {"foo", "Zm9v"},
    {"foob", "Zm9vYg=="},
    {"fooba", "Zm9vYmE="},
    {"foobar", "Zm9vYmFy"},
    {"\xfb\xff\xbf", "+/+/"},
};

/* How many bytes, or -1: refused. */
static int decode(const char *text, size_t len, unsigned char out[BYTES_MAX + 3])
{
    size_t bytes;
    if (!berth_base64_length(text, len, &bytes))
        return -1;
    assert_true(bytes <= BYTES_MAX + 3);
    return berth_base64_decode(text, len, out) ? (int)bytes : -1;
}

static void fill(unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)(i * 151 + len * 7 + 3);
}

static void known_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t len = strlen(known[i].plain);
        char text[16];
        unsigned char bytes[BYTES_MAX + 3];
        berth_base64_encode(known[i].plain, len, text);
        assert_string_equal(text, known[i].text);
        assert_int_equal(decode(text, strlen(text), bytes), (int)len);
        assert_memory_equal(bytes, known[i].plain, len);
    }
}

static void every_length_comes_back(void **state)
{
    (void)state;
    for (size_t len = 0; len <= BYTES_MAX; len++) {
        unsigned char bytes[BYTES_MAX + 1], back[BYTES_MAX + 3];
        char text[BERTH_BASE64_SIZE(BYTES_MAX)];
        fill(bytes, len);
        berth_base64_encode(bytes, len, text);
        assert_int_equal(strlen(text) + 1, BERTH_BASE64_SIZE(len));
        assert_int_equal(decode(text, strlen(text), back), (int)len);
        assert_memory_equal(back, bytes, len);
    }
}

/* What a flipped bit makes of a text is refused, or stands for other bytes. */
static void no_two_texts_for_the_same_bytes(void **state)
{
    (void)state;
    int refused = 0, different = 0;
    for (size_t len = 1; len <= BYTES_MAX; len++) {
        unsigned char bytes[BYTES_MAX], back[BYTES_MAX + 3];
        char text[BERTH_BASE64_SIZE(BYTES_MAX)];
        fill(bytes, len);
        berth_base64_encode(bytes, len, text);
        size_t chars = strlen(text);
        for (size_t bit = 0; bit < chars * 8; bit++) {
            text[bit / 8] ^= (char)(1 << bit % 8);
            int got = decode(text, chars, back);
            if (got < 0)
                refused++;
            else if ((size_t)got != len || memcmp(back, bytes, len) != 0)
                different++;
            else
                fail_msg("bit %zu of a text of %zu bytes changes nothing", bit, len);
            text[bit / 8] ^= (char)(1 << bit % 8);
        }
    }
    assert_true(refused > 0 && different > 0);
}

static void refuses(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len;
    } wrong[] = {
        /* length */
        BYTES("Z"),
        BYTES("Zg"),
        BYTES("Zg="),
        BYTES("Zm9vYg"),
        /* padding */
        BYTES("===="),
        BYTES("Z==="),
        BYTES("=Zg="),
        BYTES("Zg=A"),
        BYTES("Z=g="),
        BYTES("Zg==Zg=="),
        BYTES("Zm8=Zm9v"),
        BYTES("====Zm9v"),
        /* bits that stand for nothing */
        BYTES("Zh=="),
        BYTES("Zm9="),
        BYTES("Zm9vYh=="),
        /* letters */
        BYTES("Zm 9"),
        BYTES("Zm9\n"),
        BYTES(" Zm9"),
        BYTES("Zm-_"),
        BYTES("Zm9\xc3"),
        BYTES("Zm\0/"),
        BYTES("Zm9\0"),
        BYTES("\0\0\0\0"),
        BYTES("Z\0=="),
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        unsigned char bytes[BYTES_MAX + 3];
        if (decode(wrong[i].text, wrong[i].len, bytes) >= 0)
            fail_msg("\"%s\" (%zu) was read", wrong[i].text, i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_vectors),
        cmocka_unit_test(every_length_comes_back),
        cmocka_unit_test(no_two_texts_for_the_same_bytes),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests_name("base64", tests, NULL, NULL);
}
