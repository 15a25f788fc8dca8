/* SPDX-License-Identifier: Apache-2.0
 * src/net/http_client.c - see http_client.h: libcurl's multi interface with one transfer, so that a
 * cancellation takes effect at once. */
#include "net/http_client.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/time.h"

#define BEARER "Authorization: Bearer "
#define WAIT_MS 1000

struct asking {
    const struct berth_http_client_request *request;
    struct berth_http_client_reply *reply;
    CURL *easy;
    CURLM *multi;
    struct curl_slist *headers;
    char trouble[CURL_ERROR_SIZE];
    bool enough;  /* on_bytes wants no more */
    bool waits;   /* the source of the body has no byte yet */
    bool stopped; /* the source cannot go on */
    bool overrun; /* the source has more bytes than it said */
    int64_t left; /* of the source's length */
    bool failed;  /* no memory, or too much */
    bool no_list; /* no memory for the headers */
    /* How much was sent and received, and when that changed last. libcurl's own limit is one of
     * speed, and the heartbeats of a stream are slower than its least speed. */
    int64_t moved_bytes, moved_at_ms;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode ready;

static void initialise(void)
{
    ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static void end(struct asking *a)
{
    if (a->multi && a->easy)
        (void)curl_multi_remove_handle(a->multi, a->easy);
    curl_easy_cleanup(a->easy);
    (void)curl_multi_cleanup(a->multi);
    for (struct curl_slist *h = a->headers; h; h = h->next)
        explicit_bzero(h->data, strlen(h->data)); /* one of them is the token */
    curl_slist_free_all(a->headers);
}

static void add_header(struct asking *a, const char *line)
{
    struct curl_slist *more = curl_slist_append(a->headers, line);
    if (more)
        a->headers = more;
    a->no_list |= !more;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *ctx)
{
    struct asking *a = ctx;
    size_t len = size * count;
    long status = 0;
    (void)curl_easy_getinfo(a->easy, CURLINFO_RESPONSE_CODE, &status);
    if (a->request->on_bytes && status >= 200 && status < 300) {
        a->enough = !a->request->on_bytes(a->request->ctx, bytes, len);
        return a->enough ? 0 : len;
    }
    berth_buf_append(&a->reply->body, bytes, len);
    a->failed = a->reply->body.failed;
    return a->failed ? 0 : len;
}

/* Reads the source of the body for libcurl. */
static size_t on_source(char *out, size_t size, size_t count, void *ctx)
{
    struct asking *a = ctx;
    const struct berth_http_client_source *from = a->request->source;
    int64_t got = from->read(from->ctx, out, size * count);
    a->waits = got == BERTH_CLIENT_WAIT;
    if (a->waits)
        return CURL_READFUNC_PAUSE;
    a->stopped = got < 0 || (got == 0 && from->length >= 0 && a->left > 0);
    a->overrun = from->length >= 0 && got > a->left;
    a->left -= got;
    return a->stopped || a->overrun ? CURL_READFUNC_ABORT : (size_t)got;
}

static bool set_source(struct asking *a)
{
    const struct berth_http_client_source *from = a->request->source;
    a->left = from->length;
    return curl_easy_setopt(a->easy, CURLOPT_UPLOAD, 1L) == CURLE_OK &&
           curl_easy_setopt(a->easy, CURLOPT_READFUNCTION, on_source) == CURLE_OK &&
           curl_easy_setopt(a->easy, CURLOPT_READDATA, a) == CURLE_OK &&
           curl_easy_setopt(a->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)from->length) ==
               CURLE_OK;
}

static void set_headers(struct asking *a)
{
    const struct berth_http_client_request *r = a->request;
    char token[sizeof BEARER + BERTH_TOKEN_BYTES_MAX] = BEARER;
    for (const char *const *h = r->headers; h && *h; h++)
        add_header(a, *h);
    if (r->cookie)
        add_header(a, r->cookie);
    if (r->body)
        add_header(a, "Expect:"); /* what we send is short */
    if (r->source)
        add_header(a, "Expect: 100-continue");
    if (r->token) {
        memcpy(token + strlen(BEARER), r->token->bytes, r->token->len);
        token[strlen(BEARER) + r->token->len] = '\0';
        add_header(a, token);
        explicit_bzero(token, sizeof token);
    }
}

static int http_client_prepare(struct asking *a, struct berth_error *err)
{
    const struct berth_http_client_request *r = a->request;
    for (size_t i = 0; r->token && i < r->token->len; i++)
        if (r->token->len > BERTH_TOKEN_BYTES_MAX || ((const char *)r->token->bytes)[i] < '!' ||
            ((const char *)r->token->bytes)[i] > '~')
            return berth_fail(err, BERTH_E_INVALID, "The token is none: it is one word.");
    (void)pthread_once(&once, initialise);
    a->easy = ready == CURLE_OK ? curl_easy_init() : NULL;
    a->multi = a->easy ? curl_multi_init() : NULL;
    if (a->multi)
        set_headers(a);
    if (!a->multi || a->no_list)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: request.");
    CURL *e = a->easy;
    bool set = curl_easy_setopt(e, CURLOPT_URL, r->url) == CURLE_OK &&
               curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, r->method) == CURLE_OK &&
               curl_easy_setopt(e, CURLOPT_HTTPHEADER, a->headers) == CURLE_OK &&
               curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
               curl_easy_setopt(e, CURLOPT_PROXY, "") == CURLE_OK &&
               curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
               curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
               curl_easy_setopt(e, CURLOPT_ERRORBUFFER, a->trouble) == CURLE_OK &&
               curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
               curl_easy_setopt(e, CURLOPT_WRITEDATA, a) == CURLE_OK &&
               curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK &&
               curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)r->connect_ms) == CURLE_OK &&
               curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)r->timeout_ms) == CURLE_OK;
    if (set && r->stall_ms)
        set = curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L) == CURLE_OK;
    if (set && strcmp(r->method, "HEAD") == 0)
        set = curl_easy_setopt(e, CURLOPT_NOBODY, 1L) == CURLE_OK;
    if (set && r->socket)
        set = curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, r->socket) == CURLE_OK;
    if (set && r->ca_file)
        set = curl_easy_setopt(e, CURLOPT_CAINFO, r->ca_file) == CURLE_OK;
    if (set && r->body)
        set =
            curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body_len) == CURLE_OK &&
            curl_easy_setopt(e, CURLOPT_POSTFIELDS, r->body) == CURLE_OK;
    if (set && r->source)
        set = set_source(a);
    if (!set || curl_multi_add_handle(a->multi, e) != CURLM_OK)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: request.");
    return BERTH_OK;
}

