/* SPDX-License-Identifier: Apache-2.0
 * src/crypto/keyfile.c - see keyfile.h. The file is text: a line per key,
 * "berth-key ID STORE BASE64". */
#include "crypto/keyfile.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/base64.h"
#include "base/failpoint.h"
#include "base/hex.h"
#include "base/id.h"
#include "os/fs.h"

#define FILE_BYTES_MAX (64 * 1024)
#define LOCK_STEP_MS 20
#define UNFINISHED ".berth-new-" /* behind the file's name, and before RANDOM_LETTERS letters */
#define RANDOM_LETTERS "XXXXXX"
#define WORD "berth-key"
#define HEAD                                                                                       \
    "# The key of berth's secrets. Without it they cannot be read: keep a copy, apart from the "   \
    "store.\n"

int berth_keyring_new(struct berth_locked *memory, struct berth_keyring **out,
                      struct berth_error *err)
{
    int rc = berth_locked_new(sizeof **out, memory, err);
    if (rc == BERTH_OK)
        *out = (struct berth_keyring *)(void *)memory->bytes; /* pages are aligned and zeroed */
    return rc;
}

const struct berth_key *berth_keyring_find(const struct berth_keyring *ring, const char *id)
{
    for (int i = 0; i < ring->count; i++)
        if (strcmp(ring->keys[i].id, id) == 0)
            return &ring->keys[i];
    return NULL;
}

/* The id tells keys apart and says nothing about them. */
static int name_key(struct berth_key *key, struct berth_error *err)
{
    char label[64];
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    int label_len = snprintf(label, sizeof label, "berth key of %s", key->store);
    if (!HMAC(EVP_sha256(), key->bytes, sizeof key->bytes, (const unsigned char *)label,
              (size_t)label_len, digest, &len))
        return berth_fail(err, BERTH_E_INTERNAL, "HMAC-SHA-256 failed in this OpenSSL.");
    berth_hex_write(digest, (BERTH_KEY_ID_SIZE - 1) / 2, key->id);
    return BERTH_OK;
}

int berth_keyring_add(struct berth_keyring *ring, const char *store, struct berth_error *err)
{
    if (ring->count == BERTH_KEYS_MAX)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "The key file holds too many keys: remove the lines of stores that are "
                          "gone.");
    struct berth_key *key = &ring->keys[ring->count];
    if (RAND_priv_bytes(key->bytes, sizeof key->bytes) != 1)
        return berth_fail(err, BERTH_E_INTERNAL, "No random bytes from this OpenSSL.");
    (void)snprintf(key->store, sizeof key->store, "%s", store);
    int rc = name_key(key, err);
    if (rc == BERTH_OK)
        ring->count++;
    return rc;
}

void berth_keyring_drop(struct berth_keyring *ring, const char *id)
{
    int kept = 0;
    for (int i = 0; i < ring->count; i++)
        if (strcmp(ring->keys[i].id, id) != 0) {
            struct berth_key key = ring->keys[i];
            ring->keys[kept++] = key;
            OPENSSL_cleanse(&key, sizeof key);
        }
    OPENSSL_cleanse(&ring->keys[kept], sizeof ring->keys[0] * (size_t)(ring->count - kept));
    ring->count = kept;
}

/* --- reading --- */

static int keyfile_check(int fd, const char *path, struct berth_error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return berth_fail_errno(err, "Cannot read the key file %s", path);
    switch (berth_fs_find_flaw(&st, S_IFREG, BERTH_FS_OURS_PRIVATE)) {
    case BERTH_FS_WRONG_TYPE:
        return berth_fail(err, BERTH_E_INVALID, "The key file %s is not a file.", path);
    case BERTH_FS_WRONG_OWNER:
        return berth_fail(
            err, BERTH_E_DENIED,
            "The key file %s belongs to uid %u, not to us (uid %u): run as its owner, "
            "or chown %u %s",
            path, st.st_uid, geteuid(), geteuid(), path);
    case BERTH_FS_WRONG_MODE:
        return berth_fail(err, BERTH_E_DENIED,
                          "Secrets key file permissions are %04o; run chmod 600 %s",
                          st.st_mode & 07777, path);
    case BERTH_FS_NO_FLAW:
        break;
    }
    return BERTH_OK;
}

