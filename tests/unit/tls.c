/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/tls.c - a client of OpenSSL's speaks with our side over memory: handshakes, bytes both
 * ways in any pieces, ends, and what is refused; the files that a certificate and key come from. */
#include "crypto/tls.h"

#include "fixture.h"

#include <fcntl.h>
#include <ftw.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/time.h"

#define MIB ((size_t)1024 * 1024)
#define DAY 86400
#define NOBODY 65534
#define ALERT_BYTES 7 /* a record of one, without encryption */

struct ground {
    char directory[64], certificate[96], key[96];
    struct berth_tls *tls;
    struct berth_tls_link *link;
    SSL_CTX *client_context;
    SSL *client;
    BIO *to_client, *from_client;
    size_t piece;           /* bytes that go to the link at once; 0: all */
    struct berth_buf plain; /* what the link heard */
    struct berth_buf heard; /* what the client heard */
    struct berth_buf wire;  /* all that the link sent */
    bool echo;              /* the link says it again, from within on_plain */
    bool finish_inside;     /* and ends there */
    bool ended;
    int written; /* what writing from on_plain answered */
    struct berth_error err;
};

/* --- what OpenSSL has taken and not given back --- */

static long pieces_held;

static void *count_malloc(size_t size, const char *file, int line)
{
    (void)file, (void)line;
    void *p = malloc(size);
    pieces_held += p != NULL;
    return p;
}

static void count_free(void *p, const char *file, int line)
{
    (void)file, (void)line;
    pieces_held -= p != NULL;
    free(p);
}

static void *count_realloc(void *p, size_t size, const char *file, int line)
{
    if (!p)
        return count_malloc(size, file, line);
    if (size)
        return realloc(p, size);
    count_free(p, file, line);
    return NULL;
}

/* --- certificates --- */

static EVP_PKEY *new_key(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    assert_non_null(key);
    return key;
}

static void add_extension(X509 *x, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_nconf_nid(NULL, NULL, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(x, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

/* `issuer` NULL: it signs itself. Valid from and until these seconds from now. */
static X509 *new_certificate(const char *name, EVP_PKEY *key, const char *issuer,
                             EVP_PKEY *issuer_key, long from, long until)
{
    X509 *x = X509_new();
    static long serial = 1;
    assert_non_null(x);
    assert_int_equal(X509_set_version(x, 2), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(x), serial++), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(x), from));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(x), until));
    assert_int_equal(X509_set_pubkey(x, key), 1);
    const char *const names[] = {name, issuer ? issuer : name};
    X509_NAME *const places[] = {X509_get_subject_name(x), X509_get_issuer_name(x)};
    for (int i = 0; i < 2; i++)
        assert_int_equal(X509_NAME_add_entry_by_txt(places[i], "CN", MBSTRING_ASC,
                                                    (const unsigned char *)names[i], -1, -1, 0),
                         1);
    add_extension(x, NID_basic_constraints, strstr(name, "CA") ? "critical,CA:TRUE" : "CA:FALSE");
    add_extension(x, NID_subject_alt_name, "DNS:localhost");
    assert_true(X509_sign(x, issuer ? issuer_key : key, EVP_sha256()) > 0);
    return x;
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void write_certificate(const char *path, const char *mode, X509 *x)
{
    FILE *file = fopen(path, mode);
    assert_non_null(file);
    assert_int_equal(PEM_write_X509(file, x), 1);
    assert_int_equal(fclose(file), 0);
}

static void write_key(const char *path, EVP_PKEY *key)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0600), 0);
}

/* A certificate that signs itself, and its key, in the files of the ground. */
static void make_pair(const struct ground *g, EVP_PKEY *key, long from, long until)
{
    X509 *x = new_certificate("localhost", key, NULL, NULL, from, until);
    write_certificate(g->certificate, "we", x);
    write_key(g->key, key);
    X509_free(x);
}

