/* SPDX-License-Identifier: Apache-2.0
 * src/http/conn.h - the inside of the HTTP server, shared by the files of this folder: server.c
 * accepts connections, conn.c moves a connection through its phases, body.c reads the body of a
 * request, exchange.c holds a request and sends its answer, stream.c sends an answer that goes on.
 *
 * Everything runs on the engine's loop thread, except what is marked otherwise. */
#ifndef BERTH_HTTP_CONN_H
#define BERTH_HTTP_CONN_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/budget.h"
#include "base/id.h"
#include "http/http.h"
#include "os/engine.h"

#define BERTH_HTTP_ADDRESSES_MAX 40

/* An address that the server listens at. */
struct berth_http_listening {
    struct berth_http_server *server;
    struct berth_listener *listener;
    const struct berth_http_secure *secure; /* NULL: plain bytes */
};

struct berth_http_server {
    struct berth_engine *engine;
    struct berth_http_settings settings;
    struct berth_http_handlers handlers;
    struct berth_http_listening addresses[BERTH_HTTP_ADDRESSES_MAX];
    int address_count;
    struct berth_budget *bodies;  /* that are or were collected for open exchanges */
    struct berth_budget *answers; /* that wait to be sent, except short ones */

    pthread_mutex_t lock;   /* of the counters below */
    pthread_cond_t changed; /* signalled when a counter goes down */
    int connections;        /* open now; only the loop thread changes it */
    int remote;             /* those of them that came by TCP */
    int exchanges;          /* requests whose answer has not been sent yet */
    int streams;            /* those of them whose answer is a stream */
    int64_t requests;       /* since the server was opened */

    /* Only the loop thread uses these: */
    struct berth_http_conn *first;
    struct berth_http_conn *strangers, **strangers_end; /* see conn.c; the one idle longest first */
    int evicted;             /* connections that are being closed to make room */
    int64_t full_told_at_ms; /* when on_full was called last; 0: never */
    bool draining; /* new connections are refused, and each connection ends with its answer */
};

/* Counts a new connection. Returns false, and counts nothing, when the server is full or drains.
 * May close a connection whose client is not trusted. */
bool berth_http_server_admit(struct berth_http_server *server, bool local);
/* Uncounts a connection; the server may be freed as soon as this returns. */
void berth_http_server_dismiss(struct berth_http_server *server, bool local);

enum berth_http_phase {
    BERTH_HTTP_IDLE,      /* between two requests */
    BERTH_HTTP_READING,   /* a head is incomplete */
    BERTH_HTTP_ASKING,    /* the handler has the head; it has not asked for the body yet */
    BERTH_HTTP_RECEIVING, /* the handler has asked for the body, which is incomplete */
    BERTH_HTTP_WAITING,   /* the request is complete and not answered yet */
    BERTH_HTTP_STREAMING, /* an answer that goes on has begun */
    BERTH_HTTP_SENDING,   /* the answer is made but not sent yet; the next request waits */
    BERTH_HTTP_REFUSING,  /* the last bytes are on their way, and nothing more is read */
};

/* One connection. It has one request at a time: bytes behind that request wait in `waiting` up to
 * BERTH_HTTP_WAITING_BYTES_MAX, and then in the client. */
struct berth_http_conn {
    struct berth_http_conn *next, **link; /* among the server's */
    struct berth_http_server *server;
    struct berth_socket *socket;
    const struct berth_http_secure *secure; /* NULL: plain bytes */
    void *tls;                              /* the link that `secure` opened */
    bool local;                             /* came by a Unix socket */
    bool trusted;                           /* is local, or its last request was trusted */
    bool evicted;                           /* is being closed to make room for another */
    struct berth_http_conn *next_stranger, **stranger_link; /* link is NULL: not among them */
    bool ended; /* the client sends nothing more, but may read */
    struct berth_http_reader reader;
    enum berth_http_phase phase;
    struct berth_buf waiting;
    const char *rest; /* of an answer's body, not written yet */
    size_t rest_len;
    struct berth_buf rest_body;      /* where `rest` lies, unless it is fixed */
    struct berth_charge rest_charge; /* of rest_body, until the client has taken all of it */
    int64_t rest_end_ms;             /* when it must have; 0: no long body is on its way */
    bool last;                       /* while SENDING: the connection ends behind the answer */
    struct berth_timer timer;
    struct berth_http_exchange *exchange; /* from ASKING to STREAMING; NULL: the client left */
    uint64_t sent;                        /* bytes sent when the timer was set */
};

