/* SPDX-License-Identifier: Apache-2.0
 * src/crypto/tls.c - see tls.h. OpenSSL works on two memory BIOs: what comes from the network is
 * put into the one, what it wants to send is taken out of the other after every step.
 *
 * on_plain may write to its link and finish it, for OpenSSL is not at work while it is called.
 * Neither handler may free the link or read into it, and on_wire does nothing with it at all. */
#include "crypto/tls.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/time.h"
#include "crypto/locked.h"
#include "os/fs.h"

#define PIECE_BYTES SSL3_RT_MAX_PLAIN_LENGTH /* worked on at once: one record */
#define SECURITY_LEVEL 2                     /* no RSA below 2048 bits, no SHA-1 */
#define CIPHERS_OF_1_2 "ECDHE+AESGCM:ECDHE+CHACHA20"
#define PROTOCOL "\x08http/1.1" /* its length goes before it */

struct berth_tls {
    SSL_CTX *context;
};

struct berth_tls_link {
    SSL *ssl;
    BIO *in, *out; /* the SSL's */
    struct berth_tls_handlers handlers;
    size_t handshake_bytes; /* received so far */
    bool open;              /* the handshake is complete: plain bytes may be read and written */
    bool spoken;            /* something was sent */
    bool finished;          /* we sent our end; implies open */
    bool ended;             /* the other side sent its end */
    bool failed;            /* OpenSSL is not called again */
    bool reading;
};

/* --- files --- */

static void free_bio(BIO **bio)
{
    BIO_free(*bio);
}

static void free_certificate(X509 **certificate)
{
    X509_free(*certificate);
}

static void free_key(EVP_PKEY **key)
{
    EVP_PKEY_free(*key);
}

/* The last error in the queue is of what was asked for, those before it of what that is made of. */
static const char *reason_text(void)
{
    const char *text = ERR_reason_error_string(ERR_peek_last_error());
    return text ? text : "no reason is known";
}

/* Nothing more in the file begins like PEM of the kind that was asked for. */
static bool no_more_pem(void)
{
    unsigned long last = ERR_peek_last_error();
    return ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE;
}

static bool tls_out_of_memory(void)
{
    return ERR_GET_REASON(ERR_peek_error()) == ERR_R_MALLOC_FAILURE;
}

static int fail_memory(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: TLS.");
}

static int fail_open(const char *what, const char *path, struct berth_error *err)
{
    switch (errno) {
    case ENOENT:
    case ENOTDIR:
        return berth_fail(err, BERTH_E_INVALID,
                          "The TLS %s file %s does not exist: put it there, or name another.", what,
                          path);
    case ELOOP:
        return berth_fail(err, BERTH_E_INVALID,
                          "The TLS %s file %s is a symbolic link: name the file that it leads to.",
                          what, path);
    case EACCES:
        return berth_fail(err, BERTH_E_INVALID,
                          "The TLS %s file %s may not be read by us (uid %u): run as its owner, or "
                          "chown %u %s",
                          what, path, geteuid(), geteuid(), path);
    default:
        return berth_fail_errno(err, "Cannot open the TLS %s file %s", what, path);
    }
}

/* All of an open file; either of the two may hold the key. */
static int read_text(int fd, const char *what, const char *path, struct berth_locked *out,
                     struct berth_error *err)
{
    int rc = berth_locked_read(fd, BERTH_TLS_FILE_BYTES_MAX, out, err);
    if (rc == BERTH_E_TOO_LARGE)
        return berth_fail(err, BERTH_E_INVALID,
                          "The TLS %s file %s is longer than %d bytes: name the right file.", what,
                          path, BERTH_TLS_FILE_BYTES_MAX);
    if (rc < 0 && err->os_errno) {
        errno = err->os_errno;
        return berth_fail_errno(err, "Cannot read the TLS %s file %s", what, path);
    }
    return rc;
}