static int set_up_files(void **state)
{
    struct ground *g = calloc(1, sizeof *g);
    (void)snprintf(g->directory, sizeof g->directory, "/tmp/berth-tls.XXXXXX");
    if (!mkdtemp(g->directory))
        return -1;
    (void)snprintf(g->certificate, sizeof g->certificate, "%s/chain.pem", g->directory);
    (void)snprintf(g->key, sizeof g->key, "%s/key.pem", g->directory);
    EVP_PKEY *key = new_key();
    make_pair(g, key, -DAY, DAY);
    EVP_PKEY_free(key);
    g->plain = g->heard = g->wire = (struct berth_buf)BERTH_BUF_INIT(16 * MIB);
    *state = g;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void hang_up(struct ground *g)
{
    berth_tls_link_free(take_ptr(g->link));
    SSL_free(take_ptr(g->client));
    SSL_CTX_free(take_ptr(g->client_context));
    berth_buf_clear(&g->plain);
    berth_buf_clear(&g->heard);
    berth_buf_clear(&g->wire);
}

static int tear_down(void **state)
{
    struct ground *g = *state;
    hang_up(g);
    berth_tls_close(g->tls);
    (void)nftw(g->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(g);
    return 0;
}

static int open_tls(struct ground *g)
{
    ERR_raise(
        ERR_LIB_USER,
        ERR_R_INTERNAL_ERROR); /* an error of another user of OpenSSL, which must not matter */
    int rc = berth_tls_open(g->certificate, g->key, &g->tls, &g->err);
    assert_int_equal(ERR_peek_error(), 0);
    return rc;
}

static int set_up(void **state)
{
    int rc = set_up_files(state);
    struct ground *g = *state;
    return rc < 0 || open_tls(g) < 0 ? -1 : 0;
}

/* --- the two sides --- */

static void on_plain(void *ctx, const char *bytes, size_t len)
{
    struct ground *g = ctx;
    struct berth_error err;
    assert_true(len > 0);
    berth_buf_append(&g->plain, bytes, len);
    if (g->echo)
        g->written = berth_tls_link_write(g->link, bytes, len, &err);
    if (g->finish_inside)
        berth_tls_link_finish(g->link);
}

static void on_wire(void *ctx, const char *bytes, size_t len)
{
    struct ground *g = ctx;
    assert_true(len > 0);
    berth_buf_append(&g->wire, bytes, len);
    if (g->client)
        assert_int_equal(BIO_write(g->to_client, bytes, (int)len), len);
}

static void open_link(struct ground *g)
{
    const struct berth_tls_handlers handlers = {.on_plain = on_plain, .on_wire = on_wire, .ctx = g};
    assert_ok(g, berth_tls_link_new(g->tls, &handlers, &g->link, &g->err));
}

/* A new connection; `version` is the only one of the client's, 0: any. */
static void connect_with(struct ground *g, int version, const char *protocols)
{
    open_link(g);
    g->client_context = SSL_CTX_new(TLS_client_method());
    assert_non_null(g->client_context);
    if (version) {
        SSL_CTX_set_security_level(g->client_context, 0); /* or it does not know the old ones */
        assert_int_equal(SSL_CTX_set_min_proto_version(g->client_context, version), 1);
        assert_int_equal(SSL_CTX_set_max_proto_version(g->client_context, version), 1);
    }
    g->client = SSL_new(g->client_context);
    assert_non_null(g->client);
    g->to_client = BIO_new(BIO_s_mem());
    g->from_client = BIO_new(BIO_s_mem());
    SSL_set_bio(g->client, g->to_client, g->from_client);
    SSL_set_connect_state(g->client);
    if (protocols)
        assert_int_equal(SSL_set_alpn_protos(g->client, (const unsigned char *)protocols,
                                             (unsigned)strlen(protocols)),
                         0);
}

static int feed(struct ground *g, const char *bytes, size_t len)
{
    ERR_raise(ERR_LIB_USER, ERR_R_INTERNAL_ERROR);
    int rc = berth_tls_link_read(g->link, bytes, len, &g->ended, &g->err);
    assert_int_equal(ERR_peek_error(), 0);
    return rc;
}

static int say(struct ground *g, const char *bytes, size_t len)
{
    ERR_raise(ERR_LIB_USER, ERR_R_INTERNAL_ERROR);
    int rc = berth_tls_link_write(g->link, bytes, len, &g->err);
    if (rc == BERTH_OK)
        assert_int_equal(ERR_peek_error(), 0);
    ERR_clear_error(); /* what was refused did not get as far as OpenSSL */
    return rc;
}

/* What the client sent goes to the link, in pieces. */
static int carry(struct ground *g)
{
    char *bytes;
    size_t len = (size_t)BIO_get_mem_data(g->from_client, &bytes);
    auto_free char *copy = malloc(len + 1);
    assert_int_equal(len ? BIO_read(g->from_client, copy, (int)len) : 0, len);
    int rc = BERTH_OK;
    for (size_t at = 0, piece; rc == BERTH_OK && at < len; at += piece) {
        piece = g->piece && g->piece < len - at ? g->piece : len - at;
        auto_free char *exact = malloc(piece); /* a sanitizer sees a read beyond */
        memcpy(exact, copy + at, piece);
        rc = feed(g, exact, piece);
    }
    return rc;
}

/* All that is there for the client; the state it ends in. */
static int listen_client(struct ground *g)
{
    char bytes[5000];
    size_t len;
    ERR_clear_error();
    while (SSL_read_ex(g->client, bytes, sizeof bytes, &len) == 1)
        berth_buf_append(&g->heard, bytes, len);
    return SSL_get_error(g->client, 0);
}

/* Until the handshake is done on both sides, or has failed on ours. */
static int shake_hands(struct ground *g)
{
    for (int turns = 0; turns < 10; turns++) {
        ERR_clear_error();
        int done = SSL_do_handshake(g->client);
        if (carry(g) < 0)
            return g->err.code;
        if (done == 1)
            return BERTH_OK;
    }
    fail_msg("The handshake does not end.");
    return -1;
}

static void greet(struct ground *g, int version)
{
    connect_with(g, version, "\x08http/1.1");
    assert_ok(g, shake_hands(g));
}

static void client_says(struct ground *g, const char *bytes, size_t len)
{
    size_t sent;
    ERR_clear_error();
    assert_int_equal(SSL_write_ex(g->client, bytes, len, &sent), 1);
    assert_int_equal(sent, len);
    assert_ok(g, carry(g));
}

static void assert_holds(const struct berth_buf *buf, const char *bytes, size_t len)
{
    assert_false(buf->failed);
    assert_int_equal(buf->len, len);
    assert_memory_equal(buf->data, bytes, len);
}

/* One exchange in short, to see that the link works. */
static void assert_works(struct ground *g)
{
    berth_buf_clear(&g->plain);
    berth_buf_clear(&g->heard);
    client_says(g, "ping", 4);
    assert_holds(&g->plain, "ping", 4);
    assert_ok(g, say(g, "pong", 4));
    assert_int_equal(listen_client(g), SSL_ERROR_WANT_READ);
    assert_holds(&g->heard, "pong", 4);
}

/* The link sent one alert without encryption, and nothing after it. */
static void assert_alert(const struct ground *g, int description)
{
    assert_true(g->wire.len >= ALERT_BYTES);
    const char *alert = g->wire.data + g->wire.len - ALERT_BYTES;
    assert_int_equal(alert[0], SSL3_RT_ALERT);
    assert_int_equal(alert[1], 3);
    assert_int_equal(alert[4], 2);
    assert_int_equal(alert[5], SSL3_AL_FATAL);
    assert_int_equal(alert[6], description);
}

/* A link that failed stays so, and says nothing more. */
static void assert_useless(struct ground *g)
{
    size_t sent = g->wire.len;
    assert_fails(g, BERTH_E_INVALID, "The TLS connection has failed before.", feed(g, "x", 1));
    assert_fails(g, BERTH_E_INVALID, "The TLS connection has failed before.", say(g, "x", 1));
    berth_tls_link_finish(g->link);
    assert_int_equal(g->wire.len, sent);
    assert_false(g->ended);
}

static char *pattern(size_t len)
{
    char *bytes = malloc(len);
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)(i * 31 + i / 251);
    return bytes;
}

/* --- handshakes --- */

static void both_versions_are_spoken(void **state)
{
    struct ground *g = *state;
    static const int versions[] = {TLS1_3_VERSION, TLS1_2_VERSION, 0};
    for (int i = 0; i < 3; i++) {
        greet(g, versions[i]);
        assert_int_equal(SSL_version(g->client), versions[i] ? versions[i] : TLS1_3_VERSION);
        assert_works(g);
        assert_int_equal(SSL_get_current_compression(g->client) == NULL, 1);
        assert_false(SSL_session_reused(g->client));
        assert_false(SSL_SESSION_has_ticket(SSL_get0_session(g->client)));
        hang_up(g);
    }
}

static void older_versions_are_refused(void **state)
{
    struct ground *g = *state;
    static const int versions[] = {TLS1_1_VERSION, TLS1_VERSION};
    for (int i = 0; i < 2; i++) {
        connect_with(g, versions[i], NULL);
        assert_fails(g, BERTH_E_INVALID, "The TLS handshake failed: unsupported protocol.",
                     shake_hands(g));
        assert_alert(g, SSL_AD_PROTOCOL_VERSION);
        assert_useless(g);
        ERR_clear_error();
        assert_int_equal(SSL_do_handshake(g->client), -1);
        assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_TLSV1_ALERT_PROTOCOL_VERSION);
        hang_up(g);
    }
}

