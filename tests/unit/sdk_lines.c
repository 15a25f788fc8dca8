/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/sdk_lines.c - the order in which threads of a worker write their lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "berth_plugin.h"

#define LONG_BYTES ((size_t)200 * 1024) /* more than a pipe holds */
#define SPEAKERS_MAX 40

struct speaker {
    pthread_t thread;
    _Atomic pid_t tid; /* 0: it has not begun */
    bool is_long;
};

struct stage {
    int to_test, own_stdout;
    struct speaker speakers[SPEAKERS_MAX];
    int count;
};

static int set_up(void **state)
{
    struct stage *s = calloc(1, sizeof *s);
    int ends[2];
    (void)fflush(stdout);
    s->own_stdout = dup(STDOUT_FILENO);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], STDOUT_FILENO), STDOUT_FILENO);
    (void)close(ends[1]);
    s->to_test = ends[0];
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct stage *s = *state;
    (void)dup2(s->own_stdout, STDOUT_FILENO);
    (void)close(s->own_stdout);
    (void)close(s->to_test);
    free(s);
    return 0;
}

static void *speak(void *ctx)
{
    struct speaker *speaker = ctx;
    auto_free char *text = calloc(1, LONG_BYTES + 1);
    memset(text, speaker->is_long ? 'l' : 's', speaker->is_long ? LONG_BYTES : 1);
    speaker->tid = gettid();
    berth_plugin_log("info", "%s", text);
    return NULL;
}

static bool is_asleep(const struct speaker *speaker)
{
    char path[64], state = '?';
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)speaker->tid);
    FILE *file = speaker->tid ? fopen(path, "re") : NULL;
    if (!file)
        return false;
    (void)fscanf(file, "%*d (%*[^)]) %c", &state);
    (void)fclose(file);
    return state == 'S';
}

/* Starts a thread that writes a line, and waits until it has to wait. */
static void start(struct stage *s, bool is_long)
{
    static const struct timespec step = {.tv_nsec = 1000000};
    struct speaker *speaker = &s->speakers[s->count++];
    speaker->is_long = is_long;
    assert_int_equal(pthread_create(&speaker->thread, NULL, speak, speaker), 0);
    for (int i = 0; i < 60000 && !is_asleep(speaker); i++)
        (void)nanosleep(&step, NULL);
    assert_true(is_asleep(speaker));
}

/* Reads all lines. `out` gets a letter for each: l or s. */
static void hear(struct stage *s, char out[SPEAKERS_MAX + 1])
{
    FILE *file = fdopen(dup(s->to_test), "re");
    auto_free char *line = NULL;
    size_t size = 0;
    for (int i = 0; i < s->count; i++) {
        ssize_t len = getline(&line, &size, file);
        assert_true(len > 0);
        out[i] = (size_t)len > LONG_BYTES ? 'l' : 's';
    }
    out[s->count] = '\0';
    (void)fclose(file);
    for (int i = 0; i < s->count; i++)
        assert_int_equal(pthread_join(s->speakers[i].thread, NULL), 0);
}

static void a_short_line_goes_before_long_ones(void **state)
{
    struct stage *s = *state;
    char heard[SPEAKERS_MAX + 1];
    for (int i = 0; i < 6; i++)
        start(s, true);
    start(s, false);
    hear(s, heard);
    assert_string_equal(heard, "lslllll");
}

static void a_long_line_has_its_turn(void **state)
{
    struct stage *s = *state;
    char heard[SPEAKERS_MAX + 1];
    start(s, true);
    start(s, true);
    for (int i = 0; i < 20; i++)
        start(s, false);
    hear(s, heard);
    assert_string_equal(heard, "lsssssssslssssssssssss");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_short_line_goes_before_long_ones, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_long_line_has_its_turn, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("sdk_lines", tests, NULL, NULL);
}