static int fail_type(const char *what, const char *path, struct berth_error *err)
{
    return berth_fail(err, BERTH_E_INVALID,
                      "The TLS %s file %s is not a file: name the file itself.", what, path);
}

static int read_certificate_file(const char *path, struct berth_locked *out,
                                 struct berth_error *err)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return fail_open("certificate", path, err);
    if (!S_ISREG(st.st_mode))
        return fail_type("certificate", path, err);
    return read_text(fd, "certificate", path, out, err);
}

static int check_key_file(const struct stat *st, const char *path, struct berth_error *err)
{
    switch (berth_fs_find_flaw(st, S_IFREG, BERTH_FS_PRIVATE)) {
    case BERTH_FS_WRONG_TYPE:
        return fail_type("key", path, err);
    case BERTH_FS_WRONG_OWNER:
        return berth_fail(err, BERTH_E_INVALID,
                          "The TLS key file %s belongs to uid %u, not to us (uid %u) or root: run "
                          "as its owner, or chown %u %s",
                          path, st->st_uid, geteuid(), geteuid(), path);
    case BERTH_FS_WRONG_MODE:
        return berth_fail(err, BERTH_E_INVALID,
                          "The TLS key file %s is open to others (permissions %04o): run chmod 600 "
                          "%s",
                          path, st->st_mode & 07777, path);
    case BERTH_FS_NO_FLAW:
        break;
    }
    return BERTH_OK;
}

static int read_key_file(const char *path, struct berth_locked *out, struct berth_error *err)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return fail_open("key", path, err);
    int rc = check_key_file(&st, path, err);
    return rc < 0 ? rc : read_text(fd, "key", path, out, err);
}

/* OpenSSL would ask on the terminal without this. It notes that a password was wanted. */
static int refuse_password(char *buf, int size, int writing, void *asked)
{
    (void)buf, (void)size, (void)writing;
    *(bool *)asked = true;
    return -1;
}

static BIO *bio_of(const struct berth_locked *text)
{
    return BIO_new_mem_buf(text->bytes, (int)text->len);
}

static int fail_certificate(const char *path, struct berth_error *err)
{
    if (tls_out_of_memory())
        return fail_memory(err);
    return berth_fail(err, BERTH_E_INVALID,
                      "The TLS certificate file %s cannot be used (%s): put a good one there.",
                      path, reason_text());
}

/* "2026-11-15 08:05:00 UTC" */
static const char *date_text(const ASN1_TIME *at, char *out, size_t size)
{
    struct tm tm;
    if (ASN1_TIME_to_tm(at, &tm) != 1 || strftime(out, size, "%F %T UTC", &tm) == 0)
        return "a date that cannot be read";
    return out;
}

/* Those above it in the chain may have run out: some are sent so on purpose, for old clients. */
static int check_dates(const X509 *certificate, const char *path, struct berth_error *err)
{
    time_t now = (time_t)(berth_time_wall_ms() / 1000);
    const ASN1_TIME *from = X509_get0_notBefore(certificate),
                    *until = X509_get0_notAfter(certificate);
    char text[64];
    if (X509_cmp_time(until, &now) <= 0)
        return berth_fail(err, BERTH_E_INVALID,
                          "The TLS certificate %s has run out on %s: put a new one there.", path,
                          date_text(until, text, sizeof text));
    int begun = X509_cmp_time(from, &now); /* 0: it is no date */
    if (begun >= 0)
        return berth_fail(err, BERTH_E_INVALID,
                          "The TLS certificate %s is valid from %s only: put one there that is "
                          "valid now, or set the clock of this machine.",
                          path, date_text(from, text, sizeof text));
    return BERTH_OK;
}

/* The certificates after the first, up to the end of the file. */
static int use_chain(SSL_CTX *context, BIO *file, const char *path, struct berth_error *err)
{
    bool asked = false;
    X509 *next;
    while ((next = PEM_read_bio_X509(file, NULL, refuse_password, &asked)))
        if (SSL_CTX_add0_chain_cert(context, next) != 1) {
            int rc = fail_certificate(path, err);
            X509_free(next);
            return rc;
        }
    return no_more_pem() ? BERTH_OK : fail_certificate(path, err);
}