/* Of 1.2 only what has forward secrecy and authenticates what it encrypts; our order counts. */
static void weak_ciphers_are_refused(void **state)
{
    struct ground *g = *state;
    connect_with(g, TLS1_2_VERSION, NULL);
    assert_int_equal(SSL_set_cipher_list(g->client, "ECDHE+AES+SHA1:ECDHE+AES+SHA256:AES128-SHA"),
                     1);
    assert_fails(g, BERTH_E_INVALID, "The TLS handshake failed: no shared cipher.", shake_hands(g));
    assert_alert(g, SSL_AD_HANDSHAKE_FAILURE);
    hang_up(g);
    connect_with(g, TLS1_2_VERSION, NULL);
    assert_int_equal(SSL_set_cipher_list(g->client, "ECDHE-ECDSA-CHACHA20-POLY1305:"
                                                    "ECDHE-ECDSA-AES128-GCM-SHA256:"
                                                    "ECDHE-ECDSA-AES256-GCM-SHA384"),
                     1);
    assert_ok(g, shake_hands(g));
    assert_string_equal(SSL_get_cipher_name(g->client), "ECDHE-ECDSA-AES256-GCM-SHA384");
}

static void assert_protocol(const struct ground *g, const char *name)
{
    const unsigned char *chosen;
    unsigned len;
    SSL_get0_alpn_selected(g->client, &chosen, &len);
    assert_int_equal(len, strlen(name));
    assert_memory_equal(chosen, name, len);
}

static void protocol_is_agreed_on(void **state)
{
    struct ground *g = *state;
    static const int versions[] = {TLS1_3_VERSION, TLS1_2_VERSION};
    static const struct {
        const char *offered, *chosen;
    } cases[] = {{"\x08http/1.1", "http/1.1"}, {"\x02h2\x08http/1.1", "http/1.1"}, {NULL, ""}};
    for (size_t i = 0; i < 6; i++) {
        connect_with(g, versions[i % 2], cases[i / 2].offered);
        assert_ok(g, shake_hands(g));
        assert_protocol(g, cases[i / 2].chosen);
        assert_works(g);
        hang_up(g);
    }
}

static void other_protocols_are_refused(void **state)
{
    struct ground *g = *state;
    static const int versions[] = {TLS1_3_VERSION, TLS1_2_VERSION};
    static const char *const offered[] = {"\x02h2", "\x08http/1.0\x02h2"};
    for (int i = 0; i < 4; i++) {
        connect_with(g, versions[i % 2], offered[i / 2]);
        assert_fails(g, BERTH_E_INVALID, "The TLS handshake failed: no application protocol.",
                     shake_hands(g));
        assert_useless(g);
        ERR_clear_error();
        assert_int_equal(SSL_do_handshake(g->client), -1);
        assert_int_equal(ERR_GET_REASON(ERR_peek_error()),
                         SSL_AD_REASON_OFFSET + SSL_AD_NO_APPLICATION_PROTOCOL);
        hang_up(g);
    }
}

