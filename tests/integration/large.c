/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/large.c - much at once: a gigabyte through one command with readers of every
 * kind, secrets across every border, two thousand runs in one process. Only in the plain build. */
#include "fixture.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "base/limits.h"
#include "base/auto.h"
#include "base/time.h"
#include "core/run/exec.h"
#include "core/secret/secret.h"
#include "os/framelog.h"

#define GIGABYTE (UINT64_C(1) << 30)
#define RSS_KB_MAX (64 * 1024)
#define SECRET "s3cr3t-value-of-23-byte"
#define TIMES 100000
#define RUNS 2000

/* --- what the commands are: this program itself --- */

/* Bytes that repeat nowhere, in pieces of every size; what they hash to is told on stderr. */
static int emit_bytes(uint64_t left)
{
    static uint64_t block[8192];
    uint64_t x = 88172645463325252u;
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    (void)EVP_DigestInit_ex(hash, EVP_sha256(), NULL);
    while (left) {
        for (size_t i = 0; i < sizeof block / sizeof *block; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            block[i] = x;
        }
        size_t piece = 1 + (size_t)(x % sizeof block);
        if (piece > left)
            piece = (size_t)left;
        (void)EVP_DigestUpdate(hash, block, piece);
        for (size_t done = 0; done < piece;) {
            ssize_t got = write(STDOUT_FILENO, (char *)block + done, piece - done);
            if (got < 0)
                return 1;
            done += (size_t)got;
        }
        left -= piece;
    }
    (void)EVP_DigestFinal_ex(hash, digest, &len);
    EVP_MD_CTX_free(hash);
    for (unsigned i = 0; i < len; i++)
        (void)dprintf(STDERR_FILENO, "%02x", digest[i]);
    return 0;
}

/* The value of TOKEN over and over, cut anywhere, on both streams. */
static int emit_secret(void)
{
    const char *token = getenv("TOKEN");
    size_t len = strlen(token), all = len * TIMES;
    for (int fd = 1; fd <= 2; fd++) {
        char piece[4096];
        unsigned seed = 7;
        for (size_t at = 0; at < all;) {
            size_t want = 1 + (size_t)rand_r(&seed) % sizeof piece;
            if (want > all - at)
                want = all - at;
            for (size_t i = 0; i < want; i++)
                piece[i] = token[(at + i) % len];
            if (write(fd, piece, want) != (ssize_t)want)
                return 1;
            at += want;
        }
    }
    return 0;
}

/* --- readers of a log --- */

struct reader {
    const char *path;
    pthread_t thread;
    bool slow, leaves; /* naps now and then; goes away and comes back by offset */
    uint64_t bytes;
    char digest[2 * EVP_MAX_MD_SIZE + 1];
    char told[256]; /* what the command said on stderr */
    bool failed;
};

static bool reopen(struct reader *r, struct berth_framereader **reader)
{
    struct berth_error err;
    int rc, tries = 0;
    while ((rc = berth_framereader_open(r->path, reader, &err)) == BERTH_E_NOT_FOUND &&
           tries++ < 10000)
        (void)usleep(1000); /* it comes with the first output */
    if (rc < 0)
        return false;
    berth_framereader_from(*reader, BERTH_FRAME_STDOUT, r->bytes);
    return true;
}

static bool take_frame(struct reader *r, EVP_MD_CTX *hash, const struct berth_frame *frame)
{
    if (frame->kind == BERTH_FRAME_STDERR && frame->offset == strlen(r->told))
        (void)snprintf(r->told + strlen(r->told), sizeof r->told - strlen(r->told), "%.*s",
                       (int)frame->len, frame->bytes);
    if (frame->kind != BERTH_FRAME_STDOUT)
        return true;
    if (frame->offset > r->bytes)
        return false; /* something is missing */
    size_t known = (size_t)(r->bytes - frame->offset);
    (void)EVP_DigestUpdate(hash, frame->bytes + known, frame->len - known);
    r->bytes += frame->len - known;
    return true;
}