static int use_certificate(SSL_CTX *context, const char *path, struct berth_error *err)
{
    auto_locked text = BERTH_LOCKED_INIT;
    int rc = read_certificate_file(path, &text, err);
    if (rc < 0)
        return rc;
    ERR_clear_error();
    BIO *file auto_clean(free_bio) = bio_of(&text);
    if (!file)
        return fail_memory(err);
    bool asked = false;
    X509 *first auto_clean(free_certificate) =
        PEM_read_bio_X509(file, NULL, refuse_password, &asked);
    if (!first && no_more_pem())
        return berth_fail(err, BERTH_E_INVALID,
                          "The TLS certificate file %s holds no certificate in PEM: put the chain "
                          "there, the server's own first.",
                          path);
    if (!first)
        return fail_certificate(path, err);
    rc = check_dates(first, path, err);
    if (rc == BERTH_OK && SSL_CTX_use_certificate(context, first) != 1)
        rc = fail_certificate(path, err);
    return rc < 0 ? rc : use_chain(context, file, path, err);
}

static int parse_key(const struct berth_locked *text, const char *path, EVP_PKEY **out,
                     struct berth_error *err)
{
    ERR_clear_error();
    BIO *file auto_clean(free_bio) = bio_of(text);
    if (!file)
        return fail_memory(err);
    bool asked = false;
    *out = PEM_read_bio_PrivateKey(file, NULL, refuse_password, &asked);
    if (*out)
        return BERTH_OK;
    if (asked)
        return berth_fail(err, BERTH_E_INVALID,
                          "The key in the TLS key file %s is encrypted, and berth asks for no "
                          "password: write it without one, with openssl pkey -in %s",
                          path, path);
    if (tls_out_of_memory())
        return fail_memory(err);
    return berth_fail(err, BERTH_E_INVALID,
                      "The TLS key file %s holds no private key in PEM, or a damaged one: put the "
                      "certificate's key there.",
                      path);
}

static int use_key(SSL_CTX *context, const char *path, const char *certificate_path,
                   struct berth_error *err)
{
    auto_locked text = BERTH_LOCKED_INIT;
    EVP_PKEY *key auto_clean(free_key) = NULL;
    int rc = read_key_file(path, &text, err);
    if (rc == BERTH_OK)
        rc = parse_key(&text, path, &key, err);
    if (rc < 0)
        return rc;
    ERR_clear_error();
    if (X509_check_private_key(SSL_CTX_get0_certificate(context), key) != 1)
        return berth_fail(
            err, BERTH_E_INVALID,
            "The TLS key %s does not fit the first certificate in %s: name the key that "
            "it was made for.",
            path, certificate_path);
    if (SSL_CTX_use_PrivateKey(context, key) != 1)
        return tls_out_of_memory() ? fail_memory(err)
                                   : berth_fail(err, BERTH_E_INVALID,
                                                "The TLS key %s cannot be used (%s): take another.",
                                                path, reason_text());
    return BERTH_OK;
}

/* --- the certificate and its key --- */

/* Called only for clients that name protocols at all. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *offered, unsigned offered_len, void *ctx)
{
    (void)ssl, (void)ctx;
    unsigned char *chosen = NULL;
    if (SSL_select_next_proto(&chosen, out_len, (const unsigned char *)PROTOCOL,
                              sizeof PROTOCOL - 1, offered, offered_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static bool set_rules(SSL_CTX *context)
{
    SSL_CTX_set_security_level(context, SECURITY_LEVEL);
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                     SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
    /* Idle connections are many: they hold no record buffers. */
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(context, CIPHERS_OF_1_2) == 1 &&
           SSL_CTX_set_num_tickets(context, 0) == 1;
}

static void close_tls(struct berth_tls **tls)
{
    berth_tls_close(*tls);
}

