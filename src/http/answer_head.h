/* SPDX-License-Identifier: Apache-2.0
 * src/http/answer_head.h - writes the head of an HTTP/1.1 answer. */
#ifndef BERTH_HTTP_ANSWER_HEAD_H
#define BERTH_HTTP_ANSWER_HEAD_H

#include "http/http.h"

#define BERTH_HTTP_ANSWER_HEAD_BYTES_MAX (64 * 1024)
#define BERTH_HTTP_JOINED_BYTES_MAX (16 * 1024) /* a longer body is not copied behind its head */

/* Writes the status line and the headers, without the last header (Connection or
 * Transfer-Encoding) and without the empty line. `endless`: the body's length is not known. */
void berth_http_write_head(struct berth_buf *out, const struct berth_http_answer *answer,
                           const char *request_id, bool endless);
/* Makes `answer` a refusal with a JSON body, whatever it was; an old body is not freed. */
void berth_http_write_refusal(int status, const char *why, struct berth_http_answer *answer);
/* Returns the `code` that the JSON body of a refusal with this status has. */
const char *berth_http_refusal_code(int status);
#endif