static void *read_log(void *ctx)
{
    struct reader *r = ctx;
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    (void)EVP_DigestInit_ex(hash, EVP_sha256(), NULL);
    struct berth_framereader *reader = NULL;
    struct berth_frame frame = {.kind = BERTH_FRAME_STDOUT};
    struct berth_error err;
    r->failed = !reopen(r, &reader);
    for (unsigned frames = 0; !r->failed && frame.kind != BERTH_FRAME_END; frames++) {
        bool more = false;
        r->failed = berth_framereader_next(reader, &frame, &more, &err) < 0 ||
                    (more && !take_frame(r, hash, &frame));
        if (!more || (r->slow && frames % 100 == 0))
            (void)usleep(2000);
        if (!r->failed && more && r->leaves && frames % 500 == 499 &&
            frame.kind != BERTH_FRAME_END) {
            berth_framereader_close(reader);
            reader = NULL;
            (void)usleep(5000);
            r->failed = !reopen(r, &reader);
        }
    }
    berth_framereader_close(reader);
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    (void)EVP_DigestFinal_ex(hash, digest, &len);
    EVP_MD_CTX_free(hash);
    for (unsigned i = 0; i < len; i++)
        (void)snprintf(r->digest + 2 * i, 3, "%02x", digest[i]);
    return NULL;
}

/* A line of /proc/self/status. */
static long status_of(const char *name)
{
    char line[256];
    long value = -1;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            value = atol(line + strlen(name));
    if (file)
        (void)fclose(file);
    return value;
}

/* What a command needs of them: pipes, pidfds, its log. The store's own come and stay. */
static int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[300], what[300] = "";
        (void)snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        (void)!readlink(path, what, sizeof what - 1);
        count += strncmp(what, "pipe:", 5) == 0 || strstr(what, "pidfd") || strstr(what, "/logs/");
    }
    if (dir)
        (void)closedir(dir);
    return count;
}

static struct berth_lease *lease_here(struct fixture *f)
{
    struct berth_environment *e;
    assert_ok(f, berth_environment_ensure_local(f->b, &f->arena, NULL, &e, &f->err));
    return take_lease(f, e, make_run(f));
}

static void gigabyte_with_three_readers(void **state)
{
    struct fixture *f = *state;
    char self[512] = "";
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    struct berth_exec_request r = BERTH_EXEC_REQUEST_INIT;
    r.lease_id = lease_here(f)->id;
    r.argv = (const char *const[]){self, "bytes", NULL};
    r.log_bytes_max = UINT64_MAX;
    struct berth_exec *x;
    assert_ok(f, berth_exec_start(f->b, &r, NULL, &x, &f->err));
    struct reader readers[] = {{.path = berth_exec_log(x)},
                               {.path = berth_exec_log(x), .slow = true},
                               {.path = berth_exec_log(x), .leaves = true}};
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_log, &readers[i]), 0);
    struct berth_exec_end end;
    berth_exec_wait(x, &end);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(readers[i].thread, NULL), 0);
    assert_int_equal(end.cause, BERTH_END_EXITED);
    assert_int_equal(end.exit_code, 0);
    assert_true(end.bytes[0] == GIGABYTE);
    assert_false(berth_exec_truncated(x));
    for (int i = 0; i < 3; i++) {
        assert_false(readers[i].failed);
        assert_true(readers[i].bytes == GIGABYTE);
        assert_int_equal(strlen(readers[i].told), 64);
        assert_string_equal(readers[i].digest, readers[i].told);
    }
    long peak_kb = status_of("VmHWM:");
    print_message("# peak RSS %ld KB\n", peak_kb);
    assert_in_range(peak_kb, 1, RSS_KB_MAX);
    (void)unlink(berth_exec_log(x));
    berth_exec_free(x);
}