int berth_tls_open(const char *certificate_file, const char *key_file, struct berth_tls **out,
                   struct berth_error *err)
{
    struct berth_tls *tls auto_clean(close_tls) = calloc(1, sizeof *tls);
    if (!tls)
        return fail_memory(err);
    ERR_clear_error();
    tls->context = SSL_CTX_new(TLS_server_method());
    int rc = BERTH_OK;
    if (!tls->context || !set_rules(tls->context))
        rc = berth_fail(err, BERTH_E_INTERNAL, "This OpenSSL offers no TLS (%s).", reason_text());
    if (rc == BERTH_OK)
        rc = use_certificate(tls->context, certificate_file, err);
    if (rc == BERTH_OK)
        rc = use_key(tls->context, key_file, certificate_file, err);
    ERR_clear_error();
    if (rc == BERTH_OK)
        *out = take_ptr(tls);
    return rc;
}

void berth_tls_close(struct berth_tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->context); /* counts the links, too */
    free(tls);
}

/* --- links --- */

static void tls_free_link(struct berth_tls_link **link)
{
    berth_tls_link_free(*link);
}

int berth_tls_link_new(struct berth_tls *tls, const struct berth_tls_handlers *handlers,
                       struct berth_tls_link **out, struct berth_error *err)
{
    struct berth_tls_link *link auto_clean(tls_free_link) = calloc(1, sizeof *link);
    if (!link)
        return fail_memory(err);
    link->handlers = *handlers;
    ERR_clear_error();
    link->ssl = SSL_new(tls->context);
    link->in = BIO_new(BIO_s_mem());
    link->out = BIO_new(BIO_s_mem());
    if (!link->ssl || !link->in || !link->out) {
        BIO_free(link->in);
        BIO_free(link->out);
        ERR_clear_error();
        return fail_memory(err);
    }
    SSL_set_bio(link->ssl, link->in, link->out);
    SSL_set_accept_state(link->ssl);
    *out = take_ptr(link);
    return BERTH_OK;
}

void berth_tls_link_free(struct berth_tls_link *link)
{
    if (!link)
        return;
    assert(!link->reading);
    SSL_free(link->ssl);
    free(link);
}

/* The bytes are copied out first: what on_wire is given must not move. */
static void tls_flush(struct berth_tls_link *link)
{
    char bytes[PIECE_BYTES];
    int len;
    while ((len = BIO_read(link->out, bytes, sizeof bytes)) > 0) {
        link->spoken = true;
        link->handlers.on_wire(link->handlers.ctx, bytes, (size_t)len);
    }
}

/* OpenSSL is silent towards what does not look like TLS, and cannot be told to give up. While
 * nothing has gone out there are no keys, and an alert is plain bytes. */
static void send_alert(struct berth_tls_link *link)
{
    static const char alert[] = {
        SSL3_RT_ALERT, 3, 3, 0, 2, SSL3_AL_FATAL, SSL_AD_UNEXPECTED_MESSAGE};
    bool told = SSL_get_shutdown(link->ssl) & SSL_RECEIVED_SHUTDOWN; /* it knows already */
    if (link->open || link->spoken || told)
        return;
    link->spoken = true;
    link->handlers.on_wire(link->handlers.ctx, alert, sizeof alert);
}

/* `why`: in the end of a sentence. */
static int fail_link(struct berth_tls_link *link, const char *why, struct berth_error *err)
{
    int rc = tls_out_of_memory() ? fail_memory(err)
                                 : berth_fail(err, BERTH_E_INVALID, "The TLS %s failed: %s.",
                                              link->open ? "connection" : "handshake", why);
    link->failed = true;
    tls_flush(link);
    send_alert(link);
    ERR_clear_error();
    return rc;
}

static int fail_useless(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_INVALID, "The TLS connection has failed before.");
}

