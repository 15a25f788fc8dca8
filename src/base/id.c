/* SPDX-License-Identifier: Apache-2.0
 * src/base/id.c - UUIDv7 (RFC 9562): 48 bits of time, a counter in rand_a, 62 random bits. The
 * others look like UUIDv4: 32 random bits, 42 bits of time, 48 random bits. */
#include "base/id.h"

#include <ctype.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/time.h"

#define COUNTER_MAX 0xfff

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Sets the next (time, counter) pair, larger than all before it. When the counter is used up, the
 * time moves on by 1 ms. */
static void next_stamp(uint64_t *ms, unsigned *counter)
{
    static uint64_t last_ms;
    static unsigned last_counter;
    uint64_t now = (uint64_t)berth_time_wall_ms();

    pthread_mutex_lock(&lock);
    if (now > last_ms) {
        last_ms = now;
        last_counter = 0;
    } else if (last_counter < COUNTER_MAX) {
        last_counter++;
    } else {
        last_ms++;
        last_counter = 0;
    }
    *ms = last_ms;
    *counter = last_counter;
    pthread_mutex_unlock(&lock);
}

static void fill_random(unsigned char *bytes, size_t len)
{
    if (getrandom(bytes, len, 0) != (ssize_t)len)
        abort(); /* cannot happen once the kernel's pool is ready; a repeated id would be worse */
}

static struct berth_id write_id(unsigned char b[16], unsigned version)
{
    b[6] = (unsigned char)((b[6] & 0x0f) | version << 4);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    static const char hex[] = "0123456789abcdef";
    struct berth_id id;
    char *p = id.text;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *p++ = '-';
        *p++ = hex[b[i] >> 4];
        *p++ = hex[b[i] & 15];
    }
    *p = '\0';
    return id;
}

struct berth_id berth_id_new_random(void)
{
    unsigned char b[16];
    fill_random(b, sizeof b);
    uint64_t ms = (uint64_t)berth_time_wall_ms();
    b[4] = (unsigned char)(ms >> 34);
    b[5] = (unsigned char)(ms >> 26);
    b[6] = (unsigned char)(ms >> 22 & 0x0f);
    b[7] = (unsigned char)(ms >> 14);
    b[8] = (unsigned char)(ms >> 8 & 0x3f);
    b[9] = (unsigned char)ms;
    return write_id(b, 4);
}

struct berth_id berth_id_new(void)
{
    unsigned char b[16];
    fill_random(b + 8, 8);
    uint64_t ms;
    unsigned counter;
    next_stamp(&ms, &counter);
    for (int i = 0; i < 6; i++)
        b[i] = (unsigned char)(ms >> (40 - 8 * i));
    b[6] = (unsigned char)(counter >> 8);
    b[7] = (unsigned char)counter;
    return write_id(b, 7);
}

bool berth_id_valid(const char *text)
{
    for (int i = 0; i < BERTH_ID_SIZE - 1; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
            return false;
    }
    return text[BERTH_ID_SIZE - 1] == '\0';
}

int berth_id_parse(const char *text, const char *what, struct berth_id *out,
                   struct berth_error *err)
{
    if (!berth_id_valid(text))
        return berth_fail(err, BERTH_E_NOT_FOUND, "%s \"%.60s\" not found: an id is a UUID.", what,
                          text);
    for (int i = 0; i < BERTH_ID_SIZE; i++)
        out->text[i] = (char)tolower((unsigned char)text[i]);
    return BERTH_OK;
}