/* The client knows the root only: the one between is sent to it. */
static void whole_chain_is_sent(void **state)
{
    struct ground *g = *state;
    EVP_PKEY *keys[3] = {new_key(), new_key(), new_key()};
    X509 *root = new_certificate("Root CA", keys[0], NULL, NULL, -DAY, DAY);
    X509 *middle = new_certificate("Middle CA", keys[1], "Root CA", keys[0], -DAY, DAY);
    X509 *leaf = new_certificate("localhost", keys[2], "Middle CA", keys[1], -DAY, DAY);
    write_certificate(g->certificate, "we", leaf);
    write_certificate(g->certificate, "ae", middle);
    write_key(g->key, keys[2]);
    berth_tls_close(take_ptr(g->tls));
    assert_ok(g, open_tls(g));
    connect_with(g, 0, NULL);
    assert_int_equal(X509_STORE_add_cert(SSL_CTX_get_cert_store(g->client_context), root), 1);
    SSL_set_verify(g->client, SSL_VERIFY_PEER, NULL);
    assert_int_equal(SSL_set1_host(g->client, "localhost"), 1);
    assert_ok(g, shake_hands(g));
    assert_int_equal(SSL_get_verify_result(g->client), X509_V_OK);
    assert_int_equal(sk_X509_num(SSL_get_peer_cert_chain(g->client)), 2);
    assert_works(g);
    X509_free(root);
    X509_free(middle);
    X509_free(leaf);
    for (int i = 0; i < 3; i++)
        EVP_PKEY_free(keys[i]);
}

static void client_that_does_not_trust_us_leaves(void **state)
{
    struct ground *g = *state;
    static const int versions[] = {TLS1_3_VERSION, TLS1_2_VERSION};
    for (int i = 0; i < 2; i++) {
        connect_with(g, versions[i], NULL);
        SSL_set_verify(g->client, SSL_VERIFY_PEER, NULL);
        assert_fails(g, BERTH_E_INVALID, "alert unknown ca.", shake_hands(g));
        assert_useless(g);
        hang_up(g);
    }
}

static void client_may_end_the_handshake(void **state)
{
    struct ground *g = *state;
    static const char end[] = {SSL3_RT_ALERT, 3, 3, 0, 2, SSL3_AL_WARNING, SSL_AD_CLOSE_NOTIFY};
    connect_with(g, TLS1_2_VERSION, NULL);
    assert_int_equal(SSL_do_handshake(g->client), -1);
    assert_ok(g, carry(g));
    size_t sent = g->wire.len;
    assert_true(sent > 0);
    assert_fails(g, BERTH_E_INVALID, "The TLS handshake failed: the other side has ended it.",
                 feed(g, end, sizeof end));
    assert_int_equal(g->wire.len, sent); /* the other side is gone */
    assert_useless(g);
    hang_up(g);
    open_link(g); /* nothing can be ended before it has begun */
    assert_fails(g, BERTH_E_INVALID, "The TLS handshake failed: unexpected message.",
                 feed(g, end, sizeof end));
    assert_alert(g, SSL_AD_UNEXPECTED_MESSAGE);
    assert_useless(g);
}

static void many_handshakes_leave_nothing(void **state)
{
    struct ground *g = *state;
    long held = 0;
    for (int i = 0; i < 220; i++) {
        greet(g, i % 2 ? TLS1_2_VERSION : TLS1_3_VERSION);
        if (i % 3)
            assert_works(g);
        if (i % 5 == 0) /* some end badly */
            assert_fails(g, BERTH_E_INVALID, "The TLS connection failed", feed(g, "garbage", 7));
        hang_up(g);
        if (i == 19)
            held = pieces_held; /* with all that OpenSSL keeps for ever */
    }
    assert_true(held > 0);
    assert_int_equal(pieces_held, held);
}

/* --- bytes --- */

static void assert_big_exchange(struct ground *g, size_t len)
{
    auto_free char *bytes = pattern(len);
    client_says(g, bytes, len);
    assert_holds(&g->plain, bytes, len);
    assert_ok(g, say(g, bytes, len));
    assert_int_equal(listen_client(g), SSL_ERROR_WANT_READ);
    assert_holds(&g->heard, bytes, len);
}

static void bytes_come_whole(void **state)
{
    struct ground *g = *state;
    greet(g, TLS1_3_VERSION);
    assert_big_exchange(g, MIB);
    hang_up(g);
    greet(g, TLS1_2_VERSION);
    assert_big_exchange(g, MIB);
}

static void bytes_come_one_by_one(void **state)
{
    struct ground *g = *state;
    static const int versions[] = {TLS1_3_VERSION, TLS1_2_VERSION};
    g->piece = 1; /* the handshake, too */
    for (int i = 0; i < 2; i++) {
        greet(g, versions[i]);
        assert_big_exchange(g, 20000); /* more than a record */
        berth_buf_clear(&g->plain);
        berth_buf_clear(&g->heard);
        auto_free char *bytes = pattern(300);
        for (size_t k = 0; k < 300; k++) {
            client_says(g, bytes + k, 1);
            assert_ok(g, say(g, bytes + k, 1));
        }
        assert_int_equal(listen_client(g), SSL_ERROR_WANT_READ);
        assert_holds(&g->plain, bytes, 300);
        assert_holds(&g->heard, bytes, 300);
        hang_up(g);
    }
}

static void nothing_is_fine(void **state)
{
    struct ground *g = *state;
    connect_with(g, 0, NULL);
    assert_ok(g, feed(g, NULL, 0));
    assert_ok(g, shake_hands(g));
    size_t sent = g->wire.len;
    assert_ok(g, feed(g, NULL, 0));
    assert_ok(g, say(g, NULL, 0));
    assert_int_equal(g->wire.len, sent);
    assert_works(g);
}

/* What comes in the same piece as the end of the handshake is not forgotten. */
static void bytes_may_follow_the_handshake_at_once(void **state)
{
    struct ground *g = *state;
    size_t sent;
    connect_with(g, TLS1_3_VERSION, NULL);
    assert_int_equal(SSL_do_handshake(g->client), -1);
    assert_ok(g, carry(g));
    assert_int_equal(SSL_do_handshake(g->client), 1);
    assert_int_equal(SSL_write_ex(g->client, "early bird", 10, &sent), 1);
    assert_ok(g, carry(g));
    assert_holds(&g->plain, "early bird", 10);
    assert_works(g);
}