static void secret_is_never_seen(void **state)
{
    struct fixture *f = *state;
    char self[512] = "";
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    struct berth_secret_input input = {.name = "token"};
    struct berth_secret *secret;
    assert_ok(
        f, berth_secret_create(f->b, &f->arena, &input, SECRET, strlen(SECRET), &secret, &f->err));
    struct berth_run_secret variable = {.variable = "TOKEN", .secret_id = secret->id};
    struct berth_run_request request = BERTH_RUN_REQUEST_INIT;
    struct berth_run_result result;
    request.secrets = &variable;
    request.secret_count = 1;
    request.command.argv = (const char *const[]){self, "secret", NULL};
    assert_ok(f, berth_run_perform(f->b, &f->arena, &request, &result, &f->err));
    assert_int_equal(result.run->status, BERTH_RUN_SUCCEEDED);
    struct berth_framereader *reader;
    struct berth_frame frame = {.kind = BERTH_FRAME_STDOUT};
    bool more = true;
    uint64_t seen[2] = {0};
    assert_ok(f, berth_framereader_open(result.log, &reader, &f->err));
    while (frame.kind != BERTH_FRAME_END) {
        assert_ok(f, berth_framereader_next(reader, &frame, &more, &f->err));
        assert_true(more);
        if (frame.kind > BERTH_FRAME_STDERR)
            continue;
        for (size_t i = 0; i < frame.len; i++)
            assert_int_equal(frame.bytes[i], '*');
        seen[frame.kind] += frame.len;
    }
    berth_framereader_close(reader);
    for (int i = 0; i < 2; i++) {
        assert_true(seen[i] == strlen(SECRET) * (uint64_t)TIMES);
        assert_true(result.end.bytes[i] == seen[i]);
    }
}

/* --- many runs --- */

static _Atomic int done, succeeded;

static void on_done(void *ctx, const struct berth_run_result *result, const struct berth_error *err)
{
    (void)ctx;
    if (!err && result->run->status == BERTH_RUN_SUCCEEDED && !result->owed)
        atomic_fetch_add(&succeeded, 1);
    atomic_fetch_add(&done, 1);
}

static void two_thousand_runs_at_once(void **state)
{
    struct fixture *f = *state;
    static struct berth_run_job *running[RUNS];
    struct berth_run_request request = BERTH_RUN_REQUEST_INIT;
    struct berth_environment *e;
    assert_ok(f, berth_environment_ensure_local(f->b, &f->arena, NULL, &e, &f->err));
    struct berth_run_result first; /* with it comes the engine, and what that needs for itself */
    request.command.argv = (const char *const[]){"true", NULL};
    assert_ok(f, berth_run_perform(f->b, &f->arena, &request, &first, &f->err));
    int before = open_descriptors();
    /* They are all at work before the first ends: each waits for the file. */
    char gate[200], script[300];
    (void)snprintf(gate, sizeof gate, "%s/gate", f->directory);
    (void)snprintf(script, sizeof script, "while ! [ -e %s ]; do sleep 1; done", gate);
    request.environment_id = e->id;
    request.command.argv = (const char *const[]){"sh", "-c", script, NULL};
    for (int i = 0; i < RUNS; i++)
        assert_ok(f, berth_run_start(f->b, &request, on_done, NULL, &running[i], &f->err));
    int at_work = 0, threads = 0;
    for (int i = 0; i < 6000 && at_work < RUNS; i++) {
        pause_ms(20);
        at_work = count_rows(f, "SELECT count(*) FROM execs WHERE cause IS NULL");
        int now = (int)status_of("Threads:");
        threads = now > threads ? now : threads;
    }
    assert_int_equal(at_work, RUNS);
    assert_int_equal(atomic_load(&done), 0);
    print_message("# %d at once, at most %d threads, %d descriptors\n", at_work, threads,
                  open_descriptors());
    /* Those of the pools, the engine and the store, and none for a run. */
    assert_in_range(threads, 1, BERTH_PROVIDER_THREADS_MAX + BERTH_POOL_THREADS_MAX + 16);
    FILE *file = fopen(gate, "we");
    assert_non_null(file);
    (void)fclose(file);
    for (int i = 0; i < 6000 && atomic_load(&done) < RUNS; i++)
        pause_ms(20);
    assert_int_equal(atomic_load(&succeeded), RUNS);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"), 0);
    for (int i = 0; i < 500 && open_descriptors() > before; i++)
        pause_ms(10);                               /* what was let go of is freed by the loop */
    assert_in_range(open_descriptors(), 0, before); /* an init of an earlier test may be gone */
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "bytes") == 0)
        return emit_bytes(GIGABYTE);
    if (argc > 1 && strcmp(argv[1], "secret") == 0)
        return emit_secret();
    const struct CMUnitTest tests[] = {
        TEST_ON_SQLITE(gigabyte_with_three_readers), /* first: it measures the peak */
        TEST_ON_SQLITE(secret_is_never_seen),
        TEST_ON_SQLITE(two_thousand_runs_at_once),
    };
    return cmocka_run_group_tests_name("large", tests, NULL, NULL);
}