/* One line without its newline. */
static bool read_key(char *line, struct berth_key *key)
{
    char *rest = NULL;
    const char *word = strtok_r(line, " ", &rest), *id = strtok_r(NULL, " ", &rest),
               *store = strtok_r(NULL, " ", &rest), *text = strtok_r(NULL, " ", &rest);
    size_t len;
    struct berth_error ignored;
    if (!word || strcmp(word, WORD) != 0 || !id || !store || !berth_id_valid(store) || !text ||
        strtok_r(NULL, " ", &rest) || !berth_base64_length(text, strlen(text), &len) ||
        len != sizeof key->bytes || !berth_base64_decode(text, strlen(text), key->bytes))
        return false;
    (void)snprintf(key->store, sizeof key->store, "%s", store);
    if (name_key(key, &ignored) < 0)
        return false;
    return strcmp(key->id, id) == 0;
}

static bool read_keys(char *text, struct berth_keyring *ring)
{
    char *rest = NULL;
    ring->count = 0;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (line[0] == '#')
            continue;
        if (ring->count == BERTH_KEYS_MAX || !read_key(line, &ring->keys[ring->count]))
            return false;
        ring->count++;
    }
    return ring->count > 0;
}

int berth_keyfile_read(const char *path, struct berth_keyring *ring, struct berth_error *err)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return berth_fail(err, BERTH_E_NOT_FOUND, "Secrets key file does not exist yet: %s", path);
    if (fd < 0 && errno == ELOOP)
        return berth_fail(err, BERTH_E_INVALID,
                          "The key file %s is a symbolic link: put the file itself there, or name "
                          "the file that it leads to (--key-file, BERTH_KEY_FILE, keyFile).",
                          path);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot open the key file %s", path);
    int rc = keyfile_check(fd, path, err);
    auto_locked text = BERTH_LOCKED_INIT;
    if (rc == BERTH_OK)
        rc = berth_locked_read(fd, FILE_BYTES_MAX, &text, err);
    if (rc == BERTH_E_TOO_LARGE ||
        (rc == BERTH_OK && (strlen(text.bytes) != text.len || !read_keys(text.bytes, ring))))
        rc = berth_fail(err, BERTH_E_INVALID,
                        "Invalid secrets master key at %s: it is damaged or no key file of berth; "
                        "put the right one there, from a backup or another node.",
                        path);
    return rc;
}

/* --- writing --- */

static int fill_file(int fd, const char *path, const struct berth_keyring *ring,
                     struct berth_error *err)
{
    auto_locked text = BERTH_LOCKED_INIT;
    int rc = berth_locked_new(FILE_BYTES_MAX, &text, err);
    if (rc < 0)
        return rc;
    berth_locked_append(&text, HEAD, strlen(HEAD));
    for (int i = 0; i < ring->count; i++) {
        const struct berth_key *key = &ring->keys[i];
        char *line = text.bytes + text.len;
        int len = snprintf(line, text.cap - text.len, WORD " %s %s ", key->id, key->store);
        berth_base64_encode(key->bytes, sizeof key->bytes, line + len);
        text.len += strlen(line);
        berth_locked_append(&text, "\n", 1);
    }
    rc = berth_fs_write_all(fd, text.bytes, text.len, err);
    if (rc == BERTH_OK && fsync(fd) < 0)
        rc = berth_fail_errno(err, "Cannot write the key file %s", path);
    return rc;
}

/* A whole file under another name, in the same directory. */
static int write_aside(const char *path, const struct berth_keyring *ring, char **aside,
                       struct berth_error *err)
{
    if (asprintf(aside, "%s" UNFINISHED RANDOM_LETTERS, path) < 0) {
        *aside = NULL;
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: key file.");
    }
    auto_close int fd = mkostemp(*aside, O_CLOEXEC); /* O_EXCL, 0600 */
    if (fd < 0) {
        int rc = berth_fail_errno(err, "Cannot make the key file %s", path);
        free(take_ptr(*aside));
        return rc;
    }
    int rc = fill_file(fd, path, ring, err);
    if (rc < 0) {
        (void)unlink(*aside);
        free(take_ptr(*aside));
    }
    return rc;
}

static int open_directory(const char *path, int *fd, struct berth_error *err)
{
    auto_free char *copy = strdup(path);
    if (!copy)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: key file.");
    const char *directory = dirname(copy);
    int rc = berth_fs_mkdirs(directory, 0700, err);
    if (rc < 0)
        return rc;
    *fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *fd < 0 ? berth_fail_errno(err, "Cannot open %s", directory) : BERTH_OK;
}