/* Nothing is kept for later either: the client hears only what is said after the handshake. */
static void nothing_is_written_before_the_handshake(void **state)
{
    struct ground *g = *state;
    static const int versions[] = {TLS1_3_VERSION, TLS1_2_VERSION};
    static const char too_early[] =
        "The TLS handshake is not complete: nothing can be written yet.";
    for (int i = 0; i < 2; i++) {
        connect_with(g, versions[i], NULL);
        assert_fails(g, BERTH_E_CONFLICT, too_early, say(g, "early", 5));
        berth_tls_link_finish(g->link);
        assert_int_equal(g->wire.len, 0);
        assert_int_equal(SSL_do_handshake(g->client), -1);
        assert_ok(g, carry(g)); /* the link has answered, but its handshake is not complete */
        size_t sent = g->wire.len;
        assert_true(sent > 0);
        assert_fails(g, BERTH_E_CONFLICT, too_early, say(g, "early", 5));
        berth_tls_link_finish(g->link);
        assert_int_equal(g->wire.len, sent);
        assert_ok(g, shake_hands(g));
        assert_int_equal(listen_client(g), SSL_ERROR_WANT_READ);
        assert_int_equal(g->heard.len, 0);
        assert_works(g);
        hang_up(g);
    }
}

static void on_plain_may_write(void **state)
{
    struct ground *g = *state;
    auto_free char *bytes = pattern(MIB);
    greet(g, 0);
    g->echo = true;
    client_says(g, bytes, MIB);
    assert_int_equal(g->written, BERTH_OK);
    assert_int_equal(listen_client(g), SSL_ERROR_WANT_READ);
    assert_holds(&g->plain, bytes, MIB);
    assert_holds(&g->heard, bytes, MIB);
    berth_buf_clear(&g->heard);
    g->finish_inside = true;
    client_says(g, "last", 4);
    assert_int_equal(listen_client(g), SSL_ERROR_ZERO_RETURN);
    assert_holds(&g->heard, "last", 4);
    client_says(g, "and more", 8); /* is heard, and cannot be answered */
    assert_int_equal(g->written, BERTH_E_CONFLICT);
    assert_int_equal(g->plain.len, MIB + 12);
}

/* The client wants new keys, and that we change ours. */
static void keys_may_be_changed(void **state)
{
    struct ground *g = *state;
    greet(g, TLS1_3_VERSION);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(SSL_key_update(g->client, SSL_KEY_UPDATE_REQUESTED), 1);
        assert_works(g);
    }
}

/* Told no, it may go on with what it has; OpenSSL's client does not. */
static void nothing_is_negotiated_again(void **state)
{
    struct ground *g = *state;
    greet(g, TLS1_2_VERSION);
    size_t sent = g->wire.len;
    ERR_clear_error();
    assert_int_equal(SSL_renegotiate(g->client), 1);
    (void)SSL_do_handshake(g->client);
    assert_ok(g, carry(g));
    assert_true(g->wire.len > sent); /* an alert, no handshake */
    assert_int_equal(g->wire.data[sent], SSL3_RT_ALERT);
    assert_true(g->wire.len - sent < 64);
    assert_int_equal(listen_client(g), SSL_ERROR_SSL);
}

/* --- ends --- */

static void client_says_the_end(void **state)
{
    struct ground *g = *state;
    static const int versions[] = {TLS1_3_VERSION, TLS1_2_VERSION};
    for (int i = 0; i < 2; i++) {
        greet(g, versions[i]);
        client_says(g, "that is all", 11);
        assert_false(g->ended);
        assert_int_equal(SSL_shutdown(g->client), 0);
        assert_ok(g, carry(g));
        assert_true(g->ended);
        assert_holds(&g->plain, "that is all", 11);
        assert_ok(g, say(g, "so be it", 8)); /* our half is still there */
        assert_int_equal(listen_client(g), SSL_ERROR_WANT_READ);
        assert_holds(&g->heard, "so be it", 8);
        assert_ok(g, feed(g, "what comes after it", 19));
        assert_true(g->ended);
        assert_int_equal(g->plain.len, 11);
        berth_tls_link_finish(g->link);
        assert_int_equal(listen_client(g), SSL_ERROR_ZERO_RETURN);
        hang_up(g);
    }
}

static void link_says_the_end(void **state)
{
    struct ground *g = *state;
    static const int versions[] = {TLS1_3_VERSION, TLS1_2_VERSION};
    for (int i = 0; i < 2; i++) {
        greet(g, versions[i]);
        assert_ok(g, say(g, "bye", 3));
        berth_tls_link_finish(g->link);
        size_t sent = g->wire.len;
        berth_tls_link_finish(g->link); /* twice is fine */
        assert_int_equal(g->wire.len, sent);
        assert_fails(g, BERTH_E_CONFLICT, "The TLS connection is finished", say(g, "x", 1));
        assert_int_equal(listen_client(g), SSL_ERROR_ZERO_RETURN);
        assert_holds(&g->heard, "bye", 3);
        client_says(g, "one more thing", 14);
        assert_holds(&g->plain, "one more thing", 14);
        assert_false(g->ended);
        assert_int_equal(SSL_shutdown(g->client), 1);
        assert_ok(g, carry(g));
        assert_true(g->ended);
        hang_up(g);
    }
}

static void link_outlives_what_made_it(void **state)
{
    struct ground *g = *state;
    connect_with(g, 0, "\x08http/1.1");
    berth_tls_close(take_ptr(g->tls));
    assert_ok(g, shake_hands(g));
    assert_works(g);
    berth_tls_close(NULL);
    berth_tls_link_free(NULL);
}