static int fail_transfer(const struct asking *a, CURLcode code, struct berth_error *err)
{
    const char *why = a->trouble[0] ? a->trouble : curl_easy_strerror(code);
    switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return berth_fail(err, BERTH_E_INVALID,
                          "\"%.200s\" is no URL: write http://host:port or https://host.",
                          a->request->url);
    case CURLE_OPERATION_TIMEDOUT:
        return berth_fail(err, BERTH_E_TIMEOUT, "%.200s did not answer in time.", a->request->url);
    case CURLE_OUT_OF_MEMORY:
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: request.");
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
        return berth_fail(err, BERTH_E_DENIED, "%.200s is not who it should be: %.300s",
                          a->request->url, why);
    default:
        return berth_fail(err, BERTH_E_UNAVAILABLE, "Cannot reach %.200s: %.300s",
                          a->request->socket ? a->request->socket : a->request->url, why);
    }
}

/* Waits until there is something to do. CANCELLED: by cancel_fd. */
static int http_client_wait(struct asking *a, struct berth_error *err)
{
    int cancel_fd = a->request->cancel_fd, more_fd = a->waits ? a->request->source->ready_fd : -1;
    struct curl_waitfd fds[2];
    unsigned count = 0;
    if (cancel_fd >= 0)
        fds[count++] = (struct curl_waitfd){.fd = cancel_fd, .events = CURL_WAIT_POLLIN};
    if (more_fd >= 0)
        fds[count++] = (struct curl_waitfd){.fd = more_fd, .events = CURL_WAIT_POLLIN};
    if (curl_multi_poll(a->multi, fds, count, WAIT_MS, NULL) != CURLM_OK)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: request.");
    if (cancel_fd >= 0 && fds[0].revents)
        return berth_fail(err, BERTH_E_CANCELLED, "The call was cancelled.");
    if (more_fd >= 0 && fds[count - 1].revents)
        (void)curl_easy_pause(a->easy, CURLPAUSE_CONT); /* reads the source again */
    return BERTH_OK;
}