static int send_plain(struct berth_tls_link *link, const char *bytes, size_t len,
                      struct berth_error *err)
{
    while (len > 0) {
        size_t sent = 0;
        ERR_clear_error();
        if (SSL_write_ex(link->ssl, bytes, len < PIECE_BYTES ? len : PIECE_BYTES, &sent) != 1)
            return fail_link(link, reason_text(), err);
        tls_flush(link);
        bytes += sent;
        len -= sent;
    }
    return BERTH_OK;
}

static int shake_hands(struct berth_tls_link *link, struct berth_error *err)
{
    ERR_clear_error();
    int done = SSL_do_handshake(link->ssl);
    int state = SSL_get_error(link->ssl, done);
    if (state == SSL_ERROR_ZERO_RETURN)
        return fail_link(link, "the other side has ended it", err);
    if (state != SSL_ERROR_NONE && state != SSL_ERROR_WANT_READ)
        return fail_link(link, reason_text(), err);
    tls_flush(link);
    link->open = state == SSL_ERROR_NONE;
    return BERTH_OK;
}

static bool read_some(struct berth_tls_link *link, char *bytes, size_t size, size_t *len)
{
    ERR_clear_error();
    return SSL_read_ex(link->ssl, bytes, size, len) == 1;
}

/* Until OpenSSL wants more from the network. */
static int take_plain(struct berth_tls_link *link, struct berth_error *err)
{
    char bytes[PIECE_BYTES];
    size_t len;
    while (!link->failed && read_some(link, bytes, sizeof bytes, &len))
        link->handlers.on_plain(link->handlers.ctx, bytes, len);
    if (link->failed)
        return fail_useless(err); /* a write of on_plain's was told why */
    int state = SSL_get_error(link->ssl, 0);
    if (state != SSL_ERROR_WANT_READ && state != SSL_ERROR_ZERO_RETURN)
        return fail_link(link, reason_text(), err);
    link->ended = state == SSL_ERROR_ZERO_RETURN;
    tls_flush(link);
    return BERTH_OK;
}

/* OpenSSL takes all of a piece before it wants more, so `in` never holds more than one. */
static int read_piece(struct berth_tls_link *link, const char *bytes, size_t len,
                      struct berth_error *err)
{
    ERR_clear_error();
    if (!link->open && (link->handshake_bytes += len) > BERTH_TLS_HANDSHAKE_BYTES_MAX)
        return fail_link(link, "it is too long", err);
    if (BIO_write(link->in, bytes, (int)len) != (int)len)
        return fail_link(link, reason_text(), err);
    int rc = link->open ? BERTH_OK : shake_hands(link, err);
    return rc == BERTH_OK && link->open ? take_plain(link, err) : rc;
}

int berth_tls_link_read(struct berth_tls_link *link, const char *bytes, size_t len, bool *ended,
                        struct berth_error *err)
{
    assert(!link->reading);
    int rc = link->failed ? fail_useless(err) : BERTH_OK;
    link->reading = true;
    while (rc == BERTH_OK && len > 0 && !link->ended) { /* after the end nothing counts */
        size_t piece = len < PIECE_BYTES ? len : PIECE_BYTES;
        rc = read_piece(link, bytes, piece, err);
        bytes += piece;
        len -= piece;
    }
    link->reading = false;
    ERR_clear_error();
    *ended = link->ended;
    return rc;
}

int berth_tls_link_write(struct berth_tls_link *link, const char *bytes, size_t len,
                         struct berth_error *err)
{
    if (link->failed)
        return fail_useless(err);
    if (!link->open)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "The TLS handshake is not complete: nothing can be written yet.");
    if (link->finished)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "The TLS connection is finished: nothing can be written to it.");
    int rc = send_plain(link, bytes, len, err);
    ERR_clear_error();
    return rc;
}

void berth_tls_link_finish(struct berth_tls_link *link)
{
    if (link->failed || link->finished || !link->open)
        return;
    link->finished = true;
    ERR_clear_error();
    (void)SSL_shutdown(link->ssl); /* the first call only sends */
    tls_flush(link);
    ERR_clear_error();
}