/* --- garbage --- */

static void plain_http_is_refused(void **state)
{
    struct ground *g = *state;
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    open_link(g);
    assert_fails(g, BERTH_E_INVALID, "The TLS handshake failed: http request.",
                 feed(g, request, sizeof request - 1));
    assert_int_equal(g->wire.len, ALERT_BYTES);
    assert_alert(g, SSL_AD_UNEXPECTED_MESSAGE);
    assert_useless(g);
    hang_up(g);
    open_link(g); /* byte by byte it fails as soon as it can be told */
    int rc = BERTH_OK;
    size_t fed = 0;
    while (rc == BERTH_OK && fed < sizeof request)
        rc = feed(g, request + fed++, 1);
    assert_int_equal(rc, BERTH_E_INVALID);
    assert_true(fed <= 12);
    assert_int_equal(g->wire.len, ALERT_BYTES);
}

static void garbage_is_refused(void **state)
{
    struct ground *g = *state;
    unsigned seed = 7;
    for (int i = 0; i < 2000; i++) {
        char bytes[256];
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = (char)(rand_r(&seed) >> 7);
        if (i % 2) /* the head of a record, and of a ClientHello in it */
            memcpy(bytes, "\x16\x03\x01\x00\xfb\x01\x00\x00\xf7\x03\x03", 11);
        open_link(g);
        int rc = feed(g, bytes, sizeof bytes);
        if (i % 2)
            assert_int_equal(rc, BERTH_E_INVALID);
        if (rc < 0) {
            assert_alert(g, g->wire.data[g->wire.len - 1]);
            assert_useless(g);
        }
        assert_int_equal(g->plain.len, 0);
        hang_up(g);
    }
}

/* Each byte of a good ClientHello is changed in turn; it is a handshake still, or refused. */
static void damaged_handshakes_do_no_harm(void **state)
{
    struct ground *g = *state;
    connect_with(g, 0, "\x08http/1.1");
    assert_int_equal(SSL_do_handshake(g->client), -1);
    char hello[2048];
    int len = BIO_read(g->from_client, hello, sizeof hello);
    assert_true(len > 100);
    hang_up(g);
    for (int i = 0; i < len; i++) {
        hello[i] ^= 0x55;
        open_link(g);
        if (feed(g, hello, (size_t)len) < 0)
            assert_useless(g);
        hang_up(g);
        hello[i] ^= 0x55;
    }
}

static void damaged_records_are_refused(void **state)
{
    struct ground *g = *state;
    static const int versions[] = {TLS1_3_VERSION, TLS1_2_VERSION};
    for (int i = 0; i < 2; i++) {
        greet(g, versions[i]);
        size_t sent;
        assert_int_equal(SSL_write_ex(g->client, "good", 4, &sent), 1);
        assert_int_equal(SSL_write_ex(g->client, "bad", 3, &sent), 1);
        char bytes[256];
        int len = BIO_read(g->from_client, bytes, sizeof bytes);
        assert_true(len > 0);
        bytes[len - 1] ^= 1;
        size_t before = g->wire.len;
        assert_fails(g, BERTH_E_INVALID,
                     "The TLS connection failed: decryption failed or bad record mac.",
                     feed(g, bytes, (size_t)len));
        assert_holds(&g->plain, "good", 4);
        assert_true(g->wire.len > before);
        assert_int_equal(listen_client(g), SSL_ERROR_SSL);
        assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_SSLV3_ALERT_BAD_RECORD_MAC);
        assert_useless(g);
        hang_up(g);
    }
}

/* A ClientHello that would be allowed, in records of one byte each: most of it is heads. */
static void endless_handshake_is_refused(void **state)
{
    struct ground *g = *state;
    static const char head[] = {1, 1, (char)0xff, 0};
    int rc = BERTH_OK;
    size_t fed = 0;
    open_link(g);
    for (size_t i = 0; rc == BERTH_OK && fed < MIB; i++, fed += 6) {
        char record[6] = {SSL3_RT_HANDSHAKE, 3, 1, 0, 1, i < sizeof head ? head[i] : 0};
        rc = feed(g, record, sizeof record);
    }
    assert_int_equal(rc, BERTH_E_INVALID);
    assert_string_equal(g->err.message, "The TLS handshake failed: it is too long.");
    assert_in_range(fed, BERTH_TLS_HANDSHAKE_BYTES_MAX, BERTH_TLS_HANDSHAKE_BYTES_MAX + 6);
    assert_alert(g, SSL_AD_UNEXPECTED_MESSAGE);
    assert_useless(g);
}

/* --- files --- */

static void assert_refused_at(struct ground *g, const char *format, const char *path, int line)
{
    char text[512];
    (void)snprintf(text, sizeof text, format, path, path);
    assert_fails_at(open_tls(g), BERTH_E_INVALID, text, &g->err, format, __FILE__, line);
    assert_null(g->tls);
}
#define assert_refused(g, format, path) assert_refused_at(g, format, path, __LINE__)

static void missing_files_are_told(void **state)
{
    struct ground *g = *state;
    assert_int_equal(unlink(g->key), 0);
    assert_refused(g, "The TLS key file %s does not exist: put it there, or name another.", g->key);
    assert_int_equal(unlink(g->certificate), 0);
    assert_refused(g, "The TLS certificate file %s does not exist: put it there, or name another.",
                   g->certificate);
}