/* The directory remembers the name only after this. */
static int sync_name(const char *path, struct berth_error *err)
{
    auto_close int fd = -1;
    int rc = open_directory(path, &fd, err);
    if (rc == BERTH_OK && fsync(fd) < 0)
        rc = berth_fail_errno(err, "Cannot write the directory of %s", path);
    return rc;
}

int berth_keyfile_create(const char *path, const struct berth_keyring *ring,
                         struct berth_error *err)
{
    auto_close int directory = -1;
    auto_free char *aside = NULL;
    int rc = open_directory(path, &directory, err);
    if (rc == BERTH_OK)
        rc = write_aside(path, ring, &aside, err);
    if (rc < 0)
        return rc;
    BERTH_FAILPOINT(key_before_link);
    /* A link is made or refused, as a whole: that is O_EXCL for a file that is already full. */
    if (link(aside, path) < 0)
        rc = errno == EEXIST
                 ? berth_fail(err, BERTH_E_CONFLICT, "The key file %s is there already.", path)
                 : berth_fail_errno(err, "Cannot make the key file %s", path);
    BERTH_FAILPOINT(key_after_link);
    (void)unlink(aside);
    return rc < 0 ? rc : sync_name(path, err);
}

int berth_keyfile_replace(const char *path, const struct berth_keyring *ring,
                          struct berth_error *err)
{
    auto_free char *aside = NULL;
    int rc = write_aside(path, ring, &aside, err);
    if (rc < 0)
        return rc;
    BERTH_FAILPOINT(key_before_rename);
    if (rename(aside, path) < 0) {
        rc = berth_fail_errno(err, "Cannot replace the key file %s", path);
        (void)unlink(aside);
        return rc;
    }
    return sync_name(path, err);
}

/* Returns whether an entry of the directory has the name of an unfinished file beside `base`. */
static bool is_unfinished(const char *entry, const char *base)
{
    size_t len = strlen(base);
    return strncmp(entry, base, len) == 0 &&
           strncmp(entry + len, UNFINISHED, strlen(UNFINISHED)) == 0 &&
           strlen(entry) == len + strlen(UNFINISHED) + strlen(RANDOM_LETTERS);
}

/* Removes the unfinished files that a killed writer left. The caller holds the lock, so no other
 * writer works on one. */
static void keyfile_tidy(int directory, const char *path)
{
    auto_free char *copy = strdup(path);
    const char *base = copy ? basename(copy) : NULL;
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_dir *entries = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !entries)
        (void)close(fd);
    for (const struct dirent *e; entries && base && (e = readdir(entries));) {
        struct stat st;
        if (is_unfinished(e->d_name, base) &&
            fstatat(directory, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            berth_fs_find_flaw(&st, S_IFREG, BERTH_FS_OURS_PRIVATE) == BERTH_FS_NO_FLAW)
            (void)unlinkat(directory, e->d_name, 0);
    }
}

int berth_keyfile_lock(const char *path, int wait_ms, int *fd, struct berth_error *err)
{
    auto_free char *name = NULL;
    auto_close int directory = -1;
    int rc = open_directory(path, &directory, err);
    if (rc < 0)
        return rc;
    if (asprintf(&name, "%s.lock", path) < 0) {
        name = NULL;
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: key file.");
    }
    *fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*fd < 0)
        return berth_fail_errno(err, "Cannot open %s", name);
    const struct timespec step = {.tv_nsec = LOCK_STEP_MS * 1000000L};
    int locked;
    while ((locked = flock(*fd, LOCK_EX | LOCK_NB)) < 0 &&
           (errno == EINTR || (errno == EWOULDBLOCK && wait_ms > 0))) {
        (void)nanosleep(&step, NULL);
        wait_ms -= LOCK_STEP_MS;
    }
    if (locked == 0) {
        keyfile_tidy(directory, path);
        return BERTH_OK;
    }
    rc = errno == EWOULDBLOCK
             ? berth_fail(err, BERTH_E_CONFLICT,
                          "Another process is changing the key of the secrets: let it finish.")
             : berth_fail_errno(err, "Cannot lock %s", name);
    (void)close(*fd);
    *fd = -1;
    return rc;
}