/* Takes over a socket that was accepted at `address`; closes it when the server is full. */
void berth_http_conn_open(const struct berth_http_listening *address, struct berth_socket *socket);
/* Detaches the exchange from its connection, and remembers whether it was trusted. */
void berth_http_conn_detach(struct berth_http_conn *c);
/* Closes the connection to make room for another one. */
void berth_http_conn_evict(struct berth_http_conn *c);
/* Changes the phase. Asserts that this change is one that may happen. */
void berth_http_conn_enter(struct berth_http_conn *c, enum berth_http_phase phase);
/* Sets the timer for what the connection waits for now. */
void berth_http_conn_set_deadline(struct berth_http_conn *c);
/* Writes bytes, through TLS when the connection has it. May find that the client has left. */
void berth_http_conn_write(struct berth_http_conn *c, const char *bytes, size_t len);
/* Writes an answer whose head lacks its end; `body` and the charge for it are taken over. Closes
 * the connection when memory ran out. */
void berth_http_conn_send(struct berth_http_conn *c, struct berth_buf *head, struct berth_buf *body,
                          struct berth_charge *charge, bool keep_alive);
/* Writes a body that is not copied, as the client takes it. */
void berth_http_conn_send_fixed(struct berth_http_conn *c, const char *bytes, size_t len);
/* Goes on with the next request, or ends the connection, when all of the answer is written. */
void berth_http_conn_end_answer(struct berth_http_conn *c, bool keep_alive);
/* Gives the bytes that wait to the stream of the connection. */
void berth_http_conn_hand_on_waiting(struct berth_http_conn *c);
/* Reads the bytes that wait, and then those of the socket: there is room for them now. */
void berth_http_conn_read_waiting(struct berth_http_conn *c);
/* Ends the connection at once, and tells its exchange that the client is gone. */
void berth_http_conn_leave(struct berth_http_conn *c);
/* Answers with an error, ends the connection, and tells the exchange that its client is gone. */
void berth_http_conn_refuse(struct berth_http_conn *c, int status, const char *why);

/* A request and its answer. It outlives its connection when the client leaves first. */
struct berth_http_exchange {
    struct berth_post post;
    struct berth_http_server *server;
    struct berth_http_conn *conn; /* only for the loop thread; NULL: the client has left */
    struct berth_http_head head;
    struct berth_buf head_bytes, body; /* `head` points into head_bytes */
    struct berth_peer peer;
    struct berth_id id;
    struct berth_buf answer_head, answer_body;
    const char *answer_fixed; /* NULL: the body is answer_body */
    size_t answer_fixed_len;
    struct berth_http_stream_handlers stream; /* on_gone is also used before a stream begins */
    struct berth_http_body_handlers body_on;
    size_t body_at; /* how much of a body that was at hand its reader has taken */
    struct berth_charge body_charge, answer_charge;
    bool body_whole;  /* the request is complete */
    bool body_early;  /* it came with the head: the handler has not been called yet */
    bool body_wanted; /* berth_http_body_read was called, and its end is not told yet */
    bool body_held;   /* on_bytes did not take all */
    bool streams, chunked, shared, secure;
    _Atomic int left_fd; /* -1: not requested yet */
    _Atomic bool left, answered, trusted;
    char owner[BERTH_ID_SIZE]; /* once it is trusted; "": none */
};

/* Takes a piece of the body from the reader. Returns how many bytes wait because the body's reader
 * did not take them. */
size_t berth_http_body_take_piece(struct berth_http_exchange *x);
/* Tells that the request is complete: to the server's handler when the body came early, else to the
 * body's reader. */
void berth_http_body_end(struct berth_http_exchange *x);
/* Tells the body's reader, if there is one, that the rest does not come. */
void berth_http_body_leave(struct berth_http_exchange *x);
/* Frees a collected body. Called when its exchange is freed. */
void berth_http_body_free(struct berth_http_exchange *x);

/* Makes an exchange of the head that the connection has read, and counts it. Returns NULL when
 * memory ran out. */
struct berth_http_exchange *berth_http_exchange_new(struct berth_http_conn *c);
/* Frees the exchange and uncounts it; the server may be freed as soon as this returns. */
void berth_http_exchange_free(struct berth_http_exchange *x);
/* Returns whose memory the exchange uses, or NULL while that is not known. */
const char *berth_http_exchange_owner(const struct berth_http_exchange *x);
/* Tells the exchange, if there is one, that its client has left, and detaches it. */
void berth_http_exchange_leave(struct berth_http_conn *c);
/* Tells the exchange that its client has left or only waits for the answer. The answer is sent. */
void berth_http_exchange_doubt(struct berth_http_exchange *x);
/* Writes the head of an answer to this request, as berth_http_write_head does. */
void berth_http_exchange_write_head(const struct berth_http_exchange *x,
                                    const struct berth_http_answer *answer, bool endless,
                                    struct berth_buf *out);
#endif