static void other_things_are_no_files(void **state)
{
    struct ground *g = *state;
    char key[96], certificate[96];
    (void)snprintf(key, sizeof key, "%s/real", g->directory);
    assert_int_equal(rename(g->key, key), 0);
    assert_int_equal(symlink(key, g->key), 0);
    assert_refused(g, "The TLS key file %s is a symbolic link: name the file that it leads to.",
                   g->key);
    assert_int_equal(unlink(g->key), 0);
    assert_int_equal(mkfifo(g->key, 0600), 0);
    assert_refused(g, "The TLS key file %s is not a file: name the file itself.", g->key);
    assert_int_equal(unlink(g->key), 0);
    assert_int_equal(mkdir(g->key, 0700), 0);
    assert_refused(g, "The TLS key file %s is not a file: name the file itself.", g->key);
    assert_int_equal(rmdir(g->key), 0);
    assert_int_equal(rename(key, g->key), 0);
    (void)snprintf(certificate, sizeof certificate, "%s/chain", g->directory);
    assert_int_equal(rename(g->certificate, certificate), 0);
    assert_int_equal(mkfifo(g->certificate, 0600), 0);
    assert_refused(g, "The TLS certificate file %s is not a file: name the file itself.",
                   g->certificate);
    assert_int_equal(unlink(g->certificate), 0);
    assert_int_equal(symlink(certificate, g->certificate), 0); /* a certificate is not secret */
    assert_ok(g, open_tls(g));
}

static void key_is_its_owners_alone(void **state)
{
    struct ground *g = *state;
    for (unsigned bits = 1; bits <= 077; bits++) {
        char text[256];
        assert_int_equal(chmod(g->key, 0600 | bits), 0);
        (void)snprintf(text, sizeof text,
                       "The TLS key file %%s is open to others (permissions %04o): run chmod 600 "
                       "%%s",
                       0600 | bits);
        assert_refused(g, text, g->key);
    }
    assert_int_equal(chmod(g->key, 0400), 0);
    assert_int_equal(chmod(g->certificate, 0644), 0);
    assert_ok(g, open_tls(g));
}

static void key_of_another_user_is_refused(void **state)
{
    struct ground *g = *state;
    if (geteuid() != 0)
        return;
    assert_int_equal(chown(g->key, NOBODY, NOBODY), 0);
    assert_refused(g,
                   "The TLS key file %s belongs to uid 65534, not to us (uid 0) or root: run as "
                   "its owner, or chown 0 %s",
                   g->key);
    assert_int_equal(chown(g->key, 0, 0), 0);
    assert_int_equal(chmod(g->directory, 0755), 0);
    assert_int_equal(chmod(g->certificate, 0644), 0);
    assert_int_equal(seteuid(NOBODY), 0);
    int rc = berth_tls_open(g->certificate, g->key, &g->tls, &g->err);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(rc, BERTH_E_INVALID);
    assert_non_null(strstr(g->err.message, "may not be read by us (uid 65534): run as its owner, "
                                           "or chown 65534 "));
}