/* Fails with TIMEOUT when nothing has moved for the time that the request allows. */
static int check_stall(struct asking *a, struct berth_error *err)
{
    curl_off_t received = 0, sent = 0;
    long head = 0, request = 0;
    (void)curl_easy_getinfo(a->easy, CURLINFO_SIZE_DOWNLOAD_T, &received);
    (void)curl_easy_getinfo(a->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
    (void)curl_easy_getinfo(a->easy, CURLINFO_HEADER_SIZE, &head);
    (void)curl_easy_getinfo(a->easy, CURLINFO_REQUEST_SIZE, &request);
    int64_t bytes = received + sent + head + request, now_ms = berth_time_mono_ms();
    if (bytes != a->moved_bytes || !a->moved_at_ms) {
        a->moved_bytes = bytes;
        a->moved_at_ms = now_ms;
    }
    if (!a->request->stall_ms || now_ms - a->moved_at_ms < a->request->stall_ms)
        return BERTH_OK;
    return fail_transfer(a, CURLE_OPERATION_TIMEDOUT, err);
}

/* Runs the transfer until it ends or is cancelled. */
static int transfer(struct asking *a, struct berth_error *err)
{
    for (;;) {
        int running, left;
        if (curl_multi_perform(a->multi, &running) != CURLM_OK)
            return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: request.");
        for (const CURLMsg *said; (said = curl_multi_info_read(a->multi, &left));)
            if (said->msg == CURLMSG_DONE) {
                CURLcode code = said->data.result;
                if (code == CURLE_OK || a->enough)
                    return BERTH_OK;
                if (a->failed)
                    return berth_buf_check(&a->reply->body, "The answer", err);
                if (a->overrun)
                    return berth_fail(err, BERTH_E_TOO_LARGE,
                                      "The body has more than the announced %lld bytes.",
                                      (long long)a->request->source->length);
                if (a->stopped)
                    return berth_fail(err, BERTH_E_CANCELLED, "The body to be sent broke off.");
                return fail_transfer(a, code, err);
            }
        int rc = check_stall(a, err);
        if (rc == BERTH_OK)
            rc = http_client_wait(a, err);
        if (rc < 0)
            return rc;
    }
}

int berth_http_client_ask(const struct berth_http_client_request *request,
                          struct berth_http_client_reply *reply, struct berth_error *err)
{
    struct asking a = {.request = request, .reply = reply};
    *reply = (struct berth_http_client_reply){.body = BERTH_BUF_INIT(request->answer_max)};
    int rc = http_client_prepare(&a, err);
    if (rc == BERTH_OK)
        rc = transfer(&a, err);
    if (rc == BERTH_OK) {
        long status = 0;
        const char *type = NULL;
        (void)curl_easy_getinfo(a.easy, CURLINFO_RESPONSE_CODE, &status);
        (void)curl_easy_getinfo(a.easy, CURLINFO_CONTENT_TYPE, &type);
        reply->status = (int)status;
        (void)snprintf(reply->type, sizeof reply->type, "%s", type ? type : "");
    } else {
        berth_buf_clear(&reply->body);
    }
    end(&a);
    return rc;
}
