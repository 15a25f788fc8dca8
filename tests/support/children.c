/* SPDX-License-Identifier: Apache-2.0
 * tests/support/children.c - see children.h. */
#include "children.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"

#define REPORT_FD 3

/* --- in the child --- */

void child_open(struct fixture *f, char **argv)
{
    const char *store = argv[3], *directory = argv[4];
    *f = (struct fixture){.kind = strncmp(store, "sqlite", 6) == 0 ? ON_SQLITE : ON_POSTGRES};
    (void)snprintf(f->store, sizeof f->store, "%s", store);
    (void)snprintf(f->directory, sizeof f->directory, "%s", directory);
    (void)snprintf(f->inventory, sizeof f->inventory, "%s/inventory", directory);
    fixture_open(f);
}

void child_close(struct fixture *f)
{
    fixture_close(f);
    berth_arena_clear(&f->arena);
}

void child_report(const char *what, const char *text)
{
    char line[80];
    int len = snprintf(line, sizeof line, "%s %s\n", what, text);
    if (write(REPORT_FD, line, (size_t)len) != len)
        _exit(1);
}

/* --- in the test --- */

struct child child_start(const struct fixture *f, const char *what, const char *which)
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        /* The child of a test that fails must not hold the test's output open. */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)setenv("CMOCKA_TEST_ABORT", "1", 1); /* else its messages are lost */
        (void)dup2(fds[1], REPORT_FD);
        const char *argv[] = {"child", what, which, f->store, f->directory, NULL};
        (void)execv("/proc/self/exe", (char **)(uintptr_t)argv);
        _exit(127);
    }
    (void)close(fds[1]);
    return (struct child){.pid = pid, .report_fd = fds[0]};
}

char *child_finish(struct child child, int *status)
{
    struct berth_buf told = BERTH_BUF_INIT(1 << 20);
    char chunk[4096];
    for (ssize_t got; (got = read(child.report_fd, chunk, sizeof chunk)) > 0;)
        berth_buf_append(&told, chunk, (size_t)got);
    (void)close(child.report_fd);
    assert_int_equal(waitpid(child.pid, status, 0), child.pid);
    return berth_buf_take(&told);
}

void child_run(const struct fixture *f, const char *what, const char *which)
{
    int status;
    free(child_finish(child_start(f, what, which), &status));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s %s ended with status 0x%x", what, which, status);
}

bool child_line(char **at, const char *what, char text[64])
{
    size_t len = strlen(what);
    while (**at) {
        char *line = *at, *end = strchr(line, '\n');
        *at = end ? end + 1 : line + strlen(line);
        if (strncmp(line, what, len) == 0 && line[len] == ' ') {
            (void)snprintf(text, 64, "%.*s", (int)((end ? end : *at) - line - (long)len - 1),
                           line + len + 1);
            return true;
        }
    }
    return false;
}

void child_told(char *told, const char *what, char text[64])
{
    if (!child_line(&told, what, text))
        fail_msg("a child reported no line \"%s\"", what);
}

void lapse_node(struct fixture *f, const char *node_id)
{
    run_sql(f, "UPDATE nodes SET beat_at = 0 WHERE id = $1", node_id);
}

/* --- a part of the test --- */

int run_shard_of(const char *name, const struct CMUnitTest *tests, size_t count)
{
    const char *shard = getenv("BERTH_TEST_SHARD");
    size_t first = 1, step = 1, chosen = 0;
    if (shard && (sscanf(shard, "%zu/%zu", &first, &step) != 2 || first < 1 || first > step)) {
        (void)fprintf(stderr, "BERTH_TEST_SHARD is \"%s\", not i/n with 1 <= i <= n\n", shard);
        return 1;
    }
    auto_free struct CMUnitTest *part = calloc(count, sizeof *part);
    for (size_t i = first - 1; part && i < count; i += step)
        part[chosen++] = tests[i];
    if (!chosen) {
        (void)fprintf(stderr, "BERTH_TEST_SHARD is \"%s\": no test is left\n", shard);
        return 1;
    }
    return _cmocka_run_group_tests(name, part, chosen, NULL, NULL);
}

unsigned test_seed(void)
{
    const char *given = getenv("BERTH_TEST_SEED");
    return given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
}

struct sample sample_new(void)
{
    struct sample sample = {.wanted = getenv("BERTH_TEST_SAMPLE") != NULL, .seed = test_seed()};
    if (sample.wanted)
        print_message("# a sample: BERTH_TEST_SAMPLE=1 BERTH_TEST_SEED=%u repeats it\n",
                      sample.seed);
    return sample;
}

bool sample_has(const struct sample *sample, int at, int part, int parts)
{
    return !sample->wanted || (at + (int)(sample->seed % (unsigned)parts)) % parts == part;
}