static void what_is_no_pem_is_refused(void **state)
{
    struct ground *g = *state;
    static const char *const none[] = {"", "hello\n", "-----BEGIN", "-----BEGIN DOG-----\n"};
    for (int i = 0; i < 4; i++) {
        write_text(g->key, none[i]);
        assert_refused(g,
                       "The TLS key file %s holds no private key in PEM, or a damaged one: put "
                       "the certificate's key there.",
                       g->key);
    }
    write_text(g->key, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    assert_refused(g, "The TLS key file %s holds no private key in PEM, or a damaged one", g->key);
    for (int i = 0; i < 3; i++) {
        write_text(g->certificate, none[i]);
        assert_refused(g,
                       "The TLS certificate file %s holds no certificate in PEM: put the chain "
                       "there, the server's own first.",
                       g->certificate);
    }
    write_text(g->certificate, "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n");
    assert_refused(
        g, "The TLS certificate file %s cannot be used (bad base64 decode): put a good one there.",
        g->certificate);
}

static void swapped_files_are_refused(void **state)
{
    struct ground *g = *state;
    struct ground other = {0};
    memcpy(other.certificate, g->key, sizeof other.certificate);
    memcpy(other.key, g->certificate, sizeof other.key);
    assert_int_equal(chmod(g->certificate, 0600), 0);
    assert_refused(&other, "The TLS certificate file %s holds no certificate in PEM", g->key);
    memcpy(other.certificate, g->certificate, sizeof other.certificate);
    assert_refused(&other, "The TLS key file %s holds no private key in PEM", g->certificate);
}

static void chain_that_is_cut_off_is_refused(void **state)
{
    struct ground *g = *state;
    EVP_PKEY *key = new_key();
    X509 *x = new_certificate("Middle CA", key, NULL, NULL, -DAY, DAY);
    struct stat one;
    assert_int_equal(stat(g->certificate, &one), 0);
    write_certificate(g->certificate, "ae", x);
    assert_ok(g, open_tls(g));
    berth_tls_close(take_ptr(g->tls));
    assert_int_equal(truncate(g->certificate, one.st_size + 200), 0);
    assert_refused(g, "The TLS certificate file %s cannot be used (", g->certificate);
    X509_free(x);
    EVP_PKEY_free(key);
}

static void files_have_a_limit(void **state)
{
    struct ground *g = *state;
    assert_int_equal(truncate(g->key, BERTH_TLS_FILE_BYTES_MAX + 1), 0);
    assert_refused(g, "The TLS key file %s is longer than 262144 bytes: name the right file.",
                   g->key);
    assert_int_equal(truncate(g->certificate, BERTH_TLS_FILE_BYTES_MAX + 1), 0);
    assert_refused(g,
                   "The TLS certificate file %s is longer than 262144 bytes: name the right file.",
                   g->certificate);
}

/* Both ways in which a key can be encrypted; a terminal is not asked. */
static void encrypted_key_is_refused(void **state)
{
    struct ground *g = *state;
    EVP_PKEY *key = new_key();
    unsigned char password[] = "secret";
    for (int i = 0; i < 2; i++) {
        make_pair(g, key, -DAY, DAY);
        FILE *file = fopen(g->key, "we");
        assert_non_null(file);
        BIO *bio = BIO_new_fp(file, BIO_NOCLOSE);
        assert_int_equal(
            i ? PEM_write_bio_PrivateKey_traditional(bio, key, EVP_aes_128_cbc(), password, 6, NULL,
                                                     NULL)
              : PEM_write_bio_PrivateKey(bio, key, EVP_aes_256_cbc(), password, 6, NULL, NULL),
            1);
        BIO_free(bio);
        assert_int_equal(fclose(file), 0);
        assert_refused(g,
                       "The key in the TLS key file %s is encrypted, and berth asks for no "
                       "password: write it without one, with openssl pkey -in %s",
                       g->key);
    }
    EVP_PKEY_free(key);
}

static void key_must_fit(void **state)
{
    struct ground *g = *state;
    EVP_PKEY *others[] = {new_key(), EVP_RSA_gen(2048), EVP_PKEY_Q_keygen(NULL, NULL, "ED25519")};
    for (int i = 0; i < 3; i++) {
        write_key(g->key, others[i]);
        char text[512];
        (void)snprintf(text, sizeof text,
                       "The TLS key %%s does not fit the first certificate in %s: name the key "
                       "that it was made for.",
                       g->certificate);
        assert_refused(g, text, g->key);
        EVP_PKEY_free(others[i]);
    }
}

static void other_kinds_of_keys_work(void **state)
{
    struct ground *g = *state;
    EVP_PKEY *key = EVP_RSA_gen(2048);
    static const int versions[] = {TLS1_3_VERSION, TLS1_2_VERSION};
    make_pair(g, key, -DAY, DAY);
    assert_ok(g, open_tls(g));
    for (int i = 0; i < 2; i++) {
        greet(g, versions[i]);
        assert_works(g);
        hang_up(g);
    }
    EVP_PKEY_free(key);
}

static void weak_key_is_refused(void **state)
{
    struct ground *g = *state;
    EVP_PKEY *key = EVP_RSA_gen(1024);
    make_pair(g, key, -DAY, DAY);
    assert_refused(
        g, "The TLS certificate file %s cannot be used (ee key too small): put a good one there.",
        g->certificate);
    EVP_PKEY_free(key);
}

static void dates_count(void **state)
{
    struct ground *g = *state;
    EVP_PKEY *key = new_key();
    make_pair(g, key, -2 * DAY, -DAY);
    assert_refused(g, "The TLS certificate %s has run out on 20", g->certificate);
    assert_non_null(strstr(g->err.message, " UTC: put a new one there."));
    make_pair(g, key, DAY, 2 * DAY);
    assert_refused(g, "The TLS certificate %s is valid from 20", g->certificate);
    assert_non_null(strstr(g->err.message, " UTC only: put one there that is valid now, or set "
                                           "the clock of this machine."));
    berth_time_shift(INT64_C(1000) * (DAY + 60), 0); /* it is valid then */
    int rc = open_tls(g);
    berth_tls_close(take_ptr(g->tls));
    berth_time_shift(INT64_C(1000) * DAY, 0); /* and not any more */
    int later = open_tls(g);
    berth_time_shift(-INT64_C(1000) * (2 * DAY + 60), 0);
    assert_int_equal(rc, BERTH_OK);
    assert_int_equal(later, BERTH_E_INVALID);
    EVP_PKEY_free(key);
}

#define ON_LINK(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define ON_FILES(test) cmocka_unit_test_setup_teardown(test, set_up_files, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_LINK(both_versions_are_spoken),
        ON_LINK(older_versions_are_refused),
        ON_LINK(weak_ciphers_are_refused),
        ON_LINK(protocol_is_agreed_on),
        ON_LINK(other_protocols_are_refused),
        ON_LINK(whole_chain_is_sent),
        ON_LINK(client_that_does_not_trust_us_leaves),
        ON_LINK(client_may_end_the_handshake),
        ON_LINK(many_handshakes_leave_nothing),
        ON_LINK(bytes_come_whole),
        ON_LINK(bytes_come_one_by_one),
        ON_LINK(nothing_is_fine),
        ON_LINK(bytes_may_follow_the_handshake_at_once),
        ON_LINK(nothing_is_written_before_the_handshake),
        ON_LINK(on_plain_may_write),
        ON_LINK(keys_may_be_changed),
        ON_LINK(nothing_is_negotiated_again),
        ON_LINK(client_says_the_end),
        ON_LINK(link_says_the_end),
        ON_LINK(link_outlives_what_made_it),
        ON_LINK(plain_http_is_refused),
        ON_LINK(garbage_is_refused),
        ON_LINK(damaged_handshakes_do_no_harm),
        ON_LINK(damaged_records_are_refused),
        ON_LINK(endless_handshake_is_refused),
        ON_FILES(missing_files_are_told),
        ON_FILES(other_things_are_no_files),
        ON_FILES(key_is_its_owners_alone),
        ON_FILES(key_of_another_user_is_refused),
        ON_FILES(what_is_no_pem_is_refused),
        ON_FILES(swapped_files_are_refused),
        ON_FILES(chain_that_is_cut_off_is_refused),
        ON_FILES(files_have_a_limit),
        ON_FILES(encrypted_key_is_refused),
        ON_FILES(key_must_fit),
        ON_FILES(other_kinds_of_keys_work),
        ON_FILES(weak_key_is_refused),
        ON_FILES(dates_count),
    };
    if (CRYPTO_set_mem_functions(count_malloc, count_realloc, count_free) != 1)
        return 1;
    return cmocka_run_group_tests_name("tls", tests, NULL, NULL);
}
